//! The command line as types. Names and forms are a contract: scripts use them.

mod bisect;
mod calibrate;
mod look;
mod options;
mod plan;
mod shared;
mod swarm;
mod sweep;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use highwater_report::render::Format;

use shared::SampleArgs;

pub(super) use bisect::BisectArgs;
pub(super) use calibrate::{CalibrateArgs, PredictArgs};
pub(super) use look::{
    CaptureArgs, CompletionsArgs, FitArgs, ManArgs, OneRunArgs, TraceArgs, TraceFormat, WatchArgs,
};

pub(super) use plan::PlanArgs;
pub(super) use shared::{
    CgroupfsArgs, FailArgs, HostArg, JobsArgs, KeepArgs, MachineArgs, SeedArgs, SetArgs, SizeArgs,
};
pub(super) use swarm::SwarmArgs;
pub(super) use sweep::{MergeArgs, SweepArgs};

use super::progress::ProgressArg;
use crate::diagnose::window::Time;
use crate::schema::Kind;

/// Linux-style memory management that can be run, replayed and taken apart.
#[derive(Debug, Parser)]
#[command(name = "highwater", version, arg_required_else_help = true)]
pub struct Cli {
    /// Print no remarks and no progress on standard error: only errors, and the objects of
    /// --progress json
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Progress on standard error: a bar on a terminal, else a line every few seconds (auto);
    /// lines; JSON objects; or nothing
    #[arg(long, global = true, value_name = "HOW", default_value = "auto")]
    pub progress: ProgressArg,
    /// Colours: on a terminal unless NO_COLOR is set (auto), always, or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: clap::ColorChoice,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List what you can name: experiments, machines, policies, workloads
    List(ListArgs),
    /// Show one of them in full: a policy's switches, or the switches that differ between two
    /// policies
    Show(ShowArgs),
    /// Run a study's policies with the same seeds and compare them
    Compare(CompareCommand),
    /// Run one workload on one machine under one policy
    Run(RunArgs),
    /// Run a study or a grid unit by unit, in one process or in many on many computers; an interrupted
    /// sweep continues
    Sweep(SweepArgs),
    /// Join directories of a sweep into one, with the results if all units are there
    Merge(MergeArgs),
    /// Search the smallest value of a setting, such as memory, with which a job meets an objective
    Fit(FitArgs),
    /// Search the smallest set of differences between two policies that explains a change
    Bisect(BisectArgs),
    /// Run an experiment and print where the time of its slowest operations went
    Explain(ExplainArgs),
    /// Record one run event by event: a file for ui.perfetto.dev, or ftrace's text
    Trace(TraceArgs),
    /// Watch a run in the terminal while it goes on: zones, lists, and what each task waits for
    Watch(WatchArgs),
    /// Print the report of results that `compare --out` or `run --out` wrote
    Report(ReportArgs),
    /// Replay a trace of a real kernel's page allocator under policies of your choice
    Replay(ReplayArgs),
    /// Print /proc/zoneinfo of a freshly booted machine
    Zoneinfo(ProcArgs),
    /// Print /proc/buddyinfo of a freshly booted machine
    Buddyinfo(ProcArgs),
    /// Print /proc/pagetypeinfo of a freshly booted machine
    Pagetypeinfo(ProcArgs),
    /// Print /proc/vmstat of a freshly booted machine
    Vmstat(ProcArgs),
    /// Print each node's numastat of a freshly booted machine
    Numastat(ProcArgs),
    /// Compare the model with files captured from a real Linux
    Check(CheckArgs),
    /// Explain why a kernel refused memory or killed a process, from its log
    Diagnose(DiagnoseArgs),
    /// Capture a running Linux: a machine file, a job file of its processes, and values that its
    /// kernel computed
    Capture(CaptureArgs),
    /// Measure what operations cost on this computer, without root: a file of costs for machines
    Calibrate(CalibrateArgs),
    /// Run composite works on the model and on this computer, and compare their times
    Predict(PredictArgs),
    /// Measure the allocator on this computer's CPUs
    Bench(BenchArgs),
    /// Run random machines under random load, first with faults and audits, then without faults until
    /// all tasks end
    Swarm(SwarmArgs),
    /// Print the manual page, or write the pages of all subcommands
    Man(ManArgs),
    /// Print a shell's completions for the command line
    Completions(CompletionsArgs),
}

