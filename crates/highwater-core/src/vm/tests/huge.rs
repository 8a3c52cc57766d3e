//! A huge page is a value: a folio of order 9, mapped by a leaf, goes through lists, isolation and
//! unmapping by the same code as a single page, and is counted by its pages everywhere.

use super::*;
use crate::host::Lock;
use crate::lru::{IsolateMode, LruKind};
use crate::page::{MigrateType, PAGEBLOCK_PAGES};
use crate::syscall::MemoryAdvice;
use crate::units::LruVecId;
use crate::vm::{Access, Fault, PTES};
use crate::vmstat::ZoneStat;
use crate::zone::ZoneType;

const HUGE: Order = Order(9);
const NR: u64 = HUGE.pages();

impl Stage<'_> {
    /// Maps an anonymous huge page by a leaf, young and dirty, as a huge fault will.
    pub(super) fn map_huge(&self, vpn: u32) -> Folio {
        let gfp = Gfp::GFP_HIGHUSER_MOVABLE | Gfp::COMP;
        let mem = &self.kernel.mem;
        let folio = mem.alloc_folio(&self.cx, &self.kernel, gfp, HUGE, NodeId(0)).unwrap();
        let table = self.kernel.make_table(&self.cx, &self.mm, vpn).unwrap();
        let vma = self.mm.vma_of(CPU, vpn).unwrap();
        let (cx, mm) = (&self.cx, &self.mm);
        self.kernel.map_new_huge(cx, mm, &vma, &mut table.lock(CPU), folio, vpn);
        folio
    }

    fn on_list(&self, list: LruKind) -> [u64; 3] {
        let zone = self.kernel.mem.zone(NodeId(0), ZoneType::Dma32).unwrap();
        [
            self.kernel.lru.vec(LruVecId::new(0)).size(list),
            self.node_stat(list.node_stat()),
            zone.stats.read_exact(list.zone_stat() as usize),
        ]
    }
}

#[test]
fn lists_count_its_pages_and_link_it_once() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let start = stage.anon_region(PTES as u32, VmaFlags::empty());
    let folio = stage.map_huge(start);
    // It drained its batch at once.
    assert_eq!(stage.on_list(LruKind::InactiveAnon), [NR; 3]);
    let lists = kernel.lru.vec(LruVecId::new(0));
    assert_eq!(kernel.lock_lru(cx, LruVecId::new(0)).lists.lists[0].len(), 1);
    kernel.mark_accessed(cx, folio);
    kernel.mark_accessed(cx, folio);
    kernel.lru_add_drain(cx);
    assert_eq!(
        (stage.on_list(LruKind::ActiveAnon), lists.size(LruKind::InactiveAnon)),
        ([NR; 3], 0)
    );
    assert_eq!(stage.events(VmEvent::Pgactivate), NR);

    let mode = IsolateMode { highest: ZoneType::Movable, may_unmap: true };
    let (mut out, list) = ([Folio::default(); 32], LruKind::ActiveAnon);
    let got = kernel.isolate_lru_pages(cx, LruVecId::new(0), list, mode, &mut out);
    assert_eq!((got.taken, got.nr_taken, got.scanned), (1, NR, NR));
    assert_eq!((out[0], stage.on_list(LruKind::ActiveAnon)), (folio, [0; 3]));
    let back = kernel.move_pages_to_lru(cx, LruVecId::new(0), [&out[..1], &[]], [0; 2]);
    assert_eq!((back, stage.on_list(LruKind::ActiveAnon)), ([NR, 0], [NR; 3]));
}

#[test]
fn a_program_finds_all_of_it_mapped_and_gives_all_of_it_back() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    kernel.mem.drain_all(cx, None);
    let free = kernel.mem.nr_free_pages();
    let start = stage.anon_region(PTES as u32, VmaFlags::empty());
    let folio = stage.map_huge(start);
    for vpn in [start, start + 77, start + 511] {
        assert_eq!(kernel.touch(cx, &stage.mm, vpn, Access::Write), Ok(Fault::None));
    }
    assert_eq!(kernel.mem.map.folio(Pfn(folio.pfn().0 + 300)), folio);
    stage.munmap(start, PTES as u32);
    assert_eq!((stage.node_stat(NodeStat::AnonPages), stage.rss().0), (0, 0));
    assert_eq!(stage.on_list(LruKind::InactiveAnon), [0; 3]);
    kernel.mem.drain_all(cx, None);
    assert_eq!(kernel.mem.nr_free_pages(), free, "in one piece, tables too");
    assert!(kernel.mem.map.folio(Pfn(folio.pfn().0 + 300)) != folio, "plain frames again");
    assert_eq!(host.charged(crate::host::Cost::ZapAnon), 1, "one entry");
    assert!(crate::audit::check_kernel(kernel, cx).is_ok());
}

