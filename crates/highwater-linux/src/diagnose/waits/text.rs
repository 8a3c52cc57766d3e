//! The answer as a sentence, tables and JSON.

use highwater_report::{Cell, Layout, Table};
use highwater_results::words::count;
use serde_json::{Value, json};

use super::super::words::time_text;
use super::{Tally, Unfinished, WaitRow, Waits};

/// Schema of the JSON form.
const SCHEMA: &str = "highwater.diagnose-waits/1";
/// Rows of a table.
const ROWS_MAX: usize = 30;
/// Rows of the table of unfinished stalls.
const UNFINISHED_MAX: usize = 10;
/// Rows of each list in JSON.
const JSON_ROWS_MAX: usize = 10_000;

/// The sentence: the task that waited longest for memory, or else for anything.
pub(super) fn sentence(waits: &Waits) -> String {
    let stalled = || waits.rows.iter().filter(|row| !row.is_daemon);
    let of_memory = stalled().find(|row| row.cause.is_memory());
    let span = waits.totals.span_ns.map_or(0, |(first, last)| last - first);
    let length = time_text(span);
    let open = waits.unfinished.iter().find(|it| it.cause.is_memory());
    match (of_memory, stalled().next()) {
        (Some(row), Some(first)) if row.cause == first.cause && row.pid == first.pid => {
            format!("{} in a trace of {length}.", stall(row))
        }
        (Some(row), Some(first)) => format!(
            "{} in a trace of {length}; the longest wait of any kind is that of {}, {} in {}.",
            stall(row),
            name(&first.comm, first.pid),
            time_text(first.tally.total_ns),
            first.cause.text()
        ),
        (None, _) if open.is_some() => open.map_or_else(String::new, |it| {
            format!(
                "{} was in {} for at least {} when the trace ended.",
                name(&it.comm, it.pid),
                it.cause.text(),
                time_text(it.at_least_ns)
            )
        }),
        (_, Some(first)) => {
            format!("No task waited for memory; {} in a trace of {length}.", stall(first))
        }
        _ => format!("No stall ended in this trace of {length}."),
    }
}

/// `writer-161 was stalled longest: 3.2 s in direct reclaim (40 times, at most 900 ms)`.
fn stall(row: &WaitRow) -> String {
    format!(
        "{} was stalled longest: {} in {} ({}, at most {})",
        name(&row.comm, row.pid),
        time_text(row.tally.total_ns),
        row.cause.text(),
        count(row.tally.number, "time"),
        time_text(row.tally.longest_ns)
    )
}

fn name(comm: &str, pid: i32) -> String {
    // The terminal of a reader must not get control characters.
    let comm: String = comm.chars().filter(|c| !c.is_control()).take(32).collect();
    format!("{comm}-{pid}")
}

/// The tables.
pub(super) fn tables(waits: &Waits) -> Vec<Table> {
    let mut tables = Vec::new();
    let columns = ["number", "total", "longest", "p99", "longest ended at"];
    let columns = columns.map(str::to_owned).to_vec();
    let labels = ["task", "cause"];
    let mut table = Table::new("Stalls of tasks", &labels, columns, Layout::Fitted);
    for row in waits.rows.iter().take(ROWS_MAX) {
        let mut cells = cells(&row.tally);
        cells.push(Cell::text(format!("{:.6} s", row.tally.longest_at_ns as f64 / 1e9)));
        table.push(&[&name(&row.comm, row.pid), row.cause.text()], cells);
    }
    let nr_others = waits.rows.len().saturating_sub(ROWS_MAX);
    if nr_others > 0 {
        table.notes.push(format!("{} left out", count(nr_others, "further row")));
    }
    table.notes.extend(notes(waits));
    tables.push(table);
    if !waits.causes.is_empty() {
        let columns = ["tasks", "number", "total", "longest", "p99"].map(str::to_owned).to_vec();
        let title = "All tasks except daemons, by cause";
        let mut table = Table::new(title, &["cause"], columns, Layout::Fitted);
        for row in &waits.causes {
            let mut all = vec![Cell::number(row.nr_tasks as f64, 0)];
            all.extend(cells(&row.tally));
            table.push(&[row.cause.text()], all);
        }
        tables.push(table);
    }
    if !waits.unfinished.is_empty() {
        let columns = vec!["since".to_owned(), "at least".to_owned()];
        let title = "Not ended when the trace ended";
        let mut table = Table::new(title, &labels, columns, Layout::Fitted);
        for it in waits.unfinished.iter().take(UNFINISHED_MAX) {
            let since = format!("{:.6} s", it.since_ns as f64 / 1e9);
            let cells = vec![Cell::text(since), Cell::text(time_text(it.at_least_ns))];
            table.push(&[&name(&it.comm, it.pid), it.cause.text()], cells);
        }
        let nr_others = waits.unfinished.len().saturating_sub(UNFINISHED_MAX);
        if nr_others > 0 {
            table.notes.push(format!("{} left out", count(nr_others, "shorter one")));
        }
        tables.push(table);
    }
    tables
}

