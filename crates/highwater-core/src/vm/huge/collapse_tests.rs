//! khugepaged: the ranges that it checks, and its decisions.

use super::collapse::Collapsed;
use super::khugepaged::Check;
use super::tests::{Stage, take_all_blocks};
use super::*;
use crate::config::{Machine, preset};
use crate::host::{CpuId, Solo};
use crate::page::PageFlags;
use crate::syscall::MemoryAdvice;
use crate::vm::{Access, Fault};
use crate::vmstat::{NodeStat, VmEvent};
use crate::zone::NodeId;

const CPU: CpuId = CpuId(0);
const PAGES: u64 = NR as u64;

impl Stage<'_> {
    /// A range that may have huge pages from now on, of which the first `nr` pages were written one by one.
    fn single_pages(&self, nr: u32) -> u32 {
        let start = self.map(NR, NR, VmaFlags::NOHUGEPAGE);
        (start..start + nr)
            .for_each(|vpn| assert_eq!(self.touch(vpn, Access::Write), Fault::Minor));
        self.advise(start, NR, MemoryAdvice::HugePage);
        self.kernel.lru_add_drain(&self.cx);
        start
    }

    fn read(&self, start: u32, pages: u32) {
        (start..start + pages).for_each(|vpn| _ = self.touch(vpn, Access::Read));
    }

    fn check(&self, start: u32) -> Check {
        let table = self.mm.table_of(CPU, start).unwrap();
        self.kernel.check_for_tests(&self.cx, &table, start)
    }

    fn round(&self) -> u64 {
        self.kernel.round_for_tests(&self.cx, None).0
    }
}

/// rules/huge-pages#khugepaged
#[test]
fn what_makes_a_range_worth_it() {
    let host = Solo::default();
    let change: fn(&mut Machine) = |m| {
        m.tunables.khugepaged_max_ptes_none = 500;
        m.tunables.khugepaged_max_ptes_swap = 2;
    };
    let stage = Stage::with(&host, preset("6.1").unwrap(), change);
    assert_eq!(stage.check(stage.single_pages(12)), Check::Collapse(NodeId(0)));
    assert_eq!(stage.check(stage.single_pages(11)), Check::Leave);
    assert_eq!(stage.events(VmEvent::ThpScanExceedNonePte), 1);
    // Not used since: no.
    let start = stage.single_pages(NR);
    stage.advise(start, NR, MemoryAdvice::Cold);
    assert_eq!(stage.check(start), Check::Leave);
    stage.touch(start + 3, Access::Read);
    assert_eq!(stage.check(start), Check::Collapse(NodeId(0)));
    // If pages are on swap, half of the range must have been used, and only a limited number may be
    // on swap.
    stage.advise(start + 10, 2, MemoryAdvice::PageOut);
    assert_eq!(stage.check(start), Check::Leave);
    stage.read(start + 12, 256);
    assert_eq!(stage.check(start), Check::Collapse(NodeId(0)));
    stage.advise(start + 400, 1, MemoryAdvice::PageOut);
    assert_eq!(stage.check(start), Check::Leave);
    assert_eq!(stage.events(VmEvent::ThpScanExceedSwapPte), 1);
    // A page with another user.
    let start = stage.single_pages(NR);
    let folio = stage.folio(start + 7);
    stage.kernel.mem.map.page(folio).get::<Solo>(1);
    assert_eq!(stage.check(start), Check::Leave);
    stage.kernel.put_page(&stage.cx, folio);
    assert_eq!(stage.check(start), Check::Collapse(NodeId(0)));
}

/// Before there were limits for them khugepaged left a range at the first swapped or shared page
/// (rules/huge-pages#khugepaged).
#[test]
fn older_kernels_leave_a_range_at_the_first_swapped_or_shared_page() {
    for (kernel, swapped, shared) in
        [("4.3", false, false), ("5.4", true, false), ("5.10", true, true)]
    {
        let host = Solo::default();
        let stage = Stage::with(&host, preset(kernel).unwrap(), |_| {});
        let is_worth_it = |start| stage.check(start) == Check::Collapse(NodeId(0));
        let start = stage.single_pages(NR);
        stage.advise(start, 1, MemoryAdvice::PageOut);
        stage.read(start + 1, NR - 1);
        assert_eq!(is_worth_it(start), swapped, "{kernel}");
        let start = stage.single_pages(NR);
        stage.read(start, NR);
        let page = stage.kernel.mem.map.page(stage.folio(start + 7));
        page.get::<Solo>(1);
        page.map_add::<Solo>(1);
        assert_eq!(is_worth_it(start), shared, "{kernel}");
        page.map_remove::<Solo>(1);
        page.put::<Solo>(1);
        assert!(is_worth_it(start), "{kernel}");
    }
}

