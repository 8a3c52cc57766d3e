//! `sweep` and `merge`: a plan run by many processes, in parts, with interruptions, has the bytes of one that was run at
//! once.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::resume::{Sweep as Job, files, is_same};
use super::{highwater, program};

/// Two points, two policies, three seeds: twelve units.
const PLAN: [&str; 10] = [
    "sweep",
    "--policy",
    "5.4",
    "--policy",
    "6.1",
    "--vary",
    "vm.swappiness=10,100",
    "--iterations",
    "3",
    "--jobs=1",
];

/// Commands over the job of a directory.
struct Place(Job);

impl Place {
    fn new() -> Place {
        Place(Job::new())
    }

    fn run(&self, command: &[&str], out: &str, more: &[&str]) -> Output {
        let args = self.0.args(command, out, more);
        highwater(&args.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Standard output and standard error of a command that must end with this status.
    fn ends(&self, status: i32, command: &[&str], out: &str, more: &[&str]) -> (String, String) {
        let output = self.run(command, out, more);
        let [printed, said] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert_eq!(output.status.code(), Some(status), "{more:?}: {printed}{said}");
        (printed, said)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    fn shards(&self, out: &str) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.path(out).join("units")) else { return Vec::new() };
        let paths = entries.map(|entry| entry.unwrap().path());
        let mut all: Vec<_> =
            paths.filter(|path| path.extension() == Some("parquet".as_ref())).collect();
        all.sort();
        all
    }

    /// Starts the plan and ends it by a signal when so many units are there.
    fn cut(&self, out: &str, units: usize, signal: &str) -> (Option<i32>, String) {
        let mut run = Command::new(program())
            .args(self.0.args(&PLAN, out, &[]))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let begun = Instant::now();
        while self.shards(out).len() < units && run.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(100), "nothing is kept");
            std::thread::sleep(Duration::from_millis(2));
        }
        let kill = Command::new("kill").args([signal, &run.id().to_string()]).status();
        assert!(kill.expect("kill runs").success());
        let output = run.wait_with_output().expect("it ends");
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }
}

#[cfg(unix)]
#[test]
fn parts_interruptions_and_merges_have_the_bytes_of_one_command() {
    let place = Place::new();
    let (table, said) = place.ends(0, &PLAN, "whole", &[]);
    assert!(said.contains("sweep: 2 points, 12 runs (1 machine, 2 policies, 3 seeds)"), "{said}");
    assert!(said.contains("whole: 0 of 12 runs are there already"), "{said}");
    assert_eq!(place.shards("whole").len(), 12);
    let whole = place.path("whole");

    // Killed and interrupted.
    for (units, signal, status) in
        [(1, "-KILL", None), (4, "-INT", Some(130)), (8, "-TERM", Some(143))]
    {
        let (code, said) = place.cut("cut", units, signal);
        // A computer that is fast may be done before the signal comes.
        if code != Some(0) {
            assert_eq!(code, status, "{signal}: {said}");
            if status.is_some() {
                assert!(said.contains("the same command continues"), "{said}");
            }
        }
        assert!(place.shards("cut").len() >= units);
    }
    assert_eq!(place.ends(0, &PLAN, "cut", &[]).0, table);
    is_same(&whole, &place.path("cut"));

    // Two processes with one directory: each a part, and a third with all of it.
    std::thread::scope(|scope| {
        for part in ["1/2", "2/2", "1/1"] {
            let place = &place;
            scope.spawn(move || place.ends(0, &PLAN, "shared", &["--quiet", "--shard", part]));
        }
    });
    is_same(&whole, &place.path("shared"));

    // Each its own directory, merged.
    let (printed, said) = place.ends(0, &PLAN, "one", &["--shard", "1/2"]);
    assert!(said.contains("one: 0 of 6 runs of part 1/2 are there already"), "{said}");
    assert!(printed.contains("6 of 12 runs are there, 6 are missing"), "{printed}");
    assert!(printed.contains("the other parts (1/2 is done), or highwater sweep "), "{printed}");
    assert!(!place.path("one/grid.csv").exists());
    let merge = |dirs: &[&str], out: &str| {
        let to = ["--out", out];
        let paths = dirs.iter().chain(&to).map(|word| match word.starts_with("--") {
            true => (*word).to_owned(),
            false => place.path(word).to_str().unwrap().to_owned(),
        });
        let words: Vec<String> = ["merge".to_owned()].into_iter().chain(paths).collect();
        let output = highwater(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let [printed, said] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), printed, said)
    };
    let (status, printed, _) = merge(&["one"], "merged");
    assert_eq!(status, Some(0));
    assert!(printed.contains("6 are missing") && printed.contains("highwater sweep "), "{printed}");
    place.ends(0, &PLAN, "two", &["--shard", "2/2", "--quiet"]);
    let (status, printed, said) = merge(&["one", "two"], "merged");
    assert_eq!((status, printed), (Some(0), table));
    assert!(
        said.contains("0 runs copied, 6 there already") && said.contains("6 runs copied, 0 there"),
        "{said}"
    );
    is_same(&whole, &place.path("merged"));

    // The results are those of compare.
    let compare = [&["compare"][..], &PLAN[1..]].concat();
    place.ends(0, &compare, "compared", &[]);
    for file in ["grid.csv", "report.txt", "point-0002/report.txt"] {
        let [a, b] = ["whole", "compared"].map(|dir| fs::read(place.path(dir).join(file)).unwrap());
        assert_eq!(a, b, "{file}");
    }
    // Another sweep cannot be merged in, nor a directory into itself.
    place.ends(0, &PLAN, "other", &["--seed", "7", "--shard", "1/12"]);
    let (status, _, said) = merge(&["one", "other"], "merged");
    assert_eq!(status, Some(2));
    assert!(said.contains("other/sweep.json: is of another sweep ("), "{said}");
    assert_eq!(merge(&["one"], "one").0, Some(2));
}

