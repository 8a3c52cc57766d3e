//! Locks that contend in virtual time, with the statistics of lock_stat.
//!
//! Key types: [`LockClass`] (what a kind of lock costs, and its counters), [`SimLock`] (a lock
//! around a value), [`LockGuard`].
//!
//! # How a lock knows its future
//!
//! A task runs ahead of global time, so it may take a lock, charge its work and release the lock
//! before another task, whose clock lies inside that critical section, gets to run. The lock keeps
//! the release time: who comes earlier than [`SimLock`]`.free_at_ns` spins until then. If instead
//! the holder is suspended inside the section (by a nested wait), the lock is marked held, later
//! arrivals queue, and the release hands over to the first. Arrivals are in global time order,
//! because taking a lock synchronises first, so the queue is a ticket lock's.
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
//! Nearly every lock that is taken is free, was taken last by the same CPU, and is released before
//! anybody else comes. That takes some dozen instructions at each end, which is why what is asked then
//! lies in few words: a held lock is one that is free [`NEVER`], and up to when a lock of a kind may
//! be taken at once is a single number of the engine's ([`Inner::lock_before_ns`]). Everything else,
//! sleeping locks as a whole, is in functions of its own.
//!
//! Everything is on one OS thread; mutual exclusion is the `free_at_ns` cell.
//!
//! [`Inner::lock_before_ns`]: crate::engine::executor::Inner::lock_before_ns

#![allow(unsafe_code, reason = "a lock hands out references to what it protects")]

use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use crate::cpu::CpuId;
use crate::engine::Sim;
use crate::engine::executor::Inner;
use crate::engine::task::TaskIndex;
use crate::ledger::NodeKey;

/// `free_at_ns` of a lock that somebody is inside of, or that was handed to somebody.
const NEVER: u64 = u64::MAX;

/// How a lock waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LockKind {
    /// Waiters keep their CPU busy; holders neither block nor are preempted.
    Spin = 0,
    /// A spin lock of one CPU: no synchronisation while nobody else wants it.
    Private = 1,
    /// Waiters sleep; holders may block.
    Sleep = 2,
}

impl LockKind {
    pub(crate) const COUNT: usize = 3;
}

/// What taking a lock of a class costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LockCosts {
    /// Uncontended, taken last by the same CPU.
    pub hot_ns: u64,
    /// Uncontended, taken last by another CPU of the same node.
    pub same_node_ns: u64,
    /// Uncontended, taken last by a CPU of another node.
    pub cross_node_ns: u64,
    /// From a release to the next spinning waiter's first instruction (at least the above).
    pub handoff_ns: u64,
}

/// A kind of lock: costs and counters that all locks of the kind share.
#[derive(Debug)]
pub struct LockClass {
    name: &'static str,
    kind: LockKind,
    costs: LockCosts,
    nr_taken: Cell<u64>,
    nr_contended: Cell<u64>,
    wait_ns: Cell<u64>,
    wait_ns_max: Cell<u64>,
    hold_ns: Cell<u64>,
    hold_ns_max: Cell<u64>,
    longest: RefCell<LongestHold>,
}

/// Who held a lock longest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LongestHold {
    /// The task's name; `None` if it was no task.
    pub task: Option<Rc<str>>,
    /// What it was doing when it gave the lock up, outermost first; known while a ledger is open.
    pub doing: Vec<NodeKey>,
}

/// One row of a lock report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockStats {
    /// The class.
    pub name: &'static str,
    /// How often a lock of the class was taken.
    pub nr_taken: u64,
    /// How often the taker had to wait.
    pub nr_contended: u64,
    /// Total waiting.
    pub wait_ns: u64,
    /// Longest wait.
    pub wait_ns_max: u64,
    /// Total holding.
    pub hold_ns: u64,
    /// Longest hold.
    pub hold_ns_max: u64,
    /// Whose that was.
    pub longest: LongestHold,
}

/// A lock around a `T`. What the common case needs lies together, before the value.
#[repr(C)]
pub struct SimLock<T> {
    sim: Sim,
    class: Rc<LockClass>,
    /// When the last holder released it, which may lie ahead of global time; [`NEVER`] while it is held.
    free_at_ns: Cell<u64>,
    taken_at_ns: Cell<u64>,
    /// The task that is inside, or that the lock was handed to; of a free lock the last one
    /// ([`TaskIndex::NONE`] for code outside tasks).
    holder: Cell<TaskIndex>,
    last_cpu: Cell<CpuId>,
    /// The class's.
    kind: LockKind,
    /// Releasing it takes more than the common case: somebody waits for it, or it is a sleeping lock.
    ends_slowly: Cell<bool>,
    /// First come first; made by the first who has to wait.
    #[allow(clippy::box_collection, reason = "most locks never have any: a word instead of four")]
    waiters: RefCell<Option<Box<VecDeque<TaskIndex>>>>,
    value: UnsafeCell<T>,
}

