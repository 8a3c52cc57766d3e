//! kswapd of 4.5 and 4.6, on a host without sleeping: the failing scenario of study 004
//! (rules/kswapd#why-never-compacts).

use super::Wake;
use super::zone_balance::balance_gap;
use super::zones45::Task;
use crate::compaction::Suitability;
use crate::config::{KswapdGoal, Policy, ZoneSpec, preset};
use crate::host::{Cost, CpuId, Solo};
use crate::lru::testing::{ANON, Stage};
use crate::page::Order;
use crate::page_alloc::{Gfp, NoRelief, Relief};
use crate::vmstat::VmEvent;
use crate::zone::watermark::Marks;
use crate::zone::{NodeId, Zone, ZoneType};

const NODE: NodeId = NodeId(0);
const ORDER: Order = Order(9);
const ASKED: Task = Task { order: 9, highest: ZoneType::Normal };

/// Type; pages managed and free; marks; reserve against NORMAL.
type Figures = (ZoneType, u64, u64, [u64; 3], u64);

/// The study's machine: 4 GiB, 1,010,000 pages managed. The figures of DMA are in the study's
/// changelog. The other zones are above their high marks for single pages and have no blocks of
/// order 9.
const MACHINE: [Figures; 3] = [
    (ZoneType::Dma, 3_976, 3_976, [66, 82, 99], 3_929),
    (ZoneType::Dma32, 780_000, 40_000, [13_049, 16_311, 19_573], 883),
    (ZoneType::Normal, 226_024, 20_000, [3_781, 4_726, 5_671], 0),
];

/// Zones that say so of themselves; few of their pages exist.
fn machine(host: &Solo, policy: Policy, figures: [Figures; 3]) -> Stage<'_> {
    let zones = [
        ZoneSpec::full(ZoneType::Dma, 512, 3584),
        ZoneSpec::full(ZoneType::Dma32, 4096, 2048),
        ZoneSpec::full(ZoneType::Normal, 1 << 20, 2048),
    ];
    let s = Stage::with(host, zones.into(), |it| {
        *it = policy;
        // Each allocation below comes from the zone that it names.
        it.zonelist.fair = false;
    });
    // A program uses a page of each zone: the zone is reclaimable, but no pass reaches the page.
    for gfp in [Gfp::DMA, Gfp::DMA32, Gfp::empty()] {
        let page = s.page_for(ANON, gfp);
        s.list(page);
        s.kernel.mem.zone_by_id(s.at(page).zone_id()).expect("a zone").stats.fold(CpuId(0));
    }
    for (kind, managed, free, [min, low, high], reserve) in figures {
        let zone = zone(&s, kind);
        if kind != ZoneType::Dma {
            zone.set_marks(&Marks::default());
            let gfp = if kind == ZoneType::Dma32 { Gfp::DMA32 } else { Gfp::empty() };
            while zone.nr_free_blocks(ORDER) + zone.nr_free_blocks(Order::MAX) != 0 {
                s.kernel.mem.alloc_folio(&s.cx, &NoRelief, gfp, Order::ZERO, NODE).expect("a page");
            }
        }
        zone.add_managed(managed - zone.managed());
        zone.set_marks(&Marks { min, low, high, promo: high });
        let mut reserves = zone.lowmem_reserves();
        reserves[ZoneType::Normal.idx()] = reserve;
        zone.set_lowmem_reserves(&reserves);
        zone.add_free(CpuId(0), free as i64 - zone.nr_free_pages_exact() as i64);
    }
    s
}

fn zone<'a>(s: &'a Stage<'_>, kind: ZoneType) -> &'a Zone<Solo> {
    s.kernel.mem.zone(NODE, kind).expect("a zone")
}

fn of(name: &str) -> Policy {
    preset(name).expect(name)
}

/// Nobody compacts: the run spends its twelve rounds on the zone that can never serve the request.
#[test]
fn kswapd_before_never_compacts() {
    let host = Solo::default();
    let s = machine(&host, of("kswapd-inline"), MACHINE);
    let kernel = &s.kernel;
    let [dma, dma32, normal] =
        [ZoneType::Dma, ZoneType::Dma32, ZoneType::Normal].map(|kind| zone(&s, kind));
    let suitable = |zone| kernel.mem.compaction_suitable(zone, ORDER, ZoneType::Normal);
    assert_eq!(suitable(dma), Suitability::Skipped, "3465 <= 82 + 3929, 3976 <= 82 + 1024 + 3929");
    assert_eq!(suitable(dma32), Suitability::Continue);
    assert_eq!(suitable(normal), Suitability::Continue);
    assert_eq!(balance_gap(dma), 40, "a hundredth, rounded up");

    let passes = host.charged(Cost::NodePass);
    let ended = kernel.balance_zones(&s.cx, NODE, ASKED);
    assert_eq!(ended, ASKED, "as it began");
    assert_eq!(host.charged(Cost::NodePass) - passes, 12, "one zone, twelve times");
    for event in [
        VmEvent::CompactMigrateScanned,
        VmEvent::CompactFreeScanned,
        VmEvent::PgscanKswapd,
        VmEvent::PgstealKswapd,
    ] {
        assert_eq!(s.events(event), 0, "{event:?}");
    }
    assert_eq!(s.events(VmEvent::Pageoutrun), 1);
    // DMA alone has a block by itself (3465 > 99), and is less than a quarter of the node: no sleep.
    assert!(!kernel.zones_are_balanced(NODE, ended));
    assert!(kernel.zones_are_balanced(NODE, Task { order: 9, highest: ZoneType::Dma }));
    // For single pages all is well.
    assert!(kernel.zones_are_balanced(NODE, Task { order: 0, highest: ZoneType::Normal }));
}

