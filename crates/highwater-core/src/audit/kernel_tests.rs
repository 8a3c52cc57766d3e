//! Each rule of the kernel is broken on purpose; the audit has to notice.

extern crate std;

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::kernel::{NODE_COUNTERS, ZONE_COUNTERS};
use super::{KernelReport, Rule, check_kernel, check_kernel_besides};
use crate::block::{DeviceId, DeviceSpec};
use crate::config::{Machine, preset};
use crate::host::{CpuId, Cx, Lock, Solo};
use crate::kernel::{Kernel, KernelSpec};
use crate::lru::{LruKind, Shadow};
use crate::page::{Folio, Order, Page, PageFlags, PageMapping, Pfn};
use crate::page_alloc::Gfp;
use crate::page_alloc::boot;
use crate::page_cache::{FileSpec, Filesystem, Mark, OpenFile};
use crate::swap::{Slot, SwapSpec};
use crate::sync::atomic::Ordering::Relaxed;
use crate::syscall::MemoryAdvice;
use crate::units::LruVecId;
use crate::vm::{Access, Backing, Mm, PageTable, Pte, VmaFlags};
use crate::zone::{NodeId, ZoneType};

const CPU: CpuId = CpuId(0);
const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

/// A machine in use: a file half read and partly dirty, mapped; anonymous memory partly in swap,
/// partly back from there, partly locked.
struct Stage<'h> {
    k: Kernel<Solo>,
    cx: Cx<'h, Solo>,
    mm: Arc<Mm<Solo>>,
    open: Arc<OpenFile<Solo>>,
    /// First pages of the regions.
    anon: u32,
    shared: u32,
    read_only: u32,
}

fn stage(host: &Solo) -> Stage<'_> {
    let machine = Machine::from_sizes("audited", &[(64 << 20, vec![0, 1])]).unwrap();
    let mem = boot(host, &machine, &preset("6.1").unwrap()).unwrap();
    let cx = Cx::new(host, CPU);
    let disk = DeviceSpec::nvme(1 << 20);
    let swap = vec![SwapSpec { device: DeviceId(1), pages: 1 << 12, priority: 0 }];
    let k =
        Kernel::new(&cx, mem, &KernelSpec { devices: vec![disk.clone(), disk], swap, groups: 0 })
            .unwrap();
    let spec = FileSpec::new(Filesystem::EXT4, DeviceId(0), 0, 1000);
    let open = k.open(&cx, &k.create_file(&cx, spec));
    k.file_read(&cx, &open, 0, 300 << 12).unwrap();
    k.file_write(&cx, &open, 10 << 12, 5 << 12).unwrap();

    let mm = k.create_mm(&cx).unwrap();
    let anon = k.mmap(&cx, &mm, 400, 512, RW, Backing::Anon).unwrap();
    let map = |pages, flags| {
        let backing = Backing::File { open: Arc::clone(&open), page: 0 };
        k.mmap(&cx, &mm, pages, 512, flags, backing).unwrap()
    };
    let shared = map(50, RW | VmaFlags::SHARED);
    let read_only = map(100, VmaFlags::READ);
    let touch = |vpn, access| k.touch(&cx, &mm, vpn, access).unwrap();
    for page in 0..200 {
        touch(anon + page, Access::Write);
        touch(anon + 200 + page, Access::Read);
    }
    touch(shared + 3, Access::Write);
    touch(shared + 20, Access::Read);
    touch(read_only + 40, Access::Read);
    k.mlock(&cx, &mm, anon + 150, 20).unwrap();
    // Out and gone from memory: the first look finds them dirty, the second one clean.
    k.lru_add_drain_all(&cx);
    for _ in 0..2 {
        k.madvise(&cx, &mm, anon, 100, MemoryAdvice::PageOut).unwrap();
    }
    touch(anon + 30, Access::Read);
    k.munmap(&cx, &mm, anon + 60, 10).unwrap();
    touch(anon + 399, Access::Write);
    Stage { k, cx, mm, open, anon, shared, read_only }
}

