//! Writing and writing back against a device that the test completes by hand.

use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use super::WriteReason;
use crate::Kernel;
use crate::block::manual::{DISK, Manual, kernel, kernel_of};
use crate::block::{DeviceId, DeviceSpec};
use crate::config::WbThreshFloor;
use crate::host::{CpuId, Cx, HZ, IoError, Lock, NS_PER_JIFFY};
use crate::kernel::Error;
use crate::page::{Folio, PAGE_SIZE, PageFlags};
use crate::page_cache::{FileSpec, Filesystem, Mark, OpenFile};
use crate::vmstat::{NodeStat, VmEvent, ZoneStat};

const PAGE: u64 = PAGE_SIZE as u64;
const ALL: (u32, u32) = (0, u32::MAX);

struct Test {
    host: Rc<Manual>,
    kernel: Rc<Kernel<Manual>>,
}

impl Test {
    fn new(device: DeviceSpec) -> Test {
        let host = Rc::new(Manual::default());
        let kernel = kernel(&host, &[device]);
        Test { host, kernel }
    }

    /// A task of this machine.
    fn task(&self) -> Cx<'_, Manual> {
        Cx::new(&self.host, CpuId(0))
    }

    /// A file of `pages` pages that are all on the disk and not cached.
    fn file(&self, cx: &Cx<'_, Manual>, pages: u32) -> Arc<OpenFile<Manual>> {
        self.file_at(cx, 1000, pages)
    }

    fn file_at(&self, cx: &Cx<'_, Manual>, start: u64, pages: u32) -> Arc<OpenFile<Manual>> {
        let file = self.kernel.create_file(
            cx,
            FileSpec::new(Filesystem::EXT4, DeviceId(0), start, pages + 100)
                .with_size(u64::from(pages) * PAGE),
        );
        self.kernel.open(cx, &file)
    }

    fn write_page(&self, cx: &Cx<'_, Manual>, open: &OpenFile<Manual>, index: u32) {
        let written = self.kernel.file_write(cx, open, u64::from(index) * PAGE, PAGE);
        assert_eq!(written, Ok(PAGE));
    }

    fn page(&self, cx: &Cx<'_, Manual>, open: &OpenFile<Manual>, index: u32) -> Folio {
        let folio = self.kernel.find_get_page(cx, &open.file, index).unwrap();
        self.kernel.put_page(cx, folio);
        folio
    }

    fn flags(&self, cx: &Cx<'_, Manual>, open: &OpenFile<Manual>, index: u32) -> PageFlags {
        self.kernel.mem.map.page(self.page(cx, open, index)).flags()
    }

    fn node(&self, item: NodeStat) -> u64 {
        self.kernel.mem.nodes().iter().map(|n| n.stats.read_exact(item as usize)).sum()
    }

    /// nr_dirty, nr_writeback, nr_dirtied, nr_written.
    fn counts(&self) -> [u64; 4] {
        use NodeStat::{Dirtied, Dirty, Writeback, Written};
        let counts = [Dirty, Writeback, Dirtied, Written].map(|item| self.node(item));
        // The device and the zones count the same pages.
        let device = &self.kernel.writeback[0];
        let reclaimable = device.nr_reclaimable.load(Relaxed);
        assert_eq!([reclaimable, device.nr_writeback.load(Relaxed)], counts[..2]);
        let (dirtied, written) = (&device.nr_dirtied, &device.nr_written);
        assert_eq!([dirtied.load(Relaxed), written.load(Relaxed)], counts[2..]);
        let pending = |item: ZoneStat| -> u64 {
            self.kernel.mem.populated_zones().map(|z| z.stats.read_exact(item as usize)).sum()
        };
        assert_eq!(pending(ZoneStat::ZoneWritePending), counts[0] + counts[1]);
        counts
    }

    fn end_all(&self) {
        while self.host.nr_held() > 0 {
            self.host.end(0, Ok(()));
        }
    }

    fn events(&self, event: VmEvent) -> u64 {
        self.kernel.mem.events.read(event)
    }
}

