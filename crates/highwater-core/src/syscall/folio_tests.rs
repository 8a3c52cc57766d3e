//! Large folios of files, from system calls and faults down (rules/large-folios). The figures are
//! those that real kernels showed.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::FileAdvice;
use crate::Kernel;
use crate::audit::check_kernel;
use crate::block::{DeviceId, DeviceSpec};
use crate::config::{FaultMaps, FileFolios, FolioCut, Machine, Policy, ReadaheadRule, preset};
use crate::host::{CpuId, Cx, Lock, Solo};
use crate::kernel::KernelSpec;
use crate::page::{Folio, PAGE_SIZE, PageFlags};
use crate::page_alloc::boot;
use crate::page_cache::{File, FileSpec, Filesystem, OpenFile};
use crate::units::GroupId;
use crate::vm::{Access, Backing, Mm, VmaFlags};
use crate::vmstat::{NodeStat, VmEvent};
use crate::zone::NodeId;

const PAGE: u64 = PAGE_SIZE as u64;
const CPU: CpuId = CpuId(0);
const READ: VmaFlags = VmaFlags::READ.union(VmaFlags::SHARED);
const WRITE: VmaFlags = READ.union(VmaFlags::WRITE);

/// Kernels by their rules for folios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V61,
    V612,
    V72,
}

use Version::{V61, V72, V612};

impl Version {
    fn policy(self) -> Policy {
        let mut policy = preset("6.1").unwrap();
        (policy.folio.file, policy.folio.order1, policy.readahead) = match self {
            V61 => (FileFolios::XfsReads, false, ReadaheadRule::Continue),
            V612 => (FileFolios::Xfs, true, ReadaheadRule::Restart),
            V72 => (FileFolios::All, true, ReadaheadRule::RestartAligned),
        };
        policy.folio.marks_runs = self != V61;
        if self == V72 {
            policy.folio.fault_maps = FaultMaps::Folio;
            policy.folio.truncate = FolioCut::Halves;
        }
        policy
    }
}

struct Stage<'h> {
    cx: Cx<'h, Solo>,
    kernel: Kernel<Solo>,
    mm: Arc<Mm<Solo>>,
    filesystem: Filesystem,
}

impl<'h> Stage<'h> {
    fn new(host: &'h Solo, version: Version) -> Self {
        let machine = Machine::from_sizes("stage", &[(128 << 20, vec![0, 1])]).unwrap();
        let cx = Cx::new(host, CPU);
        let mem = boot(host, &machine, &version.policy()).unwrap();
        let devices = vec![DeviceSpec::nvme(1 << 20)];
        let spec = KernelSpec { devices, swap: vec![], groups: 0 };
        let kernel = Kernel::new(&cx, mem, &spec).unwrap();
        let mm = kernel.create_mm(&cx).unwrap();
        let filesystem = if version == V72 { Filesystem::EXT4 } else { Filesystem::XFS };
        Stage { cx, kernel, mm, filesystem }
    }

    fn open(&self, bytes: u64) -> Arc<OpenFile<Solo>> {
        let spec = FileSpec::new(self.filesystem, DeviceId(0), 0, 1 << 16).with_size(bytes);
        self.kernel.open(&self.cx, &self.kernel.create_file(&self.cx, spec))
    }

    /// Reads all of a file in calls of 64 KiB.
    fn read(&self, open: &Arc<OpenFile<Solo>>) {
        let mut at = 0;
        while let Ok(got @ 1..) = self.kernel.file_read(&self.cx, open, at, 64 << 10) {
            at += got;
        }
        self.check();
    }

    fn write(&self, open: &Arc<OpenFile<Solo>>, pos: u64, len: u64) {
        assert_eq!(self.kernel.file_write(&self.cx, open, pos, len), Ok(len));
        self.check();
    }

    fn map(&self, open: &Arc<OpenFile<Solo>>, page: u32, pages: u32, flags: VmaFlags) -> u32 {
        let backing = Backing::File { open: Arc::clone(open), page };
        self.kernel.mmap(&self.cx, &self.mm, pages, 512, flags, backing).unwrap()
    }

