//! The interface that the page cache needs from the modules above it.
//!
//! Truncation and writeback must remove a page from page tables, and the accounts of dirty pages
//! must follow each page. Both are in higher modules, which use the cache. So the cache declares
//! the interface, and they implement it.

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

/// Removes pages from page tables. Implemented by `vm::rmap`.
pub trait Mappings<H: Devices> {
    /// Makes every mapping of a locked page clean and read-only; true if one was dirty.
    fn clean_mappings(&self, cx: &Cx<'_, H>, folio: Folio) -> bool;

    /// Unmaps a locked page wherever it is mapped, as munmap would.
    fn unmap_everywhere(&self, cx: &Cx<'_, H>, folio: Folio);
}

/// Accounts of dirty pages. Implemented by `kernel::dirty`, for writeback and for reclaim.
///
/// Called with the page locked or its page table locked; ends come from interrupts. `pages` is the
/// number of pages of the folio.
pub trait DirtyAccount<H: Devices> {
    /// A folio of a file became dirty that was clean.
    fn page_dirtied(&self, cx: &Cx<'_, H>, file: &Arc<File<H>>, folio: Folio);

    /// Pages that were cleaned for I/O are dirty again, as if the cleaning had not happened.
    fn page_redirtied(&self, file: &File<H>, pages: u64);

    /// Pages are no longer dirty: they are about to be written, or never will be.
    fn page_cleaned(&self, file: &File<H>, pages: u64);

    /// A file is dirty, with this folio: it is to be written in its turn.
    fn file_dirtied(&self, cx: &Cx<'_, H>, file: &Arc<File<H>>, folio: Folio);

    /// A file is deleted: it must not be written any more.
    fn file_deleted(&self, cx: &Cx<'_, H>, file: &Arc<File<H>>);

    /// Writeback of pages of a file begins.
    fn write_started(&self, file: &File<H>, pages: u64);

    /// Writeback of pages of a node ended; of a file, or (none) of the swap cache.
    fn write_done(&self, cx: &Cx<'_, H>, file: Option<&File<H>>, node: NodeId, pages: u64);

    /// A task touched `pages` pages of a file that it may have dirtied; it may be held up here. The
    /// caller holds nothing that writeback needs.
    fn hold_up_writer(&self, cx: &Cx<'_, H>, file: &File<H>, pages: u32);
}
