//! Files used by several tasks at once, on disks that take time and may fail.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use highwater_core::Kernel;
use highwater_core::audit::check_kernel;
use highwater_core::block::DeviceId;
use highwater_core::config::{Machine, TreeNodes, preset};
use highwater_core::host::{CpuId, Cx, IoError, TaskFlags};
use highwater_core::kernel::Error;
use highwater_core::page_cache::{File, FileSpec, Filesystem, OpenFile};
use highwater_core::syscall::FileAdvice;
use highwater_core::vmstat::{NodeStat, VmEvent};
use highwater_core::zone::NodeId;
use highwater_sim::cost::{CostModel, CostTable};
use highwater_sim::disk::{DiskSpec, FaultySpec, PerDirection};
use highwater_sim::engine::Placement;
use highwater_sim::host::SimHost;
use highwater_sim::machine::{MachineConfig, SimMachine};

const PAGE: u64 = 4096;
const CALL: u64 = 16 * PAGE;
const SECOND: u64 = 1_000_000_000;
const LIMIT_NS: u64 = 3600 * SECOND;

fn config(memory: u64, disk: DiskSpec) -> MachineConfig {
    let machine =
        Machine::from_sizes("test", &[(memory << 20, vec![0, 1, 2, 3])]).expect("machine");
    let costs = CostModel::new(&CostTable::server_3ghz());
    let mut config = MachineConfig::new(machine, costs, preset("6.1").expect("preset"));
    config.disks = vec![disk];
    config
}

fn boot(memory: u64, disk: DiskSpec) -> SimMachine {
    SimMachine::boot(config(memory, disk)).expect("boot")
}

fn nvme() -> DiskSpec {
    DiskSpec::nvme("data", 1 << 20)
}

fn make_file(machine: &SimMachine, pages: u32) -> Arc<File<SimHost>> {
    let spec = FileSpec::new(Filesystem::EXT4, DeviceId(0), 0, pages);
    machine.kernel.create_file(&Cx::new(&*machine.host, CpuId(0)), spec)
}

/// Reads to the end; returns the bytes.
fn read_all(
    cx: &Cx<'_, SimHost>,
    kernel: &Kernel<SimHost>,
    open: &OpenFile<SimHost>,
) -> Result<u64, Error> {
    let mut at = 0;
    loop {
        match kernel.file_read(cx, open, at, CALL)? {
            0 => return Ok(at),
            read => at += read,
        }
    }
}

fn count(machine: &SimMachine, item: NodeStat) -> u64 {
    machine.kernel.mem.node(NodeId(0)).stats.read_exact(item as usize)
}

/// rules/slab#tree-nodes
#[test]
fn tree_nodes_are_freed_with_their_pages_or_after_a_grace_period() {
    // Few enough that they are dropped within a grace period.
    const PAGES: u32 = 64 * 260;
    for rule in [TreeNodes::AtOnce, TreeNodes::AfterGracePeriod] {
        let mut config = config(256, nvme());
        config.policy.tree_nodes = rule;
        let mut machine = SimMachine::boot(config).expect("boot");
        // XFS has no buffer heads, whose slabs are reclaimable too.
        let spec = FileSpec::new(Filesystem::XFS, DeviceId(0), 0, PAGES);
        let file = machine.kernel.create_file(&Cx::new(&*machine.host, CpuId(0)), spec);
        let seen = machine.spawn_task("reader", Placement::Pinned(CpuId(1)), move |cx, kernel| {
            let open = kernel.open(cx, &file);
            assert_eq!(read_all(cx, kernel, &open), Ok(u64::from(PAGES) * PAGE));
            let slabs = || {
                let stats = &kernel.mem.node(NodeId(0)).stats;
                stats.read_exact(NodeStat::SlabReclaimable as usize)
            };
            let full = slabs();
            kernel.drop_caches(cx, 1);
            let dropped = slabs();
            check_kernel(kernel, cx).expect("waiting nodes are counted");
            cx.host.sim().sleep_ns(SECOND / 10);
            (full, dropped, slabs())
        });
        machine.run_within(LIMIT_NS).expect("run");
        let (full, dropped, later) = seen.take().expect("done");
        assert!(full - later >= 20, "most slabs: {full}, {later}");
        match rule {
            TreeNodes::AtOnce => assert_eq!(dropped, later),
            TreeNodes::AfterGracePeriod => assert_eq!(dropped, full),
        }
    }
}

