//! The contract of an algorithm, as scenarios for each of them; and the effect of CLOCK and FIFO on
//! single pages.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::block::manual::Manual;
use crate::config::{
    AfterPass, Algorithm, Answers, ListSizes, Own, OwnAnswers, PageUses, Progress, References,
    Weights,
};
use crate::lru::{BatchKind, LruKind, PageType};
use crate::page::{Folio, PageFlags};
use crate::page_cache::{File, OpenFile};
use crate::reclaim::testing::{AT, NODE, Stage, VEC, control};
use crate::sync::atomic::Ordering::Relaxed;
use crate::vm::Access;
use crate::vmstat::{NodeStat, VmEvent};

impl Stage {
    /// 6.1 with an algorithm and this many pages of swap.
    fn algorithm(algorithm: Algorithm, swap_pages: u32) -> Stage {
        Stage::with(swap_pages, |policy| policy.reclaim.algorithm = algorithm)
    }

    /// Passes of kswapd over everything.
    fn passes(&self, nr: u32) {
        for _ in 0..nr {
            self.pass(true, 0);
        }
    }

    /// Pages of the node that the algorithm could reach. (Counters lag by a batch per CPU.)
    fn candidates(&self) -> u64 {
        self.kernel.algorithm().candidates(&self.kernel, NODE)
    }

    /// Runs a node pass and completes its writes; returns the freed pages.
    fn pass(&self, is_kswapd: bool, priority: u8) -> u64 {
        let mut sc = control(is_kswapd);
        sc.priority = priority;
        sc.nr_to_reclaim = u64::MAX;
        // The second time is as in a run that had no success so far.
        for _ in 0..2 * u32::from(is_kswapd) {
            self.kernel.algorithm().age(&self.kernel, &self.cx(), AT, &mut sc);
        }
        self.kernel.shrink_node(&self.cx(), NODE, &mut sc);
        self.complete();
        self.kernel.lru_add_drain_all(&self.cx());
        sc.nr_reclaimed
    }

    /// The same for one set of lists: no task is slowed down.
    fn shrink_lists(&self, priority: u8) -> u64 {
        let mut sc = control(true);
        sc.priority = priority;
        sc.nr_to_reclaim = u64::MAX;
        let got = self.kernel.algorithm().shrink(&self.kernel, &self.cx(), AT, &mut sc);
        self.complete();
        self.kernel.lru_add_drain_all(&self.cx());
        got
    }

    fn activate(&self, pages: &[Folio]) {
        pages
            .iter()
            .for_each(|&folio| self.kernel.lru_batch(&self.cx(), BatchKind::Activate, folio));
        self.kernel.lru_add_drain_all(&self.cx());
    }

    fn sum(&self, events: &[VmEvent]) -> u64 {
        events.iter().map(|&event| self.event(event)).sum()
    }

    fn scanned(&self) -> u64 {
        self.sum(&[VmEvent::PgscanKswapd, VmEvent::PgscanDirect])
    }

    fn stolen(&self) -> u64 {
        self.sum(&[VmEvent::PgstealKswapd, VmEvent::PgstealDirect])
    }

    /// Invariants while no reclaim is running.
    fn check_counters(&self) {
        self.check();
        assert_eq!(self.stat(NodeStat::IsolatedAnon), 0);
        assert_eq!(self.stat(NodeStat::IsolatedFile), 0);
        assert_eq!(self.scanned(), self.sum(&[VmEvent::PgscanAnon, VmEvent::PgscanFile]));
        assert_eq!(self.stolen(), self.sum(&[VmEvent::PgstealAnon, VmEvent::PgstealFile]));
        assert!(self.stolen() <= self.scanned());
    }
}

