//! The shipped list and lock code under schedules that [shuttle](https://docs.rs/shuttle) chooses.
//!
//! [`ShuttleHost`] is a host like any other: its locks are shuttle's, and every charge and every
//! trace event is a point where another thread may go on, also in the middle of a critical section.
//! Threads allocate, hand blocks to each other, free, drain and fold counters; a frame with two
//! owners, locks that nest the wrong way round, a sleep under a spinning lock, a deadlock, a lost
//! page or a broken list ends the run, and shuttle prints the schedule. [`lru`] does the same with
//! LRU lists, [`files`] with the page cache and what maps it.
//!
//! Seeds are fixed. `HIGHWATER_SHUTTLE_ITERATIONS` says how many schedules of each case to try.
//! Plain atomics (counters, page words) are not switched at: orderings of single memory accesses
//! are beyond this test.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test -p highwater-core --test shuttle`.

#![cfg(shuttle)]

mod files;
mod host;
mod lru;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

use highwater_core::audit;
use highwater_core::config::{Machine, NodeSpec, Tunables, ZoneSpec, preset};
use highwater_core::host::{CpuId, Cx, Host, Lock};
use highwater_core::page::{Order, Pfn};
use highwater_core::page_alloc::boot;
use highwater_core::page_alloc::{Gfp, NoRelief, PageAllocator};
use highwater_core::sync::order::LockClass;
use highwater_core::zone::{NodeId, ZoneType};
use host::ShuttleHost;
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::Mutex;
use shuttle::thread;
use shuttle::{Config, Runner};

/// Schedules of a case and scheduler, unless the environment says otherwise.
const ITERATIONS: usize = 1000;
/// Bug depth PCT looks for: changes of priority per schedule.
const PCT_DEPTH: usize = 3;
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
/// Most blocks a thread keeps.
const HELD_MAX: usize = 12;

const KINDS: [Gfp; 6] = [
    Gfp::GFP_KERNEL,
    Gfp::GFP_HIGHUSER_MOVABLE,
    Gfp::GFP_ATOMIC,
    Gfp::GFP_NOWAIT.union(Gfp::RECLAIMABLE),
    Gfp::GFP_KERNEL.union(Gfp::COMP).union(Gfp::NORETRY),
    Gfp::GFP_KERNEL.union(Gfp::DMA),
];

/// A small machine and what its threads do. Each thread has a CPU of its own.
#[derive(Clone, Copy)]
struct Case {
    policy: &'static str,
    /// Node of each CPU; the last CPU mostly drains and folds.
    cpus: &'static [u16],
    /// Node, type, first frame, frames.
    zones: &'static [(u16, ZoneType, u64, u64)],
    /// Sizes of the per-CPU lists.
    batch: u32,
    high: u32,
    /// Largest order.
    order_max: u8,
    /// All orders are as common as small ones.
    large: bool,
    /// Steps of a thread.
    steps: usize,
    /// Nobody looks at trace events.
    is_untraced: bool,
}

const ONE_ZONE: Case = Case {
    policy: "6.1",
    cpus: &[0, 0],
    zones: &[(0, ZoneType::Dma32, 4096, 3072)],
    batch: 4,
    high: 12,
    order_max: 4,
    large: false,
    steps: 30,
    is_untraced: false,
};

const TWO_ZONES: Case = Case {
    policy: "6.1",
    cpus: &[0, 0, 0],
    zones: &[(0, ZoneType::Dma, 2048, 2048), (0, ZoneType::Dma32, 4096, 2048)],
    batch: 2,
    high: 8,
    order_max: 9,
    large: false,
    steps: 24,
    is_untraced: false,
};

/// Far lists decay on their own.
const TWO_NODES: Case = Case {
    policy: "5.18",
    cpus: &[0, 1, 0],
    zones: &[(0, ZoneType::Dma, 2048, 2048), (1, ZoneType::Dma32, 4096, 2048)],
    batch: 3,
    high: 10,
    order_max: 3,
    large: false,
    steps: 24,
    is_untraced: false,
};

