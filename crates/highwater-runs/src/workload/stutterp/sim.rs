//! One step on the simulated machine.

use std::rc::Rc;
use std::sync::Arc;

use highwater_core::Kernel;
use highwater_core::host::{Cx, Host};
use highwater_core::kernel::Error;
use highwater_core::page::{Order, PAGE_SIZE, PageFlags};
use highwater_core::page_alloc::Gfp;
use highwater_core::page_cache::{File, FileSpec, Filesystem};
use highwater_results::{Largest, Times};
use highwater_sim::engine::Placement;
use highwater_sim::host::{SimHost, Tracing};
use highwater_sim::machine::{SimKernel, SimMachine};
use highwater_workloads::stutterp::{
    Chooser, Hog, HogHabit, Lap, Latency, Reader, Step, Stop, Writer, WriterHabit, worker_seed,
};

use super::super::ends::{Ends, Worker};
use super::super::harness::{self, lost, run_to_end, timed};
use super::super::storage::{DATA, Storage};
use super::super::{Unit, Workload};
use super::stalls::{STALLS, Stalls};
use super::{FilesPerWriter, Stutterp, StutterpParams};
use crate::outcome::{Outcome, RunError, snapshot};

/// Each of the reader's files is this fraction (1/n) of memory: 100 MiB on a machine of 8 GiB
/// (rules/benchmarks#stutterp-scaled).
const READER_SHARE: u64 = 80;

type Files = Vec<Arc<File<SimHost>>>;

/// The results of a step.
struct Ended {
    laps: Vec<Lap>,
    sweeps: u64,
    written: u64,
    times: Times,
    counters: highwater_results::Counters,
}

/// Boots a machine and runs the step with `workers` workers.
pub(super) fn run(
    unit: &Unit<'_>,
    params: &StutterpParams,
    workers: u32,
) -> Result<Outcome, RunError> {
    let memory_pages = harness::managed_pages(unit);
    let step = params.step(workers, memory_pages, &unit.machine.machine.tunables);
    let files = format!("the files of {} workers", step.workers);
    // A machine without a disk swaps to twice its memory.
    let file_pages = file_pages(params, &step, memory_pages);
    let storage = Storage::of(unit, file_pages, 2 * memory_pages, &files)?;
    run_on(storage, params, unit, workers)
}

/// Runs the step with this many workers on other storage than the machine's own, for instance on
/// disks with faults. The files must fit behind its `first_page`.
///
/// # Errors
/// As [`Workload::run`].
pub fn run_on(
    storage: Storage,
    params: &StutterpParams,
    unit: &Unit<'_>,
    workers: u32,
) -> Result<Outcome, RunError> {
    let memory_pages = harness::managed_pages(unit);
    let step = params.step(workers, memory_pages, &unit.machine.machine.tunables);
    let mut config = harness::config(unit)?;
    let (first_page, notes) = (storage.first_page, storage.note.clone().into_iter().collect());
    storage.attach(&mut config);
    // Each step has its own seed, the same under every policy.
    config.seed = unit.seed ^ u64::from(step.workers).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let seed = config.seed;
    let stalls = Stalls::default();
    config.tracing =
        Tracing { sink: Some(stalls.sink()), sink_kinds: Some(STALLS), ..Tracing::default() };
    let mut machine = harness::boot(unit, config)?;
    stalls.watch(machine.sim());

    let plan = Plan {
        step,
        files: make_files(&machine, params, &step, first_page),
        params: params.clone(),
        mapping_pages: params.mapping_pages(memory_pages),
        resident_pages: (params.resident * memory_pages as f64) as u64,
        seed,
    };
    let (parts, before) = (SimKernel::clone(&machine), snapshot(&machine.kernel.mem));
    let driver = machine.spawn_task("stutterp", Placement::Anywhere, move |cx, kernel| {
        let ended = drive(&parts, cx, plan)?;
        let counters = highwater_results::Counters::difference(&before, &snapshot(&kernel.mem));
        Ok::<_, RunError>(Ended { counters, ..ended })
    });
    run_to_end(&mut machine)?;
    let ended = driver.take().ok_or_else(|| lost("driver"))??;
    let explained = harness::ended(&machine, unit)?;
    let digest = machine.digest().value();
    let rest_ns = other_cpu_time(&machine, ended.times);
    // The benchmark deletes its files.
    harness::settle_and_audit(&mut machine, harness::delete_files)?;

    let mut samples: Vec<(String, f64)> = Vec::with_capacity(ended.laps.len() + 3);
    let mmap = operation(step.workers);
    let milliseconds = |ns: u64| ns as f64 / 1e6;
    samples.extend(ended.laps.iter().map(|lap| (mmap.clone(), milliseconds(lap.ns))));
    let mut largest = Vec::new();
    for lap in &ended.laps {
        let (operation, value) = (mmap.clone(), milliseconds(lap.ns));
        let new = Largest { operation, seed: unit.seed, value, at_ns: lap.end_ns };
        Largest::keep(&mut largest, new);
    }
    let total = step.workers;
    samples.push((format!("sweeps-{total}"), ended.sweeps as f64 / f64::from(step.hogs)));
    samples.push((format!("written-{total}"), ended.written as f64 / f64::from(1 << 20)));
    samples.push((format!("kernel-{total}"), rest_ns as f64 / 1e9));
    Ok(Outcome {
        samples,
        largest,
        histograms: stalls.histograms(),
        counters: ended.counters,
        times: ended.times,
        digest,
        explained,
        notes,
        ..Outcome::default()
    })
}

