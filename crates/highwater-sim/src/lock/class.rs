//! Lock classes: the cost of taking a lock, and the statistics of a class, as lock_stat has them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::engine::Sim;
use crate::ledger::NodeKey;

/// The way in which waiters of a lock wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LockKind {
    /// Waiters keep their CPU busy; holders neither block nor are preempted.
    Spin = 0,
    /// A spin lock of one CPU: no synchronisation while no other CPU wants it.
    Private = 1,
    /// Waiters sleep; holders may block.
    Sleep = 2,
}

impl LockKind {
    pub(crate) const COUNT: usize = 3;
}

/// Costs of taking a lock of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LockCosts {
    /// Uncontended, taken last by the same CPU.
    pub hot_ns: u64,
    /// Uncontended, taken last by another CPU of the same node.
    pub same_node_ns: u64,
    /// Uncontended, taken last by a CPU of another node.
    pub cross_node_ns: u64,
    /// From a release to the next spinning waiter's first instruction (at least the above).
    pub handoff_ns: u64,
}

/// A kind of lock: costs and counters that all locks of the kind share.
#[derive(Debug)]
pub struct LockClass {
    pub(super) name: &'static str,
    pub(super) kind: LockKind,
    pub(super) costs: LockCosts,
    pub(super) nr_taken: Cell<u64>,
    pub(super) nr_contended: Cell<u64>,
    pub(super) wait_ns: Cell<u64>,
    pub(super) wait_ns_max: Cell<u64>,
    pub(super) hold_ns: Cell<u64>,
    pub(super) hold_ns_max: Cell<u64>,
    pub(super) longest: RefCell<LongestHold>,
}

/// The task that held a lock longest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LongestHold {
    /// The task's name; `None` if it was no task.
    pub task: Option<Rc<str>>,
    /// Its operations when it released the lock, outermost first; known while a ledger is open.
    pub doing: Vec<NodeKey>,
}

/// One row of a lock report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockStats {
    /// The class.
    pub name: &'static str,
    /// Number of times that a lock of the class was taken.
    pub nr_taken: u64,
    /// Number of times that the taker had to wait.
    pub nr_contended: u64,
    /// Total waiting.
    pub wait_ns: u64,
    /// Longest wait.
    pub wait_ns_max: u64,
    /// Total holding.
    pub hold_ns: u64,
    /// Longest hold.
    pub hold_ns_max: u64,
    /// The task of the longest hold.
    pub longest: LongestHold,
}

impl Sim {
    /// Registers a class of locks. Its counters appear in [`Sim::lock_stats`].
    pub fn lock_class(
        &self,
        name: &'static str,
        kind: LockKind,
        costs: LockCosts,
    ) -> Rc<LockClass> {
        let class = Rc::new(LockClass {
            name,
            kind,
            costs,
            nr_taken: Cell::new(0),
            nr_contended: Cell::new(0),
            wait_ns: Cell::new(0),
            wait_ns_max: Cell::new(0),
            hold_ns: Cell::new(0),
            hold_ns_max: Cell::new(0),
            longest: RefCell::default(),
        });
        self.inner.locks.borrow_mut().push(Rc::clone(&class));
        class
    }

    /// The counters of every class, in order of registration.
    pub fn lock_stats(&self) -> Vec<LockStats> {
        self.inner.locks.borrow().iter().map(|class| class.stats()).collect()
    }
}

impl LockClass {
    /// Resets the longest wait and hold: only later ones count.
    pub(crate) fn forget_longest(&self) {
        self.wait_ns_max.set(0);
        self.hold_ns_max.set(0);
        self.longest.take();
    }

    /// The counters so far.
    pub fn stats(&self) -> LockStats {
        LockStats {
            name: self.name,
            nr_taken: self.nr_taken.get(),
            nr_contended: self.nr_contended.get(),
            wait_ns: self.wait_ns.get(),
            wait_ns_max: self.wait_ns_max.get(),
            hold_ns: self.hold_ns.get(),
            hold_ns_max: self.hold_ns_max.get(),
            longest: self.longest.borrow().clone(),
        }
    }
}
