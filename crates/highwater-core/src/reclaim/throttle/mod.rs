//! Throttling of reclaimers (rules/throttling#series).
//!
//! A reclaimer that meets only unreclaimable pages sleeps until something changes, or for a while.
//! Without the sleep it would scan the same pages again, and take `lru_lock` and CPU time from the
//! tasks that write them. If it sleeps too long, a task that needs one page waits while memory is
//! available. Kernels differ in this choice. So the policy ([`ThrottlePolicy`]) decides which waits
//! exist, how long they last and what ends them. The calls are the same for all:
//!
//! | place | function | waits for |
//! |---|---|---|
//! | after a batch | [`Kernel::throttle_after_batch`] | congestion (4.5) |
//! | before it, many isolated | [`Kernel::throttle_isolated`] | congestion (4.5), time (5.15), ISOLATED |
//! | after a node pass | [`Kernel::throttle_after_pass`] | congestion (5.15), WRITEBACK, CONGESTED |
//! | after a direct reclaimer's node pass, or all of them | [`Kernel::consider_throttle`] | NOPROGRESS |
//! | between rounds of an allocation | `Relief::wait_for_devices` | congestion (4.5, 5.15) |
//!
//! Three ideas, one after the other:
//!
//! * *Congestion*: the disk is the bottleneck, so wait until it is no longer congested. From 5.0 on
//!   disks never set the flag, and the waits either returned at once or always slept to their end
//!   (rules/throttling#devices).
//! * *Events* (5.16): wait for what the reclaimer lacks: written pages, putback of isolated pages,
//!   or another task's progress. A timeout covers missed events.
//! * *Short* (6.1): if the event may never come, sleep one tick, and only if more than half of the
//!   reclaimable pages wait to be written. Half a second at each of ten priorities and for each
//!   node had caused stalls of minutes (rules/throttling#variants).
//!
//! # Rules of a wait
//!
//! A sleeping task holds no lock and no isolated page, so it blocks no other task. The caller does
//! not learn how its wait ended: it continues as if it had not slept, and the next pass shows the
//! new state. kswapd waits only for pages under writeback that it meets again, because all other
//! tasks wait for kswapd.
//!
//! [`congestion`] has the waits for devices, [`events`] those for other reclaimers and the end of
//! writeback, [`demand`] the accounts of tasks' memory demand.
//!
//! Synchronisation: flags of the lists and the queues' own locks. The state may have changed by the
//! time of the sleep.
//!
//! From: [`super::node_pass`], [`super::batch`], [`super::direct`], `page_cache::dirty` · to: wait
//! queues, `block::congestion`.

mod compaction;
mod congestion;
mod demand;
mod events;

pub(super) use demand::WAIT_CLASSES;
pub use demand::{DemandAccount, DemandDomain};

use super::budget::DEF_PRIORITY;
use super::{Control, PassSums};
use crate::config::{
    AfterPass as Outcome, IsolatedWait, NoProgressWait, NodePassWait, Progress, ProgressWake,
    RetryWait, ThrottlePolicy,
};
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::{LruVecId, ThrottleReason};
use crate::zone::{NodeId, Zone};

/// Reclaim is not considered stuck before this priority: gentle passes over short lists look at few
/// pages or none (rules/scan-budget#targets), and to get nothing says little then.
const STUCK_BELOW: u8 = DEF_PRIORITY - 2;

/// The action of a direct reclaimer that has reclaimed `reclaimed` pages so far and scanned
/// `scanned` at this priority (rules/throttling#progress).
///
/// The two cover different spans. A task that got pages early counts as successful until a pass
/// scans eight times all that it ever got.
const fn outcome(policy: &ThrottlePolicy, priority: u8, scanned: u64, reclaimed: u64) -> Outcome {
    let is_progress = match policy.progress_wake {
        ProgressWake::Any => reclaimed > 0,
        // One page in eight: below that the sleepers would only share the misery.
        ProgressWake::Eighth => reclaimed > scanned >> 3,
    };
    let is_stuck = match policy.no_progress {
        NoProgressWait::Never => return Outcome::GoOn,
        NoProgressWait::EveryPass => priority < STUCK_BELOW,
        // At priority 1, so that one more pass, over everything, follows the sleep.
        NoProgressWait::LastResort => priority == 1 && reclaimed == 0,
    };
    match (is_progress, is_stuck) {
        (true, _) => Outcome::Wake,
        (false, true) => Outcome::Wait,
        (false, false) => Outcome::GoOn,
    }
}

impl<H: Devices> Kernel<H> {
    /// How this kernel slows reclaimers down.
    pub(super) fn throttle_policy(&self) -> &ThrottlePolicy {
        &self.mem.policy.reclaim.throttle
    }

