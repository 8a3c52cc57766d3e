//! One pass over a node (rules/node-pass#pass).
//!
//! [`Kernel::shrink_node`] calls the [reclaim algorithm](super::algorithm) for each set of the
//! node's lists, and shrinks slab too. Then it sets flags about dirty pages for kswapd, decides
//! whether the task should wait, and whether to repeat the pass for a high order.
//!
//! Zones run short, but a pass is about a node: otherwise an older page in a higher zone would stay
//! while a younger one in a lower zone is evicted. Pages of zones above the requested one are
//! skipped one by one. With lists per zone (up to 4.7) a pass goes over the zones' lists one after
//! another.
//!
//! ```text
//!  sums = 0 ─▶ lists ─▶ slab ─▶ conclusions: flags, waits ─▶ high order, progress, and compaction
//!     ▲                                                       still lacks room? ──no──▶ done
//!     └──────────────────────────────yes─────────────────────────────┘
//! ```
//!
//! Lists and slab get the same priority, so under the same pressure slab caches and page lists lose
//! the same share, whatever their sizes.
//!
//! A task waits at the end of a pass, not at a single page: one page under writeback means nothing,
//! but a pass that met only such pages shows that the whole tail is stuck. By then every page is
//! put back, so a sleeping task holds no isolated pages.
//!
//! From: [`super::direct`], [`super::kswapd`], [`super::node_reclaim`] · to: [`super::algorithm`],
//! [`super::shrinker`], [`super::throttle`].

use super::budget::DEF_PRIORITY;
use super::{Control, PassSums};
use crate::compaction::Suitability;
use crate::config::{FailuresEnd, ReclaimRounds};
use crate::host::{Cost, Cx, Devices, Probe};
use crate::kernel::Kernel;
use crate::page::Order;
use crate::page_alloc::Gfp;
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::GroupId;
use crate::vmstat::ZoneStat;
use crate::writeback::WriteReason;
use crate::zone::{NodeId, Zone, ZoneType};

/// High-order reclaim below this priority goes round again for orders up to 3 too
/// (rules/node-pass#should-continue).
const CONTINUE_BELOW: u8 = DEF_PRIORITY - 2;

impl<H: Devices> Kernel<H> {
    /// Makes one reclaim pass over a node, or several while a high order needs them.
    ///
    /// Linux 4.8 on: same name; older kernels go by `shrink_zone`.
    #[inline(never)]
    pub(super) fn shrink_node(&self, cx: &Cx<'_, H>, node: NodeId, sc: &mut Control) {
        let mut has_progress = false;
        loop {
            // The flags are about this round. Scanned and reclaimed counts continue, because the
            // caller's steps use them.
            sc.sums = PassSums::default();
            sc.mglru.pass_begins(sc.nr_reclaimed);
            cx.charge(Cost::NodePass, 1);
            let before = sc.nr_reclaimed;
            if self.mem.groups.is_on() {
                self.shrink_node_memcgs(cx, node, sc);
            } else {
                for vec in self.lru.ids_of_node(node, sc.reclaim_idx) {
                    sc.nr_reclaimed += self.algorithm().shrink(self, cx, (node, vec), sc);
                }
                sc.nr_reclaimed += self.shrink_slab(cx, sc.gfp, node, GroupId::ROOT, sc.priority);
            }
            if sc.mglru.wants_flushers() {
                self.wake_flushers(cx, WriteReason::Vmscan);
            }
            let got = sc.nr_reclaimed - before;
            has_progress |= got != 0;
            sc.trimmed_in_vain |= got == 0 && sc.trims_cache;
            self.count_reclaimed(got);

            self.throttle_after_pass(cx, node, sc);
            let zones = || self.zones_upto(node, sc.reclaim_idx);
            let left = || self.algorithm().candidates(self, node);
            if self.passes_once(sc) || !self.should_continue(zones, left, got, sc) {
                break;
            }
        }
        // A successful reclaimer has shown that the node is not hopeless, so kswapd may be woken
        // again. It is never kswapd itself, which sleeps on a hopeless node.
        if has_progress && self.ends_failures(node, sc) {
            self.mem.node(node).kswapd_failures.store(0, Relaxed);
        }
    }

