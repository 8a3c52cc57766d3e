//! What a report shows of a document, in order, and what was published to set beside it.
//!
//! A workload says which tables its runs are worth ([`Section`]), an experiment which published figures its
//! machines have ([`MachineFigures`]). Both are part of the document, so that a report needs nothing else: it can
//! be made again from a file, by a program that knows neither workload nor experiment.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

/// One table, or one group of them, of each machine. What would be empty is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "section", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Section {
    /// A metric's table, as mmtests prints it.
    Comparison {
        /// Name of the metric.
        metric: String,
        /// Labels of the statistics to show, in this order; none: the means.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rows: Vec<String>,
        /// Whose reports it looks like: `2015`, with all of their rows unless `rows` says which; none: the usual, those of
        /// 2021.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        style: String,
    },
    /// Changes that were published of a metric, beside ours.
    Published {
        /// Name of the metric.
        metric: String,
    },
    /// The most used page frames.
    Hottest {
        /// Name of the histogram that counts their uses.
        histogram: String,
    },
    /// A metric's changes judged by tests that assume no distribution. Of several runs and iterations only.
    Evidence {
        /// Name of the metric.
        metric: String,
    },
    /// A metric seed by seed.
    Seeds {
        /// Name of the metric.
        metric: String,
    },
    /// Of each operation of a metric the largest value, its seed and when it was.
    Largest {
        /// Name of the metric.
        metric: String,
    },
    /// Published single figures, beside ours of the baseline.
    Claims,
    /// CPU and elapsed time.
    Duration,
    /// CPU time and counters of reclaim, seed by seed.
    Totals,
    /// The counters of `/proc/vmstat` that moved, in mmtests' words.
    Vmstat,
    /// The few of them that say most.
    VmstatBrief,
    /// How long throttled tasks slept, published delays beside ours.
    Stalls,
    /// How the latencies of each operation are distributed.
    Latencies,
    /// Every delay that was counted.
    Histograms,
    /// How long daemons were awake and tasks compacted, from trace events ([`TRACE_TIMES`]).
    TraceTimes,
    /// A metric whose operations are called `METRIC PHASE at order N`: a row for each phase, a column for each order.
    Orders {
        /// Name of the metric.
        metric: String,
    },
    /// What the study is about, figure by figure.
    Headline {
        /// Name of the metric that figures of operations are of.
        metric: String,
    },
}

/// Rows of the times that mmtests takes from trace events (rules/mmtests-tables#trace-times). A run that has them has
/// counters of these names, in milliseconds.
pub const TRACE_TIMES: [&str; 5] = [
    "Time kswapd awake",
    "Time kcompactd awake",
    "Time direct compacting",
    "Time kswapd compacting",
    "Time kcompactd compacting",
];

/// What was published of one machine, and what of ours to set beside it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachineFigures {
    /// Name of the machine; in the file of an experiment also the path of a machine file, from its directory.
    pub name: String,
    /// Name of a variant of the experiment: in reports it follows the machine's, after a dash. None: the machine as it
    /// is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variant: String,
    /// Parameters of the workload that the variant has otherwise, each as `KEY=VALUE`.
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
    /// What the study is about, figure by figure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<RowBeside>,
    /// Published delays of throttled tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stalls: Vec<StallsBeside>,
}

/// A published figure and what of ours it is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimBeside {
    /// The study.
    pub study: String,
    /// Line of the study's text; with the unit it names one figure.
    pub line: u32,
    /// Its unit.
    pub unit: String,
    /// The operation of ours, under the baseline policy.
    pub operation: String,
    /// What our mean is multiplied by to get the published unit.
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

/// A published histogram of delays, and the policy that it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StallsBeside {
    /// The policy.
    pub policy: String,
    /// The histogram.
    pub histogram: String,
}

/// What is read, or written, of such a field.
fn one_or_more_schema(generator: &mut SchemaGenerator) -> Schema {
    let list = generator.subschema_for::<Vec<String>>();
    if generator.contract().is_serialize() {
        return list;
    }
    json_schema!({ "anyOf": [{ "type": "string" }, list] })
}

/// A text alone, or a list of them.
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
