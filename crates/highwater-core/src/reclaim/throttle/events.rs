//! Waits for events that other tasks cause (rules/throttling#variants, rules/throttling#reasons).
//!
//! | reason | woken by |
//! |---|---|
//! | WRITEBACK | the end of writeback of 32 pages for each sleeper |
//! | ISOLATED | the next reclaimer that finds few pages isolated |
//! | NOPROGRESS | a direct reclaimer with progress |
//! | CONGESTED | nothing |
//!
//! Each node has a queue for each reason, so an event wakes only tasks that wait for this reason on
//! this node.
//!
//! No condition is checked between the decision to sleep and the sleep: a wake-up in between is
//! lost, and the timeout covers it. The limit of WRITEBACK counts from the first of a group of
//! sleepers; a task that joins after it was passed is woken by the next page.
//!
//! ```text
//!  pages written ──▶   0        32        64        96       128
//!  A sleeps            │────────▶ A alone: woken at 33
//!  A, B, C sleep       │────────────────────────────▶ all woken at 97
//!  D joins, limit passed│                                   ─▶ at the next page
//! ```
//!
//! The limit is a batch per sleeper: with fewer pages all woken tasks would scan the same tail
//! again. Progress of another task (NOPROGRESS) wakes tasks that have no other reason to continue:
//! if one gets pages, others may too.
//!
//! CONGESTED is a pause for no particular event, so nothing wakes it.
//!
//! Synchronisation: single words and the queues' own locks. Ends of writeback come from interrupts.
//!
//! From: [`super`], ends of writeback · to: `wait`, [`super::demand`].

use super::demand::wait_class;
use crate::config::WakeCount;
use crate::host::{Cx, Devices, NS_PER_JIFFY, Phase, Probe, TaskFlags};
use crate::kernel::Kernel;
use crate::sync::atomic::Ordering::{AcqRel, Relaxed};
use crate::trace::Event;
use crate::units::SWAP_CLUSTER_MAX;
use crate::units::ThrottleReason;
use crate::vmstat::{NodeStat, ZoneStat};
use crate::wait::WaitQueue;
use crate::zone::NodeId;

impl ThrottleReason {
    /// The reason in reports about a sleeping task.
    const fn why(self) -> &'static str {
        match self {
            ThrottleReason::Writeback => "writeback of pages at the tail",
            ThrottleReason::Isolated => "isolated pages",
            ThrottleReason::NoProgress => "progress of reclaim",
            ThrottleReason::Congested => "congestion of reclaim",
        }
    }
}

/// True once enough pages were written for the reclaimers that wait for that.
const fn enough_written(written: u64, at_start: u64, sleepers: u32) -> bool {
    written.saturating_sub(at_start) > SWAP_CLUSTER_MAX * sleepers as u64
}

/// True if the wait would be useless: at most half of the reclaimable pages are being written
/// (rules/throttling#skip). Reclaim could have taken the rest, so the disk is not the problem.
const fn too_little_pending(write_pending: u64, reclaimable: u64) -> bool {
    2 * write_pending <= reclaimable
}

/// Ticks as a trace shows them.
pub(super) const fn usec(jiffies: u64) -> u32 {
    (jiffies * NS_PER_JIFFY / 1000) as u32
}

impl<H: Devices> Kernel<H> {
    /// Puts a reclaimer to sleep for a reason until it is woken or its timeout ends
    /// (rules/throttling#reasons).
    ///
    /// Linux 5.16 on: same name.
    pub(crate) fn reclaim_throttle(&self, cx: &Cx<'_, H>, node: NodeId, reason: ThrottleReason) {
        let _phase = cx.phase(Phase::Throttle);
        let task = cx.flags();
        // Kernel threads may be the ones that write the pages. kswapd is not: it waits for their
        // work.
        if task.contains(TaskFlags::KTHREAD) && !task.contains(TaskFlags::KSWAPD) {
            cx.host.yield_now();
            return;
        }
        let is_skipped = match reason {
            ThrottleReason::NoProgress | ThrottleReason::Congested => {
                self.throttle_policy().skip_unless_pending && self.skips_throttle(node)
            }
            ThrottleReason::Writeback | ThrottleReason::Isolated => false,
        };
        if is_skipped {
            cx.host.yield_now();
            return;
        }
        let (share, timeout) = self.throttle_timeout(cx, reason);
        // First, because it may sleep for a tag, and tasks counted below are about to wait.
        self.plug_flush(cx);
        // The group's start is recorded after it is counted. A write that ends in between is
        // compared with the last group's start, which is lower: at worst it wakes a task too early.
        let state = self.reclaim.node(node);
        let is_writeback = reason == ThrottleReason::Writeback;
        if is_writeback && state.nr_writeback_throttled.fetch_add(1, AcqRel) == 0 {
            let written = self.mem.node(node).stats.read(NodeStat::ThrottledWritten as usize);
            state.nr_reclaim_start.store(written, Relaxed);
        }
        let queue = self.throttle_queue(node, reason, share);
        let left = queue.sleep_jiffies(cx, reason.why(), timeout);
        if reason == ThrottleReason::NoProgress {
            self.note_sleep(cx, left == 0);
        }
        if is_writeback {
            state.nr_writeback_throttled.fetch_sub(1, AcqRel);
        }
        cx.event(Event::Throttled {
            nid: node,
            usec_timeout: usec(timeout),
            usec_delayed: usec(timeout - left.min(timeout)),
            reason,
        });
    }