/// Cache read once, anonymous memory, some of the cache dirty: whatever is taken off the lists is
/// freed or comes back, and every page that is gone was counted once.
#[test]
fn pages_are_freed_or_put_back() {
    for &algorithm in Algorithm::ALL {
        let s = Stage::algorithm(algorithm, 4096);
        let (file, _open) = s.cached_file(400);
        let (_mm, _) = s.touched_mm(&s.cx(), 300);
        for &folio in &s.pages(&file, 400)[..40] {
            s.kernel.set_page_dirty(&s.cx(), folio);
        }
        let before = s.check().on_lists;
        let mut got = 0;
        for priority in [12, 6, 3, 0, 2, 0] {
            for is_kswapd in [false, true] {
                got += s.pass(is_kswapd, priority);
                s.check_counters();
            }
        }
        let stolen = s.stolen();
        match algorithm {
            // It pretends a batch to end a pass for which nothing is needed.
            Algorithm::Mglru => assert_eq!((got - stolen) % 64, 0),
            _ => assert_eq!(stolen, got, "{algorithm:?}"),
        }
        assert!(stolen > 300, "{algorithm:?}: {stolen}");
        assert_eq!(before - s.check().on_lists, stolen, "{algorithm:?}: freed is off the lists");
    }
}

/// Nothing is used any more: all memory is reclaimed at the last priority within a few passes, even
/// pages that were made active.
#[test]
fn idle_memory_goes() {
    for &algorithm in Algorithm::ALL {
        let s = Stage::algorithm(algorithm, 4096);
        let (file, _open) = s.cached_file(200);
        let (mm, _) = s.touched_mm(&s.cx(), 200);
        s.activate(&s.pages(&file, 100));
        if algorithm != Algorithm::Mglru {
            s.activate(&s.tail_first(LruKind::InactiveAnon)[..100]);
            assert_eq!(s.size(LruKind::ActiveAnon), 100);
        }
        assert_eq!(s.size(LruKind::ActiveFile), 100);
        for pass in 0.. {
            // Generations have to be made before memory that was just touched is the oldest.
            let most = if algorithm == Algorithm::Mglru { 16 } else { 8 };
            let left = (file.nr_pages(), mm.rss.anon.load(Relaxed));
            assert!(pass < most, "{algorithm:?}: {left:?}");
            s.pass(false, 0);
            s.check_counters();
            if file.nr_pages() == 0 && mm.rss.anon.load(Relaxed) == 0 {
                break;
            }
        }
        assert_eq!(mm.rss.swap.load(Relaxed), 200, "{algorithm:?}");
    }
}

/// The priority says how much of the lists a pass looks at.
#[test]
fn a_gentle_pass_looks_at_little() {
    for &algorithm in Algorithm::ALL {
        let s = Stage::algorithm(algorithm, 0);
        s.cached_file(4096);
        let looked = |priority| {
            let before = s.scanned();
            s.pass(true, priority);
            s.scanned() - before
        };
        let gentle = looked(6);
        assert!((32..=96).contains(&gentle), "{algorithm:?}: a 64th of 4096 is not {gentle}");
        let hard = looked(2);
        assert!(hard >= 700, "{algorithm:?}: a quarter of the rest is not {hard}");
    }
}

/// Anonymous pages have nowhere to go: they are not even looked at.
#[test]
fn without_swap_only_files_are_scanned() {
    for &algorithm in Algorithm::ALL {
        let s = Stage::algorithm(algorithm, 0);
        let (file, _open) = s.cached_file(100);
        let (mm, _) = s.touched_mm(&s.cx(), 100);
        s.passes(4);
        s.check_counters();
        assert_eq!((file.nr_pages(), mm.rss.anon.load(Relaxed)), (0, 100), "{algorithm:?}");
        assert_eq!(s.event(VmEvent::PgscanAnon), 0, "{algorithm:?}");
        assert!(s.candidates() < 20, "{algorithm:?}: {}", s.candidates());
    }
}

