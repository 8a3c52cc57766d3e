//! Blocks on their way from a CPU's lists to the buddy lists: the work that needs no zone lock.
//!
//! While a drain holds the zone lock, no other CPU can allocate from the zone or free to it. But
//! much of a drain's work concerns only its own blocks: taking them off the CPU's lists, and
//! merging those that are buddies. Much of the rest is waiting for descriptors from memory, which
//! can be prefetched. So blocks leave in two steps:
//!
//! ```text
//! the CPU's lists  -- push -->  Leaving: 12 13 [14 15] -> [12..15]  -- zone lock, free -->  buddy lists
//!                               joined, their neighbours prefetched
//! ```
//!
//! Pages are mostly freed in the order of their allocation, which is the order of frames. So 63
//! pages often become seven blocks, and each is merged and linked once.
//!
//! The result equals that of single steps. A joined block takes the place of its last piece. No
//! other block is freed between two of its pieces, so only the next piece would meet an earlier one
//! on the lists, and take it off again. Counts, charges and events are per piece.
//!
//! A compactor that waits for a block checks every merge, so its frees are not joined beforehand.
//! The rest of a pageblock that loses its owner ([`super::owned`]) is not joined either, because it
//! leaves while the zone lock is held.
//!
//! Synchronisation: the blocks belong to the drain until [`Leaving::free`], which needs the zone
//! lock. Their words change under it. Other blocks' descriptors are read earlier only as hints.
//!
//! From: [`super::bulk_free`], [`super::owned`] · to: [`super::runs`].

use arrayvec::ArrayVec;

use super::Buddy;
use super::runs::Pending;
use crate::config::DrainType;
use crate::host::{Cost, Probe};
use crate::page::{
    BlockFlags, BlockWord, MigrateType, Order, PAGEBLOCK_ORDER, PageMap, PageRing, Pfn,
};
use crate::sync::atomic::Ordering::Relaxed;
use crate::trace::{Event, Kind};

/// This many blocks leave at a time: all of a usual drain. For a larger drain the others are taken
/// off the lists later: by the simulator's drains while the zone lock is held, by native ones while
/// it is not.
const MOST: usize = 256;
/// At this distance the prefetched descriptors have arrived, and the descriptors that they name are
/// prefetched.
const NEAR: usize = 8;
/// So many blocks ahead descriptors are asked for.
const FAR: usize = 24;
/// Merges that are foreseen: each is half as likely as the one before.
const MERGES: u8 = 2;

/// A block that is on no list, joined from blocks of a CPU's lists, whose words still say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Joined {
    pub(super) pfn: Pfn,
    pub(super) order: Order,
    /// The order of its pieces.
    pub(super) piece: Order,
    pub(super) migratetype: MigrateType,
    /// The highest piece came first.
    descends: bool,
}

impl Joined {
    /// How many pieces there are.
    #[inline(always)]
    pub(super) fn nr_pieces(self) -> u32 {
        1 << (self.order.0 - self.piece.0)
    }

    /// The pieces as they came.
    #[inline(always)]
    pub(super) fn pieces(self) -> impl Iterator<Item = Pfn> {
        let last = self.nr_pieces() - 1;
        (0..=last).map(move |n| {
            let place = if self.descends { last - n } else { n };
            self.pfn.add(place << self.piece.0)
        })
    }
}

/// Blocks that are alike and came in the order of frames, up or down, each beside the one before.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The word of each piece.
    state: BlockWord,
    first: u32,
    last: u32,
    /// How far the next one lies from the last; 0 of one block, after which it may go either way.
    step: u32,
}

impl Run {
    /// A block by itself.
    #[inline(always)]
    fn single(pfn: Pfn, state: BlockWord) -> Run {
        Run { state, first: pfn.0, last: pfn.0, step: 0 }
    }

    /// The next block comes; false if it does not continue this.
    #[inline(always)]
    fn push(&mut self, pfn: Pfn, state: BlockWord) -> bool {
        if state != self.state {
            return false;
        }
        let step = pfn.0.wrapping_sub(self.last);
        if step != self.step {
            let size = state.order().pages() as u32;
            let is_neighbour = step == size || step == size.wrapping_neg();
            if self.step != 0 || !is_neighbour {
                return false;
            }
            self.step = step;
        }
        self.last = pfn.0;
        true
    }

    /// The largest blocks that these form, in order.
    ///
    /// Each block is joined to the one before it, and the two to the one before them, as long as
    /// they are buddies. It stops at a pageblock: whether two pageblocks merge depends on their
    /// types, under the lock.
    #[inline(always)]
    fn blocks(self) -> impl Iterator<Item = Joined> {
        let (piece, migratetype) = (self.state.order(), self.state.migratetype());
        let descends = self.last < self.first;
        let mut start = self.first.min(self.last);
        let mut end = self.first.max(self.last) + piece.pages() as u32;
        core::iter::from_fn(move || {
            let fits = (end - start).checked_ilog2()?;
            let edge = if descends { end } else { start };
            let order = edge.trailing_zeros().min(fits).min(PAGEBLOCK_ORDER.max(piece.0).into());
            if descends {
                end -= 1 << order;
            } else {
                start += 1 << order;
            }
            let (pfn, order) = (Pfn(edge.min(end)), Order(order as u8));
            Some(Joined { pfn, order, piece, migratetype, descends })
        })
    }
}

