//! Compaction (spec 03): making blocks of an order out of what is free in pieces.
//!
//! Nothing is moved yet. What others ask of it is here: whether it could work in a zone
//! ([`suitability`]), how much it needs free to do so ([`compact_gap`]), and the two doors through which
//! it will be asked to ([`Kernel::wake_kcompactd`], [`Kernel::compact_for`]).
//!
//! From: `page_alloc::slow` (through `Relief`), `reclaim` · to: `zone::watermark`.

mod daemon;
mod suitable;

pub use suitable::{Suitability, compact_gap, fragmentation_index, suitability};
