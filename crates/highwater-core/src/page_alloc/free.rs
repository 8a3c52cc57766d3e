//! Freeing of blocks (rules/buddy#free-entry, rules/per-cpu-lists#free).
//!
//! A free checks three things. *Is it the last user?* References are counted, and only the last
//! drop frees the block. *Is the caller right?* Linux trusts callers. Here a wrong free is refused
//! without effect, because a model with silently corrupted lists would give wrong numbers
//! (rules/buddy#wrong-frees). *Where does it go?* To this CPU's lists, if the order has lists:
//!
//! | | goes to | because |
//! |---|---|---|
//! | an order with per-CPU lists | those of this CPU, in the block's zone | warm, and no lock is shared |
//! | the same, orders 0 to 3 on a native host | deferred first ([`super::deferred`]) | descriptors are not cached |
//! | its pageblock is isolated | the Isolate list of the zone | it must not be allocated again |
//! | the lists are busy | buddy lists | a drain is running: do not wait for it |
//! | another order | buddy lists | it is freed rarely and is large, so it should merge at once |
//!
//! The type is that of the *pageblock*, not of the request that allocated the page. A movable page
//! from an unmovable pageblock is freed with the pageblock's type. So mixed pageblocks become clean
//! again, and pages in use need no type.
//!
//! The caller must have unmapped the page, taken it off its list, and cleared its users' state.
//! From the last reference until the block is on a list, it belongs to this task alone. That is why
//! its word and count change with plain stores.
//!
//! From: last reference of a page · to: [`super::pcp`], [`super::buddy`].

use super::deferred::is_deferrable;
use super::pcp::pcp_event_unit;
use super::{PageAllocator, Pcp};
use crate::host::{Cx, Host, Lock};
use crate::page::{
    BlockFlags, BlockWord, MigrateType, Order, PAGEBLOCK_ORDER, Page, PageList, Pfn,
};
use crate::trace::{Event, Kind};
use crate::vmstat::VmEvent;
use crate::zone::Zone;

/// A list free re-takes the per-CPU lock after this many pages (rules/per-cpu-lists#lock-cost): once
/// for each page would be wasteful, once for a list of any length would keep a drain waiting.
const LIST_FREE_CHUNK: usize = 32;

/// Why a block cannot be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeError {
    /// There is no such frame.
    NoSuchFrame,
    /// The frame is not the start of a block in use.
    NotAllocated,
    /// The block in use there has another order.
    WrongOrder,
    /// Others still use the page.
    Shared,
}

impl core::fmt::Display for FreeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            FreeError::NoSuchFrame => "no such frame",
            FreeError::NotAllocated => "not the start of an allocated block",
            FreeError::WrongOrder => "the allocated block has another order",
            FreeError::Shared => "others still use the page",
        })
    }
}

impl core::error::Error for FreeError {}

