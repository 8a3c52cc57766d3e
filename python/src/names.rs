//! Names that come with the program, and values as TOML texts.

use highwater::experiment;
use highwater::fit::Objective;
use highwater::machine_file::MachineFile;
use highwater::policy_file;
use highwater::workload::Registry;
use pyo3::prelude::*;

use crate::error::Failed;

/// Names and a line about each.
type Names = Vec<(String, String)>;

/// Machines that come with the program.
#[pyfunction]
pub(crate) fn machines() -> PyResult<Names> {
    let machines = MachineFile::embedded().map_err(Failed::from)?;
    Ok(machines.into_iter().map(|machine| (machine.name, machine.summary)).collect())
}

/// Policies that come with the program.
#[pyfunction]
pub(crate) fn policies() -> Names {
    policy_file::all()
}

/// Experiments that come with the program.
#[pyfunction]
pub(crate) fn experiments() -> PyResult<Names> {
    let all = experiment::embedded(&Registry::default()).map_err(Failed::from)?;
    Ok(all.into_iter().map(|experiment| (experiment.name, experiment.title)).collect())
}

/// Workloads and jobs that come with the program.
#[pyfunction]
pub(crate) fn workloads() -> PyResult<Names> {
    let registry = Registry::default();
    let jobs = experiment::jobs(&registry).map_err(Failed::from)?;
    let entries = registry.entries().iter();
    let entries = entries.map(|entry| (entry.name.to_owned(), entry.about.to_owned()));
    Ok(entries.chain(jobs.into_iter().map(|job| (job.name, job.title))).collect())
}

/// An objective: the figure, whether it must be below the bound, and the bound in the figure's unit.
#[pyfunction]
pub(crate) fn objective(text: &str) -> PyResult<(String, bool, f64)> {
    let objective = Objective::parse(text).map_err(Failed::said)?;
    Ok((objective.metric.text, objective.is_below, objective.bound))
}

/// A JSON object as a TOML text.
#[pyfunction]
pub(crate) fn toml_of(json: &str) -> PyResult<String> {
    let wrong = |reason: String| Failed::said(reason);
    let table: toml::Table =
        serde_json::from_str(json).map_err(|error| wrong(error.to_string()))?;
    Ok(toml::to_string(&table).map_err(|error| wrong(error.to_string()))?)
}
