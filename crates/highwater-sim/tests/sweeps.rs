//! Sweeps over memory: page tables without events are passed together, with no visible effect.

use std::cell::Cell;
use std::rc::Rc;

use highwater_core::block::DeviceId;
use highwater_core::config::{Machine, preset};
use highwater_core::host::{Cost, CpuId, Host};
use highwater_core::kernel::Error;
use highwater_core::swap::SwapSpec;
use highwater_core::sync::order::LockClass;
use highwater_core::vm::{Access, Backing, VmaFlags};
use highwater_core::vmstat::VmEvent;
use highwater_sim::cost::{CostModel, CostTable};
use highwater_sim::cpu::SchedPolicy;
use highwater_sim::disk::DiskSpec;
use highwater_sim::engine::Placement;
use highwater_sim::machine::{MachineConfig, SimMachine};

/// Pages that one page table maps.
const TABLE: u32 = 512;

/// The generic server's costs, with this time of a touch.
fn costs(touch_ns: Option<u64>) -> CostModel {
    let table = CostTable::server_3ghz();
    let table = match touch_ns {
        Some(ns) => table.with(Cost::UserTouch.key(), ns, "test").expect("a key"),
        None => table,
    };
    CostModel::new(&table)
}

/// The way in which programs sweep.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// One call for the pages of each table, as long as the program must go on.
    OneByOne,
    /// A call for each table, all of them.
    OneByOneToTheEnd,
    /// One call, which checks whether to go on.
    While,
    /// One call for all.
    Range,
}

/// Three programs on two CPUs sweep their memory until a fourth ends them. Returns everything that
/// can be observed afterwards. Their mappings begin `offset` pages into a table.
fn run(way: Way, pages: u32, offset: u32, touch_ns: Option<u64>) -> String {
    let machine = Machine::from_sizes("test", &[(64 << 20, vec![0, 1])]).expect("machine");
    // Under the other schedulers a task may be preempted anywhere, and each table is passed alone.
    let mut costs = costs(touch_ns);
    costs.sched_named = Some(SchedPolicy::Fifo);
    let mut config = MachineConfig::new(machine, costs, preset("6.1").expect("preset"));
    config.disks = vec![DiskSpec::sata_ssd("swap", 1 << 18)];
    config.swap = vec![SwapSpec { device: DeviceId(0), pages: 1 << 16, priority: -2 }];
    let mut machine = SimMachine::boot(config).expect("boot");
    let is_over = Rc::new(Cell::new(false));
    let sweepers: Vec<_> = (0..3)
        .map(|nr| {
            let is_over = Rc::clone(&is_over);
            machine.spawn_task(format!("sweeper {nr}"), Placement::Anywhere, move |cx, kernel| {
                let mm = kernel.create_mm(cx)?;
                mm.add_task(cx);
                let (flags, length) = (VmaFlags::READ | VmaFlags::WRITE, pages + offset);
                let start = kernel.mmap(cx, &mm, length, TABLE, flags, Backing::Anon)? + offset;
                let (goes_on, mut swept) = (|| !is_over.get(), 0_u64);
                while goes_on() {
                    let access = Access::Write;
                    if way == Way::Range {
                        kernel.touch_range(cx, &mm, start, pages, access)?;
                        swept += u64::from(pages);
                        continue;
                    }
                    if way == Way::While {
                        let went = kernel.touch_while(cx, &mm, start, pages, access, goes_on)?;
                        swept += u64::from(went);
                        continue;
                    }
                    let mut at = start;
                    while at < start + pages && (goes_on() || way == Way::OneByOneToTheEnd) {
                        let piece = match way {
                            Way::OneByOneToTheEnd => TABLE - at % TABLE,
                            _ => TABLE,
                        };
                        let piece = piece.min(start + pages - at);
                        kernel.touch_range(cx, &mm, at, piece, access)?;
                        (at, swept) = (at + piece, swept + u64::from(piece));
                    }
                }
                kernel.exit_mm(cx, &mm);
                mm.remove_task(cx);
                Ok::<_, Error>((swept, cx.host.sim().now_ns()))
            })
        })
        .collect();
    machine.spawn_task("clock", Placement::Anywhere, move |cx, _| {
        for _ in 0..700 {
            cx.host.sim().sleep_ns(100_003);
        }
        is_over.set(true);
    });
    machine.run_within(60 * 1_000_000_000).expect("run");
    let swept: Vec<_> = sweepers.iter().map(|sweeper| sweeper.take().expect("done")).collect();
    let sim = machine.sim();
    let events: Vec<u64> =
        VmEvent::ALL.iter().map(|&e| machine.kernel.mem.events.read(e)).collect();
    let times = [0, 1].map(|cpu| sim.cpu_times(CpuId(cpu)));
    let digest = machine.digest().value();
    if let Some(went) = sim.shortcuts() {
        // A check once in a table's number of pages, but not at table boundaries, makes every table
        // pass separately.
        let goes_together = way == Way::Range || way == Way::While && offset == 0;
        assert_eq!(went.again > 100, goes_together, "{went:?}, {pages} pages at {offset}");
    }
    format!("{swept:?} {times:?} {digest:x} {:?} {events:?}", sim.lock_stats())
}

