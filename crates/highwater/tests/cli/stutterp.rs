//! `compare` and `run` of stutterp: on a tiny machine, what does not depend on its figures.

use std::path::Path;

use serde_json::Value;

use super::{highwater, json, stdout};

const MACHINE: &str = r#"
name = "tiny"

[[node]]
memory = "64M"
cpus = "0-1"

[[disk]]
name = "disk"
model = "ssd"
size = "512M"
write-bytes-per-s = 100_000_000
source = "test"

[[swap]]
disk = "disk"
size = "16M"
"#;

pub(super) const EXPERIMENT: &str = r#"
name = "001-tiny"
title = "a small version"
workload = "stutterp"
iterations = 2

[[policy]]
name = "congestion-wait-5.15"
label = "5.15-before"

[[policy]]
name = "events-5.16"
label = "5.16-after"

[[machine]]
name = "MACHINE"
published = ["001.stutterp", "001.stutterp-1socket"]
beside = [
    { table = "001.vmstat", row = "Direct pages scanned" },
    { table = "001.stutterp", row = "Amean", operation = "mmap-4" },
]
stalls = [{ policy = "events-5.16", histogram = "001.patched.direct.writeback" }]

[stutterp]
seconds = 1.0
warm-up = 0.5
readers = 1
reader-files = 20
files-per-writer = "as-configured"
block = "16K"
grain = "16K"
mapping = 0.015625
pause-ms = 5.0

[quick]
iterations = 1

[quick.stutterp]
ladder = [4]
seconds = 0.5

[full]
iterations = 1

[full.stutterp]
ladder = [4, 5]
files-per-writer = "as-described"
"#;

/// A directory with the machine and the experiment; the experiment's path. It is named 001, as its
/// published figures are.
pub(super) fn write(dir: &Path, experiment: &str) -> String {
    let machine = dir.join("tiny.toml");
    std::fs::write(&machine, MACHINE).expect("a file can be written");
    let path = dir.join("001.toml");
    let machine = machine.to_str().expect("its name is text");
    std::fs::write(&path, experiment.replace("MACHINE", machine)).expect("a file can be written");
    path.to_str().expect("its name is text").to_owned()
}

fn operations(run: &Value) -> Vec<&str> {
    let samples = run["samples"].as_array().expect("samples");
    let mut names: Vec<&str> = samples.iter().filter_map(|s| s["operation"].as_str()).collect();
    names.retain(|name| name.starts_with("mmap-"));
    names.dedup();
    names
}

#[test]
fn jobs_do_not_change_a_byte() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let steps = ["seconds = 1.0\nwarm-up = 0.5", "seconds = 0.4\nwarm-up = 0.2"];
    let path = write(dir.path(), &EXPERIMENT.replacen(steps[0], steps[1], 1));
    let run = |jobs| stdout(&["compare", &path, "--format", "json", "--jobs", jobs]);
    let one = run("1");
    assert!(one == run("2"), "one job and two");
    let document: Value = serde_json::from_str(&one).expect("one JSON document");
    for run in document["runs"].as_array().expect("runs") {
        // Two CPUs: 4, 6, 8; both seeds.
        let both = ["mmap-4", "mmap-6", "mmap-8", "mmap-4", "mmap-6", "mmap-8"];
        assert_eq!(operations(run), both);
        let scanned = |who: &str| run["counters"][format!("pgscan_{who}")].as_i64().unwrap_or(0);
        assert!(scanned("direct") + scanned("kswapd") > 0, "memory is short");
        assert!(run["times"]["user_ns"].as_u64() > Some(0));
    }
    assert!(one != stdout(&["compare", &path, "--format", "json", "--seed", "7"]));
}

