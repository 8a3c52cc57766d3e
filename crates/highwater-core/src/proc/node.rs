//! `numastat` and `vmstat` of one node, as `/sys/devices/system/node/nodeN` has them.

use core::fmt;

use super::node_item;
use crate::host::Host;
use crate::page_alloc::PageAllocator;
use crate::vmstat::{NodeStat, NumaStat, ZoneStat};
use crate::zone::NodeId;

/// The NUMA events as `numastat` calls them, in its order.
const NUMASTAT: [(&str, NumaStat); 6] = [
    ("numa_hit", NumaStat::NumaHit),
    ("numa_miss", NumaStat::NumaMiss),
    ("numa_foreign", NumaStat::NumaForeign),
    ("interleave_hit", NumaStat::NumaInterleave),
    ("local_node", NumaStat::NumaLocal),
    ("other_node", NumaStat::NumaOther),
];

/// Tells the NUMA events of a node, by the names of `numastat` (rules/zone-counters#numastat). A node that is
/// not there has had none.
pub fn numastat_of<H: Host>(
    alloc: &PageAllocator<H>,
    node: NodeId,
    mut each: impl FnMut(&'static str, u64),
) {
    for (name, item) in NUMASTAT {
        each(name, alloc.zones_of(node).map(|zone| zone.numa_stat(item)).sum());
    }
}

/// Writes a node's `numastat`.
///
/// # Errors
/// Those of the writer.
#[doc(alias = "node_read_numastat")]
pub fn numastat<H: Host>(
    w: &mut impl fmt::Write,
    alloc: &PageAllocator<H>,
    node: NodeId,
) -> fmt::Result {
    let mut result = Ok(());
    numastat_of(alloc, node, |name, value| {
        result = result.and_then(|()| writeln!(w, "{name} {value}"));
    });
    result
}

/// Writes a node's `vmstat`: zone items, NUMA items, node items.
///
/// # Errors
/// Those of the writer.
#[doc(alias = "node_read_vmstat")]
pub fn node_vmstat<H: Host>(
    w: &mut impl fmt::Write,
    alloc: &PageAllocator<H>,
    node: NodeId,
) -> fmt::Result {
    let kernel = alloc.policy.counters();
    let mut line = |name: &str, value: u64| writeln!(w, "{name} {value}");
    let zones = || alloc.zones_of(node);
    for item in ZoneStat::of_kernel(kernel) {
        line(item.name(), zones().map(|zone| zone.stats.read(item as usize)).sum())?;
    }
    for item in NumaStat::of_kernel(kernel) {
        line(item.name(), zones().map(|zone| zone.numa_stat(item)).sum())?;
    }
    let stats = alloc.nodes().get(node.idx()).map(|node| &node.stats);
    for item in NodeStat::of_kernel(kernel) {
        line(item.name(), stats.map_or(0, |stats| node_item(stats, item)))?;
    }
    Ok(())
}
