//! Reverse mapping (rules/rmap#places).

use super::*;
use crate::config::RecencyGuard;
use crate::host::{Cost, Lock, Tasks};
use crate::page_cache::Mappings;
use crate::syscall::FileAdvice;
use crate::vm::{LastWalk, Referenced, Trail};

#[test]
fn a_walk_clears_young_bits_and_counts_areas_that_used_the_page() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (first, folios) = stage.mapped_file(1, VmaFlags::EXEC);
    let second = stage.file_region(1, VmaFlags::empty());
    let sequential = stage.file_region(1, VmaFlags::SEQ_READ);
    stage.map_file(second, folios[0]);
    stage.map_file(sequential, folios[0]);
    let referenced = || stage.kernel.page_referenced(&stage.cx, folios[0], &mut Trail::default());
    let flags = VmaFlags::READ | VmaFlags::SHARED | VmaFlags::EXEC;
    assert_eq!(referenced(), Referenced::By(2, flags));
    assert!([first, second, sequential].iter().all(|&vpn| !stage.pte(vpn).is_young()));
    assert_eq!(referenced(), Referenced::By(0, VmaFlags::empty()));
    assert_eq!((host.charged(Cost::RmapWalk), host.charged(Cost::RmapMapping)), (2, 6));
    assert_eq!(host.charged(Cost::TlbPage), 0);
}

/// Which VMAs a walk counts, and of which it leaves the young bits (rules/rmap#recency).
#[test]
fn vmas_without_recency_are_cleared_or_passed_over() {
    let (sequential, random) = (VmaFlags::SEQ_READ, VmaFlags::RAND_READ);
    for (guard, users, kept, mappings) in [
        (RecencyGuard::Seq, 3, [false, false, false, false], 4),
        (RecencyGuard::SeqRandNoreuse, 1, [false, true, true, true], 1),
    ] {
        let host = Solo::default();
        let mut policy = preset("6.1").unwrap();
        policy.reclaim.recency_guard = guard;
        let stage = Stage::with(&host, 256, policy);
        let (first, folios) = stage.mapped_file(1, VmaFlags::empty());
        let others = [sequential, random].map(|more| stage.file_region(1, more));
        let again = stage.kernel.open(&stage.cx, stage.file());
        stage.kernel.fadvise(&stage.cx, &again, 0, 0, FileAdvice::NoReuse);
        let backing = Backing::File { open: Arc::clone(&again), page: 0 };
        let flags = VmaFlags::READ | VmaFlags::SHARED;
        let (cx, mm) = (&stage.cx, &stage.mm);
        let unused = stage.kernel.mmap(cx, mm, 1, 512, flags, backing).unwrap();
        let at = [first, others[0], others[1], unused];
        at[1..].iter().for_each(|&vpn| stage.map_file(vpn, folios[0]));
        let used = || match stage.kernel.page_referenced(cx, folios[0], &mut Trail::default()) {
            Referenced::By(users, _) => users,
            Referenced::Contended => panic!(),
        };
        assert_eq!(used(), users, "{guard:?}");
        assert_eq!(at.map(|vpn| stage.pte(vpn).is_young()), kept, "{guard:?}");
        assert_eq!(host.charged(Cost::RmapMapping), mappings, "{guard:?}");
        assert_eq!(used(), 0);
        stage.kernel.fadvise(cx, &again, 0, 0, FileAdvice::Normal);
        let is_back = u32::from(guard == RecencyGuard::SeqRandNoreuse);
        assert_eq!(used(), is_back, "NORMAL advice takes NOREUSE back");
    }
}

#[test]
fn more_mappings_than_the_buffer_holds_are_all_found() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let folio = stage.cache(3);
    stage.kernel.lru_add_drain(&stage.cx);
    // Regions of three pages do not reach the page.
    for i in 0..40 {
        let start = stage.file_region(3 + i % 2, VmaFlags::empty());
        if i % 2 == 1 {
            stage.map_file(start + 3, folio);
        }
    }
    let Referenced::By(users, _) =
        stage.kernel.page_referenced(&stage.cx, folio, &mut Trail::default())
    else {
        panic!()
    };
    assert_eq!(users, 20);
    assert!(stage.kernel.try_lock_page(folio));
    assert!(stage.kernel.try_to_unmap(&stage.cx, folio, &mut Trail::default()));
    assert_eq!((stage.page(folio).refcount(), stage.rss().1), (1, 0));
    assert_eq!(stage.node_stat(NodeStat::Mapped), 0);
    stage.kernel.unlock_page(&stage.cx, folio);
}

