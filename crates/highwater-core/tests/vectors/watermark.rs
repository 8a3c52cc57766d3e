//! Watermark tests (rules/watermarks#exact-test, rules/watermarks#effective-min).

use highwater_core::config::{HighatomicUnusable, MinReserveRule, WatermarkTest, ZoneSpec};
use highwater_core::host::TaskFlags;
use highwater_core::page::{MigrateType, Order, Pfn};
use highwater_core::page_alloc::{AllocFlags, Gfp, NoRelief};
use highwater_core::zone::watermark::Marks;
use highwater_core::zone::{NodeId, ZoneType};

use crate::common::*;

/// Free pages that a request needs more than, on a 1 GiB guest whose DMA zone is empty.
fn needed(preset: &str, gfp: Gfp, task: TaskFlags) -> u64 {
    let host = host();
    let dma32 = managed_zone(ZoneType::Dma32, 4096, 258_016, 240_000, 241_529);
    let dma = managed_zone(ZoneType::Dma, 1, 4095, 3840, 3840);
    let mut m = machine(vec![node(&[0, 1], &[dma, dma32])]);
    m.tunables.min_free_kbytes = Some(45_056);
    let (alloc, cx) = boot_on(&host, &m, &policy(preset));
    cx.set_flags(task);
    let zone = alloc.zone(NodeId(0), ZoneType::Dma32).unwrap();
    assert_eq!((zone.marks().min, zone.lowmem_reserve(ZoneType::Normal)), (11_086, 0));
    fake_free(alloc.zone(NodeId(0), ZoneType::Dma).unwrap(), 0);
    let served = |free: u64| {
        fake_free(zone, free);
        alloc0(&alloc, &cx, &NoRelief, gfp).is_some()
    };
    let (mut fails, mut passes) = (0, 20_000);
    assert!(served(passes));
    if served(fails) {
        return 0;
    }
    while passes - fails > 1 {
        let middle = (fails + passes) / 2;
        if served(middle) { passes = middle } else { fails = middle }
    }
    fails
}

#[test]
fn free_pages_by_privilege() {
    let task = TaskFlags::empty();
    let victim = TaskFlags::OOM_VICTIM;
    assert_eq!(needed("6.1", Gfp::GFP_KERNEL, task), 11_086);
    assert_eq!(needed("6.1", Gfp::GFP_NOWAIT, task), 11_086);
    assert_eq!(needed("6.1", Gfp::GFP_KERNEL | Gfp::HIGH, task), 5543);
    assert_eq!(needed("6.1", Gfp::GFP_KERNEL, victim), 5543);
    assert_eq!(needed("6.1", Gfp::GFP_ATOMIC, task), 4158);
    assert_eq!(needed("6.1", Gfp::GFP_KERNEL, TaskFlags::REALTIME), 5543);
    assert_eq!(needed("6.1", Gfp::GFP_KERNEL, TaskFlags::MEMALLOC), 0, "no watermarks");
    assert_eq!(needed("6.1", Gfp::GFP_KERNEL | Gfp::NOMEMALLOC, TaskFlags::MEMALLOC), 11_086);
}

#[test]
fn legacy_reserves() {
    let task = TaskFlags::empty();
    assert_eq!(needed("5.17", Gfp::KSWAPD_RECLAIM | Gfp::ATOMIC, task), 8315);
    assert_eq!(needed("5.17", Gfp::GFP_KERNEL, TaskFlags::REALTIME), 8315);
    assert_eq!(needed("5.17", Gfp::GFP_ATOMIC, task), 4158);
    // Seed 004's GFP_NOWAIT|HIGH: 1/2 by the old rules, 3/8 by the new.
    assert_eq!(needed("5.17", Gfp::GFP_NOWAIT | Gfp::HIGH, task), 5543);
    assert_eq!(needed("6.1", Gfp::GFP_NOWAIT | Gfp::HIGH, task), 4158);
}

#[test]
fn lowmem_reserve_counts() {
    let b = Bench::new(4096, 8192);
    b.zone.set_marks(&Marks { min: 177, low: 221, high: 265, promo: 309 });
    b.zone.set_lowmem_reserves(&[0, 943, 943, 943, 943]);
    let rule = (WatermarkTest::FreeBlock, MinReserveRule::NonBlocking);
    let ok = |mark, free| {
        let flags = AllocFlags::empty();
        b.zone.watermark_ok(rule, Order(0), mark, ZoneType::Normal, flags, free)
    };
    let m = b.zone.marks();
    assert_eq!((ok(m.min, 1120), ok(m.min, 1121)), (false, true));
    assert_eq!((ok(m.low, 1164), ok(m.low, 1165)), (false, true));
}

