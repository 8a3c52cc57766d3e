//! Charging pages to a group (rules/memory-cgroups#charge).

use core::hint::cold_path;

use crate::config::{AtomicCharge, HighSync};
use crate::host::{Cx, Devices, Lock, Phase, Stall, TaskFlags};
use crate::kernel::Kernel;
use crate::memcg::{Charge, GroupEvent, Stocks, TaskGroup};
use crate::page_alloc::Gfp;
use crate::units::GroupId;
use crate::vmstat::Over;

/// Rounds without a page before the OOM killer is asked (`MAX_RECLAIM_RETRIES`).
const RETRIES: u32 = 16;
/// A charge of so many pages at most is tried again as long as reclaim frees anything: more may
/// never come together.
const FEW: u64 = 8;

impl<H: Devices> Charge<H> for Kernel<H> {
    /// Linux: same name.
    #[doc(alias = "try_charge_memcg")]
    fn try_charge(&self, cx: &Cx<'_, H>, group: GroupId, gfp: Gfp, pages: u64) -> bool {
        if group.is_root() {
            return true;
        }
        let counters = &self.mem.groups.memory;
        let charged = {
            let mut stock = self.memcg.stocks[cx.cpu().idx()].lock(cx.cpu());
            stock.pages.charge(counters, group, pages)
        };
        let charged = match charged {
            Ok(charged) => charged,
            Err(over) => match self.charge_over(cx, group, over, gfp, pages) {
                Some(charged) => charged,
                None => return false,
            },
        };
        if charged != 0 {
            self.notice_high(cx, group, gfp, charged);
        }
        true
    }

    #[inline(always)]
    fn return_to_user(&self, cx: &Cx<'_, H>) {
        if self.mem.groups.is_on() {
            cold_path();
            if cx.local::<TaskGroup>().over_high.get() != 0 {
                self.handle_over_high(cx, Gfp::GFP_KERNEL);
            }
        }
    }
}

impl<H: Devices> Kernel<H> {
    /// Charges pages to a group although a limit refused them: reclaims from the limit's group
    /// until they fit, or gives up. Returns the pages that went through the counters; none:
    /// refused.
    fn charge_over(
        &self,
        cx: &Cx<'_, H>,
        group: GroupId,
        mut refused: Over,
        gfp: Gfp,
        pages: u64,
    ) -> Option<u64> {
        let counters = &self.mem.groups.memory;
        let may_wait = gfp.contains(Gfp::DIRECT_RECLAIM);
        let is_atomic = !may_wait && gfp.contains(Gfp::HIGH);
        let forces_atomic = self.mem.policy.memcg.atomic == AtomicCharge::Force;
        cx.local::<TaskGroup>().in_oom.set(None);
        let mut left = RETRIES;
        let (mut is_drained, mut has_killed, mut is_counted) = (false, false, false);
        // Ends with whether the charge is forced whatever its flags say.
        let is_forced = loop {
            let over = refused.group;
            // A task that reclaims for itself must not wait for itself.
            if (is_atomic && forces_atomic) || cx.flags().contains(TaskFlags::MEMALLOC) {
                break true;
            }
            if !may_wait {
                break false;
            }
            self.memcg.event(over, GroupEvent::Max);
            is_counted = true;
            let got = {
                let _stall = cx.stall(Stall::Memory);
                let why = (Phase::LimitReclaim, over);
                match refused.is_memsw {
                    false => self.reclaim_group(cx, why, pages, gfp),
                    // A page in swap counts as before.
                    true => self.reclaim_group_without_swap(cx, why, pages, gfp),
                }
            };
            if counters.margin(over) < pages {
                if !is_drained {
                    self.drain_group_stocks(cx, over, Stocks::Subtree);
                    is_drained = true;
                } else if gfp.contains(Gfp::NORETRY) {
                    break false;
                } else if got != 0 && pages <= FEW {
                    // Again, and it does not count.
                } else if left > 0 {
                    left -= 1;
                } else if gfp.contains(Gfp::RETRY_MAYFAIL) || (has_killed && cx.is_dying()) {
                    break false;
                } else if self.group_out_of_memory(cx, over, gfp, pages) {
                    has_killed = true;
                    left = RETRIES;
                } else {
                    break false;
                }
            }
            // Another task of the CPU may have filled the stock meanwhile.
            let mut stock = self.memcg.stocks[cx.cpu().idx()].lock(cx.cpu());
            if stock.pages.consume(group, pages) {
                return Some(0);
            }
            drop(stock);
            match counters.try_charge(group, pages) {
                Ok(()) => return Some(pages),
                Err(other) => refused = other,
            }
        };
        if !is_forced && !gfp.intersects(Gfp::NOFAIL | Gfp::HIGH) {
            return None;
        }
        // Kernels before 6.1 do not count a charge that is forced.
        if !is_counted && !forces_atomic {
            self.memcg.event(refused.group, GroupEvent::Max);
        }
        counters.charge(group, pages);
        Some(pages)
    }

    /// A charge that went through the counters notices groups over `memory.high`.
    fn notice_high(&self, cx: &Cx<'_, H>, group: GroupId, gfp: Gfp, charged: u64) {
        let groups = &self.mem.groups;
        let is_over = |at: GroupId| {
            let counters = [&groups.memory, &groups.swap];
            counters.iter().any(|counters| counters[at].over_high() != 0)
        };
        if !groups.memory.ancestors(group).any(is_over) || cx.flags().in_interrupt() {
            return;
        }
        let over_high = &cx.local::<TaskGroup>().over_high;
        over_high.set(over_high.get() + charged);
        let handles_now = self.mem.policy.memcg.high_sync == HighSync::AlsoInCharge
            && over_high.get() > self.memcg.batch
            && gfp.contains(Gfp::DIRECT_RECLAIM)
            && !cx.flags().contains(TaskFlags::MEMALLOC);
        if handles_now {
            self.handle_over_high(cx, gfp);
        }
    }
}
