//! Node reclaim (`vm.zone_reclaim_mode`, rules/node-pass#node-reclaim): reclaiming from a node
//! before its allocations go elsewhere.
//!
//! One task a node at a time, from priority 4 on, and only what the mode allows: writing and unmapping are
//! bits of it.
//!
//! From: `page_alloc::fast` through `Relief` · to: [`super::node_pass`].

use super::Control;
use super::budget::CLUSTER;
use crate::host::{Cx, Devices, Probe, TaskFlags};
use crate::kernel::Kernel;
use crate::page_alloc::{Gfp, NodeReclaim, Request};
use crate::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use crate::trace::Event;
use crate::vmstat::NodeStat;
use crate::zone::NodeId;

/// Node reclaim begins at this priority.
const NODE_RECLAIM_PRIORITY: u8 = 4;
/// `vm.zone_reclaim_mode`: may write.
const MODE_WRITE: u8 = 1 << 1;
/// `vm.zone_reclaim_mode`: may unmap.
const MODE_UNMAP: u8 = 1 << 2;

impl<H: Devices> Kernel<H> {
    /// Reclaims from one node before the allocator leaves it (rules/allocation#node-reclaim).
    pub(crate) fn node_reclaim_for(
        &self,
        cx: &Cx<'_, H>,
        node: NodeId,
        req: &Request<'_>,
    ) -> NodeReclaim {
        let tunables = &self.mem.tunables;
        let is_worth_it = || {
            let share = |percent: u64| -> u64 {
                self.mem.zones_of(node).map(|zone| zone.managed() * percent / 100).sum()
            };
            let slab = self.mem.node(node).stats.read(NodeStat::SlabReclaimable as usize);
            self.node_reclaimable(node) > share(tunables.min_unmapped_ratio)
                || slab > share(tunables.min_slab_ratio)
        };
        if !is_worth_it() {
            return NodeReclaim::Full;
        }
        let may_block = req.gfp.contains(Gfp::DIRECT_RECLAIM);
        if !may_block || cx.flags().contains(TaskFlags::MEMALLOC) {
            return NodeReclaim::NoScan;
        }
        // Nodes with CPUs see to themselves.
        let has_cpus = !self.mem.node(node).cpus.is_empty();
        if has_cpus && self.mem.cpu_node(cx.cpu()) != node {
            return NodeReclaim::NoScan;
        }
        let state = self.reclaim.node(node);
        if state.is_node_reclaiming.compare_exchange(false, true, AcqRel, Relaxed).is_err() {
            return NodeReclaim::NoScan;
        }
        let wanted = req.order.pages();
        let mode = tunables.zone_reclaim_mode;
        let mut sc = Control::new(wanted.max(CLUSTER), req.order.0, req.gfp, req.highest);
        sc.may_writepage = mode & MODE_WRITE != 0;
        sc.may_unmap = mode & MODE_UNMAP != 0;
        let (order, gfp) = (sc.order, sc.gfp);
        cx.event(Event::NodeReclaimBegin { nid: node, order, gfp });
        let before = cx.set_flags(cx.flags() | TaskFlags::MEMALLOC);
        if is_worth_it() {
            for priority in (0..=NODE_RECLAIM_PRIORITY).rev() {
                sc.priority = priority;
                self.shrink_node(cx, node, &mut sc);
                if sc.nr_reclaimed >= wanted {
                    break;
                }
            }
        }
        if !before.contains(TaskFlags::MEMALLOC) {
            cx.set_flags(cx.flags() - TaskFlags::MEMALLOC);
        }
        let nr_reclaimed = sc.nr_reclaimed;
        cx.event(Event::NodeReclaimEnd { nr_reclaimed });
        state.is_node_reclaiming.store(false, Release);
        if nr_reclaimed >= wanted { NodeReclaim::Success } else { NodeReclaim::Some }
    }

    /// File pages of a node that node reclaim may take as its mode allows.
    fn node_reclaimable(&self, node: NodeId) -> u64 {
        let mode = self.mem.tunables.zone_reclaim_mode;
        let stats = &self.mem.node(node).stats;
        let read = |item: NodeStat| stats.read(item as usize);
        let file = if mode & MODE_UNMAP != 0 {
            read(NodeStat::FilePages)
        } else {
            let listed = read(NodeStat::InactiveFile) + read(NodeStat::ActiveFile);
            listed.saturating_sub(read(NodeStat::Mapped))
        };
        let dirty = if mode & MODE_WRITE != 0 { 0 } else { read(NodeStat::Dirty) };
        file.saturating_sub(dirty)
    }
}
