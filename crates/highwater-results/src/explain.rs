//! Causes of the time of operations: the file that `highwater explain` writes.
//!
//! Key types: [`Explanation`] (one experiment), [`ExplainedRun`] (one policy on one machine with
//! one seed), [`Operation`] (one operation with its causes), [`Link`] (a task that held up
//! another), [`LockRow`] (the table of lock_stat). [`Cause`] is a tree: the time of a node equals
//! the sum of its children to the nanosecond, and the node's own time is one of the children.
//!
//! Neighbours: filled by `highwater` from a host's ledger, printed by `highwater-report`. Plain
//! rows keyed by names.
//!
//! Times are exact: [`Explanation::validate`] finds the first tree whose times do not add up.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Definition;

/// Value of [`Explanation::schema`] that this version writes and reads.
pub const EXPLAIN_SCHEMA: &str = "highwater.explain/1";
/// File name of an explanation in a result directory.
pub const EXPLAIN_FILE: &str = "explain.json";
/// File name of the explanation of the first seed's slowest operations that is kept beside results.
pub const STALLS_FILE: &str = "stalls.json";

/// Causes of the time of an experiment's operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// Kind and version of the file.
    #[schemars(extend("const" = EXPLAIN_SCHEMA))]
    pub schema: String,
    /// Version of Highwater that ran it.
    pub version: String,
    /// Name of the experiment.
    pub experiment: String,
    /// The command, word by word.
    pub command_line: Vec<String>,
    /// Host: `sim` (virtual time) or `native` (threads of a computer).
    #[schemars(extend("enum" = ["sim", "native"]))]
    pub host: String,
    /// The first seed.
    pub seed: u64,
    /// Settings of workload, machines and policies that the user changed for this run alone, as
    /// `KEY=VALUE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
    /// Machines, in order of use, with all their settings.
    pub machines: Vec<Definition>,
    /// Policies, the baseline first, with all their settings.
    pub policies: Vec<Definition>,
    /// Runs, machine by machine and policy by policy.
    pub runs: Vec<ExplainedRun>,
}

/// One policy on one machine with one seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// Times of all tasks over the whole run, summed over tasks of one kind.
    pub tasks: Vec<TaskTime>,
    /// Locks by class.
    pub locks: Vec<LockRow>,
}

/// One operation of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Operation {
    /// Name of the operation: `mmap-48`.
    pub name: String,
    /// The task that did it: `latency`.
    pub task: String,
    /// Time since the start of the run, nanoseconds.
    pub start_ns: u64,
    /// Its latency, nanoseconds.
    pub ns: u64,
    /// Causes of the latency; `causes.ns` equals `ns`.
    pub causes: Cause,
    /// Total number of waits.
    pub waits: u64,
    /// The longest single waits, longest first, each with the tasks that held it up.
    pub chains: Vec<Chain>,
}

/// A cause and its inner causes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// A phase (`direct reclaim`), or at the leaves a kind of time (`running`, `user`, `lock lru`,
    /// `throttled: writeback`, `waiting for a CPU`, `interrupts`).
    pub name: String,
    /// Total time, nanoseconds: its own and that of everything inside it.
    pub ns: u64,
    /// Number of times it was entered.
    pub count: u64,
    /// Inner causes, longest first. Their times add up to `ns`, because the cause's own time is one
    /// of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Cause>,
}

/// Kinds of causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CauseKind {
    /// Something that a task is inside of: a phase of the kernel, or an operation.
    Phase,
    /// Waiting for a lock, with everything that happens meanwhile.
    Lock,
    /// Other waiting: for an event, a time, a CPU.
    Wait,
    /// Running in the kernel.
    Running,
    /// Other use of the CPU: the program's own, interrupts, timer ticks.
    Busy,
}

