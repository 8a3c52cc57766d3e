//! Traces that are not what they should be: what is put right, what is said with its counts, what is refused.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;

use super::{highwater, json, root, stdout, trace};

const WORK: &str = "unix-stream-16384";

/// The lines of a captured trace's events.
fn captured() -> Vec<String> {
    let file = std::fs::File::open(root().join(trace(WORK))).expect("a reference trace");
    let mut text = String::new();
    MultiGzDecoder::new(file).read_to_string(&mut text).expect("it is gzip data");
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

fn cpu(line: &str) -> &str {
    let (_, rest) = line.split_once('[').expect("a CPU column");
    rest.split(']').next().expect("its end")
}

/// The buffer of each CPU, one after the other, as `cat per_cpu/cpu*/trace` gives them.
fn per_cpu(lines: &[String]) -> Vec<String> {
    let mut buffers: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for line in lines {
        buffers.entry(cpu(line)).or_default().push(line.clone());
    }
    buffers.into_values().flatten().collect()
}

fn write(dir: &Path, lines: &[String]) -> String {
    let path = dir.join("x.trace");
    std::fs::write(&path, lines.join("\n") + "\n").expect("a file can be written");
    path.to_str().expect("its name is text").to_owned()
}

/// The replay of these lines, on the captured machine's shape.
fn replay(lines: &[String]) -> Value {
    let dir = tempfile::tempdir().expect("a directory can be made");
    json(&["replay", &write(dir.path(), lines), "--machine", "small-vm", "--format", "json"])
}

/// The one line with which a trace of these lines is refused.
fn refusal(lines: &[String]) -> String {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = write(dir.path(), lines);
    let output = highwater(&["replay", &path, "--machine", "small-vm"]);
    let errors = String::from_utf8(output.stderr).expect("the complaint is text");
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(output.stdout.is_empty());
    assert_eq!(errors.lines().count(), 1, "{errors}");
    errors
}

fn warning<'r>(report: &'r Value, kind: &str) -> &'r Value {
    let warnings = report["warnings"].as_array().expect("warnings");
    let found = warnings.iter().find(|w| w["kind"] == kind);
    found.unwrap_or_else(|| panic!("no {kind} in {warnings:?}"))
}

fn refills(report: &Value) -> u64 {
    let tally = &report["policies"][0]["tally"];
    tally["events"]["mm_page_alloc_zone_locked"].as_u64().expect("refills")
}

#[test]
fn buffers_of_cpus_one_after_the_other_are_sorted_and_said() {
    let lines = captured();
    let whole = replay(&lines);
    assert_eq!(whole["warnings"], serde_json::json!([]));
    let merged = replay(&per_cpu(&lines));
    let nr_of_cpu_1 = lines.iter().filter(|line| cpu(line) == "001").count();
    let disorder = warning(&merged, "out-of-order");
    let nr_lines = disorder["lines"].as_u64().expect("lines");
    assert!(nr_lines > 10_000 && nr_lines <= nr_of_cpu_1 as u64, "{disorder}");
    assert_eq!(disorder["cpus"], 1);
    let text = format!("{nr_lines} lines of 1 CPU were not in order of time and were sorted");
    assert_eq!(disorder["text"], text);
    // What happened in the same microsecond on two CPUs may change places: little else does.
    let (whole, merged) = (refills(&whole), refills(&merged));
    assert!(whole > 16_000 && whole.abs_diff(merged) <= whole / 100, "{whole}, {merged}");
}

#[test]
fn warnings_are_in_every_format() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = write(dir.path(), &per_cpu(&captured()));
    let part = "lines of 1 CPU were not in order of time";
    let terminal = stdout(&["replay", &path]);
    assert!(terminal.contains("# warning: ") && terminal.contains(part), "{terminal}");
    assert!(stdout(&["replay", &path, "--format", "markdown"]).contains(part));
    let csv = highwater(&["replay", &path, "--format", "csv"]);
    assert!(csv.status.success() && !String::from_utf8_lossy(&csv.stdout).contains(part));
    let errors = String::from_utf8_lossy(&csv.stderr).into_owned();
    assert!(errors.starts_with("warning: ") && errors.contains(part), "{errors}");
}

#[test]
fn the_same_disorder_gives_the_same_bytes() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = write(dir.path(), &per_cpu(&captured()));
    let args = ["replay", &path, "--policy", "6.1", "--policy", "cached", "--format", "json"];
    assert_eq!(stdout(&args), stdout(&args));
}

#[test]
fn a_cpu_that_goes_back_in_time_is_refused() {
    let lines = captured();
    // Two pieces of one recording, the later one first.
    let (first, second) = lines.split_at(lines.len() / 2);
    let error = refusal(&[second, first].concat());
    let line = format!("x.trace:{}: timestamp: CPU ", second.len() + 1);
    assert!(error.contains(&line) && error.contains("goes back by "), "{error}");
    assert!(error.contains("two recordings, or pieces of one in the wrong order"), "{error}");
}