/// Name of the step's operations: the latency worker's, with this many workers.
pub(super) fn operation(workers: u32) -> String {
    format!("mmap-{workers}")
}

/// CPU time of kernel threads and interrupts, which the benchmark's tasks did not get.
fn other_cpu_time(machine: &SimMachine, times: Times) -> u64 {
    let sim = machine.sim();
    let cpus = (0..sim.nr_cpus() as u16).map(highwater_core::host::CpuId);
    let all: u64 = cpus.map(|cpu| sim.cpu_times(cpu)).map(|t| t.user_ns + t.system_ns).sum();
    all.saturating_sub(times.user_ns + times.system_ns)
}

const fn pages(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_SIZE as u64)
}

/// Pages of each of the reader's files.
const fn reader_pages(memory_pages: u64) -> u64 {
    let pages = memory_pages / READER_SHARE;
    if pages == 0 { 1 } else { pages }
}

fn nr_files(params: &StutterpParams, step: &Step) -> u32 {
    step.files_per_writer(params.files_per_writer == FilesPerWriter::AsDescribed)
}

/// Files of the reader, if there is one.
fn nr_read(params: &StutterpParams, step: &Step) -> u64 {
    u64::from(step.readers) * u64::from(params.reader_files)
}

fn file_pages(params: &StutterpParams, step: &Step, memory_pages: u64) -> u64 {
    let of_writers = u64::from(step.writers) * u64::from(nr_files(params, step));
    let of_reader = nr_read(params, step) * reader_pages(memory_pages);
    of_writers * pages(step.file_bytes).max(1) + of_reader
}

/// Everybody's files: the writers', one list each, and the reader's.
struct AllFiles {
    writers: Vec<Files>,
    reader: Files,
}

fn make_files(
    machine: &SimKernel,
    params: &StutterpParams,
    step: &Step,
    first_page: u64,
) -> AllFiles {
    let mut next_page = first_page;
    let mut make = |pages: u64| {
        let max_pages = u32::try_from(pages).unwrap_or(u32::MAX);
        // Preallocated, not written, on a new XFS: whether reclaim may write single pages is the kernel
        // version's to say.
        let spec = FileSpec::new(Filesystem::XFS, DATA, next_page, max_pages);
        next_page += pages;
        machine.kernel.create_file(&machine.outside(), spec)
    };
    let memory_pages: u64 = machine.kernel.mem.populated_zones().map(|z| z.managed()).sum();
    let (per_writer, size) = (nr_files(params, step), pages(step.file_bytes).max(1));
    let writers =
        (0..step.writers).map(|_| (0..per_writer).map(|_| make(size)).collect()).collect();
    let reader = (0..nr_read(params, step)).map(|_| make(reader_pages(memory_pages))).collect();
    AllFiles { writers, reader }
}

/// The driver's plan.
struct Plan {
    step: Step,
    files: AllFiles,
    params: StutterpParams,
    mapping_pages: u32,
    resident_pages: u64,
    seed: u64,
}

