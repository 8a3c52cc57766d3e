//! Compaction: makes free blocks of an order out of fragmented free memory, by moving pages.
//!
//! Two scanners go over a zone. The migrate scanner starts at the lower end and collects movable
//! pages. The free scanner starts at the upper end and collects free frames. The pages move to the
//! frames ([`crate::migrate`]), so pages in use gather above and free memory below. A run ends when
//! a block of its order is free, or when the scanners meet.
//!
//! ```text
//!   zone start                                                                    zone end
//!   |  sources ──▶ migrate_pfn                       free_pfn ◀── targets            |
//!   |  █·█·██··█·█|█··██·█·█··············█··█·██··|█·····█·██·█···█·█·██·█·████·█·██|
//! ```
//!
//! | compactor | when | mode |
//! |---|---|---|
//! | a request ([`direct`]) | the lists have no block for it | asynchronous, then SYNC_LIGHT |
//! | kcompactd ([`daemon`]) | kswapd has freed pages and a block was requested | SYNC_LIGHT |
//! | kcompactd, without a request | free memory is fragmented ([`proactive`]) | SYNC_LIGHT |
//! | an administrator ([`manual`]) | a write to `compact_memory` | SYNC |
//!
//! Most of the code avoids useless runs. A run first checks whether compaction could work at all
//! ([`suitability`]). After failures it is deferred, longer each time ([`deferral`]). Zones
//! remember where the scanners were, and pageblocks without movable pages or free frames are marked
//! to be skipped ([`positions`]).
//!
//! Key types: [`Run`](run::Run) (one run over one zone), [`CompactionState`] (the state kept
//! between runs).
//!
//! Synchronisation: positions, skip bits and counts of failures are single words that runs may
//! overwrite for each other. They are hints: an error costs scanning a few more pageblocks. Pages
//! are isolated under the lock of their lists, frames under the zone's.
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
#[cfg(test)]
mod since_612_tests;
mod sources;
mod state;
mod suitable;
mod targets;
#[cfg(test)]
mod tests;

pub use state::CompactionState;
pub(crate) use suitable::costly_extra;
pub use suitable::{
    Suitability, compact_gap, fragmentation_index, fragmentation_score, suitability, unusable_index,
};

use crate::host::{Cx, Devices};
use crate::page_alloc::Gfp;
use crate::units::NodeId;

/// Questions of compaction to reclaim, which is the module above it.
pub trait Pressure<H: Devices> {
    /// Reports whether so many pages of a node are isolated that reclaim would find too few;
    /// `gfp`: flags of the run.
    fn too_many_isolated_to_compact(&self, cx: &Cx<'_, H>, node: NodeId, gfp: Gfp) -> bool;

    /// Waits for others to put pages back.
    fn wait_for_isolated(&self, cx: &Cx<'_, H>, node: NodeId);

    /// Is a node's kswapd at work?
    fn kswapd_is_running(&self, node: NodeId) -> bool;
}
