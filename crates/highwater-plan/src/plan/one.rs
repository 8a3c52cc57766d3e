//! One run of an experiment or of its results: a policy on a machine with a seed. `trace` and `watch` look at it.

use std::path::Path;

use highwater_core::config::Policy;

use super::resolve::{OPTION, Say, only};
use super::{MachineOptions, Options, PlanError, Size};
use crate::experiment::RunPlan;
use crate::explain::source::{self, Source};
use highwater_files::machine_file::MachineFile;
use highwater_files::machine_file::state::OPTION as STATE;
use highwater_runs::workload::Registry;

/// The choice of one run of an experiment, or of a directory of results.
#[derive(Clone, Debug, PartialEq)]
pub struct OneRunOptions {
    /// The experiment or the directory; for an experiment also the machine and settings.
    pub options: Options,
    /// The policy, by name, heading or file; none: the first, or in results the one with the slowest
    /// operation.
    pub policy: Option<String>,
    /// The seed; none: the first, or in results the one with the slowest operation.
    pub seed: Option<u64>,
}

impl OneRunOptions {
    /// The first run of an experiment, or the run with the slowest operation of a results directory.
    pub fn new(what: impl Into<String>) -> OneRunOptions {
        OneRunOptions { options: Options::compare(what), policy: None, seed: None }
    }

    /// The run: its plan has one policy, one machine and one seed. Remarks go to `say`.
    ///
    /// # Errors
    /// Names the option that is wrong, or that has no effect on a directory.
    pub fn plan(&self, registry: &Registry, say: &mut Say<'_>) -> Result<RunPlan, PlanError> {
        let what = self.options.what.name();
        let plan = match source::of(registry, what)? {
            Source::Experiment => self.of_experiment(registry, say)?,
            Source::Explained(_) => {
                let reason = "holds an explanation; this needs an experiment, or results";
                return Err(PlanError::refused(what, reason));
            }
            Source::Results(document) => {
                self.refuse_options()?;
                let mut plan = source::repeat(registry, &document, Path::new(what))?;
                // The one with something to see.
                if let Some((run, slowest)) = document.slowest() {
                    if self.policy.is_none() {
                        plan.policies.retain(|(_, label)| *label == run.label);
                    }
                    if self.machine().is_none() {
                        plan.machines.retain(|machine| machine.name == run.machine);
                    }
                    plan.seed = slowest.seed;
                }
                self.of_results(&mut plan)?;
                plan
            }
        };
        let (Some(machine), Some(policy)) = (plan.machines.first(), plan.policies.first()) else {
            let reason = "nothing is left to run: no machine, or no policy";
            return Err(PlanError::refused(what, reason));
        };
        let (machines, policies) = (vec![machine.clone()], vec![policy.clone()]);
        Ok(RunPlan { machines, policies, jobs: 1, ..plan })
    }

    /// The name of the machine that was asked for.
    fn machine(&self) -> Option<&str> {
        self.options.machine.arg.name.as_deref()
    }

    /// Reduces the plan of results to the selected run.
    fn of_results(&self, plan: &mut RunPlan) -> Result<(), PlanError> {
        let refused = |option: &str, name: &str, names: Vec<&str>| {
            let (dir, names) = (self.options.what.name(), names.join(", "));
            let what = option.trim_start_matches("--");
            let reason = format!("{dir} has no such {what}; it has {names}");
            PlanError::refused(format!("{option} {name}"), reason)
        };
        if let Some(name) = &self.policy {
            let known = plan.policies.clone();
            plan.policies.retain(|policy| is_called(policy, name));
            if plan.policies.is_empty() {
                let labels = known.iter().map(|(_, label)| label.as_str()).collect();
                return Err(refused(OPTION, name, labels));
            }
        }
        if let Some(name) = self.machine() {
            let is_it = |machine: &MachineFile| machine.name == name;
            if !plan.machines.iter().any(is_it) {
                let names = plan.machines.iter().map(|machine| machine.name.as_str()).collect();
                return Err(refused("--machine", name, names));
            }
            plan.machines.retain(is_it);
        }
        plan.seed = self.seed.unwrap_or(plan.seed);
        Ok(())
    }

    /// The run as `compare` would do it. A policy is given by its heading or name in the experiment, or
    /// is any other policy by name or file.
    fn of_experiment(&self, registry: &Registry, say: &mut Say<'_>) -> Result<RunPlan, PlanError> {
        let mut plan = |options: &Options| only(registry, options, say);
        let seed = self.seed.unwrap_or(self.options.seed);
        let mut options = Options { seed, ..self.options.clone() };
        // A machine of the experiment may be a variant of another, which no file has.
        let mut machine = self.machine();
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
        let Some(name) = &self.policy else { return plan(&options).map(choose) };
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
    fn refuse_options(&self) -> Result<(), PlanError> {
        let Options { size, settings, machine, .. } = &self.options;
        let (arg, storage) = (&machine.arg, &machine.storage);
        let given = [
            ("--quick", *size == Size::Quick),
            ("--full", *size == Size::Full),
            ("--set", !settings.is_empty()),
            ("--mem", arg.mem.is_some()),
            ("--cpus", arg.cpus.is_some()),
            ("--numa", !arg.numa.is_empty()),
            ("--numa-distance", !arg.numa_distance.is_empty()),
            ("--disk", storage.disk.is_some()),
            ("--swap", storage.swap.is_some()),
            (STATE, machine.state.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((option, _)) => {
                let reason =
                    format!("not with a directory; {} says what was run", self.options.what.name());
                Err(PlanError::refused(*option, reason))
            }
        }
    }
}

fn is_called((policy, label): &(Policy, String), name: &str) -> bool {
    policy.name == name || label == name
}
