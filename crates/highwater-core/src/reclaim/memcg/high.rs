//! `memory.high`: a task pays for what it charged above it (rules/memory-cgroups#high).

use crate::host::{Cx, Devices, Phase, Stall};
use crate::kernel::Kernel;
use crate::memcg::high::{Next, Rounds, delay, overage};
use crate::memcg::{GroupEvent, TaskGroup};
use crate::page_alloc::Gfp;
use crate::units::{GroupId, SWAP_CLUSTER_MAX};

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
        let _phase = cx.phase(Phase::MemoryHigh);
        let group = task.group.get();
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
                    cx.host.park_jiffies("a group over memory.high", jiffies);
                    return;
                }
            }
        }
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
            got += self.reclaim_group(cx, at, pages, gfp);
        }
        got
    }
}
