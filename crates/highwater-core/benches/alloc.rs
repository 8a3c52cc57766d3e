//! What allocations cost on the [`Solo`] host, where locks only count: the allocator's own work.
//!
//! `cargo bench -p highwater-core` prints the best of several runs in nanoseconds per operation;
//! `cargo test -p highwater-core --benches` runs each once, small, so that none can rot. Every run
//! ends with a check of its result, by count and by the audit.

use std::hint::black_box;
use std::time::Instant;

use highwater_core::audit;
use highwater_core::config::{Machine, NodeSpec, Tunables, ZoneSpec, preset};
use highwater_core::host::{CpuId, Cx, Solo, TaskFlags};
use highwater_core::page::{MigrateType, Order, Pfn};
use highwater_core::page_alloc::boot;
use highwater_core::page_alloc::{Gfp, NoRelief, PageAllocator};
use highwater_core::vmstat::ZoneStat;
use highwater_core::zone::{NodeId, ZoneType};

const CPU: CpuId = CpuId(0);
const USER: Gfp = Gfp::GFP_HIGHUSER_MOVABLE;

/// How much of each.
struct Size {
    rounds: u32,
    ops: u64,
}

fn main() {
    let full = std::env::args().any(|arg| arg == "--bench");
    let size =
        if full { Size { rounds: 7, ops: 2_000_000 } } else { Size { rounds: 1, ops: 2000 } };
    println!("{:<44} {:>10}", "operation", "ns");
    for order in [0, 3, 9] {
        pair(&size, order, USER, "movable pair, per-CPU list");
    }
    pair(&size, 4, USER, "movable pair, buddy lists");
    pair(&size, 0, Gfp::GFP_KERNEL, "unmovable pair, per-CPU list");
    bulk(&size, 0);
    bulk(&size, 3);
    last_of_twelve_zones(&size, "6.1");
    last_of_twelve_zones(&size, "4.3");
    last_of_twelve_zones(&size, "4.3-zonelist-cache");
    steal(&size);
    drain(&size);
    full_audit(&size);
}

/// Times `run` (which says how many operations it did) and prints the best round.
fn measure(size: &Size, name: &str, mut run: impl FnMut() -> u64) {
    let mut best = f64::INFINITY;
    for _ in 0..size.rounds {
        let start = Instant::now();
        let ops = run();
        best = best.min(start.elapsed().as_nanos() as f64 / ops as f64);
    }
    println!("{name:<44} {best:>10.1}");
}

fn machine(nodes: Vec<Vec<ZoneSpec>>) -> Machine {
    let n = nodes.len();
    let node = |(i, zones)| NodeSpec { cpus: vec![i as u16], zones };
    let distance = |i, j| if i == j { 10 } else { 20 };
    Machine {
        name: "bench".into(),
        nodes: nodes.into_iter().enumerate().map(node).collect(),
        distances: (0..n).map(|i| (0..n).map(|j| distance(i, j)).collect()).collect(),
        tunables: Tunables::default(),
        ..Machine::default()
    }
}

/// One node of 1 GiB.
fn one_gib(host: &Solo) -> PageAllocator<Solo> {
    let m = machine(vec![vec![ZoneSpec::full(ZoneType::Dma32, 4096, 1 << 18)]]);
    boot(host, &m, &preset("6.1").unwrap()).unwrap()
}

fn get(alloc: &PageAllocator<Solo>, cx: &Cx<'_, Solo>, gfp: Gfp, order: u8) -> Pfn {
    alloc.alloc(cx, &NoRelief, gfp, Order(order), NodeId(0), None).expect("there is memory")
}

/// Nothing is used, nothing is lost.
fn check(alloc: &PageAllocator<Solo>, cx: &Cx<'_, Solo>, used: u64) {
    let report = audit::check(alloc, cx).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(report.used, used);
}

fn pair(size: &Size, order: u8, gfp: Gfp, name: &str) {
    let host = Solo::default();
    let (alloc, cx) = (one_gib(&host), Cx::new(&host, CPU));
    measure(size, &format!("{name}, order {order}"), || {
        for _ in 0..size.ops {
            let pfn = black_box(get(&alloc, &cx, gfp, order));
            alloc.free(&cx, pfn, Order(order)).unwrap();
        }
        size.ops
    });
    check(&alloc, &cx, 0);
}

/// Many taken, then all given back in a scattered order.
fn bulk(size: &Size, order: u8) {
    let host = Solo::default();
    let (alloc, cx) = (one_gib(&host), Cx::new(&host, CPU));
    let nr = ((1usize << 17) >> order).min(size.ops as usize);
    let mut pages = Vec::with_capacity(nr);
    measure(size, &format!("bulk pair, order {order}"), || {
        pages.extend((0..nr).map(|_| get(&alloc, &cx, USER, order)));
        let mut at = 0;
        for left in (1..=nr).rev() {
            at = (at * 31 + 17) % left;
            alloc.free(&cx, pages.swap_remove(at), Order(order)).unwrap();
        }
        nr as u64
    });
    check(&alloc, &cx, 0);
}

