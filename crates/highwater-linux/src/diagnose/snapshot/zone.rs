//! A zone's free blocks judged for an order, by the core's own functions.
//!
//! | request | zones | blocks | mark |
//! |---|---|---|---|
//! | [`Wanted::Movable`], as for a huge page of a process | all | not HighAtomic, Isolate | low for costly orders, else min |
//! | [`Wanted::Kernel`], `GFP_KERNEL`, unmovable | up to Normal | not HighAtomic, Isolate, CMA | min |
//!
//! Neither has rights to reserves.

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
/// Pages of a DMA zone that ends at 16 MiB.
const DMA_PAGES: u64 = 4096;
/// Rule for privileged requests; the request here has no privileges.
const RULE: MinReserveRule = MinReserveRule::NonBlocking;

/// The request that is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Movable, in every zone: memory of a process.
    Movable,
    /// `GFP_KERNEL`, unmovable.
    Kernel,
}

impl Wanted {
    /// May it have blocks of this type?
    pub(super) fn has_right_to(self, migratetype: &str) -> bool {
        match migratetype {
            "HighAtomic" | "Isolate" => false,
            "CMA" => self == Wanted::Movable,
            _ => true,
        }
    }

    /// May it use this zone?
    fn is_allowed_in(self, zone: &Zone) -> bool {
        self == Wanted::Movable || !matches!(zone.name.as_str(), "HighMem" | "Movable" | "Device")
    }
}

/// A zone beside an order. Blocks are blocks of that order.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderRow {
    /// The order.
    pub order: u32,
    /// Free blocks now, of types that the request may have. A larger block counts as several.
    pub now: u64,
    /// Free blocks of types that it may not have (`HighAtomic`, `Isolate`, for the kernel also
    /// `CMA`); `None` if the text has no types.
    pub kept: Option<u64>,
    /// Blocks of `now` that can be allocated before the zone is at its watermark and reserve;
    /// `None` if the text has no watermarks.
    pub above_mark: Option<u64>,
    /// Share of free memory in smaller blocks, thousandths.
    pub unusable: u64,
    /// Fragmentation index of Linux, thousandths. It looks at no mark and no type.
    pub index: i64,
    /// Fate of a request.
    pub meaning: Meaning,
    /// Blocks that pages in smaller blocks would make, if all that can be gathered were together.
    pub gathered: u64,
    /// Blocks that compaction could add at most: `gathered`, as far as the zone has pages to spare.
    pub could_add: u64,
    /// Would compaction run? `None` if the text has no watermarks.
    pub compaction: Option<Suitability>,
}

/// Fate of a request in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Meaning {
    /// A block is free, and as far as the text says the watermark lets it go.
    WouldNotFail,
    /// A block is free, but the zone is at its watermark.
    BelowMark,
    /// A block is free and above the watermark, but `lowmem_reserve` keeps it.
    Reserved,
    /// Blocks are free, but all are in pageblocks that the request may not use.
    OnlyKept,
    /// The request may not use this zone.
    OtherZone,
    /// A request would fail for lack of memory.
    LackOfMemory,
    /// A request would fail because memory is in pieces.
    Fragmentation,
}

