//! The core's allocator on the simulated machine.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use highwater_core::audit;
use highwater_core::config::{Machine, preset};
use highwater_core::host::{CpuId, Cx, Host, Lock, Tasks};
use highwater_core::page::{Order, Pfn};
use highwater_core::page_alloc::boot;
use highwater_core::page_alloc::{Gfp, NoRelief};
use highwater_core::sync::order::LockClass;
use highwater_core::wait::WaitQueue;
use highwater_core::zone::NodeId;
use highwater_sim::cost::{CostModel, CostTable};
use highwater_sim::digest::Digest;
use highwater_sim::engine::{Engine, Spawn};
use highwater_sim::host::{SimHost, Tracing, engine_config};
use highwater_sim::lock::LockStats;
use highwater_sim::rng::Stream;

fn machine() -> Machine {
    Machine::from_sizes("two nodes", &[(1 << 30, vec![0, 1]), (1 << 30, vec![2, 3])])
        .expect("machine")
}

fn costs() -> CostModel {
    CostModel::new(&CostTable::server_3ghz())
}

/// Tasks on every CPU that allocate and free random orders, and single pages in lists.
fn churn(seed: u64) -> (Digest, Vec<LockStats>, u64) {
    churn_traced(seed, Tracing { digest: true, ..Tracing::default() })
}

fn churn_traced(seed: u64, tracing: Tracing) -> (Digest, Vec<LockStats>, u64) {
    let machine = machine();
    let mut config = engine_config(&machine, &costs());
    config.digest.checkpoint_bits = 10;
    let mut engine = Engine::new(&config);
    let host = Rc::new(SimHost::new(engine.sim(), &machine, costs(), tracing));
    let memory = Rc::new(boot(&*host, &machine, &preset("6.1").expect("preset")).expect("boot"));
    let free_before = memory.nr_free_pages();
    for task in 0..8u64 {
        let (host, memory) = (Rc::clone(&host), Rc::clone(&memory));
        let cpu = CpuId((task % 4) as u16);
        engine.spawn(Spawn::new(format!("churn {task}")).pinned(cpu), move |sim| {
            let cx = Cx::new(&*host, cpu);
            let node = NodeId(if cpu.0 < 2 { 0 } else { 1 });
            let mut stream = Stream::indexed(seed, "churn", task);
            let mut held: Vec<(Pfn, Order)> = Vec::new();
            for _ in 0..2000 {
                if stream.chance(0.55) {
                    let order = Order(stream.below(6) as u8);
                    let pfn = memory.alloc(&cx, &NoRelief, Gfp::GFP_KERNEL, order, node, None);
                    if let Some(pfn) = pfn {
                        host.frame_zero(pfn, order);
                        held.push((pfn, order));
                    }
                } else if !held.is_empty() {
                    let at = stream.below(held.len() as u64) as usize;
                    let (pfn, order) = held.swap_remove(at);
                    memory.free(&cx, pfn, order).expect("free");
                }
                if stream.chance(0.02) {
                    let pages = held.extract_if(.., |&mut (_, order)| order == Order::ZERO);
                    let pages: Vec<Pfn> = pages.map(|(pfn, _)| pfn).collect();
                    memory.free_list(&cx, &pages).expect("free");
                }
                host.yield_now();
            }
            for (pfn, order) in held {
                memory.free(&cx, pfn, order).expect("free");
            }
            assert_eq!(sim.cpu(), cpu);
        });
    }
    engine.run().expect("run");
    let cached = free_before - memory.nr_free_pages();
    assert!(cached < 20_000, "everything was freed, to per-CPU lists at least: {cached}");
    (engine.digest(), engine.sim().lock_stats(), engine.sim().now_ns())
}

#[test]
fn the_allocator_runs_deterministically_and_its_locks_contend() {
    let (digest, locks, now_ns) = churn(1);
    let (again, locks_again, now_again) = churn(1);
    assert_eq!(digest, again);
    assert_eq!(locks, locks_again);
    assert_eq!(now_ns, now_again);
    let zone = locks.iter().find(|row| row.name == "zone->lock").expect("zone lock");
    assert!(zone.nr_taken > 100, "{zone:?}");
    assert!(zone.nr_contended > 0 && zone.wait_ns > 0, "{zone:?}");
    assert!(zone.nr_contended < zone.nr_taken && zone.hold_ns > zone.nr_taken, "{zone:?}");
    let pcp = locks.iter().find(|row| row.name == "pcp->lock").expect("pcp lock");
    assert!(pcp.nr_taken > zone.nr_taken, "{pcp:?}");
    // Events of the core are part of the digest. Without them some charges are summed up, with no
    // visible effect on time.
    let (without, locks_without, now_without) = churn_traced(1, Tracing::default());
    assert!(digest.nr_events() > without.nr_events() + 8 * 2000);
    assert_eq!((locks_without, now_without), (locks, now_ns));
    assert_ne!(churn(2).0.value(), digest.value());
}

