//! The units of a plan, which any process can run one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use highwater_sim::engine::Passed;

use super::results::{PointResults, Results};
use super::{PlanError, processors};
use crate::experiment::unit::{Recipe, UnitId, UnitRan, UnitStore, Units};
use crate::experiment::{self, HostKind, Progress, Ran, RunPlan, UnitOf, on_threads};
use highwater_runs::workload::RunError;

/// The runs of some options, with every name resolved ([`Options::plan`](super::Options::plan)).
#[derive(Clone, Debug)]
pub struct Plan {
    /// The keys that vary; empty if the plan has one point.
    pub keys: Vec<String>,
    /// The points, in the order in which they run.
    pub points: Vec<Point>,
    /// Remarks about names and values that were added, dropped or ignored, one line each.
    pub remarks: Vec<String>,
    /// The command that runs the same, for results.
    pub command_line: Vec<String>,
    /// Whether reports show histograms of throttled sleeps.
    pub(super) histograms: bool,
}

/// An experiment at one combination of values.
#[derive(Clone, Debug)]
pub struct Point {
    /// The values of [`Plan::keys`].
    pub values: Vec<String>,
    /// The name of the running command.
    pub run: RunPlan,
}

/// A unit of work: a policy on a machine with a seed, or a part of that (a step of stutterp).
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedUnit {
    /// The SHA-256 of everything that decides the bytes of its result.
    pub id: UnitId,
    /// The number of its point in [`Plan::points`].
    pub point: usize,
    /// The machine.
    pub machine: String,
    /// The policy.
    pub policy: String,
    /// The heading of the policy's column in reports.
    pub label: String,
    /// The seed.
    pub seed: u64,
    /// Number of the part of the cell, from 0.
    pub part: usize,
    /// Estimated CPU seconds, right to a factor of 2; none if there is no estimate.
    pub seconds: Option<f64>,
}

/// The units of a plan by id ([`Plan::index`]).
#[derive(Clone, Debug)]
pub struct UnitIndex {
    /// Number of the point, number of the unit there, recipe.
    places: BTreeMap<UnitId, (usize, usize, Recipe)>,
    nr_units: usize,
}

impl UnitIndex {
    /// The recipes of all units, each id once, in ascending order of ids.
    pub fn recipes(&self) -> impl Iterator<Item = &Recipe> {
        self.places.values().map(|(_, _, recipe)| recipe)
    }
}

impl Plan {
    /// A plan of one resolved point, without keys that vary.
    pub fn of(run: RunPlan, command_line: Vec<String>) -> Plan {
        Plan {
            keys: Vec::new(),
            points: vec![Point { values: Vec::new(), run }],
            remarks: Vec::new(),
            command_line,
            histograms: false,
        }
    }

