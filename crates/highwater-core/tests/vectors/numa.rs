//! Several nodes: list order (rules/zones#node-order), statistics
//! (rules/zone-counters#numa-events), locality, dirty limits
//! (rules/allocation#dirty-limit), cpusets (rules/allocation#cpuset).

use highwater_core::config::{Machine, ZoneSpec};
use highwater_core::host::{CpuId, Cx, TaskFlags};
use highwater_core::page::{Order, Pfn};
use highwater_core::page_alloc::{Gfp, NoRelief, NodeReclaim};
use highwater_core::vmstat::{NodeStat, NumaStat, VmEvent};
use highwater_core::zone::{NodeId, NodeMask, ZoneType};

use crate::common::relief::{Call, Fake};
use crate::common::*;

const PAGES: u64 = 8192;

fn normal(i: u64) -> ZoneSpec {
    ZoneSpec::full(ZoneType::Normal, (1 << 20) + i * PAGES, PAGES)
}

/// `n` nodes, one CPU and one NORMAL zone each; node 0 has a DMA32 zone too.
fn nodes(n: u64) -> Machine {
    let with_cpu = |i: u64| match i {
        0 => node(&[0], &[ZoneSpec::full(ZoneType::Dma32, 4096, PAGES), normal(0)]),
        i => node(&[i as u16], &[normal(i)]),
    };
    machine((0..n).map(with_cpu).collect())
}

fn fallback_orders(m: &Machine, preset: &str) -> Vec<Vec<u16>> {
    let host = host();
    let (alloc, _) = boot_on(&host, m, &policy(preset));
    let orders = (0..m.nodes.len() as u16).map(|n| {
        let list = &alloc.zonelists(NodeId(n)).fallback;
        let mut nodes: Vec<u16> = list.entries().iter().map(|e| e.node.0).collect();
        nodes.dedup();
        nodes
    });
    orders.collect()
}

#[test]
fn zonelists_by_distance() {
    let mut m = nodes(4);
    let uniform = [[0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]];
    assert_eq!(fallback_orders(&m, "6.1"), uniform);
    let ring = |i: usize, j: usize| [10, 16, 22, 16][(4 + j - i) % 4];
    m.distances = (0..4).map(|i| (0..4).map(|j| ring(i, j)).collect()).collect();
    let expected = [[0, 1, 3, 2], [1, 2, 0, 3], [2, 3, 1, 0], [3, 0, 2, 1]];
    assert_eq!(fallback_orders(&m, "6.1"), expected);
    let mut m = nodes(4);
    m.nodes[3].cpus.clear();
    let expected = [[0, 3, 1, 2], [1, 3, 2, 0], [2, 3, 0, 1], [3, 0, 1, 2]];
    assert_eq!(fallback_orders(&m, "6.1"), expected);
}

#[test]
fn lists_hold_populated_zones_from_the_highest() {
    let host = host();
    let (alloc, _) = boot_on(&host, &nodes(2), &policy("6.1"));
    let kinds = |list: &highwater_core::zone::zonelist::Zonelist| {
        list.entries().iter().map(|e| (e.node.0, e.kind)).collect::<Vec<_>>()
    };
    let lists = alloc.zonelists(NodeId(0));
    let own = [(0, ZoneType::Normal), (0, ZoneType::Dma32)];
    assert_eq!(kinds(&lists.nofallback), own);
    assert_eq!(kinds(&lists.fallback), [own[0], own[1], (1, ZoneType::Normal)]);
    let at = |highest, nodes| lists.fallback.next(0, highest, nodes);
    assert_eq!(at(ZoneType::Normal, None), Some(0));
    assert_eq!(at(ZoneType::Dma32, None), Some(1));
    assert_eq!(at(ZoneType::Dma, None), None);
    assert_eq!(at(ZoneType::Movable, Some(NodeMask::of(NodeId(1)))), Some(2));
}

