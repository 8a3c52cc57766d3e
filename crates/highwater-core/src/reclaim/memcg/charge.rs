//! Charging pages to a group (spec: memory cgroups, charging).

use crate::config::{AtomicCharge, HighSync};
use crate::host::{Cx, Devices, Lock, Stall, TaskFlags};
use crate::kernel::Kernel;
use crate::memcg::{Charge, GroupEvent, Stocks, TaskGroup};
use crate::page_alloc::Gfp;
use crate::units::GroupId;

/// Rounds without a page before the OOM killer is asked (`MAX_RECLAIM_RETRIES`).
const RETRIES: u32 = 16;
/// A charge of so many pages at most is tried again as long as reclaim frees anything: more may
/// never come together.
const FEW: u64 = 8;

impl<H: Devices> Charge<H> for Kernel<H> {
    /// Linux: same name.
    #[doc(alias = "try_charge_memcg")]
    fn try_charge(&self, cx: &Cx<'_, H>, group: GroupId, gfp: Gfp, pages: u64) -> bool {
        if group.is_root() || self.consume_stock(cx, group, pages) {
            return true;
        }
        match self.charge_counters(cx, group, gfp, pages) {
            Some(batch) => {
                self.restock(cx, group, gfp, (pages, batch));
                true
            }
            None => false,
        }
    }

    fn return_to_user(&self, cx: &Cx<'_, H>) {
        if self.mem.groups.is_on() && cx.local::<TaskGroup>().over_high.get() != 0 {
            self.handle_over_high(cx, Gfp::GFP_KERNEL);
        }
    }
}

impl<H: Devices> Kernel<H> {
    fn consume_stock(&self, cx: &Cx<'_, H>, group: GroupId, pages: u64) -> bool {
        self.memcg.stocks[cx.cpu().idx()].lock(cx.cpu()).pages.consume(group, pages)
    }

    /// Charges by the counters, `pages` or a batch of more; the pages charged. None: refused.
    fn charge_counters(&self, cx: &Cx<'_, H>, group: GroupId, gfp: Gfp, pages: u64) -> Option<u64> {
        let counters = &self.mem.groups.memory;
        let policy = &self.mem.policy.memcg;
        let may_wait = gfp.contains(Gfp::DIRECT_RECLAIM);
        let mut batch = self.memcg.batch.max(pages);
        let mut left = RETRIES;
        let (mut is_drained, mut has_killed, mut is_counted) = (false, false, false);
        let refused = loop {
            // Another task of the CPU may have filled the stock while this one reclaimed.
            if batch == pages && self.consume_stock(cx, group, pages) {
                return Some(pages);
            }
            let Err(over) = counters.try_charge(group, batch) else { return Some(batch) };
            if batch > pages {
                batch = pages;
                continue;
            }
            let is_atomic = !may_wait && gfp.contains(Gfp::HIGH);
            let is_forced = is_atomic && policy.atomic == AtomicCharge::Force;
            // A task that reclaims for itself must not wait for itself.
            if is_forced || cx.flags().contains(TaskFlags::MEMALLOC) {
                break (over, true);
            }
            if !may_wait {
                break (over, false);
            }
            self.memcg.event(over, GroupEvent::Max);
            is_counted = true;
            let got = {
                let _stall = cx.stall(Stall::Memory);
                self.reclaim_group(cx, over, pages, gfp)
            };
            if counters.margin(over) >= pages {
                continue;
            }
            if !is_drained {
                self.drain_group_stocks(cx, over, Stocks::Subtree);
                is_drained = true;
                continue;
            }
            if gfp.contains(Gfp::NORETRY) {
                break (over, false);
            }
            if got != 0 && pages <= FEW {
                continue;
            }
            if left > 0 {
                left -= 1;
                continue;
            }
            if gfp.contains(Gfp::RETRY_MAYFAIL) || (has_killed && cx.is_dying()) {
                break (over, false);
            }
            if !self.group_out_of_memory(cx, over, pages) {
                break (over, false);
            }
            has_killed = true;
            left = RETRIES;
        };
        let (over, is_forced) = refused;
        if !is_forced && !gfp.intersects(Gfp::NOFAIL | Gfp::HIGH) {
            return None;
        }
        if !is_counted {
            self.memcg.event(over, GroupEvent::Max);
        }
        counters.charge(group, pages);
        Some(pages)
    }

    /// The rest of a batch goes to the CPU's stock; a charge that went through the counters notices
    /// groups over `memory.high`.
    fn restock(&self, cx: &Cx<'_, H>, group: GroupId, gfp: Gfp, (pages, batch): (u64, u64)) {
        if batch > pages {
            self.refill_stock(cx, group, batch - pages);
        }
        let groups = &self.mem.groups;
        let is_over = |at: GroupId| {
            let counters = [&groups.memory, &groups.swap];
            counters.iter().any(|counters| counters[at].over_high() != 0)
        };
        if !groups.memory.ancestors(group).any(is_over) || cx.flags().in_interrupt() {
            return;
        }
        let over_high = &cx.local::<TaskGroup>().over_high;
        over_high.set(over_high.get() + batch);
        let handles_now = self.mem.policy.memcg.high_sync == HighSync::AlsoInCharge
            && over_high.get() > self.memcg.batch
            && gfp.contains(Gfp::DIRECT_RECLAIM)
            && !cx.flags().contains(TaskFlags::MEMALLOC);
        if handles_now {
            self.handle_over_high(cx, gfp);
        }
    }
}
