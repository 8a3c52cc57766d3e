//! Balancing of a node zone by zone, as in kswapd of 4.5 and 4.6 (rules/kswapd#inline45,
//! rules/kswapd#kcompactd46).
//!
//! Each round of a run finds the highest zone that is short, and shrinks the zones up to it, each
//! by what it lacks. Judging each zone alone is simple, but the results do not combine well: a node
//! of three zones has three results, and the worst one decides what a run does.
//! rules/kswapd#why-never-compacts is such a case.
//!
//! | rule | 4.5 (block) | 4.6 (room) |
//! |---|---|---|
//! | is a zone short? | a block above high, and compaction has room | single pages above high and a block more |
//! | goal of a round | single pages if compaction has room; otherwise the order | the requested order |
//! | enough was freed | single pages from now on | continues |
//! | more was freed than requested | compacts the node | |
//!
//! Synchronisation: none, as in [`super::balance`].
//!
//! From: [`super::zones45`] · to: `reclaim::node_pass`, `compaction`.

use super::zones45::Task;
use crate::compaction::Suitability;
use crate::config::KswapdGoal;
use crate::host::{Cx, Devices, Phase, Stall};
use crate::kernel::Kernel;
use crate::page::Order;
use crate::page_alloc::{AllocFlags, Gfp};
use crate::reclaim::Control;
use crate::reclaim::budget::DEF_PRIORITY;
use crate::reclaim::node_pass::Slab;
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::{GroupId, SWAP_CLUSTER_MAX};
use crate::vmstat::{VmEvent, ZoneStat};
use crate::zone::{Mark, NodeId, Zone, ZoneInfo, ZoneType};

/// A zone whose reclaimable pages were scanned this many times without a free is not reclaimable.
const SCANS_MAX: u64 = 6;
/// The balance gap is at most this part of a zone's managed pages.
const GAP_RATIO: u64 = 100;
/// For order > 0 a node is balanced if this part of its managed pages is in balanced zones.
const ENOUGH: u64 = 4;

/// Pages that a zone should have above its mark if others are shrunk too
/// (rules/kswapd#zone-reclaimable).
pub(in crate::reclaim) fn balance_gap(zone: &ZoneInfo) -> u64 {
    zone.mark(Mark::Low).min(zone.managed().div_ceil(GAP_RATIO))
}

/// The result of a round of a run.
struct Round {
    /// The highest zone that was short; none: nothing to do.
    highest: Option<ZoneType>,
    /// Pages that its zones were to give.
    attempted: u64,
    /// No zone was balanced, and none scanned its target.
    raise: bool,
    /// Blocks are wanted, and none is left.
    lacks_block: bool,
}

impl<H: Devices> Kernel<H> {
    /// Reports whether a zone has a block of an order, `gap` pages above its high mark.
    pub(super) fn zone_has_block(
        &self,
        zone: &Zone<H>,
        order: Order,
        gap: u64,
        highest: ZoneType,
    ) -> bool {
        let rule = self.mem.policy.watermark_rule();
        let has_block = zone.watermark_ok_safe(rule, order, zone.mark(Mark::High) + gap, highest);
        // 4.5: and is it worth waking for compaction?
        let asks = self.mem.policy.reclaim.kswapd.goal == KswapdGoal::Block;
        has_block && (!asks || order == Order::ZERO || self.has_room(zone, order, highest))
    }

    /// Reports whether a zone is balanced: above its high mark and `gap` for the order (4.6: for
    /// single pages, with a block more).
    ///
    /// Linux up to 4.7.
    #[doc(alias = "zone_balanced")]
    fn zone_is_balanced(&self, zone: &Zone<H>, order: Order, gap: u64, highest: ZoneType) -> bool {
        match self.mem.policy.reclaim.kswapd.goal {
            KswapdGoal::Room => {
                self.zone_has_block(zone, Order::ZERO, gap + order.pages(), highest)
            }
            KswapdGoal::Block | KswapdGoal::AnyZone => {
                self.zone_has_block(zone, order, gap, highest)
            }
        }
    }

    fn has_room(&self, zone: &Zone<H>, order: Order, highest: ZoneType) -> bool {
        self.mem.compaction_suitable(zone, order, highest) != Suitability::Skipped
    }

