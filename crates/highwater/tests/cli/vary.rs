//! `compare --vary`.

use std::fs;

use super::{SMALL, highwater, stdout};

const ARGS: [&str; 8] =
    ["compare", "003", "--quick", "--machine", SMALL, "--vary", "unmap.rounds=2,3", "--vary"];

#[test]
fn a_grid_is_one_table_however_many_jobs_there_are() {
    let of = |jobs: &str| {
        let more = ["policy.watermark.boost=true,false", "--jobs", jobs, "--format", "csv"];
        stdout(&[&ARGS[..], &more].concat())
    };
    let (one, two) = (of("1"), of("2"));
    assert_eq!(one, two);
    let mut lines = one.lines();
    let header = lines.next().unwrap();
    assert!(
        header.starts_with("unmap.rounds,policy.watermark.boost,machine,policy,metric,unit,"),
        "{header}"
    );
    let points: std::collections::BTreeSet<Vec<&str>> =
        lines.map(|line| line.split(',').take(2).collect()).collect();
    assert_eq!(points.len(), 4);
    // A point is what --set makes of it.
    let plain = stdout(&[
        "compare",
        "003",
        "--quick",
        "--machine",
        SMALL,
        "--set",
        "unmap.rounds=3",
        "--format",
        "csv",
    ]);
    let mean_of = |policy: &str| {
        let of = one.lines().find(|line| {
            line.starts_with("3,true,") && line.contains(policy) && line.contains(",remap,")
        });
        of.unwrap().split(',').nth(8).unwrap().parse::<f64>().unwrap()
    };
    let observed: Vec<f64> = plain
        .lines()
        .filter(|line| line.contains("6.1-mark-accessed") && line.contains(",remap,"))
        .map(|line| line.rsplit(',').next().unwrap().parse().unwrap())
        .collect();
    let mean = observed.iter().sum::<f64>() / observed.len() as f64;
    assert!((mean - mean_of("6.1-mark-accessed")).abs() <= 1e-9 * mean, "{mean} {observed:?}");
}

#[test]
fn a_grid_says_what_matters_and_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("grid");
    let out = out.to_str().unwrap();
    let text = stdout(&[&ARGS[..], &["vm.swappiness=0,60", "--out", out]].concat());
    assert!(text.contains("What matters how much"), "{text}");
    assert!(text.contains("unmap.rounds") && text.contains("vm.swappiness"), "{text}");
    let csv = std::fs::read_to_string(format!("{out}/grid.csv")).unwrap();
    assert!(csv.lines().count() > 4);
    let report = stdout(&["report", &format!("{out}/point-0004")]);
    assert!(report.contains("set for this run: unmap.rounds=3 vm.swappiness=60"), "{report}");
    let again = highwater(&[&ARGS[..], &["vm.swappiness=0,60", "--out", out]].concat());
    assert_eq!(again.status.code(), Some(2));
}

