//! The walk of MGLRU over the page tables of an mm, and the list of mms (rules/mglru#walk).

use super::*;
use crate::host::Cost;
use crate::syscall::MemoryAdvice;
use crate::units::GroupId;
use crate::vm::aging::AgingCounts;
use crate::vm::{Access, AgingScope, AgingVisitor, PTES, PagesToAge};

/// Everything of node 0, as an iteration's first walk looks at it.
const ALL: AgingScope = AgingScope {
    of: PagesToAge { node: NodeId(0), with_anon: true, group: None },
    forced: false,
    skips_unused_tables: true,
    contended_is_dense: false,
};

/// A caller that notes what it is told.
struct Seen {
    /// Its filter holds all tables, or none.
    wants: bool,
    is_full: bool,
    gives_up: bool,
    nr_asked: u32,
    nr_paused: u32,
    dense: Vec<u64>,
    used: Vec<Folio>,
}

impl Seen {
    fn new() -> Seen {
        let (dense, used) = (Vec::new(), Vec::new());
        let (nr_asked, nr_paused) = (0, 0);
        Seen { wants: true, is_full: false, gives_up: false, nr_asked, nr_paused, dense, used }
    }
}

impl AgingVisitor<Solo> for Seen {
    fn wants_table(&mut self, _: u64) -> bool {
        self.nr_asked += 1;
        self.wants
    }

    fn dense_table(&mut self, key: u64) {
        self.dense.push(key);
    }

    fn used(&mut self, _: &Cx<'_, Solo>, folio: Folio) {
        self.used.push(folio);
    }

    fn is_full(&self) -> bool {
        self.is_full
    }

    fn gives_up(&self) -> bool {
        self.gives_up
    }

    fn paused(&mut self, _: &Cx<'_, Solo>) {
        self.nr_paused += 1;
    }
}

impl Stage<'_> {
    fn age(&self, scope: &AgingScope, seen: &mut Seen) -> AgingCounts {
        self.kernel.age_mm(&self.cx, &self.mm, scope, seen)
    }

    /// The folios that a walk which looks at every table finds.
    fn aged(&self, scope: &AgingScope) -> Vec<Folio> {
        let mut seen = Seen::new();
        self.age(scope, &mut seen);
        seen.used
    }

    fn key(&self, vpn: u32) -> u64 {
        u64::from(self.mm.id.0) << 32 | u64::from(vpn / PTES as u32)
    }
}

fn with_anon(with_anon: bool) -> AgingScope {
    AgingScope { of: PagesToAge { with_anon, ..ALL.of }, ..ALL }
}

#[test]
fn a_walk_finds_the_young_pages_of_its_node_and_type() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let anon_start = stage.anon_region(100, VmaFlags::empty());
    let anon: Vec<_> = (0..3).map(|i| stage.map_anon(anon_start + 30 * i)).collect();
    let (file_start, file) = stage.mapped_file(4, VmaFlags::empty());
    stage.mm.table_of(CPU, file_start).unwrap().lock(CPU).clear_young(file_start + 2);
    // A private copy in a mapping of the file.
    let private = stage.file_region(2, VmaFlags::empty());
    let copy = stage.map_anon(private);
    stage.set_pte(private + 1, Pte::new(stage.kernel.zero_page));

    let elsewhere = AgingScope { of: PagesToAge { node: NodeId(1), ..ALL.of }, ..ALL };
    assert_eq!(stage.aged(&elsewhere), []);
    assert!(stage.pte(anon_start).is_young() && stage.pte(file_start).is_young());
    assert_eq!(stage.aged(&with_anon(false)), [file[0], file[1], file[3]]);
    assert!(stage.pte(anon_start).is_young() && !stage.pte(file_start).is_young());
    // Their table counts as used still: they were left young.
    assert_eq!(stage.aged(&ALL), [anon[0], anon[1], anon[2], copy]);
    assert_eq!(stage.aged(&ALL), []);
    assert!(stage.pte(private + 1).is_young(), "the zero page has no folio");
    assert_eq!((host.charged(Cost::TlbPage), host.charged(Cost::TlbFull)), (0, 0));
}

