//! The shrinker of shadows: tree nodes that hold nothing but traces of evicted pages
//! (rules/workingset#shadow-nodes).
//!
//! A shadow takes no memory of its own: it lies in the slot that the page left in its file's tree. But it
//! keeps the tree node alive that the slot is part of, 576 bytes for 64 slots. A file of the size of many
//! memories, read once, leaves all its tree behind, and reclaim would fill the machine with traces of what
//! it freed: more evictions, more nodes. This shrinker is what bounds that.
//!
//! How many may stay? A shadow is of use only while its page, had it stayed, could still be on the lists:
//! beyond as many evictions as there are pages, no refault starts active (rules/workingset#competing). One
//! node for eight pages of memory, if an eighth of its slots is in use, is a shadow for every page: all the
//! history that can matter, for 576 bytes in eight pages, or 1.8 % of memory at the worst. Where the nodes
//! are fuller, there is history to spare.
//!
//! Nodes with a page in them are not counted. They go when the page does, or become shadow-only then.
//!
//! Synchronisation: none here; the list of such nodes has a lock, and each is dropped under its file's.
//!
//! From: [`super::shrinker`] · to: `page_cache::node_memory`.

use super::{Shrinker, Shrunk};
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::zone::NodeId;

/// Frees tree nodes that hold nothing but shadows (`workingset_nodes`): as many as there are beyond
/// one for every eight pages of the node. They cost nothing to recreate. What is lost is knowledge: a page
/// that comes back without its shadow starts inactive, whatever it was.
#[doc(alias = "count_shadow_nodes")]
#[doc(alias = "scan_shadow_nodes")]
#[derive(Clone, Copy, Debug, Default)]
pub struct ShadowShrinker;

/// Pages of a node for each shadow-only tree node that may stay.
const PAGES_PER_SHADOW_NODE: u64 = 8;

impl<H: Devices> Shrinker<H> for ShadowShrinker {
    /// Only the surplus: what is within the bound stays, whatever the pressure.
    fn count(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, node: NodeId) -> u64 {
        let present: u64 = kernel.mem.zones_of(node).map(|zone| zone.present).sum();
        kernel.shadow_nodes(cx, node).saturating_sub(present / PAGES_PER_SHADOW_NODE)
    }

    /// Oldest first: their shadows are the farthest behind the clock. All `nr` count as looked at, also where
    /// the list ran dry, or the rest would be put off for a pass that finds them gone as well.
    fn scan(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, node: NodeId, nr: u64) -> Option<Shrunk> {
        let (freed, pages) = kernel.drop_shadow_nodes(cx, node, nr);
        Some(Shrunk { scanned: nr, freed, pages })
    }

    /// To make one again costs no read: half of the surplus goes at each pass, however gentle.
    fn seeks(&self) -> u64 {
        0
    }

    /// A node's shortage is not helped by tree nodes that lie on another.
    fn is_node_aware(&self) -> bool {
        true
    }
}
