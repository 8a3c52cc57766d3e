//! One task's time: its tree, its current node, and the time up to which it is booked.
//!
//! The share of the running operation is counted beside the tree, node by node. So beginning an
//! operation costs nothing, and ending one costs only the nodes that it touched.

use std::rc::Rc;

use super::book::Pause;
use super::chain::{History, Links, Longest, Recent, Wait};
use super::tree::{NodeKey, ROOT, Tree};
use super::{Transfer, WaitRecord};
use crate::cpu::CpuId;
use crate::engine::task::TaskIndex;

/// Prefix of the names of waits for a page: these wait for a transfer, not for room to start one.
const OF_A_PAGE: &str = "a page";

/// A task.
pub(super) struct Life {
    pub(super) name: Rc<str>,
    pub(super) since_ns: u64,
    /// Its time is booked up to here.
    pub(super) booked_ns: u64,
    pub(super) tree: Tree,
    /// Its current node.
    pub(super) at: u32,
    pub(super) history: History,
    /// Its CPU; for an interrupt, the CPU whose time it takes.
    pub(super) cpu: Option<CpuId>,
    /// `None` while it runs.
    pub(super) pause: Option<Pause>,
    /// Time at which a waiting task was made runnable.
    pub(super) runnable_ns: Option<u64>,
    pub(super) timed_out: bool,
    /// The transfer whose end ended the wait.
    pub(super) transfer: Option<Transfer>,
    /// Chain of tasks that held up the wait.
    pub(super) held_up_by: Links,
    /// Chain of tasks that have the CPU it waits for.
    pub(super) cpu_held_by: Links,
    /// Time that interrupts took since it was made runnable.
    pub(super) stolen_ns: u64,
    /// The holder of the lock that it waits for.
    pub(super) lock_holder: TaskIndex,
    pub(super) recent: Recent,
    pub(super) op: Option<Op>,
    /// An operation begins when the task's sleep is over.
    pub(super) is_op_due: bool,
    /// It has ended.
    pub(super) is_over: bool,
    /// The journal has recorded its node at the beginning of the window.
    pub(super) is_journalled: bool,
    /// By node: the share that belongs to the running operation.
    shares: Vec<Share>,
    nr_ops: u32,
}

/// An operation that is going on.
pub(super) struct Op {
    start_ns: u64,
    root: u32,
    /// Nodes with a share in it.
    nodes: Vec<u32>,
    longest: Longest,
}

/// An operation that is over.
pub(super) struct OpEnd {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// The node of the task's tree in which it began.
    pub(super) root: u32,
    pub(super) costs: Vec<OpCost>,
    longest: Longest,
}

/// The share of one node of the task's tree that belongs to an operation.
#[derive(Clone, Copy)]
pub(super) struct OpCost {
    node: u32,
    count: u32,
    ns: u64,
}

#[derive(Clone, Copy, Default)]
struct Share {
    /// Number of the operation, from 1.
    op: u32,
    count: u32,
    ns: u64,
}

impl OpEnd {
    /// Its latency.
    pub(super) fn ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// The part of it that is booked to a cause.
    pub(super) fn booked_ns(&self) -> u64 {
        self.costs.iter().map(|cost| cost.ns).sum()
    }

    /// Adds it to a tree whose root represents the operation; `of_task` is the tree of its task.
    pub(super) fn add_to(&self, tree: &mut Tree, of_task: &Tree) {
        tree.add(ROOT, 0, 1);
        for cost in &self.costs {
            let at = tree.graft(of_task, self.root, cost.node);
            tree.add(at, cost.ns, u64::from(cost.count));
        }
    }

    /// Its longest waits, the longest first, and the number of all waits.
    pub(super) fn waits(self) -> (Vec<WaitRecord>, u64) {
        let nr_waits = self.longest.nr_all();
        (self.longest.records(), nr_waits)
    }
}

impl Life {
    /// A task that is paused for the reason `pause`.
    pub(super) fn new(name: &Rc<str>, now_ns: u64, pause: Pause) -> Self {
        Life {
            name: Rc::clone(name),
            since_ns: now_ns,
            booked_ns: now_ns,
            tree: Tree::default(),
            at: ROOT,
            history: History::default(),
            cpu: None,
            pause: Some(pause),
            runnable_ns: None,
            timed_out: false,
            transfer: None,
            held_up_by: Links::NONE,
            cpu_held_by: Links::NONE,
            stolen_ns: 0,
            lock_holder: TaskIndex::NONE,
            recent: Recent::default(),
            op: None,
            is_op_due: false,
            is_over: false,
            is_journalled: false,
            shares: Vec::new(),
            nr_ops: 0,
        }
    }

    /// An operation begins at `start_ns`. All time up to then must be booked.
    pub(super) fn begin_op(&mut self, start_ns: u64) {
        self.is_op_due = false;
        self.nr_ops += 1;
        let (nodes, longest) = (Vec::new(), Longest::default());
        self.op = Some(Op { start_ns, root: self.at, nodes, longest });
    }

    /// Ends the operation now.
    pub(super) fn end_op(&mut self) -> Option<OpEnd> {
        let op = self.op.take()?;
        let cost = |&node: &u32| {
            let share = self.shares[node as usize];
            OpCost { node, count: share.count, ns: share.ns }
        };
        let costs = op.nodes.iter().map(cost).collect();
        let Op { start_ns, root, longest, .. } = op;
        Some(OpEnd { start_ns, end_ns: self.booked_ns, root, costs, longest })
    }

