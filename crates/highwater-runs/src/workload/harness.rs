//! A simulated machine from boot to audit: the steps that every run shares, of a workload and of a
//! check.
//!
//! | step | here |
//! |---|---|
//! | the unit's machine, policy, seed and costs | [`config`] |
//! | boot, the machine's start state, pressure measurement, and the ledger if the run is explained | [`boot`] |
//! | tasks: the result and CPU time of each | [`timed`], [`finished`] |
//! | samples of counters, if wanted | [`sample`] |
//! | until nothing is left to run | [`run_to_end`] |
//! | all activity finishes; every frame is in its place | [`settle_and_audit`] |

use std::rc::Rc;
use std::sync::Arc;

use highwater_core::Kernel;
use highwater_core::host::{CpuId, Cx, HZ, Host};
use highwater_core::page_alloc::{self, PageAllocator};
use highwater_results::Times;
use highwater_results::explain::ExplainedRun;
use highwater_sim::engine::{Engine, JoinHandle, Placement, Sim, TaskTimes};
use highwater_sim::host::{SimHost, Tracing, engine_config};
use highwater_sim::machine::{MachineConfig, SimMachine};

use super::{RunError, Unit};
use crate::ledger;
use crate::recorder::Recorder;
use crate::sampling::{More, See};
use crate::start;

/// Ten seconds, in which flushers and kswapd finish.
const SETTLE_JIFFIES: u64 = 10 * HZ;
/// Most further seconds for slow disks to finish.
const QUIET_SECONDS_MAX: u32 = 3600;

/// The result of a task, and its CPU time.
pub type Timed<T> = (T, TaskTimes);

/// The unit's machine, with its costs, policy and seed; no disks.
///
/// # Errors
/// If the machine file has no usable costs.
pub fn config(unit: &Unit<'_>) -> Result<MachineConfig, RunError> {
    let costs = unit.machine.costs().map_err(RunError::Costs)?;
    let shape = unit.machine.machine.clone();
    let mut config = MachineConfig::new(shape, costs, unit.policy.clone());
    config.seed = unit.seed;
    Ok(config)
}

/// Pages that a unit's machine manages at boot.
pub fn managed_pages(unit: &Unit<'_>) -> u64 {
    unit.machine.machine.managed_pages()
}

/// A unit's page allocator alone: no disks, no daemons.
pub(crate) struct AllocatorOnly {
    /// Runs the tasks.
    pub(crate) engine: Engine,
    /// The simulated time and CPUs.
    pub(crate) sim: Sim,
    /// The host of the allocator.
    pub(crate) host: Rc<SimHost>,
    /// The booted memory.
    pub(crate) memory: Rc<PageAllocator<SimHost>>,
}

/// Boots the page allocator of a unit's machine, watched and sampled as the unit says.
///
/// # Errors
/// If the machine file has no usable costs, or the machine cannot boot.
pub(crate) fn boot_allocator(unit: &Unit<'_>) -> Result<AllocatorOnly, RunError> {
    if unit.files.is_some() {
        let reason = "this workload runs the page allocator alone, without a kernel that has files";
        return Err(RunError::Files(reason.to_owned()));
    }
    let machine = &unit.machine.machine;
    let costs = unit.machine.costs().map_err(RunError::Costs)?;
    let engine = Engine::new(&engine_config(machine, &costs));
    let sim = engine.sim().clone();
    let tracing = recorded(unit, Tracing { digest: true, ..Tracing::default() });
    let host = Rc::new(SimHost::new(&sim, machine, costs, tracing));
    let memory = page_alloc::boot(&*host, machine, unit.policy)
        .map_err(|reason| RunError::Machine { name: unit.machine.name.clone(), reason })?;
    start_at(&memory, &Cx::new(&*host, CpuId(0)), unit)?;
    let memory = Rc::new(memory);
    watch(&sim, unit);
    let pages = Rc::downgrade(&memory);
    sample(&sim, unit, None, move |see| {
        if let Some(pages) = pages.upgrade() {
            see(&pages);
        }
    });
    Ok(AllocatorOnly { engine, sim, host, memory })
}

