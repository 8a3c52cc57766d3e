//! Per-CPU lists (rules/per-cpu-lists#shape) and the high-atomic reserve
//! (rules/buddy#highatomic-reserve).

use highwater_core::config::{BoostWake, FreeFactor, HighatomicLimit, Policy};
use highwater_core::host::{CpuId, Cx};
use highwater_core::page::{MigrateType, Order, Pfn};
use highwater_core::page_alloc::{AllocFlags, Gfp, NoRelief};
use highwater_core::trace::Event;
use highwater_core::vmstat::{NumaStat, VmEvent};
use highwater_core::zone::watermark::Marks;
use highwater_core::zone::{NodeId, ZoneFlags};

use crate::common::*;

const USER: Gfp = Gfp::GFP_HIGHUSER_MOVABLE;

#[test]
fn boost_stops_at_its_cap() {
    let mut b = Bench::empty(4096, 4096 + 50 * 512);
    b.zone.add_managed(241_529 - b.zone.managed());
    b.zone.set_marks(&Marks { min: 11_086, low: 13_857, high: 16_628, promo: 19_399 });
    b.zone.set_boost_factor(15_000);
    for i in 1..=50 {
        // One free page in a movable pageblock: the next fallback.
        let pfn = 4096 + 512 * (i - 1);
        b.free(pfn, 0);
        assert_eq!(b.alloc_flags(0, MigrateType::Unmovable, AllocFlags::KSWAPD), Some(pfn));
        let expected = u64::from(i) * 512;
        assert_eq!(b.zone.boost(), expected.min(24_942), "fallback {i}");
    }
    assert!(b.zone.has(ZoneFlags::BOOSTED_WATERMARK));
    b.zone.set_marks(&Marks { min: 177, low: 221, high: 265, promo: 309 });
    assert_eq!(b.zone.boost(), 0, "a rebuild clears the boost");
    for _ in 0..2 {
        b.zone.set_pageblock_type(Pfn(4096), MigrateType::Movable);
        b.free(4096, 0);
        b.alloc(0, MigrateType::Unmovable).unwrap();
        assert_eq!(b.zone.boost(), 512);
    }
}

#[test]
fn six_pageblocks_can_be_reserved() {
    let host = host();
    let m = one_zone(4096, 4096 + 241_529, 1);
    let (alloc, cx) = boot_on(&host, &m, &policy("6.1"));
    let zone = only_zone(&alloc);
    assert_eq!(zone.managed() / 100 + 512, 2927);
    // Below LOW, so that the slow path and its HIGHATOMIC flag decide, but far above MIN.
    fake_free(zone, zone.marks().low);
    let mut reserved = Vec::new();
    for _ in 0..8 * 32 {
        get(&alloc, &cx, Gfp::GFP_ATOMIC, 4);
        fake_free(zone, zone.marks().low);
        reserved.push(zone.nr_reserved_highatomic());
    }
    // Each reserved pageblock serves 32 blocks of order 4 before the next is claimed.
    let expected: Vec<u64> = (0..8 * 32).map(|i| (512 * (i / 32 + 1)).min(3072)).collect();
    assert_eq!(reserved, expected);
}

/// Since 6.8 the reserve ends with the pageblock that reaches its share, a small zone has none, and a
/// block of order 10 brings both its pageblocks.
#[test]
fn the_reserve_ends_at_its_share() {
    let host = host();
    let reserved = |pages: u64, order: u8, nr: u32| {
        let mut policy = policy("6.1");
        policy.highatomic_limit = HighatomicLimit::RoundedUp;
        let (alloc, cx) = boot_on(&host, &one_zone(4096, 4096 + pages, 1), &policy);
        let zone = only_zone(&alloc);
        let step = |_| {
            fake_free(zone, zone.marks().low);
            get(&alloc, &cx, Gfp::GFP_ATOMIC, order);
            zone.nr_reserved_highatomic()
        };
        (0..nr).map(step).collect::<Vec<_>>()
    };
    let expected: Vec<u64> = (0..8 * 32).map(|i| (512 * (i / 32 + 1)).min(2560)).collect();
    assert_eq!(reserved(241_529, 4, 8 * 32), expected);
    assert_eq!(reserved(51_199, 4, 3), [0; 3]);
    assert_eq!(reserved(241_529, 10, 4), [1024, 2048, 3072, 3072]);
}

