//! A pass for the machine over groups that take turns (6.4 on, MGLRU; rules/mglru#groups).

use crate::host::{Cx, Devices, Lock};
use crate::kernel::Kernel;
use crate::memcg::GroupEvent;
use crate::memcg::protection;
use crate::memcg::turns::Turn;
use crate::memcg::walk::Walk;
use crate::reclaim::Control;
use crate::units::GroupId;
use crate::zone::NodeId;

impl<H: Devices> Kernel<H> {
    /// True if passes of this reclaim take groups in turn.
    pub(in crate::reclaim) fn takes_turns(&self, sc: &Control) -> bool {
        self.is_mglru()
            && self.mglru_policy().group_turns
            && !sc.is_of_group()
            && self.mem.groups.is_on()
    }

    /// Makes a pass over the groups of the old generation, until it has enough.
    #[doc(alias = "shrink_many")]
    pub(in crate::reclaim) fn shrink_groups_in_turn(
        &self,
        cx: &Cx<'_, H>,
        node: NodeId,
        sc: &mut Control,
    ) {
        let turns = &self.memcg.turns[node.idx()];
        let first = turns.lock(cx.cpu()).draw();
        // The groups that are there now: one that goes to the end comes up in a later pass.
        let groups: alloc::vec::Vec<GroupId> = turns.lock(cx.cpu()).old_from(first).collect();
        for group in groups {
            if !turns.lock(cx.cpu()).has(group) {
                continue;
            }
            if let Some(turn) = self.shrink_in_turn(cx, node, group, sc) {
                let mut turns = turns.lock(cx.cpu());
                // It may be gone by now.
                if turns.has(group) {
                    turns.put(group, turn);
                }
            }
            if self.has_enough_of_node(node, sc) {
                break;
            }
        }
    }

    /// Shrinks a group; where it goes, if it moves.
    #[doc(alias = "shrink_one")]
    fn shrink_in_turn(
        &self,
        cx: &Cx<'_, H>,
        node: NodeId,
        group: GroupId,
        sc: &mut Control,
    ) -> Option<Turn> {
        let (policy, counters) = (&self.mem.policy.memcg, &self.mem.groups.memory);
        if protection::below_min(policy, counters, sc.target, group) {
            return Some(Turn::Young);
        }
        let was_last = self.memcg.turns[node.idx()].lock(cx.cpu()).was_last(group);
        if protection::below_low(policy, counters, sc.target, group) {
            if !was_last {
                return Some(Turn::Last);
            }
            self.memcg.event(group, GroupEvent::Low);
        }
        let vec = self.lru.id_of_group(group, node);
        sc.nr_reclaimed += self.algorithm().shrink(self, cx, (node, vec), sc);
        let has_aged = sc.mglru.has_aged_lists();
        sc.nr_reclaimed += self.shrink_slab(cx, sc.gfp, node, group, sc.priority);
        let is_online = self.memcg.is_online(group);
        if has_aged && is_online {
            return Some(Turn::Young);
        }
        if !has_aged && self.has_share((node, vec), sc) {
            return None;
        }
        // Removed, or too small for this priority: another chance.
        Some(if was_last { Turn::Young } else { Turn::Last })
    }

    /// kswapd computes the protection of all groups before a pass; direct reclaim goes by that.
    pub(in crate::reclaim) fn protect_all(&self, sc: &Control) {
        for group in Walk::full(&self.memcg.tree, sc.target) {
            let (policy, counters) = (&self.mem.policy.memcg, &self.mem.groups.memory);
            protection::calculate(policy, counters, sc.target, group);
        }
    }
}
