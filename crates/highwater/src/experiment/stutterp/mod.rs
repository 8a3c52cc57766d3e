//! stutterp as an experiment's workload (study 001).
//!
//! A cell runs every step of the ladder, each on a freshly booted machine: the benchmark drops the
//! caches and makes a new file system between steps. Steps are units of work of their own, so that
//! one cell keeps several processors busy; their results are added up in the ladder's order.
//!
//! | file | holds |
//! |---|---|
//! | `sim` | one step on the simulated machine |
//! | `stalls` | the delays of throttled tasks, counted as they are traced |

mod sim;
mod stalls;

pub(crate) use stalls::{KSWAPD, context as stall_context};

use highwater_core::config::Tunables;
use highwater_core::page::PAGE_SIZE;
use highwater_results::{Better, Metric, TableKind};
use highwater_workloads::stutterp::{Sizes, Step};
use serde::Deserialize;

use super::file::{Bytes, HostKind};
use super::outcome::{Outcome, RunError};
use super::runner::Cell;

/// Rows of the study's table, in its order.
pub(crate) const ROWS: [&str; 4] = ["Amean", "Stddev", "Max-90", "Max"];
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
/// Why there are no native runs.
pub(crate) const NOT_NATIVE: &str =
    "stutterp takes minutes of a machine to itself; it runs in virtual time only";
/// Longest step or warm-up: ten hours.
const SECONDS_MAX: f64 = 36_000.0;

/// How many files each writer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilesPerWriter {
    /// As many as there are writers: what mmtests' job file says.
    AsConfigured,
    /// One: what the study's text says.
    AsDescribed,
}

/// Parameters.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StutterpSection {
    /// Numbers of workers; none: mmtests' ladder from 4 to four times the CPUs.
    #[serde(default)]
    pub ladder: Vec<u32>,
    /// How long the latency worker runs in each step.
    pub seconds: f64,
    /// How long the writers run before that.
    pub warm_up: f64,
    /// Readers: 0 or 1.
    pub readers: u32,
    /// Files of the reader.
    #[serde(default = "reader_files")]
    pub reader_files: u32,
    /// Files of each writer.
    pub files_per_writer: FilesPerWriter,
    /// Bytes of one write.
    pub block: Bytes,
    /// What sizes of files and mappings are rounded down to.
    pub grain: Bytes,
    /// What the latency worker maps, a fraction of memory.
    pub mapping: f64,
    /// How long it sleeps before each operation.
    pub pause_ms: f64,
    /// What the rest of the system holds for good, a fraction of memory: slab, stacks, daemons.
    #[serde(default)]
    pub resident: f64,
}

const fn reader_files() -> u32 {
    READER_FILES
}

/// What `--quick` and `--full` change.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct StutterpChange {
    ladder: Option<Vec<u32>>,
    seconds: Option<f64>,
    warm_up: Option<f64>,
    readers: Option<u32>,
    reader_files: Option<u32>,
    files_per_writer: Option<FilesPerWriter>,
    block: Option<Bytes>,
    grain: Option<Bytes>,
    mapping: Option<f64>,
    pause_ms: Option<f64>,
    resident: Option<f64>,
}

impl StutterpSection {
    /// The first field that cannot be, and why.
    pub(super) fn problem(
        &self,
        change: Option<&StutterpChange>,
    ) -> Option<(&'static str, &'static str)> {
        let mut section = self.clone();
        change.iter().for_each(|change| section.apply(change));
        section.own_problem()
    }

