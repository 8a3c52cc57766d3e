//! Faults that wait, and faults that race with each other.

use std::rc::Rc;
use std::sync::Arc;

use highwater_core::audit::check_kernel;
use highwater_core::block::DeviceId;
use highwater_core::config::{Machine, preset};
use highwater_core::host::{CpuId, Cx};
use highwater_core::kernel::Error;
use highwater_core::page_cache::{FileSpec, Filesystem, OpenFile};
use highwater_core::swap::SwapSpec;
use highwater_core::vm::{Access, Backing, Fault, Mm, VmaFlags};
use highwater_core::vmstat::{NodeStat, VmEvent};
use highwater_core::zone::NodeId;
use highwater_sim::cost::{CostModel, CostTable};
use highwater_sim::disk::{DiskSpec, FaultySpec, PerDirection};
use highwater_sim::engine::Placement;
use highwater_sim::host::SimHost;
use highwater_sim::machine::{MachineConfig, SimMachine};

const MS: u64 = 1_000_000;
const LIMIT_NS: u64 = 3600 * 1000 * MS;
const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

/// 128 MiB, two CPUs, a disk for files and one for swap.
fn boot(faults: Option<FaultySpec>) -> SimMachine {
    let machine = Machine::from_sizes("test", &[(128 << 20, vec![0, 1])]).expect("machine");
    let costs = CostModel::new(&CostTable::server_3ghz());
    let mut config = MachineConfig::new(machine, costs, preset("6.1").expect("preset"));
    config.disks = vec![DiskSpec::hdd("data", 4 << 18), DiskSpec::nvme("swap", 4 << 18)];
    if let Some(faults) = faults {
        config.disks[0].faults = Some(faults);
        config.disks[1].faults = config.disks[0].faults.clone();
    }
    config.swap = vec![SwapSpec { device: DeviceId(1), pages: 1 << 16, priority: -2 }];
    SimMachine::boot(config).expect("boot")
}

fn on(cpu: u16) -> Placement {
    Placement::Pinned(CpuId(cpu))
}

struct Shared {
    mm: Arc<Mm<SimHost>>,
    open: Arc<OpenFile<SimHost>>,
    start: u32,
}

/// An address space that maps a file of 1000 pages, shared and readable.
fn shared(machine: &SimMachine) -> Rc<Shared> {
    let (kernel, cx) = (&machine.kernel, Cx::new(&*machine.host, CpuId(0)));
    let spec = FileSpec::new(Filesystem::EXT4, DeviceId(0), 0, 1000);
    let open = kernel.open(&cx, &kernel.create_file(&cx, spec));
    let mm = kernel.create_mm(&cx).expect("space");
    let backing = Backing::File { open: Arc::clone(&open), page: 0 };
    let flags = VmaFlags::READ | VmaFlags::SHARED;
    let start = kernel.mmap(&cx, &mm, 1000, 512, flags, backing).expect("room");
    Rc::new(Shared { mm, open, start })
}

fn event(machine: &SimMachine, event: VmEvent) -> u64 {
    machine.kernel.mem.events.read(event)
}

#[test]
fn a_fault_waits_for_the_disk_without_the_space() {
    let mut machine = boot(None);
    let shared = shared(&machine);
    let (one, two) = (Rc::clone(&shared), shared);
    let faulted = machine.spawn_task("reader", on(0), move |cx, kernel| {
        assert_eq!(kernel.touch(cx, &one.mm, one.start + 500, Access::Read), Ok(Fault::Major));
        cx.host.sim().now_ns()
    });
    let mapped = machine.spawn_task("mapper", on(1), move |cx, kernel| {
        cx.host.sim().sleep_ns(MS / 2);
        let start = kernel.mmap(cx, &two.mm, 10, 1, RW, Backing::Anon).expect("room");
        kernel.touch(cx, &two.mm, start, Access::Write).expect("memory");
        cx.host.sim().now_ns()
    });
    machine.run_within(LIMIT_NS).expect("run");
    let (faulted, mapped) = (faulted.take().expect("ended"), mapped.take().expect("ended"));
    assert!(mapped + MS < faulted, "mmap was done at {mapped}, the fault at {faulted}");
}

