//! One run on the simulated machine: the steps of mmtests' script, in its order
//! (rules/benchmarks#highalloc-script).

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use highwater_core::host::{Cx, HZ, Host};
use highwater_core::kernel::Error;
use highwater_core::page_cache::{File, FileSpec, Filesystem};
use highwater_core::vmstat::VmEvent;
use highwater_core::zone::Mark;
use highwater_results::{Counters, Times};
use highwater_sim::engine::{JoinHandle, Placement, TaskTimes};
use highwater_sim::host::{SimHost, Tracing};
use highwater_sim::machine::SimKernel;
use highwater_workloads::highalloc::{
    Build, Built, Daemon, Disk, Entry, Pass, PassEnd, Programs, Sizes, SystemSize, Tree, flush,
    pace_jiffies,
};
use highwater_workloads::stutterp::{Chooser, Stop, worker_seed};

use super::super::harness::{self, Timed, lost, run_to_end, timed};
use super::super::storage::{DATA, Storage};
use super::super::{Unit, Workload};
use super::watch::{KINDS, Watch};
use super::{Highalloc, HighallocParams, PASSES, free, success};
use crate::outcome::{Outcome, RunError, snapshot};

/// Sleeps of the script before the first pass.
const WAITS: u32 = 10;
/// Pages of the compiler's text: 13 MiB (`cc1` of gcc 4.8).
const TOOL_PAGES: u64 = 13 << 8;
/// Host programs that are compiled to configure a tree (`fixdep`, `conf` and their parts).
const CONFIGURE_COMPILES: u64 = 4;
/// Sources of the module that makes the attempts, with what the kernel's makefiles compile beside
/// it.
const MODULE_COMPILES: u64 = 10;
/// Headers and sources that the module is compiled against.
const HEADERS_BYTES: u64 = 12 << 20;
/// `min_free_kbytes` during the last pass.
const MIN_FREE_KBYTES: u64 = 1024;
/// How long the thread of a pass runs before it yields, in nanoseconds.
const SPIN_NS: u64 = 500_000;
/// Most pages of object files that a second of compiling makes, including linking; and the factor
/// of spare room.
const OBJECT_PAGES: u64 = 280;
const OBJECT_ROOM: u64 = 4;
/// Number of the first job of the build before the script.
const BEFORE: u32 = 1 << 16;
/// Swap of a machine without a disk, part of memory.
const SWAP_PART: u64 = 2;

/// Rows of the metric with the results of the builds.
pub(super) const BUILD: [&str; 7] = [
    "compiles",
    "huge pages asked for per compile",
    "percent of those that were had",
    "reclaimed times memory",
    "free before pass 1 in low marks",
    "percent of pageblocks unmovable before pass 1",
    "percent of memory free before pass 3",
];

type Builder = JoinHandle<Timed<Result<Built<SimHost>, Error>>>;
type HostBuild = Build<SimHost, SimPrograms>;
type Daemons = Vec<JoinHandle<Result<(), Error>>>;
type HostTree = Tree<SimHost>;

/// The results of a run.
struct Ended {
    samples: Vec<(String, f64)>,
    times: Times,
    counters: Counters,
}

