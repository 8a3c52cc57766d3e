//! Batches, marking, releasing, locking and shadows, by the numbers of the rules.

extern crate std;

use std::vec::Vec;

use super::balance::{Balance, ByCost, Effort};
use super::testing::{ANON, FILE, Stage, VEC};
use super::{BatchKind, LruKind, PageType, Shadow};
use crate::config::LruTopology;
use crate::host::{CpuId, Lock, Solo};
use crate::page::{Folio, PageFlags};
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::{GroupId, LruVecId};
use crate::vmstat::{NodeStat, VmEvent, ZoneStat};
use crate::zone::{NodeId, ZoneType};

const ACTIVE: PageFlags = PageFlags::ACTIVE;
const REFERENCED: PageFlags = PageFlags::REFERENCED;
const LRU: PageFlags = PageFlags::LRU;

fn node_stat(stage: &Stage<'_>, item: NodeStat) -> u64 {
    stage.kernel.mem.node(NodeId(0)).stats.read_exact(item as usize)
}

fn clock(stage: &Stage<'_>) -> u64 {
    stage.kernel.lru.vec(VEC).nonresident_age.load(Relaxed)
}

/// In the add batch of this CPU a page can still be changed (rules/lru#mark-accessed).
#[test]
fn a_page_in_this_cpus_add_batch_becomes_active_in_place() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let folio = stage.page(FILE);
    stage.kernel.lru_add(&stage.cx, folio);
    let mark = || {
        stage.kernel.mark_accessed(&stage.cx, folio);
        stage.flags(folio)
    };
    assert_eq!(mark(), REFERENCED);
    assert_eq!(clock(&stage), 0);
    assert_eq!(mark(), ACTIVE);
    assert_eq!((clock(&stage), stage.events(VmEvent::Pgactivate)), (1, 0));
    assert_eq!(mark(), ACTIVE | REFERENCED);
    stage.kernel.lru_add_drain(&stage.cx);
    assert_eq!(stage.order(LruKind::ActiveFile), [folio]);
    stage.check();
}

#[test]
fn a_page_in_another_cpus_add_batch_stays_inactive() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let folio = stage.page(FILE | REFERENCED);
    stage.kernel.lru_add(&stage.cx, folio);
    stage.cx.set_cpu(CpuId(1));
    stage.kernel.mark_accessed(&stage.cx, folio);
    assert_eq!((stage.flags(folio), clock(&stage)), (FILE, 1));
    assert!(stage.kernel.lru.batches[1].is_empty());
    stage.kernel.lru_add_drain(&stage.cx);
    assert_eq!(stage.order(LruKind::InactiveFile), []);
    stage.kernel.lru_add_drain_all(&stage.cx);
    assert_eq!(stage.order(LruKind::InactiveFile), [folio]);
}

/// The 15th page drains the batch under one hold (rules/lru#batches).
#[test]
fn the_fifteenth_page_drains_the_batch() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let pages: Vec<_> = (0..15).map(|_| stage.page(ANON)).collect();
    let add = |pages: &[Folio]| {
        stage.lru_locks(|| pages.iter().for_each(|&folio| stage.kernel.lru_add(&stage.cx, folio)))
    };
    assert_eq!(add(&pages[..14]), 0);
    assert_eq!(stage.kernel.lru.batches[0].len(&stage.cx), 14);
    assert_eq!(stage.at(pages[0]).refcount(), 2);
    assert_eq!(add(&pages[14..]), 1);
    assert_eq!(stage.at(pages[0]).refcount(), 1);
    assert!(stage.kernel.lru.batches[0].is_empty());
    assert!(stage.order(LruKind::InactiveAnon).iter().rev().eq(&pages));
    stage.check();
}

/// The states that reads lead through (rules/unmap#mark-accessed).
#[test]
fn the_states_of_a_page_that_is_used_again_and_again() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    for is_listed in [true, false] {
        let folio = stage.page(FILE);
        stage.kernel.lru_add(&stage.cx, folio);
        if is_listed {
            stage.kernel.lru_add_drain(&stage.cx);
        }
        let before = stage.events(VmEvent::Pgactivate);
        let states = [(); 4].map(|()| {
            stage.kernel.mark_accessed(&stage.cx, folio);
            stage.kernel.lru_add_drain(&stage.cx);
            stage.flags(folio) - LRU
        });
        // Draining put it on the list after the first use.
        assert_eq!(states, [REFERENCED, ACTIVE, ACTIVE | REFERENCED, ACTIVE | REFERENCED]);
        assert_eq!(stage.events(VmEvent::Pgactivate) - before, 1);
    }
    assert_eq!(clock(&stage), 2);
    stage.check();
}