#[test]
fn a_page_is_counted_once_until_it_is_written() {
    let test = Test::new(DISK);
    let cx = test.task();
    let open = test.file(&cx, 100);
    for index in [3, 4, 5, 4] {
        test.write_page(&cx, &open, index);
    }
    assert_eq!(test.counts(), [3, 0, 3, 0]);
    assert!(open.file.tree.lock(cx.cpu()).is_marked(4, Mark::Dirty));
    assert_eq!(test.flags(&cx, &open, 4) & PageFlags::REFERENCED, PageFlags::empty());

    let reason = WriteReason::Background;
    assert_eq!(test.kernel.write_file_pages(&cx, &open.file, ALL, u64::MAX, reason), 3);
    assert_eq!(test.host.sizes(), [(1003, 3)], "one bio");
    assert_eq!(test.counts(), [0, 3, 3, 0]);
    let marks = |mark| open.file.tree.lock(cx.cpu()).is_marked(4, mark);
    assert!(marks(Mark::Writeback) && !marks(Mark::Dirty));

    test.write_page(&cx, &open, 4);
    assert_eq!(test.counts(), [1, 3, 4, 0], "dirty again while it is written");
    assert_eq!(test.kernel.write_file_pages(&cx, &open.file, ALL, u64::MAX, reason), 0);
    assert!(marks(Mark::Dirty), "left alone, found again later");

    test.end_all();
    assert_eq!(test.counts(), [1, 0, 4, 3]);
    assert!(!marks(Mark::Writeback));
    assert_eq!(test.events(VmEvent::Pgpgout), 12);
}

#[test]
fn fsync_writes_again_what_became_dirty_under_writeback() {
    let test = Test::new(DISK);
    let cx = test.task();
    let open = test.file(&cx, 100);
    test.write_page(&cx, &open, 1);
    test.kernel.write_file_pages(&cx, &open.file, ALL, u64::MAX, WriteReason::Background);
    test.write_page(&cx, &open, 1);
    assert_eq!(test.kernel.fsync(&cx, &open), Ok(()));
    assert_eq!(test.host.naps.get(), 2, "waited for the first and for the second writeback");
    assert_eq!(test.counts(), [0, 0, 2, 2]);
    assert!(!open.file.tree.lock(cx.cpu()).any_marked(Mark::ToWrite));
}

#[test]
fn bios_and_requests_follow_the_disk() {
    let test = Test::new(DISK);
    let cx = test.task();
    let open = test.file(&cx, 1000);
    (0..300).chain([400]).for_each(|index| test.write_page(&cx, &open, index));
    test.kernel.write_file_pages(&cx, &open.file, ALL, u64::MAX, WriteReason::Background);
    assert_eq!(test.host.sizes(), [(1000, 300), (1400, 1)]);
    let bios: alloc::vec::Vec<_> =
        test.host.held.borrow()[0].bios.iter().map(|bio| bio.pages.len()).collect();
    assert_eq!(bios, [256, 44]);
    test.end_all();
}

#[test]
fn an_error_is_told_once_and_the_page_is_clean() {
    let test = Test::new(DISK);
    let cx = test.task();
    let open = test.file(&cx, 10);
    test.write_page(&cx, &open, 0);
    test.kernel.write_file_pages(&cx, &open.file, ALL, u64::MAX, WriteReason::Background);
    test.host.end(0, Err(IoError::Device));
    assert!(test.flags(&cx, &open, 0).contains(PageFlags::ERROR | PageFlags::UPTODATE));
    assert_eq!(test.counts(), [0, 0, 1, 1]);
    assert_eq!(test.kernel.fsync(&cx, &open), Err(Error::Io(IoError::Device)));
    assert_eq!(test.kernel.fsync(&cx, &open), Ok(()));
}

#[test]
fn a_partial_write_reads_what_the_file_has() {
    let test = Test::new(DISK);
    let cx = test.task();
    let open = test.file(&cx, 2);
    let write = |pos, len| test.kernel.file_write(&cx, &open, pos, len);
    assert_eq!(write(100, 50), Ok(50));
    assert_eq!((test.events(VmEvent::Pgpgin), test.host.naps.get()), (4, 1), "slept for it");
    assert_eq!(write(300, 50), Ok(50));
    assert_eq!(write(2 * PAGE + 5, 50), Ok(50));
    assert_eq!(test.events(VmEvent::Pgpgin), 4, "cached, or beyond the end");
    assert_eq!(open.file.size(), 2 * PAGE + 55);
    assert_eq!(write(PAGE - 1, 2), Ok(2), "two pages");
    assert_eq!(test.counts()[2], 3);
}

#[test]
fn a_file_does_not_outgrow_its_room() {
    let test = Test::new(DISK);
    let cx = test.task();
    let open = test.file(&cx, 0);
    let write = |pos, len| test.kernel.file_write(&cx, &open, pos, len);
    assert_eq!(write(98 * PAGE, 4 * PAGE), Ok(2 * PAGE), "short");
    assert_eq!(write(100 * PAGE, 1), Err(Error::Io(IoError::NoSpace)));
    assert_eq!(open.file.size(), 100 * PAGE);
}

