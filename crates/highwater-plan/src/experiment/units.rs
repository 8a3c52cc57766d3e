//! The units of a plan one by one: which there are, runs of single ones, and what all of them leave together.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use highwater_sim::engine::Passed;

use super::runner::{self, Ran, RunPlan};
use super::unit::{Recipe, UnitRan};
use highwater_runs::workload::{RunError, Unit};

/// A unit of work of a plan.
#[derive(Clone, Copy, Debug)]
pub struct UnitOf<'a> {
    /// The unit.
    pub unit: Unit<'a>,
    /// The heading of its policy's column.
    pub label: &'a str,
}

impl RunPlan {
    /// All units, in the order of the plan: machine by machine, seed by seed, policy by policy, part by part.
    pub fn units(&self) -> Vec<UnitOf<'_>> {
        let cells = runner::cells(self);
        let units = runner::units(self, &cells);
        // Policies are innermost in the plan.
        let label = |cell: usize| self.policies[cell % self.policies.len()].1.as_str();
        let of = |(cell, part): (usize, usize)| UnitOf {
            unit: Unit { part, ..cells[cell] },
            label: label(cell),
        };
        units.into_iter().map(of).collect()
    }

    /// Everything that decides the bytes of a unit's result.
    ///
    /// # Errors
    /// As [`Recipe::of`].
    pub fn recipe_of(&self, unit: &UnitOf<'_>) -> Result<Recipe, RunError> {
        runner::recipe(self, unit.unit)
    }

    /// Seconds that a unit takes of a processor, to half or double; none: nobody knows.
    pub fn seconds_of(&self, unit: &UnitOf<'_>) -> Option<f64> {
        let Unit { machine, part, .. } = unit.unit;
        self.experiment.job_on(&machine.name).seconds(machine, part)
    }

    /// Runs a unit; virtual time and events are added to the clock as they pass.
    ///
    /// # Errors
    /// If it cannot be run, or memory is not consistent afterwards.
    pub fn run_unit(
        &self,
        unit: &UnitOf<'_>,
        clock: Option<&Arc<Passed>>,
    ) -> Result<UnitRan, RunError> {
        runner::run_unit(self, Unit { clock, ..unit.unit })
    }

    /// Joins the results of all units, as if they had run here. They stand in the order of
    /// [`RunPlan::units`].
    pub fn join(&self, ran: Vec<UnitRan>) -> Ran {
        runner::join(self, ran)
    }
}

/// Calls `run` with each number below `nr`, on so many threads, until `stop` is set or one fails: of errors the first in
/// order is returned.
///
/// # Errors
/// That of `run`.
pub(crate) fn on_threads<E: Send>(
    nr: usize,
    jobs: usize,
    stop: &AtomicBool,
    run: &(dyn Fn(usize) -> Result<(), E> + Sync),
) -> Result<(), E> {
    let starts: Vec<usize> = (0..nr).collect();
    let is_over = || stop.load(std::sync::atomic::Ordering::Relaxed);
    runner::in_order(&starts, jobs, &is_over, run).map(drop)
}
