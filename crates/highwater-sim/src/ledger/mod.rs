//! The ledger: every nanosecond of a task booked to a cause.
//!
//! Off unless asked for ([`Sim::open_ledger`](crate::engine::Sim::open_ledger)): then each task has a tree of what it is
//! doing (phases, locks it waits for) whose nodes collect time by kind. Time is booked when a task changes what it does,
//! and when it goes on after it was stopped, so that between two bookings nothing is left over: the times of an
//! operation's tree add up to its latency exactly.
//!
//! Key types: [`Ledger`] (what was booked), [`OpRecord`] (one operation), [`Tree`] and [`Node`], [`NodeKey`] (what a
//! node stands for).

pub mod tree;

pub use tree::{Node, NodeKey, Tree};

/// One operation of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpRecord {
    /// What it was.
    pub name: String,
    /// The task's name.
    pub task: String,
    /// When it began.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Where the time between went.
    pub tree: Tree,
    /// Its longest waits, the longest first.
    pub waits: Vec<WaitRecord>,
}

/// One wait of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitRecord {
    /// When it began.
    pub start_ns: u64,
    /// How long it was.
    pub ns: u64,
    /// What for.
    pub what: NodeKey,
    /// Who held it up, who held up those, and so on.
    pub chain: Vec<Blocker>,
}

/// Somebody who held up somebody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// How.
    pub how: BlockedBy,
    /// The task's name.
    pub task: String,
    /// What it was doing, outermost first.
    pub doing: Vec<NodeKey>,
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

/// What was booked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Operations in the order in which they ended.
    pub ops: Vec<OpRecord>,
    /// Every task's name and the tree of its whole life so far, by start.
    pub tasks: Vec<(String, Tree)>,
}
