//! Large folios of files that move (rules/compaction#large-folios).

extern crate std;

use alloc::sync::Arc;
use alloc::vec;
use std::vec::Vec;

use super::{Frames, Mode, Outcome};
use crate::Kernel;
use crate::audit::check_kernel;
use crate::block::{DeviceId, DeviceSpec};
use crate::config::{CompactMoves, FileFolios, Machine, ReadaheadRule, ScanCount, preset};
use crate::host::{CpuId, Cx, Lock, Solo};
use crate::kernel::KernelSpec;
use crate::page::{Folio, Order, PAGE_SIZE, PageFlags, PageList};
use crate::page_alloc::{Gfp, NoRelief, boot};
use crate::page_cache::{File, FileSpec, Filesystem, Mark, OpenFile};
use crate::units::GroupId;
use crate::vm::{Access, Backing, Mm, VmaFlags};
use crate::vmstat::{NodeStat, VmEvent};
use crate::zone::NodeId;

const CPU: CpuId = CpuId(0);
const PAGE: u64 = PAGE_SIZE as u64;
const SHARED: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE).union(VmaFlags::SHARED);

struct Stage<'h> {
    cx: Cx<'h, Solo>,
    kernel: Kernel<Solo>,
    mm: Arc<Mm<Solo>>,
    group: GroupId,
}

impl<'h> Stage<'h> {
    fn new(host: &'h Solo) -> Self {
        Self::with(host, CompactMoves::BelowTarget)
    }

    fn with(host: &'h Solo, moves: CompactMoves) -> Self {
        let machine = Machine::from_sizes("stage", &[(64 << 20, vec![0, 1])]).unwrap();
        let cx = Cx::new(host, CPU);
        let mut policy = preset("6.1").unwrap();
        (policy.folio.file, policy.folio.order1) = (FileFolios::Xfs, true);
        policy.readahead = ReadaheadRule::Restart;
        policy.folio.compact_moves = moves;
        policy.compaction.scan_count = ScanCount::Frames;
        let mem = boot(host, &machine, &policy).unwrap();
        let devices = vec![DeviceSpec::nvme(1 << 20)];
        let kernel =
            Kernel::new(&cx, mem, &KernelSpec { devices, swap: vec![], groups: 4 }).unwrap();
        let mm = kernel.create_mm(&cx).unwrap();
        let group = kernel.make_group(&cx, GroupId::ROOT).unwrap();
        kernel.join_group(&cx, Some(&mm), group).unwrap();
        Stage { cx, kernel, mm, group }
    }

    /// A file of folios of 16 pages, each written by one call.
    fn file(&self, folios: u64) -> Arc<OpenFile<Solo>> {
        let spec = FileSpec::new(Filesystem::XFS, DeviceId(0), 0, 1 << 12).with_size(0);
        let open = self.kernel.open(&self.cx, &self.kernel.create_file(&self.cx, spec));
        for at in 0..folios {
            let bytes = 16 * PAGE;
            assert_eq!(self.kernel.file_write(&self.cx, &open, at * bytes, bytes), Ok(bytes));
        }
        self.kernel.lru_add_drain_all(&self.cx);
        open
    }

    fn folios(&self, file: &File<Solo>) -> Vec<Folio> {
        let mut found = Vec::new();
        file.tree.lock(CPU).walk(0, u32::MAX, |_, pfn| {
            let folio = self.kernel.mem.map.folio(pfn);
            if found.last() != Some(&folio) {
                found.push(folio);
            }
            true
        });
        found
    }

    fn map(&self, open: &Arc<OpenFile<Solo>>, page: u32, pages: u32, flags: VmaFlags) -> u32 {
        let backing = Backing::File { open: Arc::clone(open), page };
        self.kernel.mmap(&self.cx, &self.mm, pages, 512, flags, backing).unwrap()
    }

    fn touch(&self, vpn: u32, access: Access) {
        self.kernel.touch(&self.cx, &self.mm, vpn, access).unwrap();
    }

    fn frame_at(&self, vpn: u32) -> Option<u32> {
        self.mm.table_of(CPU, vpn).unwrap().peek(vpn).pfn().map(|pfn| pfn.0)
    }

    fn isolate(&self, folios: &[Folio]) -> PageList {
        let mut from = PageList::default();
        for &folio in folios {
            assert!(self.kernel.isolate_page(&self.cx, folio));
            self.kernel.count_isolated_page(&self.cx, folio, true);
            from.push_tail(&self.kernel.mem.map, folio);
        }
        from
    }