impl Meaning {
    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Meaning::WouldNotFail => "served",
            Meaning::BelowMark => "fails: at the mark",
            Meaning::Reserved => "fails: reserve",
            Meaning::OnlyKept => "fails: kept types",
            Meaning::OtherZone => "other zone",
            Meaning::LackOfMemory => "fails: too little free",
            Meaning::Fragmentation => "fails: fragmentation",
        }
    }

    /// A sentence for the words that do not explain themselves.
    pub(super) const fn note(self) -> Option<&'static str> {
        match self {
            Meaning::BelowMark => Some("at the mark: a block is free, but the watermark keeps it"),
            Meaning::Reserved => Some(
                "reserve: a block is free, but lowmem_reserve keeps it from requests that can use higher zones",
            ),
            Meaning::OnlyKept => Some(
                "kept types: blocks are free, but in pageblocks that such requests may not use",
            ),
            Meaning::OtherZone => Some("other zone: GFP_KERNEL does not use it"),
            _ => None,
        }
    }

    /// A block is there, and something keeps it.
    pub(super) const fn is_kept(self) -> bool {
        matches!(
            self,
            Meaning::BelowMark | Meaning::Reserved | Meaning::OnlyKept | Meaning::OtherZone
        )
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
    pub(super) fn of(zone: &Zone, order: u32, wanted: Wanted) -> Option<OrderRow> {
        let blocks = zone.blocks.as_deref()?;
        let core = Order(u8::try_from(order.min(31)).unwrap_or(31));
        let (order, all) = (u32::from(core.0), in_blocks(blocks, u32::from(core.0)));
        let is_allowed = wanted.is_allowed_in(zone);
        let kept = match is_allowed {
            false => Some(all),
            true => (!zone.types.is_empty()).then(|| {
                let rows = zone.types.iter().filter(|row| !wanted.has_right_to(&row.name));
                rows.map(|row| in_blocks(&row.blocks, order)).sum::<u64>()
            }),
        };
        let now = all.saturating_sub(kept.unwrap_or(0));
        let index = fragmentation_index(core, blocks);
        let spare = Spare::of(zone, core, wanted);
        let gathered = if is_allowed { fragments(zone, order, wanted) >> order } else { 0 };
        let could_add = match spare {
            None => gathered,
            Some(spare) => gathered.min((spare.for_compaction >> order).saturating_sub(now)),
        };
        let above_mark = spare.map(|spare| now.min(spare.above_mark >> order));
        let meaning = match (is_allowed, above_mark) {
            (false, _) => Meaning::OtherZone,
            (_, Some(0)) if now > 0 => {
                match spare.is_some_and(|spare| spare.above_reserve >> order > 0) {
                    true => Meaning::Reserved,
                    false => Meaning::BelowMark,
                }
            }
            _ if now > 0 => Meaning::WouldNotFail,
            _ if all > 0 => Meaning::OnlyKept,
            _ if pages(blocks) >> order == 0 || index <= LACK_UP_TO => Meaning::LackOfMemory,
            _ => Meaning::Fragmentation,
        };
        Some(OrderRow {
            order,
            now,
            kept,
            above_mark,
            unusable: unusable_index(core, blocks),
            index,
            meaning,
            gathered,
            could_add,
            compaction: spare.filter(|_| is_allowed).map(|spare| {
                suitability(core, spare.passes && now > 0, spare.has_room, false, || {
                    (0..=LACK_UP_TO).contains(&index)
                })
            }),
        })
    }

    /// Blocks that count as free for a verdict: those above marks and reserves. Without marks, the
    /// few megabytes of an x86 DMA zone below others do not count: its reserve usually keeps them.
    pub(super) fn usable(&self, zone: &Zone, has_higher_zone: bool) -> u64 {
        let is_small_dma = zone.name == "DMA"
            && has_higher_zone
            && zone.blocks.as_deref().is_some_and(|blocks| pages(blocks) <= DMA_PAGES);
        match self.above_mark {
            Some(above) => above,
            None if is_small_dma => 0,
            None => self.now,
        }
    }
}

/// Pages that a zone has to spare.
#[derive(Clone, Copy, Debug)]
struct Spare {
    /// Above mark and reserve.
    above_mark: u64,
    /// Above the mark, without regard to the reserve.
    above_reserve: u64,
    /// Above mark, reserve and the gap that compaction needs.
    for_compaction: u64,
    /// The watermark test for the order passes, apart from blocks.
    passes: bool,
    /// The order-0 test with the gap passes.
    has_room: bool,
}

