//! Compaction as 4.5 has it, on the toy zone of [`super::tests`].

extern crate std;

use std::vec::Vec;

use super::Suitability;
use super::run::{Contention, Goal, Run};
use super::tests::{MOVABLE, PAGES, START, Toy, layout, leave_single_pages};
use crate::config::{
    AsyncContended, FlushRequest, FlushRule, Kcompactd, KcompactdSkip, Policy, RestartFlush,
    SpareMark, SuitableMark, preset,
};
use crate::host::{CpuId, Lock, Solo};
use crate::lru::testing::Stage;
use crate::migrate::{Frames, Mode};
use crate::page::{MigrateType, Order, Pfn};
use crate::page_alloc::{AllocFlags, CompactPriority, Gfp, Relief, Request};
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::CompactResult;
use crate::vmstat::VmEvent;
use crate::zone::watermark::Marks;
use crate::zone::{NodeId, ZoneType};

fn of(name: &str) -> Policy {
    preset(name).expect(name)
}

fn before() -> Policy {
    of("kswapd-inline")
}

fn order_9(mode: Mode) -> Goal {
    Goal::new(Some(Order(9)), mode, ZoneType::Dma32)
}

/// rules/compaction#toy, the column of 4.5.
#[test]
fn a_manual_run_moves_the_same_in_clusters() {
    let host = Solo::default();
    let toy = Toy::with(&host, &layout(), &before());
    let zone = toy.zone();
    let state = toy.kernel.compaction.zone(zone.id());
    toy.kernel.flush_skip_bits(&toy.cx, zone);
    let goal = Goal::new(None, Mode::Sync, ZoneType::Device);
    let mut run = Run::new(zone, state, goal, &toy.kernel.mem.policy.compaction);
    run.begin();
    assert_eq!((run.migrate_pfn, run.free_pfn), (4096, 5632));
    let result = toy.kernel.scan_and_move(&toy.cx, &mut run);
    assert_eq!((run.migrate_pfn, run.free_pfn), (4992, 4608), "where the scanners met");
    toy.kernel.end_run(&toy.cx, &mut run);
    assert_eq!(result, CompactResult::Complete);
    let counts = [
        VmEvent::CompactMigrateScanned,
        VmEvent::CompactFreeScanned,
        VmEvent::CompactIsolated,
        VmEvent::PgmigrateSuccess,
    ];
    assert_eq!(counts.map(|event| toy.event(event)), [429, 512, 836, 412]);
    toy.kernel.lru_add_drain_all(&toy.cx);
    let still = (START..START + PAGES).filter(|pfn| toy.places.contains_key(pfn));
    assert_eq!(still.filter(|&pfn| pfn < 5120 && toy.moved_to(pfn) < 5120).count(), 140);
}

/// A write to `compact_memory` goes through the public function.
#[test]
fn by_hand_the_zone_is_flushed_first() {
    let host = Solo::default();
    let toy = Toy::with(&host, &layout(), &before());
    let zone = toy.zone();
    (START..START + PAGES).step_by(512).for_each(|pfn| zone.set_pageblock_skip(Pfn(pfn), true));
    toy.kernel.compact_node(&toy.cx, NodeId(0));
    assert_eq!(toy.event(VmEvent::PgmigrateSuccess), 412);
}

