//! Could compaction make a block of an order out of what is free (rules/compaction#suitability)?
//!
//! Reclaim asks, to stop once it has freed enough for it.
//!
//! From: `reclaim::node_pass`, `reclaim::direct` · to: `zone::watermark`.

use crate::config::{IndexOrders, SuitableMark};
use crate::host::Host;
use crate::page::{MAX_ORDER, Order};
use crate::page_alloc::{AllocFlags, PageAllocator};
use crate::zone::{Mark, Zone, ZoneType};

/// `vm.extfrag_threshold`: below it a failure is for lack of memory.
const EXTFRAG_THRESHOLD: i64 = 500;

/// Pages that compaction for an order needs free besides the watermark (rules/compaction#gap).
pub const fn compact_gap(order: Order) -> u64 {
    2 << order.0
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

/// Decides: `has_block` = the watermark test for the order passes, `has_room` = the order-0 test
/// with the gap does; the index is asked for only where it matters.
pub fn suitability(
    order: Order,
    has_block: bool,
    has_room: bool,
    every_order: bool,
    index: impl FnOnce() -> i64,
) -> Suitability {
    if has_block {
        return Suitability::Success;
    }
    let asks_index = every_order || order.is_costly();
    let lacks_memory = || asks_index && (0..=EXTFRAG_THRESHOLD).contains(&index());
    if !has_room || lacks_memory() { Suitability::Skipped } else { Suitability::Continue }
}

/// The fragmentation index of an order (rules/compaction#fragmentation-index) for `nr_free` blocks
/// of each order: towards 0 a request would fail for lack of memory, towards 1000 because of
/// fragmentation; -1000 if it would not fail.
pub fn fragmentation_index(order: Order, nr_free: &[u64; MAX_ORDER]) -> i64 {
    let blocks: u64 = nr_free.iter().sum();
    if blocks == 0 {
        return 0;
    }
    if nr_free[order.idx()..].iter().any(|&n| n != 0) {
        return -1000;
    }
    let pages: u64 = nr_free.iter().enumerate().map(|(o, n)| n << o).sum();
    1000 - ((1000 + pages * 1000 / order.pages()) / blocks) as i64
}

impl<H: Host> PageAllocator<H> {
    /// Could compaction in a zone serve a request of an order whose highest zone is `highest`?
    pub(crate) fn compaction_suitable(
        &self,
        zone: &Zone<H>,
        order: Order,
        highest: ZoneType,
    ) -> Suitability {
        let rule = self.policy.watermark_rule();
        let free = zone.nr_free_pages();
        let policy = &self.policy.compaction;
        let (mark, base) = match policy.suitable_mark {
            SuitableMark::Low => (Mark::Low, Mark::Low),
            SuitableMark::ByCost if order.is_costly() => (Mark::Min, Mark::Low),
            SuitableMark::ByCost => (Mark::Min, Mark::Min),
        };
        let every_order = policy.index_orders == IndexOrders::Every;
        let none = AllocFlags::empty();
        let has_block = zone.watermark_ok(rule, order, zone.mark(mark), highest, none, free);
        let room = zone.mark(base) + compact_gap(order);
        let has_room = zone.watermark_ok(rule, Order::ZERO, room, highest, AllocFlags::CMA, free);
        suitability(order, has_block, has_room, every_order, || {
            let blocks = |o: usize| u64::from(zone.nr_free_blocks(Order(o as u8)));
            fragmentation_index(order, &core::array::from_fn(blocks))
        })
    }
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

    #[test]
    fn suitability_asks_in_order() {
        let never = || -> i64 { panic!("not asked for") };
        assert_eq!(suitability(Order(9), true, false, false, never), Suitability::Success);
        assert_eq!(suitability(Order(9), false, false, false, never), Suitability::Skipped);
        assert_eq!(suitability(Order(3), false, true, false, never), Suitability::Continue);
        assert_eq!(suitability(Order(9), false, true, false, || 500), Suitability::Skipped);
        assert_eq!(suitability(Order(9), false, true, false, || 501), Suitability::Continue);
        assert_eq!(suitability(Order(9), false, true, false, || -1), Suitability::Continue);
        assert_eq!(suitability(Order(3), false, true, true, || 0), Suitability::Skipped);
    }
}
