//! Counted rounds (rules/slow-path#restart to rules/slow-path#no-page): a limited number without
//! progress, a limited number of compactions per priority, then the OOM killer.
//!
//! When should the OOM killer run? Too early, it kills a process for memory that reclaim would have
//! found. Too late is worse: the machine only reclaims, and tasks take the same few pages from each
//! other. Progress alone does not decide, because reclaim can always take a page that its user
//! needs again at once. So each round without a page checks two conditions, and a count limits
//! each:
//!
//! | condition | counter | limit |
//! |---|---|---|
//! | would reclaiming everything lift a zone above MIN? | rounds without progress | 16 |
//! | would another compaction, or a harder one, help? | blocks made and lost | 16 (costly 4) per priority |
//!
//! The first is about the number of pages, the second about block size: free memory can be large
//! but fragmented. A costly order checks neither unless its caller insists (RETRY_MAYFAIL), and
//! never kills: no caller should depend on so large a block, and a kill does not guarantee one.
//!
//! ```text
//!  attempt: flags, preferred zone ◄──────────────── allowed nodes changed ───┐
//!     │ first_attempt: a pass at MIN; early compaction                       │
//!     ▼                                                                      │
//!  ┌─ retry: wake, pass with the task's rights, reclaim, compaction ◄──┐     │
//!  │     │ no page                                                     │     │
//!  │     ├── should_reclaim_retry, should_compact_retry: yes ──────────┤     │
//!  │     ▼                                                             │     │
//!  │  out_of_memory: killed, or another task kills ────────────────────┤     │
//!  ▼     ▼                                                             │     │
//!  no_page: NOFAIL: from the reserve, or ──────────────────────────────┘  ───┘
//! ```
//!
//! A restart clears all counts, because the nodes changed. A retry keeps them, even for NOFAIL;
//! otherwise it would compact for ever at the lowest effort.
//!
//! 7.2 has the same rounds with another beginning ([`super::compact_first`]).
//!
//! From: [`super`] · to: [`super::relief_steps`], [`Relief`].

use super::wait_for_killer;
use crate::config::SlowPathRounds;
use crate::host::{Cx, HZ, Host, Lock, TaskFlags};
use crate::page::{MigrateType, Order, Pfn};
use crate::page_alloc::highatomic::ForceUnreserve;
use crate::page_alloc::{
    AllocFlags, CompactPriority, CompactResult, Gfp, PageAllocator, Relief, Request, request,
};
use crate::zone::{Mark, NodeMask, Zone, ZoneType};

/// Rounds of reclaim without progress before giving up (rules/slow-path#constants).
const MAX_RECLAIM_RETRIES: u32 = 16;
/// Compaction attempts per priority, a quarter of it for costly orders (rules/slow-path#constants).
/// Only attempts that succeeded and still lost the block count.
const MAX_COMPACT_RETRIES: u32 = 16;
/// How long a round without progress waits for writes, where it does (up to 5.15,
/// rules/throttling#retry-wait): 100 ms.
const RETRY_WAIT: u64 = HZ / 10;

/// State of one pass through the slow path.
pub(super) struct State {
    /// The request's flags at first; flags from the task's state replace them permanently.
    pub(super) flags: AllocFlags,
    pub(super) compact_priority: CompactPriority,
    /// 7.2: this round compacts and does not reclaim.
    pub(super) only_compacts: bool,
    /// 7.2: once, a request that may leave its nodes tries the lists again at once.
    pub(super) may_widen: bool,
    compact_retries: u32,
    /// In a row, but for costly orders: of those every round counts.
    no_progress_loops: u32,
    /// Nodes the task was allowed when the attempt began; it starts over if they change.
    mems_allowed: NodeMask,
}

/// How a stage of the slow path ends.
pub(super) enum Step {
    Page(Pfn),
    Restart,
    Retry,
    NoPage,
    Next,
}

