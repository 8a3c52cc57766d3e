//! Faults on the [`Solo`] host, whose devices finish at once.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::block::{DeviceId, DeviceSpec};
use crate::config::{Machine, MmapMiss, Policy, preset};
use crate::host::{CpuId, Lock, Solo, TaskFlags};
use crate::kernel::{Error, Kernel, KernelSpec};
use crate::page::{Folio, Page, PageFlags, PageMapping};
use crate::page_alloc::boot;
use crate::page_cache::{FileSpec, Filesystem, OpenFile};
use crate::swap::SwapSpec;
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::GroupId;
use crate::vm::{Backing, Pte, Trail, VmaFlags};
use crate::vmstat::{NodeStat, VmEvent, ZoneStat};

const CPU: CpuId = CpuId(0);
const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

/// A kernel with one mm, used by this task only.
struct Stage<'h> {
    cx: Cx<'h, Solo>,
    kernel: Kernel<Solo>,
    mm: Arc<Mm<Solo>>,
}

impl<'h> Stage<'h> {
    fn new(host: &'h Solo, mib: u64, policy: &str) -> Self {
        Stage::with(host, mib, &preset(policy).unwrap())
    }

    fn with(host: &'h Solo, mib: u64, policy: &Policy) -> Self {
        let machine = Machine::from_sizes("stage", &[(mib << 20, vec![0, 1])]).unwrap();
        let cx = Cx::new(host, CPU);
        let mem = boot(host, &machine, policy).unwrap();
        let disk = DeviceSpec::nvme(1 << 20);
        let swap = SwapSpec { device: DeviceId(1), pages: 1 << 14, priority: 0 };
        let spec = KernelSpec { devices: vec![disk.clone(), disk], swap: vec![swap], groups: 0 };
        let kernel = Kernel::new(&cx, mem, &spec).unwrap();
        let mm = kernel.create_mm(&cx).unwrap();
        Stage { cx, kernel, mm }
    }

    fn map(&self, pages: u32, flags: VmaFlags) -> u32 {
        self.kernel.mmap(&self.cx, &self.mm, pages, 512, flags, Backing::Anon).unwrap()
    }

    fn open(&self, pages: u32) -> Arc<OpenFile<Solo>> {
        let spec = FileSpec::new(Filesystem::EXT4, DeviceId(0), 0, pages);
        self.kernel.open(&self.cx, &self.kernel.create_file(&self.cx, spec))
    }

    fn map_file(&self, open: &Arc<OpenFile<Solo>>, pages: u32, flags: VmaFlags) -> u32 {
        let backing = Backing::File { open: Arc::clone(open), page: 0 };
        self.kernel.mmap(&self.cx, &self.mm, pages, 512, flags, backing).unwrap()
    }

    fn read(&self, vpn: u32) -> Result<Fault, Error> {
        self.kernel.touch(&self.cx, &self.mm, vpn, Access::Read)
    }

    fn write(&self, vpn: u32) -> Result<Fault, Error> {
        self.kernel.touch(&self.cx, &self.mm, vpn, Access::Write)
    }

    fn pte(&self, vpn: u32) -> Pte {
        self.mm.table_of(CPU, vpn).map_or(Pte::NONE, |table| table.peek(vpn))
    }

    fn mapped(&self, start: u32, pages: u32) -> Vec<u32> {
        (0..pages).filter(|page| self.pte(start + page).is_present()).collect()
    }

    fn page_at(&self, vpn: u32) -> (&Page, Folio) {
        let folio = self.kernel.mapped_folio(self.pte(vpn)).unwrap();
        (self.kernel.mem.map.page(folio), folio)
    }

    fn event(&self, event: VmEvent) -> u64 {
        self.kernel.mem.events.read(event)
    }

    fn faults(&self) -> (u64, u64) {
        (self.event(VmEvent::Pgfault), self.event(VmEvent::Pgmajfault))
    }

    fn node(&self, item: NodeStat) -> u64 {
        self.kernel.mem.nodes().iter().map(|node| node.stats.read_exact(item as usize)).sum()
    }

    fn zone(&self, item: ZoneStat) -> u64 {
        self.kernel.mem.populated_zones().map(|zone| zone.stats.read_exact(item as usize)).sum()
    }

    fn rss(&self) -> [u64; 4] {
        let rss = &self.mm.rss;
        [&rss.anon, &rss.file, &rss.swap, &rss.tables].map(|count| count.load(Relaxed))
    }

