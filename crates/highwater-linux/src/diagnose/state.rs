//! The free lists of a report or of texts of `/proc` as a state directory, for jobs that start there.
//!
//! The files are Linux's own: `buddyinfo`, `pagetypeinfo`, `zoneinfo`. Texts of `/proc` are copied. A
//! report has the free blocks of each order, so its `buddyinfo` is exact. It has types only as
//! letters, and a letter says no more than that the list of this type is not empty.

use std::fmt::Write as _;

use highwater_files::machine_file::state_texts::{BUDDYINFO, PAGETYPEINFO, ZONEINFO};
use highwater_results::import::log::{FreeBlocks, Report, ZONE_NAMES, Zone};
use highwater_results::import::proc::NR_ORDERS;

use super::machine::{frames, size};
use super::snapshot::Snapshot;
use super::zone::page_size;

/// Order and pages of a pageblock, with pages of 4 kB.
const PAGEBLOCK_ORDER: u32 = 9;
const PAGEBLOCK_PAGES: u64 = 1 << PAGEBLOCK_ORDER;
/// Types by their letters in a report, in the kernel's order. The reserve (R, before 4.4) has the
/// place that high-atomic blocks have now.
const TYPES: [(char, &str); 7] = [
    ('U', "Unmovable"),
    ('M', "Movable"),
    ('E', "Reclaimable"),
    ('R', "Reserve"),
    ('H', "HighAtomic"),
    ('C', "CMA"),
    ('I', "Isolate"),
];
/// Types that every kernel prints.
const ALWAYS: &str = "UMEI";
const MOVABLE: usize = 1;
/// Largest order of a list in a report.
const ORDER_MAX: u32 = 31;

/// The files of a state directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateOut {
    /// Names and texts.
    pub files: Vec<(&'static str, String)>,
    /// Guesses, and parts that were left out, a sentence each.
    pub remarks: Vec<String>,
}

/// The state of a machine at rest: its texts as they were read.
///
/// # Errors
/// Says in one line what is missing.
pub fn state_of_texts(found: &Snapshot) -> Result<StateOut, String> {
    let files = found.raw.clone();
    if files.iter().all(|(name, _)| *name == ZONEINFO) {
        return Err(
            "zoneinfo has no free blocks by order: buddyinfo or pagetypeinfo has".to_owned()
        );
    }
    Ok(StateOut { files, remarks: Vec::new() })
}

/// The state of a report.
///
/// # Errors
/// Says in one line what the text lacks, or what the model does not have.
pub fn state_of_report(report: &Report) -> Result<StateOut, String> {
    if page_size(report) != 4096 {
        return Err("pages of the machine are larger than 4 kB; the model has 4 kB".to_owned());
    }
    let mut zones: Vec<&Zone> = report.zones.iter().filter(|zone| size(zone) != Some(0)).collect();
    let rank = |zone: &Zone| ZONE_NAMES.iter().position(|name| *name == zone.name);
    zones.sort_by_key(|zone| (zone.node, rank(zone)));
    let lists = zones.iter().map(|zone| List::of(zone)).collect::<Result<Vec<_>, _>>()?;
    if lists.is_empty() {
        return Err("the text has no free lists".to_owned());
    }
    let nr_orders = lists.iter().map(|list| list.nr_orders()).max().unwrap_or(0).max(NR_ORDERS);
    let mut out = StateOut::default();
    out.files.push((BUDDYINFO, buddyinfo(&lists, nr_orders)));
    if lists.iter().any(|list| list.blocks.iter().any(|block| !block.types.is_empty())) {
        out.files.push((PAGETYPEINFO, pagetypeinfo(&lists, nr_orders)));
        out.remarks.push(
            "pagetypeinfo is guessed: of each order, every type whose letter the text has gets one block, \
             and the rest is movable (without M: of the first letter). Pageblocks: as many as these blocks need, \
             the high-atomic reserve as printed, the rest movable"
                .to_owned(),
        );
    } else {
        out.remarks.push("the text has no types of free blocks: all are movable".to_owned());
    }
    match zoneinfo(&zones) {
        Some(text) => {
            out.files.push((ZONEINFO, text));
            out.remarks.push(
                "zoneinfo has sizes and marks as printed; where zones begin is guessed".to_owned(),
            );
        }
        None => out.remarks.push(
            "no zoneinfo: sizes, marks or lowmem_reserve of a zone are not in the text".to_owned(),
        ),
    }
    let on_lists = zones.iter().filter_map(|zone| zone.counters.get("free_pcp"));
    let on_lists = on_lists.fold(0, |sum: u64, kb| sum.saturating_add(*kb));
    if on_lists > 0 {
        out.remarks.push(format!(
            "{on_lists} kB on per-CPU lists are in use: the text does not say which CPUs have them"
        ));
    }
    Ok(out)
}

/// The free list of a zone.
struct List<'a> {
    zone: &'a Zone,
    node: u32,
    blocks: &'a [FreeBlocks],
}

