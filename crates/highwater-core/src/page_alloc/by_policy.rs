//! Allocation by memory policy (rules/memory-policies#allocation).
//!
//! The allocator proper takes a starting node and a set of nodes. Each policy provides them:
//!
//! | policy | begins at | may take from |
//! |---|---|---|
//! | default | the CPU's node | all |
//! | bind | the CPU's node | its nodes |
//! | preferred | its node | all |
//! | preferred-many | the CPU's node | its nodes, without reclaim; if they have nothing, all |
//! | interleave | the next of its nodes | all |
//!
//! Interleaving has two counters. For a task's own allocations (page cache, tables) each allocation
//! takes the next node. Memory of a VMA goes by the page's number. So it is spread evenly for any
//! order of faults, and a page from swap returns to its node.
//!
//! A VMA's policy has priority over the task's. Neither applies to an interrupt, which works for
//! another task.
//!
//! From: `vm`, `page_cache`, `swap`, `slab` · to: [`super::hot`], [`super::fast`].

use super::{Gfp, PageAllocator, Relief};
use crate::host::{Cx, Host};
use crate::page::{Folio, Order, Pfn};
use crate::units::MemoryPolicy;
use crate::vmstat::NumaStat;
use crate::zone::{NodeId, NodeMask, ZoneType};

/// The memory that is wanted, as its policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The task's own: by the task's policy, in turn.
    Task,
    /// A page of a VMA: by the VMA's policy if it has one, by its number among blocks of its size.
    Vma {
        /// The VMA's; [`MemoryPolicy::Default`]: the task's.
        policy: MemoryPolicy,
        /// Page number, in the file if there is one.
        page: u32,
    },
}

impl<H: Host> PageAllocator<H> {
    /// Allocates a block where the memory policy of the task or of the VMA says.
    #[doc(alias = "alloc_pages")]
    #[inline]
    pub fn alloc_wished<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        gfp: Gfp,
        order: Order,
        wish: Wish,
    ) -> Option<Pfn> {
        let policy = self.policy_of(cx, wish);
        if policy == MemoryPolicy::Default {
            let node = self.cpu_node(cx.cpu());
            return self.alloc(cx, relief, gfp, order, node, None);
        }
        self.alloc_by(cx, relief, gfp, order, (policy, wish))
    }

    /// Allocates a folio where the memory policy of the task or of the VMA says.
    #[doc(alias = "vma_alloc_folio")]
    #[doc(alias = "alloc_pages_vma")]
    #[inline]
    pub fn alloc_folio_wished<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        gfp: Gfp,
        order: Order,
        wish: Wish,
    ) -> Option<Folio> {
        let pfn = self.alloc_wished(cx, relief, gfp, order, wish)?;
        Some(self.map.make_folio(pfn, order))
    }

    /// Returns the memory policy that an allocation goes by: the VMA's, or the task's.
    #[doc(alias = "get_vma_policy")]
    #[doc(alias = "get_task_policy")]
    #[inline(always)]
    pub fn policy_of(&self, cx: &Cx<'_, H>, wish: Wish) -> MemoryPolicy {
        let own = match wish {
            Wish::Vma { policy, .. } if policy != MemoryPolicy::Default => policy,
            _ => cx.memory_policy(),
        };
        let is_bound = own != MemoryPolicy::Default && !cx.flags().in_interrupt();
        if is_bound { own } else { MemoryPolicy::Default }
    }

    #[cold]
    fn alloc_by<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        gfp: Gfp,
        order: Order,
        (policy, wish): (MemoryPolicy, Wish),
    ) -> Option<Pfn> {
        let here = self.cpu_node(cx.cpu());
        match policy {
            MemoryPolicy::Default => self.alloc(cx, relief, gfp, order, here, None),
            MemoryPolicy::Bind(nodes) => {
                let nodes = self.binding(cx, gfp, nodes);
                self.alloc(cx, relief, gfp, order, here, nodes)
            }
            MemoryPolicy::Preferred(node) => self.alloc(cx, relief, gfp, order, node, None),
            MemoryPolicy::PreferredMany(nodes) => {
                // The first try is for the preferred nodes only: it must not wait, and its failure
                // is not reported.
                let easy = (gfp | Gfp::NOWARN) - (Gfp::DIRECT_RECLAIM | Gfp::NOFAIL);
                self.alloc(cx, relief, easy, order, here, Some(nodes))
                    .or_else(|| self.alloc(cx, relief, gfp, order, here, None))
            }
            MemoryPolicy::Interleave(nodes) => {
                let turn = match wish {
                    Wish::Task => cx.next_interleaved(nodes),
                    Wish::Vma { page, .. } => nodes.nth(page >> order.0),
                };
                let wanted = turn.unwrap_or(here);
                let page = self.alloc(cx, relief, gfp, order, wanted, None)?;
                self.count_interleaved(cx, page, wanted);
                Some(page)
            }
        }
    }

    /// Returns the nodes to which a BIND policy restricts a request; none = it does not apply
    /// (rules/memory-policies#binding).
    #[doc(alias = "policy_nodemask")]
    pub fn binding(&self, cx: &Cx<'_, H>, gfp: Gfp, nodes: NodeMask) -> Option<NodeMask> {
        // What must lie low may have to lie on a node that the task did not name.
        let lowest =
            self.populated_zones().map(|zone| zone.zone).filter(|&z| z < ZoneType::Movable);
        let policy_zone = lowest.max()?;
        let reaches = gfp.highest_zone().is_some_and(|highest| highest >= policy_zone);
        // The cpuset may have changed, and with nothing left in common the request would have nowhere to go.
        let has_any =
            self.populated_zones().any(|zone| nodes.and(cx.mems_allowed()).contains(zone.node));
        (reaches && has_any).then_some(nodes)
    }

    /// The policy got the node that it chose.
    fn count_interleaved(&self, cx: &Cx<'_, H>, page: Pfn, wanted: NodeId) {
        if let Some(zone) = self.zone_of(page).filter(|zone| zone.node == wanted) {
            zone.cpus[cx.cpu().idx()].count(NumaStat::NumaInterleave);
        }
    }
}
