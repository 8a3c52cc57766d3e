//! Checkers that are independent of the code they check: every frame is in exactly one place.
//!
//! [`check`] walks the allocator's lists by their links, then all frames, and compares its counts
//! with the counters. [`check_kernel`] continues with everything that uses frames. Both call no
//! operation of the checked code and only read memory, so a bug in the lists cannot hide itself.
//! (Before the walk, deferred frees of native CPUs are flushed:
//! [`PageAllocator::free_all_deferred`].) The first broken [`Rule`] ends the walk; the error names
//! it with zone and frame.
//!
//! Synchronisation: takes each per-CPU lock and each zone lock once, one after the other. On native
//! hosts it takes the per-CPU locks once more before that. The result is valid only while no other
//! task allocates or frees.

mod files;
mod frames;
mod groups;
mod inventory;
mod kernel;
#[cfg(test)]
mod kernel_tests;
mod lists;
mod lru;
mod mms;
mod slots;
mod sockets;
#[cfg(test)]
mod tests;
mod users;
mod zones;

pub use inventory::{Content, Piece, inventory};
pub use kernel::{KernelReport, check_kernel, check_kernel_besides};

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::host::{Cx, Host, Lock};
use crate::page::Pfn;
use crate::page_alloc::PageAllocator;
use crate::zone::{NodeId, Zone, ZoneType};

/// Results of the audit, in frames unless a field says blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AuditReport {
    /// Zones with memory.
    pub zones: u64,
    /// Free frames on buddy lists.
    pub free: u64,
    /// Frames on per-CPU lists.
    pub pcp: u64,
    /// Frames in use.
    pub used: u64,
    /// Frames that the allocator never got.
    pub reserved: u64,
    /// Blocks on buddy lists.
    pub free_blocks: u64,
    /// Blocks in use.
    pub used_blocks: u64,
}

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A list's links lead back and forth between the same frames, from its head to its tail.
    Links,
    /// A list has as many frames as it says.
    Length,
    /// A frame is on one list, in one block, once.
    OnePlace,
    /// A listed frame's descriptor agrees with its list: flag, order, type, zone.
    Label,
    /// A free block is aligned to its size and inside its zone.
    Alignment,
    /// Two free buddies below pageblock size would have merged.
    Merged,
    /// Frames inside a block carry no mark of a block's head.
    Tail,
    /// An inode in memory is on one list, by whether it has a dentry.
    Inode,
    /// Mms that came from an mm by fork are listed with it while they live.
    Family,
    /// Free frames have no users, frames in use have.
    Users,
    /// `nr_free` and the type bits of each order agree with the lists.
    BlockCounts,
    /// NR_FREE_PAGES, all differences added, is the number of pages on the lists.
    FreePages,
    /// A per-CPU count is the number of pages on the lists.
    PcpCount,
    /// Free blocks of an owned pageblock are with its owner, and no other blocks are.
    Owner,
    /// Blocks on a per-CPU list have that list's order and type.
    PcpList,
    /// Pageblocks have types that exist and that grouping allows.
    PageblockType,
    /// The high-atomic reserve counts its pageblocks.
    HighAtomic,
    /// A native host's own knowledge of a block in use equals the block's descriptor.
    Head,
    /// Every frame that the allocator got is free, on a per-CPU list or in use.
    Lost,
    /// Frames that it never got are on no list and have no users.
    Reserved,
    /// `managed` is the number of frames the allocator got.
    Managed,
    /// What refers to a page refers to a single page in use.
    Dangling,
    /// A page on an LRU list, and only such a page, says so, and is on the list its flags name.
    LruList,
    /// The size of an LRU list, by zone, is the number of its pages.
    LruSize,
    /// Pages of files, of the swap cache, and mapped ones are on a list or in a batch for one.
    OffLists,
    /// A frame that holds a page table holds one, and nothing else.
    TableFrame,
    /// Entries lie in VMAs, allow no more than their VMA does, and name slots that exist.
    EntryPlace,
    /// The page of an entry knows by mapping and index that it is mapped there.
    EntryPage,
    /// A leaf maps a folio of its own size, or the huge zero page; each counts its leaves.
    Leaf,
    /// Folios that wait to be split are on their node's queue.
    Deferred,
    /// A table counts the entries that no access changes.
    HotEntries,
    /// An mm counts its pages, swap entries and tables.
    Rss,
    /// A page counts the entries that map it.
    Mapcount,
    /// A file lists the VMAs that map it.
    FileMapping,
    /// A page in a file's tree, and only such a page, says so.
    FilePage,
    /// A file counts the pages of its tree.
    FileSize,
    /// A page's marks in its tree go with its flags.
    FileMarks,
    /// A file with dirty pages waits for its flusher.
    DirtyFile,
    /// A slot counts the entries that name it.
    SlotCount,
    /// A slot of the swap cache and its page name each other.
    SwapCached,
    /// A slot that is taken without a page or an entry is kept by one CPU.
    SlotKept,
    /// Shadows lie in slots that entries name.
    SlotShadow,
    /// Free slots are counted.
    SlotsFree,
    /// The usage of a memory cgroup is what names it.
    Group,
    /// Kernel memory has one user and is nothing else.
    KernelMemory,
    /// A page in use is used by something.
    Unexplained,
    /// A page has as many references as refer to it.
    References,
    /// Pages are locked or under writeback only while a device works.
    Idle,
    /// A counter of pages in some state is the number of such pages, all differences added.
    Counter,
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditError {
    /// The rule.
    pub rule: Rule,
    /// Node and zone, none for frames outside of every zone.
    pub zone: Option<(NodeId, ZoneType)>,
    /// The frame, if one is to blame.
    pub pfn: Option<Pfn>,
    /// The value that was found.
    pub found: String,
}