#[test]
fn some_vmas_are_left_out() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let mut left_out = Vec::new();
    for more in [VmaFlags::SEQ_READ, VmaFlags::RAND_READ, VmaFlags::LOCKED] {
        left_out.push(stage.anon_region(2, more));
    }
    let flags = VmaFlags::empty();
    let (cx, mm) = (&stage.cx, &stage.mm);
    left_out.push(stage.kernel.mmap(cx, mm, 2, 512, flags, Backing::Anon).unwrap());
    for &vpn in &left_out {
        stage.map_anon(vpn);
    }
    // Two VMAs with entries in one table, and one between them that is left out.
    let start = stage.anon_region(9, VmaFlags::empty());
    let folios: Vec<_> = (0..9).map(|i| stage.map_anon(start + i)).collect();
    let (add, none) = (VmaFlags::RAND_READ, VmaFlags::empty());
    let middle = (start + 3, start + 6);
    stage.kernel.change_vma_flags(cx, mm, middle, add, none).1.unwrap();

    let mut seen = Seen::new();
    let counts = stage.age(&ALL, &mut seen);
    assert_eq!((counts.tables, counts.entries, counts.young), (1, 6, 6));
    assert_eq!(seen.used, [&folios[..3], &folios[6..]].concat());
    assert!(left_out.iter().all(|&vpn| stage.pte(vpn).is_young()));
    assert!((0..9).all(|i| stage.pte(start + i).is_young() == (3..6).contains(&i)));
}

/// 64 of 512 entries are dense, 63 are not (rules/mglru#filter).
#[test]
fn a_table_is_dense_with_a_young_entry_a_line() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    for (pages, nr_young, is_dense) in
        [(512, 64, true), (512, 63, false), (40, 5, true), (40, 4, false), (512, 0, false)]
    {
        let start = stage.anon_region(pages, VmaFlags::empty());
        for i in 0..nr_young {
            stage.map_anon(start + i);
        }
        if nr_young == 0 {
            stage.set_pte(start, Pte::NONE);
        }
        let mut seen = Seen::new();
        let counts = stage.age(&AgingScope { skips_unused_tables: false, ..ALL }, &mut seen);
        assert_eq!((counts.young, seen.used.len()), (u64::from(nr_young), nr_young as usize));
        let expected = if is_dense { alloc::vec![stage.key(start)] } else { Vec::new() };
        assert_eq!((seen.dense, counts.dense), (expected, u64::from(is_dense)));
        stage.munmap(start, pages);
    }
    let lines: u32 = 3 * 512 / 8 + 2 * 40 / 8;
    assert_eq!(host.charged(Cost::CompactScan), u64::from(lines));
    assert_eq!(host.charged(Cost::MarkReferenced), 64 + 63 + 5 + 4);
}

#[test]
fn a_table_that_misses_the_filter_keeps_its_young_entries() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.anon_region(600, VmaFlags::empty());
    let folios = [0, 512].map(|i| stage.map_anon(start + i));
    let mut seen = Seen { wants: false, ..Seen::new() };
    let counts = stage.age(&ALL, &mut seen);
    assert_eq!((counts.tables, counts.unwanted, seen.nr_asked), (0, 2, 2));
    assert!(seen.used.is_empty() && stage.pte(start).is_young());
    // An access would find the entries young, so the tables count as used: the filter is asked
    // again.
    assert_eq!(stage.age(&ALL, &mut seen).unwanted, 2);
    let counts = stage.age(&AgingScope { forced: true, ..ALL }, &mut seen);
    assert_eq!((counts.tables, counts.unwanted, seen.nr_asked), (2, 0, 4));
    assert_eq!((&seen.used[..], seen.nr_paused), (&folios[..], 3));
}

#[test]
fn a_table_that_no_access_went_through_is_skipped() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (kernel, cx, mm) = (&stage.kernel, &stage.cx, &stage.mm);
    let start = stage.anon_region(600, VmaFlags::empty());
    let folios = [0, 1, 512].map(|i| stage.map_anon(start + i));
    let mut seen = Seen::new();
    assert_eq!((stage.age(&ALL, &mut seen).tables, &seen.used[..]), (2, &folios[..]));
    let counts = stage.age(&ALL, &mut seen);
    assert_eq!((counts.tables, counts.unused, seen.nr_asked), (0, 2, 2));
    kernel.touch(cx, mm, start + 1, Access::Read).unwrap();
    let mut seen = Seen::new();
    let counts = stage.age(&ALL, &mut seen);
    assert_eq!((counts.tables, counts.unused, &seen.used[..]), (1, 1, &folios[1..2]));
    let all = AgingScope { skips_unused_tables: false, ..ALL };
    assert_eq!(stage.age(&all, &mut seen).tables, 2);
    // A fault makes a young entry.
    kernel.touch(cx, mm, start + 513, Access::Write).unwrap();
    assert_eq!(stage.aged(&ALL).len(), 1);
}

