//! The buddy lists of one zone: split, merge, insert, take (rules/buddy#lists).
//!
//! [`Buddy`] is a zone's free lists while the zone lock is held, with what the operations need
//! beside them. It knows nothing of hosts: a [`Probe`] receives charges and events, so tests run
//! it with a recorder.
//!
//! Free counts: [`Buddy::free_block`] adds to NR_FREE; callers of [`Buddy::take`] subtract, since
//! they know how many pages they keep.

use crate::config::{MergeRule, Policy};
use crate::host::{Cost, Probe};
use crate::page::{BlockFlags, MigrateType, Order, PAGEBLOCK_ORDER, PageMap, Pfn};
use crate::zone::{FreeArea, ZoneInfo};

/// A block that a direct compactor waits for (rules/buddy#capture).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Order wanted.
    pub order: Order,
    /// Type wanted.
    pub migratetype: MigrateType,
    /// The block, once caught.
    pub page: Option<Pfn>,
}

impl Capture {
    /// Does the compactor get a block of this order and type?
    fn applies(&self, order: Order, migratetype: MigrateType) -> bool {
        let small_movable = order.0 < PAGEBLOCK_ORDER && migratetype == MigrateType::Movable;
        self.page.is_none()
            && order == self.order
            && migratetype != MigrateType::Isolate
            && !small_movable
    }
}

/// A zone's free lists, zone lock held.
pub struct Buddy<'a, P> {
    /// The page array.
    pub map: &'a PageMap,
    /// The zone.
    pub zone: &'a ZoneInfo,
    /// Its lists.
    pub area: &'a mut FreeArea,
    /// Merge and fallback rules.
    pub policy: &'a Policy,
    /// Charges and events go here.
    pub probe: &'a P,
    /// A direct compactor of this zone that runs on this CPU.
    pub capture: Option<&'a mut Capture>,
}

