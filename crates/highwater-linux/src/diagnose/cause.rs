//! The main reason why the kernel refused, killed or waited.

use std::collections::BTreeSet;

use highwater_results::import::log::{Report, ReportKind};
use serde::Serialize;

use super::judge::{Judge, Rights, lacks_pages};
use super::words::total;
use super::zone::{Numbers, ZoneRow};

/// A reason. In JSON the names are those of [`Cause::name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Free memory is below the mark.
    MemoryShort,
    /// Memory is free in lower zones only, which keep it for requests that need them
    /// (`lowmem_reserve`).
    Reserve,
    /// Memory is free, but not in blocks of the order.
    Fragmented,
    /// The blocks that are large enough are set aside for atomic requests.
    HighatomicOnly,
    /// The free memory, or the blocks that are large enough, are CMA.
    CmaOnly,
    /// No zone that the request may use has memory.
    NoZone,
    /// A cpuset or memory policy excludes the nodes that have memory.
    Bound,
    /// A memory cgroup has reached its limit.
    MemcgLimit,
    /// Free memory is at the mark, and the request may not wait for reclaim.
    AtMarkNowait,
    /// The dump is later than the refusal, and shows enough memory.
    ServedAtDumpTime,
    /// Swap is used up.
    SwapFull,
    /// A large part of memory is slab that cannot be reclaimed.
    UnreclaimableSlab,
    /// No range of addresses for `vmalloc`, or an absurd size.
    VmallocSpace,
    /// Somebody asked for the kill.
    Requested,
    /// The marks or reserves are impossible.
    CorruptMarks,
    /// The text has too little.
    CannotTell,
}

impl Cause {
    /// Its name in the JSON form.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::MemoryShort => "memory-short",
            Cause::Reserve => "reserve",
            Cause::Fragmented => "fragmented",
            Cause::HighatomicOnly => "highatomic-only",
            Cause::CmaOnly => "cma-only",
            Cause::NoZone => "no-zone",
            Cause::Bound => "bound",
            Cause::MemcgLimit => "memcg-limit",
            Cause::AtMarkNowait => "at-mark-nowait",
            Cause::ServedAtDumpTime => "served-at-dump-time",
            Cause::SwapFull => "swap-full",
            Cause::UnreclaimableSlab => "unreclaimable-slab",
            Cause::VmallocSpace => "vmalloc-space",
            Cause::Requested => "requested",
            Cause::CorruptMarks => "corrupt-marks",
            Cause::CannotTell => "cannot-tell",
        }
    }
}

/// The main reason and others that hold as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reasons {
    /// The main reason.
    pub cause: Cause,
    /// Others.
    pub also: Vec<Cause>,
    /// True if the answer follows from the text: nothing that it needs is missing or hidden.
    pub is_certain: bool,
}

/// Share of memory in unreclaimable slab from which on it is named as the reason.
const SLAB_SHARE: f64 = 1.0 / 3.0;

