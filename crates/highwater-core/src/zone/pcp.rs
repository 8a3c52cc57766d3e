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
}

impl Default for Pcp {
    fn default() -> Self {
        Pcp { lists: [PageList::default(); PCP_LISTS_MAX], count: 0, free_factor: 0 }
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