    /// The queue for a task that sleeps for `share` ticks. If waits for progress are divided, each
    /// length has a queue, and the shortest are woken first.
    fn throttle_queue(&self, node: NodeId, reason: ThrottleReason, share: u64) -> &WaitQueue<H> {
        let state = self.reclaim.node(node);
        let policy = self.throttle_policy();
        if reason == ThrottleReason::NoProgress && policy.progress_wakes == WakeCount::PerBatch {
            let longest = policy.no_progress_jiffies.into();
            return &state.progress_wait[wait_class(share, longest)];
        }
        &state.reclaim_wait[reason as usize]
    }

    /// A direct reclaimer got pages with little effort, `pages` of them since its last report:
    /// wakes tasks that wait for this. All of them, or, if waits have an order, one for each batch
    /// of pages, the shortest wait first.
    pub(super) fn wake_for_progress(&self, cx: &Cx<'_, H>, node: NodeId, pages: u64) {
        self.note_sleep(cx, false);
        if self.throttle_policy().progress_wakes == WakeCount::All {
            return self.wake_throttled(cx, node, ThrottleReason::NoProgress);
        }
        // As many as could find a batch each: a reclaimer that is woken for nothing scans for nothing.
        let mut left = pages.div_ceil(SWAP_CLUSTER_MAX);
        for queue in &self.reclaim.node(node).progress_wait {
            let nr = u64::from(queue.len()).min(left);
            (0..nr).for_each(|_| queue.wake_one(cx.host, cx.cpu()));
            left -= nr;
        }
    }

    /// How long the caller sleeps for a reason, and the longest sleep, in ticks. They differ after
    /// useless sleeps for progress.
    fn throttle_timeout(&self, cx: &Cx<'_, H>, reason: ThrottleReason) -> (u64, u64) {
        let policy = self.throttle_policy();
        let longest = match reason {
            ThrottleReason::Writeback => policy.node_pass_jiffies,
            ThrottleReason::Isolated => policy.isolated_jiffies,
            ThrottleReason::NoProgress => policy.no_progress_jiffies,
            ThrottleReason::Congested => policy.congested_jiffies,
        };
        let longest = longest.into();
        let share = self.shared_timeout(cx, longest);
        let timeout = match reason {
            ThrottleReason::NoProgress => self.after_vain_sleeps(cx, share, longest),
            _ => share,
        };
        (share, timeout)
    }

    /// Reports whether a sleep for progress is not worth it: the node is hopeless, or little of
    /// what it could give is being written. Then the task should continue, if necessary to the OOM
    /// killer.
    ///
    /// Linux 5.16 on.
    #[doc(alias = "skip_throttle_noprogress")]
    fn skips_throttle(&self, node: NodeId) -> bool {
        if self.mem.node(node).is_hopeless() {
            return true;
        }
        let (mut pending, mut reclaimable) = (0, 0);
        for zone in self.mem.zones_of(node).filter(|zone| zone.managed() != 0) {
            reclaimable += self.mem.reclaimable(zone, self.swap.nr_free() > 0);
            pending += zone.stats.read(ZoneStat::ZoneWritePending as usize);
        }
        too_little_pending(pending, reclaimable)
    }

    /// Wakes all tasks that wait for a reason on a node.
    ///
    /// Linux 5.16 on.
    #[doc(alias = "wake_throttle_isolated")]
    #[inline]
    pub(crate) fn wake_throttled(&self, cx: &Cx<'_, H>, node: NodeId, reason: ThrottleReason) {
        self.reclaim.node(node).reclaim_wait[reason as usize].wake_all(cx.host, cx.cpu());
    }

    /// Counts ended writeback of a node and wakes reclaimers that wait for it
    /// (rules/throttling#writeback-wake). From interrupts.
    ///
    /// Linux 5.16 on.
    #[doc(alias = "__acct_reclaim_writeback")]
    #[doc(alias = "acct_reclaim_writeback")]
    #[inline]
    pub(crate) fn account_writeback_end(&self, cx: &Cx<'_, H>, node: NodeId, pages: u64) {
        let state = self.reclaim.node(node);
        // Nobody waits, as a rule: then this is all that it costs each page that is written.
        let sleepers = state.nr_writeback_throttled.load(Relaxed);
        if sleepers == 0 {
            return;
        }
        let stats = &self.mem.node(node).stats;
        stats.add(cx.cpu(), NodeStat::ThrottledWritten as usize, pages as i64);
        // The cheap count, in which other CPUs' last pages are missing: sleepers may be woken that much late.
        let written = stats.read(NodeStat::ThrottledWritten as usize);
        if enough_written(written, state.nr_reclaim_start.load(Relaxed), sleepers) {
            self.wake_throttled(cx, node, ThrottleReason::Writeback);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enough_writeback_wakes() {
        assert!(!enough_written(10_096, 10_000, 3));
        assert!(enough_written(10_097, 10_000, 3));
        assert!(enough_written(10_201, 10_000, 4), "the bar was passed before the fourth came");
        // The example of rules/writeback#reclaim-hook.
        assert!(!enough_written(1128, 1000, 4) && enough_written(1129, 1000, 4));
    }

    #[test]
    fn nobody_waits_where_little_is_pending() {
        assert!(too_little_pending(500_000, 1_000_000));
        assert!(!too_little_pending(500_001, 1_000_000));
    }

    #[test]
    fn timeouts_in_microseconds() {
        assert_eq!([1, 5, 25, 26, 125].map(usec), [4000, 20_000, 100_000, 104_000, 500_000]);
    }
}