impl Cause {
    /// The kind of the cause. The first words of its name say it: that is part of the format.
    pub fn kind(&self) -> CauseKind {
        let begins = |words: &[&str]| words.iter().any(|word| self.name.starts_with(word));
        match self.name.as_str() {
            "running" => CauseKind::Running,
            "user" | "timer ticks" | "interrupts" => CauseKind::Busy,
            _ if begins(&["lock "]) => CauseKind::Lock,
            _ if begins(&["waiting", "throttled", "sleeping"]) => CauseKind::Wait,
            _ => CauseKind::Phase,
        }
    }
}

/// One wait and the tasks that held it up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Chain {
    /// Time since the start of the run, nanoseconds.
    pub start_ns: u64,
    /// Length, nanoseconds.
    pub ns: u64,
    /// The thing waited for: `lock lru`, `throttled: no progress`.
    pub what: String,
    /// The task that held up the wait, then the task that held up that task, and so on.
    pub links: Vec<Link>,
    /// True if the chain continues beyond the last link.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_cut: bool,
}

/// A task that held up another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// How it did so: `held by`, `woken by`, `ran there`.
    pub how: String,
    /// The task: `kswapd0`.
    pub task: String,
    /// Its activity: `node pass > inactive list`.
    pub doing: String,
}

/// Operations of one name whose latencies lie between two percentiles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Band {
    /// Name of the operations.
    pub operation: String,
    /// From this percentile (exclusive; 0 for all).
    pub from: f64,
    /// To this percentile (inclusive).
    pub to: f64,
    /// Number of operations.
    pub count: u64,
    /// Sum of their causes.
    pub causes: Cause,
}

/// Total time of the tasks of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskTime {
    /// The kind: `hog`.
    pub kind: String,
    /// Number of tasks.
    pub count: u64,
    /// Sum of their causes over the whole run.
    pub causes: Cause,
}

/// One class of locks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LockRow {
    /// Name of the class.
    pub class: String,
    /// Number of times that a lock of the class was taken.
    pub taken: u64,
    /// Number of times that the taker had to wait.
    pub contended: u64,
    /// Total waiting, nanoseconds.
    pub wait_ns: u64,
    /// Longest wait, nanoseconds.
    pub wait_ns_max: u64,
    /// Total holding, nanoseconds.
    pub hold_ns: u64,
    /// Longest hold, nanoseconds.
    pub hold_ns_max: u64,
    /// The task that held a lock longest, and its activity; empty if not known.
    pub worst_holder: String,
}

/// Reasons why an explanation is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExplanationError {
    /// The file is of another version, or is something else altogether.
    #[error("field `schema`: expected \"{EXPLAIN_SCHEMA}\", found \"{found}\"")]
    Schema {
        /// The value found.
        found: String,
    },
    /// The times inside a cause do not add up to the time of the cause.
    #[error("{place}: {parts} ns inside \"{cause}\" of {whole} ns")]
    Sum {
        /// Place: `runs[0].worst[2].causes`.
        place: String,
        /// Name of the cause.
        cause: String,
        /// Its time.
        whole: u64,
        /// The sum of the inner times.
        parts: u64,
    },
    /// An operation's latency differs from the time of its causes.
    #[error("{place}: causes of {causes} ns for {ns} ns")]
    Latency {
        /// Place: `runs[0].worst[2]`.
        place: String,
        /// The operation's time.
        ns: u64,
        /// The causes' time.
        causes: u64,
    },
    /// The operations are not in order, slowest first.
    #[error("{place}: slower than the one before")]
    Order {
        /// Place.
        place: String,
    },
}

impl Explanation {
    /// Checks what the types cannot express: schema, sums, order.
    ///
    /// # Errors
    /// The first problem found.
    pub fn validate(&self) -> Result<(), ExplanationError> {
        if self.schema != EXPLAIN_SCHEMA {
            return Err(ExplanationError::Schema { found: self.schema.clone() });
        }
        for (index, run) in self.runs.iter().enumerate() {
            run.validate(&format!("runs[{index}]"))?;
        }
        Ok(())
    }
}

