//! Swap (rules/swap#slot): areas of slots, the swap cache, readahead, I/O.
//!
//! Key types: [`Slot`], [`SwapArea`], [`Swap`], [`SlotState`].
//!
//! Synchronisation: an area's slots, and the swap cache (slot to page), sit behind a `Table` lock,
//! held for single steps. Around it an area has the lock that contends (class `Swap`): it is held
//! while slots are looked for or given back, and on a disk around every change of a slot; on flash
//! the kernel has a lock for each cluster there, and looks pages up without one. A page in the cache
//! holds one reference, has SWAPCACHE and is found by `Kernel::slot_of`; its lock is held whenever it
//! enters or leaves the cache. A slot's count says how many page table entries name it.
//!
//! # What the page says
//!
//! Pages of the swap cache have SWAPBACKED and SWAPCACHE, so they are on the anonymous lists. A page
//! read ahead has no mapping ([`crate::page::PageMapping::None`]): which entry it belongs to is known
//! when a fault maps it, which gives it its mapping then. A page that was swapped out keeps its mapping
//! while it stays in the cache. So reclaim asks SWAPCACHE before it asks for a mapping.
//!
//! | slot is used by | byte | cached |
//! |---|---|---|
//! | nobody | 0 | - |
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
mod io;
mod readahead;
mod shared;
mod slot_cache;
mod slots;
#[cfg(test)]
mod tests;

pub use area::{Slot, Swap, SwapArea, SwapSpec};
pub use readahead::VmaSwapState;
pub(crate) use readahead::{HITS_MAX, window_size};
pub use slot_cache::SlotCache;
pub use slots::{SlotState, Slots};
