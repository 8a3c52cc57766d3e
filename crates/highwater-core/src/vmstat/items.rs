//! The names of all counters, in the order in which `/proc/vmstat` of 6.1 prints them.

macro_rules! items {
    ($(#[$doc:meta])* $name:ident $($variant:ident = $text:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "each item is the counter its name says")]
        pub enum $name { $($variant,)* }

        impl $name {
            /// All items in print order.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];
            /// Number of items.
            pub const COUNT: usize = Self::ALL.len();
            /// The name in `/proc`.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }
    };
}

items! {
    /// Per-zone items.
    ZoneStat
    FreePages = "nr_free_pages",
    ZoneInactiveAnon = "nr_zone_inactive_anon",
    ZoneActiveAnon = "nr_zone_active_anon",
    ZoneInactiveFile = "nr_zone_inactive_file",
    ZoneActiveFile = "nr_zone_active_file",
    ZoneUnevictable = "nr_zone_unevictable",
    ZoneWritePending = "nr_zone_write_pending",
    Mlock = "nr_mlock",
    Bounce = "nr_bounce",
    Zspages = "nr_zspages",
    FreeCma = "nr_free_cma",
}

items! {
    /// Per-zone NUMA events (rules/zone-counters#numa-events).
    NumaStat
    NumaHit = "numa_hit",
    NumaMiss = "numa_miss",
    NumaForeign = "numa_foreign",
    NumaInterleave = "numa_interleave",
    NumaLocal = "numa_local",
    NumaOther = "numa_other",
}

items! {
    /// Per-node items.
    NodeStat
    InactiveAnon = "nr_inactive_anon",
    ActiveAnon = "nr_active_anon",
    InactiveFile = "nr_inactive_file",
    ActiveFile = "nr_active_file",
    Unevictable = "nr_unevictable",
    SlabReclaimable = "nr_slab_reclaimable",
    SlabUnreclaimable = "nr_slab_unreclaimable",
    IsolatedAnon = "nr_isolated_anon",
    IsolatedFile = "nr_isolated_file",
    WorkingsetNodes = "workingset_nodes",
    WorkingsetRefaultAnon = "workingset_refault_anon",
    WorkingsetRefaultFile = "workingset_refault_file",
    WorkingsetActivateAnon = "workingset_activate_anon",
    WorkingsetActivateFile = "workingset_activate_file",
    WorkingsetRestoreAnon = "workingset_restore_anon",
    WorkingsetRestoreFile = "workingset_restore_file",
    WorkingsetNodereclaim = "workingset_nodereclaim",
    AnonPages = "nr_anon_pages",
    Mapped = "nr_mapped",
    FilePages = "nr_file_pages",
    Dirty = "nr_dirty",
    Writeback = "nr_writeback",
    WritebackTemp = "nr_writeback_temp",
    Shmem = "nr_shmem",
    ShmemHugepages = "nr_shmem_hugepages",
    ShmemPmdmapped = "nr_shmem_pmdmapped",
    FileHugepages = "nr_file_hugepages",
    FilePmdmapped = "nr_file_pmdmapped",
    AnonTransparentHugepages = "nr_anon_transparent_hugepages",
    VmscanWrite = "nr_vmscan_write",
    VmscanImmediateReclaim = "nr_vmscan_immediate_reclaim",
    Dirtied = "nr_dirtied",
    Written = "nr_written",
    ThrottledWritten = "nr_throttled_written",
    KernelMiscReclaimable = "nr_kernel_misc_reclaimable",
    FollPinAcquired = "nr_foll_pin_acquired",
    FollPinReleased = "nr_foll_pin_released",
    KernelStack = "nr_kernel_stack",
    PageTablePages = "nr_page_table_pages",
    SecPageTablePages = "nr_sec_page_table_pages",
    Swapcached = "nr_swapcached",
    PgpromoteSuccess = "pgpromote_success",
    PgpromoteCandidate = "pgpromote_candidate",
}

items! {
    /// Events, each a per-CPU count.
    VmEvent
    Pgpgin = "pgpgin",
    Pgpgout = "pgpgout",
    Pswpin = "pswpin",
    Pswpout = "pswpout",
    PgallocDma = "pgalloc_dma",
    PgallocDma32 = "pgalloc_dma32",
    PgallocNormal = "pgalloc_normal",
    PgallocMovable = "pgalloc_movable",
    PgallocDevice = "pgalloc_device",
    AllocstallDma = "allocstall_dma",
    AllocstallDma32 = "allocstall_dma32",
    AllocstallNormal = "allocstall_normal",
    AllocstallMovable = "allocstall_movable",
    AllocstallDevice = "allocstall_device",
    PgskipDma = "pgskip_dma",
    PgskipDma32 = "pgskip_dma32",
    PgskipNormal = "pgskip_normal",
    PgskipMovable = "pgskip_movable",
    PgskipDevice = "pgskip_device",
    Pgfree = "pgfree",
    Pgactivate = "pgactivate",
    Pgdeactivate = "pgdeactivate",
    Pglazyfree = "pglazyfree",
    Pgfault = "pgfault",
    Pgmajfault = "pgmajfault",
    Pglazyfreed = "pglazyfreed",
    Pgrefill = "pgrefill",
    Pgreuse = "pgreuse",
    PgstealKswapd = "pgsteal_kswapd",
    PgstealDirect = "pgsteal_direct",
    PgdemoteKswapd = "pgdemote_kswapd",
    PgdemoteDirect = "pgdemote_direct",
    PgscanKswapd = "pgscan_kswapd",
    PgscanDirect = "pgscan_direct",
    PgscanDirectThrottle = "pgscan_direct_throttle",
    PgscanAnon = "pgscan_anon",
    PgscanFile = "pgscan_file",
    PgstealAnon = "pgsteal_anon",
    PgstealFile = "pgsteal_file",
    ZoneReclaimFailed = "zone_reclaim_failed",
    Pginodesteal = "pginodesteal",
    SlabsScanned = "slabs_scanned",
    KswapdInodesteal = "kswapd_inodesteal",
    KswapdLowWmarkHitQuickly = "kswapd_low_wmark_hit_quickly",
    KswapdHighWmarkHitQuickly = "kswapd_high_wmark_hit_quickly",
    Pageoutrun = "pageoutrun",
    Pgrotated = "pgrotated",
    DropPagecache = "drop_pagecache",
    DropSlab = "drop_slab",
    OomKill = "oom_kill",
    NumaPteUpdates = "numa_pte_updates",
    NumaHugePteUpdates = "numa_huge_pte_updates",
    NumaHintFaults = "numa_hint_faults",
    NumaHintFaultsLocal = "numa_hint_faults_local",
    NumaPagesMigrated = "numa_pages_migrated",
    PgmigrateSuccess = "pgmigrate_success",
    PgmigrateFail = "pgmigrate_fail",
    ThpMigrationSuccess = "thp_migration_success",
    ThpMigrationFail = "thp_migration_fail",
    ThpMigrationSplit = "thp_migration_split",
    CompactMigrateScanned = "compact_migrate_scanned",
    CompactFreeScanned = "compact_free_scanned",
    CompactIsolated = "compact_isolated",
    CompactStall = "compact_stall",
    CompactFail = "compact_fail",
    CompactSuccess = "compact_success",
    CompactDaemonWake = "compact_daemon_wake",
    CompactDaemonMigrateScanned = "compact_daemon_migrate_scanned",
    CompactDaemonFreeScanned = "compact_daemon_free_scanned",
    HtlbBuddyAllocSuccess = "htlb_buddy_alloc_success",
    HtlbBuddyAllocFail = "htlb_buddy_alloc_fail",
    UnevictablePgsCulled = "unevictable_pgs_culled",
    UnevictablePgsScanned = "unevictable_pgs_scanned",
    UnevictablePgsRescued = "unevictable_pgs_rescued",
    UnevictablePgsMlocked = "unevictable_pgs_mlocked",
    UnevictablePgsMunlocked = "unevictable_pgs_munlocked",
    UnevictablePgsCleared = "unevictable_pgs_cleared",
    UnevictablePgsStranded = "unevictable_pgs_stranded",
    ThpFaultAlloc = "thp_fault_alloc",
    ThpFaultFallback = "thp_fault_fallback",
    ThpFaultFallbackCharge = "thp_fault_fallback_charge",
    ThpCollapseAlloc = "thp_collapse_alloc",
    ThpCollapseAllocFailed = "thp_collapse_alloc_failed",
    ThpFileAlloc = "thp_file_alloc",
    ThpFileFallback = "thp_file_fallback",
    ThpFileFallbackCharge = "thp_file_fallback_charge",
    ThpFileMapped = "thp_file_mapped",
    ThpSplitPage = "thp_split_page",
    ThpSplitPageFailed = "thp_split_page_failed",
    ThpDeferredSplitPage = "thp_deferred_split_page",
    ThpSplitPmd = "thp_split_pmd",
    ThpScanExceedNonePte = "thp_scan_exceed_none_pte",
    ThpScanExceedSwapPte = "thp_scan_exceed_swap_pte",
    ThpScanExceedSharePte = "thp_scan_exceed_share_pte",
    ThpSplitPud = "thp_split_pud",
    ThpZeroPageAlloc = "thp_zero_page_alloc",
    ThpZeroPageAllocFailed = "thp_zero_page_alloc_failed",
    ThpSwpout = "thp_swpout",
    ThpSwpoutFallback = "thp_swpout_fallback",
    BalloonInflate = "balloon_inflate",
    BalloonDeflate = "balloon_deflate",
    BalloonMigrate = "balloon_migrate",
    SwapRa = "swap_ra",
    SwapRaHit = "swap_ra_hit",
    KsmSwpinCopy = "ksm_swpin_copy",
    CowKsm = "cow_ksm",
    Zswpin = "zswpin",
    Zswpout = "zswpout",
    DirectMapLevel2Splits = "direct_map_level2_splits",
    DirectMapLevel3Splits = "direct_map_level3_splits",
}

impl NumaStat {
    /// Local or other: did the page come from the node of the CPU that asked?
    #[inline(always)]
    pub const fn of_origin(is_local: bool) -> NumaStat {
        if is_local { NumaStat::NumaLocal } else { NumaStat::NumaOther }
    }
}

impl VmEvent {
    /// The event of a per-zone group: `base` is the group's `_dma` event.
    #[inline(always)]
    pub const fn of_zone(base: VmEvent, zone: crate::units::ZoneType) -> VmEvent {
        Self::ALL[base as usize + zone as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::ZoneType;

    #[test]
    fn zone_groups_are_contiguous() {
        for zone in ZoneType::ALL {
            let suffix = ["_dma", "_dma32", "_normal", "_movable", "_device"][zone as usize];
            for base in [VmEvent::PgallocDma, VmEvent::AllocstallDma, VmEvent::PgskipDma] {
                let stem = base.name().strip_suffix("_dma").unwrap();
                let name = VmEvent::of_zone(base, zone).name();
                assert_eq!(name.strip_prefix(stem), Some(suffix));
            }
        }
    }
}
