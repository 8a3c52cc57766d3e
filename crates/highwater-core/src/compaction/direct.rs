//! Compaction by a request, over its zonelist (rules/compaction#direct).

use super::run::{Contention, Ended, Goal};
use crate::config::{AsyncContended, AsyncResched, CompactionPolicy, FinishTest};
use crate::host::{Cx, Devices, Probe, TaskFlags};
use crate::kernel::Kernel;
use crate::migrate::Mode;
use crate::page::{MigrateType, Order, Pfn};
use crate::page_alloc::{AllocFlags, Capture, Request, Wanted};
use crate::sync::atomic::Ordering::Relaxed;
use crate::trace::Event;
use crate::units::{CompactPriority, CompactResult, ZoneId};
use crate::zone::Zone;

/// Whether a request's runs all ended for others (4.5): then reclaim would not help it either.
#[derive(Default)]
struct Contended {
    /// Zones that were not put off, and those of them where a lock was held. A zone that was
    /// skipped (too few free pages, or a block is there) is one without: then not all were
    /// contended.
    nr: u32,
    locked: u32,
    /// Somebody waits for the CPU.
    waited_for: bool,
}

impl Contended {
    fn add(&mut self, ended: Ended) {
        self.nr += 1;
        self.locked += u32::from(ended.contended == Some(Contention::Lock));
        self.waited_for |= ended.contended == Some(Contention::Cpu);
    }

    /// A kernel thread has the time to wait for the CPU.
    fn is_in_vain(&self, policy: &CompactionPolicy, is_kthread: bool) -> bool {
        let is_locked = self.nr != 0 && self.locked == self.nr;
        (policy.contended == AsyncContended::Aborts && is_locked)
            || (policy.resched == AsyncResched::Aborts && self.waited_for && !is_kthread)
    }
}

impl<H: Devices> Kernel<H> {
    /// Compacts the zones of a request's zonelist (direct compaction): how it ended, and a block
    /// that it captured on the way, which is not prepared for use.
    #[doc(alias = "try_to_compact_pages")]
    pub(crate) fn compact_for(
        &self,
        cx: &Cx<'_, H>,
        req: &Request<'_>,
        flags: AllocFlags,
        priority: CompactPriority,
    ) -> (CompactResult, Option<Pfn>) {
        if !self.compacts() {
            return (CompactResult::Absent, None);
        }
        cx.event(Event::CompactionTryToCompactPages { order: req.order, gfp: req.gfp, priority });
        let is_full = priority == CompactPriority::SyncFull;
        let mode = match priority {
            CompactPriority::Async => Mode::Async,
            CompactPriority::SyncLight | CompactPriority::SyncFull => Mode::SyncLight,
        };
        // Where a request that was put off is no stall, it counts for less than one that was skipped.
        let tells_deferred = self.mem.policy.slow_path.deferred_is_stall;
        let mut result =
            if tells_deferred { CompactResult::Skipped } else { CompactResult::Absent };
        let mut all = Contended::default();
        for (_, entry) in req.candidates() {
            let zone = self.mem.zone_at(entry);
            if !is_full && self.refuses(cx, zone, req.order) {
                let refused =
                    if tells_deferred { CompactResult::Deferred } else { CompactResult::Absent };
                result = result.max(refused);
                continue;
            }
            let mut goal = Goal {
                migratetype: req.migratetype,
                gfp: req.gfp,
                flags,
                direct: true,
                ignore_skip: is_full,
                ignore_type: is_full,
                whole_zone: is_full,
                ..Goal::new(Some(req.order), mode, req.highest)
            };
            let (ended, page) = self.compact_and_capture(cx, zone, &mut goal, req.order);
            all.add(ended);
            result = result.max(self.reported(ended));
            // A captured block is on no list, so a kernel that checks the low mark does not see it.
            if page.is_some() || self.brought_block(zone, &goal, ended.result) {
                self.note_success(cx, zone, req.order, false);
                return (result.max(CompactResult::Success), page);
            }
            if let CompactResult::Complete | CompactResult::Partial = ended.result
                && mode != Mode::Async
            {
                self.note_failure(cx, zone, req.order);
            }
            // An asynchronous run leaves the further zones to synchronous ones, once other tasks
            // want the CPU.
            let makes_room = mode == Mode::Async && cx.host.needs_resched();
            all.waited_for |= makes_room;
            if makes_room || cx.is_dying() {
                break;
            }
        }
        if !tells_deferred && result == CompactResult::Absent {
            return (CompactResult::Deferred, None);
        }
        if all.is_in_vain(&self.mem.policy.compaction, cx.flags().contains(TaskFlags::KTHREAD)) {
            return (CompactResult::Contended, None);
        }
        (result, None)
    }