    /// What reclaim does to a page: a slot for it, no entry that maps it.
    fn swap_out(&self, vpn: u32) -> Folio {
        let (page, folio) = self.page_at(vpn);
        self.kernel.lru_add_drain(&self.cx);
        assert!(page.try_get::<Solo>() && self.kernel.try_lock_page(folio));
        assert!(page.is(PageFlags::SWAPCACHE) || self.kernel.add_to_swap(&self.cx, folio));
        assert!(self.kernel.try_to_unmap(&self.cx, folio, &mut Trail::default()));
        self.kernel.unlock_page(&self.cx, folio);
        self.kernel.put_page(&self.cx, folio);
        assert!(self.pte(vpn).slot().is_some());
        folio
    }

    /// Completes a swap-out: the page is written and leaves the swap cache.
    fn forget(&self, folio: Folio) {
        let page = self.kernel.mem.map.page(folio);
        assert!(page.try_get::<Solo>() && self.kernel.try_lock_page(folio));
        assert!(self.kernel.clear_page_dirty_for_io(&self.cx, folio));
        self.kernel.swap_writepage(&self.cx, folio);
        assert!(self.kernel.isolate_page(&self.cx, folio));
        page.put::<Solo>(1);
        assert!(self.kernel.try_lock_page(folio));
        assert!(self.kernel.remove_mapping_swap(&self.cx, folio, GroupId::ROOT));
        self.kernel.unlock_page(&self.cx, folio);
        self.kernel.retire_and_free(&self.cx, &[folio]);
    }
}

#[test]
fn anonymous_memory_is_zeros_until_it_is_written() {
    let host = Solo::default();
    let stage = Stage::new(&host, 64, "6.1");
    let at = stage.map(8, RW);
    assert_eq!(stage.read(at), Ok(Fault::Minor));
    assert_eq!(stage.pte(at), Pte::new(stage.kernel.zero_page()), "young, clean, read-only");
    assert_eq!(stage.read(at), Ok(Fault::None));
    assert_eq!((stage.rss(), stage.node(NodeStat::AnonPages)), ([0, 0, 0, 3], 0));

    assert_eq!(stage.write(at), Ok(Fault::Minor), "the zero page is copied");
    assert_eq!(stage.write(at + 1), Ok(Fault::Minor));
    assert_eq!(stage.write(at + 1), Ok(Fault::None));
    assert_eq!((stage.faults(), stage.event(VmEvent::Pgreuse)), ((3, 0), 0));
    assert_eq!((stage.rss(), stage.node(NodeStat::AnonPages)), ([2, 0, 0, 3], 2));
    for vpn in [at, at + 1] {
        let (page, _) = stage.page_at(vpn);
        assert_eq!(page.mapping(), PageMapping::Anon(stage.mm.id));
        assert_eq!((page.index(), page.mapcount()), (vpn, 1));
        assert_eq!(page.refcount(), 2, "the entry and the add batch");
        assert_eq!(page.flags(), PageFlags::SWAPBACKED | PageFlags::UPTODATE, "the page is clean");
        assert!(stage.pte(vpn).is_dirty() && stage.pte(vpn).is_writable());
    }
    stage.kernel.lru_add_drain(&stage.cx);
    assert_eq!((stage.node(NodeStat::InactiveAnon), stage.node(NodeStat::ActiveAnon)), (2, 0));
}

#[test]
fn up_to_5_8_new_pages_are_active() {
    let host = Solo::default();
    let stage = Stage::new(&host, 64, "4.3");
    let at = stage.map(4, RW);
    let all = stage.kernel.touch_range(&stage.cx, &stage.mm, at, 4, Access::Write);
    assert_eq!(all, Ok(Touched { minor: 4, major: 0 }));
    stage.kernel.lru_add_drain(&stage.cx);
    assert_eq!((stage.node(NodeStat::InactiveAnon), stage.node(NodeStat::ActiveAnon)), (0, 4));
}

