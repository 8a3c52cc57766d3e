//! Reclaim on a kernel whose devices' transfers the test completes.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::testing::{AT, NODE, PAGE, Stage, VEC, control};
use crate::Kernel;
use crate::block::manual::Manual;
use crate::compaction::Suitability;
use crate::config::{FailuresEnd, FreeOrder, Policy, ZeroPages, ZoneSpec};
use crate::host::{CpuId, Host, Lock, Solo, TaskFlags};
use crate::lru::balance::{Balance, ByCost};
use crate::lru::testing::{ANON, FILE, Stage as Lists};
use crate::lru::{BatchKind, LruKind, PageType};
use crate::page::{Folio, MigrateType, Order, PageFlags};
use crate::page_alloc::{Gfp, NoRelief, Request};
use crate::page_cache::Entry;
use crate::sync::atomic::Ordering::Relaxed;
use crate::syscall::MemoryAdvice;
use crate::vm::{Access, Backing, Fault, VmaFlags};
use crate::vmstat::{NodeStat, VmEvent};
use crate::zone::{MAX_FAILURES, ZoneType, watermark::Marks};

#[test]
fn clean_file_pages_leave_a_shadow() {
    let s = Stage::new();
    let (file, _open) = s.cached_file(200);
    let free = s.kernel.mem.nr_free_pages();
    let mut sc = control(false);
    let locks = s.lru_locks(|| assert_eq!(s.shrink(&mut sc, PageType::File), 32));
    assert_eq!(locks, 3, "isolate, put back, cost");
    assert_eq!((sc.nr_scanned, sc.sums.taken, sc.sums.file_taken), (32, 32, 32));
    assert_eq!((s.event(VmEvent::PgscanDirect), s.event(VmEvent::PgscanFile)), (32, 32));
    assert_eq!((s.event(VmEvent::PgstealDirect), s.event(VmEvent::PgstealFile)), (32, 32));
    assert_eq!((file.nr_pages(), s.size(LruKind::InactiveFile)), (168, 168));
    s.kernel.mem.drain_all(&s.cx(), None);
    assert_eq!(s.kernel.mem.nr_free_pages(), free + 32);
    let oldest = file.tree.lock(CpuId(0)).get(0);
    assert!(matches!(oldest, Entry::Shadow(_)), "{oldest:?}");
    assert_eq!(s.stat(NodeStat::IsolatedFile), 0);
}

/// The CPU's list hands out the page judged first, from 6.9 on the one judged last
/// (rules/unmap#reuse-order).
#[test]
fn pages_reclaimed_together_come_back_in_an_order() {
    for order in [FreeOrder::Lowest, FreeOrder::Highest] {
        let s = Stage::with(0, |policy| policy.unmap.free_order = order);
        let (file, _open) = s.cached_file(200);
        let mut want = s.pages(&file, 32);
        s.kernel.mem.drain_all(&s.cx(), None);
        assert_eq!(s.shrink(&mut control(false), PageType::File), 32);
        if order == FreeOrder::Highest {
            want.reverse();
        }
        let gfp = Gfp::GFP_HIGHUSER_MOVABLE;
        let frame = |_| s.kernel.mem.alloc_folio(&s.cx(), &*s.kernel, gfp, Order::ZERO, NODE);
        let got: Vec<_> = (0..32).filter_map(frame).collect();
        assert_eq!(got, want, "{order:?}");
    }
}

