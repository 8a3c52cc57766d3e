//! The book: turns the engine's reports about tasks into booked time, and finds which task held up
//! which.
//!
//! It contains only numbers. The engine reports each event with its time; the book never calls the
//! engine.

use std::rc::Rc;

use highwater_core::host::Phase;

use super::chain::{Links, Wait};
use super::journal::{Role, What, Window, Writer};
use super::life::Life;
use super::ops::{Ops, OpsEnd};
use super::tree::NodeKey;
use super::{BlockedBy, Blocker, Ledger, TaskRecord, Transfer};
use crate::cpu::CpuId;
use crate::engine::task::TaskIndex;

/// All bookkeeping while a ledger is open.
#[derive(Default)]
pub(crate) struct Book {
    /// Every task, by start.
    lives: Vec<Life>,
    /// By [`TaskIndex`]: the life of the task at that position of the task table.
    of: Vec<u32>,
    ops: Ops,
    /// The engine's counts at the last booking of the running task.
    counts: Counts,
    /// Records each change, if a journal was requested.
    journal: Option<Writer>,
    /// Interrupts that end a transfer now.
    transfers: Vec<(TaskIndex, Transfer)>,
}

/// The engine's clock and counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// The running task's clock.
    pub(crate) now_ns: u64,
    /// Its user time since it was resumed.
    pub(crate) user_ns: u64,
    /// Time of all ticks so far.
    pub(crate) tick_ns: u64,
}

/// The reason why a task does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// It keeps its CPU; events earlier than its clock come first.
    GaveWay,
    /// It waits for a CPU.
    Queued,
    /// It waits: [`NodeKey::Wait`] or [`NodeKey::Sleep`].
    Wait(NodeKey),
    /// It waits, without its CPU, for the lock of its current node.
    Lock,
    /// It spins on its CPU for the lock of its current node.
    Spin,
}

/// No task here.
const NOBODY: u32 = u32::MAX;

/// Start and end of tasks.
impl Book {
    /// A book that keeps the `nr_kept` slowest operations whole, only those named `only` if a name
    /// is given. It also keeps each change in the window `journal`.
    pub(crate) fn new(nr_kept: usize, only: Option<&str>, journal: Option<Window>) -> Self {
        Book { ops: Ops::new(nr_kept, only), journal: journal.map(Writer::new), ..Book::default() }
    }

    /// The task ends this transfer from now on; `None`: no transfer any more.
    pub(crate) fn ending_transfer(&mut self, task: TaskIndex, transfer: Option<Transfer>) {
        self.transfers.retain(|&(known, _)| known != task);
        self.transfers.extend(transfer.map(|transfer| (task, transfer)));
    }

    /// A task exists from now on; it is paused for the reason `pause`.
    pub(crate) fn begin(
        &mut self,
        task: TaskIndex,
        name: &Rc<str>,
        role: Role,
        now_ns: u64,
        pause: Pause,
    ) {
        if let Some(journal) = &mut self.journal {
            journal.add_task(role);
        }
        if self.of.len() <= task.idx() {
            self.of.resize(task.idx() + 1, NOBODY);
        }
        self.of[task.idx()] = self.lives.len() as u32;
        self.lives.push(Life::new(name, now_ns, pause));
    }

    /// The running task has ended; its time is booked.
    pub(crate) fn end(&mut self, task: TaskIndex) {
        self.note(task, What::Ends);
        if let Some(life) = self.life(task) {
            life.pause = None;
            life.op = None;
            life.is_over = true;
            debug_assert!(life.adds_up(), "the life of {} has gaps", life.name);
        }
    }

    /// Ends the booking at `now_ns`. Tasks that are ahead of that time are booked up to their own
    /// clocks.
    pub(crate) fn close(mut self, now_ns: u64) -> Ledger {
        let journal = self.close_journal(now_ns);
        for life in &mut self.lives {
            life.finish_pause(now_ns.max(life.booked_ns));
            debug_assert!(life.adds_up(), "the life of {} has gaps", life.name);
        }
        let record = |life: Life| TaskRecord {
            name: life.name,
            since_ns: life.since_ns,
            until_ns: life.booked_ns,
            tree: life.tree,
        };
        let tasks = self.lives.into_iter().map(record).collect();
        let OpsEnd { slowest, latencies, gap } = self.ops.close();
        Ledger { ops: slowest, latencies, tasks, journal, gap, ..Ledger::default() }
    }

