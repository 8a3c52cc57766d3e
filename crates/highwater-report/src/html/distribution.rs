//! Distribution of the first metric's samples: curves with their bands, and boxes.
//!
//! | figure | shows | for |
//! |---|---|---|
//! | ECDF | share of samples below each value, with the band that contains the true curve with 95 % probability (Dvoretzky-Kiefer-Wolfowitz) | operations with many samples |
//! | bars | how often the most used keys of a histogram were used | studies of single page frames |
//! | boxes | quartiles, the 95th percentile, the extremes | all operations of a machine |
//!
//! A logarithmic axis has no place for zero: such a value is drawn at its left end.

use highwater_results::words;
use highwater_results::{Metric, Run};

use super::figure::Figure;
use super::svg::{Axis, Svg};
use crate::stats::quantile::interpolated;
use crate::table::{Cell, Layout, Table};

/// With fewer samples, no curve is drawn.
const CURVE_SAMPLES_MIN: usize = 8;
/// Number of curves on a page. If there are more operations, evenly spaced ones are taken.
const CURVES_MAX: usize = 8;
/// Points of a curve.
const POINTS_MAX: usize = 160;
/// Number of histogram keys shown.
const HOTTEST_MAX: usize = 30;
/// Number of colours. Further policies appear in the tables only.
pub(super) const POLICIES_MAX: usize = 6;

const WIDTH: u32 = 340;
const HEIGHT: u32 = 230;
const LEFT: f64 = 40.0;
const BOTTOM: f64 = 190.0;
const TOP: f64 = 10.0;
const RIGHT: f64 = 330.0;

/// Operations of a metric that the runs have.
fn operations(metric: &Metric, runs: &[&Run]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for name in runs.iter().flat_map(|run| run.operations()) {
        let is_of = metric.operations.is_empty() || metric.operations.iter().any(|o| o == name);
        if is_of && !found.iter().any(|known| known == name) {
            found.push(name.to_owned());
        }
    }
    // In the metric's order, if it has one.
    found.sort_by_key(|name| metric.operations.iter().position(|operation| operation == name));
    found
}

fn ascending(run: &Run, operation: &str) -> Vec<f64> {
    let mut values = run.values(operation);
    values.sort_by(f64::total_cmp);
    values
}

/// A curve for each operation with enough samples.
pub(super) fn curves(metric: &Metric, machine: &str, runs: &[&Run]) -> Vec<Figure> {
    let runs = &runs[..runs.len().min(POLICIES_MAX)];
    let all = operations(metric, runs);
    let has_enough = |operation: &&String| {
        runs.iter().all(|run| ascending(run, operation).len() >= CURVE_SAMPLES_MIN)
    };
    let all: Vec<&String> = all.iter().filter(has_enough).collect();
    let every = all.len().div_ceil(CURVES_MAX).max(1);
    all.into_iter()
        .step_by(every)
        .map(|operation| curve(metric, machine, runs, operation))
        .collect()
}

