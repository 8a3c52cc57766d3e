//! Durations of one cause, in bounded memory: exact sums, and a histogram for percentiles.

use std::collections::BTreeMap;

/// Buckets of each power of two: a percentile is at most a 32nd too long.
const PARTS: u64 = 32;
const PARTS_BITS: u32 = PARTS.ilog2();

/// Durations in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of durations.
    pub number: u64,
    /// Their sum.
    pub total_ns: u64,
    /// The longest.
    pub longest_ns: u64,
    /// The time at which the longest ended.
    pub longest_at_ns: u64,
    buckets: BTreeMap<u16, u64>,
}

impl Tally {
    /// Counts a duration that ended at a time.
    pub(super) fn record(&mut self, ns: u64, at_ns: u64) {
        self.number += 1;
        self.total_ns = self.total_ns.saturating_add(ns);
        if ns >= self.longest_ns {
            (self.longest_ns, self.longest_at_ns) = (ns, at_ns);
        }
        *self.buckets.entry(bucket(ns)).or_default() += 1;
    }

    /// Adds the durations of another.
    pub(super) fn merge(&mut self, other: &Tally) {
        self.number += other.number;
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        if other.longest_ns >= self.longest_ns {
            (self.longest_ns, self.longest_at_ns) = (other.longest_ns, other.longest_at_ns);
        }
        for (bucket, number) in &other.buckets {
            *self.buckets.entry(*bucket).or_default() += number;
        }
    }

    /// The duration that 99 of 100 do not exceed; `None` without durations.
    #[must_use]
    pub fn p99_ns(&self) -> Option<u64> {
        let rank = self.number - self.number / 100;
        let mut seen = 0;
        for (bucket, number) in &self.buckets {
            seen += number;
            if seen >= rank {
                return Some(longest_of(*bucket).min(self.longest_ns));
            }
        }
        None
    }
}

fn bucket(ns: u64) -> u16 {
    if ns < PARTS {
        return ns as u16;
    }
    let shift = ns.ilog2() - PARTS_BITS;
    // At most 58 * 32 + 63.
    (u64::from(shift) * PARTS + (ns >> shift)) as u16
}

/// The longest duration of a bucket.
fn longest_of(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    if bucket < PARTS {
        return bucket;
    }
    let shift = bucket / PARTS - 1;
    let first = bucket - shift * PARTS;
    (first << shift) + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_in_its_bucket() {
        let near = (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        for ns in near.chain([u64::MAX, 12_345, 98_765_432_100]) {
            let longest = longest_of(bucket(ns));
            assert!(longest >= ns && longest - ns <= ns / PARTS, "{ns}: {longest}");
        }
    }

    #[test]
    fn percentiles_of_few_and_many() {
        let mut tally = Tally::default();
        assert_eq!(tally.p99_ns(), None);
        tally.record(7_000, 1);
        assert_eq!(tally.p99_ns(), Some(7_000));
        (0..99).for_each(|_| tally.record(10, 2));
        assert_eq!(tally.p99_ns(), Some(10));
        let mut other = Tally::default();
        (0..100).for_each(|_| other.record(9_000, 3));
        tally.merge(&other);
        assert_eq!((tally.number, tally.longest_ns, tally.longest_at_ns), (200, 9_000, 3));
        assert_eq!(tally.p99_ns(), Some(9_000));
    }
}
