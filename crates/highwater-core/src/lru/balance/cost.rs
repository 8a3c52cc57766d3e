//! By the cost of getting pages back (5.8 to 6.1).
//!
//! The rule does not count how often a type's pages are in use when reclaim scans them. It counts
//! the cost of evicting them: a write to swap, or a read of a page that was evicted too early. Fast
//! swap and a cache that is read repeatedly made the difference, because both look alike to the
//! older rule. So I/O is counted, and pages that are only rotated cost nothing.

use super::{Effort, SWAPPINESS_MAX, Weigh, Weights};
use crate::lru::PageType;

/// Pages that were costly lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByCost {
    /// By [`PageType`]; halved as rules/scan-budget#cost says.
    pub costs: [u64; 2],
}

impl Weigh for ByCost {
    const NOTES_COST: bool = true;

    fn cost(&mut self, page_type: PageType, effort: Effort, evictable: u64) {
        self.add(page_type, effort.io, evictable);
    }

    fn absorb(&mut self, other: &Self) {
        self.costs[0] += other.costs[0];
        self.costs[1] += other.costs[1];
    }

    fn weights(&mut self, swappiness: u64, _size: impl Fn(PageType) -> u64) -> Weights {
        weights(swappiness, self.costs)
    }
}

impl ByCost {
    /// Adds to a type's cost, and lets old cost fade.
    pub(super) fn add(&mut self, page_type: PageType, cost: u64, evictable: u64) {
        self.costs[page_type as usize] += cost;
        self.costs = decayed(self.costs, evictable);
    }
}

/// Costs, halved once they exceed a quarter of the evictable pages. So the last quarter of a turn
/// of the lists counts, whether it took seconds or days.
const fn decayed(costs: [u64; 2], evictable: u64) -> [u64; 2] {
    if costs[0] + costs[1] > evictable / 4 { [costs[0] / 2, costs[1] / 2] } else { costs }
}

/// The weights (rules/scan-budget#fract). The sum of both costs is added to each, so cost alone
/// never takes a type below about a third of the work. A type that is never scanned could not show
/// that it has become cheap again.
const fn weights(swappiness: u64, [anon_cost, file_cost]: [u64; 2]) -> Weights {
    let sum = anon_cost + file_cost;
    let (a, f) = (sum + anon_cost, sum + file_cost);
    let total = a + f;
    let anon = swappiness * (total + 1) / (a + 1);
    let file = (SWAPPINESS_MAX - swappiness) * (total + 1) / (f + 1);
    Weights { anon, file, over: anon + file }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Old costs count less (rules/scan-budget#cost).
    #[test]
    fn costs_beyond_a_quarter_are_halved() {
        assert_eq!(decayed([249_990 + 32, 0], 1_000_000), [125_011, 0]);
        assert_eq!(decayed([90_000 + 32, 150_000], 1_000_000), [90_032, 150_000]);
        assert_eq!(decayed([250_000, 0], 1_000_000), [250_000, 0]);
    }

    /// By rules/scan-budget#fract (`reclaim::budget` applies the weights to list sizes).
    #[test]
    fn weights_follow_costs_and_swappiness() {
        let table = [
            (60, [0, 0], (60, 140, 200)),
            (60, [3000, 1000], (102, 335, 437)),
            (60, [1000, 9000], (163, 221, 384)),
            (100, [0, 0], (100, 100, 200)),
            (0, [0, 0], (0, 200, 200)),
            (100, [1_000_000, 0], (149, 299, 448)),
        ];
        for (swappiness, costs, (anon, file, over)) in table {
            assert_eq!(weights(swappiness, costs), Weights { anon, file, over }, "{costs:?}");
        }
        assert_eq!(weights(200, [0, 1000]).file, 0);
    }
}
