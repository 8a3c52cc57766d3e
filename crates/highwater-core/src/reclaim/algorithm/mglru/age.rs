//! A new generation (rules/mglru#aging, rules/mglru#walk).

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::At;
use crate::config::AgingRule;
use crate::host::{CpuId, Cx, Devices, Lock};
use crate::kernel::Kernel;
use crate::lru::generations::{Iteration, SCAN_BATCH};
use crate::memcg::walk::Walk;
use crate::page::Folio;
use crate::reclaim::Control;
use crate::reclaim::budget::DEF_PRIORITY;
use crate::units::LruVecId;
use crate::vm::{AgingScope, AgingVisitor, Mm, PagesToAge};

/// Tasks that lost the race for a generation wait for it at this priority and below.
const WAITS_UPTO: u8 = DEF_PRIORITY - 2;

/// The walk of one set of lists.
struct Walker<'a, H: Devices> {
    kernel: &'a Kernel<H>,
    vec: LruVecId,
    /// The youngest generation.
    seq: u64,
    /// Dense tables, noted when no lock of a table is held.
    dense: Vec<u64>,
    cpu: CpuId,
}

impl<H: Devices> AgingVisitor<H> for Walker<'_, H> {
    fn wants_table(&mut self, key: u64) -> bool {
        let gens = self.kernel.generations(self.vec);
        gens.is_none_or(|gens| gens.walk.lock(self.cpu).wants(self.seq, key))
    }

    fn dense_table(&mut self, key: u64) {
        self.dense.push(key);
    }

    fn used(&mut self, cx: &Cx<'_, H>, folio: Folio) {
        self.kernel.promote(cx, folio);
    }

    /// Changes of sizes are not batched here.
    fn is_full(&self) -> bool {
        false
    }

    fn gives_up(&self) -> bool {
        let gens = self.kernel.generations(self.vec);
        gens.is_some_and(|gens| gens.has_aged.has_waiters())
    }

    fn paused(&mut self, cx: &Cx<'_, H>) {
        self.cpu = cx.cpu();
        let Some(gens) = self.kernel.generations(self.vec) else { return };
        let mut walk = gens.walk.lock(self.cpu);
        self.dense.drain(..).for_each(|table| walk.note(self.seq + 1, table));
    }
}

impl<H: Devices> Kernel<H> {
    /// kswapd before a pass (6.1): makes generations where they are needed, unless the last pass
    /// was a success without.
    #[doc(alias = "lru_gen_age_node")]
    pub(super) fn age_before_pass(&self, cx: &Cx<'_, H>, at: At, sc: &mut Control) {
        sc.mglru.reclaimed_at_aging = sc.nr_reclaimed;
        if !sc.mglru.needs_aging {
            sc.mglru.needs_aging = true;
            return;
        }
        if !self.mem.groups.is_on() {
            return self.age_lists_if_needed(cx, at, sc);
        }
        for group in Walk::full(&self.memcg.tree, sc.target) {
            self.age_lists_if_needed(cx, (at.0, self.lru.id_of_group(group, at.0)), sc);
        }
    }

    /// Makes a generation for some lists, if their pages need one.
    #[doc(alias = "lruvec_is_reclaimable")]
    #[doc(alias = "age_lruvec")]
    fn age_lists_if_needed(&self, cx: &Cx<'_, H>, at: At, sc: &mut Control) {
        let with_anon = self.can_evict_anon(at.1);
        let Some(spread) = self.spread(at, with_anon) else { return };
        if spread.needs_aging(AgingRule::Spread) {
            self.try_age(cx, at, sc, spread.max, with_anon);
        }
    }

    /// Makes a generation after `seq`: walks the page tables first. Several tasks share the walk;
    /// the last makes the generation. True if there is one, whoever made it.
    #[doc(alias = "try_to_inc_max_seq")]
    pub(super) fn try_age(
        &self,
        cx: &Cx<'_, H>,
        at: At,
        sc: &mut Control,
        seq: u64,
        with_anon: bool,
    ) -> bool {
        let Some(gens) = self.generations(at.1) else { return false };
        sc.mglru.has_aged = true;
        let has_won = match self.mglru_policy().walks {
            true => self.walk_spaces(cx, at, seq, with_anon),
            false => gens.walk.lock(cx.cpu()).skip(seq),
        };
        if has_won {
            let made = self.lock_lru(cx, at.1).make_generation(seq, with_anon);
            gens.has_aged.wake_all(cx.host, cx.cpu());
            return made;
        }
        let is_made = || gens.max() > seq;
        if sc.priority <= WAITS_UPTO && self.mglru_policy().kswapd_ages && !is_made() {
            // While another task walks: its generation wakes this one.
            let is_walked = || gens.walk.lock(cx.cpu()).is_walked();
            let ready = || is_made() || !is_walked();
            let _ = gens.has_aged.wait_killable(cx, "a new generation", ready);
        }
        is_made()
    }

    /// Walks address spaces until none is left; true if this task is to make the generation.
    #[doc(alias = "iterate_mm_list")]
    fn walk_spaces(&self, cx: &Cx<'_, H>, at: At, seq: u64, with_anon: bool) -> bool {
        let Some(gens) = self.generations(at.1) else { return false };
        if gens.walk.lock(cx.cpu()).join(seq) == Iteration::Over {
            return false;
        }
        let policy = self.mglru_policy();
        let group = self.mem.groups.is_on().then(|| self.lru.group_of(at.1));
        let of = PagesToAge { node: at.0, with_anon, group };
        let (dense, cpu) = (Vec::new(), cx.cpu());
        let mut walker = Walker { kernel: self, vec: at.1, seq, dense, cpu };
        while let Some((mm, forced)) = self.next_space(cx, at, &of, seq) {
            let scope = AgingScope {
                of,
                forced,
                // [6.12] A forced walk looks at all.
                skips_unused_tables: policy.skips_unused_tables && (policy.kswapd_ages || !forced),
                contended_is_dense: policy.aging == AgingRule::Count,
            };
            self.age_mm(cx, &mm, &scope, &mut walker);
            cx.host.yield_now();
        }
        gens.walk.lock(cx.cpu()).leave(seq)
    }

    /// The next address space of a walk; true with it if it was created since the last walk.
    fn next_space(
        &self,
        cx: &Cx<'_, H>,
        at: At,
        of: &PagesToAge,
        seq: u64,
    ) -> Option<(Arc<Mm<H>>, bool)> {
        let gens = self.generations(at.1)?;
        let pages_min = if self.mglru_policy().kswapd_ages { SCAN_BATCH } else { 0 };
        loop {
            let last = gens.walk.lock(cx.cpu()).last();
            let mm = self.next_mm_to_age(cx, of.group, last)?;
            let forced = gens.walk.lock(cx.cpu()).take(mm.id);
            if self.is_to_age(&mm, of, forced, pages_min) {
                gens.walk.lock(cx.cpu()).begin(seq);
                return Some((mm, forced));
            }
        }
    }
}
