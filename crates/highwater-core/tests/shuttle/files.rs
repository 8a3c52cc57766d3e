//! Files under chosen schedules: threads read, write, map, page out, drop, cut and delete the same
//! few pages.
//!
//! At the end the kernel is whole, and when the files are gone nothing of them is left.

use std::sync::Arc;

use highwater_core::Kernel;
use highwater_core::audit;
use highwater_core::block::{DeviceId, DeviceSpec};
use highwater_core::config::{Machine, NodeSpec, Tunables, ZoneSpec, preset};
use highwater_core::host::{CpuId, Cx};
use highwater_core::kernel::{Error, KernelSpec};
use highwater_core::page_alloc::boot;
use highwater_core::page_cache::{File, FileSpec, Filesystem, OpenFile};
use highwater_core::syscall::{FileAdvice, MemoryAdvice};
use highwater_core::vm::{Access, Backing, VmaFlags};
use highwater_core::vmstat::NodeStat;
use highwater_core::zone::{NodeId, ZoneType};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Mutex;
use shuttle::thread;

use super::host::ShuttleHost;
use super::run_all;

const NR_CPUS: usize = 3;
const NR_FILES: usize = 2;
/// Two nodes of a tree.
const PAGES: u32 = 70;
/// Steps of a thread.
const STEPS: usize = 6;
const PAGE: u64 = 4096;

#[test]
fn files_survive() {
    run_all(scenario);
}

struct World {
    host: ShuttleHost,
    kernel: Kernel<ShuttleHost>,
    files: Vec<Mutex<Arc<File<ShuttleHost>>>>,
}

fn new_file(
    kernel: &Kernel<ShuttleHost>,
    cx: &Cx<'_, ShuttleHost>,
    slot: usize,
) -> Arc<File<ShuttleHost>> {
    let spec = FileSpec::new(Filesystem::EXT4, DeviceId(0), slot as u64 * 1000, PAGES);
    kernel.create_file(cx, spec)
}

impl World {
    fn new() -> World {
        let host = ShuttleHost::default();
        let node = NodeSpec {
            cpus: (0..NR_CPUS as u16).collect(),
            zones: vec![ZoneSpec::full(ZoneType::Dma32, 4096, 2048)],
        };
        let machine = Machine {
            name: "shuttle".into(),
            nodes: vec![node],
            distances: vec![vec![10]],
            tunables: Tunables::default(),
            ..Machine::default()
        };
        let mut policy = preset("6.1").expect("a preset");
        policy.reclaim.lru_batch = 3;
        let memory = boot(&host, &machine, &policy).expect("a possible machine");
        let disk = DeviceSpec { depth: 2, max_request_pages: 8, ..DeviceSpec::nvme(10_000) };
        let spec = KernelSpec { devices: vec![disk], swap: Vec::new(), groups: 0 };
        let cx = Cx::new(&host, CpuId(0));
        let kernel = Kernel::new(&cx, memory, &spec).expect("a kernel");
        let files = (0..NR_FILES).map(|slot| Mutex::new(new_file(&kernel, &cx, slot))).collect();
        World { host, kernel, files }
    }
}

fn scenario() {
    let world = Arc::new(World::new());
    let threads: Vec<_> = (0..NR_CPUS)
        .map(|cpu| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let cx = Cx::new(&world.host, CpuId(cpu as u16));
                let worker = Worker { world: &world, cx };
                (0..STEPS).for_each(|_| worker.step());
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("the thread ends well");
    }
    let (kernel, cx) = (&world.kernel, Cx::new(&world.host, CpuId(0)));
    audit::check_kernel(kernel, &cx).expect("the kernel is whole");
    for file in &world.files {
        kernel.delete_file(&cx, &file.lock().unwrap());
    }
    kernel.lru_add_drain_all(&cx);
    let report = audit::check_kernel(kernel, &cx).expect("the kernel is whole");
    let stats = &kernel.mem.node(NodeId(0)).stats;
    let slab = stats.read_exact(NodeStat::SlabReclaimable as usize)
        + stats.read_exact(NodeStat::SlabUnreclaimable as usize);
    assert_eq!(report.memory.used, 1 + slab, "the zero page and slabs that are kept");
}

/// A thread on its CPU.
struct Worker<'w> {
    world: &'w World,
    cx: Cx<'w, ShuttleHost>,
}

impl Worker<'_> {
    fn step(&self) {
        let (kernel, cx) = (&self.world.kernel, &self.cx);
        let slot = thread_rng().gen_range(0..NR_FILES);
        let file = Arc::clone(&self.world.files[slot].lock().unwrap());
        let open = kernel.open(cx, &file);
        let page = thread_rng().gen_range(0..PAGES);
        let pos = u64::from(page) * PAGE;
        match thread_rng().gen_range(0..20) {
            0..6 => drop(kernel.file_read(cx, &open, pos, 5 * PAGE).expect("a read")),
            6..10 => {
                let len = (3 * PAGE).min(u64::from(PAGES) * PAGE - pos) - 100;
                match kernel.file_write(cx, &open, pos + 50, len) {
                    Ok(_) | Err(Error::Invalid) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            10..14 => self.map(&open, page),
            14 => kernel.fadvise(cx, &open, pos, 10 * PAGE, FileAdvice::DontNeed),
            15 => kernel.drop_caches(cx, 1),
            16 => drop(kernel.drop_shadow_nodes(cx, NodeId(0), 2)),
            17 => kernel.truncate(cx, &file, page),
            18 => kernel.fsync(cx, &open).expect("a good disk"),
            _ => {
                let fresh = new_file(kernel, cx, slot);
                let mut file = self.world.files[slot].lock().unwrap();
                let old = std::mem::replace(&mut *file, fresh);
                drop(file);
                kernel.delete_file(cx, &old);
            }
        }
    }

    /// Maps a few pages, touches them, has some paged out, unmaps them.
    fn map(&self, open: &Arc<OpenFile<ShuttleHost>>, page: u32) {
        let (kernel, cx) = (&self.world.kernel, &self.cx);
        let mm = kernel.create_mm(cx).expect("a space");
        mm.add_task(cx);
        let nr = (PAGES - page).min(20);
        let backing = Backing::File { open: Arc::clone(open), page };
        let flags = VmaFlags::READ | VmaFlags::WRITE | VmaFlags::SHARED;
        let start = kernel.mmap(cx, &mm, nr, 1, flags, backing).expect("a mapping");
        for vpn in (start..start + nr).step_by(3) {
            let access = if thread_rng().gen_bool(0.3) { Access::Write } else { Access::Read };
            match kernel.touch(cx, &mm, vpn, access) {
                // Cut off or deleted meanwhile.
                Ok(_) | Err(Error::Fault | Error::Invalid | Error::NoMemory) => {}
                Err(error) => panic!("{error}"),
            }
        }
        if thread_rng().gen_bool(0.5) {
            kernel.madvise(cx, &mm, start, nr / 2, MemoryAdvice::PageOut).expect("advice");
        }
        kernel.exit_mm(cx, &mm);
        mm.remove_task(cx);
    }
}
