//! Generations with pages in them: sorting, isolation, new generations, marks.

extern crate std;

use std::vec::Vec;

use super::*;
use crate::config::{Algorithm, DirtyTail, Policy};
use crate::host::Solo;
use crate::lru::BatchKind;
use crate::lru::testing::{ANON, FILE, Stage, VEC};
use crate::vmstat::{NodeStat, VmEvent};
use crate::zone::NodeId;

fn stage(host: &Solo, change: impl FnOnce(&mut Policy)) -> Stage<'_> {
    Stage::policy(host, |policy| {
        policy.reclaim.algorithm = Algorithm::Mglru;
        change(policy);
    })
}

impl Stage<'_> {
    fn gens(&self) -> &Generations<Solo> {
        self.kernel.generations(VEC).expect("MGLRU")
    }

    /// A generation more.
    fn age(&self) {
        let seq = self.gens().max();
        assert!(self.kernel.lock_lru(&self.cx, VEC).make_generation(seq, true));
    }

    /// A page at the end of the oldest generation.
    fn oldest(&self, flags: PageFlags) -> Folio {
        let folio = self.page(flags);
        self.at(folio).flag_set::<Solo>(PageFlags::LRU);
        self.kernel.lock_lru(&self.cx, VEC).link_tail(folio);
        folio
    }

    fn isolate(&self, limit: usize) -> (Sorted, Vec<Folio>) {
        let mode = SortMode {
            highest: ZoneType::Normal,
            may_unmap: true,
            may_write: true,
            limit,
            most: SCAN_BATCH,
        };
        let mut pages = Vec::new();
        let sorted =
            self.kernel.lock_lru(&self.cx, VEC).isolate_oldest(PageType::File, &mode, &mut pages);
        (sorted, pages)
    }

    /// Pages of files in a generation, newest first.
    fn files(&self, seq: u64) -> Vec<Folio> {
        let lru = self.kernel.lock_lru(&self.cx, VEC);
        let queues = lru.lists.queues.as_ref().expect("MGLRU");
        let pages = queues.of_generation(&self.kernel.mem.map, (slot_of(seq), PageType::File));
        pages.map(Folio::page).collect()
    }

    fn stat(&self, item: NodeStat) -> u64 {
        self.kernel.mem.node(NodeId(0)).stats.read_exact(item as usize)
    }
}

const READ_TWICE: PageFlags = PageFlags::REFERENCED.union(PageFlags::WORKINGSET);

/// The rules at the end of the oldest generation (rules/mglru#sort, vector 14).
#[test]
fn pages_at_the_end_go_where_they_belong() {
    for limit in [3, 1] {
        let host = Solo::default();
        let s = stage(&host, |_| {});
        s.age();
        assert_eq!(s.gens().window(PageType::File), Window { min: 1, max: 4 });
        let e = s.oldest(FILE | READ_TWICE | marks::with_field(1));
        let d = s.oldest(FILE | PageFlags::DIRTY);
        let c = s.oldest(FILE | READ_TWICE | marks::with_field(3));
        let b = s.oldest(FILE);
        let a = s.oldest(FILE);
        assert!(s.kernel.promote(&s.cx, b));
        assert_eq!(s.stat(NodeStat::ActiveFile), 1, "its size follows its number");
        assert_eq!(s.files(1), [e, d, c, b, a], "its place does not");

        let (sorted, taken) = s.isolate(limit);
        let expected = if limit == 3 { [a, e].to_vec() } else { [a].to_vec() };
        assert_eq!(taken, expected);
        assert_eq!((sorted.isolated, sorted.sorted), (taken.len() as u64, 5 - taken.len() as u64));
        assert_eq!(s.files(4), [b]);
        let next = if limit == 3 { [d, c].to_vec() } else { [d, c, e].to_vec() };
        assert_eq!(s.files(2), next, "the dirty one first, protected ones last");
        assert!(s.flags(d).contains(PageFlags::RECLAIM));
        assert!(!s.flags(c).intersects(ALL_MARKS));
        let protected = if limit == 3 { 1 } else { 2 };
        assert_eq!(s.stat(NodeStat::WorkingsetActivateFile), protected);
        assert!(taken.iter().all(|&folio| slot_of_page(s.flags(folio)).is_none()));
    }
}

/// Marks that are older than the last promotion or refault do not count (rules/mglru#sort).
#[test]
fn an_isolated_page_is_judged_by_what_came_since() {
    let host = Solo::default();
    let s = stage(&host, |_| {});
    let old = s.oldest(FILE | PageFlags::WORKINGSET | marks::with_field(2));
    let fresh = s.oldest(FILE | READ_TWICE | marks::with_field(1));
    let (_, taken) = s.isolate(3);
    assert_eq!(taken, [fresh, old]);
    assert!(!s.flags(old).intersects(ALL_MARKS));
    assert_eq!(marks::reads(FirstUse::Promotes, s.flags(fresh)), 2);
    assert!(!s.flags(fresh).contains(PageFlags::REFERENCED));
}

