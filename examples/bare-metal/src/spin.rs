//! A spin lock: without a scheduler, a waiter can only try again.
//!
//! On a real board, an interrupt handler that allocates must not wait for a lock held by the CPU
//! that it interrupts. Mask interrupts in `lock` and restore them when the guard drops.

#![allow(unsafe_code, reason = "a value behind a lock")]

use core::cell::UnsafeCell;
use core::hint::spin_loop;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};

use highwater_core::host::{CpuId, Lock};

/// A `T`, for one CPU at a time.
#[derive(Debug)]
pub struct SpinLock<T> {
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through a guard only, and there is one at a time.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    /// An unlocked lock.
    pub const fn new(value: T) -> Self {
        SpinLock { is_taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }
}

impl<T> Lock<T> for SpinLock<T> {
    type Guard<'a>
        = SpinGuard<'a, T>
    where
        T: 'a;

    fn lock(&self, cpu: CpuId) -> SpinGuard<'_, T> {
        loop {
            if let Some(guard) = self.try_lock(cpu) {
                return guard;
            }
            // A plain read does not take the cache line away from the holder.
            while self.is_taken.load(Ordering::Relaxed) {
                spin_loop();
            }
        }
    }

    fn try_lock(&self, _: CpuId) -> Option<SpinGuard<'_, T>> {
        // Acquire pairs with the release of the guard that was dropped before.
        let was_taken = self.is_taken.swap(true, Ordering::Acquire);
        // `then_some` would make a guard even on failure, and dropping it would release another
        // CPU's lock.
        (!was_taken).then(|| SpinGuard { lock: self, is_mut: PhantomData })
    }
}

/// Access until dropped.
#[derive(Debug)]
pub struct SpinGuard<'a, T> {
    lock: &'a SpinLock<T>,
    /// A guard may be shared with other CPUs only if the value may be.
    is_mut: PhantomData<&'a mut T>,
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one, and borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.is_taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_get_the_lock_leaves_it_alone() {
        let lock = SpinLock::new(());
        let held = lock.try_lock(CpuId(0));
        assert!(held.is_some() && lock.try_lock(CpuId(1)).is_none());
        assert!(lock.try_lock(CpuId(1)).is_none(), "still held");
        drop(held);
        assert!(lock.try_lock(CpuId(1)).is_some());
    }
}
