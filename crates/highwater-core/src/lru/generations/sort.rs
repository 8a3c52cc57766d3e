//! Sorting and isolation at the end of the oldest generation (rules/mglru#sort).
//!
//! Eviction comes to a list that was never sorted: pages that were used since carry the number of a
//! younger generation, pages that were read often have marks, others are in the way of a write.
//! They move to where they belong; the first ones that need not are isolated.

use alloc::vec::Vec;

use super::{ALL_MARKS, End, Leaving, LockedLru, marks, slot_flags, slot_of, slot_of_page};
use crate::config::{DirtyTail, FirstUse, ReadEntry, RecentRule};
use crate::host::{Cost, Devices, Probe};
use crate::lru::isolate;
use crate::page::{Folio, Page, PageFlags};
use crate::units::PageType;
use crate::vmstat::{NodeStat, VmEvent};
use crate::zone::ZoneType;

/// Pages isolated together, and pages passed over before the next zone.
#[doc(alias = "MIN_LRU_BATCH")]
pub(crate) const SCAN_BATCH: u64 = 64;
/// Folios looked at under one hold of the lock.
#[doc(alias = "MAX_LRU_BATCH")]
const LOOKS_MAX: u64 = 4096;

/// The pages that a scan may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SortMode {
    /// Pages of higher zones move on.
    pub highest: ZoneType,
    /// False: mapped pages stay.
    pub may_unmap: bool,
    /// False: pages that would have to be written stay.
    pub may_write: bool,
    /// Pages of higher tiers are protected.
    pub limit: usize,
    /// Pages to isolate.
    pub most: u64,
}

/// The result of a scan, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sorted {
    /// Looked at.
    pub scanned: u64,
    /// Moved to another list.
    pub sorted: u64,
    /// Isolated.
    pub isolated: u64,
    /// Passed over.
    pub skipped: u64,
    /// Folios looked at.
    pub looks: u64,
}

impl Sorted {
    /// Adds another scan.
    pub(crate) fn add(&mut self, other: &Sorted) {
        self.scanned += other.scanned;
        self.sorted += other.sorted;
        self.isolated += other.isolated;
        self.skipped += other.skipped;
        self.looks += other.looks;
    }

    /// The pages that count as scanned: none if the lists had nothing to take.
    pub(crate) fn result(&self) -> u64 {
        if self.isolated != 0 || self.looks >= LOOKS_MAX { self.scanned } else { 0 }
    }
}

/// The place of a page after a scan has come to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// On the list that it names, newest there.
    Named,
    /// Anonymous again: programs wrote to lazily freed memory.
    AnonAgain,
    /// In the next generation.
    Next { end: End, set: PageFlags, is_protected: Option<usize> },
    /// Where it is, until the zone is done.
    Stays,
    /// Isolated.
    Taken,
}

impl<H: Devices> LockedLru<'_, '_, H> {
    /// Sorts pages at the end of the oldest generation of a type, and isolates the first that may
    /// be reclaimed, with a reference each.
    #[doc(alias = "scan_folios")]
    #[doc(alias = "scan_pages")]
    pub(crate) fn isolate_oldest(
        &mut self,
        page_type: PageType,
        mode: &SortMode,
        out: &mut Vec<Folio>,
    ) -> Sorted {
        let kernel = self.kernel;
        let mut done = Sorted::default();
        let Some(gens) = kernel.generations(self.id) else { return done };
        let window = gens.window(page_type);
        if window.len() <= 2 {
            return done;
        }
        let slot = slot_of(window.min);
        let eligible = (0..=mode.highest.idx()).rev();
        // [6.1.0] leaves those of higher zones alone.
        let others = (mode.highest.idx() + 1..ZoneType::COUNT).rev();
        let is_first_release = kernel.mglru_policy().read_entry == ReadEntry::Oldest;
        let others = others.filter(|_| !is_first_release);
        for zone in eligible.chain(others).map(|zone| ZoneType::ALL[zone]) {
            let before = done;
            let mut aside = Vec::new();
            while let Some(pfn) =
                self.lists.queues.as_ref().and_then(|queues| queues.tail(slot, page_type, zone))
            {
                let (folio, page) = kernel.mem.map.lookup(pfn);
                let pages = folio.nr_pages();
                done.scanned += pages;
                done.looks += 1;
                let place = self.place(slot, page, mode);
                match self.move_to((folio, page), (slot, window.min + 1), place) {
                    Place::Taken => {
                        out.push(folio);
                        done.isolated += pages;
                    }
                    Place::Stays => {
                        aside.push(folio);
                        done.skipped += pages;
                    }
                    _ => done.sorted += pages,
                }
                let is_full = done.isolated >= mode.most
                    || done.skipped - before.skipped >= SCAN_BATCH
                    || done.looks >= LOOKS_MAX;
                if is_full {
                    break;
                }
            }
            for folio in aside {
                self.join_again(folio, (slot, page_type, zone));
            }
            let skipped = done.skipped - before.skipped;
            if skipped != 0 {
                let events = &kernel.mem.events;
                events.add_zoned(self.cx.cpu(), VmEvent::PgskipDma, zone, skipped);
            }
            if done.isolated >= mode.most || done.looks >= LOOKS_MAX {
                break;
            }
        }
        self.cx.charge(Cost::LruIsolate, done.looks as u32);
        done
    }

