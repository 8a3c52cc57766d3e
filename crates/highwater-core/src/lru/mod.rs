//! LRU lists (spec 02 §2 to §6): lists by type and activity, per-CPU batches, mark-accessed,
//! reference checks, shadows.
//!
//! Key types: [`LruVec`] (one set of lists), [`Lru`] (all of them and the batches).
//!
//! Synchronisation: lists and costs behind `lru_lock` of their [`LruVec`]; batches behind their CPU's
//! lock; batch before list.
//!
//! From: `vm::fault`, `page_cache`, `swap` · to: `reclaim`.

mod access;
mod batch;
mod list;
mod mlock;
mod workingset;

pub use batch::{BatchKind, Batches};
pub use list::{Lru, LruKind, LruLists, LruVec, PageType};
pub use workingset::{Shadow, WorkingsetShrinker};
