//! Shrinkers: caches that give memory back (spec 02 §17).

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::host::{Cx, Devices, Tasks};
use crate::kernel::Kernel;
use crate::zone::NodeId;

/// A cache that can shrink.
pub trait Shrinker<H: Devices>: Send + Sync {
    /// Objects that could be freed on a node.
    fn count(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, node: NodeId) -> u64;

    /// Looks at `nr` objects and frees what it can; none = cannot now (STOP).
    fn scan(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, node: NodeId, nr: u64) -> Option<Shrunk>;

    /// Objects per call.
    fn batch(&self) -> u64 {
        128
    }

    /// Cost of recreating an object; 0 = free.
    fn seeks(&self) -> u64 {
        2
    }

    /// Keeps its objects by node.
    fn is_node_aware(&self) -> bool {
        false
    }
}

/// What one call of [`Shrinker::scan`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shrunk {
    /// Objects looked at; fewer than asked for if there were no more.
    pub scanned: u64,
    /// Objects freed.
    pub freed: u64,
    /// Pages that went back to the allocator with them. Reclaim counts those as its own.
    pub pages: u64,
}

/// All shrinkers, in order of registration.
pub struct Shrinkers<H: Devices> {
    pub(crate) list: Vec<Box<dyn Shrinker<H>>>,
    /// Work put off, `[shrinker][node]`.
    pub(crate) deferred: Vec<Vec<crate::sync::atomic::AtomicU64>>,
}

impl<H: Devices> Default for Shrinkers<H>
where
    H: Tasks,
{
    fn default() -> Self {
        Shrinkers { list: Vec::new(), deferred: Vec::new() }
    }
}

impl<H: Devices> Kernel<H> {
    /// Asks every shrinker for its share at a priority; the objects freed.
    pub(crate) fn shrink_slab(
        &self,
        cx: &Cx<'_, H>,
        gfp: crate::page_alloc::Gfp,
        node: NodeId,
        priority: u8,
    ) -> u64 {
        let _ = (cx, gfp, node, priority);
        todo!()
    }
}
