//! The memory behind the frames.
//!
//! One mapping covers frames `0..nr_frames`; frame `pfn` is the page at `pfn * 4096`. The kernel
//! backs pages when they are first touched, so holes in the machine's address map and unused memory
//! cost nothing.
//!
//! ```text
//!   base                 base + pfn * 4096                      base + nr_frames * 4096
//!    | frame 0 | frame 1 | ... | frame pfn | ... hole (never touched) ... | last |
//! ```
//!
//! Synchronisation: none. A frame belongs to the task that allocated it, but nothing stops a caller
//! from touching another task's frame, as in a kernel. So every access copies bytes in or out as
//! *racy* memory: a wrong program gets wrong bytes, never undefined behaviour.

#![allow(unsafe_code, reason = "mapping memory and copying in and out of it")]

mod huge;
mod racy;

use core::ffi::c_void;
use core::ptr::NonNull;

use highwater_core::page::{Order, PAGE_SIZE, Pfn};
pub(crate) use huge::advise as advise_huge_pages;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// The kind of memory behind the mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Backing {
    /// Anonymous private memory.
    #[default]
    Anonymous,
    /// A memory file, which has a name in `/proc/PID/maps`.
    Memfd,
}

/// Options of the mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaOptions {
    /// The kind of memory behind the mapping.
    pub backing: Backing,
    /// Advise transparent huge pages (2 MiB at a time are backed on first touch).
    pub huge_pages: bool,
}

impl Default for ArenaOptions {
    fn default() -> Self {
        ArenaOptions { backing: Backing::Anonymous, huge_pages: true }
    }
}

/// The reason why memory could not be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArenaError {
    /// More bytes than the address space holds, or none.
    #[error("cannot map {0} frames")]
    Size(u64),
    /// The OS refused.
    #[error("cannot map {bytes} bytes: {errno}")]
    Map {
        /// Bytes requested.
        bytes: usize,
        /// The reason.
        errno: rustix::io::Errno,
    },
}

/// A range of frames with memory behind them.
#[derive(Debug)]
pub struct Arena {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: 1. the mapping belongs to the process, not to a thread, and lives until drop; 2. all
// accesses go through `racy`, which any number of threads may do at once.
unsafe impl Send for Arena {}
// SAFETY: as for `Send`.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps frames `0..nr_frames`.
    ///
    /// # Errors
    /// If there are none, or the OS refuses.
    pub fn new(nr_frames: u64, options: ArenaOptions) -> Result<Arena, ArenaError> {
        let len = usize::try_from(nr_frames)
            .ok()
            .and_then(|frames| frames.checked_mul(PAGE_SIZE))
            .filter(|&len| len > 0 && len <= isize::MAX as usize)
            .ok_or(ArenaError::Size(nr_frames))?;
        let base =
            map(len, options.backing).map_err(|errno| ArenaError::Map { bytes: len, errno })?;
        let arena = Arena { base, len };
        if options.huge_pages {
            // Advice only: a kernel without transparent huge pages returns EINVAL, which is
            // harmless. SAFETY: the range is our mapping; this advice does not change its contents.
            let _ = unsafe { madvise(arena.base.as_ptr().cast(), len, Advice::LinuxHugepage) };
        }
        Ok(arena)
    }

    /// Number of frames.
    pub fn nr_frames(&self) -> u64 {
        (self.len / PAGE_SIZE) as u64
    }

    /// Fills a block with zeros.
    ///
    /// # Panics
    /// If the block does not lie in the arena.
    pub fn zero(&self, pfn: Pfn, order: Order) {
        let len = PAGE_SIZE << order.0;
        let at = self.range(pfn, 0, len);
        // SAFETY: `range` returned `len` mapped bytes, page aligned since the offset is 0.
        unsafe { racy::zero(at, len) };
    }

    /// Stores bytes, `offset` bytes after the start of a frame.
    ///
    /// # Panics
    /// If they would not lie in the arena.
    pub fn write(&self, pfn: Pfn, offset: usize, src: &[u8]) {
        let at = self.range(pfn, offset, src.len());
        // SAFETY: 1. `range` returned `src.len()` mapped bytes; 2. no reference into the mapping
        // exists, so `src` does not overlap it.
        unsafe { racy::store(at, src) };
    }