#[test]
fn who_finds_the_page_under_input_waits_for_it() {
    let mut machine = boot(None);
    let shared = shared(&machine);
    for cpu in 0..2 {
        let shared = Rc::clone(&shared);
        machine.spawn_task("reader", on(cpu), move |cx, kernel| {
            cx.host.sim().sleep_ns(u64::from(cpu) * MS / 2);
            let went = kernel.touch(cx, &shared.mm, shared.start + 500, Access::Read);
            assert_eq!(went, Ok(Fault::Major));
        });
    }
    machine.run_within(LIMIT_NS).expect("run");
    assert_eq!(event(&machine, VmEvent::Pgmajfault), 1, "only one of them read");
    let faults = event(&machine, VmEvent::Pgfault);
    // The second fault may find the page mapped by the first one's retry.
    assert!((3..=4).contains(&faults), "{faults}");
    assert_eq!(shared.open.file.nr_pages(), 32);
    check_kernel(&machine.kernel, &Cx::new(&*machine.host, CpuId(0))).expect("audit");
}

/// Vector P8: the first time, a fault waits for a page without the mmap lock, so the VMA may have
/// changed afterwards (rules/sleeping-locks#page-fault).
#[test]
fn a_fault_that_waited_looks_for_its_area_again() {
    let mut machine = boot(None);
    let shared = shared(&machine);
    let mut ended = Vec::new();
    for cpu in 0..2 {
        let shared = Rc::clone(&shared);
        ended.push(machine.spawn_task("reader", on(cpu), move |cx, kernel| {
            cx.host.sim().sleep_ns(u64::from(cpu) * MS / 4);
            let went = kernel.touch(cx, &shared.mm, shared.start + 500, Access::Read);
            assert_eq!(went, Err(Error::Fault), "nothing is mapped there any more");
            cx.host.sim().now_ns()
        }));
    }
    let unmapped = machine.spawn_task("unmapper", on(1), move |cx, kernel| {
        cx.host.sim().sleep_ns(MS / 2);
        kernel.munmap(cx, &shared.mm, shared.start, 1000).expect("mapped");
        cx.host.sim().now_ns()
    });
    machine.run_within(LIMIT_NS).expect("run");
    let unmapped = unmapped.take().expect("ended");
    for reader in ended {
        let ended = reader.take().expect("ended");
        assert!(unmapped + MS < ended, "munmap was done at {unmapped}, the fault at {ended}");
    }
}

/// Vector P8: the second time, it keeps the mmap lock (rules/sleeping-locks#page-fault).
#[test]
fn a_fault_that_waits_twice_keeps_the_space() {
    let mut machine = boot(None);
    let shared = shared(&machine);
    let holder = Rc::clone(&shared);
    let sleep_until = |cx: &Cx<'_, SimHost>, ms: u64| cx.host.sim().sleep_until(ms * MS);
    machine.spawn_task("holder", on(0), move |cx, kernel| {
        let Shared { mm, open, start } = &*holder;
        kernel.touch(cx, mm, start + 500, Access::Read).expect("it is read");
        kernel.munmap(cx, mm, *start, 512).expect("mapped");
        let backing = Backing::File { open: Arc::clone(open), page: 0 };
        let flags = VmaFlags::READ | VmaFlags::SHARED;
        assert_eq!(kernel.mmap(cx, mm, 512, 512, flags, backing), Ok(*start), "first fit");
        let page = kernel.find_get_page(cx, &open.file, 500).expect("cached");
        kernel.lock_page(cx, page);
        sleep_until(cx, 110);
        kernel.unlock_page(cx, page);
        // The waiter was woken and finds the page locked again.
        assert!(kernel.try_lock_page(page));
        sleep_until(cx, 120);
        kernel.unlock_page(cx, page);
        kernel.put_page(cx, page);
    });
    let faulter = Rc::clone(&shared);
    let faulted = machine.spawn_task("faulter", on(1), move |cx, kernel| {
        sleep_until(cx, 101);
        kernel.touch(cx, &faulter.mm, faulter.start + 500, Access::Read).expect("mapped");
        cx.host.sim().now_ns() / MS
    });
    let mapped = [105, 115].map(|at| {
        let shared = Rc::clone(&shared);
        machine.spawn_task("mapper", on(0), move |cx, kernel| {
            sleep_until(cx, at);
            kernel.mmap(cx, &shared.mm, 10, 1, RW, Backing::Anon).expect("room");
            cx.host.sim().now_ns() / MS
        })
    });
    machine.run_within(LIMIT_NS).expect("run");
    let mapped = mapped.map(|mapper| mapper.take().expect("ended"));
    assert_eq!((faulted.take(), mapped), (Some(120), [105, 120]));
}

