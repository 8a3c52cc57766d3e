//! kswapd of 6.1 (spec 02 §14).

use crate::host::{Cx, Devices, Tasks};
use crate::kernel::Kernel;
use crate::page_alloc::Gfp;
use crate::sync::WaitQueue;
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};
use crate::zone::{NodeId, ZoneType};

/// What reclaim keeps of a node.
pub struct ReclaimNode<H: Tasks> {
    /// kswapd sleeps here.
    pub(crate) kswapd_wait: WaitQueue<H>,
    /// Direct reclaimers wait here for the reserves to recover.
    pub(crate) pfmemalloc_wait: WaitQueue<H>,
    /// Throttled reclaimers, by reason.
    pub(crate) reclaim_wait: [WaitQueue<H>; 4],
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
    /// kswapd sleeps (fully).
    pub(crate) kswapd_asleep: AtomicBool,
    /// Many dirty pages at the tail: kswapd may write.
    pub(crate) is_dirty: AtomicBool,
    /// Only pages under writeback at the tail.
    pub(crate) is_writeback: AtomicBool,
}

impl<H: Tasks> ReclaimNode<H> {
    /// A quiet node.
    pub fn new(host: &H) -> Self {
        ReclaimNode {
            kswapd_wait: WaitQueue::new(host),
            pfmemalloc_wait: WaitQueue::new(host),
            reclaim_wait: core::array::from_fn(|_| WaitQueue::new(host)),
            nr_writeback_throttled: AtomicU32::new(0),
            nr_reclaim_start: AtomicU64::new(0),
            kswapd_order: AtomicU8::new(0),
            kswapd_highest: AtomicU8::new(ZoneType::COUNT as u8),
            kswapd_failures: AtomicU32::new(0),
            kswapd_asleep: AtomicBool::new(true),
            is_dirty: AtomicBool::new(false),
            is_writeback: AtomicBool::new(false),
        }
    }
}

impl<H: Devices> Kernel<H> {
    /// kswapd's body; returns when the kernel shuts down. The task runs on the node's CPUs and has
    /// KTHREAD and MEMALLOC set.
    pub fn run_kswapd(&self, cx: &Cx<'_, H>, node: NodeId) {
        let _ = (cx, node);
        todo!()
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
        let _ = (cx, node, gfp, order, highest);
        todo!()
    }
}
