//! Dropping references: the last one takes a page off its list and frees it (spec 04 §3.5).
//!
//! Taking a page off its list is charged as a move, while the lock is held.

use super::Takings;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::{Page, PageFlags, PageList, Pfn};
use crate::vmstat::{VmEvent, ZoneStat};

/// Pages for which one hold of `lru_lock` lasts (`SWAP_CLUSTER_MAX`).
const RELEASE_BATCH: u32 = 32;

impl<H: Devices> Kernel<H> {
    /// Drops one reference; the last one takes the page off its list and frees it.
    #[inline]
    pub fn put_page(&self, cx: &Cx<'_, H>, pfn: Pfn) {
        if self.mem.map.page(pfn).put::<H>(1) {
            self.release_last(cx, pfn);
        }
    }

    #[inline(never)]
    fn release_last(&self, cx: &Cx<'_, H>, pfn: Pfn) {
        let page = self.mem.map.page(pfn);
        if page.is(PageFlags::LRU) {
            let mut lru = self.lock_lru(cx, self.lru.id_of(page));
            lru.unlink(pfn);
            lru.add_work(1);
            page.flag_clear::<H>(PageFlags::LRU);
        }
        self.retire(cx, page);
        self.mem.free_unreferenced(cx, pfn);
    }

    /// Drops one reference of each page (`release_pages`). Pages whose last it was leave their
    /// lists; `lru_lock` is held over consecutive pages of the same lists, 32 at most. All are
    /// freed at the end, last first: the per-CPU list then hands them out first first.
    pub fn release_pages(&self, cx: &Cx<'_, H>, pfns: &[Pfn]) {
        let mut held = None;
        let mut holding = 0;
        let mut free = PageList::default();
        for &pfn in pfns {
            if held.is_some() {
                holding += 1;
                if holding == RELEASE_BATCH {
                    held = None;
                }
            }
            let page = self.mem.map.page(pfn);
            if !page.put::<H>(1) {
                continue;
            }
            if page.is(PageFlags::LRU) {
                if self.relock_lru(cx, &mut held, page) {
                    holding = 0;
                }
                if let Some(lru) = &mut held {
                    lru.unlink(pfn);
                    lru.add_work(1);
                }
                page.flag_clear::<H>(PageFlags::LRU);
            }
            self.retire(cx, page);
            free.push_head(&self.mem.map, pfn);
        }
        drop(held);
        self.free_retired(cx, free);
    }

    /// Frees pages that nobody references and that are on no list (reclaim's, after freezing
    /// them), last first as [`Self::release_pages`] does. They may still be locked: without a
    /// reference nobody waits for that.
    pub(crate) fn free_unreferenced(&self, cx: &Cx<'_, H>, pfns: &[Pfn]) {
        let mut free = PageList::default();
        for &pfn in pfns {
            let page = self.mem.map.page(pfn);
            page.flag_test_clear::<H>(PageFlags::LOCKED);
            self.retire(cx, page);
            free.push_head(&self.mem.map, pfn);
        }
        self.free_retired(cx, free);
    }

    /// Frees pages that [`Self::retire`] is done with, in list order.
    pub(crate) fn free_retired(&self, cx: &Cx<'_, H>, free: PageList) {
        if !free.is_empty() {
            self.mem.free_linked(cx, free);
        }
    }

    /// A page without references and off the lists forgets what it was.
    #[inline]
    pub(crate) fn retire(&self, cx: &Cx<'_, H>, page: &Page) {
        cx.local::<Takings>().give(1);
        let marks = page.marks();
        let busy = PageFlags::LRU | PageFlags::LOCKED | PageFlags::WRITEBACK;
        debug_assert!(!marks.intersects(busy), "a page in use is freed: {marks:?}");
        debug_assert!(!page.is_mapped(), "a mapped page is freed: {:?}", page.owner());
        debug_assert_eq!(page.refcount(), 0);
        if marks.contains(PageFlags::MLOCKED) {
            self.count_mlock(cx, page, -1);
            self.mem.events.add(cx.cpu(), VmEvent::UnevictablePgsCleared, 1);
        }
        page.reset_usage();
    }

    /// Adds to nr_mlock of a page's zone.
    pub(super) fn count_mlock(&self, cx: &Cx<'_, H>, page: &Page, delta: i64) {
        if let Some(zone) = self.mem.zone_by_id(page.zone_id()) {
            zone.stats.add(cx.cpu(), ZoneStat::Mlock as usize, delta);
        }
    }
}
