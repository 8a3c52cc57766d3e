//! The slow path of 4.3 (rules/slow-path#v43) and its fair shares (rules/allocation#fair-zones).

use highwater_core::config::ZoneSpec;
use highwater_core::host::TaskFlags;
use highwater_core::page::{MigrateType, Order, Pfn};
use highwater_core::page_alloc::CompactPriority::{Async, SyncLight};
use highwater_core::page_alloc::{CompactResult, Gfp, NoRelief};
use highwater_core::zone::{NodeId, ZoneType};

use crate::common::relief::{Call, Fake};
use crate::common::*;

const KERNEL: Gfp = Gfp::GFP_KERNEL;

/// Asks a 4.3 machine whose free counter says 0.
fn calls(gfp: Gfp, order: u8, setup: impl FnOnce(&Fake)) -> Vec<Call> {
    calls_of("4.3", gfp, order, setup)
}

fn calls_of(name: &str, gfp: Gfp, order: u8, setup: impl FnOnce(&Fake)) -> Vec<Call> {
    let host = host();
    let (alloc, cx) = boot_on(&host, &one_zone(4096, 4096 + (1 << 16), 1), &policy(name));
    fake_free(only_zone(&alloc), 0);
    let relief = Fake::default();
    setup(&relief);
    assert_eq!(alloc.alloc(&cx, &relief, gfp, Order(order), NodeId(0), None), None);
    relief.hard_calls()
}

#[test]
fn no_progress_means_killing_at_once() {
    assert_eq!(calls(KERNEL, 0, |_| {}), [Call::Reclaim, Call::Kill]);
    let expected = [Call::Compact(Async), Call::Reclaim, Call::Kill, Call::Compact(SyncLight)];
    assert_eq!(calls(KERNEL, 3, |_| {}), expected);
}

#[test]
fn progress_means_another_round() {
    let plan = |r: &Fake| r.plan.borrow_mut().extend([32, 32, 32]);
    assert_eq!(
        calls(KERNEL, 0, plan),
        [Call::Reclaim, Call::Reclaim, Call::Reclaim, Call::Reclaim, Call::Kill]
    );
}

/// In 4.3 a request waits for a device that is behind (rules/throttling#retry-wait).
#[test]
fn a_round_with_progress_waits_if_the_zone_is_congested() {
    let host = host();
    let (alloc, cx) = boot_on(&host, &one_zone(4096, 4096 + (1 << 16), 1), &policy("4.3"));
    fake_free(only_zone(&alloc), 0);
    let relief = Fake::default();
    relief.plan.borrow_mut().extend([32, 32]);
    assert_eq!(alloc.alloc(&cx, &relief, KERNEL, Order(0), NodeId(0), None), None);
    assert_eq!(relief.waits.take(), [(5, true); 2]);
}

#[test]
fn noretry_ends_with_a_last_compaction() {
    let expected = [Call::Compact(Async), Call::Reclaim, Call::Compact(SyncLight)];
    assert_eq!(calls(KERNEL | Gfp::NORETRY, 9, |_| {}), expected);
    assert_eq!(calls(KERNEL | Gfp::NORETRY, 0, |_| {}), [Call::Reclaim]);
}

#[test]
fn costly_requests_never_kill_nor_loop() {
    let expected = [Call::Compact(Async), Call::Reclaim, Call::Compact(SyncLight)];
    assert_eq!(calls(KERNEL, 5, |_| {}), expected);
    assert_eq!(calls(Gfp::GFP_NOFS, 5, |_| {}), [Call::Reclaim], "no compaction without FS");
    assert_eq!(calls(KERNEL, 5, |r| r.reclaimed.set(32)), expected, "also with progress");
}

#[test]
fn repeat_loops_until_as_much_was_reclaimed() {
    let made = calls(KERNEL | Gfp::RETRY_MAYFAIL, 9, |r| r.reclaimed.set(32));
    let reclaims = made.iter().filter(|c| **c == Call::Reclaim).count();
    assert_eq!(reclaims, 512 / 32);
}

/// Nothing counts compactions: whatever they say, there is another round while there is progress, and as much as was
/// asked for is not reclaimed (rules/slow-path#v43).
#[test]
fn compactions_are_not_counted() {
    for name in ["kswapd-inline", "kcompactd"] {
        for result in [CompactResult::Complete, CompactResult::Success] {
            let rounds = |gfp: Gfp, order: u8, reclaims: usize| {
                let made = calls_of(name, gfp, order, |relief| {
                    relief.compaction.set(result);
                    relief.plan.borrow_mut().extend(vec![32; reclaims]);
                });
                let compactions = made.iter().filter(|call| matches!(call, Call::Compact(_)));
                let first = *made.first().expect("it compacts");
                assert_eq!(first, Call::Compact(Async));
                let light = made.iter().filter(|call| **call == Call::Compact(SyncLight)).count();
                assert_eq!(light, compactions.count() - 1, "waits for pages from then on");
                (made.iter().filter(|call| **call == Call::Reclaim).count(), light)
            };
            assert_eq!(rounds(KERNEL | Gfp::RETRY_MAYFAIL, 9, 20), (16, 16));
            assert_eq!(rounds(KERNEL, 2, 20), (21, 21), "a kill ends it");
            assert_eq!(rounds(KERNEL, 9, 20), (1, 1));
        }
    }
}