impl ExplainedRun {
    /// Adds another run, or another part of the same run. The slowest operations of both are kept;
    /// the caller cuts them to the number wanted. Bands, tasks and locks of one name are summed.
    pub fn merge(&mut self, other: ExplainedRun) {
        self.worst.extend(other.worst);
        self.worst.sort_by_key(|operation| std::cmp::Reverse(operation.ns));
        for band in other.bands {
            match self.bands.iter_mut().find(|mine| mine.is_like(&band)) {
                Some(mine) => mine.merge(&band),
                None => self.bands.push(band),
            }
        }
        for task in other.tasks {
            match self.tasks.iter_mut().find(|mine| mine.kind == task.kind) {
                Some(mine) => mine.merge(&task),
                None => self.tasks.push(task),
            }
        }
        for lock in other.locks {
            match self.locks.iter_mut().find(|mine| mine.class == lock.class) {
                Some(mine) => mine.merge(&lock),
                None => self.locks.push(lock),
            }
        }
    }

    fn validate(&self, run: &str) -> Result<(), ExplanationError> {
        for (index, operation) in self.worst.iter().enumerate() {
            let place = format!("{run}.worst[{index}]");
            let (ns, causes) = (operation.ns, operation.causes.ns);
            if ns != causes {
                return Err(ExplanationError::Latency { place, ns, causes });
            }
            if index > 0 && ns > self.worst[index - 1].ns {
                return Err(ExplanationError::Order { place });
            }
            operation.causes.check(&format!("{place}.causes"))?;
        }
        for (index, band) in self.bands.iter().enumerate() {
            band.causes.check(&format!("{run}.bands[{index}].causes"))?;
        }
        for (index, task) in self.tasks.iter().enumerate() {
            task.causes.check(&format!("{run}.tasks[{index}].causes"))?;
        }
        Ok(())
    }
}

impl Band {
    /// True if both bands cover the same operations and percentiles.
    fn is_like(&self, other: &Band) -> bool {
        let key = |band: &Band| (band.from.to_bits(), band.to.to_bits());
        self.operation == other.operation && key(self) == key(other)
    }

    fn merge(&mut self, other: &Band) {
        self.count += other.count;
        self.causes.merge(&other.causes);
    }
}

impl TaskTime {
    fn merge(&mut self, other: &TaskTime) {
        self.count += other.count;
        self.causes.merge(&other.causes);
    }
}

impl LockRow {
    /// Adds a row of the same class.
    fn merge(&mut self, other: &LockRow) {
        self.taken += other.taken;
        self.contended += other.contended;
        self.wait_ns += other.wait_ns;
        self.wait_ns_max = self.wait_ns_max.max(other.wait_ns_max);
        self.hold_ns += other.hold_ns;
        if other.hold_ns_max > self.hold_ns_max {
            self.hold_ns_max = other.hold_ns_max;
            self.worst_holder.clone_from(&other.worst_holder);
        }
    }
}

impl Cause {
    /// A cause without time.
    pub fn new(name: &str) -> Self {
        Cause { name: name.to_owned(), ..Cause::default() }
    }

    /// Adds another tree; causes of one name are summed.
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

