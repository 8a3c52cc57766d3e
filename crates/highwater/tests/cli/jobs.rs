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
    assert!(compared.contains("Ops reader.get refaults-file"), "{compared}");
    assert!(!compared.contains("reader.get minor"), "nothing touches memory");
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

/// Counters go no way, what a kernel lacks is not counted, and everything that is asked about an operation is there.
#[test]
fn a_job_is_judged_by_what_has_a_direction_and_explained_by_operation() {
    let temporary = tempfile::tempdir().unwrap();
    let job = file(temporary.path(), READERS);
    let quick = ["--machine", SMALL, "--set", "job.seconds=2"];
    let compared =
        stdout(&[&["compare", &job, "--policy", "5.4", "--policy", "6.1"][..], &quick].concat());
    assert!(compared.contains("# not counted in 5.4 (since 5.9): refaults-anon\n"), "{compared}");
    assert!(!compared.contains("Ops reader.get refaults-anon"), "{compared}");
    for line in [
        "Ops reader.get hit-ratio",
        "latencies on small",
        "faults on small (pages, positive is more)",
    ] {
        assert!(compared.contains(line), "{line}: {compared}");
    }
    let verdict = compared.split("\n\n").next().unwrap_or_default();
    let faults = verdict.lines().filter(|line| line.starts_with("faults"));
    assert!(faults.clone().all(|line| !line.contains("worse") && !line.contains("better")));
    let explained = stdout(&[&["explain", &job, "--op", "reader.get"][..], &quick].concat());
    for line in ["99 to 99.9 %", "slowest 0.1 %", "waiting: a page's input, served by the device"] {
        assert!(explained.contains(line), "{line}: {explained}");
    }
    let unknown = complaint(&[&["explain", &job, "--op", "reader.put"][..], &quick].concat());
    assert!(unknown.contains("(there is reader.get)"), "{unknown}");
    let varied = stdout(
        &[&["compare", &job, "--policy", "6.1", "--vary", "vm.swappiness=10,60"][..], &quick]
            .concat(),
    );
    assert!(
        varied.contains("latency at each point") && varied.contains("reader.get p99.9"),
        "{varied}"
    );
}

