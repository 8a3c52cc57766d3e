//! MGLRU: the multi-generational LRU (6.1 on; rules/mglru).
//!
//! ```text
//!   aging: walks page tables, makes            eviction: sorts the oldest generation,
//!   a generation of what was used              isolates 64 pages, has them judged
//!            │                                             │
//!            ▼                                             ▼
//!   max ── max-1 ── ... ── min  ◀── promoted pages keep their place until eviction meets them
//! ```
//!
//! * `mod`: the loops of a set of lists, of 6.1, 6.12 and 7.2
//! * [`budget`]: how much to scan, and when to age · [`evict`]: a round of eviction · [`age`]: a new
//!   generation
//!
//! The lists, and what a page's flags mean, are in [`crate::lru::generations`]. Page tables are
//! walked by [`crate::vm`].
//!
//! From: [`super`] · to: `lru::generations`, `vm::aging`, `reclaim::folios`.

mod age;
mod budget;
mod evict;
#[cfg(test)]
mod whole;

use super::{At, ReclaimAlgorithm};
use crate::config::AgingRule;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::lru::generations::SCAN_BATCH;
use crate::lru::{LruKind, PageType};
use crate::page::Order;
use crate::page_alloc::Gfp;
use crate::reclaim::Control;
use crate::reclaim::budget::DEF_PRIORITY;
use crate::units::LruVecId;
use crate::zone::{Mark, NodeId, Zone};

/// The algorithm.
pub(super) struct Mglru;

/// State of a reclaim under MGLRU, over its passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::reclaim) struct MglruRun {
    /// kswapd: the last pass shows that aging may be needed.
    needs_aging: bool,
    /// kswapd: pages reclaimed when it last came to age.
    reclaimed_at_aging: u64,
    /// The task has aged in this reclaim, so it has room to batch promotions.
    has_aged: bool,
    /// A generation was made for the lists of the last call.
    has_aged_lists: bool,
    /// Pages reclaimed when the pass began.
    reclaimed_at_pass: u64,
    /// In this pass: pages of files isolated, and those that were dirty and not queued.
    files: u64,
    unqueued: u64,
}

/// The gentlest priority of eviction that may stop because memory is free.
const STOPS_UPTO: u8 = 10;
/// Pages that a task pretends to have freed, to get out.
const PRETENDED: u64 = SCAN_BATCH;

impl<H: Devices> Kernel<H> {
    /// A pass for the machine does not go round again for a high order (6.12 on).
    pub(in crate::reclaim) fn passes_once(&self, sc: &Control) -> bool {
        self.is_mglru() && !self.mglru_policy().kswapd_ages && !sc.is_of_group()
    }
}

impl MglruRun {
    /// A pass over a node begins.
    pub(in crate::reclaim) fn pass_begins(&mut self, reclaimed: u64) {
        self.reclaimed_at_pass = reclaimed;
        (self.files, self.unqueued) = (0, 0);
    }

    /// A generation was made for the lists that were shrunk last.
    pub(in crate::reclaim) fn has_aged_lists(&self) -> bool {
        self.has_aged_lists
    }

    /// All pages of files that the pass met were dirty, and no flusher has them (6.12).
    pub(in crate::reclaim) fn wants_flushers(&self) -> bool {
        self.files != 0 && self.files == self.unqueued
    }
}

impl<H: Devices> ReclaimAlgorithm<H> for Mglru {
    fn shrink(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, at: At, sc: &mut Control) -> u64 {
        // A boost's passes, which neither write nor swap, do nothing from 6.12 on.
        let may_all = sc.may_writepage && sc.may_unmap;
        if !kernel.mglru_policy().kswapd_ages && !may_all && !sc.is_of_group() {
            return 0;
        }
        sc.mglru.has_aged_lists = false;
        kernel.lru_add_drain(cx);
        kernel.plug_start(cx);
        let got = match (kernel.mglru_policy().kswapd_ages, kernel.mglru_policy().aging) {
            (true, _) => kernel.evict_with_budget(cx, at, sc),
            (false, AgingRule::Spread) => kernel.evict_and_age(cx, at, sc),
            (false, AgingRule::Count) => kernel.evict_counted(cx, at, sc),
        };
        kernel.plug_finish(cx);
        got
    }

    /// kswapd up to 6.11, before each of its passes.
    fn age(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, at: At, sc: &mut Control) {
        if kernel.mglru_policy().kswapd_ages {
            kernel.age_before_pass(cx, at, sc);
        }
        if kernel.takes_turns(sc) {
            kernel.protect_all(sc);
        }
    }

