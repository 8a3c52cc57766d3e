//! `bisect`: which switches of two policies explain how a figure changes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::resolve::{Say, only};
use super::{Options, PlanError, Size};
use crate::bisect::{Bisect, BisectError, Report};
use crate::experiment::unit::UnitStore;
use crate::experiment::{Progress, RunPlan};
use crate::metric::MetricName;
use crate::sysctls;
use highwater_runs::workload::job::Job;
use highwater_runs::workload::{Registry, Workload};

/// Default number of seeds of each trial.
const SEEDS: u32 = 5;
/// The same with `--quick`.
const SEEDS_QUICK: u32 = 3;

/// The search of `bisect`: the switches between two policies that change a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct BisectOptions {
    /// The job, its machine, its two policies, further settings. `iterations` are the seeds of each
    /// trial; none: 5, or the job's number if it is larger, and 3 with `--quick`.
    pub options: Options,
    /// The figure, by name.
    pub metric: String,
}

impl BisectOptions {
    /// A search for the switches that change a job's figure from one policy to another.
    pub fn new(
        from: impl Into<String>,
        to: impl Into<String>,
        job: impl Into<String>,
        metric: impl Into<String>,
    ) -> BisectOptions {
        let options = Options::compare(job).policy(from).policy(to);
        BisectOptions { options: Options { ends: true, ..options }, metric: metric.into() }
    }

    /// Checks everything that can be checked before the first run. Remarks go to `say`.
    ///
    /// # Errors
    /// Names the option or the policy that is wrong.
    pub fn plan(&self, registry: &Registry, say: &mut Say<'_>) -> Result<BisectPlan, PlanError> {
        let metric = MetricName::new(&self.metric);
        if let [from, to] = &self.options.policies[..]
            && from == to
        {
            let reason = "A and B are the same policy: there is nothing to explain";
            return Err(PlanError::refused(from, reason));
        }
        let mut plan = only(registry, &self.options, say)?;
        let own = plan.experiment.iterations;
        plan.experiment.iterations = self.options.iterations.unwrap_or(match self.options.size {
            Size::Quick => SEEDS_QUICK,
            _ => own.max(SEEDS),
        });
        if plan.machines.len() != 1 {
            let machines: Vec<&str> = plan.machines.iter().map(|m| m.name.as_str()).collect();
            let reason = "bisect is of one machine; --machine says which";
            let reason = format!("{reason} ({})", machines.join(", "));
            return Err(PlanError::refused(&plan.experiment.name, reason));
        }
        if let [from, to] = &plan.policies[..]
            && let Some(reason) = sysctls::of_one_end(&plan.machines, from, to)
        {
            return Err(PlanError::Unknown(reason));
        }
        // Before anything runs; of other workloads only results know which operations there are.
        if plan.experiment.job.entry().name == Job::NAME {
            let metrics = plan.experiment.job.metrics(&plan.machines);
            let wrong = |reason: String| PlanError::refused("--metric", reason);
            metric.check(&metrics).map_err(wrong)?;
            let job = &*plan.experiment.job;
            metric.check_counted(job, &plan.machines, &plan.policies).map_err(wrong)?;
        }
        Ok(BisectPlan { run: plan, bisect: Bisect { metric } })
    }
}

/// A search that can begin.
#[derive(Clone, Debug)]
pub struct BisectPlan {
    /// The two ends.
    pub run: RunPlan,
    bisect: Bisect,
}

impl BisectPlan {
    /// Runs the search. It calls `begin` before each batch of policies and reports that batch's
    /// progress to the receiver that `begin` returns. Finished units are kept in the store.
    ///
    /// # Errors
    /// If the figure is not there, a run fails, or `stop` is set.
    pub fn run<P: Progress>(
        &self,
        store: Option<&Arc<UnitStore>>,
        begin: impl FnMut(&RunPlan) -> P,
        stop: &AtomicBool,
    ) -> Result<Report, PlanError> {
        let run = RunPlan { units: store.map(Arc::clone), ..self.run.clone() };
        self.bisect.run(&run, begin, stop).map_err(|error| match error {
            BisectError::Metric(reason) => PlanError::refused("--metric", reason),
            BisectError::Run(error) => error.into(),
            error => PlanError::Unknown(error.to_string()),
        })
    }
}
