//! CPUs that own whole pageblocks (rules/per-cpu-lists#owned-blocks): allocate here, free there.
//!
//! Ordinary per-CPU lists keep a page where it was *freed*. If one CPU allocates and another frees,
//! the freeing CPU collects pages that it does not need, and the allocating one splits fresh
//! memory. Here a page returns to the CPU where it was *allocated*. A CPU takes a whole free
//! pageblock from the zone and owns it. All its pages, freed by any CPU, return to the owner's
//! lists, where buddies merge:
//!
//! | | zone lock | owner's list lock |
//! |---|---|---|
//! | take a pageblock | once for 512 pages | held |
//! | allocate from one, any order | no | own |
//! | free into one | no | the owner's |
//! | give a whole one back | once for 512 pages, nothing to merge | held |
//! | dissolve one | once for its free pages | held |
//!
//! To *dissolve* a pageblock handles every other case. Its free parts go to the buddy lists and it
//! loses its owner, so its pages in use will be freed like any others. Drains do this, and
//! compactors that wait for a block. It also happens to pageblocks whose type changed to one
//! without per-CPU lists.
//!
//! # Invariants while the lock is free
//!
//! * A free frame of an owned pageblock is on its owner's lists, and on no other list.
//! * No two buddies there are both free at the same order.
//! * A pageblock gets an owner only while all of it is free. So a page in use without an owner
//!   stays without one. Code that finds an owner checks again under the lock.
//!
//! From: [`super::pcp`], [`super::free`] · to: [`super::buddy`], [`super::bulk_free`].

use super::leaving::Leaving;
use super::pcp::{PcpBusy, PcpTaken, pcp_event_unit};
use super::runs::Pending;
use super::{AllocFlags, PageAllocator, Pcp};
use crate::host::{Cost, CpuId, Cx, Host, Lock};
use crate::page::{BlockFlags, MigrateType, Order, PAGEBLOCK_ORDER, Pfn};
use crate::trace::Event;
use crate::vmstat::VmEvent;
use crate::zone::{OwnedLists, Zone, ZoneFlags};

/// Pages of a pageblock.
const BLOCK_PAGES: u32 = 1 << PAGEBLOCK_ORDER;
/// A pageblock's order.
const WHOLE: Order = Order(PAGEBLOCK_ORDER);

impl<H: Host> PageAllocator<H> {
    /// As [`Self::pcp_alloc`] with the lists locked, where CPUs own pageblocks: from an owned block, from the
    /// ordinary lists, from a pageblock that is taken for it, and else as without ownership.
    #[inline(never)]
    pub(super) fn pcp_alloc_owned(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        pcp: &mut Pcp,
        order: Order,
        migratetype: MigrateType,
        flags: AllocFlags,
    ) -> PcpTaken {
        pcp.free_factor >>= 1;
        let has_list = self.pcp_shape.holds(order);
        let mut page = self.owned_take(cx, &mut pcp.owned, order, migratetype);
        if page.is_none() {
            let index = has_list.then(|| self.pcp_shape.index(order, migratetype));
            let is_empty = |pcp: &Pcp| index.is_none_or(|index| pcp.lists[index].is_empty());
            if is_empty(pcp) && self.owned_refill(cx, zone, pcp, order, migratetype, flags) {
                page = self.owned_take(cx, &mut pcp.owned, order, migratetype);
            }
            if page.is_none() {
                let Some(index) = index else { return Err(PcpBusy) };
                if pcp.lists[index].is_empty() {
                    self.pcp_refill(cx, zone, pcp, index, order, migratetype, flags);
                }
                page = pcp.lists[index].pop_head();
                if page.is_some() {
                    pcp.count -= order.pages() as u32;
                }
            }
        }
        cx.host.charge(Cost::PcpAlloc, 1);
        Ok(page)
    }

    /// Takes the smallest sufficient block from a CPU's owned pageblocks, and splits it.
    fn owned_take(
        &self,
        cx: &Cx<'_, H>,
        owned: &mut OwnedLists,
        order: Order,
        migratetype: MigrateType,
    ) -> Option<Pfn> {
        let (high, pfn) = (order.0..=PAGEBLOCK_ORDER).find_map(|high| {
            let list = owned.list(Order(high), migratetype);
            list.pop_head(&self.map).map(|pfn| (high, pfn))
        })?;
        for half in (order.0..high).rev().map(Order) {
            let rest = pfn.add(1 << half.0);
            self.map.page(rest).set(BlockFlags::PCP, half, migratetype);
            owned.list(half, migratetype).push_head(&self.map, rest);
        }
        // Before the lock is let go of: a buddy that is freed next must not find this one free.
        self.map.page(pfn).set(BlockFlags::empty(), order, migratetype);
        owned.pages -= order.pages() as u32;
        if high > order.0 {
            // Searching and splitting cost the same as on the buddy lists, apart from the lock.
            cx.host.charge(Cost::BuddyRemove, 1);
        }
        Some(pfn)
    }

