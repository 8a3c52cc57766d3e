//! Beyond study 002: CPUs that own pageblocks (rules/per-cpu-lists#owned-blocks).

use std::collections::BTreeSet;

use highwater_core::audit;
use highwater_core::host::{CpuId, Cx, Host, Lock};
use highwater_core::page::{Order, Pfn};
use highwater_core::page_alloc::{Gfp, PageAllocator};
use highwater_core::sync::order::LockClass;

use crate::common::*;

/// Calls `body` with a zone of 2^18 pages whose lists hold `high`, and its two CPUs.
macro_rules! stage {
    ($preset:expr, $high:expr, $host:ident, $alloc:ident, $a:ident, $b:ident) => {
        let $host = host();
        let m = one_zone(4096, 4096 + (1 << 18), 2);
        let ($alloc, $a) = boot_on(&$host, &m, &policy($preset));
        only_zone(&$alloc).set_pcp_sizes(63, $high);
        let $b = Cx::new(&$host, CpuId(1));
        assert_eq!(($a.cpu(), $b.cpu()), (CpuId(0), CpuId(1)));
    };
}

fn free<H: Host>(alloc: &PageAllocator<H>, cx: &Cx<'_, H>, pages: Vec<Pfn>, order: u8) {
    for pfn in pages {
        alloc.free(cx, pfn, Order(order)).unwrap();
    }
}

#[test]
fn allocate_here_free_there_needs_one_zone_lock() {
    stage!("pcp-blocks", 6928, host, alloc, a, b);
    let (zone, pcp) = (zone_locks(&host), host.takings(LockClass::Pcp));
    let mut frames = BTreeSet::new();
    for _ in 0..20_000 {
        let pfn = get(&alloc, &a, Gfp::GFP_KERNEL, 3);
        frames.insert(pfn);
        alloc.free(&b, pfn, Order(3)).unwrap();
    }
    assert_eq!((zone_locks(&host) - zone, frames.len()), (1, 1));
    assert_eq!(host.takings(LockClass::Pcp) - pcp, 40_000);
    assert_eq!(only_zone(&alloc).owner(*frames.first().unwrap()), Some(CpuId(0)));
    audit::check(&alloc, &a).unwrap();
}

#[test]
fn every_order_is_served_from_what_is_owned() {
    stage!("pcp-blocks", 6928, host, alloc, a, b);
    let free_before = only_zone(&alloc).nr_free_pages_exact();
    let zone = zone_locks(&host);
    let held: Vec<_> = (0..9).map(|o| (get(&alloc, &a, Gfp::GFP_KERNEL, o), o)).collect();
    assert_eq!(zone_locks(&host) - zone, 1);
    assert!(held.iter().all(|(pfn, _)| pfn.0 >> 9 == held[0].0.0 >> 9));
    // Not free for the zone, whether in use or not.
    assert_eq!(only_zone(&alloc).nr_free_pages_exact(), free_before - 512);
    assert_eq!(alloc.pcp_count(only_zone(&alloc), CpuId(0), CpuId(0)), 1);
    audit::check(&alloc, &a).unwrap();
    for (pfn, order) in held {
        alloc.free(&b, pfn, Order(order)).unwrap();
        audit::check(&alloc, &a).unwrap();
    }
    // Whole again, and kept.
    let lists = only_zone(&alloc).cpus[0].pcp.lock(CpuId(0));
    assert_eq!(lists.owned().lists().filter(|(.., list)| !list.is_empty()).count(), 1);
    assert_eq!((lists.owned().pages(), lists.count()), (512, 0));
}

#[test]
fn a_block_that_is_whole_again_goes_back_in_one_hold() {
    // Room for one pageblock, less than two.
    stage!("pcp-blocks", 1000, host, alloc, a, b);
    let before = only_zone(&alloc).nr_free_pages_exact();
    // Two pageblocks: what is in use does not count.
    let pages: Vec<_> = (0..128).map(|_| get(&alloc, &a, Gfp::GFP_KERNEL, 3)).collect();
    let blocks: BTreeSet<u32> = pages.iter().map(|pfn| pfn.0 >> 9).collect();
    assert_eq!(blocks.len(), 2);
    let zone = zone_locks(&host);
    free(&alloc, &b, pages, 3);
    assert_eq!(zone_locks(&host) - zone, 1, "one went back");
    assert_eq!(only_zone(&alloc).nr_free_pages_exact(), before - 512);
    let owned = |block: &&u32| only_zone(&alloc).owner(Pfn(**block << 9)).is_some();
    assert_eq!(blocks.iter().filter(owned).count(), 1);
    audit::check(&alloc, &a).unwrap();
}

#[test]
fn lists_smaller_than_a_pageblock_own_none() {
    stage!("pcp-blocks", 511, host, alloc, a, b);
    let pfn = get(&alloc, &a, Gfp::GFP_KERNEL, 3);
    assert_eq!(only_zone(&alloc).owner(pfn), None);
    assert_eq!(alloc.pcp_count(only_zone(&alloc), CpuId(0), CpuId(0)), 48);
    alloc.free(&b, pfn, Order(3)).unwrap();
    assert_eq!(alloc.pcp_count(only_zone(&alloc), CpuId(1), CpuId(0)), 8);
}

#[test]
fn a_drain_dissolves_and_pages_in_use_become_nobodys() {
    stage!("pcp-blocks", 6928, host, alloc, a, b);
    let before = only_zone(&alloc).nr_free_pages_exact();
    let pages: Vec<_> = (0..3).map(|_| get(&alloc, &a, Gfp::GFP_KERNEL, 0)).collect();
    alloc.drain_all(&b, None);
    assert_eq!(only_zone(&alloc).owner(pages[0]), None);
    assert_eq!(only_zone(&alloc).nr_free_pages_exact(), before - 3);
    audit::check(&alloc, &a).unwrap();
    free(&alloc, &b, pages, 0);
    assert_eq!(alloc.pcp_count(only_zone(&alloc), CpuId(1), CpuId(0)), 3);
    alloc.drain_all(&b, None);
    assert_eq!(only_zone(&alloc).nr_free_pages_exact(), before);
    audit::check(&alloc, &a).unwrap();
}

#[test]
fn a_list_free_takes_the_owners_lock_once_per_run() {
    stage!("pcp-blocks", 6928, host, alloc, a, b);
    let pages: Vec<_> = (0..40).map(|_| get(&alloc, &a, Gfp::GFP_KERNEL, 0)).collect();
    let (zone, pcp) = (zone_locks(&host), host.takings(LockClass::Pcp));
    alloc.free_list(&b, &pages).unwrap();
    assert_eq!((zone_locks(&host) - zone, host.takings(LockClass::Pcp) - pcp), (0, 2));
    audit::check(&alloc, &a).unwrap();
}
