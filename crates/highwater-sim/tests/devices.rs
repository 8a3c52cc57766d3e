//! Disks behind the host: times, interrupts, and the tasks that pay for them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use highwater_core::block::{Bio, BioKind, BioVector, DeviceId, WriteClass};
use highwater_core::config::Machine;
use highwater_core::host::{
    Cost, CpuId, CpuSet, Cx, Devices, Host, IoDirection, IoError, IoRequest, IpiScope, Tasks,
    Urgency,
};
use highwater_core::page::{Order, Pfn};
use highwater_sim::cost::{CostModel, CostTable};
use highwater_sim::disk::{DiskSpec, FaultySpec, PerDirection};
use highwater_sim::engine::{Engine, Placement, Spawn, TaskId};
use highwater_sim::host::{SimHost, Tracing, engine_config};

const NR_CPUS: u16 = 4;

fn costs() -> CostModel {
    CostModel::new(&CostTable::server_3ghz())
}

/// Completions seen by the interrupts: time, CPU, request, result.
type Ended = Rc<RefCell<Vec<(u64, CpuId, u64, Result<(), IoError>)>>>;
/// The waiting task of each request.
type Waiters = Rc<RefCell<BTreeMap<u64, TaskId>>>;

struct Rig {
    engine: Engine,
    host: Rc<SimHost>,
    ended: Ended,
    waiters: Waiters,
}

fn rig(disks: &[DiskSpec]) -> Rig {
    let machine =
        Machine::from_sizes("m", &[(256 << 20, (0..NR_CPUS).collect())]).expect("machine");
    let engine = Engine::new(&engine_config(&machine, &costs()));
    let host = SimHost::new(engine.sim(), &machine, costs(), Tracing::default());
    let host = Rc::new(host.with_disks(disks, 1));
    let (ended, waiters) = (Ended::default(), Waiters::default());
    for device in host.interrupting_disks() {
        for cpu in (0..NR_CPUS).map(CpuId) {
            let (host, ended, waiters) = (Rc::clone(&host), Rc::clone(&ended), Rc::clone(&waiters));
            let spawn = Spawn::new(format!("irq/{}/{}", device.0, cpu.0))
                .placement(Placement::Interrupt(cpu))
                .kernel_thread();
            engine.spawn(spawn, move |sim| {
                let cx = Cx::new(&*host, cpu);
                host.serve_interrupts(device, &cx, |request, result| {
                    ended.borrow_mut().push((request.id, cx.cpu(), sim.now_ns(), result));
                    let waiter = waiters.borrow_mut().remove(&request.id);
                    if let Some(waiter) = waiter {
                        host.unpark(&waiter);
                    }
                });
            });
        }
    }
    Rig { engine, host, ended, waiters }
}

fn request(id: u64, device: u8, direction: IoDirection, start: u64, pages: &[u64]) -> IoRequest {
    let kind = match direction {
        IoDirection::Read => BioKind::FileRead,
        IoDirection::Write => BioKind::FileWrite,
    };
    let device = DeviceId(device);
    let pages: Vec<Pfn> = pages.iter().map(|&pfn| Pfn(pfn as u32)).collect();
    let nr_pages = pages.len() as u32;
    let bio = Bio { device, kind, start, pages, urgency: Urgency::Sync, vector: BioVector::Inline };
    IoRequest {
        id,
        device,
        direction,
        start,
        nr_pages,
        urgency: Urgency::Sync,
        write_class: WriteClass::Free,
        bios: vec![bio],
    }
}

