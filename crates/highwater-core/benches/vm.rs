//! What memory use costs on the [`Solo`] host, where locks only count: per page.
//!
//! `cargo bench -p highwater-core --bench vm` prints the best of several runs; `cargo test -p
//! highwater-core --benches` runs each once, small. Every run ends with a check of the space's
//! counts.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use highwater_core::Kernel;
use highwater_core::block::{DeviceId, DeviceSpec};
use highwater_core::config::{Machine, preset};
use highwater_core::host::{CpuId, Cx, Solo};
use highwater_core::kernel::KernelSpec;
use highwater_core::page_alloc::boot;
use highwater_core::page_cache::{FileSpec, Filesystem};
use highwater_core::vm::{Access, Backing, Mm, VmaFlags};

const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

/// How much of each.
struct Size {
    rounds: u32,
    pages: u32,
    /// Passes over mapped pages in a round.
    passes: u32,
}

fn main() {
    let full = std::env::args().any(|arg| arg == "--bench");
    let size = match full {
        true => Size { rounds: 9, pages: 1 << 17, passes: 8 },
        false => Size { rounds: 1, pages: 1000, passes: 1 },
    };
    println!("{:<44} {:>10}", "operation, per page", "ns");
    mapped(&size);
    anonymous(&size);
    file(&size);
}

/// Times `run` (which says how many pages it treated) and prints the best round.
fn measure(size: &Size, name: &str, mut run: impl FnMut() -> u64) {
    let mut best = f64::INFINITY;
    for _ in 0..size.rounds {
        let start = Instant::now();
        let pages = run();
        best = best.min(start.elapsed().as_nanos() as f64 / pages as f64);
    }
    println!("{name:<44} {best:>10.1}");
}

/// A machine of 1 GiB with a disk, and a space.
struct Stage<'h> {
    cx: Cx<'h, Solo>,
    kernel: Kernel<Solo>,
    mm: Arc<Mm<Solo>>,
}

impl<'h> Stage<'h> {
    fn new(host: &'h Solo) -> Self {
        let machine = Machine::from_sizes("bench", &[(1 << 30, vec![0])]).expect("a machine");
        let cx = Cx::new(host, CpuId(0));
        let mem = boot(host, &machine, &preset("6.1").expect("a preset")).expect("it boots");
        let disk = DeviceSpec::nvme(1 << 20);
        let spec = KernelSpec { devices: vec![disk], ..KernelSpec::default() };
        let kernel = Kernel::new(&cx, mem, &spec).expect("a kernel");
        let mm = kernel.create_mm(&cx).expect("memory");
        Stage { cx, kernel, mm }
    }

    fn map(&self, pages: u32, flags: VmaFlags, backing: Backing<Solo>) -> u32 {
        self.kernel.mmap(&self.cx, &self.mm, pages, 512, flags, backing).expect("room")
    }

    fn touch_all(&self, start: u32, pages: u32, access: Access) {
        let touched = self.kernel.touch_range(&self.cx, &self.mm, start, pages, access);
        touched.expect("memory");
    }

    fn unmap(&self, start: u32, pages: u32) {
        self.kernel.munmap(&self.cx, &self.mm, start, pages).expect("a mapping");
        let rss = &self.mm.rss;
        let left = rss.anon.load(Relaxed) + rss.file.load(Relaxed) + rss.tables.load(Relaxed);
        assert_eq!(left, 0, "nothing stays mapped");
    }
}

fn mapped(size: &Size) {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.map(size.pages, RW, Backing::Anon);
    stage.touch_all(start, size.pages, Access::Write);
    let all = u64::from(size.pages) * u64::from(size.passes);
    for (name, access) in [("mapped, read", Access::Read), ("mapped, written", Access::Write)] {
        measure(size, &format!("{name}, in order, one by one"), || {
            for _ in 0..size.passes {
                for vpn in start..start + size.pages {
                    stage.kernel.touch(&stage.cx, &stage.mm, vpn, access).expect("mapped");
                }
            }
            all
        });
        measure(size, &format!("{name}, as a range"), || {
            (0..size.passes).for_each(|_| stage.touch_all(start, size.pages, access));
            all
        });
    }
    measure(size, "mapped, read, at random", || {
        let mut state = 88_172_645_463_325_252_u64;
        for _ in 0..all {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let vpn = start + (state % u64::from(size.pages)) as u32;
            stage.kernel.touch(&stage.cx, &stage.mm, vpn, Access::Read).expect("mapped");
        }
        all
    });
    stage.unmap(start, size.pages);
}

fn anonymous(size: &Size) {
    let host = Solo::default();
    let stage = Stage::new(&host);
    for (name, access) in [("zero page", Access::Read), ("written", Access::Write)] {
        measure(size, &format!("anonymous, {name}: fault and unmap"), || {
            let start = stage.map(size.pages, RW, Backing::Anon);
            stage.touch_all(start, size.pages, access);
            stage.unmap(start, size.pages);
            size.pages.into()
        });
    }
}

fn file(size: &Size) {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let spec = FileSpec::new(Filesystem::EXT4, DeviceId(0), 0, size.pages);
    let open = stage.kernel.open(&stage.cx, &stage.kernel.create_file(&stage.cx, spec));
    measure(size, "cached file: fault around and unmap", || {
        let backing = Backing::File { open: Arc::clone(&open), page: 0 };
        let start = stage.map(size.pages, VmaFlags::READ | VmaFlags::SHARED, backing);
        stage.touch_all(start, size.pages, Access::Read);
        stage.unmap(start, size.pages);
        size.pages.into()
    });
}
