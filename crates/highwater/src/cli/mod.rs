//! The command: arguments to library calls, results to text, errors to one line.
//!
//! Exit status: 0 done, 1 a check or comparison failed as asked, 2 usage or bad input, 130 and 143 interrupted.

mod answer;
mod args;
mod bench;
mod bisect;
mod calibrate;
mod capture;
mod check;
mod colour;
mod compare;
mod diagnose;
mod explain;
mod fit;
mod interrupt;
mod kernel_files;
mod list;
mod manual;
mod many;
mod merge;
mod one_run;
mod out;
mod plan;
mod predict;
mod proc;
mod progress;
mod replay;
mod report;
mod show;
mod swarm;
mod sweep;
mod trace;
mod vary;
mod watch;

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use clap::Parser;
use clap::error::ErrorKind;
use highwater_report::{Format, PAGE_WIDTH, Table};
use highwater_results::words::refusal;

pub use args::Cli;
use args::Command;

use crate::input::{InputError, one_line};
use crate::policy_file::{self, OwnPolicy};
use crate::workload::{Entry, Registry, RunError};

/// How a command without an error ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is well.
    Done,
    /// It found a disagreement or a regression.
    Disagrees,
}

/// Why a command could not be carried out: one line.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct CliError {
    message: String,
    is_broken_pipe: bool,
}

impl CliError {
    /// An error with this text.
    pub(crate) fn new(message: impl Into<String>) -> CliError {
        CliError { message: message.into(), is_broken_pipe: false }
    }
}

impl From<InputError> for CliError {
    fn from(error: InputError) -> CliError {
        CliError::new(error.to_string())
    }
}

impl From<RunError> for CliError {
    fn from(error: RunError) -> CliError {
        CliError::new(error.to_string())
    }
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    Program::default().main()
}

/// The command with additions, for a program that embeds Highwater.
///
/// ```no_run
/// use highwater::cli::Program;
/// use highwater::policy_file::OwnPolicy;
///
/// # fn main() -> std::process::ExitCode {
/// let calm = OwnPolicy {
///     name: "calm",
///     about: "6.1 that does not boost watermarks",
///     base: "6.1",
///     set: |policy| policy.watermark.boost = false,
///     answers: None,
/// };
/// Program::default().policy(calm).main()
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Program {
    workloads: Vec<Entry>,
    policies: Vec<OwnPolicy>,
}

impl Program {
    /// With a workload. Of two with one name the later one counts.
    #[must_use]
    pub fn workload(mut self, workload: Entry) -> Program {
        self.workloads.push(workload);
        self
    }

    /// With a policy.
    #[must_use]
    pub fn policy(mut self, policy: OwnPolicy) -> Program {
        self.policies.push(policy);
        self
    }

    /// Runs the command line of this process.
    pub fn main(self) -> ExitCode {
        ExitCode::from(self.status(env::args_os().collect()))
    }

    /// Runs a command line whose first word is the program's name, and returns the exit status. For
    /// a program whose own words are others, such as an interpreter's. Once in a process.
    pub fn status(self, words: Vec<OsString>) -> u8 {
        if let Err(error) = policy_file::bring(&self.policies) {
            complain(&error.to_string());
            return USAGE;
        }
        run_command_line(&Registry::with(&self.workloads), WORDS.get_or_init(|| words))
    }
}

/// The exit status for usage and bad input.
const USAGE: u8 = 2;
/// The words of the command line, the program's name first.
static WORDS: OnceLock<Vec<OsString>> = OnceLock::new();

/// The words of the command line behind the program's name.
fn words() -> impl Iterator<Item = String> {
    let words = WORDS.get().map_or(&[][..], Vec::as_slice).iter();
    words.skip(1).map(|word| word.to_string_lossy().into_owned())
}

fn run_command_line(registry: &Registry, words: &[OsString]) -> u8 {
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    IS_QUIET.store(cli.quiet, Ordering::Relaxed);
    colour::choose(cli.color);
    progress::choose(cli.progress);
    match run(registry, cli.command) {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::Disagrees) => 1,
        // The reader closed the pipe: that is not an error.
        Err(error) if error.is_broken_pipe => 0,
        Err(error) => {
            complain(&error.message);
            USAGE
        }
    }
}

fn run(registry: &Registry, command: Command) -> Result<Outcome, CliError> {
    match command {
        Command::List(args) => list::run(registry, &args),
        Command::Show(args) => show::run(registry, &args),
        Command::Compare(args) => compare::run(registry, &args),
        Command::Run(args) => compare::run_one(registry, &args),
        Command::Sweep(args) => sweep::run(registry, &args),
        Command::Merge(args) => merge::run(registry, &args),
        Command::Fit(args) => fit::run(registry, &args),
        Command::Bisect(args) => bisect::run(registry, &args),
        Command::Explain(args) => explain::run(registry, &args),
        Command::Trace(args) => trace::run(registry, &args),
        Command::Watch(args) => watch::run(registry, &args),
        Command::Report(args) => report::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Zoneinfo(args) => proc::run(proc::File::Zoneinfo, &args),
        Command::Buddyinfo(args) => proc::run(proc::File::Buddyinfo, &args),
        Command::Pagetypeinfo(args) => proc::run(proc::File::Pagetypeinfo, &args),
        Command::Vmstat(args) => proc::run(proc::File::Vmstat, &args),
        Command::Numastat(args) => proc::run(proc::File::Numastat, &args),
        Command::Check(args) => check::run(&args),
        Command::Diagnose(args) => diagnose::run(&args),
        Command::Capture(args) => capture::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Predict(args) => predict::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Swarm(args) => swarm::run(&args),
        Command::Man(args) => manual::man(&args),
        Command::Completions(args) => manual::completions(&args),
    }
}

