//! The result of a comparison that took a change apart (`compare --ablate`): which switch explains
//! it.
//!
//! Such a comparison runs both ends, each switch alone and each switch left out. It runs no sets of
//! several switches. If no switch alone is enough, the result says so, and [`super::Bisect`]
//! searches on. One seed gives values without intervals. It cannot separate an effect from chance,
//! so the result names no switch then.

use highwater_report::Table;
use highwater_report::table::{Cell, Layout};
use highwater_results::{Document, Run};

use super::report::Report;
use super::search::{Found, Parts, Set};
use crate::experiment::label;
use crate::metric::MetricName;
use highwater_files::policy_file;

/// A metric that moves by less than this share of itself is ignored when the headline metric is
/// chosen.
const LEAST_CHANGE: f64 = 0.01;
/// Most lines of the whole result.
const LINES_MAX: usize = 24;
/// Lines that a machine's result needs besides the rows of its table: sentence, title, heads, note
/// and two empty lines.
const LINES_BESIDE: usize = 6;
/// Most rows of a table.
const ROWS_MAX: usize = 10;

/// For each machine: the metric that changes most, as a sentence, and the switches ranked. Empty if
/// the document is not an ablation.
pub fn ablated(document: &Document) -> Vec<(String, Option<Table>)> {
    let groups = document.by_machine();
    let nr_rows = (LINES_MAX / groups.len().max(1)).saturating_sub(LINES_BESIDE).min(ROWS_MAX);
    let of = |(_, runs): &(&str, Vec<&Run>)| {
        let report = of_machine(document, runs)?;
        let has_parts = report.switches.iter().any(|switch| switch.alone.is_some());
        let table = (nr_rows > 0 && has_parts).then(|| ranking(&report, nr_rows));
        Some((report.sentence, table))
    };
    groups.iter().filter_map(of).take(LINES_MAX).collect()
}

/// The result for the runs of one machine; `None` if these runs are not an ablation.
fn of_machine(document: &Document, runs: &[&Run]) -> Option<Report> {
    let (first, last) = (runs.first()?, runs.last()?);
    let policy = |name: &str| {
        let definition = document.policies.iter().find(|policy| policy.name == name)?;
        policy_file::parse(name, &definition.definition).ok()
    };
    let points = policy(&first.policy)?.differences(&policy(&last.policy)?);
    let nr = points.len();
    let mut sets: Vec<Set> = vec![Vec::new(), (0..nr).collect()];
    for at in 0..nr {
        sets.push(vec![at]);
        sets.push((0..nr).filter(|&other| other != at).collect());
    }
    sets.dedup();
    let run_of = |set: &Set| match set.len() {
        0 => Some(*first),
        n if n == nr => Some(*last),
        1 => {
            named(runs, &format!("+{}", points[set[0]].path)).or(named(runs, &label(&points, set)))
        }
        _ => {
            let out = (0..nr).find(|at| !set.contains(at))?;
            named(runs, &format!("-{}", points[out].path))
        }
    };
    let all: Vec<(Set, &Run)> =
        sets.into_iter().map(|set| run_of(&set).map(|run| (set, run))).collect::<Option<_>>()?;
    // A difference of one switch has no parts.
    if nr < 2 {
        return None;
    }
    let parts_of = |metric: &MetricName| {
        let mut parts = Parts::new(nr);
        for (set, run) in &all {
            parts.add(set.clone(), metric.values(document, run).ok()?);
        }
        Some(parts)
    };
    let ends = [first.label.clone(), last.label.clone()];
    let Some((metric, parts)) = changed_most(document, first, last, parts_of) else {
        let sentence =
            format!("No figure differs by a percent between {} and {}.", ends[0], ends[1]);
        return Some(Report { sentence, ..Report::default() });
    };
    let unit = metric.unit(document);
    let new =
        |found: &Found| Report::new(&metric.text, &unit, ends.clone(), &points, &parts, found);
    let mut report = if first.seeds.len() == 1 {
        let mut report = new(&Found::Together(parts.needed()));
        let goes = report.goes();
        report.sentence = format!(
            "{goes} with one seed, which cannot separate chance from effect: --iterations 5 can."
        );
        report.is_significant = false;
        report
    } else if !parts.is_changed() {
        new(&Found::NoChange)
    } else if let [one, others @ ..] = &parts.enough_alone()[..] {
        new(&Found::One(*one, others.to_vec()))
    } else {
        let needed = parts.needed();
        let mut report = new(&Found::Together(needed));
        report.sentence = none_alone(&report);
        report
    };
    report.machine.clone_from(&first.machine);
    if document.by_machine().len() > 1 {
        report.sentence = format!("{}: {}", first.machine, report.sentence);
    }
    Some(report)
}

