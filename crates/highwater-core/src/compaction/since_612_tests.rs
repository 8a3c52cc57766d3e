//! Compaction as 6.12 and 7.2 have it (rules/compaction#since-612).

extern crate std;

use std::vec::Vec;

use super::tests::{MOVABLE, PAGES, START, Toy, layout, leave_single_pages, manual};
use super::{Pressure, Suitability};
use crate::config::{
    CompactMoves, CompactionPolicy, IsolatedLimit, Policy, ReadyTest, ScanCount, SuitableMark,
    preset,
};
use crate::host::{CpuId, Solo};
use crate::lru::testing::Stage;
use crate::page::Order;
use crate::page_alloc::{AllocFlags, Gfp};
use crate::units::CompactResult;
use crate::vmstat::{NodeStat, VmEvent};
use crate::zone::watermark::Marks;
use crate::zone::{NodeId, ZoneType};

fn policy(change: impl FnOnce(&mut Policy)) -> Policy {
    let mut policy = preset("6.1").unwrap();
    change(&mut policy);
    policy
}

/// rules/compaction#toy: the 472 frames in five free blocks count too. Frames are used from the
/// smallest block on.
#[test]
fn frames_that_are_jumped_over_count_as_scanned() {
    for (count, moves, scanned, first) in [
        (ScanCount::Looks, CompactMoves::None, 557, [5887, 5886, 5885, 5884]),
        (ScanCount::Frames, CompactMoves::None, 1024, [5887, 5886, 5885, 5884]),
        (ScanCount::Frames, CompactMoves::BelowTarget, 1024, [5732, 5733, 5734, 5735]),
    ] {
        let host = Solo::default();
        let policy = policy(|policy| {
            policy.compaction.scan_count = count;
            policy.folio.compact_moves = moves;
        });
        let toy = Toy::with(&host, &layout(), &policy);
        assert_eq!(toy.run(&mut manual()), CompactResult::Complete);
        assert_eq!([4127, 4126, 4125, 4124].map(|from| toy.moved_to(from)), first);
        let counts = [
            VmEvent::CompactMigrateScanned,
            VmEvent::CompactFreeScanned,
            VmEvent::CompactIsolated,
            VmEvent::PgmigrateSuccess,
            VmEvent::PgmigrateFail,
        ];
        assert_eq!(counts.map(|event| toy.event(event)), [scanned, 512, 964, 412, 1]);
        let still = (START..START + PAGES).filter(|pfn| toy.places.contains_key(pfn));
        assert_eq!(still.filter(|&pfn| pfn < 5120 && toy.moved_to(pfn) < 5120).count(), 140);
    }
}

/// Marks 1024, 1286, 1548; no block of order 9, and memory is not short (rules/compaction#suitability).
#[test]
fn a_costly_order_needs_the_low_mark_above_the_named_one() {
    let host = Solo::default();
    let at = |change: &dyn Fn(&mut CompactionPolicy), order: u8, flags: AllocFlags, free: u64| {
        let s = Stage::policy(&host, |policy| change(&mut policy.compaction));
        let mem = &s.kernel.mem;
        let zone = mem.zone(NodeId(0), ZoneType::Dma32).expect("a zone");
        zone.set_marks(&Marks::default());
        zone.set_lowmem_reserves(&[0; 5]);
        leave_single_pages(&s, zone);
        zone.set_marks(&Marks { min: 1024, low: 1286, high: 1548, promo: 1548 });
        zone.add_free(CpuId(0), free as i64 - zone.nr_free_pages_exact() as i64);
        let suitable = mem.compaction_suitable_for(zone, Order(order), flags, ZoneType::Dma32);
        let ready = s.kernel.has_room_by_cost(zone, Order(order), ZoneType::Dma32);
        (suitable == Suitability::Continue, ready)
    };
    // The first number of free pages at which compaction may run, and at which reclaim is ready.
    let bounds = |change: &dyn Fn(&mut CompactionPolicy), order, flags, free, ready| {
        assert!(!at(change, order, flags, free).0, "order {order} at {free}");
        assert!(at(change, order, flags, free + 1).0, "order {order} above {free}");
        assert!(!at(change, order, flags, ready).1, "order {order} at {ready}");
        assert!(at(change, order, flags, ready + 1).1, "order {order} above {ready}");
    };
    let v72 = |rules: &mut CompactionPolicy| {
        (rules.suitable_mark, rules.gap_max) = (SuitableMark::Named, 32);
        rules.ready = ReadyTest::HighMarkByCost;
    };
    let (none, low) = (AllocFlags::empty(), AllocFlags::MARK_LOW);
    bounds(&v72, 9, none, 1024 + 262 + 32, 1548 + 262 + 32);
    bounds(&v72, 9, low, 1286 + 262 + 32, 1548 + 262 + 32);
    bounds(&v72, 3, none, 1024 + 16, 1548 + 16);
    bounds(&v72, 3, low, 1286 + 16, 1548 + 16);
    bounds(&|_| {}, 9, low, 1286 + 1024, 1548 + 262 + 1024);
}

