//! Hand-made stalls and the totals that Linux's documentation defines for them (rules/pressure).

use highwater_core::host::Stall;

use super::{Reading, Resource};
use crate::cpu::CpuId;
use crate::engine::{Engine, EngineConfig, Sim, Spawn};

const MS: u64 = 1_000_000;

/// A step of a test task, in milliseconds.
#[derive(Clone, Copy)]
enum Do {
    Sleep(u64),
    Compute(u64),
    /// Sleeps, waiting for a device.
    Io(u64),
    /// Sleeps, waiting for memory.
    Memory(u64),
    /// Sleeps, waiting for a device with memory.
    SwapIn(u64),
    /// Runs, looking for memory.
    Reclaim(u64),
    /// A stall within a stall, half and half.
    Nested(u64),
}

fn act(sim: &Sim, what: Do) {
    let stalled = |stalls: &[Stall], run: &dyn Fn()| {
        stalls.iter().for_each(|&stall| sim.stall(stall, true));
        run();
        stalls.iter().for_each(|&stall| sim.stall(stall, false));
    };
    match what {
        Do::Sleep(ms) => sim.sleep_ns(ms * MS),
        Do::Compute(ms) => sim.compute(ms * MS),
        Do::Io(ms) => stalled(&[Stall::Io], &|| sim.sleep_ns(ms * MS)),
        Do::Memory(ms) => stalled(&[Stall::Memory], &|| sim.sleep_ns(ms * MS)),
        Do::SwapIn(ms) => stalled(&[Stall::Io, Stall::Memory], &|| sim.sleep_ns(ms * MS)),
        Do::Reclaim(ms) => stalled(&[Stall::Memory], &|| sim.compute(ms * MS)),
        Do::Nested(ms) => stalled(&[Stall::Memory], &|| {
            stalled(&[Stall::Memory], &|| sim.compute(ms * MS / 2));
            sim.compute(ms * MS / 2);
        }),
    }
}

