//! The document of an experiment: its definitions and its results.
//!
//! Key types: [`Document`] (one experiment), [`Run`] (one policy on one machine, all its seeds
//! pooled), [`Definition`] (the full text of a machine or policy, so that the run can be repeated),
//! [`Times`].
//!
//! Neighbours: written by `highwater`, stored by [`store`](crate::store), read by
//! `highwater-report`. Everything is keyed by names, so reading it needs nothing of the memory
//! manager. It records nothing that may differ between two runs of the same seed: no wall clock, no
//! host name, no number of jobs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    Better, Counters, Histogram, Largest, MachineFigures, Metric, Sample, Sampled, Section,
};

/// Value of [`Document::schema`] that this version writes and reads.
pub const SCHEMA: &str = "highwater.compare/2";

/// One experiment: runs of several policies, on one or more machines, with the same seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    /// Kind and version of the file.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// Version of Highwater that ran it.
    pub version: String,
    /// Name of the experiment or workload.
    pub experiment: String,
    /// One line about it.
    pub title: String,
    /// The workload; its definition has the parameters after all changes.
    pub workload: Definition,
    /// Settings of workload, machines and policies that the user changed for this run alone, as
    /// `KEY=VALUE`; the definitions include them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
    /// Seeds of each policy on each machine.
    pub iterations: u32,
    /// The first seed; the others are derived from it.
    pub seed: u64,
    /// The command, word by word, without `--jobs` and `--out`: two runs that differ in these are
    /// the same experiment. It is for the reader only; the other fields have everything that is
    /// needed to run it again.
    pub command_line: Vec<String>,
    /// Host: `sim` (virtual time) or `native` (threads of a computer).
    #[schemars(extend("enum" = ["sim", "native"]))]
    pub host: String,
    /// Machines, in order of use.
    pub machines: Vec<Definition>,
    /// Policies, the baseline first.
    pub policies: Vec<Definition>,
    /// Present if counters were sampled over time (`--sample-every`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
    /// Meaning of the samples.
    pub metrics: Vec<Metric>,
    /// Sections of a report, in order.
    pub sections: Vec<Section>,
    /// The experiment's own policies, in order; published columns belong to them.
    pub published_policies: Vec<String>,
    /// Published figures, by machine.
    pub published: Vec<MachineFigures>,
    /// Headings of further baselines: runs besides the first that the runs after them are compared
    /// with. They are shipped policies that other policies extend.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_against: Vec<String>,
    /// Runs grouped by machine; within a machine the baseline comes first.
    pub runs: Vec<Run>,
}

/// A machine, a policy or a workload, with all its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// One line about it.
    pub summary: String,
    /// The TOML text that defines it; empty if the name says everything.
    #[serde(default)]
    pub definition: String,
}

/// Parts of a note with the digest of a seed.
const SEED: &str = "seed ";
const DIGEST: &str = ": digest ";

/// Results of one policy on one machine, over all seeds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Name of the machine.
    pub machine: String,
    /// Name of the policy.
    pub policy: String,
    /// Heading of the run's column, `6.1-vanilla`; a table splits it at its first dash
    /// (rules/mmtests-tables#headings).
    pub label: String,
    /// Seeds that were run, in order.
    pub seeds: Vec<u64>,
    /// CPU and elapsed time, summed over the seeds.
    #[serde(default)]
    pub times: Times,
    /// Measured values of all seeds.
    #[serde(with = "crate::sample")]
    #[schemars(with = "Vec<crate::sample::Series>")]
    pub samples: Vec<Sample>,
    /// Counter differences over the run, summed over the seeds.
    #[serde(default)]
    pub counters: Counters,
    /// Times and counters of each seed; older files have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_seed: Vec<SeedTotals>,
    /// The largest value of each operation over all seeds, if the workload knows when it occurred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub largest: Vec<Largest>,
    /// Histograms, summed over the seeds.
    #[serde(default)]
    pub histograms: Vec<Histogram>,
    /// The kernel whose rules the policy has, or most of them: `5.4`; older files do not name it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kernel: String,
    /// Operations that this kernel does not count: the absence of samples does not mean 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_counted: Vec<String>,
    /// First kernels that count what this one does not: for operations of `not_counted`, and for
    /// counters of `/proc/vmstat` that `counters` lacks for this reason. Older files do not have
    /// it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counted_since: BTreeMap<String, String>,
    /// Remarks for the reader, such as parts that were cut short or are not modelled.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Totals of one seed of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SeedTotals {
    /// The seed.
    pub seed: u64,
    /// CPU and elapsed time.
    pub times: Times,
    /// Counter differences, without those that are 0.
    pub counters: Counters,
    /// Tasks of a job with copies that ended early.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended_early: Vec<EndedEarly>,
}

