//! Direct reclaim (spec 02 §13).

use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page_alloc::{NodeReclaim, Request};
use crate::zone::NodeId;

impl<H: Devices> Kernel<H> {
    /// `try_to_free_pages`: reclaims for a request; the pages reclaimed (1 if compaction can go
    /// ahead instead).
    pub(crate) fn try_to_free_pages(&self, cx: &Cx<'_, H>, req: &Request<'_>) -> u64 {
        let _ = (cx, req);
        todo!()
    }

    /// Reclaims from one node before the allocator leaves it (`zone_reclaim_mode`).
    pub(crate) fn node_reclaim_for(
        &self,
        cx: &Cx<'_, H>,
        node: NodeId,
        req: &Request<'_>,
    ) -> NodeReclaim {
        let _ = (cx, node, req);
        todo!()
    }
}
