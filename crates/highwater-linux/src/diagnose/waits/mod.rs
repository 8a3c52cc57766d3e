//! Stalled tasks, for how long and why, from tracepoints as text: ftrace,
//! `trace-cmd report`, `perf script`.
//!
//! | module | holds |
//! |---|---|
//! | `cause` | causes, and the events that say them |
//! | `tasks` | each task while the trace is read: open pairs, off-CPU state, waits |
//! | `tally` | durations of one cause: sums and percentiles |
//! | `purpose` | purpose and outcome of a stall: order, flags, pages reclaimed, status |
//! | `clock` | the trace's clock beside the clock on the wall |
//! | `sentence` | the answer in one sentence |
//! | `text` | the answer as tables and JSON |
//!
//! Begin and end are matched by thread id. A stall that has not ended counts with what the trace
//! shows of it, "at least". Causes overlap: a task that is throttled in direct
//! reclaim is counted under both, and sleeps at the same time.

mod cause;
mod clock;
mod purpose;
mod sentence;
mod tally;
mod tasks;
mod text;

use std::collections::BTreeMap;
use std::path::Path;

use highwater_report::Table;
use highwater_results::import::ImportError;
use highwater_results::import::events::{EventTotals, for_each_event, for_each_event_of};
use serde_json::Value;

use super::window::Window;

pub use cause::Cause;
pub use purpose::Purpose;
pub use tally::Tally;
pub use tasks::Counts;

use clock::Clock;
use tasks::Tasks;

/// The stalls of a trace.
#[derive(Clone, Debug)]
pub struct Waits {
    /// One row for each task and cause, the most lost time first.
    pub rows: Vec<WaitRow>,
    /// All tasks together, by cause.
    pub causes: Vec<CauseRow>,
    /// Stalls that had not ended at the end of the trace, the longest first.
    pub unfinished: Vec<Unfinished>,
    /// Events.
    pub counts: Counts,
    /// Lines of the trace.
    pub totals: EventTotals,
    /// The part of the trace that is asked for, on its clock.
    pub span_ns: Option<(u64, u64)>,
    /// True if that is not the whole trace: stalls are cut at its limits.
    pub is_part: bool,
    clock: Clock,
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
    /// Durations of those that ended.
    pub tally: Tally,
    /// Purpose and outcome of the longest of these.
    pub what: Purpose,
    /// Stalls of which nothing came.
    pub nr_in_vain: u64,
    /// The one that had not ended at the end of the trace.
    pub open: Option<Unfinished>,
}

impl WaitRow {
    /// Time lost, with the stall that has not ended.
    #[must_use]
    pub fn lost_ns(&self) -> u64 {
        let open = self.open.as_ref().map_or(0, |open| open.at_least_ns);
        self.tally.total_ns.saturating_add(open)
    }
}

/// A cause over all tasks that are not daemons.
#[derive(Clone, Debug)]
pub struct CauseRow {
    /// Cause.
    pub cause: Cause,
    /// Number of tasks.
    pub nr_tasks: u64,
    /// Durations of those that ended.
    pub tally: Tally,
    /// Stalls that had not ended.
    pub nr_open: u64,
    /// Time lost, with the stalls that have not ended.
    pub lost_ns: u64,
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
    /// Its purpose.
    pub what: Purpose,
}

impl Waits {
    /// Reads a trace, plain or gzip.
    ///
    /// # Errors
    /// If the file cannot be read, has no event that says who waited, or nothing in the window.
    pub fn read(path: impl AsRef<Path>, window: &Window) -> Result<Waits, ImportError> {
        let path = path.as_ref();
        let file = path.display().to_string();
        Waits::walked(&file, window, |tasks| for_each_event(path, |event| tasks.take(event)))
    }

    /// Parses a trace; `name` stands for it in errors.
    ///
    /// # Errors
    /// If the text has no event that says who waited, or nothing in the window.
    pub fn parse(name: &str, text: &[u8], window: &Window) -> Result<Waits, ImportError> {
        // A reader that outlives the call: the text is shared, not copied for each pass.
        let text: std::sync::Arc<[u8]> = text.into();
        Waits::walked(name, window, |tasks| {
            let reader = std::io::Cursor::new(std::sync::Arc::clone(&text));
            for_each_event_of(name, reader, |event| tasks.take(event))
        })
    }

