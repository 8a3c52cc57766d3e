//! The swap cache: pages that have a slot (rules/swap#swap-out, rules/swap#swap-in).

use alloc::vec::Vec;
use core::ops::Range;

use super::Slot;
use super::slots::{CLUSTER, Left, Slots};
use crate::host::{Cx, Devices, Lock};
use crate::kernel::Kernel;
use crate::lru::Shadow;
use crate::page::{Folio, Page, PageFlags, Pfn};
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::GroupId;
use crate::vmstat::NodeStat;

impl<H: Devices> Kernel<H> {
    /// Gives a locked anonymous page a slot and puts it in the swap cache, dirty; false if there is
    /// no slot. A huge page gets a cluster of its own, a slot and a reference for each of its
    /// pages.
    ///
    /// Linux: same name.
    pub(crate) fn add_to_swap(&self, cx: &Cx<'_, H>, folio: Folio) -> bool {
        let page = self.mem.map.page(folio);
        debug_assert!(page.is(PageFlags::LOCKED) && !page.is(PageFlags::SWAPCACHE));
        debug_assert!(matches!(folio.nr_pages(), 1 | SLOTS_OF_HUGE), "slots for all of it");
        let Some(slot) = self.swap_alloc(cx, folio) else {
            return false;
        };
        self.enter_cache(page, folio, slot, PageFlags::DIRTY);
        {
            let mut slots = self.swap.area(slot).slots.lock(cx.cpu());
            for (offset, frame) in (slot.offset..).zip(folio.frames()) {
                slots.cache(offset, frame);
            }
        }
        self.count_cached(cx, folio, true);
        true
    }

    /// The slot of a page in the swap cache.
    #[inline]
    pub(crate) fn slot_of(&self, folio: Folio) -> Option<Slot> {
        Slot::unpack(self.swap.slot_of.get(folio.pfn().idx())?.load(Relaxed))
    }

    /// Finds the swap cache page of a slot, with a reference for the caller.
    ///
    /// The page may leave the cache before the caller has locked it: look at [`Kernel::slot_of`]
    /// again then.
    #[doc(alias = "swap_cache_get_folio")]
    #[doc(alias = "lookup_swap_cache")]
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
    #[doc(alias = "folio_free_swap")]
    #[doc(alias = "try_to_free_swap")]
    pub(crate) fn free_swap_cache(&self, cx: &Cx<'_, H>, folio: Folio, force: bool) -> bool {
        let page = self.mem.map.page(folio);
        debug_assert!(page.is(PageFlags::LOCKED));
        if !page.is(PageFlags::SWAPCACHE) || page.is(PageFlags::WRITEBACK) {
            return false;
        }
        let Some(slot) = self.slot_of(folio) else {
            return false;
        };
        let all = slots_of(folio, slot);
        let unused = self.swap.area(slot).change(cx.cpu(), |slots| {
            let out = force || all.clone().all(|offset| slots.count(offset) == 0);
            out.then(|| uncache_all(slots, all.clone(), None))
        });
        let Some(unused) = unused else {
            return false;
        };
        self.leave_cache(cx, page, folio);
        page.flag_set::<H>(PageFlags::DIRTY);
        let last = page.put::<H>(folio.nr_pages() as u32);
        debug_assert!(!last, "the caller has a reference");
        self.free_slots(cx, slot, &unused);
        true
    }

    /// Frees the slot of a page in the swap cache that is unmapped and not locked, if no entry
    /// names it (rules/unmap#release). The caller has a reference.
    #[doc(alias = "free_swap_cache")]
    pub(crate) fn try_free_swap_cache(&self, cx: &Cx<'_, H>, folio: Folio) {
        let page = self.mem.map.page(folio);
        if page.is(PageFlags::SWAPCACHE) && !page.is_mapped() && self.try_lock_page(folio) {
            self.free_swap_cache(cx, folio, false);
            self.unlock_page(cx, folio);
        }
    }