#[test]
fn a_walk_waits_for_no_lock() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.anon_region(600, VmaFlags::empty());
    let folios = [0, 512].map(|i| stage.map_anon(start + i));
    let table = stage.mm.table_of(CPU, start).unwrap();
    let held = table.lock(CPU);
    let mut seen = Seen::new();
    let counts = stage.age(&ALL, &mut seen);
    assert_eq!((counts.contended, counts.tables, counts.dense), (1, 1, 0));
    assert_eq!((&seen.used[..], seen.dense.len()), (&folios[1..], 0));
    stage.age(&AgingScope { contended_is_dense: true, ..ALL }, &mut seen);
    assert_eq!(seen.dense, [stage.key(start)]);
    drop(held);
    let writer = stage.mm.mmap_lock.try_write(&stage.cx).unwrap();
    let counts = stage.age(&ALL, &mut seen);
    let none = AgingCounts { was_locked_out: true, ..AgingCounts::default() };
    assert_eq!((counts, seen.used.len()), (none, 1));
    drop(writer);
    assert_eq!(stage.aged(&ALL), [folios[0]]);
}

#[test]
fn a_leaf_is_one_entry() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.anon_region(PTES as u32, VmaFlags::empty());
    let folio = stage.map_huge(start);
    assert_eq!(stage.aged(&with_anon(false)), []);
    let mut seen = Seen { wants: false, ..Seen::new() };
    let counts = stage.age(&ALL, &mut seen);
    assert_eq!((counts.entries, counts.young, counts.tables), (1, 1, 0));
    assert_eq!((&seen.used[..], seen.nr_asked), (&[folio][..], 0));
    assert!(!stage.pte(start).is_young() && stage.pte(start).is_dirty());
    assert_eq!(stage.aged(&ALL), []);
    stage.kernel.touch(&stage.cx, &stage.mm, start + 77, Access::Read).unwrap();
    assert_eq!(stage.aged(&ALL), [folio]);
}

#[test]
fn the_dirty_bit_goes_to_the_folio() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (kernel, cx, mm) = (&stage.kernel, &stage.cx, &stage.mm);
    let (file_start, file) = stage.mapped_file(2, VmaFlags::WRITE);
    let dirty = Pte::new(file[0].pfn()).with_writable(true).with_dirty(true);
    stage.set_pte(file_start, dirty);
    let start = stage.anon_region(2, VmaFlags::empty());
    let anon = [0, 1].map(|i| stage.map_anon(start + i));
    kernel.lru_add_drain(cx);
    kernel.madvise(cx, mm, start + 1, 1, MemoryAdvice::Free).unwrap();
    kernel.lru_add_drain(cx);
    assert!(!stage.page(anon[1]).is(PageFlags::SWAPBACKED));
    assert!(mm.table_of(CPU, start).unwrap().access(start + 1, true));
    assert_eq!(stage.aged(&ALL).len(), 4);
    let is_dirty = |folio| stage.page(folio).is(PageFlags::DIRTY);
    assert_eq!([file[0], file[1], anon[0], anon[1]].map(is_dirty), [true, false, false, true]);
    assert_eq!(stage.node_stat(NodeStat::Dirty), 1);
    assert_eq!(stage.pte(file_start), dirty.with_young(false));
}

#[test]
fn a_walk_may_pause_or_end_after_each_gib() {
    const GIB: u32 = 1 << 18;
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.file_region(3 * GIB, VmaFlags::empty());
    let first = start.next_multiple_of(GIB);
    let folio = stage.cache(0);
    let places = [0, 512, GIB, 2 * GIB - 1].map(|i| first + i);
    let young = || places.map(|vpn| stage.pte(vpn).is_young());
    let map = || places.iter().for_each(|&vpn| stage.set_pte(vpn, Pte::new(folio.pfn())));
    map();
    let mut seen = Seen { gives_up: true, ..Seen::new() };
    assert_eq!(stage.age(&ALL, &mut seen).tables, 2);
    assert_eq!((young(), seen.nr_paused), ([false, false, true, true], 1));
    map();
    let mut seen = Seen { is_full: true, ..Seen::new() };
    let counts = stage.age(&ALL, &mut seen);
    assert_eq!((counts.tables, counts.pauses, seen.nr_paused), (4, 1, 2));
    assert_eq!(young(), [false; 4]);
}

