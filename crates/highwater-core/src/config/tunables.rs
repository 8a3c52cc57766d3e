//! Run-time settings: the vm sysctls that the allocator reads, at their 6.1 defaults.

/// Transparent huge page setting; it raises min_free_kbytes at boot (spec 01 §2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Thp {
    /// Enabled for all mappings.
    #[default]
    Always,
    /// Enabled where a program asks for it.
    Madvise,
    /// Off.
    Never,
}

/// The vm sysctls.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, default))]
pub struct Tunables {
    /// `transparent_hugepage/enabled`.
    pub thp: Thp,
    /// `vm.min_free_kbytes` as a user would write it; none = computed.
    pub min_free_kbytes: Option<u64>,
    /// `vm.watermark_scale_factor`, 1..=3000, in 1/10000 of managed pages.
    pub watermark_scale_factor: u64,
    /// `vm.watermark_boost_factor`, in 1/10000 of the high watermark; 0 = off.
    pub watermark_boost_factor: u64,
    /// `vm.percpu_pagelist_high_fraction`, 0 or >= 8.
    pub percpu_pagelist_high_fraction: u64,
    /// `vm.lowmem_reserve_ratio` for DMA, DMA32, NORMAL, MOVABLE.
    pub lowmem_reserve_ratio: [u64; 4],
    /// `vm.zone_reclaim_mode`: bit 0 zone, 1 write, 2 unmap.
    pub zone_reclaim_mode: u8,
    /// `vm.dirty_ratio`, percent.
    pub dirty_ratio: u64,
    /// `vm.dirty_bytes`; 0 = use the ratio.
    pub dirty_bytes: u64,
    /// `vm.min_unmapped_ratio`, percent of managed pages per zone.
    pub min_unmapped_ratio: u64,
    /// `vm.min_slab_ratio`, percent of managed pages per zone.
    pub min_slab_ratio: u64,
    /// Cpusets are in use (a task's allowed nodes are enforced).
    pub cpusets: bool,
}

impl Default for Tunables {
    fn default() -> Self {
        Tunables {
            thp: Thp::Always,
            min_free_kbytes: None,
            watermark_scale_factor: 10,
            watermark_boost_factor: 15_000,
            percpu_pagelist_high_fraction: 0,
            lowmem_reserve_ratio: [256, 256, 32, 0],
            zone_reclaim_mode: 0,
            dirty_ratio: 20,
            dirty_bytes: 0,
            min_unmapped_ratio: 1,
            min_slab_ratio: 5,
            cpusets: false,
        }
    }
}
