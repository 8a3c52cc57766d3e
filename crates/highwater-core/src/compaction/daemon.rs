//! kcompactd: a node's compaction daemon (rules/compaction#kcompactd).
//!
//! It runs when kswapd has freed enough memory and blocks of an order were requested, so that the
//! next request finds a block. If policy and sysctl allow it, it also runs without a request
//! ([`super::proactive`]).

use super::Suitability;
use super::run::{Ended, Goal};
use crate::config::{FinishTest, Kcompactd, KcompactdGfp, KcompactdSkip};
use crate::host::{Cx, Devices, Probe, Stall};
use crate::kernel::Kernel;
use crate::migrate::Mode;
use crate::page::Order;
use crate::page_alloc::Gfp;
use crate::sync::atomic::Ordering::SeqCst;
use crate::trace::Event;
use crate::units::CompactResult;
use crate::vmstat::VmEvent;
use crate::zone::{NodeId, Zone, ZoneType};

impl<H: Devices> Kernel<H> {
    /// Does this policy have a compaction daemon?
    pub(crate) fn has_kcompactd(&self) -> bool {
        self.compacts() && self.mem.policy.compaction.kcompactd != Kcompactd::Absent
    }

    /// Asks a node's kcompactd for blocks of an order in zones up to `highest`, and wakes it if
    /// that is worth it. The request is noted even if kcompactd is not woken.
    ///
    /// Linux 4.6 on.
    #[doc(alias = "wakeup_kcompactd")]
    pub(crate) fn wake_kcompactd(
        &self,
        cx: &Cx<'_, H>,
        node: NodeId,
        order: Order,
        highest: ZoneType,
    ) {
        if order == Order::ZERO || !self.has_kcompactd() {
            return;
        }
        let state = self.compaction.node(node);
        state.ask(order, highest);
        if state.wait.has_waiters() && self.kcompactd_has_work(node) {
            cx.event(Event::CompactionWakeupKcompactd { nid: node, order, highest });
            state.wait.wake_all(cx.host, cx.cpu());
        }
    }

    /// The zones that it works on if it is asked for those up to `highest`: the first of them left it out, and so
    /// never worked on the largest zone of a usual machine.
    pub(crate) fn kcompactd_zones(
        &self,
        node: NodeId,
        highest: ZoneType,
    ) -> impl Iterator<Item = &Zone<H>> {
        let is_exclusive = self.mem.policy.compaction.kcompactd == Kcompactd::Exclusive;
        let zones = self.mem.zones_of(node).filter(|zone| zone.managed() != 0);
        zones.filter(move |zone| zone.zone < highest || (!is_exclusive && zone.zone == highest))
    }

    /// Reports whether compaction could serve what kcompactd is asked for in any zone of the node.
    ///
    /// Linux 4.6 on.
    #[doc(alias = "kcompactd_node_suitable")]
    fn kcompactd_has_work(&self, node: NodeId) -> bool {
        let (order, highest) = self.compaction.node(node).asked();
        let mut zones = self.kcompactd_zones(node, highest);
        zones
            .any(|zone| self.mem.compaction_suitable(zone, order, highest) == Suitability::Continue)
    }

    /// Runs a node's kcompactd until the kernel shuts down.
    ///
    /// Linux 4.6 on.
    #[doc(alias = "kcompactd")]
    pub(crate) fn run_kcompactd(&self, cx: &Cx<'_, H>, node: NodeId) {
        let state = self.compaction.node(node);
        let usual = self.proactive_interval();
        let mut timeout = usual;
        // Prompted, and kswapd was in the way.
        let mut is_late = false;
        while !self.is_stopping() {
            // Before the look: a wake in between ends the sleep.
            let ticket = state.wait.enter(cx);
            let is_asked = || state.asked().0 > Order::ZERO;
            let is_prompted = || state.is_prompted.load(SeqCst) && self.deaf_for(cx, node) == 0;
            if !self.is_stopping() && !is_asked() && !is_prompted() {
                cx.event(Event::CompactionKcompactdSleep { nid: node });
                let why = "kcompactd has nothing to do";
                // Prompted, and not to look yet.
                let deaf_for = match state.is_prompted.load(SeqCst) {
                    true => self.deaf_for(cx, node),
                    false => 0,
                };
                match (self.polls() || is_late, deaf_for) {
                    (true, _) => drop(state.wait.park_jiffies(cx, ticket, why, timeout)),
                    (false, 0) => state.wait.park(cx, ticket, why),
                    (false, ticks) => drop(state.wait.park_jiffies(cx, ticket, why, ticks)),
                }
            }
            state.wait.leave(cx, ticket);
            if self.is_stopping() {
                break;
            }
            let was_prompted = is_prompted() && state.is_prompted.swap(false, SeqCst);
            if is_asked() && !was_prompted {
                self.kcompactd_work(cx, node);
                timeout = usual;
                self.listen_soon(cx, node);
                continue;
            }
            // Woken by a prompt that has to wait.
            if !self.polls() && !was_prompted && !is_late {
                continue;
            }
            is_late = self.waits_for_kswapd(node, was_prompted || is_late);
            timeout = match is_late {
                true => usual,
                false => {
                    let _stall = cx.stall(Stall::Memory);
                    self.compact_proactively(cx, node)
                }
            };
        }
    }

    /// Compacts each zone of the node for the order that kcompactd is asked for.
    ///
    /// Linux 4.6 on.
    #[doc(alias = "kcompactd_do_work")]
    pub(super) fn kcompactd_work(&self, cx: &Cx<'_, H>, node: NodeId) {
        let _stall = cx.stall(Stall::Memory);
        let state = self.compaction.node(node);
        let (order, highest) = state.asked();
        cx.event(Event::CompactionKcompactdWake { nid: node, order, highest });
        self.mem.events.add(cx.cpu(), VmEvent::CompactDaemonWake, 1);
        let policy = &self.mem.policy.compaction;
        let mut goal = Goal {
            ignore_skip: policy.kcompactd_skip == KcompactdSkip::Ignored,
            gfp: match policy.kcompactd_gfp {
                KcompactdGfp::Nothing => Gfp::empty(),
                KcompactdGfp::Kernel => Gfp::GFP_KERNEL,
            },
            ..Goal::new(Some(order), Mode::SyncLight, highest)
        };
        for zone in self.kcompactd_zones(node, highest) {
            if self.refuses(cx, zone, order)
                || self.mem.compaction_suitable(zone, order, zone.zone) != Suitability::Continue
            {
                continue;
            }
            if self.is_stopping() {
                return;
            }
            let Ended { result, scanned: [migrate, free], .. } =
                self.compact_zone(cx, zone, &mut goal);
            if self.brought_block(zone, &goal, result) {
                self.note_success(cx, zone, order, false);
            } else if let CompactResult::Complete | CompactResult::Partial = result {
                // More blocks can only come from pages on per-CPU lists.
                if policy.finish == FinishTest::Block {
                    self.mem.drain_all(cx, Some(zone));
                }
                self.note_failure(cx, zone, order);
            }
            let events = &self.mem.events;
            events.add(cx.cpu(), VmEvent::CompactDaemonMigrateScanned, migrate);
            events.add(cx.cpu(), VmEvent::CompactDaemonFreeScanned, free);
        }
        state.done(order, highest);
    }
}
