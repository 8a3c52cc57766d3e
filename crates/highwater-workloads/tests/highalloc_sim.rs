//! stress-highalloc's parts on the simulated machine: trees, builds, attempts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use highwater_core::Kernel;
use highwater_core::audit::check_kernel;
use highwater_core::block::DeviceId;
use highwater_core::config::{Machine, preset};
use highwater_core::host::{Cx, HZ, Host, TaskFlags};
use highwater_core::page_alloc::Gfp;
use highwater_core::page_cache::{FileSpec, Filesystem};
use highwater_core::vmstat::{NodeStat, VmEvent};
use highwater_sim::cost::{CostModel, CostTable};
use highwater_sim::disk::DiskSpec;
use highwater_sim::engine::{JoinHandle, Placement};
use highwater_sim::host::SimHost;
use highwater_sim::machine::{MachineConfig, SimKernel, SimMachine};
use highwater_workloads::highalloc::{
    Build, Daemon, Disk, Pass, Programs, SystemSize, Tree, flush, pace_jiffies,
};
use highwater_workloads::stutterp::Stop;

const DISK: DeviceId = DeviceId(0);
const DISK_PAGES: u64 = 1 << 20;
const TOOLS: u32 = 64;
const TREE_BYTES: u64 = 8 << 20;

/// Processes as tasks of the simulation; counts them and their user time by program.
#[derive(Clone)]
struct Counted {
    machine: SimKernel,
    started: Rc<RefCell<BTreeMap<&'static str, u32>>>,
    user_ns: Rc<RefCell<BTreeMap<String, u64>>>,
    /// A program that is killed when it starts.
    killed: Option<&'static str>,
}

impl Programs<SimHost> for Counted {
    type Process<T: 'static> = JoinHandle<T>;

    fn compute(&self, cx: &Cx<'_, SimHost>, ns: u64) {
        let sim = cx.host.sim();
        let name = sim.task_name(sim.current().unwrap()).unwrap();
        *self.user_ns.borrow_mut().entry(name.to_string()).or_default() += ns;
        sim.compute(ns);
    }

    fn start<T: 'static>(
        &self,
        name: &'static str,
        body: impl FnOnce(&Cx<'_, SimHost>) -> T + 'static,
    ) -> JoinHandle<T> {
        *self.started.borrow_mut().entry(name).or_default() += 1;
        let is_killed = self.killed == Some(name);
        self.machine.spawn_task(name, Placement::Anywhere, move |cx, _| {
            if is_killed {
                cx.signals().raise(TaskFlags::FATAL_SIGNAL);
            }
            body(cx)
        })
    }

    fn wait<T: 'static>(&self, process: JoinHandle<T>) -> Option<T> {
        process.join()
    }
}

fn machine(mib: u64) -> SimMachine {
    let shape = Machine::from_sizes("test", &[(mib << 20, vec![0, 1])]).unwrap();
    let costs = CostModel::new(&CostTable::server_3ghz());
    let mut config = MachineConfig::new(shape, costs, preset("kcompactd").unwrap());
    config.disks = vec![DiskSpec::sata_ssd("disk", DISK_PAGES)];
    SimMachine::boot(config).unwrap()
}

/// Runs a program, then audits.
fn run<T: 'static>(
    machine: &mut SimMachine,
    body: impl FnOnce(&Cx<'_, SimHost>, &Rc<Kernel<SimHost>>) -> T + 'static,
) -> T {
    let program = machine.spawn_task("program", Placement::Anywhere, body);
    machine.run().unwrap();
    let audit = machine.spawn_task("audit", Placement::Anywhere, |cx, kernel| {
        cx.host.sleep_jiffies(40 * HZ);
        check_kernel(kernel, cx).map(|_| ()).map_err(|error| error.to_string())
    });
    machine.run().unwrap();
    audit.take().unwrap().unwrap();
    program.take().unwrap()
}

