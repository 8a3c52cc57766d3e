//! Batches: the building blocks of reclaim algorithms.
//!
//! An algorithm chooses the list and the number of pages, and decides what their uses mean; a batch
//! does the rest. There are two kinds. [`Kernel::reclaim_batch`] isolates pages from the tail of an
//! inactive list, has them judged ([`super::folios`]) and puts back the rest.
//! [`Kernel::refill_batch`] moves pages from an active list to the inactive one.
//!
//! Both work on at most 32 isolated pages with a reference each. So judging, which may write and
//! wait, needs no lock: `lru_lock` is held only for isolation and putback. Faults and reads need
//! that lock too, so holds must be short. The cost: pages in batches are on no list. With enough
//! reclaimers a list may look empty while they hold all its pages. So isolated pages are counted
//! (nr_isolated), and a task that would isolate too many waits first.
//!
//! ```text
//!           lru_lock              no lock                  lru_lock         lru_lock
//!  drain ─▶ isolate 32 ─▶ judge: flags, walk, write ─▶ put back the rest ─▶ cost note (5.8 on)
//!           off the list   each page locked in turn    to the heads, in order
//!  nr_isolated: +taken ───────────────────────────────▶ -taken
//! ```
//!
//! There are three holds for 32 pages (rules/lru#lock). Larger batches would take the lock less
//! often, and keep more pages off the lists for longer.
//!
//! When a batch returns, each of its pages is freed or back on a list, and all `/proc/vmstat`
//! counters are up to date. Between the two holds a page may be used, unmapped, truncated or
//! mlocked. But the batch holds its LRU flag, so no other task changes its list, and the reference
//! keeps its frame allocated.
//!
//! Pages are isolated in the order of their age and put back in that order. So a list stays sorted
//! by the time of the last check, which is reclaim's only measure of age.
//!
//! From: [`super::algorithm`] · to: `lru::isolate`, [`super::folios`], [`super::throttle`].

use super::folios::{BatchStats, Busy, Decision, Rules, Uses};
use super::{Control, PassSums, ThrottleReason};
use crate::config::KswapdGoal;
use crate::host::{Cx, Devices, Phase, Probe};
use crate::kernel::Kernel;
use crate::lru::balance::Effort;
use crate::lru::{BATCH, IsolateMode, Isolated, LruKind, PageType, Walk};
use crate::page::{Folio, Page, PageFlags};
use crate::page_alloc::Gfp;
use crate::trace::{Event, narrow};
use crate::units::LruVecId;
use crate::units::SWAP_CLUSTER_MAX;
use crate::vmstat::NodeStat;
use crate::writeback::WriteReason;
use crate::zone::NodeId;

/// The result of checking an active page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// It was used: it counts for the balance of the types.
    pub was_used: bool,
    /// It stays active.
    pub stays: bool,
}

/// True if so many pages of a type are isolated on a node that reclaimers would find none left
/// (rules/page-decisions#too-many-isolated). Requests with IO and FS are limited to an eighth, so
/// that they do not block the others. A task without FS may hold filesystem locks, for which other
/// reclaimers wait with isolated pages.
const fn too_many(inactive: u64, isolated: u64, io_and_fs: bool) -> bool {
    let most = if io_and_fs { inactive >> 3 } else { inactive };
    isolated > most
}

/// The counter of isolated pages by type; each type has its own limit.
const fn isolated_stat(page_type: PageType) -> NodeStat {
    match page_type {
        PageType::Anon => NodeStat::IsolatedAnon,
        PageType::File => NodeStat::IsolatedFile,
    }
}

