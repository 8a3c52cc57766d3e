//! The unmap workload of an experiment (study 003).

mod native;
mod sim;

use highwater_results::{Better, Counters, Metric, TableKind};
use highwater_workloads::unmap::{Aftermath, RoundTimes};
use serde::Deserialize;

use super::file::HostKind;
use super::outcome::{Outcome, RunError};
use super::runner::Cell;

/// Most processes that may unmap at once.
const PROCESSES_MAX: usize = 64;
/// Most pages each of them maps: 1 GiB.
const PAGES_MAX: u32 = 1 << 18;

/// Parameters.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UnmapSection {
    /// Pages each process maps and unmaps.
    pub pages: u32,
    /// Numbers of processes.
    pub processes: Vec<usize>,
    /// Timed unmaps of each kind, per number of processes.
    pub rounds: u32,
    /// Size of the mapped file of the second part, a fraction of memory.
    pub hot: f64,
    /// Size of the file that streams past.
    pub cold: f64,
}

/// What `--quick` changes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct UnmapQuick {
    /// Timed unmaps of each kind, per number of processes.
    rounds: u32,
}

impl UnmapSection {
    /// The first field that cannot be, and why.
    pub(super) fn problem(
        &self,
        quick: Option<&UnmapQuick>,
    ) -> Option<(&'static str, &'static str)> {
        let processes = 1..=PROCESSES_MAX;
        let share = |value: f64| value.is_finite() && value > 0.0 && value <= 4.0;
        if !(1..=PAGES_MAX).contains(&self.pages) {
            Some(("pages", "must be between 1 and 262144"))
        } else if self.processes.is_empty() || !self.processes.iter().all(|n| processes.contains(n))
        {
            Some(("processes", "each number is between 1 and 64"))
        } else if self.rounds == 0 || quick.is_some_and(|q| q.rounds == 0) {
            Some(("rounds", "must be at least 1"))
        } else if !share(self.hot) || self.hot > 0.6 {
            Some(("hot", "must be above 0 and at most 0.6: the file has to fit memory"))
        } else if !share(self.cold) {
            Some(("cold", "must be above 0 and at most 4"))
        } else {
            None
        }
    }

    pub(super) fn apply(&mut self, quick: &UnmapQuick) {
        self.rounds = quick.rounds;
    }

    /// The tables to make.
    pub(super) fn metrics(&self) -> Vec<Metric> {
        let over_processes =
            |stem: &str| self.processes.iter().map(|n| format!("{stem}-{n}")).collect::<Vec<_>>();
        let mut times = Metric::new("unmap", "microseconds", Better::Lower, TableKind::Multi);
        times.operations = over_processes("first");
        times.operations.extend(over_processes("again"));
        times.operations.extend(over_processes("activate"));
        let mut share =
            Metric::new("activation", "percent of the unmap", Better::Lower, TableKind::Multi);
        share.operations = over_processes("share");
        let mut lock = Metric::new(
            "lru_lock",
            "microseconds waited per process and unmap",
            Better::Lower,
            TableKind::Multi,
        );
        lock.operations = over_processes("wait");
        lock.decimals = 3;
        let mut pages = Metric::new("aftermath", "pages", Better::Lower, TableKind::Multi);
        pages.operations = ["activated", "scanned", "refaulted", "reactivated", "major-faults"]
            .map(str::to_owned)
            .to_vec();
        let mut again = Metric::new("remap", "milliseconds", Better::Lower, TableKind::Multi);
        again.operations = vec!["remap".to_owned()];
        vec![times, share, lock, pages, again]
    }

    /// Runs one cell.
    pub(super) fn run(&self, cell: &Cell<'_>, host: HostKind) -> Result<Outcome, RunError> {
        match host {
            HostKind::Sim => sim::run(cell, self),
            HostKind::Native => native::run(cell, self),
        }
    }
}

/// A share of memory as pages.
fn pages_of(share: f64, managed: u64) -> u64 {
    ((share * managed as f64) as u64).max(1)
}

/// What the unmaps of one number of processes showed.
struct Unmapped {
    /// How many processes.
    processes: usize,
    /// By process.
    times: Vec<Vec<RoundTimes>>,
    /// The host can tell what was waited for the LRU lock.
    has_waits: bool,
}

/// Everything as samples.
fn samples(unmapped: &[Unmapped], after: &Aftermath) -> Vec<(String, f64)> {
    let mut samples = Vec::new();
    let mut push = |name: String, value: f64| samples.push((name, value));
    for set in unmapped {
        let n = set.processes;
        let (mut first, mut again, mut wait, mut unmaps) = (0, 0, 0, 0);
        for times in set.times.iter().flatten() {
            push(format!("first-{n}"), times.first_ns as f64 / 1e3);
            push(format!("again-{n}"), times.again_ns as f64 / 1e3);
            let more_ns = times.again_ns as f64 - times.first_ns as f64;
            push(format!("activate-{n}"), more_ns / 1e3);
            (first, again) = (first + times.first_ns, again + times.again_ns);
            (wait, unmaps) = (wait + times.lru_wait_ns, unmaps + 2);
        }
        // The first unmap only sets bits that are clear; what the second takes longer, it activates.
        let share = 100.0 * (1.0 - first as f64 / again.max(1) as f64);
        push(format!("share-{n}"), share);
        if set.has_waits {
            push(format!("wait-{n}"), wait as f64 / f64::from(unmaps.max(1)) / 1e3);
        }
    }
    push("activated".to_owned(), after.activated as f64);
    push("scanned".to_owned(), after.scanned as f64);
    push("refaulted".to_owned(), after.refaulted as f64);
    push("reactivated".to_owned(), after.reactivated as f64);
    push("major-faults".to_owned(), after.major_faults as f64);
    push("remap".to_owned(), after.again_ns as f64 / 1e6);
    samples
}

/// Counters of the whole cell.
fn difference(before: &Counters, after: &Counters) -> Counters {
    Counters::difference(before, after)
}
