//! Blocks on their way from a CPU's lists to the buddy lists: what can be done before others have to wait.
//!
//! While a drain holds the zone lock no other CPU gets memory from the zone, or gives any back. But much of what a
//! drain does is about its own blocks, which nobody else may touch: to take them off the CPU's lists, and to put together
//! those that are each other's buddies. And much of the rest is waiting for descriptors from memory, which can be asked
//! for beforehand. So blocks leave in two steps:
//!
//! ```text
//! the CPU's lists  -- push -->  Leaving: 12 13 [14 15] -> [12..15]  -- zone lock, free -->  buddy lists
//!                               joined, their neighbours asked for
//! ```
//!
//! Pages are mostly freed in the order in which they were taken, which is the order of frames; so of 63 pages often
//! seven blocks are left, each of which is merged and linked once.
//!
//! What comes of it is what single steps would leave. A joined block stands where the last of its pieces stood: between two
//! of its pieces nothing else is freed, so what is on the lists meanwhile nobody meets but the next piece, which
//! takes it off again. Counts, charges and events are each piece's own.
//!
//! A compactor that waits for a block looks at every merge, so what it frees is not joined beforehand. Nor is what is left of
//! a pageblock that loses its owner ([`super::owned`]): it leaves while the zone lock is held.
//!
//! Synchronisation: the blocks are nobody's but the drain's until [`Leaving::free`], which needs the zone lock. Their words
//! change under it. What is read of others' descriptors before is for hints alone.
//!
//! From: [`super::bulk_free`], [`super::owned`] · to: [`super::runs`].

use arrayvec::ArrayVec;

use super::Buddy;
use super::runs::Pending;
use crate::host::{Cost, Probe};
use crate::page::{
    BlockFlags, BlockWord, MigrateType, Order, PAGEBLOCK_ORDER, PageMap, PageRing, Pfn,
};
use crate::sync::atomic::Ordering::Relaxed;
use crate::trace::{Event, Kind};

/// So many blocks leave at a time: all of a usual drain. Of a larger one the others are taken off the lists later, by the
/// simulator's drains while the zone lock is held, by native ones while it is not.
const MOST: usize = 256;
/// So many blocks ahead the descriptors have come that were asked for, and those that they name are.
const NEAR: usize = 8;
/// So many blocks ahead descriptors are asked for.
const FAR: usize = 24;
/// Merges that are foreseen: each is half as likely as the one before.
const MERGES: u8 = 2;

/// A block that is on no list, made of blocks that were on a CPU's and whose words still say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Joined {
    pub(super) pfn: Pfn,
    pub(super) order: Order,
    /// What it is made of.
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
    /// What the word of each says.
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

    /// The largest blocks that these consist of, in the order in which they came.
    ///
    /// That is what comes of putting each block to the one before, and the two to what is before them, as long as they
    /// are buddies. Not beyond a pageblock: whether two of those merge is for their types to say, under the lock.
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

/// Blocks that have left a CPU's lists and are free for nobody yet, in the order in which they left.
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

    /// A block that its word describes has left its list. There is room for it.
    #[inline]
    pub(super) fn push(&mut self, pfn: Pfn) {
        self.extend([&[pfn], &[]]);
    }

    /// Blocks at a list's tail leave it, at most so many, and as many as there is surely room for. How many do.
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

    /// Blocks have left their list, from the end of the first part to the begin of the second. There is room for them.
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

    /// Asks for the descriptors at which the merges of these blocks will look, and for what those of the first are linked to.
    ///
    /// None of them is near another one, so each is a cache miss of its own, and each is known only when the one before
    /// has come; but those of different blocks do not wait for each other. All of this are hints: what is
    /// read here may be wrong by the time a block is freed, and then the hint was for nothing.
    pub(super) fn foresee(&self) {
        for block in self.blocks.iter().take(FAR) {
            foresee_one(self.map, block.pfn, block.order);
        }
        for block in self.blocks.iter().take(NEAR) {
            foresee_links(self.map, block.pfn, block.order);
        }
    }

    /// Frees them, in the order in which they came. What waits for its buddy does so in `pending`, which the caller
    /// settles before it lets go of the lock.
    pub(super) fn free<P: Probe>(&mut self, buddy: &mut Buddy<'_, P>, pending: &mut Pending) {
        for (place, &block) in self.blocks.iter().enumerate() {
            if let Some(later) = self.blocks.get(place + FAR) {
                foresee_one(self.map, later.pfn, later.order);
            }
            if let Some(later) = self.blocks.get(place + NEAR) {
                foresee_links(self.map, later.pfn, later.order);
            }
            let migratetype = buddy.type_of_drained(block.pfn, block.migratetype);
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
        // That says whether the block that this makes goes to the tail.
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
    /// Types may have changed since a block was put on its list; only an isolated pageblock makes that matter: its pages must
    /// not be handed out, while a block on another type's list is just handed out to that.
    #[inline(always)]
    fn type_of_drained(&self, pfn: Pfn, cached: MigrateType) -> MigrateType {
        match self.zone.pageblock_type(pfn) {
            MigrateType::Isolate => MigrateType::Isolate,
            _ => cached,
        }
    }

    /// The pieces of a block are no longer a CPU's by their words; charges and events of each.
    ///
    /// Not before the lock is held: who counts what is where finds them on a CPU's list until then.
    #[inline(always)]
    fn leave_cpu(&self, block: Joined) {
        let Joined { pfn, order, piece, migratetype, .. } = block;
        let pages = &self.map[pfn.idx()..][..order.pages() as usize];
        let word = BlockWord::at(self.zone.place);
        pages.iter().step_by(piece.pages() as usize).for_each(|page| page.set_block(word));
        // Who traces drains sees the time of each.
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
        let (order, migratetype) = (state.order(), self.type_of_drained(pfn, state.migratetype()));
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
        // Up, then down: two pairs, whose pieces would be in no order.
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
