//! Embedded jobs show the effects that they describe.

use super::*;

/// An embedded job on a small machine for some seconds, with one part of its text replaced.
#[track_caller]
fn shown(name: &str, seconds: f64, (from, to): (&str, &str)) -> Document {
    let text = highwater_plan::experiment::job_text(name).unwrap();
    let (text, _) = text.split_once("[quick]").unwrap();
    assert!(text.contains(from), "{from}");
    let text = text.replacen(from, to, 1);
    let is_seconds = |line: &&str| line.starts_with("seconds = ");
    let line = text.lines().find(is_seconds).unwrap().to_owned();
    ran(&text.replacen(&line, &format!("seconds = {seconds:?}"), 1))
}

const AS_IT_IS: (&str, &str) = ("", "");

#[test]
fn a_slow_stick_holds_up_who_writes_to_it() {
    // 64 MiB to the stick, on a machine with as much.
    let copy = |other: (&str, &str)| shown("copy-to-stick", 8.0, other);
    let stick = copy(("times = 2048 ", "times = 256 "));
    let longest = value(&stick, "copy.block max");
    assert!(longest > 20_000.0, "the copy is throttled: {longest}");
    assert!(value(&stick, "editor.save p50") < 30_000.0, "{}", value(&stick, "editor.save p50"));
    // At 12 MB/s; most of the time is throttling or sync.
    let sync = value(&stick, "copy.sync max");
    assert!(sync > 100_000.0, "{sync}");
}

#[test]
fn who_drops_behind_leaves_others_their_pages() {
    let gives = |behind: (&str, &str)| {
        let document = shown("drop-behind", 4.0, behind);
        value(&document, "reader.get refaults-file")
    };
    let (dropped, kept) = (gives(AS_IT_IS), gives(("\"dontneed\"", "\"normal\"")));
    assert!(dropped * 10.0 <= kept && kept > 0.0, "{dropped} {kept}");
}

#[test]
fn a_web_request_is_more_than_its_parts() {
    let document = shown("web-request", 1.0, AS_IT_IS);
    let p50 = |op: &str| value(&document, &format!("web.{op} p50"));
    assert!(p50("request") > 100.0 + p50("log"), "{}", p50("request"));
    assert!(value(&document, "web.request max") >= value(&document, "web.data max"));
    assert!(value(&document, "web.request rate") > 1_000.0);
    assert!(document.runs[0].counters.get("nr_dirtied") > 0);
}

#[test]
fn receive_buffers_are_had_as_long_as_kswapd_keeps_up() {
    let document = shown("net-receive", 0.5, AS_IT_IS);
    assert!(value(&document, "nic.receive rate") > 2_500.0);
    let failed = value(&document, "nic.receive failed");
    // More blocks than can be available at once: packets are dropped.
    let more = shown("net-receive", 0.5, ("batch = 16 ", "batch = 600 "));
    let more = value(&more, "nic.receive failed");
    assert!(more > 10.0 * failed.max(10.0), "{failed} {more}");
}

#[test]
fn a_shipper_reads_a_log_from_memory() {
    let document = shown("log-shipper", 2.0, AS_IT_IS);
    assert_eq!(document.runs[0].counters.get("pgpgin"), 0);
    assert!(value(&document, "shipper.read rate") > 10.0);
    assert!(value(&document, "logrotate.rotate max") > 10.0);
}

#[test]
fn files_that_do_not_live_long_are_not_all_written() {
    let document = shown("scratch-files", 2.0, ("times = 64", "times = 8"));
    let counters = &document.runs[0].counters;
    let (dirtied, written) = (counters.get("nr_dirtied"), counters.get("nr_written"));
    assert!(written * 10 < dirtied * 9, "{written} {dirtied}");
    assert!(value(&document, "transcoder.delete max") > 0.0);
}

#[test]
fn a_cache_evicts_a_segment_and_goes_on() {
    let document = shown("object-cache", 1.0, ("us = 3000000", "us = 300000"));
    assert!(value(&document, "evictor.evict max") > 0.0);
    assert!(value(&document, "server.get rate") > 700.0);
}
