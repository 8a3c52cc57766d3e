//! Whole simulations: order, clocks, scheduling, failures. Each test's name says what it shows.

use std::cell::RefCell;
use std::rc::Rc;

use highwater_sim::cpu::{CpuId, SchedParams, Topology};
use highwater_sim::digest::{Comparison, Digest, DigestPlan, first_divergence};
use highwater_sim::engine::clock::NS_PER_JIFFY;
use highwater_sim::engine::{
    Engine, EngineConfig, Outcome, Placement, RunError, Sim, Spawn, TaskId, Wake,
};
use highwater_sim::rng::Stream;

/// A log that tasks share.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<(u64, String)>>>);

impl Log {
    fn add(&self, sim: &Sim, what: impl Into<String>) {
        self.0.borrow_mut().push((sim.now_ns(), what.into()));
    }

    fn take(&self) -> Vec<(u64, String)> {
        std::mem::take(&mut self.0.borrow_mut())
    }

    fn words(&self) -> Vec<String> {
        self.take().into_iter().map(|(_, what)| what).collect()
    }
}

#[test]
fn sleepers_wake_at_their_times_in_order_of_time_then_call() {
    let mut engine = Engine::new(&EngineConfig::new(8));
    let log = Log::default();
    for (name, delays) in [("a", [30, 10]), ("b", [10, 30]), ("c", [40, 5])] {
        let log = log.clone();
        engine.spawn(Spawn::new(name), move |sim| {
            for delay_ns in delays {
                sim.sleep_ns(delay_ns);
                log.add(sim, name);
            }
        });
    }
    engine.run().expect("run");
    let expected = [(10, "b"), (30, "a"), (40, "c"), (40, "b"), (40, "a"), (45, "c")];
    // At 40: c slept since 0; b since 10; a since 30.
    let expected = expected.map(|(time, name)| (time, name.to_owned()));
    assert_eq!(log.take(), expected);
}

#[test]
fn charged_time_is_local_until_synchronised() {
    let mut engine = Engine::new(&EngineConfig::new(2));
    let log = Log::default();
    let (log_a, log_b) = (log.clone(), log.clone());
    engine.spawn(Spawn::new("a").pinned(CpuId(0)), move |sim| {
        sim.charge(300);
        log_a.add(sim, "a before sync");
        sim.sync();
        log_a.add(sim, "a after sync");
    });
    engine.spawn(Spawn::new("b").pinned(CpuId(1)), move |sim| {
        sim.charge(200);
        sim.sync();
        log_b.add(sim, "b");
        sim.charge(50);
        sim.sync();
        log_b.add(sim, "b again");
    });
    engine.run().expect("run");
    let expected = [(300, "a before sync"), (200, "b"), (250, "b again"), (300, "a after sync")];
    assert_eq!(log.take(), expected.map(|(time, what)| (time, what.to_owned())));
}

#[test]
fn an_unpark_before_the_park_is_not_lost() {
    let mut engine = Engine::new(&EngineConfig::new(2));
    let sleeper = engine.spawn(Spawn::new("sleeper"), |sim| {
        sim.sleep_ns(1000);
        sim.park("a permit");
        assert_eq!(sim.now_ns(), 1000);
        // The permit is used up.
        assert_eq!(sim.park_timeout("nothing", 500), Wake::TimedOut);
        sim.now_ns()
    });
    let id = sleeper.id();
    engine.spawn(Spawn::new("waker"), move |sim| {
        sim.sleep_ns(10);
        assert!(!sim.unpark(id), "it sleeps");
        assert!(!sim.unpark(id));
    });
    engine.run().expect("run");
    assert_eq!(sleeper.take(), Some(1500));
}

