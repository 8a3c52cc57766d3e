//! The vmscan events and their kernel text (spec 02 §20).

use core::fmt;

use crate::page::Pfn;
use crate::units::{Gfp, LruKind, PageType, ThrottleReason};
use crate::zone::{NodeId, ZoneType};

/// A vmscan tracepoint. Counts are kept small (a batch has at most 32 folios) so that events stay
/// cheap to build; larger values saturate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VmscanEvent {
    /// kswapd goes to sleep.
    KswapdSleep {
        /// Node.
        nid: NodeId,
    },
    /// kswapd begins to balance.
    KswapdWake {
        /// Node.
        nid: NodeId,
        /// Highest zone.
        zid: ZoneType,
        /// Order.
        order: u8,
    },
    /// An allocation wakes kswapd.
    WakeupKswapd {
        /// Node.
        nid: NodeId,
        /// Highest zone.
        zid: ZoneType,
        /// Order.
        order: u8,
        /// Of the request.
        gfp: Gfp,
    },
    /// Direct reclaim begins.
    DirectReclaimBegin {
        /// Order.
        order: u8,
        /// Of the request.
        gfp: Gfp,
    },
    /// Direct reclaim ends.
    DirectReclaimEnd {
        /// Pages reclaimed.
        nr_reclaimed: u64,
    },
    /// Reclaim of one node begins (`zone_reclaim_mode`).
    NodeReclaimBegin {
        /// Node.
        nid: NodeId,
        /// Order.
        order: u8,
        /// Of the request.
        gfp: Gfp,
    },
    /// It ends.
    NodeReclaimEnd {
        /// Pages reclaimed.
        nr_reclaimed: u64,
    },
    /// Pages were taken off a list.
    LruIsolate {
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
    },
    /// A batch of an inactive list was dealt with.
    LruShrinkInactive(ShrinkInactive),
    /// A batch of an active list was dealt with.
    LruShrinkActive {
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
    },
    /// Reclaim writes a page.
    WriteFolio {
        /// The page.
        pfn: Pfn,
        /// Which lists.
        page_type: PageType,
    },
    /// A reclaimer slept.
    Throttled {
        /// Node.
        nid: NodeId,
        /// How long at most.
        usec_timeout: u32,
        /// How long it was.
        usec_delayed: u32,
        /// Why.
        reason: ThrottleReason,
    },
    /// A reclaimer slept for congestion to clear (up to 5.15).
    CongestionWait {
        /// How long at most.
        usec_timeout: u32,
        /// How long it was; may be more.
        usec_delayed: u32,
    },
    /// A reclaimer would have slept had something been congested (up to 5.15).
    WaitIffCongested {
        /// How long at most.
        usec_timeout: u32,
        /// How long it was; may be more.
        usec_delayed: u32,
    },
    /// A shrinker is about to run.
    ShrinkSlabStart {
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
    },
    /// A shrinker ran.
    ShrinkSlabEnd {
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
    },
}

/// Fields of `mm_vmscan_lru_shrink_inactive`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the tracepoint's own field names")]
pub struct ShrinkInactive {
    pub nid: u8,
    pub priority: u8,
    pub is_file: bool,
    pub nr_scanned: u32,
    pub nr_reclaimed: u16,
    pub nr_dirty: u16,
    pub nr_writeback: u16,
    pub nr_congested: u16,
    pub nr_immediate: u16,
    pub nr_activate: [u16; 2],
    pub nr_ref_keep: u16,
    pub nr_unmap_fail: u16,
}

/// A count for a narrow field.
pub(crate) fn narrow<N: TryFrom<u64>>(count: u64, max: N) -> N {
    N::try_from(count).unwrap_or(max)
}

const fn flags(page_type: PageType) -> &'static str {
    match page_type {
        PageType::Anon => "RECLAIM_WB_ANON|RECLAIM_WB_ASYNC",
        PageType::File => "RECLAIM_WB_FILE|RECLAIM_WB_ASYNC",
    }
}

const fn list_name(lru: LruKind) -> &'static str {
    match lru {
        LruKind::InactiveAnon => "inactive_anon",
        LruKind::ActiveAnon => "active_anon",
        LruKind::InactiveFile => "inactive_file",
        LruKind::ActiveFile => "active_file",
        LruKind::Unevictable => "unevictable",
    }
}

