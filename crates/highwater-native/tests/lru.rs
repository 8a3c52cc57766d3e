//! Threads against the LRU lists: pages are added, used, isolated, put back and freed, while
//! batches fill and drain on every CPU and by remote.
//!
//! A page lives in a slot that owns a reference, as in a page cache. At the end every page is on
//! the list that its flags name, each was freed once, and all counters agree (the audit).
//! `HIGHWATER_STRESS_SECONDS` sets the length of each case.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use highwater_core::Kernel;
use highwater_core::audit;
use highwater_core::config::{Machine, preset};
use highwater_core::host::{CpuId, Cx};
use highwater_core::kernel::KernelSpec;
use highwater_core::lru::{BatchKind, IsolateMode, LruKind};
use highwater_core::page::{Folio, Order, PageFlags};
use highwater_core::page_alloc::boot;
use highwater_core::page_alloc::{Gfp, NoRelief};
use highwater_core::units::LruVecId;
use highwater_core::zone::{NodeId, ZoneType};
use highwater_native::{NativeHost, NativeOptions};

use crate::case_time;

const NR_CPUS: u16 = 4;
/// The lists of the only node.
const VEC: LruVecId = LruVecId::new(0);

/// With few slots, threads meet on the same pages. With many, lists grow long.
#[test]
fn lists_survive_threads() {
    for nr_slots in [8, 4000] {
        stress(nr_slots, case_time());
    }
}

type Slots = [Mutex<Option<Folio>>];

fn stress(nr_slots: usize, time: Duration) {
    let machine = Machine::from_sizes("stress", &[(256 << 20, (0..NR_CPUS).collect())]).unwrap();
    let options = NativeOptions::default();
    let host = NativeHost::new(machine.nr_cpus(), machine.end_pfn(), &options).unwrap();
    let memory = boot(&host, &machine, &preset("6.1").unwrap()).unwrap();
    let kernel = Kernel::new(&Cx::new(&host, CpuId(0)), memory, &KernelSpec::default()).unwrap();
    let slots: Vec<_> = (0..nr_slots).map(|_| Mutex::default()).collect();
    let end = Instant::now() + time;
    std::thread::scope(|scope| {
        for cpu in 0..NR_CPUS {
            let (host, kernel, slots) = (&host, &kernel, &*slots);
            scope.spawn(move || {
                let _lease = host.enter(CpuId(cpu)).unwrap();
                let cx = Cx::new(host, CpuId(cpu));
                let mut worker = Worker { kernel, cx, slots, state: u64::from(cpu) + 1 };
                while Instant::now() < end {
                    (0..1000).for_each(|_| worker.step());
                }
            });
        }
    });

    let _lease = host.enter(CpuId(0)).unwrap();
    let cx = Cx::new(&host, CpuId(0));
    audit::check_kernel_besides(&kernel, &cx, &|_| true).unwrap_or_else(|e| panic!("{e}"));
    kernel.lru_add_drain_all(&cx);
    let left: Vec<_> = slots.iter().filter_map(|slot| slot.lock().unwrap().take()).collect();
    for &folio in &left {
        let page = kernel.mem.map.page(folio);
        assert!(page.is(PageFlags::LRU), "{folio:?} is lost");
        assert_eq!(page.refcount(), 1, "{folio:?}");
    }
    kernel.release_pages(&cx, &left);
    let report = audit::check_kernel_besides(&kernel, &cx, &|_| true).unwrap();
    assert_eq!((report.on_lists, report.in_batches, report.memory.used), (0, 0, 1));
}

/// A thread on its CPU.
struct Worker<'w> {
    kernel: &'w Kernel<NativeHost>,
    cx: Cx<'w, NativeHost>,
    slots: &'w Slots,
    state: u64,
}

impl Worker<'_> {
    fn below(&mut self, n: usize) -> usize {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 33) as usize % n
    }

    fn step(&mut self) {
        let kernel = self.kernel;
        match self.below(200) {
            0..60 => self.fill(),
            60..110 => self.with_page(|worker, folio| {
                kernel.mark_accessed(&worker.cx, folio);
                kernel.mark_accessed(&worker.cx, folio);
            }),
            110..120 => self.batch(BatchKind::Deactivate),
            120..130 => self.batch(BatchKind::DeactivateFile),
            130..140 => self.with_page(|worker, folio| kernel.lru_rotate(&worker.cx, folio)),
            140..180 => self.scan(),
            180..190 => self.empty_many(),
            190..199 => kernel.lru_add_drain(&self.cx),
            _ => kernel.lru_add_drain_all(&self.cx),
        }
    }

    fn slot(&mut self) -> &Mutex<Option<Folio>> {
        let at = self.below(self.slots.len());
        &self.slots[at]
    }

    /// Puts a new page into a slot, in place of an old one.
    fn fill(&mut self) {
        let (kernel, gfp) = (self.kernel, Gfp::GFP_HIGHUSER_MOVABLE);
        let folio = kernel.mem.alloc_folio(&self.cx, &NoRelief, gfp, Order::ZERO, NodeId(0));
        let folio = folio.expect("there is memory");
        if self.below(2) == 0 {
            kernel.mem.map.page(folio).flag_set::<NativeHost>(PageFlags::SWAPBACKED);
        }
        kernel.lru_add(&self.cx, folio);
        let old = self.slot().lock().unwrap().replace(folio);
        if let Some(old) = old {
            kernel.put_page(&self.cx, old);
        }
    }

    fn batch(&mut self, kind: BatchKind) {
        self.with_page(|worker, folio| worker.kernel.lru_batch(&worker.cx, kind, folio));
    }

    /// Runs an operation on a page, with a reference to it.
    fn with_page(&mut self, run: impl FnOnce(&Self, Folio)) {
        let map = &self.kernel.mem.map;
        let found = self.slot().lock().unwrap().inspect(|&folio| {
            map.page(folio).get::<NativeHost>(1);
        });
        if let Some(folio) = found {
            run(self, folio);
            self.kernel.put_page(&self.cx, folio);
        }
    }

    /// Isolates pages, activates or deactivates a few, puts them back.
    fn scan(&mut self) {
        let list = LruKind::ALL[self.below(4)];
        let mode = IsolateMode {
            highest: [ZoneType::Dma, ZoneType::Movable][self.below(2)],
            may_unmap: true,
        };
        let mut pages = [Folio::default(); 32];
        let want = 1 + self.below(pages.len());
        let out = &mut pages[..want];
        let n = self.kernel.isolate_lru_pages(&self.cx, VEC, list, mode, out).taken;
        for &folio in &pages[..n] {
            let page = self.kernel.mem.map.page(folio);
            match self.below(3) {
                0 => drop(page.flag_set::<NativeHost>(PageFlags::ACTIVE)),
                1 => drop(page.flag_clear::<NativeHost>(PageFlags::ACTIVE)),
                _ => {}
            }
        }
        let (first, second) = pages[..n].split_at(n / 2);
        self.kernel.move_pages_to_lru(&self.cx, VEC, [first, second], [0; 2]);
    }

    /// Releases several pages at once.
    fn empty_many(&mut self) {
        let mut pages = [Folio::default(); 40];
        let mut n = 0;
        for _ in 0..pages.len() {
            if let Some(folio) = self.slot().lock().unwrap().take() {
                pages[n] = folio;
                n += 1;
            }
        }
        self.kernel.release_pages(&self.cx, &pages[..n]);
    }
}
