//! Contents of a group's files: `memory.stat` and the numbers beside it
//! (rules/memory-cgroups#files).
//!
//! `memory.current` and `memory.swap.current` are exact, and count what CPUs hold in their stocks.
//! `memory.stat` is as late as its readers accept ([`Reader::File`]), so it may miss what happened
//! just now.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use crate::config::KernelVersion;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::PAGE_SIZE;
use crate::units::GroupId;
use crate::vmstat::{GroupStat, NodeStat, Reader, Shown};

/// Where a line of `memory.stat` comes from.
#[derive(Clone, Copy)]
enum Source {
    /// Pages of a node item, shown in bytes.
    Pages(NodeStat),
    /// KiB of a node item, shown in bytes.
    Kib(NodeStat),
    /// Events of a node item.
    Events(NodeStat),
    /// Pages of a group's own item, shown in bytes.
    OwnPages(GroupStat),
    /// Bytes, or events, of a group's own item.
    Own(GroupStat),
    /// Events of several items together.
    Sum(&'static [GroupStat]),
    /// Not modelled.
    Zero,
}

/// An item of `memory.stat`, and the kernels that show it at this place.
struct Line {
    name: &'static str,
    /// A level, else an event.
    is_level: bool,
    source: Source,
    since: Option<KernelVersion>,
    /// The first kernel without it.
    until: Option<KernelVersion>,
}

impl Line {
    const fn since(self, major: u16, minor: u16) -> Line {
        Line { since: Some(KernelVersion::new(major, minor)), ..self }
    }

    const fn until(self, major: u16, minor: u16) -> Line {
        Line { until: Some(KernelVersion::new(major, minor)), ..self }
    }

