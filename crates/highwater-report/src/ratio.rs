//! The ratio report: each run's figure as a multiple of the baseline's (rules/statistics#ratio).
//!
//! The figure is the mean, or the 95th percentile for variable-time tables of style 2026. A
//! distance gives the change in deviations. The deviation is the facing half-widths of the
//! intervals in 2026, otherwise the root mean square of the two standard deviations.

use highwater_results::{Better, Metric, Run, TableKind};

use crate::compare::{SampleSets, operations, title};
use crate::percent;
use crate::rules::{Rules, Statistic};
use crate::significance::facing;
use crate::stats::{Sorted, summary};
use crate::style::Style;
use crate::table::{Cell, Layout, Suffix, Table};

/// Stand-in for a ratio of zero in the geometric mean.
const ZERO_RATIO: f64 = 0.00001;

/// Ratios of runs of one machine to the first.
pub fn ratios(metric: &Metric, runs: &[&Run], style: Style) -> Table {
    let rules = Rules::of(metric, style);
    let statistic = match (style, metric.table) {
        (Style::Y2026, TableKind::VariableTime) => Statistic::Percentile(95),
        _ => Statistic::Mean,
    };
    let operations = operations(metric, runs);
    let samples = SampleSets::collect(metric, runs, &operations);
    let columns = runs.iter().map(|run| run.label.clone()).collect();
    let layout = Layout::Mmtests { field: style.field_width(), suffix: Suffix::Ratio };
    let name = format!("Ratios: {}", title(metric, runs));
    let mut table = Table::new(name, &["figure", "operation"], columns, layout);
    let mut found: Vec<Vec<Change>> = vec![Vec::new(); runs.len()];
    for (index, operation) in operations.iter().enumerate() {
        let mut cells = Vec::new();
        for (run, found) in found.iter_mut().enumerate() {
            let sets = samples.get(index, 0).zip(samples.get(index, run));
            let Some(change) =
                sets.and_then(|(baseline, set)| change(&rules, statistic, baseline, set))
            else {
                cells.push(Cell::Missing);
                continue;
            };
            found.push(change);
            cells.push(Cell::Ratio {
                value: change.ratio,
                decimals: metric.decimals,
                percent: percent::change(rules.better, 1.0, change.ratio),
                distance: change.distance,
            });
        }
        table.push(&["Ratio", operation], cells);
    }
    let direction = match rules.better {
        Better::Lower => "Lower",
        Better::Higher => "Higher",
        Better::Neither => "Neither",
    };
    let summaries: &[(&str, Summary)] = match style {
        Style::Y2026 => &[
            ("Dmean", distance_mean),
            ("Dmin", distance_min),
            ("Dmax", distance_max),
            ("Gmean", gmean),
        ],
        _ => &[("Gmean", gmean)],
    };
    for (label, figure) in summaries {
        let cells = found.iter().map(|changes| match figure(changes) {
            Some(value) => Cell::number(value, metric.decimals),
            None => Cell::Missing,
        });
        table.push(&[label, direction], cells.collect());
    }
    table
}

/// One operation of one run against the baseline.
#[derive(Clone, Copy)]
struct Change {
    ratio: f64,
    distance: f64,
}

/// A figure over all operations of a run.
type Summary = fn(&[Change]) -> Option<f64>;

fn distance_mean(changes: &[Change]) -> Option<f64> {
    summary::amean(&changes.iter().map(|change| change.distance).collect::<Vec<_>>())
}

fn distance_min(changes: &[Change]) -> Option<f64> {
    changes.iter().map(|change| change.distance).reduce(f64::min)
}

fn distance_max(changes: &[Change]) -> Option<f64> {
    changes.iter().map(|change| change.distance).reduce(f64::max)
}

fn gmean(changes: &[Change]) -> Option<f64> {
    let ratios =
        changes.iter().map(|change| if change.ratio == 0.0 { ZERO_RATIO } else { change.ratio });
    summary::gmean(&ratios.collect::<Vec<_>>())
}

/// Ratio and distance of one run; `None` where either figure is undefined or the baseline's is
/// zero.
fn change(rules: &Rules, statistic: Statistic, baseline: &Sorted, run: &Sorted) -> Option<Change> {
    let (base, value) = (rules.value(statistic, baseline)?, rules.value(statistic, run)?);
    if base == 0.0 {
        return None;
    }
    let unit = if rules.style == Style::Y2026 {
        facing(rules, statistic, baseline, run).unwrap_or(0.0)
    } else {
        let variance = |set: &Sorted| rules.value(Statistic::Stddev, set).unwrap_or(0.0).powi(2);
        ((variance(baseline) + variance(run)) / 2.0).sqrt()
    };
    let distance = if unit > 0.0 { (value - base) / unit } else { 0.0 };
    Some(Change { ratio: value / base, distance })
}
