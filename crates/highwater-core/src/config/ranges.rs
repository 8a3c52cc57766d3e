//! A machine from a list of physical ranges, as firmware and boot loaders give it (e820).
//!
//! The list says which bytes are memory and which of these the allocator must not hand out. Zones are
//! x86-64's, by address: DMA below 16 MiB, DMA32 below 4 GiB, NORMAL above. A zone spans from its first
//! to its last usable frame, and everything in it that no usable range has is a hole.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use super::machine::{DMA_END, DMA32_END, MAX_FRAMES, fail};
use super::{Machine, MachineError, NodeSpec, ZoneSpec};
use crate::units::{NodeId, NodeMask, PAGE_SHIFT, PAGE_SIZE, ZoneType};

/// The smallest machine that can serve an ordinary request: `min_free_kbytes` is at least 128 KiB, and
/// one page has to lie above that mark.
const LEAST_PAGES: u64 = 33;

/// A range of physical addresses in a memory map: usable memory of a node, or reserved.
///
/// ```
/// use highwater_core::embed::{MemoryRange, NodeId};
///
/// let ram = MemoryRange::usable(0x10_0000..0x4000_0000, NodeId(0));
/// let kernel = MemoryRange::reserved(0x10_0000..0x40_0000);
/// assert_eq!(ram.to_string(), "usable 0x100000..0x40000000, node 0");
/// assert_eq!(kernel.to_string(), "reserved 0x100000..0x400000");
/// ```
#[doc(alias = "e820_entry")]
#[doc(alias = "memblock_region")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRange {
    bytes: Range<u64>,
    node: Option<NodeId>,
}

impl MemoryRange {
    /// Memory of a node, from a byte address up to another, which is not part of it.
    #[doc(alias = "memblock_add_node")]
    pub const fn usable(bytes: Range<u64>, node: NodeId) -> MemoryRange {
        MemoryRange { bytes, node: Some(node) }
    }

    /// Addresses that the allocator must not hand out: firmware's tables, the kernel's image. Inside a
    /// usable range they are memory that is taken; outside every usable range they are a hole.
    #[doc(alias = "memblock_reserve")]
    pub const fn reserved(bytes: Range<u64>) -> MemoryRange {
        MemoryRange { bytes, node: None }
    }

    fn overlaps(&self, other: &MemoryRange) -> bool {
        self.bytes.start < other.bytes.end && other.bytes.start < self.bytes.end
    }

    fn contains(&self, other: &MemoryRange) -> bool {
        self.bytes.start <= other.bytes.start && other.bytes.end <= self.bytes.end
    }

    fn frames(&self) -> Range<u64> {
        self.bytes.start >> PAGE_SHIFT..self.bytes.end >> PAGE_SHIFT
    }
}

impl fmt::Display for MemoryRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.bytes;
        match self.node {
            Some(node) => write!(f, "usable {start:#x}..{end:#x}, node {}", node.0),
            None => write!(f, "reserved {start:#x}..{end:#x}"),
        }
    }
}

