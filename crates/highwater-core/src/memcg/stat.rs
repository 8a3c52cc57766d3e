//! Contents of a group's files: `memory.stat` and the numbers beside it
//! (rules/memory-cgroups#files).
//!
//! `memory.current` and `memory.swap.current` are exact, and count what CPUs hold in their stocks.
//! `memory.stat` is as late as its readers accept ([`Reader::File`]), so it may miss what happened
//! just now.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::PAGE_SIZE;
use crate::units::GroupId;
use crate::vmstat::{GroupStat, NodeStat, Reader};

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
    /// Events of two items together.
    Sum(GroupStat, GroupStat),
    /// Not modelled.
    Zero,
}

/// `memory.stat` of 6.1, in its order; true: a level, false: an event.
const LINES: &[(&str, bool, Source)] = &{
    use Source::*;
    [
        ("anon", true, Pages(NodeStat::AnonPages)),
        ("file", true, Pages(NodeStat::FilePages)),
        ("kernel", true, OwnPages(GroupStat::Kernel)),
        ("kernel_stack", true, Kib(NodeStat::KernelStack)),
        ("pagetables", true, Pages(NodeStat::PageTablePages)),
        ("sec_pagetables", true, Zero),
        ("percpu", true, Zero),
        ("sock", true, Zero),
        ("vmalloc", true, Zero),
        ("shmem", true, Pages(NodeStat::Shmem)),
        ("zswap", true, Zero),
        ("zswapped", true, Zero),
        ("file_mapped", true, Pages(NodeStat::Mapped)),
        ("file_dirty", true, Pages(NodeStat::Dirty)),
        ("file_writeback", true, Pages(NodeStat::Writeback)),
        ("swapcached", true, Pages(NodeStat::Swapcached)),
        ("anon_thp", true, Pages(NodeStat::AnonTransparentHugepages)),
        ("file_thp", true, Zero),
        ("shmem_thp", true, Zero),
        ("inactive_anon", true, Pages(NodeStat::InactiveAnon)),
        ("active_anon", true, Pages(NodeStat::ActiveAnon)),
        ("inactive_file", true, Pages(NodeStat::InactiveFile)),
        ("active_file", true, Pages(NodeStat::ActiveFile)),
        ("unevictable", true, Pages(NodeStat::Unevictable)),
        ("slab_reclaimable", true, Own(GroupStat::SlabReclaimable)),
        ("slab_unreclaimable", true, Own(GroupStat::SlabUnreclaimable)),
        ("slab", true, Sum(GroupStat::SlabReclaimable, GroupStat::SlabUnreclaimable)),
        ("workingset_refault_anon", false, Events(NodeStat::WorkingsetRefaultAnon)),
        ("workingset_refault_file", false, Events(NodeStat::WorkingsetRefaultFile)),
        ("workingset_activate_anon", false, Events(NodeStat::WorkingsetActivateAnon)),
        ("workingset_activate_file", false, Events(NodeStat::WorkingsetActivateFile)),
        ("workingset_restore_anon", false, Events(NodeStat::WorkingsetRestoreAnon)),
        ("workingset_restore_file", false, Events(NodeStat::WorkingsetRestoreFile)),
        ("workingset_nodereclaim", false, Events(NodeStat::WorkingsetNodereclaim)),
        ("pgscan", false, Sum(GroupStat::PgscanKswapd, GroupStat::PgscanDirect)),
        ("pgsteal", false, Sum(GroupStat::PgstealKswapd, GroupStat::PgstealDirect)),
        ("pgscan_kswapd", false, Own(GroupStat::PgscanKswapd)),
        ("pgscan_direct", false, Own(GroupStat::PgscanDirect)),
        ("pgsteal_kswapd", false, Own(GroupStat::PgstealKswapd)),
        ("pgsteal_direct", false, Own(GroupStat::PgstealDirect)),
        ("pgfault", false, Own(GroupStat::Pgfault)),
        ("pgmajfault", false, Own(GroupStat::Pgmajfault)),
        ("pgrefill", false, Own(GroupStat::Pgrefill)),
        ("pgactivate", false, Own(GroupStat::Pgactivate)),
        ("pgdeactivate", false, Own(GroupStat::Pgdeactivate)),
        ("pglazyfree", false, Own(GroupStat::Pglazyfree)),
        ("pglazyfreed", false, Own(GroupStat::Pglazyfreed)),
        ("zswpin", false, Zero),
        ("zswpout", false, Zero),
        ("thp_fault_alloc", false, Own(GroupStat::ThpFaultAlloc)),
        ("thp_collapse_alloc", false, Own(GroupStat::ThpCollapseAlloc)),
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

impl<H: Devices> Kernel<H> {
    /// The lines of a group's `memory.stat`, as 6.1 orders them. Reading adds up the statistics if
    /// that kernel would.
    ///
    /// # Panics
    /// If the kernel has no groups, or no such one.
    #[doc(alias = "memory_stat_show")]
    #[doc(alias = "memory_stat_format")]
    pub fn group_stat(&self, cx: &Cx<'_, H>, group: GroupId) -> Vec<StatLine> {
        self.flush_group_stats(cx, Reader::File, group);
        let groups = &self.mem.groups;
        let page = PAGE_SIZE as u64;
        let value = |from: Source| match from {
            Source::Pages(item) => groups.seen_all(group, item) * page,
            Source::Kib(item) => groups.seen_all(group, item) * 1024,
            Source::Events(item) => groups.seen_all(group, item),
            Source::OwnPages(item) => groups.seen_count(group, item) * page,
            Source::Own(item) => groups.seen_count(group, item),
            Source::Sum(a, b) => groups.seen_count(group, a) + groups.seen_count(group, b),
            Source::Zero => 0,
        };
        let line = |&(name, is_level, from): &(&'static str, bool, Source)| StatLine {
            name,
            value: value(from),
            is_level,
        };
        LINES.iter().map(line).collect()
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

    /// Its limits and protection, in pages: min, low, high, max; swap's high and max. None = no
    /// limit.
    ///
    /// # Panics
    /// As [`Self::group_usage`].
    pub fn group_limits(&self, group: GroupId) -> GroupLimits {
        let limit = |pages: u64| (pages != crate::vmstat::UNLIMITED).then_some(pages);
        let (memory, swap) = (&self.mem.groups.memory[group], &self.mem.groups.swap[group]);
        GroupLimits {
            min: memory.min(),
            low: memory.low(),
            high: limit(memory.high()),
            max: limit(memory.max()),
            swap_high: limit(swap.high()),
            swap_max: limit(swap.max()),
        }
    }
}

/// Settings of a group, in pages; none: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the file of its name")]
pub struct GroupLimits {
    pub min: u64,
    pub low: u64,
    pub high: Option<u64>,
    pub max: Option<u64>,
    pub swap_high: Option<u64>,
    pub swap_max: Option<u64>,
}
