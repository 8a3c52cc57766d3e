//! What list operations cost on the [`Solo`] host, where locks only count: per page.
//!
//! `cargo bench -p highwater-core --bench lru` prints the best of several runs; `cargo test -p
//! highwater-core --benches` runs each once, small. Every run ends with a check of the lists and of
//! the audit.

use std::time::Instant;

use highwater_core::Kernel;
use highwater_core::audit;
use highwater_core::config::{Machine, preset};
use highwater_core::host::{CpuId, Cx, Solo};
use highwater_core::kernel::KernelSpec;
use highwater_core::lru::{BatchKind, IsolateMode, LruKind};
use highwater_core::page::{Folio, Order, PageFlags};
use highwater_core::page_alloc::boot;
use highwater_core::page_alloc::{Gfp, NoRelief};
use highwater_core::units::LruVecId;
use highwater_core::zone::{NodeId, ZoneType};

const CPU: CpuId = CpuId(0);
/// The lists of the only node.
const VEC: LruVecId = LruVecId::new(0);
/// Pages of one isolation (SWAP_CLUSTER_MAX).
const CLUSTER: usize = 32;

/// How much of each.
struct Size {
    rounds: u32,
    pages: usize,
    /// Passes over all pages in a round.
    passes: usize,
}

fn main() {
    let full = std::env::args().any(|arg| arg == "--bench");
    let size = match full {
        true => Size { rounds: 9, pages: 1 << 17, passes: 16 },
        false => Size { rounds: 1, pages: 960, passes: 1 },
    };
    println!("{:<44} {:>10}", "operation, per page", "ns");
    scan(&size, "isolate and put back, in frame order", |_| {});
    scan(&size, "isolate and put back, scattered", scatter);
    add_and_release(&size);
    activate(&size);
    mark_referenced(&size);
    rotate(&size);
}

/// Times `run` (which says how many pages it treated) and prints the best round.
fn measure(size: &Size, name: &str, mut run: impl FnMut() -> usize) {
    let mut best = f64::INFINITY;
    for _ in 0..size.rounds {
        let start = Instant::now();
        let pages = run();
        best = best.min(start.elapsed().as_nanos() as f64 / pages as f64);
    }
    println!("{name:<44} {best:>10.1}");
}

/// A machine of 1 GiB.
struct Stage<'h> {
    kernel: Kernel<Solo>,
    cx: Cx<'h, Solo>,
}

impl<'h> Stage<'h> {
    fn new(host: &'h Solo) -> Self {
        let machine = Machine::from_sizes("bench", &[(1 << 30, vec![0])]).unwrap();
        let cx = Cx::new(host, CPU);
        let mem = boot(host, &machine, &preset("6.1").unwrap()).unwrap();
        let kernel = Kernel::new(&cx, mem, &KernelSpec::default()).unwrap();
        Stage { kernel, cx }
    }

    /// Pages in use, on no list.
    fn pages(&self, n: usize) -> Vec<Folio> {
        let gfp = Gfp::GFP_HIGHUSER_MOVABLE;
        let mem = &self.kernel.mem;
        let get = |_| mem.alloc_folio(&self.cx, &NoRelief, gfp, Order::ZERO, NodeId(0));
        (0..n).map(|i| get(i).expect("there is memory")).collect()
    }

    fn add(&self, pages: &[Folio]) {
        pages.iter().for_each(|&folio| self.kernel.lru_add(&self.cx, folio));
        self.kernel.lru_add_drain(&self.cx);
    }

    fn size(&self, list: LruKind) -> u64 {
        self.kernel.lru.vec(VEC).size(list)
    }

    /// All pages can be freed, and nothing else is in use.
    fn finish(&self, pages: &[Folio]) {
        self.kernel.lru_add_drain(&self.cx);
        self.kernel.release_pages(&self.cx, pages);
        assert!(LruKind::ALL.iter().all(|&list| self.size(list) == 0));
        let report = audit::check(&self.kernel.mem, &self.cx).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(report.used, 1, "the zero page");
    }
}

