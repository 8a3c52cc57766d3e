//! The refused request and its process.
//!
//! ```text
//! name: page allocation failure: order:5, mode:0xcc0(GFP_KERNEL), nodemask=(null),cpuset=/,...
//! name invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
//! name: vmalloc error: size 4096, vm_struct allocation failed, mode:0xcc0(GFP_KERNEL), ...
//! name: page allocation stalls for 11222ms, order:10, mode:0xcc0(GFP_KERNEL), nodemask=(null)
//! CPU: 0 PID: 12 Comm: name Not tainted 5.4.0 #1
//! ```

use serde::Serialize;

use super::comm;
use super::gfp::Gfp;
use super::kernel::Version;
use super::zone::number;

/// The kind of a report: a refusal, a kill, a stall or a dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReportKind {
    /// The page allocator returned nothing.
    PageAllocationFailure,
    /// The OOM killer ran for the whole machine, a cpuset or a memory policy.
    Oom,
    /// The OOM killer ran for a memory cgroup.
    MemcgOom,
    /// `vmalloc` failed: no addresses, or no pages.
    Vmalloc,
    /// A request, or a task in reclaim, has waited for long.
    Stall,
    /// A dump without a refused request, or a kill that was asked for.
    #[default]
    Other,
}

/// The line of a refused request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: ReportKind,
    pub(super) comm: Option<String>,
    pub(super) order: Option<i32>,
    pub(super) gfp: Option<String>,
    pub(super) nodemask: Option<String>,
    pub(super) cpuset: Option<String>,
    pub(super) mems_allowed: Option<String>,
    pub(super) oom_score_adj: Option<i32>,
    pub(super) waited_ms: Option<u64>,
    pub(super) vmalloc: Option<Vmalloc>,
    /// The line is of a task that hangs; it counts only if its trace is in reclaim.
    pub(super) is_hung_task: bool,
    pub(super) pid: Option<i64>,
}

/// A refused `vmalloc`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Vmalloc {
    /// Bytes asked for, as printed. 0 where the kernel prints the pages it still missed.
    pub bytes: Option<u64>,
    /// The kernel's words after the size: `vm_struct allocation failed`, ...
    pub problem: Option<String>,
}

/// The process that asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Task {
    /// Name of the thread.
    pub comm: Option<String>,
    /// Thread id.
    pub pid: Option<i64>,
    /// User.
    pub uid: Option<u32>,
    /// CPU that it ran on.
    pub cpu: Option<u32>,
}

/// Everything up to a separator that ends values: comma or blank. True if the text ends there.
fn value_and_end<'a>(text: &'a str, key: &str) -> Option<(&'a str, bool)> {
    let at = text.find(key)?;
    let rest = &text[at + key.len()..];
    let end = rest.find([',', ' ']).unwrap_or(rest.len());
    (end > 0).then(|| (&rest[..end], end == rest.len()))
}

/// A value after a key; one at the end of a text that may be cut is none.
pub(super) fn value_after<'a>(text: &'a str, key: &str, is_open_ended: bool) -> Option<&'a str> {
    let (value, is_last) = value_and_end(text, key)?;
    (!(is_last && is_open_ended)).then_some(value)
}

/// A number after a key. A number at the very end of a text that may be cut is none.
pub(super) fn number_after<T: std::str::FromStr>(
    text: &str,
    key: &str,
    is_open_ended: bool,
) -> Option<T> {
    let (value, is_last) = value_and_end(text, key)?;
    let digits = value.trim_end_matches(|c: char| !c.is_ascii_digit());
    if digits.is_empty() || (is_last && is_open_ended && digits.len() == value.len()) {
        return None;
    }
    digits.parse().ok()
}

/// The flags after `gfp_mask=` or `mode:`; the list in parentheses has no blanks.
fn flags(text: &str, is_open_ended: bool) -> Option<String> {
    let at = ["gfp_mask=", "mode:"].iter().find_map(|key| Some(text.find(key)? + key.len()))?;
    let rest = text[at..].trim_start();
    let end = match (rest.find('('), rest.find([',', ' '])) {
        (Some(open), stop) if stop.is_none_or(|stop| open < stop) => {
            rest.find(')').map_or(rest.len(), |close| close + 1)
        }
        // A blank between number and list is left by a wrapped line.
        (Some(open), Some(stop)) if rest[stop..].trim_start().starts_with('(') && open > stop => {
            let number = &rest[..stop];
            let close = rest[open..].find(')')? + open;
            return Some(format!("{number}{}", &rest[open..=close]));
        }
        (_, Some(stop)) => stop,
        (_, None) if is_open_ended => return None,
        (_, None) => rest.len(),
    };
    (end > 2).then(|| rest[..end].to_owned())
}

