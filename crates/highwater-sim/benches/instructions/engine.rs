//! The engine: tasks that sleep, its queue, its locks.

use std::hint::black_box;

use highwater_sim::cpu::CpuId;
use highwater_sim::engine::queue::Queue;
use highwater_sim::engine::{Engine, EngineConfig, Placement, Spawn};
use highwater_sim::lock::{LockCosts, LockKind, SimLock};
use highwater_sim::rng::Stream;

use super::Units;

const SLEEPERS: u64 = 1024;
const PENDING: u32 = 1024;
const LOCK_NS: u64 = 20;

pub(super) fn interrupt(wakes: u64) -> Units {
    sleep_wake(Placement::Interrupt(CpuId(0)), wakes)
}

pub(super) fn on_cpus(wakes: u64) -> Units {
    sleep_wake(Placement::Anywhere, wakes)
}

/// Tasks that sleep for random times; every wake-up comes at the exact time.
fn sleep_wake(placement: Placement, wakes: u64) -> Units {
    let mut engine = Engine::new(&EngineConfig::new(48));
    for task in 0..SLEEPERS {
        let spawn = Spawn::new(format!("sleeper {task}")).placement(placement);
        engine.spawn(spawn, move |sim| {
            let mut stream = Stream::indexed(1, "sleep", task);
            let mut due_ns = sim.now_ns();
            for _ in 0..wakes {
                let delay_ns = 1 + stream.below(200_000);
                due_ns += delay_ns;
                sim.sleep_ns(delay_ns);
                assert_eq!(sim.now_ns(), due_ns, "woken at another time");
            }
        });
    }
    engine.run().expect("run");
    Units(SLEEPERS * wakes).tell()
}

/// The earliest event is taken and comes again later: short slices, transfers, timers.
pub(super) fn queue(holds: u64) -> Units {
    let mut stream = Stream::new(2, "hold");
    let mut delay_ns = || match stream.below(10) {
        0..7 => 500 + stream.below(1000),
        7..9 => 50_000 + stream.below(100_000),
        _ => 50_000_000 + stream.below(100_000_000),
    };
    let delays: Vec<u64> = (0..4096).map(|_| delay_ns()).collect();
    let delay = |at: u64| delays[at as usize % delays.len()];
    let mut queue = Queue::new();
    queue.reserve_ids(PENDING as usize);
    (0..PENDING).for_each(|id| queue.insert(id, delay(id.into())));
    let mut last_ns = 0;
    for at in 0..holds {
        let (time_ns, id) = queue.pop().expect("pending");
        assert!(time_ns >= last_ns, "out of order");
        last_ns = time_ns;
        queue.insert(id, time_ns + delay(at));
    }
    Units(holds).tell()
}

/// A lock that nobody else wants.
pub(super) fn lock(rounds: u64) -> Units {
    let mut engine = Engine::new(&EngineConfig::new(4));
    let costs = LockCosts { hot_ns: LOCK_NS, ..LockCosts::default() };
    let class = engine.sim().lock_class("bench", LockKind::Spin, costs);
    let lock = SimLock::new(engine.sim(), &class, 0_u64);
    engine.spawn(Spawn::new("alone"), move |sim| {
        for _ in 0..rounds {
            *black_box(&lock).lock() += 1;
        }
        assert_eq!((*lock.lock(), sim.now_ns()), (rounds, LOCK_NS * (rounds + 1)));
        Units(rounds).tell()
    });
    engine.run().expect("run");
    Units(0)
}
