//! Memory cgroups of jobs: their limits hold, kills are reported, settings come from outside, and
//! what a phase does to a group shows.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{SMALL, highwater, json, stdout};

/// A service in a small container beside a program that leaks in another.
const TWO: &str = r#"
title = "A service beside a leak"
seconds = 2

[[group]]
name = "pod"
max = "96M"

[[group]]
name = "app"
parent = "pod"
max = "50%"

[[group]]
name = "leak"
parent = "pod"
max = "16M"
swap-max = "0"

[[file]]
name = "records"
size = "80M"

[[task]]
name = "app"
group = "app"
count = 2

[[task.phase]]
do = "read"
of = "records"
bytes = "64K"
pattern = "zipf 0.5"
times = 3000
op = "get"

[[task]]
name = "leak"
group = "leak"
background = true

[[task.phase]]
do = "map"
of = "heap"
size = "64M"

[[task.phase]]
do = "touch"
of = "heap"
write = true
op = "page"
"#;

fn file(dir: &Path, text: &str) -> String {
    let path = dir.join("two.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The one value of a figure.
fn figure(document: &Value, operation: &str) -> f64 {
    let samples = document["runs"][0]["samples"].as_array().unwrap();
    let sample = samples.iter().find(|sample| sample["operation"] == operation);
    let sample = sample.unwrap_or_else(|| panic!("{operation}: {samples:?}"));
    sample["values"][0].as_f64().unwrap()
}

fn run(job: &str, more: &[&str]) -> Value {
    json(&[&["run", job, "--machine", SMALL, "--format", "json"][..], more].concat())
}

#[test]
fn a_group_stays_below_its_limit_and_its_kill_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let job = file(dir.path(), TWO);
    let document = run(&job, &[]);
    let of = |name: &str| figure(&document, name);
    // 80 MiB go through 48 MiB.
    assert!(of("app peak") <= 48.0 && of("app peak") > 40.0, "{}", of("app peak"));
    assert!(of("app max-events") > 0.0 && of("app refaults") > 0.0 && of("app scanned") > 0.0);
    assert!(of("leak peak") <= 16.0 && of("leak oom-kills") == 1.0);
    // Of a group and those below it.
    assert!(of("pod peak") <= 64.0 && of("pod oom-kills") == 1.0 && of("app oom-kills") == 0.0);
    let text = stdout(&["run", &job, "--machine", SMALL]);
    for line in ["leak: 1 of 1 was killed for its memory", "group leak: 1 OOM kill of its tasks"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("app: "), "nobody else: {text}");
}

#[test]
fn settings_of_groups_come_from_outside_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let job = file(dir.path(), TWO);
    let large = run(&job, &["--set", "group.app.max=max", "--set", "job.group.leak.max=20M"]);
    assert!(figure(&large, "app peak") > 70.0 && figure(&large, "leak peak") > 16.0);
    let varied = stdout(&[
        "compare",
        &job,
        "--machine",
        SMALL,
        "--vary",
        "group.app.max=24M,48M",
        "--format",
        "csv",
    ]);
    let points: std::collections::BTreeSet<&str> =
        varied.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
    assert_eq!(points.into_iter().collect::<Vec<_>>(), ["24M", "48M"], "{varied}");
    let fit = ["fit", &job, "--machine", SMALL, "--policy", "6.1", "--allow-kills"];
    let search = ["--min", "group.app.max", "--slo", "app.refaults<1000", "--within", "20"];
    let found = stdout(&[&fit[..], &search].concat());
    assert!(found.contains("keeps it in every seed"), "{found}");

    let refused = |setting: &str| {
        let output = highwater(&["run", &job, "--machine", SMALL, "--set", setting]);
        String::from_utf8(output.stderr).unwrap()
    };
    let unknown = refused("group.ap.max=1M");
    assert!(unknown.contains("unknown name \"ap\"; did you mean app?"), "{unknown}");
    let none = highwater(&["run", "leak", "--set", "group.app.max=1M"]);
    let none = String::from_utf8(none.stderr).unwrap();
    assert!(none.contains("leak.toml has no groups"), "{none}");
    let strange = refused("group.app.maxx=1M");
    assert!(strange.contains("unknown field `maxx`; did you mean max?"), "{strange}");
}