    /// Time at which its operation began.
    pub(super) fn op_start_ns(&self) -> Option<u64> {
        self.op.as_ref().map(|op| op.start_ns)
    }

    /// The node in which its operation began.
    pub(super) fn op_root(&self) -> Option<u32> {
        self.op.as_ref().map(|op| op.root)
    }

    pub(super) fn adds_up(&self) -> bool {
        self.tree.total_ns() == self.booked_ns - self.since_ns
    }

    pub(super) fn go_to(&mut self, node: u32) {
        self.at = node;
        self.history.push(self.booked_ns, node);
    }

    /// Adds time to a leaf of the node where the task is.
    pub(super) fn book(&mut self, leaf: NodeKey, ns: u64) {
        if ns > 0 {
            let leaf = self.tree.child(self.at, leaf);
            self.add(leaf, ns, 0);
        }
    }

    pub(super) fn add(&mut self, node: u32, ns: u64, count: u32) {
        self.tree.add(node, ns, u64::from(count));
        let Some(op) = &mut self.op else {
            return;
        };
        if self.shares.len() <= node as usize {
            self.shares.resize(self.tree.nodes().len(), Share::default());
        }
        let share = &mut self.shares[node as usize];
        if share.op != self.nr_ops {
            *share = Share { op: self.nr_ops, count: 0, ns: 0 };
            op.nodes.push(node);
        }
        share.count += count;
        share.ns += ns;
    }

    pub(super) fn waited(&mut self, wait: Wait) {
        if wait.end_ns > wait.start_ns {
            self.recent.push(wait);
            if let Some(op) = &mut self.op {
                op.longest.push(wait);
            }
        }
    }

    /// The node of a task that does not run.
    pub(super) fn paused_at(&mut self) -> u32 {
        match self.pause {
            Some(Pause::Queued) => self.tree.child(self.at, NodeKey::Cpu),
            Some(Pause::Wait(leaf)) if self.runnable_ns.is_none() => self.tree.child(self.at, leaf),
            _ => self.at,
        }
    }

    /// Books a wait at a leaf. A wait for a page is split into three parts: the transfer waited in
    /// the device's queue, the device served it, and the rest. Returns the node with the largest
    /// part.
    fn book_wait(&mut self, leaf: NodeKey, start_ns: u64, end_ns: u64) -> u32 {
        let transfer = self.transfer.take();
        let mut parts = [(leaf, end_ns - start_ns), (leaf, 0), (leaf, 0)];
        if let (Some(transfer), NodeKey::Wait(why)) = (transfer, leaf)
            && why.starts_with(OF_A_PAGE)
        {
            let within =
                |from_ns: u64, to_ns: u64| to_ns.min(end_ns).saturating_sub(from_ns.max(start_ns));
            let Transfer { submitted_ns, begun_ns, done_ns } = transfer;
            let (queued, served) = (within(submitted_ns, begun_ns), within(begun_ns, done_ns));
            parts = [
                (leaf, end_ns - start_ns - queued - served),
                (NodeKey::Queued(why), queued),
                (NodeKey::Served(why), served),
            ];
        }
        let mut longest = (self.at, 0);
        for (key, ns) in parts {
            if ns > 0 || (key == leaf && end_ns == start_ns && longest.0 == self.at) {
                let node = self.tree.child(self.at, key);
                self.add(node, ns, 1);
                if ns >= longest.1 {
                    longest = (node, ns);
                }
            }
        }
        longest.0
    }

    /// Books the time since the task paused; it resumes at `now_ns`.
    pub(super) fn finish_pause(&mut self, now_ns: u64) {
        let Some(pause) = self.pause.take() else {
            return;
        };
        let start_ns = self.booked_ns;
        self.booked_ns = now_ns;
        let runnable_ns = match pause {
            Pause::GaveWay | Pause::Queued => start_ns,
            Pause::Wait(_) | Pause::Lock | Pause::Spin => {
                self.runnable_ns.unwrap_or(now_ns).clamp(start_ns, now_ns)
            }
        };
        let (timed_out, links) = (self.timed_out, self.held_up_by);
        match pause {
            Pause::GaveWay | Pause::Queued => {}
            Pause::Wait(leaf) => {
                let what = self.book_wait(leaf, start_ns, runnable_ns);
                self.waited(Wait { start_ns, end_ns: runnable_ns, what, timed_out, links });
                if self.is_op_due {
                    self.begin_op(runnable_ns);
                }
            }
            Pause::Lock | Pause::Spin => {
                let what = self.at;
                self.add(what, runnable_ns - start_ns, 0);
                self.waited(Wait { start_ns, end_ns: runnable_ns, what, timed_out: false, links });
            }
        }
        let stolen_ns = self.stolen_ns.min(now_ns - runnable_ns);
        self.book(NodeKey::Interrupt, stolen_ns);
        let cpu_ns = now_ns - runnable_ns - stolen_ns;
        if cpu_ns > 0 {
            let what = self.tree.child(self.at, NodeKey::Cpu);
            self.add(what, cpu_ns, 1);
            let (start_ns, links) = (runnable_ns, self.cpu_held_by);
            self.waited(Wait {
                start_ns,
                end_ns: start_ns + cpu_ns,
                what,
                timed_out: false,
                links,
            });
        }
    }
}
