//! Inactive lists: the tail (spec 02 §10).
//!
//! [`Kernel::shrink_inactive`] takes a batch off the tail, has it judged ([`super::folios`]) and puts
//! back what stays.
//!
//! From: [`super::node_pass`] · to: `lru::isolate`, [`super::folios`].

use super::budget::CLUSTER;
use super::folios::{BATCH, BatchStats};
use super::{Control, PassSums, ThrottleReason};
use crate::host::{Cx, Devices, Phase, Probe};
use crate::kernel::Kernel;
use crate::lru::{IsolateMode, Isolated, LruKind, PageType};
use crate::page::Folio;
use crate::page_alloc::Gfp;
use crate::trace::{Event, narrow};
use crate::units::LruVecId;
use crate::vmstat::{NodeStat, VmEvent};
use crate::writeback::WriteReason;
use crate::zone::NodeId;

/// True if so many pages of a type are isolated on a node that reclaimers would find nothing left
/// (§10). Those that may do I/O and enter filesystems give way earlier, so that they do not hold up
/// the others.
const fn too_many(inactive: u64, isolated: u64, io_and_fs: bool) -> bool {
    let most = if io_and_fs { inactive >> 3 } else { inactive };
    isolated > most
}

const fn isolated_stat(page_type: PageType) -> NodeStat {
    match page_type {
        PageType::Anon => NodeStat::IsolatedAnon,
        PageType::File => NodeStat::IsolatedFile,
    }
}

impl<H: Devices> Kernel<H> {
    /// Shrinks the inactive list of a type of the lists `vec` by a batch of `want` pages at
    /// most; the pages freed.
    pub(super) fn shrink_inactive(
        &self,
        cx: &Cx<'_, H>,
        (node, vec): (NodeId, LruVecId),
        sc: &mut Control,
        page_type: PageType,
        want: u64,
    ) -> u64 {
        let _phase = cx.phase(Phase::ShrinkInactive);
        let mut has_waited = false;
        while self.too_many_isolated(cx, node, sc, page_type) {
            if !self.throttle_isolated(cx, node, has_waited) {
                return 0;
            }
            has_waited = true;
            if cx.is_dying() {
                // The task frees its own memory soon; let it go on.
                return CLUSTER;
            }
        }
        self.lru_add_drain(cx);
        let mut pages = [Folio::default(); BATCH];
        let list = LruKind::new(page_type, false);
        let isolated = self.isolate_batch(cx, vec, sc, list, &mut pages[..want as usize]);
        self.count_isolated(cx, node, page_type, isolated.taken as i64);
        let (scan, scan_type) = match (sc.is_kswapd, page_type) {
            (true, PageType::Anon) => (VmEvent::PgscanKswapd, VmEvent::PgscanAnon),
            (true, PageType::File) => (VmEvent::PgscanKswapd, VmEvent::PgscanFile),
            (false, PageType::Anon) => (VmEvent::PgscanDirect, VmEvent::PgscanAnon),
            (false, PageType::File) => (VmEvent::PgscanDirect, VmEvent::PgscanFile),
        };
        self.mem.events.add(cx.cpu(), scan, isolated.scanned);
        self.mem.events.add(cx.cpu(), scan_type, isolated.scanned);
        if isolated.taken == 0 {
            return 0;
        }

        let shrunk = self.shrink_pages(cx, (node, vec), sc, &mut pages[..isolated.taken], false);

        let stats = shrunk.stats;
        self.move_pages_to_lru(cx, vec, [&pages[..shrunk.kept], &[]], stats.activate);
        self.count_isolated(cx, node, page_type, -(isolated.taken as i64));
        let (steal, steal_type) = match (sc.is_kswapd, page_type) {
            (true, PageType::Anon) => (VmEvent::PgstealKswapd, VmEvent::PgstealAnon),
            (true, PageType::File) => (VmEvent::PgstealKswapd, VmEvent::PgstealFile),
            (false, PageType::Anon) => (VmEvent::PgstealDirect, VmEvent::PgstealAnon),
            (false, PageType::File) => (VmEvent::PgstealDirect, VmEvent::PgstealFile),
        };
        self.mem.events.add(cx.cpu(), steal, shrunk.reclaimed);
        self.mem.events.add(cx.cpu(), steal_type, shrunk.reclaimed);
        self.lru_note_cost(cx, vec, page_type, stats.pageout);
        if stats.unqueued_dirty == isolated.taken as u64 {
            // Nothing but dirty pages that nobody writes: the flushers are behind.
            self.wake_flushers(cx, WriteReason::Vmscan);
        }
        let sums = sums_of(&stats, page_type, isolated.taken as u64);
        sc.sums.add(&sums);
        let (scanned, reclaimed) = (isolated.scanned, shrunk.reclaimed);
        cx.event(shrink_event(node, sc.priority, page_type, scanned, reclaimed, &stats));
        self.throttle_after_batch(cx, vec, sc, &sums);
        shrunk.reclaimed
    }

