//! By the cost of getting pages back, and of scanning in vain (6.2 on).
//!
//! With the cost of I/O alone, a type whose pages are all in use costs nothing: reclaim scans it
//! again and again, and finds nothing. Here every page that was scanned and not reclaimed counts
//! too. An I/O is the greater cost, and counts 32 times as much. Because old cost fades by the same
//! bound as before, the balance forgets sooner.

use super::cost::ByCost;
use super::{Effort, Weigh, Weights};
use crate::lru::PageType;
use crate::units::SWAP_CLUSTER_MAX;

/// Pages that were costly lately, an I/O with the weight of a batch of scanned pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByCostAndRotations(pub ByCost);

impl Weigh for ByCostAndRotations {
    const NOTES_COST: bool = true;
    const NOTES_ACTIVE: bool = true;

    fn cost(&mut self, page_type: PageType, effort: Effort, evictable: u64) {
        self.0.add(page_type, effort.io * SWAP_CLUSTER_MAX + effort.rotated, evictable);
    }

    fn absorb(&mut self, other: &Self) {
        self.0.absorb(&other.0);
    }

    fn weights(&mut self, swappiness: u64, size: impl Fn(PageType) -> u64) -> Weights {
        self.0.weights(swappiness, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors of rules/scan-budget#cost-rotations.
    #[test]
    fn an_io_counts_as_a_batch_and_a_page_in_vain_as_one() {
        let cost = |io, rotated| {
            let mut notes = ByCostAndRotations::default();
            notes.cost(PageType::Anon, Effort { io, rotated }, 1_000_000);
            notes.0.costs[PageType::Anon as usize]
        };
        assert_eq!((cost(0, 12), cost(32, 32), cost(1, 0)), (12, 1056, 32));
        let mut notes = ByCostAndRotations(ByCost { costs: [249_990, 0] });
        notes.cost(PageType::Anon, Effort { io: 0, rotated: 12 }, 1_000_000);
        assert_eq!(notes.0.costs, [125_001, 0]);
    }
}