/// Direct reclaim leaves them to the flushers, kswapd may write them
/// (rules/page-decisions#pageout).
#[test]
fn dirty_file_pages_get_out_of_the_way() {
    let s = Stage::new();
    let (file, _open) = s.cached_file(200);
    let cx = s.cx();
    let dirty = s.pages(&file, 32);
    dirty.iter().for_each(|&folio| assert!(s.kernel.set_page_dirty(&cx, folio)));
    let mut sc = control(false);
    assert_eq!(s.shrink(&mut sc, PageType::File), 0);
    assert_eq!((sc.nr_scanned, sc.sums.dirty, sc.sums.unqueued_dirty), (32, 32, 32));
    assert_eq!(s.stat(NodeStat::VmscanImmediateReclaim), 32);
    assert!(s.all_are(&dirty, PageFlags::RECLAIM | PageFlags::ACTIVE | PageFlags::DIRTY));
    assert_eq!((s.event(VmEvent::Pgactivate), s.event(VmEvent::PgstealFile)), (32, 0));
    assert!(s.kernel.writeback[0].start_all.load(Relaxed), "flushers are woken");
    assert_eq!(s.size(LruKind::ActiveFile), 32);

    // Aged back to the inactive tail, they meet kswapd on a node known to be full of them.
    s.kernel.shrink_active(&cx, AT, &control(true), PageType::File, 32);
    assert!(s.all_are(&dirty, PageFlags::WORKINGSET | PageFlags::RECLAIM));
    let clean = s.pages(&file, 200)[32..].to_vec();
    for &folio in &clean {
        assert!(s.kernel.isolate_page(&cx, folio));
    }
    s.kernel.reclaim.vec(VEC).full_of_dirty.store(true, Relaxed);
    let mut sc = control(true);
    assert_eq!(s.shrink(&mut sc, PageType::File), 0);
    assert_eq!(s.stat(NodeStat::VmscanWrite), 32);
    assert!(s.all_are(&dirty, PageFlags::WRITEBACK | PageFlags::RECLAIM));
    assert!(s.none_is(&dirty, PageFlags::DIRTY | PageFlags::ACTIVE));
    assert_eq!(s.size(LruKind::InactiveFile), 32);
    // The writes end: to the tail, and gone at the next look.
    s.complete();
    s.kernel.lru_add_drain_all(&cx);
    assert_eq!(s.event(VmEvent::Pgrotated), 32);
    assert_eq!(s.shrink(&mut sc, PageType::File), 32);
    clean.iter().for_each(|&folio| s.kernel.putback_page(&cx, folio));
}

#[test]
fn filesystems_without_writepage_are_left_to_the_flushers() {
    let s = Stage::new();
    let cx = s.cx();
    let (file, _open) = s.cached_file(32);
    let mut spec = file.spec;
    spec.filesystem.has_writepage = false;
    spec.device_start = 1000;
    let other = s.kernel.create_file(&cx, spec);
    let open = s.kernel.open(&cx, &other);
    assert_eq!(s.kernel.file_read(&cx, &open, 0, 32 * PAGE), Ok(32 * PAGE));
    s.kernel.lru_add_drain_all(&cx);
    assert_eq!(s.shrink(&mut control(true), PageType::File), 32, "the older file goes");
    let dirty = s.pages(&other, 32);
    for &folio in &dirty {
        s.kernel.set_page_dirty(&cx, folio);
        s.kernel.mem.map.page(folio).flag_set::<Manual>(PageFlags::RECLAIM);
    }
    s.kernel.reclaim.vec(VEC).full_of_dirty.store(true, Relaxed);
    // Read once: not worth writing yet.
    assert_eq!(s.shrink(&mut control(true), PageType::File), 0);
    assert!(s.none_is(&dirty, PageFlags::ACTIVE | PageFlags::REFERENCED));
    assert_eq!(s.shrink(&mut control(true), PageType::File), 0);
    assert_eq!(s.stat(NodeStat::VmscanWrite), 0);
    assert!(s.all_are(&dirty, PageFlags::DIRTY | PageFlags::ACTIVE));
    assert_eq!(s.stat(NodeStat::Dirty), 32);
}

/// rules/unmap#handed-over: the pass that reaches pages flagged by unmapping activates them.
#[test]
fn noted_pages_are_activated_where_they_would_go() {
    let host = Solo::default();
    let s = Lists::new(&host);
    let pages = s.listed_many(FILE | PageFlags::USED, 32);
    let others = s.listed_many(FILE | PageFlags::REFERENCED, 32);
    let event = |item| s.kernel.mem.events.read(item);
    let mut sc = control(true);
    sc.priority = 0;
    s.kernel.shrink_node(&s.cx, NODE, &mut sc);
    assert_eq!(event(VmEvent::Pgactivate), 32);
    for (pages, is_active) in [(&pages, true), (&others, false)] {
        for &folio in pages {
            let flags = s.kernel.mem.map.page(folio).flags();
            assert_eq!(flags.contains(PageFlags::ACTIVE), is_active);
            assert!(!flags.intersects(PageFlags::USED), "looked at, so forgotten");
        }
    }
}

