//! One pass over a node (spec 02 §8.1, §9, §12).
//!
//! [`Kernel::shrink_node`] prepares the sums that the scan budget needs, shrinks the node's lists
//! and the slab, and draws the conclusions: what to tell kswapd about dirty pages, whom to slow
//! down, whether to go round again for a high order.
//!
//! With lists per zone (up to 4.7) a pass goes over the zones' lists one after another.
//!
//! From: [`super::direct`], [`super::balance`] · to: [`super::budget`], [`super::inactive`],
//! [`super::active`], [`super::shrinker`], [`super::throttle`].

use super::budget::{self, DEF_PRIORITY, ModeInput, ScanPlan};
use super::{Control, PassSums};
use crate::compaction::{Suitability, compact_gap};
use crate::config::LruTopology;
use crate::host::{Cost, Cx, Devices, Probe};
use crate::kernel::Kernel;
use crate::lru::{LruKind, PageType};
use crate::page::Order;
use crate::page_alloc::Gfp;
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::LruVecId;
use crate::vmstat::NodeStat;
use crate::zone::{Mark, NodeId, ZoneType};

const TYPES: [PageType; 2] = [PageType::Anon, PageType::File];

/// High-order reclaim below this priority goes round again for orders up to 3 too (§12).
const CONTINUE_BELOW: u8 = DEF_PRIORITY - 2;

impl<H: Devices> Kernel<H> {
    /// One pass over a node, or several while a high order needs them.
    pub(super) fn shrink_node(&self, cx: &Cx<'_, H>, node: NodeId, sc: &mut Control) {
        let state = self.reclaim.node(node);
        let mut has_progress = false;
        loop {
            sc.sums = PassSums::default();
            cx.charge(Cost::NodePass, 1);
            let before = sc.nr_reclaimed;
            for vec in self.lru_vecs(node, sc.reclaim_idx) {
                self.prepare(cx, (node, vec), sc);
                self.shrink_lruvec(cx, (node, vec), sc);
            }
            sc.nr_reclaimed += self.shrink_slab(cx, sc.gfp, node, sc.priority);
            let got = sc.nr_reclaimed - before;
            has_progress |= got != 0;
            self.count_reclaimed(got);

            self.throttle_after_pass(cx, node, sc);
            if !self.should_continue(node, got, sc) {
                break;
            }
        }
        if has_progress {
            state.kswapd_failures.store(0, Relaxed);
        }
    }

    /// Indexes of the lists that a reclaim on a node looks at.
    pub(super) fn lru_vecs(
        &self,
        node: NodeId,
        highest: ZoneType,
    ) -> impl Iterator<Item = LruVecId> + use<H> {
        self.lru.ids_of_node(node, highest)
    }

    /// What a pass goes by (§8.1).
    fn prepare(&self, cx: &Cx<'_, H>, (node, vec): (NodeId, LruVecId), sc: &mut Control) {
        let lists = self.lru.vec(vec);
        sc.weights = self.balance_weights(cx, vec);
        let per_node = self.mem.policy.reclaim.lru == LruTopology::Node;
        let stats = &self.mem.node(node).stats;
        for page_type in TYPES {
            // Refaults say that the active pages are not all in use. (4.x goes by sizes alone.)
            let refaulted = per_node && self.refaults_changed(node, page_type);
            sc.may_deactivate[page_type as usize] =
                sc.force_deactivate || refaulted || self.inactive_list_is_low(vec, page_type);
        }
        let [may_anon, may_file] = sc.may_deactivate;
        let inactive_file = lists.size(LruKind::InactiveFile);
        sc.cache_trim_mode = inactive_file >> sc.priority != 0 && !may_file;

        let sum = |list: LruKind| match per_node {
            true => stats.read(list.node_stat() as usize),
            false => lists.size(list),
        };
        let file = sum(LruKind::ActiveFile) + sum(LruKind::InactiveFile);
        let zones =
            || self.mem.zones_of(node).filter(move |zone| self.lru.holds_zone(vec, zone.id()));
        let free: u64 = zones().map(|zone| zone.nr_free_pages()).sum();
        let managed = zones().filter(|zone| zone.managed() != 0);
        let high: u64 = managed.map(|zone| zone.mark(Mark::High)).sum();
        let worth_it = !may_anon && sum(LruKind::InactiveAnon) >> sc.priority != 0;
        sc.file_is_tiny = file + free <= high && (worth_it || !per_node);
    }

