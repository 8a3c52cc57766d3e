//! Balancing of a node as in 6.1's kswapd (rules/kswapd#balanced, rules/kswapd#run).
//!
//! A node is balanced for an order if any of its zones is, because any zone may serve a request.
//! Until then kswapd goes through priorities 12 to 1. At priority 12 a pass scans 1/4096 of each
//! list; at 1 it scans half, and so also pages that are in use. The priority falls only if a
//! step reclaimed nothing or could not scan enough. So a node with much idle cache never reaches
//! the lower ones. kswapd does not use priority 0, which scans everything; only direct reclaim
//! does, for a request that would otherwise fail.
//!
//! ```text
//!  balanced? ──yes──▶ done
//!     │ no    ◀──────────────────────────────────────────────────────────────────┐
//!     ▼                                                                          │
//!  age anon ─▶ a pass: wants the sum of high marks ─▶ wake the gate              │
//!                                                         │                      │
//!           got nothing, or scanned too little: priority - 1; at 0 the run ends ─┘
//! ```
//!
//! The gap between the waking mark (low) and the sleeping mark (high) makes kswapd work in runs and
//! not page by page. Each run costs a wake-up and a check of every zone.
//!
//! *Any zone* is a compromise. Zones fill unevenly, and a kswapd that needs all of them would never
//! sleep because of one unreclaimable zone. So a zone may stay below its mark while its neighbour
//! is above. A request that needs that zone wakes kswapd again, and names it.
//!
//! *High orders.* kswapd reclaims by age, not by address, and may free many pages before enough
//! contiguous ones are free. So it makes room for compaction instead, twice the block, and then
//! balances for single pages.
//!
//! Boosted watermarks come first and are reclaimed gently, because they mean a mixed pageblock and
//! not a shortage of memory.
//!
//! A run that frees nothing is a failure. One failure means little (all pages may be dirty at the
//! moment); sixteen in a row mean that kswapd cannot help this node (rules/kswapd#hopeless).
//!
//! Synchronisation: none. Allocations continue meanwhile, so the node may be unbalanced again when
//! this returns: kswapd checks again after its nap.
//!
//! From: [`super::node61`] · to: `reclaim::node_pass`, `reclaim::algorithm`.

use crate::config::FailuresEnd;
use crate::host::{Cx, Devices, Phase, Stall};
use crate::kernel::Kernel;
use crate::page::{Order, PAGEBLOCK_ORDER};
use crate::page_alloc::Gfp;
use crate::reclaim::Control;
use crate::reclaim::budget::DEF_PRIORITY;
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::{GroupId, SWAP_CLUSTER_MAX};
use crate::vmstat::VmEvent;
use crate::zone::{Mark, NodeId, ZoneFlags, ZoneType};

/// Boosts are worked off at this priority and gentler ones: they are not worth swapping or writing.
const BOOST_PRIORITY: u8 = DEF_PRIORITY - 2;

/// The next priority after a step that got `got` pages; `raise`: it could not scan enough.
///
/// After a step that scanned enough and got something, the priority stays: more steps will do.
const fn next_priority(priority: u8, raise: bool, got: u64) -> u8 {
    if raise || got == 0 { priority - 1 } else { priority }
}

/// Reports whether a step did as much as it wanted. Slab counts as freed, not as scanned.
const fn did_enough(scanned: u64, freed: u64, wanted: u64, counts_freed: bool) -> bool {
    scanned >= wanted || (counts_freed && freed >= wanted)
}

/// The target of a step of kswapd, from the high marks of its zones: not the missing pages, but
/// enough to fill all zones once. Zones empty unevenly, and pages are not reclaimed from the zones
/// that need them.
fn step_target(high_marks: impl Iterator<Item = u64>) -> u64 {
    high_marks.map(|high| high.max(SWAP_CLUSTER_MAX)).sum()
}

