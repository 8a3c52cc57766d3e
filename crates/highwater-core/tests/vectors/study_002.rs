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
