//! From options to plans; what the library remarks goes to standard error.

use super::{CliError, remark_once};
use crate::plan::{Options, Plan, PlanError};
use crate::workload::Registry;

impl From<PlanError> for CliError {
    fn from(error: PlanError) -> CliError {
        CliError::new(error.to_string())
    }
}

/// The plan of these options. A remark is made once, however often plans are made.
pub(super) fn plan(registry: &Registry, options: &Options) -> Result<Plan, CliError> {
    Ok(options.plan_with(registry, &mut |line| remark_once(&line))?)
}