/// A task of a job with copies that ended early.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EndedEarly {
    /// The task.
    pub task: String,
    /// Copies that the OOM killer chose.
    pub killed: u32,
    /// Copies that gave up because a call failed, for example a refused map.
    pub failed: u32,
    /// Copies that were started.
    pub started: u32,
    /// When the OOM killer first chose one, nanoseconds since the start. None if it chose none, if
    /// it did so only after the 256th report, and in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_kill_ns: Option<u64>,
    /// The call that failed first, and its error; empty if none failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

impl std::fmt::Display for EndedEarly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { task, killed, failed, started, reason, .. } = self;
        let some = |n: u32| match (*started, n) {
            (1, _) => "was".to_owned(),
            (_, 1) => format!("(1 of {started}) was"),
            _ => format!("({n} of {started}) were"),
        };
        match (*killed, *failed) {
            (0, failed) if failed == *started => write!(f, "{task} gave up: {reason}"),
            (0, failed) => write!(f, "{task} ({failed} of {started}) gave up: {reason}"),
            (killed, 0) => write!(f, "{task} {} killed for memory", some(killed)),
            (killed, failed) => {
                write!(f, "{task} {} killed for memory, {failed} gave up: {reason}", some(killed))
            }
        }
    }
}

/// Time spent by a run, in virtual time for the sim host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Times {
    /// CPU time of the benchmark's tasks outside the kernel, nanoseconds.
    pub user_ns: u64,
    /// CPU time of the benchmark's tasks inside the kernel, nanoseconds; kernel threads are
    /// excluded (rules/mmtests-tables#cpu-time).
    pub system_ns: u64,
    /// Time from start to end, nanoseconds.
    pub elapsed_ns: u64,
}

/// Reasons why a document cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DocumentError {
    /// The file is of another version, or is something else altogether.
    #[error("field `schema`: expected \"{SCHEMA}\", found \"{found}\"")]
    Schema {
        /// The value found.
        found: String,
    },
    /// Two runs on one machine would get the same column heading.
    #[error("runs[{index}]: label \"{label}\" is used twice on machine \"{machine}\"")]
    DuplicateLabel {
        /// Position of the second run.
        index: usize,
        /// The label.
        label: String,
        /// The machine.
        machine: String,
    },
    /// A value that cannot be compared.
    #[error(
        "runs[{run}].samples: sample {sample} of operation \"{operation}\" is not a finite number"
    )]
    NotFinite {
        /// Position of the run.
        run: usize,
        /// Position of the sample in the run.
        sample: usize,
        /// Its operation.
        operation: String,
    },
}

