//! Random work under memory pressure; afterwards every frame, entry, slot and counter is audited.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use highwater_core::Kernel;
use highwater_core::audit::{KernelReport, check_kernel};
use highwater_core::block::DeviceId;
use highwater_core::config::{Machine, preset};
use highwater_core::host::Cx;
use highwater_core::kernel::Error;
use highwater_core::page_cache::{FileSpec, Filesystem, OpenFile};
use highwater_core::swap::SwapSpec;
use highwater_core::syscall::{FileAdvice, MemoryAdvice};
use highwater_core::vm::{Access, Backing, Mm, VmaFlags};
use highwater_core::vmstat::VmEvent;
use highwater_sim::cost::{CostModel, CostTable};
use highwater_sim::disk::{DiskSpec, FaultySpec, PerDirection};
use highwater_sim::engine::Placement;
use highwater_sim::host::SimHost;
use highwater_sim::machine::{MachineConfig, SimMachine};

const PAGE: u64 = 4096;
const SECOND: u64 = 1_000_000_000;
/// Time limit of every test: a day of virtual time.
const LIMIT_NS: u64 = 24 * 3600 * SECOND;
const DATA: DeviceId = DeviceId(0);

/// A machine, its load, and the length of the run.
struct Mix {
    memory: u64,
    nodes: u16,
    cpus: u16,
    swap: Option<DiskSpec>,
    swap_pages: u32,
    policy: &'static str,
    tasks: u64,
    steps: u32,
    /// Pages of each region and file.
    region: u32,
    /// Faults of the disks.
    faults: Option<FaultySpec>,
}

impl Mix {
    fn new(swap: Option<DiskSpec>) -> Self {
        let (memory, nodes, cpus, swap_pages) = (64, 1, 2, 40_000);
        let (policy, tasks, steps, region) = ("6.1", 3, 400, 6000);
        let faults = None;
        Mix { memory, nodes, cpus, swap, swap_pages, policy, tasks, steps, region, faults }
    }
}

fn boot(mix: &Mix) -> SimMachine {
    let each = mix.cpus / mix.nodes;
    let nodes: Vec<_> = (0..mix.nodes)
        .map(|node| {
            let memory = (mix.memory << 20) / u64::from(mix.nodes);
            (memory, (node * each..(node + 1) * each).collect())
        })
        .collect();
    let machine = Machine::from_sizes("audited", &nodes).expect("machine");
    let costs = CostModel::new(&CostTable::server_3ghz());
    let mut config = MachineConfig::new(machine, costs, preset(mix.policy).expect("preset"));
    config.disks = vec![DiskSpec::nvme("data", 1 << 20)];
    if let Some(disk) = &mix.swap {
        config.disks.push(disk.clone());
        let area = SwapSpec { device: DeviceId(1), pages: mix.swap_pages, priority: -2 };
        config.swap = vec![area];
    }
    for disk in &mut config.disks {
        disk.faults.clone_from(&mix.faults);
    }
    SimMachine::boot(config).expect("boot")
}

struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * u64::from(bound)) >> 32) as u32
    }
}

/// The work of one task.
struct Worker<'a, 'h> {
    cx: &'a Cx<'h, SimHost>,
    kernel: &'a Kernel<SimHost>,
    mm: Arc<Mm<SimHost>>,
    open: Arc<OpenFile<SimHost>>,
    random: Random,
    /// Start, pages, and whether it is writable.
    regions: Vec<(u32, u32, bool)>,
    region: u32,
}

impl Worker<'_, '_> {
    /// A random range of at most `most` of `pages` pages.
    fn range(&mut self, pages: u32, most: u32) -> (u32, u32) {
        let start = self.random.below(pages);
        (start, 1 + self.random.below(most.min(pages - start)))
    }

    fn map(&mut self) -> Result<(), Error> {
        if self.regions.len() > 4 {
            return Ok(());
        }
        let rw = VmaFlags::READ | VmaFlags::WRITE;
        let (backing, flags) = match self.random.below(4) {
            0 => (true, rw | VmaFlags::SHARED),
            1 => (true, rw),
            _ => (false, rw),
        };
        let backing = match backing {
            true => Backing::File { open: Arc::clone(&self.open), page: 0 },
            false => Backing::Anon,
        };
        let start = self.kernel.mmap(self.cx, &self.mm, self.region, 1, flags, backing)?;
        self.regions.push((start, self.region, true));
        Ok(())
    }

