//! LRU lists under chosen schedules: threads add pages, use them, take them down, isolate them, put
//! them back and let go of them, while others drain their batches.
//!
//! A page lives in a slot that owns a reference, as the page cache does; whoever works on a page
//! takes a reference of his own there.

use std::sync::Arc;

use highwater_core::Kernel;
use highwater_core::audit;
use highwater_core::config::{Machine, NodeSpec, Tunables, ZoneSpec, preset};
use highwater_core::host::{CpuId, Cx, Host};
use highwater_core::kernel::KernelSpec;
use highwater_core::lru::{BatchKind, IsolateMode, LruKind};
use highwater_core::page::{Folio, Order, PageFlags};
use highwater_core::page_alloc::boot;
use highwater_core::page_alloc::{Gfp, NoRelief};
use highwater_core::units::{GroupId, LruVecId};
use highwater_core::zone::{NodeId, ZoneType};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Mutex;
use shuttle::thread;

use super::host::ShuttleHost;
use super::run_all;

const NR_CPUS: usize = 3;
const NR_SLOTS: usize = 12;
/// Steps of a thread.
const STEPS: usize = 24;
/// The lists of the only node.
const VEC: LruVecId = LruVecId::new(0);

#[test]
fn lists_survive() {
    run_all(scenario);
}

struct World {
    host: ShuttleHost,
    kernel: Kernel<ShuttleHost>,
    slots: Box<[Mutex<Option<Folio>>]>,
}

impl World {
    fn new() -> World {
        let host = ShuttleHost::default();
        let zones = [(ZoneType::Dma, 2048), (ZoneType::Dma32, 4096)];
        let node = NodeSpec {
            cpus: (0..NR_CPUS as u16).collect(),
            zones: zones.iter().map(|&(zone, at)| ZoneSpec::full(zone, at, 1024)).collect(),
        };
        let machine = Machine {
            name: "shuttle".into(),
            nodes: vec![node],
            distances: vec![vec![10]],
            tunables: Tunables::default(),
            ..Machine::default()
        };
        let mut policy = preset("6.1").expect("a preset");
        // Small batches fill often.
        policy.reclaim.lru_batch = 3;
        let memory = boot(&host, &machine, &policy).expect("a possible machine");
        let cx = Cx::new(&host, CpuId(0));
        let kernel = Kernel::new(&cx, memory, &KernelSpec::default()).expect("a kernel");
        let slots = (0..NR_SLOTS).map(|_| Mutex::default()).collect();
        World { host, kernel, slots }
    }
}

fn scenario() {
    let world = Arc::new(World::new());
    let threads: Vec<_> = (0..NR_CPUS)
        .map(|cpu| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let cx = Cx::new(&world.host, CpuId(cpu as u16));
                let worker = Worker { world: &world, cx };
                (0..STEPS).for_each(|_| worker.step());
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("the thread ends well");
    }
    let (kernel, cx) = (&world.kernel, Cx::new(&world.host, CpuId(0)));
    audit::check_kernel_besides(kernel, &cx, &|_| true).expect("the lists are whole");
    kernel.lru_add_drain_all(&cx);
    let left: Vec<_> = world.slots.iter().filter_map(|slot| slot.lock().unwrap().take()).collect();
    for &folio in &left {
        let page = kernel.mem.map.page(folio);
        assert!(page.is(PageFlags::LRU), "{folio:?} is lost");
        assert_eq!(page.refcount(), 1);
    }
    kernel.release_pages(&cx, &left);
    let report = audit::check_kernel_besides(kernel, &cx, &|_| true).expect("the lists are whole");
    assert_eq!((report.on_lists, report.in_batches), (0, 0));
    assert_eq!(report.memory.used, 1, "the zero page");
}

/// A thread on its CPU.
struct Worker<'w> {
    world: &'w World,
    cx: Cx<'w, ShuttleHost>,
}