    /// Moves folios to blocks of these orders; folios that do not move are put back.
    fn migrate(&self, folios: &[Folio], blocks: &[u8]) -> Outcome {
        let (kernel, cx) = (&self.kernel, &self.cx);
        let mut from = self.isolate(folios);
        let mut frames = Frames::default();
        for order in blocks.iter().copied().map(Order) {
            let gfp = Gfp::GFP_HIGHUSER_MOVABLE;
            let pfn = kernel.mem.alloc(cx, &NoRelief, gfp, order, NodeId(0), None).unwrap();
            frames.push(&kernel.mem.map, pfn, order);
        }
        let outcome = kernel.migrate_pages(cx, &mut from, &mut frames, Mode::SyncLight, |_| {});
        kernel.putback_isolated(cx, &mut from);
        while let Some((pfn, order)) = frames.pop(&kernel.mem.map) {
            kernel.mem.free(cx, pfn, order).unwrap();
        }
        kernel.lru_add_drain_all(cx);
        self.check();
        outcome
    }

    fn event(&self, event: VmEvent) -> u64 {
        self.kernel.mem.events.read(event)
    }

    fn node(&self, items: &[NodeStat]) -> Vec<u64> {
        let stats = &self.kernel.mem.node(NodeId(0)).stats;
        items.iter().map(|&item| stats.read_exact(item as usize)).collect()
    }

    fn check(&self) {
        check_kernel(&self.kernel, &self.cx).unwrap_or_else(|error| panic!("{error}"));
        let isolated = self.node(&[NodeStat::IsolatedAnon, NodeStat::IsolatedFile]);
        assert_eq!(isolated, [0, 0]);
    }
}

const fn moved(moved: u64) -> Outcome {
    Outcome { moved, failed: 0, is_out_of_frames: false }
}

/// Ten folios of 64 KiB: pgmigrate_success +160, and everything else as it was.
#[test]
fn a_folio_moves_as_one_with_all_that_it_is() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let open = stage.file(10);
    let file = &open.file;
    stage.kernel.fsync(&stage.cx, &open).unwrap();
    // Part of a folio is stored to, all of another; one is mapped in part, and one twice.
    stage.kernel.file_write(&stage.cx, &open, 3 * PAGE, 2 * PAGE).unwrap();
    stage.kernel.file_write(&stage.cx, &open, 16 * PAGE, 16 * PAGE).unwrap();
    let part = stage.map(&open, 35, 20, SHARED);
    let again = stage.map(&open, 32, 64, VmaFlags::READ);
    [0, 1, 19].iter().for_each(|at| stage.touch(part + at, Access::Read));
    stage.touch(part + 13, Access::Write);
    stage.touch(again + 4, Access::Read);
    stage.kernel.lru_add_drain_all(&stage.cx);
    stage.check();
    let folios = stage.folios(file);
    assert!(folios.len() == 10 && folios.iter().all(|folio| folio.order() == Order(4)));
    let items = [
        NodeStat::Dirty,
        NodeStat::Mapped,
        NodeStat::FilePages,
        NodeStat::ActiveFile,
        NodeStat::InactiveFile,
    ];
    let usage = || stage.kernel.group_usage(stage.group);
    let mapped: Vec<_> = (part..part + 20).chain(again..again + 64).collect();
    let entries = || -> Vec<_> {
        let map = &stage.kernel.mem.map;
        let at = |vpn: &u32| {
            let frame = stage.frame_at(*vpn).map(crate::page::Pfn)?;
            let folio = map.folio(frame);
            Some(map.page(folio).index() + frame.0 - folio.pfn().0)
        };
        mapped.iter().map(at).collect()
    };
    let state = |folios: &[Folio]| -> Vec<_> {
        let map = &stage.kernel.mem.map;
        let of = |folio: &Folio| {
            let page = map.page(*folio);
            let stored: Vec<_> =
                folio.frames().map(|frame| map.page(frame).is(PageFlags::STORED)).collect();
            let index = page.index();
            let marks = Mark::ALL.map(|mark| file.tree.lock(CPU).is_marked(index, mark));
            (page.flags(), index, page.mapcount(), page.refcount(), stored, marks)
        };
        folios.iter().map(of).collect()
    };
    let before = (stage.node(&items), usage(), entries(), state(&folios));
    assert_eq!(before.0[0], 16 * 3);
    assert_eq!(stage.migrate(&folios, &[4; 10]), moved(160));
    let now = stage.folios(file);
    assert!(now.iter().all(|folio| folio.order() == Order(4) && !folios.contains(folio)));
    assert_eq!((stage.node(&items), usage(), entries(), state(&now)), before);
    assert_eq!(stage.event(VmEvent::PgmigrateSuccess), 160);
    // The programs go on with it, and it is written where it belongs.
    stage.touch(part + 13, Access::Write);
    stage.kernel.fsync(&stage.cx, &open).unwrap();
    assert_eq!(stage.node(&[NodeStat::Dirty]), [0]);
    stage.kernel.munmap(&stage.cx, &stage.mm, part, 20).unwrap();
    stage.kernel.delete_file(&stage.cx, file);
    stage.check();
}

