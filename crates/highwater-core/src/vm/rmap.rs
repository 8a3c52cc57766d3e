//! From a page to the entries that map it (spec 04 §4).

use super::AreaFlags;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::Pfn;

/// What a walk of a page's mappings found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Referenced {
    /// Areas that used the page since the last walk, and the OR of their flags (LOCKED among them if
    /// the walk stopped there).
    By(u32, AreaFlags),
    /// A lock was contended: nothing is known.
    Contended,
}

/// Translations that a reclaimer cleared and has not flushed yet (`tlb_ubc`). The helper that owns
/// this file completes it.
#[derive(Debug, Default)]
pub struct UnmapBatch {}

impl<H: Devices> Kernel<H> {
    /// Clears the young bits of every entry that maps a locked page and says who used it (spec 02
    /// §7). A locked area: the page is mlocked, the walk stops.
    pub(crate) fn page_referenced(&self, cx: &Cx<'_, H>, pfn: Pfn) -> Referenced {
        let _ = (cx, pfn);
        todo!()
    }

    /// Unmaps a locked page everywhere for reclaim; true if nothing maps it any more. Flushes are
    /// collected until [`Kernel::flush_unmapped`].
    pub(crate) fn try_to_unmap(&self, cx: &Cx<'_, H>, pfn: Pfn) -> bool {
        let _ = (cx, pfn);
        todo!()
    }

    /// Flushes what [`Kernel::try_to_unmap`] left to flush; `dirty_only` = only if a dirty entry was
    /// among it.
    pub(crate) fn flush_unmapped(&self, cx: &Cx<'_, H>, dirty_only: bool) {
        let _ = (cx, dirty_only);
        todo!()
    }

    /// Write-protects and cleans every entry of a page that is about to be written; true if one was
    /// dirty.
    pub(crate) fn page_mkclean(&self, cx: &Cx<'_, H>, pfn: Pfn) -> bool {
        let _ = (cx, pfn);
        todo!()
    }
}