fn curve(metric: &Metric, machine: &str, runs: &[&Run], operation: &str) -> Figure {
    let samples: Vec<Vec<f64>> = runs.iter().map(|run| ascending(run, operation)).collect();
    let x = Axis::of(samples.iter().flatten().copied().filter(|&v| v > 0.0), [LEFT, RIGHT]);
    let y = Axis::unit([BOTTOM, TOP]);
    let what = format!("Share of {operation} below a value, {} on {machine}", metric.unit);
    let mut svg = Svg::new(WIDTH, HEIGHT, &what);
    svg.across(&x, BOTTOM, TOP, &metric.unit);
    svg.up(&y, LEFT, RIGHT, true);
    for (at, values) in samples.iter().enumerate() {
        let n = values.len() as f64;
        // With 95 % probability, the samples' curve and the true one are nowhere further apart than
        // this.
        let off = ((2.0_f64 / 0.05).ln() / (2.0 * n)).sqrt();
        let every = values.len().div_ceil(POINTS_MAX).max(1);
        let steps = || {
            let kept =
                (0..values.len()).filter(move |at| at % every == 0 || at + 1 == values.len());
            kept.map(|at| (x.at(values[at]), (at + 1) as f64 / n))
        };
        let edge = |by: f64| steps().map(move |(x, share)| (x, y.at((share + by).clamp(0.0, 1.0))));
        let band: Vec<_> =
            edge(off).chain(edge(-off).collect::<Vec<_>>().into_iter().rev()).collect();
        svg.path(&format!("band f{at}"), &band);
        let mut stairs = vec![(x.at(values[0]), y.at(0.0))];
        for (x, share) in steps() {
            let before = stairs[stairs.len() - 1].1;
            stairs.extend([(x, before), (x, y.at(share))]);
        }
        svg.path(&format!("curve s{at}"), &stairs);
    }
    let shares = [0.5, 0.9, 0.95, 0.99];
    let mut heads: Vec<String> = vec!["samples".to_owned(), "smallest".to_owned()];
    heads.extend(shares.map(|share| format!("{:.0}th percentile", 100.0 * share)));
    heads.push("largest".to_owned());
    let mut table = Table::new(what.clone(), &["policy"], heads, Layout::Fitted);
    for (run, values) in runs.iter().zip(&samples) {
        let number = |value: f64| Cell::number(value, metric.decimals);
        let mut cells = vec![Cell::number(values.len() as f64, 0), number(values[0])];
        cells.extend(shares.map(|q| interpolated(values, q).map_or(Cell::Missing, number)));
        cells.push(number(values[values.len() - 1]));
        table.push(&[&run.label], cells);
    }
    Figure::drawn(operation, svg.finish(), &table)
}

/// A box for each operation and policy.
pub(super) fn boxes(metric: &Metric, machine: &str, runs: &[&Run]) -> Option<Figure> {
    let runs = &runs[..runs.len().min(POLICIES_MAX)];
    let operations = operations(metric, runs);
    let samples = |operation: &str| -> Vec<Vec<f64>> {
        runs.iter().map(|run| ascending(run, operation)).collect()
    };
    let all: Vec<f64> = operations.iter().flat_map(|name| samples(name).concat()).collect();
    // A single value has no spread.
    if all.is_empty() || !operations.iter().any(|name| samples(name).iter().any(|v| v.len() > 1)) {
        return None;
    }
    let y = Axis::of(
        all.iter().copied().filter(|&v| v > 0.0 || all.iter().all(|&v| v <= 0.0)),
        [BOTTOM, TOP],
    );
    let group = 14.0 * runs.len() as f64 + 18.0;
    let right = LEFT + 8.0 + group * operations.len() as f64;
    let what = format!("{} on {machine}, {}: quartiles and extremes", metric.name, metric.unit);
    let mut svg = Svg::new(right.max(240.0) as u32 + 10, HEIGHT + 24, &what);
    svg.up(&y, LEFT, right, false);
    let heads =
        ["samples", "smallest", "25%", "median", "75%", "95%", "largest"].map(str::to_owned);
    let mut table =
        Table::new(what.clone(), &["operation", "policy"], heads.to_vec(), Layout::Fitted);
    for (nr, operation) in operations.iter().enumerate() {
        let left = LEFT + 12.0 + group * nr as f64;
        let middle = left + 7.0 * runs.len() as f64;
        // Names are wider than columns, so every other name is drawn lower.
        svg.words((middle, BOTTOM + 14.0 + 14.0 * (nr % 2) as f64), "middle", operation);
        for ((at, run), values) in runs.iter().enumerate().zip(samples(operation)) {
            let (Some(&low), Some(&high)) = (values.first(), values.last()) else { continue };
            let q = |share: f64| interpolated(&values, share).unwrap_or(low);
            let x = left + 14.0 * at as f64;
            let (class, middle) = (format!("whisker s{at}"), x + 5.0);
            svg.line(&class, (middle, y.at(low)), (middle, y.at(q(0.25))));
            svg.line(&class, (middle, y.at(q(0.75))), (middle, y.at(high)));
            for end in [low, q(0.95), high] {
                svg.line(&class, (x + 2.0, y.at(end)), (x + 8.0, y.at(end)));
            }
            let (top, bottom) = (y.at(q(0.75)), y.at(q(0.25)));
            let title = format!("{operation}, {}: median {}", run.label, super::svg::short(q(0.5)));
            svg.rect(&format!("box f{at} s{at}"), (x, top), (10.0, bottom - top), &title);
            svg.line(&format!("median s{at}"), (x, y.at(q(0.5))), (x + 10.0, y.at(q(0.5))));
            let number = |value: f64| Cell::number(value, metric.decimals);
            let mut cells = vec![Cell::number(values.len() as f64, 0)];
            cells.extend([low, q(0.25), q(0.5), q(0.75), q(0.95), high].map(number));
            table.push(&[operation, &run.label], cells);
        }
    }
    svg.words((LEFT - 30.0, HEIGHT as f64 + 20.0), "start", &metric.unit);
    let mut figure = Figure::drawn(&format!("All operations on {machine}"), svg.finish(), &table);
    figure.is_wide = true;
    Some(figure)
}