    /// The result of a run as the request sees it. On kernels that end runs for contended locks and
    /// waiting tasks, such an end is not a separate result, because a block may have been made
    /// (4.5).
    fn reported(&self, ended: Ended) -> CompactResult {
        let is_abortive = self.mem.policy.compaction.contended == AsyncContended::Aborts;
        match ended.result {
            CompactResult::Contended if is_abortive => CompactResult::Success,
            result => result,
        }
    }

    /// Is there a block now, as far as this kernel asks?
    pub(super) fn brought_block(&self, zone: &Zone<H>, goal: &Goal, result: CompactResult) -> bool {
        match (self.mem.policy.compaction.finish, goal.order) {
            (FinishTest::LowMark, Some(order)) => {
                self.low_mark_allows(zone, order, goal.flags, goal.highest)
            }
            _ => result == CompactResult::Success,
        }
    }

    /// Compacts one zone for a request and captures the block that a free on the way completes.
    #[doc(alias = "compact_zone_order")]
    fn compact_and_capture(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        goal: &mut Goal,
        order: Order,
    ) -> (Ended, Option<Pfn>) {
        // A daemon has no request to capture a block for.
        let captures = self.mem.policy.compaction.capture;
        if !captures || cx.flags().contains(TaskFlags::KTHREAD) {
            return (self.compact_zone(cx, zone, goal), None);
        }
        let capture: &Capture = cx.local();
        let is_movable = goal.migratetype == MigrateType::Movable;
        let takes_movable = is_movable && self.mem.policy.compaction.capture_movable;
        capture.begin(Wanted { zone: zone.id(), order, takes_movable });
        let ended = cx.with_flag(TaskFlags::CAPTURING, || self.compact_zone(cx, zone, goal));
        match capture.end() {
            Some(pfn) => (Ended { result: CompactResult::Success, ..ended }, Some(pfn)),
            None => (ended, None),
        }
    }

    /// The request that compaction was run for has its block.
    pub(crate) fn compaction_brought(&self, cx: &Cx<'_, H>, zone: ZoneId, order: Order) {
        if self.compacts()
            && let Some(zone) = self.mem.zone_by_id(zone)
        {
            self.compaction.zone(zone.id()).flush_pending.store(false, Relaxed);
            self.note_success(cx, zone, order, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::preset;

    #[test]
    fn a_skipped_zone_had_no_lock_in_the_way() {
        let policy = &preset("4.5").unwrap().compaction;
        let ended = |result, contended| Ended { result, contended, scanned: [0; 2] };
        let locked = ended(CompactResult::Contended, Some(Contention::Lock));
        let in_vain = |zones: &[Ended]| {
            let mut all = Contended::default();
            zones.iter().for_each(|&zone| all.add(zone));
            all.is_in_vain(policy, false)
        };
        assert!(!in_vain(&[]));
        assert!(in_vain(&[locked, locked]));
        assert!(!in_vain(&[locked, ended(CompactResult::Complete, None)]));
        assert!(
            !in_vain(&[locked, ended(CompactResult::Skipped, None)]),
            "as ZONE_DMA is on large machines"
        );
        let wanted = ended(CompactResult::Contended, Some(Contention::Cpu));
        assert!(in_vain(&[locked, wanted]), "a task waits for the CPU");
    }
}