#[test]
fn a_range_is_touched_as_its_pages_are() {
    let host = Solo::default();
    let (one, many) = (Stage::new(&host, 64, "6.1"), Stage::new(&host, 64, "6.1"));
    let (at, pages) = (one.map(1500, RW), 1300);
    assert_eq!(many.map(1500, RW), at);
    for access in [Access::Read, Access::Write, Access::Write] {
        let mut sum = Touched::default();
        for vpn in at + 100..at + 100 + pages {
            match one.kernel.touch(&one.cx, &one.mm, vpn, access) {
                Ok(Fault::None) => {}
                Ok(Fault::Minor) => sum.minor += 1,
                other => panic!("{other:?}"),
            }
        }
        let range = many.kernel.touch_range(&many.cx, &many.mm, at + 100, pages, access);
        assert_eq!(range, Ok(sum));
        assert_eq!(one.mapped(at, 1500), many.mapped(at, 1500));
        assert_eq!((one.rss(), one.faults()), (many.rss(), many.faults()));
    }
    let beyond = many.kernel.touch_range(&many.cx, &many.mm, at + 1490, 20, Access::Read);
    assert_eq!(beyond, Err(Error::Fault));
    assert!(many.pte(at + 1499).is_present(), "what comes before the error is done");
}

#[test]
fn accesses_need_an_area_that_allows_them() {
    let host = Solo::default();
    let stage = Stage::new(&host, 64, "6.1");
    let read_only = stage.map(4, VmaFlags::READ);
    assert_eq!(stage.read(read_only + 4), Err(Error::Fault));
    assert_eq!(stage.write(read_only), Err(Error::Fault));
    assert_eq!(stage.read(read_only), Ok(Fault::Minor));
    assert_eq!(stage.write(read_only), Err(Error::Fault), "the zero page is mapped");
    assert_eq!(stage.faults(), (1, 0), "bad accesses are not faults of the memory manager");
    stage.cx.signals().raise(TaskFlags::FATAL_SIGNAL);
    assert_eq!(stage.read(read_only), Err(Error::Killed));
}

/// Tables are made by faults, not by mmap (rules/faults#page-tables, rules/faults#table-freeing).
#[test]
fn tables_come_with_the_first_fault_and_go_with_their_range() {
    let host = Solo::default();
    let stage = Stage::new(&host, 64, "6.1");
    assert_eq!(stage.node(NodeStat::PageTablePages), 0, "the top table does not count");
    let pages = 1 << 18;
    let (kernel, cx, mm) = (&stage.kernel, &stage.cx, &stage.mm);
    let at = kernel.mmap(cx, mm, pages, pages, VmaFlags::READ, Backing::Anon).unwrap();
    kernel.touch_range(cx, mm, at, pages, Access::Read).unwrap();
    assert_eq!(stage.node(NodeStat::PageTablePages), 513);
    assert_eq!(stage.rss(), [0, 0, 0, 514], "the third level counts for the space");
    for folio in mm.tables.lock(CPU).table_frames() {
        assert!(kernel.mem.map.page(folio).is(PageFlags::TABLE));
    }
    kernel.munmap(cx, mm, at, 768).unwrap();
    assert_eq!(stage.node(NodeStat::PageTablePages), 512);
    assert!(mm.table_of(CPU, at).is_none() && mm.table_of(CPU, at + 512).is_some());
    kernel.munmap(cx, mm, at, pages).unwrap();
    assert_eq!((stage.node(NodeStat::PageTablePages), stage.rss()[3]), (0, 0));
}

#[test]
fn a_space_gives_everything_back() {
    let host = Solo::default();
    let stage = Stage::new(&host, 64, "6.1");
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let used =
        |kernel: &Kernel<Solo>| kernel.mem.map.iter().filter(|page| page.refcount() > 0).count();
    let before = used(kernel);
    let mm = kernel.create_mm(cx).unwrap();
    for _ in 0..3 {
        let at = kernel.mmap(cx, &mm, 700, 1, RW, Backing::Anon).unwrap();
        kernel.touch_range(cx, &mm, at, 700, Access::Write).unwrap();
    }
    assert!(mm.cpus.contains(CPU));
    assert!(used(kernel) > before + 2100);
    kernel.exit_mm(cx, &mm);
    assert_eq!(used(kernel), before);
    assert!(kernel.mm(cx, mm.id).is_none() && !mm.cpus.contains(CPU));
    assert_eq!((stage.node(NodeStat::AnonPages), stage.node(NodeStat::PageTablePages)), (0, 0));
}

/// A major fault of rules/faults#frame: read-around, then fault-around when it is tried again.
/// From 6.5 on a fault counts once, however often it is tried.
#[test]
fn retries_of_a_fault_may_not_count() {
    let host = Solo::default();
    let mut policy = preset("6.1").unwrap();
    policy.fault.count_retries = false;
    let stage = Stage::with(&host, 64, &policy);
    let open = stage.open(256);
    let at = stage.map_file(&open, 256, VmaFlags::READ | VmaFlags::SHARED);
    for (page, faults) in [(100, (1, 1)), (90, (2, 1)), (108, (3, 1))] {
        stage.read(at + page).unwrap();
        assert_eq!(stage.faults(), faults, "{page}");
    }
}