/// Blocks that have left a CPU's lists and are not free yet, in the order in which they left.
pub(super) struct Leaving<'m> {
    map: &'m PageMap,
    /// Buddies are put together.
    joins: bool,
    blocks: ArrayVec<Joined, MOST>,
}

impl<'m> Leaving<'m> {
    /// None yet.
    pub(super) fn new(map: &'m PageMap, joins: bool) -> Leaving<'m> {
        Leaving { map, joins, blocks: ArrayVec::new() }
    }

    /// No further block may come before these are freed.
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.blocks.is_full()
    }

    /// Adds a block that has left its list; its word describes it. There is room for it.
    #[inline]
    pub(super) fn push(&mut self, pfn: Pfn) {
        self.extend([&[pfn], &[]]);
    }

    /// Takes at most `most` blocks off a list's tail, as many as there is surely room for. Returns
    /// their number.
    #[inline(always)]
    pub(super) fn extend_from_tail(&mut self, list: &PageRing, most: usize) -> usize {
        let most = most.min(self.blocks.remaining_capacity());
        let [behind, before] = list.parts_from_tail();
        let near = most.min(behind.len());
        let far = (most - near).min(before.len());
        let parts = [&behind[behind.len() - near..], &before[before.len() - far..]];
        for part in parts {
            part.iter().rev().for_each(|&pfn| self.map.hint(pfn));
        }
        self.extend(parts);
        near + far
    }

    /// Adds blocks that have left their list, from the end of the first part to the beginning of
    /// the second. There is room for them.
    #[inline(always)]
    fn extend(&mut self, parts: [&[Pfn]; 2]) {
        let mut run: Option<Run> = None;
        for part in parts {
            for &pfn in part.iter().rev() {
                let state = self.map.page(pfn).block();
                let continues = self.joins && run.as_mut().is_some_and(|run| run.push(pfn, state));
                if !continues && let Some(whole) = run.replace(Run::single(pfn, state)) {
                    self.blocks.extend(whole.blocks());
                }
            }
        }
        self.blocks.extend(run.into_iter().flat_map(Run::blocks));
    }

    /// Prefetches the descriptors that the merges of these blocks will read, and the list
    /// neighbours of the first ones.
    ///
    /// They are far apart, so each is a separate cache miss, and each is known only when the one
    /// before has arrived. But the chains of different blocks do not wait for each other. These are
    /// hints: values read here may be wrong when the block is freed, and then the prefetch was
    /// wasted.
    pub(super) fn foresee(&self) {
        for block in self.blocks.iter().take(FAR) {
            foresee_one(self.map, block.pfn, block.order);
        }
        for block in self.blocks.iter().take(NEAR) {
            foresee_links(self.map, block.pfn, block.order);
        }
    }

    /// Frees them in order. Blocks that wait for their buddy are in `pending`, which the caller
    /// settles before it releases the lock.
    pub(super) fn free<P: Probe>(&mut self, buddy: &mut Buddy<'_, P>, pending: &mut Pending) {
        let rule = buddy.policy.pcp.drain_type;
        for (place, &block) in self.blocks.iter().enumerate() {
            if let Some(later) = self.blocks.get(place + FAR) {
                foresee_one(self.map, later.pfn, later.order);
            }
            if let Some(later) = self.blocks.get(place + NEAR) {
                foresee_links(self.map, later.pfn, later.order);
            }
            let migratetype = buddy.type_of_drained(block.pfn, block.migratetype, rule);
            let block = Joined { migratetype, ..block };
            buddy.leave_cpu(block);
            buddy.free_pending(pending, block);
        }
        self.blocks.clear();
    }
}

/// Asks for the descriptors at which the merges of a block will look.
#[inline(always)]
pub(super) fn foresee_one(map: &PageMap, pfn: Pfn, order: Order) {
    for order in merges(order) {
        map.hint(head(pfn, order).buddy(order));
    }
}

/// Asks for the descriptors of those to which blocks are linked that a block will merge with.
#[inline(always)]
fn foresee_links(map: &PageMap, block: Pfn, order: Order) {
    for order in merges(order) {
        let pfn = head(block, order);
        let Some(page) = map.get(pfn.buddy(order)) else { return };
        let state = page.block();
        if !state.has(BlockFlags::BUDDY) || state.order() != order {
            return;
        }
        map.hint(Pfn(page.prev.load(Relaxed)));
        map.hint(Pfn(page.next.load(Relaxed)));
        // The parent decides whether the resulting block goes to the tail.
        let parent = Order(order.0 + 2);
        map.hint(head(pfn, parent).buddy(parent));
    }
}

/// The orders at which a block of this order merges first.
#[inline(always)]
fn merges(order: Order) -> impl Iterator<Item = Order> {
    (order.0..Order::MAX.0).take(usize::from(MERGES)).map(Order)
}

