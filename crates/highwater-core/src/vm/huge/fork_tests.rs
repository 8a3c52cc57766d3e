//! Huge pages that several address spaces map since a fork.

use alloc::sync::Arc;

use super::tests::{Stage, take_all_blocks};
use super::*;
use crate::config::preset;
use crate::host::{Cost, CpuId, Lock, Solo};
use crate::page::{Folio, PageFlags};
use crate::syscall::MemoryAdvice;
use crate::vm::{Access, Fault, Mm, Pte, Referenced, Trail};
use crate::vmstat::{NodeStat, VmEvent};
use crate::zone::NodeId;

const CPU: CpuId = CpuId(0);
const PAGES: u64 = NR as u64;

fn entry(mm: &Mm<Solo>, vpn: u32) -> Pte {
    mm.table_of(CPU, vpn).map_or(Pte::NONE, |table| table.peek(vpn))
}

fn leaf(mm: &Mm<Solo>, vpn: u32) -> Option<Pte> {
    mm.table_of(CPU, vpn).and_then(|table| table.lock(CPU).leaf())
}

impl Stage<'_> {
    fn forked_huge(&self) -> (u32, Folio, Arc<Mm<Solo>>) {
        let start = self.map(NR, NR, VmaFlags::empty());
        self.touch(start, Access::Write);
        let child = self.fork();
        (start, self.folio(start), child)
    }

    fn fork(&self) -> Arc<Mm<Solo>> {
        self.kernel.fork(&self.cx, &self.mm).unwrap()
    }

    fn write(&self, mm: &Mm<Solo>, vpn: u32) {
        let fault = self.kernel.touch(&self.cx, mm, vpn, Access::Write);
        assert_eq!(fault, Ok(Fault::Minor));
    }

    fn thp(&self) -> u64 {
        self.stat(NodeStat::AnonTransparentHugepages)
    }

    fn counts(&self, folio: Folio) -> (u32, u32, u32) {
        let page = self.kernel.mem.map.page(folio);
        (self.kernel.nr_leaves(folio), page.mapcount(), page.refcount())
    }
}

/// rules/faults#fork
#[test]
fn a_fork_copies_a_leaf_as_one_entry() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.map(NR, NR, VmaFlags::empty());
    stage.touch(start, Access::Write);
    let folio = stage.folio(start);
    let entries = |host: &Solo| (host.charged(Cost::SetPte), host.charged(Cost::ForkPage));
    let (before, free) = (entries(&host), stage.nr_free());
    let child = stage.fork();
    assert_eq!(entries(&host), (before.0 + 1, before.1 + 1), "one entry, one page");
    assert_eq!(stage.events(VmEvent::ThpSplitPmd), 0);
    assert_eq!(stage.counts(folio), (2, 2 * NR, 2 * NR));
    for mm in [&stage.mm, &child] {
        assert!(leaf(mm, start).is_some_and(|leaf| !leaf.is_writable()));
        assert_eq!(mm.rss.resident(), PAGES);
    }
    assert!(leaf(&child, start).is_some_and(|leaf| !leaf.is_young()));
    assert_eq!((stage.thp(), stage.stat(NodeStat::AnonPages)), (PAGES, PAGES), "counted once");
    // Stack, process object, and a table of each level: one is kept below the leaf.
    assert_eq!(free - stage.nr_free(), crate::vm::STACK_ORDER.pages() + 8 + 4);
    stage.audit();
    // A child of the child has it, too; each goes alone.
    let second = stage.kernel.fork(&stage.cx, &child).unwrap();
    assert_eq!(stage.counts(folio), (3, 3 * NR, 3 * NR));
    stage.kernel.exit_mm(&stage.cx, &child);
    stage.audit();
    stage.unmap(start, NR);
    assert_eq!((stage.counts(folio), stage.thp()), ((1, NR, NR), PAGES));
    stage.audit();
    stage.write(&second, start + 3);
    assert_eq!(stage.folio_in(&second, start), folio, "alone: all of it may be written");
    assert!(leaf(&second, start).is_some_and(Pte::is_writable));
    stage.audit();
    stage.kernel.exit_mm(&stage.cx, &second);
    assert_eq!((stage.thp(), stage.stat(NodeStat::AnonPages)), (0, 0));
    stage.audit();
}