impl<H: Host> PageAllocator<H> {
    /// Serves a request in rounds that are counted.
    #[inline]
    pub(super) fn alloc_counted<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        mut req: Request<'_>,
    ) -> Option<Pfn> {
        let nodes = req.nodes;
        if req.gfp.contains(Gfp::DIRECT_RECLAIM | Gfp::ATOMIC) {
            // A caller bug: a request that can block is not atomic.
            req.gfp -= Gfp::ATOMIC;
        }
        loop {
            // A retry may have dropped the caller's mask for its privileges; a new attempt begins with
            // it.
            req.nodes = nodes;
            match self.attempt(cx, relief, &mut req) {
                Step::Page(pfn) => return Some(pfn),
                Step::NoPage => return None,
                Step::Restart | Step::Retry | Step::Next => {}
            }
        }
    }

    /// From `restart` to a page, a final failure, or another restart.
    fn attempt<R: Relief<H>>(&self, cx: &Cx<'_, H>, relief: &R, req: &mut Request<'_>) -> Step {
        let rule = self.policy.watermark.reserves;
        let mut state = State {
            flags: request::slow_flags(req.gfp, req.order, cx.flags(), rule),
            compact_priority: CompactPriority::SyncLight,
            only_compacts: false,
            may_widen: true,
            compact_retries: 0,
            no_progress_loops: 0,
            mems_allowed: cx.mems_allowed(),
        };
        let compact_first = self.policy.slow_path.rounds == SlowPathRounds::CompactFirst;
        req.find_preferred();
        let mut step = match req.preferred.is_none() || self.cpuset_forbids_all(cx, req) {
            true => Step::NoPage,
            false if compact_first => self.plan_first_round(req, &mut state),
            false => self.first_attempt(cx, relief, req, &mut state),
        };
        loop {
            step = match step {
                Step::Next | Step::Retry => match compact_first {
                    true => self.compact_first_round(cx, relief, req, &mut state),
                    false => self.retry(cx, relief, req, &mut state),
                },
                Step::NoPage => match self.no_page(cx, relief, req, &mut state) {
                    Step::Retry => Step::Retry,
                    end => return end,
                },
                end => return end,
            };
        }
    }

    /// Down to the minimum, then early compaction for large requests: moving pages is cheaper than
    /// throwing them out (rules/slow-path#restart, rules/slow-path#early-compaction).
    fn first_attempt<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        req: &Request<'_>,
        state: &mut State,
    ) -> Step {
        if state.flags.contains(AllocFlags::KSWAPD) {
            self.wake_all_kswapds(cx, relief, req);
        }
        if let Some(pfn) = self.get_page(cx, relief, req, state.flags) {
            return Step::Page(pfn);
        }
        // A request that may go below the marks need not make room first.
        let reserves = request::reserve_flags(req.gfp, cx.flags());
        if !self.compacts_early(req) || !reserves.is_empty() {
            return Step::Next;
        }
        let (result, page) =
            self.direct_compact(cx, relief, req, state.flags, CompactPriority::Async);
        if let Some(pfn) = page {
            return Step::Page(pfn);
        }
        if req.order.is_costly() && req.gfp.contains(Gfp::NORETRY) {
            // The caller has another plan (a huge page: small ones). Compaction that did not even begin
            // has too few pages to work with or failed here lately: reclaim would free a lot, for
            // others, for little hope.
            let untried = [CompactResult::Skipped, CompactResult::Absent, CompactResult::Deferred];
            if untried.contains(&result) {
                return Step::NoPage;
            }
            // One node only: reclaim would empty it, while the next node may have a block.
            if self.gives_up_on_node(req) {
                return Step::NoPage;
            }
            // Waiting for pages under writeback is more than such a request is worth.
            state.compact_priority = CompactPriority::Async;
        }
        Step::Next
    }

    /// One round with the task's privileges: a pass, reclaim, compaction, and whether another round
    /// is worth it (rules/slow-path#retry).
    fn retry<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        req: &mut Request<'_>,
        state: &mut State,
    ) -> Step {
        if cx.mems_allowed() != state.mems_allowed {
            return Step::Restart;
        }
        // They may have gone to sleep meanwhile.
        if state.flags.contains(AllocFlags::KSWAPD) {
            self.wake_all_kswapds(cx, relief, req);
        }
        self.take_rights(cx, req, state);
        if let Some(pfn) = self.get_page(cx, relief, req, state.flags) {
            return Step::Page(pfn);
        }
        // All that is left costs time, or would enter reclaim from within reclaim.
        if !req.gfp.contains(Gfp::DIRECT_RECLAIM) || cx.flags().contains(TaskFlags::MEMALLOC) {
            return Step::NoPage;
        }

        let (reclaimed, page) = self.direct_reclaim(cx, relief, req, state.flags);
        let progress = reclaimed > 0;
        if let Some(pfn) = page {
            return Step::Page(pfn);
        }
        let (result, page) =
            self.direct_compact(cx, relief, req, state.flags, state.compact_priority);
        if let Some(pfn) = page {
            return Step::Page(pfn);
        }
        self.next_round(cx, relief, req, state, progress, result)
    }

    /// Reports whether compaction may make room for a request before any reclaim
    /// (rules/slow-path#early-compaction).
    pub(super) fn compacts_early(&self, req: &Request<'_>) -> bool {
        let can_reclaim = req.gfp.contains(Gfp::DIRECT_RECLAIM);
        let may_help = req.order.is_costly()
            || (req.order > Order::ZERO && req.migratetype != MigrateType::Movable);
        can_reclaim && self.can_compact(req) && may_help
    }

    /// Gives a request the rights that its task's state adds, and drops the node mask of one that
    /// may leave its nodes; true if it may (rules/slow-path#retry).
    pub(super) fn take_rights(
        &self,
        cx: &Cx<'_, H>,
        req: &mut Request<'_>,
        state: &mut State,
    ) -> bool {
        let reserves = request::reserve_flags(req.gfp, cx.flags());
        if !reserves.is_empty() {
            // These replace the request's reductions and do not add to them: full access needs
            // none, and a victim's half is meant as a bound.
            let keep = state.flags & (AllocFlags::KSWAPD | AllocFlags::CMA);
            state.flags = reserves | keep;
        }
        // The nodemask only prefers memory. It is no reason to fail for a request with access to
        // reserves.
        let may_leave = !state.flags.contains(AllocFlags::CPUSET) || !reserves.is_empty();
        if may_leave {
            req.nodes = None;
            req.find_preferred();
        }
        may_leave
    }

    /// The end of a round without a page: another round, the OOM killer, or nothing.
    pub(super) fn next_round<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        req: &mut Request<'_>,
        state: &mut State,
        progress: bool,
        result: CompactResult,
    ) -> Step {
        if req.gfp.contains(Gfp::NORETRY) {
            return Step::NoPage;
        }
        // Every request gets one round. NORETRY wants no more; costly orders must ask for more.
        let mayfail = req.gfp.contains(Gfp::RETRY_MAYFAIL);
        if req.order.is_costly() && (!self.can_compact(req) || !mayfail) {
            return Step::NoPage;
        }
        if self.should_reclaim_retry(cx, relief, req, state, progress) {
            return Step::Retry;
        }
        // Without progress in reclaim the next compaction meets the same pages as the last.
        if progress
            && self.can_compact(req)
            && self.should_compact_retry(cx, relief, req, state, result)
        {
            return Step::Retry;
        }
        if cx.mems_allowed() != state.mems_allowed {
            return Step::Restart;
        }
        self.out_of_memory(cx, relief, req, state)
    }

    /// Calls the OOM killer, unless another task does or enough was freed meanwhile
    /// (rules/slow-path#oom).
    ///
    /// Only one task kills at a time: a victim's memory serves all, and two tasks in the same
    /// situation would kill two. A task that finds another one killing waits a tick, and counts it
    /// as progress. The lock is held over the last pass, so no other kill starts between that pass
    /// and this kill.
    #[doc(alias = "__alloc_pages_may_oom")]
    fn out_of_memory<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        req: &mut Request<'_>,
        state: &mut State,
    ) -> Step {
        let mut progress = false;
        let task = cx.flags();
        match self.oom_lock.try_lock(cx.cpu()) {
            None => {
                progress = true;
                wait_for_killer(cx);
            }
            Some(_guard) => {
                // Another task may have freed enough meanwhile, so try once more at a high mark. If
                // that much is free, it was freed just now, and a kill would be useless. The try
                // cannot wait, so that no task reclaims under this lock.
                let mut last = req.clone();
                last.gfp = (last.gfp | Gfp::HARDWALL) - Gfp::DIRECT_RECLAIM;
                let flags = AllocFlags::MARK_HIGH | AllocFlags::CPUSET;
                if let Some(pfn) = self.get_page(cx, relief, &last, flags) {
                    return Step::Page(pfn);
                }
                // A kill must be able to help: not with one large block, one node or low memory. A task
                // that writes its dump is about to free all it has. RETRY_MAYFAIL asked to fail first.
                let may_kill = !task.contains(TaskFlags::DUMPING)
                    && !req.order.is_costly()
                    && !req.gfp.intersects(Gfp::RETRY_MAYFAIL | Gfp::THISNODE)
                    && req.highest >= ZoneType::Normal;
                let nofail = req.gfp.contains(Gfp::NOFAIL);
                if may_kill && (relief.out_of_memory(self, cx, req) || nofail) {
                    progress = true;
                    // It cannot fail, and the victim may need long to die: everything that is left,
                    // now.
                    if nofail
                        && let Some(pfn) =
                            self.with_and_without_cpuset(cx, relief, req, AllocFlags::NO_WATERMARKS)
                    {
                        return Step::Page(pfn);
                    }
                }
            }
        }
        // A victim that has used its half of MIN, or may not use it, gives up so that it can exit:
        // it must exit for others to get memory.
        let victim = cx.flags().contains(TaskFlags::OOM_VICTIM);
        if victim && (state.flags.contains(AllocFlags::OOM) || req.gfp.contains(Gfp::NOMEMALLOC)) {
            return Step::NoPage;
        }
        if progress {
            state.no_progress_loops = 0;
            return Step::Retry;
        }
        Step::NoPage
    }

    /// The end of the slow path, except for NOFAIL requests that can wait: they use the reserve or
    /// start another round (rules/slow-path#no-page, rules/slow-path#nofail).
    ///
    /// They do not use all of the reserve, because there may be many of them, and the rest is for
    /// tasks that free memory. Yielding lets such a task run.
    fn no_page<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        req: &mut Request<'_>,
        state: &mut State,
    ) -> Step {
        if cx.mems_allowed() != state.mems_allowed {
            return Step::Restart;
        }
        if !req.gfp.contains(Gfp::NOFAIL) || !req.gfp.contains(Gfp::DIRECT_RECLAIM) {
            return Step::NoPage;
        }
        match self.with_and_without_cpuset(cx, relief, req, self.nofail_flags()) {
            Some(pfn) => Step::Page(pfn),
            None => {
                cx.host.yield_now();
                Step::Retry
            }
        }
    }

    /// Tries the request within the task's cpuset first, then without it.
    #[doc(alias = "__alloc_pages_cpuset_fallback")]
    fn with_and_without_cpuset<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        req: &Request<'_>,
        flags: AllocFlags,
    ) -> Option<Pfn> {
        self.get_page(cx, relief, req, flags | AllocFlags::CPUSET)
            .or_else(|| self.get_page(cx, relief, req, flags))
    }

    /// With HARDWALL: whether the cpuset forbids every zone that the request could use.
    ///
    /// Then neither reclaim nor a kill would help: the request may not use the freed memory.
    #[inline]
    fn cpuset_forbids_all(&self, cx: &Cx<'_, H>, req: &Request<'_>) -> bool {
        self.tunables.cpusets.get()
            && req.gfp.contains(Gfp::HARDWALL)
            && req.candidates().all(|(_, e)| !cx.mems_allowed().contains(e.node))
    }

    /// Reports whether another round of reclaim is worth it (rules/slow-path#reclaim-retry).
    ///
    /// Linux 4.7 on: same name.
    ///
    /// Progress starts the count again for small orders: pages were freed, and one of them will do. For
    /// a costly order pages freed say nothing about a block.
    fn should_reclaim_retry<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        req: &Request<'_>,
        state: &mut State,
        progress: bool,
    ) -> bool {
        if progress && !req.order.is_costly() {
            state.no_progress_loops = 0;
        } else {
            state.no_progress_loops += 1;
        }
        let exhausted = state.no_progress_loops > MAX_RECLAIM_RETRIES;
        if !exhausted && let Some(zone) = self.could_suffice(cx, relief, req, state.flags) {
            // Reclaimable pages exist but must be written first: a new round at once would find the
            // same state.
            if !progress && self.waits_for_writes(relief, zone) {
                relief.wait_for_devices(self, cx, RETRY_WAIT, None);
                return true;
            }
            // A worker that only yields may be picked again at once, before other work of its queue, on
            // which the memory to be freed may depend.
            if cx.flags().contains(TaskFlags::WORKER) {
                cx.host.sleep_jiffies(1);
            } else {
                cx.host.yield_now();
            }
            return true;
        }
        // A reserved pageblock, be it the last, goes before anything is killed.
        self.gives_reserve_back(exhausted)
            && self.unreserve_highatomic(cx, req, ForceUnreserve::Yes)
    }

    /// The first zone that would pass its minimum if everything reclaimable were free.
    ///
    /// The free pages are read exactly: here a wrong count decides about a life.
    fn could_suffice<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        req: &Request<'_>,
        flags: AllocFlags,
    ) -> Option<&Zone<H>> {
        let rule = self.policy.watermark_rule();
        // As in a pass: what is freed there would be no use.
        let by_cpuset = self.policy.slow_path.retry_in_cpuset
            && self.tunables.cpusets.get()
            && flags.contains(AllocFlags::CPUSET);
        let allows = |node| !by_cpuset || self.cpuset_allows(cx, node, req.gfp);
        let allowed = req.candidates().filter(|(_, entry)| allows(entry.node));
        let mut zones = allowed.map(|(_, entry)| self.zone_at(entry));
        zones.find(|zone| {
            let available = self.reclaimable(zone, relief.can_swap()) + zone.nr_free_pages_exact();
            let min = zone.mark(Mark::Min);
            zone.watermark_ok(rule, req.order, min, req.highest, flags, available)
        })
    }

    /// Reports whether another compaction is worth it, perhaps at a higher priority
    /// (rules/slow-path#compact-retry).
    ///
    /// Linux 4.7 on: same name.
    ///
    /// A task that is to be killed does not wait for a block. Harder priorities wait for pages and look
    /// at more of them, so each is tried once the gentler one has failed; costly orders stop before the
    /// hardest.
    fn should_compact_retry<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        req: &Request<'_>,
        state: &mut State,
        result: CompactResult,
    ) -> bool {
        if req.order == Order::ZERO || cx.flags().contains(TaskFlags::FATAL_SIGNAL) {
            return false;
        }
        let costly = req.order.is_costly();
        match result {
            CompactResult::Success => state.compact_retries += 1,
            CompactResult::Skipped => return self.compaction_has_room(relief, req, state.flags),
            // Reclaim alone frees small blocks in the end. Large ones it leaves to compaction, and
            // calls that progress: without compaction that would go on for ever.
            CompactResult::Absent => {
                return !costly && self.compaction_has_room(relief, req, state.flags);
            }
            CompactResult::Complete
            | CompactResult::Deferred
            | CompactResult::Contended
            | CompactResult::Partial => return lower_priority(state, costly),
        }
        let max = if costly { MAX_COMPACT_RETRIES / 4 } else { MAX_COMPACT_RETRIES };
        state.compact_retries <= max || lower_priority(state, costly)
    }

    /// Reports whether reclaim could make the room that compaction lacked.
    ///
    /// Compaction needs about twice the block in free pages, on top of the mark, as migration
    /// targets. Only a fraction of the reclaimable pages counts, smaller for larger orders, because
    /// a large block is not worth evicting everything. A zone that passes the test already has free
    /// memory: compaction was not skipped there for lack of room.
    ///
    /// Linux 4.7 on.
    #[doc(alias = "compaction_zonelist_suitable")]
    fn compaction_has_room<R: Relief<H>>(
        &self,
        relief: &R,
        req: &Request<'_>,
        flags: AllocFlags,
    ) -> bool {
        let rule = self.policy.watermark_rule();
        req.candidates().any(|(_, entry)| {
            let zone = self.zone_at(entry);
            let free = zone.nr_free_pages();
            let mark = zone.mark(flags.mark());
            if zone.watermark_ok(rule, req.order, mark, req.highest, flags, free) {
                return false;
            }
            let base = if req.order.is_costly() { Mark::Low } else { Mark::Min };
            let gap = self.gap_to_compact(req.order);
            let available = self.reclaimable(zone, relief.can_swap()) / u64::from(req.order.0)
                + zone.nr_free_pages_exact();
            let (mark, cma) = (zone.mark(base) + gap, AllocFlags::CMA);
            zone.watermark_ok(rule, Order::ZERO, mark, req.highest, cma, available)
        })
    }
}

/// The next harder priority, if there is one, with a fresh count.
fn lower_priority(state: &mut State, costly: bool) -> bool {
    let min = if costly { CompactPriority::SyncLight } else { CompactPriority::SyncFull };
    if state.compact_priority <= min {
        return false;
    }
    state.compact_priority = match state.compact_priority {
        CompactPriority::Async => CompactPriority::SyncLight,
        _ => CompactPriority::SyncFull,
    };
    state.compact_retries = 0;
    true
}