/// Random reads of a mapped file that is not cached: fault-around on the retry takes the miss off
/// again up to 6.12, so all are read around (rules/readahead#mmap-hits).
#[test]
fn random_faults_are_read_around_until_misses_count() {
    for (rule, pages) in [
        (MmapMiss::Page, 200 * 32),
        (MmapMiss::PageNotWs, 200 * 32),
        (MmapMiss::Fault, 100 * 32 + 100),
    ] {
        let host = Solo::default();
        let mut policy = preset("6.1").unwrap();
        policy.fault.mmap_miss = rule;
        let stage = Stage::with(&host, 128, &policy);
        let open = stage.open(200 * 64);
        let at = stage.map_file(&open, 200 * 64, VmaFlags::READ | VmaFlags::SHARED);
        for page in 0..200 {
            assert_eq!(stage.read(at + page * 64 + 32), Ok(Fault::Major));
        }
        assert_eq!(stage.event(VmEvent::Pgmajfault), 200);
        assert_eq!(open.file.nr_pages(), pages, "{rule:?}");
    }
}

/// The pages of one fault-around that count as hits: 16 are cached, four of them have the
/// workingset flag.
#[test]
fn hits_of_a_fault() {
    let none = VmaFlags::empty();
    for (rule, flags, at_plain, at_workingset) in [
        (MmapMiss::Page, none, 16, 16),
        (MmapMiss::PageNotWs, none, 12, 12),
        (MmapMiss::Fault, none, 1, 0),
        (MmapMiss::Page, VmaFlags::EXEC, 16, 16),
        (MmapMiss::Fault, VmaFlags::EXEC, 0, 0),
        (MmapMiss::Fault, VmaFlags::SEQ_READ, 0, 0),
    ] {
        for (page, hits) in [(5, at_plain), (2, at_workingset)] {
            let host = Solo::default();
            let mut policy = preset("6.1").unwrap();
            policy.fault.mmap_miss = rule;
            let stage = Stage::with(&host, 64, &policy);
            let open = stage.open(64);
            let at = stage.map_file(&open, 64, VmaFlags::READ | VmaFlags::SHARED | flags);
            stage.kernel.readahead_forced(&stage.cx, &open, 0, 16);
            for index in 0..4 {
                let folio = stage.kernel.find_get_page(&stage.cx, &open.file, index).unwrap();
                stage.kernel.mem.map.page(folio).flag_set::<Solo>(PageFlags::WORKINGSET);
                stage.kernel.put_page(&stage.cx, folio);
            }
            open.readahead.lock(CPU).mmap_miss = 50;
            assert_eq!(stage.read(at + page), Ok(Fault::Minor));
            let left = open.readahead.lock(CPU).mmap_miss;
            assert_eq!(50 - left, hits, "{rule:?} {flags:?} {page}");
        }
    }
}

#[test]
fn a_major_file_fault_reads_around_and_maps_around() {
    let host = Solo::default();
    let stage = Stage::new(&host, 64, "6.1");
    let open = stage.open(256);
    let at = stage.map_file(&open, 256, VmaFlags::READ | VmaFlags::SHARED);
    assert_eq!(stage.read(at + 100), Ok(Fault::Major));
    assert_eq!(stage.faults(), (2, 1));
    // The window is 84..116, its mark at 108 (rules/readahead#mmap-miss).
    assert_eq!(open.file.nr_pages(), 32);
    let around: Vec<u32> = (96..112).filter(|&page| page != 108).collect();
    assert_eq!(stage.mapped(at, 256), around, "the retry maps what lies in the 64 KiB");
    assert_eq!((stage.rss()[1], stage.node(NodeStat::Mapped)), (15, 15));

    assert_eq!(stage.read(at + 90), Ok(Fault::Minor));
    assert_eq!(stage.faults(), (3, 1));
    assert_eq!(stage.mapped(at, 96), (84..96).collect::<Vec<_>>());
    let (page, _) = stage.page_at(at + 90);
    assert_eq!((page.mapcount(), page.is(PageFlags::REFERENCED)), (1, false));
    assert!(stage.pte(at + 91).is_young(), "neighbours look used too");

    // The marked page: the next window is read, without the lock, so the fault comes twice.
    assert_eq!(stage.read(at + 108), Ok(Fault::Major));
    assert_eq!(stage.faults(), (5, 1));
    assert!(open.file.nr_pages() > 32);
}

