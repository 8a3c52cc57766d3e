//! Threads of one address space: they map, touch, advise and unmap the same regions of memory and
//! of one file. One of them truncates that file again and again. Memory is short, and kswapd unmaps
//! pages at the same time.
//!
//! At the end the whole kernel is audited, and when the address space is gone nothing of it is
//! left. `HIGHWATER_STRESS_SECONDS` sets the length of each case.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use highwater_core::Kernel;
use highwater_core::audit::check_kernel;
use highwater_core::block::{DeviceId, DeviceSpec};
use highwater_core::config::{Algorithm, Machine, preset};
use highwater_core::host::{CpuId, Cx};
use highwater_core::kernel::{Error, KernelSpec};
use highwater_core::page_cache::{File, FileSpec, Filesystem, OpenFile};
use highwater_core::swap::SwapSpec;
use highwater_core::syscall::MemoryAdvice;
use highwater_core::vm::{Access, Backing, Mm, VmaFlags};
use highwater_core::vmstat::VmEvent;
use highwater_native::{NativeHost, NativeKernel, NativeOptions};

use crate::case_time;

const NR_THREADS: u16 = 4;
/// Two disks, kswapd and the reaper.
const NR_CPUS: u16 = NR_THREADS + NativeKernel::daemon_cpus(2) as u16;

/// With small regions, threads meet on the same entries. With large ones, memory is short, and the
/// reclaim algorithm works under the threads.
#[test]
fn spaces_survive_threads() {
    let time = case_time();
    let scanned = stress(Algorithm::TwoList, 30, time, false);
    assert_eq!(scanned, 0, "memory is not short");
    for &algorithm in Algorithm::ALL {
        let scanned = stress(algorithm, 6000, time, true);
        assert!(scanned > 0, "{algorithm:?}: memory is short");
    }
}

/// State that the threads share.
struct Program {
    mm: Arc<Mm<NativeHost>>,
    file: Arc<File<NativeHost>>,
    regions: Mutex<Vec<(u32, u32)>>,
    region: u32,
}

