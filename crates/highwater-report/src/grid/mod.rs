//! A grid: one experiment at every combination of values of some keys (`compare --vary`).
//!
//! ```text
//! --vary A=1,2 --vary B=x,y ──▶ points (1,x) (1,y) (2,x) (2,y), a document each
//!                                  │
//!            a row for each point, machine, run, metric and operation (tidy CSV)
//!                                  │
//!            of each operation, how much of what varies is due to each key
//! ```
//!
//! Key types: [`Grid`], [`Point`]. The interval of a mean is taken over the seeds' means; the
//! interval of a change is the verdict's.

use std::collections::{BTreeMap, BTreeSet};

use highwater_results::{Better, Document, Metric, Run};

use crate::change::{Change, changes};
use crate::compare::{not_counted, operations};
use crate::render::csv::Records;
use crate::stats::bootstrap::Bootstrap;
use crate::stats::quantile::interpolated;
use crate::stats::summary::amean;
use crate::table::{Cell, Layout, Table};

/// The metric and the unit of counters.
const COUNTERS: [&str; 2] = ["counters", "events"];
/// Names of the columns after those of the keys.
const COLUMNS: [&str; 15] = [
    "machine",
    "policy",
    "metric",
    "unit",
    "operation",
    "samples",
    "mean",
    "low",
    "high",
    "min",
    "median",
    "max",
    "change",
    "change_low",
    "change_high",
];
/// The key whose values are machines. Tables have one column of that name: the machine of each run.
pub const MACHINE: &str = COLUMNS[0];
/// Name of the policy in the list of keys.
const POLICY: &str = "policy";
/// If values differ by less than this, relative to the largest, no key explains anything.
const NOTHING: f64 = 1e-9;

/// An experiment at one combination of values.
#[derive(Clone, Copy, Debug)]
pub struct Point<'a> {
    /// Values, in the order of the grid's keys.
    pub values: &'a [String],
    /// The results.
    pub document: &'a Document,
}

/// All points of a grid.
#[derive(Clone, Debug)]
pub struct Grid<'a> {
    /// The keys that vary.
    pub keys: &'a [String],
    /// Every combination; the last key varies fastest.
    pub points: Vec<Point<'a>>,
    /// Counters of `/proc/vmstat` to show at each point.
    pub counters: &'a [String],
}

/// The keys of a table written by [`Grid::csv`], and the points that have rows in it. If machines
/// vary, [`MACHINE`] is the first key, and its values are names in reports.
///
/// # Errors
/// If the text is not such a table.
pub fn points_of(csv: &str) -> Result<(Vec<String>, BTreeSet<Vec<String>>), String> {
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let header = reader.headers().map_err(|error| error.to_string())?;
    let position = |column: &str| {
        let found = header.iter().position(|name| name == column);
        found.ok_or_else(|| format!("has no column \"{column}\""))
    };
    let nr_keys = match position(MACHINE)? {
        0 => position(COLUMNS[1])?,
        nr_keys => nr_keys,
    };
    let of = |record: &csv::StringRecord| record.iter().take(nr_keys).map(str::to_owned).collect();
    let keys = of(header);
    let points = reader.records().map(|record| record.map(|record| of(&record)));
    Ok((keys, points.collect::<Result<_, _>>().map_err(|error| error.to_string())?))
}

/// The result of an operation of a run at a point.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen<'a> {
    /// Number of the point.
    pub point: usize,
    /// The machine.
    pub machine: &'a str,
    /// Heading of the run.
    pub label: &'a str,
    /// The operation.
    pub operation: String,
    /// Its mean.
    pub mean: f64,
    /// Change from the baseline of the point and machine, in percent; positive is better.
    pub change: Option<f64>,
}

/// One operation of a run.
struct Observed<'a> {
    point: usize,
    metric: &'a Metric,
    run: &'a Run,
    operation: String,
    /// The mean over all seeds' samples, ascending.
    values: Vec<f64>,
    mean: f64,
    /// The interval of the seeds' means.
    interval: Option<(f64, f64)>,
    /// The change from the baseline of its point and machine.
    change: Option<Change>,
}

impl Observed<'_> {
    /// True if the run's kernel does not count the operation.
    fn is_nothing(&self) -> bool {
        self.run.not_counted.contains(&self.operation)
    }
}

