//! Counted rounds of which the first may only compact (7.2; rules/slow-path#v72).
//!
//! Up to 6.12 early compaction is a step before the rounds, with conditions of its own. Here it is
//! the first round without its reclaim. So each request does the same before it: it wakes kswapd, tries
//! the lists, and takes the rights of its task.
//!
//! ```text
//!  plan_first_round: only compaction, ASYNC, for a large request
//!     ▼
//!  ┌─ round: wake, pass; more rights than before: once, round again ◄──┐
//!  │     ├── reclaim (not in the first round of a large request)       │
//!  │     ├── compaction ── it was that round ──────────────────────────┤
//!  │     ▼                                                             │
//!  │  as in `counted`: next_round ─────────────────────────────────────┘
//! ```
//!
//! | | `counted` | here |
//! |---|---|---|
//! | passes of a request that cannot wait | two | one; a second if it may now use more nodes |
//! | an OOM victim with a large request | no early compaction | compaction first |
//! | costly NORETRY, early compaction skipped or deferred | no page | reclaim, compaction ASYNC |
//! | allowed nodes changed | seen at each round's begin | seen before the OOM killer, and at the end |
//!
//! From: [`super::counted`] · to: [`super::relief_steps`], [`Relief`].

use super::counted::{State, Step};
use crate::host::{Cx, Host, TaskFlags};
use crate::page_alloc::{AllocFlags, CompactPriority, Gfp, PageAllocator, Relief, Request};

impl<H: Host> PageAllocator<H> {
    /// Decides whether the first round only compacts, at the lowest effort.
    pub(super) fn plan_first_round(&self, req: &Request<'_>, state: &mut State) -> Step {
        state.only_compacts = self.compacts_early(req);
        if state.only_compacts {
            state.compact_priority = CompactPriority::Async;
        }
        Step::Next
    }

    /// Makes one round: a pass, reclaim, compaction, and whether another round is worth it.
    pub(super) fn compact_first_round<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        req: &mut Request<'_>,
        state: &mut State,
    ) -> Step {
        if state.flags.contains(AllocFlags::KSWAPD) {
            self.wake_all_kswapds(cx, relief, req);
        }
        if let Some(pfn) = self.get_page(cx, relief, req, state.flags) {
            return Step::Page(pfn);
        }
        // The pass was made without these rights, and a request that cannot wait has no later one.
        if self.take_rights(cx, req, state) && state.may_widen {
            state.may_widen = false;
            return Step::Retry;
        }
        if !req.gfp.contains(Gfp::DIRECT_RECLAIM) || cx.flags().contains(TaskFlags::MEMALLOC) {
            return Step::NoPage;
        }
        let mut progress = false;
        if !state.only_compacts {
            let (reclaimed, page) = self.direct_reclaim(cx, relief, req, state.flags);
            if let Some(pfn) = page {
                return Step::Page(pfn);
            }
            progress = reclaimed > 0;
        }
        let (result, page) =
            self.direct_compact(cx, relief, req, state.flags, state.compact_priority);
        if let Some(pfn) = page {
            return Step::Page(pfn);
        }
        if !state.only_compacts {
            return self.next_round(cx, relief, req, state, progress, result);
        }
        // Also before giving up: NOFAIL comes back, and then has to reclaim.
        state.only_compacts = false;
        if !req.gfp.contains(Gfp::NORETRY) {
            state.compact_priority = CompactPriority::SyncLight;
        } else if self.gives_up_on_node(req) {
            return Step::NoPage;
        }
        Step::Retry
    }
}
