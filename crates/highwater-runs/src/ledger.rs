//! Converts a host's ledger into the rows of an explanation.
//!
//! Trees of node keys become trees of names. A phase keeps its name. Time outside any phase is a
//! leaf with its own name (`running`, `waiting for a CPU`, `throttled: no progress`). The own time
//! of a lock's node becomes its leaf `waiting`, so trees with and without interrupts in between add
//! up alike.

use std::collections::BTreeMap;

use highwater_core::sync::order::LockClass;
use highwater_native::NativeHost;
use highwater_native::lock::LockReport;
use highwater_results::explain::{
    Band, Cause, Chain, ExplainedRun, Link, LockRow, Operation, TaskTime,
};
use highwater_sim::engine::Sim;
use highwater_sim::ledger::{BlockedBy, GroupNames, Ledger, NodeKey, OpRecord, Tree, WaitRecord};
use highwater_sim::lock::LockStats;

use crate::names::{RUNNING, WAITING, is_leaf, name, place};
use crate::outcome::RunError;
use crate::recorder::Recorder;
use crate::unit::Unit;

/// Percentile bands in which operations are added up; the band of all operations comes first.
const BANDS: [(f64, f64); 7] = [
    (0.0, 100.0),
    (0.0, 50.0),
    (50.0, 90.0),
    (90.0, 99.0),
    (99.0, 100.0),
    // Split the last band if there are enough operations.
    (99.0, 99.9),
    (99.9, 100.0),
];
/// Fewer operations have no slowest thousandth.
const THOUSANDTH_FROM: u64 = 1000;

/// Rows of a ledger: the slowest operations, all operations in bands, all tasks, and the locks with
/// these statistics. The caller fills in machine, policy, label and seed.
pub fn explained(ledger: &Ledger, locks: &[LockStats]) -> ExplainedRun {
    ExplainedRun {
        worst: ledger.ops.iter().map(|op| operation(ledger, op)).collect(),
        bands: bands(ledger),
        tasks: tasks(ledger),
        locks: lock_rows(locks, &ledger.groups),
        ..ExplainedRun::default()
    }
}

/// Starts the ledger of a simulated run if it is to be explained, recorded or watched, with this
/// many of its slowest operations.
pub(crate) fn open(sim: &Sim, unit: &Unit<'_>) {
    if unit.explain.is_some() || unit.recorder.is_some() || unit.watcher.is_some() {
        let window = unit.recorder.map(Recorder::window);
        sim.open_ledger_with(unit.explain.unwrap_or(0), unit.only_op, window);
    }
}

/// The ledger's rows since [`open`], if there are any.
///
/// # Errors
/// If some time of an operation (listed or not) or of a task has no cause.
pub(crate) fn close(sim: &Sim, unit: &Unit<'_>) -> Result<Option<ExplainedRun>, RunError> {
    if unit.explain.is_none() && unit.recorder.is_none() && unit.watcher.is_none() {
        return Ok(None);
    }
    let mut ledger = sim.close_ledger();
    if let Some(recorder) = unit.recorder {
        recorder.take(sim, &mut ledger);
    }
    match ledger.first_gap() {
        Some(gap) => Err(RunError::Ledger(gap)),
        None if unit.explain.is_none() => Ok(None),
        None => Ok(Some(explained(&ledger, &sim.lock_stats()))),
    }
}

/// The data that a native machine has: its locks.
pub(crate) fn close_native(host: &NativeHost, explain: Option<usize>) -> Option<ExplainedRun> {
    explain?;
    let locks = native_lock_rows(host.lock_report().as_ref().map(<[_; _]>::as_slice));
    Some(ExplainedRun { locks, ..ExplainedRun::default() })
}