    fn touch(&mut self, start: u32, pages: u32) -> Result<(), Error> {
        let (first, nr) = self.range(pages, 1500);
        let access = if self.random.below(3) == 0 { Access::Read } else { Access::Write };
        for vpn in start + first..start + first + nr {
            self.kernel.touch(self.cx, &self.mm, vpn, access)?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), Error> {
        let (cx, kernel, mm) = (self.cx, self.kernel, Arc::clone(&self.mm));
        let region = self.region;
        let nr = self.regions.len() as u32;
        let which = if nr == 0 { 0 } else { self.random.below(nr) as usize };
        let picked = self.regions.get(which).copied();
        match (self.random.below(20), picked) {
            (0..2, _) | (_, None) => self.map(),
            (2, Some((start, pages, _))) => {
                self.regions.swap_remove(which);
                kernel.munmap(cx, &mm, start, pages)
            }
            (3..12, Some((start, pages, _))) => self.touch(start, pages),
            (12, Some((start, pages, _))) => {
                let advice = [
                    MemoryAdvice::DontNeed,
                    MemoryAdvice::Cold,
                    MemoryAdvice::PageOut,
                    MemoryAdvice::Sequential,
                    MemoryAdvice::Random,
                    MemoryAdvice::Normal,
                ][self.random.below(6) as usize];
                let (first, nr) = self.range(pages, 500);
                kernel.madvise(cx, &mm, start + first, nr, advice)
            }
            (13, Some((start, pages, _))) => {
                let (first, nr) = self.range(pages, 100);
                kernel.mlock(cx, &mm, start + first, nr)?;
                let (first, nr) = self.range(pages, 3000);
                kernel.munlock(cx, &mm, start + first, nr)
            }
            (14..17, _) => {
                let (first, nr) = self.range(region, 2000);
                let (at, len) = (u64::from(first) * PAGE, u64::from(nr) * PAGE);
                kernel.file_read(cx, &self.open, at, len).map(|_| ())
            }
            (17, _) => {
                let (first, nr) = self.range(region, 300);
                let (at, len) = (u64::from(first) * PAGE, u64::from(nr) * PAGE);
                kernel.file_write(cx, &self.open, at, len).map(|_| ())
            }
            (18, _) => {
                let (first, nr) = self.range(region, 3000);
                let (at, len) = (u64::from(first) * PAGE, u64::from(nr) * PAGE);
                kernel.fadvise(cx, &self.open, at, len, FileAdvice::DontNeed);
                Ok(())
            }
            _ => match self.random.below(8) {
                0 => kernel.fsync(cx, &self.open),
                1 => {
                    let pages = region - self.random.below(region / 2);
                    kernel.truncate(cx, &self.open.file, pages);
                    kernel.file_write(cx, &self.open, u64::from(region - 1) * PAGE, 1).map(|_| ())
                }
                2 => {
                    kernel.drop_caches(cx, 3);
                    Ok(())
                }
                _ => {
                    cx.host.sim().sleep_ns(SECOND / 20);
                    Ok(())
                }
            },
        }
    }
}

/// Runs the mix and audits the machine twice: once at rest with everything still mapped, and once
/// after everything is unmapped and deleted.
#[track_caller]
fn run(mix: &Mix, seed: u64) -> (SimMachine, [KernelReport; 2]) {
    let mut machine = boot(mix);
    let working = Rc::new(Cell::new(mix.tasks));
    let audited = Rc::new(Cell::new(false));
    for task in 0..mix.tasks {
        let (working, audited) = (Rc::clone(&working), Rc::clone(&audited));
        let (region, steps, may_fail) = (mix.region, mix.steps, mix.faults.is_some());
        machine.spawn_task(format!("worker {task}"), Placement::Anywhere, move |cx, kernel| {
            let mm = kernel.create_mm(cx).expect("space");
            mm.add_task(cx);
            let spec = FileSpec::new(Filesystem::EXT4, DATA, task << 17, region);
            let open = kernel.open(cx, &kernel.create_file(cx, spec));
            let random = Random::new(seed * 100 + task + 1);
            let (mm, regions) = (mm, Vec::new());
            let mut worker = Worker { cx, kernel, mm, open, random, regions, region };
            for _ in 0..steps {
                if cx.is_dying() {
                    break;
                }
                match worker.step() {
                    Ok(()) | Err(Error::NoMemory | Error::Killed) => {}
                    // Beyond the end of a file that was truncated; advice on locked memory.
                    Err(Error::Fault | Error::Invalid) => {}
                    Err(Error::Io(_)) if may_fail => {}
                    Err(error) => panic!("{error}"),
                }
            }
            working.set(working.get() - 1);
            while !audited.get() && !cx.is_dying() {
                cx.host.sim().sleep_ns(SECOND);
            }
            kernel.exit_mm(cx, &worker.mm);
            worker.mm.remove_task(cx);
            kernel.delete_file(cx, &worker.open.file);
        });
    }
    let auditor = machine.spawn_task("auditor", Placement::Anywhere, move |cx, kernel| {
        [(); 2].map(|()| {
            while working.get() > 0 {
                cx.host.sim().sleep_ns(SECOND);
            }
            cx.host.sim().sleep_ns(60 * SECOND);
            let report = check_kernel(kernel, cx);
            audited.set(true);
            report.unwrap_or_else(|error| panic!("seed {seed}: {error}"))
        })
    });
    machine.run_within(LIMIT_NS).expect("run");
    let reports = auditor.take().expect("done");
    (machine, reports)
}

fn event(machine: &SimMachine, event: VmEvent) -> u64 {
    machine.kernel.mem.events.read(event)
}

/// Audits the seeds; returns the number of pages read from swap.
fn audit(mix: &Mix, seeds: std::ops::Range<u64>) -> u64 {
    let mut nr_back = 0;
    for seed in seeds {
        let (machine, [full, empty]) = run(mix, seed);
        let killed = event(&machine, VmEvent::OomKill) > 0;
        assert!(full.on_lists > 0 || killed, "{full:?}");
        assert_eq!((empty.tables, empty.entries, empty.cached), (0, 0, 0), "{empty:?}");
        // Pages under writeback when they were unmapped stay until they are reclaimed. Pages in
        // batches stay until the batches are drained.
        assert_eq!(empty.swap_entries, 0, "{empty:?}");
        assert!(empty.on_lists <= empty.swap_cached + empty.in_batches, "{empty:?}");
        nr_back += event(&machine, VmEvent::Pswpin);
    }
    nr_back
}

#[test]
fn swap_on_flash() {
    assert!(audit(&Mix::new(Some(DiskSpec::nvme("swap", 1 << 18))), 0..2) > 1000);
}

#[test]
fn swap_on_a_disk() {
    let mix = Mix { tasks: 2, ..Mix::new(Some(DiskSpec::hdd("swap", 1 << 18))) };
    assert!(audit(&mix, 10..11) > 1000);
}

#[test]
fn swap_in_memory() {
    assert!(audit(&Mix::new(Some(DiskSpec::ram("swap", 1 << 18))), 20..21) > 1000);
}

#[test]
fn swap_that_fills_up() {
    let swap = Some(DiskSpec::nvme("swap", 1 << 18));
    audit(&Mix { swap_pages: 4000, ..Mix::new(swap) }, 30..32);
}

#[test]
fn disks_that_fail() {
    let faults = Some(FaultySpec {
        errors: PerDirection { read: 0.02, write: 0.05 },
        slow: 0.05,
        ..FaultySpec::default()
    });
    audit(&Mix { faults, ..Mix::new(Some(DiskSpec::nvme("swap", 1 << 18))) }, 60..61);
}

#[test]
fn no_swap() {
    audit(&Mix { region: 3000, ..Mix::new(None) }, 40..41);
}

#[test]
fn two_nodes_and_older_kernels() {
    for (policy, seed) in [("6.1", 50), ("5.17", 51), ("5.4", 52), ("4.3", 53)] {
        let mix =
            Mix { memory: 128, nodes: 2, cpus: 4, tasks: 5, steps: 200, policy, ..Mix::new(None) };
        let swap = Some(DiskSpec::nvme("swap", 1 << 18));
        audit(&Mix { swap, ..mix }, seed..seed + 1);
    }
}

/// A machine and a load that a seed chooses.
fn random_mix(seed: u64) -> Mix {
    let mut random = Random::new(seed);
    let mut pick = |bound: u32| random.below(bound);
    let nodes = [1, 1, 2, 4][pick(4) as usize];
    let memory = u64::from(nodes) * [32, 48, 64, 100][pick(4) as usize];
    let cpus = nodes * [1, 2, 3][pick(3) as usize];
    let swap = match pick(5) {
        0 => None,
        1 => Some(DiskSpec::nvme("swap", 1 << 18)),
        2 => Some(DiskSpec::sata_ssd("swap", 1 << 18)),
        3 => Some(DiskSpec::hdd("swap", 1 << 18)),
        _ => Some(DiskSpec::ram("swap", 1 << 18)),
    };
    let policies = ["6.1", "6.1", "set-referenced", "5.17", "5.4", "4.6", "4.3"];
    let policy = policies[pick(7) as usize];
    let faults = (pick(4) == 0).then(|| FaultySpec {
        errors: PerDirection { read: 0.02, write: 0.05 },
        slow: 0.05,
        ..FaultySpec::default()
    });
    Mix {
        memory,
        nodes,
        cpus,
        swap,
        swap_pages: [1000, 5000, 20_000, 100_000][pick(4) as usize],
        policy,
        tasks: 1 + u64::from(pick(6)),
        steps: 300,
        region: 500 + pick(9000),
        faults,
    }
}

/// Seeds from the environment: `AUDIT_SEEDS=FIRST-LAST`.
#[test]
#[ignore = "takes minutes"]
fn random_machines() {
    let seeds = std::env::var("AUDIT_SEEDS").unwrap_or_else(|_| "0-30".into());
    let (first, last) = seeds.split_once('-').expect("FIRST-LAST");
    for seed in first.parse().expect("a number")..=last.parse().expect("a number") {
        println!("AUDIT_SEEDS={seed}-{seed}");
        audit(&random_mix(seed), seed..seed + 1);
    }
}