    fn number(&self, task: TaskIndex) -> Option<u32> {
        self.of.get(task.idx()).copied().filter(|&number| number != NOBODY)
    }

    fn life(&mut self, task: TaskIndex) -> Option<&mut Life> {
        let number = self.number(task)?;
        self.lives.get_mut(number as usize)
    }
}

/// Running.
impl Book {
    /// Books the time of the running task since its last booking.
    pub(crate) fn settle(&mut self, task: TaskIndex, counts: Counts) {
        self.settle_as(task, counts, None);
    }

    /// As [`Book::settle`], with the kernel time booked to `leaf`.
    pub(crate) fn settle_as(&mut self, task: TaskIndex, counts: Counts, leaf: Option<NodeKey>) {
        let before = std::mem::replace(&mut self.counts, counts);
        let Some(life) = self.life(task) else {
            return;
        };
        debug_assert!(counts.now_ns >= life.booked_ns, "{} goes back in time", life.name);
        let user_ns = counts.user_ns - before.user_ns;
        let tick_ns = counts.tick_ns - before.tick_ns;
        let kernel_ns = counts.now_ns - life.booked_ns - user_ns - tick_ns;
        life.booked_ns = counts.now_ns;
        life.book(NodeKey::User, user_ns);
        life.book(NodeKey::Tick, tick_ns);
        match (leaf, life.tree.node(life.at).key) {
            (Some(leaf), _) => life.book(leaf, kernel_ns),
            // Spinning and the hand-over.
            (None, NodeKey::Lock(_)) => life.add(life.at, kernel_ns, 0),
            (None, _) => life.book(NodeKey::Kernel, kernel_ns),
        }
    }

    /// The engine counts the running task's user time from 0 again.
    pub(crate) fn reset_user(&mut self) {
        self.counts.user_ns = 0;
    }

    /// The running task enters a node below its current one. Its time is booked up to now.
    pub(crate) fn descend(&mut self, task: TaskIndex, key: NodeKey) {
        self.note(task, What::Enters(key));
        if let Some(life) = self.life(task) {
            let child = life.tree.child(life.at, key);
            life.add(child, 0, 1);
            life.go_to(child);
        }
    }

    /// The running task leaves that node. Nodes entered before the ledger was opened are unknown,
    /// and leaving them has no effect.
    pub(crate) fn ascend(&mut self, task: TaskIndex, key: NodeKey) {
        self.ascend_if(task, |there| there == key);
    }

    /// The same for the node of a phase, whichever group it is for.
    pub(crate) fn ascend_from_phase(&mut self, task: TaskIndex, phase: Phase) {
        self.ascend_if(task, |there| there.phase() == Some(phase));
    }

    fn ascend_if(&mut self, task: TaskIndex, is_it: impl FnOnce(NodeKey) -> bool) {
        let Some(node) = self.life(task).map(|life| *life.tree.node(life.at)) else {
            return;
        };
        if is_it(node.key) {
            self.note(task, What::Leaves(node.key));
            if let Some(life) = self.life(task) {
                life.go_to(node.parent);
            }
        }
    }

    /// The running task begins an operation. Its time is booked up to now.
    pub(crate) fn begin_op(&mut self, task: TaskIndex) {
        self.note(task, What::BeginsOp);
        if let Some(life) = self.life(task) {
            life.begin_op(life.booked_ns);
        }
    }

    /// The running task begins an operation when the sleep that it now starts is over.
    pub(crate) fn begin_op_after_sleep(&mut self, task: TaskIndex) {
        if let Some(life) = self.life(task) {
            life.is_op_due = true;
        }
    }

    /// The sleep is over. If there was no sleep, the operation begins now.
    pub(crate) fn sleep_is_over(&mut self, task: TaskIndex) {
        if self.life(task).is_some_and(|life| life.is_op_due) {
            self.begin_op(task);
        }
    }

