//! Frees that are put down until others follow (hosts with [`Host::DEFERS_FREES`]).
//!
//! A free looks at its block's descriptor, puts the block on a list and often from there to the buddy lists, whose other
//! blocks have descriptors elsewhere. Where memory is far, that is two or three times in a row waiting for a line that nobody
//! knew of before; and between the second and the third stands the zone lock. Here a block is put down by its CPU and
//! its descriptors are asked for; when it is freed in earnest, some frees later, they are there:
//!
//! ```text
//! free ── is it what the caller says? ── Deferred: 7 3 9 ...  ── full, or somebody looks ──▶ the CPU's lists, buddy lists
//!         (a byte, which is near)        descriptors come        the older half, in one hold of the zone lock
//! ```
//!
//! What comes of it is what would come of a CPU that was held up between its caller and the lists: blocks go where they go
//! one by one, in the order in which they were freed, by the same rules and with the same counts. Who looks at the CPU's
//! lists has them freed first, so an allocation gets what was freed last, and a drain gets all. So has the CPU itself
//! before it does anything else for which they matter, so that a task that is alone cannot tell. Others see them as in use until
//! then: [`Deferred::MOST`] blocks of a CPU and zone, a mebibyte at most, and no more than its lists may hold and one block. Who
//! gets no memory otherwise has them freed before he reclaims; a thread that leaves its CPU frees its own.
//!
//! So frames handed out, errors and, once lists are drained, counters are what they would be. In between pgfree and the free
//! pages lag by these blocks, as they do by the pages on the lists.
//!
//! A wrong free is refused at once, as always (two at the same moment: later, without effect). What only the descriptor knows,
//! that others use the page, is found when the block is freed; until then it has one reference more. Who wants to free a block
//! that was put down, by mistake or because he was the other user, first has all freed that was.
//!
//! From: [`super::free`] · to: [`super::pcp`], [`super::buddy`].

use super::leaving::foresee_one;
use super::pcp::pcp_event_unit;
use super::{PageAllocator, Pcp};
use crate::host::{Cx, Host, Lock};
use crate::page::{BlockWord, MigrateType, Order, Pfn};
use crate::trace::Event;
use crate::vmstat::VmEvent;
use crate::zone::{Deferred, Zone};

impl<H: Host> PageAllocator<H> {
    /// A block was handed out: [`Self::defer`] may take it when it comes back.
    #[inline(always)]
    pub(super) fn remember_head(&self, pfn: Pfn, order: Order, state: BlockWord) {
        // Pages of a pageblock with an owner go to him.
        let may_come = is_deferrable(order) && self.pcp_shape.holds(order);
        if H::DEFERS_FREES && may_come && !self.policy.pcp.own_blocks {
            self.map.set_head(pfn, order, state);
        }
    }

    /// What is known of a block is about to change, or to be believed no longer.
    #[inline(always)]
    pub(super) fn forget_head(&self, pfn: Pfn) {
        if H::DEFERS_FREES {
            self.map.forget_head(pfn);
        }
    }

    /// Puts down a block that is freed; false if that is to be done at once.
    #[inline(always)]
    pub(super) fn defer(&self, cx: &Cx<'_, H>, pfn: Pfn, order: Order) -> bool {
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

    /// The block that was put down, if it is one only and just what an allocation wants: as if it had been freed and taken.
    #[inline(always)]
    pub(super) fn take_deferred(
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

    /// A frame whose descriptor is going to be believed: what was put down there is freed first, whoever did. That is a wrong
    /// free, or the other user's of a block that two had.
    #[inline(always)]
    pub(super) fn settle_put_down(&self, cx: &Cx<'_, H>, pfn: Pfn) {
        if H::DEFERS_FREES
            && self.map.is_put_down(pfn)
            && let Some(zone) = self.likely_zone(pfn)
        {
            self.free_all_deferred_of(cx, zone);
        }
    }

    /// Frees what any CPU has put down: for those who look at frames from outside, and who else would do without memory. True
    /// if there was anything. The caller holds no CPU's lists.
    pub fn free_all_deferred(&self, cx: &Cx<'_, H>) -> bool {
        let mut any = false;
        for zone in self.populated_zones().filter(|_| H::DEFERS_FREES) {
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

    /// Frees what was put down by a CPU whose lists are locked: before anything else is done with them.
    #[inline(always)]
    pub(super) fn free_deferred(&self, cx: &Cx<'_, H>, zone: &Zone<H>, pcp: &mut Pcp) {
        if H::DEFERS_FREES && !pcp.deferred.is_empty() {
            self.free_oldest(cx, zone, pcp, Deferred::MOST);
        }
    }

    /// Frees what this CPU has put down: before it does something else for which its earlier frees matter, and when nobody
    /// uses the CPU any longer.
    #[inline(always)]
    pub fn free_mine_deferred(&self, cx: &Cx<'_, H>) {
        if H::DEFERS_FREES {
            self.populated_zones().for_each(|zone| self.free_mine_deferred_of(cx, zone));
        }
    }

    /// As [`Self::free_mine_deferred`], of one zone.
    #[inline(always)]
    pub(super) fn free_mine_deferred_of(&self, cx: &Cx<'_, H>, zone: &Zone<H>) {
        let cpu = cx.cpu();
        if H::DEFERS_FREES
            && let Some(mut pcp) = zone.cpus[cpu.idx()].pcp.try_lock(cpu)
        {
            self.free_deferred(cx, zone, &mut pcp);
        }
    }

    /// Frees up to so many of the blocks that were put down first.
    #[inline(never)]
    fn free_oldest(&self, cx: &Cx<'_, H>, zone: &Zone<H>, pcp: &mut Pcp, most: usize) {
        let (mut blocks, nr, order) = pcp.deferred.take(most);
        // Those that nobody uses any longer are moved together and wait to be freed together.
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

    /// Blocks of one order and zone, to which nobody refers, to this CPU's lists.
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

/// Two freed a block at the same moment that was one's, which no byte can tell: it is refused now.
#[cold]
fn wrong_in_turn(pfn: Pfn, order: Order) {
    debug_assert!(false, "{pfn:?}, {order:?} was put down and is not in use");
}

/// Larger blocks are freed at once: a few huge pages that nobody else may have are much memory.
#[inline(always)]
pub(super) fn is_deferrable(order: Order) -> bool {
    order <= Order::COSTLY
}
