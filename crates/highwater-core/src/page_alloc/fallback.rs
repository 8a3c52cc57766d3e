//! Serving a request from another migratetype's blocks (rules/buddy#fallback).
//!
//! One unmovable page in a movable pageblock makes these 2 MiB useless for huge pages, for as long
//! as it lives. So each type has separate lists. This module handles the case that a type's lists
//! are empty and others are not. Failing would waste memory. Taking any block would spoil every
//! pageblock, one page at a time. So if types have to mix, they mix in as few pageblocks as
//! possible.
//!
//! | requesting type | other type's block | taken | because |
//! |---|---|---|---|
//! | any | order 9, 10 | it, its pageblocks | whole pageblocks change hands: nothing mixes |
//! | Unmovable, Reclaimable | smaller | all free ones of its pageblock | it is mixed anyway, so the next request may go there too |
//! | Movable | order 4 to 8 | all free ones of its pageblock | many free pages come with it |
//! | Movable | smaller | the smallest, alone | it can be moved out later, so it need not claim |
//!
//! So the *largest block* goes first: it brings the most free pages, and the next fallback is far
//! off. The pageblock also changes its type if at least half of it is free or of the requesting
//! type. 6.12 decides this first, and moves nothing if the pageblock stays ([`claim`]).
//!
//! Two further rules make fallbacks rare. NOFRAGMENT makes a request prefer another zone. A *boost*
//! raises the zone's marks after a fallback. Then kswapd frees more than usual, and the next
//! request of the type finds blocks of its type (rules/watermarks#boost). 4.3 to 4.6 have neither,
//! and take the largest block for movable pages too (rules/buddy#fallback-v43).
//!
//! Synchronisation: all of it under one hold of the zone lock, so no task sees a pageblock half
//! moved. Pages on per-CPU lists are not moved. They count as neither free nor movable, keep their
//! old type, and return to that type's lists, although their pageblock has another type by then.
//! That is tolerated: they are few, and finding them would take every CPU's lock.
//!
//! From: [`super::pcp`] (refill), [`super::fast`] · to: [`super::buddy`].

mod claim;

use super::{AllocFlags, Buddy};
use crate::config::{FallbackRule, HighatomicKind};
use crate::host::{Cost, Probe};
use crate::page::{
    BlockFlags, Folio, MigrateType, Order, PAGEBLOCK_ORDER, PAGEBLOCK_PAGES, PageFlags, Pfn,
};
use crate::trace::Event;
use crate::zone::{ZoneFlags, ZoneInfo, watermark};

/// From this order on (half of a pageblock's order: 16 pages) any type claims the pageblock
/// (rules/buddy#can-steal).
const STEAL_ORDER: u8 = PAGEBLOCK_ORDER / 2;
/// Zones smaller than this (pages) are not boosted: four pageblocks. A boost is a pageblock at a time,
/// and would ask for a quarter of such a zone at once.
const BOOST_MANAGED_MIN: u64 = 4 * PAGEBLOCK_PAGES;

/// Types tried after the own one (rules/buddy#fallback-order).
///
/// Unmovable and Reclaimable requests use each other's blocks first, so that movable pageblocks
/// stay clean. Movable requests use Reclaimable blocks first, because the pages there can at least
/// be dropped. No fallback takes reserved or isolated blocks.
const fn fallbacks(migratetype: MigrateType) -> &'static [MigrateType] {
    match migratetype {
        MigrateType::Unmovable => &[MigrateType::Reclaimable, MigrateType::Movable],
        MigrateType::Movable => &[MigrateType::Reclaimable, MigrateType::Unmovable],
        MigrateType::Reclaimable => &[MigrateType::Unmovable, MigrateType::Movable],
        MigrateType::HighAtomic | MigrateType::Isolate => &[],
    }
}

/// Reports whether a request should claim the whole pageblock of a block that it takes from another
/// type. With one type only, nothing can mix.
#[doc(alias = "can_steal_fallback")]
fn may_claim(zone: &ZoneInfo, order: Order, start: MigrateType) -> bool {
    order.0 >= STEAL_ORDER
        || matches!(start, MigrateType::Reclaimable | MigrateType::Unmovable)
        || !zone.grouping
}

