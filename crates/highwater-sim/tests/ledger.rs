//! Every nanosecond of every operation is booked, and booking changes nothing.

use std::collections::BTreeMap;
use std::rc::Rc;

use highwater_core::Kernel;
use highwater_core::block::DeviceId;
use highwater_core::config::{Machine, preset};
use highwater_core::host::{Cx, Host, IpiScope, NS_PER_JIFFY, Phase};
use highwater_core::kernel::Error;
use highwater_core::page_cache::{FileSpec, Filesystem};
use highwater_core::swap::SwapSpec;
use highwater_core::vm::{Access, Backing, VmaFlags};
use highwater_sim::cost::{CostModel, CostTable};
use highwater_sim::cpu::CpuId;
use highwater_sim::disk::{DiskKind, DiskSpec, HddSpec};
use highwater_sim::engine::{Engine, EngineConfig, Placement, Spawn};
use highwater_sim::host::SimHost;
use highwater_sim::ledger::{BlockedBy, Ledger, NodeKey, OpRecord, Tree};
use highwater_sim::lock::{LockCosts, LockKind, SimLock};
use highwater_sim::machine::{MachineConfig, SimMachine};

const PAGE: u64 = 4096;
const SECOND: u64 = 1_000_000_000;
const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

/// Time at all nodes of a key.
fn spent(tree: &Tree, wanted: impl Fn(NodeKey) -> bool) -> u64 {
    tree.nodes().iter().filter(|node| wanted(node.key)).map(|node| node.self_ns).sum()
}

fn task<'a>(ledger: &'a Ledger, name: &str) -> &'a Tree {
    let found = ledger.tasks.iter().find(|task| &*task.name == name);
    &found.expect("a task of that name").tree
}

#[test]
fn waits_for_locks_cpus_times_and_others_have_their_leaves() {
    let mut config = EngineConfig::new(2);
    config.sched.context_switch_ns = 100;
    config.sched.tick_ns = 1000;
    config.sched.ipi_first_ns = 50;
    let mut engine = Engine::new(&config);
    let class = engine.sim().lock_class("spin", LockKind::Spin, LockCosts::default());
    let spin = Rc::new(SimLock::new(engine.sim(), &class, ()));
    let class = engine.sim().lock_class("mutex", LockKind::Sleep, LockCosts::default());
    let mutex = Rc::new(SimLock::new(engine.sim(), &class, ()));
    engine.sim().open_ledger();

    let (at_spin, at_mutex) = (Rc::clone(&spin), Rc::clone(&mutex));
    engine.spawn(Spawn::new("holder").pinned(CpuId(0)), move |sim| {
        let held = at_mutex.lock();
        sim.sleep_ns(10_000);
        drop(held);
        let held = at_spin.lock();
        sim.charge(5_000);
        drop(held);
        // Ahead of the others; gives way.
        sim.sync();
        // Two ticks on the waiter's CPU.
        sim.compute(2 * NS_PER_JIFFY);
        sim.interrupt([CpuId(1)], IpiScope::All, 300);
    });
    engine.spawn(Spawn::new("waiter").pinned(CpuId(1)), move |sim| {
        sim.sleep_ns(2_000);
        drop(mutex.lock());
        sim.sleep_ns(1_000);
        drop(spin.lock());
        sim.park_timeout("nobody", 7_000);
        sim.compute(3 * NS_PER_JIFFY);
    });
    engine.spawn(Spawn::new("late").pinned(CpuId(1)), |sim| {
        sim.sleep_ns(100_000);
        sim.compute(1_000);
    });
    engine.run().expect("run");
    let stats = engine.sim().lock_stats();
    let ledger = engine.sim().close_ledger();
    assert_eq!(ledger.first_gap(), None);

    let waiter = task(&ledger, "waiter");
    let of = |key| spent(waiter, |other| other == key);
    assert_eq!(of(NodeKey::Lock("mutex")), stats[1].wait_ns - 100, "all but the switch");
    assert_eq!(of(NodeKey::Lock("spin")), stats[0].wait_ns);
    assert!(stats.iter().all(|class| class.nr_contended == 1), "{stats:?}");
    assert_eq!(stats[0].longest.task.as_deref(), Some("holder"));
    assert_eq!((of(NodeKey::Sleep), of(NodeKey::Wait("nobody"))), (3_000, 7_000));
    assert_eq!(of(NodeKey::User), 3 * NS_PER_JIFFY);
    assert_eq!(of(NodeKey::Tick), 3_000);
    assert_eq!(of(NodeKey::Interrupt), 300);
    let late = task(&ledger, "late");
    let waited_ns = spent(late, |key| key == NodeKey::Cpu);
    assert!(waited_ns > NS_PER_JIFFY / 2, "{waited_ns} behind the waiter");
    assert_eq!(spent(task(&ledger, "holder"), |key| key == NodeKey::Answers), 350);
}

