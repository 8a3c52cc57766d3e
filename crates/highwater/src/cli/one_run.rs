//! Selects one run of an experiment or of its results: a policy on a machine with a seed. `trace`
//! and `watch` look at it.

use super::args::OneRunArgs;
use super::{CliError, remark, remark_once};
use crate::experiment::RunPlan;
use crate::workload::Registry;

/// The selected run: its plan has one policy, one machine and one seed. Prints on stderr which run
/// it is.
pub(super) fn plan(registry: &Registry, args: &OneRunArgs) -> Result<RunPlan, CliError> {
    let plan = args.options().plan(registry, &mut |line| remark_once(&line))?;
    let (machine, label) = (&plan.machines[0].name, &plan.policies[0].1);
    remark(&format!("{}: {label} on {machine}, seed {}", plan.experiment.name, plan.seed));
    Ok(plan)
}