/// Where the block of an order begins that a frame belongs to.
#[inline(always)]
fn head(pfn: Pfn, order: Order) -> Pfn {
    Pfn(pfn.0 >> order.0 << order.0)
}

impl<P: Probe> Buddy<'_, P> {
    /// Types may have changed since a block was put on its list. Up to 6.9 only an isolated
    /// pageblock makes that matter: its pages must not be handed out, while a block on another
    /// type's list is just handed out to that. From 6.10 on no block lies on another type's list
    /// (rules/per-cpu-lists#drain-type).
    #[inline(always)]
    fn type_of_drained(&self, pfn: Pfn, cached: MigrateType, rule: DrainType) -> MigrateType {
        match self.zone.pageblock_type(pfn) {
            MigrateType::Isolate => MigrateType::Isolate,
            now if rule == DrainType::Pageblock => now,
            _ => cached,
        }
    }

    /// Clears the CPU-list state in the words of a block's pieces, with charges and events of each.
    ///
    /// Only under the lock: until then an observer counts them on a CPU's list.
    #[inline(always)]
    fn leave_cpu(&self, block: Joined) {
        let Joined { pfn, order, piece, migratetype, .. } = block;
        let pages = &self.map[pfn.idx()..][..order.pages() as usize];
        let word = BlockWord::at(self.zone.place);
        pages.iter().step_by(piece.pages() as usize).for_each(|page| page.set_block(word));
        // A tracer of drains sees the time of each.
        if !self.probe.traces(Kind::PagePcpuDrain) {
            return self.probe.charge(Cost::BuddyFree, block.nr_pieces());
        }
        for pfn in block.pieces() {
            self.probe.charge(Cost::BuddyFree, 1);
            self.probe.event(Event::PagePcpuDrain { pfn, order: piece, migratetype });
        }
    }

    /// Frees a block that left a CPU's list alone.
    #[inline(always)]
    pub(super) fn free_drained(&mut self, pfn: Pfn) {
        let state = self.map.page(pfn).block();
        let rule = self.policy.pcp.drain_type;
        let migratetype = self.type_of_drained(pfn, state.migratetype(), rule);
        let order = state.order();
        self.free_block(pfn, order, migratetype, false);
        self.probe.event(Event::PagePcpuDrain { pfn, order, migratetype });
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    fn left(frames: &[u32], joins: bool) -> Vec<(u32, u8, Vec<u32>)> {
        let map = PageMap::new(4096);
        let mut leaving = Leaving::new(&map, joins);
        let mut list = PageRing::default();
        for &pfn in frames {
            map.page(Pfn(pfn)).set(BlockFlags::PCP, Order::ZERO, MigrateType::Movable);
            list.push_head(Pfn(pfn));
        }
        assert_eq!(leaving.extend_from_tail(&list, usize::MAX), frames.len().min(MOST));
        let of = |block: &Joined| {
            (block.pfn.0, block.order.0, block.pieces().map(|pfn| pfn.0).collect())
        };
        leaving.blocks.iter().map(of).collect()
    }

    #[test]
    fn neighbours_that_came_in_order_are_one_block() {
        let up = [(5, 0, vec![5]), (6, 1, vec![6, 7]), (8, 1, vec![8, 9])];
        assert_eq!(left(&[5, 6, 7, 8, 9], true), up);
        let down = [(8, 1, vec![9, 8]), (6, 1, vec![7, 6]), (5, 0, vec![5])];
        assert_eq!(left(&[9, 8, 7, 6, 5], true), down);
        // Ascending, then descending: two pairs, whose pieces would have no order.
        assert_eq!(left(&[4, 5, 7, 6], true), [(4, 1, vec![4, 5]), (6, 1, vec![7, 6])]);
        // Not each other's buddies.
        assert_eq!(left(&[5, 6], true), [(5, 0, vec![5]), (6, 0, vec![6])]);
        assert_eq!(left(&[4, 5], false), [(4, 0, vec![4]), (5, 0, vec![5])]);
    }

    #[test]
    fn as_many_leave_as_there_is_surely_room_for() {
        let frames: Vec<u32> = (0..MOST as u32 + 9).collect();
        let heads: Vec<_> =
            left(&frames, true).iter().map(|&(pfn, order, _)| (pfn, order)).collect();
        assert_eq!(heads, [(0, MOST.ilog2() as u8)]);
        assert_eq!(left(&frames, false).len(), MOST);
    }

    #[test]
    fn pageblocks_are_not_joined() {
        let map = PageMap::new(4096);
        let mut leaving = Leaving::new(&map, true);
        for pfn in [0, 512] {
            let order = Order(PAGEBLOCK_ORDER);
            map.page(Pfn(pfn)).set(BlockFlags::PCP, order, MigrateType::Movable);
        }
        leaving.extend([&[Pfn(512), Pfn(0)], &[]]);
        let heads: Vec<_> = leaving.blocks.iter().map(|block| (block.pfn.0, block.order)).collect();
        assert_eq!(heads, [(0, Order(PAGEBLOCK_ORDER)), (512, Order(PAGEBLOCK_ORDER))]);
    }
}
