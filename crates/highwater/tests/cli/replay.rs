//! Replay: the same bytes twice, and as near to real kernels as promised.

use serde_json::Value;

use super::{highwater, json, stdout, trace};

const POLICIES: [&str; 6] = ["--policy", "6.1", "--policy", "order0-pcp", "--policy", "cached"];

fn replay(work: &str, more: &[&str]) -> Value {
    let trace = trace(work);
    json(&[&["replay", trace.as_str(), "--format", "json"], more].concat())
}

/// What a policy made of a trace.
fn policy<'r>(report: &'r Value, name: &str) -> &'r Value {
    let policies = report["policies"].as_array().expect("policies");
    policies.iter().find(|p| p["policy"] == name).expect(name)
}

fn events(tally: &Value, name: &str) -> f64 {
    tally["events"][name].as_f64().expect(name)
}

fn hottest(tally: &Value) -> f64 {
    tally["hottest"][0]["uses"].as_f64().expect("a hottest block")
}

/// Refills and drains within a quarter or 64 events, the hottest block within a factor.
fn assert_near(work: &str, trace: &Value, model: &Value, factor: f64) {
    for name in ["mm_page_alloc_zone_locked", "mm_page_pcpu_drain"] {
        let (real, model) = (events(trace, name), events(model, name));
        let distance = (real - model).abs();
        assert!(distance <= (real * 0.25).max(64.0), "{work}: {name}: Linux {real}, model {model}");
    }
    let ratio = hottest(model) / hottest(trace);
    assert!(ratio <= factor && ratio >= 1.0 / factor, "{work}: hottest block off by {ratio}");
}

#[test]
#[ignore = "simulates for seconds: a step of .ci/full"]
fn traces_are_replayed_as_they_were() {
    for work in ["unix-stream-16384", "netperf-tcp-16384", "file-read"] {
        for sidecars in
            [&POLICIES[..], &["--no-sidecars"], &["--machine", "small-vm", "--policy", "6.1"]]
        {
            let report = replay(work, sidecars);
            let real = &report["trace_counts"]["tally"];
            let model = policy(&report, "6.1");
            assert_near(work, real, &model["tally"], 1.5);
            for replayed in report["policies"].as_array().unwrap() {
                assert_eq!(replayed["failed"], 0, "{work} {sidecars:?}");
                assert_eq!(replayed["frees_unknown"], 0, "{work} {sidecars:?}");
            }
            let allocations = |tally: &Value| events(tally, "mm_page_alloc");
            assert_eq!(allocations(real), allocations(&model["tally"]));
        }
    }
}

/// The figures of real kernels with the three rules (reference/linux-6.1/ab), on another machine.
#[test]
fn study_002_is_the_same_on_real_kernels() {
    let report = replay("unix-stream-16384", &POLICIES);
    for (name, hottest_real, distinct_real) in
        [("6.1", 1000.0, 1421.0), ("cached", 16.0, 1521.0), ("order0-pcp", 6257.0, 20.0)]
    {
        let tally = &policy(&report, name)["tally"];
        let distinct = tally["distinct_blocks_by_order"][2].as_f64().unwrap();
        for (real, model) in [(hottest_real, hottest(tally)), (distinct_real, distinct)] {
            assert!(model <= real * 2.0 && model >= real / 2.0, "{name}: Linux {real}, {model}");
        }
    }
}

/// What a machine looked like just before a trace is where the replay starts.
#[test]
fn captured_free_blocks_are_there_at_the_start() {
    let report = replay("netperf-tcp-16384", &POLICIES);
    let dma32 = &policy(&report, "6.1")["start"][1];
    assert_eq!(dma32["zone"], "DMA32");
    let by_type = &dma32["free_blocks_by_type"];
    assert_eq!(by_type["Unmovable"], serde_json::json!([0, 0, 1, 1, 1, 0, 1, 1, 1, 1, 0]));
    assert_eq!(by_type["Movable"], serde_json::json!([0, 1, 1, 1, 0, 0, 0, 1, 0, 0, 159]));
    assert_eq!(by_type["Reclaimable"], serde_json::json!([1, 0, 1, 1, 1, 1, 1, 0, 1, 0, 0]));
    assert_eq!(dma32["pages_on_per_cpu_lists"], 299 + 331);
    assert_eq!(policy(&report, "6.1")["unplaced_free_pages"], 0);
}

