//! Tests of grids.

use highwater_results::{Better, EndedEarly, SeedTotals, TableKind};

use super::*;
use crate::table::Cell;

fn document(a: f64, b: f64) -> Document {
    let mut document = Document::new("0.1.0", "x", "sim", 1);
    let metric = Metric {
        operations: vec!["op".to_owned()],
        ..Metric::new("m", "ms", Better::Lower, TableKind::Multi)
    };
    document.metrics = vec![metric];
    document.iterations = 2;
    document.runs = ["before", "after"]
        .into_iter()
        .zip([a, b])
        .map(|(label, value)| {
            let mut run = Run::new("machine", label, label);
            for seed in 0..2 {
                run.push("op", 0, seed, value + seed as f64 * 0.5);
            }
            run
        })
        .collect();
    document
}

fn points<'a>(values: &'a [Vec<String>], documents: &'a [Document]) -> Vec<Point<'a>> {
    let pairs = values.iter().zip(documents);
    pairs.map(|(values, document)| Point { values, document }).collect()
}

fn texts(of: &[&str]) -> Vec<String> {
    of.iter().map(|&text| text.to_owned()).collect()
}

#[test]
fn a_grid_is_tidy_and_says_what_matters() {
    let keys = texts(&["memory", "swappiness"]);
    let values = [["1G", "0"], ["1G", "60"], ["2G", "0"], ["2G", "60"]].map(|v| texts(&v));
    // Memory halves the value, swappiness does nothing, the change reduces it by a tenth.
    let documents = [(8.0, 7.2), (8.0, 7.2), (4.0, 3.6), (4.0, 3.6)].map(|(a, b)| document(a, b));
    let points = points(&values, &documents);
    let counters = ["pgscan_kswapd".to_owned()];
    let grid = Grid { keys: &keys, points, counters: &counters };
    let csv = grid.csv();
    let points: BTreeSet<Vec<String>> = values.iter().cloned().collect();
    assert_eq!(points_of(&csv), Ok((keys.clone(), points)));
    assert!(points_of("a,b\n1,2\n").unwrap_err().contains("no column"));
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 1 + 2 * 4 * 2, "a row for the operation and one for the counter");
    assert!(lines[0].starts_with("memory,swappiness,machine,policy,metric,unit,operation,"));
    assert!(
        lines[1].starts_with("1G,0,machine,before,m,ms,op,2,8.25,8,8.5,8,8.25,8.5,,,"),
        "{}",
        lines[1]
    );
    assert!(lines[8].starts_with("2G,60,machine,after,m,ms,op,2,3.8"), "{}", lines[8]);
    let tables = grid.tables();
    assert_eq!(tables[0].rows.len(), 8);
    assert_eq!(tables[0].labels, ["operation", "memory", "swappiness", "run"]);
    assert_eq!(tables[0].columns.len(), 4, "two seeds, two runs");
    assert!(tables[1].title.starts_with("counters") && tables[1].rows.len() == 8);
    let shares: Vec<f64> =
        tables[2].rows[0].cells.iter().map(|cell| cell.value_text().parse().unwrap()).collect();
    assert!(shares[0] > 90.0 && shares[1] == 0.0 && shares[2] > 1.0, "{shares:?}");
    assert!((shares.iter().sum::<f64>() - 100.0).abs() < 0.2, "{shares:?}");
}

/// The machine is a factor like any other, and its column stands once.
#[test]
fn machines_that_vary_are_a_key() {
    let keys = texts(&["machine", "swappiness"]);
    let values = [["a.toml", "0"], ["a.toml", "60"], ["b", "0"], ["b", "60"]].map(|v| texts(&v));
    let mut documents =
        [(8.0, 7.2), (8.0, 7.2), (4.0, 3.6), (4.0, 3.6)].map(|(a, b)| document(a, b));
    for (at, document) in documents.iter_mut().enumerate() {
        let name = ["a", "b"][at / 2];
        document.runs.iter_mut().for_each(|run| name.clone_into(&mut run.machine));
    }
    let points = points(&values, &documents);
    let grid = Grid { keys: &keys, points, counters: &[] };
    let csv = grid.csv();
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("machine,swappiness,policy,metric,"), "{}", lines[0]);
    assert!(lines[1].starts_with("a,0,before,m,ms,op,2,8.25,"), "{}", lines[1]);
    let named = [["a", "0"], ["a", "60"], ["b", "0"], ["b", "60"]].map(|v| texts(&v));
    assert_eq!(points_of(&csv), Ok((keys.clone(), named.into_iter().collect())));
    let tables = grid.tables();
    assert_eq!(tables[0].labels, ["operation", "machine", "swappiness", "run"]);
    assert_eq!(tables[0].rows[7].labels, ["op", "b", "60", "after"]);
    assert_eq!(tables[1].labels, ["metric", "operation"]);
    assert_eq!(tables[1].rows.len(), 1);
    let shares: Vec<f64> =
        tables[1].rows[0].cells.iter().map(|cell| cell.value_text().parse().unwrap()).collect();
    assert!(shares[0] > 90.0 && shares[1] == 0.0, "{shares:?}");
}

