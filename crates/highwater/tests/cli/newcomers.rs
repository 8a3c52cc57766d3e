//! Mistakes of people who try the command for the first time: files with unusual names, jobs in which
//! nothing can happen, machines on which no kernel boots.

use std::fs;

use crate::{highwater, stdout};

/// A file in a directory of its own.
fn file(dir: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path = dir.path().join(name);
    fs::write(&path, text).expect("the file is written");
    path.display().to_string()
}

/// The one line of a command that is refused, without the directory.
fn complaint(dir: &tempfile::TempDir, args: &[&str]) -> String {
    let output = highwater(args);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
    let line = errors.lines().last().unwrap_or_default();
    let line = line.strip_prefix("error: ").expect("it is an error");
    line.replace(&format!("{}/", dir.path().display()), "")
}

/// A job of 0.05 s: what follows the seconds.
fn job(rest: &str) -> String {
    format!("seconds = 0.05\n{rest}")
}

const NAP: &str = "[[task]]\nname = \"b\"\nrounds = 0\n[[task.phase]]\ndo = \"sleep\"\nus = 1000\n";

#[test]
fn a_file_is_read_whatever_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "job", &job(NAP));
    assert!(!stdout(&["run", &path]).is_empty());
    // Called as files are that are not there, or without the end of its name.
    file(&dir, "nap.toml", &job(NAP));
    let at = |name: &str| dir.path().join(name).display().to_string();
    let missing = "cannot be read: no such file or directory";
    assert_eq!(
        complaint(&dir, &["run", &at("nap")]),
        format!("nap: {missing}; did you mean {}.toml?", "nap")
    );
    assert_eq!(complaint(&dir, &["run", &at("none")]), format!("none: {missing}"));
    assert_eq!(complaint(&dir, &["compare", &at("none.toml")]), format!("none.toml: {missing}"));
    assert_eq!(
        complaint(&dir, &["run", "leek"]),
        "no file and no workload \"leek\"; did you mean leak? `highwater list workloads` lists them"
    );
    assert_eq!(
        complaint(&dir, &["run", "001"]),
        "001-reclaim-throttle is an experiment, of the workload stutterp: `highwater compare 001` runs it"
    );
}

#[test]
fn a_definition_of_another_kind_is_called_by_it() {
    let dir = tempfile::tempdir().unwrap();
    let machine = file(&dir, "m", "[[node]]\nmemory = \"64M\"\ncpus = \"0\"\n");
    let policy = file(&dir, "p", "base = \"6.1\"\n");
    let of_jobs = "expected: an experiment file or a job file";
    let said = complaint(&dir, &["run", &machine]);
    assert!(said.starts_with("m: this is a machine file: ") && said.ends_with(of_jobs), "{said}");
    let said = complaint(&dir, &["compare", &policy]);
    assert!(said.starts_with("p: this is a policy file: ") && said.ends_with(of_jobs), "{said}");
    let said = complaint(&dir, &["run", "leak", "--policy", &machine]);
    assert!(said.ends_with("expected: a policy file"), "{said}");
}

#[test]
fn a_job_without_a_task_says_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let needs = "a job needs a [[task]] with a [[task.phase]]";
    for (text, said) in [
        ("name = \"e\"\n[job]\n", format!("e:2: job: there is no task in it: {needs}")),
        ("name = \"e\"\n", format!("e: nothing is to run: {needs}")),
        ("[[job.task]]\nname = \"x\"\n", "e:1: job: tasks of a job file are [[task]]".to_owned()),
        (
            "name = \"e\"\ntitle = \"\"\nworkload = \"job\"\niterations = 1\n[[policy]]\nname = \"6.1\"\n\
             label = \"6.1\"\n[[machine]]\nname = \"small-vm\"\n[job]\nseconds = 1\n",
            "e:10: job: there is no task in it".to_owned(),
        ),
    ] {
        let path = file(&dir, "e", text);
        let found = complaint(&dir, &["run", &path]);
        assert!(found.starts_with(&said), "{found}");
    }
}

#[test]
fn tasks_that_wait_for_each_other_are_named_with_their_line() {
    let dir = tempfile::tempdir().unwrap();
    let waiter = |name: &str, of: &str| {
        format!("[[task]]\nname = \"{name}\"\n[[task.phase]]\ndo = \"wait\"\nof = \"{of}\"\n")
    };
    let run = |text: &str| {
        let path = file(&dir, "w.toml", &job(text));
        complaint(&dir, &["run", &path])
    };
    let both = [waiter("a", "b"), waiter("b", "a")].concat();
    assert_eq!(run(&both), "a waits for b, which waits for a: none of them can end (w.toml:5)");
    assert_eq!(
        run(&waiter("a", "a")),
        "a waits for itself: it cannot end before it has ended (w.toml:5)"
    );
    // A trace names the line, too.
    let path = file(&dir, "w.toml", &job(&both));
    let trace = dir.path().join("t").display().to_string();
    let said = complaint(&dir, &["trace", &path, "-o", &trace]);
    assert_eq!(said, "a waits for b, which waits for a: none of them can end (w.toml:5)");
    // One that waits for what never ends gets a line.
    let path = file(&dir, "w.toml", &job(&(waiter("a", "b") + NAP)));
    let said = "a waited for b from 0.000 s to the end of the job, when b had not ended: its rounds never end";
    let text = stdout(&["run", &path]).replace("\n#  ", " ");
    assert!(text.contains(said), "{text}");
}

