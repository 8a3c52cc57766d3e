//! Sleeping reader-writer lock: an address space's (`mmap_lock`), a file's.

use super::atomic::{AtomicU32, Ordering};
use super::wait::WaitQueue;
use crate::host::{Cx, Tasks};

const WRITER: u32 = 1 << 31;

/// Many readers or one writer; a waiting writer holds up new readers.
///
/// It protects what its owner says; it holds no value itself.
pub struct RwSem<H: Tasks> {
    /// [`WRITER`], or the number of readers.
    state: AtomicU32,
    writers_waiting: AtomicU32,
    queue: WaitQueue<H>,
    why: &'static str,
}

/// Shared access until dropped.
pub struct ReadGuard<'a, 'h, H: Tasks> {
    sem: &'a RwSem<H>,
    cx: &'a Cx<'h, H>,
}

/// Exclusive access until dropped.
pub struct WriteGuard<'a, 'h, H: Tasks> {
    sem: &'a RwSem<H>,
    cx: &'a Cx<'h, H>,
}

impl<H: Tasks> RwSem<H> {
    /// A free lock; `why` appears in reports of stuck tasks.
    pub fn new(host: &H, why: &'static str) -> Self {
        RwSem {
            state: AtomicU32::new(0),
            writers_waiting: AtomicU32::new(0),
            queue: WaitQueue::new(host),
            why,
        }
    }

    /// Takes it for reading.
    pub fn read<'a, 'h>(&'a self, cx: &'a Cx<'h, H>) -> ReadGuard<'a, 'h, H> {
        if !self.try_reader() {
            self.queue.wait(cx, self.why, || self.try_reader());
        }
        ReadGuard { sem: self, cx }
    }

    /// Takes it for reading if that needs no waiting.
    pub fn try_read<'a, 'h>(&'a self, cx: &'a Cx<'h, H>) -> Option<ReadGuard<'a, 'h, H>> {
        self.try_reader().then_some(ReadGuard { sem: self, cx })
    }

    /// Takes it for writing.
    pub fn write<'a, 'h>(&'a self, cx: &'a Cx<'h, H>) -> WriteGuard<'a, 'h, H> {
        if !self.try_writer() {
            self.writers_waiting.fetch_add(1, Ordering::SeqCst);
            self.queue.wait(cx, self.why, || self.try_writer());
            self.writers_waiting.fetch_sub(1, Ordering::SeqCst);
        }
        WriteGuard { sem: self, cx }
    }

    /// Takes it for writing if that needs no waiting.
    pub fn try_write<'a, 'h>(&'a self, cx: &'a Cx<'h, H>) -> Option<WriteGuard<'a, 'h, H>> {
        self.try_writer().then_some(WriteGuard { sem: self, cx })
    }

    fn try_reader(&self) -> bool {
        if self.writers_waiting.load(Ordering::SeqCst) != 0 {
            return false;
        }
        let take = |state: u32| (state & WRITER == 0).then_some(state + 1);
        self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, take).is_ok()
    }

    fn try_writer(&self) -> bool {
        self.state.compare_exchange(0, WRITER, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

impl<'a, 'h, H: Tasks> WriteGuard<'a, 'h, H> {
    /// Goes on as a reader; no writer comes in between.
    pub fn downgrade(self) -> ReadGuard<'a, 'h, H> {
        let (sem, cx) = (self.sem, self.cx);
        core::mem::forget(self);
        sem.state.store(1, Ordering::SeqCst);
        sem.queue.wake_all(cx.host, cx.cpu());
        ReadGuard { sem, cx }
    }
}

impl<H: Tasks> Drop for ReadGuard<'_, '_, H> {
    fn drop(&mut self) {
        if self.sem.state.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.sem.queue.wake_all(self.cx.host, self.cx.cpu());
        }
    }
}

impl<H: Tasks> Drop for WriteGuard<'_, '_, H> {
    fn drop(&mut self) {
        self.sem.state.store(0, Ordering::SeqCst);
        self.sem.queue.wake_all(self.cx.host, self.cx.cpu());
    }
}
