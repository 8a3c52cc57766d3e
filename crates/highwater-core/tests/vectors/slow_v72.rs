//! The slow path of 7.2 (rules/slow-path#v72).

use highwater_core::config::{Policy, SlowPathRounds};
use highwater_core::host::{CpuId, TaskFlags};
use highwater_core::page_alloc::CompactPriority::{Async, SyncLight};
use highwater_core::page_alloc::{CompactResult, Gfp};
use highwater_core::vmstat::ZoneStat;

use super::slow::{Stage, rounds};
use crate::common::relief::{Call, Fake};
use crate::common::*;

const KERNEL: Gfp = Gfp::GFP_KERNEL;

/// 6.1 with the slow path of 7.2.
fn since_72() -> Policy {
    let mut policy = policy("6.1");
    policy.slow_path.rounds = SlowPathRounds::CompactFirst;
    policy
}

#[test]
fn the_first_round_only_compacts() {
    let calls = |result, gfp: Gfp, order: u8| {
        let s = Stage::with(&since_72()).emptied();
        let relief = Fake::default();
        relief.compaction.set(result);
        s.fails(&relief, KERNEL | gfp, order)
    };
    let (early, reclaim) = (Call::Compact(Async), Call::Reclaim);
    // Costly and NORETRY: skipped or deferred, it goes on as after any other failure.
    let (noretry, node) = (Gfp::NORETRY, Gfp::THISNODE);
    for result in [CompactResult::Skipped, CompactResult::Deferred, CompactResult::Complete] {
        assert_eq!(calls(result, noretry, 9), [early, reclaim, early], "{result:?}");
        assert_eq!(calls(result, noretry | node, 9), [early], "{result:?}");
        assert_eq!(calls(result, node, 9), [early, reclaim, Call::Compact(SyncLight)]);
    }
    let skipped = CompactResult::Skipped;
    let light = [reclaim, Call::Compact(SyncLight)];
    assert_eq!(calls(skipped, Gfp::empty(), 9), [&[early], &light[..]].concat());
    assert_eq!(calls(skipped, noretry, 3), [early, reclaim, early], "not costly: the same");
    assert_eq!(calls(skipped, noretry | Gfp::MOVABLE, 3), light);
    assert_eq!(calls(skipped, noretry, 0), [reclaim]);
    // Without IO no compaction begins, and an ordinary round has one.
    let s = Stage::with(&since_72()).emptied();
    assert_eq!(s.fails(&Fake::default(), Gfp::GFP_NOIO, 9), light);

    // A victim compacts first too, if its half of MIN has no block.
    let first = |policy: &Policy| {
        let s = Stage::with(policy).emptied();
        s.cx.set_flags(TaskFlags::OOM_VICTIM);
        s.fails(&Fake::default(), KERNEL | noretry, 9)[0]
    };
    assert_eq!(first(&since_72()), early);
    assert_eq!(first(&policy("6.1")), reclaim);
}

#[test]
fn rounds_of_72_wake_kswapd_and_pass_once() {
    let s = Stage::with(&since_72()).emptied();
    let relief = Fake::default();
    let asked = |gfp, order| {
        assert!(!s.ask(&relief, gfp, order));
        relief.calls()
    };
    let wake = |order| Call::Wake(0, order);
    assert_eq!(asked(Gfp::GFP_NOWAIT, 0), [wake(0)], "one pass");
    assert_eq!(asked(Gfp::GFP_ATOMIC, 2), [wake(2); 2], "it may leave its cpuset: once more");
    assert_eq!(asked(Gfp::empty(), 0), []);
    let (compact, reclaim) = (Call::Compact, Call::Reclaim);
    let large = [wake(9), compact(Async), wake(9), reclaim, compact(Async)];
    assert_eq!(asked(KERNEL | Gfp::NORETRY, 9), large);
    assert_eq!(asked(KERNEL | Gfp::NORETRY, 0), [wake(0), reclaim]);
    // The reserves are tried in the second pass.
    s.cx.set_flags(TaskFlags::MEMALLOC);
    assert!(s.ask(&relief, KERNEL, 0));
    assert_eq!(relief.calls(), [wake(0); 2]);

    let s = Stage::with(&since_72()).emptied();
    let zone = only_zone(&s.alloc);
    zone.stats.add(CpuId(0), ZoneStat::ZoneInactiveFile as usize, s.min() as i64 + 1);
    let mut expected = rounds(17, &[wake(0), reclaim]);
    expected.push(Call::Kill);
    assert!(!s.ask(&relief, KERNEL, 0));
    assert_eq!(relief.calls(), expected, "one wake for each round");
}

#[test]
fn victims_and_nofail_in_rounds_of_72() {
    let at_min = || {
        let s = Stage::with(&since_72());
        fake_free(only_zone(&s.alloc), s.min());
        s
    };
    let s = at_min();
    let relief = Fake::default();
    relief.kills.set(true);
    relief.victim.set(true);
    assert!(s.ask(&relief, KERNEL, 0), "MIN pages are enough for a victim");
    assert_eq!(relief.hard_calls().last(), Some(&Call::Kill));
    let s = Stage::with(&since_72()).emptied();
    assert_eq!(s.fails(&relief, KERNEL, 0), rounds(2, &[Call::Reclaim, Call::Kill]));
    // NOFAIL does not end after early compaction: its next round reclaims.
    let s = Stage::with(&since_72()).emptied();
    let relief = Fake::default();
    relief.on_relief(|alloc| fake_free(only_zone(alloc), 10_000));
    relief.reclaimed.set(32);
    let gfp = KERNEL | Gfp::NOFAIL | Gfp::NORETRY | Gfp::THISNODE;
    assert!(s.ask(&relief, gfp, 3));
    assert_eq!(relief.hard_calls(), [Call::Compact(Async), Call::Reclaim]);
}

/// rules/node-pass#reclaimable
#[test]
fn free_pages_are_not_reclaimable() {
    let rounds_at_min = |falls_back, file_pages| {
        let mut policy = policy("6.1");
        policy.reclaim.free_page_fallback = falls_back;
        let s = Stage::with(&policy);
        let zone = only_zone(&s.alloc);
        zone.stats.add(CpuId(0), ZoneStat::ZoneInactiveFile as usize, file_pages);
        fake_free(zone, s.min());
        let calls = s.fails(&Fake::default(), KERNEL, 0);
        calls.iter().filter(|call| **call == Call::Reclaim).count()
    };
    assert_eq!((rounds_at_min(true, 0), rounds_at_min(false, 0)), (17, 1));
    assert_eq!((rounds_at_min(true, 1), rounds_at_min(false, 1)), (17, 17), "MIN + 1 would do");
}