impl Worker<'_> {
    fn step(&self) {
        let (kernel, cx) = (&self.world.kernel, &self.cx);
        match thread_rng().gen_range(0..20) {
            0..5 => self.fill(),
            5..9 => self.with_page(|folio| {
                kernel.mark_accessed(cx, folio);
                kernel.mark_accessed(cx, folio);
            }),
            9 => self.with_page(|folio| kernel.lru_batch(cx, BatchKind::Deactivate, folio)),
            10 => self.with_page(|folio| kernel.lru_batch(cx, BatchKind::DeactivateFile, folio)),
            11 => self.with_page(|folio| kernel.lru_rotate(cx, folio)),
            12..16 => self.scan(),
            16 => self.empty_many(),
            17 => self.with_page(|folio| {
                let shadow =
                    kernel.workingset_eviction((folio, kernel.mem.map.page(folio)), GroupId::ROOT);
                assert_eq!(shadow.vec(), VEC);
            }),
            18 => kernel.lru_add_drain(cx),
            _ => kernel.lru_add_drain_all(cx),
        }
    }

    fn any_slot(&self) -> &Mutex<Option<Folio>> {
        &self.world.slots[thread_rng().gen_range(0..NR_SLOTS)]
    }

    /// Puts a new page into a slot, in place of an old one.
    fn fill(&self) {
        let (kernel, cx) = (&self.world.kernel, &self.cx);
        let gfp = match thread_rng().gen_bool(0.5) {
            true => Gfp::GFP_HIGHUSER_MOVABLE,
            false => Gfp::GFP_KERNEL | Gfp::DMA,
        };
        let folio = kernel
            .mem
            .alloc_folio(cx, &NoRelief, gfp, Order::ZERO, NodeId(0))
            .expect("there is memory");
        if thread_rng().gen_bool(0.5) {
            kernel.mem.map.page(folio).flag_set::<ShuttleHost>(PageFlags::SWAPBACKED);
        }
        kernel.lru_add(cx, folio);
        let old = self.any_slot().lock().unwrap().replace(folio);
        if let Some(old) = old {
            kernel.put_page(cx, old);
        }
    }

    /// Does something to a page, with a reference to it.
    fn with_page(&self, run: impl FnOnce(Folio)) {
        let found = self.any_slot().lock().unwrap().inspect(|&folio| {
            self.world.kernel.mem.map.page(folio).get::<ShuttleHost>(1);
        });
        if let Some(folio) = found {
            run(folio);
            self.world.kernel.put_page(&self.cx, folio);
        }
    }

    /// Isolates a few pages, activates or deactivates some, puts them back.
    fn scan(&self) {
        let (kernel, cx) = (&self.world.kernel, &self.cx);
        let list = LruKind::ALL[thread_rng().gen_range(0..4)];
        let highest = [ZoneType::Dma, ZoneType::Movable][thread_rng().gen_range(0..2)];
        let mode = IsolateMode { highest, may_unmap: true };
        let mut pages = [Folio::default(); 4];
        let n = kernel.isolate_lru_pages(cx, VEC, list, mode, &mut pages).taken;
        self.world.host.yield_now();
        for &folio in &pages[..n] {
            let page = kernel.mem.map.page(folio);
            assert!(!page.is(PageFlags::LRU) && page.refcount() > 0);
            match thread_rng().gen_range(0..3) {
                0 => drop(page.flag_set::<ShuttleHost>(PageFlags::ACTIVE)),
                1 => drop(page.flag_clear::<ShuttleHost>(PageFlags::ACTIVE)),
                _ => {}
            }
        }
        let (first, second) = pages[..n].split_at(n / 2);
        kernel.move_pages_to_lru(cx, VEC, [first, second], [0; 2]);
    }

    /// Lets go of several pages at once.
    fn empty_many(&self) {
        let pages: Vec<_> = (0..4).filter_map(|_| self.any_slot().lock().unwrap().take()).collect();
        self.world.kernel.release_pages(&self.cx, &pages);
    }
}
