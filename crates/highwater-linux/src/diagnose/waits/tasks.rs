//! The tasks of a trace: what each is in the middle of, and what it has waited for.

use std::collections::HashMap;

use highwater_results::import::events::Event;

use super::cause::{Cause, PAIRS};
use super::clock::Clock;
use super::purpose::Purpose;
use super::tally::Tally;

/// Most tasks that are kept. The events of further tasks are counted only.
const TASKS_MAX: usize = 100_000;

/// All tasks.
#[derive(Debug)]
pub(super) struct Tasks {
    pub(super) by_pid: HashMap<i32, Task>,
    pub(super) counts: Counts,
    pub(super) clock: Clock,
    /// Stalls count between these times.
    pub(super) limits: [u64; 2],
}

impl Default for Tasks {
    fn default() -> Tasks {
        let limits = [0, u64::MAX];
        Tasks { by_pid: HashMap::new(), counts: Counts::default(), clock: Clock::default(), limits }
    }
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
    /// Events of reclaim, compaction and congestion: with none, waits for memory are unknown.
    pub nr_memory: u64,
    /// Events of the scheduler: with none, other waits are unknown.
    pub nr_sched: u64,
}

/// One task.
#[derive(Clone, Debug, Default)]
pub(super) struct Task {
    pub(super) comm: String,
    /// Since when and what for, for each of [`PAIRS`].
    open: [Option<(u64, Purpose)>; PAIRS.len()],
    /// The last attempt of compaction.
    attempt: Purpose,
    off_cpu: Option<(State, u64)>,
    pub(super) waits: Vec<Wait>,
}

/// The stalls of a task by one cause.
#[derive(Clone, Debug)]
pub(super) struct Wait {
    pub(super) cause: Cause,
    pub(super) tally: Tally,
    /// The longest.
    pub(super) what: Purpose,
    /// Stalls of which nothing came.
    pub(super) nr_in_vain: u64,
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
        self.clock.take(event);
        let is_of = |starts: &[&str]| starts.iter().any(|start| event.name().starts_with(start));
        self.counts.nr_memory += u64::from(is_of(&[
            "mm_vmscan_",
            "mm_compaction_",
            "writeback_congestion",
            "writeback_wait_iff",
        ]));
        self.counts.nr_sched += u64::from(is_of(&["sched_switch", "sched_stat_"]));
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
                if let Some(task) = self.task(event.pid, &event.comm()) {
                    task.attempt = Purpose::of(event);
                }
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