/// Other CPUs free pages of pageblocks that a CPU owns, a list at a time, while the owner gives
/// pageblocks back.
#[test]
fn pageblocks_that_change_owners_keep_their_pages() {
    // Large enough that a CPU may keep several pageblocks.
    let machine = Machine::from_sizes("a node", &[(8 << 30, vec![0, 1, 2, 3])]).expect("machine");
    let mut engine = Engine::new(&engine_config(&machine, &costs()));
    let host = Rc::new(SimHost::new(engine.sim(), &machine, costs(), Tracing::default()));
    let policy = preset("pcp-blocks").expect("preset");
    let memory = Rc::new(boot(&*host, &machine, &policy).expect("boot"));
    // Pages that tasks of each CPU took and that no task freed.
    let taken: Rc<[RefCell<Vec<Pfn>>; 4]> = Rc::default();
    for task in 0..8u64 {
        let (host, memory, taken) = (Rc::clone(&host), Rc::clone(&memory), Rc::clone(&taken));
        let cpu = CpuId((task % 4) as u16);
        engine.spawn(Spawn::new(format!("task {task}")).pinned(cpu), move |_| {
            let cx = Cx::new(&*host, cpu);
            let mut stream = Stream::indexed(1, "owners", task);
            for _ in 0..200 {
                for _ in 0..256 {
                    let (gfp, node) = (Gfp::GFP_HIGHUSER_MOVABLE, memory.cpu_node(cpu));
                    let pfn = memory.alloc(&cx, &NoRelief, gfp, Order::ZERO, node, None);
                    taken[cpu.idx()].borrow_mut().push(pfn.expect("there is enough"));
                }
                let mut of = taken[stream.below(4) as usize].borrow_mut();
                let nr = of.len().min(stream.below(1024) as usize);
                let mut pages = Vec::new();
                for _ in 0..nr {
                    let at = stream.below(of.len() as u64) as usize;
                    pages.push(of.swap_remove(at));
                }
                drop(of);
                memory.free_list(&cx, &pages).expect("free");
                if stream.chance(0.1) {
                    memory.drain_all(&cx, None);
                }
                host.yield_now();
            }
        });
    }
    let (task_host, task_memory) = (Rc::clone(&host), Rc::clone(&memory));
    engine.run().expect("run");
    engine.spawn(Spawn::new("audit").pinned(CpuId(0)), move |_| {
        let cx = Cx::new(&*task_host, CpuId(0));
        audit::check(&task_memory, &cx).expect("nothing is broken");
    });
    engine.run().expect("run");
}

#[test]
fn clearing_a_reused_frame_is_cheap() {
    let machine = machine();
    let mut engine = Engine::new(&engine_config(&machine, &costs()));
    let host = Rc::new(SimHost::new(engine.sim(), &machine, costs(), Tracing::default()));
    let task_host = Rc::clone(&host);
    engine.spawn(Spawn::new("task").pinned(CpuId(0)), move |sim| {
        let host = &*task_host;
        let cost_of = |what: &dyn Fn()| {
            let start_ns = sim.now_ns();
            what();
            sim.now_ns() - start_ns
        };
        assert_eq!(cost_of(&|| host.frame_zero(Pfn(1000), Order(0))), 450);
        assert_eq!(cost_of(&|| host.frame_zero(Pfn(1000), Order(0))), 30);
        assert_eq!(cost_of(&|| host.frame_write(Pfn(1000), 0, &[0; 4096])), 25);
        // Two frames, half of each; the second is in order.
        assert_eq!(cost_of(&|| host.frame_write(Pfn(1000), 2048, &[0; 4096])), 13 + 105);
        let mut buffer = [7; 64];
        host.frame_read(Pfn(1000), 0, &mut buffer);
        assert_eq!(buffer, [7; 64], "no data");
        // The other node's memory.
        assert_eq!(cost_of(&|| host.frame_zero(Pfn(262_144 + 5000), Order(0))), 720);
        assert_eq!(cost_of(&|| host.frame_zero(Pfn(512), Order(9))), 100_000);
        host.frame_dma(Pfn(1000));
        assert_eq!(cost_of(&|| host.frame_zero(Pfn(1000), Order(0))), 450);
    });
    engine.run().expect("run");
}

