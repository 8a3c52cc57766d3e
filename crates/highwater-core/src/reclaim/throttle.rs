//! Slowing reclaimers down (spec 02 §16).
//!
//! A reclaimer that meets only pages it can do nothing with sleeps until something changes, or for a
//! while. This file has the rules of 6.1 (`Throttle61`); other policies behave the same for now.
//!
//! | reason | sleeps at most | woken by |
//! |---|---|---|
//! | WRITEBACK | HZ/10 | writeback of 32 pages for each sleeper |
//! | ISOLATED | HZ/50 | the next reclaimer that finds few pages isolated |
//! | NOPROGRESS | a tick, if half of what is reclaimable is being written | a reclaimer with progress |
//! | CONGESTED | the same | nobody |
//!
//! From: [`super::node`], [`super::inactive`], [`super::direct`], `page_cache::dirty` · to: wait
//! queues.

use super::Control;
use super::budget::{CLUSTER, MAX_FAILURES};
use crate::host::{Cx, Devices, HZ, NS_PER_JIFFY, Probe, TaskFlags};
use crate::kernel::Kernel;
use crate::sync::atomic::Ordering::{AcqRel, Relaxed};
use crate::trace::{Event, VmscanEvent};
use crate::vmstat::{NodeStat, ZoneStat};
use crate::zone::NodeId;

/// Why a reclaimer sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ThrottleReason {
    /// Pages at the tail are under writeback.
    Writeback = 0,
    /// Too many pages are isolated.
    Isolated = 1,
    /// Nothing could be reclaimed.
    NoProgress = 2,
    /// Every dirty page met was under writeback and marked.
    Congested = 3,
}

impl ThrottleReason {
    /// The name trace output uses.
    pub const fn name(self) -> &'static str {
        match self {
            ThrottleReason::Writeback => "VMSCAN_THROTTLE_WRITEBACK",
            ThrottleReason::Isolated => "VMSCAN_THROTTLE_ISOLATED",
            ThrottleReason::NoProgress => "VMSCAN_THROTTLE_NOPROGRESS",
            ThrottleReason::Congested => "VMSCAN_THROTTLE_CONGESTED",
        }
    }

    /// Longest sleep, in ticks.
    const fn timeout(self) -> u64 {
        match self {
            ThrottleReason::Writeback => HZ / 10,
            ThrottleReason::Isolated => HZ / 50,
            ThrottleReason::NoProgress | ThrottleReason::Congested => 1,
        }
    }

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
    written.saturating_sub(at_start) > CLUSTER * sleepers as u64
}

/// True if waiting would be for nothing: less than half of what is reclaimable is being written.
const fn too_little_pending(write_pending: u64, reclaimable: u64) -> bool {
    2 * write_pending <= reclaimable
}

/// True if a reclaimer does well: others may go on too.
const fn is_efficient(nr_scanned: u64, nr_reclaimed: u64) -> bool {
    nr_reclaimed > nr_scanned >> 3
}

impl<H: Devices> Kernel<H> {
    /// Sleeps as the policy says (§16.4).
    pub(crate) fn reclaim_throttle(&self, cx: &Cx<'_, H>, node: NodeId, reason: ThrottleReason) {
        let task = cx.flags();
        // Kernel threads may be what writes the pages.
        if task.contains(TaskFlags::KTHREAD) && !task.contains(TaskFlags::KSWAPD) {
            cx.host.yield_now();
            return;
        }
        let state = &self.reclaim[node.idx()];
        match reason {
            ThrottleReason::Writeback => {
                if state.nr_writeback_throttled.fetch_add(1, AcqRel) == 0 {
                    let written =
                        self.mem.node(node).stats.read(NodeStat::ThrottledWritten as usize);
                    state.nr_reclaim_start.store(written, Relaxed);
                }
            }
            ThrottleReason::NoProgress | ThrottleReason::Congested => {
                if self.skips_throttle(node) {
                    cx.host.yield_now();
                    return;
                }
            }
            ThrottleReason::Isolated => {}
        }
        let timeout = reason.timeout();
        self.plug_flush(cx);
        let queue = &state.reclaim_wait[reason as usize];
        let left = queue.sleep_jiffies(cx, reason.why(), timeout);
        if reason == ThrottleReason::Writeback {
            state.nr_writeback_throttled.fetch_sub(1, AcqRel);
        }
        let usec = |jiffies: u64| (jiffies * NS_PER_JIFFY / 1000) as u32;
        cx.event(Event::Vmscan(VmscanEvent::Throttled {
            nid: node,
            usec_timeout: usec(timeout),
            usec_delayed: usec(timeout - left.min(timeout)),
            reason,
        }));
    }

    /// True if a sleep for progress is not worth it: the node is hopeless, or little of what it
    /// could give is being written.
    fn skips_throttle(&self, node: NodeId) -> bool {
        if self.reclaim[node.idx()].kswapd_failures.load(Relaxed) >= MAX_FAILURES {
            return true;
        }
        let (mut pending, mut reclaimable) = (0, 0);
        for zone in self.mem.zones_of(node).filter(|zone| zone.managed() != 0) {
            reclaimable += self.mem.reclaimable(zone, self.swap.nr_free() > 0);
            pending += zone.stats.read(ZoneStat::ZoneWritePending as usize);
        }
        too_little_pending(pending, reclaimable)
    }

    /// After a direct reclaimer's round over its zones: if it does well the others go on, if it gets
    /// nowhere to the end it waits (`consider_reclaim_throttle`).
    pub(super) fn consider_throttle(&self, cx: &Cx<'_, H>, node: NodeId, sc: &Control) {
        if is_efficient(sc.nr_scanned, sc.nr_reclaimed) {
            let queue = &self.reclaim[node.idx()].reclaim_wait[ThrottleReason::NoProgress as usize];
            queue.wake_all(cx.host, cx.cpu());
        } else if !sc.is_kswapd && sc.priority == 1 && sc.nr_reclaimed == 0 {
            self.reclaim_throttle(cx, node, ThrottleReason::NoProgress);
        }
    }

    /// Writeback of pages of a node ended: wakes who waits for that (§16.4). From interrupts.
    #[inline]
    pub(crate) fn account_writeback_end(&self, cx: &Cx<'_, H>, node: NodeId, pages: u64) {
        let state = &self.reclaim[node.idx()];
        let sleepers = state.nr_writeback_throttled.load(Relaxed);
        if sleepers == 0 {
            return;
        }
        let stats = &self.mem.node(node).stats;
        stats.add(cx.cpu(), NodeStat::ThrottledWritten as usize, pages as i64);
        let written = stats.read(NodeStat::ThrottledWritten as usize);
        if enough_written(written, state.nr_reclaim_start.load(Relaxed), sleepers) {
            let queue = &state.reclaim_wait[ThrottleReason::Writeback as usize];
            queue.wake_all(cx.host, cx.cpu());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writeback_wake_23_15() {
        assert!(!enough_written(10_096, 10_000, 3));
        assert!(enough_written(10_097, 10_000, 3));
        assert!(enough_written(10_201, 10_000, 4), "the bar was passed before the fourth came");
    }

    #[test]
    fn efficiency_and_skip_23_16() {
        assert!(!is_efficient(800, 100));
        assert!(is_efficient(800, 101));
        assert!(too_little_pending(500_000, 1_000_000));
        assert!(!too_little_pending(500_001, 1_000_000));
    }
}