/// Judges a report with its tested zones.
pub(super) fn reasons(report: &Report, judge: &Judge, rows: &[ZoneRow<'_>]) -> Reasons {
    let cause = main(report, judge, rows);
    let mut also = others(report, judge, rows);
    also.retain(|other| *other != cause);
    let needs_zones = !matches!(
        cause,
        Cause::MemcgLimit | Cause::VmallocSpace | Cause::Requested | Cause::CorruptMarks
    );
    let is_known = |row: &&ZoneRow<'_>| row.allowed == Some(false) || row.passes.is_some();
    let has_all = judge.rights.is_some() && !rows.is_empty() && rows.iter().all(|r| is_known(&r));
    // Which pages are CMA, and whether this kernel gives them to the request, is not printed.
    let is_hidden = cause == Cause::CmaOnly && judge.rights.is_some_and(|rights| rights.movable)
        || cause == Cause::Bound && may_hide_policy(report, rows);
    let is_certain = !is_hidden
        && cause != Cause::CannotTell
        && (!needs_zones || has_all)
        && !report.request.follows_dump;
    Reasons { cause, also, is_certain }
}

fn main(report: &Report, judge: &Judge, rows: &[ZoneRow<'_>]) -> Cause {
    let constraint = report.constraint.as_deref().unwrap_or_default();
    if report.request.order == Some(-1) || constraint.starts_with("BPF") {
        return Cause::Requested;
    }
    if report.kind == ReportKind::MemcgOom {
        return Cause::MemcgLimit;
    }
    if has_corrupt_marks(report, rows) {
        return Cause::CorruptMarks;
    }
    if is_bound(report, rows) {
        return Cause::Bound;
    }
    if is_of_page_fault(report) && is_largest_above_high(rows) && !has_much_slab(report, rows) {
        return Cause::ServedAtDumpTime;
    }
    let Some(rights) = judge.rights else {
        return if is_for_addresses(report) {
            Cause::VmallocSpace
        } else {
            without_request(report, rows)
        };
    };
    if is_for_addresses(report) {
        return Cause::VmallocSpace;
    }
    if rows.is_empty() {
        return without_zones(report, rights);
    }
    let allowed = || rows.iter().filter(|row| row.allowed == Some(true));
    if !allowed().any(ZoneRow::is_populated) {
        return Cause::NoZone;
    }
    // A stall is no refusal: the request waits because memory is short.
    let is_kill = matches!(report.kind, ReportKind::Oom | ReportKind::Stall);
    if allowed().any(ZoneRow::serves) {
        return served(report, judge, rows, is_kill);
    }
    if let Some(cause) = kept(rows) {
        return cause;
    }
    let is_short_of_blocks = |row: &ZoneRow<'_>| {
        row.passes == Some(true) && row.has_block == Some(false)
            || fails_by_order(report, judge, row)
    };
    if allowed().any(is_short_of_blocks) {
        return Cause::Fragmented;
    }
    if is_kill && has_much_slab(report, rows) {
        return Cause::UnreclaimableSlab;
    }
    if is_of_cma(report, rows) {
        return Cause::CmaOnly;
    }
    if !rights.may_wait {
        return Cause::AtMarkNowait;
    }
    let is_held = |row: &ZoneRow<'_>| {
        let spare = row.spare_pages.zip(row.reserve_pages);
        spare.is_some_and(|(spare, reserve)| spare + reserve.min(i64::MAX as u64 / 2) as i64 > 0)
    };
    if allowed().filter(|row| row.is_populated()).all(is_held) {
        return Cause::Reserve;
    }
    if has_much_slab(report, rows) { Cause::UnreclaimableSlab } else { Cause::MemoryShort }
}