/// A visit that finds nothing: skipped from now on, and the position is where the visit began, of runs that wait
/// for nothing only their own (rules/compaction#plain).
#[test]
fn positions_and_skip_bits_follow_empty_visits() {
    let host = Solo::default();
    // The first pageblock is free, in pieces of which none is a block.
    let toy = Toy::with(&host, &[4096..4607, 5120..5400], &before());
    let zone = toy.zone();
    let state = toy.kernel.compaction.zone(zone.id());
    let cached = || [0, 1].map(|slot: usize| state.cached_migrate[slot].load(Relaxed));
    let rules = &toy.kernel.mem.policy.compaction;
    let visit = |goal: Goal, from: u32| {
        let mut run = Run::new(zone, state, goal, rules);
        run.begin();
        run.migrate_pfn = from;
        let found = toy.kernel.isolate_sources(&toy.cx, &mut run);
        let taken = run.sources.len();
        toy.kernel.putback_sources(&toy.cx, &mut run);
        (found, taken, run.migrate_pfn)
    };
    // One page at its end.
    let (_, taken, at) = visit(order_9(Mode::Async), 4096);
    assert_eq!((taken, at), (1, 4608));
    assert!(!zone.pageblock_skip(Pfn(4096)), "it found something");
    assert_eq!(cached(), [4096, 4096]);
    let (_, taken, at) = visit(order_9(Mode::Async), 5000);
    assert_eq!((taken, at), (32, 5032), "32 and no more, however often it comes");
    let (_, taken, at) = visit(order_9(Mode::Async), 5032);
    assert_eq!((taken, at), (32, 5064));
    // Of a pageblock with nothing in it the position becomes its first frame; with ignored bits nothing is noted.
    let ignores = Goal { ignore_skip: true, ..order_9(Mode::SyncLight) };
    let (_, taken, at) = visit(ignores, 4097);
    assert_eq!((taken, at), (1, 4608));
    toy.kernel.mem.map.page(Pfn(4607)).get::<Solo>(1);
    assert_eq!(visit(ignores, 4096).1, 0, "pinned: it stays");
    assert!(!zone.pageblock_skip(Pfn(4096)) && cached() == [4096, 4096]);
    state.cached_migrate[0].store(4000, Relaxed);
    state.cached_migrate[1].store(4000, Relaxed);
    let mut run = Run::new(zone, state, order_9(Mode::Async), rules);
    (run.migrate_pfn, run.free_pfn) = (4096, 5632);
    toy.kernel.isolate_sources(&toy.cx, &mut run);
    assert!(zone.pageblock_skip(Pfn(4096)));
    assert_eq!(cached(), [4096, 4000], "asynchronous: its own");
    toy.kernel.putback_sources(&toy.cx, &mut run);
    zone.set_pageblock_skip(Pfn(4096), false);
    let mut run = Run::new(zone, state, order_9(Mode::SyncLight), rules);
    (run.migrate_pfn, run.free_pfn) = (4096, 5632);
    toy.kernel.isolate_sources(&toy.cx, &mut run);
    assert_eq!(cached(), [4096, 4096], "others: both");
    toy.kernel.putback_sources(&toy.cx, &mut run);
    toy.kernel.put_page(&toy.cx, crate::page::Folio::page(Pfn(4607)));
}

/// Scanners that meet request a flush; study 004 changed which runs do.
#[test]
fn who_asks_for_a_flush() {
    for (request, by_kswapd, direct, asks) in [
        (FlushRequest::UnlessKswapd, false, false, true),
        (FlushRequest::UnlessKswapd, false, true, true),
        (FlushRequest::UnlessKswapd, true, false, false),
        (FlushRequest::Request, false, false, false),
        (FlushRequest::Request, false, true, true),
        (FlushRequest::Request, true, false, false),
    ] {
        let host = Solo::default();
        let mut policy = before();
        policy.compaction.flush_request = request;
        let toy = Toy::with(&host, &layout(), &policy);
        let mut goal = Goal { by_kswapd, direct, ..Goal::new(None, Mode::Sync, ZoneType::Device) };
        assert_eq!(toy.run(&mut goal), CompactResult::Complete);
        let state = toy.kernel.compaction.zone(toy.zone().id());
        assert_eq!(state.flush_pending.load(Relaxed), asks, "{request:?} {by_kswapd} {direct}");
        // kswapd goes to sleep.
        toy.zone().set_pageblock_skip(Pfn(4608), true);
        toy.kernel.reset_compaction(&toy.cx, NodeId(0));
        assert_eq!(toy.zone().pageblock_skip(Pfn(4608)), !asks);
        assert!(!state.flush_pending.load(Relaxed));
    }
}

/// After requests were put off for as long as they ever are a run forgets the zone; kswapd's own does so only after
/// the change.
#[test]
fn who_flushes_after_a_cycle_of_refusals() {
    for (rule, by_kswapd, flushes) in [
        (RestartFlush::UnlessKswapd, true, false),
        (RestartFlush::UnlessKswapd, false, true),
        (RestartFlush::Anyone, true, true),
    ] {
        let host = Solo::default();
        let mut policy = before();
        policy.compaction.restart_flush = rule;
        let toy = Toy::with(&host, &[4136..4608, 4700..5100, 5640..5900], &policy);
        let state = toy.kernel.compaction.zone(toy.zone().id());
        for _ in 0..7 {
            while state.deferral.refuses(Order(9)) {}
            state.deferral.failed(Order(9));
        }
        while state.deferral.refuses(Order(9)) {}
        assert!(state.deferral.is_over(Order(9)));
        // A pageblock that no run looks at for this.
        toy.zone().set_pageblock_skip(Pfn(5120), true);
        toy.run(&mut Goal { by_kswapd, ..order_9(Mode::SyncLight) });
        assert_eq!(toy.zone().pageblock_skip(Pfn(5120)), !flushes, "{rule:?} {by_kswapd}");
    }
}

