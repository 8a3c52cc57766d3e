//! Engine benchmarks: sleep + wake through whole tasks, and the event queue alone.
//!
//! Each benchmark checks its result: a wake-up that is not at the exact time, or an event out of
//! order, is an error. `--quick` (and `cargo test --benches`) runs a small version.

#[path = "stage/mod.rs"]
mod stage;

use std::collections::BinaryHeap;
use std::hint::black_box;
use std::rc::Rc;
use std::time::Instant;

use highwater_core::config::{Machine, preset};
use highwater_core::host::Cx;
use highwater_core::page_alloc::boot;
use highwater_sim::cost::{CostModel, CostTable};
use highwater_sim::cpu::CpuId;
use highwater_sim::engine::{Engine, EngineConfig, Placement, Spawn};
use highwater_sim::host::{SimHost, Tracing, engine_config};
use highwater_sim::lock::{LockCosts, LockKind, SimLock};
use highwater_sim::rng::Stream;
use stage::loops;

fn main() {
    // `cargo bench` passes `--bench`; `cargo test --benches` does not.
    let has = |flag: &str| std::env::args().any(|arg| arg == flag);
    let quick = has("--quick") || !has("--bench");
    let scale = if quick { 1 } else { 100 };
    // A name selects one group: sleep, sync, lock, alloc, queue. A number after it selects the
    // number of sleepers.
    let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with('-'));
    let only = args.next();
    let only_tasks: Option<u32> = args.next().and_then(|arg| arg.parse().ok());
    let wanted = |group: &str| only.as_deref().is_none_or(|only| only == group);
    for (name, placement) in
        [("interrupt context", Some(Placement::Interrupt(CpuId(0)))), ("on 48 CPUs", None)]
    {
        let all = [1, 64, 1024, 16_384];
        let sizes = all.into_iter().filter(|&n| only_tasks.is_none_or(|only| only == n));
        for nr_tasks in sizes.filter(|_| wanted("sleep")) {
            let nr_wakes = (50_000 * scale / nr_tasks).max(4);
            sleep_wake(name, placement, nr_tasks, nr_wakes);
        }
    }
    if wanted("sync") {
        sync_alone(1_000_000 * u64::from(scale));
    }
    if wanted("lock") {
        lock_alone(LockKind::Private, 1_000_000 * u64::from(scale));
        lock_alone(LockKind::Spin, 1_000_000 * u64::from(scale));
    }
    if wanted("alloc") {
        alloc_free(100_000 * u64::from(scale));
    }
    for nr_pending in [64, 1024, 65_536].into_iter().filter(|_| wanted("queue")) {
        for mix in [Mix::Exponential, Mix::Kernel] {
            hold_model(nr_pending, mix, 20_000 * u64::from(scale));
        }
    }
}

/// Tasks that sleep for random times; every wake-up must come at the exact time.
fn sleep_wake(name: &str, placement: Option<Placement>, nr_tasks: u32, nr_wakes: u32) {
    let mut engine = Engine::new(&EngineConfig::new(48));
    let placement = placement.unwrap_or(Placement::Anywhere);
    loops::sleepers(&mut engine, placement, nr_tasks.into(), nr_wakes.into());
    // Start everything outside the measurement.
    engine.run_until(1).expect("start");
    let before = engine.nr_events();
    let start = Instant::now();
    engine.run().expect("run");
    let elapsed = start.elapsed();
    let nr_events = engine.nr_events() - before;
    let expected = u64::from(nr_tasks) * u64::from(nr_wakes);
    assert!(nr_events >= expected, "{nr_events} events for {expected} wake-ups");
    println!(
        "sleep+wake, {nr_tasks:>6} tasks {name:<18} {:>6.1} M/s  {:>6.1} ns each  digest {:016x}",
        expected as f64 / elapsed.as_secs_f64() / 1e6,
        elapsed.as_nanos() as f64 / expected as f64,
        engine.digest().value(),
    );
}

/// A task alone on its machine: charge and synchronise.
fn sync_alone(nr_steps: u64) {
    let mut engine = Engine::new(&EngineConfig::new(4));
    let task = engine.spawn(Spawn::new("alone"), move |sim| {
        let start = Instant::now();
        for _ in 0..nr_steps {
            black_box(sim).charge(7);
            black_box(sim).sync();
        }
        assert_eq!(sim.now_ns(), 7 * nr_steps);
        start.elapsed()
    });
    engine.run().expect("run");
    let elapsed = task.take().expect("result");
    println!(
        "charge+sync, task alone                     {:>6.2} ns each",
        elapsed.as_nanos() as f64 / nr_steps as f64
    );
}