impl Stage<'_> {
    fn report(&self) -> KernelReport {
        check_kernel(&self.k, &self.cx).unwrap_or_else(|error| panic!("{error}"))
    }

    fn table(&self, vpn: u32) -> Arc<PageTable<Solo>> {
        self.mm.table_of(CPU, vpn).unwrap()
    }

    fn pte(&self, vpn: u32) -> Pte {
        self.table(vpn).peek(vpn)
    }

    fn set_pte(&self, vpn: u32, pte: Pte) {
        self.table(vpn).lock(CPU).set(vpn, pte);
    }

    fn page_at(&self, vpn: u32) -> &Page {
        self.k.mem.map.page(self.pte(vpn).pfn().unwrap())
    }

    fn cached(&self, index: u32) -> Pfn {
        self.open.file.tree.lock(CPU).page(index).unwrap()
    }

    fn file_page(&self, index: u32) -> &Page {
        self.k.mem.map.page(self.cached(index))
    }

    /// A slot that an entry names and whose page is also in memory.
    fn swap_cached(&self) -> (Slot, Pfn) {
        let pfn = self.pte(self.anon + 30).pfn().unwrap();
        let around = (self.anon + 20..self.anon + 40).filter(|&vpn| vpn != self.anon + 30);
        let mut slots = around.filter_map(|vpn| self.pte(vpn).slot());
        let found = slots.find_map(|slot| Some((slot, self.k.swap.state(CPU, slot).cached?)));
        assert_ne!(found.map(|(_, cached)| cached), Some(pfn));
        found.unwrap()
    }

    /// A slot with entries and without a page in memory.
    fn swapped(&self) -> Slot {
        self.pte(self.anon).slot().unwrap()
    }

    fn alloc(&self) -> Pfn {
        let gfp = Gfp::GFP_KERNEL;
        self.k.mem.alloc(&self.cx, &self.k, gfp, Order::ZERO, NodeId(0), None).unwrap()
    }
}