    fn is_of(&self, kernel: KernelVersion) -> bool {
        self.since.is_none_or(|since| since <= kernel)
            && self.until.is_none_or(|until| kernel < until)
    }
}

const fn level(name: &'static str, source: Source) -> Line {
    Line { name, is_level: true, source, since: None, until: None }
}

const fn event(name: &'static str, source: Source) -> Line {
    Line { name, is_level: false, source, since: None, until: None }
}

/// `memory.stat`, in the order of its lines. An item that moved to another place is there twice
/// (rules/memory-cgroups#files).
const LINES: &[Line] = &{
    use Source::*;
    [
        level("anon", Pages(NodeStat::AnonPages)),
        level("file", Pages(NodeStat::FilePages)),
        level("kernel", OwnPages(GroupStat::Kernel)).since(5, 18),
        level("kernel_stack", Kib(NodeStat::KernelStack)),
        level("pagetables", Pages(NodeStat::PageTablePages)).since(5, 11),
        level("sec_pagetables", Zero).since(6, 1),
        level("percpu", Zero),
        level("sock", OwnPages(GroupStat::Sock)),
        level("vmalloc", Zero).since(5, 18),
        level("shmem", Pages(NodeStat::Shmem)),
        level("zswap", Zero).since(5, 19),
        level("zswapped", Zero).since(5, 19),
        level("zswap_incomp", Zero).since(7, 0),
        level("file_mapped", Pages(NodeStat::Mapped)),
        level("file_dirty", Pages(NodeStat::Dirty)),
        level("file_writeback", Pages(NodeStat::Writeback)),
        level("swapcached", Pages(NodeStat::Swapcached)).since(5, 12),
        level("anon_thp", Pages(NodeStat::AnonTransparentHugepages)),
        level("file_thp", Zero).since(5, 11),
        level("shmem_thp", Zero).since(5, 11),
        level("inactive_anon", Pages(NodeStat::InactiveAnon)),
        level("active_anon", Pages(NodeStat::ActiveAnon)),
        level("inactive_file", Pages(NodeStat::InactiveFile)),
        level("active_file", Pages(NodeStat::ActiveFile)),
        level("unevictable", Pages(NodeStat::Unevictable)),
        level("slab_reclaimable", Own(GroupStat::SlabReclaimable)),
        level("slab_unreclaimable", Own(GroupStat::SlabUnreclaimable)),
        level("slab", Sum(&[GroupStat::SlabReclaimable, GroupStat::SlabUnreclaimable])),
        level("hugetlb", Zero).since(6, 14),
        event("workingset_refault_anon", Events(NodeStat::WorkingsetRefaultAnon)),
        event("workingset_refault_file", Events(NodeStat::WorkingsetRefaultFile)),
        event("workingset_activate_anon", Events(NodeStat::WorkingsetActivateAnon)),
        event("workingset_activate_file", Events(NodeStat::WorkingsetActivateFile)),
        event("workingset_restore_anon", Events(NodeStat::WorkingsetRestoreAnon)),
        event("workingset_restore_file", Events(NodeStat::WorkingsetRestoreFile)),
        event("workingset_nodereclaim", Events(NodeStat::WorkingsetNodereclaim)),
        event("pgdemote_kswapd", Zero).since(6, 8),
        event("pgdemote_direct", Zero).since(6, 8),
        event("pgdemote_khugepaged", Zero).since(6, 8),
        event("pgdemote_proactive", Zero).since(7, 0),
        event("pgsteal_kswapd", Own(GroupStat::PgstealKswapd)).since(7, 1),
        event("pgsteal_direct", Own(GroupStat::PgstealDirect)).since(7, 1),
        event("pgsteal_khugepaged", Zero).since(7, 1),
        event("pgsteal_proactive", Own(GroupStat::PgstealProactive)).since(7, 1),
        event("pgscan_kswapd", Own(GroupStat::PgscanKswapd)).since(7, 1),
        event("pgscan_direct", Own(GroupStat::PgscanDirect)).since(7, 1),
        event("pgscan_khugepaged", Zero).since(7, 1),
        event("pgscan_proactive", Own(GroupStat::PgscanProactive)).since(7, 1),
        event("pgrefill", Own(GroupStat::Pgrefill)).since(7, 1),
        event("pgpromote_success", Zero).since(6, 8),
        event("pgfault", Own(GroupStat::Pgfault)).until(5, 19),
        event("pgmajfault", Own(GroupStat::Pgmajfault)).until(5, 19),
        event("pgrefill", Own(GroupStat::Pgrefill)).until(5, 19),
        event("pgscan", Sum(&GroupStat::SCANNED)),
        event("pgsteal", Sum(&GroupStat::STOLEN)),
        event("pswpin", Zero).since(7, 0),
        event("pswpout", Zero).since(7, 0),
        event("pgscan_kswapd", Own(GroupStat::PgscanKswapd)).since(5, 19).until(7, 1),
        event("pgscan_direct", Own(GroupStat::PgscanDirect)).since(5, 19).until(7, 1),
        event("pgscan_khugepaged", Zero).since(6, 12).until(7, 1),
        event("pgsteal_kswapd", Own(GroupStat::PgstealKswapd)).since(5, 19).until(7, 1),
        event("pgsteal_direct", Own(GroupStat::PgstealDirect)).since(5, 19).until(7, 1),
        event("pgsteal_khugepaged", Zero).since(6, 12).until(7, 1),
        event("pgfault", Own(GroupStat::Pgfault)).since(5, 19),
        event("pgmajfault", Own(GroupStat::Pgmajfault)).since(5, 19),
        event("pgrefill", Own(GroupStat::Pgrefill)).since(5, 19).until(7, 1),
        event("pgactivate", Own(GroupStat::Pgactivate)),
        event("pgdeactivate", Own(GroupStat::Pgdeactivate)),
        event("pglazyfree", Own(GroupStat::Pglazyfree)),
        event("pglazyfreed", Own(GroupStat::Pglazyfreed)),
        event("swpin_zero", Own(GroupStat::SwpinZero)).since(6, 12),
        event("swpout_zero", Own(GroupStat::SwpoutZero)).since(6, 12),
        event("zswpin", Zero).since(5, 19),
        event("zswpout", Zero).since(5, 19),
        event("zswpwb", Zero).since(6, 8),
        event("thp_fault_alloc", Own(GroupStat::ThpFaultAlloc)),
        event("thp_collapse_alloc", Own(GroupStat::ThpCollapseAlloc)),
        event("thp_swpout", Zero).since(6, 7),
        event("thp_swpout_fallback", Zero).since(6, 7),
        event("numa_pages_migrated", Zero).since(6, 12),
        event("numa_pte_updates", Zero).since(6, 12),
        event("numa_hint_faults", Zero).since(6, 12),
    ]
};

/// A line of `memory.stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatLine {
    /// Its name.
    pub name: &'static str,
    /// Bytes, or events.
    pub value: u64,
    /// It says how much there is now; else how often something happened since the group was made.
    pub is_level: bool,
}

/// Items of a kernel's `memory.stat` that are always 0 here, because they are not modelled.
pub fn stat_not_modelled(kernel: KernelVersion) -> impl Iterator<Item = &'static str> {
    let is_zero = move |line: &&Line| matches!(line.source, Source::Zero) && line.is_of(kernel);
    LINES.iter().filter(is_zero).map(|line| line.name)
}

impl<H: Devices> Kernel<H> {
    /// The lines of a group's `memory.stat`, in the policy's kernel's order. Reading adds up the
    /// statistics if that kernel would.
    ///
    /// # Panics
    /// If the kernel has no groups, or no such one.
    #[doc(alias = "memory_stat_show")]
    #[doc(alias = "memory_stat_format")]
    pub fn group_stat(&self, cx: &Cx<'_, H>, group: GroupId) -> Vec<StatLine> {
        self.flush_group_stats(cx, Reader::File, group);
        self.stat_lines(&self.mem.groups.as_flushed(group))
    }

    /// The lines that a reader would get at this time, for an observer outside the machine: nothing
    /// is added up, so the kernel's own readers are not affected.
    ///
    /// # Panics
    /// As [`Self::group_stat`].
    pub fn group_stat_peek(&self, jiffies: u64, group: GroupId) -> Vec<StatLine> {
        self.stat_lines(&self.mem.groups.as_read(Reader::File, group, jiffies))
    }

