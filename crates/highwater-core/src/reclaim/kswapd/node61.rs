//! kswapd of 6.1: when it sleeps and when it wakes (rules/kswapd#main-loop).
//!
//! ```text
//!   asleep ──wake──▶ fetch the request ──▶ balance the node ──▶ nap 1/10 s ──still balanced──▶ asleep
//!                          ▲                  │  gave up the order    │ woken, or not balanced any more
//!                          └──────────────────┴───────────────────────┘
//! ```
//!
//! # Two orders
//!
//! A request has an order. A run may give it up and continue for single pages, once compaction has
//! room (rules/kswapd#step). From then on kswapd has two orders: the *requested* one, with which it
//! wakes compaction, and the *balanced* one, by which it sleeps. If it slept by the first, it would
//! keep reclaiming while compaction does the work. If it dropped the first, the request would be
//! lost.
//!
//! # Guarantees for a request
//!
//! A request is recorded; it need not be served. A node has two words in which all requests are
//! combined, and kswapd clears them when it begins. A request between its read and its clear is
//! lost. The allocation wakes kswapd again in each round (rules/slow-path#retry), so a lost request
//! costs one round. Losing none would need a lock there.
//!
//! From: [`super`] · to: [`super::balance`], [`super::sleep`], `compaction`.

use super::sleep::Sleep;
use super::{Kswapd, Wake};
use crate::config::HandOver;
use crate::host::{Cx, Devices, Probe};
use crate::kernel::Kernel;
use crate::page::Order;
use crate::page_alloc::Gfp;
use crate::reclaim::ReclaimNode;
use crate::reclaim::state::NOBODY_ASKED;
use crate::sync::atomic::Ordering::Relaxed;
use crate::trace::Event;
use crate::zone::{NodeId, ZoneType};

/// The model.
pub(super) struct Node61;

impl<H: Devices> Kswapd<H> for Node61 {
    /// The larger of each: too much for one request is right for the other.
    fn note(&self, state: &ReclaimNode<H>, wake: Wake) {
        state.ask_highest(wake.highest);
        state.ask_order(wake.order);
    }

    fn wants_wake(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, wake: Wake) -> bool {
        let Wake { node, gfp, order, highest } = wake;
        let is_boosted = || {
            let mut zones = kernel.mem.zones_of(node).filter(|zone| zone.zone <= highest);
            zones.any(|zone| zone.boost() != 0)
        };
        // A boost ends only by a run (rules/watermarks#boost-end), so it is a reason by itself.
        let is_hopeless = kernel.mem.node(node).is_hopeless();
        if is_hopeless || (kernel.node_is_balanced(node, order, highest) && !is_boosted()) {
            // There is memory, if not in one piece. A request that can reclaim compacts for itself.
            if !gfp.contains(Gfp::DIRECT_RECLAIM) {
                kernel.wake_kcompactd(cx, node, Order(order), highest);
            }
            return false;
        }
        true
    }

    fn live(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, node: NodeId) {
        let state = kernel.reclaim.node(node);
        // All zones, until a request names one.
        let mut highest = ZoneType::Device;
        while !kernel.is_stopping() {
            let mut order = state.kswapd_order.load(Relaxed);
            let mut balanced_order = order;
            highest = state.pending_highest(highest);
            loop {
                let how = Rest { node, asked: order, balanced: balanced_order, highest };
                kernel.kswapd_sleep(cx, node, &how);
                if kernel.is_stopping() {
                    break;
                }
                // Read again: a request that arrived during the sleep is the reason for the
                // wake-up.
                order = state.kswapd_order.load(Relaxed);
                highest = state.pending_highest(highest);
                state.kswapd_order.store(0, Relaxed);
                state.kswapd_highest.store(NOBODY_ASKED, Relaxed);
                cx.event(Event::KswapdWake { nid: node, zid: highest, order });
                balanced_order = kernel.balance_node(cx, node, order, highest);
                if balanced_order >= order {
                    break;
                }
                // It gave up the order: perhaps it may sleep, and compaction does the rest.
            }
        }
    }
}

/// One sleep: while the node is balanced for order `balanced`; `asked` is the order of the request.
struct Rest {
    node: NodeId,
    asked: u8,
    balanced: u8,
    highest: ZoneType,
}

impl<H: Devices> Sleep<H> for Rest {
    fn request(&self) -> (Order, ZoneType) {
        (Order(self.asked), self.highest)
    }

    fn is_ready(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>) -> bool {
        kernel.kswapd_is_ready(cx, self.node, self.balanced, self.highest)
    }

    fn before_nap(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>) {
        // Before kcompactd is woken, because its records of full zones may be out of date.
        kernel.reset_compaction(cx, self.node);
        // It can use the freed pages and has the time of the nap.
        kernel.hand_over(cx, self.node, self, HandOver::BeforeNap);
    }

    /// The rest of the old request is added to the new one.
    fn woken_early(&self, kernel: &Kernel<H>) {
        let state = kernel.reclaim.node(self.node);
        state.kswapd_highest.store(state.pending_highest(self.highest) as u8, Relaxed);
        state.ask_order(self.balanced);
    }

    fn before_sleep(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>) {
        kernel.hand_over(cx, self.node, self, HandOver::AfterNap);
        kernel.mem.use_normal_thresholds(self.node);
    }
}

impl<H: Devices> Kernel<H> {
    /// Wakes throttled direct reclaimers and reports whether kswapd may sleep. They continue in any
    /// case, because kswapd would not wake them later. If the reserves are still short, they are
    /// throttled again, and wake kswapd.
    ///
    /// Linux 4.8 on: older kernels go by `zones_are_ready`.
    #[doc(alias = "prepare_kswapd_sleep")]
    fn kswapd_is_ready(&self, cx: &Cx<'_, H>, node: NodeId, order: u8, highest: ZoneType) -> bool {
        let state = self.reclaim.node(node);
        state.pfmemalloc_wait.wake_all(cx.host, cx.cpu());
        // It has nothing to offer; to spin over the node would not change that.
        if self.mem.node(node).is_hopeless() {
            return true;
        }
        let is_balanced = self.node_is_balanced(node, order, highest);
        if is_balanced {
            for vec in self.lru.ids_of_node(node, ZoneType::Device) {
                self.reclaim.vec(vec).clear();
            }
        }
        is_balanced
    }
}