/// The texts of a state stand in for those beside the trace, with their machine or another one.
#[test]
fn a_replay_starts_from_a_state() {
    let work = "netperf-tcp-16384";
    let dir = tempfile::tempdir().unwrap();
    let beside = trace(work);
    for name in ["zoneinfo", "buddyinfo", "pagetypeinfo"] {
        let file = beside.replace("trace.gz", name);
        std::fs::copy(super::root().join(file), dir.path().join(name)).unwrap();
    }
    let state = dir.path().to_str().unwrap();
    let start = |more: &[&str]| policy(&replay(work, more), "6.1")["start"].clone();
    let there = start(&["--no-sidecars", "--state", state]);
    assert_eq!(there, start(&[]));
    assert_ne!(there, start(&["--no-sidecars"]));
    let on = start(&["--mem", "2G", "--cpus", "2", "--state", state]);
    assert_eq!(on[1]["free_blocks_by_type"], there[1]["free_blocks_by_type"]);
    let trace = trace(work);
    let output = highwater(&["replay", &trace, "--machine", "laptop", "--state", state]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("no node 0 Normal, which machine laptop has"), "{error}");
}

#[test]
#[ignore = "simulates for seconds: a step of .ci/full"]
fn same_command_same_bytes() {
    let trace = trace("netperf-tcp-16384");
    for format in ["terminal", "json", "csv", "markdown"] {
        let args = ["replay", trace.as_str(), "--format", format, "--policy", "cached"];
        let first = highwater(&args);
        assert!(first.status.success());
        assert_eq!(first.stdout, highwater(&args).stdout, "{format}");
    }
}

/// The last object counts every policy.
#[test]
fn progress_counts_policies() {
    let trace = trace("netperf-tcp-16384");
    let args = ["replay", &trace, "--policy", "6.1", "--policy", "5.4", "--progress", "json"];
    let output = highwater(&args);
    assert!(output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    let last: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!((&last["done"], &last["total"]), (&2.into(), &2.into()), "{said}");
    assert_eq!((&last["what"], &last["left_s"]), (&"policies".into(), &0.0.into()), "{said}");
}

/// A block that was split is freed page by page; one that was in use before, at its size.
#[test]
fn odd_frees_find_their_frames() {
    let lines = [
        "mm_page_alloc: page=1 pfn=0x2000 order=3 migratetype=0 gfp_flags=GFP_KERNEL",
        "mm_page_free: page=1 pfn=0x2003 order=0",
        "mm_page_free: page=1 pfn=0x2000 order=0",
        "mm_page_free: page=1 pfn=0x3000 order=2",
        "mm_page_free: page=1 pfn=0x3000 order=2",
        "mm_page_alloc: page=1 pfn=0xffffffffffffffff order=9 migratetype=1 gfp_flags=GFP_TRANSHUGE",
        "mm_page_alloc: page=1 pfn=0x2400 order=10 migratetype=1 gfp_flags=GFP_HIGHUSER_MOVABLE",
        "mm_page_free: page=1 pfn=0x2400 order=10",
    ];
    let text: String = lines
        .iter()
        .enumerate()
        .map(|(i, event)| format!("  task-1     [001] .....     1.{i:06}: {event}\n"))
        .collect();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.trace");
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let report = json(&["replay", path, "--format", "json", "--mem", "1G", "--cpus", "2"]);
    let model = &report["policies"][0];
    assert_eq!(model["frees_from_before"], 1);
    assert_eq!(model["frees_unknown"], 1, "the second free of 0x3000");
    assert_eq!(events(&report["trace_counts"]["tally"], "mm_page_alloc failed"), 1.0);
    assert_eq!(events(&model["tally"], "mm_page_free"), 4.0);
}

#[test]
fn tables_show_the_trace_beside_the_model() {
    let trace = trace("file-read");
    let text = stdout(&["replay", &trace]);
    assert!(text.contains("mm_page_pcpu_drain") && text.contains("captured beside the trace"));
    assert!(stdout(&["replay", &trace, "--no-sidecars"]).contains("inferred from the trace"));
}

#[test]
fn what_was_not_recorded_is_not_inferred() {
    let event = |i: usize, what: &str| format!("t-1 [000] ..... 1.{i:06}: {what}\n");
    let mut text = String::new();
    for i in 0..200 {
        let pfn = 0x1000 + i;
        text += &event(
            i,
            &format!(
                "mm_page_alloc: page=1 pfn={pfn:#x} order=0 migratetype=0 gfp_flags=GFP_KERNEL"
            ),
        );
    }
    // The capture was stopped in the middle of a line.
    text += "t-1 [000] ..... 1.000201: mm_page_alloc: page=1 pfn=0x2000 or";
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("allocs.trace");
    std::fs::write(&path, text).unwrap();
    let report = stdout(&["replay", path.to_str().unwrap()]);
    assert!(report.contains("at the start: 0 pages on per-CPU lists"), "{report}");
    assert!(report.contains("no mm_page_alloc_zone_locked events were recorded"), "{report}");
}
