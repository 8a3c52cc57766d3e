//! A whole machine: boots the kernel on a [`SimHost`], starts its daemons and its disks'
//! interrupts, runs programs.
//!
//! Key types: [`MachineConfig`] (hardware, costs and policy), [`SimMachine`] (the machine; owns the
//! run), [`SimKernel`] (host and kernel, for programs that start further tasks).
//!
//! ```
//! use highwater_core::config::{Machine, preset};
//! use highwater_sim::cost::{CostModel, CostTable};
//! use highwater_sim::engine::Placement;
//! use highwater_sim::machine::{MachineConfig, SimMachine};
//!
//! let shape = Machine::from_sizes("small", &[(256 << 20, vec![0, 1])])?;
//! let costs = CostModel::new(&CostTable::server_3ghz());
//! let mut machine = SimMachine::boot(MachineConfig::new(shape, costs, preset("6.1").unwrap()))?;
//! let program = machine.spawn_task("program", Placement::Anywhere, |cx, kernel| {
//!     cx.host.sim().charge(1_000);
//!     kernel.mem.nr_free_pages()
//! });
//! machine.run()?;
//! assert!(program.take().unwrap() > 50_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | task | runs | flags |
//! |---|---|---|
//! | kswapd of a node | on the node's CPUs | KTHREAD, MEMALLOC |
//! | flusher of a device, OOM reaper | anywhere | KTHREAD |
//! | vmstat/N: folds counters once a second | on CPU N | KTHREAD |
//! | irq/D/N: ends the transfers of disk D | in interrupts of CPU N | IN_INTERRUPT |
//!
//! All of them are daemons: the run ends when the last program has ended.

use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use highwater_core::Kernel;
use highwater_core::config::{Machine, MachineError, Policy};
use highwater_core::host::{CpuId, Cx, HZ, TaskFlags};
use highwater_core::kernel::{Daemon, DaemonCpus, KernelSpec};
use highwater_core::page_alloc::boot;
use highwater_core::swap::SwapSpec;

use crate::cost::CostModel;
use crate::cpu::{Nice, SchedPolicy};
use crate::digest::{Digest, DigestPlan};
use crate::disk::DiskSpec;
use crate::engine::{
    Engine, EngineConfig, JoinHandle, Outcome, Placement, RunError, Sim, Spawn, StackClass,
};
use crate::host::{SimHost, Tracing, engine_config};

/// Configuration of a machine.
pub struct MachineConfig {
    /// Nodes, CPUs, memory, sysctls.
    pub machine: Machine,
    /// Costs of operations.
    pub costs: CostModel,
    /// Policy of the kernel.
    pub policy: Policy,
    /// Disks, by device number.
    pub disks: Vec<DiskSpec>,
    /// Swap areas on the disks.
    pub swap: Vec<SwapSpec>,
    /// Seed of every random stream that belongs to the machine.
    pub seed: u64,
    /// Destination of trace events.
    pub tracing: Tracing,
    /// Events that the run's digest keeps.
    pub digest: DigestPlan,
    /// Programs may ask for huge pages: khugepaged also runs under `Thp::Madvise`.
    pub advised: bool,
    /// Memory cgroups that there is room for, beside the root; 0: the kernel has none.
    pub groups: u16,
}

impl MachineConfig {
    /// A machine without disks and swap, seed 0, trace events dropped. With `Thp::Madvise` (the
    /// default), programs that ask for huge pages get them by faults, but khugepaged does not run
    /// unless [`MachineConfig::advised`] is set.
    pub fn new(machine: Machine, costs: CostModel, policy: Policy) -> Self {
        MachineConfig {
            machine,
            costs,
            policy,
            disks: Vec::new(),
            swap: Vec::new(),
            seed: 0,
            tracing: Tracing::default(),
            digest: DigestPlan::default(),
            advised: false,
            groups: 0,
        }
    }
}

