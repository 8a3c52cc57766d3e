//! A lock without its value: its holder, its waiters, and the time from which it is free.
//!
//! Key types: `Gate` (all of a lock but its value; this code is compiled once, not once per value
//! type), `Arrival` (a gate that a suspended task is about to reach).
//!
//! # Arriving
//!
//! A task whose clock is ahead yields before it checks a lock, and often finds the lock held when
//! its turn comes. If many CPUs contend for one lock, nearly a fifth of all resumptions would only
//! queue the task and yield again. So the task announces the lock it goes to (`Arrival`), and the
//! engine queues it there at once if the lock is held. This is for spin locks only. A task that
//! waits for a sleeping lock gives up its CPU, which it must do itself. A task that takes a private
//! lock nearly always finds it free.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::rc::Rc;

use super::class::{LockClass, LockKind, LongestHold};
use crate::cpu::CpuId;
use crate::engine::Sim;
use crate::engine::executor::Inner;
use crate::engine::task::TaskIndex;

/// `free_at_ns` of a lock that a task is inside of, or that was handed to a task.
const NEVER: u64 = u64::MAX;

/// A lock without its value. The fields of the fast path are adjacent.
#[repr(C)]
pub(super) struct Gate {
    sim: Sim,
    class: Rc<LockClass>,
    /// Time at which the last holder released it, which may lie ahead of global time; [`NEVER`]
    /// while it is held.
    free_at_ns: Cell<u64>,
    taken_at_ns: Cell<u64>,
    /// The task that is inside, or that the lock was handed to. For a free lock: the last holder
    /// ([`TaskIndex::NONE`] for code outside tasks).
    holder: Cell<TaskIndex>,
    last_cpu: Cell<CpuId>,
    /// The class's.
    kind: LockKind,
    /// Releasing it takes the slow path: a task waits for it, or it is a sleeping lock.
    ends_slowly: Cell<bool>,
    /// Waiters, first come first served; allocated by the first task that has to wait.
    #[allow(clippy::box_collection, reason = "most locks never have any: a word instead of four")]
    waiters: RefCell<Option<Box<VecDeque<TaskIndex>>>>,
}

impl Gate {
    /// A free lock; `owner` has its cache line.
    pub(super) fn new(sim: &Sim, class: &Rc<LockClass>, owner: CpuId) -> Self {
        Gate {
            sim: sim.clone(),
            class: Rc::clone(class),
            free_at_ns: Cell::new(0),
            taken_at_ns: Cell::new(0),
            holder: Cell::new(TaskIndex::NONE),
            last_cpu: Cell::new(owner),
            kind: class.kind,
            ends_slowly: Cell::new(class.kind == LockKind::Sleep),
            waiters: RefCell::new(None),
        }
    }

    /// Takes the lock, waiting in virtual time if need be.
    #[inline(always)]
    pub(super) fn lock(&self) {
        if !self.take_at_once() {
            self.lock_slow();
        }
    }

    /// Takes the lock if it is free at the caller's time.
    #[inline(always)]
    pub(super) fn try_lock(&self) -> bool {
        self.take_at_once() || self.try_lock_slow()
    }

    /// As [`super::SimLock::again`].
    pub(super) fn again(&self, user_ns: u64, ahead_ns: u64, times: impl FnOnce(u32) -> u32) -> u32 {
        let (inner, class) = (&*self.sim.inner, &*self.class);
        let (now_ns, turn_ns) = (inner.local_ns.get(), class.costs.hot_ns + user_ns);
        let goes_common_way = self.free_at_ns.get() <= now_ns
            && !self.ends_slowly.get()
            && inner.cpu.get() == self.last_cpu.get()
            && inner.atomic_depth.get() == 0;
        let until_ns = (inner.lock_before_ns(self.kind).min(inner.tick_at_ns.get()))
            .min(inner.resched_at_ns.get())
            .saturating_sub(1)
            .min(inner.horizon_ns.get().saturating_add(ahead_ns));
        let most = until_ns.saturating_sub(now_ns).checked_div(turn_ns).unwrap_or(0);
        if !goes_common_way || most == 0 {
            return 0;
        }
        let before = (self.holder.get(), self.free_at_ns.get(), self.taken_at_ns.get());
        self.begin_hold(inner, class, now_ns);
        let nr = times(most.min(u64::from(u32::MAX)) as u32);
        class.nr_taken.set(class.nr_taken.get() - 1 + u64::from(nr));
        if nr == 0 {
            self.holder.set(before.0);
            self.free_at_ns.set(before.1);
            self.taken_at_ns.set(before.2);
            return 0;
        }
        if cfg!(debug_assertions) {
            inner.nr_again.set(inner.nr_again.get() + u64::from(nr));
        }
        let end_ns = now_ns + turn_ns * u64::from(nr);
        inner.local_ns.set(end_ns);
        inner.user_ns.set(inner.user_ns.get() + user_ns * u64::from(nr));
        // State as the last repetition leaves it: taken and released at the same time, before its
        // user work.
        self.taken_at_ns.set(end_ns - user_ns);
        self.free_at_ns.set(end_ns - user_ns);
        nr
    }

