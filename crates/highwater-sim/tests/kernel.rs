//! The whole kernel on the simulated machine: daemons, disks and programs together.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use highwater_core::Kernel;
use highwater_core::audit::check_kernel;
use highwater_core::block::DeviceId;
use highwater_core::config::{Machine, preset};
use highwater_core::host::{Cost, CpuId, Cx, IoError};
use highwater_core::kernel::Error;
use highwater_core::page_cache::{FileSpec, Filesystem, OpenFile};
use highwater_core::swap::SwapSpec;
use highwater_core::units::GroupId;
use highwater_core::vm::{Access, Backing, Mm, VmaFlags};
use highwater_core::vmstat::VmEvent;
use highwater_sim::cost::{CostModel, CostTable};
use highwater_sim::disk::{DiskSpec, FaultySpec, PerDirection};
use highwater_sim::engine::Placement;
use highwater_sim::host::{SimHost, Tracing};
use highwater_sim::machine::{MachineConfig, SimMachine};

const PAGE: u64 = 4096;
const SECOND: u64 = 1_000_000_000;
/// Time limit of every test: an hour of virtual time.
const LIMIT_NS: u64 = 3600 * SECOND;
const DATA: DeviceId = DeviceId(0);
const SWAP: DeviceId = DeviceId(1);

/// Size of a machine: MiB of memory, CPUs, MiB of swap.
#[derive(Clone, Copy)]
struct Shape {
    memory: u64,
    cpus: u16,
    swap: u32,
}

fn config(shape: Shape) -> MachineConfig {
    let nodes = [(shape.memory << 20, (0..shape.cpus).collect())];
    let machine = Machine::from_sizes("test", &nodes).expect("machine");
    let costs = CostModel::new(&CostTable::server_3ghz());
    let mut config = MachineConfig::new(machine, costs, preset("6.1").expect("preset"));
    config.tracing = Tracing { digest: true, ..Tracing::default() };
    config.disks = vec![DiskSpec::nvme("data", 4 << 18), DiskSpec::nvme("swap", 4 << 18)];
    if shape.swap > 0 {
        config.swap = vec![SwapSpec { device: SWAP, pages: shape.swap << 8, priority: -2 }];
    }
    config
}

fn boot(shape: Shape) -> SimMachine {
    SimMachine::boot(config(shape)).expect("boot")
}

