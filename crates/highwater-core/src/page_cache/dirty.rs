//! Dirtying and cleaning pages: flags, marks, counters (spec 04 §1, §7.1).

use super::File;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::Pfn;

impl<H: Devices> Kernel<H> {
    /// A file page (or a swap cache page) becomes dirty; true if it was clean. Counts it, marks it
    /// in the tree, queues the file for writeback.
    pub fn set_page_dirty(&self, cx: &Cx<'_, H>, pfn: Pfn) -> bool {
        let _ = (cx, pfn);
        todo!()
    }

    /// Before a locked page is written: cleans its page table entries and clears DIRTY; true if it
    /// was dirty.
    pub fn clear_page_dirty_for_io(&self, cx: &Cx<'_, H>, pfn: Pfn) -> bool {
        let _ = (cx, pfn);
        todo!()
    }

    /// A page will not be written after all (truncation): DIRTY goes, and what was counted.
    pub fn cancel_dirty(&self, cx: &Cx<'_, H>, file: &File<H>, pfn: Pfn) {
        let _ = (cx, file, pfn);
        todo!()
    }

    /// Writeback of a page begins (file or swap).
    pub fn start_page_writeback(&self, cx: &Cx<'_, H>, pfn: Pfn) {
        let _ = (cx, pfn);
        todo!()
    }

    /// Writeback of a page ended: RECLAIM pages are rotated, waiters woken, throttled reclaimers
    /// told (spec 02 §11, spec 04 §8.5). From interrupts.
    pub fn end_page_writeback(&self, cx: &Cx<'_, H>, pfn: Pfn) {
        let _ = (cx, pfn);
        todo!()
    }
}
