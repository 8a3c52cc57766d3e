//! The huge zero page (rules/huge-pages#zero), which reads of untouched huge ranges map.
//!
//! It is allocated at the first such read. It stays while a leaf maps it, and after that until
//! reclaim frees it. It is not on a list, does not count as resident, and has no mapping.
//!
//! Synchronisation: [`ZeroPage`] behind its lock. Each leaf counts as a user, so its frames stay
//! allocated. Its number may be read without the lock, because it changes only while no leaf maps
//! it.

use super::{HUGE, NR};
use crate::host::{Cx, Devices, Lock};
use crate::kernel::Kernel;
use crate::page::{Folio, PageFlags, Pfn};
use crate::page_alloc::Gfp;
use crate::sync::atomic::Ordering::Relaxed;
use crate::vmstat::VmEvent;

/// No block has this number.
pub(super) const NO_BLOCK: u32 = u32::MAX;

/// The huge page of zeros.
#[derive(Debug, Default)]
pub(crate) struct ZeroPage {
    /// None until it is needed.
    pub(crate) folio: Option<Folio>,
    /// Leaves that map it.
    pub(crate) nr_leaves: u64,
}

impl<H: Devices> Kernel<H> {
    /// True for a frame of zeros: a single one, or one of the huge page's.
    #[inline(always)]
    pub(crate) fn is_zero(&self, pfn: Pfn) -> bool {
        pfn == self.zero_page || self.is_huge_zero(pfn)
    }

    /// Reports whether a frame is part of the huge zero page.
    #[doc(alias = "is_huge_zero_page")]
    #[inline(always)]
    pub(crate) fn is_huge_zero(&self, pfn: Pfn) -> bool {
        pfn.0 / NR == self.huge.zero_block.load(Relaxed)
    }

    /// Returns the huge zero page for one leaf more, made if need be; none if there is no memory
    /// for it.
    #[doc(alias = "mm_get_huge_zero_page")]
    #[doc(alias = "get_huge_zero_page")]
    pub(super) fn get_huge_zero(&self, cx: &Cx<'_, H>) -> Option<Folio> {
        {
            let mut zero = self.huge.zero.lock(cx.cpu());
            if zero.folio.is_some() {
                zero.nr_leaves += 1;
                return zero.folio;
            }
        }
        // It stays where it is.
        let gfp = (Gfp::GFP_TRANSHUGE | Gfp::ZERO) - Gfp::MOVABLE;
        let node = self.mem.cpu_node(cx.cpu());
        let Some(new) = self.mem.alloc_folio(cx, self, gfp, HUGE, node) else {
            self.mem.events.add(cx.cpu(), VmEvent::ThpZeroPageAllocFailed, 1);
            return None;
        };
        let mut zero = self.huge.zero.lock(cx.cpu());
        let folio = *zero.folio.get_or_insert(new);
        zero.nr_leaves += 1;
        if folio == new {
            self.mem.map.page(folio).init_flags(PageFlags::PINNED);
            self.huge.zero_block.store(folio.pfn().0 / NR, Relaxed);
            self.mem.events.add(cx.cpu(), VmEvent::ThpZeroPageAlloc, 1);
            return Some(folio);
        }
        drop(zero);
        self.put_page(cx, new);
        Some(folio)
    }

    /// One more leaf maps it: a child's copy of its parent's leaf.
    pub(super) fn dup_huge_zero(&self, cx: &Cx<'_, H>) {
        let mut zero = self.huge.zero.lock(cx.cpu());
        debug_assert!(zero.nr_leaves > 0, "the parent's leaf keeps it");
        zero.nr_leaves += 1;
    }

    /// Drops a leaf's reference to the huge zero page.
    #[doc(alias = "put_huge_zero_page")]
    pub(super) fn put_huge_zero(&self, cx: &Cx<'_, H>) {
        let mut zero = self.huge.zero.lock(cx.cpu());
        debug_assert!(zero.nr_leaves > 0, "more leaves of zeros went than came");
        zero.nr_leaves -= 1;
    }

    /// Pages that would be free if the huge page of zeros went: 0 while it is in use.
    pub(crate) fn idle_huge_zero(&self, cx: &Cx<'_, H>) -> u64 {
        let zero = self.huge.zero.lock(cx.cpu());
        if zero.nr_leaves == 0 { zero.folio.map_or(0, Folio::nr_pages) } else { 0 }
    }

    /// Frees the huge page of zeros if nothing maps it; the pages freed.
    pub(crate) fn free_huge_zero(&self, cx: &Cx<'_, H>) -> u64 {
        let folio = {
            let mut zero = self.huge.zero.lock(cx.cpu());
            if zero.nr_leaves != 0 {
                return 0;
            }
            let Some(folio) = zero.folio.take() else { return 0 };
            self.huge.zero_block.store(NO_BLOCK, Relaxed);
            folio
        };
        self.mem.map.page(folio).flag_clear::<H>(PageFlags::PINNED);
        self.put_page(cx, folio);
        folio.nr_pages()
    }
}
