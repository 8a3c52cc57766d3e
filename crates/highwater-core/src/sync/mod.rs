//! Synchronisation primitives shared by all modules: the atomics facade and the lock classes.
//!
//! The core never spins or sleeps by itself; locks come from [`crate::host::Host`]. Plain atomics
//! come through [`atomic`], so that loom can replace them when the crate is built with
//! `--cfg loom`.
//!
//! All page and counter words are accessed with relaxed ordering. A task that changes them holds
//! the lock that orders the change (zone lock, per-CPU list lock) or owns the page. Lock-free
//! readers (watermark checks, `/proc`) tolerate stale values, as in Linux. [`changes`] is the
//! exception: its readers go on with what they found under a lock before.

pub(crate) mod changes;
pub mod order;
pub mod prefetch;

/// Atomic integers: `core`'s.
pub mod atomic {
    pub use core::sync::atomic::{
        AtomicBool, AtomicI8, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
        Ordering, fence,
    };
}

use atomic::{AtomicU64, Ordering};

/// Adds to a counter that only one CPU writes: a load and a store, no locked instruction.
///
/// Readers on other CPUs see the old or the new value.
#[inline(always)]
pub fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}
