//! Arrays that start as zeros: one word per frame, for machines of any size.
//!
//! An operating system hands out zeroed memory lazily: a page of it takes memory at its first
//! write. So an array with a word for each frame costs memory only for the frames in use, whatever
//! the machine's size. Filling it in a loop would take all of it at once.
//!
//! An array is aligned to a cache line, so no value whose size divides a line crosses one. The
//! alignment is done here and not by the allocator: for a large alignment `std`'s allocator
//! allocates and clears the memory by writing it.
//!
//! One of the two places in this crate with `unsafe`.

#![allow(unsafe_code)]

use alloc::alloc::{alloc_zeroed, dealloc, handle_alloc_error};
use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

use super::Page;
use crate::sync::atomic::{AtomicU8, AtomicU16, AtomicU32};

/// Bytes of a cache line.
const LINE: usize = 64;

/// Types of which all zeros is a value.
///
/// # Safety
/// A value of the type may consist of zero bytes alone; the type has a size, needs no drop, and is aligned to a cache line
/// at most.
pub(crate) unsafe trait Zeroed {}

// SAFETY: an integer of four bytes.
unsafe impl Zeroed for AtomicU32 {}

// SAFETY: an integer of two bytes.
unsafe impl Zeroed for AtomicU16 {}

// SAFETY: an integer of one byte.
unsafe impl Zeroed for AtomicU8 {}

// SAFETY: eight of those and nothing else (the size is asserted where it is declared).
unsafe impl Zeroed for Page {}

/// Values that began as zero bytes.
pub(crate) struct ZeroedSlice<T: Zeroed> {
    /// The allocation, with its layout; `None` for an empty array.
    memory: Option<(NonNull<u8>, Layout)>,
    first: NonNull<T>,
    len: usize,
    owns: PhantomData<T>,
}

// SAFETY: it owns its values as a box does.
unsafe impl<T: Zeroed + Send> Send for ZeroedSlice<T> {}
// SAFETY: as above; all that a shared one gives is a shared slice.
unsafe impl<T: Zeroed + Sync> Sync for ZeroedSlice<T> {}

impl<T: Zeroed> ZeroedSlice<T> {
    /// `len` values of zero bytes.
    ///
    /// # Panics
    /// If they are larger than an address space.
    pub(crate) fn new(len: usize) -> ZeroedSlice<T> {
        const {
            assert!(size_of::<T>() > 0 && align_of::<T>() <= LINE && !core::mem::needs_drop::<T>());
        }
        if len == 0 {
            return ZeroedSlice {
                memory: None,
                first: NonNull::dangling(),
                len,
                owns: PhantomData,
            };
        }
        let size = len.checked_mul(size_of::<T>()).and_then(|size| size.checked_add(LINE));
        let layout = size.and_then(|size| Layout::from_size_align(size, align_of::<u64>()).ok());
        let layout = layout.expect("an array that fits into memory");
        // SAFETY: the layout has a size.
        let Some(memory) = NonNull::new(unsafe { alloc_zeroed(layout) }) else {
            handle_alloc_error(layout)
        };
        let offset = memory.addr().get().next_multiple_of(LINE) - memory.addr().get();
        // SAFETY: the offset is less than a line, and the memory has a line more than the values need.
        let first = unsafe { memory.add(offset) }.cast();
        ZeroedSlice { memory: Some((memory, layout)), first, len, owns: PhantomData }
    }
}

impl<T: Zeroed> Deref for ZeroedSlice<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY:
        // 1. `first` is aligned to a line, which is enough for a `T` ([`Zeroed`]), and `len` values fit behind it; of no
        //    values it dangles, aligned.
        // 2. The bytes were zero, which is a `T`, and have been used as `T`s since.
        // 3. The memory lives as long as `self`, and nobody has it for writing.
        unsafe { core::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T: Zeroed> Drop for ZeroedSlice<T> {
    fn drop(&mut self) {
        if let Some((memory, layout)) = self.memory {
            // SAFETY: allocated with this layout, once, and values need no drop.
            unsafe { dealloc(memory.as_ptr(), layout) };
        }
    }
}

impl<T: Zeroed + fmt::Debug> fmt::Debug for ZeroedSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::atomic::Ordering::Relaxed;

    #[test]
    fn zeros_can_be_written_and_begin_with_a_line() {
        let words = ZeroedSlice::<AtomicU32>::new(1000);
        assert!(words.iter().all(|word| word.load(Relaxed) == 0));
        words[999].store(7, Relaxed);
        assert_eq!((words.len(), words[999].load(Relaxed)), (1000, 7));
        for len in [1, 3, 1000, 100_000] {
            let pages = ZeroedSlice::<Page>::new(len);
            assert_eq!(pages.as_ptr().addr() % LINE, 0);
            assert_eq!(pages[len - 1].refcount(), 0);
        }
        assert!(ZeroedSlice::<AtomicU32>::new(0).is_empty());
    }
}