/// An uncontended lock taken and released.
fn lock_alone(kind: LockKind, nr_rounds: u64) {
    let mut engine = Engine::new(&EngineConfig::new(4));
    let costs = LockCosts { hot_ns: loops::HOT_NS, ..LockCosts::default() };
    let class = engine.sim().lock_class("bench", kind, costs);
    let lock = SimLock::new(engine.sim(), &class, 0u64);
    let task = engine.spawn(Spawn::new("alone"), move |sim| {
        let start = Instant::now();
        loops::lock(sim, &lock, nr_rounds);
        start.elapsed()
    });
    engine.run().expect("run");
    let elapsed = task.take().expect("result");
    println!(
        "lock+unlock, uncontended, {:<17} {:>6.2} ns each",
        format!("{kind:?}"),
        elapsed.as_nanos() as f64 / nr_rounds as f64
    );
}

/// The core's allocator on the simulated machine: an order-0 page allocated and freed.
fn alloc_free(nr_pairs: u64) {
    let machine = Machine::from_sizes("bench", &[(1 << 30, vec![0, 1])]).expect("machine");
    let costs = CostModel::new(&CostTable::server_3ghz());
    let mut engine = Engine::new(&engine_config(&machine, &costs));
    let host = Rc::new(SimHost::new(engine.sim(), &machine, costs, Tracing::default()));
    let task = engine.spawn(Spawn::new("pairs").pinned(CpuId(0)), move |sim| {
        let memory = boot(&*host, &machine, &preset("6.1").expect("preset")).expect("boot");
        let cx = Cx::new(&*host, CpuId(0));
        let start_ns = sim.now_ns();
        let start = Instant::now();
        loops::pairs(&memory, &cx, nr_pairs);
        let elapsed = start.elapsed();
        assert!(sim.now_ns() - start_ns >= 90 * nr_pairs, "an alloc costs 50, a free 40");
        elapsed
    });
    engine.run().expect("run");
    let elapsed = task.take().expect("result");
    println!(
        "alloc+free, order 0, one task               {:>6.2} ns each",
        elapsed.as_nanos() as f64 / nr_pairs as f64
    );
}

#[derive(Clone, Copy, Debug)]
enum Mix {
    /// Exponential-like delays with a mean of 100 us.
    Exponential,
    /// 1 us slices, 100 us of I/O, 100 ms timers.
    Kernel,
}

impl Mix {
    fn delay_ns(self, stream: &mut Stream) -> u64 {
        match self {
            Mix::Exponential => stream.exponential(100_000.0) as u64,
            Mix::Kernel => loops::kernel_delay_ns(stream),
        }
    }
}

/// Pops the earliest event and pushes it again later; compared with the standard library's heap.
fn hold_model(nr_pending: u32, mix: Mix, nr_holds: u64) {
    let mut stream = Stream::new(2, "hold");
    let delays: Vec<u64> = (0..4096).map(|_| mix.delay_ns(&mut stream)).collect();

    let mut queue = loops::filled(nr_pending, &delays);
    let start = Instant::now();
    let wheel_sum = loops::hold(&mut queue, &delays, nr_holds);
    let wheel_ns = start.elapsed().as_nanos() as f64 / nr_holds as f64;

    let mut heap = BinaryHeap::new();
    for id in 0..nr_pending {
        let time_ns = delays[id as usize % delays.len()];
        heap.push(std::cmp::Reverse((time_ns, u64::from(id), id)));
    }
    let start = Instant::now();
    let mut heap_sum = 0u64;
    for i in 0..nr_holds {
        let std::cmp::Reverse((time_ns, _, id)) = heap.pop().expect("pending");
        heap_sum = heap_sum.rotate_left(1) ^ time_ns ^ u64::from(id);
        let seq = u64::from(nr_pending) + i;
        heap.push(std::cmp::Reverse((time_ns + delays[i as usize % delays.len()], seq, id)));
    }
    let heap_ns = start.elapsed().as_nanos() as f64 / nr_holds as f64;
    assert_eq!(wheel_sum, heap_sum, "the wheel's order differs from the heap's");
    println!(
        "pop+push, {nr_pending:>6} pending, {:<12} wheel {wheel_ns:>6.1} ns   BinaryHeap {heap_ns:>6.1} ns",
        format!("{mix:?}")
    );
}