    /// Loads bytes, `offset` bytes after the start of a frame.
    ///
    /// # Panics
    /// If they do not lie in the arena.
    pub fn read(&self, pfn: Pfn, offset: usize, dst: &mut [u8]) {
        let at = self.range(pfn, offset, dst.len());
        // SAFETY: as in `write`.
        unsafe { racy::load(at, dst) };
    }

    /// Address of `len` bytes that lie in the mapping.
    fn range(&self, pfn: Pfn, offset: usize, len: usize) -> NonNull<u8> {
        let start = (pfn.idx() * PAGE_SIZE).checked_add(offset);
        let end = start.and_then(|start| start.checked_add(len));
        match (start, end) {
            (Some(start), Some(end)) if end <= self.len => {
                // SAFETY: `start <= end <= len`, so the result is in the mapping or one past it.
                unsafe { self.base.add(start) }
            }
            _ => panic!("{len} bytes at {pfn:?} + {offset} are outside of the arena"),
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: 1. the range is exactly our mapping; 2. the arena is not borrowed any more, and
        // no pointer into it was ever given out.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "unmapping our own mapping");
    }
}

fn map(len: usize, backing: Backing) -> Result<NonNull<u8>, rustix::io::Errno> {
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    let at: *mut c_void = match backing {
        Backing::Anonymous => {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            // SAFETY: a new mapping at an address of the kernel's choice touches nothing of ours.
            unsafe { mmap_anonymous(core::ptr::null_mut(), len, prot, flags)? }
        }
        Backing::Memfd => {
            let file = memfd_create("highwater-frames", MemfdFlags::CLOEXEC)?;
            ftruncate(&file, len as u64)?;
            let flags = MapFlags::SHARED | MapFlags::NORESERVE;
            // SAFETY: 1. as above; 2. no other process has the file, so it cannot shrink under us.
            unsafe { mmap(core::ptr::null_mut(), len, prot, flags, &file, 0)? }
        }
    };
    NonNull::new(at.cast()).ok_or(rustix::io::Errno::NOMEM)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn both() -> [Arena; 2] {
        [Backing::Anonymous, Backing::Memfd]
            .map(|backing| Arena::new(64, ArenaOptions { backing, huge_pages: true }).unwrap())
    }

    #[test]
    fn bytes_come_back_across_frames() {
        for arena in both() {
            let src: Vec<u8> = (0..9000u32).map(|i| (i % 251) as u8).collect();
            for offset in [0, 1, 7, 8, 4095, 5000] {
                arena.write(Pfn(3), offset, &src);
                let mut dst = vec![0; src.len()];
                arena.read(Pfn(3), offset, &mut dst);
                assert!(src == dst, "offset {offset}");
            }
        }
    }

    #[test]
    fn zero_fills_the_block_and_nothing_else() {
        for arena in both() {
            let ones = vec![0xff; 4 * PAGE_SIZE];
            arena.write(Pfn(8), 0, &ones);
            arena.zero(Pfn(9), Order(1));
            let mut dst = vec![1; 4 * PAGE_SIZE];
            arena.read(Pfn(8), 0, &mut dst);
            let zeros = dst.iter().enumerate().filter(|(_, b)| **b == 0).map(|(i, _)| i);
            assert!(zeros.eq(PAGE_SIZE..3 * PAGE_SIZE));
        }
    }

    #[test]
    fn a_terabyte_costs_nothing_until_touched() {
        let arena = Arena::new(1 << 28, ArenaOptions { huge_pages: false, ..Default::default() });
        let arena = arena.unwrap();
        arena.write(Pfn((1 << 28) - 1), PAGE_SIZE - 4, b"last");
        let mut dst = [0; 4];
        arena.read(Pfn((1 << 28) - 1), PAGE_SIZE - 4, &mut dst);
        assert_eq!(&dst, b"last");
    }

    #[test]
    fn impossible_sizes_are_errors() {
        for frames in [0, u64::MAX, 1 << 60] {
            assert!(Arena::new(frames, ArenaOptions::default()).is_err());
        }
    }

    #[test]
    #[should_panic(expected = "outside of the arena")]
    fn access_past_the_end_panics() {
        let [arena, _] = both();
        arena.write(Pfn(63), PAGE_SIZE - 1, b"ab");
    }
}