#[test]
fn huge_pages_give_up_when_compaction_is_deferred() {
    for result in [CompactResult::Deferred, CompactResult::Contended] {
        let made = calls(Gfp::GFP_TRANSHUGE, 9, |r| r.compaction.set(result));
        assert_eq!(made, [Call::Compact(Async)]);
    }
    let made = calls(Gfp::GFP_TRANSHUGE | Gfp::NORETRY, 9, |_| {});
    assert_eq!(made, [Call::Compact(Async), Call::Reclaim, Call::Compact(Async)]);
}

#[test]
fn without_fs_a_kill_is_pretended() {
    let host = host();
    let (alloc, cx) = boot_on(&host, &one_zone(4096, 4096 + (1 << 16), 1), &policy("4.3"));
    fake_free(only_zone(&alloc), 0);
    let relief = Fake::default();
    let left = std::cell::Cell::new(3);
    relief.on_relief(move |alloc| {
        left.set(left.get() - 1);
        if left.get() == 0 {
            fake_free(only_zone(alloc), 10_000);
        }
    });
    assert!(alloc0(&alloc, &cx, &relief, Gfp::GFP_NOFS).is_some());
    assert_eq!(relief.hard_calls(), [Call::Reclaim; 3]);
}

#[test]
fn thisnode_that_cannot_wait_fails_at_once() {
    let host = host();
    let (alloc, cx) = boot_on(&host, &one_zone(4096, 4096 + (1 << 16), 1), &policy("4.3"));
    fake_free(only_zone(&alloc), 0);
    let relief = Fake::default();
    let gfp = Gfp::GFP_NOWAIT | Gfp::THISNODE;
    assert!(alloc0(&alloc, &cx, &relief, gfp).is_none());
    assert_eq!(relief.calls(), [], "not even a wakeup");
}

#[test]
fn victims_use_every_reserve_and_do_not_reclaim() {
    let host = host();
    let (alloc, cx) = boot_on(&host, &one_zone(4096, 4096 + (1 << 16), 1), &policy("4.3"));
    fake_free(only_zone(&alloc), 0);
    let relief = Fake::default();
    cx.set_flags(TaskFlags::OOM_VICTIM);
    assert!(alloc0(&alloc, &cx, &relief, KERNEL).is_some());
    assert_eq!(alloc0(&alloc, &cx, &relief, KERNEL | Gfp::NOMEMALLOC), None);
    assert_eq!(relief.hard_calls(), []);
}

#[test]
fn reserve_pageblocks_are_the_last_fallback() {
    let host = host();
    let (alloc, cx) = boot_on(&host, &one_zone(4096, 4096 + (1 << 16), 1), &policy("4.3"));
    let zone = only_zone(&alloc);
    let reserve: Vec<Pfn> = zone
        .pageblock_samples()
        .filter(|&p| zone.pageblock_type(p) == MigrateType::HighAtomic)
        .collect();
    assert_eq!(reserve.len() as u64, zone.marks().min.div_ceil(512).min(2));
    cx.set_flags(TaskFlags::MEMALLOC);
    let page = || alloc0(&alloc, &cx, &NoRelief, Gfp::GFP_NOWAIT);
    let pages: Vec<Pfn> = std::iter::from_fn(page).collect();
    assert_eq!(pages.len(), 1 << 16);
    // The order-10 blocks that were free at boot moved whole.
    let in_reserve = |p: &Pfn| reserve.iter().any(|r| p.0 & !1023 == r.0 & !1023);
    let first = pages.iter().position(in_reserve).unwrap();
    assert!(pages[first..].iter().all(in_reserve), "everything else went first");
}

#[test]
fn fair_shares_alternate_between_the_zones_of_a_node() {
    let host = host();
    let zone = |kind, at| ZoneSpec::full(kind, at, 1 << 16);
    let zones = [zone(ZoneType::Dma32, 4096), zone(ZoneType::Normal, 1 << 20)];
    let m = machine(vec![node(&[0], &zones)]);
    let count = |preset: &str| {
        let (alloc, cx) = boot_on(&host, &m, &policy(preset));
        let marks = alloc.zone(NodeId(0), ZoneType::Normal).unwrap().marks();
        let share = marks.high - marks.low;
        let mut pages = [0u64; 2];
        for _ in 0..2 * share {
            let page = get(&alloc, &cx, Gfp::GFP_HIGHUSER_MOVABLE, 0);
            pages[usize::from(place(&alloc, page).1 == ZoneType::Normal)] += 1;
        }
        (share, pages)
    };
    let (share, pages) = count("4.3");
    assert_eq!(pages, [share, share], "equal zones age equally");
    let (share, pages) = count("6.1");
    assert_eq!(pages, [0, 2 * share], "later kernels fill the highest zone first");
}
