//! Fixed-width text. Tables of mmtests' kind follow its layout byte for byte
//! (rules/mmtests-tables#layout); others get columns as wide as their contents.

use super::Render;
use crate::header;
use crate::table::{Cell, Layout, Suffix, Table};

/// The fixed-width renderer.
#[derive(Clone, Copy, Debug)]
pub struct Terminal;

impl Render for Terminal {
    fn table(&self, table: &Table) -> String {
        let mut lines = vec![table.title.clone()];
        match table.layout {
            // The title says why.
            _ if table.rows.is_empty() => {}
            Layout::Mmtests { field, suffix } => mmtests(table, field, suffix, &mut lines),
            Layout::Fitted => fitted(table, &mut lines),
        }
        lines.extend(table.notes.iter().flat_map(|note| wrapped(note)));
        let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
        lines.join("\n") + "\n"
    }
}

/// Columns that a note is wrapped at; tables are as wide as they have to be.
const WIDTH: usize = 100;

/// A note as lines of words, each marked as one.
fn wrapped(note: &str) -> Vec<String> {
    let mut lines = vec!["#".to_owned()];
    for word in note.split_whitespace() {
        let is_full = lines.last().is_some_and(|line| {
            line.len() > 1 && line.chars().count() + 1 + word.chars().count() > WIDTH
        });
        if is_full {
            lines.push("# ".to_owned());
        }
        if let Some(line) = lines.last_mut() {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines
}

fn mmtests(table: &Table, field: usize, suffix: Suffix, lines: &mut Vec<String>) {
    let labels = label_widths(table);
    let indent = labels.iter().sum::<usize>() + labels.len().saturating_sub(1);
    let width = field + suffix.width();
    let headings: Vec<Vec<String>> =
        table.columns.iter().map(|name| header::lines(name, width)).collect();
    let nr_lines = headings.iter().map(Vec::len).max().unwrap_or(0);
    for number in 0..nr_lines {
        let parts = headings.iter().map(|lines| lines.get(number).map_or("", String::as_str));
        let parts: String = parts.map(|part| format!("{part:>width$}")).collect();
        lines.push(format!("{:indent$}{parts}", ""));
    }
    for row in &table.rows {
        let mut line = label_text(&row.labels, &labels);
        for cell in &row.cells {
            line.push_str(&format!("{:>field$}", cell.value_text()));
            line.push_str(&suffix_text(cell, suffix));
        }
        lines.push(line);
    }
}

fn suffix_text(cell: &Cell, suffix: Suffix) -> String {
    match (cell, suffix) {
        (Cell::Change { significant, .. }, Suffix::Percent(width)) => {
            let (open, close) = if *significant { ('*', '*') } else { ('(', ')') };
            let width = width + 1;
            format!(" {open}{:>width$}{close}", cell.suffix_text())
        }
        (Cell::Ratio { percent, distance, .. }, _) => format!(" ({percent:.2}%) ({distance:+.2}s)"),
        _ => " ".repeat(suffix.width()),
    }
}

fn fitted(table: &Table, lines: &mut Vec<String>) {
    let labels: Vec<usize> = label_widths(table)
        .iter()
        .zip(&table.labels)
        .map(|(&width, label)| width.max(label.chars().count()))
        .collect();
    let texts: Vec<Vec<String>> =
        table.rows.iter().map(|row| row.cells.iter().map(Cell::full_text).collect()).collect();
    let width = |column: usize| {
        let heading = table.columns[column].chars().count();
        texts.iter().map(|row| row[column].chars().count()).fold(heading, usize::max)
    };
    let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    let mut push = |heads: &[String], cells: &[String]| {
        let mut line = label_text(heads, &labels);
        for (cell, &width) in cells.iter().zip(&widths) {
            line.push_str(&format!("  {cell:>width$}"));
        }
        lines.push(line);
    };
    push(&table.labels, &table.columns);
    for (row, cells) in table.rows.iter().zip(&texts) {
        push(&row.labels, cells);
    }
}

fn label_widths(table: &Table) -> Vec<usize> {
    let width = |column: usize| {
        table.rows.iter().map(|row| row.labels[column].chars().count()).max().unwrap_or(0)
    };
    (0..table.labels.len()).map(width).collect()
}

fn label_text(labels: &[String], widths: &[usize]) -> String {
    let padded = labels.iter().zip(widths).map(|(label, &width)| format!("{label:<width$}"));
    padded.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{mmtests, sample};
    use super::*;

    #[test]
    fn fixed_widths() {
        let expected = "\
t, \"x\" | y
                             6.1                    6.1
                               a                    b|c
Amean x,y        1.00 (   0.00%)        0.50 *  50.00%*
Amean z             -                   0.50 (       -)
N                 2.5                    98%
I        -1.00 .. 2.00                    yes
R                   -                   0.50 (50.00%) (-0.25s)
P             <0.0001                    67%
# a note
";
        assert_eq!(Terminal.table(&sample(mmtests())), expected);
    }

    #[test]
    fn fitted_widths() {
        let expected = "\
t, \"x\" | y
stat  op           6.1-a               6.1-b|c
Amean x,y   1.00 (0.00%)         0.50 *50.00%*
Amean z                -              0.50 (-)
N                    2.5                   98%
I          -1.00 .. 2.00                   yes
R                      -  0.50 (50.00% -0.25s)
P                <0.0001                   67%
# a note
";
        assert_eq!(Terminal.table(&sample(Layout::Fitted)), expected);
    }

    #[test]
    fn a_table_without_rows_or_columns() {
        for layout in [mmtests(), Layout::Fitted] {
            let table = Table::new("nothing", &["a"], Vec::new(), layout);
            assert_eq!(Terminal.table(&table), "nothing\n");
        }
    }
}
