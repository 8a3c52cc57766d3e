//! Deferral of compaction after failures (rules/compaction#deferral).
//!
//! A run over a zone that ends without a block is wasted, and the next one would most likely end
//! the same way. So after a failure the zone refuses some requests without trying. Each further
//! failure doubles their number, up to 63. A failure for one order means failure for larger orders
//! too, but smaller orders may work.

use crate::host::{Cx, Devices, Probe};
use crate::kernel::Kernel;
use crate::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};
use crate::trace::Event;
use crate::units::Order;
use crate::zone::Zone;

/// Refusals double up to this power of two.
const SHIFT_MAX: u32 = 6;

/// A zone's record of failures. All compacting tasks share it without a lock: a lost count means
/// one refusal more or less.
#[derive(Debug, Default)]
pub(crate) struct Deferral {
    /// Requests since the last failure.
    considered: AtomicU32,
    shift: AtomicU32,
    /// The smallest order that failed.
    order_failed: AtomicU8,
}

impl Deferral {
    /// Should a request for an order not even try? Counts it.
    pub(crate) fn refuses(&self, order: Order) -> bool {
        if order.0 < self.order_failed.load(Relaxed) {
            return false;
        }
        let limit = 1 << self.shift.load(Relaxed);
        let considered = self.considered.load(Relaxed) + 1;
        self.considered.store(considered.min(limit), Relaxed);
        considered < limit
    }

    /// A run failed.
    pub(crate) fn failed(&self, order: Order) {
        self.considered.store(0, Relaxed);
        let shift = self.shift.load(Relaxed) + 1;
        self.shift.store(shift.min(SHIFT_MAX), Relaxed);
        if order.0 < self.order_failed.load(Relaxed) {
            self.order_failed.store(order.0, Relaxed);
        }
    }

    /// A run may have been of use: larger orders are the next to be refused. `got_it`: the request has its block.
    pub(crate) fn succeeded(&self, order: Order, got_it: bool) {
        if got_it {
            self.considered.store(0, Relaxed);
            self.shift.store(0, Relaxed);
        }
        if order.0 >= self.order_failed.load(Relaxed) {
            self.order_failed.store(order.0 + 1, Relaxed);
        }
    }

    /// The smallest order that failed, requests since, and how many are refused.
    fn state(&self) -> (Order, u32, u32) {
        let order_failed = Order(self.order_failed.load(Relaxed));
        (order_failed, self.considered.load(Relaxed), 1 << self.shift.load(Relaxed))
    }

    /// Reports whether compaction of the zone was deferred for as long as it ever is. Its record
    /// may be out of date by then.
    #[doc(alias = "compaction_restarting")]
    pub(crate) fn is_over(&self, order: Order) -> bool {
        order.0 >= self.order_failed.load(Relaxed)
            && self.shift.load(Relaxed) == SHIFT_MAX
            && self.considered.load(Relaxed) >= 1 << SHIFT_MAX
    }
}

impl<H: Devices> Kernel<H> {
    /// Reports whether compaction of a zone is deferred for an order; each question counts, and is
    /// traced.
    #[doc(alias = "compaction_deferred")]
    pub(super) fn refuses(&self, cx: &Cx<'_, H>, zone: &Zone<H>, order: Order) -> bool {
        let deferral = &self.compaction.zone(zone.id()).deferral;
        let refuses = deferral.refuses(order);
        if refuses {
            let (nid, zone) = (zone.node, zone.zone);
            let (order_failed, considered, limit) = deferral.state();
            cx.event(Event::CompactionDeferred {
                nid,
                zone,
                order,
                order_failed,
                considered,
                limit,
            });
        }
        refuses
    }

    /// Defers compaction of a zone for longer after a run failed; traced.
    #[doc(alias = "defer_compaction")]
    pub(super) fn note_failure(&self, cx: &Cx<'_, H>, zone: &Zone<H>, order: Order) {
        let deferral = &self.compaction.zone(zone.id()).deferral;
        deferral.failed(order);
        let (nid, zone) = (zone.node, zone.zone);
        let (order_failed, considered, limit) = deferral.state();
        cx.event(Event::CompactionDeferCompaction {
            nid,
            zone,
            order,
            order_failed,
            considered,
            limit,
        });
    }

    /// Ends the deferral of compaction of a zone after a run that may have been of use; traced.
    #[doc(alias = "compaction_defer_reset")]
    pub(super) fn note_success(&self, cx: &Cx<'_, H>, zone: &Zone<H>, order: Order, got_it: bool) {
        let deferral = &self.compaction.zone(zone.id()).deferral;
        deferral.succeeded(order, got_it);
        let (nid, zone) = (zone.node, zone.zone);
        let (order_failed, considered, limit) = deferral.state();
        cx.event(Event::CompactionDeferReset { nid, zone, order, order_failed, considered, limit });
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    #[test]
    fn refusals_double_up_to_63() {
        let zone = Deferral::default();
        let mut overs = Vec::new();
        let refusals: Vec<u32> = (0..8)
            .map(|_| {
                let mut n = 0;
                while zone.refuses(Order(9)) {
                    n += 1;
                }
                overs.push(zone.is_over(Order(9)));
                zone.failed(Order(9));
                n
            })
            .collect();
        assert_eq!(refusals, [0, 1, 3, 7, 15, 31, 63, 63]);
        // Passed that far only after the first 63.
        assert_eq!(overs, [false, false, false, false, false, false, true, true]);
    }

    #[test]
    fn success_is_for_its_order_and_smaller_ones() {
        let zone = Deferral::default();
        zone.failed(Order(9));
        zone.succeeded(Order(9), true);
        assert_eq!(zone.order_failed.load(Relaxed), 10);
        assert!(!zone.refuses(Order(10)), "forgotten");
        zone.failed(Order(10));
        assert!(!zone.refuses(Order(9)) && zone.refuses(Order(10)) && !zone.refuses(Order(10)));
        zone.failed(Order(9));
        assert_eq!(zone.order_failed.load(Relaxed), 9);
        // A block was made, but the requesting task did not get it: requests are still refused.
        zone.succeeded(Order(9), false);
        assert_eq!((zone.shift.load(Relaxed), zone.order_failed.load(Relaxed)), (2, 10));
    }

    /// Before the first success all orders count as failed.
    #[test]
    fn a_fresh_zone_refuses_every_order_after_a_failure() {
        let zone = Deferral::default();
        assert!(!zone.refuses(Order(9)));
        zone.failed(Order(9));
        assert!(zone.refuses(Order(1)));
    }
}