#[test]
fn readers_of_one_file_share_its_pages() {
    let mut machine = boot(256, nvme());
    let file = make_file(&machine, 8000);
    let readers: Vec<_> = (0..6)
        .map(|_| {
            let file = Arc::clone(&file);
            machine.spawn_task("reader", Placement::Anywhere, move |cx, kernel| {
                let open = kernel.open(cx, &file);
                read_all(cx, kernel, &open)
            })
        })
        .collect();
    machine.run_within(LIMIT_NS).expect("run");
    for reader in readers {
        assert_eq!(reader.take().expect("done"), Ok(8000 * PAGE));
    }
    assert_eq!(machine.kernel.mem.events.read(VmEvent::Pgpgin), 8000 * 4, "read from disk once");
    assert_eq!(count(&machine, NodeStat::FilePages), 8000);
}

#[test]
fn a_descriptor_shared_by_readers_loses_nothing() {
    let mut machine = boot(256, nvme());
    let file = make_file(&machine, 4000);
    let cx = Cx::new(&*machine.host, CpuId(0));
    let open = machine.kernel.open(&cx, &file);
    drop(cx);
    let readers: Vec<_> = (0..4u64)
        .map(|nr| {
            let open = Arc::clone(&open);
            machine.spawn_task("reader", Placement::Anywhere, move |cx, kernel| {
                let mut bytes = 0;
                for call in 0..250 {
                    let at = (call * 4 + nr) * 4 * PAGE;
                    bytes += kernel.file_read(cx, &open, at, 4 * PAGE).expect("read");
                }
                bytes
            })
        })
        .collect();
    machine.run_within(LIMIT_NS).expect("run");
    assert_eq!(readers.iter().map(|r| r.take().expect("done")).sum::<u64>(), 4000 * PAGE);
    assert_eq!(machine.kernel.mem.events.read(VmEvent::Pgpgin), 4000 * 4);
}