/// rules/compaction#gap.
#[test]
fn gaps_of_costly_orders_are_small_in_7_2() {
    for (most, gaps) in [(2048, [2, 16, 32, 64, 1024]), (32, [2, 16, 32, 32, 32])] {
        let host = Solo::default();
        let s = Stage::policy(&host, |policy| policy.compaction.gap_max = most);
        let mem = &s.kernel.mem;
        assert_eq!([0, 3, 4, 5, 9].map(|order| mem.gap_to_compact(Order(order))), gaps);
    }
}

/// Inactive 100, active 60 pages: a half is 80, a half of the eighths 12 and 7 is 9
/// (rules/compaction#too-many-isolated).
#[test]
fn runs_that_may_use_filesystems_leave_room_for_others() {
    for (limit, with_fs) in [(IsolatedLimit::Half, 80), (IsolatedLimit::EighthWithFs, 9)] {
        let host = Solo::default();
        let s = Stage::policy(&host, |policy| policy.compaction.isolated_limit = limit);
        let stats = &s.kernel.mem.node(NodeId(0)).stats;
        let add = |item: NodeStat, pages| stats.add(CpuId(0), item as usize, pages);
        add(NodeStat::InactiveFile, 70);
        add(NodeStat::InactiveAnon, 30);
        add(NodeStat::ActiveFile, 20);
        add(NodeStat::ActiveAnon, 40);
        stats.fold(CpuId(0));
        let most = |gfp: Gfp| {
            let mut isolated = 0;
            while !s.kernel.too_many_isolated_to_compact(&s.cx, NodeId(0), gfp) {
                add(NodeStat::IsolatedFile, 1);
                stats.fold(CpuId(0));
                isolated += 1;
            }
            add(NodeStat::IsolatedFile, -isolated);
            stats.fold(CpuId(0));
            isolated - 1
        };
        assert_eq!((most(Gfp::GFP_KERNEL), most(Gfp::GFP_NOFS)), (with_fs, 80), "{limit:?}");
    }
}

/// rules/compaction#large-folios.
#[test]
fn folios_below_the_wanted_order_are_moved() {
    use super::run::{Goal, Run};
    use crate::migrate::Mode;

    let host = Solo::default();
    let toy = Toy::new(&host, &layout());
    let state = toy.kernel.compaction.zone(toy.zone().id());
    let rules = &toy.kernel.mem.policy.compaction;
    let moves = |order: Option<u8>| {
        let goal = Goal::new(order.map(Order), Mode::Sync, ZoneType::Dma32);
        let run = Run::new(toy.zone(), state, goal, rules);
        (1..=10).filter(|&order| run.moves_order(Order(order))).max()
    };
    assert_eq!([Some(9), Some(4), Some(1), None].map(moves), [Some(8), Some(3), None, Some(8)]);
}

/// A movable request for less than a pageblock gets the block that its task frees into a movable
/// pageblock, or looks for it on the lists (rules/buddy#capture).
#[test]
fn a_movable_request_keeps_its_block() {
    for captures in [false, true] {
        let host = Solo::default();
        let policy = policy(|policy| policy.compaction.capture_movable = captures);
        // No block of order 4 is free.
        let free: Vec<_> = (4096..6144).step_by(16).map(|pfn| pfn..pfn + 4).collect();
        let toy = Toy::with(&host, &free, &policy);
        assert_eq!(toy.zone().nr_free_blocks(Order(4)), 0);
        let gfp = MOVABLE | Gfp::COMP;
        let mem = &toy.kernel.mem;
        let zonelist = &mem.zonelists(NodeId(0)).fallback;
        let req = crate::page_alloc::Request {
            gfp,
            order: Order(4),
            highest: ZoneType::Dma32,
            migratetype: crate::page::MigrateType::Movable,
            nodes: None,
            zonelist,
            list_node: NodeId(0),
            preferred: zonelist.next(0, ZoneType::Dma32, None),
            spread_dirty: false,
        };
        let light = crate::page_alloc::CompactPriority::SyncLight;
        let (result, page) = toy.kernel.compact_for(&toy.cx, &req, AllocFlags::empty(), light);
        assert_eq!((result, page.is_some()), (CompactResult::Success, captures));
    }
}
