//! Finished operations: the slowest of them whole, all of them added up by latency.
//!
//! A run may have millions of operations, while a report shows ten of them and bands of
//! percentiles. So the ledger keeps the slowest whole, and adds up the times of all by latency. At
//! first each latency has its own sum. When there are too many, the closest latencies are merged,
//! so that the size of a ledger does not grow with the run.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

use super::OpRecord;
use super::life::OpEnd;
use super::tree::Tree;

/// Latencies of one name that are kept apart.
const GROUPS_MAX: usize = 4096;
/// Leading bits of a latency that are kept once latencies are merged: a precision of about one part
/// in a thousand. Fewer bits if that is not enough.
const BITS: u32 = 12;

/// The operations of a run.
#[derive(Default)]
pub(super) struct Ops {
    nr_kept: usize,
    /// Keeps only operations of this name whole, if one is given; all are added up.
    only: Option<Box<str>>,
    slowest: BinaryHeap<Slow>,
    latencies: BTreeMap<Rc<str>, Latencies>,
    gap: Option<String>,
}

/// The result for all operations.
pub(super) struct OpsEnd {
    /// The slowest first.
    pub(super) slowest: Vec<OpRecord>,
    pub(super) latencies: BTreeMap<Rc<str>, Latencies>,
    /// The first operation whose times did not add up.
    pub(super) gap: Option<String>,
}

impl Ops {
    pub(super) fn new(nr_kept: usize, only: Option<&str>) -> Self {
        Ops { nr_kept, only: only.map(Box::from), ..Ops::default() }
    }

    /// Adds a finished operation of task number `task`, whose tree is `of_task`.
    pub(super) fn push(&mut self, name: &str, task: u32, of_task: &Tree, op: OpEnd) {
        let (booked_ns, ns) = (op.booked_ns(), op.ns());
        if booked_ns != ns && self.gap.is_none() {
            let at_ns = op.start_ns;
            self.gap = Some(format!("{name} at {at_ns}: {booked_ns} of {ns} ns are booked"));
        }

        let name = match self.latencies.get_key_value(name) {
            Some((known, _)) => Rc::clone(known),
            None => name.into(),
        };
        let latencies = self.latencies.entry(Rc::clone(&name)).or_default();
        let group = latencies.group(ns);
        group.count += 1;
        op.add_to(&mut group.sum, of_task);
        latencies.limit(GROUPS_MAX);
        if self.only.as_deref().is_some_and(|only| *only != *name) {
            return;
        }
        let rank = (Reverse(ns), op.start_ns, task);
        if self.slowest.len() >= self.nr_kept
            && self.slowest.peek().is_none_or(|fastest| fastest.rank() < rank)
        {
            return;
        }
        if self.slowest.len() >= self.nr_kept {
            self.slowest.pop();
        }
        let mut tree = Tree::empty();
        op.add_to(&mut tree, of_task);
        let (start_ns, end_ns) = (op.start_ns, op.end_ns);
        let (waits, nr_waits) = op.waits();
        self.slowest.push(Slow(OpRecord { name, task, start_ns, end_ns, tree, waits, nr_waits }));
    }

    pub(super) fn close(self) -> OpsEnd {
        let slowest = self.slowest.into_sorted_vec().into_iter().map(|Slow(op)| op).collect();
        OpsEnd { slowest, latencies: self.latencies, gap: self.gap }
    }
}

/// An operation ordered by rank: the fastest compares greatest, and is dropped first.
struct Slow(OpRecord);

impl Slow {
    fn rank(&self) -> (Reverse<u64>, u64, u32) {
        (Reverse(self.0.ns()), self.0.start_ns, self.0.task)
    }
}

impl PartialEq for Slow {
    fn eq(&self, other: &Slow) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Slow {}

impl PartialOrd for Slow {
    fn partial_cmp(&self, other: &Slow) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Slow {
    fn cmp(&self, other: &Slow) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// Time of all operations of one name by cause, grouped by latency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// By latency, rounded down to a number of leading bits.
    groups: BTreeMap<u64, Group>,
    bits: u32,
}

/// Operations of about the same latency.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    count: u64,
    /// Sum of their trees.
    sum: Tree,
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies { groups: BTreeMap::new(), bits: u64::BITS }
    }
}

impl Latencies {
    /// Number of operations.
    pub fn count(&self) -> u64 {
        self.groups.values().map(|group| group.count).sum()
    }