/// All tasks end, and nothing is left of the file.
#[test]
fn truncation_and_deletion_race_with_readers_and_writers() {
    let mut machine = boot(128, nvme());
    let file = make_file(&machine, 20_000);
    let is_gone = Rc::new(Cell::new(false));
    for _ in 0..3 {
        let (file, is_gone) = (Arc::clone(&file), Rc::clone(&is_gone));
        machine.spawn_task("reader", Placement::Anywhere, move |cx, kernel| {
            let open = kernel.open(cx, &file);
            while !is_gone.get() {
                read_all(cx, kernel, &open).expect("read");
                cx.host.sim().sleep_ns(100_000);
            }
        });
    }
    for task in 0..2u64 {
        let (file, is_gone) = (Arc::clone(&file), Rc::clone(&is_gone));
        machine.spawn_task("writer", Placement::Anywhere, move |cx, kernel| {
            let open = kernel.open(cx, &file);
            let mut at = task * 100;
            while !is_gone.get() {
                at = (at + 7919) % 19_000;
                match kernel.file_write(cx, &open, at * PAGE + 100, 3 * PAGE) {
                    Ok(_) => {}
                    Err(_) if is_gone.get() => break,
                    // The deletion is in progress.
                    Err(Error::Invalid) => break,
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
    let other = Arc::clone(&file);
    machine.spawn_task("cutter", Placement::Anywhere, move |cx, kernel| {
        for pages in [15_000, 9000, 8999, 100] {
            cx.host.sim().sleep_ns(3_000_000);
            kernel.truncate(cx, &other, pages);
        }
        cx.host.sim().sleep_ns(3_000_000);
        is_gone.set(true);
        kernel.delete_file(cx, &other);
    });
    machine.run_within(LIMIT_NS).expect("run");
    assert_eq!(file.nr_pages(), 0);
    for item in [NodeStat::FilePages, NodeStat::Dirty, NodeStat::Writeback] {
        assert_eq!(count(&machine, item), 0, "{item:?}");
    }
}

#[test]
fn dropping_pages_races_with_readers() {
    let mut machine = boot(128, nvme());
    let file = make_file(&machine, 3000);
    let left = Rc::new(Cell::new(3));
    for _ in 0..3 {
        let (file, left) = (Arc::clone(&file), Rc::clone(&left));
        machine.spawn_task("reader", Placement::Anywhere, move |cx, kernel| {
            let open = kernel.open(cx, &file);
            for _ in 0..10 {
                assert_eq!(read_all(cx, kernel, &open), Ok(3000 * PAGE));
            }
            left.set(left.get() - 1);
        });
    }
    let other = Arc::clone(&file);
    machine.spawn_task("dropper", Placement::Anywhere, move |cx, kernel| {
        let open = kernel.open(cx, &other);
        while left.get() > 0 {
            kernel.fadvise(cx, &open, 0, 0, FileAdvice::DontNeed);
            kernel.drop_caches(cx, 3);
            cx.host.sim().sleep_ns(200_000);
        }
        kernel.drop_caches(cx, 3);
    });
    machine.run_within(LIMIT_NS).expect("run");
    assert_eq!((file.nr_pages(), count(&machine, NodeStat::FilePages)), (0, 0));
}

#[test]
fn failed_reads_are_reported_and_can_be_repeated() {
    let errors = PerDirection { read: 0.2, write: 0.0 };
    let faults = FaultySpec { errors, ..FaultySpec::default() };
    let mut machine = boot(128, DiskSpec { faults: Some(faults), ..nvme() });
    let file = make_file(&machine, 4000);
    let reader = machine.spawn_task("reader", Placement::Anywhere, {
        let file = Arc::clone(&file);
        move |cx, kernel| {
            let open = kernel.open(cx, &file);
            let (mut at, mut nr_failed) = (0, 0);
            while at < file.size() {
                match kernel.file_read(cx, &open, at, CALL) {
                    Ok(read) => at += read,
                    Err(Error::Io(IoError::Device)) => nr_failed += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            nr_failed
        }
    });
    machine.run_within(LIMIT_NS).expect("run");
    // A fifth of 130 windows fails. Their 800 pages are read again one by one. A failure there ends
    // the call early, and the next call begins with a third attempt. Only a failure of that one is
    // reported.
    let nr_failed = reader.take().expect("done");
    assert!((10..100).contains(&nr_failed), "{nr_failed}");
    assert_eq!(file.nr_pages(), 4000);
}

#[test]
fn a_reader_is_killed_while_it_waits_for_the_disk() {
    let mut machine = boot(128, DiskSpec::hdd("data", 1 << 20));
    let file = make_file(&machine, 100_000);
    let signals = Rc::new(Cell::new(None));
    let reader = machine.spawn_task("reader", Placement::Anywhere, {
        let signals = Rc::clone(&signals);
        move |cx, kernel| {
            signals.set(Some(Arc::clone(cx.signals())));
            let open = kernel.open(cx, &file);
            let result = read_all(cx, kernel, &open);
            (result, cx.host.sim().now_ns())
        }
    });
    machine.spawn_task("killer", Placement::Anywhere, move |cx, _| {
        cx.host.sim().sleep_ns(100_000_000);
        signals.take().expect("the reader began").raise(TaskFlags::FATAL_SIGNAL);
    });
    machine.run_within(LIMIT_NS).expect("run");
    let (result, ended_ns) = reader.take().expect("done");
    assert_eq!(result, Err(Error::Killed));
    assert!(ended_ns < SECOND / 5, "{ended_ns}");
}

/// A file larger than memory: every page is read again in every pass, and only the newest stay.
#[test]
fn a_file_larger_than_memory_streams_through() {
    let mut machine = boot(64, nvme());
    let pages = 30_000;
    let file = make_file(&machine, pages);
    let reader = machine.spawn_task("reader", Placement::Anywhere, {
        let file = Arc::clone(&file);
        move |cx, kernel| {
            let open = kernel.open(cx, &file);
            [(); 3].map(|()| read_all(cx, kernel, &open))
        }
    });
    machine.run_within(LIMIT_NS).expect("run");
    assert_eq!(reader.take().expect("done"), [Ok(u64::from(pages) * PAGE); 3]);
    assert!(file.nr_pages() < 16_384);
    assert_eq!(count(&machine, NodeStat::FilePages), file.nr_pages());
    let read = machine.kernel.mem.events.read(VmEvent::Pgpgin) / 4;
    assert!(read > 2 * u64::from(pages), "{read}");
    let refaults = count(&machine, NodeStat::WorkingsetRefaultFile);
    assert!(refaults > u64::from(pages), "{refaults}");
    let nodes = count(&machine, NodeStat::WorkingsetNodes);
    assert!(nodes > 100, "{nodes} nodes hold shadows of what left");
}