/// Access to a locked value; unlocks when dropped.
pub struct LockGuard<'a, T> {
    lock: &'a SimLock<T>,
}

impl Sim {
    /// Registers a class of locks. Its counters appear in [`Sim::lock_stats`].
    pub fn lock_class(
        &self,
        name: &'static str,
        kind: LockKind,
        costs: LockCosts,
    ) -> Rc<LockClass> {
        let class = Rc::new(LockClass {
            name,
            kind,
            costs,
            nr_taken: Cell::new(0),
            nr_contended: Cell::new(0),
            wait_ns: Cell::new(0),
            wait_ns_max: Cell::new(0),
            hold_ns: Cell::new(0),
            hold_ns_max: Cell::new(0),
            longest: RefCell::default(),
        });
        self.inner.locks.borrow_mut().push(Rc::clone(&class));
        class
    }

    /// The counters of every class, in order of registration.
    pub fn lock_stats(&self) -> Vec<LockStats> {
        self.inner.locks.borrow().iter().map(|class| class.stats()).collect()
    }
}

impl LockClass {
    /// From now on the longest wait and hold are those that are still to come.
    pub(crate) fn forget_longest(&self) {
        self.wait_ns_max.set(0);
        self.hold_ns_max.set(0);
        self.longest.take();
    }

    /// The counters so far.
    pub fn stats(&self) -> LockStats {
        LockStats {
            name: self.name,
            nr_taken: self.nr_taken.get(),
            nr_contended: self.nr_contended.get(),
            wait_ns: self.wait_ns.get(),
            wait_ns_max: self.wait_ns_max.get(),
            hold_ns: self.hold_ns.get(),
            hold_ns_max: self.hold_ns_max.get(),
            longest: self.longest.borrow().clone(),
        }
    }
}

impl<T> SimLock<T> {
    /// A free lock.
    pub fn new(sim: &Sim, class: &Rc<LockClass>, value: T) -> Self {
        Self::with_owner(sim, class, CpuId(0), value)
    }

    /// A free lock whose cache line `owner` has.
    pub fn with_owner(sim: &Sim, class: &Rc<LockClass>, owner: CpuId, value: T) -> Self {
        SimLock {
            sim: sim.clone(),
            class: Rc::clone(class),
            free_at_ns: Cell::new(0),
            taken_at_ns: Cell::new(0),
            holder: Cell::new(TaskIndex::NONE),
            last_cpu: Cell::new(owner),
            kind: class.kind,
            ends_slowly: Cell::new(class.kind == LockKind::Sleep),
            waiters: RefCell::new(None),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the lock, waiting in virtual time if need be. First come, first served.
    ///
    /// # Panics
    /// If the running task holds the lock already, or if a destructor of a task that is unwound at
    /// the end of the simulation wants a lock that another unfinished task holds.
    #[inline]
    pub fn lock(&self) -> LockGuard<'_, T> {
        match self.take_at_once() {
            Some(guard) => guard,
            None => self.lock_slow(),
        }
    }

    /// Takes the lock if nobody holds it at the caller's time.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<LockGuard<'_, T>> {
        match self.take_at_once() {
            None => self.try_lock_slow(),
            taken => taken,
        }
    }

    /// Takes and releases the lock and does `user_ns` of user work, again and again, where each time all would go the
    /// common way: nothing to wait for, no tick due, no slice over, and by the end no event that is more than
    /// `ahead_ns` older than the task's clock. `times` is told how often that is at most, and says how often.
    pub(crate) fn again(
        &self,
        user_ns: u64,
        ahead_ns: u64,
        times: impl FnOnce(&T, u32) -> u32,
    ) -> u32 {
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
        let guard = self.begin_hold(inner, class, now_ns);
        let nr = times(&guard, most.min(u64::from(u32::MAX)) as u32);
        std::mem::forget(guard);
        class.nr_taken.set(class.nr_taken.get() - 1 + u64::from(nr));
        if nr == 0 {
            self.holder.set(before.0);
            self.free_at_ns.set(before.1);
            self.taken_at_ns.set(before.2);
            return 0;
        }
        let end_ns = now_ns + turn_ns * u64::from(nr);
        inner.local_ns.set(end_ns);
        inner.user_ns.set(inner.user_ns.get() + user_ns * u64::from(nr));
        // As the last time left it: released when it was taken, before the work.
        self.taken_at_ns.set(end_ns - user_ns);
        self.free_at_ns.set(end_ns - user_ns);
        nr
    }

