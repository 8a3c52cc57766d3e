//! Options of `bisect`.

use std::path::PathBuf;

use clap::Args;
use highwater_report::render::Format;

use super::{MachineArgs, SetArgs, formats, options, parse_seed, size};
use crate::plan::Options;

/// Seeds of each trial, unless somebody says how many.
const SEEDS: u32 = 5;
/// The same of a short version.
const SEEDS_QUICK: u32 = 3;

/// `highwater bisect`.
#[derive(Debug, Args)]
pub struct BisectArgs {
    /// The policy to start from
    #[arg(value_name = "A")]
    pub from: String,
    /// The policy to end with
    #[arg(value_name = "B")]
    pub to: String,
    /// What runs: a job or an experiment, by name or file
    #[arg(value_name = "JOB")]
    pub job: String,
    /// Whose change is explained: a figure of an operation (backend.update.p99.9, reader.rate), a share of time (memory.some),
    /// counters of /proc/vmstat (pgscan_direct+pgscan_kswapd, pgmajfault.rate), time.system
    #[arg(long, value_name = "NAME")]
    pub metric: String,
    /// Seeds of each trial; default: 5, or as many as the job has if these are more; 3 with --quick
    #[arg(long, value_name = "N", alias = "iterations", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub seeds: Option<u32>,
    /// A short version, for a first look
    #[arg(long)]
    pub quick: bool,
    /// The job's own sizes and times, where it is smaller otherwise
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// Seed of the first run: a number, or hexadecimal digits such as a commit hash
    #[arg(long, value_name = "S", value_parser = parse_seed)]
    pub seed: Option<u64>,
    /// Simulations at a time; default: one per processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    #[command(flatten)]
    /// The machine instead of the job's own.
    pub machine: MachineArgs,
    #[command(flatten)]
    /// Single keys.
    pub set: SetArgs,
    /// Also write the answer to this directory, and keep each finished run there at once
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write there even if that replaces results
    #[arg(long, requires = "out")]
    pub force: bool,
    /// Continue an interrupted command: finished runs that are kept in that directory are not run again
    #[arg(long, requires = "out")]
    pub resume: bool,
    /// Output format
    #[arg(long, default_value = "terminal", value_parser = formats())]
    pub format: Format,
}

impl BisectArgs {
    /// What the library makes of the two policies.
    pub fn options(&self) -> Options {
        Options {
            size: size(self.quick, self.full),
            machine: self.machine.options(),
            policies: vec![self.from.clone(), self.to.clone()],
            settings: self.set.set.clone(),
            iterations: self.seeds,
            jobs: self.jobs.map(usize::from),
            ..options(Options::compare(&self.job), self.seed)
        }
    }

    /// Seeds of each trial of an experiment with so many of its own.
    pub fn seeds_of(&self, own: u32) -> u32 {
        self.seeds.unwrap_or(if self.quick { SEEDS_QUICK } else { own.max(SEEDS) })
    }
}
