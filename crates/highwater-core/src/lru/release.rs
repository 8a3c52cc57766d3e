//! Dropping references: the last one takes a page off its list and frees it (rules/unmap#release).
//!
//! Taking a page off its list is charged as a move, while the lock is held.

use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::{Folio, PageFlags, PageList};
use crate::vmstat::{VmEvent, ZoneStat};

/// Pages for which one hold of `lru_lock` lasts (`SWAP_CLUSTER_MAX`).
const RELEASE_BATCH: u32 = 32;

impl<H: Devices> Kernel<H> {
    /// Drops one reference; the last one takes the page off its list and frees it.
    #[inline]
    pub fn put_page(&self, cx: &Cx<'_, H>, folio: Folio) {
        if self.mem.map.page(folio).put::<H>(1) {
            self.release_last(cx, folio);
        }
    }

    #[inline(never)]
    fn release_last(&self, cx: &Cx<'_, H>, folio: Folio) {
        let page = self.mem.map.page(folio);
        if page.is(PageFlags::LRU) {
            let mut lru = self.lock_lru(cx, self.lru.id_of(page));
            lru.unlink(folio);
            lru.add_work(1);
            page.flag_clear::<H>(PageFlags::LRU);
        }
        self.note_given(cx, folio.nr_pages());
        self.retire(cx, folio);
        self.mem.free_unreferenced(cx, folio);
    }

    /// Drops one reference of each page (`release_pages`). Pages whose last it was leave their
    /// lists; `lru_lock` is held over consecutive pages of the same lists, 32 at most. All are
    /// freed at the end, last first: the per-CPU list then hands them out first first.
    pub fn release_pages(&self, cx: &Cx<'_, H>, folios: &[Folio]) {
        let mut held = None;
        let mut holding = 0;
        let mut given = 0;
        let mut free = PageList::default();
        for &folio in folios {
            if held.is_some() {
                holding += 1;
                if holding == RELEASE_BATCH {
                    held = None;
                }
            }
            let page = self.mem.map.page(folio);
            if !page.put::<H>(1) {
                continue;
            }
            if page.is(PageFlags::LRU) {
                if self.relock_lru(cx, &mut held, page) {
                    holding = 0;
                }
                if let Some(lru) = &mut held {
                    lru.unlink(folio);
                    lru.add_work(1);
                }
                page.flag_clear::<H>(PageFlags::LRU);
            }
            given += folio.nr_pages();
            self.retire(cx, folio);
            self.free_later(cx, folio, &mut free);
        }
        drop(held);
        self.note_given(cx, given);
        self.free_retired(cx, free);
    }

    /// Frees folios that nobody references and that are on no list (reclaim's, after freezing
    /// them), last first as [`Self::release_pages`] does. They may still be locked: without a
    /// reference nobody waits for that.
    pub(crate) fn free_unreferenced(&self, cx: &Cx<'_, H>, folios: &[Folio]) {
        let mut free = PageList::default();
        let mut given = 0;
        for &folio in folios {
            let page = self.mem.map.page(folio);
            page.flag_test_clear::<H>(PageFlags::LOCKED);
            given += folio.nr_pages();
            self.retire(cx, folio);
            self.free_later(cx, folio, &mut free);
        }
        self.note_given(cx, given);
        self.free_retired(cx, free);
    }

    /// Retires the folios of a list and frees them, in list order.
    pub(super) fn free_unused(&self, cx: &Cx<'_, H>, list: PageList) {
        if list.is_empty() {
            return;
        }
        let mut list = list;
        let mut free = PageList::default();
        let mut given = 0;
        while let Some(pfn) = list.pop_head(&self.mem.map) {
            let folio = self.mem.map.folio(pfn);
            given += folio.nr_pages();
            self.retire(cx, folio);
            if folio.is_large() {
                self.mem.free_unreferenced(cx, folio);
            } else {
                free.push_tail(&self.mem.map, folio);
            }
        }
        self.note_given(cx, given);
        self.free_retired(cx, free);
    }

    /// A retired folio is freed with others: single pages together at the end, larger ones at once.
    fn free_later(&self, cx: &Cx<'_, H>, folio: Folio, free: &mut PageList) {
        if folio.is_large() {
            self.mem.free_unreferenced(cx, folio);
        } else {
            free.push_head(&self.mem.map, folio);
        }
    }

    /// Frees pages that [`Self::retire`] is done with, in list order.
    pub(crate) fn free_retired(&self, cx: &Cx<'_, H>, free: PageList) {
        if !free.is_empty() {
            self.mem.free_linked(cx, free);
        }
    }

    /// A page without references and off the lists forgets what it was. The caller says that the task
    /// gave it back ([`Self::note_given`]), for several pages at once if it can.
    #[inline]
    pub(crate) fn retire(&self, cx: &Cx<'_, H>, folio: Folio) {
        let page = self.mem.map.page(folio);
        let flags = page.flags();
        let busy = PageFlags::LRU | PageFlags::LOCKED | PageFlags::WRITEBACK;
        debug_assert!(!flags.intersects(busy), "a page in use is freed: {flags:?}");
        debug_assert!(!page.is_mapped(), "a mapped page is freed: {:?}", page.owner());
        debug_assert_eq!(page.refcount(), 0);
        if flags.contains(PageFlags::MLOCKED) {
            self.mem.account(cx.cpu(), folio).zone_minus(ZoneStat::Mlock);
            self.mem.events.add(cx.cpu(), VmEvent::UnevictablePgsCleared, folio.nr_pages());
        }
        page.reset_usage();
    }
}
