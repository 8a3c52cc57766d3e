//! The tasks of a trace: what each is in the middle of, and what it has waited for.

use std::collections::HashMap;

use highwater_results::import::events::Event;

use super::cause::{Cause, PAIRS};
use super::tally::Tally;

/// Most tasks that are kept. The events of further tasks are counted only.
const TASKS_MAX: usize = 100_000;

/// All tasks.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    pub(super) by_pid: HashMap<i32, Task>,
    pub(super) counts: Counts,
}

/// Numbers of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events that say who waited.
    pub nr_read: u64,
    /// Ends whose begin came before the trace, or was lost.
    pub nr_ends_alone: u64,
    /// Begins that were followed by another begin instead of an end.
    pub nr_begins_alone: u64,
    /// Ends with an earlier time than their begin.
    pub nr_backwards: u64,
    /// Events whose fields cannot be read.
    pub nr_unreadable: u64,
    /// Events of tasks beyond the limit.
    pub nr_left_out: u64,
    /// Attempts of compaction (`mm_compaction_try_to_compact_pages`).
    pub nr_compaction_attempts: u64,
}

/// One task.
#[derive(Clone, Debug, Default)]
pub(super) struct Task {
    pub(super) comm: String,
    /// Since when, for each of [`PAIRS`].
    open: [Option<u64>; PAIRS.len()],
    off_cpu: Option<(State, u64)>,
    pub(super) waits: Vec<(Cause, Tally)>,
}

/// Why a task does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runnable,
    /// Uninterruptible sleep.
    Blocked,
    /// Any other sleep: nobody is stalled.
    Asleep,
}

impl Tasks {
    /// Takes an event.
    pub(super) fn take(&mut self, event: &Event<'_>) {
        let now = event.time_ns;
        let pair = |(begin, end, _): &(&str, &str, Cause)| [*begin, *end].contains(&event.name());
        if let Some(slot) = PAIRS.iter().position(pair) {
            self.counts.nr_read += 1;
            let is_begin = PAIRS[slot].0 == event.name();
            self.pair(event, slot, is_begin);
            return;
        }
        let is_read = match event.name() {
            "mm_vmscan_throttled" => {
                let delay = event.number("usect_delayed").or_else(|| event.number("usec_delayed"));
                self.own(event, Cause::throttled(event.word("reason")), delay)
            }
            "writeback_congestion_wait" | "writeback_wait_iff_congested" => {
                self.own(event, Cause::CongestionWait, event.number("usec_delayed"))
            }
            "mm_compaction_try_to_compact_pages" => {
                self.counts.nr_compaction_attempts += 1;
                Some(())
            }
            "sched_stat_blocked" => self.stat(event, Cause::BlockedStat),
            "sched_stat_iowait" => self.stat(event, Cause::IoWait),
            "sched_stat_wait" => self.stat(event, Cause::WaitsForCpuStat),
            "sched_switch" => switch(event).map(|[(from, from_comm), (to, to_comm)]| {
                let state = state_of(event);
                if let Some(task) = self.task(from, &from_comm) {
                    task.off_cpu = Some((state, now));
                }
                self.runs(to, &to_comm, now);
            }),
            "sched_waking" | "sched_wakeup" | "sched_wakeup_new" => {
                woken(event).map(|(pid, comm)| self.wakes(pid, &comm, now))
            }
            _ => return,
        };
        self.counts.nr_read += 1;
        self.counts.nr_unreadable += u64::from(is_read.is_none());
    }

