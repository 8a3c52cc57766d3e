//! What tasks did when, entry by entry, for a part of the run: what a timeline is drawn from.
//!
//! The book adds times up; a journal keeps each change on its way there, and the trace events that the core told.
//! Of a window of time only, and no more than [`ENTRIES_MAX`]: a run has hundreds of millions of changes.
//! A task whose first change in the window comes late was at something when the window began; that is told by
//! entries at its beginning, so that whoever reads the journal needs nothing from before it.

use std::rc::Rc;

use highwater_core::trace::{Event, Kind, TRACEPOINTS};

use super::{BlockedBy, NodeKey};
use crate::cpu::CpuId;

/// Most entries of a journal: some 250 MB.
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
    /// All of it.
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

    /// All that there are.
    pub fn all() -> KindSet {
        Kind::ALL.iter().fold(KindSet::NONE, |set, &kind| set.with(kind))
    }

    /// Those of a system (`kmem`); none if there is no such system.
    pub fn of_system(system: &str) -> KindSet {
        let of = Kind::ALL.iter().filter(|kind| kind.tracepoint().system == system);
        of.fold(KindSet::NONE, |set, &kind| set.with(kind))
    }

    /// Names of the systems that there are, each once.
    pub fn systems() -> Vec<&'static str> {
        let mut systems: Vec<&str> = TRACEPOINTS.iter().map(|point| point.system).collect();
        systems.dedup();
        systems
    }

    /// With one more.
    #[must_use]
    pub const fn with(self, kind: Kind) -> KindSet {
        KindSet(self.0 | 1 << kind as u32)
    }

    /// Those of both.
    #[must_use]
    pub const fn or(self, other: KindSet) -> KindSet {
        KindSet(self.0 | other.0)
    }

    /// True if it has this one.
    pub const fn has(&self, kind: Kind) -> bool {
        self.0 & 1 << kind as u32 != 0
    }

    /// True if it has none.
    pub const fn is_empty(&self) -> bool {
        self.0 == 0
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub at_ns: u64,
    /// To whom: an index of [`Ledger::tasks`](super::Ledger::tasks).
    pub task: u32,
    /// What.
    pub what: What,
}

/// What may happen to a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It has a CPU from now on; an interrupt only its time.
    Runs(CpuId),
    /// It has none any more: it is at the end of its slice, or waits for this.
    Stops(Option<NodeKey>),
    /// Its wait is over: by its timer, or by somebody (an index of [`Ledger::tasks`](super::Ledger::tasks)).
    Wakes(Option<(BlockedBy, u32)>),
    /// It begins something inside what it does.
    Enters(NodeKey),
    /// It ends that.
    Leaves(NodeKey),
    /// It begins an operation.
    BeginsOp,
    /// It ends the operation, whose name is known now.
    EndsOp(Rc<str>),
    /// It passed a tracepoint on this CPU.
    Passes(CpuId, Event),
    /// It has ended.
    Ends,
}

/// A task's part in a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// Runs in interrupts: it never has a CPU of its own.
    pub is_interrupt: bool,
    /// A kernel thread.
    pub is_kernel: bool,
}

/// What happened in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// In order of time; of one time in the order in which it happened.
    pub entries: Vec<Entry>,
    /// By task, as [`Ledger::tasks`](super::Ledger::tasks).
    pub roles: Vec<Role>,
    /// Entries that would have been too many.
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
        // Tasks run ahead of each other by what they do without being interrupted. Stable.
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
