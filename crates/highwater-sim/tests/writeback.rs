//! Writers, flusher and disk together.

use highwater_core::block::DeviceId;
use highwater_core::config::{Machine, preset};
use highwater_core::host::{Cx, IoError};
use highwater_core::kernel::Error;
use highwater_core::page_cache::{FileSpec, Filesystem, OpenFile};
use highwater_core::vmstat::{NodeStat, VmEvent};
use highwater_core::{Kernel, host::HZ};
use highwater_sim::cost::{CostModel, CostTable};
use highwater_sim::disk::{DiskSpec, FaultySpec};
use highwater_sim::engine::Placement;
use highwater_sim::host::SimHost;
use highwater_sim::machine::{MachineConfig, SimMachine};

use std::sync::Arc;

const PAGE: u64 = 4096;
/// Time limit of every test: an hour of virtual time.
const LIMIT_NS: u64 = 3600 * 1_000_000_000;

fn machine(disk: DiskSpec) -> SimMachine {
    let shape = Machine::from_sizes("writer", &[(512 << 20, vec![0, 1])]).unwrap();
    let costs = CostModel::new(&CostTable::server_3ghz());
    let mut config = MachineConfig::new(shape, costs, preset("6.1").unwrap());
    config.disks = vec![disk];
    SimMachine::boot(config).unwrap()
}

fn file(cx: &Cx<'_, SimHost>, kernel: &Kernel<SimHost>, pages: u32) -> Arc<OpenFile<SimHost>> {
    let spec = FileSpec::new(Filesystem::EXT4, DeviceId(0), 0, pages);
    kernel.open(cx, &kernel.create_file(cx, spec))
}

fn count(kernel: &Kernel<SimHost>, item: NodeStat) -> u64 {
    kernel.mem.nodes().iter().map(|node| node.stats.read_exact(item as usize)).sum()
}

/// Writes single pages at random offsets; returns the number of distinct pages.
fn write_randomly(
    cx: &Cx<'_, SimHost>,
    kernel: &Kernel<SimHost>,
    open: &OpenFile<SimHost>,
    (pages, writes): (u64, u64),
) -> u64 {
    let mut state = 88_172_645_463_325_252u64;
    let mut touched = vec![false; pages as usize];
    for _ in 0..writes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let page = state % pages;
        touched[page as usize] = true;
        assert_eq!(kernel.file_write(cx, open, page * PAGE, PAGE), Ok(PAGE));
    }
    touched.iter().filter(|&&t| t).count() as u64
}

#[test]
fn random_writes_reach_the_disk_and_nothing_is_lost() {
    let mut machine = machine(DiskSpec::sata_ssd("data", 1 << 20));
    let pages = 58_112u64;
    let program = machine.spawn_task("writer", Placement::Anywhere, move |cx, kernel| {
        let open = file(cx, kernel, pages as u32);
        let touched = write_randomly(cx, kernel, &open, (pages, pages));
        let after = [NodeStat::Dirtied, NodeStat::Written, NodeStat::Dirty, NodeStat::Writeback]
            .map(|item| count(kernel, item));
        let limits = kernel.dirty_limits(cx);
        assert!(after[2] + after[3] <= limits.thresh + 64, "{after:?} {limits:?}");
        assert_eq!(kernel.fsync(cx, &open), Ok(()));
        (touched, after)
    });
    machine.run_within(LIMIT_NS).unwrap();
    let (touched, [dirtied, written, dirty, writeback]) = program.take().unwrap();
    println!("touched {touched} dirtied {dirtied} written {written} left {dirty} + {writeback}");
    // Every page once, a few twice: those that were written back before they were written again.
    assert!((touched..2 * touched).contains(&dirtied), "{dirtied}");
    assert_eq!(dirtied, written + dirty + writeback);
    let kernel = &machine.kernel;
    assert_eq!(count(kernel, NodeStat::Written), dirtied);
    assert_eq!(kernel.mem.events.read(VmEvent::Pgpgout), 4 * dirtied);
    let left = [NodeStat::Dirty, NodeStat::Writeback].map(|item| count(kernel, item));
    assert_eq!(left, [0, 0]);
    let stats = machine.host.disk_stats(DeviceId(0));
    println!("{:?} {} ms", stats.write, machine.sim().now_ns() / 1_000_000);
}