    /// A slot's only user is the cache: drops the cached page if it is unmapped, or swap is full,
    /// or `anyhow`, and if its lock is free. Consumes the caller's reference. True if the slot is
    /// free.
    pub(super) fn drop_cached(&self, cx: &Cx<'_, H>, folio: Folio, anyhow: bool) -> bool {
        let mut gone = false;
        if self.try_lock_page(folio) {
            let is_mapped = self.mem.map.page(folio).is_mapped();
            if anyhow || !is_mapped || self.is_swap_full(folio) {
                gone = self.free_swap_cache(cx, folio, false);
            }
            self.unlock_page(cx, folio);
        }
        self.put_page(cx, folio);
        gone
    }

    /// Removes a locked page from the swap cache for reclaim: freezes its references (the caller's,
    /// one for each slot) and leaves a shadow in the slots. True if the page belongs to the caller
    /// now.
    ///
    /// Linux: the branch of swap cache pages; file pages go by `remove_mapping_file`.
    #[doc(alias = "__remove_mapping")]
    pub(crate) fn remove_mapping_swap(
        &self,
        cx: &Cx<'_, H>,
        folio: Folio,
        target: GroupId,
    ) -> bool {
        let page = self.mem.map.page(folio);
        debug_assert!(page.is(PageFlags::LOCKED | PageFlags::SWAPCACHE));
        let Some(slot) = self.slot_of(folio) else {
            return false;
        };
        let keeps_shadow = self.mem.policy.reclaim.anon_workingset;
        let users = 1 + folio.nr_pages() as u32;
        let mut payer = 0;
        let unused = self.swap.area(slot).change(cx.cpu(), |slots| {
            let frozen = page.freeze::<H>(users)?;
            if page.is(PageFlags::DIRTY) {
                return None;
            }
            frozen.keep();
            payer = self.charge_swapped_out(folio);
            if payer != 0 {
                slots_of(folio, slot).for_each(|offset| slots.set_owner(offset, payer));
            }
            let shadow = keeps_shadow.then(|| self.workingset_eviction((folio, page), target));
            Some(uncache_all(slots, slots_of(folio, slot), shadow))
        });
        let Some(unused) = unused else {
            return false;
        };
        self.leave_cache(cx, page, folio);
        if payer != 0 {
            self.leave_memory(cx, folio, payer);
        }
        self.free_slots(cx, slot, &unused);
        true
    }

    /// Replaces a page in the swap cache by another frame, `new`, which only the caller refers to,
    /// if only the cache and the caller refer to the locked `old`. Afterwards the caller has both,
    /// and the cache has `new`.
    pub(crate) fn replace_in_swap_cache(
        &self,
        cx: &Cx<'_, H>,
        old: Folio,
        new: Folio,
        take_over: impl FnOnce(),
    ) -> bool {
        let page = self.mem.map.page(old);
        let Some(slot) = self.slot_of(old) else {
            return false;
        };
        let mut slots = self.swap.area(slot).slots.lock(cx.cpu());
        if slots.cached(slot.offset) != Some(old.pfn()) {
            return false;
        }
        let Some(frozen) = page.freeze::<H>(2) else { return false };
        take_over();
        self.swap.slot_of[new.pfn().idx()].store(slot.pack(), Relaxed);
        self.swap.slot_of[old.pfn().idx()].store(0, Relaxed);
        slots.recache(slot.offset, new.pfn());
        self.mem.map.page(new).get::<H>(1);
        frozen.thaw(1);
        true
    }

