//! Shadows of evicted pages and what their return says (spec 02 §6).

use super::PageType;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::Pfn;
use crate::reclaim::{Shrinker, Shrunk};
use crate::zone::NodeId;

/// What stays of an evicted page: the eviction clock, its node, whether it was workingset.
///
/// ```text
/// 63..11 zero-extended clock (36 bits used) | 10..1 node | 0 workingset
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shadow(pub u64);

impl<H: Devices> Kernel<H> {
    /// A page is evicted: the shadow to leave in its place. Ages the node's clock.
    pub fn workingset_eviction(&self, cx: &Cx<'_, H>, pfn: Pfn) -> Shadow {
        let _ = (cx, pfn);
        todo!()
    }

    /// A page came back for which a shadow was found: counts the refault and decides whether it
    /// starts active (sets ACTIVE, WORKINGSET). Before the page is added to a list.
    pub fn workingset_refault(&self, cx: &Cx<'_, H>, pfn: Pfn, shadow: Shadow) {
        let _ = (cx, pfn, shadow);
        todo!()
    }

    /// Records the activation counts that the next reclaim of a node compares with.
    pub fn snapshot_refaults(&self, node: NodeId) {
        let _ = node;
        todo!()
    }

    /// Pages of a type were activated by refaults on a node since its last snapshot (§8.1).
    pub fn refaults_changed(&self, node: NodeId, page_type: PageType) -> bool {
        let _ = (node, page_type);
        todo!()
    }

    /// Charges `pages` to a type's cost of a page's lists and lets the costs decay (§8.5).
    pub fn lru_note_cost(&self, cx: &Cx<'_, H>, vec: usize, page_type: PageType, pages: u64) {
        let _ = (cx, vec, page_type, pages);
        todo!()
    }

    /// Ages the clock of a page's lists by `pages`.
    pub fn age_nonresident(&self, pfn: Pfn, pages: u64) {
        let _ = (pfn, pages);
        todo!()
    }
}

/// Frees tree nodes that hold nothing but shadows (`workingset_nodes`).
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkingsetShrinker;

impl<H: Devices> Shrinker<H> for WorkingsetShrinker {
    fn count(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, node: NodeId) -> u64 {
        let _ = (kernel, cx, node);
        todo!()
    }

    fn scan(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, node: NodeId, nr: u64) -> Option<Shrunk> {
        let _ = (kernel, cx, node, nr);
        todo!()
    }

    fn seeks(&self) -> u64 {
        0
    }

    fn is_node_aware(&self) -> bool {
        true
    }
}