/// 512 pages are activated a batch at a time (rules/unmap#young-cost).
#[test]
fn activating_512_pages_takes_the_lock_once_a_batch() {
    for (batch, full, rest) in [(15, 34, 2), (14, 36, 8), (31, 16, 16)] {
        let host = Solo::default();
        let stage = Stage::policy(&host, |p| p.reclaim.lru_batch = batch);
        let pages = stage.listed_many(FILE | REFERENCED, 512);
        let mark_all =
            || pages.iter().for_each(|&folio| stage.kernel.mark_accessed(&stage.cx, folio));
        assert_eq!(stage.lru_locks(mark_all), full);
        assert_eq!(stage.kernel.lru.batches[0].len(&stage.cx), rest);
        assert_eq!(stage.lru_locks(|| stage.kernel.lru_add_drain(&stage.cx)), 1);
        assert_eq!(stage.events(VmEvent::Pgactivate), 512);
        assert_eq!(stage.kernel.lru.vec(VEC).size(LruKind::ActiveFile), 512);
        stage.check();
    }
    let host = Solo::default();
    let stage = Stage::new(&host);
    let pages = stage.listed_many(FILE | REFERENCED, 512);
    let set_all = || pages.iter().for_each(|&folio| stage.kernel.set_referenced(&stage.cx, folio));
    assert_eq!(stage.lru_locks(set_all), 0);
    assert_eq!(stage.events(VmEvent::Pgactivate), 0);
}

#[test]
fn before_5_9_activated_anonymous_pages_do_not_age_the_clock() {
    for (anon_workingset, ticks) in [(true, 2), (false, 1)] {
        let host = Solo::default();
        let stage = Stage::policy(&host, |p| p.reclaim.anon_workingset = anon_workingset);
        for flags in [ANON, FILE] {
            let folio = stage.listed(flags | REFERENCED);
            stage.kernel.mark_accessed(&stage.cx, folio);
        }
        assert_eq!(clock(&stage), ticks);
    }
}

#[test]
fn the_end_of_writeback_moves_pages_to_the_tail() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let pages = stage.listed_many(FILE, 3);
    let active = stage.listed(FILE | ACTIVE);
    for folio in [pages[2], active] {
        stage.kernel.lru_rotate(&stage.cx, folio);
    }
    for unfit in [PageFlags::LOCKED, PageFlags::DIRTY, PageFlags::UNEVICTABLE] {
        let folio = stage.listed(FILE | unfit);
        stage.kernel.lru_rotate(&stage.cx, folio);
        assert_eq!(stage.at(folio).refcount(), 1);
        stage.at(folio).flag_clear::<Solo>(PageFlags::LOCKED);
        stage.kernel.put_page(&stage.cx, folio);
    }
    stage.kernel.lru_add_drain(&stage.cx);
    assert_eq!(stage.order(LruKind::InactiveFile), [pages[1], pages[0], pages[2], active]);
    assert_eq!(stage.events(VmEvent::Pgrotated), 2);
    stage.check();
}

/// The deactivate_file batch (rules/lru#batches).
#[test]
fn pages_that_could_not_be_invalidated_go_out_of_the_way() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let old = stage.listed(FILE);
    let clean = stage.listed(FILE | ACTIVE | REFERENCED);
    let dirty = stage.listed(FILE | PageFlags::DIRTY);
    let written = stage.listed(FILE | ACTIVE | PageFlags::WRITEBACK);
    let mapped = stage.listed(FILE | ACTIVE);
    stage.at(mapped).map_add::<Solo>(1);
    for folio in [clean, dirty, written, mapped] {
        stage.kernel.lru_batch(&stage.cx, BatchKind::DeactivateFile, folio);
    }
    stage.kernel.lru_add_drain(&stage.cx);
    assert_eq!(stage.order(LruKind::InactiveFile), [written, dirty, old, clean]);
    assert_eq!(stage.order(LruKind::ActiveFile), [mapped]);
    assert_eq!(stage.flags(clean), LRU);
    assert_eq!(stage.flags(dirty), LRU | PageFlags::DIRTY | PageFlags::RECLAIM);
    assert_eq!(stage.events(VmEvent::Pgrotated), 1);
    assert_eq!(stage.events(VmEvent::Pgdeactivate), 2);
    stage.check();
}

