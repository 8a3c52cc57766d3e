//! Migrates pages of each kind, and tests obstacles.

extern crate std;

use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec;
use std::vec::Vec;

use super::{Frames, Mode, Outcome};
use crate::Kernel;
use crate::audit::check_kernel;
use crate::block::DeviceId;
use crate::block::manual::{DISK, Manual, kernel_of};
use crate::host::{CpuId, Cx, Lock};
use crate::page::{Folio, Order, PAGE_SIZE, PageFlags, PageList};
use crate::page_alloc::{Gfp, NoRelief};
use crate::page_cache::{File, FileSpec, Filesystem, Mark, OpenFile};
use crate::swap::SwapSpec;
use crate::vm::{Access, Backing, Mm, VmaFlags};
use crate::vmstat::{NodeStat, VmEvent, ZoneStat};
use crate::zone::NodeId;

const CPU: CpuId = CpuId(0);
const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

struct Stage {
    host: Rc<Manual>,
    kernel: Rc<Kernel<Manual>>,
}

impl Stage {
    fn new() -> Self {
        let host = Rc::new(Manual::default());
        let swap = vec![SwapSpec { device: DeviceId(1), pages: 4096, priority: 0 }];
        let kernel = kernel_of(&host, &[DISK, DISK], swap, |_| {});
        Stage { host, kernel }
    }

    fn cx(&self) -> Cx<'_, Manual> {
        Cx::new(&*self.host, CPU)
    }

    fn complete(&self) {
        while self.host.nr_held() != 0 {
            self.host.end(0, Ok(()));
        }
    }

    /// A mm with anonymous pages that were written; its first page.
    fn anon(&self, cx: &Cx<'_, Manual>, pages: u32) -> (Arc<Mm<Manual>>, u32) {
        let mm = self.kernel.create_mm(cx).unwrap();
        let start = self.kernel.mmap(cx, &mm, pages, 512, RW, Backing::Anon).unwrap();
        self.kernel.touch_range(cx, &mm, start, pages, Access::Write).unwrap();
        self.kernel.lru_add_drain_all(cx);
        (mm, start)
    }

    fn file(&self, cx: &Cx<'_, Manual>, pages: u64) -> (Arc<File<Manual>>, Arc<OpenFile<Manual>>) {
        let size = pages * PAGE_SIZE as u64;
        let spec = FileSpec::new(Filesystem::EXT4, DeviceId(0), 0, 10_000).with_size(size);
        let file = self.kernel.create_file(cx, spec);
        let open = self.kernel.open(cx, &file);
        assert_eq!(self.kernel.file_read(cx, &open, 0, size), Ok(size));
        self.complete();
        self.kernel.lru_add_drain_all(cx);
        (file, open)
    }

    fn page_at(&self, mm: &Mm<Manual>, vpn: u32) -> Folio {
        Folio::page(mm.table_of(CPU, vpn).unwrap().peek(vpn).pfn().unwrap())
    }

    fn cached(&self, cx: &Cx<'_, Manual>, file: &File<Manual>, index: u32) -> Folio {
        let folio = self.kernel.find_get_page(cx, file, index).unwrap();
        self.kernel.put_page(cx, folio);
        folio
    }

    /// Isolates pages and moves them to fresh frames; pages that do not move are put back.
    fn migrate(
        &self,
        cx: &Cx<'_, Manual>,
        folios: &[Folio],
        nr_frames: usize,
        mode: Mode,
    ) -> Outcome {
        let kernel = &self.kernel;
        let mut from = PageList::default();
        for &folio in folios {
            let page = kernel.mem.map.page(folio);
            page.get::<Manual>(1);
            assert!(kernel.isolate_page(cx, folio));
            kernel.put_page(cx, folio);
            kernel.count_isolated_page(cx, folio, true);
            from.push_tail(&kernel.mem.map, folio);
        }
        let mut frames = Frames::default();
        for _ in 0..nr_frames {
            let gfp = Gfp::GFP_HIGHUSER_MOVABLE;
            let pfn = kernel.mem.alloc(cx, &NoRelief, gfp, Order::ZERO, NodeId(0), None);
            frames.push(&kernel.mem.map, pfn.unwrap(), Order::ZERO);
        }
        let outcome = kernel.migrate_pages(cx, &mut from, &mut frames, mode, |_| {});
        kernel.putback_isolated(cx, &mut from);
        while let Some((pfn, order)) = frames.pop(&kernel.mem.map) {
            kernel.mem.free(cx, pfn, order).unwrap();
        }
        kernel.lru_add_drain_all(cx);
        outcome
    }

    fn stat(&self, item: NodeStat) -> u64 {
        self.kernel.mem.node(NodeId(0)).stats.read_exact(item as usize)
    }

    fn check(&self) {
        let cx = self.cx();
        check_kernel(&self.kernel, &cx).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(self.stat(NodeStat::IsolatedAnon) + self.stat(NodeStat::IsolatedFile), 0);
    }
}

