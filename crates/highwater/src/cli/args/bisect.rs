//! Options of `bisect`.

use std::path::PathBuf;

use clap::Args;
use highwater_report::render::Format;

use super::{MachineArgs, SetArgs, formats, options, parse_seed, size};
use crate::plan::{BisectOptions, Options};

/// `highwater bisect`.
#[derive(Debug, Args)]
pub struct BisectArgs {
    /// Policy to start from
    #[arg(value_name = "A")]
    pub from: String,
    /// Policy to end with
    #[arg(value_name = "B")]
    pub to: String,
    /// Job or experiment to run, by name or file
    #[arg(value_name = "JOB")]
    pub job: String,
    /// Figure whose change is explained: of an operation (backend.update.p99.9, reader.rate), a
    /// share of time (memory.some), counters of /proc/vmstat (pgscan_direct+pgscan_kswapd,
    /// pgmajfault.rate), or time.system
    #[arg(long, value_name = "NAME")]
    pub metric: String,
    /// Seeds of each trial; default: 5, or the job's number if it is larger; 3 with --quick
    #[arg(long, value_name = "N", alias = "iterations", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub seeds: Option<u32>,
    /// Run a short version, for a first look
    #[arg(long)]
    pub quick: bool,
    /// Run with the job's own sizes and times, where it is smaller by default
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// Seed of the first run: a number, or hexadecimal digits such as a commit hash
    #[arg(long, value_name = "S", value_parser = parse_seed)]
    pub seed: Option<u64>,
    /// Simulations at a time; default: one per CPU
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
    /// Write to the directory even if that replaces results
    #[arg(long, requires = "out")]
    pub force: bool,
    /// Continue an interrupted command: runs that the directory already holds are not repeated
    #[arg(long, requires = "out")]
    pub resume: bool,
    /// Output format
    #[arg(long, default_value = "terminal", value_parser = formats())]
    pub format: Format,
}

impl BisectArgs {
    /// The library's options.
    pub fn options(&self) -> BisectOptions {
        let new = BisectOptions::new(&self.from, &self.to, &self.job, &self.metric);
        let options = Options {
            size: size(self.quick, self.full),
            machine: self.machine.options(),
            settings: self.set.said(),
            iterations: self.seeds,
            jobs: self.jobs.map(usize::from),
            ..options(new.options.clone(), self.seed)
        };
        BisectOptions { options, ..new }
    }
}
