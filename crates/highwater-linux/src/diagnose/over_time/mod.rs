//! Shortages of memory, disks and CPUs from samples over time: output of `vmstat 1`,
//! repeated lines of `/proc/pressure`, or both in one file.
//!
//! | module | holds |
//! |---|---|
//! | `series` | rows of `vmstat` as series of values with times, one for each kind of shortage |
//! | `pressure` | the same of lines of pressure; time stalled; the averages of a single reading |
//! | `intervals` | from when to when a series was above its limit, and how far |
//! | `sentence` | the answer in one sentence |
//! | `text` | the answer as tables and JSON |
//! | `notes` | remarks about the text: what was assumed, and what counts as short |
//!
//! `vmstat` prints neither its interval nor its unit; [`Options`] states them, and time stamps of
//! the text have precedence.

mod intervals;
mod notes;
mod pressure;
mod sentence;
mod series;
mod text;

use std::path::Path;

use highwater_report::Table;
use highwater_results::import::ImportError;
use highwater_results::import::vmstat_log::{Column, PressureLine, Scale, VmstatLog};
use serde_json::Value;

use super::window::Window;

pub use intervals::{Interval, Moment};
pub use pressure::{Reading, Stalled};
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
    /// The part of a text over time that is asked for.
    pub window: Window,
}

impl Default for Options {
    fn default() -> Options {
        Options { interval_s: 1.0, unit_bytes: 1024, cpus: None, window: Window::default() }
    }
}

/// Bytes of a unit of `vmstat -S`; none if it has no such unit.
#[must_use]
pub fn unit_bytes(unit: &str) -> Option<u64> {
    match unit {
        "k" => Some(1000),
        "K" => Some(1024),
        "m" => Some(1_000_000),
        "M" => Some(1 << 20),
        _ => None,
    }
}

/// Shortages over time.
#[derive(Clone, Debug)]
pub struct OverTime {
    /// Intervals in the order of their begin.
    pub intervals: Vec<Interval>,
    /// Kinds of shortage that the text can show.
    pub looked_at: Vec<Kind>,
    /// The averages of the kernel that the first reading of pressure printed, or the only one.
    pub readings: Vec<Reading>,
    /// Time stalled between the first and the last reading of pressure.
    pub stalled: Vec<Stalled>,
    /// Percent of the disks' traffic that was swap while disks were short.
    pub swap_io: Option<f64>,
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
    /// If the file cannot be read, has no sample, or none in the window of the options.
    pub fn read(path: impl AsRef<Path>, options: &Options) -> Result<OverTime, ImportError> {
        let path = path.as_ref();
        let log = VmstatLog::read(path)?;
        OverTime::of(&log, options)
            .map_err(|problem| ImportError::Format { file: path.display().to_string(), problem })
    }

    /// The shortages of a log.
    ///
    /// # Errors
    /// If the log has no sample in the window of the options, or no such clock.
    pub fn of(log: &VmstatLog, options: &Options) -> Result<OverTime, String> {
        // Rows keep the times that they have in the whole text.
        let scale = series::scale(log);
        let mut series = series::of_rows(log, options);
        let part;
        let log = if options.window.is_all() {
            log
        } else {
            let (found, [from, to]) = within(log, options)?;
            part = found;
            for series in &mut series {
                series.samples.retain(|sample| (from..=to).contains(&sample.to));
            }
            &part
        };
        series.retain(|series| !series.samples.is_empty());
        let pressures = pressure::of(log, options);
        series.extend(pressures.series);
        let (readings, stalled) = (pressures.readings, pressures.stalled);
        let mut intervals: Vec<Interval> =
            series.iter().flat_map(|series| intervals::of(series, scale)).collect();
        intervals.sort_by(|a, b| a.from.order.total_cmp(&b.from.order).then(a.kind.cmp(&b.kind)));
        let moments = || series.iter().flat_map(|series| &series.samples);
        let first = moments().min_by(|a, b| a.from.total_cmp(&b.from));
        let last = moments().max_by(|a, b| a.to.total_cmp(&b.to));
        let has_time = series.iter().all(|series| series.has_time);
        let span = first.zip(last).map(|(first, last)| {
            [Moment::begin(first, has_time, scale), Moment::end(last, has_time, scale)]
        });
        let length_s = first.zip(last).filter(|_| has_time).map(|(a, b)| b.to - a.from);
        let only = readings.iter().filter(|reading| reading.is_only);
        let only = only.filter(|reading| reading.averages.iter().any(Option::is_some));
        let mut looked_at: Vec<Kind> = series.iter().map(|series| series.kind).collect();
        looked_at.extend(only.map(|reading| reading.kind));
        looked_at.sort_unstable();
        Ok(OverTime {
            looked_at,
            span,
            length_s,
            nr_samples: [log.rows.len(), log.pressures.len()],
            least_free: series::least_free(log)
                .map(|units| units.saturating_mul(options.unit_bytes)),
            swap_io: swap_io(log, options),
            notes: notes::of(log, options, &series, &readings),
            readings,
            stalled,
            intervals,
        })
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

/// The samples that end in the window, and its ends.
fn within(log: &VmstatLog, options: &Options) -> Result<(VmstatLog, [f64; 2]), String> {
    let stamps = series::scale(log);
    if stamps.is_none() && log.rows.is_empty() {
        return Err("--from, --to: the text has no times".to_owned());
    }
    let position = |row: u64| row as f64 * options.interval_s;
    let ends = series::ends(log, options);
    let of_line = |line: &PressureLine| match &line.at {
        Some(at) if stamps.is_some() => at.seconds,
        _ => position(line.row.saturating_sub(1)),
    };
    let moments = || ends.iter().copied().chain(log.pressures.iter().map(of_line));
    let (first, last) =
        moments().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), at| (a.min(at), b.max(at)));
    let [from, to] = options.window.on(stamps.unwrap_or(Scale::Uptime), [first, last])?;
    let is_in = |at: f64| (from..=to).contains(&at);
    let mut part = log.clone();
    let mut ends = ends.into_iter();
    part.rows.retain(|_| ends.next().is_some_and(is_in));
    part.pressures.retain(|line| is_in(of_line(line)));
    if part.rows.is_empty() && part.pressures.is_empty() {
        return Err("--from, --to: no sample ends between them".to_owned());
    }
    Ok((part, [from, to]))
}

/// Percent of the disks' traffic that was swap, over the rows in which disks were short.
fn swap_io(log: &VmstatLog, options: &Options) -> Option<f64> {
    let (mut swapped, mut all) = (0u64, 0u64);
    for row in &log.rows {
        if series::judge(row, Kind::Disk, None, options).is_some_and(|(_, is_short)| is_short) {
            let sum = |columns: [Column; 2]| {
                let [a, b] = columns.map(|column| row.values.get(column));
                Some(a?.saturating_add(b?))
            };
            let swap = sum([Column::SwapIn, Column::SwapOut])?;
            swapped = swapped.saturating_add(swap.saturating_mul(options.unit_bytes));
            // Blocks of vmstat have 1024 bytes, whatever -S says.
            let blocks = sum([Column::BlocksIn, Column::BlocksOut])?;
            all = all.saturating_add(blocks.saturating_mul(1024));
        }
    }
    (all > 0).then(|| (swapped as f64 / all as f64 * 100.0).min(100.0))
}

#[cfg(test)]
mod tests;