    /// The running task has ended its operation. Its time is booked up to now.
    pub(crate) fn end_op(&mut self, task: TaskIndex, name: &str) {
        let Some(number) = self.number(task) else {
            return;
        };
        if self.journal.is_some() && self.lives[number as usize].op.is_some() {
            self.note(task, What::EndsOp(name.into()));
        }
        let life = &mut self.lives[number as usize];
        if let Some(op) = life.end_op() {
            debug_assert_eq!(op.booked_ns(), op.ns(), "{name} of {} has gaps", life.name);
            self.ops.push(name, number, &life.tree, op);
        }
    }

    /// The current operation of a task, outermost node first.
    pub(crate) fn doing(&self, task: TaskIndex) -> Vec<NodeKey> {
        self.number(task).map_or_else(Vec::new, |number| {
            let life = &self.lives[number as usize];
            life.tree.path(life.at)
        })
    }

    /// The same, with the event it waits for.
    pub(crate) fn doing_now(&self, task: TaskIndex) -> Vec<NodeKey> {
        let mut path = self.doing(task);
        let pause = self.number(task).and_then(|number| self.lives[number as usize].pause);
        match pause {
            Some(Pause::Wait(what)) => path.push(what),
            Some(Pause::Queued) => path.push(NodeKey::Cpu),
            _ => {}
        }
        path
    }
}

/// Pause and resume.
impl Book {
    /// The running task pauses. Its time is booked up to now.
    pub(crate) fn pause(&mut self, task: TaskIndex, pause: Pause) {
        match pause {
            Pause::GaveWay | Pause::Spin => {}
            Pause::Queued => self.note(task, What::Stops(None)),
            Pause::Wait(what) => self.note(task, What::Stops(Some(what))),
            Pause::Lock => {
                let at = self.life(task).map(|life| life.tree.node(life.at).key);
                self.note(task, What::Stops(at));
            }
        }
        if let Some(life) = self.life(task) {
            if !matches!(pause, Pause::GaveWay | Pause::Spin) {
                life.cpu = None;
            }
            life.pause = Some(pause);
            life.runnable_ns = None;
            life.transfer = None;
            life.timed_out = false;
            life.held_up_by = Links::NONE;
            life.cpu_held_by = Links::NONE;
            life.stolen_ns = 0;
        }
    }

    /// A waiting task is made runnable, by its timer or by another task ([`TaskIndex::NONE`] from
    /// outside).
    pub(crate) fn ready(
        &mut self,
        task: TaskIndex,
        now_ns: u64,
        by: Option<(BlockedBy, TaskIndex)>,
    ) {
        let Some(since_ns) = self.life(task).map(|life| life.booked_ns) else {
            return;
        };
        if self.journal.is_some() {
            let by = by.and_then(|(how, who)| Some((how, self.number(who)?)));
            self.note_at(task, now_ns, What::Wakes(by));
        }
        let links = by.map_or(Links::NONE, |(how, who)| self.links(how, who, since_ns, now_ns));
        let transfer = by.and_then(|(_, who)| self.transfers.iter().find(|(task, _)| *task == who));
        let transfer = transfer.map(|&(_, transfer)| transfer);
        if let Some(life) = self.life(task) {
            life.transfer = transfer;
            life.runnable_ns = Some(now_ns);
            life.timed_out = by.is_none();
            life.held_up_by = links;
        }
    }

    /// A runnable task waits for a CPU that another task has.
    pub(crate) fn queue(&mut self, task: TaskIndex, holder: Option<TaskIndex>, now_ns: u64) {
        let holder = holder.filter(|&holder| holder != task);
        let links = holder
            .map_or(Links::NONE, |holder| self.links(BlockedBy::HadCpu, holder, now_ns, now_ns));
        if let Some(life) = self.life(task) {
            life.cpu_held_by = links;
        }
    }

    /// A task that gave way has computed up to `until_ns`, and interrupts took `stolen_ns` more.
    pub(crate) fn computed(&mut self, task: TaskIndex, until_ns: u64, stolen_ns: u64) {
        if let Some(life) = self.life(task) {
            let ran_ns = until_ns.saturating_sub(life.booked_ns);
            life.book(NodeKey::User, ran_ns);
            life.booked_ns += ran_ns;
            // A ledger may have been opened meanwhile.
            let stolen_ns = (until_ns + stolen_ns).saturating_sub(life.booked_ns);
            life.book(NodeKey::Interrupt, stolen_ns);
            life.booked_ns += stolen_ns;
        }
    }

