//! kswapd: the task of a node that reclaims in the background.
//!
//! An allocation that finds little memory wakes it and continues; ideally no task ever reclaims for
//! itself. So kswapd must start early enough, work hard enough, and stop: freeing more than needed
//! evicts useful cache. A [`Kswapd`] decides when kswapd is woken, its target, when it stops and
//! what else it does. The calls are the same for all of them:
//!
//! | place | function | in 6.1 ([`node61`]; 4.5 and 4.6: [`zones45`]) |
//! |---|---|---|
//! | an allocation below the low watermark, [`Kernel::wakeup_kswapd`] | [`Kswapd::note`]: updates the pending request | highest zone and order only rise |
//! | the same, kswapd sleeps | [`Kswapd::wants_wake`]: whether to wake it | unless hopeless, or balanced and not boosted |
//! | the task, [`Kernel::run_kswapd`] | [`Kswapd::live`]: sleep, fetch the request, run, again | balance, nap, sleep if still balanced |
//!
//! Within `live` the models differ (rules/kswapd#main-loop, rules/kswapd#inline45,
//! rules/kswapd#kcompactd46):
//!
//! | rule | 4.5 | 4.6 | 6.1 |
//! |---|---|---|---|
//! | balanced means | every zone for order 0, a quarter of the node for others, and compaction has room | order 0 with a block to spare | any zone for the order |
//! | a run does | zone by zone; gives up the order; compacts | zone by zone | nodes; gives up the order after `compact_gap` |
//! | compaction by | kswapd, between priorities | kcompactd, woken before the sleep | kcompactd, woken before the nap |
//! | it sleeps | balanced twice, and no larger request came | the same | balanced twice |
//!
//! # Contract of a model
//!
//! The caller guarantees that one task per node runs `live`, on the node's CPUs, with access to the
//! reserves and marked as kswapd. It calls `note` before `wants_wake`, and does not clear the
//! pending request ([`ReclaimNode`]'s `kswapd_order`, `kswapd_highest`). Allocating tasks call both
//! without a lock, and must not wait.
//!
//! A model must
//! * sleep on `kswapd_wait` only, with the counters' normal thresholds, and use the pressure
//!   thresholds while awake: it compares free pages with marks, and counters that lag by a batch
//!   per CPU would mislead it;
//! * wake the tasks at the gate (`pfmemalloc_wait`) before it sleeps, because nothing else would;
//! * count a run without a page as a failure, and give up after [`MAX_FAILURES`] of them, so that
//!   allocations turn to the OOM killer (models before 4.12 do not give up: they count only for the
//!   gate);
//! * reclaim through [`Kernel::shrink_node`] or [`Kernel::shrink_zone`], and call the algorithm's
//!   `age` before each step, so that the pages it meets were checked a while ago;
//! * return soon once the kernel shuts down, and from a run once its request is met.
//!
//! Another kernel's kswapd needs a file here that implements [`Kswapd`] and an arm of
//! [`Kernel::kswapd`]; no code outside this folder names one.
//! [`KswapdPolicy`](crate::config::KswapdPolicy) selects the model and its options.
//!
//! Synchronisation: the pending request (in [`ReclaimNode`]) and the failures (in
//! [`Node`](crate::zone::Node)) are relaxed atomics. The next failing allocation repeats a missed
//! wake-up.
//!
//! From: `page_alloc::slow` (wake), the host (body) · to: [`super::node_pass`], [`super::algorithm`],
//! `compaction`.
//!
//! [`MAX_FAILURES`]: crate::zone::MAX_FAILURES
//! [`ReclaimNode`]: super::ReclaimNode

mod balance;
mod node61;
mod sleep;
#[cfg(test)]
mod tests;
mod zone_balance;
mod zones45;

pub(super) use zone_balance::balance_gap;

use super::ReclaimNode;
use crate::config::KswapdGoal;
use crate::host::{Cx, Devices, Probe};
use crate::kernel::Kernel;
use crate::page_alloc::Gfp;
use crate::trace::Event;
use crate::zone::{NodeId, ZoneType};

/// A request that wakes kswapd.
#[derive(Clone, Copy, Debug)]
struct Wake {
    node: NodeId,
    gfp: Gfp,
    order: u8,
    /// Highest zone that the request may use.
    highest: ZoneType,
}

/// A kernel's kswapd: the functions of the table above.
trait Kswapd<H: Devices> {
    /// Adds a request to the pending one.
    fn note(&self, state: &ReclaimNode<H>, wake: Wake);

    /// Whether to wake a sleeping kswapd for a request. If not, this does what the request may need
    /// instead.
    fn wants_wake(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, wake: Wake) -> bool;

    /// The task's life; returns when the kernel shuts down.
    fn live(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, node: NodeId);
}

impl<H: Devices> Kernel<H> {
    /// The kswapd of this kernel.
    fn kswapd(&self) -> &dyn Kswapd<H> {
        match self.mem.policy.reclaim.kswapd.goal {
            KswapdGoal::Block | KswapdGoal::Room => &zones45::Zones45,
            KswapdGoal::AnyZone => &node61::Node61,
        }
    }

    /// Runs a node's kswapd; returns when the kernel shuts down. The task runs on the node's CPUs.
    #[doc(alias = "kswapd")]
    pub(crate) fn run_kswapd(&self, cx: &Cx<'_, H>, node: NodeId) {
        self.kswapd().live(self, cx, node);
    }

    /// Wakes a node's kswapd for a request (rules/kswapd#wake).
    ///
    /// Linux: same name.
    pub(crate) fn wakeup_kswapd(
        &self,
        cx: &Cx<'_, H>,
        node: NodeId,
        gfp: Gfp,
        order: u8,
        highest: ZoneType,
    ) {
        let is_forbidden =
            self.mem.tunables.cpusets.get() && !self.mem.cpuset_allows(cx, node, gfp);
        if is_forbidden || !self.mem.zones_of(node).any(|zone| zone.managed() != 0) {
            return;
        }
        let state = self.reclaim.node(node);
        let wake = Wake { node, gfp, order, highest };
        self.kswapd().note(state, wake);
        // It is awake: it fetches the request before it sleeps.
        if !state.kswapd_wait.has_waiters() || !self.kswapd().wants_wake(self, cx, wake) {
            return;
        }
        cx.event(Event::WakeupKswapd { nid: node, zid: highest, order, gfp });
        state.kswapd_wait.wake_all(cx.host, cx.cpu());
    }
}
