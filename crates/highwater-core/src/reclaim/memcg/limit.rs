//! Reclaim of one group and those below it (rules/memory-cgroups#reclaim).
//!
//! It is direct reclaim with another aim, and without what concerns the machine: no gate, no sleep
//! for want of progress, no compaction, and the task's own nodes do not matter. A pass over a
//! group stops once it has its pages, also at the gentlest priority.

use crate::host::{Cx, Devices, Phase, TaskFlags};
use crate::kernel::Kernel;
use crate::page_alloc::Gfp;
use crate::reclaim::Control;
use crate::reclaim::budget::DEF_PRIORITY;
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::{GroupId, NodeId, SWAP_CLUSTER_MAX};
use crate::zone::ZoneType;

impl Control {
    /// For a group and those below it.
    fn of_group(group: GroupId, pages: u64, gfp: Gfp) -> Control {
        let wanted = pages.max(SWAP_CLUSTER_MAX);
        Control { target: group, ..Control::new(wanted, 0, gfp, ZoneType::Device) }
    }
}

impl<H: Devices> Kernel<H> {
    /// Frees `pages` pages, or a batch, of a group and those below it; the pages freed. `why` is
    /// the phase that its time is booked to.
    #[doc(alias = "try_to_free_mem_cgroup_pages")]
    pub(super) fn reclaim_group(
        &self,
        cx: &Cx<'_, H>,
        (why, group): (Phase, GroupId),
        pages: u64,
        gfp: Gfp,
    ) -> u64 {
        self.run_for_group(cx, why, Control::of_group(group, pages, gfp))
    }

    /// The same, but nothing is swapped out: the limit is one of memory and swap together.
    pub(super) fn reclaim_group_without_swap(
        &self,
        cx: &Cx<'_, H>,
        (why, group): (Phase, GroupId),
        pages: u64,
        gfp: Gfp,
    ) -> u64 {
        let sc = Control { may_swap: false, ..Control::of_group(group, pages, gfp) };
        self.run_for_group(cx, why, sc)
    }

    /// The same, because a program asked for it.
    pub(super) fn reclaim_group_proactively(
        &self,
        cx: &Cx<'_, H>,
        group: GroupId,
        pages: u64,
    ) -> u64 {
        let of_group = Control::of_group(group, pages, Gfp::GFP_KERNEL);
        let sc = Control { is_proactive: true, ..of_group };
        self.run_for_group(cx, Phase::GroupReclaim, sc)
    }

    fn run_for_group(&self, cx: &Cx<'_, H>, why: Phase, mut sc: Control) -> u64 {
        let _phase = cx.group_phase(why, sc.target);
        cx.with_flag(TaskFlags::MEMALLOC, || self.group_attempts(cx, &mut sc))
    }

    /// Lowers the priority pass by pass until enough is reclaimed. Further attempts take what the
    /// first one spared.
    ///
    /// For the machine it is `reclaim_attempts`.
    fn group_attempts(&self, cx: &Cx<'_, H>, sc: &mut Control) -> u64 {
        let local = self.mem.cpu_node(cx.cpu());
        loop {
            for priority in (0..=DEF_PRIORITY).rev() {
                sc.priority = priority;
                sc.nr_scanned = 0;
                self.shrink_nodes_from(cx, local, sc);
                if sc.nr_reclaimed >= sc.nr_to_reclaim {
                    break;
                }
            }
            for node in self.mem.nodes() {
                let vec = self.lru.id_of_target(sc.target, node.id);
                self.algorithm().run_done(self, vec);
                self.reclaim.vec(vec).congested.store(false, Relaxed);
            }
            if sc.nr_reclaimed != 0 || !self.has_another_attempt(sc) {
                return sc.nr_reclaimed;
            }
        }
    }

    /// One pass over each node, the task's own first.
    fn shrink_nodes_from(&self, cx: &Cx<'_, H>, local: NodeId, sc: &mut Control) {
        let list = self.mem.zonelists(local);
        let mut last = None;
        for entry in list.fallback.entries() {
            if last != Some(entry.node) {
                last = Some(entry.node);
                self.shrink_node(cx, entry.node, sc);
                self.consider_after_node(cx, entry.node, sc);
            }
        }
        self.consider_after_nodes(cx, local, sc);
    }
}
