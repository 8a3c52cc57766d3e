//! Everything above the allocator: what uses each frame in use, and do all records agree?
//!
//! [`check_kernel`] walks everything that refers to pages: page tables, files, swap slots, LRU
//! lists, batches, slabs. For every frame it notes how many references and mappings these explain.
//! Then it checks all frames in use. Each must be explained, must have exactly the references that
//! were found, and its descriptor must agree with them. Every counter is compared with the walk,
//! including the per-CPU differences. The audit calls no operation of the subsystems; it only reads
//! memory.
//!
//! The machine must be quiet: tasks and daemons may sleep between operations, but not inside one.
//! Transfers may be under way.
//!
//! | file | walks |
//! |---|---|
//! | [`super::mms`] | VMAs, page tables, entries |
//! | [`super::files`] | files, their trees, dirty lists |
//! | [`super::slots`] | swap slots, the swap cache, CPUs' caches of slots |
//! | [`super::lru`] | LRU lists and batches |
//! | [`super::users`] | slabs, then every frame in use; counters |
//!
//! Synchronisation: takes locks one after the other; `Table` locks are held while what they protect
//! is read.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use super::{AuditError, AuditReport, Rule, check};
use crate::host::{Cx, Devices, Lock};
use crate::kernel::Kernel;
use crate::page::map::CHUNK;
use crate::page::{Folio, Page, Pfn};
use crate::vmstat::{NodeStat, ZoneStat};
use crate::zone::ZoneId;

/// Results of a kernel's audit, in frames unless stated otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct KernelReport {
    /// Results of the allocator's audit.
    pub memory: AuditReport,
    /// On LRU lists, the unevictable one among them.
    pub on_lists: u64,
    /// Waiting in CPUs' batches; a page may wait in several.
    pub in_batches: u64,
    /// Page tables.
    pub tables: u64,
    /// Kernel stacks.
    pub stacks: u64,
    /// Present page table entries, those of the zero page among them.
    pub entries: u64,
    /// Page table entries that name swap slots.
    pub swap_entries: u64,
    /// In files' trees.
    pub cached: u64,
    /// In the swap cache.
    pub swap_cached: u64,
    /// Of slabs.
    pub slab: u64,
    /// Held by something outside the model.
    pub pinned: u64,
    /// Held by the caller's workloads.
    pub foreign: u64,
}

/// Checks everything.
///
/// # Errors
/// The first broken rule.
pub fn check_kernel<H: Devices>(
    kernel: &Kernel<H>,
    cx: &Cx<'_, H>,
) -> Result<KernelReport, AuditError> {
    check_kernel_besides(kernel, cx, &|_| false)
}

/// As [`check_kernel`], where `is_foreign` tells which blocks in use (by first frame) were
/// allocated directly by other code.
///
/// # Errors
/// The first broken rule.
pub fn check_kernel_besides<H: Devices>(
    kernel: &Kernel<H>,
    cx: &Cx<'_, H>,
    is_foreign: &dyn Fn(Pfn) -> bool,
) -> Result<KernelReport, AuditError> {
    let memory = check(&kernel.mem, cx)?;
    let mut audit = KernelAudit {
        k: kernel,
        cx,
        uses: Uses::new(kernel.mem.map.len()),
        named: kernel.swap.areas.iter().map(|area| vec![0; area.spec.pages as usize]).collect(),
        zero_leaves: 0,
        leaves: BTreeMap::new(),
        frame_maps: BTreeMap::new(),
        nr_processes: 0,
        exclusive: Vec::new(),
        nodes: vec![[0; NodeStat::COUNT]; kernel.mem.nr_nodes()],
        zones: vec![[0; ZoneStat::COUNT]; ZoneId::count(kernel.mem.nr_nodes())],
        report: KernelReport { memory, ..KernelReport::default() },
    };
    audit.mms()?;
    audit.files()?;
    audit.swap()?;
    audit.lists()?;
    audit.slabs()?;
    audit.sockets()?;
    audit.users(is_foreign)?;
    audit.counters()?;
    audit.groups()?;
    Ok(audit.report)
}

/// What refers to a frame.
#[derive(Clone, Copy, Default)]
pub(super) struct Use {
    /// References that were found.
    pub(super) refs: u32,
    /// Present entries among them.
    pub(super) mapped: u32,
    pub(super) is: Found,
}

/// What refers to each frame: kept for chunks of frames of which one is referred to.
pub(super) struct Uses(Vec<Option<Box<[Use; CHUNK as usize]>>>);

