//! Blocks at the end of boot: one run of a free list, of which the first block stands for all.
//!
//! ```text
//! list     A <-> B <-> first <-> C <-> D          first, C: linked like any other block
//! blocks   A     B     first 1 2 3 ... n  C   D   1..n: behind the first, in order of their frames
//! ```
//!
//! Links live in descriptors, and to link a block is to touch its descriptor and so a page of the host's
//! memory: of a terabyte that would be a gigabyte before anybody asked for anything. So blocks 1..n are not
//! linked; each is where it would be because it is *fresh* ([`crate::page::PageMap`]). When the first one
//! leaves, the next takes its place; when one from the middle leaves, the others close up. Nothing else that
//! is done to the list has to know: heads and tails are pushed on either side of the run.
//!
//! Boot makes one run of each zone. Nobody rotates lists of the largest order, nor looks at them from
//! behind.
//!
//! Synchronisation: the zone lock's.

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