    /// Reports whether kswapd may leave the node alone: for single pages every zone, for blocks a
    /// quarter of the node. Zones that can give nothing do not count.
    ///
    /// Linux up to 4.7: newer kernels go by `node_is_balanced`.
    #[doc(alias = "pgdat_balanced")]
    pub(super) fn zones_are_balanced(&self, node: NodeId, task: Task) -> bool {
        let order = Order(task.order.min(Order::MAX.0));
        let (mut managed, mut balanced) = (0, 0);
        for zone in self.zones_upto(node, task.highest) {
            managed += zone.managed();
            // Each zone for itself: no lowmem reserve applies to its own zone.
            if !self.is_reclaimable(zone) || self.zone_is_balanced(zone, order, 0, zone.zone) {
                balanced += zone.managed();
            } else if order == Order::ZERO {
                return false;
            }
        }
        order == Order::ZERO || balanced >= managed / ENOUGH
    }

    /// Whether reclaiming from a zone is useful (rules/kswapd#zone-reclaimable). Isolated pages are
    /// not known by zone, so they are left out. Per-node lists have no counts of a zone, which then
    /// counts as reclaimable while it has pages.
    fn is_reclaimable(&self, zone: &Zone<H>) -> bool {
        let stat = |item: ZoneStat| zone.stats.read(item as usize);
        let mut pages = stat(ZoneStat::ZoneInactiveFile) + stat(ZoneStat::ZoneActiveFile);
        if self.swap.nr_free() > 0 {
            pages += stat(ZoneStat::ZoneInactiveAnon) + stat(ZoneStat::ZoneActiveAnon);
        }
        zone.scanned() < SCANS_MAX * pages
    }

    /// Reclaims zone by zone until the node is balanced as `task` says, or until it is no use.
    /// Returns the order that it ended with, and the highest zone that was short in the end.
    ///
    /// Linux up to 4.7: newer kernels go by `balance_node`.
    #[doc(alias = "balance_pgdat")]
    pub(super) fn balance_zones(&self, cx: &Cx<'_, H>, node: NodeId, task: Task) -> Task {
        let _phase = cx.phase(Phase::BalanceNode);
        let _stall = cx.stall(Stall::Memory);
        self.mem.events.add(cx.cpu(), VmEvent::Pageoutrun, 1);
        let policy = &self.mem.policy.reclaim.kswapd;
        let order = task.order.min(Order::MAX.0);
        let mut sc = Control::new(0, order, Gfp::GFP_KERNEL, task.highest);
        sc.is_kswapd = true;
        let mut freed = 0;
        let ended = loop {
            sc.nr_reclaimed = 0;
            let round = self.balance_round(cx, node, &mut sc, task.highest);
            let Some(highest) = round.highest else { break ZoneType::Dma };
            let state = self.reclaim.node(node);
            if state.pfmemalloc_wait.has_waiters() && self.allows_direct_reclaim(cx, node) {
                state.pfmemalloc_wait.wake_all(cx.host, cx.cpu());
            }
            let order = Order(sc.order);
            let got = sc.nr_reclaimed;
            freed += got;
            // Enough for compaction to work with.
            let has_enough = got >= self.mem.gap_to_compact(order);
            if policy.goal == KswapdGoal::Block && order > Order::ZERO && has_enough {
                sc.order = 0;
            }
            // kswapd compacts only if it freed more than its zones' targets, which hardly ever happens
            // (rules/kswapd#why-never-compacts).
            if policy.compacts && round.lacks_block && got > round.attempted {
                self.compact_for_kswapd(cx, node, Order(sc.order));
            }
            cx.host.yield_now();
            if round.raise || got == 0 {
                sc.priority -= 1;
            }
            let now = Task { order: sc.order, highest: task.highest };
            if sc.priority < 1 || self.is_stopping() || self.zones_are_balanced(node, now) {
                break highest;
            }
        };
        // Neither kernel counts failures, so tasks may wait for ever at the gate of an
        // unreclaimable node. Here the count opens the gate; wakes do not check it.
        let failures = &self.mem.node(node).kswapd_failures;
        match (freed, sc.priority) {
            (0, 0) => failures.store(failures.load(Relaxed).saturating_add(1), Relaxed),
            (0, _) => {}
            _ => failures.store(0, Relaxed),
        }
        self.algorithm().run_done(self, self.lru.id_of_target(GroupId::ROOT, node));
        Task { order: sc.order, highest: ended }
    }

