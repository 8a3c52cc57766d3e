//! The zones of a report, tested as the allocator tests them.

use std::collections::BTreeSet;

use highwater_core::config::WatermarkTest;
use highwater_core::page::MAX_ORDER;
use highwater_core::zone::watermark;
use highwater_results::import::log::{Report, ZONE_NAMES, Zone};

use super::judge::{Judge, Rights};

/// Bytes of a page where the text does not say it.
const USUAL_PAGE: u64 = 4096;

/// A zone beside the request. Sizes are kB, except where a name says pages.
#[derive(Clone, Debug)]
pub struct ZoneRow<'a> {
    /// The zone as printed.
    pub zone: &'a Zone,
    /// Pages of `lowmem_reserve[]` that hold for the request.
    pub reserve_pages: Option<u64>,
    /// CMA pages that the request may not use, kB; `None` if not printed.
    pub unusable_cma: Option<u64>,
    /// High-atomic pages that the request may not use, kB; `None` if not printed.
    pub unusable_highatomic: Option<u64>,
    /// May the request use the zone? By its zone bits and its nodes.
    pub allowed: Option<bool>,
    /// Are enough pages free for its mark and reserve? `None`: not known, or not allowed.
    pub passes: Option<bool>,
    /// Pages above (or below, negative) mark and reserve, if it were served.
    pub spare_pages: Option<i64>,
    /// Is there a block of the order, of a type that it may have?
    pub has_block: Option<bool>,
    /// Types of free blocks of at least the order that it may not have: H, C or I.
    pub kept_types: String,
    /// The min watermark that holds for the request, kB; a single atomic page need not leave the
    /// boost.
    pub min_kb: Option<u64>,
    /// The mark that the request must leave, pages, without the reserve.
    pub mark_pages: Option<u64>,
}

impl ZoneRow<'_> {
    /// Would the allocator take a page here, by what the text shows?
    pub fn serves(&self) -> bool {
        self.allowed == Some(true)
            && self.passes == Some(true)
            && self.has_block.is_none_or(|has_block| has_block)
    }

    /// The zone's name with its node.
    pub fn name(&self) -> String {
        match self.zone.node {
            Some(node) => format!("node {node} {}", self.zone.name),
            None => self.zone.name.clone(),
        }
    }

    /// High-atomic pages that the test subtracts, kB: those that are free, where they are printed
    /// (since 6.12), else all that are set aside.
    pub(super) fn highatomic_in_test(&self) -> Option<u64> {
        let free = self.zone.free_highatomic.filter(|_| self.unusable_highatomic > Some(0));
        free.or(self.unusable_highatomic)
    }

    /// Does the zone have memory? Zones without it are printed, too.
    pub fn is_populated(&self) -> bool {
        let zone = self.zone;
        zone.managed.or(zone.present).map_or(zone.free != Some(0), |kb| kb > 0)
    }
}

/// Larger sizes in kB are damage or wrong marks: 4 EiB.
const KB_MAX: u64 = 1 << 52;

/// Pages of a size in kB. Impossible sizes count as [`KB_MAX`], so that no sum overflows.
pub(super) fn pages_of(report: &Report, kb: u64) -> u64 {
    kb.min(KB_MAX) * 1024 / page_size(report).clamp(1024, 1 << 30)
}

/// Bytes of a page; the usual ones where the text does not say it.
pub(super) fn page_size(report: &Report) -> u64 {
    report.page_size.unwrap_or(USUAL_PAGE)
}

/// The rows of a report.
pub(super) fn rows<'a>(report: &'a Report, judge: &Judge) -> Vec<ZoneRow<'a>> {
    let nodes = nodes_allowed(report);
    report.zones.iter().map(|zone| row(report, zone, judge, nodes.as_ref())).collect()
}

/// Nodes that the request may use, by its mask and its cpuset; `None`: all.
pub(super) fn nodes_allowed(report: &Report) -> Option<BTreeSet<u32>> {
    let request = &report.request;
    let rules = request.gfp.as_ref().and_then(|gfp| gfp.rules);
    let mask = request.nodemask.as_deref().and_then(node_list);
    // A request of the kernel itself may leave the cpuset of its process.
    let stays = rules.is_some_and(|rules| rules.hardwall);
    let mems = request.mems_allowed.as_deref().filter(|_| stays).and_then(node_list);
    match (mask, mems) {
        (Some(mask), Some(mems)) => Some(mask.intersection(&mems).copied().collect()),
        (mask, mems) => mask.or(mems),
    }
}

/// `0-1,3`.
fn node_list(text: &str) -> Option<BTreeSet<u32>> {
    /// More than any kernel is built for.
    const NODES_MAX: u32 = 4096;
    let mut nodes = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= NODES_MAX {
            return None;
        }
        nodes.extend(first..=last);
    }
    Some(nodes)
}

