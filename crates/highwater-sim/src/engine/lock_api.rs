//! Engine functions that locks call for the task that takes or holds them: arriving, spinning,
//! ending a wait, and charging time.

use super::clock::{next_tick_ns, pay_ticks};
use super::executor::{Inner, Sim};
use super::task::{Errand, TaskIndex, TaskState, WaitOn};
use crate::ledger::{BlockedBy, Pause};
use crate::lock::Arrival;

/// A suspended task with an [`Errand`]. Dropping this, when the task resumes or unwinds, ends the
/// errand and with it the borrow of the lock.
struct OnErrand<'a> {
    inner: &'a Inner,
    task: TaskIndex,
}

impl OnErrand<'_> {
    /// Ends the errand and returns its final state.
    fn end(self) -> Errand {
        let state = &mut *self.inner.state.borrow_mut();
        std::mem::replace(&mut state.tasks[self.task].errand, Errand::Nothing)
    }
}

impl Drop for OnErrand<'_> {
    fn drop(&mut self) {
        // A task that unwinds no longer borrows the state. If one still does, the destructor must
        // not panic.
        if let Ok(mut state) = self.inner.state.try_borrow_mut() {
            state.tasks[self.task].errand = Errand::Nothing;
        }
    }
}

/// Spinning, for locks.
impl Sim {
    /// Yields as [`Sim::sync`] does, on the way to a spin lock. If the lock is held when this
    /// task's turn comes, the engine queues the task there without resuming it, as if it had called
    /// [`Sim::spin`]. In that case the lock is handed to the task before it resumes, and the return
    /// value is the time at which its wait began. `None`: the task must look at the lock itself.
    pub(crate) fn arrive(&self, lock: Arrival) -> Option<u64> {
        let inner = &*self.inner;
        if inner.local_ns.get() <= inner.horizon_ns.get() || inner.teardown.get() {
            return None;
        }
        let me = inner.current()?;
        if !self.make_way(me) {
            return None;
        }
        inner.state.borrow_mut().tasks[me].errand = Errand::To(lock);
        let errand = OnErrand { inner, task: me };
        inner.switch_away(me);
        let Errand::Queued { since_ns } = errand.end() else { return None };
        self.end_spin(me);
        Some(since_ns)
    }

    /// Keeps this task's CPU busy until [`Sim::spin_grant`] names the task.
    pub(crate) fn spin(&self, class: &'static str, holder: TaskIndex) {
        let inner = &*self.inner;
        let me = inner.expect_current("lock");
        {
            let state = &mut *inner.state.borrow_mut();
            inner.leave(state, me);
            state.book_pause(me, Pause::Spin);
            state.begin_spin(me, class, holder);
        }
        inner.switch_away(me);
        self.end_spin(me);
    }

    fn end_spin(&self, me: TaskIndex) {
        self.inner.state.borrow_mut().tasks.info_mut(me).wait_on = WaitOn::Nothing;
        self.inner.end_spin();
    }

    /// Keeps this task's CPU busy for `ns`, waiting for a lock.
    pub(crate) fn spin_for(&self, ns: u64) {
        self.inner.local_ns.set(self.now_ns() + ns);
        self.inner.end_spin();
    }

    /// Lets a spinning task go on at `at_ns`, not earlier than this CPU's clock.
    pub(crate) fn spin_grant(&self, task: TaskIndex, at_ns: u64) {
        let state = &mut *self.inner.state.borrow_mut();
        debug_assert_eq!(state.tasks[task].state, TaskState::Spinning);
        state.tasks[task].state = TaskState::Ready;
        state.book_ready(task, at_ns, Some((BlockedBy::HeldLock, self.inner.running.get())));
        state.queue.insert(task.0, at_ns);
        self.inner.reset_horizon(state);
    }

    /// Blocks until [`Sim::unpark`]ed as the next holder of a sleeping lock.
    pub(crate) fn block_on_lock(&self, class: &'static str, holder: TaskIndex) {
        let inner = &*self.inner;
        let me = inner.expect_current("lock");
        {
            let state = &mut *inner.state.borrow_mut();
            self.begin_wait(state, me);
            state.book_pause(me, Pause::Lock);
            state.tasks[me].state = TaskState::LockWait;
            state.tasks.info_mut(me).wait_on = WaitOn::Lock(class, holder);
            Inner::release_cpu(state, me);
        }
        inner.switch_away(me);
        inner.state.borrow_mut().tasks.info_mut(me).wait_on = WaitOn::Nothing;
    }