impl<H: Devices> Kernel<H> {
    /// Isolates a batch of `want` pages at most from the tail of the inactive list of a type and
    /// reclaims those that `rules` let go. The others are put back; returns the pages freed.
    ///
    /// Linux: here the part that all reclaim algorithms share; the two-list LRU enters by
    /// `shrink_inactive`.
    #[doc(alias = "shrink_inactive_list")]
    pub(super) fn reclaim_batch<F: Fn(&Uses) -> Decision + Copy>(
        &self,
        cx: &Cx<'_, H>,
        (node, vec): (NodeId, LruVecId),
        sc: &mut Control,
        page_type: PageType,
        want: u64,
        rules: Rules<F>,
    ) -> u64 {
        let _phase = cx.phase(Phase::ShrinkInactive);
        // Before isolation, so that a waiting task holds nothing that others wait for.
        let mut has_waited = false;
        while self.too_many_isolated(cx, node, sc, page_type) {
            // Waited already: this list has to do without us. The scan goes on with the next one.
            if !self.throttle_isolated(cx, node, has_waited) {
                return 0;
            }
            has_waited = true;
            if cx.is_dying() {
                // The task is dying and will free its memory soon, so let it continue. The returned
                // number is direct reclaim's target, so its attempt ends with this.
                return SWAP_CLUSTER_MAX;
            }
        }
        // Pages in this CPU's add batch are on no list yet. Those in other CPUs' batches stay there
        // (rules/lru#in-a-batch): draining them would interrupt every CPU for every 32 pages.
        self.lru_add_drain(cx);
        let mut pages = [Folio::default(); BATCH];
        let list = LruKind::new(page_type, false);
        let (isolated, mut walk) =
            self.isolate_batch(cx, vec, sc, list, &mut pages[..want as usize]);
        self.count_isolated(cx, node, page_type, isolated.nr_taken as i64);
        self.count_scanned(cx, vec, sc, page_type, isolated.scanned);
        if isolated.taken == 0 {
            return 0;
        }

        let keeps_busy = rules.busy == Busy::Keep;
        let pages = &mut pages[..isolated.taken];
        let shrunk = self.shrink_pages(cx, vec, sc, pages, &mut walk, rules);

        // Pages in use show that the type is worth keeping (up to 5.7). Without an active list
        // these are the rotated pages.
        let stats = shrunk.stats;
        let mut rotated = stats.activate;
        if keeps_busy {
            rotated[page_type as usize] += stats.ref_keep;
        }
        self.move_pages_to_lru(cx, vec, [&pages[..shrunk.kept], &shrunk.tails], rotated);
        self.count_isolated(cx, node, page_type, -(isolated.nr_taken as i64));
        self.count_stolen(cx, vec, sc, page_type, shrunk.reclaimed);
        // Also without any write: a charge of 0 lets earlier charges fade.
        let rotated = isolated.scanned.saturating_sub(shrunk.reclaimed);
        self.lru_note_cost(cx, vec, page_type, Effort { io: stats.pageout, rotated });
        if stats.unqueued_dirty == isolated.nr_taken {
            // All pages are dirty and not under writeback: the flushers are behind. They are woken
            // for all their work, not for these pages, because writing in file order is faster.
            self.wake_flushers(cx, WriteReason::Vmscan);
            if self.is_reclaim_of_v1(sc) {
                self.wait_for_flushers(cx, node);
            }
        }
        // What follows from it is decided for the whole pass, except by the waits of 4.5.
        let sums = sums_of(&stats, page_type, isolated.nr_taken);
        sc.sums.add(&sums);
        let (scanned, reclaimed) = (isolated.scanned, shrunk.reclaimed);
        cx.event(shrink_event(node, sc.priority, page_type, scanned, reclaimed, &stats));
        self.throttle_after_batch(cx, vec, sc, &sums);
        shrunk.reclaimed
    }

    /// Moves a batch of `want` pages at most from the tail of the active list of a type to the
    /// inactive one, except those that `look` says stay. Nothing is freed or written here, so there
    /// is no wait for too many isolated pages: they are back at once.
    ///
    /// Linux: here the part that all reclaim algorithms share; the two-list LRU enters by
    /// `shrink_active`.
    #[doc(alias = "shrink_active_list")]
    pub(super) fn refill_batch(
        &self,
        cx: &Cx<'_, H>,
        (node, vec): (NodeId, LruVecId),
        sc: &Control,
        page_type: PageType,
        want: u64,
        mut look: impl FnMut(Folio, &Page) -> Look,
    ) {
        let _phase = cx.phase(Phase::ShrinkActive);
        self.lru_add_drain(cx);
        let mut pages = [Folio::default(); BATCH];
        let list = LruKind::new(page_type, true);
        let (isolated, mut walk) =
            self.isolate_batch(cx, vec, sc, list, &mut pages[..want as usize]);
        self.count_isolated(cx, node, page_type, isolated.nr_taken as i64);
        self.count_refill(cx, vec, sc, isolated.scanned);

        // Both in the order in which they were taken.
        let (mut active, mut inactive) = ([Folio::default(); BATCH], [Folio::default(); BATCH]);
        let (mut nr_active, mut nr_inactive) = (0, 0);
        let (mut nr_used, mut nr_stay) = (0, 0);
        for &folio in &pages[..isolated.taken] {
            walk.step(cx.host, &self.mem.map);
            let page = self.mem.map.page(folio);
            // Locked into memory while it was on the list: the add batch takes it to list 4.
            if !page.is_evictable() {
                self.putback_page(cx, folio);
                continue;
            }
            let Look { was_used, stays } = look(folio, page);
            nr_used += u64::from(was_used) * folio.nr_pages();
            if stays {
                active[nr_active] = folio;
                nr_active += 1;
                nr_stay += folio.nr_pages();
                continue;
            }
            // It was active once: should it come back soon after it was evicted, it belonged to
            // those in use (rules/workingset#flag).
            page.flag_replace::<H>(PageFlags::ACTIVE | PageFlags::NOTED, PageFlags::WORKINGSET);
            inactive[nr_inactive] = folio;
            nr_inactive += 1;
        }

        // All used pages count, even those that are deactivated, because the balance measures how
        // busy a type is.
        let mut rotated = [0; 2];
        rotated[page_type as usize] = nr_used;
        let lists = [&active[..nr_active], &inactive[..nr_inactive]];
        let [_, deactivated] = self.move_pages_to_lru(cx, vec, lists, rotated);
        self.count_deactivated(cx, vec, deactivated);
        self.count_isolated(cx, node, page_type, -(isolated.nr_taken as i64));
        self.note_kept_active(cx, vec, page_type, nr_stay);
        cx.event(Event::LruShrinkActive {
            nid: node,
            nr_taken: narrow(isolated.nr_taken, u16::MAX),
            nr_active: narrow(nr_stay, u16::MAX),
            nr_deactivated: narrow(deactivated, u16::MAX),
            nr_referenced: narrow(nr_stay, u16::MAX),
            priority: sc.priority,
            page_type,
        });
    }