/// Swap takes a part: the rest stays, as it was, and is not lost.
#[test]
fn full_swap_ends_swapping() {
    for &algorithm in Algorithm::ALL {
        // MGLRU leaves a batch of slots free.
        let s = Stage::algorithm(algorithm, if algorithm == Algorithm::Mglru { 128 } else { 64 });
        let (mm, start) = s.touched_mm(&s.cx(), 200);
        s.passes(6);
        s.check_counters();
        let swapped = mm.rss.swap.load(Relaxed);
        assert!((56..=64).contains(&swapped), "{algorithm:?}: {swapped} (a slot is the header's)");
        assert_eq!(swapped + mm.rss.anon.load(Relaxed), 200, "{algorithm:?}");
        let cx = s.cx();
        for at in start..start + 200 {
            s.kernel.touch(&cx, &mm, at, Access::Read).unwrap();
            s.complete();
        }
        assert_eq!(mm.rss.anon.load(Relaxed), 200, "{algorithm:?}");
        s.check_counters();
    }
}

/// Locked while it lay on its list, before reclaim knew; it goes once it is unlocked.
#[test]
fn locked_memory_stays() {
    for &algorithm in Algorithm::ALL {
        let s = Stage::algorithm(algorithm, 4096);
        let cx = s.cx();
        let (mm, start) = s.touched_mm(&cx, 100);
        s.kernel.mlock(&cx, &mm, start, 40).unwrap();
        s.passes(4);
        s.check_counters();
        assert_eq!((mm.rss.anon.load(Relaxed), mm.rss.swap.load(Relaxed)), (40, 60));
        assert_eq!(s.size(LruKind::Unevictable), 40, "{algorithm:?}");
        s.kernel.munlock(&cx, &mm, start, 40).unwrap();
        s.kernel.lru_add_drain_all(&cx);
        s.passes(4);
        s.check_counters();
        assert_eq!(mm.rss.swap.load(Relaxed), 100, "{algorithm:?}");
    }
}

/// Dirty cache: written once the flushers were given their chance, and gone then.
#[test]
fn dirty_pages_are_written_in_the_end() {
    // MGLRU leaves all of it to the flushers (rules/mglru#sort).
    for &algorithm in Algorithm::ALL.iter().filter(|&&name| name != Algorithm::Mglru) {
        let s = Stage::algorithm(algorithm, 0);
        let (file, _open) = s.cached_file(64);
        for &folio in &s.pages(&file, 64) {
            assert!(s.kernel.set_page_dirty(&s.cx(), folio));
        }
        for pass in 0.. {
            assert!(pass < 8, "{algorithm:?}: {} left", file.nr_pages());
            s.shrink_lists(0);
            s.check_counters();
            if pass == 0 {
                assert_eq!(s.stat(NodeStat::VmscanWrite), 0, "{algorithm:?}: flushers first");
                // The conclusion of a pass that met this many of them.
                s.kernel.reclaim.vec(AT.1).full_of_dirty.store(true, Relaxed);
            }
            if file.nr_pages() == 0 {
                break;
            }
        }
        assert_eq!(s.stat(NodeStat::VmscanWrite), 64, "{algorithm:?}");
        assert_eq!(s.stat(NodeStat::Dirty), 0, "{algorithm:?}");
    }
}

/// A file on CLOCK's queue whose pages have no record of the use by reading.
fn unused_file(s: &Stage, pages: u64) -> (Arc<File<Manual>>, Arc<OpenFile<Manual>>, Vec<Folio>) {
    let (file, open) = s.cached_file(pages);
    let folios = s.pages(&file, pages as u32);
    for &folio in &folios {
        s.kernel.mem.map.page(folio).flag_clear::<Manual>(PageFlags::REFERENCED);
    }
    assert_eq!(s.tail_first(LruKind::InactiveFile), folios, "in the order in which they came");
    (file, open, folios)
}

