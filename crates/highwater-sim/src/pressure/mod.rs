//! Pressure: which share of the time tasks, or all tasks that have something to do, wait for a CPU, for memory or for a
//! device, as `/proc/pressure` tells it (rules/pressure).
//!
//! ```text
//!   tasks sleep, wake, stall --> each CPU's account: how long it has been in which states
//!                                   | every two seconds, weighed by the time that a CPU was not idle
//!                                   v
//!                                totals --> averages over 10, 60 and 300 seconds
//! ```
//!
//! The engine calls [`Pressure`] where it stops, wakes and moves tasks anyway; a simulation that does not measure it pays one
//! test. What is looked at between two collections is computed aside, so that looking changes nothing.
//!
//! Key types: [`Pressure`] (the accounts), [`Reading`] (what the three files say).

pub(crate) mod account;
mod reading;
#[cfg(test)]
mod tests;

pub use reading::{Line, Lines, Reading, Resource};

use highwater_core::config::KernelVersion;
use highwater_core::host::Stall;

use account::Account;
use reading::Averages;

use crate::cpu::CpuId;
use crate::cpu::sched::Sched;
use crate::engine::Sim;
use crate::engine::state::State;
use crate::engine::task::{Placement, Task, TaskIndex};

/// The first kernel that has `/proc/pressure`.
pub const SINCE: KernelVersion = KernelVersion::new(4, 20);
/// Between two collections.
pub(crate) const PERIOD_NS: u64 = 2_000_000_000;

/// What a task is to its CPU's account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Standing {
    pub(crate) cpu: CpuId,
    /// Stalled on memory, asleep or awake.
    memory: bool,
    /// Stalled on memory, and awake: it has a CPU, or waits for one.
    memory_awake: bool,
    /// Asleep until a device is done.
    io: bool,
}

/// Scopes of stalls that a task is in, by [`Stall`].
pub(crate) type Depths = [u8; 2];

/// The accounts of a machine.
#[derive(Debug)]
pub(crate) struct Pressure {
    cpus: Vec<Account>,
    averages: Averages,
    /// Of each task, by its position in the table.
    standings: Vec<Standing>,
    depths: Vec<Depths>,
}

impl Pressure {
    pub(crate) fn new(nr_cpus: usize, now_ns: u64) -> Pressure {
        Pressure {
            cpus: vec![Account::new(now_ns); nr_cpus],
            averages: Averages::new(now_ns),
            standings: Vec::new(),
            depths: Vec::new(),
        }
    }

    /// The scopes of stalls that a task is in.
    pub(crate) fn depths(&mut self, task: usize) -> &mut Depths {
        if self.depths.len() <= task {
            self.depths.resize(task + 1, Depths::default());
        }
        &mut self.depths[task]
    }

    /// Changes a task's state in the account of its CPU and of the one that it left. The task is on
    /// the CPU (or in its queue, or asleep after it ran there), `is_awake` or not; `is_there`: it has
    /// not ended. The scheduler has done its part.
    #[doc(alias = "psi_task_change")]
    #[doc(alias = "psi_task_switch")]
    pub(crate) fn stand(
        &mut self,
        sched: &Sched,
        (task, cpu): (usize, CpuId),
        (is_there, is_awake): (bool, bool),
        now_ns: u64,
    ) {
        let depths = self.depths(task);
        if !is_there {
            // The next one in this position has none.
            *depths = Depths::default();
        }
        let [memory, io] = depths.map(|depth| depth > 0);
        let new = Standing { cpu, memory, memory_awake: memory && is_awake, io: io && !is_awake };
        if self.standings.len() <= task {
            self.standings.resize(task + 1, Standing::default());
        }
        let old = std::mem::replace(&mut self.standings[task], new);
        self.cpus[old.cpu.idx()].leave(old);
        self.cpus[cpu.idx()].join(new);
        self.change(sched, old.cpu, now_ns);
        if cpu != old.cpu {
            self.change(sched, cpu, now_ns);
        }
    }

