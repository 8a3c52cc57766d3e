//! A search: runs at each point, and the results there.

use std::sync::atomic::AtomicBool;

use highwater_results::{Document, EndedEarly};
use thiserror::Error;

use super::objective::Objective;
use super::search::{Found, above, search};
use crate::experiment::{self, Progress, RunPlan};
use highwater_runs::workload::RunError;

/// The question.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// Objectives that must hold in every seed.
    pub objectives: Vec<Objective>,
    /// Between which values.
    pub range: (u64, u64),
    /// Values are multiples of this.
    pub grain: u64,
    /// Required precision of the answer, as a share of it.
    pub within: f64,
    /// A task that is killed or gives up does not count against a value, as long as all objectives hold.
    pub allows_kills: bool,
}

/// A value that cannot run, and why.
#[derive(Debug)]
pub enum Refused<E> {
    /// The machine or the job cannot be with this value.
    Value(String),
    /// Something else: the search ends.
    Other(E),
}

/// Why a search ended without an answer.
#[derive(Debug, Error)]
pub enum FitError<E> {
    /// An objective names something that does not exist.
    #[error("{0}")]
    Objective(String),
    /// A run failed.
    #[error("{0}")]
    Run(#[from] RunError),
    /// The caller's own.
    #[error("{0}")]
    Other(E),
}

/// The progress of a search: what it runs next.
#[derive(Debug)]
pub struct Place<'a> {
    /// The value.
    pub value: u64,
    /// The plan that runs at the value.
    pub plan: &'a RunPlan,
}

/// A tried value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// The value.
    pub value: u64,
    /// Each objective's metric in each seed; `None`: no value there.
    pub figures: Vec<Vec<Option<f64>>>,
    /// Why the first objective without a value has none.
    pub no_figure: Option<&'static str>,
    /// Of each seed which tasks ended before their time.
    pub ended_early: Vec<Vec<EndedEarly>>,
    /// For each seed, whether the value meets all objectives.
    pub keeps: Vec<bool>,
    /// Why nothing could run.
    pub refused: Option<String>,
}

impl Point {
    /// Whether the value meets all objectives in every seed.
    pub fn is_good(&self) -> bool {
        self.refused.is_none() && !self.keeps.is_empty() && self.keeps.iter().all(|&keeps| keeps)
    }

    /// Copies of tasks that the OOM killer chose, in all seeds.
    pub fn killed(&self) -> u64 {
        self.ended_early.iter().flatten().map(|early| u64::from(early.killed)).sum()
    }

    /// Copies of tasks that gave up, in all seeds.
    pub fn failed(&self) -> u64 {
        self.ended_early.iter().flatten().map(|early| u64::from(early.failed)).sum()
    }

    /// Why the value is not good: what ended a task, or the first objective that it misses.
    pub fn why_not(&self, fit: &Fit) -> Option<String> {
        if let Some(reason) = &self.refused {
            return Some(reason.clone());
        }
        let early = self.ended_early.iter().flatten().next().filter(|_| !fit.allows_kills);
        if let Some(early) = early {
            return Some(early.to_string());
        }
        let misses = |(objective, figures): &(&Objective, &Vec<Option<f64>>)| {
            figures.iter().any(|&figure| !objective.holds(figure))
        };
        let (objective, figures) = fit.objectives.iter().zip(&self.figures).find(misses)?;
        let (name, is_below) = (&objective.metric.text, objective.is_below);
        if figures.iter().any(Option::is_none) {
            let reason = self.no_figure.unwrap_or_default();
            return Some(format!("{name}: {reason}"));
        }
        let worst = |a: f64, b: f64| if is_below { a.max(b) } else { a.min(b) };
        let worst = figures.iter().copied().flatten().reduce(worst)?;
        let worst = match objective.metric.is_time() {
            true => crate::metric::time(worst),
            false => format!("{worst:.2}"),
        };
        Some(format!("{name} is {worst}"))
    }
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The tried points, by value.
    pub points: Vec<Point>,
    /// The answer.
    pub found: Found,
}

impl Answer {
    /// The point of a value.
    pub fn at(&self, value: u64) -> Option<&Point> {
        self.points.iter().find(|point| point.value == value)
    }

    /// For a result that is not monotone: the largest value above the answer that misses an
    /// objective.
    pub fn relapse(&self) -> Option<&Point> {
        let (Found::Between { good, .. } | Found::Least(good)) = self.found else { return None };
        self.points.iter().rev().find(|point| point.value > good && !point.is_good())
    }

