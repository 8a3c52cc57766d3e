//! Allocation and freeing of folios.
//!
//! The allocator handles blocks: a frame and an order, whatever their use. Page cache, anonymous
//! memory and lists handle folios: frames that are used, referenced and freed as one. This module
//! converts between the two. At allocation the head becomes a folio's head and the other frames are
//! marked as its tails. A large folio is dissolved *before* it is freed, because a merge, a scanner
//! or the next user must not find folio marks inside a free block.

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
    /// From here on no other task has it: its count is 0, and no task gets a reference to such a
    /// page. So plain stores to its word are safe.
    pub(crate) fn free_folio(&self, cx: &Cx<'_, H>, folio: Folio) {
        let state = self.map.page(folio).block();
        debug_assert!(state.has(crate::page::BlockFlags::USED) && state.order() == folio.order());
        if folio.is_large() {
            self.map.dissolve_folio(folio);
        }
        self.free_block(cx, self.map.page(folio).block(), folio.pfn(), folio.order());
    }
}
