//! A table in the form of the template: words for reading, and full-precision numbers for the
//! download.

use serde::Serialize;

use crate::table::{Cell, Table};

/// A table of the page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct View {
    pub(super) title: String,
    /// Headings of the label columns, and of the value columns.
    labels: Vec<String>,
    heads: Vec<String>,
    rows: Vec<Line>,
    pub(super) notes: Vec<String>,
    /// File name of the download.
    file: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Line {
    labels: Vec<String>,
    cells: Vec<Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Value {
    text: String,
    /// The full-precision number; empty if the cell has none.
    full: String,
    /// `good`, `bad` or nothing: a marked change.
    class: &'static str,
}

impl View {
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn of(table: &Table) -> View {
        let nr_labels = table.labels.len();
        // A label column that is empty in every row is left out.
        let used: Vec<usize> = (0..nr_labels)
            .filter(|&at| table.rows.iter().any(|row| !row.labels[at].is_empty()))
            .collect();
        let labels = used.iter().map(|&at| table.labels[at].clone());
        let rows = table.rows.iter().map(|row| Line {
            labels: used.iter().map(|&at| row.labels[at].clone()).collect(),
            cells: row.cells.iter().map(value).collect(),
        });
        View {
            title: table.title.clone(),
            labels: labels.collect(),
            heads: table.columns.clone(),
            rows: rows.collect(),
            notes: table.notes.clone(),
            file: file_name(&table.title),
        }
    }
}

fn value(cell: &Cell) -> Value {
    let full = match cell {
        Cell::Number { value, .. }
        | Cell::Change { value, .. }
        | Cell::Ratio { value, .. }
        | Cell::Probability { value }
        | Cell::Percent { value, .. }
            if value.is_finite() =>
        {
            value.to_string()
        }
        Cell::WholePercent { value } => value.to_string(),
        _ => String::new(),
    };
    let class = match cell {
        Cell::Change { significant: true, percent: Some(percent), .. } if *percent > 0.0 => "good",
        Cell::Change { significant: true, percent: Some(percent), .. } if *percent < 0.0 => "bad",
        _ => "",
    };
    Value { text: cell.full_text(), full, class }
}

/// Letters, digits and dashes of a title.
fn file_name(title: &str) -> String {
    let mut name = String::new();
    for letter in title.chars().map(|c| c.to_ascii_lowercase()) {
        match letter {
            'a'..='z' | '0'..='9' => name.push(letter),
            _ if name.ends_with('-') || name.is_empty() => {}
            _ => name.push('-'),
        }
        if name.len() >= 60 {
            break;
        }
    }
    format!("{}.csv", name.trim_end_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Layout;

    #[test]
    fn labels_without_words_are_left_out() {
        let mut table = Table::new("A, \"B\" (c)", &["x", "y"], vec!["v".into()], Layout::Fitted);
        let change = |percent| Cell::Change {
            value: 1.5,
            decimals: 1,
            percent: Some(percent),
            significant: true,
            told: None,
        };
        table.push(&["a", ""], vec![change(10.0)]);
        table.push(&["b", ""], vec![change(-10.0)]);
        let view = View::of(&table);
        assert_eq!((view.labels, view.heads), (vec!["x".into()], vec!["v".into()]));
        assert_eq!(view.file, "a-b-c.csv");
        let classes: Vec<&str> = view.rows.iter().map(|row| row.cells[0].class).collect();
        assert_eq!(classes, ["good", "bad"]);
        assert_eq!(view.rows[0].cells[0].full, "1.5");
    }
}
