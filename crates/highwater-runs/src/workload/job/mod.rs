//! Jobs: workloads that a user writes as a file, without Rust. Phases describe the work of a task
//! ([`file`](JobPhase)). Names are resolved when the file is read (`plan`). Tasks run on the
//! simulated machine (`sim`) as [`highwater_workloads::jobs`] defines them.
//!
//! | metric | of each operation that a phase names |
//! |---|---|
//! | operations a second | from the start of the first to the end of the last |
//! | latency | percentiles in microseconds, and the maximum; in an open loop from the time of arrival |
//! | faults | minor and major faults; refaults |
//! | found | the share of read or touched pages that was in memory |
//!
//! For the machine: the share of time in which tasks waited for CPUs, memory and devices, as in
//! `/proc/pressure`. Over time: the memory of each task (`memory`). Of each memory cgroup its
//! memory, events and pressure, also over time (`group_figures`).

mod disks;
mod failed;
mod figures;
mod file;
mod group;
mod group_figures;
mod group_settings;
mod idle;
mod memory;
mod names;
pub mod plan;
mod sim;
pub mod steps;
mod stuck;
mod text;

use highwater_core::config::KernelVersion;
use highwater_core::vmstat::since;
use highwater_report::report::usual_sections;
use highwater_results::{Better, Metric, Section, TableKind};
use highwater_sim::pressure::{self, Resource};

pub use file::FLAGS;
pub use file::{AdviceName, Do, GfpName, JobDisk, JobFile, JobParams, JobPhase, JobTask};
pub use group::{JobGroup, MountOption};
pub use group_settings::{GroupVersion, SettingName};
pub(crate) use memory::columns_of as task_columns;
pub use text::{Amount, PatternText, SpacingText};

use super::{Outcome, RunError, Unit, Workload};
use highwater_files::machine_file::MachineFile;

/// The workload of job files.
#[derive(Debug)]
pub struct Job;

/// Reported percentiles, and their names.
const PERCENTILES: [(f64, &str); 4] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")];
/// The table of latencies.
const LATENCIES: &str = "latency";
/// The table of faults.
const FAULTS: &str = "faults";
/// Operations a second.
pub const RATE: &str = "rate";
/// The longest.
const LONGEST: &str = "max";
/// Minor faults, and major faults, which wait for a device.
const FAULT_KINDS: [&str; 2] = ["minor", "major"];
/// Refaults: of anonymous pages (counted from 5.9 on), and of file pages.
const REFAULTS: [(&str, &str); 2] =
    [("refaults-anon", "workingset_refault_anon"), ("refaults-file", "workingset_refault_file")];
/// The table of pages found, and their share.
pub const HITS: &str = "hit-ratio";
/// An operation with a latency below this, in microseconds, asked nothing of the kernel.
const SMALL_US: f64 = 1.0;
/// Allocations of blocks that failed.
const FAILED: &str = "failed";
/// The table of these allocations.
const ALLOCATIONS: &str = "allocations";
/// The table of writes to `memory.reclaim`.
const RECLAIMED: &str = "not reclaimed";
/// The table of pressure.
const PRESSURE: &str = "pressure";
/// `some`: at least one task waited; `full`: all tasks with work did.
const PRESSURE_LINES: [&str; 2] = ["some", "full"];

/// Metrics of an operation, of a resource, and of a group.
const FIGURES_OF: &[&[&str]] = &[
    &[RATE, PERCENTILES[0].1, PERCENTILES[1].1, PERCENTILES[2].1, PERCENTILES[3].1, LONGEST],
    &FAULT_KINDS,
    &[REFAULTS[0].0, REFAULTS[1].0, HITS, FAILED],
    &PRESSURE_LINES,
    &group_figures::MEMORY,
    &group_figures::EVENTS,
    &group_figures::PRESSURE,
    &group_figures::STALLS,
];
/// All of them.
pub const FIGURES: [&str; nr_figures()] = {
    let (mut all, mut nr, mut of) = ([""; nr_figures()], 0, 0);
    while of < FIGURES_OF.len() {
        let mut at = 0;
        while at < FIGURES_OF[of].len() {
            all[nr] = FIGURES_OF[of][at];
            (at, nr) = (at + 1, nr + 1);
        }
        of += 1;
    }
    all
};
/// Figures of groups that are times in microseconds.
pub const GROUP_TIMES: [&str; 3] = group_figures::STALLS;

const fn nr_figures() -> usize {
    let (mut nr, mut of) = (0, 0);
    while of < FIGURES_OF.len() {
        nr += FIGURES_OF[of].len();
        of += 1;
    }
    nr
}

impl Workload for Job {
    type Params = JobParams;

    const NAME: &'static str = "job";
    const ABOUT: &'static str = "tasks of your own, as a job file describes them";
    const COUNTS_DELAYS: bool = true;
    const NOT_NATIVE: Option<&'static str> = Some("jobs run in virtual time only");

    fn cpus_needed(params: &JobParams) -> usize {
        let cpus = params.task.iter().filter_map(|task| task.cpu);
        cpus.max().map_or(1, |cpu| usize::from(cpu) + 1)
    }

    fn virtual_seconds(params: &JobParams, _: &MachineFile, _: usize) -> Option<f64> {
        Some(params.seconds)
    }

