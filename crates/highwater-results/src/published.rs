//! The figures published with the five studies: tables, histograms and claims, as data.
//!
//! Key types: [`Published`] (everything), [`PublishedTable`], [`PublishedHistogram`], [`Claim`].
//! The JSON (`reference/seed-tables.json`, layout in rules/mmtests-tables#published-figures) is
//! part of the program; identifiers start with the study's number: `002.netperf-tcp.skylake`.
//!
//! Neighbours: `highwater-report::published` sets these figures beside ours. They are a reference
//! to compare with, never an input of a simulation. Plain data, no synchronisation.

use std::collections::BTreeMap;

use serde::Deserialize;
use thiserror::Error;

use crate::{Better, Stall};

const JSON: &str = include_str!("../data/seed-tables.json");

/// Version of the JSON layout that this module understands.
const SCHEMA_VERSION: u32 = 1;

/// All published figures.
#[derive(Clone, Debug, Deserialize)]
pub struct Published {
    schema_version: u32,
    /// Study number to the file name of its text.
    pub seeds: BTreeMap<String, String>,
    /// Tables, in order of study and line.
    pub tables: Vec<PublishedTable>,
    /// Histograms, in order of study and line.
    pub histograms: Vec<PublishedHistogram>,
    /// Figures in prose.
    pub claims: Vec<Claim>,
}

/// Kind of a published table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PublishedKind {
    /// Statistics of a benchmark with percentages.
    Compare,
    /// CPU and elapsed seconds.
    Duration,
    /// Derived `/proc/vmstat` figures.
    Vmstat,
    /// Times from trace events.
    FtraceTimes,
}

/// One published table.
#[derive(Clone, Debug, Deserialize)]
pub struct PublishedTable {
    /// Identifier: study, benchmark, variant.
    pub id: String,
    /// File name of the source text.
    pub seed: String,
    /// First and last line in the text, from 1.
    pub lines: (u32, u32),
    /// Kind of the table.
    pub kind: PublishedKind,
    /// Its subject.
    pub title: String,
    /// Column headings; the first is the baseline.
    pub columns: Vec<String>,
    /// Unit in words.
    pub unit: String,
    /// Direction as stated, with remarks; see [`PublishedTable::direction`].
    pub better: Option<String>,
    /// Style of the report: `2015` or `2021`.
    pub style: String,
    /// Remarks.
    pub notes: Option<String>,
    /// Its rows.
    pub rows: Vec<PublishedRow>,
}

/// One row of a published table; vectors have one entry per column.
#[derive(Clone, Debug, Deserialize)]
pub struct PublishedRow {
    /// Line of the text, from 1.
    pub line: u32,
    /// Statistic, in comparison tables.
    #[serde(default)]
    pub stat: String,
    /// Operation, in comparison tables.
    #[serde(default)]
    pub op: String,
    /// Label, in other tables.
    #[serde(default)]
    pub label: String,
    /// Values.
    pub values: Vec<f64>,
    /// Values exactly as printed.
    pub text: Vec<String>,
    /// Percent changes, in comparison tables.
    #[serde(default)]
    pub pct: Vec<f64>,
    /// Percent changes exactly as printed.
    #[serde(default)]
    pub pct_text: Vec<String>,
    /// True where the change was marked as significant.
    #[serde(default)]
    pub significant: Vec<bool>,
}

/// One published histogram.
#[derive(Clone, Debug, Deserialize)]
pub struct PublishedHistogram {
    /// Identifier.
    pub id: String,
    /// File name of the source text.
    pub seed: String,
    /// Its subject.
    pub title: String,
    /// The event counted.
    pub event: String,
    /// The tasks that caused the events.
    pub context: String,
    /// The kernel on which it was recorded.
    pub kernel: String,
    /// Sum of all counts.
    pub total: u64,
    /// Buckets in printed order.
    pub buckets: Vec<PublishedBucket>,
}

/// One line of a published histogram.
#[derive(Clone, Debug, Deserialize)]
pub struct PublishedBucket {
    /// Number of events.
    pub count: u64,
    /// Timeout of a stall in microseconds.
    pub usec_timeout: Option<u64>,
    /// Delay of a stall in microseconds.
    pub usec_delayed: Option<u64>,
    /// Reason of a stall.
    pub reason: Option<String>,
    /// Page frame number in hexadecimal.
    pub pfn: Option<String>,
}