    fn touch(&self, vpn: u32, access: Access) {
        self.kernel.touch(&self.cx, &self.mm, vpn, access).unwrap();
    }

    fn folio(&self, file: &File<Solo>, index: u32) -> Option<Folio> {
        file.tree.lock(CPU).page(index).map(|pfn| self.kernel.mem.map.folio(pfn))
    }

    fn flags(&self, file: &File<Solo>, index: u32) -> PageFlags {
        self.kernel.mem.map.page(self.folio(file, index).expect("a cached page")).flags()
    }

    /// The folios of a file, as (first page, order).
    fn folios(&self, file: &File<Solo>) -> Vec<(u32, u8)> {
        let mut found = Vec::new();
        file.tree.lock(CPU).walk(0, u32::MAX, |index, pfn| {
            let folio = self.kernel.mem.map.folio(pfn);
            if folio.pfn() == pfn {
                found.push((index, folio.order().0));
            }
            true
        });
        found
    }

    /// How many folios there are of each order.
    fn by_order(&self, file: &File<Solo>) -> Vec<(u8, u32)> {
        let mut counts = BTreeMap::new();
        self.folios(file).iter().for_each(|(_, order)| *counts.entry(*order).or_default() += 1);
        counts.into_iter().collect()
    }

    fn node(&self, item: NodeStat) -> u64 {
        self.kernel.mem.node(NodeId(0)).stats.read_exact(item as usize)
    }

    fn event(&self, event: VmEvent) -> u64 {
        self.kernel.mem.events.read(event)
    }

    fn check(&self) {
        check_kernel(&self.kernel, &self.cx).unwrap();
    }
}

/// As many of each order as the captured kernels made (rules/large-folios#readahead).
#[test]
fn a_file_read_in_order_has_the_folios_of_real_kernels() {
    type ByOrder = &'static [(u8, u32)];
    let cases: [(Version, u64, ByOrder); 17] = [
        (V61, 20_479, &[(0, 1), (2, 1)]),
        (V612, 20_479, &[(0, 1), (2, 1)]),
        (V72, 20_479, &[(0, 5)]),
        (V61, 28_672, &[(0, 3), (2, 1)]),
        (V612, 28_672, &[(0, 1), (1, 1), (2, 1)]),
        (V72, 28_672, &[(0, 7)]),
        (V612, 102_400, &[(0, 1), (2, 6)]),
        (V72, 102_400, &[(0, 25)]),
        (V612, 200_000, &[(0, 1), (2, 8), (4, 1)]),
        (V72, 200_000, &[(0, 33), (2, 4)]),
        (V61, 400_001, &[(0, 2), (2, 8), (4, 2), (5, 1)]),
        (V612, 400_001, &[(1, 1), (0, 0), (2, 8), (4, 2), (5, 1)]),
        (V72, 400_001, &[(0, 32), (1, 1), (2, 8), (4, 2)]),
        (V612, 1_048_577, &[(0, 1), (2, 8), (4, 2), (5, 6)]),
        (V72, 1_048_577, &[(0, 33), (2, 8), (4, 2), (5, 5)]),
        (V612, 3_000_000, &[(0, 1), (2, 9), (3, 1), (4, 3), (5, 20)]),
        (V72, 3_000_000, &[(0, 33), (2, 9), (3, 1), (4, 3), (5, 19)]),
    ];
    for (version, bytes, orders) in cases {
        let host = Solo::default();
        let stage = Stage::new(&host, version);
        let open = stage.open(bytes);
        stage.read(&open);
        let mut want: Vec<_> = orders.iter().copied().filter(|(_, nr)| *nr > 0).collect();
        want.sort_unstable();
        assert_eq!(stage.by_order(&open.file), want, "{version:?}, {bytes} bytes");
        assert_eq!(open.file.nr_pages(), bytes.div_ceil(PAGE));
    }
}

