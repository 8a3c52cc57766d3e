//! Means, deviations, and the order that all other statistics start from (rules/statistics#means,
//! rules/statistics#deviation, rules/statistics#best-first).

use highwater_results::Better;

/// A sample set sorted best first: descending if higher is better, else ascending.
#[derive(Clone, Debug, PartialEq)]
pub struct Sorted {
    best_first: Vec<f64>,
    better: Better,
}

impl Sorted {
    /// Sorts a sample set.
    pub fn new(values: &[f64], better: Better) -> Self {
        let mut best_first = values.to_vec();
        best_first.sort_by(f64::total_cmp);
        if better == Better::Higher {
            best_first.reverse();
        }
        Sorted { best_first, better }
    }

    /// The samples, best first.
    pub fn best_first(&self) -> &[f64] {
        &self.best_first
    }

    /// The sample at a rank from 0 in ascending order.
    pub fn ascending(&self, rank: usize) -> Option<f64> {
        match self.better {
            Better::Lower | Better::Neither => self.best_first.get(rank).copied(),
            Better::Higher => self.best_first.iter().nth_back(rank).copied(),
        }
    }

    /// Which end is the good one.
    pub fn better(&self) -> Better {
        self.better
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.best_first.len()
    }

    /// True without samples.
    pub fn is_empty(&self) -> bool {
        self.best_first.is_empty()
    }

    /// Numerically smallest sample, whatever the direction.
    pub fn min(&self) -> Option<f64> {
        self.ascending(0)
    }

    /// Numerically largest sample, whatever the direction.
    pub fn max(&self) -> Option<f64> {
        self.ascending(self.len().checked_sub(1)?)
    }
}

/// Arithmetic mean.
pub fn amean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Harmonic mean; undefined if a sample is not positive.
pub fn hmean(values: &[f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|&value| value <= 0.0) {
        return None;
    }
    Some(values.len() as f64 / values.iter().map(|value| 1.0 / value).sum::<f64>())
}

/// Geometric mean; undefined if a sample is not positive.
pub fn gmean(values: &[f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|&value| value <= 0.0) {
        return None;
    }
    Some((values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp())
}

/// Standard deviation of a sample about its arithmetic mean, divisor n−1 (style 2021); undefined
/// for one sample.
pub fn stddev_sample(values: &[f64]) -> Option<f64> {
    (values.len() > 1).then(|| (squares(values) / (values.len() - 1) as f64).sqrt())
}

/// Standard deviation of a population, divisor n (style 2015).
pub fn stddev_population(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| (squares(values) / values.len() as f64).sqrt())
}

/// Deviation that goes with the harmonic mean H (style 2026): `sqrt(H⁴/n · Σ(1/x − 1/H)²)`.
pub fn stddev_harmonic(values: &[f64]) -> Option<f64> {
    let mean = hmean(values)?;
    let squares: f64 = values.iter().map(|value| (1.0 / value - 1.0 / mean).powi(2)).sum();
    Some((mean.powi(4) / values.len() as f64 * squares).sqrt())
}

fn squares(values: &[f64]) -> f64 {
    let mean = amean(values).unwrap_or(0.0);
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(actual: Option<f64>, expected: f64) {
        let actual = actual.expect("defined");
        assert!((actual - expected).abs() < 1e-9, "{actual} != {expected}");
    }

    #[test]
    fn by_hand() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        close(amean(&values), 5.0);
        close(stddev_population(&values), 2.0);
        close(stddev_sample(&values), (32.0f64 / 7.0).sqrt());
        close(hmean(&[1.0, 2.0, 4.0]), 12.0 / 7.0);
        close(gmean(&[1.0, 2.0, 4.0]), 2.0);
        close(stddev_harmonic(&[3.0, 3.0]), 0.0);
    }

    #[test]
    fn undefined_is_none() {
        assert_eq!(amean(&[]), None);
        assert_eq!(hmean(&[1.0, 0.0]), None);
        assert_eq!(gmean(&[-1.0]), None);
        assert_eq!(stddev_sample(&[1.0]), None);
        assert_eq!(stddev_population(&[1.0]), Some(0.0));
        assert_eq!(Sorted::new(&[], Better::Lower).max(), None);
    }

    #[test]
    fn order_follows_the_direction_but_min_and_max_do_not() {
        let sorted = Sorted::new(&[2.0, 3.0, 1.0], Better::Higher);
        assert_eq!(sorted.best_first(), [3.0, 2.0, 1.0]);
        assert_eq!(
            (sorted.min(), sorted.max(), sorted.ascending(1)),
            (Some(1.0), Some(3.0), Some(2.0))
        );
        assert_eq!(Sorted::new(&[2.0, 3.0, 1.0], Better::Lower).min(), Some(1.0));
    }

    proptest! {
        #[test]
        fn means_are_ordered(values in proptest::collection::vec(0.001f64..1e6, 1..50)) {
            let (h, g, a) = (hmean(&values).unwrap(), gmean(&values).unwrap(), amean(&values).unwrap());
            prop_assert!(h <= g * (1.0 + 1e-9) && g <= a * (1.0 + 1e-9));
            let sorted = Sorted::new(&values, Better::Higher);
            prop_assert!(sorted.min().unwrap() <= a * (1.0 + 1e-9) && a <= sorted.max().unwrap() * (1.0 + 1e-9));
        }
    }
}
