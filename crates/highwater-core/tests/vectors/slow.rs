//! The slow path's decisions (rules/slow-path#restart) with a relief that records what it is asked
//! for.

use highwater_core::config::{BoostExempt, CompactionStalls, Policy, ZoneSpec};
use highwater_core::host::{CpuId, Cx, NS_PER_JIFFY, TaskFlags};
use highwater_core::page::{MigrateType, Order, Pfn};
use highwater_core::page_alloc::CompactPriority::{Async, SyncFull, SyncLight};
use highwater_core::page_alloc::{CompactResult, Gfp, Relief};
use highwater_core::vmstat::{VmEvent, ZoneStat};
use highwater_core::zone::{NodeId, ZoneType};

use crate::common::relief::{Call, Fake};
use crate::common::*;

const KERNEL: Gfp = Gfp::GFP_KERNEL;

/// A zone whose counter says that so many pages are free, of blocks that exist.
pub(super) struct Stage {
    pub(super) alloc: Alloc,
    pub(super) cx: Cx<'static, Host>,
    host: &'static Host,
}

impl Stage {
    fn new(preset: &str) -> Stage {
        Stage::with(&policy(preset))
    }

    pub(super) fn with(policy: &Policy) -> Stage {
        let host: &'static Host = Box::leak(Box::new(host()));
        let (alloc, cx) = boot_on(host, &one_zone(4096, 4096 + (1 << 16), 2), policy);
        Stage { alloc, cx, host }
    }

    /// Nothing free by the counter.
    fn empty(preset: &str) -> Stage {
        Stage::new(preset).emptied()
    }

    pub(super) fn emptied(self) -> Stage {
        fake_free(only_zone(&self.alloc), 0);
        self
    }

    /// Exactly MIN pages free: not enough, but twice that would be.
    fn at_min(preset: &str) -> Stage {
        let s = Stage::new(preset);
        fake_free(only_zone(&s.alloc), s.min());
        s
    }

    /// Half of the pages free, every second one.
    fn fragmented(preset: &str) -> Stage {
        let s = Stage::new(preset);
        let pages = s.take_everything();
        for pfn in pages.iter().filter(|p| p.0 % 2 == 0) {
            s.alloc.free(&s.cx, *pfn, Order(0)).unwrap();
        }
        s.alloc.drain_all(&s.cx, None);
        s
    }

    pub(super) fn min(&self) -> u64 {
        only_zone(&self.alloc).marks().min
    }

    fn take_everything(&self) -> Vec<Pfn> {
        let old = self.cx.set_flags(TaskFlags::MEMALLOC);
        let gfp = Gfp::GFP_NOWAIT;
        let page = || alloc0(&self.alloc, &self.cx, &Fake::default(), gfp);
        let pages: Vec<Pfn> = std::iter::from_fn(page).collect();
        self.cx.set_flags(old);
        assert_eq!(only_zone(&self.alloc).nr_free_pages_exact(), 0);
        pages
    }

    pub(super) fn ask<R: Relief<Host>>(&self, relief: &R, gfp: Gfp, order: u8) -> bool {
        self.alloc.alloc(&self.cx, relief, gfp, Order(order), NodeId(0), None).is_some()
    }

    /// Asks in vain; what was asked for, wakeups left out.
    pub(super) fn fails(&self, relief: &Fake, gfp: Gfp, order: u8) -> Vec<Call> {
        assert!(!self.ask(relief, gfp, order), "{gfp} order {order} got a page");
        relief.hard_calls()
    }

    fn event(&self, event: VmEvent) -> u64 {
        self.alloc.events.read(event)
    }
}

pub(super) fn rounds(n: usize, calls: &[Call]) -> Vec<Call> {
    std::iter::repeat_n(calls, n).flatten().copied().collect()
}