    /// Takes pages off the tail of a list, with its trace event.
    pub(super) fn isolate_batch(
        &self,
        cx: &Cx<'_, H>,
        vec: LruVecId,
        sc: &Control,
        list: LruKind,
        out: &mut [Folio],
    ) -> Isolated {
        let mode = IsolateMode { highest: sc.reclaim_idx, may_unmap: sc.may_unmap };
        let isolated = self.isolate_lru_pages(cx, vec, list, mode, out);
        cx.event(Event::LruIsolate {
            isolate_mode: u8::from(!sc.may_unmap),
            classzone: sc.reclaim_idx,
            order: sc.order,
            nr_requested: out.len() as u16,
            nr_scanned: narrow(isolated.scanned, u32::MAX),
            nr_skipped: narrow(isolated.skipped, u32::MAX),
            nr_taken: isolated.taken as u16,
            lru: list,
        });
        isolated
    }

    /// Counts pages that are off their list for a while.
    pub(super) fn count_isolated(
        &self,
        cx: &Cx<'_, H>,
        node: NodeId,
        page_type: PageType,
        delta: i64,
    ) {
        if delta != 0 {
            let stats = &self.mem.node(node).stats;
            stats.add(cx.cpu(), isolated_stat(page_type) as usize, delta);
        }
    }

    /// True if a reclaimer should wait until others have put back what they isolated; if not, those
    /// who wait for that go on.
    fn too_many_isolated(
        &self,
        cx: &Cx<'_, H>,
        node: NodeId,
        sc: &Control,
        page_type: PageType,
    ) -> bool {
        if sc.is_kswapd {
            return false;
        }
        let stats = &self.mem.node(node).stats;
        let inactive = stats.read(LruKind::new(page_type, false).node_stat() as usize);
        let isolated = stats.read(isolated_stat(page_type) as usize);
        let is_too_many = too_many(inactive, isolated, sc.gfp.contains(Gfp::IO | Gfp::FS));
        if !is_too_many {
            self.wake_throttled(cx, node, ThrottleReason::Isolated);
        }
        is_too_many
    }
}

fn sums_of(stats: &BatchStats, page_type: PageType, taken: u64) -> PassSums {
    PassSums {
        dirty: stats.dirty,
        unqueued_dirty: stats.unqueued_dirty,
        congested: stats.congested,
        writeback: stats.writeback,
        immediate: stats.immediate,
        file_taken: if page_type == PageType::File { taken } else { 0 },
        taken,
    }
}

fn shrink_event(
    node: NodeId,
    priority: u8,
    page_type: PageType,
    scanned: u64,
    reclaimed: u64,
    stats: &BatchStats,
) -> Event {
    let count = |count: u64| narrow(count, u16::MAX);
    let [nr_activate_anon, nr_activate_file] = stats.activate.map(count);
    Event::LruShrinkInactive {
        nid: node,
        nr_scanned: narrow(scanned, u32::MAX),
        nr_reclaimed: count(reclaimed),
        nr_dirty: count(stats.dirty),
        nr_writeback: count(stats.writeback),
        nr_congested: count(stats.congested),
        nr_immediate: count(stats.immediate),
        nr_activate_anon,
        nr_activate_file,
        nr_ref_keep: count(stats.ref_keep),
        nr_unmap_fail: count(stats.unmap_fail),
        priority,
        page_type,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isolated_23_8() {
        assert!(!too_many(1000, 125, true));
        assert!(too_many(1000, 126, true));
        assert!(!too_many(1000, 1000, false));
        assert!(too_many(1000, 1001, false));
    }
}
