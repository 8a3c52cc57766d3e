//! The memory behind the frames: one range of addresses.

#![allow(unsafe_code, reason = "memory that no Rust value owns")]

use core::ptr::NonNull;

use highwater_core::page::{PAGE_SIZE, Pfn};

/// A range of memory that is nobody's; frame `n` is its `n`-th page.
///
/// Synchronisation: none. A frame belongs to whoever allocated it, and only he may access its bytes.
#[derive(Debug)]
pub struct Memory {
    base: NonNull<u8>,
    nr_frames: usize,
}

// SAFETY: 1. the range belongs to no thread; 2. who accesses a frame owns it (the rule above).
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// `nr_frames` pages from `start` on; none if `start` is not the start of a page.
    ///
    /// # Safety
    /// The range is mapped, writable, and stays so; nobody else accesses it; and a frame's bytes are
    /// accessed by one at a time, by whoever allocated it.
    pub unsafe fn new(start: *mut u8, nr_frames: usize) -> Option<Memory> {
        let base = NonNull::new(start).filter(|base| base.addr().get() % PAGE_SIZE == 0)?;
        Some(Memory { base, nr_frames })
    }

    /// Pages in it.
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

    /// Where `len` bytes begin, all of which are in the range.
    ///
    /// # Panics
    /// If they are not: the frame number is nothing that the allocator handed out.
    fn range(&self, pfn: Pfn, offset: usize, len: usize) -> NonNull<u8> {
        let start = pfn.idx() * PAGE_SIZE + offset;
        assert!(start + len <= self.nr_frames * PAGE_SIZE, "{pfn:?} is not of this memory");
        // SAFETY: the assertion: it is in the range, or its end.
        unsafe { self.base.add(start) }
    }
}
