//! Sections of a report, in order, and the published figures to set beside ours.
//!
//! A workload declares the tables of its runs ([`Section`]), an experiment the published figures of
//! its machines ([`MachineFigures`]). Both are part of the document. A report can therefore be made
//! again from the file alone, by a program that knows neither workload nor experiment.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

/// One table, or one group of tables, per machine. Empty tables are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "section", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Section {
    /// A metric's table, as mmtests prints it.
    Comparison {
        /// Name of the metric.
        metric: String,
        /// Labels of the statistics to show, in this order; empty for the means.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rows: Vec<String>,
        /// Style to follow: `2015` with all its rows, unless `rows` chooses some. Empty for the
        /// usual style, 2021.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        style: String,
    },
    /// Published changes of a metric, beside ours.
    Published {
        /// Name of the metric.
        metric: String,
    },
    /// The most used page frames.
    Hottest {
        /// Name of the histogram that counts their uses.
        histogram: String,
    },
    /// A metric's changes, judged by distribution-free tests. Only for several runs and iterations.
    Evidence {
        /// Name of the metric.
        metric: String,
    },
    /// A metric seed by seed.
    Seeds {
        /// Name of the metric.
        metric: String,
    },
    /// The largest value of each operation of a metric, with its seed and time.
    Largest {
        /// Name of the metric.
        metric: String,
    },
    /// Single published figures, beside our baseline's.
    Claims,
    /// CPU and elapsed time.
    Duration,
    /// CPU time and counters of reclaim, seed by seed.
    Totals,
    /// The counters of `/proc/vmstat` that moved, in mmtests' words.
    Vmstat,
    /// The most informative of these counters.
    VmstatBrief,
    /// How long throttled tasks slept, with published delays beside ours.
    Stalls,
    /// How the latencies of each operation are distributed.
    Latencies,
    /// All delays that were counted.
    Histograms,
    /// How long daemons were awake and tasks compacted, from trace events ([`TRACE_TIMES`]).
    TraceTimes,
    /// A metric whose operations are called `METRIC PHASE at order N`: a row for each phase, a
    /// column for each order.
    Orders {
        /// Name of the metric.
        metric: String,
    },
    /// The study's main figures, one by one.
    Headline {
        /// Name of the metric that the figures' operations belong to.
        metric: String,
    },
}

/// Rows of the times that mmtests takes from trace events (rules/mmtests-tables#trace-times). A run
/// that has these times stores them as counters of these names, in milliseconds.
pub const TRACE_TIMES: [&str; 5] = [
    "Time kswapd awake",
    "Time kcompactd awake",
    "Time direct compacting",
    "Time kswapd compacting",
    "Time kcompactd compacting",
];

/// The published figures of one machine, and our figures to set beside them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachineFigures {
    /// Name of the machine. In the file of an experiment also the path of a machine file, relative
    /// to the file's directory.
    pub name: String,
    /// Name of a variant of the experiment. Reports append it to the machine's name after a dash.
    /// Empty for the machine as it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variant: String,
    /// Workload parameters that the variant changes, each as `KEY=VALUE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// Published tables to set beside ours: one, or a list.
    #[serde(default, deserialize_with = "one_or_more", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "one_or_more_schema")]
    pub published: Vec<String>,
    /// Published histograms of hottest frames, by policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hottest: Vec<String>,
    /// Published single figures to set beside ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<ClaimBeside>,
    /// The study's main figures, one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<RowBeside>,
    /// Published delays of throttled tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stalls: Vec<StallsBeside>,
}

/// A published figure, and the operation of ours to compare with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimBeside {
    /// The study.
    pub study: String,
    /// Line of the study's text; with the unit it names one figure.
    pub line: u32,
    /// Its unit.
    pub unit: String,
    /// Our operation, under the baseline policy.
    pub operation: String,
    /// Factor that converts our mean to the published unit.
    #[serde(default = "one")]
    pub factor: f64,
}

const fn one() -> f64 {
    1.0
}

/// A published row: its table, its label or statistic, its operation if it has one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RowBeside {
    /// The table.
    pub table: String,
    /// Label or statistic.
    pub row: String,
    /// Operation of a statistic.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub operation: String,
}

/// A published histogram of delays, and its policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StallsBeside {
    /// The policy.
    pub policy: String,
    /// The histogram.
    pub histogram: String,
}

/// Schema of a field that holds one text or a list.
fn one_or_more_schema(generator: &mut SchemaGenerator) -> Schema {
    let list = generator.subschema_for::<Vec<String>>();
    if generator.contract().is_serialize() {
        return list;
    }
    json_schema!({ "anyOf": [{ "type": "string" }, list] })
}

/// Reads a text or a list of texts.
fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected the name of a published table, or a list of names")]
    enum OneOrMore {
        One(String),
        More(Vec<String>),
    }
    Ok(match OneOrMore::deserialize(deserializer)? {
        OneOrMore::One(name) => vec![name],
        OneOrMore::More(names) => names,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_read_as_they_are_written() {
        let sections = [
            Section::Comparison { metric: "m".to_owned(), rows: Vec::new(), style: String::new() },
            Section::Comparison {
                metric: "m".to_owned(),
                rows: vec!["Max".to_owned()],
                style: "2015".to_owned(),
            },
            Section::Duration,
        ];
        let text = serde_json::to_string(&sections).unwrap();
        assert!(text.starts_with(r#"[{"section":"comparison","metric":"m"},"#), "{text}");
        assert_eq!(serde_json::from_str::<Vec<Section>>(&text).unwrap(), sections);
        assert!(serde_json::from_str::<Section>(r#"{"section":"else"}"#).is_err());
    }
}
