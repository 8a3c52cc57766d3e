//! Loops of the engine and of the allocator on it. The bench that measures them creates their
//! objects.

use std::hint::black_box;

use highwater_core::host::Cx;
use highwater_core::page::Order;
use highwater_core::page_alloc::{Gfp, NoRelief, PageAllocator};
use highwater_core::zone::NodeId;
use highwater_sim::engine::queue::Queue;
use highwater_sim::engine::{Engine, Placement, Sim, Spawn};
use highwater_sim::host::SimHost;
use highwater_sim::lock::SimLock;
use highwater_sim::rng::Stream;

/// Cost of a lock that was last taken by the same CPU.
pub(crate) const HOT_NS: u64 = 20;

/// Tasks that sleep for random times; every wake-up comes at the exact time.
pub(crate) fn sleepers(engine: &mut Engine, placement: Placement, nr_tasks: u64, nr_wakes: u64) {
    for task in 0..nr_tasks {
        let spawn = Spawn::new(format!("sleeper {task}")).placement(placement);
        engine.spawn(spawn, move |sim| {
            let mut stream = Stream::indexed(1, "sleep", task);
            let mut due_ns = sim.now_ns();
            for _ in 0..nr_wakes {
                let delay_ns = 1 + stream.below(200_000);
                due_ns += delay_ns;
                sim.sleep_ns(delay_ns);
                assert_eq!(sim.now_ns(), due_ns, "woken at another time");
            }
        });
    }
}

/// Events as a kernel has them: short slices, transfers, timers.
pub(crate) fn kernel_delay_ns(stream: &mut Stream) -> u64 {
    match stream.below(10) {
        0..7 => 500 + stream.below(1000),
        7..9 => 50_000 + stream.below(100_000),
        _ => 50_000_000 + stream.below(100_000_000),
    }
}

/// A queue with `nr_pending` events.
pub(crate) fn filled(nr_pending: u32, delays: &[u64]) -> Queue {
    let mut queue = Queue::new();
    queue.reserve_ids(nr_pending as usize);
    (0..nr_pending).for_each(|id| queue.insert(id, delays[id as usize % delays.len()]));
    queue
}

/// Pops the earliest event and pushes it again later. Returns a word that depends on the order.
pub(crate) fn hold(queue: &mut Queue, delays: &[u64], nr_holds: u64) -> u64 {
    let (mut sum, mut last_ns) = (0_u64, 0);
    for at in 0..nr_holds {
        let (time_ns, id) = queue.pop().expect("pending");
        assert!(time_ns >= last_ns, "events out of order");
        last_ns = time_ns;
        sum = sum.rotate_left(1) ^ time_ns ^ u64::from(id);
        queue.insert(id, time_ns + delays[at as usize % delays.len()]);
    }
    sum
}

/// An uncontended lock, at [`HOT_NS`] each time, from time zero on.
pub(crate) fn lock(sim: &Sim, lock: &SimLock<u64>, nr_rounds: u64) {
    for _ in 0..nr_rounds {
        *black_box(lock).lock() += 1;
    }
    assert_eq!((*lock.lock(), sim.now_ns()), (nr_rounds, HOT_NS * (nr_rounds + 1)));
}

/// An order-0 page allocated and freed.
pub(crate) fn pairs(mem: &PageAllocator<SimHost>, cx: &Cx<'_, SimHost>, nr_pairs: u64) {
    let sim = cx.host.sim();
    for _ in 0..nr_pairs {
        let pfn = mem.alloc(cx, &NoRelief, Gfp::GFP_KERNEL, Order::ZERO, NodeId(0), None);
        mem.free(cx, black_box(pfn).expect("page"), Order::ZERO).expect("free");
        sim.sync();
    }
}
