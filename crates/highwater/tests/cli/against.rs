//! Two directories of results side by side, comparisons that fail, and the seed that is worth explaining.

use std::fs;
use std::path::Path;

use super::{SMALL, highwater, json, stdout};

/// A run of study 003 that is kept, its small machine's disk as it is told.
fn kept(dir: &Path, more: &[&str]) -> String {
    let dir = dir.to_str().unwrap().to_owned();
    let compare = ["compare", "003", "--quick", "--machine", SMALL, "--out", &dir];
    stdout(&[&compare[..], more].concat());
    dir
}

#[test]
fn two_runs_are_set_side_by_side_policy_by_policy() {
    let temporary = tempfile::tempdir().unwrap();
    let before = kept(&temporary.path().join("before"), &[]);
    let after = kept(&temporary.path().join("after"), &["--set", "machine.disk.data.model=hdd"]);
    let text = stdout(&["report", &before, &after]);
    let (differs, rest) = text.split_once("\n\n").unwrap();
    assert!(differs.starts_with("before and after differ in\n"), "{differs}");
    let words: Vec<&str> = differs.split_whitespace().collect();
    assert!(words.windows(3).any(|w| w == ["machine.disk.data.model", "ssd", "hdd"]), "{differs}");
    assert!(rest.starts_with("Verdict: 003-unmap-accessed: after against before\n"), "{rest}");
    for part in ["small, set-referenced", "remap on small, mark-accessed (milliseconds", "worse x"]
    {
        assert!(rest.contains(part), "{part}: {rest}");
    }
    assert!(!rest.contains("published"), "what was published compares policies: {rest}");

    // A run against itself: nothing changed, nothing differs, nothing is worse.
    let same = stdout(&["report", &before, &before, "--fail-if-worse", "0%"]);
    assert!(same.starts_with("Verdict:") && same.contains("0 of"), "{same}");
    let worse = highwater(&["report", &before, &after, "--fail-if-worse", "5%"]);
    assert_eq!(worse.status.code(), Some(1));
    let lines = String::from_utf8(worse.stderr).unwrap();
    let line = "worse by more than 5%: remap remap on small, set-referenced: after: worse x";
    assert!(lines.contains(line), "{lines}");
    assert!(lines.lines().all(|line| line.starts_with("worse by more than 5%: ")), "{lines}");

    // Data and observations stay those of the two documents.
    let both = json(&["report", &before, &after, "--format", "json"]);
    assert_eq!(both["before"]["runs"][0]["machine"], "small");
    assert_ne!(both["before"]["machines"], both["after"]["machines"]);
    let csv = stdout(&["report", &before, &after, "--format", "csv"]);
    assert!(csv.starts_with("side,experiment,host,machine,policy,label,seed,"), "{csv}");
    let run = "003-unmap-accessed,sim,small,set-referenced,6.1-set-referenced,1,";
    let is_of = |side: &str| csv.lines().any(|line| line.starts_with(&format!("{side},{run}")));
    assert!(is_of("before") && is_of("after"), "{csv}");

    let other = temporary.path().join("other");
    let other = other.to_str().unwrap();
    stdout(&["run", "netperf-tcp", "--mem", "64M", "--cpus", "2", "--out", other]);
    let error = highwater(&["report", &before, other]);
    assert_eq!(error.status.code(), Some(2));
    let text = String::from_utf8(error.stderr).unwrap();
    assert_eq!(text, "error: before ran unmap, other ran netperf-tcp: nothing to compare\n");
}