/// The deactivate and lazyfree batches (rules/lru#batches).
#[test]
fn advice_takes_pages_down() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let cold = stage.listed(ANON | ACTIVE | REFERENCED);
    let inactive = stage.listed(ANON);
    let lazy = stage.listed(ANON | ACTIVE | REFERENCED);
    let cached = stage.listed(ANON | PageFlags::SWAPCACHE);
    let batch = |kind, folio| stage.kernel.lru_batch(&stage.cx, kind, folio);
    batch(BatchKind::Deactivate, cold);
    batch(BatchKind::Deactivate, inactive);
    batch(BatchKind::LazyFree, lazy);
    batch(BatchKind::LazyFree, cached);
    assert_eq!(stage.kernel.lru.batches[0].len(&stage.cx), 2, "the others are as they should be");
    stage.kernel.lru_add_drain(&stage.cx);
    assert_eq!(stage.order(LruKind::InactiveAnon), [cold, cached, inactive]);
    assert_eq!(stage.order(LruKind::InactiveFile), [lazy]);
    assert_eq!((stage.flags(cold), stage.flags(lazy)), (ANON | LRU, LRU));
    assert_eq!(stage.events(VmEvent::Pgdeactivate), 1);
    assert_eq!(stage.events(VmEvent::Pglazyfree), 1);
    stage.check();
}

/// The batch's own reference may be the last.
#[test]
fn a_page_freed_while_it_waits_goes_when_the_batch_drains() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (new, used) = (stage.page(ANON), stage.listed(FILE | REFERENCED));
    let free = stage.kernel.mem.nr_free_pages();
    stage.kernel.lru_add(&stage.cx, new);
    stage.kernel.mark_accessed(&stage.cx, used);
    stage.kernel.put_page(&stage.cx, new);
    stage.kernel.put_page(&stage.cx, used);
    assert_eq!(stage.events(VmEvent::Pgfree), 0);
    stage.kernel.lru_add_drain(&stage.cx);
    assert_eq!((stage.at(new).refcount(), stage.at(used).refcount()), (0, 0));
    assert_eq!(stage.events(VmEvent::Pgfree), 2);
    assert_eq!(stage.kernel.mem.nr_free_pages(), free, "on the per-CPU list");
    stage.check();
}

/// Two reversals on the way keep the order (rules/unmap#reuse-order).
#[test]
fn released_pages_are_handed_out_lowest_index_first() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let pages = stage.listed_many(ANON, 3);
    stage.kernel.release_pages(&stage.cx, &pages);
    let again: Vec<_> = (0..3).map(|_| stage.page(ANON)).collect();
    assert_eq!(again, pages);
}

/// The lock is held for 32 pages at most, and not over pages that stay (rules/unmap#release).
#[test]
fn releasing_takes_the_lock_for_pages_that_go() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let pages = stage.listed_many(FILE, 100);
    pages.iter().for_each(|&folio| stage.at(folio).get::<Solo>(1));
    let release = || stage.kernel.release_pages(&stage.cx, &pages);
    assert_eq!(stage.lru_locks(release), 0, "the page cache still has them");
    assert_eq!(stage.events(VmEvent::Pgfree), 0);
    assert_eq!(stage.lru_locks(release), 4);
    assert_eq!(stage.events(VmEvent::Pgfree), 100);
    assert_eq!(stage.kernel.lru.vec(VEC).size(LruKind::InactiveFile), 0);
    stage.check();
}

