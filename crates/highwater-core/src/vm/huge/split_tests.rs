//! Huge pages split, queued for it, and taken to swap.

use alloc::vec::Vec;

use super::tests::Stage;
use super::*;
use crate::config::{Thp, preset};
use crate::host::{CpuId, Solo};
use crate::page::{Folio, PageFlags};
use crate::swap::Slot;
use crate::syscall::MemoryAdvice;
use crate::vm::{Access, Fault};
use crate::vmstat::{NodeStat, VmEvent};
use crate::zone::NodeId;

const CPU: CpuId = CpuId(0);
const PAGES: u64 = NR as u64;

impl Stage<'_> {
    /// A huge page that was written, on its list.
    fn huge(&self) -> (u32, Folio) {
        let start = self.map(NR, NR, VmaFlags::empty());
        self.touch(start, Access::Write);
        (start, self.folio(start))
    }

    fn slot_at(&self, vpn: u32) -> Option<Slot> {
        self.mm.table_of(CPU, vpn).unwrap().peek(vpn).slot()
    }

    /// Takes every free cluster of swap away.
    fn break_up_swap(&self) {
        while let Some(first) = self.kernel.swap_alloc_cluster(&self.cx) {
            let slots: Vec<_> =
                (1..NR).map(|at| Slot { offset: first.offset + at, ..first }).collect();
            let area = self.kernel.swap.area(first);
            // All but one are free again: no cluster is.
            area.give_back_for_tests(&self.cx, &slots);
            self.kernel.swap.free.fetch_add(PAGES - 1, crate::sync::atomic::Ordering::Relaxed);
        }
    }
}

/// rules/huge-pages#deferred-split
#[test]
fn what_was_unmapped_is_freed_when_memory_is_short() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let (start, folio) = stage.huge();
    stage.unmap(start + 100, 50);
    stage.unmap(start + 200, 50);
    assert_eq!(stage.events(VmEvent::ThpDeferredSplitPage), 1, "queued once");
    assert_eq!(kernel.nr_deferred(cx, NodeId(0)), 1);
    stage.audit();
    let free = stage.nr_free();
    assert_eq!(kernel.split_deferred(cx, NodeId(0), 10), 1);
    assert_eq!(stage.events(VmEvent::ThpSplitPage), 1);
    assert_eq!(stage.nr_free(), free + 100);
    assert_eq!(stage.stat(NodeStat::AnonPages), PAGES - 100);
    assert_eq!(kernel.nr_deferred(cx, NodeId(0)), 0);
    assert_eq!(stage.folio(start), Folio::page(folio.pfn()), "single pages at the same frames");
    assert_eq!(stage.touch(start + 511, Access::Write), Fault::None);
    stage.audit();
    stage.unmap(start, NR);
    assert_eq!(stage.stat(NodeStat::AnonPages), 0);
    stage.audit();
}

#[test]
fn a_huge_page_that_goes_altogether_leaves_the_queue() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (start, _) = stage.huge();
    let free = stage.nr_free();
    stage.unmap(start, 1);
    stage.audit();
    stage.unmap(start + 1, 511);
    assert_eq!(stage.kernel.nr_deferred(&stage.cx, NodeId(0)), 0);
    assert!(stage.nr_free() >= free + PAGES);
    stage.audit();
}

#[test]
fn one_in_use_stays_whole_and_queued() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let (start, folio) = stage.huge();
    stage.unmap(start, 1);
    kernel.mem.map.page(folio).get::<Solo>(1);
    assert_eq!(kernel.split_deferred(cx, NodeId(0), 10), 0);
    assert_eq!(stage.events(VmEvent::ThpSplitPageFailed), 1);
    assert_eq!(kernel.nr_deferred(cx, NodeId(0)), 1, "for the next pass");
    kernel.put_page(cx, folio);
    assert_eq!(kernel.split_deferred(cx, NodeId(0), 10), 1);
    stage.audit();
}

