//! Replaying a trace of a real kernel's page allocator through the model.
//!
//! ```text
//! trace --survey--> Survey --+--> state::Shape (machine) --+--> model::replay, per policy --> Replay
//! X.zoneinfo ... --state----/    highwater_runs::start::place (zones)  ---/
//!                                                            report: tables, JSON
//! ```
//!
//! Two passes over the file in time order ([`trace`]), with one event in memory at a time. The
//! first pass ([`survey`]) counts the trace's own events and derives the machine's state at its
//! start. The second pass ([`model`]) is repeated for every policy. The report lists defects of the
//! trace with their counts ([`warning`]).

pub mod model;
mod options;
pub mod report;
pub mod state;
pub mod survey;
pub mod tally;
pub mod trace;
pub mod warning;

use std::path::{Path, PathBuf};

use highwater_core::config::{Machine, Policy};
use highwater_results::import::KernelText;

pub use model::{FailedInTrace, FailedRequest, Replay};
pub use options::{ReplayOptions, ReplayPlan};
pub use state::{MachineSource, Shape, Sidecars};
pub use survey::Survey;
pub use tally::{EventKind, Tally};
pub use trace::Trace;
pub use warning::Warning;

use highwater_files::input::{InputError, recognised};

/// A replay is near its trace if counts of events differ by at most this share of the trace's,
pub const NEAR_SHARE: f64 = 0.25;
/// or by this many if there are few.
pub const NEAR_EVENTS: u64 = 64;

/// Whether files beside the trace are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UseSidecars {
    /// If they exist.
    #[default]
    Yes,
    /// Not even then.
    No,
}

/// A trace, and the replay of each policy.
#[derive(Clone, Debug)]
pub struct Report {
    /// The trace as named by the user.
    pub trace: String,
    /// Figures of the trace itself.
    pub survey: Survey,
    /// The machine.
    pub shape: Shape,
    /// Reasons to trust the replays less.
    pub warnings: Vec<Warning>,
    /// Files beside the trace that were used.
    pub sidecars: Vec<PathBuf>,
    /// One per policy.
    pub replays: Vec<Replay>,
}

impl Report {
    /// The warnings as lines for people.
    pub fn warning_lines(&self) -> impl Iterator<Item = String> {
        self.warnings.iter().map(|warning| format!("warning: {warning}"))
    }
}

/// Replays a trace under policies.
///
/// # Errors
/// If a file cannot be read, the trace does not fit the machine, or so much of the trace is missing
/// that a replay would be meaningless.
pub fn run(
    trace: &Path,
    policies: &[Policy],
    machine: Option<&Machine>,
    sidecars: UseSidecars,
) -> Result<Report, InputError> {
    run_trace(Trace::file(trace), policies, machine, sidecars, |_| {})
}

/// As [`run`], for a trace with special reading options. `done` is called after each policy with
/// the number of finished policies.
///
/// # Errors
/// As [`run`].
pub fn run_trace(
    trace: Trace,
    policies: &[Policy],
    machine: Option<&Machine>,
    sidecars: UseSidecars,
    done: impl Fn(usize),
) -> Result<Report, InputError> {
    let beside = match sidecars {
        UseSidecars::Yes => Beside::TheTrace,
        UseSidecars::No => Beside::Nothing,
    };
    run_with(trace, policies, machine, beside, done)
}

/// Texts of `/proc` for a replay.
#[derive(Clone, Debug)]
enum Beside {
    /// None.
    Nothing,
    /// The files beside the trace, if they exist.
    TheTrace,
    /// The texts of a state.
    These(Sidecars),
}

/// As [`run_trace`], also with the texts of a state.
fn run_with(
    mut trace: Trace,
    policies: &[Policy],
    machine: Option<&Machine>,
    beside: Beside,
    done: impl Fn(usize),
) -> Result<Report, InputError> {
    // A pipe would be empty the second time, or never end.
    if std::fs::metadata(trace.path()).is_ok_and(|m| !m.is_file() && !m.is_dir()) {
        let reason = "not a regular file; a trace is read more than once, so store it first";
        return Err(trace.error(reason));
    }
    let survey = match Survey::read(&mut trace) {
        Ok(survey) => survey,
        Err(error) => {
            // Another text of Linux is called by its name.
            let text = recognised(trace.path()).filter(|text| *text != KernelText::Trace);
            return Err(text.map_or(error, |text| trace.error(text.advice())));
        }
    };
    let sidecars = match beside {
        Beside::TheTrace => Sidecars::beside(trace.path())?,
        Beside::Nothing => Sidecars::default(),
        Beside::These(texts) => texts,
    };
    let name = trace.name();
    let shape = Shape::of(&name, &survey, &sidecars, machine)?;
    let replays: Vec<_> = policies
        .iter()
        .enumerate()
        .map(|(at, policy)| {
            model::replay(&trace, &survey, &sidecars, &shape, policy).inspect(|_| done(at + 1))
        })
        .collect::<Result<_, _>>()?;
    warning::refuse_unknown_frees(&survey, &replays).map_err(|reason| trace.error(reason))?;
    let warnings = Warning::all(&survey, trace.totals(), &sidecars, &replays);
    Ok(Report { trace: name, survey, shape, warnings, sidecars: sidecars.files, replays })
}