    /// The recipes of all units, in the order of [`Plan::units`].
    ///
    /// # Errors
    /// As [`Plan::units`].
    pub fn recipes(&self) -> Result<Vec<Recipe>, PlanError> {
        let of_points = self.points.iter().map(|point| point.run.recipes());
        Ok(of_points.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// The run of each point.
    pub fn runs(&self) -> Vec<&RunPlan> {
        self.points.iter().map(|point| &point.run).collect()
    }

    /// All units, point by point, in the order in which results are put together. Units of two points with the same id
    /// are one: they run once.
    ///
    /// # Errors
    /// If a unit runs custom code of this program, and the executable cannot be read.
    pub fn units(&self) -> Result<Vec<PlannedUnit>, PlanError> {
        let mut units = Vec::new();
        for (point, Point { run, .. }) in self.points.iter().enumerate() {
            for of in run.units() {
                let id = run.recipe_of(&of)?.id();
                let seconds = run.seconds_of(&of);
                let (unit, label) = (of.unit, of.label.to_owned());
                let (machine, policy) = (unit.machine.name.clone(), unit.policy.name.clone());
                let (seed, part) = (unit.seed, unit.part);
                units.push(PlannedUnit { id, point, machine, policy, label, seed, part, seconds });
            }
        }
        Ok(units)
    }

    /// Runs everything, point after point. With a store each unit is kept there as soon as it is finished, and taken from
    /// there if an earlier run had kept it.
    ///
    /// # Errors
    /// The error of the first unit that failed, or [`RunError::Interrupted`] once `stop` is set.
    /// Finished units stay in the store.
    pub fn run(
        &self,
        store: Option<&Arc<UnitStore>>,
        progress: &dyn Progress,
        stop: &AtomicBool,
    ) -> Result<Results, PlanError> {
        let nr_units: Vec<usize> =
            self.points.iter().map(|point| point.run.units().len()).collect();
        let total = nr_units.iter().sum();
        let mut points = Vec::new();
        for (at, nr_before) in (0..self.points.len()).map(|at| (at, nr_units[..at].iter().sum())) {
            let of_all = OfAll { progress, nr_before, total };
            points.push(self.run_point(at, store, &of_all, stop)?);
        }
        Ok(Results::new(self, points))
    }

    /// Runs one point; its results name the command.
    ///
    /// # Errors
    /// As [`Plan::run`].
    ///
    /// # Panics
    /// If `at` is out of range.
    pub fn run_point(
        &self,
        at: usize,
        store: Option<&Arc<UnitStore>>,
        progress: &dyn Progress,
        stop: &AtomicBool,
    ) -> Result<PointResults, PlanError> {
        let Point { values, run } = &self.points[at];
        let ran = match store {
            Some(store) => {
                let units = Some(Arc::clone(store));
                experiment::run_all(&RunPlan { units, ..run.clone() }, progress, stop)?
            }
            None => experiment::run_all(run, progress, stop)?,
        };
        self.finished(values, ran)
    }

    /// Runs units by id, in the order of the ids, on all of the plan's jobs. Each finished unit is
    /// kept in the store at once, and a unit that the store already has does not run again. Any
    /// process with an equal plan can do that.
    ///
    /// # Errors
    /// If the plan has no such unit, one fails, or `stop` is set.
    pub fn run_units(
        &self,
        ids: &[UnitId],
        store: &dyn Units,
        progress: &dyn Progress,
        stop: &AtomicBool,
    ) -> Result<(), PlanError> {
        self.run_indexed(&self.index()?, ids, store, progress, stop)
    }

    /// All units by id. Recipes take time to make, so a program that calls [`Plan::run_indexed`]
    /// often makes them once.
    ///
    /// # Errors
    /// As [`Plan::units`].
    pub fn index(&self) -> Result<UnitIndex, PlanError> {
        let (mut places, mut nr_units) = (BTreeMap::new(), 0);
        for (point, Point { run, .. }) in self.points.iter().enumerate() {
            for (at, unit) in run.units().iter().enumerate() {
                let recipe = run.recipe_of(unit)?;
                nr_units += 1;
                places.insert(recipe.id(), (point, at, recipe));
            }
        }
        Ok(UnitIndex { places, nr_units })
    }

    /// As [`Plan::run_units`], with the index of this plan.
    ///
    /// # Errors
    /// As [`Plan::run_units`].
    ///
    /// # Panics
    /// If the index is that of another plan.
    pub fn run_indexed(
        &self,
        index: &UnitIndex,
        ids: &[UnitId],
        store: &dyn Units,
        progress: &dyn Progress,
        stop: &AtomicBool,
    ) -> Result<(), PlanError> {
        self.refuse_native()?;
        let nr_units = index.nr_units;
        let place =
            |id: &UnitId| index.places.get(id).ok_or(PlanError::NoSuchUnit { id: *id, nr_units });
        let wanted = ids.iter().map(place).collect::<Result<Vec<_>, _>>()?;
        let units: Vec<Vec<UnitOf<'_>>> =
            self.points.iter().map(|point| point.run.units()).collect();
        let done = AtomicUsize::new(0);
        let run_one = |at: usize| -> Result<(), PlanError> {
            let (point, unit, recipe) = wanted[at];
            let (run, unit) = (&self.points[*point].run, &units[*point][*unit]);
            let is_there = store.get(recipe).is_some();
            if !is_there {
                store.put(recipe, &run.run_unit(unit, progress.clock())?)?;
            }
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            match is_there {
                true => progress.cell_found(done, ids.len()),
                false => progress.cell_done(done, ids.len()),
            }
            Ok(())
        };
        let jobs = self.points.first().map_or_else(processors, |point| point.run.jobs);
        on_threads(wanted.len(), jobs, stop, &run_one)?;
        match stop.load(Ordering::Relaxed) {
            true => Err(RunError::Interrupted.into()),
            false => Ok(()),
        }
    }

    /// Collects the results from directories of finished units: [`UnitStore`]s of any number of
    /// processes or computers, or `--out DIR`. Nothing runs. The bytes are those of [`Plan::run`].
    ///
    /// # Errors
    /// If a unit is in none of them, or a directory cannot be opened because a process still writes to it.
    pub fn collect<D: AsRef<Path>>(&self, dirs: &[D]) -> Result<Results, PlanError> {
        self.refuse_native()?;
        let stores: Vec<UnitStore> =
            dirs.iter().map(|dir| UnitStore::open(dir.as_ref())).collect::<Result<_, _>>()?;
        self.collect_from(&stores.iter().map(|store| store as &dyn Units).collect::<Vec<_>>())
    }

    /// The same from places that are open.
    ///
    /// # Errors
    /// If a unit is in none of them.
    pub fn collect_from(&self, places: &[&dyn Units]) -> Result<Results, PlanError> {
        self.refuse_native()?;
        let (mut missing, mut nr_units, mut first) = (BTreeSet::new(), 0, None);
        let mut points = Vec::new();
        for (at, Point { values, run }) in self.points.iter().enumerate() {
            let mut ran: Vec<UnitRan> = Vec::new();
            for unit in run.units() {
                let recipe = run.recipe_of(&unit)?;
                nr_units += 1;
                match places.iter().find_map(|place| place.get(&recipe)) {
                    Some(found) => ran.push(found),
                    None => {
                        missing.insert(recipe.id());
                        first.get_or_insert_with(|| self.in_words(at, &unit, recipe.id()));
                    }
                }
            }
            if missing.is_empty() {
                points.push(self.finished(values, run.join(ran))?);
            }
        }
        match first {
            Some(first) => Err(PlanError::Missing { nr: missing.len(), nr_units, first }),
            None => Ok(Results::new(self, points)),
        }
    }

    fn in_words(&self, at: usize, of: &UnitOf<'_>, id: UnitId) -> String {
        let unit = &of.unit;
        let point = match self.keys.is_empty() {
            true => String::new(),
            false => format!("{}, ", self.said(at)),
        };
        let (machine, seed, part) = (&unit.machine.name, unit.seed, unit.part);
        format!("{point}{} on {machine}, seed {seed}, part {part} ({id})", of.label)
    }

    /// A point in words: `vm.swappiness=10 cpus=4`.
    pub fn said(&self, at: usize) -> String {
        let values = self.points.get(at).into_iter().flat_map(|point| &point.values);
        let pairs = self.keys.iter().zip(values).map(|(key, value)| format!("{key}={value}"));
        pairs.collect::<Vec<_>>().join(" ")
    }

    /// Adds the plan's data to a point's results.
    fn finished(&self, values: &[String], mut ran: Ran) -> Result<PointResults, PlanError> {
        use highwater_results::Section;
        let document = &mut ran.document;
        document.command_line.clone_from(&self.command_line);
        if self.histograms {
            // Inserted before the study's main section, which is last.
            let at = document.sections.len().saturating_sub(1);
            document.sections.insert(at, Section::Histograms);
        }
        document.validate().map_err(|error| PlanError::Document(error.to_string()))?;
        Ok(PointResults { values: values.to_vec(), ran })
    }

    /// A measurement on a computer differs the next time, so it is not kept.
    fn refuse_native(&self) -> Result<(), PlanError> {
        match self.points.iter().any(|point| point.run.host == HostKind::Native) {
            true => {
                let reason = "measures this computer; only simulated units can be kept";
                Err(PlanError::refused("--host native", reason))
            }
            false => Ok(()),
        }
    }
}

/// Progress of one point, counted over all of them.
struct OfAll<'a> {
    progress: &'a dyn Progress,
    nr_before: usize,
    total: usize,
}

impl Progress for OfAll<'_> {
    fn cell_done(&self, done: usize, _: usize) {
        self.progress.cell_done(self.nr_before + done, self.total);
    }

