//! The services that the slow path uses when memory is short.
//!
//! Allocation needs reclaim, and reclaim allocates: this trait cuts the cycle. The kernel implements
//! it; tests of the allocator alone use a fake.
//!
//! The allocator decides when memory is short, for which request, and when to give up; it does not
//! know the uses of memory. Relief knows which pages can be freed, and nothing about rounds and
//! rights. It gets the request, and returns a short result that the slow path acts on
//! (rules/slow-path):
//!
//! | function | result | action of the slow path |
//! |---|---|---|
//! | [`Relief::wake_kswapd`] | nothing | continues while kswapd works |
//! | [`Relief::reclaim`] | pages reclaimed | 0: no progress. Otherwise a pass: other tasks may have taken the pages |
//! | [`Relief::compact`] | its outcome, or a block | not tried: no effect. Otherwise a pass, or the block |
//! | [`Relief::node_reclaim`] | [`NodeReclaim`] | tests the zone again, or skips it |
//! | [`Relief::out_of_memory`] | whether a task was killed | another round, or fails |
//!
//! Reclaim and compaction run with the task marked as freeing memory (MEMALLOC), so *their*
//! allocations use the reserves and never call relief. This prevents recursion, and is the purpose
//! of the pages below MIN.

use super::{AllocFlags, Gfp, PageAllocator, Request};
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
/// Caller guarantees: the allocator holds none of its locks, but for the OOM lock in
/// [`Relief::out_of_memory`]; reclaim, compaction and the killer are asked only for requests that may
/// wait. Implementation must: not call the allocator's blocking paths except with `PF_MEMALLOC` set.
pub trait Relief<H: Host> {
    /// Wakes a node's kswapd for an order (cheap; may do nothing).
    ///
    /// Asked also by requests that cannot wait, and far more often than it is needed: whether kswapd is
    /// awake already or has nothing to do is for it to find out.
    fn wake_kswapd(
        &self,
        alloc: &PageAllocator<H>,
        cx: &Cx<'_, H>,
        node: NodeId,
        gfp: Gfp,
        order: Order,
        highest: ZoneType,
    );

    /// True if a node's kswapd is awake, and so the node is short of memory. A napping one is not.
    fn kswapd_is_awake(&self, node: NodeId) -> bool {
        let _ = node;
        false
    }

    /// Direct reclaim for a request; the number of pages reclaimed. Counts its stalls (allocstall).
    fn reclaim(&self, alloc: &PageAllocator<H>, cx: &Cx<'_, H>, req: &Request<'_>) -> u64;

    /// Direct compaction for a request with these rights; a page it captured on the way.
    ///
    /// A page that it captured is not prepared for use, and no count has it.
    fn compact(
        &self,
        alloc: &PageAllocator<H>,
        cx: &Cx<'_, H>,
        req: &Request<'_>,
        flags: AllocFlags,
        priority: CompactPriority,
    ) -> (CompactResult, Option<Pfn>);

    /// The allocation that compaction was run for succeeded in this zone: forget its deferral.
    fn compaction_succeeded(
        &self,
        alloc: &PageAllocator<H>,
        cx: &Cx<'_, H>,
        zone: ZoneId,
        order: Order,
    );

    /// The zone has no free pageblock any more: its last one was split.
    fn prompt_kcompactd(&self, alloc: &PageAllocator<H>, cx: &Cx<'_, H>, node: NodeId) {
        let _ = (alloc, cx, node);
    }

    /// Reclaims from one node before leaving it (zone_reclaim_mode).
    fn node_reclaim(
        &self,
        alloc: &PageAllocator<H>,
        cx: &Cx<'_, H>,
        node: NodeId,
        req: &Request<'_>,
    ) -> NodeReclaim;

    /// The node was reclaimed for a request, and its zone was tested again: whether it can serve it now.
    fn node_reclaim_ended(
        &self,
        alloc: &PageAllocator<H>,
        cx: &Cx<'_, H>,
        node: NodeId,
        req: &Request<'_>,
        has_block: bool,
    ) {
        let _ = (alloc, cx, node, req, has_block);
    }

    /// True if anonymous pages can be swapped out.
    ///
    /// Without swap, anonymous pages are not reclaimable, however many there are: to count them would
    /// have the slow path go round for nothing.
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

    /// Kills a task; true if one was killed or is dying. A victim that has not exited yet counts: to
    /// kill another for the same shortage would be one too many.
    fn out_of_memory(&self, alloc: &PageAllocator<H>, cx: &Cx<'_, H>, req: &Request<'_>) -> bool;
}

/// Relief without effect: it reclaims nothing and kills no task.
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
        _: AllocFlags,
        _: CompactPriority,
    ) -> (CompactResult, Option<Pfn>) {
        (CompactResult::Skipped, None)
    }

    fn compaction_succeeded(&self, _: &PageAllocator<H>, _: &Cx<'_, H>, _: ZoneId, _: Order) {}

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