    /// Pages that are not in the two youngest generations.
    fn candidates(&self, kernel: &Kernel<H>, node: NodeId) -> u64 {
        kernel.inactive_on(node)
    }

    /// No refaults are compared with those of the last run.
    fn run_done(&self, _: &Kernel<H>, _: LruVecId) {}
}

impl<H: Devices> Kernel<H> {
    /// Evicts by a budget that is taken anew for each round (6.1).
    #[doc(alias = "lru_gen_shrink_lruvec")]
    fn evict_with_budget(&self, cx: &Cx<'_, H>, at: At, sc: &mut Control) -> u64 {
        let Some(gens) = self.generations(at.1) else { return 0 };
        let first = gens.max();
        let (mut scanned, mut got, mut took_anon) = (0, 0, false);
        let needs_aging = loop {
            let swappiness = self.swappiness_for(sc, at);
            let (budget, needs_aging) = self.budget_with_aging(cx, at, sc, swappiness);
            if budget == 0 {
                return got;
            }
            let round = self.evict(cx, at, sc, swappiness, SCAN_BATCH);
            got += round.reclaimed;
            took_anon |= round.took_anon;
            if round.scanned == 0 {
                return got;
            }
            scanned += round.scanned;
            if scanned >= budget {
                break needs_aging;
            }
            let has_aged_since = gens.max() - first > 1;
            if let Some(pretended) = self.stops(cx, at, sc, (got, took_anon, has_aged_since)) {
                got += pretended;
                break needs_aging;
            }
            cx.host.yield_now();
        };
        if got >= SCAN_BATCH && !needs_aging {
            sc.mglru.needs_aging = false;
        }
        got
    }

    /// Reports whether eviction stops before its budget is used up (6.1): the pages to pretend.
    #[doc(alias = "should_abort_scan")]
    fn stops(
        &self,
        cx: &Cx<'_, H>,
        at: At,
        sc: &Control,
        (got, took_anon, has_aged_since): (u64, bool, bool),
    ) -> Option<u64> {
        let reclaimed = sc.nr_reclaimed + got;
        if sc.is_kswapd {
            if reclaimed - sc.mglru.reclaimed_at_aging < sc.nr_to_reclaim {
                return None;
            }
        } else if has_aged_since || reclaimed >= sc.nr_to_reclaim && took_anon {
            return Some(0);
        } else if cx.is_dying() {
            return Some(PRETENDED);
        }
        if sc.priority > STOPS_UPTO || sc.is_of_group() {
            return None;
        }
        let mark = if sc.is_kswapd { Mark::High } else { Mark::Low };
        let is_met = self.all_zones(at, sc, |zone| zone.nr_free_pages() >= zone.mark(mark));
        is_met.then_some(PRETENDED)
    }

    /// Evicts, or makes a generation and leaves it at that (6.12).
    fn evict_and_age(&self, cx: &Cx<'_, H>, at: At, sc: &mut Control) -> u64 {
        let (mut scanned, mut got) = (0, 0);
        loop {
            let swappiness = self.swappiness_for(sc, at);
            let budget = self.budget_or_age(cx, at, sc, swappiness);
            sc.mglru.has_aged_lists = budget.is_none();
            let Some(budget) = budget.filter(|&pages| pages != 0) else { return got };
            let round = self.evict(cx, at, sc, swappiness, SCAN_BATCH);
            got += round.reclaimed;
            if round.scanned == 0 {
                return got;
            }
            scanned += round.scanned;
            if scanned >= budget || self.has_enough(at, sc, got) {
                return got;
            }
            cx.host.yield_now();
        }
    }

    /// Evicts by a budget that is taken once (7.2).
    fn evict_counted(&self, cx: &Cx<'_, H>, at: At, sc: &mut Control) -> u64 {
        let swappiness = self.swappiness_for(sc, at);
        let mut got = 0;
        let (mut needs_aging, mut left) = self.budget_of_7_2(at, sc, swappiness);
        while left != 0 {
            let has_aged = needs_aging && self.age_in_loop(cx, at, sc, swappiness);
            sc.mglru.has_aged_lists |= has_aged;
            needs_aging = false;
            let round = self.evict(cx, at, sc, swappiness, left.min(SCAN_BATCH));
            got += round.reclaimed;
            if round.scanned == 0 || (has_aged && !sc.is_of_group()) {
                return got;
            }
            left = left.saturating_sub(round.scanned);
            if self.has_enough(at, sc, got) {
                return got;
            }
            cx.host.yield_now();
        }
        got
    }