impl<'a> Grid<'a> {
    /// The whole grid as one tidy table with full-precision numbers: a row for each point, machine,
    /// run, metric and operation.
    ///
    /// Limits are for 95 %. `change` is in percent against the baseline of the same point and
    /// machine; positive is better. A value that does not exist is an empty field: the baseline's
    /// change, the interval of one seed, everything that a kernel does not count.
    pub fn csv(&self) -> String {
        let columns = COLUMNS.into_iter().skip(usize::from(self.has_key(MACHINE)));
        let header: Vec<&str> = self.keys.iter().map(String::as_str).chain(columns).collect();
        let mut records = Records::new(&header);
        let mut push = |point: usize, run: &Run, what: [&str; 3], figures: Figures| {
            let mut fields: Vec<String> =
                self.values(point, &run.machine).into_iter().map(str::to_owned).collect();
            fields.extend((!self.has_key(MACHINE)).then(|| run.machine.clone()));
            fields.push(run.label.clone());
            fields.extend(what.map(str::to_owned));
            fields.extend(figures.fields());
            records.push(fields);
        };
        for seen in self.observed() {
            let what = [&*seen.metric.name, &*seen.metric.unit, &*seen.operation];
            let change = seen.change.as_ref();
            let figures = Figures {
                mean: Some(seen.mean),
                interval: seen.interval,
                change: change.and_then(percent),
                of_change: change.and_then(|change| change.interval),
                values: seen.values,
            };
            push(seen.point, seen.run, what, figures);
        }
        for (at, point) in self.points.iter().enumerate() {
            let document = point.document;
            for run in &document.runs {
                for metric in &document.metrics {
                    let lacks = |name: &&String| run.not_counted.contains(name);
                    for name in metric.operations.iter().filter(lacks) {
                        let what = [&*metric.name, &*metric.unit, &**name];
                        push(at, run, what, Figures::default());
                    }
                }
                for counter in self.counters {
                    let what = [COUNTERS[0], COUNTERS[1], &**counter];
                    push(at, run, what, Figures::of_counter(run, counter));
                }
            }
        }
        records.into_text()
    }

    /// Whether the key varies.
    pub fn has_key(&self, key: &str) -> bool {
        self.keys.iter().any(|known| known == key)
    }

    /// The values at a point; [`MACHINE`] has the name of the run's machine in reports.
    pub fn values<'s>(&'s self, point: usize, machine: &'s str) -> Vec<&'s str> {
        let pairs = self.keys.iter().zip(self.points[point].values);
        let value = |(key, value): (&String, &'s String)| match key == MACHINE {
            true => machine,
            false => value.as_str(),
        };
        pairs.map(value).collect()
    }