#[test]
fn the_hand_gives_a_second_chance() {
    let s = Stage::algorithm(Algorithm::Clock, 0);
    let (file, _open, pages) = unused_file(&s, 64);
    let used = [pages[1], pages[3], pages[40]];
    for &folio in &used {
        s.kernel.mark_accessed(&s.cx(), folio);
    }
    // One batch: a half at priority 1.
    assert_eq!(s.shrink_lists(1), 30);
    let queue = s.tail_first(LruKind::InactiveFile);
    assert_eq!(queue[..32], pages[32..], "they moved up");
    assert_eq!(queue[32..], used[..2], "and these went round, in their order");
    assert!(s.none_is(&used[..2], PageFlags::REFERENCED | PageFlags::ACTIVE));
    assert!(s.all_are(&used[2..], PageFlags::REFERENCED), "the hand was not there yet");
    // One turn: pages that were not used again are reclaimed; the third one has its second chance.
    assert_eq!(s.shrink_lists(0), 33);
    assert_eq!(s.tail_first(LruKind::InactiveFile), [used[2]]);
    assert_eq!(s.shrink_lists(0), 1);
    assert_eq!(file.nr_pages(), 0);
    assert_eq!(s.sum(&[VmEvent::Pgactivate, VmEvent::Pgdeactivate, VmEvent::Pgrefill]), 0);
    s.check_counters();
}

/// A second use makes a page ACTIVE: so much more reason for a second chance.
#[test]
fn active_pages_join_the_queue_as_used() {
    let s = Stage::algorithm(Algorithm::Clock, 0);
    let (_file, _open, pages) = unused_file(&s, 32);
    s.activate(&pages[..3]);
    assert!(s.candidates() > 24, "{}: active ones too", s.candidates());
    assert_eq!(s.shrink_lists(0), 29);
    assert_eq!(s.tail_first(LruKind::InactiveFile), pages[..3]);
    assert_eq!(s.size(LruKind::ActiveFile), 0);
    assert_eq!(s.sum(&[VmEvent::Pgdeactivate]), 3);
    // A batch is never more than was asked for, and the hand came by them within this one.
    assert!(s.none_is(&pages[..3], PageFlags::REFERENCED));
    assert!(s.all_are(&pages[..3], PageFlags::WORKINGSET));
    assert_eq!(s.shrink_lists(0), 3);
    s.check_counters();
}

#[test]
fn dirty_pages_go_round() {
    let s = Stage::algorithm(Algorithm::Clock, 0);
    let (_file, _open, pages) = unused_file(&s, 32);
    for &folio in &pages[..8] {
        assert!(s.kernel.set_page_dirty(&s.cx(), folio));
    }
    assert_eq!(s.shrink_lists(0), 24);
    assert_eq!(s.tail_first(LruKind::InactiveFile), pages[..8]);
    assert_eq!(s.size(LruKind::ActiveFile), 0, "there is one queue");
    assert_eq!(
        s.stat(NodeStat::VmscanImmediateReclaim),
        8,
        "the flushers' end puts them at the tail"
    );
    assert!(s.all_are(&pages[..8], PageFlags::DIRTY | PageFlags::RECLAIM));
    assert_eq!(s.event(VmEvent::Pgactivate), 0);
    s.check_counters();
}

/// The fault that brought a page left it young: CLOCK has to come by once for nothing, FIFO does
/// not look.
#[test]
fn fifo_does_not_look() {
    let swapped_by_the_first_pass = |algorithm| {
        let s = Stage::algorithm(algorithm, 4096);
        let (mm, _) = s.touched_mm(&s.cx(), 64);
        let got = s.shrink_lists(0);
        assert_eq!((got, s.event(VmEvent::PgscanAnon)), (0, 64), "written first");
        s.check_counters();
        mm.rss.swap.load(Relaxed)
    };
    assert_eq!(swapped_by_the_first_pass(Algorithm::Fifo), 64);
    assert_eq!(swapped_by_the_first_pass(Algorithm::Clock), 0);
    assert_eq!(swapped_by_the_first_pass(Algorithm::TwoList), 0);
}

