//! Every command on the pages runs, or is known to run elsewhere.
//!
//! * `highwater ...`, also written `cargo run --release -- ...`, runs in its short form ([`short`]): what a reader
//!   waits minutes for has to be had in seconds here. Its exit status is 0; 1 for a `check` that may disagree.
//! * What a command writes (`-o FILE`, `--out DIR`, [`WRITTEN`]) is written elsewhere, and other commands of its page
//!   read it there.
//! * A file that a page shows is made from the page; one that stands for the reader's own is replaced
//!   ([`STAND_INS`]).
//! * What other commands name (a package, an example, a script, a folder) must be there.
//! * Checks of the model have steps of their own, in the gate and in `.ci/full` ([`has_own_step`]).
//! * [`NOT_RUN`] is the rest.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use crate::computed::has_own_step;
use crate::pages::{Block, Command, all_blocks};
use crate::root;
use crate::runs::{self, Done, exists, highwater};

/// Commands that are not run here, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("highwater check reference/linux-6.1/ab", "a part of the first command of its page"),
    ("highwater check reference/linux-6.1/scenarios", "a part of the first command of its page"),
    (
        "highwater compare 000 001 002 003 004 --quick",
        "the five one after the other: a step of .ci/full",
    ),
    (
        "highwater compare postgres-like --machine laptop --vary vm.swappiness=0,60,200 --vary machine.memory=8G,16G,32G --set job.var.buffers=4G --set job.var.tables=24G --set job.var.sorts=256M --set job.var.night=60000000 --set job.seconds=100 --iterations 3",
        "minutes: nine machines of gigabytes; the commands behind it run",
    ),
    (
        "highwater compare 000 --full --beyond",
        ".ci/full runs its quick form with the released program",
    ),
    ("highwater compare 001 --beyond", "likewise"),
    ("highwater compare 002 --beyond", "likewise"),
    ("highwater compare 004 --full --beyond", "likewise"),
    (
        "highwater compare 001 --quick --policy 6.1 --policy lottery.toml",
        "the algorithm is one that the reader adds",
    ),
    ("highwater calibrate", "measures the computer for 20 s: tests of the command do for a second"),
    ("highwater capture --calibrate", "likewise"),
    ("highwater predict", "likewise, with the machine that capture wrote"),
    ("highwater compare job.toml --machine mine.toml", "with a file that calibrate wrote"),
    ("highwater capture --seconds 5", "watches the computer: tests of the command do"),
    ("highwater capture --comm redis-server --seconds 10 --working-set 10", "watches a service"),
    ("highwater compare job.toml --machine machine.toml --quick", "of a capture, likewise"),
    ("highwater check static.json", "likewise"),
    ("highwater compare job.toml --machine machine.toml --policy 6.1 --policy 5.10", "likewise"),
    ("highwater zoneinfo --machine machine.toml", "likewise"),
    ("highwater explain job.toml --quick --worst 1", "likewise"),
    ("rustup target add x86_64-unknown-none", "not ours, and changes the computer"),
];

/// Commands whose short form takes the released program more than ten seconds, by words of that
/// form: `.ci/full` runs them, and the gate does not.
const LONG: &[&str] = &[
    "compare 000 --quick",
    "compare 004 --quick",
    "fit zipf-reader",
    "--ablate",
    "--beyond",
    "--vary vm.swappiness=0,60",
];

/// Files of the reader's own, and what they are here.
const STAND_INS: &[(&str, &str)] = &[
    ("trace.gz", "reference/linux-6.1/traces/unix-stream-16384.trace.gz"),
    ("X.trace.gz", "reference/linux-6.1/traces/netperf-tcp-16384.trace.gz"),
    ("sosreport-x/", "crates/highwater/tests/cli/posted/rhel-8"),
    ("posted.zoneinfo", "crates/highwater/tests/cli/posted/arm-64/proc/zoneinfo"),
    // Shown on the page about studies.
    ("my-experiment.toml", "my-study.toml"),
];

