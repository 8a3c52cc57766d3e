//! The swap cache: pages that have a slot (rules/swap#swap-out, rules/swap#swap-in).

use super::Slot;
use super::slots::Left;
use crate::host::{Cx, Devices, Lock};
use crate::kernel::Kernel;
use crate::lru::Shadow;
use crate::page::{Folio, Page, PageFlags};
use crate::sync::atomic::Ordering::Relaxed;
use crate::vmstat::NodeStat;

impl<H: Devices> Kernel<H> {
    /// Gives a locked anonymous page a slot and puts it in the swap cache, dirty; false if there is
    /// no slot.
    pub(crate) fn add_to_swap(&self, cx: &Cx<'_, H>, folio: Folio) -> bool {
        let page = self.mem.map.page(folio);
        debug_assert!(page.is(PageFlags::LOCKED) && !page.is(PageFlags::SWAPCACHE));
        debug_assert!(!folio.is_large(), "a slot holds a single page");
        let Some(slot) = self.swap_alloc(cx) else {
            return false;
        };
        self.enter_cache(page, folio, slot, PageFlags::DIRTY);
        self.swap.area(slot).slots.lock(cx.cpu()).cache(slot.offset, folio.pfn());
        self.mem.account(cx.cpu(), folio).plus(NodeStat::FilePages).plus(NodeStat::Swapcached);
        true
    }

    /// The slot of a page in the swap cache.
    #[inline]
    pub(crate) fn slot_of(&self, folio: Folio) -> Option<Slot> {
        Slot::unpack(self.swap.slot_of.get(folio.pfn().idx())?.load(Relaxed))
    }

    /// The cached page of a slot, with a reference for the caller.
    ///
    /// The page may leave the cache before the caller has locked it: look at [`Kernel::slot_of`]
    /// again then.
    pub(crate) fn swap_cache_get(&self, cx: &Cx<'_, H>, slot: Slot) -> Option<Folio> {
        let slots = self.swap.area(slot).slots.lock(cx.cpu());
        let folio = self.mem.map.folio(slots.cached(slot.offset)?);
        self.mem.map.page(folio).get::<H>(1);
        Some(folio)
    }

    /// Takes a locked page out of the swap cache if no entry names its slot, or (`force`) anyhow;
    /// frees the slot if unnamed. True if it is out. A page under writeback stays.
    ///
    /// The page is dirty then: nothing else holds its contents.
    pub(crate) fn free_swap_cache(&self, cx: &Cx<'_, H>, folio: Folio, force: bool) -> bool {
        let page = self.mem.map.page(folio);
        debug_assert!(page.is(PageFlags::LOCKED));
        if !page.is(PageFlags::SWAPCACHE) || page.is(PageFlags::WRITEBACK) {
            return false;
        }
        let Some(slot) = self.slot_of(folio) else {
            return false;
        };
        let left = self.swap.area(slot).change(cx.cpu(), |slots| {
            let out = force || slots.count(slot.offset) == 0;
            out.then(|| slots.uncache(slot.offset, None))
        });
        let Some(left) = left else {
            return false;
        };
        self.leave_cache(cx, page, folio);
        page.flag_set::<H>(PageFlags::DIRTY);
        let last = page.put::<H>(1);
        debug_assert!(!last, "the caller has a reference");
        if left == Left::Nobody {
            self.free_slot(cx, slot);
        }
        true
    }

    /// Unmapping freed the last use of a page: if it is in the swap cache, unmapped, and its lock
    /// is free, it gives up its slot if nobody names that (rules/unmap#release). The caller has a
    /// reference.
    pub(crate) fn try_free_swap_cache(&self, cx: &Cx<'_, H>, folio: Folio) {
        let page = self.mem.map.page(folio);
        if page.is(PageFlags::SWAPCACHE) && !page.is_mapped() && self.try_lock_page(folio) {
            self.free_swap_cache(cx, folio, false);
            self.unlock_page(cx, folio);
        }
    }

    /// A slot's only user is the cache: drops the cached page if it is unmapped, or swap is full, or
    /// `anyhow`, and if its lock is free. Consumes the caller's reference. True if the slot is free.
    pub(super) fn drop_cached(&self, cx: &Cx<'_, H>, folio: Folio, anyhow: bool) -> bool {
        let mut gone = false;
        if self.try_lock_page(folio) {
            let is_mapped = self.mem.map.page(folio).is_mapped();
            if anyhow || !is_mapped || self.swap.is_full() {
                gone = self.free_swap_cache(cx, folio, false);
            }
            self.unlock_page(cx, folio);
        }
        self.put_page(cx, folio);
        gone
    }

