//! `highwater explain`: where the time of a run's operations went.
//!
//! ```text
//! source (experiment | results of a run | explanation) -> RunPlan with explain = Some(N)
//!     -> experiment::runner -> ledger (rows of the host's ledger) -> Explanation -> highwater-report
//! ```
//!
//! Neighbours: [`highwater_runs::ledger`] converts a host's ledger into rows, `highwater-results` stores them,
//! `highwater-report` prints them.

pub mod source;

use std::sync::atomic::AtomicBool;

use highwater_files::input::names::unknown;

use highwater_results::Document;
use highwater_results::explain::{EXPLAIN_SCHEMA, ExplainedRun, Explanation};

use crate::experiment::{Progress, Ran, RunPlan, run_all};
use highwater_runs::workload::job::Job;
use highwater_runs::workload::{RunError, Workload};

/// Runs a plan and explains where the time went; every sum in the explanation is exact.
///
/// # Errors
/// If a cell fails, or its host keeps no ledger.
pub fn explain(
    plan: &RunPlan,
    command_line: Vec<String>,
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> Result<Explanation, RunError> {
    let Ran { document, explained: runs, .. } = run_all(plan, progress, stop)?;
    explanation(&document, runs, command_line)
}

/// Reduces an explanation to one operation; tasks and locks stay complete. `known` lists the
/// operations that the workload may have.
///
/// # Errors
/// If there is no such operation; the error lists the operations.
pub fn of_operation(
    explanation: &mut Explanation,
    name: &str,
    known: &[String],
) -> Result<(), String> {
    let bands = explanation.runs.iter().flat_map(|run| &run.bands);
    has_ended(name, bands.map(|band| band.operation.as_str()), known)?;
    for run in &mut explanation.runs {
        run.worst.retain(|operation| operation.name == name);
        run.bands.retain(|band| band.operation == name);
    }
    Ok(())
}

/// Checks that an operation is among those that ended in a run. `known` lists those that the
/// workload may have.
///
/// # Errors
/// If it is not; the error lists the operations.
pub fn has_ended<'a>(
    name: &str,
    ended: impl Iterator<Item = &'a str>,
    known: &[String],
) -> Result<(), String> {
    if !known.iter().any(|known| known == name) {
        return is_operation(name, ended);
    }
    let Some(names) = others(name, ended) else { return Ok(()) };
    let others = match names.is_empty() {
        true => "no operation did".to_owned(),
        false => format!("{} did", names.join(", ")),
    };
    Err(format!("--op {name}: {name} did not end within the run; {others}"))
}

/// Lists each name once. None: `name` is among them.
fn others<'a>(name: &str, all: impl Iterator<Item = &'a str>) -> Option<Vec<&'a str>> {
    let mut names: Vec<&str> = Vec::new();
    for other in all {
        if other == name {
            return None;
        }
        if !names.contains(&other) {
            names.push(other);
        }
    }
    Some(names)
}

/// Refuses an operation that the workload is known not to have, before anything runs.
///
/// # Errors
/// If there is no such operation, or its time is not booked.
pub fn check_operation(plan: &RunPlan, op: &str) -> Result<(), String> {
    let known = plan.experiment.job.operations();
    let is_job = plan.experiment.job.entry().name == Job::NAME;
    if known.is_empty() && !is_job {
        // Nobody knows before a run.
        return Ok(());
    }
    is_operation(op, known.iter().map(String::as_str))?;
    match plan.experiment.job.not_booked(op) {
        Some(reason) => Err(format!("--op {op}: {reason}")),
        None => Ok(()),
    }
}

/// Checks that an operation exists.
///
/// # Errors
/// If it does not; the error lists the operations.
pub fn is_operation<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let Some(names) = others(name, known) else { return Ok(()) };
    Err(match names.is_empty() {
        true => format!(
            "--op {name}: no operation is timed; a phase of a job has one by `op = \"NAME\"`"
        ),
        false => format!("--op: {}", unknown("operation", name, &names)),
    })
}

/// The explanation of a document's runs; every sum in it is exact.
///
/// # Errors
/// If there are no rows, or they do not add up.
pub fn explanation(
    document: &Document,
    runs: Vec<ExplainedRun>,
    command_line: Vec<String>,
) -> Result<Explanation, RunError> {
    if runs.is_empty() {
        let (name, host) = (&document.experiment, &document.host);
        let reason = format!("{name}: on host {host} no time is booked by cause");
        return Err(RunError::Unexplained(reason));
    }
    let explanation = Explanation {
        schema: EXPLAIN_SCHEMA.to_owned(),
        version: document.version.clone(),
        experiment: document.experiment.clone(),
        command_line,
        host: document.host.clone(),
        seed: document.seed,
        settings: document.settings.clone(),
        machines: document.machines.clone(),
        policies: document.policies.clone(),
        runs,
    };
    explanation.validate().map_err(|error| RunError::Ledger(error.to_string()))?;
    Ok(explanation)
}
