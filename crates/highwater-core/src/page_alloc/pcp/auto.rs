//! Per-CPU lists that count each free (rules/per-cpu-lists#auto): 6.7 and later.
//!
//! `batch << free_factor` says how often a CPU drained lately. It says little about a CPU that
//! frees and allocates in bursts, and a limit computed at boot fits no use in particular. So newer
//! kernels count: `free_factor` is then the number of pages that the CPU freed lately
//! (`free_count`), halved by each allocation. Drains free about as many. A CPU also tunes its
//! limit:
//!
//! ```text
//!  high_min ◀───────────────────────── high ─────────────────────────▶ high_max
//!            falls: kswapd works,             rises: a refill, a free
//!            the zone is low,                 that finds the lists full
//!            each second
//! ```
//!
//! | a CPU only | so | in numbers |
//! |---|---|---|
//! | allocates | refills double | `alloc_factor`, at most 32 batches |
//! | frees single pages | drains are as large as what it freed | at most 32 batches |
//! | frees orders 1 to 3 | blocks of these orders go back early | once a batch was freed |
//!
//! Each of the switches works without the others. The limit of lists that do not tune it is one
//! number. Without the count, the size of the next drain stands for it
//! ([`Pcp::freed_lately`]).
//!
//! All of this runs in [`PageAllocator::pcp_limit`] and in refills. Paths before them see a shared
//! limit of 0 ([`crate::zone::ZoneInfo::count_frees`]), so each free comes here.
//!
//! Synchronisation: the state is the CPU's, under its list lock. `BELOW_HIGH` is a bit of the zone
//! that any CPU sets and clears; a late reader tunes once more in the old direction.
//!
//! From: [`super`] · to: [`crate::page_alloc::bulk_free`].

use super::has_own_limit;
use crate::config::{DrainPortion, FailuresEnd, FreeFactor, HighOrderFree, PcpPolicy, PcpSizing};
use crate::host::{Cx, Host, Lock};
use crate::page::Order;
use crate::page_alloc::{AllocFlags, Gfp, PageAllocator, Pcp};
use crate::sync::atomic::Ordering::Relaxed;
use crate::zone::zonelist::ZoneRef;
use crate::zone::{CpuZone, Mark, NodeId, Zone, ZoneFlags, ZoneInfo, ZoneType};

/// Doublings of a refill, and with 1 << 5 the batches of the largest drain.
const SHIFT_MAX: u8 = 5;
/// Batches that a high-order drain frees, that the count of freed pages reaches, and that decay
/// leaves to a busy CPU, at most.
const BATCHES_MAX: u32 = 1 << SHIFT_MAX;
/// Lists of a cache larger than this many batches keep a batch of high-order blocks.
const BIG_SLICE_BATCHES: u32 = 3;

/// Reports whether frees have work to do beyond the comparison with a limit that all CPUs share.
pub(in crate::page_alloc) fn counts_frees(policy: &PcpPolicy) -> bool {
    let limited = [HighOrderFree::LimitedBatch, HighOrderFree::LimitedHalfMin];
    policy.sizing == PcpSizing::Auto
        || policy.free_factor == FreeFactor::FreeCount
        || limited.contains(&policy.high_order_free)
}

/// Numbers of the zone, read once for an operation.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: u32,
    high_min: u32,
    high_max: u32,
}

impl Sizes {
    fn of(zone: &ZoneInfo) -> Sizes {
        Sizes { batch: zone.pcp_batch(), high_min: zone.pcp_high(), high_max: zone.pcp_high_max() }
    }

    /// The allowed limit nearest to `high`. As in the kernel's clamp, the upper bound wins where
    /// the bounds cross.
    fn clamp(self, high: u32) -> u32 {
        high.max(self.high_min).min(self.high_max)
    }

    fn lower(self, high: u32, by: u32) -> u32 {
        high.saturating_sub(by).max(self.high_min)
    }
}

/// Conditions that lower the limit of a CPU's lists, or set it aside.
#[derive(Clone, Copy, Debug, Default)]
struct Pressure {
    /// The high-order rule applies.
    free_high: bool,
    /// kswapd balances the zone.
    is_reclaimed: bool,
    /// A request found the zone below its high mark.
    is_below_high: bool,
}

