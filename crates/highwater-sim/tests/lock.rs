//! Locks in virtual time: exclusion, order, waiting times, accounting.

use std::cell::RefCell;
use std::rc::Rc;

use highwater_sim::cpu::{CpuId, Topology};
use highwater_sim::engine::{Engine, EngineConfig, Placement, RunError, Spawn};
use highwater_sim::lock::{LockCosts, LockKind, SimLock};
use highwater_sim::rng::Stream;

const COSTS: LockCosts =
    LockCosts { hot_ns: 20, same_node_ns: 80, cross_node_ns: 250, handoff_ns: 100 };

#[test]
fn uncontended_cost_depends_on_who_had_it_last() {
    let mut config = EngineConfig::new(1);
    config.topology = Topology { node_of: vec![0, 0, 1] };
    let mut engine = Engine::new(&config);
    let class = engine.sim().lock_class("lru_lock", LockKind::Spin, COSTS);
    let lock = Rc::new(SimLock::new(engine.sim(), &class, 0u32));
    for (cpu, start_ns, expected_ns) in [(0, 0, 20), (1, 1000, 80), (2, 2000, 250), (2, 3000, 20)] {
        let lock = Rc::clone(&lock);
        engine.spawn(Spawn::new(format!("task {start_ns}")).pinned(CpuId(cpu)), move |sim| {
            sim.sleep_until(start_ns);
            *lock.lock() += 1;
            assert_eq!(sim.now_ns(), start_ns + expected_ns);
        });
    }
    engine.run().expect("run");
    let stats = class.stats();
    assert_eq!((stats.nr_taken, stats.nr_contended, stats.wait_ns), (4, 0, 0));
}

#[test]
fn holder_that_ran_ahead_makes_later_arrivals_wait() {
    let mut engine = Engine::new(&EngineConfig::new(3));
    let class = engine.sim().lock_class("zone->lock", LockKind::Spin, COSTS);
    let lock = Rc::new(SimLock::new(engine.sim(), &class, Vec::new()));
    // (arrival, expected entry): holds last 1000. The first enters after 20. Each next one enters
    // 100 after the release, in order of arrival.
    for (cpu, arrives_ns, enters_ns) in [(0, 0, 20), (1, 300, 1120), (2, 200, 1120)] {
        let lock = Rc::clone(&lock);
        engine.spawn(Spawn::new(format!("cpu {cpu}")).pinned(CpuId(cpu)), move |sim| {
            sim.sleep_until(arrives_ns);
            let mut guard = lock.lock();
            guard.push((arrives_ns, sim.now_ns()));
            if cpu == 0 {
                assert_eq!(sim.now_ns(), enters_ns);
            }
            sim.charge(1000);
        });
    }
    engine.run().expect("run");
    let mut lock = Rc::into_inner(lock).expect("unshared");
    assert_eq!(*lock.get_mut(), [(0, 20), (200, 1120), (300, 2220)]);
    let stats = class.stats();
    assert_eq!((stats.nr_taken, stats.nr_contended), (3, 2));
    assert_eq!(stats.wait_ns, (1120 - 200) + (2220 - 300));
    assert_eq!(stats.wait_ns_max, 1920);
    assert_eq!((stats.hold_ns, stats.hold_ns_max), (3000, 1000));
}

#[test]
fn holder_suspended_inside_hands_over_in_order_of_arrival() {
    let mut engine = Engine::new(&EngineConfig::new(5));
    let class = engine.sim().lock_class("zone->lock", LockKind::Spin, COSTS);
    let lock = Rc::new(SimLock::new(engine.sim(), &class, Vec::new()));
    for (cpu, arrives_ns) in [(0, 0), (1, 40), (2, 30), (3, 50)] {
        let lock = Rc::clone(&lock);
        engine.spawn(Spawn::new(format!("cpu {cpu}")).pinned(CpuId(cpu)), move |sim| {
            sim.sleep_until(arrives_ns);
            let mut guard = lock.lock();
            guard.push(arrives_ns);
            // Nested synchronisation: the others run, and must not get the lock.
            for _ in 0..10 {
                sim.charge(10);
                sim.sync();
            }
            assert_eq!(guard.last(), Some(&arrives_ns));
        });
    }
    // A task with earlier events, so that every synchronisation really suspends.
    engine.spawn(Spawn::new("metronome").pinned(CpuId(4)), |sim| {
        for _ in 0..1000 {
            sim.sleep_ns(1);
        }
    });
    engine.run().expect("run");
    let mut lock = Rc::into_inner(lock).expect("unshared");
    assert_eq!(*lock.get_mut(), [0, 30, 40, 50]);
    // Spinning keeps the CPU busy.
    let times = engine.sim().cpu_times(CpuId(3));
    assert!(times.system_ns >= 3 * 200, "{times:?}");
    assert_eq!(class.stats().nr_contended, 3);
}

