//! `compare --vary`.

use super::{SMALL, highwater, stdout};

const ARGS: [&str; 8] =
    ["compare", "003", "--quick", "--machine", SMALL, "--vary", "unmap.rounds=2,3", "--vary"];

#[test]
fn a_grid_is_one_table_however_many_jobs_there_are() {
    let of = |jobs: &str| {
        let more = ["policy.watermark.boost=true,false", "--jobs", jobs, "--format", "csv"];
        stdout(&[&ARGS[..], &more].concat())
    };
    let (one, two) = (of("1"), of("2"));
    assert_eq!(one, two);
    let mut lines = one.lines();
    let header = lines.next().unwrap();
    assert!(
        header.starts_with("unmap.rounds,policy.watermark.boost,machine,policy,metric,unit,"),
        "{header}"
    );
    let points: std::collections::BTreeSet<Vec<&str>> =
        lines.map(|line| line.split(',').take(2).collect()).collect();
    assert_eq!(points.len(), 4);
    // A point is what --set makes of it.
    let plain = stdout(&[
        "compare",
        "003",
        "--quick",
        "--machine",
        SMALL,
        "--set",
        "unmap.rounds=3",
        "--format",
        "csv",
    ]);
    let mean_of = |policy: &str| {
        let of = one.lines().find(|line| {
            line.starts_with("3,true,") && line.contains(policy) && line.contains(",remap,")
        });
        of.unwrap().split(',').nth(8).unwrap().parse::<f64>().unwrap()
    };
    let observed: Vec<f64> = plain
        .lines()
        .filter(|line| line.contains("6.1-mark-accessed") && line.contains(",remap,"))
        .map(|line| line.rsplit(',').next().unwrap().parse().unwrap())
        .collect();
    let mean = observed.iter().sum::<f64>() / observed.len() as f64;
    assert!((mean - mean_of("6.1-mark-accessed")).abs() <= 1e-9 * mean, "{mean} {observed:?}");
}

#[test]
fn a_grid_says_what_matters_and_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("grid");
    let out = out.to_str().unwrap();
    let text = stdout(&[&ARGS[..], &["vm.swappiness=0,60", "--out", out]].concat());
    assert!(text.contains("What matters how much"), "{text}");
    assert!(text.contains("unmap.rounds") && text.contains("vm.swappiness"), "{text}");
    let csv = std::fs::read_to_string(format!("{out}/grid.csv")).unwrap();
    assert!(csv.lines().count() > 4);
    let report = stdout(&["report", &format!("{out}/point-0004")]);
    assert!(report.contains("set for this run: unmap.rounds=3 vm.swappiness=60"), "{report}");
    let again = highwater(&[&ARGS[..], &["vm.swappiness=0,60", "--out", out]].concat());
    assert_eq!(again.status.code(), Some(2));
}

#[test]
fn what_cannot_be_varied_is_refused_before_anything_runs() {
    let error = |more: &[&str]| {
        let output = highwater(&[&["compare", "003", "--quick"], more].concat());
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(error(&["--vary", "vm.swappines=1,2"]).contains("did you mean"), "a key of --set");
    assert!(error(&["--vary", "vm.swappiness=1,999"]).contains("--set vm.swappiness=999"));
    assert!(error(&["--vary", "vm.swappiness"]).contains("must be KEY=VALUE,VALUE,.."));
    assert!(error(&["--vary", "vm.swappiness=1,2", "--format", "json"]).contains("--out DIR"));
    assert!(error(&["--vary", "vm.swappiness=1", "--fail-if-worse", "1"]).contains("--vary"));
}
