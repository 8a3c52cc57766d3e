//! Samples as series: for each kind of shortage a value over time, and the limit above which it
//! counts.

use highwater_results::import::vmstat_log::{Column, Row, Scale, Stamp, VmstatLog};
use serde::Serialize;

use super::Options;

/// Percent of CPU time in `wa` from which on disks were short.
const IOWAIT_LIMIT: f64 = 20.0;
/// Percent of CPU time in `st` from which on the hypervisor was short of CPUs.
const STOLEN_LIMIT: f64 = 10.0;
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
    /// `cpu.pressure` of a cgroup, full; that of the whole machine is always 0.
    CpuFull,
    /// `/proc/pressure/cpu`, some.
    CpuPressure,
    /// `/proc/pressure/irq`: interrupts took the CPU from tasks.
    Irq,
    /// Pressure of a resource that the text does not name, full.
    OtherFull,
    /// The same, some.
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
            Kind::Cpu | Kind::Stolen | Kind::CpuFull | Kind::CpuPressure | Kind::Irq => {
                Some(Short::Cpus)
            }
            Kind::OtherFull | Kind::OtherPressure => Some(Short::Other),
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
            Kind::CpuFull => "CPUs: all tasks waited",
            Kind::CpuPressure => "CPUs: some tasks waited",
            Kind::Irq => "CPUs: interrupts delayed all tasks",
            Kind::OtherFull => "unnamed: all tasks waited",
            Kind::OtherPressure => "unnamed: some tasks waited",
        }
    }

    /// True if it is a line of pressure.
    #[must_use]
    pub const fn is_pressure(self) -> bool {
        !matches!(self, Kind::Swap | Kind::FreeFloor | Kind::Disk | Kind::Cpu | Kind::Stolen)
    }

    /// True if it is about all tasks that are not idle, and not about at least one.
    #[must_use]
    pub const fn is_full(self) -> bool {
        matches!(
            self,
            Kind::MemoryFull | Kind::IoFull | Kind::CpuFull | Kind::Irq | Kind::OtherFull
        )
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
pub(super) struct Series<'l> {
    pub(super) kind: Kind,
    /// True if the samples have times; else their order is all that is known.
    pub(super) has_time: bool,
    pub(super) samples: Vec<Sample<'l>>,
}

/// A value that holds from one moment to another: seconds, or positions without times.
#[derive(Clone, Debug)]
pub(super) struct Sample<'l> {
    pub(super) from: f64,
    pub(super) to: f64,
    /// The stamp at the end, if the text has one for exactly this moment.
    pub(super) stamp: Option<&'l Stamp>,
    pub(super) value: f64,
    pub(super) is_short: bool,
}

/// The scale of all time stamps, if every sample has one. If only some have, their order is the
/// time: the scales of rows and of lines of pressure must be the same.
pub(super) fn scale(log: &VmstatLog) -> Option<Scale> {
    let rows = log.rows.iter().map(|row| row.at.as_ref());
    let mut all = rows.chain(log.pressures.iter().map(|line| line.at.as_ref()));
    let first = all.next()??.scale;
    all.all(|at| at.is_some_and(|at| at.scale == first)).then_some(first)
}

/// The end of each row, seconds. Rows after a `date` share its stamp: each is an interval later than
/// the one before.
pub(super) fn ends(log: &VmstatLog, options: &Options) -> Vec<f64> {
    let step = step(options);
    let has_stamps = scale(log).is_some();
    let stamp = |row: &Row| row.at.as_ref().filter(|_| has_stamps).map(|at| at.seconds);
    let (mut last, mut nr_later) = (None, 0u32);
    let end = |row: &Row| {
        let at = stamp(row).unwrap_or(row.number as f64 * step);
        nr_later = if last == Some(at) { nr_later.saturating_add(1) } else { 0 };
        last = Some(at);
        at + f64::from(nr_later) * step
    };
    log.rows.iter().map(end).collect()
}

fn step(options: &Options) -> f64 {
    if options.interval_s > 0.0 { options.interval_s } else { 1.0 }
}

/// The series of the rows.
pub(super) fn of_rows<'l>(log: &'l VmstatLog, options: &Options) -> Vec<Series<'l>> {
    let Some(first) = log.rows.first() else { return Vec::new() };
    let step = step(options);
    let has_stamps = scale(log).is_some();
    let stamp = |row: &'l Row| row.at.as_ref().filter(|_| has_stamps);
    let end = |row: &'l Row| stamp(row).map_or(row.number as f64 * step, |at| at.seconds);
    let floor = least_free(log);
    let kinds = [Kind::Swap, Kind::FreeFloor, Kind::Disk, Kind::Cpu, Kind::Stolen];
    let mut series = kinds.map(|kind| Series {
        kind,
        has_time: true,
        samples: Vec::with_capacity(log.rows.len()),
    });
    // The first row of a text that begins in the middle is as long as the second.
    let second = log.rows.get(1).and_then(|row| Some(end(row) - row.since?));
    let length = second.filter(|length| has_stamps && *length > 0.0).unwrap_or(step);
    let mut begin = end(first) - length;
    for (row, to) in log.rows.iter().zip(ends(log, options)) {
        // Later than its stamp: others stand between.
        let is_first = to <= end(row);
        let since = row.since.filter(|_| has_stamps && is_first).unwrap_or(begin);
        // A clock that was set back, or a stamp above several rows: the sample is as long as usual.
        let from = if to > since { since } else { to - step };
        begin = to;
        let stamp = stamp(row).filter(|_| is_first);
        for series in &mut series {
            if let Some((value, is_short)) = judge(row, series.kind, floor, options) {
                series.samples.push(Sample { from, to, stamp, value, is_short });
            }
        }
    }
    series.into()
}

/// The least value of `free`.
pub(super) fn least_free(log: &VmstatLog) -> Option<u64> {
    log.rows.iter().filter_map(|row| row.values.get(Column::Free)).min()
}

/// True if free memory is a small part of all memory that `vmstat` shows; `None` if the row does
/// not say.
fn is_free_low(row: &Row) -> Option<bool> {
    let free = row.values.get(Column::Free)?;
    let others = [Column::Buffers, Column::Cache, Column::Inactive, Column::Active];
    let others = others.into_iter().filter_map(|column| row.values.get(column));
    Some(free < others.fold(free, u64::saturating_add) / FLOOR_PART)
}

/// True for a row that only swaps back in: free memory is not low, and nothing is swapped out.
pub(super) fn is_swapping_back(row: &Row) -> bool {
    let get = |column| row.values.get(column);
    get(Column::SwapOut) == Some(0)
        && get(Column::SwapIn).is_some_and(|pages| pages > 0)
        && is_free_low(row) == Some(false)
}

/// The value of a kind in a row, and whether it counts; `None` if the text does not have it.
pub(super) fn judge(
    row: &Row,
    kind: Kind,
    floor: Option<u64>,
    options: &Options,
) -> Option<(f64, bool)> {
    let get = |column| row.values.get(column);
    let bytes = |units: u64| units.saturating_mul(options.unit_bytes) as f64;
    match kind {
        Kind::Swap => {
            let traffic = get(Column::SwapIn)?.saturating_add(get(Column::SwapOut)?);
            Some((bytes(traffic), traffic > 0 && !is_swapping_back(row)))
        }
        Kind::FreeFloor => {
            let free = get(Column::Free)?;
            let is_least = floor.is_some_and(|least| free <= least.saturating_add(least / 4));
            Some((bytes(free), is_free_low(row)? && is_least))
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
