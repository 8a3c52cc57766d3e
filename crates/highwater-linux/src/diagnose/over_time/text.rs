//! The answer as tables and JSON, and the words for values.

use highwater_report::{Cell, Layout, Table};
use highwater_results::words::count;
use serde_json::{Value, json};

use super::super::fitted::fitted;
use super::super::words::{kb_text, time_text};
use super::OverTime;
use super::intervals::{Interval, Moment};
use super::pressure::SPANS;
use super::series::Kind;

/// Schema of the JSON form.
const SCHEMA: &str = "highwater.diagnose-over-time/1";
/// Rows of a table; the worst intervals are shown.
const ROWS_MAX: usize = 30;
/// Intervals in JSON.
const JSON_ROWS_MAX: usize = 10_000;

/// Seconds: `45 s`, `0.50 s`.
pub(super) fn seconds(seconds: f64) -> String {
    if seconds.fract().abs() < 1e-9 { format!("{seconds:.0} s") } else { format!("{seconds:.2} s") }
}

/// A moment: its stamp, or seconds since the first row.
pub(super) fn moment(moment: &Moment) -> String {
    match (&moment.stamp, moment.seconds) {
        (Some(stamp), _) => stamp.clone(),
        (None, Some(at)) => seconds(at),
        (None, None) => format!("sample {:.0}", moment.order),
    }
}

/// The same without its date, if the whole text is of one day: `03:00:15`.
pub(super) fn moment_of_day(own: &OverTime, at: &Moment) -> String {
    let text = moment(at);
    let date = |at: &Moment| at.stamp.as_ref()?.split_once(' ').map(|(date, _)| date.to_owned());
    let is_one_day = own.span.as_ref().is_some_and(|[first, last]| {
        date(first).is_some_and(|day| date(last).as_ref() == Some(&day) && text.starts_with(&day))
    });
    match text.split_once(' ') {
        Some((_, time)) if is_one_day => time.to_owned(),
        _ => text,
    }
}

/// Percent: `78%`, `1.5%`.
pub(super) fn percent(value: f64) -> String {
    let tenths = (value * 10.0).round() / 10.0;
    if value < 10.0 && tenths.fract() != 0.0 {
        format!("{tenths}%")
    } else {
        format!("{value:.0}%")
    }
}

/// A value of a kind with its unit.
pub(super) fn value(kind: Kind, value: f64) -> String {
    match kind.unit() {
        "bytes/s" => format!("{}/s", kb_text((value / 1024.0).round() as u64)),
        "bytes" => kb_text((value / 1024.0).round() as u64),
        "tasks" => format!("{}", (value * 10.0).round() / 10.0),
        _ => percent(value),
    }
}

/// The tables, and the remarks below the last.
pub(super) fn tables(own: &OverTime) -> Vec<Table> {
    fitted(&own.sentence(), ROWS_MAX, |nr_rows| {
        let mut tables = vec![readings(own), shortages(own, nr_rows), stalled(own)];
        tables.retain(|table| !table.rows.is_empty());
        if tables.is_empty() {
            tables.push(shortages(own, nr_rows));
        }
        if let Some(last) = tables.last_mut() {
            last.notes.extend(own.notes.iter().cloned());
        }
        tables
    })
}

fn readings(own: &OverTime) -> Table {
    let columns = SPANS.map(|span| format!("last {span}"));
    let columns: Vec<String> = columns.into_iter().chain(["since boot".to_owned()]).collect();
    let title = "One reading of pressure: time that tasks waited";
    let mut table = Table::new(title, &["what"], columns, Layout::Fitted);
    for reading in own.readings.iter().filter(|reading| reading.is_only) {
        let average = |value: Option<f64>| {
            value.map_or(Cell::Missing, |value| Cell::text(format!("{value:.2}%")))
        };
        let mut cells: Vec<Cell> = reading.averages.into_iter().map(average).collect();
        cells.push(
            reading
                .total_us
                .map_or(Cell::Missing, |us| Cell::text(time_text(us.saturating_mul(1000)))),
        );
        table.push(&[reading.kind.text()], cells);
    }
    table
}

fn shortages(own: &OverTime, nr_rows: usize) -> Table {
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
    let nr_others = worst.len().saturating_sub(nr_rows);
    worst.truncate(nr_rows);
    worst.sort_by_key(|(at, _)| *at);
    let columns = ["from", "to", "length", "mean", "peak", "peak at"].map(str::to_owned).to_vec();
    let mut table = Table::new("Shortages", &["what"], columns, Layout::Fitted);
    for (_, it) in worst {
        let cells = vec![
            Cell::text(moment_of_day(own, &it.from)),
            Cell::text(moment_of_day(own, &it.to)),
            it.length_s.map_or(Cell::Missing, |length| Cell::text(seconds(length))),
            Cell::text(value(it.kind, it.mean)),
            Cell::text(value(it.kind, it.peak)),
            Cell::text(moment_of_day(own, &it.peak_at)),
        ];
        table.push(&[it.kind.text()], cells);
    }
    if table.rows.is_empty() {
        table.title = "Shortages: none".to_owned();
    }
    if nr_others > 0 {
        table.notes.push(format!("{} left out", count(nr_others, "milder interval")));
    }
    table
}

fn stalled(own: &OverTime) -> Table {
    let columns = ["stalled", "of", "share"].map(str::to_owned).to_vec();
    let title = "Pressure: time stalled between the first and the last reading";
    let mut table = Table::new(title, &["what"], columns, Layout::Fitted);
    for it in &own.stalled {
        let share = it.of_s.filter(|length| *length > 0.0);
        let share = share.map(|length| it.stalled_ns as f64 / 1e7 / length);
        let cells = vec![
            Cell::text(time_text(it.stalled_ns)),
            it.of_s.map_or(Cell::Missing, |length| Cell::text(seconds(length))),
            share.map_or(Cell::Missing, |share| Cell::text(percent(share))),
        ];
        table.push(&[it.kind.text()], cells);
    }
    table
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
        "readings": own.readings,
        "stalled": own.stalled,
        "swap_io_percent": own.swap_io,
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
        "peak_at": it.peak_at,
        "mean": it.mean,
        "unit": it.kind.unit(),
    })
}
