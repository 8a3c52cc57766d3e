//! State that only slow paths touch, and the wake-up of tasks: a woken task gets a CPU now or a
//! place in a runqueue.

use super::queue::Queue;
use super::task::{Errand, Placement, TaskId, TaskIndex, TaskState, TaskTable, WaitOn, Wake};
use super::watch::Watch;
use crate::cpu::sched::{Candidate, Placed, Sched};
use crate::digest::Digest;
use crate::ledger::{BlockedBy, Book, GroupNames};
use crate::pressure::Pressure;

/// State that only slow paths touch.
pub(crate) struct State {
    pub(crate) queue: Queue,
    pub(crate) tasks: TaskTable,
    pub(crate) sched: Sched,
    pub(crate) digest: Digest,
    /// Time of the last event.
    pub(crate) now_ns: u64,
    pub(super) limit_ns: u64,
    pub(crate) nr_events: u64,
    /// As [`Shortcuts::queued`](super::Shortcuts::queued).
    pub(super) nr_queued: u64,
    pub(crate) watch: Watch,
    /// The ledger of all tasks' time, if one is open.
    pub(crate) book: Option<Box<Book>>,
    /// Names of memory cgroups, for reports.
    pub(crate) group_names: GroupNames,
    /// Pressure accounting: which tasks wait for which resource, if it is measured.
    pub(crate) pressure: Option<Box<Pressure>>,
}

impl State {
    /// Gives a woken task a CPU. `waker`: the task that woke it, if one did. Returns when it starts;
    /// `None` if it waits in a runqueue.
    #[inline(always)]
    pub(crate) fn place(&mut self, index: TaskIndex, waker: TaskIndex, now_ns: u64) -> Option<u64> {
        if let Placement::Interrupt(_) = self.tasks[index].placement {
            return Some(now_ns);
        }
        self.place_on_cpu(index, waker, now_ns)
    }

    #[inline]
    fn place_on_cpu(&mut self, index: TaskIndex, waker: TaskIndex, now_ns: u64) -> Option<u64> {
        let woken_by = (waker != TaskIndex::NONE).then(|| (waker, self.tasks[waker].cpu));
        let candidate = Candidate { woken_by, ..Self::candidate(&self.tasks, index) };
        let task = &mut self.tasks[index];
        match self.sched.place(candidate, now_ns) {
            Placed::Starts { cpu, at_ns } => {
                task.cpu = cpu;
                self.press(index, true, true, now_ns);
                Some(at_ns)
            }
            Placed::Queued { cpu, preempts } => {
                task.cpu = cpu;
                task.state = TaskState::Queued;
                self.book_queued(index, now_ns);
                self.press(index, true, true, now_ns);
                if preempts {
                    self.cut_short(cpu, now_ns);
                }
                None
            }
        }
    }

    /// `waker` makes a blocked task runnable at `now_ns`; an event resumes it. False if it was not
    /// blocked.
    #[inline]
    pub(crate) fn wake(&mut self, id: TaskId, now_ns: u64, waker: TaskIndex) -> bool {
        let Some(task) = self.tasks.find(id) else {
            return false;
        };
        match task.state {
            TaskState::Timed => {
                self.queue.cancel(id.index.0);
            }
            TaskState::Parked => {}
            _ => return false,
        }
        self.tasks[id.index].wake = Wake::Unparked;
        self.book_ready(id.index, now_ns, Some((BlockedBy::Woke, waker)));
        if let Some(at_ns) = self.place(id.index, waker, now_ns) {
            self.tasks[id.index].state = TaskState::Ready;
            self.queue.insert(id.index.0, at_ns);
        }
        true
    }

    /// Returns the start time of a task that can start now; otherwise queues its event.
    #[inline]
    pub(super) fn start_or_queue(&mut self, index: TaskIndex, at_ns: Option<u64>) -> Option<u64> {
        let at_ns = at_ns?;
        if !self.queue.has_before(at_ns.saturating_add(1)) && at_ns <= self.limit_ns {
            return Some(at_ns);
        }
        self.tasks[index].state = TaskState::Ready;
        self.queue.insert(index.0, at_ns);
        None
    }

    /// Handles the event of a task that gave way. Returns true if the task was on its way to a lock
    /// that is held: it waits there now.
    #[inline]
    pub(super) fn queues(&mut self, index: TaskIndex, time_ns: u64) -> bool {
        let task = &self.tasks[index];
        let Errand::To(lock) = task.errand else { return false };
        let is_interrupt = matches!(task.placement, Placement::Interrupt(_));
        let cpu = &self.sched.cpus[task.cpu.idx()];
        // A task that has to leave its CPU, or that a ledger watches, must resume to do so itself.
        if !is_interrupt && task.atomic_depth == 0 && time_ns >= cpu.resched_at_ns
            || self.book.is_some()
        {
            return false;
        }
        let Some((class, holder)) = lock.queue_if_held(index) else { return false };
        if !is_interrupt {
            self.was_away(index, time_ns);
        }
        let task = &mut self.tasks[index];
        task.errand = Errand::Queued { since_ns: time_ns };
        if cfg!(debug_assertions) {
            self.nr_queued += 1;
        }
        task.atomic_depth += 1;
        self.begin_spin(index, class, holder);
        true
    }

    /// Marks a task as waiting for a lock from now on, with its CPU busy.
    #[inline]
    pub(super) fn begin_spin(&mut self, index: TaskIndex, class: &'static str, holder: TaskIndex) {
        self.tasks[index].state = TaskState::Spinning;
        self.tasks.info_mut(index).wait_on = WaitOn::Lock(class, holder);
    }

    /// Catches up for a task that continues on its CPU after it spun or after interrupts ran.
    #[inline(always)]
    pub(super) fn was_away(&mut self, index: TaskIndex, at_ns: u64) {
        let task = &mut self.tasks[index];
        let cpu = &mut self.sched.cpus[task.cpu.idx()];
        let away_ns = at_ns - cpu.local_ns;
        cpu.local_ns = at_ns;
        cpu.times.system_ns += away_ns;
        task.times.system_ns += away_ns;
    }

    /// Charges a task for time that interrupts took from its CPU. Returns when it can go on, if
    /// later than `time_ns`.
    #[inline]
    pub(super) fn pay_stolen(&mut self, index: TaskIndex, time_ns: u64) -> Option<u64> {
        let task = &self.tasks[index];
        if let Placement::Interrupt(_) = task.placement {
            return None;
        }
        match std::mem::take(&mut self.sched.cpus[task.cpu.idx()].stolen_ns) {
            0 => None,
            stolen_ns => {
                self.book_stolen(index, stolen_ns);
                Some(time_ns + stolen_ns)
            }
        }
    }

    #[inline]
    pub(super) fn candidate(tasks: &TaskTable, index: TaskIndex) -> Candidate {
        let task = &tasks[index];
        let (placement, last_cpu) = (task.placement, task.cpu);
        Candidate { task: index, placement, last_cpu, woken_by: None }
    }
}
