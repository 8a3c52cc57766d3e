//! `memory.high`: a task pays for what it charged above it (rules/memory-cgroups#high).

use crate::host::{Cx, Devices, Phase, Stall};
use crate::kernel::Kernel;
use crate::memcg::high::{Next, Rounds, delay, overage};
use crate::memcg::{GroupEvent, TaskGroup};
use crate::page_alloc::Gfp;
use crate::units::{GroupId, SWAP_CLUSTER_MAX};

/// Name of the wait of a task that sleeps.
const SLEEP: &str = "a group over memory.high";

impl<H: Devices> Kernel<H> {
    /// Reclaims from the groups on the task's path that are over `memory.high`, and sleeps if that
    /// gets nothing.
    ///
    /// Linux: same name.
    #[doc(alias = "mem_cgroup_handle_over_high")]
    pub(super) fn handle_over_high(&self, cx: &Cx<'_, H>, gfp: Gfp) {
        let task = cx.local::<TaskGroup>();
        let pages = task.over_high.take();
        if pages == 0 {
            return;
        }
        let group = task.group.get();
        let _phase = cx.group_phase(Phase::MemoryHigh, self.most_over_high(group));
        let counters = &self.mem.groups;
        let path = || counters.memory.ancestors(group).filter(|at| !at.is_root());
        let (mut rounds, mut wanted) = (Rounds::new(), pages);
        loop {
            let got = self.reclaim_high(cx, group, wanted, gfp);
            let of_memory = |at: GroupId| {
                let counter = &counters.memory[at];
                overage(counter.usage(), counter.high())
            };
            let of_swap = |at: GroupId| {
                let counter = &counters.swap[at];
                let over = overage(counter.usage(), counter.high());
                if over != 0 {
                    self.memcg.event(at, GroupEvent::SwapHigh);
                }
                over
            };
            let memory = path().map(of_memory).max().unwrap_or(0);
            let swap = path().map(of_swap).max().unwrap_or(0);
            match rounds.after(got, delay(pages, memory, swap, self.memcg.batch)) {
                Next::Return => return,
                Next::Reclaim => wanted = SWAP_CLUSTER_MAX,
                Next::Sleep(jiffies) => {
                    let _stall = cx.stall(Stall::Memory);
                    self.plug_flush(cx);
                    let since_ns = cx.host.now_ns();
                    cx.host.park_jiffies(SLEEP, jiffies);
                    self.memcg.count_sleep(group, cx.host.now_ns() - since_ns);
                    return;
                }
            }
        }
    }

    /// The group on a path whose overage decides how long a task sleeps; the lowest one if none is
    /// over.
    fn most_over_high(&self, group: GroupId) -> GroupId {
        let counters = &self.mem.groups;
        let over = |at: GroupId| {
            let (memory, swap) = (&counters.memory[at], &counters.swap[at]);
            overage(memory.usage(), memory.high()).max(overage(swap.usage(), swap.high()))
        };
        let path = counters.memory.ancestors(group).filter(|at| !at.is_root());
        let worst = path.fold((group, 0), |worst, at| match over(at) {
            over if over > worst.1 => (at, over),
            _ => worst,
        });
        worst.0
    }

    /// Reclaims from each group on a path that is over `memory.high`; the pages freed.
    ///
    /// Linux: same name.
    fn reclaim_high(&self, cx: &Cx<'_, H>, group: GroupId, pages: u64, gfp: Gfp) -> u64 {
        let counters = &self.mem.groups.memory;
        let mut got = 0;
        for at in counters.ancestors(group).filter(|at| !at.is_root()) {
            if counters[at].over_high() == 0 {
                continue;
            }
            self.memcg.event(at, GroupEvent::High);
            let _stall = cx.stall(Stall::Memory);
            got += self.reclaim_group(cx, (Phase::GroupReclaim, at), pages, gfp);
        }
        got
    }
}