#[test]
fn beyond_the_end_of_a_file_there_is_nothing() {
    let host = Solo::default();
    let stage = Stage::new(&host, 64, "6.1");
    let open = stage.open(20);
    let at = stage.map_file(&open, 64, VmaFlags::READ | VmaFlags::SHARED);
    assert_eq!(stage.read(at + 19), Ok(Fault::Major));
    assert_eq!(stage.read(at + 20), Err(Error::Fault));
    assert_eq!(stage.mapped(at, 64), (16..20).collect::<Vec<_>>());
}

#[test]
fn a_private_write_copies_the_file_page() {
    let host = Solo::default();
    let stage = Stage::new(&host, 64, "6.1");
    let open = stage.open(64);
    let at = stage.map_file(&open, 64, RW);
    assert_eq!(stage.write(at + 3), Ok(Fault::Major), "the page to copy is read first");
    assert_eq!(stage.mapped(at, 64), [3], "writes map nothing around");
    let (copy, _) = stage.page_at(at + 3);
    assert_eq!(copy.mapping(), PageMapping::Anon(stage.mm.id));
    assert_eq!((stage.rss()[0], stage.rss()[1]), (1, 0));

    assert_eq!(stage.read(at + 4), Ok(Fault::Minor));
    let (_, cached) = stage.page_at(at + 4);
    let mapped = stage.rss()[1];
    assert_eq!(stage.write(at + 4), Ok(Fault::Minor));
    assert_ne!(stage.page_at(at + 4).1, cached);
    assert_eq!((stage.rss()[0], stage.rss()[1]), (2, mapped - 1));
    assert_eq!(stage.node(NodeStat::Mapped), mapped - 1);
    let cached = stage.kernel.mem.map.page(cached);
    assert_eq!((cached.mapcount(), cached.is(PageFlags::DIRTY)), (0, false));
}

#[test]
fn a_shared_write_dirties_the_file_page() {
    let host = Solo::default();
    let stage = Stage::new(&host, 64, "6.1");
    let open = stage.open(64);
    let at = stage.map_file(&open, 64, RW | VmaFlags::SHARED);
    assert_eq!(stage.write(at), Ok(Fault::Major));
    assert_eq!((stage.mapped(at, 64), stage.node(NodeStat::Dirty)), (vec![0], 1));
    assert_eq!(stage.read(at + 1), Ok(Fault::Minor));
    assert!(!stage.pte(at + 1).is_writable());
    assert_eq!(stage.write(at + 1), Ok(Fault::Minor));
    assert_eq!((stage.event(VmEvent::Pgreuse), stage.node(NodeStat::Dirty)), (1, 2));
    let (page, folio) = stage.page_at(at + 1);
    assert!(page.is(PageFlags::DIRTY) && !page.is(PageFlags::LOCKED));

    // Writeback protects the entry; the next write is seen again.
    assert!(stage.kernel.try_lock_page(folio));
    assert!(stage.kernel.clear_page_dirty_for_io(&stage.cx, folio));
    stage.kernel.unlock_page(&stage.cx, folio);
    assert!(!stage.pte(at + 1).is_writable() && !stage.pte(at + 1).is_dirty());
    assert_eq!(stage.write(at + 1), Ok(Fault::Minor));
    assert!(page.is(PageFlags::DIRTY));
}

#[test]
fn a_page_in_the_swap_cache_comes_back_without_input() {
    let host = Solo::default();
    let stage = Stage::new(&host, 64, "6.1");
    let at = stage.map(4, RW);
    stage.write(at).unwrap();
    let folio = stage.swap_out(at);
    assert_eq!(stage.rss()[..3], [0, 0, 1]);
    let before = stage.faults();
    assert_eq!(stage.read(at), Ok(Fault::Minor));
    assert_eq!(stage.faults(), (before.0 + 1, before.1));
    assert_eq!((stage.page_at(at).1, stage.rss()), (folio, [1, 0, 0, 3]));
    assert!(!stage.pte(at).is_writable() && stage.page_at(at).0.is(PageFlags::SWAPCACHE));
    assert_eq!((stage.write(at), stage.event(VmEvent::Pgreuse)), (Ok(Fault::Minor), 1));

    let folio = stage.swap_out(at);
    let slot = stage.pte(at).slot().unwrap();
    assert_eq!(stage.write(at), Ok(Fault::Minor), "one fault is enough for a write");
    assert!(stage.pte(at).is_writable());
    assert!(
        !stage.kernel.mem.map.page(folio).is(PageFlags::SWAPCACHE),
        "nobody else needs the slot"
    );
    assert_eq!(stage.kernel.swap_count(&stage.cx, slot), 0);
}

