//! Moves many blocks under one hold of the zone lock, cheaper than one by one.
//!
//! A refill takes blocks one after the other, and a drain frees them one after the other. Done
//! literally, the next step undoes most of the work: a split puts halves on lists from which the
//! next block takes them, and a freed page is linked, then unlinked when its buddy follows. This
//! module skips both. The lists end up with the same blocks in the same order as after single
//! steps, and no other task sees them in between, because the lock is held.
//!
//! | | single steps | left out |
//! |---|---|---|
//! | [`Buddy::remove_run`] | split, take the first half's first, and so on | halves that are taken themselves |
//! | [`super::leaving`] | link; unlink when the buddy comes next | both, before the lock is taken |
//! | [`Buddy::free_pending`] | link; unlink when the buddy comes | both, if the buddy comes soon |
//!
//! From: [`super::pcp`] (refill), [`super::bulk_free`], [`super::owned`].

use super::Buddy;
use super::leaving::Joined;
use crate::host::{Cost, Probe};
use crate::page::{BlockFlags, BlockWord, MigrateType, Order, PAGEBLOCK_ORDER, PageRing, Pfn};
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::prefetch::prefetch_read;
use crate::trace::Event;

/// Blocks that wait to be linked: neighbours that are freed one after the other make one of each order, like
/// the digits of a counter.
const PENDING_MAX: usize = 8;
/// In `prev`: the block waits to be linked, and `next` is its place in [`Pending`]. No frame has this number.
pub(super) const WAITS: u32 = u32::MAX - 1;

impl<P: Probe> Buddy<'_, P> {
    /// Takes up to `most` blocks of `order` from a type's own lists, all of them out of the
    /// smallest sufficient block, and adds them to the tail of a CPU's list. Returns their number.
    /// It equals repeated [`Buddy::remove`]. The caller subtracts their pages from NR_FREE.
    ///
    /// The lists of the orders in between are empty, or a smaller block would exist. So the
    /// following blocks come out of the same block in address order, and its rest is one block of
    /// each size.
    #[inline(never)]
    pub(super) fn remove_run(
        &mut self,
        order: Order,
        migratetype: MigrateType,
        percpu_refill: bool,
        most: u32,
        to: &mut PageRing,
    ) -> u32 {
        let found = (order.0..=Order::MAX.0).find_map(|high| {
            let list = &self.area.lists[usize::from(high)][migratetype.idx()];
            list.head().map(|pfn| (pfn, Order(high)))
        });
        let Some((first, high)) = found else { return 0 };
        self.about_to_leave(first);
        let list = &mut self.area.lists[high.idx()][migratetype.idx()];
        list.pop_head(self.map);
        let next = list.head();
        self.zone.note_list(high, migratetype, next.is_none(), -1);
        // Unlinking this one has fetched the next one's descriptor; to split that writes to its half's.
        if let Some(half) = next.and_then(|next| self.map.get(next.add((1 << high.0) / 2))) {
            prefetch_read(half);
        }
        // At most a pageblock of smaller blocks: when the next one is split, its order's list must
        // be up to date.
        let most_order = if order.0 < PAGEBLOCK_ORDER { PAGEBLOCK_ORDER } else { Order::MAX.0 };
        let within = high.0.min(most_order) - order.0;
        let nr = most.min(1 << within);
        for at in 0..nr {
            self.probe.charge(Cost::BuddyRemove, 1);
            let pfn = first.add(at << order.0);
            self.map.page(pfn).set(BlockFlags::PCP, order, migratetype);
            to.push_tail(pfn);
            let event = Event::PageAllocZoneLocked { pfn, order, migratetype, percpu_refill };
            self.probe.event(event);
        }
        let end = first.add(1 << high.0);
        let mut rest = first.add(nr << order.0);
        while rest < end {
            let piece = Order((rest.0 - first.0).trailing_zeros() as u8);
            self.insert(rest, piece, migratetype, false);
            rest = rest.add(1 << piece.0);
        }
        self.note_split(order, high);
        nr
    }

    /// As [`Buddy::free_block`] of each piece to the head, charges and words of the pieces apart; the block is linked later,
    /// by [`Buddy::settle`] at the latest.
    #[inline(never)]
    pub(super) fn free_pending(&mut self, pending: &mut Pending, block: Joined) {
        let Joined { pfn, order, migratetype, .. } = block;
        self.count_freed(block.piece, block.nr_pieces(), migratetype);
        let merged = self.merge(pfn, order, migratetype, |buddies, buddy, page, state| {
            if page.prev.load(Relaxed) == WAITS {
                pending.forget(page.next.load(Relaxed), buddy);
                page.set_block(state.tail());
            } else {
                buddies.unlink_linked(buddy, page, state);
            }
        });
        if let Some((pfn, order)) = merged {
            let to_tail = self.parent_will_merge(pfn, order);
            // By its word it is on a list already, for its buddies.
            let page = self.map.page(pfn);
            let word = BlockWord::at(self.zone.place);
            page.set_block(word.with(BlockFlags::BUDDY, order, migratetype));
            page.prev.store(WAITS, Relaxed);
            page.next.store(pending.place(), Relaxed);
            let block = Waiting { pfn, order, migratetype, to_tail };
            if let Some(oldest) = pending.push(block) {
                self.link(oldest.pfn, oldest.order, oldest.migratetype, oldest.to_tail);
            }
        }
    }

    /// Links the waiting blocks. Call it before the lock is released.
    pub(super) fn settle(&mut self, pending: &mut Pending) {
        for place in pending.nr.saturating_sub(PENDING_MAX)..pending.nr {
            if let Some(block) = pending.replace(place, NOBODY) {
                self.link(block.pfn, block.order, block.migratetype, block.to_tail);
            }
        }
        pending.nr = 0;
    }
}

