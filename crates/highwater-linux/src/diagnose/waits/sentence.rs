//! The answer in one sentence: the task that lost most time for memory, or else for anything.

use highwater_results::words::count;

use super::super::words::time_text;
use super::{Cause, WaitRow, Waits};

/// The sentence.
pub(super) fn of(waits: &Waits) -> String {
    let mut stalled = waits.rows.iter().filter(|row| !row.is_daemon);
    let of_memory = stalled.clone().find(|row| row.cause.is_memory());
    let first = stalled.next();
    let length = length(waits);
    match (of_memory, first) {
        (Some(memory), Some(first)) if std::ptr::eq(memory, first) => {
            format!("{} in {length}.", lost(memory))
        }
        // A task that sleeps to the end of the trace may be why the machine hangs.
        (Some(memory), Some(first)) if is_hung(first) && first.pid != memory.pid => format!(
            "{} in {length}; for memory {} lost most, {} in {}.",
            lost(first),
            name(&memory.comm, memory.pid),
            lost_time(memory),
            memory.cause.text()
        ),
        (Some(memory), Some(first)) => format!(
            "{} in {length}; of all waits, {} lost most: {} in {}.",
            lost(memory),
            name(&first.comm, first.pid),
            lost_time(first),
            first.cause.text()
        ),
        (_, Some(first)) => {
            let memory = match waits.counts.nr_memory {
                0 => {
                    "whether it waited for memory cannot be known, since the text has no vmscan or compaction event"
                }
                _ => "no event says that a task waited for memory",
            };
            format!("{} in {length}; {memory}.", lost(first))
        }
        _ => nothing(waits, &length),
    }
}

fn is_hung(row: &WaitRow) -> bool {
    row.cause == Cause::Blocked && row.open.is_some()
}

fn nothing(waits: &Waits, length: &str) -> String {
    let counts = &waits.counts;
    let cannot = match (counts.nr_memory, counts.nr_sched) {
        (0, _) => "; it has no vmscan or compaction event, so waits for memory cannot be known",
        (_, 0) => "; it has no sched event, so other waits cannot be known",
        _ => "",
    };
    let alone = match counts.nr_ends_alone {
        0 => String::new(),
        nr => format!(
            ", but {} of stalls that began before it, or whose begin was lost",
            count(nr, "end")
        ),
    };
    format!("No task was stalled in {length}{alone}{cannot}.")
}

/// `a trace of 60.1 s`, with its begin if the wall clock is known.
fn length(waits: &Waits) -> String {
    let (first, last) = waits.span_ns.unwrap_or_default();
    let length = time_text(last.saturating_sub(first));
    let what = if waits.is_part { "part of the trace" } else { "trace" };
    let (article, from) = (if waits.is_part { "this" } else { "a" }, waits.clock.text(first));
    if waits.clock.is_wall() || waits.is_part {
        format!("{article} {what} of {length} from {from}")
    } else {
        format!("{article} {what} of {length}")
    }
}

/// `writer-161 lost most time: 3.2 s in direct reclaim (40 times, the longest 900 ms: order 0
/// GFP_KERNEL, reclaimed 32 pages)`.
fn lost(row: &WaitRow) -> String {
    let number = row.tally.number + u64::from(row.open.is_some());
    let vain = match row.nr_in_vain {
        0 => String::new(),
        _ if number == 1 => String::new(),
        nr => format!(", {nr} in vain"),
    };
    let open = row.open.as_ref().filter(|open| open.at_least_ns >= row.tally.longest_ns);
    let what = open.map_or(&row.what, |open| &open.what).text();
    let what = if what.is_empty() { what } else { format!(": {what}") };
    let longest = match (open, number) {
        (Some(_), 1) => format!("not ended when the trace ended{what}"),
        (Some(open), _) => format!(
            "{number} times{vain}, the longest at least {} and not ended when the trace ended{what}",
            time_text(open.at_least_ns)
        ),
        (None, 1) => format!("once{what}"),
        (None, _) => {
            format!("{number} times{vain}, the longest {}{what}", time_text(row.tally.longest_ns))
        }
    };
    let (name, time) = (name(&row.comm, row.pid), lost_time(row));
    format!("{name} lost most time: {time} in {} ({longest})", row.cause.text())
}

/// Time lost; "at least" if a stall has not ended.
pub(super) fn lost_time(row: &WaitRow) -> String {
    let time = time_text(row.lost_ns());
    if row.open.is_some() { format!("at least {time}") } else { time }
}

/// `writer-161`.
pub(super) fn name(comm: &str, pid: i32) -> String {
    // The terminal of a reader must not get control characters.
    let comm: String = comm.chars().filter(|c| !c.is_control()).take(32).collect();
    format!("{comm}-{pid}")
}
