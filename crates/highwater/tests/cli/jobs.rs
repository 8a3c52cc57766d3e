//! Job files: `compare`, `run`, `explain`, `report` on them, and `fit`.

use std::fs;
use std::path::Path;

use super::{SMALL, highwater, stdout};

/// Readers of a file: what fits into memory is read once, what does not again and again.
const READERS: &str = r#"
title = "Readers of popular records"
seconds = 30

[[file]]
name = "records"
size = "96M"

[[task]]
name = "reader"
count = 2

[[task.phase]]
do = "read"
of = "records"
bytes = "64K"
pattern = "zipf 0.7"
times = 4000

[[task.phase]]
do = "read"
of = "records"
bytes = "64K"
pattern = "zipf 0.7"
times = 4000
op = "get"
"#;

fn file(dir: &Path, text: &str) -> String {
    let path = dir.join("readers.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn complaint(args: &[&str]) -> String {
    let output = highwater(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn a_job_goes_through_every_command() {
    let temporary = tempfile::tempdir().unwrap();
    let job = file(temporary.path(), READERS);
    let dir = temporary.path().join("out");
    let dir = dir.to_str().unwrap();
    let compared = stdout(&[
        "compare",
        &job,
        "--machine",
        SMALL,
        "--policy",
        "5.10",
        "--policy",
        "6.1",
        "--out",
        dir,
    ]);
    for line in
        ["throughput on small (operations/s, higher is better)", "Ops reader.get p99.9", "readers"]
    {
        assert!(compared.contains(line), "{line}: {compared}");
    }
    assert!(!compared.contains("faults on"), "nothing touches memory");
    // The job is named by its file, and kept with the results.
    let explained = stdout(&["explain", dir, "--worst", "1"]);
    assert!(explained.contains("reader.get by reader/"), "{explained}");
    assert_eq!(stdout(&["report", dir]), compared);
    let page = temporary.path().join("page.html");
    stdout(&["report", dir, "-o", page.to_str().unwrap()]);
    assert!(fs::read_to_string(page).unwrap().contains("reader.get p99"));
    let ran = stdout(&["run", &job, "--machine", SMALL, "--set", "job.seconds=0.01"]);
    assert!(ran.contains("Duration Elapsed        0.01"), "{ran}");
}

#[test]
fn jobs_that_come_with_the_program_are_listed_and_shown() {
    let listed = stdout(&["list", "workloads"]);
    assert!(listed.contains("zipf-reader") && listed.contains("Readers of popular and unpopular"));
    let shown = stdout(&["show", "workload", "zipf-reader"]);
    assert!(shown.contains("pattern = \"zipf 0.99\""), "{shown}");
    let wrong = complaint(&["run", "zipf-raeder"]);
    assert!(wrong.contains("unknown workload \"zipf-raeder\""), "{wrong}");
}

/// The knee that `fit` finds is where single runs say it is.
#[test]
fn fit_finds_the_least_memory() {
    let temporary = tempfile::tempdir().unwrap();
    let job = file(temporary.path(), READERS);
    let (slo, range) = ("reader.p90<50us", ["--from", "40M", "--to", "200M"]);
    let fit = ["fit", &job, "--slo", slo, "--iterations", "2", "--format", "json"];
    let found = stdout(&[&fit[..], &range].concat());
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    let note = found[0]["notes"][0].as_str().unwrap();
    let words: Vec<&str> = note.split_whitespace().collect();
    let mib = |word: &str| word.trim_end_matches('M').parse::<u64>().unwrap();
    let (good, bad) = (mib(words[0]), mib(words[6]));
    assert_eq!(words[1..6], ["keeps", "it", "in", "every", "seed,"], "{note}");
    assert!((41..200).contains(&good) && good - bad <= 2, "{note}");

    // The same by hand: every size near it, and some far away.
    let keeps = |mib: u64| {
        let set = format!("machine.memory={mib}M");
        let results =
            super::json(&["compare", &job, "--iterations", "2", "--set", &set, "--format", "json"]);
        let samples = results["runs"][0]["samples"].as_array().unwrap();
        let of_p90 = samples.iter().filter(|sample| sample["operation"] == "reader.get p90");
        let values: Vec<f64> = of_p90
            .flat_map(|s| s["values"].as_array().unwrap())
            .map(|v| v.as_f64().unwrap())
            .collect();
        assert_eq!(values.len(), 2);
        values.iter().all(|&value| value < 50.0)
    };
    assert!(keeps(good) && keeps(good + 40) && keeps(200), "{note}");
    assert!(!keeps(bad) && !keeps(bad - 2) && !keeps(40), "{note}");
}

#[test]
fn what_fit_cannot_do_is_told() {
    let temporary = tempfile::tempdir().unwrap();
    let job = file(temporary.path(), READERS);
    let fit = |more: &[&str]| complaint(&[&["fit", &job][..], more].concat());
    assert!(fit(&["--slo", "reader.p90"]).contains("--slo: \"reader.p90\" is no objective"));
    let other = fit(&["--slo", "writer.p90<1ms", "--from", "100M", "--to", "200M"]);
    assert!(other.contains("--slo: unknown operation \"writer\""), "{other}");
    let range = fit(&["--slo", "reader.p90<1ms", "--min", "vm.swappiness"]);
    assert!(range.contains("--from is missing"), "{range}");
    let backwards = fit(&["--slo", "reader.p90<1ms", "--from", "2G", "--to", "1G"]);
    assert!(backwards.contains("--from: must be below --to"), "{backwards}");
    let study = complaint(&["fit", "003", "--slo", "x.p90<1ms"]);
    assert!(study.contains("fit is for jobs"), "{study}");
    // A search without an answer is one, too.
    let never =
        highwater(&["fit", &job, "--slo", "reader.p50<1ns", "--from", "100M", "--to", "120M"]);
    assert_eq!(never.status.code(), Some(1));
    let said = String::from_utf8_lossy(&never.stdout).into_owned();
    assert!(said.contains("not even 120M keeps it in every seed"), "{said}");
}
