//! Options of the commands that look at one run, and of those about the command itself.

use std::path::PathBuf;

use clap::Args;
use highwater_report::render::Format;

use super::formats;
use super::options::options;
use super::shared::{CgroupfsArgs, JobsArgs, KeepArgs, MachineArgs, SeedArgs, SetArgs, SizeArgs};
use crate::input::time::parse_time;
use crate::plan::{FitOptions, OneRunOptions, Options};

/// One run of an experiment.
#[derive(Clone, Debug, Args)]
pub struct OneRunArgs {
    /// Experiment (a name, its number alone, or a file), or a directory that `compare --out` or
    /// `run --out` wrote: then the run with the slowest operation
    #[arg(value_name = "EXPERIMENT|DIR")]
    pub what: String,
    /// Policy, by name, heading or file; default: the first
    #[arg(long, value_name = "NAME|FILE")]
    pub policy: Option<String>,
    #[command(flatten)]
    /// Which machine.
    pub machine: MachineArgs,
    /// Step of the run, by its name in reports (mmap-4); default: the step with the slowest
    /// operation, for watch the last step
    #[arg(long, value_name = "NAME")]
    pub step: Option<String>,
    #[command(flatten)]
    /// How large it is.
    pub size: SizeArgs,
    #[command(flatten)]
    /// Which seed.
    pub seed: SeedArgs,
    #[command(flatten)]
    /// Single keys.
    pub set: SetArgs,
}

impl OneRunArgs {
    /// The library's options.
    pub fn options(&self) -> OneRunOptions {
        let options = Options {
            size: self.size.said(),
            machine: self.machine.options(),
            settings: self.set.said(),
            ..options(Options::compare(&self.what), self.seed.seed)
        };
        OneRunOptions { options, policy: self.policy.clone(), seed: self.seed.seed }
    }
}

/// `highwater trace`.
#[derive(Debug, Args)]
pub struct TraceArgs {
    #[command(flatten)]
    /// Which run.
    pub run: OneRunArgs,
    /// File to write
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// File format: Perfetto's protobuf, or ftrace's text
    #[arg(long, value_enum, default_value = "perfetto")]
    pub format: TraceFormat,
    /// Record only the time around the N-th slowest operation
    #[arg(long, value_name = "N", conflicts_with_all = ["from", "to"],
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub around_worst: Option<usize>,
    /// Record only the time around the slowest operation of this name in reports (reader.get); with
    /// --around-worst around its N-th slowest
    #[arg(long, value_name = "TASK.OP", conflicts_with_all = ["from", "to"])]
    pub op: Option<String>,
    /// Time to record before and after the operation; default: 5ms
    #[arg(long, value_name = "TIME", conflicts_with_all = ["from", "to"], value_parser = parse_time)]
    pub margin: Option<u64>,
    /// Record only from this virtual time on: 1.5s, 200ms, 300us
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub from: Option<u64>,
    /// Record only up to this virtual time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub to: Option<u64>,
    /// Tracepoints of these systems (kmem, vmscan, writeback, compaction), all, or none; default:
    /// all in ftrace's text, all but kmem in Perfetto's protobuf
    #[arg(long, value_name = "SYSTEMS", value_delimiter = ',')]
    pub events: Vec<String>,
}

/// `highwater watch`.
#[derive(Debug, Args)]
pub struct WatchArgs {
    #[command(flatten)]
    /// Which run.
    pub run: OneRunArgs,
    /// Virtual time between two screens
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = parse_time)]
    pub every: u64,
    /// Seconds of virtual time per second of real time; default: as fast as possible
    #[arg(long, value_name = "X", value_parser = speed)]
    pub speed: Option<f64>,
    /// Print the screen at this virtual time, and exit
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub at: Option<u64>,
    #[command(flatten)]
    /// The machine's own files.
    pub cgroupfs: CgroupfsArgs,
}

