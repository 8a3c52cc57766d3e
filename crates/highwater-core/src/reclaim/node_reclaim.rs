//! Node reclaim (`vm.zone_reclaim_mode`, rules/node-pass#node-reclaim): reclaims from a node before
//! its allocations go to another one.
//!
//! A node is full, and the next one has memory. A page of the next node costs nothing now and a
//! little at every access. Reclaiming a local page costs now, and may evict useful cache. Only the
//! administrator knows which is better, so it is off by default. A file server needs its whole
//! memory as cache; a computation that is bound to nodes needs local pages.
//!
//! So it may take only *clean, unmapped cache*, and only if there is enough of it: a local page is
//! not worth a write, nor page faults of other programs. The mode's other bits allow more
//! (rules/allocation#node-reclaim):
//!
//! | bit | allows | and the estimate counts |
//! |---|---|---|
//! | 1 | node reclaim | file pages on the lists, less mapped ones, less dirty ones |
//! | 2 | writing | dirty ones too |
//! | 4 | unmapping | all file pages |
//!
//! It is short: one task per node at a time, and only for its local node. It begins at priority 4,
//! where a pass scans 1/16 of each list, so it ends after at most five passes. The caller has
//! another node, and a long try would cost more than going there.
//!
//! After failures it may be deferred ([`super::node_deferral`]).
//!
//! Synchronisation: `is_node_reclaiming` is a trylock (acquire, release).
//!
//! From: `page_alloc::fast` through `Relief` · to: [`super::node_pass`].

use super::Control;
use crate::host::{Cx, Devices, Probe, TaskFlags};
use crate::kernel::Kernel;
use crate::page_alloc::{Gfp, NodeReclaim, Request};
use crate::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use crate::trace::Event;
use crate::units::SWAP_CLUSTER_MAX;
use crate::vmstat::NodeStat;
use crate::zone::NodeId;

/// Node reclaim begins at this priority: a 16th of each list.
const NODE_RECLAIM_PRIORITY: u8 = 4;
/// `vm.zone_reclaim_mode`: may write.
const MODE_WRITE: u8 = 1 << 1;
/// `vm.zone_reclaim_mode`: may unmap.
const MODE_UNMAP: u8 = 1 << 2;

