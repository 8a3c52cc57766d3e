//! The kernel as the page allocator's [`Relief`].

use super::Kernel;
use crate::host::{Cx, Devices, Phase, Stall};
use crate::page::{Order, Pfn};
use crate::page_alloc::{
    AllocFlags, CompactPriority, CompactResult, Gfp, NodeReclaim, PageAllocator, Relief, Request,
};
use crate::zone::{NodeId, Zone, ZoneId, ZoneType};

impl<H: Devices> Relief<H> for Kernel<H> {
    fn wake_kswapd(
        &self,
        _: &PageAllocator<H>,
        cx: &Cx<'_, H>,
        node: NodeId,
        gfp: Gfp,
        order: Order,
        highest: ZoneType,
    ) {
        self.wakeup_kswapd(cx, node, gfp, order.0, highest);
    }

    fn kswapd_is_awake(&self, node: NodeId) -> bool {
        !self.reclaim.node(node).kswapd_wait.has_waiters()
    }

    fn reclaim(&self, _: &PageAllocator<H>, cx: &Cx<'_, H>, req: &Request<'_>) -> u64 {
        let _phase = cx.phase(Phase::DirectReclaim);
        let _stall = cx.stall(Stall::Memory);
        self.try_to_free_pages(cx, req)
    }

    fn compact(
        &self,
        _: &PageAllocator<H>,
        cx: &Cx<'_, H>,
        req: &Request<'_>,
        flags: AllocFlags,
        priority: CompactPriority,
    ) -> (CompactResult, Option<Pfn>) {
        let _stall = cx.stall(Stall::Memory);
        self.compact_for(cx, req, flags, priority)
    }

    fn compaction_succeeded(
        &self,
        _: &PageAllocator<H>,
        cx: &Cx<'_, H>,
        zone: ZoneId,
        order: Order,
    ) {
        self.compaction_brought(cx, zone, order);
    }

    fn prompt_kcompactd(&self, _: &PageAllocator<H>, cx: &Cx<'_, H>, node: NodeId) {
        Kernel::prompt_kcompactd(self, cx, node);
    }

    fn node_reclaim(
        &self,
        _: &PageAllocator<H>,
        cx: &Cx<'_, H>,
        node: NodeId,
        req: &Request<'_>,
    ) -> NodeReclaim {
        let _phase = cx.phase(Phase::NodeReclaim);
        let _stall = cx.stall(Stall::Memory);
        self.node_reclaim_for(cx, node, req)
    }

    fn node_reclaim_ended(
        &self,
        _: &PageAllocator<H>,
        cx: &Cx<'_, H>,
        node: NodeId,
        req: &Request<'_>,
        has_block: bool,
    ) {
        Kernel::node_reclaim_ended(self, cx, node, req, has_block);
    }

    fn can_swap(&self) -> bool {
        self.swap.nr_free() > 0
    }

    fn wait_for_devices(
        &self,
        _: &PageAllocator<H>,
        cx: &Cx<'_, H>,
        jiffies: u64,
        zone: Option<&Zone<H>>,
    ) {
        self.retry_wait(cx, jiffies, zone);
    }

    fn out_of_memory(&self, _: &PageAllocator<H>, cx: &Cx<'_, H>, req: &Request<'_>) -> bool {
        let _phase = cx.phase(Phase::OomKill);
        self.oom_kill(cx, req)
    }
}
