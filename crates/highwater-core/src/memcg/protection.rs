//! Protection of groups against reclaim, by `memory.min` and `memory.low`: pure sums.
//!
//! A setting is a claim; what it is worth depends on the parent. A walk computes, from the reclaim
//! root down, how much of its usage each group is granted (*effective* protection). Reclaim skips a
//! group that uses no more than that. Above it, reclaim sees the lists as shorter than they are, by
//! the protected share of the usage, so pressure fades in instead of jumping.
//!
//! `min` always holds. `low` is given up in a second round if the first one found nothing
//! ([`Round`]).
//!
//! From: the walk over groups ([`super::walk`]) · to: `reclaim::budget`.

use crate::config::{MemcgPolicy, TargetProtected};
use crate::units::{GroupId, SWAP_CLUSTER_MAX};
use crate::vmstat::Counters;

/// The parent's side of the share that one child gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parent {
    /// Pages that it uses.
    pub usage: u64,
    /// Protection that it was granted itself.
    pub effective: u64,
    /// Its children's usage within their claims, added up.
    pub children_usage: u64,
    /// Protection that no child claims goes to the children's usage beyond their claims (mount
    /// option `memory_recursiveprot`).
    pub is_recursive: bool,
}

/// Computes how much of its `usage` a group is granted, by its `setting` (`min` or `low`) and its
/// parent.
///
/// Claims are counted as far as they are used. If the parent's grant does not cover them all,
/// each child gets the same share of its claim.
#[doc(alias = "effective_protection")]
pub(crate) fn effective(usage: u64, setting: u64, parent: Parent) -> u64 {
    let Parent { effective, children_usage, is_recursive, .. } = parent;
    let claim = usage.min(setting);
    if children_usage > effective {
        return share(claim, effective, children_usage);
    }
    let is_left = effective > children_usage && parent.usage > children_usage && usage > claim;
    if is_recursive && is_left {
        let left = effective - children_usage;
        return claim + share(left, usage - claim, parent.usage - children_usage);
    }
    claim
}

/// `pages * part / of`. A grant may be "max", so the product does not fit 64 bits.
fn share(pages: u64, part: u64, of: u64) -> u64 {
    let share = u128::from(pages) * u128::from(part) / u128::from(of.max(1));
    u64::try_from(share).unwrap_or(u64::MAX >> 1)
}

/// Computes the effective protection of a group that a walk from `root` reaches, and stores it in
/// the group's counter.
///
/// The root of the walk keeps the values of an earlier walk, and so does a group without usage.
/// Below the root of the walk, the settings count as they are.
///
/// Linux 6.12 on: `page_counter_calculate_protection` does the arithmetic.
#[doc(alias = "mem_cgroup_calculate_protection")]
pub(crate) fn calculate(policy: &MemcgPolicy, counters: &Counters, root: GroupId, group: GroupId) {
    let is_recursive = policy.recursive_prot;
    let counter = &counters[group];
    let Some(parent) = counters.parent(group).filter(|_| group != root && counter.usage() != 0)
    else {
        return;
    };
    if parent == root {
        counter.protect(counter.min(), counter.low());
        return;
    }
    let parent = &counters[parent];
    let of = |setting, effective_of_parent, children_usage| {
        let usage = parent.usage();
        let parent = Parent { usage, effective: effective_of_parent, children_usage, is_recursive };
        effective(counter.usage(), setting, parent)
    };
    counter.protect(
        of(counter.min(), parent.emin(), parent.children_min_usage()),
        of(counter.low(), parent.elow(), parent.children_low_usage()),
    );
}

/// Returns whether a protection applies to a group when `root` is reclaimed.
fn applies(policy: &MemcgPolicy, root: GroupId, group: GroupId) -> bool {
    let counts_root = policy.target_protected == TargetProtected::StaleAllowed;
    !group.is_root() && (group != root || counts_root)
}

/// Reports whether reclaim of `root` must leave a group alone.
#[doc(alias = "mem_cgroup_below_min")]
pub(crate) fn below_min(
    policy: &MemcgPolicy,
    counters: &Counters,
    root: GroupId,
    group: GroupId,
) -> bool {
    applies(policy, root, group) && counters[group].emin() >= counters[group].usage()
}

