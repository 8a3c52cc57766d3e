//! Locks that contend in virtual time, with the statistics of lock_stat.
//!
//! Key types: [`LockClass`] (costs and counters of a kind of lock), [`SimLock`] (a lock around a
//! value), [`LockGuard`]. Taking and handing over a lock is in `gate.rs`.
//!
//! # How a lock knows its future
//!
//! A task runs ahead of global time. It may take a lock, charge its work and release the lock
//! before another task, whose clock lies inside that critical section, gets to run. The lock keeps
//! the release time: a task that arrives earlier than its `free_at_ns` spins until then. If instead
//! the holder is suspended inside the section (by a nested wait), the lock is marked held, later
//! arrivals queue, and the release hands over to the first. Arrivals are in global time order,
//! because taking a lock synchronises first. So the queue is a ticket lock's.
//!
//! | arrival finds | spin lock | sleeping lock |
//! |---|---|---|
//! | free, and free in its own past | takes it | takes it |
//! | free, but only from a later time on | CPU busy until then | the same (optimistic spinning) |
//! | held by a suspended task | CPU busy until handed over | sleeps until handed over |
//!
//! Private locks ([`LockKind::Private`]) are spin locks that nearly always their own CPU takes:
//! their uncontended path does not synchronise.
//!
//! # The common case
//!
//! Nearly every lock operation finds the lock free and last taken by the same CPU, and releases it
//! before another task arrives. That takes a few dozen instructions at each end, so the checks read
//! few words. A held lock is one that is free at no time (`NEVER`). One number per kind of lock
//! says up to when the fast path may take it ([`Inner::lock_before_ns`]). Everything else,
//! including all of sleeping locks, is in separate slow functions.
//!
//! Everything is on one OS thread; mutual exclusion is the `free_at_ns` cell.
//!
//! [`Inner::lock_before_ns`]: crate::engine::executor::Inner::lock_before_ns

#![allow(
    unsafe_code,
    reason = "a lock hands out references to what it protects; a suspended task names the one it comes to"
)]

mod class;
mod gate;

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

pub use self::class::{LockClass, LockCosts, LockKind, LockStats, LongestHold};
pub(crate) use self::gate::Arrival;
use self::gate::Gate;
use crate::cpu::CpuId;
use crate::engine::Sim;

/// A lock around a `T`. The fields of the fast path are adjacent, before the value.
#[repr(C)]
pub struct SimLock<T> {
    gate: Gate,
    value: UnsafeCell<T>,
}

/// Access to a locked value; unlocks when dropped.
pub struct LockGuard<'a, T> {
    lock: &'a SimLock<T>,
}

impl<T> SimLock<T> {
    /// A free lock.
    pub fn new(sim: &Sim, class: &Rc<LockClass>, value: T) -> Self {
        Self::with_owner(sim, class, CpuId(0), value)
    }

    /// A free lock whose cache line `owner` has.
    pub fn with_owner(sim: &Sim, class: &Rc<LockClass>, owner: CpuId, value: T) -> Self {
        SimLock { gate: Gate::new(sim, class, owner), value: UnsafeCell::new(value) }
    }

    /// Takes the lock, waiting in virtual time if need be. First come, first served.
    ///
    /// # Panics
    /// If the running task holds the lock already. Also at the end of the simulation, if a
    /// destructor of a task that is unwound wants a lock that another unfinished task holds.
    #[inline]
    pub fn lock(&self) -> LockGuard<'_, T> {
        self.gate.lock();
        LockGuard { lock: self }
    }

    /// Takes the lock if it is free at the caller's time.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<LockGuard<'_, T>> {
        self.gate.try_lock().then(|| LockGuard { lock: self })
    }

    /// Takes and releases the lock and does `user_ns` of user work, repeatedly, as long as every
    /// repetition would take the fast path: no wait, no tick due, slice not over, and at the end no
    /// pending event that is more than `ahead_ns` older than the task's clock. `times` gets the
    /// maximum number of repetitions and returns the number to do.
    pub(crate) fn again(
        &self,
        user_ns: u64,
        ahead_ns: u64,
        times: impl FnOnce(&T, u32) -> u32,
    ) -> u32 {
        // SAFETY: the gate calls this with the lock taken, and no other task can see the lock
        // before it returns.
        self.gate.again(user_ns, ahead_ns, |most| times(unsafe { &*self.value.get() }, most))
    }

    /// Reads the value without taking the lock, for samplers: nothing is charged and no time
    /// passes. `None` while a task is inside. `read` must not use this lock.
    pub(crate) fn peek<R>(&self, read: impl FnOnce(&T) -> R) -> Option<R> {
        // SAFETY: 1. No task is inside, so no guard exists (see `LockGuard::deref`). 2. Everything is
        // on one thread, and `read` is not to take the lock: no guard is made before it returns.
        (!self.gate.is_held()).then(|| read(unsafe { &*self.value.get() }))
    }

    /// True if the lock is held at the caller's time.
    pub fn is_locked(&self) -> bool {
        self.gate.is_locked()
    }

    /// The value; `&mut self` proves that the lock is free.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// The value itself.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    /// The class's counters.
    pub fn class(&self) -> &LockClass {
        self.gate.class()
    }
}

impl<T> Deref for LockGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: 1. A guard is made only once its gate said that the lock is taken, and until `unlock` the gate
        // is held. `Gate::take_at_once` and `try_lock_slow` take one only while it is not; `take_contended`
        // and `handed_over` do the same or return after `hand_over` named the taker: at most one
        // guard exists. 2. `SimLock` is neither `Send` nor `Sync`, so no other thread is involved.
        // 3. `get_mut` and `into_inner` need the lock unborrowed, while a guard borrows it. 4. At
        // teardown, waits return at once, and `take_contended` panics if the lock is still held.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for LockGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; the guard itself is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for LockGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.gate.unlock();
    }
}