#[test]
fn a_ledger_may_be_opened_and_closed_at_any_time() {
    let mut engine = Engine::new(&EngineConfig::new(2));
    for task in 0..4_u64 {
        engine.spawn(Spawn::new(format!("task{task}")), move |sim| {
            for round in 0..100 {
                sim.compute(1_000 * (task + 1));
                sim.sleep_ns(500 * (round + 1));
            }
        });
    }
    engine.run_until(10_001).expect("run");
    let mut last_ns = 10_001;
    for until_ns in [50_000, 123_456, 300_000] {
        engine.sim().open_ledger();
        engine.run_until(until_ns).expect("run");
        let ledger = engine.sim().close_ledger();
        assert_eq!(ledger.first_gap(), None);
        assert_eq!(ledger.tasks.len(), 4);
        for task in &ledger.tasks {
            assert!(task.since_ns >= last_ns && task.until_ns >= until_ns, "{task:?}");
        }
        last_ns = until_ns;
    }
    engine.run().expect("run");
    assert_eq!(engine.sim().close_ledger(), Ledger::default());
}

/// Two CPUs and slow disks, for programs that want more memory than there is.
fn boot() -> SimMachine {
    let shape = Machine::from_sizes("test", &[(48 << 20, (0..2).collect())]).expect("machine");
    let costs = CostModel::new(&CostTable::server_3ghz());
    let mut config = MachineConfig::new(shape, costs, preset("6.1").expect("preset"));
    let disk = |name: &str| {
        let bytes_per_s = 20_000_000;
        let spec = HddSpec::streaming(bytes_per_s);
        DiskSpec::new(name, DiskKind::Hdd(spec), 4 << 18)
    };
    config.disks = vec![disk("data"), disk("swap")];
    config.swap = vec![SwapSpec { device: DeviceId(1), pages: 64 << 8, priority: -2 }];
    config.tracing.digest = true;
    SimMachine::boot(config).expect("boot")
}

