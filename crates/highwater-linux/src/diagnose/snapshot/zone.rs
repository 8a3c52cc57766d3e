//! A zone's free blocks judged for an order, by the core's own functions.
//!
//! A request is meant that may use every zone and has no rights to reserves, as the one for a huge
//! page of a process.

use highwater_core::compaction::{
    Suitability, compact_gap, fragmentation_index, suitability, unusable_index,
};
use highwater_core::config::MinReserveRule;
use highwater_core::page::Order;
use highwater_core::page_alloc::AllocFlags;
use highwater_core::zone::watermark;
use serde::Serialize;

use super::gather::{Zone, pages};

/// `vm.extfrag_threshold` where nobody has set it: up to this index, memory is short.
const LACK_UP_TO: i64 = 500;
/// The index of a request that would not fail.
const WOULD_NOT_FAIL: i64 = -1000;
/// Rule for privileged requests; the request here has no privileges.
const RULE: MinReserveRule = MinReserveRule::NonBlocking;

/// A zone beside an order. Blocks are blocks of that order.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderRow {
    /// The order.
    pub order: u32,
    /// Free blocks now, of types that an ordinary request may have. A larger block counts as
    /// several.
    pub now: u64,
    /// Free blocks of types that it may not have (`HighAtomic`, `Isolate`); `None` if the text has
    /// no types.
    pub kept: Option<u64>,
    /// Blocks of `now` that can be allocated before the zone is at its low watermark and reserve;
    /// `None` if the text has no watermarks.
    pub above_mark: Option<u64>,
    /// Share of free memory in smaller blocks, thousandths.
    pub unusable: u64,
    /// Fragmentation index, thousandths.
    pub index: i64,
    /// The index in words.
    pub meaning: Meaning,
    /// Blocks that pages in smaller blocks would make, if all that can be gathered were together.
    pub gathered: u64,
    /// Blocks that compaction could add at most: `gathered`, as far as the zone has pages to spare.
    pub could_add: u64,
    /// Would compaction run? `None` if the text has no watermarks.
    pub compaction: Option<Suitability>,
}

/// The meaning of a fragmentation index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Meaning {
    /// A block is free.
    WouldNotFail,
    /// Blocks are free, but all are in pageblocks that ordinary requests may not use.
    OnlyKept,
    /// A request would fail for lack of memory.
    LackOfMemory,
    /// A request would fail because memory is in pieces.
    Fragmentation,
}

impl Meaning {
    fn of(index: i64, now: u64) -> Meaning {
        match index {
            WOULD_NOT_FAIL if now == 0 => Meaning::OnlyKept,
            WOULD_NOT_FAIL => Meaning::WouldNotFail,
            index if index <= LACK_UP_TO => Meaning::LackOfMemory,
            _ => Meaning::Fragmentation,
        }
    }

    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Meaning::WouldNotFail => "would not fail",
            Meaning::OnlyKept => "only HighAtomic blocks",
            Meaning::LackOfMemory => "lack of memory",
            Meaning::Fragmentation => "fragmentation",
        }
    }
}

/// Would compaction run, in words.
pub(super) const fn compaction_text(suitability: Suitability) -> &'static str {
    match suitability {
        Suitability::Success => "not needed",
        Suitability::Continue => "can run",
        Suitability::Skipped => "skipped",
    }
}

impl OrderRow {
    /// The row of an order; `None` if the text has no free blocks by order.
    pub(super) fn of(zone: &Zone, order: u32) -> Option<OrderRow> {
        let blocks = zone.blocks.as_deref()?;
        let core = Order(u8::try_from(order.min(31)).unwrap_or(31));
        let kept = (!zone.types.is_empty()).then(|| {
            let of_type = |name: &str| matches!(name, "HighAtomic" | "Isolate");
            let rows = zone.types.iter().filter(|row| of_type(&row.name));
            rows.map(|row| in_blocks(&row.blocks, order)).sum()
        });
        let now = in_blocks(blocks, order).saturating_sub(kept.unwrap_or(0));
        let index = fragmentation_index(core, blocks);
        let spare = Spare::of(zone, core);
        let gathered = fragments(zone, order) >> order;
        let could_add = match spare {
            None => gathered,
            Some(spare) => gathered.min((spare.for_compaction >> order).saturating_sub(now)),
        };
        Some(OrderRow {
            order,
            now,
            kept,
            above_mark: spare.map(|spare| now.min(spare.above_mark >> order)),
            unusable: unusable_index(core, blocks),
            index,
            meaning: Meaning::of(index, now),
            gathered,
            could_add,
            compaction: spare.map(|spare| {
                suitability(core, spare.passes && now > 0, spare.has_room, false, || {
                    (0..=LACK_UP_TO).contains(&index)
                })
            }),
        })
    }
}

/// Pages that a zone has to spare.
#[derive(Clone, Copy, Debug)]
struct Spare {
    /// Above mark and reserve.
    above_mark: u64,
    /// Above mark, reserve and the gap that compaction needs.
    for_compaction: u64,
    /// The watermark test for the order passes, apart from blocks.
    passes: bool,
    /// The order-0 test with the gap passes.
    has_room: bool,
}

