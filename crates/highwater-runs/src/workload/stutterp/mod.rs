//! stutterp (study 001).
//!
//! A cell runs every step of the ladder, each on a freshly booted machine, because the benchmark
//! drops the caches and makes a new file system between steps. Each step is a unit of work, so one
//! cell keeps several processors busy. The results are put together in the ladder's order.
//!
//! | file | holds |
//! |---|---|
//! | `sim` | one step on the simulated machine |
//! | `stalls` | the delays of throttled tasks, from trace events |

mod sim;
mod stalls;

pub use sim::run_on;
pub use stalls::{KSWAPD, context as stall_context};

use highwater_core::config::Tunables;
use highwater_core::page::PAGE_SIZE;
use highwater_results::{Better, Metric, Section, TableKind};
use highwater_workloads::stutterp::{Sizes, Step};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bytes, Outcome, RunError, Unit, Workload};
use crate::params;
use highwater_files::machine_file::MachineFile;

/// Rows of the study's table, in its order.
const ROWS: [&str; 4] = ["Amean", "Stddev", "Max-90", "Max"];
/// First step of a ladder, as mmtests has it.
const WORKERS_MIN: u32 = 4;
/// The last one, by CPU.
const WORKERS_PER_CPU: u32 = 4;
/// Workers of the smallest step without a reader: a writer, a hog, the latency worker.
const WORKERS_NEEDED: u32 = 3;
/// Most workers of a step.
const WORKERS_MAX: u32 = 4096;
/// Files of the reader, as mmtests has it (rules/benchmarks#stutterp-reader).
const READER_FILES: u32 = 32;
/// Most of them.
const READER_FILES_MAX: u32 = 4096;
/// Longest step or warm-up: ten hours.
const SECONDS_MAX: f64 = 36_000.0;

/// How many files each writer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FilesPerWriter {
    /// As many as there are writers: what mmtests' job file says.
    AsConfigured,
    /// One: what the study's text says.
    AsDescribed,
}

params! {
    /// Parameters.
    pub struct StutterpParams {
        /// Numbers of workers; empty: mmtests' ladder from 4 to four times the CPUs.
        ladder: Vec<u32> = Vec::new(),
            // With fewer workers, a step would be the same as the next one.
            |p| p.ladder.iter().all(|n| (WORKERS_NEEDED + p.readers..=WORKERS_MAX).contains(n))
                => "each number is at least 3, with a reader 4, and at most 4096",
            |p| p.ladder.is_sorted_by(|a, b| a < b) => "each number is larger than the one before";
        /// Seconds that the latency worker runs in each step.
        seconds: f64 = 20.0, |p| p.seconds != 0.0 && is_time(p.seconds)
            => "must be above 0 and at most 36000";
        /// Seconds that the writers run before that.
        warm_up: f64 = 42.0, |p| is_time(p.warm_up) => "must be between 0 and 36000 seconds";
        /// Readers of files beside the writers.
        readers: u32 = 0, |p| p.readers <= 1 => "must be 0 or 1";
        /// Files of the reader.
        reader_files: u32 = READER_FILES, |p| (1..=READER_FILES_MAX).contains(&p.reader_files)
            => "must be between 1 and 4096";
        /// Files of each writer: `as-configured` (as many as there are writers, as in mmtests' job
        /// file) or `as-described` (one, as in the study's text).
        files_per_writer: FilesPerWriter = FilesPerWriter::AsConfigured;
        /// Bytes of one write.
        block: Bytes = Bytes(1 << 20), |p| is_pages(p.block) => "must be a number of 4 KiB pages";
        /// Unit to which sizes of files and mappings are rounded down.
        grain: Bytes = Bytes(1 << 20), |p| is_pages(p.grain) => "must be a number of 4 KiB pages";
        /// Size of the latency worker's mapping, a fraction of memory.
        mapping: f64 = 0.007_812_5, |p| p.mapping > 0.0 && p.mapping <= 1.0
            => "must be above 0 and at most 1";
        /// Milliseconds that the latency worker sleeps before each operation.
        pause_ms: f64 = 5.0, |p| (0.0..=10_000.0).contains(&p.pause_ms)
            => "must be between 0 and 10000";
        /// Memory that the rest of the system holds for good, a fraction of memory: slab, stacks,
        /// daemons.
        resident: f64 = 0.02, |p| (0.0..=0.5).contains(&p.resident) => "must be between 0 and 0.5";
    }
}

fn is_time(seconds: f64) -> bool {
    (0.0..=SECONDS_MAX).contains(&seconds)
}

const fn is_pages(bytes: Bytes) -> bool {
    bytes.0 >= PAGE_SIZE as u64 && bytes.0.is_multiple_of(PAGE_SIZE as u64)
}

/// Latency of mapping memory while writers fill the page cache and hogs the rest (study 001).
#[derive(Debug)]
pub struct Stutterp;

impl Workload for Stutterp {
    type Params = StutterpParams;

    const NAME: &'static str = "stutterp";
    const ABOUT: &'static str =
        "latency of mapping memory while writers fill the page cache and hogs the rest";
    const STUDY: Option<&'static str> = Some("001-reclaim-throttle");
    const NOT_NATIVE: Option<&'static str> =
        Some("stutterp takes minutes of a machine to itself; it runs in virtual time only");
    const COUNTS_DELAYS: bool = true;

    /// Steps.
    fn units(params: &StutterpParams, machine: &MachineFile) -> usize {
        params.ladder_on(machine.machine.nr_cpus()).len()
    }

    fn part_name(params: &StutterpParams, machine: &MachineFile, part: usize) -> String {
        let ladder = params.ladder_on(machine.machine.nr_cpus());
        ladder.get(part).map_or_else(String::new, |&workers| sim::operation(workers))
    }