    /// Begins of stalls without an end: cause, pid, since when.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = (Cause, i32, u64)> {
        self.by_pid.iter().flat_map(|(pid, task)| {
            let pairs = PAIRS.iter().zip(&task.open);
            let open = pairs.filter_map(|((_, _, cause), since)| Some((*cause, *pid, (*since)?)));
            let blocked = task.off_cpu.filter(|(state, _)| *state == State::Blocked);
            open.chain(blocked.map(|(_, since)| (Cause::Blocked, *pid, since)))
        })
    }

    /// The task, with its name; `None` for the idle task and for tasks beyond the limit.
    fn task(&mut self, pid: i32, comm: &str) -> Option<&mut Task> {
        if pid <= 0 {
            return None;
        }
        if self.by_pid.len() >= TASKS_MAX && !self.by_pid.contains_key(&pid) {
            self.counts.nr_left_out += 1;
            return None;
        }
        let task = self.by_pid.entry(pid).or_default();
        // The tracer prints `<...>` where it does not know the name.
        let is_name = !comm.is_empty() && comm != "<...>";
        if task.comm != comm && (is_name || task.comm.is_empty()) {
            comm.clone_into(&mut task.comm);
        }
        Some(task)
    }

    fn pair(&mut self, event: &Event<'_>, slot: usize, is_begin: bool) {
        let now = event.time_ns;
        let Some(task) = self.task(event.pid, &event.comm()) else { return };
        let since = if is_begin { task.open[slot].replace(now) } else { task.open[slot].take() };
        match since {
            // kswapd wakes once for each request of a higher order.
            Some(since) if is_begin => {
                if PAIRS[slot].2 == Cause::KswapdAwake {
                    task.open[slot] = Some(since);
                } else {
                    self.counts.nr_begins_alone += 1;
                }
            }
            Some(since) => self.record(event.pid, PAIRS[slot].2, since, now),
            None if !is_begin => self.counts.nr_ends_alone += 1,
            None => {}
        }
    }

    /// A delay in microseconds of the current task.
    fn own(&mut self, event: &Event<'_>, cause: Cause, delay_us: Option<u64>) -> Option<()> {
        let delay = delay_us?.saturating_mul(1000);
        if let Some(task) = self.task(event.pid, &event.comm()) {
            task.add(cause, delay, event.time_ns);
        }
        Some(())
    }

    /// A delay in nanoseconds of the task that the fields name.
    fn stat(&mut self, event: &Event<'_>, cause: Cause) -> Option<()> {
        let (pid, delay) = (event.number("pid")?, event.number("delay")?);
        let pid = i32::try_from(pid).ok()?;
        let comm = event.text("comm", "pid").unwrap_or_default();
        if let Some(task) = self.task(pid, &comm) {
            task.add(cause, delay, event.time_ns);
        }
        Some(())
    }

    fn runs(&mut self, pid: i32, comm: &str, now: u64) {
        let Some(task) = self.task(pid, comm) else { return };
        match task.off_cpu.take() {
            Some((State::Runnable, since)) => self.record(pid, Cause::WaitsForCpu, since, now),
            Some((State::Blocked, since)) => self.record(pid, Cause::Blocked, since, now),
            Some((State::Asleep, _)) | None => {}
        }
    }

    fn wakes(&mut self, pid: i32, comm: &str, now: u64) {
        let Some(task) = self.task(pid, comm) else { return };
        match task.off_cpu {
            Some((State::Blocked, since)) => {
                task.off_cpu = Some((State::Runnable, now));
                self.record(pid, Cause::Blocked, since, now);
            }
            Some((State::Asleep, _)) => task.off_cpu = Some((State::Runnable, now)),
            Some((State::Runnable, _)) | None => {}
        }
    }

    fn record(&mut self, pid: i32, cause: Cause, since: u64, now: u64) {
        // Lines of several CPUs are not always in the order of their times.
        let Some(ns) = now.checked_sub(since) else {
            self.counts.nr_backwards += 1;
            return;
        };
        if let Some(task) = self.by_pid.get_mut(&pid) {
            task.add(cause, ns, now);
        }
    }
}

impl Task {
    fn add(&mut self, cause: Cause, ns: u64, now: u64) {
        match self.waits.iter_mut().find(|(own, _)| *own == cause) {
            Some((_, tally)) => tally.record(ns, now),
            None => {
                let mut tally = Tally::default();
                tally.record(ns, now);
                self.waits.push((cause, tally));
            }
        }
    }
}

/// The tasks before and after a switch. Two forms: `prev_comm=a prev_pid=1 ... ==> next_comm=b
/// next_pid=2`, and `a:1 [120] S ==> b:2 [120]` of trace-cmd and perf.
fn switch(event: &Event<'_>) -> Option<[(i32, String); 2]> {
    if let (Some(from), Some(to)) = (event.word("prev_pid"), event.word("next_pid")) {
        let name = |key: &str, next: &str| event.text(key, next).unwrap_or_default().into_owned();
        return Some([
            (from.parse().ok()?, name("prev_comm", "prev_pid")),
            (to.parse().ok()?, name("next_comm", "next_pid")),
        ]);
    }
    let fields = event.fields();
    let (from, to) = fields.split_once(" ==> ")?;
    Some([short_task(from)?, short_task(to)?])
}

/// The state in which a task leaves its CPU.
fn state_of(event: &Event<'_>) -> State {
    let fields = event.fields();
    let short = || {
        let from = fields.split_once(" ==> ")?.0;
        Some(from.rsplit(' ').next().unwrap_or(""))
    };
    let letter = event.word("prev_state").or_else(short).unwrap_or("");
    match letter.bytes().next() {
        Some(b'R') => State::Runnable,
        Some(b'D') => State::Blocked,
        _ => State::Asleep,
    }
}

/// The task that is woken.
fn woken(event: &Event<'_>) -> Option<(i32, String)> {
    match event.word("pid") {
        Some(pid) => {
            Some((pid.parse().ok()?, event.text("comm", "pid").unwrap_or_default().into_owned()))
        }
        None => short_task(&event.fields()),
    }
}

/// `name:12 [120] ...`
fn short_task(text: &str) -> Option<(i32, String)> {
    let (task, _) = text.split_once(" [")?;
    let (comm, pid) = task.rsplit_once(':')?;
    Some((pid.parse().ok()?, comm.trim().to_owned()))
}