#[test]
fn a_locked_area_ends_the_walk_and_keeps_the_page() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.anon_region(1, VmaFlags::empty());
    let folio = stage.map_anon(start);
    stage.kernel.lru_add_drain(&stage.cx);
    let lock = |add| {
        let range = (start, start + 1);
        let none = VmaFlags::empty();
        stage.kernel.change_vma_flags(&stage.cx, &stage.mm, range, add, none).1.unwrap();
    };
    lock(VmaFlags::LOCKED);
    let Referenced::By(0, flags) =
        stage.kernel.page_referenced(&stage.cx, folio, &mut Trail::default())
    else {
        panic!()
    };
    assert!(flags.contains(VmaFlags::LOCKED));
    assert!(stage.page(folio).is(PageFlags::MLOCKED));
    assert!(stage.pte(start).is_young(), "it did not get that far");
    assert!(stage.kernel.try_lock_page(folio));
    assert!(!stage.kernel.try_to_unmap(&stage.cx, folio, &mut Trail::default()));
    assert!(stage.pte(start).is_present());
    stage.kernel.unlock_page(&stage.cx, folio);
}

#[test]
fn an_area_that_is_locked_between_two_walks_is_locked_to_the_second() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.anon_region(2, VmaFlags::empty());
    let folios = [0, 1].map(|i| stage.map_anon(start + i));
    stage.kernel.lru_add_drain(&stage.cx);
    let mut trail = Trail::default();
    let mut referenced = |folio| stage.kernel.page_referenced(&stage.cx, folio, &mut trail);
    let flags = VmaFlags::READ | VmaFlags::WRITE;
    assert_eq!(folios.map(&mut referenced), [Referenced::By(1, flags); 2]);
    stage.kernel.mlock(&stage.cx, &stage.mm, start + 1, 1).unwrap();
    let locked = Referenced::By(0, VmaFlags::LOCKED);
    assert_eq!(folios.map(&mut referenced), [Referenced::By(0, VmaFlags::empty()), locked]);
    stage.kernel.munlock(&stage.cx, &stage.mm, start + 1, 1).unwrap();
    stage.mm.table_of(CPU, start).unwrap().access(start + 1, false);
    assert_eq!(referenced(folios[1]), Referenced::By(1, flags));
}

#[test]
fn memory_mapped_where_other_memory_was_is_found_between_two_walks() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let mut trail = Trail::default();
    let mut referenced = |folio| stage.kernel.page_referenced(&stage.cx, folio, &mut trail);
    let first = stage.anon_region(1, VmaFlags::SEQ_READ);
    let folio = stage.map_anon(first);
    assert_eq!(referenced(folio), Referenced::By(0, VmaFlags::empty()));
    let old = stage.mm.table_of(CPU, first).unwrap();
    stage.munmap(first, 1);
    let start = stage.anon_region(1, VmaFlags::EXEC);
    assert_eq!(start, first);
    let folio = stage.map_anon(start);
    assert!(!Arc::ptr_eq(&old, &stage.mm.table_of(CPU, start).unwrap()), "a table of its own");
    let flags = VmaFlags::READ | VmaFlags::WRITE | VmaFlags::EXEC;
    assert_eq!(referenced(folio), Referenced::By(1, flags));
    assert!(!stage.pte(start).is_young());
}

fn with_flags<H: Tasks>(vma: &Vma<H>, flags: VmaFlags) -> Arc<Vma<H>> {
    Arc::new(vma.part(vma.start, vma.end, flags))
}

