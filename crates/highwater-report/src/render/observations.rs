//! The measured values of a document as one tidy CSV table: one line per observation, one type per
//! column.
//!
//! | column | is |
//! |---|---|
//! | experiment, host, machine, policy, label | the run; the label is its heading in tables |
//! | seed, iteration | whole numbers; iterations of a run count from 0 |
//! | kind | `sample`, `counter`, `time` |
//! | metric, operation | of a sample; a counter is an operation of `vmstat`, a time one of `time` |
//! | unit | the metric's; `count`, `ns` |
//! | value | a number |
//!
//! Number fields are never empty, so that readers can infer the types. A metric owns the operations
//! that it lists. The first metric that lists none owns all others.

use std::fmt;

use highwater_results::{Document, Metric, Run, Times};

use super::csv::Records;

/// Kinds of observations.
pub const SAMPLE: &str = "sample";
/// A counter of `/proc/vmstat`.
pub const COUNTER: &str = "counter";
/// User, system or elapsed time.
pub const TIME: &str = "time";
/// Names of the columns.
pub const COLUMNS: [&str; 12] = [
    "experiment",
    "host",
    "machine",
    "policy",
    "label",
    "seed",
    "iteration",
    "kind",
    "metric",
    "operation",
    "unit",
    "value",
];

/// A value of an observation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Of a sample, in the unit of its metric.
    Sample(f64),
    /// A time, in nanoseconds.
    Time(u64),
    /// The change of a counter over the run.
    Count(i64),
}

impl Value {
    /// As a float: exact for samples, and for whole numbers up to 2^53.
    pub const fn as_f64(self) -> f64 {
        match self {
            Value::Sample(value) => value,
            Value::Time(ns) => ns as f64,
            Value::Count(count) => count as f64,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Sample(value) => value.fmt(f),
            Value::Time(ns) => ns.fmt(f),
            Value::Count(count) => count.fmt(f),
        }
    }
}

/// A row of the table; its fields are the columns.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the module lists the columns")]
pub struct Observation<'a> {
    pub experiment: &'a str,
    pub host: &'a str,
    pub machine: &'a str,
    pub policy: &'a str,
    pub label: &'a str,
    pub seed: u64,
    pub iteration: u32,
    pub kind: &'static str,
    pub metric: &'a str,
    pub operation: &'a str,
    pub unit: &'a str,
    pub value: Value,
}

/// The observations of a document as values, in the order of the table: run by run the samples, then
/// the times and counters of each seed.
pub fn rows(document: &Document) -> Vec<Observation<'_>> {
    let mut rows = Vec::new();
    for run in &document.runs {
        let of_run = Observation {
            experiment: &document.experiment,
            host: &document.host,
            machine: &run.machine,
            policy: &run.policy,
            label: &run.label,
            seed: 0,
            iteration: 0,
            kind: SAMPLE,
            metric: "",
            operation: "",
            unit: "",
            value: Value::Count(0),
        };
        for sample in &run.samples {
            let metric = metric_of(document, &sample.operation);
            let (metric, unit) = metric.map_or(("", ""), |metric| (&metric.name, &metric.unit));
            let (operation, value) = (sample.operation.as_str(), Value::Sample(sample.value));
            let (seed, iteration) = (sample.seed, sample.iteration);
            rows.push(Observation { seed, iteration, metric, operation, unit, value, ..of_run });
        }
        for totals in &run.per_seed {
            let (seed, iteration) = (totals.seed, iteration_of(run, totals.seed));
            let of_seed = Observation { seed, iteration, ..of_run };
            for (operation, ns) in times(&totals.times) {
                let (kind, unit, value) = (TIME, "ns", Value::Time(ns));
                rows.push(Observation { kind, metric: TIME, operation, unit, value, ..of_seed });
            }
            for (operation, count) in totals.counters.iter() {
                let (metric, unit, value) = ("vmstat", "count", Value::Count(count));
                rows.push(Observation { kind: COUNTER, metric, operation, unit, value, ..of_seed });
            }
        }
    }
    rows
}

