//! A zone with its lists, and a node.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Deref;

use crossbeam_utils::CachePadded;

use super::{FreshRun, NodeId, Pcp, ZoneId, ZoneInfo, ZoneType};
use crate::host::{CpuId, Host};
use crate::page::{MAX_ORDER, MigrateType, Order, PAGE_SHIFT, PageList};
use crate::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::sync::bump;
use crate::sync::order::LockClass;
use crate::vmstat::{NodeStat, NumaStat, StatSet};

/// Free lists of a zone by order and type. Lives behind the zone lock.
#[doc(alias = "free_area")]
#[derive(Debug, Default)]
pub struct FreeArea {
    /// `lists[order][type]`.
    pub lists: [[PageList; MigrateType::COUNT]; MAX_ORDER],
    /// Blocks of one of the lists that are not linked.
    pub(crate) fresh: Option<FreshRun>,
}

impl FreeArea {
    /// Blocks on a list, including fresh ones that are not linked.
    ///
    /// # Panics
    /// If the order is above [`Order::MAX`].
    pub fn nr_blocks(&self, order: Order, migratetype: MigrateType) -> u32 {
        let of_list = |run: &&FreshRun| order == Order::MAX && run.migratetype == migratetype;
        let nr_fresh = self.fresh.as_ref().filter(of_list).map_or(0, |run| run.nr_left);
        self.lists[order.idx()][migratetype.idx()].len() + nr_fresh
    }
}

/// One CPU's part of a zone: its page lists and NUMA counts.
#[doc(alias = "per_cpu_zonestat")]
pub struct CpuZone<H: Host> {
    /// The page lists.
    pub pcp: H::CpuLock<Pcp>,
    /// Counts since boot, written by this CPU only; the counts in `usual` are added.
    numa: [AtomicU64; NumaStat::COUNT],
    /// Allocations from the zone that was preferred: hits, each of which is of [`Self::origin`] too.
    usual: AtomicU64,
    /// What pages of the zone are to this CPU: local or other.
    origin: NumaStat,
    /// Seconds until a remote node's pages decay (rules/per-cpu-lists#decay).
    pub(crate) expire: AtomicU8,
}

impl<H: Host> CpuZone<H> {
    /// Counts a NUMA event on behalf of this CPU.
    #[inline(always)]
    pub(crate) fn count(&self, item: NumaStat) {
        bump(&self.numa[item as usize], 1);
    }

    /// Counts an allocation that preferred this zone: a hit without a miss. Local or other is
    /// counted separately, because the preferred node need not be the CPU's.
    #[inline(always)]
    pub(crate) fn count_hit(&self) {
        bump(&self.usual, 1);
    }

    /// What pages of the zone are to this CPU.
    #[inline(always)]
    pub(crate) fn origin(&self) -> NumaStat {
        self.origin
    }

    fn numa(&self, item: NumaStat) -> u64 {
        let is_usual = item == NumaStat::NumaHit || item == self.origin;
        let usual = if is_usual { self.usual.load(Relaxed) } else { 0 };
        self.numa[item as usize].load(Relaxed) + usual
    }
}

/// Whole pages of a CPU's share of its last-level cache.
fn cache_slice<H: Host>(host: &H, cpu: CpuId) -> u32 {
    u32::try_from(host.cache_slice_bytes(cpu) >> PAGE_SHIFT).unwrap_or(u32::MAX)
}

/// One zone of one node.
pub struct Zone<H: Host> {
    /// The part that needs no lock.
    pub info: ZoneInfo,
    /// Free lists.
    pub free: H::Lock<FreeArea>,
    /// Per-CPU lists and counts, by CPU.
    pub cpus: Box<[CachePadded<CpuZone<H>>]>,
}

impl<H: Host> Zone<H> {
    /// A zone with empty lists; `cpu_node` has the node of each CPU.
    pub fn new(host: &H, info: ZoneInfo, cpu_node: &[NodeId]) -> Zone<H> {
        let cpus: Vec<_> = cpu_node
            .iter()
            .enumerate()
            .map(|(cpu, &node)| {
                CachePadded::new(CpuZone {
                    pcp: host.new_cpu_lock(
                        LockClass::Pcp,
                        CpuId(cpu as u16),
                        Pcp::new(CpuId(cpu as u16), cache_slice(host, CpuId(cpu as u16))),
                    ),
                    numa: [const { AtomicU64::new(0) }; NumaStat::COUNT],
                    usual: AtomicU64::new(0),
                    origin: NumaStat::of_origin(info.node == node),
                    expire: AtomicU8::new(0),
                })
            })
            .collect();
        Zone {
            info,
            free: host.new_lock(LockClass::Zone, FreeArea::default()),
            cpus: cpus.into_boxed_slice(),
        }
    }

    /// A NUMA event count, summed over CPUs.
    pub fn numa_stat(&self, item: NumaStat) -> u64 {
        self.cpus.iter().map(|cpu| cpu.numa(item)).sum()
    }
}

impl<H: Host> Deref for Zone<H> {
    type Target = ZoneInfo;

    #[inline(always)]
    fn deref(&self) -> &ZoneInfo {
        &self.info
    }
}

/// Runs of kswapd without a page after which a node is hopeless (`MAX_RECLAIM_RETRIES`).
pub const MAX_FAILURES: u32 = 16;

/// A node: its CPUs, counters and reserve.
#[doc(alias = "pglist_data")]
pub struct Node {
    /// Number.
    pub id: NodeId,
    /// CPUs of this node.
    pub cpus: Vec<CpuId>,
    /// Node counters.
    pub stats: StatSet<{ NodeStat::COUNT }>,
    /// Pages that ordinary use must leave (rules/watermarks#total-reserve).
    pub(crate) total_reserve: AtomicU64,
    /// kswapd's runs without a page since the last success (rules/kswapd#hopeless). It is not
    /// reclaim's: frees may end a series of failures too (rules/per-cpu-lists#below-high).
    pub(crate) kswapd_failures: AtomicU32,
}

impl Node {
    /// kswapd failed so often that waking it is useless. Tasks that would have waited for it
    /// proceed without it: to reclaim, and then to the OOM killer. Otherwise they would wait for
    /// ever for a kswapd that makes no progress.
    pub fn is_hopeless(&self) -> bool {
        self.kswapd_failures.load(Relaxed) >= MAX_FAILURES
    }

    /// Pages that ordinary use must leave.
    pub fn total_reserve(&self) -> u64 {
        self.total_reserve.load(Relaxed)
    }

    /// One of the node's zones.
    pub fn zone_id(&self, zone: ZoneType) -> ZoneId {
        ZoneId::new(self.id, zone)
    }
}
