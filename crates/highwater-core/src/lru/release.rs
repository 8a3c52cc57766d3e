//! Dropping references: the last one takes a page off its list and frees it (rules/unmap#release).
//!
//! Taking a page off its list is charged as a move, while the lock is held.

use core::hint::cold_path;

use crate::config::FreeOrder;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::{Folio, Page, PageFlags, PageList, Pfn};
use crate::units::SWAP_CLUSTER_MAX;
use crate::vmstat::{VmEvent, ZoneStat};

/// Pages that reclaim judges together, and so frees together, at most.
pub(crate) const BATCH: usize = SWAP_CLUSTER_MAX as usize;

/// Folios without users, on their way to the allocator. It gets single pages together, then larger
/// folios one by one. It gets them while no list's lock is held, because it takes locks itself.
#[derive(Default)]
struct Dead {
    pages: PageList,
    large: PageList,
    nr_pages: u64,
}

impl<H: Devices> Kernel<H> {
    /// Drops one reference to a folio; the last one takes the page off its list and frees it.
    ///
    /// Linux: same name.
    ///
    /// # Panics
    /// If the machine has no such frame.
    #[doc(alias = "folio_put")]
    #[inline]
    pub fn put_page(&self, cx: &Cx<'_, H>, folio: Folio) {
        if self.mem.map.page(folio).put::<H>(1) {
            self.release_last(cx, folio);
        }
    }

    /// As [`Self::put_page`] for a frame whose contents moved to another one: the task has not
    /// freed memory.
    pub(crate) fn put_moved_page(&self, cx: &Cx<'_, H>, folio: Folio) {
        let page = self.mem.map.page(folio);
        if page.put::<H>(1) {
            self.leave_charge(folio);
            self.retire(cx, (folio, page));
            self.mem.free_folio(cx, folio);
        }
    }

    /// Frees a page whose last reference is gone, after taking it off its list.
    #[doc(alias = "__folio_put")]
    #[doc(alias = "__put_page")]
    #[inline(never)]
    fn release_last(&self, cx: &Cx<'_, H>, folio: Folio) {
        let page = self.mem.map.page(folio);
        if page.is(PageFlags::LRU) {
            let mut lru = self.lock_lru(cx, self.lruvec_of(page));
            lru.unlink(folio);
            lru.add_work(1);
            page.flag_clear::<H>(PageFlags::LRU);
        }
        self.note_given(cx, folio.nr_pages());
        self.retire(cx, (folio, page));
        self.mem.free_folio(cx, folio);
    }