    /// True if somebody has the lock at the caller's time.
    pub fn is_locked(&self) -> bool {
        !self.is_free_at(self.sim.now_ns())
    }

    /// The value, when nobody else can have the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// The value itself.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    /// The class's counters.
    pub fn class(&self) -> &LockClass {
        &self.class
    }

    fn is_held(&self) -> bool {
        self.free_at_ns.get() == NEVER
    }

    /// No task is inside, and the last hold does not cover this time. A hold that began later is
    /// that of a private lock's owner who ran ahead without synchronising: at `now_ns` the lock
    /// was still free.
    fn is_free_at(&self, now_ns: u64) -> bool {
        !self.is_held()
            && (self.free_at_ns.get() <= now_ns
                || (self.kind == LockKind::Private && now_ns < self.taken_at_ns.get()))
    }

    /// The common case of [`SimLock::lock`]: nothing to wait for, the cache line is here, no tick
    /// is due, nobody has to go first. Else nothing has happened, and the slow path does everything.
    #[inline(always)]
    fn take_at_once(&self) -> Option<LockGuard<'_, T>> {
        let (inner, class) = (&*self.sim.inner, &*self.class);
        let now_ns = inner.local_ns.get();
        let taken_at_ns = now_ns + class.costs.hot_ns;
        if now_ns < self.free_at_ns.get()
            || taken_at_ns >= inner.lock_before_ns(self.kind)
            || inner.cpu.get() != self.last_cpu.get()
        {
            return None;
        }
        inner.atomic_begin();
        inner.local_ns.set(taken_at_ns);
        Some(self.begin_hold(inner, class, taken_at_ns))
    }

    #[cold]
    #[inline(never)]
    fn lock_slow(&self) -> LockGuard<'_, T> {
        match self.try_lock_slow() {
            Some(guard) => guard,
            None => self.take_contended(),
        }
    }

    #[cold]
    #[inline(never)]
    fn try_lock_slow(&self) -> Option<LockGuard<'_, T>> {
        if self.kind != LockKind::Private {
            self.sim.sync();
        }
        self.is_free_at(self.sim.now_ns()).then(|| self.take_free())
    }

    fn take_free(&self) -> LockGuard<'_, T> {
        let inner = &*self.sim.inner;
        if self.kind != LockKind::Sleep {
            inner.atomic_begin();
        }
        let taken_at_ns = inner.charge(self.transfer_ns());
        self.begin_hold(inner, &self.class, taken_at_ns)
    }

    #[cold]
    #[inline(never)]
    fn take_contended(&self) -> LockGuard<'_, T> {
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
            self.waiters.borrow_mut().get_or_insert_default().push_back(me);
            self.ends_slowly.set(true);
            if waits_asleep {
                sim.block_on_lock(self.class.name, holder);
            } else {
                sim.spin(self.class.name, holder);
            }
            debug_assert_eq!(self.holder.get(), me);
            sim.charge(self.handoff_ns());
        } else {
            // Released, but in this CPU's future: busy until then. Taken at once, so that
            // whoever comes meanwhile queues behind.
            let wait_ns = self.free_at_ns.get().saturating_sub(since_ns);
            if is_booking {
                sim.book_spin(self.holder.get(), wait_ns);
            }
            self.holder.set(me);
            self.free_at_ns.set(NEVER);
            sim.spin_for(wait_ns);
            sim.charge(if wait_ns > 0 { self.handoff_ns() } else { self.transfer_ns() });
            sim.sync();
        }
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
        self.begin_hold(&sim.inner, class, sim.now_ns())
    }

    #[inline(always)]
    fn begin_hold(&self, inner: &Inner, class: &LockClass, now_ns: u64) -> LockGuard<'_, T> {
        class.nr_taken.set(class.nr_taken.get() + 1);
        self.holder.set(inner.running.get());
        self.free_at_ns.set(NEVER);
        self.taken_at_ns.set(now_ns);
        LockGuard { lock: self }
    }

    #[inline(always)]
    fn unlock(&self) {
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

impl<T> Deref for LockGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: 1. A guard is made only by `begin_hold`, and until `unlock` `free_at_ns` is `NEVER`.
        // `take_at_once` and `try_lock_slow` make one only while it is not, and set it with that;
        // `take_contended` does the same or returns after `hand_over` named the taker: at most one
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
        self.lock.unlock();
    }
}