impl VmscanEvent {
    /// The tracepoint's name.
    pub const fn name(&self) -> &'static str {
        match self {
            VmscanEvent::KswapdSleep { .. } => "mm_vmscan_kswapd_sleep",
            VmscanEvent::KswapdWake { .. } => "mm_vmscan_kswapd_wake",
            VmscanEvent::WakeupKswapd { .. } => "mm_vmscan_wakeup_kswapd",
            VmscanEvent::DirectReclaimBegin { .. } => "mm_vmscan_direct_reclaim_begin",
            VmscanEvent::DirectReclaimEnd { .. } => "mm_vmscan_direct_reclaim_end",
            VmscanEvent::NodeReclaimBegin { .. } => "mm_vmscan_node_reclaim_begin",
            VmscanEvent::NodeReclaimEnd { .. } => "mm_vmscan_node_reclaim_end",
            VmscanEvent::LruIsolate { .. } => "mm_vmscan_lru_isolate",
            VmscanEvent::LruShrinkInactive(_) => "mm_vmscan_lru_shrink_inactive",
            VmscanEvent::LruShrinkActive { .. } => "mm_vmscan_lru_shrink_active",
            VmscanEvent::WriteFolio { .. } => "mm_vmscan_write_folio",
            VmscanEvent::Throttled { .. } => "mm_vmscan_throttled",
            VmscanEvent::CongestionWait { .. } => "writeback_congestion_wait",
            VmscanEvent::WaitIffCongested { .. } => "writeback_wait_iff_congested",
            VmscanEvent::ShrinkSlabStart { .. } => "mm_shrink_slab_start",
            VmscanEvent::ShrinkSlabEnd { .. } => "mm_shrink_slab_end",
        }
    }

    /// The event as three words, for digests. The low byte of the first tells the kind, apart from
    /// every kmem event's.
    pub(super) fn words(&self) -> [u64; 3] {
        let (tag, fields): (u64, [u64; 7]) = match *self {
            VmscanEvent::KswapdSleep { nid } => (16, [nid.0.into(), 0, 0, 0, 0, 0, 0]),
            VmscanEvent::KswapdWake { nid, zid, order } => {
                (17, [nid.0.into(), zid as u64, order.into(), 0, 0, 0, 0])
            }
            VmscanEvent::WakeupKswapd { nid, zid, order, gfp } => {
                (18, [nid.0.into(), zid as u64, order.into(), gfp.bits().into(), 0, 0, 0])
            }
            VmscanEvent::DirectReclaimBegin { order, gfp } => {
                (19, [order.into(), gfp.bits().into(), 0, 0, 0, 0, 0])
            }
            VmscanEvent::DirectReclaimEnd { nr_reclaimed } => {
                (20, [nr_reclaimed, 0, 0, 0, 0, 0, 0])
            }
            VmscanEvent::NodeReclaimBegin { nid, order, gfp } => {
                (21, [nid.0.into(), order.into(), gfp.bits().into(), 0, 0, 0, 0])
            }
            VmscanEvent::NodeReclaimEnd { nr_reclaimed } => (22, [nr_reclaimed, 0, 0, 0, 0, 0, 0]),
            VmscanEvent::LruIsolate {
                isolate_mode,
                classzone,
                order,
                nr_requested,
                nr_scanned,
                nr_skipped,
                nr_taken,
                lru,
            } => {
                let mode = u64::from(isolate_mode) | (lru as u64) << 8;
                let want = u64::from(nr_requested) | u64::from(order) << 16;
                let taken = u64::from(nr_taken) | (classzone as u64) << 16;
                (23, [mode, want, nr_scanned.into(), nr_skipped.into(), taken, 0, 0])
            }
            VmscanEvent::LruShrinkInactive(s) => {
                let pair = |a: u16, b: u16| u64::from(a) | u64::from(b) << 16;
                let head = pair(s.nid.into(), s.priority.into()) << 1 | u64::from(s.is_file);
                let activate = pair(s.nr_activate[0], s.nr_activate[1]);
                let kept = pair(s.nr_ref_keep, s.nr_unmap_fail);
                let dirty = pair(s.nr_dirty, s.nr_writeback);
                let busy = pair(s.nr_congested, s.nr_immediate);
                let rest =
                    [s.nr_scanned.into(), s.nr_reclaimed.into(), dirty, busy, activate, kept];
                (24, [head, rest[0], rest[1], rest[2], rest[3], rest[4], rest[5]])
            }
            VmscanEvent::LruShrinkActive {
                nid,
                nr_taken,
                nr_active,
                nr_deactivated,
                nr_referenced,
                priority,
                page_type,
            } => {
                let head = u64::from(nid.0) | u64::from(priority) << 16 | (page_type as u64) << 24;
                let counts = [nr_taken, nr_active, nr_deactivated, nr_referenced].map(u64::from);
                (25, [head, counts[0], counts[1], counts[2], counts[3], 0, 0])
            }
            VmscanEvent::WriteFolio { pfn, page_type } => {
                (26, [pfn.get(), page_type as u64, 0, 0, 0, 0, 0])
            }
            VmscanEvent::Throttled { nid, usec_timeout, usec_delayed, reason } => {
                let head = u64::from(nid.0) | (reason as u64) << 16;
                (27, [head, usec_timeout.into(), usec_delayed.into(), 0, 0, 0, 0])
            }
            VmscanEvent::CongestionWait { usec_timeout, usec_delayed } => {
                (30, [usec_timeout.into(), usec_delayed.into(), 0, 0, 0, 0, 0])
            }
            VmscanEvent::WaitIffCongested { usec_timeout, usec_delayed } => {
                (31, [usec_timeout.into(), usec_delayed.into(), 0, 0, 0, 0, 0])
            }
            VmscanEvent::ShrinkSlabStart {
                nid,
                deferred,
                gfp,
                cache_items,
                delta,
                total_scan,
                priority,
            } => {
                let head = u64::from(nid.0) | u64::from(priority) << 16;
                let counts = [deferred, cache_items, delta, total_scan].map(u64::from);
                let gfp = gfp.bits().into();
                (28, [head, gfp, counts[0], counts[1], counts[2], counts[3], 0])
            }
            VmscanEvent::ShrinkSlabEnd {
                nid,
                deferred_before,
                deferred_after,
                total_scan,
                freed,
            } => {
                let counts = [deferred_before, deferred_after, total_scan, freed].map(u64::from);
                (29, [nid.0.into(), counts[0], counts[1], counts[2], counts[3], 0, 0])
            }
        };
        let [a, b, c, d, e, f, g] = fields;
        [tag | a << 8, b ^ c << 32, d ^ e << 32 ^ f.rotate_left(16) ^ g.rotate_left(48)]
    }
}

