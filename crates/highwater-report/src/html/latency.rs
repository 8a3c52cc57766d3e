//! Figures of each operation's latencies: a histogram, and the share above each latency.

use highwater_results::Run;

use super::distribution::POLICIES_MAX;
use super::figure::Figure;
use super::svg::{Axis, Svg};
use crate::latency::{Distribution, operations};
use crate::table::{Cell, Layout, Table};

/// Number of operations shown on a page; the others are in the table.
const OPERATIONS_MAX: usize = 12;
const WIDTH: u32 = 340;
const HEIGHT: u32 = 230;
const LEFT: f64 = 40.0;
const BOTTOM: f64 = 190.0;
const TOP: f64 = 10.0;
const RIGHT: f64 = 330.0;
const NS_PER_US: f64 = 1e3;
/// Percentiles listed for each curve.
const SHARES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 0.9999];

/// Two figures for each operation: its histogram, and the share of operations that took longer.
/// Both have logarithmic axes, so the slowest operations are visible.
pub(super) fn figures(machine: &str, runs: &[&Run]) -> Vec<Figure> {
    let runs = &runs[..runs.len().min(POLICIES_MAX)];
    let all: Vec<Vec<Distribution>> = runs.iter().map(|run| Distribution::all(run)).collect();
    let names = operations(&all);
    let mut figures = Vec::new();
    for name in names.into_iter().take(OPERATIONS_MAX) {
        let of_run =
            |known: &Vec<Distribution>| known.iter().find(|d| d.operation == *name).cloned();
        let found: Vec<Option<Distribution>> = all.iter().map(of_run).collect();
        figures.push(histogram(name, machine, runs, &found));
        figures.push(cdf(name, machine, runs, &found));
    }
    figures
}

/// The axis of times, in microseconds.
fn times(found: &[Option<Distribution>]) -> Axis {
    let ends = found.iter().flatten().flat_map(|d| {
        let ends = d.buckets.first().zip(d.buckets.last());
        ends.map(|(first, last)| [first.0.max(1), last.1]).unwrap_or([1, 1])
    });
    let ends: Vec<f64> = ends.map(|ns| ns as f64 / NS_PER_US).collect();
    Axis::of(ends.into_iter(), [LEFT, RIGHT])
}

fn histogram(name: &str, machine: &str, runs: &[&Run], found: &[Option<Distribution>]) -> Figure {
    let what = format!("{name} on {machine}: operations by latency, microseconds");
    let mut svg = Svg::new(WIDTH, HEIGHT, &what);
    let x = times(found);
    let counts: Vec<f64> =
        found.iter().flatten().flat_map(|d| d.buckets.iter().map(|b| b.2 as f64)).collect();
    // The axis begins below 1, so that a single operation is visible.
    let y = Axis::of(counts.into_iter().chain([0.7]), [BOTTOM, TOP]);
    svg.across(&x, BOTTOM, TOP, "microseconds");
    svg.up(&y, LEFT, RIGHT, false);
    for (at, distribution) in found.iter().enumerate() {
        let Some(distribution) = distribution else { continue };
        let mut stairs = Vec::new();
        let mut end = None;
        for &(from, to, count) in &distribution.buckets {
            let [left, right] = [from.max(1), to + 1].map(|ns| x.at(ns as f64 / NS_PER_US));
            // Between adjacent buckets the line does not go down to the axis.
            if end != Some(from) {
                stairs.extend(stairs.last().map(|&(x, _)| (x, BOTTOM)));
                stairs.push((left, BOTTOM));
            }
            let top = y.at(count as f64);
            stairs.extend([(left, top), (right, top)]);
            end = Some(to + 1);
        }
        stairs.extend(stairs.last().map(|&(x, _)| (x, BOTTOM)));
        svg.path(&format!("curve s{at}"), &stairs);
    }
    let columns = runs.iter().map(|run| run.label.clone()).collect();
    let mut table = Table::new(what.clone(), &["up to (us)"], columns, Layout::Fitted);
    let powers = || {
        let ends = found
            .iter()
            .flatten()
            .flat_map(|d| d.buckets.iter().map(|bucket| bucket.1.max(1).ilog2()));
        ends.collect::<std::collections::BTreeSet<u32>>()
    };
    for power in powers() {
        let label = format!("{:.3}", (2_u64 << power) as f64 / NS_PER_US);
        let cells = found.iter().map(|d| match d {
            Some(d) => Cell::number(d.in_doubling(power) as f64, 0),
            None => Cell::Missing,
        });
        table.push(&[&label], cells.collect());
    }
    Figure::drawn(&format!("{name}: histogram"), svg.finish(), &table)
}

fn cdf(name: &str, machine: &str, runs: &[&Run], found: &[Option<Distribution>]) -> Figure {
    let what = format!("{name} on {machine}: share of the operations that took less, microseconds");
    let mut svg = Svg::new(WIDTH, HEIGHT, &what);
    let x = times(found);
    let y = Axis::unit([BOTTOM, TOP]);
    svg.across(&x, BOTTOM, TOP, "microseconds");
    svg.up(&y, LEFT, RIGHT, true);
    let columns = SHARES.map(|share| format!("p{}", 100.0 * share)).to_vec();
    let mut table = Table::new(what.clone(), &["policy"], columns, Layout::Fitted);
    for (at, (run, distribution)) in runs.iter().zip(found).enumerate() {
        let Some(distribution) = distribution else { continue };
        let all = distribution.count().max(1) as f64;
        let (mut points, mut below) = (Vec::new(), 0);
        for &(from, to, count) in &distribution.buckets {
            let place = |ns: u64, below: u64| {
                (x.at(ns.max(1) as f64 / NS_PER_US), y.at(below as f64 / all))
            };
            points.push(place(from, below));
            below += count;
            points.push(place(to + 1, below));
        }
        svg.path(&format!("curve s{at}"), &points);
        let cells = SHARES.map(|share| {
            let mut below = 0.0;
            let found = distribution.buckets.iter().find(|bucket| {
                below += bucket.2 as f64;
                below >= share * all
            });
            found.map_or(Cell::Missing, |bucket| Cell::number(bucket.1 as f64 / NS_PER_US, 1))
        });
        table.push(&[&run.label], cells.to_vec());
    }
    Figure::drawn(&format!("{name}: share that took less"), svg.finish(), &table)
}