/// Which rule the audit names after `damage`.
#[track_caller]
fn broken_by<R>(damage: impl FnOnce(&Stage<'_>) -> R) -> Rule {
    let host = Solo::default();
    let stage = stage(&host);
    stage.report();
    damage(&stage);
    let error = check_kernel(&stage.k, &stage.cx).expect_err("the damage goes unnoticed");
    assert!(!error.to_string().contains('\n'), "{error}");
    error.rule
}

#[test]
fn a_healthy_machine_adds_up() {
    let host = Solo::default();
    let s = stage(&host);
    let report = s.report();
    assert_eq!(report.cached, s.open.file.nr_pages());
    assert_eq!(report.tables, 1 + 1 + 1 + 3, "top, third and second level, three regions");
    assert!(report.swap_entries > 60 && report.swap_cached > 0, "{report:?}");
    assert!(report.in_batches > 0 && report.slab > 0 && report.pinned == 1, "{report:?}");
    let table = s.alloc();
    assert!(check_kernel(&s.k, &s.cx).is_err(), "nobody uses the page");
    let besides = check_kernel_besides(&s.k, &s.cx, &|pfn| pfn == table).unwrap();
    assert_eq!(besides.foreign, 1);
    s.k.put_page(&s.cx, Folio::page(table));
    s.k.exit_mm(&s.cx, &s.mm);
    let report = s.report();
    assert_eq!((report.tables, report.entries, report.swap_entries), (0, 0, 0));
    s.k.delete_file(&s.cx, &s.open.file);
    s.k.lru_add_drain_all(&s.cx);
    let report = s.report();
    assert_eq!((report.cached, report.on_lists, report.in_batches), (0, 0, 0));
    assert_eq!(report.memory.used, report.slab + report.pinned);
}

#[test]
fn references_to_nothing() {
    let rule = broken_by(|s| {
        let pfn = s.alloc();
        s.k.put_page(&s.cx, Folio::page(pfn));
        s.set_pte(s.anon + 250, Pte::new(pfn));
    });
    assert_eq!(rule, Rule::Dangling);
    let beyond = broken_by(|s| s.set_pte(s.anon + 250, Pte::new(Pfn(Pte::MAX_PFN))));
    assert_eq!(beyond, Rule::Dangling);
}

#[test]
fn wrong_lists() {
    let clear = |flag| broken_by(|s| s.file_page(7).flag_clear::<Solo>(flag));
    let set = |flag| broken_by(|s| s.file_page(7).flag_set::<Solo>(flag));
    assert_eq!(clear(PageFlags::LRU), Rule::LruList);
    assert_eq!(set(PageFlags::ACTIVE), Rule::LruList);
    assert_eq!(set(PageFlags::SWAPBACKED), Rule::LruList);
    assert_eq!(set(PageFlags::UNEVICTABLE), Rule::LruList);
    let rule = broken_by(|s| s.page_at(s.anon + 155).flag_clear::<Solo>(PageFlags::LRU));
    assert!(matches!(rule, Rule::LruSize | Rule::OffLists), "{rule:?}");
    let rule = broken_by(|s| {
        s.k.lru.vec(LruVecId::new(0)).sizes[ZoneType::Dma32.idx()][LruKind::ActiveFile as usize]
            .fetch_add(1, Relaxed);
    });
    assert_eq!(rule, Rule::LruSize);
    assert_eq!(broken_by(|s| s.file_page(7).prev.store(5, Relaxed)), Rule::Links);
    let rule = broken_by(|s| {
        let pfn = s.cached(7);
        s.k.lock_lru(&s.cx, LruVecId::new(0)).unlink(Folio::page(pfn));
        s.file_page(7).flag_clear::<Solo>(PageFlags::LRU);
    });
    assert_eq!(rule, Rule::OffLists);
}

#[test]
fn wrong_tables() {
    let rule = broken_by(|s| {
        let pfn = s.table(s.anon).pfn;
        s.k.mem.map.page(pfn).flag_clear::<Solo>(PageFlags::TABLE);
    });
    assert_eq!(rule, Rule::TableFrame);
    // An entry outside of every region, a writable one of a read-only region, no such slot.
    assert_eq!(broken_by(|s| s.set_pte(s.anon + 405, s.pte(s.anon + 110))), Rule::EntryPlace);
    let rule = broken_by(|s| {
        let vpn = s.read_only + 40;
        s.set_pte(vpn, s.pte(vpn).with_writable(true));
    });
    assert_eq!(rule, Rule::EntryPlace);
    let rule = broken_by(|s| {
        s.set_pte(s.anon, Pte::swap(Slot { area: 0, offset: 1 << 12 }));
    });
    assert_eq!(rule, Rule::EntryPlace);
    let rule = broken_by(|s| {
        let vpn = s.anon + 210;
        s.set_pte(vpn, s.pte(vpn).with_writable(true));
    });
    assert_eq!(rule, Rule::EntryPlace, "the zero page");
}

#[test]
fn pages_mapped_where_they_do_not_belong() {
    let rule = broken_by(|s| {
        let page = s.page_at(s.anon + 110);
        page.set_mapping(PageMapping::Anon(s.mm.id), s.anon + 111);
    });
    assert_eq!(rule, Rule::EntryPage);
    // Another page of the file; an anonymous page in a shared mapping.
    assert_eq!(broken_by(|s| s.set_pte(s.shared + 30, s.pte(s.shared + 20))), Rule::EntryPage);
    let rule = broken_by(|s| {
        s.page_at(s.shared + 20).set_mapping(PageMapping::Anon(s.mm.id), s.shared + 20);
    });
    assert!(matches!(rule, Rule::EntryPage | Rule::FilePage), "{rule:?}");
    let rule = broken_by(|s| {
        let vpn = s.read_only + 40;
        let range = s.mm.vma_of(CPU, vpn).unwrap().map_range(s.mm.id).unwrap().1;
        s.open.file.mappings.lock(CPU).remove(&range);
    });
    assert_eq!(rule, Rule::FileMapping);
    let rule = broken_by(|s| {
        let vpn = s.read_only + 40;
        let mut range = s.mm.vma_of(CPU, vpn).unwrap().map_range(s.mm.id).unwrap().1;
        range.file_page += 1;
        s.open.file.mappings.lock(CPU).insert(range);
    });
    assert_eq!(rule, Rule::FileMapping);
}

#[test]
fn wrong_counts_of_mappings() {
    let rss = |which: fn(&Mm<Solo>) -> u64| broken_by(|s| which(&s.mm));
    assert_eq!(rss(|s| s.rss.anon.fetch_add(1, Relaxed)), Rule::Rss);
    assert_eq!(rss(|s| s.rss.file.fetch_sub(1, Relaxed)), Rule::Rss);
    assert_eq!(rss(|s| s.rss.swap.fetch_add(1, Relaxed)), Rule::Rss);
    assert_eq!(rss(|s| s.rss.tables.fetch_sub(1, Relaxed)), Rule::Rss);
    assert_eq!(broken_by(|s| s.page_at(s.anon + 110).map_add::<Solo>(1)), Rule::Mapcount);
    assert_eq!(broken_by(|s| s.page_at(s.shared + 3).map_remove::<Solo>(1)), Rule::Mapcount);
    // An unmapped page with a mapcount.
    assert_eq!(broken_by(|s| s.file_page(290).map_add::<Solo>(1)), Rule::Mapcount);
}

#[test]
fn wrong_files() {
    assert_eq!(broken_by(|s| s.file_page(290).set_mapping(PageMapping::None, 0)), Rule::FilePage);
    let file = |s: &Stage<'_>| PageMapping::File(s.open.file.id);
    assert_eq!(broken_by(|s| s.file_page(290).set_mapping(file(s), 291)), Rule::FilePage);
    let rule = broken_by(|s| {
        let (_, pfn) = s.swap_cached();
        s.k.mem.map.page(pfn).set_mapping(file(s), 999);
    });
    assert_eq!(rule, Rule::FilePage);
    assert_eq!(broken_by(|s| s.open.file.nr_pages.fetch_add(1, Relaxed)), Rule::FileSize);
    let rule = broken_by(|s| {
        assert!(s.file_page(12).is(PageFlags::DIRTY));
        s.open.file.tree.lock(CPU).mark(12, Mark::Dirty, false);
    });
    assert_eq!(rule, Rule::FileMarks);
    let flag = |flag| broken_by(|s| s.file_page(290).flag_set::<Solo>(flag));
    assert_eq!(
        (flag(PageFlags::DIRTY), flag(PageFlags::WRITEBACK)),
        (Rule::FileMarks, Rule::FileMarks)
    );
    assert_eq!(broken_by(|s| s.open.file.is_queued.store(false, Relaxed)), Rule::DirtyFile);
    let rule = broken_by(|s| s.k.writeback[0].lists.lock(CPU).dirty.pop_back());
    assert_eq!(rule, Rule::DirtyFile);
}

#[test]
fn wrong_slots() {
    let area = |s: &Stage<'_>, change: fn(&mut crate::swap::Slots, u32)| {
        change(&mut s.k.swap.areas[0].slots.lock(CPU), s.swapped().offset);
    };
    assert_eq!(broken_by(|s| area(s, |slots, at| slots.add_entry(at))), Rule::SlotCount);
    assert_eq!(broken_by(|s| s.set_pte(s.anon, Pte::NONE)), Rule::Rss);
    let rule = broken_by(|s| {
        s.set_pte(s.anon, Pte::NONE);
        s.mm.rss.swap.fetch_sub(1, Relaxed);
    });
    assert_eq!(rule, Rule::SlotCount);
    let rule = broken_by(|s| {
        let (_, pfn) = s.swap_cached();
        s.k.swap.slot_of[pfn.idx()].store(77, Relaxed);
    });
    assert_eq!(rule, Rule::SwapCached);
    let rule = broken_by(|s| {
        let (_, pfn) = s.swap_cached();
        s.k.mem.map.page(pfn).flag_clear::<Solo>(PageFlags::SWAPCACHE);
    });
    assert_eq!(rule, Rule::SwapCached);
    let rule = broken_by(|s| s.file_page(5).flag_set::<Solo>(PageFlags::SWAPCACHE));
    assert_eq!(rule, Rule::SwapCached);
    // A slot that a CPU lost, one that it has twice, one in use that it has.
    let kept = |s: &Stage<'_>, change: &dyn Fn(&mut Vec<Slot>)| {
        change(&mut s.k.swap.slot_cache_of(CPU).lock(CPU).taken);
    };
    assert_eq!(broken_by(|s| kept(s, &|taken| taken.truncate(3))), Rule::SlotKept);
    assert_eq!(broken_by(|s| kept(s, &|taken| taken.push(taken[0]))), Rule::SlotKept);
    assert_eq!(broken_by(|s| kept(s, &|taken| taken.push(s.swapped()))), Rule::SlotKept);
    let rule = broken_by(|s| {
        let slot = s.k.swap.slot_cache_of(CPU).lock(CPU).taken[0];
        s.k.swap.areas[0].slots.lock(CPU).plant_shadow(slot.offset, Shadow(1));
    });
    assert_eq!(rule, Rule::SlotShadow);
    assert_eq!(broken_by(|s| s.k.swap.free.fetch_add(1, Relaxed)), Rule::SlotsFree);
    let rule = broken_by(|s| {
        // Taken behind the count's back.
        let mut slots = s.k.swap.areas[0].slots.lock(CPU);
        let mut search = slots.search(CpuId(1), false);
        slots.take(&mut search);
    });
    assert_eq!(rule, Rule::SlotKept);
}