/// The times of a run by name, in nanoseconds.
pub fn times(times: &Times) -> [(&'static str, u64); 3] {
    [("user", times.user_ns), ("system", times.system_ns), ("elapsed", times.elapsed_ns)]
}

/// The observations of a document: samples, then the times and counters of each seed, run by run.
pub fn observations(document: &Document) -> String {
    of_all([(document, None)])
}

/// The observations of several experiments in one table.
pub fn of_each(documents: &[Document]) -> String {
    of_all(documents.iter().map(|document| (document, None)))
}

/// The observations of several documents in one table. An additional first column, `side`, has the
/// name of the document.
pub fn of_several(documents: &[(&str, &Document)]) -> String {
    of_all(documents.iter().map(|&(name, document)| (document, Some(name))))
}

fn of_all<'a>(documents: impl IntoIterator<Item = (&'a Document, Option<&'a str>)>) -> String {
    let documents: Vec<_> = documents.into_iter().collect();
    let is_several = documents.iter().any(|(_, name)| name.is_some());
    let side = is_several.then_some("side");
    let columns: Vec<&str> = side.into_iter().chain(COLUMNS).collect();
    let mut records = Records::new(&columns);
    for (document, name) in documents {
        for row in rows(document) {
            let Observation { experiment, host, machine, policy, label, .. } = row;
            let Observation { kind, metric, operation, unit, .. } = row;
            let [seed, iteration] = [row.seed, row.iteration.into()].map(|nr: u64| nr.to_string());
            let value = row.value.to_string();
            let before = [experiment, host, machine, policy, label, &seed, &iteration];
            let what = [kind, metric, operation, unit, &value];
            records.push(name.into_iter().chain(before).chain(what));
        }
    }
    records.into_text()
}

/// The metric that owns an operation's samples.
fn metric_of<'a>(document: &'a Document, operation: &str) -> Option<&'a Metric> {
    let metrics = &document.metrics;
    let lists = |metric: &&Metric| metric.operations.iter().any(|one| one == operation);
    metrics.iter().find(lists).or_else(|| metrics.iter().find(|m| m.operations.is_empty()))
}

/// The iteration of a run that used this seed.
fn iteration_of(run: &Run, seed: u64) -> u32 {
    let at = run.seeds.iter().position(|known| *known == seed).unwrap_or(0);
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use highwater_results::{Better, SeedTotals, TableKind};

    use super::*;

    #[test]
    fn every_observation_is_a_line() {
        let mut document = Document::new("0.1.0", "x, quick", "sim", 1);
        let any = Metric::new("latency", "ms", Better::Lower, TableKind::Multi);
        let mut listed = Metric::new("work", "MiB", Better::Higher, TableKind::Single);
        listed.operations = vec!["written".to_owned()];
        document.metrics = vec![any, listed];
        let mut run = Run::new("m", "p", "6.1-p");
        run.seeds = vec![u64::MAX, 0];
        run.push("mmap", 0, u64::MAX, 1.0 / 3.0);
        run.push("written", 1, 0, 7.0);
        let times = Times { user_ns: 1, system_ns: 2, elapsed_ns: u64::MAX };
        let counters = [("pgfault", -4), ("pswpin", 1 << 60)].into_iter().collect();
        run.per_seed.push(SeedTotals { seed: 0, times, counters, ..SeedTotals::default() });
        document.runs.push(run);
        let expected = r#"experiment,host,machine,policy,label,seed,iteration,kind,metric,operation,unit,value
"x, quick",sim,m,p,6.1-p,18446744073709551615,0,sample,latency,mmap,ms,0.3333333333333333
"x, quick",sim,m,p,6.1-p,0,1,sample,work,written,MiB,7
"x, quick",sim,m,p,6.1-p,0,1,time,time,user,ns,1
"x, quick",sim,m,p,6.1-p,0,1,time,time,system,ns,2
"x, quick",sim,m,p,6.1-p,0,1,time,time,elapsed,ns,18446744073709551615
"x, quick",sim,m,p,6.1-p,0,1,counter,vmstat,pgfault,count,-4
"x, quick",sim,m,p,6.1-p,0,1,counter,vmstat,pswpin,count,1152921504606846976
"#;
        assert_eq!(observations(&document), expected);
        let several = of_several(&[("old", &document), ("new", &document)]);
        let lines: Vec<&str> = several.lines().collect();
        assert!(lines[0].starts_with("side,experiment,"), "{several}");
        assert_eq!(lines.len(), 1 + 2 * (expected.lines().count() - 1));
        assert!(lines[1].starts_with("old,\"x, quick\",sim,m,p,6.1-p,"), "{several}");
    }
}
