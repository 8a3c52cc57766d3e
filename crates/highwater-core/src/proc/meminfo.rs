//! `/proc/meminfo`: memory by use, in KiB.

use core::fmt;

use super::SwapSpace;
use crate::config::KernelVersion;
use crate::host::Host;
use crate::page::PAGE_SIZE;
use crate::page_alloc::PageAllocator;
use crate::vmstat::{NodeStat, ZoneStat};
use crate::zone::{Mark, Node};

const KB_PER_PAGE: u64 = PAGE_SIZE as u64 / 1024;
/// Addresses that the kernel can map on x86-64 (`VmallocTotal`).
const VMALLOC_KB: u64 = (1 << 35) - 1;
/// Columns of a name with its colon.
const NAME_COLUMNS: usize = 16;
/// Columns of a number behind it.
const NUMBER_COLUMNS: usize = 8;
/// A huge page.
const HUGE_KB: u64 = 2048;

/// Figures that the allocator does not have, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Promised {
    /// Swap.
    pub swap: SwapSpace,
    /// The limit of promises to programs with `vm.overcommit_memory` 2.
    pub commit_limit: u64,
    /// Promises to programs so far.
    pub committed: u64,
}

/// Lines that are always 0, because the model has nothing that they count. `DirectMap*` and `Cma*`
/// are left out.
pub const MEMINFO_NOT_MODELLED: [&str; 6] =
    ["Buffers", "Zswap", "Zswapped", "VmallocUsed", "Percpu", "HugePages_Total"];

/// Writes `/proc/meminfo` of the policy's kernel. Counters are plain reads, as in Linux.
///
/// # Errors
/// Errors of the writer.
#[doc(alias = "meminfo_proc_show")]
pub fn meminfo<H: Host>(
    w: &mut impl fmt::Write,
    alloc: &PageAllocator<H>,
    promised: Promised,
) -> fmt::Result {
    let kernel = alloc.policy.counters();
    let has = |major, minor| kernel >= KernelVersion::new(major, minor);
    let node = |item: NodeStat| -> u64 {
        alloc.nodes().iter().map(|node| node.stats.read(item as usize)).sum()
    };
    let zone = |item: ZoneStat| -> u64 {
        alloc.populated_zones().map(|zone| zone.stats.read(item as usize)).sum()
    };
    let mut pages = |name: &str, pages: u64| line(w, name, pages * KB_PER_PAGE);
    use NodeStat as S;
    let Promised { swap, commit_limit, committed } = promised;
    let managed: u64 = alloc.populated_zones().map(|zone| zone.managed()).sum();
    let cached = node(S::FilePages).saturating_sub(node(S::Swapcached));
    let [anon, file] = [S::ActiveAnon, S::ActiveFile].map(node);
    let [old_anon, old_file] = [S::InactiveAnon, S::InactiveFile].map(node);
    let [reclaimable, other_slab] = [S::SlabReclaimable, S::SlabUnreclaimable].map(node);
    pages("MemTotal", managed)?;
    pages("MemFree", alloc.populated_zones().map(|zone| zone.nr_free_pages()).sum())?;
    pages("MemAvailable", available(alloc))?;
    pages("Buffers", 0)?;
    pages("Cached", cached)?;
    pages("SwapCached", node(S::Swapcached))?;
    pages("Active", anon + file)?;
    pages("Inactive", old_anon + old_file)?;
    pages("Active(anon)", anon)?;
    pages("Inactive(anon)", old_anon)?;
    pages("Active(file)", file)?;
    pages("Inactive(file)", old_file)?;
    pages("Unevictable", node(S::Unevictable))?;
    pages("Mlocked", zone(ZoneStat::Mlock))?;
    pages("SwapTotal", swap.total)?;
    pages("SwapFree", swap.free)?;
    if has(5, 19) {
        pages("Zswap", 0)?;
        pages("Zswapped", 0)?;
    }
    pages("Dirty", node(S::Dirty))?;
    pages("Writeback", node(S::Writeback))?;
    pages("AnonPages", node(S::AnonPages))?;
    pages("Mapped", node(S::Mapped))?;
    pages("Shmem", node(S::Shmem))?;
    if has(4, 20) {
        pages("KReclaimable", reclaimable + node(S::KernelMiscReclaimable))?;
    }
    pages("Slab", reclaimable + other_slab)?;
    pages("SReclaimable", reclaimable)?;
    pages("SUnreclaim", other_slab)?;
    // Counted in KiB as it is.
    line(w, "KernelStack", node(S::KernelStack))?;
    let mut pages = |name: &str, pages: u64| line(w, name, pages * KB_PER_PAGE);
    pages("PageTables", node(S::PageTablePages))?;
    if has(6, 1) {
        pages("SecPageTables", node(S::SecPageTablePages))?;
    }
    pages("NFS_Unstable", 0)?;
    pages("Bounce", zone(ZoneStat::Bounce))?;
    pages("WritebackTmp", node(S::WritebackTemp))?;
    pages("CommitLimit", commit_limit)?;
    pages("Committed_AS", committed)?;
    line(w, "VmallocTotal", VMALLOC_KB)?;
    let mut pages = |name: &str, pages: u64| line(w, name, pages * KB_PER_PAGE);
    pages("VmallocUsed", 0)?;
    pages("VmallocChunk", 0)?;
    if has(4, 20) {
        pages("Percpu", 0)?;
    }
    pages("HardwareCorrupted", 0)?;
    pages("AnonHugePages", node(S::AnonTransparentHugepages))?;
    if has(4, 8) {
        pages("ShmemHugePages", node(S::ShmemHugepages))?;
        pages("ShmemPmdMapped", node(S::ShmemPmdmapped))?;
    }
    if has(5, 4) {
        pages("FileHugePages", node(S::FileHugepages))?;
        pages("FilePmdMapped", node(S::FilePmdmapped))?;
    }
    for name in ["HugePages_Total:", "HugePages_Free:", "HugePages_Rsvd:", "HugePages_Surp:"] {
        writeln!(w, "{name:<NAME_COLUMNS$}{:>8}", 0)?;
    }
    line(w, "Hugepagesize", HUGE_KB)
}