#[test]
fn a_wrong_file_is_found_and_its_unit_runs_again() {
    let place = Place::new();
    let (table, _) = place.ends(0, &PLAN, "out", &[]);
    let (before, shards) = (files(&place.path("out")), place.shards("out"));
    let (_, said) = place.ends(0, &PLAN, "out", &["--verify", "0.01"]);
    assert!(said.contains("1 unit verified: the same bytes"), "{said}");
    // Cut short.
    let bytes = fs::read(&shards[3]).unwrap();
    fs::write(&shards[3], &bytes[..bytes.len() / 2]).unwrap();
    let (printed, said) = place.ends(0, &PLAN, "out", &[]);
    assert!(said.contains(&format!("{} is cut short", shards[3].display())), "{said}");
    assert!(said.contains("the unit runs again") && said.contains("11 of 12 runs"), "{said}");
    assert_eq!((printed, files(&place.path("out"))), (table, before.clone()));
    // Another value in its rows, in a file that is whole and of the right unit: only running it again tells.
    let forged = forge(&fs::read(&shards[0]).unwrap());
    fs::write(&shards[0], forged).unwrap();
    let (printed, _) = place.ends(1, &PLAN, "out", &["--verify", "1"]);
    assert!(
        printed.contains("1 of 12 units that ran again is not what the file holds"),
        "{printed}"
    );
    assert!(printed.contains(&shards[0].display().to_string()), "{printed}");
    fs::remove_file(&shards[0]).unwrap();
    place.ends(0, &PLAN, "out", &[]);
    assert_eq!(files(&place.path("out")), before);
}

/// The bytes of a shard with another value in its rows: whole, and of the right unit.
fn forge(bytes: &[u8]) -> Vec<u8> {
    let mut forged = bytes.to_vec();
    // Rows come before the texts, and the file begins with a mark.
    forged[200] ^= 1;
    forged
}

#[test]
fn a_directory_of_something_else_is_refused_before_anything_runs() {
    let place = Place::new();
    let one = [&PLAN[..], &["--shard", "1/12"]].concat();
    place.ends(0, &one, "out", &[]);
    let (_, said) = place.ends(2, &PLAN, "out", &["--seed", "9"]);
    assert!(said.contains("there is another sweep in it (highwater compare "), "{said}");
    assert!(said.contains("name another directory, or --force replaces"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    // Forced, it keeps the units of the first one.
    let other = [&one[..], &["--seed", "9", "--force"]].concat();
    place.ends(0, &other, "out", &[]);
    assert_eq!(place.shards("out").len(), 2);
    place.ends(0, &["compare", "--policy", "6.1", "--iterations", "1"], "results", &[]);
    let (_, said) = place.ends(2, &one, "results", &[]);
    assert!(said.contains("there are results of another command in it; --force"), "{said}");
    place.ends(0, &one, "results", &["--force"]);
    assert!(!place.path("results/results.json").exists());
    fs::create_dir(place.path("foreign")).unwrap();
    for (text, expected) in [("{", "sweep.json: EOF"), ("{\"schema\": 1}", "sweep.json: ")] {
        fs::write(place.path("foreign/sweep.json"), text).unwrap();
        let (_, said) = place.ends(2, &one, "foreign", &[]);
        assert!(said.contains(expected) && said.lines().count() == 1, "{said}");
    }
    for (option, value) in
        [("--shard", "0/2"), ("--shard", "3/2"), ("--verify", "0"), ("--verify", "1.5")]
    {
        let (_, said) = place.ends(2, &PLAN, "none", &[option, value]);
        assert!(said.contains(option) && said.lines().count() == 1, "{said}");
    }
    assert!(!place.path("none").exists());
}

/// A plan file says what options say, with its own directory for files, and takes no further ones.
#[test]
fn a_plan_file_is_the_same_sweep() {
    let place = Place::new();
    place.ends(0, &PLAN, "options", &["--quiet"]);
    let plan = "experiment = \"sweep.toml\"\nmem = \"64M\"\ncpus = 2\npolicies = [\"5.4\", \"6.1\"]\nseeds = 3\n\
                jobs = 1\n[vary]\nvm.swappiness = [10, 100]\n";
    fs::write(place.path("plan.toml"), plan).unwrap();
    let [file, out] =
        ["plan.toml", "file"].map(|name| place.path(name).to_str().unwrap().to_owned());
    let run = |more: &[&str]| highwater(&[&["sweep", &*file, "--out", &*out][..], more].concat());
    assert_eq!(run(&["--jobs", "2"]).status.code(), Some(0));
    is_same(&place.path("options"), &place.path("file"));
    let refused = |more: &[&str], expected: &str| {
        let output = run(more);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected) && said.lines().count() == 1, "{said}");
    };
    refused(&["--seed", "2"], "--seed: ");
    refused(&["--set", "vm.swappiness=1"], "says what runs; write it there");
    fs::write(&file, plan.replace("seeds = 3", "seds = 3")).unwrap();
    refused(&[], "plan.toml:5: seds: unknown field `seds`; did you mean seeds");
    fs::write(&file, plan.replace("jobs = 1", "host = \"native\"")).unwrap();
    refused(&[], "\"native\" measures this computer; a sweep keeps simulated runs only");
    fs::write(&file, plan).unwrap();
    let compared = highwater(&["compare", &file]);
    let said = String::from_utf8(compared.stderr).unwrap();
    assert!(said.contains("this is a plan: `highwater sweep FILE` runs it"), "{said}");
}
