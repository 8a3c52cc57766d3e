//! Request flags: masks (rules/requests#gfp-masks), zones (rules/requests#highest-zone), types
//! (rules/requests#request-type), scopes (rules/requests#scopes).

use highwater_core::config::ZoneSpec;
use highwater_core::host::TaskFlags;
use highwater_core::page::{MigrateType, Order, Pfn};
use highwater_core::page_alloc::{Gfp, NoRelief};
use highwater_core::trace::Event;
use highwater_core::zone::{NodeId, ZoneType};

use crate::common::*;

#[test]
fn composite_masks() {
    let table = [
        (Gfp::GFP_ATOMIC, 0x20 | 0x200 | 0x800),
        (Gfp::GFP_NOWAIT, 0x800),
        (Gfp::GFP_NOIO, 0xc00),
        (Gfp::GFP_NOFS, 0xc40),
        (Gfp::GFP_KERNEL, 0xcc0),
        (Gfp::GFP_USER, 0x10_0cc0),
        (Gfp::GFP_HIGHUSER, 0x10_0cc2),
        (Gfp::GFP_HIGHUSER_MOVABLE, 0x10_0cca),
        (Gfp::GFP_TRANSHUGE_LIGHT, 0x1c_20ca),
        (Gfp::GFP_TRANSHUGE, 0x1c_24ca),
    ];
    for (gfp, bits) in table {
        assert_eq!(gfp.bits(), bits, "{gfp}");
    }
}

#[test]
fn highest_zone_of_every_combination() {
    use ZoneType::{Dma, Dma32, Movable, Normal};
    let expected = [
        Some(Normal),
        Some(Dma),
        Some(Normal),
        None,
        Some(Dma32),
        None,
        None,
        None,
        Some(Normal),
        Some(Dma),
        Some(Movable),
        None,
        Some(Dma32),
        None,
        None,
        None,
    ];
    for (bits, zone) in expected.into_iter().enumerate() {
        assert_eq!(Gfp::from_bits_retain(bits as u32).highest_zone(), zone, "{bits:#x}");
    }
}

#[test]
fn impossible_requests_get_no_page_and_no_event() {
    let host = host();
    let (alloc, cx) = boot_on(&host, &one_zone(4096, 8192, 1), &policy("6.1"));
    let both_types = Gfp::MOVABLE | Gfp::RECLAIMABLE;
    for (gfp, order) in [(Gfp::GFP_KERNEL, 11), (Gfp::DMA | Gfp::DMA32, 0), (both_types, 0)] {
        assert_eq!(alloc.alloc(&cx, &NoRelief, gfp, Order(order), NodeId(0), None), None);
    }
    assert_eq!(events(&host), []);
}

#[test]
fn every_allocation_ends_with_its_event() {
    let host = host();
    let (alloc, cx) = boot_on(&host, &one_zone(4096, 8192, 1), &policy("6.1"));
    let gfp = Gfp::GFP_KERNEL | Gfp::RECLAIMABLE;
    let migratetype = MigrateType::Reclaimable;
    let pfn = Some(get(&alloc, &cx, gfp, 1));
    let order = Order(1);
    let last = events(&host).pop();
    assert_eq!(last, Some(Event::PageAlloc { pfn, order, gfp, migratetype }));
    // Failures too, as pfn -1.
    fake_free(only_zone(&alloc), 0);
    let gfp = Gfp::GFP_NOWAIT;
    assert_eq!(alloc.alloc(&cx, &NoRelief, gfp, order, NodeId(0), None), None);
    let (pfn, migratetype) = (None, MigrateType::Unmovable);
    assert_eq!(events(&host), [Event::PageAlloc { pfn, order, gfp, migratetype }]);
}

