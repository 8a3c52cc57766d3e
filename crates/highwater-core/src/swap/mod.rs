//! Swap (rules/swap#slot): swap areas and slots, the swap cache, readahead, I/O.
//!
//! Key types: [`Slot`], [`SwapArea`], [`Swap`], [`SlotState`].
//!
//! Synchronisation: a swap area's slots, and the swap cache (slot to page), are behind a `Table`
//! lock, held for single steps. Around it a swap area has the lock that contends (class `Swap`). It
//! is held while slots are searched or freed, and on a disk around every change of a slot. On flash
//! the kernel has a lock for each cluster, and looks pages up without one. The cache holds one
//! reference to each of its pages. A page in the cache has SWAPCACHE and is found by
//! `Kernel::slot_of`; its lock is held whenever it enters or leaves the cache. A slot's count is
//! the number of page table entries that name it.
//!
//! # State of the page
//!
//! Pages of the swap cache have SWAPBACKED and SWAPCACHE, so they are on the anonymous lists. A
//! page read ahead has no mapping ([`crate::page::PageMapping::None`]), because its entry is known
//! only when a fault maps it; the fault sets the mapping. A page that was swapped out keeps its
//! mapping while it stays in the cache. So reclaim checks SWAPCACHE before the mapping.
//!
//! | slot is used by | byte | cached |
//! |---|---|---|
//! | nothing | 0 | - |
//! | a CPU's cache of slots | has-cache | - |
//! | a page on its way out, not unmapped yet | has-cache | page |
//! | entries only | count | perhaps a shadow |
//! | entries and the cache | has-cache, count | page |
//!
//! Not modelled: compressed swap (zswap), off in the reference kernels; swap files; swapoff.
//!
//! From: `reclaim::folios` (out), `vm::fault` (in), `vm::unmap` (freed) · to: `block`.

mod area;
mod cache;
mod charge;
mod io;
mod readahead;
mod shared;
mod slot_cache;
mod slots;
#[cfg(test)]
mod tests;
mod zeros;

pub use area::{Slot, Swap, SwapArea, SwapSpec};
pub(crate) use io::Contents;
pub use readahead::VmaSwapState;
pub(crate) use readahead::{HITS_MAX, window_size};
pub use slot_cache::SlotCache;
pub use slots::{SlotState, Slots};
