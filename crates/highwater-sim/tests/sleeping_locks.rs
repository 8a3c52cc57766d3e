//! Sleeping locks, with time: the order and time of entries (rules/sleeping-locks).

use std::cell::RefCell;
use std::rc::Rc;

use highwater_core::config::{Machine, RwsemNewcomers, preset};
use highwater_core::host::{CpuId, Cx, Host};
use highwater_core::page::{Folio, PageFlags};
use highwater_core::wait::{Newcomers, RwSem, RwSemRules};
use highwater_sim::cost::{CostModel, CostTable};
use highwater_sim::cpu::SchedParams;
use highwater_sim::engine::{Engine, Placement, Spawn};
use highwater_sim::host::{SimHost, Tracing, engine_config};
use highwater_sim::machine::{MachineConfig, SimMachine};
use highwater_sim::pressure::Resource;

const US: u64 = 1000;
const CPUS: u16 = 12;

const RULES: RwSemRules =
    RwSemRules { readers_pass_writers: true, hands_off: true, newcomers: Newcomers::Steal };

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Reads,
    Writes,
    /// Writes, then downgrades to a reader at a time, which is logged.
    Downgrades(u64),
}
use How::{Downgrades, Reads, Writes};

/// Activity of a task while it holds the lock.
#[derive(Clone, Copy)]
enum Hold {
    /// Sleeps until a time.
    Asleep(u64),
    /// Computes until a time.
    Busy(u64),
    /// Sleeps for a time.
    For(u64),
}
use Hold::{Asleep, Busy, For};

/// Tasks around one lock. Waking and switching cost nothing.
struct Stage {
    engine: Engine,
    host: Rc<SimHost>,
    sem: Rc<RwSem<SimHost>>,
    /// Entries with their times in microseconds.
    log: Rc<RefCell<Vec<(String, u64)>>>,
}

impl Stage {
    fn new(rules: RwSemRules) -> Stage {
        let machine = Machine::from_sizes("test", &[(1 << 26, (0..CPUS).collect())]);
        let machine = machine.expect("machine");
        let costs = CostModel::new(&CostTable::server_3ghz());
        let mut config = engine_config(&machine, &costs);
        config.sched = SchedParams::FREE;
        let engine = Engine::new(&config);
        let host = Rc::new(SimHost::new(engine.sim(), &machine, costs, Tracing::default()));
        let sem = Rc::new(RwSem::new(&*host, rules, "a test"));
        Stage { engine, host, sem, log: Rc::default() }
    }

    /// A task that arrives at a time.
    fn task(&self, name: impl Into<String>, cpu: Option<u16>, at_us: u64, how: How, hold: Hold) {
        let (host, sem, log) = (Rc::clone(&self.host), Rc::clone(&self.sem), Rc::clone(&self.log));
        let name = name.into();
        let spawn = Spawn::new(name.as_str());
        let spawn = match cpu {
            Some(cpu) => spawn.pinned(CpuId(cpu)),
            None => spawn,
        };
        self.engine.spawn(spawn, move |sim| {
            let cx = Cx::new(&*host, CpuId(0));
            host.sleep_ns(at_us * US);
            let inside = || {
                log.borrow_mut().push((name, host.now_ns() / US));
                let left = |until_us: u64| (until_us * US).saturating_sub(host.now_ns());
                match hold {
                    Asleep(until_us) => host.sleep_ns(left(until_us)),
                    For(us) => host.sleep_ns(us * US),
                    Busy(until_us) => {
                        while left(until_us) > 0 {
                            sim.compute(left(until_us).min(US));
                        }
                    }
                }
            };
            match how {
                Reads => {
                    let _reader = sem.read(&cx);
                    inside();
                }
                Writes => {
                    let _writer = sem.write(&cx);
                    inside();
                }
                Downgrades(at_us) => {
                    let writer = sem.write(&cx);
                    host.sleep_ns((at_us * US).saturating_sub(host.now_ns()));
                    let _reader = writer.downgrade();
                    inside();
                }
            }
        });
    }