impl<H: Host> PageAllocator<H> {
    /// Drops the caller's reference to a block of `order`; frees it if that was the last.
    ///
    /// A non-compound block whose head others still reference loses its tail: the rest of the block
    /// is freed in halves (rules/buddy#shared-tail).
    ///
    /// # Errors
    /// If the frame does not start a block in use of that order.
    #[doc(alias = "__free_pages")]
    #[doc(alias = "free_pages")]
    #[inline]
    pub fn free(&self, cx: &Cx<'_, H>, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if self.defer_or_settle(cx, pfn, order) {
            return Ok(());
        }
        let page = self.map.get(pfn).ok_or(FreeError::NoSuchFrame)?;
        // The count first: the task that dropped the last but one reference has finished with the
        // word and the page by then.
        let users = page.refcount_acquire();
        let state = page.block();
        // Nearly always the only user frees the block. The CPU can proceed speculatively; only the
        // confirmation waits for the descriptor to arrive from memory.
        if users == 1
            && let Some(zone) = self.likely_zone(pfn)
            && state.is_in_use(zone.place, order)
        {
            page.set_refcount(0);
            // Single pages have separate code, in which the order is a constant.
            match order {
                Order::ZERO => self.free_block_to(cx, zone, pfn, Order::ZERO),
                _ => self.free_block_to(cx, zone, pfn, order),
            }
            return Ok(());
        }
        self.free_any(cx, pfn, order)
    }

    /// As [`Self::free`], of a frame that exists.
    #[inline(never)]
    fn free_any(&self, cx: &Cx<'_, H>, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let page = self.map.page(pfn);
        let users = page.refcount_acquire();
        let state = page.block();
        if !state.has(BlockFlags::USED) || users == 0 {
            return Err(FreeError::NotAllocated);
        }
        let whole = users == 1 || order > Order::ZERO || state.has(BlockFlags::HEAD);
        if state.order() != order && whole {
            return Err(FreeError::WrongOrder);
        }
        // The only user drops its reference without an atomic instruction.
        if users == 1 {
            page.set_refcount(0);
            self.free_block(cx, state, pfn, order);
        } else {
            self.free_shared(cx, pfn, order);
        }
        Ok(())
    }

    /// As [`Self::free`] by the only user, but directly to the buddy lists, so all CPUs can
    /// allocate it at once. For setting a machine up, where the contents of the per-CPU lists must
    /// not change.
    ///
    /// # Errors
    /// As [`Self::free`]; and if others use the block too.
    pub fn free_past_lists(&self, cx: &Cx<'_, H>, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let page = self.map.get(pfn).ok_or(FreeError::NoSuchFrame)?;
        self.settle_put_down(cx, pfn);
        let state = self.map.block(pfn);
        let zone = self.zone_by_id(state.zone_id()).ok_or(FreeError::NoSuchFrame)?;
        if !state.has(BlockFlags::USED) || page.refcount_acquire() == 0 {
            return Err(FreeError::NotAllocated);
        }
        if state.order() != order {
            return Err(FreeError::WrongOrder);
        }
        if page.refcount_acquire() != 1 {
            return Err(FreeError::Shared);
        }
        self.free_mine_deferred_of(cx, zone);
        self.forget_head(pfn);
        page.set_refcount(0);
        self.disown(cx, zone, pfn);
        self.free_to_buddy(cx, zone, pfn, order, zone.pageblock_type(pfn));
        Ok(())
    }

    /// Another task holds a reference to the head (a scanner, for a moment). The other frames have
    /// no count, so no task can hold them: they are freed now, and the head when its user drops it.
    /// A compound page is one object for all its users and stays whole.
    #[cold]
    fn free_shared(&self, cx: &Cx<'_, H>, pfn: Pfn, order: Order) {
        self.leave_shared(pfn, order, |pfn, order| {
            self.free_block(cx, self.map.page(pfn).block(), pfn, order);
        });
    }

    /// As [`Self::free_shared`]; calls `free` for each part without users.
    pub(super) fn leave_shared(&self, pfn: Pfn, order: Order, mut free: impl FnMut(Pfn, Order)) {
        let page = self.map.page(pfn);
        let keeps_tail = page.has(BlockFlags::HEAD) || order == Order::ZERO;
        if !keeps_tail {
            // Before the reference is dropped, because the last drop frees by the word. While this
            // reference is held, no other task frees the head.
            self.forget_head(pfn);
            page.set_order(Order::ZERO);
        }
        if page.put_ref() {
            free(pfn, order);
        } else if !keeps_tail {
            // Blocks that are aligned to their size: all but the first page of a block are such halves.
            for half in (0..order.0).rev() {
                free(pfn.add(1 << half), Order(half));
            }
        }
    }

    /// Frees a block without references to the per-CPU lists or, where they do not take it, to the
    /// buddy lists; `state` says where it lies.
    ///
    /// The caller has read the word once already; zone and order are in it. An isolated pageblock goes
    /// past the per-CPU lists: there its pages could be handed out again.
    #[doc(alias = "free_the_page")]
    #[doc(alias = "free_unref_page")]
    #[inline(always)]
    pub(super) fn free_block(&self, cx: &Cx<'_, H>, state: BlockWord, pfn: Pfn, order: Order) {
        if let Some(zone) = self.zone_by_id(state.zone_id()) {
            self.free_block_to(cx, zone, pfn, order);
        }
    }

    /// As [`Self::free_block`], of a block of a zone.
    #[inline(always)]
    fn free_block_to(&self, cx: &Cx<'_, H>, zone: &Zone<H>, pfn: Pfn, order: Order) {
        if is_deferrable(order) {
            self.forget_head(pfn);
        }
        cx.host.trace(cx.cpu(), &Event::PageFree { pfn, order });
        if self.free_to_owner(cx, zone, pfn, order) {
            return;
        }
        let migratetype = zone.pageblock_type(pfn);
        if self.pcp_shape.holds(order)
            && migratetype != MigrateType::Isolate
            && self.pcp_free(cx, zone, pfn, order, migratetype)
        {
            return;
        }
        self.free_mine_deferred_of(cx, zone);
        // No pgfree is counted when a per-CPU order bypasses its busy lists.
        if !self.pcp_shape.holds(order) || migratetype == MigrateType::Isolate {
            self.events.add(cx.cpu(), VmEvent::Pgfree, order.pages());
        }
        self.free_to_buddy(cx, zone, pfn, order, migratetype);
    }

    /// Frees order-0 pages whose last reference is gone, in list order (LRU release, unmap).
    ///
    /// A caller with many pages holds the last reference of each. Freed together, 32 pages take the
    /// lock once. There are two passes over the list, because in a trace all frees come before the
    /// first page reaches a list.
    ///
    /// # Errors
    /// At the first frame that is not a single page in use; the pages before it are freed.
    #[doc(alias = "free_unref_page_list")]
    #[doc(alias = "free_hot_cold_page_list")]
    pub fn free_list(&self, cx: &Cx<'_, H>, pfns: &[Pfn]) -> Result<(), FreeError> {
        let mut result = Ok(());
        let mut good = pfns.len();
        for (i, &pfn) in pfns.iter().enumerate() {
            self.settle_put_down(cx, pfn);
            if let Err(error) = self.is_to_be_freed(pfn) {
                (result, good) = (Err(error), i);
                break;
            }
            self.end_use(cx, &[pfn]);
        }
        self.free_runs(cx, &pfns[..good]);
        result
    }

    /// As [`Self::free_list`], without the checks: for callers in higher modules, which know that
    /// each is a single unreferenced page in use.
    pub(crate) fn free_list_unchecked(&self, cx: &Cx<'_, H>, pfns: &[Pfn]) {
        self.end_use(cx, pfns);
        self.free_runs(cx, pfns);
    }

    /// As [`Self::free_list_unchecked`], for pages linked to a list of the caller's.
    ///
    /// It works in chunks through a buffer on the stack. The caller's list uses the same links as
    /// the lists of a CPU that owns the pageblock, and as the buddy lists. So a page has to leave
    /// the caller's list first.
    pub(crate) fn free_linked(&self, cx: &Cx<'_, H>, mut list: PageList) {
        for pfn in list.iter(&self.map) {
            self.end_use(cx, &[pfn]);
        }
        let mut chunk = [Pfn(0); LIST_FREE_CHUNK];
        while !list.is_empty() {
            let mut n = 0;
            while n < LIST_FREE_CHUNK
                && let Some(pfn) = list.pop_head(&self.map)
            {
                chunk[n] = pfn;
                n += 1;
            }
            self.free_runs(cx, &chunk[..n]);
        }
    }

    /// Clears the descriptors of single pages without references.
    #[doc(alias = "free_pages_prepare")]
    #[inline(always)]
    fn end_use(&self, cx: &Cx<'_, H>, pfns: &[Pfn]) {
        let map: &[Page] = &self.map;
        for &pfn in pfns {
            debug_assert_eq!(self.is_to_be_freed(pfn), Ok(()), "{pfn:?}");
            let page = &map[pfn.idx()];
            self.forget_head(pfn);
            page.set_refcount(0);
            page.clear();
        }
        if cx.host.traces(Kind::PageFree) {
            for &pfn in pfns {
                cx.host.trace(cx.cpu(), &Event::PageFree { pfn, order: Order::ZERO });
            }
        }
    }

    /// A single page in use without other users; after the end of its use it is no longer in use.
    fn is_to_be_freed(&self, pfn: Pfn) -> Result<(), FreeError> {
        let page = self.map.get(pfn).ok_or(FreeError::NoSuchFrame)?;
        if !page.has(BlockFlags::USED) {
            return Err(FreeError::NotAllocated);
        }
        if page.order() > Order::ZERO {
            return Err(FreeError::WrongOrder);
        }
        if page.refcount_acquire() > 1 {
            return Err(FreeError::Shared);
        }
        Ok(())
    }

    /// One lock hold per run of pages of the same zone, of [`LIST_FREE_CHUNK`] pages at most.
    fn free_runs(&self, cx: &Cx<'_, H>, pfns: &[Pfn]) {
        let cpu = cx.cpu();
        let has_owners = self.policy.pcp.own_blocks;
        let mut rest = pfns;
        while let Some(zone) = rest.first().and_then(|&pfn| self.zone_of(pfn)) {
            let most = rest.len().min(LIST_FREE_CHUNK);
            let (place, owner) = (self.map.page(rest[0]).place(), self.owner_of(zone, rest[0]));
            let is_other = |pfn: Pfn| {
                self.map.page(pfn).place() != place
                    || has_owners && self.owner_of(zone, pfn) != owner
            };
            let run = rest[..most].iter().position(|&pfn| is_other(pfn)).unwrap_or(most);
            let mut now = &rest[..run];
            if let Some(owner) = owner {
                let freed = self.free_run_to_owner(cx, zone, owner, now);
                rest = &rest[freed..];
                // All of them, or those before a page whose pageblock has lost its owner meanwhile.
                // Later pages may have other owners.
                if freed == run {
                    continue;
                }
                now = &rest[..1];
            }
            rest = &rest[now.len()..];
            match zone.cpus[cpu.idx()].pcp.try_lock(cpu) {
                Some(mut pcp) => {
                    self.free_deferred(cx, zone, &mut pcp);
                    self.free_run(cx, zone, &mut pcp, now, Order::ZERO);
                }
                // Asked once for the run; each page then takes the zone lock by itself.
                None => {
                    for &pfn in now {
                        cx.host.trace(cpu, &Event::PageFreeBatched { pfn });
                        let migratetype = zone.pageblock_type(pfn);
                        self.free_to_buddy(cx, zone, pfn, Order::ZERO, migratetype);
                    }
                }
            }
        }
    }

    /// Frees blocks of one order and zone to this CPU's lists of it. They are counted together,
    /// except for observers while the zone lock is awaited. They are added together, as long as
    /// they go to one list and it is not full.
    #[inline(always)]
    pub(super) fn free_run(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        pcp: &mut Pcp,
        pfns: &[Pfn],
        order: Order,
    ) {
        let cpu = cx.cpu();
        let mut uncounted = 0;
        let count = |uncounted: &mut u64| {
            self.events.add(cpu, VmEvent::Pgfree, core::mem::take(uncounted));
        };
        // A tracer of frees sees the time of each.
        let is_traced = cx.host.traces(Kind::PageFreeBatched);
        let mut rest = pfns;
        while let Some(&pfn) = rest.first() {
            let migratetype = zone.pageblock_type(pfn);
            let is_isolated = migratetype == MigrateType::Isolate;
            let run = match is_traced || is_isolated {
                true => 1,
                false => {
                    let most = rest.len().min(self.pcp_room(zone, pcp, order));
                    same_type(zone, &rest[..most], migratetype)
                }
            };
            let (now, later) = rest.split_at(run);
            rest = later;
            if order == Order::ZERO {
                cx.host.trace(cpu, &Event::PageFreeBatched { pfn });
            }
            if is_isolated {
                uncounted += order.pages();
                count(&mut uncounted);
                self.free_to_buddy(cx, zone, pfn, order, migratetype);
                continue;
            }
            uncounted += run as u64 * pcp_event_unit(self.policy.pcp.event_unit, order);
            let index = self.pcp_put(cx, pcp, now, order, migratetype);
            if self.pcp_may_be_full(zone, pcp, order) {
                count(&mut uncounted);
                self.pcp_limit(cx, zone, pcp, order, index);
            }
        }
        count(&mut uncounted);
    }

    /// Frees a block straight to the buddy lists under the zone lock.
    #[doc(alias = "free_one_page")]
    #[doc(alias = "__free_pages_ok")]
    fn free_to_buddy(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        pfn: Pfn,
        order: Order,
        migratetype: MigrateType,
    ) {
        let mut area = zone.free.lock(cx.cpu());
        self.buddy(cx, zone, &mut area).free_block(pfn, order, migratetype, false);
    }
}

/// How many pages, from the first on, lie in pageblocks of the first one's type. A pageblock is asked once for all that come
/// from it one after the other.
#[inline]
fn same_type<H: Host>(zone: &Zone<H>, pfns: &[Pfn], migratetype: MigrateType) -> usize {
    let block_of = |pfn: Pfn| pfn.0 >> PAGEBLOCK_ORDER;
    let mut block = block_of(pfns[0]);
    let is_other = |&pfn: &Pfn| {
        let last = core::mem::replace(&mut block, block_of(pfn));
        last != block && zone.pageblock_type(pfn) != migratetype
    };
    pfns.iter().position(is_other).unwrap_or(pfns.len())
}

#[cfg(test)]
mod tests;