impl Uses {
    fn new(nr_frames: usize) -> Uses {
        Uses((0..nr_frames.div_ceil(CHUNK as usize)).map(|_| None).collect())
    }
}

impl Index<Pfn> for Uses {
    type Output = Use;

    fn index(&self, pfn: Pfn) -> &Use {
        const NONE: &Use = &Use { refs: 0, mapped: 0, is: Found::empty() };
        let chunk = self.0[(pfn.0 / CHUNK) as usize].as_ref();
        chunk.map_or(NONE, |chunk| &chunk[(pfn.0 % CHUNK) as usize])
    }
}

impl IndexMut<Pfn> for Uses {
    fn index_mut(&mut self, pfn: Pfn) -> &mut Use {
        let chunk = &mut self.0[(pfn.0 / CHUNK) as usize];
        let chunk = chunk.get_or_insert_with(|| Box::new([Use::default(); CHUNK as usize]));
        &mut chunk[(pfn.0 % CHUNK) as usize]
    }
}

bitflags::bitflags! {
    /// Where a frame was found.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub(super) struct Found: u8 {
        /// It holds a page table.
        const TABLE = 1 << 0;
        /// In a file's tree.
        const FILE = 1 << 1;
        /// In the swap cache.
        const SWAP = 1 << 2;
        /// On an LRU list.
        const LISTED = 1 << 3;
        /// In a batch that will put it on a list.
        const TO_LIST = 1 << 4;
        /// Part of a slab.
        const SLAB = 1 << 5;
        /// Mapped by an entry for anonymous memory.
        const ANON = 1 << 6;
        /// A process's kernel stack.
        const STACK = 1 << 7;
    }
}

/// A walk in progress.
pub(super) struct KernelAudit<'a, 'h, H: Devices> {
    pub(super) k: &'a Kernel<H>,
    pub(super) cx: &'a Cx<'h, H>,
    /// By frame.
    pub(super) uses: Uses,
    /// Entries that name a slot, by swap area and offset.
    pub(super) named: Vec<Vec<u32>>,
    /// Leaves that map the huge page of zeros.
    pub(super) zero_leaves: u64,
    /// Leaves that map a huge page, by its first frame.
    pub(super) leaves: BTreeMap<Pfn, u32>,
    /// Entries that map each frame of a large folio of a file.
    pub(super) frame_maps: BTreeMap<Pfn, u32>,
    /// Mms that have a process's memory.
    pub(super) nr_processes: u64,
    /// Slots that an entry names as its own alone.
    pub(super) exclusive: Vec<crate::swap::Slot>,
    /// What counters should say, by node and by zone.
    nodes: Vec<[u64; NodeStat::COUNT]>,
    zones: Vec<[u64; ZoneStat::COUNT]>,
    pub(super) report: KernelReport,
}

