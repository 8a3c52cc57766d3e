//! Reclaim's tracepoints (rules/reclaim-events#trace-format).
//!
//! Counts are narrow (a batch has at most 32 folios), so that events stay cheap to build; larger
//! values saturate.

macro_rules! vmscan {
    ([$next:ident $($later:ident)*] $($before:tt)*) => { $next! { [$($later)*] $($before)* vmscan {
        /// kswapd goes to sleep.
        KswapdSleep = "mm_vmscan_kswapd_sleep" {
            /// Node.
            nid: NodeId,
        } digest 16 [nid] => "nid={nid}";

        /// kswapd begins to balance.
        KswapdWake = "mm_vmscan_kswapd_wake" {
            /// Node.
            nid: NodeId,
            /// Highest zone.
            zid: ZoneType,
            /// Order.
            order: u8,
        } digest 17 [nid, zid, order] => "nid={nid} zid={zid} order={order}";

        /// An allocation wakes kswapd.
        WakeupKswapd = "mm_vmscan_wakeup_kswapd" {
            /// Node.
            nid: NodeId,
            /// Highest zone.
            zid: ZoneType,
            /// Order.
            order: u8,
            /// Of the request.
            gfp: Gfp,
        } digest 18 [nid, zid, order, gfp] => "nid={nid} zid={zid} order={order} gfp_flags={gfp}";

        /// Direct reclaim begins.
        DirectReclaimBegin = "mm_vmscan_direct_reclaim_begin" {
            /// Order.
            order: u8,
            /// Of the request.
            gfp: Gfp,
        } digest 19 [order, gfp] => "order={order} gfp_flags={gfp}";

        /// Direct reclaim ends.
        DirectReclaimEnd = "mm_vmscan_direct_reclaim_end" {
            /// Pages reclaimed.
            nr_reclaimed: u64,
        } digest 20 [nr_reclaimed] => "nr_reclaimed={nr_reclaimed}";

        /// Reclaim of one node begins (`zone_reclaim_mode`).
        NodeReclaimBegin = "mm_vmscan_node_reclaim_begin" {
            /// Node.
            nid: NodeId,
            /// Order.
            order: u8,
            /// Of the request.
            gfp: Gfp,
        } digest 21 [nid, order, gfp] => "nid={nid} order={order} gfp_flags={gfp}";

        /// It ends.
        NodeReclaimEnd = "mm_vmscan_node_reclaim_end" {
            /// Pages reclaimed.
            nr_reclaimed: u64,
        } digest 22 [nr_reclaimed] => "nr_reclaimed={nr_reclaimed}";

        /// Pages were taken off a list.
        LruIsolate = "mm_vmscan_lru_isolate" {
            /// 1 = mapped pages stay.
            isolate_mode: u8,
            /// Highest zone.
            classzone: ZoneType,
            /// Order.
            order: u8,
            /// Pages wanted.
            nr_requested: u16,
            /// Pages looked at, those of higher zones included.
            nr_scanned: u32,
            /// Pages of higher zones.
            nr_skipped: u32,
            /// Pages taken.
            nr_taken: u16,
            /// The list.
            lru: LruKind,
        } digest 23 [
            isolate_mode | lru << 8,
            nr_requested | order << 16,
            nr_scanned,
            nr_skipped,
            nr_taken | classzone << 16,
        ] => "isolate_mode={isolate_mode} classzone={classzone} order={order} \
              nr_requested={nr_requested} nr_scanned={nr_scanned} nr_skipped={nr_skipped} \
              nr_taken={nr_taken} lru={lru}";

        /// A batch of an inactive list was dealt with.
        LruShrinkInactive = "mm_vmscan_lru_shrink_inactive" {
            /// Node.
            nid: NodeId,
            /// Pages looked at.
            nr_scanned: u32,
            /// Pages freed.
            nr_reclaimed: u16,
            /// Pages that were dirty or under writeback.
            nr_dirty: u16,
            /// Pages under writeback that were marked for reclaim now.
            nr_writeback: u16,
            /// Pages under writeback that were marked already, or of a congested device.
            nr_congested: u16,
            /// Pages under writeback that kswapd met again.
            nr_immediate: u16,
            /// Anonymous pages that were activated.
            nr_activate_anon: u16,
            /// File pages that were activated.
            nr_activate_file: u16,
            /// Pages kept because they were in use.
            nr_ref_keep: u16,
            /// Pages that could not be unmapped.
            nr_unmap_fail: u16,
            /// Of the pass.
            priority: u8,
            /// Which lists.
            page_type: PageType,
        } digest 24 [
            (nid | priority << 16) << 1 | page_type,
            nr_scanned,
            nr_reclaimed,
            nr_dirty | nr_writeback << 16,
            nr_congested | nr_immediate << 16,
            nr_activate_anon | nr_activate_file << 16,
            nr_ref_keep | nr_unmap_fail << 16,
        ] => "nid={nid} nr_scanned={nr_scanned} nr_reclaimed={nr_reclaimed} nr_dirty={nr_dirty} \
              nr_writeback={nr_writeback} nr_congested={nr_congested} \
              nr_immediate={nr_immediate} nr_activate_anon={nr_activate_anon} \
              nr_activate_file={nr_activate_file} nr_ref_keep={nr_ref_keep} \
              nr_unmap_fail={nr_unmap_fail} priority={priority} flags={page_type}";

        /// A batch of an active list was dealt with.
        LruShrinkActive = "mm_vmscan_lru_shrink_active" {
            /// Node.
            nid: NodeId,
            /// Pages taken.
            nr_taken: u16,
            /// Pages that went back.
            nr_active: u16,
            /// Pages deactivated.
            nr_deactivated: u16,
            /// Pages that were in use.
            nr_referenced: u16,
            /// Of the pass.
            priority: u8,
            /// Which lists.
            page_type: PageType,
        } digest 25 [
            nid | priority << 16 | page_type << 24,
            nr_taken,
            nr_active,
            nr_deactivated,
            nr_referenced,
        ] => "nid={nid} nr_taken={nr_taken} nr_active={nr_active} \
              nr_deactivated={nr_deactivated} nr_referenced={nr_referenced} \
              priority={priority} flags={page_type}";

        /// Reclaim writes a page.
        WriteFolio = "mm_vmscan_write_folio" {
            /// The page.
            pfn: Pfn,
            /// Which lists.
            page_type: PageType,
        } digest 26 [pfn, page_type] => "pfn={pfn} flags={page_type}";

        /// A reclaimer slept.
        // The text's `usect_delayed` is the kernel's.
        Throttled = "mm_vmscan_throttled" {
            /// Node.
            nid: NodeId,
            /// How long at most.
            usec_timeout: u32,
            /// How long it was.
            usec_delayed: u32,
            /// Why.
            reason: ThrottleReason,
        } digest 27 [nid | reason << 16, usec_timeout, usec_delayed]
          => "nid={nid} usec_timeout={usec_timeout} usect_delayed={usec_delayed} reason={reason}";

        /// A shrinker is about to run.
        ShrinkSlabStart = "mm_shrink_slab_start" {
            /// Node.
            nid: NodeId,
            /// Work put off before.
            deferred: u32,
            /// Of the request.
            gfp: Gfp,
            /// Objects it has.
            cache_items: u32,
            /// This pass's share.
            delta: u32,
            /// Objects to scan.
            total_scan: u32,
            /// Of the pass.
            priority: u8,
        } digest 28 [
            nid | priority << 16,
            gfp,
            deferred,
            cache_items,
            delta,
            total_scan,
        ] => "nid: {nid} objects to shrink {deferred} gfp_flags {gfp} cache items {cache_items} \
              delta {delta} total_scan {total_scan} priority {priority}";

        /// A shrinker ran.
        ShrinkSlabEnd = "mm_shrink_slab_end" {
            /// Node.
            nid: NodeId,
            /// Work put off before.
            deferred_before: u32,
            /// Work put off now.
            deferred_after: u32,
            /// Objects not scanned.
            total_scan: u32,
            /// Objects freed.
            freed: u32,
        } digest 29 [nid, deferred_before, deferred_after, total_scan, freed]
          => "nid: {nid} unused scan count {deferred_before} new scan count {deferred_after} \
              total_scan {total_scan} last shrinker return val {freed}";
    } } };
}
pub(super) use vmscan;
