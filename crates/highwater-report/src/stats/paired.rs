//! A paired bootstrap over seeds: how far a change would move if other seeds had been run.
//!
//! Samples of one seed depend on each other (one stall of a machine delays many), and the same seed
//! runs under every policy. Resampling therefore draws seeds first, the same ones for both runs,
//! then samples within each drawn seed. The interval uses plain percentiles, because a correction
//! for skew would depend on the few samples that cause the skew.
//!
//! Key types: [`Paired`] (settings), [`SeedPair`] (the samples of one seed), [`Robust`] (the
//! figures that are compared).

use super::bootstrap::{SplitMix64, resamples};
use super::quantile::interpolated;

/// Settings of a paired bootstrap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paired {
    /// Resamples to draw.
    pub nr_resamples: usize,
    /// Share of replicates inside an interval: 0.95.
    pub confidence: f64,
    /// Seed of the generator.
    pub seed: u64,
}

/// The samples of one seed under both policies, best first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeedPair {
    /// Samples of the baseline.
    pub before: Vec<f64>,
    /// Samples of the other run.
    pub after: Vec<f64>,
}

/// A figure of a sample set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Robust {
    /// Arithmetic mean: one sample can decide it.
    Mean,
    /// Mean of this percentage of the best samples.
    BestMean(u8),
    /// The sample that this percentage of the samples does not exceed, without interpolation.
    Percentile(u8),
}

/// A change and its confidence limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangeInterval {
    /// The change of the samples themselves.
    pub point: f64,
    /// The baseline's figure.
    pub before: f64,
    /// The other run's.
    pub after: f64,
    /// The limits; none if there is nothing to resample.
    pub limits: Option<(f64, f64)>,
}

impl Default for Paired {
    fn default() -> Self {
        Paired { nr_resamples: 1000, confidence: 0.95, seed: 0x5061_6972_6564_3031 }
    }
}

impl Paired {
    /// The change of each figure, `change(before, after)`, with its interval. None for a figure
    /// that is undefined, or if no seed has samples of both runs.
    pub fn changes(
        &self,
        seeds: &[SeedPair],
        figures: &[Robust],
        change: impl Fn(f64, f64) -> f64,
    ) -> Vec<Option<ChangeInterval>> {
        let seeds: Vec<&SeedPair> =
            seeds.iter().filter(|s| !s.before.is_empty() && !s.after.is_empty()).collect();
        if seeds.is_empty() {
            return vec![None; figures.len()];
        }
        let mut before = Pool::new(seeds.iter().map(|seed| &seed.before[..]));
        let mut after = Pool::new(seeds.iter().map(|seed| &seed.after[..]));
        before.take_all();
        after.take_all();
        let points: Vec<(f64, f64)> =
            figures.iter().map(|&f| (before.figure(f), after.figure(f))).collect();
        let nr_samples = before.values.len() + after.values.len();
        let mut random = SplitMix64::new(self.seed);
        let mut replicates: Vec<Vec<f64>> = vec![Vec::new(); figures.len()];
        for _ in 0..resamples(self.nr_resamples, nr_samples) {
            let times = draw_seeds(seeds.len(), &mut random);
            before.draw(&times, &mut random);
            after.draw(&times, &mut random);
            for (&figure, replicates) in figures.iter().zip(&mut replicates) {
                replicates.push(change(before.figure(figure), after.figure(figure)));
            }
        }
        let interval = |(point, replicates)| self.interval(point, &change, replicates);
        points.into_iter().zip(replicates).map(interval).collect()
    }

    /// The change of the mean of a figure with one number per seed, before and after; only seeds
    /// are resampled. None without seeds or if the change is undefined; no limits with only one
    /// seed.
    pub fn change_of_means(
        &self,
        seeds: &[(f64, f64)],
        change: impl Fn(f64, f64) -> f64,
    ) -> Option<ChangeInterval> {
        let n = seeds.len() as f64;
        let drawn = |times: &[usize]| {
            let (mut before, mut after) = (0.0, 0.0);
            for (seed, &times) in seeds.iter().zip(times) {
                before += seed.0 * times as f64;
                after += seed.1 * times as f64;
            }
            (before / n, after / n)
        };
        let of_drawn = |times: &[usize]| {
            let (before, after) = drawn(times);
            change(before, after)
        };
        let point = drawn(&vec![1; seeds.len()]);
        let mut random = SplitMix64::new(self.seed);
        let nr_replicates = if seeds.len() > 1 { self.nr_resamples } else { 0 };
        let replicates =
            (0..nr_replicates).map(|_| of_drawn(&draw_seeds(seeds.len(), &mut random))).collect();
        self.interval(point, &change, replicates)
    }

