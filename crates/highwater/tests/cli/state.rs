//! `--state`: a machine starts with the free lists of a log, or of texts of `/proc`.

use std::fs;
use std::path::Path;

use super::{highwater, json, stdout};

/// A request of order 4 that found no block: DMA32 and Normal have none above order 3.
const LOG: &str = "docs/src/logs/costly-order-4.txt";
/// Its free lists, as the log has them.
const ROWS: [(&str, [u64; 11]); 3] = [
    ("DMA", [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 2]),
    ("DMA32", [9000, 4000, 700, 25, 0, 0, 0, 0, 0, 0, 0]),
    ("Normal", [5200, 1800, 240, 5, 0, 0, 0, 0, 0, 0, 0]),
];

/// A driver that asks for a block of order 4 and gives it back, ten times.
const JOB: &str = "name = \"driver\"\ntitle = \"t\"\niterations = 1\nseconds = 10\n\
                   [[task]]\nname = \"driver\"\n[[task.phase]]\ndo = \"alloc\"\ngfp = \"kernel\"\n\
                   order = 4\nus = 10\ntimes = 10\nop = \"open\"\n";

fn complaint(args: &[&str]) -> String {
    let output = highwater(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{text}");
    text.lines().last().unwrap().to_owned()
}

/// A directory with the machine and the state of the log, and their paths.
fn written() -> (tempfile::TempDir, String, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (machine, state) = (path("m.toml"), path("state"));
    stdout(&["diagnose", LOG, "--machine-out", &machine, "--state-out", &state]);
    (dir, machine, state)
}

/// Zone and free blocks of each line of buddyinfo.
fn rows(text: &str) -> Vec<(String, Vec<u64>)> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words[3].to_owned(), words[4..].iter().map(|nr| nr.parse().unwrap()).collect())
    };
    text.lines().map(row).collect()
}

#[test]
fn a_machine_starts_with_the_free_lists_of_the_log() {
    let (_dir, machine, state) = written();
    let known: Vec<_> = ROWS.map(|(zone, blocks)| (zone.to_owned(), blocks.to_vec())).into();
    let at = ["--machine", &machine, "--state", &state];
    let buddyinfo = stdout(&[&["buddyinfo"][..], &at].concat());
    assert_eq!(rows(&buddyinfo), known);
    let fresh = stdout(&["buddyinfo", "--machine", &machine]);
    assert_ne!(rows(&fresh), known, "boot has other lists");
    // Types, too: what the model prints is what the directory says.
    let types = stdout(&[&["pagetypeinfo"][..], &at].concat());
    let numbers = |text: &str| -> Vec<String> {
        let is_row = |line: &&str| line.contains("type ") && line.starts_with("Node");
        let is_list = |line: &&str| {
            ["Unmovable", "Movable", "Reclaimable"].iter().any(|t| line.contains(&format!(" {t} ")))
        };
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines().filter(is_row).filter(is_list).map(words).collect()
    };
    let of_state = fs::read_to_string(Path::new(&state).join("pagetypeinfo")).unwrap();
    assert_eq!(numbers(&types), numbers(&of_state));
    assert_eq!(numbers(&types).len(), 9);
    // The answer about the directory is that of a fragmented machine.
    assert!(stdout(&["diagnose", &state]).contains("order"));
}

/// The kernel of the log refused; the same machine after boot serves every request.
#[test]
fn a_request_fails_there_as_in_the_log() {
    let (dir, machine, state) = written();
    let job = dir.path().join("driver.toml");
    fs::write(&job, JOB).unwrap();
    let job = job.to_str().unwrap();
    let failed = |more: &[&str]| {
        let args =
            [&["compare", job, "--machine", &machine, "--format", "json"][..], more].concat();
        let document = json(&args);
        let samples = &document["runs"][0]["samples"];
        let of_failed = |series: &&serde_json::Value| {
            series["operation"].as_str().is_some_and(|name| name.contains("failed"))
        };
        let failed = samples
            .as_array()
            .unwrap()
            .iter()
            .find(of_failed)
            .map(|series| series["values"].as_array().unwrap()[0].as_f64().unwrap());
        (failed, document)
    };
    let (there, document) = failed(&["--state", &state]);
    assert_eq!(there, Some(10.0), "{document}");
    let note = document["runs"][0]["notes"].to_string();
    assert!(
        note.contains(&format!("starts from the state of {state}: 129 MiB free; SHA-256 ")),
        "{note}"
    );
    let definition = document["machines"][0]["definition"].as_str().unwrap();
    assert!(definition.contains("[[state]]"), "the results have the whole state");
    let (fresh, document) = failed(&[]);
    assert!(fresh.is_none_or(|nr| nr == 0.0), "{document}");
    assert!(!document["machines"][0]["definition"].as_str().unwrap().contains("[[state]]"));
    // A report names the state; another directory with these texts gives the same results.
    let out = dir.path().join("out");
    let out = out.to_str().unwrap();
    stdout(&["compare", job, "--machine", &machine, "--state", &state, "--out", out]);
    assert!(stdout(&["report", out]).contains("starts from the state of "));
}

