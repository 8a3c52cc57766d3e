//! A simulated machine from boot to audit: what every run has in common, of a workload and of a check.
//!
//! | step | here |
//! |---|---|
//! | the unit's machine, policy, seed and costs | [`config`] |
//! | boot, pressure measured, and the ledger opened if time is to be booked | [`boot`] |
//! | tasks: what each returns, and the CPU time that it used | [`timed`], [`finished`] |
//! | samples of counters, if they are to be taken | [`sample`] |
//! | until nothing is left to run | [`run_to_end`] |
//! | everything ends what it is doing; every frame is where it belongs | [`settle_and_audit`] |

use std::rc::Rc;
use std::sync::Arc;

use highwater_core::Kernel;
use highwater_core::host::{CpuId, Cx, HZ, Host};
use highwater_core::page_alloc::PageAllocator;
use highwater_results::Times;
use highwater_results::explain::ExplainedRun;
use highwater_sim::engine::{JoinHandle, Placement, Sim, TaskTimes};
use highwater_sim::host::{SimHost, Tracing};
use highwater_sim::machine::{MachineConfig, SimMachine};

use super::sampling::More;
use super::{RunError, Unit};
use crate::explain::ledger;
use crate::recording::Recorder;

/// Who looks at the memory of a machine.
pub(crate) type See<'a> = dyn FnMut(&PageAllocator<SimHost>) + 'a;

/// Ten seconds: flushers and kswapd end what they are doing.
const SETTLE_JIFFIES: u64 = 10 * HZ;
/// Most seconds more that slow disks get to end what they have.
const QUIET_SECONDS_MAX: u32 = 3600;

/// What a task returned and the CPU time that it used.
pub type Timed<T> = (T, TaskTimes);

/// The unit's machine, with its costs, policy and seed; no disks.
///
/// # Errors
/// If the machine's file says nothing usable about costs.
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
    let machine = SimMachine::boot(config)
        .map_err(|error| RunError::Boot(format!("machine {name}: {error}")))?;
    watch(machine.sim(), unit);
    let kernel = Rc::downgrade(&machine.kernel);
    sample(machine.sim(), unit, more, move |see| {
        if let Some(kernel) = kernel.upgrade() {
            see(&kernel.mem);
        }
    });
    Ok(machine)
}

/// Begins to take samples of a unit's memory, if it is to have some. `look` shows it, as long as it is there; it must
/// not own it, since the simulation that it is part of owns `look`.
pub fn sample(
    sim: &Sim,
    unit: &Unit<'_>,
    more: Option<More>,
    look: impl Fn(&mut See<'_>) + 'static,
) {
    // The engine calls one of them: who records or watches does not sample besides.
    if let Some(watcher) = unit.watcher {
        return watcher.start(sim, look);
    }
    if let Some(sampling) = unit.recorder.map(Recorder::sampling).or(unit.sampling) {
        sampling.start(sim, more, look);
    }
}

/// What happens to trace events, with what a recording of the unit wants of them.
pub fn recorded(unit: &Unit<'_>, tracing: Tracing) -> Tracing {
    match unit.recorder {
        Some(recorder) => Tracing { journal: recorder.kinds(), ..tracing },
        None => tracing,
    }
}

/// Measures pressure, opens the ledger if time is to be booked, and tells virtual time to whoever looks.
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
/// If the simulation gets stuck or a task panics.
pub fn run_to_end(machine: &mut SimMachine) -> Result<(), RunError> {
    machine.run().map_err(|error| RunError::Stuck(error.to_string()))
}

/// Where the time of operations went, if the unit is to book it: an operation is what a task does between `op_begin`
/// and `op_end` of its host. Before the audit, whose time is nobody's.
///
/// # Errors
/// If time has no cause.
pub fn explained(machine: &SimMachine, unit: &Unit<'_>) -> Result<Option<ExplainedRun>, RunError> {
    ledger::close(machine.sim(), unit)
}

/// Runs a body and says what time its task has used.
pub fn timed<T>(cx: &Cx<'_, SimHost>, body: impl FnOnce() -> T) -> Timed<T> {
    let result = body();
    let sim = cx.host.sim();
    sim.sync();
    let times = sim.current().and_then(|me| sim.task_times(me)).unwrap_or_default();
    (result, times)
}

/// A task's result, its times added up.
///
/// # Errors
/// If it left none.
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

/// Lets everything end what it is doing, and proves that every frame is in its place.
///
/// `before` comes first, in the auditor's task: a benchmark that deletes its files does so there.
///
/// # Errors
/// If the memory is not consistent, or the machine gets stuck.
pub fn settle_and_audit(
    machine: &mut SimMachine,
    before: impl FnOnce(&Cx<'_, SimHost>, &Kernel<SimHost>) + 'static,
) -> Result<(), RunError> {
    // What comes now is not the workload's.
    machine.sim().sample_every(0, |_, _| {});
    machine.sim().tell_passed_to_nobody();
    let auditor = machine.spawn_task("auditor", Placement::Anywhere, move |cx, kernel| {
        before(cx, kernel);
        cx.host.sleep_jiffies(SETTLE_JIFFIES);
        // Flushers are done; a slow disk may have full queues still.
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

/// What a benchmark does at its end that deletes its files: for [`settle_and_audit`].
pub fn delete_files(cx: &Cx<'_, SimHost>, kernel: &Kernel<SimHost>) {
    for file in kernel.all_files(cx) {
        kernel.delete_file(cx, &file);
    }
}

/// [`audit_kernel`], by a task of a machine whose kernel threads still run.
///
/// The audit looks at one list after the other. A vmstat thread that gives pages of a remote zone back meanwhile is seen
/// halfway; a page that is really in two places is so half a second later, too.
///
/// # Errors
/// Which rule is broken, where.
pub fn audit_at_rest(kernel: &Kernel<SimHost>, cx: &Cx<'_, SimHost>) -> Result<(), RunError> {
    audit_kernel(kernel, cx).or_else(|_| {
        cx.host.sleep_jiffies(HZ / 2);
        audit_kernel(kernel, cx)
    })
}

/// Proves the same of a whole kernel in which nothing is under way: frames, lists, page tables, files, swap,
/// counters.
///
/// # Errors
/// Which rule is broken, where.
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
