//! `/proc/vmstat`: every counter that the policy's kernel has, one per line.

use core::fmt;

use super::node_item;
use crate::host::Host;
use crate::page_alloc::PageAllocator;
use crate::vmstat::{NodeStat, NumaStat, VmEvent, ZoneStat};

/// The dirty limits in force, in pages (rules/dirty-throttling#limits). Writeback computes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DirtyThresholds {
    /// Writers are throttled above this.
    pub threshold: u64,
    /// Background writeback starts above this.
    pub background: u64,
}

/// Writes `/proc/vmstat`: zone items, NUMA items, node items, dirty limits, events.
///
/// # Errors
/// Those of the writer.
#[doc(alias = "vmstat_show")]
pub fn vmstat<H: Host>(
    w: &mut impl fmt::Write,
    alloc: &PageAllocator<H>,
    dirty: DirtyThresholds,
) -> fmt::Result {
    let kernel = alloc.policy.counters();
    let mut line = |name: &str, value: u64| writeln!(w, "{name} {value}");
    for item in ZoneStat::of_kernel(kernel) {
        let sum = alloc.populated_zones().map(|z| z.stats.read(item as usize)).sum();
        line(item.name(), sum)?;
    }
    for item in NumaStat::of_kernel(kernel) {
        line(item.name(), alloc.populated_zones().map(|z| z.numa_stat(item)).sum())?;
    }
    for item in NodeStat::of_kernel(kernel) {
        line(item.name(), alloc.nodes().iter().map(|n| node_item(&n.stats, item)).sum())?;
    }
    line("nr_dirty_threshold", dirty.threshold)?;
    line("nr_dirty_background_threshold", dirty.background)?;
    for event in VmEvent::of_kernel(kernel) {
        line(event.name(), alloc.events.read(event))?;
    }
    // A node item of older kernels, kept at the end for tools that look for it.
    line("nr_unstable", 0)
}