fn cells(tally: &Tally) -> Vec<Cell> {
    vec![
        Cell::number(tally.number as f64, 0),
        Cell::text(time_text(tally.total_ns)),
        Cell::text(time_text(tally.longest_ns)),
        tally.p99_ns().map_or(Cell::Missing, |ns| Cell::text(time_text(ns))),
    ]
}

fn notes(waits: &Waits) -> Vec<String> {
    let counts = &waits.counts;
    let mut notes = vec![
        "causes overlap: a task throttled in direct reclaim is counted under both, and sleeps meanwhile"
            .to_owned(),
    ];
    let mut add = |number: u64, noun: &str, rest: &str| {
        if number > 0 {
            notes.push(format!("{}{rest}", count(number, noun)));
        }
    };
    add(counts.nr_ends_alone, "end", " without a begin: the trace began later, or lost events");
    add(counts.nr_begins_alone, "begin", " followed by another begin: the end was lost");
    add(counts.nr_backwards, "stall", " with an end before its begin left out");
    add(counts.nr_unreadable, "event", " with unreadable fields left out");
    add(counts.nr_left_out, "event", " of further tasks left out");
    add(counts.nr_compaction_attempts, "attempt", " of direct compaction");
    add(waits.totals.nr_lost_notices, "notice", " that the tracer lost events");
    if let Some(line) = waits.totals.unended_at {
        notes.push(format!("line {line} has no end and is left out"));
    }
    notes
}

/// JSON.
pub(super) fn json(waits: &Waits) -> Value {
    let span = waits.totals.span_ns;
    let counts = &waits.counts;
    json!({
        "schema": SCHEMA,
        "explanation": sentence(waits),
        "first_ns": span.map(|(first, _)| first),
        "last_ns": span.map(|(_, last)| last),
        "tasks": waits.rows.iter().take(JSON_ROWS_MAX).map(row_json).collect::<Vec<_>>(),
        "nr_rows": waits.rows.len(),
        "causes": waits.causes.iter().map(|row| {
            let mut value = tally_json(&row.tally);
            value["cause"] = json!(row.cause);
            value["tasks"] = json!(row.nr_tasks);
            value
        }).collect::<Vec<_>>(),
        "unfinished": waits.unfinished.iter().take(JSON_ROWS_MAX).map(unfinished_json).collect::<Vec<_>>(),
        "nr_unfinished": waits.unfinished.len(),
        "events": counts.nr_read,
        "ends_without_begin": counts.nr_ends_alone,
        "begins_without_end": counts.nr_begins_alone,
        "compaction_attempts": counts.nr_compaction_attempts,
        "notes": notes(waits),
    })
}

fn row_json(row: &WaitRow) -> Value {
    let mut value = tally_json(&row.tally);
    value["comm"] = json!(row.comm);
    value["pid"] = json!(row.pid);
    value["cause"] = json!(row.cause);
    value["is_daemon"] = json!(row.is_daemon);
    value
}

fn tally_json(tally: &Tally) -> Value {
    json!({
        "number": tally.number,
        "total_ns": tally.total_ns,
        "longest_ns": tally.longest_ns,
        "longest_ended_at_ns": tally.longest_at_ns,
        "p99_ns": tally.p99_ns(),
    })
}

fn unfinished_json(it: &Unfinished) -> Value {
    json!({
        "comm": it.comm,
        "pid": it.pid,
        "cause": it.cause,
        "since_ns": it.since_ns,
        "at_least_ns": it.at_least_ns,
    })
}
