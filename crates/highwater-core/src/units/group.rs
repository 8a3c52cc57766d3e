//! Memory cgroups by number.

use core::fmt;

/// Number of a memory cgroup (`struct mem_cgroup`) among all that a kernel can have.
///
/// As Linux's memcg id: 16 bits, the lowest free one first, so the number of a removed group comes
/// back (rules/memory-cgroups#state).
#[doc(alias = "mem_cgroup_id")]
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u16);

impl GroupId {
    /// The root of the tree: no limits, no protection, no usage of its own.
    pub const ROOT: GroupId = GroupId(0);

    /// True of the root.
    #[inline(always)]
    pub const fn is_root(self) -> bool {
        self.0 == 0
    }

    /// As an index.
    #[inline(always)]
    pub const fn idx(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "G{}", self.0)
    }
}
