//! The executor: pops events, resumes coroutines, keeps every CPU's clock.
//!
//! Key types: [`Engine`] owns one simulation and runs it on the calling OS thread; [`Sim`] is the
//! handle that tasks use (its methods are in `engine/task_api.rs`).
//!
//! # Two clocks
//!
//! Global virtual time is the time of the last event popped. A running task also has the *local*
//! clock of its CPU. [`Sim::charge`] advances that clock without any event: the task runs ahead.
//! Before a task touches state that other CPUs can see, it calls [`Sim::sync`]. If an event earlier
//! than its local clock is pending, the task queues itself at its local time and lets that event go
//! first. So tasks touch shared state in global time order, and a task that is alone pays one
//! comparison.
//!
//! ```text
//!   task A on CPU 0   --charge 300--|sync: event at 200 pending -> queued at 300 ...... goes on
//!   task B on CPU 1                              goes on at 200 --charge 50--|sync: nothing < 250
//! ```
//!
//! The queue guarantees order for events not earlier than the last pop. Nothing is ever queued
//! earlier than the running task's local clock, which is never behind the last pop.
//!
//! # State
//!
//! `charge` and `sync` touch only the cells of `Inner`. Everything else is in one `RefCell`. Only
//! code of this crate borrows it, and that code never calls a task's code. The table of coroutines
//! is separate, because a coroutine is taken out of it while it runs.
//!
//! A task that blocks looks for the next event itself (`dispatch`). If that event is its own, no
//! switch happens. Otherwise the task records the next task to run and switches to the run loop,
//! which resumes that task. An event whose task would only queue at a lock resumes no task
//! ([`Errand`]).

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::error::RunError;
use super::queue::Queue;
use super::spawn::{ExitTask, JoinHandle};
use super::stack::{Coroutine, Slot, Step};
use super::state::State;
use super::task::{Errand, Placement, Spawn, TaskIndex, TaskState, TaskTable, Wake};
use super::watch::{Finding, Watch};
use crate::cpu::sched::{Leaves, Sched};
use crate::cpu::{CpuId, SchedParams, SchedPolicy, Topology};
use crate::digest::{Digest, DigestPlan};
use crate::ledger::GroupNames;
use crate::lock::LockKind;

/// Configuration of a simulation.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The CPUs.
    pub topology: Topology,
    /// Costs of scheduling.
    pub sched: SchedParams,
    /// Events that the digest keeps.
    pub digest: DigestPlan,
}

impl EngineConfig {
    /// `nr_cpus` CPUs on one node, with free scheduling.
    pub fn new(nr_cpus: u16) -> Self {
        EngineConfig {
            topology: Topology::single_node(nr_cpus.max(1)),
            sched: SchedParams::FREE,
            digest: DigestPlan::default(),
        }
    }
}

/// The reason why a run stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The last foreground task ended.
    Finished,
    /// The next event lies after the limit.
    TimeLimit,
}

/// One simulation. Dropping it unwinds the tasks that are left.
pub struct Engine {
    sim: Sim,
}

/// Handle to a simulation: what tasks, locks and devices hold. Cheap to clone.
#[derive(Clone)]
pub struct Sim {
    pub(crate) inner: Rc<Inner>,
}

