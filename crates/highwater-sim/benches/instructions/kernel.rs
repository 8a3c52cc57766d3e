//! Allocations, touches, faults, reads, compaction.

use std::hint::black_box;

use highwater_core::Kernel;
use highwater_core::block::{DeviceId, DeviceSpec};
use highwater_core::config::{Machine, NodeSpec, Tunables, ZoneSpec, preset};
use highwater_core::host::{CpuId, Cx, Solo, TaskFlags};
use highwater_core::kernel::KernelSpec;
use highwater_core::page::{Order, PAGE_SIZE, Pfn};
use highwater_core::page_alloc::{Gfp, NoRelief, boot};
use highwater_core::page_cache::{FileSpec, Filesystem};
use highwater_core::vm::{Access, Backing};
use highwater_core::vmstat::VmEvent;
use highwater_core::zone::{NodeId, Zone, ZoneType, watermark::Marks};
use highwater_native::{NativeMachine, NativeOptions, Task};

use super::Units;
use super::scan::{MIB, on_machine};
use super::stage::{RW, loops};

const NODE: NodeId = NodeId(0);
/// Pages of VMAs and files.
const PAGES: u64 = 4096;
/// Pages of a sweep: 64 tables.
const SWEPT: u64 = 32_768;
/// Frames of the native machine. Also the number of pages that `native_many` takes at once, in many
/// blocks.
const NATIVE_FRAMES: u64 = 1 << 16;
const NATIVE_BULK: usize = 8192;

/// An order-0 page on the simulated machine.
pub(super) fn pair(pairs: u64) -> Units {
    on_machine(move |stage| {
        loops::pairs(&stage.kernel.mem, stage.cx, pairs);
        Units(pairs)
    })
}

/// Mapped pages, one by one.
pub(super) fn touch(passes: u64) -> Units {
    on_machine(move |stage| {
        let start = stage.map(PAGES, RW, Backing::Anon);
        stage.touch_all(start, PAGES, Access::Write);
        let before = stage.event(VmEvent::Pgfault);
        for _ in 0..passes {
            for vpn in start..start + PAGES as u32 {
                stage.kernel.touch(stage.cx, stage.mm, vpn, Access::Read).expect("mapped");
            }
        }
        assert_eq!(stage.event(VmEvent::Pgfault), before);
        Units(passes * PAGES)
    })
}

/// Mapped pages, many tables with one call.
pub(super) fn sweep(passes: u64) -> Units {
    on_machine(move |stage| {
        let start = stage.map(SWEPT, RW, Backing::Anon);
        stage.touch_all(start, SWEPT, Access::Write);
        let before = stage.event(VmEvent::Pgfault);
        (0..passes).for_each(|_| stage.touch_all(start, SWEPT, Access::Read));
        assert_eq!(stage.event(VmEvent::Pgfault), before);
        Units(passes * SWEPT / 512)
    })
}

/// Anonymous memory of one and a half times the machine's memory, touched again: every page comes
/// from swap, and another one has to go there.
pub(super) fn swap(pages: u64) -> Units {
    on_machine(move |stage| {
        let all = (MIB << 8) * 3 / 2;
        let start = stage.map(all, RW, Backing::Anon);
        stage.touch_all(start, all, Access::Write);
        let counts = || [VmEvent::Pswpin, VmEvent::Pswpout].map(|event| stage.event(event));
        let before = counts();
        stage.touch_all(start, pages, Access::Write);
        for (now, before) in counts().into_iter().zip(before) {
            assert!(now - before >= pages * 3 / 4, "{before} and {now} of {pages}");
        }
        Units(pages)
    })
}

/// Anonymous memory, written and unmapped.
pub(super) fn anon_fault(passes: u64) -> Units {
    on_machine(move |stage| {
        let before = stage.event(VmEvent::Pgfault);
        for _ in 0..passes {
            let start = stage.map(PAGES, RW, Backing::Anon);
            stage.touch_all(start, PAGES, Access::Write);
            stage.unmap(start, PAGES);
        }
        assert_eq!(stage.event(VmEvent::Pgfault) - before, passes * PAGES);
        Units(passes * PAGES)
    })
}

/// A file in the page cache, mapped, touched and unmapped.
pub(super) fn file_fault(passes: u64) -> Units {
    on_machine(move |stage| {
        let open = stage.file(PAGES);
        stage.read(&open, PAGES);
        for _ in 0..passes {
            let start = stage.map_file(&open, PAGES);
            stage.touch_all(start, PAGES, Access::Read);
            stage.unmap(start, PAGES);
        }
        assert_eq!(stage.event(VmEvent::Pgfault), passes * PAGES / 16, "faults around");
        Units(passes * PAGES)
    })
}

/// Reads of a file that is in the page cache, 64 KiB each.
pub(super) fn cache_read(passes: u64) -> Units {
    on_machine(move |stage| {
        let open = stage.file(PAGES);
        stage.read(&open, PAGES);
        let before = stage.event(VmEvent::Pgpgin);
        (0..passes).for_each(|_| stage.read(&open, PAGES));
        assert_eq!(stage.event(VmEvent::Pgpgin), before);
        Units(passes * PAGES)
    })
}

pub(super) fn native_order_0(pairs: u64) -> Units {
    native_pair(Order(0), pairs)
}

pub(super) fn native_order_9(pairs: u64) -> Units {
    native_pair(Order(9), pairs)
}