/// Whether a request of a type would get a block of exactly this order: from its own lists, or from
/// another type's together with all free blocks of its pageblock. Called without the zone lock.
pub(crate) fn could_serve(zone: &ZoneInfo, order: Order, start: MigrateType) -> bool {
    let types = zone.list_types(order);
    let has = |t: MigrateType| types & (1 << t as u8) != 0;
    has(start) || (may_claim(zone, order, start) && fallbacks(start).iter().any(|&t| has(t)))
}

impl<P: Probe> Buddy<'_, P> {
    /// Takes a block of `order` for a type, from its own lists or by fallback
    /// (rules/buddy#remove). The caller subtracts its pages from NR_FREE.
    #[doc(alias = "__rmqueue")]
    pub fn remove(
        &mut self,
        order: Order,
        migratetype: MigrateType,
        flags: AllocFlags,
        percpu_refill: bool,
    ) -> Option<Pfn> {
        self.probe.charge(Cost::BuddyRemove, 1);
        let (pfn, from) = loop {
            if let Some(pfn) = self.take(order, migratetype) {
                break (pfn, migratetype);
            }
            // A fallback moves a block to the own lists, and they are searched again: the steal may
            // have brought smaller ones along, and the smallest sufficient one is to go.
            match self.policy.fallback {
                FallbackRule::Compatible => {
                    if !self.fallback(order, migratetype, flags) {
                        return None;
                    }
                }
                FallbackRule::ClaimSteal => {
                    // The refilled list is of the requesting type, also for a block of a pageblock
                    // that is not: a drain finds the pageblock's type.
                    break (self.claim_or_steal(order, migratetype, flags)?, migratetype);
                }
                FallbackRule::Largest => {
                    if let Some(pfn) = self.fallback_largest(order, migratetype) {
                        break (pfn, migratetype);
                    }
                    // The RESERVE type is the last resort of every type (4.3).
                    if self.policy.highatomic != HighatomicKind::Reserve {
                        return None;
                    }
                    break (self.take(order, MigrateType::HighAtomic)?, MigrateType::HighAtomic);
                }
            }
        };
        // The type of the list it came from. A refill keeps it with the page, a drain frees it back
        // there.
        self.map.page(pfn).set_migratetype(from);
        let event = Event::PageAllocZoneLocked { pfn, order, migratetype, percpu_refill };
        self.probe.event(event);
        Some(pfn)
    }

    /// Finds another type's block and moves it (and perhaps its pageblock) to `start`'s lists;
    /// false if there is none (rules/buddy#fallback).
    #[doc(alias = "__rmqueue_fallback")]
    fn fallback(&mut self, order: Order, start: MigrateType, flags: AllocFlags) -> bool {
        let no_fragment = flags.contains(AllocFlags::NOFRAGMENT);
        // With NOFRAGMENT only blocks that change type as whole pageblocks, because these do not
        // mix types.
        let min = if no_fragment { order.0.max(PAGEBLOCK_ORDER) } else { order.0 };
        let found = (min..=Order::MAX.0).rev().find_map(|o| self.find(Order(o), start));
        let Some((mut at, mut from, steal)) = found else {
            return false;
        };
        let mut whole = steal;
        // Largest first pays if the pageblock is claimed. A movable page that takes one block only
        // would break a large one for nothing.
        if !steal && start == MigrateType::Movable && at > order {
            let smallest = (order.0..=Order::MAX.0).find_map(|o| self.find(Order(o), start));
            if let Some(found) = smallest {
                (at, from, whole) = found;
            }
        }
        let Some(pfn) = self.area.lists[at.idx()][from.idx()].head() else {
            return false;
        };
        self.steal(pfn, at, start, flags, whole);
        self.extfrag(pfn, order, at, start, from);
        true
    }

    /// Finds the first other type with a block of exactly this order, and whether its pageblock may
    /// be claimed.
    #[doc(alias = "find_suitable_fallback")]
    fn find(&self, order: Order, start: MigrateType) -> Option<(Order, MigrateType, bool)> {
        let lists = &self.area.lists[order.idx()];
        let from = fallbacks(start).iter().find(|t| !lists[t.idx()].is_empty())?;
        Some((order, *from, may_claim(self.zone, order, start)))
    }

    /// Moves a block, all free blocks of its pageblock, or the pageblock itself to `start`
    /// (rules/buddy#steal).
    #[doc(alias = "steal_suitable_fallback")]
    fn steal(
        &mut self,
        pfn: Pfn,
        order: Order,
        start: MigrateType,
        flags: AllocFlags,
        whole: bool,
    ) {
        let old = self.zone.pageblock_type(pfn);
        if old == MigrateType::HighAtomic {
            // The block strayed to another type's list, but its pageblock is set aside: only the block
            // goes.
            return self.move_to(pfn, start, true);
        }
        if order.0 >= PAGEBLOCK_ORDER {
            // No boost: pageblocks change hands as a whole, nothing is mixed that kswapd could help
            // against.
            self.claim_pageblocks(pfn, order, start);
            return self.move_to(pfn, start, true);
        }
        self.boost_for(flags);
        if !whole {
            return self.move_to(pfn, start, true);
        }
        let Some((free, movable)) = self.move_pageblock(pfn, start, true) else {
            return self.move_to(pfn, start, true);
        };
        if self.is_mostly(start, old, free, movable) {
            self.zone.set_pageblock_type(pfn, start);
        }
    }

    /// Reports whether a pageblock of type `old` with so many free pages, and pages in use that could
    /// be moved, goes to `start`.
    ///
    /// Pages in use of the requesting type count like free ones. In a movable pageblock these are all
    /// unmovable pages, if the requesting type is unmovable too. Between Unmovable and Reclaimable, a
    /// page does not show its type.
    fn is_mostly(&self, start: MigrateType, old: MigrateType, free: u64, movable: u64) -> bool {
        let alike = match (start, old) {
            (MigrateType::Movable, _) => movable,
            (_, MigrateType::Movable) => PAGEBLOCK_PAGES - (free + movable),
            _ => 0,
        };
        free + alike >= PAGEBLOCK_PAGES / 2 || !self.zone.grouping
    }

    /// Raises the zone's marks after a fallback, and notes that kswapd is to be woken for it.
    fn boost_for(&self, flags: AllocFlags) {
        if self.boost() && flags.contains(AllocFlags::KSWAPD) {
            // A note for the next allocation: no task is woken under the zone lock, which is held
            // here.
            self.zone.set_flag(ZoneFlags::BOOSTED_WATERMARK);
        }
    }

    /// Moves every free block of a pageblock to another type's lists. Returns pages moved and pages
    /// in use that could be moved; none if the pageblock reaches out of the zone's end.
    ///
    /// Only lists change, not the type: the caller decides on that by the counts. Frames before the
    /// zone's start or after its end are under another zone's lock.
    #[doc(alias = "move_freepages_block")]
    #[doc(alias = "move_freepages")]
    pub(crate) fn move_pageblock(
        &mut self,
        pfn: Pfn,
        to: MigrateType,
        to_tail: bool,
    ) -> Option<(u64, u64)> {
        self.walk_pageblock(pfn, |buddy, at| buddy.move_to(at, to, to_tail))
    }

    /// Calls `each` with the free blocks of a pageblock, which it may move to other lists. Returns free
    /// pages, and pages in use that could be moved; none if the pageblock reaches out of the zone's
    /// end.
    fn walk_pageblock(
        &mut self,
        pfn: Pfn,
        mut each: impl FnMut(&mut Self, Pfn),
    ) -> Option<(u64, u64)> {
        let first = Pfn(pfn.0 & !((1 << PAGEBLOCK_ORDER) - 1));
        let end = first.add(1 << PAGEBLOCK_ORDER);
        if end > self.zone.end {
            return None;
        }
        let mut at = if self.zone.spans(first) { first } else { pfn };
        let (mut free, mut movable) = (0, 0);
        while at < end {
            let (page, word) = (self.map.page(at), self.map.block(at));
            if word.has(BlockFlags::BUDDY) {
                let order = word.order();
                each(self, at);
                free += order.pages();
                at = at.add(1 << order.0);
            } else {
                // A folio moves as a whole, and its head says whether it can. It may extend beyond
                // the pageblock on either side; only the part inside counts.
                let (head, page) = match page.has(BlockFlags::TAIL) {
                    true => self.map.lookup(at),
                    false => (Folio::page(at), page),
                };
                let is_movable = page.is(PageFlags::LRU) || page.has(BlockFlags::MOVABLE_OPS);
                let whole = is_movable && page.has(BlockFlags::HEAD);
                let after = || head.pfn().add(1 << page.order().0).min(end);
                let next = if whole { after() } else { at.add(1) };
                movable += if is_movable { u64::from(next.0 - at.0) } else { 0 };
                at = next;
            }
        }
        Some((free, movable))
    }

    fn claim_pageblocks(&mut self, pfn: Pfn, order: Order, start: MigrateType) {
        for block in (pfn.0..pfn.0 + (1 << order.0)).step_by(1 << PAGEBLOCK_ORDER) {
            self.zone.set_pageblock_type(Pfn(block), start);
        }
    }

    /// Boosts the zone's watermarks after a fallback, so that kswapd frees enough to avoid the next
    /// (rules/watermarks#boost). False if the zone is not boosted.
    ///
    /// Linux 5.0 on.
    ///
    /// Each fallback adds a pageblock, up to a cap. Without the cap, kswapd would empty the zone
    /// after a burst of fallbacks. Before the marks are set (boot) there is nothing to raise.
    #[doc(alias = "boost_watermark")]
    fn boost(&self) -> bool {
        let factor = self.zone.boost_factor();
        let high = self.zone.marks().high;
        let off = !self.policy.watermark.boost || factor == 0;
        if off || self.zone.managed() < BOOST_MANAGED_MIN || high == 0 {
            return false;
        }
        let max = watermark::boost_max(high, factor);
        self.zone.set_boost((self.zone.boost() + PAGEBLOCK_PAGES).min(max));
        true
    }

    /// 4.3: the largest block of another type, taken off its list directly; the rest of it goes to
    /// `start`'s lists (rules/buddy#fallback-v43).
    ///
    /// Only the pageblock's free pages decide whether its type changes, not pages in use of the
    /// requesting type. So a pageblock full of pages of the requesting type may keep the other
    /// type.
    fn fallback_largest(&mut self, order: Order, start: MigrateType) -> Option<Pfn> {
        let (at, from, steal) =
            (order.0..=Order::MAX.0).rev().find_map(|o| self.find(Order(o), start))?;
        let pfn = self.area.lists[at.idx()][from.idx()].head()?;
        if steal {
            if at.0 >= PAGEBLOCK_ORDER {
                self.claim_pageblocks(pfn, at, start);
            } else if let Some((free, _)) = self.move_pageblock(pfn, start, false)
                && free >= PAGEBLOCK_PAGES / 2
            {
                self.zone.set_pageblock_type(pfn, start);
            }
        }
        self.unlink(pfn);
        self.expand(pfn, order, at, start);
        self.map.page(pfn).set(BlockFlags::empty(), order, start);
        self.extfrag(pfn, order, at, start, from);
        Some(pfn)
    }

    fn extfrag(
        &self,
        pfn: Pfn,
        alloc_order: Order,
        fallback_order: Order,
        alloc_migratetype: MigrateType,
        fallback_migratetype: MigrateType,
    ) {
        self.probe.event(Event::PageAllocExtfrag {
            pfn,
            alloc_order,
            fallback_order,
            alloc_migratetype,
            fallback_migratetype,
            change_ownership: self.zone.pageblock_type(pfn) == alloc_migratetype,
        });
    }
}
