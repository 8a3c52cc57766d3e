//! The shrinker of shadows: tree nodes that hold nothing but traces of evicted pages
//! (rules/workingset#shadow-nodes).

use super::{Shrinker, Shrunk};
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::zone::NodeId;

/// Frees tree nodes that hold nothing but shadows (`workingset_nodes`): as many as there are beyond
/// one for every eight pages of the node. They cost nothing to recreate.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShadowShrinker;

/// Pages of a node for each shadow-only tree node that may stay.
const PAGES_PER_SHADOW_NODE: u64 = 8;

impl<H: Devices> Shrinker<H> for ShadowShrinker {
    fn count(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, node: NodeId) -> u64 {
        let present: u64 = kernel.mem.zones_of(node).map(|zone| zone.present).sum();
        kernel.shadow_nodes(cx, node).saturating_sub(present / PAGES_PER_SHADOW_NODE)
    }

    fn scan(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, node: NodeId, nr: u64) -> Option<Shrunk> {
        let (freed, pages) = kernel.drop_shadow_nodes(cx, node, nr);
        Some(Shrunk { scanned: nr, freed, pages })
    }

    fn seeks(&self) -> u64 {
        0
    }

    fn is_node_aware(&self) -> bool {
        true
    }
}
