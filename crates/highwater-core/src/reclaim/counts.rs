//! Counts of pages that reclaim scanned and freed: of the machine, and of the memory cgroup whose
//! lists they were on.
//!
//! Reclaim for a group's limit is not the machine's shortage: up to 6.12 `pgscan_direct`,
//! `pgsteal_direct` and `pgrefill` of `/proc/vmstat` leave it out (rules/memory-cgroups#reclaim).
//! The group's own `memory.stat` counts it in all kernels.
//!
//! From: [`super::batch`] · to: `vmstat`.

use super::Control;
use crate::config::ScanEvents;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::lru::PageType;
use crate::units::LruVecId;
use crate::vmstat::{GroupStat, VmEvent};

/// Whose work scans and freed pages count as.
enum Reclaimer {
    Kswapd,
    Direct,
    Proactive,
}

impl<H: Devices> Kernel<H> {
    /// Tells whose counters a reclaim has. From 7.2 on, reclaim that a program asks for by
    /// `memory.reclaim` has its own; before, it counts as direct reclaim.
    #[doc(alias = "reclaimer_offset")]
    fn reclaimer(&self, sc: &Control) -> Reclaimer {
        match (sc.is_kswapd, sc.is_proactive) {
            (true, _) => Reclaimer::Kswapd,
            (_, true) if self.mem.policy.memcg.scan_events == ScanEvents::Node => {
                Reclaimer::Proactive
            }
            _ => Reclaimer::Direct,
        }
    }

    /// Pages of a type were looked at on inactive lists.
    pub(super) fn count_scanned(
        &self,
        cx: &Cx<'_, H>,
        vec: LruVecId,
        sc: &Control,
        page_type: PageType,
        pages: u64,
    ) {
        let by_reclaimer = match self.reclaimer(sc) {
            Reclaimer::Kswapd => (VmEvent::PgscanKswapd, GroupStat::PgscanKswapd),
            Reclaimer::Direct => (VmEvent::PgscanDirect, GroupStat::PgscanDirect),
            Reclaimer::Proactive => (VmEvent::PgscanProactive, GroupStat::PgscanProactive),
        };
        let by_type = of_type(page_type, VmEvent::PgscanAnon, VmEvent::PgscanFile);
        self.count_for(cx, vec, sc, by_reclaimer, pages);
        self.mem.events.add(cx.cpu(), by_type, pages);
    }

    /// Pages of a type were freed.
    pub(super) fn count_stolen(
        &self,
        cx: &Cx<'_, H>,
        vec: LruVecId,
        sc: &Control,
        page_type: PageType,
        pages: u64,
    ) {
        let by_reclaimer = match self.reclaimer(sc) {
            Reclaimer::Kswapd => (VmEvent::PgstealKswapd, GroupStat::PgstealKswapd),
            Reclaimer::Direct => (VmEvent::PgstealDirect, GroupStat::PgstealDirect),
            Reclaimer::Proactive => (VmEvent::PgstealProactive, GroupStat::PgstealProactive),
        };
        let by_type = of_type(page_type, VmEvent::PgstealAnon, VmEvent::PgstealFile);
        self.count_for(cx, vec, sc, by_reclaimer, pages);
        self.mem.events.add(cx.cpu(), by_type, pages);
    }

    /// Pages of an active list were looked at.
    pub(super) fn count_refill(&self, cx: &Cx<'_, H>, vec: LruVecId, sc: &Control, pages: u64) {
        self.count_for(cx, vec, sc, (VmEvent::Pgrefill, GroupStat::Pgrefill), pages);
    }

    /// Pages went from an active list to an inactive one.
    pub(super) fn count_deactivated(&self, cx: &Cx<'_, H>, vec: LruVecId, pages: u64) {
        self.mem.events.add(cx.cpu(), VmEvent::Pgdeactivate, pages);
        self.count_of_lists(cx, vec, GroupStat::Pgdeactivate, pages);
    }

    /// Pages will go back to an active list.
    pub(super) fn count_activated(&self, cx: &Cx<'_, H>, vec: LruVecId, pages: u64) {
        self.mem.events.add(cx.cpu(), VmEvent::Pgactivate, pages);
        self.count_of_lists(cx, vec, GroupStat::Pgactivate, pages);
    }

    #[inline]
    fn count_for(
        &self,
        cx: &Cx<'_, H>,
        vec: LruVecId,
        sc: &Control,
        (event, of_group): (VmEvent, GroupStat),
        pages: u64,
    ) {
        if !sc.is_of_group() || self.mem.policy.memcg.scan_events == ScanEvents::Node {
            self.mem.events.add(cx.cpu(), event, pages);
        }
        self.count_of_lists(cx, vec, of_group, pages);
    }

    #[inline]
    fn count_of_lists(&self, cx: &Cx<'_, H>, vec: LruVecId, item: GroupStat, pages: u64) {
        if self.mem.groups.is_on() {
            let at = (self.lru.group_of(vec), self.lru.node_of(vec));
            self.mem.groups.count(cx.cpu(), at, item, pages as i64);
        }
    }
}

/// The event for pages of a type.
fn of_type(page_type: PageType, anon: VmEvent, file: VmEvent) -> VmEvent {
    match page_type {
        PageType::Anon => anon,
        PageType::File => file,
    }
}