impl Machine {
    /// A machine with the memory of a list of ranges, in any order. `cpus` has the node of each CPU, by
    /// its number. All nodes are equally far from each other.
    ///
    /// The allocator gets every page of a usable range that no reserved range has, and no other. Addresses
    /// stay: frame `n` is the page at `n * 4096`. The core's tables have 32 bytes for each frame from 0 to
    /// the last one, holes included, so on a board whose memory begins at a high address, subtract that
    /// address from the whole list.
    ///
    /// Ordinary requests leave the pages below the min mark alone; [`Machine::without_reserves`] lets them
    /// have every page.
    ///
    /// ```
    /// use highwater_core::embed::{Machine, MemoryRange, NodeId};
    ///
    /// let machine = Machine::from_ranges(
    ///     "PC",
    ///     &[
    ///         MemoryRange::usable(0x0000_0000..0x0009_f000, NodeId(0)),
    ///         MemoryRange::reserved(0x0000_0000..0x0000_1000), // real-mode interrupt vectors
    ///         MemoryRange::reserved(0x000f_0000..0x0010_0000), // BIOS
    ///         MemoryRange::usable(0x0010_0000..0x4000_0000, NodeId(0)),
    ///         MemoryRange::reserved(0x0010_0000..0x0100_0000), // the kernel
    ///     ],
    ///     &[NodeId(0), NodeId(0)],
    /// )?;
    /// assert_eq!((machine.nr_cpus(), machine.managed_pages()), (2, 258_206));
    /// # Ok::<(), highwater_core::embed::MachineError>(())
    /// ```
    ///
    /// # Errors
    /// The first entry that cannot be, and what to do about it: a range without bytes, one that is not
    /// made of whole pages or ends above 4 TiB; two usable or two reserved ranges that overlap; a reserved
    /// range that crosses the border of a usable one; memory of a node between that of another node in the
    /// same zone; a node without memory and CPUs; no CPU; fewer than 33 pages in all.
    #[doc(alias = "e820__memblock_setup")]
    pub fn from_ranges(
        name: &str,
        ranges: &[MemoryRange],
        cpus: &[NodeId],
    ) -> Result<Machine, MachineError> {
        check_ranges(ranges)?;
        let nr_nodes = count_nodes(ranges, cpus)?;
        let mut nodes = vec![NodeSpec::default(); nr_nodes];
        for (cpu, node) in cpus.iter().enumerate() {
            // A machine with more CPUs than such a number can say is refused below.
            nodes[node.idx()].cpus.push(cpu.min(usize::from(u16::MAX)) as u16);
        }
        let mut usable = Vec::new();
        for pieces in zones_of(ranges) {
            check_interleaving(ranges, &pieces)?;
            let zone = spec_of(ranges, &pieces, &mut usable);
            // Of a zone that is reserved as a whole there is nothing to manage.
            if zone.managed > 0 {
                nodes[pieces.node.idx()].zones.push(zone);
            }
        }
        usable.sort_by_key(|frames| frames.start);
        let pages: u64 = usable.iter().map(|frames| frames.end - frames.start).sum();
        if pages < LEAST_PAGES {
            let kib = |pages: u64| pages << (PAGE_SHIFT - 10);
            let reason = format!(
                "{} KiB are usable and not reserved; a machine needs at least {} KiB, of which the \
                 allocator keeps {} KiB below the min mark",
                kib(pages),
                kib(LEAST_PAGES),
                kib(LEAST_PAGES - 1)
            );
            return fail("ranges", &reason);
        }
        let machine = Machine { usable, ..Machine::of_nodes(name, nodes)? };
        machine.validate()?;
        Ok(machine)
    }

    /// This machine, where an ordinary request may take the last page: no pages are kept below the min
    /// mark for tasks that free memory, none in low zones, and fragmentation boosts no mark. For programs
    /// in which nothing reclaims.
    #[must_use]
    pub fn without_reserves(mut self) -> Machine {
        self.tunables.min_free_kbytes = Some(0);
        self.tunables.lowmem_reserve_ratio = [0; 4];
        self.tunables.watermark_boost_factor = 0;
        self
    }

    /// Checks the frames that the allocator gets, if they are listed: in order, in zones, and as many as
    /// these say.
    pub(super) fn validate_usable(&self) -> Result<(), MachineError> {
        let mut last_end = 0;
        for (i, frames) in self.usable.iter().enumerate() {
            if frames.start >= frames.end || frames.start < last_end {
                let reason = "ranges of frames ascend and have at least one frame";
                return fail(&format!("usable[{i}]"), reason);
            }
            last_end = frames.end;
        }
        let mut in_zones = 0;
        for (i, node) in self.nodes.iter().enumerate() {
            for (k, zone) in node.zones.iter().enumerate() {
                let listed: u64 = self.usable_of(zone).map(|f| f.end - f.start).sum();
                if zone.managed != listed || zone.managed_at_boot != listed {
                    let reason = format!("{listed} of the zone's frames are listed as usable");
                    return fail(&format!("nodes[{i}].zones[{k}].managed"), &reason);
                }
                in_zones += listed;
            }
        }
        let listed: u64 = self.usable.iter().map(|f| f.end - f.start).sum();
        if listed != in_zones {
            return fail("usable", &format!("{} frames lie in no zone", listed - in_zones));
        }
        Ok(())
    }

