//! Check: every static file exactly, disagreement as exit status 1.

use super::{highwater, json, root, stdout};

#[test]
fn every_static_file_agrees_exactly() {
    let text = stdout(&["check", "reference/linux-6.1/static"]);
    let files = [
        ("1024-1", 17),
        ("1024-2", 23),
        ("1024-8", 59),
        ("128-2", 23),
        ("2048-2-numa2", 34),
        ("2048-2", 23),
        ("3072-2", 23),
        ("4096-2", 34),
        ("4096-4", 52),
        ("512-2", 23),
        ("6144-4-numa4", 86),
        ("8192-2", 34),
    ];
    let mut expected: Vec<String> = files
        .iter()
        .map(|(name, n)| {
            let file = format!("reference/linux-6.1/static/static-{name}.json");
            format!("{file}: static: {n} of {n} fields agree")
        })
        .collect();
    expected.push("12 of 12 files agree, 431 of 431 fields".to_owned());
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
}

/// A capture runs under the preset of its kernel, with the LRU that its `lru_gen.enabled` says.
#[test]
fn captures_run_under_the_preset_of_their_kernel_and_lru() {
    for (file, preset) in [
        ("linux-6.1/mglru/zap-2", Some("6.1-mglru")),
        ("linux-6.12/mglru/zap-2", None),
        ("linux-6.12/scenarios/zap-2", Some("6.12-two-lists")),
        ("linux-7.2/memcg/stock-stats", Some("7.2-two-lists")),
    ] {
        let file = format!("reference/{file}.json");
        let text = stdout(&["check", "--min-agreement", "50", &file]);
        let line = |text: &str| {
            text.lines().find_map(|l| l.strip_prefix("  # policy: ").map(str::to_owned))
        };
        assert_eq!(line(&text), preset.map(|name| format!("the preset {name}")), "{file}");
    }
}

#[test]
#[ignore = "simulates for seconds: a step of .ci/full"]
fn real_kernels_that_differ_in_one_rule() {
    let ab = "reference/linux-6.1/ab";
    let report = json(&["check", "--min-agreement", "98", ab, "--format", "json"]);
    assert_eq!(report["nr_files"], 5);
    assert_eq!(report["nr_not_checked"], 0);
    let files = report["files"].as_array().unwrap();
    let disagreeing = |kind: &str| -> usize {
        let of_kind = files.iter().filter(|file| file["kind"] == kind);
        let figures = of_kind.flat_map(|file| file["figures"].as_array().unwrap());
        figures.filter(|figure| figure["agrees"] == false).count()
    };
    assert_eq!(disagreeing("ab-trace"), 0);
    assert!(disagreeing("scenario") <= 2, "{}", disagreeing("scenario"));
    // The rule decides whether the mapped file survives the stream.
    let refaults = |name: &str| -> u64 {
        let file = files.iter().find(|f| f["file"].as_str().unwrap().contains(name)).unwrap();
        let figures = file["figures"].as_array().unwrap();
        let key = "remap workingset_refault_file";
        let figure = figures.iter().find(|figure| figure["field"] == key).unwrap();
        figure["model"].as_str().unwrap().split(' ').next().unwrap().parse().unwrap()
    };
    assert_eq!(refaults("zap_0.3_2_1.2-mark-accessed"), 0);
    assert!(refaults("zap_0.3_2_1.2-set-referenced") > 36_000);
}

#[test]
fn programs_that_a_real_kernel_ran() {
    let file = |name: &str| format!("reference/linux-6.1/scenarios/{name}.json");
    let files = ["cyclic-0.8", "zap-2", "randwrite-0.5"].map(file);
    let mut args = vec!["check", "--min-agreement", "97"];
    args.extend(files.iter().map(String::as_str));
    let text = stdout(&args);
    let last: Vec<&str> = text.lines().rev().take(3).collect();
    assert!(last[1].ends_with("of 225 counters agree"), "{text}");
    let number = |line: &str| line.split(' ').next().unwrap().parse::<u64>().unwrap();
    let (by_events, all) = (number(last[2]), number(last[1]));
    let rule = " counters agree only because 256 events are always allowed; without that rule ";
    let others = format!("{by_events}{rule}{} of 225 would", all - by_events);
    assert_eq!(last[2], others, "{text}");
    assert!(text.contains("map2 pgactivate: Linux 34816, model 34816: agrees"), "{text}");
    assert!(text.contains("# cold: pgscan_kswapd Linux"), "who reclaimed is reported: {text}");
    assert!(!text.contains("Linux 0, model 0"), "what nobody did needs no line: {text}");
}

