//! Uses that a reference check of MGLRU finds beside a young entry (rules/mglru#look-around).

use alloc::boxed::Box;

use super::*;
use crate::config::{FileFolios, ReadaheadRule};
use crate::host::Cost;
use crate::page::PAGE_SIZE;
use crate::vm::{Access, Around, PTES, PagesToAge, Referenced, Trail};

const OF: PagesToAge = PagesToAge { node: NodeId(0), with_anon: true, group: None };

/// Checks the page at a virtual page; returns the VMAs that used it, the folios found, and the
/// number of dense tables.
fn check(stage: &Stage<'_>, folio: Folio, around: Around) -> (u32, Vec<Folio>, usize) {
    let mut trail = Trail { around: Some(Box::new(around)), ..Trail::default() };
    let Referenced::By(users, _) = stage.kernel.page_referenced(&stage.cx, folio, &mut trail)
    else {
        panic!()
    };
    let around = trail.around.unwrap();
    (users, around.found, around.dense.len())
}

fn mapped_anon(stage: &Stage<'_>, pages: u32, more: VmaFlags) -> (u32, Vec<Folio>) {
    let start = stage.anon_region(pages, more);
    let folios = (0..pages).map(|i| stage.map_anon(start + i)).collect();
    stage.kernel.lru_add_drain(&stage.cx);
    (start, folios)
}

fn nr_young(stage: &Stage<'_>, start: u32, pages: u32) -> usize {
    (start..start + pages).filter(|&vpn| stage.pte(vpn).is_young()).count()
}

#[test]
fn neighbours_are_cleared_and_reported_in_order() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (start, folios) = mapped_anon(&stage, 512, VmaFlags::empty());
    let (users, found, dense) = check(&stage, folios[100], Around::new(64, OF, false));
    assert_eq!((users, dense), (1, 1));
    assert_eq!(found, folios[68..132]);
    assert_eq!((nr_young(&stage, start, 512), nr_young(&stage, start + 68, 64)), (448, 0));
    // Its entry is old now.
    let again = check(&stage, folios[100], Around::new(64, OF, false));
    assert_eq!(again, (0, Vec::new(), 0));
    let (_, found, _) = check(&stage, folios[132], Around::new(64, OF, true));
    assert_eq!(found, folios[133..164], "6.12 leaves the page itself out");
    assert_eq!(host.charged(Cost::TlbPage), 0);
}

#[test]
fn the_window_stays_in_the_vma() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (start, folios) = mapped_anon(&stage, 100, VmaFlags::empty());
    let (add, none) = (VmaFlags::NOHUGEPAGE, VmaFlags::empty());
    let second = (start + 50, start + 100);
    stage.kernel.change_vma_flags(&stage.cx, &stage.mm, second, add, none).1.unwrap();
    let (_, found, _) = check(&stage, folios[45], Around::new(64, OF, false));
    assert_eq!((found, nr_young(&stage, start, 100)), (folios[..50].to_vec(), 50));
}

/// 8 young entries of 64 are dense, 7 are not; of 40, 5 are (rules/mglru#filter).
#[test]
fn a_dense_window_reports_its_table() {
    for (pages, nr_young, is_dense) in
        [(512, 8, true), (512, 7, false), (40, 5, true), (40, 4, false)]
    {
        let host = Solo::default();
        let stage = Stage::new(&host);
        let start = stage.anon_region(pages, VmaFlags::empty());
        let folios: Vec<_> = (0..nr_young).map(|i| stage.map_anon(start + i)).collect();
        let expected = (1, folios.clone(), usize::from(is_dense));
        assert_eq!(check(&stage, folios[1], Around::new(64, OF, false)), expected);
    }
}

#[test]
fn a_window_of_one_is_the_own_entry() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (start, folios) = mapped_anon(&stage, 9, VmaFlags::empty());
    let own = check(&stage, folios[4], Around::new(1, OF, false));
    assert_eq!((own, nr_young(&stage, start, 9)), ((1, alloc::vec![folios[4]], 0), 8));
}

#[test]
fn only_pages_to_age_are_found() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (start, folios) = mapped_anon(&stage, 9, VmaFlags::empty());
    let file_only = PagesToAge { with_anon: false, ..OF };
    let own = check(&stage, folios[4], Around::new(64, file_only, false));
    assert_eq!((own, nr_young(&stage, start, 9)), ((1, Vec::new(), 0), 8));
    for flags in [VmaFlags::SEQ_READ, VmaFlags::RAND_READ] {
        let (start, folios) = mapped_anon(&stage, 9, flags);
        let users = u32::from(flags == VmaFlags::RAND_READ);
        let own = check(&stage, folios[4], Around::new(64, OF, false));
        assert_eq!((own, nr_young(&stage, start, 9)), ((users, Vec::new(), 0), 8));
    }
}

#[test]
fn dirty_neighbours_of_files_make_their_pages_dirty() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (start, folios) = stage.mapped_file(3, VmaFlags::WRITE);
    stage.set_pte(start + 2, Pte::new(folios[2].pfn()).with_writable(true).with_dirty(true));
    let (users, found, _) = check(&stage, folios[0], Around::new(64, OF, false));
    assert_eq!((users, found), (1, folios.clone()));
    assert_eq!(folios.iter().filter(|&&f| stage.page(f).is(PageFlags::DIRTY)).count(), 1);
    assert!(stage.pte(start + 2).is_dirty());
}

#[test]
fn a_leaf_has_no_neighbours() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.anon_region(PTES as u32, VmaFlags::empty());
    let folio = stage.map_huge(start);
    let own = check(&stage, folio, Around::new(64, OF, false));
    assert_eq!((own, stage.pte(start).is_young()), ((1, Vec::new(), 0), false));
}

/// A folio of several pages is one use, however many of its entries are young.
#[test]
fn a_large_folio_of_a_file_is_found_by_each_of_its_entries() {
    let host = Solo::default();
    let mut policy = preset("6.1").unwrap();
    (policy.folio.file, policy.readahead) = (FileFolios::All, ReadaheadRule::RestartAligned);
    let stage = Stage::with(&host, 256, policy);
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let bytes = u64::from(FILE_PAGES) * PAGE_SIZE as u64;
    for at in (0..bytes).step_by(64 << 10) {
        kernel.file_read(cx, &stage.open, at, 64 << 10).unwrap();
    }
    let start = stage.file_region(FILE_PAGES, VmaFlags::empty());
    for vpn in start..start + FILE_PAGES {
        kernel.touch(cx, &stage.mm, vpn, Access::Read).unwrap();
    }
    let pfn = stage.pte(start + 256).pfn().unwrap();
    let folio = kernel.mem.map.folio(pfn);
    assert!(folio.nr_pages() > 1 && folio.pfn() == pfn, "read ahead as a large one");
    let (users, found, dense) = check(&stage, folio, Around::new(64, OF, false));
    // The window of its first entry, and those of its later entries beyond.
    let end = 32.max(folio.nr_pages() as u32);
    let nr_old = FILE_PAGES as usize - nr_young(&stage, start, FILE_PAGES);
    assert_eq!((users, dense, found.len()), (1, 1, nr_old));
    assert!(nr_young(&stage, start + 224, 32) == 0 && nr_young(&stage, start + 256, end) == 0);
    assert_eq!(found.iter().filter(|&&f| f == folio).count() as u64, folio.nr_pages());
}