type Program = fn(&Cx<'_, SimHost>, &Kernel<SimHost>, u64) -> Result<(), Error>;

/// Maps, touches and unmaps; every round is an operation.
fn mapper(cx: &Cx<'_, SimHost>, kernel: &Kernel<SimHost>, _: u64) -> Result<(), Error> {
    let mm = kernel.create_mm(cx)?;
    mm.add_task(cx);
    for _ in 0..6 {
        cx.host.op_begin();
        let start = kernel.mmap(cx, &mm, 4096, 1, RW, Backing::Anon)?;
        kernel.touch_range(cx, &mm, start, 4096, Access::Write)?;
        kernel.touch_range(cx, &mm, start, 4096, Access::Read)?;
        kernel.munmap(cx, &mm, start, 4096)?;
        cx.host.op_end("map");
        cx.host.sleep_jiffies(1);
    }
    kernel.exit_mm(cx, &mm);
    mm.remove_task(cx);
    Ok(())
}

/// Writes and reads a file; every piece is an operation.
fn writer(cx: &Cx<'_, SimHost>, kernel: &Kernel<SimHost>, nr: u64) -> Result<(), Error> {
    let pages = 6_000;
    let spec = FileSpec::new(Filesystem::EXT4, DeviceId(0), nr * pages, pages as u32);
    let open = kernel.open(cx, &kernel.create_file(cx, spec));
    for piece in 0..pages / 64 {
        cx.host.op_begin();
        kernel.file_write(cx, &open, piece * 64 * PAGE, 64 * PAGE)?;
        cx.host.op_end("write");
        cx.host.op_begin();
        kernel.file_read(cx, &open, (piece * 37 % 90) * 64 * PAGE, 64 * PAGE)?;
        cx.host.op_end("read");
    }
    kernel.fsync(cx, &open).map(|_| ())
}

fn load(is_booked: bool) -> (u64, Ledger) {
    let mut machine = boot();
    if is_booked {
        machine.sim().open_ledger();
    }
    let programs: [Program; 6] = [mapper, mapper, mapper, writer, writer, writer];
    for (nr, program) in (0..).zip(programs) {
        machine.spawn_task(format!("program/{nr}"), Placement::Anywhere, move |cx, kernel| {
            match program(cx, kernel, nr) {
                Ok(()) | Err(Error::Killed | Error::NoMemory) => {}
                Err(error) => panic!("{error}"),
            }
        });
    }
    machine.run_within(3600 * SECOND).expect("run");
    (machine.digest().value(), machine.sim().close_ledger())
}

#[test]
fn every_operation_under_pressure_adds_up_and_the_run_is_the_same() {
    let (digest, nothing) = load(false);
    let (booked_digest, ledger) = load(true);
    assert_eq!(digest, booked_digest, "booking moves no clock");
    assert_eq!(nothing, Ledger::default());

    assert!(ledger.ops.len() > 500);
    for op in &ledger.ops {
        assert_eq!(op.tree.total_ns(), op.end_ns - op.start_ns, "{} at {}", op.name, op.start_ns);
        for wait in &op.waits {
            assert!(wait.start_ns >= op.start_ns && wait.start_ns + wait.ns <= op.end_ns);
        }
    }
    for task in &ledger.tasks {
        assert_eq!(task.tree.total_ns(), task.until_ns - task.since_ns, "{}", task.name);
    }

    // Every kind of time is booked.
    let mut times: BTreeMap<String, u64> = BTreeMap::new();
    for op in &ledger.ops {
        for node in op.tree.nodes() {
            let kind = match node.key {
                NodeKey::Lock(_) => "lock".to_owned(),
                NodeKey::Phase(_) | NodeKey::GroupPhase(..) | NodeKey::Root => {
                    assert_eq!(node.self_ns, 0, "time that is in no leaf");
                    continue;
                }
                other => format!("{other:?}"),
            };
            *times.entry(kind).or_default() += node.self_ns;
        }
    }
    for kind in ["Kernel", "User", "Tick", "Interrupt", "Cpu", "lock"] {
        assert!(times.get(kind).is_some_and(|&ns| ns > 0), "{kind} of {times:#?}");
    }
    for why in ["a page's input", "writes in flight to be fewer"] {
        let wait = format!("{:?}", NodeKey::Wait(why));
        assert!(times.get(&wait).is_some_and(|&ns| ns > 0), "{why} of {times:#?}");
    }
    for part in [NodeKey::Queued, NodeKey::Served] {
        let wait = format!("{:?}", part("a page's input"));
        assert!(times.get(&wait).is_some_and(|&ns| ns > 0), "{wait} of {times:#?}");
    }

    // Every kind of blocker appears, and chains have several links.
    let chains = || ledger.ops.iter().flat_map(|op| &op.waits).map(|wait| &wait.chain);
    for how in [BlockedBy::HeldLock, BlockedBy::Woke, BlockedBy::HadCpu] {
        assert!(chains().any(|chain| chain.first().is_some_and(|link| link.how == how)), "{how:?}");
    }
    assert!(chains().any(|chain| chain.len() >= 3));
    let phases = |phase| {
        let has = |tree: &Tree| spent_under(tree, phase) > 0;
        ledger.ops.iter().any(|op| has(&op.tree))
    };
    for phase in [Phase::Fault, Phase::DirectReclaim, Phase::Throttle, Phase::SwapIn] {
        assert!(phases(phase), "{}", phase.name());
    }
}

#[test]
fn an_operation_after_a_sleep_begins_when_that_is_over() {
    let mut machine = boot();
    machine.sim().open_ledger();
    let mut sleepers = Vec::new();
    for nr in 0..6_u64 {
        let sleeper =
            machine.spawn_task(format!("sleeper/{nr}"), Placement::Anywhere, move |cx, _| {
                let mut samples = Vec::new();
                let mut last_ns = cx.host.now_ns();
                for _ in 0..50 {
                    cx.host.sleep_and_op_begin(5_000_000);
                    cx.host.sim().compute(3_000_000);
                    let now_ns = cx.host.now_ns();
                    cx.host.op_end(&format!("nap-{nr}"));
                    samples.push(now_ns - last_ns - 5_000_000);
                    last_ns = now_ns;
                }
                samples
            });
        sleepers.push(sleeper);
    }
    machine.run_within(3600 * SECOND).expect("run");
    let ledger = machine.sim().close_ledger();
    assert_eq!(ledger.first_gap(), None);
    assert_eq!(ledger.ops.len(), 300);
    for op in &ledger.ops {
        assert_eq!(spent(&op.tree, |key| key == NodeKey::Sleep), 0);
        assert!(op.ns() >= 3_000_000);
    }
    for (nr, sleeper) in sleepers.iter().enumerate() {
        let samples = sleeper.take().expect("ended");
        let name = format!("nap-{nr}");
        let of_task = ledger.ops.iter().filter(|op| *op.name == *name);
        let mut latencies: Vec<(u64, u64)> = of_task.map(|op| (op.start_ns, op.ns())).collect();
        latencies.sort_unstable();
        let latencies: Vec<u64> = latencies.into_iter().map(|(_, ns)| ns).collect();
        assert_eq!(latencies, samples, "what the program measures");
    }
    let waited = |op: &OpRecord| spent(&op.tree, |key| key == NodeKey::Cpu) > 1_000_000;
    assert!(ledger.ops.iter().any(waited), "six on two CPUs: some wake up late");
}

/// Time inside a phase.
fn spent_under(tree: &Tree, phase: Phase) -> u64 {
    let nodes = (0..tree.nodes().len() as u32).map(|at| (tree.path(at), tree.node(at).self_ns));
    nodes.filter(|(path, _)| path.contains(&NodeKey::Phase(phase))).map(|(_, ns)| ns).sum()
}
