//! Rolling digest of a run, and the search for the first event in which two runs differ.
//!
//! A [`Digest`] folds every event (virtual time and one word) into 64 bits and keeps the value at
//! every `2^k`-th event. Two runs that differ once differ in every later checkpoint (up to a hash
//! collision). So a binary search over the checkpoints finds the interval of the first difference.
//! A second run that records that interval shows the event itself: [`first_divergence`].

use std::fmt;

/// One folded event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Position in the run, from 0.
    pub index: u64,
    /// Virtual time.
    pub time_ns: u64,
    /// The event, as the simulation encodes it.
    pub word: u64,
}

/// The checkpoints and events that a digest keeps besides its rolling value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestPlan {
    /// A checkpoint is kept every `2^checkpoint_bits` events.
    pub checkpoint_bits: u32,
    /// Events with `record_from <= index < record_to` are kept whole.
    pub record_from: u64,
    /// End of the recorded interval.
    pub record_to: u64,
}

impl Default for DigestPlan {
    /// A checkpoint every 65,536 events, nothing recorded.
    fn default() -> Self {
        DigestPlan { checkpoint_bits: 16, record_from: 0, record_to: 0 }
    }
}

/// Rolling 64-bit digest of a sequence of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    hash: u64,
    nr_events: u64,
    plan: DigestPlan,
    checkpoints: Vec<u64>,
    recorded: Vec<Event>,
}

const SEED: u64 = 0xcbf2_9ce4_8422_2325;
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl Default for Digest {
    fn default() -> Self {
        Self::new(DigestPlan::default())
    }
}

impl Digest {
    /// An empty digest.
    pub fn new(plan: DigestPlan) -> Self {
        Digest { hash: SEED, nr_events: 0, plan, checkpoints: Vec::new(), recorded: Vec::new() }
    }

    /// Folds one event in.
    #[inline]
    pub fn fold(&mut self, time_ns: u64, word: u64) {
        let index = self.nr_events;
        if index >= self.plan.record_from && index < self.plan.record_to {
            self.recorded.push(Event { index, time_ns, word });
        }
        // Multiplying by an odd number and rotating are invertible, so two states that differ stay
        // different for as long as the events are equal.
        let hash = (self.hash ^ time_ns).wrapping_mul(MULTIPLIER).rotate_left(29);
        self.hash = (hash ^ word).wrapping_mul(MULTIPLIER).rotate_left(29);
        self.nr_events = index + 1;
        if self.nr_events.trailing_zeros() >= self.plan.checkpoint_bits {
            self.checkpoints.push(self.hash);
        }
    }

    /// The digest of everything so far.
    pub fn value(&self) -> u64 {
        // A last mix, so that the low bits depend on all bits.
        let mixed = (self.hash ^ (self.hash >> 32)).wrapping_mul(MULTIPLIER) ^ self.nr_events;
        mixed ^ (mixed >> 29)
    }

    /// Number of events folded.
    pub fn nr_events(&self) -> u64 {
        self.nr_events
    }

    /// The rolling value after every `2^checkpoint_bits`-th event.
    pub fn checkpoints(&self) -> &[u64] {
        &self.checkpoints
    }

    /// The events of the recorded interval.
    pub fn recorded(&self) -> &[Event] {
        &self.recorded
    }
}

/// The first difference of two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// Position of the first event that differs.
    pub index: u64,
    /// That event in one run; `None` if the run had ended.
    pub left: Option<Event>,
    /// The same position in the other run.
    pub right: Option<Event>,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |event: Option<Event>| match event {
            Some(e) => format!("{:#018x} at {} ns", e.word, e.time_ns),
            None => "end of run".to_owned(),
        };
        let (left, right) = (side(self.left), side(self.right));
        write!(f, "event {}: {left} in one run, {right} in the other", self.index)
    }
}

/// Result of comparing two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Same digest.
    Equal,
    /// The first event that differs.
    Diverged(Divergence),
    /// The runs differ, but at another event each time; this many pairs were tried.
    Unstable {
        /// Pairs of runs made.
        pairs: u32,
    },
}

/// Pairs of runs made before the search gives up on a workload whose divergence moves each time.
const PAIRS_MAX: u32 = 16;

