//! The names of all counters, in the order of `/proc/vmstat` of 6.1, and the first kernel with each
//! (`None`: 4.3 or earlier, perhaps under another name).
//! A counter without a [`Meaning`] of its own has that of its group.

use super::Meaning;
use crate::config::KernelVersion;

macro_rules! items {
    ($(#[$doc:meta])* $name:ident: $kind:ident $unit:ident, $(
        $variant:ident = $text:literal $(: $own_kind:ident $own_unit:ident)? $(since $major:literal . $minor:literal)?,
    )*) => {
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
            /// The first kernel that counts it; none if all that are modelled do.
            pub const fn since(self) -> Option<KernelVersion> {
                match self { $($name::$variant => items!(@since $($major $minor)?),)* }
            }
            /// The meaning of its number.
            pub const fn meaning(self) -> Meaning {
                match self {
                    $($name::$variant => items!(@meaning $kind $unit $($own_kind $own_unit)?),)*
                }
            }
            /// The items that a kernel has, in print order.
            pub fn of_kernel(kernel: KernelVersion) -> impl Iterator<Item = $name> {
                let all = Self::ALL.iter().copied();
                all.filter(move |item| item.since().is_none_or(|since| since <= kernel))
            }
        }
    };
    (@meaning $kind:ident $unit:ident) => { Meaning::$kind(super::Unit::$unit) };
    (@meaning $kind:ident $unit:ident $own_kind:ident $own_unit:ident) => {
        Meaning::$own_kind(super::Unit::$own_unit)
    };
    (@since) => { None };
    (@since $major:literal $minor:literal) => { Some(KernelVersion::new($major, $minor)) };
}

items! {
    /// Per-zone items.
    ZoneStat: Level Pages,
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
    NumaStat: Total Pages,
    NumaHit = "numa_hit",
    NumaMiss = "numa_miss",
    NumaForeign = "numa_foreign",
    NumaInterleave = "numa_interleave",
    NumaLocal = "numa_local",
    NumaOther = "numa_other",
}

items! {
    /// Per-node items.
    NodeStat: Level Pages,
    InactiveAnon = "nr_inactive_anon",
    ActiveAnon = "nr_active_anon",
    InactiveFile = "nr_inactive_file",
    ActiveFile = "nr_active_file",
    Unevictable = "nr_unevictable",
    SlabReclaimable = "nr_slab_reclaimable",
    SlabUnreclaimable = "nr_slab_unreclaimable",
    IsolatedAnon = "nr_isolated_anon",
    IsolatedFile = "nr_isolated_file",
    WorkingsetNodes = "workingset_nodes": Level Objects since 4 . 20,
    WorkingsetRefaultAnon = "workingset_refault_anon": Total Pages since 5 . 9,
    WorkingsetRefaultFile = "workingset_refault_file": Total Pages,
    WorkingsetActivateAnon = "workingset_activate_anon": Total Pages since 5 . 9,
    WorkingsetActivateFile = "workingset_activate_file": Total Pages,
    WorkingsetRestoreAnon = "workingset_restore_anon": Total Pages since 5 . 9,
    WorkingsetRestoreFile = "workingset_restore_file": Total Pages since 4 . 20,
    WorkingsetNodereclaim = "workingset_nodereclaim": Total Objects,
    AnonPages = "nr_anon_pages",
    Mapped = "nr_mapped",
    FilePages = "nr_file_pages",
    Dirty = "nr_dirty",
    Writeback = "nr_writeback",
    WritebackTemp = "nr_writeback_temp",
    Shmem = "nr_shmem",
    ShmemHugepages = "nr_shmem_hugepages" since 4 . 8,
    ShmemPmdmapped = "nr_shmem_pmdmapped" since 4 . 8,
    FileHugepages = "nr_file_hugepages" since 5 . 4,
    FilePmdmapped = "nr_file_pmdmapped" since 5 . 4,
    AnonTransparentHugepages = "nr_anon_transparent_hugepages",
    VmscanWrite = "nr_vmscan_write": Total Pages,
    VmscanImmediateReclaim = "nr_vmscan_immediate_reclaim": Total Pages,
    Dirtied = "nr_dirtied": Total Pages,
    Written = "nr_written": Total Pages,
    ThrottledWritten = "nr_throttled_written": Total Pages since 5 . 16,
    KernelMiscReclaimable = "nr_kernel_misc_reclaimable" since 4 . 20,
    FollPinAcquired = "nr_foll_pin_acquired": Total Pages since 5 . 7,
    FollPinReleased = "nr_foll_pin_released": Total Pages since 5 . 7,
    KernelStack = "nr_kernel_stack": Level Kibibytes,
    PageTablePages = "nr_page_table_pages",
    SecPageTablePages = "nr_sec_page_table_pages" since 6 . 1,
    Swapcached = "nr_swapcached" since 5 . 12,
    PgpromoteSuccess = "pgpromote_success": Total Pages since 5 . 18,
    PgpromoteCandidate = "pgpromote_candidate": Total Pages since 6 . 1,
}

