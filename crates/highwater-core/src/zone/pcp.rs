//! What one CPU keeps of a zone's pages.

use crate::page::PageList;

/// Most lists any policy has.
const PCP_LISTS_MAX: usize = 15;

/// One CPU's lists of one zone.
#[derive(Debug)]
pub struct Pcp {
    pub(crate) lists: [PageList; PCP_LISTS_MAX],
    pub(crate) count: u32,
    pub(crate) free_factor: u8,
    /// Pages up to which blocks of orders 1 to 3 are kept, where the policy learns it; 0: nothing was learned yet.
    pub(crate) high_limit: u32,
    /// Pages that were given back by that limit and not wanted back since.
    pub(crate) given: u32,
}

impl Default for Pcp {
    fn default() -> Self {
        Pcp {
            lists: [PageList::default(); PCP_LISTS_MAX],
            count: 0,
            free_factor: 0,
            high_limit: 0,
            given: 0,
        }
    }
}

impl Pcp {
    /// Pages on all lists.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Every list, by index.
    pub fn lists(&self) -> &[PageList] {
        &self.lists
    }
}