/// A block is split for a smaller folio; without a block that is large enough a clean folio becomes
/// pages, and a dirty one stays.
#[test]
fn without_a_block_of_its_size_a_folio_is_split() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let open = stage.file(4);
    stage.kernel.file_write(&stage.cx, &open, 64 * PAGE, PAGE).unwrap();
    stage.kernel.fsync(&stage.cx, &open).unwrap();
    let vpn = stage.map(&open, 0, 64, VmaFlags::READ.union(VmaFlags::SHARED));
    (vpn..vpn + 64).for_each(|vpn| stage.touch(vpn, Access::Read));
    stage.kernel.lru_add_drain_all(&stage.cx);
    let folios = stage.folios(&open.file);
    assert_eq!(stage.migrate(&folios[..2], &[5]), moved(32));
    let halves = stage.folios(&open.file);
    assert_eq!(halves[0].pfn().0 ^ halves[1].pfn().0, 16, "two halves of a block");
    // A page follows it. It is moved first, then the pieces, as far as there are frames.
    let usage = stage.kernel.group_usage(stage.group);
    let single = stage.folios(&open.file)[4];
    assert_eq!(single.order(), Order::ZERO);
    let outcome = stage.migrate(&[folios[2], single], &[3]);
    assert_eq!(outcome, Outcome { moved: 8, failed: 1, is_out_of_frames: true });
    let now = stage.folios(&open.file);
    assert_eq!(now.iter().filter(|folio| !folio.is_large()).count(), 17);
    assert_ne!(now.last(), Some(&single));
    let in_place: Vec<_> = folios[2].frames().map(Folio::page).collect();
    assert_eq!(now[2..18].iter().filter(|folio| in_place.contains(folio)).count(), 9);
    assert_eq!(stage.kernel.group_usage(stage.group), usage);
    // Nothing mapped the pieces any more.
    assert_eq!((stage.frame_at(vpn + 40), stage.frame_at(vpn + 50).is_some()), (None, true));
    stage.touch(vpn + 40, Access::Read);
    assert_eq!(stage.frame_at(vpn + 40), Some(now[10].pfn().0));
    // A dirty one stays as it is.
    stage.kernel.file_write(&stage.cx, &open, 48 * PAGE, PAGE).unwrap();
    stage.kernel.lru_add_drain_all(&stage.cx);
    let outcome = stage.migrate(&folios[3..4], &[3]);
    assert_eq!(outcome, Outcome { moved: 0, failed: 16, is_out_of_frames: true });
    assert_eq!(stage.folios(&open.file)[18], folios[3]);
    stage.kernel.delete_file(&stage.cx, &open.file);
    stage.check();
}

/// All that is below a pageblock moves to the end of its zone, folio by folio.
#[test]
fn compaction_moves_folios_of_files() {
    for (moves, some) in [(CompactMoves::None, false), (CompactMoves::BelowTarget, true)] {
        let host = Solo::default();
        let stage = Stage::with(&host, moves);
        let files: Vec<_> = (0..200).map(|_| stage.file(1)).collect();
        files.iter().for_each(|open| stage.kernel.fsync(&stage.cx, open).unwrap());
        files.iter().step_by(2).for_each(|open| stage.kernel.delete_file(&stage.cx, &open.file));
        stage.kernel.mem.drain_all(&stage.cx, None);
        stage.kernel.compact_node(&stage.cx, NodeId(0));
        stage.kernel.lru_add_drain_all(&stage.cx);
        stage.check();
        let nr_moved = stage.event(VmEvent::PgmigrateSuccess);
        assert_eq!((nr_moved % 16, nr_moved > 0), (0, some), "{nr_moved}");
        // Near the end of the run, where no block is left, they are split.
        let left = || files.iter().skip(1).step_by(2);
        let nr_split = left().filter(|open| stage.folios(&open.file).len() > 1).count();
        assert!(nr_split < 50, "{nr_split}");
    }
}