/// Which reclaimer waits for pages under writeback (rules/page-decisions#under-writeback). The
/// flags are set directly, without a device.
#[test]
fn writeback_at_the_tail() {
    let host = Solo::default();
    let s = Lists::new(&host);
    let pages = s.listed_many(FILE | PageFlags::WRITEBACK, 32);
    let state = s.kernel.reclaim.node(NODE);
    let mut sc = control(true);
    sc.priority = 0;
    s.kernel.shrink_node(&s.cx, NODE, &mut sc);
    assert_eq!((sc.sums.dirty, sc.sums.writeback, sc.sums.taken), (32, 32, 32));
    assert_eq!((sc.sums.congested, sc.sums.immediate), (0, 0));
    let both = PageFlags::RECLAIM | PageFlags::ACTIVE;
    assert!(pages.iter().all(|&folio| s.flags(folio).contains(both)));
    assert!(s.kernel.reclaim.vec(VEC).full_of_writeback.load(Relaxed));
    assert!(!s.kernel.reclaim.vec(VEC).congested.load(Relaxed));
    let stats = &s.kernel.mem.node(NODE).stats;
    assert_eq!(stats.read_exact(NodeStat::VmscanImmediateReclaim as usize), 0);

    s.kernel.shrink_active(&s.cx, AT, &sc, PageType::File, 32);
    let before = host.jiffies();
    s.kernel.shrink_node(&s.cx, NODE, &mut sc);
    assert_eq!((sc.sums.immediate, sc.sums.congested, sc.sums.dirty), (32, 32, 32));
    assert!(s.kernel.reclaim.vec(VEC).congested.load(Relaxed));
    assert_eq!(host.jiffies() - before, 25, "throttled for writeback");
    assert_eq!(state.nr_writeback_throttled.load(Relaxed), 0);
}

/// A pass that meets no file page at all says that the node is full of dirty ones.
#[test]
fn no_file_page_counts_as_all_dirty() {
    let host = Solo::default();
    let s = Lists::new(&host);
    s.listed_many(ANON, 4);
    s.kernel.shrink_node(&s.cx, NODE, &mut control(true));
    assert!(s.kernel.reclaim.vec(VEC).full_of_dirty.load(Relaxed));
}

#[test]
fn anonymous_pages_leave_in_three_looks() {
    let s = Stage::new();
    let cx = s.cx();
    let (mm, _) = s.touched_mm(&cx, 32);
    assert_eq!(s.size(LruKind::InactiveAnon), 32);
    let mut sc = control(true);
    // The fault left them young.
    assert_eq!(s.shrink(&mut sc, PageType::Anon), 0);
    assert_eq!((s.stat(NodeStat::VmscanWrite), s.size(LruKind::InactiveAnon)), (0, 32));
    // Not used since: out, and kept until the write is done.
    assert_eq!(s.shrink(&mut sc, PageType::Anon), 0);
    assert_eq!((s.stat(NodeStat::VmscanWrite), s.event(VmEvent::Pswpout)), (32, 32));
    assert_eq!((mm.rss.anon.load(Relaxed), mm.rss.swap.load(Relaxed)), (0, 32));
    assert_eq!(s.size(LruKind::InactiveAnon), 32);
    let notes = Balance::Cost(ByCost { costs: [16, 0] });
    assert_eq!(s.kernel.lru.vec(VEC).lists.lock(CpuId(0)).balance, notes, "32, halved");
    s.complete();
    s.kernel.lru_add_drain_all(&cx);
    assert_eq!(s.event(VmEvent::Pgrotated), 32);
    assert_eq!(s.shrink(&mut sc, PageType::Anon), 32);
    assert_eq!((s.event(VmEvent::PgstealAnon), s.event(VmEvent::PgscanAnon)), (32, 96));
    assert_eq!(s.size(LruKind::InactiveAnon), 0);
    assert_eq!(s.stat(NodeStat::Swapcached), 0);
}