    fn run(params: &JobParams, unit: &Unit<'_>) -> Result<Outcome, RunError> {
        sim::run(params, unit)
    }

    fn metrics(params: &JobParams, _: &[MachineFile]) -> Vec<Metric> {
        let (_, operations) = plan::tasks(params, 1);
        let of = |name: &str, unit: &str, better, ends: &[&str]| {
            let mut metric = Metric::new(name, unit, better, TableKind::Single);
            let has = |op: &&plan::Operation, end: &str| match end {
                FAILED if name == RECLAIMED => op.has_shortfalls,
                FAILED => op.has_failures,
                HITS => op.has_hits,
                _ if REFAULTS.iter().any(|(refaults, _)| *refaults == end) => op.has_refaults,
                _ => name != FAULTS || op.has_faults,
            };
            let ends_of = |op| ends.iter().filter(move |end| has(&op, end));
            let names =
                operations.iter().flat_map(|op| ends_of(op).map(|end| named(&op.name, end)));
            metric.operations = names.collect();
            metric.small = (better == Better::Lower).then_some(SMALL_US);
            metric
        };
        let latencies: Vec<&str> =
            PERCENTILES.iter().map(|(_, name)| *name).chain([LONGEST]).collect();
        let mut metrics = vec![
            of("throughput", "operations/s", Better::Higher, &[RATE]),
            of(LATENCIES, "microseconds", Better::Lower, &latencies),
            of(
                FAULTS,
                "pages",
                Better::Neither,
                &[FAULT_KINDS[0], FAULT_KINDS[1], REFAULTS[0].0, REFAULTS[1].0],
            ),
            Metric {
                about: "of the pages that an operation read or touched, those that were in memory"
                    .to_owned(),
                whole: Some(100.0),
                ..of("found", "percent of the pages asked for", Better::Higher, &[HITS])
            },
            of(ALLOCATIONS, "blocks", Better::Lower, &[FAILED]),
            Metric {
                about: "what memory.reclaim got less than was asked for".to_owned(),
                ..of(RECLAIMED, "pages", Better::Lower, &[FAILED])
            },
            pressure_metric(),
            counters_of_steps(params),
        ];
        metrics.extend(group_figures::metrics(params));
        // A table without operations would show all of them.
        metrics.retain(|metric| !metric.operations.is_empty());
        metrics
    }

    fn sections(_: &JobParams, metrics: &[Metric]) -> Vec<Section> {
        let mut sections = usual_sections(metrics);
        let is_latency = |section: &Section| matches!(section, Section::Comparison { metric, .. } if metric == LATENCIES);
        if let Some(at) = sections.iter().position(is_latency) {
            sections.insert(at + 1, Section::Latencies);
        }
        sections
    }

    fn operations(params: &JobParams) -> Vec<String> {
        plan::tasks(params, 1).1.into_iter().map(|operation| operation.name).collect()
    }

    fn not_booked(params: &JobParams, operation: &str) -> Option<String> {
        plan::not_booked(params, operation)
    }

    fn not_counted(params: &JobParams, kernel: KernelVersion) -> Vec<(String, KernelVersion)> {
        let lacking = |key: &str| -> Option<KernelVersion> {
            let newest = key.split('+').filter_map(since).max();
            newest.filter(|&newest| newest > kernel)
        };
        let mut all = Vec::new();
        for op in plan::tasks(params, 1).1.iter().filter(|op| op.has_refaults) {
            for (figure, counter) in REFAULTS {
                all.extend(lacking(counter).map(|since| (named(&op.name, figure), since)));
            }
        }
        if kernel < pressure::SINCE {
            let of_groups = group_figures::of_pressure(params);
            let lines = pressure_metric().operations.into_iter().chain(of_groups);
            all.extend(lines.map(|line| (line, pressure::SINCE)));
        }
        for step in plan::steps(params) {
            for counter in steps::COUNTERS {
                all.extend(lacking(counter).map(|since| (named(&step, counter), since)));
            }
        }
        all
    }
}

/// Counters, step by step.
fn counters_of_steps(params: &JobParams) -> Metric {
    let mut metric = Metric::new("steps", "events", Better::Neither, TableKind::Single);
    let counters = |step: &String| {
        let step = step.clone();
        steps::COUNTERS.iter().map(move |counter| named(&step, counter))
    };
    metric.operations = plan::steps(params).iter().flat_map(counters).collect();
    metric.decimals = 0;
    metric.skips_zeros = true;
    metric
}

/// Shares of the time of a run.
fn pressure_metric() -> Metric {
    let mut metric = Metric::new(PRESSURE, "percent of the time", Better::Lower, TableKind::Single);
    let lines = Resource::ALL.into_iter().flat_map(|resource| {
        // Of CPUs a machine's "full" is not defined.
        let lines = &PRESSURE_LINES[..if resource == Resource::Cpu { 1 } else { 2 }];
        lines.iter().map(move |line| named(resource.name(), line))
    });
    metric.operations = lines.collect();
    metric.whole = Some(100.0);
    metric
}

/// An operation's figure: `reader.get p99`.
fn named(operation: &str, figure: &str) -> String {
    format!("{operation} {figure}")
}
