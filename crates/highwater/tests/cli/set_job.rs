//! `--set` further down in a job: `job.task.0.count=3`.

use super::{highwater, json};

const JOB: &str = "crates/highwater/tests/cli/fit/two.toml";
const MACHINE: &str = "crates/highwater/tests/cli/fit/swap-machine.toml";
const RUN: [&str; 4] = ["run", JOB, "--machine", MACHINE];
const SHORT: [&str; 2] = ["--set", "job.seconds=0.05"];

fn set<'a>(settings: &[&'a str]) -> Vec<&'a str> {
    let set = settings.iter().flat_map(|&setting| ["--set", setting]);
    RUN.into_iter().chain(SHORT).chain(set).collect()
}

/// The tasks of the job that ran.
fn tasks(settings: &[&str]) -> toml::value::Array {
    let mut args = set(settings);
    args.extend(["--format", "json"]);
    let document = json(&args);
    let mut kept = vec![SHORT[1]];
    kept.extend(settings);
    assert_eq!(document["settings"], serde_json::json!(kept));
    let job: toml::Table = document["workload"]["definition"].as_str().unwrap().parse().unwrap();
    job["task"].as_array().unwrap().clone()
}

fn refused(setting: &str) -> String {
    let output = highwater(&set(&[setting]));
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{setting}: {text}");
    let line = text.strip_prefix(&format!("error: --set {setting}: "));
    line.unwrap_or_else(|| panic!("{text}")).trim_end().to_owned()
}

#[test]
fn a_key_of_a_task_or_a_phase_is_set_by_number_or_by_name() {
    let text = |text: &str| toml::Value::String(text.to_owned());
    let tasks = tasks(&[
        "job.task.0.count=3",
        "job.task.b.phase.0.size=64M",
        // Not in the file: a flag, a text.
        "job.task.1.background=1",
        "job.task.a.phase.2.pattern=zipf 0.7",
        // A share where a size was.
        "job.task.a.phase.0.size=0.05",
    ]);
    let phase = |task: usize, at: usize| &tasks[task]["phase"][at];
    assert_eq!(tasks[0]["count"], 3.into());
    assert_eq!(tasks[1]["count"], 1.into());
    assert_eq!(tasks[1]["background"], true.into());
    assert_eq!(phase(1, 0)["size"], text("64M"));
    assert_eq!(phase(0, 2)["pattern"], text("zipf 0.7"));
    assert_eq!(phase(1, 2)["pattern"], text("uniform"));
    assert_eq!(phase(0, 0)["size"].as_str(), Some("5%"));
}

#[test]
fn what_is_not_there_is_told_with_what_is() {
    let two = format!("{JOB} has 2 tasks: job.task.0 and job.task.1");
    assert_eq!(refused("job.task.2.count=3"), two);
    let by_name = refused("job.task.c.count=3");
    assert_eq!(by_name, format!("{two}; unknown name \"c\"; there are a, b"));
    let phases = "has 3 phases: job.task.0.phase.0, job.task.0.phase.1 and job.task.0.phase.2";
    assert_eq!(refused("job.task.a.phase.9.size=1M"), format!("{JOB} {phases}"));
    assert_eq!(refused("job.file.0.size=1M"), format!("{JOB} has no files"));
    for (setting, reason) in [
        ("job.task.0.coun=3", "unknown field `coun`; did you mean count?"),
        ("job.tas.0.count=3", "unknown parameter \"tas\"; did you mean task?"),
        ("job.task.0.count=many", "must be a number from 0 to 4294967295; not \"many\""),
        ("job.task.0.count=0", "task.0.count: "),
        ("job.task.0=3", "which key of job.task.0? there are count, name, phase, rounds"),
        ("job.task.0.count.x=3", "job.task.0.count is a value and has no keys"),
        ("job.seconds.x=3", "job.seconds is a value and has no keys"),
    ] {
        let line = refused(setting);
        assert!(line.starts_with(reason), "{setting}: {line}");
    }
    let list = highwater(&["compare", "003", "--quick", "--set", "unmap.processes.0=3"]);
    let text = String::from_utf8(list.stderr).unwrap();
    assert!(text.contains("is a list of values: set all of it, unmap.processes=[..]"), "{text}");
}

#[test]
fn it_can_be_varied_and_searched() {
    let grid = ["compare", JOB, "--machine", MACHINE, "--policy", "6.1", "--format", "csv"];
    let vary = ["--vary", "job.task.a.count=1,2", "--iterations", "1"];
    let output = highwater(&[&grid[..], &SHORT, &vary].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("job.task.a.count,machine,"), "{text}");
    let points: std::collections::BTreeSet<&str> =
        text.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
    assert_eq!(points.into_iter().collect::<Vec<_>>(), ["1", "2"]);

    let fit = |min: &str| {
        let args = ["fit", JOB, "--machine", MACHINE, "--policy", "6.1", "--slo", "a.get.p99<1s"];
        let range = ["--min", min, "--from", "1", "--to", "2", "--iterations", "1"];
        let output = highwater(&[&args[..], &SHORT, &range].concat());
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, told) = fit("job.task.5.count");
    let reason = format!("{JOB} has 2 tasks: job.task.0 and job.task.1");
    assert_eq!(status, Some(2), "{told}");
    assert!(told.contains(&format!("--min job.task.5.count, at 2: {reason}")), "{told}");
}

/// A line of the file is not all that is wrong with a value from outside.
#[test]
fn an_error_of_the_run_names_the_setting() {
    let output = highwater(&set(&["job.task.0.phase.0.size=40G"]));
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("two.toml:7, with --set job.task.0.phase.0.size=40G)"), "{text}");
}
