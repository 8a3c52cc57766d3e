//! Is a run over (rules/compaction#finish)?

use super::fragmentation_score;
use super::positions::ends;
use super::run::Run;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::{MAX_ORDER, Order, PAGEBLOCK_PAGES, Pfn};
use crate::page_alloc::could_serve;
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::CompactResult;
use crate::zone::Zone;

/// Whether a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    /// It does.
    Continue,
    /// It ended so.
    End(CompactResult),
}

impl<H: Devices> Kernel<H> {
    pub(super) fn finish(&self, cx: &Cx<'_, H>, run: &Run<'_, H>) -> Finish {
        use super::Pressure;

        if run.have_met() {
            let (start, last_block) = ends(run.zone);
            run.state.reset(Pfn(start), Pfn(last_block));
            if run.goal.direct {
                run.state.flush_pending.store(true, Relaxed);
            }
            return Finish::End(match run.goal.whole_zone {
                true => CompactResult::Complete,
                false => CompactResult::Partial,
            });
        }
        let is_stopped = run.contended || cx.is_dying();
        let unless_stopped = match is_stopped {
            true => Finish::End(CompactResult::Contended),
            false => Finish::Continue,
        };
        if run.goal.proactive {
            if self.kswapd_is_running(run.zone.node) {
                return Finish::End(CompactResult::Partial);
            }
            let is_fragmented = zone_score(run.zone) > self.proactive_marks().0;
            return match is_fragmented {
                true => unless_stopped,
                false if is_stopped => unless_stopped,
                false => Finish::End(CompactResult::Success),
            };
        }
        let Some(order) = run.goal.order else {
            return Finish::Continue;
        };
        // Pages of a block are worth most together: what was begun is finished.
        if !run.migrate_pfn.is_multiple_of(PAGEBLOCK_PAGES as u32) {
            return Finish::Continue;
        }
        let has_block = (order.0..=Order::MAX.0)
            .any(|order| could_serve(run.zone, Order(order), run.goal.migratetype));
        if has_block { Finish::End(CompactResult::Success) } else { unless_stopped }
    }
}

/// How much of a zone's free memory is in pieces, percent.
pub(super) fn zone_score<H: Devices>(zone: &Zone<H>) -> u64 {
    let blocks = |order: usize| u64::from(zone.nr_free_blocks(Order(order as u8)));
    let nr_free: [u64; MAX_ORDER] = core::array::from_fn(blocks);
    fragmentation_score(&nr_free)
}