impl Stage<'_> {
    fn folio_in(&self, mm: &Mm<Solo>, vpn: u32) -> Folio {
        self.kernel.mapped_folio(entry(mm, vpn)).unwrap()
    }
}

/// A stage that is to have its huge pages at once or not at all.
fn stage_of<'h>(host: &'h Solo, kernel: &str) -> Stage<'h> {
    let policy = preset(kernel).unwrap();
    Stage::with(host, policy, |machine| machine.tunables.thp_defrag = ThpDefrag::Never)
}

/// rules/huge-pages#write
#[test]
fn from_5_8_on_a_write_splits_the_leaf_and_copies_one_page() {
    let host = Solo::default();
    for kernel in ["5.10", "congestion-wait-5.15", "6.1"] {
        let stage = stage_of(&host, kernel);
        let (start, folio, child) = stage.forked_huge();
        let allocs = stage.events(VmEvent::ThpFaultAlloc);
        stage.write(&stage.mm, start + 7);
        assert_eq!(stage.events(VmEvent::ThpSplitPmd), 1, "{kernel}");
        assert_eq!(stage.events(VmEvent::ThpFaultAlloc), allocs);
        assert_eq!(stage.counts(folio), (1, 2 * NR - 1, 2 * NR - 1), "the child's leaf stays");
        assert!(!stage.folio_in(&stage.mm, start + 7).is_large());
        assert_eq!(stage.folio_in(&stage.mm, start + 8), folio);
        assert_eq!(stage.thp(), PAGES);
        // The child maps all of it, so it is not queued for a split.
        assert_eq!(stage.kernel.nr_deferred(&stage.cx, NodeId(0)), 0);
        stage.audit();
        stage.kernel.exit_mm(&stage.cx, &child);
        assert_eq!(stage.kernel.nr_deferred(&stage.cx, NodeId(0)), 1, "nobody maps page 7 now");
        assert_eq!(stage.thp(), 0);
        stage.audit();
        // Parts of it are copied even if no other mm maps them.
        stage.write(&stage.mm, start + 9);
        assert!(!stage.folio_in(&stage.mm, start + 9).is_large());
        stage.audit();
    }
}

/// rules/huge-pages#write
#[test]
fn up_to_5_7_a_write_copies_all_of_it() {
    let host = Solo::default();
    for kernel in ["4.3", "4.6", "5.4"] {
        let stage = stage_of(&host, kernel);
        let (start, folio, child) = stage.forked_huge();
        let allocs = stage.events(VmEvent::ThpFaultAlloc);
        stage.write(&child, start + 7);
        assert_eq!(stage.events(VmEvent::ThpFaultAlloc), allocs + 1, "{kernel}");
        assert_eq!(stage.events(VmEvent::ThpSplitPmd), 0);
        let new = stage.folio_in(&child, start);
        assert_ne!(new, folio);
        assert!(leaf(&child, start).is_some_and(Pte::is_writable));
        assert_eq!((stage.counts(folio), stage.counts(new)), ((1, NR, NR), (1, NR, NR)));
        assert_eq!((stage.thp(), child.rss.resident()), (2 * PAGES, PAGES));
        stage.audit();
        // The parent is alone with the old one.
        stage.write(&stage.mm, start + 8);
        assert_eq!(stage.folio(start), folio);
        assert!(leaf(&stage.mm, start).is_some_and(Pte::is_writable));
        stage.audit();
        // Without a block a leaf is split, as later kernels always do.
        let again = stage.fork();
        take_all_blocks(&stage);
        let fallbacks = stage.events(VmEvent::ThpFaultFallback);
        stage.write(&again, start + 8);
        assert_eq!(stage.events(VmEvent::ThpFaultFallback), fallbacks + 1);
        assert_eq!(stage.events(VmEvent::ThpSplitPmd), 1);
        stage.audit();
    }
}