fn disk(kernel: &Kernel<SimHost>, cx: &Cx<'_, SimHost>) -> Disk<SimHost> {
    Disk::new(kernel, cx, DISK, u64::from(TOOLS), DISK_PAGES)
}

/// rules/benchmarks#highalloc-tree.
#[test]
fn a_copy_is_as_large_and_what_the_filesystem_keeps_is_cached_too() {
    let mut machine = machine(128);
    let (files, cached, metadata, slab) = run(&mut machine, |cx, kernel| {
        let disk = disk(kernel, cx);
        let tree = Tree::unpack(kernel, cx, &disk, TREE_BYTES).unwrap();
        let copy = tree.copy(kernel, cx, &disk).unwrap();
        assert_eq!(copy.len(), tree.len());
        let pages = |file: &Arc<highwater_core::page_cache::File<SimHost>>| file.nr_pages();
        let cached: u64 = kernel.all_files(cx).iter().map(pages).sum();
        let metadata = disk.metadata().nr_pages();
        let slab = kernel.mem.nodes()[0]
            .stats
            .read_exact(highwater_core::vmstat::NodeStat::SlabReclaimable as usize);
        for tree in [tree, copy] {
            tree.delete(kernel, cx, &disk).unwrap();
        }
        (tree_len(TREE_BYTES), cached, metadata, slab)
    });
    assert_eq!(cached, 2 * Tree::<SimHost>::pages(TREE_BYTES) + metadata);
    // Two pages of metadata for 16 files.
    assert_eq!(metadata, 2 * (2 * files).div_ceil(16));
    // An inode and a dentry each, 1.2 KiB; a buffer head of each page.
    let buffers = cached / 39;
    let slab = slab - buffers;
    assert!((2 * files * 1216 / 4096..2 * files * 2048 / 4096).contains(&slab), "{slab}");
}

/// Files of a tree of `bytes` bytes: 16 of them are 49 pages.
fn tree_len(bytes: u64) -> u64 {
    bytes / 4096 * 16 / 49
}

/// A build of a tree on a machine, and its counts.
fn build(
    machine: &SimKernel,
    cx: &Cx<'_, SimHost>,
    disk: &Rc<Disk<SimHost>>,
    compression: f64,
    killed: Option<&'static str>,
) -> (Build<SimHost, Counted>, Counted) {
    let (kernel, disk) = (Rc::clone(&machine.kernel), Rc::clone(disk));
    let tree = Rc::new(Tree::unpack(&kernel, cx, &disk, TREE_BYTES).unwrap());
    let tools = kernel.create_file(cx, FileSpec::new(Filesystem::EXT4, DISK, 0, TOOLS));
    let (started, user_ns) = (Rc::default(), Rc::default());
    let programs = Counted { machine: machine.clone(), started, user_ns, killed };
    let counts = programs.clone();
    (Build { kernel, tree, tools, disk, programs, compression, seed: 7 }, counts)
}

fn anon_pages(kernel: &Kernel<SimHost>) -> u64 {
    kernel.mem.nodes()[0].stats.read_exact(NodeStat::AnonPages as usize)
}