impl Head {
    /// Reads the line; none if it is not one.
    pub(super) fn read(text: &str, is_open_ended: bool) -> Option<Head> {
        let Some((at, kind, words)) = comm::words(text) else {
            return Head::hung(text).or_else(|| Head::waiting(text, is_open_ended));
        };
        let rest = &text[at..];
        let mut head = Head {
            kind,
            comm: comm::name(&text[..at]).map(str::to_owned),
            gfp: flags(rest, is_open_ended),
            nodemask: value_after(rest, "nodemask=", is_open_ended).map(str::to_owned),
            cpuset: value_after(rest, "cpuset=", is_open_ended).map(str::to_owned),
            oom_score_adj: number_after(rest, "oom_score_adj=", is_open_ended),
            waited_ms: number_after(rest, "stalls for ", false),
            ..Head::default()
        };
        head.mems_allowed = mems_allowed(rest, is_open_ended);
        head.order = number_after(rest, "order=", is_open_ended)
            .or_else(|| number_after(rest, "order:", is_open_ended))
            .or_else(|| number_after(rest, "page order ", is_open_ended));
        if kind == ReportKind::Vmalloc {
            head.vmalloc = Some(Vmalloc::read(rest, words, is_open_ended));
        }
        // Prose and programs have the words, too; only a log has numbers behind them.
        let is_about_request = matches!(kind, ReportKind::PageAllocationFailure | ReportKind::Oom);
        let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        let has_number = head.order.is_some() || head.gfp.as_deref().is_some_and(is_number);
        (!is_about_request || has_number || is_open_ended).then_some(head)
    }

    /// `INFO: task name:12 blocked for more than 120 seconds.`
    fn hung(text: &str) -> Option<Head> {
        let at = text.find(" blocked for more than")?;
        let task = text[..at].split("task ").last()?;
        let (comm, pid) = task.rsplit_once(':')?;
        let seconds: Option<u64> = number_after(&text[at..], "more than ", false);
        Some(Head {
            kind: ReportKind::Stall,
            comm: Some(comm.to_owned()),
            pid: pid.parse().ok(),
            waited_ms: seconds.and_then(|s| s.checked_mul(1000)),
            is_hung_task: true,
            ..Head::default()
        })
    }

    /// `MemAlloc: name(12) flags=0x1 switches=2 seq=3 gfp=0xcc0(GFP_KERNEL) order=0 delay=60123`, a
    /// line of a watchdog for requests; `delay` is in jiffies, so it is not taken.
    fn waiting(text: &str, is_open_ended: bool) -> Option<Head> {
        let rest = text.strip_prefix("MemAlloc: ")?;
        let (comm, fields) = rest.split_once('(')?;
        let (pid, fields) = fields.split_once(')')?;
        Some(Head {
            kind: ReportKind::Stall,
            comm: Some(comm.to_owned()),
            pid: pid.parse().ok(),
            gfp: flags(&fields.replace(" gfp=", " gfp_mask="), is_open_ended),
            order: number_after(fields, " order=", is_open_ended),
            ..Head::default()
        })
    }

    /// True for the line about addresses that comes before the one about the request.
    pub(super) fn is_about_addresses(&self) -> bool {
        self.kind == ReportKind::Vmalloc && self.gfp.is_none() && self.comm.is_none()
    }
}

/// A node list such as `0-1,3`, which ends at a blank or before the next key.
fn mems_allowed(text: &str, is_open_ended: bool) -> Option<String> {
    let at = text.find("mems_allowed=")? + "mems_allowed=".len();
    let rest = &text[at..];
    let end =
        rest.find(|c: char| !(c.is_ascii_digit() || c == '-' || c == ',')).unwrap_or(rest.len());
    let list = rest[..end].trim_end_matches(',');
    let is_cut = end == rest.len() && is_open_ended;
    (!list.is_empty() && !is_cut).then(|| list.to_owned())
}

