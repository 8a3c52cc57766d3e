//! Explanations of a simulated run: rows of its ledger, and whether they add up.

use highwater_core::config::{Machine, preset};
use highwater_core::host::Host;
use highwater_core::sync::order::LockClass;
use highwater_core::vm::{Access, Backing, VmaFlags};
use highwater_results::explain::{EXPLAIN_SCHEMA, Explanation};
use highwater_runs::ledger::explained;
use highwater_sim::cost::{CostModel, CostTable};
use highwater_sim::engine::Placement;
use highwater_sim::ledger::{Ledger, OpRecord};
use highwater_sim::lock::LockStats;
use highwater_sim::machine::{MachineConfig, SimMachine};

/// Four programs on two CPUs that map, touch and unmap.
fn run(nr_kept: usize) -> (Ledger, Vec<LockStats>) {
    let shape = Machine::from_sizes("small", &[(64 << 20, vec![0, 1])]).expect("machine");
    let costs = CostModel::new(&CostTable::server_3ghz());
    let config = MachineConfig::new(shape, costs, preset("6.1").expect("preset"));
    let mut machine = SimMachine::boot(config).expect("boot");
    machine.sim().open_ledger_of(nr_kept);
    for task in 0..4 {
        machine.spawn_task(format!("mapper/{task}"), Placement::Anywhere, move |cx, kernel| {
            let mm = kernel.create_mm(cx).expect("space");
            mm.add_task(cx);
            let flags = VmaFlags::READ | VmaFlags::WRITE;
            for round in 1..=25 {
                cx.host.op_begin();
                let pages = 20 * round;
                let start = kernel.mmap(cx, &mm, pages, 1, flags, Backing::Anon);
                let start = start.expect("room");
                kernel.touch_range(cx, &mm, start, pages, Access::Write).expect("memory");
                kernel.munmap(cx, &mm, start, pages).expect("it is there");
                cx.host.op_end(if task == 0 { "first" } else { "other" });
            }
            kernel.exit_mm(cx, &mm);
            mm.remove_task(cx);
        });
    }
    machine.run().expect("run");
    (machine.sim().close_ledger(), machine.sim().lock_stats())
}

#[test]
fn what_a_run_leaves_adds_up_and_every_operation_is_in_its_band() {
    let (ledger, stats) = run(usize::MAX);
    assert_eq!(ledger.first_gap(), None);
    let run = explained(&ledger, &stats);
    assert_eq!(run.worst.len(), 100);
    assert_eq!(run.worst[0].ns, ledger.ops.iter().map(OpRecord::ns).max().expect("ops"));
    let parts: Vec<&str> = run.worst[0].causes.children.iter().map(|c| &*c.name).collect();
    assert!(["page fault", "user"].iter().all(|name| parts.contains(name)), "{parts:?}");

    let all_of = |name: &str| {
        let mut counts = Vec::new();
        for band in run.bands.iter().filter(|band| band.operation == name) {
            counts.push((band.from, band.to, band.count));
        }
        counts
    };
    let parts = [(0.0, 50.0, 12), (50.0, 90.0, 10), (90.0, 99.0, 2), (99.0, 100.0, 1)];
    assert_eq!(all_of("first")[0], (0.0, 100.0, 25));
    assert_eq!(all_of("first")[1..], parts);
    assert_eq!(all_of("other")[0], (0.0, 100.0, 75));
    let sum_ns: u64 = ledger.ops.iter().filter(|op| &*op.name == "other").map(|op| op.ns()).sum();
    let band = run.bands.iter().find(|band| band.operation == "other").expect("a band");
    assert_eq!((band.causes.ns, band.causes.count), (sum_ns, 75));

    let mappers = run.tasks.iter().find(|task| task.kind == "mapper").expect("mappers");
    assert_eq!(mappers.count, 4);
    assert!(run.tasks.iter().any(|task| task.kind == "kswapd"));
    let zone =
        run.locks.iter().find(|row| row.class == LockClass::Zone.name()).expect("the zone locks");
    assert!(zone.taken > 0 && zone.worst_holder.starts_with("mapper/"), "{zone:?}");

    let explanation = Explanation {
        schema: EXPLAIN_SCHEMA.to_owned(),
        version: String::new(),
        experiment: "test".to_owned(),
        command_line: Vec::new(),
        host: "sim".to_owned(),
        seed: 1,
        settings: Vec::new(),
        machines: Vec::new(),
        policies: Vec::new(),
        runs: vec![run],
    };
    assert_eq!(explanation.validate(), Ok(()));
}

#[test]
fn what_is_not_kept_is_added_up_all_the_same() {
    let ((all, stats), (few, _)) = (run(usize::MAX), run(3));
    assert_eq!(all.ops[..3], few.ops[..]);
    assert_eq!(explained(&all, &stats).bands, explained(&few, &stats).bands);
}