/// A fork copies the leaf of the huge zero page; a write to it acts as for any shared page.
#[test]
fn a_fork_copies_a_leaf_of_zeros() {
    let host = Solo::default();
    for (kernel, splits) in [("6.1", 1), ("5.4", 0)] {
        let stage = stage_of(&host, kernel);
        let start = stage.map(NR, NR, VmaFlags::empty());
        stage.touch(start, Access::Read);
        // An mm without its own pages shares nothing.
        let own = stage.map(NR, NR, VmaFlags::empty());
        stage.touch(own, Access::Write);
        let nr_zero = || stage.kernel.huge.zero.lock(CPU).nr_leaves;
        assert_eq!(nr_zero(), 1);
        let child = stage.fork();
        stage.audit();
        stage.touch(start, Access::Read);
        stage.write(&stage.mm, start + 9);
        assert_eq!(stage.events(VmEvent::ThpSplitPmd), splits, "{kernel}");
        assert_eq!(stage.has_leaf(start), splits == 0);
        stage.audit();
        stage.kernel.exit_mm(&stage.cx, &child);
        assert_eq!(nr_zero(), 0);
        stage.audit();
    }
}

/// Reclaim finds all leaves of a huge page, and entries where a leaf was split.
#[test]
fn reclaim_finds_all_that_map_it() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let (start, folio, child) = stage.forked_huge();
    let second = stage.fork();
    stage.write(&second, start + 1);
    let referenced = || kernel.page_referenced(cx, folio, &mut Trail::default());
    assert!(matches!(referenced(), Referenced::By(1, _)), "the parent's leaf; a fork's is old");
    assert!(matches!(referenced(), Referenced::By(0, _)));
    kernel.touch(cx, &child, start + 5, Access::Read).unwrap();
    assert!(matches!(referenced(), Referenced::By(1, _)));
    // To swap in one piece: every entry of all three names a slot.
    kernel.lru_add_drain(cx);
    let page = kernel.mem.map.page(folio);
    assert!(page.try_get::<Solo>() && kernel.try_lock_page(folio));
    assert!(kernel.add_to_swap(cx, folio));
    assert!(kernel.try_to_unmap(cx, folio, &mut Trail::default()));
    assert_eq!((stage.counts(folio).0, stage.thp()), (0, 0));
    assert_eq!(stage.events(VmEvent::ThpSplitPmd), 3);
    kernel.unlock_page(cx, folio);
    kernel.put_page(cx, folio);
    for (mm, resident, swapped) in [(&stage.mm, 0, 512), (&child, 0, 512), (&second, 1, 511)] {
        let count = |count: &crate::sync::atomic::AtomicU64| {
            count.load(crate::sync::atomic::Ordering::Relaxed)
        };
        assert_eq!((count(&mm.rss.anon), count(&mm.rss.swap)), (resident, swapped));
    }
    let slot = entry(&child, start + 6).slot().unwrap();
    assert_eq!(kernel.swap_count(cx, slot), 3);
    stage.audit();
    stage.touch(start + 6, Access::Read);
    kernel.touch(cx, &child, start + 6, Access::Write).unwrap();
    stage.audit();
    for mm in [&child, &second] {
        kernel.exit_mm(cx, mm);
    }
    stage.audit();
}

/// A huge page that two leaves map is split page by page, for both.
#[test]
fn a_huge_page_of_two_leaves_is_split_for_both() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let (start, folio, child) = stage.forked_huge();
    kernel.lru_add_drain(cx);
    assert!(kernel.try_lock_page(folio) && kernel.isolate_page(cx, folio));
    let mut tails = alloc::vec::Vec::new();
    assert!(kernel.split_folio(cx, folio, &mut tails));
    assert_eq!(tails.len(), 511);
    let head = Folio::page(folio.pfn());
    kernel.unlock_page(cx, head);
    tails.push(head);
    tails.into_iter().for_each(|page| kernel.putback_page(cx, page));
    assert_eq!((stage.events(VmEvent::ThpSplitPmd), stage.thp()), (2, 0));
    assert_eq!(kernel.mem.map.page(stage.folio_in(&child, start + 300)).mapcount(), 2);
    stage.audit();
    kernel.exit_mm(cx, &child);
    stage.audit();
}