#[test]
fn non_blocking_requests_wake_kswapd_and_try_twice() {
    let s = Stage::empty("6.1");
    let relief = Fake::default();
    assert!(!s.ask(&relief, Gfp::GFP_NOWAIT, 0));
    assert_eq!(relief.calls(), [Call::Wake(0, 0); 2]);
    assert!(!s.ask(&relief, Gfp::GFP_ATOMIC, 2));
    assert_eq!(relief.calls(), [Call::Wake(0, 2); 2]);
    assert!(!s.ask(&relief, Gfp::empty(), 0));
    assert_eq!(relief.calls(), []);
}

#[test]
fn one_wakeup_per_change_of_node() {
    let host = host();
    let zone = |kind, at| ZoneSpec::full(kind, at, 4096);
    let n0 = [zone(ZoneType::Dma32, 4096), zone(ZoneType::Normal, 1 << 20)];
    let n1 = [zone(ZoneType::Normal, (1 << 20) + 4096)];
    let m = machine(vec![node(&[0], &n0), node(&[1], &n1)]);
    let (alloc, cx) = boot_on(&host, &m, &policy("6.1"));
    alloc.populated_zones().for_each(|z| fake_free(z, 0));
    let relief = Fake::default();
    assert!(alloc0(&alloc, &cx, &relief, Gfp::GFP_NOWAIT).is_none());
    let expected = [Call::Wake(0, 0), Call::Wake(1, 0)];
    assert_eq!(relief.calls(), rounds(2, &expected));
}

#[test]
fn noretry_makes_one_pass() {
    for reclaimed in [0, 32] {
        let s = Stage::at_min("6.1");
        let relief = Fake::default();
        relief.reclaimed.set(reclaimed);
        assert_eq!(s.fails(&relief, KERNEL | Gfp::NORETRY, 0), [Call::Reclaim]);
    }
}

#[test]
fn small_requests_reclaim_sixteen_rounds_then_kill() {
    let s = Stage::at_min("6.1");
    let relief = Fake::default();
    let mut expected = rounds(17, &[Call::Reclaim]);
    expected.push(Call::Kill);
    assert_eq!(s.fails(&relief, KERNEL, 0), expected);
    // Nothing could suffice: straight to the killer.
    let s = Stage::empty("6.1");
    assert_eq!(s.fails(&relief, KERNEL, 0), [Call::Reclaim, Call::Kill]);
}

#[test]
fn progress_restarts_the_count_for_cheap_orders() {
    let s = Stage::at_min("6.1");
    let relief = Fake::default();
    relief.plan.borrow_mut().extend([0, 0, 0, 32]);
    let mut expected = rounds(4 + 17, &[Call::Reclaim]);
    expected.push(Call::Kill);
    assert_eq!(s.fails(&relief, KERNEL, 0), expected);
}

#[test]
fn workers_sleep_between_rounds() {
    let s = Stage::at_min("6.1");
    s.cx.set_flags(TaskFlags::WORKER);
    s.fails(&Fake::default(), KERNEL | Gfp::RETRY_MAYFAIL, 0);
    use highwater_core::host::Host as _;
    assert_eq!(s.host.now_ns(), 16 * NS_PER_JIFFY);
}

#[test]
fn reclaimable_pages_make_another_round_worth_it() {
    use highwater_core::vmstat::ZoneStat;
    let rounds_with = |item: ZoneStat, swap: bool| {
        let s = Stage::empty("6.1");
        let zone = only_zone(&s.alloc);
        zone.stats.add(CpuId(0), item as usize, s.min() as i64 + 1);
        let relief = Fake::default();
        relief.swap.set(swap);
        s.fails(&relief, KERNEL | Gfp::RETRY_MAYFAIL, 0).len()
    };
    assert_eq!(rounds_with(ZoneStat::ZoneInactiveFile, false), 17);
    assert_eq!(rounds_with(ZoneStat::ZoneActiveFile, false), 17);
    assert_eq!(rounds_with(ZoneStat::ZoneInactiveAnon, false), 1);
    assert_eq!(rounds_with(ZoneStat::ZoneActiveAnon, true), 17);
    assert_eq!(rounds_with(ZoneStat::ZoneUnevictable, true), 1);
}

