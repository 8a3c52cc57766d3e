//! Faults that a machine survives: full swap, disks that fail, tasks that are killed anywhere.
//! After each, everything is audited, and tasks that were not hit have got what they requested.

use std::sync::Arc;

use highwater_core::Kernel;
use highwater_core::audit::{KernelReport, check_kernel};
use highwater_core::block::DeviceId;
use highwater_core::config::{Machine, preset};
use highwater_core::host::{Cx, IoError, Phase};
use highwater_core::kernel::Error;
use highwater_core::page_cache::{FileSpec, Filesystem};
use highwater_core::swap::SwapSpec;
use highwater_core::vm::{Access, Backing, Mm, VmaFlags};
use highwater_core::vmstat::VmEvent;
use highwater_sim::cost::{CostModel, CostTable};
use highwater_sim::disk::{DiskSpec, FaultySpec, PerDirection};
use highwater_sim::engine::{JoinHandle, Placement};
use highwater_sim::host::SimHost;
use highwater_sim::ledger::{NodeKey, Tree};
use highwater_sim::machine::{MachineConfig, SimMachine};

const PAGE: u64 = 4096;
const SECOND: u64 = 1_000_000_000;
/// Time limit of every test: an hour of virtual time.
const LIMIT_NS: u64 = 3600 * SECOND;

/// 128 MiB, two CPUs; a data disk; `swap_pages` pages of swap on a separate disk.
fn boot(swap_pages: u32, swap_faults: Option<FaultySpec>) -> SimMachine {
    let machine = Machine::from_sizes("test", &[(128 << 20, vec![0, 1])]).expect("machine");
    let costs = CostModel::new(&CostTable::server_3ghz());
    let mut config = MachineConfig::new(machine, costs, preset("6.1").expect("preset"));
    let swap = DiskSpec { faults: swap_faults, ..DiskSpec::sata_ssd("swap", 1 << 18) };
    config.disks = vec![DiskSpec::nvme("data", 1 << 20), swap];
    if swap_pages > 0 {
        let area = SwapSpec { device: DeviceId(1), pages: swap_pages, priority: -2 };
        config.swap = vec![area];
    }
    SimMachine::boot(config).expect("boot")
}