/// Four nodes with three zones; all but the last zone in the list are below their marks.
fn last_of_twelve_zones(size: &Size, policy: &str) {
    let host = Solo::default();
    let zone = |kind, at: u64| ZoneSpec::full(kind, at, 8192);
    let node = |n: u64| {
        let at = 8192 + n * 3 * 8192;
        vec![zone(ZoneType::Dma32, at), zone(ZoneType::Movable, at + 8192)]
    };
    let mut nodes: Vec<_> = (0..4).map(node).collect();
    for (n, zones) in nodes.iter_mut().enumerate() {
        let normal = ZoneSpec::full(ZoneType::Normal, (1 << 20) + n as u64 * 8192, 8192);
        zones.push(normal);
    }
    let alloc = boot(&host, &machine(nodes), &preset(policy).unwrap()).unwrap();
    let cx = Cx::new(&host, CPU);
    let last = alloc.zonelists(NodeId(0)).fallback.entries().last().unwrap().node;
    let item = ZoneStat::FreePages as usize;
    for zone in alloc.populated_zones() {
        if (zone.node, zone.zone) != (last, ZoneType::Dma32) {
            zone.stats.add(CPU, item, -(zone.nr_free_pages_exact() as i64));
        }
    }
    // A second between allocations would let the zonelist cache forget.
    host.set_now_ns(2_000_000_000);
    let ops = size.ops / 10;
    measure(size, &format!("pair, the last of 12 zones, {policy}"), || {
        for _ in 0..ops {
            let pfn = black_box(get(&alloc, &cx, USER, 0));
            alloc.free(&cx, pfn, Order(0)).unwrap();
        }
        ops
    });
    let pfn = get(&alloc, &cx, USER, 0);
    assert_eq!(alloc.zone_of(pfn).map(|z| (z.node, z.zone)), Some((last, ZoneType::Dma32)));
}

/// An unmovable block that has to claim the only movable pageblock with free pages, each time.
fn steal(size: &Size) {
    let host = Solo::default();
    let (alloc, cx) = (one_gib(&host), Cx::new(&host, CPU));
    let zone = alloc.zone(NodeId(0), ZoneType::Dma32).unwrap();
    cx.set_flags(TaskFlags::MEMALLOC);
    let halves: Vec<Pfn> = (0..1 << 10).map(|_| get(&alloc, &cx, USER, 8)).collect();
    alloc.free(&cx, halves[0], Order(8)).unwrap();
    assert_eq!(alloc.nr_free_pages(), 256);
    let ops = size.ops / 100;
    measure(size, "claim a pageblock and give it back", || {
        for _ in 0..ops {
            let pfn = black_box(get(&alloc, &cx, Gfp::GFP_KERNEL, 4));
            assert_eq!(zone.pageblock_type(pfn), MigrateType::Unmovable);
            alloc.free(&cx, pfn, Order(4)).unwrap();
            alloc.convert_pageblock(&cx, zone, Pfn(pfn.0 & !511), MigrateType::Movable);
        }
        ops
    });
    check(&alloc, &cx, (halves.len() as u64 - 1) * 256);
}

/// Everything that one CPU keeps goes back to the buddy lists, per page.
fn drain(size: &Size) {
    let host = Solo::default();
    let (alloc, cx) = (one_gib(&host), Cx::new(&host, CPU));
    let zone = alloc.zone(NodeId(0), ZoneType::Dma32).unwrap();
    let rounds = size.ops / 1000;
    measure(size, "refill and drain a list, per page", || {
        let mut pages = 0;
        for _ in 0..rounds {
            let pfn = get(&alloc, &cx, USER, 0);
            alloc.free(&cx, pfn, Order(0)).unwrap();
            pages += u64::from(alloc.pcp_count(zone, CPU, CPU));
            alloc.drain_all(&cx, None);
        }
        pages
    });
    assert_eq!(alloc.nr_free_pages(), 1 << 18);
    check(&alloc, &cx, 0);
}

fn full_audit(size: &Size) {
    let host = Solo::default();
    let (alloc, cx) = (one_gib(&host), Cx::new(&host, CPU));
    let pages: Vec<Pfn> = (0..1000).map(|_| get(&alloc, &cx, USER, 0)).collect();
    measure(size, "audit, per frame", || {
        check(&alloc, &cx, pages.len() as u64);
        alloc.map.len() as u64
    });
}
