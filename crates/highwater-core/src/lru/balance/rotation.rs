//! By the share of pages that were found in use (up to 5.7).
//!
//! If most pages of a type are rotated when reclaim scans them, the type is in use, and scanning it
//! is useless. The rule does not detect a type whose pages are evicted, missed and read again,
//! because these are never rotated.

use super::{SWAPPINESS_MAX, Weigh, Weights};
use crate::lru::PageType;

/// Counts pages that were scanned lately, and how many of them were in use, by type.
///
/// Linux up to 5.7.
#[doc(alias = "zone_reclaim_stat")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByRotation {
    /// By [`PageType`]: pages taken off a list.
    pub scanned: [u64; 2],
    /// By [`PageType`]: pages put back although at the tail.
    pub rotated: [u64; 2],
}

impl Weigh for ByRotation {
    const NOTES_COST: bool = false;

    #[inline(always)]
    fn isolated(&mut self, page_type: PageType, pages: u64) {
        self.scanned[page_type as usize] += pages;
    }

    #[inline(always)]
    fn rotated(&mut self, pages: [u64; 2]) {
        self.rotated[0] += pages[0];
        self.rotated[1] += pages[1];
    }

    /// What counts fades here, where it is read: halved once a quarter of the type's pages was scanned
    /// (rules/scan-budget#rotated).
    fn weights(&mut self, swappiness: u64, size: impl Fn(PageType) -> u64) -> Weights {
        for page_type in PageType::ALL {
            let t = page_type as usize;
            if self.scanned[t] > size(page_type) / 4 {
                self.scanned[t] /= 2;
                self.rotated[t] /= 2;
            }
        }
        weights(swappiness, self.scanned, self.rotated)
    }
}

/// The weights. One is added to both counts, so a type that was not scanned lately has a weight: as
/// if all of it were in use.
fn weights(swappiness: u64, scanned: [u64; 2], rotated: [u64; 2]) -> Weights {
    let weight = |share: u64, t: usize| share * (scanned[t] + 1) / (rotated[t] + 1);
    let anon = weight(swappiness, PageType::Anon as usize);
    let file = weight(SWAPPINESS_MAX - swappiness, PageType::File as usize);
    Weights { anon, file, over: anon + file + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_in_use_weighs_less() {
        assert_eq!(weights(60, [0; 2], [0; 2]), Weights { anon: 60, file: 140, over: 201 });
        let busy_anon = weights(60, [99, 99], [99, 0]);
        assert_eq!(busy_anon, Weights { anon: 60, file: 14_000, over: 14_061 });
    }

    #[test]
    fn a_quarter_scanned_is_halved_by_type() {
        let mut notes = ByRotation { scanned: [251, 250], rotated: [101, 100] };
        let got = notes.weights(100, |_| 1000);
        assert_eq!(notes, ByRotation { scanned: [125, 250], rotated: [50, 100] });
        assert_eq!(got, weights(100, [125, 250], [50, 100]));
    }
}