    /// Interrupts delay a runnable task further.
    pub(crate) fn steal(&mut self, task: TaskIndex, ns: u64) {
        if let Some(life) = self.life(task) {
            life.stolen_ns += ns;
        }
    }

    /// A task resumes on this CPU.
    pub(crate) fn resume(&mut self, task: TaskIndex, cpu: CpuId, counts: Counts) {
        self.counts = counts;
        let now_ns = counts.now_ns;
        if self.journal.is_some() && self.life(task).is_some_and(|life| life.cpu != Some(cpu)) {
            self.note_at(task, now_ns, What::Runs(cpu));
        }
        let Some(life) = self.life(task) else {
            return;
        };
        debug_assert!(now_ns >= life.booked_ns, "{} goes back in time", life.name);
        life.cpu = Some(cpu);
        let had_op = life.op.is_some();
        life.finish_pause(now_ns.max(life.booked_ns));
        // An operation that was due when the sleep was over.
        if let (false, Some(start_ns)) = (had_op, life.op_start_ns()) {
            let from_ns = self.journal.as_ref().map_or(0, |journal| journal.window().from_ns);
            // It had already begun when the window began.
            let start_ns = if now_ns < from_ns { start_ns } else { start_ns.max(from_ns) };
            self.note_at(task, start_ns, What::BeginsOp);
        }
    }

    /// The running task is about to wait for a lock.
    pub(crate) fn want_lock(&mut self, task: TaskIndex, holder: TaskIndex) {
        if let Some(life) = self.life(task) {
            life.lock_holder = holder;
        }
    }

    /// The running task spins, from the end of its booked time, until a lock that its last holder
    /// released in this task's future is free.
    pub(crate) fn spin(&mut self, task: TaskIndex, last_holder: TaskIndex, until_ns: u64) {
        let Some(start_ns) = self.life(task).map(|life| life.booked_ns) else {
            return;
        };
        let links = self.links(BlockedBy::HeldLock, last_holder, start_ns, start_ns);
        if let Some(life) = self.life(task) {
            let what = life.at;
            life.waited(Wait { start_ns, end_ns: until_ns, what, timed_out: false, links });
        }
    }

    /// Builds the chain of blockers of a wait that began at `since_ns`: the task `who` with its
    /// node until `now_ns`, then the task that held up `who`.
    fn links(&mut self, how: BlockedBy, who: TaskIndex, since_ns: u64, now_ns: u64) -> Links {
        let mut links = Links::NONE;
        let Some(number) = self.number(who) else {
            return links;
        };
        let life = &mut self.lives[number as usize];
        // For a task that ran ahead, this looks up its node at that time, not its current node.
        let is_there = life.booked_ns <= now_ns;
        match life.recent.that_covers(since_ns, now_ns) {
            Some(wait) => {
                links.push(Blocker { how, task: number, doing: wait.what });
                links.extend(&wait.links);
            }
            None if is_there && life.pause.is_some() => {
                let doing = life.paused_at();
                links.push(Blocker { how, task: number, doing });
                let (pause, holder) = (life.pause, life.lock_holder);
                if matches!(pause, Some(Pause::Lock | Pause::Spin))
                    && let Some(holder) = self.number(holder)
                {
                    let doing = self.lives[holder as usize].at;
                    links.push(Blocker { how: BlockedBy::HeldLock, task: holder, doing });
                }
            }
            None => {
                let doing = life.history.node_at(now_ns).unwrap_or(life.at);
                links.push(Blocker { how, task: number, doing });
            }
        }
        links
    }
}

/// The journal.
impl Book {
    /// Records the coming change of a task whose time is booked up to now.
    fn note(&mut self, task: TaskIndex, what: What) {
        if self.journal.is_some()
            && let Some(at_ns) = self.life(task).map(|life| life.booked_ns)
        {
            self.note_at(task, at_ns, what);
        }
    }

