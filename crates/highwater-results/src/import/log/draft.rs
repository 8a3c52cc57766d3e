//! A report while its messages arrive, and what follows from all of them at the end.

use std::collections::{BTreeSet, HashMap};

use super::kernel::{self, KernelRelease};
use super::kind::Kind;
use super::lines::mark;
use super::memcg::Memcg;
use super::prefix::Prefix;
use super::record::Record;
use super::report::Report;
use super::request::{self, Head, MachinePages, ReportKind};
use super::tables::TaskRow;
use super::zone::{ZONE_NAMES, Zone, number, pairs, place};
use super::zone_types::{self, Evidence, highest_zone};

/// Lines between the parts of one report; traces are shorter.
pub(super) const PART_LINES_MAX: usize = 400;
/// Seconds between the parts of one report, on a slow console.
const PART_SECONDS_MAX: f64 = 30.0;
/// Zones of a report; Linux has at most 1024 nodes, and no machine has more than two zones on most.
const ZONES_MAX: usize = 4096;

/// A report that is being put together.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) report: Report,
    pub(super) head: Option<Head>,
    pub(super) has_mem_info: bool,
    /// The dump began without its first line.
    pub(super) begins_inside: bool,
    pub(super) in_stats: bool,
    pub(super) in_slabs: bool,
    /// The end of the dump was seen.
    pub(super) is_complete: bool,
    pub(super) is_mixed: bool,
    /// An earlier report whose lines alternate with those of this one.
    pub(super) mixed_with: Option<usize>,
    pub(super) has_gap: bool,
    pub(super) has_broken_number: bool,
    pub(super) is_wrapped: bool,
    pub(super) is_last: bool,
    pub(super) marks: u16,
    pub(super) forms: HashMap<u16, usize>,
    pub(super) names: Vec<String>,
    pub(super) has_reclaim_trace: bool,
    /// The request is a page fault, which names neither order nor flags.
    pub(super) has_fault_trace: bool,
    /// The line `Killed process` was seen: lines about another process are of the next kill.
    pub(super) has_killed: bool,
    /// Seconds since boot of the last line about the kill.
    pub(super) kill_time: Option<f64>,
    /// Processes killed because of `memory.oom.group`.
    pub(super) group: BTreeSet<i64>,
}

impl Draft {
    pub(super) fn has_dump(&self) -> bool {
        self.has_mem_info || self.report.has_dump()
    }

    pub(super) fn zone(&self, node: Option<u32>, name: &str) -> Option<usize> {
        self.report.zones.iter().position(|zone| zone.node == node && zone.name == name)
    }

    pub(super) fn is_oom(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.kind == ReportKind::Oom)
            || self.report.memcg.is_some()
    }

    /// True if a line `memory: usage` says something else than the one before it.
    pub(super) fn has_other_usage(&self, kind: Kind, tokens: &[String]) -> bool {
        if kind != Kind::MemcgUsage {
            return false;
        }
        let mut read = Memcg::default();
        read.usage(tokens, false);
        let mine = self.report.memcg.as_ref().and_then(|memcg| memcg.memory);
        read.memory.is_some() && mine.is_some() && read.memory != mine
    }
}

/// The record's last line, for distances.
pub(super) fn is_near(draft: &Draft, record: &Record) -> bool {
    let lines = record.lines.0.saturating_sub(draft.report.last_line);
    let seconds = match (draft.report.time, record.prefix.time) {
        (Some(before), Some(after)) => (after - before).abs(),
        _ => 0.0,
    };
    lines <= PART_LINES_MAX && seconds <= PART_SECONDS_MAX
}

/// True if a report has this part already.
pub(super) fn has(draft: &Draft, kind: Kind, tokens: &[String]) -> bool {
    let report = &draft.report;
    match kind {
        Kind::MemInfo => draft.has_dump(),
        Kind::PerCpu => !report.zones.is_empty(),
        Kind::Counters => {
            let name = tokens.first().and_then(|token| token.split_once(':')).map(|(name, _)| name);
            name.is_some_and(|name| report.counters.contains_key(&name.to_ascii_lowercase()))
        }
        Kind::Node => {
            let node = place(tokens).0;
            let is_full = report.nodes.len() >= ZONES_MAX;
            is_full || report.nodes.iter().any(|known| Some(known.node) == node)
        }
        Kind::Zone | Kind::List => {
            let (node, Some(name), _) = place(tokens) else { return false };
            // A kernel names the nodes of all zones or of none.
            if report.zones.len() >= ZONES_MAX {
                return true;
            }
            if report.zones.first().is_some_and(|zone| zone.node.is_some() != node.is_some()) {
                return true;
            }
            draft.zone(node, name).is_some_and(|at| {
                let zone = &report.zones[at];
                if kind == Kind::Zone { zone.has_line } else { zone.list.is_some() }
            })
        }
        Kind::Swap => {
            let is_free = tokens.first().is_some_and(|token| token == "Free");
            if is_free { report.swap.free.is_some() } else { report.swap.total.is_some() }
        }
        Kind::Pages => {
            let mut read = MachinePages::default();
            let cache = read.line(tokens);
            let mine = &report.pages;
            let both = |read: Option<u64>, mine: Option<u64>| read.is_some() && mine.is_some();
            both(read.ram, mine.ram)
                || both(read.highmem, mine.highmem)
                || both(read.reserved, mine.reserved)
                || both(read.cma_reserved, mine.cma_reserved)
                || both(read.hwpoisoned, mine.hwpoisoned)
                || both(read.pagecache, mine.pagecache)
                || both(cache, report.swap.cache_pages)
        }
        _ => false,
    }
}

