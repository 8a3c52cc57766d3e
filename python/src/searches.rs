//! Searches and explanations: `fit`, `bisect`, `explain`.

use std::path::PathBuf;
use std::sync::Arc;

use highwater::experiment::unit::UnitStore;
use highwater::fit::{Found, Point};
use highwater::input::held::{self, Texts};
use highwater::plan::{ExplainPlan, FitPlan, PlanError};
use highwater::report::explain as report;
use highwater::report::{Format, PAGE_WIDTH, Table, html};
use highwater::workload::Registry;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::error::Failed;
use crate::spec::Given;
use crate::work::{Caller, Watch};

/// The result of a command: its document as JSON, its text, the verdict in words, HTML for a
/// notebook, remarks.
pub(crate) type Answer = (String, String, String, String, Vec<String>);

/// An answer with these tables.
pub(crate) fn answer(
    document: String,
    tables: &[Table],
    verdict: String,
    remarks: Vec<String>,
) -> Result<Answer, Failed> {
    let text = Format::Terminal.tables(tables, PAGE_WIDTH);
    let html = html::fragment(tables, ("", "")).map_err(|error| Failed::said(error.to_string()))?;
    Ok((document, text, verdict, html, remarks))
}

/// Does work for given options on a thread, with the texts that they hold.
fn search<W>(
    py: Python<'_>,
    (spec, texts): (String, Texts),
    caller: &Caller,
    work: W,
) -> PyResult<Answer>
where
    W: FnOnce(&Given, &Watch, &mut Vec<String>) -> Result<Answer, Failed> + Send + 'static,
{
    let given = Given::new(&spec, texts)?;
    caller.wait(py, move |watch| {
        let mut remarks = Vec::new();
        held::with(&given.texts, || work(&given, watch, &mut remarks)).0
    })
}

fn store(out: Option<PathBuf>) -> Result<Option<Arc<UnitStore>>, Failed> {
    let store = out.map(UnitStore::create).transpose().map_err(PlanError::from)?;
    Ok(store.map(Arc::new))
}

/// Keeps a remark, once.
fn keep(remarks: &mut Vec<String>, line: String) {
    if !remarks.contains(&line) {
        remarks.push(line);
    }
}

/// The least value of a setting that keeps objectives.
#[pyfunction]
pub(crate) fn fit(
    py: Python<'_>,
    spec: String,
    texts: Texts,
    out: Option<PathBuf>,
    tell: Option<Py<PyAny>>,
    stop: Option<Py<PyAny>>,
) -> PyResult<Answer> {
    search(py, (spec, texts), &Caller { tell, stop }, |given, watch, remarks| {
        let options = given.spec.fit();
        let registry = Registry::default();
        let plan = options.plan(&registry, &mut |line| keep(remarks, line))?;
        let store = store(out)?;
        let say = &mut |line| keep(remarks, line);
        let found = plan.run(store.as_ref(), say, |_| watch.part(), &watch.stop)?;
        let words = options.options.command_line()[2..].join(" ");
        let table = plan.table(&found, &words);
        let verdict = table.notes.first().cloned().unwrap_or_default();
        let document = json!({
            "key": options.min,
            "objectives": options.objectives,
            "found": found_in(&plan, found.found),
            "points": found.points.iter().map(|at| tried(&plan, at)).collect::<Vec<_>>(),
            "tables": [&table],
        });
        answer(document.to_string(), &[table], verdict, std::mem::take(remarks))
    })
}

/// The values on both sides of the answer.
fn found_in(plan: &FitPlan<'_>, found: Found) -> Value {
    let (keeps, does_not) = match found {
        Found::Between { bad, good } => (Some(good), Some(bad)),
        Found::Least(value) => (Some(value), None),
        Found::Nothing(value) => (None, Some(value)),
    };
    let side =
        |value: Option<u64>| value.map(|value| json!({"value": value, "text": plan.text(value)}));
    json!({"keeps": side(keeps), "does_not": side(does_not)})
}

fn tried(plan: &FitPlan<'_>, point: &Point) -> Value {
    json!({
        "value": point.value,
        "text": plan.text(point.value),
        "figures": point.figures,
        "killed": point.killed(),
        "gave_up": point.failed(),
        "keeps": point.keeps,
        "refused": point.refused,
    })
}

/// The switches between two policies that explain a change.
#[pyfunction]
pub(crate) fn bisect(
    py: Python<'_>,
    spec: String,
    texts: Texts,
    out: Option<PathBuf>,
    tell: Option<Py<PyAny>>,
    stop: Option<Py<PyAny>>,
) -> PyResult<Answer> {
    search(py, (spec, texts), &Caller { tell, stop }, |given, watch, remarks| {
        let options = given.spec.bisect()?;
        let registry = Registry::default();
        let plan = options.plan(&registry, &mut |line| keep(remarks, line))?;
        let store = store(out)?;
        let report = plan.run(store.as_ref(), |_| watch.part(), &watch.stop)?;
        let (document, verdict) = (report.json(), report.sentence.clone());
        answer(document, &[report.table()], verdict, std::mem::take(remarks))
    })
}

/// Where the time of the slowest operations went. The text has the folded stacks behind it.
#[pyfunction]
pub(crate) fn explain(
    py: Python<'_>,
    spec: String,
    texts: Texts,
    tell: Option<Py<PyAny>>,
    stop: Option<Py<PyAny>>,
) -> PyResult<(Answer, String)> {
    let given = Given::new(&spec, texts)?;
    Caller { tell, stop }.wait(py, move |watch| {
        let work = || -> Result<(Answer, String), Failed> {
            let (options, mut remarks) = (given.spec.explain(), Vec::new());
            let registry = Registry::default();
            let known = match options.plan(&registry, &mut |line| keep(&mut remarks, line))? {
                ExplainPlan::Run(plan) => options.run(&plan, watch, &watch.stop)?,
                ExplainPlan::Known(known) => *known,
            };
            let text = report::render(&known, Format::Terminal);
            let html = html::fragment(&[], (&known.experiment, &text))
                .map_err(|error| Failed::said(error.to_string()))?;
            let html = html.replacen("<details>", "<details open>", 1);
            let verdict = text.lines().next().unwrap_or_default().to_owned();
            let answer = (report::json(&known), text, verdict, html, remarks);
            Ok((answer, report::folded(&known)))
        };
        held::with(&given.texts, work).0
    })
}