/// A device that takes 8 MiB ahead (rules/large-folios#readahead).
#[test]
fn large_windows_have_huge_folios_from_the_sixth_on() {
    let host = Solo::default();
    let stage = Stage::new(&host, V72);
    let open = stage.open(32 << 20);
    open.readahead.lock(CPU).ra_pages = 2048;
    stage.read(&open);
    let folios = stage.folios(&open.file);
    let from = |index: u32, count: usize| {
        folios.iter().skip_while(|(at, _)| *at < index).take(count).map(|f| f.1).collect::<Vec<_>>()
    };
    assert!(folios.iter().take(64).all(|&(_, order)| order == 0), "{:?}", from(0, 64));
    assert_eq!(from(64, 2), [2, 2]);
    assert_eq!(from(4096, 4), [9; 4]);
    let orders: Vec<u8> = stage.by_order(&open.file).iter().map(|(order, _)| *order).collect();
    assert_eq!(orders.last(), Some(&9));
}

/// rules/large-folios#writes.
#[test]
fn writes_make_folios_and_dirty_them_whole() {
    let host = Solo::default();
    let stage = Stage::new(&host, V72);
    let open = stage.open(0);
    stage.write(&open, 0, 4096);
    stage.write(&open, 4096, 1 << 20);
    let orders = [0, 0, 1, 2, 3, 4, 5, 6, 7, 0];
    assert!(stage.folios(&open.file).iter().map(|f| f.1).eq(orders));
    assert_eq!((stage.node(NodeStat::Dirty), stage.node(NodeStat::Dirtied)), (257, 257));
    stage.kernel.fsync(&stage.cx, &open).unwrap();
    assert_eq!(stage.event(VmEvent::Pgpgout), 257 * 4);
    stage.check();
    // A page of a clean folio of 128: all of it is dirty, and that page is written.
    stage.write(&open, 200 * PAGE, 4096);
    stage.write(&open, 201 * PAGE + 10, 20);
    assert_eq!((stage.node(NodeStat::Dirty), stage.node(NodeStat::Dirtied)), (128, 257 + 128));
    stage.kernel.fsync(&stage.cx, &open).unwrap();
    assert_eq!(stage.event(VmEvent::Pgpgout), (257 + 2) * 4);
    assert_eq!(stage.node(NodeStat::Written), 257 + 128);
    assert_eq!(stage.event(VmEvent::Pgpgin), 0, "nothing had to be read");
    stage.check();
}

/// Of a write into a file that is not cached, only the page that it begins within is read.
#[test]
fn a_write_reads_the_page_that_it_cuts() {
    let host = Solo::default();
    let stage = Stage::new(&host, V72);
    let open = stage.open(1 << 20);
    stage.write(&open, 100, 64 << 10);
    let folios: Vec<_> = stage.folios(&open.file);
    assert_eq!(folios, [(0, 4), (16, 0)]);
    assert_eq!(stage.event(VmEvent::Pgpgin), 2 * 4, "both ends");
    assert!(stage.flags(&open.file, 0).contains(PageFlags::UPTODATE | PageFlags::DIRTY));
}

/// rules/large-folios#references.
#[test]
fn random_reads_use_a_folio_whole_and_sequential_ones_once() {
    let host = Solo::default();
    let stage = Stage::new(&host, V612);
    let open = stage.open(4 << 20);
    stage.read(&open);
    let (file, kernel) = (&open.file, &stage.kernel);
    let index = stage.folios(file).iter().find(|f| f.1 == 5).unwrap().0;
    let page = kernel.mem.map.page(stage.folio(file, index).unwrap());
    page.flag_clear::<Solo>(PageFlags::REFERENCED);
    let read = |page: u32| {
        let (cx, pos) = (&stage.cx, u64::from(page) * PAGE);
        assert_eq!(kernel.file_read(cx, &open, pos, PAGE), Ok(PAGE));
    };
    (index..index + 32).for_each(read);
    assert!(page.is(PageFlags::REFERENCED) && !page.is(PageFlags::ACTIVE), "marked once");
    read(index + 40);
    kernel.lru_add_drain_all(&stage.cx);
    let before = stage.event(VmEvent::Pgactivate);
    read(index + 17);
    kernel.lru_add_drain_all(&stage.cx);
    assert_eq!(stage.event(VmEvent::Pgactivate) - before, 32);
    stage.check();
}