    /// The listed frames of a zone.
    pub(crate) fn usable_of(&self, zone: &ZoneSpec) -> impl Iterator<Item = Range<u64>> {
        let span = zone.start_pfn..zone.start_pfn + zone.spanned;
        let cut = move |frames: &Range<u64>| intersection(frames, &span);
        self.usable.iter().map(cut).filter(|frames| frames.start < frames.end)
    }
}

/// Each range by itself, and each pair.
fn check_ranges(ranges: &[MemoryRange]) -> Result<(), MachineError> {
    for (i, range) in ranges.iter().enumerate() {
        check_range(range).or_else(|reason| fail(&at(i), &format!("{range}: {reason}")))?;
        for (k, other) in ranges[..i].iter().enumerate().filter(|(_, other)| other.overlaps(range))
        {
            let (usable, reserved) = match (range.node, other.node) {
                (Some(_), None) => (range, other),
                (None, Some(_)) => (other, range),
                _ => return fail(&at(i), &format!("{range} overlaps {}, {other}", at(k))),
            };
            if !usable.contains(reserved) {
                let reason = format!(
                    "{range} overlaps a part of {}, {other}: a reserved range lies inside a usable one \
                     or outside all of them, so split it at the border",
                    at(k)
                );
                return fail(&at(i), &reason);
            }
        }
    }
    Ok(())
}

/// Finds errors of one range, without the others.
fn check_range(range: &MemoryRange) -> Result<(), String> {
    let Range { start, end } = range.bytes;
    if start >= end {
        return Err("its end must be above its start".into());
    }
    if end > MAX_FRAMES << PAGE_SHIFT {
        return Err("ends above 4 TiB, the most that is supported".into());
    }
    if let Some(node) = range.node
        && node.idx() >= NodeMask::MAX_NODES
    {
        return Err(format!("nodes are numbered 0 to {}", NodeMask::MAX_NODES - 1));
    }
    let page = PAGE_SIZE as u64;
    let (up, down) = (|at: u64| at.next_multiple_of(page), |at: u64| at / page * page);
    let (kind, whole) = match range.node {
        Some(_) => ("usable", up(start)..down(end)),
        None => ("reserved", down(start)..up(end)),
    };
    if whole == range.bytes {
        return Ok(());
    }
    if whole.start >= whole.end {
        return Err("has no whole page (4096 bytes): leave it out".into());
    }
    let direction = if range.node.is_some() { "inward" } else { "outward" };
    Err(format!(
        "is not made of whole pages (4096 bytes): round a {kind} range {direction}, to {:#x}..{:#x}",
        whole.start, whole.end
    ))
}

/// One more than the highest node that memory or a CPU names; each of them has one of the two.
fn count_nodes(ranges: &[MemoryRange], cpus: &[NodeId]) -> Result<usize, MachineError> {
    let (first, most) = (NodeId(0), NodeMask::MAX_NODES);
    if ranges.iter().all(|range| range.node.is_none()) {
        return fail("ranges", "name at least one usable range: a machine needs memory");
    }
    if let Some(cpu) = cpus.iter().position(|node| node.idx() >= most) {
        let reason = format!("node {}: nodes are numbered 0 to {}", cpus[cpu].0, most - 1);
        return fail(&format!("cpus[{cpu}]"), &reason);
    }
    let named = || ranges.iter().filter_map(|range| range.node).chain(cpus.iter().copied());
    let nr_nodes = named().max().unwrap_or(first).idx() + 1;
    let is_empty = |&node: &usize| named().all(|named| named.idx() != node);
    match (0..nr_nodes).find(is_empty) {
        None => Ok(nr_nodes),
        Some(node) => {
            let reason = format!(
                "node {node} has neither memory nor CPUs, but node {} has: number nodes without a gap",
                nr_nodes - 1
            );
            fail("ranges", &reason)
        }
    }
}

