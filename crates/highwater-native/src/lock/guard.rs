//! Access to what a lock of this host protects.

#![allow(unsafe_code, reason = "a lock hands out references into its cell")]

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use super::meter::Meter;
use crate::sync::{AtomicBool, MutPtr, Ordering, UnsafeCell};

/// Access to the value of a [`SpinLock`](super::SpinLock) or a [`CpuLock`](super::CpuLock).
pub struct LockGuard<'a, T> {
    // Field order is drop order: the access ends before the lock is released.
    value: MutPtr<T>,
    _release: Release<'a>,
}

/// Clears the flag that let the holder in, on the thread that took the lock.
struct Release<'a> {
    flag: &'a AtomicBool,
    meter: &'a Meter,
    on: PhantomData<*mut ()>,
}

impl<'a, T> LockGuard<'a, T> {
    /// The guard of a lock that was just taken. Clearing `flag` releases the lock.
    ///
    /// # Safety
    /// The caller has just been let in by the lock whose value is in `value`, and makes no other
    /// guard before this one is dropped.
    #[inline(always)]
    pub(super) unsafe fn new(
        value: &'a UnsafeCell<T>,
        flag: &'a AtomicBool,
        meter: &'a Meter,
    ) -> LockGuard<'a, T> {
        let _release = Release { flag, meter, on: PhantomData };
        LockGuard { value: value.get_mut(), _release }
    }
}

impl Drop for Release<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.meter.released();
        self.flag.store(false, Ordering::Release);
    }
}

impl<T> Deref for LockGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: 1. the guard borrows the lock, so the cell is alive; 2. the guard exists, so no
        // other does (`new`); 3. `&self` allows no `&mut` meanwhile.
        unsafe { self.value.deref() }
    }
}

impl<T> DerefMut for LockGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; `&mut self` makes the reference the only one.
        unsafe { self.value.deref() }
    }
}

impl<T: fmt::Debug> fmt::Debug for LockGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
