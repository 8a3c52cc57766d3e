//! Whether compaction could make a block of an order out of free memory
//! (rules/compaction#suitability).
//!
//! Reclaim calls it, to stop once it has freed enough for compaction.
//!
//! From: `reclaim::node_pass`, `reclaim::direct` · to: `zone::watermark`.

use crate::config::{IndexOrders, SuitableMark};
use crate::host::Host;
use crate::page::{MAX_ORDER, Order, PAGEBLOCK_ORDER};
use crate::page_alloc::{AllocFlags, PageAllocator};
use crate::zone::{Mark, Zone, ZoneType};

/// Returns the free pages that compaction for an order needs besides the watermark
/// (rules/compaction#gap): twice the block. A kernel may need fewer:
/// [`PageAllocator::gap_to_compact`].
///
/// Linux: same name.
pub const fn compact_gap(order: Order) -> u64 {
    2 << order.0
}

/// Free pages that a costly order needs above a watermark besides the gap (7.2): the distance from
/// the min mark to the low mark.
pub(crate) fn costly_extra<H: Host>(zone: &Zone<H>, order: Order) -> u64 {
    match order.is_costly() {
        true => zone.mark(Mark::Low).saturating_sub(zone.mark(Mark::Min)),
        false => 0,
    }
}

/// May compaction run?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suitability {
    /// There is too little free memory.
    Skipped,
    /// Yes.
    Continue,
    /// It need not: there is a block.
    Success,
}

/// Decides whether compaction may run in a zone. `has_block` = the watermark test for the order
/// passes, `has_room` = the order-0 test with the gap does; the index is asked for only where it
/// matters.
#[doc(alias = "__compaction_suitable")]
pub fn suitability(
    order: Order,
    has_block: bool,
    has_room: bool,
    every_order: bool,
    lacks_memory: impl FnOnce() -> bool,
) -> Suitability {
    if has_block {
        return Suitability::Success;
    }
    let asks_index = every_order || order.is_costly();
    let is_short = !has_room || (asks_index && lacks_memory());
    if is_short { Suitability::Skipped } else { Suitability::Continue }
}

/// Computes the fragmentation index of an order (rules/compaction#fragmentation-index) for
/// `nr_free` blocks of each order. Towards 0 a request would fail for lack of memory, towards 1000
/// because of fragmentation; -1000 if it would not fail. The list may have any number of orders:
/// kernels with larger pages have other numbers than ours.
///
/// Linux: same name.
#[doc(alias = "__fragmentation_index")]
pub fn fragmentation_index(order: Order, nr_free: &[u64]) -> i64 {
    let blocks: u64 = nr_free.iter().sum();
    if blocks == 0 {
        return 0;
    }
    if nr_free.iter().skip(order.idx()).any(|&n| n != 0) {
        return -1000;
    }
    let pages: u64 = nr_free.iter().enumerate().map(|(o, n)| n << o).sum();
    1000 - ((1000 + pages * 1000 / order.pages()) / blocks) as i64
}

/// Computes the share of free memory that is in blocks too small for an order, in thousandths
/// (rules/compaction#unusable-index). The list may have any number of orders.
#[doc(alias = "unusable_free_index")]
pub fn unusable_index(order: Order, nr_free: &[u64]) -> u64 {
    let pages: u64 = nr_free.iter().enumerate().map(|(o, n)| n << o).sum();
    let usable: u64 = nr_free.iter().enumerate().skip(order.idx()).map(|(o, n)| n << o).sum();
    ((pages - usable) * 1000).checked_div(pages).unwrap_or(1000)
}

impl<H: Host> PageAllocator<H> {
    /// Returns the free pages that compaction for an order needs besides the watermark on this
    /// kernel: [`compact_gap`], or the most that it needs.
    pub(crate) fn gap_to_compact(&self, order: Order) -> u64 {
        compact_gap(order).min(self.policy.compaction.gap_max.into())
    }

    /// Reports whether compaction of a zone could serve an unprivileged request of an order up to
    /// zone `highest`.
    ///
    /// Linux: same name.
    pub(crate) fn compaction_suitable(
        &self,
        zone: &Zone<H>,
        order: Order,
        highest: ZoneType,
    ) -> Suitability {
        self.compaction_suitable_for(zone, order, AllocFlags::empty(), highest)
    }

    /// The same for a request with these rights, by the mark that they say.
    pub(crate) fn compaction_suitable_for(
        &self,
        zone: &Zone<H>,
        order: Order,
        flags: AllocFlags,
        highest: ZoneType,
    ) -> Suitability {
        let rule = self.policy.watermark_rule();
        let free = zone.nr_free_pages();
        let policy = &self.policy.compaction;
        let (mark, base) = match policy.suitable_mark {
            SuitableMark::Low => (Mark::Low, zone.mark(Mark::Low)),
            SuitableMark::ByCost if order.is_costly() => (flags.mark(), zone.mark(Mark::Low)),
            SuitableMark::ByCost => (flags.mark(), zone.mark(Mark::Min)),
            SuitableMark::Named => {
                (flags.mark(), zone.mark(flags.mark()) + costly_extra(zone, order))
            }
        };
        let has_block = zone.watermark_ok(rule, order, zone.mark(mark), highest, flags, free);
        let rights = match policy.suitable_mark {
            SuitableMark::Low => flags,
            SuitableMark::ByCost | SuitableMark::Named => AllocFlags::CMA,
        };
        self.suitable_above(zone, order, has_block, (base, rights), highest)
    }

