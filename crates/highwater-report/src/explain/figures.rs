//! Times formatted for readers, and shares that add up.
//!
//! If each part of a sum is rounded separately, the parts do not add up to the rounded whole.
//! [`apportion`] makes them add up: each part gets its whole units, and the remaining units go to
//! the largest remainders.

/// Units of a table of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// Its name.
    pub(super) name: &'static str,
    /// Its length.
    pub(super) ns: u64,
}

/// Longest first.
const UNITS: [Unit; 4] = [
    Unit { name: "s", ns: 1_000_000_000 },
    Unit { name: "ms", ns: 1_000_000 },
    Unit { name: "us", ns: 1_000 },
    Unit { name: "ns", ns: 1 },
];

impl Unit {
    /// The longest unit that fits into the time at least once.
    pub(super) fn for_ns(ns: u64) -> Unit {
        UNITS.into_iter().find(|unit| ns >= unit.ns).unwrap_or(UNITS[3])
    }
}

/// A time with three digits and its unit: `3.21 s`, `45.6 ms`, `789 us`, `12 ns`.
pub fn human(ns: u64) -> String {
    let unit = Unit::for_ns(ns);
    let value = ns as f64 / unit.ns as f64;
    let decimals = match () {
        () if unit.ns == 1 || value >= 99.95 => 0,
        () if value >= 9.995 => 1,
        () => 2,
    };
    format!("{value:.decimals$} {}", unit.name)
}

/// A count in groups of three digits: `3,213,456,789`.
pub(super) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Splits `units` among parts in proportion to their weights; the result adds up to `units`
/// exactly. If there is no weight above zero, every part gets 0.
pub(super) fn apportion(units: u64, weights: &[u64]) -> Vec<u64> {
    let whole: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    if whole == 0 {
        return vec![0; weights.len()];
    }
    let exact = |weight: u64| u128::from(units) * u128::from(weight);
    let mut shares: Vec<u64> =
        weights.iter().map(|&weight| (exact(weight) / whole) as u64).collect();
    let left = units - shares.iter().sum::<u64>();
    let mut by_remainder: Vec<usize> = (0..weights.len()).collect();
    // The earlier part wins a tie.
    by_remainder.sort_by_key(|&index| std::cmp::Reverse(exact(weights[index]) % whole));
    // The units left are fewer than the parts.
    for &index in by_remainder.iter().take(left as usize) {
        shares[index] += 1;
    }
    shares
}

/// Tenths of a percent as a percentage: `45.1`.
pub(super) fn percent(tenths: u64) -> String {
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Thousandths as a number: `12.345`.
pub(super) fn thousandths(value: u64) -> String {
    format!("{}.{:03}", value / 1000, value % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_have_three_digits() {
        for (ns, text) in [
            (0, "0 ns"),
            (12, "12 ns"),
            (1_000, "1.00 us"),
            (45_678, "45.7 us"),
            (99_960, "100 us"),
            (789_123_456, "789 ms"),
            (3_213_456_789, "3.21 s"),
            (90_000_000_000, "90.0 s"),
        ] {
            assert_eq!(human(ns), text);
        }
    }

    #[test]
    fn digits_in_groups() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(3_213_456_789), "3,213,456,789");
        assert_eq!(thousandths(12_345), "12.345");
        assert_eq!(percent(1000), "100.0");
    }

    #[test]
    fn thirds_add_up() {
        assert_eq!(apportion(1000, &[1, 1, 1]), [334, 333, 333]);
        assert_eq!(apportion(1000, &[0, 0]), [0, 0]);
        assert_eq!(apportion(7, &[]), [] as [u64; 0]);
    }

    proptest! {
        #[test]
        fn shares_add_up_and_are_near(units in 0u64..1 << 40, weights in proptest::collection::vec(0u64..1 << 50, 1..20)) {
            let shares = apportion(units, &weights);
            let whole: u128 = weights.iter().map(|&w| u128::from(w)).sum();
            if whole > 0 {
                prop_assert_eq!(shares.iter().sum::<u64>(), units);
                for (&share, &weight) in shares.iter().zip(&weights) {
                    let exact = u128::from(units) * u128::from(weight);
                    prop_assert!((u128::from(share) * whole).abs_diff(exact) < whole);
                }
            }
        }
    }
}
