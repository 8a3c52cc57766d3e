//! The fair policies, CFS and EEVDF, over all CPUs: a run queue for each, ticks, wake-ups.
//!
//! The engine has no event for a tick. Nothing looks at a tick before the running task does, or a
//! task that wakes onto its CPU, so a queue catches up on its ticks then ([`Fair::catch_up`]). A
//! running task has to look at its CPU's next tick while other tasks wait
//! ([`Cpu::resched_at_ns`](super::Cpu)), and at once if a wake-up preempts it.

use super::entity::{Entities, Standing};
use super::run_queue::RunQueue;
use super::{Candidate, Leaves, Placed, Sched, SchedPolicy};
use crate::cpu::{CpuId, Nice};
use crate::engine::clock::{NS_PER_JIFFY, next_tick_ns};
use crate::engine::task::TaskIndex;

/// Run queues of all CPUs.
pub(super) struct Fair {
    pub(super) cpus: Vec<FairCpu>,
    pub(super) entities: Entities,
}

/// One CPU.
pub(super) struct FairCpu {
    pub(super) queue: RunQueue,
    /// The queue knows of all ticks before this one.
    tick_at_ns: u64,
    /// Times of the next balance with busy CPUs: of the node, of the machine.
    pub(super) balance_at_ns: [u64; 2],
}

/// The reason why a task becomes a member of a run queue.
#[derive(Clone, Copy)]
pub(super) enum Joins {
    /// It woke, or it is new. The task that woke or started it, if there is one.
    Woken(Option<TaskIndex>),
    /// It waited for another CPU.
    Moved,
}

/// The running task's look at a tick that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// It has just looked.
    Done,
    /// It has not looked yet: a wake-up or a poll may only bring the look forward.
    Kept,
}

impl Fair {
    /// Run queues of a policy; `None` for the policy that has none.
    pub(super) fn new(policy: SchedPolicy, nr_cpus: usize) -> Option<Fair> {
        let queue: fn(usize) -> RunQueue = match policy {
            SchedPolicy::Fifo => return None,
            SchedPolicy::Cfs => RunQueue::cfs,
            SchedPolicy::Eevdf => RunQueue::eevdf,
        };
        let cpu =
            |_| FairCpu { queue: queue(nr_cpus), tick_at_ns: u64::MAX, balance_at_ns: [0; 2] };
        Some(Fair { cpus: (0..nr_cpus).map(cpu).collect(), entities: Entities::default() })
    }

    /// A task exists from now on.
    pub(super) fn begin(&mut self, task: TaskIndex, nice: Nice, cpu: CpuId) {
        self.entities.begin(task, nice, cpu);
    }

    /// Accounts the ticks of a CPU up to now.
    pub(super) fn catch_up(&mut self, cpu: CpuId, now_ns: u64) {
        let cpu = &mut self.cpus[cpu.idx()];
        if cpu.queue.current().is_none() {
            return;
        }
        while cpu.tick_at_ns <= now_ns {
            cpu.queue.tick(&mut self.entities, cpu.tick_at_ns);
            cpu.tick_at_ns += NS_PER_JIFFY;
        }
    }

    /// A task waits for a CPU from now on.
    fn join(&mut self, cpu: CpuId, task: TaskIndex, joins: Joins, now_ns: u64) {
        self.catch_up(cpu, now_ns);
        // The queue's virtual time is that of now, before another virtual runtime is counted from it.
        self.cpus[cpu.idx()].queue.update(&mut self.entities, now_ns);
        let here_v = self.cpus[cpu.idx()].queue.min_v();
        let before = self.entities[task].cpu;
        let there_v = self.cpus[before.idx()].queue.min_v();
        let parent_v = match joins {
            Joins::Woken(Some(parent)) if self.entities[task].is_new => {
                self.v_of_running(parent, now_ns).map(|v| here_v + v)
            }
            _ => None,
        };
        let (queue, entities) = (&mut self.cpus[cpu.idx()].queue, &mut self.entities);
        entities[task].cpu = cpu;
        match joins {
            Joins::Moved => queue.attach(entities, task, there_v, now_ns),
            Joins::Woken(_) if std::mem::take(&mut entities[task].is_new) => {
                queue.begin(entities, task, parent_v, now_ns);
            }
            Joins::Woken(_) => {
                if before != cpu {
                    entities[task].v += here_v - there_v;
                }
                queue.wake(entities, task, now_ns);
            }
        }
    }

