//! How kswapd goes to sleep (rules/kswapd#sleep): a nap first, then until it is woken.
//!
//! Every kernel goes through the same steps; what it checks and hands over in between is its
//! [`Sleep`]. kswapd naps before it sleeps, because the first allocations after a run often take
//! what it has just freed. Without the nap it would be woken at once, and the counters' thresholds
//! would be switched in vain. Two counters show how the nap ended, and how well the marks fit.
//! Woken early (`kswapd_low_wmark_hit_quickly`): the gap between low and high lasts less than a
//! tenth of a second. Not balanced any more (`kswapd_high_wmark_hit_quickly`): the gap is being
//! used up.
//!
//! Synchronisation: it enters its wait queue before it checks whether it may sleep, so a wake-up
//! between the check and the sleep ends that sleep.
//!
//! From: [`super::node61`], [`super::zones45`] · to: the wait queue of the node.

use crate::config::HandOver;
use crate::host::{Cx, Devices, HZ, Probe};
use crate::kernel::Kernel;
use crate::page::Order;
use crate::trace::Event;
use crate::vmstat::VmEvent;
use crate::zone::{NodeId, ZoneType};

/// How long kswapd naps before it sleeps (rules/kswapd#sleep).
const NAP: u64 = HZ / 10;

/// A kernel's part in the sleep of its kswapd.
///
/// Linux up to 4.7 resets compaction before the sleep, later kernels before the nap.
pub(super) trait Sleep<H: Devices> {
    /// The order and the highest zone of the last request.
    fn request(&self) -> (Order, ZoneType);

    /// Wakes the tasks at the gate, and reports whether kswapd may sleep.
    fn is_ready(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>) -> bool;

    /// The node is balanced: what is handed over before the nap.
    fn before_nap(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>);

    /// A request ended the nap.
    fn woken_early(&self, kernel: &Kernel<H>);

    /// The node stayed balanced: what is handed over before the sleep. It switches the counters to
    /// their normal thresholds, because exact counts slow every allocation down.
    fn before_sleep(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>);
}

impl<H: Devices> Kernel<H> {
    /// Puts kswapd to sleep if `how` says that the node is balanced.
    #[doc(alias = "kswapd_try_to_sleep")]
    pub(super) fn kswapd_sleep(&self, cx: &Cx<'_, H>, node: NodeId, how: &impl Sleep<H>) {
        let queue = &self.reclaim.node(node).kswapd_wait;
        // Before the look: see the module.
        let mut ticket = queue.enter(cx);
        let mut left = 0;
        if !self.is_stopping() && how.is_ready(self, cx) {
            how.before_nap(self, cx);
            left = queue.park_jiffies(cx, ticket, "kswapd naps", NAP);
            if left != 0 {
                how.woken_early(self);
            }
            // A wake has taken it off the queue. It joins anew before it looks once more.
            queue.leave(cx, ticket);
            ticket = queue.enter(cx);
        }
        let stays = left == 0 && how.is_ready(self, cx);
        if self.is_stopping() {
        } else if stays {
            cx.event(Event::KswapdSleep { nid: node });
            how.before_sleep(self, cx);
            queue.park(cx, ticket, "kswapd has nothing to do");
            self.mem.use_pressure_thresholds(node);
        } else {
            let which = match left {
                0 => VmEvent::KswapdHighWmarkHitQuickly,
                _ => VmEvent::KswapdLowWmarkHitQuickly,
            };
            self.mem.events.add(cx.cpu(), which, 1);
        }
        queue.leave(cx, ticket);
    }

    /// Wakes kcompactd for the last request, if the policy does so at this point. Single pages are
    /// available; a request for a block may get one from compaction.
    pub(super) fn hand_over(
        &self,
        cx: &Cx<'_, H>,
        node: NodeId,
        how: &impl Sleep<H>,
        when: HandOver,
    ) {
        if self.mem.policy.reclaim.kswapd.hand_over == when {
            let (order, highest) = how.request();
            self.wake_kcompactd(cx, node, order, highest);
        }
    }
}
