//! The scheduler: one first-in first-out runqueue per CPU, a time slice, wake-up placement; nice
//! values ([`Shares`]).
//!
//! It is much simpler than the kernel's, on purpose. Memory management depends on few things only:
//! a task's CPU, the wait of a woken task, the cost of a switch, and preemption at a tick when
//! other tasks wait.
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

use std::collections::VecDeque;

use super::CpuId;
use super::shares::Shares;
use crate::engine::clock::{NS_PER_JIFFY, next_tick_ns};
use crate::engine::task::{Placement, TaskIndex};
use crate::pressure::account::Load;

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
    /// Time that a task runs while others wait for its CPU; rounded up to whole ticks.
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
    /// Normal slices; everything else is free.
    pub const FREE: SchedParams = SchedParams {
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
    /// Nice values and the turns they give.
    pub(crate) shares: Shares,
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
    /// It waits for this CPU.
    Queued { cpu: CpuId },
}

/// The task data that scheduling decisions need.
#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) task: TaskIndex,
    pub(crate) placement: Placement,
    /// CPU where it ran last.
    pub(crate) last_cpu: CpuId,
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
            cpus,
            params,
            idle,
            node_cpus,
            nr_queued: 0,
            slice_after_tick_ns: (slice_ticks - 1) * NS_PER_JIFFY,
            shares: Shares::default(),
        }
    }

    /// Gives a woken (or new) task a CPU or a place in a runqueue.
    #[inline]
    pub(crate) fn place(&mut self, candidate: Candidate, now_ns: u64) -> Placed {
        let last = candidate.last_cpu;
        if self.is_idle(last) && self.is_allowed(candidate.placement, last) {
            let at_ns = self.start_on_idle(last, candidate.task, now_ns);
            return Placed::Starts { cpu: last, at_ns };
        }
        self.place_elsewhere(candidate, now_ns)
    }

    #[inline(never)]
    fn place_elsewhere(&mut self, candidate: Candidate, now_ns: u64) -> Placed {
        let cpu = self.select_cpu(candidate);
        if self.is_idle(cpu) {
            return Placed::Starts { cpu, at_ns: self.start_on_idle(cpu, candidate.task, now_ns) };
        }
        let slot = &mut self.cpus[cpu.idx()];
        slot.runqueue.push_back(candidate.task);
        self.nr_queued += 1;
        // The first waiter makes ticks matter; the slice may be over already.
        slot.resched_at_ns = slot.resched_at_ns.min(slot.slice_end_ns.max(next_tick_ns(now_ns)));
        Placed::Queued { cpu }
    }

    /// The current task of `cpu` blocked or ended. Returns true if no task waits anywhere: the CPU
    /// idles. If false, the caller must call [`Sched::next_on`].
    #[inline]
    pub(crate) fn idle_on(&mut self, cpu: CpuId) -> bool {
        if self.nr_queued != 0 {
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

    /// The current task of `cpu` blocked or ended at the CPU's local time. Returns its successor
    /// and the successor's start time; without one the CPU idles.
    pub(crate) fn next_on(
        &mut self,
        cpu: CpuId,
        candidate_of: impl Fn(TaskIndex) -> Candidate,
    ) -> Option<(TaskIndex, u64)> {
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

    /// True if a task waits for `cpu`.
    pub(crate) fn has_waiters(&self, cpu: CpuId) -> bool {
        !self.cpus[cpu.idx()].runqueue.is_empty()
    }

    /// The tasks that run on `cpu` or wait for it.
    pub(crate) fn load(&self, cpu: CpuId) -> Load {
        let slot = &self.cpus[cpu.idx()];
        let runnable = slot.runqueue.len() as u32 + u32::from(slot.current.is_some());
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
    fn start_on_idle(&mut self, cpu: CpuId, task: TaskIndex, now_ns: u64) -> u64 {
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
        starts_ns
    }

    /// Chooses the CPU of a woken task. The last CPU if it is idle, else an idle one of its node, else
    /// any idle one, else the shortest queue (of its node if that is no longer than elsewhere).
    ///
    /// Linux: also weighs caches, load and capacity.
    #[doc(alias = "select_task_rq_fair")]
    #[doc(alias = "select_idle_sibling")]
    fn select_cpu(&self, candidate: Candidate) -> CpuId {
        let last = candidate.last_cpu;
        match candidate.placement {
            Placement::Pinned(cpu) => cpu,
            Placement::Interrupt(_) => last,
            Placement::Node(_) | Placement::Anywhere => {
                let allowed = |cpu: CpuId| self.is_allowed(candidate.placement, cpu);
                if self.is_idle(last) && allowed(last) {
                    return last;
                }
                let home = match candidate.placement {
                    Placement::Node(node) => node,
                    _ => self.node_of(last),
                };
                let anywhere = candidate.placement == Placement::Anywhere;
                let idle = self
                    .idle_after(last, self.node_cpus.get(usize::from(home)))
                    .or_else(|| if anywhere { self.idle_after(last, None) } else { None });
                idle.unwrap_or_else(|| {
                    std::iter::once(last)
                        .chain(self.others(last))
                        .filter(|&cpu| allowed(cpu))
                        .min_by_key(|&cpu| {
                            (self.cpus[cpu.idx()].runqueue.len(), self.node_of(cpu) != home)
                        })
                        .unwrap_or(last)
                })
            }
        }
    }

    /// The first idle CPU after `start`, wrapping around, among those of a mask.
    fn idle_after(&self, start: CpuId, mask: Option<&Vec<u64>>) -> Option<CpuId> {
        if self.nr_idle == 0 {
            return None;
        }
        let nr_words = self.idle.len();
        let (first, bit) = (start.idx() / 64, start.idx() % 64);
        // The word of `start` comes twice: first its bits above, at last those up to `start`.
        (0..=nr_words).find_map(|i| {
            let word = (first + i) % nr_words;
            let mut bits = self.idle[word];
            if let Some(mask) = mask {
                bits &= mask[word];
            }
            let above = (!1_u64) << bit;
            if i == 0 {
                bits &= above;
            } else if i == nr_words {
                bits &= !above;
            }
            (bits != 0).then(|| CpuId((word * 64) as u16 + bits.trailing_zeros() as u16))
        })
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

    fn is_allowed(&self, placement: Placement, cpu: CpuId) -> bool {
        match placement {
            Placement::Pinned(only) => only == cpu,
            Placement::Node(node) => self.node_of(cpu) == node,
            Placement::Anywhere => true,
            Placement::Interrupt(_) => false,
        }
    }

    /// The other CPUs, in index order from `start` on, wrapping around.
    fn others(&self, start: CpuId) -> impl Iterator<Item = CpuId> + use<> {
        let nr_cpus = self.cpus.len();
        let after = start.idx() + 1..nr_cpus;
        after.chain(0..start.idx()).map(|cpu| CpuId(cpu as u16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(task: u32, placement: Placement, last: u16) -> Candidate {
        Candidate { task: TaskIndex(task), placement, last_cpu: CpuId(last) }
    }

    fn two_nodes() -> Sched {
        Sched::new(&Topology { node_of: vec![0, 0, 1, 1] }, SchedParams::FREE)
    }

    fn cpu_of(placed: Placed) -> u16 {
        match placed {
            Placed::Starts { cpu, .. } | Placed::Queued { cpu } => cpu.0,
        }
    }

    #[test]
    fn wakes_prefer_last_cpu_then_node_then_any_idle_then_short_queue() {
        let mut sched = two_nodes();
        let mut cpus = Vec::new();
        for task in 0..6 {
            cpus.push(cpu_of(sched.place(candidate(task, Placement::Anywhere, 1), 0)));
        }
        assert_eq!(cpus, [1, 0, 2, 3, 1, 0]);
    }

    #[test]
    fn idle_search_wraps_around_and_respects_nodes() {
        // 130 CPUs, odd ones on node 1.
        let node_of = (0..130).map(|cpu| cpu % 2).collect();
        let mut sched = Sched::new(&Topology { node_of }, SchedParams::FREE);
        for busy in 0..130 {
            if ![2, 63, 129].contains(&busy) {
                let cpu = CpuId(busy);
                sched.place(candidate(u32::from(busy), Placement::Pinned(cpu), busy), 0);
            }
        }
        assert_eq!(sched.nr_idle, 3);
        let find = |start, node: Option<usize>| {
            let mask = node.map(|node| &sched.node_cpus[node]);
            sched.idle_after(CpuId(start), mask).map(|cpu| cpu.0)
        };
        assert_eq!(find(0, None), Some(2));
        assert_eq!(find(2, None), Some(63));
        assert_eq!(find(63, None), Some(129));
        assert_eq!(find(129, None), Some(2));
        assert_eq!(find(2, Some(0)), Some(2), "all the way round");
        assert_eq!(find(127, Some(0)), Some(2));
        assert_eq!(find(62, Some(1)), Some(63));
        assert_eq!(find(63, Some(1)), Some(129));
    }

    #[test]
    fn node_and_pinned_tasks_stay_where_they_may_run() {
        let mut sched = two_nodes();
        for task in 0..4 {
            let cpu = cpu_of(sched.place(candidate(task, Placement::Node(1), 0), 0));
            assert!(cpu >= 2);
        }
        assert_eq!(sched.resolve(Placement::Node(1)), Placement::Node(1));
        assert_eq!(sched.resolve(Placement::Node(2)), Placement::Anywhere);
        for task in 4..6 {
            assert_eq!(cpu_of(sched.place(candidate(task, Placement::Pinned(CpuId(1)), 0), 0)), 1);
        }
    }

    #[test]
    fn an_idle_cpu_steals_only_movable_tasks() {
        let mut sched = two_nodes();
        for task in 0..4 {
            sched.place(candidate(task, Placement::Pinned(CpuId(task as u16)), 0), 0);
        }
        sched.place(candidate(4, Placement::Pinned(CpuId(0)), 0), 0);
        sched.place(candidate(5, Placement::Anywhere, 0), 0);
        let of = |task: TaskIndex| {
            let placement =
                if task.0 == 5 { Placement::Anywhere } else { Placement::Pinned(CpuId(0)) };
            candidate(task.0, placement, 0)
        };
        assert_eq!(sched.next_on(CpuId(3), of), Some((TaskIndex(5), 0)));
        assert_eq!(sched.next_on(CpuId(2), of), None);
        assert!(sched.is_idle(CpuId(2)));
        assert_eq!(sched.next_on(CpuId(0), of), Some((TaskIndex(4), 0)));
    }

    #[test]
    fn idle_latency_depends_on_the_length_of_the_idle_period() {
        let params = SchedParams {
            context_switch_ns: 10,
            wake_idle_shallow_ns: 100,
            wake_idle_deep_ns: 1000,
            idle_deep_after_ns: 5000,
            ..SchedParams::FREE
        };
        let mut sched = Sched::new(&Topology::single_node(1), params);
        let of = |task: TaskIndex| candidate(task.0, Placement::Anywhere, 0);
        let Placed::Starts { at_ns, .. } = sched.place(of(TaskIndex(0)), 4999) else { panic!() };
        assert_eq!(at_ns, 4999 + 110);
        assert_eq!(sched.next_on(CpuId(0), of), None);
        let Placed::Starts { at_ns, .. } = sched.place(of(TaskIndex(0)), 20_000) else { panic!() };
        assert_eq!(at_ns, 20_000 + 1010);
        let times = sched.times(CpuId(0), 21_010);
        assert_eq!(times.idle_ns + times.system_ns, 21_010);
        assert_eq!(times.system_ns, 20);
    }
}
