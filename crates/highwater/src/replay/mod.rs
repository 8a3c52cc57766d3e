//! Replaying a trace of a real kernel's page allocator through the model.
//!
//! ```text
//! trace --survey--> Survey --+--> state::Shape (machine) --+--> model::replay, per policy --> Replay
//! X.zoneinfo ... --state----/    place::place (zones)  ---/
//!                                                            report: tables, JSON
//! ```
//!
//! Two passes over the file, one event in memory at a time: the first ([`survey`]) counts what the
//! trace itself says and finds out what the machine looked like when it began, the second
//! ([`model`]) is repeated for every policy.

pub mod model;
pub mod place;
pub mod report;
pub mod state;
pub mod survey;
pub mod tally;

use std::path::{Path, PathBuf};

use highwater_core::config::{Machine, Policy};

pub use model::Replay;
pub use state::{MachineSource, Shape, Sidecars};
pub use survey::Survey;
pub use tally::{EventKind, Tally};

use crate::error::InputError;

/// Whether files beside the trace are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UseSidecars {
    /// If they are there.
    #[default]
    Yes,
    /// Not even then.
    No,
}

/// A trace and what every policy made of it.
#[derive(Clone, Debug)]
pub struct Report {
    /// The trace as named by the user.
    pub trace: String,
    /// What it says itself.
    pub survey: Survey,
    /// The machine.
    pub shape: Shape,
    /// Files beside the trace that were used.
    pub sidecars: Vec<PathBuf>,
    /// One per policy.
    pub replays: Vec<Replay>,
}

/// Replays a trace under policies.
///
/// # Errors
/// If a file cannot be read, or the trace does not fit on the machine.
pub fn run(
    trace: &Path,
    policies: &[Policy],
    machine: Option<&Machine>,
    sidecars: UseSidecars,
) -> Result<Report, InputError> {
    // A pipe would be empty the second time, or never end.
    if std::fs::metadata(trace).is_ok_and(|m| !m.is_file() && !m.is_dir()) {
        let reason = "not a regular file; a trace is read more than once, so store it first";
        return Err(InputError::whole(trace.display().to_string(), reason));
    }
    let survey = Survey::read(trace)?;
    let sidecars = match sidecars {
        UseSidecars::Yes => Sidecars::beside(trace)?,
        UseSidecars::No => Sidecars::default(),
    };
    let name = trace.display().to_string();
    let shape = Shape::of(&name, &survey, &sidecars, machine)?;
    let replays: Vec<_> = policies
        .iter()
        .map(|policy| model::replay(trace, &survey, &sidecars, &shape, policy))
        .collect::<Result<_, _>>()?;
    Ok(Report { trace: name, survey, shape, sidecars: sidecars.files, replays })
}