#[test]
fn lost_events_are_said_with_their_number() {
    let mut lines = captured();
    lines.insert(0, "# entries-in-buffer/entries-written: 66391/70000   #P:2".to_owned());
    lines.insert(1000, "CPU:0 [LOST 123 EVENTS]".to_owned());
    let text = warning(&replay(&lines), "lost-events")["text"].clone();
    assert_eq!(text, "the tracer lost 123 events or more, in 1 place");
    lines.insert(2000, "CPU:1 [LOST 7 EVENTS]".to_owned());
    let report = replay(&lines);
    let lost = warning(&report, "lost-events");
    assert_eq!((&lost["notices"], &lost["events"]), (&2.into(), &130.into()));
    assert_eq!(warning(&report, "overwritten-events")["events"], 3609);
    assert_eq!(report["warnings"].as_array().map(Vec::len), Some(2));
    let skipped = &report["trace_counts"]["skipped"];
    assert_eq!(
        (&skipped["lost_events"], &skipped["overwritten_events"]),
        (&130.into(), &3609.into())
    );
}

/// `n` events, the i-th at the i-th microsecond of a second.
fn events(second: u64, n: u64, text: impl Fn(u64) -> String) -> Vec<String> {
    (0..n).map(|i| format!("  t-1 [000] ..... {second}.{i:06}: {}", text(i))).collect()
}

fn free(pfn: u64) -> String {
    format!("mm_page_free: page=1 pfn={pfn:#x} order=0")
}

#[test]
fn gaps_are_counted_and_the_longest_is_named() {
    let mut lines = Vec::new();
    for (piece, second) in [5, 6, 9, 21].into_iter().enumerate() {
        lines.extend(events(second, 10, |i| free(0x4000 + piece as u64 * 16 + i)));
    }
    let report = replay(&lines);
    let gaps = warning(&report, "gaps");
    assert_eq!(gaps["gaps"], 2, "a second is none");
    assert_eq!(gaps["longest_ns"], 11_999_991_000u64);
    assert_eq!(gaps["longest_at_ns"], 9_000_009_000u64);
}

#[test]
fn frees_of_unknown_pages_are_a_share_that_is_said_or_refused() {
    // 1,000 pages in use are freed, and some of them again.
    let with = |nr_again: u64| {
        let mut lines = events(1, 1000, |i| free(0x4000 + i));
        lines.extend(events(2, nr_again, |i| free(0x4000 + i)));
        lines
    };
    assert_eq!(replay(&with(0))["warnings"], serde_json::json!([]));
    let report = replay(&with(333));
    let unknown = warning(&report, "unknown-frees");
    assert_eq!((&unknown["frees"], &unknown["of"]), (&333.into(), &1333.into()));
    assert_eq!(
        unknown["text"],
        "333 of 1333 frees (25.0 %) are of unknown pages: events are missing"
    );
    let error = refusal(&with(334));
    let part = "x.trace: 334 of 1334 frees (25.0 %) are of unknown pages: too many events";
    assert!(error.contains(part), "{error}");
    // A few are a few, whatever their share.
    let few = [events(1, 64, |i| free(0x4000 + i)), events(2, 64, |i| free(0x4000 + i))].concat();
    assert_eq!(warning(&replay(&few), "unknown-frees")["frees"], 64);
    let more = [events(1, 65, |i| free(0x4000 + i)), events(2, 65, |i| free(0x4000 + i))].concat();
    assert!(refusal(&more).contains("65 of 130 frees (50.0 %)"));
}

#[test]
fn what_is_whole_of_a_cut_gzip_is_replayed_if_asked_for() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let lines = captured();
    encoder.write_all((lines.join("\n") + "\n").as_bytes()).expect("it can be packed");
    let packed = encoder.finish().expect("it can be packed");
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = dir.path().join("cut.trace.gz");
    std::fs::write(&path, &packed[..packed.len() / 2]).expect("a file can be written");
    let path = path.to_str().expect("its name is text");

    let output = highwater(&["replay", path]);
    let error = String::from_utf8(output.stderr).expect("the complaint is text");
    assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{error}");
    let report = json(&["replay", path, "--partial", "--format", "json"]);
    let nr_events = report["trace_counts"]["events"].as_u64().expect("a number");
    assert!(nr_events > 20_000 && nr_events < lines.len() as u64, "{nr_events}");
    let line = nr_events + 1;
    for part in [
        format!("cut.trace.gz:{line}: bad gzip data: the file ends in the middle"),
        format!("the {nr_events} lines before it are whole, with {nr_events} events"),
        "`highwater replay --partial` replays those".to_owned(),
    ] {
        assert!(error.contains(&part), "{part}: {error}");
    }
    assert_eq!(warning(&report, "cut-off")["line"], line);
    // A trace that is whole is replayed as ever.
    let whole = trace(WORK);
    assert_eq!(stdout(&["replay", &whole, "--partial"]), stdout(&["replay", &whole]));
}

