//! `report -o`: results as one page of HTML.

use std::fs;

use super::{SMALL, highwater, stdout};

/// Results in a directory: one step of stutterp under two policies.
fn compare(dir: &str) {
    let of = ["compare", "001", "--quick", "--machine", SMALL, "--out", dir, "--force"];
    let step = ["--set", "stutterp.ladder=[4,5]", "--set", "stutterp.seconds=0.2"];
    stdout(&[&of[..], &step].concat());
}

#[test]
fn a_directory_is_a_page_with_all_that_lies_in_it() {
    let temporary = tempfile::tempdir().unwrap();
    let path = |name: &str| temporary.path().join(name).to_str().unwrap().to_owned();
    let (dir, file) = (path("run"), path("page.html"));
    compare(&dir);
    let said = stdout(&["report", &dir, "-o", &file]);
    assert!(said.starts_with(&file) && said.contains("open it in a browser"), "{said}");
    let whole = fs::read_to_string(&file).unwrap();
    assert!(whole.starts_with("<!doctype html>") && whole.trim_end().ends_with("</html>"));
    assert!(whole.len() < 2 << 20, "{} bytes", whole.len());
    for word in ["Over time", "The slowest operations", "How the samples are distributed"] {
        assert!(whole.contains(word), "{word}");
    }
    // The verdict is the one that is printed.
    let printed = stdout(&["report", &dir]);
    let verdict = printed.lines().skip(2).take_while(|line| !line.starts_with('#'));
    let words = |line: &str| {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let at = words.iter().position(|word| ["better", "worse"].contains(&word.as_str()))?;
        Some(words[at - 1..=at + 1].join(" "))
    };
    let changes: Vec<String> = verdict.filter_map(words).collect();
    assert!(!changes.is_empty(), "{printed}");
    changes.iter().for_each(|change| assert!(whole.contains(change), "{change}"));
    // The same results, the same page; without what lies beside them, less of it.
    stdout(&["report", &dir, "--output", &file]);
    assert_eq!(fs::read_to_string(&file).unwrap(), whole);
    for beside in ["timeline.csv", "stalls.json"] {
        fs::remove_file(format!("{dir}/{beside}")).unwrap();
    }
    stdout(&["report", &dir, "-o", &file]);
    let plain = fs::read_to_string(&file).unwrap();
    assert!(plain.contains("No counters over time lie beside these results"));
    assert!(
        !plain.contains("<h3>Over time</h3>") && !plain.contains("<h3>The slowest operations</h3>")
    );
    // Two side by side.
    let other = path("other");
    compare(&other);
    stdout(&["report", &dir, &other, "-o", &file]);
    let both = fs::read_to_string(&file).unwrap();
    assert!(both.contains("run") && both.contains("other") && both.contains("<h2>Verdict</h2>"));
}

#[test]
fn what_is_no_page_is_one_line() {
    let temporary = tempfile::tempdir().unwrap();
    let path = |name: &str| temporary.path().join(name).to_str().unwrap().to_owned();
    let (dir, file) = (path("run"), path("page.html"));
    compare(&dir);
    let refused = |args: &[&str], words: &[&str]| {
        let output = highwater(args);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        words.iter().for_each(|word| assert!(errors.contains(word), "{word}: {errors}"));
    };
    refused(&["report", &path("none"), "-o", &file], &["none"]);
    refused(&["report", &dir, "-o", &path("no/such/place.html")], &["no/such/place.html"]);
    refused(&["report", &dir, "-o", &file, "--format", "csv"], &["--format"]);
    let timeline = format!("{dir}/timeline.csv");
    let text = fs::read_to_string(&timeline).unwrap();
    fs::write(&timeline, text.replacen(",1,mmap-4,", ",x,mmap-4,", 1)).unwrap();
    refused(&["report", &dir, "-o", &file], &["timeline.csv", "line 2", "`seed`"]);
    // A column that is declared nowhere.
    fs::write(&timeline, text.replacen("nr_free_pages", "nr_foo", 1)).unwrap();
    refused(&["report", &dir, "-o", &file], &["timeline.csv", "line 1", "`nr_foo`"]);
    fs::write(&timeline, text).unwrap();
    let columns = format!("{dir}/columns.json");
    let text = fs::read_to_string(&columns).unwrap();
    fs::write(&columns, text.replacen("\"pages\"", "\"pounds\"", 1)).unwrap();
    refused(&["report", &dir, "-o", &file], &["columns.json:", "pounds", "line 2"]);
    fs::write(&columns, text).unwrap();
    fs::write(format!("{dir}/stalls.json"), "{\n\"schema\": 1}").unwrap();
    refused(&["report", &dir, "-o", &file], &["stalls.json:2"]);
    assert!(!fs::exists(&file).unwrap());
}