    /// Virtual runtime of a running task, from its queue's virtual time on.
    fn v_of_running(&mut self, task: TaskIndex, now_ns: u64) -> Option<i64> {
        let entity = *self.entities.get(task)?;
        if entity.standing != Standing::Running {
            return None;
        }
        self.catch_up(entity.cpu, now_ns);
        let queue = &mut self.cpus[entity.cpu.idx()].queue;
        queue.update(&mut self.entities, now_ns);
        Some(self.entities[task].v - queue.min_v())
    }

    /// The picked task has the CPU from `starts_ns` on.
    fn start(&mut self, cpu: CpuId, task: TaskIndex, starts_ns: u64) {
        let cpu = &mut self.cpus[cpu.idx()];
        cpu.queue.start(&mut self.entities, task, starts_ns);
        cpu.tick_at_ns = next_tick_ns(starts_ns);
    }
}

/// Functions of the fair policies. Each does nothing under `fifo`.
impl Sched {
    /// True under CFS and EEVDF.
    pub(crate) fn is_fair(&self) -> bool {
        self.fair.is_some()
    }

    /// A task that is alone on its CPU from `starts_ns` on.
    pub(super) fn fair_starts_alone(
        &mut self,
        cpu: CpuId,
        task: TaskIndex,
        joins: Joins,
        starts_ns: u64,
    ) {
        if let Some(fair) = &mut self.fair {
            fair.join(cpu, task, joins, starts_ns);
            fair.start(cpu, task, starts_ns);
        }
    }

    /// The task waits for a busy CPU from now on. Returns true if it preempts the running one.
    pub(super) fn fair_waits(
        &mut self,
        cpu: CpuId,
        task: TaskIndex,
        joins: Joins,
        now_ns: u64,
    ) -> bool {
        if let Some(fair) = &mut self.fair {
            fair.join(cpu, task, joins, now_ns);
        }
        self.set_resched(cpu, now_ns, Look::Kept)
    }

    /// CPU of a sleeping task that is still a member of its run queue: it wakes there.
    pub(super) fn fair_stays_on(&self, task: TaskIndex) -> Option<CpuId> {
        let entity = self.fair.as_ref()?.entities[task];
        (entity.standing == Standing::Delayed).then_some(entity.cpu)
    }

    /// Gives a woken task a place under a fair policy. Called if the CPU where it ran last is not idle.
    pub(super) fn place_fairly(&mut self, candidate: Candidate, now_ns: u64) -> Placed {
        let joins = Joins::Woken(candidate.woken_by.map(|(waker, _)| waker));
        let cpu = match self.fair_stays_on(candidate.task) {
            Some(cpu) => cpu,
            None => self.select_fairly(candidate),
        };
        if self.is_idle(cpu) {
            let at_ns = self.start_on_idle(cpu, candidate.task, joins, now_ns);
            return Placed::Starts { cpu, at_ns };
        }
        let preempts = self.fair_waits(cpu, candidate.task, joins, now_ns);
        self.nr_queued += 1;
        Placed::Queued { cpu, preempts }
    }

    /// Sets the time at which the running task of a CPU looks whether it must leave: now, at the
    /// next tick, or never. Returns true for now.
    pub(super) fn set_resched(&mut self, cpu: CpuId, now_ns: u64, look: Look) -> bool {
        let Some(fair) = &self.fair else { return false };
        let queue = &fair.cpus[cpu.idx()].queue;
        let slot = &mut self.cpus[cpu.idx()];
        if queue.needs_resched() {
            slot.resched_at_ns = slot.resched_at_ns.min(now_ns);
            return true;
        }
        let next_ns = if queue.waiting().is_empty() { u64::MAX } else { next_tick_ns(now_ns) };
        slot.resched_at_ns = match look {
            Look::Done => next_ns,
            Look::Kept if next_ns == u64::MAX => next_ns,
            Look::Kept => slot.resched_at_ns.min(next_ns),
        };
        false
    }

