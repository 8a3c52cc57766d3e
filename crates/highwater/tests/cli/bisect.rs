//! `bisect`, and the answer of `compare --ablate`.

use serde_json::Value;

use super::{SMALL, highwater, json, stdout};

/// A service whose heap and a stream of reads do not fit memory together.
pub(super) const STREAM: &str = "crates/highwater/tests/cli/bisect/stream.toml";

fn bisect(metric: &str, more: &[&str]) -> Value {
    let args = ["bisect", "5.4", "5.10", STREAM, "--machine", SMALL, "--seeds", "2"];
    json(&[&args[..], &["--metric", metric, "--format", "json"], more].concat())
}

/// Anonymous pages are swapped in more often if they begin on the inactive list, as from 5.9 on.
#[test]
fn switches_that_explain_a_change_are_found() {
    let report = bisect("pswpin", &[]);
    assert_eq!(report["schema"], "highwater.bisect/1");
    let answer = report["answer"].as_array().unwrap();
    assert_eq!(answer, &["reclaim.anon-new"]);
    let sentence = report["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("`pswpin` goes from 814 (5.4) to 1,120 (5.10): "), "{sentence}");
    assert!(sentence.contains(": it needs `reclaim.anon-new` alone"), "{sentence}");
    assert!(sentence.contains("came after 5.8"), "{sentence}");
    // Both ends: every switch alone, and left out.
    let switches = report["switches"].as_array().unwrap();
    let trials = report["trials"].as_array().unwrap();
    assert!(switches.len() > 5 && trials.len() >= 2 + 2 * switches.len());
    let named = |name: &str| trials.iter().find(|trial| trial["name"] == name).unwrap();
    let part = |name: &str| named(name)["part"].as_f64().unwrap();
    assert_eq!((part("5.4"), part("5.10")), (0.0, 1.0));
    assert!(part("-reclaim.anon-new") < 0.95, "{}", part("-reclaim.anon-new"));
    // The answer is enough, and the ends are those of a comparison.
    let with: Vec<&str> = answer.iter().map(|path| path.as_str().unwrap()).collect();
    let is_answer = |trial: &&Value| {
        let has = trial["with"].as_array().unwrap();
        has.len() == with.len() && with.iter().all(|path| has.contains(&(*path).into()))
    };
    let enough = trials.iter().find(is_answer).unwrap()["part"].as_f64().unwrap();
    assert!(enough >= 0.8, "{enough}");
    let args = ["compare", STREAM, "--machine", SMALL, "--iterations", "2", "--format", "json"];
    let compared = json(&[&args[..], &["--policy", "5.4", "--policy", "5.10"]].concat());
    let counters =
        |seed: usize| compared["runs"][1]["per_seed"][seed]["counters"]["pswpin"].as_f64();
    let values = named("5.10")["values"].as_array().unwrap();
    assert_eq!((values[0].as_f64(), values[1].as_f64()), (counters(0), counters(1)));
}

#[test]
fn the_sentence_comes_first_and_what_to_do_next_last() {
    let args = ["bisect", "5.17", "5.18", STREAM, "--machine", SMALL, "--seeds", "2"];
    let output = highwater(&[&args[..], &["--metric", "oom_kill"]].concat());
    // Nothing that differs: that is said, with status 1.
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("`oom_kill` goes from 0 (5.17) to 0 (5.18): it does not change.\n"));
    assert!(text.lines().count() <= 14 && text.contains("More seeds"), "{text}");
}

#[test]
fn what_bisect_cannot_do_is_told() {
    let complaint = |args: &[&str]| {
        let output = highwater(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let on_stream =
        |a, b, metric| complaint(&["bisect", a, b, STREAM, "--machine", SMALL, "--metric", metric]);
    let unknown = on_stream("5.4", "5.10", "db.gett.p99");
    assert!(unknown.contains("--metric: unknown operation \"db.gett\"; did you mean db.get?"));
    let counter = on_stream("5.4", "5.10", "pgscan_derict");
    assert!(counter.contains("is no figure; did you mean pgscan_direct"), "{counter}");
    let refaults = on_stream("5.4", "5.10", "db.get.refaults-anon");
    let uncounted = "--metric: db.get.refaults-anon is not counted in 5.4 (since 5.9); name \
                     another figure, or a policy whose kernel counts it";
    assert!(refaults.contains(uncounted), "{refaults}");
    let same = on_stream("5.4", "5.4", "pswpout");
    assert!(same.contains("5.4: A and B are the same policy"), "{same}");
    let machines = complaint(&["bisect", "5.4", "5.10", "002", "--metric", "time.system"]);
    assert!(machines.contains("bisect is of one machine; --machine says which"), "{machines}");
}

/// Every policy between the two has the sysctl, and one end has not: switches would be blamed for it.
#[test]
fn a_sysctl_that_acts_under_one_end_only_is_refused() {
    let complaint = |args: &[&str]| {
        let output = highwater(&[args, &["--machine", SMALL]].concat());
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(2), &b""[..]), "{args:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        said.lines().last().unwrap().to_owned()
    };
    let rest =
        "no switch explains what it does; leave it out, or compare kernels that both have it";
    let scale = ["--set", "vm.watermark_scale_factor=1000"];
    let args = ["bisect", "4.3", "4.6", STREAM, "--metric", "pgscan_kswapd"];
    let acts = format!("vm.watermark_scale_factor acts under 4.6 and not under 4.3: {rest}");
    assert_eq!(complaint(&[&args[..], &scale].concat()), format!("error: {acts}"));
    let args = ["compare", STREAM, "--ablate", "--policy", "4.3", "--policy", "4.6"];
    assert_eq!(complaint(&[&args[..], &scale].concat()), format!("error: --ablate: {acts}"));
    // One that went.
    let args = ["compare", STREAM, "--ablate", "--policy", "5.10", "--policy", "5.16"];
    let fraction = ["--set", "vm.percpu_pagelist_fraction=8"];
    let went = format!("vm.percpu_pagelist_fraction acts under 5.10 and not under 5.16: {rest}");
    assert_eq!(complaint(&[&args[..], &fraction].concat()), format!("error: --ablate: {went}"));
}

/// The answer stands before the tables, and is short.
#[test]
fn ablate_begins_with_its_answer() {
    let args = ["compare", STREAM, "--machine", SMALL, "--iterations", "1", "--ablate"];
    let more = ["--policy", "5.4", "--policy", "5.10", "--set", "job.seconds=1"];
    let text = stdout(&[&args[..], &more].concat());
    let before = text.split("Verdict").next().unwrap();
    assert!(before.lines().count() <= 24, "{before}");
    let first = before.lines().next().unwrap();
    assert!(first.starts_with('`') && first.contains(" goes from ") && first.ends_with('.'));
    assert!(before.contains("switch by switch") && before.contains("reclaim.anon-new"), "{before}");
}
