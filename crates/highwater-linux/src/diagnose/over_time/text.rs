//! The answer as tables and JSON, and the words for values.

use highwater_report::{Cell, Layout, Table};
use highwater_results::import::vmstat_log::{Column, VmstatLog};
use highwater_results::words::count;
use serde_json::{Value, json};

use super::super::words::kb_text;
use super::intervals::{Interval, Moment};
use super::series::{Kind, Series};
use super::{Options, OverTime};

/// Schema of the JSON form.
const SCHEMA: &str = "highwater.diagnose-over-time/1";
/// Rows of a table; the worst intervals are shown.
const ROWS_MAX: usize = 30;
/// Intervals in JSON.
const JSON_ROWS_MAX: usize = 10_000;
/// Less memory than this in KiB makes another unit likely.
const LEAST_MEMORY_KB: u64 = 128 * 1024;

/// Seconds: `45 s`, `0.50 s`.
pub(super) fn seconds(seconds: f64) -> String {
    if seconds.fract().abs() < 1e-9 { format!("{seconds:.0} s") } else { format!("{seconds:.2} s") }
}

/// A moment: its stamp, or seconds since the first row.
pub(super) fn moment(moment: &Moment) -> String {
    match (&moment.stamp, moment.seconds) {
        (Some(stamp), _) => stamp.clone(),
        (None, Some(at)) if at < 1e8 => seconds(at),
        // The stamp of the row before the first is not known.
        (None, Some(_)) => "the beginning".to_owned(),
        (None, None) => format!("sample {:.0}", moment.order + 1.0),
    }
}

/// A value of a kind with its unit.
pub(super) fn value(kind: Kind, value: f64) -> String {
    match kind.unit() {
        "bytes/s" => format!("{}/s", kb_text((value / 1024.0).round() as u64)),
        "bytes" => kb_text((value / 1024.0).round() as u64),
        "tasks" => format!("{}", (value * 10.0).round() / 10.0),
        _ => format!("{value:.0}%"),
    }
}

/// The tables.
pub(super) fn tables(own: &OverTime) -> Vec<Table> {
    let mut worst: Vec<(usize, &Interval)> = own.intervals.iter().enumerate().collect();
    // The worst of each kind are comparable: each kind has its share of the rows.
    let mut rank = vec![0usize; own.intervals.len()];
    for kind in &own.looked_at {
        let mut of_kind: Vec<&(usize, &Interval)> =
            worst.iter().filter(|(_, it)| it.kind == *kind).collect();
        of_kind.sort_by(|a, b| b.1.weight().total_cmp(&a.1.weight()));
        for (place, (at, _)) in of_kind.into_iter().enumerate() {
            rank[*at] = place;
        }
    }
    worst.sort_by_key(|(at, _)| (rank[*at], *at));
    let nr_others = worst.len().saturating_sub(ROWS_MAX);
    worst.truncate(ROWS_MAX);
    worst.sort_by_key(|(at, _)| *at);
    let columns = ["from", "to", "length", "mean", "peak"].map(str::to_owned).to_vec();
    let mut table = Table::new("Shortages", &["what"], columns, Layout::Fitted);
    for (_, it) in worst {
        let cells = vec![
            Cell::text(moment(&it.from)),
            Cell::text(moment(&it.to)),
            it.length_s.map_or(Cell::Missing, |length| Cell::text(seconds(length))),
            Cell::text(value(it.kind, it.mean)),
            Cell::text(value(it.kind, it.peak)),
        ];
        table.push(&[it.kind.text()], cells);
    }
    if table.rows.is_empty() {
        table.title = "Shortages: none".to_owned();
    }
    if nr_others > 0 {
        table.notes.push(format!("{} left out", count(nr_others, "milder interval")));
    }
    table.notes.extend(own.notes.iter().take(ROWS_MAX).cloned());
    vec![table]
}

/// Remarks about the text.
pub(super) fn notes(log: &VmstatLog, options: &Options, series: &[Series]) -> Vec<String> {
    let mut notes = Vec::new();
    if log.nr_averages > 0 {
        let rows = count(log.nr_averages, "row");
        notes.push(format!(
            "{rows} left out: the first of each call of vmstat is an average since boot"
        ));
    }
    if !log.rows.is_empty() && !super::series::has_stamps(log) {
        let step = seconds(options.interval_s);
        notes.push(format!(
            "no time stamps (vmstat -t): rows are taken to be {step} apart, counted from the first"
        ));
    }
    if log.has_no_header {
        notes.push("no header: the usual columns are taken for granted".to_owned());
    }
    let memory = log.rows.iter().map(|row| {
        let parts =
            [Column::Free, Column::Buffers, Column::Cache, Column::Inactive, Column::Active];
        parts.into_iter().filter_map(|column| row.values.get(column)).fold(0, u64::saturating_add)
    });
    if memory.max().is_some_and(|units| units < LEAST_MEMORY_KB) && options.unit_bytes == 1024 {
        notes.push(
            "sizes are taken as KiB, but are small: perhaps vmstat -S M printed MiB".to_owned(),
        );
    }
    let busy = series.iter().any(|series| series.kind == Kind::Cpu);
    if busy && options.cpus.is_none() {
        notes.push(
            "the number of CPUs is not known: CPUs count as short if none is idle and several tasks run"
                .to_owned(),
        );
    }
    if series.iter().any(|series| series.kind == Kind::FreeFloor) {
        notes.push(
            "free memory at its floor alone is no shortage: Linux fills memory with page cache"
                .to_owned(),
        );
    }
    if series.iter().any(|series| !series.has_time) {
        notes.push(
            "pressure without times: percentages are those of the last 10 s (avg10)".to_owned(),
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

/// JSON.
pub(super) fn json(own: &OverTime) -> Value {
    json!({
        "schema": SCHEMA,
        "explanation": own.sentence(),
        "from": own.span.as_ref().map(|span| &span[0]),
        "to": own.span.as_ref().map(|span| &span[1]),
        "length_s": own.length_s,
        "rows_of_vmstat": own.nr_samples[0],
        "lines_of_pressure": own.nr_samples[1],
        "least_free_bytes": own.least_free,
        "looked_at": own.looked_at,
        "intervals": own.intervals.iter().take(JSON_ROWS_MAX).map(interval).collect::<Vec<_>>(),
        "nr_intervals": own.intervals.len(),
        "notes": own.notes,
    })
}

fn interval(it: &Interval) -> Value {
    json!({
        "kind": it.kind,
        "short": it.kind.short(),
        "from": it.from,
        "to": it.to,
        "length_s": it.length_s,
        "samples": it.nr_samples,
        "peak": it.peak,
        "mean": it.mean,
        "unit": it.kind.unit(),
    })
}