/// 4.5's run ends only when the low mark allows the order too, and success is judged by the same
/// rule afterwards.
#[test]
fn a_block_below_the_low_mark_is_none() {
    let host = Solo::default();
    let toy = Toy::with(&host, &[4136..4608, 4700..5100, 5640..5900], &before());
    let (kernel, zone) = (&toy.kernel, toy.zone());
    let free = zone.nr_free_pages();
    // Enough for compaction, not for the order after it: 512 more would have to be free.
    zone.set_marks(&Marks { min: 0, low: free - 1024 - 1, high: free, promo: free });
    let mut goal = order_9(Mode::SyncLight);
    goal.migratetype = MigrateType::Movable;
    assert_eq!(toy.run(&mut goal), CompactResult::Success);
    assert!(kernel.brought_block(zone, &goal, CompactResult::Complete), "whatever the status");
    assert!(zone.nr_free_blocks(Order(9)) != 0);
    let free = zone.nr_free_pages();
    zone.set_marks(&Marks { min: 0, low: free - 511, high: free, promo: free });
    assert!(!kernel.brought_block(zone, &goal, CompactResult::Success));
    let suitable = kernel.mem.compaction_suitable(zone, Order(9), ZoneType::Dma32);
    assert_eq!(suitable, Suitability::Skipped);
}

/// Marks 1024, 1286, 1548 (rules/compaction#suitability).
#[test]
fn suitability_by_the_low_mark() {
    let host = Solo::default();
    let suitable = |rule: SuitableMark, order: u8, free: u64, flags: AllocFlags, block: bool| {
        let s = Stage::policy(&host, |policy| {
            policy.compaction.suitable_mark = rule;
            if rule == SuitableMark::Low {
                policy.compaction.index_orders = before().compaction.index_orders;
            }
        });
        let mem = &s.kernel.mem;
        let zone = mem.zone(NodeId(0), ZoneType::Dma32).expect("a zone");
        zone.set_marks(&Marks::default());
        zone.set_lowmem_reserves(&[0; 5]);
        if !block {
            leave_single_pages(&s, zone);
        }
        zone.set_marks(&Marks { min: 1024, low: 1286, high: 1548, promo: 1548 });
        zone.add_free(CpuId(0), free as i64 - zone.nr_free_pages_exact() as i64);
        mem.compaction_suitable_for(zone, Order(order), flags, ZoneType::Dma32)
    };
    let none = AllocFlags::empty();
    use SuitableMark::{ByCost, Low};
    for rule in [Low, ByCost] {
        assert_eq!(suitable(rule, 9, 2310, none, false), Suitability::Skipped);
        assert_eq!(suitable(rule, 9, 2311, none, false), Suitability::Continue);
    }
    assert_eq!(suitable(ByCost, 9, 1535, none, true), Suitability::Skipped);
    assert_eq!(suitable(ByCost, 9, 1536, none, true), Suitability::Success);
    assert_eq!(suitable(Low, 9, 1797, none, true), Suitability::Skipped);
    assert_eq!(suitable(Low, 9, 1798, none, true), Suitability::Success);
    assert_eq!(suitable(ByCost, 3, 1040, none, false), Suitability::Skipped);
    assert_eq!(suitable(ByCost, 3, 1041, none, false), Suitability::Continue);
    assert_eq!(suitable(Low, 3, 1302, none, false), Suitability::Skipped);
    assert_eq!(suitable(Low, 3, 1303, none, false), Suitability::Continue);
    // For a request of high priority the mark is half, and so is the room: (1286 + 1024) / 2.
    assert_eq!(suitable(Low, 9, 1155, AllocFlags::MIN_RESERVE, false), Suitability::Skipped);
    assert_eq!(suitable(Low, 9, 1156, AllocFlags::MIN_RESERVE, false), Suitability::Continue);
}

