//! Direct reclaim (rules/node-pass#direct-reclaim): a request that finds no memory reclaims some
//! itself.
//!
//! ```text
//! gate (reserves too low: wait for kswapd) → attempt: priorities 12 to 0, each over the zonelist's
//! nodes → perhaps once more, deactivating despite refaults
//! ```
//!
//! It is the second line. kswapd, woken at the low mark, should free memory before any task gets
//! below the min mark. A task that comes here allocates faster than kswapd frees, or needs
//! something that kswapd does not free. Direct reclaim slows down the task that causes the
//! shortage, and uses its CPU, while a whole node has only one kswapd. The cost is latency: a page
//! fault may take thirteen passes over every node of its zonelist, with all their waits.
//!
//! So the target is small. 32 pages ([`SWAP_CLUSTER_MAX`]) are enough for the request and a few
//! more, so that not every fault has to reclaim. kswapd frees what the *machine* lacks. If many
//! tasks each had that target, they would free far too much together.
//!
//! The allocator's action for each result (rules/node-pass#second-attempt):
//!
//! | result | action |
//! |---|---|
//! | pages freed | try the free lists again; other tasks may have been faster |
//! | 1, nothing freed | the same: compaction can proceed, or the task is dying and must not kill first |
//! | 0 | no progress: after enough of them, the OOM killer (rules/slow-path#reclaim-retry) |
//!
//! The pages go to the free lists like all others. They are not kept for the reclaiming task, so a
//! task that did not reclaim may take them; that is why there are rounds.
//!
//! Synchronisation: none here. Any number of tasks may be here at once, on the same nodes; the
//! gate, the isolation limit ([`super::batch`]) and throttling limit their interference.
//!
//! From: `page_alloc::slow` · to: [`super::node_pass`], [`super::throttle`].

use super::Control;
use super::budget::DEF_PRIORITY;
use super::kswapd::balance_gap;
use crate::compaction::{Suitability, costly_extra};
use crate::config::ReadyTest;
use crate::host::{Cx, Devices, HZ, Phase, Probe, TaskFlags};
use crate::kernel::Kernel;
use crate::page::Order;
use crate::page_alloc::{AllocFlags, Gfp, Request};
use crate::trace::Event;
use crate::units::SWAP_CLUSTER_MAX;
use crate::vmstat::VmEvent;
use crate::zone::zonelist::{ZoneRef, Zonelist};
use crate::zone::{Mark, NodeId, NodeMask, Zone, ZoneType};

/// True while more than half of the zones' reserves for reclaim are free, or if there are no
/// reserves.
///
/// The other half is left to kswapd and to tasks that have passed the gate. If it ran out too,
/// reclaim could not allocate memory for writing or swapping a page, and no memory would be freed
/// again.
const fn reserves_suffice(reserves: u64, free: u64) -> bool {
    reserves == 0 || free > reserves / 2
}

/// Reports whether the gate counts a zone. `falls_back`: its free pages are in `reclaimable`, if it
/// has no others.
///
/// A zone where only reclaim could refill the share, but nothing can be reclaimed, would keep the
/// gate closed for ever.
const fn counts_at_gate(reclaimable: u64, free: u64, falls_back: bool) -> bool {
    reclaimable != 0 || (!falls_back && free == 0)
}

impl<H: Devices> Kernel<H> {
    /// Reclaims directly for a request; returns the pages reclaimed (1 if compaction can go ahead
    /// instead). The caller has marked the task MEMALLOC.
    ///
    /// Linux: same name.
    pub(crate) fn try_to_free_pages(&self, cx: &Cx<'_, H>, req: &Request<'_>) -> u64 {
        if self.waits_at_gate(cx, req) {
            return 1;
        }
        let mut sc = Control::new(SWAP_CLUSTER_MAX, req.order.0, req.gfp, req.highest);
        sc.nodes = req.nodes;
        let (order, gfp) = (sc.order, sc.gfp);
        cx.event(Event::DirectReclaimBegin { order, gfp });
        let nr_reclaimed = self.reclaim_attempts(cx, req.zonelist, &mut sc);
        cx.event(Event::DirectReclaimEnd { nr_reclaimed });
        nr_reclaimed
    }

    /// Lowers the priority pass by pass until enough is reclaimed; a second attempt takes what the
    /// first spared.
    #[doc(alias = "do_try_to_free_pages")]
    fn reclaim_attempts(&self, cx: &Cx<'_, H>, zonelist: &Zonelist, sc: &mut Control) -> u64 {
        loop {
            let stall = VmEvent::of_zone(VmEvent::AllocstallDma, sc.reclaim_idx);
            self.mem.events.add(cx.cpu(), stall, 1);
            for priority in (0..=DEF_PRIORITY).rev() {
                sc.priority = priority;
                // `nr_reclaimed` runs on: small gains of several priorities add up to the aim.
                sc.nr_scanned = 0;
                self.shrink_zones(cx, zonelist, sc);
                if sc.nr_reclaimed >= sc.nr_to_reclaim || sc.compaction_ready {
                    break;
                }
            }
            // In any case: refaults from now on are compared with the state that this attempt left.
            let mut last = None;
            for entry in eligible(zonelist, sc.reclaim_idx, sc.nodes) {
                if last != Some(entry.node) {
                    let vec = self.lru.id_of_target(sc.target, entry.node);
                    self.algorithm().run_done(self, vec);
                    last = Some(entry.node);
                }
            }
            if sc.nr_reclaimed != 0 {
                return sc.nr_reclaimed;
            }
            if sc.compaction_ready {
                return 1;
            }
            if !self.has_another_attempt(sc) {
                return 0;
            }
        }
    }

