//! stutterp on the simulated machine: results of its workers that must hold for all policies.

use std::rc::Rc;
use std::sync::Arc;

use highwater_core::Kernel;
use highwater_core::audit::check_kernel;
use highwater_core::block::DeviceId;
use highwater_core::config::{Machine, preset};
use highwater_core::host::{Cx, HZ, Host};
use highwater_core::page_cache::{File, FileSpec, Filesystem};
use highwater_core::swap::SwapSpec;
use highwater_core::vmstat::VmEvent;
use highwater_sim::cost::{CostModel, CostTable};
use highwater_sim::disk::DiskSpec;
use highwater_sim::engine::{JoinHandle, Placement};
use highwater_sim::host::SimHost;
use highwater_sim::machine::{MachineConfig, SimMachine};
use highwater_workloads::stutterp::{
    Hog, HogHabit, Latency, Reader, Sizes, Step, Stop, Writer, WriterHabit,
};

const MEMORY: u64 = 64 << 20;
const DISK: DeviceId = DeviceId(0);
const DISK_PAGES: u64 = 1 << 16;
/// Pages that the latency worker maps.
const PROBE: u32 = 256;
const MS: u64 = 1_000_000;

fn machine(swap_pages: u32, seed: u64) -> SimMachine {
    let shape = Machine::from_sizes("test", &[(MEMORY, vec![0, 1])]).unwrap();
    let costs = CostModel::new(&CostTable::server_3ghz());
    let mut config = MachineConfig::new(shape, costs, preset("6.1").unwrap());
    config.disks = vec![DiskSpec::sata_ssd("disk", DISK_PAGES)];
    if swap_pages > 0 {
        config.swap = vec![SwapSpec { device: DISK, pages: swap_pages, priority: 0 }];
    }
    config.seed = seed;
    SimMachine::boot(config).unwrap()
}

fn file(machine: &SimMachine, start: u64, pages: u32) -> Arc<File<SimHost>> {
    let spec =
        FileSpec::new(Filesystem { has_writepage: false, ..Filesystem::EXT4 }, DISK, start, pages);
    machine.kernel.create_file(&machine.outside(), spec)
}

fn audited(machine: &mut SimMachine) {
    let audit = machine.spawn_task("audit", Placement::Anywhere, |cx, kernel| {
        cx.host.sleep_jiffies(40 * HZ);
        check_kernel(kernel, cx).map(|_| ()).map_err(|error| error.to_string())
    });
    machine.run().unwrap();
    audit.take().unwrap().unwrap();
}

type Body<T> = Box<dyn FnOnce(&Cx<'_, SimHost>, &Rc<Kernel<SimHost>>) -> T>;

fn spawn<T: 'static>(machine: &SimMachine, name: &str, body: Body<T>) -> JoinHandle<T> {
    machine.spawn_task(name.to_owned(), Placement::Anywhere, body)
}

#[test]
fn alone_the_latency_worker_only_faults() {
    let mut machine = machine(0, 1);
    let stop = Rc::new(Stop::default());
    let probe = {
        let stop = Rc::clone(&stop);
        spawn(
            &machine,
            "latency",
            Box::new(move |cx, kernel| {
                let (pages, name) = (PROBE, "mmap-1");
                Latency { kernel, pages, sleep_ns: 5 * MS, name, stop: &stop }.run(cx).unwrap()
            }),
        )
    };
    machine.spawn_task("clock", Placement::Anywhere, move |cx, _| {
        cx.host.sleep_ns(1000 * MS);
        stop.set();
    });
    machine.run().unwrap();
    let samples = probe.take().unwrap();
    // 256 faults take a fraction of a millisecond each round: nearly 200 rounds in a second.
    assert!((170..=200).contains(&samples.len()), "{}", samples.len());
    assert!(samples.iter().all(|&ns| ns > 100_000 && ns < MS), "{samples:?}");
    let faults = machine.kernel.mem.events.read(VmEvent::Pgfault);
    assert_eq!(faults, samples.len() as u64 * u64::from(PROBE));
    audited(&mut machine);
}

struct Result {
    samples: Vec<u64>,
    sweeps: u64,
    written: u64,
    read: u64,
    digest: u64,
}