/// A folio that another task uses is tried ten times and stays where its programs find it.
#[test]
fn a_folio_in_use_elsewhere_stays() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let open = stage.file(1);
    let vpn = stage.map(&open, 0, 16, SHARED);
    stage.touch(vpn + 5, Access::Write);
    stage.kernel.lru_add_drain_all(&stage.cx);
    let folio = stage.folios(&open.file)[0];
    let frame = stage.frame_at(vpn + 5);
    stage.kernel.mem.map.page(folio).get::<Solo>(1);
    let mut from = stage.isolate(&[folio]);
    let mut frames = Frames::default();
    let gfp = Gfp::GFP_HIGHUSER_MOVABLE;
    let pfn = stage.kernel.mem.alloc(&stage.cx, &NoRelief, gfp, Order(4), NodeId(0), None);
    frames.push(&stage.kernel.mem.map, pfn.unwrap(), Order(4));
    let outcome = stage.kernel.migrate_pages(&stage.cx, &mut from, &mut frames, Mode::Sync, |_| {});
    assert_eq!(outcome, Outcome { moved: 0, failed: 16, is_out_of_frames: false });
    assert_eq!((frames.pages(), stage.event(VmEvent::PgmigrateFail)), (16, 16));
    stage.kernel.putback_isolated(&stage.cx, &mut from);
    stage.kernel.put_page(&stage.cx, folio);
    stage.kernel.mem.free(&stage.cx, pfn.unwrap(), Order(4)).unwrap();
    assert_eq!((stage.folios(&open.file)[0], stage.frame_at(vpn + 5)), (folio, frame));
    stage.check();
}

/// Entries of a folio on the move may be cleared meanwhile; the others come back.
#[test]
fn an_entry_of_a_folio_that_is_moving_is_cleared_by_munmap() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let open = stage.file(1);
    let vpn = stage.map(&open, 0, 16, SHARED);
    (vpn..vpn + 16).for_each(|vpn| stage.touch(vpn, Access::Write));
    let kernel = &stage.kernel;
    let folio = stage.folios(&open.file)[0];
    kernel.lru_add_drain_all(&stage.cx);
    let mut from = stage.isolate(&[folio]);
    kernel.lock_page(&stage.cx, folio);
    assert!(kernel.unmap_to_move(&stage.cx, folio));
    assert_eq!(stage.node(&[NodeStat::Mapped]), [0]);
    let entry = stage.mm.table_of(CPU, vpn + 7).unwrap().peek(vpn + 7);
    assert_eq!(entry.moving_from(), Some(folio.pfn().add(7)));
    kernel.munmap(&stage.cx, &stage.mm, vpn + 4, 8).unwrap();
    kernel.map_moved(&stage.cx, folio, folio);
    assert_eq!(stage.node(&[NodeStat::Mapped]), [8]);
    kernel.unlock_page(&stage.cx, folio);
    kernel.putback_isolated(&stage.cx, &mut from);
    kernel.lru_add_drain_all(&stage.cx);
    stage.check();
}

/// A locked VMA that maps all of a folio has it locked where it goes.
#[test]
fn a_locked_folio_stays_locked() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let open = stage.file(1);
    let vpn = stage.map(&open, 0, 16, SHARED);
    (vpn..vpn + 16).for_each(|vpn| stage.touch(vpn, Access::Read));
    stage.kernel.mlock(&stage.cx, &stage.mm, vpn, 16).unwrap();
    stage.kernel.lru_add_drain_all(&stage.cx);
    let folio = stage.folios(&open.file)[0];
    let is_locked = |folio| stage.kernel.mem.map.page(folio).is(PageFlags::MLOCKED);
    assert!(is_locked(folio));
    assert_eq!(stage.migrate(&[folio], &[4]), moved(16));
    let now = stage.folios(&open.file)[0];
    assert_eq!((now != folio, is_locked(now)), (true, true));
    stage.kernel.munlock(&stage.cx, &stage.mm, vpn, 16).unwrap();
    stage.kernel.lru_add_drain_all(&stage.cx);
    assert!(!is_locked(now));
    stage.check();
}
