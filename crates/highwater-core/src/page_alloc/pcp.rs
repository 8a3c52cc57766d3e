//! Per-CPU page lists (rules/per-cpu-lists#shape): most allocations and frees touch nothing else.
//!
//! [`Pcp`] is one CPU's lists of one zone, behind that CPU's lock. Refills and bulk drains take
//! the zone lock exactly once each ([`super::bulk_free`] drains).
//!
//! | operation | locks held |
//! |---|---|
//! | allocate, free (hit) | pcp |
//! | refill, bulk drain | pcp, then zone |
//! | drain of another CPU's lists | that pcp, then zone |

use super::{AllocFlags, PageAllocator, Pcp};
use crate::config::{EventUnit, FreeFactor, HighOrderFree, PcpLists, PcpPolicy};
use crate::host::{Cost, Cx, Host, Lock};
use crate::page::{BlockFlags, MigrateType, Order, PAGEBLOCK_ORDER, Page, Pfn};
use crate::vmstat::VmEvent;
use crate::zone::{CpuZone, Zone, ZoneFlags};

/// Index of the first list of order 9.
const HUGE_LIST: usize = 12;
/// Doublings of a drain under [`FreeFactor::Capped`].
const FREE_FACTOR_MAX: u8 = 5;

impl Pcp {
    /// Pages to drain when the lists hold `count` and the limit is `limit`
    /// (rules/per-cpu-lists#nr-to-free). Grows the factor as a side effect: repeated drains double.
    pub(super) fn nr_to_free(
        &mut self,
        limit: u32,
        batch: u32,
        free_high: bool,
        factor: FreeFactor,
    ) -> u32 {
        if free_high {
            return self.count;
        }
        if factor == FreeFactor::None {
            return batch;
        }
        if limit < batch {
            return 1;
        }
        let (lo, hi) = (batch, limit - batch);
        let n = u64::from(batch) << self.free_factor;
        let may_grow = factor == FreeFactor::Uncapped || self.free_factor < FREE_FACTOR_MAX;
        if n < u64::from(hi) && may_grow {
            self.free_factor += 1;
        }
        // The kernel's clamp: the upper bound wins where the bounds cross.
        n.max(u64::from(lo)).min(u64::from(hi)) as u32
    }
}

/// Which orders have lists, and where (derived once from the policy).
#[derive(Clone, Copy, Debug)]
pub struct PcpShape {
    lists: PcpLists,
    orders: u16,
    /// Number of lists.
    pub nr_lists: usize,
}

impl PcpShape {
    pub(crate) fn new(policy: &PcpPolicy) -> PcpShape {
        let (orders, nr_lists) = match policy.lists {
            PcpLists::Order0 => (0b1, 3),
            PcpLists::HighOrder15 => (0b10_0000_1111, 15),
            PcpLists::HighOrder14 => (0b10_0000_1111, 14),
        };
        PcpShape { lists: policy.lists, orders, nr_lists }
    }

    /// Does this order have lists?
    #[inline(always)]
    pub fn holds(self, order: Order) -> bool {
        self.orders >> order.0 & 1 != 0
    }

    /// Does taking a block of this order from the buddy lists show up as a refill in traces
    /// (rules/zone-counters#trace-events)? With 15 lists (5.14 to 5.19) only order 0 does.
    #[inline(always)]
    pub(super) fn traced_as_refill(self, order: Order) -> bool {
        self.holds(order) && (self.lists != PcpLists::HighOrder15 || order == Order::ZERO)
    }

    /// The list of an order and type.
    #[inline(always)]
    pub fn index(self, order: Order, migratetype: MigrateType) -> usize {
        if order.0 < PAGEBLOCK_ORDER {
            3 * order.idx() + migratetype.idx()
        } else if self.lists == PcpLists::HighOrder14 {
            HUGE_LIST + usize::from(migratetype == MigrateType::Movable)
        } else {
            HUGE_LIST + migratetype.idx()
        }
    }

    /// The order of a list's blocks.
    #[inline(always)]
    pub fn order(self, index: usize) -> Order {
        if index < HUGE_LIST { Order((index / 3) as u8) } else { Order(PAGEBLOCK_ORDER) }
    }
}

impl<H: Host> PageAllocator<H> {
    /// Takes a block from this CPU's lists, refilling them from the buddy lists if empty
    /// (rules/per-cpu-lists#allocate, rules/per-cpu-lists#refill).
    ///
    /// `mine` is this CPU's part of the zone. `Err` if the lists could not be locked without
    /// waiting.
    #[inline(always)]
    pub(super) fn pcp_alloc(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        mine: &CpuZone<H>,
        order: Order,
        migratetype: MigrateType,
        flags: impl FnOnce() -> AllocFlags,
    ) -> PcpTaken {
        let Some(mut pcp) = mine.pcp.try_lock(cx.cpu()) else {
            return Err(PcpBusy);
        };
        cx.host.charge(Cost::PcpAlloc, 1);
        pcp.free_factor >>= 1;
        let index = self.pcp_shape.index(order, migratetype);
        if pcp.lists[index].is_empty() {
            self.pcp_refill(cx, zone, &mut pcp, index, order, migratetype, flags());
        }
        let Some(pfn) = pcp.lists[index].pop_head(&self.map) else {
            return Ok(None);
        };
        pcp.count -= order.pages() as u32;
        Ok(Some(pfn))
    }

