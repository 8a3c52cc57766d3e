//! Shortages of memory, disks and CPUs from samples over time: output of `vmstat 1`,
//! repeated lines of `/proc/pressure`, or both in one file.
//!
//! | module | holds |
//! |---|---|
//! | `series` | samples as series of values with times, one for each kind of shortage |
//! | `intervals` | from when to when a series was above its limit, and how far |
//! | `sentence` | the answer in one sentence |
//! | `text` | the answer as tables and JSON |
//!
//! `vmstat` prints neither its interval nor its unit; [`Options`] states them, and time stamps of
//! the text have precedence.

mod intervals;
mod sentence;
mod series;
mod text;

use std::path::Path;

use highwater_report::Table;
use highwater_results::import::ImportError;
use highwater_results::import::vmstat_log::VmstatLog;
use serde_json::Value;

pub use intervals::{Interval, Moment};
pub use series::{Kind, Short};

/// Facts that the text lacks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Seconds between two rows of `vmstat` without time stamps.
    pub interval_s: f64,
    /// Bytes of a unit of memory: 1024 except with `vmstat -S`.
    pub unit_bytes: u64,
    /// CPUs of the machine, if known.
    pub cpus: Option<u32>,
}

impl Default for Options {
    fn default() -> Options {
        Options { interval_s: 1.0, unit_bytes: 1024, cpus: None }
    }
}

/// Shortages over time.
#[derive(Clone, Debug)]
pub struct OverTime {
    /// Intervals in the order of their begin.
    pub intervals: Vec<Interval>,
    /// Kinds of shortage that the text can show.
    pub looked_at: Vec<Kind>,
    /// First and last moment; `None` without two moments.
    pub span: Option<[Moment; 2]>,
    /// Seconds between them; `None` without times.
    pub length_s: Option<f64>,
    /// Number of rows of `vmstat`, and of lines of pressure.
    pub nr_samples: [usize; 2],
    /// Least free memory, in bytes.
    pub least_free: Option<u64>,
    /// Remarks about the text.
    pub notes: Vec<String>,
}

impl OverTime {
    /// Reads a file, plain or gzip.
    ///
    /// # Errors
    /// If the file cannot be read or has no sample.
    pub fn read(path: impl AsRef<Path>, options: &Options) -> Result<OverTime, ImportError> {
        Ok(OverTime::of(&VmstatLog::read(path)?, options))
    }

    /// The shortages of a log.
    #[must_use]
    pub fn of(log: &VmstatLog, options: &Options) -> OverTime {
        let series = series::all(log, options);
        let mut intervals: Vec<Interval> = series.iter().flat_map(intervals::of).collect();
        intervals.sort_by(|a, b| a.from.order.total_cmp(&b.from.order).then(a.kind.cmp(&b.kind)));
        let moments = || series.iter().flat_map(|series| &series.samples);
        let first = moments().min_by(|a, b| a.from.total_cmp(&b.from));
        let last = moments().max_by(|a, b| a.to.total_cmp(&b.to));
        let has_time = series.iter().all(|series| series.has_time);
        let span = first
            .zip(last)
            .map(|(first, last)| [Moment::begin(first, has_time), Moment::end(last, has_time)]);
        let length_s = first.zip(last).filter(|_| has_time).map(|(a, b)| b.to - a.from);
        let free = log
            .rows
            .iter()
            .filter_map(|row| row.values.get(highwater_results::import::vmstat_log::Column::Free));
        let mut looked_at: Vec<Kind> = series.iter().map(|series| series.kind).collect();
        looked_at.dedup();
        OverTime {
            looked_at,
            span,
            length_s,
            nr_samples: [log.rows.len(), log.pressures.len()],
            least_free: free.min().map(|units| units.saturating_mul(options.unit_bytes)),
            notes: text::notes(log, options, &series),
            intervals,
        }
    }

    /// The answer in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        sentence::of(self)
    }

    /// The intervals, and sums by kind.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        text::tables(self)
    }

    /// The answer as JSON. What the text does not have is `null`.
    #[must_use]
    pub fn json(&self) -> Value {
        text::json(self)
    }
}

#[cfg(test)]
mod tests;
