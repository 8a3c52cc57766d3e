//! munmap, zap, what becomes of young bits (spec 04 §3.1, §3.2, §3.6; study 003).

use super::Space;
use crate::host::{Cx, Devices};
use crate::kernel::{Error, Kernel};

impl<H: Devices> Kernel<H> {
    /// Unmaps `pages` pages from `start` on.
    ///
    /// # Errors
    /// If the range is not in the address space.
    pub fn munmap(
        &self,
        cx: &Cx<'_, H>,
        space: &Space<H>,
        start: u32,
        pages: u32,
    ) -> Result<(), Error> {
        let _ = (cx, space, start, pages);
        todo!()
    }

    /// Unmaps everything of a space in one go and frees its tables but the top one (exit). Nobody
    /// uses it any more; its areas are taken out here.
    pub(crate) fn unmap_space(&self, cx: &Cx<'_, H>, space: &Space<H>) {
        let _ = (cx, space);
        todo!()
    }

    /// Unmaps one file page from every space that maps it (truncation); the page is locked.
    pub(crate) fn unmap_file_page(&self, cx: &Cx<'_, H>, pfn: crate::page::Pfn) {
        let _ = (cx, pfn);
        todo!()
    }

    /// Unmaps a victim's anonymous memory (the OOM reaper); false if its `mmap_lock` is contended:
    /// try again later.
    pub(crate) fn reap_space(&self, cx: &Cx<'_, H>, space: &Space<H>) -> bool {
        let _ = (cx, space);
        todo!()
    }
}
