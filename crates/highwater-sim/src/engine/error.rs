//! Ways in which a run can fail.

use std::fmt;

/// A task that waits for an event that will never come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckTask {
    /// The task's name.
    pub name: String,
    /// True for kernel threads and devices, which may wait for ever.
    pub daemon: bool,
    /// The event or lock it waits for.
    pub waits_on: String,
}

impl fmt::Display for StuckTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let daemon = if self.daemon { " (daemon)" } else { "" };
        write!(f, "{}{daemon} waits on {}", self.name, self.waits_on)
    }
}

/// The reason why a run ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// No event is left, and foreground tasks have not ended.
    #[error("deadlock at {now_ns} ns: {}", list(tasks))]
    Deadlock {
        /// Time of the last event.
        now_ns: u64,
        /// Every task that has not ended.
        tasks: Vec<StuckTask>,
    },
    /// Daemons keep waking, but no program made progress for a long time, and none waits for a
    /// time.
    #[error("hung at {now_ns} ns: no program got further since {since_ns} ns: {}", list(tasks))]
    Hung {
        /// Time at which the watch noticed the hang.
        now_ns: u64,
        /// Time of the previous look at the programs.
        since_ns: u64,
        /// Every task that has not ended.
        tasks: Vec<StuckTask>,
    },
    /// Events happen, but time does not pass.
    #[error("livelock: {nr_events} events at {now_ns} ns: {}", list(tasks))]
    Livelock {
        /// The time.
        now_ns: u64,
        /// Number of events, at least.
        nr_events: u64,
        /// Every task that has not ended.
        tasks: Vec<StuckTask>,
    },
    /// The run took longer than its time limit.
    #[error("not done at {limit_ns} ns: {}", list(tasks))]
    TimeLimit {
        /// The limit.
        limit_ns: u64,
        /// Every task that has not ended.
        tasks: Vec<StuckTask>,
    },
    /// The watcher of its progress stopped it.
    #[error("stopped at {now_ns} ns")]
    Stopped {
        /// Time at which the run noticed.
        now_ns: u64,
    },
    /// A task panicked.
    #[error("task {task} panicked at {now_ns} ns: {message}")]
    TaskPanicked {
        /// Its name.
        task: String,
        /// Its local time.
        now_ns: u64,
        /// The panic's message.
        message: String,
    },
}

fn list(tasks: &[StuckTask]) -> String {
    tasks.iter().map(StuckTask::to_string).collect::<Vec<_>>().join("; ")
}