#[test]
fn phases_change_groups_while_the_job_runs() {
    let dir = tempfile::tempdir().unwrap();
    let phases = r#"
[[group]]
name = "a"
swap-max = "0"

[[group]]
name = "b"
max = "64M"
swap-max = "0"

[[task]]
name = "t"
group = "a"

[[task.phase]]
do = "map"
of = "m"
size = "16M"

[[task.phase]]
do = "touch"
of = "m"
write = true

[[task.phase]]
do = "join"
of = "b"

[[task.phase]]
do = "reclaim"
of = "a"
size = "4M"

[[task.phase]]
do = "map"
of = "more"
size = "8M"

[[task.phase]]
do = "touch"
of = "more"
write = true

[[task.phase]]
do = "set-group"
of = "b"
setting = "high"
size = "4M"

[[task.phase]]
do = "remove-group"
of = "a"
"#;
    let job = file(dir.path(), phases);
    let dir_out = dir.path().join("out");
    let out = ["--out", dir_out.to_str().unwrap()];
    let document = run(&job, &out);
    let of = |name: &str| figure(&document, name);
    // Memory that was charged before the task moved stays in the old group; without swap it cannot
    // be reclaimed.
    assert!(of("a peak") >= 16.0 && of("a peak") < 18.0, "{}", of("a peak"));
    assert!(of("b peak") >= 8.0 && of("b peak") < 10.0, "{}", of("b peak"));
    assert_eq!(of("t.reclaim failed"), 1024.0);
    let columns = fs::read_to_string(dir_out.join("columns.json")).unwrap();
    for column in ["group/a/current", "group/b/max", "group/b/high", "group/b/refault"] {
        assert!(columns.contains(&format!("\"{column}\"")), "{column}: {columns}");
    }
    assert!(!columns.contains("group/a/max"), "it never has one");
    // A kernel without memory.reclaim.
    let old = stdout(&["run", &job, "--machine", SMALL, "--policy", "5.10"]);
    assert!(old.contains("Linux 5.10 does not have memory.reclaim (since 5.19)"), "{old}");

    let busy = phases.replace("do = \"join\"\nof = \"b\"", "do = \"compute\"\nus = 1.0");
    let output = highwater(&["run", &file(dir.path(), &busy), "--machine", SMALL]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("t cannot remove-group a: tasks are in it (EBUSY)"), "{text}");
    let gone = format!("{phases}\n[[task.phase]]\ndo = \"join\"\nof = \"a\"\n");
    let output = highwater(&["run", &file(dir.path(), &gone), "--machine", SMALL]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("t cannot join a: it was removed before"), "{text}");
}

/// Forked tasks and helpers are in the group of their parent, unless they name another.
#[test]
fn forks_and_helpers_are_in_their_parents_group() {
    let dir = tempfile::tempdir().unwrap();
    let job = r#"
[[group]]
name = "parent"

[[group]]
name = "other"

[[file]]
name = "f"
size = "16M"

[[file]]
name = "g"
size = "8M"

[[task]]
name = "parent"
group = "parent"

[[task.phase]]
do = "read"
of = "f"
depth = 8

[[task.phase]]
do = "fork"
of = "heir"

[[task.phase]]
do = "fork"
of = "mover"

[[task]]
name = "heir"
forked = true

[[task.phase]]
do = "map"
of = "own"
size = "8M"

[[task.phase]]
do = "touch"
of = "own"
write = true

[[task]]
name = "mover"
forked = true
group = "other"

[[task.phase]]
do = "read"
of = "g"
"#;
    let document = run(&file(dir.path(), job), &[]);
    let parent = figure(&document, "parent peak");
    assert!(parent > 24.0 && parent < 26.0, "16 of the file, 8 of its child: {parent}");
    let other = figure(&document, "other peak");
    assert!(other > 8.0 && other < 9.5, "{other}");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let job = file(dir.path(), TWO);
    let run = |jobs| {
        let args = ["compare", &job, "--machine", SMALL, "--iterations", "2", "--jobs", jobs];
        stdout(&[&args[..], &["--format", "json"]].concat())
    };
    let one = run("1");
    assert!(one == run("1"), "the same command twice");
    assert!(one == run("2"), "one job and two");
    // Samples change nothing.
    let out = dir.path().join("out");
    let sampled = run_with(&job, &["--sample-every", "5", "--out", out.to_str().unwrap()]);
    let digests = |document: &Value| document["runs"][0]["per_seed"].clone();
    assert_eq!(digests(&sampled), digests(&run_with(&job, &[])));
}