    /// The same, for a change at another time than the task's.
    pub(crate) fn note_at(&mut self, task: TaskIndex, at_ns: u64, what: What) {
        let Some(number) = self.number(task) else {
            return;
        };
        let Some(journal) = &mut self.journal else {
            return;
        };
        // A task without changes in the window kept its node all the time, up to its first change
        // afterwards.
        if at_ns >= journal.window().from_ns {
            Self::open_life(journal, number, &mut self.lives[number as usize]);
        }
        if journal.window().has(at_ns) {
            journal.push(at_ns, number, what);
        }
    }

    /// Records the node of a task at the beginning of the window, or at its own start if that is
    /// later. Done once, before its first change.
    fn open_life(journal: &mut Writer, number: u32, life: &mut Life) {
        if std::mem::replace(&mut life.is_journalled, true) {
            return;
        }
        let at_ns = journal.window().from_ns.max(life.since_ns);
        if !journal.window().has(at_ns) {
            return;
        }
        let path = life.tree.path(life.at);
        let depth_of_op = life.op_root().map(|root| life.tree.path(root).len());
        for (depth, &key) in path.iter().enumerate() {
            if depth_of_op == Some(depth) {
                journal.push(at_ns, number, What::BeginsOp);
            }
            journal.push(at_ns, number, What::Enters(key));
        }
        if depth_of_op == Some(path.len()) {
            journal.push(at_ns, number, What::BeginsOp);
        }
        match (life.cpu, life.pause) {
            (Some(cpu), _) => journal.push(at_ns, number, What::Runs(cpu)),
            (None, Some(Pause::Wait(what))) => {
                journal.push(at_ns, number, What::Stops(Some(what)));
            }
            (None, Some(Pause::Lock)) => {
                journal.push(at_ns, number, What::Stops(path.last().copied()));
            }
            (None, _) => journal.push(at_ns, number, What::Stops(None)),
        }
    }

