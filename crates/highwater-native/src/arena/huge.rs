//! Huge pages behind memory that somebody else allocated.

use core::ffi::{c_int, c_void};

use rustix::mm::{Advice, madvise};

/// Bytes of a huge page.
const HUGE: usize = 2 << 20;
/// Makes huge pages of what is there already (Linux 6.1 on).
const MADV_COLLAPSE: c_int = 25;

unsafe extern "C" {
    // Of the C library, which the standard library is linked to. `rustix` has no name for the advice.
    #[link_name = "madvise"]
    fn madvise_raw(at: *mut c_void, len: usize, advice: c_int) -> c_int;
}

/// Asks for huge pages behind `memory`, as far as it covers whole ones.
///
/// A table that is looked at in random order costs a page walk beside each cache miss, since the processor remembers
/// few translations; behind huge pages it remembers all of them. What was touched already is copied once. Advice
/// only: whether the kernel follows it is its affair.
pub(crate) fn advise<T>(memory: &[T]) {
    let range = memory.as_ptr_range();
    let start = range.start.addr().next_multiple_of(HUGE);
    let end = range.end.addr() & !(HUGE - 1);
    if start >= end {
        return;
    }
    let at: *mut c_void = range.start.cast_mut().with_addr(start).cast();
    // SAFETY: 1. whole pages of a live allocation of this process; 2. neither advice changes what is in them, so shared
    // borrows are untouched.
    unsafe {
        if madvise(at, end - start, Advice::LinuxHugepage).is_ok() {
            // An old kernel does not know it: then what is touched later is huge, and what was is not.
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