/// Runs tasks, each pinned to a CPU.
fn run(nr_cpus: u16, tasks: &[(u16, &'static [Do])]) -> Reading {
    let mut engine = Engine::new(&EngineConfig::new(nr_cpus));
    engine.sim().measure_pressure();
    for &(cpu, program) in tasks {
        engine.spawn(Spawn::new("task").pinned(CpuId(cpu)), move |sim| {
            program.iter().for_each(|&what| act(sim, what));
        });
    }
    engine.run().expect("the tasks end");
    engine.sim().pressure()
}

/// Totals in milliseconds: CPU some; memory some, full; I/O some, full.
fn totals(reading: Reading) -> [u64; 5] {
    let [cpu, memory, io] =
        [Resource::Cpu, Resource::Memory, Resource::Io].map(|resource| reading.of(resource));
    [cpu.some, memory.some, memory.full, io.some, io.full].map(|line| line.total_us / 1000)
}

#[test]
fn one_cpu_and_one_task() {
    assert_eq!(totals(run(1, &[(0, &[Do::Compute(500), Do::Sleep(500)])])), [0; 5]);
    assert_eq!(totals(run(1, &[(0, &[Do::Io(500), Do::Sleep(500)])])), [0, 0, 0, 500, 500]);
    assert_eq!(totals(run(1, &[(0, &[Do::Memory(500)])])), [0, 500, 500, 0, 0]);
    assert_eq!(totals(run(1, &[(0, &[Do::SwapIn(500)])])), [0, 500, 500, 500, 500]);
    // No task makes progress while the only one reclaims.
    assert_eq!(totals(run(1, &[(0, &[Do::Reclaim(500)])])), [0, 500, 500, 0, 0]);
    assert_eq!(totals(run(1, &[(0, &[Do::Nested(500), Do::Compute(100)])])), [0, 500, 500, 0, 0]);
}

#[test]
fn one_cpu_and_two_tasks() {
    let busy: &[Do] = &[Do::Compute(500)];
    // One task waits, another works.
    assert_eq!(totals(run(1, &[(0, &[Do::Io(500)]), (0, busy)])), [0, 0, 0, 500, 0]);
    assert_eq!(totals(run(1, &[(0, &[Do::Memory(500)]), (0, busy)])), [0, 500, 0, 0, 0]);
    // Both want the CPU for 1000 ms in all: one waits until the first is done.
    let [cpu, memory, full, ..] = totals(run(1, &[(0, &[Do::Reclaim(500)]), (0, busy)]));
    assert!((990..=1000).contains(&cpu), "{cpu}");
    // They take turns until both are nearly done. While one reclaims, the other could not work.
    assert!((985..=1000).contains(&memory), "{memory}");
    assert!((499..=501).contains(&full), "{full}");
    // Both wait, one twice as long.
    let both = run(1, &[(0, &[Do::Io(500)]), (0, &[Do::Io(1000)])]);
    assert_eq!(totals(both), [0, 0, 0, 1000, 1000]);
}

/// The mean over CPUs, each weighed by its non-idle time.
#[test]
fn two_cpus() {
    let busy: &[Do] = &[Do::Compute(500)];
    assert_eq!(totals(run(2, &[(0, &[Do::Memory(500)]), (1, busy)])), [0, 250, 250, 0, 0]);
    // An idle CPU does not count.
    assert_eq!(totals(run(2, &[(0, &[Do::Memory(500)])])), [0, 500, 500, 0, 0]);
    assert_eq!(
        totals(run(2, &[(0, &[Do::Memory(500)]), (1, &[Do::Io(500)])])),
        [0, 250, 250, 250, 250]
    );
    // Not idle for 500 and 100 ms: (500 * 500 + 0 * 100) / 600.
    let short = run(2, &[(0, &[Do::Memory(500)]), (1, &[Do::Compute(100)])]);
    assert_eq!(totals(short), [0, 416, 416, 0, 0]);
}

/// Each period of two seconds has its own weights, and a reading changes nothing.
#[test]
fn periods() {
    let long: &[Do] = &[Do::Memory(5000)];
    let late: &[Do] = &[Do::Sleep(4000), Do::Compute(1000)];
    // Four seconds with one CPU at work, one with two.
    assert_eq!(totals(run(2, &[(0, long), (1, late)])), [0, 4500, 4500, 0, 0]);
    let look = |every_ns: u64| {
        let mut engine = Engine::new(&EngineConfig::new(1));
        engine.sim().measure_pressure();
        engine.sim().sample_every(every_ns, |at_ns, look| {
            let some = look.pressure(at_ns).of(Resource::Memory).some;
            assert_eq!(some.total_us, at_ns / 1000);
        });
        engine.spawn(Spawn::new("task"), |sim| act(sim, Do::Memory(10_000)));
        engine.run().expect("the task ends");
        engine.sim().pressure()
    };
    assert_eq!(look(0), look(3_000_000));
    // Two samplers, each at its times; of one time the first comes first.
    let seen = std::rc::Rc::<std::cell::RefCell<Vec<(char, u64)>>>::default();
    let mut engine = Engine::new(&EngineConfig::new(1));
    for (name, every_ns) in [('a', 300_000_000), ('b', 200_000_000)] {
        let seen = seen.clone();
        engine.sim().sample_every(every_ns, move |at_ns, look| {
            assert_eq!(look.tasks().len(), 1);
            seen.borrow_mut().push((name, at_ns / 100_000_000));
        });
    }
    engine.spawn(Spawn::new("task"), |sim| act(sim, Do::Memory(650)));
    engine.run().expect("the task ends");
    assert_eq!(*seen.borrow(), [('b', 2), ('a', 3), ('b', 4), ('a', 6), ('b', 6)]);
    engine.sim().sample_every(0, |_, _| {});
    assert_eq!(engine.sim().look(|look| look.tasks().len()), 0);
    let some = look(0).of(Resource::Memory).some;
    assert_eq!(some.to_string(), "avg10=63.21 avg60=15.35 avg300=3.28 total=10000000");
}

/// A task that moves to another CPU takes its stall along.
#[test]
fn stalls_move_with_tasks() {
    let mut engine = Engine::new(&EngineConfig::new(2));
    engine.sim().measure_pressure();
    for _ in 0..3 {
        engine.spawn(Spawn::new("task"), |sim| act(sim, Do::Reclaim(400)));
    }
    engine.run().expect("the tasks end");
    let [_, some, full, ..] = totals(engine.sim().pressure());
    // The running task always reclaims and no other works: 1200 ms on two CPUs.
    assert!((590..=620).contains(&some), "{some}");
    assert_eq!(some, full);
}
