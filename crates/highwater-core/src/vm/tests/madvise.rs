//! madvise (rules/unmap#madvise).

use super::*;
use crate::kernel::Error;
use crate::syscall::MemoryAdvice;

fn advise(stage: &Stage<'_>, start: u32, pages: u32, advice: MemoryAdvice) -> Result<(), Error> {
    stage.kernel.madvise(&stage.cx, &stage.mm, start, pages, advice)
}

#[test]
fn dont_need_unmaps_and_keeps_tables() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let anon = stage.anon_region(8, VmaFlags::empty());
    (anon..anon + 8).for_each(|vpn| _ = stage.map_anon(vpn));
    let tables = stage.rss().3;
    assert_eq!(advise(&stage, anon + 2, 3, MemoryAdvice::DontNeed), Ok(()));
    assert_eq!(stage.rss(), (5, 0, 0, tables));
    assert!(stage.pte(anon + 1).is_present() && stage.pte(anon + 2).is_none());
    // A hole after the VMA: mapped pages are freed, and the call returns an error.
    assert_eq!(advise(&stage, anon + 5, 100, MemoryAdvice::DontNeed), Err(Error::Fault));
    assert_eq!(stage.rss().0, 2);
    let locked = VmaFlags::LOCKED;
    let range = (anon, anon + 8);
    let change =
        stage.kernel.change_vma_flags(&stage.cx, &stage.mm, range, locked, VmaFlags::empty());
    assert!(change.1.is_ok());
    assert_eq!(advise(&stage, anon, 8, MemoryAdvice::DontNeed), Err(Error::Invalid));
}

#[test]
fn dont_need_leaves_file_pages_cached_and_marks_them() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (start, folios) = stage.mapped_file(2, VmaFlags::empty());
    assert_eq!(advise(&stage, start, 2, MemoryAdvice::DontNeed), Ok(()));
    assert!(
        folios.iter().all(|&folio| stage.page(folio).is(PageFlags::LRU | PageFlags::REFERENCED))
    );
}

#[test]
fn reading_advice_changes_flags() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.anon_region(4, VmaFlags::empty());
    let both = VmaFlags::SEQ_READ | VmaFlags::RAND_READ;
    assert_eq!(advise(&stage, start + 1, 2, MemoryAdvice::Sequential), Ok(()));
    let flags = |vpn| flags_at(&stage, vpn).unwrap() & both;
    assert_eq!((flags(start), flags(start + 1)), (VmaFlags::empty(), VmaFlags::SEQ_READ));
    assert_eq!(advise(&stage, start, 4, MemoryAdvice::Random), Ok(()));
    assert_eq!((flags(start), flags(start + 1)), (VmaFlags::RAND_READ, VmaFlags::RAND_READ));
    assert_eq!(advise(&stage, start, 4, MemoryAdvice::Normal), Ok(()));
    assert_eq!(flags(start + 3), VmaFlags::empty());
    assert_eq!(advise(&stage, start, 5, MemoryAdvice::Normal), Err(Error::Fault));
}

#[test]
fn free_makes_pages_file_pages_that_need_no_swap() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.anon_region(3, VmaFlags::empty());
    let folios = [0, 1, 2].map(|i| stage.map_anon(start + i));
    stage.kernel.lru_add_drain(&stage.cx);
    // Somebody holds the lock of a dirty page: it is skipped.
    stage.page(folios[2]).flag_set::<Solo>(PageFlags::DIRTY);
    assert!(stage.kernel.try_lock_page(folios[2]));
    assert_eq!(advise(&stage, start, 3, MemoryAdvice::Free), Ok(()));
    stage.kernel.lru_add_drain(&stage.cx);
    let is_lazy = |folio| !stage.page(folio).is(PageFlags::SWAPBACKED);
    assert_eq!(folios.map(is_lazy), [true, true, false]);
    assert_eq!(stage.events(VmEvent::Pglazyfree), 2);
    assert!(!stage.pte(start).is_dirty() && !stage.pte(start).is_young());
    assert!(stage.pte(start).is_writable() && stage.pte(start + 2).is_dirty());
    stage.kernel.unlock_page(&stage.cx, folios[2]);
    let (file, _) = stage.mapped_file(1, VmaFlags::empty());
    assert_eq!(advise(&stage, file, 1, MemoryAdvice::Free), Err(Error::Invalid));
}

#[test]
fn cold_pages_of_one_user_lose_their_standing() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (start, folios) = stage.mapped_file(2, VmaFlags::empty());
    for &folio in &folios {
        stage.kernel.mark_accessed(&stage.cx, folio);
        stage.kernel.mark_accessed(&stage.cx, folio);
    }
    stage.kernel.lru_add_drain(&stage.cx);
    folios.iter().for_each(|&folio| stage.kernel.mark_accessed(&stage.cx, folio));
    // The second page has another user.
    let other = stage.file_region(2, VmaFlags::empty());
    stage.map_file(other + 1, folios[1]);
    assert_eq!(advise(&stage, start, 2, MemoryAdvice::Cold), Ok(()));
    stage.kernel.lru_add_drain(&stage.cx);
    let standing = PageFlags::ACTIVE | PageFlags::REFERENCED;
    assert!(!stage.page(folios[0]).flags().intersects(standing));
    assert!(stage.page(folios[1]).is(standing));
    assert!(!stage.pte(start).is_young() && stage.pte(start + 1).is_young());
    assert_eq!(stage.events(VmEvent::Pgdeactivate), 1);
}

#[test]
fn paged_out_memory_leaves_at_once() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.anon_region(3, VmaFlags::empty());
    (start..start + 3).for_each(|vpn| _ = stage.map_anon(vpn));
    let (file, folios) = stage.mapped_file(2, VmaFlags::empty());
    // Dirty file pages are unmapped but not written: the flusher is to do that.
    stage.page(folios[1]).flag_set::<Solo>(PageFlags::DIRTY);
    assert_eq!(advise(&stage, start, 3, MemoryAdvice::PageOut), Ok(()));
    assert_eq!(advise(&stage, file, 2, MemoryAdvice::PageOut), Ok(()));
    assert_eq!((stage.rss().0, stage.rss().1, stage.rss().2), (0, 0, 3));
    assert_eq!(stage.events(VmEvent::Pswpout), 3);
    assert_eq!(stage.file().nr_pages(), 1);
    stage.kernel.lru_add_drain(&stage.cx);
    let flags = stage.page(folios[1]).flags();
    assert!(flags.contains(PageFlags::LRU | PageFlags::DIRTY), "{flags:?}");
    stage.page(folios[1]).flag_clear::<Solo>(PageFlags::DIRTY);
}