/// `highwater list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// List only this kind
    #[arg(value_enum)]
    pub what: Option<ListKind>,
    /// Output format
    #[arg(long, default_value = "terminal", value_parser = formats())]
    pub format: Format,
}

/// What `list` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ListKind {
    /// Studies to compare.
    Experiments,
    /// Machines that come with the program.
    Machines,
    /// Policies that come with the program.
    Policies,
    /// Workloads.
    Workloads,
}

/// `highwater show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// What to show.
    #[command(subcommand)]
    pub what: ShowWhat,
}

/// What `show` shows.
#[derive(Debug, Subcommand)]
pub enum ShowWhat {
    /// The file of an experiment that comes with the program
    Experiment(ShowNamedArgs),
    /// The file of a machine
    Machine(ShowNamedArgs),
    /// Every switch of a policy, its value and its meaning
    Policy(ShowPolicyArgs),
    /// Every parameter of a workload, its default and its meaning, as a section of an experiment
    Workload(ShowNamedArgs),
    /// The JSON Schema of a format: results, explanations, answers of bisect, or files that you
    /// write
    Schema(ShowSchemaArgs),
}

/// A name to show.
#[derive(Debug, Args)]
pub struct ShowNamedArgs {
    /// Its name
    pub name: String,
}

/// `highwater show schema`.
#[derive(Debug, Args)]
pub struct ShowSchemaArgs {
    /// Format to describe
    #[arg(value_parser = schema_kinds())]
    pub of: Option<Kind>,
}

/// `highwater show policy`.
#[derive(Debug, Args)]
pub struct ShowPolicyArgs {
    /// Policy: a name or a file
    #[arg(value_name = "NAME|FILE")]
    pub name: String,
    /// Print only the switches that differ from this policy
    #[arg(long, value_name = "NAME|FILE")]
    pub against: Option<String>,
    /// Print a policy file to start your own from
    #[arg(long, conflicts_with_all = ["against", "format"])]
    pub toml: bool,
    /// Output format
    #[arg(long, default_value = "terminal", value_parser = formats())]
    pub format: Format,
}

/// `highwater compare`.
#[derive(Debug, Args)]
pub struct CompareCommand {
    /// Experiment: a name, its number alone, or a file. With several, only the verdicts and their
    /// summary are printed; --all prints the whole reports and --out keeps them
    #[arg(value_name = "EXPERIMENT", required = true)]
    pub experiments: Vec<String>,
    #[command(flatten)]
    /// What to run.
    pub plan: CompareArgs,
    /// Also print a histogram of throttled sleeps by timeout, delay and reason (stutterp)
    #[arg(long)]
    pub histograms: bool,
    /// Also print this counter of /proc/vmstat at each point of a grid (--vary)
    #[arg(long = "counter", value_name = "NAME", requires = "vary")]
    pub counters: Vec<String>,
    /// Show all evidence, also of figures that did not change
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    /// When to fail.
    pub fail: FailArgs,
}

/// What `highwater compare` runs.
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    #[command(flatten)]
    /// The runs.
    pub plan: PlanArgs,
    /// Run in virtual time, or on this computer's threads and memory
    #[arg(long, value_enum, default_value = "sim")]
    pub host: HostArg,
    #[command(flatten)]
    /// Where results are kept.
    pub keep: KeepArgs,
    #[command(flatten)]
    /// Samples over time.
    pub sample: SampleArgs,
    /// Output format
    #[arg(long, default_value = "terminal", value_parser = formats())]
    pub format: Format,
}