/// The program's arguments, if the line runs it. What follows a pipe is not ours.
pub(crate) fn arguments(line: &str) -> Option<Vec<String>> {
    let line = line.split(['|', '>']).next().unwrap_or_default();
    let words = line.strip_prefix("highwater ").or(line.strip_prefix("cargo run --release -- "))?;
    // Of a word that a shell must not read the quotes are the shell's.
    Some(words.split_whitespace().map(|word| word.trim_matches('"').to_owned()).collect())
}

/// The form in which a command runs here: studies, explanations and the benchmark in their quick
/// form, one seed, one simulation at a time, nothing written; a check as JSON, from which figures
/// are taken.
pub(crate) fn short(args: &[String]) -> Vec<String> {
    let mut short = without(full(args), "--iterations");
    short.retain(|word| word != "--full");
    // A directory of results says itself what was run.
    let is_dir = |word: &String| word.contains('/') && !word.ends_with(".toml");
    let is_again = short.get(1).is_some_and(is_dir);
    let is_long = matches!(
        short[0].as_str(),
        "compare" | "explain" | "trace" | "fit" | "bisect" | "bench" | "sweep"
    );
    if is_long && !is_again && !short.iter().any(|word| word == "--quick") {
        short.push("--quick".to_owned());
    }
    for setting in shorter(&short) {
        short.extend(["--set", *setting].map(str::to_owned));
    }
    if matches!(short[0].as_str(), "compare" | "explain" | "sweep") {
        short.extend(["--jobs", "1"].map(str::to_owned));
    }
    short
}

/// Settings that make a command shorter whose output no page shows: variations of the longest
/// study, and whole storms. A run with another seed stays comparable with that of the first.
fn shorter(args: &[String]) -> &'static [&'static str] {
    let line = args.join(" ");
    let varies = ["--sample-every", "--resume", "--set"];
    if line.starts_with("compare 003 ") && line.contains(" --seed ") {
        return &["unmap.rounds=1"];
    }
    if line.starts_with("compare 003 ") && args.iter().any(|word| varies.contains(&word.as_str())) {
        return &["unmap.rounds=1", "unmap.processes=[1]", "unmap.cold=0.5"];
    }
    if line.starts_with("sweep 003 ") {
        return &["iterations=1", "unmap.processes=[1]", "unmap.cold=0.5"];
    }
    let storms = ["trace 001 --quick --around-worst", "compare 001 --quick --policy 6.1 "];
    if storms.iter().any(|storm| line.starts_with(storm)) {
        return &["stutterp.ladder=[4]", "stutterp.seconds=1"];
    }
    &[]
}

/// The words without an option and the word that follows it.
fn without(mut words: Vec<String>, option: &str) -> Vec<String> {
    if let Some(at) = words.iter().position(|word| word == option) {
        words.drain(at..at + 2);
    }
    words
}

/// The command as it is written, but for where results are written and the form of a check's.
pub(crate) fn full(args: &[String]) -> Vec<String> {
    let mut full = without(args.to_vec(), "--out");
    if full[0] == "check" {
        full.extend(["--format", "json"].map(str::to_owned));
    }
    full
}

/// A word of a command, with the file in its place that a page shows or that stands for the
/// reader's own.
fn file(word: &str, blocks: &[Block]) -> Option<String> {
    if exists(word) {
        return None;
    }
    let stand_in = STAND_INS.iter().find(|(name, _)| *name == word).map(|(_, file)| *file);
    if stand_in.is_some_and(exists) {
        return stand_in.map(str::to_owned);
    }
    let word = stand_in.unwrap_or(word);
    let stem = word.strip_suffix(".toml")?;
    let is_name = |line: &String| {
        let name = line.strip_prefix("name = ").map(|name| name.trim_matches('"'));
        // Studies have a number before their name.
        let unnumbered =
            |name: &str| name.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-') == stem;
        name.is_some_and(|name| name == stem || unnumbered(name))
    };
    let is_it = |block: &&Block| block.language == "toml" && block.lines.iter().any(is_name);
    let block = blocks.iter().find(is_it)?;
    Some(runs::file(word, &block.lines.join("\n")).to_string_lossy().into_owned())
}

