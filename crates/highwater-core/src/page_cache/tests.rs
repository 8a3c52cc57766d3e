//! Files as a program sees them, on a device that the test completes.

use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Entry, File, FileSpec, Filesystem, OpenFile};
use crate::Kernel;
use crate::block::DeviceId;
use crate::block::manual::{DISK, Manual, kernel, kernel_of};
use crate::config::ReadaheadRule;
use crate::host::{Cost, CpuId, Cx, IoError, Lock, TaskFlags};
use crate::kernel::Error;
use crate::page::{Folio, Order, PAGE_SIZE, PageFlags, PageMapping};
use crate::sync::atomic::Ordering::Relaxed;
use crate::syscall::FileAdvice;
use crate::units::GroupId;
use crate::vmstat::{NodeStat, VmEvent};
use crate::zone::NodeId;

const PAGE: u64 = PAGE_SIZE as u64;
const ACTIVE: PageFlags = PageFlags::ACTIVE;
const REFERENCED: PageFlags = PageFlags::REFERENCED;

struct Stage {
    host: Rc<Manual>,
    kernel: Rc<Kernel<Manual>>,
}

impl Stage {
    fn new() -> Self {
        let host = Rc::new(Manual::default());
        let kernel = kernel(&host, &[DISK]);
        Stage { host, kernel }
    }

    fn cx(&self) -> Cx<'_, Manual> {
        Cx::new(&*self.host, CpuId(0))
    }

    fn file(&self, size: u64) -> (Arc<File<Manual>>, Arc<OpenFile<Manual>>) {
        let spec = FileSpec::new(Filesystem::EXT4, DeviceId(0), 1000, 100_000).with_size(size);
        let file = self.kernel.create_file(&self.cx(), spec);
        let open = self.kernel.open(&self.cx(), &file);
        (file, open)
    }

    fn read(&self, open: &OpenFile<Manual>, first: u64, pages: u64) {
        let read = self.kernel.file_read(&self.cx(), open, first * PAGE, pages * PAGE);
        assert_eq!(read, Ok(pages * PAGE));
    }

    fn page(&self, file: &File<Manual>, index: u32) -> Option<Folio> {
        file.tree.lock(CpuId(0)).page(index).map(Folio::page)
    }

    fn flags(&self, file: &File<Manual>, index: u32) -> PageFlags {
        let folio = self.page(file, index).expect("a cached page");
        self.kernel.mem.map.page(folio).flags()
    }

    fn node(&self, item: NodeStat) -> u64 {
        self.kernel.mem.node(NodeId(0)).stats.read_exact(item as usize)
    }

    fn event(&self, event: VmEvent) -> u64 {
        self.kernel.mem.events.read(event)
    }

    /// Evicts a page as reclaim does.
    fn evict(&self, file: &File<Manual>, index: u32) {
        let cx = self.cx();
        self.kernel.lru_add_drain_all(&cx);
        let folio = self.kernel.find_lock_page(&cx, file, index).expect("a cached page");
        let page = self.kernel.mem.map.page(folio);
        assert!(self.kernel.remove_mapping_file(&cx, file, (folio, page), GroupId::ROOT));
        assert_eq!((page.refcount(), page.mapping()), (0, PageMapping::None));
        page.unfreeze(1);
        self.kernel.unlock_page(&cx, folio);
        self.kernel.put_page(&cx, folio);
    }

    fn free_pages(&self) -> u64 {
        self.kernel.mem.drain_all(&self.cx(), None);
        self.kernel.mem.nr_free_pages()
    }
}

#[test]
fn a_pass_over_a_file_reads_each_page_once() {
    let stage = Stage::new();
    let (file, open) = stage.file(300 * PAGE);
    let before = stage.free_pages();
    for call in 0..19 {
        stage.read(&open, call * 16, 16.min(300 - call * 16));
    }
    assert_eq!(stage.event(VmEvent::Pgpgin), 300 * 4, "KiB");
    assert_eq!((file.nr_pages(), stage.node(NodeStat::FilePages)), (300, 300));
    // Five nodes and the group's, of 14 that an order-1 block holds.
    assert_eq!(stage.node(NodeStat::SlabReclaimable), 2);
    assert_eq!(before - stage.free_pages(), 302);
    assert_eq!(stage.event(VmEvent::Pgactivate), 0);
    for index in 0..300 {
        assert!(stage.flags(&file, index).contains(REFERENCED | PageFlags::UPTODATE));
        assert!(!stage.flags(&file, index).contains(ACTIVE | PageFlags::LOCKED));
    }
    stage.kernel.lru_add_drain_all(&stage.cx());
    stage.read(&open, 0, 300);
    stage.kernel.lru_add_drain_all(&stage.cx());
    assert_eq!((stage.event(VmEvent::Pgpgin), stage.event(VmEvent::Pgactivate)), (1200, 300));
    assert_eq!(stage.node(NodeStat::ActiveFile), 300);
}