/// Shared state of one simulation.
pub(crate) struct Inner {
    /// Clock of the running task.
    pub(crate) local_ns: Cell<u64>,
    /// `sync` returns at once while the local clock is at or before this time.
    pub(crate) horizon_ns: Cell<u64>,
    /// Time of the next tick of the running task's CPU.
    pub(crate) tick_at_ns: Cell<u64>,
    /// By [`LockKind`]: a task takes a lock on the fast path only while its clock is before this
    /// time. For private locks that is the next tick. For locks of all CPUs it is the next tick or
    /// the horizon, whichever is earlier. Sleeping locks never take the fast path.
    lock_before_ns: [Cell<u64>; LockKind::COUNT],
    /// The running task must give up its CPU at this time.
    pub(crate) resched_at_ns: Cell<u64>,
    /// User time since the task was resumed.
    pub(crate) user_ns: Cell<u64>,
    /// Total cost of all ticks, on all CPUs.
    pub(crate) ticks_ns: Cell<u64>,
    /// A ledger is open: `State::book` is `Some`.
    pub(crate) booking: Cell<bool>,
    /// The scheduler is a fair one: wake-ups preempt, ticks decide.
    pub(super) is_fair: bool,
    /// Pressure is measured: `State::pressure` is `Some`.
    pub(crate) pressing: Cell<bool>,
    /// Local clock when the task was resumed.
    resumed_at_ns: Cell<u64>,
    /// Spinlocks that the running task holds.
    pub(crate) atomic_depth: Cell<u32>,
    /// The running task; [`TaskIndex::NONE`] outside tasks.
    pub(crate) running: Cell<TaskIndex>,
    pub(crate) cpu: Cell<CpuId>,
    /// The task that the run loop resumes next.
    handoff: Cell<Option<TaskIndex>>,
    /// Tasks are being unwound: waits return at once.
    pub(crate) teardown: Cell<bool>,
    slot: Slot,
    pub(crate) state: RefCell<State>,
    coroutines: RefCell<Vec<Option<Coroutine>>>,
    pub(crate) locks: RefCell<Vec<Rc<crate::lock::LockClass>>>,
    /// As [`Shortcuts::again`](super::Shortcuts::again).
    pub(crate) nr_again: Cell<u64>,
}

impl Engine {
    /// A simulation at time zero.
    pub fn new(config: &EngineConfig) -> Self {
        let state = State {
            queue: Queue::new(),
            tasks: TaskTable::default(),
            sched: Sched::new(&config.topology, config.sched),
            digest: Digest::new(config.digest),
            now_ns: 0,
            limit_ns: u64::MAX,
            nr_events: 0,
            nr_queued: 0,
            watch: Watch::new(),
            book: None,
            group_names: GroupNames::default(),
            pressure: None,
        };
        let inner = Inner {
            local_ns: Cell::new(0),
            horizon_ns: Cell::new(u64::MAX),
            tick_at_ns: Cell::new(u64::MAX),
            lock_before_ns: [Cell::new(u64::MAX), Cell::new(u64::MAX), Cell::new(0)],
            resched_at_ns: Cell::new(u64::MAX),
            user_ns: Cell::new(0),
            ticks_ns: Cell::new(0),
            booking: Cell::new(false),
            is_fair: config.sched.policy != SchedPolicy::Fifo,
            pressing: Cell::new(false),
            resumed_at_ns: Cell::new(0),
            atomic_depth: Cell::new(0),
            running: Cell::new(TaskIndex::NONE),
            cpu: Cell::new(CpuId(0)),
            handoff: Cell::new(None),
            teardown: Cell::new(false),
            slot: Slot::new(),
            state: RefCell::new(state),
            coroutines: RefCell::new(Vec::new()),
            locks: RefCell::new(Vec::new()),
            nr_again: Cell::new(0),
        };
        Engine { sim: Sim { inner: Rc::new(inner) } }
    }

    /// The handle.
    pub fn sim(&self) -> &Sim {
        &self.sim
    }

