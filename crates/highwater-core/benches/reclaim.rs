//! What reclaim costs on the [`Solo`] host, where locks only count and devices are done at once: per
//! page.
//!
//! `cargo bench -p highwater-core --bench reclaim` prints the best of several runs; `cargo test -p
//! highwater-core --benches` runs each once, small.

use std::sync::Arc;
use std::time::Instant;

use highwater_core::Kernel;
use highwater_core::block::{DeviceId, DeviceSpec};
use highwater_core::config::{Machine, preset};
use highwater_core::host::{CpuId, Cx, Solo, TaskFlags};
use highwater_core::kernel::KernelSpec;
use highwater_core::page::{Folio, Order, PageFlags};
use highwater_core::page_alloc::Gfp;
use highwater_core::page_alloc::boot;
use highwater_core::page_cache::{FileSpec, Filesystem, OpenFile};
use highwater_core::vmstat::VmEvent;
use highwater_core::zone::{NodeId, watermark::Marks};

const PAGE: u64 = 4096;

/// How much of each.
struct Size {
    rounds: u32,
    memory_mib: u64,
}

fn main() {
    let full = std::env::args().any(|arg| arg == "--bench");
    let size = match full {
        true => Size { rounds: 9, memory_mib: 1024 },
        false => Size { rounds: 1, memory_mib: 32 },
    };
    println!("{:<52} {:>8} {:>12}", "what", "ns", "pages");
    stream(&size);
    scan(&size, "scan of pages that somebody holds", PageFlags::empty());
    scan(&size, "scan of dirty pages: activated, aged, met again", PageFlags::DIRTY);
    scan(&size, "scan of pages under writeback", PageFlags::WRITEBACK);
}

struct Stage<'h> {
    kernel: Kernel<Solo>,
    cx: Cx<'h, Solo>,
}

impl<'h> Stage<'h> {
    fn new(host: &'h Solo, size: &Size) -> Self {
        let nodes = [(size.memory_mib << 20, vec![0])];
        let machine = Machine::from_sizes("bench", &nodes).unwrap();
        let cx = Cx::new(host, CpuId(0));
        let mem = boot(host, &machine, &preset("6.1").unwrap()).unwrap();
        let device = DeviceSpec::nvme(1 << 24);
        let spec = KernelSpec { devices: vec![device], swap: Vec::new(), groups: 0 };
        let kernel = Kernel::new(&cx, mem, &spec).unwrap();
        // No kswapd here: nobody may wait for it.
        cx.set_flags(TaskFlags::KTHREAD);
        Stage { kernel, cx }
    }

    fn file(&self, pages: u64) -> Arc<OpenFile<Solo>> {
        let spec = FileSpec::new(Filesystem::XFS, DeviceId(0), 0, pages as u32);
        self.kernel.open(&self.cx, &self.kernel.create_file(&self.cx, spec))
    }

    fn read(&self, open: &OpenFile<Solo>, pages: u64) {
        for at in (0..pages).step_by(16) {
            let read = self.kernel.file_read(&self.cx, open, at * PAGE, 16 * PAGE);
            assert_eq!(read, Ok(16 * PAGE));
        }
    }

    fn event(&self, event: VmEvent) -> u64 {
        self.kernel.mem.events.read(event)
    }
}

/// A file of twice the memory is read again and again: each page is read, cached, reclaimed.
fn stream(size: &Size) {
    let host = Solo::default();
    let stage = Stage::new(&host, size);
    let pages = size.memory_mib << 9;
    let open = stage.file(pages);
    stage.read(&open, pages);
    let mut best = f64::INFINITY;
    for _ in 0..size.rounds {
        let before = stage.event(VmEvent::PgstealFile);
        let start = Instant::now();
        stage.read(&open, pages);
        best = best.min(start.elapsed().as_nanos() as f64 / pages as f64);
        assert!(stage.event(VmEvent::PgstealFile) - before > pages / 2);
    }
    println!("{:<52} {best:>8.1} {pages:>12}", "page of a stream: read, cached, reclaimed");
}

/// Reclaim goes over pages none of which it can have.
fn scan(size: &Size, name: &str, flags: PageFlags) {
    let host = Solo::default();
    let stage = Stage::new(&host, size);
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let pages = size.memory_mib << 7;
    let open = stage.file(pages);
    stage.read(&open, pages);
    let held: Vec<Folio> = (0..pages as u32)
        .map(|index| kernel.find_get_page(cx, &open.file, index).expect("cached"))
        .collect();
    for &pfn in &held {
        kernel.mem.map.page(pfn).flag_set::<Solo>(flags);
    }
    kernel.lru_add_drain_all(cx);
    // From here on every request has to reclaim.
    for zone in kernel.mem.zones_of(NodeId(0)) {
        let all = zone.managed();
        zone.set_marks(&Marks { min: all, low: all, high: all, promo: all });
    }
    let mut best = f64::INFINITY;
    for _ in 0..size.rounds {
        let before = stage.event(VmEvent::PgscanDirect);
        let start = Instant::now();
        let gfp = Gfp::GFP_KERNEL | Gfp::NORETRY;
        let page = kernel.mem.alloc(cx, kernel, gfp, Order::ZERO, NodeId(0), None);
        let scanned = stage.event(VmEvent::PgscanDirect) - before;
        assert!(page.is_none() && scanned >= pages, "{page:?} {scanned}");
        best = best.min(start.elapsed().as_nanos() as f64 / scanned as f64);
    }
    println!("{name:<52} {best:>8.1} {pages:>12}");
    assert_eq!(stage.event(VmEvent::PgstealDirect), 0);
    for &pfn in &held {
        kernel.mem.map.page(pfn).flag_clear::<Solo>(flags);
    }
    kernel.release_pages(cx, &held);
}