#[test]
fn hits_misses_and_foreigners() {
    let host = host();
    let (alloc, cx) = boot_on(&host, &nodes(2), &policy("6.1"));
    let zone = |n, t| alloc.zone(NodeId(n), t).unwrap();
    let (n0, n1) = (zone(0, ZoneType::Normal), zone(1, ZoneType::Normal));
    let stats = |z: &highwater_core::zone::Zone<Host>| {
        let s = |item| z.numa_stat(item);
        [
            s(NumaStat::NumaHit),
            s(NumaStat::NumaMiss),
            s(NumaStat::NumaForeign),
            s(NumaStat::NumaLocal),
            s(NumaStat::NumaOther),
        ]
    };
    get(&alloc, &cx, Gfp::GFP_KERNEL, 3);
    assert_eq!((stats(n0), stats(n1)), ([1, 0, 0, 1, 0], [0; 5]), "once per block");
    // Asked for on node 1 by a CPU of node 0.
    alloc.alloc(&cx, &NoRelief, Gfp::GFP_KERNEL, Order(0), NodeId(1), None).unwrap();
    assert_eq!(stats(n1), [1, 0, 0, 0, 1]);
    // Node 0 is full: node 1 serves, which is a miss there and foreign for the zone wanted.
    fake_free(n0, 0);
    fake_free(zone(0, ZoneType::Dma32), 0);
    get(&alloc, &cx, Gfp::GFP_KERNEL, 0);
    assert_eq!((stats(n0), stats(n1)), ([1, 0, 1, 1, 0], [1, 1, 0, 0, 2]));
    // The same from node 1's side is local there.
    let there = Cx::new(&host, CpuId(1));
    alloc.alloc(&there, &NoRelief, Gfp::GFP_KERNEL, Order(0), NodeId(0), None).unwrap();
    assert_eq!(stats(n1), [1, 2, 0, 1, 2]);
}

#[test]
fn thisnode_and_nodemask_restrict() {
    let host = host();
    let (alloc, cx) = boot_on(&host, &nodes(3), &policy("6.1"));
    fake_free(alloc.zone(NodeId(1), ZoneType::Normal).unwrap(), 0);
    let page = |gfp, node, mask| {
        let pfn = alloc.alloc(&cx, &NoRelief, gfp, Order(0), NodeId(node), mask)?;
        Some(place(&alloc, pfn).0)
    };
    let gfp = Gfp::GFP_NOWAIT;
    assert_eq!(page(gfp | Gfp::THISNODE, 1, None), None);
    assert_eq!(page(gfp, 1, None), Some(2));
    assert_eq!(page(gfp, 1, Some(NodeMask::of(NodeId(0)))), Some(0));
    assert_eq!(page(gfp | Gfp::THISNODE, 1, Some(NodeMask::of(NodeId(0)))), None);
    assert_eq!(page(gfp, 1, Some(NodeMask::EMPTY)), None);
}

#[test]
fn nodes_with_a_busy_kswapd_come_last() {
    // rules/allocation#busy-nodes
    let host = host();
    let mut policy = policy("6.1");
    policy.zonelist.skip_kswapd_nodes = true;
    let (alloc, cx) = boot_on(&host, &nodes(3), &policy);
    let relief = Fake::default();
    let from = |awake: &[u16], nodes| {
        let of = |mask: NodeMask, &node: &u16| mask.with(NodeId(node));
        relief.awake.set(awake.iter().fold(NodeMask::EMPTY, of));
        let page = alloc.alloc(&cx, &relief, Gfp::GFP_KERNEL, Order(0), NodeId(0), nodes);
        let place = place(&alloc, page.unwrap());
        alloc.free(&cx, page.unwrap(), Order(0)).unwrap();
        place
    };
    let home = (0, ZoneType::Normal);
    // The usual way and the general one.
    for nodes in [None, Some(NodeMask::ALL)] {
        assert_eq!(from(&[], nodes), home);
        assert_eq!(from(&[1], nodes), home);
        assert_eq!(from(&[0], nodes).0, 1);
        assert_eq!(from(&[0, 1], nodes).0, 2);
        assert_eq!(from(&[0, 1, 2], nodes), home, "all are busy: as if none were");
        assert_eq!(from(&[0], Some(NodeMask::of(NodeId(0)))), home);
    }
    // The others are below their low mark: the same pass once more, before kswapd is woken.
    for node in [1, 2] {
        let zone = alloc.zone(NodeId(node), ZoneType::Normal).unwrap();
        fake_free(zone, zone.marks().low);
    }
    assert_eq!(from(&[0], None), home);
    assert_eq!(relief.calls(), []);
    // Node 0 stays the one that was wanted.
    let stat = |item| alloc.zone(NodeId(0), ZoneType::Normal).unwrap().numa_stat(item);
    assert_eq!(stat(NumaStat::NumaForeign), 4);

    let alone = boot_on(&host, &nodes(1), &policy).0;
    relief.awake.set(NodeMask::ALL);
    let before = zone_locks(&host);
    assert!(alone.alloc(&cx, &relief, Gfp::GFP_KERNEL, Order(0), NodeId(0), None).is_some());
    assert_eq!(zone_locks(&host) - before, 1, "one refill by the usual way");
}

