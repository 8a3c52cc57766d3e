//! `report`, and what `compare --out` and `run --out` keep.

use std::fs;

use super::{highwater, stdout};

/// A comparison that takes a second, and what it printed.
fn kept(dir: &str, more: &[&str]) -> String {
    let machine = ["--machine", super::SMALL, "--iterations", "1", "--out", dir];
    let compare = [&["compare", "003", "--quick"][..], &machine].concat();
    stdout(&[&compare[..], more].concat())
}

fn complaint(args: &[&str]) -> String {
    let output = highwater(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?}");
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn a_report_is_what_compare_printed() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("kept");
    let dir = dir.to_str().unwrap();
    let printed = kept(dir, &[]);
    assert_eq!(stdout(&["report", dir]), printed);
    assert_eq!(fs::read_to_string(format!("{dir}/report.txt")).unwrap(), printed);
    // What is kept does not depend on what is printed.
    let json = temporary.path().join("json");
    kept(json.to_str().unwrap(), &["--format", "json"]);
    assert_eq!(fs::read_to_string(json.join("report.txt")).unwrap(), printed);
    // In every format, from the document alone. Its command line decides only which command comes next.
    let file = format!("{dir}/results.json");
    let text = fs::read_to_string(&file).unwrap();
    let start = text.find("\"command_line\"").unwrap();
    let end = start + text[start..].find(']').unwrap();
    fs::write(&file, format!("{}\"command_line\": [{}", &text[..start], &text[end..])).unwrap();
    let without_next = |text: &str| {
        let (verdict, rest) = text.split_once("\n\n").unwrap();
        let (verdict, _) = verdict.split_once("\n# next: ").unwrap();
        format!("{verdict}\n\n{rest}")
    };
    assert_eq!(without_next(&stdout(&["report", dir])), without_next(&printed));
    for format in ["markdown", "csv", "json"] {
        assert!(stdout(&["report", dir, "--format", format]).contains("again-8"), "{format}");
    }
    let explained = stdout(&["explain", dir, "--worst", "1"]);
    assert!(explained.contains("munmap"), "{explained}");

    // Results are not lost to a second run by mistake.
    let again = ["compare", "003", "--quick", "--machine", super::SMALL, "--out", dir];
    let refused = complaint(&again);
    assert!(refused.contains("there are results in it; --force replaces them"), "{refused}");
    assert_eq!(kept(dir, &["--force"]), printed);
}

#[test]
#[ignore = "simulates for seconds: a step of .ci/full"]
fn the_verdict_comes_first_and_fits_a_screen() {
    let text = stdout(&["compare", "003", "--quick"]);
    let (verdict, rest) = text.split_once("\n\n").unwrap();
    assert!(verdict.starts_with("Verdict: Set the referenced bit, instead of"), "{verdict}");
    assert!(verdict.lines().count() <= 24, "{verdict}");
    assert!(verdict.lines().all(|line| line.chars().count() <= 100), "{verdict}");
    for part in ["again-8", "better x", "3 of 3 figures as published", "highwater explain"] {
        assert!(verdict.contains(part), "{part}: {verdict}");
    }
    assert!(rest.starts_with("unmap on little-core"), "{rest}");
}

#[test]
fn what_is_no_result_is_told() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().to_str().unwrap();
    let told = complaint(&["report", dir]);
    let expected = format!("error: {dir}: no results in it: there is no results.json; ");
    assert!(told.starts_with(&expected), "{told}");
    fs::write(temporary.path().join("results.json"), "{\"schema\": \"highwater.compare/1\"}")
        .unwrap();
    assert!(complaint(&["report", dir]).contains("results.json"));

    // Results of nothing.
    let run = ["run", "unmap", "--machine", super::SMALL, "--set", "unmap.rounds=1"];
    let mut document = super::json(&[&run[..], &["--format", "json"]].concat());
    document["runs"] = serde_json::json!([]);
    fs::write(temporary.path().join("results.json"), document.to_string()).unwrap();
    assert_eq!(complaint(&["report", dir]), format!("error: {dir}: results without runs\n"));
}

