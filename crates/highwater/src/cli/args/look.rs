//! Options of the commands that look at one run, and of those about the command itself.

use std::path::PathBuf;

use clap::Args;
use highwater_report::render::Format;

use super::{MachineArgs, SetArgs, formats, options, parse_seed, size};
use crate::input::time::parse_time;
use crate::plan::Options;

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

impl OneRunArgs {
    /// As `compare` would run it under the experiment's policies; a name of a policy is looked for among them first.
    pub fn options(&self) -> Options {
        Options {
            size: size(self.quick, self.full),
            machine: self.machine.options(),
            settings: self.set.set.clone(),
            ..options(Options::compare(&self.what), self.seed)
        }
    }
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
    /// Around the slowest of this operation, as reports call it (reader.get); with --around-worst the N-th slowest of it
    #[arg(long, value_name = "TASK.OP", conflicts_with_all = ["from", "to"])]
    pub op: Option<String>,
    /// How much before and after it; default: 5ms
    #[arg(long, value_name = "TIME", conflicts_with_all = ["from", "to"], value_parser = parse_time)]
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

/// A share, percent.
fn percent(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let is_one = value.is_finite() && value >= 0.0;
    is_one.then_some(value).ok_or_else(|| "must be a number of percent, not below 0".to_owned())
}

/// `highwater fit`.
#[derive(Debug, Args)]
pub struct FitArgs {
    /// Job: a name that `list workloads` shows, or a file
    #[arg(value_name = "JOB")]
    pub job: String,
    /// An objective: an operation's figure (rate, p50, p90, p99, p99.9, max, minor, major, refaults-anon, refaults-file,
    /// hit-ratio, failed) and a bound, as reader.get.p99<5ms; a counter and a bound, as pswpout<1000; or a share of time
    /// and a bound, as memory.some<5 or memory.full<1. Several: all of them have to hold
    #[arg(long, value_name = "TASK.OP.FIGURE<BOUND", required = true)]
    pub slo: Vec<String>,
    /// Accept a value with which a task is killed for its memory or a map is refused, as long as every --slo holds
    #[arg(long)]
    pub allow_kills: bool,
    /// The key of --set of which the least is searched
    #[arg(long, value_name = "KEY", default_value = "machine.memory")]
    pub min: String,
    /// Where the search begins; of memory a sixteenth of the machine's, if nothing is said
    #[arg(long, value_name = "VALUE")]
    pub from: Option<String>,
    /// Where it ends; of memory four times the machine's
    #[arg(long, value_name = "VALUE")]
    pub to: Option<String>,
    /// How near, percent of the answer
    #[arg(long, value_name = "PERCENT", default_value_t = 0.25, value_parser = percent)]
    pub within: f64,
    /// Policy instead of the job's own
    #[arg(long, value_name = "NAME|FILE")]
    pub policy: Option<String>,
    /// A short version, for a first look
    #[arg(long)]
    pub quick: bool,
    /// The job's own sizes and times, where it is smaller otherwise
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// Seeds of each point
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub iterations: Option<u32>,
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
    /// Also write the points to this directory, and keep each finished run there at once
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write there even if that replaces results
    #[arg(long, requires = "out")]
    pub force: bool,
    /// Continue an interrupted command: finished runs that are kept in that directory are not run again. Results are byte for
    /// byte those of a command that was not interrupted
    #[arg(long, requires = "out")]
    pub resume: bool,
    /// Output format
    #[arg(long, default_value = "terminal", value_parser = formats())]
    pub format: Format,
}

impl FitArgs {
    /// What the library makes of them, with one setting more.
    pub fn options(&self, setting: Option<String>) -> Options {
        let mut settings = self.set.set.clone();
        settings.extend(setting);
        Options {
            size: size(self.quick, self.full),
            machine: self.machine.options(),
            policies: self.policy.iter().cloned().collect(),
            settings,
            iterations: self.iterations,
            jobs: self.jobs.map(usize::from),
            ..options(Options::compare(&self.job), self.seed)
        }
    }
}

/// `highwater capture`.
#[derive(Debug, Args)]
pub struct CaptureArgs {
    /// Processes; default: yours that use memory or CPU time, the largest dozen
    #[arg(long = "pid", value_name = "PID", value_delimiter = ',')]
    pub pids: Vec<u32>,
    /// Processes with this name (/proc/PID/comm), of any user
    #[arg(long = "comm", value_name = "NAME")]
    pub comms: Vec<String>,
    /// Processes in this control group or below it, as in /system.slice/redis.service
    #[arg(long = "cgroup", value_name = "PATH")]
    pub cgroups: Vec<String>,
    /// Measure for S seconds more which memory they touch (clears referenced bits); default: touches are guessed
    #[arg(long, value_name = "S", value_parser = working_set)]
    pub working_set: Option<f64>,
    /// How long to watch them; 0: averages since each began
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = seconds)]
    pub seconds: f64,
    /// Milliseconds between looks
    #[arg(long, value_name = "MS", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub every: u64,
    /// The job file to write
    #[arg(long, short, value_name = "FILE", default_value = "job.toml")]
    pub output: PathBuf,
    /// The machine file to write
    #[arg(long, value_name = "FILE", default_value = "machine.toml")]
    pub machine: PathBuf,
    /// The reference to write, for `check`
    #[arg(long, value_name = "FILE", default_value = "static.json")]
    pub reference: PathBuf,
    /// Read DIR/proc and DIR/sys, recorded somewhere else, instead of the running kernel's; nobody waits then
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Write even if that replaces files
    #[arg(long)]
    pub force: bool,
}

/// Seconds to wait: none, or up to a day.
fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let ok = (0.0..=86_400.0).contains(&value);
    ok.then_some(value).ok_or_else(|| "must be between 0 and 86400".to_owned())
}

/// Seconds in which touches are measured: a tenth of one, or up to a day.
fn working_set(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let ok = (0.1..=86_400.0).contains(&value);
    ok.then_some(value).ok_or_else(|| "must be between 0.1 and 86400".to_owned())
}
