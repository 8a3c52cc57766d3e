//! The buddy lists of one zone: split, merge, insert, take (rules/buddy#lists).
//!
//! Free memory is kept as aligned blocks of 2^order pages. A block can merge with only one
//! neighbour: its *buddy*, whose frame number differs in one bit. So a free needs at most ten
//! checks, and no search, to form larger blocks. The cost: two free neighbours that are not buddies
//! stay apart, and one page in use prevents every larger block around it.
//!
//! Splitting and merging are arithmetic. Whether large blocks remain after an hour depends on the
//! choice of the block to take, and on the place of freed ones:
//!
//! | rule | because |
//! |---|---|
//! | the smallest sufficient block | a large one is broken only if nothing smaller is left |
//! | keep the lowest part, the rest to the list heads | a broken block is used up before the next is broken |
//! | frees to the head, too | recently used blocks are warm, and are split already |
//! | a block that will soon merge: to the tail | it is handed out last, so it has time to merge into a larger one |
//! | moved blocks and boot memory: to the tail | a type's own blocks go first; a fresh machine ascends |
//!
//! [`Buddy`] is a zone's free lists under the zone lock, with the further data of the operations.
//! It does not depend on hosts: a [`Probe`] receives charges and events, so tests run it with a
//! recorder.
//!
//! # Invariants while the lock is free
//!
//! * The head of a block on `lists[order][type]` has BUDDY, this order and this type; no other
//!   frame of the block has a head's mark.
//! * Below the order of a pageblock no two buddies are both free at the same order: they would have
//!   merged. Above it, types may keep them apart.
//! * A block is on the list of the type to which it was freed. Its pageblock may have changed type
//!   since.
//! * A zone's lock-free data (blocks of each order, which lists are empty) agree with the lists.
//!
//! Free counts: [`Buddy::free_block`] adds to NR_FREE. Callers of [`Buddy::take`] subtract, so that
//! a refill takes a batch and subtracts once.

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
/// Without it compaction frees a large block to the lists and releases the lock. Another task may
/// then split the block for a single page, and the migration was wasted.
///
/// It belongs to the compacting task: every block that this task frees passes here.
#[doc(alias = "capture_control")]
#[derive(Debug, Default)]
pub struct Capture {
    wanted: Cell<Option<Wanted>>,
    /// The block, once caught.
    page: Cell<Option<Pfn>>,
}

impl TaskLocal for Capture {}

/// The block that a compactor waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Zone that is compacted.
    pub zone: ZoneId,
    /// Order.
    pub order: Order,
    /// The block may come out of movable memory even if it is less than a pageblock.
    pub takes_movable: bool,
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
    /// A small block out of movable memory is not for a request of another type: its page would
    /// then sit in the middle of a movable pageblock. Up to 6.11 no request gets one.
    #[doc(alias = "compaction_capture")]
    fn applies(&self, zone: &ZoneInfo, order: Order, migratetype: MigrateType) -> bool {
        let Some(wanted) = self.wanted.get() else { return false };
        let small_movable = order.0 < PAGEBLOCK_ORDER && migratetype == MigrateType::Movable;
        (wanted.zone, wanted.order) == (zone.id(), order)
            && !self.is_caught()
            && migratetype != MigrateType::Isolate
            && (!small_movable || wanted.takes_movable)
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
    /// The freeing task is a direct compactor, and waits for this block.
    pub capture: Option<&'a Capture>,
    /// A request of this hold of the lock found no pageblock to claim: neither will the next
    /// (rules/buddy#claim-steal).
    pub has_stolen: bool,
}

impl<'a, P: Probe> Buddy<'a, P> {
    /// Frees a block to the lists of `migratetype`, merging it with free buddies; NR_FREE grows.
    ///
    /// # Panics
    /// If the machine has no such frame.
    #[doc(alias = "__free_one_page")]
    pub fn free_block(&mut self, pfn: Pfn, order: Order, migratetype: MigrateType, to_tail: bool) {
        if order.0 > PAGEBLOCK_ORDER && self.policy.merge == MergeRule::MergeableRetype {
            return self.free_pageblocks(pfn, order, to_tail);
        }
        self.probe.charge(Cost::BuddyFree, 1);
        self.map.page(pfn).clear();
        self.map.page(pfn).set_refcount(0);
        self.count_freed(order, 1, migratetype);
        if let Some((pfn, order)) = self.merge(pfn, order, migratetype, Self::unlink_linked) {
            // The list is that of the freed block, even if a buddy came from another type's list.
            // Pageblocks keep their types, so a block from this list may lie in a pageblock of
            // another type.
            let to_tail = to_tail || self.parent_will_merge(pfn, order);
            self.insert(pfn, order, migratetype, to_tail);
        }
    }

    /// Frees a block above a pageblock in pageblocks, each to the lists of its own type.
    ///
    /// Linux 6.10 on.
    #[cold]
    #[doc(alias = "split_large_buddy")]
    fn free_pageblocks(&mut self, pfn: Pfn, order: Order, to_tail: bool) {
        for block in (pfn.0..pfn.0 + (1 << order.0)).step_by(1 << PAGEBLOCK_ORDER).map(Pfn) {
            let migratetype = self.zone.pageblock_type(block);
            self.free_block(block, Order(PAGEBLOCK_ORDER), migratetype, to_tail);
        }
    }