/// From 6.12 on pages of zeros need no input or output, and go in the pass that finds them unused
/// (rules/swap#zero-pages).
#[test]
fn pages_of_zeros_are_neither_written_nor_read() {
    let s = Stage::with(4096, |policy| policy.swap.zero_pages = ZeroPages::Flag);
    let cx = s.cx();
    let touched = |more| {
        let mm = s.kernel.create_mm(&cx).unwrap();
        let flags = VmaFlags::READ | VmaFlags::WRITE | more;
        let start = s.kernel.mmap(&cx, &mm, 32, 512, flags, Backing::Anon).unwrap();
        s.kernel.touch_range(&cx, &mm, start, 32, Access::Write).unwrap();
        s.kernel.lru_add_drain_all(&cx);
        (mm, start)
    };
    let output = || (s.event(VmEvent::SwpoutZero), s.event(VmEvent::Pswpout), s.host.nr_held());
    let input = || (s.event(VmEvent::SwpinZero), s.event(VmEvent::Pswpin));
    let mut sc = control(true);

    let (mm, start) = touched(VmaFlags::ZEROS);
    assert_eq!(s.shrink(&mut sc, PageType::Anon), 0, "young");
    assert_eq!((s.shrink(&mut sc, PageType::Anon), s.stat(NodeStat::VmscanWrite)), (32, 32));
    assert_eq!(output(), (32, 0, 0));
    assert_eq!((mm.rss.anon.load(Relaxed), mm.rss.swap.load(Relaxed)), (0, 32));
    assert_eq!(s.kernel.touch(&cx, &mm, start + 10, Access::Read), Ok(Fault::Major));
    assert_eq!((input(), s.host.nr_held()), ((8, 0), 0), "its neighbours as well");
    assert_eq!(s.event(VmEvent::Pgmajfault), 1);
    s.kernel.exit_mm(&cx, &mm);

    // The slots of the first get other contents.
    let (mm, start) = touched(VmaFlags::empty());
    for _ in 0..3 {
        s.shrink(&mut sc, PageType::Anon);
        s.complete();
        s.kernel.lru_add_drain_all(&cx);
    }
    assert_eq!(output(), (32, 32, 0));
    (start..start + 32).for_each(|vpn| _ = s.kernel.touch(&cx, &mm, vpn, Access::Read).unwrap());
    assert_eq!(input(), (8, 32));
}

/// Nobody has mapped them yet, so they have no mapping.
#[test]
fn pages_read_ahead_from_swap_can_go_again() {
    let s = Stage::new();
    let cx = s.cx();
    let (mm, start) = s.touched_mm(&cx, 32);
    let mut sc = control(true);
    for _ in 0..3 {
        s.shrink(&mut sc, PageType::Anon);
        s.complete();
        s.kernel.lru_add_drain_all(&cx);
    }
    assert_eq!((s.event(VmEvent::PgstealAnon), s.stat(NodeStat::Swapcached)), (32, 0));
    s.kernel.touch(&cx, &mm, start + 10, Access::Read).unwrap();
    s.complete();
    s.kernel.lru_add_drain_all(&cx);
    assert_eq!((s.event(VmEvent::SwapRa), s.size(LruKind::InactiveAnon)), (7, 8));
    assert_eq!(s.shrink(&mut sc, PageType::Anon), 7, "all but the one in use");
    assert_eq!(s.stat(NodeStat::Swapcached), 1);
}

