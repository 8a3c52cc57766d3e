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

use super::Buddy;
use crate::host::Probe;
use crate::page::{BlockFlags, Order, PageRing, Pfn};
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::prefetch::prefetch_read;

/// So many blocks ahead descriptors are asked for.
const FAR: usize = 16;
/// So many blocks ahead they have come, and those that they name are asked for.
const NEAR: usize = 8;
/// Merges that are foreseen: each is half as likely as the one before.
const MERGES: u8 = 2;

impl<P: Probe> Buddy<'_, P> {
    /// Blocks of `order` are about to leave the tail of a list.
    pub(super) fn foresee_tail(&self, list: &PageRing, order: Order) {
        for n in 0..FAR.min(list.len()) {
            self.foresee_far(list, order, n);
        }
        for n in 0..NEAR.min(list.len()) {
            self.foresee_near(list, order, n);
        }
    }

    /// A block has just left the tail: looks one block further.
    #[inline(always)]
    pub(super) fn foresee_next(&self, list: &PageRing, order: Order) {
        self.foresee_far(list, order, FAR - 1);
        self.foresee_near(list, order, NEAR - 1);
    }

    #[inline(always)]
    fn foresee_far(&self, list: &PageRing, order: Order, n: usize) {
        let Some(pfn) = list.from_tail(n) else { return };
        self.hint(pfn);
        for merge in 0..MERGES {
            self.hint(pfn.buddy(Order(order.0 + merge)));
        }
    }

    #[inline(always)]
    fn foresee_near(&self, list: &PageRing, order: Order, n: usize) {
        let Some(mut pfn) = list.from_tail(n) else { return };
        for merge in 0..MERGES {
            let order = Order(order.0 + merge);
            let buddy = pfn.buddy(order);
            let Some(page) = self.map.get(buddy) else { return };
            let state = page.block();
            if !state.has(BlockFlags::BUDDY) || state.order() != order || order == Order::MAX {
                return;
            }
            for link in [page.prev.load(Relaxed), page.next.load(Relaxed)] {
                self.hint(Pfn(link));
            }
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