    /// So many blocks are free: NR_FREE grows, by each of them.
    #[inline(always)]
    pub(super) fn count_freed(&self, order: Order, blocks: u32, migratetype: MigrateType) {
        // Isolated pages are free but about to leave, so they do not count.
        if migratetype != MigrateType::Isolate {
            self.zone.add_free_blocks(self.probe.cpu(), order, blocks);
        }
        self.zone.note_freed();
    }

    /// The block that a freed block forms with its free buddies; `unlink` takes each of these off
    /// its list. `None` if a compactor captures it. Its word is not set as a block yet.
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
            if order.0 >= PAGEBLOCK_ORDER {
                if !self.may_merge(buddy, migratetype) {
                    break;
                }
                self.retype_absorbed(buddy, order, migratetype);
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
    /// It searches upwards from the requested order, so large blocks are split last.
    /// [`Buddy::remove`] handles other types.
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

    /// Records that a pageblock was split. If it was the zone's last free one, proactive compaction
    /// may make others (rules/compaction#prompted). The next allocation reads this note, because
    /// the zone lock is held here and wakes nothing.
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
        // The whole word, with the type of the list: unlinking a block reads the type from the
        // word, not from the pageblock.
        self.map.page(pfn).set(BlockFlags::BUDDY, order, migratetype);
        self.link(pfn, order, migratetype, to_tail);
    }

    /// Puts a block on the list that its word names.
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

    /// As [`Self::unlink`], for a linked block whose word was read already.
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

    /// The descriptor of a frame, and its word, if it is the head of a free block of exactly
    /// `order` in this zone.
    ///
    /// The span is checked first: the buddy of a zone's last block may lie outside, under another
    /// lock or where no frame exists. Its word is read once, because the order means nothing
    /// without BUDDY. Within the span, holes and frames of other nodes have other zones in their
    /// words, or no BUDDY.
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
            MergeRule::Mergeable | MergeRule::MergeableRetype => {
                other.is_mergeable() && migratetype.is_mergeable()
            }
            MergeRule::NotIsolated => {
                other != MigrateType::Isolate && migratetype != MigrateType::Isolate
            }
        }
    }

    /// The pageblocks of a block that another one takes in get its type, so that a block on a list
    /// lies in pageblocks of the list's type.
    ///
    /// Linux 6.10 on.
    #[cold]
    fn retype_absorbed(&self, buddy: Pfn, order: Order, migratetype: MigrateType) {
        if self.policy.merge == MergeRule::MergeableRetype {
            for block in (buddy.0..buddy.0 + (1 << order.0)).step_by(1 << PAGEBLOCK_ORDER) {
                self.zone.set_pageblock_type(Pfn(block), migratetype);
            }
        }
    }

    /// Reports whether the next larger merge is likely soon: then the block goes to the tail
    /// (rules/buddy#merge-tail).
    ///
    /// When its own buddy is freed, two merges follow. From order 9 on there is no second merge,
    /// because 10 is the largest order.
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
    /// Compaction needs free pages to copy to. It must leave the min mark (4.5: the low mark), or
    /// atomic requests would fail because of compaction. The lowest zone stands for "no lowmem
    /// reserve", because its column is 0 in every zone. An isolated block was not in the free
    /// count, so nothing is subtracted.
    ///
    /// # Panics
    /// If the machine has no such frame.
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
        let retypes = self.policy.merge == MergeRule::MergeableRetype;
        // Half a pageblock or more will be filled with pages that can be moved: that is its type from
        // now on.
        if order.0 >= PAGEBLOCK_ORDER - 1 {
            for block in (pfn.0..pfn.0 + (1 << order.0)).step_by(1 << PAGEBLOCK_ORDER) {
                let old = self.zone.pageblock_type(Pfn(block));
                // A pageblock that cannot give its other blocks too keeps its type and them.
                if !old.is_mergeable() || (retypes && !self.has_whole_pageblock(Pfn(block))) {
                    continue;
                }
                self.zone.set_pageblock_type(Pfn(block), MigrateType::Movable);
                if retypes && old != MigrateType::Movable {
                    self.move_pageblock(Pfn(block), MigrateType::Movable, true);
                }
            }
        }
        true
    }

    /// Reports whether all of a frame's pageblock belongs to this zone.
    pub(super) fn has_whole_pageblock(&self, pfn: Pfn) -> bool {
        let first = Pfn(pfn.0 & !((1 << PAGEBLOCK_ORDER) - 1));
        self.zone.spans(first) && first.add(1 << PAGEBLOCK_ORDER) <= self.zone.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Solo;
    use crate::lru::testing::Stage;
    use crate::zone::{NodeId, ZoneType};

    /// rules/buddy#capture.
    #[test]
    fn blocks_out_of_movable_memory_are_for_movable_requests() {
        let host = Solo::default();
        let stage = Stage::policy(&host, |_| {});
        let zone = stage.kernel.mem.zone(NodeId(0), ZoneType::Dma32).expect("a zone");
        let applies = |order: u8, migratetype, takes_movable| {
            let (capture, order) = (Capture::default(), Order(order));
            capture.begin(Wanted { zone: zone.id(), order, takes_movable });
            assert!(!capture.applies(zone, Order(order.0 - 1), migratetype));
            capture.applies(zone, order, migratetype)
        };
        use MigrateType::{Isolate, Movable, Unmovable};
        for takes_movable in [false, true] {
            assert!(applies(9, Movable, takes_movable) && applies(4, Unmovable, takes_movable));
            assert_eq!(applies(4, Movable, takes_movable), takes_movable);
            assert!(!applies(9, Isolate, takes_movable));
        }
    }
}