/// Up to 5.15 a round without progress waits while more than half of what a zone that would do
/// could give is waiting to be written (rules/throttling#retry-wait).
#[test]
fn rounds_without_progress_wait_for_writes() {
    let waits = |preset: &str, pending: i64, plan: &[u64]| {
        let s = Stage::at_min(preset);
        let zone = only_zone(&s.alloc);
        zone.stats.add(CpuId(0), ZoneStat::ZoneInactiveFile as usize, 1000);
        zone.stats.add(CpuId(0), ZoneStat::ZoneWritePending as usize, pending);
        let relief = Fake::default();
        relief.plan.borrow_mut().extend(plan);
        s.fails(&relief, KERNEL, 0);
        relief.waits.take()
    };
    let before = "congestion-wait-5.15";
    assert_eq!(waits(before, 501, &[]), [(25, false); 16], "one between any two rounds");
    assert_eq!(waits(before, 500, &[]), []);
    assert_eq!(waits(before, 501, &[32, 32]), [(25, false); 16], "none after progress");
    assert_eq!(waits("events-5.16", 501, &[]), []);
    assert_eq!(waits("series-4", 501, &[]), [(25, false); 16]);
    assert_eq!(waits("series-5", 501, &[]), []);
}

#[test]
fn retry_mayfail_never_kills() {
    let s = Stage::at_min("6.1");
    let relief = Fake::default();
    let calls = s.fails(&relief, KERNEL | Gfp::RETRY_MAYFAIL, 0);
    assert_eq!(calls, rounds(17, &[Call::Reclaim]));
    // Costly: progress does not restart the count.
    let relief = Fake::default();
    relief.reclaimed.set(32);
    let calls = s.fails(&relief, KERNEL | Gfp::RETRY_MAYFAIL, 4);
    let mut expected = vec![Call::Compact(Async)];
    expected.extend(rounds(17, &[Call::Reclaim, Call::Compact(SyncLight)]));
    assert_eq!(calls, expected);
}

#[test]
fn costly_requests_make_one_pass() {
    let s = Stage::empty("6.1");
    let relief = Fake::default();
    let once = [Call::Compact(Async), Call::Reclaim, Call::Compact(SyncLight)];
    assert_eq!(s.fails(&relief, KERNEL, 9), once);
    // Without IO there is no early compaction (it always was there in 5.17).
    assert_eq!(s.fails(&relief, Gfp::GFP_NOIO, 9), once[1..]);
    let old = Stage::empty("5.17");
    assert_eq!(old.fails(&relief, Gfp::GFP_NOIO, 9), once);
    // A movable request of a cheap order does not compact early.
    let s = Stage::fragmented("6.1");
    let calls = s.fails(&relief, KERNEL | Gfp::MOVABLE | Gfp::NORETRY, 3);
    assert_eq!(calls, once[1..]);
}

#[test]
fn costly_noretry_depends_on_early_compaction() {
    let calls = |preset: &str, result, extra: Gfp| {
        let s = Stage::empty(preset);
        let relief = Fake::default();
        relief.compaction.set(result);
        s.fails(&relief, KERNEL | Gfp::NORETRY | extra, 9)
    };
    let (none, node) = (Gfp::empty(), Gfp::THISNODE);
    let early = vec![Call::Compact(Async)];
    let pass = vec![Call::Compact(Async), Call::Reclaim, Call::Compact(Async)];
    assert_eq!(calls("6.1", CompactResult::Skipped, none), early);
    assert_eq!(calls("6.1", CompactResult::Deferred, none), early);
    assert_eq!(calls("6.1", CompactResult::Complete, none), pass);
    assert_eq!(calls("6.1", CompactResult::Complete, node), early);
    assert_eq!(calls("5.17", CompactResult::Complete, node), pass);
}