    /// Drops one reference of each page (`release_pages`). Pages without a further reference leave
    /// their lists; `lru_lock` is held over consecutive pages of the same lists, 32 at most. All
    /// are freed at the end, last first, so the per-CPU list hands out the first one first (from 6.9
    /// on the last one: rules/unmap#reuse-order).
    ///
    /// Linux: same name.
    pub fn release_pages(&self, cx: &Cx<'_, H>, folios: &[Folio]) {
        let mut held = None;
        let mut holding = 0;
        let mut dead = Dead::default();
        for &folio in folios {
            if held.is_some() {
                holding += 1;
                if holding == SWAP_CLUSTER_MAX {
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
            self.bury(cx, (folio, page), &mut dead);
        }
        drop(held);
        self.free_dead(cx, dead);
    }

    /// Frees unreferenced folios that are on no list (reclaim's, after freezing them): clears their
    /// state and passes them to the allocator, [`BATCH`] at most at a time, in the order of
    /// [`Self::release_pages`]. Returns the number of pages.
    pub(crate) fn retire_and_free(&self, cx: &Cx<'_, H>, folios: &[Folio]) -> u64 {
        debug_assert!(folios.len() <= BATCH, "{} folios are more than a batch", folios.len());
        if folios.is_empty() {
            return 0;
        }
        let map: &[Page] = &self.mem.map;
        // Single pages, from the end on; larger folios come after them.
        let mut pages = [Pfn(0); BATCH];
        let mut first = BATCH;
        let (mut large, mut nr_pages) = (PageList::default(), 0);
        for &folio in folios {
            self.retire(cx, (folio, &map[folio.pfn().idx()]));
            if folio.is_large() {
                cold_path();
                nr_pages += folio.nr_pages();
                large.push_head(map, folio);
            } else {
                first -= 1;
                pages[first] = folio.pfn();
            }
        }
        nr_pages += (BATCH - first) as u64;
        self.note_given(cx, nr_pages);
        if self.hands_out_last_first() {
            pages[first..].reverse();
            large = self.turned(large);
        }
        self.mem.free_list_unchecked(cx, &pages[first..]);
        self.free_large(cx, large);
        nr_pages
    }

    /// As [`Self::retire_and_free`], for all folios of a list, in list order.
    pub(super) fn retire_and_free_list(&self, cx: &Cx<'_, H>, mut list: PageList) {
        let mut dead = Dead::default();
        while let Some(pfn) = list.pop_tail(&self.mem.map) {
            self.bury(cx, self.mem.map.lookup(pfn), &mut dead);
        }
        self.free_dead(cx, dead);
    }

    /// From 6.9 on the page that is freed last comes back first.
    #[inline]
    fn hands_out_last_first(&self) -> bool {
        self.mem.policy.unmap.free_order == FreeOrder::Highest
    }

    /// The same folios in the opposite order.
    #[cold]
    fn turned(&self, mut list: PageList) -> PageList {
        let mut turned = PageList::default();
        while let Some(pfn) = list.pop_head(&self.mem.map) {
            turned.push_head(&self.mem.map, pfn);
        }
        turned
    }

    /// Adds an unreferenced folio that is on no list. It is freed before those already in `dead`,
    /// unless [`Self::hands_out_last_first`].
    #[inline]
    fn bury(&self, cx: &Cx<'_, H>, (folio, page): (Folio, &Page), dead: &mut Dead) {
        self.retire(cx, (folio, page));
        dead.nr_pages += folio.nr_pages();
        let list = if folio.is_large() { &mut dead.large } else { &mut dead.pages };
        list.push_head(&self.mem.map, folio);
    }

    fn free_dead(&self, cx: &Cx<'_, H>, mut dead: Dead) {
        if dead.nr_pages == 0 {
            return;
        }
        self.note_given(cx, dead.nr_pages);
        if self.hands_out_last_first() {
            (dead.pages, dead.large) = (self.turned(dead.pages), self.turned(dead.large));
        }
        if !dead.pages.is_empty() {
            self.mem.free_linked(cx, dead.pages);
        }
        self.free_large(cx, dead.large);
    }

    fn free_large(&self, cx: &Cx<'_, H>, mut folios: PageList) {
        while let Some(pfn) = folios.pop_head(&self.mem.map) {
            self.mem.free_folio(cx, self.mem.map.folio(pfn));
        }
    }

    /// Clears the state of an unreferenced page that is on no list. The caller records that the
    /// task freed it ([`Self::note_given`]), for several pages at once if it can.
    #[inline]
    fn retire(&self, cx: &Cx<'_, H>, (folio, page): (Folio, &Page)) {
        let flags = page.flags();
        let busy = PageFlags::LRU | PageFlags::LOCKED | PageFlags::WRITEBACK;
        debug_assert!(!flags.intersects(busy), "a page in use is freed: {flags:?}");
        debug_assert!(!page.is_mapped(), "a mapped page is freed: {:?}", page.mapping());
        debug_assert_eq!(page.refcount(), 0);
        self.uncharge_folio(cx, folio);
        if flags.intersects(PageFlags::DEFERRED | PageFlags::MLOCKED) {
            self.retire_marked(cx, folio, flags);
        }
        page.reset_usage();
    }

    #[cold]
    fn retire_marked(&self, cx: &Cx<'_, H>, folio: Folio, flags: PageFlags) {
        if flags.contains(PageFlags::DEFERRED) {
            self.unqueue_split(cx, folio);
        }
        if flags.contains(PageFlags::MLOCKED) {
            self.mem.account(cx.cpu(), folio).zone_minus(ZoneStat::Mlock);
            self.mem.events.add(cx.cpu(), VmEvent::UnevictablePgsCleared, folio.nr_pages());
        }
    }
}
