//! Hand-made stalls and the totals that Linux's documentation defines for them (rules/pressure).

use highwater_core::host::{GroupChange, Stall};
use highwater_core::units::GroupId;

use super::{Reading, Resource};
use crate::cpu::CpuId;
use crate::engine::{Engine, EngineConfig, Sim, Spawn};

const MS: u64 = 1_000_000;

/// A step of a test task, in milliseconds.
#[derive(Clone, Copy)]
enum Do {
    Sleep(u64),
    Compute(u64),
    /// Sleeps, waiting for a device.
    Io(u64),
    /// Sleeps, waiting for memory.
    Memory(u64),
    /// Sleeps, waiting for a device with memory.
    SwapIn(u64),
    /// Runs, looking for memory.
    Reclaim(u64),
    /// A stall within a stall, half and half.
    Nested(u64),
    /// Moves to a memory cgroup.
    Join(u16),
    /// Runs, looking for memory, and moves half-way.
    ReclaimAndJoin(u64, u16),
    /// Removes a memory cgroup.
    Remove(u16),
    /// Makes a memory cgroup below another.
    Make(u16, u16),
}

fn act(sim: &Sim, what: Do) {
    let stalled = |stalls: &[Stall], run: &dyn Fn()| {
        stalls.iter().for_each(|&stall| sim.stall(stall, true));
        run();
        stalls.iter().for_each(|&stall| sim.stall(stall, false));
    };
    match what {
        Do::Sleep(ms) => sim.sleep_ns(ms * MS),
        Do::Compute(ms) => sim.compute(ms * MS),
        Do::Io(ms) => stalled(&[Stall::Io], &|| sim.sleep_ns(ms * MS)),
        Do::Memory(ms) => stalled(&[Stall::Memory], &|| sim.sleep_ns(ms * MS)),
        Do::SwapIn(ms) => stalled(&[Stall::Io, Stall::Memory], &|| sim.sleep_ns(ms * MS)),
        Do::Reclaim(ms) => stalled(&[Stall::Memory], &|| sim.compute(ms * MS)),
        Do::Join(group) => join(sim, group),
        Do::ReclaimAndJoin(ms, group) => stalled(&[Stall::Memory], &|| {
            sim.compute(ms * MS / 2);
            join(sim, group);
            sim.compute(ms * MS / 2);
        }),
        Do::Remove(group) => sim.group_changed(GroupChange::Removed { group: GroupId(group) }),
        Do::Make(group, parent) => make(sim, group, parent),
        Do::Nested(ms) => stalled(&[Stall::Memory], &|| {
            stalled(&[Stall::Memory], &|| sim.compute(ms * MS / 2));
            sim.compute(ms * MS / 2);
        }),
    }
}

fn make(sim: &Sim, group: u16, parent: u16) {
    let (group, parent) = (GroupId(group), GroupId(parent));
    sim.group_changed(GroupChange::Made { group, parent });
}

fn join(sim: &Sim, group: u16) {
    sim.group_changed(GroupChange::Joined { group: GroupId(group) });
}