#[test]
fn park_timeout_ends_with_whatever_comes_first() {
    let mut engine = Engine::new(&EngineConfig::new(2));
    let sleeper = engine.spawn(Spawn::new("sleeper"), |sim| {
        assert_eq!(sim.park_timeout("waker", 1000), Wake::Unparked);
        assert_eq!(sim.now_ns(), 400);
        assert_eq!(sim.park_timeout("waker", 1000), Wake::TimedOut);
        assert_eq!(sim.now_ns(), 1400);
        // The cancelled timer of the first wait must not end this one.
        sim.park("waker");
        sim.now_ns()
    });
    let id = sleeper.id();
    engine.spawn(Spawn::new("waker"), move |sim| {
        sim.sleep_ns(400);
        assert!(sim.unpark(id));
        sim.sleep_ns(4600);
        assert!(sim.unpark(id));
    });
    engine.run().expect("run");
    assert_eq!(sleeper.take(), Some(5000));
}

#[test]
fn jiffy_timeouts_end_at_ticks_and_report_what_is_left() {
    let mut engine = Engine::new(&EngineConfig::new(2));
    let sleeper = engine.spawn(Spawn::new("sleeper"), |sim| {
        sim.sleep_ns(NS_PER_JIFFY / 2);
        sim.sleep_jiffies(1);
        assert_eq!(sim.now_ns(), 2 * NS_PER_JIFFY);
        assert_eq!(sim.park_jiffies("nobody", 25), 0);
        assert_eq!(sim.now_ns(), 28 * NS_PER_JIFFY);
        // Woken at tick 38 of a timeout that nominally ends at 53.
        assert_eq!(sim.park_jiffies("waker", 25), 15);
    });
    let id = sleeper.id();
    engine.spawn(Spawn::new("waker"), move |sim| {
        sim.sleep_ns(38 * NS_PER_JIFFY + 17);
        assert!(sim.unpark(id));
    });
    engine.run().expect("run");
}

#[test]
fn join_returns_the_result_and_exit_returns_none() {
    let mut engine = Engine::new(&EngineConfig::new(2));
    let outer = engine.spawn(Spawn::new("parent"), |sim| {
        let child = sim.spawn(Spawn::new("child"), |sim| {
            sim.sleep_ns(100);
            42
        });
        let leaver = sim.spawn(Spawn::new("leaver"), |sim| {
            sim.sleep_ns(50);
            sim.exit();
        });
        let id = child.id();
        assert_eq!(sim.task_name(id).as_deref(), Some("child"));
        assert_eq!(leaver.join(), None);
        assert_eq!(sim.now_ns(), 50);
        assert_eq!(child.join(), Some(42));
        assert_eq!(sim.now_ns(), 100);
        assert_eq!(sim.task_name(id), None);
        assert!(!sim.unpark(id), "an ended task cannot be woken");
        true
    });
    engine.run().expect("run");
    assert_eq!(outer.take(), Some(true));
}

#[test]
fn pinned_tasks_share_their_cpu_and_idle_ones_stay_idle() {
    let mut engine = Engine::new(&EngineConfig::new(4));
    for task in 0..3 {
        engine.spawn(Spawn::new(format!("task {task}")).pinned(CpuId(2)), |sim| {
            for _ in 0..5 {
                sim.compute(10 * NS_PER_JIFFY);
                assert_eq!(sim.cpu(), CpuId(2));
                sim.sleep_ns(100);
            }
        });
    }
    engine.run().expect("run");
    let sim = engine.sim();
    let total_ns = sim.now_ns();
    let times = sim.cpu_times(CpuId(2));
    assert_eq!(times.user_ns, 3 * 5 * 10 * NS_PER_JIFFY);
    assert_eq!(times.user_ns + times.system_ns + times.idle_ns, total_ns);
    for cpu in [0, 1, 3] {
        let times = sim.cpu_times(CpuId(cpu));
        assert_eq!((times.user_ns, times.system_ns, times.idle_ns), (0, 0, total_ns));
    }
}

