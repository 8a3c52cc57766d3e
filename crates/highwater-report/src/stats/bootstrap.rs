//! Bootstrap confidence intervals: how far a figure would move if other samples had been drawn.
//!
//! Key types: [`Bootstrap`] (settings), [`Interval`] (percentile and BCa limits). The generator is
//! our own SplitMix64, so an interval depends only on the samples and the seed. BCa
//! ("bias-corrected and accelerated", Efron 1987) shifts the percentiles by the bias of the
//! replicates and the skew of the jackknife.

use statrs::distribution::{ContinuousCDF, Normal};

use super::quantile::interpolated;
use super::summary::amean;

/// Draws (resamples × samples) that one comparison may cost; large sample sets get fewer resamples.
const DRAWS_MAX: usize = 16_000_000;
/// Fewest resamples, even for the largest sample sets.
const RESAMPLES_MIN: usize = 200;

/// Number of resamples: the wanted number, or as many as the limit on draws allows.
pub(super) fn resamples(wanted: usize, nr_samples: usize) -> usize {
    wanted.min((DRAWS_MAX / nr_samples.max(1)).max(RESAMPLES_MIN))
}

/// Settings of a bootstrap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bootstrap {
    /// Resamples to draw.
    pub nr_resamples: usize,
    /// Share of replicates inside the interval: 0.95.
    pub confidence: f64,
    /// Seed of the generator.
    pub seed: u64,
}

/// A figure and its confidence limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The figure of the samples themselves.
    pub point: f64,
    /// Plain percentiles of the replicates.
    pub percentile: (f64, f64),
    /// Percentiles corrected for bias and skew.
    pub bca: (f64, f64),
}

impl Default for Bootstrap {
    fn default() -> Self {
        Bootstrap { nr_resamples: 2000, confidence: 0.95, seed: 0x4869_6768_7761_7465 }
    }
}

impl Bootstrap {
    /// Interval of any statistic of one sample set; `None` for fewer than two samples or an
    /// undefined statistic.
    pub fn statistic(
        &self,
        values: &[f64],
        statistic: impl Fn(&[f64]) -> Option<f64>,
    ) -> Option<Interval> {
        if values.len() < 2 {
            return None;
        }
        let point = statistic(values)?;
        let mut random = SplitMix64(self.seed);
        let mut drawn = vec![0.0; values.len()];
        let replicates = (0..resamples(self.nr_resamples, values.len())).filter_map(|_| {
            drawn.fill_with(|| values[random.below(values.len())]);
            statistic(&drawn)
        });
        let replicates: Vec<f64> = replicates.collect();
        let left_out: Vec<f64> = (0..values.len())
            .filter_map(|index| {
                let mut rest = values.to_vec();
                rest.remove(index);
                statistic(&rest)
            })
            .collect();
        self.interval(point, replicates, &influence(&left_out))
    }

    /// Interval of a function of the means of two sample sets, `change(mean_a, mean_b)`: percent
    /// change, ratio. Linear in the number of samples. `None` for fewer than two samples on a side.
    pub fn of_means(
        &self,
        a: &[f64],
        b: &[f64],
        change: impl Fn(f64, f64) -> f64,
    ) -> Option<Interval> {
        if a.len() < 2 || b.len() < 2 {
            return None;
        }
        let (mean_a, mean_b) = (amean(a)?, amean(b)?);
        let mut random = SplitMix64(self.seed);
        let mut drawn_mean = |values: &[f64]| {
            let sum: f64 = (0..values.len()).map(|_| values[random.below(values.len())]).sum();
            sum / values.len() as f64
        };
        let replicates: Vec<f64> = (0..resamples(self.nr_resamples, a.len() + b.len()))
            .map(|_| change(drawn_mean(a), drawn_mean(b)))
            .collect();
        let left_out_a: Vec<f64> =
            means_without_one(a, mean_a).map(|mean| change(mean, mean_b)).collect();
        let left_out_b: Vec<f64> =
            means_without_one(b, mean_b).map(|mean| change(mean_a, mean)).collect();
        let mut influences = influence(&left_out_a);
        influences.extend(influence(&left_out_b));
        self.interval(change(mean_a, mean_b), replicates, &influences)
    }

    fn interval(
        &self,
        point: f64,
        mut replicates: Vec<f64>,
        influences: &[f64],
    ) -> Option<Interval> {
        replicates.retain(|replicate| replicate.is_finite());
        if !point.is_finite() || replicates.is_empty() {
            return None;
        }
        replicates.sort_by(f64::total_cmp);
        let tail = (1.0 - self.confidence) / 2.0;
        let limits = |low: f64, high: f64| {
            Some((interpolated(&replicates, low)?, interpolated(&replicates, high)?))
        };
        let (low, high) = bca_tails(point, &replicates, influences, tail);
        Some(Interval { point, percentile: limits(tail, 1.0 - tail)?, bca: limits(low, high)? })
    }
}

