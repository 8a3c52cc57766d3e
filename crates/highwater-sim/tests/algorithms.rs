//! Every reclaim algorithm under pressure, with time: hogs that swap, a reader, a mapping and a
//! writer on a machine that is too small for them. The machine is audited while memory is full and
//! after everything is freed. Each run is made twice and must end the same way.

use std::cell::Cell;
use std::rc::Rc;

use highwater_core::Kernel;
use highwater_core::audit::{KernelReport, check_kernel};
use highwater_core::block::DeviceId;
use highwater_core::config::{Algorithm, Machine, Policy, preset};
use highwater_core::host::Cx;
use highwater_core::page_cache::{FileSpec, Filesystem};
use highwater_core::swap::SwapSpec;
use highwater_core::vm::{Access, Backing, Mm, VmaFlags};
use highwater_core::vmstat::{NodeStat, VmEvent};
use highwater_sim::cost::{CostModel, CostTable};
use highwater_sim::digest::Digest;
use highwater_sim::disk::DiskSpec;
use highwater_sim::engine::Placement;
use highwater_sim::host::SimHost;
use highwater_sim::machine::{MachineConfig, SimMachine};

const PAGE: u64 = 4096;
const SECOND: u64 = 1_000_000_000;
/// Time limit of every run: an hour of virtual time.
const LIMIT_NS: u64 = 3600 * SECOND;
const MIB: u64 = 256;
const NR_TASKS: u32 = 5;
const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

/// 64 MiB, two nodes, four CPUs.
fn boot(policy: Policy, seed: u64) -> SimMachine {
    let nodes = [(32 << 20, vec![0, 1]), (32 << 20, vec![2, 3])];
    let machine = Machine::from_sizes("test", &nodes).expect("machine");
    let costs = CostModel::new(&CostTable::server_3ghz());
    let mut config = MachineConfig::new(machine, costs, policy);
    config.disks = vec![DiskSpec::nvme("data", 1 << 20), DiskSpec::sata_ssd("swap", 1 << 18)];
    config.swap = vec![SwapSpec { device: DeviceId(1), pages: 1 << 16, priority: -2 }];
    config.seed = seed;
    SimMachine::boot(config).expect("boot")
}