#[test]
fn skipped_compaction_is_not_counted_deferred_is() {
    let counted = |result, stalls| {
        let mut policy = policy("6.1");
        policy.slow_path.compaction_stalls = stalls;
        let s = Stage::with(&policy).emptied();
        let relief = Fake::default();
        relief.compaction.set(result);
        s.fails(&relief, KERNEL | Gfp::NORETRY, 9);
        (s.event(VmEvent::CompactStall), s.event(VmEvent::CompactFail))
    };
    for (result, nr) in [
        (CompactResult::Skipped, [1, 0, 0]),
        (CompactResult::Deferred, [1, 1, 0]),
        (CompactResult::Complete, [2, 2, 2]),
        (CompactResult::Absent, [0, 0, 0]),
    ] {
        use CompactionStalls::{All, NotDeferred, NotSkipped};
        let got = [All, NotSkipped, NotDeferred].map(|stalls| counted(result, stalls));
        assert_eq!(got, nr.map(|nr| (nr, nr)), "{result:?}");
    }
}

#[test]
fn without_compaction_large_requests_end() {
    let rounds = |gfp, order| {
        let s = Stage::fragmented("6.1");
        let relief = Fake::default();
        relief.compaction.set(CompactResult::Absent);
        // As if compaction were all that was missing.
        relief.reclaimed.set(1);
        let calls = s.fails(&relief, KERNEL | gfp, order);
        assert_eq!(s.event(VmEvent::CompactStall), 0);
        calls.iter().filter(|call| **call == Call::Reclaim).count()
    };
    assert_eq!(rounds(Gfp::RETRY_MAYFAIL, 4), 1);
    assert_eq!(rounds(Gfp::NORETRY, 4), 0);
}

#[test]
fn compaction_retries_by_result() {
    let calls = |result, gfp: Gfp, order: u8, reclaimed| {
        let s = Stage::fragmented("6.1");
        let relief = Fake::default();
        relief.compaction.set(result);
        relief.reclaimed.set(reclaimed);
        s.fails(&relief, KERNEL | gfp, order)
    };
    let (none, mayfail) = (Gfp::empty(), Gfp::RETRY_MAYFAIL);
    let early = Call::Compact(Async);
    let light = [Call::Reclaim, Call::Compact(SyncLight)];
    let full = [Call::Reclaim, Call::Compact(SyncFull)];
    let script = |parts: &[Vec<Call>]| parts.concat();
    for result in [CompactResult::Complete, CompactResult::Partial, CompactResult::Deferred] {
        let expected = script(&[vec![early], light.into(), full.into(), vec![Call::Kill]]);
        assert_eq!(calls(result, none, 3, 32), expected, "{result:?} lowers the priority");
    }
    // Success without a page: 16 retries per priority.
    let expected = script(&[vec![early], rounds(17, &light), rounds(17, &full), vec![Call::Kill]]);
    assert_eq!(calls(CompactResult::Success, none, 3, 32), expected);
    // Costly: four, and never SYNC_FULL.
    let expected = script(&[vec![early], light.into()]);
    assert_eq!(calls(CompactResult::Complete, mayfail, 4, 32), expected);
    let expected = script(&[vec![early], rounds(5, &light)]);
    assert_eq!(calls(CompactResult::Success, mayfail, 4, 32), expected);
    // Reclaim made no progress: compaction is not tried again.
    let expected = script(&[vec![early], light.into(), vec![Call::Kill]]);
    assert_eq!(calls(CompactResult::Complete, none, 3, 0), expected);
}

#[test]
fn a_fatal_signal_ends_compaction() {
    let s = Stage::fragmented("6.1");
    s.cx.set_flags(TaskFlags::FATAL_SIGNAL);
    let relief = Fake::default();
    relief.reclaimed.set(32);
    relief.compaction.set(CompactResult::Success);
    let calls = s.fails(&relief, KERNEL, 3);
    let expected = [Call::Compact(Async), Call::Reclaim, Call::Compact(SyncLight), Call::Kill];
    assert_eq!(calls, expected);
}

