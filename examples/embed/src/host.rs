//! The machine under the allocator: threads of the standard library, and a `Vec` as memory.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use highwater_core::embed::{Cost, CpuId, Event, Host, Lock, LockClass, Order, PAGE_SIZE, Pfn};

/// Threads, a clock, and the bytes of every frame from 0 on.
pub struct Board {
    bytes: Mutex<Vec<u8>>,
    start: Instant,
}

impl Board {
    /// A board with frames `0..nr_frames`.
    pub fn new(nr_frames: u64) -> Board {
        let bytes = vec![0; nr_frames as usize * PAGE_SIZE];
        Board { bytes: Mutex::new(bytes), start: Instant::now() }
    }

    /// Calls `with` with some bytes of a frame.
    fn with(&self, pfn: Pfn, offset: usize, len: usize, with: impl FnOnce(&mut [u8])) {
        let at = pfn.idx() * PAGE_SIZE + offset;
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        with(&mut bytes[at..at + len]);
    }
}

impl Host for Board {
    type Lock<T> = Guarded<T>;
    type CpuLock<T> = Guarded<T>;

    const HAS_DATA: bool = true;

    fn new_lock<T>(&self, _: LockClass, value: T) -> Guarded<T> {
        Guarded(Mutex::new(value))
    }

    fn new_cpu_lock<T>(&self, _: LockClass, _owner: CpuId, value: T) -> Guarded<T> {
        Guarded(Mutex::new(value))
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// The work itself takes the time, so nothing is charged.
    fn charge(&self, _: Cost, _: u32) {}

    fn frame_zero(&self, pfn: Pfn, order: Order) {
        self.with(pfn, 0, PAGE_SIZE << order.0, |bytes| bytes.fill(0));
    }

    fn frame_write(&self, pfn: Pfn, offset: usize, src: &[u8]) {
        self.with(pfn, offset, src.len(), |bytes| bytes.copy_from_slice(src));
    }

    fn frame_read(&self, pfn: Pfn, offset: usize, dst: &mut [u8]) {
        self.with(pfn, offset, dst.len(), |bytes| dst.copy_from_slice(bytes));
    }

    fn trace(&self, _: CpuId, _: &Event) {}

    fn yield_now(&self) {
        thread::yield_now();
    }

    fn sleep_jiffies(&self, jiffies: u64) {
        thread::sleep(Duration::from_millis(4 * jiffies));
    }
}

/// A value behind a lock of the standard library.
pub struct Guarded<T>(Mutex<T>);

impl<T> Lock<T> for Guarded<T> {
    type Guard<'a>
        = MutexGuard<'a, T>
    where
        T: 'a;

    fn lock(&self, _: CpuId) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_lock(&self, _: CpuId) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}
