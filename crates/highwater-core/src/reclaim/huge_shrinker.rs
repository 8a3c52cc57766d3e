//! The shrinkers of huge pages (rules/huge-pages#shrinkers).
//!
//! Huge pages hold unused memory in two places. The huge zero page stays after its last mapping is
//! gone, because the next program may need it. Freeing it costs only the time to make it again.
//!
//! Partly unmapped huge pages keep unused frames: they wait on their node's queue until memory is
//! short and they are split.
//!
//! Synchronisation: none here; the scanned structures have their own locks.
//!
//! From: [`super::shrinker`] · to: `vm::huge`, `lru::deferred`.

use super::{ObjectsOf, Shrinker, Shrunk};
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;

/// Frees the huge page of zeros while nothing maps it. It counts as many objects as it has pages, and none
/// of them as reclaimed: no list had them.
#[doc(alias = "shrink_huge_zero_page_count")]
#[doc(alias = "shrink_huge_zero_page_scan")]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HugeZeroShrinker;

impl<H: Devices> Shrinker<H> for HugeZeroShrinker {
    fn count(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, _: ObjectsOf) -> u64 {
        kernel.idle_huge_zero(cx)
    }

    /// All of it or nothing.
    fn scan(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, _: ObjectsOf, nr: u64) -> Option<Shrunk> {
        let freed = kernel.free_huge_zero(cx);
        Some(Shrunk { scanned: nr, freed, pages: 0 })
    }
}

/// Splits huge pages of which part was unmapped. It counts huge pages, each an object.
#[doc(alias = "deferred_split_count")]
#[doc(alias = "deferred_split_scan")]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeferredSplitShrinker;

impl<H: Devices> Shrinker<H> for DeferredSplitShrinker {
    fn count(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, of: ObjectsOf) -> u64 {
        kernel.nr_deferred(cx, of.node)
    }

    /// The pages that a split frees were on the lists' account: they do not count as reclaimed. Cannot now
    /// if nothing was split and nothing is left.
    fn scan(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, of: ObjectsOf, nr: u64) -> Option<Shrunk> {
        let freed = kernel.split_deferred(cx, of.node, nr);
        let is_done = freed == 0 && kernel.nr_deferred(cx, of.node) == 0;
        (!is_done).then_some(Shrunk { scanned: nr, freed, pages: 0 })
    }

    fn is_node_aware(&self) -> bool {
        true
    }
}