/// Locked pages are on no list that reclaim goes through (rules/unmap#mlock).
#[test]
fn locked_pages_leave_the_lists_until_their_last_lock_goes() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let mlocked = || {
        let zone = stage.kernel.mem.zone(NodeId(0), ZoneType::Dma32).unwrap();
        zone.stats.read_exact(ZoneStat::Mlock as usize)
    };
    let shared = stage.listed(FILE | ACTIVE);
    let new = stage.page(ANON);
    stage.kernel.mlock_page(&stage.cx, shared);
    stage.kernel.mlock_page(&stage.cx, shared);
    stage.kernel.mlock_new_page(&stage.cx, new);
    assert_eq!(mlocked(), 2);
    stage.kernel.lru_add_drain(&stage.cx);
    let culled = PageFlags::UNEVICTABLE | PageFlags::MLOCKED | LRU;
    assert_eq!((stage.flags(shared), stage.flags(new)), (culled, culled | ANON));
    assert_eq!(stage.kernel.lru.vec(VEC).size(LruKind::Unevictable), 2);
    assert_eq!(stage.events(VmEvent::UnevictablePgsMlocked), 2);
    assert_eq!(stage.events(VmEvent::UnevictablePgsCulled), 2);
    stage.check();

    stage.kernel.munlock_page(&stage.cx, shared);
    stage.kernel.lru_add_drain(&stage.cx);
    assert_eq!(stage.flags(shared), culled, "one mapping still locks it");
    stage.kernel.munlock_page(&stage.cx, shared);
    stage.kernel.lru_add_drain(&stage.cx);
    assert_eq!(stage.order(LruKind::InactiveFile), [shared]);
    assert_eq!(stage.events(VmEvent::UnevictablePgsMunlocked), 1);
    assert_eq!(stage.events(VmEvent::UnevictablePgsRescued), 1);

    stage.kernel.put_page(&stage.cx, new);
    assert_eq!((mlocked(), stage.events(VmEvent::UnevictablePgsCleared)), (0, 1));
    assert_eq!(stage.kernel.lru.vec(VEC).size(LruKind::Unevictable), 0);
    stage.check();
}

#[test]
fn a_page_locked_on_its_way_to_a_list_is_culled_there() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (kept, unlocked) = (stage.page(ANON), stage.page(ANON));
    for folio in [kept, unlocked] {
        stage.kernel.lru_add(&stage.cx, folio);
        stage.kernel.mlock_page(&stage.cx, folio);
    }
    stage.cx.set_cpu(CpuId(1));
    stage.kernel.munlock_page(&stage.cx, unlocked);
    stage.kernel.lru_add_drain(&stage.cx);
    stage.kernel.lru_add_drain_all(&stage.cx);
    assert_eq!(stage.order(LruKind::InactiveAnon), [unlocked]);
    assert_eq!(stage.kernel.lru.vec(VEC).size(LruKind::Unevictable), 1);
    assert_eq!(stage.events(VmEvent::UnevictablePgsMunlocked), 1);
    stage.check();
}

/// Makes lists look as long as that.
fn pretend(stage: &Stage<'_>, sizes: [u64; 4]) {
    let zone = &stage.kernel.lru.vec(VEC).sizes[ZoneType::Dma32.idx()];
    zone.iter().zip(sizes).for_each(|(size, pages)| size.store(pages, Relaxed));
}

/// It starts active if it was away no longer than the lists it competes with are long
/// (rules/workingset#refault).
#[test]
fn a_page_that_would_still_be_there_starts_active() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let refault = |flags, shadow| {
        let folio = stage.page(flags);
        stage.kernel.workingset_refault(&stage.cx, folio, shadow);
        stage.flags(folio)
    };
    let count = |item| node_stat(&stage, item);
    stage.kernel.lru.vec(VEC).nonresident_age.store(1_000_000, Relaxed);
    let shadow = Shadow::new(900_000, VEC, false);

    pretend(&stage, [15_000, 20_000, 50_000, 60_000]);
    assert_eq!(refault(FILE, shadow), FILE);
    assert_eq!(count(NodeStat::WorkingsetRefaultFile), 1);
    assert_eq!((count(NodeStat::WorkingsetActivateFile), clock(&stage)), (0, 1_000_000));

    pretend(&stage, [20_000, 20_000, 50_000, 60_000]);
    assert_eq!(refault(FILE, shadow), ACTIVE);
    assert_eq!((count(NodeStat::WorkingsetActivateFile), clock(&stage)), (1, 1_000_001));
    assert_eq!(count(NodeStat::WorkingsetRestoreFile), 0);

    let again = Shadow::new(900_001, VEC, true);
    assert_eq!(refault(FILE, again), ACTIVE | PageFlags::WORKINGSET);
    assert_eq!(count(NodeStat::WorkingsetRestoreFile), 1);
    let costs = ByCost { costs: [0, 1] };
    assert_eq!(stage.kernel.lru.vec(VEC).lists.lock(CpuId(0)).balance, Balance::Cost(costs));

    // 130,000 with free swap.
    let distant = Shadow::new(1_000_002 - 130_000, VEC, false);
    assert_eq!(refault(ANON, distant), ANON | ACTIVE);
    assert_eq!(refault(ANON, distant), ANON, "the clock went on by one");
    assert_eq!(count(NodeStat::WorkingsetRefaultAnon), 2);
    assert_eq!(count(NodeStat::WorkingsetActivateAnon), 1);
}

