//! The run queue of one CPU under a fair policy: CFS or EEVDF.
//!
//! The two differ in their bookkeeping only, so the scheduler and the tests see one type.

use super::cfs::{Cfs, CfsParams};
use super::eevdf::Eevdf;
use super::entity::{Entities, Members, Standing};
use crate::engine::task::TaskIndex;

/// A run queue.
pub(crate) enum RunQueue {
    /// CFS.
    Cfs(Cfs),
    /// EEVDF.
    Eevdf(Eevdf),
}

/// Calls a method that both kinds have.
macro_rules! either {
    ($queue:expr, $each:ident => $call:expr) => {
        match $queue {
            RunQueue::Cfs($each) => $call,
            RunQueue::Eevdf($each) => $call,
        }
    };
}

impl RunQueue {
    /// CFS as in 6.1, on a machine with `nr_cpus` CPUs.
    pub(crate) fn cfs(nr_cpus: usize) -> RunQueue {
        RunQueue::Cfs(Cfs::new(CfsParams::new(nr_cpus)))
    }

    /// EEVDF as in 6.12, on a machine with `nr_cpus` CPUs.
    pub(crate) fn eevdf(nr_cpus: usize) -> RunQueue {
        RunQueue::Eevdf(Eevdf::new(nr_cpus))
    }

    fn members(&self) -> &Members {
        either!(self, queue => &queue.members)
    }

    /// The running task.
    pub(crate) fn current(&self) -> Option<TaskIndex> {
        self.members().current
    }

    /// Tasks that wait, in no particular order; sleeping ones that are delayed among them.
    pub(crate) fn waiting(&self) -> &[TaskIndex] {
        &self.members().waiting
    }

    /// Number of tasks that wait for the CPU.
    pub(crate) fn nr_waiting(&self) -> usize {
        match self {
            RunQueue::Cfs(queue) => queue.members.waiting.len(),
            RunQueue::Eevdf(queue) => queue.members.waiting.len() - queue.nr_delayed(),
        }
    }

    /// Sum of the weights of all members.
    pub(crate) fn weight(&self, entities: &Entities) -> u64 {
        self.members().weight(entities)
    }

    /// The running task should leave the CPU.
    #[doc(alias = "TIF_NEED_RESCHED")]
    pub(crate) fn needs_resched(&self) -> bool {
        either!(self, queue => queue.needs_resched)
    }

    /// Virtual time from which a moving task's virtual runtime counts.
    pub(crate) fn min_v(&self) -> i64 {
        either!(self, queue => queue.min_v)
    }

    /// Accounts the running task's time.
    pub(crate) fn update(&mut self, entities: &mut Entities, now_ns: u64) {
        either!(self, queue => queue.update(entities, now_ns));
    }

    /// A new task becomes runnable. `parent_v`: the virtual runtime of the task that started it, in
    /// this queue's time.
    #[doc(alias = "wake_up_new_task")]
    pub(crate) fn begin(
        &mut self,
        entities: &mut Entities,
        task: TaskIndex,
        parent_v: Option<i64>,
        now_ns: u64,
    ) {
        self.update(entities, now_ns);
        match self {
            RunQueue::Cfs(queue) => {
                queue.place_new(entities, task, parent_v.unwrap_or(queue.min_v));
                queue.enqueue(entities, task);
            }
            RunQueue::Eevdf(queue) => {
                queue.place_new(entities, task);
                queue.enqueue(entities, task);
            }
        }
    }

    /// A sleeping task becomes runnable.
    pub(crate) fn wake(&mut self, entities: &mut Entities, task: TaskIndex, now_ns: u64) {
        self.update(entities, now_ns);
        match self {
            RunQueue::Cfs(queue) => {
                queue.place_woken(entities, task);
                queue.enqueue(entities, task);
            }
            RunQueue::Eevdf(queue) if entities[task].standing == Standing::Delayed => {
                queue.wake_delayed(entities, task);
            }
            RunQueue::Eevdf(queue) => {
                queue.place_woken(entities, task);
                queue.enqueue(entities, task);
            }
        }
    }

    /// A task that waited in another queue goes on waiting in this one. Its virtual runtime counts
    /// from the other queue's `min_v`.
    #[doc(alias = "attach_task")]
    pub(crate) fn attach(
        &mut self,
        entities: &mut Entities,
        task: TaskIndex,
        other_min_v: i64,
        now_ns: u64,
    ) {
        self.update(entities, now_ns);
        match self {
            RunQueue::Cfs(queue) => {
                entities[task].v += queue.min_v - other_min_v;
                queue.enqueue(entities, task);
            }
            RunQueue::Eevdf(queue) => {
                queue.place_moved(entities, task);
                queue.enqueue(entities, task);
            }
        }
    }

    /// A task that waits leaves for another queue.
    #[doc(alias = "detach_task")]
    pub(crate) fn detach(&mut self, entities: &mut Entities, task: TaskIndex, now_ns: u64) {
        either!(self, queue => queue.remove(entities, task, now_ns));
    }

    /// A timer tick of a CPU that runs a task.
    #[doc(alias = "scheduler_tick")]
    pub(crate) fn tick(&mut self, entities: &mut Entities, now_ns: u64) {
        either!(self, queue => queue.tick(entities, now_ns));
    }

    /// The task whose turn it is; the running one takes part if there is one.
    #[doc(alias = "pick_next_task_fair")]
    pub(crate) fn pick(&mut self, entities: &mut Entities, now_ns: u64) -> Option<TaskIndex> {
        either!(self, queue => queue.pick(entities, now_ns))
    }

    /// The picked task has the CPU from now on; the one that had it waits.
    pub(crate) fn start(&mut self, entities: &mut Entities, task: TaskIndex, now_ns: u64) {
        either!(self, queue => queue.start(entities, task, now_ns));
    }

    /// The running task sleeps.
    pub(crate) fn block(&mut self, entities: &mut Entities, now_ns: u64) {
        either!(self, queue => queue.block(entities, now_ns));
    }

    /// The running task ends.
    pub(crate) fn end(&mut self, entities: &mut Entities, now_ns: u64) {
        match self {
            RunQueue::Cfs(queue) => queue.block(entities, now_ns),
            RunQueue::Eevdf(queue) => queue.end(entities, now_ns),
        }
    }

    /// The running task lets others go first.
    pub(crate) fn yield_now(&mut self, entities: &mut Entities, now_ns: u64) {
        either!(self, queue => queue.yield_now(entities, now_ns));
    }
}