#[test]
fn floating_tasks_spread_over_the_cpus() {
    let mut engine = Engine::new(&EngineConfig::new(4));
    for task in 0..8 {
        engine.spawn(Spawn::new(format!("task {task}")), |sim| sim.compute(100_000_000));
    }
    engine.run().expect("run");
    assert_eq!(engine.sim().now_ns(), 200_000_000);
}

#[test]
fn the_time_slice_is_a_tick_and_matters_only_when_others_wait() {
    let mut config = EngineConfig::new(1);
    config.sched.context_switch_ns = 1000;
    // Alone: no switch in the middle.
    let mut engine = Engine::new(&config);
    engine.spawn(Spawn::new("alone"), |sim| {
        sim.compute(10 * NS_PER_JIFFY);
        assert_eq!(sim.preemptions(), 0);
    });
    engine.run().expect("run");
    assert_eq!(engine.sim().now_ns(), 10 * NS_PER_JIFFY + 1000);

    // Two: they alternate at every tick.
    let mut engine = Engine::new(&config);
    let log = Log::default();
    for name in ["a", "b"] {
        let log = log.clone();
        engine.spawn(Spawn::new(name), move |sim| {
            for _ in 0..3 {
                sim.compute(NS_PER_JIFFY);
                log.add(sim, name);
            }
            // Each lost its CPU at least twice before it was done.
            assert!(sim.preemptions() >= 2, "{}", sim.preemptions());
        });
    }
    engine.run().expect("run");
    assert_eq!(log.words(), ["a", "b", "a", "b", "a", "b"]);
    let times = engine.sim().cpu_times(CpuId(0));
    assert_eq!(times.user_ns, 6 * NS_PER_JIFFY);
    assert!(times.system_ns >= 6 * 1000, "a switch per slice: {times:?}");
}

#[test]
fn a_longer_slice_lasts_that_many_ticks() {
    let mut config = EngineConfig::new(1);
    config.sched.slice_ns = 3 * NS_PER_JIFFY;
    let mut engine = Engine::new(&config);
    let log = Log::default();
    for name in ["a", "b"] {
        let log = log.clone();
        engine.spawn(Spawn::new(name), move |sim| {
            for _ in 0..6 {
                sim.compute(NS_PER_JIFFY - 1);
                log.add(sim, name);
            }
        });
    }
    engine.run().expect("run");
    let runs: Vec<usize> = log.words().chunk_by(|a, b| a == b).map(<[String]>::len).collect();
    assert!(runs.contains(&3), "{runs:?}");
    assert!(runs.iter().all(|&len| len <= 4), "{runs:?}");
}

#[test]
fn yield_now_lets_the_waiting_task_run() {
    let mut engine = Engine::new(&EngineConfig::new(1));
    let log = Log::default();
    for name in ["a", "b"] {
        let log = log.clone();
        engine.spawn(Spawn::new(name), move |sim| {
            for _ in 0..2 {
                log.add(sim, name);
                sim.yield_now();
            }
        });
    }
    engine.run().expect("run");
    assert_eq!(log.words(), ["a", "b", "a", "b"]);
}

#[test]
fn a_busy_cpu_pays_for_its_ticks() {
    let mut config = EngineConfig::new(2);
    config.sched.tick_ns = 1500;
    let mut engine = Engine::new(&config);
    engine.spawn(Spawn::new("busy"), |sim| {
        sim.compute(100 * NS_PER_JIFFY);
        assert_eq!(sim.now_ns(), 100 * NS_PER_JIFFY + 100 * 1500);
        // One large charge owes the same ticks.
        sim.charge(100 * NS_PER_JIFFY);
        assert_eq!(sim.now_ns(), 200 * NS_PER_JIFFY + 200 * 1500);
        sim.sleep_ns(1_000_000_000);
        assert_eq!(sim.now_ns(), 200 * NS_PER_JIFFY + 200 * 1500 + 1_000_000_000);
    });
    engine.run().expect("run");
}