    /// Decides about a page (the rules of the table, in their order).
    #[doc(alias = "sort_folio")]
    #[doc(alias = "sort_page")]
    fn place(&self, slot: usize, page: &Page, mode: &SortMode) -> Place {
        let policy = self.kernel.mglru_policy();
        let flags = page.flags();
        let has = |these| flags.contains(these);
        let none = PageFlags::empty();
        let next = |end, set| Place::Next { end, set, is_protected: None };
        if !page.is_evictable() {
            return Place::Taken;
        }
        let sorts_dirty = policy.dirty_tail == DirtyTail::NextGeneration;
        let is_anon_memory = page.is_anon();
        if sorts_dirty && is_anon_memory && !has(PageFlags::SWAPBACKED) && has(PageFlags::DIRTY) {
            return Place::AnonAgain;
        }
        if slot_of_page(flags) != Some(slot) {
            return Place::Named;
        }
        let tier = marks::tier(policy.first_use, flags);
        let is_saturated =
            policy.tiers && policy.read_entry != ReadEntry::Oldest && marks::is_saturated(flags);
        if tier > mode.limit || is_saturated {
            let is_7_2 = policy.first_use == FirstUse::Marks;
            let end = if is_7_2 { End::Head } else { End::Tail };
            let counts = tier > mode.limit || !is_7_2;
            return Place::Next { end, set: none, is_protected: counts.then_some(tier) };
        }
        if page.zone_id().zone_type() > mode.highest {
            return next(End::Tail, none);
        }
        let is_file = !has(PageFlags::SWAPBACKED);
        let is_in_the_way = flags.intersects(PageFlags::LOCKED | PageFlags::WRITEBACK)
            || is_file && has(PageFlags::DIRTY);
        if sorts_dirty && is_in_the_way {
            return next(End::Head, PageFlags::RECLAIM);
        }
        let needs_write = has(PageFlags::DIRTY)
            || is_anon_memory && has(PageFlags::SWAPBACKED) && !has(PageFlags::SWAPCACHE);
        let stays =
            sorts_dirty && !mode.may_unmap && page.is_mapped() || !mode.may_write && needs_write;
        if stays { Place::Stays } else { Place::Taken }
    }

    /// Takes a page off the list and puts it where it belongs; returns where it went.
    fn move_to(
        &mut self,
        (folio, page): (Folio, &Page),
        (slot, next): (usize, u64),
        place: Place,
    ) -> Place {
        let kernel = self.kernel;
        let map = &kernel.mem.map;
        let zone = page.zone_id().zone_type();
        match place {
            Place::Taken if !isolate::take::<H>(page, true) => {
                self.unlink_queued(zone, folio);
                return Place::Stays;
            }
            Place::Taken => {
                self.leave(folio, Leaving::Isolated);
                self.forget_old_marks(page);
                return place;
            }
            Place::AnonAgain => {
                self.leave(folio, Leaving::Isolated);
                page.flag_set::<H>(PageFlags::SWAPBACKED);
                self.enter(folio, page.flags(), End::Tail);
                return place;
            }
            Place::Named | Place::Next { .. } | Place::Stays => {}
        }
        self.unlink_queued(zone, folio);
        let page_type = PageType::of(page);
        let (mut to, mut end) = (slot_of_page(page.flags()).unwrap_or(slot), End::Head);
        if let Place::Next { end: wanted, set, is_protected } = place {
            let next = slot_of(next);
            let before = page.flag_update::<H>(|flags| {
                let stays = slot_of_page(flags) == Some(slot);
                stays.then(|| (flags - ALL_MARKS - PageFlags::GENERATION) | slot_flags(next) | set)
            });
            if slot_of_page(before) == Some(slot) {
                kernel.recount(self.cx, self.id, (folio, page), before, [Some(slot), Some(next)]);
                (to, end) = (next, wanted);
            }
            if let (Some(tier), Some(gens)) = (is_protected, kernel.generations(self.id)) {
                gens.feedback.protected(page_type, tier, folio.nr_pages());
                if kernel.mglru_policy().recent == RecentRule::OldestGeneration {
                    let item = NodeStat::WorkingsetActivateAnon;
                    kernel.count_workingset(self.cx, self.id, (folio, page), item);
                }
            }
        }
        if place != Place::Stays
            && let Some(queues) = &mut self.lists.queues
        {
            queues.join(map, (to, page_type, zone), folio.pfn(), end);
        }
        place
    }

    /// An isolated page is judged by its uses from now on: without a mark since the last promotion
    /// or refault, older ones do not count. In 7.2 only the counted marks go.
    #[doc(alias = "isolate_folio")]
    fn forget_old_marks(&self, page: &Page) {
        let policy = self.kernel.mglru_policy();
        let reclaim = match policy.dirty_tail {
            DirtyTail::NextGeneration => PageFlags::RECLAIM,
            DirtyTail::Judged => PageFlags::empty(),
        };
        let (always, unless_referenced) = match policy.first_use {
            FirstUse::Promotes => {
                (reclaim | PageFlags::REFERENCED, PageFlags::MARKS | PageFlags::WORKINGSET)
            }
            FirstUse::Marks => (reclaim, PageFlags::MARKS),
        };
        page.flag_update::<H>(|flags| {
            let is_referenced = flags.contains(PageFlags::REFERENCED);
            Some(
                flags - always - if is_referenced { PageFlags::empty() } else { unless_referenced },
            )
        });
    }

    fn unlink_queued(&mut self, zone: ZoneType, folio: Folio) {
        if let Some(queues) = &mut self.lists.queues {
            queues.leave(&self.kernel.mem.map, zone, folio.pfn());
        }
    }

    /// A page that was set aside comes back to the head of its list.
    fn join_again(&mut self, folio: Folio, place: (usize, PageType, ZoneType)) {
        if let Some(queues) = &mut self.lists.queues {
            queues.join(&self.kernel.mem.map, place, folio.pfn(), End::Head);
        }
    }
}
