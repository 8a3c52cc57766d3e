//! Deferral of node reclaim after failures (rules/node-pass#node-deferral): a policy of ours, which
//! no kernel has.
//!
//! The zonelist cache confused two things: a zone without a page for *this* request, and a zone
//! that is useless for *all* requests for a second. Its one good effect was that a node was left
//! alone after a failed node reclaim. This module keeps only that effect. It is checked before a
//! node reclaim, after the watermark has failed, so a zone with free pages is still found.
//!
//! A failure means that there is no block of this order now. So it applies to this order and larger
//! ones, not to smaller ones. It applies for a time, not for a number of requests, because memory
//! is freed (end of writeback, kswapd, an exiting program) independently of requests. The first
//! deferral lasts one tick, within which few disks respond. Each further failure after that time
//! doubles it, up to one second, the lifetime of the cache. A request that got its block clears the
//! failures of its order and of smaller ones.
//!
//! Synchronisation: none. If two failures overwrite each other's record, there is one try more or
//! less.

use crate::host::HZ;
use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use crate::units::{MAX_ORDER, Order};

/// Longest time that a node is left alone, ticks: as long as the zonelist cache remembered.
const TICKS_MAX: u64 = HZ;

/// A node's record of failed node reclaim, by order.
#[derive(Debug, Default)]
pub(crate) struct NodeDeferral([Failures; MAX_ORDER]);

#[derive(Debug, Default)]
struct Failures {
    /// Not to be tried before this tick.
    until: AtomicU64,
    /// How many in a row, bounded.
    nr: AtomicU8,
}

impl NodeDeferral {
    /// Is a request of an order not to try at `now`?
    pub(crate) fn refuses(&self, order: Order, now: u64) -> bool {
        self.up_to(order).any(|failures| now < failures.until.load(Relaxed))
    }

    /// The node was reclaimed at `now`; whether the request has its block then.
    pub(crate) fn ended(&self, order: Order, now: u64, has_block: bool) {
        if has_block {
            for failures in self.up_to(order) {
                failures.until.store(0, Relaxed);
                failures.nr.store(0, Relaxed);
            }
        } else if let Some(failures) = self.0.get(order.idx()) {
            let nr = failures.nr.load(Relaxed);
            let ticks = 1_u64.checked_shl(nr.into()).unwrap_or(TICKS_MAX).min(TICKS_MAX);
            failures.until.store(now + ticks, Relaxed);
            failures.nr.store(nr.saturating_add(1), Relaxed);
        }
    }

    fn up_to(&self, order: Order) -> impl Iterator<Item = &Failures> {
        self.0.iter().take(order.idx() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUGE: Order = Order(9);

    #[test]
    fn failures_double_the_time_up_to_a_second() {
        let deferral = NodeDeferral::default();
        let mut now = 1000;
        assert!(!deferral.refuses(HUGE, now));
        for ticks in [1, 2, 4, 8, 16, 32, 64, 128, 250, 250] {
            deferral.ended(HUGE, now, false);
            assert!(deferral.refuses(HUGE, now + ticks - 1), "{ticks}");
            now += ticks;
            assert!(!deferral.refuses(HUGE, now), "{ticks}");
        }
        deferral.ended(HUGE, now, true);
        deferral.ended(HUGE, now, false);
        assert!(!deferral.refuses(HUGE, now + 1), "a success begins anew");
    }

    #[test]
    fn what_failed_for_an_order_fails_for_larger_ones_only() {
        let deferral = NodeDeferral::default();
        deferral.ended(Order(3), 10, false);
        let refuses = |order| deferral.refuses(order, 10);
        assert_eq!([0, 2, 3, 9].map(|order| refuses(Order(order))), [false, false, true, true]);
        // A single page says nothing about eight; a huge page does.
        deferral.ended(Order::ZERO, 10, true);
        assert!(refuses(Order(3)));
        deferral.ended(HUGE, 10, true);
        assert!(!refuses(Order(3)));
    }
}
