//! munmap, zap, gather, exit (rules/unmap#pipeline).

use super::*;
use crate::config::{FreeOrder, RecencyGuard, UnmapYoung};
use crate::host::{Cost, Lock};
use crate::sync::order::LockClass;
use crate::syscall::FileAdvice;
use crate::vm::{Gather, gather};

/// The state of a page as rules/unmap#mark-accessed writes it: inactive or active, referenced or
/// not.
fn state(page: &Page) -> &'static str {
    match (page.is(PageFlags::ACTIVE), page.is(PageFlags::REFERENCED)) {
        (false, false) => "Iu",
        (false, true) => "Ir",
        (true, false) => "Au",
        (true, true) => "Ar",
    }
}

fn policy(unmap_young: UnmapYoung) -> Policy {
    let mut policy = preset("6.1").unwrap();
    policy.reclaim.unmap_young_file = unmap_young;
    policy
}

/// The line of study 003 (rules/unmap#young): mapped, touched and unmapped three times.
#[test]
fn a_young_file_page_is_transferred_as_the_policy_says() {
    for (rule, more, want, activated) in [
        (UnmapYoung::MarkAccessed, VmaFlags::empty(), ["Ir", "Au", "Ar"], 1),
        (UnmapYoung::SetReferenced, VmaFlags::empty(), ["Ir", "Ir", "Ir"], 0),
        (UnmapYoung::HandedOver, VmaFlags::empty(), ["Ir", "Ir", "Ir"], 0),
        (UnmapYoung::HandedOver, VmaFlags::SEQ_READ, ["Iu", "Iu", "Iu"], 0),
        (UnmapYoung::MarkAccessed, VmaFlags::SEQ_READ, ["Iu", "Iu", "Iu"], 0),
        (UnmapYoung::SetReferenced, VmaFlags::SEQ_READ, ["Iu", "Iu", "Iu"], 0),
    ] {
        let host = Solo::default();
        let stage = Stage::with(&host, 256, policy(rule));
        let folio = stage.cache(0);
        stage.kernel.lru_add_drain(&stage.cx);
        let got = [(); 3].map(|()| {
            let start = stage.file_region(1, more);
            stage.map_file(start, folio);
            stage.munmap(start, 1);
            state(stage.page(folio))
        });
        assert_eq!(got, want, "{rule:?} {more:?}");
        assert_eq!(stage.events(VmEvent::Pgactivate), activated);
        assert_eq!(stage.page(folio).refcount(), 1, "the page cache's");
        let is_noted = rule == UnmapYoung::HandedOver && more.is_empty();
        assert_eq!(stage.page(folio).is(PageFlags::NOTED), is_noted, "{rule:?} {more:?}");
    }
}

/// From 6.3 on more VMAs transfer nothing (rules/rmap#recency).
#[test]
fn vmas_without_recency_transfer_nothing() {
    let (seq, rand) = (VmaFlags::SEQ_READ, VmaFlags::RAND_READ);
    for (guard, want) in [
        (RecencyGuard::Seq, ["Iu", "Au", "Ar", "Ar"]),
        (RecencyGuard::SeqRandNoreuse, ["Iu", "Iu", "Iu", "Ir"]),
    ] {
        let host = Solo::default();
        let mut policy = preset("6.1").unwrap();
        policy.reclaim.recency_guard = guard;
        let stage = Stage::with(&host, 256, policy);
        let folio = stage.cache(0);
        stage.kernel.lru_add_drain(&stage.cx);
        let pass = |more| {
            let start = stage.file_region(1, more);
            stage.map_file(start, folio);
            stage.munmap(start, 1);
            state(stage.page(folio))
        };
        let advise = |advice| stage.kernel.fadvise(&stage.cx, &stage.open, 0, 0, advice);
        let sequential = pass(seq);
        pass(rand);
        let random = pass(rand);
        advise(FileAdvice::NoReuse);
        let unused = pass(VmaFlags::empty());
        advise(FileAdvice::Normal);
        let normal = pass(VmaFlags::empty());
        assert_eq!([sequential, random, unused, normal], want, "{guard:?}");
    }
}