#[test]
fn what_does_not_vary_has_no_row() {
    let keys = texts(&["memory"]);
    let values = [texts(&["1G"]), texts(&["2G"])];
    let documents = [document(4.0, 4.0), document(4.0, 4.0)];
    let points = points(&values, &documents);
    assert_eq!(Grid { keys: &keys, points, counters: &[] }.tables().len(), 1);
}

/// Every metric is shown at each point. A metric that is 0 everywhere, or a count that never
/// differs, is not.
#[test]
fn latencies_and_steps_are_shown_at_each_point_and_nothing_is_not() {
    let keys = texts(&["memory"]);
    let values = [texts(&["1G"]), texts(&["2G"])];
    let mut documents = [document(4.0, 4.0), document(2.0, 2.0)];
    for (at, document) in documents.iter_mut().enumerate() {
        document.runs.truncate(1);
        let mut steps = Metric::new("steps", "events", Better::Neither, TableKind::Single);
        steps.operations = texts(&["fill pgfault", "fill pswpin", "fill pgscan"]);
        let mut pressure = Metric::new("pressure", "%", Better::Lower, TableKind::Single);
        pressure.operations = texts(&["cpu some"]);
        document.metrics.extend([steps, pressure]);
        let run = &mut document.runs[0];
        for (name, value) in [
            ("fill pgfault", 9.0 + at as f64),
            ("fill pswpin", 0.0),
            ("fill pgscan", 7.0),
            ("cpu some", 0.0),
        ] {
            run.push(name, 0, 0, value);
        }
    }
    let points = points(&values, &documents);
    let tables = Grid { keys: &keys, points, counters: &[] }.tables();
    let titles: Vec<&str> = tables.iter().map(|table| table.title.as_str()).collect();
    assert!(
        titles[0].starts_with("m at each") && titles[1].starts_with("steps at each"),
        "{titles:?}"
    );
    assert_eq!(titles.len(), 2, "one key explains everything: {titles:?}");
    assert_eq!(tables[1].labels, ["operation", "memory"]);
    let rows: Vec<String> = tables[1].rows.iter().map(|row| row.labels.join(" ")).collect();
    assert_eq!(rows, ["fill pgfault 1G", "fill pgfault 2G"]);
    assert_eq!(tables[1].columns, ["mean"], "neither seeds nor runs to compare");
    assert_eq!(tables[1].notes, ["the same in every run: fill pgscan 7.00"]);
}

/// A task that dies at one point has a row at each, above everything that its death explains.
#[test]
fn tasks_that_died_come_first() {
    let keys = texts(&["group.web.max"]);
    let values = [texts(&["16M"]), texts(&["64M"])];
    let mut documents = [document(4.0, 4.0), document(2.0, 2.0)];
    for document in &mut documents {
        document.runs.truncate(1);
        document.runs[0].per_seed = vec![SeedTotals::default(), SeedTotals::default()];
    }
    for (seed, first_kill_ns) in [(0, 7_000_000_000), (1, 2_500_000_000)] {
        let early = EndedEarly {
            task: "web".to_owned(),
            killed: 1,
            started: 3,
            first_kill_ns: Some(first_kill_ns),
            ..EndedEarly::default()
        };
        documents[0].runs[0].per_seed[seed].ended_early.push(early);
    }
    let grid = Grid { keys: &keys, points: points(&values, &documents), counters: &[] };
    let csv = grid.csv();
    let rows: Vec<&str> = csv.lines().filter(|line| line.contains("ended early")).collect();
    let of = |row: &str| row.split(',').take(8).collect::<Vec<_>>().join(",");
    assert_eq!(
        rows.iter().map(|row| of(row)).collect::<Vec<_>>(),
        [
            "16M,machine,before,ended early,copies,web killed,2,1",
            "16M,machine,before,ended early,seconds,web first kill,2,4.75",
            "16M,machine,before,ended early,copies,web gave up,2,0",
            "64M,machine,before,ended early,copies,web killed,2,0",
            "64M,machine,before,ended early,seconds,web first kill,0,",
            "64M,machine,before,ended early,copies,web gave up,2,0",
        ]
    );
    let tables = grid.tables();
    assert!(tables[0].title.starts_with("Tasks that ended early"), "{}", tables[0].title);
    assert_eq!(tables[0].columns, ["killed", "first kill (s)", "gave up"]);
    let rows: Vec<String> = tables[0]
        .rows
        .iter()
        .map(|row| {
            let cells: Vec<String> = row.cells.iter().map(Cell::value_text).collect();
            format!("{} {}", row.labels.join(" "), cells.join(" "))
        })
        .collect();
    assert_eq!(rows, ["web 16M 2 2.500 0", "web 64M 0 - 0"]);
}
