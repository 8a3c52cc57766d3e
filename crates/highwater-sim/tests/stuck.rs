//! Runs that would not end by themselves end with an error that names each task and the event it
//! waits for.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use highwater_sim::cpu::CpuId;
use highwater_sim::engine::{Engine, EngineConfig, Passed, RunError, Spawn};

fn engine_with_ticker() -> Engine {
    let engine = Engine::new(&EngineConfig::new(2));
    engine.spawn(Spawn::new("ticker").kernel_thread(), |sim| {
        loop {
            sim.sleep_ns(1_000_000_000);
        }
    });
    engine
}

#[test]
fn waiting_for_ever_beside_a_busy_daemon_is_noticed() {
    let mut engine = engine_with_ticker();
    engine.spawn(Spawn::new("reader"), |sim| {
        sim.sleep_ns(5_000_000_000);
        sim.park("a page that nobody reads");
    });
    let error = engine.run().expect_err("hung");
    let RunError::Hung { now_ns, since_ns, .. } = error else { panic!("{error}") };
    assert!(since_ns >= 5_000_000_000 && now_ns - since_ns >= 600_000_000_000);
    let text = error.to_string();
    assert!(text.contains("reader waits on a page that nobody reads"), "{text}");
    assert!(text.contains("ticker (daemon) waits on a time"), "{text}");
}

#[test]
fn waiting_long_for_a_time_is_no_hang() {
    let mut engine = engine_with_ticker();
    engine.spawn(Spawn::new("sleeper"), |sim| sim.sleep_ns(5_000_000_000_000));
    let waits = engine.spawn(Spawn::new("waits"), |sim| sim.park("the sleeper"));
    let id = waits.id();
    engine.spawn(Spawn::new("waker"), move |sim| {
        sim.sleep_ns(4_000_000_000_000);
        sim.unpark(id);
    });
    engine.run().expect("run");
}

#[test]
fn events_without_time_are_a_livelock() {
    let mut engine = Engine::new(&EngineConfig::new(2));
    for name in ["ping", "pong"] {
        engine.spawn(Spawn::new(name).pinned(CpuId(0)), |sim| {
            loop {
                sim.yield_now();
            }
        });
    }
    let error = engine.run().expect_err("livelock");
    assert!(matches!(error, RunError::Livelock { now_ns: 0, .. }), "{error}");
    assert!(error.to_string().contains("waits on nothing: it runs"), "{error}");
}

#[test]
fn a_time_limit_names_the_tasks() {
    let mut engine = engine_with_ticker();
    engine.spawn(Spawn::new("worker"), |sim| {
        loop {
            sim.compute(1_000);
        }
    });
    let error = engine.run_within(7_000_000).expect_err("too long");
    assert!(error.to_string().starts_with("not done at 7000000 ns: "), "{error}");
    engine_with_ticker().run_within(1).expect("nothing to do");
}

#[test]
fn time_and_events_are_told_while_they_pass_and_changes_nothing() {
    let run = |sums: Option<Arc<Passed>>| {
        let mut engine = Engine::new(&EngineConfig::new(2));
        engine.spawn(Spawn::new("sleeper"), move |sim| {
            if let Some(sums) = sums {
                sim.tell_passed(sums);
            }
            for _ in 0..200_000 {
                sim.sleep_ns(1_000);
            }
        });
        engine.run().expect("run");
        engine.digest().value()
    };
    // Sums that others added stay.
    let sums = Arc::new(Passed { ns: 7.into(), events: 3.into(), ..Passed::default() });
    assert_eq!(run(Some(Arc::clone(&sums))), run(None));
    let told = sums.ns.load(Ordering::Relaxed) - 7;
    assert!((160_000_000..=200_000_000).contains(&told), "{told}");
    let told = sums.events.load(Ordering::Relaxed) - 3;
    assert!((160_000..=200_001).contains(&told), "{told}");
}

#[test]
fn a_run_ends_soon_after_its_sums_say_stop() {
    let sums = Arc::new(Passed::default());
    let mut engine = Engine::new(&EngineConfig::new(2));
    let told = Arc::clone(&sums);
    engine.spawn(Spawn::new("sleeper"), move |sim| {
        sim.tell_passed(Arc::clone(&told));
        for round in 0..1_000_000_u32 {
            if round == 1000 {
                told.stop.store(true, Ordering::Relaxed);
            }
            sim.sleep_ns(1_000);
        }
    });
    let error = engine.run().expect_err("stopped");
    let RunError::Stopped { now_ns } = error else { panic!("{error}") };
    // It sleeps for a second; reports come every millisecond of virtual time.
    assert!((1_000_000..4_000_000).contains(&now_ns), "{now_ns}");
}
