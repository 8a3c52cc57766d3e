//! Figures of an allocator, as plain values.

use alloc::vec::Vec;

use super::{Host, NodeId, Order, ZoneType};
use crate::page::MAX_ORDER;
use crate::page_alloc::PageAllocator;
use crate::units::CpuId;
use crate::vmstat::{NodeStat, NumaStat, VmEvent, ZoneStat};
use crate::zone::{Mark, Zone};

/// The state of all memory at one moment. While others allocate, figures of one moment differ by what
/// they did meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Pages on the buddy lists.
    pub free_pages: u64,
    /// Pages on the lists of CPUs: free as well, for their CPU.
    pub pcp_pages: u64,
    /// Pages that the allocator has in all.
    pub managed_pages: u64,
    /// Each zone with memory, by node, then type.
    pub zones: Vec<ZoneStats>,
    counters: Vec<(&'static str, u64)>,
}

/// A zone of a node, in pages.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ZoneStats {
    /// Its node.
    pub node: NodeId,
    /// Its type.
    pub zone: ZoneType,
    /// From the first to the last frame, holes included.
    pub spanned: u64,
    /// Without the holes.
    pub present: u64,
    /// Pages that the allocator has, without reserved ones.
    pub managed: u64,
    /// Pages on the buddy lists.
    pub free: u64,
    /// Pages on the lists of CPUs.
    pub pcp: u64,
    /// Watermarks, boost included: an ordinary request fails below min, wakes kswapd below low; kswapd
    /// stops at high.
    pub min: u64,
    /// The low watermark.
    pub low: u64,
    /// The high watermark.
    pub high: u64,
    /// Number of free blocks of each order.
    pub free_blocks: [u64; MAX_ORDER],
}

impl Stats {
    pub(super) fn of<H: Host>(allocator: &PageAllocator<H>, on: CpuId) -> Stats {
        let zones: Vec<_> =
            allocator.populated_zones().map(|zone| ZoneStats::of(allocator, zone, on)).collect();
        let sum = |figure: fn(&ZoneStats) -> u64| zones.iter().map(figure).sum();
        Stats {
            free_pages: sum(|zone| zone.free),
            pcp_pages: sum(|zone| zone.pcp),
            managed_pages: sum(|zone| zone.managed),
            counters: counters(allocator).collect(),
            zones,
        }
    }

    /// A counter by its name in `/proc/vmstat`, such as `pgfree` or `numa_hit`; none if the policy's kernel
    /// has no such counter.
    pub fn counter(&self, name: &str) -> Option<u64> {
        self.counters.iter().find(|(known, _)| *known == name).map(|&(_, value)| value)
    }

    /// All counters of the policy's kernel, in the order of its `/proc/vmstat`.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counters.iter().copied()
    }
}

impl ZoneStats {
    fn of<H: Host>(allocator: &PageAllocator<H>, zone: &Zone<H>, on: CpuId) -> ZoneStats {
        let on_lists = |cpu| u64::from(allocator.pcp_count(zone, cpu, on));
        ZoneStats {
            node: zone.node,
            zone: zone.zone,
            spanned: zone.spanned(),
            present: zone.present,
            managed: zone.managed(),
            free: zone.nr_free_pages_exact(),
            pcp: allocator.cpus().map(on_lists).sum(),
            min: zone.mark(Mark::Min),
            low: zone.mark(Mark::Low),
            high: zone.mark(Mark::High),
            free_blocks: core::array::from_fn(|order| {
                u64::from(zone.nr_free_blocks(Order(order as u8)))
            }),
        }
    }
}

/// Exact: differences that CPUs keep are added.
fn counters<H: Host>(
    allocator: &PageAllocator<H>,
) -> impl Iterator<Item = (&'static str, u64)> + '_ {
    let kernel = allocator.policy.counters();
    let of_zones = move |item: ZoneStat| {
        let zones = allocator.populated_zones();
        (item.name(), zones.map(|zone| zone.stats.read_exact(item as usize)).sum())
    };
    let of_numa = move |item: NumaStat| {
        (item.name(), allocator.populated_zones().map(|zone| zone.numa_stat(item)).sum())
    };
    let of_nodes = move |item: NodeStat| {
        let nodes = allocator.nodes().iter();
        (item.name(), nodes.map(|node| node.stats.read_exact(item as usize)).sum())
    };
    let events =
        VmEvent::of_kernel(kernel).map(|event| (event.name(), allocator.events.read(event)));
    let zones = ZoneStat::of_kernel(kernel).map(of_zones);
    let numa = NumaStat::of_kernel(kernel).map(of_numa);
    let nodes = NodeStat::of_kernel(kernel).map(of_nodes);
    zones.chain(numa).chain(nodes).chain(events)
}
