//! Serving a request from another migratetype's blocks (rules/buddy#fallback).
//!
//! Largest block first, so that mixing types costs as few pageblocks as possible; movable requests
//! that cannot claim a pageblock take the smallest instead.

use super::{AllocFlags, Buddy};
use crate::config::{FallbackRule, HighatomicKind};
use crate::host::{Cost, Probe};
use crate::page::{
    BlockFlags, MigrateType, Order, PAGEBLOCK_ORDER, PAGEBLOCK_PAGES, PageFlags, Pfn,
};
use crate::trace::Event;
use crate::zone::{ZoneFlags, watermark};

/// From this order on (half a pageblock) any type claims the pageblock.
const STEAL_ORDER: u8 = PAGEBLOCK_ORDER / 2;
/// Zones smaller than this (pages) are not boosted: four pageblocks.
const BOOST_MANAGED_MIN: u64 = 4 * PAGEBLOCK_PAGES;

/// Types tried after the own one (rules/buddy#fallback-order).
const fn fallbacks(migratetype: MigrateType) -> &'static [MigrateType] {
    match migratetype {
        MigrateType::Unmovable => &[MigrateType::Reclaimable, MigrateType::Movable],
        MigrateType::Movable => &[MigrateType::Reclaimable, MigrateType::Unmovable],
        MigrateType::Reclaimable => &[MigrateType::Unmovable, MigrateType::Movable],
        MigrateType::HighAtomic | MigrateType::Isolate => &[],
    }
}

impl<P: Probe> Buddy<'_, P> {
    /// Takes a block of `order` for a type, from its own lists or by fallback
    /// (rules/buddy#remove). The caller subtracts its pages from NR_FREE.
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
        self.map.page(pfn).set_migratetype(from);
        let event = Event::PageAllocZoneLocked { pfn, order, migratetype, percpu_refill };
        self.probe.event(event);
        Some(pfn)
    }

    /// Finds another type's block and moves it (and perhaps its pageblock) to `start`'s lists;
    /// false if there is none (rules/buddy#fallback).
    fn fallback(&mut self, order: Order, start: MigrateType, flags: AllocFlags) -> bool {
        let no_fragment = flags.contains(AllocFlags::NOFRAGMENT);
        let min = if no_fragment { order.0.max(PAGEBLOCK_ORDER) } else { order.0 };
        let found = (min..=Order::MAX.0).rev().find_map(|o| self.find(Order(o), start));
        let Some((mut at, mut from, steal)) = found else {
            return false;
        };
        let mut whole = steal;
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

    /// First other type with a block of exactly this order, and whether it may be claimed whole.
    fn find(&self, order: Order, start: MigrateType) -> Option<(Order, MigrateType, bool)> {
        let lists = &self.area.lists[order.idx()];
        let from = fallbacks(start).iter().find(|t| !lists[t.idx()].is_empty())?;
        Some((order, *from, self.can_steal(order, start)))
    }

    fn can_steal(&self, order: Order, start: MigrateType) -> bool {
        order.0 >= STEAL_ORDER
            || matches!(start, MigrateType::Reclaimable | MigrateType::Unmovable)
            || !self.zone.grouping
    }

    /// Moves a block, all free blocks of its pageblock, or the pageblock itself to `start`
    /// (rules/buddy#steal).
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
            return self.move_to(pfn, start, true);
        }
        if order.0 >= PAGEBLOCK_ORDER {
            self.claim_pageblocks(pfn, order, start);
            return self.move_to(pfn, start, true);
        }
        if self.boost() && flags.contains(AllocFlags::KSWAPD) {
            self.zone.set_flag(ZoneFlags::BOOSTED_WATERMARK);
        }
        if !whole {
            return self.move_to(pfn, start, true);
        }
        let Some((free, movable)) = self.move_pageblock(pfn, start, true) else {
            return self.move_to(pfn, start, true);
        };
        let alike = match (start, old) {
            (MigrateType::Movable, _) => movable,
            (_, MigrateType::Movable) => PAGEBLOCK_PAGES - (free + movable),
            _ => 0,
        };
        if free + alike >= PAGEBLOCK_PAGES / 2 || !self.zone.grouping {
            self.zone.set_pageblock_type(pfn, start);
        }
    }

    /// Moves every free block of `pfn`'s pageblock to `to`'s lists. Returns pages moved and pages
    /// in use that could be moved; none if the pageblock reaches out of the zone's end.
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
            let page = self.map.page(at);
            if page.has(BlockFlags::BUDDY) {
                let order = page.order();
                self.move_to(at, to, to_tail);
                free += order.pages();
                at = at.add(1 << order.0);
            } else {
                let is_movable = page.is(PageFlags::LRU) || page.has(BlockFlags::MOVABLE_OPS);
                // A compound page moves as a whole.
                let whole = is_movable && page.has(BlockFlags::HEAD);
                let left = u64::from(end.0 - at.0);
                let pages = if whole { page.order().pages().min(left) } else { 1 };
                movable += if is_movable { pages } else { 0 };
                at = at.add(pages as u32);
            }
        }
        Some((free, movable))
    }

    fn claim_pageblocks(&mut self, pfn: Pfn, order: Order, start: MigrateType) {
        for block in (pfn.0..pfn.0 + (1 << order.0)).step_by(1 << PAGEBLOCK_ORDER) {
            self.zone.set_pageblock_type(Pfn(block), start);
        }
    }

    /// Raises the zone's marks for a while, so that kswapd frees enough to avoid the next mixing
    /// (rules/watermarks#boost). False if the zone is not boosted.
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