/// A zone would serve the request at the time of the dump.
fn served(report: &Report, judge: &Judge, rows: &[ZoneRow<'_>], is_kill: bool) -> Cause {
    let serving = || rows.iter().filter(|row| row.serves());
    // Movable requests count CMA. A kill with little else free means that this kernel, or this
    // request, could not have it.
    if is_kill && is_served_by_cma(report, judge, rows) {
        return Cause::CmaOnly;
    }
    let is_far_above = serving().any(|row| is_far_above(report, row));
    if is_kill && is_far_above && may_hide_policy(report, rows) {
        return Cause::Bound;
    }
    if is_kill && !is_far_above {
        return if has_much_slab(report, rows) {
            Cause::UnreclaimableSlab
        } else {
            Cause::MemoryShort
        };
    }
    let may_wait = judge.rights.is_some_and(|rights| rights.may_wait);
    if !is_kill && !may_wait && !is_far_above && judge.rights.is_some_and(|r| r.order == 0) {
        return Cause::AtMarkNowait;
    }
    Cause::ServedAtDumpTime
}

/// Large enough blocks are there, all of types that the request may not have.
fn kept(rows: &[ZoneRow<'_>]) -> Option<Cause> {
    let short = rows.iter().filter(|row| {
        row.allowed == Some(true) && row.passes == Some(true) && row.has_block == Some(false)
    });
    let kept: String = short.map(|row| row.kept_types.as_str()).collect();
    if kept.contains('H') {
        Some(Cause::HighatomicOnly)
    } else if kept.contains('C') {
        Some(Cause::CmaOnly)
    } else {
        None
    }
}

/// Up to 4.3: enough pages, too many of them in lower orders.
fn fails_by_order(report: &Report, judge: &Judge, row: &ZoneRow<'_>) -> bool {
    let Some((rights, numbers)) = judge.rights.zip(Numbers::of(report, row)) else { return false };
    row.allowed == Some(true)
        && numbers.spare(judge, rights, 0) > 0
        && !numbers.passes_by_order(judge, rights)
}

/// Most of what is free is CMA, which the request may not use, and it would do.
fn is_of_cma(report: &Report, rows: &[ZoneRow<'_>]) -> bool {
    let of_row = |row: &ZoneRow<'_>| {
        let (cma, free) = (row.unusable_cma.unwrap_or(0), row.zone.free.unwrap_or(0));
        let pages = super::zone::pages_of(report, cma) as i64;
        row.allowed == Some(true)
            && cma > free / 2
            && row.spare_pages.is_some_and(|spare| spare <= 0 && spare + pages > 0)
    };
    rows.iter().any(of_row)
}

/// Without CMA no zone would serve the request, although it may use it.
fn is_served_by_cma(report: &Report, judge: &Judge, rows: &[ZoneRow<'_>]) -> bool {
    let movable = judge.rights.is_some_and(|rights| rights.movable);
    let by_cma = |row: &ZoneRow<'_>| {
        let cma = super::zone::pages_of(report, row.zone.free_cma.unwrap_or(0));
        cma > 0 && row.spare_pages.is_some_and(|spare| spare <= cma as i64)
    };
    movable && rows.iter().filter(|row| row.serves()).all(by_cma)
}

/// A page fault whose request failed asks for a kill without a request (`gfp_mask=0x0`).
pub(super) fn is_of_page_fault(report: &Report) -> bool {
    let gfp = report.request.gfp.as_ref();
    report.kind == ReportKind::Oom
        && gfp.is_some_and(highwater_results::import::log::Gfp::is_nothing)
}

/// Is the largest zone above its high watermark? The lowest zones always are: they have a reserve.
fn is_largest_above_high(rows: &[ZoneRow<'_>]) -> bool {
    let largest = rows.iter().max_by_key(|row| row.zone.managed.or(row.zone.present));
    largest
        .is_some_and(|row| row.zone.high.zip(row.zone.free).is_some_and(|(high, free)| free > high))
}

/// The process may use some nodes only: by a printed constraint, unless a zone is far above its mark;
/// else if the nodes that it may not use have memory.
fn is_bound(report: &Report, rows: &[ZoneRow<'_>]) -> bool {
    if matches!(report.constraint.as_deref(), Some("CPUSET" | "MEMORY_POLICY")) {
        return !rows.iter().any(|row| row.serves() && is_far_above(report, row));
    }
    let Some(nodes) = super::zone::nodes_allowed(report) else { return false };
    let is_elsewhere = |row: &ZoneRow<'_>| {
        row.zone.node.is_some_and(|node| !nodes.contains(&node))
            && row.zone.free > row.zone.high
            && row.zone.high > Some(0)
    };
    rows.iter().any(is_elsewhere) && !rows.iter().any(ZoneRow::serves)
}

/// A kill before 4.10, which prints neither node mask nor constraint: a node is short in all its zones,
/// and another has plenty. Then a memory policy, or the node of the request, explains the kill.
pub(super) fn may_hide_policy(report: &Report, rows: &[ZoneRow<'_>]) -> bool {
    let is_printed = report.request.nodemask.is_some() || report.constraint.is_some();
    if report.kind != ReportKind::Oom || is_printed {
        return false;
    }
    let nodes: BTreeSet<u32> =
        rows.iter().filter(|row| row.is_populated()).filter_map(|row| row.zone.node).collect();
    let of = |node: u32| {
        rows.iter().filter(move |row| row.zone.node == Some(node) && row.allowed == Some(true))
    };
    nodes.iter().any(|node| of(*node).next().is_some() && !of(*node).any(ZoneRow::serves))
}

/// Is the zone above its mark by more than the distance of its marks?
fn is_far_above(report: &Report, row: &ZoneRow<'_>) -> bool {
    let gap = row.zone.high.zip(row.zone.min).map(|(high, min)| high.saturating_sub(min));
    let spare = row.spare_pages.unwrap_or(0);
    gap.is_some_and(|kb| spare > super::zone::pages_of(report, kb) as i64)
}

/// `vmalloc` found no addresses; pages were not asked for.
fn is_for_addresses(report: &Report) -> bool {
    report.kind == ReportKind::Vmalloc && report.request.order.is_none() && !lacks_pages(report)
}

/// No dump: a single page is refused at the mark only, an order for other reasons, too.
fn without_zones(report: &Report, rights: Rights) -> Cause {
    match report.kind {
        ReportKind::Oom => Cause::MemoryShort,
        ReportKind::PageAllocationFailure if !rights.may_wait && rights.order == 0 => {
            Cause::AtMarkNowait
        }
        _ => Cause::CannotTell,
    }
}

/// The head is missing: what the zones say by themselves.
fn without_request(report: &Report, rows: &[ZoneRow<'_>]) -> Cause {
    let is_below = |row: &ZoneRow<'_>| {
        row.is_populated() && row.zone.free.zip(row.zone.min).is_some_and(|(free, min)| free < min)
    };
    let is_short = rows.iter().any(is_below);
    match report.kind {
        ReportKind::Oom => Cause::MemoryShort,
        ReportKind::Other if is_short && has_much_slab(report, rows) => Cause::UnreclaimableSlab,
        ReportKind::Other if is_short => Cause::MemoryShort,
        _ => Cause::CannotTell,
    }
}

/// Unreclaimable slab is a third of the memory that kernel memory may lie in.
pub(super) fn has_much_slab(report: &Report, rows: &[ZoneRow<'_>]) -> bool {
    slab_share(report, rows).is_some_and(|share| share >= SLAB_SHARE)
}

/// Unreclaimable slab as a share of the memory that it may lie in. Kernels leave out zones that the
/// request may not use: then the machine's pages count.
pub(super) fn slab_share(report: &Report, rows: &[ZoneRow<'_>]) -> Option<f64> {
    let page = super::zone::page_size(report);
    let of_zones = rows.iter().filter_map(|row| row.zone.counters.get("slab_unreclaimable"));
    let pages = report.counters.get("slab_unreclaimable").copied();
    let slab_kb =
        pages.map_or_else(|| total(of_zones.copied()), |pages| pages.saturating_mul(page) / 1024);
    let is_low = |row: &&ZoneRow<'_>| !matches!(row.zone.name.as_str(), "HighMem" | "Movable");
    let sizes = rows.iter().filter(is_low).filter_map(|row| row.zone.managed.or(row.zone.present));
    let low = total(sizes);
    let of_machine = report.pages.ram.filter(|_| rows.iter().all(|row| is_low(&row)));
    let reserved = report.pages.reserved.unwrap_or(0);
    let ram =
        of_machine.map_or(0, |pages| pages.saturating_sub(reserved).saturating_mul(page) / 1024);
    Some(low.max(ram)).filter(|kb| *kb > 0).map(|kb| slab_kb as f64 / kb as f64)
}

/// A mark above all of the zone's memory, or a reserve above that of the machine. Without the size
/// of the machine a reserve has to be absurd: the text may lack zones.
fn has_corrupt_marks(report: &Report, rows: &[ZoneRow<'_>]) -> bool {
    /// 64 TiB in pages of 4 KiB.
    const ABSURD: u64 = 1 << 34;
    let ram = report.pages.ram.filter(|pages| *pages > 0).unwrap_or(ABSURD);
    rows.iter().any(|row| {
        let size = row.zone.managed.or(row.zone.present).filter(|kb| *kb > 0);
        let is_mark_impossible = size.zip(row.zone.min).is_some_and(|(size, min)| min > size);
        let largest = row.zone.lowmem_reserve.iter().flatten().max().copied().unwrap_or(0);
        is_mark_impossible || largest > ram
    })
}

/// All reasons that hold.
fn others(report: &Report, judge: &Judge, rows: &[ZoneRow<'_>]) -> Vec<Cause> {
    let mut found = Vec::new();
    let allowed = || rows.iter().filter(|row| row.allowed == Some(true) && row.is_populated());
    let is_of_memory = !matches!(report.kind, ReportKind::MemcgOom);
    if !is_of_memory || judge.rights.is_none() {
        return found;
    }
    if allowed().any(ZoneRow::serves) {
        found.push(Cause::ServedAtDumpTime);
    }
    if allowed().any(|row| row.passes == Some(true) && row.has_block == Some(false)) {
        found.push(Cause::Fragmented);
    }
    if let Some(cause) = kept(rows) {
        found.push(cause);
    }
    let is_mostly_cma = |row: &ZoneRow<'_>| {
        row.unusable_cma.zip(row.zone.free).is_some_and(|(cma, free)| cma > free / 2)
    };
    if allowed().any(is_mostly_cma) {
        found.push(Cause::CmaOnly);
    }
    let is_held = |row: &ZoneRow<'_>| {
        row.passes == Some(false)
            && row.spare_pages.zip(row.reserve_pages).is_some_and(|(spare, reserve)| {
                reserve > 0 && spare + reserve.min(i64::MAX as u64 / 2) as i64 > 0
            })
    };
    if allowed().any(is_held) {
        found.push(Cause::Reserve);
    }
    if report.swap.is_full() {
        found.push(Cause::SwapFull);
    }
    if has_much_slab(report, rows) {
        found.push(Cause::UnreclaimableSlab);
    }
    found
}
