//! Percent changes: positive is better. Without a direction, positive is more
//! (rules/statistics#percent-change).
//!
//! Key type: [`Told`] (what is shown if a percentage would mislead).

use std::fmt;

use highwater_results::Better;
use serde::{Serialize, Serializer};

/// Changes beyond this factor are shown as factors.
const FACTOR: f64 = 2.0;
/// Factors from this size on have no decimals.
const LARGE_FACTOR: f64 = 100.0;

/// The text shown instead of a percentage. A percentage says little about a large change, and
/// nothing about a change from 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Told {
    /// `x8.8`: 8.8 times larger or smaller. Negative: the worse direction, or less for a figure
    /// without a direction.
    Factor(f64),
    /// It was 0 before.
    FromZero,
    /// It is 0 after.
    ToZero,
    /// Before and after have different signs.
    PastZero,
}

impl Told {
    /// The text for a change from `before` to `after`; none if a percentage describes it well.
    pub fn of(better: Better, before: f64, after: f64) -> Option<Told> {
        if before == after || !before.is_finite() || !after.is_finite() {
            return None;
        }
        if before < 0.0 && after < 0.0 {
            // A factor of negative values would read the wrong way round.
            return None;
        }
        let ratio = after / before;
        if before == 0.0 {
            return Some(Told::FromZero);
        } else if after == 0.0 {
            return Some(Told::ToZero);
        } else if ratio < 0.0 {
            return Some(Told::PastZero);
        }
        let factor = ratio.max(1.0 / ratio);
        let way = if is_better(better, before, after) { 1.0 } else { -1.0 };
        (factor > FACTOR).then_some(Told::Factor(way * factor))
    }

    /// The text for a [`change`] in percent. A percentage cannot show that the change was from 0.
    pub fn of_percent(better: Better, percent: f64) -> Option<Told> {
        let ratio = match better {
            Better::Higher | Better::Neither => 1.0 + percent / 100.0,
            Better::Lower => 1.0 - percent / 100.0,
        };
        // A decrease by 100 % ends at 0, except for rounding.
        let is_nothing = ratio.abs() < 4.0 * f64::EPSILON;
        Told::of(better, 1.0, if is_nothing { 0.0 } else { ratio })
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Told::Factor(factor) => {
                let sign = if *factor < 0.0 { "-" } else { "" };
                let size = factor.abs();
                let decimals = if size >= LARGE_FACTOR { 0 } else { 1 };
                write!(f, "{sign}x{size:.decimals$}")
            }
            Told::FromZero => f.write_str("from 0"),
            Told::ToZero => f.write_str("to 0"),
            Told::PastZero => f.write_str("past 0"),
        }
    }
}

impl Serialize for Told {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Whether a change goes the better way. Without a direction: whether it goes to more.
pub fn is_better(better: Better, before: f64, after: f64) -> bool {
    match better {
        Better::Higher | Better::Neither => after > before,
        Better::Lower => after < before,
    }
}

/// Whether an interval excludes 0, so that something changed.
pub fn excludes_zero((low, high): (f64, f64)) -> bool {
    low > 0.0 || high < 0.0
}

/// Change from a baseline in percent. Lower-is-better is not symmetric: doubling is −100 %, halving
/// +50 %.
pub fn change(better: Better, baseline: f64, value: f64) -> f64 {
    if value == baseline {
        return 0.0;
    }
    match better {
        Better::Neither if baseline == 0.0 => 100.0 * value.signum(),
        Better::Neither => 100.0 * (value - baseline) / baseline.abs(),
        Better::Higher if value == 0.0 => 0.0,
        Better::Higher if baseline == 0.0 => 100.0,
        Better::Higher => 100.0 * value / baseline - 100.0,
        Better::Lower if value == 0.0 => 100.0,
        Better::Lower if baseline == 0.0 => -99.0,
        Better::Lower => 100.0 - 100.0 * value / baseline,
    }
}

/// The change for judging. Its sign gives the direction for any baseline, also a negative one (the
/// difference of two times). A drop to 0 of a higher-is-better figure counts as -100 % (mmtests
/// prints 0 there).
pub fn judged(better: Better, baseline: f64, value: f64) -> f64 {
    if value == baseline {
        return 0.0;
    }
    let growth = if baseline == 0.0 {
        100.0 * value.signum()
    } else {
        100.0 * (value - baseline) / baseline.abs()
    };
    match better {
        Better::Higher | Better::Neither => growth,
        Better::Lower => -growth,
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

    #[test]
    fn a_judged_change_has_the_sign_of_its_way() {
        use Better::{Higher, Lower};
        for (better, baseline, value, expected) in [
            (Lower, -10.0, -2.0, -80.0),
            (Lower, -2.0, -10.0, 400.0),
            (Lower, -2.0, 2.0, -200.0),
            (Higher, -2.0, 2.0, 200.0),
            (Higher, 5.0, 0.0, -100.0),
            (Lower, 0.0, 5.0, -100.0),
            (Lower, 0.0, 0.0, 0.0),
            (Lower, 100.0, 36.0, 64.0),
        ] {
            assert_eq!(judged(better, baseline, value), expected, "{better:?} {baseline} {value}");
        }
        assert_eq!(Told::of(Lower, -10.0, -2.0), None);
    }

    #[test]
    fn beyond_a_factor_of_two_factors_are_told() {
        use Better::{Higher, Lower};
        for (better, before, after, expected) in [
            (Lower, 100.0, 200.0, None),
            (Lower, 100.0, 50.0, None),
            (Lower, 4.0, 4.0, None),
            (Lower, f64::NAN, 4.0, None),
            (Lower, 100.0, 880.0, Some("-x8.8")),
            (Lower, 880.0, 100.0, Some("x8.8")),
            (Higher, 1.0, 20768.4, Some("x20768")),
            (Higher, 300.0, 100.0, Some("-x3.0")),
            (Higher, 0.0, 4.0, Some("from 0")),
            (Lower, 0.0, 4.0, Some("from 0")),
            (Lower, 4.0, 0.0, Some("to 0")),
            (Lower, 4.0, -0.1, Some("past 0")),
        ] {
            let told = Told::of(better, before, after).map(|told| told.to_string());
            assert_eq!(told.as_deref(), expected, "{better:?} {before} {after}");
            if before != 0.0 && before.is_finite() && !(better == Higher && after == 0.0) {
                let of_percent = Told::of_percent(better, change(better, before, after));
                assert_eq!(of_percent.map(|told| told.to_string()), told, "{before} {after}");
            }
        }
        assert!(excludes_zero((0.1, 2.0)) && excludes_zero((-2.0, -0.1)));
        assert!(!excludes_zero((0.0, 2.0)) && !excludes_zero((-1.0, 1.0)));
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