impl Pcp {
    /// Pages that the CPU lately freed. Where they are not counted: the size of the next drain,
    /// once drains grow.
    fn freed_lately(&self, batch: u32, factor: FreeFactor) -> u32 {
        match (factor, self.free_factor) {
            (FreeFactor::FreeCount, pages) => pages,
            (_, 0) => 0,
            (_, doublings) => {
                let pages = u64::from(batch) << doublings.min(31);
                u32::try_from(pages).unwrap_or(u32::MAX)
            }
        }
    }

    /// Reports whether the high-order rule applies to a free of order 1 to 3
    /// (rules/per-cpu-lists#counted-high). `freed`: before this one.
    ///
    /// A block of another order in between shows a CPU that works on something else than a stream.
    /// A large cache still has blocks that wait here, so a batch of them may.
    fn frees_high(&self, sizes: Sizes, freed: u32, rule: HighOrderFree) -> bool {
        let Sizes { batch, high_min, .. } = sizes;
        let least = match rule {
            HighOrderFree::Cached | HighOrderFree::Adaptive => return false,
            HighOrderFree::Limited => return freed >= batch,
            HighOrderFree::LimitedBatch => batch,
            HighOrderFree::LimitedHalfMin => batch + high_min / 2,
        };
        let has_big_slice = self.cache_slice > batch.saturating_mul(BIG_SLICE_BATCHES);
        freed >= least && self.was_high_order && (!has_big_slice || self.count >= batch)
    }

    /// The limit after a free (rules/per-cpu-lists#tuned-limit). Tunes it for the next one.
    fn tune_limit(&mut self, sizes: Sizes, freed: u32, pressure: Pressure) -> u32 {
        let Sizes { batch, high_min, high_max } = sizes;
        self.high = sizes.clamp(self.high);
        if self.high == 0 {
            return 0;
        }
        let less = freed.max(batch);
        match pressure {
            Pressure { free_high: true, .. } => {
                self.high = sizes.lower(self.high, batch * BATCHES_MAX);
                0
            }
            Pressure { is_reclaimed: true, .. } => {
                self.high = sizes.lower(self.high, less);
                self.high.min(batch * 4)
            }
            _ if high_min == high_max => self.high,
            Pressure { is_below_high: true, .. } => {
                self.high = sizes.lower(self.high, less);
                self.count.max(high_min)
            }
            _ => {
                // Full: this drain still has the old limit, and the next one finds more room.
                let limit = self.high;
                if self.count >= limit {
                    self.high = sizes.clamp(limit.max(freed.saturating_add(batch)));
                }
                limit
            }
        }
    }

    /// Blocks of a refill (rules/per-cpu-lists#tuned-refill). A CPU that only allocates takes twice
    /// as many each time, as far as the limit has room.
    fn tune_refill(&mut self, sizes: Sizes, order: Order, is_below_high: bool) -> u32 {
        let Sizes { batch, high_min, high_max } = sizes;
        self.high = sizes.clamp(self.high);
        if self.high < batch {
            return 1;
        }
        let is_single = order == Order::ZERO;
        let mut pages = if is_single { batch << self.alloc_factor } else { batch };
        if high_min != high_max && !is_below_high {
            self.high = self.high.saturating_add(pages).min(high_max);
        }
        if is_single {
            let room = self.high.saturating_sub(self.count).saturating_sub(batch).max(batch);
            if pages <= room && self.alloc_factor < SHIFT_MAX {
                self.alloc_factor += 1;
            }
            pages = pages.min(room);
        }
        if pages > 1 { (pages >> order.0).max(2) } else { pages }
    }

    /// A second has passed: lowers the limit (rules/per-cpu-lists#decay-high). Returns whether it
    /// fell, and the pages above it.
    fn decay(&mut self, sizes: Sizes) -> (bool, u32) {
        let Sizes { batch, high_min, .. } = sizes;
        let high = sizes.clamp(self.high);
        let falls = high > high_min;
        self.high = high;
        if falls {
            let used = self.count.saturating_sub(batch * BATCHES_MAX);
            self.high = used.max(high - high / 8).max(high_min);
        }
        (falls, self.count.saturating_sub(self.high))
    }
}

