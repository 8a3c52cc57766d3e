//! Waits, and chains of tasks that held up each other.
//!
//! When a wait ends, the ledger looks at the task that ended it. If that task itself waited for
//! most of the time, its wait was the cause. The chain then goes on with the task that ended that
//! wait. So each task remembers its last waits, and its node at each time.

use super::{BlockedBy, Blocker, WaitRecord};

/// Maximum length of a chain.
const LINKS_MAX: usize = 4;
/// Waits that a task remembers, to explain other tasks' waits.
const RECENT_MAX: usize = 8;
/// Waits that an operation keeps.
const LONGEST_MAX: usize = 8;
/// Changes of node that a task remembers.
const HISTORY_MAX: usize = 32;

/// A chain of blockers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    all: [Blocker; LINKS_MAX],
    len: usize,
    /// Further links were dropped.
    is_cut: bool,
}

impl Links {
    pub(super) const NONE: Links = Links {
        all: [Blocker { how: BlockedBy::Woke, task: 0, doing: 0 }; LINKS_MAX],
        len: 0,
        is_cut: false,
    };

    pub(super) fn as_slice(&self) -> &[Blocker] {
        &self.all[..self.len]
    }

    pub(super) fn push(&mut self, blocker: Blocker) {
        if self.len < LINKS_MAX {
            self.all[self.len] = blocker;
            self.len += 1;
        } else {
            self.is_cut = true;
        }
    }

    pub(super) fn extend(&mut self, links: &Links) {
        links.as_slice().iter().for_each(|&blocker| self.push(blocker));
        self.is_cut |= links.is_cut;
    }
}

/// A wait that is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// Node of the waiter's tree.
    pub(super) what: u32,
    pub(super) timed_out: bool,
    pub(super) links: Links,
}

impl Wait {
    fn ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    fn overlap_ns(&self, start_ns: u64, end_ns: u64) -> u64 {
        self.end_ns.min(end_ns).saturating_sub(self.start_ns.max(start_ns))
    }

    pub(super) fn record(&self) -> WaitRecord {
        WaitRecord {
            start_ns: self.start_ns,
            ns: self.ns(),
            what: self.what,
            timed_out: self.timed_out,
            chain: self.links.as_slice().to_vec(),
            is_chain_cut: self.links.is_cut,
        }
    }
}

/// The last waits of a task, as long as they can still explain another task's wait.
#[derive(Debug, Default)]
pub(super) struct Recent(Vec<Wait>);

impl Recent {
    pub(super) fn push(&mut self, wait: Wait) {
        if self.0.len() < RECENT_MAX {
            return self.0.push(wait);
        }
        // A wait that is longer ago than it was long covers less than half of any wait that is not
        // over yet. If all still matter, the shortest is dropped.
        let worth = |old: &Wait| (wait.end_ns.saturating_sub(old.end_ns) <= old.ns(), old.ns());
        if let Some(least) = self.0.iter_mut().min_by_key(|old| worth(old)) {
            *least = wait;
        }
    }

    /// The wait that covers at least half of a time.
    pub(super) fn that_covers(&self, start_ns: u64, end_ns: u64) -> Option<&Wait> {
        let longest = self.0.iter().max_by_key(|wait| wait.overlap_ns(start_ns, end_ns))?;
        let covered_ns = longest.overlap_ns(start_ns, end_ns);
        (covered_ns > 0 && 2 * covered_ns >= end_ns - start_ns).then_some(longest)
    }
}

/// The longest waits of an operation.
#[derive(Debug, Default)]
pub(super) struct Longest {
    waits: Vec<Wait>,
    nr_all: u64,
}

impl Longest {
    pub(super) fn push(&mut self, wait: Wait) {
        self.nr_all += 1;
        if self.waits.len() < LONGEST_MAX {
            return self.waits.push(wait);
        }
        // The last of the shortest, so that of equal waits the earliest stay.
        if let Some(least) = self.waits.iter_mut().rev().min_by_key(|old| old.ns())
            && least.ns() < wait.ns()
        {
            *least = wait;
        }
    }

    /// Number of all waits, including those that are not kept.
    pub(super) fn nr_all(&self) -> u64 {
        self.nr_all
    }

    /// The longest first.
    pub(super) fn records(mut self) -> Vec<WaitRecord> {
        self.waits.sort_by_key(|wait| (std::cmp::Reverse(wait.ns()), wait.start_ns));
        self.waits.iter().map(Wait::record).collect()
    }
}

/// The node of a task over time.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Time and node; a ring once it is full.
    changes: Vec<(u64, u32)>,
    next: usize,
}

impl History {
    pub(super) fn push(&mut self, at_ns: u64, node: u32) {
        if self.changes.len() < HISTORY_MAX {
            self.changes.push((at_ns, node));
        } else {
            self.changes[self.next] = (at_ns, node);
            self.next = (self.next + 1) % HISTORY_MAX;
        }
    }

    /// The node at a time; the earliest known one if the time is before the history.
    pub(super) fn node_at(&self, at_ns: u64) -> Option<u32> {
        let (newer, older) = self.changes.split_at(self.next);
        let mut latest_first = newer.iter().rev().chain(older.iter().rev());
        let then = latest_first.find(|&&(since_ns, _)| since_ns <= at_ns);
        then.or(older.first()).map(|&(_, node)| node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(start_ns: u64, end_ns: u64) -> Wait {
        Wait { start_ns, end_ns, what: 0, timed_out: false, links: Links::NONE }
    }

    #[test]
    fn a_wait_explains_another_that_it_covers_by_half() {
        let mut recent = Recent::default();
        recent.push(wait(0, 100));
        for at in 0..2 * RECENT_MAX as u64 {
            recent.push(wait(100 + at, 101 + at));
        }
        let found = recent.that_covers(40, 160).map(|wait| (wait.start_ns, wait.end_ns));
        assert_eq!(found, Some((0, 100)), "short ones go first");
        assert!(recent.that_covers(40, 161).is_none());
        assert!(recent.that_covers(100, 100).is_none());
    }

    #[test]
    fn a_chain_that_was_cut_says_so() {
        let blocker = Blocker { how: BlockedBy::Woke, task: 1, doing: 0 };
        let mut links = Links::NONE;
        (0..LINKS_MAX).for_each(|_| links.push(blocker));
        assert!(!Wait { links, ..wait(0, 1) }.record().is_chain_cut);
        let mut longer = Links::NONE;
        longer.push(blocker);
        longer.extend(&links);
        let record = Wait { links: longer, ..wait(0, 1) }.record();
        assert_eq!((record.chain.len(), record.is_chain_cut), (LINKS_MAX, true));
    }

    #[test]
    fn an_operation_keeps_its_longest_waits() {
        let mut longest = Longest::default();
        (0..20).for_each(|at| longest.push(wait(at, at + at % 10)));
        assert_eq!(longest.nr_all(), 20);
        let lengths: Vec<u64> = longest.records().iter().map(|wait| wait.ns).collect();
        assert_eq!(lengths, [9, 9, 8, 8, 7, 7, 6, 6]);
    }

    #[test]
    fn history_knows_the_last_changes() {
        let mut history = History::default();
        assert_eq!(history.node_at(5), None);
        for at in 0..HISTORY_MAX as u32 + 8 {
            history.push(u64::from(at) * 10, at);
        }
        assert_eq!(history.node_at(95), Some(9));
        assert_eq!(history.node_at(80), Some(8));
        assert_eq!(history.node_at(79), Some(8), "forgotten: the earliest known");
        assert_eq!(history.node_at(1_000_000), Some(HISTORY_MAX as u32 + 7));
    }
}