/// A figure from prose; numbers are kept as the text gives them.
#[derive(Clone, Debug, Deserialize)]
pub struct Claim {
    /// File name of the source text.
    pub seed: String,
    /// Line in the text, from 1.
    pub line: u32,
    /// The claim.
    pub what: String,
    /// Unit in words.
    pub unit: String,
    /// Figure before the change.
    pub before: Option<String>,
    /// Figure after the change.
    pub after: Option<String>,
    /// A single figure.
    pub value: Option<String>,
    /// Lower end of a range.
    pub low: Option<String>,
    /// Upper end of a range.
    pub high: Option<String>,
}

/// Reasons why published figures are not available.
#[derive(Debug, Error)]
pub enum PublishedError {
    /// The text is not valid JSON of this layout.
    #[error("reference/seed-tables.json: {0}")]
    Json(#[from] serde_json::Error),
    /// The layout has another version.
    #[error(
        "reference/seed-tables.json: field `schema_version`: expected {SCHEMA_VERSION}, found {found}"
    )]
    Version {
        /// The version found.
        found: u32,
    },
    /// A row does not fit its table.
    #[error(
        "reference/seed-tables.json: table \"{id}\", line {line}: {nr_values} values for {nr_columns} columns"
    )]
    Columns {
        /// The table.
        id: String,
        /// Line in the study's text.
        line: u32,
        /// Entries found.
        nr_values: usize,
        /// Entries expected.
        nr_columns: usize,
    },
    /// The further postings have another layout.
    #[error("reference/further-postings.json: {reason}")]
    Postings {
        /// The reason.
        reason: String,
    },
    /// There is no table or histogram of that name.
    #[error("no published {what} \"{id}\"; there are: {known}")]
    Unknown {
        /// `table` or `histogram`.
        what: &'static str,
        /// The identifier asked for.
        id: String,
        /// The existing ones.
        known: String,
    },
}

impl Published {
    /// Parses the figures that are compiled into the program.
    pub fn load() -> Result<Published, PublishedError> {
        Self::parse(JSON)
    }

    /// Parses figures from text of the same layout.
    pub fn parse(json: &str) -> Result<Published, PublishedError> {
        let published: Published = serde_json::from_str(json)?;
        if published.schema_version != SCHEMA_VERSION {
            return Err(PublishedError::Version { found: published.schema_version });
        }
        published.tables.iter().try_for_each(PublishedTable::check)?;
        Ok(published)
    }

    /// The table with this identifier.
    pub fn table(&self, id: &str) -> Result<&PublishedTable, PublishedError> {
        let ids = || self.tables.iter().map(|table| table.id.as_str());
        let found = self.tables.iter().find(|table| table.id == id);
        found.ok_or_else(|| unknown("table", id, ids()))
    }

    /// The histogram with this identifier.
    pub fn histogram(&self, id: &str) -> Result<&PublishedHistogram, PublishedError> {
        let ids = || self.histograms.iter().map(|histogram| histogram.id.as_str());
        let found = self.histograms.iter().find(|histogram| histogram.id == id);
        found.ok_or_else(|| unknown("histogram", id, ids()))
    }

    /// The figure in prose on a line of a study, in a unit.
    ///
    /// # Errors
    /// If there is none; the error lists the existing ones.
    pub fn claim(&self, study: &str, line: u32, unit: &str) -> Result<&Claim, PublishedError> {
        let of_study = |claim: &&Claim| claim.seed.split('_').next() == Some(study);
        let mut claims = self.claims.iter().filter(of_study);
        claims.find(|claim| claim.line == line && claim.unit == unit).ok_or_else(|| {
            let name = |claim: &Claim| format!("{study}:{} {}", claim.line, claim.unit);
            let known = self.claims.iter().filter(of_study).map(name).collect::<Vec<_>>();
            let id = format!("{study}:{line} {unit}");
            PublishedError::Unknown { what: "figure", id, known: known.join(", ") }
        })
    }
}

impl Claim {
    /// The figure as the text gives it: a value, a range, or before and after.
    pub fn figure(&self) -> String {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        if let Some(value) = &self.value {
            value.clone()
        } else if self.low.is_some() || self.high.is_some() {
            format!("{} to {}", part(&self.low), part(&self.high))
        } else {
            format!("{} -> {}", part(&self.before), part(&self.after))
        }
    }
}

impl PublishedTable {
    /// Direction of a comparison table.
    pub fn direction(&self) -> Option<Better> {
        match self.better.as_deref() {
            Some(text) if text.starts_with("higher") => Some(Better::Higher),
            Some(text) if text.starts_with("lower") => Some(Better::Lower),
            _ => None,
        }
    }