impl<'a, H: Devices> KernelAudit<'a, '_, H> {
    /// A broken rule.
    pub(super) fn broken<T>(
        &self,
        pfn: impl Into<Option<Pfn>>,
        rule: Rule,
        found: String,
    ) -> Result<T, AuditError> {
        let pfn = pfn.into().filter(|pfn| self.k.mem.map.get(*pfn).is_some());
        let zone = pfn.and_then(|pfn| self.k.mem.zone_of(pfn)).map(|zone| (zone.node, zone.zone));
        Err(AuditError { rule, zone, pfn, found })
    }

    pub(super) fn page(&self, pfn: Pfn) -> &'a Page {
        self.k.mem.map.page(pfn)
    }

    /// A referenced frame: it exists, and is a page in use or part of a folio in use; then the
    /// folio's descriptor counts.
    pub(super) fn in_folio(&self, pfn: Pfn, by: &str) -> Result<(Folio, &'a Page), AuditError> {
        use crate::page::BlockFlags;
        let Some(frame) = self.k.mem.map.get(pfn) else {
            let found = alloc::format!("{by} refers to {pfn:?}, which does not exist");
            return self.broken(None, Rule::Dangling, found);
        };
        let (folio, page) = self.k.mem.map.lookup(pfn);
        let is_part = !folio.is_large()
            || page.has(BlockFlags::HEAD) && (folio.pfn() == pfn || frame.has(BlockFlags::TAIL));
        if !page.has(BlockFlags::USED) || !is_part {
            let found = alloc::format!("{by} refers to it, it has {:?}", frame.block_flags());
            return self.broken(pfn, Rule::Dangling, found);
        }
        Ok((folio, page))
    }

    /// A referenced page: it exists, is in use, and is a block of order 0.
    pub(super) fn in_use(&self, pfn: Pfn, by: &str) -> Result<&'a Page, AuditError> {
        use crate::page::{BlockFlags, Order};
        match self.k.mem.map.get(pfn) {
            Some(page) if page.has(BlockFlags::USED) && page.order() == Order::ZERO => Ok(page),
            Some(page) => {
                let found = alloc::format!("{by} refers to it, it has {:?}", page.block_flags());
                self.broken(pfn, Rule::Dangling, found)
            }
            None => {
                let found = alloc::format!("{by} refers to {pfn:?}, which does not exist");
                self.broken(None, Rule::Dangling, found)
            }
        }
    }

    /// Notes a reference to a frame that exists.
    pub(super) fn refer(&mut self, pfn: Pfn, found: Found) -> &mut Use {
        let entry = &mut self.uses[pfn];
        entry.refs += 1;
        entry.is |= found;
        entry
    }

    /// Counts pages for a node counter, on a page's node.
    pub(super) fn count(&mut self, page: &Page, item: NodeStat, pages: u64) {
        self.nodes[page.node().idx()][item as usize] += pages;
    }

    /// Counts pages for a zone counter, in a page's zone.
    pub(super) fn count_zone(&mut self, page: &Page, item: ZoneStat, pages: u64) {
        self.zones[page.zone_id().idx()][item as usize] += pages;
    }

    /// Transfers that the devices have.
    pub(super) fn in_flight(&self) -> u64 {
        let devices = self.k.block.devices.iter();
        devices.map(|device| u64::from(device.in_flight())).sum()
    }

    fn huge_zero(&self) -> Option<Folio> {
        self.k.huge.zero.lock(self.cx.cpu()).folio
    }

    fn counters(&self) -> Result<(), AuditError> {
        for (node, expected) in self.k.mem.nodes().iter().zip(&self.nodes) {
            for &item in NODE_COUNTERS {
                let (counted, walked) =
                    (node.stats.read_exact(item as usize), expected[item as usize]);
                // A captured system has slab pages besides, which are pinned here, as are the pages
                // of zeros.
                let zeros = 1 + self.huge_zero().map_or(0, Folio::nr_pages);
                let besides = match item {
                    NodeStat::SlabReclaimable | NodeStat::SlabUnreclaimable => {
                        self.report.pinned.saturating_sub(zeros)
                    }
                    _ => 0,
                };
                if !(walked..=walked + besides).contains(&counted) {
                    let found = alloc::format!(
                        "{} of node {} is {counted}, {walked} were found",
                        item.name(),
                        node.id.0
                    );
                    return self.broken(None, Rule::Counter, found);
                }
            }
        }
        for zone in self.k.mem.populated_zones() {
            let expected = &self.zones[zone.id().idx()];
            for &item in ZONE_COUNTERS {
                let (counted, walked) =
                    (zone.stats.read_exact(item as usize), expected[item as usize]);
                if counted != walked {
                    let found = alloc::format!("{} is {counted}, {walked} were found", item.name());
                    let place = Some((zone.node, zone.zone));
                    return Err(AuditError { rule: Rule::Counter, zone: place, pfn: None, found });
                }
            }
        }
        Ok(())
    }
}

/// Node counters that say how many pages are in a state now.
pub(super) const NODE_COUNTERS: &[NodeStat] = &[
    NodeStat::InactiveAnon,
    NodeStat::ActiveAnon,
    NodeStat::InactiveFile,
    NodeStat::ActiveFile,
    NodeStat::Unevictable,
    NodeStat::SlabReclaimable,
    NodeStat::SlabUnreclaimable,
    NodeStat::KernelStack,
    NodeStat::IsolatedAnon,
    NodeStat::IsolatedFile,
    NodeStat::WorkingsetNodes,
    NodeStat::AnonPages,
    NodeStat::AnonTransparentHugepages,
    NodeStat::Mapped,
    NodeStat::FilePages,
    NodeStat::Dirty,
    NodeStat::Writeback,
    NodeStat::PageTablePages,
    NodeStat::Swapcached,
    NodeStat::Shmem,
];

/// The same for zones.
pub(super) const ZONE_COUNTERS: &[ZoneStat] = &[
    ZoneStat::ZoneInactiveAnon,
    ZoneStat::ZoneActiveAnon,
    ZoneStat::ZoneInactiveFile,
    ZoneStat::ZoneActiveFile,
    ZoneStat::ZoneUnevictable,
    ZoneStat::ZoneWritePending,
    ZoneStat::Mlock,
];
