//! Percent changes: positive is always better (rules/statistics#percent-change).

use highwater_results::Better;

/// Change from a baseline in percent. Lower-is-better is not symmetric: doubling is −100 %, halving +50 %.
pub fn change(better: Better, baseline: f64, value: f64) -> f64 {
    if value == baseline {
        return 0.0;
    }
    match better {
        Better::Higher if value == 0.0 => 0.0,
        Better::Higher if baseline == 0.0 => 100.0,
        Better::Higher => 100.0 * value / baseline - 100.0,
        Better::Lower if value == 0.0 => 100.0,
        Better::Lower if baseline == 0.0 => -99.0,
        Better::Lower => 100.0 - 100.0 * value / baseline,
    }
}

/// Plain growth in percent, for figures without a direction (counters, times): positive is more.
pub fn growth(baseline: f64, value: f64) -> Option<f64> {
    if value == baseline {
        return Some(0.0);
    }
    (baseline != 0.0).then(|| 100.0 * (value - baseline) / baseline)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percent_of_a_change() {
        use Better::{Higher, Lower};
        for (better, baseline, value, expected) in [
            (Higher, 100.0, 150.0, 50.0),
            (Higher, 5.0, 5.0, 0.0),
            (Higher, 5.0, 0.0, 0.0),
            (Higher, 0.0, 5.0, 100.0),
            (Lower, 100.0, 200.0, -100.0),
            (Lower, 100.0, 50.0, 50.0),
            (Lower, 0.0, 0.0, 0.0),
            (Lower, 5.0, 0.0, 100.0),
            (Lower, 0.0, 5.0, -99.0),
        ] {
            assert_eq!(change(better, baseline, value), expected, "{better:?} {baseline} {value}");
        }
        assert_eq!(growth(0.0, 1.0), None);
        assert_eq!(growth(8.0, 2.0), Some(-75.0));
    }

    proptest! {
        #[test]
        fn positive_is_better(baseline in 0.001f64..1e9, value in 0.001f64..1e9) {
            let (higher, lower) = (change(Better::Higher, baseline, value), change(Better::Lower, baseline, value));
            prop_assert!(lower <= 100.0);
            if value > baseline * (1.0 + 1e-9) {
                prop_assert!(higher > 0.0 && lower < 0.0);
            } else if value < baseline * (1.0 - 1e-9) {
                prop_assert!(higher < 0.0 && lower > 0.0);
            }
        }
    }
}