/// The usable memory of a node in one zone.
struct Pieces {
    node: NodeId,
    zone: ZoneType,
    /// Ascending.
    frames: Vec<Range<u64>>,
}

impl Pieces {
    fn span(&self) -> Range<u64> {
        let (first, last) = (&self.frames[0], &self.frames[self.frames.len() - 1]);
        first.start..last.end
    }
}

/// The zones that have usable memory, by node, then type.
fn zones_of(ranges: &[MemoryRange]) -> Vec<Pieces> {
    let limits = [
        (ZoneType::Dma, 0..DMA_END),
        (ZoneType::Dma32, DMA_END..DMA32_END),
        (ZoneType::Normal, DMA32_END..u64::MAX),
    ];
    let mut zones: Vec<Pieces> = Vec::new();
    for range in ranges {
        let Some(node) = range.node else { continue };
        for (zone, limits) in &limits {
            let frames = intersection(&range.frames(), limits);
            if frames.start >= frames.end {
                continue;
            }
            let zone = *zone;
            match zones.iter_mut().find(|pieces| (pieces.node, pieces.zone) == (node, zone)) {
                Some(pieces) => pieces.frames.push(frames),
                None => zones.push(Pieces { node, zone, frames: vec![frames] }),
            }
        }
    }
    for pieces in &mut zones {
        pieces.frames.sort_by_key(|frames| frames.start);
    }
    zones.sort_by_key(|pieces| (pieces.node, pieces.zone));
    zones
}

/// A zone is one span of frames: memory of another node cannot lie in it.
fn check_interleaving(ranges: &[MemoryRange], pieces: &Pieces) -> Result<(), MachineError> {
    let span = pieces.span();
    for (i, range) in ranges.iter().enumerate() {
        let shared = intersection(&range.frames(), &span);
        if range.node.is_some_and(|node| node != pieces.node) && shared.start < shared.end {
            let reason = format!(
                "{range} lies between ranges of node {} in zone {}: the memory of a node in a zone is not \
                 interleaved with another node's",
                pieces.node.0, pieces.zone
            );
            return fail(&at(i), &reason);
        }
    }
    Ok(())
}

/// The zone; what the allocator gets of it goes to `usable`.
fn spec_of(ranges: &[MemoryRange], pieces: &Pieces, usable: &mut Vec<Range<u64>>) -> ZoneSpec {
    let mut reserved: Vec<_> =
        ranges.iter().filter(|range| range.node.is_none()).map(MemoryRange::frames).collect();
    reserved.sort_by_key(|frames| frames.start);
    let mut left: Vec<Range<u64>> = Vec::new();
    let mut add = |frames: Range<u64>| {
        if frames.start < frames.end {
            left.push(frames);
        }
    };
    for piece in &pieces.frames {
        let mut from = piece.start;
        for taken in reserved.iter().map(|taken| intersection(taken, piece)) {
            if taken.start < taken.end {
                add(from..taken.start);
                from = taken.end;
            }
        }
        add(from..piece.end);
    }
    let pages = |frames: &[Range<u64>]| frames.iter().map(|f| f.end - f.start).sum::<u64>();
    let (span, managed) = (pieces.span(), pages(&left));
    usable.append(&mut left);
    ZoneSpec {
        zone: pieces.zone,
        start_pfn: span.start,
        spanned: span.end - span.start,
        present: pages(&pieces.frames),
        managed_at_boot: managed,
        managed,
    }
}

fn intersection(a: &Range<u64>, b: &Range<u64>) -> Range<u64> {
    a.start.max(b.start)..a.end.min(b.end)
}

/// The field of an entry.
fn at(index: usize) -> String {
    format!("ranges[{index}]")
}

#[cfg(test)]
mod tests;
