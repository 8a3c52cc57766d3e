//! Marks entries of a table that no access changes any more: 72 bytes beside the table's 2 KiB.
//!
//! If a program sweeps the same memory again, nearly all entries are young and dirty already. On a
//! host whose tasks take turns, no task can clear a bit in the middle of such a sweep, so the
//! entries need not be checked one by one. [`HotEntries::next_cold`] returns the next entry that an
//! access would change, or that would fault. On hosts with real accesses (`Tasks::THREADED`) the
//! map is not kept.
//!
//! Synchronisation: none. Only the running task writes it; it uses atomics because a table is
//! shared.
//!
//! From: [`super::page_table`].

use core::ops::Range;

use super::PTES;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

const WORD_BITS: usize = u64::BITS as usize;

/// A bit for each entry of a table: set while it is present, writable, young and dirty.
#[derive(Debug)]
#[repr(C)]
pub(super) struct HotEntries {
    /// Their number: nearly always all or none, so one check is enough.
    nr: AtomicU32,
    words: [AtomicU64; PTES / WORD_BITS],
}

impl HotEntries {
    /// None is.
    pub(super) fn none() -> HotEntries {
        let words = [const { AtomicU64::new(0) }; PTES / WORD_BITS];
        HotEntries { nr: AtomicU32::new(0), words }
    }

    /// Entry `index` became hot, or ceased to be.
    #[inline(always)]
    pub(super) fn flip(&self, index: usize) {
        let (word, bit) = (&self.words[index / WORD_BITS], 1 << (index % WORD_BITS));
        let flipped = word.load(Relaxed) ^ bit;
        word.store(flipped, Relaxed);
        let nr = self.nr.load(Relaxed);
        self.nr.store(if flipped & bit != 0 { nr + 1 } else { nr - 1 }, Relaxed);
    }

    /// Are all?
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.nr.load(Relaxed) == PTES as u32
    }

    /// As many as are counted: sweeps ask for the count alone. For audits.
    pub(super) fn is_counted(&self) -> bool {
        let nr: u32 = self.words.iter().map(|word| word.load(Relaxed).count_ones()).sum();
        self.nr.load(Relaxed) == nr
    }

    /// Is entry `index` hot?
    #[inline(always)]
    pub(super) fn has(&self, index: usize) -> bool {
        self.words[index / WORD_BITS].load(Relaxed) & (1 << (index % WORD_BITS)) != 0
    }

    /// The first entry of `range` that is not hot; its end if all are.
    #[inline(always)]
    pub(super) fn next_cold(&self, range: Range<usize>) -> usize {
        let mut at = range.start;
        while at < range.end {
            let cold = !self.words[at / WORD_BITS].load(Relaxed) >> (at % WORD_BITS);
            if cold != 0 {
                return (at + cold.trailing_zeros() as usize).min(range.end);
            }
            at = (at / WORD_BITS + 1) * WORD_BITS;
        }
        range.end
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_full_map_has_no_cold_entry() {
        let map = HotEntries::none();
        for index in 0..PTES {
            assert!(!map.is_full() && map.next_cold(0..PTES) == index);
            map.flip(index);
        }
        assert!(map.is_full() && map.next_cold(7..PTES) == PTES);
        map.flip(64);
        assert!(!map.is_full() && map.next_cold(0..PTES) == 64 && map.next_cold(65..70) == 70);
    }

    #[test]
    fn a_count_that_is_wrong_is_noticed() {
        assert_eq!(size_of::<HotEntries>(), 72, "as is said above");
        let map = HotEntries::none();
        map.flip(100);
        assert!(map.is_counted());
        map.nr.store(PTES as u32, Relaxed);
        assert!(map.is_full() && !map.is_counted());
    }

    proptest! {
        /// Against a table of flags.
        #[test]
        fn the_next_cold_entry_is_the_first_that_is_not_hot(
            flips in prop::collection::vec(0..PTES, 0..900),
            runs in prop::collection::vec((0..PTES, 1..200usize), 0..20),
            start in 0..=PTES,
            len in 0..=PTES,
        ) {
            let (map, mut flags) = (HotEntries::none(), [false; PTES]);
            let runs = runs.into_iter().flat_map(|(at, len)| at..(at + len).min(PTES));
            for index in flips.into_iter().chain(runs) {
                map.flip(index);
                flags[index] = !flags[index];
            }
            let range = start..(start + len).min(PTES);
            let found = range.clone().find(|&at| !flags[at]).unwrap_or(range.end);
            prop_assert_eq!(map.next_cold(range), found);
            prop_assert!((0..PTES).all(|at| map.has(at) == flags[at]));
            prop_assert_eq!(map.is_full(), flags.iter().all(|&hot| hot));
            prop_assert!(map.is_counted());
        }
    }
}
