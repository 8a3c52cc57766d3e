//! `/proc/pagetypeinfo`: free blocks by type, and how many pageblocks have which type.

use core::fmt;

use crate::host::{CpuId, Host, Lock};
use crate::page::{MAX_ORDER, MigrateType, Order, PAGEBLOCK_ORDER, PAGEBLOCK_PAGES};
use crate::page_alloc::PageAllocator;
use crate::zone::{Node, Zone};

/// Longer lists are shown as `>100000`: Linux does not walk further under the zone lock.
const BLOCKS_SHOWN_MAX: u32 = 100_000;

/// Writes `/proc/pagetypeinfo` for every node with memory. `on` is the CPU that asks.
///
/// # Errors
/// Those of the writer.
#[doc(alias = "pagetypeinfo_show")]
pub fn pagetypeinfo<H: Host>(
    w: &mut impl fmt::Write,
    alloc: &PageAllocator<H>,
    on: CpuId,
) -> fmt::Result {
    for node in alloc.nodes() {
        if alloc.zones_of(node.id).next().is_none() {
            continue;
        }
        writeln!(w, "Page block order: {PAGEBLOCK_ORDER}")?;
        writeln!(w, "Pages per block:  {PAGEBLOCK_PAGES}\n")?;
        free_blocks(w, alloc, node, on)?;
        pageblocks(w, alloc, node)?;
    }
    Ok(())
}

fn free_blocks<H: Host>(
    w: &mut impl fmt::Write,
    alloc: &PageAllocator<H>,
    node: &Node,
    on: CpuId,
) -> fmt::Result {
    write!(w, "{:<43} ", "Free pages count per migrate type at order")?;
    for order in 0..MAX_ORDER {
        write!(w, "{order:6} ")?;
    }
    w.write_char('\n')?;
    for zone in alloc.zones_of(node.id) {
        for migratetype in MigrateType::ALL {
            let (node, zone_name) = (node.id.0, zone.zone.name());
            let name = migratetype.name();
            write!(w, "Node {node:4}, zone {zone_name:>8}, type {name:>12} ")?;
            let blocks: [u32; MAX_ORDER] = {
                let area = zone.free.lock(on);
                core::array::from_fn(|order| area.nr_blocks(Order(order as u8), migratetype))
            };
            for n in blocks {
                let more = if n > BLOCKS_SHOWN_MAX { ">" } else { "" };
                write!(w, "{more}{:6} ", n.min(BLOCKS_SHOWN_MAX))?;
            }
            w.write_char('\n')?;
        }
    }
    Ok(())
}

fn pageblocks<H: Host>(
    w: &mut impl fmt::Write,
    alloc: &PageAllocator<H>,
    node: &Node,
) -> fmt::Result {
    write!(w, "\n{:<23}", "Number of blocks type ")?;
    for migratetype in MigrateType::ALL {
        write!(w, "{:>12} ", migratetype.name())?;
    }
    w.write_char('\n')?;
    for zone in alloc.zones_of(node.id) {
        write!(w, "Node {}, zone {:>8} ", node.id.0, zone.zone.name())?;
        for n in count_types(zone) {
            write!(w, "{n:12} ")?;
        }
        w.write_char('\n')?;
    }
    Ok(())
}

/// Pageblocks by type, one sample every 512 pages from the zone's start.
fn count_types<H: Host>(zone: &Zone<H>) -> [u64; MigrateType::COUNT] {
    let mut counts = [0; MigrateType::COUNT];
    for pfn in zone.pageblock_samples() {
        counts[zone.pageblock_type(pfn).idx()] += 1;
    }
    counts
}
