//! Deferred frees: a native CPU batches freed blocks (hosts with [`Host::DEFERS_FREES`]).
//!
//! A free reads its block's descriptor, puts the block on a list, and often moves it on to the
//! buddy lists, whose blocks have descriptors elsewhere. Without caching that is two or three cache
//! misses in a row, and the zone lock is taken between the second and the third. So a CPU records
//! the block and prefetches the descriptors. When the block is really freed, a few frees later,
//! they are in the cache:
//!
//! ```text
//! free ── is the caller right? ──────── Deferred: 7 3 9 ...  ── full, or lists are used ─▶ the CPU's lists, buddy lists
//!         (a byte, which is near)        descriptors come        the older half, in one hold of the zone lock
//! ```
//!
//! The result is that of a CPU which is delayed between its caller and the lists. Blocks are freed
//! one by one, in the order of their frees, by the same rules and with the same counts. Any use of
//! the CPU's lists flushes deferred frees first, so an allocation gets the block freed last, and a
//! drain gets all. The CPU also flushes before any action for which they matter, so a single task
//! sees no difference. Other CPUs see the blocks as in use until then: at most [`Deferred::MOST`]
//! blocks per CPU and zone, one mebibyte, and no more than the lists' limit plus one block. An
//! allocation that would fail flushes all CPUs' deferred frees before it reclaims. A thread flushes
//! its own when it gives up its CPU.
//!
//! So allocated frames and errors are unchanged, and after a drain the counters are too. Until then
//! pgfree and the free pages lag by these blocks, as they lag by the pages on the lists.
//!
//! A wrong free is refused at once, as always (two at the same moment: later, without effect). Only
//! the descriptor shows that others use the page. This is detected when the block is really freed;
//! until then the page has one reference more. Freeing a block with a deferred free, by mistake or
//! as its other user, first flushes all deferred frees.
//!
//! From: [`super::free`] · to: [`super::pcp`], [`super::buddy`].

use core::marker::PhantomData;

use super::leaving::foresee_one;
use super::pcp::pcp_event_unit;
use super::{PageAllocator, Pcp};
use crate::host::{Cx, Host, Lock};
use crate::page::{BlockWord, MigrateType, Order, PageMap, Pfn};
use crate::trace::Event;
use crate::vmstat::VmEvent;
use crate::zone::{Deferred, Zone};

/// How a host's frees work, decided when the program is compiled: deferred, or each at once. The only
/// reader of [`Host::DEFERS_FREES`]; what differs between the two is in this file.
pub(super) struct Frees<H>(PhantomData<H>);

impl<H: Host> Frees<H> {
    /// A CPU batches freed blocks.
    const ARE_DEFERRED: bool = H::DEFERS_FREES;

    /// A drain releases the zone lock while it takes more blocks off a CPU's lists, because others
    /// really wait for it.
    pub(super) const LET_GO_OF_ZONE_LOCK: bool = H::DEFERS_FREES;

    /// The page array, with a head byte for each frame where frees are deferred.
    pub(super) fn page_map(nr_frames: u32) -> PageMap {
        if Self::ARE_DEFERRED { PageMap::with_heads(nr_frames) } else { PageMap::new(nr_frames) }
    }
}

impl<H: Host> PageAllocator<H> {
    /// Defers the free of a block, true; or makes its descriptor say what it would without deferred
    /// frees, false: then the block is freed at once.
    #[inline(always)]
    pub(super) fn defer_or_settle(&self, cx: &Cx<'_, H>, pfn: Pfn, order: Order) -> bool {
        if Frees::<H>::ARE_DEFERRED {
            if self.defer(cx, pfn, order) {
                return true;
            }
            self.settle_put_down(cx, pfn);
        }
        false
    }

    /// Before an allocation takes a block off a CPU's lists: takes the deferred one if it is just what the
    /// allocation wants, and frees the others.
    #[inline(always)]
    pub(super) fn take_or_free_deferred(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        pcp: &mut Pcp,
        order: Order,
        migratetype: MigrateType,
    ) -> Option<Pfn> {
        if !Frees::<H>::ARE_DEFERRED || pcp.deferred.is_empty() {
            return None;
        }
        let at_hand = self.take_deferred(cx, zone, pcp, order, migratetype);
        self.free_deferred(cx, zone, pcp);
        at_hand
    }