    /// Isolates pages from the tail of a list, with the trace event. Pages of too high zones are
    /// skipped: they count as scanned, but not against `want` (rules/page-decisions#isolate).
    #[inline(never)]
    fn isolate_batch(
        &self,
        cx: &Cx<'_, H>,
        vec: LruVecId,
        sc: &Control,
        list: LruKind,
        out: &mut [Folio],
    ) -> (Isolated, Walk) {
        let mode = IsolateMode { highest: sc.reclaim_idx, may_unmap: sc.may_unmap };
        let (isolated, walk) = self.isolate_and_walk(cx, vec, list, mode, out);
        self.note_zones_scanned(vec, sc, isolated.scanned);
        cx.event(Event::LruIsolate {
            isolate_mode: u8::from(!sc.may_unmap),
            classzone: sc.reclaim_idx,
            order: sc.order,
            nr_requested: out.len() as u16,
            nr_scanned: narrow(isolated.scanned, u32::MAX),
            nr_skipped: narrow(isolated.skipped, u32::MAX),
            nr_taken: narrow(isolated.nr_taken, u16::MAX),
            lru: list,
        });
        (isolated, walk)
    }

    /// Reclaim scanned `pages` pages. With per-node lists their zones are unknown, so they count
    /// for all zones of the request.
    fn note_zones_scanned(&self, vec: LruVecId, sc: &Control, pages: u64) {
        if self.mem.policy.reclaim.kswapd.goal == KswapdGoal::AnyZone || pages == 0 {
            return;
        }
        let only = self.lru.zone_of(vec);
        let zones = self.zones_upto(self.lru.node_of(vec), sc.reclaim_idx);
        zones
            .filter(|zone| only.is_none_or(|only| zone.id() == only))
            .for_each(|zone| zone.note_scanned(pages));
    }

    /// Counts pages that are off their list for a while. The count lags as all do, so the limit
    /// that it is for holds by about so much.
    fn count_isolated(&self, cx: &Cx<'_, H>, node: NodeId, page_type: PageType, delta: i64) {
        if delta != 0 {
            let stats = &self.mem.node(node).stats;
            stats.add(cx.cpu(), isolated_stat(page_type) as usize, delta);
        }
    }

    /// Reports whether too many pages are isolated, so that a reclaimer should wait until others
    /// put some back; if not, wakes the tasks that wait for this.
    ///
    /// Linux: same name; the one of mm/vmscan.c; compaction has its own.
    fn too_many_isolated(
        &self,
        cx: &Cx<'_, H>,
        node: NodeId,
        sc: &Control,
        page_type: PageType,
    ) -> bool {
        // It is one task, and the others wait for it: it must not wait for them. Reclaim of a
        // version 1 group waits for pages under writeback instead.
        if sc.is_kswapd || self.is_reclaim_of_v1(sc) {
            return false;
        }
        let stats = &self.mem.node(node).stats;
        let inactive = stats.read(LruKind::new(page_type, false).node_stat() as usize);
        let isolated = stats.read(isolated_stat(page_type) as usize);
        let is_too_many = too_many(inactive, isolated, sc.gfp.contains(Gfp::IO | Gfp::FS));
        // A reclaimer that finds few wakes the waiters, because putback does not check for them.
        if !is_too_many {
            self.wake_throttled(cx, node, ThrottleReason::Isolated);
        }
        is_too_many
    }
}

/// The figures of a batch that decide the end of the pass (rules/node-pass#node-flags). File pages
/// are summed separately, because only they count as dirty.
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

/// The trace event of a batch; its counts are narrow, as a batch is.
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
    fn too_many_isolated_pages_by_what_a_request_may_do() {
        assert!(!too_many(1000, 125, true));
        assert!(too_many(1000, 126, true));
        assert!(!too_many(1000, 1000, false));
        assert!(too_many(1000, 1001, false));
    }
}