/// Reports whether reclaim of `root` leaves a group alone in its first round.
#[doc(alias = "mem_cgroup_below_low")]
pub(crate) fn below_low(
    policy: &MemcgPolicy,
    counters: &Counters,
    root: GroupId,
    group: GroupId,
) -> bool {
    applies(policy, root, group) && counters[group].elow() >= counters[group].usage()
}

/// The rounds of a reclaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// `low` holds.
    First,
    /// The first round got nothing and met groups under `low`: only `min` holds
    /// (`memcg_low_reclaim`).
    IgnoresLow,
}

/// Effective protection of a group in a reclaim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Protection {
    /// Pages that reclaim never takes.
    pub min: u64,
    /// Pages that the first round does not take.
    pub low: u64,
}

impl Protection {
    /// The protection of a group in reclaim of `root`; the root of a reclaim has none in the scan
    /// budget.
    #[doc(alias = "mem_cgroup_protection")]
    pub(crate) fn of(counters: &Counters, root: GroupId, group: GroupId) -> Protection {
        match group == root {
            true => Protection::default(),
            false => Protection { min: counters[group].emin(), low: counters[group].elow() },
        }
    }

    /// Returns the size that a list of `size` pages has for the scan budget, given the group's
    /// `usage`.
    ///
    /// A protected list counts at least 32 pages, or reclaim could not come near the protection.
    ///
    /// Linux: the part of the function that applies protection.
    #[doc(alias = "get_scan_count")]
    pub(crate) fn seen(self, size: u64, usage: u64, round: Round) -> Seen {
        if self == Protection::default() {
            return Seen { size, skipped_low: false };
        }
        let skipped_low = self.low > self.min && round == Round::First;
        let pages = if skipped_low { self.low } else { self.min };
        let usage = usage.max(pages);
        let size = size.saturating_sub(share(size, pages, usage + 1)).max(SWAP_CLUSTER_MAX);
        Seen { size, skipped_low }
    }
}

/// A list as the scan budget sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Pages that count.
    pub size: u64,
    /// `low` made it smaller, so a second round may get more (`memcg_low_skipped`).
    pub skipped_low: bool,
}