#[test]
fn a_job_in_which_nothing_is_done_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let reader = "[[file]]\nname = \"store\"\nsize = \"0\"\n[[task]]\nname = \"a\"\n[[task.phase]]\n\
                  do = \"read\"\nof = \"store\"\nop = \"get\"\n";
    let said = "a: nothing to read: file store begins empty, and no task writes it; give it a size, or append to it";
    let path = file(&dir, "r.toml", &job(reader));
    let nothing = "nothing was done in the 0.05 s of the job";
    assert_eq!(complaint(&dir, &["run", &path]), format!("{nothing}: {said} (r.toml:8)"));
    // Rounds without end of that.
    let endless = reader.replacen("name = \"a\"", "name = \"a\"\nrounds = 0", 1);
    let path = file(&dir, "r.toml", &job(&endless));
    let found = complaint(&dir, &["run", &path]);
    assert_eq!(found, format!("a never ends, and takes no time: {said} (r.toml:9)"));
    // Beside others that do something it is a line of the report.
    let path = file(&dir, "r.toml", &job(&format!("{reader}{NAP}op = \"nap\"\n")));
    let text = stdout(&["run", &path]).replace("\n#  ", " ");
    assert!(text.contains(said), "{text}");
    // An area of no size.
    let area = "[[task]]\nname = \"a\"\n[[task.phase]]\ndo = \"map\"\nof = \"heap\"\nsize = \"0\"\n\
                [[task.phase]]\ndo = \"touch\"\nof = \"heap\"\n";
    let path = file(&dir, "r.toml", &job(area));
    let output = highwater(&["run", &path]);
    let all = format!("{output:?}");
    assert!(all.contains("a: nothing to touch in heap: it has no pages"), "{all}");
}

#[test]
fn an_operation_that_cannot_be_explained_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let request = "[[task]]\nname = \"web\"\n[[task.phase]]\ndo = \"request\"\nop = \"get\"\nseconds = 0.02\n\
                   [[task.phase.step]]\ndo = \"compute\"\nus = 10\n[[task.phase.step]]\ndo = \"sleep\"\nus = 100\n\
                   op = \"answer\"\n[[task.phase]]\ndo = \"sleep\"\nus = 60000\n[[task.phase]]\ndo = \"sleep\"\n\
                   us = 1\nop = \"late\"\n";
    let path = file(&dir, "q.toml", &job(request));
    let trace = dir.path().join("t").display().to_string();
    let step = "--op web.answer: it is step 2 of request web.get: ask for --op web.get";
    let late = "--op web.late: web.late did not end within the run; web.get did";
    for (op, said) in [("web.answer", step), ("web.late", late)] {
        assert_eq!(complaint(&dir, &["explain", &path, "--op", op]), said);
        assert_eq!(complaint(&dir, &["trace", &path, "--op", op, "-o", &trace]), said);
    }
}

