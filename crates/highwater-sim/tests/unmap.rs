//! Unmapping beside other work: threads that share an address space and a file under memory
//! pressure, and the costs of unmapping (study 003).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use highwater_core::Kernel;
use highwater_core::audit::check_kernel;
use highwater_core::block::DeviceId;
use highwater_core::config::{Machine, UnmapYoung, preset};
use highwater_core::host::{Cost, CpuId, Cx};
use highwater_core::kernel::Error;
use highwater_core::page_cache::{File, FileSpec, Filesystem, OpenFile};
use highwater_core::swap::SwapSpec;
use highwater_core::syscall::{FileAdvice, MemoryAdvice};
use highwater_core::vm::{Access, Backing, Mm, VmaFlags};
use highwater_core::vmstat::VmEvent;
use highwater_sim::cost::{CostModel, CostTable};
use highwater_sim::disk::DiskSpec;
use highwater_sim::engine::Placement;
use highwater_sim::host::SimHost;
use highwater_sim::machine::{MachineConfig, SimMachine};

const SECOND: u64 = 1_000_000_000;
/// Time limit of every test: a day of virtual time.
const LIMIT_NS: u64 = 24 * 3600 * SECOND;
/// Pages of the file that the threads share, and of a region.
const FILE_PAGES: u32 = 4000;

fn file_spec(pages: u32) -> FileSpec {
    FileSpec::new(Filesystem::EXT4, DeviceId(0), 0, pages)
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * u64::from(bound)) >> 32) as u32
    }
}

/// State that the threads of a program share.
struct Program {
    mm: Arc<Mm<SimHost>>,
    file: Arc<File<SimHost>>,
    /// Start and pages of each mapping, possibly out of date.
    regions: RefCell<Vec<(u32, u32)>>,
    working: Cell<u32>,
    audited: Cell<bool>,
}

struct Thread<'a, 'h> {
    cx: &'a Cx<'h, SimHost>,
    kernel: &'a Kernel<SimHost>,
    program: &'a Program,
    open: Arc<OpenFile<SimHost>>,
    random: Random,
}

impl Thread<'_, '_> {
    fn map(&mut self) -> Result<(), Error> {
        let pages = 1 + self.random.below(FILE_PAGES);
        let rw = VmaFlags::READ | VmaFlags::WRITE;
        let (flags, is_file) = match self.random.below(6) {
            0 => (rw, true),
            1 | 2 => (rw | VmaFlags::SHARED, true),
            _ => (rw, false),
        };
        let backing = match is_file {
            true => Backing::File { open: Arc::clone(&self.open), page: 0 },
            false => Backing::Anon,
        };
        let start = self.kernel.mmap(self.cx, &self.program.mm, pages, 1, flags, backing)?;
        self.program.regions.borrow_mut().push((start, pages));
        Ok(())
    }

    /// A random part of a region that another thread may be unmapping.
    fn part(&mut self) -> Option<(u32, u32)> {
        let regions = self.program.regions.borrow();
        let (start, pages) = *regions.get(self.random.below(regions.len() as u32) as usize)?;
        let first = self.random.below(pages);
        Some((start + first, 1 + self.random.below((pages - first).min(1200))))
    }