#[test]
fn locality_beats_avoiding_fragmentation() {
    // rules/allocation#scan: an unmovable request of node 0 whose zones hold movable pageblocks
    // with less than a whole block free mixes types at home instead of going to node 1.
    let host = host();
    let (alloc, cx) = boot_on(&host, &nodes(2), &policy("6.1"));
    let mut movable = 0;
    for kind in [ZoneType::Normal, ZoneType::Dma32] {
        let zone = alloc.zone(NodeId(0), kind).unwrap();
        let bits = if kind == ZoneType::Dma32 { Gfp::DMA32 } else { Gfp::empty() };
        let gfp = Gfp::GFP_NOWAIT | Gfp::MOVABLE | Gfp::THISNODE | bits;
        // One page in each pageblock.
        for _ in 0..zone.spanned() / 512 {
            let block = alloc.alloc(&cx, &NoRelief, gfp, Order(8), NodeId(0), None);
            let other = alloc.alloc(&cx, &NoRelief, gfp, Order(8), NodeId(0), None);
            let (Some(block), Some(_)) = (block, other) else { break };
            if place(&alloc, block).1 == kind {
                movable += 1;
                alloc.free(&cx, block, Order(8)).unwrap();
            }
        }
    }
    assert!(movable > 0);
    events(&host);
    let page = get(&alloc, &cx, Gfp::GFP_KERNEL, 0);
    assert_eq!(place(&alloc, page), (0, ZoneType::Normal));
}

#[test]
fn dirty_limit_spreads_pages() {
    let dirtied = |dirty: i64, writeback: i64, realtime: bool| {
        let host = host();
        let (alloc, cx) = boot_on(&host, &nodes(2), &policy("6.1"));
        let reserve = alloc.node(NodeId(0)).total_reserve();
        let free: u64 = 100_000 - 2424 + reserve;
        fake_free(alloc.zone(NodeId(0), ZoneType::Dma32).unwrap(), 0);
        fake_free(alloc.zone(NodeId(0), ZoneType::Normal).unwrap(), free);
        let stats = &alloc.node(NodeId(0)).stats;
        stats.set_threshold(0);
        stats.add(CpuId(0), NodeStat::InactiveFile as usize, 60_000);
        stats.add(CpuId(0), NodeStat::ActiveFile as usize, 40_000);
        stats.add(CpuId(0), NodeStat::Dirty as usize, dirty);
        stats.add(CpuId(0), NodeStat::Writeback as usize, writeback);
        if realtime {
            cx.set_flags(TaskFlags::REALTIME);
        }
        let user = Gfp::GFP_HIGHUSER_MOVABLE;
        let plain = get(&alloc, &cx, user, 0);
        assert_eq!(place(&alloc, plain).0, 0, "only requests that will dirty the page care");
        place(&alloc, get(&alloc, &cx, user | Gfp::WRITE, 0)).0
    };
    assert_eq!(dirtied(39_515, 0, false), 0);
    assert_eq!(dirtied(39_516, 0, false), 1);
    assert_eq!(dirtied(20_000, 19_515, false), 0);
    assert_eq!(dirtied(20_000, 19_516, false), 1);
    assert_eq!(dirtied(39_515 + 39_515 / 4, 0, true), 0);
    assert_eq!(dirtied(39_516 + 39_515 / 4, 0, true), 1);
}

