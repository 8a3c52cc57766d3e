//! Options of the commands that look at one run, and of those about the command itself.

use std::path::PathBuf;

use clap::Args;

use super::{MachineArgs, SetArgs, parse_seed};
use crate::input::time::parse_time;

/// One run of an experiment.
#[derive(Clone, Debug, Args)]
pub struct OneRunArgs {
    /// Experiment (a name, its number alone, or a file), or a directory that `compare --out` or `run --out` wrote: then the
    /// run with the slowest operation
    #[arg(value_name = "EXPERIMENT|DIR")]
    pub what: String,
    /// Which policy, by name, heading or file; default: the first
    #[arg(long, value_name = "NAME|FILE")]
    pub policy: Option<String>,
    #[command(flatten)]
    /// Which machine.
    pub machine: MachineArgs,
    /// Which step of the run, as reports call it (mmap-4); default: the one with the slowest operation, to watch the last
    #[arg(long, value_name = "NAME")]
    pub step: Option<String>,
    /// A short version, for a first look
    #[arg(long)]
    pub quick: bool,
    /// The study's own sizes and times, where the experiment is smaller otherwise
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// Seed: a number, or hexadecimal digits such as a commit hash
    #[arg(long, value_name = "S", value_parser = parse_seed)]
    pub seed: Option<u64>,
    #[command(flatten)]
    /// Single keys.
    pub set: SetArgs,
}

/// `highwater trace`.
#[derive(Debug, Args)]
pub struct TraceArgs {
    #[command(flatten)]
    /// Which run.
    pub run: OneRunArgs,
    /// The file to write
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Perfetto's protobuf, or ftrace's text
    #[arg(long, value_enum, default_value = "perfetto")]
    pub format: TraceFormat,
    /// Only the time around the N-th slowest operation
    #[arg(long, value_name = "N", conflicts_with_all = ["from", "to"],
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub around_worst: Option<usize>,
    /// How much before and after it; default: 5ms
    #[arg(long, value_name = "TIME", requires = "around_worst", value_parser = parse_time)]
    pub margin: Option<u64>,
    /// Only from this virtual time on: 1.5s, 200ms, 300us
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub from: Option<u64>,
    /// Only up to this virtual time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub to: Option<u64>,
    /// Tracepoints of these systems (kmem, vmscan, writeback, compaction), all, or none; default: all in ftrace's text,
    /// all but kmem in Perfetto's
    #[arg(long, value_name = "SYSTEMS", value_delimiter = ',')]
    pub events: Vec<String>,
}

/// `highwater watch`.
#[derive(Debug, Args)]
pub struct WatchArgs {
    #[command(flatten)]
    /// Which run.
    pub run: OneRunArgs,
    /// Virtual time from one look to the next
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = parse_time)]
    pub every: u64,
    /// Seconds of virtual time for one of real time; as fast as it can unless told
    #[arg(long, value_name = "X", value_parser = speed)]
    pub speed: Option<f64>,
    /// Print what it looks like at this virtual time, and end
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub at: Option<u64>,
}

/// What a recording is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TraceFormat {
    /// Perfetto's protobuf.
    Perfetto,
    /// ftrace's text.
    Ftrace,
}

/// `highwater man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write highwater.1 and a page for each subcommand to this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// `highwater completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Times as fast.
fn speed(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let is_one = value.is_finite() && value > 0.0;
    is_one.then_some(value).ok_or_else(|| "must be above 0".to_owned())
}
