//! The scheduler: run queues, time slices, wake-up placement, under one of three policies
//! ([`SchedPolicy`]).
//!
//! | policy | a CPU's run queue | modules |
//! |---|---|---|
//! | `fifo` | first in, first out; slices of ticks; nice values deal out turns ([`Shares`]) | this one |
//! | `cfs` | CFS of 4.3 to 6.5, as in 6.1 | [`cfs`], [`weights`] |
//! | `eevdf` | EEVDF of 6.6 and later, as in 6.12 | [`eevdf`], [`weights`] |
//!
//! `fifo` is much simpler than the kernel's, on purpose. Memory management depends on few things
//! only: a task's CPU, the wait of a woken task, the cost of a switch, and preemption at a tick when
//! other tasks wait. Under `cfs` and `eevdf` a woken task can also preempt the running one. `fair`
//! keeps their run queues ([`run_queue`]), `select` chooses CPUs, `balance` moves waiting tasks.
//!
//! ```text
//!              wake, CPU idle (after exit latency + switch)
//!   blocked ------------------------------------------------> on a CPU --- block, exit --> next
//!      |                                                       ^   |
//!      |  wake, CPU busy                   head of the queue   |   | slice over at a tick, yield
//!      '---------------------> runqueue -----------------------'   |
//!                                 ^--------------------------------'
//! ```
//!
//! Everything here is bookkeeping over `Sched`; the executor owns the clock and the coroutines and
//! calls in. Times passed in are virtual nanoseconds in global order: a task blocks, wakes others
//! and is preempted only after it synchronised.

mod balance;
mod cfs;
mod eevdf;
mod entity;
mod fair;
mod policy;
#[cfg(test)]
mod replay;
mod run_queue;
mod select;
#[cfg(test)]
mod vectors;
mod weights;

use std::collections::VecDeque;

use super::CpuId;
use super::shares::{Nice, Shares};
use crate::engine::clock::{NS_PER_JIFFY, next_tick_ns};
use crate::engine::task::{Placement, TaskIndex};
use fair::{Fair, Joins};
pub use policy::SchedPolicy;

/// The tasks that have a CPU or wait for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Their number, including the running one.
    pub(crate) runnable: u32,
    /// The running task.
    pub(crate) current: Option<TaskIndex>,
}

/// The CPUs of a machine: the node of each.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Topology {
    /// `node_of[cpu]`.
    pub node_of: Vec<u16>,
}

impl Topology {
    /// `nr_cpus` CPUs on node 0.
    pub fn single_node(nr_cpus: u16) -> Self {
        Topology { node_of: vec![0; usize::from(nr_cpus)] }
    }

    /// Number of CPUs.
    pub fn nr_cpus(&self) -> usize {
        self.node_of.len()
    }
}

/// Costs of scheduling. [`SchedParams::FREE`] is for tests; machines take theirs from the cost
/// table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedParams {
    /// The scheduler. A booting machine sets it: to the one that `CostModel::sched_named` names, or
    /// the kernel's.
    pub policy: SchedPolicy,
    /// Under `fifo`: time that a task runs while others wait for its CPU; rounded up to whole ticks.
    pub slice_ns: u64,
    /// Paid by the waker.
    pub wakeup_ns: u64,
    /// Paid by the CPU that switches to another task (including from idle).
    pub context_switch_ns: u64,
    /// Time from the wake-up to the first instruction on a CPU in shallow idle.
    pub wake_idle_shallow_ns: u64,
    /// The same on a CPU in deep idle.
    pub wake_idle_deep_ns: u64,
    /// Idle periods from this length on end in deep idle.
    pub idle_deep_after_ns: u64,
    /// Each timer tick of a busy CPU.
    pub tick_ns: u64,
    /// Sending an interrupt to one CPU and waiting for its answer.
    pub ipi_first_ns: u64,
    /// Each further CPU of the same request.
    pub ipi_next_ns: u64,
}

impl SchedParams {
    /// First in, first out, with normal slices; everything else is free.
    pub const FREE: SchedParams = SchedParams {
        policy: SchedPolicy::Fifo,
        slice_ns: NS_PER_JIFFY,
        wakeup_ns: 0,
        context_switch_ns: 0,
        wake_idle_shallow_ns: 0,
        wake_idle_deep_ns: 0,
        idle_deep_after_ns: u64::MAX,
        tick_ns: 0,
        ipi_first_ns: 0,
        ipi_next_ns: 0,
    };
}

