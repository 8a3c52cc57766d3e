//! The steps of a slow-path round: waking kswapd, reclaim, compaction.
//!
//! Each step calls [`Relief`] and then tries the lists again, because freed pages do not belong to
//! the task that reclaimed them. They go to the lists, where other tasks may take them first. So a
//! step can succeed without a page. That is why there are rounds, and why steps report *progress*
//! besides a page. Only compaction can keep its block, by capture.
//!
//! | step | worker | result |
//! |---|---|---|
//! | wake | kswapd, later | nothing |
//! | reclaim | the task | pages reclaimed; a page |
//! | compaction | the task | its outcome; a page |
//!
//! While the task reclaims, its own allocations must not come here again. So it is marked MEMALLOC,
//! which opens all reserves and closes this path. That pays: a page that reclaim needs for writing
//! out another one frees more pages than it costs.
//!
//! From: `counted`, `while_progress` · to: [`Relief`].

use crate::host::{Cx, Host, Phase, TaskFlags};
use crate::page::{Order, Pfn};
use crate::page_alloc::highatomic::ForceUnreserve;
use crate::page_alloc::{
    AllocFlags, CompactPriority, CompactResult, PageAllocator, Relief, Request,
};
use crate::vmstat::{VmEvent, ZoneStat};
use crate::zone::Zone;

impl<H: Host> PageAllocator<H> {
    /// Wakes kswapd of each node along the zonelist, once per change of node
    /// (rules/slow-path#wake-kswapd).
    ///
    /// Linux: same name.
    ///
    /// A kswapd is a node's. Zones of a node mostly stand together in the list, so comparing with the
    /// entry before is enough to ask most nodes once, and spares remembering which were asked.
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

    /// Reclaims, then tries again, the second time after draining idle per-CPU lists and
    /// high-atomic reserves (rules/slow-path#direct-reclaim). Returns how many pages were
    /// reclaimed.
    ///
    /// Without progress, a pass would find the same state as the last one. The first pass after
    /// progress is plain. Idle pages are drained only if it fails, because the drain takes a lock
    /// for each CPU's lists, and these lists keep CPUs off the zone lock. All but a zone's last
    /// reserved pageblock may be released, because after progress the request may succeed without
    /// it.
    #[doc(alias = "__alloc_pages_direct_reclaim")]
    pub(super) fn direct_reclaim<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        req: &Request<'_>,
        flags: AllocFlags,
    ) -> (u64, Option<Pfn>) {
        // Blocks that other CPUs deferred are unused, but not free yet.
        if self.free_all_deferred(cx)
            && let Some(page) = self.get_page(cx, relief, req, flags)
        {
            return (0, Some(page));
        }
        let reclaimed = cx.with_flag(TaskFlags::MEMALLOC, || relief.reclaim(self, cx, req));
        if reclaimed == 0 {
            return (0, None);
        }
        if let Some(cache) = self.zonelist_cache(req) {
            // The cached full zones have just been reclaimed.
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

    /// Compacts at one priority, then tries to allocate once (rules/slow-path#direct-compaction).
    #[doc(alias = "__alloc_pages_direct_compact")]
    pub(super) fn direct_compact<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        req: &Request<'_>,
        flags: AllocFlags,
        priority: CompactPriority,
    ) -> (CompactResult, Option<Pfn>) {
        // A single page is in one piece.
        if req.order == Order::ZERO {
            return (CompactResult::Skipped, None);
        }
        let _phase = cx.phase(Phase::Compact);
        let (result, captured) =
            cx.with_flag(TaskFlags::MEMALLOC, || relief.compact(self, cx, req, flags, priority));
        // Nothing moved, so the lists are as the last pass left them. It is not counted as a stall
        // either.
        if !self.was_tried(result) {
            return (result, None);
        }
        self.events.add(cx.cpu(), VmEvent::CompactStall, 1);
        let page = match captured {
            // It never was on a list, so no pass could have prepared it.
            Some(pfn) => {
                self.prepare_page(cx, pfn, req.order, req.gfp, req.migratetype, flags);
                Some(pfn)
            }
            None => self.get_page(cx, relief, req, flags),
        };
        match page {
            // Deferral counts failures of compaction; here it made the block that it ran for.
            Some(pfn) => {
                relief.compaction_succeeded(self, cx, self.map.page(pfn).zone_id(), req.order);
                self.events.add(cx.cpu(), VmEvent::CompactSuccess, 1);
            }
            None => self.events.add(cx.cpu(), VmEvent::CompactFail, 1),
        }
        (result, page)
    }

    /// Estimates by a zone's counters how many pages reclaim could free; if none, what is free, or
    /// 0 in 7.2 (rules/node-pass#reclaimable).
    ///
    /// It uses the zone's counters, because a request may be limited to low zones, which a node's
    /// sums do not show. It is an upper bound: not every page on the lists can be freed.
    #[doc(alias = "zone_reclaimable_pages")]
    pub(crate) fn reclaimable(&self, zone: &Zone<H>, can_swap: bool) -> u64 {
        let stat = |item: ZoneStat| zone.stats.read(item as usize);
        let mut pages = stat(ZoneStat::ZoneInactiveFile) + stat(ZoneStat::ZoneActiveFile);
        if can_swap {
            pages += stat(ZoneStat::ZoneInactiveAnon) + stat(ZoneStat::ZoneActiveAnon);
        }
        if pages == 0 && self.policy.reclaim.free_page_fallback {
            pages = zone.nr_free_pages_exact();
        }
        pages
    }
}