/// Pages in use are rotated repeatedly, and a stream evicts none of them.
#[test]
fn pages_in_use_stay_with_the_hand() {
    let s = Stage::algorithm(Algorithm::Clock, 4096);
    let cx = s.cx();
    let (mm, start) = s.touched_mm(&cx, 64);
    for _ in 0..5 {
        let (file, _open) = s.cached_file(64);
        s.kernel.touch_range(&cx, &mm, start, 64, Access::Read).unwrap();
        s.shrink_lists(0);
        s.kernel.touch_range(&cx, &mm, start, 64, Access::Read).unwrap();
        s.shrink_lists(0);
        assert_eq!((file.nr_pages(), mm.rss.anon.load(Relaxed)), (0, 64));
        s.kernel.delete_file(&cx, &file);
    }
    assert_eq!(s.event(VmEvent::Pswpout), 0);
    let batch = s.tail_first(LruKind::InactiveAnon);
    assert_eq!((batch.len(), s.size(LruKind::ActiveAnon)), (64, 0));
    assert!(PageType::of(s.kernel.mem.map.page(batch[0])) == PageType::Anon);
    s.check_counters();
}

/// A program's custom rule is called under every algorithm that checks uses: it keeps file pages,
/// whatever their uses.
#[test]
fn a_programs_own_answers_count() {
    struct SparesFiles;
    impl Answers for SparesFiles {
        fn page(&self, page: &PageUses, usual: References) -> References {
            assert_eq!(page.pages, 1);
            if page.is_file { References::Keep } else { usual }
        }
    }
    const OWN: OwnAnswers = OwnAnswers { name: "spares-files", make: || Box::new(SparesFiles) };
    for &algorithm in Algorithm::ALL {
        let of = |own| {
            let s = Stage::with(4096, |policy| {
                policy.reclaim.algorithm = algorithm;
                policy.own = own;
            });
            let _files = s.cached_file(400);
            let _mm = s.touched_mm(&s.cx(), 300);
            s.passes(4);
            s.check_counters();
            [VmEvent::PgstealFile, VmEvent::PgstealAnon].map(|event| s.event(event))
        };
        let [usual, own] = [Own::default(), Own::new(OWN)].map(of);
        if algorithm == Algorithm::Fifo {
            assert_eq!(usual, own, "nobody asks what a page was used for");
            continue;
        }
        assert!(usual[0] > 100 && own[0] == 0, "{algorithm:?}: {usual:?}, {own:?}");
        assert!(own[1] > 0, "{algorithm:?}: {own:?}");
    }
}

#[test]
fn a_programs_own_weights_and_waits_count() {
    struct FilesOnly;
    impl Answers for FilesOnly {
        fn weights(&self, lists: &ListSizes, usual: Weights) -> Weights {
            assert!(usual.over > 0 && lists.swappiness == 60, "{lists:?}");
            Weights { anon: 0, file: 9, over: 1 }
        }

        fn after_pass(&self, progress: &Progress, usual: AfterPass) -> AfterPass {
            assert_eq!((progress.priority, usual), (1, AfterPass::Wait));
            AfterPass::GoOn
        }
    }
    const OWN: OwnAnswers = OwnAnswers { name: "files-only", make: || Box::new(FilesOnly) };
    let s = Stage::with(4096, |policy| policy.own = Own::new(OWN));
    let _files = s.cached_file(400);
    let _mm = s.touched_mm(&s.cx(), 300);
    let weights = s.kernel.balance_weights(&s.cx(), VEC);
    assert_eq!(weights, Weights { anon: 0, file: 1, over: 1 });
    // On a host without wake-ups, it would wait for ever.
    let mut sc = control(false);
    (sc.priority, sc.nr_scanned) = (1, 100);
    s.kernel.consider_after_nodes(&s.cx(), NODE, &mut sc);
    assert_eq!(s.kernel.mem.policy.differences(&crate::config::preset("6.1").unwrap()).len(), 1);
}
