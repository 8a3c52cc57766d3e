//! Per-CPU lists that count frees and tune their limit, as 6.12 and 7.2 do
//! (rules/per-cpu-lists#auto).

use highwater_core::config::{
    DrainPortion, DrainType, FreeFactor, HighOrderFree, PcpSizing, Policy, Thp,
};
use highwater_core::host::{CpuId, Cx, Lock};
use highwater_core::page::{MigrateType, Order, Pfn};
use highwater_core::page_alloc::Gfp;
use highwater_core::trace::Event;
use highwater_core::zone::{NodeId, Zone, ZoneFlags, ZoneType};

use super::sizes::guest_1_gib;
use crate::common::*;

const USER: Gfp = Gfp::GFP_HIGHUSER_MOVABLE;
/// The limits of the reference guest's DMA32: `(high_min, high_max)`.
const GUEST: (u32, u32) = (6928, 15_095);
const BATCH: u32 = 63;

fn v6_12() -> Policy {
    let mut policy = policy("6.1");
    policy.pcp.sizing = PcpSizing::Auto;
    policy.pcp.free_factor = FreeFactor::FreeCount;
    policy.pcp.high_order_free = HighOrderFree::LimitedBatch;
    policy.pcp.drain_type = DrainType::Pageblock;
    policy
}

fn v7_2() -> Policy {
    let mut policy = v6_12();
    policy.pcp.high_order_free = HighOrderFree::LimitedHalfMin;
    policy.pcp.drain_portion = DrainPortion::Batch;
    policy.pcp.highatomic_refills = false;
    policy
}

/// A machine with one zone of 2^18 pages, whose lists have these limits.
fn boot_with<'h>(
    host: &'h Host,
    policy: &Policy,
    (high_min, high_max): (u32, u32),
) -> (Alloc, Cx<'h, Host>) {
    let (alloc, cx) = boot_on(host, &one_zone(4096, 4096 + (1 << 18), 2), policy);
    only_zone(&alloc).set_pcp_range(BATCH, high_min, high_max);
    (alloc, cx)
}

/// The limit that CPU 0 tuned.
fn high(zone: &Zone<Host>) -> u32 {
    zone.cpus[0].pcp.lock(CpuId(0)).high()
}

fn count(zone: &Zone<Host>) -> u32 {
    zone.cpus[0].pcp.lock(CpuId(0)).count()
}

#[test]
fn limits_of_the_guest() {
    let host = host();
    let limits = |policy: &Policy, fraction: u64| {
        let mut guest = guest_1_gib(240_000, Thp::Always);
        guest.tunables.percpu_pagelist_high_fraction = fraction;
        let (alloc, _) = boot_on(&host, &guest, policy);
        let zone = alloc.zone(NodeId(0), ZoneType::Dma32).unwrap();
        // As a sysctl does: boot computed them before it released the last 1529 pages.
        alloc.resize_pcp(zone);
        (zone.pcp_batch(), zone.pcp_high(), zone.pcp_high_max())
    };
    assert_eq!(limits(&v6_12(), 0), (63, 6928, 15_095));
    assert_eq!(limits(&v6_12(), 16), (63, 7547, 7547), "a fraction is the limit");
    assert_eq!(limits(&policy("6.1"), 0), (63, 6928, 6928));
}

/// Takes the pages of some refills, each with an empty list: blocks of the refill, limit after it.
fn refills(policy: &Policy, limits: (u32, u32), nr: usize) -> Vec<(usize, u32)> {
    let host = host();
    let (alloc, cx) = boot_with(&host, policy, limits);
    let zone = only_zone(&alloc);
    let refill = |_| {
        assert_eq!(count(zone), 0);
        get(&alloc, &cx, USER, 0);
        let blocks = removed(&events(&host));
        (1..blocks).for_each(|_| _ = get(&alloc, &cx, USER, 0));
        (blocks, high(zone))
    };
    (0..nr).map(refill).collect()
}