/// Boots a machine of a unit.
///
/// # Errors
/// If it cannot exist.
pub fn boot(unit: &Unit<'_>, config: MachineConfig) -> Result<SimMachine, RunError> {
    boot_and_tell(unit, config, None)
}

/// The same; a workload adds columns to samples.
///
/// # Errors
/// As [`boot`].
pub fn boot_and_tell(
    unit: &Unit<'_>,
    config: MachineConfig,
    more: Option<More>,
) -> Result<SimMachine, RunError> {
    let tracing = recorded(unit, config.tracing);
    let config = MachineConfig { tracing, ..config };
    let name = &unit.machine.name;
    let mut started = Ok(());
    let prepare = |cx: &Cx<'_, SimHost>, kernel: &Kernel<SimHost>| {
        started = start_at(&kernel.mem, cx, unit);
    };
    let machine = SimMachine::boot_with(config, prepare)
        .map_err(|error| RunError::Boot(format!("machine {name}: {error}")))?;
    started?;
    watch(machine.sim(), unit);
    let kernel = Rc::downgrade(&machine.kernel);
    if let Some(files) = unit.files {
        // Before samples: a watched run stands still at them.
        let kernel = kernel.clone();
        files.start(machine.sim(), move || kernel.upgrade());
    }
    let groups = Some(kernel.clone());
    let look = move |see: &mut See<'_>| {
        if let Some(kernel) = kernel.upgrade() {
            see(&kernel.mem);
        }
    };
    if let Some(watcher) = unit.watcher {
        watcher.start(machine.sim(), look, groups);
    } else {
        sample(machine.sim(), unit, more, look);
    }
    Ok(machine)
}

/// Brings the memory into the state in which the unit's machine starts, if it has one.
fn start_at<H: Host>(
    memory: &PageAllocator<H>,
    cx: &Cx<'_, H>,
    unit: &Unit<'_>,
) -> Result<(), RunError> {
    let Some(state) = &unit.machine.state else { return Ok(()) };
    start::restore(memory, cx, state).map_err(|misfit| {
        RunError::Boot(format!(
            "machine {}: state {}: {}",
            unit.machine.name, state.name, misfit.reason
        ))
    })
}