    /// Makes a task that waits in [`Sim::block_on_lock`] runnable; the caller pays the wake-up.
    pub(crate) fn lock_grant(&self, task: TaskIndex) {
        let wakeup_ns = self.inner.state.borrow().sched.params.wakeup_ns;
        self.charge(wakeup_ns);
        let state = &mut *self.inner.state.borrow_mut();
        debug_assert_eq!(state.tasks[task].state, TaskState::LockWait);
        self.inner.account_interrupt(state);
        let (now_ns, me) = (self.inner.local_ns.get(), self.inner.running.get());
        state.book_ready(task, now_ns, Some((BlockedBy::HeldLock, me)));
        if let Some(at_ns) = state.place(task, me, now_ns) {
            state.tasks[task].state = TaskState::Ready;
            state.queue.insert(task.0, at_ns);
        }
        self.after_wake(state);
    }
}

/// Counts of the engine's shortcuts, which have no effect on simulated state. Tests compare the
/// shortcuts with the long path. Without these counts they would pass even if no shortcut were ever
/// taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortcuts {
    /// Tasks that were queued at a held lock without being resumed.
    pub queued: u64,
    /// Repetitions that were batched with the one before (`Host::again`).
    pub again: u64,
}

impl Sim {
    /// `None` without debug assertions, which do the counting.
    pub fn shortcuts(&self) -> Option<Shortcuts> {
        let (queued, again) = (self.inner.state.borrow().nr_queued, self.inner.nr_again.get());
        cfg!(debug_assertions).then_some(Shortcuts { queued, again })
    }
}

/// Functions that each lock operation calls, directly on the cells.
impl Inner {
    /// [`Sim::charge`]. Returns the new local clock.
    #[inline(always)]
    pub(crate) fn charge(&self, ns: u64) -> u64 {
        let local_ns = self.local_ns.get() + ns;
        self.local_ns.set(local_ns);
        if local_ns >= self.tick_at_ns.get() { self.tick() } else { local_ns }
    }

    /// Ends a spin. The CPU has served the ticks that fell due while it waited for a lock. So they
    /// do not delay the lock's new holder or the waiters behind it.
    fn end_spin(&self) {
        let local_ns = self.local_ns.get();
        if local_ns >= self.tick_at_ns.get() {
            self.tick_at_ns.set(next_tick_ns(local_ns));
            self.limit_locks();
        }
    }

    #[cold]
    #[inline(never)]
    fn tick(&self) -> u64 {
        let tick_ns = self.state.borrow().sched.params.tick_ns;
        let before_ns = self.local_ns.get();
        let (local_ns, tick_at_ns) = pay_ticks(before_ns, self.tick_at_ns.get(), tick_ns);
        self.ticks_ns.set(self.ticks_ns.get() + local_ns - before_ns);
        self.local_ns.set(local_ns);
        self.tick_at_ns.set(tick_at_ns);
        self.limit_locks();
        local_ns
    }

    /// No preemption and no blocking until [`Inner::atomic_end`].
    #[inline(always)]
    pub(crate) fn atomic_begin(&self) {
        self.atomic_depth.set(self.atomic_depth.get().wrapping_add(1));
    }

    /// At teardown the depth is not the running task's, so it may wrap.
    #[inline(always)]
    pub(crate) fn atomic_end(&self, now_ns: u64) {
        self.atomic_depth.set(self.atomic_depth.get().wrapping_sub(1));
        if now_ns >= self.resched_at_ns.get() {
            self.end_slice();
        }
    }

    /// The slice ended meanwhile: the next synchronisation checks for it, once no spinlock is held.
    #[cold]
    #[inline(never)]
    fn end_slice(&self) {
        if self.atomic_depth.get() == 0 {
            self.horizon_ns.set(0);
            self.limit_locks();
        }
    }
}
