//! Folios from the allocator and back.

use super::{Gfp, PageAllocator, Relief};
use crate::host::{Cx, Host};
use crate::page::{Folio, Order};
use crate::zone::NodeId;

impl<H: Host> PageAllocator<H> {
    /// Allocates a block near `node` and makes it a folio; none if there is none to be had.
    #[inline]
    pub fn alloc_folio<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        gfp: Gfp,
        order: Order,
        node: NodeId,
    ) -> Option<Folio> {
        let pfn = self.alloc(cx, relief, gfp, order, node, None)?;
        Some(self.map.make_folio(pfn, order))
    }

    /// Frees a folio whose last reference is gone already.
    pub(crate) fn free_unreferenced(&self, cx: &Cx<'_, H>, folio: Folio) {
        let state = self.map.page(folio).block();
        debug_assert!(state.has(crate::page::BlockFlags::USED) && state.order() == folio.order());
        if folio.is_large() {
            self.map.dissolve_folio(folio);
        }
        self.free_block(cx, self.map.page(folio).block(), folio.pfn(), folio.order());
    }
}
