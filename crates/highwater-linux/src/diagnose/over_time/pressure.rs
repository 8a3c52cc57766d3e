//! Lines of `/proc/pressure`: series over time, time stalled between the first and the last, and
//! the averages of a single reading.

use std::collections::BTreeMap;

use highwater_results::import::vmstat_log::{PressureLine, Resource, Share, VmstatLog};
use serde::Serialize;

use super::Options;
use super::series::{Kind, Sample, Series, scale};

/// Percent of time from which on a wait of some tasks, and of all tasks, counts.
pub(super) const SOME_LIMIT: f64 = 5.0;
pub(super) const FULL_LIMIT: f64 = 1.0;
/// Windows of the averages, in words.
pub(super) const SPANS: [&str; 3] = ["10 s", "60 s", "5 min"];

/// One reading: the kernel's averages up to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reading {
    /// Resource, and some or all tasks.
    pub kind: Kind,
    /// Percent of the last 10, 60 and 300 seconds; `None` for what the text does not have.
    pub averages: [Option<f64>; 3],
    /// Microseconds since boot, or since the cgroup was made.
    pub total_us: Option<u64>,
    /// The stamp of the reading, as printed.
    pub stamp: Option<String>,
    /// True if the text has no other reading of it: its averages are all that is known.
    pub is_only: bool,
}

/// Time stalled between the first and the last reading.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stalled {
    /// Resource, and some or all tasks.
    pub kind: Kind,
    /// Difference of the totals, in nanoseconds.
    pub stalled_ns: u64,
    /// Seconds between the readings; `None` without times.
    pub of_s: Option<f64>,
}

/// All that lines of pressure say.
#[derive(Debug, Default)]
pub(super) struct Pressures<'l> {
    pub(super) series: Vec<Series<'l>>,
    pub(super) readings: Vec<Reading>,
    pub(super) stalled: Vec<Stalled>,
}

impl Kind {
    /// Percent of time from which on pressure of this kind counts.
    pub(super) const fn limit(self) -> f64 {
        if self.is_full() { FULL_LIMIT } else { SOME_LIMIT }
    }
}

impl Reading {
    fn of(kind: Kind, line: &PressureLine, is_only: bool) -> Reading {
        let own = &line.pressure;
        let stamp = line.at.as_ref().map(|at| at.text.clone());
        let averages = [own.avg10, own.avg60, own.avg300];
        Reading { kind, averages, total_us: own.total_us, stamp, is_only }
    }

    /// True if the average of a window is at its limit or above it.
    #[must_use]
    pub fn is_short(&self, span: usize) -> bool {
        self.averages[span].is_some_and(|percent| percent >= self.kind.limit())
    }
}

fn kind(line: &PressureLine) -> Kind {
    match (line.resource, line.pressure.share) {
        (Resource::Memory, Share::Full) => Kind::MemoryFull,
        (Resource::Memory, Share::Some) => Kind::MemorySome,
        (Resource::Io, Share::Full) => Kind::IoFull,
        (Resource::Io, Share::Some) => Kind::IoSome,
        (Resource::Cpu, Share::Full) => Kind::CpuFull,
        (Resource::Cpu, Share::Some) => Kind::CpuPressure,
        (Resource::Irq, _) => Kind::Irq,
        (Resource::Unnamed, Share::Full) => Kind::OtherFull,
        (Resource::Unnamed, Share::Some) => Kind::OtherPressure,
    }
}

/// Everything that the lines say.
pub(super) fn of<'l>(log: &'l VmstatLog, options: &Options) -> Pressures<'l> {
    let has_stamps = scale(log).is_some();
    let has_rows = log.pressures.iter().any(|line| line.row > 0);
    let moment = |at: usize, line: &PressureLine| match &line.at {
        Some(stamp) if has_stamps => stamp.seconds,
        _ if has_rows => line.row.saturating_sub(1) as f64 * options.interval_s,
        _ => at as f64,
    };
    let mut kinds: BTreeMap<Kind, Vec<&PressureLine>> = BTreeMap::new();
    for line in &log.pressures {
        kinds.entry(kind(line)).or_default().push(line);
    }
    let mut found = Pressures::default();
    for (kind, lines) in kinds {
        let has_time = has_stamps || has_rows;
        let mut series = Series { kind, has_time, samples: Vec::new() };
        // Without times each line has its own 10 seconds; with them a line ends an interval.
        if !has_time && lines.len() > 1 {
            for (at, line) in lines.iter().enumerate() {
                let (from, to) = (at as f64, (at + 1) as f64);
                series.push(line, from, to, line.pressure.avg10);
            }
        }
        for (at, pair) in lines.windows(2).enumerate().filter(|_| has_time) {
            let (from, to) = (moment(at, pair[0]), moment(at + 1, pair[1]));
            if to > from {
                // A counter that went back began again: its average of 10 seconds is left.
                let share = waited_us(pair[0], pair[1]).map(|us| us as f64 / 1e4 / (to - from));
                // Reading takes time: a difference may be a little longer than the interval.
                let value = share.map(|percent| percent.min(100.0)).or(pair[1].pressure.avg10);
                series.push(pair[1], from, to, value);
            }
        }
        let is_only = series.samples.is_empty();
        let reading = if is_only { lines.last() } else { lines.first() };
        found.readings.extend(reading.map(|line| Reading::of(kind, line, is_only)));
        found.stalled.extend(stalled(&series, &lines));
        if !is_only {
            found.series.push(series);
        }
    }
    found
}

impl<'l> Series<'l> {
    fn push(&mut self, line: &'l PressureLine, from: f64, to: f64, value: Option<f64>) {
        let Some(value) = value else { return };
        let stamp = line.at.as_ref().filter(|_| self.has_time);
        let is_short = value >= self.kind.limit();
        self.samples.push(Sample { from, to, stamp, value, is_short });
    }
}

fn waited_us(from: &PressureLine, to: &PressureLine) -> Option<u64> {
    to.pressure.total_us?.checked_sub(from.pressure.total_us?)
}

/// The sum of all differences; none if a counter began again, or if the lines may be those of
/// several resources.
fn stalled(series: &Series<'_>, lines: &[&PressureLine]) -> Option<Stalled> {
    let is_unnamed = matches!(series.kind, Kind::OtherFull | Kind::OtherPressure);
    if is_unnamed && !series.has_time {
        return None;
    }
    let (first, last) = (series.samples.first()?, series.samples.last()?);
    let all = lines.windows(2).map(|pair| waited_us(pair[0], pair[1]));
    let us = all.sum::<Option<u64>>()?;
    let of_s = series.has_time.then_some(last.to - first.from);
    Some(Stalled { kind: series.kind, stalled_ns: us.saturating_mul(1000), of_s })
}
