//! Percentiles and best-means: order statistics without interpolation, by the rules of each style
//! (rules/statistics#percentiles, rules/statistics#best-means).

use super::summary::{Sorted, amean, hmean};

/// Percentile of styles 2021 and 2026: the sample at rank `max(1, floor(n·p/100))`, counted from
/// the best. Never the last sample of several (p < 100).
pub fn percentile(sorted: &Sorted, percent: u8) -> Option<f64> {
    sorted.best_first().get(nr_best(sorted.len(), percent) - 1).copied()
}

/// Percentile of style 2015: ascending rank `floor((n−1)·p/100 + 0.5)` from 0, whatever the
/// direction.
pub fn percentile_2015(sorted: &Sorted, percent: u8) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.ascending((last * usize::from(percent) * 2 + 100) / 200)
}

/// Arithmetic mean of the best p percent (styles 2021 and 2026), of one sample at least.
pub fn best_amean(sorted: &Sorted, percent: u8) -> Option<f64> {
    amean(best(sorted, percent))
}

/// Harmonic mean of the best p percent (styles 2021 and 2026), of one sample at least.
pub fn best_hmean(sorted: &Sorted, percent: u8) -> Option<f64> {
    hmean(best(sorted, percent))
}

/// Best-mean of style 2015: with k = floor(n·p/100) the mean of the k+1 smallest, or of all samples
/// if k is 0.
pub fn best_mean_2015(sorted: &Sorted, percent: u8) -> Option<f64> {
    let k = sorted.len() * usize::from(percent) / 100;
    let nr_samples = if k == 0 { sorted.len() } else { (k + 1).min(sorted.len()) };
    let smallest: Vec<f64> = (0..nr_samples).filter_map(|rank| sorted.ascending(rank)).collect();
    amean(&smallest)
}

/// Interpolated quantile of ascending data, `0.0 <= q <= 1.0`: for bootstrap replicates, not for
/// table rows.
pub fn interpolated(ascending: &[f64], q: f64) -> Option<f64> {
    let last = ascending.len().checked_sub(1)?;
    let rank = q.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (rank.floor() as usize, rank.ceil() as usize);
    Some(ascending[low] + (ascending[high] - ascending[low]) * (rank - low as f64))
}

fn best(sorted: &Sorted, percent: u8) -> &[f64] {
    let samples = sorted.best_first();
    &samples[..nr_best(samples.len(), percent).min(samples.len())]
}

fn nr_best(nr_samples: usize, percent: u8) -> usize {
    (nr_samples * usize::from(percent) / 100).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_results::Better;
    use proptest::prelude::*;

    fn ten(better: Better) -> Sorted {
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        Sorted::new(&values, better)
    }

    #[test]
    fn by_hand() {
        let lower = ten(Better::Lower);
        assert_eq!(percentile(&lower, 25), Some(2.0));
        assert_eq!(percentile(&lower, 99), Some(9.0));
        assert_eq!(percentile(&lower, 1), Some(1.0));
        assert_eq!(best_amean(&lower, 25), Some(1.5));
        let higher = ten(Better::Higher);
        assert_eq!(percentile(&higher, 90), Some(2.0));
        assert_eq!(best_amean(&higher, 50), Some(8.0));
        assert_eq!(best_hmean(&higher, 1), Some(10.0));
    }

    #[test]
    fn style_2015_by_hand() {
        let lower = ten(Better::Lower);
        // (n-1)·p/100 + 0.5 = 2.75, 5.0, 8.6, 9.05
        for (percent, expected) in [(25, 3.0), (50, 6.0), (90, 9.0), (95, 10.0)] {
            assert_eq!(percentile_2015(&lower, percent), Some(expected));
            assert_eq!(percentile_2015(&ten(Better::Higher), percent), Some(expected));
        }
        assert_eq!(best_mean_2015(&lower, 5), Some(5.5));
        assert_eq!(best_mean_2015(&lower, 10), Some(1.5));
        assert_eq!(best_mean_2015(&lower, 99), Some(5.5));
    }

    #[test]
    fn empty_sets_have_no_quantiles() {
        let empty = Sorted::new(&[], Better::Lower);
        assert_eq!(percentile(&empty, 50), None);
        assert_eq!(percentile_2015(&empty, 50), None);
        assert_eq!(best_amean(&empty, 50), None);
        assert_eq!(best_mean_2015(&empty, 50), None);
        assert_eq!(interpolated(&[], 0.5), None);
    }

    #[test]
    fn interpolation_by_hand() {
        assert_eq!(interpolated(&[1.0, 2.0, 4.0], 0.75), Some(3.0));
        assert_eq!(interpolated(&[1.0, 2.0, 4.0], 1.0), Some(4.0));
        assert_eq!(interpolated(&[5.0], 0.3), Some(5.0));
    }

    proptest! {
        #[test]
        fn percentiles_are_samples_and_grow(values in proptest::collection::vec(0.0f64..1e6, 1..60)) {
            let sorted = Sorted::new(&values, Better::Lower);
            let mut previous = f64::MIN;
            for percent in 0..100 {
                let value = percentile(&sorted, percent).unwrap();
                prop_assert!(values.contains(&value) && value >= previous);
                prop_assert!(values.len() == 1 || value == previous || value <= sorted.best_first()[values.len() - 2]);
                previous = value;
                prop_assert!(values.contains(&percentile_2015(&sorted, percent).unwrap()));
            }
        }

        #[test]
        fn best_means_never_beat_the_best_sample(values in proptest::collection::vec(0.1f64..1e6, 1..60), percent in 0u8..100) {
            for better in [Better::Lower, Better::Higher] {
                let sorted = Sorted::new(&values, better);
                let mean = best_amean(&sorted, percent).unwrap();
                prop_assert!(mean >= sorted.min().unwrap() * (1.0 - 1e-12) && mean <= sorted.max().unwrap() * (1.0 + 1e-12));
                prop_assert!(best_hmean(&sorted, percent).unwrap() <= mean * (1.0 + 1e-12));
            }
        }
    }
}
