//! The buddy lists of one zone: split, merge, insert, take (rules/buddy#lists).
//!
//! Free memory is kept as aligned blocks of 2^order pages. Of a block only one neighbour can be merged
//! with: its *buddy*, whose frame number differs in one bit. So a free finds out with at most ten
//! looks, without a search, whether larger blocks come of it; the price is that two free neighbours
//! that are not buddies stay apart, and that one page in use keeps every larger block around it from
//! existing.
//!
//! Splitting and merging are arithmetic. Whether there are large blocks an hour later depends on which
//! block is taken and where one is put back:
//!
//! | rule | because |
//! |---|---|
//! | the smallest sufficient block | a large one is broken only if nothing smaller is left |
//! | keep the lowest part, the rest to the list heads | a broken block is used up before the next is broken |
//! | frees to the head, too | what was used last is warm, and has been broken out already |
//! | a block that will soon merge: to the tail | handed out last, it has time to become part of a large one |
//! | moved blocks and boot memory: to the tail | a type's own blocks go first; a fresh machine ascends |
//!
//! [`Buddy`] is a zone's free lists while the zone lock is held, with what the operations need beside
//! them. It knows nothing of hosts: a [`Probe`] receives charges and events, so tests run it with a
//! recorder.
//!
//! # What is true while nobody holds the lock
//!
//! * The head of a block on `lists[order][type]` says BUDDY, this order and this type; no other frame
//!   of the block carries a head's mark.
//! * Below the order of a pageblock no two buddies are both free at the same order: they would be one
//!   block. Above, types may keep them apart.
//! * A block is on the list of the type it was freed to. Its pageblock may have changed since.
//! * What a zone says without the lock (blocks of each order, which lists are empty) agrees with the
//!   lists.
//!
//! Free counts: [`Buddy::free_block`] adds to NR_FREE; callers of [`Buddy::take`] subtract, since they
//! know how many pages they keep: a refill takes a batch and subtracts once.

use core::cell::Cell;

use crate::config::{MergeRule, Policy};
use crate::host::{Cost, Probe, TaskLocal};
use crate::page::{
    BlockFlags, BlockWord, MAX_ORDER, MigrateType, Order, PAGEBLOCK_ORDER, Page, PageMap, Pfn,
};
use crate::sync::atomic::Ordering::Relaxed;
use crate::zone::{FreeArea, ZoneFlags, ZoneId, ZoneInfo};

/// Catches a freed block for a direct compactor that waits for it (rules/buddy#capture).
///
/// Linux 5.1 on.
///
/// Without it compaction frees a large block to the lists, lets go of the lock, and whoever comes first
/// breaks it for a single page: all the moving was for him.
///
/// The compacting task's own: what it frees on its way, whichever way, passes here.
#[doc(alias = "capture_control")]
#[derive(Debug, Default)]
pub struct Capture {
    wanted: Cell<Option<Wanted>>,
    /// The block, once caught.
    page: Cell<Option<Pfn>>,
}

impl TaskLocal for Capture {}

/// What a compactor waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Zone that is compacted.
    pub zone: ZoneId,
    /// Order.
    pub order: Order,
}

impl Capture {
    /// Waits for a block from now on.
    pub fn begin(&self, wanted: Wanted) {
        self.wanted.set(Some(wanted));
    }

    /// Waits no longer; the block, if one came.
    pub fn end(&self) -> Option<Pfn> {
        self.wanted.set(None);
        self.page.take()
    }

    /// True if the block came.
    pub fn is_caught(&self) -> bool {
        self.page.get().is_some()
    }

    /// Reports whether the waiting compactor gets a block of this order and type.
    ///
    /// Linux 5.1 on.
    ///
    /// A small block out of movable memory is not for it: the request that compaction runs for may be
    /// of another type, and its page would then sit in the middle of a movable pageblock.
    #[doc(alias = "compaction_capture")]
    fn applies(&self, zone: &ZoneInfo, order: Order, migratetype: MigrateType) -> bool {
        let small_movable = order.0 < PAGEBLOCK_ORDER && migratetype == MigrateType::Movable;
        let is_wanted = self.wanted.get() == Some(Wanted { zone: zone.id(), order });
        is_wanted && !self.is_caught() && migratetype != MigrateType::Isolate && !small_movable
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
    /// The task that frees is a direct compactor, and this is what it waits for.
    pub capture: Option<&'a Capture>,
}

impl<'a, P: Probe> Buddy<'a, P> {
    /// Frees a block to the lists of `migratetype`, merging it with free buddies; NR_FREE grows.
    #[doc(alias = "__free_one_page")]
    pub fn free_block(&mut self, pfn: Pfn, order: Order, migratetype: MigrateType, to_tail: bool) {
        self.probe.charge(Cost::BuddyFree, 1);
        self.map.page(pfn).clear();
        self.map.page(pfn).set_refcount(0);
        self.count_freed(order, 1, migratetype);
        if let Some((pfn, order)) = self.merge(pfn, order, migratetype, Self::unlink_linked) {
            // The list is that of the freed block, also if a buddy came from another type's. Pageblocks
            // keep their types, so what is taken from here may lie in one of another type.
            let to_tail = to_tail || self.parent_will_merge(pfn, order);
            self.insert(pfn, order, migratetype, to_tail);
        }
    }

