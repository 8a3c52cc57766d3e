//! Folios from the allocator and back.
//!
//! The allocator knows blocks: a frame, an order, and nothing about what a block is for. Page cache,
//! anonymous memory and lists know folios: frames that are used, referenced and freed as one. Here is
//! the door between the two. On the way out the head takes on the folio and the other frames learn
//! whose tail they are; on the way back a large folio is dissolved *before* it is freed, because a
//! merge, a scanner or the next user must not find marks of a folio in the middle of a free block.

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
    ///
    /// From here on nobody else has it: the count is 0 and nobody gets a reference to a page with none.
    /// So its word may change without care.
    pub(crate) fn free_folio(&self, cx: &Cx<'_, H>, folio: Folio) {
        let state = self.map.page(folio).block();
        debug_assert!(state.has(crate::page::BlockFlags::USED) && state.order() == folio.order());
        if folio.is_large() {
            self.map.dissolve_folio(folio);
        }
        self.free_block(cx, self.map.page(folio).block(), folio.pfn(), folio.order());
    }
}
