//! What reports look like: as data, and on a page.

use std::collections::BTreeSet;

use super::{SMALL, stdout};

/// The fields of CSV text without line breaks in its fields.
fn records(text: &str) -> Vec<Vec<String>> {
    let fields = |line: &str| {
        let (mut fields, mut is_quoted) = (vec![String::new()], false);
        for letter in line.chars() {
            match letter {
                '"' => is_quoted = !is_quoted,
                ',' if !is_quoted => fields.push(String::new()),
                letter => fields.last_mut().unwrap().push(letter),
            }
        }
        fields
    };
    text.lines().map(fields).collect()
}

#[test]
fn observations_are_one_tidy_table() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().to_str().unwrap();
    let run = ["compare", "003", "--quick", "--machine", SMALL, "--out", dir, "--format", "csv"];
    let text = stdout(&run);
    assert_eq!(stdout(&["report", dir, "--format", "csv"]), text);
    let records = records(&text);
    let header =
        "experiment,host,machine,policy,label,seed,iteration,kind,metric,operation,unit,value";
    assert_eq!(records[0].join(","), header);
    let mut kinds = BTreeSet::new();
    for record in &records[1..] {
        assert_eq!(record.len(), 12, "{record:?}");
        assert!(record.iter().all(|field| !field.is_empty()), "{record:?}");
        record[5].parse::<u64>().expect("a seed");
        record[6].parse::<u32>().expect("an iteration");
        assert!(record[11].parse::<f64>().expect("a value").is_finite(), "{record:?}");
        kinds.insert(record[7].as_str());
    }
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["counter", "sample", "time"]);
    // A seed has the same number in samples, times and counters.
    let of_seeds: BTreeSet<(&str, &str)> =
        records[1..].iter().map(|record| (&*record[5], &*record[6])).collect();
    assert_eq!(of_seeds.into_iter().collect::<Vec<_>>(), [("1", "0"), ("2", "1")]);
    let of = |operation: &str| records.iter().find(|record| record[9] == operation).unwrap();
    assert_eq!(of("again-1")[8..11], ["unmap", "again-1", "microseconds"]);
    assert_eq!(of("share-1")[8], "activation");
}

#[test]
fn every_other_csv_is_one_tidy_table_too() {
    let policy = ["show", "policy", "6.1"];
    let replay = ["replay", &super::trace("file-read"), "--hottest", "2"];
    let explain = ["explain", "003", "--quick", "--machine", SMALL, "--worst", "1"];
    let bench = ["bench", "--quick", "--order", "0", "--pattern", "repeat", "--threads", "1"];
    for command in [&["list"][..], &policy, &replay, &explain, &bench] {
        let text = stdout(&[command, &["--format", "csv"]].concat());
        let records = records(&text);
        let header = "table,row,column,value,text,percent,significant,low,high";
        assert_eq!(records[0].join(","), header);
        assert!(records.len() > 2, "{command:?}");
        for record in &records[1..] {
            assert_eq!(record.len(), 9, "{command:?} {record:?}");
            assert_ne!(record[0], "table", "{command:?}: one header");
            for number in [3, 5, 7, 8].map(|at| &record[at]).into_iter().filter(|n| !n.is_empty()) {
                assert!(number.parse::<f64>().is_ok_and(f64::is_finite), "{command:?} {record:?}");
            }
        }
    }
}

/// Where threads sleep for each other only the time that passes tells; who compares says what was compared.
#[test]
fn a_benchmark_says_what_it_measured_and_how_long_that_took() {
    let quick = ["bench", "--quick", "--order", "0", "--pattern", "bulk", "--format", "json"];
    let table = |more: &[&str]| super::json(&[&quick[..], more].concat())[0].take();
    let threads = |table: &serde_json::Value| -> Vec<String> {
        let rows = table["rows"].as_array().unwrap();
        let own = rows.iter().filter(|row| row["labels"][0] == "highwater");
        own.map(|row| row["labels"][3].as_str().unwrap().to_owned()).collect()
    };
    let plain = table(&[]);
    assert_eq!(plain["title"], "native allocator benchmarks, ns per alloc+free");
    assert_eq!(plain["columns"], serde_json::json!(["CPU time", "best", "elapsed", "note"]));
    assert_eq!(threads(&plain), ["1", "2"]);
    for row in plain["rows"].as_array().unwrap() {
        let ns = [0, 1, 2].map(|at| row["cells"][at]["value"].as_f64().unwrap());
        assert!(ns.iter().all(|&ns| ns > 0.0) && ns[1] <= ns[0], "{row}");
    }
    let nodes = table(&["--nodes", "2", "--policy", "5.4"]);
    let title = nodes["title"].as_str().unwrap();
    assert!(title.ends_with(", policy 5.4, 2 nodes"), "{title}");
    assert_eq!(threads(&nodes), ["2"], "one thread cannot have two nodes");
    assert_eq!(threads(&table(&["--nodes", "3"])), ["3"]);
}