/// `highwater run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Workload, by its name in `list workloads`
    pub workload: String,
    #[command(flatten)]
    /// The machine.
    pub machine: MachineArgs,
    /// Policy
    #[arg(long, value_name = "NAME|FILE", default_value = "6.1")]
    pub policy: String,
    #[command(flatten)]
    /// Single keys.
    pub set: SetArgs,
    #[command(flatten)]
    /// Which seed.
    pub seed: SeedArgs,
    /// Run in virtual time, or on this computer's threads and memory
    #[arg(long, value_enum, default_value = "sim")]
    pub host: HostArg,
    /// Also print a histogram of throttled sleeps by timeout, delay and reason (stutterp)
    #[arg(long)]
    pub histograms: bool,
    /// Show all evidence, also of figures that did not change
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    /// Where results are kept.
    pub keep: KeepArgs,
    #[command(flatten)]
    /// Samples over time.
    pub sample: SampleArgs,
    #[command(flatten)]
    /// The machine's own files.
    pub cgroupfs: CgroupfsArgs,
    /// Output format
    #[arg(long, default_value = "terminal", value_parser = formats())]
    pub format: Format,
}

/// `highwater report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Directory that `compare --out` or `run --out` wrote
    pub dir: PathBuf,
    /// Another directory to compare with: the same runs after a change
    pub against: Option<PathBuf>,
    /// Write the report to this file as one HTML page with charts and tables, which needs no other
    /// file
    #[arg(long, short, value_name = "FILE", conflicts_with = "format")]
    pub output: Option<PathBuf>,
    /// Also print counters over time, of the first seed, as lines of bars below the tables
    #[arg(long, conflicts_with_all = ["output", "against"])]
    pub over_time: bool,
    /// Show all evidence, also of figures that did not change
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    /// When to fail.
    pub fail: FailArgs,
    /// Output format
    #[arg(long, default_value = "terminal", value_parser = formats())]
    pub format: Format,
}

/// `highwater explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Experiment (a name, its number alone, or a file), or a directory that `compare --out` or
    /// `explain --out` wrote
    #[arg(value_name = "EXPERIMENT|DIR")]
    pub experiment: String,
    /// Slowest operations to show for each policy
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub worst: usize,
    /// Show only this operation, by its name in reports: reader.get of a job, mmap-48 of stutterp
    #[arg(long, value_name = "TASK.OP")]
    pub op: Option<String>,
    #[command(flatten)]
    /// How large it is.
    pub size: SizeArgs,
    /// Runs of each policy
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub iterations: Option<u32>,
    #[command(flatten)]
    /// Which seed.
    pub seed: SeedArgs,
    #[command(flatten)]
    /// How many at a time.
    pub jobs: JobsArgs,
    /// Run in virtual time (sim, the default), or on this computer's threads and memory
    #[arg(long, value_enum)]
    pub host: Option<HostArg>,
    #[command(flatten)]
    /// The machine instead of the experiment's own.
    pub machine: MachineArgs,
    /// Policies instead of the experiment's own; the first is the baseline
    #[arg(long = "policy", value_name = "NAME|FILE")]
    pub policies: Vec<String>,
    #[command(flatten)]
    /// Single keys.
    pub set: SetArgs,
    /// Write folded stacks for a flame graph to this file; "-" prints them to standard output,
    /// instead of the rest
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,
    /// Also write explain.json, explain.txt and folded.txt to this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Output format
    #[arg(long, default_value = "terminal", value_parser = formats())]
    pub format: Format,
}

/// `highwater replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Trace of the kmem events: ftrace text, trace-cmd report or perf script; plain or gzip
    pub trace: PathBuf,
    /// Policies to replay the trace under; default: 6.1
    #[arg(long = "policy", value_name = "NAME|FILE")]
    pub policies: Vec<String>,
    #[command(flatten)]
    /// The machine, where no captured /proc files lie beside the trace.
    pub machine: MachineArgs,
    /// Ignore the .zoneinfo, .pagetypeinfo and .buddyinfo files beside the trace
    #[arg(long)]
    pub no_sidecars: bool,
    /// Replay an incomplete trace: gzip data may end in the middle, and lines that cannot be read
    /// are skipped
    #[arg(long)]
    pub partial: bool,
    /// Number of hottest blocks to show
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub hottest: usize,
    /// Output format
    #[arg(long, default_value = "terminal", value_parser = formats())]
    pub format: Format,
}

