//! Direct reclaim (spec 02 §13): a request that finds no memory gets some for itself.
//!
//! ```text
//! gate (reserves too low: wait for kswapd) → attempt: priorities 12 to 0, each over the zonelist's
//! nodes → perhaps once more, deactivating whatever refaults say
//! ```
//!
//! From: `page_alloc::slow` · to: [`super::node`], [`super::throttle`].

use super::Control;
use super::budget::{CLUSTER, DEF_PRIORITY, compact_gap};
use super::suitable::Suitability;
use crate::host::{Cx, Devices, HZ, Phase, Probe, TaskFlags};
use crate::kernel::Kernel;
use crate::page::Order;
use crate::page_alloc::{AllocFlags, Gfp, NodeReclaim, Request};
use crate::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use crate::trace::Event;
use crate::vmstat::{NodeStat, VmEvent};
use crate::zone::zonelist::{ZoneRef, Zonelist};
use crate::zone::{Mark, NodeId, NodeMask, Zone, ZoneType};

/// Node reclaim begins at this priority.
const NODE_RECLAIM_PRIORITY: u8 = 4;
/// `vm.zone_reclaim_mode`: may write.
const MODE_WRITE: u8 = 1 << 1;
/// `vm.zone_reclaim_mode`: may unmap.
const MODE_UNMAP: u8 = 1 << 2;

/// True while the zones whose memory reserves are for reclaim itself have more than half of them
/// free; they have nothing to wait for if there are no reserves.
const fn reserves_suffice(reserves: u64, free: u64) -> bool {
    reserves == 0 || free > reserves / 2
}

impl<H: Devices> Kernel<H> {
    /// `try_to_free_pages`: reclaims for a request; the pages reclaimed (1 if compaction can go
    /// ahead instead).
    pub(crate) fn try_to_free_pages(&self, cx: &Cx<'_, H>, req: &Request<'_>) -> u64 {
        if self.waits_at_gate(cx, req) {
            return 1;
        }
        let mut sc = Control::new(CLUSTER, req.order.0, req.gfp, req.highest);
        sc.nodes = req.nodes;
        let (order, gfp) = (sc.order, sc.gfp);
        cx.event(Event::DirectReclaimBegin { order, gfp });
        let nr_reclaimed = self.reclaim_attempts(cx, req.zonelist, &mut sc);
        cx.event(Event::DirectReclaimEnd { nr_reclaimed });
        nr_reclaimed
    }

    fn reclaim_attempts(&self, cx: &Cx<'_, H>, zonelist: &Zonelist, sc: &mut Control) -> u64 {
        loop {
            let stall = VmEvent::of_zone(VmEvent::AllocstallDma, sc.reclaim_idx);
            self.mem.events.add(cx.cpu(), stall, 1);
            for priority in (0..=DEF_PRIORITY).rev() {
                sc.priority = priority;
                sc.nr_scanned = 0;
                self.shrink_zones(cx, zonelist, sc);
                if sc.nr_reclaimed >= sc.nr_to_reclaim || sc.compaction_ready {
                    break;
                }
            }
            let mut last = None;
            for entry in eligible(zonelist, sc.reclaim_idx, sc.nodes) {
                if last != Some(entry.node) {
                    self.snapshot_refaults(entry.node);
                    last = Some(entry.node);
                }
            }
            if sc.nr_reclaimed != 0 {
                return sc.nr_reclaimed;
            }
            if sc.compaction_ready {
                return 1;
            }
            // Active lists were spared on the word of the refaults; that was too kind.
            if !sc.skipped_deactivate {
                return 0;
            }
            sc.force_deactivate = true;
            sc.skipped_deactivate = false;
        }
    }

    /// One pass over each node of a zonelist.
    fn shrink_zones(&self, cx: &Cx<'_, H>, zonelist: &Zonelist, sc: &mut Control) {
        let (mut first, mut last) = (None, None);
        let gfp = Gfp::GFP_KERNEL | Gfp::HARDWALL;
        for entry in eligible(zonelist, sc.reclaim_idx, sc.nodes) {
            if self.mem.tunables.cpusets && !self.mem.cpuset_allows(cx, entry.node, gfp) {
                continue;
            }
            let order = Order(sc.order);
            if order.is_costly() && self.compaction_is_ready(self.mem.zone_at(entry), sc) {
                sc.compaction_ready = true;
                continue;
            }
            first = first.or(Some(entry.node));
            if last == Some(entry.node) {
                continue;
            }
            last = Some(entry.node);
            self.shrink_node(cx, entry.node, sc);
            self.consider_after_node(cx, entry.node, sc);
        }
        if let Some(node) = first {
            self.consider_after_nodes(cx, node, sc);
        }
    }