/// rules/huge-pages#collapse
#[test]
fn single_pages_become_a_huge_one() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.single_pages(100);
    stage.advise(start + 20, 10, MemoryAdvice::PageOut);
    let free = stage.nr_free();
    stage.touch(start + 1, Access::Write);
    stage.read(start, 20);
    stage.read(start + 30, 70);
    // Too few pages were used for the number on swap.
    assert_eq!(stage.check(start), Check::Leave);
    stage.read(start + 20, 10);
    stage.kernel.lru_add_drain(&stage.cx);
    assert!(stage.round() > 1);
    assert!(stage.has_leaf(start));
    assert_eq!(stage.events(VmEvent::ThpCollapseAlloc), 1);
    assert_eq!(stage.events(VmEvent::ThpFaultAlloc), 0);
    assert_eq!(stage.stat(NodeStat::AnonTransparentHugepages), PAGES);
    assert_eq!(stage.stat(NodeStat::AnonPages), PAGES);
    assert_eq!(stage.mm.rss.resident(), PAGES);
    assert_eq!(stage.touch(start + 511, Access::Write), Fault::None, "holes are filled");
    stage.audit();
    assert_eq!(stage.nr_free(), free + 90 - PAGES);
    stage.unmap(start, NR);
    stage.audit();
    // Slots that a CPU keeps count as used.
    assert!(stage.kernel.swap.nr_free() + 64 >= stage.kernel.swap.nr_total());
}

/// Swapped pages are read in first.
#[test]
fn what_is_swapped_out_is_brought_back() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.single_pages(NR);
    stage.advise(start, 20, MemoryAdvice::PageOut);
    stage.kernel.lru_add_drain(&stage.cx);
    assert_eq!(stage.check(start), Check::Collapse(NodeId(0)));
    stage.round();
    assert!(stage.has_leaf(start));
    assert!(stage.events(VmEvent::Pswpin) >= 20);
    stage.audit();
}

#[test]
fn a_page_in_use_at_the_last_moment_leaves_all_as_it_was() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.single_pages(NR);
    let folio = stage.folio(start + 500);
    stage.kernel.mem.map.page(folio).flag_set::<Solo>(PageFlags::LOCKED);
    let (cx, mm) = (&stage.cx, &stage.mm);
    assert_eq!(stage.kernel.collapse(cx, mm, start, NodeId(0)), Collapsed::Busy);
    stage.kernel.unlock_page(cx, folio);
    assert!(!stage.has_leaf(start));
    assert_eq!(stage.touch(start + 3, Access::Write), Fault::None, "the entries are back");
    assert_eq!(stage.stat(NodeStat::AnonPages), PAGES);
    stage.audit();
}

#[test]
fn the_second_failure_ends_a_round() {
    let host = Solo::default();
    let policy = preset("6.1").unwrap();
    let stage = Stage::with(&host, policy, |m| m.tunables.khugepaged_defrag = false);
    for _ in 0..4 {
        stage.single_pages(NR);
    }
    take_all_blocks(&stage);
    stage.round();
    assert_eq!(stage.events(VmEvent::ThpCollapseAllocFailed), 2);
    stage.audit();
}

/// One mm of 1 GiB in which nothing qualifies: 8 ranges a round, 64 rounds (rules/huge-pages#khugepaged).
#[test]
fn a_gigabyte_takes_64_rounds() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (cx, mm, read) = (&stage.cx, &stage.mm, VmaFlags::READ);
    let start = stage.kernel.mmap(cx, mm, 1 << 18, 1 << 18, read, Backing::Anon).unwrap();
    stage.kernel.khugepaged_enter(&stage.cx, &stage.mm);
    let mut at = None;
    for round in 1..=64 {
        let (scanned, next) = stage.kernel.round_for_tests(&stage.cx, at);
        assert_eq!(scanned, 1 + 8 * 512, "round {round}");
        assert_eq!(next, Some((stage.mm.id, start + round * 8 * NR)));
        at = next;
    }
    let (scanned, next) = stage.kernel.round_for_tests(&stage.cx, at);
    assert_eq!((scanned, next.is_some()), (1 + 1 + 8 * 512, true), "and from the start again");
    stage.kernel.exit_mm(&stage.cx, &stage.mm);
    assert_eq!(stage.kernel.round_for_tests(&stage.cx, None).0, 0);
}