/// `highwater zoneinfo` and its siblings.
#[derive(Debug, Args)]
pub struct ProcArgs {
    #[command(flatten)]
    /// The machine.
    pub machine: MachineArgs,
    /// Policy
    #[arg(long, value_name = "NAME|FILE", default_value = "6.1")]
    pub policy: String,
}

/// `highwater check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Captured files, or directories to search for them
    #[arg(required = true)]
    pub paths: Vec<PathBuf>,
    /// Output format
    #[arg(long, default_value = "terminal",
          value_parser = PossibleValuesParser::new(["terminal", "json"]).map(|f| to_format(&f)))]
    pub format: Format,
    /// Exit with status 0 if at least this percentage of the figures agrees
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0, value_parser = percent)]
    pub min_agreement: f64,
    /// Time that the simulated machine idles before a script of memory cgroups: no capture says when
    /// the kernel's periodic work ran last
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = idle_seconds)]
    pub idle: f64,
}

/// `highwater diagnose`.
#[derive(Debug, Args)]
pub struct DiagnoseArgs {
    /// Text with reports of a kernel (dmesg, journal, a mail); or output of `vmstat 1`, lines of
    /// /proc/pressure, a trace of vmscan, compaction or sched events, or zoneinfo, buddyinfo and
    /// pagetypeinfo of /proc (files or their folder); -: standard input
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Write a page to look at, print or send to this file (HTML) instead of printing the answer
    #[arg(long, short, value_name = "FILE", conflicts_with = "format")]
    pub output: Option<PathBuf>,
    /// Also write a machine file with the zones of the report, for jobs on such a machine
    #[arg(long, value_name = "FILE")]
    pub machine_out: Option<PathBuf>,
    /// Also write the free lists of the report, or these texts of /proc, to this directory, for jobs
    /// and replays that start there (--state)
    #[arg(long, value_name = "DIR")]
    pub state_out: Option<PathBuf>,
    /// Write to the directory even if that replaces a state
    #[arg(long, requires = "state_out")]
    pub force: bool,
    /// Only this report of the text, from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub report: Option<u32>,
    /// Seconds between two rows of vmstat without time stamps
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    pub interval: f64,
    /// Unit of vmstat's sizes, as with its -S: k is 1000 bytes, K 1024 (the default), m 1000000,
    /// M 1048576
    #[arg(long, value_name = "UNIT", value_parser = ["k", "K", "m", "M"])]
    pub unit: Option<String>,
    /// Only from this time on: seconds of the text's clock (5127.2), a time of day (03:00), or a
    /// date with time ("2026-11-28 03:00"). For traces, vmstat and pressure
    #[arg(long, value_name = "TIME", value_parser = Time::parse)]
    pub from: Option<Time>,
    /// Only up to this time
    #[arg(long, value_name = "TIME", value_parser = Time::parse)]
    pub to: Option<Time>,
    /// CPUs of the machine on which vmstat ran: more runnable tasks than these wait
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub cpus: Option<u32>,
    /// Of texts of /proc: would a request of the kernel for a block of this order be served
    /// (GFP_KERNEL, unmovable)?
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=10))]
    pub order: Option<u32>,
    /// Output format
    #[arg(long, default_value = "terminal",
          value_parser = PossibleValuesParser::new(["terminal", "json", "markdown"]).map(|f| to_format(&f)))]
    pub format: Format,
}

/// `highwater bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Run a short version, for a first look
    #[arg(long)]
    pub quick: bool,
    /// Measure page cache and faults beside this computer's own kernel, instead of the allocator
    #[arg(long, conflicts_with_all = ["orders", "patterns", "threads", "nodes"])]
    pub pages: bool,
    /// Measure only these orders
    #[arg(long = "order", value_name = "N", value_parser = clap::value_parser!(u8).range(0..=10))]
    pub orders: Vec<u8>,
    /// Measure only these patterns
    #[arg(long = "pattern", value_name = "NAME", value_parser = ["repeat", "bulk", "rand"])]
    pub patterns: Vec<String>,
    /// Measure only these numbers of threads
    #[arg(long = "threads", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: Vec<u16>,
    /// Number of nodes into which highwater's memory and CPUs are divided, each with a separate
    /// zone lock; needs at least as many threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub nodes: u16,
    /// Policy that highwater runs under
    #[arg(long, value_name = "NAME|FILE", default_value = "6.1")]
    pub policy: String,
    /// Output format
    #[arg(long, default_value = "terminal", value_parser = formats())]
    pub format: Format,
}