impl Vmalloc {
    fn read(text: &str, words: &str, is_open_ended: bool) -> Vmalloc {
        let rest = text[words.len()..].trim_start_matches([':', ' ']);
        let rest = rest.strip_prefix("size ").unwrap_or(rest);
        let rest = rest.trim_start();
        let bytes: Option<u64> = number_after(rest, "", is_open_ended);
        let problem = rest.find(',').map(|at| rest[at + 1..].trim());
        let problem = problem.map(|text| text[..text.find(", mode:").unwrap_or(text.len())].trim());
        // `page order 9, failed to allocate pages`: the order is a field of its own.
        let problem = problem.map(|text| match text.strip_prefix("page order ") {
            Some(rest) => rest.split_once(", ").map_or("", |(_, words)| words),
            None => text,
        });
        let problem = problem.filter(|text| !text.is_empty() && !text.starts_with("mode:"));
        Vmalloc { bytes, problem: problem.map(str::to_owned) }
    }
}

impl Task {
    /// Reads `CPU: 0 PID: 12 Comm: name ...` or `Pid: 12, comm: name ...`.
    pub(super) fn read(text: &str) -> Task {
        let comm = ["Comm: ", "comm: "].iter().find_map(|key| {
            let rest = &text[text.find(key)? + key.len()..];
            let end = [" Not tainted", " Tainted", " Kdump:", " Not", " G "]
                .iter()
                .filter_map(|stop| rest.find(stop))
                .min()?;
            Some(rest[..end].trim().to_owned())
        });
        let pid = number_after(text, "PID: ", true).or_else(|| number_after(text, "Pid: ", true));
        Task {
            comm,
            pid,
            uid: number_after(text, "UID: ", true),
            cpu: number_after(text, "CPU: ", true),
        }
    }
}

/// A line `name cpuset=/ mems_allowed=0`: cpuset and nodes.
pub(super) fn cpuset_line(text: &str, is_open_ended: bool) -> (Option<String>, Option<String>) {
    let cpuset = value_after(text, " cpuset=", is_open_ended).map(str::to_owned);
    (cpuset, mems_allowed(text, is_open_ended))
}

/// Pages of the machine: `N pages RAM` and its like. Fills the field that the words name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MachinePages {
    /// All of RAM.
    pub ram: Option<u64>,
    /// In HighMem or Movable only.
    pub highmem: Option<u64>,
    /// Reserved at boot.
    pub reserved: Option<u64>,
    /// Reserved for CMA.
    pub cma_reserved: Option<u64>,
    /// Taken out of use because of memory errors.
    pub hwpoisoned: Option<u64>,
    /// Page cache, with swap cache and buffers.
    pub pagecache: Option<u64>,
}

impl MachinePages {
    /// Reads one line; returns the pages of the swap cache, which belong to the swap.
    pub(super) fn line(&mut self, tokens: &[String]) -> Option<u64> {
        let count = number(tokens.first()?)?;
        let words: Vec<&str> = tokens[1..].iter().map(String::as_str).collect();
        let field = match words.as_slice() {
            ["pages", "RAM", ..] | ["pages", "of", "RAM", ..] => &mut self.ram,
            ["pages", word, ..] if word.starts_with("HighMem") => &mut self.highmem,
            ["pages", "of", "HIGHMEM", ..] => &mut self.highmem,
            ["pages", "reserved", ..] | ["reserved", "pages", ..] => &mut self.reserved,
            ["pages", "cma", "reserved", ..] => &mut self.cma_reserved,
            ["pages", "hwpoisoned", ..] => &mut self.hwpoisoned,
            ["total", "pagecache", "pages", ..] => &mut self.pagecache,
            ["pages", "in", "swap", ..] => return Some(count),
            _ => return None,
        };
        field.get_or_insert(count);
        None
    }
}