    /// Makes one reclaim pass over each node of a zonelist.
    ///
    /// Linux: same name.
    ///
    /// Of each node, although the request would be content with one: at priority 12 all of them
    /// give a little, rather than the first one a lot and the others nothing. So no node's cache is
    /// worn down just because it is first on most lists.
    fn shrink_zones(&self, cx: &Cx<'_, H>, zonelist: &Zonelist, sc: &mut Control) {
        let (mut first, mut last) = (None, None);
        // Only the task's allowed nodes: it may not use memory freed elsewhere.
        let gfp = Gfp::GFP_KERNEL | Gfp::HARDWALL;
        for entry in eligible(zonelist, sc.reclaim_idx, sc.nodes) {
            if self.mem.tunables.cpusets.get() && !self.mem.cpuset_allows(cx, entry.node, gfp) {
                continue;
            }
            let order = Order(sc.order);
            // Compaction makes large blocks. Once it has enough room, more single pages do not
            // help. The other zones still get their pass of this priority, which is the last one.
            if order.is_costly() && self.compaction_is_ready(cx, self.mem.zone_at(entry), sc) {
                sc.compaction_ready = true;
                continue;
            }
            // A zonelist has several zones of a node in a row, and a pass is for all of them.
            first = first.or(Some(entry.node));
            if last == Some(entry.node) {
                continue;
            }
            last = Some(entry.node);
            self.soft_limit_reclaim(cx, entry.node, sc);
            self.shrink_node(cx, entry.node, sc);
            self.consider_after_node(cx, entry.node, sc);
        }
        if let Some(node) = first {
            self.consider_after_nodes(cx, node, sc);
        }
    }

    /// Reports whether a zone has the free pages that compaction needs, above its high mark
    /// (rules/compaction#ready). Without I/O it is never true: late 6.1 does not compact for such
    /// requests, so a reclaimer that stopped for compaction would end with nothing.
    #[doc(alias = "compaction_ready")]
    fn compaction_is_ready(&self, cx: &Cx<'_, H>, zone: &Zone<H>, sc: &Control) -> bool {
        if self.mem.policy.compaction.ready == ReadyTest::HighMarkOrDeferred {
            return self.compaction_was_ready(cx, zone, Order(sc.order));
        }
        if !sc.gfp.contains(Gfp::IO) {
            return false;
        }
        if self.mem.policy.compaction.ready == ReadyTest::HighMarkByCost {
            return self.has_room_by_cost(zone, Order(sc.order), sc.reclaim_idx);
        }
        match self.mem.compaction_suitable(zone, Order(sc.order), sc.reclaim_idx) {
            Suitability::Success => true,
            Suitability::Skipped => false,
            Suitability::Continue => {
                let rule = self.mem.policy.watermark_rule();
                let gap = self.mem.gap_to_compact(Order(sc.order));
                let mark = zone.mark(Mark::High) + gap;
                let none = AllocFlags::empty();
                let (highest, free) = (sc.reclaim_idx, zone.nr_free_pages());
                zone.watermark_ok(rule, Order::ZERO, mark, highest, none, free)
            }
        }
    }

    /// The same as 7.2 asks it: suitability itself has the high mark, and costly orders need more.
    pub(crate) fn has_room_by_cost(&self, zone: &Zone<H>, order: Order, highest: ZoneType) -> bool {
        let rule = self.mem.policy.watermark_rule();
        let (min, free, none) = (zone.mark(Mark::Min), zone.nr_free_pages(), AllocFlags::empty());
        let has_block = zone.watermark_ok(rule, order, min, highest, none, free);
        let base = zone.mark(Mark::High) + costly_extra(zone, order);
        let room = (base, AllocFlags::CMA);
        let result = self.mem.suitable_above(zone, order, has_block, room, highest);
        result != Suitability::Skipped
    }

    /// The same as 4.5 asks it: no more is reclaimed for compaction that is put off either.
    fn compaction_was_ready(&self, cx: &Cx<'_, H>, zone: &Zone<H>, order: Order) -> bool {
        let rule = self.mem.policy.watermark_rule();
        let room = zone.mark(Mark::High) + balance_gap(zone);
        let room = room + self.mem.gap_to_compact(order);
        // No reserve: as for a request that only the lowest zone can serve.
        let lowest = ZoneType::Dma;
        zone.watermark_ok_safe(rule, Order::ZERO, room, lowest)
            && (self.compaction_is_put_off(cx, zone.id(), order)
                || self.mem.compaction_suitable(zone, order, lowest) != Suitability::Skipped)
    }

