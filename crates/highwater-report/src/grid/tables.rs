//! Tables of a grid for reading: who died, means at each point, what matters how much.

use std::collections::BTreeMap;

use highwater_results::{Better, Metric, Run};

use super::{COUNTERS, Grid, MACHINE, Observed, percent};
use crate::compare::not_counted;
use crate::dead::{self, are_several};
use crate::stats::summary::amean;
use crate::table::{Cell, Layout, Table};

/// Name of the policy in the list of keys.
const POLICY: &str = "policy";
/// If values differ by less than this, relative to the largest, no key explains anything.
const NOTHING: f64 = 1e-9;

impl Grid<'_> {
    /// Tables for reading: tasks that died, then [`Grid::tables_of_means`].
    pub fn tables(&self) -> Vec<Table> {
        self.ended_early().into_iter().chain(self.tables_of_means()).collect()
    }

    /// For each metric its operations' means and changes at each point, and how much each key
    /// matters if there is more than one.
    pub(crate) fn tables_of_means(&self) -> Vec<Table> {
        let observed = self.observed();
        let first = self.points.first();
        let metrics = first.map_or(&[][..], |point| point.document.metrics.as_slice());
        let means = metrics.iter().map(|metric| self.means(metric, &observed));
        let mut tables: Vec<Table> = means.collect();
        tables.push(self.counted());
        tables.push(self.factors(&observed));
        tables.retain(|table| !table.rows.is_empty());
        tables
    }

    /// Label columns of a table with a row for each point: the keys, and machine and run if there
    /// are several.
    fn labels<'s>(
        &self,
        (what, of_point): (&'s str, Vec<&'s str>),
        (machine, run): (&'s str, &'s str),
    ) -> Vec<&'s str> {
        let mut labels = vec![what];
        labels.extend(of_point);
        let runs = || self.runs();
        let is_missing = !self.has_key(MACHINE) && are_several(runs(), |run| &run.machine);
        labels.extend(is_missing.then_some(machine));
        labels.extend(are_several(runs(), |run| &run.label).then_some(run));
        labels
    }

    /// Tasks that were killed or gave up: all points of each task that did so at some point; none if
    /// no task did.
    pub(crate) fn ended_early(&self) -> Option<Table> {
        let keys = self.keys.iter().map(String::as_str).collect();
        let labels = self.labels(("task", keys), (MACHINE, "run"));
        let columns = dead::COLUMNS.map(str::to_owned).to_vec();
        let title = "Tasks that ended early at each point (sums over seeds; the earliest kill)";
        let mut table = Table::new(title, &labels, columns, Layout::Fitted);
        for dead in dead::dead(self.runs()) {
            for (at, point) in self.points.iter().enumerate() {
                for run in &point.document.runs {
                    let values = self.values(at, &run.machine);
                    let labels = self.labels((dead.task, values), (&run.machine, &run.label));
                    table.push(&labels, dead.cells(run));
                }
            }
        }
        table.notes.push(dead::NOTE.to_owned());
        (!table.rows.is_empty()).then_some(table)
    }

    /// The requested counters, per seed.
    fn counted(&self) -> Table {
        let keys = self.keys.iter().map(String::as_str).collect();
        let labels = self.labels(("counter", keys), (MACHINE, "run"));
        let columns = vec!["mean".to_owned()];
        let title = format!("{} at each point ({} of a run)", COUNTERS[0], COUNTERS[1]);
        let mut table = Table::new(title, &labels, columns, Layout::Fitted);
        for counter in self.counters {
            for (at, point) in self.points.iter().enumerate() {
                for run in &point.document.runs {
                    let values = self.values(at, &run.machine);
                    let labels = self.labels((counter, values), (&run.machine, &run.label));
                    let nr_seeds = run.seeds.len().max(1) as f64;
                    let mean = || Cell::number(run.counters.get(counter) as f64 / nr_seeds, 0);
                    let cell = run.why_not_counted(counter).map_or_else(mean, Cell::text);
                    table.push(&labels, vec![cell]);
                }
            }
        }
        table
    }

    /// Means of a metric, with changes. An operation that is 0 everywhere is left out, and so is a
    /// count that is the same everywhere.
    fn means(&self, metric: &Metric, observed: &[Observed<'_>]) -> Table {
        let keys = self.keys.iter().map(String::as_str).collect();
        let labels = self.labels(("operation", keys), (MACHINE, "run"));
        let of_metric =
            || observed.iter().filter(|seen| seen.metric.name == metric.name && !seen.is_nothing());
        let is_any = |has: fn(&Observed<'_>) -> bool| of_metric().any(has);
        let shown = [
            true,
            is_any(|seen| seen.interval.is_some()),
            is_any(|seen| seen.change.is_some()),
            is_any(|seen| seen.change.as_ref().is_some_and(|change| change.interval.is_some())),
        ];
        let columns = ["mean", "95% of it", "change", "95% of change"];
        let columns = columns.iter().zip(shown).filter(|(_, is_shown)| *is_shown);
        let columns = columns.map(|(&column, _)| column.to_owned()).collect();
        let title = format!("{} at each point ({})", metric.name, metric.unit);
        let mut table = Table::new(title, &labels, columns, Layout::Fitted);
        let mut operations: Vec<&str> = Vec::new();
        for seen in of_metric() {
            if !operations.contains(&seen.operation.as_str()) {
                operations.push(&seen.operation);
            }
        }
        let nr_runs = self.points.iter().map(|point| point.document.runs.len()).sum::<usize>();
        let mut same = Vec::new();
        operations.retain(|name| {
            let of_name = || of_metric().filter(|seen| seen.operation == *name);
            let first = of_name().next().map_or(0.0, |seen| seen.mean);
            let is_same = of_name().count() == nr_runs && of_name().all(|seen| seen.mean == first);
            let is_left_out = is_same && (first == 0.0 || metric.better == Better::Neither);
            if is_left_out && first != 0.0 {
                let value = Cell::number(first, metric.decimals).value_text();
                same.push(format!("{name} {value}"));
            }
            !is_left_out
        });
        let of_name = |name: &str| {
            let name = name.to_owned();
            of_metric().filter(move |seen| seen.operation == name)
        };
        for seen in operations.iter().flat_map(|name| of_name(name)) {
            let values = self.values(seen.point, &seen.run.machine);
            let labels =
                self.labels((&seen.operation, values), (&seen.run.machine, &seen.run.label));
            let limits = |limits: Option<(f64, f64)>, decimals: usize| match limits {
                Some((low, high)) => Cell::text(format!("{low:.decimals$} .. {high:.decimals$}")),
                None => Cell::Missing,
            };
            let change = seen.change.as_ref();
            let cells = [
                Cell::number(seen.mean, metric.decimals),
                limits(seen.interval, metric.decimals.into()),
                change.and_then(percent).map_or(Cell::Missing, Cell::percent),
                limits(change.and_then(|change| change.interval), 1),
            ];
            let cells = cells.into_iter().zip(shown).filter(|(_, is_shown)| *is_shown);
            table.push(&labels, cells.map(|(cell, _)| cell).collect());
        }
        let runs: Vec<&Run> = self.points.iter().flat_map(|point| &point.document.runs).collect();
        table.notes.extend(not_counted(metric, &runs));
        if !same.is_empty() {
            table.notes.push(format!("the same in every run: {}", same.join(", ")));
        }
        if shown[2] {
            let word = if metric.better == Better::Neither { "more" } else { "better" };
            table.notes.push(format!(
                "change: in percent against the first run of the same point, positive is {word}"
            ));
        }
        table
    }

    /// How much each key matters: the part of the variance of an operation's mean over the grid
    /// that lies between the values of the key. The rest belongs to combinations of keys. Nothing
    /// if only one thing varies, which explains all.
    fn factors(&self, observed: &[Observed<'_>]) -> Table {
        let runs = || self.runs();
        let has_several = |values: Vec<&str>| values.iter().any(|value| *value != values[0]);
        let of_key = |at: usize| self.points.iter().map(|point| &*point.values[at]).collect();
        let mut levels: Vec<usize> =
            (0..self.keys.len()).filter(|&at| has_several(of_key(at))).collect();
        if has_several(runs().map(|run| &*run.label).collect()) {
            levels.push(self.keys.len());
        }
        let key_of = |&at: &usize| self.keys.get(at).map_or(POLICY, String::as_str);
        let columns = levels.iter().map(key_of).chain(["together"]).map(str::to_owned).collect();
        let title = "What matters how much (percent of the variance over the grid)";
        let is_key = self.has_key(MACHINE);
        let labels = |[metric, machine, operation]: [&'_ str; 3]| match is_key {
            true => vec![metric.to_owned(), operation.to_owned()],
            false => [metric, machine, operation].map(str::to_owned).to_vec(),
        };
        let headings = labels(["metric", MACHINE, "operation"]);
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        let mut table = Table::new(title, &headings, columns, Layout::Fitted);
        if levels.len() < 2 {
            return table;
        }
        for rows in grouped(observed, is_key) {
            let Some(first) = rows.first() else { continue };
            // Grids compare factors, so the scale is logarithmic: 2 to 4 is as far as 4 to 8.
            let is_positive = rows.iter().all(|seen| seen.mean > 0.0);
            let of = |mean: f64| if is_positive { mean.ln() } else { mean };
            let values: Vec<f64> = rows.iter().map(|seen| of(seen.mean)).collect();
            let size = values.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
            let total = variance(&values, &vec![""; values.len()]);
            if total.all <= NOTHING * size * size {
                continue;
            }
            let level = |at: usize, seen: &Observed<'_>| {
                let values = self.values(seen.point, &seen.run.machine);
                values.get(at).map_or_else(|| seen.run.label.clone(), |&value| value.to_owned())
            };
            let mut cells = Vec::new();
            let mut left = 100.0;
            for &at in &levels {
                let of_rows: Vec<String> = rows.iter().map(|seen| level(at, seen)).collect();
                let of_rows: Vec<&str> = of_rows.iter().map(String::as_str).collect();
                let of_key = variance(&values, &of_rows);
                let share = 100.0 * of_key.between / of_key.all;
                left -= share;
                cells.push(Cell::number(share, 1));
            }
            cells.push(Cell::number(left.max(0.0), 1));
            let labels = labels([&first.metric.name, &first.run.machine, &first.operation]);
            table.push(&labels.iter().map(String::as_str).collect::<Vec<_>>(), cells);
        }
        let notes = [
            "of the logarithms of means, where all are positive; together: in combinations of keys",
            "operations that came out the same everywhere are left out",
        ];
        table.notes.extend(notes.map(str::to_owned));
        table
    }
}

/// Groups of observations that share a row of [`Grid::factors`], in order of first appearance. The
/// machine is no part of it if it is a key.
fn grouped<'o, 'a>(
    observed: &'o [Observed<'a>],
    is_machine_key: bool,
) -> Vec<Vec<&'o Observed<'a>>> {
    let mut places: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    let mut groups: Vec<Vec<&Observed<'a>>> = Vec::new();
    for seen in observed {
        let machine = if is_machine_key { "" } else { seen.run.machine.as_str() };
        let key = (seen.metric.name.as_str(), machine, seen.operation.as_str());
        let at = *places.entry(key).or_insert(groups.len());
        if at == groups.len() {
            groups.push(Vec::new());
        }
        groups[at].push(seen);
    }
    groups
}

/// Sums of squares around the mean.
struct Squares {
    all: f64,
    /// Sum of squares of the levels' means, each weighted by its number of values.
    between: f64,
}

fn variance(values: &[f64], levels: &[&str]) -> Squares {
    let mean = amean(values).unwrap_or_default();
    let mut of_level: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (&value, &level) in values.iter().zip(levels) {
        of_level.entry(level).or_default().push(value);
    }
    let squared = |value: f64| (value - mean).powi(2);
    let between = of_level
        .values()
        .map(|values| values.len() as f64 * squared(amean(values).unwrap_or_default()));
    Squares { all: values.iter().map(|&value| squared(value)).sum(), between: between.sum() }
}