#[test]
fn tables_passed_together_are_tables_passed_one_by_one() {
    // The cases: all in memory; more than memory, so that reclaim comes in between; tables that are
    // shared with a neighbour; a partial last table; touches so cheap that many go together, and so
    // expensive that few do.
    for (pages, offset, cost) in [
        (4 * TABLE, 0, None),
        (12 * TABLE, 0, None),
        (6 * TABLE, 100, None),
        (5 * TABLE + 77, 0, None),
        (4 * TABLE, 0, Some(1)),
        (4 * TABLE, 0, Some(1000)),
    ] {
        for (way, one_by_one) in [(Way::While, Way::OneByOne), (Way::Range, Way::OneByOneToTheEnd)]
        {
            let together = run(way, pages, offset, cost);
            let one_by_one = run(one_by_one, pages, offset, cost);
            assert_eq!(together, one_by_one, "{pages} pages at {offset}, {cost:?} ns a page");
        }
    }
}

/// A batched repetition costs as much as a single one and is counted as often.
#[test]
fn again_is_as_often_as_it_says() {
    let machine = Machine::from_sizes("test", &[(64 << 20, vec![0, 1])]).expect("machine");
    let costs = costs(Some(2));
    let turn_ns = costs.lock(LockClass::Table).hot_ns + 100 * 2;
    let config = MachineConfig::new(machine, costs, preset("6.1").expect("preset"));
    let mut machine = SimMachine::boot(config).expect("boot");
    let task = machine.spawn_task("again", Placement::Pinned(CpuId(0)), move |cx, _| {
        let sim = cx.host.sim();
        let taken = || sim.lock_stats()[LockClass::Table as usize].nr_taken;
        let lock = cx.host.new_lock(LockClass::Table, 7);
        sim.sleep_ns(10_000);
        let (start_ns, before) = (sim.now_ns(), taken());
        let work = (Cost::UserTouch, 100);
        assert_eq!(cx.host.again(&lock, work, |&value, most| most.min(value)), 7);
        assert_eq!((sim.now_ns() - start_ns, taken() - before), (7 * turn_ns, 7));
        assert_eq!(cx.host.again(&lock, work, |_, _| 0), 0);
        assert_eq!((sim.now_ns() - start_ns, taken() - before), (7 * turn_ns, 7));
        // No further than the next tick, and not while another task holds the lock.
        let mut most_ns = 0;
        cx.host.again(&lock, work, |_, most| {
            most_ns = u64::from(most) * turn_ns;
            0
        });
        assert!((1..=4_000_000).contains(&most_ns), "{most_ns}");
        let held = lock.lock();
        assert_eq!(cx.host.again(&lock, work, |_, most| most), 0);
        drop(held);
    });
    machine.run_within(1_000_000_000).expect("run");
    task.take().expect("done");
}
