//! `explain`: the run of an experiment or of results, with the time of its operations booked by
//! cause.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use highwater_results::explain::Explanation;

use super::resolve::{Say, only};
use super::{Options, PlanError, Size, processors};
use crate::experiment::{HostKind, Progress, RunPlan};
use crate::explain::source::{self, Source};
use crate::explain::{self, check_operation, of_operation};
use highwater_files::machine_file::state::OPTION as STATE;
use highwater_runs::workload::Registry;

/// Default number of seeds: one slow operation has one story.
const SEEDS: u32 = 1;
/// Default number of the slowest operations that an explanation has of each run.
const WORST: usize = 5;

/// The subject of `explain`: an experiment, or a directory that `compare --out` or `explain --out`
/// wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainOptions {
    /// The experiment or the directory; of an experiment also its machine, policies and settings.
    /// Seed and host are those below.
    pub options: Options,
    /// The first seed; none: 1, or of results the one with the slowest operation.
    pub seed: Option<u64>,
    /// Where it runs; none: in virtual time, or as results say.
    pub host: Option<HostKind>,
    /// This operation alone, by its name in reports.
    pub op: Option<String>,
    /// Slowest operations of each policy.
    pub worst: usize,
}

/// Something that `explain` can explain now.
#[derive(Clone, Debug)]
pub enum ExplainPlan {
    /// A run, which has to be done.
    Run(Box<RunPlan>),
    /// An explanation that was kept.
    Known(Box<Explanation>),
}

impl ExplainOptions {
    /// Of an experiment, or of a directory.
    pub fn new(what: impl Into<String>) -> ExplainOptions {
        let options = Options::compare(what);
        ExplainOptions { options, seed: None, host: None, op: None, worst: WORST }
    }

    /// Checks everything that can be checked before the run. Remarks go to `say`.
    ///
    /// # Errors
    /// Names the option that is wrong, or that has no effect on a directory.
    pub fn plan(&self, registry: &Registry, say: &mut Say<'_>) -> Result<ExplainPlan, PlanError> {
        let what = self.options.what.name();
        let plan = match source::of(registry, what)? {
            Source::Experiment => only(registry, &self.of_experiment(), say)?,
            Source::Results(document) => {
                self.refuse_options(&[])?;
                let mut plan = source::repeat(registry, &document, Path::new(what))?;
                plan.experiment.iterations = self.options.iterations.unwrap_or(SEEDS);
                // Unless the user asks for several seeds, take the one with the slowest operation.
                if let (None, Some((run, slowest))) = (self.options.iterations, document.slowest())
                {
                    plan.seed = slowest.seed;
                    let (operation, label, machine) =
                        (&slowest.operation, &run.label, &run.machine);
                    let place = format!("{operation} under {label} on {machine}");
                    say(format!("seed {}: the slowest operation, {place}", slowest.seed));
                }
                plan.jobs = self.options.jobs.unwrap_or_else(processors);
                plan
            }
            Source::Explained(mut known) => {
                let Options { iterations, jobs, .. } = &self.options;
                let of_a_run = [("--iterations", iterations.is_some()), ("--jobs", jobs.is_some())];
                self.refuse_options(&of_a_run)?;
                if let Some(op) = &self.op {
                    of_operation(&mut known, op, &[]).map_err(PlanError::Unknown)?;
                }
                known.runs.iter_mut().for_each(|run| run.worst.truncate(self.worst));
                return Ok(ExplainPlan::Known(known));
            }
        };
        let plan = RunPlan { explain: Some(self.worst), only_op: self.op.clone(), ..plan };
        if let Some(op) = &self.op {
            check_operation(&plan, op).map_err(PlanError::Unknown)?;
        }
        Ok(ExplainPlan::Run(Box::new(plan)))
    }