const fn moved(moved: u64) -> Outcome {
    Outcome { moved, failed: 0, is_out_of_frames: false }
}

#[test]
fn anonymous_pages_are_where_their_program_finds_them() {
    let stage = Stage::new();
    let cx = stage.cx();
    let (mm, start) = stage.anon(&cx, 8);
    let before: Vec<Folio> = (start..start + 8).map(|vpn| stage.page_at(&mm, vpn)).collect();
    let faults = stage.kernel.mem.events.read(VmEvent::Pgfault);
    assert_eq!(stage.migrate(&cx, &before, 8, Mode::Async), moved(8));
    let after: Vec<Folio> = (start..start + 8).map(|vpn| stage.page_at(&mm, vpn)).collect();
    assert!(before.iter().all(|folio| !after.contains(folio)));
    // Still writable: no fault.
    stage.kernel.touch_range(&cx, &mm, start, 8, Access::Write).unwrap();
    assert_eq!(stage.kernel.mem.events.read(VmEvent::Pgfault), faults);
    assert_eq!(stage.kernel.mem.events.read(VmEvent::PgmigrateSuccess), 8);
    stage.check();
    stage.kernel.munmap(&cx, &mm, start, 8).unwrap();
    stage.check();
}

#[test]
fn file_pages_keep_their_marks_and_mappings() {
    let stage = Stage::new();
    let cx = stage.cx();
    let (file, open) = stage.file(&cx, 4);
    let mm = stage.kernel.create_mm(&cx).unwrap();
    let backing = Backing::File { open: Arc::clone(&open), page: 0 };
    let flags = RW | VmaFlags::SHARED;
    let start = stage.kernel.mmap(&cx, &mm, 4, 512, flags, backing).unwrap();
    stage.kernel.touch_range(&cx, &mm, start, 2, Access::Write).unwrap();
    stage.kernel.touch_range(&cx, &mm, start + 2, 2, Access::Read).unwrap();
    stage.kernel.lru_add_drain_all(&cx);
    let dirty = stage.stat(NodeStat::Dirty);
    assert_eq!(dirty, 2);
    let before: Vec<Folio> = (0..4).map(|index| stage.cached(&cx, &file, index)).collect();
    assert_eq!(stage.migrate(&cx, &before, 4, Mode::SyncLight), moved(4));
    for index in 0..4 {
        let folio = stage.cached(&cx, &file, index);
        assert_ne!(folio, before[index as usize]);
        assert_eq!(stage.page_at(&mm, start + index), folio);
        let page = stage.kernel.mem.map.page(folio);
        assert_eq!(page.is(PageFlags::DIRTY), index < 2);
        assert_eq!(file.tree.lock(CPU).is_marked(index, Mark::Dirty), index < 2);
        assert!(page.is(PageFlags::UPTODATE) && !page.is(PageFlags::LOCKED));
    }
    assert_eq!(stage.stat(NodeStat::Dirty), dirty);
    stage.check();
}

