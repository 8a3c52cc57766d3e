//! Rounds as long as there is progress (4.3; rules/slow-path#v43). Only reclaimed pages are
//! counted, and the task waits for congestion between rounds.
//!
//! The reasoning is simple: reclaim freed something, so memory is not used up, so another try is
//! worthwhile. The weakness is the word *something*. One page of progress per round is enough to
//! continue, even if other tasks take it every time. A task may loop for very long while the
//! machine only reclaims, and the loop does not detect it. The later rule ([`super::counted`])
//! checks whether reclaiming *everything* would be enough, and counts.
//!
//! | | here | counted |
//! |---|---|---|
//! | another round after | progress of any size | a zone that would do; at most 16 without progress |
//! | no progress | the OOM killer at once | up to 16 rounds first |
//! | reserves by state (MEMALLOC, victim) | a second pass, without watermarks | in place of the request's |
//! | wakes of kswapd | for every zone | once for each change of node |
//! | between rounds | a wait for congestion | yields |
//! | THP | gives up after deferred compaction | like other costly orders |
//!
//! From: [`super`] · to: [`super::relief_steps`].

use super::wait_for_killer;
use crate::host::{Cx, HZ, Host, Lock, TaskFlags};
use crate::page::{Order, Pfn};
use crate::page_alloc::{
    AllocFlags, CompactPriority, CompactResult, Gfp, PageAllocator, Relief, Request, request,
};
use crate::zone::ZoneType;

/// How long a round waits for congestion to clear, if the preferred zone is congested: 20 ms
/// (rules/throttling#retry-wait). Going round at once would scan the same pages that are being written.
const RETRY_WAIT: u64 = HZ / 50;

impl<H: Host> PageAllocator<H> {
    /// Serves a request by compaction, reclaim, the OOM killer, as long as there is progress.
    pub(super) fn alloc_while_progress<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        mut req: Request<'_>,
    ) -> Option<Pfn> {
        let can_wait = req.gfp.contains(Gfp::DIRECT_RECLAIM);
        if req.gfp.contains(Gfp::THISNODE) && !can_wait {
            return None;
        }
        let huge = req.gfp.contains(Gfp::GFP_TRANSHUGE_LIGHT);
        let rule = self.policy.watermark.reserves;
        let mut priority = CompactPriority::Async;
        let mut reclaimed_pages = 0u64;
        loop {
            if req.gfp.contains(Gfp::KSWAPD_RECLAIM) {
                // For every zone, not once per node as later.
                for (_, entry) in req.candidates() {
                    relief.wake_kswapd(self, cx, entry.node, req.gfp, req.order, req.highest);
                }
            }
            // In each round anew: the task may have become a victim while it reclaimed.
            let flags = request::slow_flags(req.gfp, req.order, cx.flags(), rule);
            if !flags.contains(AllocFlags::CPUSET) {
                req.nodes = None;
            }
            req.find_preferred();
            req.preferred?;
            if let Some(pfn) = self.get_page(cx, relief, &req, flags) {
                return Some(pfn);
            }
            let reserves = request::reserve_flags(req.gfp, cx.flags());
            let task = cx.flags();
            let dying = task.contains(TaskFlags::OOM_VICTIM);
            // Victims also get all reserves. Later kernels stop them at half of the min mark, so
            // that several victims do not use up the last pages.
            if !reserves.is_empty() {
                let flags = AllocFlags::NO_WATERMARKS;
                if let Some(pfn) = self.get_page(cx, relief, &req, flags) {
                    return Some(pfn);
                }
            }
            let nofail = req.gfp.contains(Gfp::NOFAIL);
            if !can_wait || task.contains(TaskFlags::MEMALLOC) || (dying && !nofail) {
                return None;
            }
            let (result, page) = match self.can_compact(&req) {
                true => self.direct_compact(cx, relief, &req, flags, priority),
                false => (CompactResult::Skipped, None),
            };
            if page.is_some() {
                return page;
            }
            // A huge page is optional. If compaction was deferred or contended, reclaim would evict
            // hundreds of pages for it.
            if huge && matches!(result, CompactResult::Deferred | CompactResult::Contended) {
                return None;
            }
            let kthread = task.contains(TaskFlags::KTHREAD);
            // The first compaction is asynchronous. In later rounds the task waits for pages, but
            // not for a huge page in a page fault. khugepaged is a kernel thread and has the time.
            if !huge || kthread {
                priority = CompactPriority::SyncLight;
            }
            let (reclaimed, page) = self.direct_reclaim(cx, relief, &req, flags);
            if page.is_some() {
                return page;
            }
            let progress = reclaimed > 0;
            reclaimed_pages += reclaimed;
            let compact_last = || match self.can_compact(&req) {
                true => self.direct_compact(cx, relief, &req, flags, priority).1,
                false => None,
            };
            if req.gfp.contains(Gfp::NORETRY) {
                return compact_last();
            }
            let repeat = req.gfp.contains(Gfp::RETRY_MAYFAIL);
            let more = reclaimed_pages < req.order.pages();
            // Costly orders repeat only on request, and only until as many pages were reclaimed as
            // they need. If that made no block, more free pages do not help.
            if (progress && req.order <= Order::COSTLY) || (repeat && more) {
                if let Some(first) = req.preferred_entry() {
                    relief.wait_for_devices(self, cx, RETRY_WAIT, Some(self.zone_at(first)));
                }
                continue;
            }
            // Somebody may have freed enough meanwhile: a last look, far above the minimum.
            let last = AllocFlags::MARK_HIGH | AllocFlags::CPUSET;
            if let Some(pfn) = self.get_page(cx, relief, &req, last) {
                return Some(pfn);
            }
            if !self.kill_or_pretend(cx, relief, &req) {
                return compact_last();
            }
            cx.host.yield_now();
        }
    }

    /// The OOM step: true if the request should continue. Costly requests do not kill, nor do
    /// requests that cannot use NORMAL memory or are limited to one node, because a kill would
    /// hardly help them. Without FS the killer is not called, but the request continues as if it
    /// had been. It could not reclaim pages that need a filesystem, so memory may not be used up.
    /// It then loops until other tasks free memory.
    ///
    /// Only one task kills at a time. A task that finds another one killing waits a tick, and
    /// counts it as progress, because the victim will free memory for both.
    fn kill_or_pretend<R: Relief<H>>(&self, cx: &Cx<'_, H>, relief: &R, req: &Request<'_>) -> bool {
        let Some(_guard) = self.oom_lock.try_lock(cx.cpu()) else {
            wait_for_killer(cx);
            return true;
        };
        // A NOFAIL request continues in any case.
        if req.gfp.contains(Gfp::NOFAIL) {
            relief.out_of_memory(self, cx, req);
            return true;
        }
        if req.order.is_costly()
            || req.highest < ZoneType::Normal
            || req.gfp.contains(Gfp::THISNODE)
        {
            return false;
        }
        !req.gfp.contains(Gfp::FS) || relief.out_of_memory(self, cx, req)
    }
}
