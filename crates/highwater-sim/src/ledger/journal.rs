//! The journal: each change of each task in a part of the run, as a timeline shows it.
//!
//! The book adds times up; a journal keeps each change and the core's trace events. It covers a
//! window of time only, with at most [`ENTRIES_MAX`] entries: a run has hundreds of millions of
//! changes. If a task's first change in the window comes late, the task was at some node when the
//! window began. Entries at the beginning of the window record that node, so that a reader needs
//! nothing from before the window.

use std::rc::Rc;

use highwater_core::trace::{Event, Kind, TRACEPOINTS};

use super::{BlockedBy, NodeKey};
use crate::cpu::CpuId;

/// Most entries of a journal: about 250 MB.
pub const ENTRIES_MAX: usize = 1 << 22;

/// A part of virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its beginning.
    pub from_ns: u64,
    /// Its end (exclusive).
    pub to_ns: u64,
}

impl Window {
    /// The whole run.
    pub const ALL: Window = Window { from_ns: 0, to_ns: u64::MAX };

    /// True if a time is in it.
    pub const fn has(&self, at_ns: u64) -> bool {
        self.from_ns <= at_ns && at_ns < self.to_ns
    }
}

/// A set of tracepoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindSet(u128);

const _: () = assert!(Kind::COUNT <= u128::BITS as usize);

impl KindSet {
    /// None.
    pub const NONE: KindSet = KindSet(0);

    /// All tracepoints.
    pub fn all() -> KindSet {
        Kind::ALL.iter().fold(KindSet::NONE, |set, &kind| set.with(kind))
    }

    /// The tracepoints of a system (`kmem`); empty if there is no such system.
    pub fn of_system(system: &str) -> KindSet {
        let of = Kind::ALL.iter().filter(|kind| kind.tracepoint().system == system);
        of.fold(KindSet::NONE, |set, &kind| set.with(kind))
    }

    /// Names of all systems, each once.
    pub fn systems() -> Vec<&'static str> {
        let mut systems: Vec<&str> = TRACEPOINTS.iter().map(|point| point.system).collect();
        systems.dedup();
        systems
    }

    /// The set with one more tracepoint.
    #[must_use]
    pub const fn with(self, kind: Kind) -> KindSet {
        KindSet(self.0 | 1 << kind as u32)
    }

    /// The union of two sets.
    #[must_use]
    pub const fn or(self, other: KindSet) -> KindSet {
        KindSet(self.0 | other.0)
    }

    /// True if the set contains this one.
    pub const fn has(&self, kind: Kind) -> bool {
        self.0 & 1 << kind as u32 != 0
    }

    /// True if the set is empty.
    pub const fn is_empty(&self) -> bool {
        self.0 == 0
    }
}

/// One change of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its time.
    pub at_ns: u64,
    /// The task: an index of [`Ledger::tasks`](super::Ledger::tasks).
    pub task: u32,
    /// The change.
    pub what: What,
}

/// Kinds of changes of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It has a CPU from now on; an interrupt only takes the CPU's time.
    Runs(CpuId),
    /// It gave its CPU up: at the end of its slice, or for this wait.
    Stops(Option<NodeKey>),
    /// Its wait is over: by its timer, or by a task (an index of
    /// [`Ledger::tasks`](super::Ledger::tasks)).
    Wakes(Option<(BlockedBy, u32)>),
    /// It enters a node below its current one.
    Enters(NodeKey),
    /// It leaves that node.
    Leaves(NodeKey),
    /// It begins an operation.
    BeginsOp,
    /// The operation ends; its name is known only here.
    EndsOp(Rc<str>),
    /// It passed a tracepoint on this CPU.
    Passes(CpuId, Event),
    /// It has ended.
    Ends,
}

/// A task's part in a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// Runs in interrupts: it never owns a CPU.
    pub is_interrupt: bool,
    /// A kernel thread.
    pub is_kernel: bool,
}

/// All changes in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// In order of time; entries of the same time in the order of occurrence.
    pub entries: Vec<Entry>,
    /// By task, as [`Ledger::tasks`](super::Ledger::tasks).
    pub roles: Vec<Role>,
    /// Entries dropped because the journal was full.
    pub nr_left_out: u64,
}

/// A journal that is being written.
pub(super) struct Writer {
    window: Window,
    journal: Journal,
}

impl Writer {
    pub(super) fn new(window: Window) -> Self {
        Writer { window, journal: Journal::default() }
    }

    pub(super) const fn window(&self) -> Window {
        self.window
    }

    pub(super) fn push(&mut self, at_ns: u64, task: u32, what: What) {
        if self.journal.entries.len() < ENTRIES_MAX {
            self.journal.entries.push(Entry { at_ns, task, what });
        } else {
            self.journal.nr_left_out += 1;
        }
    }

    pub(super) fn add_task(&mut self, role: Role) {
        self.journal.roles.push(role);
    }

    pub(super) fn close(mut self) -> Journal {
        // Tasks run ahead of each other by their uninterrupted work. The sort is stable.
        self.journal.entries.sort_by_key(|entry| entry.at_ns);
        self.journal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_tracepoints() {
        let systems = KindSet::systems();
        assert_eq!(systems, ["kmem", "vmscan", "writeback", "compaction"]);
        let of = |system: &str| KindSet::of_system(system);
        assert!(of("kmem").has(Kind::PageAlloc) && !of("kmem").has(Kind::KswapdWake));
        assert!(of("nothing").is_empty());
        let all = systems.iter().fold(KindSet::NONE, |set, system| set.or(of(system)));
        assert_eq!(all, KindSet::all());
    }
}
