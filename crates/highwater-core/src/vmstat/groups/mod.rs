//! Counters of memory cgroups, by group and node, and the group that owns each frame.
//!
//! A group's own counts are exact. Sums over subtrees, which most readers use, are as old as the
//! last *flush* (rules/memory-cgroups#heuristics): adding every change to every ancestor at once
//! would make each fault touch shared lines of the whole path to the root. [`GroupStats::own`] is
//! the first, [`GroupStats::seen`] the second.
//!
//! Nothing is allocated if a kernel is made without groups ([`GroupStats::is_on`]).
//!
//! Synchronisation: atomics. Two flushes at a time share the changes between them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hint::cold_path;

mod counter;
mod lateness;

pub(crate) use counter::{Counters, Over, UNLIMITED};
use lateness::{BYTES_BATCH, ITEM_BATCH, Lateness, batched};
pub(crate) use lateness::{FLUSH_PERIOD, Reader};

use super::NodeStat;
use crate::config::{GroupHierarchy, MemcgPolicy, MemcgStats};
use crate::host::CpuId;
use crate::page::zeroed::ZeroedSlice;
use crate::page::{Folio, Pfn};
use crate::sync::atomic::{AtomicBool, AtomicI64, AtomicU16, AtomicU64, Ordering::Relaxed};
use crate::units::{GroupId, NodeId};

/// Items that only groups have: events that `memory.stat` counts, and memory of the kernel by
/// owner. In every set of counts they follow the items of [`NodeStat`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs, reason = "each item is the line of memory.stat that its name says")]
pub enum GroupStat {
    /// Pages of kernel memory that are charged.
    Kernel,
    /// Bytes of slab objects that a shrinker can free.
    SlabReclaimable,
    /// Bytes of other slab objects.
    SlabUnreclaimable,
    /// Pages that are charged for buffers of sockets.
    Sock,
    Pgfault,
    Pgmajfault,
    Pgrefill,
    Pgactivate,
    Pgdeactivate,
    PgscanKswapd,
    PgscanDirect,
    PgscanProactive,
    PgstealKswapd,
    PgstealDirect,
    PgstealProactive,
    Pglazyfree,
    Pglazyfreed,
    SwpinZero,
    SwpoutZero,
    ThpFaultAlloc,
    ThpCollapseAlloc,
    /// Pages charged, of version 1 groups only.
    Pgpgin,
    /// Pages uncharged.
    Pgpgout,
}

impl GroupStat {
    /// Scans by all reclaimers.
    pub const SCANNED: [GroupStat; 3] =
        [GroupStat::PgscanKswapd, GroupStat::PgscanDirect, GroupStat::PgscanProactive];
    /// Pages that they freed.
    pub const STOLEN: [GroupStat; 3] =
        [GroupStat::PgstealKswapd, GroupStat::PgstealDirect, GroupStat::PgstealProactive];
    /// Number of them.
    pub const COUNT: usize = GroupStat::Pgpgout as usize + 1;

    /// Place in a set of counts.
    const fn idx(self) -> usize {
        NodeStat::COUNT + self as usize
    }
}

/// Counts of a set: [`NodeStat`]s, then [`GroupStat`]s.
const ITEMS: usize = NodeStat::COUNT + GroupStat::COUNT;
type Items = [AtomicI64; ITEMS];

/// Counters of groups, and owners of frames.
pub struct GroupStats {
    nr_nodes: usize,
    /// By frame; those of a folio's other frames are not looked at.
    owners: ZeroedSlice<AtomicU16>,
    /// By group, then node: exact.
    own: Box<[Items]>,
    /// Values of `own` at the last flush.
    flushed: Box<[Items]>,
    /// With all groups below, as of the last flush.
    seen: Box<[Items]>,
    /// By group: changed since the last flush.
    is_marked: Box<[AtomicBool]>,
    lateness: Lateness,
    /// By CPU, then as `own`: changes that the CPU keeps for itself (up to 5.12); else empty.
    held: Box<[Items]>,
    /// Tick of the last flush of everything.
    flushed_at: AtomicU64,
    /// The kernel's worker runs, and flushes at its times.
    has_worker: AtomicBool,
    /// `memory.current` and its limits; in a version 1 hierarchy memory and swap together too.
    pub(crate) memory: Counters,
    /// `memory.swap.current` and its limits. Version 1 has the usage only: pages that are in swap
    /// and not in memory.
    pub(crate) swap: Counters,
}