/// Blocks so large that requests fail and, now and then, the reserve for atomic ones is claimed.
const SHORT_OF_MEMORY: Case = Case {
    policy: "6.1",
    cpus: &[0, 0],
    zones: &[(0, ZoneType::Dma32, 4096, 3072)],
    batch: 1,
    high: 6,
    order_max: 10,
    large: true,
    steps: 30,
    is_untraced: false,
};

/// Round-robin drains, order 0 on the lists only.
const OLD_KERNEL: Case =
    Case { policy: "4.3", batch: 3, high: 9, order_max: 2, steps: 24, ..TWO_ZONES };

/// Single pages whose frees nobody traces: they go to the lists together.
const UNTRACED: Case =
    Case { cpus: &[0, 0, 0], high: 16, order_max: 0, is_untraced: true, ..ONE_ZONE };

/// CPUs own pageblocks: what one of them frees of another's goes to that one's lists.
const OWNED_BLOCKS: Case =
    Case { policy: "pcp-blocks", cpus: &[0, 0, 0], high: 1024, order_max: 0, ..ONE_ZONE };

#[test]
fn one_zone() {
    explore(ONE_ZONE);
}

#[test]
fn two_zones() {
    explore(TWO_ZONES);
}

#[test]
fn two_nodes() {
    explore(TWO_NODES);
}

#[test]
fn short_of_memory() {
    explore(SHORT_OF_MEMORY);
}

#[test]
fn old_kernel() {
    explore(OLD_KERNEL);
}

#[test]
fn untraced() {
    explore(UNTRACED);
}

#[test]
fn owned_blocks() {
    explore(OWNED_BLOCKS);
}

/// The host itself notices what it is there to notice.
#[test]
#[should_panic(expected = "pcp->lock may not be taken while zone->lock is held")]
fn locks_that_nest_the_wrong_way_round_are_seen() {
    let body = || {
        let host = ShuttleHost::<true>::default();
        let lists = host.new_cpu_lock(LockClass::Pcp, CpuId(0), ());
        let zone = host.new_lock(LockClass::Zone, ());
        let _outer = zone.lock(CpuId(0));
        let _inner = lists.lock(CpuId(0));
    };
    run(RandomScheduler::new_from_seed(SEED, 1), body);
}

#[test]
#[should_panic(expected = "sleeps while zone->lock is held")]
fn a_sleep_under_the_zone_lock_is_seen() {
    let body = || {
        let host = ShuttleHost::<true>::default();
        let zone = host.new_lock(LockClass::Zone, ());
        let _outer = zone.lock(CpuId(0));
        host.sleep_jiffies(1);
    };
    run(RandomScheduler::new_from_seed(SEED, 1), body);
}

fn explore(case: Case) {
    run_all(move || scenario::<false>(&case));
    run_all(move || scenario::<true>(&case));
}

/// Both schedulers, as many schedules as asked for.
fn run_all(body: impl Fn() + Clone + Send + Sync + 'static) {
    let iterations = std::env::var("HIGHWATER_SHUTTLE_ITERATIONS")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(ITERATIONS);
    run(RandomScheduler::new_from_seed(SEED, iterations), body.clone());
    run(PctScheduler::new_from_seed(SEED, PCT_DEPTH, iterations), body);
}

fn run(scheduler: impl Scheduler + 'static, body: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = 256 << 10;
    Runner::new(scheduler, config).run(body);
}

