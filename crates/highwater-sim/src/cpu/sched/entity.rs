//! The state of each task in a fair run queue.
//!
//! A table by task, beside the run queues: an entity keeps its virtual time while its task sleeps
//! and when the task moves to another CPU.

use super::weights::Weight;
use crate::cpu::{CpuId, Nice};
use crate::engine::task::TaskIndex;

/// Membership of an entity in a run queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Its task sleeps, or has not begun.
    Away,
    /// Its task waits for the CPU.
    Waiting,
    /// Its task has the CPU.
    Running,
    /// Its task sleeps but had run more than its share: it competes and does not run (EEVDF).
    Delayed,
}

/// A task as a run queue sees it.
#[doc(alias = "sched_entity")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entity {
    pub(crate) weight: Weight,
    pub(crate) standing: Standing,
    /// It has never been in a run queue.
    pub(crate) is_new: bool,
    /// CPU whose run queue it is in, or was in last.
    pub(crate) cpu: CpuId,
    /// Virtual runtime.
    pub(crate) v: i64,
    /// EEVDF: virtual time by which its request should be served.
    pub(crate) deadline: i64,
    /// EEVDF: how much less than its share it had got when it left.
    pub(crate) lag: i64,
    /// EEVDF: it keeps the CPU while its deadline is this one.
    pub(crate) protected: i64,
    /// CFS: run time since it was picked.
    pub(crate) ran_ns: u64,
    /// Time at which it ran last.
    pub(crate) ran_at_ns: u64,
    /// Order of entering the tree of waiting entities: of two that are equal, the earlier comes
    /// first.
    pub(crate) entered: u64,
}

impl Entity {
    /// True if its task waits for the CPU.
    pub(crate) fn is_waiting(&self) -> bool {
        self.standing == Standing::Waiting
    }
}

/// The entities of all tasks.
#[derive(Default)]
pub(crate) struct Entities(Vec<Entity>);

impl Entities {
    /// Registers a new task.
    pub(crate) fn begin(&mut self, task: TaskIndex, nice: Nice, cpu: CpuId) {
        let entity = Entity {
            weight: Weight::of(nice),
            standing: Standing::Away,
            is_new: true,
            cpu,
            v: 0,
            deadline: 0,
            lag: 0,
            protected: i64::MIN,
            ran_ns: 0,
            ran_at_ns: 0,
            entered: 0,
        };
        if self.0.len() <= task.idx() {
            self.0.resize(task.idx() + 1, entity);
        }
        self.0[task.idx()] = entity;
    }

    /// The entity of a task; `None` if there never was such a task.
    pub(crate) fn get(&self, task: TaskIndex) -> Option<&Entity> {
        self.0.get(task.idx())
    }
}

impl std::ops::Index<TaskIndex> for Entities {
    type Output = Entity;

    #[inline(always)]
    fn index(&self, task: TaskIndex) -> &Entity {
        &self.0[task.idx()]
    }
}

impl std::ops::IndexMut<TaskIndex> for Entities {
    #[inline(always)]
    fn index_mut(&mut self, task: TaskIndex) -> &mut Entity {
        &mut self.0[task.idx()]
    }
}

/// Members of one run queue: the tasks that wait, in no particular order, and the running one.
#[derive(Default)]
pub(crate) struct Members {
    pub(crate) waiting: Vec<TaskIndex>,
    pub(crate) current: Option<TaskIndex>,
    /// The current task's time is accounted up to here.
    pub(crate) since_ns: u64,
    nr_entered: u64,
}

impl Members {
    /// All members: those that wait, and the running one.
    pub(crate) fn all(&self) -> impl Iterator<Item = TaskIndex> + '_ {
        self.waiting.iter().copied().chain(self.current)
    }

    pub(crate) fn nr(&self) -> usize {
        self.waiting.len() + usize::from(self.current.is_some())
    }

    /// Sum of the weights of all members.
    pub(crate) fn weight(&self, entities: &Entities) -> u64 {
        self.all().map(|task| entities[task].weight.get()).sum()
    }

    /// The task joins those that wait, behind its equals.
    pub(crate) fn enter(&mut self, entities: &mut Entities, task: TaskIndex, standing: Standing) {
        debug_assert!(!self.waiting.contains(&task));
        self.nr_entered += 1;
        entities[task].entered = self.nr_entered;
        entities[task].standing = standing;
        self.waiting.push(task);
    }

    /// The task no longer waits.
    pub(crate) fn take(&mut self, task: TaskIndex) {
        if let Some(at) = self.waiting.iter().position(|&other| other == task) {
            self.waiting.swap_remove(at);
        }
    }

    /// The picked task has the CPU from now on; the one that had it waits.
    pub(crate) fn run(&mut self, entities: &mut Entities, task: TaskIndex, now_ns: u64) {
        if let Some(before) = self.current.take() {
            self.enter(entities, before, Standing::Waiting);
        }
        self.take(task);
        entities[task].standing = Standing::Running;
        entities[task].ran_ns = 0;
        self.current = Some(task);
        self.since_ns = now_ns;
    }

    /// Accounts the current task's time up to `now_ns`. Returns the task if it ran.
    pub(crate) fn account(&mut self, entities: &mut Entities, now_ns: u64) -> Option<TaskIndex> {
        let task = self.current?;
        let ran_ns = now_ns.saturating_sub(self.since_ns);
        if ran_ns == 0 {
            return None;
        }
        self.since_ns = now_ns;
        let entity = &mut entities[task];
        entity.ran_ns += ran_ns;
        entity.ran_at_ns = now_ns;
        entity.v += entity.weight.fair(ran_ns);
        Some(task)
    }
}