#[test]
fn refills_double_for_a_cpu_that_only_allocates() {
    for policy in [v6_12(), v7_2()] {
        let (blocks, highs): (Vec<_>, Vec<_>) = refills(&policy, GUEST, 9).into_iter().unzip();
        assert_eq!(blocks, [63, 126, 252, 504, 1008, 2016, 2016, 2016, 2016]);
        let expected = [6991, 7117, 7369, 7873, 8881, 10_897, 12_913, 14_929, 15_095];
        assert_eq!(highs, expected);
        let (blocks, highs): (Vec<_>, Vec<_>) = refills(&policy, (252, 600), 6).into_iter().unzip();
        assert_eq!(blocks, [63, 126, 252, 504, 537, 537], "the limit leaves room for no more");
        assert_eq!(highs, [315, 441, 600, 600, 600, 600]);
    }
    let fixed: Vec<_> = refills(&v6_12(), (6928, 6928), 3);
    assert_eq!(fixed, [(63, 6928), (126, 6928), (252, 6928)], "a limit that is not tuned");
}

#[test]
fn a_free_halves_the_next_refill() {
    let host = host();
    let (alloc, cx) = boot_with(&host, &v6_12(), GUEST);
    let pages: Vec<Pfn> = (0..63 + 126).map(|_| get(&alloc, &cx, USER, 0)).collect();
    alloc.free(&cx, pages[0], Order(0)).unwrap();
    get(&alloc, &cx, USER, 0);
    events(&host);
    get(&alloc, &cx, USER, 0);
    assert_eq!(removed(&events(&host)), 126, "252 without the free");
}

#[test]
fn a_refill_of_high_orders_is_one_batch() {
    let host = host();
    let (alloc, cx) = boot_with(&host, &v6_12(), GUEST);
    for blocks in [7, 7] {
        get(&alloc, &cx, USER, 3);
        assert_eq!(removed(&events(&host)), blocks);
        (1..blocks).for_each(|_| _ = get(&alloc, &cx, USER, 3));
    }
    assert_eq!(high(only_zone(&alloc)), 6928 + 2 * 63);
}

/// How a CPU is that only frees blocks of another one.
#[derive(Clone, Copy, Default)]
struct Freeing {
    order: u8,
    blocks: usize,
    limits: (u32, u32),
    is_reclaimed: bool,
    cache_slice_bytes: u64,
}

/// Which frees drain, and how many pages.
fn drains(policy: &Policy, freeing: Freeing) -> Vec<(usize, usize)> {
    let host = host();
    host.set_cache_slice_bytes(freeing.cache_slice_bytes);
    let (alloc, cx) = boot_with(&host, policy, freeing.limits);
    if freeing.is_reclaimed {
        only_zone(&alloc).set_flag(ZoneFlags::RECLAIM_ACTIVE);
    }
    let order = freeing.order;
    let pages: Vec<Pfn> = (0..freeing.blocks).map(|_| get(&alloc, &cx, USER, order)).collect();
    events(&host);
    let other = Cx::new(&host, CpuId(1));
    let mut drains = Vec::new();
    for (i, pfn) in pages.into_iter().enumerate() {
        alloc.free(&other, pfn, Order(order)).unwrap();
        match drained(&events(&host)) {
            0 => {}
            n => drains.push((i + 1, n << order)),
        }
    }
    drains
}

#[test]
fn single_pages_are_drained_as_many_as_were_freed() {
    let stream = Freeing { blocks: 13_000, limits: GUEST, ..Freeing::default() };
    for policy in [v6_12(), v7_2()] {
        let expected = [(6928, 2016), (8944, 2016), (10_960, 2016), (12_976, 2016)];
        assert_eq!(drains(&policy, stream), expected);
        let active = Freeing { is_reclaimed: true, blocks: 700, ..stream };
        assert_eq!(drains(&policy, active), [(252, 189), (441, 189), (630, 189)]);
    }
}

#[test]
fn high_orders_go_back_once_a_batch_was_freed() {
    let stream = Freeing { order: 3, blocks: 26, limits: GUEST, ..Freeing::default() };
    let every: Vec<_> = (10..=26).map(|n| (n, 8)).collect();
    assert_eq!(drains(&v6_12(), stream), [vec![(9, 72)], every].concat());
    let big = Freeing { cache_slice_bytes: 1 << 20, ..stream };
    assert_eq!(drains(&v6_12(), big), [(9, 72), (17, 64), (25, 64)]);
    // Three batches are 756 KiB, and that is not enough.
    let just_not = Freeing { cache_slice_bytes: 756 << 10, ..stream };
    assert_eq!(drains(&v6_12(), just_not), drains(&v6_12(), stream));
}