#[test]
fn mms_are_listed_in_order_and_walked_if_they_ran() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let more = [0, 1].map(|_| kernel.create_mm(cx).unwrap());
    let next = |after| kernel.next_mm_to_age(cx, None, after).map(|mm| mm.id);
    let mut listed = Vec::new();
    while let Some(id) = next(listed.last().copied()) {
        listed.push(id);
    }
    assert!(listed.ends_with(&[stage.mm.id, more[0].id, more[1].id]));
    assert!(listed.is_sorted());

    let mm = &stage.mm;
    let file_only = with_anon(false).of;
    assert!(
        !kernel.is_to_age(mm, &ALL.of, true, 64) && kernel.is_to_age(mm, &ALL.of, true, 0),
        "it is small"
    );
    mm.rss.anon.store(64, Relaxed);
    assert!(!kernel.is_to_age(mm, &ALL.of, false, 64), "nothing ran in it");
    assert!(kernel.is_to_age(mm, &ALL.of, true, 64) && !kernel.is_to_age(mm, &file_only, true, 64));
    kernel.enter_mm(cx, mm);
    assert!(kernel.is_to_age(mm, &ALL.of, false, 64));
    assert!(
        !kernel.is_to_age(mm, &ALL.of, false, 64),
        "not since the last look, though a CPU has it"
    );
    kernel.enter_mm(cx, mm);
    assert!(kernel.is_to_age(mm, &ALL.of, false, 64));
    kernel.enter_mm(cx, &more[0]);
    let elsewhere = PagesToAge { node: NodeId(1), ..ALL.of };
    assert!(!kernel.is_to_age(mm, &ALL.of, false, 64), "not since the last look");
    let looks = [(), ()].map(|()| kernel.is_to_age(mm, &elsewhere, false, 64));
    assert_eq!(looks, [true, false], "each node looks for itself");
    mm.rss.anon.store(0, Relaxed);
}

/// Two nodes, and a memory cgroup beside the root.
#[test]
fn a_walk_is_for_the_pages_of_one_lruvec() {
    let host = Solo::default();
    let nodes = [(128 << 20, vec![0]), (128 << 20, vec![1])];
    let machine = Machine::from_sizes("two nodes", &nodes).unwrap();
    let cx = [CpuId(0), CpuId(1)].map(|cpu| Cx::new(&host, cpu));
    let mem = boot(&host, &machine, &preset("6.1").unwrap()).unwrap();
    let spec = KernelSpec { devices: vec![DeviceSpec::nvme(1 << 20)], swap: vec![], groups: 2 };
    let kernel = Kernel::new(&cx[0], mem, &spec).unwrap();
    let mm = kernel.create_mm(&cx[0]).unwrap();
    let flags = VmaFlags::READ | VmaFlags::WRITE;
    let start = kernel.mmap(&cx[0], &mm, 8, 512, flags, Backing::Anon).unwrap();
    let group = kernel.make_group(&cx[0], GroupId::ROOT).unwrap();
    // Pages 0 to 3: of node 0 and the root, of node 1 and the root, and the same of the group.
    for (vpn, (cx, of)) in (start..).zip([
        (&cx[0], GroupId::ROOT),
        (&cx[1], GroupId::ROOT),
        (&cx[0], group),
        (&cx[1], group),
    ]) {
        kernel.join_group(cx, Some(&mm), of).unwrap();
        kernel.touch(cx, &mm, vpn, Access::Write).unwrap();
    }
    let table = mm.table_of(CPU, start).unwrap();
    let left = || (0..4).filter(|i| table.peek(start + i).is_young()).collect::<Vec<_>>();
    for (node, of, expected) in [
        (0, Some(GroupId::ROOT), &[1, 2, 3][..]),
        (1, Some(group), &[1, 2]),
        (0, None, &[1]),
        (1, None, &[]),
    ] {
        let of = PagesToAge { node: NodeId(node), with_anon: true, group: of };
        kernel.age_mm(&cx[0], &mm, &AgingScope { of, ..ALL }, &mut Seen::new());
        assert_eq!(left(), expected);
    }
    let listed = |of| kernel.next_mm_to_age(&cx[0], Some(of), None).is_some();
    assert!(listed(group) && !listed(GroupId::ROOT), "the mm is in the group now");
}