/// Levels of users' pages that groups count as nodes do, besides the sizes of LRU lists.
pub(crate) const USER_LEVELS: [NodeStat; 8] = [
    NodeStat::AnonPages,
    NodeStat::FilePages,
    NodeStat::Mapped,
    NodeStat::Shmem,
    NodeStat::AnonTransparentHugepages,
    NodeStat::Dirty,
    NodeStat::Writeback,
    NodeStat::Swapcached,
];

fn sets(nr: usize) -> Box<[Items]> {
    let mut all = Vec::with_capacity(nr);
    all.resize_with(nr, || core::array::from_fn(|_| AtomicI64::new(0)));
    all.into_boxed_slice()
}

impl GroupStats {
    /// For a kernel without groups.
    pub(crate) fn off() -> GroupStats {
        GroupStats::new(0, 0, 0, 0, &MemcgPolicy::default())
    }

    /// For `nr_groups` groups, the root included. 0: no groups.
    pub(crate) fn new(
        nr_frames: usize,
        nr_groups: usize,
        nr_nodes: usize,
        nr_cpus: usize,
        policy: &MemcgPolicy,
    ) -> Self {
        let rule = policy.stats;
        let nr_sets = nr_groups * nr_nodes;
        let nr_frames = if nr_groups == 0 { 0 } else { nr_frames };
        GroupStats {
            nr_nodes,
            owners: ZeroedSlice::new(nr_frames),
            own: sets(nr_sets),
            flushed: sets(nr_sets),
            seen: sets(nr_sets),
            is_marked: (0..nr_groups).map(|_| AtomicBool::new(false)).collect(),
            lateness: Lateness::new(rule, nr_cpus, nr_groups),
            held: sets(if rule == MemcgStats::Batches { nr_sets * nr_cpus } else { 0 }),
            flushed_at: AtomicU64::new(0),
            has_worker: AtomicBool::new(false),
            memory: match policy.hierarchy {
                GroupHierarchy::V2 => Counters::new(nr_groups.max(1)),
                GroupHierarchy::V1 => Counters::with_memsw(nr_groups.max(1)),
            },
            swap: Counters::new(nr_groups.max(1)),
        }
    }

