//! `--sample-every`: counters over virtual time, beside results that do not change by it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use highwater_results::column::{Kind, Unit};
use highwater_results::{Column, Columns};

use super::{SMALL, highwater, stdout};

const COMPARE: [&str; 9] =
    ["compare", "003", "--quick", "--machine", SMALL, "--iterations", "1", "--out", ""];

/// Compares with results in a directory; the printed report.
fn compare(dir: &str, more: &[&str]) -> String {
    let mut args = COMPARE.to_vec();
    args[8] = dir;
    args.extend(more);
    stdout(&args)
}

fn lines(dir: &str) -> Vec<BTreeMap<String, String>> {
    let text = fs::read_to_string(format!("{dir}/samples.csv")).unwrap();
    let mut lines = text.lines().map(|line| line.split(','));
    let header: Vec<String> = lines.next().unwrap().map(str::to_owned).collect();
    lines.map(|line| header.iter().cloned().zip(line.map(str::to_owned)).collect()).collect()
}

fn columns(dir: &str) -> Vec<Column> {
    let text = fs::read_to_string(format!("{dir}/columns.json")).unwrap();
    Columns::parse(&text).unwrap().columns
}

#[test]
fn samples_are_taken_and_change_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = |name: &str| temporary.path().join(name).to_str().unwrap().to_owned();
    let (with, without) = (dir("with"), dir("without"));
    let printed = compare(&with, &["--sample-every", "5"]);
    assert_eq!(compare(&without, &[]), printed);
    let lines = lines(&with);
    let number = |line: &BTreeMap<String, String>, name: &str| line[name].parse::<f64>().unwrap();
    for policy in ["mark-accessed", "set-referenced"] {
        let of: Vec<_> = lines.iter().filter(|line| line["policy"] == policy).collect();
        assert!(of.len() > 10, "{policy}: {}", of.len());
        // All memory that is free is in some block, and what per-CPU lists hold is not.
        for (at, line) in (0..).zip(&of) {
            // The first is of the boot, which takes a while.
            assert_eq!((number(line, "ms") / 5.0).floor(), f64::from(at));
            assert!(at == 0 || number(line, "ms") % 5.0 == 0.0);
            let blocks = line.iter().filter_map(|(name, value)| {
                let order: u32 = name.split_once("/order")?.1.parse().ok()?;
                Some(value.parse::<u64>().unwrap() << order)
            });
            assert_eq!(blocks.sum::<u64>() as f64, number(line, "nr_free_pages"), "{at}");
        }
        // The streamed file fills memory: events only grow, and reclaim begins.
        let scanned: Vec<f64> = of.iter().map(|line| number(line, "pgscan_kswapd")).collect();
        assert!(scanned.is_sorted() && scanned[0] == 0.0 && *scanned.last().unwrap() > 0.0);
    }
    // Every column is declared.
    let columns = columns(&with);
    let names: BTreeSet<&str> = columns.iter().map(|column| &*column.name).collect();
    let first = ["machine", "policy", "label", "seed", "part", "ms"];
    let sampled = lines[0].keys().map(String::as_str).filter(|name| !first.contains(name));
    assert!(sampled.clone().all(|name| names.contains(name)), "{names:?}");
    let meaning = |name: &str| {
        let column = columns.iter().find(|column| column.name == name).unwrap();
        (column.unit, column.kind)
    };
    assert_eq!(meaning("pressure/memory/some"), (Unit::Microseconds, Kind::Total));
    assert_eq!(meaning("pgscan_kswapd"), (Unit::Pages, Kind::Total));
    assert_eq!(meaning("nr_dirtied"), (Unit::Pages, Kind::Total));
    assert_eq!(meaning("nr_dirty"), (Unit::Pages, Kind::Level));
    let blocks = columns.iter().filter(|column| column.unit == Unit::Blocks { order: 9 });
    assert!(blocks.clone().count() > 0 && blocks.clone().all(|c| c.what() == "order9"));
    // Results say that there are samples; without them, those of another run do not stay.
    let document = fs::read_to_string(format!("{with}/results.json")).unwrap();
    assert!(document.contains("\"every_ms\": 5") && document.contains("\"file\": \"samples.csv\""));
    compare(&with, &["--force"]);
    assert!(!fs::exists(format!("{with}/samples.csv")).unwrap());
    // A part of a run is named.
    let dir = dir("steps");
    let machine = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/small.toml");
    let mut run =
        vec!["run", "stutterp", "--machine", machine, "--sample-every", "50", "--out", &dir];
    for set in ["stutterp.ladder=[4,5]", "stutterp.seconds=0.2", "stutterp.warm-up=0.5"] {
        run.extend(["--set", set]);
    }
    stdout(&run);
    let text = fs::read_to_string(format!("{dir}/samples.csv")).unwrap();
    assert!(text.contains(",mmap-4,50,") && text.contains(",mmap-5,50,"));
}

#[test]
fn samples_need_a_directory_and_virtual_time() {
    for (args, reason) in [
        (&["compare", "003", "--sample-every", "10"][..], "--out"),
        (&["compare", "003", "--sample-every", "0", "--out", "x"], "--sample-every"),
        (
            &["compare", "003", "--host", "native", "--sample-every", "10", "--out", "x"],
            "no virtual time",
        ),
    ] {
        let output = highwater(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(errors.contains(reason), "{errors}");
    }
}