/// A block that the zone cannot spare: the next frame, and the pageblock is done with; or its end.
#[test]
fn what_cannot_be_spared_does_not_end_a_pageblock() {
    for (spare, scanned, skips) in
        [(SpareMark::LowGoesOn, 512, true), (SpareMark::MinEnds, 413, false)]
    {
        let host = Solo::default();
        let mut policy = before();
        policy.compaction.spare = spare;
        let toy = Toy::with(&host, &[4136..4608, 5120..5632, 6044..6144], &policy);
        let zone = toy.zone();
        let free = zone.nr_free_pages_exact();
        zone.set_marks(&Marks { min: free, low: free, high: free, promo: free });
        let state = toy.kernel.compaction.zone(zone.id());
        let goal = order_9(Mode::SyncLight);
        let mut run = Run::new(zone, state, goal, &toy.kernel.mem.policy.compaction);
        run.begin();
        let mut targets = Frames::default();
        let range = (5632, 6144);
        let taken = toy.kernel.take_free(&toy.cx, &mut run, range, (1, 32), &mut targets);
        assert_eq!((taken.nr, taken.is_refused), (0, !skips));
        assert_eq!((run.free_scanned, taken.at == 6144), (scanned, skips), "{spare:?}");
        run.free_scanned = 0;
        toy.kernel.isolate_targets(&toy.cx, &mut run, 32, &mut targets);
        assert_eq!(zone.pageblock_skip(Pfn(5632)), skips);
        assert!(targets.is_empty());
    }
}

/// A lock in the way of a run that waits for nothing (rules/compaction#contended).
#[test]
fn a_lock_that_others_hold_ends_a_run_or_its_pageblock() {
    let host = Solo::default();
    let mut policy = before();
    for (contended, taken) in [(AsyncContended::Aborts, 0), (AsyncContended::EndsWithBlock, 1)] {
        policy.compaction.contended = contended;
        let toy = Toy::with(&host, &layout(), &policy);
        let zone = toy.zone();
        let state = toy.kernel.compaction.zone(zone.id());
        let rules = &toy.kernel.mem.policy.compaction;
        let mut run: Run<'_, Solo> = Run::new(zone, state, order_9(Mode::Async), rules);
        run.begin();
        assert_eq!(run.contended, None);
        assert_eq!(run.takes_contended(), taken == 1);
        assert_eq!((run.contended, run.is_aborted()), (Some(Contention::Lock), taken == 0));
    }
    // A held zone lock: 4.5 takes no frame and is aborted.
    policy.compaction.contended = AsyncContended::Aborts;
    let toy = Toy::with(&host, &layout(), &policy);
    let zone = toy.zone();
    let rules = &toy.kernel.mem.policy.compaction;
    let state = toy.kernel.compaction.zone(zone.id());
    let mut run = Run::new(zone, state, order_9(Mode::Async), rules);
    run.begin();
    let mut targets = Frames::default();
    let held = zone.free.lock(CpuId(0));
    toy.kernel.isolate_targets(&toy.cx, &mut run, 32, &mut targets);
    drop(held);
    assert!(targets.is_empty() && run.contended == Some(Contention::Lock));
    let vec = toy.kernel.lru.vec(toy.kernel.lru.id_of_zone(zone.id()));
    let held = vec.lists.lock(CpuId(0));
    let mut run = Run::new(zone, state, order_9(Mode::Async), rules);
    run.begin();
    assert_eq!(toy.kernel.isolate_sources(&toy.cx, &mut run), super::run::Found::Abort);
    drop(held);
    assert!(run.sources.is_empty() && run.contended == Some(Contention::Lock));
    toy.kernel.lru_add_drain_all(&toy.cx);
    crate::audit::check_kernel(&toy.kernel, &toy.cx).unwrap_or_else(|error| panic!("{error}"));
}

fn direct(toy: &Toy<'_>, priority: CompactPriority) -> CompactResult {
    let mem = &toy.kernel.mem;
    let gfp = MOVABLE | Gfp::COMP | Gfp::NORETRY;
    let zonelist = &mem.zonelists(NodeId(0)).fallback;
    let req = Request {
        gfp,
        order: Order(9),
        highest: ZoneType::Dma32,
        migratetype: MigrateType::Movable,
        nodes: None,
        zonelist,
        list_node: NodeId(0),
        preferred: zonelist.next(0, ZoneType::Dma32, None),
        spread_dirty: false,
    };
    toy.kernel.compact(mem, &toy.cx, &req, AllocFlags::empty(), priority).0
}

