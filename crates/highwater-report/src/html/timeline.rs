//! Counters over virtual time, policies on one axis: what the chart library draws, and their figures as a table.
//!
//! What only grows is shown as how fast it does, what goes up and down as it is.

use highwater_results::{RunSeries, Series};
use serde::Serialize;

use super::distribution::POLICIES_MAX;
use super::svg::short;
use super::table::View;
use crate::table::{Cell, Layout, Table};

const MIB_PAGES: f64 = 256.0;
/// Points of a line; of more, every n-th is taken.
const POINTS_MAX: usize = 240;

/// A counter of a chart, or several added up.
struct Line {
    title: &'static str,
    unit: &'static str,
    kind: Kind,
    /// Beginnings of the names of columns; of zones what stands behind the last slash.
    of: &'static [&'static str],
}

enum Kind {
    /// Pages, shown in MiB.
    Level,
    /// Events, shown as so many thousand a second.
    Rate,
    /// The share of free memory in blocks too small for a huge page, percent.
    Unusable,
    /// Free memory in blocks of these orders, shown in MiB.
    Blocks(u32, u32),
}

const LINES: [Line; 17] = [
    Line { title: "Free memory", unit: "MiB", kind: Kind::Level, of: &["nr_free_pages"] },
    Line {
        title: "Scanned by kswapd",
        unit: "thousand pages/s",
        kind: Kind::Rate,
        of: &["pgscan_kswapd"],
    },
    Line {
        title: "Scanned by those who allocate",
        unit: "thousand pages/s",
        kind: Kind::Rate,
        of: &["pgscan_direct"],
    },
    Line {
        title: "Reclaimed",
        unit: "thousand pages/s",
        kind: Kind::Rate,
        of: &["pgsteal_kswapd", "pgsteal_direct"],
    },
    Line { title: "Dirty pages of files", unit: "MiB", kind: Kind::Level, of: &["nr_dirty"] },
    Line { title: "Under writeback", unit: "MiB", kind: Kind::Level, of: &["nr_writeback"] },
    Line { title: "Inactive, of files", unit: "MiB", kind: Kind::Level, of: &["nr_inactive_file"] },
    Line { title: "Active, of files", unit: "MiB", kind: Kind::Level, of: &["nr_active_file"] },
    Line {
        title: "Inactive, anonymous",
        unit: "MiB",
        kind: Kind::Level,
        of: &["nr_inactive_anon"],
    },
    Line { title: "Active, anonymous", unit: "MiB", kind: Kind::Level, of: &["nr_active_anon"] },
    Line {
        title: "Swapped in and out",
        unit: "thousand pages/s",
        kind: Kind::Rate,
        of: &["pswpin", "pswpout"],
    },
    Line {
        title: "Refaults",
        unit: "thousand pages/s",
        kind: Kind::Rate,
        of: &["workingset_refault_anon", "workingset_refault_file"],
    },
    Line {
        title: "Scanned by compaction",
        unit: "thousand pages/s",
        kind: Kind::Rate,
        of: &["compact_migrate_scanned", "compact_free_scanned"],
    },
    Line {
        title: "Free in blocks of order 0 to 2",
        unit: "MiB",
        kind: Kind::Blocks(0, 2),
        of: &[],
    },
    Line {
        title: "Free in blocks of order 3 to 8",
        unit: "MiB",
        kind: Kind::Blocks(3, 8),
        of: &[],
    },
    Line {
        title: "Free in blocks of order 9 and more",
        unit: "MiB",
        kind: Kind::Blocks(9, u32::MAX),
        of: &[],
    },
    Line {
        title: "Free memory in blocks below a huge page",
        unit: "%",
        kind: Kind::Unusable,
        of: &[],
    },
];

/// Order of a huge page.
const HUGE_ORDER: u32 = 9;

/// The charts of one part of the runs on one machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Charts {
    /// What the part is called; empty if there is only one.
    pub(super) part: String,
    pub(super) charts: Vec<Chart>,
    pub(super) table: View,
}

/// A chart: what it is of, and a line for each policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Chart {
    title: &'static str,
    unit: &'static str,
    lines: Vec<Drawn>,
}

/// A line: times in milliseconds, values.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Drawn {
    label: String,
    /// Number of the policy; none: a watermark.
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
    for line in &LINES {
        let drawn = runs.iter().enumerate().filter_map(|(at, run)| {
            let (t, v) = points(line, &run.series)?;
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
            table.push(&[&format!("{}, {}", line.title, line.unit), &drawn.label], cells);
        }
        if line.of == ["nr_free_pages"] {
            lines.extend(runs.first().into_iter().flat_map(|run| watermarks(&run.series)));
        }
        charts.push(Chart { title: line.title, unit: line.unit, lines });
    }
    Charts { part: part.to_owned(), charts, table: View::of(&table) }
}

