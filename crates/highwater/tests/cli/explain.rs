//! Explain: every nanosecond of every operation, whatever was asked to be shown.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::stutterp::{EXPERIMENT, write};
use super::{SMALL, highwater, json, root, stdout};

/// More than any run here has operations.
const ALL: &str = "100000";

fn ns(cause: &Value) -> u64 {
    cause["ns"].as_u64().expect("nanoseconds")
}

/// Checks a tree of causes without a line of the code that made it; returns its leaves' time.
fn leaves_ns(cause: &Value) -> u64 {
    let Some(children) = cause.get("children").and_then(Value::as_array) else {
        return ns(cause);
    };
    let sum: u64 = children.iter().map(leaves_ns).sum();
    assert_eq!(sum, ns(cause), "{}", cause["name"]);
    sum
}

/// Checks every operation of a document; how many there are.
fn check_all(document: &Value) -> u64 {
    let mut nr_operations = 0;
    for run in document["runs"].as_array().unwrap() {
        let worst = run["worst"].as_array().unwrap();
        let mut sums = std::collections::BTreeMap::new();
        for operation in worst {
            assert_eq!(leaves_ns(&operation["causes"]), ns(operation), "{}", operation["name"]);
            let sum = sums.entry(operation["name"].as_str().unwrap()).or_insert((0, 0));
            *sum = (sum.0 + 1, sum.1 + ns(operation));
        }
        for pair in worst.windows(2) {
            assert!(ns(&pair[0]) >= ns(&pair[1]), "the slowest first");
        }
        let bands = run["bands"].as_array().unwrap();
        for band in bands {
            leaves_ns(&band["causes"]);
        }
        // No operation is missing: together they are the band of all of their name.
        let of_all: Vec<&Value> =
            bands.iter().filter(|b| b["from"] == 0.0 && b["to"] == 100.0).collect();
        assert_eq!(of_all.len(), sums.len());
        for band in of_all {
            let name = band["operation"].as_str().unwrap();
            assert_eq!(
                (band["count"].as_u64().unwrap(), ns(&band["causes"])),
                sums[name],
                "{name}"
            );
        }
        for task in run["tasks"].as_array().unwrap() {
            leaves_ns(&task["causes"]);
        }
        nr_operations += worst.len() as u64;
    }
    nr_operations
}

#[test]
fn the_causes_of_every_operation_add_up_to_its_latency() {
    let explain =
        |of: &[&str]| json(&[&["explain"][..], of, &["--worst", ALL, "--format", "json"]].concat());
    let document = explain(&["003", "--quick", "--machine", SMALL]);
    assert_eq!(document["schema"], "highwater.explain/1");
    // Two policies, two kinds of unmapping, 1 + 2 + 4 + 8 processes, eight rounds.
    assert_eq!(check_all(&document), 2 * 2 * 15 * 8);
    let dir = tempfile::tempdir().unwrap();
    let document = explain(&[&write(dir.path(), EXPERIMENT)]);
    assert!(check_all(&document) > 50, "fewer operations than a short run has");
}

#[test]
fn two_jobs_explain_what_one_explains() {
    let run = |jobs: &str| {
        let of = ["explain", "003", "--quick", "--machine", SMALL];
        stdout(&[&of[..], &["--jobs", jobs, "--format", "json"]].concat())
    };
    assert_eq!(run("1"), run("2"));
}

#[test]
fn the_text_says_why() {
    let text = stdout(&["explain", "003", "--quick", "--machine", SMALL, "--worst", "2"]);
    for part in [
        "== 6.1-mark-accessed on small, seed 1: the slowest 2 of ",
        "1. again-8 by unmap/",
        "lock lruvec->lru_lock",
        " waits, and who held them up",
        "again-8: where the time went (mean, us, and percent)",
        "what tasks did with their time",
        "locks (us)",
        "in other words",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("\n3. "), "{text}");
}

