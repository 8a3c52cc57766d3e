//! The answer as tables and JSON.

use highwater_report::{Cell, Layout, Table};
use highwater_results::words::count;
use serde_json::{Value, json};

use super::super::fitted::fitted;
use super::super::words::time_text;
use super::sentence::{self, lost_time, name};
use super::{Tally, Unfinished, WaitRow, Waits};

/// Schema of the JSON form.
const SCHEMA: &str = "highwater.diagnose-waits/1";
/// Rows of a table.
const ROWS_MAX: usize = 30;
/// The longest stalls whose purpose is shown, and rows of daemons.
const FEW: usize = 5;
/// Rows of each list in JSON.
const JSON_ROWS_MAX: usize = 10_000;

/// The tables, and the remarks below the last.
pub(super) fn tables(waits: &Waits) -> Vec<Table> {
    fitted(&sentence::of(waits), ROWS_MAX, |nr_rows| {
        let few = FEW.min(nr_rows);
        let mut tables = vec![stalls(waits, nr_rows), causes(waits, nr_rows), daemons(waits, few)];
        tables[0].notes.extend(longest(waits, few));
        tables.retain(|table| !table.rows.is_empty());
        if tables.is_empty() {
            tables.push(stalls(waits, nr_rows));
        }
        if let Some(last) = tables.last_mut() {
            last.notes.extend(notes(waits));
        }
        tables
    })
}

fn stalls(waits: &Waits, nr_rows: usize) -> Table {
    let rows: Vec<&WaitRow> = waits.rows.iter().filter(|row| !row.is_daemon).collect();
    let title = if rows.is_empty() { "Stalls of tasks: none" } else { "Stalls of tasks" };
    table_of(waits, title, &rows, nr_rows)
}

/// kswapd and the like work while they are awake: nobody waits for that by itself.
fn daemons(waits: &Waits, nr_rows: usize) -> Table {
    let rows: Vec<&WaitRow> = waits.rows.iter().filter(|row| row.is_daemon).collect();
    table_of(waits, "Daemons at work", &rows, nr_rows)
}

fn table_of(waits: &Waits, title: &str, rows: &[&WaitRow], nr_rows: usize) -> Table {
    let columns = ["number", "total", "longest", "p99", "longest ended at"];
    let columns = columns.map(str::to_owned).to_vec();
    let mut table = Table::new(title, &["task", "cause"], columns, Layout::Fitted);
    for row in rows.iter().take(nr_rows) {
        let open = row.open.as_ref().filter(|open| open.at_least_ns >= row.tally.longest_ns);
        let number = row.tally.number + u64::from(row.open.is_some());
        let (longest, at) = match open {
            Some(open) => {
                (format!("at least {}", time_text(open.at_least_ns)), "not ended".to_owned())
            }
            None => (
                time_text(row.tally.longest_ns),
                waits.clock.text_of_day(row.tally.longest_at_ns, waits.span_ns),
            ),
        };
        let cells = vec![
            Cell::number(number as f64, 0),
            Cell::text(lost_time(row)),
            Cell::text(longest),
            row.tally.p99_ns().map_or(Cell::Missing, |ns| Cell::text(time_text(ns))),
            Cell::text(at),
        ];
        table.push(&[&name(&row.comm, row.pid), row.cause.text()], cells);
    }
    let nr_others = rows.len().saturating_sub(nr_rows);
    if nr_others > 0 {
        table.notes.push(format!("{} left out", count(nr_others, "further row")));
    }
    table
}