/// Sixteen CPUs spin most of the time. They serve the ticks of that time while they spin. If each
/// new holder served its ticks with the lock held, the rounds would grow without end.
#[test]
fn ticks_while_spinning_keep_nobody_waiting() {
    let mut config = EngineConfig::new(16);
    config.sched.tick_ns = 400_000;
    let mut engine = Engine::new(&config);
    let class = engine.sim().lock_class("lru_lock", LockKind::Spin, COSTS);
    let lock = Rc::new(SimLock::new(engine.sim(), &class, ()));
    for cpu in 0..16 {
        let lock = Rc::clone(&lock);
        engine.spawn(Spawn::new(format!("cpu {cpu}")).pinned(CpuId(cpu)), move |sim| {
            for _ in 0..100 {
                let guard = lock.lock();
                // The holder may run ahead or let others go first.
                sim.charge(500_000);
                sim.sync();
                sim.charge(500_000);
                drop(guard);
            }
        });
    }
    engine.run().expect("run");
    let (now_ns, serial_ns) = (engine.sim().now_ns(), 1600 * 1_000_000);
    assert!(now_ns < serial_ns * 12 / 10, "{now_ns}");
}

#[test]
fn exclusion_holds_under_a_random_mix() {
    for (kind, seed) in [(LockKind::Spin, 1), (LockKind::Private, 2), (LockKind::Sleep, 3)] {
        let mut config = EngineConfig::new(4);
        config.sched.wakeup_ns = 400;
        config.sched.context_switch_ns = 800;
        let mut engine = Engine::new(&config);
        let class = engine.sim().lock_class("mixed", kind, COSTS);
        // The value records the task inside and the time at which the last holder left.
        let lock = Rc::new(SimLock::new(engine.sim(), &class, (None::<u64>, 0u64)));
        let total = Rc::new(RefCell::new(0u64));
        for task in 0..12u64 {
            let (lock, total) = (Rc::clone(&lock), Rc::clone(&total));
            engine.spawn(Spawn::new(format!("task {task}")), move |sim| {
                let mut stream = Stream::indexed(seed, "lock", task);
                for _ in 0..100 {
                    sim.charge(stream.below(2000));
                    let mut guard = if stream.chance(0.2) {
                        let Some(guard) = lock.try_lock() else { continue };
                        guard
                    } else {
                        lock.lock()
                    };
                    assert_eq!(guard.0.replace(task), None);
                    if kind != LockKind::Private {
                        assert!(sim.now_ns() >= guard.1, "entered before the last holder left");
                    }
                    sim.charge(stream.below(500));
                    if stream.chance(0.5) {
                        sim.sync();
                    }
                    if kind == LockKind::Sleep && stream.chance(0.3) {
                        sim.sleep_ns(stream.below(5000));
                    }
                    assert_eq!(guard.0.take(), Some(task));
                    guard.1 = sim.now_ns();
                    *total.borrow_mut() += 1;
                    drop(guard);
                    if stream.chance(0.1) {
                        sim.sleep_ns(stream.below(3000));
                    }
                }
            });
        }
        engine.run().expect("run");
        let stats = class.stats();
        assert_eq!(stats.nr_taken, *total.borrow(), "{kind:?}");
        if kind != LockKind::Private {
            assert!(stats.nr_contended > 100, "{kind:?}: {stats:?}");
        }
        assert!(!lock.is_locked());
    }
}