/// Times of a CPU by use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CpuTimes {
    /// In tasks' user code.
    pub user_ns: u64,
    /// In tasks' kernel code, spinning on locks, switching, in ticks and interrupts.
    pub system_ns: u64,
    /// Without a task.
    pub idle_ns: u64,
}

/// One CPU.
pub(crate) struct Cpu {
    /// Its clock: the end of the last accounted work. Idle CPUs lag behind.
    pub(crate) local_ns: u64,
    /// Time of its next tick (only busy CPUs tick).
    pub(crate) tick_at_ns: u64,
    /// Time at which the current task must give up the CPU; `u64::MAX` while no task waits.
    pub(crate) resched_at_ns: u64,
    /// End of the current task's slice, if another task waits.
    slice_end_ns: u64,
    /// Time that interrupts took since the current task last ran.
    pub(crate) stolen_ns: u64,
    pub(crate) current: Option<TaskIndex>,
    runqueue: VecDeque<TaskIndex>,
    node: u16,
    pub(crate) times: CpuTimes,
}

/// All CPUs.
pub(crate) struct Sched {
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) params: SchedParams,
    /// Bit per CPU: no task has it.
    idle: Vec<u64>,
    nr_idle: usize,
    /// Bit per CPU, for each node: the CPU belongs to the node.
    node_cpus: Vec<Vec<u64>>,
    /// Tasks in all runqueues.
    nr_queued: usize,
    /// From the first tick of a slice to its end.
    slice_after_tick_ns: u64,
    /// Under `fifo`: nice values and the turns they give.
    shares: Shares,
    /// Run queues of the other policies, instead of [`Cpu::runqueue`].
    fair: Option<Box<Fair>>,
}

impl Cpu {
    /// `task` becomes current at the CPU's local time, with a fresh slice of whole ticks.
    #[inline]
    fn begin(&mut self, task: TaskIndex, next_tick_ns: u64, slice_after_tick_ns: u64) {
        self.current = Some(task);
        self.slice_end_ns = next_tick_ns + slice_after_tick_ns;
        self.resched_at_ns = if self.runqueue.is_empty() { u64::MAX } else { self.slice_end_ns };
    }
}

/// Result of placing a woken task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// It has the CPU from this time on.
    Starts { cpu: CpuId, at_ns: u64 },
    /// It waits for this CPU. If it preempts, the task that runs there must leave now.
    Queued { cpu: CpuId, preempts: bool },
}

/// State of a task that gives up its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// It can go on, and waits for its next turn.
    Stays,
    /// It sleeps.
    Sleeps,
    /// It has ended.
    Ends,
}

/// The task data that scheduling decisions need.
#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) task: TaskIndex,
    pub(crate) placement: Placement,
    /// CPU where it ran last.
    pub(crate) last_cpu: CpuId,
    /// The task that wakes it, and that one's CPU; `None`: a timer does.
    pub(crate) woken_by: Option<(TaskIndex, CpuId)>,
}

impl Sched {
    pub(crate) fn new(topology: &Topology, params: SchedParams) -> Self {
        let cpus: Vec<Cpu> = topology
            .node_of
            .iter()
            .map(|&node| Cpu {
                local_ns: 0,
                tick_at_ns: u64::MAX,
                resched_at_ns: u64::MAX,
                slice_end_ns: 0,
                stolen_ns: 0,
                current: None,
                runqueue: VecDeque::new(),
                node,
                times: CpuTimes::default(),
            })
            .collect();
        let nr_words = cpus.len().div_ceil(64);
        let nr_nodes = topology.node_of.iter().max().map_or(1, |&node| usize::from(node) + 1);
        let mut idle = vec![0; nr_words];
        let mut node_cpus = vec![vec![0; nr_words]; nr_nodes];
        for (cpu, slot) in cpus.iter().enumerate() {
            idle[cpu / 64] |= 1 << (cpu % 64);
            node_cpus[usize::from(slot.node)][cpu / 64] |= 1 << (cpu % 64);
        }
        let slice_ticks = params.slice_ns.div_ceil(NS_PER_JIFFY).max(1);
        Sched {
            nr_idle: cpus.len(),
            fair: Fair::new(params.policy, cpus.len()).map(Box::new),
            cpus,
            params,
            idle,
            node_cpus,
            nr_queued: 0,
            slice_after_tick_ns: (slice_ticks - 1) * NS_PER_JIFFY,
            shares: Shares::default(),
        }
    }

