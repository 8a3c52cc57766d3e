//! Balancing between the run queues of the fair policies (rules/scheduler#balance).
//!
//! A CPU that would idle pulls one task. A CPU with waiting tasks hands them at its ticks to idle
//! CPUs, and from time to time to CPUs that have at least two tasks fewer. Tasks that ran a moment
//! ago stay: their caches are warm.

use std::cmp::Reverse;

use super::fair::{Fair, Joins, Look};
use super::{Candidate, Sched};
use crate::cpu::CpuId;
use crate::engine::clock::NS_PER_JIFFY;
use crate::engine::task::TaskIndex;

/// A task that ran within this time has its data in its CPU's caches.
#[doc(alias = "sysctl_sched_migration_cost")]
const HOT_NS: u64 = 500_000;
/// Time between two balances of a busy CPU, by number of CPUs that take part: 16 times a
/// millisecond for each.
const BUSY_NS: u64 = 16_000_000;
/// Percent by which a CPU of another node must be more loaded than this one.
const IMBALANCE_PERCENT: u64 = 117;

/// A task that was moved to another CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) task: TaskIndex,
    pub(crate) cpu: CpuId,
    /// It has the CPU from this time on; `None`: it waits there.
    pub(crate) starts_ns: Option<u64>,
    /// It preempts the task that runs there.
    pub(crate) preempts: bool,
}

impl Fair {
    /// The task of a CPU that may move to another one and ran the longest time ago.
    fn coldest(
        &self,
        cpu: CpuId,
        now_ns: u64,
        may_move: impl Fn(TaskIndex) -> bool,
    ) -> Option<TaskIndex> {
        let queue = &self.cpus[cpu.idx()].queue;
        let cold = queue.waiting().iter().copied().filter(|&task| {
            let entity = &self.entities[task];
            entity.is_waiting() && entity.ran_at_ns + HOT_NS <= now_ns.max(HOT_NS) && may_move(task)
        });
        cold.min_by_key(|&task| (self.entities[task].ran_at_ns, self.entities[task].entered))
    }

    /// Tasks that run on a CPU or wait for it.
    fn nr_runnable(&self, cpu: CpuId) -> usize {
        let queue = &self.cpus[cpu.idx()].queue;
        queue.nr_waiting() + usize::from(queue.current().is_some())
    }
}

impl Sched {
    /// Pulls a waiting task to a CPU that would idle, from the longest queue of its node, else of the
    /// machine. The task that ran the longest time ago moves.
    ///
    /// Linux: weighs what the search costs against the idle time to come; pulls half of the
    /// difference if the kernel is not preemptible.
    #[doc(alias = "newidle_balance")]
    #[doc(alias = "load_balance")]
    pub(super) fn pull(
        &mut self,
        thief: CpuId,
        now_ns: u64,
        candidate_of: impl Fn(TaskIndex) -> Candidate,
    ) -> Option<TaskIndex> {
        if self.nr_queued == 0 {
            return None;
        }
        let fair = self.fair.as_ref()?;
        let home = self.node_of(thief);
        let may_move = |task| self.is_allowed(candidate_of(task).placement, thief);
        let found = self
            .others(thief)
            .filter_map(|cpu| Some((cpu, fair.coldest(cpu, now_ns, may_move)?)))
            .min_by_key(|&(cpu, _)| {
                (self.node_of(cpu) != home, Reverse(fair.cpus[cpu.idx()].queue.nr_waiting()))
            });
        let (victim, task) = found?;
        self.detach(victim, task, now_ns);
        self.fair_waits(thief, task, Joins::Moved, now_ns);
        let fair = self.fair.as_mut()?;
        fair.cpus[thief.idx()].queue.pick(&mut fair.entities, now_ns)
    }

    fn detach(&mut self, cpu: CpuId, task: TaskIndex, now_ns: u64) {
        if let Some(fair) = &mut self.fair {
            fair.catch_up(cpu, now_ns);
            fair.cpus[cpu.idx()].queue.detach(&mut fair.entities, task, now_ns);
        }
        self.set_resched(cpu, now_ns, Look::Kept);
    }

