//! A running Linux beside the model: `replay`, `check`, `capture`, `diagnose`.

use std::path::PathBuf;
use std::time::Duration;

use highwater::capture::{Names, Source, Wanted, capture as capture_of};
use highwater::check::{CheckOptions, check_telling};
use highwater::diagnose::over_time::Options;
use highwater::diagnose::window::{Time, Window};
use highwater::diagnose::{self as kernel_log, Diagnosis};
use highwater::input::held::{self, Texts};
use highwater::replay::report;
use highwater::report::{Format, PAGE_WIDTH, html};
use pyo3::prelude::*;

use crate::error::Failed;
use crate::searches::{Answer, answer};
use crate::spec::Given;
use crate::work::Caller;

/// Files of a capture.
const MACHINE: &str = "machine.toml";
const JOB: &str = "job.toml";
const REFERENCE: &str = "static.json";

/// A trace of the page allocator under policies.
#[pyfunction]
pub(crate) fn replay(
    py: Python<'_>,
    spec: String,
    texts: Texts,
    hottest: usize,
    tell: Option<Py<PyAny>>,
    stop: Option<Py<PyAny>>,
) -> PyResult<Answer> {
    let given = Given::new(&spec, texts)?;
    Caller { tell, stop }.wait(py, move |watch| {
        let mut remarks = Vec::new();
        let options = given.spec.replay();
        let (plan, _) = held::with(&given.texts, || options.plan(&mut |line| remarks.push(line)));
        let plan = plan?;
        let nr_policies = plan.policies.len();
        let replayed = plan.run(|done| watch.set(done, nr_policies))?;
        let tables = report::tables(&replayed, hottest);
        let verdict = tables.first().and_then(|table| table.notes.first().cloned());
        remarks.extend(replayed.warning_lines());
        answer(report::json(&replayed, hottest), &tables, verdict.unwrap_or_default(), remarks)
    })
}

/// Captured files beside the model. Remarks are files that cannot be judged.
#[pyfunction]
pub(crate) fn check(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    idle_s: f64,
    tell: Option<Py<PyAny>>,
    stop: Option<Py<PyAny>>,
) -> PyResult<(Answer, Option<f64>)> {
    let options = CheckOptions { idle_ns: (idle_s * 1e9) as u64 };
    Caller { tell, stop }.wait(py, move |watch| {
        let (checked, mut refused) =
            check_telling(&paths, options, &mut |done, total| watch.set(done, total))?;
        if checked.files.is_empty() && refused.len() == 1 {
            return Err(refused.remove(0).into());
        }
        let json = serde_json::to_string(&checked);
        let (json, text) = (json.map_err(|e| Failed::said(e.to_string()))?, checked.text());
        let html =
            html::fragment(&[], ("check", &text)).map_err(|e| Failed::said(e.to_string()))?;
        let html = html.replacen("<details>", "<details open>", 1);
        let verdict = text.lines().last().unwrap_or_default().to_owned();
        let refused = refused.iter().map(ToString::to_string).collect();
        Ok(((json, text, verdict, html, refused), checked.agreement()))
    })
}

/// Of a text over time: seconds between two rows, CPUs, the unit of `vmstat -S`, begin and end of the
/// part that is asked for.
type OverTime = (f64, Option<u32>, Option<String>, Option<String>, Option<String>);

