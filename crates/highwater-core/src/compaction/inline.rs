//! Compaction by kswapd itself, up to 4.5 (rules/compaction#inline).
//!
//! If blocks were requested and the node has none left, kswapd compacts it between two reclaim
//! steps, without waiting for anything. These kernels have no other background compaction;
//! rules/kswapd#why-never-compacts describes the effect.

use super::run::Goal;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::migrate::Mode;
use crate::page::Order;
use crate::page_alloc::Gfp;
use crate::units::{NodeId, ZoneId, ZoneType};

impl<H: Devices> Kernel<H> {
    /// Compacts every zone of a node for blocks of an order. Failures are not remembered: it is not a request that
    /// failed.
    ///
    /// Linux up to 4.5: kswapd compacts its node itself; kcompactd does so since.
    #[doc(alias = "compact_pgdat")]
    pub(crate) fn compact_for_kswapd(&self, cx: &Cx<'_, H>, node: NodeId, order: Order) {
        if !self.compacts() {
            return;
        }
        for zone in self.mem.zones_of(node).filter(|zone| zone.managed() != 0) {
            if self.refuses(cx, zone, order) {
                continue;
            }
            let mut goal = Goal {
                gfp: Gfp::empty(),
                by_kswapd: true,
                ..Goal::new(Some(order), Mode::Async, ZoneType::Dma)
            };
            let ended = self.compact_zone(cx, zone, &mut goal);
            if self.brought_block(zone, &goal, ended.result) {
                self.note_success(cx, zone, order, false);
            }
        }
    }

    /// Is compaction of a zone put off for an order? As with a request that is refused, the question counts.
    pub(crate) fn compaction_is_put_off(&self, cx: &Cx<'_, H>, zone: ZoneId, order: Order) -> bool {
        self.compacts()
            && self.mem.zone_by_id(zone).is_some_and(|zone| self.refuses(cx, zone, order))
    }
}
