//! Columns of a series: what their numbers mean.
//!
//! Key types: [`Column`] (name, unit, kind and owner of one counter over time), [`Unit`], [`Kind`],
//! [`Owner`], [`Columns`] (the file that keeps them).
//!
//! The code that samples a counter declares its column. Charts and traces read unit and kind here
//! and never from the spelling of a name. Tables of numbers have names only, so a result directory
//! has the declarations in a file of their own, [`COLUMNS_FILE`].

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// File name of the columns in a result directory.
pub const COLUMNS_FILE: &str = "columns.json";
/// Value of [`Columns::schema`] that this version writes and reads.
pub const COLUMNS_SCHEMA: &str = "highwater.columns/1";

/// A column of numbers over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its heading: `nr_free_pages`, `node0/Normal/low`.
    pub name: String,
    /// The counted thing.
    pub unit: Unit,
    /// How the number moves.
    pub kind: Kind,
    /// The thing that the number belongs to.
    pub of: Owner,
}

/// The meaning of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Pages of 4 KiB.
    Pages,
    /// Free blocks of 2^order pages each.
    Blocks {
        /// The order.
        order: u8,
    },
    /// KiB.
    Kibibytes,
    /// Microseconds.
    Microseconds,
    /// Percent.
    Percent,
    /// Events: how often something happened.
    Events,
    /// Objects of a cache, such as nodes of a file's tree.
    Objects,
}

impl Unit {
    /// The unit in words: `pages`.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Pages => "pages",
            Unit::Blocks { .. } => "blocks",
            Unit::Kibibytes => "KiB",
            Unit::Microseconds => "microseconds",
            Unit::Percent => "percent",
            Unit::Events => "events",
            Unit::Objects => "objects",
        }
    }
}

/// How the numbers of a column move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A total since boot: it only grows, and its growth is what is looked at.
    Total,
    /// The amount at a time.
    Level,
    /// A bound that levels are held against, such as a watermark. It is of interest even if it
    /// never moves.
    Limit,
}

/// The thing that a column belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// The whole machine, as `/proc/vmstat`.
    Machine,
    /// Tasks that wait for this resource (`memory`), as `/proc/pressure`.
    Pressure {
        /// The resource.
        resource: String,
    },
    /// A zone, as `/proc/zoneinfo` and `/proc/buddyinfo`.
    Zone {
        /// Its node.
        node: u16,
        /// Its name: `Normal`.
        zone: String,
    },
    /// The pages of an LRU list that have been there for a time or longer.
    List {
        /// The node.
        node: u16,
        /// The list: `inactive_anon`.
        list: String,
        /// At least for this long, in milliseconds. The next column of the list begins where this
        /// one ends.
        from_ms: u64,
    },
    /// All copies of a task of a job.
    Task {
        /// Its name.
        task: String,
    },
    /// A memory cgroup of a job, with the groups below it.
    Group {
        /// Its name.
        group: String,
    },
}

/// The part of a column's name that is the owner's.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Machine => Ok(()),
            Owner::Pressure { resource } => write!(f, "pressure/{resource}/"),
            Owner::Zone { node, zone } => write!(f, "node{node}/{zone}/"),
            Owner::List { node, list, .. } => write!(f, "node{node}/{list}/"),
            Owner::Task { task } => write!(f, "task/{task}/"),
            Owner::Group { group } => write!(f, "group/{group}/"),
        }
    }
}

impl Column {
    /// A column, named by its owner and by what is counted there: `node0/Normal/` and `low`.
    pub fn new(of: Owner, what: &str, unit: Unit, kind: Kind) -> Column {
        Column { name: format!("{of}{what}"), unit, kind, of }
    }

    /// A column of pages that have been on a list for a time or longer.
    pub fn aged(node: u16, list: &str, from_ms: u64) -> Column {
        let of = Owner::List { node, list: list.to_owned(), from_ms };
        Column::new(of, &format!("from_{from_ms}ms"), Unit::Pages, Kind::Level)
    }

    /// The name below the owner: `low` of `node0/Normal/low`.
    pub fn what(&self) -> &str {
        self.name.strip_prefix(&self.of.to_string()).unwrap_or(&self.name)
    }
}

/// The columns of all tables over time that lie in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Columns {
    /// Kind and version of the file.
    #[schemars(extend("const" = COLUMNS_SCHEMA))]
    pub schema: String,
    /// The columns, each once.
    pub columns: Vec<Column>,
}

impl Columns {
    /// Each of these columns once, in the order in which they appear.
    pub fn of<'a>(all: impl IntoIterator<Item = &'a Column>) -> Columns {
        let mut seen = std::collections::BTreeSet::new();
        let new = all.into_iter().filter(|column| seen.insert(column.name.as_str()));
        Columns { schema: COLUMNS_SCHEMA.to_owned(), columns: new.cloned().collect() }
    }

    /// The columns of a file.
    ///
    /// # Errors
    /// A text about the first thing that is wrong, with its line.
    pub fn parse(text: &str) -> Result<Columns, String> {
        let columns: Columns = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match columns.schema.as_str() {
            COLUMNS_SCHEMA => Ok(columns),
            found => {
                Err(format!("field `schema`: expected \"{COLUMNS_SCHEMA}\", found \"{found}\""))
            }
        }
    }

    /// The file: a column in each line.
    pub fn to_text(&self) -> String {
        // Plain data: it cannot fail.
        let line = |column| serde_json::to_string(column).unwrap_or_default();
        let lines: Vec<String> = self.columns.iter().map(line).collect();
        let schema = &self.schema;
        format!("{{\"schema\":\"{schema}\",\"columns\":[\n{}\n]}}\n", lines.join(",\n"))
    }

    /// The column of this name.
    pub fn get(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn low() -> Column {
        let of = Owner::Zone { node: 1, zone: "Normal".to_owned() };
        Column::new(of, "low", Unit::Pages, Kind::Limit)
    }

    #[test]
    fn a_name_is_the_owner_and_what_is_counted_there() {
        assert_eq!((low().name.as_str(), low().what()), ("node1/Normal/low", "low"));
        let aged = Column::aged(0, "inactive_anon", 64);
        assert_eq!(aged.name, "node0/inactive_anon/from_64ms");
        let free = Column::new(Owner::Machine, "nr_free_pages", Unit::Pages, Kind::Level);
        assert_eq!((free.name.as_str(), free.what()), ("nr_free_pages", "nr_free_pages"));
    }

    #[test]
    fn the_file_is_read_back() {
        let blocks = Unit::Blocks { order: 9 };
        let of = Owner::Task { task: "a/\"b\"".to_owned() };
        let all = [low(), Column::new(of, "x", blocks, Kind::Total), low()];
        let columns = Columns::of(&all);
        assert_eq!(columns.columns, all[..2]);
        let text = columns.to_text();
        let line = r#"{"name":"node1/Normal/low","unit":"pages","kind":"limit","of":{"zone":{"node":1,"zone":"Normal"}}},"#;
        assert_eq!(text.lines().nth(1), Some(line));
        assert_eq!(Columns::parse(&text), Ok(columns));
        let other = text.replace("columns/1", "columns/2");
        let said =
            "field `schema`: expected \"highwater.columns/1\", found \"highwater.columns/2\"";
        assert_eq!(Columns::parse(&other), Err(said.to_owned()));
        let wrong = Columns::parse(&text.replace("\"limit\"", "\"guess\"")).unwrap_err();
        assert!(wrong.contains("guess") && wrong.contains("line 2"), "{wrong}");
    }
}
