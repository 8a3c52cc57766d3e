//! One run on the simulated machine: the steps of mmtests' script, in its order
//! (rules/benchmarks#stutter-script).

use std::rc::Rc;
use std::sync::Arc;

use highwater_core::block::DeviceId;
use highwater_core::host::{Cx, Host};
use highwater_core::kernel::Error;
use highwater_core::page::PAGE_SIZE;
use highwater_core::page_cache::{File, FileSpec, Filesystem};
use highwater_results::words::count;
use highwater_results::{Counters, Largest, Times};
use highwater_sim::engine::Placement;
use highwater_sim::host::{SimHost, Tracing};
use highwater_sim::machine::SimKernel;
use highwater_workloads::stutter::{Copier, Hog, HogHabit, Lap, Latency, Sizes, Stop, Zeros};

use super::super::ends::{Ends, Worker};
use super::super::harness::{self, lost, run_to_end, timed};
use super::super::storage::{DATA, Storage};
use super::super::{Unit, Workload};
use super::places::Places;
use super::{MMAP, Stutter, StutterParams, WRITES};
use crate::outcome::{Outcome, RunError, snapshot};

/// The disk that the copied file is on, if the machine has one that is large enough.
const OTHER: DeviceId = DeviceId(1);
/// Room that it needs there, percent of the file.
const ROOM_PERCENT: u64 = 110;
/// Bytes of a MiB.
const MIB: f64 = (1 << 20) as f64;

/// The results of a run.
struct Ended {
    laps: Vec<Lap>,
    /// MiB a second.
    estimated: f64,
    parallel: Vec<f64>,
    times: Times,
    counters: Counters,
    /// Copies before which the hog had to be started again.
    restarts: u32,
}

/// Boots a machine and runs the script on it.
pub(super) fn run(unit: &Unit<'_>, params: &StutterParams) -> Result<Outcome, RunError> {
    let memory_pages = harness::managed_pages(unit);
    let sizes = params.sizes(memory_pages);
    let (file_pages, calibrate_pages) = (pages(sizes.file), pages(sizes.calibrate));
    // The copy, or the calibration file; and the source, if the other disk has no room for it.
    let of_target = file_pages.max(calibrate_pages);
    let other = room_on_other(unit, file_pages);
    let of_source = if other.is_some() { 0 } else { file_pages };
    let storage = Storage::of(unit, of_target + of_source, memory_pages, "the file and its copy")?;
    let first_page = storage.first_page;
    let mut notes: Vec<String> = storage.note.clone().into_iter().collect();
    let mut config = harness::config(unit)?;
    storage.attach(&mut config);
    let places = Places::default();
    config.tracing = Tracing { sink: Some(places.sink()), ..Tracing::default() };
    let mut machine = harness::boot(unit, config)?;
    places.watch(&machine.kernel);

    let before = snapshot(&machine.kernel.mem);
    let script = Script {
        machine: SimKernel::clone(&machine),
        params: params.clone(),
        sizes,
        target: (DATA, first_page),
        source: other.map_or((DATA, first_page + of_target), |page| (OTHER, page)),
    };
    let driver = machine.spawn_task(Stutter::NAME, Placement::Anywhere, move |cx, kernel| {
        let (ended, times) = timed(cx, || script.run(cx));
        let mut ended = ended?;
        ended.times.user_ns += times.user_ns;
        ended.times.system_ns += times.system_ns;
        ended.times.elapsed_ns = cx.host.now_ns();
        ended.counters = Counters::difference(&before, &snapshot(&kernel.mem));
        Ok::<_, RunError>(ended)
    });
    run_to_end(&mut machine)?;
    let ended = driver.take().ok_or_else(|| lost("driver"))??;
    let placed: Vec<(String, f64)> = places.samples().collect();
    let explained = harness::ended(&machine, unit)?;
    let digest = machine.digest().value();
    harness::settle_and_audit(&mut machine, harness::delete_files)?;

    if ended.restarts > 0 {
        notes.push(format!(
            "the memory hog died and was started again {}",
            count(ended.restarts, "time")
        ));
    }
    let milliseconds = |ns: u64| ns as f64 / 1e6;
    let mut largest = Vec::new();
    for lap in &ended.laps {
        let (operation, value) = (MMAP.to_owned(), milliseconds(lap.ns));
        let new = Largest { operation, seed: unit.seed, value, at_ns: lap.end_ns };
        Largest::keep(&mut largest, new);
    }
    let mut samples: Vec<(String, f64)> =
        ended.laps.iter().map(|lap| (MMAP.to_owned(), milliseconds(lap.ns))).collect();
    samples.push((WRITES[0].to_owned(), ended.estimated));
    samples.extend(ended.parallel.iter().map(|&rate| (WRITES[1].to_owned(), rate)));
    samples.extend(placed);
    Ok(Outcome {
        samples,
        largest,
        counters: ended.counters,
        times: ended.times,
        notes,
        digest,
        explained,
        ..Outcome::default()
    })
}

