//! Fixed-width text. Tables of mmtests' kind follow its layout byte for byte
//! (rules/mmtests-tables#layout); in others, columns are as wide as their contents.

use super::Render;
use super::fit::{Fit, blocks, wrapped, wrapped_words};
use crate::header;
use crate::table::{Cell, Layout, Suffix, Table};

/// Columns of a page.
pub const PAGE_WIDTH: usize = 100;

/// The fixed-width renderer.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// Largest width of a table in columns. Wider tables are cut into blocks of columns below each
    /// other.
    pub width: usize,
}

impl Terminal {
    /// As wide as a page.
    pub const PAGE: Terminal = Terminal { width: PAGE_WIDTH };
}

impl Render for Terminal {
    fn table(&self, table: &Table) -> String {
        let mut lines = wrapped_words("", "  ", &table.title, self.width);
        match table.layout {
            // The title says why the table is empty.
            _ if table.rows.is_empty() => {}
            Layout::Mmtests { field, suffix } => {
                mmtests(table, field, suffix, self.width, &mut lines);
            }
            Layout::Fitted => fitted(table, self.width, &mut lines),
        }
        let notes = table.notes.iter();
        lines.extend(notes.flat_map(|note| wrapped_words("# ", "#  ", note, self.width)));
        let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
        lines.join("\n") + "\n"
    }
}