    fn step(&mut self) -> Result<(), Error> {
        let (cx, kernel, mm) = (self.cx, self.kernel, &self.program.mm);
        let part = self.part();
        match (self.random.below(16), part) {
            (0 | 1, _) | (_, None) => self.map(),
            (2, Some(_)) => {
                let mut regions = self.program.regions.borrow_mut();
                let at = self.random.below(regions.len() as u32) as usize;
                let (start, pages) = regions.swap_remove(at);
                drop(regions);
                kernel.munmap(cx, mm, start, pages)
            }
            // A hole: the region stays in the list, and touching the hole is an error.
            (3, Some((start, pages))) => kernel.munmap(cx, mm, start, pages.min(40)),
            (4..10, Some((start, pages))) => {
                let access = if self.random.below(2) == 0 { Access::Read } else { Access::Write };
                kernel.touch_range(cx, mm, start, pages, access).map(|_| ())
            }
            (10 | 11, Some((start, pages))) => {
                let advice = [
                    MemoryAdvice::DontNeed,
                    MemoryAdvice::Free,
                    MemoryAdvice::Free,
                    MemoryAdvice::Cold,
                    MemoryAdvice::PageOut,
                    MemoryAdvice::Sequential,
                    MemoryAdvice::Normal,
                ][self.random.below(7) as usize];
                kernel.madvise(cx, mm, start, pages, advice)
            }
            (12, Some((start, pages))) => {
                kernel.mlock(cx, mm, start, pages.min(60))?;
                kernel.munlock(cx, mm, start, pages)
            }
            (13, _) => {
                // The other threads' mappings lose the pages beyond.
                kernel.truncate(cx, &self.program.file, self.random.below(FILE_PAGES));
                let last = (u64::from(FILE_PAGES) << 12) - 1;
                kernel.file_write(cx, &self.open, last, 1).map(|_| ())
            }
            (14, _) => kernel.fsync(cx, &self.open),
            _ => {
                cx.host.sim().sleep_ns(SECOND / 100);
                Ok(())
            }
        }
    }
}

