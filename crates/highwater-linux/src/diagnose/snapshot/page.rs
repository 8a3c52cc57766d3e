//! The free blocks of each zone as bars of a page.

use highwater_report::html::{BlocksOfOrder, Fitness, FreeBlocksOf};

use super::zone::{Meaning, OrderRow};
use super::{Snapshot, Wanted, Zone};

/// Most zones with a figure; the first of the text are shown.
const FIGURES_MAX: usize = 12;
/// Types by their letters, as a kernel's report prints them.
const LETTERS: [(&str, char); 7] = [
    ("Unmovable", 'U'),
    ("Movable", 'M'),
    ("Reclaimable", 'E'),
    ("Reserve", 'R'),
    ("HighAtomic", 'H'),
    ("CMA", 'C'),
    ("Isolate", 'I'),
];

/// The free blocks.
pub(super) fn free_blocks(snapshot: &Snapshot) -> Vec<FreeBlocksOf> {
    let kb = snapshot.sizes.page >> 10;
    let rows = snapshot.rows().take(FIGURES_MAX);
    rows.map(|(zone, row)| list(zone, row, snapshot.wanted, kb)).collect()
}

fn list(zone: &Zone, row: &OrderRow, wanted: Wanted, kb: u64) -> FreeBlocksOf {
    let blocks = zone.blocks.iter().flatten().enumerate();
    let orders = blocks.map(|(at, count)| {
        let order = u32::try_from(at).unwrap_or(u32::MAX);
        let own = zone.types.iter().filter(|of| of.blocks.get(at).is_some_and(|nr| *nr > 0));
        let types: Vec<&str> = own.map(|of| of.name.as_str()).collect();
        let letters = LETTERS.iter().filter(|(name, _)| types.contains(name));
        let is_kept = !types.is_empty() && types.iter().all(|name| !wanted.has_right_to(name));
        let keeps_all = matches!(row.meaning, Meaning::BelowMark | Meaning::Reserved);
        let fitness = match row.meaning {
            Meaning::OtherZone => Fitness::Unknown,
            _ if order < row.order => Fitness::TooSmall,
            _ if is_kept || keeps_all => Fitness::Kept,
            _ => Fitness::Fits,
        };
        BlocksOfOrder {
            order,
            kb: kb.checked_shl(order).unwrap_or(u64::MAX),
            count: *count,
            types: letters.map(|(_, letter)| letter).collect(),
            fitness,
        }
    });
    FreeBlocksOf { zone: format!("node {} {}", zone.node, zone.name), orders: orders.collect() }
}
