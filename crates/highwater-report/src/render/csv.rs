//! Comma-separated values (RFC 4180): one tidy table for all tables, one line per cell,
//! full-precision numbers.
//!
//! | column | is |
//! |---|---|
//! | table, row, column | the cell's place: the table's title, the labels of its row, the column's heading |
//! | value | its number |
//! | text | its words |
//! | percent, significant | its change, or its value if it is a percentage; whether the change is marked |
//! | low, high | its interval |
//!
//! A value that a cell does not have is an empty field; a missing cell has no line. A table with
//! labels only has its first label as `row` and a line for each of the others. The distance of a
//! ratio has a separate line.
//!
//! The measured values of a document are another table: [`observations`](super::observations).

use super::Render;
use crate::percent::Told;
use crate::table::{Cell, Row, Table};

/// The CSV renderer.
#[derive(Clone, Copy, Debug)]
pub struct Csv;

/// Names of the columns.
const COLUMNS: [&str; 9] =
    ["table", "row", "column", "value", "text", "percent", "significant", "low", "high"];

impl Render for Csv {
    fn table(&self, table: &Table) -> String {
        self.tables(std::slice::from_ref(table))
    }

    fn tables(&self, tables: &[Table]) -> String {
        let mut records = Records::new(&COLUMNS);
        for table in tables {
            for row in &table.rows {
                records_of(table, row, &mut records);
            }
        }
        records.into_text()
    }
}

/// The lines of a row.
fn records_of(table: &Table, row: &Row, records: &mut Records) {
    let mut push = |row: &str, column: &str, fields: [String; 6]| {
        let place = [&table.title, row, column].map(str::to_owned);
        records.push(place.into_iter().chain(fields));
    };
    if table.columns.is_empty() {
        let Some((first, others)) = row.labels.split_first() else { return };
        for (label, name) in others.iter().zip(&table.labels[1..]) {
            push(first, name, [String::new(), label.clone()].fill());
        }
        return;
    }
    let labels: Vec<&str> =
        row.labels.iter().map(String::as_str).filter(|label| !label.is_empty()).collect();
    let labels = labels.join(" ");
    for (cell, name) in row.cells.iter().zip(&table.columns) {
        if *cell != Cell::Missing {
            push(&labels, name, fields(cell));
        }
        if let Cell::Ratio { distance, .. } = cell {
            push(&labels, &format!("{name} distance"), [number(*distance)].fill());
        }
    }
}

/// Value, text, percent, significant, low, high.
fn fields(cell: &Cell) -> [String; 6] {
    let none = String::new;
    let text = |told: Option<Told>| told.map(|told| told.to_string()).unwrap_or_default();
    match cell {
        Cell::Missing => [].fill(),
        Cell::Text { text } => [none(), text.clone()].fill(),
        Cell::Number { value, .. } | Cell::Probability { value } => [number(*value)].fill(),
        Cell::Percent { value, told, .. } => [none(), text(*told), number(*value)].fill(),
        Cell::WholePercent { value } => [none(), none(), value.to_string()].fill(),
        Cell::Change { value, percent, significant, told, .. } => {
            let percent = percent.map_or_else(none, number);
            [number(*value), text(*told), percent, significant.to_string()].fill()
        }
        Cell::Ratio { value, percent, .. } => [number(*value), none(), number(*percent)].fill(),
        Cell::Interval { low, high, .. } => {
            [none(), none(), none(), none(), number(*low), number(*high)]
        }
    }
}

/// A full-precision number; empty for NaN or infinity.
fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { String::new() }
}

/// Sets the first fields of a line; the others stay empty.
trait Fill {
    fn fill(self) -> [String; 6];
}

impl<const N: usize> Fill for [String; N] {
    fn fill(self) -> [String; 6] {
        let mut fields = <[String; 6]>::default();
        for (field, known) in fields.iter_mut().zip(self) {
            *field = known;
        }
        fields
    }
}

/// Lines with one field per column.
pub(crate) struct Records(csv::Writer<Vec<u8>>);

impl Records {
    /// A header and nothing else.
    pub(crate) fn new(columns: &[&str]) -> Records {
        let mut records = Records(csv::Writer::from_writer(Vec::new()));
        records.push(columns);
        records
    }

    /// Adds a line.
    pub(crate) fn push(&mut self, fields: impl IntoIterator<Item = impl AsRef<[u8]>>) {
        // Memory accepts every write, and every line has as many fields as the header.
        let is_written = self.0.write_record(fields);
        debug_assert!(is_written.is_ok(), "{is_written:?}");
    }

    /// The lines as text.
    pub(crate) fn into_text(self) -> String {
        // The fields are UTF-8, so the whole text is.
        self.0
            .into_inner()
            .map(|bytes| String::from_utf8(bytes).unwrap_or_default())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;
    use crate::table::Layout;

    #[test]
    fn a_cell_is_a_line_with_full_numbers() {
        let expected = r#"table,row,column,value,text,percent,significant,low,high
"t, ""x"" | y","Amean x,y",6.1-a,1,,0,false,,
"t, ""x"" | y","Amean x,y",6.1-b|c,0.5,,50,true,,
"t, ""x"" | y",Amean z,6.1-b|c,0.5,,,false,,
"t, ""x"" | y",N,6.1-a,2.5,,,,,
"t, ""x"" | y",N,6.1-b|c,,,98,,,
"t, ""x"" | y",I,6.1-a,,,,,-1,2
"t, ""x"" | y",I,6.1-b|c,,yes,,,,
"t, ""x"" | y",R,6.1-b|c,0.5,,50,,,
"t, ""x"" | y",R,6.1-b|c distance,-0.25,,,,,
"t, ""x"" | y",P,6.1-a,0.00001,,,,,
"t, ""x"" | y",P,6.1-b|c,,,66.66666666666667,,,
"#;
        assert_eq!(Csv.table(&sample(Layout::Fitted)), expected);
    }

    #[test]
    fn tables_of_all_kinds_share_one_header() {
        let mut labels = Table::new("keys", &["key", "value", "about"], Vec::new(), Layout::Fitted);
        labels.push(&["a", "1", "it, too"], Vec::new());
        let mut numbers = Table::new("n", &["x"], vec!["y".to_owned()], Layout::Fitted);
        numbers.push(&["r"], vec![Cell::percent(f64::NAN)]);
        let expected = "\
table,row,column,value,text,percent,significant,low,high
keys,a,value,,1,,,,
keys,a,about,,\"it, too\",,,,
n,r,y,,,,,,
";
        assert_eq!(Csv.tables(&[labels, numbers]), expected);
    }
}