    /// Starts a task; see [`Sim::spawn`].
    pub fn spawn<T: 'static>(
        &self,
        spawn: Spawn,
        body: impl FnOnce(&Sim) -> T + 'static,
    ) -> JoinHandle<T> {
        self.sim.spawn(spawn, body)
    }

    /// Runs until the last foreground task has ended.
    pub fn run(&mut self) -> Result<(), RunError> {
        self.run_until(u64::MAX).map(|_| ())
    }

    /// Runs until the last foreground task has ended or the next event lies after `limit_ns`.
    pub fn run_until(&mut self, limit_ns: u64) -> Result<Outcome, RunError> {
        let inner = &*self.sim.inner;
        inner.state.borrow_mut().limit_ns = limit_ns;
        let mut next = inner.dispatch(&mut inner.state.borrow_mut());
        while let Some(index) = next {
            let Some(mut coroutine) = inner.coroutines.borrow_mut()[index.idx()].take() else {
                unreachable!("a task without code was scheduled");
            };
            let step = coroutine.resume(&inner.slot);
            next = match step {
                Step::Suspended => {
                    inner.coroutines.borrow_mut()[index.idx()] = Some(coroutine);
                    inner.handoff.take()
                }
                Step::Finished => {
                    drop(coroutine);
                    inner.finish(index)
                }
                Step::Panicked(payload) if payload.is::<ExitTask>() => {
                    drop(coroutine);
                    inner.finish(index)
                }
                Step::Panicked(payload) => {
                    inner.running.set(TaskIndex::NONE);
                    return Err(inner.task_panicked(index, payload));
                }
            };
        }
        inner.running.set(TaskIndex::NONE);
        // The last event may have resumed no task.
        inner.local_ns.set(inner.local_ns.get().max(inner.state.borrow().now_ns));
        let outcome = inner.stop_reason()?;
        if outcome == Outcome::TimeLimit {
            inner.local_ns.set(limit_ns);
            inner.state.borrow_mut().now_ns = limit_ns;
        }
        Ok(outcome)
    }

    /// Like [`Engine::run`], with a time limit. A run that is not done at `limit_ns` is an error
    /// that names every task.
    pub fn run_within(&mut self, limit_ns: u64) -> Result<(), RunError> {
        match self.run_until(limit_ns)? {
            Outcome::Finished => Ok(()),
            Outcome::TimeLimit => {
                let tasks = self.sim.inner.state.borrow().stuck_tasks();
                Err(RunError::TimeLimit { limit_ns, tasks })
            }
        }
    }

    /// True if a task, or a daemon, has a CPU or waits for one: it may be in the midst of anything.
    pub fn has_awake_task(&self) -> bool {
        self.sim.inner.state.borrow().has_awake_task()
    }

    /// The digest of all events so far.
    pub fn digest(&self) -> Digest {
        self.sim.inner.state.borrow().digest.clone()
    }

    /// Events handled so far.
    pub fn nr_events(&self) -> u64 {
        self.sim.inner.state.borrow().nr_events
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let inner = &*self.sim.inner;
        inner.teardown.set(true);
        inner.running.set(TaskIndex::NONE);
        // Index loop: a destructor of a task may still spawn.
        let mut index = 0;
        while let Some(coroutine) = {
            let mut coroutines = inner.coroutines.borrow_mut();
            coroutines.get_mut(index).map(Option::take)
        } {
            drop(coroutine);
            index += 1;
        }
    }
}

impl Inner {
    /// Takes the earliest event and makes its task the current one. Returns `None` if nothing is
    /// left to run.
    pub(crate) fn dispatch(&self, state: &mut State) -> Option<TaskIndex> {
        if state.tasks.nr_foreground == 0 {
            return None;
        }
        loop {
            let (time_ns, id) = state.queue.pop_until(state.limit_ns)?;
            let index = TaskIndex(id);
            let before = state.tasks[index].state;
            state.now_ns = time_ns;
            state.nr_events += 1;
            if state.watch.is_due(time_ns, state.nr_events) && state.watch(time_ns) {
                return None;
            }
            let task = &state.tasks[index];
            let word = u64::from(id) | u64::from(task.cpu.0) << 32 | (before as u64) << 48;
            state.digest.fold(time_ns, word);
            let starts_ns = match before {
                TaskState::Ready => {
                    if let Errand::Computes { .. } = task.errand {
                        state.end_compute(index, time_ns, 0);
                    }
                    match state.pay_stolen(index, time_ns) {
                        None if state.queues(index, time_ns) => continue,
                        None => time_ns,
                        later @ Some(_) => match state.start_or_queue(index, later) {
                            Some(at_ns) => at_ns,
                            None => continue,
                        },
                    }
                }
                TaskState::Timed | TaskState::Sleeping => {
                    state.tasks[index].wake = Wake::TimedOut;
                    state.book_ready(index, time_ns, None);
                    let placed = state.place(index, TaskIndex::NONE, time_ns);
                    if placed == Some(time_ns) {
                        time_ns
                    } else {
                        match state.start_or_queue(index, placed) {
                            Some(at_ns) => at_ns,
                            None => continue,
                        }
                    }
                }
                other => unreachable!("event for a task in state {other:?}"),
            };
            self.enter(state, index, starts_ns);
            return Some(index);
        }
    }