/// All zones put off: a stall for later kernels, nothing for 4.5 (rules/compaction#direct).
#[test]
fn what_is_put_off_is_no_stall() {
    for (name, stalls) in [("kswapd-inline", [0, 0, 0]), ("6.1", [1, 0, 1])] {
        let host = Solo::default();
        let toy = Toy::with(&host, &[4136..4608, 4700..5100, 5640..5900], &of(name));
        let state = toy.kernel.compaction.zone(toy.zone().id());
        for _ in 0..6 {
            state.deferral.failed(Order(9));
        }
        assert_eq!(direct(&toy, CompactPriority::SyncLight), CompactResult::Deferred, "{name}");
        let gfp = (MOVABLE | Gfp::COMP | Gfp::NORETRY) - Gfp::KSWAPD_RECLAIM;
        let page = toy.kernel.mem.alloc(&toy.cx, &toy.kernel, gfp, Order(9), NodeId(0), None);
        assert_eq!(page, None);
        let events = [VmEvent::CompactStall, VmEvent::CompactSuccess, VmEvent::CompactFail];
        assert_eq!(events.map(|event| toy.event(event)), stalls, "{name}");
        assert_eq!(toy.event(VmEvent::CompactMigrateScanned), 0);
    }
}

/// Without capture, a block goes to the lists, where its task finds it. A captured block is on no
/// list, and its task gets it all the same.
#[test]
fn a_request_gets_its_block_from_the_lists_or_as_it_is_caught() {
    for captures in [false, true] {
        let host = Solo::default();
        let mut policy = before();
        policy.compaction.capture = captures;
        let toy = Toy::with(&host, &[4136..4608, 4700..5100, 5640..5900], &policy);
        let gfp = MOVABLE | Gfp::COMP | Gfp::NORETRY;
        let pfn = toy
            .kernel
            .mem
            .alloc(&toy.cx, &toy.kernel, gfp, Order(9), NodeId(0), None)
            .expect("made by compaction");
        let stalls = [VmEvent::CompactStall, VmEvent::CompactSuccess, VmEvent::CompactFail];
        assert_eq!(stalls.map(|event| toy.event(event)), [1, 1, 0]);
        toy.kernel.mem.free(&toy.cx, pfn, Order(9)).unwrap();
        toy.kernel.lru_add_drain_all(&toy.cx);
        crate::audit::check_kernel(&toy.kernel, &toy.cx).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// The first kcompactd leaves the zone out that it is asked for, and skip bits and positions alone
/// (rules/compaction#kcompactd).
#[test]
fn the_first_daemon_works_below_the_zone_it_is_asked_for() {
    for (zones, asked, works) in [
        (Kcompactd::Exclusive, ZoneType::Dma32, false),
        (Kcompactd::Exclusive, ZoneType::Normal, true),
        (Kcompactd::Inclusive, ZoneType::Dma32, true),
    ] {
        let host = Solo::default();
        let mut policy = of("kcompactd");
        policy.compaction.kcompactd = zones;
        let toy = Toy::with(&host, &[4136..4608, 4700..5100, 5640..5900], &policy);
        let state = toy.kernel.compaction.node(NodeId(0));
        state.ask(Order(9), asked);
        toy.kernel.kcompactd_work(&toy.cx, NodeId(0));
        assert_eq!(toy.event(VmEvent::CompactDaemonWake), 1);
        assert_eq!(toy.event(VmEvent::PgmigrateSuccess) != 0, works, "{zones:?} {asked:?}");
        assert_eq!(toy.zone().nr_free_blocks(Order(9)) != 0, works);
        assert_eq!(state.asked().0, Order(0));
    }
}

/// The positions of the first daemon stay where others left them, so each wake begins there again.
#[test]
fn the_first_daemon_leaves_no_marks() {
    let blocks = || (START..START + PAGES).step_by(512);
    for (skip, forgets) in [(KcompactdSkip::Ignored, true), (KcompactdSkip::Honoured, false)] {
        let host = Solo::default();
        let mut policy = of("kcompactd");
        policy.compaction.kcompactd_skip = skip;
        // Only the last pageblock has pages of programs; the first has nothing but unmovable pages.
        let toy = Toy::with(&host, &[4096..4600, 4700..5100, 5640..5900], &policy);
        (4600..4608).for_each(|pfn| toy.kernel.mem.map.page(Pfn(pfn)).get::<Solo>(1));
        let state = toy.kernel.compaction.zone(toy.zone().id());
        let mut goal =
            Goal { ignore_skip: skip == KcompactdSkip::Ignored, ..order_9(Mode::SyncLight) };
        let mut run = Run::new(toy.zone(), state, goal, &toy.kernel.mem.policy.compaction);
        run.begin();
        toy.kernel.isolate_sources(&toy.cx, &mut run);
        assert_eq!(run.sources.len(), 0);
        assert_eq!(blocks().any(|pfn| toy.zone().pageblock_skip(Pfn(pfn))), !forgets);
        // The next run skips marked pageblocks, or scans them again.
        let before = toy.event(VmEvent::CompactMigrateScanned) + run.migrate_scanned;
        toy.kernel.end_run(&toy.cx, &mut run);
        toy.kernel.compact_zone(&toy.cx, toy.zone(), &mut goal);
        assert!(toy.event(VmEvent::CompactMigrateScanned) > before);
        (4600..4608).for_each(|pfn| {
            toy.kernel.put_page(&toy.cx, crate::page::Folio::page(Pfn(pfn)));
        });
    }
}

/// Nothing is asked of a node for single pages.
#[test]
fn single_pages_are_no_request() {
    let host = Solo::default();
    let toy = Toy::with(&host, &layout(), &of("kcompactd"));
    toy.kernel.wake_kcompactd(&toy.cx, NodeId(0), Order::ZERO, ZoneType::Dma32);
    let top = ZoneType::Device;
    assert_eq!(toy.kernel.compaction.node(NodeId(0)).asked(), (Order(0), top));
    toy.kernel.wake_kcompactd(&toy.cx, NodeId(0), Order(3), ZoneType::Normal);
    toy.kernel.wake_kcompactd(&toy.cx, NodeId(0), Order(9), ZoneType::Dma32);
    let asked = toy.kernel.compaction.node(NodeId(0)).asked();
    assert_eq!(asked, (Order(9), ZoneType::Dma32));
}

/// kswapd itself compacts all of a node, whatever is asked for, and does not count its failures.
#[test]
fn kswapd_compacts_and_forgets_failures() {
    let host = Solo::default();
    let toy = Toy::with(&host, &[4136..4608, 4700..5100, 5640..5900], &before());
    toy.kernel.compact_for_kswapd(&toy.cx, NodeId(0), Order(9));
    assert!(toy.event(VmEvent::PgmigrateSuccess) > 0);
    assert!(toy.zone().nr_free_blocks(Order(9)) != 0);
    let state = toy.kernel.compaction.zone(toy.zone().id());
    assert!(!state.deferral.refuses(Order(9)));
    state.deferral.failed(Order(9));
    assert!(toy.kernel.compaction_is_put_off(&toy.cx, toy.zone().id(), Order(9)));
    assert!(!toy.kernel.compaction_is_put_off(&toy.cx, toy.zone().id(), Order(9)), "it counts");
    assert_eq!(toy.event(VmEvent::CompactStall), 0);
}

/// 6.1's flush is a sample, 4.5's is thorough; neither is part of the other's presets.
#[test]
fn presets_of_the_study_differ_in_nothing_but_the_change() {
    let changes: Vec<_> = of("kswapd-inline")
        .differences(&of("kcompactd"))
        .iter()
        .map(std::string::ToString::to_string)
        .collect();
    assert_eq!(
        changes,
        [
            "compaction.restart-flush: unless-kswapd -> anyone",
            "compaction.flush-request: unless-kswapd -> request",
            "compaction.kcompactd: absent -> exclusive",
            "reclaim.kswapd.goal: block -> room",
            "reclaim.kswapd.compacts: true -> false",
            "reclaim.kswapd.hand-over: never -> after-nap",
        ]
    );
    assert_eq!(before().compaction.flush, FlushRule::All);
    assert_eq!(of("6.1").compaction.flush, FlushRule::Sampled);
}
