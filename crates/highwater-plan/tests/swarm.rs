//! Random jobs on random machines under random kernels: each is read from its text, runs, is audited, and runs again with the
//! same bytes.
//!
//! ```sh
//! HIGHWATER_SWARM_FIRST=0 HIGHWATER_SWARM_COUNT=500 cargo test --release -p highwater-plan --test all -- --ignored many_jobs
//! ```

use std::fmt::Write;
use std::sync::atomic::AtomicBool;

use highwater_core::config::{PRESETS, preset};
use highwater_results::Document;
use highwater_sim::rng::Stream;

use highwater_files::machine_file::MachineFile;
use highwater_plan::experiment::{Experiment, Progress, RunPlan, run};
use highwater_runs::workload::Registry;

struct Nobody;

impl Progress for Nobody {
    fn cell_done(&self, _: usize, _: usize) {}
}

/// A job and where it runs.
struct Drawn {
    job: String,
    machine: String,
    policy: &'static str,
}

struct Draw(Stream);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    fn is(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }

    fn pattern(&mut self) -> String {
        let patterns = [
            "sequential",
            "stride 7",
            "except 5",
            "uniform",
            "zipf 0.9",
            "hot 0.1 0.9",
            "drift 0.2 3",
            "jump 0.1 50",
            "chase",
        ];
        self.one(&patterns).to_owned()
    }

    fn machine(&mut self) -> String {
        let mut text = "name = \"drawn\"\n".to_owned();
        let (nodes, cpus) = (1 + self.below(2), 1 + self.below(3));
        for node in 0..nodes {
            let memory = 24 + self.below(100);
            let (first, last) = (node * cpus, (node + 1) * cpus - 1);
            writeln!(text, "[[node]]\nmemory = \"{memory}M\"\ncpus = \"{first}-{last}\"").unwrap();
        }
        text
    }

    fn job(&mut self) -> String {
        let seconds = 0.2 + self.below(10) as f64 / 10.0;
        let mut text = format!("title = \"drawn\"\nseconds = {seconds}\n");
        text.push_str(
            "[[disk]]\nname = \"own\"\nmodel = \"ssd\"\nsize = \"16G\"\nchannels = 1\n\
             write-bytes-per-s = 60_000_000\nsource = \"drawn\"\n",
        );
        let nr_files = self.below(4);
        for file in 0..nr_files {
            let (size, memory) = (1 + self.below(60), self.is(20));
            // Some files grow, some of these without a bound; some are on the job's own disk.
            let size = if self.is(25) { "0".to_owned() } else { format!("{size}M") };
            let room = if memory || self.is(20) { "room = \"64M\"\n" } else { "" };
            let disk = if !memory && self.is(25) { "disk = \"own\"\n" } else { "" };
            let text = &mut text;
            writeln!(
                text,
                "[[file]]\nname = \"f{file}\"\nsize = \"{size}\"\nmemory = {memory}\n{room}{disk}"
            )
            .unwrap();
        }
        let nr_tasks = 1 + self.below(4);
        for task in 0..nr_tasks {
            let is_forked = task > 0 && self.is(20);
            let (count, rounds) = (1 + self.below(3), self.below(4));
            let count = if is_forked { 1 } else { count };
            writeln!(text, "[[task]]\nname = \"t{task}\"\ncount = {count}\nrounds = {rounds}")
                .unwrap();
            if is_forked {
                writeln!(text, "forked = true").unwrap();
            }
            if self.is(20) {
                writeln!(text, "background = true").unwrap();
            }
            if self.is(20) {
                writeln!(text, "nice = {}", self.below(40) as i64 - 20).unwrap();
            }
            self.phases(&mut text, nr_files, rounds == 0);
        }
        // The forks are known now: a forked task's parent is the task before it.
        let forks = |task: u64| {
            text.contains(&format!("name = \"t{task}\"\n")) && {
                let at = text.find(&format!("name = \"t{task}\"\n")).unwrap_or(0);
                let end = text[at + 5..].find("[[task]]").map_or(text.len(), |end| at + 5 + end);
                text[at..end].contains("forked = true")
            }
        };
        let forked: Vec<u64> = (1..nr_tasks).filter(|&task| forks(task)).collect();
        for task in forked {
            let phase = format!("[[task.phase]]\ndo = \"fork\"\nof = \"t{task}\"\n");
            let at = text.find(&format!("[[task]]\nname = \"t{task}\"\n")).unwrap_or(text.len());
            text.insert_str(at, &phase);
        }
        text
    }

    fn phases(&mut self, text: &mut String, nr_files: u64, is_endless: bool) {
        let mut phase = |lines: String| write!(text, "[[task.phase]]\n{lines}\n").unwrap();
        if is_endless {
            phase("do = \"sleep\"\nus = 500".to_owned());
        }
        // VMAs, and whether each maps a file.
        let mut areas: Vec<(u64, bool)> = Vec::new();
        for _ in 0..1 + self.below(6) {
            let op = if self.is(50) { "\nop = \"op\"" } else { "" };
            let file = (nr_files > 0).then(|| self.below(nr_files.max(1)));
            let area = (!areas.is_empty()).then(|| areas[self.below(areas.len() as u64) as usize]);
            let pattern = self.pattern();
            let rate = if self.is(20) { "\nrate = 20000\nseconds = 0.05" } else { "" };
            let depth = if self.is(20) { "\ndepth = 3" } else { "" };
            match (self.below(17), file, area) {
                (0..4, ..) | (4..7, _, None) => {
                    let area = self.below(3);
                    // The first file is truncated, which would end a task that maps it.
                    let of_file = file.filter(|file| *file > 0 && self.is(25));
                    areas.retain(|(known, _)| *known != area);
                    areas.push((area, of_file.is_some()));
                    let what = match of_file {
                        Some(file) => {
                            format!("file = \"f{file}\"\nshared = {}", self.is(50))
                        }
                        None => {
                            let advice = self.one(&["normal", "hugepage", "nohugepage"]);
                            let size = 1 + self.below(40);
                            format!("size = \"{size}M\"\nadvice = \"{advice}\"")
                        }
                    };
                    phase(format!("do = \"map\"\nof = \"a{area}\"\n{what}"));
                    phase(format!("do = \"touch\"\nof = \"a{area}\"\nwrite = true{op}"));
                }
                (4..6, _, Some((area, _))) => {
                    let how = self.one(&["write = true", "update = true", "write = false"]);
                    let lines =
                        format!("do = \"touch\"\nof = \"a{area}\"\n{how}\npattern = \"{pattern}\"");
                    phase(format!("{lines}{op}{rate}"));
                }
                (6, _, Some((area, of_file))) => {
                    let advice = self.one(&["dontneed", "cold", "pageout", "normal", "free"]);
                    // Only for memory that no other task shares.
                    let advice = if of_file && advice == "free" { "cold" } else { advice };
                    let page = if self.is(50) { "\npattern = \"except 4\"" } else { "" };
                    phase(format!(
                        "do = \"advise\"\nof = \"a{area}\"\nadvice = \"{advice}\"{page}"
                    ));
                }
                (7..9, Some(file), _) => {
                    let action = self.one(&["read", "write"]);
                    let bytes = self.one(&["4K", "64K", "1M"]);
                    // A file without a bound is written sequentially, a fixed number of times.
                    let how = match (action, self.is(30)) {
                        ("write", _) => {
                            format!("pattern = \"sequential\"\ntimes = {}", 1 + self.below(30))
                        }
                        (_, true) => "pattern = \"follow\"".to_owned(),
                        _ => format!("pattern = \"{pattern}\""),
                    };
                    let rate = if action == "write" { "" } else { rate };
                    let lines =
                        format!("do = \"{action}\"\nof = \"f{file}\"\nbytes = \"{bytes}\"\n{how}");
                    phase(format!("{lines}{op}{rate}{depth}"));
                    if self.is(30) {
                        phase(format!(
                            "do = \"advise\"\nof = \"f{file}\"\nadvice = \"dontneed\"\nbehind = true"
                        ));
                    }
                }
                (9, Some(file), _) => {
                    phase(format!(
                        "do = \"append\"\nof = \"f{file}\"\nbytes = \"8K\"\ntimes = 40{op}{depth}"
                    ));
                    phase(format!("do = \"fsync\"\nof = \"f{file}\"{op}"));
                }
                (10, ..) => phase("do = \"compact\"".to_owned()),
                (11, Some(_), _) => {
                    let file = 0;
                    let size = self.one(&["", "size = \"1M\"\n"]);
                    phase(format!("do = \"truncate\"\nof = \"f{file}\"\n{size}{op}"));
                }
                (12, Some(file), _) => phase(format!("do = \"delete\"\nof = \"f{file}\"{op}")),
                (13..15, ..) => {
                    let gfp = self.one(&["atomic", "nowait", "kernel"]);
                    let (order, count) = (self.below(4), 1 + self.below(50));
                    let us = self.below(3000);
                    phase(format!(
                        "do = \"alloc\"\ngfp = \"{gfp}\"\norder = {order}\ncount = {count}\nus = {us}{op}{rate}"
                    ));
                }
                (15, Some(file), Some((area, _))) => {
                    let step = "[[task.phase.step]]";
                    phase(format!(
                        "do = \"request\"\ntimes = 30{op}{depth}\n{step}\ndo = \"touch\"\nof = \"a{area}\"\npattern = \"uniform\"\n\
                         {step}\ndo = \"read\"\nof = \"f{file}\"\nbytes = \"16K\"\npattern = \"{pattern}\"\ntimes = 2\n\
                         {step}\ndo = \"append\"\nof = \"f{file}\"\nbytes = \"4K\"\nop = \"step\""
                    ));
                }
                _ => phase("do = \"compute\"\nus = 300".to_owned()),
            }
        }
    }
}

