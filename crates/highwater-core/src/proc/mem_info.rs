//! The kernel's report of its memory in an OOM log: the lines after `Mem-Info:`, in the layout of
//! Linux 6.1 (rules/shrinkers-and-oom#oom-report).

use core::fmt;

use super::node_item;
use crate::host::{CpuId, Host, Lock};
use crate::page::{MAX_ORDER, MigrateType, Order, PAGE_SIZE};
use crate::page_alloc::PageAllocator;
use crate::vmstat::{NodeStat, ZoneStat};
use crate::zone::{Mark, Node, NodeId, Zone};

const KB_PER_PAGE: u64 = PAGE_SIZE as u64 / 1024;

/// Figures that the allocator does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SwapSpace {
    /// Pages of swap that are free.
    pub free: u64,
    /// All.
    pub total: u64,
}

/// Writes the memory part of an OOM report (`Mem-Info`). `on` is the CPU that asks; `unreclaimable`
/// says of which nodes kswapd has given up.
///
/// # Errors
/// Those of the writer.
#[doc(alias = "show_free_areas")]
pub fn mem_info<H: Host>(
    w: &mut impl fmt::Write,
    alloc: &PageAllocator<H>,
    on: CpuId,
    unreclaimable: impl Fn(NodeId) -> bool,
    swap: SwapSpace,
) -> fmt::Result {
    machine(w, alloc, on)?;
    for node in alloc.nodes() {
        if alloc.zones_of(node.id).next().is_none() {
            continue;
        }
        of_node(w, node, unreclaimable(node.id))?;
    }
    for zone in alloc.populated_zones() {
        of_zone(w, alloc, zone, on)?;
    }
    for zone in alloc.populated_zones() {
        free_blocks(w, zone, on)?;
    }
    let sum =
        |item: NodeStat| alloc.nodes().iter().map(|node| node_item(&node.stats, item)).sum::<u64>();
    writeln!(w, "{} total pagecache pages", sum(NodeStat::FilePages))?;
    writeln!(w, "{} pages in swap cache", sum(NodeStat::Swapcached))?;
    writeln!(w, "Free swap  = {}kB", swap.free * KB_PER_PAGE)?;
    writeln!(w, "Total swap = {}kB", swap.total * KB_PER_PAGE)?;
    let present: u64 = alloc.populated_zones().map(|zone| zone.present).sum();
    let managed: u64 = alloc.populated_zones().map(|zone| zone.managed()).sum();
    writeln!(w, "{present} pages RAM")?;
    writeln!(w, "0 pages HighMem/MovableOnly")?;
    writeln!(w, "{} pages reserved", present.saturating_sub(managed))
}

/// Pages of the whole machine.
fn machine<H: Host>(w: &mut impl fmt::Write, alloc: &PageAllocator<H>, on: CpuId) -> fmt::Result {
    let pages = |item: NodeStat| -> u64 {
        alloc.nodes().iter().map(|node| node.stats.read(item as usize)).sum()
    };
    use NodeStat as S;
    let [a, b, c] = [S::ActiveAnon, S::InactiveAnon, S::IsolatedAnon].map(pages);
    writeln!(w, "active_anon:{a} inactive_anon:{b} isolated_anon:{c}")?;
    let [a, b, c] = [S::ActiveFile, S::InactiveFile, S::IsolatedFile].map(pages);
    writeln!(w, " active_file:{a} inactive_file:{b} isolated_file:{c}")?;
    let [a, b, c] = [S::Unevictable, S::Dirty, S::Writeback].map(pages);
    writeln!(w, " unevictable:{a} dirty:{b} writeback:{c}")?;
    let [a, b] = [S::SlabReclaimable, S::SlabUnreclaimable].map(pages);
    writeln!(w, " slab_reclaimable:{a} slab_unreclaimable:{b}")?;
    let [a, b, c] = [S::Mapped, S::Shmem, S::PageTablePages].map(pages);
    writeln!(w, " mapped:{a} shmem:{b} pagetables:{c}")?;
    writeln!(w, " sec_pagetables:{} bounce:0", pages(S::SecPageTablePages))?;
    writeln!(w, " kernel_misc_reclaimable:{}", pages(S::KernelMiscReclaimable))?;
    let free: u64 = alloc.populated_zones().map(|zone| zone.nr_free_pages()).sum();
    let on_lists: u64 = alloc.populated_zones().map(|zone| on_lists(alloc, zone, on)).sum();
    writeln!(w, " free:{free} free_pcp:{on_lists} free_cma:0")
}

/// Free pages on the lists of all CPUs.
fn on_lists<H: Host>(alloc: &PageAllocator<H>, zone: &Zone<H>, on: CpuId) -> u64 {
    alloc.cpus().map(|cpu| u64::from(alloc.pcp_count(zone, cpu, on))).sum()
}