/// Options behind which a file or a directory stands that the command writes.
const WRITTEN: [&str; 4] = ["-o", "--machine-out", "--state-out", "--cgroupfs"];

/// The names behind these options.
fn outputs(line: &str) -> Vec<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let pairs = words.windows(2).filter(|pair| WRITTEN.contains(&pair[0]));
    pairs.map(|pair| pair[1]).collect()
}

/// Files and directories behind such an option are written where tests may write, and other
/// commands of the page find them there.
fn written(words: &mut [String], page: &str, blocks: &[Block]) {
    let commands = || blocks.iter().filter(|block| block.page == page).flat_map(Block::commands);
    for word in words {
        let writes = |command: Command| outputs(&command.line).contains(&word.as_str());
        if !word.starts_with('-') && commands().any(writes) {
            *word = runs::place(page, word).to_string_lossy().into_owned();
        }
    }
}

/// Where the results are that a command of the same page kept by this name.
fn kept(name: &str, page: &str, blocks: &[Block]) -> Option<String> {
    let keeps = |command: &Command| command.line.contains(&format!(" --out {name}"));
    let mut commands = blocks.iter().filter(|block| block.page == page).flat_map(Block::commands);
    let args = arguments(&commands.find(keeps)?.line)?;
    Some(highwater(&short(&args)).results.to_string_lossy().into_owned())
}

/// Runs a command of a page in its short form and holds it to what every command must do.
pub(crate) fn run(command: &Command, blocks: &[Block]) -> Arc<Done> {
    let args = arguments(&command.line).expect("a command of ours");
    let page = command.place.split(':').next().unwrap_or_default();
    let mut filled: Vec<String> =
        args.iter().map(|word| file(word, blocks).unwrap_or_else(|| word.clone())).collect();
    // One directory or two.
    let is_of_results = |name: &str| matches!(name, "report" | "explain" | "trace");
    for at in
        (1..args.len()).take_while(|&at| is_of_results(&args[0]) && !args[at].starts_with('-'))
    {
        match kept(&args[at], page, blocks) {
            Some(dir) => filled[at] = dir,
            None => assert_ne!(args[0], "report", "{}: no command keeps it", command.place),
        }
    }
    // What a command of the page wrote is there before another reads it.
    let commands = blocks.iter().filter(|block| block.page == page).flat_map(Block::commands);
    let mut writers = commands.filter(|other| {
        let files = outputs(&other.line);
        other.line != command.line && args.iter().any(|word| files.contains(&word.as_str()))
    });
    if let Some(writer) = writers.next() {
        run(&writer, blocks);
    }
    written(&mut filled, page, blocks);
    let done = highwater(&short(&filled));
    let may_disagree = args[0] == "check" && !args.iter().any(|word| word == "--min-agreement");
    let is_good = done.status == Some(0) || (may_disagree && done.status == Some(1));
    assert!(is_good, "{}: {}\n{:?} {}", command.place, command.line, done.status, done.stderr);
    assert!(!done.stdout.trim().is_empty(), "{}: {} prints nothing", command.place, command.line);
    done
}

/// What is wrong with a command that is not ours to run: something that it names is not there.
fn missing(command: &Command) -> Option<String> {
    let words: Vec<&str> = command.line.split_whitespace().collect();
    let after = |option: &str| {
        let at = words.iter().position(|word| *word == option)?;
        words.get(at + 1).copied()
    };
    let is_package = |name: &str| {
        let dirs = ["crates", "examples"].map(|dir| format!("{dir}/{name}/Cargo.toml"));
        dirs.into_iter().any(exists)
    };
    match words[0] {
        "cd" => (!exists(words[1])).then(|| format!("no folder {}", words[1])),
        "cargo" if command.dir.is_some() => {
            let dir = command.dir.as_deref().unwrap_or_default();
            let mut files = words.iter().filter(|word| word.ends_with(".toml"));
            let lost = files.find(|file| !exists(format!("{dir}/{file}")));
            lost.map(|file| format!("no {file} in {dir}"))
        }
        "cargo" => {
            let package = after("-p").filter(|name| !is_package(name));
            let example = after("--example")
                .filter(|name| !exists(format!("crates/highwater/examples/{name}.rs")));
            let is_known = ["test", "build", "run"].contains(&words[1]);
            package.or(example).map(|name| format!("no {name}")).or_else(|| {
                (!is_known).then(|| "not a command of cargo that is known here".to_owned())
            })
        }
        // The tests of the package install it.
        "pip" => (!exists(format!("{}/pyproject.toml", words[2])))
            .then(|| format!("no package {}", words[2])),
        script if script.starts_with("scripts/") => {
            (!exists(script)).then(|| format!("no {script}"))
        }
        _ => Some("nothing is known of such commands".to_owned()),
    }
}

