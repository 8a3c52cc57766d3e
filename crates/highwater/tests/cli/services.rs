//! `capture` of services: Redis and PostgreSQL as they ran on a real Linux under load, in a tree of their texts.
//!
//! `/proc` of one Redis (append-only file, clients) and of two backends of PostgreSQL, its checkpointer and its background
//! writer, four seconds after their referenced bits were cleared.

use std::fs;
use std::path::Path;

use toml::{Table, Value};

use super::{highwater, stdout};

const TREE: &str = "crates/highwater/tests/cli/services";
const MIB: u64 = 1 << 20;

/// The job of a capture, and what was said on stderr.
fn job(dir: &Path, more: &[&str]) -> (String, Table, String) {
    let [job, machine, reference] = ["job.toml", "machine.toml", "static.json"]
        .map(|name| dir.join(name).display().to_string());
    let files = ["--root", TREE, "-o", &job, "--machine", &machine, "--reference", &reference];
    let output = highwater(&[&["capture", "--force"][..], &files, more].concat());
    let errors = String::from_utf8(output.stderr).expect("text");
    assert!(output.status.success(), "{errors}");
    let text = fs::read_to_string(&job).unwrap();
    let table = text.parse().unwrap();
    (text, table, errors)
}

fn list<'a>(table: &'a Table, key: &str) -> Vec<&'a Table> {
    table
        .get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_table)
        .collect()
}

fn text<'a>(table: &'a Table, key: &str) -> &'a str {
    table.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A size as job files have it.
fn bytes(text: &str) -> u64 {
    let (number, unit) = text.split_at(text.trim_end_matches(|c: char| c.is_alphabetic()).len());
    number.parse::<u64>().unwrap()
        << [("B", 0), ("K", 10), ("M", 20), ("G", 30)]
            .iter()
            .find(|u| u.0 == unit)
            .map_or(0, |u| u.1)
}

/// The steps of a request that have this action.
fn steps<'a>(task: &'a Table, action: &str) -> Vec<&'a Table> {
    let phases = list(task, "phase");
    let steps = phases.into_iter().flat_map(|phase| list(phase, "step"));
    steps.filter(|step| text(step, "do") == action).collect()
}

/// Redis reads and writes sockets, and appends to a file: it is no reader of a disk.
#[test]
fn redis_is_one_task_that_reads_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let (text_of_job, job, errors) =
        job(dir.path(), &["--comm", "redis-server", "--working-set", "4"]);
    let tasks = list(&job, "task");
    assert_eq!(tasks.len(), 1, "{text_of_job}");
    assert_eq!(tasks[0]["count"].as_integer(), Some(1));
    assert!(steps(tasks[0], "read").is_empty(), "{text_of_job}");
    let appended: Vec<&str> =
        steps(tasks[0], "append").iter().map(|step| text(step, "of")).collect();
    assert_eq!(
        appended,
        ["redis-server-appendonly-aof-12-incr-aof", "redis-server-redis-server-log"],
        "{text_of_job}"
    );
    for part in
        ["a second that it read from sockets", "a second that it wrote to sockets", "sockets: 3"]
    {
        assert!(text_of_job.contains(part), "{part}\n{text_of_job}");
    }
    // Only files of the disk, and what it maps.
    let files: Vec<&str> = list(&job, "file").iter().map(|file| text(file, "name")).collect();
    assert!(files.iter().all(|name| !name.contains("read") && !name.contains("disk")), "{files:?}");
    assert!(!errors.contains("a guess: which pages"), "{errors}");
    // Without the measurement both say that touches are a guess.
    let (guessed, _, errors) = self::job(dir.path(), &["--comm", "redis-server"]);
    assert!(guessed.contains("# Working set: not measured, touches are guessed."), "{guessed}");
    assert!(
        errors.contains("redis-server: a guess: which pages it touches and how often"),
        "{errors}"
    );
}