/// Of a terminal of 60 columns, and of none: trees have 80 then, and tables a page's 100.
#[test]
fn trees_of_causes_keep_to_the_width_and_lists_too() {
    let command = |columns: Option<&str>, args: &[&str]| {
        let mut run = std::process::Command::new(crate::program());
        run.current_dir(crate::root()).args(args).env_remove("COLUMNS");
        if let Some(columns) = columns {
            run.env("COLUMNS", columns);
        }
        String::from_utf8(run.output().expect("it runs").stdout).expect("text")
    };
    let widest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("kept").to_string_lossy().into_owned();
    stdout(&["explain", "leak", "--quick", "--worst", "2", "--out", &dir]);
    let explain = ["explain", &dir, "--worst", "2"];
    let page = command(None, &explain);
    let (trees, tables) = page.split_once("\nleaker.page: where").expect("trees, then tables");
    assert!(widest(trees) <= 80 && widest(tables) <= 100, "{page}");
    // The same words and figures, in the same order.
    for columns in ["60", "72", "200"] {
        let text = command(Some(columns), &explain);
        let (narrow, _) = text.split_once("\nleaker.page: where").expect("trees, then tables");
        assert!(widest(narrow) <= columns.parse().expect("a number"), "{narrow}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(narrow), words(trees));
        assert_eq!(command(Some(columns), &explain), text);
    }
    let narrow = command(Some("72"), &["list"]);
    assert!(widest(&narrow) <= 72 && narrow.contains("zipf-reader"), "{narrow}");
    assert!(widest(&stdout(&["list"])) <= 100);
}

#[test]
fn no_kernel_boots_in_less_than_4_mib() {
    let dir = tempfile::tempdir().unwrap();
    let least = "no kernel boots in less than 4 MiB, which its own image takes";
    let too_small = format!("2 MiB of memory: {least}");
    for command in ["zoneinfo", "vmstat"] {
        let said = complaint(&dir, &[command, "--mem", "2M"]);
        assert_eq!(said, format!("--mem 2M: {too_small}"));
    }
    // One minimum, not another one below it.
    for option in ["--mem 1M", "--numa 1M,cpus=0", "--mem 4K"] {
        let words: Vec<&str> = option.split(' ').collect();
        let said = complaint(&dir, &[&["buddyinfo"], &words[..]].concat());
        assert!(said.ends_with(least) && !said.contains("1028"), "{said}");
    }
    let machine = file(&dir, "m.toml", "[[node]]\nmemory = \"2M\"\ncpus = \"0\"\n");
    let said = complaint(&dir, &["run", "leak", "--machine", &machine]);
    assert_eq!(said, format!("--machine m.toml: {too_small}"));
    let said = complaint(&dir, &["run", "leak", "--set", "machine.memory=2M"]);
    assert_eq!(said, format!("machine small-vm: {too_small}"));
    let said = complaint(&dir, &["zoneinfo", "--mem", "3500K"]);
    assert_eq!(said, format!("--mem 3500K: 3500 KiB of memory: {least}"));
    assert!(stdout(&["zoneinfo", "--mem", "4M"]).contains("managed  768"));
}

#[test]
fn flags_in_files_are_1_and_0_too() {
    let dir = tempfile::tempdir().unwrap();
    let node = "[[node]]\nmemory = \"64M\"\ncpus = \"0\"\n[tunables]\n";
    let boot = |line: &str| {
        let path = file(&dir, "m.toml", &format!("{node}{line}\n"));
        highwater(&["zoneinfo", "--machine", &path])
    };
    assert!(boot("thp_zero_page = 0").status.success());
    assert_eq!(boot("cpusets = 1").stdout, boot("cpusets = true").stdout);
    let refused = boot("cpusets = 2");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("m.toml:5: cpusets: must be true or false; not 2"), "{said}");
    // Of jobs, and of policies.
    let text = job(&NAP.replacen("rounds = 0", "rounds = 0\nbackground = 0", 1));
    let path = file(&dir, "j.toml", &text);
    let policy = file(&dir, "p.toml", "base = \"6.1\"\n[watermark]\nboost = 0\n");
    stdout(&["run", &path, "--policy", &policy]);
    let path = file(&dir, "j.toml", &text.replace("background = 0", "background = 2"));
    let said = complaint(&dir, &["run", &path]);
    assert_eq!(said, "j.toml:5: background: must be true or false; not 2");
    stdout(&["run", "leak", "--set", "policy.watermark.boost=1", "--set", "job.seconds=0.01"]);
}

/// One arrival is served in no time: its rate is no figure of the phase, and the report says so.
#[test]
fn a_rate_of_rare_arrivals_says_the_time_it_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let rare = "[[task]]\nname = \"t\"\n[[task.phase]]\ndo = \"compute\"\nus = 10\nop = \"get\"\narrivals = \"steady\"\n";
    let of = |rate: &str| {
        let path =
            file(&dir, "rare.toml", &format!("seconds = 1\n{rare}rate = {rate}\nforever = true\n"));
        stdout(&["run", &path]).replace("\n#  ", " ")
    };
    let said = "t.get: the rate is over ";
    let rare = of("2");
    assert!(rare.contains(said) && rare.contains("the job asks for 2 arrivals a second"), "{rare}");
    let often = of("2000");
    assert!(!often.contains(said), "{often}");
}

/// A comparison proposes a next command that runs: with the file, and with the user's machine.
#[test]
fn the_next_command_is_one_that_runs() {
    let dir = tempfile::tempdir().unwrap();
    let text = "seconds = 0.05\n[[task]]\nname = \"t\"\n[[task.phase]]\ndo = \"compute\"\nus = 100\nforever = true\nop = \"get\"\n";
    let path = file(&dir, "mine.toml", text);
    let printed = stdout(&[
        "compare",
        &path,
        "--mem",
        "64M",
        "--policy",
        "5.4",
        "--policy",
        "6.1",
        "--iterations",
        "1",
    ]);
    let printed = printed.replace("\n#  ", " ");
    let (_, rest) = printed.split_once("next: ").expect("a next command");
    let (command, _) = rest.split_once(" says where").expect("its end");
    assert_eq!(command, format!("highwater explain {path} --mem 64M --policy 5.4 --policy 6.1"));
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    assert!(stdout(&words).contains("t.get"));
}
