//! `compare` of several experiments, and `--beyond`.

use super::{SMALL, highwater, json, root, stdout};

/// Two experiments that are over in a moment: study 003 on a small machine, and a file.
fn two(dir: &std::path::Path) -> String {
    let file = dir.join("own.toml");
    let own = "name = \"own\"\ntitle = \"One of my own\"\nworkload = \"unmap\"\niterations = 1\n\
               [[policy]]\nname = \"mark-accessed\"\nlabel = \"before\"\n\
               [[policy]]\nname = \"set-referenced\"\nlabel = \"after\"\n\
               [beyond]\nset = [\"vm.swappiness=10\"]\n\
               [[beyond.policy]]\nname = \"5.17\"\nlabel = \"mine\"\nwhy = \"it is older\"\n\
               [[machine]]\nname = \"little-core\"\n[unmap]\nrounds = 2\nprocesses = [1]\n\
               [quick]\niterations = 1\n";
    std::fs::write(&file, own).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
#[ignore = "simulates for seconds: a step of .ci/full"]
fn several_end_with_what_they_add_up_to_and_are_kept_each() {
    let dir = tempfile::tempdir().unwrap();
    let own = two(dir.path());
    let out = dir.path().join("out");
    let out = out.to_str().unwrap();
    let short = ["--quick", "--iterations", "1", "--set", "unmap.rounds=1"];
    let text = stdout(&[&["compare", "003", &own, "--out", out][..], &short].concat());
    let verdicts = text.matches("\nVerdict: ").count() + usize::from(text.starts_with("Verdict: "));
    assert_eq!(verdicts, 2, "{text}");
    let (_, summary) = text.split_once("Summary: what was published, and what came out").unwrap();
    // Three single figures of study 003; nothing was published of the other one.
    let row = summary.lines().find(|line| line.starts_with("003-unmap-accessed")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[..3], ["003-unmap-accessed", "little-core", "3"]);
    assert!(!summary.contains("\nown "), "{summary}");
    // Each alone is what it would have been by itself.
    let alone = stdout(&["report", &format!("{out}/003-unmap-accessed")]);
    assert_eq!(alone, stdout(&[&["compare", "003"][..], &short].concat()));
    assert!(alone.starts_with(&text[..text.find("\n\n").unwrap()]), "the verdict comes first");
    let kept = std::fs::read_to_string(format!("{out}/report.txt")).unwrap();
    assert_eq!(kept, text);
    assert!(std::fs::read_to_string(format!("{out}/summary.csv")).unwrap().contains("reproduced"));
    // Directories of somebody else beside them are named, and are no part of it.
    std::fs::create_dir(format!("{out}/plots")).unwrap();
    std::fs::create_dir(format!("{out}/before")).unwrap();
    std::fs::copy(format!("{out}/own/results.json"), format!("{out}/before/results.json")).unwrap();
    let report = highwater(&["report", out]);
    assert!(text.ends_with(&String::from_utf8(report.stdout).unwrap()), "{text}");
    let said = String::from_utf8(report.stderr).unwrap();
    let left_out = format!("{out}/before: left out: it holds own, and is not called so;");
    assert!(said.contains(&left_out), "{said}");
    assert!(said.contains(&format!("{out}/plots: left out: no results in it\n")), "{said}");
    let again = highwater(&["compare", "003", &own, "--quick", "--out", out]);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8(again.stderr).unwrap().contains("--force replaces them"));
}

#[test]
fn several_as_data() {
    let dir = tempfile::tempdir().unwrap();
    let own = two(dir.path());
    let both = json(&["compare", "003", &own, "--quick", "--machine", SMALL, "--format", "json"]);
    let names: Vec<&str> = both["experiments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["experiment"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["003-unmap-accessed", "own"]);
    assert_eq!(both["summary"]["columns"][1], "reproduced");
    let csv = stdout(&["compare", "003", &own, "--quick", "--machine", SMALL, "--format", "csv"]);
    assert!(csv.starts_with("experiment,host,"));
    assert_eq!(csv.matches("experiment,").count(), 1);
    assert!(csv.contains("\nown,") && csv.contains("\n003-unmap-accessed,"));
}

#[test]
fn what_several_cannot_be_is_refused_before_anything_runs() {
    let error = |args: &[&str]| {
        let output = highwater(&[&["compare", "003"], args].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(error(&["003", "--quick"]).contains("003: 003-unmap-accessed is there already"));
    assert!(error(&["nothing", "--quick"]).contains("unknown experiment \"nothing\""));
    assert!(error(&["002", "--vary", "vm.swappiness=1,2"]).contains("a grid is of one experiment"));
    assert!(error(&["002", "--quick", "--histograms"]).contains("counts no delays"));
}

#[test]
fn beyond_stands_behind_the_shipped_ones_and_is_judged_against_both() {
    let dir = tempfile::tempdir().unwrap();
    let own = two(dir.path());
    let args = ["compare", &own, "--machine", SMALL, "--iterations", "2"];
    let text = stdout(&[&args[..], &["--beyond", "--all"]].concat());
    assert!(text.contains("Against after: Verdict: One of my own"), "{text}");
    assert!(text.contains("Against after: Evidence: "), "{text}");
    assert!(text.contains("# mine: it is older"), "{text}");
    assert!(text.contains("set for this run: vm.swappiness=10"), "{text}");
    let document = json(&[&args[..], &["--beyond", "--format", "json"]].concat());
    let labels: Vec<&str> = document["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["label"].as_str().unwrap())
        .collect();
    assert_eq!(labels, ["before", "after", "mine"]);
    assert_eq!(
        document["published_policies"].as_array().unwrap().len(),
        2,
        "only what was shipped"
    );
    assert_eq!(document["also_against"][0], "after");
    // A user's word holds, and without --beyond there is none of it.
    let set = stdout(&[&args[..], &["--beyond", "--set", "vm.swappiness=20"]].concat());
    assert!(set.contains("set for this run: vm.swappiness=20"), "{set}");
    let plain = stdout(&args);
    assert!(!plain.contains("mine") && !plain.contains("set for this run"), "{plain}");
}

#[test]
fn beyond_what_is_not_there_is_refused() {
    let error = |args: &[&str]| {
        let output = highwater(args);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let none = error(&["compare", "allocator-nodes", "--quick", "--beyond"]);
    assert!(none.contains("--beyond: allocator-nodes has no policies beyond"), "{none}");
    let both = error(&["compare", "000", "--beyond", "--policy", "6.1"]);
    assert!(both.contains("--beyond") && both.contains("--policy"), "{both}");
}

/// What the five studies go beyond with can be run: policies, headings and settings resolve.
#[test]
fn every_study_has_something_beyond() {
    for study in ["000", "001", "002", "003", "004"] {
        let text = stdout(&["show", "experiment", study]);
        let file = std::fs::read_dir(root().join("experiments")).unwrap();
        let mut names = file.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert!(names.any(|name| name.starts_with(study)));
        assert!(text.contains("[[beyond.policy]]"), "{study}");
    }
}
