//! Compaction by a request, over its zonelist (rules/compaction#direct).

use super::run::Goal;
use crate::host::{Cx, Devices, Probe, TaskFlags};
use crate::kernel::Kernel;
use crate::migrate::Mode;
use crate::page::{Order, Pfn};
use crate::page_alloc::{AllocFlags, Capture, Request, Wanted};
use crate::sync::atomic::Ordering::Relaxed;
use crate::trace::Event;
use crate::units::{CompactPriority, CompactResult, ZoneId};

impl<H: Devices> Kernel<H> {
    /// Compacts for a request: how it ended, and a block that it captured on the way, which is not prepared for use.
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
        let mut result = CompactResult::Skipped;
        for (_, entry) in req.candidates() {
            let zone = self.mem.zone_at(entry);
            if !is_full && self.refuses(cx, zone, req.order) {
                result = result.max(CompactResult::Deferred);
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
            let (status, page) = self.compact_and_capture(cx, zone.id(), &mut goal, req.order);
            result = result.max(status);
            match status {
                CompactResult::Success => {
                    self.note_success(cx, zone, req.order, false);
                    return (result, page);
                }
                CompactResult::Complete | CompactResult::Partial if mode != Mode::Async => {
                    self.note_failure(cx, zone, req.order);
                }
                _ => {}
            }
            // A run that waits for nothing leaves the zones after the first to those that do, once others want
            // the CPU; no host tells, so it goes on.
            if cx.is_dying() {
                break;
            }
        }
        (result, None)
    }

    fn compact_and_capture(
        &self,
        cx: &Cx<'_, H>,
        zone: ZoneId,
        goal: &mut Goal,
        order: Order,
    ) -> (CompactResult, Option<Pfn>) {
        let Some(populated) = self.mem.zone_by_id(zone) else {
            return (CompactResult::Skipped, None);
        };
        // Who works for others has nobody to give a block to.
        if cx.flags().contains(TaskFlags::KTHREAD) {
            return (self.compact_counted(cx, populated, goal), None);
        }
        let capture: &Capture = cx.local();
        capture.begin(Wanted { zone, order });
        let status =
            cx.with_flag(TaskFlags::CAPTURING, || self.compact_counted(cx, populated, goal));
        match capture.end() {
            Some(pfn) => (CompactResult::Success, Some(pfn)),
            None => (status, None),
        }
    }

    fn compact_counted(
        &self,
        cx: &Cx<'_, H>,
        zone: &crate::zone::Zone<H>,
        goal: &mut Goal,
    ) -> CompactResult {
        self.compact_zone(cx, zone, goal).0
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