/// Whoever takes tables from JSON has numbers.
#[test]
fn evidence_is_numbers_in_json() {
    let document =
        super::json(&["compare", "003", "--quick", "--machine", SMALL, "--format", "json"]);
    let tables = document["tables"].as_array().unwrap();
    let evidence =
        tables.iter().find(|t| t["title"].as_str().unwrap().starts_with("Evidence")).unwrap();
    for row in evidence["rows"].as_array().unwrap() {
        let kinds: Vec<&str> =
            row["cells"].as_array().unwrap().iter().map(|c| c["cell"].as_str().unwrap()).collect();
        let (ps, share) = (["probability"; 2], "percent");
        assert_eq!(kinds, ["percent", "interval", ps[0], ps[1], share, "text"]);
        assert!(row["cells"][2]["value"].as_f64().is_some_and(|p| (0.0..=1.0).contains(&p)));
    }
}

/// A percentage says little of a large change.
#[test]
fn changes_beyond_a_factor_of_two_are_factors() {
    let run = ["compare", "003", "--quick", "--machine", SMALL, "--format", "json"];
    let document = super::json(&run);
    let (mut nr_factors, mut nr_percentages) = (0, 0);
    for row in
        document["tables"].as_array().unwrap().iter().flat_map(|t| t["rows"].as_array().unwrap())
    {
        let cells = row["cells"].as_array().unwrap();
        if cells.len() != 2 || cells[1]["cell"] != "change" {
            continue;
        }
        let value = |at: usize| cells[at]["value"].as_f64().unwrap();
        let factor = (value(1) / value(0)).max(value(0) / value(1));
        let told = cells[1]["told"].as_str();
        if (1.0..=2.0).contains(&factor) || value(0) == value(1) {
            assert_eq!(told, None, "{row}");
            nr_percentages += 1;
        } else {
            let told = told.unwrap_or_else(|| panic!("{row}"));
            let is_factor = told.trim_start_matches('-').starts_with('x');
            assert!(is_factor || ["from 0", "to 0", "past 0"].contains(&told), "{row}");
            assert!(cells[1]["percent"].as_f64().is_some_and(f64::is_finite), "{row}");
            nr_factors += 1;
        }
    }
    assert!(nr_factors > 3 && nr_percentages > 3, "{nr_factors} {nr_percentages}");
}

/// Evidence is what changed; how much did not is told, and shown to those who ask.
#[test]
fn evidence_is_what_changed_unless_all_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().to_str().unwrap();
    let compare = ["compare", "003", "--quick", "--machine", SMALL, "--out", dir, "--force"];
    let report = ["report", dir];
    let all = stdout(&[&compare[..], &["--all"]].concat());
    assert_eq!(stdout(&[&report[..], &["--all"]].concat()), all);
    let short = stdout(&compare);
    assert_eq!(stdout(&report), short);
    let block = |text: &str, title: &str| -> Vec<String> {
        let lines = text.lines().skip_while(|line| !line.starts_with(title));
        lines.take_while(|line| !line.is_empty()).map(str::to_owned).collect()
    };
    let (short, all) = (block(&short, "Evidence: unmap"), block(&all, "Evidence: unmap"));
    let rows = |block: &[String]| block[2..].iter().filter(|line| !line.starts_with('#')).count();
    assert_eq!(rows(&all), 12, "{all:?}");
    let nr_left_out = 12 - rows(&short);
    assert!(nr_left_out > 0, "{short:?}");
    let note =
        format!("# {nr_left_out} of 12 rows show no change and are left out; --all prints them");
    assert!(short.contains(&note), "{short:?}");
    assert!(!all.iter().any(|line| line.contains("--all")), "{all:?}");
    // Data are whole in any case.
    let json = super::json(&[&report[..], &["--format", "json"]].concat());
    let tables = json["tables"].as_array().unwrap();
    let evidence =
        tables.iter().find(|t| t["title"].as_str().unwrap().starts_with("Evidence: unmap"));
    assert_eq!(evidence.unwrap()["rows"].as_array().unwrap().len(), 12);
}

/// What goes to a file or another program is as wide as a page.
#[test]
#[ignore = "simulates for seconds: a step of .ci/full"]
fn no_line_of_a_report_is_wider_than_a_page() {
    for number in ["001", "002", "003"] {
        let text = stdout(&["compare", number, "--quick", "--iterations", "1", "--all"]);
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{number}: {line}");
        }
    }
    for command in [&["list"][..], &["show", "policy", "6.1"]] {
        let text = stdout(command);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}

/// Who names policies reads their names, not the headings that an experiment has for them.
#[test]
fn columns_of_named_policies_are_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    let toml = stdout(&["show", "policy", "set-referenced", "--toml"]);
    std::fs::write(&file, toml).unwrap();
    let named = ["--policy", "set-referenced", "--policy", "mark-accessed"];
    let run = ["compare", "003", "--quick", "--machine", SMALL, "--policy", file.to_str().unwrap()];
    let text = stdout(&[&run[..], &named].concat());
    let (verdict, tables) = text.split_once("\n\n").unwrap();
    assert!(
        verdict.contains(" against mine in each direction") && verdict.contains(" mark-accessed "),
        "{verdict}"
    );
    assert!(!text.contains("6.1-mark-accessed") && !text.contains("6.1-set-referenced"), "{text}");
    assert!(tables.contains("mark-accessed "), "{tables}");
    let own = stdout(&["compare", "003", "--quick", "--machine", SMALL]);
    assert!(own.contains("6.1-mark-accessed"), "{own}");
}
