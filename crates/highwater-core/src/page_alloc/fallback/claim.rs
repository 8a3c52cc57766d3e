//! Fallback of 6.12 and 7.2: claim a pageblock, or steal one block (rules/buddy#claim-steal).
//!
//! 6.1 moved all free blocks of a pageblock to the lists of the requesting type, whether or not the
//! pageblock changed its type. So lists held blocks of foreign pageblocks, and a later free put such a
//! page on yet another list. Here a block's list is always that of its pageblock. A pageblock is
//! claimed as a whole, or one block is taken and its rest stays with the type that it had.
//!
//! A search for a pageblock to claim looks at one block of each order, and raises the zone's marks for
//! each that it cannot claim. A refill that had to steal once does not search again.

use super::{FallbackRule, MigrateType, Order, PAGEBLOCK_ORDER, Pfn, fallbacks, may_claim};
use crate::host::Probe;
use crate::page::BlockFlags;
use crate::page_alloc::{AllocFlags, Buddy};

impl<P: Probe> Buddy<'_, P> {
    /// Takes a block of another type for a type whose lists are empty, by either way; none if there
    /// is none.
    pub(super) fn claim_or_steal(
        &mut self,
        order: Order,
        start: MigrateType,
        flags: AllocFlags,
    ) -> Option<Pfn> {
        debug_assert_eq!(self.policy.fallback, FallbackRule::ClaimSteal);
        if !self.has_stolen
            && let Some(pfn) = self.claim(order, start, flags)
        {
            return Some(pfn);
        }
        if flags.contains(AllocFlags::NOFRAGMENT) {
            return None;
        }
        let pfn = self.steal_smallest(order, start)?;
        self.has_stolen = true;
        Some(pfn)
    }

    /// Gives the pageblock of another type's block to `start`, if the type may have it, and takes a
    /// block there; from the largest block down.
    #[doc(alias = "__rmqueue_claim")]
    fn claim(&mut self, order: Order, start: MigrateType, flags: AllocFlags) -> Option<Pfn> {
        let no_fragment = flags.contains(AllocFlags::NOFRAGMENT);
        let min = if no_fragment { order.0.max(PAGEBLOCK_ORDER) } else { order.0 };
        for at in (min..=Order::MAX.0).rev().map(Order) {
            if !may_claim(self.zone, at, start) {
                return None;
            }
            let Some((block, from)) = self.first_of_others(at, start) else { continue };
            if self.try_claim(block, at, start, flags) {
                let pfn = self.take(order, start)?;
                self.extfrag(pfn, order, at, start, from);
                return Some(pfn);
            }
        }
        None
    }

    /// Claims the pageblock of a free block, or the pageblocks that it covers.
    ///
    /// Pages are counted before any is moved: a pageblock that keeps its type keeps its blocks too.
    #[doc(alias = "try_to_claim_block")]
    fn try_claim(&mut self, pfn: Pfn, order: Order, start: MigrateType, flags: AllocFlags) -> bool {
        let from = self.zone.pageblock_type(pfn);
        if !from.is_mergeable() {
            // The block strayed to another type's list, but its pageblock is set aside.
            return false;
        }
        if order.0 >= PAGEBLOCK_ORDER {
            self.claim_pageblocks(pfn, order, start);
            self.move_to(pfn, start, false);
            return true;
        }
        self.boost_for(flags);
        if !self.has_whole_pageblock(pfn) {
            return false;
        }
        let Some((free, movable)) = self.walk_pageblock(pfn, |_, _| {}) else { return false };
        if !self.is_mostly(start, from, free, movable) {
            return false;
        }
        self.move_pageblock(pfn, start, true);
        self.zone.set_pageblock_type(pfn, start);
        true
    }

    /// Takes the smallest sufficient block of another type; its rest goes back to that type's lists.
    #[doc(alias = "__rmqueue_steal")]
    fn steal_smallest(&mut self, order: Order, start: MigrateType) -> Option<Pfn> {
        let mut orders = (order.0..=Order::MAX.0).map(Order);
        let found = orders.find_map(|at| Some((at, self.first_of_others(at, start)?)));
        let (at, (pfn, from)) = found?;
        self.unlink(pfn);
        self.expand(pfn, order, at, from);
        self.map.page(pfn).set(BlockFlags::empty(), order, start);
        self.extfrag(pfn, order, at, start, from);
        Some(pfn)
    }

    /// The head of the first list of this order that `start` may fall back to, and its type.
    fn first_of_others(&self, order: Order, start: MigrateType) -> Option<(Pfn, MigrateType)> {
        let lists = &self.area.lists[order.idx()];
        fallbacks(start).iter().find_map(|&from| Some((lists[from.idx()].head()?, from)))
    }
}
