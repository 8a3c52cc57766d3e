//! Compaction: making blocks of an order out of what is free in pieces.
//!
//! Nothing is moved yet. What others ask of it is here: whether it could work in a zone
//! ([`suitability`], rules/compaction#suitability), how much it needs free to do so
//! ([`compact_gap`], rules/compaction#gap), and the two doors through which it will be asked to
//! ([`wake_kcompactd`](crate::kernel::Kernel::wake_kcompactd), [`compact_for`](crate::kernel::Kernel::compact_for)).
//!
//! From: `page_alloc::slow` (through `Relief`), `reclaim` · to: `zone::watermark`.

mod daemon;
mod suitable;

pub use suitable::{Suitability, compact_gap, fragmentation_index, suitability};
