//! A test-and-test-and-set spin lock.
//!
//! ```text
//!            exchange false -> true (acquire)
//!   free  ------------------------------------>  held
//!         <------------------------------------
//!                 store false (release)
//! ```
//!
//! A waiter reads until the lock looks free before it tries again, so that waiting does not take
//! the cache line from the holder. It also reads seldom ([`Wait`]).

#![allow(unsafe_code, reason = "a lock hands out references into its cell")]

use core::fmt;
use std::sync::Arc;

use highwater_core::host::{CpuId, Lock};

use super::LockMeter;
use super::guard::LockGuard;
use super::meter::{Meter, Waited};
use crate::sync::{AtomicBool, Ordering, UnsafeCell, Wait};

/// Mutual exclusion by spinning.
#[repr(C)]
pub struct SpinLock<T> {
    /// True while the lock is held. Release store in [`LockGuard`], acquire exchange in
    /// [`SpinLock::try_take`].
    held: AtomicBool,
    meter: Meter,
    value: UnsafeCell<T>,
}

// SAFETY: 1. `value` is reached only through a guard, and `held` lets one guard exist at a time;
// 2. taking acquires what the previous holder released, so accesses of different threads are
//    ordered; 3. a guard moves the right to access `T` between threads, hence `T: Send`.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    /// A free lock.
    pub fn new(value: T) -> SpinLock<T> {
        SpinLock::with_meter(value, None)
    }

    /// A free lock that counts into `meter`.
    pub fn with_meter(value: T, meter: Option<Arc<LockMeter>>) -> SpinLock<T> {
        SpinLock {
            held: AtomicBool::new(false),
            meter: Meter(meter),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the lock.
    #[inline]
    pub fn take(&self) -> LockGuard<'_, T> {
        if !self.try_take() {
            self.wait();
        }
        self.meter.taken();
        self.guard()
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_take_guard(&self) -> Option<LockGuard<'_, T>> {
        if !self.try_take() {
            return None;
        }
        self.meter.taken();
        Some(self.guard())
    }

    /// Pairs with the release store of the previous holder.
    #[inline(always)]
    fn try_take(&self) -> bool {
        self.held.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wait(&self) {
        let waited = Waited::start(&self.meter);
        let mut wait = Wait::seldom();
        loop {
            wait.relax();
            // Reads before trying: a read shares the cache line, an attempt takes it.
            if !self.held.load(Ordering::Relaxed) && self.try_take() {
                break;
            }
        }
        waited.end(&self.meter);
    }

    /// Makes the guard of a lock that was just taken.
    #[inline(always)]
    fn guard(&self) -> LockGuard<'_, T> {
        // SAFETY: callers have just set `held`, which lets one holder in at a time.
        unsafe { LockGuard::new(&self.value, &self.held, &self.meter) }
    }
}

impl<T> Lock<T> for SpinLock<T> {
    type Guard<'a>
        = LockGuard<'a, T>
    where
        T: 'a;

    #[inline]
    fn lock(&self, _: CpuId) -> LockGuard<'_, T> {
        self.take()
    }

    #[inline]
    fn try_lock(&self, _: CpuId) -> Option<LockGuard<'_, T>> {
        self.try_take_guard()
    }
}

impl<T> fmt::Debug for SpinLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpinLock").field("held", &self.held).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time() {
        let lock = SpinLock::new(0u64);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..20_000).for_each(|_| *lock.take() += 1));
            }
        });
        assert_eq!(*lock.take(), 80_000);
    }

    #[test]
    fn try_lock_fails_while_held_and_a_panic_releases() {
        let lock = SpinLock::new(());
        let guard = lock.take();
        assert!(lock.try_take_guard().is_none());
        drop(guard);
        let panicked = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
            let _guard = lock.take();
            std::panic::resume_unwind(Box::new(()));
        }));
        assert!(panicked.is_err() && lock.try_take_guard().is_some());
    }

    #[test]
    fn the_meter_sees_contention() {
        let meter = Arc::new(LockMeter::new(highwater_core::sync::order::LockClass::Zone));
        let lock = SpinLock::with_meter((), Some(Arc::clone(&meter)));
        std::thread::scope(|s| {
            let guard = lock.take();
            s.spawn(|| drop(lock.take()));
            std::thread::sleep(core::time::Duration::from_millis(20));
            drop(guard);
        });
        let seen = meter.counts();
        assert_eq!((seen.takings, seen.contended), (2, 1));
        assert!(seen.wait_ns > 1_000_000 && seen.wait_ns_max == seen.wait_ns, "{seen:?}");
        assert_eq!((seen.hold_ns, seen.worst_holder.as_str()), (0, ""), "not asked for");
    }

    #[test]
    fn holds_are_timed_if_asked() {
        let class = highwater_core::sync::order::LockClass::Zone;
        let meter = Arc::new(LockMeter::with_hold_times(class));
        let lock = SpinLock::with_meter((), Some(Arc::clone(&meter)));
        let slow = || {
            let _guard = lock.take();
            std::thread::sleep(core::time::Duration::from_millis(20));
        };
        std::thread::scope(|s| {
            let thread = std::thread::Builder::new().name("slow".to_owned());
            thread.spawn_scoped(s, slow).expect("a thread").join().expect("it ends");
            drop(lock.take());
        });
        let seen = meter.counts();
        assert_eq!((seen.takings, seen.worst_holder.as_str()), (2, "slow"));
        assert!(seen.hold_ns_max >= 20_000_000 && seen.hold_ns >= seen.hold_ns_max, "{seen:?}");
    }
}
