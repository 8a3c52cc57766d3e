//! Results: texts, pages, files and observations.

use std::path::PathBuf;
use std::sync::Arc;

use highwater::metric::MetricName;
use highwater::plan;
use highwater::plan::{PlanError, report_text};
use highwater::report::report::{Shown, verdicts};
use highwater::report::{Format, PAGE_WIDTH, Table, html};
use highwater::results::{Better, Document};
use pyo3::prelude::*;

use crate::error::Failed;
use crate::frames::Observations;
use crate::plan::keep_results;

/// A figure of a run: point, machine, policy, label, seeds, values, unit, better.
type Figures = (usize, String, String, String, Vec<u64>, Vec<Option<f64>>, String, &'static str);

/// Says that there is no verdict.
const ALONE: &str = "One policy was run: there is nothing to compare.\n";

/// Results of a plan.
#[pyclass(frozen, module = "highwater._highwater")]
pub(crate) struct Results {
    results: Arc<plan::Results>,
}

#[pymethods]
impl Results {
    /// Results that `dumps` wrote.
    #[staticmethod]
    fn loads(py: Python<'_>, bytes: &[u8]) -> PyResult<Results> {
        let read = py.detach(|| serde_json::from_slice(bytes));
        let wrong = |error: serde_json::Error| {
            Failed::said(format!("results of another release of Highwater, or damaged: {error}"))
        };
        Ok(Results::new(read.map_err(wrong)?))
    }

    /// All of them, for `loads` of the same release.
    fn dumps(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        let written = py.detach(|| serde_json::to_vec(&*self.results));
        Ok(written.map_err(|error| Failed::said(error.to_string()))?)
    }

    /// Keys that vary.
    #[getter]
    fn keys(&self) -> Vec<String> {
        self.results.keys.clone()
    }

    /// Their values at each point.
    #[getter]
    fn points(&self) -> Vec<Vec<String>> {
        self.results.points.iter().map(|point| point.values.clone()).collect()
    }

    /// The document of a point, as JSON: the bytes of the command's `--format json`.
    fn json(&self, py: Python<'_>, point: usize) -> PyResult<String> {
        let document = self.document(point)?;
        let text = py.detach(|| report_text(document, Format::Json, Shown::All, PAGE_WIDTH));
        Ok(text.map_err(Failed::from)?)
    }

    /// The text that the command prints, in one of its formats.
    fn text(
        &self,
        py: Python<'_>,
        format: &str,
        all: bool,
        width: Option<usize>,
    ) -> PyResult<String> {
        let format: Format = format.parse().map_err(|error| Failed::said(format!("{error}")))?;
        let width = width.unwrap_or(PAGE_WIDTH);
        let shown = if all { Shown::All } else { Shown::Changes };
        let results = &self.results;
        let text = py.detach(|| match (&results.points[..], &results.keys[..]) {
            ([point], []) => report_text(&point.ran.document, format, shown, width),
            _ => Ok(match format {
                Format::Csv => results.grid().csv(),
                format => format.tables(&results.grid().tables(), width),
            }),
        });
        Ok(text.map_err(Failed::from)?)
    }

    /// The verdict as text.
    fn verdict(&self, py: Python<'_>) -> PyResult<String> {
        let tables = py.detach(|| self.verdicts())?;
        Ok(match tables.is_empty() {
            true => ALONE.to_owned(),
            false => Format::Terminal.tables(&tables, PAGE_WIDTH),
        })
    }

    /// The verdict as HTML for a cell of a notebook, with everything else to unfold.
    fn fragment(&self, py: Python<'_>) -> PyResult<String> {
        let text = self.text(py, "terminal", false, None)?;
        let made = py.detach(|| {
            let tables = self.verdicts()?;
            html::fragment(&tables, ("All tables", &text))
                .map_err(|error| Failed::said(error.to_string()))
        });
        Ok(made?)
    }

    /// The results as one HTML page.
    fn page(&self, py: Python<'_>) -> PyResult<String> {
        Ok(py.detach(|| self.results.page()).map_err(Failed::from)?)
    }

    /// A figure by its name, seed by seed: a row for each run of each point.
    fn metric(&self, name: &str) -> PyResult<Vec<Figures>> {
        let metric = MetricName::new(name);
        let mut rows = Vec::new();
        for (point, of) in self.results.points.iter().enumerate() {
            let document = &of.ran.document;
            let unit = metric.unit(document);
            let better = match metric.better(document) {
                Better::Higher => "higher",
                Better::Lower => "lower",
                Better::Neither => "neither",
            };
            for run in &document.runs {
                let values = metric.values(document, run).map_err(Failed::said)?;
                let (machine, policy) = (run.machine.clone(), run.policy.clone());
                let (label, seeds) = (run.label.clone(), run.seeds.clone());
                rows.push((point, machine, policy, label, seeds, values, unit.clone(), better));
            }
        }
        Ok(rows)
    }

    /// Writes the files of `--out DIR`.
    fn write(&self, py: Python<'_>, dir: PathBuf) -> PyResult<()> {
        Ok(py.detach(|| self.results.write(dir)).map_err(Failed::from)?)
    }

    /// Writes them into the directory of a sweep's ledger.
    fn keep(&self, py: Python<'_>, dir: PathBuf) -> PyResult<()> {
        Ok(py.detach(|| keep_results(&self.results, dir))?)
    }

    /// All observations.
    fn observations(&self, py: Python<'_>) -> PyResult<Observations> {
        Ok(py.detach(|| Observations::of(&self.results))?)
    }
}

impl Results {
    pub(crate) fn new(results: plan::Results) -> Results {
        Results { results: Arc::new(results) }
    }

    fn document(&self, point: usize) -> Result<&Document, Failed> {
        let nr = self.results.points.len();
        let missing = || Failed::said(format!("point {point}: there are points 0 to {}", nr - 1));
        Ok(&self.results.points.get(point).ok_or_else(missing)?.ran.document)
    }

    /// The verdict of a comparison; of a grid how much each key matters.
    fn verdicts(&self) -> Result<Vec<Table>, Failed> {
        match (&self.results.points[..], &self.results.keys[..]) {
            ([point], []) => verdicts(&point.ran.document)
                .map_err(|error| PlanError::Document(error.to_string()).into()),
            _ => Ok(self.results.grid().tables().pop().into_iter().collect()),
        }
    }
}
