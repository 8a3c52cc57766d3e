//! Per-CPU page lists (rules/per-cpu-lists#shape), which serve most allocations and frees alone.
//!
//! All CPUs contend for the zone lock. So each CPU keeps a few pages of each zone. It takes them
//! from the buddy lists a batch at a time and frees them a batch at a time. In between it allocates
//! and frees without touching a cache line that others write. The page freed last is allocated
//! first, while it is still in this CPU's cache.
//!
//! | operation | locks held |
//! |---|---|
//! | allocate, free (hit) | pcp |
//! | refill, bulk drain | pcp, then zone once |
//! | drain of another CPU's lists | that pcp, then zone |
//!
//! [`Pcp`] is one CPU's lists of one zone, behind that CPU's lock; [`super::bulk_free`] drains
//! them.
//!
//! # How much to keep
//!
//! | too little | too much |
//! |---|---|
//! | a zone lock for every few pages | memory that others cannot take and that cannot merge |
//! | | a CPU walks through many cold pages instead of a few warm ones |
//!
//! The compromise is `batch` (pages moved under one lock) and `high` (pages that may stay). Both
//! follow from the size of the zone and the number of CPUs that share it
//! (rules/per-cpu-lists#sizes). `free_factor` adapts to the CPU's use (5.14 on): each drain doubles
//! the next, each allocation halves it again. A CPU that does both in turn stays near one batch. A
//! CPU that only frees needs no pages: it drains more each time, and so takes the zone lock less
//! often.
//!
//! Blocks of orders 1 to 3 are a special case. If one CPU frees them and another allocates them,
//! they would pile up here while the other splits fresh, cold memory. So there is a rule for high
//! orders (rules/per-cpu-lists#free-high): a CPU that frees more than it allocates, as its factor
//! shows, keeps none.
//!
//! `free_factor` shows the direction of the pages, not how many of them are needed again. A policy
//! of ours derives that from the events of the slow paths ([`Pcp::give_back`], [`Pcp::wants_back`];
//! rules/per-cpu-lists#adaptive). Kernels from 6.7 on count freed pages, and each CPU tunes its
//! limit ([`auto`]).
//!
//! # Invariants while the lock is free
//!
//! * The word of every block on a list has PCP, its order, and a type: that to which it will be
//!   freed, if the policy does not read the pageblock's again (`pcp.drain-type`).
//!   The block has no references and is in this zone. High-atomic blocks are on Movable lists, but
//!   keep their type.
//! * `count` is the number of pages on all lists. For the zone they are in use: the free count and
//!   watermark tests exclude them.
//! * `high` limits frees only. A refill or a falling limit may leave the lists above it; the next
//!   free drains them.
//!
//! The lock is nearly always free, because only drains take another CPU's lock. A task that finds
//! it taken does not wait for the drain, but uses the buddy lists, which costs one zone lock.
//!
//! From: [`super::hot`], [`super::fast`], [`super::free`] · to: [`super::buddy`],
//! [`super::bulk_free`].

mod auto;

pub(super) use auto::counts_frees;

use super::{AllocFlags, PageAllocator, Pcp};
use crate::config::{EventUnit, FreeFactor, HighOrderFree, PcpLists, PcpPolicy, PcpSizing};
use crate::host::{Cost, Cx, Host, Lock};
use crate::page::{BlockFlags, MigrateType, Order, PAGEBLOCK_ORDER, Page, Pfn};
use crate::vmstat::VmEvent;
use crate::zone::{CpuZone, Zone, ZoneFlags};

/// Index of the first list of order 9.
const HUGE_LIST: usize = 12;
/// Doublings of a drain under [`FreeFactor::Capped`]: at most 32 batches under one hold of the zone
/// lock.
const FREE_FACTOR_MAX: u32 = 5;

impl Pcp {
    /// Returns the pages to drain when the lists hold `count` and the limit is `limit`
    /// (rules/per-cpu-lists#nr-to-free). Grows the factor as a side effect: repeated drains double.
    #[doc(alias = "nr_pcp_free")]
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
        // No sizes yet (boot): pages pass through, one at a time.
        if limit < batch {
            return 1;
        }
        // At least a batch, or the lock would be taken for little. A batch stays, so that the next
        // allocation does not start with a refill.
        let (lo, hi) = (batch, limit - batch);
        let n = match factor {
            // It counts the pages, and frees alone change it (rules/per-cpu-lists#free-count).
            FreeFactor::FreeCount => u64::from(self.free_factor),
            _ => u64::from(batch) << self.free_factor,
        };
        let may_grow = match factor {
            FreeFactor::None | FreeFactor::FreeCount => false,
            FreeFactor::Capped => self.free_factor < FREE_FACTOR_MAX,
            FreeFactor::Uncapped => true,
        };
        if n < u64::from(hi) && may_grow {
            self.free_factor += 1;
        }
        // The kernel's clamp: the upper bound wins where the bounds cross.
        n.max(u64::from(lo)).min(u64::from(hi)) as u32
    }
}

