//! The memory behind the frames: one range of addresses.

#![allow(unsafe_code, reason = "memory that no Rust value owns")]

use core::ptr::NonNull;

use highwater_core::page::{PAGE_SIZE, Pfn};

/// A range of memory that has no other owner; frame `n` is its `n`-th page.
///
/// Synchronisation: none. A frame belongs to its allocator, and only the owner may access its
/// bytes.
#[derive(Debug)]
pub struct Memory {
    base: NonNull<u8>,
    nr_frames: usize,
}

// SAFETY: 1. the range belongs to no thread; 2. only the owner of a frame accesses it (the rule
// above).
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// `nr_frames` pages from `start` on; none if `start` is not the start of a page.
    ///
    /// # Safety
    /// The range is mapped and writable, and stays so. Nothing else accesses it. Only the owner of
    /// a frame accesses its bytes, and only one at a time.
    pub unsafe fn new(start: *mut u8, nr_frames: usize) -> Option<Memory> {
        let base = NonNull::new(start).filter(|base| base.addr().get() % PAGE_SIZE == 0)?;
        Some(Memory { base, nr_frames })
    }

    /// Number of pages in the range.
    pub fn nr_frames(&self) -> usize {
        self.nr_frames
    }

    /// Fills part of it with zeros.
    pub(crate) fn zero(&self, pfn: Pfn, bytes: usize) {
        let at = self.range(pfn, 0, bytes);
        // SAFETY: `range` returned as many bytes of the range, and the caller owns them.
        unsafe { at.write_bytes(0, bytes) };
    }

    /// Stores bytes.
    pub(crate) fn write(&self, pfn: Pfn, offset: usize, src: &[u8]) {
        let at = self.range(pfn, offset, src.len());
        // SAFETY: 1. as in `zero`; 2. no Rust value lies in the range, so `src` does not.
        unsafe { at.copy_from_nonoverlapping(NonNull::from(src).cast(), src.len()) };
    }

    /// Loads bytes.
    pub(crate) fn read(&self, pfn: Pfn, offset: usize, dst: &mut [u8]) {
        let at = self.range(pfn, offset, dst.len());
        // SAFETY: as in `write`.
        unsafe { at.copy_to_nonoverlapping(NonNull::from(&mut *dst).cast(), dst.len()) };
    }

    /// Address of the first of `len` bytes, all of which are in the range.
    ///
    /// # Panics
    /// If they are not in the range: the frame number did not come from the allocator.
    fn range(&self, pfn: Pfn, offset: usize, len: usize) -> NonNull<u8> {
        let start = pfn.idx() * PAGE_SIZE + offset;
        assert!(start + len <= self.nr_frames * PAGE_SIZE, "{pfn:?} is not of this memory");
        // SAFETY: by the assertion, the address is in the range or at its end.
        unsafe { self.base.add(start) }
    }
}