/// Page counters of the machine. A number at a cut end is left out.
pub(super) fn counters(report: &mut Report, tokens: &[String], is_open_ended: bool) {
    let mut last = None;
    pairs(tokens, |name, value| {
        if let super::zone::Value::Plain(pages) = value {
            let name = name.to_ascii_lowercase();
            last = (!report.counters.contains_key(&name)).then(|| name.clone());
            report.counters.entry(name).or_insert(pages);
        }
    });
    let ends_in_number =
        tokens.last().is_some_and(|token| token.ends_with(|c: char| c.is_ascii_digit()));
    if let (true, true, Some(name)) = (is_open_ended, ends_in_number, last) {
        report.counters.remove(&name);
    }
}

impl Draft {
    /// Everything that follows from the whole report.
    pub(super) fn finish(
        self,
        only_release: Option<&KernelRelease>,
        arch: Option<&'static str>,
    ) -> Report {
        let damage = self.damage();
        let mut report = self.report;
        // A line end may have broken the name in the table.
        if let Some((pid, name)) = report.kill.as_ref().and_then(|k| k.pid.zip(k.name.clone())) {
            let is_victim = |row: &&mut TaskRow| u64::try_from(pid) == Ok(row.pid);
            let row = report.tasks.rows.iter_mut().find(is_victim);
            if let Some(row) = row.filter(|row| name.starts_with(&row.name)) {
                row.name = name;
            }
        }
        report.kernel = report.kernel.take().or_else(|| only_release.cloned());
        let version = report.kernel.as_ref().and_then(|kernel| kernel.version);
        let of_release = report.kernel.as_ref().and_then(|k| kernel::arch_of_release(&k.release));
        report.arch = of_release.or(arch).map(str::to_owned);
        let form = self
            .forms
            .iter()
            .max_by_key(|(form, count)| (**count, **form))
            .map_or(0, |(form, _)| *form);
        report.prefix = Prefix::name(form).to_owned();
        if let Some(head) = self.head {
            let gfp = request::decode(&head, version);
            let request = &mut report.request;
            request.order = head.order;
            request.gfp = gfp;
            request.nodemask = head.nodemask.or(request.nodemask.take());
            request.cpuset = head.cpuset.or(request.cpuset.take());
            request.mems_allowed = head.mems_allowed.or(request.mems_allowed.take());
            request.oom_score_adj = head.oom_score_adj;
            request.waited_ms = head.waited_ms;
            report.vmalloc = head.vmalloc;
            report.kind = head.kind;
        } else if report.kill.is_some() || report.memcg.is_some() {
            report.kind = ReportKind::Oom;
        }
        if report.kind == ReportKind::Oom && report.memcg.is_some() {
            report.kind = ReportKind::MemcgOom;
        }
        let is_nothing = report.request.gfp.as_ref().is_some_and(super::Gfp::is_nothing);
        // A kill that was asked for has neither flags nor a page fault.
        let has_panicked = report.kill.as_ref().is_some_and(|kill| kill.has_panicked);
        if is_nothing && !self.has_fault_trace && !has_panicked {
            report.kind = ReportKind::Other;
        }
        report.context.is_kswapd = report.task.comm.as_deref().is_some_and(|comm| {
            comm.strip_prefix("kswapd").is_some_and(|node| number(node).is_some())
        });
        report.page_size = report.infer_page_size();
        let evidence = Evidence {
            zones: &report.zones,
            names: &self.names,
            arch: report.arch.as_deref(),
            version,
        };
        report.zone_types = zone_types::infer(&evidence).unwrap_or_default();
        let rules = report.request.gfp.as_ref().and_then(|gfp| gfp.rules).filter(|_| !is_nothing);
        report.zone_by_bits = rules.map(|rules| rules.zone_by_bits().to_owned());
        report.highest_zone =
            report.zone_by_bits.as_deref().map(|zone| highest_zone(zone, &report.zone_types));
        report.damage = damage;
        report.missing = report.find_missing();
        report.findings = report.find();
        debug_assert!(report.zones.iter().all(|zone| ZONE_NAMES.contains(&zone.name.as_str())));
        report
    }

    /// Names of the damage.
    fn damage(&self) -> Vec<String> {
        let has = |bits: u16| self.marks & bits != 0;
        let is_headless = self.head.is_none() || self.report.request.follows_dump;
        let has_lines = self.report.zones.iter().any(|zone| zone.has_line);
        let has_lists = self.report.zones.iter().any(|zone| zone.list.is_some());
        let has_cut_list = self.report.zones.iter().any(Zone::has_cut_list);
        let is_cut = self.has_gap || self.is_last || has(mark::TAIL | mark::CUT);
        let found = [
            (has(mark::OCTAL), "#012"),
            (has(mark::HEX), "\\x0a"),
            (self.has_broken_number, "broken line"),
            (self.has_gap || self.is_last || has(mark::TAIL), "cut"),
            (has(mark::COLON), "extra colon prefix"),
            (is_headless && self.begins_inside, "head cut"),
            (self.report.request.follows_dump, "head last"),
            (has(mark::TWICE), "line printed twice"),
            (has(mark::CUT), "lines cut at the right"),
            (has_cut_list && !is_cut, "list cut"),
            (has_lines && !has_lists, "lists missing"),
            (has(mark::PADDED), "padded"),
            (has(mark::QUOTED), "quoted"),
            (has(mark::QUOTED_PRINTABLE), "quoted-printable"),
            (has(mark::TOKENS), "tokens on lines of their own"),
            (self.is_mixed, "two reports mixed"),
            (self.is_wrapped || has(mark::WRAPPED), "wrapped"),
        ];
        found.iter().filter(|(is_found, _)| *is_found).map(|(_, name)| (*name).to_owned()).collect()
    }
}
