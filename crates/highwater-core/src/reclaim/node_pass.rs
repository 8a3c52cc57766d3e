//! One pass over a node (rules/node-pass#pass).
//!
//! [`Kernel::shrink_node`] has the [scheme](super::scheme) shrink each set of the node's lists, and the
//! slab beside them, and draws the conclusions: what to tell kswapd about dirty pages, whom to slow
//! down, whether to go round again for a high order.
//!
//! A pass is about a node and not about a zone, although it is zones that run short: a page of a higher
//! zone that stays while an older one of a lower zone goes would be the wrong one. Zones above the one
//! that is asked for are set aside page by page. With lists per zone (up to 4.7) a pass goes over the
//! zones' lists one after another.
//!
//! From: [`super::direct`], [`super::kswapd`], [`super::node_reclaim`] · to: [`super::scheme`],
//! [`super::shrinker`], [`super::throttle`].

use super::budget::DEF_PRIORITY;
use super::{Control, PassSums};
use crate::compaction::{Suitability, compact_gap};
use crate::host::{Cost, Cx, Devices, Probe};
use crate::kernel::Kernel;
use crate::page::Order;
use crate::page_alloc::Gfp;
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::LruVecId;
use crate::zone::{NodeId, ZoneType};

/// High-order reclaim below this priority goes round again for orders up to 3 too
/// (rules/node-pass#should-continue).
const CONTINUE_BELOW: u8 = DEF_PRIORITY - 2;

impl<H: Devices> Kernel<H> {
    /// One pass over a node, or several while a high order needs them.
    pub(super) fn shrink_node(&self, cx: &Cx<'_, H>, node: NodeId, sc: &mut Control) {
        let state = self.reclaim.node(node);
        let mut has_progress = false;
        loop {
            sc.sums = PassSums::default();
            cx.charge(Cost::NodePass, 1);
            let before = sc.nr_reclaimed;
            for vec in self.lru_vecs(node, sc.reclaim_idx) {
                sc.nr_reclaimed += self.scheme().shrink(self, cx, (node, vec), sc);
            }
            sc.nr_reclaimed += self.shrink_slab(cx, sc.gfp, node, sc.priority);
            let got = sc.nr_reclaimed - before;
            has_progress |= got != 0;
            self.count_reclaimed(got);

            self.throttle_after_pass(cx, node, sc);
            if !self.should_continue(node, got, sc) {
                break;
            }
        }
        if has_progress {
            state.kswapd_failures.store(0, Relaxed);
        }
    }

    /// Indexes of the lists that a reclaim on a node looks at.
    pub(super) fn lru_vecs(
        &self,
        node: NodeId,
        highest: ZoneType,
    ) -> impl Iterator<Item = LruVecId> + use<H> {
        self.lru.ids_of_node(node, highest)
    }

    /// Go round again for a high order (rules/node-pass#should-continue)? Not once compaction could
    /// work with what is free: it needs single pages to move others to, and moves them at less cost
    /// than reclaim has in hoping that neighbours go.
    fn should_continue(&self, node: NodeId, got: u64, sc: &Control) -> bool {
        let order = Order(sc.order);
        let wants_block =
            order > Order::ZERO && (order.is_costly() || sc.priority < CONTINUE_BELOW);
        if !sc.gfp.contains(Gfp::IO) || !wants_block || got == 0 {
            return false;
        }
        let mut zones = self
            .mem
            .zones_of(node)
            .filter(|zone| zone.zone <= sc.reclaim_idx && zone.managed() != 0);
        if zones.any(|zone| {
            self.mem.compaction_suitable(zone, order, sc.reclaim_idx) != Suitability::Skipped
        }) {
            return false;
        }
        self.scheme().candidates(self, node) > compact_gap(Order(sc.order))
    }
}
