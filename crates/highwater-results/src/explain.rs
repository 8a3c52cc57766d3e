//! Where the time of operations went: what `highwater explain` leaves behind.
//!
//! Key types: [`Explanation`] (one experiment), [`ExplainedRun`] (one policy on one machine with one seed), [`Operation`]
//! (one operation with its causes), [`Cause`] (a tree: the time of a node is what itself took plus what its children
//! took, to the nanosecond), [`Link`] (who held it up, and who held those up), [`LockRow`] (the table of lock_stat).
//!
//! Neighbours: filled by `highwater` from a host's ledger, printed by `highwater-report`. Plain rows keyed by names.

use serde::{Deserialize, Serialize};

/// Value of [`Explanation::schema`] that this version writes and reads.
pub const EXPLAIN_SCHEMA: &str = "highwater.explain/1";

/// Where the time of an experiment's operations went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// [`EXPLAIN_SCHEMA`].
    pub schema: String,
    /// Version of Highwater that ran it.
    pub version: String,
    /// Name of the experiment.
    pub experiment: String,
    /// The command, word by word.
    pub command_line: Vec<String>,
    /// `sim` or `native`.
    pub host: String,
    /// The first seed.
    pub seed: u64,
    /// Machine by machine, policy by policy.
    pub runs: Vec<ExplainedRun>,
}

/// One policy on one machine with one seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExplainedRun {
    /// Name of the machine.
    pub machine: String,
    /// Name of the policy.
    pub policy: String,
    /// Heading of its column.
    pub label: String,
    /// The seed.
    pub seed: u64,
    /// The slowest operations, the slowest first.
    pub worst: Vec<Operation>,
    /// All operations by name and percentile.
    pub bands: Vec<Band>,
    /// Everything that tasks did over the whole run, tasks of one kind together.
    pub tasks: Vec<TaskTime>,
    /// Locks by class.
    pub locks: Vec<LockRow>,
}

/// One operation of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// What it was: `mmap-48`.
    pub name: String,
    /// Who did it: `latency`.
    pub task: String,
    /// Time since the start of the run.
    pub start_ns: u64,
    /// Its latency.
    pub ns: u64,
    /// Where that went; `causes.ns == ns`.
    pub causes: Cause,
    /// The longest single waits, the longest first, each with what it waited for.
    pub chains: Vec<Chain>,
}

/// A cause and those inside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// What: a phase (`direct reclaim`), or at the leaves a kind of time (`running`, `user`, `lock lru`,
    /// `throttled: writeback`, `waiting for a CPU`, `interrupts`).
    pub name: String,
    /// All of its time: its own and that of everything inside it.
    pub ns: u64,
    /// How often it was entered.
    pub count: u64,
    /// What is inside, the longest first. Their times add up to `ns`: what the cause itself took is a child too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Cause>,
}

/// One wait and who held it up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    /// Time since the start of the run.
    pub start_ns: u64,
    /// How long it was.
    pub ns: u64,
    /// What was waited for: `lock lru`, `throttled: no progress`.
    pub what: String,
    /// Who held it up, then who held up those, and so on.
    pub links: Vec<Link>,
}

/// Somebody who held up somebody.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// How: `held by`, `woken by`, `ran there`.
    pub how: String,
    /// The task: `kswapd0`.
    pub task: String,
    /// What it was doing: `node pass > inactive list`.
    pub doing: String,
}

/// Operations of one name whose latencies lie between two percentiles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Band {
    /// Name of the operations.
    pub operation: String,
    /// From this percentile (exclusive; 0 for all).
    pub from: f64,
    /// To this one.
    pub to: f64,
    /// How many operations.
    pub count: u64,
    /// Sum of their causes.
    pub causes: Cause,
}

/// What tasks of one kind did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskTime {
    /// The kind: `hog`.
    pub kind: String,
    /// How many tasks.
    pub count: u64,
    /// Sum of their causes over the whole run.
    pub causes: Cause,
}

/// One class of locks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockRow {
    /// Name of the class.
    pub class: String,
    /// How often one was taken.
    pub taken: u64,
    /// How often the taker had to wait.
    pub contended: u64,
    /// Total waiting.
    pub wait_ns: u64,
    /// Longest wait.
    pub wait_ns_max: u64,
    /// Total holding.
    pub hold_ns: u64,
    /// Longest hold.
    pub hold_ns_max: u64,
    /// Who held it longest, and doing what; empty if that is not known.
    pub worst_holder: String,
}

impl Cause {
    /// A cause without time.
    pub fn new(name: &str) -> Self {
        Cause { name: name.to_owned(), ..Cause::default() }
    }

    /// Adds another tree: causes of one name go together.
    pub fn merge(&mut self, other: &Cause) {
        self.ns += other.ns;
        self.count += other.count;
        for child in &other.children {
            match self.children.iter_mut().find(|own| own.name == child.name) {
                Some(own) => own.merge(child),
                None => self.children.push(child.clone()),
            }
        }
    }

    /// Longest first, at every level; ties by name.
    pub fn sort(&mut self) {
        self.children.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.name.cmp(&b.name)));
        self.children.iter_mut().for_each(Cause::sort);
    }

    /// True if at every node with children their times add up to the node's.
    pub fn adds_up(&self) -> bool {
        let inside: u64 = self.children.iter().map(|child| child.ns).sum();
        (self.children.is_empty() || inside == self.ns) && self.children.iter().all(Cause::adds_up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(name: &str, ns: u64) -> Cause {
        Cause { ns, count: 1, ..Cause::new(name) }
    }

    #[test]
    fn merged_trees_add_up() {
        let tree = |a: u64, b: u64| Cause {
            ns: a + b,
            count: 1,
            children: vec![leaf("running", a), leaf("lock lru", b)],
            ..Cause::new("mmap")
        };
        let mut sum = tree(1, 2);
        sum.merge(&tree(10, 200));
        sum.sort();
        assert!(sum.adds_up());
        assert_eq!((sum.ns, sum.count), (213, 2));
        assert_eq!(sum.children[0], Cause { ns: 202, count: 2, ..Cause::new("lock lru") });
        sum.ns += 1;
        assert!(!sum.adds_up());
    }
}
