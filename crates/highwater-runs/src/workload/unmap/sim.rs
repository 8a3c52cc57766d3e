//! One unit on the simulated machine.

use std::rc::Rc;
use std::sync::Arc;

use highwater_core::Kernel;
use highwater_core::host::CpuId;
use highwater_core::page_cache::{File, FileSpec, Filesystem};
use highwater_core::sync::order::LockClass;
use highwater_results::{Counters, Times};
use highwater_sim::engine::{JoinHandle, Placement};
use highwater_sim::host::{SimHost, Tracing};
use highwater_sim::machine::SimMachine;
use highwater_workloads::unmap::{Barrier, Mapper, RoundTimes, UnmapError, aftermath};

use super::super::harness::{self, Timed, finished, run_to_end, timed};
use super::super::storage::{DATA, Storage};
use super::super::{Unit, Workload};
use super::{Unmap, UnmapParams, Unmapped, pages_of, samples};
use crate::outcome::{Outcome, RunError, snapshot};

type Rounds = Timed<Result<Vec<RoundTimes>, UnmapError>>;

/// Boots the machine and runs both parts.
pub(super) fn run(unit: &Unit<'_>, params: &UnmapParams) -> Result<Outcome, RunError> {
    let mut config = harness::config(unit)?;
    let managed = harness::managed_pages(unit);
    let hot_pages = pages_of(params.hot, managed);
    let cold_pages = pages_of(params.cold, managed);
    let most = params.processes.iter().copied().max().unwrap_or(1) as u64;
    let file_pages = most * u64::from(params.pages) + hot_pages + cold_pages;
    let storage = Storage::of(unit, file_pages, 0, "the files that it maps")?;
    let notes = storage.note.clone().into_iter().collect();
    let mut next_page = storage.first_page;
    storage.attach(&mut config);
    config.tracing = Tracing { digest: true, ..Tracing::default() };
    let mut machine = harness::boot(unit, config)?;
    let before = snapshot(&machine.kernel.mem);

    let mut file = |machine: &SimMachine, pages: u64| {
        let spec = FileSpec::new(Filesystem::EXT4, DATA, next_page, pages as u32);
        next_page += pages;
        machine.kernel.create_file(&machine.outside(), spec)
    };
    let files: Vec<Arc<File<SimHost>>> =
        (0..most).map(|_| file(&machine, u64::from(params.pages))).collect();
    let (hot, cold) = (file(&machine, hot_pages), file(&machine, cold_pages));

    let mut times = Times::default();
    let mut unmapped = Vec::new();
    for &processes in &params.processes {
        unmapped.push(unmap(&mut machine, params, processes, &files, &mut times)?);
    }
    let task = machine.spawn_task("stream", Placement::Anywhere, move |cx, kernel| {
        timed(cx, || aftermath(kernel, cx, &hot, &cold))
    });
    run_to_end(&mut machine)?;
    let after = finished(&task, &mut times)?.map_err(failed)?;

    times.elapsed_ns = machine.sim().now_ns();
    let explained = harness::ended(&machine, unit)?;
    let counters = Counters::difference(&before, &snapshot(&machine.kernel.mem));
    let digest = machine.digest().value();
    harness::settle_and_audit(&mut machine, |_, _| {})?;
    let samples = samples(&unmapped, &after);
    Ok(Outcome { samples, counters, times, notes, digest, explained, ..Outcome::default() })
}

/// Lets `processes` processes unmap at once, one on each CPU as long as there are CPUs.
fn unmap(
    machine: &mut SimMachine,
    params: &UnmapParams,
    processes: usize,
    files: &[Arc<File<SimHost>>],
    times: &mut Times,
) -> Result<Unmapped, RunError> {
    let nr_cpus = machine.sim().nr_cpus();
    let barrier = Rc::new(Barrier::new(&*machine.host, processes));
    let tasks: Vec<JoinHandle<Rounds>> = (0..processes)
        .map(|process| {
            let (file, barrier) = (Arc::clone(&files[process]), Rc::clone(&barrier));
            let (pages, rounds) = (params.pages, params.rounds);
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
        all.push(finished(task, times)?.map_err(failed)?);
    }
    Ok(Unmapped { processes, times: all, has_waits: true })
}

/// Total time that tasks have waited for the LRU lock so far.
fn lru_waits(host: &SimHost) -> u64 {
    let all = host.sim().lock_stats();
    all.iter().filter(|stats| stats.name == LockClass::Lru.name()).map(|stats| stats.wait_ns).sum()
}

fn failed(error: UnmapError) -> RunError {
    RunError::of(Unmap::NAME, error)
}