#[test]
fn refills_of_a_fresh_list() {
    let host = host();
    let (alloc, cx) = boot_on(&host, &one_zone(4096, 4096 + (1 << 18), 1), &policy("6.1"));
    let zone = only_zone(&alloc);
    zone.set_pcp_sizes(63, 6928);
    let expected = [(0, 63, 62), (1, 31, 122), (2, 15, 178), (3, 7, 226), (9, 2, 738)];
    for (order, blocks, count) in expected {
        let locks = zone_locks(&host);
        let first = get(&alloc, &cx, USER, order);
        let trace = events(&host);
        assert_eq!(removed(&trace), blocks, "order {order}");
        assert!(
            trace[..blocks]
                .iter()
                .all(|e| matches!(e, Event::PageAllocZoneLocked { percpu_refill: true, .. }))
        );
        // Address order is kept: the head of the list is the first block taken.
        assert!(matches!(trace[0],
            Event::PageAllocZoneLocked { pfn, .. } if pfn == first));
        assert_eq!(zone_locks(&host) - locks, 1);
        assert_eq!(alloc.pcp_count(zone, CpuId(0), CpuId(0)), count, "order {order}");
    }
    assert_eq!(alloc.events.read(VmEvent::PgallocDma32), 1 + 2 + 4 + 8 + 512);
    assert_eq!(zone.numa_stat(NumaStat::NumaHit), 5, "one per allocation");
    assert_eq!(zone.nr_free_pages_exact() + 738 + 527, 1 << 18);
}

/// Allocates `blocks` on CPU 0, frees them on CPU 1; at which free how many pages were drained.
fn free_only(
    policy: &Policy,
    order: u8,
    blocks: usize,
    high: u32,
    batch: u32,
    reclaim_active: bool,
) -> Vec<(usize, usize)> {
    let host = host();
    let (alloc, cx) = boot_on(&host, &one_zone(4096, 4096 + (1 << 18), 2), policy);
    let zone = only_zone(&alloc);
    zone.set_pcp_sizes(batch, high);
    if reclaim_active {
        zone.set_flag(ZoneFlags::RECLAIM_ACTIVE);
    }
    let pages: Vec<Pfn> = (0..blocks).map(|_| get(&alloc, &cx, USER, order)).collect();
    events(&host);
    let other = Cx::new(&host, CpuId(1));
    let mut overflows = Vec::new();
    for (i, pfn) in pages.into_iter().enumerate() {
        alloc.free(&other, pfn, Order(order)).unwrap();
        match drained(&events(&host)) {
            0 => {}
            n => overflows.push((i + 1, n << order)),
        }
    }
    overflows
}

#[test]
fn free_only_stream() {
    let v61 = policy("6.1");
    let expected = [
        (6928, 63),
        (6991, 126),
        (7117, 252),
        (7369, 504),
        (7873, 1008),
        (8881, 2016),
        (10_897, 2016),
        (12_913, 2016),
    ];
    assert_eq!(free_only(&v61, 0, 13_000, 6928, 63, false), expected);

    let mut uncapped = v61.clone();
    uncapped.pcp.free_factor = FreeFactor::Uncapped;
    let pages: Vec<_> =
        free_only(&uncapped, 0, 28_000, 6928, 63, false).into_iter().map(|(_, n)| n).collect();
    assert_eq!(pages, [63, 126, 252, 504, 1008, 2016, 4032, 6865, 6865]);

    let active = free_only(&v61, 0, 850, 6928, 63, true);
    assert_eq!(active, [(252, 63), (315, 126), (441, 189), (630, 189), (819, 189)]);

    let small: Vec<_> =
        free_only(&v61, 0, 200, 110, 1, false).into_iter().map(|(_, n)| n).collect();
    assert_eq!(small[..7], [1, 2, 4, 8, 16, 32, 32]);

    let huge = free_only(&v61, 9, 17, 6928, 63, false);
    assert_eq!(huge, [(14, 512), (15, 512), (16, 512), (17, 512)]);
}

#[test]
fn list_frees_trace_pages_then_batch_and_hold_the_lock_for_32() {
    let host = host();
    let (alloc, cx) = boot_on(&host, &one_zone(4096, 4096 + (1 << 16), 1), &policy("6.1"));
    let pages: Vec<Pfn> = (0..40).map(|_| get(&alloc, &cx, USER, 0)).collect();
    events(&host);
    let locks = host.takings(highwater_core::sync::order::LockClass::Pcp);
    alloc.free_list(&cx, &pages).unwrap();
    assert_eq!(host.takings(highwater_core::sync::order::LockClass::Pcp) - locks, 2);
    let trace = events(&host);
    let frees = pages.iter().map(|&pfn| Event::PageFree { pfn, order: Order(0) });
    let batch = pages.iter().map(|&pfn| Event::PageFreeBatched { pfn });
    assert_eq!(trace, frees.chain(batch).collect::<Vec<_>>());
    assert_eq!(alloc.events.read(VmEvent::Pgfree), 40);
}