/// A definition that a command of ours reads, and that is neither there nor shown nor written by the page.
fn lost_file(command: &Command, blocks: &[Block]) -> Option<String> {
    let page = command.place.split(':').next().unwrap_or_default();
    let commands = blocks.iter().filter(|block| block.page == page).flat_map(Block::commands);
    let written: Vec<String> = commands
        .flat_map(|other| outputs(&other.line).into_iter().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let args = arguments(&command.line)?;
    let mut files = args.iter().filter(|word| word.ends_with(".toml"));
    let is_lost = |word: &&String| {
        !exists(word.as_str()) && file(word, blocks).is_none() && !written.contains(word)
    };
    files
        .find(is_lost)
        .map(|word| format!("{}: {}: no page shows {word}", command.place, command.line))
}

/// Long ones first, so that two at a time end together.
fn rank(command: &Command) -> usize {
    let heavy = ["check", "compare", "explain"];
    let name = arguments(&command.line).map(|args| args[0].clone()).unwrap_or_default();
    heavy.iter().position(|heavy| *heavy == name).unwrap_or(heavy.len())
}

/// True if the command may take seconds.
fn simulates(command: &Command) -> bool {
    let long = [
        "bench", "bisect", "check", "compare", "explain", "fit", "replay", "report", "run",
        "swarm", "sweep", "trace",
    ];
    arguments(&command.line).is_some_and(|args| long.contains(&args[0].as_str()))
}

/// True if only the released program is fast enough for this command.
fn is_long(command: &Command) -> bool {
    let form = arguments(&command.line).map(|args| short(&args).join(" ")).unwrap_or_default();
    LONG.iter().any(|words| form.contains(words))
}

/// Runs these commands, each line once.
fn run_all(mut commands: Vec<Command>, blocks: &[Block]) {
    commands.sort_by_key(rank);
    let mut seen = BTreeSet::new();
    commands.retain(|command| seen.insert(command.line.clone()));
    std::thread::scope(|scope| {
        let start = |command| scope.spawn(move || run(command, blocks));
        let runs: Vec<_> = commands.iter().map(start).collect();
        let failed = runs.into_iter().filter_map(|run| run.join().err()).count();
        assert_eq!(failed, 0, "commands failed, see above");
    });
}

/// The commands on the pages that run here, and the others.
fn commands(blocks: &[Block]) -> (Vec<Command>, Vec<Command>) {
    let is_listed = |command: &Command| NOT_RUN.iter().any(|(line, _)| *line == command.line);
    let is_ours = |command: &Command| command.dir.is_none() && arguments(&command.line).is_some();
    let all = blocks.iter().flat_map(Block::commands).filter(|command| !is_listed(command));
    all.partition(is_ours)
}

#[test]
fn every_command_of_readme_and_book_runs() {
    let blocks = all_blocks();
    let all: Vec<Command> = blocks.iter().flat_map(Block::commands).collect();
    assert!(all.len() > 40, "the commands were found");
    for (line, why) in NOT_RUN {
        let is_used = all.iter().any(|command| command.line == *line);
        assert!(is_used, "no page has {line:?} any more ({why})");
    }
    for (word, _) in STAND_INS {
        let is_used = all.iter().any(|command| command.line.split(' ').any(|w| w == *word));
        assert!(is_used, "no page has a file {word} any more");
    }
    let (mut ours, others) = commands(&blocks);
    let wrong: Vec<String> = others
        .iter()
        .filter_map(|command| {
            missing(command).map(|why| format!("{}: {}: {why}", command.place, command.line))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let lost: Vec<String> = ours.iter().filter_map(|command| lost_file(command, &blocks)).collect();
    assert!(lost.is_empty(), "{}", lost.join("\n"));
    ours.retain(|command| !simulates(command));
    run_all(ours, &blocks);
}

#[test]
#[ignore = "simulates for a minute: a step of .ci/full"]
fn every_simulation_of_readme_and_book_runs() {
    let blocks = all_blocks();
    let (mut ours, _) = commands(&blocks);
    ours.retain(|command| simulates(command) && !is_long(command) && !has_own_step(&command.line));
    run_all(ours, &blocks);
}

#[test]
#[ignore = "simulates for minutes: .ci/full runs it with the released program"]
fn long_commands_of_readme_and_book_run() {
    let blocks = all_blocks();
    let (mut ours, _) = commands(&blocks);
    ours.retain(is_long);
    for words in LONG {
        let is_used = ours.iter().any(|command| {
            arguments(&command.line).is_some_and(|args| short(&args).join(" ").contains(words))
        });
        assert!(is_used, "no page has a command with {words:?} any more");
    }
    run_all(ours, &blocks);
}

/// CI runs the commands of programs that readers write, as `cargo run` would in their folders.
#[test]
fn commands_in_other_folders_are_run_by_ci() {
    let ci = fs::read_to_string(root().join(".ci/full")).expect("it is there");
    let commands: Vec<Command> = all_blocks().iter().flat_map(Block::commands).collect();
    let mut nr_found = 0;
    for command in commands.iter().filter(|command| command.dir.is_some()) {
        let dir = command.dir.as_deref().unwrap_or_default();
        let words = command.line.strip_prefix("cargo run --release -- ").expect("a program");
        let words: Vec<&str> = words.split(' ').collect();
        let in_ci = words.iter().map(|word| match word.ends_with(".toml") {
            true => format!("{dir}/{word}"),
            false => (*word).to_owned(),
        });
        let (in_ci, program) =
            (in_ci.collect::<Vec<_>>().join(" "), dir.rsplit('/').next().unwrap_or_default());
        let line = format!("target/release/{program} {in_ci}\n");
        assert!(ci.contains(&line), "{}: .ci/full does not run it: {line}", command.place);
        nr_found += 1;
    }
    assert!(nr_found > 0, "there are such commands");
}

#[test]
fn short_forms_are_short() {
    let short = |line: &str| short(&arguments(line).expect("ours")).join(" ");
    assert_eq!(short("highwater compare 001 --full"), "compare 001 --quick --jobs 1");
    assert_eq!(short("cargo run --release -- compare 002"), "compare 002 --quick --jobs 1");
    assert_eq!(
        short("highwater explain 001 --quick --folded - | inferno > why.svg"),
        "explain 001 --quick --folded - --jobs 1"
    );
    assert_eq!(short("highwater compare 3 --out out/3 --quick"), "compare 3 --quick --jobs 1");
    assert_eq!(short("highwater compare 1 --iterations 3"), "compare 1 --quick --jobs 1");
    assert_eq!(short("highwater bench"), "bench --quick");
    let set = "--set unmap.rounds=1";
    let seed = "compare 003 --quick --seed 2";
    assert_eq!(short(&format!("highwater {seed}")), format!("{seed} {set} --jobs 1"));
    let set = format!("{set} --set unmap.processes=[1] --set unmap.cold=0.5");
    let resumed = "compare 003 --quick --resume";
    assert_eq!(short(&format!("highwater {resumed}")), format!("{resumed} {set} --jobs 1"));
    let set = "--set stutterp.ladder=[4] --set stutterp.seconds=1";
    let storm = "trace 001 --quick --around-worst 1 -o x";
    assert_eq!(short(&format!("highwater {storm}")), format!("{storm} {set}"));
    assert_eq!(short("highwater check a b"), "check a b --format json");
    assert_eq!(short("highwater fit x --slo \"a.p90<1ms\""), "fit x --slo a.p90<1ms --quick");
    assert_eq!(arguments("cargo test"), None);
}
