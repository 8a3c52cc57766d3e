//! Slowing reclaimers down (spec 02 §16).

use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::zone::NodeId;

/// Why a reclaimer sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ThrottleReason {
    /// Pages at the tail are under writeback.
    Writeback = 0,
    /// Too many pages are isolated.
    Isolated = 1,
    /// Nothing could be reclaimed.
    NoProgress = 2,
    /// Every dirty page met was under writeback and marked.
    Congested = 3,
}

impl ThrottleReason {
    /// The name trace output uses.
    pub const fn name(self) -> &'static str {
        match self {
            ThrottleReason::Writeback => "VMSCAN_THROTTLE_WRITEBACK",
            ThrottleReason::Isolated => "VMSCAN_THROTTLE_ISOLATED",
            ThrottleReason::NoProgress => "VMSCAN_THROTTLE_NOPROGRESS",
            ThrottleReason::Congested => "VMSCAN_THROTTLE_CONGESTED",
        }
    }
}

impl<H: Devices> Kernel<H> {
    /// Sleeps as the policy says (§16.4).
    pub(crate) fn reclaim_throttle(&self, cx: &Cx<'_, H>, node: NodeId, reason: ThrottleReason) {
        let _ = (cx, node, reason);
        todo!()
    }

    /// Writeback of pages of a node ended: wakes who waits for that (§16.4). From interrupts.
    pub(crate) fn account_writeback_end(&self, cx: &Cx<'_, H>, node: NodeId, pages: u64) {
        let _ = (cx, node, pages);
        todo!()
    }
}