#[test]
fn everything_that_the_study_shows_is_printed() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = write(dir.path(), EXPERIMENT);
    let text = stdout(&["compare", &path, "--histograms", "--all"]);
    for part in [
        "mm_vmscan_throttled (direct reclaim)",
        "reason=VMSCAN_THROTTLE_",
        "Amean  mmap-4 ",
        "Max-90 mmap-8 ",
        "Beside the published table 001.stutterp (",
        "Beside the published table 001.stutterp-1socket (",
        "Duration System ",
        "Ops Percentage direct scans ",
        "Ops AutoNUMA cost ",
        "Throttled tasks: how long they slept",
        "Evidence by seed: stutterp",
        "Evidence by seed: CPU time and reclaim",
        "2 seeds: an interval excludes 0",
        "What the study found, and what we find",
        "judged claim",
        "Direct pages scanned",
    ] {
        assert!(text.contains(part), "no \"{part}\" in:\n{text}");
    }
    let amean = text.find("Amean  mmap-4 ").expect("found before");
    let max90 = text.find("Max-90 mmap-4 ").expect("found before");
    assert!(amean < max90, "the study's order");
}

/// The largest samples say where they are, and an explanation finds them there.
#[test]
fn largest_samples_are_named_by_seed_and_time() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = write(dir.path(), EXPERIMENT);
    let out = dir.path().join("kept");
    let out = out.to_str().expect("its name is text");
    let text = stdout(&["compare", &path, "--out", out]);
    let (_, table) = text.split_once("\nLargest samples: stutterp on tiny").expect("a table");
    let table = table.split("\n\n").next().expect("it ends");
    let document = json(&["report", out, "--format", "json"]);
    let explained = ["explain", out, "--iterations", "2", "--worst", "100000", "--format", "json"];
    let explained = json(&explained);
    for run in document["runs"].as_array().expect("runs") {
        let all = run["largest"].as_array().expect("the largest of each operation");
        assert_eq!(all.len(), 3, "4, 6, 8 workers");
        for largest in all {
            let is_of = |series: &&Value| series["operation"] == largest["operation"];
            let of_operation = run["samples"].as_array().expect("samples").iter().filter(is_of);
            let values = |series: &Value| -> Vec<f64> {
                let values = series["values"].as_array().expect("values");
                values.iter().filter_map(Value::as_f64).collect()
            };
            let max = of_operation.clone().flat_map(values).fold(0.0, f64::max);
            let value = largest["value"].as_f64().expect("a value");
            assert_eq!(value, max, "{largest}");
            let of_seed = of_operation.filter(|series| series["seed"] == largest["seed"]);
            assert!(of_seed.flat_map(values).any(|one| one == max), "{largest}");
            let at_ns = largest["at_ns"].as_u64().expect("a time");
            let parts = [
                largest["operation"].as_str().expect("a name").to_owned(),
                format!("{value:.4}"),
                largest["seed"].to_string(),
                format!("{:.3}", at_ns as f64 / 1e9),
            ];
            let is_told = |line: &str| parts.iter().all(|part| line.split(' ').any(|w| w == part));
            assert!(table.lines().any(is_told), "{parts:?} {table}");
            // The same operation ends at the same time where its time is explained.
            let is_same = |operation: &&Value| {
                let number = |name: &str| operation[name].as_u64().expect("nanoseconds");
                operation["name"] == largest["operation"]
                    && number("start_ns") + number("ns") == at_ns
            };
            let runs = explained["runs"].as_array().expect("runs").iter();
            let of_run =
                runs.filter(|one| one["label"] == run["label"] && one["seed"] == largest["seed"]);
            let operations = of_run.flat_map(|one| one["worst"].as_array().expect("operations"));
            assert_eq!(operations.filter(is_same).count(), 1, "{largest}");
        }
    }
}