impl<H: Devices> Kernel<H> {
    /// Reports whether any zone up to `highest` has blocks of an order above its high mark
    /// (rules/kswapd#balanced). Near a mark the count is exact, because kswapd sleeps by this
    /// result. With many CPUs the per-CPU differences can exceed the distance between two marks
    /// (rules/watermarks#drift-mark).
    ///
    /// Linux 4.8 on: older kernels go by `zones_are_balanced`.
    #[doc(alias = "pgdat_balanced")]
    pub(in crate::reclaim) fn node_is_balanced(
        &self,
        node: NodeId,
        order: u8,
        highest: ZoneType,
    ) -> bool {
        let rule = self.mem.policy.watermark_rule();
        let order = Order(order.min(Order::MAX.0));
        let mut is_empty = true;
        for zone in self.zones_upto(node, highest) {
            is_empty = false;
            if zone.watermark_ok_safe(rule, order, zone.mark(Mark::High), highest) {
                return true;
            }
        }
        // A node without memory needs nothing.
        is_empty
    }

    /// Reclaims as kswapd until the node is balanced for an order and the zones up to `highest`, or
    /// until it is no use. Returns the order it ended with, 0 if it gave up on a higher one.
    ///
    /// Linux 4.8 on: older kernels go by `balance_zones`.
    #[doc(alias = "balance_pgdat")]
    pub(in crate::reclaim) fn balance_node(
        &self,
        cx: &Cx<'_, H>,
        node: NodeId,
        order: u8,
        highest: ZoneType,
    ) -> u8 {
        let _phase = cx.phase(Phase::BalanceNode);
        let _stall = cx.stall(Stall::Memory);
        self.mem.events.add(cx.cpu(), VmEvent::Pageoutrun, 1);
        let kswapd = &self.mem.policy.reclaim.kswapd;
        let mut sc = Control::new(0, order, Gfp::GFP_KERNEL, highest);
        sc.is_kswapd = true;
        // Saved, because a boost added during the run stays for the next one.
        let mut boosts = [0; ZoneType::COUNT];
        for zone in self.zones_upto(node, highest) {
            boosts[zone.zone.idx()] = zone.boost();
        }
        let mut boost: u64 = boosts.iter().sum();
        let was_boosted = boost != 0;

        // Shortens the per-CPU lists of these zones (rules/per-cpu-lists#limit). Pages on them do
        // not count as free for any mark, so freed pages would be missing from the count that the
        // run goes by.
        for zone in self.zones_upto(node, highest) {
            zone.set_flag(ZoneFlags::RECLAIM_ACTIVE);
        }
        let mut is_balanced = self.balance_steps(cx, node, &mut sc, &mut boost);
        if !is_balanced && self.should_stop_trimming(&sc) {
            sc.trims_no_more = true;
            is_balanced = self.balance_steps(cx, node, &mut sc, &mut boost);
        }
        // Not a step but the whole run: a single page is enough to go on hoping.
        let excused = was_boosted && kswapd.failures_end == FailuresEnd::Balanced;
        if !is_balanced && sc.nr_reclaimed == 0 && !excused {
            self.mem.node(node).kswapd_failures.fetch_add(1, Relaxed);
        }
        for zone in self.zones_upto(node, highest) {
            zone.clear_flag(ZoneFlags::RECLAIM_ACTIVE);
        }
        if was_boosted {
            for zone in self.zones_upto(node, highest) {
                zone.reduce_boost(boosts[zone.zone.idx()]);
            }
            // The boost was for a pageblock that got mixed: now is the time to clean up.
            self.wake_kcompactd(cx, node, Order(PAGEBLOCK_ORDER), highest);
        }
        self.algorithm().run_done(self, self.lru.id_of_target(GroupId::ROOT, node));
        sc.order
    }

    /// Reports whether a run that found nothing at any priority left anonymous pages alone for page
    /// cache that it could not free: protected cache, or cache under writeback.
    fn should_stop_trimming(&self, sc: &Control) -> bool {
        let retries = self.mem.policy.reclaim.kswapd.retries_trimming;
        let found_nothing = sc.priority < 1 && sc.nr_reclaimed == 0;
        retries && found_nothing && sc.trimmed_in_vain && !sc.trims_no_more
    }

