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
//! A compactor that waits for a block looks at every merge, so what it frees is not joined beforehand.

use arrayvec::ArrayVec;

use super::Buddy;
use super::runs::Pending;
use crate::host::{Cost, Probe};
use crate::page::{BlockFlags, MigrateType, Order, PAGEBLOCK_ORDER, PageMap, Pfn};
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::prefetch::prefetch_read;
use crate::trace::Event;

/// So many blocks leave at a time. A drain of more takes the others off the lists while it holds the zone lock.
const MOST: usize = 64;
/// So many blocks ahead the descriptors have come that were asked for, and those that they name are.
const NEAR: usize = 8;
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
    /// A block by itself.
    #[inline(always)]
    pub(super) fn single(pfn: Pfn, order: Order, migratetype: MigrateType) -> Joined {
        Joined { pfn, order, piece: order, migratetype, descends: false }
    }

    /// What this one and the next make, if they are buddies and their pieces came in the order of frames, up or down.
    ///
    /// Not beyond a pageblock: whether two of those merge is for their types to say, under the lock.
    #[inline(always)]
    fn join(self, next: Joined) -> Option<Joined> {
        let descends = next.pfn < self.pfn;
        let are_alike = self.order == next.order
            && self.piece == next.piece
            && self.migratetype == next.migratetype;
        let have_one_way =
            self.order == self.piece || self.descends == descends && next.descends == descends;
        let are_buddies = self.pfn.buddy(self.order) == next.pfn;
        if !are_buddies || !are_alike || !have_one_way || self.order.0 >= PAGEBLOCK_ORDER {
            return None;
        }
        let (pfn, order) = (self.pfn.min(next.pfn), Order(self.order.0 + 1));
        Some(Joined { pfn, order, descends, ..self })
    }

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
    #[inline(always)]
    pub(super) fn push(&mut self, pfn: Pfn) {
        let state = self.map.page(pfn).block();
        let mut block = Joined::single(pfn, state.order(), state.migratetype());
        while self.joins
            && let Some(last) = self.blocks.last()
            && let Some(whole) = last.join(block)
        {
            self.blocks.pop();
            block = whole;
        }
        self.blocks.push(block);
    }

    /// Asks for the descriptors at which the merges of these blocks will look, and for what those of the first are linked to.
    ///
    /// None of them is near another one, so each is a cache miss of its own, and each is known only when the one before
    /// has come; but those of different blocks do not wait for each other. All of this are hints: what is
    /// read here may be wrong by the time a block is freed, and then the hint was for nothing.
    pub(super) fn foresee(&self) {
        for block in &self.blocks {
            let merges = MERGES.min(Order::MAX.0 - block.order.0);
            for order in (block.order.0..block.order.0 + merges).map(Order) {
                self.hint(block.pfn.buddy(order));
            }
        }
        for block in self.blocks.iter().take(NEAR) {
            self.foresee_links(block);
        }
    }

    /// What those are linked to that a block will merge with.
    #[inline(always)]
    fn foresee_links(&self, block: &Joined) {
        let mut pfn = block.pfn;
        for order in (block.order.0..Order::MAX.0).take(usize::from(MERGES)).map(Order) {
            let buddy = pfn.buddy(order);
            let Some(page) = self.map.get(buddy) else { return };
            let state = page.block();
            if !state.has(BlockFlags::BUDDY) || state.order() != order {
                return;
            }
            self.hint(Pfn(page.prev.load(Relaxed)));
            self.hint(Pfn(page.next.load(Relaxed)));
            pfn = Pfn(pfn.0 & buddy.0);
            self.hint(pfn.buddy(Order(order.0 + 2)));
        }
    }

    #[inline(always)]
    pub(super) fn hint(&self, pfn: Pfn) {
        if let Some(page) = self.map.get(pfn) {
            prefetch_read(page);
        }
    }

    /// Frees them, in the order in which they came. What waits for its buddy does so in `pending`, which the caller
    /// settles before it lets go of the lock.
    pub(super) fn free<P: Probe>(&mut self, buddy: &mut Buddy<'_, P>, pending: &mut Pending) {
        for (place, &block) in self.blocks.iter().enumerate() {
            if let Some(later) = self.blocks.get(place + NEAR) {
                self.foresee_links(later);
            }
            let migratetype = buddy.type_of_drained(block.pfn, block.migratetype);
            for pfn in block.pieces() {
                // Not before the lock is held: who counts what is where finds the block on a CPU's list until then.
                self.map.page(pfn).clear();
                buddy.probe.charge(Cost::BuddyFree, 1);
                let order = block.piece;
                buddy.probe.event(Event::PagePcpuDrain { pfn, order, migratetype });
            }
            buddy.free_pending(pending, Joined { migratetype, ..block });
        }
        self.blocks.clear();
    }
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
        for &pfn in frames {
            map.page(Pfn(pfn)).set(BlockFlags::PCP, Order::ZERO, MigrateType::Movable);
            leaving.push(Pfn(pfn));
        }
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
    fn pageblocks_are_not_joined() {
        let frames: Vec<u32> = (0..1024).collect();
        let blocks = left(&frames, true);
        let heads: Vec<_> = blocks.iter().map(|&(pfn, order, _)| (pfn, order)).collect();
        assert_eq!(heads, [(0, PAGEBLOCK_ORDER), (512, PAGEBLOCK_ORDER)]);
    }
}
