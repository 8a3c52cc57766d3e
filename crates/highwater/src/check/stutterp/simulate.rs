//! One run of a captured stutterp on the model.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use highwater_core::config::Policy;
use highwater_core::host::{HZ, Host};
use highwater_core::kernel::Error;
use highwater_core::page::PAGE_SIZE;
use highwater_core::page_cache::{File, FileSpec, Filesystem};
use highwater_core::trace::Event;
use highwater_results::Counters;
use highwater_results::import::linux61::Stutterp as Captured;
use highwater_sim::engine::{JoinHandle, Placement, Sim};
use highwater_sim::host::{SimHost, Tracing};
use highwater_sim::machine::SimMachine;
use highwater_workloads::stutterp::{
    Chooser, Hog, HogHabit, Latency, Stop, Writer, WriterHabit, worker_seed,
};

use super::super::machine::{self, System};
use super::Observed;
use crate::input::InputError;
use crate::workload::harness;
use crate::workload::outcome::snapshot;
use crate::workload::stutterp::{KSWAPD, stall_context};

/// Chaos has many outcomes, and a few say little about them: some runs throttle nobody.
const SEEDS: [u64; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
/// What the writers write at a time.
const BLOCK_BYTES: u64 = PAGE_SIZE as u64;
/// The latency worker's sleep.
const SLEEP_NS: u64 = 5_000_000;
/// The hogs' sleep between two sweeps.
const HOG_SLEEP_JIFFIES: u64 = HZ / 2;

type Worker<T> = JoinHandle<Result<T, Error>>;

/// Several runs.
pub(super) fn runs(
    system: &System<'_>,
    captured: &Captured,
    policy: &Policy,
) -> Result<Vec<Observed>, InputError> {
    thread::scope(|scope| {
        let runs = SEEDS.map(|seed| scope.spawn(move || run(system, captured, policy, seed)));
        let panicked = || InputError::whole(system.file, "the simulation panicked");
        runs.into_iter().map(|run| run.join().unwrap_or_else(|_| Err(panicked()))).collect()
    })
}

fn run(
    system: &System<'_>,
    captured: &Captured,
    policy: &Policy,
    seed: u64,
) -> Result<Observed, InputError> {
    let failed = |reason: String| InputError::whole(system.file, reason);
    let seen: Rc<RefCell<Observed>> = Rc::default();
    let watch = Watch::new(&seen);
    let mut config = machine::config(system, policy)?;
    config.seed = seed;
    config.tracing = Tracing { digest: false, sink: Some(watch.sink()) };
    let mut machine = SimMachine::boot(config).map_err(|error| failed(error.to_string()))?;
    watch.sim.set(machine.sim().clone()).ok();
    machine::adopt_sizes(&machine.kernel, system.zones);

    let baseline = machine::baseline(system);
    let setup = machine
        .spawn_task("setup", Placement::Anywhere, move |cx, kernel| baseline.apply(kernel, cx));
    machine.run().map_err(|error| failed(error.to_string()))?;
    // The idle process lives as long as the machine.
    let _idle = match setup.take() {
        Some(Ok(idle)) => idle,
        Some(Err(error)) => return Err(failed(error.to_string())),
        None => {
            return Err(failed("the machine did not get as far as the captured one".to_owned()));
        }
    };

    let stop = Arc::new(Stop::default());
    let workers = Workers::start(&machine, captured, &stop, seed);
    let (seconds, is_over) = (captured.seconds, Rc::clone(&watch.is_on));
    let clock = machine.spawn_task("clock", Placement::Anywhere, move |cx, kernel| {
        is_over.set(true);
        let before = snapshot(&kernel.mem);
        cx.host.sleep_ns((seconds * 1e9) as u64);
        is_over.set(false);
        let after = snapshot(&kernel.mem);
        stop.set();
        Counters::difference(&before, &after)
    });
    machine.run().map_err(|error| failed(error.to_string()))?;
    let latencies = workers.end().map_err(|error| failed(format!("a worker failed: {error}")))?;
    let counters = clock.take().ok_or_else(|| failed("the clock was lost".to_owned()))?;

    harness::settle_and_audit(&mut machine, |_, _| {})
        .map_err(|error| failed(error.to_string()))?;
    let mut observed = seen.take();
    observed.counters = counters;
    observed.latency_ms = within(&latencies, seconds);
    Ok(observed)
}

/// Operations that ended in time, milliseconds.
fn within(latencies_ns: &[u64], seconds: f64) -> Vec<f64> {
    let mut end_ns = 0;
    let in_time = latencies_ns.iter().take_while(|&&ns| {
        end_ns += ns + SLEEP_NS;
        end_ns as f64 <= seconds * 1e9
    });
    in_time.map(|&ns| ns as f64 / 1e6).collect()
}

/// Collects what the throttling events say.
struct Watch {
    /// The simulation, once there is one: it knows whose event it is.
    sim: Rc<OnceCell<Sim>>,
    /// The run has begun and is not over.
    is_on: Rc<Cell<bool>>,
    seen: Rc<RefCell<Observed>>,
}

impl Watch {
    fn new(seen: &Rc<RefCell<Observed>>) -> Self {
        Watch { sim: Rc::default(), is_on: Rc::default(), seen: Rc::clone(seen) }
    }

    fn sink(&self) -> highwater_sim::host::TraceSink {
        let Watch { sim, is_on, seen } = self;
        let (sim, is_on, seen) = (Rc::clone(sim), Rc::clone(is_on), Rc::clone(seen));
        Box::new(move |_, _, event| {
            let Event::Throttled { usec_timeout, usec_delayed, reason, .. } = *event else {
                return;
            };
            if !is_on.get() {
                return;
            }
            let is_kswapd = sim.get().is_some_and(|sim| stall_context(sim) == KSWAPD);
            let mut seen = seen.borrow_mut();
            let bars = if is_kswapd { &mut seen.kswapd } else { &mut seen.direct };
            let key = (reason.name().to_owned(), usec_timeout.into(), usec_delayed.into());
            *bars.entry(key).or_default() += 1;
        })
    }
}

/// All workers.
struct Workers {
    writers: Vec<Worker<u64>>,
    hogs: Vec<Worker<u64>>,
    latency: Worker<Vec<u64>>,
}

impl Workers {
    fn start(machine: &SimMachine, captured: &Captured, stop: &Arc<Stop>, seed: u64) -> Workers {
        let file_pages = (captured.file_bytes_each / PAGE_SIZE as u64) as u32;
        let writers = (0..captured.writers).map(|number| {
            // ext4, as captured. Preallocated: nothing is read before a page is written.
            let start = u64::from(number) * u64::from(file_pages);
            let spec = FileSpec::new(Filesystem::EXT4, machine::DATA, start, file_pages);
            let files: [Arc<File<SimHost>>; 1] =
                [machine.kernel.create_file(&machine.outside(), spec)];
            let stop = Arc::clone(stop);
            let seed = worker_seed(seed, Chooser::Writer, number);
            machine.spawn_task(
                format!("writer/{number}"),
                Placement::Anywhere,
                move |cx, kernel| {
                    let (block_bytes, habit) = (BLOCK_BYTES, WriterHabit::Anywhere);
                    Writer { kernel, files: &files, block_bytes, habit, seed, stop: &stop }.run(cx)
                },
            )
        });
        let writers = writers.collect();
        let pages = (captured.hog_bytes_each / PAGE_SIZE as u64) as u32;
        let hogs = (0..captured.hogs).map(|number| {
            let stop = Arc::clone(stop);
            machine.spawn_task(format!("hog/{number}"), Placement::Anywhere, move |cx, kernel| {
                let habit = HogHabit::RemapAfter { jiffies: HOG_SLEEP_JIFFIES };
                Hog { kernel, pages, habit, stop: &stop }.run(cx)
            })
        });
        let hogs = hogs.collect();
        let pages = (captured.latency_bytes / PAGE_SIZE as u64) as u32;
        let (name, stop) = (format!("mmap-{}", captured.workers), Arc::clone(stop));
        let latency = machine.spawn_task("latency", Placement::Anywhere, move |cx, kernel| {
            Latency { kernel, pages, sleep_ns: SLEEP_NS, name: &name, stop: &stop }.run(cx)
        });
        Workers { writers, hogs, latency }
    }

    /// Times of the latency worker's operations; the OOM killer may have ended any of the others.
    fn end(self) -> Result<Vec<u64>, Error> {
        for worker in self.writers.iter().chain(&self.hogs) {
            worker.take().transpose()?;
        }
        Ok(self.latency.take().transpose()?.unwrap_or_default())
    }
}