    /// The least value from which every larger tried value meets the objectives.
    pub fn from_here_on(&self) -> Option<&Point> {
        self.points.iter().rev().take_while(|point| point.is_good()).last()
    }
}

impl Fit {
    /// Runs a search. `plan_at` makes the plan of a value, which tolerates failing tasks. `begin`
    /// is called before each run and returns the progress callback for it.
    ///
    /// The upper end runs first. A value at which nothing can run meets no objective, not even at
    /// the upper end. After the search a few values above the answer run, between those already
    /// tried. Halving a range assumes that more is never worse, and [`Answer::relapse`] says where
    /// that was wrong.
    ///
    /// # Errors
    /// If an objective names something that does not exist, a run fails, or the caller's functions
    /// fail.
    pub fn run<E, P: Progress>(
        &self,
        mut plan_at: impl FnMut(u64) -> Result<RunPlan, Refused<E>>,
        mut begin: impl FnMut(&Place<'_>) -> P,
        stop: &AtomicBool,
    ) -> Result<Answer, FitError<E>> {
        let mut points: Vec<Point> = Vec::new();
        let mut errors: Vec<RunError> = Vec::new();
        let mut measure = |value: u64| -> Result<bool, FitError<E>> {
            let refused =
                |reason: String| Point { value, refused: Some(reason), ..Point::default() };
            let point = match plan_at(value) {
                Err(Refused::Value(reason)) => refused(reason),
                Err(Refused::Other(error)) => return Err(FitError::Other(error)),
                Ok(plan) => {
                    let progress = begin(&Place { value, plan: &plan });
                    match experiment::run(&plan, &progress, stop) {
                        Ok(document) => self.point(value, &document)?,
                        Err(error) if cannot_start(&error) => {
                            let reason = why(&error);
                            errors.push(error);
                            refused(reason)
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
            };
            let is_good = point.is_good();
            points.push(point);
            Ok(is_good)
        };
        let mut tried = Vec::new();
        let found = search(self.range, self.grain, self.within, |value| {
            tried.push(value);
            measure(value)
        })?;
        for value in above(found, self.range.1, self.grain, &tried) {
            measure(value)?;
        }
        // If both ends are refused for the same reason, the value is not the cause: the job is
        // wrong.
        if matches!(found, Found::Nothing(_)) && !tried.contains(&self.range.0) {
            measure(self.range.0)?;
            let reasons: Vec<_> = points.iter().map(|point| point.refused.clone()).collect();
            if let [Some(first), .., Some(last)] = &reasons[..]
                && first == last
                && let Some(error) = errors.pop()
            {
                return Err(error.into());
            }
            points.pop();
        }
        points.sort_by_key(|point| point.value);
        Ok(Answer { points, found })
    }

    /// The point of a finished run.
    fn point<E>(&self, value: u64, document: &Document) -> Result<Point, FitError<E>> {
        let mut point = Point { value, ..Point::default() };
        let Some(run) = document.runs.first() else { return Ok(point) };
        for objective in &self.objectives {
            let figures = objective.values(document, run).map_err(FitError::Objective)?;
            if figures.iter().any(Option::is_none) {
                let why = || objective.metric.why_none(document, run);
                point.no_figure.get_or_insert_with(why);
            }
            point.figures.push(figures);
        }
        point.ended_early = run.per_seed.iter().map(|totals| totals.ended_early.clone()).collect();
        for (at, early) in point.ended_early.iter().enumerate() {
            let holds = |(objective, figures): (&Objective, &Vec<Option<f64>>)| {
                objective.holds(figures.get(at).copied().flatten())
            };
            let all = self.objectives.iter().zip(&point.figures).all(holds);
            point.keeps.push(all && (self.allows_kills || early.is_empty()));
        }
        Ok(point)
    }
}

/// Why nothing could run, in words.
fn why(error: &RunError) -> String {
    match error {
        RunError::Boot(reason) => format!("the machine does not boot: {reason}"),
        error => error.to_string(),
    }
}

/// The machine or the job cannot begin: there is too little of something.
fn cannot_start(error: &RunError) -> bool {
    matches!(
        error,
        RunError::Machine { .. }
            | RunError::Boot(_)
            | RunError::Room(_)
            | RunError::Workload { .. }
            | RunError::At { .. }
    )
}