/// The rows that decide. A request for one node only (`__GFP_THISNODE`) does not say which: nodes
/// that would serve it are then not that node.
pub(super) fn deciding<'a>(report: &Report, rows: &[ZoneRow<'a>]) -> Vec<ZoneRow<'a>> {
    if !is_of_unknown_node(report, rows) {
        return rows.to_vec();
    }
    let serving: BTreeSet<Option<u32>> =
        rows.iter().filter(|row| row.serves()).map(|row| row.zone.node).collect();
    let left: Vec<ZoneRow<'a>> =
        rows.iter().filter(|row| !serving.contains(&row.zone.node)).cloned().collect();
    if left.is_empty() { rows.to_vec() } else { left }
}

/// Is the request for one node, and the text does not say for which?
pub(super) fn is_of_unknown_node(report: &Report, rows: &[ZoneRow<'_>]) -> bool {
    let rules = report.request.gfp.as_ref().and_then(|gfp| gfp.rules);
    let nodes: BTreeSet<u32> = rows
        .iter()
        .filter(|row| row.allowed == Some(true))
        .filter_map(|row| row.zone.node)
        .collect();
    rules.is_some_and(|rules| rules.thisnode) && nodes.len() > 1
}

fn row<'a>(
    report: &'a Report,
    zone: &'a Zone,
    judge: &Judge,
    nodes: Option<&BTreeSet<u32>>,
) -> ZoneRow<'a> {
    let reserve_pages = reserve(report, zone);
    let rights = judge.rights;
    let allowed = rights.map(|rights| is_allowed(zone, rights, nodes));
    let movable = rights.is_some_and(|rights| rights.movable);
    let mut row = ZoneRow {
        zone,
        reserve_pages,
        unusable_cma: if movable { Some(0) } else { zone.free_cma },
        unusable_highatomic: zone
            .reserved_highatomic
            .map(|kb| if judge.subtracts_highatomic() { kb } else { 0 }),
        allowed,
        passes: None,
        spare_pages: None,
        has_block: None,
        kept_types: String::new(),
        min_kb: zone.min,
        mark_pages: None,
    };
    let Some(rights) = rights.filter(|_| allowed == Some(true)) else { return row };
    (row.has_block, row.kept_types) = blocks(zone, rights, judge);
    // The last test of such a request has min without the boost (rules/watermarks#fast-test), as far
    // as it is printed: kernels that hide it have no such test. Before 5.0 there is no boost.
    if !judge.has_boost {
        row.min_kb = own_min(zone).map(|(own, _)| own).or(zone.min);
    } else if rights.skips_boost() {
        row.min_kb = zone.min.map(|kb| kb.saturating_sub(zone.boost.unwrap_or(0)));
    }
    row.mark_pages = row.min_kb.map(|kb| {
        let mark = pages_of(report, kb) as i64;
        watermark::effective_min(mark, rights.flags, judge.policy.watermark.reserves).max(0) as u64
    });
    if let Some(test) = Numbers::of(report, &row) {
        let spare = test.spare(judge, rights, 0);
        row.spare_pages = Some(spare);
        row.passes = Some(spare > 0 && test.passes_by_order(judge, rights));
        // At least a pageblock is set aside, how many is not printed.
        if judge.hides_highatomic()
            && judge.subtracts_highatomic()
            && zone.reserved_highatomic.is_none()
            && has_letter(zone, 'H')
            && spare > 0
            && test.spare(judge, rights, pageblock(report)) <= 0
        {
            row.passes = None;
        }
    }
    row
}

/// min without its boost, and the boost, kB. Kernels of 5.0 to 5.11 have a boost and do not print
/// it: low is above min by at least a quarter of min without it.
pub(super) fn own_min(zone: &Zone) -> Option<(u64, u64)> {
    let min = zone.min?;
    if let Some(boost) = zone.boost {
        return Some((min.saturating_sub(boost), boost));
    }
    // Both are rounded down to pages.
    let gap = zone.low?.saturating_sub(min).saturating_add(8);
    let own = min.min(gap.saturating_mul(4));
    Some((own, min - own))
}

/// The column of `lowmem_reserve[]` for the request; without a known column, a row of zeros.
fn reserve(report: &Report, zone: &Zone) -> Option<u64> {
    let all = zone.lowmem_reserve.as_ref();
    report
        .reserve_for_request(zone)
        .or_else(|| all.filter(|all| all.iter().all(|pages| *pages == 0)).map(|_| 0))
}

/// Pages of a pageblock with huge pages of the usual size.
fn pageblock(report: &Report) -> u64 {
    (2 << 20) / page_size(report).min(2 << 20)
}