/// The benchmark's shell script: starts the workers, waits, and stops them kind by kind. A worker's
/// failure is reported at the end, because a worker left behind would run forever.
fn drive(machine: &SimKernel, cx: &Cx<'_, SimHost>, plan: Plan) -> Result<Ended, RunError> {
    let Plan { step, files, params, mapping_pages, resident_pages, seed } = plan;
    hold(machine, cx, resident_pages);
    let (of_files, of_hogs, of_latency): (Rc<Stop>, Rc<Stop>, Rc<Stop>) = Default::default();
    let block_bytes = params.block.0.min(step.file_bytes.max(PAGE_SIZE as u64));
    let writers: Vec<Worker<u64>> = (0u32..)
        .zip(files.writers)
        .map(|(n, files)| {
            let stop = Rc::clone(&of_files);
            spawn(machine, format!("writer/{n}"), move |cx, kernel| {
                let (files, habit) = (&files[..], WriterHabit::OncePerPass);
                let seed = worker_seed(seed, Chooser::Writer, n);
                Writer { kernel, files, block_bytes, habit, seed, stop: &stop }.run(cx)
            })
        })
        .collect();
    let readers: Vec<Worker<u64>> = (0..step.readers)
        .map(|n| {
            let (stop, files) = (Rc::clone(&of_files), files.reader.clone());
            spawn(machine, "reader".to_owned(), move |cx, kernel| {
                let seed = worker_seed(seed, Chooser::Reader, n);
                Reader { kernel, files: &files, seed, stop: &stop }.run(cx)
            })
        })
        .collect();
    cx.host.sleep_ns(nanoseconds(params.warm_up));
    let hogs: Vec<Worker<u64>> = (0..step.hogs)
        .map(|n| {
            let stop = Rc::clone(&of_hogs);
            let pages = u32::try_from(pages(step.hog_bytes)).unwrap_or(u32::MAX).max(1);
            spawn(machine, format!("hog/{n}"), move |cx, kernel| {
                Hog { kernel, pages, habit: HogHabit::SweepOn, stop: &stop }.run(cx)
            })
        })
        .collect();
    let latency: Worker<Vec<Lap>> = {
        let (stop, name) = (Rc::clone(&of_latency), operation(step.workers));
        let sleep_ns = nanoseconds(params.pause_ms / 1e3);
        spawn(machine, "latency".to_owned(), move |cx, kernel| {
            let (pages, name) = (mapping_pages, name.as_str());
            Latency { kernel, pages, sleep_ns, name, stop: &stop }.laps(cx)
        })
    };
    cx.host.sleep_ns(nanoseconds(params.seconds));
    let mut ends = Ends::new(Stutterp::NAME);
    // As in mmtests' script: stop the writers and wait for them, then the hogs. The latency worker
    // continues meanwhile.
    of_files.set();
    let written = ends.add_up(writers);
    ends.add_up(readers);
    of_hogs.set();
    let sweeps = ends.add_up(hogs);
    of_latency.set();
    let laps = ends.of(latency);
    let mut times = ends.times()?;
    times.elapsed_ns = cx.host.now_ns();
    Ok(Ended { laps, sweeps, written, times, counters: Default::default() })
}

/// Allocates pages that are never freed: the rest of the system.
fn hold(machine: &SimKernel, cx: &Cx<'_, SimHost>, pages: u64) {
    let kernel = &machine.kernel;
    let node = kernel.mem.cpu_node(cx.cpu());
    for _ in 0..pages {
        let page = kernel.mem.alloc(cx, &**kernel, Gfp::GFP_KERNEL, Order::ZERO, node, None);
        let Some(pfn) = page else { break };
        kernel.mem.map.page(pfn).flag_set::<SimHost>(PageFlags::PINNED);
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

/// Starts a worker that returns its CPU time at its end.
fn spawn<T: 'static>(
    machine: &SimKernel,
    name: String,
    body: impl FnOnce(&Cx<'_, SimHost>, &Rc<Kernel<SimHost>>) -> Result<T, Error> + 'static,
) -> Worker<T> {
    machine.spawn_task(name, Placement::Anywhere, move |cx, kernel| timed(cx, || body(cx, kernel)))
}