/// Each change by itself: munmap makes several of them one after the other.
#[test]
fn a_trail_knows_nothing_of_an_area_or_a_table_that_went() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.anon_region(1, VmaFlags::EXEC);
    let folio = stage.map_anon(start);
    let mut last = LastWalk::default();
    let mut found = || {
        let mut found = Vec::new();
        stage.kernel.each_place(&stage.cx, folio, &mut last, |place| {
            found.push((place.table.pfn, place.flags));
            core::ops::ControlFlow::Continue(())
        });
        found
    };
    let vma = stage.mm.vma_of(CPU, start).unwrap();
    let table = stage.mm.table_of(CPU, start).unwrap();
    assert_eq!(found(), [(table.pfn, vma.flags)]);
    // As while munmap is about to clear the entry.
    stage.mm.tables.lock(CPU).remove_vma(start);
    assert_eq!(found(), [(table.pfn, VmaFlags::empty())]);
    stage.mm.tables.lock(CPU).insert_vma(Arc::clone(&vma));
    assert_eq!(found(), [(table.pfn, vma.flags)]);
    let seq = vma.flags | VmaFlags::SEQ_READ;
    stage.mm.tables.lock(CPU).insert_vma(with_flags(&vma, seq));
    assert_eq!(found(), [(table.pfn, seq)], "another one in its place");
    stage.mm.tables.lock(CPU).take_table(start);
    assert_eq!(found(), []);
    stage.mm.tables.lock(CPU).insert_table(start, || table.clone());
    assert_eq!(found(), [(table.pfn, seq)]);
}

/// A file that is mapped once is looked up once, until its ranges change, or it is another file's
/// turn.
#[test]
fn a_trail_knows_nothing_of_a_range_that_came_or_went() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let folio = stage.cache(0);
    let mut last = LastWalk::default();
    let mut found = |folio| {
        let mut found = Vec::new();
        kernel.each_place(cx, folio, &mut last, |place| {
            found.push(place.vpn);
            core::ops::ControlFlow::Continue(())
        });
        found.sort_unstable();
        found
    };
    let first = stage.file_region(1, VmaFlags::empty());
    stage.map_file(first, folio);
    // Another file whose ranges changed as often.
    let other = kernel.create_file(cx, stage.file().spec);
    let of_other = stage.frame();
    let added = kernel.add_to_page_cache(cx, &other, 0, of_other, Gfp::GFP_KERNEL);
    assert!(added.is_ok());
    let flags = VmaFlags::READ | VmaFlags::SHARED;
    let backing = Backing::File { open: kernel.open(cx, &other), page: 0 };
    let third = kernel.mmap(cx, &stage.mm, 1, 512, flags, backing).unwrap();
    stage.map_file(third, of_other);
    assert_eq!([found(folio), found(folio)], [[first], [first]]);
    assert_eq!([found(of_other), found(folio)], [[third], [first]]);
    let second = stage.file_region(1, VmaFlags::empty());
    stage.map_file(second, folio);
    assert_eq!(found(folio), [first, second]);
    stage.munmap(first, 1);
    assert_eq!([found(folio), found(folio)], [[second], [second]]);
}

#[test]
fn anonymous_memory_leaves_a_swap_entry() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let start = stage.anon_region(2, VmaFlags::empty());
    let folio = stage.map_anon(start);
    kernel.lru_add_drain(cx);
    assert!(kernel.isolate_page(cx, folio) && kernel.try_lock_page(folio));
    assert!(!kernel.try_to_unmap(cx, folio, &mut Trail::default()), "it has no slot yet");
    assert!(stage.pte(start).is_present());
    assert!(kernel.add_to_swap(cx, folio));
    assert!(kernel.try_to_unmap(cx, folio, &mut Trail::default()));
    let slot = stage.pte(start).slot().unwrap();
    assert_eq!((kernel.slot_of(folio), kernel.swap_count(cx, slot)), (Some(slot), 1));
    assert_eq!(stage.rss(), (0, 0, 1, 3));
    assert!(stage.page(folio).is(PageFlags::DIRTY), "its entry was dirty");
    kernel.unlock_page(cx, folio);
    kernel.putback_page(cx, folio);
    // Unmapping the entry frees slot and page: the cached copy is unused.
    stage.munmap(start, 2);
    assert_eq!((stage.rss().2, stage.page(folio).refcount()), (0, 0));
    assert_eq!(kernel.swap_count(cx, slot), 0);
}

