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

use super::leaving::{Leaving, foresee_one};
use super::runs::Pending;
use super::{PageAllocator, Pcp, PcpShape};
use crate::config::DrainOrder;
use crate::host::{CpuId, Cx, Host, Lock, Phase};
use crate::page::{Order, Pfn};
use crate::sync::atomic::Ordering::Relaxed;
use crate::zone::Zone;

/// Seconds until a remote node's pages on a CPU's lists are given back, counted anew whenever the CPU
/// was busy with that zone.
const EXPIRE_SECONDS: u8 = 3;
/// `drain_all` frees at most `batch << CHUNK_SHIFT` pages per zone-lock hold. Lists may hold a large
/// part of the low mark (rules/per-cpu-lists#sizes); whoever needs the lock meanwhile would wait for
/// all of it.
const CHUNK_SHIFT: u32 = 5;

impl<H: Host> PageAllocator<H> {
    /// Frees about `n` pages from a CPU's lists to the buddy lists under one zone lock. `start` is
    /// the list that was freed to.
    ///
    /// Linux: one lock hold for all; a native CPU here takes the lock once for each
    /// [`super::leaving`] full of blocks.
    #[doc(alias = "free_pcppages_bulk")]
    pub(super) fn bulk_drain(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        pcp: &mut Pcp,
        n: u32,
        start: Option<usize>,
    ) {
        let n = n.min(pcp.count);
        if n == 0 {
            return;
        }
        // Of a CPU that only frees high orders it is one block each time.
        if let Some((pfn, order)) = self.take_only(pcp, n, start) {
            foresee_one(&self.map, pfn, order);
            let mut area = zone.free.lock(cx.cpu());
            return self.buddy(cx, zone, &mut area).free_drained(pfn);
        }
        // Which blocks go needs the per-CPU lock only, so the first of them, most often all, have left their lists
        // before others are kept waiting.
        let mut choice =
            Choice::new(self.policy.pcp.drain_order, self.pcp_shape, n, start.unwrap_or(0));
        let mut leaving = Leaving::new(&self.map, !cx.is_capturing());
        choice.take(pcp, &mut leaving);
        let mut area = zone.free.lock(cx.cpu());
        let mut pending = Pending::default();
        loop {
            let mut buddy = self.buddy(cx, zone, &mut area);
            leaving.free(&mut buddy, &mut pending);
            if choice.left <= 0 {
                return buddy.settle(&mut pending);
            }
            // Where others really wait, they need not while more blocks leave their lists.
            if H::DEFERS_FREES {
                buddy.settle(&mut pending);
                drop(area);
                choice.take(pcp, &mut leaving);
                area = zone.free.lock(cx.cpu());
            } else {
                choice.take(pcp, &mut leaving);
            }
        }
    }

    /// The first block of a drain, if it is all that the drain takes.
    #[inline]
    fn take_only(&self, pcp: &mut Pcp, n: u32, start: Option<usize>) -> Option<(Pfn, Order)> {
        let list = start.filter(|_| self.policy.pcp.drain_order == DrainOrder::FreedListFirst)?;
        let order = self.pcp_shape.order(list);
        let pages = order.pages() as u32;
        if pages < n {
            return None;
        }
        let pfn = pcp.lists[list].pop_tail()?;
        pcp.count -= pages;
        Some((pfn, order))
    }

    /// Drains the per-CPU lists of every CPU (of one zone, or of all) to the buddy lists.
    ///
    /// If another drain runs: returns at once when all zones are meant, waits for it otherwise.
    ///
    /// Who wants memory from anywhere is served by the drain that runs, and to wait for it would only
    /// make two of one. Who wants a zone empty has to know that it is: the drain that runs may have
    /// passed it.
    ///
    /// A CPU may fill its lists again behind the drain. That is tolerated: what counts is that blocks
    /// which lay there for long could merge.
    #[doc(alias = "drain_all_pages")]
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

