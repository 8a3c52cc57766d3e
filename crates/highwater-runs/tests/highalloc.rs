//! stress-highalloc on the simulated machine, from boot to the last pass.

use highwater_core::config::preset;
use highwater_files::machine_file::MachineFile;
use highwater_results::TRACE_TIMES;
use highwater_runs::workload::highalloc::{Effort, Highalloc, HighallocParams};
use highwater_runs::workload::{Outcome, Unit, Workload};

const MACHINE: &str = "[[node]]\nmemory = \"256M\"\ncpus = \"0-2\"\n";

fn outcome(policy: &str, effort: Effort) -> Outcome {
    let machine = MachineFile::parse("small.toml", MACHINE).unwrap();
    let policy = preset(policy).unwrap();
    let params = HighallocParams {
        effort,
        wait: 0.4,
        gap: 0.5,
        rest: 1.0,
        rate: 64,
        system: 1.0,
        before: 2.0,
        compression: 8.0,
    };
    Highalloc::run(&params, &Unit::of(&machine, &policy, 1)).unwrap()
}

fn sample(outcome: &Outcome, name: &str) -> f64 {
    let found = outcome.samples.iter().find(|(operation, _)| operation == name);
    found.unwrap_or_else(|| panic!("{name}")).1
}

/// rules/benchmarks#highalloc-script.
#[test]
fn a_run_goes_through_all_phases() {
    let nodirect = outcome("kcompactd", Effort::Nodirect);
    let direct = outcome("kcompactd", Effort::Direct);
    for run in [&nodirect, &direct] {
        let passes: Vec<f64> = (1..=3).map(|n| sample(run, &format!("Success {n}"))).collect();
        assert!(passes.iter().all(|percent| (0.0..=100.0).contains(percent)), "{passes:?}");
        assert!(passes[2] > passes[0], "at rest there is more: {passes:?}");
        assert!(sample(run, "compiles") > 10.0, "they are built");
        assert!(
            sample(run, "percent of memory free before pass 3") > 90.0,
            "trees and caches are gone before the last pass"
        );
        // 6 s of sleep, an eighth of that; 95 attempts three times, a tick each.
        let script_s = (10.0 * 0.4 + 2.0 * 0.5 + 1.0) / 8.0 + 3.0 * 95.0 * 0.004;
        let elapsed_s = run.times.elapsed_ns as f64 / 1e9;
        assert!(elapsed_s > script_s && elapsed_s < 20.0 * script_s, "{elapsed_s}");
        assert!(run.times.user_ns > 0 && run.times.system_ns > 0);
        for name in TRACE_TIMES {
            assert!(run.counters.contains(name), "{name}");
        }
        assert_eq!(run.counters.get(TRACE_TIMES[3]), 0, "kswapd only wakes kcompactd");
        assert_eq!(run.counters.get("drop_pagecache"), 1);
        for point in ["builds", "pass 1", "pass 2", "rest", "pass 3"] {
            assert!(sample(run, &format!("unusable {point} at order 9")) <= 1000.0);
        }
    }
    // Machines below 512 MiB have no huge pages: only the attempts compact.
    assert_eq!(nodirect.counters.get("compact_stall"), 0);
    assert!(direct.counters.get("compact_stall") > 0);
    assert!(nodirect.counters.get("compact_daemon_wake") > 0);
    assert!(sample(&direct, "Success 1") > sample(&nodirect, "Success 1"));
}

#[test]
fn the_same_seed_is_the_same_run() {
    let runs = [(); 2].map(|()| outcome("kswapd-inline", Effort::Nodirect));
    assert_eq!(runs[0].digest, runs[1].digest);
    assert_eq!((&runs[0].samples, &runs[0].counters), (&runs[1].samples, &runs[1].counters));
    assert_eq!(runs[0].counters.get("compact_daemon_wake"), 0);
}
