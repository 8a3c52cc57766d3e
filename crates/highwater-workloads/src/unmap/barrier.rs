//! A place where tasks wait for each other.

use std::sync::atomic::{AtomicU64, Ordering};

use highwater_core::host::{Cx, Tasks};
use highwater_core::sync::WaitQueue;

/// Holds tasks until all have come; used over and over.
pub struct Barrier<H: Tasks> {
    parties: u64,
    arrived: AtomicU64,
    queue: WaitQueue<H>,
}

impl<H: Tasks> Barrier<H> {
    /// A barrier for `parties` tasks.
    pub fn new(host: &H, parties: usize) -> Self {
        let queue = WaitQueue::new(host);
        Barrier { parties: parties as u64, arrived: AtomicU64::new(0), queue }
    }

    /// Waits until every party has called this as often as the caller.
    pub fn wait(&self, cx: &Cx<'_, H>) {
        let mine = self.arrived.fetch_add(1, Ordering::SeqCst) + 1;
        let all_here = mine.div_ceil(self.parties) * self.parties;
        if mine == all_here {
            self.queue.wake_all(cx.host, cx.cpu());
        } else {
            let here = || self.arrived.load(Ordering::SeqCst) >= all_here;
            self.queue.wait(cx, "the other processes", here);
        }
    }
}