/// 6.12 judges dirty pages as others (rules/mglru#sort).
#[test]
fn since_6_12_dirty_pages_are_judged() {
    let host = Solo::default();
    let s = stage(&host, |p| p.reclaim.mglru.dirty_tail = DirtyTail::Judged);
    let dirty = s.oldest(FILE | PageFlags::DIRTY);
    s.at(dirty).flag_set::<Solo>(PageFlags::RECLAIM);
    let (sorted, taken) = s.isolate(3);
    assert_eq!((sorted.sorted, taken), (0, [dirty].to_vec()));
    assert!(s.flags(dirty).contains(PageFlags::RECLAIM));
}

/// Two generations are left to the pages in use (rules/mglru#oldest).
#[test]
fn the_two_youngest_generations_are_not_evicted() {
    let host = Solo::default();
    let s = stage(&host, |_| {});
    let used = s.page(FILE | PageFlags::ACTIVE);
    s.list(used);
    let mut lru = s.kernel.lock_lru(&s.cx, VEC);
    assert!(lru.advance_oldest(true));
    drop(lru);
    let window = Window { min: 2, max: 3 };
    assert_eq!(PageType::ALL.map(|t| s.gens().window(t)), [window; 2]);
    assert_eq!(s.isolate(3), (Sorted::default(), Vec::new()));
}

/// Statistics when a generation is made (rules/mglru#state, vector 3).
#[test]
fn the_two_youngest_generations_are_active() {
    let host = Solo::default();
    let s = stage(&host, |_| {});
    s.age();
    s.age();
    assert_eq!(s.gens().max(), 5);
    let pages: Vec<Folio> = (0..4).map(|_| s.page(ANON)).collect();
    pages.iter().for_each(|&folio| s.list(folio));
    assert_eq!(s.gens().size(4, PageType::Anon), 4, "anonymous pages start second youngest");
    let counts = || [NodeStat::ActiveAnon, NodeStat::InactiveAnon].map(|item| s.stat(item));
    assert_eq!(counts(), [4, 0]);
    s.age();
    assert_eq!(counts(), [0, 4]);
    let two = |s: &Stage<'_>| pages[..2].iter().for_each(|&f| _ = s.kernel.promote(&s.cx, f));
    two(&s);
    assert_eq!(counts(), [2, 2]);
    s.age();
    s.age();
    assert_eq!((s.gens().window(PageType::Anon).min, counts()), (5, [0, 4]));
    assert_eq!(s.gens().size(6, PageType::Anon), 2);
    s.age();
    // The oldest generation had to go: its pages are in the next one.
    assert_eq!((s.gens().size(6, PageType::Anon), counts()), (4, [0, 4]));
}

/// A listed page that is taken off remembers that it was in use (rules/mglru#state).
#[test]
fn pages_that_come_back_keep_their_activity() {
    let host = Solo::default();
    let s = stage(&host, |_| {});
    let (used, idle) = (s.page(FILE | PageFlags::ACTIVE), s.oldest(FILE));
    s.list(used);
    for (folio, is_active) in [(used, true), (idle, false)] {
        assert!(!s.flags(folio).contains(PageFlags::ACTIVE), "never while listed");
        assert!(s.kernel.isolate_page(&s.cx, folio));
        assert_eq!(s.flags(folio).contains(PageFlags::ACTIVE), is_active);
        s.kernel.putback_page(&s.cx, folio);
    }
    s.kernel.lru_add_drain(&s.cx);
    assert_eq!([NodeStat::ActiveFile, NodeStat::InactiveFile].map(|item| s.stat(item)), [1, 1]);
}

/// Reading moves nothing; advice does (rules/mglru#marks, rules/mglru#neighbours).
#[test]
fn reads_mark_and_advice_moves() {
    let host = Solo::default();
    let s = stage(&host, |_| {});
    let folio = s.page(FILE | PageFlags::ACTIVE);
    s.list(folio);
    let locks = s.lru_locks(|| (0..3).for_each(|_| s.kernel.mark_accessed(&s.cx, folio)));
    assert_eq!((locks, s.events(VmEvent::Pgactivate)), (0, 0));
    assert_eq!(marks::tier(FirstUse::Promotes, s.flags(folio)), 2);
    s.kernel.lru_batch(&s.cx, BatchKind::Deactivate, folio);
    s.kernel.lru_add_drain(&s.cx);
    assert_eq!((s.events(VmEvent::Pgdeactivate), s.stat(NodeStat::InactiveFile)), (1, 1));
    assert_eq!(slot_of_page(s.flags(folio)), Some(slot_of(1)));
    s.kernel.lru_batch(&s.cx, BatchKind::Activate, folio);
    s.kernel.lru_add_drain(&s.cx);
    assert_eq!((s.events(VmEvent::Pgactivate), s.stat(NodeStat::ActiveFile)), (1, 1));
}