impl Spare {
    fn of(zone: &Zone, order: Order, wanted: Wanted) -> Option<Spare> {
        let ([min, low, _], free) = (zone.marks?, zone.free?);
        // Compaction for costly orders leaves the low watermark, for others min.
        let for_compaction = if order.is_costly() { low } else { min };
        let (mark, reserve) = match wanted {
            Wanted::Movable => (for_compaction, zone.reserve),
            Wanted::Kernel => (min, zone.reserve_normal.or(zone.reserve)),
        };
        let reserve = reserve.unwrap_or(0);
        let bound = |pages: u64| pages.min(i64::MAX as u64 / 4);
        let of_type = |name: &str| {
            let rows = zone.types.iter().filter(|row| row.name == name);
            rows.map(|row| pages(&row.blocks)).sum::<u64>()
        };
        // Isolated pages are not among the free ones.
        let kept = match wanted {
            Wanted::Movable => of_type("HighAtomic"),
            Wanted::Kernel => of_type("HighAtomic")
                .saturating_add(zone.free_cma.unwrap_or_else(|| of_type("CMA"))),
        };
        let above = |order: Order, mark: u64, reserve: u64| {
            let flags = AllocFlags::empty();
            let (left, min) =
                watermark::sides(order.0, bound(free), bound(kept), bound(mark), flags, RULE);
            left - min - bound(reserve) as i64
        };
        let gap = for_compaction.saturating_add(compact_gap(order));
        let room = above(Order::ZERO, gap, reserve);
        Some(Spare {
            above_mark: above(Order::ZERO, mark, reserve).max(0) as u64,
            above_reserve: above(Order::ZERO, mark, 0).max(0) as u64,
            for_compaction: room.max(0) as u64,
            passes: above(order, for_compaction, reserve) > 0,
            has_room: room > 0,
        })
    }
}

/// Free memory as blocks of an order; a larger block counts as several.
fn in_blocks(blocks: &[u64], order: u32) -> u64 {
    let large = blocks.iter().enumerate().skip(order as usize);
    large.map(|(own, nr)| nr << (own - order as usize)).sum()
}

/// Free pages that compaction can gather: those in smaller blocks, and with types only those in
/// movable pageblocks, or in those of CMA if the request may have them.
fn fragments(zone: &Zone, order: u32, wanted: Wanted) -> u64 {
    let small = |blocks: &[u64]| pages(&blocks[..blocks.len().min(order as usize)]);
    if zone.types.is_empty() {
        return zone.blocks.as_deref().map_or(0, small);
    }
    let is_movable = |name: &str| matches!(name, "Movable" | "CMA") && wanted.has_right_to(name);
    let movable = zone.types.iter().filter(|row| is_movable(&row.name));
    movable.map(|row| small(&row.blocks)).sum()
}

#[cfg(test)]
mod tests {
    use super::super::gather::TypeBlocks;
    use super::Wanted::{Kernel, Movable};
    use super::*;

    fn zone(blocks: &[u64]) -> Zone {
        Zone { blocks: Some(blocks.to_vec()), free: Some(pages(blocks)), ..Zone::default() }
    }