    /// A block was handed out: [`Self::defer`] may take it when it comes back.
    #[inline(always)]
    pub(super) fn remember_head(&self, pfn: Pfn, order: Order, state: BlockWord) {
        // Pages of a pageblock with an owner go to him.
        let may_come = is_deferrable(order) && self.pcp_shape.holds(order);
        if Frees::<H>::ARE_DEFERRED && may_come && !self.policy.pcp.own_blocks {
            self.map.set_head(pfn, order, state);
        }
    }

    /// A block's descriptor is about to change, or to be trusted again: clears its head byte.
    #[inline(always)]
    pub(super) fn forget_head(&self, pfn: Pfn) {
        if Frees::<H>::ARE_DEFERRED {
            self.map.forget_head(pfn);
        }
    }

    /// Puts down a block that is freed; false if that is to be done at once.
    #[inline(always)]
    fn defer(&self, cx: &Cx<'_, H>, pfn: Pfn, order: Order) -> bool {
        let cpu = cx.cpu();
        if !is_deferrable(order) || !self.map.is_head(pfn, order) {
            return false;
        }
        let Some(zone) = self.likely_zone(pfn) else { return false };
        let Some(mut pcp) = zone.cpus[cpu.idx()].pcp.try_lock(cpu) else { return false };
        self.map.put_down_head(pfn);
        self.map.hint(pfn);
        if order > Order::ZERO {
            foresee_one(&self.map, pfn, order);
        }
        if !pcp.deferred.takes(order) {
            self.free_oldest(cx, zone, &mut pcp, Deferred::MOST);
        }
        pcp.deferred.push(pfn, order);
        if pcp.deferred.is_full() {
            self.free_oldest(cx, zone, &mut pcp, Deferred::MOST / 2);
        } else if pcp.deferred.pages() > zone.pcp_high() {
            self.free_oldest(cx, zone, &mut pcp, Deferred::MOST);
        }
        true
    }

    /// The deferred block, if there is exactly one and it fits the allocation: as if it had been
    /// freed and taken.
    #[inline(always)]
    fn take_deferred(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        pcp: &mut Pcp,
        order: Order,
        migratetype: MigrateType,
    ) -> Option<Pfn> {
        let (pfn, its_order) = pcp.deferred.only()?;
        // On its list it would have met no limit.
        let most = zone.pcp_least_limit();
        let has_room = pcp.count + (order.pages() as u32) < most && pcp.free_factor == 0;
        if its_order != order
            || zone.pageblock_type(pfn) != migratetype
            || !has_room
            || self.map.page(pfn).refcount_acquire() != 1
        {
            return None;
        }
        pcp.deferred.clear();
        self.map.forget_head(pfn);
        let events = pcp_event_unit(self.policy.pcp.event_unit, order);
        self.events.add(cx.cpu(), VmEvent::Pgfree, events);
        Some(pfn)
    }

    /// Before a frame's descriptor is trusted: flushes a deferred free of any CPU there. It is a
    /// wrong free, or that of the other user of a shared block.
    #[inline(always)]
    pub(super) fn settle_put_down(&self, cx: &Cx<'_, H>, pfn: Pfn) {
        if Frees::<H>::ARE_DEFERRED
            && self.map.is_put_down(pfn)
            && let Some(zone) = self.likely_zone(pfn)
        {
            self.free_all_deferred_of(cx, zone);
        }
    }

    /// Flushes the deferred frees of all CPUs: for code that reads frames from outside, and for
    /// requests that would fail. True if there were any. The caller holds no CPU's lists.
    pub fn free_all_deferred(&self, cx: &Cx<'_, H>) -> bool {
        let mut any = false;
        for zone in self.populated_zones().filter(|_| Frees::<H>::ARE_DEFERRED) {
            any |= self.free_all_deferred_of(cx, zone);
        }
        any
    }