#[test]
fn no_swapping_without_io() {
    let s = Stage::new();
    let cx = s.cx();
    let (mm, _) = s.touched_mm(&cx, 32);
    let mut sc = control(false);
    sc.gfp = Gfp::GFP_NOIO;
    for _ in 0..2 {
        assert_eq!(s.shrink(&mut sc, PageType::Anon), 0);
    }
    assert_eq!((mm.rss.anon.load(Relaxed), s.stat(NodeStat::VmscanWrite)), (32, 0));
}

#[test]
fn lazily_freed_pages_are_dropped() {
    let s = Stage::new();
    let cx = s.cx();
    let (mm, start) = s.touched_mm(&cx, 32);
    s.kernel.madvise(&cx, &mm, start, 32, MemoryAdvice::Free).unwrap();
    s.kernel.lru_add_drain_all(&cx);
    assert_eq!(s.size(LruKind::InactiveFile), 32);
    // One is written again.
    s.kernel.touch(&cx, &mm, start, Access::Write).unwrap();
    let mut sc = control(false);
    assert_eq!(s.shrink(&mut sc, PageType::File), 31);
    assert_eq!((s.event(VmEvent::Pglazyfreed), mm.rss.anon.load(Relaxed)), (31, 1));
    assert_eq!(s.event(VmEvent::Pswpout), 0);
}

#[test]
fn pageout_does_not_ask_who_used_a_page() {
    let s = Stage::new();
    let cx = s.cx();
    let (mm, start) = s.touched_mm(&cx, 64);
    s.kernel.madvise(&cx, &mm, start, 64, MemoryAdvice::PageOut).unwrap();
    assert_eq!((mm.rss.anon.load(Relaxed), mm.rss.swap.load(Relaxed)), (0, 64));
    assert_eq!(s.event(VmEvent::Pswpout), 64);
    s.complete();
}

#[test]
fn active_pages_go_down_used_or_not() {
    let s = Stage::new();
    let cx = s.cx();
    let (mm, _) = s.touched_mm(&cx, 40);
    let mut sc = control(true);
    let used = s.kernel.lru.ids_of_node(NODE, ZoneType::Movable).count();
    assert_eq!(used, 1, "one set of lists a node");
    // Activated by hand, as a refault would.
    let pages: Vec<Folio> = {
        let lists = s.kernel.lru.vec(VEC).lists.lock(CpuId(0));
        lists.lists[0].iter(&s.kernel.mem.map).map(Folio::page).collect()
    };
    pages.iter().for_each(|&folio| s.kernel.lru_batch(&cx, BatchKind::Activate, folio));
    s.kernel.lru_add_drain_all(&cx);
    assert_eq!(s.size(LruKind::ActiveAnon), 40);
    let locks = s.lru_locks(|| s.kernel.shrink_active(&cx, AT, &sc, PageType::Anon, 32));
    assert_eq!(locks, 2, "isolate, put back");
    assert_eq!((s.event(VmEvent::Pgrefill), s.event(VmEvent::Pgdeactivate)), (32, 32));
    assert_eq!((s.size(LruKind::ActiveAnon), s.size(LruKind::InactiveAnon)), (8, 32));
    // Their young bits are gone: the inactive list finds them unused.
    assert_eq!(s.shrink(&mut sc, PageType::Anon), 0);
    assert_eq!((sc.nr_scanned, mm.rss.swap.load(Relaxed)), (32, 32));
    s.complete();
}

#[test]
fn programs_in_use_stay_active() {
    let s = Stage::new();
    let cx = s.cx();
    let (file, open) = s.cached_file(32);
    let mm = s.kernel.create_mm(&cx).unwrap();
    let flags = VmaFlags::READ | VmaFlags::EXEC;
    let backing = Backing::File { open: Arc::clone(&open), page: 0 };
    let start = s.kernel.mmap(&cx, &mm, 16, 512, flags, backing).unwrap();
    s.kernel.touch_range(&cx, &mm, start, 16, Access::Read).unwrap();
    let pages = s.pages(&file, 32);
    pages.iter().for_each(|&folio| s.kernel.lru_batch(&cx, BatchKind::Activate, folio));
    s.kernel.lru_add_drain_all(&cx);
    assert_eq!(s.size(LruKind::ActiveFile), 32);
    s.kernel.shrink_active(&cx, AT, &control(true), PageType::File, 32);
    assert!(s.all_are(&pages[..16], PageFlags::ACTIVE), "mapped, executable, used");
    assert!(s.none_is(&pages[16..], PageFlags::ACTIVE));
    assert_eq!(s.event(VmEvent::Pgdeactivate), 16);
    s.kernel.shrink_active(&cx, AT, &control(true), PageType::File, 32);
    assert!(s.none_is(&pages, PageFlags::ACTIVE), "not used since");
}

