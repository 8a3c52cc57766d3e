//! Page counters: a group's usage against its limits, added up to the root.
//!
//! A charge counts at the group and at each of its ancestors, so a limit bounds the whole subtree.
//! A counter also tells its parent how much of its usage is protected: `min(usage, setting)`. The
//! parent has the sum over its children at hand when reclaim asks who is entitled to what.
//!
//! Key types: [`Counter`] (one group's), [`Counters`] (all groups'), [`Over`] (a refusal). A
//! machine has one set for memory and one for swap. The root's counter holds what its descendants
//! charge; charges of the root itself are free, and callers do not make them.
//!
//! In a version 1 hierarchy the memory counters have a second set, for memory and swap together
//! (`memsw`). Each charge of memory is charged there first, and each uncharge counts there too. A
//! page that goes to swap leaves the first set only.
//!
//! Synchronisation: none. A charge adds first and compares afterwards, so `usage <= max` holds
//! without a lock, and a large attempt that fails may make a small one beside it fail too.

use alloc::boxed::Box;
use core::iter;
use core::ops::Index;

use crate::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use crate::units::{GroupId, PAGE_SIZE};

/// The value of a limit that is not set ("max"), in pages.
#[doc(alias = "PAGE_COUNTER_MAX")]
pub(crate) const UNLIMITED: u64 = (1 << 63) / PAGE_SIZE as u64;

/// The counter of a group. All values are pages, except `failcnt`.
#[doc(alias = "page_counter")]
#[derive(Debug)]
pub(crate) struct Counter {
    /// At most `max`, except after a forced charge or a lowered limit.
    usage: AtomicU64,
    /// Settings, from 0 to [`UNLIMITED`].
    min: AtomicU64,
    low: AtomicU64,
    high: AtomicU64,
    max: AtomicU64,
    /// The highest usage so far.
    peak: AtomicU64,
    /// Attempts that `max` refused.
    failcnt: AtomicU64,
    /// Protection that the last walk granted.
    emin: AtomicU64,
    elow: AtomicU64,
    /// `min(usage, min)` as last reported to the parent.
    min_usage: AtomicU64,
    low_usage: AtomicU64,
    /// Sums of the children's reports.
    children_min_usage: AtomicU64,
    children_low_usage: AtomicU64,
}

