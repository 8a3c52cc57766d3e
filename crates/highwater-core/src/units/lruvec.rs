//! Sets of LRU lists.

use core::fmt;

/// Number of a set of LRU lists (`struct lruvec`) among all of a machine.
///
/// [`crate::lru::Lru`] knows what it belongs to: a node; up to 4.7 a zone; with memory cgroups a
/// node of a group. The number itself has no further meaning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LruVecId(u32);

impl LruVecId {
    /// The set with an index.
    #[inline(always)]
    pub const fn new(index: usize) -> LruVecId {
        LruVecId(index as u32)
    }

    /// As an index.
    #[inline(always)]
    pub const fn idx(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for LruVecId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L{}", self.0)
    }
}