#[test]
fn jobs_that_come_with_the_program_are_listed_and_shown() {
    let listed = stdout(&["list", "workloads"]);
    assert!(listed.contains("zipf-reader") && listed.contains("Readers of popular and unpopular"));
    let shown = stdout(&["show", "workload", "zipf-reader"]);
    assert!(shown.contains("pattern = \"zipf 0.99\""), "{shown}");
    let wrong = complaint(&["run", "zipf-raeder"]);
    assert!(wrong.contains("no workload \"zipf-raeder\""), "{wrong}");
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

/// Two that take all memory, and nowhere to swap it.
const LEAK: &str = r#"
title = "Leaks"
seconds = 20

[[task]]
name = "leaker"
count = 2

[[task.phase]]
do = "map"
of = "heap"
size = "200%"

[[task.phase]]
do = "touch"
of = "heap"
write = true
op = "page"
"#;

#[test]
fn a_kill_is_told_as_the_kernel_tells_it() {
    let temporary = tempfile::tempdir().unwrap();
    let job = file(temporary.path(), LEAK);
    let dir = temporary.path().join("out");
    let told = stdout(&["run", &job, "--machine", SMALL, "--out", dir.to_str().unwrap()]);
    assert!(told.contains("leaker: 1 of 2 was killed for its memory"), "{told}");
    assert!(told.contains("Out of memory: Killed process"), "{told}");
    let log = fs::read_to_string(dir.join("kernel.log")).unwrap();
    let line = |what: &str| {
        let line = log.lines().find(|line| line.contains(what));
        line.unwrap_or_else(|| panic!("{what}: {log}"))
    };
    /// The number behind a name: `free:12kB`.
    fn number(line: &str, name: &str) -> u64 {
        let rest =
            &line[line.find(name).unwrap_or_else(|| panic!("{name}: {line}")) + name.len()..];
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().unwrap()
    }
    assert!(line("invoked oom-killer: gfp_mask=").contains("order=0, oom_score_adj=0"));
    // The machine's pages are its node's kilobytes, and the zones' together.
    let machine = number(line("] active_anon:"), " inactive_anon:");
    assert_eq!(4 * machine, number(line("Node 0 active_anon:"), " inactive_anon:"));
    let zones = log.lines().filter(|line| line.contains(" present:"));
    let of_zones: u64 = zones.clone().map(|line| number(line, " inactive_anon:")).sum();
    // Counters of zones and of the node are told by CPUs at times of their own.
    assert!((4 * machine).abs_diff(of_zones) <= 2 * 125 * 4 * 2, "{machine} pages, {of_zones} kB");
    // What was free is what the blocks add up to, but for what other CPUs have not told yet.
    let blocks = log.lines().filter(|line| line.contains("*4096kB"));
    let of_blocks: u64 = blocks.map(|line| number(line, " = ")).sum();
    let free: u64 = zones.map(|line| number(line, " free:")).sum();
    assert!(of_blocks.abs_diff(free) <= 2 * 125 * 4 * 2, "{of_blocks} and {free}");
    // Who was killed has the line of the table: pages there, kilobytes here.
    let killed = line("Out of memory: Killed process");
    let id = number(killed, "Killed process ");
    let row = line(&format!("[{id:>7}] "));
    let cells: Vec<&str> =
        row.split_whitespace().skip_while(|cell| !cell.ends_with(&format!("{id}]"))).collect();
    let cell = |at: usize| cells[at].parse::<u64>().unwrap();
    let rss = number(killed, "anon-rss:") + number(killed, "file-rss:");
    assert_eq!((4 * cell(3), 4 * cell(4)), (number(killed, "total-vm:"), rss), "{row}");
    assert!(killed.contains(&format!("({})", cells[8])), "{killed}");
    // The other one is smaller, or came earlier.
    let rows = log.lines().filter(|line| line.ends_with("leaker/0") || line.ends_with("leaker/1"));
    assert_eq!(rows.count(), 2);
}

#[test]
fn pressure_is_told_as_linux_tells_it() {
    let temporary = tempfile::tempdir().unwrap();
    let job = file(temporary.path(), &READERS.replace("96M", "256M"));
    let dir = temporary.path().join("out");
    let out = dir.to_str().unwrap();
    let told = stdout(&["run", &job, "--machine", SMALL, "--out", out]);
    let share = |line: &str| -> f64 {
        let row = told.lines().find(|row| row.starts_with(&format!("Ops {line} ")));
        let row = row.unwrap_or_else(|| panic!("{line}: {told}"));
        row[4 + line.len()..].split_whitespace().next().unwrap().parse().unwrap()
    };
    // What does not fit into memory is waited for at the disk, and because it was reclaimed.
    assert!(share("io some") > share("memory some") && share("memory some") > 1.0, "{told}");
    assert!(share("io some") >= share("io full") && share("memory some") >= share("memory full"));
    let text = fs::read_to_string(dir.join("pressure.txt")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 10, "{text}");
    assert!(lines[0].starts_with("== 6.1 on small, seed "), "{text}");
    for (at, name) in [(1, "cpu"), (4, "io"), (7, "memory")] {
        assert_eq!(lines[at], format!("/proc/pressure/{name}"));
        for (line, kind) in lines[at + 1..].iter().zip(["some", "full"]) {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(words[0], kind);
            let keys = words[1..].iter().map(|word| word.split_once('=').unwrap());
            for ((key, value), wanted) in keys.zip(["avg10", "avg60", "avg300", "total"]) {
                assert_eq!(key, wanted);
                let value: f64 = value.parse().unwrap();
                assert!(value >= 0.0 && (key == "total" || value <= 100.0), "{line}");
            }
        }
    }
    // Over time too: what only grows, and memory of tasks.
    let over_time = stdout(&["report", out, "--over-time"]);
    assert!(over_time.contains("Time in which some tasks wait for a device, %"), "{over_time}");
    let csv = fs::read_to_string(dir.join("timeline.csv")).unwrap();
    for column in
        ["pressure/cpu/some", "pressure/memory/full", "task/reader/anon", "task/reader/swap"]
    {
        assert!(csv.lines().next().unwrap().split(',').any(|name| name == column), "{column}");
    }
    // An objective of pressure.
    let range = ["--slo", "memory.some<1", "--from", "96M", "--to", "1G", "--within", "50"];
    let fit = stdout(&[&["fit", &job, "--set", "job.seconds=1"][..], &range].concat());
    assert!(fit.contains("# 328M keeps it in every seed, 212M does not"), "{fit}");
}