type Task<'a, 'h> = (&'a Cx<'h, SimHost>, &'a Kernel<SimHost>);

/// Runs `body` in a new address space.
fn with_mm<T>((cx, kernel): Task<'_, '_>, body: impl FnOnce(&Mm<SimHost>) -> T) -> T {
    let mm = kernel.create_mm(cx).expect("space");
    mm.add_task(cx);
    let result = body(&mm);
    kernel.exit_mm(cx, &mm);
    mm.remove_task(cx);
    result
}

fn map_anon((cx, kernel): Task<'_, '_>, mm: &Mm<SimHost>, pages: u32) -> u32 {
    let flags = VmaFlags::READ | VmaFlags::WRITE;
    kernel.mmap(cx, mm, pages, 1, flags, Backing::Anon).expect("mmap")
}

fn file((cx, kernel): Task<'_, '_>, start: u64, pages: u32) -> Arc<OpenFile<SimHost>> {
    let spec = FileSpec::new(Filesystem::EXT4, DATA, start, pages);
    kernel.open(cx, &kernel.create_file(cx, spec))
}

fn read_all((cx, kernel): Task<'_, '_>, open: &OpenFile<SimHost>) -> Result<u64, Error> {
    let mut at = 0;
    while at < open.file.size() {
        at += kernel.file_read(cx, open, at, 16 * PAGE)?;
    }
    Ok(at)
}

fn event(machine: &SimMachine, event: VmEvent) -> u64 {
    machine.kernel.mem.events.read(event)
}

/// A few pages are too little for a reader to flush: the worker does it, at its time and as of then.
#[test]
fn statistics_of_groups_are_added_up_every_two_seconds() {
    let mut config = config(Shape { memory: 64, cpus: 1, swap: 0 });
    config.groups = 2;
    let mut machine = SimMachine::boot(config).expect("boot");
    let seen = Rc::new(RefCell::new(Vec::new()));
    let readings = Rc::clone(&seen);
    machine.spawn_task("reader", Placement::Pinned(CpuId(0)), move |cx, kernel| {
        let group = kernel.make_group(cx, GroupId::ROOT).expect("a group");
        let anon = || {
            let lines = kernel.group_stat(cx, group);
            lines.iter().find(|line| line.name == "anon").map(|line| line.value / PAGE)
        };
        with_mm((cx, kernel), |mm| {
            kernel.join_group(cx, Some(mm), group).expect("entered");
            let at = map_anon((cx, kernel), mm, 8);
            let seconds = [1.0, 1.9, 2.05, 2.1, 3.9, 4.1];
            for (page, second) in seconds.into_iter().enumerate() {
                let deadline_ns = (second * SECOND as f64) as u64;
                cx.host.sim().sleep_until(deadline_ns);
                readings.borrow_mut().push((second, anon().expect("a level")));
                kernel.touch(cx, mm, at + page as u32, Access::Write).expect("memory");
            }
        });
    });
    machine.run_within(LIMIT_NS).expect("run");
    // The page of 2.05 s came after the worker, and before the reader of 2.1 s.
    let expected = [(1.0, 0), (1.9, 0), (2.05, 2), (2.1, 2), (3.9, 2), (4.1, 5)];
    assert_eq!(*seen.borrow(), expected);
}

/// A task moves to the parent of its group, removes the group, and reclaims `pages` of the parent's
/// memory at each of `moments` (milliseconds after the removal). Slots that the removed group and
/// its parent pay for, groups that are dying, and where the pages go that are read again.
fn swapped_after_removal(moments: &'static [u64]) -> ([u64; 2], usize, u64) {
    let mut config = config(Shape { memory: 64, cpus: 1, swap: 64 });
    config.groups = 3;
    let mut machine = SimMachine::boot(config).expect("boot");
    let program = machine.spawn_task("mover", Placement::Pinned(CpuId(0)), move |cx, kernel| {
        // The daemons begin.
        cx.host.sim().sleep_ns(SECOND / 10);
        let parent = kernel.make_group(cx, GroupId::ROOT).expect("a group");
        let child = kernel.make_group(cx, parent).expect("a group");
        with_mm((cx, kernel), |mm| {
            kernel.join_group(cx, Some(mm), child).expect("entered");
            let at = map_anon((cx, kernel), mm, 2000);
            kernel.touch_range(cx, mm, at, 2000, Access::Write).expect("memory");
            kernel.join_group(cx, Some(mm), parent).expect("entered");
            let start_ns = cx.host.sim().now_ns();
            kernel.remove_group(cx, child).expect("no task is in it");
            let refused = kernel.join_group(cx, Some(mm), child);
            assert_eq!(refused, Err(Error::Invalid), "its directory is gone at once");
            for ms in moments {
                cx.host.sim().sleep_until(start_ns + ms * SECOND / 1000);
                kernel.reclaim_from_group(cx, parent, 500).expect("it has enough");
            }
            let of = |group| kernel.group_swap_usage(group);
            let slots = [of(child), of(parent) - of(child)];
            let nr_dying = kernel.memcg.nr_dying(parent);
            cx.host.sim().sleep_until(start_ns + SECOND);
            let before = kernel.group_usage(child);
            kernel.touch_range(cx, mm, at, 2000, Access::Write).expect("memory");
            (slots, nr_dying, kernel.group_usage(child) - before)
        })
    });
    machine.run_within(LIMIT_NS).expect("run");
    check_kernel(&machine.kernel, &machine.outside()).expect("audit");
    program.take().expect("done")
}

/// A removed group goes offline some 60 ms later. Until then its pages' slots are its own, and
/// after it as long as another slot names it.
#[test]
fn a_removed_group_takes_slots_until_a_worker_takes_it_offline() {
    let ([own, parents], nr_dying, back) = swapped_after_removal(&[5]);
    assert!(own >= 500 && parents == 0, "{own} {parents}");
    assert_eq!((nr_dying, back), (1, 0), "what is read again belongs to the reader's group");
    let ([own, parents], nr_dying, back) = swapped_after_removal(&[100]);
    assert!(own == 0 && parents >= 500, "{own} {parents}");
    assert_eq!((nr_dying, back), (1, 0));
    let ([own, parents], ..) = swapped_after_removal(&[5, 100]);
    assert!(own >= 1000 && parents == 0, "{own} {parents}");
}

#[test]
fn an_idle_machine_sleeps() {
    let mut machine = boot(Shape { memory: 256, cpus: 4, swap: 64 });
    machine.spawn_task("sleeper", Placement::Anywhere, |cx, _| {
        cx.host.sim().sleep_ns(60 * SECOND);
    });
    machine.run_within(LIMIT_NS).expect("run");
    let sim = machine.sim();
    // Waking from deep idle takes time.
    assert!((60 * SECOND..60 * SECOND + 100_000).contains(&sim.now_ns()), "{}", sim.now_ns());
    for cpu in (0..4).map(CpuId) {
        let times = sim.cpu_times(cpu);
        assert_eq!(times.system_ns + times.user_ns + times.idle_ns, sim.now_ns());
        // vmstat folds the counters once a second.
        assert!(times.system_ns < 60 * 100_000, "CPU {}: {times:?}", cpu.0);
    }
    // Only timers: a few events a second for each CPU and daemon.
    assert!(machine.engine().nr_events() < 60 * 20, "{}", machine.engine().nr_events());
}

#[test]
fn a_file_is_read_from_disk_once() {
    let mut machine = boot(Shape { memory: 256, cpus: 2, swap: 0 });
    let pages = 10_000u32;
    let program = machine.spawn_task("reader", Placement::Anywhere, move |cx, kernel| {
        let open = file((cx, kernel), 0, pages);
        [0, 1].map(|_| {
            let start_ns = cx.host.sim().now_ns();
            assert_eq!(read_all((cx, kernel), &open), Ok(u64::from(pages) * PAGE));
            cx.host.sim().now_ns() - start_ns
        })
    });
    machine.run_within(LIMIT_NS).expect("run");
    let [cold_ns, warm_ns] = program.take().expect("done");
    let stats = machine.host.disk_stats(DATA).read;
    assert_eq!(stats.nr_pages, u64::from(pages));
    assert_eq!(event(&machine, VmEvent::Pgpgin), 4 * u64::from(pages));
    // The disk needs 13.7 ms for 41 MB at 3 GB/s. Hits cost 110 + 40 + 210 (frames in
    // address order; else 450) and a share of the call.
    assert!((14_000_000..60_000_000).contains(&cold_ns), "{cold_ns}");
    let per_page = warm_ns / u64::from(pages);
    assert!((360..600).contains(&per_page), "{per_page}");
    // Readahead of 128 KiB at a time: the requests are large.
    assert!(stats.nr_done < u64::from(pages) / 20, "{stats:?}");
}

#[test]
fn anonymous_memory_beyond_ram_goes_to_swap_and_comes_back() {
    let mut machine = boot(Shape { memory: 128, cpus: 2, swap: 256 });
    let pages = 48_000u32;
    let program = machine.spawn_task("hog", Placement::Anywhere, move |cx, kernel| {
        let task = (cx, &**kernel);
        with_mm(task, |mm| {
            let start = map_anon(task, mm, pages);
            for _ in 0..3 {
                let touched = kernel.touch_range(cx, mm, start, pages, Access::Write);
                touched.expect("memory and swap suffice");
            }
        });
        kernel.swap.nr_total() - kernel.swap.nr_free()
    });
    machine.run_within(LIMIT_NS).expect("run");
    // Pages under writeback when the program ended keep their slots.
    let kept = program.take().expect("done");
    assert!(kept < 1000, "{kept} slots");
    let [out, back] = [VmEvent::Pswpout, VmEvent::Pswpin].map(|e| event(&machine, e));
    // Each pass covers more than memory holds: nearly all of it goes to swap and comes back.
    assert!(out > 2 * u64::from(pages) && out < 4 * u64::from(pages), "{out}");
    assert!(back > u64::from(pages) && back <= out, "{back}");
    assert!(event(&machine, VmEvent::Pgmajfault) > u64::from(pages) / 8);
    assert_eq!(event(&machine, VmEvent::OomKill), 0);
    let disk = machine.host.disk_stats(SWAP);
    assert_eq!((disk.write.nr_pages, disk.read.nr_pages), (out, back));
}

#[test]
fn without_swap_the_hog_dies_and_its_memory_comes_back() {
    let mut machine = boot(Shape { memory: 128, cpus: 2, swap: 0 });
    let free_before = machine.kernel.mem.nr_free_pages();
    let hog = machine.spawn_task("hog", Placement::Anywhere, |cx, kernel| {
        let task = (cx, &**kernel);
        with_mm(task, |mm| {
            // Two VMAs: each alone could fit.
            (0..2).find_map(|_| {
                let start = map_anon(task, mm, 20_000);
                kernel.touch_range(cx, mm, start, 20_000, Access::Write).err()
            })
        })
    });
    let small = machine.spawn_task("small", Placement::Anywhere, |cx, kernel| {
        let task = (cx, &**kernel);
        with_mm(task, |mm| {
            let start = map_anon(task, mm, 500);
            (0..200).all(|_| {
                cx.host.sim().sleep_ns(SECOND / 100);
                kernel.touch_range(cx, mm, start, 500, Access::Write).is_ok()
            })
        })
    });
    machine.run_within(LIMIT_NS).expect("run");
    assert_eq!(hog.take(), Some(Some(Error::Killed)));
    assert_eq!(small.take(), Some(true));
    assert_eq!(event(&machine, VmEvent::OomKill), 1);
    let lost = free_before.saturating_sub(machine.kernel.mem.nr_free_pages());
    assert!(lost < 1500, "{lost} pages are in per-CPU lists at most");
}

/// Hogs, readers and writers at once on a small machine, not yet run.
fn mixed_machine(seed: u64, faults: Option<FaultySpec>) -> SimMachine {
    let mut config = config(Shape { memory: 128, cpus: 4, swap: 128 });
    config.seed = seed;
    config.disks[0].faults = faults;
    let machine = SimMachine::boot(config).expect("boot");
    for i in 0..2u32 {
        machine.spawn_task(format!("hog {i}"), Placement::Anywhere, move |cx, kernel| {
            let task = (cx, &**kernel);
            with_mm(task, |mm| {
                let start = map_anon(task, mm, 18_000);
                for _ in 0..3 {
                    kernel.touch_range(cx, mm, start, 18_000, Access::Write).expect("swap");
                }
                kernel.munmap(cx, mm, start, 18_000).expect("mapped");
            });
        });
        machine.spawn_task(format!("reader {i}"), Placement::Anywhere, move |cx, kernel| {
            let open = file((cx, kernel), u64::from(i) * 100_000, 12_000);
            for _ in 0..3 {
                // An error ends a pass.
                let _ = read_all((cx, kernel), &open);
            }
        });
        machine.spawn_task(format!("mapper {i}"), Placement::Anywhere, move |cx, kernel| {
            let task = (cx, &**kernel);
            let open = file(task, 400_000 + u64::from(i) * 100_000, 6_000);
            with_mm(task, |mm| {
                for _ in 0..3 {
                    let backing = Backing::File { open: Arc::clone(&open), page: 0 };
                    let flags = VmaFlags::READ | VmaFlags::SHARED;
                    let start = kernel.mmap(cx, mm, 6_000, 1, flags, backing).expect("mmap");
                    let _ = kernel.touch_range(cx, mm, start, 6_000, Access::Read);
                    kernel.munmap(cx, mm, start, 6_000).expect("mapped");
                }
            });
        });
        machine.spawn_task(format!("writer {i}"), Placement::Anywhere, move |cx, kernel| {
            let open = file((cx, kernel), 700_000 + u64::from(i) * 100_000, 10_000);
            for chunk in 0..40 {
                let _ = kernel.file_write(cx, &open, chunk * 250 * PAGE, 250 * PAGE);
            }
            let _ = kernel.fsync(cx, &open);
        });
    }
    machine
}

fn mixture(seed: u64, faults: Option<FaultySpec>) -> (SimMachine, u64) {
    let mut machine = mixed_machine(seed, faults);
    machine.run_within(LIMIT_NS).expect("run");
    check_kernel(&machine.kernel, &machine.outside()).expect("audit");
    let digest = machine.digest().value();
    (machine, digest)
}

#[test]
fn a_mixture_runs_to_its_end_and_the_same_seed_is_the_same_run() {
    let (machine, digest) = mixture(1, None);
    assert!(event(&machine, VmEvent::Pswpout) > 0);
    let locks = machine.sim().lock_stats();
    let lru = locks.iter().find(|row| row.name == "lruvec->lru_lock").expect("lru_lock");
    assert!(lru.nr_contended > 0, "{lru:?}");
    assert_eq!(mixture(1, None).1, digest);
    assert_ne!(mixture(2, None).1, digest, "the disk's jitter differs");
}

#[test]
fn a_mixture_survives_a_disk_that_fails_and_stalls() {
    let faults = FaultySpec {
        errors: PerDirection { read: 0.05, write: 0.05 },
        slow: 0.02,
        ..FaultySpec::default()
    };
    let (machine, digest) = mixture(3, Some(faults.clone()));
    let stats = machine.host.disk_stats(DATA);
    assert!(stats.read.nr_failed > 0 && stats.write.nr_failed > 0, "{stats:?}");
    assert_eq!(mixture(3, Some(faults)).1, digest);
}

#[test]
fn a_run_may_end_anywhere() {
    // Every task is at some point in the kernel; all of them are unwound.
    for limit_ns in [1_000_000, 20_000_000, 33_000_000, 60_000_000] {
        let error = mixed_machine(1, None).run_within(limit_ns).expect_err("too short");
        assert!(error.to_string().contains("kswapd0 (daemon) waits on"), "{error}");
    }
    let mut machine = mixed_machine(1, None);
    machine.spawn_task("broken", Placement::Anywhere, |cx, _| {
        cx.host.sim().sleep_ns(30_000_000);
        panic!("on purpose");
    });
    let error = machine.run_within(LIMIT_NS).expect_err("panics");
    assert!(error.to_string().contains("broken panicked"), "{error}");
}

#[test]
fn a_read_error_reaches_the_reader_and_the_page_can_be_read_later() {
    let mut config = config(Shape { memory: 256, cpus: 1, swap: 0 });
    // Readahead fails, and so does the read of the page itself; afterwards the disk works.
    config.disks[0].faults = Some(FaultySpec {
        errors: PerDirection { read: 1.0, write: 0.0 },
        pages: Some(40..41),
        ..FaultySpec::default()
    });
    let mut machine = SimMachine::boot(config).expect("boot");
    let program = machine.spawn_task("reader", Placement::Anywhere, |cx, kernel| {
        let open = file((cx, kernel), 0, 100);
        let before = kernel.file_read(cx, &open, 0, 40 * PAGE);
        let at = kernel.file_read(cx, &open, 40 * PAGE, PAGE);
        let after = kernel.file_read(cx, &open, 41 * PAGE, 59 * PAGE);
        (before, at, after)
    });
    machine.run_within(LIMIT_NS).expect("run");
    let (before, at, after) = program.take().expect("done");
    assert_eq!(before, Ok(40 * PAGE));
    assert_eq!(at, Err(Error::Io(IoError::Device)));
    assert_eq!(after, Ok(59 * PAGE));
}

/// Time of an munmap of `pages` pages on CPU 0, while threads of the same program on CPUs 1 and 2
/// compute or sleep. Also the time that the interrupts took from them.
fn munmap_beside(pages: u32, threads: [Option<&'static str>; 2]) -> (u64, u64) {
    let mut machine = boot(Shape { memory: 256, cpus: 4, swap: 0 });
    let shared: Rc<RefCell<Option<Arc<Mm<SimHost>>>>> = Rc::default();
    for (cpu, does) in (1..).zip(threads) {
        let Some(does) = does else { continue };
        let shared = Rc::clone(&shared);
        machine.spawn_task(does, Placement::Pinned(CpuId(cpu)), move |cx, kernel| {
            let sim = cx.host.sim();
            sim.sleep_ns(10_000_000);
            let mm = shared.borrow().clone().expect("made by now");
            let task = (cx, &**kernel);
            let start = map_anon(task, &mm, 1);
            kernel.touch(cx, &mm, start, Access::Write).expect("memory");
            match does {
                "computes" => sim.compute(30_000_000),
                _ => sim.sleep_ns(30_000_000),
            }
        });
    }
    let program = machine.spawn_task("main", Placement::Pinned(CpuId(0)), move |cx, kernel| {
        let task = (cx, &**kernel);
        let sim = cx.host.sim();
        let mm = kernel.create_mm(cx).expect("space");
        *shared.borrow_mut() = Some(Arc::clone(&mm));
        let start = map_anon(task, &mm, pages);
        kernel.touch_range(cx, &mm, start, pages, Access::Write).expect("memory");
        sim.sleep_ns(20_000_000);
        let (before_ns, stolen_ns) = (sim.now_ns(), cx.host.charged_ns(Cost::TlbFull));
        kernel.munmap(cx, &mm, start, pages).expect("mapped");
        let took_ns = sim.now_ns() - before_ns;
        let flushed_ns = cx.host.charged_ns(Cost::TlbFull) - stolen_ns;
        sim.sleep_ns(40_000_000);
        shared.borrow_mut().take();
        kernel.exit_mm(cx, &mm);
        (took_ns, flushed_ns)
    });
    machine.run_within(LIMIT_NS).expect("run");
    program.take().expect("done")
}

#[test]
fn a_tlb_flush_interrupts_the_busy_cpus_of_the_space() {
    let costs = CostModel::new(&CostTable::server_3ghz());
    let full_ns = costs.ns(Cost::TlbFull);
    // A part of one table, which stays because the threads' pages follow it.
    let (alone_ns, flushed_ns) = munmap_beside(400, [None, None]);
    // 85 a page, and the rest.
    assert!((34_000..52_000).contains(&alone_ns), "{alone_ns}");
    assert_eq!(flushed_ns, full_ns, "its own");
    let (one_ns, flushed_ns) = munmap_beside(400, [Some("computes"), None]);
    assert_eq!(flushed_ns, 2 * full_ns);
    let (two_ns, flushed_ns) = munmap_beside(400, [Some("computes"); 2]);
    assert_eq!(flushed_ns, 3 * full_ns);
    assert_eq!(two_ns - one_ns, costs.sched.ipi_next_ns);
    // Lazy CPUs are not interrupted, unless tables are freed.
    let (lazy_ns, flushed_ns) = munmap_beside(400, [Some("computes"), Some("sleeps")]);
    assert_eq!((lazy_ns, flushed_ns), (one_ns, 2 * full_ns));
    let (_, flushed_ns) = munmap_beside(1024, [Some("computes"), Some("sleeps")]);
    assert_eq!(flushed_ns, 3 * full_ns);
}