    /// Shrinks one set of lists by its budget (§9).
    fn shrink_lruvec(&self, cx: &Cx<'_, H>, at: (NodeId, LruVecId), sc: &mut Control) {
        let targets = self.scan_targets(at.1, sc);
        // The first pass of direct reclaim never stops early: it would always hit the same lists.
        let full = !sc.is_kswapd && sc.priority == DEF_PRIORITY;
        let mut plan = ScanPlan::new(targets, full, self.mem.policy.reclaim.proportional);
        let mut got = 0;
        self.plug_start(cx);
        while plan.goes_on() {
            for page_type in TYPES {
                for is_active in [false, true] {
                    let list = LruKind::new(page_type, is_active);
                    let want = plan.bite(list as usize);
                    if want != 0 {
                        got += self.shrink_list(cx, at, sc, list, want);
                    }
                }
            }
            cx.host.yield_now();
            if !plan.round_done(got, sc.nr_to_reclaim) {
                break;
            }
        }
        self.plug_finish(cx);
        sc.nr_reclaimed += got;
        self.age_anon(cx, at, sc);
    }

    fn shrink_list(
        &self,
        cx: &Cx<'_, H>,
        at: (NodeId, LruVecId),
        sc: &mut Control,
        list: LruKind,
        want: u64,
    ) -> u64 {
        match list {
            LruKind::InactiveAnon => self.shrink_inactive(cx, at, sc, PageType::Anon, want),
            LruKind::InactiveFile => self.shrink_inactive(cx, at, sc, PageType::File, want),
            LruKind::ActiveAnon | LruKind::ActiveFile | LruKind::Unevictable => {
                let page_type = match list {
                    LruKind::ActiveAnon => PageType::Anon,
                    _ => PageType::File,
                };
                if sc.may_deactivate[page_type as usize] {
                    self.shrink_active(cx, at, sc, page_type, want);
                } else {
                    sc.skipped_deactivate = true;
                }
                0
            }
        }
    }

    /// Pages to scan of each list (§8.2 to §8.5).
    fn scan_targets(&self, vec: LruVecId, sc: &Control) -> budget::Lists {
        let lists = self.lru.vec(vec);
        let sizes = core::array::from_fn(|i| lists.size_upto(LruKind::ALL[i], sc.reclaim_idx));
        let input = ModeInput {
            can_swap: sc.may_swap && self.swap.nr_free() > 0,
            priority: sc.priority,
            swappiness: self.mem.tunables.swappiness,
            file_is_tiny: sc.file_is_tiny,
            cache_trim_mode: sc.cache_trim_mode,
        };
        let mode = budget::mode(input, sc.weights);
        budget::targets(sizes, sc.priority, mode)
    }

    /// Go round again for a high order (§12)? Not once compaction could work with what is free.
    fn should_continue(&self, node: NodeId, got: u64, sc: &Control) -> bool {
        let order = Order(sc.order);
        let wants_block =
            order > Order::ZERO && (order.is_costly() || sc.priority < CONTINUE_BELOW);
        if !sc.gfp.contains(Gfp::IO) || !wants_block || got == 0 {
            return false;
        }
        let mut zones = self
            .mem
            .zones_of(node)
            .filter(|zone| zone.zone <= sc.reclaim_idx && zone.managed() != 0);
        if zones.any(|zone| {
            self.mem.compaction_suitable(zone, order, sc.reclaim_idx) != Suitability::Skipped
        }) {
            return false;
        }
        let stats = &self.mem.node(node).stats;
        let mut inactive = stats.read(NodeStat::InactiveFile as usize);
        if self.swap.nr_free() > 0 {
            inactive += stats.read(NodeStat::InactiveAnon as usize);
        }
        inactive > compact_gap(Order(sc.order))
    }
}
