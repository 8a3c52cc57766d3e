//! fork: entries, references, copies, reclaim and swap of pages that several mms map
//! (rules/faults#fork).

use super::*;
use crate::audit::check_kernel;
use crate::host::Lock;
use crate::vm::{Access, Fault, Referenced, STACK_KIB, STACK_ORDER, Trail};

const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

impl Stage<'_> {
    fn fork(&self, parent: &Mm<Solo>) -> Arc<Mm<Solo>> {
        self.kernel.fork(&self.cx, parent).unwrap()
    }

    fn touch(&self, mm: &Mm<Solo>, vpn: u32, access: Access) -> Fault {
        self.kernel.touch(&self.cx, mm, vpn, access).unwrap()
    }

    fn write_all(&self, mm: &Mm<Solo>, start: u32, pages: u32) {
        self.kernel.touch_range(&self.cx, mm, start, pages, Access::Write).unwrap();
    }

    fn folio_of(&self, mm: &Mm<Solo>, vpn: u32) -> Folio {
        self.kernel.mapped_folio(entry(mm, vpn)).unwrap()
    }

    fn audit(&self) {
        check_kernel(&self.kernel, &self.cx).unwrap();
    }

    /// Swaps a page out as reclaim does: it gets a slot, and no entry maps it any more.
    fn swap_out(&self, mm: &Mm<Solo>, vpn: u32) -> Folio {
        let folio = self.folio_of(mm, vpn);
        let page = self.page(folio);
        self.kernel.lru_add_drain(&self.cx);
        assert!(page.try_get::<Solo>() && self.kernel.try_lock_page(folio));
        assert!(self.kernel.add_to_swap(&self.cx, folio));
        assert!(self.kernel.try_to_unmap(&self.cx, folio, &mut Trail::default()));
        self.kernel.unlock_page(&self.cx, folio);
        self.kernel.put_page(&self.cx, folio);
        folio
    }
}

fn entry(mm: &Mm<Solo>, vpn: u32) -> Pte {
    mm.table_of(CPU, vpn).map_or(Pte::NONE, |table| table.peek(vpn))
}

fn resident(mm: &Mm<Solo>) -> [u64; 3] {
    [&mm.rss.anon, &mm.rss.file, &mm.rss.swap].map(|count| count.load(Relaxed))
}

#[test]
fn a_fork_shares_pages_and_a_write_copies_them() {
    let host = Solo::default();
    let s = Stage::new(&host);
    let at = s.anon_region(8, VmaFlags::empty());
    s.write_all(&s.mm, at, 4);
    s.touch(&s.mm, at + 5, Access::Read);
    let before = s.nr_free();
    let child = s.fork(&s.mm);
    let kernel_memory = STACK_ORDER.pages() + 8;
    assert_eq!(before - s.nr_free(), 4 + kernel_memory, "its tables: one of each level");
    assert_eq!(s.node_stat(NodeStat::KernelStack), STACK_KIB as u64);
    assert_eq!(s.node_stat(NodeStat::SlabUnreclaimable), 8);
    assert_eq!((resident(&child), resident(&s.mm)), ([4, 0, 0], [4, 0, 0]));
    let folio = s.folio_of(&child, at);
    assert_eq!((folio, s.page(folio).mapcount()), (s.folio_of(&s.mm, at), 2));
    assert!(!entry(&s.mm, at).is_writable() && !entry(&child, at).is_writable());
    assert!(!entry(&child, at).is_young() && entry(&s.mm, at).is_young());
    assert_eq!(s.node_stat(NodeStat::AnonPages), 4, "a page counts once");
    s.audit();
    // The child writes: a copy. The parent writes: it is alone with the old one.
    let reused = s.events(VmEvent::Pgreuse);
    assert_eq!(s.touch(&child, at, Access::Write), Fault::Minor);
    assert_ne!(s.folio_of(&child, at), folio);
    assert_eq!((s.page(folio).mapcount(), s.node_stat(NodeStat::AnonPages)), (1, 5));
    assert_eq!(s.events(VmEvent::Pgreuse), reused);
    assert_eq!(s.touch(&s.mm, at, Access::Write), Fault::Minor);
    assert_eq!((s.folio_of(&s.mm, at), s.events(VmEvent::Pgreuse)), (folio, reused + 1));
    // The zero page is not counted.
    assert_eq!(s.touch(&child, at + 5, Access::Write), Fault::Minor);
    assert_eq!(entry(&s.mm, at + 5).pfn(), Some(s.kernel.zero_page()));
    s.audit();
    s.kernel.exit_mm(&s.cx, &child);
    s.audit();
    // The cache keeps its first slab.
    assert_eq!((s.nr_free(), s.node_stat(NodeStat::AnonPages)), (before - 8, 4));
    assert_eq!(s.node_stat(NodeStat::KernelStack), 0);
}

