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

#[test]
fn real_kernels_that_differ_in_one_rule() {
    let report = json(&["check", "reference/linux-6.1/ab", "--format", "json"]);
    assert_eq!(report["nr_files"], 1);
    assert_eq!(report["nr_files_agreeing"], 1);
    assert_eq!(report["nr_figures"], 12);
    assert_eq!(report["nr_not_checked"], 4, "scenarios are left to a later version");
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
    assert!(text.contains("  node 0 DMA32: cpu 0 batch: Linux 62, model 63: DIFFERS"), "{text}");
    assert!(text.ends_with("0 of 1 files agree, 22 of 23 fields\n"), "{text}");
}

#[test]
fn one_bad_file_does_not_hide_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let good = root().join("reference/linux-6.1/static/static-1024-1.json");
    std::fs::copy(good, dir.path().join("a.json")).unwrap();
    std::fs::write(dir.path().join("b.json"), "{\n").unwrap();
    let output = highwater(&["check", dir.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 of 1 files agree"));
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    assert!(complaint.contains("b.json:2"), "{complaint}");
}