#[test]
fn all_nodes_dirty_the_slow_path_ignores_the_limit() {
    let host = host();
    let (alloc, cx) = boot_on(&host, &nodes(1), &policy("6.1"));
    alloc.node(NodeId(0)).stats.add(CpuId(0), NodeStat::Dirty as usize, 1 << 40);
    let relief = Fake::default();
    let page = alloc0(&alloc, &cx, &relief, Gfp::GFP_HIGHUSER_MOVABLE | Gfp::WRITE);
    assert!(page.is_some());
    assert_eq!(relief.calls(), [Call::Wake(0, 0)], "no reclaim, only the slow path's wakeup");
}

#[test]
fn reclaim_outside_of_the_cpuset_is_no_use() {
    // rules/slow-path#reclaim-retry: MIN pages free on node 0 only, the task is bound to node 1.
    let mut m = nodes(2);
    m.tunables.cpusets = true;
    let rounds = |retry_in_cpuset, gfp, allowed| {
        let host = host();
        let mut policy = policy("6.1");
        policy.slow_path.retry_in_cpuset = retry_in_cpuset;
        let (alloc, cx) = boot_on(&host, &m, &policy);
        alloc.populated_zones().for_each(|zone| fake_free(zone, 0));
        let home = alloc.zone(NodeId(0), ZoneType::Normal).unwrap();
        fake_free(home, home.marks().min);
        cx.set_mems_allowed(NodeMask::of(NodeId(allowed)));
        let relief = Fake::default();
        let gfp = gfp | Gfp::RETRY_MAYFAIL;
        assert_eq!(alloc.alloc(&cx, &relief, gfp, Order(0), NodeId(0), None), None);
        relief.hard_calls().len()
    };
    let user = Gfp::GFP_USER;
    assert_eq!((rounds(false, user, 1), rounds(true, user, 1)), (17, 1));
    assert_eq!((rounds(false, user, 0), rounds(true, user, 0)), (17, 17));
    assert_eq!(rounds(true, Gfp::GFP_KERNEL, 1), 17, "its walls are soft");
}

#[test]
fn cpusets_bind_tasks_but_not_interrupts_or_victims() {
    let mut m = nodes(2);
    m.tunables.cpusets = true;
    let host = host();
    let (alloc, cx) = boot_on(&host, &m, &policy("6.1"));
    cx.set_mems_allowed(NodeMask::of(NodeId(1)));
    let at = |gfp: Gfp| {
        alloc.alloc(&cx, &NoRelief, gfp, Order(0), NodeId(0), None).map(|p| place(&alloc, p).0)
    };
    assert_eq!(at(Gfp::GFP_KERNEL), Some(1));
    cx.set_flags(TaskFlags::IN_INTERRUPT);
    assert_eq!(at(Gfp::GFP_ATOMIC), Some(0));
    cx.set_flags(TaskFlags::OOM_VICTIM);
    assert_eq!(at(Gfp::GFP_KERNEL), Some(1), "its own nodes first");
    // Node 1 is full: only a request without HARDWALL may leave the cpuset.
    fake_free(alloc.zone(NodeId(1), ZoneType::Normal).unwrap(), 0);
    cx.set_flags(TaskFlags::empty());
    assert_eq!(at(Gfp::GFP_USER), None);
    assert_eq!(at(Gfp::GFP_KERNEL), Some(0), "the hardwall ancestor is the root");
    cx.set_flags(TaskFlags::OOM_VICTIM);
    assert_eq!(at(Gfp::GFP_USER), Some(0));
    // A privileged request that cannot wait leaves the cpuset, even a hardwall one: it must not
    // fail (rules/requests#slow-flags).
    cx.set_flags(TaskFlags::empty());
    assert_eq!(at(Gfp::GFP_NOWAIT | Gfp::HARDWALL), None);
    assert_eq!(at(Gfp::GFP_ATOMIC | Gfp::HARDWALL), Some(0));
    // Soft interrupts are interrupts.
    cx.set_flags(TaskFlags::IN_SOFTIRQ);
    assert_eq!(at(Gfp::GFP_NOWAIT | Gfp::HARDWALL), Some(0));
}

