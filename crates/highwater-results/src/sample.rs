//! One measured value, and the meaning of a set of values.
//!
//! Key types: [`Sample`] (a value with the operation, iteration and seed it came from), [`Metric`]
//! (unit, direction, decimals and table type of a benchmark's samples), [`Largest`] (the largest
//! value of an operation, with its time).
//!
//! Neighbours: a [`Run`](crate::Run) holds samples, a [`Document`](crate::Document) holds metrics;
//! `highwater-report` turns both into tables. Plain data, no synchronisation.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One measured value.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The operation, in the benchmark's own words: `mmap-4`, `64`, `Success 1`.
    pub operation: String,
    /// Number of the benchmark iteration that produced the value, from 0.
    pub iteration: u32,
    /// Seed of the simulated run that produced the value.
    pub seed: u64,
    /// The value, in the unit of its [`Metric`]. Finite.
    pub value: f64,
}

/// The largest value of an operation, with the seed and time at which it occurred.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Largest {
    /// The operation.
    pub operation: String,
    /// Seed of the simulated run that produced the value.
    pub seed: u64,
    /// The value, in the unit of its [`Metric`].
    pub value: f64,
    /// Time of completion, in virtual time since its machine was booted (each unit of work boots
    /// one).
    pub at_ns: u64,
}

impl Largest {
    /// Keeps the larger value of each operation; of two equal ones, the earlier.
    pub fn keep(all: &mut Vec<Largest>, new: Largest) {
        match all.iter_mut().find(|known| known.operation == new.operation) {
            Some(known) if new.value > known.value => *known = new,
            Some(_) => {}
            None => all.push(new),
        }
    }
}

/// Direction of a figure: which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Throughput, success rates.
    Higher,
    /// Latency, elapsed time.
    Lower,
    /// No direction: a count can be more or less, and neither is declared to be good.
    Neither,
}

/// Rows of a benchmark's table (rules/mmtests-tables#row-sets).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TableKind {
    /// Many samples per operation, summarised by mean and deviation: netperf and most others.
    Multi,
    /// The number of samples depends on the run; they are summarised by quantiles too: stutter,
    /// stutterp.
    VariableTime,
    /// One value per operation.
    Single,
    /// Operation first, then `Min`, `Mean`, `Max`: stress-highalloc.
    MinMeanMax,
}

/// Meaning of the samples of one benchmark table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// Title of the table, usually the benchmark's name.
    pub name: String,
    /// Unit in words: `milliseconds`.
    pub unit: String,
    /// Direction.
    pub better: Better,
    /// Digits after the decimal point when printed.
    pub decimals: u8,
    /// Row set.
    pub table: TableKind,
    /// Operations of this table, in row order. Empty: all operations of the runs, in order of first
    /// appearance.
    #[serde(default)]
    pub operations: Vec<String>,
    /// A line that says what the values measure, if the name does not; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Operations that are differences, each with the operation that it is a part of. A part may be
    /// close to 0, so its change is judged against the whole.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub part_of: BTreeMap<String, String>,
    /// The whole that all values are shares of, 100 for percentages; changes are judged against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<f64>,
    /// Values below this are small: a change from one small value to another does not lead the
    /// verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub small: Option<f64>,
    /// True if operations that never occurred are left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skips_zeros: bool,
}

impl Metric {
    /// A metric over every operation, with the decimals mmtests uses: 4 for variable-time tables,
    /// else 2.
    pub fn new(name: &str, unit: &str, better: Better, table: TableKind) -> Self {
        let decimals = if table == TableKind::VariableTime { 4 } else { 2 };
        Metric {
            name: name.to_owned(),
            unit: unit.to_owned(),
            better,
            decimals,
            table,
            operations: Vec::new(),
            about: String::new(),
            part_of: BTreeMap::new(),
            whole: None,
            small: None,
            skips_zeros: false,
        }
    }
}

/// Samples are stored as series: neighbours that share operation, iteration and seed become one
/// JSON object, so a run with 100,000 samples does not repeat its names 100,000 times. Order is
/// kept exactly.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Series {
    /// The operation, in the benchmark's own words: `mmap-4`, `64`, `Success 1`.
    operation: String,
    /// Number of the benchmark iteration that produced the values, from 0.
    iteration: u32,
    /// Seed of the simulated run that produced the values.
    seed: u64,
    /// The values in the order of measurement, in the unit of the operation's metric.
    values: Vec<f64>,
}

pub(crate) fn serialize<S: Serializer>(
    samples: &[Sample],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let same = |a: &Sample, b: &Sample| {
        a.operation == b.operation && a.iteration == b.iteration && a.seed == b.seed
    };
    serializer.collect_seq(samples.chunk_by(same).map(|chunk| Series {
        operation: chunk[0].operation.clone(),
        iteration: chunk[0].iteration,
        seed: chunk[0].seed,
        values: chunk.iter().map(|sample| sample.value).collect(),
    }))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Sample>, D::Error> {
    let series = Vec::<Series>::deserialize(deserializer)?;
    let mut samples = Vec::with_capacity(series.iter().map(|one| one.values.len()).sum());
    for one in series {
        samples.extend(one.values.iter().map(|&value| Sample {
            operation: one.operation.clone(),
            iteration: one.iteration,
            seed: one.seed,
            value,
        }));
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_operation_the_largest_is_kept() {
        let largest = |operation: &str, seed, value| {
            let operation = operation.to_owned();
            Largest { operation, seed, value, at_ns: seed * 10 }
        };
        let mut all = Vec::new();
        for new in
            [largest("a", 1, 5.0), largest("b", 1, 2.0), largest("a", 2, 5.0), largest("b", 2, 3.0)]
        {
            Largest::keep(&mut all, new);
        }
        assert_eq!(all, [largest("a", 1, 5.0), largest("b", 2, 3.0)]);
    }
}
