//! Prefetch hints to the processor.
//!
//! A hint changes nothing: it returns no value and takes no fault, and on a processor without
//! prefetch it does nothing. One of the two places in this crate with `unsafe`: the instruction
//! takes a pointer.

#![allow(unsafe_code)]

/// The cache line in which `value` begins is wanted soon.
#[inline(always)]
pub fn prefetch_read<T>(value: &T) {
    prefetch_line(core::ptr::from_ref(value).addr());
}

/// The cache line of an address is wanted soon. The address may be anything.
#[inline(always)]
pub fn prefetch_line(address: usize) {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY:
        // 1. The instruction is there: the target has SSE.
        // 2. It may be given any address: one that cannot be read is no fault.
        // 3. It reads nothing that the program sees, so it is no race with a writer either.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::without_provenance(address)) };
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "sse", not(miri))))]
    let _ = address;
}
