//! Threads against files: they read, write, map, drop, truncate and delete the same few files while
//! memory is short and kswapd and the flusher work beside them.
//!
//! At the end the whole kernel is audited, and when all files are gone nothing of them is left.
//! `HIGHWATER_STRESS_SECONDS` sets the length of each case.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use highwater_core::Kernel;
use highwater_core::audit;
use highwater_core::block::{DeviceId, DeviceSpec};
use highwater_core::config::{Machine, preset};
use highwater_core::host::{CpuId, Cx};
use highwater_core::kernel::{Error, KernelSpec};
use highwater_core::page_alloc::boot;
use highwater_core::page_cache::{File, FileSpec, Filesystem, OpenFile};
use highwater_core::syscall::FileAdvice;
use highwater_core::vm::{Access, Backing, Mm, VmaFlags};
use highwater_core::vmstat::NodeStat;
use highwater_core::zone::NodeId;
use highwater_native::{NativeHost, NativeOptions};

use crate::case_time;

const NR_WORKERS: u16 = 4;
/// kswapd, kcompactd, the flusher and the reaper take one CPU each.
const NR_CPUS: u16 = NR_WORKERS + 4;
const PAGE: u64 = 4096;

/// With small files, threads meet on the same pages. With large ones, memory is short.
#[test]
fn files_survive_threads() {
    for (nr_files, pages) in [(2, 40), (3, 12_000)] {
        stress(nr_files, pages, case_time());
    }
}

type Slots = [Mutex<Arc<File<NativeHost>>>];

fn new_file(
    kernel: &Kernel<NativeHost>,
    cx: &Cx<'_, NativeHost>,
    slot: usize,
    pages: u32,
) -> Arc<File<NativeHost>> {
    let spec = FileSpec::new(Filesystem::EXT4, DeviceId(0), slot as u64 * 20_000, pages);
    kernel.create_file(cx, spec)
}

fn stress(nr_files: usize, pages: u32, time: Duration) {
    let machine = Machine::from_sizes("stress", &[(64 << 20, (0..NR_CPUS).collect())]).unwrap();
    let options = NativeOptions::default();
    let host = NativeHost::new(machine.nr_cpus(), machine.end_pfn(), &options).unwrap();
    let memory = boot(&host, &machine, &preset("6.1").unwrap()).unwrap();
    let disk = DeviceSpec::nvme(100_000);
    let spec = KernelSpec { devices: vec![disk], swap: Vec::new(), groups: 0 };
    let kernel = Kernel::new(&Cx::new(&host, CpuId(0)), memory, &spec).unwrap();
    let first = Cx::new(&host, CpuId(0));
    let slots: Vec<_> =
        (0..nr_files).map(|slot| Mutex::new(new_file(&kernel, &first, slot, pages))).collect();
    let end = Instant::now() + time;
    std::thread::scope(|scope| {
        let daemons: Vec<_> = kernel.daemons().into_iter().enumerate().collect();
        for (at, daemon) in daemons {
            let (host, kernel) = (&host, &kernel);
            scope.spawn(move || {
                let cpu = CpuId(NR_WORKERS + at as u16);
                let _lease = host.enter(cpu).unwrap();
                let cx = Cx::new(host, cpu);
                kernel.run_daemon(&cx, daemon);
            });
        }
        let workers: Vec<_> = (0..NR_WORKERS)
            .map(|cpu| {
                let (host, kernel, slots) = (&host, &kernel, &*slots);
                scope.spawn(move || {
                    let _lease = host.enter(CpuId(cpu)).unwrap();
                    let cx = Cx::new(host, CpuId(cpu));
                    let mm = kernel.create_mm(&cx).unwrap();
                    mm.add_task(&cx);
                    let state = u64::from(cpu) + 1;
                    let mut worker = Worker { kernel, cx, mm, slots, pages, state };
                    while Instant::now() < end {
                        (0..20).for_each(|_| worker.step());
                    }
                    kernel.exit_mm(&worker.cx, &worker.mm);
                    worker.mm.remove_task(&worker.cx);
                })
            })
            .collect();
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        kernel.shut_down(&Cx::new(&host, CpuId(0)));
        results.into_iter().for_each(|result| result.unwrap());
    });

    let _lease = host.enter(CpuId(0)).unwrap();
    let cx = Cx::new(&host, CpuId(0));
    audit::check_kernel(&kernel, &cx).unwrap_or_else(|e| panic!("{e}"));
    for slot in &slots {
        kernel.delete_file(&cx, &slot.lock().unwrap());
    }
    audit::check_kernel(&kernel, &cx).unwrap_or_else(|e| panic!("{e}"));
    let stats = &kernel.mem.node(NodeId(0)).stats;
    for item in [NodeStat::FilePages, NodeStat::Dirty, NodeStat::Writeback, NodeStat::Mapped] {
        assert_eq!(stats.read_exact(item as usize), 0, "{item:?}");
    }
}