/// rules/large-folios#faults.
#[test]
fn faults_map_the_pages_of_the_window_or_of_the_folio() {
    for (version, faults) in [(V612, 4), (V72, 2)] {
        let host = Solo::default();
        let stage = Stage::new(&host, version);
        let open = stage.open(4 << 20);
        stage.read(&open);
        let (first, _) = *stage.folios(&open.file).iter().find(|f| f.1 == 5).unwrap();
        let start = stage.map(&open, first, 64, READ);
        let before = stage.event(VmEvent::Pgfault);
        (start..start + 64).for_each(|vpn| stage.touch(vpn, Access::Read));
        assert_eq!(stage.event(VmEvent::Pgfault) - before, faults, "{version:?}");
        assert_eq!(stage.node(NodeStat::Mapped), 64);
        stage.check();
        // Part of a folio is mapped no longer.
        stage.kernel.munmap(&stage.cx, &stage.mm, start + 4, 10).unwrap();
        assert_eq!(stage.node(NodeStat::Mapped), 54);
        stage.check();
        stage.kernel.exit_mm(&stage.cx, &stage.mm);
        assert_eq!(stage.node(NodeStat::Mapped), 0);
        stage.check();
    }
}

/// Unmapping tells a folio of each young entry, or once of a run of them (rules/unmap#young).
#[test]
fn a_run_of_entries_is_one_use() {
    for (version, is_active) in [(V61, [true, true]), (V612, [false, true]), (V72, [false, true])] {
        let host = Solo::default();
        let stage = Stage::new(&host, version);
        let open = stage.open(4 << 20);
        let map = || {
            let start = stage.map(&open, 0, 1024, READ);
            (start..start + 1024).for_each(|vpn| stage.touch(vpn, Access::Read));
            start
        };
        let start = map();
        let (first, _) = *stage.folios(&open.file).iter().rfind(|f| f.1 == 2).unwrap();
        let seen = || {
            stage.kernel.lru_add_drain(&stage.cx);
            stage.flags(&open.file, first).contains(PageFlags::ACTIVE)
        };
        assert!(!seen(), "{version:?}");
        stage.kernel.munmap(&stage.cx, &stage.mm, start, 1024).unwrap();
        assert_eq!(seen(), is_active[0], "{version:?}");
        let start = map();
        stage.kernel.munmap(&stage.cx, &stage.mm, start, 1024).unwrap();
        assert_eq!(seen(), is_active[1], "{version:?}");
        stage.check();
    }
}

/// A VMA that begins within a folio gets its own part (rules/large-folios#faults).
#[test]
fn a_folio_that_sticks_out_of_the_vma_is_mapped_in_part() {
    let host = Solo::default();
    let stage = Stage::new(&host, V72);
    let open = stage.open(4 << 20);
    stage.read(&open);
    let (first, _) = *stage.folios(&open.file).iter().find(|f| f.1 == 5).unwrap();
    let start = stage.map(&open, first + 8, 24, READ);
    stage.touch(start, Access::Read);
    assert_eq!(stage.node(NodeStat::Mapped), 16);
    stage.check();
}

/// A store through a mapping dirties all of a folio, and all of it is written
/// (rules/large-folios#dirty).
#[test]
fn stores_through_a_mapping_write_the_folio_whole() {
    let host = Solo::default();
    let stage = Stage::new(&host, V72);
    let open = stage.open(4 << 20);
    stage.read(&open);
    let (first, _) = *stage.folios(&open.file).iter().find(|f| f.1 == 5).unwrap();
    let start = stage.map(&open, first, 32, WRITE);
    stage.touch(start + 3, Access::Write);
    assert_eq!((stage.node(NodeStat::Dirty), stage.node(NodeStat::Mapped)), (32, 32));
    let before = (stage.event(VmEvent::Pgfault), stage.event(VmEvent::Pgpgout));
    stage.touch(start + 20, Access::Write);
    assert_eq!(stage.event(VmEvent::Pgfault), before.0, "writable already");
    stage.kernel.fsync(&stage.cx, &open).unwrap();
    assert_eq!(stage.event(VmEvent::Pgpgout) - before.1, 32 * 4);
    stage.check();
    stage.touch(start + 20, Access::Write);
    assert_eq!(stage.event(VmEvent::Pgfault), before.0 + 1, "write-protected by the flush");
    stage.check();
}