#[test]
fn bad_frees_are_refused_and_change_nothing() {
    use highwater_core::page_alloc::FreeError;
    let host = host();
    let (alloc, cx) = boot_on(&host, &one_zone(4096, 8192, 1), &policy("6.1"));
    let a = get(&alloc, &cx, USER, 2);
    assert_eq!(alloc.free(&cx, a, Order(1)), Err(FreeError::WrongOrder));
    assert_eq!(alloc.free(&cx, Pfn(a.0 + 1), Order(0)), Err(FreeError::NotAllocated));
    assert_eq!(alloc.free(&cx, Pfn(1 << 30), Order(0)), Err(FreeError::NoSuchFrame));
    assert_eq!(alloc.free(&cx, Pfn(5), Order(0)), Err(FreeError::NotAllocated));
    assert_eq!(alloc.free(&cx, a, Order(2)), Ok(()));
    assert_eq!(alloc.free(&cx, a, Order(2)), Err(FreeError::NotAllocated));
    let (b, c) = (get(&alloc, &cx, USER, 0), get(&alloc, &cx, USER, 0));
    assert_eq!(alloc.free_list(&cx, &[b, b, c]), Err(FreeError::NotAllocated));
    assert_eq!(alloc.free(&cx, b, Order(0)), Err(FreeError::NotAllocated), "freed once");
    assert_eq!(alloc.free(&cx, c, Order(0)), Ok(()), "still in use after the error");
}

#[test]
fn a_shared_block_loses_its_tail() {
    // The head has another user, the rest is freed as orders 2, 1, 0 (rules/buddy#shared-tail).
    let host = host();
    let (alloc, cx) = boot_on(&host, &one_zone(4096, 8192, 1), &policy("6.1"));
    let block = get(&alloc, &cx, Gfp::GFP_KERNEL, 3);
    alloc.map.page(block).get_ref();
    events(&host);
    alloc.free(&cx, block, Order(3)).unwrap();
    let frees = |n: u32, order| Event::PageFree { pfn: block.add(n), order: Order(order) };
    assert_eq!(events(&host), [frees(4, 2), frees(2, 1), frees(1, 0)]);
    alloc.free(&cx, block, Order(0)).unwrap();
    assert_eq!(alloc.events.read(VmEvent::Pgfree), 8);

    let compound = get(&alloc, &cx, Gfp::GFP_KERNEL | Gfp::COMP, 3);
    alloc.map.page(compound).get_ref();
    events(&host);
    alloc.free(&cx, compound, Order(3)).unwrap();
    assert_eq!(events(&host), [], "a compound block stays whole");
    alloc.free(&cx, compound, Order(3)).unwrap();
}

#[test]
fn remote_pages_decay_local_ones_stay() {
    // At the third second after a change was folded (rules/per-cpu-lists#decay).
    let host = host();
    let zone = |start| {
        highwater_core::config::ZoneSpec::full(
            highwater_core::zone::ZoneType::Dma32,
            start,
            1 << 16,
        )
    };
    let m = machine(vec![node(&[0], &[zone(4096)]), node(&[1], &[zone(4096 + (1 << 16))])]);
    let (alloc, cx) = boot_on(&host, &m, &policy("6.1"));
    for node in 0..2 {
        // 12 pages: just within the threshold, so that a difference is left to fold.
        let page = alloc.alloc(&cx, &NoRelief, USER, Order(2), NodeId(node), None).unwrap();
        alloc.free(&cx, page, Order(2)).unwrap();
    }
    let zones: Vec<_> = alloc.populated_zones().collect();
    assert_eq!((zones[1].pcp_batch(), zones[1].stats.threshold()), (15, 12));
    let counts = || {
        let count = |z| alloc.pcp_count(z, CpuId(0), CpuId(0));
        (count(zones[0]), count(zones[1]))
    };
    assert_eq!(counts(), (12, 12));
    let mut history = Vec::new();
    for _ in 0..4 {
        alloc.refresh_cpu_stats(&cx);
        history.push(counts().1);
    }
    assert_eq!(history, [12, 12, 0, 0]);
    assert_eq!(counts().0, 12, "a local list keeps its pages");
    alloc.drain_all(&cx, None);
    assert_eq!(counts(), (0, 0));
    assert_eq!(alloc.nr_free_pages(), 2 << 16);
}