#[test]
fn an_old_entry_transfers_nothing() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (start, folios) = stage.mapped_file(1, VmaFlags::empty());
    let table = stage.mm.table_of(CPU, start).unwrap();
    assert!(table.lock(CPU).clear_young(start));
    stage.munmap(start, 1);
    assert_eq!(state(stage.page(folios[0])), "Iu");
}

/// Takings of `lru_lock` while 512 pages go (rules/unmap#young-cost).
#[test]
fn activation_takes_the_lru_lock_once_a_batch() {
    for (rule, batch, takings, activated) in [
        (UnmapYoung::MarkAccessed, 15, 34 + 1, 512),
        (UnmapYoung::MarkAccessed, 14, 36 + 1, 512),
        (UnmapYoung::SetReferenced, 15, 0, 0),
        (UnmapYoung::HandedOver, 15, 0, 0),
    ] {
        let host = Solo::default();
        let mut policy = policy(rule);
        policy.reclaim.lru_batch = batch;
        let stage = Stage::with(&host, 256, policy);
        let (start, folios) = stage.mapped_file(512, VmaFlags::empty());
        for &folio in &folios {
            stage.page(folio).flag_set::<Solo>(PageFlags::REFERENCED);
        }
        let before = host.takings(LockClass::Lru);
        stage.munmap(start, 512);
        assert_eq!(host.takings(LockClass::Lru) - before, takings, "{rule:?} {batch}");
        assert_eq!(stage.events(VmEvent::Pgactivate), activated);
        assert_eq!(host.charged(Cost::ZapFile), 512);
    }
}

/// 512 activations in batches of 31: in 7.2 the last 16 wait for another drain
/// (rules/unmap#drains).
#[test]
fn activations_wait_if_unmapping_does_not_drain() {
    for (drains, takings, activated) in [(true, 16 + 1, 512), (false, 16, 496)] {
        let host = Solo::default();
        let mut policy = policy(UnmapYoung::MarkAccessed);
        (policy.reclaim.lru_batch, policy.unmap.drains_lru) = (31, drains);
        let stage = Stage::with(&host, 256, policy);
        let (start, folios) = stage.mapped_file(512, VmaFlags::empty());
        for &folio in &folios {
            stage.page(folio).flag_set::<Solo>(PageFlags::REFERENCED);
        }
        let before = host.takings(LockClass::Lru);
        stage.munmap(start, 512);
        assert_eq!(host.takings(LockClass::Lru) - before, takings);
        assert_eq!(stage.events(VmEvent::Pgactivate), activated);
        stage.kernel.lru_add_drain(&stage.cx);
        assert_eq!(stage.events(VmEvent::Pgactivate), 512);
    }
}

/// Pages that are unmapped while they wait in the add batch are free when it drains
/// (rules/unmap#drains); the order is that of [`freed_pages_may_be_reused_in_the_opposite_order`].
#[test]
fn pages_in_the_add_batch_outlive_an_unmap_that_does_not_drain() {
    let host = Solo::default();
    let mut policy = preset("6.1").unwrap();
    policy.reclaim.lru_batch = 31;
    (policy.unmap.drains_lru, policy.unmap.free_order) = (false, FreeOrder::Highest);
    let stage = Stage::with(&host, 256, policy);
    let free = stage.nr_free();
    let start = stage.anon_region(40, VmaFlags::empty());
    let tables = stage.rss().3;
    let folios: Vec<_> = (start..start + 40).map(|vpn| stage.map_anon(vpn)).collect();
    stage.munmap(start, 40);
    assert_eq!(stage.nr_free(), free - 9, "31 were on the list");
    assert_eq!((stage.rss().0, stage.rss().3), (0, tables), "they are nobody's");
    let size = || stage.node_stat(NodeStat::InactiveAnon) + stage.node_stat(NodeStat::ActiveAnon);
    let before = host.takings(LockClass::Lru);
    stage.kernel.lru_add_drain(&stage.cx);
    assert_eq!((host.takings(LockClass::Lru) - before, size()), (0, 0), "they enter no list");
    let want: Vec<_> = folios[31..].iter().rev().copied().collect();
    let got: Vec<_> = (0..9).map(|_| stage.frame()).collect();
    assert_eq!(got, want);
    got.iter().for_each(|&folio| stage.kernel.put_page(&stage.cx, folio));
    assert_eq!(stage.nr_free(), free);
}