#[test]
fn a_state_that_does_not_fit_is_one_error() {
    let (dir, machine, state) = written();
    let run = |machine: &str, state: &str| {
        complaint(&["run", "pagealloc", "--machine", machine, "--state", state])
    };
    let small = run("small-vm", &state);
    let wrong = format!(
        "error: {state}/buddyinfo:2: node 0 DMA32 had 752896 pages when the state was taken"
    );
    assert!(small.starts_with(&wrong), "{small}");
    let none = run(&machine, "no-such-directory");
    assert_eq!(none, "error: --state no-such-directory: there is no such directory");
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let empty = run(&machine, empty.to_str().unwrap());
    assert!(empty.ends_with("neither buddyinfo nor pagetypeinfo in this directory"), "{empty}");
    let edited = |name: &str, edit: &dyn Fn(&str) -> String| {
        let to = dir.path().join(name);
        fs::create_dir(&to).unwrap();
        let text = fs::read_to_string(Path::new(&state).join("buddyinfo")).unwrap();
        fs::write(to.join("buddyinfo"), edit(&text)).unwrap();
        let to = to.to_str().unwrap();
        run(&machine, to).replace(to, "DIR")
    };
    let missing =
        edited("missing", &|text| text.lines().take(2).map(|l| format!("{l}\n")).collect());
    assert_eq!(missing, "error: DIR/buddyinfo: no node 0 Normal, which machine m has");
    let node =
        edited("node", &|text| text.replace("Node 0, zone   Normal", "Node 1, zone   Normal"));
    assert_eq!(
        node,
        "error: DIR/buddyinfo:3: node 1 Normal is no zone of machine m, which has 1 node: node 0 DMA, node 0 DMA32, \
         node 0 Normal"
    );
    let large = edited("large", &|text| text.replace("  5200 ", "520000 "));
    assert_eq!(
        large,
        "error: DIR/buddyinfo:3: node 0 Normal has 524600 free pages, but machine m has 241920 pages there"
    );
    let dense = edited("dense", &|text| text.replace("  5200 ", "200000 "));
    assert!(dense.starts_with("error: DIR/buddyinfo:3: node 0 Normal: "), "{dense}");
    assert!(dense.ends_with("free pages have no place where their blocks do not merge"), "{dense}");
    let word = edited("word", &|text| text.replace("  1800 ", "  many "));
    assert!(word.starts_with("error: DIR/buddyinfo:3: "), "{word}");
    let native = complaint(&[
        "run",
        "pagealloc",
        "--host",
        "native",
        "--machine",
        &machine,
        "--state",
        &state,
    ]);
    assert!(native.ends_with(": changes nothing with --host native"), "{native}");
}

#[test]
fn a_state_is_replaced_only_by_force() {
    let (_dir, _, state) = written();
    let again = ["diagnose", LOG, "--state-out", &state];
    let refused = complaint(&again);
    assert!(refused.ends_with("in it; --force replaces it"), "{refused}");
    stdout(&[&again[..], &["--force"]].concat());
    let trace =
        complaint(&["diagnose", "crates/highwater/tests/cli/small.toml", "--state-out", "x"]);
    assert!(trace.contains("small.toml"), "{trace}");
}

/// Texts of `/proc` become a state as they are, and the state starts the machine that has them.
#[test]
fn texts_of_proc_are_a_state() {
    let dir = tempfile::tempdir().unwrap();
    let proc = dir.path().join("proc");
    fs::create_dir(&proc).unwrap();
    for name in ["buddyinfo", "pagetypeinfo", "zoneinfo"] {
        fs::write(proc.join(name), stdout(&[name, "--machine", "small-vm"])).unwrap();
    }
    let (proc, state) = (proc.to_str().unwrap(), dir.path().join("state"));
    let state = state.to_str().unwrap();
    stdout(&["diagnose", proc, "--state-out", state]);
    for name in ["buddyinfo", "pagetypeinfo"] {
        let there = stdout(&[name, "--machine", "small-vm", "--state", state]);
        assert_eq!(there, stdout(&[name, "--machine", "small-vm"]), "{name}");
    }
}
