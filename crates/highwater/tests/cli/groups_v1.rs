//! Groups of cgroup version 1 in jobs: limits, memory and swap together, tasks that wait, their
//! files, and what is refused.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{SMALL, highwater, json, stdout};

fn file(dir: &Path, text: &str) -> String {
    let path = dir.join("job.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The one value of a figure; 0 if it is not there.
fn figure(document: &Value, operation: &str) -> f64 {
    let samples = document["runs"][0]["samples"].as_array().unwrap();
    let sample = samples.iter().find(|sample| sample["operation"] == operation);
    sample.map_or(0.0, |sample| sample["values"][0].as_f64().unwrap())
}

/// The error line of a command that must fail.
fn refused(args: &[&str]) -> String {
    let output = highwater(args);
    assert!(!output.status.success(), "{args:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

fn run(job: &str, more: &[&str]) -> Value {
    let swap = ["--machine", SMALL, "--swap", "256M", "--format", "json"];
    json(&[&["run", job], &swap[..], more].concat())
}

/// A program that touches more than the limit of its group.
const HOG: &str = r#"
title = "A program in a group of version 1"
seconds = 5
group-version = 1

[[group]]
name = "app"
limit = "32M"

[[task]]
name = "app"
group = "app"

[[task.phase]]
do = "map"
of = "heap"
size = "48M"

[[task.phase]]
do = "touch"
of = "heap"
write = true
passes = 1.0
op = "page"
"#;

/// The rest goes to swap, unless the limit of memory and swap together forbids it.
#[test]
fn memory_and_swap_have_one_limit() {
    let dir = tempfile::tempdir().unwrap();
    let job = file(dir.path(), HOG);
    let free = run(&job, &[]);
    assert_eq!(figure(&free, "app oom-kills"), 0.0);
    assert!(figure(&free, "app peak") <= 32.0);
    let bound = run(&job, &["--set", "group.app.memsw-limit=40M"]);
    assert_eq!(figure(&bound, "app oom-kills"), 1.0, "16 MiB of swap are too many");
    let enough = run(&job, &["--set", "group.app.memsw-limit=50M"]);
    assert_eq!(figure(&enough, "app oom-kills"), 0.0);
    // A swappiness of 0 forbids it too, by the group's own setting.
    let unswappy = run(&job, &["--set", "group.app.swappiness=0"]);
    assert_eq!(figure(&unswappy, "app oom-kills"), 1.0);
}

/// The task waits instead of a kill, until another one raises the limit.
#[test]
fn a_task_waits_until_the_limit_is_raised() {
    let dir = tempfile::tempdir().unwrap();
    let waiting =
        HOG.replace("limit = \"32M\"", "limit = \"32M\"\nswappiness = 0\noom-control = true");
    let raise = r#"
[[task]]
name = "operator"

[[task.phase]]
do = "sleep"
us = 2000000.0

[[task.phase]]
do = "set-group"
of = "app"
setting = "limit"
size = "64M"
"#;
    let job = file(dir.path(), &format!("{waiting}{raise}"));
    let document = run(&job, &[]);
    assert_eq!(figure(&document, "app oom-kills"), 0.0);
    assert!(figure(&document, "app oom-events") > 0.0);
    let longest = figure(&document, "app.page max");
    assert!(longest > 1.0e6, "{longest} us: a fault waits for nearly two seconds");
    // Without the other task it waits to the end of the job.
    let job = file(dir.path(), &waiting);
    let document = run(&job, &["--set", "job.seconds=2"]);
    assert_eq!(figure(&document, "app oom-kills"), 0.0);
}

/// A limit below the usage is refused if nothing can go, and is no error of the job.
#[test]
fn a_limit_that_does_not_fit_stays() {
    let dir = tempfile::tempdir().unwrap();
    let lower = r#"
[[task.phase]]
do = "set-group"
of = "app"
setting = "limit"
size = "8M"
op = "lower"

[[task.phase]]
do = "touch"
of = "heap"
write = true
passes = 1.0
op = "again"
"#;
    let text = HOG.replace("limit = \"32M\"", "limit = \"64M\"\nswappiness = 0");
    let job = file(dir.path(), &format!("{text}{lower}"));
    let document = run(&job, &[]);
    assert_eq!(figure(&document, "app oom-kills"), 0.0);
    assert!(figure(&document, "app peak") > 48.0);
    let text = stdout(&["run", &job, "--machine", SMALL]);
    assert!(text.contains("lower"), "{text}");
}

/// Keys of the other version are refused in a line that names the nearest key.
#[test]
fn keys_of_the_other_version_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let job = file(dir.path(), HOG);
    for (set, line) in [
        (
            "group.app.max=8M",
            "max is a setting of version 2, and the job's groups are version 1 (group-version); the nearest there is limit",
        ),
        ("group.app.swappiness=201", "must be from 0 to 200"),
        ("group.app.memsw-limit=16M", "memory and swap together may not have less than limit"),
        ("job.group-version=3", "the version of cgroups is 1 or 2"),
        (
            "job.group-version=2",
            "limit is a setting of version 1, and the job's groups are version 2 (group-version); the nearest there is max",
        ),
    ] {
        let text = refused(&["run", &job, "--machine", SMALL, "--set", set]);
        assert!(text.contains(line), "{set}: {text}");
    }
}

/// The files have version 1's names and the kernel's text.
#[test]
fn the_files_are_version_1s() {
    let dir = tempfile::tempdir().unwrap();
    let text =
        HOG.replace("limit = \"32M\"", "limit = \"32M\"\nsoft-limit = \"16M\"\nswappiness = 70");
    let job = file(dir.path(), &text);
    let files = dir.path().join("files");
    let run = ["run", &job, "--machine", SMALL, "--swap", "256M"];
    stdout(&[&run[..], &["--cgroupfs", files.to_str().unwrap()]].concat());
    let root = files.join("sys/fs/cgroup/memory");
    let read =
        |name: &str| fs::read_to_string(root.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let number = |name: &str| read(name).trim().parse::<u64>().unwrap();
    assert_eq!(number("app/memory.limit_in_bytes"), 32 << 20);
    assert_eq!(number("app/memory.soft_limit_in_bytes"), 16 << 20);
    assert_eq!(number("app/memory.memsw.limit_in_bytes"), 9_223_372_036_854_771_712);
    assert_eq!(read("app/memory.swappiness"), "70\n");
    assert_eq!(read("memory.swappiness"), "60\n");
    assert_eq!(read("app/memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
    assert!(number("app/memory.max_usage_in_bytes") <= 32 << 20);
    assert!(number("app/memory.memsw.max_usage_in_bytes") >= 48 << 20);
    assert!(number("app/memory.failcnt") > 0 && number("app/memory.memsw.failcnt") == 0);
    assert!(number("app/memory.usage_in_bytes") <= number("app/memory.max_usage_in_bytes"));
    let stat = read("app/memory.stat");
    let first: Vec<&str> =
        stat.lines().take(4).map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(first, ["cache", "rss", "rss_huge", "shmem"]);
    for line in ["hierarchical_memory_limit 33554432", "total_swap ", "pgpgin "] {
        assert!(stat.contains(line), "{line}: {stat}");
    }
    let value = |name: &str| -> u64 {
        let line = stat.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("{name}: {stat}")).parse().unwrap()
    };
    assert!(value("pgpgin") >= 48 << 8 && value("pgpgin") >= value("pgpgout"));
    assert!(!files.join("sys/fs/cgroup/app").exists(), "no files of version 2");
}

/// A writer in a small group, on a disk slower than the writer.
const WRITER: &str = r#"
title = "A writer in a small group"
seconds = 3

[[group]]
name = "app"
LIMIT = "8M"

[[file]]
name = "log"
size = "0"
room = "96M"

[[task]]
name = "app"
group = "app"

[[task.phase]]
do = "write"
of = "log"
bytes = "64K"
times = 1500
op = "write"
"#;

/// Version 1 has no dirty limits of groups: the writer waits in reclaim, for its own pages.
#[test]
fn reclaim_waits_for_the_pages_of_a_writer() {
    let dir = tempfile::tempdir().unwrap();
    let waits = |text: &str| {
        let job = file(dir.path(), text);
        let text = stdout(&["explain", &job, "--machine", SMALL, "--op", "app.write"]);
        text.contains("a page's writeback")
    };
    let v1 = WRITER.replace("seconds = 3", "seconds = 3\ngroup-version = 1");
    assert!(waits(&v1.replace("LIMIT", "limit")));
    assert!(!waits(&WRITER.replace("LIMIT", "max")), "version 2 holds the writer up before");
}
