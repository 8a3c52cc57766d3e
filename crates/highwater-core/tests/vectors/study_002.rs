//! Study 002's three stages (rules/per-cpu-lists#study-002): blocks allocated on one CPU, freed on
//! another.

use std::collections::BTreeMap;

use highwater_core::host::{CpuId, Cx};
use highwater_core::page::{Order, Pfn};
use highwater_core::page_alloc::Gfp;

use crate::common::*;

const ROUNDS: usize = 20_000;
const ORDER: u8 = 3;

struct Stage {
    /// Zone-lock takings on the allocating and on the freeing CPU.
    locks: (u64, u64),
    /// Distinct blocks.
    frames: usize,
    /// Uses of the most used block.
    hottest: u32,
    /// At which free how many blocks were drained.
    overflows: Vec<(usize, usize)>,
}

fn run(preset: &str) -> Stage {
    let host = host();
    let m = one_zone(4096, 4096 + (1 << 18), 2);
    let (alloc, sender) = boot_on(&host, &m, &policy(preset));
    only_zone(&alloc).set_pcp_sizes(63, 6928);
    let receiver = Cx::new(&host, CpuId(1));
    let mut uses: BTreeMap<Pfn, u32> = BTreeMap::new();
    let (mut locks, mut overflows) = ((0, 0), Vec::new());
    for round in 1..=ROUNDS {
        let before = zone_locks(&host);
        let pfn = get(&alloc, &sender, Gfp::GFP_KERNEL, ORDER);
        *uses.entry(pfn).or_default() += 1;
        let between = zone_locks(&host);
        alloc.free(&receiver, pfn, Order(ORDER)).unwrap();
        locks.0 += between - before;
        locks.1 += zone_locks(&host) - between;
        match drained(&events(&host)) {
            0 => {}
            n => overflows.push((round, n)),
        }
    }
    let hottest = uses.values().copied().max().unwrap();
    Stage { locks, frames: uses.len(), hottest, overflows }
}

#[test]
fn order_0_lists_only() {
    let stage = run("5.17-order0-pcp");
    assert_eq!((stage.locks, stage.frames, stage.hottest), ((20_000, 20_000), 1, 20_000));
}

#[test]
fn high_orders_cached() {
    let stage = run("5.17");
    assert_eq!((stage.locks, stage.frames, stage.hottest), ((2858, 29), 896, 24));
    let first = [
        (866, 8),
        (874, 16),
        (890, 32),
        (922, 63),
        (985, 126),
        (1111, 252),
        (1363, 504),
        (1867, 859),
    ];
    assert_eq!(stage.overflows[..8], first);
    for pair in stage.overflows[7..].windows(2) {
        assert_eq!((pair[1].0 - pair[0].0, pair[1].1), (859, 859));
    }
}

#[test]
fn high_orders_limited() {
    let stage = run("5.18");
    assert_eq!((stage.locks, stage.frames, stage.hottest), ((2858, 19_135), 868, 2735));
    assert_eq!(stage.overflows[..2], [(866, 8), (867, 859)]);
    let rest = &stage.overflows[2..];
    assert!(rest.iter().enumerate().all(|(i, &(at, n))| (at, n) == (868 + i, 1)));
    assert_eq!(rest.len(), ROUNDS - 867);
}

/// rules/per-cpu-lists#adaptive. The receiver's limit falls to a batch, and it gives back a batch at a time.
#[test]
fn high_orders_adaptive() {
    let stage = run("pcp-adaptive");
    assert_eq!((stage.locks, stage.frames, stage.hottest), ((2858, 2345), 896, 1336));
    let falls = [433, 433, 218, 109, 55, 28, 15, 8];
    assert!(stage.overflows.iter().zip(falls).all(|(&(_, blocks), fall)| blocks == fall));
    for pair in stage.overflows[falls.len()..].windows(2) {
        assert_eq!((pair[1].0 - pair[0].0, pair[1].1), (8, 8));
    }
}

/// Zone-lock takings of a CPU that allocates and frees 400 blocks at a time, in its last of 20 rounds.
fn in_bursts(preset: &str) -> u64 {
    let host = host();
    let m = one_zone(4096, 4096 + (1 << 18), 2);
    let (alloc, cx) = boot_on(&host, &m, &policy(preset));
    only_zone(&alloc).set_pcp_sizes(63, 6928);
    let mut last = 0;
    for _ in 0..20 {
        let before = zone_locks(&host);
        let blocks: Vec<Pfn> = (0..400).map(|_| get(&alloc, &cx, Gfp::GFP_KERNEL, ORDER)).collect();
        blocks.into_iter().for_each(|pfn| alloc.free(&cx, pfn, Order(ORDER)).unwrap());
        last = zone_locks(&host) - before;
    }
    last
}

/// The other way round: what comes back is kept, by whatever rule.
#[test]
fn bursts_stay_on_the_cpu() {
    assert_eq!(["5.17", "5.18", "pcp-adaptive", "5.17-order0-pcp"].map(in_bursts), [0, 0, 0, 800]);
}

/// A CPU that was a receiver and begins to want back what it frees learns that.
#[test]
fn a_limit_that_fell_rises_again() {
    let host = host();
    let m = one_zone(4096, 4096 + (1 << 18), 2);
    let (alloc, sender) = boot_on(&host, &m, &policy("pcp-adaptive"));
    only_zone(&alloc).set_pcp_sizes(63, 6928);
    let receiver = Cx::new(&host, CpuId(1));
    for _ in 0..2000 {
        let pfn = get(&alloc, &sender, Gfp::GFP_KERNEL, ORDER);
        alloc.free(&receiver, pfn, Order(ORDER)).unwrap();
    }
    let mut rounds = Vec::new();
    for _ in 0..12 {
        let before = zone_locks(&host);
        let blocks: Vec<Pfn> =
            (0..400).map(|_| get(&alloc, &receiver, Gfp::GFP_KERNEL, ORDER)).collect();
        blocks.into_iter().for_each(|pfn| alloc.free(&receiver, pfn, Order(ORDER)).unwrap());
        rounds.push(zone_locks(&host) - before);
    }
    assert_eq!(rounds, [[57].as_slice(), &[0; 11]].concat());
}
