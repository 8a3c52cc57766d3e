//! What the page cache asks of those above it.
//!
//! Truncation and writeback must take a page out of page tables, and whoever keeps account of dirty pages
//! must learn of each. Both stand above the cache, which is what they work on; so it declares what it
//! needs, and they implement it.

use alloc::sync::Arc;

use super::File;
use crate::host::{Cx, Devices};
use crate::page::Folio;
use crate::units::{Error, NodeId};

/// A page of a file that lives in memory: locked, up to date, with a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPage {
    /// The page.
    pub folio: Folio,
    /// It had to be read from swap.
    pub was_swapped: bool,
}

/// Pages of files that live in memory and swap. Implemented by `swap::shared`.
pub trait MemoryFiles<H: Devices> {
    /// The page at an index, brought back from swap or made if need be.
    ///
    /// # Errors
    /// If there is no memory, swap cannot be read, the file was deleted, or the task is to die.
    fn memory_page(&self, cx: &Cx<'_, H>, file: &File<H>, index: u32) -> Result<MemoryPage, Error>;

    /// Frees the swap slots of pages from `first` on (truncation).
    fn drop_swapped(&self, cx: &Cx<'_, H>, file: &File<H>, first: u32);
}

/// Who maps a page. Implemented by `vm::rmap`.
pub trait Mappings<H: Devices> {
    /// Makes every mapping of a locked page clean and read-only; true if one was dirty.
    fn clean_mappings(&self, cx: &Cx<'_, H>, folio: Folio) -> bool;

    /// Unmaps a locked page wherever it is mapped, as munmap would.
    fn unmap_everywhere(&self, cx: &Cx<'_, H>, folio: Folio);
}

/// Who keeps account of dirty pages. Implemented by `kernel::dirty`, for writeback and for reclaim.
///
/// Called with the page locked or its page table locked; the ends come from interrupts. `pages` is how many
/// pages it is that became something: those of a folio.
pub trait DirtyAccount<H: Devices> {
    /// Pages of a file became dirty that were clean.
    fn page_dirtied(&self, cx: &Cx<'_, H>, file: &Arc<File<H>>, pages: u64);

    /// Pages that were cleaned for I/O are dirty again, as if they had not been touched.
    fn page_redirtied(&self, file: &File<H>, pages: u64);

    /// Pages are not dirty any more: they are about to be written, or never will be.
    fn page_cleaned(&self, file: &File<H>, pages: u64);

    /// A file is dirty: it is to be written in its turn.
    fn file_dirtied(&self, cx: &Cx<'_, H>, file: &Arc<File<H>>);

    /// A file is gone: nobody is to write it.
    fn file_deleted(&self, cx: &Cx<'_, H>, file: &Arc<File<H>>);

    /// Writeback of pages of a file begins.
    fn write_started(&self, file: &File<H>, pages: u64);

    /// Writeback of pages of a node ended; of a file, or (none) of the swap cache.
    fn write_done(&self, cx: &Cx<'_, H>, file: Option<&File<H>>, node: NodeId, pages: u64);

    /// A task touched `pages` pages of a file that it may have dirtied; it may be held up here. The
    /// caller holds nothing that writeback needs.
    fn hold_up_writer(&self, cx: &Cx<'_, H>, file: &File<H>, pages: u32);
}
