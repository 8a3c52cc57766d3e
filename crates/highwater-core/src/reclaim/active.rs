//! Active lists: taking pages down (spec 02 §10).
//!
//! [`Kernel::shrink_active`] moves a batch from the tail of an active list to the inactive one,
//! whether the pages were used or not: that is found out there. Only executable file pages that
//! were used stay.
//!
//! From: [`super::node_pass`] · to: `lru::isolate`, `vm::rmap`.

use super::Control;
use super::budget::{CLUSTER, inactive_is_low};
use super::folios::BATCH;
use crate::config::LruTopology;
use crate::host::{Cx, Devices, Phase, Probe};
use crate::kernel::Kernel;
use crate::lru::{LruKind, PageType};
use crate::page::{PageFlags, Pfn};
use crate::trace::{Event, VmscanEvent};
use crate::units::LruVecId;
use crate::vm::{AreaFlags, Referenced, Trail};
use crate::vmstat::VmEvent;
use crate::zone::NodeId;

impl<H: Devices> Kernel<H> {
    /// Takes a batch of `want` pages at most down from the active list of a type of
    /// `self.lru.vec(vec)`.
    pub(super) fn shrink_active(
        &self,
        cx: &Cx<'_, H>,
        (node, vec): (NodeId, LruVecId),
        sc: &Control,
        page_type: PageType,
        want: u64,
    ) {
        let _phase = cx.phase(Phase::ShrinkActive);
        self.lru_add_drain(cx);
        let mut pages = [Pfn(0); BATCH];
        let list = LruKind::new(page_type, true);
        let isolated = self.isolate_batch(cx, vec, sc, list, &mut pages[..want as usize]);
        self.count_isolated(cx, node, page_type, isolated.taken as i64);
        self.mem.events.add(cx.cpu(), VmEvent::Pgrefill, isolated.scanned);

        // Both in the order in which they were taken.
        let (mut active, mut inactive) = ([Pfn(0); BATCH], [Pfn(0); BATCH]);
        let (mut nr_active, mut nr_inactive) = (0, 0);
        let (mut referenced, mut nr_kept) = (0, 0);
        let mut trail = Trail::default();
        for &pfn in &pages[..isolated.taken] {
            let page = self.mem.map.page(pfn);
            if !page.is_evictable() {
                self.putback_page(cx, pfn);
                continue;
            }
            let (is_used, flags) = self.was_used(cx, pfn, &mut trail);
            referenced += u64::from(is_used);
            if is_used && flags.contains(AreaFlags::EXEC) && page.is_file_lru() {
                nr_kept += 1;
                active[nr_active] = pfn;
                nr_active += 1;
                continue;
            }
            page.flag_clear::<H>(PageFlags::ACTIVE);
            page.flag_set::<H>(PageFlags::WORKINGSET);
            inactive[nr_inactive] = pfn;
            nr_inactive += 1;
        }

        let mut rotated = [0; 2];
        rotated[page_type as usize] = referenced;
        let lists = [&active[..nr_active], &inactive[..nr_inactive]];
        let [_, deactivated] = self.move_pages_to_lru(cx, vec, lists, rotated);
        self.mem.events.add(cx.cpu(), VmEvent::Pgdeactivate, deactivated);
        self.count_isolated(cx, node, page_type, -(isolated.taken as i64));
        cx.event(Event::Vmscan(VmscanEvent::LruShrinkActive {
            nid: node,
            nr_taken: isolated.taken as u16,
            nr_active: nr_active as u16,
            nr_deactivated: deactivated as u16,
            nr_referenced: nr_kept,
            priority: sc.priority,
            page_type,
        }));
    }

    /// Was a page used since last looked at, and through which areas? Clears the traces of it. A
    /// file page that somebody holds locked counts as used.
    fn was_used(&self, cx: &Cx<'_, H>, pfn: Pfn, trail: &mut Trail<H>) -> (bool, AreaFlags) {
        let page = self.mem.map.page(pfn);
        if !page.is_mapped() {
            return (false, AreaFlags::empty());
        }
        let needs_lock = !page.is_anon();
        if needs_lock && !page.try_lock::<H>() {
            return (true, AreaFlags::empty());
        }
        let found = self.page_referenced(cx, pfn, trail);
        if needs_lock {
            self.unlock_page(cx, pfn);
        }
        match found {
            Referenced::By(users, flags) => (users != 0, flags),
            Referenced::Contended => (true, AreaFlags::empty()),
        }
    }

    /// True if there are too few inactive pages of a type for the active ones (§5).
    pub(super) fn inactive_list_is_low(&self, vec: LruVecId, page_type: PageType) -> bool {
        let lists = self.lru.vec(vec);
        let inactive = lists.size(LruKind::new(page_type, false));
        let active = lists.size(LruKind::new(page_type, true));
        match (self.mem.policy.reclaim.lru, page_type) {
            // Up to 4.7 file lists are kept equal.
            (LruTopology::Zone, PageType::File) => active > inactive,
            (LruTopology::Zone, PageType::Anon) | (LruTopology::Node, _) => {
                inactive_is_low(inactive, active)
            }
        }
    }

    /// Ages anonymous pages of a lruvec if their inactive list is low and there is swap at all: later
    /// swapping then finds pages that were looked at.
    pub(super) fn age_anon(&self, cx: &Cx<'_, H>, at: (NodeId, LruVecId), sc: &Control) {
        if self.swap.nr_total() != 0 && self.inactive_list_is_low(at.1, PageType::Anon) {
            self.shrink_active(cx, at, sc, PageType::Anon, CLUSTER);
        }
    }
}
