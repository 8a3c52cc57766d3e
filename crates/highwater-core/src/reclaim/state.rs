//! What reclaim keeps of nodes and of their lists, between one reclaim and the next.

use alloc::boxed::Box;

use super::budget::MAX_FAILURES;
use super::throttle::WAIT_CLASSES;
use crate::host::{Cx, Tasks};
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::units::LruVecId;
use crate::wait::WaitQueue;
use crate::zone::{NodeId, ZoneType};

/// No zone is asked for ([`ReclaimNode::kswapd_highest`]).
pub(super) const NOBODY_ASKED: u8 = ZoneType::COUNT as u8;
/// Reclaim's state.
pub struct ReclaimState<H: Tasks> {
    nodes: Box<[ReclaimNode<H>]>,
    vecs: Box<[TailState]>,
}

impl<H: Tasks> ReclaimState<H> {
    /// Quiet nodes, lists of which nothing is known.
    pub(crate) fn new(host: &H, nr_nodes: usize, nr_vecs: usize) -> Self {
        ReclaimState {
            nodes: (0..nr_nodes).map(|_| ReclaimNode::new(host)).collect(),
            vecs: (0..nr_vecs).map(|_| TailState::default()).collect(),
        }
    }

    /// Of a node.
    #[inline(always)]
    pub fn node(&self, node: NodeId) -> &ReclaimNode<H> {
        &self.nodes[node.idx()]
    }

    /// All nodes.
    pub fn nodes(&self) -> &[ReclaimNode<H>] {
        &self.nodes
    }

    /// Of a set of lists.
    #[inline(always)]
    pub(crate) fn vec(&self, vec: LruVecId) -> &TailState {
        &self.vecs[vec.idx()]
    }
}

/// What reclaim last found at the tail of a set of lists. Set by passes, cleared when kswapd finds the
/// node balanced.
#[derive(Debug, Default)]
pub(crate) struct TailState {
    /// Every dirty page met was under writeback and already marked for reclaim.
    pub(crate) congested: AtomicBool,
    /// Many dirty pages that nobody writes: kswapd may.
    pub(crate) full_of_dirty: AtomicBool,
    /// Only pages under writeback.
    pub(crate) full_of_writeback: AtomicBool,
}

impl TailState {
    /// There is memory: what was found does not matter any more.
    pub(super) fn clear(&self) {
        self.congested.store(false, Relaxed);
        self.full_of_dirty.store(false, Relaxed);
        self.full_of_writeback.store(false, Relaxed);
    }
}

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
    pub(crate) fn new(host: &H) -> Self {
        ReclaimNode {
            kswapd_wait: WaitQueue::new(host),
            pfmemalloc_wait: WaitQueue::new(host),
            reclaim_wait: core::array::from_fn(|_| WaitQueue::new(host)),
            progress_wait: core::array::from_fn(|_| WaitQueue::new(host)),
            nr_writeback_throttled: AtomicU32::new(0),
            nr_reclaim_start: AtomicU64::new(0),
            kswapd_order: AtomicU8::new(0),
            kswapd_highest: AtomicU8::new(NOBODY_ASKED),
            kswapd_failures: AtomicU32::new(0),
            is_node_reclaiming: AtomicBool::new(false),
        }
    }

    /// kswapd failed so often that there is no point in waking it.
    pub(super) fn is_hopeless(&self) -> bool {
        self.kswapd_failures.load(Relaxed) >= MAX_FAILURES
    }

    /// Asks kswapd for zones up to `highest`, or fewer if it is asked for fewer already.
    pub(super) fn ask_highest(&self, highest: ZoneType) {
        let pending = self.kswapd_highest.load(Relaxed);
        if pending == NOBODY_ASKED || pending < highest as u8 {
            self.kswapd_highest.store(highest as u8, Relaxed);
        }
    }

    pub(super) fn ask_order(&self, order: u8) {
        if self.kswapd_order.load(Relaxed) < order {
            self.kswapd_order.store(order, Relaxed);
        }
    }

    /// The highest zone asked for, or `last` if nobody asked since.
    pub(super) fn pending_highest(&self, last: ZoneType) -> ZoneType {
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