    /// A task exists from now on; it begins on this CPU, or near it.
    pub(crate) fn begin(&mut self, task: TaskIndex, nice: Nice, cpu: CpuId) {
        match &mut self.fair {
            None => self.shares.begin(task, nice),
            Some(fair) => fair.begin(task, nice, cpu),
        }
    }

    /// Gives a woken (or new) task a CPU or a place in a runqueue.
    #[inline]
    pub(crate) fn place(&mut self, candidate: Candidate, now_ns: u64) -> Placed {
        let last = candidate.last_cpu;
        if self.is_idle(last) && self.is_allowed(candidate.placement, last) {
            let joins = Joins::Woken(candidate.woken_by.map(|(waker, _)| waker));
            let at_ns = self.start_on_idle(last, candidate.task, joins, now_ns);
            return Placed::Starts { cpu: last, at_ns };
        }
        self.place_elsewhere(candidate, now_ns)
    }

    #[inline(never)]
    fn place_elsewhere(&mut self, candidate: Candidate, now_ns: u64) -> Placed {
        if self.is_fair() {
            return self.place_fairly(candidate, now_ns);
        }
        let cpu = self.select_cpu(candidate);
        if self.is_idle(cpu) {
            let at_ns = self.start_on_idle(cpu, candidate.task, Joins::Woken(None), now_ns);
            return Placed::Starts { cpu, at_ns };
        }
        let slot = &mut self.cpus[cpu.idx()];
        slot.runqueue.push_back(candidate.task);
        self.nr_queued += 1;
        // The first waiter makes ticks matter; the slice may be over already.
        slot.resched_at_ns = slot.resched_at_ns.min(slot.slice_end_ns.max(next_tick_ns(now_ns)));
        Placed::Queued { cpu, preempts: false }
    }

    /// The current task of `cpu` blocked or ended. Returns true if it is known at once that no task
    /// waits anywhere: the CPU idles. If false, the caller must call [`Sched::next_on`].
    #[inline]
    pub(crate) fn idle_on(&mut self, cpu: CpuId) -> bool {
        if self.nr_queued != 0 || self.is_fair() {
            return false;
        }
        self.set_idle(cpu);
        true
    }

    fn set_idle(&mut self, cpu: CpuId) {
        self.idle[cpu.idx() / 64] |= 1 << (cpu.idx() % 64);
        self.nr_idle += 1;
        let slot = &mut self.cpus[cpu.idx()];
        slot.current = None;
        slot.tick_at_ns = u64::MAX;
        slot.resched_at_ns = u64::MAX;
    }

    /// The current task of `cpu` gave it up at the CPU's local time. Returns its successor and the
    /// successor's start time; without one the CPU idles.
    pub(crate) fn next_on(
        &mut self,
        cpu: CpuId,
        leaves: Leaves,
        candidate_of: impl Fn(TaskIndex) -> Candidate,
    ) -> Option<(TaskIndex, u64)> {
        if self.is_fair() {
            return self.next_fairly(cpu, leaves, candidate_of);
        }
        let next = match self.shares.next(&mut self.cpus[cpu.idx()].runqueue) {
            Some(task) => {
                self.nr_queued -= 1;
                Some(task)
            }
            None => self.steal(cpu, candidate_of),
        };
        let Some(task) = next else {
            self.set_idle(cpu);
            return None;
        };
        let switch_ns = self.params.context_switch_ns;
        let slot = &mut self.cpus[cpu.idx()];
        slot.times.system_ns += switch_ns;
        slot.local_ns += switch_ns;
        slot.begin(task, next_tick_ns(slot.local_ns), self.slice_after_tick_ns);
        Some((task, slot.local_ns))
    }

    /// Puts the current task of `cpu` at the end of its runqueue. The caller must then call
    /// [`Sched::next_on`].
    pub(crate) fn requeue(&mut self, cpu: CpuId, task: TaskIndex) {
        if self.is_fair() {
            // It stays a member of its run queue.
            return;
        }
        self.cpus[cpu.idx()].runqueue.push_back(task);
        self.nr_queued += 1;
    }

    /// Interrupts took time on `cpu`; the task that runs there is delayed by that time.
    pub(crate) fn steal_time(&mut self, cpu: CpuId, ns: u64) {
        let slot = &mut self.cpus[cpu.idx()];
        if slot.current.is_some() {
            // Accounted when that task continues.
            slot.stolen_ns += ns;
        } else {
            // The idle period is shorter by this time.
            slot.times.system_ns += ns;
            slot.local_ns += ns;
        }
    }

