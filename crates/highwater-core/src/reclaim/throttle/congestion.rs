//! Waits for devices that are congested, up to 5.15 (rules/throttling#congestion-wait,
//! rules/block#congestion-waits).
//!
//! Reclaim that meets only dirty pages has to wait for a disk. So it checked the disk's queue: a
//! queue with nearly all of its 128 requests in use was *congested*, and the flag was cleared when
//! a few of them were done (rules/throttling#devices). There is one wait queue for all devices.
//!
//! Only a device that clears its flag ends such a wait early. Devices that never set it (all local
//! ones since 5.0) turn the unconditional wait into a sleep of full length and the conditional one
//! into nothing.
//!
//! | wait | device sets the flag | device never sets it |
//! |---|---|---|
//! | [`Kernel::congestion_wait`] | until the flag is cleared | the whole timeout |
//! | [`Kernel::wait_iff_congested`] | the same, if the flag is set now | returns at once |
//!
//! Neither checks the pages. A queue may be full of unrelated reads, or empty while the tail is
//! full of dirty pages whose write has not begun. Waits for events handle both better.
//!
//! Reclaim also skipped writing pages to congested devices. That had no effect: only kswapd writes
//! file pages, and kswapd and the swap cache were exempt.
//!
//! Synchronisation: the flag may change between the check and the sleep; the timeout covers it.

use super::events::usec;
use crate::block::Pool;
use crate::host::{Cx, Devices, Phase, Probe, Stall};
use crate::kernel::Kernel;
use crate::sync::atomic::Ordering::Relaxed;
use crate::trace::Event;
use crate::units::LruVecId;

impl<H: Devices> Kernel<H> {
    /// Sleeps until a device that was congested with background writes no longer is, `timeout` ticks
    /// at most. The trace shows the ticks that passed, so a full sleep shows one more than asked for.
    ///
    /// Linux up to 5.15: same name; reclaim sleeps in `reclaim_throttle` since.
    pub(super) fn congestion_wait(&self, cx: &Cx<'_, H>, timeout: u64) {
        let _phase = cx.phase(Phase::Throttle);
        // Requests that the task holds back are not under way: it would wait for itself.
        self.plug_flush(cx);
        let start = cx.host.jiffies();
        self.congestion_sleep(cx, timeout);
        cx.event(Event::CongestionWait {
            usec_timeout: usec(timeout),
            usec_delayed: usec(cx.host.jiffies() - start),
        });
    }

    /// Sleeps like `congestion_wait`, but only if a device is congested now and, where `vec` is
    /// given, the lists with that number are. Otherwise others may run.
    ///
    /// Linux up to 5.15: same name.
    pub(super) fn wait_iff_congested(&self, cx: &Cx<'_, H>, timeout: u64, vec: Option<LruVecId>) {
        let _phase = cx.phase(Phase::Throttle);
        self.plug_flush(cx);
        let start = cx.host.jiffies();
        let is_met = vec.is_none_or(|vec| self.reclaim.vec(vec).congested.load(Relaxed));
        if is_met && self.block.congestion.any(Pool::Async) {
            self.congestion_sleep(cx, timeout);
        } else {
            cx.host.yield_now();
        }
        cx.event(Event::WaitIffCongested {
            usec_timeout: usec(timeout),
            usec_delayed: usec(cx.host.jiffies() - start),
        });
    }

    fn congestion_sleep(&self, cx: &Cx<'_, H>, timeout: u64) {
        let _stall = cx.stall(Stall::Io);
        let queue = self.block.congestion.queue(Pool::Async);
        queue.sleep_jiffies(cx, "congestion of devices to clear", timeout);
    }

    /// Sleeps while too many pages are isolated, for the full time (5.15). They may be back after a
    /// millisecond, but nothing wakes the sleeper.
    pub(super) fn isolated_sleep(&self, cx: &Cx<'_, H>, timeout: u64) {
        let _phase = cx.phase(Phase::Throttle);
        self.plug_flush(cx);
        cx.host.sleep_jiffies(timeout);
    }
}
