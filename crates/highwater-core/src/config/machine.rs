//! The machine: nodes, their CPUs and memory ranges, distances.
//!
//! A machine is described exactly, by physical ranges or by sizes. The exact form has each zone's span
//! and page counts, as captured from a real machine. [`Machine::from_ranges`] takes a memory map as
//! firmware gives it. By sizes there are two layouts. [`Machine::from_sizes`] is a
//! PC: the x86-64 layout with its hole below 4 GiB, and the memory that firmware and kernel keep.
//! [`Machine::bare`] gives every frame to the allocator.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use super::{Thp, Tunables};
use crate::units::PAGE_SIZE;
use crate::units::ZoneType;

/// A zone of a node, in pages (rules/zones#page-counts).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct ZoneSpec {
    /// Which zone.
    pub zone: ZoneType,
    /// First frame.
    pub start_pfn: u64,
    /// End minus start, holes included.
    pub spanned: u64,
    /// Spanned minus holes.
    pub present: u64,
    /// Pages the allocator managed when watermarks were computed at boot.
    pub managed_at_boot: u64,
    /// Managed pages after init memory was freed. The other pages cannot be allocated.
    pub managed: u64,
}

impl ZoneSpec {
    /// A zone without holes or reserved pages.
    pub fn full(zone: ZoneType, start_pfn: u64, pages: u64) -> ZoneSpec {
        ZoneSpec {
            zone,
            start_pfn,
            spanned: pages,
            present: pages,
            managed_at_boot: pages,
            managed: pages,
        }
    }
}

/// A node: CPUs and memory.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct NodeSpec {
    /// CPU numbers of this node; may be empty.
    pub cpus: Vec<u16>,
    /// Zones with memory, by zone type; may be empty.
    pub zones: Vec<ZoneSpec>,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Machine {
    /// Name shown in reports.
    pub name: String,
    /// Nodes by id.
    pub nodes: Vec<NodeSpec>,
    /// SLIT distances, `distances[from][to]`; local is 10.
    pub distances: Vec<Vec<u16>>,
    /// Sysctls.
    #[cfg_attr(feature = "serde", serde(default))]
    pub tunables: Tunables,
    /// Frames that the allocator gets, ascending, where holes and reserved ranges lie between them
    /// ([`Machine::from_ranges`]). Empty: the last `managed` frames of each zone.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub usable: Vec<Range<u64>>,
}

/// Why a machine cannot exist: the field and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineError {
    /// Path of the field, such as `nodes[1].zones[0].managed`.
    pub field: String,
    /// The error.
    pub reason: String,
}

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.reason)
    }
}

impl core::error::Error for MachineError {}

/// Frames below 16 MiB, the end of a PC's DMA.
pub(super) const DMA_END: u64 = 4096;
/// Frames below 4 GiB, the end of a PC's DMA32.
pub(super) const DMA32_END: u64 = 1 << 20;
/// RAM below the PCI hole (the reference machines have it at 3 GiB).
const LOW_RAM_END: u64 = 3 << 18;
/// The DMA zone of a PC: pfn 0 and 97 frames below 1 MiB are absent, the BIOS and early tables keep
/// 158 more (all reference machines: spanned 4095, present 3998, managed 3840).
const DMA_PRESENT: u64 = 3998;
const DMA_MANAGED: u64 = 3840;
/// Pages of the DMA zone that a PC keeps; a machine with no more memory than this has nothing left.
const PC_FIRST_PAGES: u64 = DMA_END - DMA_MANAGED;
/// Kernel image, firmware tables and early allocations in the zone that holds the kernel, pages
/// (the reference machines: 12 to 16 thousand beyond the page array).
const KERNEL_PAGES: u64 = 12_288;
/// Bytes of page array per page.
const STRUCT_PAGE_BYTES: u64 = 64;
/// Distance between different nodes unless stated.
const REMOTE_DISTANCE: u16 = 20;
/// Distance of a node to itself.
const LOCAL_DISTANCE: u16 = 10;
/// Most nodes a node set can hold.
const MAX_NODES: usize = crate::units::NodeMask::MAX_NODES;
/// Most frames (4 TiB): their descriptors take 16 GiB.
pub(super) const MAX_FRAMES: u64 = 1 << 30;
/// Most CPUs Linux can be built for.
const MAX_CPUS: usize = 8192;

