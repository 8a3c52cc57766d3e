//! A figure: a drawing or a chart, with a table of its values.

use serde::Serialize;

use super::table::View;
use crate::table::Table;

/// A figure of the page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Figure {
    pub(super) title: String,
    /// Markup of the drawing; all words in it are escaped.
    svg: String,
    /// The values, for readers who cannot see the drawing or want the numbers.
    table: View,
    /// Wider than a column: the drawing scrolls if it does not fit.
    pub(super) is_wide: bool,
}

impl Figure {
    pub(super) fn drawn(title: &str, svg: String, table: &Table) -> Figure {
        Figure { title: title.to_owned(), svg, table: View::of(table), is_wide: false }
    }
}