impl<H: Host> PageAllocator<H> {
    /// As [`Self::pcp_limit`], where CPUs count their frees (rules/per-cpu-lists#free-count).
    #[cold]
    #[inline(never)]
    pub(super) fn pcp_limit_counted(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        pcp: &mut Pcp,
        order: Order,
        index: usize,
    ) {
        let policy = &self.policy.pcp;
        let sizes = Sizes::of(zone);
        let batch = sizes.batch;
        let is_high_order = has_own_limit(order);
        let freed = pcp.freed_lately(batch, policy.free_factor);
        let pressure = Pressure {
            free_high: is_high_order && pcp.frees_high(sizes, freed, policy.high_order_free),
            is_reclaimed: policy.reclaim_active_limit && zone.has(ZoneFlags::RECLAIM_ACTIVE),
            is_below_high: zone.has(ZoneFlags::BELOW_HIGH),
        };
        pcp.was_high_order = is_high_order;
        pcp.alloc_factor >>= 1;
        if policy.free_factor == FreeFactor::FreeCount && pcp.free_factor < batch * BATCHES_MAX {
            pcp.free_factor += order.pages() as u32;
        }
        let freed = pcp.freed_lately(batch, policy.free_factor);
        let limit = pcp.tune_limit(sizes, freed, pressure);
        let is_adaptive = policy.high_order_free == HighOrderFree::Adaptive;
        let n = if is_adaptive && is_high_order && limit != 0 {
            pcp.give_back(limit, batch)
        } else if pcp.count < limit {
            0
        } else if !pressure.free_high {
            pcp.nr_to_free(limit, batch, false, policy.free_factor)
        } else if policy.high_order_free == HighOrderFree::Limited {
            pcp.count
        } else {
            pcp.count.min(batch * BATCHES_MAX)
        };
        if n == 0 {
            return;
        }
        self.drain_full(cx, zone, pcp, n, index);
        if pressure.is_below_high && self.is_above_high(zone) {
            zone.clear_flag(ZoneFlags::BELOW_HIGH);
            if self.policy.reclaim.kswapd.failures_end == FailuresEnd::Balanced {
                self.give_hope(zone.node);
            }
        }
    }

    /// Has kswapd of a hopeless node woken again, because a zone of it rose above its high mark.
    ///
    /// Not if the node is the only one: allocations have no other memory to turn to, so direct
    /// reclaim comes here anyway, and its progress ends the failures.
    #[cold]
    fn give_hope(&self, node: NodeId) {
        let is_elsewhere = |entry: &ZoneRef| entry.node != node;
        let mut entries = self.zonelists(node).fallback.entries().iter();
        if self.node(node).is_hopeless() && entries.any(is_elsewhere) {
            self.node(node).kswapd_failures.store(0, Relaxed);
        }
    }

    /// Drains lists that are full, from the list that was freed to on: all under one hold of the
    /// zone lock, or a batch under each (rules/per-cpu-lists#portions).
    #[inline(always)]
    pub(super) fn drain_full(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        pcp: &mut Pcp,
        n: u32,
        index: usize,
    ) {
        match self.policy.pcp.drain_portion {
            DrainPortion::All => self.bulk_drain(cx, zone, pcp, n, Some(index)),
            DrainPortion::Batch => self.drain_in_portions(cx, zone, pcp, n, index),
        }
    }

    #[cold]
    fn drain_in_portions(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        pcp: &mut Pcp,
        n: u32,
        index: usize,
    ) {
        let mut left = n;
        while left > 0 {
            left = self.drain_portion(cx, zone, pcp, left, index);
        }
    }

    /// Drains a batch of the pages that are left to drain; returns those left then. Whole blocks
    /// leave, so it may be a few pages more.
    fn drain_portion(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        pcp: &mut Pcp,
        left: u32,
        index: usize,
    ) -> u32 {
        let before = pcp.count;
        self.bulk_drain(cx, zone, pcp, left.min(zone.pcp_batch()), Some(index));
        match before - pcp.count {
            // The lists are empty.
            0 => 0,
            gone => left.saturating_sub(gone),
        }
    }

    /// Blocks of a refill of lists that tune their limit.
    pub(super) fn tuned_refill(&self, zone: &Zone<H>, pcp: &mut Pcp, order: Order) -> u32 {
        pcp.tune_refill(Sizes::of(zone), order, zone.has(ZoneFlags::BELOW_HIGH))
    }