#[test]
fn quick_and_full_are_other_runs() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = write(dir.path(), EXPERIMENT);
    let quick = json(&["compare", &path, "--quick", "--format", "json"]);
    assert_eq!(operations(&quick["runs"][0]), ["mmap-4"]);
    let full = json(&["compare", &path, "--full", "--format", "json"]);
    // With a reader there are four workers at least, and an odd one is a hog.
    assert_eq!(operations(&full["runs"][0]), ["mmap-4", "mmap-5"]);
    assert_eq!(full["runs"][0]["seeds"].as_array().map(Vec::len), Some(1));
    let refused = highwater(&["compare", "002", "--histograms"]);
    assert_eq!(refused.status.code(), Some(2));
    let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(complaint.contains("--histograms: netperf-tcp counts no delays"), "{complaint}");
    let refused = highwater(&["compare", "002", "--full"]);
    assert_eq!(refused.status.code(), Some(2));
    let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(complaint.contains("--full: 002-pcp-high-order has no larger version"), "{complaint}");
}

#[test]
fn policies_and_machines_can_be_chosen() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = write(dir.path(), EXPERIMENT);
    let chosen =
        ["compare", &path, "--quick", "--format", "json", "--policy", "6.1", "--policy", "5.16"];
    let document = json(&chosen);
    let labels: Vec<_> =
        document["runs"].as_array().expect("runs").iter().map(|run| &run["policy"]).collect();
    assert_eq!(labels, ["6.1", "5.16"]);
    // A machine without disks gets one.
    let text = stdout(&["compare", &path, "--quick", "--mem", "64M", "--cpus", "2"]);
    assert!(text.contains("mmap-4"), "{text}");
    assert!(!text.contains("What the study found"), "nothing was published of that machine");
}

#[test]
fn mistakes_are_named() {
    let complaint = |from: &str, to: &str| {
        let dir = tempfile::tempdir().expect("a directory can be made");
        assert!(EXPERIMENT.contains(from), "{from}");
        let path = write(dir.path(), &EXPERIMENT.replacen(from, to, 1));
        let output = highwater(&["compare", &path]);
        assert_eq!(output.status.code(), Some(2), "{from} -> {to}");
        assert!(output.stdout.is_empty());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(complaint("seconds = 1.0", "seconds = 0.0").contains("seconds: must be above 0"));
    assert!(complaint("reader-files = 20", "reader-files = 0").contains("reader-files: must be"));
    assert!(complaint("readers = 1", "readers = 2").contains("readers: must be 0 or 1"));
    assert!(complaint("ladder = [4]", "ladder = [5, 4]").contains("ladder: each number"));
    let lines = |ladder: &str| complaint("ladder = [4, 5]", &format!("ladder = [{ladder}]"));
    let line = 1 + EXPERIMENT.lines().position(|l| l == "ladder = [4, 5]").expect("a line");
    for too_small in ["3, 5", "1, 2, 3", "4, 4", "4, 4097"] {
        let complaint = lines(too_small);
        assert!(complaint.contains(&format!("001.toml:{line}: ladder: each")), "{complaint}");
    }
    assert!(complaint("block = \"16K\"", "block = \"1K\"").contains("block: must be"));
    assert!(complaint("Direct pages scanned", "Direct pages lost").contains("001.vmstat Direct"));
}

#[test]
fn a_disk_that_is_too_small_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = write(dir.path(), EXPERIMENT);
    let small = MACHINE.replace("size = \"512M\"", "size = \"20M\"");
    std::fs::write(dir.path().join("tiny.toml"), small).expect("a file can be written");
    let output = highwater(&["compare", &path, "--quick"]);
    assert_eq!(output.status.code(), Some(2));
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(complaint.contains("disk disk lacks"), "{complaint}");
}

#[test]
fn one_run_of_the_workload() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    write(dir.path(), EXPERIMENT);
    let machine = dir.path().join("tiny.toml");
    let machine = machine.to_str().expect("its name is text");
    let native = highwater(&["run", "stutterp", "--host", "native", "--machine", machine]);
    assert_eq!(native.status.code(), Some(2));
    let complaint = String::from_utf8_lossy(&native.stderr).into_owned();
    assert!(complaint.contains("virtual time only"), "{complaint}");
}
