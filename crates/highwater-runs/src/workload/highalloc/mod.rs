//! stress-highalloc (study 004).
//!
//! A cell is one run of mmtests' script: three passes over memory, two of them while kernels are
//! built. Its samples give five metrics. They are the success rates that mmtests prints, the
//! results of the build (which judge a model of a build), requests served from other types' blocks,
//! and fragmentation of free memory at the ends of the phases. Times that mmtests takes from trace
//! events are counters of the run, under the names of their rows.
//!
//! | file | holds |
//! |---|---|
//! | `sim` | one run on the simulated machine: the script |
//! | `watch` | times and events, from trace events |
//! | `free` | fragmentation of free memory |

mod free;
mod sim;
mod watch;

use std::collections::BTreeMap;

use highwater_core::page_alloc::Gfp;
use highwater_results::{Better, Metric, Section, TableKind};
use highwater_workloads::highalloc::{RATE_MIB, Sizes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Outcome, RunError, Unit, Workload};
use crate::params;
use highwater_files::machine_file::MachineFile;

/// Rows of the study's table, in its order.
const ROWS: [&str; 3] = ["Min", "Mean", "Max"];
/// Passes.
const PASSES: usize = 3;
/// Longest wait: ten hours.
const SECONDS_MAX: f64 = 36_000.0;

/// How an attempt may get a block (rules/benchmarks#highalloc-pass).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Effort {
    /// Take a free block and wake kswapd.
    Nodirect,
    /// Reclaim and compact.
    Direct,
}

impl Effort {
    const fn gfp(self) -> Gfp {
        let most = match self {
            Effort::Nodirect => Gfp::GFP_NOWAIT,
            Effort::Direct => Gfp::GFP_KERNEL,
        };
        most.union(Gfp::HIGH).union(Gfp::COMP)
    }
}

params! {
    /// Parameters.
    pub struct HighallocParams {
        /// Effort of an attempt: `nodirect` (takes a free block and wakes kswapd) or `direct`
        /// (reclaims and compacts).
        effort: Effort = Effort::Nodirect;
        /// Seconds of each of the script's ten sleeps before the first pass, while all builds run;
        /// the script's are 30.
        wait: f64 = 3.0, |p| is_time(p.wait) => "must be between 0 and 36000 seconds";
        /// Seconds that the script sleeps after each of the first two passes.
        gap: f64 = 5.0, |p| is_time(p.gap) => "must be between 0 and 36000 seconds";
        /// Seconds that the script sleeps in addition before the builds are killed; the script's
        /// are 180.
        rest: f64 = 20.0, |p| is_time(p.rest) => "must be between 0 and 36000 seconds";
        /// Memory that a pass asks for, MiB a second.
        rate: u64 = RATE_MIB, |p| (1..=4096).contains(&p.rate) => "must be between 1 and 4096";
        /// Size of the system beside the benchmark, as a multiple of a server distribution on a
        /// machine of 4 GiB; in proportion on others. 0 = none.
        system: f64 = 1.0, |p| (0.0..=10.0).contains(&p.system) => "must be between 0 and 10";
        /// Seconds that a tree is built before the script begins, with a job for each CPU, while
        /// the system's programs get their memory.
        before: f64 = 20.0, |p| is_time(p.before) => "must be between 0 and 36000 seconds";
        /// Divisor of all times, including the programs' CPU time and the pace of a pass. The
        /// kernel's own times and the disk's do not change.
        compression: f64 = 1.0, |p| (1.0..=1000.0).contains(&p.compression)
            => "must be between 1 and 1000";
    }
}

fn is_time(seconds: f64) -> bool {
    (0.0..=SECONDS_MAX).contains(&seconds)
}

/// Success of allocating huge blocks while kernels are built, and at rest (study 004).
#[derive(Debug)]
pub struct Highalloc;

impl Workload for Highalloc {
    type Params = HighallocParams;

    const NAME: &'static str = "stress-highalloc";
    const ABOUT: &'static str =
        "success of allocating huge blocks while kernels are built, and at rest";
    const STUDY: Option<&'static str> = Some("004-kcompactd");
    const NOT_NATIVE: Option<&'static str> =
        Some("stress-highalloc fills a machine's memory; it runs in virtual time only");

