//! Huge pages behind memory that another allocator provided.

use core::ffi::{c_int, c_void};

use rustix::mm::{Advice, madvise};

/// Bytes of a huge page.
const HUGE: usize = 2 << 20;
/// Collapses pages that are already present into huge pages (Linux 6.1 on).
const MADV_COLLAPSE: c_int = 25;

unsafe extern "C" {
    // A function of the C library, which the standard library links. `rustix` has no name for this
    // advice.
    #[link_name = "madvise"]
    fn madvise_raw(at: *mut c_void, len: usize, advice: c_int) -> c_int;
}

/// Requests huge pages behind `memory`, for the whole huge pages that it covers.
///
/// A random lookup in a table costs a page walk beside each cache miss, since the processor caches
/// few translations. With huge pages it caches all of them. Pages that were touched already are
/// copied once. This is only advice: the kernel may ignore it.
pub(crate) fn advise<T>(memory: &[T]) {
    let range = memory.as_ptr_range();
    let start = range.start.addr().next_multiple_of(HUGE);
    let end = range.end.addr() & !(HUGE - 1);
    if start >= end {
        return;
    }
    let at: *mut c_void = range.start.cast_mut().with_addr(start).cast();
    // SAFETY: 1. whole pages of a live allocation of this process; 2. neither advice changes their
    // contents, so shared borrows are untouched.
    unsafe {
        if madvise(at, end - start, Advice::LinuxHugepage).is_ok() {
            // An old kernel does not know this advice. Pages touched later are then huge, and pages
            // touched before are not.
            madvise_raw(at, end - start, MADV_COLLAPSE);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn contents_stay() {
        let before: Vec<u32> = (0..3 << 20).collect();
        advise(&before);
        advise(&before[..100]);
        assert!(before.iter().copied().eq(0..3 << 20));
    }
}
