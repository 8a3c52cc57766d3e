//! `--out` leaves other files alone, `--force` and `--resume` replace only what is theirs, and `report` prints the new results.

use std::fs;
use std::path::{Path, PathBuf};

use super::highwater;
use super::resume::{Sweep, files};

const TWO: [&str; 5] = ["compare", "--policy", "6.1", "--policy", "5.4"];
const FEW: [&str; 2] = ["--iterations", "2"];

/// Runs a command that must succeed; its stderr.
fn said(sweep: &Sweep, command: &[&str], out: &str, more: &[&str]) -> String {
    let args = sweep.args(command, out, more);
    let output = highwater(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    said
}

fn report(dir: &Path, more: &[&str]) -> String {
    super::stdout(&[&["report", dir.to_str().unwrap()], more].concat())
}

fn complaint(args: &[&str]) -> String {
    let output = highwater(args);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    said
}

/// The directories of points that are there.
fn points(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| name.starts_with("point-"));
    names.sort();
    names
}

#[test]
fn only_our_own_half_written_files_are_removed() {
    let sweep = Sweep::new();
    let at = |name: &str| sweep.path("base").join(name);
    let ours = ["report.txt.4711.tmp", "results.json.12.tmp"].map(at);
    let others = ["x.4711.tmp", "data.7.tmp", "sub/report.2024.tmp", "sub/report.txt.4711.tmp"];
    let others: [PathBuf; 4] = others.map(at);
    fs::create_dir_all(at("sub")).unwrap();
    ours.iter().chain(&others).for_each(|path| fs::write(path, "x").unwrap());
    sweep.stdout(&["compare"], "base", &["--iterations", "1"]);
    assert!(ours.iter().all(|path| !path.exists()));
    others.iter().for_each(|path| assert!(path.exists(), "{}", path.display()));
}