/// The table of simulated locks that were taken at least once.
fn lock_rows(stats: &[LockStats], groups: &GroupNames) -> Vec<LockRow> {
    let row = |stats: &LockStats| LockRow {
        class: stats.name.to_owned(),
        taken: stats.nr_taken,
        contended: stats.nr_contended,
        wait_ns: stats.wait_ns,
        wait_ns_max: stats.wait_ns_max,
        hold_ns: stats.hold_ns,
        hold_ns_max: stats.hold_ns_max,
        worst_holder: match &stats.longest.task {
            None => String::new(),
            Some(task) if stats.longest.doing.is_empty() => task.to_string(),
            Some(task) => format!("{task}: {}", place(&stats.longest.doing, groups)),
        },
    };
    stats.iter().filter(|stats| stats.nr_taken > 0).map(row).collect()
}

/// The table of a native machine's locks, in real time; empty if they did not count.
fn native_lock_rows(report: Option<&[(LockClass, LockReport)]>) -> Vec<LockRow> {
    let row = |(class, report): &(LockClass, LockReport)| LockRow {
        class: class.name().to_owned(),
        taken: report.takings,
        contended: report.contended,
        wait_ns: report.wait_ns,
        wait_ns_max: report.wait_ns_max,
        hold_ns: report.hold_ns,
        hold_ns_max: report.hold_ns_max,
        worst_holder: report.worst_holder.clone(),
    };
    let taken = report.unwrap_or_default().iter().filter(|(_, report)| report.takings > 0);
    taken.map(row).collect()
}

fn operation(ledger: &Ledger, op: &OpRecord) -> Operation {
    let chains = op.waits.iter().map(|wait| chain(ledger, op.task, wait));
    Operation {
        name: op.name.to_string(),
        task: ledger.tasks[op.task as usize].name.to_string(),
        start_ns: op.start_ns,
        ns: op.ns(),
        causes: causes(&op.name, &op.tree, &ledger.groups),
        waits: op.nr_waits,
        chains: chains.collect(),
    }
}

/// Operations of each name, by latency.
fn bands(ledger: &Ledger) -> Vec<Band> {
    let mut bands = Vec::new();
    for (name, latencies) in &ledger.latencies {
        let nr = latencies.count();
        // Rounded down: with few operations the slowest is still in the slowest band.
        let rank = |percentile: f64| (percentile / 100.0 * nr as f64) as u64;
        for (from, to) in BANDS {
            let (first, end) = (rank(from), rank(to));
            let is_fine = from == 99.9 || to == 99.9;
            if first == end || (is_fine && nr < THOUSANDTH_FROM) {
                continue;
            }
            let causes = causes(name, &latencies.between(first, end), &ledger.groups);
            let (operation, count) = (name.to_string(), end - first);
            bands.push(Band { operation, from, to, count, causes });
        }
    }
    bands
}

/// Everything that tasks did, tasks of one kind together.
fn tasks(ledger: &Ledger) -> Vec<TaskTime> {
    let mut kinds: BTreeMap<&str, (u64, Cause)> = BTreeMap::new();
    for task in &ledger.tasks {
        let name = kind(&task.name);
        let (count, sum) = kinds.entry(name).or_insert_with(|| (0, Cause::new(name)));
        *count += 1;
        add(sum, &task.tree, &ledger.groups);
    }
    let row = |(kind, (count, mut causes)): (&str, (u64, Cause))| {
        causes.sort();
        TaskTime { kind: kind.to_owned(), count, causes }
    };
    kinds.into_iter().map(row).collect()
}

/// Tasks whose names differ only in a number are one kind: `kswapd0`, `hog/3`, `irq/0/2`.
fn kind(name: &str) -> &str {
    let stem = name.split('/').next().unwrap_or(name);
    match stem.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "" => stem,
        kind => kind,
    }
}

fn causes(name: &str, tree: &Tree, groups: &GroupNames) -> Cause {
    let mut cause = Cause::new(name);
    add(&mut cause, tree, groups);
    cause.sort();
    cause
}

