//! The shrinker of shadows: frees tree nodes that hold only shadows of evicted pages
//! (rules/workingset#shadow-nodes).
//!
//! A shadow takes no separate memory: it is in the slot of the evicted page in its file's tree. But
//! it keeps the slot's tree node alive, 576 bytes for 64 slots. A file many times larger than
//! memory, read once, would leave its whole tree behind, and reclaim would fill the machine with
//! shadows. This shrinker limits that.
//!
//! How many may stay? A shadow is useful only while its page, had it stayed, could still be on the
//! lists: after as many evictions as there are pages, no refault starts active
//! (rules/workingset#competing). One node per eight pages of memory, with an eighth of its slots in
//! use, is one shadow per page. That is all the history that can matter. It costs at most 576 bytes
//! per eight pages, 1.8 % of memory. Fuller nodes hold more history than needed.
//!
//! Nodes with a page are not counted. They are freed with the page, or become shadow-only then.
//!
//! Synchronisation: none here; the list of such nodes has a lock, and each is dropped under its
//! file's lock.
//!
//! From: [`super::shrinker`] · to: `page_cache::node_memory`.

use super::{ObjectsOf, Shrinker, Shrunk};
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;

/// Frees tree nodes that hold only shadows (`workingset_nodes`), down to one for every eight pages of
/// the node. They cost nothing to recreate, but history is lost: a
/// refault without its shadow starts inactive, even if the page was in the working set.
#[doc(alias = "count_shadow_nodes")]
#[doc(alias = "scan_shadow_nodes")]
#[derive(Clone, Copy, Debug, Default)]
pub struct ShadowShrinker;

/// Pages of a node for each shadow-only tree node that may stay.
const PAGES_PER_SHADOW_NODE: u64 = 8;

impl<H: Devices> Shrinker<H> for ShadowShrinker {
    /// Only the surplus: nodes within the bound stay under any pressure. A memory cgroup's bound is
    /// by its own pages: those of its lists, and its slab pages.
    fn count(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, of: ObjectsOf) -> u64 {
        let pages = match of.group.is_root() {
            true => kernel.mem.zones_of(of.node).map(|zone| zone.present).sum(),
            false => kernel.pages_of_group(of.group, of.node),
        };
        let nodes = kernel.shadow_nodes_of(cx, of.group, of.node);
        nodes.saturating_sub(pages / PAGES_PER_SHADOW_NODE)
    }

    /// Oldest first: their shadows are the farthest behind the clock. All `nr` count as looked at, also where
    /// the list ran dry, or the rest would be put off for a pass that finds them gone as well.
    fn scan(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, of: ObjectsOf, nr: u64) -> Option<Shrunk> {
        let (freed, pages) = kernel.drop_shadow_nodes_of(cx, of.group, of.node, nr);
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

    fn is_group_aware(&self) -> bool {
        true
    }
}