/// One unit that both have is not enough.
#[test]
fn resume_does_not_replace_results_of_another_comparison() {
    let sweep = Sweep::new();
    sweep.stdout(&TWO, "out", &FEW);
    let before = files(&sweep.path("out"));
    let other = ["compare", "--policy", "6.1", "--policy", "4.3"];
    let refused = "the results in it are of another run; --force replaces them";
    for (command, more) in [
        (&other[..], &["--resume", "--iterations", "2"][..]),
        (&TWO, &["--resume", "--iterations", "1"]),
        (&TWO[..3], &["--resume", "--iterations", "2"]),
    ] {
        let complaint = sweep.complaint(command, "out", more);
        assert!(complaint.contains(refused), "{complaint}");
        assert_eq!(files(&sweep.path("out")), before, "{command:?}");
    }
    // A policy more: all that is there is of this command, too.
    let three = [&TWO[..], &["--policy", "4.3"]].concat();
    let said = said(&sweep, &three, "out", &["--resume", "--iterations", "2"]);
    assert!(said.contains("4 of 6 runs are there already"), "{said}");
    let grid = |values, more: &[&str]| {
        let more = [&["--iterations", "1"], more].concat();
        let command = ["compare", "--policy", "6.1", "--vary", values];
        (command.map(str::to_owned), more.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>())
    };
    let run = |(command, more): ([String; 5], Vec<String>)| {
        let texts = |all: &[String]| all.iter().map(|text| text.to_owned()).collect::<Vec<_>>();
        let args = sweep.args(
            &texts(&command).iter().map(String::as_str).collect::<Vec<_>>(),
            "grid",
            &texts(&more).iter().map(String::as_str).collect::<Vec<_>>(),
        );
        highwater(&args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert!(run(grid("vm.swappiness=1,2,3", &[])).status.success());
    let before = files(&sweep.path("grid"));
    for values in ["vm.swappiness=2,4", "vm.swappiness=1,2"] {
        let output = run(grid(values, &["--resume"]));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains(refused), "{said}");
        assert_eq!(files(&sweep.path("grid")), before);
    }
    assert!(run(grid("vm.swappiness=1,2,3,4", &["--resume"])).status.success());
    assert_eq!(points(&sweep.path("grid")).len(), 4);
}

#[test]
fn report_prints_what_force_put_there() {
    let sweep = Sweep::new();
    let dir = sweep.path("out");
    let grid = |values: &'static str| ["compare", "--policy", "6.1", "--vary", values];
    let one = ["--iterations", "1"];
    let force = ["--iterations", "1", "--force"];
    sweep.stdout(&grid("vm.swappiness=1,2,3"), "out", &one);
    assert_eq!(points(&dir), ["point-0001", "point-0002", "point-0003"]);
    let notes = dir.join("point-0003/notes.txt");
    fs::write(&notes, "somebody's own").unwrap();
    // A smaller grid.
    let text = sweep.stdout(&grid("vm.swappiness=1,2"), "out", &force);
    assert_eq!(report(&dir, &[]), text);
    assert!(notes.exists() && !dir.join("point-0003/results.json").exists());
    // A point that an older version left is none of the table's.
    let stale = dir.join("point-0004");
    fs::create_dir(&stale).unwrap();
    fs::copy(dir.join("point-0001/results.json"), stale.join("results.json")).unwrap();
    assert_eq!(report(&dir, &[]), text);
    fs::remove_file(dir.join("point-0002/results.json")).unwrap();
    let half = complaint(&["report", dir.to_str().unwrap()]);
    assert!(half.contains("has 2 points, but results of only 1 lie beside it"), "{half}");
    // No grid any more.
    let text = sweep.stdout(&TWO, "out", &force);
    assert_eq!(report(&dir, &[]), text);
    assert_eq!(points(&dir), ["point-0003"], "only what is somebody's own stays");
    // A search.
    let fit = ["fit", "--slo", "reader.get.p99<1s", "--from", "64M", "--to", "128M"];
    let text = sweep.stdout(&fit, "out", &force);
    assert_eq!(report(&dir, &[]), text);
    assert!(!dir.join("results.json").exists() && !dir.join("timeline.csv").exists());
    // And a grid again.
    let text = sweep.stdout(&grid("vm.swappiness=1,2"), "out", &force);
    assert_eq!(report(&dir, &[]), text);
    assert!(!dir.join("fit.csv").exists());
}

/// `report` reads what `fit` and `bisect` keep; `explain` says that there is nothing to explain.
#[test]
fn answers_of_searches_are_reported() {
    let sweep = Sweep::new();
    let fit = ["fit", "--slo", "reader.get.p99<1s", "--from", "64M", "--to", "128M"];
    let text = sweep.stdout(&fit, "fit", &FEW);
    let dir = sweep.path("fit");
    assert_eq!(report(&dir, &[]), text);
    let csv = fs::read_to_string(dir.join("fit.csv")).unwrap();
    assert_eq!(report(&dir, &["--format", "csv"]), csv);
    // Both ends and values above the answer are points: what is kept is what is said.
    let said = said(&sweep, &fit, "fit", &["--iterations", "2", "--resume"]);
    let kept = format!("{}: 10 finished runs are kept there", dir.display());
    assert!(said.contains(&kept) && !said.contains("runs are there already"), "{said}");
    let dir = dir.to_str().unwrap();
    let refused = complaint(&["report", dir, "--format", "json"]);
    let expected = "holds the answer of fit, which is kept as report.txt and fit.csv; --format csv";
    assert!(refused.contains(expected), "{refused}");
    let refused = complaint(&["report", dir, "--fail-if-worse", "5"]);
    assert!(refused.contains("--fail-if-worse: ") && refused.contains("is no comparison"));
    for command in [&["explain", dir][..], &["report", dir, dir]] {
        let refused = complaint(command);
        let expected = format!("holds the answer of fit, no comparison; highwater report {dir}");
        assert!(refused.contains(&expected), "{refused}");
    }

    let (job, dir) = (sweep.path("sweep.toml"), sweep.path("bisect"));
    let [job, out] = [&job, &dir].map(|path| path.to_str().unwrap());
    let bisect = ["bisect", "5.17", "5.18", job, "--mem", "64M", "--cpus", "2", "--seeds", "2"];
    let output = highwater(&[&bisect[..], &["--metric", "pgalloc_normal", "--out", out]].concat());
    assert!(output.status.code() < Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(report(&dir, &[]), String::from_utf8(output.stdout).unwrap());
    let known = fs::read_to_string(dir.join("bisect.json")).unwrap();
    assert_eq!(report(&dir, &["--format", "json"]), known);
}
