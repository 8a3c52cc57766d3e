//! `/proc/zoneinfo`: marks, sizes, counters and per-CPU lists of every zone.

use core::fmt;

use super::node_item;
use crate::config::KernelVersion;
use crate::host::{CpuId, Host};
use crate::page_alloc::{PageAllocator, PcpLevels};
use crate::vmstat::{NodeStat, NumaStat, ZoneStat};
use crate::zone::{Mark, Node, NodeId, Zone, ZoneType};

/// The first kernel with a line `promo` (about: 6.1 has none, 6.12 has it).
const PROMO: KernelVersion = KernelVersion::of("6.7");
/// The first kernel with the ends of the limit that lists tune (about: 6.12 has none, 6.18 has them).
const RANGES: KernelVersion = KernelVersion::of("6.13");
/// The first kernel with lines of the high-atomic reserve (about: 6.18 has none, 7.2 has them).
const HIGHATOMIC: KernelVersion = KernelVersion::of("7.0");

/// Writes `/proc/zoneinfo`: all zones of all nodes, with memory or without. `on` is the CPU that
/// asks; `unreclaimable` says of which nodes kswapd has given up.
///
/// # Errors
/// Those of the writer.
#[doc(alias = "zoneinfo_show")]
pub fn zoneinfo<H: Host>(
    w: &mut impl fmt::Write,
    alloc: &PageAllocator<H>,
    on: CpuId,
    unreclaimable: impl Fn(NodeId) -> bool,
) -> fmt::Result {
    zoneinfo_with(w, alloc, unreclaimable, |zone, cpu| alloc.pcp_levels(zone, cpu, on))
}

/// The same for an observer that takes no locks: `levels` says how many pages a CPU has on its lists
/// of a zone, and how many it may have.
///
/// # Errors
/// Errors of the writer.
pub fn zoneinfo_with<H: Host>(
    w: &mut impl fmt::Write,
    alloc: &PageAllocator<H>,
    unreclaimable: impl Fn(NodeId) -> bool,
    mut levels: impl FnMut(&Zone<H>, CpuId) -> PcpLevels,
) -> fmt::Result {
    let kernel = alloc.policy.kernel;
    for node in alloc.nodes() {
        let mut node_shown = false;
        for kind in ZoneType::ALL {
            writeln!(w, "Node {}, zone {:>8}", node.id.0, kind.name())?;
            let Some(zone) = alloc.zone(node.id, kind) else {
                sizes(w, &Sizes::default(), kernel)?;
                continue;
            };
            if !node_shown {
                per_node(w, node, alloc.policy.counters())?;
                node_shown = true;
            }
            sizes(w, &Sizes::of(zone), kernel)?;
            counters(w, zone)?;
            pagesets(w, alloc, zone, &mut levels)?;
            writeln!(w, "  node_unreclaimable:  {}", u8::from(unreclaimable(node.id)))?;
            writeln!(w, "  start_pfn:           {}", zone.start.0)?;
            if kernel >= HIGHATOMIC {
                writeln!(w, "  reserved_highatomic: {}", zone.nr_reserved_highatomic())?;
                writeln!(w, "  free_highatomic:     {}", zone.nr_free_highatomic())?;
            }
        }
    }
    Ok(())
}

/// The head of a zone's entry.
#[derive(Default)]
struct Sizes {
    free: u64,
    boost: u64,
    min: u64,
    low: u64,
    high: u64,
    promo: u64,
    spanned: u64,
    present: u64,
    managed: u64,
    protection: [u64; ZoneType::COUNT],
}

impl Sizes {
    fn of<H: Host>(zone: &Zone<H>) -> Sizes {
        Sizes {
            free: zone.nr_free_pages(),
            boost: zone.boost(),
            min: zone.mark(Mark::Min),
            low: zone.mark(Mark::Low),
            high: zone.mark(Mark::High),
            promo: zone.marks().promo,
            spanned: zone.spanned(),
            present: zone.present,
            managed: zone.managed(),
            protection: zone.lowmem_reserves(),
        }
    }
}

fn per_node(w: &mut impl fmt::Write, node: &Node, kernel: KernelVersion) -> fmt::Result {
    w.write_str("  per-node stats\n")?;
    for item in NodeStat::of_kernel(kernel) {
        writeln!(w, "      {:<12} {}", item.name(), node_item(&node.stats, item))?;
    }
    Ok(())
}

fn sizes(w: &mut impl fmt::Write, s: &Sizes, kernel: KernelVersion) -> fmt::Result {
    writeln!(w, "  pages free     {}", s.free)?;
    writeln!(w, "        boost    {}", s.boost)?;
    writeln!(w, "        min      {}", s.min)?;
    writeln!(w, "        low      {}", s.low)?;
    writeln!(w, "        high     {}", s.high)?;
    if kernel >= PROMO {
        writeln!(w, "        promo    {}", s.promo)?;
    }
    writeln!(w, "        spanned  {}", s.spanned)?;
    writeln!(w, "        present  {}", s.present)?;
    writeln!(w, "        managed  {}", s.managed)?;
    writeln!(w, "        cma      0")?;
    let [a, b, c, d, e] = s.protection;
    writeln!(w, "        protection: ({a}, {b}, {c}, {d}, {e})")
}

fn counters<H: Host>(w: &mut impl fmt::Write, zone: &Zone<H>) -> fmt::Result {
    for &item in ZoneStat::ALL {
        writeln!(w, "      {:<12} {}", item.name(), zone.stats.read(item as usize))?;
    }
    for &item in NumaStat::ALL {
        writeln!(w, "      {:<12} {}", item.name(), zone.numa_stat(item))?;
    }
    Ok(())
}

fn pagesets<H: Host>(
    w: &mut impl fmt::Write,
    alloc: &PageAllocator<H>,
    zone: &Zone<H>,
    levels: &mut impl FnMut(&Zone<H>, CpuId) -> PcpLevels,
) -> fmt::Result {
    // The longest label decides where the numbers stand.
    let has_ranges = alloc.policy.kernel >= RANGES;
    let width = if has_ranges { "high_min:".len() } else { "batch:".len() };
    let line = |w: &mut _, label: &str, number: u32| -> fmt::Result {
        fmt::Write::write_fmt(w, format_args!("              {label:<width$} {number}\n"))
    };
    w.write_str("  pagesets\n")?;
    for cpu in alloc.cpus() {
        writeln!(w, "    cpu: {}", cpu.0)?;
        let PcpLevels { pages, high } = levels(zone, cpu);
        line(w, "count:", pages)?;
        line(w, "high:", high)?;
        line(w, "batch:", zone.pcp_batch())?;
        if has_ranges {
            line(w, "high_min:", zone.pcp_high())?;
            line(w, "high_max:", zone.pcp_high_max())?;
        }
        writeln!(w, "  vm stats threshold: {}", zone.stats.threshold())?;
    }
    Ok(())
}
