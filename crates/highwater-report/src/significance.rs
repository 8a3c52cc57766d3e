//! When a change gets its asterisks (rules/statistics#mark).
//!
//! Style 2015 marks nothing, 2021 uses a t-test at the 10 % level, 2026 asks whether two intervals
//! overlap. For judgements that assume no distribution see [`evidence`](crate::evidence).

use highwater_results::Better;
use statrs::distribution::{Binomial, DiscreteCDF};

use crate::Style;
use crate::rules::{Rules, Statistic};
use crate::stats::Sorted;
use crate::stats::ttest::{LEVEL_2021, Moments, TTest, mmtests};

/// Half-width of the 2026 interval in standard deviations.
const DEVIATIONS_2026: f64 = 1.96;
/// Share of the 2026 interval outside on both sides.
const LEVEL_2026: f64 = 0.05;

/// True if the change of a statistic is marked.
pub fn is_marked(rules: &Rules, statistic: Statistic, baseline: &Sorted, run: &Sorted) -> bool {
    if !rules.carries_mark(statistic) || baseline.is_empty() || run.is_empty() {
        return false;
    }
    match rules.style {
        Style::Y2015 => false,
        Style::Y2021 => t_test(rules, baseline, run).p < LEVEL_2021,
        Style::Y2026 => apart(rules, statistic, baseline, run),
    }
}

/// The t-test of style 2021 on the mean that the table shows; an undefined mean or deviation counts
/// as 0.
pub fn t_test(rules: &Rules, baseline: &Sorted, run: &Sorted) -> TTest {
    let moments = |samples: &Sorted| Moments {
        mean: rules.value(Statistic::Mean, samples).unwrap_or(0.0),
        stddev: crate::stats::summary::stddev_sample(samples.best_first()).unwrap_or(0.0),
        n: samples.len(),
    };
    mmtests(moments(baseline), moments(run))
}

/// Half-widths of the 2026 interval below and above a statistic, if there is one.
pub fn interval_2026(rules: &Rules, statistic: Statistic, samples: &Sorted) -> Option<(f64, f64)> {
    let value = rules.value(statistic, samples)?;
    if let Statistic::Percentile(percent) = statistic {
        let (low, high) = order_bounds(samples, percent)?;
        return Some((value - low, high - value));
    }
    let half = DEVIATIONS_2026 * rules.value(Statistic::Stddev, samples)?;
    Some((half, half))
}

/// Sum of the two half-widths that face each other between the statistics of two runs.
pub fn facing(rules: &Rules, statistic: Statistic, baseline: &Sorted, run: &Sorted) -> Option<f64> {
    let ((low_a, high_a), (low_b, high_b)) =
        (interval_2026(rules, statistic, baseline)?, interval_2026(rules, statistic, run)?);
    let rising = rules.value(statistic, run)? > rules.value(statistic, baseline)?;
    Some(if rising { high_a + low_b } else { low_a + high_b })
}

fn apart(rules: &Rules, statistic: Statistic, baseline: &Sorted, run: &Sorted) -> bool {
    let (Some(a), Some(b)) = (rules.value(statistic, baseline), rules.value(statistic, run)) else {
        return false;
    };
    facing(rules, statistic, baseline, run).is_some_and(|widths| (a - b).abs() > widths)
}

/// Distribution-free bounds of a percentile: the order statistics between which it lies with 95 %
/// probability, since the number of samples better than it is binomial. Infinite on a side where
/// there are too few samples for a bound.
fn order_bounds(samples: &Sorted, percent: u8) -> Option<(f64, f64)> {
    let n = samples.len();
    let nr_better = Binomial::new(f64::from(percent) / 100.0, n as u64).ok()?;
    let rank = |probability: f64| usize::try_from(nr_better.inverse_cdf(probability)).unwrap_or(n);
    // Ranks from 1, best first; 0 and n + 1 are no samples.
    let at = |rank: usize| {
        rank.checked_sub(1).and_then(|index| samples.best_first().get(index).copied())
    };
    let (better_end, worse_end) =
        (at(rank(LEVEL_2026 / 2.0)), at(rank(1.0 - LEVEL_2026 / 2.0) + 1));
    let (low, high) = match samples.better() {
        Better::Lower | Better::Neither => (better_end, worse_end),
        Better::Higher => (worse_end, better_end),
    };
    Some((low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_results::TableKind;

    fn lower(values: &[f64]) -> Sorted {
        Sorted::new(values, Better::Lower)
    }

    fn rules(style: Style, kind: TableKind) -> Rules {
        Rules { style, better: Better::Lower, kind }
    }

    #[test]
    fn significance_by_style() {
        let (a, b) = (lower(&[10.0, 11.0, 12.0]), lower(&[12.0, 13.0, 14.0]));
        let marked = |style| is_marked(&rules(style, TableKind::Multi), Statistic::Mean, &a, &b);
        assert_eq!([Style::Y2015, Style::Y2021, Style::Y2026].map(marked), [false, true, false]);
        let facing = facing(&rules(Style::Y2026, TableKind::Multi), Statistic::Mean, &a, &b);
        assert!((facing.unwrap() - 3.92).abs() < 1e-12);
    }

    #[test]
    fn intervals_far_apart_are_marked_in_2026() {
        let (a, b) = (lower(&[10.0, 11.0, 12.0]), lower(&[22.0, 23.0, 24.0]));
        assert!(is_marked(&rules(Style::Y2026, TableKind::Multi), Statistic::Mean, &a, &b));
        assert!(!is_marked(&rules(Style::Y2026, TableKind::Multi), Statistic::Min, &a, &b));
    }

    #[test]
    fn variable_time_of_2026_judges_the_95th_percentile() {
        let a: Vec<f64> = (0..1000).map(f64::from).collect();
        let b: Vec<f64> = a.iter().map(|value| value + 100.0).collect();
        let near: Vec<f64> = a.iter().map(|value| value + 1.0).collect();
        let rules = rules(Style::Y2026, TableKind::VariableTime);
        assert!(is_marked(&rules, Statistic::Percentile(95), &lower(&a), &lower(&b)));
        assert!(!is_marked(&rules, Statistic::Percentile(95), &lower(&a), &lower(&near)));
        assert!(!is_marked(&rules, Statistic::Mean, &lower(&a), &lower(&b)));
        // 1000 samples at 95 %: 950 ± 1.96·sqrt(47.5), so ranks 936 and 964 (values one less).
        assert_eq!(order_bounds(&lower(&a), 95), Some((935.0, 963.0)));
        // 0.95^71 > 2.5 %: the largest of 71 samples may well be below the 95th percentile.
        assert_eq!(order_bounds(&lower(&a[..71]), 95).unwrap().1, f64::INFINITY);
        assert_eq!(order_bounds(&lower(&a[..72]), 95).unwrap().1, 71.0);
        let higher = Sorted::new(&a, Better::Higher);
        assert_eq!(order_bounds(&higher, 95), Some((999.0 - 963.0, 999.0 - 935.0)));
    }
}