#[test]
fn what_cannot_be_varied_is_refused_before_anything_runs() {
    let error = |more: &[&str]| {
        let output = highwater(&[&["compare", "003", "--quick"], more].concat());
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(error(&["--vary", "vm.swappines=1,2"]).contains("did you mean"), "a key of --set");
    assert!(
        error(&["--vary", "vm.swappiness=1,999"])
            .contains("--vary vm.swappiness=999: tunables.swappiness: 999")
    );
    assert!(error(&["--vary", "vm.swappiness"]).contains("must be KEY=VALUE,VALUE,.."));
    assert!(error(&["--vary", "vm.swappiness=1,2", "--format", "json"]).contains("--out DIR"));
    assert!(error(&["--vary", "vm.swappiness=1", "--fail-if-worse", "1"]).contains("--vary"));
}

/// `mem`, `cpus`, `swap` and `disk` are keys too: each value gives a separate machine.
#[test]
fn what_options_are_called_can_be_varied() {
    let (job, machine) = (
        "crates/highwater/tests/cli/fit/records.toml",
        "crates/highwater/tests/cli/fit/noswap-machine.toml",
    );
    let compare = |machine: &[&str], vary: &str, more: &[&str]| {
        let args = ["compare", job, "--policy", "6.1", "--set", "job.seconds=0.3", "--vary", vary];
        highwater(&[&args[..], machine, more].concat())
    };
    let csv = ["--format", "csv", "--counter", "pswpout"];
    let counts = |machine: &[&str], vary: &str| -> Vec<(String, f64)> {
        let output = compare(machine, vary, &csv);
        let text = String::from_utf8(output.stdout).unwrap();
        let row = |line: &str| {
            let fields: Vec<&str> = line.split(',').collect();
            (fields[5] == "pswpout").then(|| (fields[0].to_owned(), fields[7].parse().unwrap()))
        };
        text.lines().filter_map(row).collect()
    };
    let own = ["--machine", machine];
    // Of 103 MiB with a heap of 64 and a file of 48: without swap nothing is swapped out.
    let swap = counts(&["--machine", machine, "--set", "mem=103M"], "swap=0,1M,64M");
    assert_eq!(
        swap.iter().map(|(value, _)| value.as_str()).collect::<Vec<_>>(),
        ["0", "1M", "64M"]
    );
    assert!(swap[0].1 == 0.0 && swap[1].1 > 0.0 && swap[2].1 > swap[1].1, "{swap:?}");
    let same = counts(&["--machine", machine, "--swap", "64M"], "mem=103M,1G");
    assert_eq!((same[0].1, same[1].1), (swap[2].1, 0.0));
    let cpus = compare(&own, "cpus=1,2", &csv);
    assert!(
        cpus.status.success() && String::from_utf8(cpus.stdout).unwrap().contains("\n2,noswap")
    );
    let disks = compare(&["--mem", "128M", "--cpus", "2"], "disk=nvme,hdd", &csv);
    assert!(disks.status.success(), "{}", String::from_utf8_lossy(&disks.stderr));
    let error = |machine: &[&str], vary: &str| {
        let output = compare(machine, vary, &[]);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let disk = error(&own, "disk=nvme,hdd");
    assert!(disk.contains("--set machine.disk.d.model=nvme changes one"), "{disk}");
    let twice = error(&["--machine", machine, "--swap", "8M"], "swap=16M,64M");
    assert!(twice.contains("--vary swap=16M: there is --swap, too"), "{twice}");
    let both = error(&["--machine", machine, "--set", "machine.memory=1G"], "mem=512M,2G");
    assert!(both.contains("--vary mem=512M: there is --set machine.memory=1G, too"), "{both}");
    assert!(error(&own, "memory=1G,2G").contains("did you mean"));
}

/// Machines are a factor: one column, by the name in reports, in tables, in `grid.csv` and in what `report` reads again.
#[test]
fn machines_can_be_varied() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("grid");
    let out = out.to_str().unwrap();
    let small = fs::read_to_string(super::root().join(SMALL)).unwrap();
    let tiny = dir.path().join("tiny.toml");
    fs::write(&tiny, small.replace("name = \"small\"", "name = \"tiny\"")).unwrap();
    let machines = format!("machine={SMALL},{}", tiny.display());
    let args = ["compare", "003", "--quick", "--iterations", "1", "--set", "unmap.processes=[1]"];
    let grid = ["--vary", "unmap.rounds=1,2", "--vary", &machines, "--out", out];
    let text = stdout(&[&args[..], &grid].concat());
    // The slowest first, wherever it stands on the command line.
    let heading = |line: &&str| line.starts_with("operation") && line.contains(" machine ");
    let heading = text.lines().find(heading).unwrap_or_else(|| panic!("{text}"));
    let words: Vec<&str> = heading.split_whitespace().take(3).collect();
    assert_eq!(words, ["operation", "machine", "unmap.rounds"]);
    assert!(text.contains("What matters how much"), "{text}");
    let csv = fs::read_to_string(format!("{out}/grid.csv")).unwrap();
    assert!(csv.starts_with("machine,unmap.rounds,policy,metric,"), "{csv}");
    let places: std::collections::BTreeSet<&str> = csv
        .lines()
        .skip(1)
        .map(|line| line.match_indices(',').nth(1).map_or(line, |(at, _)| &line[..at]))
        .collect();
    assert_eq!(places.into_iter().collect::<Vec<_>>(), ["small,1", "small,2", "tiny,1", "tiny,2"]);
    assert_eq!(stdout(&["report", out]), text);
    // The next command of a point names its machine.
    let point = stdout(&["report", &format!("{out}/point-0004")]);
    assert!(point.contains("unmap.rounds=2"), "{point}");
    let error = |more: &[&str]| {
        let output = highwater(&[&args[..], more].concat());
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let both = error(&["--vary", "machine=laptop,server", "--mem", "1G"]);
    assert!(
        both.contains("--vary machine: there is --mem, too: a point has one machine"),
        "{both}"
    );
    let unknown = error(&["--vary", "machine=laptop,laptp"]);
    assert!(
        unknown.contains("--vary machine=laptp: unknown machine \"laptp\"; did you mean laptop?")
    );
    let same = error(&["--vary", &format!("machine={SMALL},./{SMALL}")]);
    assert!(
        same.contains(&format!("is called small, as {SMALL} is; give one of them another")),
        "{same}"
    );
    assert!(error(&["--vary", "seed=1,2"]).contains("--iterations N sets their number"));
    assert!(error(&["--vary", "policy=5.4,6.1"]).contains("name each with --policy"));
    let samples = error(&["--vary", "unmap.rounds=1,2", "--sample-every", "5", "--out", out]);
    assert!(samples.contains("--sample-every is of one comparison"), "{samples}");
}