fn line(w: &mut impl fmt::Write, name: &str, kb: u64) -> fmt::Result {
    // The longest name leaves fewer columns for its number.
    let (pad, over) = (
        NAME_COLUMNS.saturating_sub(name.len() + 1),
        (name.len() + 1).saturating_sub(NAME_COLUMNS),
    );
    let width = NUMBER_COLUMNS - over;
    writeln!(w, "{name}:{:pad$}{kb:>width$} kB", "")
}

/// Pages that a new program could have without swap (`MemAvailable`).
///
/// Free memory counts above the reserves. Of page cache and of reclaimable slab, half or as many
/// pages as the low watermarks do not count, whichever is less.
#[doc(alias = "si_mem_available")]
fn available<H: Host>(alloc: &PageAllocator<H>) -> u64 {
    let low: u64 = alloc.populated_zones().map(|zone| zone.mark(Mark::Low)).sum();
    let node = |item: NodeStat| -> u64 {
        alloc.nodes().iter().map(|node| node.stats.read(item as usize)).sum()
    };
    let free: u64 = alloc.populated_zones().map(|zone| zone.nr_free_pages()).sum();
    let reserves: u64 = alloc.nodes().iter().map(Node::total_reserve).sum();
    let spare = |pages: u64| pages - low.min(pages / 2);
    let file = spare(node(NodeStat::ActiveFile) + node(NodeStat::InactiveFile));
    let slab = spare(node(NodeStat::SlabReclaimable) + node(NodeStat::KernelMiscReclaimable));
    (free + file + slab).saturating_sub(reserves)
}
