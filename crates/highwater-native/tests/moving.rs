//! Threads against migration: the contents of a page move with it, and no thread finds a page in
//! two places.
//!
//! One thread compacts all memory over and over. The others write tags into pages of a file and
//! read them back. They also map and touch anonymous memory, of which they free every other page.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Instant;

use highwater_core::Kernel;
use highwater_core::audit;
use highwater_core::block::{DeviceId, DeviceSpec};
use highwater_core::config::{Machine, preset};
use highwater_core::host::{CpuId, Cx, Host};
use highwater_core::kernel::KernelSpec;
use highwater_core::page::PAGE_SIZE;
use highwater_core::page_alloc::boot;
use highwater_core::page_cache::{File, FileSpec, Filesystem};
use highwater_core::syscall::MemoryAdvice;
use highwater_core::vm::{Access, Backing, VmaFlags};
use highwater_core::vmstat::VmEvent;
use highwater_native::{NativeHost, NativeOptions};

use crate::case_time;

const NR_WORKERS: u16 = 3;
const NR_CPUS: u16 = 12;
const FILE_PAGES: u32 = 1500;

/// Writes the number and version of a page at its start and at its end.
fn write_tag(host: &NativeHost, folio: highwater_core::page::Folio, index: u32, version: u32) {
    for offset in [0, PAGE_SIZE - 8] {
        host.frame_write(folio.pfn(), offset, &index.to_le_bytes());
        host.frame_write(folio.pfn(), offset + 4, &version.to_le_bytes());
    }
}

fn read_tag(host: &NativeHost, folio: highwater_core::page::Folio, offset: usize) -> (u32, u32) {
    let (mut index, mut version) = ([0; 4], [0; 4]);
    host.frame_read(folio.pfn(), offset, &mut index);
    host.frame_read(folio.pfn(), offset + 4, &mut version);
    (u32::from_le_bytes(index), u32::from_le_bytes(version))
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.0 >> 33) % u64::from(n)) as u32
    }
}

/// Reads the tag of a page under its lock and writes the next one.
fn visit(
    kernel: &Kernel<NativeHost>,
    cx: &Cx<'_, NativeHost>,
    file: &File<NativeHost>,
    versions: &[AtomicU32],
    index: u32,
) {
    let folio = kernel.find_lock_page(cx, file, index).expect("the file stays cached");
    let expected = (index, versions[index as usize].load(SeqCst));
    for offset in [0, PAGE_SIZE - 8] {
        assert_eq!(read_tag(cx.host, folio, offset), expected, "page {index}, {folio:?}");
    }
    let next = versions[index as usize].fetch_add(1, SeqCst) + 1;
    write_tag(cx.host, folio, index, next);
    kernel.unlock_page(cx, folio);
    kernel.put_page(cx, folio);
}

/// Maps and touches memory, frees every other page of it, touches the rest, unmaps it.
fn churn(kernel: &Kernel<NativeHost>, cx: &Cx<'_, NativeHost>, pages: u32) {
    let mm = kernel.create_mm(cx).unwrap();
    mm.add_task(cx);
    let flags = VmaFlags::READ | VmaFlags::WRITE;
    let start = kernel.mmap(cx, &mm, pages, 1, flags, Backing::Anon).unwrap();
    kernel.touch_range(cx, &mm, start, pages, Access::Write).unwrap();
    for page in (0..pages).step_by(2) {
        kernel.madvise(cx, &mm, start + page, 1, MemoryAdvice::DontNeed).unwrap();
    }
    kernel.touch_range(cx, &mm, start, pages, Access::Read).unwrap();
    kernel.exit_mm(cx, &mm);
    mm.remove_task(cx);
}

#[test]
fn pages_keep_what_they_hold_while_they_move() {
    let end = Instant::now() + case_time();
    let machine = Machine::from_sizes("moving", &[(64 << 20, (0..NR_CPUS).collect())]).unwrap();
    let options = NativeOptions::default();
    let host = NativeHost::new(machine.nr_cpus(), machine.end_pfn(), &options).unwrap();
    let memory = boot(&host, &machine, &preset("6.1").unwrap()).unwrap();
    let spec = KernelSpec { devices: vec![DeviceSpec::nvme(100_000)], swap: Vec::new(), groups: 0 };
    let kernel = Kernel::new(&Cx::new(&host, CpuId(0)), memory, &spec).unwrap();
    let (file, versions) = {
        let _lease = host.enter(CpuId(0)).unwrap();
        let cx = Cx::new(&host, CpuId(0));
        let bytes = u64::from(FILE_PAGES) * PAGE_SIZE as u64;
        let spec = FileSpec::new(Filesystem::EXT4, DeviceId(0), 0, FILE_PAGES).with_size(bytes);
        let file = kernel.create_file(&cx, spec);
        let open = kernel.open(&cx, &file);
        kernel.file_read(&cx, &open, 0, bytes).unwrap();
        let versions: Vec<AtomicU32> = (0..FILE_PAGES).map(|_| AtomicU32::new(0)).collect();
        for index in 0..FILE_PAGES {
            let folio = kernel.find_lock_page(&cx, &file, index).unwrap();
            write_tag(&host, folio, index, 0);
            kernel.unlock_page(&cx, folio);
            kernel.put_page(&cx, folio);
        }
        (file, versions)
    };
    std::thread::scope(|scope| {
        let daemons: Vec<_> = kernel.daemons().into_iter().enumerate().collect();
        for (at, daemon) in daemons {
            let (host, kernel) = (&host, &kernel);
            scope.spawn(move || {
                let cpu = CpuId(NR_WORKERS + at as u16);
                let _lease = host.enter(cpu).unwrap();
                kernel.run_daemon(&Cx::new(host, cpu), daemon);
            });
        }
        let workers: Vec<_> = (0..NR_WORKERS)
            .map(|cpu| {
                let (host, kernel, file, versions) = (&host, &kernel, &file, &*versions);
                scope.spawn(move || {
                    let _lease = host.enter(CpuId(cpu)).unwrap();
                    let cx = Cx::new(host, CpuId(cpu));
                    let mut random = Random(u64::from(cpu) + 1);
                    while Instant::now() < end {
                        if cpu == 0 {
                            kernel.compact_memory(&cx);
                            continue;
                        }
                        (0..50).for_each(|_| {
                            visit(kernel, &cx, file, versions, random.below(FILE_PAGES));
                        });
                        churn(kernel, &cx, 200 + random.below(800));
                    }
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
    assert!(kernel.mem.events.read(VmEvent::PgmigrateSuccess) > 0, "something moved");
}