impl Machine {
    /// A PC: nodes with these sizes in bytes and these CPUs, in the layout of x86-64: ascending
    /// from 0 with a hole from 3 to 4 GiB. A node of 0 bytes has no memory.
    ///
    /// **Not all of it can be allocated.** As on a real PC, firmware keeps some of the first 16
    /// MiB. The kernel's image and the page array (64 bytes per page) lie in the rest. So sizes
    /// computed at boot equal Linux's. [`Machine::managed_pages`] returns what is left. If you
    /// bring your own memory and want all of it, use [`Machine::bare`].
    ///
    /// ```
    /// use highwater_core::config::Machine;
    ///
    /// let nodes = [(256 << 20, vec![0, 1])]; // 65,536 pages
    /// assert_eq!(Machine::from_sizes("a PC", &nodes)?.managed_pages(), 52_032);
    /// assert_eq!(Machine::bare("mine", &nodes)?.managed_pages(), 65_536);
    /// # Ok::<(), highwater_core::config::MachineError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Machine::validate`], and if there is less memory than a PC keeps for itself.
    pub fn from_sizes(name: &str, nodes: &[(u64, Vec<u16>)]) -> Result<Machine, MachineError> {
        let total: u64 = nodes.iter().map(|(bytes, _)| bytes / PAGE_SIZE as u64).sum();
        if !nodes.is_empty() && total <= PC_FIRST_PAGES {
            let (least, kept) = (kib(PC_FIRST_PAGES + 1), kib(PC_FIRST_PAGES));
            let reason = format!(
                "a machine needs memory: at least {least} KiB, as a PC keeps the first {kept} KiB; \
                 there are {} KiB",
                kib(total)
            );
            return fail("nodes", &reason);
        }
        let mut next_pfn = 0u64;
        let mut kernel_left = KERNEL_PAGES;
        let mut specs = Vec::new();
        for (index, (bytes, cpus)) in nodes.iter().enumerate() {
            let mut left = bytes / PAGE_SIZE as u64;
            if left > 0 && (1..DMA_END).contains(&next_pfn) {
                let (before, least) = (kib(next_pfn), kib(DMA_END));
                let reason = format!(
                    "the nodes before it have {before} KiB; the first zone of a PC, {least} KiB, is one \
                     node's"
                );
                return fail(&format!("nodes[{index}]"), &reason);
            }
            let mut zones = Vec::new();
            while left > 0 {
                let limit = match next_pfn {
                    p if p < DMA_END => DMA_END,
                    p if p < LOW_RAM_END => LOW_RAM_END,
                    p if p < DMA32_END => {
                        next_pfn = DMA32_END;
                        continue;
                    }
                    _ => u64::MAX,
                };
                let take = left.min(limit - next_pfn);
                zones.push(zone_at(next_pfn, take, &mut kernel_left));
                next_pfn += take;
                left -= take;
            }
            specs.push(NodeSpec { cpus: cpus.clone(), zones });
        }
        Machine::of_nodes(name, specs)
    }

    /// A machine that keeps no memory for itself: nodes with these sizes in bytes and these CPUs,
    /// all frames of which can be allocated. Use it for your own memory (an arena, memory from a
    /// bootloader) instead of a model of a PC.
    ///
    /// Frames are numbered from 0, node after node; frame 0 is the first page of the memory,
    /// wherever that lies ([`Host::frame_write`] and its like translate). Each node's memory is one
    /// NORMAL zone, so requests for DMA memory get none. As everywhere, ordinary requests leave the
    /// pages below the min mark to tasks that free memory. `tunables.min_free_kbytes = Some(0)`
    /// makes these pages available too.
    ///
    /// [`Host::frame_write`]: crate::host::Host::frame_write
    ///
    /// # Errors
    /// As [`Machine::validate`].
    pub fn bare(name: &str, nodes: &[(u64, Vec<u16>)]) -> Result<Machine, MachineError> {
        let mut next_pfn = 0;
        let mut specs = Vec::new();
        for (bytes, cpus) in nodes {
            let pages = bytes / PAGE_SIZE as u64;
            let zone = ZoneSpec::full(ZoneType::Normal, next_pfn, pages);
            let zones = if pages > 0 { vec![zone] } else { Vec::new() };
            specs.push(NodeSpec { cpus: cpus.clone(), zones });
            next_pfn += pages;
        }
        Machine::of_nodes(name, specs)
    }

