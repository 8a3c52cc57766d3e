//! Tasks that do one thing after another and take no time: a job with one gets nowhere.

use std::cell::Cell;

use highwater_workloads::jobs::{Often, Task};

use super::super::RunError;

/// This many operations in a row at one virtual time are an endless loop, because real work takes
/// at least a nanosecond.
const AT_ONCE_MAX: u32 = 100_000;

/// How many operations a copy of a task began at the time at which it began the last one.
#[derive(Default)]
pub(super) struct Idle {
    at_ns: Cell<u64>,
    nr: Cell<u32>,
}

impl Idle {
    /// Begins the next operation. True if so many began at this time that the task makes no
    /// progress.
    pub(super) fn goes_nowhere(&self, now_ns: u64) -> bool {
        if self.at_ns.replace(now_ns) != now_ns {
            self.nr.set(0);
        }
        self.nr.set(self.nr.get() + 1);
        self.nr.get() > AT_ONCE_MAX
    }
}

/// The error of the task of this number and name.
pub(super) fn error(number: usize, name: &str, task: &Task) -> RunError {
    // The place is that of the phase, if it can only be one.
    let endless = |phase: &highwater_workloads::jobs::Phase| phase.often == Often::Forever;
    let path = match task.phases.iter().position(endless) {
        Some(phase) => format!("task.{number}.phase.{phase}.do"),
        None => format!("task.{number}.name"),
    };
    let reason = format!(
        "{name}: {AT_ONCE_MAX} operations in a row took no virtual time, so the job gets nowhere; what it \
         works on may have no pages, or its time may be 0: give it a size, a time, or a rate"
    );
    RunError::At { path, reason, place: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_passes_begins_the_count_again() {
        let idle = Idle::default();
        let asked = |times: u32, now_ns| (0..times).any(|_| idle.goes_nowhere(now_ns));
        assert!(!asked(AT_ONCE_MAX, 7) && !asked(AT_ONCE_MAX, 8));
        assert!(idle.goes_nowhere(8) && !idle.goes_nowhere(9));
    }
}