/// An order in which neighbours in the list are not neighbours in memory.
fn scatter(pages: &mut [Folio]) {
    let mut state = 1u64;
    for i in (1..pages.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        pages.swap(i, (state >> 33) as usize % (i + 1));
    }
}

fn scan(size: &Size, name: &str, order: impl Fn(&mut [Folio])) {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let mut pages = stage.pages(size.pages);
    order(&mut pages);
    stage.add(&pages);
    let mode = IsolateMode { highest: ZoneType::Movable, may_unmap: true };
    let list = LruKind::InactiveFile;
    measure(size, name, || {
        let mut treated = 0;
        while treated < size.pages * size.passes {
            let mut taken = [Folio::default(); CLUSTER];
            let n = stage.kernel.isolate_lru_pages(&stage.cx, VEC, list, mode, &mut taken);
            let back = [&taken[..n.taken], &[]];
            let moved = stage.kernel.move_pages_to_lru(&stage.cx, VEC, back, [0; 2]);
            assert_eq!(moved, [CLUSTER as u64, 0]);
            treated += n.taken;
        }
        treated
    });
    assert_eq!(stage.size(list), size.pages as u64);
    stage.finish(&pages);
}

/// The way of a page that is used once: batch, list, off the list, per-CPU list and back.
fn add_and_release(size: &Size) {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let mut pages = Vec::with_capacity(512);
    measure(size, "allocate, add, release in chunks of 512", || {
        let mut treated = 0;
        while treated < size.pages * size.passes {
            pages.extend(stage.pages(512));
            stage.add(&pages);
            stage.kernel.release_pages(&stage.cx, &pages);
            treated += pages.len();
            pages.clear();
        }
        treated
    });
    stage.finish(&[]);
}

/// Marks pages twice: the second time goes through the batch. Then takes them down again, untimed.
fn activate(size: &Size) {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let pages = stage.pages(size.pages);
    stage.add(&pages);
    let mut best = f64::INFINITY;
    for _ in 0..size.rounds {
        pages.iter().for_each(|&folio| stage.kernel.mark_accessed(&stage.cx, folio));
        let start = Instant::now();
        pages.iter().for_each(|&folio| stage.kernel.mark_accessed(&stage.cx, folio));
        stage.kernel.lru_add_drain(&stage.cx);
        best = best.min(start.elapsed().as_nanos() as f64 / pages.len() as f64);
        assert_eq!(stage.size(LruKind::ActiveFile), pages.len() as u64);
        for &folio in &pages {
            stage.kernel.lru_batch(&stage.cx, BatchKind::Deactivate, folio);
        }
        stage.kernel.lru_add_drain(&stage.cx);
        assert_eq!(stage.size(LruKind::InactiveFile), pages.len() as u64);
    }
    println!("{:<44} {best:>10.1}", "activate through the batch");
    stage.finish(&pages);
}

fn mark_referenced(size: &Size) {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let pages = stage.pages(size.pages);
    stage.add(&pages);
    measure(size, "mark referenced and clear it", || {
        for _ in 0..size.passes {
            for &folio in &pages {
                stage.kernel.mark_accessed(&stage.cx, folio);
                let page = stage.kernel.mem.map.page(folio);
                assert!(page.flag_test_clear::<Solo>(PageFlags::REFERENCED));
            }
        }
        pages.len() * size.passes
    });
    stage.finish(&pages);
}

fn rotate(size: &Size) {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let pages = stage.pages(size.pages);
    stage.add(&pages);
    measure(size, "rotate at the end of writeback", || {
        for _ in 0..size.passes {
            pages.iter().for_each(|&folio| stage.kernel.lru_rotate(&stage.cx, folio));
        }
        pages.len() * size.passes
    });
    stage.finish(&pages);
}