    /// Evaluates a batch of the lists `vec`, on kernels that throttle by batch (4.5). Any reclaimer
    /// does so there, and 32 pages are enough (rules/throttling#batch-congestion): a batch whose
    /// few dirty pages were all met before makes the whole zone congested.
    pub(super) fn throttle_after_batch(
        &self,
        cx: &Cx<'_, H>,
        vec: LruVecId,
        sc: &Control,
        batch: &PassSums,
    ) {
        let policy = self.throttle_policy();
        if policy.node_pass != NodePassWait::BatchCongestion {
            return;
        }
        let lists = self.reclaim.vec(vec);
        if batch.writeback != 0 && batch.writeback == batch.taken {
            lists.full_of_writeback.store(true, Relaxed);
        }
        if batch.dirty != 0 && batch.dirty == batch.congested {
            lists.congested.store(true, Relaxed);
        }
        if batch.unqueued_dirty == batch.taken {
            lists.full_of_dirty.store(true, Relaxed);
        }
        let timeout = policy.node_pass_jiffies.into();
        if batch.immediate != 0 {
            self.congestion_wait(cx, timeout);
        }
        if !sc.is_kswapd {
            self.wait_iff_congested(cx, timeout, Some(vec));
        }
    }

    /// Evaluates a pass over a node (rules/node-pass#node-flags). kswapd sets the flags about the
    /// tail; direct reclaimers act on them.
    pub(super) fn throttle_after_pass(&self, cx: &Cx<'_, H>, node: NodeId, sc: &Control) {
        let policy = self.throttle_policy();
        if policy.node_pass == NodePassWait::BatchCongestion {
            return;
        }
        let timeout = policy.node_pass_jiffies.into();
        if !sc.is_kswapd {
            let is_stuck = sc.sums.dirty != 0 && sc.sums.dirty == sc.sums.congested;
            if sc.is_of_group() && is_stuck && !self.is_reclaim_of_v1(sc) {
                // kswapd does not look after a group's lists: its own reclaimers do.
                let vec = self.lru.id_of_target(sc.target, node);
                self.reclaim.vec(vec).congested.store(true, Relaxed);
            }
            if !self.is_congested(node, sc) {
                return;
            }
            match policy.node_pass {
                NodePassWait::BatchCongestion => {}
                NodePassWait::Congestion => self.wait_iff_congested(cx, timeout, None),
                NodePassWait::Writeback => {
                    self.reclaim_throttle(cx, node, ThrottleReason::Writeback);
                }
                NodePassWait::Congested => {
                    self.reclaim_throttle(cx, node, ThrottleReason::Congested);
                }
            }
            return;
        }
        let sums = &sc.sums;
        let vecs = || self.lru.ids_of_node(node, sc.reclaim_idx).map(|vec| self.reclaim.vec(vec));
        if sums.writeback != 0 && sums.writeback == sums.taken {
            vecs().for_each(|lists| lists.full_of_writeback.store(true, Relaxed));
        }
        // Also if both are 0: a pass over anonymous pages only lets kswapd write file pages.
        if sums.unqueued_dirty == sums.file_taken {
            vecs().for_each(|lists| lists.full_of_dirty.store(true, Relaxed));
        }
        // Before the lists count as congested: direct reclaimers see the result of this pass only
        // after kswapd's wait.
        if sums.immediate != 0 {
            match policy.node_pass {
                NodePassWait::BatchCongestion => {}
                NodePassWait::Congestion => self.congestion_wait(cx, timeout),
                NodePassWait::Writeback | NodePassWait::Congested => {
                    self.reclaim_throttle(cx, node, ThrottleReason::Writeback);
                }
            }
        }
        if sums.dirty != 0 && sums.dirty == sums.congested {
            vecs().for_each(|lists| lists.congested.store(true, Relaxed));
        }
    }

    /// The lists that a direct reclaimer wants memory from are congested.
    fn is_congested(&self, node: NodeId, sc: &Control) -> bool {
        if sc.is_of_group() {
            let vec = self.lru.id_of_target(sc.target, node);
            return self.reclaim.vec(vec).congested.load(Relaxed);
        }
        let mut vecs = self.lru.ids_of_node(node, sc.reclaim_idx);
        vecs.any(|vec| self.reclaim.vec(vec).congested.load(Relaxed))
    }