/// rules/benchmarks#highalloc-builds.
#[test]
fn compiles_are_processes_and_leave_files_and_no_memory() {
    let mut machine = machine(256);
    let parts = SimKernel::clone(&machine);
    let (made, anon, counts) = run(&mut machine, move |cx, kernel| {
        let disk = Rc::new(disk(kernel, cx));
        let (build, counts) = build(&parts, cx, &disk, 10.0, None);
        let built = build.some(cx, 17).unwrap();
        assert_eq!(built.compiles, 17);
        let sizes: Vec<u64> = built.made.iter().map(|entry| entry.bytes()).collect();
        (sizes, anon_pages(kernel), counts)
    });
    // An object and its dependencies each, and 16 objects linked into one.
    assert_eq!(made.len(), 2 * 17 + 1);
    let objects: u64 = made[..32].iter().step_by(2).sum();
    assert_eq!(made[32], objects);
    assert!(made[..32].iter().step_by(2).all(|bytes| (30 << 10..=100 << 10).contains(bytes)));
    assert_eq!(anon, 0);
    let each = [("as", 17), ("cc1", 17), ("fixdep", 17), ("gcc", 17)];
    let all = [("ld", 1), ("mv", 17), ("rm", 17), ("sh", 18)];
    let expected: BTreeMap<&str, u32> = each.into_iter().chain(all).collect();
    assert_eq!(*counts.started.borrow(), expected);
    // 29.6 us for each page, a tenth of that here.
    let user_ns = counts.user_ns.borrow();
    let pages = |program: &str| user_ns[program] / 2960;
    assert_eq!(["sh", "gcc", "as"].map(pages), [18 * 85, 17 * 200, 17 * 800]);
    assert_eq!(["fixdep", "rm", "mv"].map(pages), [17 * 85, 17 * 98, 17 * 129]);
    assert_eq!(pages("ld"), objects / 4096 + 1);
    // A table of 2 or 4 MiB, and a heap of 20 to 60 MiB.
    assert!((17 * (512 + 5120)..17 * (1024 + 15_360)).contains(&pages("cc1")));
}

/// rules/benchmarks#highalloc-builds.
#[test]
fn a_stopped_build_leaves_no_process() {
    let mut machine = machine(256);
    let parts = SimKernel::clone(&machine);
    let ended = run(&mut machine, move |cx, kernel| {
        let disk = Rc::new(disk(kernel, cx));
        // Stopped while processes start, work, and wait for each other: all of them end.
        [0, 1, 2, 3, 5, 300, 1100, 2300].map(|ms| {
            let stop = Rc::new(Stop::default());
            let told = Rc::clone(&stop);
            let builder = parts.spawn_task("make", Placement::Anywhere, {
                let (build, _) = build(&parts, cx, &disk, 1.0, None);
                move |cx, _| build.run(cx, &told).unwrap().compiles
            });
            cx.host.sleep_ns(ms * 1_000_000);
            stop.set();
            (builder.join().unwrap(), anon_pages(kernel))
        })
    });
    assert!(ended[..5].iter().all(|&ended| ended == (0, 0)), "{ended:?}");
    assert!(ended.iter().all(|&(_, anon)| anon == 0), "{ended:?}");
    assert!((2..12).contains(&ended[7].0), "{ended:?}");
}

/// If one process is killed, the others of the compile end, and so does the build.
#[test]
fn a_compile_ends_with_any_of_its_processes() {
    for killed in ["sh", "gcc", "cc1", "as", "fixdep", "rm", "mv"] {
        let mut machine = machine(256);
        let parts = SimKernel::clone(&machine);
        let (built, anon) = run(&mut machine, move |cx, kernel| {
            let disk = Rc::new(disk(kernel, cx));
            let (build, _) = build(&parts, cx, &disk, 10.0, Some(killed));
            let built = build.some(cx, 3).unwrap();
            (built.compiles, anon_pages(kernel))
        });
        assert_eq!((built, anon), (0, 0), "{killed}");
    }
}