/// Allocates and frees one block, while half of the memory is in use.
fn native_pair(order: Order, pairs: u64) -> Units {
    on_a_thread(|task| {
        let take = || task.alloc(Gfp::GFP_HIGHUSER_MOVABLE, order).expect("memory");
        let held: Vec<Pfn> = (0..NATIVE_FRAMES >> order.0 >> 1).map(|_| take()).collect();
        let first = take();
        task.free(first, order).expect("in use");
        assert!(!held.contains(&first));
        let mut nr_first = 0;
        for _ in 0..pairs {
            let pfn = black_box(take());
            nr_first += u64::from(pfn == first);
            task.free(pfn, order).expect("in use");
        }
        assert_eq!(nr_first, pairs, "the block that was freed last, which nobody holds");
        Units(pairs)
    })
}

pub(super) fn native_bulk_0(passes: u64) -> Units {
    native_many(Order(0), <[_]>::reverse, passes)
}

pub(super) fn native_bulk_3(passes: u64) -> Units {
    native_many(Order(3), <[_]>::reverse, passes)
}

pub(super) fn native_rand_0(passes: u64) -> Units {
    native_many(Order(0), scatter, passes)
}

pub(super) fn native_rand_3(passes: u64) -> Units {
    native_many(Order(3), scatter, passes)
}

/// Allocates many blocks and frees them in another order.
fn native_many(order: Order, reorder: fn(&mut [Pfn]), passes: u64) -> Units {
    on_a_thread(|task| {
        let nr = NATIVE_BULK >> order.0;
        let take = || task.alloc(Gfp::GFP_HIGHUSER_MOVABLE, order).expect("memory");
        let mut held = Vec::new();
        for _ in 0..passes {
            held.clear();
            held.extend((0..nr).map(|_| take()));
            reorder(&mut held);
            for &pfn in black_box(&held) {
                task.free(pfn, order).expect("in use");
            }
        }
        held.sort_unstable();
        let size = order.pages() as u32;
        let apart = held.windows(2).all(|pair| pair[1].0 - pair[0].0 >= size);
        assert!(apart, "a page was handed out twice");
        Units(passes * nr as u64)
    })
}

/// Separates neighbours: takes every n-th block, from one end to the other, repeatedly.
fn scatter(held: &mut [Pfn]) {
    const APART: usize = 61;
    let all = held.to_vec();
    let scattered = (0..APART).flat_map(|first| all.iter().skip(first).step_by(APART));
    held.iter_mut().zip(scattered).for_each(|(place, &pfn)| *place = pfn);
}

/// The allocator on a real thread and real memory.
fn on_a_thread(body: impl FnOnce(&Task<'_>) -> Units) -> Units {
    let machine = one_zone(1 << 20, NATIVE_FRAMES);
    let options = NativeOptions { pin_threads: false, ..NativeOptions::default() };
    let policy = preset("6.1").expect("a preset");
    let machine = NativeMachine::boot(&machine, &policy, &options).expect("boot");
    body(&machine.enter(CpuId(0)).expect("a CPU")).tell()
}

fn one_zone(start: u64, frames: u64) -> Machine {
    Machine {
        name: "bench".into(),
        nodes: vec![NodeSpec {
            cpus: vec![0],
            zones: vec![ZoneSpec::full(ZoneType::Normal, start, frames)],
        }],
        distances: vec![vec![10]],
        tunables: Tunables::default(),
        usable: Vec::new(),
    }
}

pub(super) fn compact_sources(runs: u64) -> Units {
    compact(false, runs)
}

pub(super) fn compact_targets(runs: u64) -> Units {
    compact(true, runs)
}

/// Manual compaction runs over a zone whose frames are all in use. With a page to migrate, the free
/// scanner scans the zone.
fn compact(with_a_page: bool, runs: u64) -> Units {
    let host = Solo::default();
    let cx = Cx::new(&host, CpuId(0));
    let policy = preset("6.1").expect("a preset");
    let mem = boot(&host, &one_zone(1 << 20, 1 << 14), &policy).expect("boot");
    let spec = KernelSpec { devices: vec![DeviceSpec::nvme(1 << 12)], swap: Vec::new(), groups: 0 };
    let kernel = Kernel::new(&cx, mem, &spec).expect("a kernel");
    // The last frame of a zone is reserved for tasks that free memory.
    cx.set_flags(TaskFlags::KTHREAD | TaskFlags::MEMALLOC);
    let zone: &Zone<Solo> = kernel.mem.zone(NODE, ZoneType::Normal).expect("the zone");
    zone.set_marks(&Marks::default());
    let gfp = Gfp::GFP_HIGHUSER_MOVABLE - Gfp::RECLAIM;
    let page = || kernel.mem.alloc(&cx, &NoRelief, gfp, Order::ZERO, NODE, None);
    let lowest = std::iter::from_fn(page).min().expect("a page");
    if with_a_page {
        for frame in 0..8 {
            kernel.mem.free(&cx, Pfn(lowest.0 + frame), Order::ZERO).expect("it is in use");
        }
        kernel.mem.drain_all(&cx, None);
        let file = kernel.create_file(&cx, FileSpec::new(Filesystem::XFS, DeviceId(0), 0, 1));
        let (open, page) = (kernel.open(&cx, &file), PAGE_SIZE as u64);
        assert_eq!(kernel.file_read(&cx, &open, 0, page), Ok(page));
        kernel.lru_add_drain_all(&cx);
    }
    let scanned = |event| kernel.mem.events.read(event);
    let event = match with_a_page {
        true => VmEvent::CompactFreeScanned,
        false => VmEvent::CompactMigrateScanned,
    };
    let before = scanned(event);
    (0..runs).for_each(|_| kernel.compact_node(&cx, NODE));
    let frames = scanned(event) - before;
    assert!(frames >= runs * 512, "{frames} frames in {runs} runs");
    Units(frames).tell()
}
