//! Soft limits of version 1: global reclaim takes from the groups above theirs first
//! (rules/memory-cgroups#v1-soft-limit).
//!
//! A soft limit never refuses a charge. It counts when the machine is short of memory: before a
//! pass over a node for a single page, the group with the largest excess gives back a quarter of
//! it. It gives at priority 0, so its lists are scanned in full as far as that needs.
//!
//! From: [`super::super::direct`], `kswapd` · to: the reclaim algorithm.

use alloc::vec::Vec;

use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::memcg::walk::Walk;
use crate::reclaim::Control;
use crate::units::{GroupId, NodeId, SWAP_CLUSTER_MAX};
use crate::zone::ZoneType;

/// True if a group has given enough: a quarter of the excess that it had, or all that it has now.
const fn is_enough(excess_at_first: u64, excess: u64, got: u64) -> bool {
    excess == 0 || got >= excess_at_first / 4
}

impl<H: Devices> Kernel<H> {
    /// Reclaims from the group that is furthest above its soft limit, before a pass over a node. A
    /// group that gives nothing leaves it to the next one. Freed pages count for the pass.
    ///
    /// Linux: a tree for each node keeps the groups in the order of their excess, as it was at one
    /// of their last charges. Here the excess is that of this moment.
    #[doc(alias = "mem_cgroup_soft_limit_reclaim")]
    #[doc(alias = "memcg1_soft_limit_reclaim")]
    #[inline]
    pub(in crate::reclaim) fn soft_limit_reclaim(
        &self,
        cx: &Cx<'_, H>,
        node: NodeId,
        sc: &mut Control,
    ) {
        if self.mem.groups.is_on() && self.mem.groups.is_v1() {
            self.soft_limit_pass(cx, node, sc);
        }
    }

    #[cold]
    fn soft_limit_pass(&self, cx: &Cx<'_, H>, node: NodeId, sc: &mut Control) {
        if !self.mem.policy.memcg.soft_limit || sc.order != 0 || sc.is_of_group() {
            return;
        }
        for (_, group) in self.groups_by_excess() {
            let got = self.shrink_excess(cx, (node, group), sc);
            sc.nr_reclaimed += got;
            if got != 0 {
                return;
            }
        }
    }

    /// The groups above their soft limits, the one with the largest excess first.
    fn groups_by_excess(&self) -> Vec<(u64, GroupId)> {
        let online = self.memcg.all().filter(|&g| !g.is_root() && self.memcg.is_online(g));
        let excess = online.map(|group| (self.soft_limit_excess(group), group));
        let mut above: Vec<_> = excess.filter(|&(excess, _)| excess != 0).collect();
        // Of equals the older group first.
        above.sort_by_key(|&(excess, group)| (core::cmp::Reverse(excess), group));
        above
    }

    /// Reclaims from a group and those below it on a node, in turns of a batch each; the pages
    /// freed.
    #[doc(alias = "mem_cgroup_soft_reclaim")]
    fn shrink_excess(
        &self,
        cx: &Cx<'_, H>,
        (node, group): (NodeId, GroupId),
        sc: &mut Control,
    ) -> u64 {
        let at_first = self.soft_limit_excess(group);
        let mut got = 0;
        loop {
            let before = got;
            for member in Walk::full(&self.memcg.tree, group) {
                got += self.shrink_for_soft_limit(cx, (node, member), sc);
                if self.soft_limit_excess(group) == 0 {
                    return got;
                }
            }
            if got == before || is_enough(at_first, self.soft_limit_excess(group), got) {
                return got;
            }
        }
    }

    /// One scan of a group's lists at priority 0, for a batch. Slab stays.
    #[doc(alias = "mem_cgroup_shrink_node")]
    fn shrink_for_soft_limit(
        &self,
        cx: &Cx<'_, H>,
        (node, group): (NodeId, GroupId),
        sc: &mut Control,
    ) -> u64 {
        let mut own = Control {
            target: group,
            priority: 0,
            is_kswapd: sc.is_kswapd,
            ..Control::new(SWAP_CLUSTER_MAX, 0, sc.gfp, ZoneType::Device)
        };
        let vec = self.lru.id_of_group(group, node);
        let got = self.algorithm().shrink(self, cx, (node, vec), &mut own);
        sc.nr_scanned += own.nr_scanned;
        got
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_excess_is_enough() {
        assert!(!is_enough(400, 301, 99) && is_enough(400, 300, 100));
        assert!(is_enough(400, 0, 10), "the group fits by now");
        // A quarter of 3 pages is none: one round is enough.
        assert!(is_enough(3, 3, 0));
    }
}