#[test]
fn pages_in_the_swap_cache_keep_their_slots() {
    let stage = Stage::new();
    let cx = stage.cx();
    let (mm, start) = stage.anon(&cx, 1);
    let folio = stage.page_at(&mm, start);
    stage.kernel.lock_page(&cx, folio);
    assert!(stage.kernel.add_to_swap(&cx, folio));
    stage.kernel.unlock_page(&cx, folio);
    let slot = stage.kernel.slot_of(folio).unwrap();
    assert_eq!(stage.migrate(&cx, &[folio], 1, Mode::Sync), moved(1));
    let now = stage.page_at(&mm, start);
    assert_ne!(now, folio);
    assert_eq!((stage.kernel.slot_of(now), stage.kernel.slot_of(folio)), (Some(slot), None));
    let found = stage.kernel.swap_cache_get(&cx, slot).unwrap();
    assert_eq!(found, now);
    stage.kernel.put_page(&cx, found);
    stage.check();
}

#[test]
fn locked_memory_is_moved_and_stays_locked() {
    let stage = Stage::new();
    let cx = stage.cx();
    let (mm, start) = stage.anon(&cx, 2);
    stage.kernel.mlock(&cx, &mm, start, 2).unwrap();
    stage.kernel.lru_add_drain_all(&cx);
    let nr_locked = || -> u64 {
        let zones = stage.kernel.mem.populated_zones();
        zones.map(|zone| zone.stats.read_exact(ZoneStat::Mlock as usize)).sum()
    };
    assert_eq!(nr_locked(), 2);
    let before = [start, start + 1].map(|vpn| stage.page_at(&mm, vpn));
    assert_eq!(stage.migrate(&cx, &before, 2, Mode::Sync), moved(2));
    assert_eq!(nr_locked(), 2);
    assert!(stage.kernel.mem.map.page(stage.page_at(&mm, start)).is(PageFlags::UNEVICTABLE));
    stage.check();
    stage.kernel.munlock(&cx, &mm, start, 2).unwrap();
    stage.kernel.lru_add_drain_all(&cx);
    assert_eq!(nr_locked(), 0);
    stage.check();
}

/// A page that cannot move stays with its program, and the counters name the obstacle.
#[test]
fn what_cannot_be_moved_stays() {
    let stage = Stage::new();
    let cx = stage.cx();
    let (mm, start) = stage.anon(&cx, 4);
    let page = |vpn: u32| stage.page_at(&mm, start + vpn);
    // Somebody looks at it.
    let (held, locked) = (page(0), page(1));
    stage.kernel.mem.map.page(held).get::<Manual>(1);
    stage.kernel.lock_page(&cx, locked);
    let outcome = stage.migrate(&cx, &[held, locked, page(2)], 3, Mode::Async);
    assert_eq!(outcome, Outcome { moved: 1, failed: 2, is_out_of_frames: false });
    assert_eq!((page(0), page(1)), (held, locked));
    stage.kernel.unlock_page(&cx, locked);
    stage.kernel.put_page(&cx, held);
    // No frame for the second; the third was not tried.
    let outcome = stage.migrate(&cx, &[page(0), page(1), page(3)], 1, Mode::Async);
    assert_eq!(outcome, Outcome { moved: 1, failed: 1, is_out_of_frames: true });
    let events = &stage.kernel.mem.events;
    assert_eq!(events.read(VmEvent::PgmigrateSuccess), 2);
    assert_eq!(events.read(VmEvent::PgmigrateFail), 3);
    stage.kernel.touch_range(&cx, &mm, start, 4, Access::Write).unwrap();
    stage.check();
}

/// rules/compaction#journal.
#[test]
fn what_a_journal_holds_stays_until_it_is_written() {
    let stage = Stage::new();
    let cx = stage.cx();
    let spec = FileSpec::new(Filesystem::EXT4_METADATA, DeviceId(0), 0, 1);
    let file = stage.kernel.create_file(&cx, spec.with_size(0));
    let open = stage.kernel.open(&cx, &file);
    assert_eq!(stage.kernel.file_write(&cx, &open, 0, 256), Ok(256));
    stage.kernel.lru_add_drain_all(&cx);
    let folio = stage.cached(&cx, &file, 0);
    for mode in [Mode::Async, Mode::SyncLight, Mode::Sync] {
        let outcome = stage.migrate(&cx, &[folio], 1, mode);
        assert_eq!(outcome, Outcome { moved: 0, failed: 1, is_out_of_frames: false });
    }
    stage.kernel.lock_page(&cx, folio);
    assert!(stage.kernel.clear_page_dirty_for_io(&cx, folio));
    stage.kernel.unlock_page(&cx, folio);
    assert_eq!(stage.migrate(&cx, &[folio], 1, Mode::Async), moved(1));
    stage.check();
}

