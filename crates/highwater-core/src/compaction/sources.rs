//! The migrate scanner: finds pages in use that can be moved (rules/compaction#sources).
//!
//! It takes a cluster of 32 pages at a time, so pages are isolated only as long as it takes to move
//! them. Its second cluster in a pageblock takes all the rest at once, because a half-empty
//! pageblock is useless.

use super::Pressure;
use super::positions::is_huge;
use super::run::{BLOCKS_A_TURN, CLUSTER, Contention, Found, Goal, Run, block_end, block_of};
use crate::config::{AsyncSources, CachePages, CompactMoves, ScanCount};
use crate::host::{Cost, Cx, Devices, Probe};
use crate::kernel::Kernel;
use crate::lru::LockedLru;
use crate::migrate::Mode;
use crate::page::{BlockFlags, Folio, MigrateType, Order, PAGEBLOCK_PAGES, Page, PageFlags, Pfn};
use crate::page_alloc::Gfp;
use crate::trace::Event;
use crate::vmstat::VmEvent;

const PB: u32 = PAGEBLOCK_PAGES as u32;

/// The scanner's classification of a frame.
enum Frame {
    /// Free, or nothing to move, up to there.
    Free(u32),
    /// It holds an unmovable page.
    Stuck,
    /// It is part of a compound block that stays, up to there.
    Compound(u32),
    /// A page or a large folio of a file, with a reference for the scanner.
    Page(Folio),
}

/// One visit to a pageblock.
struct Visit<'a, 'h, H: Devices> {
    lru: Option<LockedLru<'a, 'h, H>>,
    /// Pages taken.
    taken: u64,
    /// It began where the pageblock does, and so knows its skip bit.
    is_noted: bool,
    /// The skip bit was looked at, and set, once pages were found.
    has_claimed: bool,
}

impl<H: Devices> Kernel<H> {
    /// Looks for a pageblock with sources from `migrate_pfn` on and isolates some of its pages.
    #[doc(alias = "isolate_migratepages")]
    pub(super) fn isolate_sources(&self, cx: &Cx<'_, H>, run: &mut Run<'_, H>) -> Found {
        let mut low = match run.is_plain() {
            true => run.migrate_pfn,
            false => self.search_source(cx, run),
        };
        let mut is_searched = low != run.migrate_pfn && run.fast_fail == 0;
        let mut start = block_of(low).max(run.zone.start.0);
        loop {
            let end = block_end(low);
            if end > run.free_pfn {
                return Found::None;
            }
            if block_of(low).is_multiple_of(PB * BLOCKS_A_TURN) && run.gives_way(cx) {
                return Found::Abort;
            }
            let is_ours = run.owns_block(&self.mem.map, start, end);
            // Once begun, a pageblock is finished whatever its bit says; not so before 5.1.
            let asks = run.is_plain() || (low.is_multiple_of(PB) && !is_searched);
            let is_skipped = asks && run.skips(low);
            if is_ours && !is_skipped {
                if self.is_source(run, start) {
                    return match self.isolate_in_block(cx, run, low, end) {
                        false => Found::Abort,
                        true if run.sources.is_empty() => Found::None,
                        true => Found::Some,
                    };
                }
                if !run.is_plain() {
                    run.update_cached_migrate(end);
                }
            }
            is_searched = false;
            (run.migrate_pfn, low, start) = (end, end, end);
        }
    }

    /// Reports whether the run may move pages of a pageblock. A run that waits for nothing takes
    /// pages only from pageblocks of the request's own type: frames freed elsewhere would not serve
    /// the request.
    #[doc(alias = "suitable_migration_source")]
    fn is_source(&self, run: &Run<'_, H>, block: u32) -> bool {
        if is_huge(self.mem.map.page(Pfn(block))) {
            return false;
        }
        let wanted = match run.policy.async_sources {
            AsyncSources::Movable => MigrateType::Movable,
            AsyncSources::Requested if run.goal.direct => run.goal.migratetype,
            AsyncSources::Requested => return true,
        };
        !run.is_async() || run.zone.pageblock_type(Pfn(block)) == wanted
    }

