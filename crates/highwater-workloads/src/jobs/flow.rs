//! The sequence of operations of a phase, for all tasks that work on it.

use std::mem::replace;

use super::pick::Picker;
use super::{Arrivals, Often, Phase, Spacing};
use crate::random::Random;

const NS_PER_SECOND: f64 = 1e9;

/// The operations of a phase, one after the other. Helpers of a task take theirs here too, so that
/// a phase does the same amount of work with and without them.
pub(super) struct Flow {
    picker: Picker,
    clock: Option<Clock>,
    /// Arrival time of the next operation, if it is drawn already.
    next_due_ns: Option<u64>,
    /// A task failed: all others stop.
    is_stopped: bool,
    random: Random,
    begin_ns: u64,
    /// Pages or blocks of one pass.
    pass: u64,
    /// Operations that were taken, and the number of them that have ended.
    count: u64,
    nr_ended: u64,
}

/// An operation that a task took.
pub(super) struct Next {
    /// Its page or block.
    pub(super) at: u64,
    /// Its arrival time, in an open loop.
    pub(super) due_ns: Option<u64>,
}

impl Flow {
    /// Starts a phase. `pass`: its pages or blocks in one pass.
    pub(super) fn new(
        phase: &Phase,
        (picker, pass): (Picker, u64),
        begin_ns: u64,
        random: Random,
    ) -> Flow {
        let clock = phase.arrivals.map(|arrivals| Clock::new(arrivals, begin_ns));
        let (next_due_ns, is_stopped) = (None, false);
        Flow {
            picker,
            clock,
            next_due_ns,
            is_stopped,
            random,
            begin_ns,
            pass,
            count: 0,
            nr_ended: 0,
        }
    }

    /// Stops the phase: no task takes another operation.
    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// True if there are no more operations.
    pub(super) fn is_done(&self, often: Often, now_ns: impl FnOnce() -> u64) -> bool {
        if self.is_stopped {
            return true;
        }
        match often {
            Often::Times(times) => self.count >= times,
            Often::Nanoseconds(ns) => self.count > 0 && now_ns() >= self.end_ns(ns),
            Often::Pass => self.count >= self.pass,
            Often::Passes(passes) => self.count >= (passes * self.pass as f64) as u64,
            Often::Forever => false,
        }
    }

    fn end_ns(&self, ns: u64) -> u64 {
        self.begin_ns.saturating_add(ns)
    }

    /// Arrival time of the next operation. `None` if it would be too late, or in a closed loop. A
    /// task that shares a flow waits for that time first and then asks again. If each task took an
    /// operation first, operations would be taken long before they arrive.
    pub(super) fn due_ns(&mut self, often: Often) -> Option<u64> {
        let (clock, random) = (self.clock.as_mut()?, &mut self.random);
        let due_ns = *self.next_due_ns.get_or_insert_with(|| clock.next(random));
        let is_late = matches!(often, Often::Nanoseconds(ns) if due_ns >= self.end_ns(ns));
        (!is_late).then_some(due_ns)
    }

    /// Takes an operation; `None` if the next would arrive too late.
    pub(super) fn next(&mut self, often: Often) -> Option<Next> {
        let due_ns = self.due_ns(often);
        if self.clock.is_some() && due_ns.is_none() {
            return None;
        }
        self.next_due_ns = None;
        self.count += 1;
        Some(Next { at: self.picker.next(), due_ns })
    }

    /// An operation that was taken has ended.
    pub(super) fn ended(&mut self) {
        self.nr_ended += 1;
    }

    /// Ends the phase of a task that died. Returns the number of arrivals up to `until_ns` that
    /// stay unanswered, including operations that it had taken, and the planned end of the phase. A
    /// closed loop has no arrivals, and a closed loop with a number of operations has no planned
    /// end.
    pub(super) fn left(&mut self, often: Often, until_ns: u64) -> (u64, Option<u64>) {
        self.is_stopped = false;
        let mut end_ns = match often {
            Often::Forever => Some(until_ns),
            Often::Nanoseconds(ns) => Some(self.end_ns(ns).min(until_ns)),
            Often::Times(_) | Often::Pass | Often::Passes(_) => None,
        };
        if self.clock.is_none() {
            return (0, end_ns);
        }
        let is_counted = end_ns.is_none();
        let mut nr = self.count - self.nr_ended;
        while let Some(due_ns) = self.due_ns(often).filter(|&due_ns| due_ns < until_ns) {
            if self.is_done(often, || due_ns) || self.next(often).is_none() {
                break;
            }
            nr += 1;
            if is_counted {
                end_ns = Some(due_ns);
            }
        }
        (nr, end_ns)
    }