#[test]
fn a_captured_block_is_the_answer() {
    let s = Stage::fragmented("6.1");
    let relief = Fake::default();
    relief.compaction.set(CompactResult::Success);
    // A block that compaction would have made, handed out by nobody else.
    let other = Stage::new("6.1");
    let block = get(&other.alloc, &other.cx, KERNEL, 3);
    relief.captured.set(Some(block));
    let page = other.alloc.alloc(&s.cx, &relief, KERNEL, Order(3), NodeId(0), None);
    assert_ne!(page, Some(block), "the fast path needs no compaction");
    fake_free(only_zone(&other.alloc), 0);
    let page = other.alloc.alloc(&other.cx, &relief, KERNEL, Order(3), NodeId(0), None);
    assert_eq!(page, Some(block));
    assert_eq!(relief.hard_calls(), [Call::Compact(Async), Call::Succeeded(1)]);
    assert_eq!(other.event(VmEvent::CompactSuccess), 1);
}

#[test]
fn reclaim_that_frees_ends_the_search() {
    let s = Stage::empty("6.1");
    let relief = Fake::default();
    relief.reclaimed.set(32);
    relief.on_relief(|alloc| fake_free(only_zone(alloc), 10_000));
    assert!(s.ask(&relief, KERNEL, 0));
    assert_eq!(relief.hard_calls(), [Call::Reclaim]);
    assert_eq!(s.event(VmEvent::AllocstallNormal), 1);
    fake_free(only_zone(&s.alloc), 0);
    assert!(s.ask(&relief, Gfp::GFP_HIGHUSER_MOVABLE, 0));
    assert_eq!(s.event(VmEvent::AllocstallMovable), 1, "the request's highest zone");
}

#[test]
fn after_reclaim_idle_lists_are_drained_once() {
    let s = Stage::new("6.1");
    only_zone(&s.alloc).set_pcp_sizes(63, 60_000);
    let pages = s.take_everything();
    let other = Cx::new(s.host, CpuId(1));
    for pfn in &pages[..4000] {
        s.alloc.free(&other, *pfn, Order(0)).unwrap();
    }
    let relief = Fake::default();
    assert_eq!(s.fails(&relief, KERNEL | Gfp::NORETRY, 0), [Call::Reclaim], "no progress");
    relief.reclaimed.set(1);
    assert!(s.ask(&relief, KERNEL, 0));
    assert_eq!(s.alloc.pcp_count(only_zone(&s.alloc), CpuId(1), CpuId(0)), 0);
}

#[test]
fn the_last_reserved_block_goes_only_by_force() {
    // Direct reclaim keeps one high-atomic pageblock (rules/slow-path#direct-reclaim); it goes only
    // before the request fails (rules/slow-path#reclaim-retry).
    let s = Stage::new("6.1");
    let zone = only_zone(&s.alloc);
    s.take_everything();
    s.alloc.convert_pageblock(&s.cx, zone, Pfn(4096), MigrateType::HighAtomic);
    for pfn in 4096..4608 {
        s.alloc.free(&s.cx, Pfn(pfn), Order(0)).unwrap();
    }
    s.alloc.drain_all(&s.cx, None);
    assert_eq!((zone.nr_reserved_highatomic(), zone.nr_free_pages_exact()), (512, 512));
    let relief = Fake::default();
    relief.reclaimed.set(1);
    s.fails(&relief, KERNEL | Gfp::NORETRY, 0);
    assert_eq!(zone.nr_reserved_highatomic(), 512);
    relief.reclaimed.set(0);
    s.fails(&relief, KERNEL | Gfp::RETRY_MAYFAIL, 3);
    assert_eq!(zone.nr_reserved_highatomic(), 0);
    assert_eq!(zone.pageblock_type(Pfn(4096)), MigrateType::Unmovable);
}

#[test]
fn memalloc_ignores_watermarks_and_never_reclaims() {
    let s = Stage::empty("6.1");
    let relief = Fake::default();
    s.cx.set_flags(TaskFlags::MEMALLOC);
    assert!(s.ask(&relief, KERNEL, 0));
    assert_eq!(s.fails(&relief, KERNEL | Gfp::NOMEMALLOC, 0), []);
    s.cx.set_flags(TaskFlags::empty());
    assert!(s.ask(&relief, KERNEL | Gfp::MEMALLOC, 0));
    assert_eq!(relief.hard_calls(), []);
    // In interrupt a task's privilege does not count, in softirq it does.
    s.cx.set_flags(TaskFlags::MEMALLOC | TaskFlags::IN_INTERRUPT);
    assert!(!s.ask(&relief, Gfp::GFP_NOWAIT, 0));
    s.cx.set_flags(TaskFlags::MEMALLOC | TaskFlags::IN_SOFTIRQ);
    assert!(s.ask(&relief, Gfp::GFP_NOWAIT, 0));
    // Nothing at all: even reserves end.
    s.cx.set_flags(TaskFlags::MEMALLOC);
    s.take_everything();
    assert_eq!(s.fails(&relief, KERNEL, 0), []);
}

