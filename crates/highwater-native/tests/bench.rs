//! The micro-benchmarks, with short samples: every row is measured, and all results are right.

use highwater_core::config::{PRESETS, preset};
use highwater_core::page::Order;
use highwater_native::bench::{
    BenchError, BenchOptions, Highwater, PageOperation, Pattern, Plan, run, run_pages,
};

#[test]
fn quick_run_measures_every_row() {
    // With three threads, a thread's share of memory is not a power of two.
    let threads = vec![1, 2, 3];
    let options = BenchOptions { quick: true, threads, pin_threads: false, ..Default::default() };
    let rows = run(&options).unwrap();
    assert_eq!(rows.len(), 3 * 3 * 3 * 3);
    assert!(rows.iter().all(|r| r.ns_per_pair > 0.0 && r.ns_per_pair.is_finite()));
}

/// Correctness does not depend on the length of a measurement: one short sample of each, and
/// one machine for all orders and patterns.
#[test]
fn every_preset_gives_right_results() {
    let BenchOptions { orders, patterns, threads, .. } = BenchOptions::default();
    for (name, _) in PRESETS {
        let policy = preset(name).unwrap();
        for &threads in &threads {
            let (nr_frames, repeats, samples) = (1 << 14, 500, 1);
            let plan = |order, pattern| Plan {
                order,
                pattern,
                threads,
                nodes: 1,
                nr_frames,
                repeats,
                samples,
            };
            let machine = plan(Order(0), Pattern::Repeat);
            let machine = Highwater::new(&machine, &policy, false).unwrap();
            for &order in &orders {
                for &pattern in &patterns {
                    let sample = plan(order, pattern).sample(&machine);
                    let row = format!("{name}, {order:?}, {pattern}, {threads} threads");
                    let sample = sample.unwrap_or_else(|e| panic!("{row}: {e}"));
                    assert!(sample.ns_per_pair > 0.0, "{row}");
                }
            }
        }
    }
}

/// One thread frees into pageblocks that another CPU owns and is about to give back. (In the
/// past the owner was cleared before its pages had left, and the audit found lists with a
/// negative number of blocks.)
#[test]
fn a_pageblock_has_its_owner_until_its_pages_have_left() {
    let policy = preset("pcp-blocks").unwrap();
    let (order, pattern, threads, nodes) = (Order(0), Pattern::Random, 2, 1);
    let (nr_frames, repeats, samples) = (1 << 20, 1, 1);
    let plan = Plan { order, pattern, threads, nodes, nr_frames, repeats, samples };
    let machine = Highwater::new(&plan, &policy, false).unwrap();
    for _ in 0..6 {
        plan.sample(&machine).map(drop).unwrap();
    }
}

/// Nodes share no lock: work on one node does not delay the others. The results must still be
/// right.
#[test]
fn memory_and_cpus_are_divided_into_nodes() {
    let policy = preset("6.1").unwrap();
    for (threads, nodes) in [(2, 2), (3, 2), (4, 3)] {
        for pattern in Pattern::ALL {
            let (order, nr_frames, repeats, samples) = (Order(0), 1 << 14, 500, 1);
            let plan = Plan { order, pattern, threads, nodes, nr_frames, repeats, samples };
            let machine = Highwater::new(&plan, &policy, false).unwrap();
            assert_eq!(machine.zone_sizes().len(), nodes);
            assert_eq!(machine.zone_sizes().iter().sum::<u64>(), u64::from(nr_frames));
            plan.sample(&machine).map(drop).unwrap();
        }
    }
    let options = BenchOptions { quick: true, nodes: 3, ..Default::default() };
    assert!(matches!(run(&options), Err(BenchError::Options(_))), "two threads in three nodes");
}

#[test]
fn senseless_options_are_errors() {
    let with = |change: fn(&mut BenchOptions)| {
        let mut options = BenchOptions { quick: true, ..Default::default() };
        change(&mut options);
        run(&options)
    };
    assert!(matches!(with(|o| o.orders = vec![Order(11)]), Err(BenchError::Options(_))));
    assert!(matches!(with(|o| o.threads = vec![0]), Err(BenchError::Options(_))));
    assert!(matches!(with(|o| o.threads = vec![1000]), Err(BenchError::Options(_))));
}

#[test]
fn both_kernels_do_what_they_are_asked() {
    let rows = run_pages(&preset("6.1").unwrap(), true).unwrap();
    assert!(rows.iter().map(|row| row.operation).eq(PageOperation::ALL));
    for row in rows {
        assert!(row.ours_ns > 0.0 && row.system_ns > 0.0, "{row:?}");
    }
}