impl Spare {
    fn of(zone: &Zone, order: Order) -> Option<Spare> {
        let ([min, low, _], free) = (zone.marks?, zone.free?);
        // Compaction for costly orders leaves the low watermark, for others min.
        let mark = if order.is_costly() { low } else { min };
        let reserve = zone.reserve.unwrap_or(0);
        let bound = |pages: u64| pages.min(i64::MAX as u64 / 4);
        let highatomic = zone
            .types
            .iter()
            .filter(|row| row.name == "HighAtomic")
            .map(|row| pages(&row.blocks))
            .sum::<u64>();
        let above = |order: Order, extra: u64| {
            let mark = bound(mark).saturating_add(extra);
            let flags = AllocFlags::empty();
            let (left, min) = watermark::sides(order.0, bound(free), highatomic, mark, flags, RULE);
            left - min - bound(reserve) as i64
        };
        let for_compaction = above(Order::ZERO, compact_gap(order));
        Some(Spare {
            above_mark: above(Order::ZERO, 0).max(0) as u64,
            for_compaction: for_compaction.max(0) as u64,
            passes: above(order, 0) > 0,
            has_room: for_compaction > 0,
        })
    }
}

/// Free memory as blocks of an order; a larger block counts as several.
fn in_blocks(blocks: &[u64], order: u32) -> u64 {
    let large = blocks.iter().enumerate().skip(order as usize);
    large.map(|(own, nr)| nr << (own - order as usize)).sum()
}

/// Free pages that compaction can gather: those in smaller blocks, and with types only those in
/// movable and CMA pageblocks.
fn fragments(zone: &Zone, order: u32) -> u64 {
    let small = |blocks: &[u64]| pages(&blocks[..blocks.len().min(order as usize)]);
    if zone.types.is_empty() {
        return zone.blocks.as_deref().map_or(0, small);
    }
    let movable = zone.types.iter().filter(|row| matches!(row.name.as_str(), "Movable" | "CMA"));
    movable.map(|row| small(&row.blocks)).sum()
}

#[cfg(test)]
mod tests {
    use super::super::gather::TypeBlocks;
    use super::*;

    fn zone(blocks: &[u64]) -> Zone {
        Zone { blocks: Some(blocks.to_vec()), free: Some(pages(blocks)), ..Zone::default() }
    }

    #[test]
    fn without_marks_all_small_blocks_are_gathered() {
        let row = OrderRow::of(&zone(&[1024, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]), 9).unwrap();
        assert_eq!((row.now, row.could_add, row.above_mark, row.compaction), (2, 2, None, None));
        assert_eq!((row.unusable, row.meaning), (500, Meaning::WouldNotFail));
        let row = OrderRow::of(&zone(&[5000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), 9).unwrap();
        assert_eq!((row.now, row.could_add, row.meaning), (0, 9, Meaning::Fragmentation));
        assert_eq!(OrderRow::of(&Zone::default(), 9), None);
    }

    #[test]
    fn marks_reserve_and_gap_are_left_alone() {
        let mut own = zone(&[5000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        (own.marks, own.reserve) = (Some([1000, 1500, 2000]), Some(300));
        // 5000 - 1500 - 300 - 1024 = 2176 pages: four blocks.
        let row = OrderRow::of(&own, 9).unwrap();
        assert_eq!((row.could_add, row.above_mark), (4, Some(0)));
        assert_eq!(row.compaction, Some(Suitability::Continue));
        own.marks = Some([4000, 4500, 5000]);
        let row = OrderRow::of(&own, 9).unwrap();
        assert_eq!((row.could_add, row.compaction), (0, Some(Suitability::Skipped)));
        // Order 3 leaves min, not low.
        assert_eq!(OrderRow::of(&own, 3).unwrap().could_add, (5000 - 4000 - 300 - 16) / 8);
    }

    #[test]
    fn unmovable_pageblocks_keep_their_pages() {
        let mut own = zone(&[2048, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0]);
        let row = |name: &str, blocks: [u64; 11]| TypeBlocks {
            name: name.to_owned(),
            blocks: blocks.to_vec(),
        };
        own.types = vec![
            row("Unmovable", [1536, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            row("Movable", [512, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]),
            row("HighAtomic", [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]),
        ];
        let row = OrderRow::of(&own, 9).unwrap();
        assert_eq!((row.now, row.kept, row.could_add), (1, Some(1), 1));
        own.types.remove(1);
        own.blocks = Some(vec![1536, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
        let row = OrderRow::of(&own, 9).unwrap();
        assert_eq!((row.now, row.gathered, row.meaning), (0, 0, Meaning::OnlyKept));
    }

    #[test]
    fn other_numbers_of_orders_and_absurd_counts() {
        let row = OrderRow::of(&zone(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]), 13).unwrap();
        assert_eq!((row.now, row.unusable), (3, 0));
        let row = OrderRow::of(&zone(&[7; 9]), 9).unwrap();
        assert_eq!((row.now, row.unusable, row.could_add), (0, 1000, (7 * 511) >> 9));
        let mut own = zone(&[1 << 44; 1]);
        own.marks = Some([u64::MAX; 3]);
        own.reserve = Some(u64::MAX);
        assert_eq!(OrderRow::of(&own, 31).unwrap().could_add, 0);
    }
}