    /// A task that keeps a CPU busy.
    fn hog(&self, cpu: u16, (from_us, until_us): (u64, u64)) {
        self.engine.spawn(Spawn::new("hog").pinned(CpuId(cpu)), move |sim| {
            sim.sleep_ns(from_us * US);
            sim.compute((until_us - from_us) * US);
        });
    }

    fn run(mut self) -> Vec<(String, u64)> {
        self.engine.run().expect("run");
        self.log.take()
    }
}

/// Asserts that tasks entered in this order, each at about this time.
fn assert_log(log: &[(String, u64)], expected: &[(&str, u64)]) {
    let names: Vec<&str> = log.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, expected.iter().map(|&(name, _)| name).collect::<Vec<_>>(), "{log:?}");
    for ((name, at), &(_, wanted)) in log.iter().zip(expected) {
        assert!(at.abs_diff(wanted) <= 2, "{name} came in at {at} us, not at {wanted}: {log:?}");
    }
}

/// Vectors R1, R6: a writer spins on readers for 10 to 25 microseconds, then sleeps; later writers
/// do not spin (rules/sleeping-locks#rwsem-spin).
#[test]
fn readers_are_spun_on_for_some_microseconds() {
    for (readers, spins_us) in [(2, 11), (40, 25)] {
        let stage = Stage::new(RULES);
        for reader in 0..readers {
            stage.task(format!("r{reader}"), None, 0, Reads, Asleep(5000));
        }
        stage.task("w", Some(3), 1000, Writes, For(3000));
        stage.task("w2", Some(5), 1500, Writes, For(1));
        stage.task("late", Some(4), 2000, Reads, For(1));
        let sim = stage.engine.sim().clone();
        let log = stage.run();
        assert_log(&log[readers..], &[("w", 5000), ("w2", 8000), ("late", 8001)]);
        let [busy_us, later_us] = [3, 5].map(|cpu| sim.cpu_times(CpuId(cpu)).system_ns / US);
        assert!((spins_us..spins_us + 3).contains(&busy_us), "{readers} readers: {busy_us} us");
        assert!(later_us < 2, "{readers} readers: {later_us} us");
    }
}

/// Vector R2: between a release and the start of the woken writer, one reader gets in, not two
/// (rules/sleeping-locks#rwsem-read). A writer that waited long is next
/// (rules/sleeping-locks#rwsem-handoff).
#[test]
fn one_reader_steals_in_the_gap() {
    let stage = Stage::new(RULES);
    stage.task("r1", None, 0, Reads, Asleep(5000));
    stage.task("r2", None, 0, Reads, Asleep(5000));
    stage.task("w", Some(3), 1000, Writes, Asleep(10_000));
    stage.hog(3, (4900, 5050));
    stage.task("r4", Some(4), 5010, Reads, Asleep(9000));
    stage.task("r5", Some(5), 5020, Reads, For(1));
    assert_log(&stage.run()[2..], &[("r4", 5010), ("w", 9000), ("r5", 10_000)]);

    // At 9.05 ms w has waited for more than a tick: r7 does not steal, although w is not yet running at 13.01.
    for (hands_off, last) in
        [(true, [("w", 13_050), ("r7", 14_000)]), (false, [("r7", 13_010), ("w", 13_050)])]
    {
        let stage = Stage::new(RwSemRules { hands_off, ..RULES });
        stage.task("r1", None, 0, Reads, Asleep(5000));
        stage.task("w", Some(3), 1000, Writes, Asleep(14_000));
        stage.hog(3, (4900, 5050));
        stage.hog(3, (8900, 9050));
        stage.hog(3, (12_900, 13_050));
        stage.task("r4", Some(4), 5010, Reads, Asleep(9000));
        stage.task("r6", Some(5), 9010, Reads, Asleep(13_000));
        stage.task("r7", Some(6), 13_010, Reads, For(1));
        assert_log(&stage.run()[1..], &[&[("r4", 5010), ("r6", 9010)], &last[..]].concat());
    }
}