#[test]
fn stable_pages_wait_for_writeback() {
    let test = Test::new(DeviceSpec { stable_writes: true, ..DISK });
    let cx = test.task();
    let open = test.file(&cx, 10);
    test.write_page(&cx, &open, 0);
    test.kernel.write_file_pages(&cx, &open.file, ALL, u64::MAX, WriteReason::Background);
    test.write_page(&cx, &open, 0);
    assert_eq!((test.host.naps.get(), test.counts()), (1, [1, 0, 2, 1]));
}

#[test]
fn a_dirty_file_is_old_after_thirty_seconds() {
    let test = Test::new(DISK);
    let cx = test.task();
    let wb = &test.kernel.writeback[0];
    let at = |jiffies: u64| test.host.solo.set_now_ns(jiffies * NS_PER_JIFFY);
    // Busy lately: its share of the background limit is more than these few pages.
    wb.written_lately.add(1000, 1 << 36);
    test.kernel.dirty.written.add(1000, 1 << 36);
    let dirty = |start| {
        let open = test.file_at(&cx, start, 10);
        test.write_page(&cx, &open, 0);
        open
    };
    at(1000);
    let _old = dirty(1000);
    at(1000 + HZ);
    let _new = dirty(2000);
    let run = |jiffies| {
        at(jiffies);
        test.kernel.flush_device(&cx, wb);
        let sizes = test.host.sizes();
        test.end_all();
        sizes
    };
    assert_eq!(run(1000 + 5 * HZ), [], "due, nothing is old");
    assert_eq!(run(1000 + 30 * HZ), [(1000, 1)], "due again, one is");
    assert_eq!(run(1000 + 32 * HZ), [], "not due");
    assert_eq!(run(1000 + 35 * HZ), [(2000, 1)]);
    assert_eq!(run(1000 + 99 * HZ), []);
    assert!(wb.lists.lock(cx.cpu()).is_empty());
}

#[test]
fn a_device_without_a_share_is_over_the_background_limit() {
    let test = Test::new(DISK);
    let cx = test.task();
    let open = test.file(&cx, 10);
    test.write_page(&cx, &open, 0);
    let wb = &test.kernel.writeback[0];
    test.kernel.flush_device(&cx, wb);
    assert_eq!(test.host.nr_held(), 0, "not before its five seconds");
    test.host.solo.set_now_ns(5 * HZ * NS_PER_JIFFY);
    test.kernel.flush_device(&cx, wb);
    assert_eq!(test.host.sizes(), [(1000, 1)]);
    test.end_all();
}

/// In 7.2 it is not, as its share has a floor (rules/dirty-throttling#share-floor).
#[test]
fn a_device_may_have_a_least_share() {
    let host = Rc::new(Manual::default());
    let kernel = kernel_of(&host, &[DISK], Vec::new(), |policy| {
        policy.writeback.wb_thresh_floor = WbThreshFloor::Share;
    });
    let test = Test { host, kernel };
    let cx = test.task();
    let open = test.file(&cx, 10);
    test.write_page(&cx, &open, 0);
    let wb = &test.kernel.writeback[0];
    let share = test.kernel.share_of(&cx, wb, 1000, 200);
    assert_eq!(share, 100);
    for (seconds, written) in [(5, 0), (29, 0), (35, 1)] {
        test.host.solo.set_now_ns(seconds * HZ * NS_PER_JIFFY);
        test.kernel.flush_device(&cx, wb);
        assert_eq!(test.host.nr_held(), written, "{seconds} s: only its age counts");
    }
    test.end_all();
}

#[test]
fn waking_the_flushers_writes_everything_once() {
    let test = Test::new(DISK);
    let cx = test.task();
    let open = test.file(&cx, 100);
    let wb = &test.kernel.writeback[0];
    test.kernel.wake_flushers(&cx, WriteReason::Vmscan);
    assert!(!wb.start_all.load(Relaxed), "nothing is dirty");
    (0..40).for_each(|index| test.write_page(&cx, &open, index));
    test.kernel.wake_flushers(&cx, WriteReason::Vmscan);
    assert!(wb.start_all.load(Relaxed));
    test.kernel.flush_device(&cx, wb);
    assert_eq!(test.counts(), [0, 40, 40, 0]);
    assert!(!wb.start_all.load(Relaxed));
    test.end_all();
}

#[test]
fn a_deleted_file_is_not_waited_for() {
    let test = Test::new(DISK);
    let cx = test.task();
    let open = test.file(&cx, 10);
    (0..5).for_each(|index| test.write_page(&cx, &open, index));
    test.kernel.delete_file(&cx, &open.file);
    assert_eq!(test.counts(), [0, 0, 5, 0]);
    assert!(test.kernel.writeback[0].lists.lock(cx.cpu()).is_empty());
    assert_eq!(test.kernel.file_write(&cx, &open, 0, PAGE), Err(Error::Invalid));
}