#[test]
fn grids_and_several_experiments_are_pages_too() {
    let temporary = tempfile::tempdir().unwrap();
    let path = |name: &str| temporary.path().join(name).to_str().unwrap().to_owned();
    let (dir, file) = (path("grid"), path("grid.html"));
    let of = ["compare", "003", "--quick", "--machine", SMALL, "--iterations", "1"];
    let grid = ["--vary", "vm.swappiness=0,60", "--vary", "unmap.rounds=1,2", "--out", &dir];
    let printed = stdout(&[&of[..], &grid].concat());
    assert_eq!(stdout(&["report", &dir]), printed);
    let csv = fs::read_to_string(format!("{dir}/grid.csv")).unwrap();
    assert_eq!(stdout(&["report", &dir, "--format", "csv"]), csv);
    stdout(&["report", &dir, "-o", &file]);
    let page = fs::read_to_string(&file).unwrap();
    for word in [
        "4 points of vm.swappiness, unmap.rounds",
        "The grid",
        "class=\"heat h",
        "What matters how much",
    ] {
        assert!(page.contains(word), "{word}");
    }
    fs::remove_file(format!("{dir}/point-0003/results.json")).unwrap();
    fs::write(format!("{dir}/point-0004/results.json"), "{}").unwrap();
    let output = highwater(&["report", &dir]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && errors.contains("point-0004"), "{errors}");

    let (dir, file) = (path("several"), path("several.html"));
    let machine = ["--machine", SMALL, "--iterations", "1", "--out", &dir];
    stdout(&[&["compare", "002", "003", "--quick"], &machine[..]].concat());
    assert!(stdout(&["report", &dir]).starts_with("Summary: "));
    stdout(&["report", &dir, "-o", &file]);
    let page = fs::read_to_string(&file).unwrap();
    for word in ["What several studies add up to", "Summary: what was published", "2 experiments"] {
        assert!(page.contains(word), "{word}");
    }
}

/// Results of earlier versions declare no columns: the page is the same. The unit that is declared is the one that is
/// drawn.
#[test]
fn units_of_a_page_are_those_that_are_declared() {
    let temporary = tempfile::tempdir().unwrap();
    let path = |name: &str| temporary.path().join(name).to_str().unwrap().to_owned();
    let (dir, file) = (path("run"), path("page.html"));
    compare(&dir);
    let page = || {
        stdout(&["report", &dir, "-o", &file]);
        fs::read_to_string(&file).unwrap()
    };
    let declared = page();
    let columns = format!("{dir}/columns.json");
    let text = fs::read_to_string(&columns).unwrap();
    let waits = |page: &str| {
        let (_, chart) =
            page.split_once("\"title\":\"Time in which some tasks wait for memory\",").unwrap();
        chart.split(',').next().unwrap().to_owned()
    };
    assert_eq!(waits(&declared), "\"unit\":\"%\"");
    fs::write(&columns, text.replace("\"microseconds\"", "\"pages\"")).unwrap();
    assert_eq!(waits(&page()), "\"unit\":\"thousand pages/s\"");
    fs::remove_file(&columns).unwrap();
    assert!(page() == declared, "a page of results without declarations differs");
}
