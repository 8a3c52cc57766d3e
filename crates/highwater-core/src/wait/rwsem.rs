//! Sleeping reader-writer lock: an address space's (`mmap_lock`), a file's.

use super::WaitQueue;
use crate::host::{Cx, Tasks};
use crate::sync::atomic::{AtomicU32, Ordering};

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
        // Not `then_some`: a guard that is made and thrown away would give up what it never had.
        self.try_reader().then(|| ReadGuard { sem: self, cx })
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
        self.try_writer().then(|| WriteGuard { sem: self, cx })
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
        let before = sem.state.swap(1, Ordering::SeqCst);
        debug_assert_eq!(before, WRITER, "a writer is alone");
        sem.queue.wake_all(cx.host, cx.cpu());
        ReadGuard { sem, cx }
    }
}

impl<H: Tasks> Drop for ReadGuard<'_, '_, H> {
    fn drop(&mut self) {
        let readers = self.sem.state.fetch_sub(1, Ordering::SeqCst);
        debug_assert!((1..WRITER).contains(&readers), "a reader among {readers:#x}");
        if readers == 1 {
            self.sem.queue.wake_all(self.cx.host, self.cx.cpu());
        }
    }
}

impl<H: Tasks> Drop for WriteGuard<'_, '_, H> {
    fn drop(&mut self) {
        let before = self.sem.state.swap(0, Ordering::SeqCst);
        debug_assert_eq!(before, WRITER, "a writer is alone");
        self.sem.queue.wake_all(self.cx.host, self.cx.cpu());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{CpuId, Solo};

    #[test]
    fn tries_that_fail_change_nothing() {
        let host = Solo::default();
        let cx = Cx::new(&host, CpuId(0));
        let sem = RwSem::new(&host, "a test");
        let writer = sem.write(&cx);
        assert!(sem.try_read(&cx).is_none() && sem.try_write(&cx).is_none());
        let reader = writer.downgrade();
        assert!(sem.try_write(&cx).is_none());
        sem.writers_waiting.store(1, Ordering::SeqCst);
        assert!(sem.try_read(&cx).is_none(), "a writer waits");
        sem.writers_waiting.store(0, Ordering::SeqCst);
        let other = sem.try_read(&cx).expect("readers share");
        drop(reader);
        assert!(sem.try_write(&cx).is_none());
        drop(other);
        assert!(sem.try_write(&cx).is_some());
        assert_eq!(sem.state.load(Ordering::SeqCst), 0);
    }
}
