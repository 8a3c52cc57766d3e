//! Huge pages on threads and real memory. A leaf is an entry of the kernel's own page tables here,
//! over 512 contiguous frames of the arena. No processor walks these tables, so nothing else is
//! mapped.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use highwater_core::audit::check_kernel;
use highwater_core::block::{DeviceId, DeviceSpec};
use highwater_core::config::{Machine, preset};
use highwater_core::host::{CpuId, Host};
use highwater_core::kernel::KernelSpec;
use highwater_core::page::Pfn;
use highwater_core::swap::SwapSpec;
use highwater_core::syscall::MemoryAdvice;
use highwater_core::vm::{Access, Backing, Mm, VmaFlags};
use highwater_core::vmstat::VmEvent;
use highwater_native::{NativeHost, NativeKernel, NativeOptions};

use crate::case_time;

const NR_THREADS: u16 = 4;
/// One disk, kswapd, the reaper, khugepaged.
const NR_CPUS: u16 = NR_THREADS + NativeKernel::daemon_cpus(1) as u16 + 1;
const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

fn boot() -> NativeKernel {
    let sizes = [(640 << 20, (0..NR_CPUS).collect())];
    let mut machine = Machine::from_sizes("huge", &sizes).unwrap();
    machine.tunables.thp = highwater_core::config::Thp::Always;
    machine.tunables.khugepaged_scan_sleep_millisecs = 1;
    let swap = SwapSpec { device: DeviceId(0), pages: 60_000, priority: -2 };
    let spec = KernelSpec { devices: vec![DeviceSpec::nvme(100_000)], swap: vec![swap], groups: 0 };
    let policy = preset("6.1").unwrap();
    NativeKernel::boot(&machine, &policy, &NativeOptions::default(), &spec).unwrap()
}

fn frame_at(mm: &Mm<NativeHost>, vpn: u32) -> Option<Pfn> {
    mm.table_of(CpuId(0), vpn)?.peek(vpn).pfn()
}

/// Fault, and collapse by the daemon: the program finds zeros after the fault, and its own data
/// after the collapse.
#[test]
fn contents_are_what_the_program_left_there() {
    let native = boot();
    let run = || {
        let task = native.enter(CpuId(0)).unwrap();
        let (kernel, cx) = (&native.kernel, &task.cx);
        let mm = kernel.create_mm(cx).unwrap();
        let read = |vpn: u32| {
            let mut byte = [0xee];
            cx.host.frame_read(frame_at(&mm, vpn).unwrap(), 77, &mut byte);
            byte[0]
        };
        let huge = kernel.mmap(cx, &mm, 512, 512, RW, Backing::Anon).unwrap();
        kernel.touch(cx, &mm, huge, Access::Write).unwrap();
        assert_eq!(kernel.mem.events.read(VmEvent::ThpFaultAlloc), 1);
        assert!((0..512).all(|at| read(huge + at) == 0));

        let flags = RW | VmaFlags::NOHUGEPAGE;
        let single = kernel.mmap(cx, &mm, 512, 512, flags, Backing::Anon).unwrap();
        for at in 0..256 {
            kernel.touch(cx, &mm, single + at, Access::Write).unwrap();
            cx.host.frame_write(frame_at(&mm, single + at).unwrap(), 77, &[at as u8 | 1]);
        }
        kernel.lru_add_drain_all(cx);
        kernel.madvise(cx, &mm, single, 512, MemoryAdvice::HugePage).unwrap();
        let start = Instant::now();
        let is_huge = || {
            let pfn = frame_at(&mm, single + 3);
            pfn.is_some_and(|pfn| kernel.mem.map.folio(pfn).is_large())
        };
        while !is_huge() {
            assert!(start.elapsed() < Duration::from_secs(30), "khugepaged comes by");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!((0..256).all(|at| read(single + at) == at as u8 | 1));
        assert!((256..512).all(|at| read(single + at) == 0), "holes are filled");
        kernel.exit_mm(cx, &mm);
    };
    native.with_daemons(run).unwrap();
    let task = native.enter(CpuId(0)).unwrap();
    check_kernel(&native.kernel, &task.cx).unwrap_or_else(|error| panic!("{error}"));
}

/// Threads touch, split, drop and swap out the same few huge pages while khugepaged makes new ones.
#[test]
fn huge_pages_survive_threads() {
    let native = boot();
    let mm = {
        let task = native.enter(CpuId(0)).unwrap();
        native.kernel.create_mm(&task.cx).unwrap()
    };
    let (end, pages) = (Instant::now() + 2 * case_time(), 4 * 512);
    let start = {
        let task = native.enter(CpuId(0)).unwrap();
        native.kernel.mmap(&task.cx, &mm, pages, 512, RW, Backing::Anon).unwrap()
    };
    let region = Mutex::new(start);
    let worker = |cpu: u16| {
        let task = native.enter(CpuId(cpu)).unwrap();
        let (kernel, cx) = (&native.kernel, &task.cx);
        let mut state = (u64::from(cpu) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = move |bound: u32| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (((state >> 32) * u64::from(bound)) >> 32) as u32
        };
        while Instant::now() < end {
            let start = *region.lock().unwrap();
            let (range, what) = (start + below(4) * 512, below(12));
            let (first, nr) = match below(2) {
                0 => (range, 512),
                _ => (range + below(500), 1 + below(12)),
            };
            // The second thread may find nothing to do.
            let _ = match what {
                0 => kernel.madvise(cx, &mm, first, nr, MemoryAdvice::DontNeed),
                1 => kernel.madvise(cx, &mm, range, 512, MemoryAdvice::PageOut),
                2 => kernel.madvise(cx, &mm, first, nr, MemoryAdvice::Sequential),
                // A VMA that was split stays split: map a new one.
                3 => {
                    let mut region = region.lock().unwrap();
                    kernel.munmap(cx, &mm, *region, pages).unwrap();
                    *region = kernel.mmap(cx, &mm, pages, 512, RW, Backing::Anon).unwrap();
                    Ok(())
                }
                4 if below(20) == 0 => {
                    kernel.drop_caches(cx, 2);
                    Ok(())
                }
                5 => kernel
                    .mlock(cx, &mm, first, nr)
                    .and_then(|()| kernel.munlock(cx, &mm, first, nr)),
                _ => {
                    let access = if what % 2 == 0 { Access::Read } else { Access::Write };
                    kernel.touch_range(cx, &mm, first, nr, access).map(drop)
                }
            };
        }
    };
    let run = || {
        std::thread::scope(|scope| {
            for cpu in 0..NR_THREADS {
                let worker = &worker;
                scope.spawn(move || worker(cpu));
            }
        });
    };
    native.with_daemons(run).unwrap();
    let task = native.enter(CpuId(0)).unwrap();
    let (kernel, cx) = (&native.kernel, &task.cx);
    check_kernel(kernel, cx).unwrap_or_else(|error| panic!("{error}"));
    for event in [VmEvent::ThpFaultAlloc, VmEvent::ThpSplitPmd, VmEvent::ThpCollapseAlloc] {
        assert!(kernel.mem.events.read(event) > 0, "{event:?}");
    }
    kernel.exit_mm(cx, &mm);
    kernel.lru_add_drain_all(cx);
    let left = check_kernel(kernel, cx).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((left.tables, left.entries, left.swap_entries), (0, 0, 0));
}
