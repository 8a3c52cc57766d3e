//! kswapd of 6.1: when it sleeps, when it is woken (spec 02 §14.1, §14.3, §14.4).
//!
//! One task a node. It balances the node ([`super::balance`]) for the order and zones it was last
//! asked for, naps, and sleeps once the node is still balanced after the nap. Earlier kernels'
//! kswapds come later; their policies run this one.
//!
//! From: `page_alloc::slow` (wake), the host (body) · to: [`super::balance`].

use super::state::NOBODY_ASKED;
use crate::host::{Cx, Devices, HZ, Probe, TaskFlags};
use crate::kernel::Kernel;
use crate::page::Order;
use crate::page_alloc::Gfp;
use crate::sync::atomic::Ordering::Relaxed;
use crate::trace::Event;
use crate::vmstat::VmEvent;
use crate::zone::{NodeId, ZoneType};

/// How long kswapd naps before it sleeps.
const NAP: u64 = HZ / 10;

impl<H: Devices> Kernel<H> {
    /// kswapd's body; returns when the kernel shuts down. The task runs on the node's CPUs.
    pub fn run_kswapd(&self, cx: &Cx<'_, H>, node: NodeId) {
        let kind = TaskFlags::KTHREAD | TaskFlags::MEMALLOC | TaskFlags::KSWAPD;
        let before = cx.set_flags(cx.flags() | kind);
        let state = self.reclaim.node(node);
        let mut highest = ZoneType::Device;
        while !self.is_stopping() {
            let mut order = state.kswapd_order.load(Relaxed);
            let mut balanced_order = order;
            highest = state.pending_highest(highest);
            loop {
                self.kswapd_sleep(cx, node, order, balanced_order, highest);
                if self.is_stopping() {
                    break;
                }
                order = state.kswapd_order.load(Relaxed);
                highest = state.pending_highest(highest);
                state.kswapd_order.store(0, Relaxed);
                state.kswapd_highest.store(NOBODY_ASKED, Relaxed);
                cx.event(Event::KswapdWake { nid: node, zid: highest, order });
                balanced_order = self.balance_node(cx, node, order, highest);
                if balanced_order >= order {
                    break;
                }
                // It gave up the order: perhaps it may sleep, and compaction does the rest.
            }
        }
        cx.set_flags(before);
    }

    /// Naps and sleeps if the node is balanced for `order`; `asked` is the order that was asked for.
    fn kswapd_sleep(&self, cx: &Cx<'_, H>, node: NodeId, asked: u8, order: u8, highest: ZoneType) {
        let state = self.reclaim.node(node);
        let queue = &state.kswapd_wait;
        let mut ticket = queue.enter(cx);
        let mut left = 0;
        if !self.is_stopping() && self.kswapd_is_ready(cx, node, order, highest) {
            self.wake_kcompactd(cx, node, Order(asked), highest);
            left = queue.park_jiffies(cx, ticket, "kswapd naps", NAP);
            if left != 0 {
                // Woken early: what was left over goes on with what is asked for now.
                state.kswapd_highest.store(state.pending_highest(highest) as u8, Relaxed);
                state.ask_order(order);
            }
            queue.leave(cx, ticket);
            ticket = queue.enter(cx);
        }
        let stays = left == 0 && self.kswapd_is_ready(cx, node, order, highest);
        if self.is_stopping() {
        } else if stays {
            cx.event(Event::KswapdSleep { nid: node });
            self.mem.use_normal_thresholds(node);
            queue.park(cx, ticket, "kswapd has nothing to do");
            self.mem.use_pressure_thresholds(node);
        } else {
            let which = match left {
                0 => VmEvent::KswapdHighWmarkHitQuickly,
                _ => VmEvent::KswapdLowWmarkHitQuickly,
            };
            self.mem.events.add(cx.cpu(), which, 1);
        }
        queue.leave(cx, ticket);
    }

    /// May kswapd sleep? Direct reclaimers that wait for reserves go on in any case: kswapd would not
    /// wake them any more.
    fn kswapd_is_ready(&self, cx: &Cx<'_, H>, node: NodeId, order: u8, highest: ZoneType) -> bool {
        let state = self.reclaim.node(node);
        state.pfmemalloc_wait.wake_all(cx.host, cx.cpu());
        if state.is_hopeless() {
            return true;
        }
        let is_balanced = self.node_is_balanced(node, order, highest);
        if is_balanced {
            for vec in self.lru_vecs(node, ZoneType::Device) {
                self.reclaim.vec(vec).clear();
            }
        }
        is_balanced
    }

    /// Wakes a node's kswapd for a request (spec 02 §14.1).
    pub(crate) fn wakeup_kswapd(
        &self,
        cx: &Cx<'_, H>,
        node: NodeId,
        gfp: Gfp,
        order: u8,
        highest: ZoneType,
    ) {
        let is_forbidden = self.mem.tunables.cpusets && !self.mem.cpuset_allows(cx, node, gfp);
        if is_forbidden || !self.mem.zones_of(node).any(|zone| zone.managed() != 0) {
            return;
        }
        let state = self.reclaim.node(node);
        state.ask_highest(highest);
        state.ask_order(order);
        if !state.kswapd_wait.has_waiters() {
            return;
        }
        let is_boosted = || {
            let mut zones = self.mem.zones_of(node).filter(|zone| zone.zone <= highest);
            zones.any(|zone| zone.boost() != 0)
        };
        if state.is_hopeless() || (self.node_is_balanced(node, order, highest) && !is_boosted()) {
            // There is memory, if not in one piece. A request that can reclaim compacts for itself.
            if !gfp.contains(Gfp::DIRECT_RECLAIM) {
                self.wake_kcompactd(cx, node, Order(order), highest);
            }
            return;
        }
        cx.event(Event::WakeupKswapd { nid: node, zid: highest, order, gfp });
        state.kswapd_wait.wake_all(cx.host, cx.cpu());
    }
}