impl fmt::Display for AuditError {
    /// One line: zone, frame, rule, finding.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.zone {
            Some((node, zone)) => write!(f, "node {} zone {zone}", node.0)?,
            None => f.write_str("no zone")?,
        }
        if let Some(pfn) = self.pfn {
            write!(f, " frame {pfn:?}")?;
        }
        write!(f, ": rule {:?} is broken: {}", self.rule, self.found)
    }
}

impl core::error::Error for AuditError {}

/// Checks all memory.
///
/// # Errors
/// The first broken rule.
pub fn check<H: Host>(alloc: &PageAllocator<H>, cx: &Cx<'_, H>) -> Result<AuditReport, AuditError> {
    // Deferred frees still look like blocks in use without a user, so flush them first.
    alloc.free_all_deferred(cx);
    let mut audit = Audit { alloc, seen: vec![0; alloc.map.len()], report: AuditReport::default() };
    for zone in alloc.populated_zones() {
        audit.report.zones += 1;
        for cpu in alloc.cpus() {
            let pcp = zone.cpus[cpu.idx()].pcp.lock(cx.cpu());
            audit.pcp_lists(zone, cpu, &pcp)?;
        }
        let area = zone.free.lock(cx.cpu());
        let free = audit.free_lists(zone, &area)?;
        audit.zone_counters(zone, free)?;
    }
    for zone in alloc.populated_zones() {
        audit.frames(zone)?;
    }
    audit.outside()?;
    Ok(audit.report)
}

/// Where a frame was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Nowhere = 0,
    Free,
    Pcp,
    InZone,
}

/// A walk in progress.
struct Audit<'a, H: Host> {
    alloc: &'a PageAllocator<H>,
    /// By frame, as integers: entries of frames that were never touched take no memory.
    seen: Vec<u8>,
    report: AuditReport,
}

impl<H: Host> Audit<'_, H> {
    fn seen(&self, pfn: Pfn) -> Place {
        let all = [Place::Nowhere, Place::Free, Place::Pcp, Place::InZone];
        all[usize::from(self.seen[pfn.idx()])]
    }

    fn note(&mut self, pfn: Pfn, place: Place) {
        self.seen[pfn.idx()] = place as u8;
    }

    /// A broken rule of a zone.
    fn broken<T>(
        &self,
        zone: &Zone<H>,
        pfn: impl Into<Option<Pfn>>,
        rule: Rule,
        found: String,
    ) -> Result<T, AuditError> {
        Err(AuditError { rule, zone: Some((zone.node, zone.zone)), pfn: pfn.into(), found })
    }
}
