//! `--resume`: what an interrupted command leaves, and how the same command continues. `scripts/interrupted` does the same
//! with 400 runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{highwater, stdout};

/// A job that is over in a moment.
const JOB: &str = "name = \"sweep\"\ntitle = \"t\"\niterations = 6\nseconds = 0.5\n\
                   [[file]]\nname = \"data\"\nsize = \"130%\"\n\
                   [[task]]\nname = \"reader\"\n\
                   [[task.phase]]\ndo = \"read\"\nof = \"data\"\nbytes = \"16K\"\n\
                   pattern = \"zipf 0.99\"\nrate = 2000\nforever = true\nop = \"get\"\n";

/// A job in a directory of its own, and commands over it.
pub(super) struct Sweep {
    pub(super) dir: tempfile::TempDir,
}

impl Sweep {
    pub(super) fn new() -> Sweep {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("sweep.toml"), JOB).unwrap();
        Sweep { dir }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The arguments of a command over the job, its results in a directory of that name.
    pub(super) fn args(&self, command: &[&str], out: &str, more: &[&str]) -> Vec<String> {
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let mut args = vec![command[0].to_owned(), text(self.path("sweep.toml"))];
        args.extend(["--mem", "64M", "--cpus", "2"].map(str::to_owned));
        args.extend(command[1..].iter().chain(more).map(|&arg| arg.to_owned()));
        args.extend(["--out".to_owned(), text(self.path(out))]);
        args
    }

    /// Runs it to its end: its output.
    pub(super) fn stdout(&self, command: &[&str], out: &str, more: &[&str]) -> String {
        let args = self.args(command, out, more);
        stdout(&args.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// How it complains.
    pub(super) fn complaint(&self, command: &[&str], out: &str, more: &[&str]) -> String {
        let args = self.args(command, out, more);
        let output = highwater(&args.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    }

    pub(super) fn units(&self, out: &str) -> usize {
        let Ok(entries) = fs::read_dir(self.path(out).join("units")) else { return 0 };
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|end| end == "json")).count()
    }

    /// Starts it, and ends it by a signal as soon as so many units are kept, one of them by this run: its status and what it
    /// said.
    fn cut(
        &self,
        command: &[&str],
        out: &str,
        units: usize,
        signal: &str,
    ) -> (Option<i32>, String) {
        let before = self.units(out);
        let mut run: Child = Command::new(crate::program())
            .args(self.args(command, out, &["--resume"]))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let begun = Instant::now();
        while self.units(out) < units.max(before + 1) && run.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(100), "nothing is kept");
            std::thread::sleep(Duration::from_millis(2));
        }
        let kill = Command::new("kill").args([signal, &run.id().to_string()]).status();
        assert!(kill.expect("kill runs").success());
        let output = run.wait_with_output().expect("it ends");
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }
}

/// Every file below a directory, with its bytes.
pub(super) fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => dirs.push(path),
                false => {
                    let name = path.strip_prefix(dir).unwrap().to_owned();
                    found.insert(name, fs::read(&path).unwrap());
                }
            }
        }
    }
    found
}

pub(super) fn is_same(one: &Path, other: &Path) {
    let (one, other) = (files(one), files(other));
    let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&one), names(&other));
    let different: Vec<&PathBuf> =
        one.iter().filter(|(name, bytes)| other[*name] != **bytes).map(|(name, _)| name).collect();
    assert!(different.is_empty(), "{different:?}");
}

/// Killed in every way, continued each time: the bytes of a command that nobody interrupted, with all that is kept of the
/// first seed.
#[cfg(unix)]
#[test]
fn what_is_interrupted_and_continued_has_the_bytes_of_what_was_not() {
    let commands: [&[&str]; 2] = [
        &["compare", "--policy", "5.4", "--policy", "6.1"],
        &["compare", "--vary", "vm.swappiness=10,100", "--iterations", "5"],
    ];
    for command in commands {
        let sweep = Sweep::new();
        let text = sweep.stdout(command, "whole", &[]);
        for (units, signal, status) in
            [(1, "-KILL", None), (3, "-INT", Some(130)), (6, "-TERM", Some(143))]
        {
            let (code, said) = sweep.cut(command, "cut", units, signal);
            // A computer that is fast may be done before the signal comes.
            if code != Some(0) {
                assert_eq!(code, status, "{signal}: {said}");
                if status.is_some() {
                    assert!(said.contains("the same command with --resume continues"), "{said}");
                }
            }
            assert!(sweep.units("cut") >= units);
        }
        assert_eq!(sweep.stdout(command, "cut", &["--resume"]), text);
        is_same(&sweep.path("whole"), &sweep.path("cut"));
    }
}