    /// True if the kernel can have groups.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        !self.own.is_empty()
    }

    /// True if the groups are version 1's.
    #[inline]
    pub fn is_v1(&self) -> bool {
        self.memory.memsw().is_some()
    }

    /// Number of groups that fit, the root included; 0 if groups are off.
    pub fn capacity(&self) -> usize {
        self.is_marked.len()
    }

    /// The group that a folio is charged to; the root if none.
    ///
    /// # Panics
    /// If groups are off or there is no such frame.
    #[doc(alias = "folio_memcg")]
    #[doc(alias = "page_memcg")]
    #[inline(always)]
    pub fn owner(&self, folio: impl Into<Pfn>) -> GroupId {
        GroupId(self.owners[folio.into().idx()].load(Relaxed))
    }

    /// Sets the owner of a folio.
    #[inline(always)]
    pub(crate) fn set_owner(&self, folio: impl Into<Pfn>, group: GroupId) {
        self.owners[folio.into().idx()].store(group.0, Relaxed);
    }

    /// Whose frame it is, if groups are on.
    #[inline(always)]
    pub fn owner_if_on(&self, folio: Folio) -> Option<GroupId> {
        if !self.is_on() {
            return None;
        }
        cold_path();
        Some(self.owner(folio))
    }

    #[inline(always)]
    fn set(&self, group: GroupId, node: NodeId) -> usize {
        group.idx() * self.nr_nodes + node.idx()
    }

    /// Adds to a group's own count of a node's item.
    ///
    /// # Panics
    /// If groups are off.
    #[doc(alias = "__mod_memcg_lruvec_state")]
    pub(crate) fn add(
        &self,
        cpu: CpuId,
        (group, node): (GroupId, NodeId),
        item: NodeStat,
        by: i64,
    ) {
        self.add_at(cpu, (group, node), item as usize, by);
    }

    /// Adds to a count that only groups have.
    ///
    /// # Panics
    /// If groups are off.
    #[doc(alias = "count_memcg_events")]
    #[doc(alias = "__count_memcg_events")]
    #[doc(alias = "mod_memcg_state")]
    pub(crate) fn count(&self, cpu: CpuId, at: (GroupId, NodeId), item: GroupStat, by: i64) {
        self.add_at(cpu, at, item.idx(), by);
    }

    fn add_at(&self, cpu: CpuId, (group, node): (GroupId, NodeId), item: usize, by: i64) {
        if by == 0 {
            return;
        }
        self.own[self.set(group, node)][item].fetch_add(by, Relaxed);
        if !self.held.is_empty() {
            self.add_batched(cpu, (group, node), item, by);
            return;
        }
        self.is_marked[group.idx()].store(true, Relaxed);
        self.lateness.note(&self.memory, cpu, group, by);
    }

    /// Up to 5.12: a CPU keeps a batch of each item for itself, without a time limit. The
    /// excess counts at once, in the group and all above.
    #[doc(alias = "__mod_memcg_state")]
    fn add_batched(&self, cpu: CpuId, (group, node): (GroupId, NodeId), item: usize, by: i64) {
        let bytes = [GroupStat::SlabReclaimable, GroupStat::SlabUnreclaimable];
        let is_bytes = bytes.iter().any(|stat| stat.idx() == item);
        let batch = if is_bytes { BYTES_BATCH } else { ITEM_BATCH };
        let held = &self.held[cpu.idx() * self.own.len() + self.set(group, node)][item];
        let (rest, out) = batched(held.load(Relaxed), by, batch);
        held.store(rest, Relaxed);
        for above in self.memory.ancestors(group).take_while(|_| out != 0) {
            self.seen[self.set(above, node)][item].fetch_add(out, Relaxed);
        }
    }

    /// The kernel's worker begins.
    pub(crate) fn worker_begins(&self) {
        self.has_worker.store(true, Relaxed);
    }

    /// Adds up all statistics, as the kernel's worker does.
    pub(crate) fn flush_all(&self, now: u64) {
        self.flushed_at.store(now, Relaxed);
        self.flush();
    }

    /// Adds up statistics if this reader does so. On a host without daemons it does the work of the
    /// kernel's worker too, if this is overdue.
    #[doc(alias = "mem_cgroup_flush_stats")]
    pub(crate) fn flush_for(&self, reader: Reader, group: GroupId, now: u64) {
        if !self.would_flush(reader, group, now) {
            return;
        }
        let since = now.saturating_sub(self.flushed_at.load(Relaxed));
        if since >= FLUSH_PERIOD {
            self.flushed_at.store(now - since % FLUSH_PERIOD, Relaxed);
        }
        self.flush();
    }

    /// Reports whether [`Self::flush_for`] would add up statistics.
    fn would_flush(&self, reader: Reader, group: GroupId, now: u64) -> bool {
        if !self.held.is_empty() {
            return false;
        }
        let since = now.saturating_sub(self.flushed_at.load(Relaxed));
        let does_workers = !self.has_worker.load(Relaxed) && since >= FLUSH_PERIOD;
        does_workers || self.lateness.should_flush(reader, group, since)
    }

    /// The counts of a group and all below as of the last flush.
    pub(crate) fn as_flushed(&self, group: GroupId) -> Shown<'_> {
        Shown { stats: self, group, pending: Vec::new() }
    }

    /// The counts that a reader at this time sees, which may flush first. Nothing is flushed here,
    /// so later readers see what they would have seen without this one.
    pub(crate) fn as_read(&self, reader: Reader, group: GroupId, now: u64) -> Shown<'_> {
        let mut shown = self.as_flushed(group);
        if self.would_flush(reader, group, now) {
            let all = (0..self.is_marked.len()).map(|group| GroupId(group as u16));
            let is_below = |&other: &GroupId| self.memory.is_within(other, group);
            shown.pending = all.filter(is_below).collect();
        }
        shown
    }

    /// Hands all changes up the tree.
    #[doc(alias = "cgroup_rstat_flush")]
    #[doc(alias = "mem_cgroup_css_rstat_flush")]
    pub fn flush(&self) {
        let all = (0..self.is_marked.len()).map(|group| GroupId(group as u16));
        self.lateness.flushed(all.clone());
        for group in all.filter(|group| self.is_marked[group.idx()].swap(false, Relaxed)) {
            for node in (0..self.nr_nodes).map(|node| NodeId(node as u16)) {
                let at = self.set(group, node);
                for item in 0..ITEMS {
                    let now = self.own[at][item].load(Relaxed);
                    let delta = now - self.flushed[at][item].swap(now, Relaxed);
                    if delta != 0 {
                        for above in self.memory.ancestors(group) {
                            self.seen[self.set(above, node)][item].fetch_add(delta, Relaxed);
                        }
                    }
                }
            }
        }
    }

    /// A group's own count of a node's item: exact.
    pub fn own(&self, group: GroupId, node: NodeId, item: NodeStat) -> i64 {
        self.own[self.set(group, node)][item as usize].load(Relaxed)
    }

    /// A node's item of a group and all below, as of the last flush.
    pub fn seen(&self, group: GroupId, node: NodeId, item: NodeStat) -> u64 {
        self.seen[self.set(group, node)][item as usize].load(Relaxed).max(0) as u64
    }

    /// A group's own count of an item that only groups have.
    pub(crate) fn own_count(&self, group: GroupId, node: NodeId, item: GroupStat) -> i64 {
        self.own[self.set(group, node)][item.idx()].load(Relaxed)
    }

    /// The level of an item that a reader sees, over all nodes.
    #[doc(alias = "memcg_page_state")]
    pub fn seen_all(&self, group: GroupId, item: NodeStat) -> u64 {
        self.sum(group, item as usize)
    }

    /// Of an item that only groups have.
    pub fn seen_count(&self, group: GroupId, item: GroupStat) -> u64 {
        self.sum(group, item.idx())
    }

    fn sum(&self, group: GroupId, item: usize) -> u64 {
        self.sum_of(&self.seen, group, item).max(0) as u64
    }

    /// Over all nodes.
    fn sum_of(&self, sets: &[Items], group: GroupId, item: usize) -> i64 {
        let sets = &sets[group.idx() * self.nr_nodes..][..self.nr_nodes];
        sets.iter().map(|items| items[item].load(Relaxed)).sum()
    }

    /// Clears the counts of a group whose number is given out again.
    pub(crate) fn reset(&self, group: GroupId) {
        let sets = group.idx() * self.nr_nodes..(group.idx() + 1) * self.nr_nodes;
        for all in [&self.own, &self.flushed, &self.seen] {
            all[sets.clone()].iter().flatten().for_each(|item| item.store(0, Relaxed));
        }
        for of_cpu in self.held.chunks(self.own.len().max(1)) {
            of_cpu[sets.clone()].iter().flatten().for_each(|item| item.store(0, Relaxed));
        }
    }
}

/// A group's counts as a reader sees them, over all nodes.
pub(crate) struct Shown<'a> {
    stats: &'a GroupStats,
    group: GroupId,
    /// Groups whose changes since the last flush count too.
    pending: Vec<GroupId>,
}

impl Shown<'_> {
    /// A node item.
    pub(crate) fn item(&self, item: NodeStat) -> u64 {
        self.sum(item as usize)
    }

    /// An item that only groups have.
    pub(crate) fn count(&self, item: GroupStat) -> u64 {
        self.sum(item.idx())
    }

    fn sum(&self, item: usize) -> u64 {
        let stats = self.stats;
        let of = |sets: &[Items], group| stats.sum_of(sets, group, item);
        let since = |&group: &GroupId| of(&stats.own, group) - of(&stats.flushed, group);
        let pending: i64 = self.pending.iter().map(since).sum();
        (of(&stats.seen, self.group) + pending).max(0) as u64
    }
}