fn drawn(seed: u64) -> Drawn {
    let mut draw = Draw(Stream::new(seed, "jobs"));
    let policy = PRESETS[draw.below(PRESETS.len() as u64) as usize].0;
    Drawn { machine: draw.machine(), job: draw.job(), policy }
}

fn ran(seed: u64, drawn: &Drawn) -> Result<Document, String> {
    let job = Experiment::parse(&Registry::default(), "drawn.toml", &drawn.job);
    let job = job.map_err(|error| error.to_string())?;
    let machine = MachineFile::parse("drawn-machine.toml", &drawn.machine);
    let machine = machine.map_err(|error| error.to_string())?;
    let policy = preset(drawn.policy).ok_or("a preset")?;
    let plan = RunPlan::new(job, vec![machine], vec![(policy, drawn.policy.to_owned())]);
    // This includes the audit.
    let ran = run(&RunPlan { seed, ..plan }, &Nobody, &AtomicBool::new(false));
    ran.map_err(|error| error.to_string())
}

fn check(seed: u64) {
    let drawn = drawn(seed);
    let fails = |what: &str| -> ! {
        let Drawn { job, machine, policy } = &drawn;
        panic!("seed {seed}: {what}\nunder {policy}, on\n{machine}\n{job}")
    };
    match (ran(seed, &drawn), ran(seed, &drawn)) {
        (Ok(one), Ok(two)) if one == two => {}
        (Ok(_), Ok(_)) => fails("two runs differ"),
        // All tasks are in the background, so the job ends at its start.
        (Err(one), Err(two)) if one == two && one.starts_with("nothing was done in the ") => {}
        (Err(error), _) | (_, Err(error)) => fails(&error),
    }
}

/// In the ninth, kswapd preempts a fork between two tables.
#[test]
fn a_few_random_jobs() {
    (0..9).for_each(check);
}

/// `HIGHWATER_SWARM_FIRST` and `_COUNT` say which.
#[test]
#[ignore = "as many as somebody has time for"]
fn many_jobs() {
    let number = |name: &str, default: u64| -> u64 {
        std::env::var(name).ok().and_then(|word| word.parse().ok()).unwrap_or(default)
    };
    let first = number("HIGHWATER_SWARM_FIRST", 0);
    let count = number("HIGHWATER_SWARM_COUNT", 200);
    std::thread::scope(|scope| {
        for part in 0..2 {
            scope.spawn(move || (first..first + count).skip(part).step_by(2).for_each(check));
        }
    });
    println!("{count} random jobs from {first} on");
}