/// The buffers of PostgreSQL are one area that its processes map, each what it has touched.
#[test]
fn shared_buffers_are_there_once() {
    let dir = tempfile::tempdir().unwrap();
    let group = ["--cgroup", "/system.slice/postgresql.service", "--working-set", "4"];
    let (text_of_job, job, _) = job(dir.path(), &group);
    let files = list(&job, "file");
    let memory: Vec<_> = files.iter().filter(|file| file.get("memory").is_some()).collect();
    assert_eq!(memory.len(), 1, "{text_of_job}");
    assert_eq!(text(memory[0], "name"), "shared-anonymous");
    let size = bytes(text(memory[0], "size"));
    // As large as what the process with most of it has, not the sum of all four (426 MiB).
    assert!((130 * MIB..143 * MIB).contains(&size), "{size}");
    let tasks = list(&job, "task");
    assert_eq!(tasks.len(), 4, "{text_of_job}");
    let mut mapped = Vec::new();
    for task in &tasks {
        let maps = list(task, "phase");
        let map = maps.iter().find(|phase| text(phase, "file") == "shared-anonymous").unwrap();
        assert_eq!(map["shared"].as_bool(), Some(true));
        mapped.push(bytes(text(map, "size")) / MIB);
        assert_eq!(task["count"].as_integer(), Some(1));
    }
    assert_eq!(mapped, [130, 126, 86, 83], "{text_of_job}");
    assert!(text_of_job.contains("postgres 301: 130.5 MiB ("), "{text_of_job}");
    // Backends touched some of it in four seconds, the checkpointer nearly nothing.
    let touches = |at: usize| {
        let of_shared = |step: &&Table| text(step, "of") == "shared-1";
        let steps = steps(tasks[at], "touch");
        steps.into_iter().find(of_shared).map_or(0, |step| step["times"].as_integer().unwrap_or(1))
    };
    assert!(touches(2) > 100 && touches(0) < 100, "{} {}", touches(2), touches(0));
    // A backend reads blocks of tables and writes its log; libraries and the client's socket are no files.
    let read: Vec<&str> = steps(tasks[2], "read").iter().map(|step| text(step, "of")).collect();
    assert_eq!(read, ["base-5-files", "postgres-304-disk"], "{text_of_job}");
}

/// The job, run by the simulator, touches the memory that smaps reports for the processes.
#[test]
fn the_job_has_the_memory_of_the_processes() {
    let dir = tempfile::tempdir().unwrap();
    let (_, table, _) = job(dir.path(), &["--pid", "201,301,303", "--working-set", "4"]);
    let names: Vec<&str> = list(&table, "task").iter().map(|task| text(task, "name")).collect();
    assert_eq!(names, ["postgres", "postgres-303", "redis-server"]);
    let (job, out) = (dir.path().join("job.toml"), dir.path().join("out"));
    let (job, out) = (job.to_str().unwrap(), out.to_str().unwrap());
    stdout(&["run", job, "--set", "job.seconds=4", "--mem", "2G", "--cpus", "2", "--out", out]);
    let timeline = fs::read_to_string(dir.path().join("out/timeline.csv")).unwrap();
    let mut lines = timeline.lines();
    let heads: Vec<&str> = lines.next().unwrap().split(',').collect();
    let last: Vec<&str> = lines.last().unwrap().split(',').collect();
    let most = |name: &str| {
        let at = heads.iter().position(|head| *head == name).unwrap();
        let all = timeline
            .lines()
            .skip(1)
            .filter_map(|line| line.split(',').nth(at)?.parse::<u64>().ok());
        all.max().unwrap() * 4
    };
    assert_eq!(heads.len(), last.len());
    for (name, pid) in [("redis-server", 201), ("postgres", 301), ("postgres-303", 303)] {
        let smaps =
            fs::read_to_string(super::root().join(format!("{TREE}/proc/{pid}/smaps"))).unwrap();
        let rss: u64 = smaps
            .lines()
            .filter_map(|line| {
                line.strip_prefix("Rss:")?.split_whitespace().next()?.parse::<u64>().ok()
            })
            .sum();
        let ours = most(&format!("task/{name}/anon")) + most(&format!("task/{name}/file"));
        assert!(ours.abs_diff(rss) * 20 < rss, "{name}: {ours} KiB, smaps {rss} KiB");
    }
}

#[test]
fn a_choice_that_matches_nothing_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let job = dir.path().join("job.toml").display().to_string();
    let complaint = |choice: &[&str]| {
        let output =
            highwater(&[&["capture", "--root", TREE, "--quiet", "-o", &job][..], choice].concat());
        assert_eq!(output.status.code(), Some(2), "{choice:?}");
        let errors = String::from_utf8(output.stderr).expect("text");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        errors
    };
    assert!(
        complaint(&["--comm", "nginx"])
            .contains("--comm: no process is called \"nginx\" (5 were looked at;")
    );
    let text = complaint(&["--cgroup", "/system.slice/nginx.service"]);
    assert!(
        text.contains(
            "--cgroup: no process is in the control group \"/system.slice/nginx.service\""
        ),
        "{text}"
    );
    assert!(complaint(&["--pid", "201,4000000"]).contains("--pid: no process 4000000"));
    assert!(complaint(&["--working-set", "0"]).contains("must be between 0.1 and 86400"));
}
