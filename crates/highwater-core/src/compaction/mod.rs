//! Compaction: making blocks of an order out of what is free in pieces, by moving pages.
//!
//! Two scanners go over a zone. One begins at its lower end and collects pages in use that can be moved, the other
//! at its upper end and collects free frames; the pages go to the frames ([`crate::migrate`]), so that what is in
//! use gathers above and what is free below. A run ends when there is a block of the order that it runs for, or
//! when the scanners meet.
//!
//! ```text
//!   zone start                                                                    zone end
//!   |  sources ──▶ migrate_pfn                       free_pfn ◀── targets            |
//!   |  █·█·██··█·█|█··██·█·█··············█··█·██··|█·····█·██·█···█·█·██·█·████·█·██|
//! ```
//!
//! | who compacts | when | how hard |
//! |---|---|---|
//! | a request ([`direct`]) | the lists have no block for it | not at all waiting, then a little |
//! | kcompactd ([`daemon`]) | kswapd has freed pages and a block was asked for | a little |
//! | the same, unasked | free memory is in pieces ([`proactive`]) | a little |
//! | an administrator ([`manual`]) | he says so | waits for everything |
//!
//! Nearly all that there is to it is about not doing it in vain. Whether it could work at all is asked first
//! ([`suitability`]); after failures it is put off, longer each time ([`deferral`]); where the scanners were is
//! remembered, and of pageblocks without anything that they are to be skipped ([`positions`]).
//!
//! Key types: [`Run`](run::Run) (one run over one zone), [`CompactionState`] (what is kept between them).
//!
//! Synchronisation: the positions, skip bits and counts of failures are single words that runs may overwrite for
//! each other: they are hints, and what goes wrong costs a few blocks more. Pages are isolated under the lock of
//! their lists, frames under the zone's.
//!
//! From: `page_alloc::slow` (through `Relief`), `reclaim` · to: `migrate`, `zone::watermark`.

mod daemon;
mod deferral;
mod direct;
mod finish;
mod inline;
mod manual;
#[cfg(test)]
mod plain_tests;
mod positions;
mod proactive;
mod run;
mod search;
mod sources;
mod state;
mod suitable;
mod targets;
#[cfg(test)]
mod tests;

pub use state::CompactionState;
pub use suitable::{
    Suitability, compact_gap, fragmentation_index, fragmentation_score, suitability, unusable_index,
};

use crate::host::{Cx, Devices};
use crate::units::NodeId;

/// What compaction asks of reclaim, which stands above it.
pub trait Pressure<H: Devices> {
    /// Are so many pages of a node off their lists that reclaim would find too few?
    fn too_many_isolated_to_compact(&self, cx: &Cx<'_, H>, node: NodeId) -> bool;

    /// Waits for others to put pages back.
    fn wait_for_isolated(&self, cx: &Cx<'_, H>, node: NodeId);

    /// Is a node's kswapd at work?
    fn kswapd_is_running(&self, node: NodeId) -> bool;
}
