//! Killing within a group (rules/memory-cgroups#oom).

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::host::{Cx, Devices, Lock, Phase, TaskFlags};
use crate::kernel::Kernel;
use crate::memcg::{GroupEvent, TaskGroup};
use crate::page::Order;
use crate::page_alloc::Gfp;
use crate::reclaim::oom::{Choice, Kill, Why, candidate, choose};
use crate::units::GroupId;
use crate::vm::Mm;
use crate::vmstat::{UNLIMITED, VmEvent};

impl<H: Devices> Kernel<H> {
    /// Reclaim for a group's limit failed: kills a task of the group or below it. True if the
    /// charge should try again.
    #[doc(alias = "mem_cgroup_oom")]
    #[doc(alias = "mem_cgroup_out_of_memory")]
    pub(super) fn group_out_of_memory(
        &self,
        cx: &Cx<'_, H>,
        over: GroupId,
        gfp: Gfp,
        pages: u64,
    ) -> bool {
        if pages > Order::COSTLY.pages() {
            return false;
        }
        self.memcg.event(over, GroupEvent::Oom);
        if self.memcg.v1.is_oom_kill_disabled(over) {
            // The fault waits, once it holds no lock (`memcg::version_one`).
            cx.local::<TaskGroup>().in_oom.set(Some(over));
            return false;
        }
        let _phase = cx.phase(Phase::OomKill);
        self.kill_in_group(cx, over, gfp, pages)
    }

    /// Kills the task with the most memory among those of a group and below it; true if one was
    /// killed, or none need be.
    pub(super) fn kill_in_group(
        &self,
        cx: &Cx<'_, H>,
        over: GroupId,
        gfp: Gfp,
        pages: u64,
    ) -> bool {
        let _lock = self.mem.oom_lock.lock(cx.cpu());
        let counters = &self.mem.groups;
        if counters.memory.margin(over) >= pages.next_power_of_two() || cx.is_dying() {
            return true;
        }
        let all: Vec<Arc<Mm<H>>> = self.mms.lock(cx.cpu()).values().cloned().collect();
        let in_group = |group: GroupId, mm: &Mm<H>| counters.memory.is_within(mm.group(), group);
        let mms: Vec<_> = all.into_iter().filter(|mm| in_group(over, mm)).collect();
        let has_tasks = |mm: &Mm<H>| mm.any_task(cx, |_| true);
        let candidates: Vec<_> = mms.iter().map(|mm| candidate(mm, has_tasks(mm))).collect();
        let most = match counters.memory.memsw() {
            None => counters.swap[over].max(),
            Some(memsw) => memsw[over].max().saturating_sub(counters.memory[over].max()),
        };
        let swap = match self.group_swappiness(over) {
            0 => 0,
            _ => most.min(self.swap.nr_total()),
        };
        let total = match counters.memory[over].max() {
            UNLIMITED => self.mem.populated_zones().map(|zone| zone.managed()).sum(),
            max => max,
        };
        let number = match choose(candidates.iter().copied(), total + swap) {
            Choice::Wait => return true,
            Choice::Nobody => return false,
            Choice::Kill(victim) => victim,
        };
        let victim = &mms[number];
        let kill = |victim: usize, why: Why| Kill {
            asked: (gfp, order_of(pages)),
            mms: &mms,
            candidates: &candidates,
            victim: Some(victim),
            nodes: None,
            by_policy: false,
            why,
        };
        // The highest group on the way up that wants to go as a whole.
        let path = counters.memory.ancestors(victim.group());
        let upto_limit = path.take_while(|&at| at == over || counters.memory.is_within(at, over));
        let whole = upto_limit.filter(|&at| !at.is_root() && self.memcg.oom_group(at)).last();
        self.report_kill(cx, &kill(number, Why::Group(over)));
        self.kill_member(cx, victim);
        if let Some(whole) = whole {
            self.memcg.event(whole, GroupEvent::OomGroupKill);
            // The victim is among them and is counted again: Linux does so too, as it has not
            // ended.
            let members = mms.iter().enumerate().filter(|(_, mm)| in_group(whole, mm));
            for (at, mm) in members.filter(|(_, mm)| mm.is_killable() && has_tasks(mm)) {
                if at != number {
                    self.report_kill(cx, &kill(at, Why::Whole(whole)));
                }
                self.kill_member(cx, mm);
            }
        }
        true
    }

    fn kill_member(&self, cx: &Cx<'_, H>, victim: &Arc<Mm<H>>) {
        self.mem.events.add(cx.cpu(), VmEvent::OomKill, 1);
        self.memcg.event(victim.group(), GroupEvent::OomKill);
        self.reap_later(cx, victim);
        victim.signal_tasks(cx, TaskFlags::FATAL_SIGNAL | TaskFlags::OOM_VICTIM);
    }
}

/// The order that a report shows for a charge of so many pages.
fn order_of(pages: u64) -> Order {
    Order(pages.next_power_of_two().ilog2() as u8)
}