    /// True if the lock is held at the caller's time.
    pub(super) fn is_locked(&self) -> bool {
        !self.is_free_at(self.sim.now_ns())
    }

    pub(super) fn class(&self) -> &LockClass {
        &self.class
    }

    pub(super) fn is_held(&self) -> bool {
        self.free_at_ns.get() == NEVER
    }

    /// True if no task is inside and the last hold does not cover this time. A hold that began
    /// later belongs to a private lock's owner that ran ahead without synchronising: at `now_ns`
    /// the lock was still free.
    fn is_free_at(&self, now_ns: u64) -> bool {
        !self.is_held()
            && (self.free_at_ns.get() <= now_ns
                || (self.kind == LockKind::Private && now_ns < self.taken_at_ns.get()))
    }

    /// The fast path: no wait, the cache line is here, no tick is due, no earlier event is pending.
    /// If it returns false, nothing has changed, and the slow path does everything.
    #[inline(always)]
    fn take_at_once(&self) -> bool {
        let (inner, class) = (&*self.sim.inner, &*self.class);
        let now_ns = inner.local_ns.get();
        let taken_at_ns = now_ns + class.costs.hot_ns;
        if now_ns < self.free_at_ns.get()
            || taken_at_ns >= inner.lock_before_ns(self.kind)
            || inner.cpu.get() != self.last_cpu.get()
        {
            return false;
        }
        inner.atomic_begin();
        inner.local_ns.set(taken_at_ns);
        self.begin_hold(inner, class, taken_at_ns);
        true
    }

    #[cold]
    #[inline(never)]
    fn lock_slow(&self) {
        if self.kind == LockKind::Spin
            && let Some(since_ns) = self.sim.arrive(Arrival(NonNull::from(self)))
        {
            self.handed_over(since_ns);
        } else if !self.try_lock_slow() {
            self.take_contended();
        }
    }

    #[cold]
    #[inline(never)]
    fn try_lock_slow(&self) -> bool {
        if self.kind != LockKind::Private {
            self.sim.sync();
        }
        let is_free = self.is_free_at(self.sim.now_ns());
        if is_free {
            self.take_free();
        }
        is_free
    }

    fn take_free(&self) {
        let inner = &*self.sim.inner;
        if self.kind != LockKind::Sleep {
            inner.atomic_begin();
        }
        let taken_at_ns = inner.charge(self.transfer_ns());
        self.begin_hold(inner, &self.class, taken_at_ns);
    }

    #[cold]
    #[inline(never)]
    fn take_contended(&self) {
        let sim = &self.sim;
        let me = sim.inner.running.get();
        assert!(
            !sim.inner.teardown.get() || !self.is_held(),
            "{} wanted by a destructor while another unfinished task holds it",
            self.class.name
        );
        assert!(
            !self.is_held() || self.holder.get() != me,
            "{} taken twice by one task",
            self.class.name
        );
        // A private lock's taker has not synchronised yet; the holder may be done by then.
        sim.sync();
        let since_ns = sim.now_ns();
        let waits_asleep = self.kind == LockKind::Sleep;
        if !waits_asleep {
            sim.inner.atomic_begin();
        }
        let is_booking = sim.is_booking();
        if is_booking {
            sim.begin_lock_wait(self.class.name, self.holder.get());
        }
        if self.is_held() {
            let holder = self.holder.get();
            self.queue(me);
            if waits_asleep {
                sim.block_on_lock(self.class.name, holder);
            } else {
                sim.spin(self.class.name, holder);
            }
            return self.handed_over(since_ns);
        }
        // The lock is released, but in this CPU's future: the CPU is busy until then. The lock is
        // marked taken now, so that tasks that arrive meanwhile queue behind this one.
        let wait_ns = self.free_at_ns.get().saturating_sub(since_ns);
        if is_booking {
            sim.book_spin(self.holder.get(), wait_ns);
        }
        self.holder.set(me);
        self.free_at_ns.set(NEVER);
        sim.spin_for(wait_ns);
        sim.charge(if wait_ns > 0 { self.handoff_ns() } else { self.transfer_ns() });
        sim.sync();
        self.waited(since_ns);
    }

    fn queue(&self, task: TaskIndex) {
        self.waiters.borrow_mut().get_or_insert_default().push_back(task);
        self.ends_slowly.set(true);
    }

    /// Ends the wait of a task that has queued since `since_ns` and is the lock's holder now.
    fn handed_over(&self, since_ns: u64) {
        debug_assert_eq!(self.holder.get(), self.sim.inner.running.get());
        self.sim.charge(self.handoff_ns());
        self.waited(since_ns);
    }

