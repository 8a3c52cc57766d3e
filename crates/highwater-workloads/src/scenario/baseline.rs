//! The rest of a captured system: the content of memory before the program began.
//!
//! A fresh kernel of ours has nearly all memory free. The captured one also held a kernel's data,
//! slab and the files of its initial RAM disk. [`Baseline::apply`] makes the same amounts
//! unavailable. Swappable pages of an idle process stand for the LRU pages. Pages that are never
//! freed, zone by zone, stand for the rest.

use std::sync::Arc;

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::Kernel;
use highwater_core::page::{Order, PageFlags, PageMapping, Pfn};
use highwater_core::page_alloc::Gfp;
use highwater_core::syscall::MemoryAdvice;
use highwater_core::vm::{Access, Backing, Mm, VmaFlags};
use highwater_core::zone::{MemoryPolicy, NodeId, ZoneType};

use super::ScenarioError;
use super::files::called;

/// The smallest order that is on no per-CPU list (they hold orders 0 to 3, and 9).
const BLOCK: Order = Order(4);

/// Free memory of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneFree {
    /// The node.
    pub node: NodeId,
    /// The zone.
    pub zone: ZoneType,
    /// Free pages, without those on per-CPU lists.
    pub free: u64,
}

/// Initial content of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    /// Free pages by zone.
    pub zones: Vec<ZoneFree>,
    /// Swappable pages.
    pub idle: Vec<IdleLists>,
}

/// Swappable pages that no program uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleLists {
    /// Their node; `None`: the node where a program's memory happens to lie.
    pub node: Option<NodeId>,
    /// Pages on the inactive list.
    pub inactive_anon: u64,
    /// Pages on the active list.
    pub active_anon: u64,
}

impl Baseline {
    /// Fills the memory of a fresh kernel. Returns the holder of that memory, which lives as long
    /// as the machine.
    ///
    /// # Errors
    /// If memory runs out on the way: the captured amounts do not fit the machine.
    pub fn apply<H: Devices>(
        &self,
        kernel: &Kernel<H>,
        cx: &Cx<'_, H>,
    ) -> Result<Held<H>, ScenarioError> {
        let mut idle = Vec::new();
        for lists in &self.idle {
            let policy = lists.node.map_or(MemoryPolicy::Default, MemoryPolicy::Preferred);
            cx.set_memory_policy(policy);
            let process = lists.process(kernel, cx);
            cx.set_memory_policy(MemoryPolicy::Default);
            idle.extend(process?);
        }
        let pinned = self.pin_the_rest(kernel, cx);
        Ok(Held { idle, pinned })
    }

    fn pin_the_rest<H: Devices>(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>) -> Vec<Pfn> {
        let mut pinned = Vec::new();
        // Highest zones first: a request for a zone falls back to those below it.
        for wanted in self.zones.iter().rev() {
            let Some(zone) = kernel.mem.zone(wanted.node, wanted.zone) else { continue };
            let gfp = Gfp::THISNODE
                | match wanted.zone {
                    ZoneType::Dma => Gfp::GFP_ATOMIC | Gfp::DMA,
                    ZoneType::Dma32 => Gfp::GFP_ATOMIC | Gfp::DMA32,
                    ZoneType::Normal | ZoneType::Device => Gfp::GFP_ATOMIC,
                    ZoneType::Movable => Gfp::GFP_ATOMIC | Gfp::HIGHMEM | Gfp::MOVABLE,
                };
            kernel.mem.drain_all(cx, Some(zone));
            // Pages on per-CPU lists do not count as free: drain them to get the exact number.
            while zone.nr_free_pages_exact() > wanted.free {
                let excess = zone.nr_free_pages_exact() - wanted.free;
                let mut got = 0;
                for _ in 0..excess {
                    let page = kernel.mem.alloc(cx, kernel, gfp, Order::ZERO, wanted.node, None);
                    let Some(pfn) = page else { break };
                    if kernel.mem.zone_of(pfn).is_some_and(|z| z.zone == wanted.zone) {
                        kernel.mem.map.page(pfn).flag_set::<H>(PageFlags::PINNED);
                        pinned.push(pfn);
                        got += 1;
                    } else {
                        kernel.put_page(cx, kernel.mem.map.folio(pfn));
                        break;
                    }
                }
                kernel.mem.drain_all(cx, Some(zone));
                if got == 0 {
                    break;
                }
            }
        }
        pinned
    }
}