    /// True if the running task of a CPU is marked to leave it (`need_resched`).
    pub(crate) fn is_marked(&mut self, cpu: CpuId, now_ns: u64) -> bool {
        if let Some(fair) = &mut self.fair {
            fair.catch_up(cpu, now_ns);
        }
        self.set_resched(cpu, now_ns, Look::Kept)
    }

    /// True if the running task of a CPU must leave it now: it is marked, and the turn is another
    /// task's.
    #[doc(alias = "schedule")]
    pub(crate) fn must_leave(&mut self, cpu: CpuId, now_ns: u64) -> bool {
        let Some(fair) = &mut self.fair else { return false };
        fair.catch_up(cpu, now_ns);
        if !self.set_resched(cpu, now_ns, Look::Done) {
            return false;
        }
        let Some(fair) = &mut self.fair else { return false };
        let queue = &mut fair.cpus[cpu.idx()].queue;
        let Some(current) = queue.current() else { return false };
        if queue.pick(&mut fair.entities, now_ns) != Some(current) {
            return true;
        }
        queue.start(&mut fair.entities, current, now_ns);
        self.set_resched(cpu, now_ns, Look::Done);
        false
    }

    /// The running task of a CPU lets others go first. Returns true if it must leave the CPU.
    #[doc(alias = "sched_yield")]
    pub(crate) fn yield_on(&mut self, cpu: CpuId, now_ns: u64) -> bool {
        if let Some(fair) = &mut self.fair {
            fair.catch_up(cpu, now_ns);
            fair.cpus[cpu.idx()].queue.yield_now(&mut fair.entities, now_ns);
        }
        self.must_leave(cpu, now_ns)
    }

    /// As [`Sched::next_on`].
    pub(super) fn next_fairly(
        &mut self,
        cpu: CpuId,
        leaves: Leaves,
        candidate_of: impl Fn(TaskIndex) -> Candidate,
    ) -> Option<(TaskIndex, u64)> {
        let now_ns = self.cpus[cpu.idx()].local_ns;
        let fair = self.fair.as_mut()?;
        fair.catch_up(cpu, now_ns);
        let (queue, entities) = (&mut fair.cpus[cpu.idx()].queue, &mut fair.entities);
        match leaves {
            Leaves::Stays => {}
            Leaves::Sleeps => queue.block(entities, now_ns),
            Leaves::Ends => queue.end(entities, now_ns),
        }
        let before = queue.current();
        let mut next = queue.pick(entities, now_ns);
        if next.is_none() {
            next = self.pull(cpu, now_ns, candidate_of);
        }
        let Some(task) = next else {
            self.set_idle(cpu);
            return None;
        };
        // A task that only let others look goes on without a switch.
        let switch_ns = if before == next { 0 } else { self.params.context_switch_ns };
        let slot = &mut self.cpus[cpu.idx()];
        slot.times.system_ns += switch_ns;
        slot.local_ns += switch_ns;
        slot.current = next;
        let starts_ns = slot.local_ns;
        if before.is_none() {
            self.nr_queued -= 1;
        }
        if let Some(fair) = &mut self.fair {
            fair.start(cpu, task, starts_ns);
        }
        self.set_resched(cpu, starts_ns, Look::Done);
        Some((task, starts_ns))
    }

    /// Number of tasks that wait for a CPU under a fair policy.
    pub(super) fn nr_waiting_fairly(&self, cpu: CpuId) -> usize {
        self.fair.as_ref().map_or(0, |fair| fair.cpus[cpu.idx()].queue.nr_waiting())
    }
}
