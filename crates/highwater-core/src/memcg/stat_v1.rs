//! Contents of the files of a version 1 group (rules/memory-cgroups#v1-files).
//!
//! `memory.stat` has each value twice: the group's own, and with `total_` that of all groups below
//! too. Own values are exact. Totals are as late as those of version 2. The root has no counters:
//! its usage is its page cache and its anonymous memory.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::config::KernelVersion;
use crate::host::Devices;
use crate::kernel::Kernel;
use crate::page::PAGE_SIZE;
use crate::units::GroupId;
use crate::vmstat::{Counters, GroupStat, NodeStat, Reader, Shown};

/// Where a line comes from.
#[derive(Clone, Copy)]
enum Source {
    /// Pages, shown in bytes.
    Pages(NodeStat),
    /// Events of a node item.
    Events(NodeStat),
    /// Events that only groups count.
    Own(GroupStat),
    /// Pages in swap and not in memory, shown in bytes.
    Swap,
}

/// First kernel whose version 1 groups show refaults.
const REFAULTS_SINCE: KernelVersion = KernelVersion::new(5, 9);

/// The lines of `memory.stat`, in their order.
const LINES: [(&str, Source); 19] = {
    use Source::*;
    [
        ("cache", Pages(NodeStat::FilePages)),
        ("rss", Pages(NodeStat::AnonPages)),
        ("rss_huge", Pages(NodeStat::AnonTransparentHugepages)),
        ("shmem", Pages(NodeStat::Shmem)),
        ("mapped_file", Pages(NodeStat::Mapped)),
        ("dirty", Pages(NodeStat::Dirty)),
        ("writeback", Pages(NodeStat::Writeback)),
        ("workingset_refault_anon", Events(NodeStat::WorkingsetRefaultAnon)),
        ("workingset_refault_file", Events(NodeStat::WorkingsetRefaultFile)),
        ("swap", Swap),
        ("pgpgin", Own(GroupStat::Pgpgin)),
        ("pgpgout", Own(GroupStat::Pgpgout)),
        ("pgfault", Own(GroupStat::Pgfault)),
        ("pgmajfault", Own(GroupStat::Pgmajfault)),
        ("inactive_anon", Pages(NodeStat::InactiveAnon)),
        ("active_anon", Pages(NodeStat::ActiveAnon)),
        ("inactive_file", Pages(NodeStat::InactiveFile)),
        ("active_file", Pages(NodeStat::ActiveFile)),
        ("unevictable", Pages(NodeStat::Unevictable)),
    ]
};

/// A counter of version 1 as its files show it. All are pages, except the refusals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterV1 {
    /// `usage_in_bytes`.
    pub usage: u64,
    /// `max_usage_in_bytes`.
    pub max_usage: u64,
    /// `limit_in_bytes`; of no limit the largest that a counter holds.
    pub limit: u64,
    /// `failcnt`.
    pub failcnt: u64,
}

impl<H: Devices> Kernel<H> {
    /// The counters of a version 1 group: memory, and memory and swap together. The root's usage is
    /// its page cache and anonymous memory, with those of all groups.
    ///
    /// # Panics
    /// If the hierarchy is version 2, or has no such group.
    #[doc(alias = "mem_cgroup_usage")]
    pub fn group_counters_v1(&self, jiffies: u64, group: GroupId) -> [CounterV1; 2] {
        let memory = &self.mem.groups.memory;
        let memsw = memory.memsw().expect("a version 1 hierarchy");
        let shown = self.mem.groups.as_read(Reader::File, group, jiffies);
        let used = shown.item(NodeStat::FilePages) + shown.item(NodeStat::AnonPages);
        let swap = self.mem.groups.swap[group].usage();
        let of = |counters: &Counters, of_root: u64| CounterV1 {
            usage: if group.is_root() { of_root } else { counters[group].usage() },
            max_usage: counters[group].peak(),
            limit: counters[group].max(),
            failcnt: counters[group].failcnt(),
        };
        [of(memory, used), of(memsw, used + swap)]
    }

    /// The soft limit of a version 1 group in pages; without one the largest that a counter holds.
    pub fn group_soft_limit(&self, group: GroupId) -> u64 {
        self.memcg.v1.soft_limit(group)
    }

    /// The lines of a version 1 group's `memory.stat`, for an observer outside the machine.
    ///
    /// # Panics
    /// As [`Self::group_counters_v1`].
    #[doc(alias = "memcg1_stat_format")]
    #[doc(alias = "memcg_stat_show")]
    pub fn group_stat_v1(&self, jiffies: u64, group: GroupId) -> Vec<(String, u64)> {
        let kernel = self.mem.policy.counters();
        let is_there = |(name, _): &&(&str, Source)| {
            kernel >= REFAULTS_SINCE || !name.starts_with("workingset")
        };
        let lines = || LINES.iter().filter(is_there);
        let own = lines().map(|&(name, source)| (String::from(name), self.own_v1(group, source)));
        let shown = self.mem.groups.as_read(Reader::File, group, jiffies);
        let total = lines()
            .map(|&(name, source)| (format!("total_{name}"), self.total_v1(&shown, group, source)));
        let memory = &self.mem.groups.memory;
        let limits = [("memory", Some(memory)), ("memsw", memory.memsw())];
        let limits = limits.into_iter().filter_map(|(name, counters)| {
            Some((format!("hierarchical_{name}_limit"), least_limit(counters?, group)))
        });
        own.chain(limits).chain(total).collect()
    }

    fn own_v1(&self, group: GroupId, source: Source) -> u64 {
        let groups = &self.mem.groups;
        let nodes = || self.mem.nodes().iter().map(|node| node.id);
        let node_item = |item| nodes().map(|node| groups.own(group, node, item)).sum();
        let own_item = |item| nodes().map(|node| groups.own_count(group, node, item)).sum();
        let shown = |value: i64| value.max(0) as u64;
        match source {
            Source::Pages(item) => shown(node_item(item)) * PAGE_SIZE as u64,
            Source::Events(item) => shown(node_item(item)),
            Source::Own(item) => shown(own_item(item)),
            Source::Swap => {
                let below = self.memcg.tree.children(group).map(|child| groups.swap[child].usage());
                groups.swap[group].usage().saturating_sub(below.sum::<u64>()) * PAGE_SIZE as u64
            }
        }
    }

    fn total_v1(&self, shown: &Shown<'_>, group: GroupId, source: Source) -> u64 {
        match source {
            Source::Pages(item) => shown.item(item) * PAGE_SIZE as u64,
            Source::Events(item) => shown.item(item),
            Source::Own(item) => shown.count(item),
            Source::Swap => self.mem.groups.swap[group].usage() * PAGE_SIZE as u64,
        }
    }
}

/// The least limit of a group and those above it, in bytes.
fn least_limit(counters: &Counters, group: GroupId) -> u64 {
    let limits = counters.ancestors(group).map(|at| counters[at].max());
    limit_in_bytes(limits.min().unwrap_or_default())
}

/// A limit of so many pages as files of version 1 show it. No limit is the largest number of whole
/// pages that fits a signed number.
pub const fn limit_in_bytes(pages: u64) -> u64 {
    const MOST: u64 = i64::MAX as u64 / PAGE_SIZE as u64;
    (if pages < MOST { pages } else { MOST }) * PAGE_SIZE as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_is_a_large_number() {
        assert_eq!(limit_in_bytes(3), 12_288);
        assert_eq!(limit_in_bytes(crate::vmstat::UNLIMITED), 9_223_372_036_854_771_712);
    }

    #[test]
    fn each_line_is_there_once() {
        let mut names = LINES.map(|(name, _)| name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
}
