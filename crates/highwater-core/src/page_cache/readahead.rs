//! Readahead (spec 04 §6).

use super::{OpenFile, ReadMode};
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;

/// State of a descriptor's readahead (`struct file_ra_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ReadAhead {
    /// First page of the current window.
    pub start: u32,
    /// Its pages.
    pub size: u32,
    /// How many of them, at its end, are read ahead of need.
    pub async_size: u32,
    /// Last byte read by read(); none before the first.
    pub prev_pos: Option<u64>,
    /// Net misses of faults.
    pub mmap_miss: u32,
    /// Most pages of a window; 0 = none.
    pub ra_pages: u32,
    /// Advice.
    pub mode: ReadMode,
}

/// Largest window of a descriptor without advice, pages: 128 KiB.
pub const RA_PAGES: u32 = 32;

impl ReadAhead {
    /// A descriptor that was not read yet.
    pub fn new() -> Self {
        ReadAhead { ra_pages: RA_PAGES, ..ReadAhead::default() }
    }
}

/// A window to read: pages `start..start+size`, the mark at `start+size-async_size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First page.
    pub start: u32,
    /// Pages.
    pub size: u32,
    /// Pages from the mark to the end; 0 = no mark.
    pub async_size: u32,
}

impl<H: Devices> Kernel<H> {
    /// A page that read() wants is missing: reads it and perhaps more. `req` = pages left in the
    /// call.
    pub fn readahead_sync(&self, cx: &Cx<'_, H>, open: &OpenFile<H>, index: u32, req: u32) {
        let _ = (cx, open, index, req);
        todo!()
    }

    /// A page with the readahead mark was reached: reads the next window. Clears the mark.
    pub fn readahead_async(
        &self,
        cx: &Cx<'_, H>,
        open: &OpenFile<H>,
        pfn: crate::page::Pfn,
        index: u32,
        req: u32,
    ) {
        let _ = (cx, open, pfn, index, req);
        todo!()
    }

    /// A fault missed (§6.5): read-around, or by the region's advice.
    pub fn readahead_mmap_miss(
        &self,
        cx: &Cx<'_, H>,
        open: &OpenFile<H>,
        index: u32,
        mode: ReadMode,
    ) {
        let _ = (cx, open, index, mode);
        todo!()
    }

    /// A fault found its page cached but could not simply map it (spec 04 §2.4 b): a hit, and if the
    /// page has the readahead mark, the next window is read.
    pub fn readahead_mmap_hit(
        &self,
        cx: &Cx<'_, H>,
        open: &OpenFile<H>,
        pfn: crate::page::Pfn,
        index: u32,
        mode: ReadMode,
    ) {
        let _ = (cx, open, pfn, index, mode);
        todo!()
    }

    /// Fault-around examined `nr` pages that could be mapped: so many hits.
    pub fn note_mmap_hits(&self, cx: &Cx<'_, H>, open: &OpenFile<H>, nr: u32) {
        let _ = (cx, open, nr);
        todo!()
    }
}