/// Boots a machine and runs the script on it.
pub(super) fn run(unit: &Unit<'_>, params: &HighallocParams) -> Result<Outcome, RunError> {
    let memory_pages = harness::managed_pages(unit);
    let sizes = params.sizes(memory_pages);
    let nr_cpus = unit.machine.machine.nr_cpus() as u64;
    let system = SystemSize::new(memory_pages, params.system);
    let text_pages = u64::from(system.text_pages);
    let file_pages = text_pages + file_pages(params, &sizes, nr_cpus);
    let storage = Storage::of(unit, file_pages, memory_pages / SWAP_PART, "trees and objects")?;
    let first_page = storage.first_page;
    let notes: Vec<String> = storage.note.clone().into_iter().collect();
    let mut config = harness::config(unit)?;
    storage.attach(&mut config);
    let watch = Watch::default();
    config.tracing =
        Tracing { sink: Some(watch.sink()), sink_kinds: Some(KINDS), ..Tracing::default() };
    let mut machine = harness::boot(unit, config)?;
    watch.of(machine.sim());

    let script = Script {
        machine: SimKernel::clone(&machine),
        params: params.clone(),
        sizes,
        memory_pages,
        disk: Rc::new(disk(
            &machine,
            first_page + text_pages + TOOL_PAGES,
            first_page + file_pages,
        )),
        tools: text(&machine, first_page, TOOL_PAGES),
        system,
        libraries: text(&machine, first_page + TOOL_PAGES, text_pages.max(1)),
        nr_cpus: nr_cpus as u32,
        seed: unit.seed,
    };
    let (parts, watcher) = (SimKernel::clone(&machine), watch.clone());
    let driver = machine.spawn_task(Highalloc::NAME, Placement::Anywhere, move |cx, _| {
        let idle = Rc::new(Stop::default());
        let daemons = script.start_system(&idle);
        script.build_before(cx)?;
        // The benchmark starts here; counters count from here.
        let (before, begin_ns) = (snapshot(&parts.kernel.mem), cx.host.now_ns());
        watcher.restart(begin_ns);
        let (ended, times) = timed(cx, || script.run(cx, &before));
        let mut ended = ended?;
        ended.times.user_ns += times.user_ns;
        ended.times.system_ns += times.system_ns;
        ended.times.elapsed_ns = cx.host.now_ns() - begin_ns;
        // At the end of the benchmark, not of the machine.
        let now = snapshot(&parts.kernel.mem);
        ended.counters = Counters::difference(&before, &now);
        ended.counters.merge(&watcher.times());
        ended.samples.extend(watcher.extfrag());
        // The background system ends last: it keeps its memory to the end of the benchmark.
        idle.set();
        for daemon in daemons {
            let ended = daemon.join().ok_or_else(|| lost("program of the system"))?;
            ended.map_err(|error| RunError::of(Highalloc::NAME, error))?;
        }
        Ok::<_, RunError>(ended)
    });
    run_to_end(&mut machine)?;
    let ended = driver.take().ok_or_else(|| lost("driver"))??;
    let explained = harness::ended(&machine, unit)?;
    let digest = machine.digest().value();
    harness::settle_and_audit(&mut machine, harness::delete_files)?;
    Ok(Outcome {
        samples: ended.samples,
        counters: ended.counters,
        times: ended.times,
        notes,
        digest,
        explained,
        ..Outcome::default()
    })
}

/// Room for trees, objects, the compiler and the large file.
fn file_pages(params: &HighallocParams, sizes: &Sizes, nr_cpus: u64) -> u64 {
    let trees = (u64::from(sizes.copies) + 2) * HostTree::pages(sizes.tree_bytes);
    let pass_s = sizes.attempts as f64 * sizes.pace_ms as f64 / 1e3;
    let script_s = params.before + f64::from(WAITS) * params.wait + 2.0 * params.gap + params.rest;
    let build_s = (script_s + PASSES as f64 * pass_s) as u64 + 1;
    let objects = nr_cpus * build_s * OBJECT_PAGES * OBJECT_ROOM;
    let files = HostTree::pages(HEADERS_BYTES) + trees + objects + sizes.memory_mib * 256;
    TOOL_PAGES + files + 2 * Disk::<SimHost>::metadata_pages(files)
}

fn disk(machine: &SimKernel, first: u64, end: u64) -> Disk<SimHost> {
    Disk::new(&machine.kernel, &machine.outside(), DATA, first, end)
}

/// Programs' text.
fn text(machine: &SimKernel, first_page: u64, pages: u64) -> Arc<File<SimHost>> {
    let spec = FileSpec::new(Filesystem::EXT4, DATA, first_page, pages as u32);
    machine.kernel.create_file(&machine.outside(), spec)
}

/// The script.
struct Script {
    machine: SimKernel,
    params: HighallocParams,
    sizes: Sizes,
    memory_pages: u64,
    disk: Rc<Disk<SimHost>>,
    tools: Arc<File<SimHost>>,
    system: SystemSize,
    libraries: Arc<File<SimHost>>,
    nr_cpus: u32,
    seed: u64,
}

impl Script {
    /// The programs of the system: they get their memory while a tree is built before the script.
    fn start_system(&self, stop: &Rc<Stop>) -> Daemons {
        let start = |number| {
            let (stop, text) = (Rc::clone(stop), Arc::clone(&self.libraries));
            let (size, compression) = (self.system, self.params.compression);
            let start_ns = self.params.ns(self.params.before);
            let seed = worker_seed(self.seed, Chooser::Daemon, number);
            let name = format!("daemon/{number}");
            self.machine.spawn_task(name, Placement::Anywhere, move |cx, kernel| {
                Daemon { kernel, size, number, text: &text, start_ns, compression, seed }
                    .run(cx, &stop)
            })
        };
        (0..self.system.daemons).map(start).collect()
    }

