//! Compaction because an administrator says so (rules/compaction#manual).

use super::run::Goal;
use crate::config::FlushRule;
use crate::host::{Cost, Cx, Devices, Probe};
use crate::kernel::Kernel;
use crate::migrate::Mode;
use crate::units::{NodeId, ZoneType};

impl<H: Devices> Kernel<H> {
    /// Compacts all zones of all nodes (`vm.compact_memory`).
    #[doc(alias = "compact_nodes")]
    #[doc(alias = "sysctl_compaction_handler")]
    pub fn compact_memory(&self, cx: &Cx<'_, H>) {
        cx.charge(Cost::Syscall, 1);
        self.lru_add_drain_all(cx);
        for node in self.mem.nodes() {
            self.compact_all_of(cx, node.id);
        }
    }

    /// Compacts the zones of one node (its `compact` file).
    ///
    /// Linux: same name.
    pub fn compact_node(&self, cx: &Cx<'_, H>, node: NodeId) {
        cx.charge(Cost::Syscall, 1);
        self.lru_add_drain_all(cx);
        self.compact_all_of(cx, node);
    }

    fn compact_all_of(&self, cx: &Cx<'_, H>, node: NodeId) {
        if !self.compacts() {
            return;
        }
        // Either the zone's record is cleared first, or the run ignores it.
        let flushes = self.mem.policy.compaction.flush == FlushRule::All;
        for zone in self.mem.zones_of(node) {
            if flushes {
                self.flush_skip_bits(cx, zone);
            }
            let mut goal = Goal {
                ignore_skip: !flushes,
                whole_zone: !flushes,
                ..Goal::new(None, Mode::Sync, ZoneType::Device)
            };
            self.compact_zone(cx, zone, &mut goal);
        }
    }
}