/// Runs tasks, each pinned to a CPU.
fn run(nr_cpus: u16, tasks: &[(u16, &'static [Do])]) -> Reading {
    run_in_groups(nr_cpus, &[], tasks).0
}

/// The same with groups, by number and parent; the machine's pressure, and that of each group.
fn run_in_groups(
    nr_cpus: u16,
    groups: &[(u16, u16)],
    tasks: &[(u16, &'static [Do])],
) -> (Reading, Vec<Reading>) {
    let mut engine = Engine::new(&EngineConfig::new(nr_cpus));
    engine.sim().measure_pressure();
    groups.iter().for_each(|&(group, parent)| make(engine.sim(), group, parent));
    for &(cpu, program) in tasks {
        engine.spawn(Spawn::new("task").pinned(CpuId(cpu)), move |sim| {
            program.iter().for_each(|&what| act(sim, what));
        });
    }
    engine.run().expect("the tasks end");
    let of_group = |&(group, _): &(u16, u16)| {
        engine.sim().group_pressure(GroupId(group)).expect("it was made")
    };
    (engine.sim().pressure(), groups.iter().map(of_group).collect())
}

/// Totals in milliseconds: CPU some; memory some, full; I/O some, full.
fn totals(reading: Reading) -> [u64; 5] {
    let [cpu, memory, io] =
        [Resource::Cpu, Resource::Memory, Resource::Io].map(|resource| reading.of(resource));
    [cpu.some, memory.some, memory.full, io.some, io.full].map(|line| line.total_us / 1000)
}

#[test]
fn one_cpu_and_one_task() {
    assert_eq!(totals(run(1, &[(0, &[Do::Compute(500), Do::Sleep(500)])])), [0; 5]);
    assert_eq!(totals(run(1, &[(0, &[Do::Io(500), Do::Sleep(500)])])), [0, 0, 0, 500, 500]);
    assert_eq!(totals(run(1, &[(0, &[Do::Memory(500)])])), [0, 500, 500, 0, 0]);
    assert_eq!(totals(run(1, &[(0, &[Do::SwapIn(500)])])), [0, 500, 500, 500, 500]);
    // No task makes progress while the only one reclaims.
    assert_eq!(totals(run(1, &[(0, &[Do::Reclaim(500)])])), [0, 500, 500, 0, 0]);
    assert_eq!(totals(run(1, &[(0, &[Do::Nested(500), Do::Compute(100)])])), [0, 500, 500, 0, 0]);
}

#[test]
fn one_cpu_and_two_tasks() {
    let busy: &[Do] = &[Do::Compute(500)];
    // One task waits, another works.
    assert_eq!(totals(run(1, &[(0, &[Do::Io(500)]), (0, busy)])), [0, 0, 0, 500, 0]);
    assert_eq!(totals(run(1, &[(0, &[Do::Memory(500)]), (0, busy)])), [0, 500, 0, 0, 0]);
    // Both want the CPU for 1000 ms in all: one waits until the first is done.
    let [cpu, memory, full, ..] = totals(run(1, &[(0, &[Do::Reclaim(500)]), (0, busy)]));
    assert!((990..=1000).contains(&cpu), "{cpu}");
    // They take turns until both are nearly done. While one reclaims, the other could not work.
    assert!((985..=1000).contains(&memory), "{memory}");
    assert!((499..=501).contains(&full), "{full}");
    // Both wait, one twice as long.
    let both = run(1, &[(0, &[Do::Io(500)]), (0, &[Do::Io(1000)])]);
    assert_eq!(totals(both), [0, 0, 0, 1000, 1000]);
}

/// The mean over CPUs, each weighed by its non-idle time.
#[test]
fn two_cpus() {
    let busy: &[Do] = &[Do::Compute(500)];
    assert_eq!(totals(run(2, &[(0, &[Do::Memory(500)]), (1, busy)])), [0, 250, 250, 0, 0]);
    // An idle CPU does not count.
    assert_eq!(totals(run(2, &[(0, &[Do::Memory(500)])])), [0, 500, 500, 0, 0]);
    assert_eq!(
        totals(run(2, &[(0, &[Do::Memory(500)]), (1, &[Do::Io(500)])])),
        [0, 250, 250, 250, 250]
    );
    // Not idle for 500 and 100 ms: (500 * 500 + 0 * 100) / 600.
    let short = run(2, &[(0, &[Do::Memory(500)]), (1, &[Do::Compute(100)])]);
    assert_eq!(totals(short), [0, 416, 416, 0, 0]);
}

/// Each period of two seconds has its own weights, and a reading changes nothing.
#[test]
fn periods() {
    let long: &[Do] = &[Do::Memory(5000)];
    let late: &[Do] = &[Do::Sleep(4000), Do::Compute(1000)];
    // Four seconds with one CPU at work, one with two.
    assert_eq!(totals(run(2, &[(0, long), (1, late)])), [0, 4500, 4500, 0, 0]);
    let look = |every_ns: u64| {
        let mut engine = Engine::new(&EngineConfig::new(1));
        engine.sim().measure_pressure();
        engine.sim().sample_every(every_ns, |at_ns, look| {
            let some = look.pressure(at_ns).of(Resource::Memory).some;
            assert_eq!(some.total_us, at_ns / 1000);
        });
        engine.spawn(Spawn::new("task"), |sim| act(sim, Do::Memory(10_000)));
        engine.run().expect("the task ends");
        engine.sim().pressure()
    };
    assert_eq!(look(0), look(3_000_000));
    // Two samplers, each at its times; of one time the first comes first.
    let seen = std::rc::Rc::<std::cell::RefCell<Vec<(char, u64)>>>::default();
    let mut engine = Engine::new(&EngineConfig::new(1));
    for (name, every_ns) in [('a', 300_000_000), ('b', 200_000_000)] {
        let seen = seen.clone();
        engine.sim().sample_every(every_ns, move |at_ns, look| {
            assert_eq!(look.tasks().len(), 1);
            seen.borrow_mut().push((name, at_ns / 100_000_000));
        });
    }
    engine.spawn(Spawn::new("task"), |sim| act(sim, Do::Memory(650)));
    engine.run().expect("the task ends");
    assert_eq!(*seen.borrow(), [('b', 2), ('a', 3), ('b', 4), ('a', 6), ('b', 6)]);
    engine.sim().sample_every(0, |_, _| {});
    assert_eq!(engine.sim().look(|look| look.tasks().len()), 0);
    let some = look(0).of(Resource::Memory).some;
    assert_eq!(some.to_string(), "avg10=63.21 avg60=15.35 avg300=3.28 total=10000000");
}

/// A task that moves to another CPU takes its stall along.
#[test]
fn stalls_move_with_tasks() {
    let mut engine = Engine::new(&EngineConfig::new(2));
    engine.sim().measure_pressure();
    for _ in 0..3 {
        engine.spawn(Spawn::new("task"), |sim| act(sim, Do::Reclaim(400)));
    }
    engine.run().expect("the tasks end");
    let [_, some, full, ..] = totals(engine.sim().pressure());
    // The running task always reclaims and no other works: 1200 ms on two CPUs.
    assert!((590..=620).contains(&some), "{some}");
    assert_eq!(some, full);
}

/// Memory some and full in milliseconds of the machine and of each group.
fn memory(groups: &[(u16, u16)], tasks: &[(u16, &'static [Do])]) -> Vec<(u64, u64)> {
    let (machine, groups) = run_in_groups(1, groups, tasks);
    let of = |reading: Reading| {
        let [_, some, full, ..] = totals(reading);
        (some, full)
    };
    [machine].into_iter().chain(groups).map(of).collect()
}

#[test]
fn a_group_has_the_stalls_of_its_tasks() {
    let waits: &[Do] = &[Do::Join(1), Do::Memory(500)];
    // Beside it a task of the same group works, or one of another group, or one of none.
    let same: &[Do] = &[Do::Join(1), Do::Compute(300)];
    assert_eq!(memory(&[(1, 0)], &[(0, waits), (0, same)]), [(500, 200); 2]);
    let other: &[Do] = &[Do::Join(2), Do::Compute(300)];
    let apart = memory(&[(1, 0), (2, 0)], &[(0, waits), (0, other)]);
    assert_eq!(apart, [(500, 200), (500, 500), (0, 0)]);
    let none: &[Do] = &[Do::Compute(300)];
    assert_eq!(memory(&[(1, 0)], &[(0, waits), (0, none)]), [(500, 200), (500, 500)]);
    let (_, groups) = run_in_groups(1, &[(1, 0)], &[(0, &[Do::Join(1), Do::SwapIn(200)])]);
    assert_eq!(totals(groups[0]), [0, 200, 200, 200, 200]);
    // Two tasks wait, one twice as long.
    let longer: &[Do] = &[Do::Join(1), Do::Memory(1000)];
    assert_eq!(memory(&[(1, 0)], &[(0, waits), (0, longer)])[1], (1000, 1000));
}

/// Group 1 holds 2 and 3.
#[test]
fn stalls_count_at_every_level_up() {
    let tree = [(1, 0), (2, 1), (3, 1)];
    let waits: &[Do] = &[Do::Join(2), Do::Memory(500)];
    let above: &[Do] = &[Do::Join(1), Do::Compute(500)];
    let all = memory(&tree, &[(0, waits), (0, above)]);
    assert_eq!(all, [(500, 0), (500, 0), (500, 500), (0, 0)]);
    let sibling: &[Do] = &[Do::Join(3), Do::Sleep(250), Do::Memory(500)];
    let all = memory(&tree, &[(0, waits), (0, sibling)]);
    assert_eq!(all, [(750, 750), (750, 750), (500, 500), (500, 500)]);
}

#[test]
fn a_task_takes_its_stall_to_another_group() {
    let (tree, two) = ([(1, 0), (2, 1), (3, 1)], [(1, 0), (2, 0)]);
    let moves: &[Do] = &[Do::Join(1), Do::Memory(300), Do::Join(2), Do::Memory(200)];
    assert_eq!(memory(&two, &[(0, moves)]), [(500, 500), (300, 300), (200, 200)]);
    // In the middle of a stall; the group above both has all of it.
    let within: &[Do] = &[Do::Join(2), Do::ReclaimAndJoin(400, 3)];
    let all = memory(&tree, &[(0, within)]);
    assert_eq!(all, [(400, 400), (400, 400), (200, 200), (200, 200)]);
    let leaves: &[Do] = &[Do::Join(1), Do::ReclaimAndJoin(400, 0), Do::Compute(100)];
    assert_eq!(memory(&two, &[(0, leaves)]), [(400, 400), (200, 200), (0, 0)]);
}

#[test]
fn a_removed_group_keeps_its_totals_until_its_number_is_used_again() {
    const REMOVES: &[Do] =
        &[Do::Join(1), Do::Memory(3000), Do::Join(0), Do::Remove(1), Do::Memory(3000)];
    let all = memory(&[(1, 0)], &[(0, REMOVES)]);
    assert_eq!(all, [(6000, 6000), (3000, 3000)]);
    let again: Vec<Do> = REMOVES.iter().copied().chain([Do::Make(1, 0), Do::Join(1)]).collect();
    let again = again.into_iter().chain([Do::Memory(100)]).collect::<Vec<_>>().leak();
    assert_eq!(memory(&[(1, 0)], &[(0, again)]), [(6100, 6100), (100, 100)]);
}

/// Two groups share a CPU: while one runs, all tasks of the other wait for it.
#[test]
fn cpu_full_is_of_groups_only() {
    let of = |group: u16| -> &'static [Do] { [Do::Join(group), Do::Compute(500)].to_vec().leak() };
    let (machine, groups) = run_in_groups(1, &[(1, 0), (2, 0)], &[(0, of(1)), (0, of(2))]);
    let cpu = |reading: &Reading| {
        let lines = reading.of(Resource::Cpu);
        [lines.some, lines.full].map(|line| line.total_us / 1000)
    };
    let [[some, full], [other, other_full]] = [cpu(&groups[0]), cpu(&groups[1])];
    assert_eq!((some, other), (full, other_full));
    assert!(some + other >= 990 && some.max(other) <= 501, "{some} {other}");
    assert_eq!(cpu(&machine)[1], 0);
    assert!(cpu(&machine)[0] >= 990);
}

/// A group that holds every task has the machine's pressure, wherever the tasks run.
#[test]
fn a_group_of_all_tasks_has_the_pressure_of_the_machine() {
    let mut engine = Engine::new(&EngineConfig::new(3));
    engine.sim().measure_pressure();
    make(engine.sim(), 1, 0);
    make(engine.sim(), 2, 1);
    for task in 0..7u64 {
        engine.spawn(Spawn::new("task"), move |sim| {
            join(sim, 1 + (task % 2) as u16);
            for round in 1..40 {
                let ms = 1 + (task * 7 + round * 3) % 40;
                act(sim, Do::Reclaim(ms));
                act(sim, Do::Compute(2 * ms));
                act(sim, [Do::SwapIn(ms), Do::Io(ms), Do::Sleep(ms)][(task + round) as usize % 3]);
            }
        });
    }
    engine.run().expect("the tasks end");
    let sim = engine.sim();
    let all = sim.group_pressure(GroupId(1)).expect("it was made");
    for resource in [Resource::Memory, Resource::Io] {
        assert_eq!(all.of(resource), sim.pressure().of(resource));
    }
    let [cpu, some, full, io, _] = totals(all);
    // A task waits for its first turn before it can join.
    assert!((cpu..cpu + 10).contains(&totals(sim.pressure())[0]), "{cpu}");
    assert!(cpu > 1000 && some > 1000 && full > 500 && io > 500, "{:?}", totals(all));
    let half = sim.group_pressure(GroupId(2)).expect("it was made");
    assert!(totals(half)[1] > 500 && totals(half)[1] < some, "{:?}", totals(half));
    assert_eq!(sim.group_pressure(GroupId::ROOT), None);
}

/// The first period of a group ends with the machine's.
#[test]
fn a_group_made_later_has_a_shorter_first_period() {
    const LATE: &[Do] = &[Do::Sleep(1500), Do::Make(1, 0), Do::Join(1), Do::Memory(8500)];
    let (_, groups) = run_in_groups(1, &[(1, 0)], &[(0, LATE)]);
    let some = groups[0].of(Resource::Memory).some;
    assert_eq!(some.to_string(), "avg10=63.21 avg60=15.35 avg300=3.28 total=8500000");
}