/// A thread on its CPU.
struct Worker<'w> {
    kernel: &'w Kernel<NativeHost>,
    cx: Cx<'w, NativeHost>,
    mm: Arc<Mm<NativeHost>>,
    slots: &'w Slots,
    pages: u32,
    state: u64,
}

impl Worker<'_> {
    fn below(&mut self, n: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 33) % n
    }

    fn step(&mut self) {
        let slot = self.below(self.slots.len() as u64) as usize;
        let file = Arc::clone(&self.slots[slot].lock().unwrap());
        let open = self.kernel.open(&self.cx, &file);
        match self.below(1000) {
            0..400 => self.read(&open),
            400..700 => self.write(&open),
            700..900 => self.map(&open),
            900..980 => {
                let at = self.below(u64::from(self.pages)) * PAGE;
                let len = self.below(200) * PAGE;
                self.kernel.fadvise(&self.cx, &open, at, len, FileAdvice::DontNeed);
            }
            980..990 => self.kernel.drop_caches(&self.cx, 3),
            990..998 => {
                let pages = self.below(u64::from(self.pages)) as u32;
                self.kernel.truncate(&self.cx, &file, pages);
            }
            _ => self.replace(slot),
        }
    }

    fn replace(&mut self, slot: usize) {
        let fresh = new_file(self.kernel, &self.cx, slot, self.pages);
        let old = std::mem::replace(&mut *self.slots[slot].lock().unwrap(), fresh);
        self.kernel.delete_file(&self.cx, &old);
    }

    fn read(&mut self, open: &OpenFile<NativeHost>) {
        let mut at = self.below(u64::from(self.pages)) * PAGE;
        for _ in 0..self.below(8) {
            let len = 1 + self.below(20 * PAGE);
            match self.kernel.file_read(&self.cx, open, at, len) {
                Ok(read) => at += read,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn write(&mut self, open: &OpenFile<NativeHost>) {
        let at = self.below(u64::from(self.pages) * PAGE);
        let len = (1 + self.below(4 * PAGE)).min(u64::from(self.pages) * PAGE - at);
        match self.kernel.file_write(&self.cx, open, at, len) {
            // Deleted meanwhile.
            Ok(_) | Err(Error::Invalid) => {}
            Err(error) => panic!("{error}"),
        }
        if self.below(20) == 0 {
            self.kernel.fsync(&self.cx, open).unwrap();
        }
    }

    fn map(&mut self, open: &Arc<OpenFile<NativeHost>>) {
        let nr = 1 + self.below(u64::from(self.pages.min(100)) - 1) as u32;
        let first = self.below(u64::from(self.pages - nr)) as u32;
        let backing = Backing::File { open: Arc::clone(open), page: first };
        let flags = VmaFlags::READ | VmaFlags::WRITE | VmaFlags::SHARED;
        let start = self.kernel.mmap(&self.cx, &self.mm, nr, 1, flags, backing).unwrap();
        for vpn in start..start + nr {
            let access = if self.below(10) == 0 { Access::Write } else { Access::Read };
            match self.kernel.touch(&self.cx, &self.mm, vpn, access) {
                // Truncated or deleted meanwhile.
                Ok(_) | Err(Error::Fault | Error::Invalid | Error::NoMemory) => {}
                Err(error) => panic!("{error}"),
            }
        }
        self.kernel.munmap(&self.cx, &self.mm, start, nr).unwrap();
    }
}