    /// Percentiles of the replicates around a point.
    fn interval(
        &self,
        (before, after): (f64, f64),
        change: impl Fn(f64, f64) -> f64,
        mut replicates: Vec<f64>,
    ) -> Option<ChangeInterval> {
        let point = change(before, after);
        replicates.retain(|replicate| replicate.is_finite());
        replicates.sort_by(f64::total_cmp);
        let tail = (1.0 - self.confidence) / 2.0;
        let limit = |share: f64| interpolated(&replicates, share);
        let limits = limit(tail).zip(limit(1.0 - tail));
        point.is_finite().then_some(ChangeInterval { point, before, after, limits })
    }
}

/// Draws as many seeds as there are, and counts how often each is drawn.
fn draw_seeds(nr_seeds: usize, random: &mut SplitMix64) -> Vec<usize> {
    let mut times = vec![0; nr_seeds];
    for _ in 0..nr_seeds {
        times[random.below(nr_seeds)] += 1;
    }
    times
}

/// All samples of a run, best first, with the count of each in the current resample.
struct Pool {
    values: Vec<f64>,
    /// For each seed, the positions of its samples in `values`.
    of_seed: Vec<Vec<u32>>,
    times: Vec<u32>,
    nr_taken: u64,
}

impl Pool {
    /// Builds the pool from samples that are ordered within each seed, all in the same direction.
    fn new<'a>(seeds: impl Iterator<Item = &'a [f64]>) -> Self {
        let mut all: Vec<(f64, usize)> = Vec::new();
        let mut of_seed = Vec::new();
        let mut falls = false;
        for (seed, values) in seeds.enumerate() {
            falls |= values.first() > values.last();
            all.extend(values.iter().map(|&value| (value, seed)));
            of_seed.push(Vec::with_capacity(values.len()));
        }
        all.sort_by(|a, b| if falls { b.0.total_cmp(&a.0) } else { a.0.total_cmp(&b.0) });
        for (at, (_, seed)) in all.iter().enumerate() {
            of_seed[*seed].push(at as u32);
        }
        let values: Vec<f64> = all.into_iter().map(|(value, _)| value).collect();
        Pool { times: vec![0; values.len()], values, of_seed, nr_taken: 0 }
    }

    /// Counts each sample once.
    fn take_all(&mut self) {
        self.times.fill(1);
        self.nr_taken = self.values.len() as u64;
    }

    /// Draws from each seed as many samples as it has, once for each time that the seed was drawn.
    fn draw(&mut self, times: &[usize], random: &mut SplitMix64) {
        self.times.fill(0);
        self.nr_taken = 0;
        for (samples, &times) in self.of_seed.iter().zip(times) {
            for _ in 0..times * samples.len() {
                self.times[samples[random.below(samples.len())] as usize] += 1;
            }
            self.nr_taken += (times * samples.len()) as u64;
        }
    }

    fn figure(&self, figure: Robust) -> f64 {
        match figure {
            Robust::Mean => self.best_mean(self.nr_taken),
            Robust::BestMean(percent) => self.best_mean(self.share(percent)),
            Robust::Percentile(percent) => self.nth(self.share(percent)),
        }
    }

    /// The number of samples in a percentage, as mmtests counts: at least one, rounded down.
    fn share(&self, percent: u8) -> u64 {
        (self.nr_taken * u64::from(percent) / 100).max(1)
    }

    fn best_mean(&self, nr: u64) -> f64 {
        let (mut left, mut sum) = (nr, 0.0);
        for (&value, &times) in self.values.iter().zip(&self.times) {
            let taken = left.min(u64::from(times));
            sum += value * taken as f64;
            left -= taken;
            if left == 0 {
                break;
            }
        }
        sum / nr as f64
    }

    fn nth(&self, nr: u64) -> f64 {
        let mut left = nr;
        for (&value, &times) in self.values.iter().zip(&self.times) {
            if left <= u64::from(times) {
                return value;
            }
            left -= u64::from(times);
        }
        f64::NAN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Robust; 4] =
        [Robust::Mean, Robust::BestMean(90), Robust::Percentile(50), Robust::Percentile(90)];

    fn percent(before: f64, after: f64) -> f64 {
        100.0 - 100.0 * after / before
    }

    /// Seeds whose samples start at 100, 110 and so on; the second run is a fifth faster in each.
    fn seeds(n: u32) -> Vec<SeedPair> {
        (0..n)
            .map(|seed| {
                let of = |scale: f64| -> Vec<f64> {
                    (0..200).map(|i| scale * (100.0 + f64::from(seed * 10 + i % 5))).collect()
                };
                let sorted = |mut values: Vec<f64>| {
                    values.sort_by(f64::total_cmp);
                    values
                };
                SeedPair { before: sorted(of(1.0)), after: sorted(of(0.8)) }
            })
            .collect()
    }

    #[test]
    fn points_are_the_figures_of_mmtests() {
        let pool = |values: &[f64]| {
            let mut pool = Pool::new([values].into_iter());
            pool.take_all();
            pool
        };
        // The first vector of rules/statistics#percentiles.
        let a = pool(&[20.0, 21.0, 22.0, 23.0, 24.0, 25.0, 26.0, 27.0, 28.0, 129.0]);
        let figures = ALL.map(|figure| a.figure(figure));
        assert_eq!(figures, [34.5, 24.0, 24.0, 28.0]);
        assert_eq!(pool(&[3.0]).figure(Robust::Percentile(50)), 3.0);
    }

    #[test]
    fn what_seeds_have_in_common_does_not_blur_the_change() {
        let seeds = seeds(8);
        let changes = Paired::default().changes(&seeds, &ALL, percent);
        for change in changes {
            let change = change.unwrap();
            assert!((change.point - 20.0).abs() < 0.5, "{change:?}");
            // Unpaired, seeds that range from 100 to 170 would leave ten percent open.
            let (low, high) = change.limits.unwrap();
            assert!(low > 18.0 && high < 22.0, "{change:?}");
        }
    }

    #[test]
    fn one_huge_sample_moves_the_mean_and_nothing_else() {
        let mut seeds = seeds(5);
        seeds[2].after.pop();
        seeds[2].after.push(300_000.0);
        let changes = Paired::default().changes(&seeds, &ALL, percent);
        let [mean, trimmed, median, max90] = changes[..] else { panic!() };
        let mean = mean.unwrap();
        let (low, high) = mean.limits.unwrap();
        assert!(mean.point < -100.0 && low < mean.point && high > 0.0, "{mean:?}");
        for robust in [trimmed, median, max90] {
            let (low, high) = robust.unwrap().limits.unwrap();
            assert!(low > 15.0 && high < 25.0, "{robust:?}");
        }
    }

    #[test]
    fn larger_values_can_be_the_better_ones() {
        let mut seeds = seeds(3);
        for seed in &mut seeds {
            seed.before.reverse();
            seed.after.reverse();
        }
        let best = |pool: &Pool| pool.figure(Robust::BestMean(1));
        let mut pool = Pool::new(seeds.iter().map(|seed| &seed.before[..]));
        pool.take_all();
        assert_eq!(best(&pool), 124.0);
    }

    #[test]
    fn one_number_per_seed() {
        let paired = Paired::default();
        let seeds: Vec<(f64, f64)> = (1..=8).map(|n| (f64::from(n), f64::from(n) / 2.0)).collect();
        let change = paired.change_of_means(&seeds, percent).unwrap();
        assert_eq!((change.point, change.limits), (50.0, Some((50.0, 50.0))));
        let noisy: Vec<(f64, f64)> =
            (0..8).map(|n| (10.0, if n % 2 == 0 { 9.0 } else { 11.5 })).collect();
        let (low, high) = paired.change_of_means(&noisy, percent).unwrap().limits.unwrap();
        assert!(low < 0.0 && high > 0.0, "{low} {high}");
        assert_eq!(paired.change_of_means(&seeds[..1], percent).unwrap().limits, None);
        assert_eq!(paired.change_of_means(&[], percent), None);
    }

    #[test]
    fn same_seed_same_interval_and_nothing_of_nothing() {
        let seeds = seeds(3);
        let paired = Paired { nr_resamples: 100, ..Paired::default() };
        assert_eq!(paired.changes(&seeds, &ALL, percent), paired.changes(&seeds, &ALL, percent));
        assert_eq!(paired.changes(&[], &ALL, percent), vec![None; 4]);
        let lonely = [SeedPair { before: vec![1.0], after: vec![] }];
        assert_eq!(paired.changes(&lonely, &ALL, percent), vec![None; 4]);
    }
}