    /// Loads the running task's cells.
    fn enter(&self, state: &mut State, index: TaskIndex, at_ns: u64) {
        let task = &mut state.tasks[index];
        task.state = TaskState::Running;
        self.running.set(index);
        self.cpu.set(task.cpu);
        self.local_ns.set(at_ns);
        self.resumed_at_ns.set(at_ns);
        self.user_ns.set(0);
        self.atomic_depth.set(task.atomic_depth);
        if let Placement::Interrupt(_) = task.placement {
            self.tick_at_ns.set(u64::MAX);
            self.resched_at_ns.set(u64::MAX);
        } else {
            let cpu = task.cpu;
            state.was_away(index, at_ns);
            let cpu = &state.sched.cpus[cpu.idx()];
            self.tick_at_ns.set(cpu.tick_at_ns);
            self.resched_at_ns.set(cpu.resched_at_ns);
        }
        self.book_resume(state, index);
        let (bound_ns, likely_next) = state.queue.peek();
        self.set_horizon(bound_ns);
        if let Some(id) = likely_next {
            state.tasks.prefetch(TaskIndex(id));
            if let Some(Some(coroutine)) = self.coroutines.borrow().get(id as usize) {
                coroutine.prefetch();
            }
        }
    }

    /// Stores the running task's cells and accounts its time.
    pub(crate) fn leave(&self, state: &mut State, index: TaskIndex) {
        let local_ns = self.local_ns.get();
        let ran_ns = local_ns - self.resumed_at_ns.get();
        let user_ns = self.user_ns.get();
        let task = &mut state.tasks[index];
        task.atomic_depth = self.atomic_depth.get();
        task.times.user_ns += user_ns;
        task.times.system_ns += ran_ns - user_ns;
        if let Placement::Interrupt(_) = task.placement {
            state.sched.steal_time(task.cpu, ran_ns);
        } else {
            let cpu = &mut state.sched.cpus[task.cpu.idx()];
            cpu.times.user_ns += user_ns;
            cpu.times.system_ns += ran_ns - user_ns;
            cpu.local_ns = local_ns;
            cpu.tick_at_ns = self.tick_at_ns.get();
        }
        self.book_run(state, index);
    }

    /// Accounts the time that the running interrupt has used so far, before it wakes a task that
    /// may start on the same CPU. The woken task starts after this time, so it must not lose the
    /// time again as stolen time.
    #[inline]
    pub(crate) fn account_interrupt(&self, state: &mut State) {
        if let Some(me) = self.current()
            && let Placement::Interrupt(_) = state.tasks[me].placement
        {
            self.leave(state, me);
            self.resumed_at_ns.set(self.local_ns.get());
            self.user_ns.set(0);
        }
    }

    pub(crate) fn reset_horizon(&self, state: &State) {
        self.set_horizon(state.queue.lower_bound());
    }

    /// Sets the horizon. No pending event is earlier than `bound_ns`.
    #[inline(always)]
    pub(crate) fn set_horizon(&self, bound_ns: u64) {
        let resched_ns = if self.atomic_depth.get() == 0 {
            self.resched_at_ns.get().saturating_sub(1)
        } else {
            u64::MAX
        };
        self.horizon_ns.set(bound_ns.min(resched_ns));
        self.limit_locks();
    }

    /// Recomputes the lock limits after the horizon or the next tick changed.
    #[inline(always)]
    pub(crate) fn limit_locks(&self) {
        let tick_at_ns = self.tick_at_ns.get();
        let shared_ns = self.horizon_ns.get().min(tick_at_ns);
        self.lock_before_ns[LockKind::Spin as usize].set(shared_ns);
        self.lock_before_ns[LockKind::Private as usize].set(tick_at_ns);
    }

    /// The time from which a lock of this kind is no longer taken on the fast path.
    #[inline(always)]
    pub(crate) fn lock_before_ns(&self, kind: LockKind) -> u64 {
        self.lock_before_ns[kind as usize].get()
    }

    /// Lets the next event's task run and returns when this one is resumed. The caller has stored
    /// its state and left.
    #[inline(always)]
    pub(crate) fn switch_away(&self, me: TaskIndex) {
        if self.pick_next(me) {
            self.suspend();
        }
    }

    /// First half of [`Inner::switch_away`]. Returns true if the second half, [`Inner::suspend`],
    /// must follow.
    #[must_use]
    pub(crate) fn pick_next(&self, me: TaskIndex) -> bool {
        let next = self.dispatch(&mut self.state.borrow_mut());
        if next == Some(me) {
            return false;
        }
        self.handoff.set(next);
        true
    }

    #[inline(always)]
    pub(crate) fn suspend(&self) {
        self.slot.suspend();
    }