/// The capacity (rules/unmap#gather): 8 + 19 * 510.
#[test]
fn a_gather_holds_9698_pages_and_keeps_its_batches() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let free = stage.nr_free();
    let mut gather = Gather::new(&stage.mm);
    let (mut forced, mut waiting) = (Vec::new(), 0);
    for i in 1..=20_000 {
        waiting += 1;
        if kernel.gather_page(cx, &mut gather, stage.frame()) {
            forced.push(i);
            assert_eq!(gather.len(), waiting);
            kernel.gather_flush(cx, &mut gather);
            (waiting, _) = (0, assert!(gather.is_empty()));
        }
    }
    assert_eq!((forced.as_slice(), gather.len(), gather.nr_forced()), (&[9698, 19396][..], 604, 2));
    kernel.gather_finish(cx, gather);
    assert_eq!(stage.nr_free(), free, "pages and batch pages are free again");
}

/// No batch page is to be had (rules/unmap#gather).
#[test]
fn a_gather_without_batch_pages_flushes_every_8() {
    let host = Solo::default();
    let stage = Stage::with(&host, 64, preset("6.1").unwrap());
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let pages: Vec<_> = (0..100).map(|_| stage.frame()).collect();
    // Somebody else uses them: freeing them gives nothing back.
    pages.iter().for_each(|&folio| stage.page(folio).get::<Solo>(1));
    let nowait = Gfp::GFP_NOWAIT | Gfp::NOWARN;
    while kernel.mem.alloc_folio(cx, kernel, nowait, Order::ZERO, NodeId(0)).is_some() {}
    let mut gather = Gather::new(&stage.mm);
    let mut forced = Vec::new();
    for (i, &folio) in (1..).zip(&pages) {
        if kernel.gather_page(cx, &mut gather, folio) {
            forced.push(i);
            kernel.gather_flush(cx, &mut gather);
        }
    }
    assert!(forced.iter().copied().eq((8..=96).step_by(8)), "{forced:?}");
    kernel.gather_finish(cx, gather);
    assert_eq!(gather::MAX_BATCHES, 19);
}

/// File pages (rules/unmap#gather).
#[test]
fn dirty_file_tables_are_flushed_one_by_one_and_clean_ones_at_the_end() {
    let flushes = |host: &Solo| (host.charged(Cost::TlbFull), host.charged(Cost::TlbPage));
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (start, _) = stage.mapped_file(512, VmaFlags::empty());
    stage.munmap(start, 512);
    assert_eq!(flushes(&host), (1, 0), "clean");

    let host = Solo::default();
    let stage = Stage::new(&host);
    let (start, folios) = stage.mapped_file(1024, VmaFlags::WRITE);
    for (vpn, &folio) in (start..).zip(&folios) {
        stage.set_pte(vpn, Pte::new(folio.pfn()).with_writable(true).with_dirty(true));
    }
    // The first and the last page keep the tables.
    stage.munmap(start + 1, 1022);
    assert_eq!(flushes(&host), (2, 0), "dirty");
    assert_eq!(stage.node_stat(NodeStat::Dirty), 1022);
    // The last page: its table goes too, which takes another flush, of the table's first address.
    stage.munmap(start + 1023, 1);
    assert_eq!(stage.node_stat(NodeStat::Dirty), 1023);
    assert_eq!(flushes(&host), (2, 1 + 1), "one page, then one for the table");
}