    /// A machine of these nodes, all equally far from each other.
    ///
    /// # Errors
    /// As [`Machine::validate`].
    pub fn of_nodes(name: &str, nodes: Vec<NodeSpec>) -> Result<Machine, MachineError> {
        let machine = Machine {
            name: name.to_string(),
            distances: uniform_distances(nodes.len()),
            nodes,
            tunables: Tunables::default(),
            usable: Vec::new(),
        };
        machine.validate()?;
        Ok(machine)
    }

    /// Pages that the allocator manages: all that can ever be allocated.
    pub fn managed_pages(&self) -> u64 {
        self.nodes.iter().flat_map(|n| &n.zones).map(|z| z.managed).sum()
    }

    /// The huge page setting; `never` if memory is too small for huge pages, whatever the setting.
    pub fn thp(&self) -> Thp {
        self.tunables.thp.with(self.managed_pages())
    }

    /// Pages of its zones that the allocator never gets: holes, and memory of firmware and kernel.
    pub fn withheld_pages(&self) -> u64 {
        self.nodes.iter().flat_map(|n| &n.zones).map(|z| z.spanned.saturating_sub(z.managed)).sum()
    }

    /// Number of CPUs.
    pub fn nr_cpus(&self) -> usize {
        self.nodes.iter().map(|n| n.cpus.len()).sum()
    }

    /// One past the highest frame.
    pub fn end_pfn(&self) -> u64 {
        let ends = self.nodes.iter().flat_map(|n| &n.zones).map(|z| z.start_pfn + z.spanned);
        ends.max().unwrap_or(0)
    }

    /// Checks that such a machine can exist.
    ///
    /// # Errors
    /// Names the first field that makes it impossible.
    pub fn validate(&self) -> Result<(), MachineError> {
        if self.nodes.is_empty() {
            return fail("nodes", "a machine needs at least one node");
        }
        if self.nodes.len() > MAX_NODES {
            return fail("nodes", &format!("more than {MAX_NODES} nodes"));
        }
        self.tunables.validate()?;
        self.validate_distances()?;
        self.validate_cpus()?;
        self.validate_zones()?;
        if self.usable.is_empty() { Ok(()) } else { self.validate_usable() }
    }

    fn validate_distances(&self) -> Result<(), MachineError> {
        let n = self.nodes.len();
        if self.distances.len() != n {
            let reason = format!("{} rows for {n} nodes", self.distances.len());
            return fail("distances", &reason);
        }
        for (i, row) in self.distances.iter().enumerate() {
            if row.len() != n {
                let reason = format!("{} entries for {n} nodes", row.len());
                return fail(&format!("distances[{i}]"), &reason);
            }
            for (j, &d) in row.iter().enumerate() {
                if i == j && d != LOCAL_DISTANCE {
                    return fail(&format!("distances[{i}][{j}]"), "a node's own distance is 10");
                }
                if i != j && !(LOCAL_DISTANCE + 1..=255).contains(&d) {
                    let reason = "a distance between nodes is 11 to 255";
                    return fail(&format!("distances[{i}][{j}]"), reason);
                }
            }
        }
        Ok(())
    }

    fn validate_cpus(&self) -> Result<(), MachineError> {
        let total = self.nr_cpus();
        if total == 0 {
            return fail("nodes", "a machine needs at least one CPU");
        }
        if total > MAX_CPUS {
            return fail("nodes", &format!("{total} CPUs are more than {MAX_CPUS}"));
        }
        let mut seen = vec![false; total];
        for (i, node) in self.nodes.iter().enumerate() {
            for (k, &cpu) in node.cpus.iter().enumerate() {
                let field = format!("nodes[{i}].cpus[{k}]");
                match seen.get_mut(cpu as usize) {
                    None => {
                        let reason = format!("CPU {cpu}, but CPUs are numbered 0 to {}", total - 1);
                        return fail(&field, &reason);
                    }
                    Some(true) => return fail(&field, &format!("CPU {cpu} is listed twice")),
                    Some(slot) => *slot = true,
                }
            }
        }
        Ok(())
    }

