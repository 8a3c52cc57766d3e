//! The zonelist cache of study 000 (rules/zonelist-cache#data, rules/zonelist-cache#vectors).
//!
//! List of node 0: N0.Normal, N0.DMA32, N0.DMA, N1.Normal. Marks are bits by list position.

use highwater_core::config::{Machine, Policy, ZoneSpec};
use highwater_core::host::{Cx, NS_PER_JIFFY};
use highwater_core::page::Order;
use highwater_core::page_alloc::{Gfp, NoRelief};
use highwater_core::zone::{NodeId, ZoneType};

use crate::common::relief::Fake;
use crate::common::*;

const ALL: u64 = 0b1111;
/// Everything but N1.Normal.
const NODE_0: u64 = 0b0111;
const N0_DMA32: (u16, ZoneType) = (0, ZoneType::Dma32);
const N1_NORMAL: (u16, ZoneType) = (1, ZoneType::Normal);

/// Zones that start in the middle of an order-9 block and end in the next: no block of order 9.
/// Node 1 gets whole blocks if `remote_blocks`.
fn machine_of(remote_blocks: bool) -> Machine {
    let zone = |kind, at: u64| ZoneSpec::full(kind, at + 256, 512);
    let n0 = [
        ZoneSpec::full(ZoneType::Dma, 1, 511),
        zone(ZoneType::Dma32, 4096),
        zone(ZoneType::Normal, 1 << 20),
    ];
    let n1 = match remote_blocks {
        true => ZoneSpec::full(ZoneType::Normal, (1 << 20) + 4096, 4096),
        false => zone(ZoneType::Normal, (1 << 20) + 4096),
    };
    machine(vec![node(&[0], &n0), node(&[1], &[n1])])
}

struct Stage<'h> {
    alloc: Alloc,
    cx: Cx<'h, Host>,
}

impl Stage<'_> {
    fn at_jiffy(&self, jiffy: u64) -> &Self {
        self.cx.host.set_now_ns(jiffy * NS_PER_JIFFY);
        self
    }

    fn marks(&self) -> u64 {
        self.alloc.node_zonelist_cache(NodeId(0)).marks()
    }

    /// An order-9 request that cannot wait: fails or is served by node 1.
    fn huge(&self) -> bool {
        let gfp = Gfp::GFP_NOWAIT;
        self.alloc.alloc(&self.cx, &NoRelief, gfp, Order(9), NodeId(0), None).is_some()
    }

    /// N0.Normal gets no free page, the others what `free` of (low mark + reserve) says.
    fn starve_first(&self, free: impl Fn(u64) -> u64) {
        for zone in self.alloc.populated_zones() {
            let first = zone.node == NodeId(0) && zone.zone == ZoneType::Normal;
            let low = zone.marks().low + zone.lowmem_reserve(ZoneType::Normal);
            fake_free(zone, if first { 0 } else { free(low) });
        }
    }

    /// Where an order-0 request of node 0 is served.
    fn page(&self) -> (u16, ZoneType) {
        place(&self.alloc, get(&self.alloc, &self.cx, Gfp::GFP_NOWAIT, 0))
    }
}

fn stage<'h>(host: &'h Host, remote_blocks: bool, policy: &Policy) -> Stage<'h> {
    let (alloc, cx) = boot_on(host, &machine_of(remote_blocks), policy);
    Stage { alloc, cx }
}

/// After an order-9 failure everywhere at jiffy 1000.
fn all_marked<'h>(host: &'h Host, policy: &Policy) -> Stage<'h> {
    let s = stage(host, false, policy);
    assert!(!s.at_jiffy(1000).huge());
    s
}

/// After an order-9 success on node 1 at jiffy 1000: bit 3 is clear.
fn node_0_marked<'h>(host: &'h Host, policy: &Policy) -> Stage<'h> {
    let s = stage(host, true, policy);
    assert!(s.at_jiffy(1000).huge());
    s
}

fn with_cache() -> Policy {
    policy("4.3-zonelist-cache")
}

/// The scan alone, without fair shares: as the slow path has it.
fn without_fair() -> Policy {
    let mut policy = with_cache();
    policy.zonelist.fair = false;
    policy
}

#[test]
fn failure_marks_every_zone_examined() {
    let host = host();
    assert_eq!(all_marked(&host, &with_cache()).marks(), ALL);
    assert_eq!(node_0_marked(&host, &with_cache()).marks(), NODE_0);
}