impl<H: Devices> Kernel<H> {
    /// Reclaims from one node before the allocator leaves it (rules/allocation#node-reclaim). Anything but
    /// [`NodeReclaim::Some`] and [`NodeReclaim::Success`] sends the request on without another look.
    #[doc(alias = "node_reclaim")]
    #[doc(alias = "zone_reclaim")]
    #[doc(alias = "__node_reclaim")]
    pub(crate) fn node_reclaim_for(
        &self,
        cx: &Cx<'_, H>,
        node: NodeId,
        req: &Request<'_>,
    ) -> NodeReclaim {
        let tunables = &self.mem.tunables;
        // Where it is cheapest: before anything is counted. A zone that has a page never comes here.
        let deferral = &self.reclaim.node(node).node_deferral;
        if self.defers_node_reclaim() && deferral.refuses(req.order, cx.host.jiffies()) {
            return NodeReclaim::NoScan;
        }
        // Both limits are shares of the node, so that single-page requests do not use up the last
        // cache of a node. Below 1 % of unmapped cache, or 5 % of slab, it stops (the defaults).
        let is_worth_it = || {
            let share = |percent: u64| -> u64 {
                self.mem.zones_of(node).map(|zone| zone.managed() * percent / 100).sum()
            };
            let slab = self.mem.node(node).stats.read(NodeStat::SlabReclaimable as usize);
            self.node_reclaimable(node) > share(tunables.min_unmapped_ratio.get())
                || slab > share(tunables.min_slab_ratio.get())
        };
        if !is_worth_it() {
            return NodeReclaim::Full;
        }
        // Reclaim may sleep; and reclaim's own allocations must not enter it again.
        let may_block = req.gfp.contains(Gfp::DIRECT_RECLAIM);
        if !may_block || cx.flags().contains(TaskFlags::MEMALLOC) {
            return NodeReclaim::NoScan;
        }
        // Nodes with CPUs reclaim for themselves. A memory-only node has no tasks of its own, so
        // any task may.
        let has_cpus = !self.mem.node(node).cpus.is_empty();
        if has_cpus && self.mem.cpu_node(cx.cpu()) != node {
            return NodeReclaim::NoScan;
        }
        let state = self.reclaim.node(node);
        if state.is_node_reclaiming.compare_exchange(false, true, AcqRel, Relaxed).is_err() {
            return NodeReclaim::NoScan;
        }
        // Success is the request's size. The target is at least a batch, because the next request
        // comes soon.
        let wanted = req.order.pages();
        let mode = tunables.zone_reclaim_mode.get();
        let mut sc = Control::new(wanted.max(SWAP_CLUSTER_MAX), req.order.0, req.gfp, req.highest);
        sc.may_writepage = mode & MODE_WRITE != 0;
        sc.may_unmap = mode & MODE_UNMAP != 0;
        let (order, gfp) = (sc.order, sc.gfp);
        cx.event(Event::NodeReclaimBegin { nid: node, order, gfp });
        // Check again: the task that held the flag before may have taken everything.
        if is_worth_it() {
            cx.with_flag(TaskFlags::MEMALLOC, || {
                for priority in (0..=NODE_RECLAIM_PRIORITY).rev() {
                    sc.priority = priority;
                    self.shrink_node(cx, node, &mut sc);
                    if sc.nr_reclaimed >= wanted {
                        break;
                    }
                }
            });
        }
        let nr_reclaimed = sc.nr_reclaimed;
        cx.event(Event::NodeReclaimEnd { nr_reclaimed });
        state.is_node_reclaiming.store(false, Release);
        if nr_reclaimed >= wanted { NodeReclaim::Success } else { NodeReclaim::Some }
    }

    /// A node was reclaimed for a request; whether its zone can serve it now.
    pub(crate) fn node_reclaim_ended(
        &self,
        cx: &Cx<'_, H>,
        node: NodeId,
        req: &Request<'_>,
        has_block: bool,
    ) {
        if self.defers_node_reclaim() {
            let deferral = &self.reclaim.node(node).node_deferral;
            deferral.ended(req.order, cx.host.jiffies(), has_block);
        }
    }

    fn defers_node_reclaim(&self) -> bool {
        self.mem.policy.zonelist.reclaim_deferral
    }

    /// Counts the file pages of a node that node reclaim may take as its mode allows.
    #[doc(alias = "node_pagecache_reclaimable")]
    #[doc(alias = "zone_pagecache_reclaimable")]
    fn node_reclaimable(&self, node: NodeId) -> u64 {
        let stats = &self.mem.node(node).stats;
        let read = |item: NodeStat| stats.read(item as usize);
        let file = FilePages {
            all: read(NodeStat::FilePages),
            listed: read(NodeStat::InactiveFile) + read(NodeStat::ActiveFile),
            mapped: read(NodeStat::Mapped),
            dirty: read(NodeStat::Dirty),
        };
        file.reclaimable(self.mem.tunables.zone_reclaim_mode.get())
    }
}

/// The file pages of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FilePages {
    all: u64,
    listed: u64,
    mapped: u64,
    dirty: u64,
}