    /// Makes a direct reclaimer wait while the reserves that reclaim itself lives on are nearly
    /// gone (rules/node-pass#gate). True if the task received a fatal signal meanwhile: then it
    /// should not continue, and this is not a failure.
    ///
    /// Reclaim needs memory to free memory. A few reclaiming tasks free more than they use.
    /// Hundreds that start at once can empty the reserves before the first page is freed. So they
    /// wait at the gate while kswapd refills the reserves.
    #[doc(alias = "throttle_direct_reclaim")]
    fn waits_at_gate(&self, cx: &Cx<'_, H>, req: &Request<'_>) -> bool {
        // Kernel threads may be the ones that free memory: a flusher that waits here writes
        // nothing. A dying task frees the most by exiting.
        if cx.flags().contains(TaskFlags::KTHREAD) || cx.is_dying() {
            return false;
        }
        // Zones above NORMAL hold no memory that the kernel itself could use: their marks are no
        // reserve.
        let mut zones = eligible(req.zonelist, req.highest, req.nodes);
        let Some(node) = zones.find(|entry| entry.kind <= ZoneType::Normal).map(|e| e.node) else {
            return false;
        };
        if self.allows_direct_reclaim(cx, node) {
            return false;
        }
        self.mem.events.add(cx.cpu(), VmEvent::PgscanDirectThrottle, 1);
        let _phase = cx.phase(Phase::Throttle);
        let queue = &self.reclaim.node(node).pfmemalloc_wait;
        let why = "reserves to recover";
        let recovered = || self.allows_direct_reclaim(cx, node);
        // The task's plugged requests would wait as long as it sleeps.
        self.plug_flush(cx);
        if req.gfp.contains(Gfp::FS) {
            let _ = queue.wait_killable(cx, why, recovered);
        } else {
            // kswapd may wait for a task with filesystem locks. If that task waited here, nothing
            // would ever wake it. So a task without FS waits at most a second.
            queue.wait_jiffies_killable(cx, why, HZ, recovered);
        }
        // Reported as progress: the allocator must not kill another task for one that is about to
        // free its memory.
        cx.is_dying()
    }

    /// Reports whether direct reclaimers may go on; if not, wakes kswapd to refill the reserves
    /// (`allow_direct_reclaim`).
    ///
    /// Up to 6.1 the counts of free pages are the cheap ones; a waiting task checks again whenever
    /// kswapd wakes it.
    #[doc(alias = "allow_direct_reclaim")]
    #[doc(alias = "pfmemalloc_watermark_ok")]
    pub(super) fn allows_direct_reclaim(&self, cx: &Cx<'_, H>, node: NodeId) -> bool {
        let state = self.reclaim.node(node);
        // There is nothing to wait for.
        if self.mem.node(node).is_hopeless() {
            return true;
        }
        let can_swap = self.swap.nr_free() > 0;
        let policy = &self.mem.policy.reclaim;
        let (mut reserves, mut free) = (0, 0);
        for zone in self.zones_upto(node, ZoneType::Normal) {
            let reclaimable = self.mem.reclaimable(zone, can_swap);
            let zone_free =
                if policy.gate_exact { zone.nr_free_pages_exact() } else { zone.nr_free_pages() };
            if counts_at_gate(reclaimable, zone_free, policy.free_page_fallback) {
                reserves += zone.mark(Mark::Min);
                free += zone_free;
            }
        }
        let suffices = reserves_suffice(reserves, free);
        if !suffices {
            state.wake_for_reserves(cx);
        }
        suffices
    }
}

/// The entries of a zonelist that a reclaim may use.
fn eligible(
    zonelist: &Zonelist,
    highest: ZoneType,
    nodes: Option<NodeMask>,
) -> impl Iterator<Item = ZoneRef> + use<'_> {
    let mut from = 0;
    core::iter::from_fn(move || {
        let at = zonelist.next(from, highest, nodes)?;
        from = at + 1;
        Some(zonelist.entries()[at])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_by_free_reserves() {
        let reserves = 66 + 11_212 + 5_500;
        assert_eq!(reserves, 16_778);
        assert!(!reserves_suffice(reserves, 8_389));
        assert!(reserves_suffice(reserves, 8_390));
        assert!(reserves_suffice(0, 0));
    }

    #[test]
    fn zones_that_the_gate_counts() {
        let counts = |reclaimable, free| {
            // Up to 6.12 the free pages stand for the others.
            let falls_back = if reclaimable == 0 { free } else { reclaimable };
            [counts_at_gate(falls_back, free, true), counts_at_gate(reclaimable, free, false)]
        };
        assert_eq!(counts(7, 0), [true, true]);
        assert_eq!(counts(7, 90), [true, true]);
        assert_eq!(counts(0, 90), [true, false]);
        assert_eq!(counts(0, 0), [false, true]);
    }
}
