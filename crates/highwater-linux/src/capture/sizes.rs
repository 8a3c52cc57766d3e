//! The sizes that a kernel computes for zones, from their page counts alone. No machine is booted.
//!
//! The model cannot boot machines with HighMem, other page sizes or too much memory. This module
//! still compares the sizes that their kernel computed (rules/watermarks#marks,
//! rules/per-cpu-lists#sizes).

use highwater_core::config::{HighWatermark, PcpSizing, Policy};
use highwater_core::zone::watermark;

use crate::figure::{Figure, Limit};

/// Orders of magnitude of a page of 4 KiB.
const PAGE_SHIFT: u32 = 12;
/// Ratios of a kernel as it comes, by zone.
const RATIOS: [(&str, u64); 6] =
    [("DMA", 256), ("DMA32", 256), ("Normal", 32), ("HighMem", 0), ("Movable", 0), ("Device", 0)];
/// Limits of the min mark of HighMem.
const HIGHMEM_MIN: std::ops::RangeInclusive<u64> = 32..=128;

/// A zone with the sizes that its kernel computed.
#[derive(Clone, Debug)]
pub(crate) struct SizedZone {
    pub(crate) node: u32,
    pub(crate) name: String,
    /// Managed pages when the marks were computed.
    pub(crate) at_boot: u64,
    /// Pages managed now.
    pub(crate) managed: u64,
    /// Min, low and high mark, without boost.
    pub(crate) marks: [u64; 3],
    pub(crate) protection: Vec<u64>,
    pub(crate) lists: Vec<SizedList>,
}

/// A CPU's lists: number, high, batch and threshold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SizedList {
    pub(crate) cpu: u32,
    pub(crate) high: u64,
    pub(crate) batch: u64,
    pub(crate) threshold: Option<u64>,
}

/// A machine as far as sizes follow from it.
#[derive(Clone, Debug)]
pub(crate) struct SizedMachine {
    pub(crate) page_bytes: u64,
    pub(crate) nr_cpus: u64,
    /// CPUs of each node, by number.
    pub(crate) node_cpus: Vec<u64>,
    pub(crate) min_free_kbytes: u64,
    pub(crate) scale_factor: u64,
    pub(crate) high_fraction: u64,
    /// Zones that the kernel may have, in its order.
    pub(crate) kernel_zones: Vec<String>,
    /// `lowmem_reserve_ratio`, as far as it is known.
    pub(crate) ratios: Vec<u64>,
    pub(crate) zones: Vec<SizedZone>,
}

impl SizedMachine {
    /// Every figure beside the one that follows from the rules of a policy.
    pub(crate) fn figures(&self, policy: &Policy) -> Vec<Figure> {
        let mut figures = Vec::new();
        for zone in &self.zones {
            self.zone(zone, policy, &mut figures);
        }
        figures
    }

    fn shift(&self) -> u32 {
        self.page_bytes.max(1).ilog2().saturating_sub(PAGE_SHIFT)
    }

    fn marks(&self, zone: &SizedZone, policy: &Policy) -> [u64; 3] {
        let is_low = |zone: &&SizedZone| zone.name != "HighMem";
        let low: u64 = self.zones.iter().filter(is_low).map(|zone| zone.at_boot).sum();
        // The share of the marks is counted in pages, which are larger on this machine.
        let kbytes = self.min_free_kbytes >> self.shift();
        let gaps = policy.watermark.gaps;
        let marks = watermark::marks(kbytes, zone.at_boot, low, self.scale_factor, gaps);
        if zone.name != "HighMem" {
            return [marks.min, marks.low, marks.high];
        }
        // HighMem has a small min mark; its gaps are computed as if it had a share.
        let min = (zone.at_boot / 1024).clamp(*HIGHMEM_MIN.start(), *HIGHMEM_MIN.end());
        let share = (kbytes / 4) * zone.at_boot / low.max(1);
        match gaps {
            HighWatermark::Quarters => [min, min + share / 4, min + share / 2],
            HighWatermark::ScaleFactor => {
                let by_size = watermark::mult_frac(zone.at_boot, self.scale_factor, 10_000);
                let gap = (share / 4).max(by_size);
                [min, min + gap, min + 2 * gap]
            }
        }
    }

    fn list_sizes(&self, zone: &SizedZone, low: u64, policy: &Policy) -> (u64, u64) {
        let local = self.node_cpus.get(zone.node as usize).copied().unwrap_or(0);
        let cpus = if local == 0 { self.nr_cpus } else { local };
        let sizing = policy.pcp.sizing;
        // A batch is capped in bytes: with larger pages the cap is fewer pages. Below the cap a
        // batch is a share of the zone's pages.
        let cap = if sizing == PcpSizing::SixBatches { 128 } else { 256 } >> self.shift();
        let managed = zone.at_boot.min(cap << 10);
        let managed = if self.high_fraction > 0 { zone.at_boot } else { managed };
        let (batch, high) = watermark::pcp_sizes(managed, low, cpus, self.high_fraction, sizing);
        (u64::from(batch), u64::from(high))
    }