items! {
    /// Events, each a per-CPU count.
    VmEvent: Total Events,
    Pgpgin = "pgpgin": Total Kibibytes,
    Pgpgout = "pgpgout": Total Kibibytes,
    Pswpin = "pswpin": Total Pages,
    Pswpout = "pswpout": Total Pages,
    PgallocDma = "pgalloc_dma": Total Pages,
    PgallocDma32 = "pgalloc_dma32": Total Pages,
    PgallocNormal = "pgalloc_normal": Total Pages,
    PgallocMovable = "pgalloc_movable": Total Pages,
    PgallocDevice = "pgalloc_device": Total Pages,
    AllocstallDma = "allocstall_dma",
    AllocstallDma32 = "allocstall_dma32",
    AllocstallNormal = "allocstall_normal",
    AllocstallMovable = "allocstall_movable",
    AllocstallDevice = "allocstall_device",
    PgskipDma = "pgskip_dma": Total Pages since 4 . 8,
    PgskipDma32 = "pgskip_dma32": Total Pages since 4 . 8,
    PgskipNormal = "pgskip_normal": Total Pages since 4 . 8,
    PgskipMovable = "pgskip_movable": Total Pages since 4 . 8,
    PgskipDevice = "pgskip_device": Total Pages since 4 . 8,
    Pgfree = "pgfree": Total Pages,
    Pgactivate = "pgactivate": Total Pages,
    Pgdeactivate = "pgdeactivate": Total Pages,
    Pglazyfree = "pglazyfree": Total Pages since 4 . 13,
    Pgfault = "pgfault",
    Pgmajfault = "pgmajfault",
    Pglazyfreed = "pglazyfreed": Total Pages since 4 . 5,
    Pgrefill = "pgrefill": Total Pages,
    Pgreuse = "pgreuse": Total Pages since 5 . 9,
    PgstealKswapd = "pgsteal_kswapd": Total Pages,
    PgstealDirect = "pgsteal_direct": Total Pages,
    PgstealProactive = "pgsteal_proactive": Total Pages since 7 . 0,
    PgdemoteKswapd = "pgdemote_kswapd": Total Pages since 5 . 15,
    PgdemoteDirect = "pgdemote_direct": Total Pages since 5 . 15,
    PgscanKswapd = "pgscan_kswapd": Total Pages,
    PgscanDirect = "pgscan_direct": Total Pages,
    PgscanProactive = "pgscan_proactive": Total Pages since 7 . 0,
    PgscanDirectThrottle = "pgscan_direct_throttle",
    PgscanAnon = "pgscan_anon": Total Pages since 5 . 8,
    PgscanFile = "pgscan_file": Total Pages since 5 . 8,
    PgstealAnon = "pgsteal_anon": Total Pages since 5 . 8,
    PgstealFile = "pgsteal_file": Total Pages since 5 . 8,
    ZoneReclaimFailed = "zone_reclaim_failed",
    Pginodesteal = "pginodesteal": Total Pages,
    SlabsScanned = "slabs_scanned": Total Objects,
    KswapdInodesteal = "kswapd_inodesteal": Total Pages,
    KswapdLowWmarkHitQuickly = "kswapd_low_wmark_hit_quickly",
    KswapdHighWmarkHitQuickly = "kswapd_high_wmark_hit_quickly",
    Pageoutrun = "pageoutrun",
    Pgrotated = "pgrotated": Total Pages,
    DropPagecache = "drop_pagecache",
    DropSlab = "drop_slab",
    OomKill = "oom_kill" since 4 . 13,
    NumaPteUpdates = "numa_pte_updates",
    NumaHugePteUpdates = "numa_huge_pte_updates",
    NumaHintFaults = "numa_hint_faults",
    NumaHintFaultsLocal = "numa_hint_faults_local",
    NumaPagesMigrated = "numa_pages_migrated": Total Pages,
    PgmigrateSuccess = "pgmigrate_success": Total Pages,
    PgmigrateFail = "pgmigrate_fail": Total Pages,
    ThpMigrationSuccess = "thp_migration_success" since 5 . 9,
    ThpMigrationFail = "thp_migration_fail" since 5 . 9,
    ThpMigrationSplit = "thp_migration_split" since 5 . 9,
    CompactMigrateScanned = "compact_migrate_scanned": Total Pages,
    CompactFreeScanned = "compact_free_scanned": Total Pages,
    CompactIsolated = "compact_isolated": Total Pages,
    CompactStall = "compact_stall",
    CompactFail = "compact_fail",
    CompactSuccess = "compact_success",
    CompactDaemonWake = "compact_daemon_wake" since 4 . 6,
    CompactDaemonMigrateScanned = "compact_daemon_migrate_scanned": Total Pages since 4 . 12,
    CompactDaemonFreeScanned = "compact_daemon_free_scanned": Total Pages since 4 . 12,
    HtlbBuddyAllocSuccess = "htlb_buddy_alloc_success",
    HtlbBuddyAllocFail = "htlb_buddy_alloc_fail",
    UnevictablePgsCulled = "unevictable_pgs_culled": Total Pages,
    UnevictablePgsScanned = "unevictable_pgs_scanned": Total Pages,
    UnevictablePgsRescued = "unevictable_pgs_rescued": Total Pages,
    UnevictablePgsMlocked = "unevictable_pgs_mlocked": Total Pages,
    UnevictablePgsMunlocked = "unevictable_pgs_munlocked": Total Pages,
    UnevictablePgsCleared = "unevictable_pgs_cleared": Total Pages,
    UnevictablePgsStranded = "unevictable_pgs_stranded": Total Pages,
    ThpFaultAlloc = "thp_fault_alloc",
    ThpFaultFallback = "thp_fault_fallback",
    ThpFaultFallbackCharge = "thp_fault_fallback_charge" since 5 . 8,
    ThpCollapseAlloc = "thp_collapse_alloc",
    ThpCollapseAllocFailed = "thp_collapse_alloc_failed",
    ThpFileAlloc = "thp_file_alloc" since 4 . 8,
    ThpFileFallback = "thp_file_fallback" since 5 . 8,
    ThpFileFallbackCharge = "thp_file_fallback_charge" since 5 . 8,
    ThpFileMapped = "thp_file_mapped" since 4 . 8,
    ThpSplitPage = "thp_split_page",
    ThpSplitPageFailed = "thp_split_page_failed",
    ThpDeferredSplitPage = "thp_deferred_split_page" since 4 . 5,
    ThpSplitPmd = "thp_split_pmd",
    ThpScanExceedNonePte = "thp_scan_exceed_none_pte" since 5 . 17,
    ThpScanExceedSwapPte = "thp_scan_exceed_swap_pte" since 5 . 17,
    ThpScanExceedSharePte = "thp_scan_exceed_share_pte" since 5 . 17,
    ThpSplitPud = "thp_split_pud" since 4 . 12,
    ThpZeroPageAlloc = "thp_zero_page_alloc",
    ThpZeroPageAllocFailed = "thp_zero_page_alloc_failed",
    ThpSwpout = "thp_swpout" since 4 . 14,
    ThpSwpoutFallback = "thp_swpout_fallback" since 4 . 14,
    BalloonInflate = "balloon_inflate": Total Pages,
    BalloonDeflate = "balloon_deflate": Total Pages,
    BalloonMigrate = "balloon_migrate": Total Pages,
    SwapRa = "swap_ra": Total Pages since 4 . 14,
    SwapRaHit = "swap_ra_hit": Total Pages since 4 . 14,
    SwpinZero = "swpin_zero": Total Pages since 6 . 12,
    SwpoutZero = "swpout_zero": Total Pages since 6 . 12,
    KsmSwpinCopy = "ksm_swpin_copy": Total Pages since 5 . 18,
    CowKsm = "cow_ksm": Total Pages since 5 . 18,
    Zswpin = "zswpin": Total Pages since 5 . 19,
    Zswpout = "zswpout": Total Pages since 5 . 19,
    DirectMapLevel2Splits = "direct_map_level2_splits" since 5 . 13,
    DirectMapLevel3Splits = "direct_map_level3_splits" since 5 . 13,
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

/// All counters in print order, each with the first kernel that has it (none: all that are modelled do).
pub fn names() -> impl Iterator<Item = (&'static str, Option<KernelVersion>)> {
    let zone = ZoneStat::ALL.iter().map(|item| (item.name(), item.since()));
    let numa = NumaStat::ALL.iter().map(|item| (item.name(), item.since()));
    let node = NodeStat::ALL.iter().map(|item| (item.name(), item.since()));
    let events = VmEvent::ALL.iter().map(|item| (item.name(), item.since()));
    zone.chain(numa).chain(node).chain(events)
}

/// The meaning of the counter of this name; `None` if no kernel has it.
pub fn meaning(name: &str) -> Option<Meaning> {
    let zone = ZoneStat::ALL.iter().map(|item| (item.name(), item.meaning()));
    let numa = NumaStat::ALL.iter().map(|item| (item.name(), item.meaning()));
    let node = NodeStat::ALL.iter().map(|item| (item.name(), item.meaning()));
    let events = VmEvent::ALL.iter().map(|item| (item.name(), item.meaning()));
    let mut all = zone.chain(numa).chain(node).chain(events);
    all.find(|(known, _)| *known == name).map(|(_, meaning)| meaning)
}

/// The first kernel that has a counter of this name; none if all that are modelled do, or none does.
pub fn since(name: &str) -> Option<KernelVersion> {
    names().find(|(known, _)| *known == name)?.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::ZoneType;

    #[test]
    fn counters_know_since_when_they_are_counted() {
        let version = KernelVersion::new;
        assert_eq!(since("workingset_refault_anon"), Some(version(5, 9)));
        assert_eq!(since("pgscan_anon"), Some(version(5, 8)));
        assert_eq!(since("workingset_refault_file"), None, "as workingset_refault before 5.9");
        assert_eq!((since("pgfault"), since("no_such_counter")), (None, None));
    }

    #[test]
    fn counters_know_what_they_count() {
        use super::super::Unit::{Events, Kibibytes, Pages};
        assert_eq!(meaning("nr_free_pages"), Some(Meaning::Level(Pages)));
        assert_eq!(meaning("nr_dirtied"), Some(Meaning::Total(Pages)), "not what its name says");
        assert_eq!(meaning("nr_kernel_stack"), Some(Meaning::Level(Kibibytes)));
        assert_eq!(meaning("pgpgin"), Some(Meaning::Total(Kibibytes)));
        assert_eq!(meaning("pgfault"), Some(Meaning::Total(Events)));
        assert_eq!(meaning("pressure"), None);
    }

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
