//! The slow path: wake kswapd, dip into reserves, compact, reclaim, kill, give up
//! (rules/slow-path#restart).
//!
//! A request comes here when its fast path found no page. It goes through rounds; each calls
//! [`Relief`] and tries again. The policy ([`SlowPathPolicy`]) decides the steps of a round, their
//! order and their end. The policy is read at these places:
//!
//! | place | function | policy values |
//! |---|---|---|
//! | on entry | [`alloc_slow`] | `rounds`: [`while_progress`] (4.3), [`counted`], [`compact_first`] (7.2) |
//! | before compaction | [`can_compact`] | `compaction-needs`: requests with IO (late 6.1), also with FS (4.5), or all |
//! | after compaction that moved nothing | [`was_tried`] | `deferred-is-stall`: a stall if deferred (not in 4.3); `compaction-stalls`: also if skipped (up to 5.12, in no preset), or neither (7.2) |
//! | after the first compaction for one node | [`gives_up_on_node`] | `thisnode-gives-up`: that was all (late 6.1), or reclaim follows |
//! | no zone would do even if all was reclaimed | [`gives_reserve_back`] | `unreserve`: now (late 6.1), or after the last round |
//! | between rounds | [`waits_for_writes`], `Relief::wait_for_devices` | `reclaim.throttle.retry-wait` |
//! | at the end of one that must not fail | [`nofail_flags`] | `nofail-dip`: as high priority (late 6.1), or as those that cannot wait |
//!
//! [`relief_steps`] has the steps that all rounds are made of.
//!
//! # Contract of an implementation of `rounds`
//!
//! The caller guarantees that no lock is held, that the fast path has failed, and that `req` is as
//! the fast path left it. An implementation must return a page prepared for use, or `None`: there
//! is no error code. If the request may not wait (no `DIRECT_RECLAIM`) or belongs to reclaim itself
//! (`MEMALLOC`), it must give up after one try with the reserves that the request may use. It must
//! not give up on a `NOFAIL` request that may wait, unless the request has `NORETRY`. Each round
//! must yield, wait or call relief, so that other tasks can run.
//!
//! From: [`super::fast`] · to: `reclaim::direct`, `compaction::direct`, OOM killer.
//!
//! [`alloc_slow`]: PageAllocator::alloc_slow
//! [`can_compact`]: PageAllocator::can_compact
//! [`was_tried`]: PageAllocator::was_tried
//! [`gives_up_on_node`]: PageAllocator::gives_up_on_node
//! [`gives_reserve_back`]: PageAllocator::gives_reserve_back
//! [`waits_for_writes`]: PageAllocator::waits_for_writes
//! [`nofail_flags`]: PageAllocator::nofail_flags
//! [`SlowPathPolicy`]: crate::config::SlowPathPolicy

mod compact_first;
mod counted;
mod relief_steps;
mod while_progress;

use super::{AllocFlags, CompactResult, Gfp, PageAllocator, Relief, Request};
use crate::config::{
    CompactionNeeds, CompactionStalls, NofailDip, RetryWait, SlowPathRounds, Unreserve,
};
use crate::host::{Cx, Host, Phase};
use crate::page::Pfn;
use crate::vmstat::ZoneStat;
use crate::zone::Zone;

impl<H: Host> PageAllocator<H> {
    /// Serves a request whose fast path failed: wakes kswapd, compacts, reclaims, and kills as a
    /// last resort.
    ///
    /// Linux: the rounds are `PageAllocator::alloc_counted` here, those up to 4.6
    /// `PageAllocator::alloc_while_progress`.
    #[doc(alias = "__alloc_pages_slowpath")]
    #[cold]
    #[inline(never)]
    pub(super) fn alloc_slow<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        req: Request<'_>,
    ) -> Option<Pfn> {
        let _phase = cx.phase(Phase::AllocSlow);
        match self.policy.slow_path.rounds {
            SlowPathRounds::WhileProgress => self.alloc_while_progress(cx, relief, req),
            SlowPathRounds::Counted | SlowPathRounds::CompactFirst => {
                self.alloc_counted(cx, relief, req)
            }
        }
    }

    /// May compaction run for a request?
    fn can_compact(&self, req: &Request<'_>) -> bool {
        req.gfp.contains(match self.policy.slow_path.compaction_needs {
            CompactionNeeds::Nothing => Gfp::empty(),
            CompactionNeeds::IoAndFs => Gfp::IO | Gfp::FS,
            CompactionNeeds::Io => Gfp::IO,
        })
    }

    /// Whether compaction stalled the task, so that another pass over the lists is worthwhile.
    fn was_tried(&self, result: CompactResult) -> bool {
        let policy = &self.policy.slow_path;
        match result {
            CompactResult::Absent => false,
            CompactResult::Skipped => policy.compaction_stalls == CompactionStalls::All,
            // Put off after failures: nothing moved, so there is nothing new on the lists. Yet kernels
            // up to 6.12 look.
            CompactResult::Deferred => {
                policy.deferred_is_stall
                    && policy.compaction_stalls != CompactionStalls::NotDeferred
            }
            CompactResult::Contended
            | CompactResult::Partial
            | CompactResult::Complete
            | CompactResult::Success => true,
        }
    }

    /// Whether a costly request without retries ends here, after compaction could not make room on
    /// its only node.
    fn gives_up_on_node(&self, req: &Request<'_>) -> bool {
        self.policy.slow_path.thisnode_gives_up && req.gfp.contains(Gfp::THISNODE)
    }

    /// Reclaim has no prospects: do atomic requests lose their reserve? `exhausted`: all rounds
    /// without progress are used up.
    fn gives_reserve_back(&self, exhausted: bool) -> bool {
        match self.policy.slow_path.unreserve {
            Unreserve::WhenExhausted => exhausted,
            Unreserve::WhenHopeless => true,
        }
    }

    /// Up to 5.15: whether more than half of a zone's reclaimable pages wait to be written
    /// (rules/throttling#retry-wait).
    fn waits_for_writes<R: Relief<H>>(&self, relief: &R, zone: &Zone<H>) -> bool {
        if self.policy.reclaim.throttle.retry_wait != RetryWait::WritePending {
            return false;
        }
        let pending = zone.stats.read_exact(ZoneStat::ZoneWritePending as usize);
        2 * pending > self.reclaimable(zone, relief.can_swap())
    }

    /// The rights of a request that must not fail, at the end.
    fn nofail_flags(&self) -> AllocFlags {
        match self.policy.slow_path.nofail_dip {
            NofailDip::NonBlock => AllocFlags::NON_BLOCK,
            NofailDip::MinReserve => AllocFlags::MIN_RESERVE,
        }
    }
}

/// Somebody else kills: looks again after a tick.
pub(super) fn wait_for_killer<H: Host>(cx: &Cx<'_, H>) {
    let _phase = cx.phase(Phase::OomKill);
    cx.host.sleep_jiffies(1);
}
