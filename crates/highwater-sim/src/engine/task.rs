//! Tasks: identity, placement, state, and the table that holds them.

use std::fmt;
use std::rc::Rc;

use highwater_core::sync::prefetch::prefetch_read;

use super::stack::StackClass;
use crate::cpu::{CpuId, Nice};
use crate::lock::Arrival;

/// Position in the task table; reused after a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TaskIndex(pub(crate) u32);

impl TaskIndex {
    /// No task.
    pub(crate) const NONE: TaskIndex = TaskIndex(u32::MAX);

    #[inline(always)]
    pub(crate) const fn idx(self) -> usize {
        self.0 as usize
    }
}

/// Names one task for ever: a table position and the number of earlier tasks in that position.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    pub(crate) index: TaskIndex,
    pub(crate) generation: u32,
}

impl TaskId {
    /// One word that identifies a task, for events and maps.
    pub const fn as_u64(self) -> u64 {
        (self.generation as u64) << 32 | self.index.0 as u64
    }

    /// The inverse of [`TaskId::as_u64`].
    pub const fn from_u64(word: u64) -> Self {
        TaskId { index: TaskIndex(word as u32), generation: (word >> 32) as u32 }
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}.{}", self.index.0, self.generation)
    }
}

/// CPUs that a task may run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// On one CPU.
    Pinned(CpuId),
    /// On the CPUs of one node; anywhere if it has none.
    Node(u16),
    /// On every CPU.
    Anywhere,
    /// In interrupts of this CPU. The task never waits for the CPU, and its charged time is taken
    /// from the task that runs there. Devices are such tasks.
    Interrupt(CpuId),
}

/// Whether the run lasts until a task ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The run ends when the last foreground task has ended.
    Foreground,
    /// Lives as long as the run (kernel threads, devices).
    Daemon,
}

/// Parameters of a new task.
#[derive(Clone, Debug)]
pub struct Spawn {
    pub(crate) name: Rc<str>,
    pub(crate) placement: Placement,
    pub(crate) role: Role,
    pub(crate) kernel_thread: bool,
    pub(crate) stack: StackClass,
    pub(crate) nice: Nice,
}

impl Spawn {
    /// A foreground task that runs anywhere.
    pub fn new(name: impl Into<Rc<str>>) -> Self {
        Spawn {
            name: name.into(),
            placement: Placement::Anywhere,
            role: Role::Foreground,
            kernel_thread: false,
            stack: StackClass::default(),
            nice: Nice::default(),
        }
    }

    /// Sets the CPUs that it may run on.
    pub fn placement(self, placement: Placement) -> Self {
        Spawn { placement, ..self }
    }

    /// Restricts it to one CPU.
    pub fn pinned(self, cpu: CpuId) -> Self {
        self.placement(Placement::Pinned(cpu))
    }

    /// Makes it a daemon that is marked as a kernel thread.
    pub fn kernel_thread(self) -> Self {
        Spawn { kernel_thread: true, role: Role::Daemon, ..self }
    }

    /// Makes it a daemon.
    pub fn daemon(self) -> Self {
        Spawn { role: Role::Daemon, ..self }
    }

    /// Sets its nice value.
    pub fn nice(self, nice: Nice) -> Self {
        Spawn { nice, ..self }
    }

    /// Sets its stack size.
    pub fn stack(self, stack: StackClass) -> Self {
        Spawn { stack, ..self }
    }
}

/// Current state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum TaskState {
    /// This table position holds no task.
    Free,
    /// Its coroutine executes now.
    Running,
    /// Has its CPU (or needs none) and continues when its event comes.
    Ready,
    /// In a runqueue; no event.
    Queued,
    /// Blocked; no event.
    Parked,
    /// Blocked until its event comes or a task wakes it.
    Timed,
    /// Blocked until its event comes; wake-ups do not end it.
    Sleeping,
    /// Blocked until a sleeping lock is handed to it; no event.
    LockWait,
    /// Keeps its CPU busy until a lock is handed to it; no event.
    Spinning,
}

impl TaskState {
    /// True if it has a CPU.
    pub(crate) const fn has_cpu(self) -> bool {
        matches!(self, TaskState::Running | TaskState::Ready | TaskState::Spinning)
    }

    /// True if it has a CPU or waits for one.
    pub(crate) const fn is_awake(self) -> bool {
        match self {
            TaskState::Running | TaskState::Ready | TaskState::Queued | TaskState::Spinning => true,
            TaskState::Free
            | TaskState::Parked
            | TaskState::Timed
            | TaskState::Sleeping
            | TaskState::LockWait => false,
        }
    }
}