/// Truncation splits, by halves or to pages; a dirty folio stays whole
/// (rules/large-folios#truncation).
#[test]
fn truncation_splits_the_folio_that_it_cuts() {
    for (version, pieces) in [(V612, vec![(32, 0); 8]), (V72, vec![(32, 3)])] {
        let host = Solo::default();
        let stage = Stage::new(&host, version);
        let open = stage.open(4 << 20);
        stage.read(&open);
        let (first, _) = *stage.folios(&open.file).iter().find(|f| f.1 == 5).unwrap();
        let start = stage.map(&open, first, 64, READ);
        (start..start + 16).for_each(|vpn| stage.touch(vpn, Access::Read));
        stage.kernel.truncate(&stage.cx, &open.file, first + 8);
        let left: Vec<_> =
            stage.folios(&open.file).into_iter().filter(|f| f.0 >= first).map(|f| f.1).collect();
        assert!(left.iter().eq(pieces.iter().map(|piece| &piece.1)), "{left:?}");
        assert_eq!((open.file.nr_pages(), stage.node(NodeStat::Mapped)), (u64::from(first) + 8, 0));
        stage.check();
        stage.kernel.delete_file(&stage.cx, &open.file);
        stage.check();
    }
    let host = Solo::default();
    let stage = Stage::new(&host, V72);
    let open = stage.open(0);
    stage.write(&open, 0, 64 << 10);
    stage.kernel.truncate(&stage.cx, &open.file, 5);
    assert_eq!(stage.folios(&open.file), [(0, 4)], "it is dirty");
    stage.check();
    stage.kernel.truncate(&stage.cx, &open.file, 0);
    assert_eq!((open.file.nr_pages(), stage.node(NodeStat::Dirty)), (0, 0));
    stage.check();
}

/// A folio of 2 MiB fills tree nodes, which get memory of their own when it is cut.
#[test]
fn a_huge_folio_is_one_entry_of_the_tree() {
    let host = Solo::default();
    let stage = Stage::new(&host, V72);
    let open = stage.open(0);
    stage.write(&open, 0, 4 << 20);
    stage.kernel.fsync(&stage.cx, &open).unwrap();
    assert_eq!(stage.by_order(&open.file), [(9, 2)]);
    assert_eq!(open.file.tree.lock(CPU).nr_objects(), 1);
    stage.kernel.truncate(&stage.cx, &open.file, 512 + 70);
    let cut = [(512, 6), (576, 2), (580, 1)];
    assert!(stage.folios(&open.file).iter().skip(1).eq(&cut), "{:?}", stage.folios(&open.file));
    assert_eq!(open.file.tree.lock(CPU).nr_objects(), 2);
    assert_eq!(stage.event(VmEvent::ThpSplitPage), 1);
    stage.check();
    stage.kernel.delete_file(&stage.cx, &open.file);
    stage.check();
}

/// Advice drops folios that lie in the range, and no part of one (rules/large-folios#truncation).
#[test]
fn advice_drops_whole_folios() {
    let host = Solo::default();
    let stage = Stage::new(&host, V612);
    let open = stage.open(4 << 20);
    stage.read(&open);
    let (first, _) = *stage.folios(&open.file).iter().find(|f| f.1 == 5).unwrap();
    let pages = open.file.nr_pages();
    let drop = |from: u32, nr: u64| {
        let (pos, len) = (u64::from(from) * PAGE, nr * PAGE);
        stage.kernel.fadvise(&stage.cx, &open, pos, len, FileAdvice::DontNeed);
        stage.check();
        pages - open.file.nr_pages()
    };
    assert_eq!(drop(first + 5, 10), 0);
    assert_eq!(drop(first, 33), 32);
}