#[test]
fn who_is_left_keeps_the_page() {
    let host = Solo::default();
    let s = Stage::new(&host);
    let at = s.anon_region(4, VmaFlags::empty());
    s.write_all(&s.mm, at, 4);
    let child = s.fork(&s.mm);
    let folio = s.folio_of(&child, at);
    s.kernel.exit_mm(&s.cx, &s.mm);
    s.audit();
    assert_eq!(s.page(folio).mapping(), PageMapping::Anon(s.mm.id), "its first owner has gone");
    // Reclaim finds the entry through the family.
    let referenced = s.kernel.page_referenced(&s.cx, folio, &mut Trail::default());
    assert_eq!(referenced, Referenced::By(0, VmaFlags::empty()), "a fork leaves entries old");
    s.touch(&child, at, Access::Read);
    let referenced = s.kernel.page_referenced(&s.cx, folio, &mut Trail::default());
    assert_eq!(referenced, Referenced::By(1, RW));
    assert_eq!(s.touch(&child, at, Access::Write), Fault::Minor);
    assert_eq!(
        (s.folio_of(&child, at), s.page(folio).mapping()),
        (folio, PageMapping::Anon(child.id))
    );
    assert!(!s.page(folio).is(PageFlags::FORKED));
    s.audit();
    s.kernel.exit_mm(&s.cx, &child);
    s.audit();
    assert_eq!(s.node_stat(NodeStat::AnonPages), 0);
    assert_eq!(s.kernel.families.lock(CPU).pairs().count(), 0);
}

#[test]
fn generations_share_and_swap_a_page() {
    let host = Solo::default();
    let s = Stage::new(&host);
    let at = s.anon_region(2, VmaFlags::empty());
    s.write_all(&s.mm, at, 1);
    let mut mms = alloc::vec![s.fork(&s.mm)];
    for _ in 0..10 {
        let last = s.fork(mms.last().unwrap());
        mms.push(last);
    }
    s.audit();
    let folio = s.swap_out(&s.mm, at);
    let slot = entry(&s.mm, at).slot().unwrap();
    assert_eq!((s.kernel.swap_count(&s.cx, slot), s.page(folio).mapcount()), (12, 0));
    assert!(mms.iter().all(|mm| resident(mm) == [0, 0, 1]));
    s.audit();
    // A fork copies the entry; a reader gets the page back, shared with the slot's other users.
    mms.push(s.fork(&mms[3]));
    assert_eq!(s.kernel.swap_count(&s.cx, slot), 13);
    assert_eq!(s.touch(&mms[5], at, Access::Read), Fault::Minor);
    assert!(s.page(folio).is(PageFlags::FORKED));
    s.audit();
    // A writer gets a copy, in one fault.
    let faults = s.events(VmEvent::Pgfault);
    assert_eq!(s.touch(&mms[6], at, Access::Write), Fault::Minor);
    assert_eq!(s.events(VmEvent::Pgfault), faults + 1);
    assert_ne!(s.folio_of(&mms[6], at), folio);
    s.audit();
    // All mappings of a page that came back are found from the oldest of the family.
    s.touch(&mms[11], at, Access::Read);
    assert_eq!((s.folio_of(&mms[11], at), s.page(folio).mapcount()), (folio, 2));
    s.kernel.exit_mm(&s.cx, &s.mm);
    let page = s.page(folio);
    assert!(page.try_get::<Solo>() && s.kernel.try_lock_page(folio));
    assert!(s.kernel.try_to_unmap(&s.cx, folio, &mut Trail::default()));
    s.kernel.unlock_page(&s.cx, folio);
    s.kernel.put_page(&s.cx, folio);
    s.audit();
    mms.drain(..).rev().for_each(|mm| s.kernel.exit_mm(&s.cx, &mm));
    s.audit();
    assert_eq!(s.kernel.swap_count(&s.cx, slot), 0);
}