    /// Operations of the first metric at each point, in the order of the points.
    pub fn seen(&self) -> Vec<Seen<'a>> {
        let first = self.points.first().and_then(|point| point.document.metrics.first());
        let Some(metric) = first else { return Vec::new() };
        let of_metric = self.observed().into_iter().filter(|seen| seen.metric.name == metric.name);
        let seen = of_metric.map(|seen| Seen {
            point: seen.point,
            machine: &seen.run.machine,
            label: &seen.run.label,
            mean: seen.mean,
            change: seen.change.as_ref().and_then(percent),
            operation: seen.operation,
        });
        seen.collect()
    }

    /// Tables for reading: for each metric, its operations' means and changes at each point, and
    /// how much each key matters.
    pub fn tables(&self) -> Vec<Table> {
        let observed = self.observed();
        let first = self.points.first();
        let metrics = first.map_or(&[][..], |point| point.document.metrics.as_slice());
        let mut tables: Vec<Table> =
            metrics.iter().map(|metric| self.means(metric, &observed)).collect();
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
        let runs = || self.points.iter().flat_map(|point| &point.document.runs);
        let is_several =
            |of: fn(&Run) -> &str| runs().any(|one| runs().any(|two| of(one) != of(two)));
        let is_missing = !self.has_key(MACHINE) && is_several(|run| &run.machine);
        labels.extend(is_missing.then_some(machine));
        labels.extend(is_several(|run| &run.label).then_some(run));
        labels
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
        operations.retain(|name| {
            let of_name = || observed.iter().filter(|seen| seen.operation == *name);
            let first = of_name().next().map_or(0.0, |seen| seen.mean);
            let is_same = of_name().all(|seen| seen.mean == first);
            !(is_same && (first == 0.0 || metric.better == Better::Neither))
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
        if shown[2] {
            let word = if metric.better == Better::Neither { "more" } else { "better" };
            table.notes.push(format!(
                "change: in percent against the first run of the same point, positive is {word}"
            ));
        }
        table
    }

    /// How much each key matters: the part of the variance of an operation's mean over the grid
    /// that lies between the values of the key. The rest belongs to combinations of keys.
    fn factors(&self, observed: &[Observed<'_>]) -> Table {
        let mut keys: Vec<&str> = self.keys.iter().map(String::as_str).collect();
        keys.push(POLICY);
        let columns = keys.iter().map(|&key| key.to_owned()).chain(["together".to_owned()]);
        let title = "What matters how much (percent of the variance over the grid)";
        let is_key = self.has_key(MACHINE);
        let labels = |[metric, machine, operation]: [&'_ str; 3]| match is_key {
            true => vec![metric.to_owned(), operation.to_owned()],
            false => [metric, machine, operation].map(str::to_owned).to_vec(),
        };
        let headings = labels(["metric", MACHINE, "operation"]);
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        let mut table = Table::new(title, &headings, columns.collect(), Layout::Fitted);
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
            for at in 0..keys.len() {
                let levels: Vec<String> = rows.iter().map(|seen| level(at, seen)).collect();
                let levels: Vec<&str> = levels.iter().map(String::as_str).collect();
                let of_key = variance(&values, &levels);
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

    /// All operations of all runs, in the order of the points.
    fn observed(&self) -> Vec<Observed<'a>> {
        let mut all = Vec::new();
        for (at, point) in self.points.iter().enumerate() {
            let document = point.document;
            for (_, runs) in document.by_machine() {
                for (number, &run) in runs.iter().enumerate() {
                    for metric in &document.metrics {
                        let baseline = runs.first().filter(|_| number > 0);
                        let changes = baseline
                            .map(|baseline| changes(metric, baseline, run, document.iterations));
                        all.extend(operations_of(at, metric, run, changes.unwrap_or_default()));
                    }
                }
            }
        }
        all
    }
}

/// The figures of a row of [`Grid::csv`]; all empty if the run's kernel does not count the
/// operation.
#[derive(Debug, Default)]
struct Figures {
    /// Of all seeds, ascending.
    values: Vec<f64>,
    mean: Option<f64>,
    interval: Option<(f64, f64)>,
    change: Option<f64>,
    of_change: Option<(f64, f64)>,
}

impl Figures {
    /// The figures of a counter, which has one value for each seed.
    fn of_counter(run: &Run, counter: &str) -> Figures {
        if run.why_not_counted(counter).is_some() {
            return Figures::default();
        }
        let counts = run.per_seed.iter().map(|totals| totals.counters.get(counter) as f64);
        let mut values: Vec<f64> = counts.collect();
        values.sort_unstable_by(f64::total_cmp);
        let interval = Bootstrap::default().statistic(&values, amean).map(|i| i.percentile);
        Figures { mean: amean(&values), interval, values, ..Figures::default() }
    }

    fn fields(&self) -> [String; 10] {
        let number = |value: Option<f64>| value.map(|v| v.to_string()).unwrap_or_default();
        [
            self.values.len().to_string(),
            number(self.mean),
            number(self.interval.map(|(low, _)| low)),
            number(self.interval.map(|(_, high)| high)),
            number(self.values.first().copied()),
            number(interpolated(&self.values, 0.5)),
            number(self.values.last().copied()),
            number(self.change),
            number(self.of_change.map(|(low, _)| low)),
            number(self.of_change.map(|(_, high)| high)),
        ]
    }
}

/// A metric's operations in a run.
fn operations_of<'a>(
    point: usize,
    metric: &'a Metric,
    run: &'a Run,
    changes: Vec<Change>,
) -> impl Iterator<Item = Observed<'a>> {
    let mut values: BTreeMap<&str, BTreeMap<u64, Vec<f64>>> = BTreeMap::new();
    for sample in &run.samples {
        let of_operation = values.entry(&sample.operation).or_default();
        of_operation.entry(sample.seed).or_default().push(sample.value);
    }
    operations(metric, &[run]).into_iter().filter_map(move |operation| {
        let by_seed = values.get(operation.as_str())?;
        let means: Vec<f64> = by_seed.values().filter_map(|values| amean(values)).collect();
        let mut values: Vec<f64> = by_seed.values().flatten().copied().collect();
        values.sort_unstable_by(f64::total_cmp);
        let mean = amean(&values)?;
        let interval = Bootstrap::default().statistic(&means, amean).map(|i| i.percentile);
        let change = changes.iter().find(|change| change.operation == operation).cloned();
        Some(Observed { point, metric, run, operation, values, mean, interval, change })
    })
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

/// A change in percent, positive is better; none if the baseline is 0.
fn percent(change: &Change) -> Option<f64> {
    let scale = change.scale();
    (scale > 0.0).then(|| -100.0 * change.worse_by() / scale)
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

#[cfg(test)]
mod tests {
    use highwater_results::{Better, TableKind};

    use super::*;

    fn document(a: f64, b: f64) -> Document {
        let mut document = Document::new("0.1.0", "x", "sim", 1);
        let metric = Metric {
            operations: vec!["op".to_owned()],
            ..Metric::new("m", "ms", Better::Lower, TableKind::Multi)
        };
        document.metrics = vec![metric];
        document.iterations = 2;
        document.runs = ["before", "after"]
            .into_iter()
            .zip([a, b])
            .map(|(label, value)| {
                let mut run = Run::new("machine", label, label);
                for seed in 0..2 {
                    run.push("op", 0, seed, value + seed as f64 * 0.5);
                }
                run
            })
            .collect();
        document
    }

    fn texts(of: &[&str]) -> Vec<String> {
        of.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn a_grid_is_tidy_and_says_what_matters() {
        let keys = texts(&["memory", "swappiness"]);
        let values = [["1G", "0"], ["1G", "60"], ["2G", "0"], ["2G", "60"]].map(|v| texts(&v));
        // Memory halves the value, swappiness does nothing, the change reduces it by a tenth.
        let documents =
            [(8.0, 7.2), (8.0, 7.2), (4.0, 3.6), (4.0, 3.6)].map(|(a, b)| document(a, b));
        let points: Vec<Point<'_>> = values
            .iter()
            .zip(&documents)
            .map(|(values, document)| Point { values, document })
            .collect();
        let counters = ["pgscan_kswapd".to_owned()];
        let grid = Grid { keys: &keys, points, counters: &counters };
        let csv = grid.csv();
        let points: BTreeSet<Vec<String>> = values.iter().cloned().collect();
        assert_eq!(points_of(&csv), Ok((keys.clone(), points)));
        assert!(points_of("a,b\n1,2\n").unwrap_err().contains("no column"));
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 1 + 2 * 4 * 2, "a row for the operation and one for the counter");
        assert!(lines[0].starts_with("memory,swappiness,machine,policy,metric,unit,operation,"));
        assert!(
            lines[1].starts_with("1G,0,machine,before,m,ms,op,2,8.25,8,8.5,8,8.25,8.5,,,"),
            "{}",
            lines[1]
        );
        assert!(lines[8].starts_with("2G,60,machine,after,m,ms,op,2,3.8"), "{}", lines[8]);
        let tables = grid.tables();
        assert_eq!(tables[0].rows.len(), 8);
        assert_eq!(tables[0].labels, ["operation", "memory", "swappiness", "run"]);
        assert_eq!(tables[0].columns.len(), 4, "two seeds, two runs");
        assert!(tables[1].title.starts_with("counters") && tables[1].rows.len() == 8);
        let shares: Vec<f64> =
            tables[2].rows[0].cells.iter().map(|cell| cell.value_text().parse().unwrap()).collect();
        assert!(shares[0] > 90.0 && shares[1] == 0.0 && shares[2] > 1.0, "{shares:?}");
        assert!((shares.iter().sum::<f64>() - 100.0).abs() < 0.2, "{shares:?}");
    }

    /// The machine is a factor like any other, and its column stands once.
    #[test]
    fn machines_that_vary_are_a_key() {
        let keys = texts(&["machine", "swappiness"]);
        let values =
            [["a.toml", "0"], ["a.toml", "60"], ["b", "0"], ["b", "60"]].map(|v| texts(&v));
        let mut documents =
            [(8.0, 7.2), (8.0, 7.2), (4.0, 3.6), (4.0, 3.6)].map(|(a, b)| document(a, b));
        for (at, document) in documents.iter_mut().enumerate() {
            let name = ["a", "b"][at / 2];
            document.runs.iter_mut().for_each(|run| name.clone_into(&mut run.machine));
        }
        let points: Vec<Point<'_>> = values
            .iter()
            .zip(&documents)
            .map(|(values, document)| Point { values, document })
            .collect();
        let grid = Grid { keys: &keys, points, counters: &[] };
        let csv = grid.csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert!(lines[0].starts_with("machine,swappiness,policy,metric,"), "{}", lines[0]);
        assert!(lines[1].starts_with("a,0,before,m,ms,op,2,8.25,"), "{}", lines[1]);
        let named = [["a", "0"], ["a", "60"], ["b", "0"], ["b", "60"]].map(|v| texts(&v));
        assert_eq!(points_of(&csv), Ok((keys.clone(), named.into_iter().collect())));
        let tables = grid.tables();
        assert_eq!(tables[0].labels, ["operation", "machine", "swappiness", "run"]);
        assert_eq!(tables[0].rows[7].labels, ["op", "b", "60", "after"]);
        assert_eq!(tables[1].labels, ["metric", "operation"]);
        assert_eq!(tables[1].rows.len(), 1);
        let shares: Vec<f64> =
            tables[1].rows[0].cells.iter().map(|cell| cell.value_text().parse().unwrap()).collect();
        assert!(shares[0] > 90.0 && shares[1] == 0.0, "{shares:?}");
    }

    #[test]
    fn what_does_not_vary_has_no_row() {
        let keys = texts(&["memory"]);
        let values = [texts(&["1G"]), texts(&["2G"])];
        let documents = [document(4.0, 4.0), document(4.0, 4.0)];
        let points: Vec<Point<'_>> = values
            .iter()
            .zip(&documents)
            .map(|(values, document)| Point { values, document })
            .collect();
        assert_eq!(Grid { keys: &keys, points, counters: &[] }.tables().len(), 1);
    }

    /// Every metric is shown at each point. A metric that is 0 everywhere, or a count that never
    /// differs, is not.
    #[test]
    fn latencies_and_steps_are_shown_at_each_point_and_nothing_is_not() {
        let keys = texts(&["memory"]);
        let values = [texts(&["1G"]), texts(&["2G"])];
        let mut documents = [document(4.0, 4.0), document(2.0, 2.0)];
        for (at, document) in documents.iter_mut().enumerate() {
            document.runs.truncate(1);
            let mut steps = Metric::new("steps", "events", Better::Neither, TableKind::Single);
            steps.operations = texts(&["fill pgfault", "fill pswpin", "fill pgscan"]);
            let mut pressure = Metric::new("pressure", "%", Better::Lower, TableKind::Single);
            pressure.operations = texts(&["cpu some"]);
            document.metrics.extend([steps, pressure]);
            let run = &mut document.runs[0];
            for (name, value) in [
                ("fill pgfault", 9.0 + at as f64),
                ("fill pswpin", 0.0),
                ("fill pgscan", 7.0),
                ("cpu some", 0.0),
            ] {
                run.push(name, 0, 0, value);
            }
        }
        let points: Vec<Point<'_>> = values
            .iter()
            .zip(&documents)
            .map(|(values, document)| Point { values, document })
            .collect();
        let tables = Grid { keys: &keys, points, counters: &[] }.tables();
        let titles: Vec<&str> = tables.iter().map(|table| table.title.as_str()).collect();
        assert!(
            titles[0].starts_with("m at each") && titles[1].starts_with("steps at each"),
            "{titles:?}"
        );
        assert_eq!(titles.len(), 3, "{titles:?}");
        assert_eq!(tables[1].labels, ["operation", "memory"]);
        let rows: Vec<String> = tables[1].rows.iter().map(|row| row.labels.join(" ")).collect();
        assert_eq!(rows, ["fill pgfault 1G", "fill pgfault 2G"]);
        assert_eq!(tables[1].columns, ["mean"], "neither seeds nor runs to compare");
    }
}