#[test]
fn wake_up_costs_are_paid_by_waker_idle_cpu_and_switch() {
    let mut config = EngineConfig::new(2);
    config.sched = SchedParams {
        wakeup_ns: 400,
        context_switch_ns: 800,
        wake_idle_shallow_ns: 3000,
        ..SchedParams::FREE
    };
    let mut engine = Engine::new(&config);
    let sleeper = engine.spawn(Spawn::new("sleeper").pinned(CpuId(1)), |sim| {
        sim.park("waker");
        sim.now_ns()
    });
    let id = sleeper.id();
    let waker = engine.spawn(Spawn::new("waker").pinned(CpuId(0)), move |sim| {
        let start_ns = sim.now_ns();
        sim.charge(10_000);
        sim.unpark(id);
        assert_eq!(sim.now_ns(), start_ns + 10_400);
        sim.now_ns()
    });
    engine.run().expect("run");
    assert_eq!(sleeper.take(), Some(waker.take().expect("waker") + 3800));
}

#[test]
fn interrupt_tasks_take_their_time_from_the_cpu() {
    let mut engine = Engine::new(&EngineConfig::new(1));
    let device = Spawn::new("disk").placement(Placement::Interrupt(CpuId(0))).daemon();
    engine.spawn(device, |sim| {
        loop {
            sim.sleep_ns(1000);
            sim.charge(30);
        }
    });
    let worker = engine.spawn(Spawn::new("worker"), |sim| {
        for _ in 0..100 {
            sim.charge(100);
            sim.sync();
        }
        sim.now_ns()
    });
    engine.run().expect("run");
    let ended_ns = worker.take().expect("ended");
    let nr_interrupts = ended_ns / 1030;
    assert!((10_270..=10_330).contains(&ended_ns), "{ended_ns}");
    assert!(nr_interrupts >= 9);
    let times = engine.sim().cpu_times(CpuId(0));
    assert_eq!(times.system_ns + times.user_ns + times.idle_ns, engine.sim().now_ns());
}

#[test]
fn a_deadlock_names_every_task_and_what_it_waits_on() {
    let mut engine = Engine::new(&EngineConfig::new(2));
    engine.spawn(Spawn::new("kswapd0").kernel_thread(), |sim| sim.park("kswapd_wait"));
    let stuck = engine.spawn(Spawn::new("writer"), |sim| {
        sim.sleep_ns(77);
        sim.park("pages under writeback");
    });
    engine.spawn(Spawn::new("parent"), move |_| {
        stuck.join();
    });
    let error = engine.run().expect_err("deadlock");
    assert_eq!(
        error.to_string(),
        "deadlock at 77 ns: kswapd0 (daemon) waits on kswapd_wait; \
         writer waits on pages under writeback; parent waits on the end of writer"
    );
}

#[test]
fn daemons_do_not_keep_a_run_alive() {
    let mut engine = Engine::new(&EngineConfig::new(2));
    engine.spawn(Spawn::new("ticker").kernel_thread(), |sim| {
        loop {
            sim.sleep_ns(10);
        }
    });
    let task = engine.spawn(Spawn::new("main"), |sim| {
        sim.sleep_ns(1005);
        sim.now_ns()
    });
    engine.run().expect("run");
    assert_eq!(task.take(), Some(1005));
    assert_eq!(engine.sim().now_ns(), 1005);
}

#[test]
fn a_panic_is_an_error_with_the_tasks_name() {
    let mut engine = Engine::new(&EngineConfig::new(2));
    engine.spawn(Spawn::new("bystander"), |sim| sim.sleep_ns(1_000_000));
    engine.spawn(Spawn::new("faulty"), |sim| {
        sim.sleep_ns(55);
        // Without the hook, so that the test's output stays readable.
        std::panic::resume_unwind(Box::new(format!("bad {}", 7)));
    });
    let error = engine.run().expect_err("panic");
    let expected = RunError::TaskPanicked {
        task: "faulty".to_owned(),
        now_ns: 55,
        message: "bad 7".to_owned(),
    };
    assert_eq!(error, expected);
    assert_eq!(error.to_string(), "task faulty panicked at 55 ns: bad 7");
}