    /// mmtests' preparation: unpacks a tree, builds it with one job for each CPU, and deletes it.
    fn build_before(&self, cx: &Cx<'_, SimHost>) -> Result<(), RunError> {
        if self.params.before <= 0.0 {
            return Ok(());
        }
        let failed = |error: Error| RunError::of(Highalloc::NAME, error);
        let kernel = &*self.machine.kernel;
        let (disk, stop) = (&*self.disk, Rc::new(Stop::default()));
        let begin_ns = cx.host.now_ns();
        let tree = Tree::unpack(kernel, cx, disk, self.sizes.tree_bytes).map_err(failed)?;
        let tree = Rc::new(tree);
        let jobs = 0..self.nr_cpus;
        let jobs = jobs.map(|job| self.start(&tree, BEFORE + job, &stop)).collect();
        let spent_ns = cx.host.now_ns() - begin_ns;
        cx.host.sleep_ns(self.params.ns(self.params.before).saturating_sub(spent_ns));
        stop.set();
        let mut made = Vec::new();
        add_up(jobs, &mut made)?;
        tree.delete(kernel, cx, disk).map_err(failed)?;
        made.iter().try_for_each(|entry| disk.delete(kernel, cx, entry)).map_err(failed)
    }

    fn run(&self, cx: &Cx<'_, SimHost>, before: &Counters) -> Result<Ended, RunError> {
        let failed = |error: Error| RunError::of(Highalloc::NAME, error);
        let kernel = &*self.machine.kernel;
        let mut samples = Vec::new();
        let stop = Rc::new(Stop::default());

        // The headers for the module belong to the running system, and stay.
        let headers = Tree::unpack(kernel, cx, &self.disk, HEADERS_BYTES).map_err(failed)?;
        let headers = Rc::new(headers);
        // Times of the processes that the script waits for.
        let by_driver = SharedTimes::default();
        // Each copy is built as soon as it exists, the original last.
        let (disk, bytes) = (&*self.disk, self.sizes.tree_bytes);
        let original = Rc::new(Tree::unpack(kernel, cx, disk, bytes).map_err(failed)?);
        let mut trees = vec![Rc::clone(&original)];
        let mut made = Vec::new();
        let mut builders: Vec<Builder> = Vec::new();
        for number in 0..self.sizes.copies {
            let copy = Rc::new(original.copy(kernel, cx, disk).map_err(failed)?);
            let configure = self.build(&copy, number, &by_driver);
            made.extend(configure.some(cx, CONFIGURE_COMPILES).map_err(failed)?.made);
            builders.push(self.start(&copy, number, &stop));
            trees.push(copy);
        }
        builders.push(self.start(&original, self.sizes.copies, &stop));
        for _ in 0..WAITS {
            cx.host.sleep_ns(self.params.ns(self.params.wait));
        }

        let low: u64 = kernel.mem.populated_zones().map(|zone| zone.mark(Mark::Low)).sum();
        let free_before = kernel.mem.nr_free_pages() as f64 / low.max(1) as f64;
        let unmovable = free::unmovable_percent(kernel);
        samples.extend(free::samples(kernel, free::POINTS[0]));
        for pass in 1..PASSES {
            self.pass(cx, &headers, pass, &by_driver, &mut samples)?;
            cx.host.sleep_ns(self.params.ns(self.params.gap));
        }
        cx.host.sleep_ns(self.params.ns(self.params.rest));

        stop.set();
        let (compiles, mut times) = add_up(builders, &mut made)?;
        trees.iter().try_for_each(|tree| tree.delete(kernel, cx, disk)).map_err(failed)?;
        made.iter().try_for_each(|entry| disk.delete(kernel, cx, entry)).map_err(failed)?;
        drop((trees, made));
        flush(kernel, cx, disk, self.sizes.memory_mib << 20).map_err(failed)?;
        kernel.drop_caches(cx, 3);
        let min_free_kbytes = kernel.mem.min_free_kbytes();
        kernel.mem.set_min_free_kbytes(MIN_FREE_KBYTES);
        let free_after = 100.0 * kernel.mem.nr_free_pages() as f64 / self.memory_pages as f64;
        samples.extend(free::samples(kernel, free::POINTS[3]));
        self.pass(cx, &headers, PASSES, &by_driver, &mut samples)?;
        kernel.mem.set_min_free_kbytes(min_free_kbytes);

        let waited_for = by_driver.get();
        times.user_ns += waited_for.user_ns;
        times.system_ns += waited_for.system_ns;
        let counters = Counters::difference(before, &snapshot(&kernel.mem));
        let count = |event: VmEvent| counters.get(event.name()) as f64;
        let asked = count(VmEvent::ThpFaultAlloc) + count(VmEvent::ThpFaultFallback);
        let stolen = count(VmEvent::PgstealKswapd) + count(VmEvent::PgstealDirect);
        let values = [
            compiles as f64,
            asked / (compiles as f64).max(1.0),
            100.0 * count(VmEvent::ThpFaultAlloc) / asked.max(1.0),
            stolen / self.memory_pages as f64,
            free_before,
            unmovable,
            free_after,
        ];
        samples.extend(BUILD.iter().map(|&name| name.to_owned()).zip(values));
        Ok(Ended { samples, times, counters: Counters::default() })
    }