impl<P: Probe> Buddy<'_, P> {
    /// Frees a block to the lists of `migratetype`, merging it with free buddies; NR_FREE grows.
    pub fn free_block(&mut self, pfn: Pfn, order: Order, migratetype: MigrateType, to_tail: bool) {
        self.probe.charge(Cost::BuddyFree, 1);
        if migratetype != MigrateType::Isolate {
            self.zone.add_free(self.probe.cpu(), order.pages() as i64);
        }
        let (mut pfn, mut order) = (pfn, order);
        self.map.page(pfn).clear();
        self.map.page(pfn).set_refcount(0);
        while order < Order::MAX {
            if let Some(capture) = &mut self.capture
                && capture.applies(order, migratetype)
            {
                capture.page = Some(pfn);
                self.zone.add_free(self.probe.cpu(), -(order.pages() as i64));
                return;
            }
            let buddy = pfn.buddy(order);
            if !self.is_free_buddy(pfn, buddy, order)
                || (order.0 >= PAGEBLOCK_ORDER && !self.may_merge(buddy, migratetype))
            {
                break;
            }
            self.unlink(buddy);
            pfn = Pfn(pfn.0 & buddy.0);
            order = Order(order.0 + 1);
        }
        let to_tail = to_tail || self.parent_will_merge(pfn, order);
        self.insert(pfn, order, migratetype, to_tail);
    }

    /// Takes the smallest block of at least `order` from a type's lists and splits it; the rest
    /// stays on the lists.
    pub fn take(&mut self, order: Order, migratetype: MigrateType) -> Option<Pfn> {
        for high in order.0..=Order::MAX.0 {
            let high = Order(high);
            if let Some(pfn) = self.area.lists[high.idx()][migratetype.idx()].head() {
                self.unlink(pfn);
                self.expand(pfn, order, high, migratetype);
                self.map.page(pfn).set(BlockFlags::empty(), order, migratetype);
                return Some(pfn);
            }
        }
        None
    }

    /// Splits a block of order `high` that is on no list, keeping its lowest part.
    pub(super) fn expand(&mut self, pfn: Pfn, low: Order, high: Order, migratetype: MigrateType) {
        for order in (low.0..high.0).rev() {
            let order = Order(order);
            self.insert(pfn.add(1 << order.0), order, migratetype, false);
        }
    }

    /// Puts a block on a list as it is.
    #[inline]
    pub(super) fn insert(
        &mut self,
        pfn: Pfn,
        order: Order,
        migratetype: MigrateType,
        to_tail: bool,
    ) {
        let list = &mut self.area.lists[order.idx()][migratetype.idx()];
        self.map.page(pfn).set(BlockFlags::BUDDY, order, migratetype);
        if to_tail {
            list.push_tail(self.map, pfn);
        } else {
            list.push_head(self.map, pfn);
        }
        self.zone.note_list(order, migratetype, false, 1);
    }

    /// Takes a free block off its list.
    #[inline]
    pub(super) fn unlink(&mut self, pfn: Pfn) {
        let page = self.map.page(pfn);
        let state = page.block();
        let (order, migratetype) = (state.order(), state.migratetype());
        let list = &mut self.area.lists[order.idx()][migratetype.idx()];
        list.remove(self.map, pfn);
        self.zone.note_list(order, migratetype, list.is_empty(), -1);
        page.clear();
    }

    /// Moves a free block to another type's list.
    pub(super) fn move_to(&mut self, pfn: Pfn, migratetype: MigrateType, to_tail: bool) {
        let order = self.map.page(pfn).order();
        self.unlink(pfn);
        self.insert(pfn, order, migratetype, to_tail);
    }

    /// Is `buddy` the head of a free block of exactly `order` in this zone?
    #[inline]
    fn is_free_buddy(&self, pfn: Pfn, buddy: Pfn, order: Order) -> bool {
        if !self.zone.spans(buddy) {
            return false;
        }
        let (page, buddy) = (self.map.page(pfn).block(), self.map.page(buddy).block());
        buddy.has(BlockFlags::BUDDY) && buddy.order() == order && buddy.place() == page.place()
    }

    /// From order 9 on a merge would mix pageblocks: do their types allow it?
    fn may_merge(&self, buddy: Pfn, migratetype: MigrateType) -> bool {
        let other = self.zone.pageblock_type(buddy);
        match self.policy.merge {
            _ if other == migratetype => true,
            MergeRule::Mergeable => other.is_mergeable() && migratetype.is_mergeable(),
            MergeRule::NotIsolated => {
                other != MigrateType::Isolate && migratetype != MigrateType::Isolate
            }
        }
    }

    /// The next larger merge is likely soon: the parent's buddy is free already, so keep this
    /// block at the tail, where it is not handed out early.
    fn parent_will_merge(&self, pfn: Pfn, order: Order) -> bool {
        if order.0 >= Order::MAX.0 - 1 {
            return false;
        }
        let parent = Pfn(pfn.0 & pfn.buddy(order).0);
        let parent_order = Order(order.0 + 1);
        self.is_free_buddy(pfn, parent.buddy(parent_order), parent_order)
    }

    /// Takes a free block out for the compaction free scanner; false if the zone cannot spare it
    /// (rules/buddy#isolate-free). The block is in use from then on, with refcount 1.
    pub fn isolate(&mut self, pfn: Pfn) -> bool {
        use super::AllocFlags;
        use crate::zone::ZoneType;

        let order = self.map.page(pfn).order();
        let isolated = self.zone.pageblock_type(pfn) == MigrateType::Isolate;
        if !isolated {
            let rule = (self.policy.watermark.test, self.policy.watermark.reserves);
            let mark = self.zone.marks().min + order.pages();
            let free = self.zone.nr_free_pages();
            let (flags, lowest) = (AllocFlags::CMA, ZoneType::Dma);
            if !self.zone.watermark_ok(rule, Order::ZERO, mark, lowest, flags, free) {
                return false;
            }
            self.zone.add_free(self.probe.cpu(), -(order.pages() as i64));
        }
        self.unlink(pfn);
        self.map.page(pfn).set(BlockFlags::USED, order, MigrateType::Movable);
        self.map.page(pfn).set_refcount(1);
        if order.0 >= PAGEBLOCK_ORDER - 1 {
            for block in (pfn.0..pfn.0 + (1 << order.0)).step_by(1 << PAGEBLOCK_ORDER) {
                if self.zone.pageblock_type(Pfn(block)).is_mergeable() {
                    self.zone.set_pageblock_type(Pfn(block), MigrateType::Movable);
                }
            }
        }
        true
    }
}
