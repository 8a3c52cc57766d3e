//! Plans: units, runs of all or of some, collected results.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use highwater::experiment::unit::{UNITS_DIR, UnitId, UnitStore, Units};
use highwater::input::held::{self, Texts};
use highwater::ledger::sweep::SweepError;
use highwater::ledger::{Ledger, Sweep, keep, ledger::Look, verify};
use highwater::plan;
use highwater::plan::{Options, PlanError, UnitIndex};
use highwater::workload::Registry;
use pyo3::prelude::*;

use crate::error::Failed;
use crate::results::Results;
use crate::spec::Given;
use crate::work::Caller;

/// A unit: id, point, machine, policy, label, seed, part, seconds.
type Unit = (String, usize, String, String, String, u64, usize, Option<f64>);

/// A plan of the library, with the texts of all files that it was made from.
#[pyclass(frozen, module = "highwater._highwater")]
pub(crate) struct Plan {
    options: Options,
    plan: Arc<plan::Plan>,
    /// The units by id, once somebody asked for one.
    index: Mutex<Option<Arc<UnitIndex>>>,
    /// The options as JSON.
    #[pyo3(get)]
    spec: String,
    /// Texts of files, by path.
    #[pyo3(get)]
    texts: Texts,
}

#[pymethods]
impl Plan {
    #[new]
    fn new(py: Python<'_>, spec: String, texts: Texts) -> PyResult<Plan> {
        let made = py.detach(|| -> Result<_, Failed> {
            let given = Given::new(&spec, texts)?;
            let options = given.spec.options();
            let registry = Registry::default();
            let (plan, texts) = held::with(&given.texts, || options.plan(&registry));
            Ok((plan?, options, texts))
        });
        let (plan, options, texts) = made?;
        Ok(Plan { options, plan: Arc::new(plan), index: Mutex::default(), spec, texts })
    }

    /// Remarks about names and values that were added, dropped or ignored.
    #[getter]
    fn remarks(&self) -> Vec<String> {
        self.plan.remarks.clone()
    }

    /// The command that runs the same.
    #[getter]
    fn command_line(&self) -> Vec<String> {
        self.plan.command_line.clone()
    }

    /// Keys that vary.
    #[getter]
    fn keys(&self) -> Vec<String> {
        self.plan.keys.clone()
    }

    /// Their values at each point.
    #[getter]
    fn points(&self) -> Vec<Vec<String>> {
        self.plan.points.iter().map(|point| point.values.clone()).collect()
    }

    /// The options as a plan file.
    fn toml(&self) -> String {
        self.options.to_toml()
    }

    /// All units, in the order in which results are put together.
    fn units(&self, py: Python<'_>) -> PyResult<Vec<Unit>> {
        let units = py.detach(|| self.plan.units()).map_err(Failed::from)?;
        let unit = |unit: plan::PlannedUnit| {
            let plan::PlannedUnit { id, point, machine, policy, label, seed, part, seconds } = unit;
            (id.to_string(), point, machine, policy, label, seed, part, seconds)
        };
        Ok(units.into_iter().map(unit).collect())
    }

    /// Runs everything.
    fn run(
        &self,
        py: Python<'_>,
        jobs: Option<usize>,
        tell: Option<Py<PyAny>>,
        stop: Option<Py<PyAny>>,
    ) -> PyResult<Results> {
        let plan = self.with_jobs(jobs);
        let results = Caller { tell, stop }
            .wait(py, move |watch| Ok(plan.run(None, watch, &watch.stop)?))?;
        Ok(Results::new(results))
    }

    /// Runs units by id into a ledger.
    fn run_units(
        &self,
        py: Python<'_>,
        ids: Vec<String>,
        out: PathBuf,
        jobs: Option<usize>,
        tell: Option<Py<PyAny>>,
        stop: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let (plan, ids) = (self.with_jobs(jobs), read_ids(&ids)?);
        let index = py.detach(|| self.index())?;
        Caller { tell, stop }.wait(py, move |watch| {
            let ledger = Ledger::create(out).map_err(PlanError::from)?;
            Ok(plan.run_indexed(&index, &ids, &ledger, watch, &watch.stop)?)
        })
    }

    /// Ids of units that a ledger lacks, each once, and why files were removed that cannot be used.
    fn missing(&self, py: Python<'_>, dir: PathBuf) -> PyResult<(Vec<String>, Vec<String>)> {
        let found = py.detach(|| -> Result<_, Failed> {
            let ledger = Ledger::create(dir).map_err(PlanError::from)?;
            let (mut missing, mut remarks) = (Vec::new(), Vec::new());
            for id in self.index()?.recipes().map(|recipe| recipe.id()) {
                match ledger.check(id) {
                    Look::Whole(()) => continue,
                    Look::Missing => {}
                    Look::Bad(error) => {
                        let path = ledger.path(id);
                        let shown = path.display();
                        std::fs::remove_file(&path)
                            .map_err(|refused| Failed::said(format!("{shown}: {refused}")))?;
                        remarks.push(format!("{shown} {error}: the unit runs again"));
                    }
                }
                missing.push(id.to_string());
            }
            Ok((missing, remarks))
        });
        Ok(found?)
    }