/// Flags of a head, decoded.
pub(super) fn decode(head: &Head, version: Option<Version>) -> Option<Gfp> {
    Gfp::read(head.gfp.as_deref()?, version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head {
        Head::read(text, false).unwrap()
    }

    #[test]
    fn heads_of_every_kind() {
        let failure = head(
            "a b: page allocation failure: order:5, mode:0xcc0(GFP_KERNEL), \
             nodemask=(null),cpuset=/c,mems_allowed=0-1,3",
        );
        assert_eq!((failure.kind, failure.order), (ReportKind::PageAllocationFailure, Some(5)));
        assert_eq!((failure.comm.as_deref(), failure.cpuset.as_deref()), (Some("a b"), Some("/c")));
        assert_eq!(failure.mems_allowed.as_deref(), Some("0-1,3"));
        assert_eq!(failure.gfp.as_deref(), Some("0xcc0(GFP_KERNEL)"));
        let oom = head("a invoked oom-killer: gfp_mask=0x201da, order=-1, oom_score_adj=-5");
        assert_eq!(
            (oom.order, oom.gfp.as_deref(), oom.oom_score_adj),
            (Some(-1), Some("0x201da"), Some(-5))
        );
        let stall = head(
            "a: page allocation stalls for 11222ms, order:10, mode:0x1(GFP_DMA), nodemask=(null)",
        );
        assert_eq!(
            (stall.kind, stall.waited_ms, stall.order),
            (ReportKind::Stall, Some(11222), Some(10))
        );
        let old = head("swapper: page allocation failure. order:3, mode:0x4020");
        assert_eq!(
            (old.comm.as_deref(), old.order, old.gfp.as_deref()),
            (Some("swapper"), Some(3), Some("0x4020"))
        );
        let hung = head("INFO: task a:b:12 blocked for more than 120 seconds.");
        assert_eq!(
            (hung.comm.as_deref(), hung.pid, hung.waited_ms),
            (Some("a:b"), Some(12), Some(120_000))
        );
    }

    #[test]
    fn words_without_numbers_are_no_head() {
        for text in [
            "/* page allocation failure: say so once */",
            "a page allocation failure may follow",
            "this task invoked oom-killer in the end",
        ] {
            assert_eq!(Head::read(text, false), None, "{text}");
        }
        assert!(Head::read("a: page allocation failure", true).is_some(), "cut");
    }

    #[test]
    fn heads_of_vmalloc() {
        let pages = head(
            "a: vmalloc error: size 0, page order 9, failed to allocate pages, \
             mode:0xcc2(GFP_KERNEL|__GFP_HIGHMEM), nodemask=(null)",
        );
        assert_eq!(pages.order, Some(9));
        let vmalloc = pages.vmalloc.unwrap();
        assert_eq!(
            (vmalloc.bytes, vmalloc.problem.as_deref()),
            (Some(0), Some("failed to allocate pages"))
        );
        let space = head(
            "a: vmalloc error: size 4096, vm_struct allocation failed, mode:0xcc0(GFP_KERNEL)",
        );
        assert_eq!(space.vmalloc.unwrap().problem.as_deref(), Some("vm_struct allocation failed"));
        let old = head("vmalloc: allocation failure: 12345 bytes");
        assert_eq!(
            (old.comm.as_deref(), old.order, old.vmalloc.unwrap().bytes),
            (None, None, Some(12345))
        );
    }

    #[test]
    fn numbers_at_a_cut_end_are_left_out() {
        let cut = Head::read("a: page allocation failure: order:1", true).unwrap();
        assert_eq!(cut.order, None);
        let cut = Head::read("a: page allocation failure: order:1, mode:0x4", true).unwrap();
        assert_eq!((cut.order, cut.gfp), (Some(1), None));
    }

    #[test]
    fn tasks() {
        let task =
            Task::read("CPU: 1 UID: 5 PID: 12 Comm: a b Kdump: loaded Not tainted 6.12.0 #1");
        assert_eq!(
            (task.comm.as_deref(), task.pid, task.uid, task.cpu),
            (Some("a b"), Some(12), Some(5), Some(1))
        );
    }

    #[test]
    fn pages_of_the_machine() {
        let mut pages = MachinePages::default();
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for text in
            ["12 pages of RAM", "3 reserved pages", "4 pages cma reserved", "9 pages shared"]
        {
            assert_eq!(pages.line(&words(text)), None);
        }
        assert_eq!((pages.ram, pages.reserved, pages.cma_reserved), (Some(12), Some(3), Some(4)));
        assert_eq!(pages.line(&words("7 pages in swap cache")), Some(7));
    }
}