    /// Records the nodes of tasks that had no change in the window.
    fn close_journal(&mut self, now_ns: u64) -> Option<super::Journal> {
        let mut journal = self.journal.take()?;
        let Window { from_ns, to_ns } = journal.window();
        for (number, life) in (0..).zip(&mut self.lives) {
            let is_over = life.is_over && life.booked_ns < from_ns;
            if !is_over && life.since_ns < to_ns && from_ns <= now_ns {
                Self::open_life(&mut journal, number, life);
            }
        }
        Some(journal.close())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Tree;
    use super::*;

    const A: TaskIndex = TaskIndex(0);
    const B: TaskIndex = TaskIndex(1);
    const CPU: CpuId = CpuId(0);

    fn counts(now_ns: u64, user_ns: u64, tick_ns: u64) -> Counts {
        Counts { now_ns, user_ns, tick_ns }
    }

    fn two_tasks() -> Book {
        let mut book = Book::new(usize::MAX, None, None);
        for (task, name) in [(A, "a"), (B, "b")] {
            book.begin(task, &name.into(), Role::default(), 0, Pause::Queued);
            book.resume(task, CPU, counts(10, 0, 0));
            book.pause(task, Pause::GaveWay);
        }
        book
    }

    fn spent(tree: &Tree, path: &[NodeKey]) -> u64 {
        let nodes = 0..tree.nodes().len() as u32;
        nodes.filter(|&at| tree.path(at) == path).map(|at| tree.node(at).self_ns).sum()
    }

    #[test]
    fn running_time_is_split_by_kind_and_a_wait_by_when_it_ended() {
        let mut book = two_tasks();
        book.resume(A, CPU, counts(10, 0, 0));
        book.settle(A, counts(20, 10, 0));
        book.begin_op(A);
        book.descend(A, NodeKey::Phase(Phase::Fault));
        book.settle(A, counts(100, 30, 7));
        book.pause(A, Pause::Wait(NodeKey::Wait("a page lock")));
        book.reset_user();
        // C wakes it; its CPU is taken, then interrupts come.
        let c = TaskIndex(2);
        book.begin(c, &"c".into(), Role::default(), 150, Pause::GaveWay);
        book.resume(c, CPU, counts(150, 0, 7));
        book.descend(c, NodeKey::Phase(Phase::Pageout));
        book.settle(c, counts(160, 0, 7));
        book.ready(A, 160, Some((BlockedBy::Woke, c)));
        book.queue(A, Some(c), 160);
        book.steal(A, 5);
        book.resume(A, CPU, counts(200, 0, 7));
        book.settle(A, counts(210, 0, 7));
        book.ascend(A, NodeKey::Phase(Phase::Fault));
        book.end_op(A, "touch");
        let ledger = book.close(210);
        assert_eq!(ledger.first_gap(), None);
        let (op, fault) = (&ledger.ops[0], NodeKey::Phase(Phase::Fault));
        assert_eq!((op.start_ns, op.ns()), (20, 190));
        let tree = &op.tree;
        assert_eq!(tree.total_ns(), 190);
        let of = |leaf| spent(tree, &[fault, leaf]);
        assert_eq!((of(NodeKey::User), of(NodeKey::Tick)), (20, 7));
        assert_eq!(of(NodeKey::Kernel), 80 - 27 + 10);
        assert_eq!(of(NodeKey::Wait("a page lock")), 60);
        assert_eq!((of(NodeKey::Interrupt), of(NodeKey::Cpu)), (5, 35));
        let waits: Vec<u64> = op.waits.iter().map(|wait| wait.ns).collect();
        assert_eq!(waits, [60, 35]);
        let why: Vec<_> = op.waits.iter().map(|wait| wait.chain[0]).collect();
        assert_eq!(
            why.iter().map(|b| b.how).collect::<Vec<_>>(),
            [BlockedBy::Woke, BlockedBy::HadCpu]
        );
        for blocker in why {
            let doing = ledger.doing(blocker.task, blocker.doing);
            assert_eq!((blocker.task, doing), (2, vec![NodeKey::Phase(Phase::Pageout)]));
        }
    }

    #[test]
    fn a_chain_goes_on_with_who_held_up_the_blocker() {
        let mut book = two_tasks();
        let c = TaskIndex(2);
        book.begin(c, &"c".into(), Role::default(), 0, Pause::GaveWay);
        // A has the lock and waits for c; B waits for the lock.
        book.resume(A, CPU, counts(10, 0, 0));
        book.descend(A, NodeKey::Phase(Phase::Write));
        book.pause(A, Pause::Wait(NodeKey::Wait("a request tag")));
        book.resume(B, CPU, counts(20, 0, 0));
        book.begin_op(B);
        book.want_lock(B, A);
        book.descend(B, NodeKey::Lock("drain"));
        book.pause(B, Pause::Lock);
        book.resume(c, CPU, counts(90, 0, 0));
        book.ready(A, 90, Some((BlockedBy::Woke, c)));
        book.resume(A, CPU, counts(90, 0, 0));
        book.settle(A, counts(100, 0, 0));
        book.ready(B, 100, Some((BlockedBy::HeldLock, A)));
        book.resume(B, CPU, counts(100, 0, 0));
        book.settle(B, counts(103, 0, 0));
        book.ascend(B, NodeKey::Lock("drain"));
        book.end_op(B, "x");
        let ledger = book.close(200);
        assert_eq!(ledger.first_gap(), None);
        let op = &ledger.ops[0];
        assert_eq!(spent(&op.tree, &[NodeKey::Lock("drain")]), 83);
        let chain = &op.waits[0].chain;
        assert_eq!(chain.len(), 2);
        assert_eq!((chain[0].how, chain[0].task), (BlockedBy::HeldLock, 0));
        let doing = ledger.doing(0, chain[0].doing);
        assert_eq!(doing, [NodeKey::Phase(Phase::Write), NodeKey::Wait("a request tag")]);
        assert_eq!((chain[1].how, chain[1].task), (BlockedBy::Woke, 2));
    }

    #[test]
    fn what_began_before_the_ledger_does_not_end_in_it() {
        let mut book = two_tasks();
        book.resume(A, CPU, counts(10, 0, 0));
        book.ascend(A, NodeKey::Phase(Phase::Fault));
        book.descend(A, NodeKey::Phase(Phase::Read));
        book.ascend(A, NodeKey::Phase(Phase::Read));
        book.ascend(A, NodeKey::Phase(Phase::Read));
        book.end_op(A, "x");
        assert!(book.doing(A).is_empty());
        assert_eq!(book.close(50).ops, []);
    }
}