/// First page for the source on the other disk, if there is such a disk and it is large enough.
fn room_on_other(unit: &Unit<'_>, file_pages: u64) -> Option<u64> {
    let disk = unit.machine.disks().get(usize::from(OTHER.0))?;
    let area = unit.machine.swap().iter().find(|area| area.device == OTHER);
    let first_page = area.map_or(0, |area| u64::from(area.pages));
    (first_page + file_pages * ROOM_PERCENT / 100 <= disk.nr_pages).then_some(first_page)
}

const fn pages(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_SIZE as u64)
}

/// The script.
struct Script {
    machine: SimKernel,
    params: StutterParams,
    sizes: Sizes,
    /// Device and first page of the copy.
    target: (DeviceId, u64),
    /// The same for the source file.
    source: (DeviceId, u64),
}

impl Script {
    fn run(&self, cx: &Cx<'_, SimHost>) -> Result<Ended, RunError> {
        let failed = |error: Error| RunError::of(Stutter::NAME, error);
        let kernel = &*self.machine.kernel;
        let &Sizes { file, calibrate, .. } = &self.sizes;
        let block = self.params.block.0;

        let calibrated = self.empty_file(cx, self.target, calibrate);
        let ns = Zeros { kernel, file: &calibrated, bytes: calibrate, block }.run(cx);
        let estimated = calibrate as f64 / MIB / (ns.map_err(failed)?.max(1) as f64 / 1e9);
        kernel.delete_file(cx, &calibrated);
        let source = self.empty_file(cx, self.source, file);
        Zeros { kernel, file: &source, bytes: file, block }.run(cx).map_err(failed)?;
        kernel.sync_all(cx);
        kernel.drop_caches(cx, 3);

        let mut ends = Ends::new(Stutter::NAME);
        let of_latency = Rc::new(Stop::default());
        let latency = self.start_latency(&of_latency);
        let (mut parallel, mut restarts) = (Vec::new(), 0);
        for number in 0..self.params.iterations {
            let copied = self.copy_beside_hog(cx, &source, number, &mut restarts, &mut ends);
            match copied {
                Ok(Some(ns)) => {
                    // The script adds a second.
                    parallel.push(file as f64 / MIB / (ns as f64 / 1e9 + 1.0));
                }
                Ok(None) => {}
                Err(error) => ends.failed(failed(error)),
            }
            if ends.has_failed() {
                break;
            }
        }
        of_latency.set();
        let laps = ends.of(latency);
        kernel.delete_file(cx, &source);
        let times = ends.times()?;
        Ok(Ended { laps, estimated, parallel, times, counters: Counters::default(), restarts })
    }

    /// One copy: the hog fills its memory first and is killed afterwards. How long the copy took.
    fn copy_beside_hog(
        &self,
        cx: &Cx<'_, SimHost>,
        source: &Arc<File<SimHost>>,
        number: u32,
        restarts: &mut u32,
        ends: &mut Ends,
    ) -> Result<Option<u64>, Error> {
        let stop = Rc::new(Stop::default());
        let mut hog = self.start_hog(number, &stop);
        cx.host.sleep_ns(nanoseconds(self.params.wait));
        if hog.is_over() {
            // The OOM killer chose it.
            ends.of(hog);
            *restarts += 1;
            hog = self.start_hog(number, &stop);
        }
        let kernel = &*self.machine.kernel;
        let target = self.empty_file(cx, self.target, self.sizes.file);
        let copied = Copier { kernel, source, target: &target, block: self.params.block.0 }.run(cx);
        stop.set();
        ends.of(hog);
        kernel.delete_file(cx, &target);
        copied
    }

    fn start_hog(&self, number: u32, stop: &Rc<Stop>) -> Worker<u64> {
        let stop = Rc::clone(stop);
        let pages = u32::try_from(pages(self.sizes.hog)).unwrap_or(u32::MAX);
        let name = format!("hog/{number}");
        self.machine.spawn_task(name, Placement::Anywhere, move |cx, kernel| {
            timed(cx, || Hog { kernel, pages, habit: HogHabit::Rest, stop: &stop }.run(cx))
        })
    }

    fn start_latency(&self, stop: &Rc<Stop>) -> Worker<Vec<Lap>> {
        let stop = Rc::clone(stop);
        let pages = u32::try_from(pages(self.sizes.mapping)).unwrap_or(u32::MAX);
        let sleep_ns = nanoseconds(self.params.pause_ms / 1e3);
        self.machine.spawn_task("latency".to_owned(), Placement::Anywhere, move |cx, kernel| {
            timed(cx, || Latency { kernel, pages, sleep_ns, name: MMAP, stop: &stop }.laps(cx))
        })
    }

    /// An empty file with room for this many bytes.
    fn empty_file(
        &self,
        cx: &Cx<'_, SimHost>,
        (device, first_page): (DeviceId, u64),
        bytes: u64,
    ) -> Arc<File<SimHost>> {
        let max_pages = u32::try_from(pages(bytes)).unwrap_or(u32::MAX);
        let spec = FileSpec::new(Filesystem::EXT4, device, first_page, max_pages);
        self.machine.kernel.create_file(cx, spec.with_size(0))
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}