    /// So many blocks are free: NR_FREE grows, by each of them.
    #[inline(always)]
    pub(super) fn count_freed(&self, order: Order, blocks: u32, migratetype: MigrateType) {
        // Isolated pages are free but on their way out: nobody may count on them.
        if migratetype != MigrateType::Isolate {
            self.zone.add_free_blocks(self.probe.cpu(), order, blocks);
        }
        self.zone.note_freed();
    }

    /// What a freed block becomes with its free buddies, each of which `unlink` takes off its list; none if a compactor
    /// gets it. Its word is that of no block.
    #[inline(always)]
    pub(super) fn merge(
        &mut self,
        pfn: Pfn,
        order: Order,
        migratetype: MigrateType,
        mut unlink: impl FnMut(&mut Self, Pfn, &'a Page, BlockWord),
    ) -> Option<(Pfn, Order)> {
        let (mut pfn, mut order) = (pfn, order);
        while order < Order::MAX {
            // Asked at each order before it merges further: beyond the one wanted it would be too
            // large.
            if let Some(capture) = self.capture
                && capture.applies(self.zone, order, migratetype)
            {
                capture.page.set(Some(pfn));
                self.zone.add_free(self.probe.cpu(), -(order.pages() as i64));
                return None;
            }
            // Below pageblock size both halves lie in one pageblock, so types need not be asked.
            let buddy = pfn.buddy(order);
            let Some((page, state)) = self.free_block_at(buddy, order) else { break };
            if order.0 >= PAGEBLOCK_ORDER && !self.may_merge(buddy, migratetype) {
                break;
            }
            unlink(self, buddy, page, state);
            // The lower of the two: the merged block begins there.
            pfn = Pfn(pfn.0 & buddy.0);
            order = Order(order.0 + 1);
        }
        Some((pfn, order))
    }

    /// Takes the smallest block of at least `order` from a type's free lists and splits it; the
    /// rest goes back to the lists.
    ///
    /// Upwards from the order asked for, so that large blocks are broken last. Other types are the
    /// business of [`Buddy::remove`].
    #[doc(alias = "__rmqueue_smallest")]
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
    ///
    /// Linux: same name.
    ///
    /// From the largest half down. None of them can merge: the buddy of each has just been taken or
    /// split.
    pub(super) fn expand(&mut self, pfn: Pfn, low: Order, high: Order, migratetype: MigrateType) {
        for order in (low.0..high.0).rev() {
            let order = Order(order);
            self.insert(pfn.add(1 << order.0), order, migratetype, false);
        }
        self.note_split(low, high);
    }

    /// A block of order `high` was split for one of order `low`.
    #[inline]
    pub(super) fn note_split(&self, low: Order, high: Order) {
        let splits_block = high.0 >= PAGEBLOCK_ORDER && low.0 < PAGEBLOCK_ORDER;
        if splits_block && self.policy.compaction.prompted {
            self.note_broken_up();
        }
    }

    /// A pageblock was split. If it was the zone's last free one, somebody may want to make others before they are
    /// asked for (rules/compaction#prompted). A note for the next allocation: under the zone lock nobody is woken.
    #[cold]
    fn note_broken_up(&self) {
        let nr_left = |order: usize| self.zone.nr_free_blocks(Order(order as u8));
        let is_last = (PAGEBLOCK_ORDER as usize..MAX_ORDER).all(|order| nr_left(order) == 0);
        if is_last {
            self.zone.set_flag(ZoneFlags::BROKEN_UP);
        }
    }

    /// Puts a free block on the head or the tail of its free list, without merging.
    #[doc(alias = "add_to_free_list")]
    #[doc(alias = "add_to_free_list_tail")]
    #[inline]
    pub(super) fn insert(
        &mut self,
        pfn: Pfn,
        order: Order,
        migratetype: MigrateType,
        to_tail: bool,
    ) {
        // The word as a whole, with the type of the list: who unlinks the block asks the word, not the
        // pageblock.
        self.map.page(pfn).set(BlockFlags::BUDDY, order, migratetype);
        self.link(pfn, order, migratetype, to_tail);
    }

    /// Puts a block whose word says so on its list.
    #[inline]
    pub(super) fn link(&mut self, pfn: Pfn, order: Order, migratetype: MigrateType, to_tail: bool) {
        let list = &mut self.area.lists[order.idx()][migratetype.idx()];
        if to_tail {
            list.push_tail(self.map, pfn);
        } else {
            list.push_head(self.map, pfn);
        }
        // For watermark tests, which look for a block of an order without the lock.
        self.zone.note_list(order, migratetype, false, 1);
    }

    /// Takes a free block off its list.
    #[doc(alias = "del_page_from_free_list")]
    #[inline]
    pub(super) fn unlink(&mut self, pfn: Pfn) {
        let page = self.map.page(pfn);
        let state = page.block();
        if !state.has(BlockFlags::BUDDY) {
            return self.unlink_fresh(pfn);
        }
        self.unlink_linked(pfn, page, state);
    }

    /// As [`Self::unlink`], of a block that is linked and whose word was read.
    #[inline]
    pub(super) fn unlink_linked(&mut self, pfn: Pfn, page: &Page, state: BlockWord) {
        debug_assert_ne!(page.prev.load(Relaxed), super::runs::WAITS, "waits to be linked");
        self.about_to_leave(pfn);
        let (order, migratetype) = (state.order(), state.migratetype());
        let list = &mut self.area.lists[order.idx()][migratetype.idx()];
        list.remove(self.map, pfn);
        self.zone.note_list(order, migratetype, list.is_empty(), -1);
        page.set_block(state.tail());
    }

    /// A block that is linked is about to leave its list: others may stand behind it that are not.
    #[inline(always)]
    pub(super) fn about_to_leave(&mut self, pfn: Pfn) {
        if let Some(run) = self.area.fresh
            && run.first == pfn
        {
            self.hand_on_run(run);
        }
    }

    /// Moves a free block to another type's list.
    #[doc(alias = "move_to_free_list")]
    pub(super) fn move_to(&mut self, pfn: Pfn, migratetype: MigrateType, to_tail: bool) {
        let order = self.map.block(pfn).order();
        self.unlink(pfn);
        self.insert(pfn, order, migratetype, to_tail);
    }

    /// The descriptor of a frame, and its word, if it is the head of a free block of exactly `order` in this zone.
    ///
    /// The span comes first: the buddy of a zone's last block may lie beyond, where another lock rules
    /// or no frame is. Its word is read once: order without BUDDY says nothing. Within the span, holes
    /// and frames of other nodes have words of their own and no BUDDY of this place.
    #[inline(always)]
    fn free_block_at(&self, pfn: Pfn, order: Order) -> Option<(&'a Page, BlockWord)> {
        if !self.zone.spans(pfn) {
            return None;
        }
        let page = self.map.page(pfn);
        let state = page.block();
        state.is_free(self.zone.place, order).then_some((page, state))
    }

    /// From order 9 on a merge would mix pageblocks: do their types allow it?
    ///
    /// Mergeable types may take each other's blocks anyway (rules/buddy#merge-types). A pageblock that
    /// is isolated must not be handed out as part of another one's block; up to 5.17 one that is set
    /// aside could.
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

    /// Reports whether the next larger merge is likely soon: then the block goes to the tail
    /// (rules/buddy#merge-tail).
    ///
    /// When its own buddy comes, two merges follow. From order 9 on there is no second one to wait for:
    /// 10 is the largest order.
    #[doc(alias = "buddy_merge_likely")]
    pub(super) fn parent_will_merge(&self, pfn: Pfn, order: Order) -> bool {
        if order.0 >= Order::MAX.0 - 1 {
            return false;
        }
        let parent = Pfn(pfn.0 & pfn.buddy(order).0);
        let parent_order = Order(order.0 + 1);
        self.free_block_at(parent.buddy(parent_order), parent_order).is_some()
    }

    /// Takes a free block off the lists for compaction's free scanner; false if the zone cannot
    /// spare it (rules/buddy#isolate-free). The block is in use from then on, its pages each with
    /// refcount 1.
    ///
    /// Compaction needs free pages to copy to. It has to leave the minimum in place (4.5: the low mark),
    /// or those who cannot wait would fail because somebody makes room. No lowmem reserve is added, which is what
    /// the lowest zone stands for: its column is 0 in every zone. An isolated block was not in the free
    /// count, so nothing is taken off it.
    #[doc(alias = "__isolate_free_page")]
    pub fn isolate(&mut self, pfn: Pfn) -> bool {
        use super::AllocFlags;
        use crate::config::SpareMark;
        use crate::zone::{Mark, ZoneType};

        let order = self.map.block(pfn).order();
        let isolated = self.zone.pageblock_type(pfn) == MigrateType::Isolate;
        if !isolated {
            let rule = self.policy.watermark_rule();
            let (mark, flags) = match self.policy.compaction.spare {
                SpareMark::LowGoesOn => (self.zone.mark(Mark::Low), AllocFlags::empty()),
                SpareMark::MinEnds => (self.zone.marks().min, AllocFlags::CMA),
            };
            let mark = mark + order.pages();
            let (free, lowest) = (self.zone.nr_free_pages(), ZoneType::Dma);
            if !self.zone.watermark_ok(rule, Order::ZERO, mark, lowest, flags, free) {
                return false;
            }
            self.zone.add_free(self.probe.cpu(), -(order.pages() as i64));
        }
        self.unlink(pfn);
        for page in (pfn.0..pfn.0 + (1 << order.0)).map(|pfn| self.map.page(Pfn(pfn))) {
            page.set(BlockFlags::USED, Order::ZERO, MigrateType::Movable);
            page.reset_usage();
            page.set_refcount(1);
        }
        // Half a pageblock or more will be filled with pages that can be moved: that is its type from
        // now on.
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
