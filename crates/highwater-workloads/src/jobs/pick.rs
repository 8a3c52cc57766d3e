//! Access patterns: the choice of the next page or block.

use crate::random::Random;

/// An order of accesses to the pages of a VMA or the blocks of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// One after the other, wrapping around.
    Sequential,
    /// Every n-th, then their neighbours.
    Strided(u64),
    /// Any, all equally likely.
    Uniform,
    /// Zipf: the k-th most used one is used k^exponent times less often than the most used. The
    /// most used ones are scattered, and are the same for all tasks.
    Zipf(f64),
    /// A share of them gets a share of the accesses; the others get the rest.
    Hot {
        /// The share that is hot.
        share: f64,
        /// Its share of the accesses.
        accesses: f64,
    },
    /// Any in a window that moves by one after a number of accesses.
    Drift {
        /// Size of the window, a share.
        share: f64,
        /// Accesses per step.
        every: u64,
    },
    /// Any in a window that jumps to a random place after a number of accesses.
    Jump {
        /// Size of the window, a share.
        share: f64,
        /// Accesses per jump.
        every: u64,
    },
    /// One after the other, except every n-th, beginning with the first.
    Except(u64),
    /// Each once in a random order, then the same order again: pointer chasing.
    Chase,
    /// The part of a file that is new since the last time, one after the other: `tail -f`.
    Follow,
}

/// Draws numbers below `n` in a pattern.
pub(super) struct Picker {
    pattern: Pattern,
    n: u64,
    count: u64,
    window: u64,
    random: Random,
    zipf: Option<Zipf>,
}

impl Picker {
    /// `n` is not 0.
    pub(super) fn new(pattern: Pattern, n: u64, seed: u64) -> Picker {
        let zipf = match pattern {
            Pattern::Zipf(exponent) => Some(Zipf::new(n, exponent)),
            _ => None,
        };
        Picker { pattern, n, count: 0, window: 0, random: Random::new(seed), zipf }
    }

    /// Accesses until a pattern has been everywhere that it goes, or `n` for random ones.
    pub(super) const fn round(pattern: Pattern, n: u64) -> u64 {
        match pattern {
            Pattern::Except(stride) => n - n.div_ceil(if stride == 0 { 1 } else { stride }),
            _ => n,
        }
    }

    pub(super) fn next(&mut self) -> u64 {
        let (at, n) = (self.count, self.n);
        self.count += 1;
        let part = |share: f64| ((share * n as f64) as u64).clamp(1, n);
        match self.pattern {
            Pattern::Sequential | Pattern::Follow => at % n,
            Pattern::Strided(stride) => strided(at % n, stride.clamp(1, n), n),
            Pattern::Uniform => self.random.below(n),
            Pattern::Zipf(_) => {
                let rank = self.zipf.as_ref().map_or(0, |zipf| zipf.rank(&mut self.random));
                scattered(rank, n)
            }
            Pattern::Hot { share, accesses } => {
                let hot = part(share);
                let is_hot = self.random.fraction() < accesses;
                let rank = match is_hot || hot == n {
                    true => self.random.below(hot),
                    false => hot + self.random.below(n - hot),
                };
                scattered(rank, n)
            }
            Pattern::Drift { share, every } => {
                let start = at / every.max(1) % n;
                (start + self.random.below(part(share))) % n
            }
            Pattern::Jump { share, every } => {
                if at.is_multiple_of(every.max(1)) {
                    self.window = self.random.below(n);
                }
                (self.window + self.random.below(part(share))) % n
            }
            Pattern::Except(stride) => {
                let at = at % Picker::round(self.pattern, n).max(1);
                // Number of blocks between two that are left out.
                let between = stride.max(2) - 1;
                (at / between * stride.max(2) + at % between + 1).min(n - 1)
            }
            Pattern::Chase => scattered(at % n, n),
        }
    }
}

/// The `at`-th of `n` when every `stride`-th is taken first, from 0, then from 1 and so on.
fn strided(at: u64, stride: u64, n: u64) -> u64 {
    // The first columns are longer by one if the last row is not full.
    let (rows, rest) = (n / stride, n % stride);
    let long = rest * (rows + 1);
    match at < long {
        true => at % (rows + 1) * stride + at / (rows + 1),
        false => (at - long) % rows * stride + rest + (at - long) / rows,
    }
}

/// A permutation of the numbers below `n`, always the same, that separates neighbours.
fn scattered(at: u64, n: u64) -> u64 {
    // Permutes below the next power of two, repeatedly until the result is below `n`.
    let bits = u64::BITS - (n - 1).leading_zeros();
    let mask = if bits == 0 { 0 } else { u64::MAX >> (u64::BITS - bits) };
    let shift = bits.div_ceil(2).max(1);
    let mut at = at;
    loop {
        at = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
        at ^= at >> shift;
        at = at.wrapping_mul(0xbf58_476d_1ce4_e5b9) & mask;
        at ^= at >> shift;
        if at < n {
            return at;
        }
    }
}

/// Ranks of a Zipf distribution, by rejection from the integral of its density (Hörmann and
/// Derflinger 1996): as fast for a billion as for ten. Logarithms are libm's, so that the same seed
/// draws the same numbers everywhere.
struct Zipf {
    n: u64,
    exponent: f64,
    first: f64,
    last: f64,
    near: f64,
}