/// The reason why a machine does not boot.
#[derive(Debug)]
pub enum BootError {
    /// Such a machine cannot exist.
    Machine(MachineError),
    /// The kernel does not start on it.
    Kernel(highwater_core::kernel::Error),
}

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BootError::Machine(error) => error.fmt(f),
            BootError::Kernel(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BootError {}

/// A booted machine. Derefs to its [`SimKernel`].
pub struct SimMachine {
    /// Dropped first: unwinding the tasks that are left needs the kernel.
    engine: Engine,
    parts: SimKernel,
}

/// Host and kernel of a machine. Cheap to clone, so that a program can start others.
#[derive(Clone)]
pub struct SimKernel {
    /// The host.
    pub host: Rc<SimHost>,
    /// The kernel.
    pub kernel: Rc<Kernel<SimHost>>,
}

impl Deref for SimMachine {
    type Target = SimKernel;

    fn deref(&self) -> &SimKernel {
        &self.parts
    }
}

impl SimMachine {
    /// Boots the kernel and starts its daemons; nothing has run yet.
    ///
    /// # Errors
    /// If the machine cannot exist or the kernel does not start on it.
    pub fn boot(config: MachineConfig) -> Result<Self, BootError> {
        Self::boot_with(config, |_, _| ())
    }

    /// As [`SimMachine::boot`]; `prepare` changes the kernel before its daemons start. The time that it
    /// charges is part of the boot.
    ///
    /// # Errors
    /// As [`SimMachine::boot`].
    pub fn boot_with(
        config: MachineConfig,
        prepare: impl FnOnce(&Cx<'_, SimHost>, &Kernel<SimHost>),
    ) -> Result<Self, BootError> {
        let MachineConfig {
            machine,
            costs,
            policy,
            disks,
            swap,
            seed,
            tracing,
            digest,
            advised,
            groups,
        } = config;
        machine.validate().map_err(BootError::Machine)?;
        let mut costs = costs;
        costs.sched.policy =
            costs.sched_named.unwrap_or_else(|| SchedPolicy::of_kernel(policy.kernel));
        let engine = Engine::new(&EngineConfig { digest, ..engine_config(&machine, &costs) });
        let host = SimHost::new(engine.sim(), &machine, costs, tracing).with_disks(&disks, seed);
        let memory = boot(&host, &machine, &policy).map_err(BootError::Machine)?;
        let spec =
            KernelSpec { devices: disks.iter().map(DiskSpec::device).collect(), swap, groups };
        let kernel = Kernel::new(&Cx::new(&host, CpuId(0)), memory, &spec);
        let kernel = Rc::new(kernel.map_err(BootError::Kernel)?);
        prepare(&Cx::new(&host, CpuId(0)), &kernel);
        let parts = SimKernel { host: Rc::new(host), kernel };
        parts.start_interrupts();
        parts.start_daemons(advised);
        Ok(SimMachine { engine, parts })
    }

    /// Runs until the last program has ended.
    ///
    /// # Errors
    /// If programs wait for each other or for nothing, or a task panics.
    pub fn run(&mut self) -> Result<(), RunError> {
        self.engine.run()
    }

    /// Runs until the last program has ended, or until `limit_ns` of virtual time.
    ///
    /// # Errors
    /// As [`SimMachine::run`].
    pub fn run_until(&mut self, limit_ns: u64) -> Result<Outcome, RunError> {
        self.engine.run_until(limit_ns)
    }

    /// Like [`SimMachine::run`], with a time limit. A run that is not done at `limit_ns` is an
    /// error that names every task.
    ///
    /// # Errors
    /// As [`SimMachine::run`].
    pub fn run_within(&mut self, limit_ns: u64) -> Result<(), RunError> {
        self.engine.run_within(limit_ns)
    }

    /// The engine: events, deadlock reports.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The digest of everything that happened so far.
    pub fn digest(&self) -> Digest {
        self.engine.digest()
    }
}

impl SimKernel {
    /// The simulation: time, CPU times, lock statistics.
    pub fn sim(&self) -> &Sim {
        self.host.sim()
    }

    /// Starts a program: a task with its own context.
    pub fn spawn_task<T: 'static>(
        &self,
        name: impl Into<Rc<str>>,
        placement: Placement,
        body: impl FnOnce(&Cx<'_, SimHost>, &Rc<Kernel<SimHost>>) -> T + 'static,
    ) -> JoinHandle<T> {
        self.spawn(Spawn::new(name).placement(placement), TaskFlags::empty(), body)
    }

    /// As [`SimKernel::spawn_task`], with all parameters of a task.
    pub fn spawn_as<T: 'static>(
        &self,
        spawn: Spawn,
        body: impl FnOnce(&Cx<'_, SimHost>, &Rc<Kernel<SimHost>>) -> T + 'static,
    ) -> JoinHandle<T> {
        self.spawn(spawn, TaskFlags::empty(), body)
    }

    /// A context for code outside tasks (setting up, audits). It must not wait.
    pub fn outside(&self) -> Cx<'_, SimHost> {
        Cx::new(&*self.host, CpuId(0))
    }

    fn spawn<T: 'static>(
        &self,
        spawn: Spawn,
        flags: TaskFlags,
        body: impl FnOnce(&Cx<'_, SimHost>, &Rc<Kernel<SimHost>>) -> T + 'static,
    ) -> JoinHandle<T> {
        let SimKernel { host, kernel } = self.clone();
        self.sim().spawn(spawn.stack(StackClass::Large), move |sim| {
            let cx = Cx::new(&*host, sim.cpu());
            cx.set_flags(flags);
            body(&cx, &kernel)
        })
    }

    fn start_daemons(&self, advised: bool) {
        let for_advice = self.kernel.khugepaged_for_advice().filter(|_| advised);
        // Under `fifo` all daemons have nice 0: its results stay those of older versions.
        let is_fair = self.host.costs().sched.policy != SchedPolicy::Fifo;
        let nice = |daemon: Daemon| Nice::new(daemon.nice()).filter(|_| is_fair);
        for daemon in self.kernel.daemons().into_iter().chain(for_advice) {
            let placement = match daemon.runs_on() {
                DaemonCpus::Node(node) => Placement::Node(node.0),
                DaemonCpus::Cpu(cpu) => Placement::Pinned(cpu),
                DaemonCpus::Any => Placement::Anywhere,
            };
            let spawn = Spawn::new(daemon.name()).placement(placement).kernel_thread();
            let spawn = spawn.nice(nice(daemon).unwrap_or_default());
            self.spawn(spawn, TaskFlags::KTHREAD, move |cx, kernel| kernel.run_daemon(cx, daemon));
        }
        for cpu in self.cpus() {
            let spawn = Spawn::new(format!("vmstat/{}", cpu.0)).pinned(cpu).kernel_thread();
            self.spawn(spawn, TaskFlags::KTHREAD, |cx, kernel| {
                loop {
                    cx.host.sim().sleep_jiffies(HZ);
                    kernel.mem.refresh_cpu_stats(cx);
                }
            });
        }
    }

    fn start_interrupts(&self) {
        for device in self.host.interrupting_disks() {
            for cpu in self.cpus() {
                let name = format!("irq/{}/{}", device.0, cpu.0);
                let spawn = Spawn::new(name).placement(Placement::Interrupt(cpu)).kernel_thread();
                self.spawn(spawn, TaskFlags::IN_INTERRUPT, move |cx, kernel| {
                    cx.host.serve_interrupts(device, cx, |request, result| {
                        kernel.end_request(cx, request, result);
                    });
                });
            }
        }
    }

    fn cpus(&self) -> impl Iterator<Item = CpuId> + use<> {
        (0..self.sim().nr_cpus() as u16).map(CpuId)
    }
}
