//! Pressure: the share of time in which some tasks, or all non-idle tasks, wait for a resource, as
//! `/proc/pressure` reports it (rules/pressure). The resources are CPUs, memory and devices.
//!
//! ```text
//!   tasks sleep, wake, stall --> each CPU's account: how long it has been in which states
//!                                   | every two seconds, weighed by the time that a CPU was not idle
//!                                   v
//!                                totals --> averages over 10, 60 and 300 seconds
//! ```
//!
//! The engine calls [`Pressure`] where it stops, wakes and moves tasks anyway. A simulation that
//! does not measure pressure pays one test. A reading between two collections is computed
//! separately, so that reading changes nothing.
//!
//! Each memory cgroup has the same of its tasks and of those below it ([`Sim::group_pressure`]).
//!
//! Key types: [`Pressure`] (the accounts), [`Reading`] (the content of the three files), `Level` (the
//! accounts of the machine, or of a group).

mod account;
mod groups;
mod level;
mod reading;
#[cfg(test)]
mod tests;

pub use reading::{Line, Lines, Reading, Resource};

use highwater_core::config::KernelVersion;
use highwater_core::host::Stall;
use highwater_core::units::GroupId;

use account::Work;
use groups::Groups;
use level::Level;

use crate::cpu::CpuId;
use crate::cpu::sched::{Load, Sched};
use crate::engine::Sim;
use crate::engine::state::State;
use crate::engine::task::{Placement, Task, TaskIndex};

/// The first kernel that has `/proc/pressure`.
pub const SINCE: KernelVersion = KernelVersion::new(4, 20);
/// Time between two collections.
pub(crate) const PERIOD_NS: u64 = 2_000_000_000;

/// The state of a task in its CPU's account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Standing {
    pub(crate) cpu: CpuId,
    /// The task's memory cgroup.
    group: GroupId,
    /// It has a CPU or waits for one.
    awake: bool,
    /// It has the CPU.
    has_cpu: bool,
    /// Stalled on memory, asleep or awake.
    memory: bool,
    /// Stalled on memory, and awake: it has a CPU or waits for one.
    memory_awake: bool,
    /// Asleep until a device is done.
    io: bool,
}

/// Nesting depth of a task's stalls, by [`Stall`].
pub(crate) type Depths = [u8; 2];

/// The accounts of a machine.
#[derive(Debug)]
pub(crate) struct Pressure {
    machine: Level,
    groups: Groups,
    /// States of the tasks, by position in the task table.
    standings: Vec<Standing>,
    depths: Vec<Depths>,
}

impl Pressure {
    pub(crate) fn new(nr_cpus: usize, now_ns: u64) -> Pressure {
        Pressure {
            machine: Level::new(nr_cpus, now_ns, now_ns + PERIOD_NS),
            groups: Groups::default(),
            standings: Vec::new(),
            depths: Vec::new(),
        }
    }

    /// Nesting depth of a task's stalls.
    pub(crate) fn depths(&mut self, task: usize) -> &mut Depths {
        if self.depths.len() <= task {
            self.depths.resize(task + 1, Depths::default());
        }
        &mut self.depths[task]
    }

    /// Changes a task's state in the account of its CPU and of the CPU that it left. The task is on
    /// the CPU (or in its queue, or asleep after it ran there). `is_awake`: it runs or is runnable.
    /// `is_there`: it has not ended. The scheduler must be up to date.
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
            // The next task in this position begins without stalls.
            *depths = Depths::default();
        }
        let [memory, io] = depths.map(|depth| depth > 0);
        if self.standings.len() <= task {
            self.standings.resize(task + 1, Standing::default());
        }
        let (old, load) = (self.standings[task], sched.load(cpu));
        let new = Standing {
            cpu,
            group: if is_there { old.group } else { GroupId::ROOT },
            awake: is_awake,
            has_cpu: load.current.is_some_and(|current| current.idx() == task),
            memory,
            memory_awake: memory && is_awake,
            io: io && !is_awake,
        };
        self.standings[task] = new;
        self.machine.leave(old);
        self.machine.join(new);
        if cpu != old.cpu {
            self.change(old.cpu, sched.load(old.cpu), now_ns);
        }
        self.change(cpu, load, now_ns);
        if !old.group.is_root() {
            self.groups.stand(old, new, now_ns);
        }
    }

    fn change(&mut self, cpu: CpuId, load: Load, now_ns: u64) {
        let current = load.current.and_then(|task| self.standings.get(task.idx()));
        let reclaims = current.is_some_and(|task| task.memory);
        let (running, reclaiming) = (u32::from(load.current.is_some()), u32::from(reclaims));
        self.machine.change(cpu, Work { runnable: load.runnable, running, reclaiming }, now_ns);
    }

    /// Time of the next collection.
    pub(crate) fn due_at_ns(&self) -> u64 {
        self.machine.due_at_ns()
    }

    /// Collects the time up to now, period by period.
    pub(crate) fn collect(&mut self, now_ns: u64) {
        while self.machine.due_at_ns() <= now_ns {
            self.groups.collect();
            self.machine.collect();
        }
    }

    /// Content of the files at a time.
    pub(crate) fn read(&self, now_ns: u64) -> Reading {
        self.machine.read(now_ns).of_machine()
    }
}

/// Pressure.
impl Sim {
    /// Measures pressure from now on; earlier time counts as not stalled.
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

    /// Content of `/proc/pressure` now; zeros if pressure is not [measured](Sim::measure_pressure).
    pub fn pressure(&self) -> Reading {
        self.inner.state.borrow().pressure_at(self.now_ns())
    }

    /// True while pressure is measured.
    #[inline(always)]
    pub(crate) fn is_pressing(&self) -> bool {
        self.inner.pressing.get()
    }

    /// A stall of the running task begins or ends.
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
            // A task that is awake does not wait for a device.
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
    /// A task got a CPU or a place in a queue (`is_awake`), or has left its CPU. `is_there`: it has
    /// not ended.
    #[inline(always)]
    pub(crate) fn press(&mut self, task: TaskIndex, is_there: bool, is_awake: bool, now_ns: u64) {
        if let Some(pressure) = &mut self.pressure {
            let cpu = self.tasks[task].cpu;
            pressure.stand(&self.sched, (task.idx(), cpu), (is_there, is_awake), now_ns);
        }
    }

    /// Content of the files at a time.
    pub(crate) fn pressure_at(&self, now_ns: u64) -> Reading {
        self.pressure.as_ref().map_or_else(Reading::default, |pressure| pressure.read(now_ns))
    }

    /// Runs a collection if one is due; returns the time of the next.
    pub(crate) fn collect_pressure(&mut self, now_ns: u64) -> u64 {
        self.pressure.as_mut().map_or(u64::MAX, |pressure| {
            pressure.collect(now_ns);
            pressure.due_at_ns()
        })
    }
}
