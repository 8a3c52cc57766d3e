//! Calls of a task: time, waiting, waking. The calls that locks make on its behalf are in
//! `lock_api`.
//!
//! Calls that wait or touch other tasks synchronise first (see the executor's notes), so that their
//! effects happen in order of virtual time.

use std::rc::Rc;
use std::sync::Arc;

use super::clock::{jiffies_of, wheel_expiry_ns};
use super::executor::{Inner, Sim};
use super::state::State;
use super::task::{Placement, TaskId, TaskIndex, TaskState, TaskTimes, WaitOn, Wake};
use super::watch::{Look, Passed};
use crate::cpu::{CpuId, CpuTimes};
use crate::ledger::{NodeKey, Pause};

/// Time.
impl Sim {
    /// The clock of the running task's CPU (outside tasks: of the last event).
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.inner.local_ns.get()
    }

    /// Adds virtual time and events to shared sums as they pass, once in a few thousand events. Any
    /// thread may read the sums meanwhile. Simulated state is not affected.
    pub fn tell_passed(&self, sums: Arc<Passed>) {
        let now_ns = self.now_ns();
        let state = &mut *self.inner.state.borrow_mut();
        state.watch.tell(sums, now_ns, state.nr_events);
    }

    /// Ends [`Sim::tell_passed`]: time and events from now on are added to no sums.
    pub fn tell_passed_to_nobody(&self) {
        self.inner.state.borrow_mut().watch.tell_nobody();
    }

    /// Calls `call` with the time at each multiple of `every_ns`, before the events of that time. It
    /// can be called again with others, which then come after the first; 0 ends all sampling. A task
    /// runs ahead of the event queue by its uninterrupted work. So the callback sees the state of
    /// that time to within a few microseconds. The callback may read simulation state, including
    /// tasks, but must not change it. Simulated state is not affected.
    ///
    /// # Panics
    /// The callback must not call a simulation's functions.
    pub fn sample_every(&self, every_ns: u64, call: impl FnMut(u64, &Look<'_>) + 'static) {
        let now_ns = self.now_ns();
        self.inner.state.borrow_mut().watch.sample(every_ns, now_ns, Box::new(call));
    }

    /// Calls `call` with what a sampler sees now, outside of its times.
    pub fn look<R>(&self, call: impl FnOnce(&Look<'_>) -> R) -> R {
        call(&Look::of(&self.inner.state.borrow()))
    }

    /// Timer ticks since boot.
    #[inline]
    pub fn jiffies(&self) -> u64 {
        jiffies_of(self.now_ns())
    }

    /// Accounts kernel work: the CPU's clock advances, nothing else happens.
    #[inline(always)]
    pub fn charge(&self, ns: u64) {
        self.inner.charge(ns);
    }

    /// Accounts user work.
    #[inline]
    pub fn charge_user(&self, ns: u64) {
        self.inner.user_ns.set(self.inner.user_ns.get() + ns);
        self.charge(ns);
    }

    /// Runs user code for `ns` of CPU time, and lets others have the CPU at ticks.
    pub fn compute(&self, ns: u64) {
        if self.inner.is_fair {
            return self.compute_fairly(ns);
        }
        let mut left_ns = ns;
        while left_ns > 0 {
            let to_tick_ns = self.inner.tick_at_ns.get().saturating_sub(self.now_ns()).max(1);
            let step_ns = left_ns.min(to_tick_ns);
            self.charge_user(step_ns);
            left_ns -= step_ns;
            self.sync();
        }
    }

    /// Lets all events that are earlier than this CPU's clock happen first.
    #[inline(always)]
    pub fn sync(&self) {
        if self.inner.local_ns.get() > self.inner.horizon_ns.get() {
            self.sync_slow();
        }
    }

    /// As [`Sim::sync`], but only if this CPU's clock is more than `ahead_ns` ahead. For work that
    /// other tasks hardly notice, in steps much shorter than a task switch.
    #[inline(always)]
    pub fn sync_beyond(&self, ahead_ns: u64) {
        if self.inner.local_ns.get() > self.inner.horizon_ns.get().saturating_add(ahead_ns) {
            self.sync_slow();
        }
    }

    #[cold]
    #[inline(never)]
    fn sync_slow(&self) {
        let inner = &*self.inner;
        let Some(me) = inner.current() else {
            return;
        };
        if inner.teardown.get() {
            return;
        }
        while self.make_way(me) {
            inner.switch_away(me);
        }
    }

    /// Puts the running task behind an earlier event, or behind the others in its runqueue if its
    /// slice is over. Returns false if neither is due.
    pub(super) fn make_way(&self, me: TaskIndex) -> bool {
        let inner = &*self.inner;
        let state = &mut *inner.state.borrow_mut();
        let local_ns = inner.local_ns.get();
        let Some(bound_ns) = state.queue.bound_unless_before(local_ns) else {
            inner.leave(state, me);
            state.book_pause(me, Pause::GaveWay);
            state.tasks[me].state = TaskState::Ready;
            state.queue.insert(me.0, local_ns);
            return true;
        };
        if inner.atomic_depth.get() == 0 && local_ns >= inner.resched_at_ns.get() {
            if inner.is_fair && !self.looks_and_leaves(state, me) {
                inner.reset_horizon(state);
                return false;
            }
            state.tasks.info_mut(me).preemptions += 1;
            self.to_runqueue(state, me);
            return true;
        }
        inner.set_horizon(bound_ns);
        false
    }

    fn to_runqueue(&self, state: &mut State, me: TaskIndex) {
        self.inner.leave(state, me);
        state.book_pause(me, Pause::Queued);
        let task = &mut state.tasks[me];
        task.state = TaskState::Queued;
        state.sched.requeue(task.cpu, me);
        Inner::release_cpu(state, me);
        state.book_queued(me, self.inner.local_ns.get());
    }
}

/// Waiting and waking.
impl Sim {
    /// Waits until a task unparks this one. Returns at once if that happened since its last wait.
    /// `why` appears in deadlock reports.
    #[inline]
    pub fn park(&self, why: &'static str) {
        self.block(why, None);
    }

    /// Like [`Sim::park`], until `deadline_ns` at the latest.
    #[inline]
    pub fn park_until(&self, why: &'static str, deadline_ns: u64) -> Wake {
        self.block(why, Some(deadline_ns))
    }

    /// Like [`Sim::park`], for `timeout_ns` at most.
    #[inline]
    pub fn park_timeout(&self, why: &'static str, timeout_ns: u64) -> Wake {
        self.sync();
        self.block(why, Some(self.now_ns().saturating_add(timeout_ns)))
    }

    /// Like [`Sim::park`], for a timeout in ticks, rounded as the kernel's timer wheel does.
    /// Returns the ticks that were left when the wait ended, as `schedule_timeout` does.
    pub fn park_jiffies(&self, why: &'static str, timeout: u64) -> u64 {
        self.sync();
        let start = self.jiffies();
        let deadline_ns = wheel_expiry_ns(self.now_ns(), timeout);
        match self.block(why, Some(deadline_ns)) {
            Wake::TimedOut => 0,
            Wake::Unparked => (start + timeout).saturating_sub(self.jiffies()),
        }
    }

    /// Waits for `ns`; an unpark does not end the wait.
    #[inline]
    pub fn sleep_ns(&self, ns: u64) {
        self.sync();
        self.sleep_until(self.now_ns().saturating_add(ns));
    }

    /// Waits until `deadline_ns`; an unpark does not end the wait and is kept for the next `park`.
    #[inline]
    pub fn sleep_until(&self, deadline_ns: u64) {
        if self.begin_sleep(deadline_ns) {
            self.inner.suspend();
        }
    }

    /// False if the sleep is over already.
    #[inline(never)]
    fn begin_sleep(&self, deadline_ns: u64) -> bool {
        self.sync();
        let inner = &*self.inner;
        if inner.teardown.get() {
            return false;
        }
        let me = inner.expect_current("sleep");
        {
            let state = &mut *inner.state.borrow_mut();
            self.begin_wait(state, me);
            state.book_pause(me, Pause::Wait(NodeKey::Sleep));
            state.tasks[me].state = TaskState::Sleeping;
            // The local clock may be past the deadline.
            state.queue.insert(me.0, deadline_ns.max(inner.local_ns.get()));
            Inner::release_cpu(state, me);
        }
        inner.pick_next(me)
    }

    /// Sleeps for `timeout` ticks, rounded as the kernel's timer wheel does
    /// (rules/costs#timer-wheel).
    pub fn sleep_jiffies(&self, timeout: u64) {
        self.sync();
        self.sleep_until(wheel_expiry_ns(self.now_ns(), timeout));
    }

    /// Ends the wait of a task, or its next one. True if the task was waiting.
    pub fn unpark(&self, id: TaskId) -> bool {
        self.sync();
        let inner = &*self.inner;
        if inner.teardown.get() {
            return false;
        }
        let wakeup_ns = {
            let state = inner.state.borrow();
            match state.tasks.find(id) {
                None => return false,
                Some(task) if matches!(task.state, TaskState::Parked | TaskState::Timed) => {
                    state.sched.params.wakeup_ns
                }
                Some(_) => 0,
            }
        };
        // An interrupt pays too: its charge is taken from its CPU.
        self.charge(wakeup_ns);
        let state = &mut *inner.state.borrow_mut();
        inner.account_interrupt(state);
        let woken = state.wake(id, inner.local_ns.get(), inner.running.get());
        if woken {
            self.after_wake(state);
        } else if state.tasks.find(id).is_some() {
            state.tasks[id.index].permit = true;
        }
        woken
    }

    /// Makes a waiting task go on at `at_ns` at the latest (not earlier than this CPU's clock): the
    /// wait ends as by a timeout. Costs nothing: devices set their timers with it. If the task does
    /// not wait now, its next wait ends at once.
    pub fn wake_by(&self, id: TaskId, at_ns: u64) {
        self.sync();
        let inner = &*self.inner;
        if inner.teardown.get() {
            return;
        }
        let at_ns = at_ns.max(inner.local_ns.get());
        let state = &mut *inner.state.borrow_mut();
        match state.tasks.find(id).map(|task| task.state) {
            None => return,
            Some(TaskState::Parked) => {}
            Some(TaskState::Timed) => {
                if state.queue.time_of(id.index.0).is_some_and(|pending_ns| pending_ns <= at_ns) {
                    return;
                }
                state.queue.cancel(id.index.0);
            }
            Some(_) => {
                state.tasks[id.index].permit = true;
                return;
            }
        }
        state.tasks[id.index].state = TaskState::Timed;
        state.queue.insert(id.index.0, at_ns);
        self.after_wake(state);
    }

    /// True if a task waits for this CPU and the running task's slice is over, or if the waiting
    /// task preempts. The running task then goes on only to the next synchronisation.
    #[inline]
    pub fn is_slice_over(&self) -> bool {
        let inner = &*self.inner;
        inner.local_ns.get() >= inner.resched_at_ns.get() && (!inner.is_fair || self.is_marked())
    }

    /// Number of times that the running task had to leave its CPU at the end of a slice.
    pub fn preemptions(&self) -> u64 {
        let inner = &*self.inner;
        let state = inner.state.borrow();
        inner.current().map_or(0, |me| state.tasks.info(me).preemptions)
    }

    /// Lets the tasks that wait for this CPU run first.
    pub fn yield_now(&self) {
        self.sync();
        let inner = &*self.inner;
        let me = inner.expect_current("yield_now");
        {
            let state = &mut *inner.state.borrow_mut();
            let task = &state.tasks[me];
            let cpu = task.cpu;
            let has_cpu = !matches!(task.placement, Placement::Interrupt(_));
            if inner.teardown.get() || !has_cpu || !state.sched.has_waiters(cpu) {
                return;
            }
            if inner.is_fair {
                let leaves = state.sched.yield_on(cpu, inner.local_ns.get());
                inner.resched_at_ns.set(state.sched.cpus[cpu.idx()].resched_at_ns);
                inner.reset_horizon(state);
                if !leaves {
                    return;
                }
            }
            self.to_runqueue(state, me);
        }
        inner.switch_away(me);
    }

    #[inline]
    fn block(&self, why: &'static str, deadline_ns: Option<u64>) -> Wake {
        match self.begin_block(why, deadline_ns) {
            Some(wake) => wake,
            None => {
                self.inner.suspend();
                self.end_block()
            }
        }
    }

    /// Starts a wait. Returns its result if it is over already.
    #[inline(never)]
    fn begin_block(&self, why: &'static str, deadline_ns: Option<u64>) -> Option<Wake> {
        self.sync();
        let inner = &*self.inner;
        if inner.teardown.get() {
            return Some(Wake::TimedOut);
        }
        let me = inner.expect_current("park");
        {
            let state = &mut *inner.state.borrow_mut();
            if std::mem::take(&mut state.tasks[me].permit) {
                return Some(Wake::Unparked);
            }
            self.begin_wait(state, me);
            state.book_pause(me, Pause::Wait(NodeKey::Wait(why)));
            state.tasks.info_mut(me).wait_on = WaitOn::Reason(why);
            match deadline_ns {
                Some(deadline_ns) => {
                    state.tasks[me].state = TaskState::Timed;
                    state.queue.insert(me.0, deadline_ns.max(inner.local_ns.get()));
                }
                None => state.tasks[me].state = TaskState::Parked,
            }
            Inner::release_cpu(state, me);
        }
        if inner.pick_next(me) { None } else { Some(self.end_block()) }
    }

    fn end_block(&self) -> Wake {
        let me = self.inner.running.get();
        let mut state = self.inner.state.borrow_mut();
        state.tasks.info_mut(me).wait_on = WaitOn::Nothing;
        state.tasks[me].wake
    }

    pub(super) fn begin_wait(&self, state: &mut State, me: TaskIndex) {
        assert_eq!(
            self.inner.atomic_depth.get(),
            0,
            "{} waits while it holds a spinlock",
            state.tasks.info(me).name
        );
        self.inner.leave(state, me);
    }

    /// Updates the cells: a wake-up may have queued an event or filled this CPU's runqueue.
    pub(super) fn after_wake(&self, state: &State) {
        let inner = &*self.inner;
        if let Some(me) = inner.current() {
            let task = &state.tasks[me];
            if !matches!(task.placement, Placement::Interrupt(_)) {
                inner.resched_at_ns.set(state.sched.cpus[task.cpu.idx()].resched_at_ns);
            }
            inner.reset_horizon(state);
        }
    }
}

/// Tasks.
impl Sim {
    /// The running task.
    pub fn current(&self) -> Option<TaskId> {
        let index = self.inner.current()?;
        Some(self.inner.state.borrow().tasks.id_of(index))
    }

    /// The running task as a word that [`Sim::is_on_cpu`] takes; 0 outside tasks.
    #[inline]
    pub fn current_word(&self) -> u64 {
        // Task indices are reused. A number that is unique among live tasks is enough here.
        self.inner.current().map_or(0, |index| u64::from(index.0) + 1)
    }

    /// True if the task of a [`Sim::current_word`] has a CPU now.
    pub fn is_on_cpu(&self, word: u64) -> bool {
        let Some(index) = word.checked_sub(1) else { return false };
        self.inner.state.borrow().tasks[TaskIndex(index as u32)].state.has_cpu()
    }

    /// A task's name; `None` if it ended.
    pub fn task_name(&self, id: TaskId) -> Option<Rc<str>> {
        let state = self.inner.state.borrow();
        state.tasks.find(id)?;
        Some(Rc::clone(&state.tasks.info(id.index).name))
    }

    /// True for a live task that was spawned as a kernel thread.
    pub fn is_kernel_thread(&self, id: TaskId) -> bool {
        let state = self.inner.state.borrow();
        state.tasks.find(id).is_some() && state.tasks.info(id.index).kernel_thread
    }

    /// Time a live task has used, up to the last time it synchronised.
    pub fn task_times(&self, id: TaskId) -> Option<TaskTimes> {
        Some(self.inner.state.borrow().tasks.find(id)?.times)
    }

    /// The CPU the running task is on.
    #[inline(always)]
    pub fn cpu(&self) -> CpuId {
        self.inner.cpu.get()
    }

    /// Number of CPUs.
    pub fn nr_cpus(&self) -> usize {
        self.inner.state.borrow().sched.cpus.len()
    }

    /// The node of a CPU.
    pub fn node_of(&self, cpu: CpuId) -> u16 {
        self.inner.state.borrow().sched.node_of(cpu)
    }

    /// Times of a CPU by use, up to the last time its task synchronised.
    pub fn cpu_times(&self, cpu: CpuId) -> CpuTimes {
        let state = self.inner.state.borrow();
        state.sched.times(cpu, state.now_ns.max(self.inner.local_ns.get()))
    }

    /// Folds a word (a trace event, say) into the run's digest at the running task's time.
    #[inline]
    pub fn fold(&self, word: u64) {
        self.inner.state.borrow_mut().digest.fold(self.inner.local_ns.get(), word);
    }
}