#[test]
fn before_5_9_only_file_pages_refault() {
    let host = Solo::default();
    let stage = Stage::policy(&host, |p| p.reclaim.anon_workingset = false);
    pretend(&stage, [1000, 1000, 1000, 10]);
    let evict = |flags| {
        let folio = stage.page(flags);
        stage.kernel.workingset_eviction((folio, stage.at(folio)), GroupId::ROOT)
    };
    let shadows = [evict(ANON), evict(FILE)];
    assert_eq!(clock(&stage), 1);
    for (flags, shadow) in [(ANON, shadows[0]), (FILE, shadows[1])] {
        stage.kernel.workingset_refault(&stage.cx, stage.page(flags), shadow);
    }
    assert_eq!(node_stat(&stage, NodeStat::WorkingsetRefaultAnon), 0);
    assert_eq!(node_stat(&stage, NodeStat::WorkingsetActivateFile), 1);
    stage.kernel.lru.vec(VEC).nonresident_age.store(12, Relaxed);
    stage.kernel.workingset_refault(&stage.cx, stage.page(FILE), shadows[1]);
    assert_eq!(node_stat(&stage, NodeStat::WorkingsetActivateFile), 1, "12 > 10 active file pages");
}

#[test]
fn lists_of_zones_have_shadows_of_their_own() {
    let host = Solo::default();
    let stage = Stage::policy(&host, |p| p.reclaim.lru = LruTopology::Zone);
    let folio = stage.page(FILE);
    let shadow = stage.kernel.workingset_eviction((folio, stage.at(folio)), GroupId::ROOT);
    assert_eq!(shadow.vec(), LruVecId::new(ZoneType::Dma32.idx()));
    assert_eq!(stage.kernel.lru.node_of(shadow.vec()), NodeId(0));
}

#[test]
fn refaults_count_from_the_last_snapshot() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let node = NodeId(0);
    let changed = |t| stage.kernel.refaults_changed(VEC, t);
    let stats = &stage.kernel.mem.node(node).stats;
    assert!(!changed(PageType::File));
    stats.add(CpuId(0), NodeStat::WorkingsetActivateFile as usize, 200);
    assert!(changed(PageType::File) && !changed(PageType::Anon));
    stage.kernel.snapshot_refaults(VEC);
    assert!(!changed(PageType::File));
}

/// Costs decay under the lock (rules/scan-budget#cost): three times an inactive shrink, even for
/// nothing.
#[test]
fn cost_notes_decay() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    pretend(&stage, [250_000; 4]);
    let costs = || {
        let lists = stage.kernel.lru.vec(VEC).lists.lock(CpuId(0));
        let Balance::Cost(notes) = &lists.balance else { panic!("6.1 goes by cost") };
        notes.costs
    };
    let note = |t, pages| stage.kernel.lru_note_cost(&stage.cx, VEC, t, Effort::io(pages));
    note(PageType::Anon, 249_990);
    assert_eq!(costs(), [249_990, 0]);
    note(PageType::Anon, 32);
    assert_eq!(costs(), [125_011, 0]);
    assert_eq!(stage.lru_locks(|| note(PageType::File, 0)), 1);
}
