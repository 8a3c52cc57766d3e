//! Other postings of the five changes: the same rows of the same tables, measured again.
//!
//! Authors post a change several times, each time with a run of its own. These rows say how far a
//! published figure repeats. Key types: [`Postings`] (everything), [`Posting`] (a mail),
//! [`Posted`] (a row of it). The JSON (`reference/further-postings.json`) is part of the program.
//!
//! Neighbours: [`published`](crate::published) has the tables that the studies are about;
//! `highwater-report::repeats` judges how far they repeat. No simulation reads these figures.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::published::{PublishedError, PublishedRow};

const JSON: &str = include_str!("../data/further-postings.json");

/// Version of the JSON layout that this module understands.
const SCHEMA_VERSION: u32 = 1;

/// All further postings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Postings {
    schema_version: u32,
    /// A description of the file.
    pub description: String,
    /// The postings, by study; within a study the latest first, then those of other machines.
    pub postings: Vec<Posting>,
}

/// One mail with tables.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Posting {
    /// Number of the study.
    pub study: String,
    /// Short name within the study: `v3`.
    pub name: String,
    /// Address of the mail.
    pub address: String,
    /// Its day.
    pub date: String,
    /// Its author.
    pub author: String,
    /// The kernel without the change.
    pub kernel: String,
    /// Which patch and revision it is.
    pub what: String,
    /// Its tables that have rows of the study.
    pub tables: Vec<PostedTable>,
}

/// The rows of a posting that belong to one published table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostedTable {
    /// The published table.
    pub of: String,
    /// The machine, as far as it is known.
    pub machine: String,
    /// True if it is the published table's machine, or one of the same kind.
    pub is_same_machine: bool,
    /// The column of the published table that these rows repeat; column 0 is the baseline.
    pub column: usize,
    /// The rows.
    pub rows: Vec<PostedRow>,
}

/// A row: its name in the published table, and the values without and with the change.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostedRow {
    /// Label of the published row, or its statistic and operation.
    pub row: String,
    /// Without the change.
    pub before: f64,
    /// With the change.
    pub after: f64,
}

/// A published row in another posting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Posted {
    /// Name of the posting, as `reference/further-postings.json` has it with its address.
    pub posting: String,
    /// True if it is the published table's machine, or one of the same kind.
    pub is_same_machine: bool,
    /// Without the change.
    pub before: f64,
    /// With the change.
    pub after: f64,
}

impl Posted {
    /// The change as a ratio of after to before; none if there is no ratio.
    pub fn ratio(&self) -> Option<f64> {
        (self.before > 0.0).then(|| self.after / self.before)
    }
}

impl Postings {
    /// Parses the postings that are compiled into the program.
    ///
    /// # Errors
    /// If the file is not what this program understands.
    pub fn load() -> Result<Postings, PublishedError> {
        Self::parse(JSON)
    }

    /// Parses postings from text of the same layout.
    ///
    /// # Errors
    /// If the text has another layout or version.
    pub fn parse(json: &str) -> Result<Postings, PublishedError> {
        let postings: Postings = serde_json::from_str(json)
            .map_err(|error| PublishedError::Postings { reason: error.to_string() })?;
        if postings.schema_version != SCHEMA_VERSION {
            let found = postings.schema_version;
            let reason =
                format!("field `schema_version`: expected {SCHEMA_VERSION}, found {found}");
            return Err(PublishedError::Postings { reason });
        }
        Ok(postings)
    }

    /// The row of a published table in all other postings, for one of its columns. The published
    /// machine's postings come first.
    pub fn of_row(&self, table: &str, row: &PublishedRow, column: usize) -> Vec<Posted> {
        let name = row.name();
        let mut all = Vec::new();
        for posting in &self.postings {
            let is_it = |posted: &&PostedTable| posted.of == table && posted.column == column;
            for posted in posting.tables.iter().filter(is_it) {
                let rows = posted.rows.iter().filter(|posted| posted.row == name);
                all.extend(rows.map(|row| Posted {
                    posting: posting.name.clone(),
                    is_same_machine: posted.is_same_machine,
                    before: row.before,
                    after: row.after,
                }));
            }
        }
        all.sort_by_key(|posted| !posted.is_same_machine);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Published;

    fn row(table: &str, stat: &str, op: &str) -> Vec<Posted> {
        let published = Published::load().unwrap();
        let known = published.table(table).unwrap();
        let row = if op.is_empty() { known.labelled(stat) } else { known.row(stat, op) };
        Postings::load().unwrap().of_row(table, row.unwrap(), 1)
    }

    #[test]
    fn every_posted_row_is_one_of_a_published_table() {
        let published = Published::load().unwrap();
        let mut nr_rows = 0;
        for posting in &Postings::load().unwrap().postings {
            assert!(posting.address.starts_with("https://lore.kernel.org/all/"), "{posting:?}");
            assert!(published.seeds.contains_key(&posting.study), "{posting:?}");
            for posted in &posting.tables {
                let table = published.table(&posted.of).unwrap();
                assert!((1..table.columns.len()).contains(&posted.column), "{posted:?}");
                for row in &posted.rows {
                    let known = table.rows.iter().filter(|known| known.name() == row.row);
                    assert_eq!(known.count(), 1, "{} {}", posted.of, row.row);
                    nr_rows += 1;
                }
            }
        }
        assert_eq!(nr_rows, 286);
    }

    #[test]
    fn the_studys_machine_comes_first() {
        let posted = row("000.stutter", "Max-90%", "mmap");
        let names: Vec<&str> = posted.iter().map(|one| one.posting.as_str()).collect();
        assert_eq!(names, ["v3", "v1"]);
        assert_eq!(posted.iter().map(|one| one.is_same_machine).collect::<Vec<_>>(), [true, false]);
        assert_eq!((posted[0].before, posted[0].after), (33.6982, 34.0195));
        // The limit is the second change of its table, the lists of single pages are the first.
        assert!(row("002.netperf-tcp.traced", "Hmean", "64").is_empty());
        assert!(row("004.ftrace.nodirect", "Time kswapd awake", "").is_empty());
    }

    #[test]
    fn a_file_of_another_layout_is_refused() {
        let newer = JSON.replacen("\"schema_version\": 1", "\"schema_version\": 9", 1);
        let error = Postings::parse(&newer).unwrap_err().to_string();
        assert_eq!(
            error,
            "reference/further-postings.json: field `schema_version`: expected 1, found 9"
        );
        let error = Postings::parse("{\"wrong\": 1}").unwrap_err().to_string();
        assert!(error.contains("wrong"), "{error}");
    }
}
