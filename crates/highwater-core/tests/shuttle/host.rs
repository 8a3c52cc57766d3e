//! A host whose threads and locks are shuttle's; it checks how locks nest.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex as StdMutex};

use highwater_core::host::{
    Cost, CpuId, Devices, Host, IoError, IoRequest, Lock, NS_PER_JIFFY, Tasks,
};
use highwater_core::page::{Order, Pfn};
use highwater_core::sync::order::LockClass;
use highwater_core::trace::{Event, Kind};
use shuttle::sync::atomic::AtomicU64;
use shuttle::sync::{Mutex, MutexGuard, TryLockError};
use shuttle::thread::{self, Thread, ThreadId};

/// Locks in the hands of threads, in the order in which they were taken.
#[derive(Clone, Default)]
struct Held(Arc<StdMutex<Vec<(ThreadId, LockClass)>>>);

impl Held {
    /// Classes the running thread holds.
    fn mine(&self) -> Vec<LockClass> {
        let me = thread::current().id();
        let all = self.0.lock().unwrap();
        all.iter().filter(|(owner, _)| *owner == me).map(|&(_, class)| class).collect()
    }

    /// May the running thread take a lock of this class?
    fn check(&self, inner: LockClass) {
        for outer in self.mine() {
            assert!(
                outer.may_nest(inner),
                "{} may not be taken while {} is held",
                inner.name(),
                outer.name()
            );
        }
    }

    /// Spinning locks must not be held by who sleeps.
    fn check_sleep(&self) {
        for outer in self.mine() {
            assert!(outer < LockClass::Pcp, "sleeps while {} is held", outer.name());
        }
    }
}

/// A host whose threads are shuttle's.
#[derive(Default)]
pub(crate) struct ShuttleHost<const DEFERS: bool = true> {
    held: Held,
    /// Time goes on by a nanosecond wherever another thread may go on.
    clock: AtomicU64,
    /// Nobody looks at trace events: what is done for many pages at once then is.
    is_untraced: bool,
}

impl<const DEFERS: bool> ShuttleHost<DEFERS> {
    /// A host that does nothing with trace events, or (false) one whose threads may change places at each.
    pub(crate) fn untraced(is_untraced: bool) -> Self {
        ShuttleHost { is_untraced, ..Self::default() }
    }

    /// Others may run here: shuttle switches threads at its own atomics.
    fn switch_point(&self) {
        self.clock.fetch_add(1, SeqCst);
    }
}

/// Shuttle's mutex, which says who holds it.
pub(crate) struct ShuttleLock<T> {
    value: Mutex<T>,
    class: LockClass,
    held: Held,
}

impl<T> ShuttleLock<T> {
    fn taken<'a>(&'a self, guard: MutexGuard<'a, T>) -> ShuttleGuard<'a, T> {
        let owner = thread::current().id();
        self.held.0.lock().unwrap().push((owner, self.class));
        ShuttleGuard { guard, owner, class: self.class, held: &self.held }
    }
}

impl<T> Lock<T> for ShuttleLock<T> {
    type Guard<'a>
        = ShuttleGuard<'a, T>
    where
        T: 'a;

    fn lock(&self, _: CpuId) -> ShuttleGuard<'_, T> {
        self.held.check(self.class);
        self.taken(self.value.lock().expect("no holder panicked"))
    }

    fn try_lock(&self, _: CpuId) -> Option<ShuttleGuard<'_, T>> {
        self.held.check(self.class);
        match self.value.try_lock() {
            Ok(guard) => Some(self.taken(guard)),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(_)) => panic!("no holder panicked"),
        }
    }
}

pub(crate) struct ShuttleGuard<'a, T> {
    guard: MutexGuard<'a, T>,
    owner: ThreadId,
    class: LockClass,
    held: &'a Held,
}

impl<T> Drop for ShuttleGuard<'_, T> {
    fn drop(&mut self) {
        // The entry goes first: letting go of the mutex lets others run.
        if let Ok(mut held) = self.held.0.lock()
            && let Some(at) = held.iter().rposition(|&h| h == (self.owner, self.class))
        {
            held.remove(at);
        }
    }
}

impl<T> std::ops::Deref for ShuttleGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> std::ops::DerefMut for ShuttleGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<const DEFERS: bool> Host for ShuttleHost<DEFERS> {
    type Lock<T> = ShuttleLock<T>;
    type CpuLock<T> = ShuttleLock<T>;

    const HAS_DATA: bool = false;
    const DEFERS_FREES: bool = DEFERS;

    fn new_lock<T>(&self, class: LockClass, value: T) -> ShuttleLock<T> {
        ShuttleLock { value: Mutex::new(value), class, held: self.held.clone() }
    }

    fn new_cpu_lock<T>(&self, class: LockClass, _: CpuId, value: T) -> ShuttleLock<T> {
        self.new_lock(class, value)
    }

    fn now_ns(&self) -> u64 {
        self.clock.load(SeqCst)
    }

    fn charge(&self, _: Cost, _: u32) {
        self.switch_point();
    }

    fn frame_zero(&self, _: Pfn, _: Order) {}

    fn frame_write(&self, _: Pfn, _: usize, _: &[u8]) {}

    fn frame_read(&self, _: Pfn, _: usize, _: &mut [u8]) {}

    fn trace(&self, _: CpuId, _: &Event) {
        if !self.is_untraced {
            self.switch_point();
        }
    }

    fn traces(&self, _: Kind) -> bool {
        !self.is_untraced
    }

    fn yield_now(&self) {
        self.held.check_sleep();
        thread::yield_now();
    }

    fn sleep_jiffies(&self, jiffies: u64) {
        self.held.check_sleep();
        self.clock.fetch_add(jiffies * NS_PER_JIFFY, SeqCst);
        thread::yield_now();
    }
}

impl<const DEFERS: bool> Tasks for ShuttleHost<DEFERS> {
    type Task = Thread;

    fn current(&self) -> Thread {
        thread::current()
    }

    fn park(&self, _: &'static str) {
        self.held.check_sleep();
        thread::park();
    }

    /// Time is up at once.
    fn park_jiffies(&self, _: &'static str, timeout: u64) -> u64 {
        self.sleep_jiffies(timeout);
        0
    }

    fn unpark(&self, task: &Thread) {
        task.unpark();
    }
}

/// Devices that are done at once.
impl<const DEFERS: bool> Devices for ShuttleHost<DEFERS> {
    fn submit(&self, request: IoRequest) -> Option<(IoRequest, Result<(), IoError>)> {
        Some((request, Ok(())))
    }
}