/// A text of Linux: a kernel's log, `vmstat`, pressure, or a file of `/proc`; or files. `only` (from
/// 1) picks one report of a log, `order` is the request that files of `/proc` are asked about.
#[pyfunction]
pub(crate) fn diagnose(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    text: Option<Vec<u8>>,
    only: Option<usize>,
    order: Option<u32>,
    over_time: OverTime,
) -> PyResult<Answer> {
    Caller { tell: None, stop: None }.wait(py, move |_| {
        let (interval_s, cpus, unit, since, until) = over_time;
        if !(interval_s.is_finite() && interval_s > 0.0) {
            return Err(Failed::said(format!("interval: must be above 0, not {interval_s}")));
        }
        let has_window = since.is_some() || until.is_some();
        let time = |name: &str, text: Option<String>| match text.as_deref().map(Time::parse) {
            None => Ok(None),
            Some(Ok(time)) => Ok(Some(time)),
            Some(Err(reason)) => Err(Failed::said(format!("{name}: {reason}"))),
        };
        let window = Window { from: time("since", since)?, to: time("until", until)? };
        let unit_bytes = match unit.as_deref() {
            None => 1024,
            Some(unit) => kernel_log::over_time::unit_bytes(unit)
                .ok_or_else(|| Failed::said(format!("unit: must be k, K, m or M, not {unit:?}")))?,
        };
        let options = Options { interval_s, cpus, unit_bytes, window };
        let found = match &text {
            Some(text) => Diagnosis::of_text("text", text, &options)?,
            None => Diagnosis::read(&paths, &options)?,
        };
        let found = match order {
            Some(order) if order > 10 => {
                return Err(Failed::said(format!("order: must be between 0 and 10, not {order}")));
            }
            Some(order) => found.for_order(order),
            None => found,
        };
        let is_over_time = matches!(found, Diagnosis::OverTime(_) | Diagnosis::Waits(..));
        let refused = [
            (has_window && !is_over_time, "since, until: only for texts over time"),
            (
                order.is_some() && !matches!(found, Diagnosis::Rest(_)),
                "order: only for files of /proc",
            ),
            (
                only.is_some() && !matches!(found, Diagnosis::Log(..)),
                "report: only for a kernel's log",
            ),
        ];
        if let Some((_, reason)) = refused.iter().find(|(is_refused, _)| *is_refused) {
            return Err(Failed::said((*reason).to_owned()));
        }
        let mut remarks = found.remarks();
        if let Diagnosis::Log(log, name) = &found {
            let at = only.unwrap_or(1);
            let Some(report) = at.checked_sub(1).and_then(|at| log.reports.get(at)) else {
                let nr = log.reports.len();
                return Err(Failed::said(format!("report {at}: {name} has {nr}, numbered from 1")));
            };
            remarks = kernel_log::Answer::of(report).unknown;
        }
        let (verdict, table) = (found.sentence(only), found.terminal(only, PAGE_WIDTH));
        let html =
            html::fragment(&[], (&verdict, &table)).map_err(|e| Failed::said(e.to_string()))?;
        let html = html.replacen("<details>", "<details open>", 1);
        Ok((found.json(only).to_string(), table, verdict, html, remarks))
    })
}

/// Options of a capture: processes by number, name, control group and systemd unit, seconds of
/// watching, seconds in which touches are measured, milliseconds between two looks.
type Wishes = (Vec<u32>, Vec<String>, Vec<String>, Vec<String>, f64, f64, u64);

/// A running Linux: its files by name, the table of its sizes, a sentence about them, HTML, remarks.
type Captured = (Vec<(String, String)>, String, String, String, Vec<String>);

/// A running or recorded Linux as machine file, job file and reference.
#[pyfunction]
pub(crate) fn capture(
    py: Python<'_>,
    root: Option<PathBuf>,
    options: Wishes,
    tell: Option<Py<PyAny>>,
    stop: Option<Py<PyAny>>,
) -> PyResult<Captured> {
    let (pids, comms, cgroups, units, seconds, working_set, every_ms) = options;
    let duration = |name: &str, seconds: f64| match Duration::try_from_secs_f64(seconds) {
        Ok(time) if seconds <= 86_400.0 => Ok(time),
        _ => Err(Failed::said(format!("{name}: must be between 0 and 86400, not {seconds}"))),
    };
    let wanted = Wanted {
        pids,
        comms,
        cgroups,
        units,
        working_set: duration("working_set", working_set)?,
        watch: duration("seconds", seconds)?,
        every: Duration::from_millis(every_ms),
        no_processes: false,
    };
    Caller { tell, stop }.wait(py, move |_| {
        let source = match &root {
            Some(root) => Source::recorded(root),
            None => Source::running()?,
        };
        let captured = capture_of(&source, &wanted)?;
        let names = Names {
            machine: MACHINE,
            job: JOB,
            machine_of_job: Some(MACHINE),
            reference: REFERENCE,
        };
        let texts = captured.files(names)?;
        let table = captured.table(&texts.verdict);
        let verdict = table.notes.first().cloned().unwrap_or_default();
        let mut remarks = captured.notes.clone();
        remarks.extend(texts.guesses);
        remarks.extend(captured.groups.notes.iter().cloned());
        remarks.extend(texts.not_modelled.map(|reason| format!("no machine file: {reason}")));
        let files = [(MACHINE, texts.machine), (JOB, texts.job), (REFERENCE, texts.reference)];
        let files = files.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?)));
        let tables = [table];
        let html = html::fragment(&tables, ("", "")).map_err(|e| Failed::said(e.to_string()))?;
        let text = Format::Terminal.tables(&tables, PAGE_WIDTH);
        Ok((files.collect(), text, verdict, html, remarks))
    })
}