#[test]
fn oom_victims_get_half_of_the_reserve_then_nothing() {
    let s = Stage::at_min("6.1");
    let relief = Fake::default();
    relief.kills.set(true);
    relief.victim.set(true);
    assert!(s.ask(&relief, KERNEL, 0), "MIN pages are enough for a victim");
    assert_eq!(relief.hard_calls().last(), Some(&Call::Kill));
    let s = Stage::empty("6.1");
    let calls = s.fails(&relief, KERNEL, 0);
    assert_eq!(calls, rounds(2, &[Call::Reclaim, Call::Kill]));
    s.cx.set_flags(TaskFlags::empty());
    let calls = s.fails(&relief, KERNEL | Gfp::NOMEMALLOC, 0);
    assert_eq!(calls, [Call::Reclaim, Call::Kill], "its reserves are off limits: once");
}

#[test]
fn who_may_not_kill() {
    let kills = |gfp: Gfp, order: u8, task: TaskFlags| {
        let s = Stage::empty("6.1");
        s.cx.set_flags(task);
        s.fails(&Fake::default(), gfp, order).contains(&Call::Kill)
    };
    let task = TaskFlags::empty();
    assert!(kills(KERNEL, 0, task));
    assert!(kills(KERNEL, 3, task));
    assert!(kills(Gfp::GFP_NOFS, 0, task));
    assert!(!kills(KERNEL, 4, task));
    assert!(!kills(KERNEL | Gfp::DMA32, 0, task));
    assert!(!kills(KERNEL | Gfp::THISNODE, 0, task));
    assert!(!kills(KERNEL | Gfp::RETRY_MAYFAIL, 0, task));
    assert!(!kills(KERNEL, 0, TaskFlags::DUMPING));
}

#[test]
fn a_kill_that_frees_memory_saves_the_request() {
    let s = Stage::empty("6.1");
    let relief = Fake::default();
    relief.kills.set(true);
    let killed = std::rc::Rc::new(std::cell::Cell::new(0));
    let seen = killed.clone();
    relief.on_relief(move |alloc| {
        seen.set(seen.get() + 1);
        if seen.get() == 2 {
            fake_free(only_zone(alloc), 10_000);
        }
    });
    assert!(s.ask(&relief, KERNEL, 0));
    assert_eq!(relief.hard_calls(), [Call::Reclaim, Call::Kill]);
}

#[test]
fn nofail_takes_the_reserves_and_else_waits_for_ever() {
    let s = Stage::empty("6.1");
    let relief = Fake::default();
    assert!(s.ask(&relief, KERNEL | Gfp::NOFAIL, 0));
    assert_eq!(relief.hard_calls(), [Call::Reclaim, Call::Kill]);
    // One that may not wait fails like any other.
    assert_eq!(s.fails(&relief, Gfp::GFP_NOWAIT | Gfp::NOFAIL, 0), []);
    // Nothing anywhere: rounds until the third killer's memory arrives.
    let s = Stage::new("6.1");
    let pages = s.take_everything();
    let (host, left) = (s.host, std::cell::Cell::new(5));
    relief.on_relief(move |alloc| {
        left.set(left.get() - 1);
        if left.get() == 0 {
            alloc.free(&Cx::new(host, CpuId(1)), pages[7], Order(0)).unwrap();
            alloc.drain_all(&Cx::new(host, CpuId(1)), None);
        }
    });
    assert!(s.ask(&relief, KERNEL | Gfp::NOFAIL, 0));
    assert_eq!(relief.hard_calls(), rounds(3, &[Call::Reclaim, Call::Kill]));
}