    /// Begins of stalls without an end: cause, pid, since when, what for.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = (Cause, i32, u64, Purpose)> {
        self.by_pid.iter().flat_map(|(pid, task)| {
            let pairs = PAIRS.iter().zip(&task.open);
            let open = pairs.filter_map(|((_, _, cause), open)| {
                let (since, what) = open.clone()?;
                Some((*cause, *pid, since, what))
            });
            let blocked = task.off_cpu.filter(|(state, _)| *state == State::Blocked);
            let what = Purpose { inside: task.inside(), ..Purpose::default() };
            open.chain(blocked.map(|(_, since)| (Cause::Blocked, *pid, since, what)))
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
        let (now, cause) = (event.time_ns, PAIRS[slot].2);
        let Some(task) = self.task(event.pid, &event.comm()) else { return };
        let before = task.open[slot].take();
        if !is_begin {
            match before {
                Some((since, what)) => {
                    self.record(event.pid, cause, since, now, || what.ended(event));
                }
                None => self.counts.nr_ends_alone += 1,
            }
            return;
        }
        // kswapd wakes once for each request of a higher order.
        let is_awake = cause == Cause::KswapdAwake && before.is_some();
        let is_lost = before.is_some() && !is_awake;
        task.open[slot] = if is_awake {
            before
        } else {
            let what = match cause {
                Cause::Compaction => task.attempt.clone(),
                _ => Purpose::of(event),
            };
            Some((now, what))
        };
        self.counts.nr_begins_alone += u64::from(is_lost);
    }

    /// A delay in microseconds of the current task.
    fn own(&mut self, event: &Event<'_>, cause: Cause, delay_us: Option<u64>) -> Option<()> {
        let delay = delay_us?.saturating_mul(1000);
        if let Some(inside) = self.task(event.pid, &event.comm()).map(|task| task.inside()) {
            self.delayed(event, event.pid, cause, delay, inside);
        }
        Some(())
    }

    /// A delay in nanoseconds of the task that the fields name.
    fn stat(&mut self, event: &Event<'_>, cause: Cause) -> Option<()> {
        let (pid, delay) = (event.number("pid")?, event.number("delay")?);
        let pid = i32::try_from(pid).ok()?;
        let comm = event.text("comm", "pid").unwrap_or_default();
        if self.task(pid, &comm).is_some() {
            self.delayed(event, pid, cause, delay, None);
        }
        Some(())
    }

    /// A stall of this length that ends now. It may have begun before the clock did.
    fn delayed(
        &mut self,
        event: &Event<'_>,
        pid: i32,
        cause: Cause,
        delay: u64,
        inside: Option<Cause>,
    ) {
        let (now, what) = (event.time_ns, || Purpose { inside, ..Purpose::default() });
        match now.checked_sub(delay) {
            Some(since) => self.record(pid, cause, since, now, what),
            None if self.limits == [0, u64::MAX] => {
                if let Some(task) = self.by_pid.get_mut(&pid) {
                    task.add(cause, delay, now, what);
                }
            }
            None => self.record(pid, cause, 0, now, what),
        }
    }

    fn runs(&mut self, pid: i32, comm: &str, now: u64) {
        let Some(task) = self.task(pid, comm) else { return };
        match task.off_cpu.take() {
            Some((State::Runnable, since)) => {
                self.record(pid, Cause::WaitsForCpu, since, now, Purpose::default);
            }
            Some((State::Blocked, since)) => self.blocked(pid, since, now),
            Some((State::Asleep, _)) | None => {}
        }
    }

    fn wakes(&mut self, pid: i32, comm: &str, now: u64) {
        let Some(task) = self.task(pid, comm) else { return };
        match task.off_cpu {
            Some((State::Blocked, since)) => {
                task.off_cpu = Some((State::Runnable, now));
                self.blocked(pid, since, now);
            }
            Some((State::Asleep, _)) => task.off_cpu = Some((State::Runnable, now)),
            Some((State::Runnable, _)) | None => {}
        }
    }

    fn blocked(&mut self, pid: i32, since: u64, now: u64) {
        let inside = self.by_pid.get(&pid).and_then(Task::inside);
        self.record(pid, Cause::Blocked, since, now, || Purpose { inside, ..Purpose::default() });
    }

    fn record(
        &mut self,
        pid: i32,
        cause: Cause,
        since: u64,
        now: u64,
        what: impl FnOnce() -> Purpose,
    ) {
        // Lines of several CPUs are not always in the order of their times.
        if now < since {
            self.counts.nr_backwards += 1;
            return;
        }
        // Only what is within the limits counts; a stall that has no length is a stall there.
        let (begin, end) = (since.max(self.limits[0]), now.min(self.limits[1]));
        let Some(ns) = end.checked_sub(begin) else { return };
        if let Some(task) = self.by_pid.get_mut(&pid) {
            task.add(cause, ns, end, what);
        }
    }
}

impl Task {
    /// The reclaim or compaction that the task is in.
    fn inside(&self) -> Option<Cause> {
        let open = PAIRS.iter().zip(&self.open);
        let mut causes = open.filter(|(_, open)| open.is_some()).map(|((_, _, cause), _)| *cause);
        causes.find(|cause| cause.is_memory())
    }

    fn add(&mut self, cause: Cause, ns: u64, now: u64, what: impl FnOnce() -> Purpose) {
        let at = self.waits.iter().position(|wait| wait.cause == cause).unwrap_or_else(|| {
            let (tally, what) = (Tally::default(), Purpose::default());
            self.waits.push(Wait { cause, tally, what, nr_in_vain: 0 });
            self.waits.len() - 1
        });
        let (wait, what) = (&mut self.waits[at], what());
        wait.nr_in_vain += u64::from(what.is_in_vain() == Some(true));
        if ns >= wait.tally.longest_ns {
            wait.what = what;
        }
        wait.tally.record(ns, now);
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
