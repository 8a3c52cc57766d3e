//! Emptying per-CPU lists: bulk drains (rules/per-cpu-lists#bulk-drain, study 002), `drain_all`
//! (rules/per-cpu-lists#drain-all), the decay of remote pages (rules/per-cpu-lists#decay).
//!
//! Pages on a CPU's lists are out of reach for all others, and do not merge. There are three occasions
//! to give them back, each for another reason:
//!
//! | occasion | who, whose lists | how much | because |
//! |---|---|---|---|
//! | lists are full | a free, its own | a batch, or twice the last time's | others may need them more |
//! | reclaim freed, still no block | a request, all CPUs' | everything | it may be there, in pieces |
//! | seconds without use | each CPU, its own of far nodes | a batch | it asks its own node first |
//!
//! *Which* blocks go decides what is left. They leave from the tails: what was freed longest ago is
//! cold, what is at the head is warm. As for lists, round robin takes some of each, whichever it was
//! that overflowed; freed list first (5.18 on) takes what this CPU has just shown to have too much of.
//!
//! A drain goes by pages and takes whole blocks, so it may give back a little more than was asked for.
//!
//! Synchronisation: per-CPU lock first, then one hold of the zone lock for all blocks of a drain.
//! `drain_all` lets go of both between chunks.

use super::Pcp;
use super::foresight::Foresight;
use super::runs::Pending;
use super::{Buddy, PageAllocator};
use crate::config::DrainOrder;
use crate::host::{CpuId, Cx, Host, Lock, Phase, Probe};
use crate::page::{MigrateType, Order, PageList, Pfn};
use crate::sync::atomic::Ordering::Relaxed;
use crate::trace::Event;
use crate::zone::Zone;

/// Seconds until a remote node's pages on a CPU's lists are given back, counted anew whenever the CPU
/// was busy with that zone.
const EXPIRE_SECONDS: u8 = 3;
/// `drain_all` frees at most `batch << CHUNK_SHIFT` pages per zone-lock hold. Lists may hold a large
/// part of the low mark (rules/per-cpu-lists#sizes); whoever needs the lock meanwhile would wait for
/// all of it.
const CHUNK_SHIFT: u32 = 5;

impl<H: Host> PageAllocator<H> {
    /// Frees about `n` pages (whole blocks) from the lists to the buddy lists, under one zone
    /// lock. `start` is the list that was freed to.
    pub(super) fn bulk_drain(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        pcp: &mut Pcp,
        n: u32,
        start: Option<usize>,
    ) {
        let n = i64::from(n.min(pcp.count));
        if n == 0 {
            return;
        }
        match self.policy.pcp.drain_order {
            DrainOrder::FreedListFirst => {
                let mut area = zone.free.lock(cx.cpu());
                let mut buddy = self.buddy(cx, zone, &mut area);
                drain_freed_list_first(&mut buddy, pcp, self.pcp_shape, n, start.unwrap_or(0));
            }
            DrainOrder::RoundRobin => {
                // Blocks are collected first and freed in collection order under the lock: choosing
                // among lists needs the per-CPU lock only, so it is done before others are kept
                // waiting.
                let mut blocks = PageList::default();
                self.collect_round_robin(pcp, n, &mut blocks);
                let mut area = zone.free.lock(cx.cpu());
                let mut buddy = self.buddy(cx, zone, &mut area);
                let mut pending = Pending::default();
                while let Some(pfn) = blocks.pop_head(&self.map) {
                    free_drained(&mut buddy, &mut pending, pfn);
                }
                buddy.settle(&mut pending);
            }
        }
    }

