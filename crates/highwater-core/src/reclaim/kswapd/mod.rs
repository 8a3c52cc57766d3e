//! kswapd: the task of a node that reclaims in the background.
//!
//! An allocation that finds little memory wakes it and goes on; if all is well, nobody ever has to
//! reclaim for himself. So a kswapd has to start early enough, work hard enough, and stop: memory that
//! it frees beyond need is cache thrown away. When it is woken, what it aims at, when it is content and
//! what it does besides reclaiming is the business of a [`Kswapd`]; the places that ask are the same for
//! all of them:
//!
//! | place | asks | 6.1 ([`node61`]; 4.5 and 4.6: [`zones45`]) answers |
//! |---|---|---|
//! | an allocation below the low watermark, [`Kernel::wakeup_kswapd`] | [`Kswapd::note`]: what becomes of the pending request | highest zone and order only rise |
//! | the same, kswapd sleeps | [`Kswapd::wants_wake`]: is there anything to do | unless hopeless, or balanced and not boosted |
//! | the task, [`Kernel::run_kswapd`] | [`Kswapd::live`]: sleep, fetch the request, run, again | balance, nap, sleep if still balanced |
//!
//! Within `live` each model has its own answers to these (rules/kswapd#main-loop,
//! rules/kswapd#inline45, rules/kswapd#kcompactd46):
//!
//! | question | 4.5 | 4.6 | 6.1 |
//! |---|---|---|---|
//! | balanced means | every zone for order 0, a quarter of the node for others, and compaction has room | order 0 with a block to spare | any zone for the order |
//! | a run does | zone by zone; gives up the order; compacts | zone by zone | nodes; gives up the order after `compact_gap` |
//! | who compacts | kswapd, between priorities | kcompactd, woken before the sleep | kcompactd, woken before the nap |
//! | it sleeps | balanced twice, and no larger request came | the same | balanced twice |
//!
//! # Contract of a model
//!
//! The caller guarantees that one task a node lives by it, on the node's CPUs, allowed to use the
//! reserves and marked as kswapd; that `note` comes before `wants_wake`; that nobody else clears the
//! pending request ([`ReclaimNode`]'s `kswapd_order`, `kswapd_highest`). Both come from tasks that
//! allocate, under no lock, and must not wait.
//!
//! A model must
//! * sleep on `kswapd_wait` only, with the normal thresholds of the counters, and be awake with those
//!   for pressure: it compares free pages with marks, and counters that lag by a batch per CPU would
//!   deceive it;
//! * wake those who wait at the gate (`pfmemalloc_wait`) before it sleeps: nobody else would;
//! * count a run without a page as a failure, and stop being of use after [`MAX_FAILURES`] of them
//!   (models before 4.12 do not: they count for the gate alone), so that allocations turn to the OOM killer;
//! * reclaim through [`Kernel::shrink_node`] or [`Kernel::shrink_zone`], and have the scheme age before each step, so that pages it
//!   meets were looked at a while ago;
//! * return soon once the kernel shuts down, and from a run once its request is met.
//!
//! Another kernel's is a file here that implements [`Kswapd`] and an arm of [`Kernel::kswapd`]; nothing
//! outside this folder names one. Which it is, and what of it can be chosen by itself, is
//! [`KswapdPolicy`](crate::config::KswapdPolicy).
//!
//! Synchronisation: the pending request and the failures are atomics of [`ReclaimNode`], read and
//! written without order: a wake that is missed is repeated by the next allocation that fails.
//!
//! From: `page_alloc::slow` (wake), the host (body) · to: [`super::node_pass`], [`super::scheme`],
//! `compaction`.
//!
//! [`MAX_FAILURES`]: super::budget::MAX_FAILURES
//! [`ReclaimNode`]: super::ReclaimNode

mod balance;
mod node61;
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

/// A kernel's kswapd: the answers to the table above.
trait Kswapd<H: Devices> {
    /// Adds a request to what is pending.
    fn note(&self, state: &ReclaimNode<H>, wake: Wake);

    /// Should a kswapd that sleeps be woken for a request? If not, this does what the request may need
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
        let is_forbidden = self.mem.tunables.cpusets && !self.mem.cpuset_allows(cx, node, gfp);
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