    /// Keeps the plan in the directory of its ledger. Another plan there is an error, unless it is
    /// to be replaced.
    fn keep(&self, py: Python<'_>, dir: PathBuf, replaces: bool) -> PyResult<()> {
        let kept = py.detach(|| -> Result<(), Failed> {
            let ledger = Ledger::create(&dir).map_err(PlanError::from)?;
            let sweep = Sweep::of(&self.options, &self.plan)?;
            sweep.keep(&ledger, replaces).map(drop).map_err(|error| match error {
                SweepError::Another { command_line, .. } => Failed::said(format!(
                    "{}: there is another sweep in it ({command_line}); name another directory, or force=True replaces \
                     its plan and results and keeps its units",
                    dir.display()
                )),
                error => Failed::said(error.to_string()),
            })
        });
        Ok(kept?)
    }

    /// Runs a share of these units again; the files of those whose bytes differ.
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn verify(
        &self,
        py: Python<'_>,
        ids: Vec<String>,
        dir: PathBuf,
        fraction: f64,
        jobs: Option<usize>,
        tell: Option<Py<PyAny>>,
        stop: Option<Py<PyAny>>,
    ) -> PyResult<Vec<PathBuf>> {
        let (plan, ids) = (self.with_jobs(jobs), read_ids(&ids)?);
        Caller { tell, stop }.wait(py, move |watch| {
            let ledger = Ledger::open(dir).map_err(PlanError::from)?;
            let chosen = verify::chosen(&ids, fraction);
            let differ = verify::verify(&plan, &ledger, &chosen, watch, &watch.stop)?;
            Ok(differ.into_iter().map(|(_, path)| path).collect())
        })
    }

    /// Collects the results from directories of finished units.
    fn collect(&self, py: Python<'_>, dirs: Vec<PathBuf>) -> PyResult<Results> {
        let mut plan = (*self.plan).clone();
        let caller = Caller { tell: None, stop: None };
        let results = caller.wait(py, move |_| {
            // Of processes that say the same in other words, the first one names the command.
            if let [dir] = &dirs[..]
                && let Ok(Some(sweep)) = Sweep::read(dir)
                && sweep.keys == plan.keys
            {
                plan.command_line = sweep.command_line;
            }
            let places = dirs.iter().map(|dir| places_of(dir));
            let places = places.collect::<Result<Vec<_>, PlanError>>()?.into_iter().flatten();
            let places: Vec<Box<dyn Units>> = places.collect();
            let places: Vec<&dyn Units> = places.iter().map(|place| &**place).collect();
            Ok(plan.collect_from(&places)?)
        });
        Ok(Results::new(results?))
    }
}

impl Plan {
    /// The plan with this number of simulations at a time.
    fn with_jobs(&self, jobs: Option<usize>) -> Arc<plan::Plan> {
        let Some(jobs) = jobs else { return Arc::clone(&self.plan) };
        let mut plan = (*self.plan).clone();
        plan.points.iter_mut().for_each(|point| point.run.jobs = jobs.max(1));
        Arc::new(plan)
    }

    fn index(&self) -> Result<Arc<UnitIndex>, Failed> {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = &*index {
            return Ok(Arc::clone(index));
        }
        Ok(Arc::clone(index.insert(Arc::new(self.plan.index()?))))
    }
}

/// Writes the results of a sweep into the directory of its ledger.
pub(crate) fn keep_results(results: &plan::Results, dir: PathBuf) -> Result<(), Failed> {
    let ledger = Ledger::open(dir).map_err(PlanError::from)?;
    Ok(keep::keep(results, &ledger)?)
}

/// The places of units in a directory: a ledger, and what `compare --out` keeps.
fn places_of(dir: &Path) -> Result<Vec<Box<dyn Units>>, PlanError> {
    let mut places: Vec<Box<dyn Units>> = vec![Box::new(Ledger::open(dir)?)];
    let mut files = std::fs::read_dir(dir.join(UNITS_DIR)).into_iter().flatten().flatten();
    if files.any(|file| file.path().extension().is_some_and(|end| end == "json")) {
        places.push(Box::new(UnitStore::open(dir)?));
    }
    Ok(places)
}

fn read_ids(ids: &[String]) -> Result<Vec<UnitId>, Failed> {
    let read = |id: &String| {
        id.parse::<UnitId>().map_err(|error| Failed::said(format!("\"{id}\": {error}")))
    };
    ids.iter().map(read).collect()
}