#[test]
fn wrong_users() {
    assert_eq!(broken_by(|s| s.alloc()), Rule::Unexplained);
    assert_eq!(broken_by(|s| s.file_page(7).get_ref()), Rule::References);
    assert_eq!(broken_by(|s| s.file_page(20).put_ref()), Rule::References);
    assert_eq!(broken_by(|s| s.k.mem.map.page(s.swap_cached().1).get_ref()), Rule::References);
    let zero = |s: &Stage<'_>| s.k.zero_page;
    assert_eq!(broken_by(|s| s.k.mem.map.page(zero(s)).get_ref()), Rule::KernelMemory);
    let rule = broken_by(|s| {
        s.k.mem.map.page(zero(s)).flag_set::<Solo>(PageFlags::DIRTY);
    });
    assert_eq!(rule, Rule::KernelMemory);
    let rule = broken_by(|s| {
        let slab = s.k.slab(crate::slab::CacheKind::TreeNode).lock(CPU).slabs().next().unwrap().0;
        s.k.mem.map.page(slab).flag_clear::<Solo>(PageFlags::SLAB);
    });
    assert_eq!(rule, Rule::KernelMemory);
    let rule = broken_by(|s| {
        let pfn = s.alloc();
        s.k.mem.map.page(pfn).flag_set::<Solo>(PageFlags::TABLE);
    });
    assert_eq!(rule, Rule::KernelMemory, "a table of no space");
    assert_eq!(broken_by(|s| assert!(s.k.try_lock_page(Folio::page(s.cached(7))))), Rule::Idle);
}

#[test]
fn wrong_counters() {
    for &item in NODE_COUNTERS {
        for delta in [1, 40] {
            let rule = broken_by(|s| s.k.mem.node(NodeId(0)).stats.add(CPU, item as usize, delta));
            assert_eq!(rule, Rule::Counter, "{}", item.name());
        }
    }
    for &item in ZONE_COUNTERS {
        let rule = broken_by(|s| {
            let zone = s.k.mem.zone(NodeId(0), ZoneType::Dma32).unwrap();
            zone.stats.add(CPU, item as usize, 1);
        });
        assert_eq!(rule, Rule::Counter, "{}", item.name());
    }
    let reclaimable = broken_by(|s| s.k.writeback[0].nr_reclaimable.fetch_add(1, Relaxed));
    let writeback = broken_by(|s| s.k.writeback[1].nr_writeback.fetch_add(1, Relaxed));
    assert_eq!((reclaimable, writeback), (Rule::Counter, Rule::Counter));
}