    fn validate_zones(&self) -> Result<(), MachineError> {
        let mut ranges: Vec<(u64, u64, String)> = Vec::new();
        for (i, node) in self.nodes.iter().enumerate() {
            for (k, z) in node.zones.iter().enumerate() {
                let at = format!("nodes[{i}].zones[{k}]");
                if z.spanned == 0 {
                    return fail(&format!("{at}.spanned"), "a listed zone spans at least one page");
                }
                let end = z.start_pfn.checked_add(z.spanned).filter(|&e| e < MAX_FRAMES);
                let Some(end) = end else {
                    return fail(&format!("{at}.start_pfn"), "beyond 4 TiB");
                };
                if z.present > z.spanned {
                    return fail(&format!("{at}.present"), "more pages present than spanned");
                }
                if z.managed > z.present {
                    return fail(&format!("{at}.managed"), "more pages managed than present");
                }
                if z.managed_at_boot > z.managed {
                    return fail(&format!("{at}.managed_at_boot"), "more than managed later");
                }
                if node.zones[..k].iter().any(|other| other.zone == z.zone) {
                    return fail(&format!("{at}.zone"), "the node has this zone already");
                }
                // Where a zone begins and ends is the architecture's: DMA ends at 16 MiB on a PC and at 4 GiB on many
                // an arm64 board. On each, a node's zones lie one above the other; MOVABLE lies where it was put.
                if z.zone == ZoneType::Device {
                    return fail(&format!("{at}.zone"), "DEVICE has no pages");
                }
                let is_above = |other: &&ZoneSpec| {
                    z.zone < other.zone
                        && other.zone != ZoneType::Movable
                        && z.start_pfn > other.start_pfn
                        || z.zone > other.zone
                            && z.zone != ZoneType::Movable
                            && z.start_pfn < other.start_pfn
                };
                if let Some(other) = node.zones[..k].iter().find(is_above) {
                    let reason = format!(
                        "pages {}..{end} of {} are on the wrong side of those of {}",
                        z.start_pfn, z.zone, other.zone
                    );
                    return fail(&format!("{at}.start_pfn"), &reason);
                }
                if let Some((_, _, other)) =
                    ranges.iter().find(|(s, e, _)| z.start_pfn < *e && *s < end)
                {
                    return fail(&at, &format!("overlaps {other}"));
                }
                ranges.push((z.start_pfn, end, at));
            }
        }
        if self.managed_pages() == 0 {
            return fail("nodes", "a machine needs memory");
        }
        Ok(())
    }
}

/// Distances of `n` nodes that are all equally far from each other.
pub(crate) fn uniform_distances(n: usize) -> Vec<Vec<u16>> {
    let distance = |i, j| {
        if i == j { LOCAL_DISTANCE } else { REMOTE_DISTANCE }
    };
    (0..n).map(|i| (0..n).map(|j| distance(i, j)).collect()).collect()
}

/// The size of this many pages, in KiB.
fn kib(pages: u64) -> u64 {
    pages * (PAGE_SIZE as u64 / 1024)
}

fn zone_at(start: u64, pages: u64, kernel_left: &mut u64) -> ZoneSpec {
    if start < DMA_END {
        // Frame 0 is never used; of a full DMA zone a PC keeps some more.
        let spanned = pages - 1;
        let present = spanned.saturating_sub(DMA_END - 1 - DMA_PRESENT);
        let managed = present.saturating_sub(DMA_PRESENT - DMA_MANAGED);
        return ZoneSpec {
            zone: ZoneType::Dma,
            start_pfn: 1,
            spanned,
            present,
            managed_at_boot: managed,
            managed,
        };
    }
    let zone = if start < DMA32_END { ZoneType::Dma32 } else { ZoneType::Normal };
    let page_array = pages * STRUCT_PAGE_BYTES / PAGE_SIZE as u64;
    let kernel = (*kernel_left).min(pages / 4);
    *kernel_left -= kernel;
    let managed = pages - page_array - kernel;
    ZoneSpec {
        zone,
        start_pfn: start,
        spanned: pages,
        present: pages,
        managed_at_boot: managed,
        managed,
    }
}

