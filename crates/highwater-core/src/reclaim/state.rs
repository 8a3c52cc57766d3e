//! Reclaim's state of nodes and their lists, kept between reclaims.
//!
//! A reclaim's own findings are in its [`Control`](super::Control) and end with it. This module has
//! the little that others need: waiting tasks, kswapd's pending request, and the state of the lists'
//! tails. The failures of kswapd are in [`Node`](crate::zone::Node), because frees may end them.
//!
//! | writer | data | reader |
//! |---|---|---|
//! | allocations | `kswapd_order`, `kswapd_highest` | kswapd, which clears them |
//! | passes (4.5: batches) | [`TailState`] | later passes, direct reclaimers |
//! | throttled tasks | `nr_writeback_throttled`, `nr_reclaim_start` | ends of writeback |
//!
//! Synchronisation: single atomic words, mostly relaxed, and without any order between them. Each
//! is a hint whose loss is soon repaired. If two CPUs raise a request at once and one is lost, the
//! next retry of that allocation raises it again. A flag that is seen late costs one pass. Every
//! allocation below the low mark would take a lock here, just when most CPUs are below it.
//!
//! From: all of reclaim, ends of writeback · to: `wait`.

use alloc::boxed::Box;

use super::node_deferral::NodeDeferral;
use super::throttle::WAIT_CLASSES;
use crate::host::{Cx, Tasks};
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::units::LruVecId;
use crate::wait::WaitQueue;
use crate::zone::{NodeId, ZoneType};

/// No zone is requested ([`ReclaimNode::kswapd_highest`]). It is larger than every zone type, so
/// lowering it to a zone needs no special case.
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
    ///
    /// # Panics
    /// If the machine has no such node.
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
/// node balanced (rules/node-pass#node-flags), and by nothing else: `congested` outlives its cause, and
/// direct reclaimers may wait for a jam that is over. That is borne with since those waits are short, or
/// ended by the next writes.
#[derive(Debug, Default)]
pub(crate) struct TailState {
    /// Every dirty page met was under writeback and already marked for reclaim: reclaim goes round faster
    /// than the disk writes.
    pub(crate) congested: AtomicBool,
    /// Dirty pages that are not being written, and no other file pages: kswapd may write them. Also
    /// set by a pass that met no file page at all.
    pub(crate) full_of_dirty: AtomicBool,
    /// Only pages under writeback. From now on pages that kswapd meets again count as `immediate`.
    pub(crate) full_of_writeback: AtomicBool,
}

impl TailState {
    /// Memory is available again, so clears the flags. Stale flags would slow down the first
    /// reclaimers of the next shortage.
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
    /// Direct reclaimers wait here for the reserves to recover. kswapd wakes them after each of its
    /// steps if they may continue, and always before it sleeps, because nothing else would.
    pub(crate) pfmemalloc_wait: WaitQueue<H>,
    /// Throttled reclaimers, by [`ThrottleReason`](super::ThrottleReason): an event wakes only
    /// those that wait for it.
    pub(crate) reclaim_wait: [WaitQueue<H>; 4],
    /// Waiters for progress by the length of their wait, the shortest first (`prioritised`).
    pub(crate) progress_wait: [WaitQueue<H>; WAIT_CLASSES],
    /// Tasks throttled for writeback.
    pub(crate) nr_writeback_throttled: AtomicU32,
    /// `nr_throttled_written` when the first waiter came. Later waiters join the same group and
    /// share the pages written since.
    pub(crate) nr_reclaim_start: AtomicU64,
    /// Pending request of kswapd: the largest order asked for since it last fetched one.
    pub(crate) kswapd_order: AtomicU8,
    /// Pending request: zone type, or [`ZoneType::COUNT`] for none.
    pub(crate) kswapd_highest: AtomicU8,
    /// Sleeps of fixed length while too many pages were isolated, up to 5.15. They have no trace
    /// event, in Linux or here; the captures counted calls.
    pub(crate) isolated_sleeps: AtomicU64,
    /// Somebody reclaims the node before allocations leave it (`zone_reclaim_mode`). Others do not wait for
    /// him: they have other nodes to go to.
    pub(crate) is_node_reclaiming: AtomicBool,
    /// Deferral of node reclaim that failed.
    pub(crate) node_deferral: NodeDeferral,
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
            isolated_sleeps: AtomicU64::new(0),
            is_node_reclaiming: AtomicBool::new(false),
            node_deferral: NodeDeferral::default(),
        }
    }

    /// Number of fixed-time sleeps of direct reclaimers since boot because too many pages were
    /// isolated (rules/throttling#isolated). 0 under policies that wake these sleepers, whose
    /// sleeps have a trace event.
    pub fn nr_isolated_sleeps(&self) -> u64 {
        self.isolated_sleeps.load(Relaxed)
    }

    /// Asks kswapd for zones up to `highest`; if it is asked for a higher one already, that stays
    /// (rules/kswapd#wake). One zone is enough to make a node balanced, so a request for a low zone may be
    /// met by a high one that only the other request can use. It asks again, and then alone.
    pub(super) fn ask_highest(&self, highest: ZoneType) {
        let pending = self.kswapd_highest.load(Relaxed);
        if pending == NOBODY_ASKED || pending < highest as u8 {
            self.kswapd_highest.store(highest as u8, Relaxed);
        }
    }

    /// Asks for an order; a larger one that is pending stays.
    pub(super) fn ask_order(&self, order: u8) {
        if self.kswapd_order.load(Relaxed) < order {
            self.kswapd_order.store(order, Relaxed);
        }
    }

    /// The highest requested zone, or `last` without a new request: kswapd then continues its
    /// previous work.
    pub(super) fn pending_highest(&self, last: ZoneType) -> ZoneType {
        let pending = self.kswapd_highest.load(Relaxed);
        ZoneType::ALL.get(usize::from(pending)).copied().unwrap_or(last)
    }

    /// A direct reclaimer waits for reserves that zones above NORMAL do not have: kswapd is to look
    /// no higher, and is woken. A pending request for a higher zone is cut down too: that zone alone could
    /// make the node balanced, and kswapd would be content while the reserves are short.
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