fn none_alone(report: &Report) -> String {
    let names: Vec<String> = report.answer.iter().take(4).map(|path| format!("`{path}`")).collect();
    let (to, goes) = (&report.to.policy, report.goes());
    let needed = match names.len() {
        0 => format!("and {to} misses none alone"),
        _ => format!("and {to} cannot do without {}", names.join(" or ")),
    };
    let (from, metric) = (&report.from.policy, &report.metric);
    let next = format!("highwater bisect {from} {to} JOB --metric {metric}");
    format!(
        "{goes}: no switch alone does it, {needed}; `{next}`, with this command's job, machine and settings, tries several together."
    )
}

fn named<'a>(runs: &[&'a Run], label: &str) -> Option<&'a Run> {
    runs.iter().find(|run| run.label == label).copied()
}

/// The metric that changes by the largest factor among the significant ones; if none is
/// significant, the largest of all.
fn changed_most(
    document: &Document,
    first: &Run,
    last: &Run,
    parts_of: impl Fn(&MetricName) -> Option<Parts>,
) -> Option<(MetricName, Parts)> {
    let mut best: Option<((bool, f64), MetricName, Parts)> = None;
    // Shares of time and counters of steps explain a result; they are not a job's headline metrics.
    let metrics = document.metrics.iter().filter(|m| m.whole.is_none() && !m.skips_zeros);
    for metric in metrics {
        let of_runs = || first.operations().into_iter().chain(last.operations());
        let mut names: Vec<&str> = match metric.operations.is_empty() {
            true => of_runs().collect(),
            false => metric.operations.iter().map(String::as_str).collect(),
        };
        names.sort_unstable();
        names.dedup();
        for name in names {
            let metric = MetricName::new(&match name.rsplit_once(' ') {
                Some((operation, figure)) => format!("{operation}.{figure}"),
                None => name.to_owned(),
            });
            let Some(parts) = parts_of(&metric) else { continue };
            let (Some(before), Some(after)) = (parts.mean(&[]), parts.mean(&parts.all())) else {
                continue;
            };
            let factor = (after / before).ln().abs();
            if !factor.is_finite() || factor < LEAST_CHANGE {
                continue;
            }
            let rank = (parts.is_changed(), factor);
            if best.as_ref().is_none_or(|(known, ..)| rank > *known) {
                best = Some((rank, metric, parts));
            }
        }
    }
    best.map(|(_, metric, parts)| (metric, parts))
}

/// Switches in order: the part of the change that each makes alone, and the part that is lost
/// without it.
fn ranking(report: &Report, nr_rows: usize) -> Table {
    let heads = ["alone", "left out", "A", "B", "kernel"].map(str::to_owned).to_vec();
    let title = format!("{}: parts of the change, switch by switch", report.metric);
    let mut table = Table::new(title, &["switch"], heads, Layout::Fitted);
    let percent = |part: Option<f64>| match part {
        Some(part) => Cell::text(format!("{:.0} %", 100.0 * part).replace("-0 %", "0 %")),
        None => Cell::Missing,
    };
    for switch in report.switches.iter().take(nr_rows) {
        let came = switch.came.trim_start_matches("came ").trim_start_matches("with ");
        table.push(
            &[&switch.path],
            vec![
                percent(switch.alone),
                percent(switch.left_out),
                Cell::text(&*switch.from),
                Cell::text(&*switch.to),
                Cell::text(came),
            ],
        );
    }
    let rest = report.switches.len().saturating_sub(nr_rows);
    let rest = match rest {
        0 => String::new(),
        1 => "; 1 more switch does less".to_owned(),
        _ => format!("; {rest} more switches do less"),
    };
    table.notes.push(format!("left out: what B loses without it{rest}"));
    if !report.is_significant {
        table.notes.push("values of one seed, without intervals".to_owned());
    }
    table
}