    fn walked(
        file: &str,
        window: &Window,
        walk: impl Fn(&mut Tasks) -> Result<EventTotals, ImportError>,
    ) -> Result<Waits, ImportError> {
        let mut tasks = Tasks::default();
        let mut totals = walk(&mut tasks)?;
        let mut limits = None;
        // The first pass finds the clock and the limits of the trace.
        if let Some(span) = totals.span_ns.filter(|_| !window.is_all() && tasks.counts.nr_read > 0)
        {
            let found = tasks
                .clock
                .window(window, span)
                .map_err(|problem| ImportError::Format { file: file.to_owned(), problem })?;
            limits = Some(found);
            tasks = Tasks { limits: found, ..Tasks::default() };
            totals = walk(&mut tasks)?;
        }
        Waits::of(file, tasks, totals, limits)
    }

    fn of(
        file: &str,
        tasks: Tasks,
        totals: EventTotals,
        limits: Option<[u64; 2]>,
    ) -> Result<Waits, ImportError> {
        if tasks.counts.nr_read == 0 {
            let problem = format!(
                "none of the {} events in {} lines says who waited; events that do: vmscan (direct_reclaim, \
                 throttled), compaction, sched (switch, stat_blocked)",
                totals.nr_events, totals.nr_lines
            );
            return Err(ImportError::Format { file: file.to_owned(), problem });
        }
        let [from, to] = limits.unwrap_or([0, u64::MAX]);
        let span_ns = totals.span_ns.map(|(first, last)| (first.max(from), last.min(to)));
        let last = span_ns.map_or(0, |(_, last)| last);
        let comm = |pid: i32| {
            let comm = tasks.by_pid.get(&pid).map_or("", |task| task.comm.as_str());
            if comm.is_empty() { "<...>" } else { comm }.to_owned()
        };
        let unfinished = tasks.unfinished().filter(|(_, _, since, _)| *since <= last);
        let unfinished = unfinished.map(|(cause, pid, since_ns, what)| {
            let at_least_ns = last.saturating_sub(since_ns.max(from));
            Unfinished { pid, comm: comm(pid), cause, since_ns, at_least_ns, what }
        });
        let mut unfinished: Vec<Unfinished> = unfinished.collect();
        unfinished.sort_by_key(|it| (std::cmp::Reverse(it.at_least_ns), it.pid, it.cause));
        let mut rows: BTreeMap<(i32, Cause), WaitRow> = BTreeMap::new();
        for (pid, task) in &tasks.by_pid {
            for wait in &task.waits {
                let (cause, tally, what) = (wait.cause, wait.tally.clone(), wait.what.clone());
                let row = WaitRow {
                    tally,
                    what,
                    nr_in_vain: wait.nr_in_vain,
                    ..row(*pid, comm(*pid), cause)
                };
                rows.insert((*pid, cause), row);
            }
        }
        for it in &unfinished {
            let empty = || row(it.pid, it.comm.clone(), it.cause);
            rows.entry((it.pid, it.cause)).or_insert_with(empty).open = Some(it.clone());
        }
        let mut rows: Vec<WaitRow> = rows.into_values().collect();
        let size = |row: &WaitRow| std::cmp::Reverse(row.lost_ns());
        rows.sort_by_key(|row| (row.is_daemon, size(row), row.pid, row.cause));
        let causes = by_cause(&rows);
        let (counts, clock, is_part) = (tasks.counts, tasks.clock, limits.is_some());
        Ok(Waits { rows, causes, unfinished, counts, totals, span_ns, is_part, clock })
    }

    /// The answer in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        sentence::of(self)
    }

    /// Tasks and causes, the longest stalls, causes, daemons.
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

fn row(pid: i32, comm: String, cause: Cause) -> WaitRow {
    let is_daemon = cause::is_daemon(&comm) || cause == Cause::KswapdAwake;
    let (tally, what) = (Tally::default(), Purpose::default());
    WaitRow { pid, comm, cause, is_daemon, tally, what, nr_in_vain: 0, open: None }
}

fn by_cause(rows: &[WaitRow]) -> Vec<CauseRow> {
    let mut causes: BTreeMap<Cause, CauseRow> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.is_daemon) {
        let cause = row.cause;
        let tally = Tally::default();
        let empty = || CauseRow { cause, nr_tasks: 0, tally, nr_open: 0, lost_ns: 0 };
        let own = causes.entry(cause).or_insert_with(empty);
        own.nr_tasks += 1;
        own.nr_open += u64::from(row.open.is_some());
        own.lost_ns = own.lost_ns.saturating_add(row.lost_ns());
        own.tally.merge(&row.tally);
    }
    let mut causes: Vec<CauseRow> = causes.into_values().collect();
    causes.sort_by_key(|row| std::cmp::Reverse(row.lost_ns));
    causes
}

#[cfg(test)]
mod tests;