fn everybody(seed: u64) -> Result {
    let mut machine = machine(1 << 14, seed);
    let step = Step::new(8, 1, Sizes::with_grain(MEMORY, 20, 4096));
    assert_eq!((step.writers, step.hogs), (3, 3));
    let stop = Rc::new(Stop::default());
    let mut at = 1 << 14;
    let mut files = |n: u32, pages: u32| -> Vec<Arc<File<SimHost>>> {
        (0..n)
            .map(|_| {
                at += u64::from(pages);
                file(&machine, at - u64::from(pages), pages)
            })
            .collect()
    };
    let file_pages = (step.file_bytes >> 12) as u32;
    let of_writers: Vec<_> =
        (0..step.writers).map(|_| files(step.files_per_writer(true), file_pages)).collect();
    let of_reader = files(4, 512);
    let writers: Vec<_> = (0u64..)
        .zip(of_writers)
        .map(|(n, files)| {
            let stop = Rc::clone(&stop);
            spawn(
                &machine,
                "writer",
                Box::new(move |cx, kernel| {
                    let (files, block_bytes) = (&files[..], 64 << 10);
                    let (habit, seed, stop) = (WriterHabit::OncePerPass, seed + n, &stop);
                    Writer { kernel, files, block_bytes, habit, seed, stop }.run(cx).unwrap()
                }),
            )
        })
        .collect();
    let reader = {
        let stop = Rc::clone(&stop);
        spawn(
            &machine,
            "reader",
            Box::new(move |cx, kernel| {
                Reader { kernel, files: &of_reader, seed, stop: &stop }.run(cx).unwrap()
            }),
        )
    };
    let hogs: Vec<_> = (0..step.hogs)
        .map(|n| {
            let stop = Rc::clone(&stop);
            spawn(
                &machine,
                "hog",
                Box::new(move |cx, kernel| {
                    let pages = (step.hog_bytes >> 12) as u32;
                    let remap = HogHabit::RemapAfter { jiffies: 10 };
                    let habit = if n == 0 { remap } else { HogHabit::SweepOn };
                    Hog { kernel, pages, habit, stop: &stop }.run(cx).unwrap()
                }),
            )
        })
        .collect();
    let probe = {
        let stop = Rc::clone(&stop);
        spawn(
            &machine,
            "latency",
            Box::new(move |cx, kernel| {
                let (pages, name) = (PROBE, "mmap-8");
                Latency { kernel, pages, sleep_ns: 5 * MS, name, stop: &stop }.run(cx).unwrap()
            }),
        )
    };
    machine.spawn_task("clock", Placement::Anywhere, move |cx, _| {
        cx.host.sleep_ns(2000 * MS);
        stop.set();
    });
    machine.run().unwrap();
    assert!(machine.sim().now_ns() < 4000 * MS, "everybody looks at the signal");
    let result = Result {
        samples: probe.take().unwrap(),
        sweeps: hogs.iter().map(|hog| hog.take().unwrap()).sum(),
        written: writers.iter().map(|writer| writer.take().unwrap()).sum(),
        read: reader.take().unwrap(),
        digest: machine.digest().value(),
    };
    audited(&mut machine);
    result
}

#[test]
fn workers_together_press_memory_and_leave_nothing_behind() {
    let (a, b, other) = (everybody(1), everybody(1), everybody(2));
    assert!(a.sweeps > 0 && a.written > 1 << 20 && a.read > 0, "{} {}", a.sweeps, a.written);
    assert!(a.samples.iter().max() > Some(&MS), "reclaim shows: {:?}", a.samples);
    assert_eq!((a.digest, &a.samples), (b.digest, &b.samples));
    assert_ne!(a.digest, other.digest);
}

#[test]
fn who_is_killed_ends_quietly() {
    let mut machine = machine(0, 1);
    let stop = Rc::new(Stop::default());
    let pages = (MEMORY >> 12) as u32 * 6 / 10;
    let hogs: Vec<_> = (0..2)
        .map(|_| {
            let stop = Rc::clone(&stop);
            spawn(
                &machine,
                "hog",
                Box::new(move |cx, kernel| {
                    Hog { kernel, pages, habit: HogHabit::SweepOn, stop: &stop }.run(cx)
                }),
            )
        })
        .collect();
    machine.spawn_task("clock", Placement::Anywhere, move |cx, _| {
        cx.host.sleep_ns(5000 * MS);
        stop.set();
    });
    machine.run().unwrap();
    let sweeps: Vec<u64> = hogs.iter().map(|hog| hog.take().unwrap().unwrap()).collect();
    assert_eq!(machine.kernel.mem.events.read(VmEvent::OomKill), 1, "{sweeps:?}");
    assert!(sweeps.contains(&0) && sweeps.iter().any(|&n| n > 10), "{sweeps:?}");
    audited(&mut machine);
}