/// rules/sleeping-locks#rwsem-release
#[test]
fn a_downgrade_lets_readers_in_if_one_is_first() {
    let run = |first: How| {
        let stage = Stage::new(RULES);
        stage.task("w", Some(0), 0, Downgrades(1000), Asleep(2000));
        stage.task("1st", Some(1), 100, first, For(100));
        stage.task("wB", Some(2), 200, Writes, For(100));
        stage.task("rC", Some(3), 300, Reads, For(100));
        stage.run()
    };
    let expected = [("w", 1000), ("1st", 1000), ("rC", 1000), ("wB", 2000)];
    assert_log(&run(Reads), &expected);
    let expected = [("w", 1000), ("1st", 2000), ("wB", 2100), ("rC", 2200)];
    assert_log(&run(Writes), &expected);
}

/// Vector R3 (rules/sleeping-locks#rwsem-release).
#[test]
fn readers_come_in_together() {
    let run = |rules| {
        let stage = Stage::new(rules);
        stage.task("w", Some(0), 0, Writes, Asleep(1000));
        for (nr, (name, how)) in
            [("rA", Reads), ("wB", Writes), ("rC", Reads), ("wD", Writes), ("rE", Reads)]
                .into_iter()
                .enumerate()
        {
            stage.task(name, Some(1 + nr as u16), 100 + nr as u64, how, For(100));
        }
        stage.run()
    };
    let new = [("w", 0), ("rA", 1000), ("rC", 1000), ("rE", 1000), ("wB", 1100), ("wD", 1200)];
    assert_log(&run(RULES), &new);
    let old = [("w", 0), ("rA", 1000), ("wB", 1100), ("rC", 1200), ("wD", 1300), ("rE", 1400)];
    let rules =
        RwSemRules { readers_pass_writers: false, hands_off: false, newcomers: Newcomers::Queue };
    assert_log(&run(rules), &old);
}

/// Vector R4: 256 readers at a time (rules/sleeping-locks#rwsem-release).
#[test]
fn two_hundred_and_fifty_six_readers_come_in_together() {
    for is_writer_first in [false, true] {
        let stage = Stage::new(RULES);
        stage.task("w", Some(0), 0, Writes, Asleep(10_000));
        let at_us = if is_writer_first { 100 } else { 5000 };
        stage.task("wX", Some(1), at_us, Writes, For(100));
        for reader in 0..300 {
            stage.task(format!("r{reader}"), None, 1000 + reader, Reads, For(1000));
        }
        let mut came = std::collections::BTreeMap::<u64, u64>::new();
        let log = stage.run();
        // All readers of one batch enter within a few microseconds.
        log.iter().for_each(|&(_, at)| *came.entry(at / 100 * 100).or_default() += 1);
        let x = log.iter().position(|(name, _)| name == "wX");
        assert_eq!(x, Some(if is_writer_first { 1 } else { 301 }), "{came:?}");
        let batches: Vec<u64> = came.into_values().filter(|&nr| nr > 1).collect();
        assert_eq!(batches, [256, 44]);
    }
}

/// A reader that queues behind waiting readers wakes them if readers hold the lock
/// (rules/sleeping-locks#rwsem-release).
#[test]
fn a_reader_that_queues_behind_readers_lets_them_in() {
    let stage = Stage::new(RULES);
    stage.task("w", Some(0), 0, Writes, Asleep(10_000));
    for reader in 0..300 {
        stage.task(format!("r{reader}"), None, 1000 + reader, Reads, For(1000));
    }
    // The first 256 are inside, 44 wait.
    stage.task("late", None, 10_500, Reads, For(1000));
    let log = stage.run();
    let nr_in = |from, until| log.iter().filter(|&&(_, at)| (from..until).contains(&at)).count();
    assert_eq!((nr_in(10_000, 10_500), nr_in(10_500, 10_600), log.len()), (256, 45, 302));
}

