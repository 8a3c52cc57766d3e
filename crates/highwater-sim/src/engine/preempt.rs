//! Preemption under the fair policies: computing that a wake-up can cut short, and the looks at a
//! CPU's ticks.
//!
//! A task runs ahead of events by its uninterrupted work, which is short in kernel code. Computing
//! is long, so a task that computes lets its CPU's next tick or the end of its work be an event.
//! A wake-up that preempts it meanwhile takes that event back and ends the computing early.
//!
//! ```text
//!   compute(10 ms) -- event at the next tick --> goes on until the work is done
//!                  \
//!                   '- wake-up that preempts at t: event cancelled, runs until t, queues
//! ```

use super::executor::{Inner, Sim};
use super::state::State;
use super::task::{Errand, Placement, TaskIndex, TaskState};
use crate::cpu::CpuId;
use crate::ledger::Pause;

impl Sim {
    /// As [`Sim::compute`], for CPUs where a wake-up may preempt.
    pub(super) fn compute_fairly(&self, ns: u64) {
        let inner = &*self.inner;
        let mut left_ns = ns;
        self.sync();
        while left_ns > 0 {
            let now_ns = self.now_ns();
            let to_tick_ns = inner.tick_at_ns.get().saturating_sub(now_ns).max(1);
            let step_ns = left_ns.min(to_tick_ns);
            // No event is pending before the end of the step: nothing can preempt.
            let is_alone = now_ns + step_ns <= inner.horizon_ns.get();
            left_ns -= match self.preemptible() {
                Some(me) if !is_alone => self.compute_until(me, now_ns + step_ns),
                _ => {
                    self.charge_user(step_ns);
                    step_ns
                }
            };
            self.sync();
        }
    }

    /// The running task, if another one may preempt it here.
    fn preemptible(&self) -> Option<TaskIndex> {
        let inner = &*self.inner;
        let me = inner.current().filter(|_| !inner.teardown.get())?;
        let is_interrupt =
            matches!(inner.state.borrow().tasks[me].placement, Placement::Interrupt(_));
        (inner.atomic_depth.get() == 0 && !is_interrupt).then_some(me)
    }

    /// Computes until `end_ns`, or until a wake-up preempts. Returns the time for which it ran.
    fn compute_until(&self, me: TaskIndex, end_ns: u64) -> u64 {
        let inner = &*self.inner;
        {
            let state = &mut *inner.state.borrow_mut();
            inner.leave(state, me);
            state.book_pause(me, Pause::GaveWay);
            let task = &mut state.tasks[me];
            task.state = TaskState::Ready;
            task.errand = Errand::Computes { since_ns: inner.local_ns.get() };
            state.queue.insert(me.0, end_ns);
        }
        inner.switch_away(me);
        let errand = {
            let state = &mut *inner.state.borrow_mut();
            std::mem::replace(&mut state.tasks[me].errand, Errand::Nothing)
        };
        // The tick that may be due.
        inner.charge(0);
        match errand {
            Errand::Computed { ns } => ns,
            _ => 0,
        }
    }

    /// At a point where the running task can leave its CPU: true if it must.
    pub(super) fn looks_and_leaves(&self, state: &mut State, me: TaskIndex) -> bool {
        let inner = &*self.inner;
        let (cpu, now_ns) = (state.tasks[me].cpu, inner.local_ns.get());
        state.balance(cpu, now_ns);
        let leaves = state.sched.must_leave(cpu, now_ns);
        inner.resched_at_ns.set(state.sched.cpus[cpu.idx()].resched_at_ns);
        leaves
    }

    /// True if the running task is marked to leave its CPU.
    #[cold]
    pub(super) fn is_marked(&self) -> bool {
        let inner = &*self.inner;
        let Some(me) = inner.current() else { return false };
        let state = &mut *inner.state.borrow_mut();
        let cpu = state.tasks[me].cpu;
        let is_marked = state.sched.is_marked(cpu, inner.local_ns.get());
        inner.resched_at_ns.set(state.sched.cpus[cpu.idx()].resched_at_ns);
        inner.reset_horizon(state);
        is_marked
    }
}

impl State {
    /// Ends the computing of a task at `until_ns`: it has run since it began, but for the time
    /// `stolen_ns` that interrupts took.
    pub(super) fn end_compute(&mut self, index: TaskIndex, until_ns: u64, stolen_ns: u64) {
        let task = &mut self.tasks[index];
        let Errand::Computes { since_ns } = task.errand else { return };
        let ran_ns = until_ns.saturating_sub(since_ns + stolen_ns);
        task.errand = Errand::Computed { ns: ran_ns };
        task.times.user_ns += ran_ns;
        task.times.system_ns += stolen_ns;
        let cpu = &mut self.sched.cpus[task.cpu.idx()];
        cpu.times.user_ns += ran_ns;
        cpu.times.system_ns += stolen_ns;
        cpu.local_ns = cpu.local_ns.max(since_ns + ran_ns + stolen_ns);
        if let Some(book) = &mut self.book {
            book.computed(index, since_ns + ran_ns, stolen_ns);
        }
    }

    /// A wake-up preempts the task that has a CPU. A task that computes leaves now. Any other looks
    /// for itself as soon as it can.
    pub(super) fn cut_short(&mut self, cpu: CpuId, now_ns: u64) {
        let slot = &self.sched.cpus[cpu.idx()];
        let Some(index) = slot.current else { return };
        let task = &self.tasks[index];
        let Errand::Computes { since_ns } = task.errand else { return };
        if task.state != TaskState::Ready {
            return;
        }
        // The waker's clock may be ahead of the end of the step: then the task looks for itself.
        if self.queue.time_of(index.0).is_none_or(|end_ns| end_ns <= now_ns) {
            return;
        }
        if !self.sched.must_leave(cpu, now_ns) {
            return;
        }
        self.queue.cancel(index.0);
        // Interrupts that go on beyond now delay the next task.
        let slot = &mut self.sched.cpus[cpu.idx()];
        let stolen_ns = slot.stolen_ns.min(now_ns.saturating_sub(since_ns));
        slot.stolen_ns -= stolen_ns;
        self.end_compute(index, now_ns, stolen_ns);
        self.book_pause(index, Pause::Queued);
        self.tasks.info_mut(index).preemptions += 1;
        self.tasks[index].state = TaskState::Queued;
        self.sched.requeue(cpu, index);
        Inner::release_cpu(self, index);
        self.book_queued(index, now_ns);
    }

    /// A CPU with waiting tasks hands some to other CPUs.
    fn balance(&mut self, cpu: CpuId, now_ns: u64) {
        if !self.sched.has_waiters(cpu) {
            return;
        }
        let (sched, tasks) = (&mut self.sched, &self.tasks);
        for moved in sched.balance(cpu, now_ns, |index| State::candidate(tasks, index)) {
            let task = &mut self.tasks[moved.task];
            task.cpu = moved.cpu;
            if let Some(starts_ns) = moved.starts_ns {
                task.state = TaskState::Ready;
                self.queue.insert(moved.task.0, starts_ns);
            }
            self.press(moved.task, true, true, now_ns);
            if moved.preempts {
                self.cut_short(moved.cpu, now_ns);
            }
        }
    }
}