    #[cold]
    fn free_all_deferred_of(&self, cx: &Cx<'_, H>, zone: &Zone<H>) -> bool {
        let mut any = false;
        for cpu in &zone.cpus {
            let mut pcp = cpu.pcp.lock(cx.cpu());
            any |= !pcp.deferred.is_empty();
            self.free_deferred(cx, zone, &mut pcp);
        }
        any
    }

    /// Flushes the deferred frees of a CPU whose lists are locked, before any other operation on
    /// them.
    #[inline(always)]
    pub(super) fn free_deferred(&self, cx: &Cx<'_, H>, zone: &Zone<H>, pcp: &mut Pcp) {
        if Frees::<H>::ARE_DEFERRED && !pcp.deferred.is_empty() {
            self.free_oldest(cx, zone, pcp, Deferred::MOST);
        }
    }

    /// Flushes this CPU's deferred frees: before an action for which they matter, and when the CPU
    /// is given up.
    #[inline(always)]
    pub fn free_mine_deferred(&self, cx: &Cx<'_, H>) {
        if Frees::<H>::ARE_DEFERRED {
            self.populated_zones().for_each(|zone| self.free_mine_deferred_of(cx, zone));
        }
    }

    /// As [`Self::free_mine_deferred`], of one zone.
    #[inline(always)]
    pub(super) fn free_mine_deferred_of(&self, cx: &Cx<'_, H>, zone: &Zone<H>) {
        let cpu = cx.cpu();
        if Frees::<H>::ARE_DEFERRED
            && let Some(mut pcp) = zone.cpus[cpu.idx()].pcp.try_lock(cpu)
        {
            self.free_deferred(cx, zone, &mut pcp);
        }
    }

    /// Frees up to `most` of the oldest deferred blocks.
    #[inline(never)]
    fn free_oldest(&self, cx: &Cx<'_, H>, zone: &Zone<H>, pcp: &mut Pcp, most: usize) {
        let (mut blocks, nr, order) = pcp.deferred.take(most);
        // Unreferenced blocks are moved together, and are freed together later.
        let mut nr_unused = 0;
        for at in 0..nr {
            let pfn = blocks[at];
            let page = self.map.page(pfn);
            self.map.forget_head(pfn);
            match page.refcount_acquire() {
                users if users == 0 || !page.block().is_in_use(zone.place, order) => {
                    wrong_in_turn(pfn, order);
                }
                1 => {
                    page.set_refcount(0);
                    blocks[nr_unused] = pfn;
                    nr_unused += 1;
                }
                _ => {
                    self.free_in_turn(cx, zone, pcp, &blocks[..nr_unused], order);
                    nr_unused = 0;
                    self.leave_shared(pfn, order, |pfn, order| {
                        self.free_in_turn(cx, zone, pcp, &[pfn], order);
                    });
                }
            }
        }
        self.free_in_turn(cx, zone, pcp, &blocks[..nr_unused], order);
    }

    /// Frees unreferenced blocks of one order and zone to this CPU's lists.
    #[inline(always)]
    fn free_in_turn(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        pcp: &mut Pcp,
        blocks: &[Pfn],
        order: Order,
    ) {
        for &pfn in blocks {
            cx.host.trace(cx.cpu(), &Event::PageFree { pfn, order });
        }
        match order {
            Order::ZERO => self.free_run(cx, zone, pcp, blocks, Order::ZERO),
            _ => self.free_run(cx, zone, pcp, blocks, order),
        }
    }
}

/// Two tasks freed a block with one reference at the same moment, which no byte can show: the
/// second free is refused now.
#[cold]
fn wrong_in_turn(pfn: Pfn, order: Order) {
    debug_assert!(false, "{pfn:?}, {order:?} was put down and is not in use");
}

/// Larger blocks are freed at once: even a few deferred huge pages would be much memory.
#[inline(always)]
pub(super) fn is_deferrable(order: Order) -> bool {
    order <= Order::COSTLY
}
