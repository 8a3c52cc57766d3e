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
//! Key types: [`Grid`], [`Point`]; [`tables`] has what is printed for reading. The interval of a mean is taken over the seeds' means; the
//! interval of a change is the verdict's.

mod tables;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use highwater_results::{Document, Metric, Run};

use crate::change::{Change, changes};
use crate::compare::operations;
use crate::dead;
use crate::render::csv::Records;
use crate::stats::bootstrap::Bootstrap;
use crate::stats::quantile::interpolated;
use crate::stats::summary::amean;

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
    /// change, the interval of one seed, everything that a kernel does not count, the first kill of
    /// a task that was not killed.
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
        let dead = dead::dead(self.runs());
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
                for dead in &dead {
                    for (unit, figure, values) in dead.figures(run) {
                        let what = [dead::METRIC, unit, &*format!("{} {figure}", dead.task)];
                        push(at, run, what, Figures::of_values(values));
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

    /// The runs of all points.
    fn runs(&self) -> impl Iterator<Item = &'a Run> {
        self.points.iter().flat_map(|point| &point.document.runs)
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
        Figures::of_values(counts.collect())
    }

    /// The figures of what has one value for each seed, or for some seeds.
    fn of_values(mut values: Vec<f64>) -> Figures {
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

/// A change in percent, positive is better; none if the baseline is 0.
fn percent(change: &Change) -> Option<f64> {
    let scale = change.scale();
    (scale > 0.0).then(|| -100.0 * change.worse_by() / scale)
}