    /// Runs the plan that [`plan`](Self::plan) made.
    ///
    /// # Errors
    /// If a run fails, its host books no time, or the operation did not end in it.
    pub fn run(
        &self,
        plan: &RunPlan,
        progress: &dyn Progress,
        stop: &AtomicBool,
    ) -> Result<Explanation, PlanError> {
        let mut explanation = explain::explain(plan, self.command_line(), progress, stop)?;
        if let Some(op) = &self.op {
            let known = plan.experiment.job.operations();
            of_operation(&mut explanation, op, &known).map_err(PlanError::Unknown)?;
        }
        Ok(explanation)
    }

    /// The command line that explains the same.
    pub fn command_line(&self) -> Vec<String> {
        let options = self.of_experiment();
        let mut words = options.command_line();
        if options.said.is_none() {
            "explain".clone_into(&mut words[1]);
            let worst = Some(self.worst).filter(|worst| *worst != WORST);
            let worst = worst.map(|worst| ["--worst".to_owned(), worst.to_string()]);
            let op = self.op.clone().map(|op| ["--op".to_owned(), op]);
            words.extend(worst.into_iter().chain(op).flatten());
        }
        words
    }

    /// The options of an experiment's run.
    fn of_experiment(&self) -> Options {
        let options = self.options.clone();
        Options {
            seed: self.seed.unwrap_or(options.seed),
            host: self.host.unwrap_or(options.host),
            iterations_unless_set: Some(SEEDS),
            ..options
        }
    }

    /// A directory defines its own run, so these options are refused. `more` lists further options
    /// that do not apply.
    fn refuse_options(&self, more: &[(&str, bool)]) -> Result<(), PlanError> {
        let Options { size, policies, settings, machine, .. } = &self.options;
        let (arg, storage) = (&machine.arg, &machine.storage);
        let given = [
            ("--quick", *size == Size::Quick),
            ("--full", *size == Size::Full),
            ("--seed", self.seed.is_some()),
            ("--host", self.host.is_some()),
            ("--policy", !policies.is_empty()),
            ("--set", !settings.is_empty()),
            ("--machine", arg.name.is_some()),
            ("--mem", arg.mem.is_some()),
            ("--cpus", arg.cpus.is_some()),
            ("--numa", !arg.numa.is_empty()),
            ("--numa-distance", !arg.numa_distance.is_empty()),
            ("--disk", storage.disk.is_some()),
            ("--swap", storage.swap.is_some()),
            (STATE, machine.state.is_some()),
        ];
        match given.iter().chain(more).find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((option, _)) => {
                let dir = self.options.what.name();
                let reason = format!("not with a directory; {dir} says what was run");
                Err(PlanError::refused(*option, reason))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Quiet;

    #[test]
    fn an_experiment_is_explained_and_a_wrong_operation_refused_before_it_runs() {
        let registry = Registry::default();
        let options = Options::compare("003").quick().policy("6.1").machine_of("64M", 2);
        let options = ExplainOptions { options, worst: 1, ..ExplainOptions::new("003") };
        let ExplainPlan::Run(plan) = options.plan(&registry, &mut |_| ()).unwrap() else {
            panic!("an experiment has to run")
        };
        assert_eq!((plan.explain, plan.experiment.iterations), (Some(1), 1));
        let explained = options.run(&plan, &Quiet, &AtomicBool::new(false)).unwrap();
        let words = "highwater explain 003 --quick --mem 64M --cpus 2 --policy 6.1 --worst 1";
        assert_eq!(explained.command_line.join(" "), words);
        assert!(explained.runs.iter().all(|run| run.worst.len() == 1), "the slowest alone");
        // The operations of a job are known before it runs.
        let wrong =
            ExplainOptions { op: Some("nosuch".to_owned()), ..ExplainOptions::new("zipf-reader") };
        let error = wrong.plan(&registry, &mut |_| ()).map(drop).unwrap_err().to_string();
        assert!(error.starts_with("--op: unknown operation \"nosuch\""), "{error}");
    }
}
