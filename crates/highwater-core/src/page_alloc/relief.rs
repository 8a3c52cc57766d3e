//! What the slow path asks for when memory is short.
//!
//! Allocation needs reclaim, and reclaim allocates: this trait cuts the cycle. The kernel
//! implements it; tests of the allocator alone use a fake.

use super::{Gfp, PageAllocator, Request};
use crate::host::{Cx, Host};
use crate::page::{Order, Pfn};
use crate::units::{CompactPriority, CompactResult};
use crate::zone::{NodeId, Zone, ZoneId, ZoneType};

/// Result of `node_reclaim` (rules/allocation#node-reclaim).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeReclaim {
    /// Not allowed to scan here.
    NoScan,
    /// Nothing worth scanning.
    Full,
    /// Reclaimed fewer pages than asked for.
    Some,
    /// Reclaimed enough.
    Success,
}

/// Ways to get memory back.
///
/// Caller guarantees: no lock is held, but for the OOM lock in [`Relief::out_of_memory`]. Implementation must: not call the allocator's blocking
/// paths except with `PF_MEMALLOC` set.
pub trait Relief<H: Host> {
    /// Wakes a node's kswapd for an order (cheap; may do nothing).
    fn wake_kswapd(
        &self,
        alloc: &PageAllocator<H>,
        cx: &Cx<'_, H>,
        node: NodeId,
        gfp: Gfp,
        order: Order,
        highest: ZoneType,
    );

    /// Direct reclaim for a request; the number of pages reclaimed. Counts its stalls (allocstall).
    fn reclaim(&self, alloc: &PageAllocator<H>, cx: &Cx<'_, H>, req: &Request<'_>) -> u64;

    /// Direct compaction for a request; a page it captured on the way.
    fn compact(
        &self,
        alloc: &PageAllocator<H>,
        cx: &Cx<'_, H>,
        req: &Request<'_>,
        priority: CompactPriority,
    ) -> (CompactResult, Option<Pfn>);

    /// The allocation that compaction was run for succeeded in this zone: forget its deferral.
    fn compaction_succeeded(&self, alloc: &PageAllocator<H>, zone: ZoneId, order: Order);

    /// Reclaims from one node before leaving it (zone_reclaim_mode).
    fn node_reclaim(
        &self,
        alloc: &PageAllocator<H>,
        cx: &Cx<'_, H>,
        node: NodeId,
        req: &Request<'_>,
    ) -> NodeReclaim;

    /// True if anonymous pages can be swapped out.
    fn can_swap(&self) -> bool;

    /// Waits between two rounds of reclaim, `jiffies` at most, for devices to catch up, if the
    /// policy has allocations do that; where `zone` is given, if that zone is congested.
    fn wait_for_devices(
        &self,
        alloc: &PageAllocator<H>,
        cx: &Cx<'_, H>,
        jiffies: u64,
        zone: Option<&Zone<H>>,
    ) {
        let _ = (alloc, jiffies, zone);
        cx.host.yield_now();
    }

    /// Kills a task; true if one was killed or is dying.
    fn out_of_memory(&self, alloc: &PageAllocator<H>, cx: &Cx<'_, H>, req: &Request<'_>) -> bool;
}

/// Relief that never comes: nothing to reclaim, nobody to kill.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRelief;

impl<H: Host> Relief<H> for NoRelief {
    fn wake_kswapd(
        &self,
        _: &PageAllocator<H>,
        _: &Cx<'_, H>,
        _: NodeId,
        _: Gfp,
        _: Order,
        _: ZoneType,
    ) {
    }

    fn reclaim(&self, _: &PageAllocator<H>, _: &Cx<'_, H>, _: &Request<'_>) -> u64 {
        0
    }

    fn compact(
        &self,
        _: &PageAllocator<H>,
        _: &Cx<'_, H>,
        _: &Request<'_>,
        _: CompactPriority,
    ) -> (CompactResult, Option<Pfn>) {
        (CompactResult::Skipped, None)
    }

    fn compaction_succeeded(&self, _: &PageAllocator<H>, _: ZoneId, _: Order) {}

    fn node_reclaim(
        &self,
        _: &PageAllocator<H>,
        _: &Cx<'_, H>,
        _: NodeId,
        _: &Request<'_>,
    ) -> NodeReclaim {
        NodeReclaim::Full
    }

    fn can_swap(&self) -> bool {
        false
    }

    fn out_of_memory(&self, _: &PageAllocator<H>, _: &Cx<'_, H>, _: &Request<'_>) -> bool {
        false
    }
}