/// Tables that nothing else can use go too (rules/faults#table-freeing).
#[test]
fn tables_go_with_the_range_that_only_they_cover() {
    let host = Solo::default();
    let stage = Stage::with(&host, 2048, preset("6.1").unwrap());
    let start = stage.anon_region(1 << 18, VmaFlags::empty());
    assert_eq!(start % (1 << 18), 0);
    let free = stage.nr_free();
    for vpn in (start..start + (1 << 18)).step_by(512) {
        assert!(stage.kernel.make_table(&stage.cx, &stage.mm, vpn).is_some());
    }
    assert_eq!((stage.node_stat(NodeStat::PageTablePages), stage.rss().3), (513, 514));
    stage.munmap(start, 768);
    assert_eq!(stage.node_stat(NodeStat::PageTablePages), 512);
    assert!(stage.mm.table_of(CPU, start).is_none());
    assert!(stage.mm.table_of(CPU, start + 512).is_some());
    stage.munmap(start + 768, (1 << 18) - 768);
    assert_eq!((stage.node_stat(NodeStat::PageTablePages), stage.rss().3), (0, 0));
    assert_eq!(stage.nr_free(), free);
}

/// Frames come back in the order of their pages (rules/unmap#reuse-order).
#[test]
fn freed_pages_are_reused_in_their_order() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.anon_region(3, VmaFlags::empty());
    let folios = [0, 1, 2].map(|i| stage.map_anon(start + i));
    stage.kernel.lru_add_drain(&stage.cx);
    stage.kernel.mem.drain_all(&stage.cx, None);
    stage.munmap(start, 3);
    assert_eq!([(); 3].map(|()| stage.frame()), folios);
}

/// From 6.9 on the last page freed is the first to be allocated again (rules/unmap#reuse-order).
#[test]
fn freed_pages_may_be_reused_in_the_opposite_order() {
    let host = Solo::default();
    let mut policy = preset("6.1").unwrap();
    policy.unmap.free_order = FreeOrder::Highest;
    let stage = Stage::with(&host, 256, policy);
    let start = stage.anon_region(3, VmaFlags::empty());
    let [a, b, c] = [0, 1, 2].map(|i| stage.map_anon(start + i));
    stage.kernel.lru_add_drain(&stage.cx);
    stage.kernel.mem.drain_all(&stage.cx, None);
    stage.munmap(start, 3);
    assert_eq!([(); 3].map(|()| stage.frame()), [c, b, a]);
}

#[test]
fn anonymous_memory_is_counted_out_and_freed() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let free = stage.nr_free();
    let start = stage.anon_region(600, VmaFlags::empty());
    (start..start + 600).for_each(|vpn| _ = stage.map_anon(vpn));
    stage.set_pte(start + 7, {
        let old = stage.pte(start + 7);
        assert!(old.is_present());
        old
    });
    assert_eq!((stage.rss(), stage.node_stat(NodeStat::AnonPages)), ((600, 0, 0, 4), 600));
    stage.munmap(start + 100, 100);
    assert_eq!(stage.rss(), (500, 0, 0, 4));
    assert!(stage.pte(start + 99).is_present() && stage.pte(start + 100).is_none());
    stage.munmap(start, 600);
    assert_eq!((stage.rss(), stage.node_stat(NodeStat::AnonPages)), ((0, 0, 0, 0), 0));
    assert_eq!(stage.nr_free(), free);
    assert_eq!(host.charged(Cost::ZapAnon), 600);
}