type Task<'a, 'h> = (&'a Cx<'h, SimHost>, &'a Kernel<SimHost>);

fn with_mm<T>((cx, kernel): Task<'_, '_>, body: impl FnOnce(&Mm<SimHost>) -> T) -> T {
    let mm = kernel.create_mm(cx).expect("space");
    mm.add_task(cx);
    let result = body(&mm);
    kernel.exit_mm(cx, &mm);
    mm.remove_task(cx);
    result
}

/// Maps and writes pages in order, `passes` times. Returns the number of pages that could not be
/// read back in; a program that gets that signal goes on with the next page.
fn hog((cx, kernel): Task<'_, '_>, pages: u32, passes: u32) -> Result<u64, Error> {
    with_mm((cx, kernel), |mm| {
        let flags = VmaFlags::READ | VmaFlags::WRITE;
        let start = kernel.mmap(cx, mm, pages, 1, flags, Backing::Anon)?;
        let mut nr_lost = 0;
        for _ in 0..passes {
            for page in start..start + pages {
                match kernel.touch(cx, mm, page, Access::Write) {
                    Ok(_) => {}
                    Err(Error::Io(IoError::Device)) => nr_lost += 1,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(nr_lost)
    })
}

fn spawn_hog(
    machine: &SimMachine,
    name: &'static str,
    pages: u32,
    passes: u32,
) -> JoinHandle<Result<u64, Error>> {
    machine
        .spawn_task(name, Placement::Anywhere, move |cx, kernel| hog((cx, kernel), pages, passes))
}

fn event(machine: &SimMachine, event: VmEvent) -> u64 {
    machine.kernel.mem.events.read(event)
}

/// Runs to the end and checks every frame, slot and counter.
fn run(machine: &mut SimMachine) -> KernelReport {
    machine.run_within(LIMIT_NS).expect("run");
    let report = check_kernel(&machine.kernel, &machine.outside()).expect("audit");
    assert_eq!(report.tables, 0, "programs that ended left page tables");
    report
}

#[test]
fn swap_that_is_full_costs_the_largest_its_life() {
    let mut machine = boot(10_000, None);
    let large = spawn_hog(&machine, "large", 34_000, 40);
    let small = spawn_hog(&machine, "small", 8_000, 80);
    let report = run(&mut machine);
    assert_eq!(large.take(), Some(Err(Error::Killed)));
    assert_eq!(small.take(), Some(Ok(0)));
    assert!(event(&machine, VmEvent::Pswpout) >= 9_000);
    assert_eq!(event(&machine, VmEvent::OomKill), 1);
    let swap = &machine.kernel.swap;
    // Pages under writeback when their program ended keep their slots until reclaim finds them.
    assert_eq!(swap.nr_total() - swap.nr_free(), report.swap_cached, "{report:?}");
}

#[test]
fn out_of_memory_with_everybody_in_the_kernel() {
    let mut machine = boot(0, None);
    let names = ["a", "b", "c", "d", "e", "f"];
    let hogs = names.map(|name| spawn_hog(&machine, name, 20_000, 2));
    let free_before = machine.kernel.mem.nr_free_pages();
    machine.sim().open_ledger();
    run(&mut machine);
    let ledger = machine.sim().close_ledger();
    let waits_for_killer = [NodeKey::Phase(Phase::OomKill), NodeKey::Sleep];
    let has_waited = |tree: &Tree| {
        (0..tree.nodes().len() as u32).any(|node| tree.path(node).ends_with(&waits_for_killer))
    };
    assert!(ledger.tasks.iter().any(|task| has_waited(&task.tree)), "for another's kill");
    let results = hogs.map(|hog| hog.take().expect("ended"));
    let nr_killed = results.iter().filter(|result| **result == Err(Error::Killed)).count() as u64;
    // One of them fits.
    assert!((1..6).contains(&nr_killed), "{results:?}");
    assert!(results.iter().all(|r| matches!(r, Ok(0) | Err(Error::Killed))), "{results:?}");
    assert_eq!(event(&machine, VmEvent::OomKill), nr_killed);
    let lost = free_before.saturating_sub(machine.kernel.mem.nr_free_pages());
    assert!(lost < 1500, "{lost} pages are in per-CPU lists at most");
}

#[test]
fn pages_that_cannot_be_swapped_in_hit_only_who_touches_them() {
    let faults = FaultySpec {
        errors: PerDirection { read: 1.0, write: 0.0 },
        pages: Some(2_000..2_040),
        ..FaultySpec::default()
    };
    let mut machine = boot(50_000, Some(faults));
    let hit = spawn_hog(&machine, "hit", 45_000, 3);
    run(&mut machine);
    let nr_lost = hit.take().expect("ended").expect("not killed");
    assert!(nr_lost > 0 && nr_lost <= 3 * 40, "{nr_lost}");
    assert!(machine.host.disk_stats(DeviceId(1)).read.nr_failed > 0);
}

#[test]
fn pages_that_cannot_be_swapped_out_stay() {
    let faults =
        FaultySpec { errors: PerDirection { read: 0.0, write: 0.3 }, ..FaultySpec::default() };
    let mut machine = boot(50_000, Some(faults));
    let program = spawn_hog(&machine, "program", 45_000, 3);
    run(&mut machine);
    assert_eq!(program.take(), Some(Ok(0)), "nothing was lost");
    assert!(machine.host.disk_stats(DeviceId(1)).write.nr_failed > 100);
}

#[test]
fn writeback_errors_are_told_at_fsync_and_leave_others_alone() {
    let machine = Machine::from_sizes("test", &[(128 << 20, vec![0, 1])]).expect("machine");
    let costs = CostModel::new(&CostTable::server_3ghz());
    let mut config = MachineConfig::new(machine, costs, preset("6.1").expect("preset"));
    let faults = FaultySpec {
        errors: PerDirection { read: 0.0, write: 1.0 },
        pages: Some(0..30_000),
        ..FaultySpec::default()
    };
    config.disks = vec![DiskSpec { faults: Some(faults), ..DiskSpec::sata_ssd("data", 1 << 20) }];
    let mut machine = SimMachine::boot(config).expect("boot");
    let write = |start: u64| {
        move |cx: &Cx<'_, SimHost>, kernel: &std::rc::Rc<Kernel<SimHost>>| {
            let spec = FileSpec::new(Filesystem::EXT4, DeviceId(0), start, 20_000).with_size(0);
            let open = kernel.open(cx, &kernel.create_file(cx, spec));
            for chunk in 0..200 {
                let written = kernel.file_write(cx, &open, chunk * 100 * PAGE, 100 * PAGE);
                assert_eq!(written, Ok(100 * PAGE));
            }
            kernel.fsync(cx, &open)
        }
    };
    let hit = machine.spawn_task("hit", Placement::Anywhere, write(0));
    let other = machine.spawn_task("other", Placement::Anywhere, write(100_000));
    run(&mut machine);
    assert_eq!(hit.take(), Some(Err(Error::Io(IoError::Device))));
    assert_eq!(other.take(), Some(Ok(())));
}

#[test]
fn a_disk_that_stalls_only_costs_time() {
    let faults = FaultySpec { slow: 0.01, slow_factor: 1000, ..FaultySpec::default() };
    let took_ns = |faults| {
        let mut machine = boot(50_000, faults);
        let program = spawn_hog(&machine, "program", 40_000, 2);
        run(&mut machine);
        assert_eq!(program.take(), Some(Ok(0)));
        machine.sim().now_ns()
    };
    assert!(took_ns(Some(faults)) > 2 * took_ns(None));
}

#[test]
fn a_shared_space_dies_with_all_its_threads() {
    let mut machine = boot(0, None);
    let mm = {
        let cx = machine.outside();
        machine.kernel.create_mm(&cx).expect("space")
    };
    let threads: Vec<_> = (0..3)
        .map(|i| {
            let mm = Arc::clone(&mm);
            machine.spawn_task(format!("thread {i}"), Placement::Anywhere, move |cx, kernel| {
                mm.add_task(cx);
                let flags = VmaFlags::READ | VmaFlags::WRITE;
                let start = kernel.mmap(cx, &mm, 15_000, 1, flags, Backing::Anon)?;
                let result = kernel.touch_range(cx, &mm, start, 15_000, Access::Write);
                // Threads that have their memory keep it until they are killed.
                while result.is_ok() && !cx.is_dying() {
                    cx.host.sim().sleep_ns(SECOND / 10);
                }
                mm.remove_task(cx);
                if mm.nr_tasks(cx) == 0 {
                    kernel.exit_mm(cx, &mm);
                }
                result.map(|_| ())
            })
        })
        .collect();
    run(&mut machine);
    let results: Vec<_> = threads.iter().map(|thread| thread.take().expect("ended")).collect();
    assert!(results.contains(&Err(Error::Killed)), "{results:?}");
    assert_eq!(event(&machine, VmEvent::OomKill), 1, "one space, however many threads");
}
