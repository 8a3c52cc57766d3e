//! Is a run over (rules/compaction#finish)?

use super::fragmentation_score;
use super::positions::ends;
use super::run::Run;
use crate::config::{FinishTest, FlushRequest};
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::{MAX_ORDER, Order, PAGEBLOCK_PAGES, Pfn};
use crate::page_alloc::{AllocFlags, could_serve};
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::{CompactResult, ZoneType};
use crate::zone::{Mark, Zone};

/// Whether a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    /// It does.
    Continue,
    /// It ended so.
    End(CompactResult),
}

impl<H: Devices> Kernel<H> {
    /// Decides after each round whether a compaction run goes on: scanners met, a block is there,
    /// or a score is reached.
    #[doc(alias = "compact_finished")]
    #[doc(alias = "__compact_finished")]
    pub(super) fn finish(&self, cx: &Cx<'_, H>, run: &Run<'_, H>) -> Finish {
        use super::Pressure;

        let is_stopped = run.contended.is_some() || cx.is_dying();
        // A run that does not finish pageblocks stops at any position.
        if is_stopped && !run.policy.finishes_blocks {
            return Finish::End(CompactResult::Contended);
        }
        if run.have_met() {
            let (start, last_block) = ends(run.zone);
            run.state.reset(Pfn(start), Pfn(last_block));
            let asks_for_flush = match run.policy.flush_request {
                FlushRequest::UnlessKswapd => !run.goal.by_kswapd,
                FlushRequest::Request => run.goal.direct,
            };
            if asks_for_flush {
                run.state.flush_pending.store(true, Relaxed);
            }
            return Finish::End(match run.goal.whole_zone || !run.policy.tells_partial {
                true => CompactResult::Complete,
                false => CompactResult::Partial,
            });
        }
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
        // A whole free pageblock is worth most, so a pageblock that was begun is finished.
        let is_inside = !run.migrate_pfn.is_multiple_of(PAGEBLOCK_PAGES as u32);
        if is_inside && run.policy.finishes_blocks {
            return Finish::Continue;
        }
        if run.policy.finish == FinishTest::LowMark
            && !self.low_mark_allows(run.zone, order, run.goal.flags, run.goal.highest)
        {
            return unless_stopped;
        }
        let has_block = (order.0..=Order::MAX.0)
            .any(|order| could_serve(run.zone, Order(order), run.goal.migratetype));
        if has_block { Finish::End(CompactResult::Success) } else { unless_stopped }
    }
}

impl<H: Devices> Kernel<H> {
    /// Whether a block of an order is free above the low mark, for a request with these rights. Up
    /// to 4.8 this is the goal of compaction, and its result is judged by it.
    pub(super) fn low_mark_allows(
        &self,
        zone: &Zone<H>,
        order: Order,
        flags: AllocFlags,
        highest: ZoneType,
    ) -> bool {
        let rule = self.mem.policy.watermark_rule();
        let (mark, free) = (zone.mark(Mark::Low), zone.nr_free_pages());
        zone.watermark_ok(rule, order, mark, highest, flags, free)
    }
}

/// How much of a zone's free memory is in pieces, percent.
pub(super) fn zone_score<H: Devices>(zone: &Zone<H>) -> u64 {
    let blocks = |order: usize| u64::from(zone.nr_free_blocks(Order(order as u8)));
    let nr_free: [u64; MAX_ORDER] = core::array::from_fn(blocks);
    fragmentation_score(&nr_free)
}