/// Reads of 16 pages as requests (rules/readahead#submit): three windows, each one run.
#[test]
fn windows_are_single_requests() {
    let stage = Stage::new();
    let (_, open) = stage.file(4000 * PAGE);
    stage.read(&open, 0, 16);
    assert_eq!(stage.host.sizes(), [], "the first window was waited for");
    stage.read(&open, 16, 1);
    assert_eq!(stage.host.sizes(), [(1032, 32)], "the mark on page 16 was met");
    stage.read(&open, 17, 16);
    assert_eq!(stage.host.sizes(), [(1064, 32)], "page 32 was waited for and has the next mark");
}

/// From 6.9 on a task looks 31 pages up at a time (rules/lru#lookups).
#[test]
fn lookups_take_as_many_pages_as_batches_hold() {
    for (lru_batch, lookups) in [(14, 7), (15, 7), (31, 4)] {
        let host = Rc::new(Manual::default());
        let kernel = kernel_of(&host, &[DISK], Vec::new(), |policy| {
            policy.reclaim.lru_batch = lru_batch;
        });
        let stage = Stage { host, kernel };
        let (_, open) = stage.file(100 * PAGE);
        stage.read(&open, 0, 100);
        let charged = || stage.host.solo.charged(Cost::PageCacheLookup);
        let before = charged();
        stage.read(&open, 0, 100);
        assert_eq!(charged() - before, lookups, "{lru_batch}");
    }
}

/// In 7.2 a window that reaches the end of the file has no mark (rules/readahead#restart).
#[test]
fn the_last_window_may_go_without_a_mark() {
    for (rule, is_marked) in [
        (ReadaheadRule::Continue, true),
        (ReadaheadRule::Restart, true),
        (ReadaheadRule::RestartAligned, false),
    ] {
        let host = Rc::new(Manual::default());
        let kernel = kernel_of(&host, &[DISK], Vec::new(), |policy| policy.readahead = rule);
        let stage = Stage { host, kernel };
        let (file, open) = stage.file(40 * PAGE);
        stage.read(&open, 0, 16);
        let is_marked_at = |index| stage.flags(&file, index).contains(PageFlags::READAHEAD);
        assert!(is_marked_at(16), "{rule:?}: pages 0 to 31 do not reach the end");
        stage.read(&open, 16, 16);
        assert_eq!((file.nr_pages(), is_marked_at(32)), (40, is_marked), "{rule:?}");
    }
}

/// Two uses make a page active (rules/unmap#mark-accessed).
#[test]
fn reads_walk_through_the_states() {
    let stage = Stage::new();
    let (file, open) = stage.file(PAGE);
    let states = || {
        (0..4).map(|_| {
            stage.read(&open, 0, 1);
            // Reading at another place makes the next read of the page one that counts.
            open.readahead.lock(CpuId(0)).prev_pos = None;
            stage.flags(&file, 0) & (ACTIVE | REFERENCED)
        })
    };
    let expected = [REFERENCED, ACTIVE, ACTIVE | REFERENCED, ACTIVE | REFERENCED];
    assert!(states().eq(expected), "in this CPU's add batch");
    assert_eq!(stage.event(VmEvent::Pgactivate), 0);
    stage.kernel.truncate(&stage.cx(), &file, 0);
    file.size.store(PAGE, Relaxed);
    stage.read(&open, 0, 1);
    open.readahead.lock(CpuId(0)).prev_pos = None;
    stage.kernel.lru_add_drain(&stage.cx());
    stage.read(&open, 0, 1);
    stage.kernel.lru_add_drain(&stage.cx());
    assert_eq!(stage.flags(&file, 0) & (ACTIVE | REFERENCED), ACTIVE);
    assert_eq!(stage.event(VmEvent::Pgactivate), 1, "on the list");
}

