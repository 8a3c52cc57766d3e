//! Memory that a group could dirty: pure sums. `writeback::limits` makes dirty limits of it.
//!
//! A group has the same ratios as the machine, of its own dirtyable memory: its file pages, and as
//! much clean memory of the machine as its limits still let it take. So a group of 64 MiB writes
//! with a threshold of about 20 % of 64 MiB, and its anonymous memory lowers it. A writer is held by
//! the stricter of the group's limits and the machine's.
//!
//! The group's page counts are statistics, as late as `memory.stat`.

use crate::units::GroupId;
use crate::vmstat::{Counters, UNLIMITED};

/// Pages of a group's subtree, and of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupPages {
    /// File pages of the group, active and inactive.
    pub file: u64,
    /// The group's pages that are dirty or under writeback.
    pub dirty: u64,
    /// Pages that the group's limits still allow ([`headroom`]).
    pub headroom: u64,
    /// The machine's dirtyable pages.
    pub global_avail: u64,
    /// The machine's dirty pages.
    pub global_dirty: u64,
}

/// Returns how many pages a group may still charge below the limits (`high` and `max`) of itself
/// and its ancestors, the root aside.
pub(crate) fn headroom(counters: &Counters, group: GroupId) -> u64 {
    let below_root = counters.ancestors(group).filter(|group| !group.is_root());
    let room = |group| {
        let counter = &counters[group];
        counter.max().min(counter.high()).saturating_sub(counter.usage())
    };
    below_root.map(room).min().unwrap_or(UNLIMITED)
}

impl GroupPages {
    /// Returns the group's dirtyable pages: its file pages, and the machine's clean pages that
    /// others have, as far as the group may grow.
    #[doc(alias = "mdtc_calc_avail")]
    pub(crate) fn avail(&self) -> u64 {
        let clean = self.file - self.file.min(self.dirty);
        let global_clean = self.global_avail.saturating_sub(self.global_dirty);
        let others = global_clean.saturating_sub(clean);
        self.file + self.headroom.min(others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: GroupPages =
        GroupPages { file: 0, dirty: 0, headroom: 16_384, global_avail: 100_000, global_dirty: 0 };

    #[test]
    fn memory_below_the_limits_can_be_dirtied() {
        assert_eq!(EMPTY.avail(), 16_384);
        let some = GroupPages { file: 8000, dirty: 2000, headroom: 8000, ..EMPTY };
        assert_eq!(some.avail(), 16_000);
        let full = GroupPages { file: 8000, headroom: 0, ..EMPTY };
        assert_eq!(full.avail(), 8000);
    }

    #[test]
    fn dirty_memory_of_others_is_not_to_be_had() {
        let pages =
            GroupPages { file: 4000, dirty: 4000, headroom: 12_000, global_dirty: 95_000, ..EMPTY };
        assert_eq!(pages.avail(), 9000);
        let all_dirty = GroupPages { global_dirty: 200_000, ..pages };
        assert_eq!(all_dirty.avail(), 4000);
        // Statistics are late: more dirty pages than file pages.
        assert_eq!(GroupPages { dirty: 5000, ..pages }.avail(), 9000);
    }

    #[test]
    fn headroom_is_the_least_of_all_limits_above() {
        let (p, a) = (GroupId(1), GroupId(2));
        let counters = Counters::new(3);
        counters.reset(p, GroupId::ROOT);
        counters.reset(a, p);
        assert_eq!(headroom(&counters, a), UNLIMITED);
        counters.set_max(a, 1000);
        counters.charge(a, 100);
        assert_eq!(headroom(&counters, a), 900);
        counters.set_high(a, 500);
        assert_eq!(headroom(&counters, a), 400);
        counters.set_max(p, 120);
        assert_eq!(headroom(&counters, a), 20);
        counters.set_high(p, 50);
        assert_eq!(headroom(&counters, a), 0);
        assert_eq!(headroom(&counters, GroupId::ROOT), UNLIMITED);
    }
}