    /// Takes a whole free pageblock from the zone; false if there is none, or if it would exceed
    /// the limit of the CPU or the zone.
    ///
    /// A CPU's limit is that of ordinary lists, so a CPU whose lists cannot hold a pageblock owns
    /// none. The zone must stay above its high mark, so that idle owned pages cause no reclaim.
    /// Another type's pageblock is taken only under the conditions of a normal fallback.
    fn owned_refill(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        pcp: &mut Pcp,
        order: Order,
        migratetype: MigrateType,
        flags: AllocFlags,
    ) -> bool {
        let pages = u64::from(BLOCK_PAGES);
        let kept = pcp.count + pcp.owned.pages;
        let of_type = |orders: core::ops::RangeInclusive<u8>| {
            orders.into_iter().any(|o| zone.list_types(Order(o)) >> migratetype as u8 & 1 != 0)
        };
        let has_whole = of_type(PAGEBLOCK_ORDER..=Order::MAX.0);
        if kept + BLOCK_PAGES > zone.pcp_high()
            || zone.has(ZoneFlags::RECLAIM_ACTIVE)
            || zone.nr_free_pages() < zone.marks().high + zone.boost() + pages
            || !has_whole && order < WHOLE && of_type(order.0..=PAGEBLOCK_ORDER - 1)
        {
            return false;
        }
        let mut area = zone.free.lock(cx.cpu());
        let mut buddy = self.buddy(cx, zone, &mut area);
        let Some(pfn) = buddy.remove(WHOLE, migratetype, flags, false) else {
            return false;
        };
        zone.add_free(cx.cpu(), -i64::from(BLOCK_PAGES));
        zone.set_owner(pfn, Some(pcp.owned.cpu));
        self.map.page(pfn).set(BlockFlags::PCP, WHOLE, migratetype);
        pcp.owned.list(WHOLE, migratetype).push_head(&self.map, pfn);
        pcp.owned.pages += BLOCK_PAGES;
        true
    }

    /// The owner of the pageblock that a frame is in, if CPUs own pageblocks.
    #[inline(always)]
    pub(super) fn owner_of(&self, zone: &Zone<H>, pfn: Pfn) -> Option<CpuId> {
        if self.policy.pcp.own_blocks { zone.owner(pfn) } else { None }
    }

    /// Frees blocks of one order into the pageblocks that `owner` owns. Returns their number; the
    /// next block has no owner.
    ///
    /// Besides drains, only this function waits for another CPU's lists, because freeing to other
    /// lists would leave the pageblock in two places. (Frees are not deferred if CPUs own
    /// pageblocks.)
    #[inline(never)]
    pub(super) fn owned_free(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        owner: CpuId,
        pfns: &[Pfn],
        order: Order,
        mut each: impl FnMut(Pfn),
    ) -> usize {
        let mut pcp = zone.cpus[owner.idx()].pcp.lock(cx.cpu());
        for (freed, &pfn) in pfns.iter().enumerate() {
            if zone.owner(pfn) != Some(owner) {
                return freed;
            }
            let migratetype = zone.pageblock_type(pfn);
            if !migratetype.is_mergeable() || cx.is_capturing() {
                self.dissolve(cx, zone, &mut pcp, pfn);
                return freed;
            }
            each(pfn);
            let unit = pcp_event_unit(self.policy.pcp.event_unit, order);
            self.events.add(cx.cpu(), VmEvent::Pgfree, unit);
            cx.host.charge(Cost::PcpFree, 1);
            self.owned_put(cx, &mut pcp.owned, pfn, order, migratetype);
            self.owned_limit(cx, zone, &mut pcp, pfn);
        }
        pfns.len()
    }

    /// Puts a block back, merging it with its free buddies.
    fn owned_put(
        &self,
        cx: &Cx<'_, H>,
        owned: &mut OwnedLists,
        pfn: Pfn,
        order: Order,
        migratetype: MigrateType,
    ) {
        owned.pages += order.pages() as u32;
        self.map.page(pfn).clear();
        let (mut pfn, mut high) = (pfn, order);
        while high < WHOLE {
            // In the same pageblock, so on the same CPU's lists if it is on any.
            let buddy = pfn.buddy(high);
            let state = self.map.page(buddy).block();
            if !state.has(BlockFlags::PCP) || state.order() != high {
                break;
            }
            owned.list(high, state.migratetype()).remove(&self.map, buddy);
            self.map.page(buddy).clear();
            pfn = Pfn(pfn.0 & buddy.0);
            high = Order(high.0 + 1);
        }
        if high > order {
            cx.host.charge(Cost::BuddyFree, 1);
        }
        self.map.page(pfn).set(BlockFlags::PCP, high, migratetype);
        owned.list(high, migratetype).push_head(&self.map, pfn);
    }

