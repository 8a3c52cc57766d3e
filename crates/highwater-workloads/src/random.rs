//! Random choices of workers.

use highwater_core::units::splitmix;

use crate::xorshift::Xorshift;

/// Workers that choose at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chooser {
    /// A writer.
    Writer = 1,
    /// A reader.
    Reader = 2,
    /// A build.
    Build = 3,
    /// A program of the system.
    Daemon = 4,
    /// A task of a job.
    Job = 5,
}

/// The seed of worker `number` of a kind in a run. Neighbouring run seeds, kinds and numbers give
/// unrelated worker seeds. With a sum, worker 1 of one run would draw the numbers of worker 0 of
/// the next run. Runs that the statistics treat as independent would then be the same except for
/// one worker.
pub const fn worker_seed(run_seed: u64, kind: Chooser, number: u32) -> u64 {
    splitmix(splitmix(splitmix(run_seed) ^ kind as u64) ^ number as u64)
}

/// The seed of a copy of a task of a job.
pub(crate) const fn job_seed(run_seed: u64, task: u32, copy: u32) -> u64 {
    splitmix(worker_seed(run_seed, Chooser::Job, task) ^ copy as u64)
}

/// Uniform numbers from a seed. The seed goes through a mixing step, so that neighbouring seeds give
/// unrelated sequences.
pub(crate) struct Random(Xorshift);

impl Random {
    /// Any seed is valid: the generator's only useless state, 0, does not occur.
    pub(crate) const fn new(seed: u64) -> Self {
        Random(Xorshift::new(splitmix(seed) | 1))
    }

    /// Below `n`, which is not 0.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    /// In [0, 1).
    pub(crate) fn fraction(&mut self) -> f64 {
        const STEPS: u64 = 1 << 53;
        self.below(STEPS) as f64 / STEPS as f64
    }

    /// Puts a list into random order (Fisher and Yates).
    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn shuffling_keeps_everything_and_depends_on_the_seed() {
        let order = |seed| {
            let mut list: Vec<u32> = (0..100).collect();
            Random::new(seed).shuffle(&mut list);
            list
        };
        let mut sorted = order(1);
        assert_eq!(sorted, order(1));
        assert_ne!(sorted, order(2));
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..100));
    }

    #[test]
    fn mixing_has_known_answers() {}

    #[test]
    fn no_two_workers_of_neighbouring_runs_draw_the_same() {
        let mut seeds = BTreeSet::new();
        let mut first_draws = BTreeSet::new();
        let runs = (0..20).chain([u64::MAX - 1, u64::MAX]);
        for run in runs.clone() {
            for number in 0..30 {
                for kind in [Chooser::Writer, Chooser::Reader] {
                    let seed = worker_seed(run, kind, number);
                    seeds.insert(seed);
                    first_draws.insert(Random::new(seed).below(u64::MAX));
                }
            }
        }
        assert_eq!((seeds.len(), first_draws.len()), (22 * 60, 22 * 60));
    }

    #[test]
    fn any_seed_gives_numbers_that_change() {
        // The mixing step turns the last one into 0.
        for seed in [0, 1, u64::MAX, 0x9e37_79b9_7f4a_7c15_u64.wrapping_neg()] {
            let mut random = Random::new(seed);
            let drawn: BTreeSet<u64> = (0..100).map(|_| random.below(u64::MAX)).collect();
            assert_eq!(drawn.len(), 100, "{seed}");
        }
    }
}