/// Each of its pageblocks is movable as a whole, also one in which no head lies.
#[test]
fn a_pageblock_of_tails_is_movable() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (mem, cx) = (&stage.kernel.mem, &stage.cx);
    let gfp = Gfp::GFP_HIGHUSER_MOVABLE | Gfp::COMP;
    let folio = mem.alloc_folio(cx, &stage.kernel, gfp, Order::MAX, NodeId(0)).unwrap();
    stage.page(folio).init_flags(PageFlags::LRU);
    let zone = mem.zone(NodeId(0), ZoneType::Dma32).unwrap();
    for block in [0, PAGEBLOCK_PAGES as u32] {
        let mut vma = zone.free.lock(CPU);
        let mut buddy = mem.buddy(cx, zone, &mut vma);
        let counts = buddy.move_pageblock(folio.pfn().add(block), MigrateType::Movable, false);
        assert_eq!(counts, Some((0, PAGEBLOCK_PAGES)));
    }
    stage.page(folio).init_flags(PageFlags::empty());
    stage.kernel.put_page(cx, folio);
    assert!(crate::audit::check_kernel(&stage.kernel, cx).is_ok());
}

/// A write to a read-only leaf of a huge page without other users makes all of it writable.
#[test]
fn a_write_makes_all_of_it_writable() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let start = stage.anon_region(PTES as u32, VmaFlags::empty());
    let folio = stage.map_huge(start);
    let table = kernel.make_table(cx, &stage.mm, start).unwrap();
    let mut ptes = table.lock(CPU);
    let leaf = ptes.take_leaf().unwrap();
    ptes.set_leaf(leaf.with_writable(false));
    drop(ptes);
    assert_eq!(kernel.touch(cx, &stage.mm, start + 77, Access::Write), Ok(Fault::Minor));
    assert_eq!(kernel.touch(cx, &stage.mm, start + 78, Access::Write), Ok(Fault::None));
    assert!(table.lock(CPU).leaf().is_some_and(Pte::is_writable));
    assert_eq!((stage.page(folio).mapcount(), stage.rss().0), (NR as u32, NR));
    stage.munmap(start, PTES as u32);
    assert!(crate::audit::check_kernel(kernel, cx).is_ok());
}

/// Advice about one page of it does not free the others; pages of a leaf are mlocked together.
#[test]
fn advice_about_a_page_of_it_is_about_that_page() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let start = stage.anon_region(PTES as u32, VmaFlags::empty());
    let folio = stage.map_huge(start);
    kernel.madvise(cx, &stage.mm, start, 1, MemoryAdvice::Free).unwrap();
    kernel.lru_add_drain(cx);
    assert!(stage.page(folio).is(PageFlags::SWAPBACKED | PageFlags::LRU));
    kernel.mlock(cx, &stage.mm, start, PTES as u32).unwrap();
    let zone = kernel.mem.zone(NodeId(0), ZoneType::Dma32).unwrap();
    assert_eq!(zone.stats.read_exact(ZoneStat::Mlock as usize), NR);
    assert_eq!(stage.on_list(LruKind::Unevictable), [NR; 3]);
    kernel.munlock(cx, &stage.mm, start, PTES as u32).unwrap();
    assert_eq!(stage.on_list(LruKind::InactiveAnon), [NR; 3], "locked once, unlocked once");
    stage.munmap(start, PTES as u32);
    assert!(crate::audit::check_kernel(kernel, cx).is_ok());
}

#[test]
fn part_of_it_can_go() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let start = stage.anon_region(PTES as u32, VmaFlags::empty());
    let folio = stage.map_huge(start);
    stage.munmap(start + 100, 50);
    // The folio stays as long as any part is mapped; rss counts the mapped pages.
    assert_eq!((stage.page(folio).mapcount(), stage.rss().0), (462, 462));
    assert_eq!(stage.node_stat(NodeStat::AnonPages), NR);
    assert_eq!(kernel.touch(cx, &stage.mm, start + 99, Access::Write), Ok(Fault::None));
    assert_eq!(kernel.touch(cx, &stage.mm, start + 150, Access::Read), Ok(Fault::None));
    stage.munmap(start, PTES as u32);
    assert_eq!((stage.page(folio).mapcount(), stage.rss().0), (0, 0));
    assert_eq!(stage.node_stat(NodeStat::AnonPages), 0);
    assert!(crate::audit::check_kernel(kernel, cx).is_ok());
}

#[test]
fn locking_it_counts_its_pages() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let start = stage.anon_region(PTES as u32, VmaFlags::empty());
    let folio = stage.map_huge(start);
    kernel.mlock_page(cx, folio);
    kernel.lru_add_drain(cx);
    let zone = kernel.mem.zone(NodeId(0), ZoneType::Dma32).unwrap();
    assert_eq!(zone.stats.read_exact(ZoneStat::Mlock as usize), NR);
    assert_eq!(stage.on_list(LruKind::Unevictable), [NR; 3]);
    kernel.munlock_page(cx, folio);
    kernel.lru_add_drain(cx);
    assert_eq!(zone.stats.read_exact(ZoneStat::Mlock as usize), 0);
    assert_eq!(stage.on_list(LruKind::InactiveAnon), [NR; 3]);
}
