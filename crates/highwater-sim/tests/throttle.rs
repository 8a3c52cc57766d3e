//! Throttling of reclaimers, policy by policy, on a machine that needs it: programs that want twice
//! the memory beside writers, on disks that cannot keep up.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::LazyLock;

use highwater_core::block::DeviceId;
use highwater_core::config::{Machine, preset};
use highwater_core::host::Host;
use highwater_core::page_cache::{FileSpec, Filesystem};
use highwater_core::reclaim::ThrottleReason;
use highwater_core::swap::SwapSpec;
use highwater_core::trace::Event;
use highwater_core::vm::{Access, Backing, VmaFlags};
use highwater_core::vmstat::VmEvent;
use highwater_sim::cost::{CostModel, CostTable};
use highwater_sim::disk::{DiskKind, DiskSpec, HddSpec};
use highwater_sim::engine::Placement;
use highwater_sim::ledger::{NodeKey, OpRecord};
use highwater_sim::machine::{MachineConfig, SimMachine};

const PAGE: u64 = 4096;
const MILLISECOND: u64 = 1_000_000;
const LIMIT_NS: u64 = 3600 * 1_000_000_000;
const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);
/// Waits of a throttled reclaimer.
const THROTTLES: [&str; 3] =
    ["progress of reclaim", "isolated pages", "writeback of pages at the tail"];
const HOG_PAGES: u32 = 4000;

/// One wait, µs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Congestion { timeout: u32, delayed: u32 },
    IfCongested { timeout: u32, delayed: u32 },
    Throttled { reason: ThrottleReason, timeout: u32, delayed: u32 },
}

/// A run that several tests use.
static CONGESTION: LazyLock<Seen> = LazyLock::new(|| run("congestion-wait-5.15", |_| {}));
static EVENTS: LazyLock<Seen> = LazyLock::new(|| run("events-5.16", |_| {}));

/// Observations of a run.
struct Seen {
    waits: Vec<Wait>,
    /// Number of times that the guest mapped and unmapped.
    nr_visits: u64,
    /// Time for which the guest was throttled, ns.
    guest_throttled_ns: u64,
    /// Pages that direct reclaim scanned.
    scanned_direct: u64,
}

impl Seen {
    /// Timeouts and delays of the waits for a reason.
    fn throttled(&self, wanted: ThrottleReason) -> Vec<(u32, u32)> {
        let of = |wait: &Wait| match *wait {
            Wait::Throttled { reason, timeout, delayed } if reason == wanted => {
                Some((timeout, delayed))
            }
            _ => None,
        };
        self.waits.iter().filter_map(of).collect()
    }

    fn congestion_waits(&self) -> Vec<(u32, u32)> {
        let of = |wait: &Wait| match *wait {
            Wait::Congestion { timeout, delayed } => Some((timeout, delayed)),
            _ => None,
        };
        self.waits.iter().filter_map(of).collect()
    }

    fn conditional_waits(&self) -> Vec<(u32, u32)> {
        let of = |wait: &Wait| match *wait {
            Wait::IfCongested { timeout, delayed } => Some((timeout, delayed)),
            _ => None,
        };
        self.waits.iter().filter_map(of).collect()
    }
}

/// One for files, one for swap.
fn disks(bytes_per_s: u64) -> Vec<DiskSpec> {
    let spec = HddSpec::streaming(bytes_per_s);
    ["data", "swap"].map(|name| DiskSpec::new(name, DiskKind::Hdd(spec), 4 << 18)).into()
}