/// Bars of the most used keys of a histogram, policies side by side: they show how uneven the use
/// is.
pub(super) fn hottest(histogram: &str, machine: &str, runs: &[&Run]) -> Option<Figure> {
    let runs = &runs[..runs.len().min(POLICIES_MAX)];
    let of_run = |run: &&Run| -> Vec<(String, u64)> {
        let found = run.histograms.iter().find(|known| known.name == histogram);
        let rows = found.map(|histogram| histogram.by_count()).unwrap_or_default();
        rows.into_iter().rev().take(HOTTEST_MAX).map(|(key, n)| (key.to_owned(), n)).collect()
    };
    let all: Vec<Vec<(String, u64)>> = runs.iter().map(of_run).collect();
    let nr_ranks = all.iter().map(Vec::len).max().filter(|&nr| nr > 0)?;
    let counts = all.iter().flatten().map(|(_, count)| *count as f64).chain([1.0]);
    let y = Axis::of(counts, [BOTTOM, TOP]);
    let group = 6.0 * runs.len() as f64 + 6.0;
    let right = LEFT + 8.0 + group * nr_ranks as f64;
    let what = format!("{histogram} on {machine}: the {nr_ranks} most used, by rank");
    let mut svg = Svg::new(right as u32 + 10, HEIGHT, &what);
    svg.up(&y, LEFT, right, false);
    let heads = runs.iter().map(|run| run.label.clone()).collect();
    let mut table = Table::new(what.clone(), &["rank"], heads, Layout::Fitted);
    for rank in 0..nr_ranks {
        let left = LEFT + 8.0 + group * rank as f64;
        if rank % 5 == 4 || rank == 0 {
            svg.words((left + group / 2.0, BOTTOM + 14.0), "middle", &(rank + 1).to_string());
        }
        let mut cells = Vec::new();
        for (at, (run, rows)) in runs.iter().zip(&all).enumerate() {
            let Some((key, count)) = rows.get(rank) else {
                cells.push(Cell::Missing);
                continue;
            };
            let top = y.at(*count as f64);
            let title = format!("{}: {key}, {}", run.label, words::count(*count, "time"));
            let x = left + 6.0 * at as f64;
            svg.rect(&format!("bar-of f{at}"), (x, top), (5.0, BOTTOM - top), &title);
            cells.push(Cell::number(*count as f64, 0));
        }
        table.push(&[&(rank + 1).to_string()], cells);
    }
    svg.words((right, BOTTOM + 30.0), "end", "rank");
    let mut figure = Figure::drawn(&format!("{histogram}, uses by rank"), svg.finish(), &table);
    figure.is_wide = true;
    Some(figure)
}