/// The texts to start from are read again as what they were.
#[test]
fn what_is_shown_can_be_run() {
    let temporary = tempfile::tempdir().unwrap();
    let file = |name: &str| temporary.path().join(name).to_str().unwrap().to_owned();
    let experiment = file("mine.toml");
    let text = stdout(&["show", "experiment", "003"]).replace("iterations = 3", "iterations = 1");
    let (head, _) = text.split_once("[unmap]").unwrap();
    let table = stdout(&["show", "workload", "unmap"]).replace("rounds = 20", "rounds = 1");
    fs::write(&experiment, format!("{head}{table}")).unwrap();
    let machine = file("machine.toml");
    fs::write(&machine, stdout(&["show", "machine", "little-core"])).unwrap();
    let policy = file("policy.toml");
    fs::write(&policy, stdout(&["show", "policy", "6.1", "--toml"])).unwrap();
    let run = ["compare", &experiment, "--machine", &machine, "--policy", &policy];
    assert!(stdout(&run).contains("unmap on little-core"));
    let refused = complaint(&["compare", &experiment, "--quick"]);
    let why = "--quick: 003-unmap-accessed has no smaller version: leave --quick out";
    assert_eq!(refused, format!("error: {why}\n"));
    let job = file("tiny.toml");
    fs::write(&job, "[[task]]\nname = \"a\"\n[[task.phase]]\ndo = \"sleep\"\nus = 5\n").unwrap();
    let refused = complaint(&["compare", &job, "--quick"]);
    let why = "--quick: tiny has no smaller version: leave --quick out, or set its seconds";
    assert_eq!(refused, format!("error: {why} (--set job.seconds=2)\n"));
    stdout(&["compare", &job, "--policy", "6.1", "--set", "job.seconds=1"]);
}

/// What ran is not quite the machine that was named: the report says so.
#[test]
fn what_a_machine_was_given_is_said() {
    let unmap = ["run", "unmap", "--mem", "64M"];
    let given = stdout(&unmap);
    assert!(
        given.contains("# the machine has no disk: it was given a SATA SSD and no swap"),
        "{given}"
    );
    let mut storm =
        vec!["compare", "001", "--quick", "--mem", "48M", "--cpus", "2", "--policy", "6.1"];
    storm.extend(["--set", "stutterp.ladder=[4]", "--set", "stutterp.seconds=0.2"]);
    let given = stdout(&storm);
    assert!(given.contains("# the machine has no disk: it was given a SATA SSD with"), "{given}");
}

/// Nobody waits for hours to learn that two columns have one heading.
#[test]
fn two_policies_of_one_label_are_told_before_anything_runs() {
    let temporary = tempfile::tempdir().unwrap();
    let file = temporary.path().join("mine.toml");
    let text = stdout(&["show", "experiment", "003"]);
    fs::write(&file, text.replace("6.1-set-referenced", "6.1-mark-accessed")).unwrap();
    let refused = complaint(&["compare", file.to_str().unwrap()]);
    assert!(
        refused.contains(": label: two policies have the label \"6.1-mark-accessed\""),
        "{refused}"
    );
}

/// A run that takes minutes ends at once when it is told to.
#[cfg(unix)]
#[test]
fn an_interrupt_ends_a_run_within_a_second() {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("out");
    let mut run = Command::new(crate::program())
        .args(["compare", "001", "--out", dir.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    std::thread::sleep(Duration::from_millis(1500));
    let told = Instant::now();
    let kill = Command::new("kill").args(["-INT", &run.id().to_string()]).status();
    assert!(kill.expect("kill runs").success());
    let output = run.wait().expect("it ends");
    assert_eq!(output.code(), Some(130));
    assert!(told.elapsed() < Duration::from_secs(1), "{:?}", told.elapsed());
    assert!(!dir.exists(), "what was made for results that never came");
}
