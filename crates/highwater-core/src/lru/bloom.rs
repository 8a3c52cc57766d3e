//! A Bloom filter over page tables (rules/mglru#filter): the set of tables that were dense.
//!
//! A filter has 2^15 bits (4 KiB). Each added key sets two of them. A key that was added is always
//! found; one that was not is found by chance: with a probability of 0.21 after 10 000 additions,
//! and of 0.50 after 20 000.
//!
//! Synchronisation: bits are set atomically. A reader may miss a key that is being added.
//!
//! From: `reclaim` (walks and look-around), which keys a table by its address space and its range.

use alloc::boxed::Box;

use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::units::splitmix;

/// log2 of the bits.
const SHIFT: u32 = 15;
const WORD_BITS: usize = u64::BITS as usize;
const WORDS: usize = (1 << SHIFT) / WORD_BITS;

/// A set that may also hold keys that were never added.
#[derive(Debug)]
pub(crate) struct BloomFilter {
    words: Box<[AtomicU64]>,
}

/// The two bits of a key: the upper 30 bits of its hash. Neighbouring tables have neighbouring keys,
/// and their bits should be unrelated.
#[doc(alias = "get_item_key")]
const fn bits_of(key: u64) -> [usize; 2] {
    let hash = splitmix(key);
    let mask = (1 << SHIFT) - 1;
    [(hash >> (64 - SHIFT)) as usize, (hash >> (64 - 2 * SHIFT)) as usize & mask]
}

impl BloomFilter {
    /// The empty set.
    pub(crate) fn new() -> BloomFilter {
        BloomFilter { words: (0..WORDS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Adds a key.
    #[doc(alias = "update_bloom_filter")]
    pub(crate) fn add(&self, key: u64) {
        for bit in bits_of(key) {
            let (word, mask) = (&self.words[bit / WORD_BITS], 1 << (bit % WORD_BITS));
            if word.load(Relaxed) & mask == 0 {
                word.fetch_or(mask, Relaxed);
            }
        }
    }

    /// True if the key was added; by chance also if not.
    #[doc(alias = "test_bloom_filter")]
    pub(crate) fn has(&self, key: u64) -> bool {
        bits_of(key)
            .iter()
            .all(|bit| self.words[bit / WORD_BITS].load(Relaxed) >> (bit % WORD_BITS) & 1 != 0)
    }

    /// Removes all keys.
    #[doc(alias = "reset_bloom_filter")]
    pub(crate) fn clear(&self) {
        self.words.iter().for_each(|word| word.store(0, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of tables: 2 MiB apart in some address spaces.
    fn key(nr: u64) -> u64 {
        (nr / 1000) << 32 | (512 + nr % 1000)
    }

    #[test]
    fn what_was_added_is_found_until_all_is_cleared() {
        let filter = BloomFilter::new();
        assert!(!(0..1000).any(|nr| filter.has(key(nr))));
        (0..1000).for_each(|nr| filter.add(key(nr)));
        assert!((0..1000).all(|nr| filter.has(key(nr))));
        filter.clear();
        assert!(!(0..1000).any(|nr| filter.has(key(nr))));
    }

    /// 1 - e^(-2n / 2^15), squared (rules/mglru#filter).
    #[test]
    fn false_positives_grow_as_computed() {
        let filter = BloomFilter::new();
        for (from, to, expected) in [(0, 10_000, 210), (10_000, 20_000, 496)] {
            (from..to).for_each(|nr| filter.add(key(nr)));
            let tried = 1_000_000..1_100_000;
            let found = tried.clone().filter(|&nr| filter.has(key(nr))).count();
            let in_thousand = found * 1000 / tried.count();
            assert!(in_thousand.abs_diff(expected) <= 12, "{to}: {in_thousand} of 1000");
        }
    }
}