fn of_node(w: &mut impl fmt::Write, node: &Node, is_unreclaimable: bool) -> fmt::Result {
    let kb = |item: NodeStat| node.stats.read(item as usize) * KB_PER_PAGE;
    write!(w, "Node {}", node.id.0)?;
    use NodeStat as S;
    for (name, item) in [
        ("active_anon", S::ActiveAnon),
        ("inactive_anon", S::InactiveAnon),
        ("active_file", S::ActiveFile),
        ("inactive_file", S::InactiveFile),
        ("unevictable", S::Unevictable),
        ("isolated(anon)", S::IsolatedAnon),
        ("isolated(file)", S::IsolatedFile),
        ("mapped", S::Mapped),
        ("dirty", S::Dirty),
        ("writeback", S::Writeback),
        ("shmem", S::Shmem),
        ("shmem_thp", S::ShmemHugepages),
        ("shmem_pmdmapped", S::ShmemPmdmapped),
        ("anon_thp", S::AnonTransparentHugepages),
        ("writeback_tmp", S::WritebackTemp),
    ] {
        write!(w, " {name}:{}kB", kb(item))?;
    }
    // Counted in KiB as it is.
    write!(w, " kernel_stack:{}kB", node.stats.read(S::KernelStack as usize))?;
    for (name, item) in
        [("pagetables", S::PageTablePages), ("sec_pagetables", S::SecPageTablePages)]
    {
        write!(w, " {name}:{}kB", kb(item))?;
    }
    writeln!(w, " all_unreclaimable? {}", if is_unreclaimable { "yes" } else { "no" })
}

fn of_zone<H: Host>(
    w: &mut impl fmt::Write,
    alloc: &PageAllocator<H>,
    zone: &Zone<H>,
    on: CpuId,
) -> fmt::Result {
    let kb = |pages: u64| pages * KB_PER_PAGE;
    let stat = |item: ZoneStat| kb(zone.stats.read(item as usize));
    write!(w, "Node {} {} free:{}kB", zone.node.0, zone.zone.name(), kb(zone.nr_free_pages()))?;
    write!(w, " boost:{}kB", kb(zone.boost()))?;
    for (name, mark) in [("min", Mark::Min), ("low", Mark::Low), ("high", Mark::High)] {
        write!(w, " {name}:{}kB", kb(zone.mark(mark)))?;
    }
    write!(w, " reserved_highatomic:{}KB", kb(zone.nr_reserved_highatomic()))?;
    for (name, item) in [
        ("active_anon", ZoneStat::ZoneActiveAnon),
        ("inactive_anon", ZoneStat::ZoneInactiveAnon),
        ("active_file", ZoneStat::ZoneActiveFile),
        ("inactive_file", ZoneStat::ZoneInactiveFile),
        ("unevictable", ZoneStat::ZoneUnevictable),
        ("writepending", ZoneStat::ZoneWritePending),
    ] {
        write!(w, " {name}:{}kB", stat(item))?;
    }
    write!(w, " present:{}kB managed:{}kB", kb(zone.present), kb(zone.managed()))?;
    write!(w, " mlocked:{}kB bounce:0kB", stat(ZoneStat::Mlock))?;
    write!(w, " free_pcp:{}kB", kb(on_lists(alloc, zone, on)))?;
    writeln!(w, " local_pcp:{}kB free_cma:0kB", kb(alloc.pcp_count(zone, on, on).into()))?;
    write!(w, "lowmem_reserve[]:")?;
    for pages in zone.lowmem_reserves() {
        write!(w, " {pages}")?;
    }
    w.write_char('\n')
}

/// Free blocks by order, with the letters of the types that have some.
fn free_blocks<H: Host>(w: &mut impl fmt::Write, zone: &Zone<H>, on: CpuId) -> fmt::Result {
    let letter = |kind: MigrateType| match kind {
        MigrateType::Unmovable => 'U',
        MigrateType::Movable => 'M',
        MigrateType::Reclaimable => 'E',
        MigrateType::HighAtomic => 'H',
        MigrateType::Isolate => 'I',
    };
    write!(w, "Node {} {}:", zone.node.0, zone.zone.name())?;
    let mut total = 0;
    for order in 0..MAX_ORDER {
        let of_types = {
            let area = zone.free.lock(on);
            MigrateType::ALL.map(|kind| (kind, area.nr_blocks(Order(order as u8), kind)))
        };
        let blocks: u64 = of_types.iter().map(|(_, blocks)| u64::from(*blocks)).sum();
        total += blocks << order;
        write!(w, " {blocks}*{}kB", KB_PER_PAGE << order)?;
        if blocks > 0 {
            w.write_str(" (")?;
            for (kind, _) in of_types.iter().filter(|(_, blocks)| *blocks > 0) {
                w.write_char(letter(*kind))?;
            }
            w.write_char(')')?;
        }
    }
    writeln!(w, " = {}kB", total * KB_PER_PAGE)
}
