//! Compaction's tracepoints (rules/compaction#trace-events).

macro_rules! compaction {
    ([$next:ident $($later:ident)*] $($before:tt)*) => { $next! { [$($later)*] $($before)* compaction {
        /// Pages of a pageblock were isolated.
        CompactionIsolateMigratepages = "mm_compaction_isolate_migratepages" {
            /// Where it began.
            start_pfn: Pfn,
            /// Where it ended.
            end_pfn: Pfn,
            /// Frames looked at.
            nr_scanned: u32,
            /// Pages taken.
            nr_taken: u32,
        } => "start_pfn={start_pfn} end_pfn={end_pfn} nr_scanned={nr_scanned} nr_taken={nr_taken}";

        /// Free blocks of a pageblock were taken.
        CompactionIsolateFreepages = "mm_compaction_isolate_freepages" {
            /// Where it began.
            start_pfn: Pfn,
            /// Where it ended.
            end_pfn: Pfn,
            /// Frames looked at.
            nr_scanned: u32,
            /// Frames taken.
            nr_taken: u32,
        } => "start_pfn={start_pfn} end_pfn={end_pfn} nr_scanned={nr_scanned} nr_taken={nr_taken}";

        /// Isolated pages were moved.
        CompactionMigratepages = "mm_compaction_migratepages" {
            /// Pages moved.
            nr_migrated: u32,
            /// Pages that were not.
            nr_failed: u32,
        } => "nr_migrated={nr_migrated} nr_failed={nr_failed}";

        /// A run over a zone begins.
        CompactionBegin = "mm_compaction_begin" {
            /// First frame of the zone.
            zone_start: Pfn,
            /// Where the scanner of sources begins.
            migrate_pfn: Pfn,
            /// Where the scanner of targets begins.
            free_pfn: Pfn,
            /// Frame after the zone's last.
            zone_end: Pfn,
            /// It waits for something.
            sync: bool,
        } => "zone_start={zone_start} migrate_pfn={migrate_pfn} free_pfn={free_pfn} \
              zone_end={zone_end} sync={sync}";

        /// It ends.
        CompactionEnd = "mm_compaction_end" {
            /// First frame of the zone.
            zone_start: Pfn,
            /// Where the scanner of sources ended.
            migrate_pfn: Pfn,
            /// Where the scanner of targets ended.
            free_pfn: Pfn,
            /// Frame after the zone's last.
            zone_end: Pfn,
            /// It waited for something.
            sync: bool,
            /// How.
            status: CompactResult,
        } => "zone_start={zone_start} migrate_pfn={migrate_pfn} free_pfn={free_pfn} \
              zone_end={zone_end} sync={sync} status={status}";

        /// A request compacts.
        CompactionTryToCompactPages = "mm_compaction_try_to_compact_pages" {
            /// Order.
            order: Order,
            /// Of the request.
            gfp: Gfp,
            /// How hard it tries; less is harder.
            priority: CompactPriority,
        } => "order={order} gfp_mask={gfp} priority={priority}";

        /// A request is refused after failures.
        CompactionDeferred = "mm_compaction_deferred" {
            /// Node.
            nid: NodeId,
            /// Zone.
            zone: ZoneType,
            /// Order.
            order: Order,
            /// The smallest order that failed.
            order_failed: Order,
            /// Requests since.
            considered: u32,
            /// From so many on they pass.
            limit: u32,
        } => "node={nid} zone={zone} order={order} order_failed={order_failed} \
              consider={considered} limit={limit}";

        /// A run failed: more requests are refused.
        CompactionDeferCompaction = "mm_compaction_defer_compaction" {
            /// Node.
            nid: NodeId,
            /// Zone.
            zone: ZoneType,
            /// Order.
            order: Order,
            /// The smallest order that failed.
            order_failed: Order,
            /// Requests since.
            considered: u32,
            /// From so many on they pass.
            limit: u32,
        } => "node={nid} zone={zone} order={order} order_failed={order_failed} \
              consider={considered} limit={limit}";

        /// A block was made: fewer orders are refused.
        CompactionDeferReset = "mm_compaction_defer_reset" {
            /// Node.
            nid: NodeId,
            /// Zone.
            zone: ZoneType,
            /// Order.
            order: Order,
            /// The smallest order that failed.
            order_failed: Order,
            /// Requests since.
            considered: u32,
            /// From so many on they pass.
            limit: u32,
        } => "node={nid} zone={zone} order={order} order_failed={order_failed} \
              consider={considered} limit={limit}";

        /// kcompactd goes to sleep.
        CompactionKcompactdSleep = "mm_compaction_kcompactd_sleep" {
            /// Node.
            nid: NodeId,
        } => "nid={nid}";

        /// Somebody wakes kcompactd.
        CompactionWakeupKcompactd = "mm_compaction_wakeup_kcompactd" {
            /// Node.
            nid: NodeId,
            /// Order asked for.
            order: Order,
            /// Highest zone.
            highest: ZoneType,
        } => "nid={nid} order={order} classzone_idx={highest}";

        /// kcompactd begins to work.
        CompactionKcompactdWake = "mm_compaction_kcompactd_wake" {
            /// Node.
            nid: NodeId,
            /// Order asked for.
            order: Order,
            /// Highest zone.
            highest: ZoneType,
        } => "nid={nid} order={order} classzone_idx={highest}";
    } } };
}
pub(super) use compaction;