#[test]
fn faults_that_meet_give_one_page() {
    let pages = 3000;
    let mut machine = boot(None);
    let shared = shared(&machine);
    let host = Rc::clone(&machine.host);
    let cx = Cx::new(&*host, CpuId(0));
    let start = machine.kernel.mmap(&cx, &shared.mm, pages, 1, RW, Backing::Anon).expect("room");
    for cpu in 0..2 {
        let shared = Rc::clone(&shared);
        machine.spawn_task("writer", on(cpu), move |cx, kernel| {
            for vpn in start..start + pages {
                let access = [Access::Write, Access::Read][(vpn as usize + cpu as usize) % 2];
                kernel.touch(cx, &shared.mm, vpn, access).expect("memory");
            }
        });
    }
    machine.run_within(LIMIT_NS).expect("run");
    let kernel = &machine.kernel;
    assert_eq!(kernel.mem.node(NodeId(0)).stats.read_exact(NodeStat::AnonPages as usize), 3000);
    let report = check_kernel(kernel, &cx).expect("audit");
    // The file's part has no tables. The rest has the top one, two upper ones, and eight below.
    assert!(report.tables <= 3 + 8, "the loser of a race gives its table back: {report:?}");
    kernel.exit_mm(&cx, &shared.mm);
    check_kernel(kernel, &cx).expect("audit");
}

/// Devices that always fail: the task that needs the page gets the error, and nothing else is lost.
#[test]
fn a_page_that_cannot_be_read_is_an_error_each_time() {
    let broken =
        FaultySpec { errors: PerDirection { read: 1.0, write: 0.0 }, ..FaultySpec::default() };
    let mut machine = boot(Some(broken));
    let shared = shared(&machine);
    let task = Rc::clone(&shared);
    machine.spawn_task("reader", on(0), move |cx, kernel| {
        let mm = &task.mm;
        for vpn in [task.start, task.start, task.start + 700] {
            let went = kernel.touch(cx, mm, vpn, Access::Read);
            assert!(matches!(went, Err(Error::Io(_))), "{went:?}");
        }
        let start = kernel.mmap(cx, mm, 64, 1, RW, Backing::Anon).expect("room");
        kernel.touch_range(cx, mm, start, 64, Access::Write).expect("memory");
        // More than fits: the pages touched first are then on disk, and only there.
        let more = kernel.mmap(cx, mm, 40_000, 1, RW, Backing::Anon).expect("room");
        kernel.touch_range(cx, mm, more, 40_000, Access::Write).expect("memory");
        let went = kernel.touch(cx, mm, start + 5, Access::Read);
        assert!(matches!(went, Err(Error::Io(_))), "{went:?}");
    });
    machine.run_within(LIMIT_NS).expect("run");
    let cx = Cx::new(&*machine.host, CpuId(0));
    check_kernel(&machine.kernel, &cx).expect("audit");
    machine.kernel.exit_mm(&cx, &shared.mm);
    check_kernel(&machine.kernel, &cx).expect("audit");
}
