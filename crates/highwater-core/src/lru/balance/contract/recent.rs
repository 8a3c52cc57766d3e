//! By the costs since the last pass: all older records are dropped.

use super::{Effort, SWAPPINESS_MAX, Weigh, Weights};
use crate::lru::PageType;

/// Pages that were costly since the weights were last asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recent {
    /// By [`PageType`].
    costs: [u64; 2],
}

impl Weigh for Recent {
    const NOTES_COST: bool = true;

    fn cost(&mut self, page_type: PageType, effort: Effort, _evictable: u64) {
        self.costs[page_type as usize] += effort.io;
    }

    fn weights(&mut self, swappiness: u64, _size: impl Fn(PageType) -> u64) -> Weights {
        let [of_anon, of_file] = core::mem::take(&mut self.costs);
        let anon = swappiness * (of_file + 1);
        let file = (SWAPPINESS_MAX - swappiness) * (of_anon + 1);
        Weights { anon, file, over: anon + file }
    }
}