    fn cell_found(&self, done: usize, _: usize) {
        self.progress.cell_found(self.nr_before + done, self.total);
    }

    fn clock(&self) -> Option<&Arc<Passed>> {
        self.progress.clock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Quiet;
    use crate::plan::Options;
    use highwater_runs::workload::Registry;

    static GO: AtomicBool = AtomicBool::new(false);

    /// Two points, two seeds each.
    fn options() -> Options {
        let unmap = Options::run("unmap").machine_of("64M", 2).disk("nvme").swap("8M").jobs(2);
        unmap.set("unmap.rounds=1").vary("vm.swappiness", ["0", "60"]).iterations(2)
    }

    fn plan() -> Plan {
        options().plan(&Registry::default()).unwrap()
    }

    #[test]
    fn units_run_by_id_anywhere_are_the_plan_run_at_once() {
        let plan = plan();
        let units = plan.units().unwrap();
        assert_eq!(units.len(), 4);
        assert_eq!((units[3].point, units[3].seed, &*units[3].label), (1, 2, "6.1"));
        // Another process makes the same plan.
        let again = self::plan().units().unwrap();
        assert_eq!(units, again);
        let ids: Vec<UnitId> = units.iter().map(|unit| unit.id).collect();
        let [one, two] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let run = |ids: &[UnitId], dir: &Path| {
            let store = UnitStore::create(dir).unwrap();
            plan.run_units(ids, &store, &Quiet, &GO).unwrap();
            store.kept().written
        };
        assert_eq!(run(&ids[..3], one.path()), 3);
        let dirs = [one.path(), two.path()];
        let missing = plan.collect(&dirs).unwrap_err().to_string();
        let first = "1 of 4 units are not in the stores; the first: vm.swappiness=60, 6.1 on ";
        assert!(missing.starts_with(first), "{missing}");
        assert!(missing.contains("seed 2, part 0") && missing.contains(&ids[3].to_string()));
        // Units that are there do not run again.
        assert_eq!(run(&ids[2..], two.path()), 2);
        assert_eq!(run(&ids[2..], two.path()), 0);
        let collected = plan.collect(&dirs).unwrap();
        let ran = plan.run(None, &Quiet, &GO).unwrap();
        assert!(collected.documents().eq(ran.documents()));
        assert_eq!(collected.grid().csv(), ran.grid().csv());
        let words = collected.documents().next().unwrap().command_line.join(" ");
        assert_eq!(
            words,
            "highwater run unmap --iterations 2 --mem 64M --cpus 2 --disk nvme --swap 8M --set unmap.rounds=1 --vary \
             vm.swappiness=0,60"
        );
    }

    #[test]
    fn a_plan_stops_and_refuses_what_is_not_its_own() {
        let plan = plan();
        let stop = AtomicBool::new(true);
        let is_stopped = |error| matches!(error, PlanError::Run(RunError::Interrupted));
        assert!(is_stopped(plan.run(None, &Quiet, &stop).unwrap_err()));
        let dir = tempfile::tempdir().unwrap();
        let store = UnitStore::create(dir.path()).unwrap();
        let id = plan.units().unwrap()[0].id;
        assert!(is_stopped(plan.run_units(&[id], &store, &Quiet, &stop).unwrap_err()));
        assert!(store.is_empty());
        let other = options().seed(7).plan(&Registry::default()).unwrap();
        let error = other.run_units(&[id], &store, &Quiet, &GO).unwrap_err();
        assert!(matches!(error, PlanError::NoSuchUnit { nr_units: 4, .. }), "{error}");
    }

    #[test]
    fn what_was_added_is_remarked_once_and_errors_name_the_option() {
        let options = Options::run("unmap").machine_of("64M", 2).swap("8M");
        let options = options.vary("unmap.rounds", ["1", "2"]);
        let plan = options.plan(&Registry::default()).unwrap();
        assert_eq!(plan.remarks, ["--swap: on a SATA SSD; --disk says which disk"]);
        let error = |options: &Options| {
            options.plan(&Registry::default()).map(drop).unwrap_err().to_string()
        };
        let rounds = error(&Options::run("unmap").machine_of("64M", 2).set("unmap.rounds=x"));
        assert!(rounds.starts_with("--set unmap.rounds=x: must be a number"), "{rounds}");
        let varied = error(&options.vary("vm.swappiness", ["1", "999"]));
        assert!(varied.starts_with("--vary vm.swappiness=999: tunables.swappiness"), "{varied}");
    }
}