#[test]
fn marked_zones_are_skipped_in_the_slow_path() {
    let host = host();
    // Others are below LOW, so the fast path fails, and above MIN.
    let s = all_marked(&host, &with_cache());
    s.at_jiffy(1100).starve_first(|low| low);
    assert_eq!(s.page(), N0_DMA32, "all are marked: the exact scan decides");
    let s = node_0_marked(&host, &with_cache());
    s.at_jiffy(1100).starve_first(|low| low);
    assert_eq!(s.page(), N1_NORMAL, "the first unmarked zone is remote");
    assert_eq!(s.marks(), NODE_0);
}

#[test]
fn marks_live_for_more_than_a_second() {
    let host = host();
    for (jiffy, expected, marks) in [(1100, N1_NORMAL, NODE_0), (1250, N1_NORMAL, NODE_0)] {
        let s = node_0_marked(&host, &without_fair());
        s.at_jiffy(jiffy).starve_first(|low| low + 1);
        assert_eq!((s.page(), s.marks()), (expected, marks), "jiffy {jiffy}");
    }
    let s = node_0_marked(&host, &without_fair());
    s.at_jiffy(1251).starve_first(|low| low + 1);
    assert_eq!((s.page(), s.marks()), (N0_DMA32, 0b0001));
}

#[test]
fn reclaim_progress_clears_the_list() {
    let host = host();
    let s = all_marked(&host, &with_cache());
    s.at_jiffy(1100);
    for zone in s.alloc.populated_zones() {
        fake_free(zone, 0);
    }
    let relief = Fake::default();
    relief.reclaimed.set(32);
    relief.on_relief(|alloc| {
        let zone = alloc.zone(NodeId(0), ZoneType::Normal).unwrap();
        fake_free(zone, zone.marks().high);
    });
    assert!(alloc0(&s.alloc, &s.cx, &relief, Gfp::GFP_KERNEL).is_some());
    assert_eq!(s.marks(), 0);
}

#[test]
fn fast_path_with_fair_shares() {
    let host = host();
    let s = node_0_marked(&host, &with_cache());
    s.at_jiffy(1100).starve_first(|low| low + 1);
    assert_eq!(s.page(), N0_DMA32, "a FAIR pass stays on the node, the exact pass follows");
    // Use up every fair share of node 0: now the cache decides in the second pass.
    let s = node_0_marked(&host, &with_cache());
    s.at_jiffy(1100);
    let depleted = highwater_core::zone::ZoneFlags::FAIR_DEPLETED;
    s.alloc.zones_of(NodeId(0)).for_each(|z| z.set_flag(depleted));
    s.starve_first(|low| low + 1);
    assert_eq!(s.page(), N1_NORMAL);
}

#[test]
fn without_the_cache_every_case_stays_local() {
    let host = host();
    let no_fair = {
        let mut p = policy("4.3");
        p.zonelist.fair = false;
        p
    };
    for policy in [policy("4.3"), no_fair] {
        for jiffy in [1100, 1250, 1251] {
            for margin in [0, 1] {
                let s = node_0_marked(&host, &policy);
                s.at_jiffy(jiffy).starve_first(|low| low + margin);
                assert_eq!((s.page(), s.marks()), (N0_DMA32, 0));
            }
        }
    }
}

#[test]
fn thisnode_requests_have_no_cache() {
    let host = host();
    let s = stage(&host, false, &with_cache());
    s.at_jiffy(1000);
    let gfp = Gfp::GFP_NOWAIT | Gfp::THISNODE;
    assert_eq!(s.alloc.alloc(&s.cx, &NoRelief, gfp, Order(9), NodeId(0), None), None);
    assert_eq!(s.marks(), 0);
    // rules/zonelist-cache#data: marks do not stop them either.
    assert!(!s.huge());
    assert_eq!(s.marks(), ALL);
    s.starve_first(|low| low + 1);
    let page = s.alloc.alloc(&s.cx, &NoRelief, gfp, Order(0), NodeId(0), None).unwrap();
    assert_eq!(place(&s.alloc, page), N0_DMA32);
}

#[test]
fn one_node_needs_no_cache() {
    let host = host();
    let m = machine(vec![node(&[0], &[ZoneSpec::full(ZoneType::Dma32, 4096 + 256, 512)])]);
    let (alloc, cx) = boot_on(&host, &m, &with_cache());
    host.set_now_ns(1000 * NS_PER_JIFFY);
    assert_eq!(alloc.alloc(&cx, &NoRelief, Gfp::GFP_NOWAIT, Order(9), NodeId(0), None), None);
    assert_eq!(alloc.node_zonelist_cache(NodeId(0)).marks(), 0);
}