#[test]
fn a_reader_sleeps_as_long_as_the_disk_takes_and_the_interrupt_pays_for_the_wake_up() {
    let mut rig = rig(&[DiskSpec::nvme("n", 1 << 20)]);
    let (host, waiters) = (Rc::clone(&rig.host), Rc::clone(&rig.waiters));
    let task = rig.engine.spawn(Spawn::new("reader").pinned(CpuId(2)), move |sim| {
        let start_ns = sim.now_ns();
        waiters.borrow_mut().insert(7, host.current());
        assert!(host.submit(request(7, 0, IoDirection::Read, 100, &[1000])).is_none());
        assert_eq!(sim.now_ns(), start_ns, "the doorbell is free");
        host.park("the disk");
        sim.now_ns() - start_ns
    });
    rig.engine.run().expect("run");
    let took_ns = task.take().expect("done");
    let costs = costs();
    let ended = rig.ended.borrow();
    let &[(7, CpuId(2), at_ns, Ok(()))] = ended.as_slice() else { panic!("{ended:?}") };
    // The interrupt began when the disk was done; its entry cost came before the end was seen.
    let done_ns = at_ns - costs.io_interrupt_ns;
    let started_ns = costs.sched.context_switch_ns + costs.sched.wake_idle_shallow_ns;
    assert!((73_000..90_000).contains(&(done_ns - started_ns)), "{done_ns}");
    // Entry and wake-up on the interrupted CPU, then the reader's own way back.
    let sched = costs.sched;
    let overhead_ns = costs.io_interrupt_ns
        + sched.wakeup_ns
        + sched.wake_idle_shallow_ns
        + sched.context_switch_ns;
    assert_eq!(took_ns, done_ns - started_ns + overhead_ns);
    let times = rig.engine.sim().cpu_times(CpuId(2));
    assert!(times.system_ns >= costs.io_interrupt_ns + sched.wakeup_ns, "{times:?}");
}

#[test]
fn interrupts_steal_their_time_from_what_runs_there() {
    let run = |with_io: bool| {
        let mut rig = rig(&[DiskSpec::nvme("n", 1 << 20)]);
        let host = Rc::clone(&rig.host);
        let task = rig.engine.spawn(Spawn::new("busy").pinned(CpuId(1)), move |sim| {
            for id in 0..if with_io { 16 } else { 0 } {
                host.submit(request(id, 0, IoDirection::Write, id * 1000, &[2000 + id]));
            }
            // Short steps, so that stolen time is paid promptly.
            for _ in 0..1000 {
                sim.charge(1_000);
                sim.sync();
            }
            sim.now_ns()
        });
        rig.engine.run().expect("run");
        let nr_ended = rig.ended.borrow().len();
        (task.take().expect("done"), nr_ended)
    };
    let (alone_ns, _) = run(false);
    let (interrupted_ns, nr_ended) = run(true);
    assert_eq!(nr_ended, 16);
    let extra_ns = interrupted_ns - alone_ns;
    // At most one interrupt for each transfer; a few find several transfers done.
    let each_ns = costs().io_interrupt_ns;
    assert!((2 * each_ns..=16 * each_ns).contains(&extra_ns), "{extra_ns}");
}

#[test]
fn every_transfer_ends_once_on_the_cpu_that_submitted_it() {
    let disks = [DiskSpec::sata_ssd("s", 1 << 20), DiskSpec::hdd("h", 1 << 22)];
    let mut rig = rig(&disks);
    for cpu in 0..NR_CPUS {
        let (host, waiters) = (Rc::clone(&rig.host), Rc::clone(&rig.waiters));
        rig.engine.spawn(Spawn::new(format!("task {cpu}")).pinned(CpuId(cpu)), move |sim| {
            for i in 0..50u64 {
                let id = u64::from(cpu) * 1000 + i;
                let device = (i % 2) as u8;
                let direction = if i % 3 == 0 { IoDirection::Write } else { IoDirection::Read };
                let waits = i % 5 == 4;
                if waits {
                    waiters.borrow_mut().insert(id, host.current());
                }
                host.submit(request(id, device, direction, id * 64, &[id]));
                if waits {
                    host.park("the disk");
                }
                sim.charge(700);
            }
            // All transfers still in flight.
            sim.sleep_ns(10_000_000_000);
        });
    }
    rig.engine.run().expect("run");
    let ended = rig.ended.borrow();
    let mut ids: Vec<u64> = ended.iter().map(|&(id, ..)| id).collect();
    ids.sort_unstable();
    let all: Vec<u64> =
        (0..u64::from(NR_CPUS)).flat_map(|cpu| (0..50).map(move |i| cpu * 1000 + i)).collect();
    assert_eq!(ids, all);
    assert!(
        ended
            .iter()
            .all(|&(id, cpu, _, result)| { u64::from(cpu.0) == id / 1000 && result == Ok(()) })
    );
    let stats = [0, 1].map(|d| rig.host.disk_stats(DeviceId(d)));
    assert_eq!(stats.iter().map(|s| s.read.nr_done + s.write.nr_done).sum::<u64>(), 200);
    assert!(stats[1].read.total_ns > 20 * stats[0].read.total_ns, "arms are slow");
}