/// The shrinker has the queue worked off at the lowest priority.
#[test]
fn reclaim_splits_what_is_queued() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    for _ in 0..3 {
        let (start, _) = stage.huge();
        stage.unmap(start, 300);
    }
    assert_eq!(stage.kernel.nr_deferred(&stage.cx, NodeId(0)), 3);
    stage.kernel.drop_caches(&stage.cx, 2);
    assert_eq!(stage.kernel.nr_deferred(&stage.cx, NodeId(0)), 0);
    assert_eq!(stage.events(VmEvent::ThpSplitPage), 3);
    stage.audit();
}

#[test]
fn locked_memory_is_locked_by_leaf() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (start, folio) = stage.huge();
    stage.kernel.mlock(&stage.cx, &stage.mm, start, NR).unwrap();
    let page = stage.kernel.mem.map.page(folio);
    assert!(page.is(PageFlags::MLOCKED));
    stage.unmap(start, 10);
    stage.kernel.lru_add_drain(&stage.cx);
    assert!(!page.is(PageFlags::MLOCKED), "reclaim splits and locks the rest again");
    stage.audit();
    stage.kernel.exit_mm(&stage.cx, &stage.mm);
    stage.audit();
}

/// rules/huge-pages#swap
#[test]
fn it_goes_to_swap_in_one_piece_and_comes_back_page_by_page() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (start, _) = stage.huge();
    stage.advise(start, NR, MemoryAdvice::PageOut);
    stage.audit();
    assert_eq!(stage.events(VmEvent::ThpSwpout), 1);
    assert_eq!(stage.events(VmEvent::Pswpout), PAGES);
    assert_eq!(stage.events(VmEvent::ThpSplitPmd), 1, "its entries name slots");
    assert_eq!(stage.events(VmEvent::ThpSplitPage), 0);
    let first = stage.slot_at(start).unwrap();
    assert!(first.offset.is_multiple_of(NR));
    assert_eq!(stage.slot_at(start + 511), Some(Slot { offset: first.offset + 511, ..first }));
    stage.advise(start, NR, MemoryAdvice::PageOut);
    stage.touch(start + 3, Access::Read);
    stage.kernel.lru_add_drain(&stage.cx);
    assert!(stage.events(VmEvent::Pswpin) < 64);
    assert!(!stage.folio(start + 3).is_large() || stage.events(VmEvent::Pswpin) == 0);
    stage.audit();
    stage.kernel.exit_mm(&stage.cx, &stage.mm);
    stage.audit();
    assert_eq!(stage.kernel.swap.nr_free(), stage.kernel.swap.nr_total());
}

#[test]
fn without_a_cluster_it_is_split_and_its_pages_go_one_by_one() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    stage.break_up_swap();
    let (start, _) = stage.huge();
    stage.advise(start, NR, MemoryAdvice::PageOut);
    assert_eq!(stage.events(VmEvent::ThpSwpoutFallback), 1);
    assert_eq!((stage.events(VmEvent::ThpSwpout), stage.events(VmEvent::ThpSplitPage)), (0, 1));
    assert_eq!(stage.events(VmEvent::Pswpout), PAGES);
    assert!(stage.slot_at(start + 511).is_some());
}

/// Up to 4.12 there was no other way, so it is no fallback.
#[test]
fn older_kernels_always_split() {
    let host = Solo::default();
    let stage = Stage::with(&host, preset("4.6").unwrap(), |m| m.tunables.thp = Thp::Always);
    let (start, _) = stage.huge();
    stage.advise(start, NR, MemoryAdvice::PageOut);
    assert_eq!(stage.events(VmEvent::ThpSwpoutFallback), 0);
    assert_eq!((stage.events(VmEvent::ThpSwpout), stage.events(VmEvent::ThpSplitPage)), (0, 1));
    assert_eq!(stage.events(VmEvent::Pswpout), PAGES);
    stage.audit();
}

