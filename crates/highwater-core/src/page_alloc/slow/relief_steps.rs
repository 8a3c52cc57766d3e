//! The steps that rounds of the slow path are made of: waking kswapd, reclaim, compaction.

use crate::host::{Cx, Host, Phase, TaskFlags};
use crate::page::{Order, Pfn};
use crate::page_alloc::highatomic::ForceUnreserve;
use crate::page_alloc::{
    AllocFlags, CompactPriority, CompactResult, PageAllocator, Relief, Request,
};
use crate::vmstat::{VmEvent, ZoneStat};
use crate::zone::Zone;

impl<H: Host> PageAllocator<H> {
    /// One wake per change of node along the zonelist (rules/slow-path#wake-kswapd).
    pub(super) fn wake_all_kswapds<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        req: &Request<'_>,
    ) {
        let mut last = None;
        for (_, entry) in req.candidates() {
            if last != Some(entry.node) {
                relief.wake_kswapd(self, cx, entry.node, req.gfp, req.order, req.highest);
                last = Some(entry.node);
            }
        }
    }

    /// Reclaims, then tries again, the second time after giving back what lies idle
    /// (rules/slow-path#direct-reclaim). Tells how many pages were reclaimed.
    pub(super) fn direct_reclaim<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        req: &Request<'_>,
        flags: AllocFlags,
    ) -> (u64, Option<Pfn>) {
        let reclaimed = with_memalloc(cx, || relief.reclaim(self, cx, req));
        if reclaimed == 0 {
            return (0, None);
        }
        if let Some(cache) = self.zonelist_cache(req) {
            cache.clear();
        }
        let mut page = self.get_page(cx, relief, req, flags);
        if page.is_none() {
            self.unreserve_highatomic(cx, req, ForceUnreserve::No);
            self.drain_all(cx, None);
            page = self.get_page(cx, relief, req, flags);
        }
        (reclaimed, page)
    }

    /// Compaction at one priority, then a pass (rules/slow-path#direct-compaction).
    pub(super) fn direct_compact<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        req: &Request<'_>,
        flags: AllocFlags,
        priority: CompactPriority,
    ) -> (CompactResult, Option<Pfn>) {
        if req.order == Order::ZERO {
            return (CompactResult::Skipped, None);
        }
        let _phase = cx.phase(Phase::Compact);
        let (result, captured) = with_memalloc(cx, || relief.compact(self, cx, req, priority));
        if !self.was_tried(result) {
            return (result, None);
        }
        self.events.add(cx.cpu(), VmEvent::CompactStall, 1);
        let page = match captured {
            Some(pfn) => {
                self.prepare_page(cx, pfn, req.order, req.gfp, req.migratetype, flags);
                Some(pfn)
            }
            None => self.get_page(cx, relief, req, flags),
        };
        match page {
            Some(pfn) => {
                relief.compaction_succeeded(self, self.map.page(pfn).zone_id(), req.order);
                self.events.add(cx.cpu(), VmEvent::CompactSuccess, 1);
            }
            None => self.events.add(cx.cpu(), VmEvent::CompactFail, 1),
        }
        (result, page)
    }

    /// Pages reclaim could free from a zone, by its counters; if none, what is free
    /// (rules/slow-path#reclaim-retry).
    pub(crate) fn reclaimable(&self, zone: &Zone<H>, can_swap: bool) -> u64 {
        let stat = |item: ZoneStat| zone.stats.read(item as usize);
        let mut pages = stat(ZoneStat::ZoneInactiveFile) + stat(ZoneStat::ZoneActiveFile);
        if can_swap {
            pages += stat(ZoneStat::ZoneInactiveAnon) + stat(ZoneStat::ZoneActiveAnon);
        }
        if pages == 0 { zone.nr_free_pages_exact() } else { pages }
    }
}

/// Runs relief with PF_MEMALLOC set. Other flags may change meanwhile (a killer marks its victim).
fn with_memalloc<H: Host, T>(cx: &Cx<'_, H>, relief: impl FnOnce() -> T) -> T {
    let before = cx.set_flags(cx.flags() | TaskFlags::MEMALLOC);
    let result = relief();
    if !before.contains(TaskFlags::MEMALLOC) {
        cx.set_flags(cx.flags() - TaskFlags::MEMALLOC);
    }
    result
}