/// An evicted folio leaves its shadow in all of its slots; a folio that comes back counts whole
/// (rules/large-folios#working-set).
#[test]
fn refaults_count_the_pages_that_come_back() {
    let host = Solo::default();
    let stage = Stage::new(&host, V612);
    let open = stage.open(4 << 20);
    stage.read(&open);
    let (file, kernel) = (&open.file, &stage.kernel);
    let (first, _) = *stage.folios(file).iter().find(|f| f.1 == 5).unwrap();
    let evict = |index: u32| {
        kernel.lru_add_drain_all(&stage.cx);
        let folio = kernel.find_lock_page(&stage.cx, file, index).unwrap();
        let page = kernel.mem.map.page(folio);
        let before = file.nr_pages();
        assert!(kernel.remove_mapping_file(&stage.cx, file, (folio, page), GroupId::ROOT));
        assert_eq!(before - file.nr_pages(), folio.nr_pages());
        page.unfreeze(1);
        kernel.unlock_page(&stage.cx, folio);
        kernel.put_page(&stage.cx, folio);
        stage.check();
    };
    evict(first);
    let refaults = || stage.node(NodeStat::WorkingsetRefaultFile);
    // A random read brings one page back; the shadow stays for the others.
    stage.kernel.fadvise(&stage.cx, &open, 0, 0, FileAdvice::Random);
    let pos = (u64::from(first) + 7) * PAGE;
    assert_eq!(kernel.file_read(&stage.cx, &open, pos, PAGE), Ok(PAGE));
    assert_eq!(refaults(), 1);
    stage.check();
    kernel.fadvise(&stage.cx, &open, 0, 0, FileAdvice::WillNeed);
    assert_eq!(refaults(), 32);
    stage.check();
}

/// A folio is locked into memory by a VMA that maps all of it (rules/large-folios#faults).
#[test]
fn only_whole_folios_are_locked() {
    let host = Solo::default();
    let stage = Stage::new(&host, V72);
    let open = stage.open(4 << 20);
    stage.read(&open);
    let (first, _) = *stage.folios(&open.file).iter().find(|f| f.1 == 5).unwrap();
    let start = stage.map(&open, first, 64, READ);
    let (cx, mm) = (&stage.cx, &stage.mm);
    stage.kernel.mlock(cx, mm, start, 10).unwrap();
    assert_eq!(stage.event(VmEvent::UnevictablePgsMlocked), 0);
    stage.check();
    stage.kernel.munmap(cx, mm, start, 64).unwrap();
    let start = stage.map(&open, first, 64, READ);
    (start..start + 64).for_each(|vpn| stage.touch(vpn, Access::Read));
    stage.kernel.mlock(cx, mm, start, 64).unwrap();
    assert_eq!(stage.event(VmEvent::UnevictablePgsMlocked), 64);
    stage.check();
    stage.kernel.munmap(cx, mm, start, 64).unwrap();
    stage.kernel.lru_add_drain_all(cx);
    assert_eq!(stage.event(VmEvent::UnevictablePgsMunlocked), 64);
    stage.check();
}

/// Private writes and forks take pages of a folio one by one.
#[test]
fn private_writers_copy_single_pages() {
    let host = Solo::default();
    let stage = Stage::new(&host, V72);
    let open = stage.open(4 << 20);
    stage.read(&open);
    let (first, _) = *stage.folios(&open.file).iter().find(|f| f.1 == 5).unwrap();
    let private = VmaFlags::READ | VmaFlags::WRITE;
    let start = stage.map(&open, first, 32, private);
    stage.touch(start + 1, Access::Read);
    assert_eq!(stage.node(NodeStat::Mapped), 32);
    stage.touch(start + 5, Access::Write);
    stage.check();
    // From now on the VMA has memory of its own, so a child gets the entries.
    let child = stage.kernel.fork(&stage.cx, &stage.mm).unwrap();
    stage.check();
    stage.touch(start + 6, Access::Write);
    assert_eq!((stage.node(NodeStat::Mapped), stage.node(NodeStat::AnonPages)), (31, 2));
    stage.check();
    stage.kernel.exit_mm(&stage.cx, &child);
    stage.check();
    assert_eq!(stage.node(NodeStat::Mapped), 30, "two pages have no entry left");
}
