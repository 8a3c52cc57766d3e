//! Serving a request from another migratetype's blocks (rules/buddy#fallback).
//!
//! One page that cannot move, in a pageblock of pages that can, takes these 2 MiB from everybody who
//! needs them in one piece, for as long as it lives. So each type has lists of its own. This room is
//! about the moment when those of a type are empty and others' are not. To fail would waste memory; to
//! take just any block would, one page at a time, spoil every pageblock. The answer: if types have to
//! mix, then in as few pageblocks as possible.
//!
//! | asking | other type's block | taken | because |
//! |---|---|---|---|
//! | any | order 9, 10 | it, its pageblocks | whole pageblocks change hands: nothing mixes |
//! | Unmovable, Reclaimable | smaller | all free ones around | spoiled anyway: the next may go there too |
//! | Movable | order 4 to 8 | all free ones around | much comes with it |
//! | Movable | smaller | the smallest, alone | can be moved out later, need not claim |
//!
//! Hence *largest block first*: it brings most free pages along, and the type will not be back soon.
//! The pageblock changes its type as well if at least half of it is free or of the asking kind: then
//! the few others in it are the strangers.
//!
//! Two things besides help that it happens seldom. NOFRAGMENT lets a request rather go to another zone;
//! and a *boost* raises the zone's marks after a mix, so that kswapd frees more than usual and the next
//! request of the type finds room of its own (rules/watermarks#boost). 4.3 to 4.6 have neither, and
//! take the largest for movable pages too (rules/buddy#fallback-v43).
//!
//! Synchronisation: all of it under one hold of the zone lock; nobody sees a pageblock half moved.
//! Pages of it that lie on per-CPU lists are out of reach: they count as neither free nor movable,
//! remember their old type and come back to its lists, in a pageblock that is another's by then. That
//! is tolerated: few they are, and to find them would take every CPU's lock.
//!
//! From: [`super::pcp`] (refill), [`super::fast`] · to: [`super::buddy`].

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
/// Unmovable and Reclaimable pages go to each other first, so that movable pageblocks stay clean;
/// Movable goes to Reclaimable first, since what is there can at least be dropped. Nobody takes what is
/// set aside or isolated here.
const fn fallbacks(migratetype: MigrateType) -> &'static [MigrateType] {
    match migratetype {
        MigrateType::Unmovable => &[MigrateType::Reclaimable, MigrateType::Movable],
        MigrateType::Movable => &[MigrateType::Reclaimable, MigrateType::Unmovable],
        MigrateType::Reclaimable => &[MigrateType::Unmovable, MigrateType::Movable],
        MigrateType::HighAtomic | MigrateType::Isolate => &[],
    }
}

/// Reports whether a request should claim the whole pageblock of a block that it takes from another
/// type. Where there is one type only, nothing is spoiled.
#[doc(alias = "can_steal_fallback")]
fn may_claim(zone: &ZoneInfo, order: Order, start: MigrateType) -> bool {
    order.0 >= STEAL_ORDER
        || matches!(start, MigrateType::Reclaimable | MigrateType::Unmovable)
        || !zone.grouping
}

/// Is there a block of exactly this order that a request of a type gets: of its own lists, or of another type's
/// and then with all that is free around it? Asked without the zone lock.
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
        // With NOFRAGMENT only what changes hands as whole pageblocks: then nothing is mixed.
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
        if self.boost() && flags.contains(AllocFlags::KSWAPD) {
            // A note for the next allocation. Here the zone lock is held: nobody is woken under it.
            self.zone.set_flag(ZoneFlags::BOOSTED_WATERMARK);
        }
        if !whole {
            return self.move_to(pfn, start, true);
        }
        let Some((free, movable)) = self.move_pageblock(pfn, start, true) else {
            return self.move_to(pfn, start, true);
        };
        // Pages in use that are of the asking kind speak for it as much as free ones. In a movable
        // pageblock all that cannot be moved is such, if the asking type cannot either; between
        // Unmovable and Reclaimable nothing about a page tells which it is.
        let alike = match (start, old) {
            (MigrateType::Movable, _) => movable,
            (_, MigrateType::Movable) => PAGEBLOCK_PAGES - (free + movable),
            _ => 0,
        };
        if free + alike >= PAGEBLOCK_PAGES / 2 || !self.zone.grouping {
            self.zone.set_pageblock_type(pfn, start);
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
                self.move_to(at, to, to_tail);
                free += order.pages();
                at = at.add(1 << order.0);
            } else {
                // A folio moves as a whole, and its head says whether. It may reach beyond the pageblock on
                // either side: only what is in it counts.
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
    /// By a pageblock for each mix and up to a cap, or a burst of mixes would have kswapd empty the
    /// zone. Before the marks are set (boot) there is nothing to raise.
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
    /// The type of a pageblock changes by its free pages alone, without those in use that are alike; so
    /// a pageblock that is full of the asking kind may stay another's.
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