pub(super) fn fail<T>(field: &str, reason: &str) -> Result<T, MachineError> {
    Err(MachineError { field: field.to_string(), reason: reason.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_laid_out_around_the_hole() {
        let m = Machine::from_sizes("m", &[(4 << 30, vec![0, 1, 2, 3])]).unwrap();
        let zones: Vec<_> = m.nodes[0].zones.iter().map(|z| (z.zone, z.start_pfn)).collect();
        assert_eq!(
            zones,
            [(ZoneType::Dma, 1), (ZoneType::Dma32, 4096), (ZoneType::Normal, 1 << 20)]
        );
        assert_eq!(m.end_pfn(), (1 << 20) + (1 << 18));
    }

    #[test]
    fn a_pc_says_what_it_keeps_and_a_bare_machine_keeps_nothing() {
        let nodes = [(256 << 20, vec![0, 1])];
        let pc = Machine::from_sizes("pc", &nodes).unwrap();
        // Frame 0 is in no zone.
        assert_eq!(pc.managed_pages() + pc.withheld_pages() + 1, 65_536);
        assert_eq!(pc.withheld_pages(), 13_503);
        let nodes = [(128 << 20, vec![0]), (0, vec![1]), (128 << 20, vec![])];
        let bare = Machine::bare("bare", &nodes).unwrap();
        assert_eq!((bare.managed_pages(), bare.withheld_pages()), (65_536, 0));
        assert_eq!(bare.end_pfn(), 65_536);
        assert!(bare.nodes[1].zones.is_empty());
    }

    #[test]
    fn too_little_memory_says_how_much_it_takes() {
        let pc = |nodes: &[(u64, Vec<u16>)]| Machine::from_sizes("m", nodes).map(|_| ());
        let reason = |nodes: &[(u64, Vec<u16>)]| pc(nodes).unwrap_err().to_string();
        assert_eq!(
            reason(&[(1 << 20, vec![0])]),
            "nodes: a machine needs memory: at least 1028 KiB, as a PC keeps the first 1024 KiB; \
             there are 1024 KiB"
        );
        assert_eq!(pc(&[(1028 << 10, vec![0])]), Ok(()));
        for few in [0, 4 << 10, 8 << 10, 400 << 10] {
            assert!(reason(&[(few, vec![0])]).contains("at least 1028 KiB"), "{few}");
        }
        assert_eq!(
            reason(&[(8 << 20, vec![0]), (8 << 20, vec![1])]),
            "nodes[1]: the nodes before it have 8192 KiB; the first zone of a PC, 16384 KiB, is one \
             node's"
        );
        assert_eq!(pc(&[(16 << 20, vec![0]), (4 << 10, vec![1])]), Ok(()));
        assert!(reason(&[]).contains("at least one node"));
        assert!(Machine::bare("m", &[(4 << 10, vec![0])]).is_ok());
        assert!(Machine::bare("m", &[(4095, vec![0])]).is_err());
    }

    #[test]
    fn impossible_machines_name_the_field() {
        let good = Machine::from_sizes("m", &[(1 << 30, vec![0]), (1 << 30, vec![1])]).unwrap();
        let broken = |change: fn(&mut Machine)| {
            let mut m = good.clone();
            change(&mut m);
            m.validate().unwrap_err().field
        };
        assert_eq!(broken(|m| m.nodes.clear()), "nodes");
        assert_eq!(broken(|m| m.nodes[1].cpus = vec![7]), "nodes[1].cpus[0]");
        assert_eq!(broken(|m| m.nodes[1].zones[0].managed += 1 << 30), "nodes[1].zones[0].managed");
        assert_eq!(broken(|m| m.nodes[1].zones[0].start_pfn -= 1), "nodes[1].zones[0]");
        // Zones as an arm64 board has them; DMA above DMA32 no machine has.
        let zone = |zone, start| ZoneSpec::full(zone, start, 1 << 18);
        let board = |zones| Machine::of_nodes("m", vec![NodeSpec { cpus: vec![0], zones }]);
        let (dma, dma32) = (ZoneType::Dma, ZoneType::Dma32);
        assert!(
            board(vec![zone(dma, 0), zone(dma32, 1 << 18), zone(ZoneType::Normal, 1 << 20)])
                .is_ok()
        );
        let error = board(vec![zone(dma, 1 << 18), zone(dma32, 0)]).unwrap_err();
        assert_eq!(error.field, "nodes[0].zones[1].start_pfn");
        assert_eq!(broken(|m| m.distances[0][0] = 20), "distances[0][0]");
        assert_eq!(
            broken(|m| m.tunables.watermark_scale_factor = 0),
            "tunables.watermark_scale_factor"
        );
        assert_eq!(
            broken(|m| m.tunables.percpu_pagelist_high_fraction = 7),
            "tunables.percpu_pagelist_high_fraction"
        );
        assert_eq!(broken(|m| m.nodes.iter_mut().for_each(|n| n.zones.clear())), "nodes");
    }
}