/// A page that no leaf maps any more is split first; its unused parts are freed.
#[test]
fn a_partly_unmapped_one_is_not_written_whole() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (start, folio) = stage.huge();
    stage.unmap(start, 12);
    stage.kernel.lru_add_drain(&stage.cx);
    stage.kernel.mem.map.page(folio).get::<Solo>(1);
    assert!(stage.kernel.isolate_page(&stage.cx, folio));
    stage.kernel.put_page(&stage.cx, folio);
    stage.kernel.reclaim_pages(&stage.cx, &[folio]);
    assert_eq!((stage.events(VmEvent::ThpSwpout), stage.events(VmEvent::ThpSplitPage)), (0, 1));
    // The head is not mapped: nothing is written for it.
    assert_eq!(stage.events(VmEvent::Pswpout), PAGES - 12);
    stage.audit();
}

/// rules/huge-pages#page-split: pages of a huge page that two mms have.
#[test]
fn what_a_fork_shared_is_split_for_both_sides() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let (start, folio) = stage.huge();
    let child = kernel.fork(cx, &stage.mm).unwrap();
    // The first page is unused, some pages belong to one side only, the rest to both.
    stage.unmap(start, 10);
    kernel.munmap(cx, &child, start, 1).unwrap();
    kernel.munmap(cx, &child, start + 100, 20).unwrap();
    stage.audit();
    let before = stage.nr_free();
    assert_eq!(kernel.split_deferred(cx, NodeId(0), 10), 1);
    assert_eq!(stage.events(VmEvent::ThpSplitPage), 1);
    assert_eq!(stage.nr_free(), before + 1, "the first page had no user left");
    stage.audit();
    assert_eq!(stage.stat(NodeStat::AnonPages), PAGES - 1);
    let entry = |mm: &crate::vm::Mm<Solo>, at| mm.table_of(CPU, at).unwrap().peek(at);
    for (at, mappings) in [(5, 1), (50, 2), (110, 1), (511, 2)] {
        let page = Folio::page(crate::page::Pfn(folio.pfn().0 + at));
        let of = |mm| entry(mm, start + at).pfn() == Some(page.pfn());
        assert_eq!(u32::from(of(&stage.mm)) + u32::from(of(&child)), mappings);
        assert_eq!(kernel.mem.map.page(page).mapcount(), mappings, "{at}");
    }
    // Each is copied when one side writes it, and goes when both are gone.
    kernel.touch(cx, &child, start + 50, Access::Write).unwrap();
    kernel.touch(cx, &child, start + 110, Access::Read).unwrap_err();
    assert_ne!(entry(&child, start + 50).pfn(), entry(&stage.mm, start + 50).pfn());
    stage.audit();
    kernel.exit_mm(cx, &stage.mm);
    stage.audit();
    kernel.exit_mm(cx, &child);
    stage.audit();
    assert_eq!(stage.stat(NodeStat::AnonPages), 0);
}

#[test]
fn a_forked_one_that_somebody_holds_stays_as_it_was() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let (start, folio) = stage.huge();
    let child = kernel.fork(cx, &stage.mm).unwrap();
    stage.unmap(start, 10);
    let page = kernel.mem.map.page(folio);
    let counts = || (page.mapcount(), page.refcount());
    kernel.lru_add_drain(cx);
    let before = counts();
    page.get::<Solo>(1);
    assert_eq!(kernel.split_deferred(cx, NodeId(0), 10), 0);
    kernel.put_page(cx, folio);
    assert_eq!(counts(), before);
    let writable = |at| {
        let pte = child.table_of(CPU, start + at).unwrap().peek(start + at);
        (pte.pfn().is_some(), pte.is_writable())
    };
    assert!((0..NR).all(|at| writable(at) == (true, false)));
    stage.audit();
    // Alone again, it is split.
    kernel.exit_mm(cx, &child);
    assert_eq!(kernel.split_deferred(cx, NodeId(0), 10), 1);
    stage.audit();
}