    /// Adds a page that is about to be read for a slot to the cache, unless another task was faster
    /// or the slot is unused by now. The page has the flags of a page under read.
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
        self.count_cached(cx, folio, true);
        self.uncharge_swapped_in(cx, slot);
        ReadPage::Added(shadow)
    }

    /// The frame of a swap cache folio that a slot is for; none if it is for another.
    pub(crate) fn frame_of_slot(&self, folio: Folio, slot: Slot) -> Option<Pfn> {
        let first = self.slot_of(folio)?;
        let at = slot.offset.checked_sub(first.offset)?;
        let is_one = first.area == slot.area && u64::from(at) < folio.nr_pages();
        is_one.then(|| folio.pfn().add(at))
    }

    /// Frees unused slots of the swap area of `slot`.
    fn free_slots(&self, cx: &Cx<'_, H>, slot: Slot, unused: &Unused) {
        match unused {
            Unused::None => {}
            Unused::One => self.free_slot(cx, slot),
            Unused::Some(offsets) => {
                offsets.iter().for_each(|&offset| self.free_slot(cx, Slot { offset, ..slot }));
            }
        }
    }

    /// A page of a file gets a slot, which the file's tree names from now on.
    pub(super) fn cache_for_file(&self, cx: &Cx<'_, H>, folio: Folio, slot: Slot) {
        self.enter_cache(self.mem.map.page(folio), folio, slot, PageFlags::empty());
        {
            let mut slots = self.swap.area(slot).slots.lock(cx.cpu());
            slots.cache(slot.offset, folio.pfn());
            slots.add_entry(slot.offset);
        }
        self.count_cached(cx, folio, true);
    }

    /// A locked page goes back to its file, which names the slot still: it leaves the cache.
    pub(super) fn uncache_for_file(&self, cx: &Cx<'_, H>, folio: Folio, slot: Slot) {
        let page = self.mem.map.page(folio);
        self.swap.area(slot).change(cx.cpu(), |slots| slots.uncache(slot.offset, None));
        self.leave_cache(cx, page, folio);
        let was_last = page.put::<H>(1);
        debug_assert!(!was_last, "the file has a reference");
    }

    /// A folio came into the swap cache, or left it. A node counts its pages as pages of files too,
    /// a memory cgroup does not.
    #[inline(always)]
    fn count_cached(&self, cx: &Cx<'_, H>, folio: Folio, is_in: bool) {
        let account = self.mem.account(cx.cpu(), folio);
        match is_in {
            true => account.node_plus(NodeStat::FilePages).plus(NodeStat::Swapcached),
            false => account.node_minus(NodeStat::FilePages).minus(NodeStat::Swapcached),
        };
    }

    /// Puts a locked page into the swap cache under its slot.
    #[doc(alias = "add_to_swap_cache")]
    fn enter_cache(&self, page: &Page, folio: Folio, slot: Slot, also: PageFlags) {
        page.get::<H>(folio.nr_pages() as u32);
        for (offset, frame) in (slot.offset..).zip(folio.frames()) {
            let slot = Slot { offset, ..slot };
            self.swap.slot_of[frame.idx()].store(slot.pack(), Relaxed);
        }
        page.flag_set::<H>(PageFlags::SWAPCACHE | also);
    }

    /// Takes a locked page out of the swap cache.
    #[doc(alias = "delete_from_swap_cache")]
    fn leave_cache(&self, cx: &Cx<'_, H>, page: &Page, folio: Folio) {
        page.flag_clear::<H>(PageFlags::SWAPCACHE);
        for frame in folio.frames() {
            self.swap.slot_of[frame.idx()].store(0, Relaxed);
        }
        self.count_cached(cx, folio, false);
    }
}

/// Pages of a huge page, and slots of a cluster.
const SLOTS_OF_HUGE: u64 = CLUSTER as u64;

/// Slots of pages that left the swap cache, and that no entry names.
enum Unused {
    None,
    /// The only one there was.
    One,
    Some(Vec<u32>),
}

/// The slots of a folio, starting at `slot`.
pub(super) fn slots_of(folio: Folio, slot: Slot) -> Range<u32> {
    slot.offset..slot.offset + folio.nr_pages() as u32
}

/// Takes the pages of some slots out of the cache.
fn uncache_all(slots: &mut Slots, all: Range<u32>, shadow: Option<Shadow>) -> Unused {
    // Nearly always.
    if all.len() == 1 {
        let left = slots.uncache(all.start, shadow);
        return if left == Left::Nobody { Unused::One } else { Unused::None };
    }
    Unused::Some(all.filter(|&at| slots.uncache(at, shadow) == Left::Nobody).collect())
}

/// What became of a page that was to be read for a slot.
pub(super) enum ReadPage {
    /// It is in the cache, locked; the shadow its slot held.
    Added(Option<Shadow>),
    /// Another page is, with a reference for the caller.
    Cached(Folio),
    /// No entry names the slot any more.
    Unused,
}
