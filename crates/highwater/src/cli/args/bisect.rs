//! Options of `bisect`.

use clap::Args;
use highwater_report::render::Format;

use super::formats;
use super::options::options;
use super::shared::{JobsArgs, KeepArgs, MachineArgs, SeedArgs, SetArgs, SizeArgs};
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
    #[command(flatten)]
    /// How large it is.
    pub size: SizeArgs,
    #[command(flatten)]
    /// Which seed.
    pub seed: SeedArgs,
    #[command(flatten)]
    /// How many at a time.
    pub jobs: JobsArgs,
    #[command(flatten)]
    /// The machine instead of the job's own.
    pub machine: MachineArgs,
    #[command(flatten)]
    /// Single keys.
    pub set: SetArgs,
    #[command(flatten)]
    /// Where results are kept.
    pub keep: KeepArgs,
    /// Output format
    #[arg(long, default_value = "terminal", value_parser = formats())]
    pub format: Format,
}

impl BisectArgs {
    /// The library's options.
    pub fn options(&self) -> BisectOptions {
        let new = BisectOptions::new(&self.from, &self.to, &self.job, &self.metric);
        let options = Options {
            size: self.size.said(),
            machine: self.machine.options(),
            settings: self.set.said(),
            iterations: self.seeds,
            jobs: self.jobs.said(),
            ..options(new.options.clone(), self.seed.seed)
        };
        BisectOptions { options, ..new }
    }
}