fn request(kernel: &Kernel<Manual>) -> Request<'_> {
    Request {
        gfp: Gfp::GFP_HIGHUSER_MOVABLE,
        order: Order::ZERO,
        highest: ZoneType::Movable,
        migratetype: MigrateType::Movable,
        nodes: None,
        zonelist: &kernel.mem.zonelists(NODE).fallback,
        list_node: NODE,
        preferred: Some(0),
        spread_dirty: false,
    }
}

#[test]
fn a_second_attempt_deactivates_whatever_refaults_say() {
    let s = Stage::new();
    let cx = s.cx();
    let (file, _open) = s.cached_file(96);
    let pages = s.pages(&file, 96);
    // Inactive pages with an extra reference, and active ones that are not deactivated.
    for &folio in &pages[..64] {
        s.kernel.mem.map.page(folio).get::<Manual>(1);
    }
    for &folio in &pages[64..] {
        s.kernel.lru_batch(&cx, BatchKind::Activate, folio);
    }
    s.kernel.lru_add_drain_all(&cx);
    let got = s.kernel.try_to_free_pages(&cx, &request(&s.kernel));
    // Active pages reach the inactive tail a pass later: those of the last pass stay.
    assert_eq!(got, 1 + 2 + 4 + 8);
    assert_eq!(s.event(VmEvent::AllocstallMovable), 2, "one for each attempt");
    assert_eq!((s.event(VmEvent::Pgdeactivate), file.nr_pages()), (32, 96 - got));
    for &folio in &pages[..64] {
        s.kernel.put_page(&cx, folio);
    }
}

#[test]
fn the_gate_lets_hopeless_nodes_and_kernel_threads_pass() {
    let s = Stage::new();
    let cx = s.cx();
    s.cached_file(64);
    assert!(s.kernel.allows_direct_reclaim(&cx, NODE));
    for zone in s.kernel.mem.zones_of(NODE) {
        let mut marks = zone.marks();
        marks.min = 4 * zone.managed();
        zone.set_marks(&marks);
    }
    assert!(!s.kernel.allows_direct_reclaim(&cx, NODE));
    cx.set_flags(TaskFlags::KTHREAD);
    assert!(s.kernel.try_to_free_pages(&cx, &request(&s.kernel)) >= 32);
    assert_eq!(s.event(VmEvent::PgscanDirectThrottle), 0);
    s.kernel.mem.node(NODE).kswapd_failures.store(MAX_FAILURES, Relaxed);
    assert!(s.kernel.allows_direct_reclaim(&cx, NODE));
}

/// A node below its high mark with 64 cached pages that cannot go, more than is tiny, and 40 anonymous
/// ones.
fn with_cache_in_use(change: impl FnOnce(&mut Policy)) -> Stage {
    let s = Stage::with(4096, change);
    s.touched_mm(&s.cx(), 40);
    let (file, _open) = s.cached_file(64);
    for folio in s.pages(&file, 64) {
        s.kernel.mem.map.page(folio).get::<Manual>(1);
    }
    for zone in s.kernel.mem.zones_of(NODE) {
        let high = zone.nr_free_pages_exact() + 20;
        zone.set_marks(&Marks { min: high / 2, low: high, high, promo: high });
    }
    s
}

