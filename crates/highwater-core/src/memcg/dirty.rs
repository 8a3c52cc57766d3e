//! Dirty limits of a group: pure sums.
//!
//! A group has the same ratios as the machine, of its own dirtyable memory: its file pages, and as
//! much clean memory of the machine as its limits still let it take. So a group of 64 MiB writes
//! with a threshold of about 20 % of 64 MiB, and its anonymous memory lowers it. A writer is held by
//! the stricter of the group's limits and the machine's.
//!
//! The group's page counts are statistics, as late as `memory.stat` ([`super::stats`]).

use crate::units::{GroupId, PAGE_SIZE};
use crate::vmstat::{Counters, UNLIMITED};

/// Ratios count in this part of the dirtyable memory.
const RATIO_UNIT: u64 = PAGE_SIZE as u64;

/// Pages of a group's subtree, and of the machine.
#[doc(alias = "mem_cgroup_wb_stats")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pages {
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

impl Pages {
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

/// A dirty limit's setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// Per cent of the dirtyable memory (`dirty_ratio`).
    Percent(u64),
    /// Bytes (`dirty_bytes`). A group takes them as the share that they are of the machine's
    /// dirtyable memory.
    Bytes(u64),
}

impl Setting {
    /// As a number of 1/4096; 1 at most.
    fn ratio(self, global_avail: u64) -> u64 {
        match self {
            Setting::Percent(percent) => percent * RATIO_UNIT / 100,
            // Bytes per dirtyable page, of 4096: the share that the ratio is.
            Setting::Bytes(bytes) => bytes.div_ceil(global_avail.max(1)).min(RATIO_UNIT),
        }
    }
}

/// Dirty limits of a group, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Writers are throttled above this.
    pub thresh: u64,
    /// The flusher works above this.
    pub background: u64,
}

impl Limits {
    /// Computes the limits of a group, from the settings of writers and of background writeback.
    ///
    /// Linux: the function's part for a group.
    #[doc(alias = "domain_dirty_limits")]
    pub(crate) fn new(pages: &Pages, writers: Setting, background: Setting) -> Limits {
        let avail = pages.avail();
        let limit = |setting: Setting| setting.ratio(pages.global_avail) * avail / RATIO_UNIT;
        let (thresh, background) = (limit(writers), limit(background));
        Limits { thresh, background: if background >= thresh { thresh / 2 } else { background } }
    }

    /// Returns the number of dirty pages below which no writer is throttled.
    ///
    /// Linux: the same for the machine's limits and a group's.
    #[doc(alias = "dirty_freerun_ceiling")]
    pub(crate) const fn freerun(self) -> u64 {
        (self.thresh + self.background) / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: Pages =
        Pages { file: 0, dirty: 0, headroom: 16_384, global_avail: 100_000, global_dirty: 0 };

    fn limits(pages: Pages) -> (u64, u64, u64) {
        let Limits { thresh, background } =
            Limits::new(&pages, Setting::Percent(20), Setting::Percent(10));
        (pages.avail(), thresh, background)
    }

    #[test]
    fn limits_are_ratios_of_what_the_group_could_have() {
        assert_eq!(limits(EMPTY), (16_384, 3276, 1636));
        assert_eq!(Limits { thresh: 3276, background: 1636 }.freerun(), 2456);
        let some = Pages { file: 8000, dirty: 2000, headroom: 8000, ..EMPTY };
        assert_eq!(limits(some), (16_000, 3199, 1597));
        let full = Pages { file: 8000, headroom: 0, ..EMPTY };
        assert_eq!(full.avail(), 8000);
    }

    #[test]
    fn dirty_memory_of_others_is_not_to_be_had() {
        let pages =
            Pages { file: 4000, dirty: 4000, headroom: 12_000, global_dirty: 95_000, ..EMPTY };
        let (avail, thresh, _) = limits(pages);
        assert_eq!((avail, thresh), (9000, 1799));
        let all_dirty = Pages { global_dirty: 200_000, ..pages };
        assert_eq!(all_dirty.avail(), 4000);
        // Statistics are late: more dirty pages than file pages.
        assert_eq!(Pages { dirty: 5000, ..pages }.avail(), 9000);
    }

    #[test]
    fn bytes_count_as_a_share_of_the_machine() {
        let writers = Setting::Bytes(20_000 << 12);
        let limits = Limits::new(&EMPTY, writers, Setting::Bytes(90_000 << 12));
        assert_eq!(limits.thresh, 820 * 16_384 / 4096);
        assert_eq!(limits.background, limits.thresh / 2, "background must be below");
        let all = Limits::new(&EMPTY, Setting::Bytes(1 << 40), Setting::Percent(10));
        assert_eq!(all.thresh, 16_384);
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