#[test]
fn lazily_freed_memory_goes_if_nobody_wrote_it() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let start = stage.anon_region(2, VmaFlags::empty());
    let folios = [0, 1].map(|i| stage.map_anon(start + i));
    kernel.lru_add_drain(cx);
    let advised = kernel.madvise(cx, &stage.mm, start, 2, crate::syscall::MemoryAdvice::Free);
    assert_eq!(advised, Ok(()));
    kernel.lru_add_drain(cx);
    assert!(folios.iter().all(|&folio| stage.page(folio).is_file_lru()));
    // The second page is written again.
    assert!(stage.mm.table_of(CPU, start).unwrap().access(start + 1, true));
    for (folio, goes) in folios.into_iter().zip([true, false]) {
        assert!(kernel.isolate_page(cx, folio) && kernel.try_lock_page(folio));
        assert_eq!(kernel.try_to_unmap(cx, folio, &mut Trail::default()), goes);
        kernel.unlock_page(cx, folio);
        kernel.putback_page(cx, folio);
    }
    assert!(stage.pte(start).is_none() && stage.pte(start + 1).is_dirty());
    assert!(stage.page(folios[1]).is(PageFlags::SWAPBACKED | PageFlags::DIRTY));
    assert_eq!(stage.rss().0, 1);
}

#[test]
fn flushes_for_other_cpus_wait_for_the_end_of_the_list() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let (start, folios) = stage.mapped_file(3, VmaFlags::WRITE);
    let unmap = |folio| {
        assert!(
            kernel.try_lock_page(folio) && kernel.try_to_unmap(cx, folio, &mut Trail::default())
        );
        kernel.unlock_page(cx, folio);
    };
    let flushes = || (host.charged(Cost::TlbPage), host.charged(Cost::TlbFull));
    // Nobody else has the mm: the entry's translation is dropped at once.
    kernel.enter_mm(cx, &stage.mm);
    unmap(folios[0]);
    assert_eq!((flushes(), stage.mm.flush_pending.load(Relaxed)), ((1, 0), false));
    stage.mm.cpus.insert(CpuId(1));
    unmap(folios[1]);
    assert_eq!((flushes(), stage.mm.flush_pending.load(Relaxed)), ((1, 0), true));
    kernel.flush_unmapped(cx, true);
    assert_eq!(flushes(), (1, 0), "no dirty entry");
    stage.set_pte(start + 2, Pte::new(folios[2].pfn()).with_writable(true).with_dirty(true));
    unmap(folios[2]);
    assert!(stage.page(folios[2]).is(PageFlags::DIRTY));
    kernel.flush_unmapped(cx, true);
    kernel.flush_unmapped(cx, false);
    assert_eq!(flushes(), (1, 1), "one flush for all");
}

#[test]
fn pages_are_cleaned_in_shared_mappings_before_they_are_written() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let (start, folios) = stage.mapped_file(1, VmaFlags::WRITE);
    kernel.enter_mm(cx, &stage.mm);
    assert!(!kernel.clean_mappings(cx, folios[0]), "clean and read-only");
    stage.set_pte(start, Pte::new(folios[0].pfn()).with_writable(true).with_dirty(true));
    assert!(kernel.clean_mappings(cx, folios[0]));
    let pte = stage.pte(start);
    assert!(!pte.is_dirty() && !pte.is_writable() && pte.is_young());
    assert_eq!(host.charged(Cost::TlbPage), 1);
    assert!(!kernel.clean_mappings(cx, folios[0]));
}

#[test]
fn truncation_unmaps_one_page_everywhere() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let (first, folios) = stage.mapped_file(3, VmaFlags::empty());
    let second = stage.file_region(3, VmaFlags::empty());
    stage.map_file(second + 1, folios[1]);
    // A private copy at the same place stays.
    let third = stage.file_region(3, VmaFlags::empty());
    stage.map_anon(third + 1);
    assert!(kernel.try_lock_page(folios[1]));
    kernel.unmap_everywhere(cx, folios[1]);
    kernel.unlock_page(cx, folios[1]);
    assert_eq!((stage.page(folios[1]).mapcount(), stage.page(folios[1]).refcount()), (0, 1));
    assert!(stage.pte(first).is_present() && stage.pte(first + 2).is_present());
    assert!(stage.pte(first + 1).is_none() && stage.pte(second + 1).is_none());
    assert!(stage.pte(third + 1).is_present());
    assert_eq!(stage.rss(), (1, 2, 0, stage.rss().3));
}
