//! Reclaim with time: kswapd, throttling, the OOM killer and its reaper.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use highwater_core::Kernel;
use highwater_core::block::DeviceId;
use highwater_core::config::{DefragDefault, HandOver, Machine, PRESETS, Policy, ZoneSpec, preset};
use highwater_core::host::{Cx, Host};
use highwater_core::kernel::Error;
use highwater_core::page::{Folio, Order};
use highwater_core::page_alloc::Gfp;
use highwater_core::page_cache::{FileSpec, Filesystem, OpenFile};
use highwater_core::reclaim::ThrottleReason;
use highwater_core::swap::SwapSpec;
use highwater_core::trace::{Counts, Event, Kind};
use highwater_core::vm::{Access, Backing, Mm, VmaFlags};
use highwater_core::vmstat::{NodeStat, VmEvent};
use highwater_core::zone::{NodeId, ZoneType};
use highwater_sim::cost::{CostModel, CostTable};
use highwater_sim::disk::{DiskKind, DiskSpec, HddSpec};
use highwater_sim::engine::Placement;
use highwater_sim::host::SimHost;
use highwater_sim::machine::{MachineConfig, SimMachine};

const PAGE: u64 = 4096;
const SECOND: u64 = 1_000_000_000;
/// Time limit of every test: an hour of virtual time.
const LIMIT_NS: u64 = 3600 * SECOND;
const DATA: DeviceId = DeviceId(0);
const SWAP: DeviceId = DeviceId(1);
const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

/// Calls of a throttle: reason, timeout in µs, µs slept.
type Throttles = Rc<RefCell<Vec<(ThrottleReason, u32, u32)>>>;

/// Events so far.
type Counted = Rc<RefCell<Counts>>;

struct Setup {
    memory_mib: u64,
    cpus: u16,
    swap_mib: u32,
    disk_bytes_per_s: u64,
}

/// Small, with fast disks.
const SMALL: Setup =
    Setup { memory_mib: 64, cpus: 4, swap_mib: 256, disk_bytes_per_s: 200_000_000 };

impl Setup {
    fn boot(&self) -> (SimMachine, Throttles, Counted) {
        self.boot_with(|_| {})
    }

