//! One run of a captured program on the model.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use highwater_core::config::Policy;
use highwater_core::host::{CpuId, Cx, Host};
use highwater_core::kernel::Kernel;
use highwater_core::trace::Event;
use highwater_results::Counters;
use highwater_results::import::linux61::Throttling as Captured;
use highwater_sim::engine::{Placement, Sim};
use highwater_sim::host::{SimHost, Tracing};
use highwater_sim::machine::SimMachine;
use highwater_workloads::stutterp::Stop;

use super::super::machine::{self, System};
use super::Kind;
use super::observed::{Late, Observed};
use super::program::{SLEEP_NS, Workers};
use highwater_files::input::InputError;
use highwater_runs::workload::harness;
use highwater_runs::workload::outcome::snapshot;
use highwater_runs::workload::stutterp::{KSWAPD, stall_context};

/// Number of runs of a program. A chaotic program has many outcomes, and a few runs show little of
/// them: some runs of stutterp throttle no task. Runs of a storm are similar to each other.
const fn nr_runs(kind: Kind) -> u64 {
    match kind {
        Kind::Stutterp => 12,
        Kind::Storm => 6,
    }
}
/// When the later part of a run begins, seconds.
const LATE_S: f64 = 10.0;

/// Several runs.
pub(super) fn runs(
    system: &System<'_>,
    kind: Kind,
    captured: &Captured,
    policy: &Policy,
) -> Result<Vec<Observed>, InputError> {
    thread::scope(|scope| {
        let runs: Vec<_> = (1..=nr_runs(kind))
            .map(|seed| scope.spawn(move || run(system, kind, captured, policy, seed)))
            .collect();
        let panicked = || InputError::whole(system.file, "the simulation panicked");
        runs.into_iter().map(|run| run.join().unwrap_or_else(|_| Err(panicked()))).collect()
    })
}

fn run(
    system: &System<'_>,
    kind: Kind,
    captured: &Captured,
    policy: &Policy,
    seed: u64,
) -> Result<Observed, InputError> {
    let failed = |reason: String| InputError::whole(system.file, reason);
    let seen: Rc<RefCell<Observed>> = Rc::default();
    let watch = Watch::new(&seen);
    let mut config = machine::config(system, policy)?;
    config.seed = seed;
    config.tracing = Tracing { sink: Some(watch.sink()), ..Tracing::default() };
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
    let (seconds, cpus, is_over) = (captured.seconds, captured.cpus, Rc::clone(&watch.is_on));
    let clock = machine.spawn_task("clock", Placement::Anywhere, move |cx, kernel| {
        let sleep = |seconds: f64| cx.host.sleep_ns((seconds * 1e9) as u64);
        is_over.set(true);
        let before = Moment::now(cx, kernel, cpus);
        let early_s = if kind == Kind::Storm { LATE_S.min(seconds) } else { seconds };
        sleep(early_s);
        let middle = Moment::now(cx, kernel, cpus);
        sleep(seconds - early_s);
        is_over.set(false);
        let after = Moment::now(cx, kernel, cpus);
        stop.set();
        (before, middle, after)
    });
    machine.run().map_err(|error| failed(error.to_string()))?;
    let latencies = workers.end().map_err(|error| failed(format!("a worker failed: {error}")))?;
    let (before, middle, after) =
        clock.take().ok_or_else(|| failed("the clock was lost".to_owned()))?;

    harness::settle_and_audit(&mut machine, |_, _| {})
        .map_err(|error| failed(error.to_string()))?;
    let mut observed = seen.take();
    observed.seconds = seconds;
    observed.counters = Counters::difference(&before.counters, &after.counters);
    observed.msleep100 = Some(after.msleep100 - before.msleep100);
    observed.system_s = Some(after.system_s - before.system_s);
    observed.latency_ms = within(&latencies, seconds);
    if kind == Kind::Storm && seconds > LATE_S {
        let late = Counters::difference(&middle.counters, &after.counters);
        observed.late = Some(Late {
            seconds: seconds - LATE_S,
            scanned_direct: late.get("pgscan_direct") as f64,
            stolen_direct: late.get("pgsteal_direct") as f64,
            scanned_kswapd: late.get("pgscan_kswapd") as f64,
            system_s: after.system_s - middle.system_s,
        });
    }
    Ok(observed)
}

/// Counters at one moment.
struct Moment {
    counters: Counters,
    msleep100: u64,
    system_s: f64,
}

impl Moment {
    fn now(cx: &Cx<'_, SimHost>, kernel: &Kernel<SimHost>, cpus: u32) -> Moment {
        let sim = cx.host.sim();
        let system_ns: u64 = (0..cpus).map(|cpu| sim.cpu_times(CpuId(cpu as u16)).system_ns).sum();
        Moment {
            counters: snapshot(&kernel.mem),
            msleep100: kernel.reclaim.nodes().iter().map(|node| node.nr_isolated_sleeps()).sum(),
            system_s: system_ns as f64 / 1e9,
        }
    }
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

/// Collects wait events.
struct Watch {
    /// The simulation, once it exists; it maps an event to its task.
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
            let (timeout, delayed, kind) = match *event {
                Event::Throttled { usec_timeout, usec_delayed, reason, .. } => {
                    let name = reason.name();
                    let short = name.strip_prefix("VMSCAN_THROTTLE_").unwrap_or(name);
                    (usec_timeout, usec_delayed, short)
                }
                Event::CongestionWait { usec_timeout, usec_delayed } => {
                    (usec_timeout, usec_delayed, "congestion_wait")
                }
                Event::WaitIffCongested { usec_timeout, usec_delayed } => {
                    (usec_timeout, usec_delayed, "wait_iff_congested")
                }
                _ => return,
            };
            if !is_on.get() {
                return;
            }
            let is_kswapd = sim.get().is_some_and(|sim| stall_context(sim) == KSWAPD);
            let mut seen = seen.borrow_mut();
            let bars = if is_kswapd { &mut seen.kswapd } else { &mut seen.direct };
            let key = (kind.to_owned(), timeout.into(), delayed.into());
            *bars.entry(key).or_default() += 1;
        })
    }
}