#[test]
fn check_says_what_is_wrong_with_a_trace_too() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = write(dir.path(), &per_cpu(&captured()));
    let output = highwater(&["check", &path]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("  # warning: ") && text.contains("were not in order of time"), "{text}");
}

/// What replaying bytes gives, on the captured machine's shape; all of `more` are options.
fn replay_bytes(name: &str, bytes: &[u8], more: &[&str]) -> Result<Value, String> {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).expect("a file can be written");
    let path = path.to_str().expect("its name is text");
    let args = ["replay", path, "--machine", "small-vm", "--format", "json"];
    let output = highwater(&[&args[..], more].concat());
    match output.status.success() {
        true => Ok(serde_json::from_slice(&output.stdout).expect("the output is JSON")),
        false => Err(String::from_utf8(output.stderr).expect("the complaint is text")),
    }
}

#[test]
fn a_text_that_was_cut_is_said() {
    let mut lines = vec!["# entries-in-buffer/entries-written: 90/90   #P:2".to_owned()];
    lines.extend(events(1, 60, |i| free(0x4000 + i)));
    let whole = lines.join("\n");
    let report = replay_bytes("x.trace", &whole.as_bytes()[..whole.len() - 7], &[]).unwrap();
    assert_eq!(warning(&report, "unended-line")["line"], 61);
    let missing = warning(&report, "missing-entries");
    assert_eq!((&missing["promised"], &missing["found"]), (&90.into(), &60.into()));
    let text = "the header says 90 entries, the file has 60: the rest is missing";
    assert_eq!(missing["text"], text);
    assert_eq!(report["trace_counts"]["events"], 59);
}

#[test]
fn a_trace_without_frees_is_said_or_refused() {
    let alloc = |pfn: u64| {
        format!(
            "mm_page_alloc: page=1 pfn={pfn:#x} order=0 migratetype=0 gfp_flags=GFP_KERNEL|__GFP_NOVEL"
        )
    };
    let report = replay(&events(1, 10, |i| alloc(0x4000 + i)));
    assert_eq!(warning(&report, "no-frees")["again"], 0);
    let unknown = warning(&report, "unknown-gfp-names");
    assert_eq!((&unknown["uses"], &unknown["names"][0]), (&10.into(), &"__GFP_NOVEL".into()));
    let text = "1 unknown request flag, 10 times: __GFP_NOVEL; replayed without";
    assert_eq!(unknown["text"], text);
    let error = refusal(&events(1, 100, |_| alloc(0x4000)));
    let part = "no mm_page_free events were recorded, but 99 pages were allocated again";
    assert!(error.contains(part) && !error.contains('%'), "{error}");
}

#[test]
fn bad_lines_are_passed_over_if_asked_for() {
    let mut lines = events(1, 20, |i| free(0x4000 + i));
    lines[7] = lines[7].replace("order=0", "order=-1");
    lines[9] = lines[9].replace("pfn=", "pfm=");
    let text = lines.join("\n") + "\n";
    let error = replay_bytes("x.trace", text.as_bytes(), &[]).unwrap_err();
    assert!(error.contains("x.trace:8: order: "), "{error}");
    assert!(error.contains("`highwater replay --partial` passes such lines over"), "{error}");
    let report = replay_bytes("x.trace", text.as_bytes(), &["--partial"]).unwrap();
    let bad = warning(&report, "bad-lines");
    assert_eq!(
        (&bad["lines"], &bad["first"], &bad["field"]),
        (&2.into(), &8.into(), &"order".into())
    );
    assert_eq!(report["trace_counts"]["events"], 18);
}

#[test]
fn damaged_gzip_data_are_not_blamed_on_the_text() {
    // Stored, not packed: one bit of the text is one bit of the file.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
    let text = events(1, 20, |i| free(0x4000 + i)).join("\n") + "\n";
    encoder.write_all(text.as_bytes()).expect("it can be packed");
    let mut packed = encoder.finish().expect("it can be packed");
    let at = packed.windows(4).position(|w| w == b"pfn=").expect("a frame");
    packed[at + 6] = b'z';
    for more in [&[][..], &["--partial"]] {
        let error = replay_bytes("x.trace.gz", &packed, more).unwrap_err();
        assert!(error.contains("bad gzip data: "), "{error}");
    }
    let error = replay_bytes("x.trace.gz", &packed, &[]).unwrap_err();
    assert!(error.contains("what was unpacked goes wrong at line 1, pfn"), "{error}");
}