    /// A build of a tree. The times of its processes are added to `times`.
    fn build(&self, tree: &Rc<HostTree>, number: u32, times: &SharedTimes) -> HostBuild {
        Build {
            kernel: Rc::clone(&self.machine.kernel),
            tree: Rc::clone(tree),
            tools: Arc::clone(&self.tools),
            disk: Rc::clone(&self.disk),
            programs: SimPrograms { machine: self.machine.clone(), times: Rc::clone(times) },
            compression: self.params.compression,
            seed: worker_seed(self.seed, Chooser::Build, number),
        }
    }

    /// Starts a build that runs until it is stopped.
    fn start(&self, tree: &Rc<HostTree>, number: u32, stop: &Rc<Stop>) -> Builder {
        let (stop, times) = (Rc::clone(stop), SharedTimes::default());
        let build = self.build(tree, number, &times);
        let name = format!("make/{number}");
        self.machine.spawn_task(name, Placement::Anywhere, move |cx, _| {
            let (built, own) = timed(cx, || build.run(cx, &stop));
            (built, sum(own, times.get()))
        })
    }

    /// Compiles the module, makes the attempts, and frees the blocks when all attempts are made.
    fn pass(
        &self,
        cx: &Cx<'_, SimHost>,
        tree: &Rc<HostTree>,
        number: usize,
        times: &SharedTimes,
        samples: &mut Vec<(String, f64)>,
    ) -> Result<(), RunError> {
        let kernel = &*self.machine.kernel;
        let module = self.build(tree, u32::MAX - number as u32, times);
        module.some(cx, MODULE_COMPILES).map_err(|error| RunError::of(Highalloc::NAME, error))?;
        let pass = Pass {
            kernel,
            gfp: self.params.effort.gfp(),
            attempts: self.sizes.attempts,
            pace_jiffies: pace_jiffies(self.params.ns(self.sizes.pace_ms as f64 / 1e3)),
            spin: &spin,
        };
        let mut end: PassEnd = pass.run(cx);
        let percent = self.sizes.percent(end.successes());
        samples.push((success(number), percent as f64));
        let point = if number < PASSES { number } else { free::POINTS.len() - 1 };
        samples.extend(free::samples(kernel, free::POINTS[point]));
        end.release(kernel, cx);
        Ok(())
    }
}

/// Times of the processes of a build that have ended.
type SharedTimes = Rc<Cell<TaskTimes>>;

fn sum(a: TaskTimes, b: TaskTimes) -> TaskTimes {
    TaskTimes { user_ns: a.user_ns + b.user_ns, system_ns: a.system_ns + b.system_ns }
}

/// Processes of a build: tasks of the simulation.
#[derive(Clone)]
struct SimPrograms {
    machine: SimKernel,
    times: SharedTimes,
}

impl Programs<SimHost> for SimPrograms {
    type Process<T: 'static> = JoinHandle<T>;

    fn compute(&self, cx: &Cx<'_, SimHost>, ns: u64) {
        cx.host.sim().compute(ns);
    }

    fn start<T: 'static>(
        &self,
        name: &'static str,
        body: impl FnOnce(&Cx<'_, SimHost>) -> T + 'static,
    ) -> JoinHandle<T> {
        let times = Rc::clone(&self.times);
        self.machine.spawn_task(name, Placement::Anywhere, move |cx, _| {
            let (value, used) = timed(cx, || body(cx));
            times.set(sum(times.get(), used));
            value
        })
    }

    fn wait<T: 'static>(&self, process: JoinHandle<T>) -> Option<T> {
        process.join()
    }
}

/// A moment of going round in the kernel, up to the next tick.
fn spin(cx: &Cx<'_, SimHost>) {
    let to_tick_ns = 1_000_000_000 / HZ - cx.host.now_ns() % (1_000_000_000 / HZ);
    cx.host.sim().charge(SPIN_NS.min(to_tick_ns));
    cx.host.sim().yield_now();
}

/// Waits for all builds: returns how much they compiled, and their times. Adds their output to
/// `made`.
fn add_up(
    builders: Vec<Builder>,
    made: &mut Vec<Entry<SimHost>>,
) -> Result<(u64, Times), RunError> {
    let (mut compiles, mut times) = (0, Times::default());
    let mut failed = None;
    for builder in builders {
        let Some((built, used)) = builder.join() else {
            failed.get_or_insert(lost("build"));
            continue;
        };
        times.user_ns += used.user_ns;
        times.system_ns += used.system_ns;
        match built {
            Ok(built) => {
                compiles += built.compiles;
                made.extend(built.made);
            }
            Err(error) => {
                failed.get_or_insert(RunError::of(Highalloc::NAME, error));
            }
        }
    }
    failed.map_or(Ok((compiles, times)), Err)
}
