//! A figure: a drawing or a chart, and what it shows as a table.

use serde::Serialize;

use super::table::View;
use crate::table::Table;

/// A figure of the page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Figure {
    pub(super) title: String,
    /// Markup of a drawing; all words in it are escaped.
    svg: String,
    /// For those who do not see it, and for everybody who wants the numbers.
    table: View,
    /// Wider than a column: it scrolls where it does not fit.
    pub(super) is_wide: bool,
}

impl Figure {
    pub(super) fn drawn(title: &str, svg: String, table: &Table) -> Figure {
        Figure { title: title.to_owned(), svg, table: View::of(table), is_wide: false }
    }
}