/// One round as the rules compute it: 0 pages of the 99 that were asked for, and 0 > 99 is false.
#[test]
fn a_round_asks_for_more_than_it_gets() {
    let host = Solo::default();
    let s = machine(&host, of("kswapd-inline"), MACHINE);
    let [highest, attempted, raise, lacks_block] = s.kernel.first_round(&s.cx, NODE, ASKED);
    assert_eq!(highest, ZoneType::Normal as u64);
    // The others are content, but nothing was freed: the priority falls for that.
    assert_eq!((attempted, raise, lacks_block), (99, 0, 1));
}

/// Failed runs open the gate in the end, because nothing else would; they do not stop kswapd.
#[test]
fn runs_in_vain_open_the_gate() {
    let host = Solo::default();
    let s = machine(&host, of("kswapd-inline"), MACHINE);
    let state = s.kernel.mem.node(NODE);
    for _ in 0..16 {
        assert!(!state.is_hopeless());
        s.kernel.balance_zones(&s.cx, NODE, ASKED);
    }
    assert!(state.is_hopeless());
    s.kernel.balance_zones(&s.cx, NODE, Task { order: 0, ..ASKED });
    assert!(state.is_hopeless(), "nothing to do is no success");
    let wake = Wake { node: NODE, gfp: Gfp::GFP_KERNEL, order: 9, highest: ZoneType::Normal };
    assert!(s.kernel.kswapd().wants_wake(&s.kernel, &s.cx, wake));
}

/// rules/allocation#busy-nodes
#[test]
fn a_waiting_kswapd_is_asleep() {
    let host = Solo::default();
    let s = machine(&host, of("6.1"), MACHINE);
    let queue = &s.kernel.reclaim.node(NODE).kswapd_wait;
    assert!(s.kernel.kswapd_is_awake(NODE));
    let ticket = queue.enter(&s.cx);
    assert!(!s.kernel.kswapd_is_awake(NODE));
    queue.leave(&s.cx, ticket);
    assert!(s.kernel.kswapd_is_awake(NODE));
}

/// With a block above the low mark in any zone, nothing is missing.
#[test]
fn a_block_above_the_low_mark_is_enough() {
    let host = Solo::default();
    let mut figures = MACHINE;
    figures[0].4 = 0;
    let s = machine(&host, of("kswapd-inline"), figures);
    assert_eq!(s.kernel.first_round(&s.cx, NODE, ASKED)[3], 0, "DMA without a reserve");
}

/// After the change the first round finds nothing to do and kswapd may sleep. kcompactd does the
/// rest: for DMA and DMA32, in its first version.
#[test]
fn kswapd_after_hands_over() {
    let host = Solo::default();
    let s = machine(&host, of("kcompactd"), MACHINE);
    let kernel = &s.kernel;
    let passes = host.charged(Cost::NodePass);
    let ended = kernel.balance_zones(&s.cx, NODE, ASKED);
    assert_eq!(ended, Task { order: 9, highest: ZoneType::Dma }, "no zone is short");
    assert_eq!(host.charged(Cost::NodePass), passes);
    assert!(kernel.zones_are_balanced(NODE, ended), "it sleeps");
    kernel.wake_kcompactd(&s.cx, NODE, ORDER, ZoneType::Normal);
    let zones = |asked| kernel.kcompactd_zones(NODE, asked).map(|zone| zone.zone);
    assert!(zones(ZoneType::Normal).eq([ZoneType::Dma, ZoneType::Dma32]));
}

/// 4.6 needs room for a block in single pages above the mark; 4.5 needs the block.
#[test]
fn what_balanced_means() {
    for (goal, free, normal) in [
        // A block of order 9 in NORMAL: none; it is woken for that in either.
        (KswapdGoal::Block, 5_671 + 513, false),
        (KswapdGoal::Room, 5_671 + 512, false),
        (KswapdGoal::Room, 5_671 + 513, true),
    ] {
        let host = Solo::default();
        let mut policy = of("kswapd-inline");
        policy.reclaim.kswapd.goal = goal;
        let mut figures = MACHINE;
        figures[2].2 = free;
        let s = machine(&host, policy, figures);
        let ended = s.kernel.balance_zones(&s.cx, NODE, ASKED);
        assert_eq!(ended.highest == ZoneType::Dma, normal, "{goal:?} {free}");
        let normal = zone(&s, ZoneType::Normal);
        assert!(!s.kernel.zone_has_block(normal, ORDER, 0, ZoneType::Dma));
        assert!(s.kernel.zone_has_block(normal, Order::ZERO, 0, ZoneType::Dma));
    }
}

/// A zone is given up after six looks at each of its pages without one that came free
/// (rules/kswapd#zone-reclaimable).
#[test]
fn zones_of_which_nothing_can_be_had() {
    let host = Solo::default();
    let mut figures = MACHINE;
    figures[0].2 = 50;
    let s = machine(&host, of("kcompactd"), figures);
    let dma = zone(&s, ZoneType::Dma);
    let single = Task { order: 0, highest: ZoneType::Normal };
    assert!(!s.kernel.zones_are_balanced(NODE, single), "50 <= 99");
    dma.note_scanned(5);
    assert!(!s.kernel.zones_are_balanced(NODE, single));
    dma.note_scanned(1);
    assert!(s.kernel.zones_are_balanced(NODE, single), "one page, six times");
    dma.note_freed();
    assert!(!s.kernel.zones_are_balanced(NODE, single));
}
