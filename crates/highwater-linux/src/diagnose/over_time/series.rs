//! Samples as series: for each kind of shortage a value over time, and the limit above which it
//! counts.

use std::collections::BTreeMap;

use highwater_results::import::vmstat_log::{
    Column, PressureLine, Resource, Row, Share, Stamp, VmstatLog,
};
use serde::Serialize;

use super::Options;

/// Percent of CPU time in `wa` from which on disks were short.
const IOWAIT_LIMIT: f64 = 20.0;
/// Percent of CPU time in `st` from which on the hypervisor was short of CPUs.
const STOLEN_LIMIT: f64 = 10.0;
/// Percent of time in which some tasks, and all tasks, waited.
const SOME_LIMIT: f64 = 5.0;
const FULL_LIMIT: f64 = 1.0;
/// Percent of CPU time that may be idle while CPUs count as busy.
const BUSY_IDLE: u64 = 1;
/// Free memory at its floor: within a quarter of the least, and below this part of all memory that
/// `vmstat` shows.
const FLOOR_PART: u64 = 20;

/// The resource that was short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// `si` and `so`: memory is swapped.
    Swap,
    /// `/proc/pressure/memory`, full.
    MemoryFull,
    /// `/proc/pressure/memory`, some.
    MemorySome,
    /// `free` is at its floor: memory is reclaimed as fast as it is allocated.
    FreeFloor,
    /// `b` and `wa`: tasks wait for disks.
    Disk,
    /// `/proc/pressure/io`, full.
    IoFull,
    /// `/proc/pressure/io`, some.
    IoSome,
    /// `r` above the number of CPUs, or no CPU idle.
    Cpu,
    /// `st`: a hypervisor runs others.
    Stolen,
    /// `/proc/pressure/cpu`, some or full.
    CpuPressure,
    /// Pressure by interrupts, or of a resource that the text does not name.
    OtherPressure,
}

/// The resource that was short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Short {
    /// Memory.
    Memory,
    /// Disks.
    Disks,
    /// CPUs.
    Cpus,
    /// Another.
    Other,
}

impl Kind {
    /// The resource; `None` for what is not a shortage by itself.
    #[must_use]
    pub const fn short(self) -> Option<Short> {
        match self {
            Kind::Swap | Kind::MemoryFull | Kind::MemorySome => Some(Short::Memory),
            Kind::FreeFloor => None,
            Kind::Disk | Kind::IoFull | Kind::IoSome => Some(Short::Disks),
            Kind::Cpu | Kind::Stolen | Kind::CpuPressure => Some(Short::Cpus),
            Kind::OtherPressure => Some(Short::Other),
        }
    }

    /// In words: what the value is.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Kind::Swap => "memory: swap traffic",
            Kind::MemoryFull => "memory: all tasks waited",
            Kind::MemorySome => "memory: some tasks waited",
            Kind::FreeFloor => "free memory at its floor",
            Kind::Disk => "disks: tasks blocked, CPUs idle",
            Kind::IoFull => "disks: all tasks waited",
            Kind::IoSome => "disks: some tasks waited",
            Kind::Cpu => "CPUs: runnable tasks",
            Kind::Stolen => "CPUs: taken by the hypervisor",
            Kind::CpuPressure => "CPUs: some tasks waited",
            Kind::OtherPressure => "other: some tasks waited",
        }
    }

    /// The unit of its values.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Kind::Swap => "bytes/s",
            Kind::FreeFloor => "bytes",
            Kind::Cpu => "tasks",
            _ => "percent",
        }
    }
}

/// A series.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) kind: Kind,
    /// True if the samples have times; else their order is all that is known.
    pub(super) has_time: bool,
    pub(super) samples: Vec<Sample>,
}

/// A value that holds from one moment to another: seconds, or positions without times.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) from: f64,
    pub(super) to: f64,
    /// The stamp at the end, as printed.
    pub(super) stamp: Option<String>,
    pub(super) value: f64,
    pub(super) is_short: bool,
}

/// All series that the text has.
pub(super) fn all(log: &VmstatLog, options: &Options) -> Vec<Series> {
    let mut series = of_rows(log, options);
    series.extend(of_pressure(log, options));
    series.retain(|series| !series.samples.is_empty());
    series
}

/// True if every sample has a time stamp. If only some have, their order is the time: the scales of
/// rows and of lines of pressure must be the same.
pub(super) fn has_stamps(log: &VmstatLog) -> bool {
    log.rows.iter().all(|row| row.at.is_some()) && log.pressures.iter().all(|l| l.at.is_some())
}

