//! Run-time settings: the vm sysctls that the allocator reads, at their 6.1 defaults.

use alloc::format;

use super::MachineError;

/// Most that `vm.min_free_kbytes` can say (its type is a C int).
const MIN_FREE_KBYTES_MAX: u64 = i32::MAX as u64;
/// More dirty bytes than any machine here has memory.
const DIRTY_BYTES_MAX: u64 = 1 << 44;

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
    /// `vm.dirty_background_ratio`, percent.
    pub dirty_background_ratio: u64,
    /// `vm.dirty_background_bytes`; 0 = use the ratio.
    pub dirty_background_bytes: u64,
    /// `vm.dirty_expire_centisecs`.
    pub dirty_expire_centisecs: u64,
    /// `vm.dirty_writeback_centisecs`; 0 = no periodic writeback.
    pub dirty_writeback_centisecs: u64,
    /// `vm.swappiness`, 0..=200.
    pub swappiness: u64,
    /// `vm.page-cluster`: swap readahead of 2^n pages.
    pub page_cluster: u64,
    /// `vm.min_unmapped_ratio`, percent of managed pages per zone.
    pub min_unmapped_ratio: u64,
    /// `vm.min_slab_ratio`, percent of managed pages per zone.
    pub min_slab_ratio: u64,
    /// Block queues bound the writes in flight (`queue/wbt_lat_usec` is not 0).
    pub wbt: bool,
    /// Cpusets are in use (a task's allowed nodes are enforced).
    pub cpusets: bool,
}

impl Tunables {
    /// Checks that every setting is one that the kernel would accept.
    ///
    /// # Errors
    /// Names the first setting that is not.
    pub fn validate(&self) -> Result<(), MachineError> {
        let within = |field: &str, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            Err(MachineError {
                field: format!("tunables.{field}"),
                reason: format!("{value} is not between {low} and {high}"),
            })
        };
        within("min_free_kbytes", self.min_free_kbytes.unwrap_or(0), 0, MIN_FREE_KBYTES_MAX)?;
        within("watermark_scale_factor", self.watermark_scale_factor, 1, 3000)?;
        let boost = self.watermark_boost_factor;
        within("watermark_boost_factor", boost, 0, i32::MAX as u64)?;
        let fraction = self.percpu_pagelist_high_fraction;
        if fraction != 0 {
            within("percpu_pagelist_high_fraction", fraction, 8, i32::MAX as u64)?;
        }
        within("zone_reclaim_mode", self.zone_reclaim_mode.into(), 0, 7)?;
        within("dirty_ratio", self.dirty_ratio, 0, 100)?;
        within("dirty_bytes", self.dirty_bytes, 0, DIRTY_BYTES_MAX)?;
        within("dirty_background_ratio", self.dirty_background_ratio, 0, 100)?;
        within("dirty_background_bytes", self.dirty_background_bytes, 0, DIRTY_BYTES_MAX)?;
        within("dirty_expire_centisecs", self.dirty_expire_centisecs, 0, i32::MAX as u64)?;
        within("dirty_writeback_centisecs", self.dirty_writeback_centisecs, 0, i32::MAX as u64)?;
        within("swappiness", self.swappiness, 0, 200)?;
        within("page_cluster", self.page_cluster, 0, 10)?;
        within("min_unmapped_ratio", self.min_unmapped_ratio, 0, 100)?;
        within("min_slab_ratio", self.min_slab_ratio, 0, 100)
    }
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
            dirty_background_ratio: 10,
            dirty_background_bytes: 0,
            dirty_expire_centisecs: 3000,
            dirty_writeback_centisecs: 500,
            swappiness: 60,
            page_cluster: 3,
            min_unmapped_ratio: 1,
            min_slab_ratio: 5,
            wbt: true,
            cpusets: false,
        }
    }
}