#[test]
fn high_orders_in_5_17_count_operations_and_are_no_refills() {
    // pgalloc and pgfree +1 whatever the order (rules/zone-counters#vm-events); percpu_refill only
    // for order 0 (rules/zone-counters#trace-events).
    let host = host();
    let (alloc, cx) = boot_on(&host, &one_zone(4096, 4096 + (1 << 18), 1), &policy("5.17"));
    let page = get(&alloc, &cx, Gfp::GFP_KERNEL, 3);
    assert!(
        events(&host)
            .iter()
            .all(|e| !matches!(e, Event::PageAllocZoneLocked { percpu_refill: true, .. }))
    );
    alloc.free(&cx, page, Order(3)).unwrap();
    assert_eq!(alloc.events.read(VmEvent::PgallocDma32), 1);
    assert_eq!(alloc.events.read(VmEvent::Pgfree), 1);
    get(&alloc, &cx, Gfp::GFP_KERNEL, 4);
    assert_eq!(alloc.events.read(VmEvent::PgallocDma32), 17);
}

#[test]
fn a_boosted_zone_wakes_kswapd_at_the_next_allocation() {
    // rules/allocation#take through a real allocator: the only movable pageblock left is mixed.
    use crate::common::relief::{Call, Fake};
    let host = host();
    let (alloc, cx) = boot_on(&host, &one_zone(4096, 4096 + 4096, 1), &policy("6.1"));
    let zone = only_zone(&alloc);
    zone.set_flag(ZoneFlags::BOOSTED_WATERMARK);
    let relief = Fake::default();
    alloc0(&alloc, &cx, &relief, USER).unwrap();
    assert_eq!(relief.calls(), [Call::Wake(0, 0)]);
    alloc0(&alloc, &cx, &relief, USER).unwrap();
    assert_eq!(relief.calls(), [], "once");

    // From 6.12 on a request that may not wake kswapd leaves it to the next one.
    let mut policy = policy("6.1");
    for boost_wake in [BoostWake::Any, BoostWake::Kswapd] {
        policy.watermark.boost_wake = boost_wake;
        for order in [0, 4] {
            let (alloc, cx) = boot_on(&host, &one_zone(4096, 4096 + 4096, 1), &policy);
            only_zone(&alloc).set_flag(ZoneFlags::BOOSTED_WATERMARK);
            let wakes = |gfp| {
                alloc.alloc(&cx, &relief, gfp, Order(order), NodeId(0), None).unwrap();
                relief.calls().len()
            };
            let expected = if boost_wake == BoostWake::Any { [1, 0] } else { [0, 1] };
            assert_eq!([wakes(USER - Gfp::KSWAPD_RECLAIM), wakes(USER)], expected);
        }
    }
}

#[test]
fn allocating_halves_the_free_factor() {
    // Drains of 63 and 126, then an allocation: 126 again instead of 252
    // (rules/per-cpu-lists#nr-to-free).
    let host = host();
    let (alloc, cx) = boot_on(&host, &one_zone(4096, 4096 + (1 << 18), 2), &policy("6.1"));
    only_zone(&alloc).set_pcp_sizes(63, 6928);
    let pages: Vec<Pfn> = (0..8000).map(|_| get(&alloc, &cx, USER, 0)).collect();
    events(&host);
    let other = Cx::new(&host, CpuId(1));
    let mut drains = Vec::new();
    for pfn in pages {
        alloc.free(&other, pfn, Order(0)).unwrap();
        let nr = drained(&events(&host));
        if nr > 0 {
            drains.push(nr);
        }
        if drains.len() == 2 && nr > 0 {
            get(&alloc, &other, USER, 0);
        }
    }
    assert_eq!(drains[..4], [63, 126, 126, 252]);
}

#[test]
fn drain_all_lets_go_of_the_zone_lock_every_32_batches() {
    let holds = |preset: &str| {
        let host = host();
        let m = one_zone(4096, 4096 + (1 << 18), 2);
        let (alloc, cx) = boot_on(&host, &m, &policy(preset));
        let zone = only_zone(&alloc);
        zone.set_pcp_sizes(63, 6928);
        let pages: Vec<Pfn> = (0..6000).map(|_| get(&alloc, &cx, USER, 0)).collect();
        alloc.drain_all(&cx, None);
        for pfn in pages {
            alloc.free(&cx, pfn, Order(0)).unwrap();
        }
        let locks = zone_locks(&host);
        alloc.drain_all(&cx, None);
        assert_eq!(alloc.nr_free_pages(), 1 << 18);
        zone_locks(&host) - locks
    };
    assert_eq!(holds("6.1"), 3, "2016 + 2016 + 1968 pages");
    assert_eq!(holds("5.17"), 1);
}