/// The child has not mlocked the parent's memory: a split of the child's leaf leaves the mlock.
#[test]
fn the_parents_lock_is_not_the_childs_to_take_off() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let start = stage.map(NR, NR, VmaFlags::empty());
    stage.touch(start, Access::Write);
    kernel.mlock(cx, &stage.mm, start, NR).unwrap();
    let (folio, child) = (stage.folio(start), stage.fork());
    let is_locked = || kernel.mem.map.page(folio).is(PageFlags::MLOCKED);
    kernel.munmap(cx, &child, start, 10).unwrap();
    kernel.lru_add_drain(cx);
    assert!(is_locked());
    stage.audit();
    stage.write(&stage.mm, start + 5);
    kernel.lru_add_drain(cx);
    assert!(!is_locked(), "a write splits the parent's leaf: its parts are not locked as one");
    stage.audit();
    kernel.exit_mm(cx, &child);
    stage.audit();
}

/// Anything that may be done to huge pages of a family of address spaces, in any order; everything agrees after each step.
#[test]
fn families_survive_any_order_of_what_is_done_to_them() {
    for (seed, kernel) in [(1, "6.1"), (2, "5.4"), (3, "6.1"), (4, "4.3"), (5, "6.1")] {
        let host = Solo::default();
        let stage = stage_of(&host, kernel);
        let (kernel, cx) = (&stage.kernel, &stage.cx);
        let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed);
        let mut below = move |bound: u32| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (((state >> 32) * u64::from(bound)) >> 32) as u32
        };
        let pages = 3 * NR;
        let start = stage.map(pages, NR, VmaFlags::empty());
        let mut family = alloc::vec![Arc::clone(&stage.mm)];
        for step in 0..400 {
            let mm = Arc::clone(&family[below(family.len() as u32) as usize]);
            let vpn = start + below(pages);
            match below(16) {
                0 | 1 if family.len() < 5 => family.push(kernel.fork(cx, &mm).unwrap()),
                2 if family.len() > 1 => {
                    let at = below(family.len() as u32) as usize;
                    kernel.exit_mm(cx, &family.swap_remove(at));
                }
                // The VMA stays: unmaps all of a range, or a part of it.
                3 => {
                    let first = start + below(3) * NR;
                    kernel.madvise(cx, &mm, first, NR, MemoryAdvice::DontNeed).unwrap();
                }
                4 => {
                    let nr = (1 + below(40)).min(start + pages - vpn);
                    kernel.madvise(cx, &mm, vpn, nr, MemoryAdvice::DontNeed).unwrap();
                }
                5 => drop(kernel.split_deferred(cx, NodeId(0), 4)),
                // Reclaim: in one piece or after a split.
                6 | 7 => reclaim_one(&stage, &mm, vpn, below(2) == 0),
                8 => {
                    kernel.mlock(cx, &mm, start, NR).unwrap();
                    kernel.munlock(cx, &mm, start, NR).unwrap();
                }
                9..12 => drop(kernel.touch(cx, &mm, vpn, Access::Read).unwrap()),
                _ => drop(kernel.touch(cx, &mm, vpn, Access::Write).unwrap()),
            }
            kernel.lru_add_drain_all(cx);
            let checked = crate::audit::check_kernel(kernel, cx);
            assert!(checked.is_ok(), "seed {seed}, step {step}: {checked:?}");
        }
        for mm in family {
            kernel.exit_mm(cx, &mm);
        }
        stage.audit();
        assert_eq!((stage.thp(), stage.stat(NodeStat::AnonPages)), (0, 0));
        assert!(stage.events(VmEvent::ThpFaultAlloc) > 0);
    }
}

/// Does to the folio of a page as reclaim does, if the folio is on a list.
fn reclaim_one(stage: &Stage<'_>, mm: &Mm<Solo>, vpn: u32, whole: bool) {
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let Some(mut folio) = kernel.mapped_folio(entry(mm, vpn)) else { return };
    kernel.lru_add_drain(cx);
    if !kernel.isolate_page(cx, folio) {
        return;
    }
    let mut pages = alloc::vec::Vec::new();
    assert!(kernel.try_lock_page(folio));
    if folio.is_large() && !whole && kernel.split_folio(cx, folio, &mut pages) {
        folio = Folio::page(folio.pfn());
    }
    let is_free = kernel.may_split(folio) || !folio.is_large();
    if is_free && kernel.add_to_swap(cx, folio) {
        kernel.try_to_unmap(cx, folio, &mut Trail::default());
    }
    kernel.unlock_page(cx, folio);
    pages.push(folio);
    pages.into_iter().for_each(|page| kernel.putback_page(cx, page));
}
