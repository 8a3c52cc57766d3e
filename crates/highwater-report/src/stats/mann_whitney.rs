//! The Mann-Whitney rank test: does one run tend to give larger values? It assumes no distribution,
//! so it can be trusted where the t-test cannot: on latencies with a long tail.
//!
//! Exact for samples without ties of up to [`EXACT_MAX`] values each, else the normal approximation
//! with the corrections for ties and continuity.

use statrs::distribution::{ContinuousCDF, Normal};

/// Largest sample for which the exact distribution is counted.
pub const EXACT_MAX: usize = 25;

/// Outcome of the test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MannWhitney {
    /// Pairs (a, b) with b larger than a, ties counting half.
    pub u: f64,
    /// The same as a share of all pairs: 0.5 if neither run tends to larger values.
    pub share: f64,
    /// Two-sided probability of so uneven a share if nothing changed.
    pub p: f64,
}

/// Compares two sample sets; `None` if one is empty.
pub fn test(a: &[f64], b: &[f64]) -> Option<MannWhitney> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let ranks = Ranks::of(a, b);
    let (n, m) = (a.len() as f64, b.len() as f64);
    let u = ranks.sum_b - m * (m + 1.0) / 2.0;
    let exact = ranks.tie_term == 0.0 && a.len() <= EXACT_MAX && b.len() <= EXACT_MAX;
    let p = if exact { exact_p(a.len(), b.len(), u) } else { normal_p(n, m, u, ranks.tie_term) };
    Some(MannWhitney { u, share: u / (n * m), p })
}

struct Ranks {
    /// Sum of the ranks (from 1, ties averaged) of the second set.
    sum_b: f64,
    /// Σ(t³ − t) over groups of t tied values.
    tie_term: f64,
}

impl Ranks {
    fn of(a: &[f64], b: &[f64]) -> Ranks {
        let mut pooled: Vec<(f64, bool)> = a.iter().map(|&value| (value, false)).collect();
        pooled.extend(b.iter().map(|&value| (value, true)));
        pooled.sort_by(|x, y| x.0.total_cmp(&y.0));
        let mut ranks = Ranks { sum_b: 0.0, tie_term: 0.0 };
        let mut nr_before = 0;
        for group in pooled.chunk_by(|x, y| x.0 == y.0) {
            let tied = group.len() as f64;
            let rank = nr_before as f64 + (tied + 1.0) / 2.0;
            ranks.sum_b += rank * group.iter().filter(|(_, of_b)| *of_b).count() as f64;
            ranks.tie_term += tied * tied * tied - tied;
            nr_before += group.len();
        }
        ranks
    }
}

/// Counts the arrangements with a U at least as far from the middle: `ways[u]` after i values of
/// `a` and j of `b` follows from taking the largest value away from either set. All counts stay
/// below 2^53, so they are exact.
fn exact_p(n: usize, m: usize, u: f64) -> f64 {
    let nr_u = n * m + 1;
    // rows[j] = ways for (i, j); start with i = 0: one arrangement, U = 0.
    let mut rows = vec![vec![0.0f64; nr_u]; m + 1];
    for row in &mut rows {
        row[0] = 1.0;
    }
    for i in 1..=n {
        for j in 1..=m {
            // Largest is of b: it exceeds all i values of a. Largest is of a: adds nothing (that is
            // the old rows[j]).
            let (left, right) = rows.split_at_mut(j);
            for value in (i..=i * j).rev() {
                right[0][value] += left[j - 1][value - i];
            }
        }
    }
    let ways = &rows[m];
    let total: f64 = ways.iter().sum();
    let low = u.min((n * m) as f64 - u).round() as usize;
    let tail: f64 = ways[..=low].iter().sum();
    (2.0 * tail / total).min(1.0)
}

fn normal_p(n: f64, m: f64, u: f64, tie_term: f64) -> f64 {
    let all = n + m;
    let variance = n * m / 12.0 * (all + 1.0 - tie_term / (all * (all - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let distance = ((u - n * m / 2.0).abs() - 0.5).max(0.0);
    (2.0 * Normal::standard().sf(distance / variance.sqrt())).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn three_against_three_fully_apart() {
        // One of 20 arrangements on each side: p = 2/20.
        let outcome = test(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).unwrap();
        assert_eq!((outcome.u, outcome.share), (9.0, 1.0));
        assert!((outcome.p - 0.1).abs() < 1e-12);
    }

    #[test]
    fn exact_distribution_by_hand() {
        // 2 against 2: U = 0,1,2,2,3,4 over the six arrangements; U = 1 or less: 2 of 6.
        let outcome = test(&[1.0, 3.0], &[2.0, 0.0]).unwrap();
        assert_eq!(outcome.u, 1.0);
        assert!((outcome.p - 4.0 / 6.0).abs() < 1e-12);
    }

    #[test]
    fn ties_use_the_corrected_normal() {
        // Ranks 1, 2.5, 2.5, 4 | tie term 6: variance = 4/12·(5 − 6/12) = 1.5, U = 4 − 0.5 = 3.5, z
        // = 1/sqrt(1.5).
        let outcome = test(&[1.0, 2.0], &[2.0, 3.0]).unwrap();
        assert_eq!(outcome.u, 3.5);
        let expected = 2.0 * Normal::standard().sf(1.0 / 1.5f64.sqrt());
        assert!((outcome.p - expected).abs() < 1e-12);
    }

    #[test]
    fn equal_constants_and_empty_sets() {
        assert_eq!(test(&[5.0; 4], &[5.0; 3]).unwrap().p, 1.0);
        assert_eq!(test(&[], &[1.0]), None);
    }

    #[test]
    fn approximation_meets_the_exact_value() {
        let a: Vec<f64> = (0..25).map(|i| f64::from(i) * 2.0).collect();
        let b: Vec<f64> = (0..25).map(|i| f64::from(i) * 2.0 + 7.0).collect();
        let exact = test(&a, &b).unwrap();
        let approximate = normal_p(25.0, 25.0, exact.u, 0.0);
        assert!((exact.p - approximate).abs() < 0.005, "{} {approximate}", exact.p);
    }

    proptest! {
        #[test]
        fn u_counts_pairs_and_p_is_symmetric(
            a in proptest::collection::vec(0i32..20, 1..12), b in proptest::collection::vec(0i32..20, 1..12)
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = (a.into_iter().map(f64::from).collect(), b.into_iter().map(f64::from).collect());
            let forward = test(&a, &b).unwrap();
            let naive: f64 = a.iter().flat_map(|x| b.iter().map(move |y| if y > x { 1.0 } else if y == x { 0.5 } else { 0.0 })).sum();
            prop_assert_eq!(forward.u, naive);
            let backward = test(&b, &a).unwrap();
            prop_assert!((forward.p - backward.p).abs() < 1e-12);
            prop_assert!((0.0..=1.0).contains(&forward.p));
        }
    }
}
