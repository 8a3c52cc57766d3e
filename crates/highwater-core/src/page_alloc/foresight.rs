//! Fetching what a drain will touch before it gets there.
//!
//! To free a block is to look at its buddy, and if that is free to unlink it from between two others, and to look at
//! the buddy of what the two make. None of these descriptors is near another one, so each is a cache miss of its own, and
//! each is known only when the one before has come. But a drain frees many blocks, and what the next ones will
//! touch does not wait for this one: so it is asked for in two steps, some blocks ahead.
//!
//! ```text
//!   tail of the list       ... o   o   o   o   o   o   o   o   o   o   o   o
//!                              |                       |               |
//!        its descriptor, its buddies':     what those are linked to:   freed
//!        asked for                         known by now, asked for
//! ```
//!
//! All of this are hints: what is read here may be wrong by the time the block is freed, and then the hint was for
//! nothing.

use crate::page::{BlockFlags, Order, PageMap, PageRing, Pfn};
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::prefetch::prefetch_read;

/// So many blocks ahead descriptors are asked for.
const FAR: usize = 16;
/// So many blocks ahead they have come, and those that they name are asked for.
const NEAR: usize = 8;
/// Merges that are foreseen: each is half as likely as the one before.
const MERGES: u8 = 2;

/// What looks ahead of a drain of one list.
pub(super) struct Foresight<'m> {
    map: &'m PageMap,
    order: Order,
    /// Merges that are looked for.
    merges: u8,
    /// Blocks from the tail on that have been looked at from afar, and from near.
    far: usize,
    near: usize,
}

impl<'m> Foresight<'m> {
    /// Nothing was looked at yet.
    pub(super) fn new(map: &'m PageMap, order: Order) -> Foresight<'m> {
        let merges = MERGES.min(Order::MAX.0 - order.0);
        Foresight { map, order, merges, far: 0, near: 0 }
    }

    /// A block has just left the tail of the list and others will follow: looks some blocks ahead.
    #[inline(always)]
    pub(super) fn look(&mut self, list: &PageRing) {
        (self.far, self.near) = (self.far.saturating_sub(1), self.near.saturating_sub(1));
        while self.far < FAR
            && let Some(pfn) = list.from_tail(self.far)
        {
            self.look_far(pfn);
            self.far += 1;
        }
        while self.near < NEAR
            && let Some(pfn) = list.from_tail(self.near)
        {
            self.look_near(pfn);
            self.near += 1;
        }
    }

    /// The block's descriptor and those at which its merges will look.
    #[inline(always)]
    fn look_far(&self, pfn: Pfn) {
        self.hint(pfn);
        for merge in 0..self.merges {
            self.hint(pfn.buddy(Order(self.order.0 + merge)));
        }
    }

    /// What those are linked to that it will merge with.
    #[inline(always)]
    fn look_near(&self, mut pfn: Pfn) {
        for merge in 0..self.merges {
            let order = Order(self.order.0 + merge);
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
    fn hint(&self, pfn: Pfn) {
        if let Some(page) = self.map.get(pfn) {
            prefetch_read(page);
        }
    }
}
