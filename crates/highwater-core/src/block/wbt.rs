//! Writeback throttling (blk-wbt; rules/writeback#in-flight) keeps few buffered writes in flight.
//! So reads find the device nearly idle, and reclaim meets pages that are dirty rather than under
//! writeback.
//!
//! | written pages | requests in flight |
//! |---|---|
//! | [`Urgency::Background`] | a quarter of the depth (16 at most): 4 |
//! | [`Urgency::Normal`] | half of it: 8 |
//! | kswapd's pages, [`Urgency::Sync`] | all of it: 16; kswapd's are counted apart |
//! | anything, while writers are held up | all of it |
//!
//! Requests proceed in the order of their arrival: one that has to wait delays those behind it,
//! even if their bound is higher.
//!
//! The last line applies for a second after a task slept in `balance_dirty_pages` because of the
//! device: tasks then wait for its writes. Not modelled: limits that shrink while reads take longer
//! than a target.
//!
//! Kernels before 4.10 do not have it, and neither do devices without a queue.

use super::{BlockDevice, WriteClass};
use crate::host::{Cx, Devices, HZ, IoDirection, IoRequest, TaskFlags, Urgency};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use crate::wait::WaitQueue;

/// Requests that count, at most.
const DEPTH_MAX: u32 = 16;
/// Ticks for which a held-up writer counts.
const RECENT: u64 = HZ;

/// Counts write requests in flight by class and holds the tasks that wait to add one (`rq_wb`).
#[doc(alias = "rq_wb")]
pub(super) struct WriteThrottle<H: Devices> {
    in_flight: [AtomicU32; 2],
    wait: [WaitQueue<H>; 2],
    /// Tick at which a writer was held up last, plus one; 0 = never.
    held_up_at: AtomicU64,
}

/// Requests that may be in flight.
const fn limit(depth: u32, urgency: Urgency) -> u32 {
    let depth = if depth < DEPTH_MAX { depth } else { DEPTH_MAX };
    let part = match urgency {
        Urgency::Background => depth.div_ceil(4),
        Urgency::Normal => depth.div_ceil(2),
        Urgency::Sync => depth,
    };
    if part == 0 { 1 } else { part }
}

impl<H: Devices> WriteThrottle<H> {
    pub(super) fn new(host: &H) -> Self {
        WriteThrottle {
            in_flight: [AtomicU32::new(0), AtomicU32::new(0)],
            wait: [WaitQueue::new(host), WaitQueue::new(host)],
            held_up_at: AtomicU64::new(0),
        }
    }

    fn is_recent(&self, now: u64) -> bool {
        let held_up_at = self.held_up_at.load(Relaxed);
        held_up_at != 0 && now < held_up_at - 1 + RECENT
    }

    /// Waits until fewer writes of the request's class are in flight than the limit, then counts
    /// it.
    #[doc(alias = "wbt_wait")]
    pub(super) fn enter(&self, cx: &Cx<'_, H>, depth: u32, request: &mut IoRequest) {
        if request.direction == IoDirection::Read {
            return;
        }
        let is_kswapd = cx.flags().contains(TaskFlags::KSWAPD);
        let (class, index) =
            if is_kswapd { (WriteClass::Kswapd, 1) } else { (WriteClass::Other, 0) };
        let may_go = || {
            // Asked anew: writers may be held up while it waits.
            let is_urgent = is_kswapd || self.is_recent(cx.host.jiffies());
            let most = limit(depth, if is_urgent { Urgency::Sync } else { request.urgency });
            let more = |nr: u32| (nr < most).then_some(nr + 1);
            self.in_flight[index].fetch_update(SeqCst, Relaxed, more).is_ok()
        };
        self.wait[index].wait_in_turn(cx, "writes in flight to be fewer", may_go);
        request.write_class = class;
    }

    /// Uncounts a finished write request and lets the next waiter go on.
    #[doc(alias = "wbt_done")]
    pub(super) fn leave(&self, cx: &Cx<'_, H>, class: WriteClass) {
        let index = match class {
            WriteClass::Free => return,
            WriteClass::Other => 0,
            WriteClass::Kswapd => 1,
        };
        self.in_flight[index].fetch_sub(1, SeqCst);
        self.wait[index].prompt(cx.host, cx.cpu());
    }
}

impl<H: Devices> BlockDevice<H> {
    /// Records that a writer is held up by the device's pending writes.
    pub(crate) fn note_held_up(&self, now: u64) {
        if let Some(throttle) = &self.write_throttle {
            throttle.held_up_at.store(now + 1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_by_depth() {
        let all = [Urgency::Background, Urgency::Normal, Urgency::Sync];
        assert_eq!(all.map(|urgency| limit(64, urgency)), [4, 8, 16]);
        assert_eq!(all.map(|urgency| limit(2, urgency)), [1, 1, 2]);
        assert_eq!(all.map(|urgency| limit(0, urgency)), [1, 1, 1]);
    }
}
