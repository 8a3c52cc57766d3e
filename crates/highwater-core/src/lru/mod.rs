//! LRU lists (rules/lru#lists): lists by type and activity, per-CPU batches, mark-accessed,
//! reference checks, shadows, and the balance of anonymous memory and page cache ([`balance`]).
//!
//! Key types: [`LruVec`] (one set of lists), [`Lru`] (all of them and the batches), `LockedLru` (a
//! set of lists under its lock, which counts what joins and leaves), [`CpuBatches`], [`Shadow`].
//!
//! Under MGLRU the lists are those of [`generations`].
//!
//! Synchronisation: lists and costs behind `lru_lock` of their [`LruVec`]; batches behind their
//! CPU's lock, except the interrupts' batch, which has a separate one; batch before list. The task
//! that clears a page's LRU flag may move the page once it has `lru_lock`. A task that only holds
//! the lock skips pages on a list whose flag is clear.
//!
//! From: `vm::fault`, `page_cache`, `swap` · to: `reclaim`.

mod access;
mod ahead;
pub mod balance;
mod batch;
pub(crate) mod bloom;
mod deferred;
pub(crate) mod generations;
mod isolate;
mod list;
mod locked;
mod mlock;
mod release;
mod reparent;
mod takings;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod workingset;

pub use crate::units::{LruKind, PageType};
pub(crate) use ahead::Walk;
pub(crate) use batch::{BATCH_MAX, PAGEVEC};
pub use batch::{Batch, BatchKind, Batches, CpuBatches};
pub use isolate::{IsolateMode, Isolated};
pub use list::{Lru, LruLists, LruVec};
pub(crate) use locked::LockedLru;
pub(crate) use release::BATCH;
pub use takings::Takings;
pub use workingset::{Refaults, Shadow};
