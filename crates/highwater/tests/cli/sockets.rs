//! Connections of jobs: their buffers are charged to groups, servers read what clients send, and
//! mistakes are explained.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{SMALL, highwater, json, stdout};

/// 512 KiB that nobody reads: 126 pages of the sender, 17 of the receiver.
const UNREAD: &str = r#"
[[group]]
name = "proxy"
max = "64M"

[[task]]
name = "proxy"
group = "proxy"

[[task.phase]]
do = "connect"
of = "client"

[[task.phase]]
do = "send"
of = "client"
bytes = "512K"
op = "send"

[[task.phase]]
do = "sleep"
us = 500000
"#;

/// Two clients and a server with a copy for each.
const SERVED: &str = r#"
seconds = 20

[[group]]
name = "clients"

[[group]]
name = "server"

[[task]]
name = "client"
group = "clients"
count = 2

[[task.phase]]
do = "connect"
of = "http"

[[task.phase]]
do = "send"
of = "http"
bytes = "100K"
times = 100
op = "send"

[[task]]
name = "server"
group = "server"
count = 2
background = true

[[task.phase]]
do = "receive"
of = "http"
bytes = "10K"
forever = true
op = "receive"
"#;

fn file(dir: &Path, text: &str) -> String {
    let path = dir.join("sockets.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn figure(document: &Value, operation: &str) -> f64 {
    let samples = document["runs"][0]["samples"].as_array().unwrap();
    let sample = samples.iter().find(|sample| sample["operation"] == operation);
    let sample = sample.unwrap_or_else(|| panic!("{operation}: {samples:?}"));
    sample["values"][0].as_f64().unwrap()
}

fn run(job: &str) -> Value {
    json(&["run", job, "--machine", SMALL, "--format", "json"])
}

/// 143 pages, in batches of 64.
#[test]
fn what_nobody_reads_is_charged_to_its_group() {
    let dir = tempfile::tempdir().unwrap();
    let job = file(dir.path(), UNREAD);
    let files = dir.path().join("files");
    let more = ["--cgroupfs", files.to_str().unwrap()];
    stdout(&[&["run", &job, "--machine", SMALL][..], &more].concat());
    let document = run(&job);
    let peak = figure(&document, "proxy peak");
    assert!((143.0 / 256.0..=1.0).contains(&peak), "{peak} MiB");
    assert!(figure(&document, "proxy end") < 0.25, "a CPU's stock is left");
    // A send that its group's limit leaves no room for: the OOM killer takes the sender.
    let tight = file(dir.path(), &UNREAD.replace("64M", "256K"));
    let text = stdout(&["run", &tight, "--machine", SMALL]);
    assert!(text.contains("proxy: 1 of 1 was killed for its memory"), "{text}");
}

#[test]
fn a_server_reads_what_clients_send() {
    let dir = tempfile::tempdir().unwrap();
    let document = run(&file(dir.path(), SERVED));
    let of = |name: &str| figure(&document, name);
    // Receive buffers hold a window each, send buffers 1 MiB each; four CPUs keep 64 pages each.
    let (clients, server) = (of("clients peak"), of("server peak"));
    assert!(server <= 2.0 * 18.0 / 256.0 + 1.0, "{server} MiB");
    assert!(clients > 0.3 && clients <= 2.0 + 1.0, "{clients} MiB");
    assert!(of("clients end") <= 1.0 && of("server end") <= 1.0, "stocks of the CPUs");
    let text = stdout(&["run", &file(dir.path(), SERVED), "--machine", SMALL]);
    assert!(!text.contains("to the end of the job"), "{text}");
}

#[test]
fn a_send_that_does_not_wait_ends_at_a_full_buffer() {
    let dir = tempfile::tempdir().unwrap();
    let full = UNREAD.replace("\"512K\"", "\"32M\"\nno-wait = true");
    let peak = figure(&run(&file(dir.path(), &full)), "proxy peak");
    assert!((0.9..1.5).contains(&peak), "a 128th of memory: {peak}");
}

#[test]
fn mistakes_with_connections_are_explained() {
    let dir = tempfile::tempdir().unwrap();
    let fails = |text: &str, reason: &str| {
        let output = highwater(&["run", &file(dir.path(), text), "--machine", SMALL]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(reason), "{reason}: {said}");
    };
    fails(
        &UNREAD.replacen("of = \"client\"", "of = \"clinet\"", 1),
        "unknown connection \"client\"",
    );
    let closed = "do = \"close\"\nof = \"client\"\n\n[[task.phase]]\ndo = \"send\"";
    fails(
        &UNREAD.replace("do = \"send\"", closed),
        "proxy cannot send client: the task has not connected (ENOTCONN)",
    );
    fails(&UNREAD.replace("bytes = \"512K\"", "pattern = \"uniform\""), "does not have it");
}