/// Runs twice and finds the first event in which the two runs differ.
///
/// `run` makes a run whose engine uses the given plan and returns its digest. The first pair only
/// keeps checkpoints. If they differ, further pairs record the interval of the first difference. A
/// divergence by chance may come earlier or later the next time; the interval then moves along.
pub fn first_divergence(mut run: impl FnMut(DigestPlan) -> Digest) -> Comparison {
    let mut plan = DigestPlan { checkpoint_bits: 10, ..DigestPlan::default() };
    let mut differed = false;
    for pair in 0..PAIRS_MAX {
        let (left, right) = (run(plan), run(plan));
        if left.value() == right.value() {
            if pair == 0 {
                return Comparison::Equal;
            }
            // This pair happens to agree; the next one may not.
            continue;
        }
        differed = true;
        let interval = first_bad_interval(left.checkpoints(), right.checkpoints());
        let from = (interval as u64) << plan.checkpoint_bits;
        if plan.record_from == from && plan.record_to > from {
            return Comparison::Diverged(first_difference(from, &left, &right));
        }
        plan.record_from = from;
        plan.record_to = from + (1 << plan.checkpoint_bits);
    }
    debug_assert!(differed);
    Comparison::Unstable { pairs: PAIRS_MAX }
}

/// Index of the first checkpoint that differs (or is missing on one side): the interval of the
/// first difference.
fn first_bad_interval(left: &[u64], right: &[u64]) -> usize {
    let common = left.len().min(right.len());
    let (mut good, mut bad) = (0, common);
    // Everything before `good` agrees; `bad` is the first known not to, or the end.
    while good < bad {
        let middle = good + (bad - good) / 2;
        if left[middle] == right[middle] {
            good = middle + 1;
        } else {
            bad = middle;
        }
    }
    good
}

fn first_difference(from: u64, left: &Digest, right: &Digest) -> Divergence {
    let (left, right) = (left.recorded(), right.recorded());
    let same = left.iter().zip(right).take_while(|(l, r)| l == r).count();
    Divergence {
        index: from + same as u64,
        left: left.get(same).copied(),
        right: right.get(same).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of `len` events in which event `odd` (if any) is disturbed.
    fn fake_run(plan: DigestPlan, len: u64, odd: Option<u64>) -> Digest {
        let mut digest = Digest::new(plan);
        for i in 0..len {
            digest.fold(i * 10, if odd == Some(i) { 0xbad } else { i });
        }
        digest
    }

    #[test]
    fn known_answer() {
        // Pins the function: recorded digests must stay valid across versions.
        assert_eq!(fake_run(DigestPlan::default(), 1000, None).value(), KNOWN);
        assert_ne!(fake_run(DigestPlan::default(), 1000, Some(999)).value(), KNOWN);
        assert_ne!(fake_run(DigestPlan::default(), 1000, Some(0)).value(), KNOWN);
    }
    const KNOWN: u64 = 1_602_763_685_987_583_710;

    #[test]
    fn equal_runs_are_equal() {
        assert_eq!(first_divergence(|plan| fake_run(plan, 5000, None)), Comparison::Equal);
    }

    #[test]
    fn finds_the_disturbed_event_anywhere() {
        for odd in [0, 1, 1023, 1024, 1025, 70_000, 99_999] {
            let mut nr_runs = 0;
            let found = first_divergence(|plan| {
                nr_runs += 1;
                fake_run(plan, 100_000, (nr_runs % 2 == 0).then_some(odd))
            });
            let Comparison::Diverged(divergence) = found else { panic!("{found:?}") };
            assert_eq!(divergence.index, odd);
            assert_eq!(divergence.right.map(|e| e.word), Some(0xbad));
            assert_eq!(divergence.left.map(|e| e.word), Some(odd));
            assert_eq!(nr_runs, 4);
        }
    }

    #[test]
    fn a_shorter_run_diverges_at_its_end() {
        let mut nr_runs = 0;
        let found = first_divergence(|plan| {
            nr_runs += 1;
            fake_run(plan, if nr_runs % 2 == 0 { 3000 } else { 4000 }, None)
        });
        let Comparison::Diverged(divergence) = found else { panic!("{found:?}") };
        assert_eq!((divergence.index, divergence.right), (3000, None));
    }

    #[test]
    fn divergence_that_moves_is_reported_as_unstable() {
        let mut nr_runs = 0;
        let found = first_divergence(|plan| {
            nr_runs += 1;
            fake_run(plan, 100_000, Some(nr_runs * 1024))
        });
        assert_eq!(found, Comparison::Unstable { pairs: PAIRS_MAX });
    }
}
