//! `trace`: a run as Perfetto's protobuf or ftrace's text.

use std::fs;

use super::{SMALL, highwater, stdout};

const STEPS: [&str; 4] = ["--set", "stutterp.ladder=[4,5]", "--set", "stutterp.seconds=0.2"];

fn trace(of: &[&str], file: &str, more: &[&str]) -> String {
    let to = ["-o", file];
    stdout(&[&["trace"], of, &to, more].concat())
}

/// Lines of ftrace's text with this tracepoint.
fn lines(text: &str, tracepoint: &str) -> usize {
    text.lines().filter(|line| line.contains(&format!(": {tracepoint}: "))).count()
}

#[test]
fn results_are_traced_where_they_were_slowest() {
    let temporary = tempfile::tempdir().unwrap();
    let path = |name: &str| temporary.path().join(name).to_str().unwrap().to_owned();
    let (dir, file) = (path("run"), path("run.pftrace"));
    let of = ["compare", "001", "--quick", "--machine", SMALL, "--out", &dir];
    stdout(&[&of[..], &STEPS].concat());
    let document = highwater_results::store::read_document(&dir).unwrap();
    let (run, slowest) = document.slowest().unwrap();
    let said = trace(&[&dir], &file, &[]);
    let first = said.lines().next().unwrap();
    let what = format!(
        "; {} on small, seed {}, step {}, 0.000000 s to ",
        run.label, slowest.seed, slowest.operation
    );
    assert!(first.contains(&what), "{said}");
    let ms = format!("{}, {:.3} ms from", slowest.operation, slowest.value);
    assert!(said.contains(&ms), "{ms}: {said}");
    let whole = fs::read(&file).unwrap();
    // The same command gives the same bytes; around the slowest operation there is less.
    trace(&[&dir], &file, &[]);
    assert_eq!(fs::read(&file).unwrap(), whole);
    let around = trace(&[&dir], &file, &["--around-worst", "1", "--margin", "100us"]);
    assert!(around.contains(&ms) && fs::read(&file).unwrap().len() < whole.len(), "{around}");
    // Another run of the same results.
    let other = document.runs.iter().find(|other| other.label != run.label).unwrap();
    let more = ["--policy", &other.label, "--machine", "small", "--step", "mmap-4", "--seed", "7"];
    let said = trace(&[&dir], &file, &more);
    assert!(said.contains(&format!("; {} on small, seed 7, step mmap-4,", other.label)), "{said}");
    for (more, reason) in [
        (["--policy", "6.1"], "has no such policy"),
        (["--machine", "other"], "has no such machine"),
        (["--step", "mmap-9"], "no such step; there are mmap-4, mmap-5"),
        (["--quick", "--seed=1"], "not with a directory"),
    ] {
        let output = highwater(&[&["trace", &dir, "-o", &file], &more[..]].concat());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && errors.contains(reason), "{errors}");
    }
}

#[test]
fn a_text_is_ftraces_and_is_replayed() {
    let temporary = tempfile::tempdir().unwrap();
    let path = |name: &str| temporary.path().join(name).to_str().unwrap().to_owned();
    let file = path("netperf.txt");
    let of = ["002", "--quick", "--format", "ftrace", "--set", "netperf-tcp.ms-per-size=2"];
    let said = trace(&of, &file, &["--machine", "netperf-1-socket", "--policy", "5.18"]);
    for name in ["zoneinfo", "pagetypeinfo", "buddyinfo"] {
        assert!(said.contains(&path(&format!("netperf.{name}"))), "{said}");
    }
    let text = fs::read_to_string(&file).unwrap();
    let nr = |tracepoint| lines(&text, tracepoint);
    assert!(nr("sched_switch") > 10 && nr("mm_page_alloc") > 1000);
    let replayed = stdout(&["replay", &file, "--policy", "5.18", "--format", "csv"]);
    for kind in ["mm_page_alloc", "mm_page_free", "mm_page_alloc_zone_locked", "mm_page_pcpu_drain"]
    {
        let of = |column: &str| {
            let line = replayed.lines().find(|line| line.contains(&format!(",{kind},{column},")));
            let value =
                line.unwrap_or_else(|| panic!("{kind} {column}: {replayed}")).split(',').nth(3);
            value.unwrap().parse::<f64>().unwrap() as usize
        };
        assert_eq!((of("trace"), of("5.18")), (nr(kind), nr(kind)), "{kind}");
    }
}