impl fmt::Display for VmscanEvent {
    /// The kernel's text after the tracepoint name (without addresses).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            VmscanEvent::KswapdSleep { nid } => write!(f, "nid={}", nid.0),
            VmscanEvent::KswapdWake { nid, zid, order } => {
                write!(f, "nid={} zid={} order={order}", nid.0, zid as u8)
            }
            VmscanEvent::WakeupKswapd { nid, zid, order, gfp } => {
                write!(f, "nid={} zid={} order={order} gfp_flags={gfp}", nid.0, zid as u8)
            }
            VmscanEvent::DirectReclaimBegin { order, gfp } => {
                write!(f, "order={order} gfp_flags={gfp}")
            }
            VmscanEvent::DirectReclaimEnd { nr_reclaimed }
            | VmscanEvent::NodeReclaimEnd { nr_reclaimed } => {
                write!(f, "nr_reclaimed={nr_reclaimed}")
            }
            VmscanEvent::NodeReclaimBegin { nid, order, gfp } => {
                write!(f, "nid={} order={order} gfp_flags={gfp}", nid.0)
            }
            VmscanEvent::LruIsolate {
                isolate_mode,
                classzone,
                order,
                nr_requested,
                nr_scanned,
                nr_skipped,
                nr_taken,
                lru,
            } => write!(
                f,
                "isolate_mode={isolate_mode} classzone={} order={order} \
                 nr_requested={nr_requested} nr_scanned={nr_scanned} nr_skipped={nr_skipped} \
                 nr_taken={nr_taken} lru={}",
                classzone as u8,
                list_name(lru)
            ),
            VmscanEvent::LruShrinkInactive(s) => s.fmt(f),
            VmscanEvent::LruShrinkActive {
                nid,
                nr_taken,
                nr_active,
                nr_deactivated,
                nr_referenced,
                priority,
                page_type,
            } => write!(
                f,
                "nid={} nr_taken={nr_taken} nr_active={nr_active} \
                 nr_deactivated={nr_deactivated} nr_referenced={nr_referenced} \
                 priority={priority} flags={}",
                nid.0,
                flags(page_type)
            ),
            VmscanEvent::WriteFolio { pfn, page_type } => {
                write!(f, "pfn={:#x} flags={}", pfn.0, flags(page_type))
            }
            VmscanEvent::Throttled { nid, usec_timeout, usec_delayed, reason } => write!(
                f,
                "nid={} usec_timeout={usec_timeout} usect_delayed={usec_delayed} reason={}",
                nid.0,
                reason.name()
            ),
            VmscanEvent::CongestionWait { usec_timeout, usec_delayed }
            | VmscanEvent::WaitIffCongested { usec_timeout, usec_delayed } => {
                write!(f, "usec_timeout={usec_timeout} usec_delayed={usec_delayed}")
            }
            VmscanEvent::ShrinkSlabStart {
                nid,
                deferred,
                gfp,
                cache_items,
                delta,
                total_scan,
                priority,
            } => write!(
                f,
                "nid: {} objects to shrink {deferred} gfp_flags {gfp} cache items {cache_items} \
                 delta {delta} total_scan {total_scan} priority {priority}",
                nid.0
            ),
            VmscanEvent::ShrinkSlabEnd {
                nid,
                deferred_before,
                deferred_after,
                total_scan,
                freed,
            } => write!(
                f,
                "nid: {} unused scan count {deferred_before} new scan count {deferred_after} \
                 total_scan {total_scan} last shrinker return val {freed}",
                nid.0
            ),
        }
    }
}