#[test]
fn costly_nofail_goes_back_to_retry_not_to_restart() {
    // rules/slow-path#nofail goes back to rules/slow-path#retry, so early compaction runs only once
    // and the priority stays.
    let s = Stage::fragmented("6.1");
    let relief = Fake::default();
    relief.compaction.set(CompactResult::Complete);
    let rounds_left = std::cell::Cell::new(4);
    let host = s.host;
    relief.on_relief(move |alloc| {
        rounds_left.set(rounds_left.get() - 1);
        if rounds_left.get() == 0 {
            // Free the odd pages of one order-4 block.
            for pfn in (4097..4112).step_by(2) {
                alloc.free(&Cx::new(host, CpuId(0)), Pfn(pfn), Order(0)).unwrap();
            }
            alloc.drain_all(&Cx::new(host, CpuId(0)), None);
        }
    });
    assert!(s.ask(&relief, KERNEL | Gfp::NOFAIL, 4));
    let calls = relief.hard_calls();
    let early = calls.iter().filter(|c| **c == Call::Compact(Async)).count();
    assert_eq!(early, 1, "{calls:?}");
}

#[test]
fn atomic_with_direct_reclaim_is_not_atomic() {
    // A caller bug: the boost is not ignored, HARDER is not given (5.17).
    let s = Stage::new("5.17");
    fake_free(only_zone(&s.alloc), s.min());
    let relief = Fake::default();
    assert!(!s.ask(&relief, KERNEL | Gfp::ATOMIC | Gfp::NORETRY, 0));
    assert!(s.ask(&relief, Gfp::KSWAPD_RECLAIM | Gfp::ATOMIC, 0));
}

#[test]
fn an_atomic_page_may_ignore_the_boost() {
    // rules/watermarks#fast-test: order 0, at MIN, boosted.
    let mut policy = policy("6.1");
    let mut gets = |exempt, free: &dyn Fn(u64) -> u64, gfp| {
        policy.watermark.boost_exempt = exempt;
        let s = Stage::with(&policy);
        let zone = only_zone(&s.alloc);
        let min = s.min();
        zone.set_boost(2 * min);
        fake_free(zone, free(min));
        s.ask(&Fake::default(), gfp, 0)
    };
    use BoostExempt::{Atomic, High};
    // Without the boost MIN; with HIGH and without waiting 3/8 of it.
    let least = |min: u64| (min - min / 2) - (min - min / 2) / 4;
    assert!(gets(Atomic, &|min| least(min) + 1, Gfp::GFP_ATOMIC));
    assert!(!gets(Atomic, &|min| least(min), Gfp::GFP_ATOMIC));
    let high = Gfp::HIGH | Gfp::KSWAPD_RECLAIM;
    assert!(!gets(Atomic, &|min| min, high), "3/8 of 3 MIN");
    assert!(gets(High, &|min| min, high));
    assert!(gets(High, &|min| min, Gfp::GFP_ATOMIC), "it has HIGH");
    assert!(!gets(High, &|min| min, Gfp::GFP_NOWAIT));
}

#[test]
fn skipped_compaction_waits_for_room() {
    // rules/slow-path#compaction-room: order 0 above MIN + 2 * 2^3, with a third of what is
    // reclaimable.
    let retries = |free_above_min: u64| {
        use highwater_core::vmstat::ZoneStat;
        let s = Stage::fragmented("6.1");
        let zone = only_zone(&s.alloc);
        zone.stats.set_threshold(0);
        zone.stats.add(CpuId(0), ZoneStat::ZoneInactiveFile as usize, 3);
        fake_free(zone, s.min() + free_above_min);
        let relief = Fake::default();
        relief.plan.borrow_mut().extend([32, 32]);
        let calls = s.fails(&relief, KERNEL, 3);
        calls.iter().filter(|c| **c == Call::Reclaim).count() - 1
    };
    assert_eq!((retries(15), retries(16)), (0, 2));
}