    fn stat_lines(&self, shown: &Shown<'_>) -> Vec<StatLine> {
        let page = PAGE_SIZE as u64;
        let value = |from: Source| match from {
            Source::Pages(item) => shown.item(item) * page,
            Source::Kib(item) => shown.item(item) * 1024,
            Source::Events(item) => shown.item(item),
            Source::OwnPages(item) => shown.count(item) * page,
            Source::Own(item) => shown.count(item),
            Source::Sum(items) => items.iter().map(|&item| shown.count(item)).sum(),
            Source::Zero => 0,
        };
        let line = |line: &Line| StatLine {
            name: line.name,
            value: value(line.source),
            is_level: line.is_level,
        };
        let kernel = self.mem.policy.counters();
        LINES.iter().filter(|line| line.is_of(kernel)).map(line).collect()
    }

    /// The text of a group's `memory.stat`.
    ///
    /// # Panics
    /// As [`Self::group_stat`].
    pub fn group_stat_text(&self, cx: &Cx<'_, H>, group: GroupId) -> String {
        let mut text = String::new();
        for StatLine { name, value, .. } in self.group_stat(cx, group) {
            let _ = writeln!(text, "{name} {value}");
        }
        text
    }

    /// Pages that are charged to a group and those below it: `memory.current`.
    ///
    /// # Panics
    /// If there is no room for such a group.
    pub fn group_usage(&self, group: GroupId) -> u64 {
        self.mem.groups.memory[group].usage()
    }

    /// The most that [`Self::group_usage`] ever was: `memory.peak`.
    ///
    /// # Panics
    /// As [`Self::group_usage`].
    pub fn group_peak(&self, group: GroupId) -> u64 {
        self.mem.groups.memory[group].peak()
    }

    /// How often its limit refused a charge (`memory.failcnt` of cgroup v1).
    ///
    /// # Panics
    /// As [`Self::group_usage`].
    pub fn group_failcnt(&self, group: GroupId) -> u64 {
        self.mem.groups.memory[group].failcnt()
    }

    /// Slots that are charged to a group and those below it: `memory.swap.current`.
    ///
    /// # Panics
    /// As [`Self::group_usage`].
    pub fn group_swap_usage(&self, group: GroupId) -> u64 {
        self.mem.groups.swap[group].usage()
    }

    /// The most that [`Self::group_swap_usage`] ever was: `memory.swap.peak`.
    ///
    /// # Panics
    /// As [`Self::group_usage`].
    pub fn group_swap_peak(&self, group: GroupId) -> u64 {
        self.mem.groups.swap[group].peak()
    }

    /// Its limits and protection, in pages: min, low, high, max; swap's high and max. None = no
    /// limit.
    ///
    /// # Panics
    /// As [`Self::group_usage`].
    pub fn group_limits(&self, group: GroupId) -> GroupLimits {
        let limit = |pages: u64| (pages != crate::vmstat::UNLIMITED).then_some(pages);
        let (memory, swap) = (&self.mem.groups.memory[group], &self.mem.groups.swap[group]);
        GroupLimits {
            min: limit(memory.min()),
            low: limit(memory.low()),
            high: limit(memory.high()),
            max: limit(memory.max()),
            swap_high: limit(swap.high()),
            swap_max: limit(swap.max()),
        }
    }
}

/// Settings of a group, in pages; none: `max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the file of its name")]
pub struct GroupLimits {
    pub min: Option<u64>,
    pub low: Option<u64>,
    pub high: Option<u64>,
    pub max: Option<u64>,
    pub swap_high: Option<u64>,
    pub swap_max: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(major: u16, minor: u16) -> Vec<&'static str> {
        let kernel = KernelVersion::new(major, minor);
        LINES.iter().filter(|line| line.is_of(kernel)).map(|line| line.name).collect()
    }

    #[test]
    fn each_kernel_has_its_items_once() {
        for ((major, minor), nr, first_events) in [
            ((5, 10), 36, ["pgfault", "pgmajfault", "pgrefill", "pgscan"]),
            ((6, 1), 51, ["pgscan", "pgsteal", "pgscan_kswapd", "pgscan_direct"]),
            (
                (6, 12),
                65,
                ["pgdemote_kswapd", "pgdemote_direct", "pgdemote_khugepaged", "pgpromote_success"],
            ),
            (
                (7, 2),
                72,
                ["pgdemote_kswapd", "pgdemote_direct", "pgdemote_khugepaged", "pgdemote_proactive"],
            ),
        ] {
            let names = names(major, minor);
            let mut once = names.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!((names.len(), once.len()), (nr, nr), "{major}.{minor}: {names:?}");
            let at = names.iter().position(|name| *name == "workingset_nodereclaim").unwrap();
            assert_eq!(names[at + 1..at + 5], first_events, "{major}.{minor}");
            assert_eq!(names[0], "anon");
        }
        assert!(
            !names(5, 10).contains(&"swapcached") && names(7, 2).contains(&"pgsteal_proactive")
        );
    }
}