#[test]
fn tasks_wait_for_each_other_through_the_hosts_interface() {
    let machine = machine();
    let mut engine = Engine::new(&engine_config(&machine, &costs()));
    let host = Rc::new(SimHost::new(engine.sim(), &machine, costs(), Tracing::default()));
    // A bounded buffer, as a workload would write it.
    struct Buffer<T> {
        items: Vec<u32>,
        waiting: Option<T>,
    }
    type Shared = Rc<<SimHost as Host>::Lock<Buffer<<SimHost as Tasks>::Task>>>;
    let buffer = Buffer { items: Vec::new(), waiting: None };
    let buffer: Shared = Rc::new(host.new_lock(LockClass::Workload, buffer));
    let received = Rc::new(RefCell::new(Vec::new()));
    let spawn_side = |name: &'static str, cpu: u16, limit: usize, sends: bool| {
        let (host, buffer, received) = (Rc::clone(&host), Rc::clone(&buffer), Rc::clone(&received));
        engine.spawn(Spawn::new(name).pinned(CpuId(cpu)), move |_| {
            let cx = Cx::new(&*host, CpuId(cpu));
            let mut next = 0;
            while next < 100 {
                let mut state = Lock::lock(&*buffer, cx.cpu());
                let can_go =
                    if sends { state.items.len() < limit } else { !state.items.is_empty() };
                if can_go {
                    if sends {
                        state.items.push(next);
                    } else {
                        received.borrow_mut().extend(state.items.drain(..1));
                    }
                    next += 1;
                    let other = state.waiting.take();
                    drop(state);
                    if let Some(other) = other {
                        host.unpark(&other);
                    }
                } else {
                    state.waiting = Some(host.current());
                    drop(state);
                    host.park(if sends { "room" } else { "items" });
                }
            }
        });
    };
    spawn_side("sender", 0, 3, true);
    spawn_side("receiver", 1, 3, false);
    engine.run().expect("run");
    assert_eq!(*received.borrow(), (0..100).collect::<Vec<_>>());
    assert!(engine.sim().now_ns() > 0);
}

/// Tasks that wait in turn continue in the order of arrival, also behind one whose bound is lower,
/// and several at a time if there is room for them.
#[test]
fn waiters_go_on_in_turn() {
    const BOUNDS: [u32; 6] = [1, 1, 3, 3, 3, 3];
    let machine = machine();
    let mut engine = Engine::new(&engine_config(&machine, &costs()));
    let host = Rc::new(SimHost::new(engine.sim(), &machine, costs(), Tracing::default()));
    let queue = Rc::new(WaitQueue::new(&*host));
    let inside = Rc::new(Cell::new(0));
    let seen = Rc::new(RefCell::new(Vec::new()));
    for (number, bound) in BOUNDS.into_iter().enumerate() {
        let (host, queue) = (Rc::clone(&host), Rc::clone(&queue));
        let (inside, seen) = (Rc::clone(&inside), Rc::clone(&seen));
        let cpu = CpuId((number % 4) as u16);
        engine.spawn(Spawn::new(format!("waiter {number}")).pinned(cpu), move |_| {
            let cx = Cx::new(&*host, cpu);
            // They arrive one after another, all before the first has left.
            host.sleep_ns(1000 * (number as u64 + 1));
            queue.wait_in_turn(&cx, "room", || {
                let has_room = inside.get() < bound;
                inside.set(inside.get() + u32::from(has_room));
                has_room
            });
            seen.borrow_mut().push((number, inside.get()));
            host.sleep_ns(1_000_000);
            inside.set(inside.get() - 1);
            queue.prompt(&*host, cpu);
        });
    }
    engine.run().expect("run");
    // The second waits for the first alone. Two more continue with it; the rest follow as those
    // leave.
    let numbers: Vec<usize> = seen.borrow().iter().map(|&(number, _)| number).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
    assert_eq!(seen.borrow().iter().map(|&(_, nr)| nr).max(), Some(3));
    assert_eq!((inside.get(), queue.len()), (0, 0));
}
