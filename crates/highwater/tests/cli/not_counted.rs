//! A figure that a policy's kernel does not count is "not counted in X (since Y)" everywhere, never 0.

use std::fs;

use super::bisect::STREAM;
use super::{SMALL, highwater, json, stdout};

const SHORT: [&str; 4] = ["--machine", SMALL, "--set", "job.seconds=0.3"];

fn refused(args: &[&str]) -> String {
    let output = highwater(&[args, &SHORT].concat());
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(2), &b""[..]), "{args:?}");
    String::from_utf8(output.stderr).unwrap().lines().last().unwrap_or_default().to_owned()
}

/// An answer that would depend on it is refused before anything runs: counters, sums, rates, pressure.
#[test]
fn answers_that_would_depend_on_it_are_refused() {
    let next = "name another figure, or a policy whose kernel counts it";
    for (from, metric, name, since) in [
        ("5.4", "workingset_refault_anon", "workingset_refault_anon", "5.9"),
        ("5.4", "pgscan_file+pgsteal_file", "pgscan_file", "5.8"),
        ("5.4", "pgscan_anon.rate", "pgscan_anon", "5.8"),
        ("4.6", "oom_kill", "oom_kill", "4.13"),
        ("4.6", "memory.some", "memory.some", "4.20"),
        ("4.3", "io.full", "io.full", "4.20"),
    ] {
        let wanted = format!("{name} is not counted in {from} (since {since}); {next}");
        let said = refused(&["bisect", from, "5.10", STREAM, "--metric", metric]);
        assert_eq!(said, format!("error: --metric: {wanted}"));
        let slo = format!("{metric}<5");
        let said = refused(&["fit", STREAM, "--policy", from, "--slo", &slo]);
        assert_eq!(said, format!("error: --slo: {wanted}"));
    }
    // Of studies, too.
    let said =
        refused_study(&["bisect", "5.4", "5.10", "003", "--quick", "--metric", "pgscan_anon"]);
    assert_eq!(
        said,
        format!("error: --metric: pgscan_anon is not counted in 5.4 (since 5.8); {next}")
    );
}

fn refused_study(args: &[&str]) -> String {
    let output = highwater(&[args, &["--machine", SMALL]].concat());
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    String::from_utf8(output.stderr).unwrap().lines().last().unwrap_or_default().to_owned()
}

/// A grid says it in the cell, and has empty cells as CSV.
#[test]
fn a_grid_has_no_number_for_it() {
    let grid = ["compare", STREAM, "--policy", "5.4", "--policy", "5.10", "--iterations", "1"];
    let vary = [
        "--vary",
        "vm.swappiness=60",
        "--counter",
        "workingset_refault_anon",
        "--counter",
        "pswpout",
    ];
    let all = [&grid[..], &vary, &SHORT].concat();
    let text = stdout(&all);
    let row = |name: &str, label: &str| {
        let is_it = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.len() > 3 && (words[0], words[2]) == (name, label)
        };
        text.lines().find(is_it).unwrap_or_else(|| panic!("{name} {label}: {text}")).to_owned()
    };
    let lacking = row("workingset_refault_anon", "5.4");
    assert!(lacking.ends_with(" not counted in 5.4 (since 5.9)"), "{lacking}");
    let number = |line: &str| line.split_whitespace().last().unwrap().parse::<f64>().unwrap();
    assert!(
        number(&row("workingset_refault_anon", "5.10")) > 0.0
            && number(&row("pswpout", "5.4")) > 0.0
    );
    assert!(text.contains("# not counted in 5.4 (since 5.9): refaults-anon"), "{text}");
    let csv = stdout(&[&all[..], &["--format", "csv"]].concat());
    for operation in
        ["counters,events,workingset_refault_anon", "faults,pages,db.get refaults-anon"]
    {
        assert!(csv.contains(&format!("\n60,small,5.4,{operation},0,,,,,,,,,\n")), "{csv}");
        assert!(csv.contains(&format!("\n60,small,5.10,{operation},1,")), "{csv}");
    }
}

/// Results have no key for it, and say since when Linux counts it; files of a kernel that lacks them are not written.
#[test]
fn results_and_texts_have_no_zero_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let args =
        ["compare", STREAM, "--policy", "4.6", "--policy", "5.10", "--iterations", "1", "--out"];
    let args = [&args[..], &[out.to_str().unwrap(), "--format", "json"], &SHORT].concat();
    let document = json(&args);
    let run = |at: usize| &document["runs"][at];
    for (name, since) in [
        ("workingset_refault_anon", "5.9"),
        ("pgscan_file", "5.8"),
        ("oom_kill", "4.13"),
        ("memory some", "4.20"),
        ("db.get refaults-anon", "5.9"),
    ] {
        assert_eq!(run(0)["counted_since"][name], since);
        assert!(
            run(0)["counters"].get(name).is_none() && run(1)["counted_since"].get(name).is_none()
        );
        let samples = run(0)["samples"].as_array().unwrap();
        assert!(samples.iter().all(|sample| sample["operation"] != name), "{name}");
    }
    assert!(run(1)["counters"]["workingset_refault_anon"].as_i64().unwrap() > 0);
    let verdict = fs::read_to_string(out.join("report.txt")).unwrap();
    assert!(verdict.contains("# not counted in 4.6 (since 5.9): refaults-anon"), "{verdict}");
    assert!(verdict.contains("# not counted in 4.6 (since 4.20): pressure"), "{verdict}");
    let pressure = fs::read_to_string(out.join("pressure.txt")).unwrap();
    assert!(pressure.starts_with("== 5.10 on small") && !pressure.contains("== 4.6"), "{pressure}");
    // Over time: empty cells, not zeros.
    let csv = fs::read_to_string(out.join("timeline.csv")).unwrap();
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let heads = lines.next().unwrap();
    let column = |name: &str| heads.iter().position(|head| *head == name).unwrap();
    let label = column("label");
    for name in ["pressure/memory/some", "workingset_refault_anon"] {
        let at = column(name);
        for line in csv.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>()) {
            assert_eq!(line[at].is_empty(), line[label] == "4.6", "{name}: {line:?}");
        }
    }
    // Linux's own texts.
    let vmstat =
        |policy: &str| stdout(&["vmstat", "--mem", "1G", "--cpus", "2", "--policy", policy]);
    let zoneinfo =
        |policy: &str| stdout(&["zoneinfo", "--mem", "1G", "--cpus", "2", "--policy", policy]);
    for text in [vmstat("5.4"), zoneinfo("5.4")] {
        assert!(
            text.contains("workingset_refault_file 0") && !text.contains("refault_anon"),
            "{text}"
        );
    }
    assert!(vmstat("5.10").contains("workingset_refault_anon 0"));
    assert!(zoneinfo("5.10").contains("workingset_refault_anon 0"));
}