#[test]
fn a_part_of_a_run_and_some_of_its_tracepoints() {
    let temporary = tempfile::tempdir().unwrap();
    let path = |name: &str| temporary.path().join(name).to_str().unwrap().to_owned();
    let file = path("part.txt");
    let of = ["001", "--quick", "--machine", SMALL, "--format", "ftrace"];
    let of = [&of[..], &STEPS].concat();
    let step = ["--step", "mmap-5", "--from", "1.5s", "--to", "1550ms"];
    trace(&of, &file, &[&step[..], &["--events", "vmscan"]].concat());
    let text = fs::read_to_string(&file).unwrap();
    let times = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let time =
            line.split_whitespace().find_map(|word| word.strip_suffix(':')?.parse::<f64>().ok());
        time.unwrap_or_else(|| panic!("{line}"))
    });
    assert!(times.clone().count() > 100 && times.clone().all(|s| (1.5..=1.55).contains(&s)));
    assert!(text.contains(": mm_vmscan_") && !text.contains(": mm_page_"));
    assert!(!fs::exists(path("part.zoneinfo")).unwrap(), "nothing to replay");
    let none = trace(&of, &file, &[&step[..], &["--events", "none"]].concat());
    assert!(none.contains("  0 events of 0 tracepoints"), "{none}");
}

#[test]
fn a_policy_of_ones_own_is_traced() {
    let temporary = tempfile::tempdir().unwrap();
    let path = |name: &str| temporary.path().join(name).to_str().unwrap().to_owned();
    let (policy, file) = (path("mine.toml"), path("mine.pftrace"));
    let start = stdout(&["show", "policy", "6.1", "--toml"]);
    fs::write(&policy, start.replacen("name = \"6.1\"", "name = \"mine\"", 1)).unwrap();
    let of = [&["001", "--quick", "--machine", SMALL][..], &STEPS].concat();
    let said = trace(&of, &file, &["--policy", &policy, "--step", "mmap-4"]);
    assert!(said.contains("; mine on small, seed 1"), "{said}");
    // By the name of a policy of the study, and of one beyond it.
    let said = trace(&of, &file, &["--policy", "5.16-events", "--step", "mmap-4"]);
    assert!(said.contains("; 5.16-events on small"), "{said}");
}

#[test]
fn what_cannot_be_traced_is_one_line() {
    let temporary = tempfile::tempdir().unwrap();
    let file = temporary.path().join("x").to_str().unwrap().to_owned();
    for (args, reason) in [
        (&["trace", "003"][..], "--output"),
        (
            &["trace", "003", "-o", &file, "--events", "sched"],
            "no such system; there are kmem, vmscan",
        ),
        (
            &["trace", "003", "-o", &file, "--from", "2s", "--to", "1s"],
            "--to: must be after --from",
        ),
        (&["trace", "003", "-o", &file, "--margin", "1s"], "--around-worst"),
        (&["trace", "003", "-o", &file, "--from", "soon"], "is no time such as 1.5s"),
        (&["trace", "nothing", "-o", &file], "nothing"),
        (&["trace", "003", "--quick", "-o", "/no/such/place"], "/no/such/place"),
        (&["trace", "003", "--quick", "-o", &file, "--from", "999s"], "nothing happens after that"),
    ] {
        let output = highwater(args);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let error = errors.lines().last().unwrap();
        assert!(output.status.code() == Some(2) && error.contains(reason), "{args:?}: {errors}");
    }
    assert!(!fs::exists(&file).unwrap());
}