impl FilePages {
    /// The pages that a mode may take. It is an estimate: mapped pages are subtracted although some
    /// are not on the file lists, and the counters lag, so it stops at 0.
    fn reclaimable(self, mode: u8) -> u64 {
        let file = match mode & MODE_UNMAP != 0 {
            true => self.all,
            false => self.listed.saturating_sub(self.mapped),
        };
        let dirty = if mode & MODE_WRITE != 0 { 0 } else { self.dirty };
        file.saturating_sub(dirty)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{NODE, Stage};
    use super::*;
    use crate::block::manual::Manual;
    use crate::host::Host;
    use crate::page::{MigrateType, Order, PageFlags};
    use crate::vmstat::VmEvent;
    use crate::zone::ZoneType;

    /// The table of rules/node-pass#node-reclaim.
    #[test]
    fn a_mode_says_what_may_go() {
        let file = FilePages { all: 1000, listed: 900, mapped: 300, dirty: 200 };
        assert_eq!([1, 3, 5, 7].map(|mode| file.reclaimable(mode)), [400, 600, 800, 1000]);
        let mapped = FilePages { mapped: 2000, ..file };
        assert_eq!([1, 3, 5].map(|mode| mapped.reclaimable(mode)), [0, 0, 800]);
    }

    fn request(kernel: &Kernel<Manual>, gfp: Gfp) -> Request<'_> {
        Request {
            gfp,
            order: Order::ZERO,
            highest: ZoneType::Movable,
            migratetype: MigrateType::Movable,
            nodes: None,
            zonelist: &kernel.mem.zonelists(NODE).fallback,
            list_node: NODE,
            preferred: Some(0),
            spread_dirty: false,
        }
    }

    #[test]
    fn clean_unmapped_cache_goes_and_counts_as_direct() {
        let s = Stage::new();
        let cx = s.cx();
        let (file, _open) = s.cached_file(600);
        let pages = s.pages(&file, 600);
        let user = Gfp::GFP_HIGHUSER_MOVABLE;
        let req = request(&s.kernel, user);
        // 1 % of 64 MiB is 163 pages: there is more.
        assert_eq!(s.kernel.node_reclaim_for(&cx, NODE, &req), NodeReclaim::Success);
        let stolen = s.event(VmEvent::PgstealDirect);
        assert!((32..600).contains(&stolen), "{stolen}");
        assert_eq!(s.event(VmEvent::PgscanDirect), stolen);
        assert_eq!((s.event(VmEvent::PgstealKswapd), s.event(VmEvent::AllocstallMovable)), (0, 0));
        assert!(!s.all_are(&pages, PageFlags::ACTIVE));
        // Refused: a task that reclaims already, a request that cannot wait, a second task.
        let refused = |req: &Request<'_>| s.kernel.node_reclaim_for(&cx, NODE, req);
        let reclaiming = cx.with_flag(TaskFlags::MEMALLOC, || refused(&req));
        assert_eq!(reclaiming, NodeReclaim::NoScan);
        assert_eq!(refused(&request(&s.kernel, Gfp::GFP_NOWAIT)), NodeReclaim::NoScan);
        let lock = &s.kernel.reclaim.node(NODE).is_node_reclaiming;
        lock.store(true, Release);
        assert_eq!(refused(&req), NodeReclaim::NoScan);
        lock.store(false, Release);
        assert_eq!(s.event(VmEvent::PgstealDirect), stolen, "none of them did anything");
    }

    /// rules/node-pass#node-deferral.
    #[test]
    fn a_node_that_was_reclaimed_in_vain_is_left_alone_for_a_while() {
        for is_on in [false, true] {
            let s = Stage::with(4096, |policy| policy.zonelist.reclaim_deferral = is_on);
            let cx = s.cx();
            let (_file, _open) = s.cached_file(600);
            let req = request(&s.kernel, Gfp::GFP_HIGHUSER_MOVABLE);
            s.kernel.node_reclaim_ended(&cx, NODE, &req, false);
            let result = s.kernel.node_reclaim_for(&cx, NODE, &req);
            assert_eq!(result == NodeReclaim::NoScan, is_on);
            assert_eq!(s.event(VmEvent::PgscanDirect) == 0, is_on);
            s.host.sleep_jiffies(1);
            assert_eq!(s.kernel.node_reclaim_for(&cx, NODE, &req), NodeReclaim::Success);
        }
    }

    #[test]
    fn little_cache_is_left_alone() {
        let s = Stage::new();
        let _file = s.cached_file(100);
        let req = request(&s.kernel, Gfp::GFP_HIGHUSER_MOVABLE);
        assert_eq!(s.kernel.node_reclaim_for(&s.cx(), NODE, &req), NodeReclaim::Full);
        assert_eq!(s.event(VmEvent::PgscanDirect), 0);
    }
}
