//! kswapd of 6.1: when it sleeps, when it is woken (spec 02 §14.1, §14.3, §14.4).
//!
//! One task a node. It balances the node ([`super::balance`]) for the order and zones it was last
//! asked for, naps, and sleeps once the node is still balanced after the nap. Earlier kernels'
//! kswapds come later; their policies run this one.
//!
//! From: `page_alloc::slow` (wake), the host (body) · to: [`super::balance`].

use super::budget::MAX_FAILURES;
use super::throttle::WAIT_CLASSES;
use crate::host::{Cx, Devices, HZ, Probe, TaskFlags, Tasks};
use crate::kernel::Kernel;
use crate::page_alloc::Gfp;
use crate::sync::WaitQueue;
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::trace::Event;
use crate::vmstat::VmEvent;
use crate::zone::{NodeId, ZoneType};

/// No zone is asked for ([`ReclaimNode::kswapd_highest`]).
const NONE: u8 = ZoneType::COUNT as u8;
/// How long kswapd naps before it sleeps.
const NAP: u64 = HZ / 10;

/// What reclaim keeps of a node.
pub struct ReclaimNode<H: Tasks> {
    /// kswapd sleeps and naps here.
    pub(crate) kswapd_wait: WaitQueue<H>,
    /// Direct reclaimers wait here for the reserves to recover.
    pub(crate) pfmemalloc_wait: WaitQueue<H>,
    /// Throttled reclaimers, by reason.
    pub(crate) reclaim_wait: [WaitQueue<H>; 4],
    /// Those that wait for progress by how long they may at most, shortest first (`prioritised`).
    pub(crate) progress_wait: [WaitQueue<H>; WAIT_CLASSES],
    /// Tasks throttled for writeback.
    pub(crate) nr_writeback_throttled: AtomicU32,
    /// `nr_throttled_written` when the first of them came.
    pub(crate) nr_reclaim_start: AtomicU64,
    /// Pending request of kswapd.
    pub(crate) kswapd_order: AtomicU8,
    /// Pending request: zone type, or [`ZoneType::COUNT`] for none.
    pub(crate) kswapd_highest: AtomicU8,
    /// Runs without a page since the last success; 16 = hopeless.
    pub(crate) kswapd_failures: AtomicU32,
    /// Somebody reclaims the node before allocations leave it (`zone_reclaim_mode`).
    pub(crate) is_node_reclaiming: AtomicBool,
}

impl<H: Tasks> ReclaimNode<H> {
    /// A quiet node.
    pub fn new(host: &H) -> Self {
        ReclaimNode {
            kswapd_wait: WaitQueue::new(host),
            pfmemalloc_wait: WaitQueue::new(host),
            reclaim_wait: core::array::from_fn(|_| WaitQueue::new(host)),
            progress_wait: core::array::from_fn(|_| WaitQueue::new(host)),
            nr_writeback_throttled: AtomicU32::new(0),
            nr_reclaim_start: AtomicU64::new(0),
            kswapd_order: AtomicU8::new(0),
            kswapd_highest: AtomicU8::new(NONE),
            kswapd_failures: AtomicU32::new(0),
            is_node_reclaiming: AtomicBool::new(false),
        }
    }

    /// kswapd failed so often that there is no point in waking it.
    pub(super) fn is_hopeless(&self) -> bool {
        self.kswapd_failures.load(Relaxed) >= MAX_FAILURES
    }

    /// Asks kswapd for zones up to `highest`, or fewer if it is asked for fewer already.
    fn ask_highest(&self, highest: ZoneType) {
        let pending = self.kswapd_highest.load(Relaxed);
        if pending == NONE || pending < highest as u8 {
            self.kswapd_highest.store(highest as u8, Relaxed);
        }
    }

    fn ask_order(&self, order: u8) {
        if self.kswapd_order.load(Relaxed) < order {
            self.kswapd_order.store(order, Relaxed);
        }
    }

    /// The highest zone asked for, or `last` if nobody asked since.
    fn pending_highest(&self, last: ZoneType) -> ZoneType {
        let pending = self.kswapd_highest.load(Relaxed);
        ZoneType::ALL.get(usize::from(pending)).copied().unwrap_or(last)
    }

    /// A direct reclaimer waits for reserves that zones above NORMAL do not have: kswapd is to look
    /// no higher, and is woken.
    pub(super) fn wake_for_reserves(&self, cx: &Cx<'_, H>) {
        if self.kswapd_wait.has_waiters() {
            if self.kswapd_highest.load(Relaxed) > ZoneType::Normal as u8 {
                self.kswapd_highest.store(ZoneType::Normal as u8, Relaxed);
            }
            self.kswapd_wait.wake_all(cx.host, cx.cpu());
        }
    }
}

impl<H: Devices> Kernel<H> {
    /// kswapd's body; returns when the kernel shuts down. The task runs on the node's CPUs.
    pub fn run_kswapd(&self, cx: &Cx<'_, H>, node: NodeId) {
        let kind = TaskFlags::KTHREAD | TaskFlags::MEMALLOC | TaskFlags::KSWAPD;
        let before = cx.set_flags(cx.flags() | kind);
        let state = &self.reclaim[node.idx()];
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
                state.kswapd_highest.store(NONE, Relaxed);
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
        let state = &self.reclaim[node.idx()];
        let queue = &state.kswapd_wait;
        let mut ticket = queue.enter(cx);
        let mut left = 0;
        if !self.is_stopping() && self.kswapd_is_ready(cx, node, order, highest) {
            self.wake_kcompactd(cx, node, asked, highest);
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
        let state = &self.reclaim[node.idx()];
        state.pfmemalloc_wait.wake_all(cx.host, cx.cpu());
        if state.is_hopeless() {
            return true;
        }
        let is_balanced = self.node_is_balanced(node, order, highest);
        if is_balanced {
            for vec in self.lru_vecs(node, ZoneType::Device) {
                let lists = &self.lru.vecs[vec];
                lists.congested.store(false, Relaxed);
                lists.full_of_dirty.store(false, Relaxed);
                lists.full_of_writeback.store(false, Relaxed);
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
        let state = &self.reclaim[node.idx()];
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
                self.wake_kcompactd(cx, node, order, highest);
            }
            return;
        }
        cx.event(Event::WakeupKswapd { nid: node, zid: highest, order, gfp });
        state.kswapd_wait.wake_all(cx.host, cx.cpu());
    }

    /// Asks a node's compaction daemon for blocks of an order. There is none yet: this is the one
    /// place where it will be woken.
    pub(crate) fn wake_kcompactd(
        &self,
        _: &Cx<'_, H>,
        _node: NodeId,
        _order: u8,
        _highest: ZoneType,
    ) {
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Solo;

    #[test]
    fn requests_add_up() {
        let state = ReclaimNode::new(&Solo::default());
        assert_eq!(state.pending_highest(ZoneType::Dma32), ZoneType::Dma32);
        state.ask_highest(ZoneType::Normal);
        state.ask_order(3);
        state.ask_order(0);
        state.ask_highest(ZoneType::Movable);
        state.ask_highest(ZoneType::Dma);
        assert_eq!(state.pending_highest(ZoneType::Dma), ZoneType::Movable);
        assert_eq!(state.kswapd_order.load(Relaxed), 3);
    }
}
