//! `diagnose`: kernel logs. The log is made up: an atomic page, refused in both zones.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use super::{highwater, json, program, root, stdout};

const LOG: &str = "crates/highwater/tests/cli/atomic.log";

fn complaint(args: &[&str]) -> String {
    let output = highwater(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn the_first_line_is_the_answer() {
    let text = stdout(&["diagnose", LOG]);
    let first: Vec<&str> = text.lines().take(2).collect();
    assert_eq!(
        first,
        [
            "node 0 DMA32 has 9200 kB free, 76 pages (304 kB) too few (mark 1500 kB of min 4000 kB,",
            "lowmem_reserve 8000 kB), and the request may not wait for reclaim."
        ]
    );
    assert!(
        text.lines().count() <= 40 && text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    for words in ["Trials on these numbers", "vm.min_free_kbytes = ", "What holds the memory"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn json_has_the_rows_of_the_test() {
    let answer = json(&["diagnose", LOG, "--format", "json"]);
    let report = &answer["reports"][0];
    assert_eq!(report["kind"], "page-allocation-failure");
    assert_eq!(report["cause"], "at-mark-nowait");
    assert_eq!((&report["order"], &report["page_size"]), (&0.into(), &4096.into()));
    assert_eq!(report["zones"][1]["passes_watermark"], false);
    assert_eq!(report["zones"][1]["spare_pages"], -250);
    assert!(report["constraint"].is_null(), "not in the text");
}

/// The same bytes from a file, from standard input, and with carriage returns and a prefix.
#[test]
fn any_door_gives_the_same_answer() {
    let log = fs::read_to_string(root().join(LOG)).unwrap();
    let answer = |text: &str| {
        let text = piped(&["diagnose", "-", "--format", "json"], text);
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let report = &document["reports"][0];
        (report["cause"].clone(), report["zones"].clone(), report["explanation"].clone())
    };
    let plain = answer(&log);
    assert_eq!(plain.0, "at-mark-nowait");
    assert_eq!(answer(&log.replace('\n', "\r\n")), plain);
    let quoted: String = log.lines().map(|line| format!("> {line}\n")).collect();
    assert_eq!(answer(&quoted), plain);
    let journal: String = log
        .lines()
        .map(|line| format!("Jan 02 03:04:05 host kernel: {}\n", line.trim_start()))
        .collect();
    assert_eq!(answer(&journal), plain);
}

#[test]
fn a_page_and_a_ticket() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("why.html");
    let said = stdout(&["diagnose", LOG, "-o", page.to_str().unwrap()]);
    assert!(said.contains("open it in a browser"), "{said}");
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("Free memory by size of block") && html.contains("<svg"));
    assert!(stdout(&["diagnose", LOG, "--format", "markdown"]).starts_with("**node 0 DMA32 has"));
}

/// The machine of the report boots with its marks: 4000 and 8000 kB of min, within a page.
#[test]
fn the_machine_boots_with_the_marks_of_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("log.toml");
    let machine = file.to_str().unwrap();
    stdout(&["diagnose", LOG, "--machine-out", machine]);
    let zones = stdout(&["zoneinfo", "--machine", machine, "--policy", "5.4"]);
    let mins: Vec<u64> = zones
        .lines()
        .filter_map(|line| line.trim().strip_prefix("min "))
        .map(|pages| pages.trim().parse().unwrap())
        .filter(|pages| *pages > 0)
        .collect();
    assert_eq!(mins, [1000, 2000], "{zones}");
}

#[test]
fn what_is_no_log_is_said_in_one_line() {
    let wrong = complaint(&["diagnose", "Cargo.toml"]);
    assert!(
        wrong.starts_with("error: Cargo.toml: no report of failed or killed memory in "),
        "{wrong}"
    );
    assert_eq!(wrong.lines().count(), 1);
    assert!(complaint(&["diagnose", "no-such-file"]).contains("no-such-file: "));
    let wrong = complaint(&["diagnose", LOG, "--report", "2"]);
    assert_eq!(wrong, "error: --report 2: crates/highwater/tests/cli/atomic.log has 1 report\n");
}

const BUDDY: &str = "Node 0, zone   Normal  60000   5000    100      0      0      0      0      0      0      2      0\n";
const ZONES: &str = "Node 0, zone Normal\n  pages free     71424\n        min      1000\n        low      2000\n        \
                     high     3000\n        spanned  262144\n        present  262144\n        managed  262144\n        \
                     protection: (0, 0, 0, 0, 0)\n  start_pfn:           1\n";

fn piped(args: &[&str], text: &str) -> String {
    let mut child = Command::new(program())
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// `ssh host 'cat /proc/buddyinfo /proc/zoneinfo' | highwater diagnose -`.
#[test]
fn texts_of_proc_in_one_answer_from_a_pipe() {
    let both = piped(&["diagnose", "-"], &format!("{BUDDY}{ZONES}"));
    assert!(
        both.starts_with("Fragmented: 279 MiB is free, but only 2 huge pages are free now;"),
        "{both}"
    );
    assert!(both.contains("above mark"));
    assert!(
        both.lines().count() <= 40 && both.lines().all(|line| line.chars().count() <= 100),
        "{both}"
    );
    let order = piped(&["diagnose", "-", "--order", "4"], &format!("{ZONES}{BUDDY}"));
    assert!(
        order.starts_with(
            "Yes: a request of order 4 (64 kB, GFP_KERNEL, unmovable) would be served: 64 blocks"
        ),
        "{order}"
    );
    assert!(complaint(&["diagnose", LOG, "--order", "4"]).contains("--order: only for zoneinfo"));
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("rest.html");
    piped(&["diagnose", "-", "-o", page.to_str().unwrap()], &format!("{BUDDY}{ZONES}"));
    assert!(fs::read_to_string(&page).unwrap().contains("<svg"), "bars");
}

#[test]
fn a_text_without_an_answer_is_said_to_be_so() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |text: &[u8]| {
        let file = dir.path().join("f");
        fs::write(&file, text).unwrap();
        let wrong = complaint(&["diagnose", file.to_str().unwrap()]);
        assert_eq!(wrong.lines().count(), 1, "{wrong}");
        wrong.trim_end().rsplit_once("/f: ").unwrap().1.to_owned()
    };
    assert_eq!(refused(b""), "the text is empty");
    assert_eq!(refused(b"\x7fELF\0\0\0\0\0\0\0"), "binary data, not a text");
    assert!(refused(b"\x17\x08\x44tracing\0").contains("`trace-cmd report`"));
    assert!(refused(b"PERFILE2\0\0\0\0").contains("`perf script`"));
    assert_eq!(
        refused(b"[    0.000000] Linux version 6.1.90\n"),
        "no memory failure in this kernel log (1 line)"
    );
    let source = "printk(\"%s: page allocation failure: order:%d, mode:%#x\\n\",\n\tname, order, mode);\n\
                  pr_warn(\"%s invoked oom-killer: gfp_mask=%#x, order=%d\\n\", name, mode, order);\n";
    assert!(refused(source.as_bytes()).starts_with("no "), "{}", refused(source.as_bytes()));
    let wrong = complaint(&["diagnose", LOG, LOG]);
    assert!(wrong.contains("this is a kernel log: give it alone"), "{wrong}");
}

/// A machine that the loader refuses is not written.
#[test]
fn no_machine_is_written_that_no_job_could_use() {
    let dir = tempfile::tempdir().unwrap();
    let (log, out) = (dir.path().join("huge.log"), dir.path().join("m.toml"));
    let text = fs::read_to_string(root().join(LOG)).unwrap();
    let huge = text.replace("present:", "present:9000").replace("managed:", "managed:9000");
    fs::write(&log, huge).unwrap();
    let wrong =
        complaint(&["diagnose", log.to_str().unwrap(), "--machine-out", out.to_str().unwrap()]);
    assert!(
        wrong.contains("--machine-out: ") && wrong.contains("the model has no such machine"),
        "{wrong}"
    );
    assert!(!out.exists());
    fs::write(&log, format!("{text}{text}")).unwrap();
    let output =
        highwater(&["diagnose", log.to_str().unwrap(), "--machine-out", out.to_str().unwrap()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the machine of report 1 of 2 (--report)"), "{said}");
}

/// `cat memory.pressure`: one reading is judged, and only texts over time have a part.
#[test]
fn texts_over_time_have_a_part() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("memory.pressure");
    let share = "avg10=78.20 avg60=0.00 avg300=0.00 total=9";
    fs::write(&file, format!("some {share}\nfull {share}\n")).unwrap();
    let file = file.to_str().unwrap();
    assert!(stdout(&["diagnose", file]).starts_with("Memory was short in the last 10 s: "));
    let error = complaint(&["diagnose", file, "--from", "03:00"]);
    assert_eq!(error, format!("error: {file}: --from, --to: the text has no times\n"));
    let error = complaint(&["diagnose", LOG, "--to", "5"]);
    assert_eq!(error, "error: --to: only for texts over time: traces, vmstat, pressure\n");
    let text = stdout(&["diagnose", "docs/src/logs/stalls.txt", "--from", "03:00"]);
    assert!(
        text.starts_with("backup-5120 lost most time: at least 8.30 s in direct reclaim"),
        "{text}"
    );
    assert!(complaint(&["diagnose", file, "--from", "yesterday"]).contains("must be seconds of"));
}
