//! `calibrate`: short measurements of the computer that runs the tests. Bounds are wide, because
//! it may do anything else at the same time.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use serde_json::Value;

use super::{highwater, stdout};

/// A calibration that several tests look at.
struct Done {
    dir: tempfile::TempDir,
    tables: Vec<Value>,
}

impl Done {
    fn costs(&self) -> String {
        self.dir.path().join("costs.toml").display().to_string()
    }

    fn text(&self) -> String {
        fs::read_to_string(self.costs()).expect("it was written")
    }
}

/// One short run for all tests of this file: each would disturb the others.
fn done() -> &'static Done {
    static DONE: OnceLock<Done> = OnceLock::new();
    DONE.get_or_init(|| {
        // Where the repository is, there is a disk more often than in a directory for temporary files.
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let file = dir.path().join("costs.toml").display().to_string();
        let here = dir.path().display().to_string();
        let words =
            ["calibrate", "-o", &file, "--dir", &here, "--seconds", "1", "--format", "json"];
        let output = stdout(&words);
        let tables = output.lines().filter(|line| !line.is_empty());
        let tables: Vec<Value> = match serde_json::from_str(&output) {
            Ok(Value::Array(all)) => all,
            Ok(one) => vec![one],
            Err(_) => tables.map(|line| serde_json::from_str(line).expect("JSON")).collect(),
        };
        Done { dir, tables }
    })
}

/// Rows of the file: name, median, quartiles.
fn rows(text: &str) -> Vec<(String, [f64; 3])> {
    let file: toml::Table = toml::from_str(text).expect("it is TOML");
    let rows = file["measured"].as_array().expect("a list");
    let number = |row: &toml::Value, key: &str| row[key].as_float().expect("a number");
    rows.iter()
        .map(|row| {
            let name = row["name"].as_str().expect("a name").to_owned();
            (name, ["q1", "median", "q3"].map(|key| number(row, key)))
        })
        .collect()
}

#[test]
fn every_row_is_a_figure_with_its_spread() {
    let rows = rows(&done().text());
    assert!(rows.len() > 40, "{rows:?}");
    for (name, [q1, median, q3]) in &rows {
        assert!(q1.is_finite() && median.is_finite() && q3.is_finite(), "{name}");
        assert!(q1 <= median && median <= q3, "{name}: {q1} {median} {q3}");
        // A subtraction may leave nothing; a whole operation takes time.
        let is_rest = name.starts_with("unmap.");
        assert!(is_rest || *median > 0.0, "{name}: {median}");
        assert!(*median < 10e9 || name.ends_with(".rate"), "{name}: {median}");
    }
    let spread = |name: &str| rows.iter().find(|(known, _)| known == name).map(|(_, all)| *all);
    assert!(spread("trap.getppid").is_some_and(|[_, ns, _]| ns > 5.0), "a system call takes time");
    // They differ by a factor of five or more. A busy computer moves medians, and hardly the quick quarter of the one and
    // the slow quarter of the other at once.
    for (near, far) in
        [("copy-to.l1.random", "copy-to.memory.random"), ("unix.64.message", "unix.65536.message")]
    {
        if let (Some([quick, ..]), Some([.., slow])) = (spread(near), spread(far)) {
            assert!(slow > quick, "{near} {quick}, {far} {slow}");
        }
    }
}

#[test]
fn the_file_says_where_each_cost_is_from() {
    let text = done().text();
    let file: toml::Table = toml::from_str(&text).expect("it is TOML");
    let cost = file["cost"].as_table().expect("a section");
    let source = |key: &str| cost[key]["source"].as_str().expect("a source").to_owned();
    assert!(source("syscall").starts_with("measured 2"), "{}", source("syscall"));
    assert!(source("syscall").contains("trap.getppid"), "{}", source("syscall"));
    assert!(source("pcp_alloc").starts_with("server-3ghz: half of"), "{}", source("pcp_alloc"));
    let measured = cost.values().filter(|c| c["source"].as_str().unwrap().starts_with("measured"));
    let (measured, all) = (measured.count(), cost.len());
    let line =
        format!("Measured: {measured} of {all} costs; from server-3ghz: {}.", all - measured);
    assert!(text.contains(&line), "{line}");
    let notes = done().tables[1]["notes"].to_string();
    let summary = format!("costs.toml: measured {measured}, from server-3ghz {}", all - measured);
    assert!(notes.contains(&summary), "{notes}");
}

