//! Who compacts: a node's daemon, and a request for itself.

use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::{Order, Pfn};
use crate::page_alloc::Request;
use crate::units::{CompactPriority, CompactResult};
use crate::zone::{NodeId, ZoneType};

impl<H: Devices> Kernel<H> {
    /// Asks a node's compaction daemon for blocks of an order. There is none yet: this is the one
    /// place where it will be woken.
    pub(crate) fn wake_kcompactd(
        &self,
        _: &Cx<'_, H>,
        _node: NodeId,
        _order: Order,
        _highest: ZoneType,
    ) {
    }

    /// Compacts for a request: how it ended, and a page that it captured on the way. Not modelled yet.
    pub(crate) fn compact_for(
        &self,
        _: &Cx<'_, H>,
        _: &Request<'_>,
        _: CompactPriority,
    ) -> (CompactResult, Option<Pfn>) {
        (CompactResult::Absent, None)
    }
}