#[test]
fn finished_runs_are_not_lost_and_not_mixed_up() {
    let sweep = Sweep::new();
    let command = ["compare", "--policy", "5.4", "--policy", "6.1"];
    let text = sweep.stdout(&command, "out", &[]);
    let before = files(&sweep.path("out"));
    assert_eq!(sweep.units("out"), 12);
    let complaint = sweep.complaint(&command, "out", &[]);
    assert!(complaint.contains("there are results in it; --force replaces them"), "{complaint}");
    // Complete: nothing runs, everything is there again.
    assert_eq!(sweep.stdout(&command, "out", &["--resume"]), text);
    assert_eq!(files(&sweep.path("out")), before);
    // Another command has nothing to do with these results.
    let complaint = sweep.complaint(&command, "out", &["--resume", "--seed", "99"]);
    assert!(complaint.contains("the results in it are of another run"), "{complaint}");
    assert_eq!(files(&sweep.path("out")), before);
    // An interrupted one: results are missing.
    fs::remove_file(sweep.path("out/results.json")).unwrap();
    let complaint = sweep.complaint(&command, "out", &[]);
    let expected = "12 finished runs of an interrupted command are in it; --resume continues it, \
                    --force begins again";
    assert!(complaint.contains(expected), "{complaint}");
    // A file that is cut short and one of another unit are not used.
    let units: Vec<PathBuf> =
        before.keys().filter(|name| name.starts_with("units")).cloned().collect();
    let half = &before[&units[0]][..100];
    fs::write(sweep.path("out").join(&units[0]), half).unwrap();
    fs::write(sweep.path("out").join(&units[1]), &before[&units[2]]).unwrap();
    assert_eq!(sweep.stdout(&command, "out", &["--resume"]), text);
    assert_eq!(files(&sweep.path("out")), before);
    // More seeds: what is there is used.
    let args = sweep.args(&command, "out", &["--resume", "--iterations", "8"]);
    let output = highwater(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("12 of 16 runs are there already"), "{said}");
    sweep.stdout(&command, "new", &["--iterations", "8"]);
    let results = |dir: &str| fs::read(sweep.path(dir).join("report.txt")).unwrap();
    assert_eq!(results("out"), results("new"));
}

#[test]
fn two_commands_do_not_write_to_one_directory() {
    let sweep = Sweep::new();
    fs::create_dir(sweep.path("out")).unwrap();
    let held = fs::File::open(sweep.path("out")).unwrap();
    held.lock().unwrap();
    let complaint = sweep.complaint(&["compare"], "out", &["--resume"]);
    assert!(complaint.contains("another run is writing results to it"), "{complaint}");
}

#[test]
fn a_search_continues() {
    let sweep = Sweep::new();
    let fit = ["fit", "--slo", "reader.get.p99<1s", "--from", "64M", "--to", "128M"];
    let fit = [&fit[..], &["--iterations", "2"]].concat();
    let text = sweep.stdout(&fit, "whole", &[]);
    let whole = files(&sweep.path("whole"));
    assert!(whole.keys().any(|name| name.starts_with("units")), "{:?}", whole.keys());
    sweep.cut(&fit, "cut", 1, "-KILL");
    assert_eq!(sweep.stdout(&fit, "cut", &["--resume"]), text);
    is_same(&sweep.path("whole"), &sweep.path("cut"));
}

#[test]
fn what_cannot_be_written_is_refused_before_anything_runs() {
    let sweep = Sweep::new();
    let none = sweep.path("none/file");
    let none = none.to_str().unwrap();
    let file = sweep.path("sweep.toml");
    let file = file.to_str().unwrap();
    let below = format!("{file}/below");
    let machine = ["--mem", "64M", "--cpus", "2"];
    let refused = |args: &[&str], expected: &str| {
        let output = highwater(&[args, &machine].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        // One line: nothing has begun.
        assert!(said.contains(expected) && said.lines().count() == 1, "{args:?}: {said}");
    };
    refused(&["trace", file, "-o", none], "there is no directory");
    refused(&["trace", file, "-o", sweep.dir.path().to_str().unwrap()], "is a directory");
    refused(&["explain", file, "--folded", none], "there is no directory");
    refused(&["explain", file, "--out", &below], "is not a directory");
    refused(&["compare", file, "--out", &below], "--out");
    let fit = ["fit", file, "--slo", "reader.get.p99<1s"];
    refused(&[&fit[..], &["--out", &below]].concat(), "--out");
    let native = ["compare", "002", "--quick", "--host", "native", "--resume", "--out", none];
    refused(&native, "only simulated runs can be continued");
    assert!(!sweep.path("none").exists());
}

#[test]
fn progress_is_data_for_who_wants_it() {
    let sweep = Sweep::new();
    let said = |progress: &str, more: &[&str]| {
        let more = [&["--progress", progress], more].concat();
        let args = sweep.args(&["compare"], &more.concat(), &more);
        let output = highwater(&args.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let all = said("json", &[]);
    assert!(all.starts_with("sweep: 6 runs"), "{all}");
    let last: serde_json::Value = serde_json::from_str(all.lines().last().unwrap()).unwrap();
    assert_eq!((&last["done"], &last["total"], &last["found"]), (&6.into(), &6.into(), &0.into()));
    assert_eq!((&last["title"], &last["what"]), (&"sweep".into(), &"runs".into()));
    let simulated = last["simulated_s"].as_f64().unwrap();
    assert!((2.5..3.5).contains(&simulated), "{simulated}");
    assert_eq!(last["simulated_of_s"], 3.0);
    assert!(!said("none", &[]).contains('{'));
    // For a reader of JSON: nothing else.
    let only = said("json", &["--quiet"]);
    assert!(!only.is_empty());
    for line in only.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

/// A closed loop whose operations take no time is an error with its line, and not a run without end.
#[test]
fn a_task_that_takes_no_time_is_refused_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("idle.toml");
    let text = "name = \"idle\"\ntitle = \"t\"\nseconds = 1.0\n[[task]]\nname = \"busy\"\n\
                [[task.phase]]\ndo = \"compute\"\nus = 0.0001\nforever = true\n";
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let output = highwater(&["compare", file, "--mem", "64M", "--cpus", "1", "--quiet"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("busy: 100000 operations in a row took no virtual time"), "{said}");
    assert!(said.contains("idle.toml:7") && said.lines().count() == 1, "{said}");
}