#[test]
fn going_on_in_a_page_does_not_use_it_again() {
    let stage = Stage::new();
    let (file, open) = stage.file(2 * PAGE);
    for part in 0..16 {
        let read = stage.kernel.file_read(&stage.cx(), &open, part * 512, 512);
        assert_eq!(read, Ok(512));
    }
    let states = [0, 1].map(|index| stage.flags(&file, index) & (ACTIVE | REFERENCED));
    assert_eq!(states, [REFERENCED, REFERENCED]);
}

#[test]
fn the_end_of_a_file_is_where_its_size_says() {
    let stage = Stage::new();
    let (file, open) = stage.file(2 * PAGE + 100);
    let read = |pos, len| stage.kernel.file_read(&stage.cx(), &open, pos, len);
    assert_eq!(read(0, 0), Ok(0));
    assert_eq!(read(PAGE, 100 * PAGE), Ok(PAGE + 100));
    assert_eq!(read(2 * PAGE + 100, 1), Ok(0));
    assert_eq!(read(u64::MAX, u64::MAX), Ok(0));
    assert_eq!(file.nr_pages(), 2, "pages 1 and 2");
}

#[test]
fn a_file_is_no_larger_than_its_room() {
    let stage = Stage::new();
    let (file, open) = stage.file(u64::MAX);
    assert_eq!(file.size(), 100_000 * PAGE);
    let read = |pos, len| stage.kernel.file_read(&stage.cx(), &open, pos, len);
    assert_eq!(read(100_000 * PAGE - 10, PAGE), Ok(10));
    assert_eq!((read(100_000 * PAGE, PAGE), read(u64::MAX, u64::MAX)), (Ok(0), Ok(0)));
}

#[test]
fn a_failed_page_is_read_again_and_then_reported() {
    let stage = Stage::new();
    let cx = stage.cx();
    let (file, open) = stage.file(64 * PAGE);
    stage.kernel.readahead_sync(&cx, &open, 0, 16);
    stage.host.end(0, Err(IoError::Device));
    assert_eq!(file.nr_pages(), 32);
    assert!(stage.flags(&file, 3).contains(PageFlags::ERROR));
    // The device works again: nothing is lost.
    assert_eq!(stage.kernel.file_read(&cx, &open, 3 * PAGE, PAGE), Ok(PAGE));
    assert!(!stage.flags(&file, 3).contains(PageFlags::ERROR));

    stage.host.fail.set(true);
    let read = stage.kernel.file_read(&cx, &open, 3 * PAGE, 4 * PAGE);
    assert_eq!(read, Ok(PAGE), "what can be read is read");
    let read = stage.kernel.file_read(&cx, &open, 4 * PAGE, 4 * PAGE);
    assert_eq!(read, Err(Error::Io(IoError::Device)));
    let read = stage.kernel.file_read(&cx, &open, 50 * PAGE, PAGE);
    assert_eq!(read, Err(Error::Io(IoError::Device)), "a page that was not cached");
    stage.host.fail.set(false);
    stage.read(&open, 0, 64);
}

#[test]
fn a_dying_reader_stops() {
    let stage = Stage::new();
    let cx = stage.cx();
    let (file, open) = stage.file(64 * PAGE);
    cx.set_flags(TaskFlags::FATAL_SIGNAL);
    assert_eq!(stage.kernel.file_read(&cx, &open, 0, PAGE), Err(Error::Killed));
    assert_eq!(file.nr_pages(), 0);
}

#[test]
fn dont_need_drops_what_is_clean_and_unused() {
    let stage = Stage::new();
    let cx = stage.cx();
    let (file, open) = stage.file(100 * PAGE);
    stage.read(&open, 0, 100);
    let held = stage.kernel.find_get_page(&cx, &file, 40).expect("a cached page");
    stage.kernel.fadvise(&cx, &open, 10 * PAGE, 50 * PAGE, FileAdvice::DontNeed);
    assert_eq!(file.nr_pages(), 51);
    let cached = |index| stage.page(&file, index).is_some();
    assert!(cached(9) && !cached(10) && cached(40) && !cached(59) && cached(60));
    stage.kernel.lru_add_drain_all(&cx);
    assert!(!stage.flags(&file, 40).intersects(REFERENCED | ACTIVE), "soon met by reclaim");
    stage.kernel.put_page(&cx, held);
    stage.kernel.fadvise(&cx, &open, 0, 0, FileAdvice::DontNeed);
    assert_eq!((file.nr_pages(), stage.node(NodeStat::FilePages)), (0, 0));
    assert_eq!(stage.node(NodeStat::InactiveFile) + stage.node(NodeStat::ActiveFile), 0);
}

