//! Finding, adding and removing pages of a file.

use super::{File, Mark};
use crate::host::{Cx, Devices, IoError};
use crate::kernel::{Error, Kernel};
use crate::lru::Shadow;
use crate::page::Pfn;
use crate::page_alloc::Gfp;

impl<H: Devices> Kernel<H> {
    /// The page at an index, with a reference for the caller.
    pub fn find_get_page(&self, cx: &Cx<'_, H>, file: &File<H>, index: u32) -> Option<Pfn> {
        let _ = (cx, file, index);
        todo!()
    }

    /// The page at an index, locked, with a reference for the caller; none if it is not cached. A
    /// page that left the file while its lock was waited for is not taken for it.
    pub fn find_lock_page(&self, cx: &Cx<'_, H>, file: &File<H>, index: u32) -> Option<Pfn> {
        let _ = (cx, file, index);
        todo!()
    }

    /// The page at an index, locked, with a reference for the caller; made with `gfp` if it is not
    /// cached (then not up to date, and `true`).
    ///
    /// # Errors
    /// If there is no memory, or the file was deleted meanwhile ([`Error::Invalid`]).
    pub fn find_or_create_page(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        index: u32,
        gfp: Gfp,
    ) -> Result<(Pfn, bool), Error> {
        let _ = (cx, file, index, gfp);
        todo!()
    }

    /// Calls `f` for each page of `start..end` that a fault may map without waiting: cached, up to
    /// date, neither locked nor marked for readahead. Ascending. If `f` says that it mapped the
    /// page, the mapping owns a reference now. `f` takes no lock (the caller holds the page
    /// table's).
    pub(crate) fn map_pages(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        start: u32,
        end: u32,
        f: impl FnMut(u32, Pfn) -> bool,
    ) {
        let _ = (cx, file, start, end, f);
        todo!()
    }

    /// Adds a fresh page (locked here, one reference more for the tree) and puts it on an LRU list;
    /// a shadow found is a refault unless `gfp` has WRITE. False if somebody was faster.
    pub fn add_to_page_cache(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        index: u32,
        pfn: Pfn,
        gfp: Gfp,
    ) -> bool {
        let _ = (cx, file, index, pfn, gfp);
        todo!()
    }

    /// Takes a locked, frozen or otherwise unreachable page out of its file, leaving `shadow`. The
    /// caller holds `xa_lock`. The tree's reference is the caller's to drop.
    pub(crate) fn delete_from_page_cache(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        pfn: Pfn,
        shadow: Option<Shadow>,
    ) {
        let _ = (cx, file, pfn, shadow);
        todo!()
    }

    /// Reclaim's removal (spec 02 §11 step 16): freezes the references at `1 + nr` and removes the
    /// page, leaving a shadow. True if the page belongs to the caller now (no references, off the
    /// tree). The page is locked.
    pub(crate) fn remove_mapping_file(&self, cx: &Cx<'_, H>, file: &File<H>, pfn: Pfn) -> bool {
        let _ = (cx, file, pfn);
        todo!()
    }

    /// Sets or clears a mark on a page of a file, under `xa_lock`.
    pub(crate) fn mark_page(&self, cx: &Cx<'_, H>, file: &File<H>, index: u32, m: Mark, on: bool) {
        let _ = (cx, file, index, m, on);
        todo!()
    }

    /// Starts reading one locked page and waits for it.
    ///
    /// # Errors
    /// If the device could not read it.
    pub fn read_page(&self, cx: &Cx<'_, H>, file: &File<H>, pfn: Pfn) -> Result<(), IoError> {
        let _ = (cx, file, pfn);
        todo!()
    }
}