/// Memory outside the program.
pub struct Held<H: Devices> {
    /// Processes that never run.
    #[allow(dead_code, reason = "kept alive")]
    idle: Vec<Arc<Mm<H>>>,
    /// Pages that are never freed, in order of allocation.
    pinned: Vec<Pfn>,
}

impl<H: Devices> Held<H> {
    /// Sets a node's number of free pages to the captured one, at the current point of its program.
    ///
    /// Files that a program makes and drops leave pages on per-CPU lists, where they do not count
    /// as free. The capture shows only the free pages beside them, so the lists are left alone.
    pub fn settle(&mut self, kernel: &Kernel<H>, cx: &Cx<'_, H>, node: NodeId, free: u64) {
        let now = || kernel.mem.zones_of(node).map(|zone| zone.nr_free_pages_exact()).sum::<u64>();
        let wanted = free.saturating_sub(now());
        let (mut given, mut at) = (0, self.pinned.len());
        while given < wanted && at > 0 {
            at -= 1;
            let pfn = self.pinned[at];
            if kernel.mem.zone_of(pfn).is_none_or(|zone| zone.node != node) {
                continue;
            }
            kernel.mem.map.page(pfn).flag_clear::<H>(PageFlags::PINNED);
            if kernel.mem.free_past_lists(cx, pfn, Order::ZERO).is_ok() {
                self.pinned.remove(at);
                given += 1;
            }
        }
        // Too many free pages: take blocks of an order that no per-CPU list holds.
        let gfp = Gfp::THISNODE | Gfp::GFP_ATOMIC | Gfp::HIGHMEM;
        while now() >= free + BLOCK.pages() {
            let block = kernel.mem.alloc(cx, kernel, gfp, BLOCK, node, None);
            let Some(pfn) = block else { break };
            kernel.mem.map.page(pfn).flag_set::<H>(PageFlags::PINNED);
        }
    }
}

impl IdleLists {
    /// Creates an idle process. The files of an initial RAM disk are swappable and belong to no
    /// program; so are the pages of a process that never runs.
    fn process<H: Devices>(
        &self,
        kernel: &Kernel<H>,
        cx: &Cx<'_, H>,
    ) -> Result<Option<Arc<Mm<H>>>, ScenarioError> {
        // mmap refuses more pages than can exist.
        let pages = self.inactive_anon.saturating_add(self.active_anon);
        let pages = u32::try_from(pages).unwrap_or(u32::MAX);
        if pages == 0 {
            return Ok(None);
        }
        let doing = "filling memory as captured";
        let mm = called(doing, kernel.create_mm(cx))?;
        let flags = VmaFlags::READ | VmaFlags::WRITE | VmaFlags::NOHUGEPAGE;
        let start = called(doing, kernel.mmap(cx, &mm, pages, 1, flags, Backing::Anon))?;
        for vpn in start..start + pages {
            called(doing, kernel.touch(cx, &mm, vpn, Access::Write))?;
        }
        kernel.lru_add_drain_all(cx);
        // Not used since: clears young bits and referenced flags.
        called(doing, kernel.madvise(cx, &mm, start, pages, MemoryAdvice::Cold))?;
        let active = start..start + self.active_anon as u32;
        for pfn in (0..kernel.mem.map.len() as u32).map(Pfn) {
            let page = kernel.mem.map.page(pfn);
            if page.mapping() == PageMapping::Anon(mm.id) && active.contains(&page.index()) {
                kernel.mark_accessed(cx, kernel.mem.map.folio(pfn));
                kernel.mark_accessed(cx, kernel.mem.map.folio(pfn));
            }
        }
        kernel.lru_add_drain_all(cx);
        Ok(Some(mm))
    }
}