/// A task on its way to a lock is queued there without being resumed. With an open ledger it is
/// resumed and looks itself. The results are equal, with interrupts, ticks and slice ends on the
/// way.
#[test]
fn a_task_that_arrives_is_queued_as_if_it_had_looked_itself() {
    let run = |seed: u64, is_booking: bool| {
        let mut config = EngineConfig::new(4);
        config.sched.context_switch_ns = 800;
        config.sched.tick_ns = 1000;
        let mut engine = Engine::new(&config);
        if is_booking {
            engine.sim().open_ledger();
        }
        let class = engine.sim().lock_class("lru_lock", LockKind::Spin, COSTS);
        let locks: Rc<[_; 2]> = Rc::new([0, 1].map(|_| SimLock::new(engine.sim(), &class, 0_u64)));
        let seen = Rc::new(RefCell::new(Vec::new()));
        for cpu in 0..4 {
            let interrupt = Placement::Interrupt(CpuId(cpu));
            let spawn = Spawn::new(format!("irq {cpu}")).placement(interrupt).daemon();
            let locks = Rc::clone(&locks);
            engine.spawn(spawn, move |sim| {
                let mut stream = Stream::indexed(seed, "interrupts", u64::from(cpu));
                loop {
                    sim.sleep_ns(stream.below(30_000));
                    sim.charge(stream.below(2000));
                    if stream.chance(0.3) {
                        let mut guard = locks[1].lock();
                        *guard += 1;
                        sim.charge(stream.below(500));
                        sim.sync();
                    }
                }
            });
        }
        for task in 0..10 {
            let (locks, seen) = (Rc::clone(&locks), Rc::clone(&seen));
            engine.spawn(Spawn::new(format!("task {task}")), move |sim| {
                let mut stream = Stream::indexed(seed, "arrivals", task);
                for _ in 0..2000 {
                    let most_ns = if stream.chance(0.001) { 5_000_000 } else { 1000 };
                    sim.charge(stream.below(most_ns));
                    let mut guard = locks[usize::from(stream.chance(0.3))].lock();
                    *guard += 1;
                    seen.borrow_mut().push((task, sim.now_ns(), *guard));
                    for _ in 0..stream.below(6) {
                        sim.charge(stream.below(700));
                        sim.sync();
                    }
                    drop(guard);
                    if stream.chance(0.1) {
                        let _outer = locks[0].lock();
                        sim.charge(stream.below(300));
                        *locks[1].lock() += 1;
                    }
                    if stream.chance(0.01) {
                        sim.sleep_ns(stream.below(5000));
                    }
                    // A reader of times, at any moment.
                    if stream.chance(0.1) {
                        sim.sync();
                        let busy_ns = (0..4).map(|cpu| sim.cpu_times(CpuId(cpu)).system_ns).sum();
                        seen.borrow_mut().push((task, sim.now_ns(), busy_ns));
                    }
                }
                let me = sim.current().expect("a task");
                let times = sim.task_times(me).expect("alive");
                seen.borrow_mut().push((task, times.user_ns, times.system_ns));
            });
        }
        engine.run().expect("run");
        let stats = class.stats();
        assert!(stats.nr_contended > 5000, "{stats:?}");
        if let Some(went) = engine.sim().shortcuts() {
            assert_eq!(went.queued > 1000, !is_booking, "{went:?}");
        }
        let numbers = [stats.nr_taken, stats.nr_contended, stats.wait_ns, stats.hold_ns];
        let times = [0, 1, 2, 3].map(|cpu| engine.sim().cpu_times(CpuId(cpu)));
        let ends = (engine.digest(), engine.nr_events(), engine.sim().now_ns());
        (numbers, stats.wait_ns_max, times, ends, seen.take())
    };
    for seed in 0..3 {
        assert_eq!(run(seed, false), run(seed, true), "seed {seed}");
    }
}

/// No task is resumed for the last event: its task only queues.
#[test]
fn a_deadlock_of_tasks_that_were_queued_on_their_way_is_told() {
    let mut engine = Engine::new(&EngineConfig::new(2));
    let class = engine.sim().lock_class("lru_lock", LockKind::Spin, LockCosts::default());
    let locks: Rc<[_; 2]> = Rc::new([(), ()].map(|()| SimLock::new(engine.sim(), &class, ())));
    for (cpu, inside_ns) in [(0, 120), (1, 70)] {
        let locks = Rc::clone(&locks);
        engine.spawn(Spawn::new(format!("cpu {cpu}")).pinned(CpuId(cpu)), move |sim| {
            let _first = locks[usize::from(cpu)].lock();
            sim.charge(inside_ns);
            let _second = locks[usize::from(1 - cpu)].lock();
        });
    }
    let Err(error @ RunError::Deadlock { now_ns: 120, .. }) = engine.run() else {
        panic!("no deadlock at 120 ns");
    };
    let text = error.to_string();
    assert!(
        text.contains("lru_lock") && text.contains("cpu 0") && text.contains("cpu 1"),
        "{text}"
    );
    assert_eq!(engine.sim().now_ns(), 120);
}