/// A free block that is not linked yet.
#[derive(Clone, Copy)]
struct Waiting {
    pfn: Pfn,
    order: Order,
    migratetype: MigrateType,
    to_tail: bool,
}

const NOBODY: Waiting = Waiting {
    pfn: Pfn(u32::MAX),
    order: Order(0),
    migratetype: MigrateType::Movable,
    to_tail: false,
};

/// Free blocks that are on no list yet although their words say so, the oldest first: they are
/// linked in this order. A block that leaves because it merged leaves a gap. [`Buddy::settle`]
/// comes last.
pub(super) struct Pending {
    blocks: [Waiting; PENDING_MAX],
    /// How many came: the next one's place, and once all places are taken the oldest one's.
    nr: usize,
}

impl Default for Pending {
    fn default() -> Pending {
        Pending { blocks: [NOBODY; PENDING_MAX], nr: 0 }
    }
}

impl Pending {
    /// Adds a waiting block. If there is no room, returns the oldest, which must be linked.
    #[inline(always)]
    fn push(&mut self, block: Waiting) -> Option<Waiting> {
        let oldest = self.replace(self.nr, block);
        self.nr += 1;
        oldest
    }

    /// Replaces the block waiting at a place by `next`.
    #[inline(always)]
    fn replace(&mut self, place: usize, next: Waiting) -> Option<Waiting> {
        let left = core::mem::replace(&mut self.blocks[place % PENDING_MAX], next);
        (left.pfn != NOBODY.pfn).then_some(left)
    }

    /// Where the next one will wait.
    #[inline(always)]
    fn place(&self) -> u32 {
        (self.nr % PENDING_MAX) as u32
    }