    /// Builds take most of it; measured with 1 and 4 GiB.
    fn seconds(_: &HighallocParams, machine: &MachineFile, _: usize) -> Option<f64> {
        let gib = machine.machine.managed_pages() as f64 / f64::from(1 << 18);
        Some(5.0 * gib)
    }

    fn run(params: &HighallocParams, unit: &Unit<'_>) -> Result<Outcome, RunError> {
        sim::run(unit, params)
    }

    fn metrics(_: &HighallocParams, _: &[MachineFile]) -> Vec<Metric> {
        let (higher, lower) = (Better::Higher, Better::Lower);
        let success = Metric {
            operations: (1..=PASSES).map(success).collect(),
            about: "percent of the attempts of a pass; 1 and 2 beside builds, 3 at rest".to_owned(),
            whole: Some(100.0),
            ..Metric::new(Self::NAME, "percent of attempts", higher, TableKind::MinMeanMax)
        };
        let metric = |name, unit, better, operations: Vec<String>, about: &str| Metric {
            operations,
            decimals: 1,
            about: about.to_owned(),
            part_of: BTreeMap::new(),
            ..Metric::new(name, unit, better, TableKind::Single)
        };
        let of = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        vec![
            success,
            metric("build", "see each row", higher, of(&sim::BUILD), "what the builds came to"),
            metric(
                "extfrag",
                "requests served from blocks of another type",
                lower,
                watch::EXTFRAG.map(str::to_owned).to_vec(),
                "by the type that was asked for; those that took the whole pageblock",
            ),
            metric(
                free::UNUSABLE,
                "thousandths of free memory, all zones together",
                lower,
                free::operations(free::UNUSABLE),
                "free memory in blocks too small for the order, at the end of each phase",
            ),
            metric(
                free::INDEX,
                "thousandths, all zones together",
                lower,
                free::operations(free::INDEX),
                "-1000: there is such a block; else towards 0 for lack of memory, towards 1000 for lack of order",
            ),
        ]
    }

    /// The study's success rates beside our own; times; counters; fragmentation of free memory.
    fn sections(_: &HighallocParams, metrics: &[Metric]) -> Vec<Section> {
        let success = || Self::NAME.to_owned();
        let mut sections = vec![
            Section::Comparison {
                metric: success(),
                rows: ROWS.map(str::to_owned).to_vec(),
                style: String::new(),
            },
            Section::Published { metric: success() },
            Section::Evidence { metric: success() },
        ];
        for metric in metrics.iter().filter(|metric| metric.name != Self::NAME) {
            let metric = metric.name.clone();
            sections.push(match metric == free::UNUSABLE || metric == free::INDEX {
                true => Section::Orders { metric },
                false => Section::Comparison { metric, rows: Vec::new(), style: String::new() },
            });
        }
        sections.extend([Section::Duration, Section::Vmstat, Section::TraceTimes]);
        sections.push(Section::Headline { metric: success() });
        sections
    }
}

/// The operation of a pass, from 1.
fn success(pass: usize) -> String {
    format!("Success {pass}")
}

impl HighallocParams {
    /// Sizes on a machine with this many managed pages.
    fn sizes(&self, memory_pages: u64) -> Sizes {
        Sizes::new(memory_pages, self.rate)
    }

    /// A time of the script in nanoseconds.
    fn ns(&self, seconds: f64) -> u64 {
        (seconds * 1e9 / self.compression) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_attempts_may_do_is_the_studys() {
        let text = |effort: Effort| effort.gfp().to_string();
        assert_eq!(text(Effort::Nodirect), "GFP_NOWAIT|__GFP_HIGH|__GFP_COMP");
        assert_eq!(text(Effort::Direct), "GFP_KERNEL|__GFP_HIGH|__GFP_COMP");
    }

    #[test]
    fn one_factor_shortens_every_time() {
        let params = HighallocParams { compression: 4.0, ..HighallocParams::default() };
        assert_eq!(params.ns(30.0), 7_500_000_000);
        assert_eq!(params.ns(0.125), 31_250_000);
    }
}