/// Times and values of a line; none if the series has no such counter.
fn points(line: &Line, series: &Series) -> Option<(Vec<f64>, Vec<f64>)> {
    let columns: Vec<usize> = line.of.iter().filter_map(|name| series.column(name)).collect();
    let sum = |row: &[u64]| columns.iter().map(|&at| row[at]).sum::<u64>() as f64;
    let values: Vec<(f64, f64)> = match line.kind {
        Kind::Level if columns.is_empty() => return None,
        Kind::Rate if columns.is_empty() => return None,
        Kind::Level => series.rows().map(|(at, row)| (ms(at), sum(row) / MIB_PAGES)).collect(),
        Kind::Rate => {
            let rows: Vec<(f64, f64)> = series.rows().map(|(at, row)| (ms(at), sum(row))).collect();
            let every = rows.len().div_ceil(POINTS_MAX).max(1);
            // Of what is between two points, nothing is lost.
            let kept: Vec<(f64, f64)> = rows.into_iter().step_by(every).collect();
            let pairs = kept.windows(2);
            let rates = pairs.filter(|pair| pair[1].0 > pair[0].0);
            rates
                .map(|pair| (pair[1].0, (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0)))
                .collect()
        }
        Kind::Unusable => unusable(series)?,
        Kind::Blocks(from, to) => free_blocks(series, from, to)?,
    };
    let every = values.len().div_ceil(POINTS_MAX).max(1);
    let (t, v) = values.into_iter().step_by(every).map(|(t, v)| (rounded(t), rounded(v))).unzip();
    Some((t, v))
}

/// Free memory in blocks of some orders.
fn free_blocks(series: &Series, from: u32, to: u32) -> Option<Vec<(f64, f64)>> {
    let blocks: Vec<(usize, u32)> =
        orders(series).into_iter().filter(|(_, order)| (from..=to).contains(order)).collect();
    let pages = |row: &[u64]| blocks.iter().map(|&(at, order)| row[at] << order).sum::<u64>();
    let mib = |row: &[u64]| pages(row) as f64 / MIB_PAGES;
    (!blocks.is_empty()).then(|| series.rows().map(|(at, row)| (ms(at), mib(row))).collect())
}

/// Columns of free blocks, with their orders.
fn orders(series: &Series) -> Vec<(usize, u32)> {
    let order =
        |(at, name): (usize, &String)| Some((at, name.split_once("/order")?.1.parse().ok()?));
    (0..).zip(&series.columns).filter_map(order).collect()
}

/// Free memory in blocks below a huge page, of all that is free (rules/compaction#fragmentation-index).
fn unusable(series: &Series) -> Option<Vec<(f64, f64)>> {
    let blocks = orders(series);
    if blocks.is_empty() {
        return None;
    }
    let share = |row: &[u64]| {
        let pages = |from: u32| {
            let counted = blocks.iter().filter(|(_, order)| *order >= from);
            counted.map(|&(at, order)| row[at] << order).sum::<u64>() as f64
        };
        let all = pages(0);
        if all > 0.0 { 100.0 * (1.0 - pages(HUGE_ORDER) / all) } else { 0.0 }
    };
    Some(series.rows().map(|(at, row)| (ms(at), share(row))).collect())
}

/// Watermarks of all zones together, where the series has them.
fn watermarks(series: &Series) -> Vec<Drawn> {
    let of = |mark: &str| {
        let columns: Vec<usize> = (0..)
            .zip(&series.columns)
            .filter(|(_, name)| name.ends_with(&format!("/{mark}")))
            .map(|(at, _)| at)
            .collect();
        if columns.is_empty() {
            return None;
        }
        let every = series.len().div_ceil(POINTS_MAX).max(1);
        let points = series.rows().step_by(every).map(|(at, row)| {
            let pages = columns.iter().map(|&at| row[at]).sum::<u64>() as f64;
            (rounded(ms(at)), rounded(pages / MIB_PAGES))
        });
        let (t, v) = points.unzip();
        Some(Drawn { label: format!("{mark} watermark"), policy: None, t, v })
    };
    ["min", "low", "high"].into_iter().filter_map(of).collect()
}

fn ms(at_ns: u64) -> f64 {
    at_ns as f64 / 1e6
}

/// Four digits say all that a chart shows.
fn rounded(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let digits = 4 - value.abs().log10().ceil() as i32;
    if digits <= 0 {
        value.round()
    } else {
        format!("{value:.*}", digits.min(6) as usize).parse().unwrap_or(value)
    }
}