/// Defines a reader for each field.
macro_rules! readers {
    ($($(#[doc = $doc:literal])* $field:ident)*) => {$(
        $(#[doc = $doc])*
        #[inline]
        pub(crate) fn $field(&self) -> u64 {
            self.$field.load(Relaxed)
        }
    )*};
}

impl Counter {
    fn new() -> Counter {
        let zero = || AtomicU64::new(0);
        Counter {
            usage: zero(),
            min: zero(),
            low: zero(),
            high: AtomicU64::new(UNLIMITED),
            max: AtomicU64::new(UNLIMITED),
            peak: zero(),
            failcnt: zero(),
            emin: zero(),
            elow: zero(),
            min_usage: zero(),
            low_usage: zero(),
            children_min_usage: zero(),
            children_low_usage: zero(),
        }
    }

    readers! {
        /// Pages charged to the group and its descendants.
        usage
        /// Hard protection.
        min
        /// Best-effort protection.
        low
        /// The limit above which the group is slowed down.
        high
        /// The limit that refuses charges.
        max
        /// The highest usage so far.
        peak
        /// Charges that `max` refused.
        failcnt
        /// Hard protection that the last walk granted.
        emin
        /// Best-effort protection that the last walk granted.
        elow
        /// The children's usage within their `min`.
        children_min_usage
        /// The children's usage within their `low`.
        children_low_usage
    }

    /// Pages over `high`, 0 if not over.
    pub(crate) fn over_high(&self) -> u64 {
        self.usage().saturating_sub(self.high())
    }

    /// Stores the protection that a walk computed.
    pub(crate) fn protect(&self, emin: u64, elow: u64) {
        self.emin.store(emin, Relaxed);
        self.elow.store(elow, Relaxed);
    }

    fn raise_peak(&self, usage: u64) {
        if usage > self.peak() {
            self.peak.fetch_max(usage, Relaxed);
        }
    }
}

/// A charge was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Over {
    /// The group whose limit refused.
    pub group: GroupId,
    /// It was the limit of memory and swap together: swapping does not help.
    pub is_memsw: bool,
}

/// The counters of all groups, by [`GroupId`].
#[derive(Debug)]
pub(crate) struct Counters {
    counters: Box<[Counter]>,
    /// The root's is the root itself.
    parents: Box<[AtomicU16]>,
    /// Memory and swap together, of memory counters in a version 1 hierarchy.
    memsw: Option<Box<Counters>>,
}

impl Index<GroupId> for Counters {
    type Output = Counter;

    #[inline]
    fn index(&self, group: GroupId) -> &Counter {
        &self.counters[group.idx()]
    }
}

impl Counters {
    /// Counters of `capacity` groups, the root among them. Every group starts as a child of the
    /// root without limits.
    pub(crate) fn new(capacity: usize) -> Counters {
        assert!((1..=usize::from(u16::MAX)).contains(&capacity), "the root, and groups by u16");
        Counters {
            counters: iter::repeat_with(Counter::new).take(capacity).collect(),
            parents: iter::repeat_with(|| AtomicU16::new(0)).take(capacity).collect(),
            memsw: None,
        }
    }

    /// The same for memory in a version 1 hierarchy: every charge counts for memory and swap
    /// together too.
    pub(crate) fn with_memsw(capacity: usize) -> Counters {
        let memsw = Some(Box::new(Counters::new(capacity)));
        Counters { memsw, ..Counters::new(capacity) }
    }

    /// Counters of memory and swap together, if the hierarchy is version 1.
    #[inline]
    pub(crate) fn memsw(&self) -> Option<&Counters> {
        self.memsw.as_deref()
    }

    /// Makes a number's counter that of a new group below `parent`: nothing charged, no limits, no
    /// protection.
    pub(crate) fn reset(&self, group: GroupId, parent: GroupId) {
        assert!(!group.is_root() && group != parent, "{group:?} below {parent:?}");
        let counter = &self[group];
        debug_assert_eq!(counter.min_usage.load(Relaxed) + counter.low_usage.load(Relaxed), 0);
        let Counter { usage, min, low, high, max, peak, failcnt, .. } = counter;
        let Counter { emin, elow, min_usage, low_usage, .. } = counter;
        let Counter { children_min_usage, children_low_usage, .. } = counter;
        for limit in [high, max] {
            limit.store(UNLIMITED, Relaxed);
        }
        for cell in [usage, min, low, peak, failcnt, emin, elow, min_usage, low_usage] {
            cell.store(0, Relaxed);
        }
        for sum in [children_min_usage, children_low_usage] {
            sum.store(0, Relaxed);
        }
        self.parents[group.idx()].store(parent.0, Relaxed);
        if let Some(memsw) = self.memsw() {
            memsw.reset(group, parent);
        }
    }

    /// The parent of a group; none for the root.
    #[doc(alias = "parent_mem_cgroup")]
    #[inline]
    pub(crate) fn parent(&self, group: GroupId) -> Option<GroupId> {
        (!group.is_root()).then(|| GroupId(self.parents[group.idx()].load(Relaxed)))
    }

    /// A group and its ancestors, the root last.
    pub(crate) fn ancestors(&self, group: GroupId) -> impl Iterator<Item = GroupId> {
        iter::successors(Some(group), |&group| self.parent(group))
    }

    /// True if `group` is `root` or a descendant of it.
    #[doc(alias = "mem_cgroup_is_descendant")]
    pub(crate) fn is_within(&self, group: GroupId, root: GroupId) -> bool {
        root.is_root() || self.ancestors(group).any(|each| each == root)
    }

    /// Charges pages to a group and its ancestors, unless that would put one of them above its
    /// `max`. Memory and swap together are charged first.
    ///
    /// # Errors
    /// The group whose `max` refused, the lowest one. Nothing is charged then.
    #[doc(alias = "page_counter_try_charge")]
    pub(crate) fn try_charge(&self, group: GroupId, pages: u64) -> Result<(), Over> {
        if let Some(memsw) = self.memsw() {
            memsw.try_charge_own(group, pages).map_err(|group| Over { group, is_memsw: true })?;
        }
        self.try_charge_own(group, pages).map_err(|over| {
            if let Some(memsw) = self.memsw() {
                memsw.uncharge(group, pages);
            }
            Over { group: over, is_memsw: false }
        })
    }

    /// The same in this set alone.
    fn try_charge_own(&self, group: GroupId, pages: u64) -> Result<(), GroupId> {
        for at in self.ancestors(group) {
            let counter = &self[at];
            let usage = counter.usage.fetch_add(pages, Relaxed) + pages;
            if usage > counter.max() {
                counter.usage.fetch_sub(pages, Relaxed);
                self.report_protected(at);
                counter.failcnt.fetch_add(1, Relaxed);
                for below in self.ancestors(group).take_while(|&below| below != at) {
                    self.subtract(below, pages);
                }
                return Err(at);
            }
            self.report_protected(at);
            counter.raise_peak(usage);
        }
        Ok(())
    }

    /// Charges pages to a group and its ancestors, even above their limits.
    #[doc(alias = "page_counter_charge")]
    pub(crate) fn charge(&self, group: GroupId, pages: u64) {
        if let Some(memsw) = self.memsw() {
            memsw.charge(group, pages);
        }
        for at in self.ancestors(group) {
            let usage = self[at].usage.fetch_add(pages, Relaxed) + pages;
            self.report_protected(at);
            self[at].raise_peak(usage);
        }
    }

    /// Takes pages off a group and its ancestors.
    #[doc(alias = "page_counter_uncharge")]
    pub(crate) fn uncharge(&self, group: GroupId, pages: u64) {
        self.uncharge_own(group, pages);
        if let Some(memsw) = self.memsw() {
            memsw.uncharge_own(group, pages);
        }
    }

    /// Takes pages off this set alone: they went to swap, so memory and swap together stay.
    pub(crate) fn uncharge_own(&self, group: GroupId, pages: u64) {
        self.ancestors(group).for_each(|at| self.subtract(at, pages));
    }

    /// Takes pages off a group that its parent goes on paying for.
    pub(crate) fn hand_up(&self, group: GroupId, pages: u64) {
        self.subtract(group, pages);
        if let Some(memsw) = self.memsw() {
            memsw.subtract(group, pages);
        }
    }

    /// Sets the hard protection of a group.
    #[doc(alias = "page_counter_set_min")]
    pub(crate) fn set_min(&self, group: GroupId, pages: u64) {
        self[group].min.store(pages, Relaxed);
        self.ancestors(group).for_each(|at| self.report_protected(at));
    }

    /// Sets the best-effort protection of a group.
    #[doc(alias = "page_counter_set_low")]
    pub(crate) fn set_low(&self, group: GroupId, pages: u64) {
        self[group].low.store(pages, Relaxed);
        self.ancestors(group).for_each(|at| self.report_protected(at));
    }

    /// Sets the limit above which a group is slowed down.
    #[doc(alias = "page_counter_set_high")]
    pub(crate) fn set_high(&self, group: GroupId, pages: u64) {
        self[group].high.store(pages, Relaxed);
    }

    /// Sets the limit that refuses charges, also below the usage: the caller then reclaims.
    ///
    /// Linux: fails if the usage is higher, which only version 1 needs: [`Self::lower_max`].
    pub(crate) fn set_max(&self, group: GroupId, pages: u64) {
        self[group].max.store(pages, Relaxed);
    }

    /// Sets the limit, unless the usage is higher (version 1). True if it is set.
    #[doc(alias = "page_counter_set_max")]
    pub(crate) fn lower_max(&self, group: GroupId, pages: u64) -> bool {
        let before = self[group].max.swap(pages, Relaxed);
        // A charge that came between the two saw either limit.
        let fits = self[group].usage() <= pages;
        if !fits {
            self[group].max.store(before, Relaxed);
        }
        fits
    }

    /// Returns how many pages the group's own limits still allow.
    #[doc(alias = "mem_cgroup_margin")]
    pub(crate) fn margin(&self, group: GroupId) -> u64 {
        let own = self[group].max().saturating_sub(self[group].usage());
        self.memsw().map_or(own, |memsw| own.min(memsw.margin(group)))
    }

    /// Takes pages off one counter.
    #[doc(alias = "page_counter_cancel")]
    fn subtract(&self, group: GroupId, pages: u64) {
        let before = self[group].usage.fetch_sub(pages, Relaxed);
        debug_assert!(before >= pages, "{group:?}: {before} pages, uncharge {pages}");
        self.report_protected(group);
    }

    /// Brings the parent's sums of protected usage up to date with one child's usage and settings.
    #[doc(alias = "propagate_protected_usage")]
    #[inline(always)]
    fn report_protected(&self, group: GroupId) {
        let child = &self[group];
        let reported = child.min_usage.load(Relaxed) | child.low_usage.load(Relaxed);
        // Most groups are not protected, and this is asked for each page.
        if child.min() | child.low() | reported != 0 {
            self.report_to_parent(group);
        }
    }

    #[inline(never)]
    fn report_to_parent(&self, group: GroupId) {
        let Some(parent) = self.parent(group) else { return };
        let (child, parent) = (&self[group], &self[parent]);
        let usage = child.usage();
        for (setting, reported, sum) in [
            (child.min(), &child.min_usage, &parent.children_min_usage),
            (child.low(), &child.low_usage, &parent.children_low_usage),
        ] {
            let protected = usage.min(setting);
            if reported.load(Relaxed) != protected {
                // The sum wraps for a moment if two CPUs report in the other order.
                let before = reported.swap(protected, Relaxed);
                sum.fetch_add(protected.wrapping_sub(before), Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const P: GroupId = GroupId(1);
    const A: GroupId = GroupId(2);
    const B: GroupId = GroupId(3);
    const OVER_P: Over = Over { group: P, is_memsw: false };

    /// Groups A and B below P.
    fn family() -> Counters {
        let counters = Counters::new(4);
        for (group, parent) in [(P, GroupId::ROOT), (A, P), (B, P)] {
            counters.reset(group, parent);
        }
        counters
    }

    fn usages(counters: &Counters) -> [u64; 4] {
        [GroupId::ROOT, P, A, B].map(|group| counters[group].usage())
    }

    #[test]
    fn groups_know_their_ancestors() {
        let counters = family();
        assert_eq!(counters.ancestors(A).collect::<Vec<_>>(), [A, P, GroupId::ROOT]);
        assert_eq!(counters.parent(GroupId::ROOT), None);
        assert!(counters.is_within(A, P) && counters.is_within(A, A));
        assert!(!counters.is_within(P, A) && counters.is_within(P, GroupId::ROOT));
    }

    #[test]
    fn a_parents_limit_refuses_a_childs_charge() {
        let counters = family();
        counters.set_max(P, 100);
        assert_eq!(counters.try_charge(A, 64), Ok(()));
        assert_eq!(counters.try_charge(B, 30), Ok(()));
        assert_eq!(usages(&counters), [94, 94, 64, 30]);
        assert_eq!(counters.try_charge(B, 64), Err(OVER_P));
        assert_eq!(usages(&counters), [94, 94, 64, 30]);
        assert_eq!([P, B].map(|group| counters[group].failcnt()), [1, 0]);
        // The child passed its own limit with the refused pages.
        assert_eq!([P, B].map(|group| counters[group].peak()), [94, 94]);
        assert_eq!(counters.try_charge(B, 6), Ok(()));
        assert_eq!((counters[P].usage(), counters.margin(P)), (100, 0));
    }

    #[test]
    fn forced_charges_pass_the_limit() {
        let counters = family();
        counters.set_max(A, 10);
        counters.charge(A, 12);
        assert_eq!((counters[A].usage(), counters[A].failcnt(), counters.margin(A)), (12, 0, 0));
        counters.uncharge(A, 5);
        assert_eq!((usages(&counters), counters.margin(A)), ([7, 7, 7, 0], 3));
        assert_eq!(counters[P].peak(), 12);
        assert_eq!(counters.margin(B), UNLIMITED);
    }

    #[test]
    fn parents_know_the_protected_usage_of_their_children() {
        let counters = family();
        counters.set_low(A, 20);
        counters.set_min(B, 5);
        let sums = || (counters[P].children_low_usage(), counters[P].children_min_usage());
        counters.charge(A, 12);
        counters.charge(B, 8);
        assert_eq!(sums(), (12, 5));
        counters.charge(A, 12);
        assert_eq!(sums(), (20, 5));
        counters.set_low(A, 30);
        assert_eq!(sums(), (24, 5));
        counters.uncharge(B, 6);
        assert_eq!(sums(), (24, 2));
        counters.set_low(P, 15);
        assert_eq!(counters[GroupId::ROOT].children_low_usage(), 15);
        counters.set_max(P, 26);
        assert_eq!(counters.try_charge(A, 2), Err(OVER_P));
        assert_eq!(sums(), (24, 2));
    }

    #[test]
    fn a_new_group_begins_without_limits() {
        let counters = family();
        counters.set_max(A, 10);
        counters.set_low(A, 5);
        counters.charge(A, 10);
        counters.uncharge(A, 10);
        counters.set_low(A, 0);
        counters.reset(A, B);
        let counter = &counters[A];
        assert_eq!((counter.max(), counter.high(), counter.peak()), (UNLIMITED, UNLIMITED, 0));
        assert_eq!((counters.parent(A), counters[P].children_low_usage()), (Some(B), 0));
    }

    /// A refusal by either limit charges nothing; memory and swap together are asked first.
    #[test]
    fn memory_and_swap_together_are_charged_first() {
        let counters = Counters::with_memsw(4);
        counters.reset(P, GroupId::ROOT);
        counters.reset(A, P);
        let memsw = counters.memsw().unwrap();
        let usage = |group| (counters[group].usage(), memsw[group].usage());
        memsw.set_max(P, 100);
        counters.set_max(P, 90);
        assert_eq!(counters.try_charge(A, 80), Ok(()));
        assert_eq!((usage(A), usage(P)), ((80, 80), (80, 80)));
        let over = |is_memsw| Err(Over { group: P, is_memsw });
        assert_eq!(counters.try_charge(A, 30), over(true), "both are too low");
        assert_eq!((memsw[P].failcnt(), counters[P].failcnt()), (1, 0));
        assert_eq!(counters.try_charge(A, 15), over(false));
        assert_eq!((usage(A), usage(P)), ((80, 80), (80, 80)));
        assert_eq!((memsw[P].failcnt(), counters[P].failcnt()), (1, 1));
        // 60 pages go to swap.
        counters.uncharge_own(A, 60);
        assert_eq!((usage(A), usage(P), counters.margin(P)), ((20, 80), (20, 80), 20));
        assert_eq!(counters.try_charge(A, 21), over(true));
        counters.uncharge(A, 20);
        assert_eq!((usage(A), usage(P)), ((0, 60), (0, 60)));
    }

    #[test]
    fn a_limit_below_the_usage_is_not_set() {
        let counters = family();
        counters.set_max(A, 50);
        counters.charge(A, 20);
        assert!(!counters.lower_max(A, 19));
        assert_eq!(counters[A].max(), 50);
        assert!(counters.lower_max(A, 20));
        assert_eq!((counters[A].max(), counters.margin(A)), (20, 0));
    }
}