    /// The running task; `None` outside tasks.
    #[inline(always)]
    pub(crate) fn current(&self) -> Option<TaskIndex> {
        let running = self.running.get();
        (running != TaskIndex::NONE).then_some(running)
    }

    /// The running task, or a panic that names the call: only tasks may wait.
    pub(crate) fn expect_current(&self, what: &str) -> TaskIndex {
        match self.current() {
            Some(index) => index,
            None => panic!("{what} was called outside a task"),
        }
    }

    /// The current task gives its CPU to the next one (if it has a CPU at all).
    #[inline(always)]
    pub(crate) fn release_cpu(state: &mut State, index: TaskIndex) {
        let task = &state.tasks[index];
        if let Placement::Interrupt(_) = task.placement {
            return;
        }
        let cpu = task.cpu;
        let left_at_ns = state.sched.cpus[cpu.idx()].local_ns;
        let doing = task.state;
        if !state.sched.idle_on(cpu) {
            let leaves = match doing {
                TaskState::Free => Leaves::Ends,
                TaskState::Queued => Leaves::Stays,
                _ => Leaves::Sleeps,
            };
            Self::start_next(state, cpu, leaves);
        }
        if state.pressure.is_some() {
            state.press(index, doing != TaskState::Free, doing.is_awake(), left_at_ns);
        }
    }

    fn start_next(state: &mut State, cpu: CpuId, leaves: Leaves) {
        let (sched, tasks) = (&mut state.sched, &state.tasks);
        let next = sched.next_on(cpu, leaves, |index| State::candidate(tasks, index));
        if let Some((next, at_ns)) = next {
            let task = &mut state.tasks[next];
            task.cpu = cpu;
            task.state = TaskState::Ready;
            state.queue.insert(next.0, at_ns);
            // It may have waited for another CPU.
            state.press(next, true, true, at_ns);
        }
    }

    /// Adds the coroutine of a new task.
    pub(crate) fn set_coroutine(&self, index: TaskIndex, coroutine: Coroutine) {
        let mut coroutines = self.coroutines.borrow_mut();
        if coroutines.len() <= index.idx() {
            coroutines.resize_with(index.idx() + 1, || None);
        }
        coroutines[index.idx()] = Some(coroutine);
    }

    /// A task's code returned.
    fn finish(&self, index: TaskIndex) -> Option<TaskIndex> {
        let state = &mut *self.state.borrow_mut();
        self.leave(state, index);
        self.running.set(TaskIndex::NONE);
        let ended_ns = self.local_ns.get();
        if let Some(book) = &mut state.book {
            book.end(index);
        }
        let joiners = state.tasks.remove(index);
        Self::release_cpu(state, index);
        for joiner in joiners {
            state.wake(joiner, ended_ns, index);
        }
        state.now_ns = ended_ns;
        self.dispatch(state)
    }

    fn stop_reason(&self) -> Result<Outcome, RunError> {
        let state = self.state.borrow();
        if state.tasks.nr_foreground == 0 {
            return Ok(Outcome::Finished);
        }
        let now_ns = state.now_ns;
        match state.watch.finding {
            Some(Finding::Hung { since_ns }) => {
                return Err(RunError::Hung { now_ns, since_ns, tasks: state.stuck_tasks() });
            }
            Some(Finding::Livelock { nr_events }) => {
                return Err(RunError::Livelock { now_ns, nr_events, tasks: state.stuck_tasks() });
            }
            Some(Finding::Stopped) => return Err(RunError::Stopped { now_ns }),
            None => {}
        }
        if !state.queue.is_empty() {
            return Ok(Outcome::TimeLimit);
        }
        Err(RunError::Deadlock { now_ns, tasks: state.stuck_tasks() })
    }

    fn task_panicked(&self, index: TaskIndex, payload: Box<dyn Any + Send>) -> RunError {
        let message = match payload.downcast::<String>() {
            Ok(text) => *text,
            Err(payload) => match payload.downcast_ref::<&'static str>() {
                Some(text) => (*text).to_owned(),
                None => "a value that is not text".to_owned(),
            },
        };
        let mut state = self.state.borrow_mut();
        let task = state.tasks.info(index).name.to_string();
        state.tasks.remove(index);
        RunError::TaskPanicked { task, now_ns: self.local_ns.get(), message }
    }
}
