//! Writing one file's dirty pages (spec 04 §8.3).

use super::WriteReason;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::Pfn;
use crate::page_cache::File;

/// What became of a single-page write that reclaim asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageWrite {
    /// Started (or done); the page is unlocked.
    Started,
    /// The filesystem will not: activate the page, which is still locked and dirty again.
    Refused,
}

impl<H: Devices> Kernel<H> {
    /// Writes dirty pages `start..end` of a file, `nr` at most; the pages written. Does not wait.
    pub fn write_file_pages(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        range: (u32, u32),
        nr: u64,
        reason: WriteReason,
    ) -> u64 {
        let _ = (cx, file, range, nr, reason);
        todo!()
    }

    /// Writes one locked file page whose DIRTY was cleared for I/O, for reclaim.
    pub(crate) fn write_file_page(&self, cx: &Cx<'_, H>, file: &File<H>, pfn: Pfn) -> PageWrite {
        let _ = (cx, file, pfn);
        todo!()
    }
}