/// Format of a recording's file.
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
    /// Shell
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
    /// Objective: a figure of an operation and a bound, such as reader.get.p99<5ms (figures: rate,
    /// p50, p90, p99, p99.9, max, minor, major, refaults-anon, refaults-file, hit-ratio, failed); a
    /// counter and a bound, such as pswpout<1000; a share of time and a bound, such as
    /// memory.some<5 or memory.full<1; or a figure of a memory cgroup, such as db.oom-kills<1
    /// (figures: peak, end, swap, in MiB; low-events, high-events, max-events, oom-events,
    /// oom-kills, refaults, scanned, high-sleeps; memory-some, memory-full, in percent of the time;
    /// times: memory-some-us, memory-full-us, throttled-us). Repeat it for several objectives; all
    /// must hold
    #[arg(long, value_name = "TASK.OP.FIGURE<BOUND", required = true)]
    pub slo: Vec<String>,
    /// Accept a value with which a task is killed for its memory or a map is refused, as long as
    /// every --slo holds
    #[arg(long)]
    pub allow_kills: bool,
    /// The --set key whose smallest value is searched, such as group.db.max
    #[arg(long, value_name = "KEY", default_value = "machine.memory")]
    pub min: String,
    /// Value at which the search begins; default for memory: a sixteenth of the machine's
    #[arg(long, value_name = "VALUE")]
    pub from: Option<String>,
    /// Value at which the search ends; default for memory: four times the machine's
    #[arg(long, value_name = "VALUE")]
    pub to: Option<String>,
    /// Precision of the answer, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.25, value_parser = percent)]
    pub within: f64,
    /// Policy instead of the job's own
    #[arg(long, value_name = "NAME|FILE")]
    pub policy: Option<String>,
    #[command(flatten)]
    /// How large it is.
    pub size: SizeArgs,
    /// Seeds of each point
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub iterations: Option<u32>,
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

impl FitArgs {
    /// The library's options.
    pub fn options(&self) -> FitOptions {
        let options = Options {
            size: self.size.said(),
            machine: self.machine.options(),
            policies: self.policy.iter().cloned().collect(),
            settings: self.set.said(),
            iterations: self.iterations,
            jobs: self.jobs.said(),
            ..options(Options::compare(&self.job), self.seed.seed)
        };
        FitOptions {
            options,
            objectives: self.slo.clone(),
            min: self.min.clone(),
            from: self.from.clone(),
            to: self.to.clone(),
            within: self.within,
            allow_kills: self.allow_kills,
        }
    }
}

/// `highwater capture`.
#[derive(Debug, Args)]
pub struct CaptureArgs {
    /// Processes to capture; default: the 12 largest of yours that use memory or CPU time
    #[arg(long = "pid", value_name = "PID", value_delimiter = ',')]
    pub pids: Vec<u32>,
    /// Processes with this name (/proc/PID/comm), of any user
    #[arg(long = "comm", value_name = "NAME")]
    pub comms: Vec<String>,
    /// Processes in this control group or below it: its path in /proc/PID/cgroup, such as
    /// /system.slice/redis.service, or its directory in /sys/fs/cgroup
    #[arg(long = "cgroup", value_name = "PATH")]
    pub cgroups: Vec<String>,
    /// Processes of this systemd unit, such as redis.service (.service, .scope or .slice may be
    /// missing)
    #[arg(long = "unit", value_name = "NAME")]
    pub units: Vec<String>,
    /// Measure for S more seconds which memory the processes touch (clears referenced bits);
    /// default: touches are guessed
    #[arg(long, value_name = "S", value_parser = working_set)]
    pub working_set: Option<f64>,
    /// Seconds to watch the processes; 0: use averages since each one started
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = seconds)]
    pub seconds: f64,
    /// Milliseconds between two samples
    #[arg(long, value_name = "MS", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub every: u64,
    /// Job file to write
    #[arg(long, short, value_name = "FILE", default_value = "job.toml")]
    pub output: PathBuf,
    /// Machine file to write
    #[arg(long, value_name = "FILE", default_value = "machine.toml")]
    pub machine: PathBuf,
    /// Reference to write, for `check`
    #[arg(long, value_name = "FILE", default_value = "static.json")]
    pub reference: PathBuf,
    /// Also measure for 20 s what operations cost here and what the disk of the current directory
    /// can do (`highwater calibrate`), for the machine file
    #[arg(long, conflicts_with = "root")]
    pub calibrate: bool,
    /// File of costs to write with --calibrate
    #[arg(long, value_name = "FILE", default_value = "costs.toml", requires = "calibrate")]
    pub costs: PathBuf,
    /// Read DIR/proc and DIR/sys, recorded somewhere else, instead of the running kernel's; capture
    /// then does not wait
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
