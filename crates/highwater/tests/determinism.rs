//! The same command gives the same bytes, whatever the number of jobs; studies come out as the book
//! says.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

fn highwater(args: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_highwater")).args(args).output().expect("runs");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "highwater {}: {complaint}", args.join(" "));
    output.stdout
}

#[test]
fn jobs_do_not_change_a_byte() {
    let run = |jobs| {
        highwater(&[
            "compare",
            "002",
            "--quick",
            "--iterations",
            "2",
            "--format",
            "json",
            "--jobs",
            jobs,
        ])
    };
    let one = run("1");
    assert!(one == run("1"), "the same command twice");
    assert!(one == run("2"), "one job and two");
    let other = highwater(&[
        "compare",
        "002",
        "--quick",
        "--iterations",
        "2",
        "--format",
        "json",
        "--seed",
        "7",
    ]);
    assert!(one != other, "another seed is another run");
}

fn study_002() -> Value {
    let text = highwater(&["compare", "002", "--quick", "--format", "json"]);
    serde_json::from_slice(&text).expect("one JSON document")
}

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
    let document = study_002();
    let hottest = hottest(&document);
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
    let document = study_002();
    let tables = document["tables"].as_array().expect("tables");
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
    let args = ["--quick", "--iterations", "1", "--format", "json"];
    let table = |host: &str| -> Value {
        let words = [&["compare", "002", "--host", host], &args[..]].concat();
        let document: Value = serde_json::from_slice(&highwater(&words)).expect("JSON");
        document["tables"][0].clone()
    };
    let (sim, native) = (table("sim"), table("native"));
    assert_eq!(sim["columns"], native["columns"]);
    let labels = |t: &Value| -> Vec<Value> {
        t["rows"].as_array().expect("rows").iter().map(|r| r["labels"].clone()).collect()
    };
    assert_eq!(labels(&sim), labels(&native));
}