impl Pcp {
    /// Pages to drain after a high order was freed: none below the limit of high orders, otherwise
    /// down to half of it. A CPU that drains again before it needed a refill does not need as many:
    /// the limit falls by half, to at least a batch.
    fn give_back(&mut self, most: u32, batch: u32) -> u32 {
        if self.high_limit == 0 {
            self.high_limit = most;
        }
        let limit = self.high_limit.min(most).max(batch);
        if self.count < limit {
            return 0;
        }
        if self.given > 0 {
            self.high_limit = (limit / 2).max(batch);
        }
        let n = (self.count - limit / 2).max(batch).min(self.count);
        // `given` is at most `most`: the CPU could not have kept more.
        self.given = (self.given + n).min(most);
        // As other drains do, it raises `free_factor`: the next free checks the limit again, unless an
        // allocation halves it first.
        self.free_factor = self.free_factor.max(1);
        n
    }

    /// A high order needed a refill, so recently drained blocks were drained too early: the limit
    /// rises by these pages, as far as they are needed.
    fn wants_back(&mut self, pages: u32, high: u32) {
        let back = pages.min(self.given);
        self.high_limit = self.high_limit.saturating_add(back).min(high);
        self.given -= back;
    }
}

/// Which orders have lists, and where (derived once from the policy).
#[derive(Clone, Copy, Debug)]
pub struct PcpShape {
    lists: PcpLists,
    orders: u16,
    /// Orders for which a CPU's lists are asked.
    served: u16,
    /// Each free has more to do than a comparison with a limit ([`auto`]).
    counts_frees: bool,
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
        // A CPU can split blocks that it owns.
        let all = (1 << (PAGEBLOCK_ORDER + 1)) - 1;
        let served = if policy.own_blocks { all } else { orders };
        let counts_frees = counts_frees(policy);
        PcpShape { lists: policy.lists, orders, served, counts_frees, nr_lists }
    }

    /// Reports whether blocks of this order have per-CPU lists: 0 to 3 and 9.
    ///
    /// Linux 5.14 on: before, order 0 only.
    ///
    /// Single pages; 1 to 3, of which slab and network buffers are made; 9, a huge page. All others
    /// take the zone lock each time.
    #[doc(alias = "pcp_allowed_order")]
    #[inline(always)]
    pub fn holds(self, order: Order) -> bool {
        self.orders >> order.0 & 1 != 0
    }

    /// Whether a CPU's lists are tried for this order: the orders with lists; if CPUs own
    /// pageblocks, every order up to a pageblock.
    #[inline(always)]
    pub(super) fn serves(self, order: Order) -> bool {
        self.served >> order.0 & 1 != 0
    }

    /// Whether traces show a refill for taking a block of this order from the buddy lists
    /// (rules/zone-counters#trace-events). With 15 lists (5.14 to 5.19) only order 0 does.
    #[inline(always)]
    pub(super) fn traced_as_refill(self, order: Order) -> bool {
        self.holds(order) && (self.lists != PcpLists::HighOrder15 || order == Order::ZERO)
    }

    /// Returns the per-CPU list of an order and type.
    ///
    /// Linux 5.14 on.
    #[doc(alias = "order_to_pindex")]
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

    /// Returns the order of a per-CPU list's blocks.
    ///
    /// Linux 5.14 on.
    #[doc(alias = "pindex_to_order")]
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
    ///
    /// `flags` is called only for a refill, or if CPUs own pageblocks. A refill that gets nothing leaves the list
    /// empty: whether the buddy lists are then asked once more is the policy's.
    #[doc(alias = "rmqueue_pcplist")]
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
        if self.policy.pcp.own_blocks {
            return self.pcp_alloc_owned(cx, zone, &mut pcp, order, migratetype, flags());
        }
        let at_hand = self.take_or_free_deferred(cx, zone, &mut pcp, order, migratetype);
        cx.host.charge(Cost::PcpAlloc, 1);
        // This CPU allocates, so it may need again what it frees.
        pcp.free_factor >>= 1;
        if at_hand.is_some() {
            return Ok(at_hand);
        }
        let index = self.pcp_shape.index(order, migratetype);
        if pcp.lists[index].is_empty() {
            self.pcp_refill(cx, zone, &mut pcp, index, order, migratetype, flags());
        }
        let Some(pfn) = pcp.lists[index].pop_head() else {
            return Ok(None);
        };
        pcp.count -= order.pages() as u32;
        Ok(Some(pfn))
    }

    /// Puts a freed block on this CPU's lists, draining them when they are full
    /// (rules/per-cpu-lists#free). False if they could not be locked without waiting.
    #[doc(alias = "free_unref_page_commit")]
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
        self.free_deferred(cx, zone, &mut pcp);
        let events = pcp_event_unit(self.policy.pcp.event_unit, order);
        self.events.add(cpu, VmEvent::Pgfree, events);
        let index = self.pcp_put(cx, &mut pcp, &[pfn], order, migratetype);
        if self.pcp_may_be_full(zone, &pcp, order) {
            self.pcp_limit(cx, zone, &mut pcp, order, index);
        }
        true
    }

    /// Puts freed blocks (at least one) on their list and returns its index. The caller holds the lock
    /// and counts `pgfree`.
    #[inline(always)]
    pub(super) fn pcp_put(
        &self,
        cx: &Cx<'_, H>,
        pcp: &mut Pcp,
        pfns: &[Pfn],
        order: Order,
        migratetype: MigrateType,
    ) -> usize {
        cx.host.charge(Cost::PcpFree, pfns.len() as u32);
        // The type is the pageblock's at this moment, read without the zone lock. If it changes while
        // the block lies here, the block goes back to a list of the old type, unless drains read it again: one block on
        // the wrong list, for one lock less on every free.
        // Blocks of the high-atomic reserve travel on the movable list, but remember their type.
        let list_type = if migratetype.is_mergeable() { migratetype } else { MigrateType::Movable };
        let index = self.pcp_shape.index(order, list_type);
        let map: &[Page] = &self.map;
        // All are in one zone, so one word is right for all.
        let word = map[pfns[0].idx()].block().with(BlockFlags::PCP, order, migratetype);
        for pfn in pfns {
            map[pfn.idx()].set_block(word);
        }
        match *pfns {
            [pfn] => pcp.lists[index].push_head(pfn),
            _ => pcp.lists[index].push_heads(pfns),
        }
        pcp.count += pfns.len() as u32 * order.pages() as u32;
        index
    }

    /// Number of blocks that can be added together so that the following drain is the same as with
    /// single frees. At least one, because the limit is checked only after a free. It stays valid
    /// while no other task uses the zone.
    #[inline(always)]
    pub(super) fn pcp_room(&self, zone: &Zone<H>, pcp: &Pcp, order: Order) -> usize {
        if has_own_limit(order) {
            match self.policy.pcp.high_order_free {
                // Each is drained at once, and nothing else.
                HighOrderFree::Limited
                    if pcp.free_factor > 0 && pcp.count == 0 && !self.pcp_shape.counts_frees =>
                {
                    return usize::MAX;
                }
                HighOrderFree::Limited if pcp.free_factor > 0 => return 1,
                HighOrderFree::Adaptive => return 1,
                _ => {}
            }
        }
        let pages = self.pcp_most(zone).saturating_sub(pcp.count);
        pages.div_ceil(1 << order.0).max(1) as usize
    }

    /// The limit of the lists, if no rule about orders applies; 0 if each CPU computes it at each
    /// free.
    #[inline(always)]
    fn pcp_most(&self, zone: &Zone<H>) -> u32 {
        let high = zone.pcp_shared_high();
        if self.policy.pcp.reclaim_active_limit && zone.has(ZoneFlags::RECLAIM_ACTIVE) {
            high.min(zone.pcp_batch() * 4)
        } else {
            high
        }
    }

    /// Reports whether a drain may be due. For orders 1 to 3 the test passes if any limit could be
    /// reached. One comparison is enough for nearly all frees. The exact
    /// limit depends on kswapd, the order and the factor, and is computed only then.
    #[inline(always)]
    pub(super) fn pcp_may_be_full(&self, zone: &Zone<H>, pcp: &Pcp, order: Order) -> bool {
        let may = pcp.count >= zone.pcp_least_limit();
        match has_own_limit(order) {
            true => may || pcp.free_factor != 0,
            false => may && pcp.count >= self.pcp_most(zone),
        }
    }

    /// Drains the lists if they hold as much as they may, after a free to the list `index`
    /// (rules/per-cpu-lists#limit, rules/per-cpu-lists#free-high).
    ///
    /// There are three limits. While kswapd balances the zone, memory is short, and pages here can
    /// neither be used by others nor merge: the limit is four batches, which still saves the lock.
    /// By the high-order rule it is 0. Otherwise it is `high`, which is 0 until boot has computed
    /// it.
    ///
    /// Linux: only returns the limit, and `free_unref_page_commit` does the drain; here one
    /// function does both.
    #[doc(alias = "nr_pcp_high")]
    #[inline(never)]
    pub(super) fn pcp_limit(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        pcp: &mut Pcp,
        order: Order,
        index: usize,
    ) {
        if self.pcp_shape.counts_frees {
            return self.pcp_limit_counted(cx, zone, pcp, order, index);
        }
        let policy = &self.policy.pcp;
        let is_high_order = has_own_limit(order);
        let is_adaptive = policy.high_order_free == HighOrderFree::Adaptive;
        if is_adaptive && is_high_order && zone.pcp_high() != 0 {
            let n = pcp.give_back(self.pcp_most(zone), zone.pcp_batch());
            if n > 0 {
                self.drain_full(cx, zone, pcp, n, index);
            }
            return;
        }
        let free_high = policy.high_order_free == HighOrderFree::Limited
            && pcp.free_factor > 0
            && is_high_order;
        let limit = if free_high { 0 } else { self.pcp_most(zone) };
        if pcp.count >= limit {
            let n = pcp.nr_to_free(limit, zone.pcp_batch(), free_high, policy.free_factor);
            self.drain_full(cx, zone, pcp, n, index);
        }
    }

    /// Moves one batch of blocks from the buddy lists to the tail of a list, under one zone lock.
    ///
    /// Blocks of higher order get fewer to a batch, since a batch is pages; but two at least, or a list
    /// would be refilled for every block. At the tail, in the order they came: that is the order of
    /// addresses, as long as a broken block lasts. The free count falls once for the whole batch:
    /// until this CPU hands the blocks out, no other CPU can have them.
    #[doc(alias = "rmqueue_bulk")]
    #[cold]
    #[allow(clippy::too_many_arguments, reason = "the refill's key is the request's, spelled out")]
    pub(super) fn pcp_refill(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        pcp: &mut Pcp,
        index: usize,
        order: Order,
        migratetype: MigrateType,
        flags: AllocFlags,
    ) {
        // The reserve that such a request may use is on the buddy lists.
        if flags.contains(AllocFlags::HIGHATOMIC) && !self.policy.pcp.highatomic_refills {
            return;
        }
        let batch = zone.pcp_batch();
        let blocks = match self.policy.pcp.sizing {
            PcpSizing::Auto => self.tuned_refill(zone, pcp, order),
            _ if batch > 1 => (batch >> order.0).max(2),
            _ => batch,
        };
        let mut area = zone.free.lock(cx.cpu());
        let mut buddy = self.buddy(cx, zone, &mut area);
        let traced = self.pcp_shape.traced_as_refill(order);
        let mut got = 0;
        while got < blocks {
            let list = &mut pcp.lists[index];
            let run = buddy.remove_run(order, migratetype, traced, blocks - got, list);
            if run > 0 {
                got += run;
                continue;
            }
            let Some(pfn) = buddy.remove(order, migratetype, flags, traced) else {
                break;
            };
            let page = self.map.page(pfn);
            page.set(BlockFlags::PCP, order, page.migratetype());
            list.push_tail(pfn);
            got += 1;
        }
        let pages = got << order.0;
        pcp.count += pages;
        if self.policy.pcp.high_order_free == HighOrderFree::Adaptive && order > Order::ZERO {
            let most = zone.pcp_high().max(pcp.high);
            pcp.wants_back(pages, most);
        }
        zone.add_free(cx.cpu(), -i64::from(pages));
    }
}

/// The lists are locked, by a drain; the caller uses the buddy lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PcpBusy;

/// What asking a CPU's lists gave.
pub(super) type PcpTaken = Result<Option<Pfn>, PcpBusy>;

/// Orders that may have a separate limit in a policy (rules/per-cpu-lists#free-high).
#[inline(always)]
fn has_own_limit(order: Order) -> bool {
    (1..=Order::COSTLY.0).contains(&order.0)
}

/// The amount that one operation on the lists adds to pgalloc or pgfree
/// (rules/zone-counters#vm-events).
#[inline(always)]
pub(super) fn pcp_event_unit(unit: EventUnit, order: Order) -> u64 {
    match unit {
        EventUnit::Pages => order.pages(),
        EventUnit::Operations => 1,
    }
}
