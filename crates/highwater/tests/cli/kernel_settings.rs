//! Huge pages and fork, and settings of the kernel that change what a job does.

use std::fs;
use std::path::Path;

use super::{highwater, stdout};

/// A server of 410 MiB that forks to save, as a program measured on real kernels does: 12.6 to 17 ms without huge pages,
/// 0.36 to 0.41 ms with them.
const FORK: &str = r#"
title = "fork of 410M"
seconds = 20

[[task]]
name = "server"
[[task.phase]]
do = "map"
of = "heap"
size = "410M"
ADVICE
[[task.phase]]
do = "touch"
of = "heap"
write = true
op = "first"
[[task.phase]]
do = "fork"
of = "saver"
op = "fork"
[[task.phase]]
do = "touch"
of = "heap"
write = true
pattern = "uniform"
times = 2000
op = "after"
[[task.phase]]
do = "wait"
of = "saver"

[[task]]
name = "saver"
forked = true
[[task.phase]]
do = "sleep"
us = 200000
"#;

fn job(dir: &Path, text: &str) -> String {
    let path = dir.join("job.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The first figure of a row.
fn figure(report: &str, row: &str) -> f64 {
    let line = report.lines().find(|line| line.starts_with(row));
    let line = line.unwrap_or_else(|| panic!("no row {row}:\n{report}"));
    let text = line[row.len()..].split_whitespace().next().expect("a figure");
    text.parse().unwrap_or_else(|_| panic!("{line}"))
}

fn run(job: &str, memory: &str, more: &[&str]) -> String {
    stdout(&[&["run", job, "--mem", memory], more].concat())
}

/// What a run says on both streams.
fn said(job: &str, memory: &str, more: &[&str]) -> (Option<i32>, String) {
    let output = highwater(&[&["run", job, "--mem", memory], more].concat());
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).expect("text");
    // Notes are cut at 80 columns.
    (output.status.code(), text.replace("\n#  ", " "))
}

#[test]
fn huge_pages_make_a_fork_tens_of_times_faster() {
    let temporary = tempfile::tempdir().unwrap();
    let job = |advice: &str| job(temporary.path(), &FORK.replace("ADVICE", advice));
    let forks = |report: &str| figure(report, "Ops server.fork max");
    let faults = |report: &str| figure(report, "Ops server.first minor");
    let plain = job("");
    let single = run(&plain, "1G", &["--set", "vm.thp=never"]);
    assert_eq!(faults(&single), 104_960.0);
    // Nothing but this one setting.
    let huge = run(&plain, "1G", &["--set", "vm.thp=always"]);
    assert_eq!(faults(&huge), 205.0);
    let (single, huge) = (forks(&single), forks(&huge));
    assert!((5_000.0..20_000.0).contains(&single), "{single} us");
    assert!((20.0..200.0).contains(&(single / huge)), "{single} us, {huge} us");
    // Who does not say anything gives them to programs that ask.
    assert_eq!(faults(&run(&plain, "1G", &[])), 104_960.0);
    let asked = run(&job("advice = \"hugepage\""), "1G", &[]);
    assert_eq!(faults(&asked), 205.0);
    // Up to 5.7 a write after the fork copies 2 MiB, from 5.8 on 4 KiB.
    let after = |report: &str| figure(report, "Ops server.after minor");
    let old = run(&plain, "2G", &["--set", "vm.thp=always", "--policy", "5.4"]);
    assert!(after(&old) <= 205.0 && after(&huge_of(&plain)) > 1_500.0, "{}", after(&old));
}

fn huge_of(job: &str) -> String {
    run(job, "1G", &["--set", "vm.thp=always"])
}

#[test]
fn huge_pages_that_stay_off_are_reported() {
    let temporary = tempfile::tempdir().unwrap();
    let small = FORK.replace("410M", "64M");
    let plain = job(temporary.path(), &small.replace("ADVICE", ""));
    let (_, text) = said(&plain, "256M", &["--set", "vm.thp=always"]);
    let expected =
        "vm.thp is always, but no program gets huge pages: the kernel turns them off below 512 MiB";
    assert!(text.contains(expected), "{text}");
    let (_, text) = said(&plain, "256M", &[]);
    assert!(!text.contains("huge pages"), "nobody asked: {text}");
    let asks = job(temporary.path(), &small.replace("ADVICE", "advice = \"hugepage\""));
    let (_, text) = said(&asks, "256M", &[]);
    let expected =
        "server: advice = \"hugepage\" does nothing: the kernel turns them off below 512 MiB";
    assert!(text.contains(expected), "{text}");
    let (_, text) = said(&asks, "1G", &["--set", "vm.thp=never"]);
    assert!(text.contains("does nothing: vm.thp is never"), "{text}");
    let (code, text) = said(&plain, "1G", &["--set", "vm.thp_faults=true"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("is gone: vm.thp alone decides which tasks get huge pages"), "{text}");
}

#[test]
fn overcommit_refuses_what_the_kernel_would() {
    let temporary = tempfile::tempdir().unwrap();
    let text = FORK.replace("410M", "100M").replace("ADVICE", "");
    let fork = job(temporary.path(), &text);
    let said = |memory: &str, more: &[&str]| {
        // With a disk, so that it is given no swap.
        let machine = temporary.path().join("machine.toml");
        fs::write(&machine, MACHINE.replace("256M", memory)).unwrap();
        let output =
            highwater(&[&["run", &fork, "--machine", machine.to_str().unwrap()], more].concat());
        let text = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
        text.replace("\n#  ", " ")
    };
    let set = |mode: &str| format!("vm.overcommit_memory={mode}");
    for mode in ["0", "1"] {
        let text = said("256M", &["--set", &set(mode)]);
        assert!(text.contains("server.fork") && !text.contains("gave up"), "{mode}: {text}");
    }
    // The area counts once more for the child; half of memory is the limit.
    let text = said("384M", &["--set", &set("2")]);
    let expected = "server cannot fork saver: out of memory (vm.overcommit_memory is 2: programs may be promised 164 MiB together) (";
    assert!(text.contains(expected), "{text}");
    let text = said("384M", &["--set", &set("2"), "--set", "vm.overcommit_ratio=100"]);
    assert!(text.contains("server.fork") && !text.contains("gave up"), "{text}");
    let text = said("64M", &[]);
    assert!(
        text.contains("cannot map 100 MiB: overcommit refuses it on a machine with 64 MiB of memory and no swap"),
        "{text}"
    );
}

const MACHINE: &str = "[[node]]\nmemory = \"256M\"\ncpus = \"0\"\n\
    [[disk]]\nname = \"data\"\nmodel = \"nvme\"\nsize = \"1G\"\nsource = \"test\"\n";

/// A file is read, perhaps dropped, and read again.
const READ_TWICE: &str = r#"
title = "Read twice"
seconds = 20

[[file]]
name = "records"
size = "32M"

[[task]]
name = "reader"
[[task.phase]]
do = "read"
of = "records"
bytes = "4K"
op = "cold"
[[task.phase]]
do = "DO"
[[task.phase]]
do = "read"
of = "records"
bytes = "4K"
op = "again"
"#;

#[test]
fn a_phase_drops_caches_and_no_setting_does() {
    let temporary = tempfile::tempdir().unwrap();
    let longest = |phase: &str| {
        let job = job(temporary.path(), &READ_TWICE.replace("do = \"DO\"", phase));
        let report = run(&job, "256M", &[]);
        figure(&report, "Ops reader.again max")
    };
    let kept = longest("do = \"sleep\"\nus = 10");
    for dropped in [
        "do = \"drop-caches\"\nvalue = 1",
        "do = \"drop-caches\"\nvalue = 3",
        "do = \"set\"\nof = \"vm.drop_caches\"\nvalue = 3",
    ] {
        assert!(longest(dropped) > 10.0 * kept, "{dropped}");
    }
    let wrong = job(temporary.path(), &READ_TWICE.replace("DO\"", "drop-caches\""));
    let (code, text) = said(&wrong, "256M", &[]);
    assert_eq!(code, Some(2));
    assert!(text.contains("which caches? 1 the page cache, 2 slab, 3 both"), "{text}");
    let right = job(temporary.path(), &READ_TWICE.replace("DO\"", "sleep\"\nus = 1"));
    let (code, text) = said(&right, "256M", &["--set", "vm.drop_caches=3"]);
    assert_eq!(code, Some(2));
    assert!(
        text.contains(
            "cannot be set for a run; a phase of a job drops caches: do = \"drop-caches\""
        ),
        "{text}"
    );
}

#[test]
fn readahead_is_the_disks() {
    let temporary = tempfile::tempdir().unwrap();
    let machine = temporary.path().join("machine.toml");
    fs::write(&machine, MACHINE).unwrap();
    let read = READ_TWICE.replace("DO\"", "sleep\"\nus = 1");
    let job = job(temporary.path(), &read);
    let rate = |more: &[&str]| {
        let machine = ["run", &job, "--machine", machine.to_str().unwrap()];
        figure(&stdout(&[&machine, more].concat()), "Ops reader.cold rate")
    };
    let usual = rate(&[]);
    assert_eq!(rate(&["--set", "machine.disk.data.read_ahead_kb=128"]).to_bits(), usual.to_bits());
    assert!(rate(&["--set", "machine.disk.data.read-ahead-kb=0"]) < usual / 4.0);
    assert!(rate(&["--set", "machine.disk.data.read_ahead_kb=8192"]) > 1.2 * usual);
}

/// Nobody is chosen where the kernel panics: programs stand still.
#[test]
fn who_stops_with_the_kernel_was_not_killed() {
    let dir = tempfile::tempdir().unwrap();
    let leaker =
        FORK.split("[[task.phase]]\ndo = \"fork\"").next().unwrap().replace("ADVICE\n", "");
    let (status, text) = said(
        &job(dir.path(), &leaker),
        "128M",
        &["--set", "vm.overcommit_memory=1", "--set", "vm.panic_on_oom=1"],
    );
    assert_eq!(status, Some(0), "{text}");
    assert!(
        text.contains("server: 1 of 1 gave up: the kernel panicked for want of memory"),
        "{text}"
    );
    assert!(!text.contains("was killed"), "{text}");
}

/// Forks without end fail as they do in Linux: half of kernel.threads-max, tasks whose stacks take an eighth of memory.
#[test]
fn a_user_may_have_so_many_tasks() {
    let dir = tempfile::tempdir().unwrap();
    let bomb = r#"
title = "forks without end"
seconds = 1
[[task]]
name = "bomb"
rounds = 0
[[task.phase]]
do = "fork"
of = "child"
[[task]]
name = "child"
forked = true
[[task.phase]]
do = "sleep"
us = 900000
"#;
    let (_, text) = said(&job(dir.path(), bomb), "64M", &[]);
    assert!(
        text.contains(
            "cannot fork child: a user of a machine with 64 MiB (RLIMIT_NPROC) may have 2"
        ),
        "{text}"
    );
}
