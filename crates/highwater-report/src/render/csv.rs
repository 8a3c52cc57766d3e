//! Comma-separated values (RFC 4180): numbers in full, a change in three columns (value, percent, significant).

use super::Render;
use crate::table::{Cell, Table};

/// The CSV renderer.
#[derive(Clone, Copy, Debug)]
pub struct Csv;

impl Render for Csv {
    fn table(&self, table: &Table) -> String {
        let has = |column: usize, test: fn(&Cell) -> bool| {
            table.rows.iter().any(|row| test(&row.cells[column]))
        };
        let shapes: Vec<Shape> = (0..table.columns.len())
            .map(|column| match () {
                () if has(column, |cell| matches!(cell, Cell::Change { .. })) => Shape::Change,
                () if has(column, |cell| matches!(cell, Cell::Ratio { .. })) => Shape::Ratio,
                () if has(column, |cell| matches!(cell, Cell::Interval { .. })) => Shape::Interval,
                () => Shape::Value,
            })
            .collect();
        let mut head: Vec<String> =
            std::iter::once("table".to_owned()).chain(table.labels.clone()).collect();
        for (name, shape) in table.columns.iter().zip(&shapes) {
            head.extend(shape.headings().iter().map(|part| format!("{name}{part}")));
        }
        let mut text = record(&head);
        for row in &table.rows {
            let mut fields = vec![table.title.clone()];
            fields.extend(row.labels.iter().cloned());
            for (cell, shape) in row.cells.iter().zip(&shapes) {
                let mut parts = fields_of(cell);
                parts.resize(shape.headings().len().max(parts.len()), String::new());
                fields.extend(parts);
            }
            text.push_str(&record(&fields));
        }
        text
    }
}

/// How many fields a column takes.
enum Shape {
    Value,
    Change,
    Ratio,
    Interval,
}

impl Shape {
    fn headings(&self) -> &'static [&'static str] {
        match self {
            Shape::Value => &[""],
            Shape::Change => &["", " percent", " significant"],
            Shape::Ratio => &["", " percent", " distance"],
            Shape::Interval => &[" low", " high"],
        }
    }
}

fn fields_of(cell: &Cell) -> Vec<String> {
    match cell {
        Cell::Missing => vec![String::new()],
        Cell::Text { text } => vec![text.clone()],
        Cell::Number { value, .. } => vec![value.to_string()],
        Cell::WholePercent { value } => vec![value.to_string()],
        Cell::Change { value, percent, significant, .. } => {
            let percent = percent.map(|percent| percent.to_string()).unwrap_or_default();
            vec![value.to_string(), percent, significant.to_string()]
        }
        Cell::Ratio { value, percent, distance, .. } => {
            [value, percent, distance].map(f64::to_string).to_vec()
        }
        Cell::Interval { low, high } => [low, high].map(f64::to_string).to_vec(),
    }
}

fn record(fields: &[String]) -> String {
    let quoted = fields.iter().map(|field| {
        if field.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field.clone()
        }
    });
    quoted.collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;
    use crate::table::Layout;

    #[test]
    fn quotes_and_full_numbers() {
        let mut table = sample(Layout::Fitted);
        table.rows.truncate(2);
        let expected = "\
table,stat,op,6.1-a,6.1-a percent,6.1-a significant,6.1-b|c,6.1-b|c percent,6.1-b|c significant
\"t, \"\"x\"\" | y\",Amean,\"x,y\",1,0,false,0.5,50,true
\"t, \"\"x\"\" | y\",Amean,z,,,,0.5,,false
";
        assert_eq!(Csv.table(&table), expected);
    }
}