impl fmt::Display for ShrinkInactive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let page_type = if self.is_file { PageType::File } else { PageType::Anon };
        write!(
            f,
            "nid={} nr_scanned={} nr_reclaimed={} nr_dirty={} nr_writeback={} nr_congested={} \
             nr_immediate={} nr_activate_anon={} nr_activate_file={} nr_ref_keep={} \
             nr_unmap_fail={} priority={} flags={}",
            self.nid,
            self.nr_scanned,
            self.nr_reclaimed,
            self.nr_dirty,
            self.nr_writeback,
            self.nr_congested,
            self.nr_immediate,
            self.nr_activate[0],
            self.nr_activate[1],
            self.nr_ref_keep,
            self.nr_unmap_fail,
            self.priority,
            flags(page_type)
        )
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::trace::Event;

    #[test]
    fn text_has_the_kernels_field_names() {
        let event = Event::Vmscan(VmscanEvent::Throttled {
            nid: NodeId(1),
            usec_timeout: 100_000,
            usec_delayed: 4000,
            reason: ThrottleReason::Writeback,
        });
        assert_eq!(
            event.to_string(),
            "mm_vmscan_throttled: nid=1 usec_timeout=100000 usect_delayed=4000 \
             reason=VMSCAN_THROTTLE_WRITEBACK"
        );
        let s = ShrinkInactive { nr_scanned: 32, nr_reclaimed: 31, ..ShrinkInactive::default() };
        assert_eq!(
            Event::Vmscan(VmscanEvent::LruShrinkInactive(s)).to_string(),
            "mm_vmscan_lru_shrink_inactive: nid=0 nr_scanned=32 nr_reclaimed=31 nr_dirty=0 \
             nr_writeback=0 nr_congested=0 nr_immediate=0 nr_activate_anon=0 nr_activate_file=0 \
             nr_ref_keep=0 nr_unmap_fail=0 priority=0 flags=RECLAIM_WB_ANON|RECLAIM_WB_ASYNC"
        );
    }

    #[test]
    fn events_stay_small_and_differ() {
        assert!(size_of::<Event>() <= 32);
        let a = VmscanEvent::KswapdSleep { nid: NodeId(0) };
        let b = VmscanEvent::KswapdSleep { nid: NodeId(1) };
        assert_ne!(a.words(), b.words());
        assert_eq!(narrow(70_000, u16::MAX), u16::MAX);
    }
}