    /// Continues with these random numbers.
    pub(super) fn take_random(&mut self, random: Random) {
        self.random = random;
    }

    /// Time at which the phase began.
    pub(super) fn begin_ns(&self) -> u64 {
        self.begin_ns
    }

    /// Returns the task's random numbers, at the end.
    pub(super) fn give_back(&mut self) -> Random {
        replace(&mut self.random, Random::new(0))
    }
}

/// Arrival times of operations.
struct Clock {
    arrivals: Arrivals,
    begin_ns: u64,
    /// Time since the beginning.
    passed_ns: f64,
    count: u64,
}

impl Clock {
    fn new(arrivals: Arrivals, begin_ns: u64) -> Clock {
        Clock { arrivals, begin_ns, passed_ns: 0.0, count: 0 }
    }

    fn next(&mut self, random: &mut Random) -> u64 {
        let mean_ns = NS_PER_SECOND / self.arrivals.rate;
        let gap_ns = match self.arrivals.spacing {
            Spacing::Steady => mean_ns,
            Spacing::Poisson => -libm::log(1.0 - random.fraction()) * mean_ns,
            Spacing::Bursts(n) if self.count.is_multiple_of(n.max(1).into()) => {
                mean_ns * f64::from(n.max(1))
            }
            Spacing::Bursts(_) => 0.0,
        };
        // With even spacing the first operation is due at once.
        if self.count > 0 || self.arrivals.spacing == Spacing::Poisson {
            self.passed_ns += gap_ns;
        }
        self.count += 1;
        self.begin_ns.saturating_add(self.passed_ns as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(spacing: Spacing, count: usize) -> Vec<u64> {
        let mut clock = Clock::new(Arrivals { rate: 1000.0, spacing }, 5);
        let mut random = Random::new(1);
        (0..count).map(|_| clock.next(&mut random)).collect()
    }

    #[test]
    fn a_dead_task_leaves_its_arrivals() {
        let arrivals = Some(Arrivals { rate: 1000.0, spacing: Spacing::Steady });
        let flow = |arrivals| {
            let action = crate::jobs::Action::Sleep { ns: 1 };
            let (often, when) = (Often::Forever, crate::jobs::When::Always);
            let phase = Phase { action, often, arrivals, operation: None, when, depth: 1 };
            let picker = Picker::new(crate::jobs::Pattern::Sequential, 1, 0);
            let mut flow = Flow::new(&phase, (picker, 8), 0, Random::new(1));
            // Three were taken, two ended; then the task died.
            (0..3).for_each(|_| assert!(flow.next(Often::Forever).is_some()));
            (0..2).for_each(|_| flow.ended());
            flow.stop();
            flow
        };
        let ms = 1_000_000;
        let left = |often, until| flow(arrivals).left(often, until * ms);
        // Due at 0, 1, 2 ms and so on: 8 of 10 are not answered.
        assert_eq!(left(Often::Forever, 10), (8, Some(10 * ms)));
        assert_eq!(left(Often::Nanoseconds(6 * ms), 10), (4, Some(6 * ms)));
        assert_eq!(left(Often::Times(5), 10), (3, Some(4 * ms)));
        assert_eq!(left(Often::Pass, 10), (6, Some(7 * ms)));
        assert_eq!(left(Often::Times(50), 10), (8, Some(9 * ms)));
        // A closed loop has no arrivals.
        assert_eq!(flow(None).left(Often::Forever, 10 * ms), (0, Some(10 * ms)));
        assert_eq!(flow(None).left(Often::Times(5), 10 * ms), (0, None));
    }

    #[test]
    fn arrivals_have_their_rate() {
        let ms = 1_000_000;
        assert_eq!(due(Spacing::Steady, 3), [5, 5 + ms, 5 + 2 * ms]);
        assert_eq!(due(Spacing::Bursts(2), 4), [5, 5, 5 + 2 * ms, 5 + 2 * ms]);
        let poisson = due(Spacing::Poisson, 10_000);
        assert!(poisson.windows(2).all(|pair| pair[0] <= pair[1]));
        let seconds = *poisson.last().unwrap() as f64 / 1e9;
        assert!((9.7..10.3).contains(&seconds), "{seconds}");
        let short = poisson.windows(2).filter(|pair| pair[1] - pair[0] < ms).count();
        assert!((6_100..6_550).contains(&short), "1 - 1/e of the gaps: {short}");
    }
}