/// 64 MiB and four CPUs. For eight virtual seconds, eight programs of 16 MiB sweep their memory and
/// four write files; a guest maps and unmaps one MiB. `change` may change the configuration.
fn run(policy: &str, change: impl FnOnce(&mut MachineConfig)) -> Seen {
    let mut machine =
        Machine::from_sizes("test", &[(64 << 20, (0..4).collect())]).expect("machine");
    // Most of the memory may be dirty: the LRU tails are.
    machine.tunables.dirty_ratio = 70;
    machine.tunables.dirty_background_ratio = 40;
    let costs = CostModel::new(&CostTable::server_3ghz());
    let mut config = MachineConfig::new(machine, costs, preset(policy).expect("preset"));
    // Fast enough that kswapd meets pages again that it marked. With a slower disk, all tasks wait
    // for a bio's memory before a list was scanned twice.
    config.disks = disks(60_000_000);
    config.swap = vec![SwapSpec { device: DeviceId(1), pages: 256 << 8, priority: -2 }];
    let waits = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&waits);
    config.tracing.sink = Some(Box::new(move |_, _, event: &Event| {
        seen.borrow_mut().push(match *event {
            Event::CongestionWait { usec_timeout, usec_delayed } => {
                Wait::Congestion { timeout: usec_timeout, delayed: usec_delayed }
            }
            Event::WaitIffCongested { usec_timeout, usec_delayed } => {
                Wait::IfCongested { timeout: usec_timeout, delayed: usec_delayed }
            }
            Event::Throttled { usec_timeout, usec_delayed, reason, .. } => {
                Wait::Throttled { reason, timeout: usec_timeout, delayed: usec_delayed }
            }
            _ => return,
        });
    }));
    change(&mut config);
    let mut machine = SimMachine::boot(config).expect("boot");
    let is_over = Rc::new(Cell::new(false));
    for _ in 0..8 {
        let is_over = Rc::clone(&is_over);
        machine.spawn_task("hog", Placement::Anywhere, move |cx, kernel| {
            let mm = kernel.create_mm(cx).expect("space");
            mm.add_task(cx);
            let start = kernel.mmap(cx, &mm, HOG_PAGES, 1, RW, Backing::Anon).expect("map");
            let mut at = 0;
            while !is_over.get() {
                kernel.touch_range(cx, &mm, start + at, 100, Access::Write).expect("memory");
                at = (at + 100) % HOG_PAGES;
            }
            kernel.exit_mm(cx, &mm);
            mm.remove_task(cx);
        });
    }
    for number in 0..4u64 {
        let is_over = Rc::clone(&is_over);
        machine.spawn_task("writer", Placement::Anywhere, move |cx, kernel| {
            let spec = FileSpec::new(
                Filesystem { has_writepage: false, ..Filesystem::EXT4 },
                DeviceId(0),
                number * 20_000,
                20_000,
            )
            .with_size(0);
            let open = kernel.open(cx, &kernel.create_file(cx, spec));
            let mut at = 0;
            while !is_over.get() {
                kernel.file_write(cx, &open, at * PAGE, 16 * PAGE).expect("room");
                at = (at + 16 * 37) % 19_000;
            }
        });
    }
    let is_guest_over = Rc::clone(&is_over);
    machine.spawn_task("guest", Placement::Anywhere, move |cx, kernel| {
        let mm = kernel.create_mm(cx).expect("space");
        mm.add_task(cx);
        while !is_guest_over.get() {
            cx.host.sim().sleep_ns(5 * MILLISECOND);
            cx.host.op_begin();
            let start = kernel.mmap(cx, &mm, 256, 1, RW, Backing::Anon).expect("map");
            kernel.touch_range(cx, &mm, start, 256, Access::Write).expect("memory");
            kernel.munmap(cx, &mm, start, 256).expect("unmap");
            cx.host.op_end("visit");
        }
        kernel.exit_mm(cx, &mm);
        mm.remove_task(cx);
    });
    machine.spawn_task("clock", Placement::Anywhere, move |cx, _| {
        cx.host.sim().sleep_ns(12_000 * MILLISECOND);
        is_over.set(true);
    });
    machine.sim().open_ledger();
    machine.run_within(LIMIT_NS).expect("run");
    let ledger = machine.sim().close_ledger();
    let throttled_ns = |op: &OpRecord| {
        let is_throttle = |key| match key {
            NodeKey::Wait(why) => THROTTLES.contains(&why),
            _ => false,
        };
        op.tree
            .nodes()
            .iter()
            .filter(|node| is_throttle(node.key))
            .map(|node| node.self_ns)
            .sum::<u64>()
    };
    let guest_throttled_ns = ledger.ops.iter().map(throttled_ns).sum();
    let (waits, nr_visits) = (waits.take(), ledger.ops.len() as u64);
    let scanned_direct = machine.kernel.mem.events.read(VmEvent::PgscanDirect);
    Seen { waits, nr_visits, guest_throttled_ns, scanned_direct }
}

/// Delays of full ticks, never longer than the timeout.
fn are_clamped_ticks(waits: &[(u32, u32)], longest: u32) {
    for &(timeout, delayed) in waits {
        assert_eq!(timeout, longest);
        assert!(delayed <= timeout && delayed % 4000 == 0, "{delayed}");
    }
}

/// rules/throttling#congestion-wait
#[test]
fn a_congestion_wait_is_never_shortened() {
    let seen = &*CONGESTION;
    let waits = seen.congestion_waits();
    assert!(waits.len() > 2, "{}", waits.len());
    for &(timeout, delayed) in &waits {
        assert_eq!(timeout, 100_000);
        assert!(delayed >= 104_000 && delayed % 4000 == 0, "{delayed}");
    }
    let conditional = seen.conditional_waits();
    assert!(conditional.len() > 20, "{}", conditional.len());
    // Any remaining delay comes from other tasks that ran.
    let at_once = conditional.iter().filter(|(_, delayed)| *delayed == 0).count();
    assert!(at_once * 10 >= conditional.len() * 9, "{at_once} of {}", conditional.len());
    let any = seen.waits.iter().any(|wait| matches!(wait, Wait::Throttled { .. }));
    assert!(!any, "no event of the series");
}