    /// Time by cause of the operations from the `from`th to the `to`th (exclusive) by latency,
    /// counted from 0. If the range covers a group in part, it gets a share in proportion: adjacent
    /// ranges add up.
    pub fn between(&self, from: u64, to: u64) -> Tree {
        let mut sum = Tree::empty();
        let mut first = 0;
        for group in self.groups.values() {
            let nr = group.count;
            // Within this group: operations before `begin` are faster, those from `end` on are
            // slower.
            let begin = from.saturating_sub(first).min(nr);
            let end = to.saturating_sub(first).min(nr);
            first += nr;
            if begin < end {
                let before = |figure: u64, rank: u64| {
                    // Not larger than `figure`.
                    (u128::from(figure) * u128::from(rank) / u128::from(nr)) as u64
                };
                sum.merge(&group.sum, |figure| before(figure, end) - before(figure, begin));
            }
        }
        sum
    }

    fn group(&mut self, ns: u64) -> &mut Group {
        let nobody = || Group { count: 0, sum: Tree::empty() };
        self.groups.entry(leading(ns, self.bits)).or_insert_with(nobody)
    }

    /// Merges groups until at most `most` are left.
    fn limit(&mut self, most: usize) {
        while self.groups.len() > most {
            self.bits = BITS.min(self.bits - 1);
            for (ns, other) in std::mem::take(&mut self.groups) {
                let group = self.group(ns);
                group.count += other.count;
                group.sum.merge(&other.sum, |figure| figure);
            }
        }
    }
}

/// A number with all but its leading bits cleared.
const fn leading(number: u64, bits: u32) -> u64 {
    let shift = (u64::BITS - number.leading_zeros()).saturating_sub(bits);
    number >> shift << shift
}

#[cfg(test)]
mod tests {
    use super::super::tree::{NodeKey, ROOT};
    use super::*;

    fn latencies(of: impl Iterator<Item = u64>, most: usize) -> Latencies {
        let mut latencies = Latencies::default();
        for ns in of {
            let group = latencies.group(ns);
            group.count += 1;
            group.sum.add(ROOT, 0, 1);
            let leaf = group.sum.child(ROOT, NodeKey::User);
            group.sum.add(leaf, ns, 0);
            latencies.limit(most);
        }
        latencies
    }

    #[test]
    fn few_latencies_are_told_apart() {
        let latencies = latencies([5, 1, 3, 3, 9].into_iter(), 100);
        assert_eq!(latencies.count(), 5);
        let ns = |from, to| latencies.between(from, to).total_ns();
        assert_eq!(
            (ns(0, 5), ns(0, 1), ns(1, 3), ns(2, 4), ns(4, 5), ns(5, 9)),
            (21, 1, 6, 8, 9, 0)
        );
        assert_eq!(latencies.between(1, 4).node(ROOT).count, 3);
    }

    #[test]
    fn many_latencies_go_together_and_still_add_up() {
        let all = || (0..100_000u64).map(|at| 1_000_000 + at * 7919 % 9_000_000);
        let latencies = latencies(all(), 512);
        assert!(latencies.groups.len() <= 512);
        let of = |from, to| {
            let tree = latencies.between(from, to);
            (tree.node(ROOT).count, tree.total_ns())
        };
        let mut sorted: Vec<u64> = all().collect();
        sorted.sort_unstable();
        let edges = [0, 50_000, 90_000, 99_000, 100_000];
        let mut sum_ns = 0;
        for pair in edges.windows(2) {
            let exact_ns: u64 = sorted[pair[0]..pair[1]].iter().sum();
            let (nr, ns) = of(pair[0] as u64, pair[1] as u64);
            assert_eq!(nr, (pair[1] - pair[0]) as u64);
            assert!(ns.abs_diff(exact_ns) * 100 < exact_ns, "{ns} and {exact_ns}");
            sum_ns += ns;
        }
        assert_eq!((100_000, sum_ns), of(0, 100_000));
        assert_eq!(sum_ns, sorted.iter().sum::<u64>());
    }

    #[test]
    fn leading_bits() {
        assert_eq!(leading(0b1011_0111, 3), 0b1010_0000);
        assert_eq!((leading(5, 3), leading(0, 1), leading(u64::MAX, 64)), (5, 0, u64::MAX));
    }
}
