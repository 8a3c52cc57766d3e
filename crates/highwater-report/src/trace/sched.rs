//! CPU assignment over time: rows about tasks, converted to switches of CPUs.

use highwater_results::recording::{Happening, Recording, Row};

/// A CPU switches from one task to another; none means that it idles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Switch {
    pub(super) cpu: u16,
    pub(super) prev: Option<u32>,
    /// State of the task that leaves.
    pub(super) state: State,
    pub(super) next: Option<u32>,
}

/// Reasons for which a task leaves its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The task could continue. An idle CPU has this state too.
    Runnable,
    /// The task waits for work.
    Sleeping,
    /// The task waits in the middle of an activity.
    Waiting,
    /// The task has ended.
    Dead,
}

impl State {
    /// The bits of the kernel's `prev_state`.
    pub(super) const fn bits(self) -> i64 {
        match self {
            State::Runnable => 0,
            State::Sleeping => 1,
            State::Waiting => 2,
            State::Dead => 16,
        }
    }

    /// Its letter in ftrace's text.
    pub(super) const fn letter(self) -> char {
        match self {
            State::Runnable => 'R',
            State::Sleeping => 'S',
            State::Waiting => 'D',
            State::Dead => 'X',
        }
    }
}

/// The state of a recording's CPUs as its rows are read.
pub(super) struct Cpus<'a> {
    recording: &'a Recording,
    /// Current task of each CPU.
    current: Vec<Option<u32>>,
    /// For each task: its current CPU, or its last one.
    cpu_of: Vec<u16>,
    /// For each task: its nesting depth of activities.
    depth: Vec<u32>,
}

impl<'a> Cpus<'a> {
    pub(super) fn new(recording: &'a Recording) -> Self {
        let nr_tasks = recording.tasks.len();
        Cpus {
            recording,
            current: vec![None; usize::from(recording.nr_cpus)],
            cpu_of: vec![0; nr_tasks],
            depth: vec![0; nr_tasks],
        }
    }

    /// The CPU of a task, or the one that it had last.
    pub(super) fn cpu_of(&self, task: u32) -> u16 {
        self.cpu_of.get(task as usize).copied().unwrap_or(0)
    }

    /// For each row, the CPU on which its task will run next. A woken task is sent there.
    pub(super) fn targets(recording: &Recording) -> Vec<u16> {
        let mut next = vec![0; recording.tasks.len()];
        let mut targets = vec![0; recording.rows.len()];
        for (at, row) in recording.rows.iter().enumerate().rev() {
            if let Happening::Runs { cpu } = row.what {
                next[row.task as usize] = cpu;
            }
            targets[at] = next[row.task as usize];
        }
        targets
    }

    /// The switch that a row causes, if any.
    pub(super) fn step(&mut self, row: &Row) -> Option<Switch> {
        let task = row.task as usize;
        let role = self.recording.tasks.get(task)?;
        match row.what {
            Happening::Enters { .. } => self.depth[task] += 1,
            Happening::Leaves => self.depth[task] = self.depth[task].saturating_sub(1),
            _ => {}
        }
        if let Happening::Runs { cpu } = row.what {
            self.cpu_of[task] = cpu;
        }
        // An interrupt takes time from the running task, so it is not a switch.
        if role.is_interrupt {
            return None;
        }
        let state = match row.what {
            Happening::Runs { cpu } => {
                let current = self.current.get_mut(usize::from(cpu))?;
                let prev = current.replace(row.task).filter(|&prev| prev != row.task);
                return Some(Switch { cpu, prev, state: State::Runnable, next: Some(row.task) });
            }
            Happening::Preempted => State::Runnable,
            Happening::Waits { is_sleep: true, .. } => State::Sleeping,
            // A daemon waits for work.
            Happening::Waits { .. } if role.is_kernel && self.depth[task] == 0 => State::Sleeping,
            Happening::Waits { .. } => State::Waiting,
            Happening::Ends => State::Dead,
            _ => return None,
        };
        let cpu = self.cpu_of[task];
        let current = self.current.get_mut(usize::from(cpu))?;
        // A task without a CPU, as at the beginning of a recording, leaves none.
        current.take_if(|current| *current == row.task)?;
        Some(Switch { cpu, prev: Some(row.task), state, next: None })
    }
}

#[cfg(test)]
mod tests {
    use highwater_results::recording::RecordedTask;

    use super::*;

    #[test]
    fn cpus_go_from_task_to_idle_to_task() {
        let task = |name: &str, is_interrupt| RecordedTask {
            name: name.to_owned(),
            is_kernel: is_interrupt,
            is_interrupt,
        };
        let mut recording = Recording { nr_cpus: 2, ..Recording::default() };
        recording.tasks = vec![task("a", false), task("b", false), task("irq", true)];
        let rows = [
            (1, Happening::Waits { why: 0, is_sleep: false }),
            (0, Happening::Runs { cpu: 1 }),
            (2, Happening::Runs { cpu: 1 }),
            (2, Happening::Waits { why: 0, is_sleep: false }),
            (0, Happening::Preempted),
            (1, Happening::Runs { cpu: 1 }),
            (0, Happening::Runs { cpu: 0 }),
            (1, Happening::Waits { why: 0, is_sleep: false }),
            (0, Happening::Ends),
        ];
        let rows = (0..).zip(rows).map(|(at_ns, (task, what))| Row { at_ns, task, what });
        recording.rows = rows.collect();
        let mut cpus = Cpus::new(&recording);
        let switches: Vec<_> = recording.rows.iter().filter_map(|row| cpus.step(row)).collect();
        let seen: Vec<_> =
            switches.iter().map(|s| (s.cpu, s.prev, s.state.letter(), s.next)).collect();
        let expected = [
            (1, None, 'R', Some(0)),
            (1, Some(0), 'R', None),
            (1, None, 'R', Some(1)),
            (0, None, 'R', Some(0)),
            (1, Some(1), 'D', None),
            (0, Some(0), 'X', None),
        ];
        assert_eq!(seen, expected);
        assert_eq!(Cpus::targets(&recording), [1, 1, 1, 0, 0, 1, 0, 0, 0]);
    }
}