    /// Reclaim's removal of a locked swap cache page: freezes its references at 2, leaves a shadow
    /// in the slot. True if the page belongs to the caller now.
    pub(crate) fn remove_mapping_swap(&self, cx: &Cx<'_, H>, folio: Folio) -> bool {
        let page = self.mem.map.page(folio);
        debug_assert!(page.is(PageFlags::LOCKED | PageFlags::SWAPCACHE));
        let Some(slot) = self.slot_of(folio) else {
            return false;
        };
        let keeps_shadow = self.mem.policy.reclaim.anon_workingset;
        let left = self.swap.area(slot).change(cx.cpu(), |slots| {
            if !page.freeze::<H>(2) {
                return None;
            }
            if page.is(PageFlags::DIRTY) {
                page.unfreeze(2);
                return None;
            }
            let shadow = keeps_shadow.then(|| self.workingset_eviction(folio));
            Some(slots.uncache(slot.offset, shadow))
        });
        let Some(left) = left else {
            return false;
        };
        self.leave_cache(cx, page, folio);
        if left == Left::Nobody {
            self.free_slot(cx, slot);
        }
        true
    }

    /// Puts a page that was just read for a slot into the cache, unless somebody was faster or the
    /// slot is not in use any more. The page has the flags of a page under input.
    pub(super) fn add_read_page(&self, cx: &Cx<'_, H>, folio: Folio, slot: Slot) -> ReadPage {
        let page = self.mem.map.page(folio);
        let shadow = {
            let mut slots = self.swap.area(slot).slots.lock(cx.cpu());
            if let Some(cached) = slots.cached(slot.offset) {
                let cached = self.mem.map.folio(cached);
                self.mem.map.page(cached).get::<H>(1);
                return ReadPage::Cached(cached);
            }
            if slots.count(slot.offset) == 0 {
                return ReadPage::Unused;
            }
            self.enter_cache(page, folio, slot, PageFlags::LOCKED | PageFlags::SWAPBACKED);
            slots.cache(slot.offset, folio.pfn())
        };
        self.mem.account(cx.cpu(), folio).plus(NodeStat::FilePages).plus(NodeStat::Swapcached);
        ReadPage::Added(shadow)
    }

    /// A page of a file gets a slot, which the file's tree names from now on.
    pub(super) fn cache_for_file(&self, cx: &Cx<'_, H>, folio: Folio, slot: Slot) {
        self.enter_cache(self.mem.map.page(folio), folio, slot, PageFlags::empty());
        {
            let mut slots = self.swap.area(slot).slots.lock(cx.cpu());
            slots.cache(slot.offset, folio.pfn());
            slots.add_entry(slot.offset);
        }
        self.mem.account(cx.cpu(), folio).plus(NodeStat::FilePages).plus(NodeStat::Swapcached);
    }

    /// A locked page goes back to its file, which names the slot still: it leaves the cache.
    pub(super) fn uncache_for_file(&self, cx: &Cx<'_, H>, folio: Folio, slot: Slot) {
        let page = self.mem.map.page(folio);
        self.swap.area(slot).change(cx.cpu(), |slots| slots.uncache(slot.offset, None));
        self.leave_cache(cx, page, folio);
        let was_last = page.put::<H>(1);
        debug_assert!(!was_last, "the file has a reference");
    }

    fn enter_cache(&self, page: &Page, folio: Folio, slot: Slot, also: PageFlags) {
        page.get::<H>(1);
        self.swap.slot_of[folio.pfn().idx()].store(slot.pack(), Relaxed);
        page.flag_set::<H>(PageFlags::SWAPCACHE | also);
    }

    fn leave_cache(&self, cx: &Cx<'_, H>, page: &Page, folio: Folio) {
        page.flag_clear::<H>(PageFlags::SWAPCACHE);
        self.swap.slot_of[folio.pfn().idx()].store(0, Relaxed);
        self.mem.account(cx.cpu(), folio).minus(NodeStat::FilePages).minus(NodeStat::Swapcached);
    }
}

/// What became of a page that was to be read for a slot.
pub(super) enum ReadPage {
    /// It is in the cache, locked; the shadow its slot held.
    Added(Option<Shadow>),
    /// Another page is, with a reference for the caller.
    Cached(Folio),
    /// Nobody names the slot any more.
    Unused,
}