    /// True if the printed percentages follow from the printed values. False for stress-highalloc,
    /// whose percentages use the wrong direction and refer to a column that is not shown
    /// (rules/mmtests-tables#unsound-percentages).
    pub fn percentages_are_sound(&self) -> bool {
        matches!(self.better.as_deref(), Some("higher" | "lower"))
    }

    /// The row with this statistic and operation.
    pub fn row(&self, stat: &str, op: &str) -> Option<&PublishedRow> {
        self.rows.iter().find(|row| row.stat == stat && row.op == op)
    }

    /// The row with this label.
    pub fn labelled(&self, label: &str) -> Option<&PublishedRow> {
        self.rows.iter().find(|row| row.label == label)
    }

    fn check(&self) -> Result<(), PublishedError> {
        let nr_columns = self.columns.len();
        for row in &self.rows {
            let mut lengths = vec![row.values.len(), row.text.len()];
            if self.kind == PublishedKind::Compare {
                lengths.extend([row.pct.len(), row.pct_text.len(), row.significant.len()]);
            }
            if let Some(&nr_values) = lengths.iter().find(|&&length| length != nr_columns) {
                return Err(PublishedError::Columns {
                    id: self.id.clone(),
                    line: row.line,
                    nr_values,
                    nr_columns,
                });
            }
        }
        Ok(())
    }
}

impl PublishedRow {
    /// Its label, or its statistic and operation.
    pub fn name(&self) -> String {
        if self.label.is_empty() {
            format!("{} {}", self.stat, self.op)
        } else {
            self.label.clone()
        }
    }
}

impl PublishedBucket {
    /// The bucket as a stall; all fields are empty if the event is not one.
    pub fn stall(&self) -> Stall<'_> {
        let &PublishedBucket { usec_timeout, usec_delayed, .. } = self;
        Stall { usec_timeout, usec_delayed, reason: self.reason.as_deref() }
    }

    /// The bucket as the study's text prints it, without the count.
    pub fn key(&self, event: &str) -> String {
        self.pfn.clone().unwrap_or_else(|| self.stall().key(event))
    }
}

fn unknown<'a>(what: &'static str, id: &str, ids: impl Iterator<Item = &'a str>) -> PublishedError {
    PublishedError::Unknown { what, id: id.to_owned(), known: ids.collect::<Vec<_>>().join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_there() {
        let published = Published::load().unwrap();
        assert_eq!(published.tables.len(), 15);
        assert_eq!(published.histograms.len(), 10);
        assert_eq!(published.claims.len(), 11);
        let of_003 = published.claims.iter().filter(|claim| claim.seed.starts_with("003_"));
        assert_eq!(of_003.count(), 4);
        let skylake = published.table("002.netperf-tcp.skylake").unwrap();
        assert_eq!(skylake.direction(), Some(Better::Higher));
        let row = skylake.row("Hmean", "16384").unwrap();
        assert_eq!(row.values, [58410.86, 60839.80, 62282.96]);
        assert_eq!(row.significant, [false, true, true]);
        let success = published.table("004.success.direct").unwrap();
        assert_eq!(success.direction(), Some(Better::Higher));
        assert!(!success.percentages_are_sound());
        let system = published.table("001.duration").unwrap().labelled("Duration System").unwrap();
        assert_eq!(system.values, [7308.12, 799.68]);
    }

    #[test]
    fn histogram_totals_are_the_sums_of_their_buckets() {
        let published = Published::load().unwrap();
        for histogram in &published.histograms {
            let sum: u64 = histogram.buckets.iter().map(|bucket| bucket.count).sum();
            assert_eq!(sum, histogram.total, "{}", histogram.id);
        }
    }

    #[test]
    fn mistakes_are_errors() {
        let published = Published::load().unwrap();
        let message = published.table("002.netperf").unwrap_err().to_string();
        assert!(message.contains("002.netperf-tcp.skylake"), "{message}");
        assert!(published.histogram("x").is_err());
        assert!(matches!(Published::parse("{"), Err(PublishedError::Json(_))));
        let newer = JSON.replacen("\"schema_version\": 1", "\"schema_version\": 9", 1);
        assert!(matches!(Published::parse(&newer), Err(PublishedError::Version { found: 9 })));
        let short = JSON.replacen("\"4.3.0-rc1 nozlc-v4\"", "\"4.3.0-rc1 nozlc-v4\", \"x\"", 1);
        assert!(matches!(Published::parse(&short), Err(PublishedError::Columns { .. })));
    }
}
