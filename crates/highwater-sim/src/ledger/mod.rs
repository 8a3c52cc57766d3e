//! The ledger: every nanosecond of a task booked to a cause.
//!
//! Off unless asked for ([`Sim::open_ledger`](crate::engine::Sim::open_ledger)): then each task has a tree of what it is
//! doing (phases, locks it waits for) whose nodes collect time by kind. Time is booked when a task changes what it does,
//! when it stops, and when it goes on, so that between two bookings nothing is left over: the times of an operation's
//! tree add up to its latency exactly, and those of a task's to its life. Booking reads clocks and moves none.
//!
//! ```text
//! running:    |--user--|-tick-|----kernel----|     split by what the engine counts, booked at the task's node
//! suspended:  |--wait, sleep, lock--|-stolen-|---CPU---|
//!             stops            made runnable        goes on
//! ```
//!
//! Key types: [`Ledger`] (what was booked), [`OpRecord`] (one operation), [`WaitRecord`] and [`Blocker`] (who held it up),
//! [`Tree`] and [`NodeKey`].
//!
//! | module | is |
//! |---|---|
//! | [`tree`] | trees of causes |
//! | `book` | what the engine says, over numbers |
//! | `life` | one task's time |
//! | [`Latencies`], `ops` | operations that are over |
//! | `chain` | waits, and who held up whom |
//! | [`journal`] | what happened when, of a part of the run |
//! | `hooks` | what the engine, locks and the host call |

mod book;
mod chain;
mod hooks;
pub mod journal;
mod life;
mod ops;
pub mod tree;

use std::collections::BTreeMap;
use std::rc::Rc;

pub(crate) use book::{Book, Pause};
pub(crate) use hooks::END_OF_TASK;
pub use journal::{Journal, KindSet, Window};
pub use ops::Latencies;
pub use tree::{Node, NodeKey, Tree};

/// When a device's transfer, whose end ends waits, was where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    /// It came into the device's queue.
    pub(crate) submitted_ns: u64,
    /// The device began to serve it.
    pub(crate) begun_ns: u64,
    /// It was done.
    pub(crate) done_ns: u64,
}

/// One operation of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpRecord {
    /// What it was.
    pub name: Rc<str>,
    /// Whose: an index of [`Ledger::tasks`].
    pub task: u32,
    /// When it began.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Where its time went.
    pub tree: Tree,
    /// Its longest waits, the longest first.
    pub waits: Vec<WaitRecord>,
    /// How many waits it had in all.
    pub nr_waits: u64,
}

/// One wait of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitRecord {
    /// When it began.
    pub start_ns: u64,
    /// How long it was.
    pub ns: u64,
    /// What for: a node of the task's tree.
    pub what: u32,
    /// It ended because its time was over.
    pub timed_out: bool,
    /// Who held it up, who held up those, and so on.
    pub chain: Vec<Blocker>,
    /// The chain went on further than it was followed.
    pub is_chain_cut: bool,
}

/// Somebody who held up somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// How.
    pub how: BlockedBy,
    /// Who: an index of [`Ledger::tasks`].
    pub task: u32,
    /// What it was doing for most of the wait, or at its end: a node of its tree.
    pub doing: u32,
}

/// How a task held up another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockedBy {
    /// It held the lock.
    HeldLock,
    /// It ended the wait.
    Woke,
    /// It had the CPU.
    HadCpu,
}

/// A task and where its time went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRecord {
    /// Its name.
    pub name: Rc<str>,
    /// When booking began: when the task was started, or the ledger opened.
    pub since_ns: u64,
    /// When it ended: when the task did, or the ledger was closed.
    pub until_ns: u64,
    /// Where the time between went.
    pub tree: Tree,
}

/// What was booked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// The slowest operations, as many as were asked for, the slowest first.
    pub ops: Vec<OpRecord>,
    /// All operations, by name.
    pub latencies: BTreeMap<Rc<str>, Latencies>,
    /// Every task, by start.
    pub tasks: Vec<TaskRecord>,
    /// What happened when, if that was asked for.
    pub journal: Option<Journal>,
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
    /// What somebody was doing, outermost first.
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
