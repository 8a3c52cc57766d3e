//! The block layer against a device that the test completes by hand.

use alloc::rc::Rc;
use alloc::vec::Vec;

use super::manual::{DISK, Manual, kernel, kernel_of};
use super::{Bio, BioKind, BioVector, DeviceId, DeviceSpec};
use crate::Kernel;
use crate::config::PlugFlush;
use crate::host::{CpuId, Cx, IoDirection, IoError, Urgency};
use crate::page::{Folio, Order, PageFlags, Pfn};
use crate::page_alloc::{Gfp, NoRelief};
use crate::vmstat::VmEvent;
use crate::zone::NodeId;

/// Locked pages without a mapping, to read into.
fn pages(kernel: &Kernel<Manual>, cx: &Cx<'_, Manual>, nr: usize) -> Vec<Pfn> {
    let page = |_| {
        let gfp = Gfp::GFP_KERNEL;
        let pfn = kernel.mem.alloc(cx, &NoRelief, gfp, Order::ZERO, NodeId(0), None).unwrap();
        assert!(kernel.try_lock_page(Folio::page(pfn)));
        pfn
    };
    (0..nr).map(page).collect()
}

fn read(device: u8, start: u64, pages: &[Pfn]) -> Bio {
    let (device, kind) = (DeviceId(device), BioKind::FileRead);
    Bio {
        device,
        kind,
        start,
        pages: pages.to_vec(),
        urgency: Urgency::Sync,
        vector: BioVector::Inline,
    }
}

