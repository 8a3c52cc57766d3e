//! Counters over virtual time, as sampled by `--sample-every`.
//!
//! A [`Series`] covers one unit of work: for each time a row of numbers, always with the same
//! columns. The document does not contain it, because it would be most of the file; it is written
//! to a file beside the document ([`SERIES_FILE`]).

use serde::{Deserialize, Serialize};

use crate::Column;

/// File name of the series in a result directory.
pub const SERIES_FILE: &str = "samples.csv";
/// File name of the first seed's series, in a few hundred rows: the data of its charts.
pub const TIMELINE_FILE: &str = "timeline.csv";

/// Counter values at several times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// The part of the run: the name of one of its steps.
    pub part: String,
    /// The counters.
    pub columns: Vec<Column>,
    times_ns: Vec<u64>,
    values: Vec<u64>,
}

/// The sampling of a run, as its document records it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Sampled {
    /// Milliseconds of virtual time between two samples.
    pub every_ms: u64,
    /// The file beside the document that holds the samples.
    pub file: String,
}

impl Series {
    /// A series without rows.
    pub fn new(columns: Vec<Column>) -> Series {
        Series { columns, ..Series::default() }
    }

    /// Adds a row with a number for each column. A row of another length is ignored.
    pub fn push(&mut self, time_ns: u64, row: impl IntoIterator<Item = u64>) {
        let len = self.values.len();
        self.values.extend(row);
        if self.values.len() == len + self.columns.len() {
            self.times_ns.push(time_ns);
        } else {
            debug_assert!(false, "a row of another table");
            self.values.truncate(len);
        }
    }

    /// Drops every other row, beginning with the second.
    pub fn thin(&mut self) {
        let width = self.columns.len();
        let kept = self.times_ns.len().div_ceil(2);
        for at in 1..kept {
            self.times_ns[at] = self.times_ns[2 * at];
            self.values.copy_within(2 * at * width..(2 * at + 1) * width, at * width);
        }
        self.times_ns.truncate(kept);
        self.values.truncate(kept * width);
    }

    /// The position of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.times_ns.len()
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.times_ns.is_empty()
    }

    /// The rows, each with its time in nanoseconds since boot.
    pub fn rows(&self) -> impl Iterator<Item = (u64, &[u64])> {
        // A series without columns yields no rows.
        let rows = self.values.chunks_exact(self.columns.len().max(1));
        self.times_ns.iter().copied().zip(rows)
    }
}

/// The series of one unit of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSeries {
    /// Name of the machine.
    pub machine: String,
    /// Name of the policy.
    pub policy: String,
    /// The heading of its column.
    pub label: String,
    /// The seed.
    pub seed: u64,
    /// The counters.
    pub series: Series,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::{Kind, Owner, Unit};

    fn columns() -> Vec<Column> {
        let column = |name| Column::new(Owner::Machine, name, Unit::Pages, Kind::Level);
        ["a", "b"].map(column).to_vec()
    }

    #[test]
    fn every_other_row_is_left_out() {
        let mut series = Series::new(columns());
        (0..5).for_each(|at| series.push(at, [10 * at, 10 * at + 1]));
        series.thin();
        let rows: Vec<_> = series.rows().map(|(at, row)| (at, row.to_vec())).collect();
        assert_eq!(rows, [(0, vec![0, 1]), (2, vec![20, 21]), (4, vec![40, 41])]);
        assert_eq!((series.column("b"), series.column("c")), (Some(1), None));
    }

    #[test]
    fn rows_come_back_with_their_times() {
        let mut series = Series::new(columns());
        assert!(series.is_empty());
        series.push(5, [1, 2]);
        series.push(9, [3, 4]);
        let rows: Vec<_> = series.rows().map(|(at, row)| (at, row.to_vec())).collect();
        assert_eq!((rows, series.len()), (vec![(5, vec![1, 2]), (9, vec![3, 4])], 2));
    }
}