    /// Workers keep reclaim busy, and larger memory has more of them; measured with 256 MiB and 1
    /// GiB.
    fn seconds(params: &StutterpParams, machine: &MachineFile, part: usize) -> Option<f64> {
        let workers = *params.ladder_on(machine.machine.nr_cpus()).get(part)?;
        let gib = machine.machine.managed_pages() as f64 / f64::from(1 << 18);
        let per_second = 0.03 + 0.018 * f64::from(workers);
        Some((params.seconds + params.warm_up) * per_second * gib.sqrt())
    }

    /// Runs one step of a cell.
    fn run(params: &StutterpParams, unit: &Unit<'_>) -> Result<Outcome, RunError> {
        match params.ladder_on(unit.machine.machine.nr_cpus()).get(unit.part) {
            Some(&workers) => sim::run(unit, params, workers),
            None => Ok(Outcome::default()),
        }
    }

    fn metrics(params: &StutterpParams, machines: &[MachineFile]) -> Vec<Metric> {
        let on = |machine: &MachineFile| params.ladder_on(machine.machine.nr_cpus());
        let mut workers: Vec<u32> = machines.iter().flat_map(on).collect();
        workers.sort_unstable();
        workers.dedup();
        let of_each =
            |stem: &str| -> Vec<String> { workers.iter().map(|n| format!("{stem}-{n}")).collect() };
        let metric = |name, unit, better, stem, decimals| {
            let mut metric = Metric::new(name, unit, better, TableKind::Single);
            metric.operations = of_each(stem);
            metric.decimals = decimals;
            metric
        };
        let (lower, higher) = (Better::Lower, Better::Higher);
        let latency = metric(Self::NAME, "milliseconds", lower, "mmap", 4);
        let sweeps = "times that a hog wrote all of its memory";
        let kernel = "CPU seconds of kernel threads and interrupts";
        let about = |metric: Metric, about: &str| Metric { about: about.to_owned(), ..metric };
        let written = metric("written", "MiB that writers wrote", higher, "written", 1);
        vec![
            about(
                Metric { table: TableKind::VariableTime, ..latency },
                "mmap-N: mapping and touching memory beside N workers",
            ),
            about(metric("sweeps", sweeps, higher, "sweeps", 1), sweeps),
            about(written, "MiB that writers wrote"),
            metric("kernel threads", kernel, lower, "kernel", 2),
        ]
    }

    /// The latencies in the study's form, beside the study's own, with verdict; the work done
    /// meanwhile; reclaim's counters and delays.
    fn sections(_: &StutterpParams, metrics: &[Metric]) -> Vec<Section> {
        let latency = || Self::NAME.to_owned();
        let mut sections = vec![
            Section::Comparison {
                metric: latency(),
                rows: ROWS.map(str::to_owned).to_vec(),
                style: String::new(),
            },
            Section::Published { metric: latency() },
            Section::Evidence { metric: latency() },
            Section::Seeds { metric: latency() },
            Section::Largest { metric: latency() },
        ];
        let others = metrics.iter().filter(|metric| metric.name != Self::NAME);
        let comparison = |m: &Metric| Section::Comparison {
            metric: m.name.clone(),
            rows: Vec::new(),
            style: String::new(),
        };
        sections.extend(others.map(comparison));
        sections.extend([Section::Claims, Section::Duration, Section::Totals]);
        sections.extend([Section::Vmstat, Section::Stalls]);
        sections.push(Section::Headline { metric: latency() });
        sections
    }
}

impl StutterpParams {
    /// Numbers of workers on a machine.
    fn ladder_on(&self, nr_cpus: usize) -> Vec<u32> {
        if !self.ladder.is_empty() {
            return self.ladder.clone();
        }
        let last = u32::try_from(nr_cpus).unwrap_or(WORKERS_MAX).saturating_mul(WORKERS_PER_CPU);
        Step::ladder(WORKERS_MIN, last.clamp(WORKERS_MIN, WORKERS_MAX))
    }

    /// The step with this many workers on a machine with this many pages. The sizes of files and
    /// mappings follow from the dirty limits of its memory, as in the benchmark.
    fn step(&self, workers: u32, memory_pages: u64, tunables: &Tunables) -> Step {
        let bytes = memory_pages * PAGE_SIZE as u64;
        let sizes = Sizes::with_grain(bytes, dirty_percent(tunables, bytes), self.grain.0);
        Step::new(workers, self.readers, sizes)
    }

    /// Pages that the latency worker maps.
    fn mapping_pages(&self, memory_pages: u64) -> u32 {
        let pages = (self.mapping * memory_pages as f64) as u64;
        u32::try_from(pages).unwrap_or(u32::MAX).max(1)
    }
}

/// Percent of memory that may be dirty.
fn dirty_percent(tunables: &Tunables, memory_bytes: u64) -> u64 {
    match tunables.dirty_bytes {
        0 => tunables.dirty_ratio,
        bytes => (u128::from(bytes) * 100 / u128::from(memory_bytes.max(1))).min(100) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_dirty_is_the_kernels_to_say() {
        let tunables =
            |dirty_ratio, dirty_bytes| Tunables { dirty_ratio, dirty_bytes, ..Tunables::default() };
        assert_eq!(dirty_percent(&Tunables::default(), 8 << 30), 20);
        assert_eq!(dirty_percent(&tunables(40, 0), 8 << 30), 40);
        // Bytes make the kernel forget the ratio.
        assert_eq!(dirty_percent(&tunables(40, 1 << 30), 8 << 30), 12);
        assert_eq!(dirty_percent(&tunables(40, 16 << 30), 8 << 30), 100);
    }
}