    fn own_problem(&self) -> Option<(&'static str, &'static str)> {
        // With fewer, a step would be the same as the next one.
        let workers = WORKERS_NEEDED + self.readers..=WORKERS_MAX;
        let time = |seconds: f64| (0.0..=SECONDS_MAX).contains(&seconds);
        let page = PAGE_SIZE as u64;
        if self.readers > 1 {
            Some(("readers", "must be 0 or 1"))
        } else if !self.ladder.iter().all(|n| workers.contains(n)) {
            Some(("ladder", "each number is at least 3, with a reader 4, and at most 4096"))
        } else if !self.ladder.is_sorted_by(|a, b| a < b) {
            Some(("ladder", "each number is larger than the one before"))
        } else if !time(self.seconds) || self.seconds == 0.0 {
            Some(("seconds", "must be above 0 and at most 36000"))
        } else if !time(self.warm_up) {
            Some(("warm-up", "must be between 0 and 36000 seconds"))
        } else if !(1..=READER_FILES_MAX).contains(&self.reader_files) {
            Some(("reader-files", "must be between 1 and 4096"))
        } else if self.block.0 < page || !self.block.0.is_multiple_of(page) {
            Some(("block", "must be a number of 4 KiB pages"))
        } else if self.grain.0 < page || !self.grain.0.is_multiple_of(page) {
            Some(("grain", "must be a number of 4 KiB pages"))
        } else if !(self.mapping > 0.0 && self.mapping <= 1.0) {
            Some(("mapping", "must be above 0 and at most 1"))
        } else if !(0.0..=10_000.0).contains(&self.pause_ms) {
            Some(("pause-ms", "must be between 0 and 10000"))
        } else if !(0.0..=0.5).contains(&self.resident) {
            Some(("resident", "must be between 0 and 0.5"))
        } else {
            None
        }
    }

    pub(super) fn apply(&mut self, change: &StutterpChange) {
        if let Some(ladder) = &change.ladder {
            self.ladder.clone_from(ladder);
        }
        self.seconds = change.seconds.unwrap_or(self.seconds);
        self.warm_up = change.warm_up.unwrap_or(self.warm_up);
        self.readers = change.readers.unwrap_or(self.readers);
        self.reader_files = change.reader_files.unwrap_or(self.reader_files);
        self.files_per_writer = change.files_per_writer.unwrap_or(self.files_per_writer);
        self.block = change.block.unwrap_or(self.block);
        self.grain = change.grain.unwrap_or(self.grain);
        self.mapping = change.mapping.unwrap_or(self.mapping);
        self.pause_ms = change.pause_ms.unwrap_or(self.pause_ms);
        self.resident = change.resident.unwrap_or(self.resident);
    }

    /// Numbers of workers on a machine.
    fn ladder(&self, nr_cpus: usize) -> Vec<u32> {
        if !self.ladder.is_empty() {
            return self.ladder.clone();
        }
        let last = u32::try_from(nr_cpus).unwrap_or(WORKERS_MAX).saturating_mul(WORKERS_PER_CPU);
        Step::ladder(WORKERS_MIN, last.clamp(WORKERS_MIN, WORKERS_MAX))
    }

    /// The step with so many workers on a machine of so many pages. The sizes of files and mappings
    /// follow from what of its memory may be dirty, as the benchmark asks its kernel.
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

    /// The tables to make of runs on machines of so many CPUs.
    pub(super) fn metrics(&self, nr_cpus: impl Iterator<Item = usize>) -> Vec<Metric> {
        let mut workers: Vec<u32> = nr_cpus.flat_map(|n| self.ladder(n)).collect();
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
        let latency = metric("stutterp", "milliseconds", lower, "mmap", 4);
        let sweeps = "times that a hog wrote all of its memory";
        let kernel = "CPU seconds of kernel threads and interrupts";
        vec![
            Metric { table: TableKind::VariableTime, ..latency },
            metric("sweeps", sweeps, higher, "sweeps", 1),
            metric("written", "MiB that writers wrote", higher, "written", 1),
            metric("kernel threads", kernel, lower, "kernel", 2),
        ]
    }

    /// How many units of work a cell is.
    pub(super) fn parts(&self, cell: &Cell<'_>) -> usize {
        self.ladder(cell.machine.machine.nr_cpus()).len()
    }

    /// Runs one step of a cell.
    pub(super) fn run(
        &self,
        cell: &Cell<'_>,
        host: HostKind,
        part: usize,
    ) -> Result<Outcome, RunError> {
        let ladder = self.ladder(cell.machine.machine.nr_cpus());
        let Some(&workers) = ladder.get(part) else { return Ok(Outcome::default()) };
        match host {
            HostKind::Sim => sim::run(cell, self, workers),
            HostKind::Native => Err(RunError::Native(NOT_NATIVE.to_owned())),
        }
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
