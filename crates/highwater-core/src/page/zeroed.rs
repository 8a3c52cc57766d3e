//! Arrays that begin as zeros: one word for a frame of a machine of any size.
//!
//! An operating system hands out zeroed memory without touching it, and a page of it takes room when it is
//! written first. So an array of a word for each frame costs what the frames in use cost, however large
//! the machine is; filling it by a loop would take all of it at once.
//!
//! The one place in this crate with `unsafe`.

#![allow(unsafe_code)]

use alloc::alloc::{alloc_zeroed, handle_alloc_error};
use alloc::boxed::Box;
use core::alloc::Layout;
use core::ptr;

use super::Page;
use crate::sync::atomic::AtomicU32;

/// Types of which all zeros is a value.
///
/// # Safety
/// A value of the type may consist of zero bytes alone, and the type has a size.
pub(crate) unsafe trait Zeroed {}

// SAFETY: an integer of four bytes.
unsafe impl Zeroed for AtomicU32 {}

// SAFETY: eight of those and nothing else (the size is asserted where it is declared).
unsafe impl Zeroed for Page {}

/// `len` values of zero bytes.
pub(crate) fn zeroed<T: Zeroed>(len: usize) -> Box<[T]> {
    const { assert!(size_of::<T>() > 0) };
    let layout = Layout::array::<T>(len).expect("an array that fits into memory");
    if len == 0 {
        return Box::default();
    }
    // SAFETY: the layout is that of at least one value, and values have a size.
    let first = unsafe { alloc_zeroed(layout) }.cast::<T>();
    if first.is_null() {
        handle_alloc_error(layout);
    }
    // SAFETY:
    // 1. `first` is from the global allocator, with the layout of `len` values, as a box of them has.
    // 2. All bytes are zero, which is a value of `T`.
    // 3. Nobody else has the memory.
    unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(first, len)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::atomic::Ordering::Relaxed;

    #[test]
    fn zeros_can_be_written() {
        let words = zeroed::<AtomicU32>(1000);
        assert!(words.iter().all(|word| word.load(Relaxed) == 0));
        words[999].store(7, Relaxed);
        assert_eq!((words.len(), words[999].load(Relaxed)), (1000, 7));
        assert_eq!(zeroed::<AtomicU32>(0).len(), 0);
    }
}
