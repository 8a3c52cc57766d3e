//! The engine: tasks that sleep, its queue, its locks.

use std::rc::Rc;

use highwater_sim::cpu::CpuId;
use highwater_sim::engine::{Engine, EngineConfig, Placement, Spawn};
use highwater_sim::lock::{LockCosts, LockKind, SimLock};
use highwater_sim::rng::Stream;

use super::Units;
use super::stage::loops;

const SLEEPERS: u64 = 1024;
const PENDING: u32 = 1024;
/// CPUs that want one lock.
const RIVALS: u16 = 16;

pub(super) fn interrupt(wakes: u64) -> Units {
    sleep_wake(Placement::Interrupt(CpuId(0)), wakes)
}

pub(super) fn on_cpus(wakes: u64) -> Units {
    sleep_wake(Placement::Anywhere, wakes)
}

fn sleep_wake(placement: Placement, wakes: u64) -> Units {
    let mut engine = Engine::new(&EngineConfig::new(48));
    loops::sleepers(&mut engine, placement, SLEEPERS, wakes);
    engine.run().expect("run");
    Units(SLEEPERS * wakes).tell()
}

/// Pops the earliest event and pushes it again later: short slices, transfers, timers.
pub(super) fn queue(holds: u64) -> Units {
    let mut stream = Stream::new(2, "hold");
    let delays: Vec<u64> = (0..4096).map(|_| loops::kernel_delay_ns(&mut stream)).collect();
    let mut queue = loops::filled(PENDING, &delays);
    let word = loops::hold(&mut queue, &delays, holds);
    assert_ne!(word, 0);
    Units(holds).tell()
}

/// An uncontended lock.
pub(super) fn lock(rounds: u64) -> Units {
    let mut engine = Engine::new(&EngineConfig::new(4));
    let costs = LockCosts { hot_ns: loops::HOT_NS, ..LockCosts::default() };
    let class = engine.sim().lock_class("bench", LockKind::Spin, costs);
    let lock = SimLock::new(engine.sim(), &class, 0_u64);
    engine.spawn(Spawn::new("alone"), move |sim| {
        loops::lock(sim, &lock, rounds);
        Units(rounds).tell()
    });
    engine.run().expect("run");
    Units(0)
}

/// A lock that is held whenever another CPU comes: nearly all tasks are queued on their way.
pub(super) fn held_lock(rounds: u64) -> Units {
    let mut engine = Engine::new(&EngineConfig::new(RIVALS));
    let costs = LockCosts { hot_ns: 20, same_node_ns: 80, cross_node_ns: 250, handoff_ns: 100 };
    let class = engine.sim().lock_class("bench", LockKind::Spin, costs);
    let lock = Rc::new(SimLock::new(engine.sim(), &class, 0_u64));
    for cpu in 0..RIVALS {
        let lock = Rc::clone(&lock);
        engine.spawn(Spawn::new(format!("cpu {cpu}")).pinned(CpuId(cpu)), move |sim| {
            for _ in 0..rounds {
                let mut guard = lock.lock();
                *guard += 1;
                sim.charge(700);
                drop(guard);
                sim.charge(300);
            }
        });
    }
    engine.run().expect("run");
    let (turns, stats) = (u64::from(RIVALS) * rounds, class.stats());
    assert_eq!(stats.nr_taken, turns);
    assert!(stats.nr_contended >= turns - u64::from(RIVALS), "{stats:?}");
    Units(turns).tell()
}
