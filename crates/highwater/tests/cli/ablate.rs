//! `compare --ablate`.

use super::{SMALL, highwater, json, stdout};

#[test]
fn a_change_is_taken_apart() {
    let args =
        ["compare", "003", "--quick", "--iterations", "1", "--machine", SMALL, "--format", "json"];
    let pair = ["--policy", "5.17", "--policy", "5.18"];
    let document = json(&[&args[..], &pair, &["--ablate"]].concat());
    let labels: Vec<&str> = document["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["label"].as_str().unwrap())
        .collect();
    assert_eq!(labels.first(), Some(&"5.17"));
    assert_eq!(labels.last(), Some(&"5.18"));
    let points = ["pcp.high-order-free", "pcp.drain-order", "merge"];
    for point in points {
        assert!(labels.contains(&format!("+{point}").as_str()), "{labels:?}");
        assert!(labels.contains(&format!("-{point}").as_str()), "{labels:?}");
    }
    assert_eq!(labels.len(), 2 * points.len() + 2);
    // The runs of both ends are those of a comparison without it.
    let plain = json(&[&args[..], &pair].concat());
    let counters =
        |document: &serde_json::Value, at: usize| document["runs"][at]["counters"].clone();
    assert_eq!(counters(&document, 0), counters(&plain, 0));
    assert_eq!(counters(&document, labels.len() - 1), counters(&plain, 1));
}

#[test]
fn a_change_of_one_point_is_that_point() {
    let args = ["compare", "003", "--quick", "--iterations", "1", "--machine", SMALL];
    let output = highwater(&[&args[..], &["--ablate"]].concat());
    assert!(output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    let wanted = "--ablate: 6.1-mark-accessed and 6.1-set-referenced differ in ";
    assert!(said.contains(wanted) && said.contains(" only: that is the whole change"), "{said}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), stdout(&args));
    let same =
        highwater(&[&args[..], &["--ablate", "--policy", "none", "--policy", "4.3"]].concat());
    assert_eq!(same.status.code(), Some(2));
    let error = String::from_utf8(same.stderr).unwrap();
    assert_eq!(error, "error: --ablate: none and 4.3 are the same policy\n");
}

/// One seed gives values and no intervals: the switches are shown, and that nobody can tell chance from effect.
#[test]
fn one_seed_shows_the_switches_and_says_that_it_cannot_tell() {
    let pair = ["--policy", "5.4", "--policy", "5.10", "--ablate", "--set", "job.seconds=0.5"];
    let args = ["compare", super::bisect::STREAM, "--machine", SMALL];
    let text = stdout(&[&args[..], &pair, &["--iterations", "1"]].concat());
    let (answer, _) = text.split_once("\nVerdict: ").unwrap();
    let mut lines = answer.lines();
    let wanted = "`db.get.p99` goes from 2.21 ms (5.4) to 117 us (5.10) with one seed, which cannot separate \
                  chance from effect: --iterations 5 can.";
    assert_eq!(lines.next(), Some(wanted));
    assert!(
        answer.contains("\nreclaim.balance                 99 %       1 %   rotated        cost"),
        "{answer}"
    );
    assert!(answer.contains("\n# values of one seed, without intervals\n"), "{answer}");
    assert!(!answer.contains("it needs") && answer.lines().count() <= 24, "{answer}");
}