    /// Round robin (rules/per-cpu-lists#round-robin): each visit to a non-empty list takes one block
    /// more than there were empty lists on the way, so that full lists shrink fastest.
    ///
    /// The quota counts blocks and `n` pages: made for lists of single pages, it treats a block of
    /// order 3 as one, so that a visit to a list of large blocks takes more pages.
    fn collect_round_robin(&self, pcp: &mut Pcp, mut n: i64, blocks: &mut PageList) {
        let nr_lists = self.pcp_shape.nr_lists;
        let (mut i, mut quota) = (0, 0i64);
        while n > 0 && pcp.count > 0 {
            loop {
                quota += 1;
                i = (i + 1) % nr_lists;
                if !pcp.lists[i].is_empty() {
                    break;
                }
            }
            // By the quota all the other lists were empty: the rest is to come from this one.
            if quota == nr_lists as i64 {
                quota = n;
            }
            let order = self.pcp_shape.order(i);
            while let Some(pfn) = pcp.lists[i].pop_tail() {
                pcp.count -= order.pages() as u32;
                blocks.push_tail(&self.map, pfn);
                n -= order.pages() as i64;
                quota -= 1;
                if n <= 0 || quota == 0 {
                    break;
                }
            }
        }
    }

    /// Gives everything that any CPU keeps (of one zone, or of all) back to the buddy lists.
    ///
    /// If another drain runs: returns at once when all zones are meant, waits for it otherwise.
    ///
    /// Who wants memory from anywhere is served by the drain that runs, and to wait for it would only
    /// make two of one. Who wants a zone empty has to know that it is: the drain that runs may have
    /// passed it.
    ///
    /// A CPU may fill its lists again behind the drain. That is tolerated: what counts is that blocks
    /// which lay there for long could merge.
    pub fn drain_all(&self, cx: &Cx<'_, H>, only: Option<&Zone<H>>) {
        let _phase = cx.phase(Phase::Drain);
        let _guard = match only {
            None => match self.drain_lock.try_lock(cx.cpu()) {
                Some(guard) => guard,
                None => return,
            },
            Some(_) => self.drain_lock.lock(cx.cpu()),
        };
        for cpu in 0..self.nr_cpus() {
            match only {
                Some(zone) => self.drain_cpu(cx, zone, CpuId(cpu as u16)),
                None => {
                    for zone in self.populated_zones() {
                        self.drain_cpu(cx, zone, CpuId(cpu as u16));
                    }
                }
            }
        }
    }

    /// Gives everything that one CPU keeps of a zone back.
    pub fn drain_cpu(&self, cx: &Cx<'_, H>, zone: &Zone<H>, cpu: CpuId) {
        loop {
            let mut pcp = zone.cpus[cpu.idx()].pcp.lock(cx.cpu());
            let chunk = match self.policy.pcp.chunked_drain_all {
                true => zone.pcp_batch() << CHUNK_SHIFT,
                false => pcp.count,
            };
            let n = pcp.count.min(chunk);
            // From list 0 on: all of it goes, so where it begins does not matter.
            self.bulk_drain(cx, zone, &mut pcp, n, Some(0));
            self.dissolve_all(cx, zone, &mut pcp);
            if pcp.count == 0 {
                return;
            }
        }
    }

    /// The per-second work of one CPU: folds counter differences and lets pages of remote nodes
    /// decay (rules/per-cpu-lists#decay). True if there was anything to fold, that is, if it should
    /// run again.
    ///
    /// One timer for both: whether the CPU was busy with a zone shows in its differences. An idle CPU
    /// need not be woken for this, at the price that what has not decayed by then waits until it is
    /// busy again.
    pub fn refresh_cpu_stats(&self, cx: &Cx<'_, H>) -> bool {
        let cpu = cx.cpu();
        let mut changed = false;
        for zone in self.populated_zones() {
            let mine = &zone.cpus[cpu.idx()];
            if zone.stats.fold(cpu) {
                changed = true;
                mine.expire.store(EXPIRE_SECONDS, Relaxed);
            }
            let expire = mine.expire.load(Relaxed);
            if expire == 0 || self.pcp_count(zone, cpu, cx.cpu()) == 0 {
                continue;
            }
            // The next allocation here comes from these. Pages of far nodes are taken only by requests
            // that do not get, or do not want, the own one.
            if self.cpu_node(cpu) == zone.node {
                mine.expire.store(0, Relaxed);
                continue;
            }
            mine.expire.store(expire - 1, Relaxed);
            if expire == 1 {
                let mut pcp = mine.pcp.lock(cpu);
                let n = pcp.count.min(zone.pcp_batch());
                self.bulk_drain(cx, zone, &mut pcp, n, Some(0));
                self.dissolve_all(cx, zone, &mut pcp);
            }
        }
        for node in self.nodes() {
            changed |= node.stats.fold(cpu);
        }
        changed
    }