/// One execution: threads work, then everything is given back and counted. Frees may be put down until others follow.
fn scenario<const DEFERS: bool>(case: &Case) {
    let world = Arc::new(World::<DEFERS>::new(case));
    let before = world.memory.nr_free_pages();
    let threads: Vec<_> = (0..case.cpus.len())
        .map(|cpu| {
            let (world, case) = (Arc::clone(&world), *case);
            thread::spawn(move || Worker::new(&world, &case, cpu).work())
        })
        .collect();
    for thread in threads {
        thread.join().expect("the thread ends well");
    }
    let mut last = Worker::new(&world, case, 0);
    for cpu in 0..case.cpus.len() {
        last.receive(cpu);
    }
    last.free_all();
    world.memory.drain_all(&last.cx, None);
    for cpu in world.memory.cpus() {
        last.cx.set_cpu(cpu);
        world.memory.refresh_cpu_stats(&last.cx);
    }
    assert_eq!(world.memory.nr_free_pages(), before, "pages are lost");
    let plain: u64 = world.memory.populated_zones().map(|z| z.nr_free_pages()).sum();
    assert_eq!(plain, before, "differences are folded");
    let report = audit::check(&world.memory, &last.cx).expect("the lists are whole");
    assert_eq!((report.free, report.pcp, report.used), (before, 0, 0));
}

/// A block in a thread's hands.
type Block = (Pfn, Order);

/// The machine, and who owns what.
struct World<const DEFERS: bool> {
    host: ShuttleHost<DEFERS>,
    memory: PageAllocator<ShuttleHost<DEFERS>>,
    /// CPU + 1 of each frame's owner, 0 for the allocator.
    owners: Box<[AtomicU8]>,
    /// Blocks on their way to a CPU.
    mail: Box<[Mutex<Vec<Block>>]>,
}

impl<const DEFERS: bool> World<DEFERS> {
    fn new(case: &Case) -> Self {
        let host = ShuttleHost::untraced(case.is_untraced);
        let policy = preset(case.policy).expect("a preset");
        let memory = boot(&host, &machine(case), &policy).expect("a possible machine");
        for zone in memory.populated_zones() {
            zone.set_pcp_sizes(case.batch, case.high);
        }
        World {
            owners: (0..memory.map.len()).map(|_| AtomicU8::new(0)).collect(),
            mail: case.cpus.iter().map(|_| Mutex::default()).collect(),
            host,
            memory,
        }
    }

    fn change_owner(&self, (pfn, order): Block, from: u8, to: u8) {
        for frame in pfn.idx()..pfn.idx() + (1 << order.0) {
            let owner = self.owners[frame].swap(to, SeqCst);
            assert_eq!(owner, from, "frame {frame:#x} of {pfn:?} {order:?} has another owner");
        }
    }
}

fn machine(case: &Case) -> Machine {
    let nr_nodes = case.cpus.iter().max().map_or(0, |&n| n + 1);
    let node = |n: u16| NodeSpec {
        cpus: (0..).zip(case.cpus).filter(|&(_, &of)| of == n).map(|(cpu, _)| cpu).collect(),
        zones: case
            .zones
            .iter()
            .filter(|&&(of, ..)| of == n)
            .map(|&(_, zone, start, pages)| ZoneSpec::full(zone, start, pages))
            .collect(),
    };
    let distance = |a, b| if a == b { 10 } else { 20 };
    Machine {
        name: "shuttle".into(),
        nodes: (0..nr_nodes).map(node).collect(),
        distances: (0..nr_nodes).map(|a| (0..nr_nodes).map(|b| distance(a, b)).collect()).collect(),
        tunables: Tunables::default(),
        ..Machine::default()
    }
}

/// A thread on its CPU.
struct Worker<'w, const DEFERS: bool> {
    world: &'w World<DEFERS>,
    cx: Cx<'w, ShuttleHost<DEFERS>>,
    case: &'w Case,
    cpu: usize,
    held: Vec<Block>,
}

impl<'w, const DEFERS: bool> Worker<'w, DEFERS> {
    fn new(world: &'w World<DEFERS>, case: &'w Case, cpu: usize) -> Self {
        let cx = Cx::new(&world.host, CpuId(cpu as u16));
        Worker { world, cx, case, cpu, held: Vec::new() }
    }