/// The event that a blocked task waits for.
#[derive(Clone, Debug)]
pub(crate) enum WaitOn {
    Nothing,
    /// The reason given to `park`.
    Reason(&'static str),
    /// A lock, by class name, and its holder.
    Lock(&'static str, TaskIndex),
    /// The end of a task.
    Exit(TaskIndex),
}

/// The next step of a task that gave way, where its event need not resume it for that step.
#[derive(Clone, Copy)]
pub(crate) enum Errand {
    Nothing,
    /// It arrives at a spin lock.
    To(Arrival),
    /// It arrived and has waited since then for the lock to be handed to it.
    Queued {
        since_ns: u64,
    },
    /// It computes since then, until its event comes or a wake-up preempts it.
    Computes {
        since_ns: u64,
    },
    /// It computed for this time.
    Computed {
        ns: u64,
    },
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// A task called `unpark` (possibly before the wait).
    Unparked,
    /// The deadline came first.
    TimedOut,
}

/// Time that a task used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TaskTimes {
    /// In user code.
    pub user_ns: u64,
    /// In kernel code, spinning included.
    pub system_ns: u64,
}

/// The part of a task that every event touches: one cache line.
#[repr(align(64))]
pub(crate) struct Task {
    pub(crate) generation: u32,
    pub(crate) state: TaskState,
    pub(crate) wake: Wake,
    /// An `unpark` that no wait has consumed yet.
    pub(crate) permit: bool,
    /// Number of spinlocks held and similar sections: no preemption, no blocking.
    pub(crate) atomic_depth: u32,
    pub(crate) placement: Placement,
    /// CPU where it runs or ran last.
    pub(crate) cpu: CpuId,
    pub(crate) times: TaskTimes,
    pub(crate) errand: Errand,
}

const _: () = assert!(size_of::<Task>() == 64);

/// The part of a task that only slow paths touch.
pub(crate) struct TaskInfo {
    pub(crate) name: Rc<str>,
    pub(crate) role: Role,
    pub(crate) kernel_thread: bool,
    pub(crate) wait_on: WaitOn,
    pub(crate) joiners: Vec<TaskId>,
    /// Number of times it left its CPU at the end of a slice.
    pub(crate) preemptions: u64,
}

/// All tasks.
#[derive(Default)]
pub(crate) struct TaskTable {
    hot: Vec<Task>,
    info: Vec<TaskInfo>,
    free: Vec<TaskIndex>,
    /// Foreground tasks that have not ended.
    pub(crate) nr_foreground: usize,
}

impl TaskTable {
    pub(crate) fn add(&mut self, spawn: &Spawn, cpu: CpuId) -> TaskId {
        let info = TaskInfo {
            name: Rc::clone(&spawn.name),
            role: spawn.role,
            kernel_thread: spawn.kernel_thread,
            wait_on: WaitOn::Nothing,
            joiners: Vec::new(),
            preemptions: 0,
        };
        let index = self.free.pop().unwrap_or(TaskIndex(self.hot.len() as u32));
        let generation = self.hot.get(index.idx()).map_or(0, |old| old.generation + 1);
        let task = Task {
            generation,
            state: TaskState::Parked,
            wake: Wake::Unparked,
            permit: false,
            atomic_depth: 0,
            placement: spawn.placement,
            cpu,
            times: TaskTimes::default(),
            errand: Errand::Nothing,
        };
        if index.idx() == self.hot.len() {
            self.hot.push(task);
            self.info.push(info);
        } else {
            self.hot[index.idx()] = task;
            self.info[index.idx()] = info;
        }
        self.nr_foreground += usize::from(spawn.role == Role::Foreground);
        TaskId { index, generation }
    }

    /// Removes an ended task; returns the tasks that wait for its end.
    pub(crate) fn remove(&mut self, index: TaskIndex) -> Vec<TaskId> {
        self[index].state = TaskState::Free;
        let info = &mut self.info[index.idx()];
        self.nr_foreground -= usize::from(info.role == Role::Foreground);
        self.free.push(index);
        std::mem::take(&mut info.joiners)
    }

    /// The task, unless it ended.
    pub(crate) fn find(&self, id: TaskId) -> Option<&Task> {
        self.hot
            .get(id.index.idx())
            .filter(|task| task.generation == id.generation && task.state != TaskState::Free)
    }

    pub(crate) fn id_of(&self, index: TaskIndex) -> TaskId {
        TaskId { index, generation: self[index].generation }
    }

    /// Prefetches, on the real CPU, the cache line of a task that the engine will look at soon.
    #[inline(always)]
    pub(crate) fn prefetch(&self, index: TaskIndex) {
        if let Some(task) = self.hot.get(index.idx()) {
            prefetch_read(task);
        }
    }

    pub(crate) fn info(&self, index: TaskIndex) -> &TaskInfo {
        &self.info[index.idx()]
    }

    pub(crate) fn info_mut(&mut self, index: TaskIndex) -> &mut TaskInfo {
        &mut self.info[index.idx()]
    }

    /// True for a task that has not ended (false for [`TaskIndex::NONE`] and the like).
    pub(crate) fn is_live(&self, index: TaskIndex) -> bool {
        self.hot.get(index.idx()).is_some_and(|task| task.state != TaskState::Free)
    }

    /// Tasks that have not ended, by index.
    pub(crate) fn live(&self) -> impl Iterator<Item = TaskIndex> + '_ {
        (0..self.hot.len() as u32)
            .map(TaskIndex)
            .filter(|&index| self[index].state != TaskState::Free)
    }
}

impl std::ops::Index<TaskIndex> for TaskTable {
    type Output = Task;

    #[inline(always)]
    fn index(&self, index: TaskIndex) -> &Task {
        &self.hot[index.idx()]
    }
}

impl std::ops::IndexMut<TaskIndex> for TaskTable {
    #[inline(always)]
    fn index_mut(&mut self, index: TaskIndex) -> &mut Task {
        &mut self.hot[index.idx()]
    }
}