    /// Once a second, for every CPU and zone: lowers the limit of lists that tune it and frees the
    /// pages above, a batch at a time (rules/per-cpu-lists#decay-high). True if there was anything
    /// to do.
    ///
    /// Linux 6.7 on.
    #[doc(alias = "decay_pcp_high")]
    pub(in crate::page_alloc) fn decay_high(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        mine: &CpuZone<H>,
    ) -> bool {
        let (falls, mut surplus) = mine.pcp.lock(cx.cpu()).decay(Sizes::of(zone));
        let has_surplus = surplus > 0;
        while surplus > 0 {
            // Each batch under a hold of its own: the CPU may need its lists meanwhile.
            surplus = self.drain_portion(cx, zone, &mut mine.pcp.lock(cx.cpu()), surplus, 0);
        }
        falls || has_surplus
    }

    /// Notes that a zone is below its high mark, if the request finds it so. Then lists that tune
    /// their limit lower it, until a drain finds the zone above (rules/per-cpu-lists#below-high).
    ///
    /// Whether the request may have a page is the next question, with a lower mark: above its high
    /// mark the zone passes that too.
    #[cold]
    #[inline(never)]
    pub(in crate::page_alloc) fn note_below_high(
        &self,
        zone: &Zone<H>,
        order: Order,
        gfp: Gfp,
        highest: ZoneType,
        flags: AllocFlags,
    ) {
        let is_below = || !self.is_above_mark(zone, Mark::High, order, gfp, highest, flags);
        if !zone.has(ZoneFlags::BELOW_HIGH) && is_below() {
            zone.set_flag(ZoneFlags::BELOW_HIGH);
        }
    }

    /// For a single page, without any right.
    fn is_above_high(&self, zone: &Zone<H>) -> bool {
        let (rule, mark, flags) =
            (self.policy.watermark_rule(), zone.mark(Mark::High), AllocFlags::empty());
        let free = zone.nr_free_pages();
        zone.watermark_ok(rule, Order::ZERO, mark, ZoneType::Movable, flags, free)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::config::{Machine, preset};
    use crate::host::{CpuId, Solo};
    use crate::page_alloc::{NoRelief, boot};
    use crate::zone::MAX_FAILURES;

    /// Failures of node 0 after frees that lift one of its zones above HIGH.
    fn failures_after(end: FailuresEnd, failures: u32, nr_nodes: usize) -> u32 {
        let mut policy = preset("6.1").unwrap();
        policy.pcp.sizing = PcpSizing::Auto;
        policy.pcp.free_factor = FreeFactor::FreeCount;
        policy.reclaim.kswapd.failures_end = end;
        let host = Solo::default();
        let sizes = [(64 << 20, Vec::from([0])), (64 << 20, Vec::from([1]))];
        let machine = Machine::from_sizes("m", &sizes[..nr_nodes]).unwrap();
        let memory = boot(&host, &machine, &policy).unwrap();
        let cx = Cx::new(&host, CpuId(0));
        let page = |_| {
            let gfp = Gfp::GFP_KERNEL | Gfp::THISNODE;
            memory.alloc(&cx, &NoRelief, gfp, Order::ZERO, NodeId(0), None).unwrap()
        };
        let pages: Vec<_> = (0..4000).map(page).collect();
        memory.node(NodeId(0)).kswapd_failures.store(failures, Relaxed);
        memory.zones_of(NodeId(0)).for_each(|zone| zone.set_flag(ZoneFlags::BELOW_HIGH));
        pages.into_iter().for_each(|pfn| memory.free(&cx, pfn, Order::ZERO).unwrap());
        assert!(memory.zones_of(NodeId(0)).any(|zone| !zone.has(ZoneFlags::BELOW_HIGH)));
        memory.node(NodeId(0)).kswapd_failures.load(Relaxed)
    }

    #[test]
    fn frees_give_hope_to_a_node_that_is_not_alone() {
        let (max, balanced) = (MAX_FAILURES, FailuresEnd::Balanced);
        assert_eq!(failures_after(balanced, max, 2), 0);
        assert_eq!(failures_after(balanced, max - 1, 2), max - 1, "it is not hopeless");
        assert_eq!(failures_after(balanced, max, 1), max, "the only node");
        assert_eq!(failures_after(FailuresEnd::Progress, max, 2), max);
    }
}