/// A reader that spins (5.3 to 5.10) enters when the owner leaves; one that does not spin sleeps
/// (rules/sleeping-locks#rwsem-read).
#[test]
fn readers_spin_where_the_kernel_has_it() {
    for kernel in ["5.4", "5.10", "6.1"] {
        let (newcomers, spins) = match preset(kernel).expect("preset").locks.rwsem_newcomers {
            RwsemNewcomers::Spin => (Newcomers::Spin, true),
            _ => (Newcomers::Steal, false),
        };
        assert_eq!(spins, kernel != "6.1", "{kernel}");
        let stage = Stage::new(RwSemRules { newcomers, ..RULES });
        stage.task("w", Some(0), 0, Writes, Busy(100));
        stage.task("r", Some(1), 10, Reads, For(1));
        let sim = stage.engine.sim().clone();
        assert_log(&stage.run(), &[("w", 0), ("r", 100)]);
        let system_us = sim.cpu_times(CpuId(1)).system_ns / US;
        assert_eq!((88..93).contains(&system_us), spins, "{kernel}: {system_us} us");
        assert!(spins || system_us < 2, "{kernel}: {system_us} us");
    }
}

/// Vector R5: the owner loses its CPU at 8 ms. A spinning task stops, and a new task queues at
/// once. A task that arrives between the owner's release and the start of the first waiter
/// overtakes (rules/sleeping-locks#rwsem-spin).
#[test]
fn nobody_spins_on_an_owner_that_lost_its_cpu() {
    let stage = Stage::new(RULES);
    stage.task("w0", Some(0), 0, Writes, Busy(13_000));
    stage.hog(0, (6000, 10_000));
    stage.task("w1", Some(1), 7910, Writes, For(100));
    stage.task("w2", Some(2), 7920, Writes, For(100));
    stage.task("w3", Some(3), 9000, Writes, For(100));
    stage.hog(1, (12_900, 13_050));
    stage.task("w4", Some(4), 13_020, Writes, Busy(13_200));
    let sim = stage.engine.sim().clone();
    let order = [("w0", 0), ("w4", 13_020), ("w1", 13_200), ("w2", 13_300), ("w3", 13_400)];
    assert_log(&stage.run(), &order);
    for (cpu, spun_us) in [(1, 90), (2, 80), (3, 0)] {
        let system_us = sim.cpu_times(CpuId(cpu)).system_ns / US;
        assert!(system_us.abs_diff(spun_us) <= 3, "CPU {cpu}: {system_us} us");
    }
}

/// The first spinner loses its CPU from 8 to 12 ms: the next one takes the lock that becomes free
/// meanwhile (rules/sleeping-locks#rwsem-spin).
#[test]
fn nobody_waits_for_a_spinner_that_lost_its_cpu() {
    let stage = Stage::new(RULES);
    stage.task("w0", Some(0), 0, Writes, Busy(10_000));
    stage.task("w1", Some(1), 10, Writes, For(1));
    stage.hog(1, (6000, 10_000));
    stage.task("w2", Some(2), 20, Writes, Busy(10_100));
    assert_log(&stage.run(), &[("w0", 0), ("w2", 10_000), ("w1", 12_000)]);
}

/// Vector R5 (rules/sleeping-locks#rwsem-spin).
#[test]
fn a_writer_spins_on_a_running_owner() {
    let stage = Stage::new(RULES);
    stage.task("w0", Some(0), 0, Writes, Busy(100));
    stage.task("w1", Some(1), 10, Writes, Busy(150));
    stage.task("w2", Some(2), 20, Writes, Busy(200));
    let sim = stage.engine.sim().clone();
    assert_log(&stage.run(), &[("w0", 0), ("w1", 100), ("w2", 150)]);
    // They did not sleep meanwhile: their time that is not user time is spinning.
    for (cpu, spun_us) in [(1, 90), (2, 130)] {
        let system_us = sim.cpu_times(CpuId(cpu)).system_ns / US;
        assert!(system_us.abs_diff(spun_us) <= 2, "CPU {cpu}: {system_us} us");
    }
}