/// Purpose and outcome of the longest stalls, as remarks: flags are too long for a column.
fn longest(waits: &Waits, nr_max: usize) -> Vec<String> {
    let mut stalls: Vec<(u64, &str, String, &WaitRow)> = Vec::new();
    for row in waits.rows.iter().filter(|row| !row.is_daemon) {
        let open = row.open.as_ref().filter(|open| open.at_least_ns >= row.tally.longest_ns);
        let what = open.map_or(&row.what, |open| &open.what).text();
        let ns = open.map_or(row.tally.longest_ns, |open| open.at_least_ns);
        if !what.is_empty() {
            stalls.push((ns, if open.is_some() { "at least " } else { "" }, what, row));
        }
    }
    stalls.sort_by_key(|(ns, _, _, row)| (std::cmp::Reverse(*ns), row.pid, row.cause));
    let text = |(ns, at_least, what, row): (u64, &str, String, &WaitRow)| {
        let (name, cause) = (name(&row.comm, row.pid), row.cause.text());
        format!("{name}, {at_least}{} in {cause}: {what}", time_text(ns))
    };
    stalls.into_iter().take(nr_max).map(text).collect()
}

fn causes(waits: &Waits, nr_rows: usize) -> Table {
    let columns = ["tasks", "number", "total", "longest ended", "p99"].map(str::to_owned).to_vec();
    let title = "All tasks except daemons, by cause";
    let mut table = Table::new(title, &["cause"], columns, Layout::Fitted);
    for row in waits.causes.iter().take(nr_rows) {
        let at_least = if row.nr_open > 0 { "at least " } else { "" };
        let ended = |ns: Option<u64>| ns.map_or(Cell::Missing, |ns| Cell::text(time_text(ns)));
        let cells = vec![
            Cell::number(row.nr_tasks as f64, 0),
            Cell::number((row.tally.number + row.nr_open) as f64, 0),
            Cell::text(format!("{at_least}{}", time_text(row.lost_ns))),
            ended((row.tally.number > 0).then_some(row.tally.longest_ns)),
            ended(row.tally.p99_ns()),
        ];
        table.push(&[row.cause.text()], cells);
    }
    table
}

fn notes(waits: &Waits) -> Vec<String> {
    let counts = &waits.counts;
    let mut notes = Vec::new();
    if waits.is_part {
        let (first, last) = waits.span_ns.unwrap_or_default();
        let [from, to] = [first, last].map(|ns| waits.clock.text(ns));
        notes.push(format!("stalls are cut at {from} and {to} (--from, --to)"));
    }
    notes.push(
        "causes overlap: a task throttled in direct reclaim is counted under both, and sleeps meanwhile"
            .to_owned(),
    );
    if counts.nr_memory == 0 {
        notes.push("no vmscan or compaction event: waits for memory cannot be known".to_owned());
    }
    if counts.nr_sched == 0 {
        notes.push("no sched_switch or sched_stat event: other waits cannot be known".to_owned());
    }
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
    let span = waits.span_ns;
    let counts = &waits.counts;
    json!({
        "schema": SCHEMA,
        "explanation": sentence::of(waits),
        "first_ns": span.map(|(first, _)| first),
        "last_ns": span.map(|(_, last)| last),
        "is_part": waits.is_part,
        "wall_clock_offset_ns": waits.clock.offset_ns().and_then(|ns| i64::try_from(ns).ok()),
        "tasks": waits.rows.iter().take(JSON_ROWS_MAX).map(row_json).collect::<Vec<_>>(),
        "nr_rows": waits.rows.len(),
        "causes": waits.causes.iter().map(|row| {
            let mut value = tally_json(&row.tally);
            value["cause"] = json!(row.cause);
            value["tasks"] = json!(row.nr_tasks);
            value["not_ended"] = json!(row.nr_open);
            value["lost_ns"] = json!(row.lost_ns);
            value
        }).collect::<Vec<_>>(),
        "unfinished": waits.unfinished.iter().take(JSON_ROWS_MAX).map(unfinished_json).collect::<Vec<_>>(),
        "nr_unfinished": waits.unfinished.len(),
        "events": counts.nr_read,
        "ends_without_begin": counts.nr_ends_alone,
        "begins_without_end": counts.nr_begins_alone,
        "memory_events": counts.nr_memory,
        "sched_events": counts.nr_sched,
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
    value["lost_ns"] = json!(row.lost_ns());
    value["in_vain"] = json!(row.nr_in_vain);
    value["longest"] = json!(row.what);
    value["not_ended"] = row.open.as_ref().map_or(Value::Null, unfinished_json);
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
        "what": it.what,
    })
}
