//! A node pass over groups (rules/memory-cgroups#walk).

use crate::config::GroupWalk;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::memcg::protection::{self, Protection, Round};
use crate::memcg::walk::Walk;
use crate::memcg::{GroupEvent, GroupLife};
use crate::reclaim::Control;
use crate::reclaim::budget::{self, Lists, Mode};
use crate::units::GroupId;
use crate::vmstat::Reader;
use crate::zone::NodeId;

impl<H: Devices> Kernel<H> {
    /// Makes a pass over the lists and slab of a group and all below it. The
    /// inputs of the scan mode are computed once, from the lists of the group itself.
    ///
    /// Linux: same name.
    pub(in crate::reclaim) fn shrink_node_memcgs(
        &self,
        cx: &Cx<'_, H>,
        node: NodeId,
        sc: &mut Control,
    ) {
        if self.takes_turns(sc) {
            return self.shrink_groups_in_turn(cx, node, sc);
        }
        self.flush_group_stats(cx, Reader::NodePass, sc.target);
        let root = self.lru.id_of_target(sc.target, node);
        self.algorithm().begin(self, cx, (node, root), sc);
        let (policy, counters) = (&self.mem.policy.memcg, &self.mem.groups.memory);
        let takes_turns = self.walks_in_part(sc);
        let walk = match takes_turns {
            true => {
                let position = self.memcg.position(sc.target, node);
                Walk::partial(&self.memcg.tree, sc.target, position)
            }
            false => Walk::full(&self.memcg.tree, sc.target),
        };
        for group in walk {
            protection::calculate(policy, counters, sc.target, group);
            if protection::below_min(policy, counters, sc.target, group) {
                continue;
            }
            if protection::below_low(policy, counters, sc.target, group) {
                if !sc.memcg_low_reclaim {
                    sc.memcg_low_skipped = true;
                    continue;
                }
                self.memcg.event(group, GroupEvent::Low);
            }
            let vec = self.lru.id_of_group(group, node);
            sc.nr_reclaimed += self.algorithm().shrink(self, cx, (node, vec), sc);
            sc.nr_reclaimed += self.shrink_slab(cx, sc.gfp, node, group, sc.priority);
            if takes_turns && sc.nr_reclaimed >= sc.nr_to_reclaim {
                break;
            }
        }
        sc.inputs = None;
    }

    /// True if a pass goes on where the last one stopped, and may visit some groups only.
    fn walks_in_part(&self, sc: &Control) -> bool {
        self.mem.groups.is_on() && self.may_walk_in_part(sc)
    }

    fn may_walk_in_part(&self, sc: &Control) -> bool {
        let is_partial = self.mem.policy.memcg.walk == GroupWalk::Partial;
        is_partial && !sc.is_kswapd && !sc.full_walk
    }

    /// After attempts that got nothing: prepares the next one, which visits all groups or takes
    /// what was spared; false if there is none. A kernel that could walk in part repeats the attempt
    /// in full even if there is one group only.
    pub(in crate::reclaim) fn has_another_attempt(&self, sc: &mut Control) -> bool {
        if self.may_walk_in_part(sc) {
            sc.full_walk = true;
            return true;
        }
        sc.takes_what_it_spared()
    }

    /// Pages of so many that a pass may see of a group under its protection.
    pub(in crate::reclaim) fn unprotected_pages(
        &self,
        group: GroupId,
        sc: &mut Control,
        pages: u64,
    ) -> u64 {
        let counters = &self.mem.groups.memory;
        let round = match sc.memcg_low_reclaim {
            true => Round::IgnoresLow,
            false => Round::First,
        };
        let protection = Protection::of(counters, sc.target, group);
        let seen = protection.seen(pages, counters[group].usage(), round);
        sc.memcg_low_skipped |= seen.skipped_low;
        seen.size
    }

    /// Computes the pages to scan of each list of a group: protection takes its share of usage off
    /// every list.
    pub(in crate::reclaim) fn group_targets(
        &self,
        group: GroupId,
        sc: &mut Control,
        sizes: Lists,
        mode: Mode,
    ) -> Lists {
        let counters = &self.mem.groups.memory;
        let usage = counters[group].usage();
        let protection = Protection::of(counters, sc.target, group);
        let round = match sc.memcg_low_reclaim {
            true => Round::IgnoresLow,
            false => Round::First,
        };
        let seen = sizes.map(|size| {
            let seen = protection.seen(size, usage, round);
            sc.memcg_low_skipped |= seen.skipped_low;
            seen.size
        });
        if self.memcg.life(group) == GroupLife::Offline {
            return budget::targets_of_offline(sizes, seen, sc.priority, mode);
        }
        budget::targets(seen, sc.priority, mode)
    }
}
