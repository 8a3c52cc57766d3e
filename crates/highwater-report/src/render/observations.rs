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

use highwater_results::{Document, Metric, Run};

use super::csv::Records;

/// Names of the columns.
const COLUMNS: [&str; 12] = [
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
        add(&mut records, document, name);
    }
    records.into_text()
}

fn add(records: &mut Records, document: &Document, name: Option<&str>) {
    for run in &document.runs {
        let (experiment, host) = (&*document.experiment, &*document.host);
        let place = [experiment, host, &*run.machine, &*run.policy, &*run.label];
        let mut push = |seed: u64, iteration: usize, what: [&str; 4], value: String| {
            let (seed, iteration) = (seed.to_string(), iteration.to_string());
            let before = name.into_iter().chain(place).chain([&*seed, &*iteration]);
            records.push(before.chain(what).chain([&*value]));
        };
        for sample in &run.samples {
            let metric = metric_of(document, &sample.operation);
            let (name, unit) = metric.map_or(("", ""), |metric| (&metric.name, &metric.unit));
            let what = ["sample", name, &sample.operation, unit];
            push(sample.seed, sample.iteration as usize, what, sample.value.to_string());
        }
        for totals in &run.per_seed {
            let iteration = iteration_of(run, totals.seed);
            for (name, ns) in [
                ("user", totals.times.user_ns),
                ("system", totals.times.system_ns),
                ("elapsed", totals.times.elapsed_ns),
            ] {
                push(totals.seed, iteration, ["time", "time", name, "ns"], ns.to_string());
            }
            for (name, count) in totals.counters.iter() {
                let what = ["counter", "vmstat", name, "count"];
                push(totals.seed, iteration, what, count.to_string());
            }
        }
    }
}

/// The metric that owns an operation's samples.
fn metric_of<'a>(document: &'a Document, operation: &str) -> Option<&'a Metric> {
    let metrics = &document.metrics;
    let lists = |metric: &&Metric| metric.operations.iter().any(|one| one == operation);
    metrics.iter().find(lists).or_else(|| metrics.iter().find(|m| m.operations.is_empty()))
}

/// The iteration of a run that used this seed.
fn iteration_of(run: &Run, seed: u64) -> usize {
    run.seeds.iter().position(|known| *known == seed).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use highwater_results::{Better, SeedTotals, TableKind, Times};

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
