//! What compaction asks of reclaim (rules/compaction#too-many-isolated).

use crate::compaction::Pressure;
use crate::config::IsolatedLimit;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page_alloc::Gfp;
use crate::units::{NodeId, ThrottleReason};
use crate::vmstat::NodeStat;

impl<H: Devices> Pressure<H> for Kernel<H> {
    /// Reports whether more than half of the pages on a node's lists are isolated (from 6.4 on for
    /// runs with FS: a sixteenth); if not, wakes the tasks that wait for that.
    ///
    /// Linux: the one of mm/compaction.c; reclaim has its own.
    #[doc(alias = "too_many_isolated")]
    fn too_many_isolated_to_compact(&self, cx: &Cx<'_, H>, node: NodeId, gfp: Gfp) -> bool {
        let stats = &self.mem.node(node).stats;
        let sum = |items: &[NodeStat]| -> u64 {
            items.iter().map(|&item| stats.read(item as usize)).sum()
        };
        let mut inactive = sum(&[NodeStat::InactiveFile, NodeStat::InactiveAnon]);
        let mut active = sum(&[NodeStat::ActiveFile, NodeStat::ActiveAnon]);
        let isolated = sum(&[NodeStat::IsolatedFile, NodeStat::IsolatedAnon]);
        let limit = self.mem.policy.compaction.isolated_limit;
        if limit == IsolatedLimit::EighthWithFs && gfp.contains(Gfp::FS) {
            (inactive, active) = (inactive / 8, active / 8);
        }
        let is_much = isolated > (inactive + active) / 2;
        if !is_much {
            self.wake_throttled(cx, node, ThrottleReason::Isolated);
        }
        is_much
    }

    fn wait_for_isolated(&self, cx: &Cx<'_, H>, node: NodeId) {
        self.throttle_isolated(cx, node, false);
    }

    fn kswapd_is_running(&self, node: NodeId) -> bool {
        !self.reclaim.node(node).kswapd_wait.has_waiters()
    }
}