    /// Puts a freed block on this CPU's lists, draining them when they are full
    /// (rules/per-cpu-lists#free). False if they could not be locked without waiting.
    #[inline(always)]
    pub(super) fn pcp_free(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        pfn: Pfn,
        order: Order,
        migratetype: MigrateType,
    ) -> bool {
        let cpu = cx.cpu();
        let Some(mut pcp) = zone.cpus[cpu.idx()].pcp.try_lock(cpu) else {
            return false;
        };
        self.pcp_free_locked(cx, zone, &mut pcp, pfn, order, migratetype);
        true
    }

    /// As [`Self::pcp_free`], lock held.
    #[inline(always)]
    pub(super) fn pcp_free_locked(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        pcp: &mut Pcp,
        pfn: Pfn,
        order: Order,
        migratetype: MigrateType,
    ) {
        let policy = &self.policy.pcp;
        cx.host.charge(Cost::PcpFree, 1);
        self.events.add(cx.cpu(), VmEvent::Pgfree, pcp_event_unit(policy.event_unit, order));
        // Blocks of the high-atomic reserve travel on the movable list, but remember their type.
        let list_type = if migratetype.is_mergeable() { migratetype } else { MigrateType::Movable };
        let index = self.pcp_shape.index(order, list_type);
        let pages: &[Page] = &self.map;
        pages[pfn.idx()].set(BlockFlags::PCP, order, migratetype);
        pcp.lists[index].push_head(pages, pfn);
        pcp.count += order.pages() as u32;

        // Not below every limit that could apply?
        if pcp.count >= zone.pcp_high().min(zone.pcp_batch() * 4) || pcp.free_factor != 0 {
            self.pcp_limit(cx, zone, pcp, order, index);
        }
    }

    /// Drains the lists if they hold as much as they may, after a free to the list `index`
    /// (rules/per-cpu-lists#limit, rules/per-cpu-lists#free-high).
    #[inline(never)]
    fn pcp_limit(&self, cx: &Cx<'_, H>, zone: &Zone<H>, pcp: &mut Pcp, order: Order, index: usize) {
        let policy = &self.policy.pcp;
        let high = zone.pcp_high();
        let free_high = policy.high_order_free == HighOrderFree::Limited
            && pcp.free_factor > 0
            && (1..=Order::COSTLY.0).contains(&order.0);
        let limit = if high == 0 || free_high {
            0
        } else if policy.reclaim_active_limit && zone.has(ZoneFlags::RECLAIM_ACTIVE) {
            high.min(zone.pcp_batch() * 4)
        } else {
            high
        };
        if pcp.count >= limit {
            let n = pcp.nr_to_free(limit, zone.pcp_batch(), free_high, policy.free_factor);
            self.bulk_drain(cx, zone, pcp, n, Some(index));
        }
    }

    /// Moves one batch of blocks from the buddy lists to the tail of a list, under one zone lock.
    #[cold]
    #[allow(clippy::too_many_arguments, reason = "the refill's key is the request's, spelled out")]
    fn pcp_refill(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        pcp: &mut Pcp,
        index: usize,
        order: Order,
        migratetype: MigrateType,
        flags: AllocFlags,
    ) {
        let batch = zone.pcp_batch();
        let blocks = if batch > 1 { (batch >> order.0).max(2) } else { batch };
        let mut area = zone.free.lock(cx.cpu());
        let mut buddy = self.buddy(cx, zone, &mut area);
        let traced = self.pcp_shape.traced_as_refill(order);
        let mut got = 0;
        for _ in 0..blocks {
            let Some(pfn) = buddy.remove(order, migratetype, flags, traced) else {
                break;
            };
            let page = self.map.page(pfn);
            page.set(BlockFlags::PCP, order, page.migratetype());
            pcp.lists[index].push_tail(&self.map, pfn);
            got += 1;
        }
        let pages = got << order.0;
        pcp.count += pages;
        zone.add_free(cx.cpu(), -i64::from(pages));
    }
}

/// The lists are in use by somebody who drains them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PcpBusy;

/// What asking a CPU's lists gave.
pub(super) type PcpTaken = Result<Option<Pfn>, PcpBusy>;

/// What one operation on the lists adds to pgalloc or pgfree (rules/zone-counters#vm-events).
#[inline(always)]
pub(super) fn pcp_event_unit(unit: EventUnit, order: Order) -> u64 {
    match unit {
        EventUnit::Pages => order.pages(),
        EventUnit::Operations => 1,
    }
}