    fn boot_with(
        &self,
        change: impl FnOnce(&mut MachineConfig),
    ) -> (SimMachine, Throttles, Counted) {
        let nodes = [(self.memory_mib << 20, (0..self.cpus).collect())];
        let machine = Machine::from_sizes("test", &nodes).expect("machine");
        let costs = CostModel::new(&CostTable::server_3ghz());
        let mut config = MachineConfig::new(machine, costs, preset("6.1").expect("preset"));
        let disk = |name: &str| {
            let bytes_per_s = self.disk_bytes_per_s;
            let spec = HddSpec::streaming(bytes_per_s);
            DiskSpec::new(name, DiskKind::Hdd(spec), 4 << 18)
        };
        config.disks = vec![disk("data"), disk("swap")];
        if self.swap_mib > 0 {
            config.swap = vec![SwapSpec { device: SWAP, pages: self.swap_mib << 8, priority: -2 }];
        }
        let throttles = Throttles::default();
        let counts = Counted::default();
        let (seen, counted) = (Rc::clone(&throttles), Rc::clone(&counts));
        config.tracing.sink = Some(Box::new(move |_, _, event: &Event| {
            counted.borrow_mut().count(event);
            if let Event::Throttled { usec_timeout, usec_delayed, reason, .. } = *event {
                seen.borrow_mut().push((reason, usec_timeout, usec_delayed));
            }
        }));
        change(&mut config);
        (SimMachine::boot(config).expect("boot"), throttles, counts)
    }
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

/// Maps and writes anonymous pages.
fn fill((cx, kernel): Task<'_, '_>, mm: &Mm<SimHost>, pages: u32) -> Result<u32, Error> {
    let start = kernel.mmap(cx, mm, pages, 1, RW, Backing::Anon)?;
    kernel.touch_range(cx, mm, start, pages, Access::Write)?;
    Ok(start)
}

fn open_file((cx, kernel): Task<'_, '_>, start: u64, pages: u32) -> Arc<OpenFile<SimHost>> {
    let spec = FileSpec::new(Filesystem::EXT4, DATA, start, pages);
    kernel.open(cx, &kernel.create_file(cx, spec))
}

fn event(machine: &SimMachine, event: VmEvent) -> u64 {
    machine.kernel.mem.events.read(event)
}

#[test]
fn kswapd_reads_along() {
    let setup = Setup { memory_mib: 128, cpus: 2, swap_mib: 0, disk_bytes_per_s: 500_000_000 };
    let (mut machine, _, counts) = setup.boot();
    let pages = 60_000u32;
    machine.spawn_task("reader", Placement::Anywhere, move |cx, kernel| {
        let task = (cx, &**kernel);
        let open = open_file(task, 0, pages);
        for at in (0..pages).step_by(16) {
            let got = kernel.file_read(cx, &open, u64::from(at) * PAGE, 16 * PAGE);
            assert_eq!(got, Ok(16 * PAGE));
        }
    });
    machine.run_within(LIMIT_NS).expect("run");
    let stolen = event(&machine, VmEvent::PgstealKswapd);
    let scanned = event(&machine, VmEvent::PgscanKswapd);
    assert!(stolen > 25_000, "{stolen} of {pages} pages do not fit");
    assert!(scanned < stolen + stolen / 10, "a stream leaves at the first look: {scanned}");
    assert_eq!(event(&machine, VmEvent::Pgactivate), 0);
    // kswapd naps first: woken early, it hit the low watermark quickly.
    let quickly = event(&machine, VmEvent::KswapdLowWmarkHitQuickly);
    let runs = event(&machine, VmEvent::Pageoutrun);
    assert!(quickly > 10 && quickly <= runs, "{quickly} of {runs}");
    let counts = counts.borrow();
    assert!(counts.of(Kind::WakeupKswapd) >= runs);
    assert_eq!(counts.of(Kind::KswapdWake), runs);
    let stalls: u64 = [
        VmEvent::AllocstallDma,
        VmEvent::AllocstallDma32,
        VmEvent::AllocstallNormal,
        VmEvent::AllocstallMovable,
    ]
    .map(|stall| event(&machine, stall))
    .iter()
    .sum();
    assert_eq!(counts.of(Kind::DirectReclaimBegin), stalls);
    for item in [NodeStat::IsolatedAnon, NodeStat::IsolatedFile] {
        let stats = &machine.kernel.mem.node(NodeId(0)).stats;
        assert_eq!(stats.read_exact(item as usize), 0);
    }
}

/// Memory of twice the RAM and a slow swap disk with a long queue: soon every page at the LRU tail
/// is under writeback.
#[test]
fn reclaimers_sleep_in_whole_ticks() {
    let setup = Setup { memory_mib: 48, cpus: 4, swap_mib: 256, disk_bytes_per_s: 10_000_000 };
    // A queue deep enough for all requests: many pages are under writeback at once.
    let (mut machine, throttles, _) = setup.boot_with(|config| {
        config.disks[1].depth = 256;
        config.machine.tunables.wbt = false;
    });
    let mut hogs = Vec::new();
    for _ in 0..8 {
        hogs.push(machine.spawn_task("hog", Placement::Anywhere, |cx, kernel| {
            let task = (cx, &**kernel);
            with_mm(task, |mm| {
                let start = kernel.mmap(cx, mm, 3_000, 1, RW, Backing::Anon)?;
                (0..3_000).step_by(10).try_for_each(|at| {
                    cx.host.sim().sleep_ns(1_000_000);
                    kernel.touch_range(cx, mm, start + at, 10, Access::Write).map(drop)
                })
            })
        }));
    }
    machine.run_within(LIMIT_NS).expect("run");
    for hog in hogs {
        assert_eq!(hog.take(), Some(Ok(())));
    }
    assert_eq!(event(&machine, VmEvent::OomKill), 0);
    let throttles = throttles.borrow();
    for &(reason, timeout, delayed) in throttles.iter() {
        let expected = match reason {
            ThrottleReason::Writeback => 100_000,
            ThrottleReason::Isolated => 20_000,
            ThrottleReason::NoProgress | ThrottleReason::Congested => 4_000,
        };
        assert_eq!(timeout, expected, "{reason:?}");
        assert!(delayed <= timeout && delayed % 4_000 == 0, "{reason:?} {delayed}");
    }
    let of = |wanted| throttles.iter().filter(move |(reason, ..)| *reason == wanted);
    assert!(of(ThrottleReason::Writeback).count() > 0, "kswapd had to wait");
    let woken = of(ThrottleReason::Writeback).filter(|(_, timeout, delayed)| delayed < timeout);
    assert!(woken.count() > 0, "and was woken by the end of writeback");
    assert!(of(ThrottleReason::Isolated).count() > 0);
    assert!(of(ThrottleReason::NoProgress).count() > 0);
}

/// A victim in a killable wait for a page dies at once.
#[test]
fn a_killed_task_wakes_from_a_killable_wait() {
    let setup = Setup { memory_mib: 64, cpus: 4, swap_mib: 0, disk_bytes_per_s: 100_000_000 };
    let (mut machine, ..) = setup.boot();
    let page = Folio::page(machine.kernel.zero_page());
    machine.spawn_task("owner", Placement::Anywhere, move |cx, kernel| {
        kernel.lock_page(cx, page);
        cx.host.sim().sleep_ns(100 * SECOND);
        kernel.unlock_page(cx, page);
    });
    let victim = machine.spawn_task("victim", Placement::Anywhere, move |cx, kernel| {
        let task = (cx, &**kernel);
        with_mm(task, |mm| {
            fill(task, mm, 9_000).expect("it fits");
            let got_it = kernel.lock_page_killable(cx, page);
            (got_it, cx.host.now_ns())
        })
    });
    let other = machine.spawn_task("other", Placement::Anywhere, |cx, kernel| {
        let task = (cx, &**kernel);
        cx.host.sim().sleep_ns(SECOND);
        with_mm(task, |mm| fill(task, mm, 7_500).map(|_| cx.host.now_ns()))
    });
    machine.run_within(LIMIT_NS).expect("run");
    let (got_it, woke) = victim.take().expect("the victim ends");
    assert!(!got_it && (SECOND..2 * SECOND).contains(&woke), "woke at {woke}");
    let done = other.take().expect("it ends").expect("it gets the victim's memory");
    assert!(done < 2 * SECOND, "done at {done}");
    assert_eq!(event(&machine, VmEvent::OomKill), 1);
}

/// A victim that cannot wake loses its memory after two seconds.
#[test]
fn the_reaper_does_not_wait_for_sleepers() {
    let setup = Setup { memory_mib: 64, cpus: 4, swap_mib: 0, disk_bytes_per_s: 100_000_000 };
    let (mut machine, ..) = setup.boot();
    let victim = machine.spawn_task("victim", Placement::Anywhere, |cx, kernel| {
        let task = (cx, &**kernel);
        with_mm(task, |mm| {
            let start = fill(task, mm, 9_000).expect("it fits");
            cx.host.sim().sleep_ns(60 * SECOND);
            kernel.touch(cx, mm, start, Access::Read)
        })
    });
    let other = machine.spawn_task("other", Placement::Anywhere, |cx, kernel| {
        let task = (cx, &**kernel);
        cx.host.sim().sleep_ns(SECOND);
        with_mm(task, |mm| fill(task, mm, 7_500).map(|_| cx.host.now_ns()))
    });
    machine.run_within(LIMIT_NS).expect("run");
    let done = other.take().expect("it ends").expect("it gets the victim's memory");
    assert!((3 * SECOND..4 * SECOND).contains(&done), "done at {done}");
    assert_eq!(victim.take(), Some(Err(Error::Killed)));
    assert_eq!(event(&machine, VmEvent::OomKill), 1);
}

/// Under the rules of every preset, memory of twice the RAM beside a file is reclaimed without a
/// failure.
#[test]
fn every_preset_reclaims() {
    for (name, _) in PRESETS {
        let (mut machine, ..) =
            SMALL.boot_with(|config| config.policy = preset(name).expect("preset"));
        let hog = machine.spawn_task("hog", Placement::Anywhere, |cx, kernel| {
            let task = (cx, &**kernel);
            with_mm(task, |mm| {
                let start = fill(task, mm, 24_000)?;
                kernel.touch_range(cx, mm, start, 24_000, Access::Read).map(drop)
            })
        });
        let reader = machine.spawn_task("reader", Placement::Anywhere, |cx, kernel| {
            let open = open_file((cx, kernel), 0, 20_000);
            (0..2).all(|_| {
                let mut chunks = (0..20_000u64).step_by(16);
                chunks.all(|at| kernel.file_read(cx, &open, at * PAGE, 16 * PAGE) == Ok(16 * PAGE))
            })
        });
        machine.run_within(LIMIT_NS).expect(name);
        assert_eq!((hog.take(), reader.take()), (Some(Ok(())), Some(true)), "{name}");
        let stolen = event(&machine, VmEvent::PgstealAnon) + event(&machine, VmEvent::PgstealFile);
        assert!(stolen > 20_000, "{name}: {stolen}");
        assert_eq!(event(&machine, VmEvent::OomKill), 0, "{name}");
    }
}

/// Milliseconds from a request's failure to the wake-up of its kcompactd, with further requests
/// after `later` ms. All of memory is fragmented into single pages.
fn handed_over_after(policy: &Policy, later: Option<u64>) -> u64 {
    type Times = Rc<RefCell<Vec<u64>>>;
    let setup = Setup { memory_mib: 128, cpus: 2, swap_mib: 256, disk_bytes_per_s: 500_000_000 };
    let wakes = Times::default();
    let seen = Rc::clone(&wakes);
    let (mut machine, ..) = setup.boot_with(|config| {
        config.policy = policy.clone();
        config.tracing.sink = Some(Box::new(move |now_ns, _, event: &Event| {
            if let Event::CompactionWakeupKcompactd { order: Order(9), .. } = event {
                seen.borrow_mut().push(now_ns);
            }
        }));
    });
    let first = machine.spawn_task("asker", Placement::Anywhere, move |cx, kernel| {
        let task = (cx, &**kernel);
        with_mm(task, |mm| {
            let start = fill(task, mm, 26_000)?;
            for at in (0..26_000).step_by(2) {
                kernel.munmap(cx, mm, start + at, 1)?;
            }
            // Takes the blocks that are left.
            let ask = |gfp| kernel.mem.alloc(cx, &**kernel, gfp, Order(9), NodeId(0), None);
            let held: Vec<_> = std::iter::from_fn(|| ask(Gfp::COMP)).collect();
            // kswapd has nothing to do and sleeps.
            cx.host.sim().sleep_ns(SECOND);
            let began = cx.host.now_ns();
            for wait_ms in [0].into_iter().chain(later) {
                cx.host.sim().sleep_ns(wait_ms * 1_000_000);
                assert_eq!(ask(Gfp::COMP | Gfp::KSWAPD_RECLAIM), None);
            }
            cx.host.sim().sleep_ns(SECOND);
            held.into_iter().for_each(|pfn| kernel.mem.free(cx, pfn, Order(9)).expect("freed"));
            Ok::<u64, Error>(began)
        })
    });
    machine.run_within(LIMIT_NS).expect("run");
    let began = first.take().expect("it ran").expect("it got its memory");
    let wakes = wakes.borrow();
    let woken = wakes.iter().find(|&&at| at >= began).expect("kcompactd is woken");
    assert!(event(&machine, VmEvent::CompactDaemonWake) > 0);
    (woken - began) / 1_000_000
}

/// rules/compaction#hand-over. A request that comes during the nap ends it, and another nap
/// follows.
#[test]
fn kcompactd_is_woken_after_a_nap_or_before_it() {
    let after = preset("kcompactd").expect("preset");
    let alone = handed_over_after(&after, None);
    assert!((100..=105).contains(&alone), "{alone} ms");
    let disturbed = handed_over_after(&after, Some(50));
    assert!((150..=156).contains(&disturbed), "{disturbed} ms");
    let mut at_once = after;
    at_once.reclaim.kswapd.hand_over = HandOver::BeforeNap;
    let before_the_nap = handed_over_after(&at_once, None);
    assert!(before_the_nap < 2, "{before_the_nap} ms");
    // 6.1 first frees the pages that compaction needs. Proactive work of kcompactd would make the
    // block beforehand.
    let mut later = preset("6.1").expect("preset");
    later.compaction.proactive = false;
    let later = handed_over_after(&later, None);
    assert!(later < 50, "{later} ms");
}

/// Blocks that a request without reclaim gets in ten attempts, 125 ms apart, on a machine with
/// three zones whose memory is fragmented into single pages. Also the pages that were migrated for
/// it.
fn blocks_in_ten_attempts(policy: &str) -> (usize, u64) {
    let mut policy = preset(policy).expect("preset");
    // Only kswapd and kcompactd compact.
    policy.thp.defrag = DefragDefault::Madvise;
    let setup = Setup { memory_mib: 256, cpus: 2, swap_mib: 256, disk_bytes_per_s: 500_000_000 };
    let (mut machine, ..) = setup.boot_with(|config| {
        config.policy = policy;
        config.machine.nodes[0].zones = vec![
            ZoneSpec::full(ZoneType::Dma, 1, 4095),
            ZoneSpec::full(ZoneType::Dma32, 4096, 32_768),
            ZoneSpec::full(ZoneType::Normal, 1 << 20, 16_384),
        ];
    });
    let asker = machine.spawn_task("asker", Placement::Anywhere, |cx, kernel| {
        let task = (cx, &**kernel);
        with_mm(task, |mm| {
            let start = fill(task, mm, 44_000)?;
            for at in (0..44_000).step_by(2) {
                kernel.munmap(cx, mm, start + at, 1)?;
            }
            let ask = |gfp| kernel.mem.alloc(cx, &**kernel, gfp, Order(9), NodeId(0), None);
            let mut held: Vec<_> = std::iter::from_fn(|| ask(Gfp::COMP)).collect();
            cx.host.sim().sleep_ns(SECOND);
            let before = held.len();
            for _ in 0..10 {
                held.extend(ask(Gfp::COMP | Gfp::HIGH | Gfp::KSWAPD_RECLAIM));
                cx.host.sim().sleep_ns(125_000_000);
            }
            let got = held.len() - before;
            held.into_iter().for_each(|pfn| kernel.mem.free(cx, pfn, Order(9)).expect("freed"));
            Ok::<usize, Error>(got)
        })
    });
    machine.run_within(LIMIT_NS).expect("run");
    let got = asker.take().expect("it ran").expect("it got its memory");
    (got, event(&machine, VmEvent::PgmigrateSuccess))
}

/// Study 004 in small: requests that may not reclaim depend on blocks made in the background.
#[test]
fn the_daemon_makes_blocks_where_kswapd_did_not() {
    assert_eq!(blocks_in_ten_attempts("kswapd-inline"), (0, 0));
    let (got, moved) = blocks_in_ten_attempts("kcompactd");
    assert!((5..=10).contains(&got), "one for each wake: {got}");
    assert!(moved > 100 * got as u64, "{moved} pages for {got} blocks");
}