    /// Sorts every level, longest first; ties by name.
    pub fn sort(&mut self) {
        self.children.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.name.cmp(&b.name)));
        self.children.iter_mut().for_each(Cause::sort);
    }

    /// True if, at every node with children, their times add up to the node's.
    pub fn adds_up(&self) -> bool {
        self.check("").is_ok()
    }

    /// Finds the first node, outermost first, whose children's times do not add up to its own.
    fn check(&self, place: &str) -> Result<(), ExplanationError> {
        // A file may contain any numbers: an overflowing sum must not wrap around to the right
        // value.
        let inside = self.children.iter().try_fold(0u64, |sum, child| sum.checked_add(child.ns));
        let parts = inside.unwrap_or(u64::MAX);
        if !self.children.is_empty() && inside != Some(self.ns) {
            let (place, cause) = (place.to_owned(), self.name.clone());
            return Err(ExplanationError::Sum { place, cause, whole: self.ns, parts });
        }
        self.children.iter().try_for_each(|child| child.check(place))
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "for serde")]
const fn is_false(value: &bool) -> bool {
    !*value
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

    #[test]
    fn two_runs_are_added_row_by_row() {
        let run = |ns: u64, kind: &str, holder: &str| ExplainedRun {
            worst: vec![Operation { ns, ..Operation::default() }],
            bands: vec![Band {
                operation: "mmap-4".to_owned(),
                to: 100.0,
                count: 1,
                causes: leaf("mmap-4", ns),
                ..Band::default()
            }],
            tasks: vec![TaskTime { kind: kind.to_owned(), count: 1, causes: leaf(kind, ns) }],
            locks: vec![LockRow {
                class: "lru".to_owned(),
                taken: ns,
                wait_ns_max: ns,
                hold_ns_max: ns,
                worst_holder: holder.to_owned(),
                ..LockRow::default()
            }],
            ..ExplainedRun::default()
        };
        let mut sum = run(3, "hog", "first");
        sum.merge(run(5, "hog", "second"));
        sum.merge(run(4, "writer", "third"));
        let worst: Vec<u64> = sum.worst.iter().map(|operation| operation.ns).collect();
        assert_eq!(worst, [5, 4, 3]);
        assert_eq!((sum.bands.len(), sum.bands[0].count, sum.bands[0].causes.ns), (1, 3, 12));
        let tasks: Vec<_> =
            sum.tasks.iter().map(|t| (t.kind.as_str(), t.count, t.causes.ns)).collect();
        assert_eq!(tasks, [("hog", 2, 8), ("writer", 1, 4)]);
        let [lock] = &sum.locks[..] else { panic!("{:?}", sum.locks) };
        assert_eq!((lock.taken, lock.wait_ns_max, lock.hold_ns_max), (12, 5, 5));
        assert_eq!(lock.worst_holder, "second");
    }

    #[test]
    fn what_does_not_add_up_is_named() {
        let causes = Cause {
            ns: 3,
            count: 1,
            children: vec![leaf("running", 1), leaf("lock lru", 2)],
            ..Cause::new("mmap-4")
        };
        let operation = |ns: u64, causes: &Cause| Operation {
            ns,
            causes: causes.clone(),
            ..Operation::default()
        };
        let explanation = |worst: Vec<Operation>| Explanation {
            schema: EXPLAIN_SCHEMA.to_owned(),
            version: String::new(),
            experiment: String::new(),
            command_line: Vec::new(),
            host: "sim".to_owned(),
            seed: 1,
            settings: Vec::new(),
            machines: Vec::new(),
            policies: Vec::new(),
            runs: vec![ExplainedRun { worst, ..ExplainedRun::default() }],
        };
        assert_eq!(explanation(vec![operation(3, &causes)]).validate(), Ok(()));
        let complaint = |worst| explanation(worst).validate().unwrap_err().to_string();
        assert_eq!(
            complaint(vec![operation(4, &causes)]),
            "runs[0].worst[0]: causes of 3 ns for 4 ns"
        );
        let mut wrong = causes.clone();
        wrong.children[1].children = vec![leaf("running", 5)];
        assert_eq!(
            complaint(vec![operation(3, &wrong)]),
            "runs[0].worst[0].causes: 5 ns inside \"lock lru\" of 2 ns"
        );
        let faster = Cause { ns: 2, children: vec![leaf("running", 2)], ..Cause::new("mmap-4") };
        assert_eq!(
            complaint(vec![operation(2, &faster), operation(3, &causes)]),
            "runs[0].worst[1]: slower than the one before"
        );
        let mut huge = causes.clone();
        huge.children[0].ns = u64::MAX;
        assert!(explanation(vec![operation(3, &huge)]).validate().is_err(), "no wrapping around");
        let mut other = explanation(Vec::new());
        other.schema = "highwater.explain/2".to_owned();
        assert!(other.validate().unwrap_err().to_string().contains("explain/2"));
    }
}