    /// Isolates movable pages of one pageblock from `start` on; false if the run should end.
    #[doc(alias = "isolate_migratepages_block")]
    fn isolate_in_block(&self, cx: &Cx<'_, H>, run: &mut Run<'_, H>, start: u32, end: u32) -> bool {
        let node = run.zone.node;
        while self.too_many_isolated_to_compact(cx, node, run.goal.gfp) {
            if !run.sources.is_empty() || run.is_async() {
                return false;
            }
            self.wait_for_isolated(cx, node);
            if cx.is_dying() {
                return false;
            }
        }
        let gives_up = run.gives_up_blocks();
        let is_plain = run.is_plain();
        run.visited_from = start;
        let mut boundary = gives_up.map_or(end, |order| Goal::order_end(order, start));
        let mut visit = Visit { lru: None, taken: 0, is_noted: false, has_claimed: false };
        let (mut pfn, mut scanned, mut jumped, mut is_aborted) = (start, 0, 0, false);
        while pfn < end {
            if let Some(order) = gives_up
                && pfn >= boundary
            {
                if visit.taken != 0 {
                    break;
                }
                boundary = Goal::order_end(order, pfn);
            }
            if pfn.is_multiple_of(CLUSTER) {
                visit.lru = None;
                if cx.is_dying() {
                    run.contended = Some(Contention::Dying);
                }
                if run.is_aborted() || run.gives_way(cx) {
                    is_aborted = true;
                    break;
                }
            }
            scanned += 1;
            if !visit.is_noted && !is_plain && pfn.is_multiple_of(PB) {
                if run.skips(pfn) {
                    pfn = end;
                    break;
                }
                visit.is_noted = true;
            }
            match self.look_at(cx, run, &mut visit, pfn) {
                Frame::Free(next) => {
                    jumped += next.min(end) - pfn - 1;
                    pfn = next;
                    continue;
                }
                Frame::Page(folio) => match self.take_source(cx, run, &mut visit, folio) {
                    Taken::Yes => {
                        jumped += folio.nr_pages() as u32 - 1;
                        pfn += folio.nr_pages() as u32;
                        let takes_all = run.rescan || run.contended.is_some();
                        if run.nr_sources >= CLUSTER && (!takes_all || is_plain) {
                            break;
                        }
                        continue;
                    }
                    Taken::OthersBlock => {
                        pfn = end;
                        break;
                    }
                    Taken::Contended => {
                        is_aborted = true;
                        break;
                    }
                    Taken::No => {
                        jumped += folio.nr_pages() as u32 - 1;
                        pfn += folio.nr_pages() as u32;
                    }
                },
                Frame::Stuck => pfn += 1,
                Frame::Compound(next) => {
                    jumped += next.min(end) - pfn - 1;
                    pfn = next;
                }
            }
            // Something stays: the aligned block around it cannot become free.
            if let Some(order) = gives_up {
                visit.lru = None;
                self.putback_sources(cx, run);
                visit.taken = 0;
                if pfn < boundary {
                    pfn = boundary;
                    boundary += 1 << order.0;
                }
            }
        }
        visit.lru = None;
        cx.charge(Cost::CompactScan, scanned);
        if run.policy.scan_count == ScanCount::Frames {
            scanned += jumped;
        }
        run.migrate_scanned += u64::from(scanned);
        let pfn = pfn.min(end);
        if is_plain && !is_aborted && pfn == end && visit.taken == 0 && run.leaves_marks() {
            run.zone.set_pageblock_skip(Pfn(start), true);
            run.remember_migrate(start);
        }
        if !is_plain && !is_aborted && pfn == end && (visit.taken == 0 || run.rescan) {
            if visit.is_noted && !visit.has_claimed {
                run.zone.set_pageblock_skip(Pfn(start), true);
            }
            run.update_cached_migrate(end);
        }
        run.migrate_pfn = pfn;
        cx.event(Event::CompactionIsolateMigratepages {
            start_pfn: Pfn(start),
            end_pfn: Pfn(pfn),
            nr_scanned: scanned,
            nr_taken: visit.taken as u32,
        });
        self.mem.events.add(cx.cpu(), VmEvent::CompactIsolated, visit.taken);
        !is_aborted
    }

    /// The content of a frame, as far as it is known without a lock. For a page, the caller gets a
    /// reference.
    fn look_at(
        &self,
        cx: &Cx<'_, H>,
        run: &Run<'_, H>,
        visit: &mut Visit<'_, '_, H>,
        pfn: u32,
    ) -> Frame {
        let (page, word) = (self.mem.map.page(Pfn(pfn)), self.mem.map.block(Pfn(pfn)));
        if word.has(BlockFlags::BUDDY) {
            return Frame::Free(pfn + (1 << word.order().0.min(Order::MAX.0)));
        }
        if word.has(BlockFlags::HEAD) || word.has(BlockFlags::TAIL) {
            return self.look_at_compound(cx, run, visit, pfn);
        }
        if !page.is(PageFlags::LRU) || !page.try_get::<H>() {
            return Frame::Stuck;
        }
        if self.can_move(cx, run, page) {
            return Frame::Page(Folio::page(Pfn(pfn)));
        }
        self.give_up(cx, visit, Folio::page(Pfn(pfn)));
        Frame::Stuck
    }

    /// [`Self::look_at`] of a frame of a compound block: a large folio of a file may be moved if it
    /// is smaller than the order that the run is for.
    #[cold]
    fn look_at_compound(
        &self,
        cx: &Cx<'_, H>,
        run: &Run<'_, H>,
        visit: &mut Visit<'_, '_, H>,
        pfn: u32,
    ) -> Frame {
        let map = &self.mem.map;
        let order = map.block(Pfn(pfn)).order();
        let stays = Frame::Compound(Goal::order_end(order, pfn));
        let is_wanted = |folio: Folio, page: &Page| {
            folio.pfn().0 == pfn && page.has(BlockFlags::HEAD) && folio.order() == order
        };
        if self.mem.policy.folio.compact_moves == CompactMoves::None || !run.moves_order(order) {
            return stays;
        }
        let (folio, page) = map.lookup(Pfn(pfn));
        let is_file = page.is(PageFlags::LRU) && !page.is_anon();
        if !is_file || !is_wanted(folio, page) || !page.try_get::<H>() {
            return stays;
        }
        // With a reference it is what it is: it may have been split, or freed and made anew.
        let (now, page) = map.lookup(Pfn(pfn));
        if is_wanted(now, page) && !page.is_anon() && self.can_move(cx, run, page) {
            return Frame::Page(folio);
        }
        self.give_up(cx, visit, now);
        stays
    }