fn of_rows(log: &VmstatLog, options: &Options) -> Vec<Series> {
    let Some(first) = log.rows.first() else { return Vec::new() };
    let step = if options.interval_s > 0.0 { options.interval_s } else { 1.0 };
    let has_stamps = has_stamps(log);
    let end = |row: &Row| match &row.at {
        Some(at) if has_stamps => at.seconds,
        _ => row.number as f64 * step,
    };
    let floor = log.rows.iter().filter_map(|row| row.values.get(Column::Free)).min();
    let mut begin = end(first) - step;
    let kinds = [Kind::Swap, Kind::FreeFloor, Kind::Disk, Kind::Cpu, Kind::Stolen];
    let mut series = kinds.map(|kind| Series {
        kind,
        has_time: true,
        samples: Vec::with_capacity(log.rows.len()),
    });
    let (mut last_stamp, mut nr_later) = (None, 0u32);
    for row in &log.rows {
        let at = end(row);
        // Rows after a `date` share its stamp: each is an interval later than the one before.
        nr_later = if last_stamp == Some(at) { nr_later.saturating_add(1) } else { 0 };
        last_stamp = Some(at);
        let to = at + f64::from(nr_later) * step;
        // A clock that was set back: the sample is as long as usual.
        let from = if to > begin { begin } else { to - step };
        begin = to;
        let stamp = row.at.as_ref().filter(|_| has_stamps).map(|at| match nr_later {
            0 => at.text.clone(),
            nr => format!("{} +{}", at.text, super::text::seconds(f64::from(nr) * step)),
        });
        for series in &mut series {
            if let Some((value, is_short)) = judge(row, series.kind, floor, options) {
                let stamp = stamp.clone();
                series.samples.push(Sample { from, to, stamp, value, is_short });
            }
        }
    }
    series.into()
}

/// The value of a kind in a row, and whether it counts; `None` if the text does not have it.
fn judge(row: &Row, kind: Kind, floor: Option<u64>, options: &Options) -> Option<(f64, bool)> {
    let get = |column| row.values.get(column);
    let bytes = |units: u64| units.saturating_mul(options.unit_bytes) as f64;
    match kind {
        Kind::Swap => {
            let traffic = get(Column::SwapIn)?.saturating_add(get(Column::SwapOut)?);
            Some((bytes(traffic), traffic > 0))
        }
        Kind::FreeFloor => {
            let free = get(Column::Free)?;
            let others = [Column::Buffers, Column::Cache, Column::Inactive, Column::Active];
            let others = others.into_iter().filter_map(get).fold(0, u64::saturating_add);
            let is_low = free < others.saturating_add(free) / FLOOR_PART;
            Some((bytes(free), is_low && floor.is_some_and(|least| free <= least + least / 4)))
        }
        Kind::Disk => {
            let (blocked, wait) = (get(Column::Blocked)?, get(Column::IoWait)? as f64);
            Some((wait, blocked > 0 && wait >= IOWAIT_LIMIT))
        }
        Kind::Cpu => {
            let runnable = get(Column::Runnable)?;
            let is_short = match options.cpus {
                Some(cpus) => runnable > u64::from(cpus),
                // More than one task, and no CPU is left for it.
                None => {
                    let idle = get(Column::Idle)?.saturating_add(get(Column::IoWait).unwrap_or(0));
                    runnable > 1 && idle <= BUSY_IDLE
                }
            };
            Some((runnable as f64, is_short))
        }
        Kind::Stolen => {
            let stolen = get(Column::Stolen)? as f64;
            Some((stolen, stolen >= STOLEN_LIMIT))
        }
        _ => None,
    }
}

fn of_pressure(log: &VmstatLog, options: &Options) -> Vec<Series> {
    let mut lines: BTreeMap<(Kind, Share), Vec<&PressureLine>> = BTreeMap::new();
    for line in &log.pressures {
        let share = line.pressure.share;
        let kind = match (line.resource, share) {
            (Resource::Memory, Share::Full) => Kind::MemoryFull,
            (Resource::Memory, Share::Some) => Kind::MemorySome,
            (Resource::Io, Share::Full) => Kind::IoFull,
            (Resource::Io, Share::Some) => Kind::IoSome,
            // The whole machine never waits for CPUs as a whole.
            (Resource::Cpu, Share::Some) => Kind::CpuPressure,
            (Resource::Irq | Resource::Unnamed, _) => Kind::OtherPressure,
            (Resource::Cpu, Share::Full) => continue,
        };
        lines.entry((kind, share)).or_default().push(line);
    }
    let has_stamps = has_stamps(log);
    let has_rows = log.pressures.iter().any(|line| line.row > 0);
    let of_one = |((kind, share), lines): ((Kind, Share), Vec<&PressureLine>)| {
        let limit = if share == Share::Full { FULL_LIMIT } else { SOME_LIMIT };
        let mut series = Series { kind, has_time: has_stamps || has_rows, samples: Vec::new() };
        let moment = |at: usize, line: &PressureLine| match &line.at {
            Some(Stamp { seconds, .. }) if has_stamps => *seconds,
            _ if has_rows => line.row.saturating_sub(1) as f64 * options.interval_s,
            _ => at as f64,
        };
        for (at, pair) in lines.windows(2).enumerate() {
            let (from, to) = (moment(at, pair[0]), moment(at + 1, pair[1]));
            let totals = pair[0].pressure.total_us.zip(pair[1].pressure.total_us);
            // A counter that went back began again: its average of 10 seconds is left.
            let waited = totals.and_then(|(from, to)| to.checked_sub(from));
            let is_timed = series.has_time && to > from;
            let share = waited.filter(|_| is_timed).map(|us| us as f64 / 1e4 / (to - from));
            // Reading takes time: a difference may be a little longer than the interval.
            let value = share.map(|percent| percent.min(100.0)).or(pair[1].pressure.avg10);
            if let Some(value) = value
                && (is_timed || !series.has_time)
            {
                let stamp = pair[1].at.as_ref().filter(|_| has_stamps).map(|at| at.text.clone());
                let is_short = value >= limit;
                series.samples.push(Sample { from, to, stamp, value, is_short });
            }
        }
        series
    };
    lines.into_iter().map(of_one).collect()
}