/// Starts sampling a unit's memory, if the unit wants samples. `look` gives access while the memory
/// exists. It must not own the memory, because the simulation owns `look` and the memory belongs to
/// the simulation.
pub fn sample(
    sim: &Sim,
    unit: &Unit<'_>,
    more: Option<More>,
    look: impl Fn(&mut See<'_>) + 'static,
) {
    // A recorded or watched unit takes no further samples.
    if let Some(watcher) = unit.watcher {
        return watcher.start(sim, look, None);
    }
    if let Some(sampling) = unit.recorder.map(Recorder::sampling).or(unit.sampling) {
        sampling.start(sim, more, look);
    }
}

/// The tracing mode for a unit, including the events that its recording wants.
pub fn recorded(unit: &Unit<'_>, tracing: Tracing) -> Tracing {
    match unit.recorder {
        Some(recorder) => Tracing { journal: recorder.kinds(), ..tracing },
        None => tracing,
    }
}

/// Measures pressure, opens the ledger if time is to be explained, and publishes virtual time to a
/// watcher.
pub fn watch(sim: &Sim, unit: &Unit<'_>) {
    sim.measure_pressure();
    ledger::open(sim, unit);
    if let Some(clock) = unit.clock {
        sim.tell_passed(Arc::clone(clock));
    }
}

/// Runs until no task of a program is left.
///
/// # Errors
/// If the simulation gets stuck, a task panics, or the watcher of its progress stops it.
pub fn run_to_end(machine: &mut SimMachine) -> Result<(), RunError> {
    Ok(machine.run()?)
}

/// Closes what accompanies a unit, before the audit, whose time belongs to no operation: the unit's
/// files get the state of this time, and the ledger says where the time of operations went, if the
/// unit wants it. An operation is a task's work between `op_begin` and `op_end` of its host.
///
/// # Errors
/// If some time has no cause.
pub fn ended(machine: &SimMachine, unit: &Unit<'_>) -> Result<Option<ExplainedRun>, RunError> {
    if let Some(files) = unit.files {
        files.finish(machine.sim(), &machine.kernel);
    }
    ledger::close(machine.sim(), unit)
}

/// Runs a body and measures the CPU time of its task.
pub fn timed<T>(cx: &Cx<'_, SimHost>, body: impl FnOnce() -> T) -> Timed<T> {
    let result = body();
    let sim = cx.host.sim();
    sim.sync();
    let times = sim.current().and_then(|me| sim.task_times(me)).unwrap_or_default();
    (result, times)
}

/// A task's result; adds its times to `times`.
///
/// # Errors
/// If it left no result.
pub fn finished<T>(task: &JoinHandle<Timed<T>>, times: &mut Times) -> Result<T, RunError> {
    let (result, used) = task.take().ok_or_else(|| lost("task"))?;
    times.user_ns += used.user_ns;
    times.system_ns += used.system_ns;
    Ok(result)
}

/// A task ended without a result.
pub fn lost(who: &str) -> RunError {
    RunError::Stuck(format!("a {who} left no result"))
}

/// Lets all activity finish, and verifies that every frame is in its place.
///
/// `before` runs first, in the auditor's task: benchmarks delete their files there.
///
/// # Errors
/// If the memory is not consistent, or the machine hangs.
pub fn settle_and_audit(
    machine: &mut SimMachine,
    before: impl FnOnce(&Cx<'_, SimHost>, &Kernel<SimHost>) + 'static,
) -> Result<(), RunError> {
    // The time from here on is not the workload's.
    machine.sim().sample_every(0, |_, _| {});
    machine.sim().tell_passed_to_nobody();
    let auditor = machine.spawn_task("auditor", Placement::Anywhere, move |cx, kernel| {
        before(cx, kernel);
        cx.host.sleep_jiffies(SETTLE_JIFFIES);
        // Flushers are done; a slow disk may still have full queues.
        let is_busy = || kernel.block.devices.iter().any(|device| device.in_flight() > 0);
        for _ in 0..QUIET_SECONDS_MAX {
            if !is_busy() {
                break;
            }
            cx.host.sleep_jiffies(HZ);
        }
        audit_at_rest(kernel, cx)
    });
    run_to_end(machine)?;
    auditor.take().ok_or_else(|| lost("auditor"))?
}

/// Deletes a benchmark's files at its end: for [`settle_and_audit`].
pub fn delete_files(cx: &Cx<'_, SimHost>, kernel: &Kernel<SimHost>) {
    for file in kernel.all_files(cx) {
        kernel.delete_file(cx, &file);
    }
}

/// [`audit_kernel`], run by a task while kernel threads still run.
///
/// The audit reads one list after the other. If a vmstat thread drains remote pages meanwhile, the
/// audit sees an intermediate state. A page that is really in two places is still so half a second
/// later.
///
/// # Errors
/// The broken rule, and where.
pub fn audit_at_rest(kernel: &Kernel<SimHost>, cx: &Cx<'_, SimHost>) -> Result<(), RunError> {
    audit_kernel(kernel, cx).or_else(|_| {
        cx.host.sleep_jiffies(HZ / 2);
        audit_kernel(kernel, cx)
    })
}

/// Audits a whole idle kernel: frames, lists, page tables, files, swap, counters.
///
/// # Errors
/// The broken rule, and where.
pub fn audit_kernel<H: highwater_core::host::Devices>(
    kernel: &Kernel<H>,
    cx: &Cx<'_, H>,
) -> Result<(), RunError> {
    match highwater_core::audit::check_kernel(kernel, cx) {
        Ok(_) => Ok(()),
        Err(error) => Err(RunError::Audit(error.to_string())),
    }
}

/// Proves that every frame of an allocator is where it belongs.
///
/// # Errors
/// Which rule is broken, where.
pub fn audit<H: Host>(host: &H, memory: &PageAllocator<H>) -> Result<(), RunError> {
    let cx = Cx::new(host, CpuId(0));
    match highwater_core::audit::check(memory, &cx) {
        Ok(_) => Ok(()),
        Err(error) => Err(RunError::Audit(error.to_string())),
    }
}
