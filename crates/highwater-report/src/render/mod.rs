//! Tables to text: one file per format behind one trait.
//!
//! * [`terminal`](mod@terminal): fixed widths, mmtests' layout byte for byte; as wide as a page, or
//!   as the caller wants.
//! * [`csv`](mod@csv): one tidy table, one line per cell, full-precision numbers.
//! * [`observations`](mod@observations): the measured values of a document as CSV, one line per
//!   observation.
//! * [`series`](mod@series): counters over time as CSV, one line per time.
//! * [`pageblocks`](mod@pageblocks): memory maps as CSV, one line per moment and zone.
//! * [`markdown`](mod@markdown): tables for a changelog or an issue.
//! * [`json`](mod@json): tables as data, or a whole document with its derived tables.

use std::str::FromStr;

use thiserror::Error;

use crate::table::Table;
pub use lines::LineError;

pub mod csv;
mod fit;
pub mod json;
mod lines;
pub mod markdown;
pub mod observations;
pub mod pageblocks;
pub mod series;
pub mod terminal;

pub use fit::wrapped;

/// An output format.
pub trait Render {
    /// One table as text that ends with a newline.
    fn table(&self, table: &Table) -> String;

    /// Several tables as one text.
    fn tables(&self, tables: &[Table]) -> String {
        tables.iter().map(|table| self.table(table)).collect::<Vec<_>>().join("\n")
    }
}

/// The formats by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Fixed-width text.
    #[default]
    Terminal,
    /// Comma-separated values.
    Csv,
    /// Markdown.
    Markdown,
    /// JSON.
    Json,
}

/// The text names no format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown format \"{0}\"; there are terminal, json, csv and markdown")]
pub struct UnknownFormat(String);

impl Format {
    /// True for text that a person reads from top to bottom; false for a single piece of data.
    pub const fn is_for_reading(self) -> bool {
        matches!(self, Format::Terminal | Format::Markdown)
    }

    /// Several tables as one text. Formats with widths keep it within `width` if possible.
    pub fn tables(self, tables: &[Table], width: usize) -> String {
        match self {
            Format::Terminal => terminal::Terminal { width }.tables(tables),
            format => format.renderer().tables(tables),
        }
    }

    /// The renderer of this format; a terminal has the width of a page.
    pub fn renderer(self) -> &'static dyn Render {
        match self {
            Format::Terminal => &terminal::Terminal::PAGE,
            Format::Csv => &csv::Csv,
            Format::Markdown => &markdown::Markdown,
            Format::Json => &json::Json,
        }
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        match text {
            "terminal" => Ok(Format::Terminal),
            "csv" => Ok(Format::Csv),
            "markdown" => Ok(Format::Markdown),
            "json" => Ok(Format::Json),
            _ => Err(UnknownFormat(text.to_owned())),
        }
    }
}

/// One table as fixed-width text.
pub fn terminal(table: &Table) -> String {
    terminal::Terminal::PAGE.table(table)
}

/// One table as comma-separated values.
pub fn csv(table: &Table) -> String {
    csv::Csv.table(table)
}

/// One table as Markdown.
pub fn markdown(table: &Table) -> String {
    markdown::Markdown.table(table)
}

/// One table as JSON.
pub fn json(table: &Table) -> String {
    json::Json.table(table)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::table::{Cell, Layout, Suffix};

    /// One cell of every kind.
    pub(crate) fn sample(layout: Layout) -> Table {
        let mut table = Table::new(
            "t, \"x\" | y",
            &["stat", "op"],
            vec!["6.1-a".into(), "6.1-b|c".into()],
            layout,
        );
        let change = |value: f64, percent: Option<f64>, significant: bool| Cell::Change {
            value,
            decimals: 2,
            percent,
            significant,
            told: None,
        };
        table.push(
            &["Amean", "x,y"],
            vec![change(1.0, Some(0.0), false), change(0.5, Some(50.0), true)],
        );
        table.push(&["Amean", "z"], vec![Cell::Missing, change(0.5, None, false)]);
        table.push(&["N", ""], vec![Cell::number(2.5, 1), Cell::WholePercent { value: 98 }]);
        table.push(
            &["I", ""],
            vec![
                Cell::Interval { low: -1.0, high: 2.0, told: [None; 2], is_sized: false },
                Cell::text("yes"),
            ],
        );
        let ratio = Cell::Ratio { value: 0.5, decimals: 2, percent: 50.0, distance: -0.25 };
        table.push(&["R", ""], vec![Cell::Missing, ratio]);
        let probability = Cell::Probability { value: 0.000_01 };
        table.push(&["P", ""], vec![probability, Cell::share(2.0, 3.0, 0)]);
        table.notes.push("a note".into());
        table
    }

    pub(crate) fn mmtests() -> Layout {
        Layout::Mmtests { field: 12, suffix: Suffix::Percent(7) }
    }

    #[test]
    fn formats_by_name() {
        for (name, format) in [
            ("terminal", Format::Terminal),
            ("csv", Format::Csv),
            ("markdown", Format::Markdown),
            ("json", Format::Json),
        ] {
            assert_eq!(name.parse(), Ok(format));
            assert!(format.renderer().table(&sample(Layout::Fitted)).ends_with('\n'));
        }
        assert!("xml".parse::<Format>().is_err());
    }
}