    /// Drops the scanner's reference to a page that stays. It may be the last, and then the page
    /// leaves its list: not while the lists are locked.
    fn give_up(&self, cx: &Cx<'_, H>, visit: &mut Visit<'_, '_, H>, folio: Folio) {
        visit.lru = None;
        self.put_page(cx, folio);
    }

    /// Is a page such that moving it has prospects?
    fn can_move(&self, cx: &Cx<'_, H>, run: &Run<'_, H>, page: &Page) -> bool {
        let flags = page.flags();
        let is_in_cache = !page.is_anon() || flags.contains(PageFlags::SWAPCACHE);
        // Somebody has it besides its entries.
        if !is_in_cache && page.refcount() - 1 > page.mapcount() {
            return false;
        }
        let needs_fs = run.policy.cache_pages == CachePages::WithFs;
        if is_in_cache && needs_fs && !run.goal.gfp.contains(Gfp::FS) {
            return false;
        }
        let allows_unevictable = self.mem.tunables.compact_unevictable_allowed.get();
        if flags.contains(PageFlags::UNEVICTABLE) && !allows_unevictable {
            return false;
        }
        // Up to 5.0 only asynchronous runs skip them here; migration skips pages for which its mode
        // does not wait.
        let takes_busy = if run.is_plain() { Mode::SyncLight } else { Mode::Sync };
        if run.goal.mode >= takes_busy {
            return true;
        }
        // Writes are not waited for. A dirty page can be moved, if its lock says that it is not about
        // to be written.
        let is_locked = flags.contains(PageFlags::DIRTY | PageFlags::LOCKED);
        let is_waited_for = is_locked || flags.contains(PageFlags::WRITEBACK);
        !is_waited_for && !self.is_held_by_journal(cx, page)
    }

    /// Takes a page, to which the caller has a reference, off its list.
    fn take_source<'a, 'h>(
        &'a self,
        cx: &'a Cx<'h, H>,
        run: &mut Run<'_, H>,
        visit: &mut Visit<'a, 'h, H>,
        folio: Folio,
    ) -> Taken {
        let pfn = folio.pfn().0;
        let page = self.mem.map.page(folio);
        if !page.flag_test_clear::<H>(PageFlags::LRU) {
            self.give_up(cx, visit, folio);
            return Taken::No;
        }
        let Some(is_new) = self.lock_source(cx, run, visit, page) else {
            page.flag_set::<H>(PageFlags::LRU);
            self.give_up(cx, visit, folio);
            return Taken::Contended;
        };
        if is_new && !visit.has_claimed && !run.is_plain() {
            visit.has_claimed = true;
            // Only a scanner that begins with the pageblock says that it has it.
            if !run.goal.ignore_skip && pfn.is_multiple_of(PB) {
                if run.zone.pageblock_skip(Pfn(pfn)) {
                    page.flag_set::<H>(PageFlags::LRU);
                    self.give_up(cx, visit, folio);
                    return Taken::OthersBlock;
                }
                run.zone.set_pageblock_skip(Pfn(pfn), true);
            }
        }
        if let Some(lru) = &mut visit.lru {
            lru.unlink(folio);
            lru.add_work(1);
        }
        self.count_isolated_page(cx, folio, true);
        run.sources.push_head(&self.mem.map, folio);
        run.nr_sources += folio.nr_pages() as u32;
        visit.taken += folio.nr_pages();
        Taken::Yes
    }

    /// Puts the isolated pages of a run back on their lists.
    pub(super) fn putback_sources(&self, cx: &Cx<'_, H>, run: &mut Run<'_, H>) {
        self.putback_isolated(cx, &mut run.sources);
        run.nr_sources = 0;
    }
}

impl<H: Devices> Kernel<H> {
    /// Locks the lists of a page, if other lists are locked now; true if it did. `None`: the lock
    /// is contended, and the run does not wait for it.
    fn lock_source<'a, 'h>(
        &'a self,
        cx: &'a Cx<'h, H>,
        run: &mut Run<'_, H>,
        visit: &mut Visit<'a, 'h, H>,
        page: &Page,
    ) -> Option<bool> {
        if run.is_async() && run.contended.is_none() {
            if let Some(is_new) = self.try_relock_lru(cx, &mut visit.lru, page) {
                return Some(is_new);
            }
            if !run.takes_contended() {
                return None;
            }
        }
        Some(self.relock_lru(cx, &mut visit.lru, page))
    }
}

/// Whether a page was taken.
enum Taken {
    Yes,
    No,
    /// No: its lists are locked, and the run ends there.
    Contended,
    /// Another run has this pageblock.
    OthersBlock,
}