fn run_with(job: &str, more: &[&str]) -> Value {
    json(&[&["compare", job, "--machine", SMALL, "--format", "json"][..], more].concat())
}

/// A task over `memory.high` with nothing to reclaim, beside one that reads through a small group.
const SLOW: &str = r#"
title = "One group over memory.high, one at its limit"
seconds = 5

[[group]]
name = "pod"

[[group]]
name = "web"
parent = "pod"
high = "64M"
swap-max = "0"

[[group]]
name = "db"
max = "16M"

[[file]]
name = "records"
size = "64M"

[[task]]
name = "web"
group = "web"

[[task.phase]]
do = "map"
of = "heap"
size = "67M"

[[task.phase]]
do = "touch"
of = "heap"
write = true
op = "page"

[[task]]
name = "db"
group = "db"

[[task.phase]]
do = "read"
of = "records"
bytes = "64K"
op = "get"
"#;

/// 67 MiB and what the kernel needs for them under a `high` of 64 MiB: 10 sleeps of 191 ticks
/// together, each with 17 events, and 3 events before (rules/memory-cgroups#high).
#[test]
fn pressure_and_sleeps_of_a_group_are_figures() {
    let dir = tempfile::tempdir().unwrap();
    let job = file(dir.path(), SLOW);
    let out = dir.path().join("out");
    let document = run(&job, &["--out", out.to_str().unwrap()]);
    let of = |name: &str| figure(&document, name);
    assert_eq!((of("web high-events"), of("web high-sleeps")), (173.0, 10.0));
    // A sleep takes up to a tick longer than asked for.
    let slept_us = of("web throttled-us");
    assert!((764e3..804e3).contains(&slept_us), "{slept_us}");
    let (some_us, full_us) = (of("web memory-some-us"), of("web memory-full-us"));
    assert!(some_us >= slept_us && some_us < slept_us * 1.02, "{some_us}");
    assert_eq!(some_us, full_us, "the group has one task");
    assert!(of("web memory-some") > 90.0 && of("web memory-some") <= 100.0);
    // The group above has the same; the other reclaims and does not sleep.
    for name in ["high-sleeps", "throttled-us", "memory-some-us"] {
        assert_eq!(of(&format!("pod {name}")), of(&format!("web {name}")), "{name}");
    }
    assert!(of("db memory-some-us") > 0.0 && of("db throttled-us") == 0.0);
    let columns = fs::read_to_string(out.join("columns.json")).unwrap();
    for column in ["memory-some", "memory-full", "throttled"] {
        assert!(columns.contains(&format!("\"group/web/{column}\"")), "{column}: {columns}");
    }
    // A bound on a time and on a share.
    let fit = ["fit", &job, "--machine", SMALL, "--min", "group.web.high", "--within", "10"];
    let slo = ["--slo", "web.throttled-us<50ms", "--slo", "web.memory-some<80"];
    let found = stdout(&[&fit[..], &slo].concat());
    assert!(found.contains("keeps it in every seed, "), "{found}");
    let text = stdout(&["run", &job, "--machine", SMALL]);
    for table in ["group pressure on small (percent of the time", "group stalls on small"] {
        assert!(text.contains(table), "{table}: {text}");
    }
}

#[test]
fn explain_names_the_group() {
    let dir = tempfile::tempdir().unwrap();
    let job = file(dir.path(), SLOW);
    let explain = |op: &str| stdout(&["explain", &job, "--machine", SMALL, "--op", op]);
    let web = explain("web.page");
    for line in ["throttled: memory.high of web", "timed out", "longer the task sleeps"] {
        assert!(web.contains(line), "{line}: {web}");
    }
    assert!(!web.contains("of pod"), "{web}");
    let db = explain("db.get");
    assert!(db.contains("running in reclaim for the limit of db"), "{db}");
}

/// The kernel's log has the groups by name.
#[test]
fn the_log_of_a_kill_names_the_group() {
    let dir = tempfile::tempdir().unwrap();
    let job = file(dir.path(), TWO);
    let out = dir.path().join("out");
    stdout(&["run", &job, "--machine", SMALL, "--out", out.to_str().unwrap()]);
    let log = fs::read_to_string(out.join("kernel.log")).unwrap();
    assert!(log.contains("oom_memcg=/pod/leak,task_memcg=/pod/leak,task=leak"), "{log}");
}
