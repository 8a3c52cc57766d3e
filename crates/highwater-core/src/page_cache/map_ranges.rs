//! The VMAs that map a file, and the pages that each maps.
//!
//! For every page that reclaim checks, a walk of its mappings goes over all ranges of its file.
//! Ranges change only with VMAs. So they are in one sorted array.
//!
//! Key types: [`MapRange`], [`MapRanges`].
//!
//! Synchronisation: behind a `Table` lock (`File::mappings`).
//!
//! From: `vm::mapping` (VMAs), `vm::rmap` (walks).

use alloc::vec::Vec;

use crate::page::MmId;
use crate::sync::changes::Changes;

/// A range of a file that an address space maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MapRange {
    /// The mm that maps it.
    pub mm: MmId,
    /// First virtual page.
    pub start: u32,
    /// Virtual page after the last.
    pub end: u32,
    /// Page of the file at `start`.
    pub file_page: u32,
}

impl MapRange {
    /// Of no mm: to fill a buffer with.
    pub(crate) const NONE: MapRange = MapRange { mm: MmId(0), start: 0, end: 0, file_page: 0 };

    /// Where the range maps page `index` of its file.
    #[inline(always)]
    pub(crate) const fn vpn_of(&self, index: u32) -> Option<u32> {
        match index.checked_sub(self.file_page) {
            Some(offset) if offset < self.end - self.start => Some(self.start + offset),
            _ => None,
        }
    }
}

/// The ranges of a file that are mapped, ordered by mm and address.
#[derive(Debug, Default)]
pub(crate) struct MapRanges {
    ranges: Vec<MapRange>,
    changes: Changes,
}

impl MapRanges {
    /// Adds a VMA's range to the file's mappings.
    #[doc(alias = "vma_interval_tree_insert")]
    pub(crate) fn insert(&mut self, range: MapRange) {
        if let Err(at) = self.ranges.binary_search(&range) {
            self.ranges.insert(at, range);
            self.changes.count();
        }
    }

    /// Removes a VMA's range from the file's mappings.
    #[doc(alias = "vma_interval_tree_remove")]
    pub(crate) fn remove(&mut self, range: &MapRange) {
        if let Ok(at) = self.ranges.binary_search(range) {
            self.ranges.remove(at);
            self.changes.count();
        }
    }

    /// Ranges that came or went.
    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// All, in order.
    pub(crate) fn all(&self) -> &[MapRange] {
        &self.ranges
    }

    /// The ranges after a given one, which need not exist any more.
    #[inline(always)]
    pub(crate) fn after(&self, last: Option<&MapRange>) -> &[MapRange] {
        match last {
            None => &self.ranges,
            Some(last) => &self.ranges[self.ranges.partition_point(|range| range <= last)..],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_kept_in_order_and_once() {
        let of = |mm, start| MapRange { mm: MmId(mm), start, end: start + 4, file_page: 2 };
        let mut ranges = MapRanges::default();
        for range in [of(2, 0), of(1, 8), of(1, 0), of(1, 8)] {
            ranges.insert(range);
        }
        assert_eq!(ranges.changes().get(), 3, "one was there");
        assert_eq!(ranges.all(), [of(1, 0), of(1, 8), of(2, 0)]);
        assert_eq!(ranges.after(Some(&of(1, 4))), [of(1, 8), of(2, 0)]);
        ranges.remove(&of(1, 8));
        ranges.remove(&of(1, 4));
        assert_eq!(ranges.changes().get(), 4, "one was not there");
        assert_eq!(ranges.all(), [of(1, 0), of(2, 0)]);
        assert_eq!(ranges.after(Some(&of(1, 8))), [of(2, 0)], "one that is gone");
        assert!(ranges.after(Some(&of(2, 0))).is_empty());
        assert_eq!(
            [1, 2, 5, 6].map(|index| of(1, 8).vpn_of(index)),
            [None, Some(8), Some(11), None]
        );
    }
}
