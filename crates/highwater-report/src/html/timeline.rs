//! Counters over virtual time, policies on one axis: data for the chart library, and tables of
//! their figures.
//!
//! Totals are shown as rates, levels as they are.

use highwater_results::RunSeries;
use serde::Serialize;

use super::distribution::POLICIES_MAX;
use super::svg::short;
use super::table::View;
use crate::over_time::{POINTS_MAX, lines, points};
use crate::table::{Cell, Layout, Table};

/// The charts of one part of the runs on one machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Charts {
    /// Name of the part; empty if there is only one.
    pub(super) part: String,
    pub(super) charts: Vec<Chart>,
    pub(super) table: View,
}

/// A chart: its subject, and a line for each policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Chart {
    title: String,
    unit: &'static str,
    lines: Vec<Drawn>,
}

/// A line: times in milliseconds, values.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Drawn {
    label: String,
    /// Number of the policy; none for a watermark or a limit.
    policy: Option<usize>,
    t: Vec<f64>,
    v: Vec<f64>,
}

/// The charts of a machine, part by part.
pub(super) fn charts(machine: &str, all: &[RunSeries]) -> Vec<Charts> {
    let of_machine: Vec<&RunSeries> = all.iter().filter(|run| run.machine == machine).collect();
    let Some(seed) = of_machine.first().map(|run| run.seed) else { return Vec::new() };
    let of_seed: Vec<&RunSeries> = of_machine.into_iter().filter(|run| run.seed == seed).collect();
    let mut parts: Vec<&str> = Vec::new();
    for run in &of_seed {
        if !parts.contains(&run.series.part.as_str()) {
            parts.push(&run.series.part);
        }
    }
    let of_part = |part: &str| {
        let runs = of_seed.iter().filter(|run| run.series.part == part).take(POLICIES_MAX);
        part_charts(
            machine,
            if parts.len() > 1 { part } else { "" },
            &runs.copied().collect::<Vec<_>>(),
        )
    };
    parts.iter().map(|part| of_part(part)).filter(|charts| !charts.charts.is_empty()).collect()
}

fn part_charts(machine: &str, part: &str, runs: &[&RunSeries]) -> Charts {
    let place = if part.is_empty() { machine.to_owned() } else { format!("{machine}, {part}") };
    let title = format!("Counters over time on {place}");
    let heads = ["smallest", "mean", "largest", "at the end"].map(str::to_owned).to_vec();
    let mut table = Table::new(title, &["of", "policy"], heads, Layout::Fitted);
    let mut charts = Vec::new();
    for line in &lines(runs.iter().map(|run| &run.series)) {
        let drawn = runs.iter().enumerate().filter_map(|(at, run)| {
            let (t, v) = points(line, &run.series, POINTS_MAX)?;
            Some(Drawn { label: run.label.clone(), policy: Some(at), t, v })
        });
        let mut lines: Vec<Drawn> = drawn.collect();
        if lines.iter().all(|line| line.v.iter().all(|&v| v == 0.0)) {
            continue;
        }
        for drawn in &lines {
            let low = drawn.v.iter().copied().fold(f64::INFINITY, f64::min);
            let high = drawn.v.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mean = drawn.v.iter().sum::<f64>() / drawn.v.len() as f64;
            let end = drawn.v.last().copied().unwrap_or_default();
            let cells = [low, mean, high, end].map(|v| Cell::text(short(v))).to_vec();
            table.push(&[&format!("{}, {}", line.title, line.scale.unit), &drawn.label], cells);
        }
        let bounds = runs.first().into_iter().flat_map(|run| line.bounds(&run.series));
        lines.extend(bounds.map(|(label, t, v)| Drawn { label, policy: None, t, v }));
        charts.push(Chart { title: line.title.to_string(), unit: line.scale.unit, lines });
    }
    Charts { part: part.to_owned(), charts, table: View::of(&table) }
}
