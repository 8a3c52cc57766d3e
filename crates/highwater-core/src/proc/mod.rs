//! Text of `/proc/meminfo`, `vmstat`, `zoneinfo`, `buddyinfo` and `pagetypeinfo`, of a node's `numastat` and
//! `vmstat`, and of the memory part of an OOM log. It has exactly the layout of Linux 6.1
//! (rules/zone-counters#buddyinfo to rules/zone-counters#vmstat), so tools for a real machine can
//! read a model too.
//!
//! Each is a function that writes into any [`core::fmt::Write`]. Counters are plain reads without
//! per-CPU differences, as in Linux. Nothing is charged or traced; `pagetypeinfo` takes the zone
//! locks and `zoneinfo` the per-CPU locks, one at a time.

mod buddyinfo;
mod mem_info;
mod meminfo;
mod node;
mod pagetypeinfo;
mod vmstat;
mod zoneinfo;

pub use buddyinfo::buddyinfo;
pub use mem_info::{SwapSpace, mem_info};
pub use meminfo::{MEMINFO_NOT_MODELLED, Promised, meminfo};
pub use node::{node_vmstat, numastat, numastat_of};
pub use pagetypeinfo::pagetypeinfo;
pub use vmstat::{DirtyThresholds, vmstat};
pub use zoneinfo::{zoneinfo, zoneinfo_with};

use crate::page::PAGEBLOCK_PAGES;
use crate::vmstat::{NodeStat, StatSet};

/// A node counter as `/proc` shows it: huge-page items in huge pages, the others in pages.
fn node_item(stats: &StatSet<{ NodeStat::COUNT }>, item: NodeStat) -> u64 {
    let pages = stats.read(item as usize);
    match item {
        NodeStat::ShmemHugepages
        | NodeStat::ShmemPmdmapped
        | NodeStat::FileHugepages
        | NodeStat::FilePmdmapped
        | NodeStat::AnonTransparentHugepages => pages / PAGEBLOCK_PAGES,
        _ => pages,
    }
}
