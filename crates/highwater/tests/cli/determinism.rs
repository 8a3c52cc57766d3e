//! The same command gives the same bytes, whatever the number of jobs; studies come out as the book
//! says.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use serde_json::Value;

use super::{json, stdout};

/// Study 002 with two sizes, little memory and little time.
pub(super) const SMALL: &str = r#"
name = "002-small"
title = "a small version"
workload = "netperf-tcp"
iterations = 2
native = { memory = "512M", cpus = 2 }

[[policy]]
name = "5.17-order0-pcp"
label = "order0"

[[policy]]
name = "5.17"
label = "cached"

[[machine]]
name = "captured-vm"

[[machine]]
name = "small-vm"

[netperf-tcp]
sizes = [64, 16384]
ms-per-size = 4
warmup = "8M"
socket-buffer = "256K"
sender-cpu = 0
receiver-cpu = 1

[quick]
iterations = 1
"#;

/// The path of the small version in a directory.
pub(super) fn small(dir: &Path) -> String {
    let path = dir.join("002.toml");
    std::fs::write(&path, SMALL).expect("a file can be written");
    path.to_str().expect("its name is text").to_owned()
}

#[test]
fn jobs_do_not_change_a_byte() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = small(dir.path());
    let run = |jobs| stdout(&["compare", &path, "--format", "json", "--jobs", jobs]);
    let one = run("1");
    assert!(one == run("1"), "the same command twice");
    assert!(one == run("2"), "one job and two");
    let one: Value = serde_json::from_str(&one).expect("one JSON document");
    let other = json(&["compare", &path, "--format", "json", "--seed", "7"]);
    let samples = |document: &Value| -> Vec<Value> {
        let runs = document["runs"].as_array().expect("runs");
        runs.iter().flat_map(|run| run["samples"].as_array().expect("samples").clone()).collect()
    };
    // Two machines, two policies, two seeds, two sizes.
    assert_eq!(samples(&one).len(), 2 * 2 * 2 * 2);
    assert_ne!(samples(&one), samples(&other), "another seed is another run");
}

/// Study 002 with a seed of each.
static STUDY_002: LazyLock<Value> =
    LazyLock::new(|| json(&["compare", "002", "--quick", "--iterations", "1", "--format", "json"]));

/// Uses of the hottest block by machine and policy.
fn hottest(document: &Value) -> BTreeMap<(String, String), u64> {
    let text = |v: &Value| v.as_str().expect("text").to_owned();
    let runs = document["runs"].as_array().expect("runs");
    runs.iter()
        .map(|run| {
            let buckets = run["histograms"][0]["buckets"].as_object().expect("buckets");
            let top = buckets.values().filter_map(Value::as_u64).max().expect("not empty");
            ((text(&run["machine"]), text(&run["policy"])), top)
        })
        .collect()
}

#[test]
fn study_002_reuses_frames_as_published() {
    let hottest = hottest(&STUDY_002);
    for machine in ["netperf-2-socket", "netperf-1-socket"] {
        let uses = |policy: &str| hottest[&(machine.to_owned(), policy.to_owned())];
        let (cached, order0, limited) = (uses("5.17"), uses("5.17-order0-pcp"), uses("5.18"));
        assert!(order0 >= 5 * cached, "{machine}: {order0} against {cached}");
        assert!(limited >= 3 * cached, "{machine}: {limited} against {cached}");
        assert!(order0 > limited, "{machine}: {order0} against {limited}");
    }
}

#[test]
fn study_002_has_the_published_signs_where_the_book_says_so() {
    let tables = STUDY_002["tables"].as_array().expect("tables");
    let beside = tables
        .iter()
        .filter(|t| t["title"].as_str().is_some_and(|t| t.starts_with("Beside the published")));
    let (mut agree, mut significant) = (0, 0);
    for row in beside.flat_map(|t| t["rows"].as_array().expect("rows")) {
        let words: Vec<_> = row["cells"].as_array().expect("cells").iter().collect();
        if words[2]["text"] == "yes" {
            significant += 1;
            agree += usize::from(words[3]["text"] == "yes");
        }
    }
    assert_eq!(significant, 28, "changes published as significant");
    assert!(agree >= 24, "{agree} of {significant} signs agree");
}

#[test]
fn the_native_host_prints_the_same_table() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = small(dir.path());
    let table = |host: &str| {
        let all = json(&["compare", &path, "--host", host, "--quick", "--format", "json"]);
        let is_it = |t: &&Value| t["title"].as_str().is_some_and(|t| t.starts_with("netperf-tcp"));
        all["tables"].as_array().expect("tables").iter().find(is_it).expect("its table").clone()
    };
    let (sim, native) = (table("sim"), table("native"));
    assert_eq!(sim["columns"], native["columns"]);
    let labels = |t: &Value| -> Vec<Value> {
        t["rows"].as_array().expect("rows").iter().map(|r| r["labels"].clone()).collect()
    };
    assert_eq!(labels(&sim), labels(&native));
    assert!(!labels(&sim).is_empty());
}