    /// Balances at a tick of a CPU that has waiting tasks.
    #[doc(alias = "rebalance_domains")]
    #[doc(alias = "nohz_idle_balance")]
    pub(crate) fn balance(
        &mut self,
        cpu: CpuId,
        now_ns: u64,
        candidate_of: impl Fn(TaskIndex) -> Candidate,
    ) -> Vec<Moved> {
        let mut moved = Vec::new();
        while let Some(one) = self.hand_to_idle(cpu, now_ns, &candidate_of) {
            moved.push(one);
        }
        for far in [false, true] {
            let home = self.node_of(cpu);
            let is_near = |other: CpuId| self.node_of(other) == home;
            let others: Vec<CpuId> = self.others(cpu).filter(|&cpu| far || is_near(cpu)).collect();
            let Some(fair) = &mut self.fair else { break };
            let due_ns = &mut fair.cpus[cpu.idx()].balance_at_ns[usize::from(far)];
            if now_ns < *due_ns {
                continue;
            }
            *due_ns = now_ns + BUSY_NS * (others.len() as u64 + 1) - NS_PER_JIFFY;
            moved.extend(self.hand_to_busy(cpu, &others, far, now_ns, &candidate_of));
        }
        moved
    }

    /// A waiting task gets an idle CPU, one of the node if there is one.
    fn hand_to_idle(
        &mut self,
        cpu: CpuId,
        now_ns: u64,
        candidate_of: impl Fn(TaskIndex) -> Candidate,
    ) -> Option<Moved> {
        let fair = self.fair.as_ref()?;
        let home = self.node_of(cpu);
        let target = |task| {
            let placement = candidate_of(task).placement;
            let near = self.idle_after(cpu, self.node_cpus.get(usize::from(home)));
            let mut found = near.filter(|&idle| self.is_allowed(placement, idle));
            found = found.or_else(|| {
                let mut idle = self.others(cpu).filter(|&other| self.is_idle(other));
                idle.find(|&idle| self.is_allowed(placement, idle))
            });
            found
        };
        if self.nr_idle == 0 {
            return None;
        }
        let task = fair.coldest(cpu, now_ns, |task| target(task).is_some())?;
        let target = target(task)?;
        self.detach(cpu, task, now_ns);
        self.nr_queued -= 1;
        let starts_ns = self.start_on_idle(target, task, Joins::Moved, now_ns);
        Some(Moved { task, cpu: target, starts_ns: Some(starts_ns), preempts: false })
    }

    /// Half of the difference to the CPU with the fewest tasks goes there.
    fn hand_to_busy(
        &mut self,
        cpu: CpuId,
        others: &[CpuId],
        far: bool,
        now_ns: u64,
        candidate_of: impl Fn(TaskIndex) -> Candidate,
    ) -> Vec<Moved> {
        let mut moved = Vec::new();
        let Some(fair) = &self.fair else { return moved };
        let Some(&target) = others.iter().min_by_key(|&&other| fair.nr_runnable(other)) else {
            return moved;
        };
        let weight = |cpu: CpuId| fair.cpus[cpu.idx()].queue.weight(&fair.entities);
        if far && weight(cpu) * 100 <= weight(target) * IMBALANCE_PERCENT {
            return moved;
        }
        let more = fair.nr_runnable(cpu).saturating_sub(fair.nr_runnable(target));
        for _ in 0..more / 2 {
            let may_move = |task| self.is_allowed(candidate_of(task).placement, target);
            let fair = self.fair.as_ref();
            let Some(task) = fair.and_then(|fair| fair.coldest(cpu, now_ns, may_move)) else {
                break;
            };
            self.detach(cpu, task, now_ns);
            let preempts = self.fair_waits(target, task, Joins::Moved, now_ns);
            moved.push(Moved { task, cpu: target, starts_ns: None, preempts });
        }
        moved
    }
}
