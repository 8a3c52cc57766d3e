//! One unit on threads and memory of this computer: measures activation and the LRU lock.

use std::sync::Arc;
use std::thread;

use highwater_core::block::{DeviceId, DeviceSpec};
use highwater_core::config::Machine;
use highwater_core::host::{CpuId, Cx};
use highwater_core::kernel::KernelSpec;
use highwater_core::page_cache::{File, FileSpec, Filesystem};
use highwater_core::sync::order::LockClass;
use highwater_native::{NativeHost, NativeKernel, NativeOptions};
use highwater_results::{Counters, Times};
use highwater_workloads::unmap::{Barrier, Mapper, RoundTimes, aftermath};

use super::super::harness::{audit_kernel, managed_pages};
use super::super::{Unit, Workload};
use super::{Unmap, UnmapParams, Unmapped, pages_of, samples};
use crate::ledger;
use crate::outcome::{Outcome, RunError, snapshot};

const DATA: DeviceId = DeviceId(0);

type NativeFile = Arc<File<NativeHost>>;

/// Boots a kernel on native memory and runs both parts.
pub(super) fn run(unit: &Unit<'_>, params: &UnmapParams) -> Result<Outcome, RunError> {
    let failed = |error: String| RunError::Native(error);
    let shape = &unit.machine.machine;
    let most = params.processes.iter().copied().max().unwrap_or(1);
    if most > shape.nr_cpus() {
        let cpus = shape.nr_cpus();
        return Err(failed(format!("{most} processes need as many CPUs; there are {cpus}")));
    }
    let managed = managed_pages(unit);
    let (hot_pages, cold_pages) = (pages_of(params.hot, managed), pages_of(params.cold, managed));
    let disk = DeviceSpec::ram(most as u64 * u64::from(params.pages) + hot_pages + cold_pages);
    let spec = KernelSpec { devices: vec![disk], swap: Vec::new(), groups: 0 };
    let machine = with_more_cpus(shape, NativeKernel::daemon_cpus(1));
    let lock_hold_times = unit.explain.is_some();
    let options =
        NativeOptions { lock_statistics: true, lock_hold_times, ..NativeOptions::default() };
    let native = NativeKernel::boot(&machine, unit.policy, &options, &spec)
        .map_err(|error| failed(error.to_string()))?;
    let before = snapshot(&native.kernel.mem);
    let start = std::time::Instant::now();
    let parts = native
        .with_daemons(|| both_parts(&native, params, most, hot_pages, cold_pages))
        .map_err(|error| failed(error.to_string()))?;
    let (unmapped, after) = parts?;
    let times = Times { elapsed_ns: start.elapsed().as_nanos() as u64, ..Times::default() };
    let explained = ledger::close_native(&native.host, unit.explain);
    let counters = Counters::difference(&before, &snapshot(&native.kernel.mem));
    audit_kernel(&native.kernel, &Cx::new(&native.host, CpuId(0)))?;
    let samples = samples(&unmapped, &after);
    Ok(Outcome { samples, counters, times, explained, ..Outcome::default() })
}

/// The machine with CPUs for the daemons, all on the first node.
fn with_more_cpus(shape: &Machine, more: usize) -> Machine {
    let mut machine = shape.clone();
    let first = machine.nr_cpus() as u16;
    if let Some(node) = machine.nodes.first_mut() {
        node.cpus.extend((0..more as u16).map(|n| first + n));
    }
    machine
}

fn both_parts(
    native: &NativeKernel,
    params: &UnmapParams,
    most: usize,
    hot_pages: u64,
    cold_pages: u64,
) -> Result<(Vec<Unmapped>, highwater_workloads::unmap::Aftermath), RunError> {
    let enter = |cpu: usize| {
        native.enter(CpuId(cpu as u16)).map_err(|error| RunError::Native(error.to_string()))
    };
    let mut next_page = 0;
    let (files, hot, cold) = {
        let task = enter(0)?;
        let mut file = |pages: u64| -> NativeFile {
            let spec = FileSpec::new(Filesystem::EXT4, DATA, next_page, pages as u32);
            next_page += pages;
            native.kernel.create_file(&task.cx, spec)
        };
        let files: Vec<NativeFile> = (0..most).map(|_| file(u64::from(params.pages))).collect();
        (files, file(hot_pages), file(cold_pages))
    };
    let mut unmapped = Vec::new();
    for &processes in &params.processes {
        unmapped.push(unmap(native, params, &files[..processes])?);
    }
    let task = enter(0)?;
    let after = aftermath(&native.kernel, &task.cx, &hot, &cold);
    let after = after.map_err(|error| RunError::of(Unmap::NAME, error))?;
    Ok((unmapped, after))
}

/// Lets a process per file unmap at once, each on a thread and a CPU.
fn unmap(
    native: &NativeKernel,
    params: &UnmapParams,
    files: &[NativeFile],
) -> Result<Unmapped, RunError> {
    let barrier = Barrier::new(&native.host, files.len());
    let waits = || {
        let report = native.host.lock_report();
        report.map_or(0, |report| report[LockClass::Lru as usize].1.wait_ns)
    };
    let times: Vec<Result<Vec<RoundTimes>, RunError>> = thread::scope(|scope| {
        let threads: Vec<_> = files
            .iter()
            .enumerate()
            .map(|(process, file)| {
                let (barrier, waits) = (&barrier, &waits);
                scope.spawn(move || {
                    let task = native
                        .enter(CpuId(process as u16))
                        .map_err(|error| RunError::Native(error.to_string()))?;
                    let lru_waits: Option<&dyn Fn() -> u64> = (process == 0).then_some(waits);
                    let (kernel, pages) = (&native.kernel, params.pages);
                    let mapper = Mapper { kernel, file, pages, barrier, lru_waits };
                    mapper
                        .run(&task.cx, params.rounds)
                        .map_err(|error| RunError::of(Unmap::NAME, error))
                })
            })
            .collect();
        let panicked = || RunError::Native("a thread panicked".to_owned());
        threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err(panicked()))).collect()
    });
    let times = times.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(Unmapped { processes: files.len(), times, has_waits: true })
}