/// Returns the pages to scan at a priority of a list of a group that was removed. A list shorter
/// than 2^priority pages gives nothing, but here up to 32 pages in every pass: nobody needs them.
pub(crate) const fn scan_of_offline(list: u64, seen: u64, priority: u8) -> u64 {
    match seen >> priority {
        0 if list < SWAP_CLUSTER_MAX => list,
        0 => SWAP_CLUSTER_MAX,
        scan => scan,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: GroupId = GroupId(1);
    const C: GroupId = GroupId(2);
    const D: GroupId = GroupId(3);
    const E: GroupId = GroupId(4);

    /// P with a `low`, and below it C, D and E, each with a `low` and a usage; P uses `extra` pages
    /// itself.
    fn family(low: u64, children: [(u64, u64); 3], extra: u64) -> Counters {
        let counters = Counters::new(5);
        counters.reset(P, GroupId::ROOT);
        counters.set_low(P, low);
        for (group, (low, usage)) in [C, D, E].into_iter().zip(children) {
            counters.reset(group, P);
            counters.set_low(group, low);
            counters.charge(group, usage);
        }
        counters.charge(P, extra);
        counters
    }

    fn walk(counters: &Counters, root: GroupId, recursive_prot: bool) -> [u64; 3] {
        let policy = MemcgPolicy { recursive_prot, ..MemcgPolicy::default() };
        for group in [root, P, C, D, E] {
            calculate(&policy, counters, root, group);
        }
        [C, D, E].map(|group| counters[group].elow())
    }

    const CHILDREN: [(u64, u64); 3] = [(12_288, 12_288), (12_288, 8192), (0, 8192)];

    #[test]
    fn overcommitted_claims_are_cut_alike() {
        let counters = family(16_384, CHILDREN, 0);
        assert_eq!(counters[P].usage(), 28_672);
        assert_eq!(counters[P].children_low_usage(), 20_480);
        for is_recursive in [false, true] {
            assert_eq!(walk(&counters, GroupId::ROOT, is_recursive), [9830, 6553, 0]);
        }
    }

    #[test]
    fn unclaimed_protection_goes_down_if_recursive() {
        let counters = family(32_768, CHILDREN, 0);
        assert_eq!(walk(&counters, GroupId::ROOT, false), [12_288, 8192, 0]);
        assert_eq!(walk(&counters, GroupId::ROOT, true), [12_288, 8192, 12_288]);
        let counters = family(32_768, [(8192, 12_288), (4096, 12_288), (0, 8192)], 0);
        assert_eq!(walk(&counters, GroupId::ROOT, false), [8192, 4096, 0]);
        assert_eq!(walk(&counters, GroupId::ROOT, true), [12_288, 12_288, 8192]);
    }

    /// A parent's "max" times a usage is more than 64 bits hold.
    #[test]
    fn protection_without_bound_does_not_overflow() {
        let counters = family(crate::vmstat::UNLIMITED, CHILDREN, 0);
        let [c, d, e] = walk(&counters, GroupId::ROOT, true);
        assert_eq!([c, d], [12_288, 8192]);
        assert!(e > 8192, "{e}");
    }

    #[test]
    fn a_limit_of_the_parent_counts_the_childrens_settings() {
        let counters = family(16_384, CHILDREN, 0);
        let policy = MemcgPolicy::default();
        assert_eq!(walk(&counters, P, false), [12_288, 12_288, 0]);
        let below = [C, D, E].map(|group| below_low(&policy, &counters, P, group));
        assert_eq!(below, [true, true, false]);
        assert!(!below_min(&policy, &counters, P, C));
        assert!(!below_low(&policy, &counters, GroupId::ROOT, GroupId::ROOT), "the root never is");
    }

    /// Limit reclaim of a group finds the values of an outer walk (up to 6.1).
    #[test]
    fn the_target_itself_may_be_protected_by_old_values() {
        let counters = family(40_960, CHILDREN, 0);
        assert_eq!(walk(&counters, GroupId::ROOT, false), [12_288, 8192, 0]);
        walk(&counters, P, false);
        let old = MemcgPolicy::default();
        let new = MemcgPolicy { target_protected: TargetProtected::Never, ..old.clone() };
        let below = [&old, &new].map(|policy| below_low(policy, &counters, P, P));
        assert_eq!(below, [true, false]);
    }

    #[test]
    fn a_group_without_usage_keeps_its_old_values() {
        let counters = family(16_384, CHILDREN, 0);
        walk(&counters, GroupId::ROOT, false);
        counters.uncharge(D, 8192);
        assert_eq!(walk(&counters, GroupId::ROOT, false), [12_288, 6553, 0]);
    }

    #[test]
    fn protection_shortens_lists() {
        let low = Protection { min: 0, low: 24_576 };
        let seen = low.seen(20_000, 32_768, Round::First);
        assert_eq!(seen, Seen { size: 5001, skipped_low: true });
        let scan_of = |seen: Seen, priority: u8| seen.size >> priority;
        assert_eq!([12, 6].map(|priority| scan_of(seen, priority)), [1, 78]);
        let both = Protection { min: 8192, ..low };
        assert_eq!(both.seen(20_000, 32_768, Round::First), seen);
        let second = both.seen(20_000, 32_768, Round::IgnoresLow);
        assert_eq!(second, Seen { size: 15_001, skipped_low: false });
        assert_eq!(scan_of(second, 6), 234);
        let close = low.seen(20_000, 24_600, Round::First);
        assert_eq!((close.size, scan_of(close, 0)), (32, 32));
        let none = Protection::default().seen(20_000, 32_768, Round::First);
        assert_eq!(none, Seen { size: 20_000, skipped_low: false });
    }

    /// Nothing but a group under its `low`: the first round scans nothing, the second one all.
    #[test]
    fn the_second_round_scans_the_whole_list() {
        let counters = Counters::new(2);
        counters.reset(P, GroupId::ROOT);
        counters.set_low(P, 24_576);
        counters.charge(P, 24_576);
        let policy = MemcgPolicy::default();
        calculate(&policy, &counters, GroupId::ROOT, P);
        assert!(below_low(&policy, &counters, GroupId::ROOT, P));
        let protection = Protection::of(&counters, GroupId::ROOT, P);
        let seen = protection.seen(75_000, 24_576, Round::IgnoresLow);
        let scans = [12, 11].map(|priority| seen.size >> priority);
        assert_eq!(scans, [18, 36]);
        assert_eq!(Protection::of(&counters, P, P), Protection::default());
    }

    #[test]
    fn an_offline_group_always_gives_some() {
        assert_eq!(scan_of_offline(4095, 4095, 12), 32);
        assert_eq!(scan_of_offline(20, 20, 12), 20);
        assert_eq!(scan_of_offline(8192, 8192, 12), 2);
    }
}