/// Adds a tree to the cause that stands for its root.
fn add(sum: &mut Cause, tree: &Tree, groups: &GroupNames) {
    // Children come after their parents: sums go up from the back.
    let nodes = tree.nodes();
    let mut total_ns: Vec<u64> = nodes.iter().map(|node| node.self_ns).collect();
    let mut children = vec![Vec::new(); nodes.len()];
    for (at, node) in nodes.iter().enumerate().skip(1).rev() {
        total_ns[node.parent as usize] += total_ns[at];
        children[node.parent as usize].push(at);
    }
    Names { tree, groups, total_ns, children }.add(sum, 0);
}

/// A tree whose nodes get names.
struct Names<'a> {
    tree: &'a Tree,
    groups: &'a GroupNames,
    /// By node: with everything inside it.
    total_ns: Vec<u64>,
    children: Vec<Vec<usize>>,
}

impl Names<'_> {
    fn add(&self, cause: &mut Cause, at: usize) {
        let Names { tree, groups, total_ns, children } = self;
        let node = &tree.nodes()[at];
        let (is_leaf, count) = (is_leaf(node.key), node.count);
        cause.ns += total_ns[at];
        cause.count += count;
        if !is_leaf && node.self_ns > 0 {
            let own = child(cause, if at == 0 { RUNNING } else { WAITING });
            own.ns += node.self_ns;
            own.count += count;
        }
        for &inner in children[at].iter().filter(|&&inner| total_ns[inner] > 0) {
            let entered = tree.nodes()[inner].count;
            let inside = child(cause, &name(tree.path(inner as u32).as_slice(), groups));
            if entered == 0 {
                // Time without waiting is counted as often as its operation.
                inside.count += count;
            }
            self.add(inside, inner);
        }
    }
}

fn child<'a>(cause: &'a mut Cause, name: &str) -> &'a mut Cause {
    let at = cause.children.iter().position(|child| child.name == name).unwrap_or_else(|| {
        cause.children.push(Cause::new(name));
        cause.children.len() - 1
    });
    &mut cause.children[at]
}

fn chain(ledger: &Ledger, task: u32, wait: &WaitRecord) -> Chain {
    let path = ledger.doing(task, wait.what);
    let ending = match path.last() {
        Some(NodeKey::Wait(_)) if wait.timed_out => " (timed out)",
        _ => "",
    };
    let link = |blocker: &highwater_sim::ledger::Blocker| Link {
        how: match blocker.how {
            BlockedBy::HeldLock => "held by",
            BlockedBy::Woke => "woken by",
            BlockedBy::HadCpu => "ran there",
        }
        .to_owned(),
        task: ledger.tasks[blocker.task as usize].name.to_string(),
        doing: place(&ledger.doing(blocker.task, blocker.doing), &ledger.groups),
    };
    Chain {
        start_ns: wait.start_ns,
        ns: wait.ns,
        what: format!("{}{ending}", name(&path, &ledger.groups)),
        links: wait.chain.iter().map(link).collect(),
        is_cut: wait.is_chain_cut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_differ_in_a_number_are_of_one_kind() {
        let names = ["hog/3", "irq/0/12", "kswapd0", "latency", "7"];
        assert_eq!(names.map(kind), ["hog", "irq", "kswapd", "latency", "7"]);
    }

    #[test]
    fn locks_with_and_without_other_time_add_up_alike() {
        let lock = |has_interrupt: bool| {
            let mut tree = Tree::default();
            let at = tree.child(0, NodeKey::Lock("lru"));
            tree.add(at, 10, 1);
            if has_interrupt {
                let inside = tree.child(at, NodeKey::Interrupt);
                tree.add(inside, 5, 0);
            }
            causes("x", &tree, &GroupNames::default())
        };
        let mut sum = lock(false);
        sum.merge(&lock(true));
        assert!(sum.adds_up() && sum.ns == 25, "{sum:?}");
    }
}
