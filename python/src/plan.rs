//! Plans: units, runs of all or of some, collected results.

use std::path::PathBuf;
use std::sync::Arc;

use highwater::experiment::unit::{UnitId, UnitStore};
use highwater::input::held::{self, Texts};
use highwater::plan;
use highwater::plan::PlanError;
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
    plan: Arc<plan::Plan>,
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
            Ok((plan?, texts))
        });
        let (plan, texts) = made?;
        Ok(Plan { plan: Arc::new(plan), spec, texts })
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

    /// Runs units by id into a directory.
    fn run_units(
        &self,
        py: Python<'_>,
        ids: Vec<String>,
        out: PathBuf,
        jobs: Option<usize>,
        tell: Option<Py<PyAny>>,
        stop: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let plan = self.with_jobs(jobs);
        let ids = ids.iter().map(|id| {
            id.parse::<UnitId>().map_err(|error| Failed::said(format!("\"{id}\": {error}")))
        });
        let ids: Vec<UnitId> = ids.collect::<Result<_, _>>()?;
        Caller { tell, stop }.wait(py, move |watch| {
            let store = UnitStore::create(out).map_err(PlanError::from)?;
            Ok(plan.run_units(&ids, &store, watch, &watch.stop)?)
        })
    }

    /// Collects the results from directories of finished units.
    fn collect(&self, py: Python<'_>, dirs: Vec<PathBuf>) -> PyResult<Results> {
        let plan = Arc::clone(&self.plan);
        let caller = Caller { tell: None, stop: None };
        Ok(Results::new(caller.wait(py, move |_| Ok(plan.collect(&dirs)?))?))
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
}
