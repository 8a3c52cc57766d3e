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
//! | `book` | one task's time, over numbers |
//! | `chain` | waits, and who held up whom |
//! | `hooks` | what the engine, locks and the host call |

mod book;
mod chain;
mod hooks;
pub mod tree;

use std::rc::Rc;

pub(crate) use book::{Book, Pause};
pub(crate) use hooks::END_OF_TASK;
pub use tree::{Node, NodeKey, Tree};

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
    /// Its longest waits, the longest first.
    pub waits: Vec<WaitRecord>,
    /// The node of the task's tree in which it began.
    root: u32,
    costs: Box<[OpCost]>,
}

/// What of a node of its task's tree belongs to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OpCost {
    node: u32,
    count: u32,
    ns: u64,
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
    /// Operations in the order in which they ended.
    pub ops: Vec<OpRecord>,
    /// Every task, by start.
    pub tasks: Vec<TaskRecord>,
}

impl OpRecord {
    /// Its latency.
    pub fn ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

impl Ledger {
    /// Where the time of an operation went.
    pub fn op_tree(&self, op: &OpRecord) -> Tree {
        let of_task = &self.tasks[op.task as usize].tree;
        let mut tree = Tree::default();
        for cost in &op.costs {
            let at = graft(&mut tree, of_task, op.root, cost.node);
            tree.add(at, cost.ns, u64::from(cost.count));
        }
        tree
    }

    /// What somebody was doing, outermost first.
    pub fn doing(&self, task: u32, node: u32) -> Vec<NodeKey> {
        self.tasks[task as usize].tree.path(node)
    }

    /// The first operation or task whose times do not add up, if there is one.
    pub fn first_gap(&self) -> Option<String> {
        let gap = |what: &str, spent_ns: u64, ns: u64| {
            (spent_ns != ns).then(|| format!("{what}: {spent_ns} of {ns} ns are booked"))
        };
        let of_ops = self.ops.iter().find_map(|op| {
            let name = format!("{} at {}", op.name, op.start_ns);
            gap(&name, op.costs.iter().map(|cost| cost.ns).sum(), op.ns())
        });
        of_ops.or_else(|| {
            self.tasks.iter().find_map(|task| {
                gap(&task.name, task.tree.total_ns(), task.until_ns - task.since_ns)
            })
        })
    }
}

/// The node of `tree` that stands for `node` of another tree, seen from that one's `root`.
fn graft(tree: &mut Tree, from: &Tree, root: u32, node: u32) -> u32 {
    if node == root || node == tree::ROOT {
        return tree::ROOT;
    }
    let parent = graft(tree, from, root, from.node(node).parent);
    tree.child(parent, from.node(node).key)
}
