//! Stalled tasks, for how long and why, from tracepoints as text: ftrace,
//! `trace-cmd report`, `perf script`.
//!
//! | module | holds |
//! |---|---|
//! | `cause` | causes, and the events that say them |
//! | `tasks` | each task while the trace is read: open pairs, off-CPU state, waits |
//! | `tally` | durations of one cause: sums and percentiles |
//! | `text` | the answer as a sentence, tables, JSON |
//!
//! Begin and end are matched by thread id. Causes overlap: a task that is throttled in direct
//! reclaim is counted under both, and sleeps at the same time.

mod cause;
mod tally;
mod tasks;
mod text;

use std::collections::BTreeMap;
use std::path::Path;

use highwater_report::Table;
use highwater_results::import::ImportError;
use highwater_results::import::events::{EventTotals, for_each_event};
use serde_json::Value;

pub use cause::Cause;
pub use tally::Tally;
pub use tasks::Counts;

use tasks::Tasks;

/// The stalls of a trace.
#[derive(Clone, Debug)]
pub struct Waits {
    /// One row for each task and cause, the largest sum first.
    pub rows: Vec<WaitRow>,
    /// All tasks together, by cause.
    pub causes: Vec<CauseRow>,
    /// Stalls that had not ended at the end of the trace, the longest first.
    pub unfinished: Vec<Unfinished>,
    /// Events.
    pub counts: Counts,
    /// Lines of the trace.
    pub totals: EventTotals,
}

/// A task and a cause.
#[derive(Clone, Debug)]
pub struct WaitRow {
    /// Thread id.
    pub pid: i32,
    /// Command name.
    pub comm: String,
    /// Cause.
    pub cause: Cause,
    /// True for kswapd, kcompactd and khugepaged, whose work this is.
    pub is_daemon: bool,
    /// Durations.
    pub tally: Tally,
}

/// A cause over all tasks that are not daemons.
#[derive(Clone, Debug)]
pub struct CauseRow {
    /// Cause.
    pub cause: Cause,
    /// Number of tasks.
    pub nr_tasks: u64,
    /// Durations.
    pub tally: Tally,
}

/// A begin without an end.
#[derive(Clone, Debug)]
pub struct Unfinished {
    /// Thread id.
    pub pid: i32,
    /// Command name.
    pub comm: String,
    /// Cause.
    pub cause: Cause,
    /// Begin.
    pub since_ns: u64,
    /// Time from there to the end of the trace: at least that long.
    pub at_least_ns: u64,
}

impl Waits {
    /// Reads a trace, plain or gzip.
    ///
    /// # Errors
    /// If the file cannot be read or has no event that says who waited.
    pub fn read(path: impl AsRef<Path>) -> Result<Waits, ImportError> {
        let path = path.as_ref();
        let mut tasks = Tasks::default();
        let totals = for_each_event(path, |event| tasks.take(event))?;
        Waits::of(&path.display().to_string(), tasks, totals)
    }

    fn of(file: &str, tasks: Tasks, totals: EventTotals) -> Result<Waits, ImportError> {
        if tasks.counts.nr_read == 0 {
            let problem = format!(
                "none of the {} events in {} lines says who waited; events that do: vmscan (direct_reclaim, \
                 throttled), compaction, sched (switch, stat_blocked)",
                totals.nr_events, totals.nr_lines
            );
            return Err(ImportError::Format { file: file.to_owned(), problem });
        }
        let last = totals.span_ns.map_or(0, |(_, last)| last);
        let comm = |pid: i32| tasks.by_pid.get(&pid).map_or("", |task| task.comm.as_str());
        let unfinished = tasks.unfinished().map(|(cause, pid, since_ns)| {
            let at_least_ns = last.saturating_sub(since_ns);
            Unfinished { pid, comm: comm(pid).to_owned(), cause, since_ns, at_least_ns }
        });
        let mut unfinished: Vec<Unfinished> = unfinished.collect();
        unfinished.sort_by_key(|it| (std::cmp::Reverse(it.at_least_ns), it.pid, it.cause));
        let mut rows: Vec<WaitRow> = Vec::new();
        for (pid, task) in tasks.by_pid {
            let comm = if task.comm.is_empty() { "<...>" } else { &task.comm };
            rows.extend(task.waits.into_iter().map(|(cause, tally)| {
                let is_daemon = cause::is_daemon(comm) || cause == Cause::KswapdAwake;
                WaitRow { pid, comm: comm.to_owned(), cause, is_daemon, tally }
            }));
        }
        let size = |row: &WaitRow| std::cmp::Reverse(row.tally.total_ns);
        rows.sort_by_key(|row| (row.is_daemon, size(row), row.pid, row.cause));
        let causes = by_cause(&rows);
        Ok(Waits { rows, causes, unfinished, counts: tasks.counts, totals })
    }

    /// The answer in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        text::sentence(self)
    }

    /// Tasks and causes, causes, unfinished stalls.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        text::tables(self)
    }

    /// The answer as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        text::json(self)
    }
}

fn by_cause(rows: &[WaitRow]) -> Vec<CauseRow> {
    let mut causes: BTreeMap<Cause, CauseRow> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.is_daemon) {
        let cause = row.cause;
        let empty = || CauseRow { cause, nr_tasks: 0, tally: Tally::default() };
        let own = causes.entry(cause).or_insert_with(empty);
        own.nr_tasks += 1;
        own.tally.merge(&row.tally);
    }
    let mut causes: Vec<CauseRow> = causes.into_values().collect();
    causes.sort_by_key(|row| std::cmp::Reverse(row.tally.total_ns));
    causes
}

#[cfg(test)]
mod tests;