    #[test]
    fn without_marks_all_small_blocks_are_gathered() {
        let row = OrderRow::of(&zone(&[1024, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]), 9, Movable).unwrap();
        assert_eq!((row.now, row.could_add, row.above_mark, row.compaction), (2, 2, None, None));
        assert_eq!((row.unusable, row.meaning), (500, Meaning::WouldNotFail));
        let row = OrderRow::of(&zone(&[5000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), 9, Movable).unwrap();
        assert_eq!((row.now, row.could_add, row.meaning), (0, 9, Meaning::Fragmentation));
        assert_eq!(OrderRow::of(&Zone::default(), 9, Movable), None);
    }

    #[test]
    fn marks_reserve_and_gap_are_left_alone() {
        let mut own = zone(&[5000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        (own.marks, own.reserve) = (Some([1000, 1500, 2000]), Some(300));
        // 5000 - 1500 - 300 - 1024 = 2176 pages: four blocks.
        let row = OrderRow::of(&own, 9, Movable).unwrap();
        assert_eq!((row.could_add, row.above_mark), (4, Some(0)));
        assert_eq!(row.compaction, Some(Suitability::Continue));
        own.marks = Some([4000, 4500, 5000]);
        let row = OrderRow::of(&own, 9, Movable).unwrap();
        assert_eq!((row.could_add, row.compaction), (0, Some(Suitability::Skipped)));
        // Order 3 leaves min, not low.
        assert_eq!(OrderRow::of(&own, 3, Movable).unwrap().could_add, (5000 - 4000 - 300 - 16) / 8);
    }

    #[test]
    fn unmovable_pageblocks_keep_their_pages() {
        let mut own = zone(&[2048, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0]);
        let row = |name: &str, blocks: [u64; 11]| TypeBlocks {
            name: name.to_owned(),
            blocks: blocks.to_vec(),
            is_capped: false,
        };
        own.types = vec![
            row("Unmovable", [1536, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            row("Movable", [512, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]),
            row("HighAtomic", [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]),
        ];
        let row = OrderRow::of(&own, 9, Movable).unwrap();
        assert_eq!((row.now, row.kept, row.could_add), (1, Some(1), 1));
        own.types.remove(1);
        own.blocks = Some(vec![1536, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
        let row = OrderRow::of(&own, 9, Movable).unwrap();
        assert_eq!((row.now, row.gathered, row.meaning), (0, 0, Meaning::OnlyKept));
    }

    #[test]
    fn other_numbers_of_orders_and_absurd_counts() {
        let row =
            OrderRow::of(&zone(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]), 13, Movable).unwrap();
        assert_eq!((row.now, row.unusable), (3, 0));
        let row = OrderRow::of(&zone(&[7; 9]), 9, Movable).unwrap();
        assert_eq!((row.now, row.unusable, row.could_add), (0, 1000, (7 * 511) >> 9));
        let mut own = zone(&[1 << 44; 1]);
        own.marks = Some([u64::MAX; 3]);
        own.reserve = Some(u64::MAX);
        assert_eq!(OrderRow::of(&own, 31, Movable).unwrap().could_add, 0);
    }

    #[test]
    fn a_free_block_that_reserve_or_mark_keeps_serves_nobody() {
        let mut own = zone(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]);
        let of = |own: &Zone, wanted| OrderRow::of(own, 9, wanted).unwrap();
        (own.marks, own.reserve) = (Some([8, 11, 14]), Some(31_932));
        let row = of(&own, Movable);
        assert_eq!((row.now, row.above_mark, row.meaning), (6, Some(0), Meaning::Reserved));
        own.reserve = Some(0);
        assert_eq!(of(&own, Movable).meaning, Meaning::WouldNotFail);
        own.marks = Some([1000, 4000, 5000]);
        assert_eq!(of(&own, Movable).meaning, Meaning::BelowMark);
        // A request of the kernel goes down to min.
        assert_eq!(of(&own, Kernel).meaning, Meaning::WouldNotFail);
    }

    #[test]
    fn the_kernel_gets_no_cma_and_only_zones_up_to_normal() {
        let mut own = zone(&[0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0]);
        own.types = vec![TypeBlocks {
            name: "CMA".to_owned(),
            blocks: vec![0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0],
            is_capped: false,
        }];
        let row = OrderRow::of(&own, 4, Kernel).unwrap();
        assert_eq!((row.now, row.kept, row.meaning), (0, Some(2), Meaning::OnlyKept));
        assert_eq!(OrderRow::of(&own, 4, Movable).unwrap().now, 2);
        (own.types, own.name) = (Vec::new(), "Movable".to_owned());
        let row = OrderRow::of(&own, 4, Kernel).unwrap();
        assert_eq!((row.now, row.could_add, row.meaning), (0, 0, Meaning::OtherZone));
        // The reserve of the column Normal, not the largest.
        own.name = "DMA32".to_owned();
        own.marks = Some([1, 2, 3]);
        (own.reserve, own.reserve_normal) = (Some(1 << 20), Some(0));
        assert_eq!(OrderRow::of(&own, 4, Kernel).unwrap().above_mark, Some(1));
        assert_eq!(OrderRow::of(&own, 4, Movable).unwrap().above_mark, Some(0));
    }

    #[test]
    fn less_than_a_block_is_too_little_not_fragmentation() {
        let row = OrderRow::of(&zone(&[31, 3, 5, 1, 2, 1, 0, 0, 1, 0, 0]), 10, Movable).unwrap();
        assert_eq!(row.meaning, Meaning::LackOfMemory);
        assert!(row.index > LACK_UP_TO, "by the index alone it would be fragmentation");
    }

    #[test]
    fn a_small_dma_zone_without_marks_counts_only_alone() {
        let mut own = zone(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]);
        own.name = "DMA".to_owned();
        let row = OrderRow::of(&own, 9, Movable).unwrap();
        assert_eq!((row.usable(&own, true), row.usable(&own, false)), (0, 6));
    }
}