    /// A block merges that waits in a place: it is not to be linked.
    #[inline(always)]
    fn forget(&mut self, place: u32, pfn: Pfn) {
        let block = &mut self.blocks[place as usize % PENDING_MAX];
        debug_assert_eq!(block.pfn, pfn, "another block waits there");
        *block = NOBODY;
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use core::cell::RefCell;

    use proptest::prelude::*;

    use super::super::leaving::Leaving;
    use super::*;
    use crate::config::{PRESETS, Policy, preset};
    use crate::host::CpuId;
    use crate::page::{MAX_ORDER, PageMap};
    use crate::page_alloc::AllocFlags;
    use crate::zone::{FreeArea, NodeId, ZoneInfo, ZoneType};

    const NR_FRAMES: u32 = 1 << 12;

    /// Charges and events in the order in which they came.
    #[derive(Default)]
    struct Log(RefCell<Vec<(Option<Cost>, Option<Event>)>>);

    impl Probe for Log {
        fn cpu(&self) -> CpuId {
            CpuId(0)
        }

        fn charge(&self, cost: Cost, _: u32) {
            self.0.borrow_mut().push((Some(cost), None));
        }

        fn event(&self, event: Event) {
            self.0.borrow_mut().push((None, Some(event)));
        }
    }

    /// Lists, words, the zone's lock-free list data, and free pages.
    type Seen = (Vec<Vec<Pfn>>, Vec<u32>, Vec<(u8, u32)>, u64);

    /// One zone's free lists, and the blocks that were taken from them.
    struct Side {
        map: PageMap,
        zone: ZoneInfo,
        area: FreeArea,
        policy: Policy,
        log: Log,
        held: Vec<(Pfn, Order)>,
    }

    impl Side {
        fn new(policy: &str) -> Side {
            let map = PageMap::new(NR_FRAMES);
            let (pages, kind) = (u64::from(NR_FRAMES), ZoneType::Dma32);
            map.assign(Pfn(0), NR_FRAMES, NodeId(0), kind);
            map.give(Pfn(0), NR_FRAMES);
            let zone = ZoneInfo::new(NodeId(0), kind, Pfn(0), Pfn(NR_FRAMES), pages, 1, true);
            zone.add_managed(pages);
            let policy = preset(policy).unwrap();
            let (area, log, held) = (FreeArea::default(), Log::default(), Vec::new());
            let mut side = Side { map, zone, area, policy, log, held };
            for pfn in (0..NR_FRAMES).step_by(1 << Order::MAX.0) {
                side.buddy().free_block(Pfn(pfn), Order::MAX, MigrateType::Movable, true);
            }
            side
        }

        fn buddy(&mut self) -> Buddy<'_, Log> {
            Buddy {
                map: &self.map,
                zone: &self.zone,
                area: &mut self.area,
                policy: &self.policy,
                probe: &self.log,
                capture: None,
                has_stolen: false,
            }
        }

        fn take_singly(&mut self, order: Order, migratetype: MigrateType, nr: u32) {
            for _ in 0..nr {
                let flags = AllocFlags::empty();
                let Some(pfn) = self.buddy().remove(order, migratetype, flags, true) else { break };
                let page = self.map.page(pfn);
                page.set(BlockFlags::PCP, order, page.migratetype());
                self.held.push((pfn, order));
            }
        }

        fn take_in_runs(&mut self, order: Order, migratetype: MigrateType, nr: u32) {
            let mut list = PageRing::default();
            while (list.len() as u32) < nr {
                let left = nr - list.len() as u32;
                if self.buddy().remove_run(order, migratetype, true, left, &mut list) > 0 {
                    continue;
                }
                let flags = AllocFlags::empty();
                let Some(pfn) = self.buddy().remove(order, migratetype, flags, true) else { break };
                let page = self.map.page(pfn);
                page.set(BlockFlags::PCP, order, page.migratetype());
                list.push_tail(pfn);
            }
            self.held.extend(list.iter().map(|pfn| (pfn, order)));
        }

        /// Removes up to `nr` held blocks from the place `at` on.
        fn some(&mut self, at: usize, nr: u32) -> Vec<(Pfn, Order)> {
            let is_reversed = at.is_multiple_of(2);
            let at = at % (self.held.len() + 1);
            let end = self.held.len().min(at + nr as usize);
            let mut some: Vec<_> = self.held.drain(at..end).collect();
            if is_reversed {
                some.reverse();
            }
            some
        }

        fn free_singly(&mut self, at: usize, nr: u32) {
            for (pfn, _) in self.some(at, nr) {
                self.buddy().free_drained(pfn);
            }
        }

        fn free_pending(&mut self, at: usize, nr: u32) {
            let blocks = self.some(at, nr);
            let map = &self.map;
            let mut buddy = Buddy {
                map,
                zone: &self.zone,
                area: &mut self.area,
                policy: &self.policy,
                probe: &self.log,
                capture: None,
                has_stolen: false,
            };
            let (mut pending, mut leaving) = (Pending::default(), Leaving::new(map, true));
            let mut list = PageRing::default();
            blocks.into_iter().for_each(|(pfn, _)| list.push_head(pfn));
            while !list.is_empty() {
                let nr = leaving.extend_from_tail(&list, usize::MAX);
                list.drop_tail(nr);
                leaving.free(&mut buddy, &mut pending);
            }
            buddy.settle(&mut pending);
        }

        fn seen(&self) -> Seen {
            let lists = self.area.lists.iter().flatten();
            let orders = (0..MAX_ORDER as u8).map(Order);
            (
                lists.map(|list| list.iter(&self.map).collect()).collect(),
                (0..NR_FRAMES).map(|pfn| self.map.page(Pfn(pfn)).word()).collect(),
                orders.map(|o| (self.zone.list_types(o), self.zone.nr_free_blocks(o))).collect(),
                self.zone.nr_free_pages_exact(),
            )
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn runs_leave_what_single_steps_leave(
            steps in prop::collection::vec(
                // Larger blocks than a pageblock are on no CPU's list.
                (any::<bool>(), prop_oneof![3 => Just(0u8), 2 => 0u8..10], 0usize..3, 1u32..90,
                 any::<usize>()),
                1..120,
            ),
            policy in 0..PRESETS.len(),
        ) {
            let policy = PRESETS[policy].0;
            let (mut single, mut runs) = (Side::new(policy), Side::new(policy));
            for (takes, order, t, nr, at) in steps {
                if takes {
                    let t = MigrateType::MERGEABLE[t];
                    single.take_singly(Order(order), t, nr);
                    runs.take_in_runs(Order(order), t, nr);
                } else {
                    single.free_singly(at, nr);
                    runs.free_pending(at, nr);
                }
                prop_assert!(single.held == runs.held, "{policy}: other blocks");
                prop_assert!(single.seen() == runs.seen(), "{policy}: other lists");
                prop_assert!(*single.log.0.borrow() == *runs.log.0.borrow(), "{policy}: other events");
            }
        }
    }
}