/// 7.2: the write does not free the slot, and the page is written to the same slot again.
#[test]
fn a_written_page_may_keep_its_slot() {
    let host = Solo::default();
    let mut policy = preset("6.1").unwrap();
    policy.swap.write_frees_slot = false;
    let stage = Stage::with(&host, 64, &policy);
    let at = stage.map(4, RW);
    stage.write(at).unwrap();
    stage.forget(stage.swap_out(at));
    let slot = stage.pte(at).slot().unwrap();
    assert_eq!(stage.write(at), Ok(Fault::Major));
    assert!(stage.pte(at).is_writable() && stage.page_at(at).0.is(PageFlags::SWAPCACHE));
    let folio = stage.swap_out(at);
    assert_eq!((stage.pte(at).slot(), stage.kernel.slot_of(folio)), (Some(slot), Some(slot)));
    assert!(stage.kernel.mem.map.page(folio).is(PageFlags::DIRTY), "it has to be written again");
}

#[test]
fn a_page_in_swap_is_read() {
    let host = Solo::default();
    let stage = Stage::new(&host, 64, "6.1");
    let at = stage.map(4, RW);
    stage.write(at).unwrap();
    stage.forget(stage.swap_out(at));
    let (before, slot) = (stage.faults(), stage.pte(at).slot().unwrap());
    assert_eq!(stage.read(at), Ok(Fault::Major));
    assert_eq!(stage.faults(), (before.0 + 1, before.1 + 1), "the device was done at once");
    assert_eq!(stage.rss(), [1, 0, 0, 3]);
    let (page, folio) = stage.page_at(at);
    assert!(page.is(PageFlags::UPTODATE | PageFlags::SWAPCACHE) && !page.is(PageFlags::LOCKED));
    assert_eq!(
        (stage.kernel.slot_of(folio), stage.kernel.swap_count(&stage.cx, slot)),
        (Some(slot), 0)
    );
    assert_eq!((page.mapcount(), page.mapping()), (1, PageMapping::Anon(stage.mm.id)));
    assert_eq!(stage.event(VmEvent::Pswpin), 1);
}

#[test]
fn locked_memory_is_there_and_unevictable() {
    let host = Solo::default();
    let stage = Stage::new(&host, 64, "6.1");
    let (kernel, cx, mm) = (&stage.kernel, &stage.cx, &stage.mm);
    let at = stage.map(64, RW);
    kernel.touch_range(cx, mm, at, 8, Access::Write).unwrap();
    kernel.touch_range(cx, mm, at + 8, 8, Access::Read).unwrap();
    kernel.mlock(cx, mm, at + 4, 32).unwrap();
    assert_eq!(stage.mapped(at, 64), (0..36).collect::<Vec<_>>());
    assert_eq!((stage.rss()[0], stage.zone(ZoneStat::Mlock)), (36, 32));
    kernel.lru_add_drain(cx);
    assert_eq!(
        (stage.node(NodeStat::Unevictable), stage.event(VmEvent::UnevictablePgsMlocked)),
        (32, 32)
    );
    assert_eq!(mm.tables.lock(CPU).all_vmas().count(), 3);
    // Memory that is locked already is left alone.
    kernel.mlock(cx, mm, at + 4, 32).unwrap();
    assert_eq!(
        (stage.zone(ZoneStat::Mlock), stage.event(VmEvent::UnevictablePgsMlocked)),
        (32, 32)
    );
    kernel.munlock(cx, mm, at, 64).unwrap();
    assert_eq!((stage.zone(ZoneStat::Mlock), stage.node(NodeStat::Unevictable)), (0, 0));
    assert_eq!(stage.event(VmEvent::UnevictablePgsMunlocked), 32);
    assert_eq!(stage.node(NodeStat::InactiveAnon) + stage.node(NodeStat::ActiveAnon), 36);
    assert_eq!(kernel.mlock(cx, mm, at + 60, 8), Err(Error::Fault), "a part is not mapped");
    let locked = stage.map(16, RW | VmaFlags::LOCKED);
    assert_eq!(stage.mapped(locked, 16).len(), 16, "mapping locked memory populates it");
}
