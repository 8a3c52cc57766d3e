//! Swap (spec 04 §9): areas of slots, the swap cache, readahead, I/O.
//!
//! Key types: [`Slot`], [`SwapArea`], [`Swap`].
//!
//! Synchronisation: an area's slots behind its lock (class `Swap`); the swap cache, slot to page, in
//! the same place; a page in the cache holds one reference, has SWAPCACHE and is found by
//! [`Swap::slot_of`]. A slot's count says how many page table entries name it.
//!
//! From: `reclaim::folios` (out), `vm::fault` (in), `vm::unmap` (freed) · to: `block`.

mod area;
mod cache;
mod io;
mod readahead;

pub use area::{Slot, SlotState, Swap, SwapArea, SwapSpec};
pub use readahead::VmaSwapState;