/// What was set, as it was typed; what it was before, though nobody had said it; and the verdict on the same screen.
#[test]
fn a_report_of_two_begins_with_what_was_set() {
    let temporary = tempfile::tempdir().unwrap();
    let before = kept(&temporary.path().join("before"), &["--iterations", "1"]);
    let set = ["--set", "machine.memory=96M", "--set", "vm.swappiness=10"];
    let set = [&["--iterations", "1"], &set[..]].concat();
    let after = kept(&temporary.path().join("after"), &set);
    let text = stdout(&["report", &before, &after]);
    let lines: Vec<&str> = text.lines().collect();
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words(lines[2]), "machine.memory 128M 96M", "{text}");
    assert_eq!(words(lines[3]), "vm.swappiness 60 10", "{text}");
    let verdict = lines.iter().position(|line| line.starts_with("Verdict:")).unwrap();
    assert!(verdict < 16, "{text}");
    assert!(!text.contains("dirty_ratio") && !text.contains("spanned"), "{text}");

    // With one seed anything may be chance: nobody is told that it is worse.
    for args in [&["report", &before, &after][..], &["report", &before]] {
        let refused = highwater(&[args, &["--fail-if-worse", "5%"]].concat());
        assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0));
        let error = String::from_utf8(refused.stderr).unwrap();
        assert!(error.starts_with("error: --fail-if-worse: one seed: "), "{error}");
    }
    // A seed that only one side ran.
    let other = kept(&temporary.path().join("other"), &["--iterations", "1", "--seed", "100"]);
    let error = String::from_utf8(highwater(&["report", &before, &other]).stderr).unwrap();
    assert!(error.ends_with("run other again with --seed 1, the first of before\n"), "{error}");
}

/// Differences of two means and shares next to nothing are noise, however many times as large.
#[test]
fn noise_around_nothing_is_not_worse() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("kept");
    let dir = kept(&dir, &[]);
    let worse = highwater(&["report", &dir, "--fail-if-worse", "5%"]);
    let lines = String::from_utf8(worse.stderr).unwrap();
    assert!(lines.contains("aftermath refaulted") && lines.contains("remap"), "{lines}");
    assert!(!lines.contains("activate-") && !lines.contains("share-"), "{lines}");
    let metrics = &json(&["report", &dir, "--format", "json"])["metrics"];
    assert_eq!(metrics[0]["part_of"]["activate-2"], "again-2");
    assert_eq!(metrics[1]["whole"], 100.0);
}

#[test]
fn a_comparison_that_is_too_bad_fails_after_it_was_printed_and_kept() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("kept");
    let dir = dir.to_str().unwrap();
    let compare = ["compare", "003", "--quick", "--machine", SMALL, "--out", dir];
    let failed = highwater(&[&compare[..], &["--fail-if-worse", "5"]].concat());
    assert_eq!(failed.status.code(), Some(1));
    assert_eq!(fs::read(format!("{dir}/report.txt")).unwrap(), failed.stdout);
    let lines = String::from_utf8(failed.stderr).unwrap();
    assert!(lines.contains("worse by more than 5%: aftermath refaulted on small"), "{lines}");
    let allowed = highwater(&["report", dir, "--fail-if-worse", "1e300"]);
    // Refaults from none are beyond every limit.
    assert_eq!(allowed.status.code(), Some(1));
    // Of one seed nobody can tell, which is said before anything runs.
    let one = ["compare", "001", "--quick", "--fail-if-worse", "5"];
    let refused = highwater(&one);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0));
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(error.starts_with("error: --fail-if-worse: one seed: "), "{error}");
    // A comparison of one is none.
    let alone = ["compare", "003", "--quick", "--policy", "6.1", "--fail-if-worse", "5"];
    let refused = highwater(&alone);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0));
    for wrong in ["-1", "much", "inf"] {
        let option = format!("--fail-if-worse={wrong}");
        assert_eq!(highwater(&["report", dir, &option]).status.code(), Some(2), "{wrong}");
    }
}

#[test]
fn the_seed_with_the_slowest_operation_is_explained() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = kept(&temporary.path().join("kept"), &[]);
    let file = format!("{dir}/results.json");
    let text = fs::read_to_string(&file).unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    // As if the second seed had had a bad day.
    let samples = document["runs"][1]["samples"].as_array_mut().unwrap();
    let sample =
        samples.iter_mut().find(|s| s["seed"] == 2 && s["operation"] == "again-2").unwrap();
    sample["values"][0] = 1e9.into();
    fs::write(&file, document.to_string()).unwrap();
    let output = highwater(&["explain", &dir, "--worst", "1"]);
    let said = String::from_utf8(output.stderr).unwrap();
    let expected = "seed 2: the slowest operation, again-2 under 6.1-set-referenced on small\n";
    assert!(said.starts_with(expected), "{said}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("seed 2"));
    let first = highwater(&["explain", &dir, "--worst", "1", "--iterations", "1"]);
    assert!(String::from_utf8(first.stdout).unwrap().contains("seed 1"));
}