#[test]
fn the_zero_page_costs_little_and_counts_nowhere() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.anon_region(4, VmaFlags::empty());
    let zero = stage.kernel.zero_page();
    (start..start + 4).for_each(|vpn| stage.set_pte(vpn, Pte::new(zero)));
    stage.munmap(start, 4);
    assert_eq!((host.charged(Cost::ZapZero), host.charged(Cost::ZapAnon)), (4, 0));
    assert_eq!((stage.page(Folio::page(zero)).refcount(), stage.rss().0), (1, 0));
}

#[test]
fn a_locked_page_is_munlocked_with_its_last_locked_mapping() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.anon_region(1, VmaFlags::empty());
    let folio = stage.map_anon(start);
    stage.page(folio).get::<Solo>(1);
    stage.kernel.lru_add_drain(&stage.cx);
    stage.kernel.mlock(&stage.cx, &stage.mm, start, 1).unwrap();
    stage.kernel.lru_add_drain(&stage.cx);
    assert!(stage.page(folio).is(PageFlags::MLOCKED | PageFlags::UNEVICTABLE));
    stage.munmap(start, 1);
    stage.kernel.lru_add_drain(&stage.cx);
    assert!(!stage.page(folio).flags().intersects(PageFlags::MLOCKED | PageFlags::UNEVICTABLE));
    stage.kernel.put_page(&stage.cx, folio);
}

#[test]
fn what_reclaim_left_to_flush_is_flushed_before_entries_are_looked_at() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.anon_region(1, VmaFlags::empty());
    stage.map_anon(start);
    stage.mm.flush_pending.store(true, Relaxed);
    stage.munmap(start, 1);
    assert_eq!(host.charged(Cost::TlbFull), 1);
    assert!(!stage.mm.flush_pending.load(Relaxed));
}

#[test]
fn exit_takes_everything_and_flushes_once() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    stage.kernel.lru_add_drain(&stage.cx);
    let (file_start, folios) = stage.mapped_file(300, VmaFlags::empty());
    assert!(file_start > 0);
    let (free, anon) = (stage.nr_free(), stage.anon_region(700, VmaFlags::empty()));
    (anon..anon + 700).for_each(|vpn| _ = stage.map_anon(vpn));
    stage.kernel.exit_mm(&stage.cx, &stage.mm);
    assert_eq!(stage.rss(), (0, 0, 0, 0));
    assert_eq!((stage.node_stat(NodeStat::Mapped), stage.node_stat(NodeStat::AnonPages)), (0, 0));
    assert_eq!(stage.node_stat(NodeStat::PageTablePages), 0);
    // The file's tables and the top one besides.
    assert_eq!(stage.nr_free(), free + 3 + 1);
    assert!(folios.iter().all(|&folio| stage.page(folio).refcount() == 1));
    assert_eq!(host.charged(Cost::TlbFull), 1);
    assert!(stage.file().mappings.lock(CPU).all().is_empty());
}

#[test]
fn the_reaper_takes_private_memory_and_leaves_the_rest() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (file_start, _) = stage.mapped_file(5, VmaFlags::empty());
    let anon = stage.anon_region(5, VmaFlags::empty());
    (anon..anon + 5).for_each(|vpn| _ = stage.map_anon(vpn));
    {
        let _guard = stage.mm.mmap_lock.write(&stage.cx);
        assert!(!stage.kernel.reap_mm(&stage.cx, &stage.mm), "contended");
    }
    assert!(stage.kernel.reap_mm(&stage.cx, &stage.mm));
    assert!(stage.pte(anon).is_none() && stage.pte(file_start).is_present());
    assert_eq!((stage.rss().0, stage.rss().1), (0, 5));
    assert!(stage.mm.is_reaped.load(Relaxed));
}

#[test]
fn munmap_refuses_what_is_not_a_range() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let munmap = |start, pages| stage.kernel.munmap(&stage.cx, &stage.mm, start, pages);
    assert!(munmap(100, 0).is_err() && munmap(u32::MAX - 1, 1).is_err());
    assert!(munmap(u32::MAX, 2).is_err());
    assert!(munmap(100, 5).is_ok(), "a hole");
}
