//! The kind of a line, by its first tokens.

use super::comm;
use super::zone::{ZONE_NAMES, kb, number};

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    /// The refused request: `... page allocation failure: ...`, `... invoked oom-killer: ...`.
    Head,
    /// `CPU: 1 PID: 2 Comm: name Not tainted 5.4.0 #1`.
    Cpu,
    /// `name cpuset=/ mems_allowed=0`.
    Cpuset,
    /// `Mem-Info:`.
    MemInfo,
    /// `Node 0 DMA per-cpu:`.
    PerCpu,
    /// `active_anon:1 ...`, pages of the machine.
    Counters,
    /// `Node 0 active_anon:4kB ...`.
    Node,
    /// `Node 0 DMA free:4kB ...`.
    Zone,
    /// `lowmem_reserve[]: 0 ...`.
    Lowmem,
    /// `Node 0 DMA: 1*4kB ...`.
    List,
    /// `Node 0 hugepages_total=0 ...`.
    HugePages,
    /// `N pages RAM` and its like.
    Pages,
    /// `Free swap = 4kB`, `Total swap = 4kB`.
    Swap,
    /// `[ pid ] uid ...`, the head of the task table.
    TaskHeader,
    /// `[ 12] 0 12 ...`.
    TaskRow,
    /// `Unreclaimable slab info:`.
    SlabHead,
    /// `name 4KB 4KB`.
    SlabRow,
    /// `Memory allocations:`, before the sites that hold most memory.
    SiteHead,
    /// `4096 1 mm/slub.c:2264 func:alloc_slab_page`.
    SiteRow,
    /// `oom-kill:constraint=...`.
    OomKill,
    /// `Out of memory: ...`, `Killed process ...`, `oom_reaper: ...`.
    Kill,
    /// `Tasks in /a are going to be killed due to memory.oom.group set`.
    OomGroup,
    /// `memory: usage 4kB, limit 4kB, failcnt 0` and its like.
    MemcgUsage,
    /// `Task in /a killed as a result of limit of /b`.
    MemcgTask,
    /// `Memory cgroup stats for /a: ...`.
    MemcgStats,
    /// `anon 4096`, a row of `memory.stat`.
    MemcgStat,
    /// `Call Trace:` and its lines.
    Trace,
    /// `== 6.1 on small-vm, seed 1`, before the reports of a run of Highwater (`kernel.log`).
    Heading,
    /// A mark that text was left out.
    Gap,
    /// Anything else.
    Other,
}

/// Names that begin a line of page counters.
const COUNTERS: [&str; 17] = [
    "active_anon",
    "active_file",
    "active",
    "inactive_anon",
    "inactive_file",
    "unevictable",
    "slab_reclaimable",
    "slab",
    "mapped",
    "sec_pagetables",
    "kernel_misc_reclaimable",
    "free",
    "free_cma",
    "pagetables",
    "shmem",
    "dirty",
    "writeback",
];

/// True for a line of a program's source: a format string has a `%` where a log has a value.
fn is_format(text: &str) -> bool {
    const BEFORE: [&str; 8] = [
        "order:",
        "order=",
        "mode:",
        "gfp_mask=",
        "process ",
        "stalls for ",
        "error: size ",
        "constraint=",
    ];
    const BEHIND: [&str; 4] = ["%s invoked", "%s: page alloc", "%s: vmalloc error", "%s: Killed"];
    let is_value = |key: &&str| {
        text.match_indices(*key).any(|(at, _)| text[at + key.len()..].trim_start().starts_with('%'))
    };
    text.contains('%')
        && (BEFORE.iter().any(is_value) || BEHIND.iter().any(|words| text.contains(words)))
}