#[test]
fn a_machine_runs_with_the_written_file() {
    let dir = done().dir.path();
    let machine = dir.join("m.toml").display().to_string();
    let shape = "costs = \"costs.toml\"\n[[node]]\nmemory = \"64M\"\ncpus = \"0-1\"\n";
    fs::write(&machine, shape).unwrap();
    let job = dir.join("job.toml").display().to_string();
    let map = "[[task.phase]]\ndo = \"map\"\nof = \"heap\"\nsize = \"4M\"\n";
    let touch = "[[task.phase]]\ndo = \"touch\"\nof = \"heap\"\nupdate = true\nop = \"fill\"\n";
    fs::write(&job, format!("seconds = 1\n[[task]]\nname = \"a\"\n{map}{touch}")).unwrap();
    let words = ["compare", &job, "--machine", &machine, "--iterations", "1"];
    let once = stdout(&words);
    assert!(once.contains("a.fill"), "{once}");
    // The measured figures are part of the input now: the same file, the same bytes.
    assert_eq!(stdout(&words), once);
    // As a value, the figures replace those of a machine.
    let set = format!("machine.costs={}", done().costs());
    let other = ["run", "unmap", "--machine", "small-vm", "--set", "unmap.rounds=2", "--set", &set];
    assert!(!stdout(&other).is_empty());
}

#[test]
fn bad_input_is_refused_before_anything_is_measured() {
    let complaint = |words: &[&str]| {
        let output = highwater(&[&["calibrate", "--quiet"], words].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let errors = String::from_utf8(output.stderr).expect("text");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        errors
    };
    let dir = tempfile::tempdir().unwrap();
    let there = dir.path().join("there.toml").display().to_string();
    fs::write(&there, "mine").unwrap();
    let is_there = format!("error: {there}: is there already; --force replaces it\n");
    assert_eq!(complaint(&["-o", &there]), is_there);
    assert_eq!(fs::read_to_string(&there).unwrap(), "mine");
    let new = dir.path().join("new.toml").display().to_string();
    let error = complaint(&["-o", &new, "--base", "server-4ghz"]);
    assert!(error.starts_with("error: --base: "), "{error}");
    let error = complaint(&["-o", &new, "--dir", &there, "--seconds", "1"]);
    assert!(error.ends_with("there.toml: is no directory\n"), "{error}");
    assert!(complaint(&["--seconds", "61"]).contains("between 1 and 60"));
    assert!(!Path::new(&new).exists());
    // A file of costs is no machine, and the error says what it is for.
    let error = highwater(&["zoneinfo", "--quiet", "--machine", &done().costs()]);
    let error = String::from_utf8(error.stderr).unwrap();
    assert!(error.contains("this is a file of costs: a machine file takes it"), "{error}");
}

#[test]
fn works_run_on_the_model_and_here() {
    let dir = done().dir.path().display().to_string();
    let words = ["predict", "--machine", super::SMALL, "--dir", &dir, "--seconds", "1"];
    let table: Value = serde_json::from_str(&stdout(&[&words[..], &["--format", "json"]].concat()))
        .expect("the output is JSON");
    let rows = table.pointer("/0/rows").or(table.pointer("/rows")).expect("rows");
    let rows = rows.as_array().expect("a list");
    assert_eq!(rows.len(), 11, "{table}");
    let figure = |row: &Value, column: usize| {
        let cell = &row["cells"][column];
        cell["value"].as_f64().or(cell["number"].as_f64()).filter(|us| *us > 0.0)
    };
    for column in [0, 1] {
        let nr = rows.iter().filter(|row| figure(row, column).is_some()).count();
        assert!(nr >= 6, "{nr} of column {column}: {table}");
    }
    assert!(table.to_string().contains("apart by a factor of"), "{table}");
    // Without a machine file of this computer the command says how to make one.
    let output = highwater(&["predict", "--quiet"]);
    let error = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(2));
    let next = "there is no such file; `highwater capture --calibrate` writes one";
    assert!(error.starts_with("error: machine.toml: ") && error.contains(next), "{error}");
}