    /// A pass has what it is for (6.12 on).
    fn has_enough(&self, at: At, sc: &Control, got: u64) -> bool {
        // Each group of a tree gets its whole share scanned.
        if sc.is_of_group() {
            return false;
        }
        let target = sc.nr_to_reclaim.max(2 << sc.order);
        if sc.nr_reclaimed + got - sc.mglru.reclaimed_at_pass >= target {
            return true;
        }
        let rule = self.mem.policy.watermark_rule();
        let order = Order(sc.order);
        sc.is_kswapd
            && sc.order == 0
            && self.all_zones(at, sc, |zone| {
                let mark = zone.mark(Mark::High) + SCAN_BATCH;
                zone.watermark_ok_safe(rule, order, mark, sc.reclaim_idx)
            })
    }

    /// The same for the groups of a pass.
    pub(in crate::reclaim) fn has_enough_of_node(&self, node: NodeId, sc: &Control) -> bool {
        self.has_enough((node, self.lru.id_of_target(sc.target, node)), sc, 0)
    }

    /// The priority asks for pages of these lists.
    pub(in crate::reclaim) fn has_share(&self, at: At, sc: &Control) -> bool {
        let spread = self.spread(at, self.can_evict_anon(at.1));
        spread.is_some_and(|spread| spread.total >> sc.priority != 0)
    }

    fn all_zones(&self, at: At, sc: &Control, test: impl FnMut(&Zone<H>) -> bool) -> bool {
        self.zones_upto(at.0, sc.reclaim_idx).all(test)
    }

    /// The swappiness of a round; 0: pages of files only.
    #[doc(alias = "get_swappiness")]
    fn swappiness_for(&self, sc: &Control, at: At) -> u64 {
        let is_first = self.mglru_policy().kswapd_ages;
        let usual = if self.can_evict_anon(at.1) { self.swappiness_of(at.1) } else { 0 };
        match (sc.may_swap, usual) {
            (_, 0) => 0,
            (false, _) if is_first && !sc.is_of_group() => 1,
            (false, _) => 0,
            (true, _) if !is_first && !sc.gfp.contains(Gfp::IO) => 1,
            (true, usual) => usual,
        }
    }

    /// Anonymous pages of these lists can be swapped: swappiness is not 0, and there is room for a
    /// batch.
    fn can_evict_anon(&self, vec: LruVecId) -> bool {
        let is_on = self.mem.groups.is_on();
        let room = match is_on {
            true => self.swap_room(self.lru.group_of(vec)).min(self.swap.nr_free()),
            false => self.swap.nr_free(),
        };
        self.swappiness_of(vec) != 0 && room >= SCAN_BATCH
    }

    /// The priority with which kswapd begins a run (6.12 on): so gentle that a pass reaches its
    /// target.
    #[doc(alias = "set_initial_priority")]
    pub(in crate::reclaim) fn initial_priority(&self, node: NodeId, sc: &Control) -> u8 {
        let has_own = self.is_mglru() && !self.mglru_policy().kswapd_ages;
        if !has_own || sc.nr_to_reclaim < SCAN_BATCH || sc.is_of_group() {
            return sc.priority;
        }
        let stats = &self.mem.node(node).stats;
        let mut reclaimable = stats.read(LruKind::InactiveFile.node_stat() as usize);
        if self.can_evict_anon(self.lru.id_of_target(sc.target, node)) {
            reclaimable += stats.read(LruKind::new(PageType::Anon, false).node_stat() as usize);
        }
        initial_priority(reclaimable, sc.nr_to_reclaim)
    }
}

/// The priority at which so many pages give the target.
fn initial_priority(reclaimable: u64, target: u64) -> u8 {
    let bits = |n: u64| i64::from(u64::BITS - n.leading_zeros());
    let priority = bits(reclaimable) - 1 - bits(target.saturating_sub(1));
    priority.clamp(i64::from(DEF_PRIORITY / 2), i64::from(DEF_PRIORITY)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first priority of a run (rules/mglru#priority, vector 17).
    #[test]
    fn a_run_begins_where_a_pass_reaches_its_target() {
        assert_eq!(initial_priority(60_000, 1000), 6);
        assert_eq!(initial_priority(1_000_000, 6000), 6);
        assert_eq!(initial_priority(10_000_000, 6000), 10);
        assert_eq!(initial_priority(10_000_000, 64), 12);
    }
}
