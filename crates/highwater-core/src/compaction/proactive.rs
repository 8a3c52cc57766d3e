//! Proactive compaction, without a request (rules/compaction#proactive).
//!
//! The fragmentation of each node's free memory is checked twice a second. Above a threshold the
//! node is compacted until it is below another one, ten percent lower. If that does not help, the
//! node is left alone for a while.

use super::Pressure;
use super::finish::zone_score;
use super::run::Goal;
use crate::host::{Cx, Devices, HZ};
use crate::kernel::Kernel;
use crate::migrate::Mode;
use crate::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::units::{NodeId, ZoneType};

/// Ticks between two looks.
const INTERVAL: u64 = HZ / 2;
/// After a run that did not help, the wait is 2^this times as long.
const DEFER_SHIFT: u32 = 6;

/// Marks for a proactiveness in percent: the score to get down to, and the one to begin at.
const fn marks(proactiveness: u64) -> (u64, u64) {
    let low = 100 - proactiveness;
    let low = if low < 5 { 5 } else { low };
    let high = low + 10;
    (low, if high > 100 { 100 } else { high })
}

/// A node's score from its zones' present pages and scores: each counts by its share.
fn node_score(present: u64, zones: impl Iterator<Item = (u64, u64)>) -> u64 {
    zones.map(|(pages, score)| pages * score / (present + 1)).sum()
}

impl<H: Devices> Kernel<H> {
    /// `vm.compaction_proactiveness` in force.
    pub fn compaction_proactiveness(&self) -> u64 {
        self.mem.tunables.compaction_proactiveness.get()
    }

    /// Sets `vm.compaction_proactiveness`, percent; every node looks at once whether there is something to do.
    #[doc(alias = "compaction_proactiveness_sysctl_handler")]
    pub fn set_compaction_proactiveness(&self, cx: &Cx<'_, H>, percent: u64) {
        self.mem.tunables.compaction_proactiveness.set(&percent.min(100));
        if percent == 0 || !self.has_kcompactd() {
            return;
        }
        for node in self.mem.nodes() {
            let state = self.compaction.node(node.id);
            state.deaf_until.store(0, Relaxed);
            state.is_prompted.store(true, SeqCst);
            state.wait.wake_all(cx.host, cx.cpu());
        }
    }

    /// A zone's last free pageblock was split (rules/compaction#prompted): its daemon looks at once, or if it did so a
    /// moment ago or in vain, when that time is over.
    pub(crate) fn prompt_kcompactd(&self, cx: &Cx<'_, H>, node: NodeId) {
        if !self.is_proactive() || !self.has_kcompactd() {
            return;
        }
        let state = self.compaction.node(node);
        if !state.is_prompted.swap(true, SeqCst) {
            state.wait.wake_all(cx.host, cx.cpu());
        }
    }

    /// Ticks for which a daemon that is prompted does not look.
    pub(super) fn deaf_for(&self, cx: &Cx<'_, H>, node: NodeId) -> u64 {
        match self.mem.policy.compaction.prompted {
            true => {
                let until = self.compaction.node(node).deaf_until.load(Relaxed);
                until.saturating_sub(cx.host.jiffies())
            }
            false => 0,
        }
    }

    /// The daemon served a request: shortens its current wait, so that it checks again soon.
    pub(super) fn listen_soon(&self, cx: &Cx<'_, H>, node: NodeId) {
        let soon = cx.host.jiffies() + INTERVAL;
        self.compaction.node(node).deaf_until.fetch_min(soon, Relaxed);
    }

    /// Does the daemon look unasked from time to time? Not if it is prompted when there is something to see.
    pub(super) fn polls(&self) -> bool {
        self.is_proactive() && !self.mem.policy.compaction.prompted
    }

    /// It was prompted while kswapd works: it looks when that is done, which is to be expected soon.
    pub(super) fn waits_for_kswapd(&self, node: NodeId, was_prompted: bool) -> bool {
        self.mem.policy.compaction.prompted && was_prompted && self.kswapd_is_running(node)
    }

    pub(super) fn is_proactive(&self) -> bool {
        self.mem.policy.compaction.proactive && self.compaction_proactiveness() != 0
    }

    pub(super) const fn proactive_interval(&self) -> u64 {
        INTERVAL
    }

    /// Returns the fragmentation scores at which a proactive run ends and begins.
    ///
    /// Linux 5.9 on.
    #[doc(alias = "fragmentation_score_wmark")]
    pub(super) fn proactive_marks(&self) -> (u64, u64) {
        marks(self.compaction_proactiveness())
    }

    /// Computes a node's fragmentation score from those of its zones.
    ///
    /// Linux 5.9 on.
    #[doc(alias = "fragmentation_score_node")]
    fn node_fragmentation(&self, node: NodeId) -> u64 {
        let zones = || self.mem.zones_of(node);
        let present = zones().map(|zone| zone.present).sum();
        node_score(present, zones().map(|zone| (zone.present, zone_score(zone))))
    }

    /// One look, and a run if it is worth it; ticks until the next one, for which prompts wait.
    pub(super) fn compact_proactively(&self, cx: &Cx<'_, H>, node: NodeId) -> u64 {
        let ticks = self.look_unasked(cx, node);
        let until = cx.host.jiffies() + ticks;
        self.compaction.node(node).deaf_until.store(until, Relaxed);
        ticks
    }

    /// Compacts a node's zones if its fragmentation score is above the high mark and kswapd sleeps;
    /// returns the ticks until the next look.
    ///
    /// Linux 5.9 on.
    #[doc(alias = "should_proactive_compact_node")]
    #[doc(alias = "proactive_compact_node")]
    fn look_unasked(&self, cx: &Cx<'_, H>, node: NodeId) -> u64 {
        let before = self.node_fragmentation(node);
        if !self.is_proactive()
            || self.kswapd_is_running(node)
            || before <= self.proactive_marks().1
        {
            return INTERVAL;
        }
        for zone in self.mem.zones_of(node) {
            let mut goal = Goal {
                proactive: true,
                ignore_skip: true,
                whole_zone: true,
                ..Goal::new(None, Mode::SyncLight, ZoneType::Device)
            };
            // Its scanning is not counted as the daemon's (captured 6.1: proactive-100-1g).
            self.compact_zone(cx, zone, &mut goal);
        }
        match self.node_fragmentation(node) < before {
            true => INTERVAL,
            false => INTERVAL << DEFER_SHIFT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_and_marks() {
        let zones = [(786_432, 95), (262_144, 60)];
        assert_eq!(node_score(1_048_576, zones.into_iter()), 85);
        assert_eq!(
            [20, 30, 95, 96, 100].map(marks),
            [(80, 90), (70, 80), (5, 15), (5, 15), (5, 15)]
        );
        assert!(85 <= marks(20).1 && 85 > marks(30).1);
    }
}