/// rules/benchmarks#highalloc-system.
#[test]
fn a_system_gets_its_memory_bit_by_bit_and_keeps_it_to_its_end() {
    const START_NS: u64 = 10_000_000_000;
    let mut machine = machine(256);
    // A sixteenth of a server's: four programs.
    let size = SystemSize::new(1_010_000 / 16, 1.0);
    assert_eq!(size.daemons, 4);
    let spec = FileSpec::new(Filesystem::EXT4, DISK, 0, size.text_pages);
    let text = machine.kernel.create_file(&machine.outside(), spec);
    let stop = Rc::new(Stop::default());
    for number in 0..size.daemons {
        let (stop, text) = (Rc::clone(&stop), Arc::clone(&text));
        machine.spawn_task(format!("daemon/{number}"), Placement::Anywhere, move |cx, kernel| {
            let seed = u64::from(number);
            let daemon = Daemon {
                kernel,
                size,
                number,
                text: &text,
                start_ns: START_NS,
                compression: 1.0,
                seed,
            };
            daemon.run(cx, &stop).unwrap();
        });
    }
    let levels = run(&mut machine, move |cx, kernel| {
        let stats = &kernel.mem.nodes()[0].stats;
        let levels = || {
            let items = [NodeStat::AnonPages, NodeStat::Shmem, NodeStat::Mapped];
            items.map(|item| stats.read_exact(item as usize))
        };
        cx.host.sleep_ns(START_NS / 2);
        let half = levels();
        cx.host.sleep_ns(3 * START_NS);
        let all = levels();
        stop.set();
        cx.host.sleep_ns(2 * START_NS);
        for file in kernel.all_files(cx) {
            kernel.delete_file(cx, &file);
        }
        [half, all, levels()]
    });
    let [half, all, end] = levels;
    // 27,795, 4,169 and 14,099 pages for 4 GiB; the last step of a heap is a whole one.
    let is_near = |pages: u64, of: u64| (of / 16 - 8..of / 16 + 4 * 32).contains(&pages);
    assert!(is_near(all[0], 27_795) && is_near(all[1], 4169) && is_near(all[2], 14_099), "{all:?}");
    assert!((all[0] / 5..all[0] * 4 / 5).contains(&half[0]), "{half:?} of {all:?}");
    assert_eq!(end, [0; 3]);
}

/// rules/benchmarks#highalloc-pass.
#[test]
fn attempts_keep_their_pace_and_what_they_get() {
    let mut machine = machine(128);
    run(&mut machine, |cx, kernel| {
        let spin = |cx: &Cx<'_, SimHost>| {
            cx.host.sim().charge(1_000_000);
            cx.host.sim().yield_now();
        };
        let free = || kernel.mem.nr_free_pages();
        let before = free();
        let begin = cx.host.jiffies();
        let pass = Pass {
            kernel,
            gfp: Gfp::GFP_NOWAIT | Gfp::HIGH | Gfp::COMP,
            attempts: 60,
            pace_jiffies: pace_jiffies(125_000_000),
            spin: &spin,
        };
        let mut end = pass.run(cx);
        // 59 waits of 31 ticks.
        assert_eq!((end.attempts_ns.len(), cx.host.jiffies() - begin), (60, 59 * 31));
        let held = end.successes();
        assert!((20..60).contains(&held), "{held}: less memory than is asked for");
        assert!(before - free() >= 512 * held);
        end.release(kernel, cx);
        assert_eq!(end.successes(), 0);
        assert!(before.abs_diff(free()) < 512, "all are free again");
    });
}

#[test]
fn a_file_as_large_as_memory_takes_the_place_of_all_others_and_goes() {
    let mut machine = machine(64);
    let (left, stolen) = run(&mut machine, |cx, kernel| {
        let disk = disk(kernel, cx);
        let tree = Tree::unpack(kernel, cx, &disk, TREE_BYTES).unwrap();
        flush(kernel, cx, &disk, 64 << 20).unwrap();
        let cached: u64 = kernel.all_files(cx).iter().map(|file| file.nr_pages()).sum();
        tree.delete(kernel, cx, &disk).unwrap();
        let stolen = [VmEvent::PgstealKswapd, VmEvent::PgstealDirect];
        (cached, stolen.map(|event| kernel.mem.events.read(event)).iter().sum::<u64>())
    });
    assert!(left < Tree::<SimHost>::pages(TREE_BYTES) / 2, "{left}");
    // Written once, read once, each time more than fits.
    assert!(stolen > (64 << 8), "{stolen}");
}