    /// Pages on a CPU's lists of a zone, and free ones of pageblocks that it owns.
    pub fn pcp_count(&self, zone: &Zone<H>, cpu: CpuId, on: CpuId) -> u32 {
        let pcp = zone.cpus[cpu.idx()].pcp.lock(on);
        pcp.count + pcp.owned.pages
    }
}

/// From 5.18: the freed list first, each list emptied before the next
/// (rules/per-cpu-lists#bulk-drain).
///
/// Ends that are found empty are left out from then on: with most lists empty a drain of many pages
/// would else step over them again and again. The caller sees to it that there are `n` pages, or the
/// search would not end.
fn drain_freed_list_first<P: Probe>(
    buddy: &mut Buddy<'_, P>,
    pcp: &mut Pcp,
    shape: super::PcpShape,
    mut n: i64,
    start: usize,
) {
    let mut pending = Pending::default();
    let (mut lo, mut hi) = (0, shape.nr_lists - 1);
    let mut i = start as isize - 1;
    while n > 0 {
        // Next non-empty list, wrapping; ends found empty narrow the search.
        loop {
            i += 1;
            if i > hi as isize {
                i = lo as isize;
            }
            let at = i as usize;
            if !pcp.lists[at].is_empty() {
                break;
            }
            if at == hi {
                hi = hi.saturating_sub(1);
            }
            if at == lo {
                lo += 1;
            }
        }
        let (list, order) = (&mut pcp.lists[i as usize], shape.order(i as usize));
        let mut foresight = Foresight::new(buddy.map, order);
        while n > 0
            && let Some(pfn) = list.pop_tail()
        {
            n -= order.pages() as i64;
            pcp.count -= order.pages() as u32;
            if n > 0 {
                foresight.look(list);
                free_drained(buddy, &mut pending, pfn);
            } else {
                // The last one has nobody to wait for. Of a CPU that only frees high orders it is the only one.
                buddy.settle(&mut pending);
                let (order, migratetype) = drained_as(buddy, pfn);
                buddy.free_block(pfn, order, migratetype, false);
                buddy.probe.event(Event::PagePcpuDrain { pfn, order, migratetype });
            }
        }
    }
    buddy.settle(&mut pending);
}

/// Frees a block that came off a per-CPU list, to the type it was cached with.
#[inline(always)]
pub(super) fn free_drained<P: Probe>(buddy: &mut Buddy<'_, P>, pending: &mut Pending, pfn: Pfn) {
    let (order, migratetype) = drained_as(buddy, pfn);
    buddy.free_pending(pending, pfn, order, migratetype);
    buddy.probe.event(Event::PagePcpuDrain { pfn, order, migratetype });
}

/// Order and type of a block that came off a per-CPU list.
#[inline(always)]
fn drained_as<P: Probe>(buddy: &Buddy<'_, P>, pfn: Pfn) -> (Order, MigrateType) {
    let block = buddy.map.page(pfn).block();
    // Types may have changed meanwhile; only an isolated pageblock makes that matter: its pages must
    // not be handed out, while a block on another type's list is just handed out to that.
    let migratetype = match buddy.zone.pageblock_type(pfn) {
        MigrateType::Isolate => MigrateType::Isolate,
        _ => block.migratetype(),
    };
    (block.order(), migratetype)
}