#[test]
fn node_reclaim_before_leaving_a_near_node() {
    // rules/allocation#node-reclaim: mode on, node below its mark.
    let mut m = nodes(2);
    m.tunables.zone_reclaim_mode = 1;
    let run = |m: &Machine, answer: NodeReclaim, frees: bool| {
        let host = host();
        let (alloc, cx) = boot_on(&host, m, &policy("6.1"));
        let relief = Fake::default();
        relief.node_reclaim.set(answer);
        for kind in [ZoneType::Dma32, ZoneType::Normal] {
            fake_free(alloc.zone(NodeId(0), kind).unwrap(), 0);
        }
        if frees {
            relief.on_relief(|alloc| {
                fake_free(alloc.zone(NodeId(0), ZoneType::Normal).unwrap(), 4000);
            });
        }
        let page = alloc0(&alloc, &cx, &relief, Gfp::GFP_KERNEL).unwrap();
        let failed = alloc.events.read(VmEvent::ZoneReclaimFailed);
        (place(&alloc, page).0, relief.calls(), failed)
    };
    let asked = Call::NodeReclaim(0);
    assert_eq!(run(&m, NodeReclaim::Success, true), (0, vec![asked], 0));
    assert_eq!(run(&m, NodeReclaim::Some, true), (0, vec![asked], 1));
    // Both zones ask, and again in the rescan that gives up avoiding fragmentation
    // (rules/allocation#rescan).
    assert_eq!(run(&m, NodeReclaim::Success, false), (1, vec![asked; 4], 0));
    // Without a scan there is no second look, even if pages came free: the rescan finds them.
    assert_eq!(run(&m, NodeReclaim::NoScan, true), (0, vec![asked; 2], 0));
    assert_eq!(run(&m, NodeReclaim::Full, true), (0, vec![asked; 2], 0));
    assert_eq!(run(&m, NodeReclaim::Full, false), (1, vec![asked; 4], 0));
    m.tunables.zone_reclaim_mode = 0;
    assert_eq!(run(&m, NodeReclaim::Success, true), (1, vec![], 0));
}

#[test]
fn node_reclaim_stops_at_its_distance() {
    let asked = |distance: u16, preset: &str| {
        let mut m = nodes(2);
        m.tunables.zone_reclaim_mode = 1;
        m.distances = vec![vec![10, distance], vec![distance, 10]];
        let host = host();
        let (alloc, cx) = boot_on(&host, &m, &policy(preset));
        for zone in alloc.populated_zones() {
            fake_free(zone, 0);
        }
        let relief = Fake::default();
        assert_eq!(alloc0(&alloc, &cx, &relief, Gfp::KSWAPD_RECLAIM), None);
        relief.calls().contains(&Call::NodeReclaim(1))
    };
    assert_eq!((asked(30, "6.1"), asked(31, "6.1")), (true, false));
    assert_eq!((asked(29, "4.3"), asked(30, "4.3")), (true, false));
}

#[test]
fn nobody_frees_into_another_nodes_list() {
    let host = host();
    let (alloc, cx) = boot_on(&host, &nodes(2), &policy("6.1"));
    let local = get(&alloc, &cx, Gfp::GFP_KERNEL, 0);
    let remote = alloc.alloc(&cx, &NoRelief, Gfp::GFP_KERNEL, Order(0), NodeId(1), None).unwrap();
    let before: Vec<u32> =
        alloc.populated_zones().map(|z| alloc.pcp_count(z, CpuId(0), CpuId(0))).collect();
    alloc.free_list(&cx, &[local, remote]).unwrap();
    let after: Vec<u32> =
        alloc.populated_zones().map(|z| alloc.pcp_count(z, CpuId(0), CpuId(0))).collect();
    assert_eq!(after[0], before[0]);
    assert_eq!((after[1], after[2]), (before[1] + 1, before[2] + 1));
    assert!(alloc.zone_of(Pfn(0)).is_none_or(|z| !z.spans(Pfn(0))));
}