#[test]
fn files_take_turns_and_go_on_where_they_were() {
    let test = Test::new(DeviceSpec { depth: 4096, ..DISK });
    let cx = test.task();
    let files = [test.file_at(&cx, 0, 2000), test.file_at(&cx, 10_000, 2000)];
    let wb = &test.kernel.writeback[0];
    for (open, nr) in files.iter().zip([1100, 100]) {
        (0..nr).for_each(|index| test.write_page(&cx, open, index));
    }
    let nr_dirty = test.counts()[0];
    assert_eq!(nr_dirty, 1200, "below the background limit");
    let mut lists = wb.lists.lock(cx.cpu());
    lists.refill(0);
    let order: alloc::vec::Vec<_> = lists.io.iter().map(|file| file.id.0).collect();
    assert_eq!(order, [0, 1], "oldest first");
    drop(lists);
    // The chunk of a small machine is 1024 pages.
    test.kernel.wake_flushers(&cx, WriteReason::Vmscan);
    test.kernel.flush_device(&cx, wb);
    let starts: alloc::vec::Vec<_> = test.host.sizes().iter().map(|&(start, _)| start).collect();
    let second = starts.iter().position(|&start| start == 10_000).unwrap();
    assert!(starts[..second].iter().all(|&start| start < 1024));
    assert_eq!(starts[second + 1], 1024, "the first file goes on after the second's turn");
    // Reclaim asked for them: up to eight requests may be in flight, and there are six.
    let [dirty, writeback, dirtied, written] = test.counts();
    assert_eq!((dirty, writeback + written, dirtied), (0, 1200, 1200));
    assert_eq!(test.kernel.block.device(wb.device).in_flight(), 6);
    test.end_all();
    assert!(wb.lists.lock(cx.cpu()).is_empty());
}

#[test]
fn how_many_writes_are_in_flight_depends_on_what_for() {
    let bounds = [
        (WriteReason::Background, 4),
        (WriteReason::Periodic, 4),
        (WriteReason::Vmscan, 8),
        (WriteReason::Foreground, 8),
        (WriteReason::Sync, 16),
    ];
    for (reason, most) in bounds {
        let test = Test::new(DeviceSpec { depth: 4096, ..DISK });
        let cx = test.task();
        let open = test.file(&cx, 100);
        // Every other page: twenty requests, of which the first have to be done for the last to go.
        (0..20).for_each(|n| test.write_page(&cx, &open, 2 * n));
        test.kernel.write_file_pages(&cx, &open.file, ALL, u64::MAX, reason);
        let device = test.kernel.writeback[0].device;
        assert_eq!(test.kernel.block.device(device).in_flight(), most, "{reason:?}");
        test.end_all();
    }
}

#[test]
fn writers_are_held_up_over_the_limit() {
    let test = Test::new(DeviceSpec { depth: 4096, ..DISK });
    let cx = test.task();
    let open = test.file(&cx, 10_000);
    for index in 0..8000 {
        test.write_page(&cx, &open, index);
        let limits = test.kernel.dirty_limits(&cx);
        let dirty = test.kernel.nr_dirty_pages() + test.kernel.nr_writeback_pages();
        if dirty > limits.freerun() {
            // The disk is as fast as it is asked.
            test.end_all();
        }
        assert!(dirty <= limits.thresh + 64, "{dirty} {limits:?}");
    }
    let [dirty, _, dirtied, _] = test.counts();
    assert_eq!(dirtied, 8000);
    assert!(dirty <= test.kernel.dirty_limits(&cx).background + 64, "{dirty}");
    test.end_all();
}

#[test]
fn end_of_writeback_takes_reclaim_pages_to_the_tail() {
    let test = Test::new(DISK);
    let cx = test.task();
    let open = test.file(&cx, 10);
    (0..2).for_each(|index| test.write_page(&cx, &open, index));
    test.kernel.lru_add_drain_all(&cx);
    let folio = test.page(&cx, &open, 0);
    test.kernel.write_file_pages(&cx, &open.file, ALL, u64::MAX, WriteReason::Background);
    test.kernel.mem.map.page(folio).flag_set::<Manual>(PageFlags::RECLAIM);
    test.end_all();
    test.kernel.lru_add_drain_all(&cx);
    assert_eq!(test.events(VmEvent::Pgrotated), 1);
    assert!(!test.flags(&cx, &open, 0).contains(PageFlags::RECLAIM));
}
