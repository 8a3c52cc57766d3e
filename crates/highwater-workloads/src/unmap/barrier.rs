//! A barrier at which tasks wait for each other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use highwater_core::host::{Cx, Tasks};
use highwater_core::wait::WaitQueue;

/// Holds tasks until all have arrived; reusable.
pub struct Barrier<H: Tasks> {
    parties: u64,
    arrived: AtomicU64,
    /// A party will not come any more: no task waits.
    is_open: AtomicBool,
    queue: WaitQueue<H>,
}

impl<H: Tasks> Barrier<H> {
    /// A barrier for `parties` tasks.
    pub fn new(host: &H, parties: usize) -> Self {
        let queue = WaitQueue::new(host);
        let (arrived, is_open) = (AtomicU64::new(0), AtomicBool::new(false));
        Barrier { parties: parties as u64, arrived, is_open, queue }
    }

    /// Number of tasks that meet here.
    pub fn parties(&self) -> u64 {
        self.parties
    }

    /// The caller gave up: the others do not wait for it, now or later.
    pub fn open(&self, cx: &Cx<'_, H>) {
        self.is_open.store(true, Ordering::SeqCst);
        self.queue.wake_all(cx.host, cx.cpu());
    }

    /// Waits until every party has called this as often as the caller, or one has given up.
    pub fn wait(&self, cx: &Cx<'_, H>) {
        let mine = self.arrived.fetch_add(1, Ordering::SeqCst) + 1;
        let all_here = mine.div_ceil(self.parties) * self.parties;
        if mine == all_here {
            self.queue.wake_all(cx.host, cx.cpu());
        } else {
            let is_open = || self.is_open.load(Ordering::SeqCst);
            let here = || is_open() || self.arrived.load(Ordering::SeqCst) >= all_here;
            self.queue.wait(cx, "the other processes", here);
        }
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::host::{CpuId, Solo};

    use super::*;

    #[test]
    fn nobody_waits_for_one_who_gave_up() {
        let host = Solo::default();
        let cx = Cx::new(&host, CpuId(0));
        let barrier = Barrier::new(&host, 2);
        barrier.open(&cx);
        // A wait on this host would panic.
        (0..3).for_each(|_| barrier.wait(&cx));
    }
}