#[test]
fn dropping_an_engine_drops_what_its_tasks_hold() {
    let witness = Rc::new(());
    {
        let mut engine = Engine::new(&EngineConfig::new(2));
        for task in 0..10 {
            let witness = Rc::clone(&witness);
            engine.spawn(Spawn::new(format!("task {task}")), move |sim| {
                let _witness = witness;
                sim.sleep_ns(1000);
                sim.park("nobody");
            });
        }
        // One set never starts, one is suspended.
        assert_eq!(engine.run_until(500).expect("run"), Outcome::TimeLimit);
        let late = Rc::clone(&witness);
        engine.spawn(Spawn::new("late"), move |_| drop(late));
        assert!(Rc::strong_count(&witness) > 10);
    }
    assert_eq!(Rc::strong_count(&witness), 1);
}

#[test]
fn a_run_can_be_continued_after_its_time_limit() {
    let mut engine = Engine::new(&EngineConfig::new(1));
    let log = Log::default();
    let task_log = log.clone();
    engine.spawn(Spawn::new("ticker"), move |sim| {
        for _ in 0..5 {
            sim.sleep_ns(100);
            task_log.add(sim, "tick");
        }
    });
    assert_eq!(engine.run_until(250).expect("run"), Outcome::TimeLimit);
    assert_eq!(engine.sim().now_ns(), 250);
    assert_eq!(log.take().len(), 2);
    // Started from outside, at the limit.
    let task_log = log.clone();
    engine.spawn(Spawn::new("late"), move |sim| task_log.add(sim, "late"));
    assert_eq!(engine.run_until(u64::MAX).expect("run"), Outcome::Finished);
    let first = log.take()[0].clone();
    assert_eq!(first, (250, "late".to_owned()));
}

/// A workload that mixes everything; `disturb` makes it nondeterministic on purpose.
fn mixed_workload(seed: u64, plan: DigestPlan, disturb: u64) -> Digest {
    let mut config = EngineConfig::new(6);
    config.topology = Topology { node_of: vec![0, 0, 0, 1, 1, 1] };
    config.digest = plan;
    config.sched = SchedParams {
        wakeup_ns: 400,
        context_switch_ns: 800,
        wake_idle_shallow_ns: 3000,
        wake_idle_deep_ns: 50_000,
        idle_deep_after_ns: 2_000_000,
        tick_ns: 1500,
        ..SchedParams::FREE
    };
    let mut engine = Engine::new(&config);
    let ids: Rc<RefCell<Vec<TaskId>>> = Rc::default();
    for task in 0..20u64 {
        let shared = Rc::clone(&ids);
        let handle = engine.spawn(Spawn::new(format!("task {task}")), move |sim| {
            let mut stream = Stream::indexed(seed, "mixed", task);
            for step in 0..200u64 {
                match stream.below(5) {
                    0 => sim.sleep_ns(stream.below(1_000_000)),
                    1 => sim.compute(stream.below(500_000)),
                    2 => {
                        let ids = shared.borrow().clone();
                        sim.unpark(ids[stream.below(ids.len() as u64) as usize]);
                    }
                    3 => {
                        sim.park_timeout("peer", stream.below(3_000_000));
                    }
                    _ => sim.sleep_jiffies(stream.below(3)),
                }
                if step == 150 && task == 7 {
                    sim.charge(disturb);
                    sim.sync();
                }
            }
        });
        ids.borrow_mut().push(handle.id());
    }
    engine.run().expect("run");
    for cpu in 0..6 {
        let times = engine.sim().cpu_times(CpuId(cpu));
        let sum_ns = times.user_ns + times.system_ns + times.idle_ns;
        // A CPU may end a context switch ahead of the last event.
        let now_ns = engine.sim().now_ns();
        assert!(sum_ns >= now_ns && sum_ns < now_ns + 100_000, "{sum_ns} at {now_ns}");
    }
    engine.digest()
}

