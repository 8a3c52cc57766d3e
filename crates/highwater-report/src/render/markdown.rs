//! Markdown: a heading, a table, the notes as a list. Significant changes are bold.

use super::Render;
use crate::table::{Cell, Table};

/// The Markdown renderer.
#[derive(Clone, Copy, Debug)]
pub struct Markdown;

impl Render for Markdown {
    fn table(&self, table: &Table) -> String {
        let mut text = format!("### {}\n\n", table.title);
        if table.rows.is_empty() {
            // The title says why the table is empty.
            return format!("{}\n", escape(&table.title));
        }
        let heads = table.labels.iter().chain(&table.columns).map(|head| escape(head));
        text.push_str(&line(heads));
        let rules = table.labels.iter().map(|_| "---".to_owned());
        text.push_str(&line(rules.chain(table.columns.iter().map(|_| "---:".to_owned()))));
        for row in &table.rows {
            let labels = row.labels.iter().map(|label| escape(label));
            text.push_str(&line(labels.chain(row.cells.iter().map(cell_text))));
        }
        if !table.notes.is_empty() {
            text.push('\n');
        }
        for note in &table.notes {
            text.push_str(&format!("* {}\n", escape(note)));
        }
        text
    }
}

fn cell_text(cell: &Cell) -> String {
    match cell {
        Cell::Change { significant: true, .. } => {
            format!("{} (**{}**)", cell.value_text(), cell.suffix_text())
        }
        _ => escape(&cell.full_text()),
    }
}

fn line(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

fn escape(text: &str) -> String {
    text.replace('|', "\\|").replace('*', "\\*").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;
    use crate::table::Layout;

    #[test]
    fn bars_are_escaped_and_marks_are_bold() {
        let expected = "\
### t, \"x\" | y

| stat | op | 6.1-a | 6.1-b\\|c |
| --- | --- | ---: | ---: |
| Amean | x,y | 1.00 (0.00%) | 0.50 (**50.00%**) |
| Amean | z | - | 0.50 (-) |
| N |  | 2.5 | 98% |
| I |  | -1.00 .. 2.00 | yes |
| R |  | - | 0.50 (50.00% -0.25s) |
| P |  | <0.0001 | 67% |

* a note
";
        assert_eq!(Markdown.table(&sample(Layout::Fitted)), expected);
    }
}