    /// Reports whether a pass with progress makes kswapd's failures forgotten
    /// (rules/kswapd#hopeless).
    #[doc(alias = "kswapd_try_clear_hopeless")]
    fn ends_failures(&self, node: NodeId, sc: &Control) -> bool {
        match self.mem.policy.reclaim.kswapd.failures_end {
            FailuresEnd::Progress => true,
            // A few pages that direct reclaim finds now and then are no reason to wake kswapd for
            // another sixteen runs in vain.
            FailuresEnd::Balanced => self.node_is_balanced(node, sc.order, sc.reclaim_idx),
        }
    }

    /// Makes one reclaim pass over one zone's LRU lists, and over slab once for each node. If LRU
    /// lists are per node, the pass goes over those up to this zone. Slab is per node, so one of
    /// its zones stands for all.
    ///
    /// Linux up to 4.7: same name; newer kernels go by `shrink_node`.
    #[inline(never)]
    pub(super) fn shrink_zone(&self, cx: &Cx<'_, H>, zone: &Zone<H>, sc: &mut Control, slab: Slab) {
        let (node, vec) = (zone.node, self.lru.id_of_zone(zone.id()));
        sc.reclaim_idx = zone.zone;
        loop {
            sc.sums = PassSums::default();
            cx.charge(Cost::NodePass, 1);
            let before = sc.nr_reclaimed;
            sc.nr_reclaimed += self.algorithm().shrink(self, cx, (node, vec), sc);
            if slab == Slab::Too {
                sc.nr_reclaimed += self.shrink_slab(cx, sc.gfp, node, GroupId::ROOT, sc.priority);
            }
            let got = sc.nr_reclaimed - before;
            self.count_reclaimed(got);
            self.throttle_after_pass(cx, node, sc);
            let left = || self.zone_candidates(zone);
            if !self.should_continue(|| core::iter::once(zone), left, got, sc) {
                break;
            }
        }
    }

    /// Inactive pages of a zone that reclaim could turn to.
    fn zone_candidates(&self, zone: &Zone<H>) -> u64 {
        let stat = |item: ZoneStat| zone.stats.read(item as usize);
        let anon = if self.swap.nr_free() > 0 { stat(ZoneStat::ZoneInactiveAnon) } else { 0 };
        stat(ZoneStat::ZoneInactiveFile) + anon
    }

    /// The zones of a node that reclaim looks at: those a request may use, as far as they have
    /// memory.
    pub(super) fn zones_upto(
        &self,
        node: NodeId,
        highest: ZoneType,
    ) -> impl Iterator<Item = &Zone<H>> {
        let zones = self.mem.zones_of(node);
        zones.filter(move |zone| zone.zone <= highest && zone.managed() != 0)
    }

    /// Decides whether a node pass goes round again for a high order
    /// (rules/node-pass#should-continue). It stops once compaction has enough free memory:
    /// compaction moves pages at less cost than reclaim needs to free contiguous ones by chance. It
    /// does not repeat for requests without I/O, for which late 6.1 does not compact. It does not
    /// repeat after a round without progress, which would find the same pages again.
    #[doc(alias = "should_continue_reclaim")]
    fn should_continue<'a, Z: Iterator<Item = &'a Zone<H>>>(
        &'a self,
        zones: impl Fn() -> Z,
        left: impl Fn() -> u64,
        got: u64,
        sc: &Control,
    ) -> bool {
        let order = Order(sc.order);
        let wants_block =
            order > Order::ZERO && (order.is_costly() || sc.priority < CONTINUE_BELOW);
        let rule = self.mem.policy.compaction.rounds;
        let may_ask = rule == ReclaimRounds::UntilGap || sc.gfp.contains(Gfp::IO);
        if !may_ask || !wants_block || got == 0 {
            return false;
        }
        let gap = self.mem.gap_to_compact(order);
        let can_compact = |highest: ZoneType| {
            zones().any(|zone| {
                self.mem.compaction_suitable(zone, order, highest) != Suitability::Skipped
            })
        };
        match rule {
            ReclaimRounds::UntilGap => {
                (sc.nr_reclaimed < gap && left() > gap) || !can_compact(ZoneType::Dma)
            }
            // The remaining pages must be able to make the room, or the round would be wasted.
            ReclaimRounds::UntilSuitable => !can_compact(sc.reclaim_idx) && left() > gap,
        }
    }
}

/// Whether a pass over a zone is one over slab too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slab {
    Too,
    Not,
}
