//! Congestion flags (rules/block#congestion).
//!
//! Up to 4.20 a request queue had a fixed number of requests per direction. Its device was called
//! congested when nearly all of them were in use, until clearly fewer were. Later queues (blk-mq)
//! never report congestion. The policy decides which queue it is ([`DeviceCongestion`]), not the
//! device, because the queue belongs to the kernel.
//!
//! Not modelled for the old queues: submitters that continue beyond the limit in batches.

use crate::config::DeviceCongestion;
use crate::host::{CpuId, IoDirection, IoRequest, Tasks, Urgency};
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use crate::wait::WaitQueue;

/// Requests of each pool that an old queue took (`BLKDEV_MAX_RQ`).
pub(super) const LEGACY_REQUESTS: u32 = 128;

/// Which of an old queue's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Somebody waits for them: reads, and writes that say so.
    Sync = 0,
    /// Other writes.
    Async = 1,
}

impl Pool {
    /// The pool of a request.
    pub(super) const fn of(request: &IoRequest) -> Pool {
        match request.direction {
            IoDirection::Write if !matches!(request.urgency, Urgency::Sync) => Pool::Async,
            _ => Pool::Sync,
        }
    }
}

/// Computes the two thresholds of a queue of `nr` requests: congested at and above the first, no
/// longer below the second.
///
/// Linux up to 4.20: multi-queue devices, the only ones since, have no congestion flags.
#[doc(alias = "blk_queue_congestion_threshold")]
pub const fn thresholds(nr: u32) -> (u32, u32) {
    let on = nr - nr / 8 + 1;
    let on = if on > nr { nr } else { on };
    let off = nr.saturating_sub(nr / 8 + nr / 16 + 1);
    (on, if off < 1 { 1 } else { off })
}

/// Number of congested devices, by [`Pool`], and the tasks that wait for congestion to end.
#[derive(Debug)]
pub struct Congestion<H: Tasks> {
    nr: [AtomicU32; 2],
    wait: [WaitQueue<H>; 2],
}

impl<H: Tasks> Congestion<H> {
    pub(super) fn new(host: &H) -> Self {
        Congestion { nr: Default::default(), wait: [WaitQueue::new(host), WaitQueue::new(host)] }
    }

    /// True if some device is congested.
    pub(crate) fn any(&self, pool: Pool) -> bool {
        self.nr[pool as usize].load(SeqCst) != 0
    }

    /// Woken whenever a device no longer is.
    pub(crate) const fn queue(&self, pool: Pool) -> &WaitQueue<H> {
        &self.wait[pool as usize]
    }
}

/// A device's own flags, by [`Pool`].
#[derive(Debug, Default)]
pub(super) struct Flags([AtomicBool; 2]);

impl Flags {
    /// Sets or clears a device's congestion flag after a request was taken or given back; `used` of
    /// the pool's requests are in use now.
    #[doc(alias = "set_bdi_congested")]
    #[doc(alias = "clear_bdi_congested")]
    #[doc(alias = "blk_set_congested")]
    #[doc(alias = "blk_clear_congested")]
    pub(super) fn update<H: Tasks>(
        &self,
        host: &H,
        cpu: CpuId,
        all: &Congestion<H>,
        pool: Pool,
        used: u32,
    ) {
        let (on, off) = thresholds(LEGACY_REQUESTS);
        let flag = &self.0[pool as usize];
        if used >= on && !flag.swap(true, SeqCst) {
            all.nr[pool as usize].fetch_add(1, SeqCst);
        } else if used < off && flag.load(SeqCst) && flag.swap(false, SeqCst) {
            all.nr[pool as usize].fetch_sub(1, SeqCst);
            all.wait[pool as usize].wake_all(host, cpu);
        }
    }

    /// Reports whether the device is congested.
    #[doc(alias = "bdi_congested")]
    pub(super) fn is_set(&self, pool: Pool) -> bool {
        self.0[pool as usize].load(SeqCst)
    }
}

/// True if a kernel's queues have these flags at all.
pub(super) const fn exist(devices: DeviceCongestion) -> bool {
    matches!(devices, DeviceCongestion::Legacy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_congested_above_their_thresholds() {
        assert_eq!(
            [128, 256, 64, 31].map(thresholds),
            [(113, 103), (225, 207), (57, 51), (29, 26)]
        );
    }
}