/// A sleeping owner is not expected to release soon, so no task spins on it.
#[test]
fn nobody_spins_on_an_owner_that_sleeps() {
    let stage = Stage::new(RULES);
    stage.task("w0", Some(0), 0, Writes, Asleep(1000));
    stage.task("w1", Some(1), 10, Writes, For(1));
    let sim = stage.engine.sim().clone();
    assert_log(&stage.run(), &[("w0", 0), ("w1", 1000)]);
    assert!(sim.cpu_times(CpuId(1)).system_ns < 2 * US);
}

/// Vector P2: a waiter for a page lock that always loses gets the hand-over when it queues for the
/// sixth time (rules/sleeping-locks#page-unfair).
#[test]
fn the_sixth_time_the_lock_is_handed_over() {
    let nr_stolen = |policy| {
        let machine = Machine::from_sizes("test", &[(1 << 26, vec![0, 1])]).expect("machine");
        let costs = CostModel::new(&CostTable::server_3ghz());
        let config = MachineConfig::new(machine, costs, preset(policy).expect("preset"));
        let mut machine = SimMachine::boot(config).expect("boot");
        let page = Folio::page(machine.kernel.zero_page());
        let thief = machine.spawn_task("thief", Placement::Anywhere, move |cx, kernel| {
            kernel.lock_page(cx, page);
            for nr in 0..20 {
                cx.host.sleep_ns(1000 * US);
                kernel.unlock_page(cx, page);
                if !kernel.try_lock_page(page) {
                    return nr;
                }
            }
            kernel.unlock_page(cx, page);
            20
        });
        machine.spawn_task("waiter", Placement::Anywhere, move |cx, kernel| {
            cx.host.sleep_ns(US);
            kernel.lock_page(cx, page);
            kernel.unlock_page(cx, page);
        });
        machine.run_within(1_000_000 * US).expect("run");
        thief.take().expect("it ends")
    };
    assert_eq!([nr_stolen("5.10"), nr_stolen("6.1"), nr_stolen("5.4")], [5, 5, 20]);
}

/// Pressure of a wait for a page. It always counts as I/O. It also counts as memory if the page was
/// reclaimed from a working set, be it file or anonymous (rules/pressure#refault).
#[test]
fn a_refault_is_memory_pressure_if_the_page_was_of_a_working_set() {
    let stalls_of_10_ms = |flags: PageFlags| {
        let machine = Machine::from_sizes("test", &[(1 << 26, vec![0, 1])]).expect("machine");
        let costs = CostModel::new(&CostTable::server_3ghz());
        let config = MachineConfig::new(machine, costs, preset("6.1").expect("preset"));
        let mut machine = SimMachine::boot(config).expect("boot");
        let page = Folio::page(machine.kernel.zero_page());
        machine.spawn_task("reader", Placement::Anywhere, move |cx, kernel| {
            cx.host.sim().measure_pressure();
            kernel.mem.map.page(page).flag_set::<SimHost>(flags);
            kernel.lock_page(cx, page);
            cx.host.sleep_ns(101_000 * US);
            kernel.unlock_page(cx, page);
            kernel.mem.map.page(page).flag_clear::<SimHost>(flags);
        });
        machine.spawn_task("waiter", Placement::Anywhere, move |cx, kernel| {
            cx.host.sleep_ns(1000 * US);
            kernel.wait_on_locked(cx, page);
        });
        machine.run_within(1_000_000 * US).expect("run");
        let reading = machine.sim().pressure();
        [Resource::Memory, Resource::Io].map(|of| {
            let lines = reading.of(of);
            let tenths = |us: u64| (us + 5000) / 10_000;
            (tenths(lines.some.total_us), tenths(lines.full.total_us))
        })
    };
    assert_eq!(stalls_of_10_ms(PageFlags::WORKINGSET), [(10, 10), (10, 10)], "read again too soon");
    assert_eq!(stalls_of_10_ms(PageFlags::empty()), [(0, 0), (10, 10)], "read for the first time");
    let uptodate = PageFlags::WORKINGSET | PageFlags::UPTODATE;
    assert_eq!(stalls_of_10_ms(uptodate), [(0, 0), (10, 10)], "another task holds it");
}
