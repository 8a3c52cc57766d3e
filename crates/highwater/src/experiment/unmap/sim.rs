//! One cell on the simulated machine.

use std::rc::Rc;
use std::sync::Arc;

use highwater_core::Kernel;
use highwater_core::block::DeviceId;
use highwater_core::host::{CpuId, Cx, HZ, Host};
use highwater_core::page_cache::{File, FileSpec, Filesystem};
use highwater_core::sync::order::LockClass;
use highwater_results::Times;
use highwater_sim::disk::DiskSpec;
use highwater_sim::engine::{JoinHandle, Placement, TaskTimes};
use highwater_sim::host::{SimHost, Tracing};
use highwater_sim::machine::{MachineConfig, SimMachine};
use highwater_workloads::unmap::{Barrier, Mapper, RoundTimes, UnmapError, aftermath};

use super::super::outcome::{Outcome, RunError, audit_kernel, snapshot};
use super::super::runner::Cell;
use super::{UnmapSection, Unmapped, difference, pages_of, samples};
use crate::explain::ledger;

/// Ten seconds.
const SETTLE_JIFFIES: u64 = 10 * HZ;
/// The files' disk.
const DATA: DeviceId = DeviceId(0);

type Timed<T> = (T, TaskTimes);
type Rounds = Timed<Result<Vec<RoundTimes>, UnmapError>>;

/// Boots the machine and runs both parts.
pub(super) fn run(cell: &Cell<'_>, section: &UnmapSection) -> Result<Outcome, RunError> {
    let costs = cell.machine.costs().map_err(RunError::Costs)?;
    let shape = &cell.machine.machine;
    let mut config = MachineConfig::new(shape.clone(), costs, cell.policy.clone());
    let managed: u64 = shape.nodes.iter().flat_map(|n| &n.zones).map(|z| z.managed).sum();
    let hot_pages = pages_of(section.hot, managed);
    let cold_pages = pages_of(section.cold, managed);
    let most = section.processes.iter().copied().max().unwrap_or(1) as u64;
    let disk_pages = most * u64::from(section.pages) + hot_pages + cold_pages;
    config.disks = vec![DiskSpec::nvme("data", disk_pages)];
    config.seed = cell.seed;
    config.tracing = Tracing { digest: true, sink: None };
    let name = &cell.machine.name;
    let mut machine = SimMachine::boot(config)
        .map_err(|error| RunError::Stuck(format!("machine {name}: {error}")))?;
    ledger::open(machine.sim(), cell.explain);
    let before = snapshot(&machine.kernel.mem);

    let mut next_page = 0;
    let mut file = |machine: &SimMachine, pages: u64| {
        let spec = FileSpec::new(Filesystem::EXT4, DATA, next_page, pages as u32);
        next_page += pages;
        machine.kernel.create_file(&machine.outside(), spec)
    };
    let files: Vec<Arc<File<SimHost>>> =
        (0..most).map(|_| file(&machine, u64::from(section.pages))).collect();
    let (hot, cold) = (file(&machine, hot_pages), file(&machine, cold_pages));

    let mut times = Times::default();
    let mut unmapped = Vec::new();
    for &processes in &section.processes {
        unmapped.push(unmap(&mut machine, section, processes, &files, &mut times)?);
    }
    let task = machine.spawn_task("stream", Placement::Anywhere, move |cx, kernel| {
        timed(cx, || aftermath(kernel, cx, &hot, &cold))
    });
    run_to_end(&mut machine)?;
    let after = finished(&task, &mut times)??;

    times.elapsed_ns = machine.sim().now_ns();
    let explained = ledger::close(machine.sim(), cell.explain)?;
    let counters = difference(&before, &snapshot(&machine.kernel.mem));
    let digest = machine.digest().value();
    let auditor = machine.spawn_task("auditor", Placement::Anywhere, |cx, kernel| {
        // Flushers and kswapd end what they are doing.
        cx.host.sleep_jiffies(SETTLE_JIFFIES);
        audit_kernel(kernel, cx)
    });
    run_to_end(&mut machine)?;
    auditor.take().ok_or_else(|| RunError::Stuck("the audit left no result".to_owned()))??;
    let samples = samples(&unmapped, &after);
    Ok(Outcome { samples, histograms: Vec::new(), counters, times, digest, explained })
}

/// Lets `processes` processes unmap at once, one on each CPU as far as there are CPUs.
fn unmap(
    machine: &mut SimMachine,
    section: &UnmapSection,
    processes: usize,
    files: &[Arc<File<SimHost>>],
    times: &mut Times,
) -> Result<Unmapped, RunError> {
    let nr_cpus = machine.sim().nr_cpus();
    let barrier = Rc::new(Barrier::new(&*machine.host, processes));
    let tasks: Vec<JoinHandle<Rounds>> = (0..processes)
        .map(|process| {
            let (file, barrier) = (Arc::clone(&files[process]), Rc::clone(&barrier));
            let (pages, rounds) = (section.pages, section.rounds);
            let placement = Placement::Pinned(CpuId((process % nr_cpus) as u16));
            let name = format!("unmap/{process}");
            machine.spawn_task(name, placement, move |cx, kernel: &Rc<Kernel<SimHost>>| {
                let waits = || lru_waits(cx.host);
                let lru_waits: Option<&dyn Fn() -> u64> = (process == 0).then_some(&waits);
                let (file, barrier) = (&file, &*barrier);
                timed(cx, || Mapper { kernel, file, pages, barrier, lru_waits }.run(cx, rounds))
            })
        })
        .collect();
    run_to_end(machine)?;
    let mut all = Vec::new();
    for task in &tasks {
        all.push(finished(task, times)??);
    }
    Ok(Unmapped { processes, times: all, has_waits: true })
}

/// What everybody has waited for the LRU lock so far.
fn lru_waits(host: &SimHost) -> u64 {
    let all = host.sim().lock_stats();
    all.iter().filter(|stats| stats.name == LockClass::Lru.name()).map(|stats| stats.wait_ns).sum()
}

/// Runs a body and says what time its task has used.
fn timed<T>(cx: &Cx<'_, SimHost>, body: impl FnOnce() -> T) -> Timed<T> {
    let result = body();
    let sim = cx.host.sim();
    sim.sync();
    let times = sim.current().and_then(|me| sim.task_times(me)).unwrap_or_default();
    (result, times)
}

fn run_to_end(machine: &mut SimMachine) -> Result<(), RunError> {
    machine.run().map_err(|error| RunError::Stuck(error.to_string()))
}

/// A task's result; its times are added up.
fn finished<T>(task: &JoinHandle<Timed<T>>, times: &mut Times) -> Result<T, RunError> {
    let lost = || RunError::Stuck("a task left no result".to_owned());
    let (result, used) = task.take().ok_or_else(lost)?;
    times.user_ns += used.user_ns;
    times.system_ns += used.system_ns;
    Ok(result)
}
