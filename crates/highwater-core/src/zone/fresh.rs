//! Blocks at the end of boot: one run of a free list, of which the first block stands for all.
//!
//! ```text
//! list     A <-> B <-> first <-> C <-> D          first, C: linked like any other block
//! blocks   A     B     first 1 2 3 ... n  C   D   1..n: behind the first, in order of their frames
//! ```
//!
//! Links are in descriptors, so linking a block touches its descriptor, and with it a page of the
//! host's memory. For a terabyte that would be a gigabyte before the first allocation. So blocks
//! 1..n are not linked; a block is in the run because it is *fresh* ([`crate::page::PageMap`]).
//! When the first one leaves, the next takes its place; when one from the middle leaves, the others
//! close up. Other list operations need not handle the run: heads and tails are pushed on either
//! side of it.
//!
//! Boot makes one run per zone. No code rotates lists of the largest order, or walks them from the
//! tail.
//!
//! Synchronisation: the zone lock.

use crate::page::{MigrateType, Pfn};

/// A run of blocks of the largest order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreshRun {
    /// Its first block, which is linked.
    pub(crate) first: Pfn,
    /// No fresh block lies from there on.
    pub(crate) end: Pfn,
    /// Blocks behind the first one.
    pub(crate) nr_left: u32,
    /// The list's type.
    pub(crate) migratetype: MigrateType,
}
