//! All observations of some results as one Parquet table, for other programs.
//!
//! Columns: the keys that vary, as text, in their order; then those of `report --format csv`
//! ([`observations`](mod@highwater_report::render::observations)). If machines vary, the column `machine` has their
//! names, and no key's column stands before it. `seed` and `iteration` are unsigned (64 and 32 bits), `value` is a float,
//! all others are text.

use std::io::Write;

use highwater_plan::plan::{MACHINE, PlanError, Results};
use highwater_report::render::observations::{COLUMNS, Observation, rows};

use crate::table::{Column, Writer};

/// Rows of a group: so few that a group is quickly read, so many that few groups make a table.
const ROWS_OF_GROUP: usize = 1 << 17;

/// Writes the observations of results.
///
/// # Errors
/// If they cannot be written.
pub fn write(results: &Results, out: impl Write + Send) -> Result<(), PlanError> {
    let failed = |error: parquet::errors::ParquetError| PlanError::Document(error.to_string());
    let keys = || results.keys.iter().filter(|key| *key != MACHINE).map(String::as_str);
    let nr_keys = keys().count();
    let names: Vec<&str> = keys().chain(COLUMNS).collect();
    let none: Vec<_> = names.into_iter().zip(columns(nr_keys, &[])).collect();
    let mut writer = Writer::new(out, &none, Vec::new()).map_err(failed)?;
    let mut group: Vec<Row<'_>> = Vec::new();
    for point in &results.points {
        let pairs = results.keys.iter().zip(&point.values);
        let values: Vec<&str> =
            pairs.filter(|(key, _)| *key != MACHINE).map(|(_, value)| value.as_str()).collect();
        let of_point = rows(&point.ran.document).into_iter();
        group.extend(of_point.map(|row| (values.clone(), row)));
        if group.len() >= ROWS_OF_GROUP {
            writer.rows(&columns(nr_keys, &group)).map_err(failed)?;
            group.clear();
        }
    }
    if !group.is_empty() {
        writer.rows(&columns(nr_keys, &group)).map_err(failed)?;
    }
    writer.finish().map_err(failed)
}

/// The values of the keys, and an observation.
type Row<'a> = (Vec<&'a str>, Observation<'a>);

/// The columns of some rows: the keys, then those of observations.
fn columns<'a>(nr_keys: usize, rows: &[Row<'a>]) -> Vec<Column<'a>> {
    let text = |of: fn(&Observation<'a>) -> &'a str| {
        Column::Text(rows.iter().map(|(_, row)| of(row)).collect())
    };
    let key = |at: usize| Column::Text(rows.iter().map(|(values, _)| values[at]).collect());
    let of_observations: [Column<'_>; COLUMNS.len()] = [
        text(|row| row.experiment),
        text(|row| row.host),
        text(|row| row.machine),
        text(|row| row.policy),
        text(|row| row.label),
        Column::U64(rows.iter().map(|(_, row)| row.seed).collect()),
        Column::U32(rows.iter().map(|(_, row)| row.iteration).collect()),
        text(|row| row.kind),
        text(|row| row.metric),
        text(|row| row.operation),
        text(|row| row.unit),
        Column::F64(rows.iter().map(|(_, row)| row.value.as_f64()).collect()),
    ];
    (0..nr_keys).map(key).chain(of_observations).collect()
}