#[test]
fn more_spaces_than_a_byte_counts_may_name_a_slot() {
    let host = Solo::default();
    let s = Stage::new(&host);
    let at = s.anon_region(2, VmaFlags::empty());
    s.write_all(&s.mm, at, 1);
    let mms: Vec<_> = (0..80).map(|_| s.fork(&s.mm)).collect();
    s.swap_out(&s.mm, at);
    let slot = entry(&s.mm, at).slot().unwrap();
    assert_eq!(s.kernel.swap_count(&s.cx, slot), 81);
    s.audit();
    mms[..40].iter().for_each(|mm| s.kernel.exit_mm(&s.cx, mm));
    assert_eq!(s.kernel.swap_count(&s.cx, slot), 41);
    s.audit();
    mms[40..].iter().for_each(|mm| s.kernel.exit_mm(&s.cx, mm));
    assert_eq!(s.kernel.swap_count(&s.cx, slot), 1);
    s.audit();
}

#[test]
fn mappings_of_files_are_found_by_faults_but_for_their_own_pages() {
    let host = Solo::default();
    let s = Stage::new(&host);
    let shared = s.file_region(4, VmaFlags::LOCKED);
    let backing = Backing::File { open: Arc::clone(&s.open), page: 0 };
    let private = s.kernel.mmap(&s.cx, &s.mm, 4, 512, RW, backing).unwrap();
    s.touch(&s.mm, private, Access::Read);
    let child = s.fork(&s.mm);
    assert_eq!(resident(&child), [0, 0, 0], "nothing was written");
    assert_eq!(child.vma_of(CPU, shared).unwrap().flags, VmaFlags::READ | VmaFlags::SHARED);
    s.kernel.exit_mm(&s.cx, &child);
    s.touch(&s.mm, private + 1, Access::Write);
    let child = s.fork(&s.mm);
    assert_eq!(resident(&child), [1, 3, 0], "all of the private area");
    s.audit();
    // Truncation takes the file's pages from both.
    s.kernel.truncate(&s.cx, s.file(), 0);
    assert_eq!(resident(&child)[1], 0);
    s.audit();
    s.kernel.exit_mm(&s.cx, &child);
    s.kernel.exit_mm(&s.cx, &s.mm);
    s.audit();
}

#[test]
fn exec_leaves_an_empty_space_and_no_trace_of_the_old_one() {
    let host = Solo::default();
    let s = Stage::new(&host);
    let at = s.anon_region(600, VmaFlags::empty());
    s.write_all(&s.mm, at, 600);
    s.kernel.exit_mm(&s.cx, &s.fork(&s.mm));
    let before = s.nr_free();
    let child = s.fork(&s.mm);
    child.add_task(&s.cx);
    let other = s.kernel.exec(&s.cx, &child).unwrap();
    assert!(other.ancestors.is_empty() && other.nr_tasks(&s.cx) == 1);
    assert_eq!((resident(&other), child.nr_tasks(&s.cx)), ([0, 0, 0], 0));
    assert!(s.kernel.mm(&s.cx, child.id).is_none());
    assert_eq!(s.node_stat(NodeStat::KernelStack), STACK_KIB as u64, "the same process");
    s.audit();
    s.kernel.exit_mm(&s.cx, &other);
    assert_eq!(s.nr_free(), before);
}
