//! The ledger: every nanosecond of a task booked to a cause.
//!
//! It is off by default. [`Sim::open_ledger`](crate::engine::Sim::open_ledger) gives each task a
//! tree of its operations (phases, locks it waits for), whose nodes collect time by kind. Time is
//! booked whenever a task changes its node, pauses, or resumes, so that no time is left over
//! between two bookings. The times of an operation's tree add up to its latency exactly, and those
//! of a task's tree to its life. Booking reads clocks and changes none.
//!
//! ```text
//! running:    |--user--|-tick-|----kernel----|     split by what the engine counts, booked at the task's node
//! suspended:  |--wait, sleep, lock--|-stolen-|---CPU---|
//!             stops            made runnable        goes on
//! ```
//!
//! Key types: [`Ledger`] (the result), [`OpRecord`] (one operation), [`WaitRecord`] and [`Blocker`]
//! (a wait and the tasks that held it up), [`Tree`] and [`NodeKey`].
//!
//! | module | is |
//! |---|---|
//! | [`tree`] | trees of causes |
//! | `book` | the engine's reports, as numbers |
//! | `life` | one task's time |
//! | [`Latencies`], `ops` | finished operations |
//! | `chain` | waits, and the tasks that held them up |
//! | [`GroupNames`] | names of memory cgroups |
//! | [`journal`] | each change, in a part of the run |
//! | `hooks` | entry points for the engine, locks and the host |

mod book;
mod chain;
mod group_names;
mod hooks;
pub mod journal;
mod life;
mod ops;
pub mod tree;

use std::collections::BTreeMap;
use std::rc::Rc;

pub(crate) use book::{Book, Pause};
pub use group_names::GroupNames;
pub(crate) use hooks::END_OF_TASK;
pub use journal::{Journal, KindSet, Window};
pub use ops::Latencies;
pub use tree::{Node, NodeKey, Tree};

/// The stages of a device transfer whose end ends waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    /// Time at which it entered the device's queue.
    pub(crate) submitted_ns: u64,
    /// Time at which the device began to serve it.
    pub(crate) begun_ns: u64,
    /// Time at which it was done.
    pub(crate) done_ns: u64,
}

/// One operation of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpRecord {
    /// Its name.
    pub name: Rc<str>,
    /// Its task: an index of [`Ledger::tasks`].
    pub task: u32,
    /// Time at which it began.
    pub start_ns: u64,
    /// Time at which it ended.
    pub end_ns: u64,
    /// Its time by cause.
    pub tree: Tree,
    /// Its longest waits, the longest first.
    pub waits: Vec<WaitRecord>,
    /// Number of all its waits.
    pub nr_waits: u64,
}

/// One wait of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitRecord {
    /// Time at which it began.
    pub start_ns: u64,
    /// Its length.
    pub ns: u64,
    /// The cause: a node of the task's tree.
    pub what: u32,
    /// It ended by its timeout.
    pub timed_out: bool,
    /// The task that held it up, the task that held up that one, and so on.
    pub chain: Vec<Blocker>,
    /// The chain continues beyond the recorded links.
    pub is_chain_cut: bool,
}

/// A task that held up another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// The way in which it did.
    pub how: BlockedBy,
    /// The task: an index of [`Ledger::tasks`].
    pub task: u32,
    /// Its node for most of the wait, or at its end: a node of its own tree.
    pub doing: u32,
}

/// The way in which a task held up another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockedBy {
    /// It held the lock.
    HeldLock,
    /// It ended the wait.
    Woke,
    /// It had the CPU.
    HadCpu,
}

/// A task and its time by cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRecord {
    /// Its name.
    pub name: Rc<str>,
    /// Start of the booking: the start of the task, or the opening of the ledger.
    pub since_ns: u64,
    /// End of the booking: the end of the task, or the closing of the ledger.
    pub until_ns: u64,
    /// The time between the two, by cause.
    pub tree: Tree,
}

/// The result of booking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// The slowest operations, as many as requested, the slowest first.
    pub ops: Vec<OpRecord>,
    /// All operations, by name.
    pub latencies: BTreeMap<Rc<str>, Latencies>,
    /// Every task, by start.
    pub tasks: Vec<TaskRecord>,
    /// Each change in a window, if requested.
    pub journal: Option<Journal>,
    /// Names of the groups in trees.
    pub groups: GroupNames,
    /// The first operation whose times did not add up.
    gap: Option<String>,
}

impl OpRecord {
    /// Its latency.
    pub fn ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

impl Ledger {
    /// The path of a node of a task, outermost first.
    pub fn doing(&self, task: u32, node: u32) -> Vec<NodeKey> {
        self.tasks[task as usize].tree.path(node)
    }

    /// The first operation or task whose times do not add up, if there is one.
    pub fn first_gap(&self) -> Option<String> {
        let of_task = |task: &TaskRecord| {
            let (booked_ns, ns) = (task.tree.total_ns(), task.until_ns - task.since_ns);
            let name = &task.name;
            (booked_ns != ns).then(|| format!("{name}: {booked_ns} of {ns} ns are booked"))
        };
        self.gap.clone().or_else(|| self.tasks.iter().find_map(of_task))
    }
}