impl Document {
    /// A document without runs.
    pub fn new(version: &str, experiment: &str, host: &str, seed: u64) -> Self {
        Document {
            schema: SCHEMA.to_owned(),
            version: version.to_owned(),
            experiment: experiment.to_owned(),
            title: String::new(),
            workload: Definition::default(),
            settings: Vec::new(),
            iterations: 1,
            seed,
            command_line: Vec::new(),
            host: host.to_owned(),
            machines: Vec::new(),
            policies: Vec::new(),
            sampled: None,
            metrics: Vec::new(),
            sections: Vec::new(),
            published_policies: Vec::new(),
            published: Vec::new(),
            also_against: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Runs of each machine, machines in order of first appearance; the first run of a group is its
    /// baseline.
    pub fn by_machine(&self) -> Vec<(&str, Vec<&Run>)> {
        let mut groups: Vec<(&str, Vec<&Run>)> = Vec::new();
        for run in &self.runs {
            match groups.iter_mut().find(|(machine, _)| *machine == run.machine) {
                Some((_, runs)) => runs.push(run),
                None => groups.push((&run.machine, vec![run])),
            }
        }
        groups
    }

    /// The slowest operation of all runs: the largest sample of the first metric, if lower is
    /// better. Of several equal ones, the first.
    pub fn slowest(&self) -> Option<(&Run, &Sample)> {
        let metric = self.metrics.first().filter(|metric| metric.better == Better::Lower)?;
        let of_metric = |sample: &Sample| {
            metric.operations.is_empty() || metric.operations.contains(&sample.operation)
        };
        let all = self.runs.iter().flat_map(|run| run.samples.iter().map(move |s| (run, s)));
        let of_metric = all.filter(|(_, sample)| of_metric(sample));
        of_metric.reduce(|a, b| if b.1.value > a.1.value { b } else { a })
    }

    /// Checks what the types cannot express: schema, unique labels, finite samples.
    pub fn validate(&self) -> Result<(), DocumentError> {
        if self.schema != SCHEMA {
            return Err(DocumentError::Schema { found: self.schema.clone() });
        }
        for (index, run) in self.runs.iter().enumerate() {
            let twin = |other: &Run| other.machine == run.machine && other.label == run.label;
            if self.runs[..index].iter().any(twin) {
                return Err(DocumentError::DuplicateLabel {
                    index,
                    label: run.label.clone(),
                    machine: run.machine.clone(),
                });
            }
            if let Some(sample) = run.samples.iter().position(|sample| !sample.value.is_finite()) {
                return Err(DocumentError::NotFinite {
                    run: index,
                    sample,
                    operation: run.samples[sample].operation.clone(),
                });
            }
        }
        Ok(())
    }
}

impl Run {
    /// An empty run.
    pub fn new(machine: &str, policy: &str, label: &str) -> Self {
        Run {
            machine: machine.to_owned(),
            policy: policy.to_owned(),
            label: label.to_owned(),
            ..Run::default()
        }
    }

    /// Adds the digest of a seed's events to the notes: programs compare it.
    pub fn note_digest(&mut self, seed: u64, digest: u64) {
        self.notes.push(format!("{SEED}{seed}{DIGEST}{digest:016x}"));
    }

    /// The notes for readers: all but the digests.
    pub fn remarks(&self) -> impl Iterator<Item = &String> {
        let is_digest = |note: &str| note.starts_with(SEED) && note.contains(DIGEST);
        self.notes.iter().filter(move |note| !is_digest(note))
    }

    /// The text to show instead of a figure that this run's kernel does not count: an operation or
    /// a counter of `/proc/vmstat`. None if the kernel counts it.
    pub fn why_not_counted(&self, name: &str) -> Option<String> {
        let since = self.counted_since.get(name);
        if since.is_none() && !self.not_counted.iter().any(|known| known == name) {
            return None;
        }
        let since = since.map(|since| format!(" (since {since})")).unwrap_or_default();
        Some(format!("not counted in {}{since}", self.kernel_name()))
    }

    /// The kernel whose rules the policy has; in older files, the run's heading.
    pub fn kernel_name(&self) -> &str {
        if self.kernel.is_empty() { &self.label } else { &self.kernel }
    }

    /// Records one value.
    pub fn push(&mut self, operation: &str, iteration: u32, seed: u64, value: f64) {
        self.samples.push(Sample { operation: operation.to_owned(), iteration, seed, value });
    }

    /// All values of one operation, in the order recorded.
    pub fn values(&self, operation: &str) -> Vec<f64> {
        let of_operation = self.samples.iter().filter(|sample| sample.operation == operation);
        of_operation.map(|sample| sample.value).collect()
    }

    /// Operations in order of first appearance.
    pub fn operations(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for sample in &self.samples {
            // Samples come in series, so the last name is nearly always the right one.
            if names.last() != Some(&sample.operation.as_str())
                && !names.contains(&sample.operation.as_str())
            {
                names.push(&sample.operation);
            }
        }
        names
    }

    /// The histogram of an event in a context.
    pub fn histogram(&self, event: &str, context: &str) -> Option<&Histogram> {
        self.histograms
            .iter()
            .find(|histogram| histogram.event == event && histogram.context == context)
    }

    /// Adds the run of another seed of the same machine and policy: samples are appended; counters,
    /// times and histograms are summed.
    pub fn pool(&mut self, other: Run) {
        self.seeds.extend(other.seeds);
        self.samples.extend(other.samples);
        self.counters.merge(&other.counters);
        self.times.user_ns += other.times.user_ns;
        self.times.system_ns += other.times.system_ns;
        self.times.elapsed_ns += other.times.elapsed_ns;
        self.per_seed.extend(other.per_seed);
        other.largest.into_iter().for_each(|new| Largest::keep(&mut self.largest, new));
        for histogram in other.histograms {
            let same = |mine: &&mut Histogram| {
                mine.name == histogram.name
                    && mine.event == histogram.event
                    && mine.context == histogram.context
            };
            match self.histograms.iter_mut().find(same) {
                Some(mine) => mine.merge(&histogram),
                None => self.histograms.push(histogram),
            }
        }
        for name in other.not_counted {
            if !self.not_counted.contains(&name) {
                self.not_counted.push(name);
            }
        }
        self.counted_since.extend(other.counted_since);
        for note in other.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }
}

impl Times {
    /// User seconds.
    pub fn user_s(&self) -> f64 {
        self.user_ns as f64 / 1e9
    }

    /// System seconds.
    pub fn system_s(&self) -> f64 {
        self.system_ns as f64 / 1e9
    }

    /// Elapsed seconds.
    pub fn elapsed_s(&self) -> f64 {
        self.elapsed_ns as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TableKind;
    use proptest::prelude::*;

    fn document() -> Document {
        let mut document = Document::new("0.1.0", "001-reclaim-throttle", "sim", u64::MAX);
        document.metrics.push(Metric::new(
            "stutterp",
            "milliseconds",
            Better::Lower,
            TableKind::VariableTime,
        ));
        for label in ["6.1-before", "6.1-after"] {
            let mut run = Run::new("server-12", label, label);
            run.seeds = vec![u64::MAX];
            run.push("mmap-4", 0, u64::MAX, 0.1);
            run.push("mmap-4", 0, u64::MAX, 1.0 / 3.0);
            run.push("mmap-7", 1, u64::MAX, 22.0);
            run.counters.set("pgfault", 1 << 60);
            document.runs.push(run);
        }
        document
    }

    #[test]
    fn json_is_compact_stable_and_exact() {
        let document = document();
        let text = serde_json::to_string(&document.runs[0]).unwrap();
        assert!(
            text.contains(
                r#""samples":[{"operation":"mmap-4","iteration":0,"seed":18446744073709551615,"values":[0.1,0.3333333333333333]},{"operation":"mmap-7""#
            ),
            "{text}"
        );
        let back: Document =
            serde_json::from_str(&serde_json::to_string(&document).unwrap()).unwrap();
        assert_eq!(back, document);
    }

    #[test]
    fn totals_and_largest_of_seeds_are_kept_and_old_files_have_none() {
        let mut run = document().runs.remove(0);
        let old = serde_json::to_string(&run).unwrap();
        assert!(!old.contains("per_seed") && !old.contains("largest"));
        assert_eq!(serde_json::from_str::<Run>(&old).unwrap().per_seed, []);
        run.per_seed.push(SeedTotals { seed: 7, ..SeedTotals::default() });
        let operation = "mmap-4".to_owned();
        run.largest.push(Largest { operation, seed: 7, value: 1.0 / 3.0, at_ns: u64::MAX });
        let back: Run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
        assert_eq!(back, run);
    }

    #[test]
    fn validate_names_what_is_wrong() {
        assert_eq!(document().validate(), Ok(()));
        let mut wrong = document();
        wrong.schema = "highwater.compare/1".into();
        assert!(wrong.validate().unwrap_err().to_string().contains("highwater.compare/1"));
        let mut wrong = document();
        wrong.runs[1].label = "6.1-before".into();
        assert!(wrong.validate().unwrap_err().to_string().starts_with("runs[1]: label"));
        let mut wrong = document();
        wrong.runs[1].samples[2].value = f64::NAN;
        assert!(
            wrong.validate().unwrap_err().to_string().contains("sample 2 of operation \"mmap-7\"")
        );
    }

    #[test]
    fn pooling_two_seeds_adds_everything() {
        let mut sum = document().runs.remove(0);
        sum.histograms.push(Histogram::new("h", "e", "all"));
        sum.pool(sum.clone());
        assert_eq!(sum.values("mmap-4").len(), 4);
        assert_eq!(sum.counters.get("pgfault"), 1 << 61);
        assert_eq!(sum.histograms.len(), 1);
        assert_eq!(sum.operations(), ["mmap-4", "mmap-7"]);
    }

    #[test]
    fn the_slowest_operation_is_found_in_any_run() {
        let mut document = document();
        document.runs[1].push("mmap-7", 0, 9, 23.0);
        document.runs[1].push("mmap-7", 0, 10, 23.0);
        let (run, sample) = document.slowest().unwrap();
        assert_eq!((run.label.as_str(), sample.seed), ("6.1-after", 9));
        document.metrics[0].operations = vec!["mmap-4".into()];
        assert_eq!(document.slowest().unwrap().1.value, 1.0 / 3.0);
        document.metrics[0].better = Better::Higher;
        assert!(document.slowest().is_none());
    }

    #[test]
    fn groups_keep_the_order_of_machines_and_runs() {
        let mut document = document();
        let mut other = document.runs[0].clone();
        other.machine = "laptop".into();
        document.runs.insert(1, other);
        let groups = document.by_machine();
        let shape: Vec<_> = groups.iter().map(|(machine, runs)| (*machine, runs.len())).collect();
        assert_eq!(shape, [("server-12", 2), ("laptop", 1)]);
    }

    proptest! {
        #[test]
        fn every_finite_sample_survives_json(
            rows in proptest::collection::vec(("[a-c]{1,2}", 0u32..3, 0u64..3, proptest::num::f64::NORMAL | proptest::num::f64::ZERO), 0..40)
        ) {
            let mut run = Run::new("m", "p", "l");
            for (operation, iteration, seed, value) in &rows {
                run.push(operation, *iteration, *seed, *value);
            }
            let back: Run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
            prop_assert_eq!(back, run);
        }
    }
}