    fn change(&mut self, sched: &Sched, cpu: CpuId, now_ns: u64) {
        let load = sched.load(cpu);
        let current = load.current.and_then(|task| self.standings.get(task.idx()));
        let reclaims = current.is_some_and(|task| task.memory);
        self.cpus[cpu.idx()].change(load, reclaims, now_ns);
    }

    /// When the next collection is due.
    pub(crate) fn due_at_ns(&self) -> u64 {
        self.averages.due_at_ns()
    }

    /// Collects what has passed up to now, period by period.
    pub(crate) fn collect(&mut self, now_ns: u64) {
        while self.averages.due_at_ns() <= now_ns {
            let at_ns = self.averages.due_at_ns();
            let passed = account::weighed(self.cpus.iter_mut().map(|cpu| cpu.take(at_ns)));
            self.averages.pass(passed);
        }
    }

    /// What the files say at a time.
    pub(crate) fn read(&self, now_ns: u64) -> Reading {
        self.averages.read(account::weighed(self.cpus.iter().map(|cpu| cpu.peek(now_ns))))
    }
}

/// Pressure.
impl Sim {
    /// Measures pressure from now on; until then nothing was stalled.
    pub fn measure_pressure(&self) {
        let now_ns = self.now_ns();
        let state = &mut *self.inner.state.borrow_mut();
        let nr_cpus = state.sched.cpus.len();
        let mut pressure = Pressure::new(nr_cpus, now_ns);
        for task in state.tasks.live() {
            let Task { cpu, state: doing, placement, .. } = state.tasks[task];
            if !matches!(placement, Placement::Interrupt(_)) {
                pressure.stand(&state.sched, (task.idx(), cpu), (true, doing.is_awake()), now_ns);
            }
        }
        state.watch.collect_pressure_at(pressure.due_at_ns());
        state.pressure = Some(Box::new(pressure));
        self.inner.pressing.set(true);
    }

    /// What `/proc/pressure` says now; zeros if nobody [measures](Sim::measure_pressure) it.
    pub fn pressure(&self) -> Reading {
        self.inner.state.borrow().pressure_at(self.now_ns())
    }

    /// True while pressure is measured.
    #[inline(always)]
    pub(crate) fn is_pressing(&self) -> bool {
        self.inner.pressing.get()
    }

    /// A stall of the running task begins, or ends.
    #[cold]
    #[inline(never)]
    pub(crate) fn stall(&self, stall: Stall, begins: bool) {
        let inner = &*self.inner;
        let Some(me) = inner.current() else { return };
        let now_ns = inner.local_ns.get();
        let state = &mut *inner.state.borrow_mut();
        if let Some(pressure) = &mut state.pressure {
            let depth = &mut pressure.depths(me.idx())[stall as usize];
            *depth = if begins { depth.saturating_add(1) } else { depth.saturating_sub(1) };
            // Who is awake does not wait for a device.
            if stall == Stall::Memory
                && !matches!(state.tasks[me].placement, Placement::Interrupt(_))
            {
                let cpu = state.tasks[me].cpu;
                pressure.stand(&state.sched, (me.idx(), cpu), (true, true), now_ns);
            }
        }
    }
}

impl State {
    /// A task has been given a CPU or a place in a queue (`is_awake`), or has left its CPU; `is_there`: it has not ended.
    #[inline(always)]
    pub(crate) fn press(&mut self, task: TaskIndex, is_there: bool, is_awake: bool, now_ns: u64) {
        if let Some(pressure) = &mut self.pressure {
            let cpu = self.tasks[task].cpu;
            pressure.stand(&self.sched, (task.idx(), cpu), (is_there, is_awake), now_ns);
        }
    }

    /// What the files say at a time.
    pub(crate) fn pressure_at(&self, now_ns: u64) -> Reading {
        self.pressure.as_ref().map_or_else(Reading::default, |pressure| pressure.read(now_ns))
    }

    /// Collects what has passed, if it is time; when to look next.
    pub(crate) fn collect_pressure(&mut self, now_ns: u64) -> u64 {
        self.pressure.as_mut().map_or(u64::MAX, |pressure| {
            pressure.collect(now_ns);
            pressure.due_at_ns()
        })
    }
}