    fn waited(&self, since_ns: u64) {
        let sim = &self.sim;
        if sim.is_booking() {
            sim.end_lock_wait(self.class.name);
        }
        // A sleeping lock's taker may have been moved by the wait.
        self.last_cpu.set(sim.cpu());
        let wait_ns = sim.now_ns() - since_ns;
        let class = &*self.class;
        class.nr_contended.set(class.nr_contended.get() + 1);
        class.wait_ns.set(class.wait_ns.get() + wait_ns);
        class.wait_ns_max.set(class.wait_ns_max.get().max(wait_ns));
        self.begin_hold(&sim.inner, class, sim.now_ns());
    }

    #[inline(always)]
    fn begin_hold(&self, inner: &Inner, class: &LockClass, now_ns: u64) {
        class.nr_taken.set(class.nr_taken.get() + 1);
        self.holder.set(inner.running.get());
        self.free_at_ns.set(NEVER);
        self.taken_at_ns.set(now_ns);
    }

    #[inline(always)]
    pub(super) fn unlock(&self) {
        let (inner, class) = (&*self.sim.inner, &*self.class);
        let now_ns = inner.local_ns.get();
        let hold_ns = now_ns.wrapping_sub(self.taken_at_ns.get());
        if hold_ns > class.hold_ns_max.get() || self.ends_slowly.get() {
            return self.unlock_slow();
        }
        class.hold_ns.set(class.hold_ns.get() + hold_ns);
        self.free_at_ns.set(now_ns);
        inner.atomic_end(now_ns);
    }

    #[cold]
    #[inline(never)]
    fn unlock_slow(&self) {
        let (inner, class) = (&*self.sim.inner, &*self.class);
        let now_ns = inner.local_ns.get();
        // At teardown the clock may lie before the hold.
        let hold_ns = now_ns.saturating_sub(self.taken_at_ns.get());
        class.hold_ns.set(class.hold_ns.get() + hold_ns);
        if hold_ns > class.hold_ns_max.get() {
            self.is_longest(hold_ns);
        }
        self.free_at_ns.set(now_ns);
        self.hand_over();
        if self.kind != LockKind::Sleep {
            inner.atomic_end(inner.local_ns.get());
        }
    }

    fn is_longest(&self, hold_ns: u64) {
        self.class.hold_ns_max.set(hold_ns);
        if !self.sim.inner.teardown.get() {
            let (task, doing) = self.sim.who_and_what().unzip();
            *self.class.longest.borrow_mut() =
                LongestHold { task, doing: doing.unwrap_or_default() };
        }
    }

    /// Gives the lock to the first waiter, if there is one, from this CPU's clock on.
    fn hand_over(&self) {
        if self.sim.inner.teardown.get() {
            return;
        }
        let (next, has_more) = match &mut *self.waiters.borrow_mut() {
            Some(waiters) => (waiters.pop_front(), !waiters.is_empty()),
            None => return,
        };
        self.ends_slowly.set(self.kind == LockKind::Sleep || has_more);
        if let Some(next) = next {
            self.holder.set(next);
            self.free_at_ns.set(NEVER);
            if self.kind == LockKind::Sleep {
                self.sim.lock_grant(next);
            } else {
                self.sim.spin_grant(next, self.sim.now_ns());
            }
        }
    }

    /// Moves the lock's cache line here from where it was last; returns the cost.
    #[inline(always)]
    fn transfer_ns(&self) -> u64 {
        if self.sim.cpu() == self.last_cpu.get() {
            self.class.costs.hot_ns
        } else {
            self.remote_transfer_ns()
        }
    }

    #[cold]
    fn remote_transfer_ns(&self) -> u64 {
        let me = self.sim.cpu();
        let last = self.last_cpu.replace(me);
        if self.sim.node_of(me) == self.sim.node_of(last) {
            self.class.costs.same_node_ns
        } else {
            self.class.costs.cross_node_ns
        }
    }

    fn handoff_ns(&self) -> u64 {
        self.class.costs.handoff_ns.max(self.transfer_ns())
    }
}

/// The spin lock that a suspended task comes to when its event does.
#[derive(Clone, Copy)]
pub(crate) struct Arrival(NonNull<Gate>);

impl Arrival {
    /// Queues a task whose turn has come if the lock is held. Returns the lock's name and its
    /// holder. `None`: the task must look at the lock itself.
    pub(crate) fn queue_if_held(self, task: TaskIndex) -> Option<(&'static str, TaskIndex)> {
        // SAFETY: 1. `lock_slow` makes the only `Arrival`, of the gate that it borrows, and passes
        // it to `Sim::arrive`. That function keeps it in the task's entry while the task is
        // suspended inside; `OnErrand` takes it out as soon as the task resumes or unwinds, so the
        // borrow is still there. 2. A `Gate` is changed through cells alone; the code that has the
        // lock's value mutably has borrowed another field of the lock.
        let gate = unsafe { self.0.as_ref() };
        let holder = gate.holder.get();
        if !gate.is_held() || holder == task {
            return None;
        }
        gate.queue(task);
        Some((gate.class.name, holder))
    }
}
