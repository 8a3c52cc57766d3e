//! `highwater explain`: where the time of a run's operations went.
//!
//! ```text
//! source (experiment | results of a run | explanation) -> RunPlan with explain = Some(N)
//!     -> experiment::runner -> ledger (rows of what the host booked) -> Explanation -> highwater-report
//! ```
//!
//! Neighbours: a host's ledger is turned into rows here ([`ledger`]), `highwater-results` keeps them,
//! `highwater-report` prints them.

pub(crate) mod ledger;
pub(crate) mod source;

use std::sync::atomic::AtomicBool;

use highwater_results::explain::{EXPLAIN_SCHEMA, Explanation};

use crate::cli::CliError;
use crate::experiment::{Progress, RunPlan, run_explained};

/// Runs a plan and says where the time went; every sum in it is exact.
///
/// # Errors
/// If a cell fails, or its host books no time.
pub(crate) fn explain(
    plan: &RunPlan,
    command_line: Vec<String>,
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> Result<Explanation, CliError> {
    let (document, runs) =
        run_explained(plan, progress, stop).map_err(|error| CliError::new(error.to_string()))?;
    if runs.is_empty() {
        let (name, host) = (&document.experiment, &document.host);
        return Err(CliError::new(format!("{name}: on host {host} no time is booked by cause")));
    }
    let explanation = Explanation {
        schema: EXPLAIN_SCHEMA.to_owned(),
        version: document.version,
        experiment: document.experiment,
        command_line,
        host: document.host,
        seed: document.seed,
        machines: document.machines,
        policies: document.policies,
        runs,
    };
    explanation.validate().map_err(|error| CliError::new(format!("the ledger: {error}")))?;
    Ok(explanation)
}