/// Help goes to stdout; for a usage error only the sentence that says what is wrong goes to stderr.
fn usage(error: &clap::Error) -> u8 {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        let is_asked_for = error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
        // If printing fails here, there is nothing left to do.
        let _ = error.print();
        return if is_asked_for { 0 } else { USAGE };
    }
    let text = error.to_string();
    let about = text.split("\n\nUsage:").next().unwrap_or(&text);
    let about = about.split("\n\nFor more information").next().unwrap_or(about);
    // Nobody means an option's name as a value.
    let about = about.split("\n\n  tip: to pass").next().unwrap_or(about);
    // clap's tip belongs to the same sentence.
    let about = about.replace("\n\n  tip: ", "; ");
    complain(one_line(&about).trim_start_matches("error: "));
    USAGE
}

/// Whether the user wants errors only on stderr.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Prints an error as one line on stderr.
fn complain(message: &str) {
    // If printing fails here, there is nothing left to do.
    let _ = writeln!(io::stderr(), "{}{}", colour::error("error: "), one_line(message));
}

/// Options with a value that change no results.
const OF_OUTPUT: [&str; 9] = [
    "--jobs",
    "--out",
    "--folded",
    "--format",
    "--fail-if-worse",
    "--color",
    "--progress",
    "--cgroupfs",
    "--cgroupfs-every",
];

/// The command line without options that do not change results.
fn command_line() -> Vec<String> {
    let mut words = vec!["highwater".to_owned()];
    let mut args = self::words();
    while let Some(word) = args.next() {
        match word.as_str() {
            "--force" | "--resume" | "--all" | "--quiet" | "-q" => {}
            option if OF_OUTPUT.contains(&option) => {
                args.next();
            }
            w if w.split_once('=').is_some_and(|(option, _)| OF_OUTPUT.contains(&option)) => {}
            _ => words.push(word),
        }
    }
    words
}

/// Options that suggested commands leave out, because they change how a command runs and not its
/// results.
const HOW: [&str; 3] = ["--jobs", "--progress", "--color"];
const HOW_FLAGS: [&str; 2] = ["-q", "--quiet"];

/// The words of the user's command behind its name, for advice on another command that runs the same. Left out: `options`
/// with their values, and `flags`.
fn own_words(options: &[&str], flags: &[&str]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = self::words().skip(1);
    while let Some(word) = words.next() {
        let name = word.split('=').next().unwrap_or_default();
        if options.contains(&name) || HOW.contains(&name) {
            if name.len() == word.len() {
                words.next();
            }
        } else if !flags.contains(&name) && !HOW_FLAGS.contains(&name) {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+%@[]".contains(c);
            kept.push(if word.chars().all(is_plain) { word } else { format!("'{word}'") });
        }
    }
    kept
}

/// One line on stderr, unless the user wants quiet.
pub(crate) fn remark(message: &str) {
    if !is_quiet() {
        say(message);
    }
}

/// One line on stderr.
fn say(message: &str) {
    // If printing fails here, there is nothing left to do.
    let _ = writeln!(io::stderr(), "{}", one_line(message));
}

/// The same, once for each message: of a plan that is made again and again.
pub(crate) fn remark_once(message: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let is_new = SAID.lock().is_ok_and(|mut said| said.insert(message.to_owned()));
    if is_new {
        remark(message);
    }
}

/// Whether the user wants errors only on stderr.
pub(crate) fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// Tables are not cut to fewer columns than this.
const WIDTH_MIN: usize = 60;

/// Tables as text, in the width of the terminal, or of a page if there is no terminal.
pub(crate) fn tables(format: Format, tables: &[Table]) -> String {
    format.tables(tables, width())
}

fn width() -> usize {
    terminal().unwrap_or(PAGE_WIDTH)
}

/// Columns of the terminal, or the value of an exported `COLUMNS`; `None` if standard output is not
/// a terminal.
fn terminal() -> Option<usize> {
    let exported = || env::var("COLUMNS").ok()?.trim().parse().ok();
    let size = || terminal_size::terminal_size_of(io::stdout());
    let columns = exported().or_else(|| size().map(|(width, _)| usize::from(width.0)));
    columns.map(|columns| columns.max(WIDTH_MIN))
}

/// Prints text for people, with colours if they are on; data unchanged.
pub(crate) fn show(format: Format, text: &str) -> Result<(), CliError> {
    match format.is_for_reading() && colour::is_wanted() {
        true => print(&colour::painted(text)),
        false => print(text),
    }
}

/// Prints a result on stdout.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| CliError {
        message: format!("standard output: {}", refusal(&error)),
        is_broken_pipe: error.kind() == io::ErrorKind::BrokenPipe,
    })
}
