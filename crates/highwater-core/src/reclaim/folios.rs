//! What becomes of each page at the tail (spec 02 §11).

use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::Pfn;

impl<H: Devices> Kernel<H> {
    /// Isolated pages (a reference each, LRU cleared) are reclaimed now if they can be, the others
    /// put back (MADV_PAGEOUT); the pages freed.
    pub(crate) fn reclaim_pages(&self, cx: &Cx<'_, H>, pages: &[Pfn]) -> u64 {
        let _ = (cx, pages);
        todo!()
    }
}
