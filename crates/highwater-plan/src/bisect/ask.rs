//! Trials: policies between A and B, run with the same seeds.

use std::sync::atomic::AtomicBool;

use thiserror::Error;

use super::report::Report;
use super::search::{Parts, find};
use crate::experiment::{self, Progress, RunPlan, between};
use crate::metric::MetricName;
use highwater_runs::workload::RunError;

/// The question: which switches change a metric?
#[derive(Clone, Debug, PartialEq)]
pub struct Bisect {
    /// The metric.
    pub metric: MetricName,
}

/// Why there is no report.
#[derive(Debug, Error)]
pub enum BisectError {
    /// The plan does not have exactly two policies on one machine.
    #[error("a change is taken apart between two policies, on one machine")]
    Shape,
    /// The policies do not differ.
    #[error("{0} and {1} are the same policy")]
    Same(String, String),
    /// One seed cannot separate an effect from chance.
    #[error("one seed cannot separate an effect from chance: use at least 2 seeds, better 5")]
    OneSeed,
    /// The results have no such metric.
    #[error("{0}")]
    Metric(String),
    /// The metric has no value for a policy in a seed.
    #[error("{metric} has no value under {policy} in a seed: {reason}; choose another figure")]
    NoValue {
        /// Why.
        reason: &'static str,
        /// The figure.
        metric: String,
        /// The policy.
        policy: String,
    },
    /// A run failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl Bisect {
    /// Searches between the two policies of a plan. `begin` is called before each batch with the
    /// runs of the batch, and returns the progress callback for them.
    ///
    /// # Errors
    /// If the plan does not have two policies on one machine, the results do not have the metric,
    /// or a run fails.
    pub fn run<P: Progress>(
        &self,
        plan: &RunPlan,
        mut begin: impl FnMut(&RunPlan) -> P,
        stop: &AtomicBool,
    ) -> Result<Report, BisectError> {
        let ([from, to], [machine]) = (&plan.policies[..], &plan.machines[..]) else {
            return Err(BisectError::Shape);
        };
        let points = from.0.differences(&to.0);
        if points.is_empty() {
            return Err(BisectError::Same(from.1.clone(), to.1.clone()));
        }
        if plan.experiment.iterations < 2 {
            return Err(BisectError::OneSeed);
        }
        let ends = &plan.policies;
        let counted = self.metric.check_counted(&*plan.experiment.job, &plan.machines, ends);
        counted.map_err(BisectError::Metric)?;
        let mut parts = Parts::new(points.len());
        let (mut unit, mut seeds) = (String::new(), Vec::new());
        let found = find(&mut parts, |parts, sets| {
            let policies = sets.iter().map(|set| between(from, to, &points, set)).collect();
            // A trial needs only the metrics: no explanation and no story.
            let batch = RunPlan { policies, explain: None, story: None, ..plan.clone() };
            let progress = begin(&batch);
            let document = experiment::run(&batch, &progress, stop)?;
            drop(progress);
            for (set, run) in sets.into_iter().zip(&document.runs) {
                let values = self.metric.values(&document, run).map_err(BisectError::Metric)?;
                let is_end = set.is_empty() || set.len() == points.len();
                if is_end && values.iter().any(Option::is_none) {
                    let (metric, policy) = (self.metric.text.clone(), run.label.clone());
                    let reason = self.metric.why_none(&document, run);
                    return Err(BisectError::NoValue { reason, metric, policy });
                }
                seeds.clone_from(&run.seeds);
                parts.add(set, values);
            }
            unit = self.metric.unit(&document);
            Ok(())
        })?;
        let ends = [from.1.clone(), to.1.clone()];
        let mut report = Report::new(&self.metric.text, &unit, ends, &points, &parts, &found);
        report.experiment.clone_from(&plan.experiment.name);
        report.machine.clone_from(&machine.name);
        report.settings.clone_from(&plan.settings);
        report.seeds = seeds;
        Ok(report)
    }
}