/// The two tail probabilities of BCa, or the plain ones where the correction is undefined.
fn bca_tails(point: f64, replicates: &[f64], influences: &[f64], tail: f64) -> (f64, f64) {
    let normal = Normal::standard();
    let below = replicates.iter().filter(|&&replicate| replicate < point).count() as f64;
    let tied = replicates.iter().filter(|&&replicate| replicate == point).count() as f64;
    let share = (below + tied / 2.0) / replicates.len() as f64;
    let squares: f64 = influences.iter().map(|value| value.powi(2)).sum();
    if share <= 0.0 || share >= 1.0 || squares <= 0.0 {
        return (tail, 1.0 - tail);
    }
    let bias = normal.inverse_cdf(share);
    let skew =
        influences.iter().map(|value| value.powi(3)).sum::<f64>() / (6.0 * squares.powf(1.5));
    let corrected = |probability: f64| {
        let z = bias + normal.inverse_cdf(probability);
        // If the skew is so strong that the correction changes sign, BCa is not defined.
        (skew * z < 1.0).then(|| normal.cdf(bias + z / (1.0 - skew * z)))
    };
    corrected(tail).zip(corrected(1.0 - tail)).unwrap_or((tail, 1.0 - tail))
}

/// Influence of each sample on the figure, from the figures without it.
fn influence(left_out: &[f64]) -> Vec<f64> {
    let n = left_out.len() as f64;
    let mean = amean(left_out).unwrap_or(0.0);
    left_out.iter().map(|value| (n - 1.0) / n * (mean - value)).collect()
}

fn means_without_one(values: &[f64], mean: f64) -> impl Iterator<Item = f64> {
    let n = values.len() as f64;
    values.iter().map(move |value| (mean * n - value) / (n - 1.0))
}

/// SplitMix64 (Steele, Lea, Flood 2014): 64 bits of state, enough for resampling.
pub(super) struct SplitMix64(u64);

impl SplitMix64 {
    pub(super) const fn new(seed: u64) -> Self {
        SplitMix64(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.next()) * limit as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn generator_matches_the_published_sequence() {
        let mut random = SplitMix64(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn large_sets_get_fewer_resamples() {
        assert_eq!([0, 100, 16_000, 1 << 40].map(|n| resamples(2000, n)), [2000, 2000, 1000, 200]);
        assert_eq!(resamples(100, 1 << 40), 100);
    }

    #[test]
    fn interval_of_a_mean_is_near_the_normal_one() {
        // 0..99: mean 49.5, standard error sqrt(833.25 / 100) = 2.887, so about 49.5 ± 5.66.
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        let interval = Bootstrap::default().statistic(&values, amean).unwrap();
        assert_eq!(interval.point, 49.5);
        for (low, high) in [interval.percentile, interval.bca] {
            assert!((low - 43.84).abs() < 0.6 && (high - 55.16).abs() < 0.6, "{low} {high}");
        }
    }

    #[test]
    fn bca_leans_towards_the_long_tail() {
        let mut values = vec![1.0; 30];
        values.extend([10.0, 40.0]);
        let interval = Bootstrap::default().statistic(&values, amean).unwrap();
        assert!(interval.bca.1 > interval.percentile.1 && interval.bca.0 >= interval.percentile.0);
    }

    #[test]
    fn a_clear_change_excludes_zero_and_no_change_includes_it() {
        let a: Vec<f64> = (0..40).map(|i| 100.0 + f64::from(i % 7)).collect();
        let b: Vec<f64> = (0..40).map(|i| 90.0 + f64::from(i % 5)).collect();
        let percent = |x: f64, y: f64| 100.0 - 100.0 * y / x;
        let change = Bootstrap::default().of_means(&a, &b, percent).unwrap();
        assert!(change.bca.0 > 0.0 && change.bca.0 < change.point && change.point < change.bca.1);
        let nothing = Bootstrap::default().of_means(&a, &a, percent).unwrap();
        assert!(nothing.bca.0 < 0.0 && nothing.bca.1 > 0.0 && nothing.point == 0.0);
    }

    #[test]
    fn same_seed_same_interval_and_too_few_samples_none() {
        let values: Vec<f64> =
            (0..50).map(|i| f64::from(i * i % 37) + 0.01 * f64::from(i)).collect();
        let bootstrap = Bootstrap::default();
        assert_eq!(bootstrap.statistic(&values, amean), bootstrap.statistic(&values, amean));
        assert_ne!(
            bootstrap.statistic(&values, amean),
            Bootstrap { seed: 1, ..bootstrap }.statistic(&values, amean)
        );
        assert_eq!(bootstrap.statistic(&values[..1], amean), None);
        assert_eq!(bootstrap.of_means(&values, &values[..1], |a, b| a / b), None);
    }

    #[test]
    fn equal_samples_give_a_point() {
        let interval = Bootstrap::default().of_means(&[2.0; 3], &[1.0; 3], |a, b| b / a).unwrap();
        assert_eq!((interval.percentile, interval.bca), ((0.5, 0.5), (0.5, 0.5)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn limits_are_ordered_and_within_the_data(values in proptest::collection::vec(-1e3f64..1e3, 2..20)) {
            let interval = Bootstrap { nr_resamples: 300, ..Bootstrap::default() }.statistic(&values, amean).unwrap();
            let (min, max) = values.iter().fold((f64::MAX, f64::MIN), |(low, high), &v| (low.min(v), high.max(v)));
            for (low, high) in [interval.percentile, interval.bca] {
                prop_assert!(low <= high && low >= min - 1e-9 && high <= max + 1e-9);
            }
        }
    }
}