fn is_allowed(zone: &Zone, rights: Rights, nodes: Option<&BTreeSet<u32>>) -> bool {
    let own = ZONE_NAMES.iter().position(|name| *name == zone.name);
    let is_low_enough = own.is_some_and(|own| own <= rights.highest);
    let is_of_nodes = match (zone.node, nodes) {
        (Some(node), Some(nodes)) => nodes.contains(&node),
        _ => true,
    };
    is_low_enough && is_of_nodes
}

fn has_letter(zone: &Zone, letter: char) -> bool {
    let blocks = zone.list.iter().flat_map(|list| &list.blocks);
    blocks.into_iter().any(|block| block.count > 0 && block.types.contains(letter))
}

/// Is there a block for the request, and which types may it not have?
fn blocks(zone: &Zone, rights: Rights, judge: &Judge) -> (Option<bool>, String) {
    let Some(list) = &zone.list else { return (None, String::new()) };
    let is_cut = zone.has_cut_list();
    let large = list.blocks.iter().filter(|b| b.order >= u32::from(rights.order) && b.count > 0);
    let (mut has_block, mut kept) = (false, BTreeSet::new());
    for block in large {
        let usable = |letter: char| match letter {
            'C' => rights.movable,
            'H' => judge.may_use_highatomic(),
            'I' => false,
            _ => true,
        };
        // Kernels before 3.9 print no types.
        has_block |= block.types.is_empty() || block.types.chars().any(usable);
        kept.extend(block.types.chars().filter(|letter| !usable(*letter)));
    }
    // A cut list may have had larger blocks.
    let has_block = (has_block || !is_cut).then_some(has_block);
    (has_block, kept.into_iter().collect())
}

/// A zone in pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    free: u64,
    min: u64,
    reserve: u64,
    unusable: u64,
    nr_free: Option<[u32; MAX_ORDER]>,
}

impl Numbers {
    /// The numbers of the test, if the text has them.
    pub(super) fn of(report: &Report, row: &ZoneRow<'_>) -> Option<Numbers> {
        let pages = |kb: u64| pages_of(report, kb);
        let zone = row.zone;
        let lists = zone.list.as_ref().map(|list| {
            let mut nr_free = [0; MAX_ORDER];
            for block in &list.blocks {
                if let Some(count) = nr_free.get_mut(block.order as usize) {
                    *count = u32::try_from(block.count).unwrap_or(u32::MAX);
                }
            }
            nr_free
        });
        Some(Numbers {
            free: pages(zone.free?),
            min: pages(row.min_kb?),
            reserve: row.reserve_pages?.min(KB_MAX),
            unusable: pages(row.unusable_cma.or_else(|| of_machine(report))?)
                + pages(row.highatomic_in_test().unwrap_or(0)),
            nr_free: lists,
        })
    }

    /// The same zone with another min watermark.
    pub(super) fn with_min(self, min: u64) -> Numbers {
        Numbers { min, ..self }
    }

    /// The same zone with other free pages.
    pub(super) fn with_free(self, free: u64) -> Numbers {
        Numbers { free, ..self }
    }

    /// Free pages.
    pub(super) fn free(self) -> u64 {
        self.free
    }

    /// The min watermark.
    pub(super) fn min(self) -> u64 {
        self.min
    }

    /// Pages above mark and reserve after the request: at least 1 passes. `hidden`: high-atomic
    /// pages that are not printed.
    pub(super) fn spare(self, judge: &Judge, rights: Rights, hidden: u64) -> i64 {
        let rule = judge.policy.watermark.reserves;
        let unusable = self.unusable + hidden;
        let (left, min) = watermark::sides(
            rights.order.min(31),
            self.free,
            unusable,
            self.min,
            rights.flags,
            rule,
        );
        left - min - self.reserve as i64
    }

    /// Up to 4.3 lower orders do not count (rules/watermarks#halved-marks).
    pub(super) fn passes_by_order(self, judge: &Judge, rights: Rights) -> bool {
        let order = usize::from(rights.order);
        if judge.policy.watermark.test != WatermarkTest::HalvedMarks || order == 0 {
            return true;
        }
        let Some(nr_free) = self.nr_free.filter(|_| order < MAX_ORDER) else { return true };
        let rule = judge.policy.watermark.reserves;
        let (left, min) =
            watermark::sides(rights.order, self.free, self.unusable, self.min, rights.flags, rule);
        watermark::halved_marks_ok(order, &nr_free, left, min)
    }
}

/// CMA of the machine, kB: that of the zone if there is only one. Reports without a line for CMA
/// are of kernels without it.
fn of_machine(report: &Report) -> Option<u64> {
    match report.counters.get("free_cma") {
        None | Some(0) => Some(0),
        Some(pages) if report.zones.len() == 1 => {
            Some(pages.saturating_mul(page_size(report)) / 1024)
        }
        Some(_) => None,
    }
}