/// Recognises the start of a record.
pub(super) fn classify(text: &str) -> Kind {
    if is_format(text) {
        return Kind::Other;
    }
    let is_waiting = text.starts_with("MemAlloc: ") && text.contains(" gfp=");
    let is_hung = text.contains("blocked for more than");
    if is_waiting || is_hung || comm::words(text).is_some() {
        return Kind::Head;
    }
    if text.contains("are going to be killed due") || text.contains("memory.oom.group set") {
        return Kind::OomGroup;
    }
    let tokens: Vec<&str> = text.split_whitespace().take(6).collect();
    let Some(&first) = tokens.first() else { return Kind::Other };
    let at = |index: usize| tokens.get(index).copied().unwrap_or_default();
    let is_count = number(first).is_some();
    match first {
        "Mem-Info:" | "Mem-info:" => return Kind::MemInfo,
        "lowmem_reserve[]:" | "protections[]:" => return Kind::Lowmem,
        "==" if at(2) == "on" => return Kind::Heading,
        _ if is_gap(text) => return Kind::Gap,
        "CPU:" | "Pid:" if text.contains("omm: ") => return Kind::Cpu,
        "Node" if at(2).starts_with("hugepages_") => return Kind::HugePages,
        "Node" if number(at(1)).is_some() => {
            let rest = &text[text.find(at(1)).unwrap_or(0) + at(1).len()..];
            return match classify(rest) {
                Kind::Other | Kind::Counters if at(2).contains(':') || at(3).contains(':') => {
                    Kind::Node
                }
                kind => kind,
            };
        }
        "Free" | "Total" if matches!(at(1), "swap" | "swap:") => return Kind::Swap,
        "Tasks" | "Call" | "Modules" | "Hardware" => return Kind::Trace,
        "Unreclaimable" if at(1) == "slab" => return Kind::SlabHead,
        "Memory" if at(1) == "allocations:" => return Kind::SiteHead,
        "Killed" if at(1) == "process" => return Kind::Kill,
        "oom_reaper:" => return Kind::Kill,
        "Task" if at(1) == "in" && text.contains("killed as a result") => return Kind::MemcgTask,
        "memory:" | "memory+swap:" | "swap:" | "kmem:" if at(1) == "usage" => {
            return Kind::MemcgUsage;
        }
        _ => {}
    }
    if first.starts_with("oom-kill:") {
        return Kind::OomKill;
    }
    if text.contains("panic") && text.contains("deadlocked on memory") {
        return Kind::Kill;
    }
    if (text.contains("ut of memory") || text.contains("ut of Memory"))
        && (text.contains("ill") || text.contains("panic"))
    {
        return Kind::Kill;
    }
    if text.starts_with("Memory cgroup stats") || text.starts_with("Memory cgroup stats for") {
        return Kind::MemcgStats;
    }
    let zone = first.trim_end_matches(':');
    if ZONE_NAMES.contains(&zone) {
        return match at(1) {
            "per-cpu:" => Kind::PerCpu,
            next if next.starts_with("free:") => Kind::Zone,
            next if first.ends_with(':')
                && (next.is_empty() || next.contains('*') || next == "empty") =>
            {
                Kind::List
            }
            _ => Kind::Other,
        };
    }
    if text.contains(" func:") && first.as_bytes()[0].is_ascii_digit() {
        return Kind::SiteRow;
    }
    if is_count {
        let is_pages = match at(1) {
            "pages" => at(2) != "in" || at(3) == "swap" || at(3) == "pagetable",
            "total" | "free" | "reserved" => at(2) == "pagecache" || at(2) == "pages",
            _ => false,
        };
        return if is_pages { Kind::Pages } else { Kind::Other };
    }
    if first == "[" || first.starts_with('[') {
        return task_kind(text);
    }
    if let Some((name, value)) = first.split_once(':') {
        let lower = name.to_ascii_lowercase();
        if COUNTERS.contains(&lower.as_str()) && number(value).is_some() {
            return Kind::Counters;
        }
    }
    if text.contains(" cpuset=") && text.contains("mems_allowed=") {
        return Kind::Cpuset;
    }
    match tokens.as_slice() {
        [_, used, total] if kb(used).is_some() && kb(total).is_some() => Kind::SlabRow,
        [name, count] if is_stat_name(name) && number(count).is_some() => Kind::MemcgStat,
        _ if text.contains("+0x") && text.contains("/0x") => Kind::Trace,
        _ => Kind::Other,
    }
}

/// A mark that text was left out: `...`, `[...]`, `(...snipped...)`, `<snip>`.
fn is_gap(text: &str) -> bool {
    const LENGTH_MAX: usize = 40;
    const STARTS: [&str; 8] = ["...", "[...", "(...", "<...", "<snip", "[snip", "[cut", "\u{2026}"];
    let is_short = text.len() < LENGTH_MAX && !text.bytes().any(|b| b.is_ascii_digit());
    let is_apart = text == "..." || text.starts_with("... ") || text.starts_with("[...]");
    is_apart || (is_short && STARTS.iter().any(|start| text.starts_with(start)))
}

fn is_stat_name(name: &str) -> bool {
    name.len() > 2
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// `[ pid ]   uid  tgid ...` or `[  12]     0    12 ...`.
fn task_kind(text: &str) -> Kind {
    let Some((inside, rest)) = text[1..].split_once(']') else { return Kind::Other };
    let inside = inside.trim();
    let second = rest.split_whitespace().next().unwrap_or_default();
    if inside == "pid" && second == "uid" {
        Kind::TaskHeader
    } else if number(inside).is_some() && number(second).is_some() {
        Kind::TaskRow
    } else {
        Kind::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_of_records() {
        for (text, kind) in [
            ("a: page allocation failure: order:0, mode:0x20", Kind::Head),
            ("CPU: 1 UID: 0 PID: 2 Comm: a Not tainted 6.12.0 #1", Kind::Cpu),
            ("Pid: 2, comm: a Not tainted 3.4.0 #1", Kind::Cpu),
            ("Active:1 inactive:2", Kind::Counters),
            ("Node 0 active_anon:0kB", Kind::Node),
            ("Node 0 Normal free:0kB", Kind::Zone),
            ("Normal: empty", Kind::List),
            ("12 pages of RAM", Kind::Pages),
            ("12 reserved pages", Kind::Pages),
            ("[ pid ]   uid  tgid total_vm", Kind::TaskHeader),
            ("[  12]     0    12      100", Kind::TaskRow),
            ("[<c0ffee>] a+0x1/0x2", Kind::Other),
            ("a cpuset=/ mems_allowed=0", Kind::Cpuset),
            ("anon 4096", Kind::MemcgStat),
            ("kmalloc-8        12KB       12KB", Kind::SlabRow),
            ("Memory allocations:", Kind::SiteHead),
            (
                "1047212032   511334 fs/xfs/xfs_icache.c:82 [xfs] func:xfs_inode_alloc",
                Kind::SiteRow,
            ),
            ("12.0 MiB 3072 mm/slub.c:2264 func:alloc_slab_page", Kind::SiteRow),
            ("(...snipped...)", Kind::Gap),
            ("[snip]", Kind::Gap),
            ("Out of memory and no killable processes...", Kind::Kill),
            ("pr_warn(\"%s: page allocation failure: order:%d\", name, 3);", Kind::Other),
            ("\"page allocation failure: order:%u, mode:%#x\\n\",", Kind::Other),
            ("pr_err(\"Out of memory: Killed process %d (%s)\");", Kind::Other),
            ("Kernel panic - not syncing: System is deadlocked on memory", Kind::Kill),
            ("Tasks in /a are going to be killed due to memory.oom.group set", Kind::OomGroup),
            ("Tasks state (memory values in pages):", Kind::Trace),
        ] {
            assert_eq!(classify(text), kind, "{text}");
        }
    }
}