/// rules/kswapd#run-again
#[test]
fn kswapd_goes_beyond_cache_that_it_cannot_free() {
    for retries in [false, true] {
        let s = with_cache_in_use(|policy| policy.reclaim.kswapd.retries_trimming = retries);
        let cx = s.cx();
        // From priority 6 on the cache is a stream; at 5 the anonymous pages would have a share.
        s.kernel.balance_node(&cx, NODE, 0, ZoneType::Movable);
        assert_eq!(s.event(VmEvent::PgscanAnon) > 0, retries);
        assert!(s.event(VmEvent::PgscanFile) > 0);
        assert_eq!(s.event(VmEvent::Pageoutrun), 1);
    }
}

/// rules/kswapd#hopeless
#[test]
fn failures_end_with_progress_or_with_balance() {
    for end in [FailuresEnd::Progress, FailuresEnd::Balanced] {
        let s = with_cache_in_use(|policy| policy.reclaim.kswapd.failures_end = end);
        let cx = s.cx();
        let failures = || s.kernel.mem.node(NODE).kswapd_failures.load(Relaxed);
        s.kernel.balance_node(&cx, NODE, 0, ZoneType::Movable);
        assert_eq!(failures(), 1);
        // A boosted run is one for 6.1 only.
        s.kernel.mem.zones_of(NODE).for_each(|zone| zone.set_boost(1));
        s.kernel.balance_node(&cx, NODE, 0, ZoneType::Movable);
        let nr_failed = if end == FailuresEnd::Progress { 2 } else { 1 };
        assert_eq!(failures(), nr_failed);
        // 16 pages can go: progress, but more would be needed.
        s.cached_file(16);
        let mut sc = control(false);
        (sc.priority, sc.may_swap) = (0, false);
        s.kernel.shrink_node(&cx, NODE, &mut sc);
        assert_eq!(sc.nr_reclaimed, 16);
        assert_eq!(failures(), if end == FailuresEnd::Progress { 0 } else { 1 });
        s.cached_file(16);
        s.kernel.mem.zones_of(NODE).for_each(|zone| zone.set_marks(&Marks::default()));
        s.kernel.shrink_node(&cx, NODE, &mut sc);
        assert_eq!(failures(), 0);
    }
}

#[test]
fn the_largest_space_dies_and_is_reaped() {
    let s = Stage::new();
    let (small_task, large_task, caller) = (s.cx(), s.cx(), s.cx());
    let (small, _) = s.touched_mm(&small_task, 40);
    let (large, _) = s.touched_mm(&large_task, 80);
    small.add_task(&small_task);
    large.add_task(&large_task);
    let req = request(&s.kernel);
    let mut weak = req.clone();
    weak.gfp -= Gfp::FS;
    assert!(s.kernel.oom_kill(&caller, &weak), "too early: progress, nobody dies");
    assert_eq!(s.event(VmEvent::OomKill), 0);

    assert!(s.kernel.oom_kill(&caller, &req));
    assert!(large_task.is_dying() && !small_task.is_dying());
    assert!(large_task.flags().contains(TaskFlags::OOM_VICTIM));
    assert!(s.kernel.oom_kill(&caller, &req), "one is dying");
    assert_eq!((s.event(VmEvent::OomKill), small_task.is_dying()), (1, false));

    s.kernel.reap(&caller, &large);
    assert_eq!((large.rss.anon.load(Relaxed), small.rss.anon.load(Relaxed)), (0, 40));
    assert!(s.kernel.oom_kill(&caller, &req));
    assert!(small_task.is_dying());
    // A caller that is to die anyhow is not counted, and gets the reserves.
    caller.signals().raise(TaskFlags::FATAL_SIGNAL);
    assert!(s.kernel.oom_kill(&caller, &req));
    assert!(caller.flags().contains(TaskFlags::OOM_VICTIM));
    s.kernel.reap(&caller, &small);
    let last = s.cx();
    assert!(!s.kernel.oom_kill(&last, &req), "nobody is left");
    assert_eq!(s.event(VmEvent::OomKill), 2);
}