    /// One round at one priority.
    fn balance_round(
        &self,
        cx: &Cx<'_, H>,
        node: NodeId,
        sc: &mut Control,
        asked: ZoneType,
    ) -> Round {
        let order = Order(sc.order);
        let lacks_order = order > Order::ZERO;
        let mut round =
            Round { highest: None, attempted: 0, raise: true, lacks_block: lacks_order };
        // At the gentlest every zone is tried: things may have changed.
        let is_first = sc.priority == DEF_PRIORITY;
        let is_tried = |zone: &Zone<H>| is_first || self.is_reclaimable(zone);
        let from_top = || {
            let all = ZoneType::ALL.into_iter().rev();
            all.filter_map(|kind| self.zones_upto(node, kind).find(|zone| zone.zone == kind))
        };
        for zone in from_top().filter(|zone| is_tried(zone)) {
            let vec = self.lru.id_of_zone(zone.id());
            sc.reclaim_idx = zone.zone;
            self.algorithm().age(self, cx, (node, vec), sc);
            if !self.zone_is_balanced(zone, order, 0, ZoneType::Dma) {
                round.highest = Some(zone.zone);
                break;
            }
            self.zone_is_well(zone);
        }
        let Some(highest) = round.highest else { return round };
        let rule = self.mem.policy.watermark_rule();
        let has_block = |zone: &Zone<H>| {
            let (mark, free) = (zone.mark(Mark::Low), zone.nr_free_pages());
            zone.watermark_ok(rule, order, mark, asked, AllocFlags::empty(), free)
        };
        round.lacks_block &= !self.zones_upto(node, highest).any(has_block);
        for zone in self.zones_upto(node, highest).filter(|zone| is_tried(zone)) {
            self.balance_zone(cx, zone, sc, &mut round);
        }
        round
    }

    /// Reclaims from one zone in a round of kswapd.
    ///
    /// Linux up to 4.7.
    #[doc(alias = "kswapd_shrink_zone")]
    fn balance_zone(&self, cx: &Cx<'_, H>, zone: &Zone<H>, sc: &mut Control, round: &mut Round) {
        let Some(highest) = round.highest else { return };
        let order = Order(sc.order);
        let goal = self.mem.policy.reclaim.kswapd.goal;
        // If compaction has room, only single pages are needed.
        let wanted = match goal {
            KswapdGoal::Block if order > Order::ZERO && self.has_room(zone, order, highest) => {
                Order::ZERO
            }
            _ => order,
        };
        if self.zone_is_balanced(zone, wanted, balance_gap(zone), highest) {
            round.raise = false;
            return;
        }
        sc.nr_scanned = 0;
        sc.nr_to_reclaim = zone.mark(Mark::High).max(SWAP_CLUSTER_MAX);
        let slab = if zone.zone == highest { Slab::Too } else { Slab::Not };
        self.shrink_zone(cx, zone, sc, slab);
        round.attempted += sc.nr_to_reclaim;
        let tail = self.reclaim.vec(self.lru.id_of_zone(zone.id()));
        tail.full_of_writeback.store(false, Relaxed);
        if self.is_reclaimable(zone) && self.zone_is_balanced(zone, wanted, 0, highest) {
            self.zone_is_well(zone);
        }
        if sc.nr_scanned >= sc.nr_to_reclaim {
            round.raise = false;
        }
    }

    /// The zone has memory, so the flags about its tail are cleared.
    fn zone_is_well(&self, zone: &Zone<H>) {
        let tail = self.reclaim.vec(self.lru.id_of_zone(zone.id()));
        tail.congested.store(false, Relaxed);
        tail.full_of_dirty.store(false, Relaxed);
    }
}

#[cfg(test)]
impl<H: Devices> Kernel<H> {
    /// The first round of a run: the highest zone that is short, pages attempted, whether the priority falls, whether
    /// a block is missing.
    pub(super) fn first_round(&self, cx: &Cx<'_, H>, node: NodeId, task: Task) -> [u64; 4] {
        let mut sc = Control::new(0, task.order, Gfp::GFP_KERNEL, task.highest);
        sc.is_kswapd = true;
        let round = self.balance_round(cx, node, &mut sc, task.highest);
        let highest = round.highest.map_or(u64::MAX, |zone| zone as u64);
        [highest, round.attempted, round.raise.into(), round.lacks_block.into()]
    }
}