#[test]
fn high_orders_of_7_2_wait_for_half_of_the_least_limit() {
    let stream = Freeing { order: 3, blocks: 1400, limits: GUEST, ..Freeing::default() };
    let expected = [(866, 2016), (1118, 2016), (1370, 2016)];
    assert_eq!(drains(&v7_2(), stream), expected, "never early");
    let small = Freeing { blocks: 110, limits: (1342, 4000), ..stream };
    let every: Vec<_> = (94..=110).map(|n| (n, 8)).collect();
    assert_eq!(drains(&v7_2(), small), [vec![(93, 744)], every].concat());
    let big = Freeing { cache_slice_bytes: 1 << 20, ..small };
    assert_eq!(drains(&v7_2(), big), [(93, 744), (101, 64), (109, 64)]);
}

#[test]
fn a_single_page_in_between_ends_a_stream_of_high_orders() {
    let host = host();
    let (alloc, cx) = boot_with(&host, &v6_12(), GUEST);
    let other = Cx::new(&host, CpuId(1));
    let blocks: Vec<Pfn> = (0..20).map(|_| get(&alloc, &cx, USER, 3)).collect();
    let single = get(&alloc, &cx, USER, 0);
    events(&host);
    let free = |pfn, order| {
        alloc.free(&other, pfn, Order(order)).unwrap();
        drained(&events(&host))
    };
    let first: usize = blocks[..8].iter().map(|&pfn| free(pfn, 3)).sum();
    assert_eq!(first, 0);
    assert_eq!(free(single, 0), 0);
    assert_eq!(free(blocks[8], 3), 0, "the free before was of order 0");
    assert_eq!(free(blocks[9], 3), 11, "all of them");
}

#[test]
fn a_limit_that_was_used_decays_in_seconds() {
    let host = host();
    let (alloc, cx) = boot_with(&host, &v6_12(), GUEST);
    let zone = only_zone(&alloc);
    let nr: usize = 63 * (1 + 2 + 4 + 8 + 16) + 4 * 2016;
    let mut pages: Vec<Pfn> = (0..nr).map(|_| get(&alloc, &cx, USER, 0)).collect();
    // Other pages, that the CPU does not keep.
    let other = Cx::new(&host, CpuId(1));
    pages.extend((0..15_000 - nr as u32).map(|_| get(&alloc, &other, USER, 0)));
    assert_eq!((high(zone), count(zone)), (15_095, 0));
    for pfn in pages {
        alloc.free(&cx, pfn, Order(0)).unwrap();
    }
    assert_eq!((high(zone), count(zone)), (15_095, 15_000));
    let second = || {
        events(&host);
        let locks = zone_locks(&host);
        let is_busy = alloc.refresh_cpu_stats(&cx);
        (high(zone), drained(&events(&host)), zone_locks(&host) - locks, is_busy)
    };
    // A batch under each hold of the zone lock.
    let expected = [
        (13_209, 1791, 29, true),
        (11_558, 1651, 27, true),
        (10_114, 1444, 23, true),
        (8850, 1264, 21, true),
        (7744, 1106, 18, true),
        (6928, 816, 13, true),
    ];
    for expected in expected {
        assert_eq!(second(), expected);
    }
    let (high, drained, ..) = second();
    assert_eq!((high, drained), (6928, 0));
    assert_eq!(second(), (6928, 0, 0, false), "nothing left to do");
}

#[test]
fn lists_do_not_grow_while_the_zone_is_low() {
    let host = host();
    let (alloc, cx) = boot_with(&host, &v6_12(), (252, 600));
    let zone = only_zone(&alloc);
    let is_low = || zone.has(ZoneFlags::BELOW_HIGH);
    let pages: Vec<Pfn> = (0..400).map(|_| get(&alloc, &cx, USER, 0)).collect();
    assert_eq!((high(zone), is_low()), (600, false));
    let (marks, plenty) = (zone.marks(), zone.nr_free_pages());
    fake_free(zone, marks.high + 1);
    get(&alloc, &cx, USER, 0);
    assert!(!is_low(), "above its high mark");
    fake_free(zone, marks.high);
    get(&alloc, &cx, USER, 0);
    assert!(is_low(), "at it; above the low one, so the request gets its page");
    // Frees lower the limit by what was freed lately, a batch at least.
    alloc.free(&cx, pages[0], Order(0)).unwrap();
    assert_eq!(high(zone), 600 - 63);
    fake_free(zone, plenty);
    let mut at = 1;
    while is_low() {
        events(&host);
        alloc.free(&cx, pages[at], Order(0)).unwrap();
        at += 1;
        let found = drained(&events(&host)) > 0;
        assert_eq!(found, !is_low(), "only a drain looks again");
    }
    assert_eq!(high(zone), 252);
}