    /// Decides whether compaction may run in a zone: `base` with the gap is the mark for its room,
    /// tested with these rights.
    pub(crate) fn suitable_above(
        &self,
        zone: &Zone<H>,
        order: Order,
        has_block: bool,
        (base, rights): (u64, AllocFlags),
        highest: ZoneType,
    ) -> Suitability {
        let rule = self.policy.watermark_rule();
        let policy = &self.policy.compaction;
        let (room, free) = (base + self.gap_to_compact(order), zone.nr_free_pages());
        let every_order = policy.index_orders == IndexOrders::Every;
        let has_room = zone.watermark_ok(rule, Order::ZERO, room, highest, rights, free);
        suitability(order, has_block, has_room, every_order, || {
            let blocks = |o: usize| u64::from(zone.nr_free_blocks(Order(o as u8)));
            let index =
                fragmentation_index(order, &core::array::from_fn::<u64, MAX_ORDER, _>(blocks));
            (0..=self.tunables.extfrag_threshold.get() as i64).contains(&index)
        })
    }
}

/// Computes the percentage of a zone's free memory in blocks too small for a huge page
/// (rules/compaction#score).
///
/// Linux 5.9 on.
#[doc(alias = "fragmentation_score_zone")]
pub fn fragmentation_score(nr_free: &[u64; MAX_ORDER]) -> u64 {
    let pages: u64 = nr_free.iter().enumerate().map(|(o, n)| n << o).sum();
    let large = nr_free.iter().enumerate().skip(usize::from(PAGEBLOCK_ORDER));
    let usable: u64 = large.map(|(o, n)| n << o).sum();
    ((pages - usable) * 100).checked_div(pages).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_tells_shortage_from_fragmentation() {
        let mut nr_free = [0; MAX_ORDER];
        assert_eq!(fragmentation_index(Order(9), &nr_free), 0);
        nr_free[0] = 1;
        assert_eq!(fragmentation_index(Order(9), &nr_free), -1, "1000 - (1000 + 1)");
        nr_free[0] = 10_000;
        assert_eq!(fragmentation_index(Order(9), &nr_free), 998);
        nr_free[10] = 1;
        assert_eq!(fragmentation_index(Order(9), &nr_free), -1000);
    }

    /// rules/compaction#fragmentation-index.
    #[test]
    fn indices_of_the_rules() {
        let of = |counts: &[u64]| {
            let mut nr_free = [0; MAX_ORDER];
            nr_free[..counts.len()].copy_from_slice(counts);
            nr_free
        };
        let index = |order, counts| fragmentation_index(Order(order), &of(counts));
        for (counts, expected) in [
            (&[600][..], 997),
            (&[1200, 500, 200, 60, 10, 2, 1], 996),
            (&[0, 0, 0, 0, 0, 0, 0, 0, 4], 250),
            (&[0, 0, 0, 0, 0, 0, 0, 0, 300], 497),
            (&[2, 0, 0, 0, 0, 0, 0, 3], 650),
            (&[0, 0, 0, 0, 0, 0, 0, 0, 1], -500),
            (&[1], -1),
            (&[], 0),
            (&[5, 0, 0, 0, 0, 0, 0, 0, 0, 1], -1000),
        ] {
            assert_eq!(index(9, counts), expected, "{counts:?}");
        }
        assert_eq!([3, 4, 9].map(|order| index(order, &[512, 512])), [812, 906, 997]);
        let mixed = of(&[100, 50, 20, 10, 5, 2, 1, 1, 1, 1]);
        assert_eq!((fragmentation_score(&mixed), fragmentation_score(&of(&[]))), (65, 0));
        let unusable = |counts| unusable_index(Order(9), counts);
        assert_eq!((unusable(&mixed), unusable(&of(&[]))), (650, 1000));
        assert_eq!(fragmentation_score(&of(&[1])), 100);
    }

    #[test]
    fn suitability_asks_in_order() {
        let never = || -> bool { panic!("not asked for") };
        assert_eq!(suitability(Order(9), true, false, false, never), Suitability::Success);
        assert_eq!(suitability(Order(9), false, false, false, never), Suitability::Skipped);
        assert_eq!(suitability(Order(3), false, true, false, never), Suitability::Continue);
        assert_eq!(suitability(Order(9), false, true, false, || true), Suitability::Skipped);
        assert_eq!(suitability(Order(9), false, true, false, || false), Suitability::Continue);
        assert_eq!(suitability(Order(3), false, true, true, || true), Suitability::Skipped);
    }
}