    /// True if a zone has what compaction needs, and above its high mark, so that others do not take
    /// it away meanwhile.
    fn compaction_is_ready(&self, zone: &Zone<H>, sc: &Control) -> bool {
        if !sc.gfp.contains(Gfp::IO) {
            return false;
        }
        match self.mem.compaction_suitable(zone, Order(sc.order), sc.reclaim_idx) {
            Suitability::Success => true,
            Suitability::Skipped => false,
            Suitability::Continue => {
                let rule = (self.mem.policy.watermark.test, self.mem.policy.watermark.reserves);
                let mark = zone.mark(Mark::High) + compact_gap(sc.order);
                let none = AllocFlags::empty();
                let (highest, free) = (sc.reclaim_idx, zone.nr_free_pages());
                zone.watermark_ok(rule, Order::ZERO, mark, highest, none, free)
            }
        }
    }

    /// Waits while the reserves that reclaim itself lives on are nearly gone. True if the task was
    /// told to die meanwhile: it should not go on, nor is that a failure.
    fn waits_at_gate(&self, cx: &Cx<'_, H>, req: &Request<'_>) -> bool {
        // Kernel threads may be what frees memory.
        if cx.flags().contains(TaskFlags::KTHREAD) || cx.is_dying() {
            return false;
        }
        let mut zones = eligible(req.zonelist, req.highest, req.nodes);
        let Some(node) = zones.find(|entry| entry.kind <= ZoneType::Normal).map(|e| e.node) else {
            return false;
        };
        if self.allows_direct_reclaim(cx, node) {
            return false;
        }
        self.mem.events.add(cx.cpu(), VmEvent::PgscanDirectThrottle, 1);
        let _phase = cx.phase(Phase::Throttle);
        let queue = &self.reclaim[node.idx()].pfmemalloc_wait;
        let why = "reserves to recover";
        let recovered = || self.allows_direct_reclaim(cx, node);
        self.plug_flush(cx);
        if req.gfp.contains(Gfp::FS) {
            let _ = queue.wait_killable(cx, why, recovered);
        } else {
            // What holds the filesystem's locks may be what kswapd waits for.
            queue.wait_jiffies_killable(cx, why, HZ, recovered);
        }
        cx.is_dying()
    }

    /// May direct reclaimers go on (`allow_direct_reclaim`)? If not, kswapd is woken to see to it.
    pub(super) fn allows_direct_reclaim(&self, cx: &Cx<'_, H>, node: NodeId) -> bool {
        let state = &self.reclaim[node.idx()];
        if state.is_hopeless() {
            return true;
        }
        let can_swap = self.swap.nr_free() > 0;
        let (mut reserves, mut free) = (0, 0);
        for zone in self.mem.zones_of(node) {
            let counts = zone.zone <= ZoneType::Normal && zone.managed() != 0;
            if counts && self.mem.reclaimable(zone, can_swap) != 0 {
                reserves += zone.mark(Mark::Min);
                free += zone.nr_free_pages();
            }
        }
        let suffices = reserves_suffice(reserves, free);
        if !suffices {
            state.wake_for_reserves(cx);
        }
        suffices
    }

    /// Reclaims from one node before the allocator leaves it (`zone_reclaim_mode`; spec 01 §3).
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
        let state = &self.reclaim[node.idx()];
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

/// The entries of a zonelist that a reclaim may use.
fn eligible(
    zonelist: &Zonelist,
    highest: ZoneType,
    nodes: Option<NodeMask>,
) -> impl Iterator<Item = ZoneRef> + use<'_> {
    let mut from = 0;
    core::iter::from_fn(move || {
        let at = zonelist.next(from, highest, nodes)?;
        from = at + 1;
        Some(zonelist.entries()[at])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gate_23_19() {
        let reserves = 66 + 11_212 + 5_500;
        assert_eq!(reserves, 16_778);
        assert!(!reserves_suffice(reserves, 8_389));
        assert!(reserves_suffice(reserves, 8_390));
        assert!(reserves_suffice(0, 0));
    }
}