type Task<'a, 'h> = (&'a Cx<'h, SimHost>, &'a Kernel<SimHost>);

/// The work of task `which` of the mixture.
fn work((cx, kernel): Task<'_, '_>, mm: &Mm<SimHost>, which: u32) {
    if which < 2 {
        let pages = 40 * MIB as u32;
        let start = kernel.mmap(cx, mm, pages, 1, RW, Backing::Anon).expect("mmap");
        for _ in 0..3 {
            kernel.touch_range(cx, mm, start, pages, Access::Write).expect("there is swap");
            // A part of it is used more than the rest.
            for _ in 0..4 {
                kernel.touch_range(cx, mm, start, 2 * MIB as u32, Access::Read).expect("swap");
            }
        }
        return;
    }
    let pages = 48 * MIB;
    let spec = FileSpec::new(Filesystem::EXT4, DeviceId(0), u64::from(which) * pages, pages as u32);
    let open = kernel.open(cx, &kernel.create_file(cx, spec));
    match which {
        2 => {
            for at in (0..2 * pages).step_by(16) {
                let read = kernel.file_read(cx, &open, at % pages * PAGE, 16 * PAGE);
                assert_eq!(read, Ok(16 * PAGE));
            }
        }
        3 => {
            let backing = Backing::File { open, page: 0 };
            let flags = VmaFlags::READ | VmaFlags::SHARED | VmaFlags::EXEC;
            let start = kernel.mmap(cx, mm, pages as u32, 1, flags, backing).expect("mmap");
            for _ in 0..2 {
                let touched = kernel.touch_range(cx, mm, start, pages as u32, Access::Read);
                touched.expect("within the file");
            }
        }
        _ => {
            for at in (0..pages).step_by(64) {
                assert_eq!(kernel.file_write(cx, &open, at * PAGE, 64 * PAGE), Ok(64 * PAGE));
            }
        }
    }
}

/// Runs the mixture. Returns the machine and the audits made while memory was full and at the end.
fn run(policy: Policy, seed: u64) -> (SimMachine, [KernelReport; 2]) {
    let mut machine = boot(policy, seed);
    let (working, audited) = (Rc::new(Cell::new(NR_TASKS)), Rc::new(Cell::new(false)));
    for which in 0..NR_TASKS {
        let (working, audited) = (Rc::clone(&working), Rc::clone(&audited));
        machine.spawn_task(format!("task {which}"), Placement::Anywhere, move |cx, kernel| {
            let mm = kernel.create_mm(cx).expect("space");
            mm.add_task(cx);
            work((cx, kernel), &mm, which);
            working.set(working.get() - 1);
            while !audited.get() {
                cx.host.sim().sleep_ns(SECOND);
            }
            kernel.exit_mm(cx, &mm);
            mm.remove_task(cx);
        });
    }
    let auditor = machine.spawn_task("auditor", Placement::Anywhere, move |cx, kernel| {
        while working.get() > 0 {
            cx.host.sim().sleep_ns(SECOND);
        }
        // Until all dirty pages are written.
        cx.host.sim().sleep_ns(60 * SECOND);
        let report = check_kernel(kernel, cx);
        audited.set(true);
        report
    });
    machine.run_within(LIMIT_NS).expect("run");
    let full = auditor.take().expect("done").expect("audit of a full machine");
    let empty = check_kernel(&machine.kernel, &machine.outside()).expect("audit");
    (machine, [full, empty])
}

/// The mixture on a policy with a reclaim algorithm: memory was reclaimed, all of it was counted,
/// nothing was lost.
fn pressed(base: &str, algorithm: Algorithm, seed: u64) -> Digest {
    let mut policy = preset(base).expect("preset");
    policy.reclaim.algorithm = algorithm;
    let (machine, [full, empty]) = run(policy, seed);
    let who = format!("{base}, {algorithm:?}");
    let mem = &machine.kernel.mem;
    let sum = |events: &[VmEvent]| events.iter().map(|&e| mem.events.read(e)).sum::<u64>();

    assert!(full.on_lists > 20 * MIB && full.swap_entries > 0, "{who}: {full:?}");
    assert_eq!((empty.tables, empty.entries, empty.swap_entries), (0, 0, 0), "{who}: {empty:?}");
    assert_eq!(sum(&[VmEvent::OomKill]), 0, "{who}");
    let scanned = sum(&[VmEvent::PgscanKswapd, VmEvent::PgscanDirect]);
    let stolen = sum(&[VmEvent::PgstealKswapd, VmEvent::PgstealDirect]);
    assert_eq!(scanned, sum(&[VmEvent::PgscanAnon, VmEvent::PgscanFile]), "{who}");
    assert_eq!(stolen, sum(&[VmEvent::PgstealAnon, VmEvent::PgstealFile]), "{who}");
    // Each hog's memory and the files are more than the machine's, several times over.
    assert!(stolen > 3 * 64 * MIB && stolen <= scanned, "{who}: {stolen} of {scanned}");
    assert!(sum(&[VmEvent::Pswpout]) > 0 && sum(&[VmEvent::Pswpin]) > 0, "{who}");
    for node in mem.nodes() {
        for item in [NodeStat::IsolatedAnon, NodeStat::IsolatedFile] {
            assert_eq!(node.stats.read_exact(item as usize), 0, "{who}: {item:?}");
        }
    }
    machine.digest()
}

#[test]
fn every_algorithm_bears_pressure_and_the_same_seed_is_the_same_run() {
    let digests: Vec<u64> = Algorithm::ALL
        .iter()
        .map(|&algorithm| {
            let [one, two] = [(); 2].map(|()| pressed("6.1", algorithm, 7).value());
            assert_eq!(one, two, "{algorithm:?}");
            one
        })
        .collect();
    for (i, digest) in digests.iter().enumerate() {
        assert!(!digests[..i].contains(digest), "{:?} is another run", Algorithm::ALL[i]);
    }
}

/// Older kernels have lists per zone, balance by rotation, anonymous pages that start active, and
/// other throttling. Reclaim algorithms do not know these and work with all of them.
#[test]
fn every_algorithm_bears_older_kernels() {
    for base in ["4.3", "5.4", "5.16"] {
        for &algorithm in Algorithm::ALL {
            // There are no generations of zones: such a kernel does not boot.
            if base == "4.3" && algorithm == Algorithm::Mglru {
                continue;
            }
            pressed(base, algorithm, 3);
        }
    }
}