    /// A direct reclaimer found too many pages isolated; true if it should look again, false if it
    /// should do without this batch. `has_waited`: this is not the first time.
    pub(super) fn throttle_isolated(&self, cx: &Cx<'_, H>, node: NodeId, has_waited: bool) -> bool {
        let policy = self.throttle_policy();
        let timeout = policy.isolated_jiffies.into();
        match policy.isolated {
            // Again and again, until few are isolated or the task is killed.
            IsolatedWait::Congestion => self.congestion_wait(cx, timeout),
            IsolatedWait::Sleep | IsolatedWait::Event if has_waited => return false,
            IsolatedWait::Sleep => {
                self.reclaim.node(node).isolated_sleeps.fetch_add(1, Relaxed);
                self.isolated_sleep(cx, timeout);
            }
            IsolatedWait::Event => self.reclaim_throttle(cx, node, ThrottleReason::Isolated),
        }
        true
    }

    /// Throttles a direct reclaimer that made no progress on a node, or wakes the others if it made
    /// some. kswapd never comes here.
    ///
    /// Linux 5.16 on.
    #[doc(alias = "consider_reclaim_throttle")]
    fn consider_throttle(&self, cx: &Cx<'_, H>, node: NodeId, sc: &mut Control) {
        let (priority, scanned, reclaimed) = (sc.priority, sc.nr_scanned, sc.nr_reclaimed);
        let usual = outcome(self.throttle_policy(), priority, scanned, reclaimed);
        let outcome = match &self.own {
            None => usual,
            Some(own) => own.after_pass(&Progress { priority, scanned, reclaimed }, usual),
        };
        match outcome {
            // Only new pages, because the sum continues and would wake tasks for the same pages at
            // each priority.
            Outcome::Wake => {
                let news = sc.nr_reclaimed - sc.nr_announced;
                sc.nr_announced = sc.nr_reclaimed;
                self.wake_for_progress(cx, node, news);
            }
            // Other tasks' progress on the machine is no reason for a group to have more memory.
            Outcome::Wait if sc.is_of_group() => {}
            Outcome::Wait => self.reclaim_throttle(cx, node, ThrottleReason::NoProgress),
            Outcome::GoOn => {}
        }
    }

    /// A direct reclaimer passed over one node. To wait here, for each of them, adds up over the
    /// nodes.
    pub(super) fn consider_after_node(&self, cx: &Cx<'_, H>, node: NodeId, sc: &mut Control) {
        if self.throttle_policy().no_progress == NoProgressWait::EveryPass {
            self.consider_throttle(cx, node, sc);
        }
    }

    /// A direct reclaimer passed over all nodes of its zonelist. `first` stands for all of them,
    /// because it is the node that the task prefers.
    pub(super) fn consider_after_nodes(&self, cx: &Cx<'_, H>, first: NodeId, sc: &mut Control) {
        if self.throttle_policy().no_progress == NoProgressWait::LastResort {
            self.consider_throttle(cx, first, sc);
        }
    }

    /// Between two rounds of an allocation (rules/throttling#retry-wait): waits for devices, if the
    /// policy has allocations do so, and, where `zone` is given, if that is congested. Otherwise
    /// others may run.
    pub(crate) fn retry_wait(&self, cx: &Cx<'_, H>, jiffies: u64, zone: Option<&Zone<H>>) {
        match (self.throttle_policy().retry_wait, zone) {
            (RetryWait::WritePending, None) => self.congestion_wait(cx, jiffies),
            (RetryWait::Congested, Some(zone)) => {
                let vec = self.lru.id_of_zone(zone.id());
                self.wait_iff_congested(cx, jiffies, Some(vec));
            }
            _ => cx.host.yield_now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::preset;

    fn of(name: &str) -> ThrottlePolicy {
        preset(name).unwrap().reclaim.throttle
    }

    #[test]
    fn who_does_well_wakes_who_does_not_waits() {
        let series = &of("series-8");
        assert_eq!(outcome(series, 12, 800, 100), Outcome::GoOn);
        assert_eq!(outcome(series, 12, 800, 101), Outcome::Wake);
        assert_eq!(outcome(series, 10, 800, 100), Outcome::GoOn, "below 10");
        assert_eq!(outcome(series, 9, 800, 100), Outcome::Wait, "some progress is not enough");
        let first = &of("series-3");
        assert_eq!(outcome(first, 9, 800, 1), Outcome::Wake, "before commit 8 it is");
        assert_eq!(outcome(first, 9, 800, 0), Outcome::Wait);
        let later = &of("6.1");
        assert_eq!(outcome(later, 9, 800, 100), Outcome::GoOn);
        assert_eq!(outcome(later, 1, 800, 0), Outcome::Wait);
        assert_eq!(outcome(later, 1, 800, 1), Outcome::GoOn);
        assert_eq!(outcome(later, 0, 800, 0), Outcome::GoOn);
        assert_eq!(outcome(&of("congestion-wait-5.15"), 1, 800, 0), Outcome::GoOn);
    }
}
