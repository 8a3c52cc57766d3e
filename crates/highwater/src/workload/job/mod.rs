//! Jobs: workloads that a user writes as a file, without Rust. What a task does is told in phases ([`file`](JobPhase)),
//! names are resolved when the file is read (`plan`), tasks run on the simulated machine (`sim`), as
//! [`highwater_workloads::jobs`] has them.
//!
//! | what is measured | of each operation that a phase names |
//! |---|---|
//! | operations a second | from the first one's beginning to the last one's end |
//! | latency | percentiles in microseconds, and the longest; of an open loop from the moment of arrival |
//! | faults | those that did without a device, those that waited for one |

mod file;
mod plan;
mod sim;
#[cfg(test)]
mod tests;

use highwater_results::{Better, Metric, TableKind};

pub use file::{
    AdviceName, Amount, Do, JobFile, JobParams, JobPhase, JobTask, PatternText, SpacingText,
};

use super::{Outcome, RunError, Unit, Workload};
use crate::machine_file::MachineFile;

/// The workload of job files.
#[derive(Debug)]
pub struct Job;

/// Percentiles that are told, and what they are called.
const PERCENTILES: [(f64, &str); 4] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")];
/// The table of faults.
const FAULTS: &str = "faults";
/// Operations a second.
const RATE: &str = "rate";
/// The longest.
const LONGEST: &str = "max";
/// Faults without a device, and those that waited for one.
const FAULT_KINDS: [&str; 2] = ["minor", "major"];

/// What is told of an operation.
pub const FIGURES: [&str; 8] = [
    RATE,
    PERCENTILES[0].1,
    PERCENTILES[1].1,
    PERCENTILES[2].1,
    PERCENTILES[3].1,
    LONGEST,
    FAULT_KINDS[0],
    FAULT_KINDS[1],
];

impl Workload for Job {
    type Params = JobParams;

    const NAME: &'static str = "job";
    const ABOUT: &'static str = "tasks of your own, as a job file describes them";
    const NOT_NATIVE: Option<&'static str> = Some("jobs run in virtual time only");

    fn cpus_needed(params: &JobParams) -> usize {
        let cpus = params.task.iter().filter_map(|task| task.cpu);
        cpus.max().map_or(1, |cpu| usize::from(cpu) + 1)
    }

    fn run(params: &JobParams, unit: &Unit<'_>) -> Result<Outcome, RunError> {
        sim::run(params, unit)
    }

    fn metrics(params: &JobParams, _: &[MachineFile]) -> Vec<Metric> {
        let (_, operations) = plan::tasks(params, 1);
        let of = |name: &str, unit: &str, better, ends: &[&str]| {
            let mut metric = Metric::new(name, unit, better, TableKind::Single);
            let told = operations.iter().filter(|op| name != FAULTS || op.has_faults);
            let names = told.flat_map(|op| ends.iter().map(|end| named(&op.name, end)));
            metric.operations = names.collect();
            metric
        };
        let latencies: Vec<&str> =
            PERCENTILES.iter().map(|(_, name)| *name).chain([LONGEST]).collect();
        let mut metrics = vec![
            of("throughput", "operations/s", Better::Higher, &[RATE]),
            of("latency", "microseconds", Better::Lower, &latencies),
            of(FAULTS, "faults", Better::Lower, &FAULT_KINDS),
        ];
        // Without operations of its own a table would be of all.
        metrics.retain(|metric| !metric.operations.is_empty());
        metrics
    }
}

/// An operation's figure: `reader.get p99`.
fn named(operation: &str, figure: &str) -> String {
    format!("{operation} {figure}")
}