#[test]
fn advice_changes_windows() {
    let stage = Stage::new();
    let cx = stage.cx();
    let (file, open) = stage.file(1000 * PAGE);
    stage.kernel.fadvise(&cx, &open, 0, 0, FileAdvice::Random);
    stage.read(&open, 100, 3);
    assert_eq!(file.nr_pages(), 3);
    stage.kernel.fadvise(&cx, &open, 200 * PAGE, 700 * PAGE, FileAdvice::WillNeed);
    assert_eq!((file.nr_pages(), stage.host.sizes()), (323, [(1200, 320)].into()));
    stage.kernel.fadvise(&cx, &open, 0, 0, FileAdvice::Sequential);
    stage.read(&open, 0, 1);
    assert_eq!(open.readahead.lock(CpuId(0)).ra_pages, 64);
    assert_eq!(file.nr_pages(), 327);
}

#[test]
fn truncation_drops_everything_behind() {
    let stage = Stage::new();
    let cx = stage.cx();
    let before = stage.free_pages();
    let (file, open) = stage.file(0);
    assert_eq!(stage.kernel.file_write(&cx, &open, 0, 100 * PAGE), Ok(100 * PAGE));
    assert_eq!(stage.node(NodeStat::Dirty), 100);
    stage.kernel.truncate(&cx, &file, 30);
    assert_eq!((file.nr_pages(), file.size()), (30, 30 * PAGE));
    assert_eq!((stage.node(NodeStat::Dirty), stage.node(NodeStat::FilePages)), (30, 30));
    stage.kernel.delete_file(&cx, &file);
    assert_eq!(stage.node(NodeStat::Dirty) + stage.node(NodeStat::FilePages), 0);
    assert!(stage.kernel.file(&cx, file.id).is_none());
    assert_eq!(stage.kernel.file_read(&cx, &open, 0, PAGE), Ok(0));
    let refused = stage.kernel.find_or_create_page(&cx, &file, 0, super::FILE_GFP);
    assert_eq!(refused, Err(Error::Invalid));
    stage.kernel.lru_add_drain_all(&cx);
    assert_eq!(before - stage.free_pages(), stage.node(NodeStat::SlabReclaimable));
}

#[test]
fn truncation_waits_for_writeback() {
    let stage = Stage::new();
    let cx = stage.cx();
    let (file, open) = stage.file(0);
    assert_eq!(stage.kernel.file_write(&cx, &open, 0, 20 * PAGE), Ok(20 * PAGE));
    let reason = crate::writeback::WriteReason::Foreground;
    stage.kernel.write_file_pages(&cx, &file, (0, 20), 20, reason);
    assert_eq!((stage.node(NodeStat::Writeback), stage.host.nr_held()), (20, 1));
    stage.kernel.drop_caches(&cx, 1);
    assert_eq!(file.nr_pages(), 20, "not dropped while it is written");
    stage.kernel.truncate(&cx, &file, 0);
    assert_eq!((file.nr_pages(), stage.node(NodeStat::Writeback)), (0, 0));
    assert!(stage.host.naps.get() > 0);
}

#[test]
fn an_evicted_page_leaves_a_shadow_and_comes_back_as_a_refault() {
    let stage = Stage::new();
    let cx = stage.cx();
    let (file, open) = stage.file(64 * PAGE);
    stage.read(&open, 0, 64);
    stage.evict(&file, 5);
    assert!(matches!(file.tree.lock(CpuId(0)).get(5), Entry::Shadow(_)));
    assert_eq!((file.nr_pages(), stage.node(NodeStat::FilePages)), (63, 63));
    stage.read(&open, 5, 1);
    assert_eq!(stage.node(NodeStat::WorkingsetRefaultFile), 1);
    // Distance 1, and no page is active: no activation.
    assert_eq!(stage.node(NodeStat::WorkingsetActivateFile), 0);
    stage.evict(&file, 6);
    let written = stage.kernel.file_write(&cx, &open, 6 * PAGE, PAGE);
    assert_eq!(written, Ok(PAGE));
    assert_eq!(stage.node(NodeStat::WorkingsetRefaultFile), 1, "a write is no refault");
}

