//! Mappings of this process, and the instructions that a kernel clears and copies pages with.

#![allow(unsafe_code, reason = "mapping memory, touching it where it is mapped, string moves")]

use core::ffi::c_void;
use core::ptr::NonNull;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// Bytes of a page, in all costs.
pub(crate) const PAGE: usize = 4096;
/// Bytes of a huge page on x86-64, and on arm64 with pages of 4 KiB.
pub(crate) const HUGE: usize = 2 << 20;

/// A mapping of this process.
pub(crate) struct Region {
    at: NonNull<u8>,
    len: usize,
    is_writable: bool,
}

impl Region {
    /// New anonymous memory, with or without huge pages where the kernel gives them.
    pub(crate) fn anonymous(len: usize, huge: bool) -> Result<Region, String> {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing of ours.
        let at = unsafe { mmap_anonymous(core::ptr::null_mut(), len, prot, flags) };
        let region = Region::new(at, len, true)?;
        let advice = if huge { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
        // A kernel without huge pages rejects the advice, which is harmless.
        let _ = region.advise(advice);
        Ok(region)
    }

    /// The begin of a file: read-only, or written (`shared`: to the file, else to copies).
    ///
    /// The caller's file is unnamed, so that nobody shortens it under the mapping.
    pub(crate) fn of_file(
        file: impl AsFd,
        len: usize,
        shared: bool,
        is_writable: bool,
    ) -> Result<Region, String> {
        let mut prot = ProtFlags::READ;
        if is_writable {
            prot |= ProtFlags::WRITE;
        }
        let flags = if shared { MapFlags::SHARED } else { MapFlags::PRIVATE };
        // SAFETY: as above.
        let at = unsafe { mmap(core::ptr::null_mut(), len, prot, flags, file, 0) };
        Region::new(at, len, is_writable)
    }

    fn new(
        at: Result<*mut c_void, Errno>,
        len: usize,
        is_writable: bool,
    ) -> Result<Region, String> {
        let at = at.map_err(|error| format!("mmap of {} KiB: {error}", len >> 10))?;
        let at = NonNull::new(at.cast()).ok_or("mapped at address 0")?;
        Ok(Region { at, len, is_writable })
    }

    /// Advice about the whole mapping.
    pub(crate) fn advise(&self, advice: Advice) -> Result<(), String> {
        // SAFETY: the range is our mapping. Advice that drops pages (`LinuxDontNeed`) makes private
        // memory read as zeros or as the file, which is a valid content of bytes; no reference
        // into it exists, because `bytes` and `bytes_mut` borrow the region.
        let done = unsafe { madvise(self.at.as_ptr().cast(), self.len, advice) };
        done.map_err(|error| format!("madvise: {error}"))
    }

    /// Writes one byte.
    pub(crate) fn write(&self, at: usize) {
        assert!(at < self.len && self.is_writable, "inside a writable mapping");
        // SAFETY: 1. checked above; 2. no reference to the byte exists, as in `advise`; 3. a region
        // is neither `Send` nor `Sync`, so no other thread reaches it.
        unsafe { self.at.add(at).write_volatile(1) };
    }

    /// Reads one byte.
    pub(crate) fn read(&self, at: usize) -> u8 {
        assert!(at < self.len, "inside the mapping");
        // SAFETY: checked above; the file behind a mapping is not shortened while it exists.
        unsafe { self.at.add(at).read_volatile() }
    }

    /// The bytes of anonymous memory.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(self.is_writable, "a writable mapping");
        // SAFETY: 1. mapped and readable for `len` bytes, zeros at first; 2. the borrow of `self`
        // keeps other accesses out.
        unsafe { core::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }

    /// Offset of the first byte at a multiple of 2 MiB.
    pub(crate) fn first_huge(&self) -> usize {
        self.at.as_ptr().align_offset(HUGE)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the range is exactly our mapping, and no reference into it outlives the region.
        let unmapped = unsafe { munmap(self.at.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "unmapping our own mapping");
    }
}

/// Clears bytes, with the instruction that kernels use (`rep stosb`) where there is one.
#[inline]
pub(crate) fn clear(to: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: writes `to.len()` bytes from its begin, all of them in the slice.
    unsafe {
        core::arch::asm!(
            "rep stosb",
            inout("rdi") to.as_mut_ptr() => _,
            inout("rcx") to.len() => _,
            in("al") 0u8,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        to.fill(0);
        // Nobody reads it: without this the compiler may leave it out.
        std::hint::black_box(to);
    }
}

/// Copies bytes between slices of one length, with the instruction that kernels use (`rep movsb`)
/// where there is one.
#[inline]
pub(crate) fn copy(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len(), "slices of one length");
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads and writes that many bytes of two slices, which do not overlap, since one of
    // them is borrowed mutably.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rdi") to.as_mut_ptr() => _,
            inout("rsi") from.as_ptr() => _,
            inout("rcx") to.len() => _,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        to.copy_from_slice(from);
        std::hint::black_box(to);
    }
}

/// The instructions of [`clear`] and [`copy`], for descriptions.
pub(crate) const STRING_MOVES: &str =
    if cfg!(target_arch = "x86_64") { "rep stosb, rep movsb" } else { "memset, memcpy" };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_moves_clear_and_copy() {
        let mut to = vec![7; 10_000];
        clear(&mut to[1..9_999]);
        assert_eq!((to[0], to[1], to[9_998], to[9_999]), (7, 0, 0, 7));
        let from: Vec<u8> = (0..10_000).map(|at| at as u8).collect();
        copy(&mut to[3..9_003], &from[5..9_005]);
        assert_eq!(to[3..9_003], from[5..9_005]);
        assert_eq!(to[9_003], 0);
    }

    #[test]
    fn a_region_is_zeros_and_keeps_what_is_written() {
        let mut region = Region::anonymous(4 * PAGE, false).unwrap();
        region.write(PAGE);
        assert_eq!((region.read(0), region.read(PAGE)), (0, 1));
        region.bytes_mut()[2 * PAGE] = 9;
        assert_eq!(region.read(2 * PAGE), 9);
        region.advise(Advice::LinuxDontNeed).unwrap();
        assert_eq!(region.read(2 * PAGE), 0);
    }
}