impl Zipf {
    fn new(n: u64, exponent: f64) -> Zipf {
        let zipf = Zipf { n, exponent, first: 0.0, last: 0.0, near: 0.0 };
        let first = zipf.integral(1.5) - 1.0;
        let last = zipf.integral(n as f64 + 0.5);
        let near = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        Zipf { first, last, near, ..zipf }
    }

    /// From 0.
    fn rank(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.last + random.fraction() * (self.first - self.last);
            let x = self.inverse(u);
            let k = libm::floor(x + 0.5).clamp(1.0, self.n as f64);
            if k - x <= self.near || u >= self.integral(k + 0.5) - self.density(k) {
                return k as u64 - 1;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        libm::exp(-self.exponent * libm::log(x))
    }

    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        let t = (1.0 - self.exponent) * log;
        // expm1(t) / t, which is 1 at 0.
        let ratio = if t.abs() > 1e-8 { libm::expm1(t) / t } else { 1.0 + t / 2.0 };
        ratio * log
    }

    fn inverse(&self, x: f64) -> f64 {
        let t = (x * (1.0 - self.exponent)).max(-1.0);
        let ratio = if t.abs() > 1e-8 { libm::log1p(t) / t } else { 1.0 - t / 2.0 };
        libm::exp(ratio * x)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn drawn(pattern: Pattern, n: u64, count: usize) -> Vec<u64> {
        let mut picker = Picker::new(pattern, n, 7);
        (0..count).map(|_| picker.next()).collect()
    }

    #[test]
    fn orders_without_chance_visit_each_once() {
        assert_eq!(drawn(Pattern::Sequential, 3, 5), [0, 1, 2, 0, 1]);
        assert_eq!(drawn(Pattern::Strided(3), 8, 8), [0, 3, 6, 1, 4, 7, 2, 5]);
        assert_eq!(drawn(Pattern::Except(3), 8, 6), [1, 2, 4, 5, 7, 1]);
        assert_eq!(drawn(Pattern::Except(8), 9, 8), [1, 2, 3, 4, 5, 6, 7, 1]);
        assert_eq!(drawn(Pattern::Except(2), 5, 3), [1, 3, 1]);
        assert_eq!(Picker::round(Pattern::Except(1), 5), 0, "all are left out");
        for n in [1, 2, 3, 7, 512, 1000] {
            for pattern in [Pattern::Strided(7), Pattern::Chase] {
                let all: BTreeSet<u64> = drawn(pattern, n, n as usize).into_iter().collect();
                assert!(all.into_iter().eq(0..n), "{pattern:?} of {n}");
            }
        }
        let chase = drawn(Pattern::Chase, 1000, 1000);
        let neighbours = chase.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == 1).count();
        assert!(neighbours < 20, "{neighbours}");
    }

    #[test]
    fn chance_stays_below_n_and_is_the_same_again() {
        let patterns = [
            Pattern::Uniform,
            Pattern::Zipf(0.99),
            Pattern::Zipf(1.0),
            Pattern::Zipf(2.5),
            Pattern::Hot { share: 0.1, accesses: 0.9 },
            Pattern::Drift { share: 0.2, every: 3 },
            Pattern::Jump { share: 0.2, every: 50 },
        ];
        for pattern in patterns {
            for n in [1, 2, 10, 100_000] {
                let all = drawn(pattern, n, 500);
                assert!(all.iter().all(|&at| at < n), "{pattern:?} of {n}");
                assert_eq!(all, drawn(pattern, n, 500));
            }
        }
    }

    #[test]
    fn zipf_has_its_frequencies() {
        let (n, count) = (1000, 200_000);
        for exponent in [0.8, 1.0, 1.2] {
            let mut random = Random::new(3);
            let zipf = Zipf::new(n, exponent);
            let mut counts = vec![0.0; n as usize];
            (0..count).for_each(|_| counts[zipf.rank(&mut random) as usize] += 1.0);
            let sum: f64 = (1..=n).map(|k| (k as f64).powf(-exponent)).sum();
            for k in [1, 2, 3, 10, 100] {
                let expected = f64::from(count) * (k as f64).powf(-exponent) / sum;
                let got: f64 = counts[k - 1];
                let deviation = 5.0 * expected.sqrt();
                assert!((got - expected).abs() < deviation, "{exponent}: {k}: {got}, {expected}");
            }
        }
    }

    #[test]
    fn hot_pages_get_their_share() {
        let pattern = Pattern::Hot { share: 0.1, accesses: 0.9 };
        let mut counts = vec![0; 1000];
        drawn(pattern, 1000, 100_000).into_iter().for_each(|at| counts[at as usize] += 1);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let hot: i32 = counts[..100].iter().sum();
        assert!((89_000..91_000).contains(&hot), "{hot}");
    }

    #[test]
    fn windows_move() {
        let drift = drawn(Pattern::Drift { share: 0.1, every: 1 }, 100, 100);
        assert!(drift.iter().enumerate().all(|(at, &page)| (page + 100 - at as u64) % 100 < 10));
        let jump = drawn(Pattern::Jump { share: 0.01, every: 10 }, 100, 100);
        assert!(jump.chunks(10).all(|same| same.iter().all(|page| page == &same[0])));
        assert!(jump.iter().collect::<BTreeSet<_>>().len() > 5);
    }
}
