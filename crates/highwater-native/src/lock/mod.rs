//! The locks that a native machine gives the core.
//!
//! | lock | for | uncontended cost |
//! |---|---|---|
//! | [`SpinLock`] | zone locks and other shared ones | one atomic exchange |
//! | [`CpuLock`] | per-CPU page lists | owner: plain loads and stores; others: a system call |
//! | [`LockMeter`] | acquisitions, contention, waits and holds, if enabled | nothing when off |
//!
//! Both locks wait by spinning, then by yielding to the OS: the holder may not be running.
//!
//! `unsafe` in this module: the guard hands out a reference into an `UnsafeCell`; making a guard
//! requires that the lock was just taken; each lock is declared `Sync`. The proofs are beside
//! the code; `tests/loom.rs` explores the interleavings.

mod biased;
mod guard;
mod meter;
mod spin;

pub use biased::{Barrier, CpuLock};
pub use guard::LockGuard;
pub use meter::{LockMeter, LockReport};
pub use spin::SpinLock;