#[test]
fn without_a_plug_each_bio_goes_at_once() {
    let host = Rc::new(Manual::default());
    let (kernel, cx) = (kernel(&host, &[DISK]), Cx::new(&*host, CpuId(0)));
    let frames = pages(&kernel, &cx, 2);
    kernel.submit_bio(&cx, read(0, 100, &frames[..1]));
    kernel.submit_bio(&cx, read(0, 101, &frames[1..]));
    assert_eq!(host.sizes(), [(100, 1), (101, 1)]);
    assert_eq!(host.held.borrow().iter().map(|r| r.id).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(kernel.mem.events.read(VmEvent::Pgpgin), 8, "KiB");

    host.end(1, Ok(()));
    let page = kernel.mem.map.page(frames[1]);
    assert!(page.is(PageFlags::UPTODATE) && !page.is(PageFlags::LOCKED));
    host.end(0, Err(IoError::Device));
    let page = kernel.mem.map.page(frames[0]);
    assert!(page.is(PageFlags::ERROR) && !page.is(PageFlags::LOCKED | PageFlags::UPTODATE));
    let device = kernel.block.device(DeviceId(0));
    assert_eq!((device.in_flight(), device.nr_errors()), (0, 1));
}

#[test]
fn a_plug_merges_what_continues_the_newest_request() {
    let host = Rc::new(Manual::default());
    let (kernel, cx) = (kernel(&host, &[DISK]), Cx::new(&*host, CpuId(0)));
    let frames = pages(&kernel, &cx, 5);
    kernel.plug_start(&cx);
    kernel.plug_start(&cx);
    for (start, frame) in [(10, 0), (11, 1), (20, 2), (12, 3)] {
        kernel.submit_bio(&cx, read(0, start, &frames[frame..=frame]));
    }
    let other_kind = Bio { kind: BioKind::SwapRead, ..read(0, 13, &frames[4..]) };
    kernel.submit_bio(&cx, other_kind);
    kernel.plug_finish(&cx);
    assert_eq!(host.sizes(), [], "the outer plug is open");
    kernel.plug_finish(&cx);
    // 12 continues the first request, which is no longer the newest; 13 is of another kind.
    assert_eq!(host.sizes(), [(10, 2), (20, 1), (12, 1), (13, 1)]);
    assert_eq!(host.held.borrow()[0].bios.len(), 2);
    assert_eq!(kernel.mem.events.read(VmEvent::Pswpin), 1);
    for _ in 0..4 {
        host.end(0, Ok(()));
    }
    assert!(frames.iter().all(|&f| kernel.mem.map.page(f).is(PageFlags::UPTODATE)));
}

#[test]
fn requests_end_at_the_device_limit() {
    let small = DeviceSpec { max_request_pages: 4, ..DISK };
    let host = Rc::new(Manual::default());
    let (kernel, cx) = (kernel(&host, &[small]), Cx::new(&*host, CpuId(0)));
    let frames = pages(&kernel, &cx, 11);
    kernel.plug_start(&cx);
    kernel.submit_bio(&cx, read(0, 0, &frames[..9]));
    kernel.submit_bio(&cx, read(0, 9, &frames[9..]));
    kernel.plug_finish(&cx);
    assert_eq!(host.sizes(), [(0, 4), (4, 4), (8, 3)]);
}

/// Pages of one bio whose frames follow each other are one piece; bios are not looked at together.
#[test]
fn requests_end_at_the_segments_of_the_device() {
    let small = DeviceSpec { max_segments: 4, ..DISK };
    let host = Rc::new(Manual::default());
    let (kernel, cx) = (kernel(&host, &[small]), Cx::new(&*host, CpuId(0)));
    let order = Order::new(5).unwrap();
    let first = kernel.mem.alloc(&cx, &NoRelief, Gfp::GFP_KERNEL, order, NodeId(0), None).unwrap();
    let frame = |i: u64| Pfn(first.0 + i as u32);
    let bio = |start: u64, frames: &[u64]| {
        read(0, start, &frames.iter().copied().map(frame).collect::<Vec<_>>())
    };
    for i in 0..32 {
        assert!(kernel.try_lock_page(Folio::page(frame(i))));
    }
    kernel.plug_start(&cx);
    // Eight pages in one piece, then three of one page each: the last finds no room.
    kernel.submit_bio(&cx, bio(0, &[0, 1, 2, 3, 4, 5, 6, 7]));
    for i in 8..12 {
        kernel.submit_bio(&cx, bio(i, &[i]));
    }
    // One bio of six pieces is cut after the fourth.
    kernel.submit_bio(&cx, bio(40, &[12, 14, 15, 17, 19, 21, 23]));
    kernel.plug_finish(&cx);
    assert_eq!(host.sizes(), [(0, 11), (11, 1), (40, 5), (45, 2)]);
}

/// From 6.13 on a small read keeps the writes behind it, as in swap readahead that reclaims.
#[test]
fn the_oldest_request_may_decide_when_a_plug_is_full() {
    for (flush, held) in [(PlugFlush::Newest, 2), (PlugFlush::Oldest, 0)] {
        let host = Rc::new(Manual::default());
        let kernel = kernel_of(&host, &[DISK], Vec::new(), |policy| {
            policy.block.plug_flush = flush;
        });
        let cx = Cx::new(&*host, CpuId(0));
        let frames = pages(&kernel, &cx, 60);
        kernel.plug_start(&cx);
        kernel.submit_bio(&cx, read(0, 0, &frames[..1]));
        kernel.submit_bio(&cx, read(0, 100, &frames[1..41]));
        kernel.submit_bio(&cx, read(0, 200, &frames[41..42]));
        assert_eq!(host.nr_held(), held, "{flush:?}");
        kernel.plug_finish(&cx);
        assert_eq!(host.sizes(), [(0, 1), (100, 40), (200, 1)]);

        // A large request that is the oldest, too, has them sent in every version.
        kernel.plug_start(&cx);
        kernel.submit_bio(&cx, read(0, 300, &frames[..40]));
        kernel.submit_bio(&cx, read(0, 400, &frames[40..41]));
        assert_eq!(host.nr_held(), 4, "{flush:?}");
        kernel.plug_finish(&cx);
    }
}

#[test]
fn a_plug_is_flushed_when_it_is_full() {
    let host = Rc::new(Manual::default());
    let wide = DeviceSpec { depth: 256, ..DISK };
    let (kernel, cx) = (kernel(&host, &[wide.clone(), wide]), Cx::new(&*host, CpuId(0)));
    let frames = pages(&kernel, &cx, 200);
    let one = |device: u8, i: usize| {
        kernel.submit_bio(&cx, read(device, 2 * i as u64, &frames[i..=i]));
    };
    kernel.plug_start(&cx);
    (0..32).for_each(|i| one(0, i));
    assert_eq!(host.nr_held(), 0);
    one(0, 32);
    assert_eq!(host.nr_held(), 32, "the 33rd request finds the plug full");
    kernel.plug_flush(&cx);
    assert_eq!(host.nr_held(), 33, "about to sleep");

    (33..97).for_each(|i| one(i as u8 % 2, i));
    assert_eq!(host.nr_held(), 33, "two queues: 64 requests");
    one(0, 97);
    assert_eq!(host.nr_held(), 33 + 64);
    kernel.plug_flush(&cx);

    // 32 pages in one request: it goes before another is begun, but may grow until then.
    kernel.submit_bio(&cx, read(0, 1000, &frames[98..130]));
    kernel.submit_bio(&cx, read(0, 1032, &frames[130..140]));
    assert_eq!(host.nr_held(), 98);
    kernel.submit_bio(&cx, read(0, 5000, &frames[140..141]));
    assert_eq!(host.sizes()[98..], [(1000, 42)]);
    kernel.plug_finish(&cx);
    assert_eq!(host.nr_held(), 100);
}

#[test]
fn without_a_tag_the_submitter_sleeps() {
    let host = Rc::new(Manual::default());
    let (kernel, cx) = (kernel(&host, &[DISK]), Cx::new(&*host, CpuId(0)));
    let frames = pages(&kernel, &cx, 9);
    for i in 0..8 {
        kernel.submit_bio(&cx, read(0, 2 * i as u64, &frames[i..=i]));
    }
    assert_eq!((host.nr_held(), host.naps.get()), (8, 0));
    kernel.submit_bio(&cx, read(0, 100, &frames[8..]));
    assert_eq!((host.nr_held(), host.naps.get()), (8, 1), "slept until the first was done");
    assert_eq!(host.sizes()[7], (100, 1));
}

#[test]
fn a_quarter_of_the_tags_is_for_reads() {
    assert_eq!(super::queue::tag_limit(8, IoDirection::Write), 6);
    assert_eq!(super::queue::tag_limit(8, IoDirection::Read), 8);
    assert_eq!([1, 2, 3, 4].map(|d| super::queue::tag_limit(d, IoDirection::Write)), [1, 2, 3, 3]);
}

#[test]
fn a_synchronous_device_has_no_queue() {
    let ram = DeviceSpec { synchronous: true, depth: 1, ..DISK };
    let host = Rc::new(Manual::default());
    let (kernel, cx) = (kernel(&host, &[ram]), Cx::new(&*host, CpuId(0)));
    let frames = pages(&kernel, &cx, 3);
    kernel.plug_start(&cx);
    for (i, start) in [(0, 0), (1, 1), (2, 2)] {
        kernel.submit_bio(&cx, read(0, start, &frames[i..=i]));
    }
    assert_eq!((host.nr_held(), host.naps.get()), (3, 0), "not plugged, no tag");
    kernel.plug_finish(&cx);
}
