//! Copies into and out of memory that other threads may write at the same time.
//!
//! A plain copy would be a data race, hence undefined behaviour, if two tasks used the same frame.
//! These copies consist of relaxed atomic accesses. On x86-64, long copies are one string
//! instruction in assembly instead, which the language treats as such accesses of single bytes.

#![allow(unsafe_code, reason = "raw memory")]

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// A string instruction is worth its start-up cost from this length on.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const STRING_BYTES_MIN: usize = 64;

/// Fills with zeros.
///
/// # Safety
/// `at` is 8-byte aligned, followed by `len` mapped bytes to which no reference exists; `len` is a
/// multiple of 8.
pub(super) unsafe fn zero(at: NonNull<u8>, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: 1. the instruction writes `len` bytes from `at` on, which the caller guarantees are
    // mapped; 2. the direction flag is clear, as the ABI demands; 3. it uses no stack and changes
    // only the registers named.
    unsafe {
        core::arch::asm!(
            "rep stosb",
            inout("rdi") at.as_ptr() => _,
            inout("rcx") len => _,
            in("al") 0u8,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    for i in (0..len).step_by(8) {
        // SAFETY: in the range that the caller guarantees, and aligned, since `at` is.
        unsafe { word(at.add(i)) }.store(0, Relaxed);
    }
}

/// Copies `src` to `at`.
///
/// # Safety
/// `at` is followed by `src.len()` mapped bytes to which no reference exists.
pub(super) unsafe fn store(at: NonNull<u8>, src: &[u8]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if src.len() >= STRING_BYTES_MIN {
        // SAFETY: reads `src`, writes as many bytes from `at` on; otherwise as in `zero`.
        unsafe { copy_string(src.as_ptr(), at.as_ptr(), src.len()) };
        return;
    }
    let head = at.align_offset(8).min(src.len());
    let (head, rest) = src.split_at(head);
    let (words, tail) = rest.as_chunks::<8>();
    // SAFETY: each address lies in the caller's range; the words start at an aligned one.
    unsafe {
        for (i, &value) in head.iter().enumerate() {
            byte(at.add(i)).store(value, Relaxed);
        }
        let at = at.add(head.len());
        for (i, &value) in words.iter().enumerate() {
            word(at.add(8 * i)).store(u64::from_ne_bytes(value), Relaxed);
        }
        let at = at.add(8 * words.len());
        for (i, &value) in tail.iter().enumerate() {
            byte(at.add(i)).store(value, Relaxed);
        }
    }
}

/// Copies from `at` to `dst`.
///
/// # Safety
/// `at` is followed by `dst.len()` mapped bytes to which no reference exists.
pub(super) unsafe fn load(at: NonNull<u8>, dst: &mut [u8]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if dst.len() >= STRING_BYTES_MIN {
        // SAFETY: reads from `at` on, writes all of `dst`; otherwise as in `zero`.
        unsafe { copy_string(at.as_ptr(), dst.as_mut_ptr(), dst.len()) };
        return;
    }
    let head = at.align_offset(8).min(dst.len());
    let (head, rest) = dst.split_at_mut(head);
    let (words, tail) = rest.as_chunks_mut::<8>();
    // SAFETY: as in `store`.
    unsafe {
        for (i, value) in head.iter_mut().enumerate() {
            *value = byte(at.add(i)).load(Relaxed);
        }
        let at = at.add(head.len());
        for (i, value) in words.iter_mut().enumerate() {
            *value = word(at.add(8 * i)).load(Relaxed).to_ne_bytes();
        }
        let at = at.add(8 * words.len());
        for (i, value) in tail.iter_mut().enumerate() {
            *value = byte(at.add(i)).load(Relaxed);
        }
    }
}

/// # Safety
/// `from` may be read and `to` written for `len` bytes, one of them racily.
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn copy_string(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: 1. the caller guarantees both ranges; 2. the direction flag is clear, as the ABI
    // demands; 3. the instruction uses no stack and changes only the registers named.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rsi") from => _,
            inout("rdi") to => _,
            inout("rcx") len => _,
            options(nostack, preserves_flags),
        );
    }
}

/// # Safety
/// `at` is mapped, and no reference to it exists.
unsafe fn byte<'a>(at: NonNull<u8>) -> &'a AtomicU8 {
    // SAFETY: the caller guarantees it; atomics may be shared.
    unsafe { AtomicU8::from_ptr(at.as_ptr()) }
}

/// # Safety
/// `at` is 8-byte aligned and mapped, and no reference to it exists.
unsafe fn word<'a>(at: NonNull<u8>) -> &'a AtomicU64 {
    // SAFETY: the caller guarantees it; atomics may be shared.
    unsafe { AtomicU64::from_ptr(at.as_ptr().cast()) }
}