#[test]
fn high_order_tests() {
    let mut b = Bench::empty(4096, 4096 + 32_768);
    let mut at = 4096;
    for (order, blocks) in [(0, 12_000), (1, 500), (2, 100), (3, 20), (4, 5), (5, 2)] {
        for _ in 0..blocks {
            // Every second block, so that none merges.
            let size = 1 << order;
            at = (at + size - 1) & !(size - 1);
            at += at & size;
            b.free(at, order);
            at += size;
        }
    }
    assert_eq!(b.lists(MigrateType::Movable)[..6], [12_000, 500, 100, 20, 5, 2]);
    let free = b.zone.nr_free_pages_exact();
    assert_eq!(free, 13_704);
    let ok = |test, order| {
        let rule = (test, MinReserveRule::Legacy);
        let flags = AllocFlags::empty();
        b.zone.watermark_ok(rule, Order(order), 8000, ZoneType::Normal, flags, free)
    };
    assert!(ok(WatermarkTest::FreeBlock, 3));
    assert!(ok(WatermarkTest::FreeBlock, 5));
    assert!(!ok(WatermarkTest::FreeBlock, 6), "no block is large enough");
    assert!(ok(WatermarkTest::HalvedMarks, 0));
    assert!(!ok(WatermarkTest::HalvedMarks, 3), "13697 - 12000 <= 4000");
}

#[test]
fn blocks_of_the_high_atomic_reserve_are_for_their_own() {
    // rules/watermarks#exact-test takes off what is reserved: here the only block is HIGHATOMIC,
    // and all pages are reserved.
    let host = host();
    let (alloc, cx) = boot_on(&host, &one_zone(4096, 8192, 1), &policy("6.1"));
    let zone = only_zone(&alloc);
    for block in zone.pageblock_samples() {
        alloc.convert_pageblock(&cx, zone, Pfn(block.0 & !511), MigrateType::HighAtomic);
    }
    assert_eq!(zone.nr_reserved_highatomic(), 4096);
    let order1 = |gfp| alloc.alloc(&cx, &NoRelief, gfp, Order(1), NodeId(0), None);
    assert!(alloc0(&alloc, &cx, &NoRelief, Gfp::GFP_NOWAIT | Gfp::NOMEMALLOC).is_none());
    assert!(alloc0(&alloc, &cx, &NoRelief, Gfp::GFP_NOWAIT).is_some(), "the last resort");
    assert!(order1(Gfp::GFP_KERNEL | Gfp::NORETRY).is_none());
    assert!(order1(Gfp::GFP_ATOMIC).is_some());
}

/// With 6.13's rule pages of the reserve that are in use take nothing off: here one pageblock is
/// reserved and in use.
#[test]
fn free_pages_of_the_reserve_are_taken_off_since_6_13() {
    let host = host();
    for (unusable, is_enough) in
        [(HighatomicUnusable::Reserved, false), (HighatomicUnusable::Free, true)]
    {
        let mut policy = policy("6.1");
        policy.watermark.highatomic_unusable = unusable;
        let (alloc, cx) = boot_on(&host, &one_zone(4096, 8192, 1), &policy);
        let zone = only_zone(&alloc);
        let block = alloc.alloc(&cx, &NoRelief, Gfp::GFP_KERNEL, Order(9), NodeId(0), None);
        let used = block.expect("a block");
        alloc.convert_pageblock(&cx, zone, used, MigrateType::HighAtomic);
        assert_eq!((zone.nr_reserved_highatomic(), zone.nr_free_highatomic()), (512, 0));
        fake_free(zone, zone.marks().min + 512);
        let gfp = Gfp::GFP_NOWAIT | Gfp::NOMEMALLOC;
        assert_eq!(alloc0(&alloc, &cx, &NoRelief, gfp).is_some(), is_enough, "{unusable:?}");
    }
}

/// The pageblocks that 4.3 sets aside at boot serve every request in the end, so they count as free
/// whatever the other rule says.
#[test]
fn the_reserve_of_4_3_is_for_all() {
    let host = host();
    for unusable in [HighatomicUnusable::Reserved, HighatomicUnusable::Free] {
        let mut policy = policy("4.3");
        policy.watermark.highatomic_unusable = unusable;
        let (alloc, cx) = boot_on(&host, &one_zone(4096, 8192, 1), &policy);
        let zone = only_zone(&alloc);
        assert_eq!((zone.nr_reserved_highatomic(), zone.nr_free_highatomic()), (0, 1024));
        fake_free(zone, zone.marks().min + 1024);
        let gfp = Gfp::GFP_NOWAIT | Gfp::NOMEMALLOC;
        assert!(alloc0(&alloc, &cx, &NoRelief, gfp).is_some(), "{unusable:?}");
    }
}

#[test]
fn zones_below_their_mark_pass_the_request_on() {
    // The first zone that passes its low mark serves, the preferred one first.
    let host = host();
    let dma32 = ZoneSpec::full(ZoneType::Dma32, 4096, 65_536);
    let normal = ZoneSpec::full(ZoneType::Normal, 1 << 20, 65_536);
    let (alloc, cx) = boot_on(&host, &machine(vec![node(&[0], &[dma32, normal])]), &policy("6.1"));
    let zone = alloc.zone(NodeId(0), ZoneType::Normal).unwrap();
    let page = |gfp| place(&alloc, alloc0(&alloc, &cx, &NoRelief, gfp).unwrap()).1;
    assert_eq!(page(Gfp::GFP_KERNEL), ZoneType::Normal);
    assert_eq!(page(Gfp::GFP_KERNEL | Gfp::DMA32), ZoneType::Dma32);
    fake_free(zone, zone.marks().low + 1);
    assert_eq!(page(Gfp::GFP_KERNEL), ZoneType::Normal);
    fake_free(zone, zone.marks().low);
    assert_eq!(page(Gfp::GFP_KERNEL), ZoneType::Dma32);
}