    fn protection(&self, zone: &SizedZone) -> Vec<u64> {
        let place = |name: &str| self.kernel_zones.iter().position(|known| known == name);
        let Some(own) = place(&zone.name) else { return zone.protection.clone() };
        let usual = RATIOS.iter().find(|(name, _)| *name == zone.name).map_or(0, |(_, r)| *r);
        let ratio = self.ratios.get(own).copied().unwrap_or(usual);
        let managed = |at: usize| {
            let of = |other: &&SizedZone| other.node == zone.node && place(&other.name) == Some(at);
            self.zones.iter().find(of).map_or(0, |other| other.managed)
        };
        let mut above = 0;
        let reserve = |at: usize| {
            if at > own {
                above += managed(at);
            }
            above.checked_div(ratio).unwrap_or(0)
        };
        (0..self.kernel_zones.len()).map(reserve).collect()
    }

    fn zone(&self, zone: &SizedZone, policy: &Policy, figures: &mut Vec<Figure>) {
        let name = |field: &str| format!("node {} {}: {field}", zone.node, zone.name);
        let marks = self.marks(zone, policy);
        for ((field, real), model) in ["min", "low", "high"].iter().zip(zone.marks).zip(marks) {
            figures.push(Figure::number(name(field), real, model, Limit::Exact));
        }
        let (batch, high) = self.list_sizes(zone, marks[1], policy);
        let threshold = watermark::stat_threshold(self.nr_cpus, zone.managed << self.shift());
        for list in &zone.lists {
            let name = |field: &str| name(&format!("cpu {} {field}", list.cpu));
            figures.push(Figure::number(name("high"), list.high, high, Limit::Exact));
            figures.push(Figure::number(name("batch"), list.batch, batch, Limit::Exact));
            if let Some(real) = list.threshold {
                let model = u64::from(threshold);
                figures.push(Figure::number(name("stat_threshold"), real, model, Limit::Exact));
            }
        }
        figures.push(Figure::entries(name("protection"), &zone.protection, &self.protection(zone)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_files::policy_file;

    fn zone(name: &str, managed: u64) -> SizedZone {
        SizedZone {
            node: 0,
            name: name.to_owned(),
            at_boot: managed,
            managed,
            marks: [0; 3],
            protection: Vec::new(),
            lists: Vec::new(),
        }
    }

    fn machine(page_bytes: u64, min_free_kbytes: u64, zones: Vec<SizedZone>) -> SizedMachine {
        SizedMachine {
            page_bytes,
            nr_cpus: 4,
            node_cpus: vec![4],
            min_free_kbytes,
            scale_factor: 10,
            high_fraction: 0,
            kernel_zones: ["DMA", "Normal", "HighMem", "Movable"].map(str::to_owned).to_vec(),
            ratios: Vec::new(),
            zones,
        }
    }

    /// A 32-bit PC: HighMem keeps 32 to 128 pages, its gaps follow its share of the low memory's marks.
    #[test]
    fn high_memory_keeps_little() {
        let zones = vec![zone("DMA", 3951), zone("Normal", 202_000), zone("HighMem", 300_000)];
        let m = machine(4096, 3728, zones);
        let policy = policy_file::load("4.3").unwrap();
        assert_eq!(m.marks(&m.zones[0], &policy), [17, 21, 25]);
        assert_eq!(m.marks(&m.zones[1], &policy), [914, 1142, 1371]);
        assert_eq!(m.marks(&m.zones[2], &policy), [128, 467, 806]);
        assert_eq!(m.protection(&m.zones[0]), [0, 789, 1960, 1960]);
        assert_eq!(m.protection(&m.zones[1]), [0, 0, 9375, 9375]);
        assert_eq!(m.list_sizes(&m.zones[2], 467, &policy), (31, 186));
        assert_eq!(m.list_sizes(&m.zones[0], 21, &policy), (1, 0));
    }

    /// Pages of 64 KiB: a sixteenth of the pages keeps as much, and a batch of a MiB has 3.
    #[test]
    fn larger_pages_are_fewer() {
        let m = machine(65_536, 65_536, vec![zone("Normal", 61_440)]);
        let policy = policy_file::load("5.4").unwrap();
        assert_eq!(m.marks(&m.zones[0], &policy)[0], 1024);
        assert_eq!(m.list_sizes(&m.zones[0], 0, &policy), (3, 18));
    }
}