#[test]
fn a_slow_disk_sets_the_pace() {
    let mut machine = machine(DiskSpec::hdd("data", 1 << 20));
    let pages = 80_000u32;
    let program = machine.spawn_task("writer", Placement::Anywhere, move |cx, kernel| {
        let open = file(cx, kernel, pages);
        let start_ns = cx.host.sim().now_ns();
        assert_eq!(
            kernel.file_write(cx, &open, 0, u64::from(pages) * PAGE),
            Ok(pages as u64 * PAGE)
        );
        cx.host.sim().now_ns() - start_ns
    });
    machine.run_within(LIMIT_NS).unwrap();
    let seconds = program.take().unwrap() as f64 / 1e9;
    // All pages except the allowed dirty ones went to the disk meanwhile, at 160 MB/s.
    let dirty_at_most = 0.2 * 512.0 * 1.05;
    let disk_seconds = (f64::from(pages) / 256.0 - dirty_at_most) * 1.048576 / 160.0;
    println!("{seconds} s, the disk alone {disk_seconds} s");
    assert!((disk_seconds..3.0 * disk_seconds).contains(&seconds), "{seconds} s");
}

#[test]
fn old_pages_are_written_without_being_asked_for() {
    let mut machine = machine(DiskSpec::nvme("data", 1 << 20));
    let program = machine.spawn_task("writer", Placement::Anywhere, move |cx, kernel| {
        // The disk was busy lately, so that ten pages are within its share of the background limit.
        let open = file(cx, kernel, 20_000);
        kernel.file_write(cx, &open, 0, 20_000 * PAGE).unwrap();
        kernel.fsync(cx, &open).unwrap();
        kernel.file_write(cx, &open, 0, 10 * PAGE).unwrap();
        let dirty_after = |seconds: u64| {
            cx.host.sim().sleep_jiffies(seconds * HZ);
            count(kernel, NodeStat::Dirty)
        };
        [dirty_after(28), dirty_after(8)]
    });
    machine.run_within(LIMIT_NS).unwrap();
    assert_eq!(program.take().unwrap(), [10, 0]);
}

#[test]
fn sync_waits_for_every_file() {
    let mut machine = machine(DiskSpec::hdd("data", 1 << 20));
    let program = machine.spawn_task("writer", Placement::Anywhere, move |cx, kernel| {
        for _ in 0..3 {
            let open = file(cx, kernel, 100);
            kernel.file_write(cx, &open, 0, 100 * PAGE).unwrap();
        }
        kernel.sync_all(cx);
        [NodeStat::Dirty, NodeStat::Writeback, NodeStat::Written].map(|item| count(kernel, item))
    });
    machine.run_within(LIMIT_NS).unwrap();
    assert_eq!(program.take().unwrap(), [0, 0, 300]);
}

#[test]
fn write_errors_are_told_and_lose_nothing_else() {
    let mut disk = DiskSpec::nvme("data", 1 << 20);
    disk.faults = Some(FaultySpec { pages: Some(50..60), ..FaultySpec::default() });
    disk.faults.as_mut().unwrap().errors.write = 1.0;
    let mut machine = machine(disk);
    let program = machine.spawn_task("writer", Placement::Anywhere, move |cx, kernel| {
        let open = file(cx, kernel, 200);
        // Every other page: each request has one page.
        for page in (0..200).step_by(2) {
            kernel.file_write(cx, &open, page * PAGE, PAGE).unwrap();
        }
        [kernel.fsync(cx, &open), kernel.fsync(cx, &open)]
    });
    machine.run_within(LIMIT_NS).unwrap();
    assert_eq!(program.take().unwrap(), [Err(Error::Io(IoError::Device)), Ok(())]);
    let kernel = &machine.kernel;
    let left = [NodeStat::Dirty, NodeStat::Writeback].map(|item| count(kernel, item));
    assert_eq!(left, [0, 0]);
    assert_eq!(kernel.block.device(DeviceId(0)).nr_errors(), 5);
}
