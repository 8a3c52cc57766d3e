//! stutter (study 000).
//!
//! A cell is one run of mmtests' script. It copies a file twice as large as memory five times,
//! while one program holds most of memory and another measures how long it takes to map and touch
//! some. Its samples give three metrics: these latencies, the speed of the disk alone and during
//! the test, and the nodes on which pages were allocated, which are the study's subject.
//!
//! | file | holds |
//! |---|---|
//! | `sim` | one run on the simulated machine: the script |
//! | `places` | nodes that served requests, from trace events |

mod places;
mod sim;

use highwater_core::page::PAGE_SIZE;
use highwater_results::{Better, Metric, Section, TableKind};
use highwater_workloads::stutter::{Shares, Sizes};

use super::{Bytes, Outcome, RunError, Unit, Workload};
use crate::params;
use highwater_files::machine_file::MachineFile;

/// The latency worker's operation.
const MMAP: &str = "mmap";
/// The disk measurements.
const WRITE: &str = "write";
/// Its rows: the script's estimate, and each copy.
const WRITES: [&str; 2] = ["estimated", "parallel"];
/// Nodes on which pages were allocated.
const PLACES: &str = "places";
/// Longest wait: ten hours.
const SECONDS_MAX: f64 = 36_000.0;

params! {
    /// Parameters.
    pub struct StutterParams {
        /// Number of copies of the file.
        iterations: u32 = 5, |p| (1..=1000).contains(&p.iterations) => "must be between 1 and 1000";
        /// Memory that the hog uses, a fraction of memory.
        hog: f64 = 0.75, |p| is_share(p.hog, 1.0) => "must be above 0 and at most 1";
        /// Size of the file that is copied, a fraction of memory.
        file: f64 = 2.0, |p| is_share(p.file, 16.0) => "must be above 0 and at most 16";
        /// Amount that is written first to measure the disk's speed, a fraction of memory: 1 GiB of
        /// 16.
        calibrate: f64 = 0.0625, |p| is_share(p.calibrate, 1.0) => "must be above 0 and at most 1";
        /// Size of the latency worker's mapping, a fraction of memory: 128 MiB of 16 GiB.
        mapping: f64 = 0.007_812_5, |p| is_share(p.mapping, 1.0) => "must be above 0 and at most 1";
        /// Unit to which sizes are rounded down.
        grain: Bytes = Bytes(1 << 20), |p| is_pages(p.grain) => "must be a number of 4 KiB pages";
        /// Bytes of one read and of one write of the copier.
        block: Bytes = Bytes(2 << 20), |p| is_pages(p.block) => "must be a number of 4 KiB pages";
        /// Seconds that the hog runs before each copy: 10 on a machine of 16 GiB.
        wait: f64 = 1.25, |p| (0.0..=SECONDS_MAX).contains(&p.wait)
            => "must be between 0 and 36000 seconds";
        /// Milliseconds that the latency worker sleeps before each operation.
        pause_ms: f64 = 5.0, |p| (0.0..=10_000.0).contains(&p.pause_ms)
            => "must be between 0 and 10000";
    }
}

fn is_share(share: f64, most: f64) -> bool {
    share > 0.0 && share <= most
}

const fn is_pages(bytes: Bytes) -> bool {
    bytes.0 >= PAGE_SIZE as u64 && bytes.0.is_multiple_of(PAGE_SIZE as u64)
}

/// Latency of mapping memory while a large file is copied and a program holds most of memory (study 000).
#[derive(Debug)]
pub struct Stutter;

impl Workload for Stutter {
    type Params = StutterParams;

    const NAME: &'static str = "stutter";
    const ABOUT: &'static str =
        "latency of mapping memory while a large file is copied and most of memory is in use";
    const STUDY: Option<&'static str> = Some("000-zonelist-cache");
    const NOT_NATIVE: Option<&'static str> =
        Some("stutter takes minutes of a machine to itself; it runs in virtual time only");

    /// Copying takes most of it; measured with 1 and 2 GiB.
    fn seconds(params: &StutterParams, machine: &MachineFile, _: usize) -> Option<f64> {
        let gib = machine.machine.managed_pages() as f64 / f64::from(1 << 18);
        Some(gib * params.file * f64::from(params.iterations + 1) * SECONDS_PER_GIB)
    }

    fn run(params: &StutterParams, unit: &Unit<'_>) -> Result<Outcome, RunError> {
        sim::run(unit, params)
    }

    fn metrics(_: &StutterParams, _: &[MachineFile]) -> Vec<Metric> {
        let of = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let metric = |name, unit, better, table, operations: &[&str], about: &str| Metric {
            operations: of(operations),
            about: about.to_owned(),
            ..Metric::new(name, unit, better, table)
        };
        let (lower, higher) = (Better::Lower, Better::Higher);
        let latency = metric(
            Self::NAME,
            "milliseconds",
            lower,
            TableKind::VariableTime,
            &[MMAP],
            "mapping, touching and unmapping memory",
        );
        let write = metric(
            WRITE,
            "MiB a second",
            higher,
            TableKind::Multi,
            &WRITES,
            "what the disk takes alone, and what is copied beside the others",
        );
        let places = metric(
            PLACES,
            "requests",
            lower,
            TableKind::Single,
            &places::ROWS,
            "requests by the node that served them; of huge pages those of faults",
        );
        vec![
            Metric { decimals: 4, ..latency },
            Metric { decimals: 2, ..write },
            Metric { decimals: 0, ..places },
        ]
    }

    /// The latencies with all rows of the reports of 2015, beside the study's own, with verdict;
    /// nodes of allocations; counters.
    fn sections(_: &StutterParams, _: &[Metric]) -> Vec<Section> {
        let latency = || Self::NAME.to_owned();
        let comparison = |metric: &str| Section::Comparison {
            metric: metric.to_owned(),
            rows: Vec::new(),
            style: String::new(),
        };
        vec![
            Section::Comparison { metric: latency(), rows: Vec::new(), style: "2015".to_owned() },
            Section::Published { metric: latency() },
            Section::Evidence { metric: latency() },
            Section::Seeds { metric: latency() },
            Section::Largest { metric: latency() },
            comparison(WRITE),
            comparison(PLACES),
            Section::Claims,
            Section::Duration,
            Section::Vmstat,
            Section::Headline { metric: latency() },
        ]
    }
}

/// Seconds of a processor for each GiB that is copied, to half or double.
const SECONDS_PER_GIB: f64 = 1.0;

impl StutterParams {
    /// Sizes on a machine with this many managed pages.
    pub fn sizes(&self, memory_pages: u64) -> Sizes {
        let &StutterParams { hog, file, calibrate, mapping, grain, .. } = self;
        let shares = Shares { hog, file, calibrate, mapping };
        Sizes::new(memory_pages * PAGE_SIZE as u64, &shares, grain.0)
    }
}