/// rules/slab#buffer-heads.
#[test]
fn buffers_go_where_their_page_goes() {
    let stage = Stage::new();
    let cx = stage.cx();
    let spec = FileSpec::new(Filesystem::EXT4, DeviceId(0), 0, 2).with_size(0);
    let file = stage.kernel.create_file(&cx, spec);
    let open = stage.kernel.open(&cx, &file);
    assert_eq!(stage.kernel.file_write(&cx, &open, 0, 8192), Ok(8192));
    stage.kernel.lru_add_drain_all(&cx);
    let before = [0, 1].map(|index| stage.cached(&cx, &file, index));
    let id = |folio: Folio| stage.kernel.buffers.lock(CpuId(0)).of(folio.pfn());
    let had = before.map(id);
    assert!(had.iter().all(Option::is_some) && had[0] != had[1]);
    assert_eq!(stage.migrate(&cx, &before, 2, Mode::Async), moved(2));
    let after = [0, 1].map(|index| stage.cached(&cx, &file, index));
    assert_eq!((before.map(id), after.map(id)), ([None; 2], had));
    stage.check();
}

/// Only fully synchronous migration waits for writeback.
#[test]
fn pages_under_writeback_wait_or_stay() {
    let stage = Stage::new();
    let cx = stage.cx();
    let (file, _open) = stage.file(&cx, 1);
    let folio = stage.cached(&cx, &file, 0);
    stage.kernel.lock_page(&cx, folio);
    stage.kernel.start_page_writeback(&cx, folio);
    stage.kernel.unlock_page(&cx, folio);
    let outcome = stage.migrate(&cx, &[folio], 1, Mode::SyncLight);
    assert_eq!(outcome, Outcome { moved: 0, failed: 1, is_out_of_frames: false });
    assert_eq!(stage.cached(&cx, &file, 0), folio);
    stage.kernel.end_page_writeback(&cx, folio);
    assert_eq!(stage.migrate(&cx, &[folio], 1, Mode::SyncLight), moved(1));
    stage.check();
}

/// The last user lets go of a page while it is isolated: nothing has to be moved.
#[test]
fn a_page_that_nobody_wants_any_more_is_freed() {
    let stage = Stage::new();
    let cx = stage.cx();
    let (mm, start) = stage.anon(&cx, 1);
    let folio = stage.page_at(&mm, start);
    let kernel = &stage.kernel;
    assert!(kernel.isolate_page(&cx, folio));
    kernel.count_isolated_page(&cx, folio, true);
    kernel.munmap(&cx, &mm, start, 1).unwrap();
    let (mut from, mut none) = (PageList::default(), Frames::default());
    from.push_tail(&kernel.mem.map, folio);
    let outcome = kernel.migrate_pages(&cx, &mut from, &mut none, Mode::Async, |_| {});
    assert_eq!((outcome, from.is_empty()), (moved(1), true));
    stage.check();
}

/// A program faults on a migration entry: it waits for the page lock, and the end of the migration
/// wakes it.
#[test]
fn an_entry_that_is_moving_is_cleared_by_munmap() {
    let stage = Stage::new();
    let cx = stage.cx();
    let (mm, start) = stage.anon(&cx, 2);
    let kernel = &stage.kernel;
    let folio = stage.page_at(&mm, start);
    assert!(kernel.isolate_page(&cx, folio));
    kernel.lock_page(&cx, folio);
    assert!(kernel.unmap_to_move(&cx, folio));
    let entry = mm.table_of(CPU, start).unwrap().peek(start);
    assert_eq!(entry.moving_from(), Some(folio.pfn()));
    kernel.munmap(&cx, &mm, start, 2).unwrap();
    // No task waits for it any more.
    kernel.map_moved(&cx, folio, folio);
    assert!(!kernel.mem.map.page(folio).is_mapped());
    kernel.unlock_page(&cx, folio);
    kernel.putback_page(&cx, folio);
    kernel.lru_add_drain_all(&cx);
    stage.check();
}
