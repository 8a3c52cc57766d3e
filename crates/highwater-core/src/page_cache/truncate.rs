//! Truncation, invalidation, drop_caches (spec 04 §5).

use alloc::sync::Arc;

use super::File;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;

impl<H: Devices> Kernel<H> {
    /// Cuts a file to `pages` pages: later pages are unmapped and dropped, dirty or not.
    pub fn truncate(&self, cx: &Cx<'_, H>, file: &Arc<File<H>>, pages: u32) {
        let _ = (cx, file, pages);
        todo!()
    }

    /// Deletes a file: truncates it and drops it from the table.
    pub fn delete_file(&self, cx: &Cx<'_, H>, file: &Arc<File<H>>) {
        let _ = (cx, file);
        todo!()
    }

    /// Drops clean, unmapped, unused pages `start..end`; the pages dropped and those that failed.
    pub fn invalidate(&self, cx: &Cx<'_, H>, file: &File<H>, start: u32, end: u32) -> (u64, u64) {
        let _ = (cx, file, start, end);
        todo!()
    }

    /// `drop_caches`: bit 0 invalidates every file's pages, bit 1 shrinks slab.
    pub fn drop_caches(&self, cx: &Cx<'_, H>, what: u8) {
        let _ = (cx, what);
        todo!()
    }
}
