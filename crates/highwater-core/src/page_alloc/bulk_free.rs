//! Emptying per-CPU lists: bulk drains (rules/per-cpu-lists#bulk-drain, study 002), `drain_all`
//! (rules/per-cpu-lists#drain-all), the decay of remote pages (rules/per-cpu-lists#decay).
//!
//! Other CPUs cannot allocate pages on a CPU's lists, and these pages do not merge. They are freed
//! to the buddy lists on three occasions:
//!
//! | occasion | task, lists | how much | because |
//! |---|---|---|---|
//! | lists are full | a free, its own | a batch, or twice the last time's | others may need them more |
//! | reclaim freed, still no block | a request, all CPUs' | everything | it may be there, in pieces |
//! | seconds without use | each CPU, its own lists of far nodes | a batch | it allocates from its own node first |
//! | each second (6.7 on) | each CPU, all its lists | pages above a falling limit | its use is over |
//!
//! *Which* blocks leave decides what is left. They leave from the tails: those freed longest ago
//! are cold, those at the head are warm. Round robin takes blocks from each list, whichever
//! overflowed. Freed list first (5.18 on) takes from the list of which this CPU has too much.
//!
//! A drain counts pages and takes whole blocks, so it may free slightly more than requested.
//!
//! Synchronisation: per-CPU lock first, then one hold of the zone lock for all blocks of a drain.
//! `drain_all` releases both between chunks.

use super::deferred::Frees;
use super::leaving::{Leaving, foresee_one};
use super::runs::Pending;
use super::{PageAllocator, Pcp, PcpShape};
use crate::config::{DrainOrder, PcpSizing};
use crate::host::{CpuId, Cx, Host, Lock, Phase};
use crate::page::{Order, Pfn};
use crate::sync::atomic::Ordering::Relaxed;
use crate::zone::{Zone, ZoneInfo};

/// Seconds until a remote node's pages on a CPU's lists are given back, counted anew whenever the CPU
/// was busy with that zone.
const EXPIRE_SECONDS: u8 = 3;
/// `drain_all` frees at most `batch << CHUNK_SHIFT` pages per zone-lock hold. Lists may hold a
/// large part of the low mark (rules/per-cpu-lists#sizes); without this limit other tasks would
/// wait for all of it.
const CHUNK_SHIFT: u32 = 5;

impl<H: Host> PageAllocator<H> {
    /// Frees about `n` pages from a CPU's lists to the buddy lists under one zone lock. `start` is
    /// the list that was freed to.
    ///
    /// Linux: one hold of the zone lock for all blocks; here the native host takes the lock once
    /// for each bounded batch of blocks.
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
            if Frees::<H>::LET_GO_OF_ZONE_LOCK {
                buddy.settle(&mut pending);
                drop(area);
                choice.take(pcp, &mut leaving);
                area = zone.free.lock(cx.cpu());
            } else {
                choice.take(pcp, &mut leaving);
            }
        }
    }

    /// The first block of a drain, if one block is enough.
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
    /// If another drain runs: a drain of all zones returns at once; a drain of one zone waits for
    /// it.
    ///
    /// The running drain also serves a task that needs memory from any zone, so a second drain
    /// would be wasted. A task that needs one zone drained must be sure of it: the running drain
    /// may have passed that zone already.
    ///
    /// A CPU may fill its lists again after the drain. That is tolerated: the goal is that old
    /// blocks could merge.
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
    ///
    /// # Panics
    /// If the machine has no such CPU.
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
            // Start at list 0: all lists are drained, so the start does not matter.
            self.bulk_drain(cx, zone, &mut pcp, n, Some(0));
            self.dissolve_all(cx, zone, &mut pcp);
            if pcp.count == 0 {
                return;
            }
        }
    }

    /// Folds one CPU's counter differences and lets its pages of remote nodes decay, once a second
    /// (rules/per-cpu-lists#decay). True if there was anything to fold or a limit to lower, which
    /// means that it should run again.
    ///
    /// One timer serves both, because a CPU's differences show whether it used a zone. An idle CPU
    /// is not woken for this. Pages that have not decayed by then stay until the CPU is busy again.
    ///
    /// # Panics
    /// If the machine has no such CPU.
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
            if self.policy.pcp.sizing == PcpSizing::Auto {
                changed |= self.decay_high(cx, zone, mine);
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

    /// Pages on a CPU's lists of a zone, its deferred frees, and free pages of pageblocks that it
    /// owns.
    ///
    /// # Panics
    /// If the machine has no such CPU.
    pub fn pcp_count(&self, zone: &Zone<H>, cpu: CpuId, on: CpuId) -> u32 {
        zone.cpus[cpu.idx()].pcp.lock(on).all_pages()
    }

    /// Pages and limit of a CPU's lists of a zone.
    ///
    /// # Panics
    /// As [`Self::pcp_count`].
    pub fn pcp_levels(&self, zone: &Zone<H>, cpu: CpuId, on: CpuId) -> PcpLevels {
        PcpLevels::of(&zone.cpus[cpu.idx()].pcp.lock(on), zone)
    }

    /// The same for an observer outside the machine; `None` while the lists are in use.
    ///
    /// # Panics
    /// As [`Self::pcp_count`].
    pub fn peek_pcp_levels(&self, zone: &Zone<H>, cpu: CpuId) -> Option<PcpLevels> {
        zone.cpus[cpu.idx()].pcp.peek(|pcp| PcpLevels::of(pcp, zone))
    }
}

/// Pages and limit of a CPU's lists of a zone, as `/proc/zoneinfo` shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PcpLevels {
    /// Pages, with deferred frees and free pages of pageblocks that the CPU owns.
    pub pages: u32,
    /// The limit; one that the CPU tunes is 0 before its first use.
    pub high: u32,
}

impl PcpLevels {
    fn of(pcp: &Pcp, zone: &ZoneInfo) -> PcpLevels {
        let tunes = zone.pcp_high_max() != zone.pcp_high();
        let high = if tunes { pcp.high() } else { zone.pcp_high() };
        PcpLevels { pages: pcp.all_pages(), high }
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

    /// Takes blocks off the lists until there are enough or no more room; prefetches their
    /// descriptors.
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
    /// The quota counts blocks, but `left` counts pages. The rule was made for lists of single
    /// pages, so a visit to a list of large blocks takes more pages.
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
