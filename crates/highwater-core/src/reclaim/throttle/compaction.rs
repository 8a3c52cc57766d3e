//! What compaction asks of reclaim (rules/compaction#too-many-isolated).

use crate::compaction::Pressure;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::units::{NodeId, ThrottleReason};
use crate::vmstat::NodeStat;

impl<H: Devices> Pressure<H> for Kernel<H> {
    /// Reports whether more than half of the pages on a node's lists are isolated; if not, wakes
    /// the tasks that wait for that.
    ///
    /// Linux: the one of mm/compaction.c; reclaim has its own.
    #[doc(alias = "too_many_isolated")]
    fn too_many_isolated_to_compact(&self, cx: &Cx<'_, H>, node: NodeId) -> bool {
        let stats = &self.mem.node(node).stats;
        let sum = |items: &[NodeStat]| -> u64 {
            items.iter().map(|&item| stats.read(item as usize)).sum()
        };
        let listed = sum(&[
            NodeStat::InactiveFile,
            NodeStat::InactiveAnon,
            NodeStat::ActiveFile,
            NodeStat::ActiveAnon,
        ]);
        let isolated = sum(&[NodeStat::IsolatedFile, NodeStat::IsolatedAnon]);
        let is_much = isolated > listed / 2;
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