    /// Number of tasks that wait for `cpu`.
    fn nr_waiting(&self, cpu: CpuId) -> usize {
        match self.is_fair() {
            true => self.nr_waiting_fairly(cpu),
            false => self.cpus[cpu.idx()].runqueue.len(),
        }
    }

    /// True if a task waits for `cpu`.
    pub(crate) fn has_waiters(&self, cpu: CpuId) -> bool {
        self.nr_waiting(cpu) > 0
    }

    /// The tasks that run on `cpu` or wait for it.
    pub(crate) fn load(&self, cpu: CpuId) -> Load {
        let slot = &self.cpus[cpu.idx()];
        let runnable = self.nr_waiting(cpu) as u32 + u32::from(slot.current.is_some());
        Load { runnable, current: slot.current }
    }

    /// True if no task has `cpu`.
    pub(crate) fn is_idle(&self, cpu: CpuId) -> bool {
        self.idle[cpu.idx() / 64] & (1 << (cpu.idx() % 64)) != 0
    }

    /// Times of a CPU up to `now_ns`, including an idle period that has not ended.
    pub(crate) fn times(&self, cpu: CpuId, now_ns: u64) -> CpuTimes {
        let slot = &self.cpus[cpu.idx()];
        let mut times = slot.times;
        if slot.current.is_none() {
            times.idle_ns += now_ns.saturating_sub(slot.local_ns);
        }
        times
    }

    /// Tasks of a node without CPUs run anywhere, as in the kernel.
    pub(crate) fn resolve(&self, placement: Placement) -> Placement {
        match placement {
            Placement::Node(node) if self.cpus.iter().all(|cpu| cpu.node != node) => {
                Placement::Anywhere
            }
            other => other,
        }
    }

    pub(crate) fn node_of(&self, cpu: CpuId) -> u16 {
        self.cpus[cpu.idx()].node
    }

    /// Ends an idle period: `task` has the CPU from the returned time on.
    fn start_on_idle(&mut self, cpu: CpuId, task: TaskIndex, joins: Joins, now_ns: u64) -> u64 {
        let params = &self.params;
        let slot = &mut self.cpus[cpu.idx()];
        // The end of the last task's work may lie ahead of the wake-up by a switch's cost.
        let now_ns = now_ns.max(slot.local_ns);
        let idle_ns = now_ns - slot.local_ns;
        let latency_ns = if idle_ns >= params.idle_deep_after_ns {
            params.wake_idle_deep_ns
        } else {
            params.wake_idle_shallow_ns
        };
        slot.times.idle_ns += idle_ns + latency_ns;
        slot.times.system_ns += params.context_switch_ns;
        slot.local_ns = now_ns + latency_ns + params.context_switch_ns;
        let (starts_ns, tick_at_ns) = (slot.local_ns, next_tick_ns(slot.local_ns));
        slot.tick_at_ns = tick_at_ns;
        slot.begin(task, tick_at_ns, self.slice_after_tick_ns);
        self.idle[cpu.idx() / 64] &= !(1 << (cpu.idx() % 64));
        self.nr_idle -= 1;
        self.fair_starts_alone(cpu, task, joins, starts_ns);
        starts_ns
    }

    /// Pulls a task to a CPU that would idle: the longest-waiting movable task of the longest queue,
    /// of its own node if there is one.
    ///
    /// Linux: balances by load over scheduling domains, and may move several tasks.
    #[doc(alias = "newidle_balance")]
    fn steal(
        &mut self,
        thief: CpuId,
        candidate_of: impl Fn(TaskIndex) -> Candidate,
    ) -> Option<TaskIndex> {
        if self.nr_queued == 0 {
            return None;
        }
        let home = self.node_of(thief);
        let movable = |&task: &TaskIndex| self.is_allowed(candidate_of(task).placement, thief);
        let (victim, position) = self
            .others(thief)
            .filter_map(|cpu| Some((cpu, self.cpus[cpu.idx()].runqueue.iter().position(movable)?)))
            // The first of the best candidates: `max_by_key` would return the last.
            .min_by_key(|&(cpu, _)| {
                (self.node_of(cpu) != home, std::cmp::Reverse(self.cpus[cpu.idx()].runqueue.len()))
            })?;
        let slot = &mut self.cpus[victim.idx()];
        let task = slot.runqueue.remove(position)?;
        self.nr_queued -= 1;
        if slot.runqueue.is_empty() {
            slot.resched_at_ns = u64::MAX;
        }
        Some(task)
    }
}

#[cfg(test)]
mod tests;