fn mmtests(table: &Table, field: usize, suffix: Suffix, page: usize, lines: &mut Vec<String>) {
    let labels = label_widths(table);
    let indent = labels.iter().sum::<usize>() + labels.len().saturating_sub(1);
    let width = field + suffix.width();
    let text = |cell: &Cell| format!("{:>field$}{}", cell.value_text(), suffix_text(cell, suffix));
    // A number that is too wide shifts the columns after it.
    let widest = |column: usize| {
        let texts =
            table.rows.iter().map(|row| text(&row.cells[column]).trim_end().chars().count());
        texts.fold(width, usize::max)
    };
    let widths: Vec<usize> = (0..table.columns.len()).map(widest).collect();
    for (number, columns) in blocks(indent, &widths, &table.breaks, page).into_iter().enumerate() {
        if number > 0 {
            lines.push(String::new());
        }
        let headings: Vec<Vec<String>> =
            table.columns[columns.clone()].iter().map(|name| header::lines(name, width)).collect();
        // If no name has a second part, there is no empty line for it.
        let nr_used = |lines: &Vec<String>| lines.iter().rposition(|line| !line.is_empty());
        let nr_lines = headings.iter().filter_map(nr_used).max().map_or(0, |last| last + 1);
        for number in 0..nr_lines {
            let parts = headings.iter().map(|lines| lines.get(number).map_or("", String::as_str));
            let parts: String = parts.map(|part| format!("{part:>width$}")).collect();
            lines.push(format!("{:indent$}{parts}", ""));
        }
        for row in &table.rows {
            let mut line = label_text(&row.labels, &labels);
            for cell in row.cells[columns.clone()].iter().map(&text) {
                // A text that fills its field would touch the one before it.
                if !line.ends_with(' ') && !cell.starts_with(' ') {
                    line.push(' ');
                }
                line += &cell;
            }
            lines.push(line);
        }
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

fn fitted(table: &Table, page: usize, lines: &mut Vec<String>) {
    let texts: Vec<Vec<String>> =
        table.rows.iter().map(|row| row.cells.iter().map(Cell::full_text).collect()).collect();
    let fit = Fit::new(table, &texts, page);
    let headings: Vec<Vec<String>> =
        table.columns.iter().zip(&fit.columns).map(|(name, &width)| wrapped(name, width)).collect();
    for (number, columns) in fit.blocks.iter().cloned().enumerate() {
        if number > 0 {
            lines.push(String::new());
        }
        let heading = &headings[columns.clone()];
        let nr_lines = heading.iter().map(Vec::len).max().unwrap_or(1);
        for number in 0..nr_lines {
            // Headings are aligned to the last line, right above their columns.
            let skipped = |lines: &Vec<String>| nr_lines - lines.len();
            let part = |lines: &Vec<String>| {
                let at = number.checked_sub(skipped(lines));
                at.map(|at| lines[at].clone()).unwrap_or_default()
            };
            let parts: Vec<String> = heading.iter().map(part).collect();
            let is_last = number + 1 == nr_lines;
            let names = if is_last { table.labels.clone() } else { Vec::new() };
            lines.push(line(&names, &fit.labels, &parts, &fit.columns[columns.clone()]));
        }
        for (row, texts) in table.rows.iter().zip(&texts) {
            let labels = row.labels.iter().zip(&fit.labels);
            let labels: Vec<Vec<String>> =
                labels.map(|(label, &width)| wrapped(label, width)).collect();
            let widths = &fit.columns[columns.clone()];
            let cells = texts[columns.clone()].iter().zip(widths);
            let cells: Vec<Vec<String>> =
                cells.map(|(cell, &width)| wrapped(cell, width)).collect();
            let nr_lines = labels.iter().chain(&cells).map(Vec::len).max().unwrap_or(1);
            for number in 0..nr_lines {
                let part = |lines: &Vec<String>| lines.get(number).cloned().unwrap_or_default();
                let labels: Vec<String> = labels.iter().map(part).collect();
                let cells: Vec<String> = cells.iter().map(part).collect();
                lines.push(line(&labels, &fit.labels, &cells, widths));
            }
        }
    }
}

/// Labels to the left, cells to the right. There may be fewer of either than widths.
fn line(labels: &[String], label_widths: &[usize], cells: &[String], widths: &[usize]) -> String {
    let no_label = String::new();
    let labels = labels.iter().chain(std::iter::repeat(&no_label));
    let padded: Vec<String> =
        labels.zip(label_widths).map(|(label, &width)| format!("{label:<width$}")).collect();
    let cells = cells.iter().zip(widths).map(|(cell, &width)| format!("  {cell:>width$}"));
    padded.join(" ") + &cells.collect::<String>()
}

fn label_widths(table: &Table) -> Vec<usize> {
    let width = |column: usize| {
        table.rows.iter().map(|row| row.labels[column].chars().count()).max().unwrap_or(0)
    };
    (0..table.labels.len()).map(width).collect()
}

fn label_text(labels: &[String], widths: &[usize]) -> String {
    line(labels, widths, &[], &[])
}

#[cfg(test)]
mod tests {
    use super::super::tests::{mmtests, sample};
    use super::*;

    #[test]
    fn a_number_as_wide_as_its_field_does_not_run_into_its_label() {
        let layout = Layout::Mmtests { field: 12, suffix: Suffix::Percent(7) };
        let mut table = Table::new("t", &["operation"], vec!["a".to_owned()], layout);
        table.push(&["t.r rate"], vec![Cell::number(124_950_947.32, 2)]);
        let text = Terminal::PAGE.table(&table);
        assert!(text.contains("t.r rate 124950947.32"), "{text}");
    }

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
        assert_eq!(Terminal::PAGE.table(&sample(mmtests())), expected);
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
        assert_eq!(Terminal::PAGE.table(&sample(Layout::Fitted)), expected);
    }

    #[test]
    fn a_wide_table_goes_on_below_itself() {
        let columns: Vec<String> = ["a", "b", "c", "d"].map(|run| format!("6.1-{run}")).to_vec();
        let mut table = Table::new("t", &["stat", "op"], columns, mmtests());
        let cells = |value: f64| {
            let change = |n: u8| Cell::Change {
                value: value * f64::from(n),
                decimals: 0,
                percent: Some(f64::from(n)),
                significant: false,
                told: None,
            };
            (0..4).map(change).collect()
        };
        table.push(&["Amean", "x"], cells(1.0));
        table.notes.push("a note that is wrapped where the tables are".into());
        let expected = "\
t
                           6.1                    6.1
                             a                      b
Amean x           0 (   0.00%)           1 (   1.00%)

                           6.1                    6.1
                             c                      d
Amean x           2 (   2.00%)           3 (   3.00%)
# a note that is wrapped where the tables are
";
        assert_eq!(Terminal { width: 55 }.table(&table), expected);
        table.layout = Layout::Fitted;
        table.breaks = vec![0, 2];
        let expected = "\
t
stat  op      6.1-a      6.1-b
Amean x   0 (0.00%)  1 (1.00%)

stat  op      6.1-c      6.1-d
Amean x   2 (2.00%)  3 (3.00%)
# a note that is wrapped where the tables
#  are
";
        assert_eq!(Terminal { width: 41 }.table(&table), expected);
    }

    #[test]
    fn headings_and_long_labels_are_wrapped_before_columns_are_parted() {
        let columns = ["pairs better", "seeds better"].map(str::to_owned).to_vec();
        let mut table = Table::new("t", &["operation"], columns, Layout::Fitted);
        table.push(
            &["unmap of one range of pages"],
            vec![Cell::number(7.0, 0), Cell::number(9.0, 0)],
        );
        let expected = "\
t
                              pairs   seeds
operation                    better  better
unmap of one range of pages       7       9
";
        assert_eq!(Terminal { width: 50 }.table(&table), expected);
        let expected = "\
t
                     pairs   seeds
operation           better  better
unmap of one range       7       9
of pages
";
        assert_eq!(Terminal { width: 34 }.table(&table), expected);
    }

    #[test]
    fn names_in_one_piece_have_one_line_of_headings() {
        let mut table = sample(mmtests());
        table.columns = vec!["before".into(), "after".into()];
        let text = Terminal::PAGE.table(&table);
        let heads: Vec<&str> = text.lines().skip(1).take(2).collect();
        assert!(heads[0].ends_with("before                  after"), "{text}");
        assert!(heads[1].starts_with("Amean x,y"), "{text}");
    }

    #[test]
    fn a_table_without_rows_or_columns() {
        for layout in [mmtests(), Layout::Fitted] {
            let table = Table::new("nothing", &["a"], Vec::new(), layout);
            assert_eq!(Terminal::PAGE.table(&table), "nothing\n");
        }
    }
}