/// Pages that reclaim scanned, without advice. If memory has to become short, a slow machine gets
/// the time for that.
fn stress(algorithm: Algorithm, region: u32, time: Duration, is_short: bool) -> u64 {
    let machine = Machine::from_sizes("stress", &[(64 << 20, (0..NR_CPUS).collect())]).unwrap();
    let disk = DeviceSpec::nvme(100_000);
    let swap = SwapSpec { device: DeviceId(1), pages: 60_000, priority: -2 };
    let spec = KernelSpec { devices: vec![disk.clone(), disk], swap: vec![swap], groups: 0 };
    let mut policy = preset("6.1").unwrap();
    policy.reclaim.algorithm = algorithm;
    let options = NativeOptions::default();
    let native = NativeKernel::boot(&machine, &policy, &options, &spec).unwrap();
    let program = {
        let task = native.enter(CpuId(0)).unwrap();
        let file = FileSpec::new(Filesystem::EXT4, DeviceId(0), 0, region);
        Program {
            mm: native.kernel.create_mm(&task.cx).unwrap(),
            file: native.kernel.create_file(&task.cx, file),
            regions: Mutex::default(),
            region,
        }
    };
    let start = Instant::now();
    let goes_on = || {
        let time = if is_short && scanned(&native.kernel) == 0 { 30 * time } else { time };
        start.elapsed() < time
    };
    let run = || {
        std::thread::scope(|scope| {
            for cpu in 0..NR_THREADS {
                let (native, program, goes_on) = (&native, &program, &goes_on);
                scope.spawn(move || {
                    let task = native.enter(CpuId(cpu)).unwrap();
                    let open = native.kernel.open(&task.cx, &program.file);
                    let (kernel, cx) = (&native.kernel, &task.cx);
                    let state = (u64::from(cpu) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
                    let mut thread = Thread { cx, kernel, program, open, state };
                    while goes_on() {
                        thread.step();
                    }
                });
            }
        });
    };
    native.with_daemons(run).unwrap();

    let task = native.enter(CpuId(0)).unwrap();
    let (kernel, cx) = (&native.kernel, &task.cx);
    check_kernel(kernel, cx).unwrap_or_else(|error| panic!("{error}"));
    kernel.exit_mm(cx, &program.mm);
    kernel.delete_file(cx, &program.file);
    kernel.lru_add_drain_all(cx);
    let left = check_kernel(kernel, cx).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((left.tables, left.entries, left.swap_entries, left.cached), (0, 0, 0, 0));
    scanned(kernel)
}

fn scanned(kernel: &Kernel<NativeHost>) -> u64 {
    let scans = [VmEvent::PgscanKswapd, VmEvent::PgscanDirect];
    scans.map(|event| kernel.mem.events.read(event)).iter().sum()
}

struct Thread<'a, 'h> {
    cx: &'a Cx<'h, NativeHost>,
    kernel: &'a Kernel<NativeHost>,
    program: &'a Program,
    open: Arc<OpenFile<NativeHost>>,
    state: u64,
}

impl Thread<'_, '_> {
    fn below(&mut self, bound: u32) -> u32 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (((self.state >> 32) * u64::from(bound)) >> 32) as u32
    }

    fn step(&mut self) {
        match self.try_step() {
            Ok(()) => {}
            // Holes, the end of the file, invalid advice, no memory.
            Err(Error::Fault | Error::Invalid | Error::NoMemory) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn map(&mut self) -> Result<(), Error> {
        if self.program.regions.lock().unwrap().len() > 5 {
            return Ok(());
        }
        let pages = 1 + self.below(self.program.region);
        let rw = VmaFlags::READ | VmaFlags::WRITE;
        let (flags, is_file) = match self.below(5) {
            0 => (rw, true),
            1 => (rw | VmaFlags::SHARED, true),
            _ => (rw, false),
        };
        let backing = match is_file {
            true => Backing::File { open: Arc::clone(&self.open), page: 0 },
            false => Backing::Anon,
        };
        let start = self.kernel.mmap(self.cx, &self.program.mm, pages, 1, flags, backing)?;
        self.program.regions.lock().unwrap().push((start, pages));
        Ok(())
    }

    fn try_step(&mut self) -> Result<(), Error> {
        let (cx, kernel, mm) = (self.cx, self.kernel, &self.program.mm);
        let (what, pick) = (self.below(24), self.below(8) as usize);
        let picked = self.program.regions.lock().unwrap().get(pick).copied();
        let Some((start, pages)) = picked else { return self.map() };
        let first = self.below(pages);
        let (start, pages) = (start + first, 1 + self.below((pages - first).min(700)));
        match what {
            0 => {
                let mut regions = self.program.regions.lock().unwrap();
                let taken = (pick < regions.len()).then(|| regions.swap_remove(pick));
                drop(regions);
                taken.map_or(Ok(()), |(start, pages)| kernel.munmap(cx, mm, start, pages))
            }
            1 => kernel.munmap(cx, mm, start, pages.min(40)),
            2..4 => {
                let advice = [
                    MemoryAdvice::DontNeed,
                    MemoryAdvice::Free,
                    MemoryAdvice::Cold,
                    MemoryAdvice::PageOut,
                ];
                kernel.madvise(cx, mm, start, pages, advice[self.below(4) as usize])
            }
            4 => {
                kernel.mlock(cx, mm, start, pages.min(50))?;
                kernel.munlock(cx, mm, start, pages)
            }
            5 => {
                kernel.truncate(cx, &self.program.file, self.below(self.program.region));
                let last = (u64::from(self.program.region) << 12) - 1;
                kernel.file_write(cx, &self.open, last, 1).map(|_| ())
            }
            _ => {
                let access = if what % 2 == 0 { Access::Read } else { Access::Write };
                kernel.touch_range(cx, mm, start, pages, access).map(|_| ())
            }
        }
    }
}
