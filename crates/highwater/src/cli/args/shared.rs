//! Options that several commands have, each written once.

use std::path::PathBuf;

use clap::Args;

use super::{limit, parse_seed};
use crate::input::size::CPUS_MAX;
use crate::input::time::parse_time;
use crate::settings::Said;

/// How large an experiment is.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct SizeArgs {
    /// Run a short version, for a first look
    #[arg(long)]
    pub quick: bool,
    /// Run with the experiment's own sizes and times, where it is smaller by default
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
}

/// With which seed it begins.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct SeedArgs {
    /// Seed, of the first run if there are several: a number, or hexadecimal digits such as a
    /// commit hash
    #[arg(long, value_name = "S", value_parser = parse_seed)]
    pub seed: Option<u64>,
}

/// How many simulations run at a time.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct JobsArgs {
    /// Simulations at a time; default: one per CPU
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
}

/// Where results are kept.
#[derive(Clone, Debug, Default, Args)]
pub struct KeepArgs {
    /// Also write the results to this directory, and keep each finished run there at once
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write to the directory even if that replaces results
    #[arg(long, requires = "out")]
    pub force: bool,
    /// Continue an interrupted command: runs that the directory already holds are not repeated.
    /// Results are byte for byte those of an uninterrupted command
    #[arg(long, requires = "out")]
    pub resume: bool,
}

/// Samples over time.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct SampleArgs {
    /// Also write counters and free blocks to samples.csv in the directory of --out, every MS
    /// milliseconds of virtual time
    #[arg(long, value_name = "MS", requires = "out",
          value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    pub sample_every: Option<u64>,
}

/// The machine's own files.
#[derive(Clone, Debug, Default, Args)]
pub struct CgroupfsArgs {
    /// Also write the simulated machine's files of /proc and of cgroups to this directory, in the
    /// kernel's text, for tools that read Linux: DIR/proc and DIR/sys/fs/cgroup are the latest
    /// ones, and `run` keeps those of each time in DIR/000012.500s
    #[arg(long, value_name = "DIR")]
    pub cgroupfs: Option<PathBuf>,
    /// Virtual time from one state of these files to the next; default: 1s, for watch that of
    /// --every
    #[arg(long, value_name = "TIME", requires = "cgroupfs", value_parser = parse_interval)]
    pub cgroupfs_every: Option<u64>,
}

/// A time from one state to the next.
fn parse_interval(text: &str) -> Result<u64, String> {
    const LEAST_NS: u64 = 1000;
    match parse_time(text)? {
        ns if ns < LEAST_NS => Err(format!("\"{text}\" is too short: at least 1us, such as 100ms")),
        ns => Ok(ns),
    }
}

/// Where an experiment runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum HostArg {
    /// The simulated machine.
    #[default]
    Sim,
    /// This computer.
    Native,
}

/// When a comparison fails.
#[derive(Clone, Debug, Default, Args)]
pub struct FailArgs {
    /// Exit with status 1 if a mean is worse than the baseline's by more than this (5%) and the 95%
    /// interval of its change excludes 0. Needs at least two seeds (--iterations), better six.
    /// Differences and shares are measured against their wholes
    #[arg(long, value_name = "PERCENT", value_parser = limit, allow_negative_numbers = true)]
    pub fail_if_worse: Option<f64>,
}

/// Single keys of what runs.
#[derive(Clone, Debug, Default, Args)]
pub struct SetArgs {
    /// Set a key of the workload (stutterp.seconds=10, or job.task.0.count=3 of a job), the machine
    /// (machine.memory=2G, vm.swappiness=10) or the policies (policy.watermark.boost=false), for
    /// this run alone
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

impl SetArgs {
    /// The library's options.
    pub fn said(&self) -> Vec<Said> {
        self.set.iter().map(|text| Said::set(text.as_str())).collect()
    }
}

/// How to say which machine.
#[derive(Clone, Debug, Default, Args)]
pub struct MachineArgs {
    /// Machine: a name or a file
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = ["mem", "cpus", "numa"])]
    pub machine: Option<String>,
    /// One node of this much memory, such as 8G
    #[arg(long, value_name = "SIZE", conflicts_with = "numa")]
    pub mem: Option<String>,
    /// CPUs of that node
    #[arg(long, value_name = "N", conflicts_with = "numa",
          value_parser = clap::value_parser!(u16).range(1..=i64::from(CPUS_MAX)))]
    pub cpus: Option<u16>,
    /// A node: SIZE,cpus=FIRST-LAST (repeat it for each node; size 0: no memory)
    #[arg(long, value_name = "NODE")]
    pub numa: Vec<String>,
    /// Distance between two nodes: FROM,TO=DISTANCE
    #[arg(long, value_name = "DISTANCE")]
    pub numa_distance: Vec<String>,
    /// Disk for a machine that has none: nvme, ssd, hdd or ram
    #[arg(long, value_name = "MODEL")]
    pub disk: Option<String>,
    /// Swap of the machine, such as 2G; 0: no swap
    #[arg(long, value_name = "SIZE")]
    pub swap: Option<String>,
    /// Start with the free lists of this directory: zoneinfo, buddyinfo and pagetypeinfo, as
    /// `diagnose --state-out` writes them. All other memory is in use and stays so
    #[arg(long, value_name = "DIR")]
    pub state: Option<String>,
}