/// A task that finds too many isolated pages waits, but only once.
#[test]
fn isolation_is_waited_for_once() {
    let host = Solo::default();
    let s = Lists::new(&host);
    s.listed_many(FILE, 80);
    let stats = &s.kernel.mem.node(NODE).stats;
    stats.add(CpuId(0), NodeStat::IsolatedFile as usize, 1000);
    let mut sc = control(false);
    let got = s.kernel.shrink_inactive(&s.cx, AT, &mut sc, PageType::File, 32);
    assert_eq!((got, sc.nr_scanned, host.jiffies()), (0, 0, 5));
    // kswapd never waits: the others wait for it.
    let mut sc = control(true);
    s.kernel.shrink_inactive(&s.cx, AT, &mut sc, PageType::File, 32);
    assert_eq!((sc.nr_scanned, host.jiffies()), (32, 5));
    // A task that is to die does not try again: it frees memory by itself.
    s.cx.signals().raise(TaskFlags::FATAL_SIGNAL);
    let mut sc = control(false);
    assert_eq!(s.kernel.shrink_inactive(&s.cx, AT, &mut sc, PageType::File, 32), 32);
    stats.add(CpuId(0), NodeStat::IsolatedFile as usize, -1000);
}

/// kswapd of 6.1 (rules/kswapd#balanced): DMA keeps its blocks from the request, the other zones
/// have none; single pages there are.
#[test]
fn a_node_is_balanced_by_any_zone() {
    let host = Solo::default();
    let zones = [
        ZoneSpec::full(ZoneType::Dma, 512, 3584),
        ZoneSpec::full(ZoneType::Dma32, 4096, 2048),
        ZoneSpec::full(ZoneType::Normal, 1 << 20, 2048),
    ];
    let s = Lists::with(&host, zones.into(), |_| {});
    // (managed for real, free to pretend, marks, reserve against NORMAL)
    let table = [
        (ZoneType::Dma, 3_900, [66, 82, 99], 4_335),
        (ZoneType::Dma32, 40_000, [11_212, 14_015, 16_818], 1_406),
        (ZoneType::Normal, 20_000, [5_500, 6_875, 8_250], 0),
    ];
    for (kind, free, [min, low, high], reserve) in table {
        let zone = s.kernel.mem.zone(NODE, kind).expect("a zone");
        if kind != ZoneType::Dma {
            // Without blocks of order 9.
            zone.set_marks(&Marks::default());
            let gfp = if kind == ZoneType::Dma32 { Gfp::DMA32 } else { Gfp::empty() };
            while zone.nr_free_blocks(Order(9)) + zone.nr_free_blocks(Order(10)) != 0 {
                let mem = &s.kernel.mem;
                mem.alloc_folio(&s.cx, &NoRelief, gfp, Order::ZERO, NODE).expect("a page");
            }
        }
        zone.set_marks(&Marks { min, low, high, promo: high });
        let mut reserves = zone.lowmem_reserves();
        reserves[ZoneType::Normal.idx()] = reserve;
        zone.set_lowmem_reserves(&reserves);
        zone.add_free(CpuId(0), free - zone.nr_free_pages_exact() as i64);
    }
    let dma = s.kernel.mem.zone(NODE, ZoneType::Dma).expect("a zone");
    assert!(dma.nr_free_blocks(Order(9)) + dma.nr_free_blocks(Order(10)) != 0);
    assert!(!s.kernel.node_is_balanced(NODE, 9, ZoneType::Normal), "DMA fails on its reserve");
    assert!(s.kernel.node_is_balanced(NODE, 0, ZoneType::Normal), "DMA32 passes");
    assert!(s.kernel.node_is_balanced(NODE, 9, ZoneType::Dma), "its own have no reserve");
    let suitable = |kind| {
        let zone = s.kernel.mem.zone(NODE, kind).expect("a zone");
        s.kernel.mem.compaction_suitable(zone, Order(9), ZoneType::Normal)
    };
    assert_eq!(suitable(ZoneType::Dma), Suitability::Skipped, "3900 <= 82 + 1024 + 4335");
    assert_eq!(suitable(ZoneType::Dma32), Suitability::Continue);
    assert_eq!(suitable(ZoneType::Normal), Suitability::Continue);
}