#[test]
fn a_congested_device_that_says_so_is_waited_for() {
    let seen = run("5.16", |config| {
        config.policy.reclaim.throttle = preset("4.6").expect("preset").reclaim.throttle;
        config.disks = disks(100_000_000);
    });
    let waits = [seen.congestion_waits(), seen.conditional_waits()].concat();
    assert!(waits.iter().any(|&(_, delayed)| delayed >= 104_000), "nothing cleared in time");
    let woken = waits.iter().filter(|&&(_, delayed)| (1..100_000).contains(&delayed)).count();
    assert!(woken > 0, "a queue that drained ends the wait");
}

/// rules/throttling#variants, rules/throttling#writeback-wake
#[test]
fn the_series_waits_for_events() {
    let seen = &*EVENTS;
    assert!(seen.congestion_waits().is_empty() && seen.conditional_waits().is_empty());
    let writeback = seen.throttled(ThrottleReason::Writeback);
    are_clamped_ticks(&writeback, 100_000);
    assert!(writeback.iter().any(|(_, delayed)| *delayed < 100_000), "woken at the bar");
    let isolated = seen.throttled(ThrottleReason::Isolated);
    are_clamped_ticks(&isolated, 20_000);
    let progress = seen.throttled(ThrottleReason::NoProgress);
    are_clamped_ticks(&progress, 500_000);
    assert!(progress.iter().any(|(_, delayed)| *delayed > 100_000), "{progress:?}");
    assert!(progress.iter().any(|(_, delayed)| *delayed < 500_000), "{progress:?}");
    assert!(seen.throttled(ThrottleReason::Congested).is_empty());
}

/// Each step of the series differs in what its name says.
#[test]
fn the_steps_of_the_series() {
    let first = run("series-1", |_| {});
    are_clamped_ticks(&first.throttled(ThrottleReason::Writeback), 100_000);
    assert!(first.throttled(ThrottleReason::Isolated).is_empty());
    assert!(first.throttled(ThrottleReason::NoProgress).is_empty());
    assert!(first.conditional_waits().is_empty(), "the function is gone");
    let third = run("series-3", |_| {});
    are_clamped_ticks(&third.throttled(ThrottleReason::Isolated), 100_000);
    let progress = third.throttled(ThrottleReason::NoProgress);
    are_clamped_ticks(&progress, 100_000);
    assert!(!progress.is_empty());
    let fifth = run("series-5", |_| {});
    assert!(fifth.congestion_waits().is_empty(), "nobody waits for congestion any more");
}

/// 6.1: a tick, as a last resort, and only if half of the reclaimable pages are under writeback.
#[test]
fn later_waits_are_short() {
    let seen = run("events-6.1", |_| {});
    are_clamped_ticks(&seen.throttled(ThrottleReason::NoProgress), 4000);
    are_clamped_ticks(&seen.throttled(ThrottleReason::Congested), 4000);
    are_clamped_ticks(&seen.throttled(ThrottleReason::Writeback), 100_000);
}

/// The subject of the study: reclaimers that do not sleep scan.
#[test]
fn who_sleeps_does_not_scan() {
    let (before, after) = (CONGESTION.scanned_direct, EVENTS.scanned_direct);
    assert!(after < before, "{after} and {before}");
}

/// Decision 0006.
#[test]
fn who_gives_back_what_it_takes_does_not_wait_for_the_others() {
    let prioritised = run("prioritised", |_| {});
    let waits = prioritised.throttled(ThrottleReason::NoProgress);
    for &(timeout, delayed) in &waits {
        assert!((4000..=500_000).contains(&timeout) && timeout % 4000 == 0, "{timeout}");
        assert!(delayed <= timeout && delayed % 4000 == 0, "{delayed} of {timeout}");
    }
    assert!(waits.iter().any(|(timeout, _)| *timeout == 500_000), "the hogs' share");
    assert!(waits.iter().any(|(timeout, _)| *timeout == 4000), "the guest's share");
    let per_visit = |seen: &Seen| seen.guest_throttled_ns / seen.nr_visits;
    let (of_equal, of_prioritised) = (per_visit(&EVENTS), per_visit(&prioritised));
    assert!(of_prioritised * 2 < of_equal, "{of_prioritised} and {of_equal}");
}
