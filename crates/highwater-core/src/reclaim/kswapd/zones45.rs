//! kswapd of 4.5 and 4.6: when it sleeps and when it wakes (rules/kswapd#inline45,
//! rules/kswapd#kcompactd46).
//!
//! Their goals differ. A *block* (4.5): a run may give the order up; kswapd then continues with its
//! present request, and sleeps by the order with which the run ended. *Room* (4.6): kcompactd makes
//! blocks, a run never gives up, and kswapd checks for the next request before each sleep.
//!
//! ```text
//!   fetch the request ──larger, or a lower zone──▶ run ──▶ fetch ...
//!          │ no
//!          ▼
//!   balanced? nap 1/10 s, balanced? asleep, after handing over to kcompactd (4.6)
//!          │ no
//!          ▼
//!   fetch once more, run
//! ```
//!
//! From: [`super`] · to: [`super::zone_balance`], [`super::sleep`], `compaction`.

use super::sleep::Sleep;
use super::{Kswapd, Wake};
use crate::config::{HandOver, KswapdGoal};
use crate::host::{Cx, Devices, Probe};
use crate::kernel::Kernel;
use crate::page::Order;
use crate::reclaim::ReclaimNode;
use crate::reclaim::state::NOBODY_ASKED;
use crate::sync::atomic::Ordering::Relaxed;
use crate::trace::Event;
use crate::zone::{NodeId, ZoneType};

/// The models.
pub(super) struct Zones45;

/// An order, and the zones up to which it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub order: u8,
    pub highest: ZoneType,
}

impl Task {
    /// Nobody asks.
    const NONE: Task = Task { order: 0, highest: ZoneType::Device };

    /// Is this more than another: a larger order, or for fewer zones?
    fn exceeds(self, other: Task) -> bool {
        self.order > other.order || self.highest < other.highest
    }
}

impl<H: Devices> Kswapd<H> for Zones45 {
    /// A request's zone counts only if its order is the largest. For single pages any zone is as
    /// good, and a low zone that lacks pages requests them again.
    fn note(&self, state: &ReclaimNode<H>, wake: Wake) {
        if state.kswapd_order.load(Relaxed) < wake.order {
            state.kswapd_order.store(wake.order, Relaxed);
            let pending = state.kswapd_highest.load(Relaxed);
            state.kswapd_highest.store(pending.min(wake.highest as u8), Relaxed);
        }
    }

    fn wants_wake(&self, kernel: &Kernel<H>, _: &Cx<'_, H>, wake: Wake) -> bool {
        let mut zones = kernel.zones_upto(wake.node, wake.highest);
        zones.any(|zone| !kernel.zone_has_block(zone, Order(wake.order), 0, ZoneType::Dma))
    }

    fn live(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, node: NodeId) {
        let state = kernel.reclaim.node(node);
        let gives_up = kernel.mem.policy.reclaim.kswapd.goal == KswapdGoal::Block;
        let (mut now, mut asked, mut ended) = (Task::NONE, Task::NONE, Task::NONE);
        while !kernel.is_stopping() {
            // The run gave the order up, so the requested order remains.
            if !gives_up || ended.order == asked.order {
                asked = fetch(state);
            }
            if asked.exceeds(now) {
                now = asked;
            } else {
                // The order and zones by which the node must be balanced before kswapd sleeps.
                let judged = if gives_up { ended.order } else { now.order };
                let judged = Task { order: judged, highest: ended.highest };
                kernel.kswapd_sleep(cx, node, &Rest { node, now, judged });
                now = fetch(state);
                asked = now;
            }
            if kernel.is_stopping() {
                break;
            }
            cx.event(Event::KswapdWake { nid: node, zid: now.highest, order: now.order });
            ended = kernel.balance_zones(cx, node, now);
            cx.host.yield_now();
        }
    }
}

/// Takes the pending request.
fn fetch<H: Devices>(state: &ReclaimNode<H>) -> Task {
    let highest = state.pending_highest(ZoneType::Device);
    let order = state.kswapd_order.swap(0, Relaxed);
    state.kswapd_highest.store(NOBODY_ASKED, Relaxed);
    Task { order, highest }
}

/// One sleep: while the node is balanced as `judged` says; `now` is the last request.
struct Rest {
    node: NodeId,
    now: Task,
    judged: Task,
}

impl<H: Devices> Sleep<H> for Rest {
    fn request(&self) -> (Order, ZoneType) {
        (Order(self.now.order), self.now.highest)
    }

    fn is_ready(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>) -> bool {
        kernel.zones_are_ready(cx, self.node, self.judged)
    }

    fn before_nap(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>) {
        kernel.hand_over(cx, self.node, self, HandOver::BeforeNap);
    }

    /// The request lies where the next fetch finds it.
    fn woken_early(&self, _: &Kernel<H>) {}

    fn before_sleep(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>) {
        kernel.mem.use_normal_thresholds(self.node);
        kernel.reset_compaction(cx, self.node);
        // No request came during the nap, so the freed pages are still available for compaction.
        kernel.hand_over(cx, self.node, self, HandOver::AfterNap);
    }
}

impl<H: Devices> Kernel<H> {
    /// Wakes throttled direct reclaimers and reports whether kswapd may sleep.
    ///
    /// Linux up to 4.7: newer kernels go by `kswapd_is_ready`.
    #[doc(alias = "prepare_kswapd_sleep")]
    fn zones_are_ready(&self, cx: &Cx<'_, H>, node: NodeId, judged: Task) -> bool {
        self.reclaim.node(node).pfmemalloc_wait.wake_all(cx.host, cx.cpu());
        self.zones_are_balanced(node, judged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Solo;

    #[test]
    fn only_larger_orders_bring_their_zone() {
        let host = Solo::default();
        let state = ReclaimNode::new(&host);
        let wake = |order, highest| Wake {
            node: NodeId(0),
            gfp: crate::page_alloc::Gfp::GFP_KERNEL,
            order,
            highest,
        };
        Kswapd::note(&Zones45, &state, wake(0, ZoneType::Dma));
        assert_eq!(fetch(&state), Task::NONE);
        Kswapd::note(&Zones45, &state, wake(3, ZoneType::Normal));
        Kswapd::note(&Zones45, &state, wake(3, ZoneType::Dma));
        assert_eq!(fetch(&state), Task { order: 3, highest: ZoneType::Normal });
        assert_eq!(fetch(&state), Task::NONE, "taken");
        let normal = Task { order: 3, highest: ZoneType::Normal };
        assert!(Task { order: 4, ..normal }.exceeds(normal) && !normal.exceeds(normal));
        assert!(Task { order: 0, highest: ZoneType::Dma32 }.exceeds(normal));
    }
}