fn formats() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(["terminal", "json", "csv", "markdown"]).map(|f| to_format(&f))
}

fn schema_kinds() -> impl TypedValueParser<Value = Kind> {
    let by_name = |name: String| Kind::ALL.iter().copied().find(|kind| kind.name() == name);
    PossibleValuesParser::new(Kind::ALL.iter().map(|kind| kind.name()))
        .try_map(move |name| by_name(name).ok_or("no such schema"))
}

fn to_format(name: &str) -> Format {
    // Only listed names get here.
    name.parse().unwrap_or_default()
}

/// A decimal number, or hexadecimal digits with or without `0x`; of long ones the first 16 count.
fn parse_seed(text: &str) -> Result<u64, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    if text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() {
        return Err("more than 64 bits can count".to_owned());
    }
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let is_hex = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    let wrong = || "neither a number nor hexadecimal digits".to_owned();
    if !is_hex {
        return Err(wrong());
    }
    u64::from_str_radix(&digits[..digits.len().min(16)], 16).map_err(|_| wrong())
}

/// A change in percent, with or without the sign.
fn limit(text: &str) -> Result<f64, String> {
    let value: f64 = text.trim_end_matches('%').parse().map_err(|_| "not a number".to_owned())?;
    let ok = value.is_finite() && value >= 0.0;
    ok.then_some(value).ok_or_else(|| "must be a number of percent, 0 or more".to_owned())
}

/// A share in percent.
fn interval(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.001..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| "a number of seconds from 0.001 to 86400".to_owned())
}

fn percent(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let ok = (0.0..=100.0).contains(&value);
    ok.then_some(value).ok_or_else(|| "must be between 0 and 100".to_owned())
}

/// Idle time: at most an hour.
fn idle_seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let ok = (0.0..=3600.0).contains(&value);
    ok.then_some(value).ok_or_else(|| "must be between 0 and 3600".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use highwater_report::next;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// The command that a report proposes keeps the options of `compare` and `run` that `explain` has, and knows which of
    /// the others have a value.
    #[test]
    fn every_option_of_a_comparison_is_kept_or_left_out_of_the_next_command() {
        let command = Cli::command();
        let options = |name: &str| -> Vec<(String, bool)> {
            let of = command.find_subcommand(name).expect("it is there");
            let options = of.get_arguments().filter_map(|arg| {
                Some((format!("--{}", arg.get_long()?), arg.get_action().takes_values()))
            });
            options.collect()
        };
        let of_explain = options("explain");
        let stripped = crate::cli::OF_OUTPUT;
        for (option, has_value) in [options("compare"), options("run")].concat() {
            let option = option.as_str();
            let is_kept = (has_value && next::KEPT.contains(&option))
                || (!has_value && next::KEPT_FLAGS.contains(&option));
            assert!(!is_kept || of_explain.iter().any(|(known, _)| known == option), "{option}");
            let is_known =
                is_kept || next::LEFT_OUT.contains(&option) || stripped.contains(&option);
            assert!(is_known || !has_value, "{option}: kept or left out?");
        }
    }

    #[test]
    fn a_commit_hash_is_a_seed() {
        assert_eq!(parse_seed("42"), Ok(42));
        assert_eq!(parse_seed("0x10"), Ok(16));
        assert_eq!(
            parse_seed("04ffe00c0ffee11deadbeefdeadbeefdeadbeef0"),
            Ok(0x04ff_e00c_0ffe_e11d)
        );
        assert!(parse_seed("-1").is_err() && parse_seed("").is_err());
    }
}