#[test]
fn drains_of_7_2_let_go_of_the_zone_lock_each_batch() {
    let holds = |policy: &Policy| {
        let host = host();
        let (alloc, cx) = boot_with(&host, policy, GUEST);
        let pages: Vec<Pfn> = (0..6928).map(|_| get(&alloc, &cx, USER, 0)).collect();
        let other = Cx::new(&host, CpuId(1));
        let locks = zone_locks(&host);
        pages.into_iter().for_each(|pfn| alloc.free(&other, pfn, Order(0)).unwrap());
        zone_locks(&host) - locks
    };
    assert_eq!((holds(&v6_12()), holds(&v7_2())), (1, 32), "2016 pages");
}

#[test]
fn drained_blocks_take_the_type_of_their_pageblock() {
    for (policy, expected) in
        [(policy("6.1"), MigrateType::Movable), (v6_12(), MigrateType::Unmovable)]
    {
        let host = host();
        let (alloc, cx) = boot_with(&host, &policy, GUEST);
        let zone = only_zone(&alloc);
        let page = get(&alloc, &cx, USER, 0);
        alloc.free(&cx, page, Order(0)).unwrap();
        zone.set_pageblock_type(page, MigrateType::Unmovable);
        events(&host);
        alloc.drain_cpu(&cx, zone, CpuId(0));
        let of_page = events(&host).into_iter().find_map(|event| match event {
            Event::PagePcpuDrain { pfn, migratetype, .. } if pfn == page => Some(migratetype),
            _ => None,
        });
        assert_eq!(of_page, Some(expected));
    }
}

#[test]
fn a_high_atomic_request_of_7_2_refills_no_list() {
    let blocks = |policy: &Policy| {
        let host = host();
        let (alloc, cx) = boot_with(&host, policy, GUEST);
        let zone = only_zone(&alloc);
        // Below LOW, so that the slow path and its HIGHATOMIC flag decide.
        fake_free(zone, zone.marks().low);
        get(&alloc, &cx, Gfp::GFP_ATOMIC, 2);
        (removed(&events(&host)), count(zone), zone.nr_reserved_highatomic())
    };
    assert_eq!(blocks(&v6_12()), (15, 14 * 4, 512));
    assert_eq!(blocks(&v7_2()), (1, 0, 512));
    // Not even where a refill that finds nothing is final.
    let mut strict = v7_2();
    strict.pcp.refill_falls_back = false;
    assert_eq!(blocks(&strict), (1, 0, 512));
}

#[test]
fn a_block_from_a_list_makes_no_reserve_in_7_2() {
    let reserved = |policy: &Policy| {
        let host = host();
        let (alloc, cx) = boot_with(&host, policy, GUEST);
        let zone = only_zone(&alloc);
        get(&alloc, &cx, Gfp::GFP_KERNEL, 2);
        fake_free(zone, zone.marks().low);
        events(&host);
        get(&alloc, &cx, Gfp::GFP_ATOMIC, 2);
        assert_eq!(removed(&events(&host)), 0, "it is on the list");
        zone.nr_reserved_highatomic()
    };
    assert_eq!((reserved(&v6_12()), reserved(&v7_2())), (512, 0));
}

#[test]
fn counting_and_tuning_work_apart() {
    let stream = Freeing { blocks: 9000, limits: (6928, 6928), ..Freeing::default() };
    let mut counts = policy("6.1");
    counts.pcp.free_factor = FreeFactor::FreeCount;
    assert_eq!(drains(&counts, stream), [(6928, 2016), (8944, 2016)]);
    let mut tunes = policy("6.1");
    tunes.pcp.sizing = PcpSizing::Auto;
    assert_eq!(drains(&tunes, stream), drains(&policy("6.1"), stream), "a fixed limit");
    let blocks = Freeing { order: 3, blocks: 880, ..stream };
    let mut limits = policy("6.1");
    limits.pcp.high_order_free = HighOrderFree::LimitedBatch;
    assert_eq!(drains(&limits, blocks)[..3], [(866, 64), (867, 2016), (868, 2016)]);
}