    /// The priority steps; true if the node was found balanced.
    fn balance_steps(
        &self,
        cx: &Cx<'_, H>,
        node: NodeId,
        sc: &mut Control,
        boost: &mut u64,
    ) -> bool {
        let state = self.reclaim.node(node);
        let highest = sc.reclaim_idx;
        sc.priority = DEF_PRIORITY;
        loop {
            let before = sc.nr_reclaimed;
            let mut raise = true;
            let is_balanced = self.node_is_balanced(node, sc.order, highest);
            if !is_balanced && *boost != 0 {
                // Pages are needed now: the boost has to wait.
                *boost = 0;
                sc.priority = DEF_PRIORITY;
                continue;
            }
            if is_balanced && *boost == 0 {
                return true;
            }
            // No deeper for a boost, however few pages there were to scan.
            if *boost != 0 && sc.priority == BOOST_PRIORITY {
                raise = false;
            }
            sc.may_writepage = *boost == 0;
            sc.may_swap = *boost == 0;
            // At each step, even if the pass skips anonymous pages: when it reaches them, it would
            // be too late to find out which were used.
            for vec in self.lru.ids_of_node(node, highest) {
                self.algorithm().age(self, cx, (node, vec), sc);
            }
            if sc.priority < BOOST_PRIORITY {
                sc.may_writepage = true;
            }
            sc.nr_scanned = 0;
            if self.shrink_kswapd_node(cx, node, sc) {
                raise = false;
            }
            // Now, not at the end of the run: they need half of the reserves, not the high mark.
            if state.pfmemalloc_wait.has_waiters() && self.allows_direct_reclaim(cx, node) {
                state.pfmemalloc_wait.wake_all(cx.host, cx.cpu());
            }
            if self.is_stopping() {
                return false;
            }
            // Every page counts towards the boost. If none came, it is not worth more effort.
            let got = sc.nr_reclaimed - before;
            *boost -= got.min(*boost);
            if *boost != 0 && got == 0 {
                return false;
            }
            sc.priority = next_priority(sc.priority, raise, got);
            if sc.priority < 1 {
                return false;
            }
        }
    }

    /// Makes one priority step of kswapd over a node; true if it scanned as much as it wanted.
    ///
    /// Linux 4.8 on.
    #[doc(alias = "kswapd_shrink_node")]
    fn shrink_kswapd_node(&self, cx: &Cx<'_, H>, node: NodeId, sc: &mut Control) -> bool {
        self.soft_limit_reclaim(cx, node, sc);
        let before = sc.nr_reclaimed;
        let zones = self.zones_upto(node, sc.reclaim_idx);
        sc.nr_to_reclaim = step_target(zones.map(|zone| zone.mark(Mark::High)));
        if sc.priority == DEF_PRIORITY {
            sc.priority = self.initial_priority(node, sc);
        }
        self.shrink_node(cx, node, sc);
        // Enough for compaction to work with: from here on single pages do.
        if sc.order > 0 && sc.nr_reclaimed >= self.mem.gap_to_compact(Order(sc.order)) {
            sc.order = 0;
        }
        let counts_freed = self.mem.policy.reclaim.kswapd.slab_is_progress;
        did_enough(sc.nr_scanned, sc.nr_reclaimed - before, sc.nr_to_reclaim, counts_freed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_a_kswapd_run() {
        let wanted = step_target([99, 16_818, 8_250].into_iter());
        assert_eq!(wanted, 25_167);
        assert_eq!(step_target([7].into_iter()), 32, "small zones count a batch");
        let enough =
            |scanned, freed| [false, true].map(|rule| did_enough(scanned, freed, wanted, rule));
        assert_eq!(enough(wanted, 0), [true, true]);
        assert_eq!(enough(10_000, wanted), [false, true], "mostly slab");
        assert_eq!(enough(10_000, wanted - 1), [false, false]);
        let next = |scanned: u64, got: u64| next_priority(12, scanned < wanted, got);
        assert_eq!((next(30_000, 500), next(10_000, 500), next(30_000, 0)), (12, 11, 11));
        let gaps = [9, 0].map(|order| crate::compaction::compact_gap(Order(order)));
        assert_eq!(gaps, [1024, 2]);
    }
}