/// Threads on all CPUs, each step at random. The machine is audited at rest with everything still
/// mapped, and after the address space is gone.
fn threads(seed: u64, nr_threads: u32, policy: &str) -> SimMachine {
    let machine = Machine::from_sizes("threads", &[(48 << 20, (0..4).collect())]).expect("machine");
    let costs = CostModel::new(&CostTable::server_3ghz());
    let mut config = MachineConfig::new(machine, costs, preset(policy).expect("preset"));
    config.disks = vec![DiskSpec::nvme("data", 1 << 16), DiskSpec::nvme("swap", 1 << 16)];
    config.swap = vec![SwapSpec { device: DeviceId(1), pages: 30_000, priority: -2 }];
    let mut machine = SimMachine::boot(config).expect("boot");
    let shared: Rc<RefCell<Option<Rc<Program>>>> = Rc::default();
    for thread in 0..nr_threads {
        let shared = Rc::clone(&shared);
        machine.spawn_task(format!("thread {thread}"), Placement::Anywhere, move |cx, kernel| {
            let program = loop {
                if let Some(program) = shared.borrow().clone() {
                    break program;
                }
                cx.host.sim().sleep_ns(SECOND / 1000);
            };
            program.mm.add_task(cx);
            let open = kernel.open(cx, &program.file);
            let random =
                Random((seed * 1000 + u64::from(thread)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            let mut thread = Thread { cx, kernel, program: &program, open, random };
            for _ in 0..300 {
                if cx.is_dying() {
                    break;
                }
                match thread.step() {
                    Ok(()) => {}
                    // Holes, the end of the file, invalid advice, no memory.
                    Err(Error::Fault | Error::Invalid | Error::NoMemory | Error::Killed) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            program.working.set(program.working.get() - 1);
            if cx.is_dying() {
                program.audited.set(true);
            }
            while !program.audited.get() {
                cx.host.sim().sleep_ns(SECOND);
            }
            program.mm.remove_task(cx);
            if program.mm.nr_tasks(cx) == 0 {
                kernel.exit_mm(cx, &program.mm);
                kernel.delete_file(cx, &program.file);
            }
        });
    }
    let auditor = machine.spawn_task("auditor", Placement::Anywhere, move |cx, kernel| {
        let program = Rc::new(Program {
            mm: kernel.create_mm(cx).expect("space"),
            file: kernel.create_file(cx, file_spec(FILE_PAGES)),
            regions: RefCell::default(),
            working: Cell::new(nr_threads),
            audited: Cell::new(false),
        });
        *shared.borrow_mut() = Some(Rc::clone(&program));
        [(); 2].map(|()| {
            while program.working.get() > 0 {
                cx.host.sim().sleep_ns(SECOND);
            }
            cx.host.sim().sleep_ns(60 * SECOND);
            let report = check_kernel(kernel, cx);
            program.audited.set(true);
            report.unwrap_or_else(|error| panic!("seed {seed}: {error}"))
        })
    });
    machine.run_within(LIMIT_NS).expect("run");
    let [_, empty] = auditor.take().expect("done");
    assert_eq!((empty.tables, empty.entries, empty.cached), (0, 0, 0), "{empty:?}");
    machine
}

#[test]
fn threads_of_one_space_unmap_beside_each_other() {
    for (seed, nr_threads, policy) in [(1, 4, "6.1"), (2, 6, "6.1"), (5, 3, "5.4"), (4, 4, "4.3")] {
        let machine = threads(seed, nr_threads, policy);
        let events = &machine.kernel.mem.events;
        assert!(events.read(VmEvent::Pswpout) > 0 && events.read(VmEvent::Pglazyfree) > 0);
    }
}

/// Cost of a round per page: unmap time, and the part of it charged for activation.
#[derive(Clone, Copy, Debug)]
struct PerPage {
    unmap_ns: u64,
    activating_ns: u64,
}

/// 512 young file pages, inactive and referenced, unmapped by one undisturbed process.
fn unmap_512(costs: CostModel, rule: UnmapYoung) -> PerPage {
    let machine = Machine::from_sizes("quiet", &[(256 << 20, vec![0])]).expect("machine");
    let mut policy = preset("6.1").expect("preset");
    policy.reclaim.unmap_young_file = rule;
    let mut config = MachineConfig::new(machine, costs, policy);
    config.disks = vec![DiskSpec::nvme("data", 1 << 16)];
    let mut machine = SimMachine::boot(config).expect("boot");
    let program = machine.spawn_task("program", Placement::Pinned(CpuId(0)), |cx, kernel| {
        let mm = kernel.create_mm(cx).expect("space");
        let open = kernel.open(cx, &kernel.create_file(cx, file_spec(512)));
        kernel.fadvise(cx, &open, 0, 0, FileAdvice::WillNeed);
        let activating = || cx.host.charged_ns(Cost::MarkActivate);
        let [_, second] = [(); 2].map(|()| {
            let flags = VmaFlags::READ | VmaFlags::SHARED;
            let backing = Backing::File { open: Arc::clone(&open), page: 0 };
            let start = kernel.mmap(cx, &mm, 512, 512, flags, backing).expect("mmap");
            kernel.touch_range(cx, &mm, start, 512, Access::Read).expect("cached");
            let (before_ns, before) = (cx.host.sim().now_ns(), activating());
            kernel.munmap(cx, &mm, start, 512).expect("mapped");
            let unmap_ns = (cx.host.sim().now_ns() - before_ns) / 512;
            PerPage { unmap_ns, activating_ns: (activating() - before) / 512 }
        });
        kernel.exit_mm(cx, &mm);
        second
    });
    machine.run_within(LIMIT_NS).expect("run");
    program.take().expect("done")
}

#[test]
fn activating_is_most_of_what_unmapping_costs_on_a_server() {
    let costs = || CostModel::new(&CostTable::server_3ghz());
    let before = unmap_512(costs(), UnmapYoung::MarkAccessed);
    let after = unmap_512(costs(), UnmapYoung::SetReferenced);
    // rules/unmap#young-cost: 177 to 186 for activation, 62 to 68 for setting the bit.
    assert!((165..200).contains(&before.unmap_ns), "{before:?}");
    assert!((60..75).contains(&after.unmap_ns), "{after:?}");
    assert_eq!((before.activating_ns, after.activating_ns), (120, 0));
}