    fn me(&self) -> u8 {
        self.cpu as u8 + 1
    }

    fn work(mut self) {
        let janitor = self.cpu == self.case.cpus.len() - 1;
        for _ in 0..self.case.steps {
            let memory = &self.world.memory;
            match thread_rng().gen_range(0..if janitor { 30 } else { 21 }) {
                0..8 => self.alloc(),
                8..14 => self.free_one(),
                14..16 => self.hand_over(),
                16..18 => self.receive(self.cpu),
                18 => self.free_singles(),
                19 => self.fold(1),
                20..24 => memory.drain_all(&self.cx, None),
                24..26 => {
                    let zones = memory.populated_zones().count();
                    let zone = memory.populated_zones().nth(thread_rng().gen_range(0..zones));
                    memory.drain_all(&self.cx, zone);
                }
                // Often enough for the pages of far nodes to decay.
                _ => self.fold(4),
            }
        }
        // What others may get is left to whoever is last.
        if thread_rng().gen_bool(0.5) {
            self.hand_over();
        }
        self.free_all();
    }

    /// Seconds pass on this CPU.
    fn fold(&self, seconds: usize) {
        for _ in 0..seconds {
            self.world.memory.refresh_cpu_stats(&self.cx);
        }
    }

    fn alloc(&mut self) {
        if self.held.len() >= HELD_MAX {
            return self.free_one();
        }
        let mut rng = thread_rng();
        let largest = self.case.order_max;
        let other = if self.case.large { largest } else { rng.gen_range(0..=largest) };
        let order = Order(rng.gen_range(0..=largest).min(other));
        let gfp = KINDS[rng.gen_range(0..KINDS.len())];
        let node = NodeId(rng.gen_range(0..self.world.memory.nr_nodes()) as u16);
        let page = self.world.memory.alloc(&self.cx, &NoRelief, gfp, order, node, None);
        if let Some(pfn) = page {
            self.world.change_owner((pfn, order), 0, self.me());
            self.held.push((pfn, order));
        }
    }

    fn take_any(&mut self) -> Option<Block> {
        let n = self.held.len();
        (n > 0).then(|| self.held.swap_remove(thread_rng().gen_range(0..n)))
    }

    fn free_one(&mut self) {
        if let Some(block) = self.take_any() {
            self.free(block);
        }
    }

    fn free(&self, block: Block) {
        self.world.change_owner(block, self.me(), 0);
        self.world.memory.free(&self.cx, block.0, block.1).expect("the block is ours");
    }

    fn free_all(&mut self) {
        while let Some(block) = self.held.pop() {
            self.free(block);
        }
    }

    /// Single pages in one call.
    fn free_singles(&mut self) {
        let singles: Vec<_> = self.held.extract_if(.., |b| b.1 == Order::ZERO).collect();
        for &block in &singles {
            self.world.change_owner(block, self.me(), 0);
        }
        let pfns: Vec<_> = singles.iter().map(|b| b.0).collect();
        self.world.memory.free_list(&self.cx, &pfns).expect("the pages are ours");
    }

    /// Sends half of the blocks to the next CPU.
    fn hand_over(&mut self) {
        let next = (self.cpu + 1) % self.case.cpus.len();
        let half = self.held.split_off(self.held.len() / 2);
        self.world.mail[next].lock().unwrap().extend(half.iter().copied());
    }

    /// Takes the blocks that were sent to a CPU: from the one before it.
    fn receive(&mut self, cpu: usize) {
        let blocks = std::mem::take(&mut *self.world.mail[cpu].lock().unwrap());
        let nr_cpus = self.case.cpus.len();
        let sender = ((cpu + nr_cpus - 1) % nr_cpus) as u8 + 1;
        for block in blocks {
            self.world.change_owner(block, sender, self.me());
            self.held.push(block);
        }
    }
}
