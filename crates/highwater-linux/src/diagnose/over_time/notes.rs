//! Remarks about the text: what was assumed, what counts as short, what was left out.

use highwater_results::import::vmstat_log::{Column, VmstatLog};
use highwater_results::words::count;

use super::pressure::{FULL_LIMIT, Reading, SOME_LIMIT, SPANS};
use super::series::{self, Kind, Series};
use super::text::{percent, seconds};
use super::{Options, text};

/// Less memory than this in KiB makes another unit likely.
const LEAST_MEMORY_KB: u64 = 128 * 1024;

/// The remarks, those that may change the answer first.
pub(super) fn of(
    log: &VmstatLog,
    options: &Options,
    series: &[Series<'_>],
    readings: &[Reading],
) -> Vec<String> {
    let mut notes = Vec::new();
    let memory = log.rows.iter().map(|row| {
        let parts =
            [Column::Free, Column::Buffers, Column::Cache, Column::Inactive, Column::Active];
        parts.into_iter().filter_map(|column| row.values.get(column)).fold(0, u64::saturating_add)
    });
    if memory.max().is_some_and(|units| units < LEAST_MEMORY_KB) && options.unit_bytes == 1024 {
        notes.push(
            "sizes are taken as KiB, but are small: if vmstat -S M printed them, add --unit M (all sizes are 1024 \
             times as large)"
                .to_owned(),
        );
    }
    average(log, options, &mut notes);
    let has_stamps = series::scale(log).is_some();
    if !log.rows.is_empty() && !has_stamps {
        let step = seconds(options.interval_s);
        notes.push(format!(
            "no time stamps (vmstat -t): rows are taken to be {step} apart, counted from the first"
        ));
    }
    if log.has_no_header {
        notes.push("no header: the usual columns of vmstat are assumed".to_owned());
    }
    of_pressure(series, readings, &mut notes);
    let nr_back = log.rows.iter().filter(|row| series::is_swapping_back(row)).count();
    if nr_back > 0 {
        notes.push(format!(
            "{} with si but without so, while free memory is not low: swapping back in does not count",
            count(nr_back, "row")
        ));
    }
    if series.iter().any(|series| series.kind == Kind::Cpu) && options.cpus.is_none() {
        notes.push(
            "CPUs count as short if none is idle and several tasks run; --cpus N counts r above N"
                .to_owned(),
        );
    }
    let is_at_floor = |series: &Series<'_>| {
        series.kind == Kind::FreeFloor && series.samples.iter().any(|sample| sample.is_short)
    };
    if series.iter().any(is_at_floor) {
        notes.push(
            "free memory at its floor alone is no shortage: Linux fills memory with page cache"
                .to_owned(),
        );
    }
    if let Some(line) = log.first_unreadable {
        let lines = count(log.nr_unreadable, "line");
        notes.push(format!("{lines} not understood, the first is line {line}"));
    }
    if log.nr_left_out > 0 {
        notes.push(format!("{} beyond the limit left out", count(log.nr_left_out, "sample")));
    }
    notes
}

/// The rows that were taken for averages since boot.
fn average(log: &VmstatLog, options: &Options, notes: &mut Vec<String>) {
    let Some(values) = log.first_average else { return };
    let rows = count(log.nr_averages, "row");
    let get = |column| values.get(column).unwrap_or(0);
    let swapped = get(Column::SwapIn).saturating_add(get(Column::SwapOut));
    let row = match swapped {
        0 => String::new(),
        units => {
            let bytes = units.saturating_mul(options.unit_bytes) as f64;
            format!(", swap traffic of {}", text::value(Kind::Swap, bytes))
        }
    };
    notes.push(format!(
        "{rows} left out: the first of each call is taken as the average since boot; vmstat -y prints none, and then \
         it is a sample{row}"
    ));
}

fn of_pressure(series: &[Series<'_>], readings: &[Reading], notes: &mut Vec<String>) {
    if readings.is_empty() {
        return;
    }
    notes.push(format!(
        "pressure counts if some tasks waited {SOME_LIMIT} % of the time or more, all tasks {FULL_LIMIT} %"
    ));
    if series.iter().any(|series| !series.has_time) {
        notes.push(
            "pressure without times: each line is judged by its last 10 s (avg10)".to_owned(),
        );
    }
    if readings.iter().any(|reading| reading.is_only) {
        notes.push(
            "one reading has averages only; a second one some seconds later, with times, shows stalled time"
                .to_owned(),
        );
    }
    let is_unnamed =
        |reading: &Reading| matches!(reading.kind, Kind::OtherFull | Kind::OtherPressure);
    if readings.iter().any(is_unnamed) {
        notes.push(
            "the text does not name the resource of a line of pressure: keep the file's name (memory.pressure), or \
             use grep . /proc/pressure/*"
                .to_owned(),
        );
    }
    // The averages of the first reading are about the time before the log.
    for reading in readings.iter().filter(|reading| !reading.is_only) {
        let before: Vec<String> = (0..SPANS.len())
            .filter(|span| reading.is_short(*span))
            .filter_map(|span| {
                Some(format!("{} of the last {}", percent(reading.averages[span]?), SPANS[span]))
            })
            .collect();
        if !before.is_empty() {
            let what = reading.kind.text();
            notes.push(format!("before the first reading: {what} {}", before.join(", ")));
        }
    }
}