#[test]
fn a_disk_in_memory_is_done_at_once_and_its_copying_is_the_submitters() {
    let mut rig = rig(&[DiskSpec::ram("r", 1 << 20)]);
    let host = Rc::clone(&rig.host);
    rig.engine.spawn(Spawn::new("task").pinned(CpuId(0)), move |sim| {
        host.frame_zero(Pfn(3000), Order::ZERO);
        let start_ns = sim.now_ns();
        let back = host.submit(request(1, 0, IoDirection::Write, 5, &[3000, 3001]));
        assert!(matches!(back, Some((IoRequest { id: 1, .. }, Ok(())))));
        assert_eq!(sim.now_ns() - start_ns, 25 + 210, "one page hot, the next one in memory");
    });
    rig.engine.run().expect("run");
    assert!(rig.ended.borrow().is_empty());
    assert_eq!(rig.host.disk_stats(DeviceId(0)).write.nr_pages, 2);
}

#[test]
fn errors_come_back_with_their_requests() {
    let faults = FaultySpec {
        errors: PerDirection { read: 1.0, write: 0.0 },
        pages: Some(50..60),
        ..FaultySpec::default()
    };
    let disk = DiskSpec { faults: Some(faults), ..DiskSpec::nvme("n", 1000) };
    let mut rig = rig(&[disk]);
    let host = Rc::clone(&rig.host);
    rig.engine.spawn(Spawn::new("task"), move |sim| {
        host.submit(request(1, 0, IoDirection::Read, 49, &[1]));
        host.submit(request(2, 0, IoDirection::Read, 50, &[2]));
        host.submit(request(3, 0, IoDirection::Write, 50, &[3]));
        sim.sleep_ns(1_000_000);
    });
    rig.engine.run().expect("run");
    let mut results: Vec<_> = rig.ended.borrow().iter().map(|&(id, _, _, r)| (id, r)).collect();
    results.sort_by_key(|&(id, _)| id);
    assert_eq!(results, [(1, Ok(())), (2, Err(IoError::Device)), (3, Ok(()))]);
    assert_eq!(rig.host.disk_stats(DeviceId(0)).read.nr_failed, 1);
}

#[test]
fn charges_are_summed_by_kind_and_interrupts_count_what_targets_did() {
    let mut rig = rig(&[]);
    let host = Rc::clone(&rig.host);
    rig.engine.spawn(Spawn::new("target").pinned(CpuId(1)), |sim| {
        for _ in 0..100 {
            sim.charge(100);
            sim.sync();
        }
    });
    rig.engine.spawn(Spawn::new("task").pinned(CpuId(0)), move |_| {
        host.charge(Cost::MarkActivate, 15);
        host.charge(Cost::MarkActivate, 2);
        assert_eq!(host.charged_ns(Cost::MarkActivate), 17 * 120);
        assert_eq!(host.charged_ns(Cost::MarkReferenced), 0);
        let targets = CpuSet::EMPTY.with(CpuId(0)).with(CpuId(1)).with(CpuId(3));
        host.interrupt(&targets, IpiScope::BusyOnly, Cost::TlbPage, 3);
        assert_eq!(host.charged_ns(Cost::TlbPage), 180, "CPU 3 is idle, CPU 0 is ours");
        host.interrupt(&targets, IpiScope::All, Cost::TlbFull, 1);
        assert_eq!(host.charged_ns(Cost::TlbFull), 400);
    });
    rig.engine.run().expect("run");
}