    /// Drains one CPU's lists of a zone to the buddy lists.
    #[doc(alias = "drain_pages_zone")]
    pub fn drain_cpu(&self, cx: &Cx<'_, H>, zone: &Zone<H>, cpu: CpuId) {
        loop {
            let mut pcp = zone.cpus[cpu.idx()].pcp.lock(cx.cpu());
            self.free_deferred(cx, zone, &mut pcp);
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

    /// Folds one CPU's counter differences and lets its pages of remote nodes decay, once a second
    /// (rules/per-cpu-lists#decay). True if there was anything to fold, that is, if it should run
    /// again.
    ///
    /// One timer for both: whether the CPU was busy with a zone shows in its differences. An idle CPU
    /// need not be woken for this, at the price that what has not decayed by then waits until it is
    /// busy again.
    #[doc(alias = "refresh_cpu_vm_stats")]
    pub fn refresh_cpu_stats(&self, cx: &Cx<'_, H>) -> bool {
        let cpu = cx.cpu();
        self.free_mine_deferred(cx);
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

    /// Pages on a CPU's lists of a zone, those that it put down, and free ones of pageblocks that it owns.
    pub fn pcp_count(&self, zone: &Zone<H>, cpu: CpuId, on: CpuId) -> u32 {
        let pcp = zone.cpus[cpu.idx()].pcp.lock(on);
        pcp.count + pcp.owned.pages + pcp.deferred.pages()
    }
}

/// Which blocks a drain takes: where it is among the lists.
struct Choice {
    order: DrainOrder,
    shape: PcpShape,
    /// Pages still to take. The caller sees to it that the lists hold them, or the search would not end.
    left: i64,
    /// The list that blocks come from.
    list: usize,
    /// Lists that may have some, by freed list first.
    range: (usize, usize),
    /// Blocks of this visit still to take, by round robin.
    quota: i64,
}

impl Choice {
    fn new(order: DrainOrder, shape: PcpShape, n: u32, start: usize) -> Choice {
        let list = match order {
            DrainOrder::FreedListFirst => start,
            DrainOrder::RoundRobin => 0,
        };
        Choice { order, shape, left: n.into(), list, range: (0, shape.nr_lists - 1), quota: 0 }
    }

    /// Takes blocks off the lists until there are enough of them or there is no more room; asks for what they will need.
    fn take(&mut self, pcp: &mut Pcp, leaving: &mut Leaving<'_>) {
        while self.left > 0 && !leaving.is_full() {
            match self.order {
                DrainOrder::FreedListFirst => self.find_freed_list_first(pcp),
                DrainOrder::RoundRobin => self.find_round_robin(pcp),
            }
            self.take_from_list(pcp, leaving);
        }
        leaving.foresee();
    }

    /// From 5.18: the freed list first, each list emptied before the next
    /// (rules/per-cpu-lists#bulk-drain).
    ///
    /// Ends that are found empty are left out from then on: with most lists empty a drain of many pages
    /// would else step over them again and again.
    fn find_freed_list_first(&mut self, pcp: &Pcp) {
        let (lo, hi) = &mut self.range;
        while pcp.lists[self.list].is_empty() {
            let at = self.list;
            if at == *hi {
                *hi = hi.saturating_sub(1);
            }
            if at == *lo {
                *lo += 1;
            }
            self.list = if at + 1 > *hi { *lo } else { at + 1 };
        }
        self.quota = i64::MAX;
    }

    /// Round robin (rules/per-cpu-lists#round-robin): each visit to a non-empty list takes one block
    /// more than there were empty lists on the way, so that full lists shrink fastest.
    ///
    /// The quota counts blocks and `left` pages: made for lists of single pages, it treats a block of
    /// order 3 as one, so that a visit to a list of large blocks takes more pages.
    fn find_round_robin(&mut self, pcp: &Pcp) {
        let nr_lists = self.shape.nr_lists;
        if self.quota > 0 && !pcp.lists[self.list].is_empty() {
            return;
        }
        loop {
            self.quota += 1;
            self.list = (self.list + 1) % nr_lists;
            if !pcp.lists[self.list].is_empty() {
                break;
            }
        }
        // By the quota all the other lists were empty: the rest is to come from this one.
        if self.quota == nr_lists as i64 {
            self.quota = self.left;
        }
    }

    fn take_from_list(&mut self, pcp: &mut Pcp, leaving: &mut Leaving<'_>) {
        let list = &mut pcp.lists[self.list];
        let pages = self.shape.order(self.list).pages() as i64;
        // The last block may have more pages than are left to take.
        let most = ((self.left + pages - 1) / pages).min(self.quota) as usize;
        let nr = leaving.extend_from_tail(list, most);
        list.drop_tail(nr);
        let nr = nr as i64;
        pcp.count -= (nr * pages) as u32;
        self.left -= nr * pages;
        self.quota -= nr;
    }
}

#[cfg(test)]
mod tests;
