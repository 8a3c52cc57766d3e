//! Draws that the options and the programs of a swarm need besides those of [`Stream`].

use crate::rng::Stream;

/// Draws of a swarm.
pub(super) trait Draw {
    /// One of `items`, all equally likely.
    fn pick<T: Clone>(&mut self, items: &[T]) -> T;
    /// Index of a weight, in proportion to the weights; 0 if all of them are 0.
    fn weighted(&mut self, weights: &[u32]) -> usize;
    /// From `low` to `high` (both included), every order of magnitude equally likely.
    fn magnitude(&mut self, low: u64, high: u64) -> u64;
    /// True once in `n`.
    fn one_in(&mut self, n: u64) -> bool;
}

impl Draw for Stream {
    fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize].clone()
    }

    fn weighted(&mut self, weights: &[u32]) -> usize {
        let total: u64 = weights.iter().copied().map(u64::from).sum();
        let mut left = self.below(total);
        for (index, &weight) in weights.iter().enumerate() {
            if left < u64::from(weight) {
                return index;
            }
            left -= u64::from(weight);
        }
        0
    }

    fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        let low = low.max(1);
        if high <= low {
            return low;
        }
        let (low_bits, high_bits) =
            (u64::BITS - low.leading_zeros(), u64::BITS - high.leading_zeros());
        let bits = self.range(u64::from(low_bits), u64::from(high_bits) + 1) as u32;
        let from = (1u64 << (bits - 1)).max(low);
        let to = (u64::MAX >> (u64::BITS - bits)).min(high);
        self.range(from, to.saturating_add(1))
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magnitudes_stay_within_and_spread_over_all_orders() {
        let mut stream = Stream::new(1, "magnitude");
        let mut counts = [0; 21];
        for _ in 0..10_000 {
            let value = stream.magnitude(3, 1 << 20);
            assert!((3..=1 << 20).contains(&value));
            counts[value.ilog2() as usize] += 1;
        }
        assert!(counts[1..].iter().all(|&count| count > 300), "{counts:?}");
        assert_eq!(stream.magnitude(5, 5), 5);
        assert_eq!(stream.magnitude(0, 0), 1);
        assert!(stream.magnitude(u64::MAX - 1, u64::MAX) >= u64::MAX - 1);
    }

    #[test]
    fn weights_decide() {
        let mut stream = Stream::new(2, "weights");
        let mut counts = [0; 4];
        for _ in 0..4000 {
            counts[stream.weighted(&[0, 1, 3, 0])] += 1;
        }
        assert_eq!((counts[0], counts[3]), (0, 0));
        assert!((800..1200).contains(&counts[1]), "{counts:?}");
        assert_eq!(stream.weighted(&[0, 0]), 0);
    }
}