#[test]
fn a_private_lock_does_not_make_its_owner_synchronise() {
    let mut engine = Engine::new(&EngineConfig::new(2));
    let class = engine.sim().lock_class("pcp->lock", LockKind::Private, COSTS);
    let lock = Rc::new(SimLock::new(engine.sim(), &class, ()));
    engine.spawn(Spawn::new("other").pinned(CpuId(1)), |sim| {
        for _ in 0..100 {
            sim.sleep_ns(10);
        }
    });
    let owner = engine.spawn(Spawn::new("owner").pinned(CpuId(0)), move |sim| {
        let before = sim.cpu_times(CpuId(0));
        for _ in 0..100 {
            drop(lock.lock());
        }
        // Never suspended: no time was accounted yet.
        assert_eq!(sim.cpu_times(CpuId(0)), before);
        sim.now_ns()
    });
    engine.run().expect("run");
    assert_eq!(owner.take(), Some(2000));
}

#[test]
fn a_spinlock_holder_is_not_preempted() {
    let mut config = EngineConfig::new(1);
    config.sched.context_switch_ns = 1;
    let mut engine = Engine::new(&config);
    let class = engine.sim().lock_class("zone->lock", LockKind::Spin, LockCosts::default());
    let lock = Rc::new(SimLock::new(engine.sim(), &class, Vec::new()));
    for name in ["a", "b"] {
        let lock = Rc::clone(&lock);
        engine.spawn(Spawn::new(name), move |sim| {
            let mut guard = lock.lock();
            guard.push(name);
            // Several slices.
            sim.compute(20_000_000);
            guard.push(name);
            drop(guard);
            sim.compute(1);
        });
    }
    engine.run().expect("run");
    let mut lock = Rc::into_inner(lock).expect("unshared");
    assert_eq!(*lock.get_mut(), ["a", "a", "b", "b"]);
    assert_eq!(class.stats().nr_contended, 0);
}

#[test]
fn waiting_with_a_spinlock_held_is_an_error() {
    let mut engine = Engine::new(&EngineConfig::new(1));
    let class = engine.sim().lock_class("zone->lock", LockKind::Spin, COSTS);
    let lock = Rc::new(SimLock::new(engine.sim(), &class, ()));
    engine.spawn(Spawn::new("sleepy"), move |sim| {
        let _guard = lock.lock();
        sim.sleep_ns(1);
    });
    let error = engine.run().expect_err("error").to_string();
    assert!(error.contains("sleepy waits while it holds a spinlock"), "{error}");
}

#[test]
fn a_deadlock_on_locks_names_the_lock_and_its_holder() {
    let mut engine = Engine::new(&EngineConfig::new(2));
    let class = engine.sim().lock_class("inode->i_rwsem", LockKind::Sleep, COSTS);
    let lock = Rc::new(SimLock::new(engine.sim(), &class, ()));
    let other = Rc::clone(&lock);
    engine.spawn(Spawn::new("holder"), move |sim| {
        let _guard = other.lock();
        sim.park("an answer");
    });
    engine.spawn(Spawn::new("waiter"), move |sim| {
        sim.sleep_ns(10);
        drop(lock.lock());
    });
    let error = engine.run().expect_err("deadlock").to_string();
    assert!(error.contains("waiter waits on lock inode->i_rwsem held by holder"), "{error}");
    assert!(error.contains("holder waits on an answer"), "{error}");
}

#[test]
fn a_dropped_simulation_releases_its_locks() {
    let mut engine = Engine::new(&EngineConfig::new(2));
    let class = engine.sim().lock_class("mutex", LockKind::Sleep, COSTS);
    let lock = Rc::new(SimLock::new(engine.sim(), &class, Vec::<u32>::new()));
    for task in 0..3 {
        let lock = Rc::clone(&lock);
        engine.spawn(Spawn::new(format!("task {task}")), move |sim| {
            let mut guard = lock.lock();
            guard.push(task);
            sim.park("nobody");
            guard.push(task);
        });
    }
    engine.run().expect_err("deadlock");
    drop(engine);
    let mut lock = Rc::into_inner(lock).expect("tasks dropped their handles");
    assert_eq!(*lock.get_mut(), [0]);
}