#[test]
fn a_scenario_that_cannot_be_names_its_field() {
    let text =
        std::fs::read_to_string(root().join("reference/linux-6.1/scenarios/cyclic-0.8.json"))
            .unwrap();
    let good: serde_json::Value = serde_json::from_str(&text).unwrap();
    let complaint = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut bad = good.clone();
        change(&mut bad);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bad.json");
        std::fs::write(&path, bad.to_string()).unwrap();
        let output = highwater(&["check", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let params = complaint(&|bad| bad["params"][1] = 1.5.into());
    assert!(params.contains("params: passes=1.5: is not a whole number"), "{params}");
    let few = complaint(&|bad| bad["params"] = serde_json::json!([0.8]));
    assert!(few.contains("params: 1 values, but cyclic has 2"), "{few}");
    let rule = complaint(&|bad| bad["policy"] = serde_json::json!({"unmap_old_file": "never"}));
    assert!(rule.contains("policy.unmap_old_file: no such rule"), "{rule}");
    let choice = complaint(&|bad| bad["policy"] = serde_json::json!({"unmap_young_file": "no"}));
    assert!(choice.contains("policy: ") && choice.lines().count() == 1, "{choice}");
    let label = complaint(&|bad| bad["runs"][0]["steps"][0]["label"] = "first".into());
    assert!(label.contains("runs"), "{label}");
}

const STUTTERP: &str = "reference/linux-6.1/stutterp/workers-12.json";

#[test]
#[ignore = "simulates for seconds: a step of .ci/full"]
fn the_shape_of_a_chaotic_run() {
    let text = stdout(&["check", STUTTERP, "--min-agreement", "90"]);
    for part in [
        "stutterp: ",
        " shapes agree",
        // This file's run and that of the one beside it.
        "direct reclaim: pages scanned per page reclaimed: Linux 19.84 (9.43 to 28.68), model ",
        "throttled waits: share of ISOLATED: Linux 100.0 % (100.0 % to 100.0 %), model ",
        "direct reclaim: ISOLATED waits in a run: Linux 26.50 (6.00 to 47.00), model ",
        "# memory before the work: 116407 pages, 37897 free; boot files 3089, ",
        "# 1 run of the same work comes from a file beside this one",
        "# judged: the shapes above, of 12 runs together",
        "# pgscan_direct: Linux 943868, model ",
        "# throttled ISOLATED, 0 of 20000 us: Linux 13.5, model ",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

/// Five seconds of the same storm, by the rules of two kernels, and what changed between them.
#[test]
fn what_two_kernels_make_of_a_storm() {
    let dir = tempfile::tempdir().unwrap();
    let short = |kernel: &str| {
        let file = root().join(format!("reference/linux-{kernel}/storm/workers-4.json"));
        let mut storm: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        storm["seconds"] = 5.0.into();
        let path = dir.path().join(format!("{kernel}.json"));
        std::fs::write(&path, storm.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let output = highwater(&["check", &short("5.10"), &short("6.1"), "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let kinds: Vec<_> =
        report["files"].as_array().unwrap().iter().map(|file| file["kind"].clone()).collect();
    assert_eq!(kinds, ["storm", "storm", "storm, change"]);
    let fields = |file: usize| report["files"][file]["figures"].to_string();
    assert!(fields(0).contains("wait_iff_congested") && fields(0).contains("msleep100"));
    assert!(fields(1).contains("CONGESTED waits") && !fields(1).contains("msleep100"));
    assert!(fields(2).contains("change of direct reclaim: pages scanned a second"));
}

#[test]
fn a_kernel_for_which_no_policy_stands_is_not_judged() {
    let text = std::fs::read_to_string(root().join(STUTTERP)).unwrap();
    let mut other: serde_json::Value = serde_json::from_str(&text).unwrap();
    other["kernel"] = "Linux 2.6 (old)".into();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("other.json");
    std::fs::write(&path, other.to_string()).unwrap();
    let output = highwater(&["check", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "nothing was checked");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("there is no policy for the kernel"), "{text}");
}

/// A second of it, in which nothing is as it was.
#[test]
fn a_chaotic_run_can_disagree() {
    let text = std::fs::read_to_string(root().join(STUTTERP)).unwrap();
    let mut short: serde_json::Value = serde_json::from_str(&text).unwrap();
    short["seconds"] = 1.0.into();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("short.json");
    std::fs::write(&path, short.to_string()).unwrap();
    let output = highwater(&["check", path.to_str().unwrap(), "--format", "json"]);
    // Whether all agree is told by the exit status, as for other files.
    assert_eq!(output.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        report["nr_figures"].as_u64().unwrap() > report["nr_figures_agreeing"].as_u64().unwrap()
    );
    assert_eq!(report["files"][0]["kind"], "stutterp");
}

#[test]
fn a_stutterp_that_cannot_be_names_its_field() {
    let text = std::fs::read_to_string(root().join(STUTTERP)).unwrap();
    let good: serde_json::Value = serde_json::from_str(&text).unwrap();
    let complaint = |field: &str, value: serde_json::Value| {
        let mut bad = good.clone();
        bad[field] = value;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bad.json");
        std::fs::write(&path, bad.to_string()).unwrap();
        let output = highwater(&["check", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{field}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("bad.json") && text.contains(&format!("{field}: ")), "{text}");
        text
    };
    for (field, value, reason) in [
        ("seconds", serde_json::json!(1e9), "more than 600"),
        ("seconds", serde_json::json!(-1), "not a duration"),
        ("workers", serde_json::json!(3), "less than writers"),
        ("disk_bytes_per_s", serde_json::json!(0), "never answers"),
        ("file_bytes_each", serde_json::json!(1_u64 << 39), "do not fit the disk"),
        ("hog_bytes_each", serde_json::json!(7), "not between a page"),
        ("latency_bytes", serde_json::json!("much"), "invalid type"),
        ("zones", serde_json::json!([]), "without memory"),
        ("throttled", serde_json::json!(5), "invalid type"),
    ] {
        let text = complaint(field, value);
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn a_wrong_figure_is_found_and_named() {
    let file = root().join("reference/linux-6.1/static/static-1024-2.json");
    let text = std::fs::read_to_string(file).unwrap();
    let mut captured: serde_json::Value = serde_json::from_str(&text).unwrap();
    let batch = &mut captured["zones"][1]["pagesets"][0]["batch"];
    *batch = serde_json::json!(batch.as_u64().unwrap() - 1);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("x.json"), captured.to_string()).unwrap();
    let output = highwater(&["check", dir.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stderr.is_empty());
    let text = String::from_utf8(output.stdout).unwrap();
    // The line is found by its last word, and says which file it is about.
    let differing: Vec<&str> = text.lines().filter(|line| line.contains("DIFFERS")).collect();
    let file = dir.path().join("x.json");
    let figure = "node 0 DMA32: cpu 0 batch: Linux 62, model 63: DIFFERS (exact)";
    assert_eq!(differing, [format!("  {}: {figure}", file.display())]);
    assert!(text.ends_with("0 of 1 file agrees, 22 of 23 fields\n"), "{text}");
}

#[test]
fn nothing_checked_is_no_success() {
    let complaint = |path: &str, status: i32, part: &str| {
        let output = highwater(&["check", path]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(errors.contains(part), "{errors}");
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    complaint(path, 2, "no captured file");
    std::fs::write(dir.path().join("notes.txt"), "nothing").unwrap();
    complaint(path, 2, "no captured file");
    // The trace of the work is not beside it.
    let ab = root().join("reference/linux-6.1/ab/002-unix-stream-16384.json");
    std::fs::copy(ab, dir.path().join("ab.json")).unwrap();
    complaint(path, 1, "nothing was checked: no figure in 1 file");
}

#[test]
fn one_bad_file_does_not_hide_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let good = root().join("reference/linux-6.1/static/static-1024-1.json");
    std::fs::copy(good, dir.path().join("a.json")).unwrap();
    std::fs::write(dir.path().join("b.json"), "{\n").unwrap();
    let output = highwater(&["check", dir.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 of 1 file agrees"));
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    assert!(complaint.contains("b.json:2"), "{complaint}");
}
