//! Nice values: a task's share of the turns of a CPU.
//!
//! Tasks that compute on one CPU share it by weight. A step of niceness is a factor of 1.25 between
//! weights: it moves about a tenth of a CPU from one task to the other (sched(7)). Here a turn is a
//! slice, and the order of the runqueue decides the order of turns. A task that reaches the head of
//! the queue gets credit for its weight. It runs if the credit makes a whole turn; otherwise it
//! goes to the end and keeps the credit. The heaviest tasks in the queue get a turn each time they
//! reach the head. If all tasks have the same nice value, which is nearly always so, this is first
//! in, first out.
//!
//! Not modelled: niceness does not affect wake-ups. A woken task waits for the end of the current
//! slice, whatever the nice value of the running task.

use std::collections::VecDeque;

use crate::engine::task::TaskIndex;

/// The nice value of a task: from -20 (gives way least) to 19 (most).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Nice(i8);

impl Nice {
    /// Least and most.
    pub const RANGE: std::ops::RangeInclusive<i8> = -20..=19;

    /// A nice value; `None` if out of range.
    pub fn new(nice: i8) -> Option<Nice> {
        Self::RANGE.contains(&nice).then_some(Nice(nice))
    }

    /// The value.
    pub fn value(self) -> i8 {
        self.0
    }

    /// Its weight against others', 1,024 for a nice value of 0.
    fn weight(self) -> u32 {
        let factor = if self.0 < 0 { 1.25 } else { 0.8 };
        let weight = (0..self.0.unsigned_abs()).fold(1024.0_f64, |weight, _| weight * factor);
        weight.round() as u32
    }
}

#[derive(Clone, Copy)]
struct Share {
    weight: u32,
    /// Less than a turn of the heaviest task that it was compared with.
    credit: u32,
}

/// The shares of all tasks.
pub(crate) struct Shares {
    /// By task.
    tasks: Vec<Share>,
    /// All tasks so far had the same nice value.
    is_even: bool,
}

impl Default for Shares {
    fn default() -> Shares {
        Shares { tasks: Vec::new(), is_even: true }
    }
}

impl Shares {
    /// Registers a new task.
    pub(crate) fn begin(&mut self, task: TaskIndex, nice: Nice) {
        self.is_even &= nice == Nice::default();
        let even = Share { weight: Nice::default().weight(), credit: 0 };
        if self.tasks.len() <= task.idx() {
            self.tasks.resize(task.idx() + 1, even);
        }
        self.tasks[task.idx()] = Share { weight: nice.weight(), credit: 0 };
    }

    /// Takes the task whose turn it is out of a runqueue.
    #[inline]
    pub(crate) fn next(&mut self, queue: &mut VecDeque<TaskIndex>) -> Option<TaskIndex> {
        if self.is_even { queue.pop_front() } else { self.deal(queue) }
    }

    #[cold]
    fn deal(&mut self, queue: &mut VecDeque<TaskIndex>) -> Option<TaskIndex> {
        let turn = queue.iter().map(|task| self.tasks[task.idx()].weight).max()?;
        loop {
            let task = queue.pop_front()?;
            let share = &mut self.tasks[task.idx()];
            let credit = share.credit + share.weight;
            if credit >= turn {
                // Credit earned beside heavier tasks is capped below a turn here.
                share.credit = (credit - turn).min(turn - 1);
                return Some(task);
            }
            share.credit = credit;
            queue.push_back(task);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of turns of each task in `nr_turns` turns of one CPU, all of them always
    /// runnable.
    fn turns(nice: &[i8], nr_turns: usize) -> Vec<usize> {
        let mut shares = Shares::default();
        let mut queue = VecDeque::new();
        for (at, &nice) in nice.iter().enumerate() {
            shares.begin(TaskIndex(at as u32), Nice::new(nice).unwrap());
            queue.push_back(TaskIndex(at as u32));
        }
        let mut nr = vec![0; nice.len()];
        for _ in 0..nr_turns {
            let task = shares.next(&mut queue).unwrap();
            nr[task.idx()] += 1;
            queue.push_back(task);
        }
        nr
    }

    #[test]
    fn turns_go_by_weight() {
        assert_eq!(turns(&[0, 0, 0], 300), [100, 100, 100]);
        assert_eq!(turns(&[5, 5], 200), [100, 100]);
        let near = |nr: usize, share: f64, of: usize| (nr as f64 - share * of as f64).abs() <= 2.0;
        let nr = turns(&[0, 5], 10_000);
        let ratio = 1.25_f64.powi(5);
        assert!(near(nr[0], ratio / (ratio + 1.0), 10_000), "{nr:?}");
        let nr = turns(&[-20, 19, 0], 100_000);
        let weights = [-20, 19, 0].map(|nice| f64::from(Nice(nice).weight()));
        let sum: f64 = weights.iter().sum();
        for (nr, weight) in nr.iter().zip(weights) {
            assert!(near(*nr, weight / sum, 100_000), "{nr} of {weight} of {sum}");
        }
    }

    #[test]
    fn a_step_is_a_quarter() {
        assert_eq!(
            [0, 1, -1, 19, -20].map(|nice| Nice(nice).weight()),
            [1024, 819, 1280, 15, 88_818]
        );
        assert_eq!((Nice::new(-21), Nice::new(20)), (None, None));
    }

    #[test]
    fn who_is_alone_runs_however_nice() {
        let mut shares = Shares::default();
        shares.begin(TaskIndex(3), Nice::new(19).unwrap());
        let mut queue = VecDeque::from([TaskIndex(3)]);
        assert_eq!(shares.next(&mut queue), Some(TaskIndex(3)));
        assert_eq!(shares.next(&mut queue), None);
    }
}