#[test]
fn nodes_without_pages_are_counted_and_dropped_oldest_first() {
    let stage = Stage::new();
    let cx = stage.cx();
    let (file, open) = stage.file(256 * PAGE);
    stage.read(&open, 0, 256);
    let nodes = || stage.node(NodeStat::WorkingsetNodes);
    (64..128).chain(0..63).for_each(|index| stage.evict(&file, index));
    assert_eq!(nodes(), 1);
    stage.evict(&file, 63);
    assert_eq!((nodes(), stage.kernel.shadow_nodes(&cx, NodeId(0))), (2, 2));
    stage.read(&open, 10, 1);
    assert_eq!(nodes(), 1, "a page came back");
    stage.evict(&file, 10);
    (128..192).for_each(|index| stage.evict(&file, index));
    assert_eq!(nodes(), 3);
    assert_eq!(stage.kernel.drop_shadow_nodes(&cx, NodeId(0), 2), (2, 0));
    assert_eq!((nodes(), stage.node(NodeStat::WorkingsetNodereclaim)), (1, 2));
    let shadow = |index| matches!(file.tree.lock(CpuId(0)).get(index), Entry::Shadow(_));
    assert!(!shadow(64) && !shadow(0) && shadow(128));
    stage.kernel.drop_caches(&cx, 1);
    assert_eq!((nodes(), file.nr_pages()), (0, 0), "dropping caches drops shadows");
    assert_eq!(stage.kernel.slab(crate::slab::CacheKind::TreeNode).lock(CpuId(0)).in_use(), 0);
    assert_eq!(stage.event(VmEvent::DropPagecache), 1);
}

#[test]
fn faults_may_map_what_is_ready() {
    let stage = Stage::new();
    let cx = stage.cx();
    let (file, open) = stage.file(40 * PAGE);
    stage.read(&open, 0, 40);
    for (index, flag) in [(3, PageFlags::LOCKED), (5, PageFlags::READAHEAD)] {
        let folio = stage.page(&file, index).expect("a cached page");
        stage.kernel.mem.map.page(folio).flag_set::<Manual>(flag);
    }
    let stale = stage.page(&file, 6).expect("a cached page");
    stage.kernel.mem.map.page(stale).flag_clear::<Manual>(PageFlags::UPTODATE);
    file.size.store(9 * PAGE, Relaxed);
    let mut seen = Vec::new();
    let references = |index| {
        let folio = stage.page(&file, index).expect("a cached page");
        stage.kernel.mem.map.page(folio).refcount()
    };
    let before = [references(2), references(4)];
    stage.kernel.map_pages(&cx, &file, 2, u32::MAX, |index, _| {
        seen.push(index);
        u32::from(index == 4)
    });
    assert_eq!(seen, [2, 4, 7, 8]);
    assert_eq!([references(2), references(4)], [before[0], before[1] + 1]);
}

#[test]
fn without_memory_a_read_fails_and_keeps_nothing() {
    let stage = Stage::new();
    let cx = stage.cx();
    let (file, open) = stage.file(1000 * PAGE);
    let everything = || {
        let gfp = crate::page_alloc::Gfp::GFP_NOWAIT | crate::page_alloc::Gfp::MEMALLOC;
        let relief = crate::page_alloc::NoRelief;
        stage.kernel.mem.alloc_folio(&cx, &relief, gfp, Order::ZERO, NodeId(0))
    };
    let taken: Vec<_> = core::iter::from_fn(everything).collect();
    assert!(taken.len() > 1000);
    // A task that reclaims must not reclaim: its requests fail at once.
    cx.set_flags(TaskFlags::MEMALLOC);
    assert_eq!(stage.kernel.file_read(&cx, &open, 0, PAGE), Err(Error::NoMemory));
    assert_eq!((file.nr_pages(), stage.host.nr_held()), (0, 0));
    let give = |pages: &[Folio]| {
        pages
            .iter()
            .for_each(|&folio| stage.kernel.mem.free(&cx, folio.pfn(), Order::ZERO).unwrap());
        stage.kernel.mem.drain_all(&cx, None);
    };
    give(&taken[..1]);
    assert_eq!(stage.kernel.file_read(&cx, &open, 0, PAGE), Err(Error::NoMemory), "no node");
    assert_eq!((file.nr_pages(), stage.node(NodeStat::FilePages)), (0, 0));
    give(&taken[1..20]);
    assert_eq!(stage.kernel.file_read(&cx, &open, 0, PAGE), Ok(PAGE));
}