#[test]
fn same_seed_same_digest_also_on_other_threads() {
    let plan = DigestPlan::default();
    let first = mixed_workload(1, plan, 0);
    assert!(first.nr_events() > 2000);
    let threads: Vec<_> =
        (0..4).map(|_| std::thread::spawn(move || mixed_workload(1, plan, 0).value())).collect();
    for thread in threads {
        assert_eq!(thread.join().expect("thread"), first.value());
    }
    assert_ne!(mixed_workload(2, plan, 0).value(), first.value());
}

#[test]
fn the_first_divergent_event_is_found() {
    let mut nr_runs = 0;
    let found = first_divergence(|plan| {
        nr_runs += 1;
        mixed_workload(1, plan, if nr_runs % 2 == 0 { 12_345 } else { 0 })
    });
    let Comparison::Diverged(divergence) = found else { panic!("{found:?}") };
    // Recording everything shows the same event.
    let all = DigestPlan { checkpoint_bits: 20, record_from: 0, record_to: u64::MAX };
    let (good, bad) = (mixed_workload(1, all, 0), mixed_workload(1, all, 12_345));
    let (good, bad) = (good.recorded(), bad.recorded());
    let expected = good.iter().zip(bad).position(|(g, b)| g != b).expect("differ");
    assert_eq!(divergence.index, expected as u64);
    assert_eq!(divergence.left, Some(good[expected]));
    assert_eq!(divergence.right, Some(bad[expected]));
    assert!(expected > 1000, "the runs are equal up to the disturbance");
}

#[test]
fn many_short_tasks_reuse_stacks_and_table_entries() {
    let mut engine = Engine::new(&EngineConfig::new(4));
    engine.spawn(Spawn::new("parent"), |sim| {
        for round in 0..1000u64 {
            let children: Vec<_> = (0..4)
                .map(|i| {
                    sim.spawn(Spawn::new("child"), move |sim| {
                        sim.sleep_ns(i);
                        round * i
                    })
                })
                .collect();
            let sum: u64 = children.into_iter().filter_map(|child| child.join()).sum();
            assert_eq!(sum, round * 6);
        }
    });
    engine.run().expect("run");
}

#[test]
fn simulations_nest_but_their_tasks_do_not_mix() {
    let mut outer = Engine::new(&EngineConfig::new(1));
    let task = outer.spawn(Spawn::new("outer"), |outer_sim| {
        outer_sim.sleep_ns(5);
        let mut inner = Engine::new(&EngineConfig::new(1));
        let nested = inner.spawn(Spawn::new("inner"), |sim| {
            sim.sleep_ns(1000);
            sim.now_ns()
        });
        inner.run().expect("inner run");
        outer_sim.sleep_ns(5);
        (nested.take(), outer_sim.now_ns())
    });
    outer.run().expect("outer run");
    assert_eq!(task.take(), Some((Some(1000), 10)));

    let mut first = Engine::new(&EngineConfig::new(1));
    let foreign = first.sim().clone();
    first.spawn(Spawn::new("task"), move |_| foreign.sleep_ns(1));
    first.run().expect("its own handle");

    // A handle of another simulation that is not running anything.
    let idle = Engine::new(&EngineConfig::new(1));
    let foreign = idle.sim().clone();
    let mut second = Engine::new(&EngineConfig::new(1));
    second.spawn(Spawn::new("lost"), move |_| foreign.sleep_ns(1));
    let error = second.run().expect_err("foreign handle").to_string();
    assert!(error.contains("sleep was called outside a task"), "{error}");
}