    /// Gives something back if the CPU keeps as much as it may, after `freed` came: a whole pageblock, the one
    /// that lay longest; if there is none, a batch at least, by dissolving the block that it came to.
    fn owned_limit(&self, cx: &Cx<'_, H>, zone: &Zone<H>, pcp: &mut Pcp, freed: Pfn) {
        let (high, batch) = (zone.pcp_high(), zone.pcp_batch());
        let is_short = self.policy.pcp.reclaim_active_limit && zone.has(ZoneFlags::RECLAIM_ACTIVE);
        let limit = if is_short { high.min(batch * 4) } else { high };
        if pcp.count + pcp.owned.pages < limit {
            return;
        }
        let whole = MigrateType::MERGEABLE
            .into_iter()
            .find_map(|migratetype| pcp.owned.list(WHOLE, migratetype).tail());
        if let Some(pfn) = whole {
            return self.dissolve(cx, zone, pcp, pfn);
        }
        let before = pcp.owned.pages;
        let mut next = Some(freed);
        while let Some(pfn) = next
            && before - pcp.owned.pages < batch
        {
            self.dissolve(cx, zone, pcp, pfn);
            next = pcp.owned.any();
        }
    }

    /// Frees the free part of a pageblock to the buddy lists; the pageblock loses its owner.
    pub(super) fn dissolve(&self, cx: &Cx<'_, H>, zone: &Zone<H>, pcp: &mut Pcp, pfn: Pfn) {
        let first = Pfn(pfn.0 & !(BLOCK_PAGES - 1));
        let end = first.add(BLOCK_PAGES);
        let mut area = zone.free.lock(cx.cpu());
        let mut buddy = self.buddy(cx, zone, &mut area);
        let (mut pending, mut leaving) = (Pending::default(), Leaving::new(&self.map, false));
        let mut at = first;
        while at < end {
            let state = self.map.page(at).block();
            if !state.has(BlockFlags::PCP) {
                at = at.add(1);
                continue;
            }
            let order = state.order();
            pcp.owned.list(order, state.migratetype()).remove(&self.map, at);
            pcp.owned.pages -= order.pages() as u32;
            // To the list of the pageblock's present type.
            self.map.page(at).set(BlockFlags::PCP, order, zone.pageblock_type(at));
            if leaving.is_full() {
                leaving.free(&mut buddy, &mut pending);
            }
            leaving.push(at);
            at = at.add(1 << order.0);
        }
        leaving.free(&mut buddy, &mut pending);
        buddy.settle(&mut pending);
        // Last, because from now on other CPUs put its pages on their lists, with words that look
        // the same.
        zone.set_owner(first, None);
    }

    /// Dissolves every pageblock of which this CPU has something free.
    pub(super) fn dissolve_all(&self, cx: &Cx<'_, H>, zone: &Zone<H>, pcp: &mut Pcp) {
        while pcp.owned.pages > 0
            && let Some(pfn) = pcp.owned.any()
        {
            self.dissolve(cx, zone, pcp, pfn);
        }
    }

    /// A block is freed past the lists: its pageblock cannot stay in an owner's hands.
    pub(super) fn disown(&self, cx: &Cx<'_, H>, zone: &Zone<H>, pfn: Pfn) {
        if let Some(owner) = self.owner_of(zone, pfn) {
            let mut pcp = zone.cpus[owner.idx()].pcp.lock(cx.cpu());
            if zone.owner(pfn) == Some(owner) {
                self.dissolve(cx, zone, &mut pcp, pfn);
            }
        }
    }

    /// As [`Self::owned_free`], for one block whose free was traced already.
    #[inline(always)]
    pub(super) fn free_to_owner(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        pfn: Pfn,
        order: Order,
    ) -> bool {
        match self.owner_of(zone, pfn) {
            Some(owner) => self.owned_free(cx, zone, owner, &[pfn], order, |_| ()) == 1,
            None => false,
        }
    }

    /// As [`Self::owned_free`], for single pages of a list free.
    pub(super) fn free_run_to_owner(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        owner: CpuId,
        pfns: &[Pfn],
    ) -> usize {
        let trace = |pfn| cx.host.trace(cx.cpu(), &Event::PageFreeBatched { pfn });
        self.owned_free(cx, zone, owner, pfns, Order::ZERO, trace)
    }
}