#[test]
fn memalloc_scopes_change_the_request() {
    let host = host();
    let (alloc, cx) = boot_on(&host, &one_zone(4096, 8192, 1), &policy("6.1"));
    let traced = |task: TaskFlags| {
        cx.set_flags(task);
        get(&alloc, &cx, Gfp::GFP_HIGHUSER_MOVABLE, 0);
        match events(&host).pop() {
            Some(Event::PageAlloc { gfp, migratetype, .. }) => (gfp, migratetype),
            other => panic!("{other:?}"),
        }
    };
    let (full, movable) = (Gfp::GFP_HIGHUSER_MOVABLE, MigrateType::Movable);
    assert_eq!(traced(TaskFlags::empty()), (full, movable));
    assert_eq!(traced(TaskFlags::NOFS), (full - Gfp::FS, movable));
    let no_io = full - Gfp::IO - Gfp::FS;
    assert_eq!(traced(TaskFlags::NOIO), (no_io, movable));
    assert_eq!(traced(TaskFlags::NOIO | TaskFlags::NOFS), (no_io, movable));
    assert_eq!(traced(TaskFlags::PIN), (full - Gfp::MOVABLE, MigrateType::Unmovable));
}

#[test]
fn movable_zones_serve_movable_requests_only() {
    let host = host();
    let normal = ZoneSpec::full(ZoneType::Normal, 1 << 20, 8192);
    let movable = ZoneSpec::full(ZoneType::Movable, (1 << 20) + 8192, 8192);
    let m = machine(vec![node(&[0], &[normal, movable])]);
    let (alloc, cx) = boot_on(&host, &m, &policy("6.1"));
    let at = |gfp| place(&alloc, get(&alloc, &cx, gfp, 0)).1;
    assert_eq!(at(Gfp::GFP_HIGHUSER_MOVABLE), ZoneType::Movable);
    assert_eq!(at(Gfp::GFP_HIGHUSER), ZoneType::Normal);
    assert_eq!(at(Gfp::GFP_USER | Gfp::MOVABLE), ZoneType::Normal);
    // rules/requests#scopes: a long-term pin must not come from movable memory.
    cx.set_flags(TaskFlags::PIN);
    assert_eq!(at(Gfp::GFP_HIGHUSER_MOVABLE), ZoneType::Normal);
}

#[test]
fn tiny_machines_do_not_group_by_mobility() {
    // rules/zones#grouping: below 512 pages per type everything is unmovable, also in traces.
    let host = host();
    let (alloc, cx) = boot_on(&host, &one_zone(4096, 4096 + 2559, 1), &policy("6.1"));
    assert!(!alloc.grouping());
    get(&alloc, &cx, Gfp::GFP_HIGHUSER_MOVABLE, 0);
    let trace = events(&host);
    let unmovable = MigrateType::Unmovable;
    assert!(matches!(trace[0],
        Event::PageAllocZoneLocked { migratetype, .. } if migratetype == unmovable));
    assert!(matches!(trace.last(),
        Some(Event::PageAlloc { migratetype, .. }) if *migratetype == unmovable));
    assert_eq!(only_zone(&alloc).pageblock_type(Pfn(4096)), unmovable);
    let (alloc, _) = boot_on(&host, &one_zone(4096, 4096 + 2560, 1), &policy("6.1"));
    assert!(alloc.grouping());
    assert_eq!(only_zone(&alloc).pageblock_type(Pfn(4096)), MigrateType::Movable);
}

#[test]
fn pfmemalloc_marks_pages_from_the_reserves() {
    use highwater_core::page::BlockFlags;
    let host = host();
    let (alloc, cx) = boot_on(&host, &one_zone(4096, 8192, 1), &policy("6.1"));
    let page = get(&alloc, &cx, Gfp::GFP_KERNEL, 0);
    assert!(!alloc.map.page(page).has(BlockFlags::PFMEMALLOC));
    cx.set_flags(TaskFlags::MEMALLOC);
    fake_free(only_zone(&alloc), 0);
    let page = get(&alloc, &cx, Gfp::GFP_KERNEL, 0);
    assert!(alloc.map.page(page).has(BlockFlags::PFMEMALLOC));
    assert_eq!(alloc.map.page(page).refcount(), 1);
}