fn files(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_run_is_repeated_from_what_it_left_behind() {
    let temporary = tempfile::tempdir().unwrap();
    let (results, explained) = (temporary.path().join("r"), temporary.path().join("e"));
    let (results, explained) = (results.to_str().unwrap(), explained.to_str().unwrap());
    let of = ["003", "--quick", "--machine", SMALL, "--seed", "7"];
    let policy = ["--policy", "6.1"];
    stdout(&[&["compare"][..], &of, &policy, &["--out", results]].concat());
    let direct = json(&[&["explain"][..], &of, &policy, &["--format", "json"]].concat());
    let repeated = json(&["explain", results, "--format", "json", "--out", explained]);
    assert_eq!(direct["runs"], repeated["runs"]);
    assert_eq!(direct["seed"], 7);
    for of in ["machines", "policies"] {
        let definition = direct[of][0]["definition"].as_str().unwrap();
        assert!(definition.lines().count() > 5, "{of}: {definition}");
        assert_eq!(direct[of], repeated[of]);
    }

    assert_eq!(files(Path::new(explained)), ["explain.json", "explain.txt", "folded.txt"]);
    let text = std::fs::read_to_string(Path::new(explained).join("explain.txt")).unwrap();
    assert_eq!(stdout(&["explain", explained]), text);
    assert_eq!(json(&["explain", explained, "--format", "json"]), repeated);
    let fewer = json(&["explain", explained, "--worst", "1", "--format", "json"]);
    assert_eq!(fewer["runs"][0]["worst"].as_array().unwrap().len(), 1);
    let csv = stdout(&["explain", explained, "--format", "csv"]);
    assert!(csv.contains("slowest operations,small ") && csv.contains("locks,small "), "{csv}");
    assert!(stdout(&["explain", explained, "--format", "markdown"]).contains("```text\n1. "));
}

#[test]
fn folded_stacks_hold_all_the_time() {
    let of = ["explain", "003", "--quick", "--machine", SMALL];
    let folded = stdout(&[&of[..], &["--folded", "-"]].concat());
    let mut sum = 0;
    for line in folded.lines() {
        let (stack, ns) = line.rsplit_once(' ').unwrap();
        assert!(!stack.contains(char::is_whitespace), "{line}");
        sum += ns.parse::<u64>().unwrap();
    }
    let document = json(&[&of[..], &["--format", "json"]].concat());
    let bands =
        document["runs"].as_array().unwrap().iter().flat_map(|r| r["bands"].as_array().unwrap());
    let all = bands.filter(|band| band["from"] == 0.0 && band["to"] == 100.0);
    assert_eq!(sum, all.map(|band| ns(&band["causes"])).sum::<u64>());
}

#[test]
fn what_cannot_be_explained_is_said_in_one_line() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().to_str().unwrap();
    let complaint = |args: &[&str]| {
        let output = highwater(args);
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    };
    assert!(complaint(&["explain", dir]).contains("neither explain.json nor results.json"));
    let file = temporary.path().join("explain.json");
    std::fs::write(&file, "{\n\"schema\": 1}").unwrap();
    assert!(complaint(&["explain", dir]).contains("explain.json:2: "));
    let cause = |ns: u64| serde_json::json!({"name": "x", "ns": ns, "count": 1});
    let document = serde_json::json!({
        "schema": "highwater.explain/1", "version": "", "experiment": "e", "command_line": [],
        "host": "sim", "seed": 1, "machines": [], "policies": [], "runs": [{
            "machine": "m", "policy": "p", "label": "p", "seed": 1, "bands": [], "tasks": [], "locks": [],
            "worst": [{"name": "op", "task": "t", "start_ns": 0, "ns": 5, "causes": cause(4), "waits": 0, "chains": []}]
        }]
    });
    std::fs::write(&file, document.to_string()).unwrap();
    let text = complaint(&["explain", dir]);
    assert!(text.contains("explain.json: runs[0].worst[0]: causes of 4 ns for 5 ns"), "{text}");
    std::fs::remove_file(&file).unwrap();
    std::fs::write(temporary.path().join("results.json"), "{}").unwrap();
    assert!(complaint(&["explain", dir]).contains("results.json"));
    assert!(complaint(&["explain", "no-such"]).contains("no-such"));
    let worst = complaint(&["explain", "003", "--worst", "0"]);
    assert!(worst.contains("--worst"), "{worst}");
    stdout(&["compare", "003", "--quick", "--machine", SMALL, "--out", dir, "--force"]);
    let refused = |option: &str, value: &str| {
        let text = complaint(&["explain", dir, option, value]);
        assert!(text.contains(&format!("{option}: not with a directory")), "{text}");
    };
    for (option, value) in [
        ("--seed", "3"),
        ("--host", "sim"),
        ("--policy", "6.1"),
        ("--machine", "big-core"),
        ("--numa-distance", "0,1=21"),
    ] {
        refused(option, value);
    }
    let explained = temporary.path().join("again");
    let explained = explained.to_str().unwrap();
    stdout(&["explain", dir, "--iterations", "2", "--jobs", "1", "--out", explained]);
    for option in ["--iterations", "--jobs", "--seed"] {
        let text = complaint(&["explain", explained, option, "2"]);
        assert!(text.contains(&format!("{option}: not with a directory")), "{text}");
    }
    let text = stdout(&["explain", explained, "--worst", "1"]);
    assert!(text.contains(", seeds 1, 2: the slowest 1 of "), "{text}");
    assert!(text.contains(" with seed "), "{text}");
    assert!(text.contains("# 2 seeds: each has its own percentiles"), "{text}");
    // Results of a workload that another program has.
    let file = temporary.path().join("results.json");
    let kept = std::fs::read_to_string(&file).unwrap();
    let mut document: Value = serde_json::from_str(&kept).unwrap();
    document["workload"]["name"] = "naps".into();
    std::fs::write(&file, document.to_string()).unwrap();
    let text = complaint(&["explain", dir]);
    assert!(text.contains("run `explain` with the program that defines this workload"), "{text}");
}

#[test]
fn a_directory_does_not_hide_an_experiment() {
    let temporary = tempfile::tempdir().unwrap();
    std::fs::create_dir(temporary.path().join("003")).unwrap();
    let machine = root().join(SMALL);
    let output = Command::new(crate::program())
        .args(["explain", "003", "--quick", "--policy", "6.1", "--machine"])
        .arg(machine)
        .current_dir(temporary.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// On the host, takings and holds are the point: all classes are shown.
#[test]
fn native_locks_are_all_there() {
    let text = stdout(&["explain", "003", "--quick", "--host", "native", "--policy", "6.1"]);
    assert!(text.contains("locks (us)") && !text.contains("never waited for"), "{text}");
    assert!(text.contains("zone->lock"), "{text}");
}
