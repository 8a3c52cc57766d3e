//! Reclaim under MGLRU as a whole: the worked examples of the rules page, and kswapd's flag.

use super::*;
use crate::config::Algorithm;
use crate::host::Lock;
use crate::page::PageFlags;
use crate::reclaim::testing::{AT, NODE, Stage, VEC, control};
use crate::sync::atomic::Ordering::Relaxed;
use crate::vm::Access;
use crate::vmstat::VmEvent;

fn stage() -> Stage {
    Stage::with(4096, |policy| policy.reclaim.algorithm = Algorithm::Mglru)
}

impl Stage {
    fn window(&self, page_type: PageType) -> (u64, u64) {
        let window = self.kernel.generations(VEC).expect("MGLRU").window(page_type);
        (window.min, window.max)
    }

    /// A pass of kswapd at a priority.
    fn kswapd_pass(&self, sc: &mut Control, priority: u8) -> u64 {
        sc.priority = priority;
        let before = sc.nr_reclaimed;
        self.kernel.algorithm().age(&self.kernel, &self.cx(), AT, sc);
        self.kernel.shrink_node(&self.cx(), NODE, sc);
        self.complete();
        self.kernel.lru_add_drain_all(&self.cx());
        sc.nr_reclaimed - before
    }
}

/// Anonymous memory alone: the first walk clears the young bits of the faults, the second finds the
/// pages unused; each goes out in two visits (rules/mglru#example-anon).
#[test]
fn untouched_memory_goes_after_two_generations() {
    let s = stage();
    let (mm, _) = s.touched_mm(&s.cx(), 4200);
    let mut sc = control(true);
    assert_eq!(s.kswapd_pass(&mut sc, 12), 0, "too few generations, and no aging yet");
    assert_eq!(s.window(PageType::Anon), (2, 3));
    assert_eq!(s.kswapd_pass(&mut sc, 11), 0);
    assert_eq!(s.window(PageType::Anon).1, 4, "first walk");
    s.kswapd_pass(&mut sc, 10);
    assert_eq!(s.window(PageType::Anon), (3, 5), "second walk");
    let scanned = s.event(VmEvent::PgscanAnon);
    assert_eq!((scanned, s.event(VmEvent::Pswpout)), (64, 64));
    assert_eq!(s.event(VmEvent::PgstealAnon), 0, "written, on its way to the tail");
    s.kswapd_pass(&mut sc, 9);
    assert_eq!(s.event(VmEvent::PgstealAnon), 64);
    assert_eq!(s.event(VmEvent::PgscanAnon), 128);
    assert_eq!(s.event(VmEvent::Pgactivate), 0);
    assert_eq!(mm.rss.swap.load(Relaxed), 64);
    s.check();
}

/// A stream beside memory that was mapped: page cache goes, oldest first, and the memory stays
/// (rules/mglru#example-stream).
#[test]
fn a_stream_passes_by_memory_in_use() {
    let s = stage();
    let (mm, _) = s.touched_mm(&s.cx(), 1000);
    let (file, _open) = s.cached_file(2000);
    assert_eq!(s.size(LruKind::ActiveAnon), 1000);
    assert_eq!(s.size(LruKind::InactiveFile), 2000);
    let mut sc = control(true);
    for priority in [12, 11, 11, 11] {
        s.kswapd_pass(&mut sc, priority);
    }
    let left = 2000 - s.event(VmEvent::PgstealFile);
    assert!(left < 1900, "{left}");
    assert_eq!((file.nr_pages(), s.event(VmEvent::PgscanAnon)), (left, 0));
    assert_eq!(mm.rss.anon.load(Relaxed), 1000);
    s.check();
}

/// kswapd does not age before its first pass, nor after a success without need (rules/mglru#aging,
/// vector 16).
#[test]
fn success_puts_aging_off() {
    let s = stage();
    s.cached_file(4200);
    let mut sc = control(true);
    sc.nr_to_reclaim = 64;
    assert!(!sc.mglru.needs_aging);
    assert_eq!(s.kswapd_pass(&mut sc, 12), 0, "the oldest lists were empty");
    assert!(sc.mglru.needs_aging);
    assert_eq!(s.kswapd_pass(&mut sc, 11), 64);
    assert!(!sc.mglru.needs_aging, "a success clears what the pass set");
    let max = s.window(PageType::File).1;
    assert_eq!((s.kswapd_pass(&mut sc, 11), s.window(PageType::File).1), (64, max));
    s.check();
}

/// A page that a program still uses is found by the check of its mappings, and its neighbours with
/// it (rules/mglru#look-around).
#[test]
fn a_used_page_takes_its_neighbours_along() {
    let s = stage();
    let cx = s.cx();
    let (mm, start) = s.touched_mm(&cx, 4200);
    let mut sc = control(true);
    for priority in [12, 11, 10] {
        s.kswapd_pass(&mut sc, priority);
    }
    let window = s.window(PageType::Anon);
    assert_eq!(window, (3, 5));
    // Used again after the second walk: no walk has seen it.
    let used = start + 1024..start + 1088;
    s.kernel.touch_range(&cx, &mm, used.start, 64, Access::Read).unwrap();
    while s.event(VmEvent::PgstealAnon) < 1500 {
        s.kswapd_pass(&mut sc, 5);
        s.check();
    }
    assert_eq!(s.window(PageType::Anon), window, "no generation was made since");
    let tables = mm.tables.lock(cx.cpu());
    let is_there = |at: u32| tables.table(at).is_some_and(|table| table.peek(at).is_present());
    assert!(used.clone().all(is_there), "all of those that were used");
    assert!(!is_there(used.start - 1) && !is_there(used.end), "and no others");
    drop(tables);
    let nr_checks = s.event(VmEvent::Pgactivate);
    assert!((1..=4).contains(&nr_checks), "{nr_checks} checks for 64 pages");
}

/// MADV_PAGEOUT asks what pages are used for, as eviction does (rules/mglru#neighbours).
#[test]
fn pageout_spares_what_was_used() {
    let s = stage();
    let cx = s.cx();
    let (file, _open) = s.cached_file(32);
    let pages = s.pages(&file, 32);
    pages.iter().for_each(|&folio| assert!(s.kernel.isolate_page(&cx, folio)));
    assert_eq!(s.kernel.reclaim_pages(&cx, &pages), 32);
    let (mm, start) = s.touched_mm(&cx, 1);
    let pfn = mm.tables.lock(cx.cpu()).table(start).unwrap().peek(start).pfn().unwrap();
    let used = s.kernel.mem.map.folio(pfn);
    assert!(s.kernel.isolate_page(&cx, used));
    assert_eq!(s.kernel.reclaim_pages(&cx, &[used]), 0);
    s.kernel.lru_add_drain_all(&cx);
    assert!(s.kernel.mem.map.page(used).is(PageFlags::LRU));
    s.check();
}