impl<'a> List<'a> {
    fn of(zone: &'a Zone) -> Result<List<'a>, String> {
        let node = zone.node.unwrap_or(0);
        let name = &zone.name;
        if name == "HighMem" {
            return Err("the model has no HighMem, and the machine has".to_owned());
        }
        let Some(list) = &zone.list else {
            return Err(format!("the free list of node {node} {name} is not in the text"));
        };
        if !list.is_empty && list.sum_kb.is_none() {
            return Err(format!("the free list of node {node} {name} is cut"));
        }
        if list.blocks.iter().any(|block| block.order > ORDER_MAX) {
            return Err(format!("node {node} {name}: orders above {ORDER_MAX}"));
        }
        Ok(List { zone, node, blocks: &list.blocks })
    }

    fn nr_orders(&self) -> usize {
        self.blocks.iter().map(|block| block.order as usize + 1).max().unwrap_or(0)
    }

    /// Has it blocks of this type?
    fn has(&self, letter: char) -> bool {
        self.blocks.iter().any(|block| block.count > 0 && block.types.contains(letter))
    }

    /// Blocks of each order of a type, by its place in [`TYPES`].
    fn of_type(&self, at: usize, nr_orders: usize) -> Vec<u64> {
        let mut nr_free = vec![0; nr_orders];
        for block in self.blocks {
            let places: Vec<usize> =
                (0..TYPES.len()).filter(|at| block.types.contains(TYPES[*at].0)).collect();
            let most = match places.first() {
                Some(first) if !places.contains(&MOVABLE) => *first,
                _ => MOVABLE,
            };
            let others = places.iter().filter(|place| **place != most).count() as u64;
            nr_free[block.order as usize] += match (at == most, places.contains(&at)) {
                (true, _) => block.count.saturating_sub(others),
                (false, true) => 1.min(block.count),
                (false, false) => 0,
            };
        }
        nr_free
    }
}

fn buddyinfo(lists: &[List<'_>], nr_orders: usize) -> String {
    let mut text = String::new();
    for list in lists {
        let mut nr_free = vec![0; nr_orders];
        list.blocks.iter().for_each(|block| nr_free[block.order as usize] += block.count);
        // Writing to a string does not fail.
        let _ = write!(text, "Node {}, zone {:>8} ", list.node, list.zone.name);
        row(&mut text, &nr_free);
    }
    text
}

fn row(text: &mut String, nr_free: &[u64]) {
    for nr in nr_free {
        let _ = write!(text, "{nr:6} ");
    }
    text.push('\n');
}

fn pagetypeinfo(lists: &[List<'_>], nr_orders: usize) -> String {
    let is_printed =
        |letter: char| ALWAYS.contains(letter) || lists.iter().any(|list| list.has(letter));
    let types: Vec<usize> = (0..TYPES.len()).filter(|at| is_printed(TYPES[*at].0)).collect();
    let mut text = format!(
        "Page block order: {PAGEBLOCK_ORDER}\nPages per block:  {PAGEBLOCK_PAGES}\n\n{:<43} ",
        "Free pages count per migrate type at order"
    );
    for order in 0..nr_orders {
        let _ = write!(text, "{order:6} ");
    }
    text.push('\n');
    for list in lists {
        for &at in &types {
            let (node, zone) = (list.node, &list.zone.name);
            let _ = write!(text, "Node {node:4}, zone {zone:>8}, type {:>12} ", TYPES[at].1);
            row(&mut text, &list.of_type(at, nr_orders));
        }
    }
    let _ = write!(text, "\n{:<23}", "Number of blocks type ");
    for &at in &types {
        let _ = write!(text, "{:>12} ", TYPES[at].1);
    }
    text.push('\n');
    for list in lists {
        let mut left = list.zone.present.or(list.zone.managed).unwrap_or(0) / 4 / PAGEBLOCK_PAGES;
        let mut nr_blocks = vec![0; TYPES.len()];
        for &at in types.iter().filter(|at| **at != MOVABLE) {
            // Free blocks that do not merge take twice their size.
            let pages = (1..).zip(list.of_type(at, nr_orders));
            let pages = pages.map(|(order, nr)| nr.saturating_mul(1 << order));
            let needed = pages.fold(0, u64::saturating_add).div_ceil(PAGEBLOCK_PAGES);
            let reserved = list.zone.reserved_highatomic.filter(|_| TYPES[at].0 == 'H');
            let nr = reserved.map_or(needed, |kb| kb / 4 / PAGEBLOCK_PAGES).min(left);
            nr_blocks[at] = nr;
            left -= nr;
        }
        nr_blocks[MOVABLE] = left;
        let _ = write!(text, "Node {}, zone {:>8} ", list.node, list.zone.name);
        for &at in &types {
            let _ = write!(text, "{:12} ", nr_blocks[at]);
        }
        text.push('\n');
    }
    text
}

/// `zoneinfo` of the zones; none if a number that it always has is not in the text.
fn zoneinfo(zones: &[&Zone]) -> Option<String> {
    let mut text = String::new();
    let mut next = 1;
    for zone in zones {
        let pages = |kb: Option<u64>| Some(kb? / 4);
        let (start, present) = frames(zone, next);
        next = start + present;
        let protection = zone.lowmem_reserve.as_ref()?.iter().map(u64::to_string);
        let protection: Vec<String> = protection.collect();
        let _ = writeln!(text, "Node {}, zone {:>8}", zone.node.unwrap_or(0), zone.name);
        let sizes = [
            ("boost", zone.boost.unwrap_or(0) / 4),
            ("min", pages(zone.min)?),
            ("low", pages(zone.low)?),
            ("high", pages(zone.high)?),
            ("spanned", present),
            ("present", present),
            ("managed", size(zone)?),
        ];
        let _ = writeln!(text, "  pages free     {}", pages(zone.free)?);
        for (name, pages) in sizes {
            let _ = writeln!(text, "        {name:<8} {pages}");
        }
        let _ = writeln!(text, "        protection: ({})", protection.join(", "));
        let _ = writeln!(text, "  start_pfn:           {start}");
    }
    Some(text)
}
