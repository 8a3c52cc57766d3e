//! What each memory policy makes of a request (rules/memory-policies#allocation).

use highwater_core::config::{Machine, ZoneSpec};
use highwater_core::host::{CpuId, Cx, TaskFlags};
use highwater_core::page::{Order, Pfn};
use highwater_core::page_alloc::{Gfp, NoRelief, Wish};
use highwater_core::vmstat::NumaStat;
use highwater_core::zone::{MemoryPolicy, NodeId, NodeMask, ZoneType};

use crate::common::*;

const PAGES: u64 = 8192;
const USER: Gfp = Gfp::GFP_HIGHUSER_MOVABLE;

/// Three nodes, a CPU and a NORMAL zone each; node 0 has a DMA32 zone too.
fn three() -> Machine {
    let normal = |i: u64| ZoneSpec::full(ZoneType::Normal, (1 << 20) + i * PAGES, PAGES);
    machine(vec![
        node(&[0], &[ZoneSpec::full(ZoneType::Dma32, 4096, PAGES), normal(0)]),
        node(&[1], &[normal(1)]),
        node(&[2], &[normal(2)]),
    ])
}

fn set(nodes: &[u16]) -> NodeMask {
    nodes.iter().fold(NodeMask::EMPTY, |mask, &node| mask.with(NodeId(node)))
}

fn node_of(alloc: &Alloc, page: Option<Pfn>) -> Option<u16> {
    page.map(|pfn| place(alloc, pfn).0)
}

/// Takes a page by the task's policy.
fn take(alloc: &Alloc, cx: &Cx<'_, Host>, gfp: Gfp) -> Option<u16> {
    node_of(alloc, alloc.alloc_wished(cx, &NoRelief, gfp, Order(0), Wish::Task))
}

fn count(alloc: &Alloc, node: u16, item: NumaStat) -> u64 {
    alloc.zones_of(NodeId(node)).map(|zone| zone.numa_stat(item)).sum()
}

fn fill(alloc: &Alloc, node: u16) {
    alloc.zones_of(NodeId(node)).for_each(|zone| fake_free(zone, 0));
}

#[test]
fn each_kind_begins_where_it_says() {
    let host = host();
    let (alloc, cx) = boot_on(&host, &three(), &policy("6.1"));
    assert_eq!(take(&alloc, &cx, USER), Some(0));
    cx.set_memory_policy(MemoryPolicy::Preferred(NodeId(1)));
    assert_eq!(take(&alloc, &cx, USER), Some(1));
    let seen = [NumaStat::NumaHit, NumaStat::NumaMiss, NumaStat::NumaLocal, NumaStat::NumaOther];
    assert_eq!(seen.map(|item| count(&alloc, 1, item)), [1, 0, 0, 1]);
    cx.set_memory_policy(MemoryPolicy::Bind(set(&[1])));
    assert_eq!(take(&alloc, &cx, USER), Some(1));
    cx.set_memory_policy(MemoryPolicy::PreferredMany(set(&[1, 2])));
    assert_eq!(take(&alloc, &cx, USER), Some(1));
    // The interrupted task does not matter.
    cx.set_memory_policy(MemoryPolicy::Bind(set(&[1])));
    cx.set_flags(TaskFlags::IN_INTERRUPT);
    assert_eq!(take(&alloc, &cx, Gfp::GFP_ATOMIC), Some(0));
}

#[test]
fn areas_interleave_by_page_tasks_by_turn() {
    let host = host();
    let (alloc, cx) = boot_on(&host, &three(), &policy("6.1"));
    cx.set_memory_policy(MemoryPolicy::Interleave(set(&[0, 2])));
    let turns = [(); 4].map(|()| take(&alloc, &cx, USER));
    assert_eq!(turns, [Some(0), Some(2), Some(0), Some(2)]);
    let interleaved = |node| count(&alloc, node, NumaStat::NumaInterleave);
    assert_eq!([interleaved(0), interleaved(1), interleaved(2)], [2, 0, 2]);
    // The area has no policy of its own: the task's, by its pages.
    let at = |policy, page, order| {
        let wish = Wish::Vma { policy, page };
        node_of(&alloc, alloc.alloc_wished(&cx, &NoRelief, USER, Order(order), wish))
    };
    let own = MemoryPolicy::Default;
    assert_eq!([at(own, 3, 0), at(own, 3, 0), at(own, 4, 0)], [Some(2), Some(2), Some(0)]);
    assert_eq!(at(own, 4, 2), Some(2), "the second block of four pages");
    assert_eq!(at(MemoryPolicy::Preferred(NodeId(1)), 3, 0), Some(1), "the area's own goes first");
}

#[test]
fn a_full_node_stops_a_binding_only() {
    let run = |kind: MemoryPolicy, full: &[u16]| {
        let host = host();
        let (alloc, cx) = boot_on(&host, &three(), &policy("6.1"));
        full.iter().for_each(|&node| fill(&alloc, node));
        cx.set_memory_policy(kind);
        let pages =
            [(); 2].map(|()| take(&alloc, &cx, Gfp::GFP_NOWAIT | Gfp::MOVABLE | Gfp::HIGHMEM));
        let sums = [NumaStat::NumaMiss, NumaStat::NumaForeign, NumaStat::NumaInterleave];
        (pages, [0, 1, 2].map(|node| sums.map(|item| count(&alloc, node, item))))
    };
    let (pages, seen) = run(MemoryPolicy::Preferred(NodeId(1)), &[1]);
    assert_eq!((pages, seen), ([Some(2); 2], [[0, 0, 0], [0, 2, 0], [2, 0, 0]]));
    let (pages, seen) = run(MemoryPolicy::Interleave(set(&[0, 1])), &[1]);
    assert_eq!((pages, seen), ([Some(0), Some(2)], [[0, 0, 1], [0, 1, 0], [1, 0, 0]]));
    assert_eq!(run(MemoryPolicy::Bind(set(&[1])), &[1]).0, [None; 2]);
    assert_eq!(run(MemoryPolicy::PreferredMany(set(&[1, 2])), &[1, 2]).0, [Some(0); 2]);
}

#[test]
fn a_binding_is_for_the_highest_zones() {
    let host = host();
    let (alloc, cx) = boot_on(&host, &three(), &policy("6.1"));
    let bound = set(&[1]);
    assert_eq!(alloc.binding(&cx, USER, bound), Some(bound));
    assert_eq!(alloc.binding(&cx, Gfp::GFP_KERNEL, bound), Some(bound));
    assert_eq!(alloc.binding(&cx, Gfp::GFP_KERNEL | Gfp::DMA32, bound), None);
    cx.set_memory_policy(MemoryPolicy::Bind(bound));
    assert_eq!(take(&alloc, &cx, Gfp::GFP_KERNEL | Gfp::DMA32), Some(0));
    let elsewhere = Cx::new(&host, CpuId(0));
    elsewhere.set_mems_allowed(set(&[2]));
    assert_eq!(alloc.binding(&elsewhere, USER, bound), None, "nothing of it is left");
}
