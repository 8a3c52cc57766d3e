//! Selects one run of an experiment or of its results: a policy on a machine with a seed. `trace`
//! and `watch` look at it.

use std::path::Path;

use highwater_core::config::Policy;

use super::args::OneRunArgs;
use super::plan::run_plan;
use super::{CliError, remark};
use crate::experiment::RunPlan;
use crate::explain::source;
use crate::machine_file::MachineFile;
use crate::plan::{MachineOptions, Options};
use crate::workload::Registry;

/// The selected run: its plan has one policy, one machine and one seed. Prints on stderr which run
/// it is.
pub(super) fn plan(registry: &Registry, args: &OneRunArgs) -> Result<RunPlan, CliError> {
    let path = Path::new(&args.what);
    let plan = match source::of(registry, &args.what)? {
        source::Source::Experiment => of_experiment(registry, args)?,
        source::Source::Explained(_) => {
            let reason = "holds an explanation; this needs an experiment, or results";
            return Err(CliError::new(format!("{}: {reason}", args.what)));
        }
        source::Source::Results(document) => {
            refuse_options(args)?;
            let mut plan = source::repeat(registry, &document, path)?;
            // The one with something to see.
            if let Some((run, slowest)) = document.slowest() {
                if args.policy.is_none() {
                    plan.policies.retain(|(_, label)| *label == run.label);
                }
                if args.machine.machine.is_none() {
                    plan.machines.retain(|machine| machine.name == run.machine);
                }
                plan.seed = slowest.seed;
            }
            of_results(&mut plan, args)?;
            plan
        }
    };
    let (Some(machine), Some(policy)) = (plan.machines.first(), plan.policies.first()) else {
        let (what, reason) = (&args.what, "nothing is left to run: no machine, or no policy");
        return Err(CliError::new(format!("{what}: {reason}")));
    };
    let (name, label) = (&machine.name, &policy.1);
    remark(&format!("{}: {label} on {name}, seed {}", plan.experiment.name, plan.seed));
    let (machines, policies) = (vec![machine.clone()], vec![policy.clone()]);
    Ok(RunPlan { machines, policies, jobs: 1, ..plan })
}

/// Reduces the plan of results to the selected run.
fn of_results(plan: &mut RunPlan, args: &OneRunArgs) -> Result<(), CliError> {
    let refused = |option: &str, name: &str, names: Vec<&str>| {
        let (dir, names) = (&args.what, names.join(", "));
        let what = option.trim_start_matches("--");
        CliError::new(format!("{option} {name}: {dir} has no such {what}; it has {names}"))
    };
    if let Some(name) = &args.policy {
        let known = plan.policies.clone();
        plan.policies.retain(|policy| is_called(policy, name));
        if plan.policies.is_empty() {
            let labels = known.iter().map(|(_, label)| label.as_str()).collect();
            return Err(refused("--policy", name, labels));
        }
    }
    if let Some(name) = &args.machine.machine {
        let is_it = |machine: &MachineFile| machine.name == *name;
        if !plan.machines.iter().any(is_it) {
            let names = plan.machines.iter().map(|machine| machine.name.as_str()).collect();
            return Err(refused("--machine", name, names));
        }
        plan.machines.retain(is_it);
    }
    plan.seed = args.seed.unwrap_or(plan.seed);
    Ok(())
}

fn is_called((policy, label): &(Policy, String), name: &str) -> bool {
    policy.name == name || label == name
}

/// The run as `compare` would do it. A policy is given by its heading or name in the experiment, or
/// is any other policy by name or file.
fn of_experiment(registry: &Registry, args: &OneRunArgs) -> Result<RunPlan, CliError> {
    let plan = |options: &Options| run_plan(registry, options);
    let mut options = args.options();
    // A machine of the experiment may be a variant of another, which no file has.
    let mut machine = args.machine.machine.as_deref();
    if let Some(name) = machine {
        let own = Options { machine: MachineOptions::default(), ..options.clone() };
        match plan(&own) {
            Ok(plan) if plan.machines.iter().any(|own| own.name == name) => options = own,
            _ => machine = None,
        }
    }
    let choose = |mut plan: RunPlan| {
        plan.machines.retain(|own| machine.is_none_or(|name| own.name == name));
        plan
    };
    let Some(name) = &args.policy else { return plan(&options).map(choose) };
    for beyond in [false, true] {
        match plan(&Options { beyond, ..options.clone() }) {
            Ok(mut own) => {
                own.policies.retain(|policy| is_called(policy, name));
                if !own.policies.is_empty() {
                    return Ok(choose(own));
                }
            }
            // Some experiments have no policies beyond those of their study.
            Err(_) if beyond => {}
            Err(error) => return Err(error),
        }
    }
    plan(&options.policy(name)).map(choose)
}

/// A directory defines its own run, so these options are refused.
fn refuse_options(args: &OneRunArgs) -> Result<(), CliError> {
    let machine = &args.machine;
    let given = [
        ("--quick", args.quick),
        ("--full", args.full),
        ("--set", !args.set.set.is_empty()),
        ("--mem", machine.mem.is_some()),
        ("--cpus", machine.cpus.is_some()),
        ("--numa", !machine.numa.is_empty()),
        ("--numa-distance", !machine.numa_distance.is_empty()),
        ("--disk", machine.disk.is_some()),
        ("--swap", machine.swap.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => {
            let dir = &args.what;
            Err(CliError::new(format!("{option}: not with a directory; {dir} says what was run")))
        }
    }
}
