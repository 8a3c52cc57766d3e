//! What compaction's scanners cost on the [`Solo`] host, where locks only count: per frame, in a zone whose frames are all
//! in use, small and large. A run by hand goes over such a zone once, whatever its size.
//!
//! `cargo bench -p highwater-core --bench compaction` prints the best of several runs over 4 GiB and 64 GiB; `cargo test
//! -p highwater-core --benches` runs each once, small.

use std::time::Instant;

use highwater_core::Kernel;
use highwater_core::block::{DeviceId, DeviceSpec};
use highwater_core::config::{Machine, NodeSpec, Scanners, Tunables, ZoneSpec, preset};
use highwater_core::host::{CpuId, Cx, Solo, TaskFlags};
use highwater_core::kernel::KernelSpec;
use highwater_core::page::{Order, PAGE_SIZE, PAGEBLOCK_PAGES, Pfn};
use highwater_core::page_alloc::{Gfp, NoRelief, boot};
use highwater_core::page_cache::{FileSpec, Filesystem};
use highwater_core::vmstat::VmEvent;
use highwater_core::zone::{NodeId, Zone, ZoneType, watermark::Marks};

const NODE: NodeId = NodeId(0);
const START: u64 = 1 << 20;

/// How much of each.
struct Size {
    rounds: u32,
    zones_mib: [u64; 2],
}

fn main() {
    let full = std::env::args().any(|arg| arg == "--bench");
    let size = match full {
        true => Size { rounds: 5, zones_mib: [4 << 10, 64 << 10] },
        false => Size { rounds: 1, zones_mib: [16, 64] },
    };
    println!("{:<52} {:>10} {:>8} {:>10}", "frames in use", "M frames/s", "ns seen", "MiB");
    for policy in ["6.1", "kswapd-inline"] {
        for mib in size.zones_mib {
            let host = Solo::default();
            let stage = Stage::full(&host, policy, mib);
            stage.measure(&size, &format!("{policy}: scanner of sources"), Scanner::Sources);
            stage.cache_a_page();
            stage.measure(&size, &format!("{policy}: scanner of targets"), Scanner::Targets);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scanner {
    Sources,
    Targets,
}

struct Stage<'h> {
    kernel: Kernel<Solo>,
    cx: Cx<'h, Solo>,
    mib: u64,
    lowest: Pfn,
}

impl<'h> Stage<'h> {
    /// A zone of which somebody has every frame.
    fn full(host: &'h Solo, policy: &str, mib: u64) -> Self {
        let zone = ZoneSpec::full(ZoneType::Normal, START, mib << 8);
        let machine = Machine {
            name: "bench".into(),
            nodes: vec![NodeSpec { cpus: vec![0], zones: vec![zone] }],
            distances: vec![vec![10]],
            tunables: Tunables::default(),
            ..Machine::default()
        };
        let cx = Cx::new(host, CpuId(0));
        let mem = boot(host, &machine, &preset(policy).expect(policy)).expect("boot");
        let spec =
            KernelSpec { devices: vec![DeviceSpec::nvme(1 << 12)], swap: Vec::new(), groups: 0 };
        let kernel = Kernel::new(&cx, mem, &spec).expect("kernel");
        // The last frame of a zone is for those who free others.
        cx.set_flags(TaskFlags::KTHREAD | TaskFlags::MEMALLOC);
        let mut stage = Stage { kernel, cx, mib, lowest: Pfn(0) };
        stage.zone().set_marks(&Marks::default());
        let gfp = Gfp::GFP_HIGHUSER_MOVABLE - Gfp::RECLAIM;
        let mem = &stage.kernel.mem;
        let page = || mem.alloc(&stage.cx, &NoRelief, gfp, Order::ZERO, NODE, None);
        stage.lowest = std::iter::from_fn(page).min().expect("a page");
        assert_eq!(stage.zone().nr_free_pages_exact(), 0);
        stage
    }

    fn zone(&self) -> &Zone<Solo> {
        self.kernel.mem.zone(NODE, ZoneType::Normal).expect("the zone")
    }

    /// Of the lowest frames one holds a page of a file: something to find a place for. (Others hold what the cache
    /// needs to know where it is.)
    fn cache_a_page(&self) {
        let (kernel, cx) = (&self.kernel, &self.cx);
        for frame in 0..8 {
            kernel.mem.free(cx, Pfn(self.lowest.0 + frame), Order::ZERO).expect("it is in use");
        }
        kernel.mem.drain_all(cx, None);
        let file = kernel.create_file(cx, FileSpec::new(Filesystem::XFS, DeviceId(0), 0, 1));
        let open = kernel.open(cx, &file);
        let page = PAGE_SIZE as u64;
        assert_eq!(kernel.file_read(cx, &open, 0, page), Ok(page));
        kernel.lru_add_drain_all(cx);
    }

    fn scanned(&self) -> [u64; 2] {
        [VmEvent::CompactMigrateScanned, VmEvent::CompactFreeScanned]
            .map(|event| self.kernel.mem.events.read(event))
    }

    /// Runs by hand, and checks that they went over the zone once: over all pageblocks but the one that the other
    /// scanner is in, and that of targets not over the next one either.
    fn measure(&self, size: &Size, name: &str, scanner: Scanner) {
        let block = PAGEBLOCK_PAGES;
        let blocks = (self.mib << 8) / block - if scanner == Scanner::Targets { 2 } else { 1 };
        let is_plain = self.kernel.mem.policy.compaction.scanners == Scanners::Plain;
        let expected: u64 = match scanner {
            // Where a pageblock had nothing, the next one is looked at half as closely.
            Scanner::Targets if !is_plain => (0..blocks).map(|rank| block >> rank.min(5)).sum(),
            Scanner::Sources | Scanner::Targets => blocks * block,
        };
        let mut best = f64::INFINITY;
        for _ in 0..size.rounds {
            let before = self.scanned();
            let start = Instant::now();
            self.kernel.compact_node(&self.cx, NODE);
            let ns = start.elapsed().as_nanos() as f64;
            let after = self.scanned();
            let [sources, targets] = [0, 1].map(|which| after[which] - before[which]);
            match scanner {
                Scanner::Sources => assert_eq!((sources, targets), (expected, 0)),
                Scanner::Targets => {
                    assert_eq!(targets, expected);
                    assert!(sources <= 2 * block, "{sources} until it found a page");
                }
            }
            best = best.min(ns);
        }
        let (frames, seen) = (1e3 * (blocks * block) as f64 / best, best / expected as f64);
        println!("{name:<52} {frames:>10.1} {seen:>8.2} {:>10}", self.mib);
    }
}
