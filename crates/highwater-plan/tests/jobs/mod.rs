//! Jobs from their text to their results.

mod files;
mod ready;
mod requests;

use std::sync::atomic::AtomicBool;

use highwater_core::config::preset;
use highwater_results::Document;

use highwater_files::machine_file::MachineFile;
use highwater_plan::experiment::{Experiment, Progress, RunPlan, run};
use highwater_runs::workload::Registry;

struct Nobody;

impl Progress for Nobody {
    fn cell_done(&self, _: usize, _: usize) {}
}

const MACHINE: &str = "name = \"m\"\n[[node]]\nmemory = \"64M\"\ncpus = \"0-1\"\n";

fn experiment(text: &str) -> Result<Experiment, String> {
    Experiment::parse(&Registry::default(), "x.toml", text).map_err(|error| error.to_string())
}

#[track_caller]
fn ran(text: &str) -> Document {
    let machine = MachineFile::parse("m.toml", MACHINE).unwrap();
    let mut experiment = experiment(text).unwrap();
    experiment.iterations = 1;
    let policies = vec![(preset("6.1").unwrap(), "6.1".to_owned())];
    run(&RunPlan::new(experiment, vec![machine], policies), &Nobody, &AtomicBool::new(false))
        .unwrap()
}

/// The error that ends a run.
#[track_caller]
fn failed(text: &str) -> String {
    let machine = MachineFile::parse("m.toml", MACHINE).unwrap();
    let policies = vec![(preset("6.1").unwrap(), "6.1".to_owned())];
    let plan = RunPlan::new(experiment(text).unwrap(), vec![machine], policies);
    run(&plan, &Nobody, &AtomicBool::new(false)).unwrap_err().to_string()
}

fn value(document: &Document, operation: &str) -> f64 {
    let values = document.runs[0].values(operation);
    assert_eq!(values.len(), 1, "{operation}: {:?}", document.runs[0].operations());
    values[0]
}

/// A job that sets a sysctl under a kernel without it says so.
#[test]
fn a_sysctl_that_the_kernel_does_not_have_is_noted() {
    let text = "[[task]]\nname = \"t\"\n[[task.phase]]\ndo = \"set\"\nof = \"vm.compaction_proactiveness\"\n\
                value = 0\n[[task.phase]]\ndo = \"compute\"\nus = 1.0\n";
    let noted = |policy: &str| {
        let machine = MachineFile::parse("m.toml", MACHINE).unwrap();
        let policies = vec![(preset(policy).unwrap(), policy.to_owned())];
        let plan = RunPlan::new(experiment(text).unwrap(), vec![machine], policies);
        let notes = run(&plan, &Nobody, &AtomicBool::new(false)).unwrap().runs.remove(0).notes;
        notes.iter().any(|note| {
            note == "Linux 4.5 does not have vm.compaction_proactiveness, which the job sets: ignored"
        })
    };
    assert!(noted("4.5") && !noted("6.1"));
}

/// Huge numbers of rounds are not steps; without marks they are never counted.
#[test]
fn many_rounds_are_not_counted_one_by_one() {
    let job = |more: &str| {
        let sleep = "[[task.phase]]\ndo = \"sleep\"\nus = 1000\n";
        let head = "seconds = 0.01\n[[task]]\nname = \"t\"\nrounds = 4611686018427387904\n";
        format!("{head}{}{more}", sleep.repeat(3))
    };
    let error = experiment(&job("[[task.phase]]\ndo = \"mark\"\nof = \"pass\"\n")).unwrap_err();
    assert!(error.ends_with("do: too many steps: at most 1000"), "{error}");
    let document = ran(&job("[[task.phase]]\ndo = \"compute\"\nus = 10\nop = \"work\"\n"));
    assert!(value(&document, "t.work p50") >= 10.0);
}

/// Results keep a job unchanged.
#[test]
fn jobs_that_come_with_the_program_survive_their_text() {
    let registry = Registry::default();
    let jobs = highwater_plan::experiment::jobs(&registry).unwrap();
    assert!(jobs.len() >= 16);
    for job in jobs {
        let definition = job.job.definition();
        let mut again = job.clone();
        again.set_params(toml::from_str(&definition.definition).unwrap()).unwrap();
        assert_eq!(again.job.definition(), definition, "{}", job.name);
        again.set_params(job.job.params().unwrap()).unwrap();
        assert_eq!(again.job.definition(), definition, "{}", job.name);
        assert!(!job.title.is_empty() && job.clone().quick().is_some(), "{}", job.name);
    }
}

#[test]
fn a_file_is_read_once_from_the_disk_and_then_from_memory() {
    let text = "[[file]]\nname = \"data\"\nsize = \"8M\"\n\
                [[task]]\nname = \"reader\"\nrounds = 3\n\
                [[task.phase]]\ndo = \"read\"\nof = \"data\"\nop = \"get\"\n";
    let document = ran(text);
    // Three times 128 blocks of 64 KiB.
    let per_second = value(&document, "reader.get rate");
    let seconds = document.runs[0].times.elapsed_ns as f64 / 1e9;
    assert!((per_second * seconds - 384.0).abs() < 8.0, "{per_second} {seconds}");
    assert_eq!(document.runs[0].counters.get("pgpgin"), 8 << 10);
    let (median, longest) =
        (value(&document, "reader.get p50"), value(&document, "reader.get max"));
    assert!(longest > 4.0 * median, "{median} {longest}");
}

#[test]
fn touches_fault_once() {
    let text = "[[task]]\nname = \"worker\"\ncount = 2\n\
                [[task.phase]]\ndo = \"map\"\nof = \"heap\"\nsize = \"4M\"\n\
                [[task.phase]]\ndo = \"touch\"\nof = \"heap\"\nwrite = true\nop = \"first\"\n\
                [[task.phase]]\ndo = \"touch\"\nof = \"heap\"\npattern = \"chase\"\nop = \"again\"\n\
                [[task.phase]]\ndo = \"unmap\"\nof = \"heap\"\n";
    let document = ran(text);
    assert_eq!(value(&document, "worker.first minor"), 2048.0);
    assert_eq!(value(&document, "worker.again minor"), 0.0);
}

#[test]
fn latency_counts_from_the_arrival() {
    // Each takes 2 ms, one comes each millisecond: the tenth has waited for nine.
    let job = |rate: &str| {
        format!(
            "[[task]]\nname = \"slow\"\n[[task.phase]]\ndo = \"sleep\"\nus = 2000\ntimes = 10\nop = \"it\"\n{rate}"
        )
    };
    let open = ran(&job("rate = 1000\narrivals = \"steady\"\n"));
    let closed = ran(&job(""));
    let (open, closed) = (value(&open, "slow.it max"), value(&closed, "slow.it max"));
    assert!((10_900.0..11_600.0).contains(&open), "{open}");
    assert!((2_000.0..2_200.0).contains(&closed), "{closed}");
}

#[test]
fn operations_under_way_at_once_do_as_much_in_less_time() {
    let job = |rest: &str| {
        format!(
            "[[file]]\nname = \"data\"\nsize = \"32M\"\n[[task]]\nname = \"t\"\n\
             [[task.phase]]\ndo = \"advise\"\nof = \"data\"\nadvice = \"random\"\n\
             [[task.phase]]\nof = \"data\"\nop = \"it\"\n{rest}\n"
        )
    };
    let read = "do = \"read\"\nbytes = \"4K\"\npattern = \"chase\"\ntimes = 2000\n";
    let one = ran(&job(read));
    let eight = ran(&job(&format!("{read}depth = 8")));
    for document in [&one, &eight] {
        // Each block is read, once.
        assert_eq!(document.runs[0].counters.get("pgpgin"), 8000);
    }
    let rate = |document| value(document, "t.it rate");
    assert!(rate(&eight) > 3.0 * rate(&one), "{} {}", rate(&eight), rate(&one));
    assert!(value(&eight, "t.it p50") >= value(&one, "t.it p50"));
    // An open loop has at most as many late operations as it has room for.
    let open = format!("{read}rate = 20000\narrivals = \"steady\"\n");
    let (one, eight) = (ran(&job(&open)), ran(&job(&format!("{open}depth = 16"))));
    let longest = |document| value(document, "t.it max");
    assert!(longest(&eight) * 20.0 < longest(&one), "{} {}", longest(&eight), longest(&one));
    // A log has each block once, too.
    let log = ran(&job("do = \"append\"\nbytes = \"8K\"\ndepth = 3"));
    assert_eq!(log.runs[0].counters.get("nr_dirtied"), 8192);
}

#[test]
fn a_task_that_exits_does_nothing_more() {
    let text = "[[task]]\nname = \"t\"\nrounds = 3\n\
                [[task.phase]]\ndo = \"map\"\nof = \"a\"\nsize = \"1M\"\n\
                [[task.phase]]\ndo = \"touch\"\nof = \"a\"\nwrite = true\nop = \"it\"\n\
                [[task.phase]]\ndo = \"exit\"\nonly = \"last\"\n\
                [[task.phase]]\ndo = \"touch\"\nof = \"a\"\nop = \"after\"\n";
    let document = ran(text);
    assert_eq!(value(&document, "t.it minor"), 768.0);
    let others = ran(&text.replace("only = \"last\"\n", ""));
    assert_eq!(value(&others, "t.it minor"), 256.0);
    let none = "t.after: none has ended".to_owned();
    assert!(others.runs[0].notes.contains(&none), "{:?}", others.runs[0].notes);
}

#[test]
fn tasks_wait_for_each_other_fork_and_end_with_the_job() {
    let text = "seconds = 5\n[[file]]\nname = \"dump\"\nsize = \"8M\"\n\
                [[task]]\nname = \"server\"\n\
                [[task.phase]]\ndo = \"map\"\nof = \"heap\"\nsize = \"8M\"\n\
                [[task.phase]]\ndo = \"touch\"\nof = \"heap\"\nwrite = true\n\
                [[task.phase]]\ndo = \"fork\"\nof = \"saver\"\n\
                [[task.phase]]\ndo = \"touch\"\nof = \"heap\"\nwrite = true\nop = \"set\"\n\
                [[task.phase]]\ndo = \"wait\"\nof = \"saver\"\nop = \"saved\"\n\
                [[task]]\nname = \"saver\"\nforked = true\n\
                [[task.phase]]\ndo = \"touch\"\nof = \"heap\"\n\
                [[task.phase]]\ndo = \"append\"\nof = \"dump\"\n\
                [[task.phase]]\ndo = \"fsync\"\nof = \"dump\"\n\
                [[task]]\nname = \"idler\"\nbackground = true\nrounds = 0\n\
                [[task.phase]]\ndo = \"sleep\"\nus = 1000\nop = \"nap\"\n";
    let document = ran(text);
    // Every page that the saver may still read is copied by the first write.
    assert_eq!(value(&document, "server.set minor"), 2048.0);
    assert!(value(&document, "server.saved max") > 1000.0);
    assert!(document.runs[0].counters.get("nr_written") >= 2048);
    let seconds = document.runs[0].times.elapsed_ns as f64 / 1e9;
    assert!(seconds < 4.0 && value(&document, "idler.nap rate") > 500.0, "{seconds}");
}

/// A task inherits the VMAs of its grandparent under their own names.
#[test]
fn memory_comes_down_through_forks() {
    let task = |name: &str, rest: &str| format!("[[task]]\nname = \"{name}\"\n{rest}");
    let map = |area: &str, size: &str| {
        format!("[[task.phase]]\ndo = \"map\"\nof = \"{area}\"\nsize = \"{size}\"\n")
    };
    let touch = |area: &str| {
        format!("[[task.phase]]\ndo = \"touch\"\nof = \"{area}\"\nwrite = true\nop = \"{area}\"\n")
    };
    let fork = |other: &str| format!("[[task.phase]]\ndo = \"fork\"\nof = \"{other}\"\n");
    let first = task("first", &(map("old", "1M") + &touch("old") + &fork("second")));
    let second =
        task("second", &("forked = true\n".to_owned() + &map("new", "2M") + &fork("third")));
    let third = task("third", &("forked = true\n".to_owned() + &touch("old") + &touch("new")));
    let document = ran(&(first.clone() + &second + &third));
    assert_eq!(value(&document, "third.old minor"), 256.0);
    assert_eq!(value(&document, "third.new minor"), 512.0);
    let twice = task("other", &fork("third"));
    let error = experiment(&(first.clone() + &second + &third + &twice)).unwrap_err();
    assert!(error.contains("forked: several tasks fork it"), "{error}");
}

#[test]
fn a_job_ends_with_its_time_and_is_the_same_again() {
    let text = "seconds = 0.5\n[[file]]\nname = \"data\"\nsize = \"200%\"\n\
                [[task]]\nname = \"reader\"\ncount = 3\n\
                [[task.phase]]\ndo = \"read\"\nof = \"data\"\nbytes = \"4K\"\npattern = \"zipf 0.9\"\nforever = true\nop = \"get\"\n\
                [[task]]\nname = \"hog\"\nbackground = true\n\
                [[task.phase]]\ndo = \"map\"\nof = \"heap\"\nsize = \"50%\"\n\
                [[task.phase]]\ndo = \"touch\"\nof = \"heap\"\nwrite = true\npattern = \"uniform\"\nforever = true\n";
    let (one, two) = (ran(text), ran(text));
    assert_eq!(one, two);
    let seconds = one.runs[0].times.elapsed_ns as f64 / 1e9;
    assert!((0.5..0.7).contains(&seconds), "{seconds}");
    assert!(one.runs[0].counters.get("pgsteal_kswapd") > 0);
}

#[test]
fn who_takes_too_much_is_killed_and_that_is_told() {
    let text = "[[task]]\nname = \"leak\"\ncount = 6\n[[task.phase]]\ndo = \"map\"\nof = \"heap\"\nsize = \"100%\"\n\
                [[task.phase]]\ndo = \"touch\"\nof = \"heap\"\nwrite = true\n";
    let document = ran(text);
    let notes = &document.runs[0].notes;
    let killed = |note: &String| {
        let words = ["was killed for its memory", "were killed for their memory"];
        note.starts_with("leak: ")
            && words.iter().any(|words| note.contains(&format!(" of 6 {words}, ")))
            && note.ends_with(" s")
    };
    assert!(notes.iter().any(killed), "{notes:?}");
    assert!(document.runs[0].counters.get("oom_kill") > 0);
}

/// Helpers wait for arrivals and do not take work early. They complete as many operations as a
/// single task, and the job ends at the same time.
#[test]
fn helpers_take_what_has_arrived() {
    let ran_with = |depth: u32| {
        let document = ran(&format!(
            "seconds = 1.0\n[[file]]\nname = \"data\"\nsize = \"4M\"\n[[task]]\nname = \"t\"\n[[task.phase]]\ndo = \"read\"\n\
             of = \"data\"\nbytes = \"4K\"\npattern = \"uniform\"\nrate = 20\narrivals = \"steady\"\nforever = true\ndepth = {depth}\n\
             op = \"op\"\n"
        ));
        (value(&document, "t.op rate"), document.runs[0].times.elapsed_ns)
    };
    let (alone, helped) = (ran_with(1), ran_with(50));
    assert!((alone.0 / helped.0 - 1.0).abs() < 0.06, "{alone:?} {helped:?}");
    assert!(helped.1 <= alone.1 + 60_000_000, "{alone:?} {helped:?}");
}

#[test]
fn helpers_are_tasks_of_which_there_is_a_most() {
    let phase = "[[task.phase]]\ndo = \"read\"\nof = \"data\"\n";
    let job = |count: u32, more: &str| {
        experiment(&format!(
            "[[file]]\nname = \"data\"\nsize = \"4M\"\n[[task]]\nname = \"t\"\ncount = {count}\n{phase}{more}\n"
        ))
    };
    assert!(job(4, "depth = 1024").is_ok());
    let error = job(5, "depth = 1024").unwrap_err();
    assert!(error.contains("depth: with 5120 tasks at once, helpers included: 4096"), "{error}");
    let error = job(1, "rate = 1e-9").unwrap_err();
    assert!(error.contains("rate: at least one in an hour"), "{error}");
}

/// Two tasks compute on one CPU: five steps of niceness are a factor of 1.25^5.
#[test]
fn who_is_nice_gets_less_of_a_cpu() {
    let task = |name: &str, nice: i8| {
        format!(
            "[[task]]\nname = \"{name}\"\ncpu = 0\nnice = {nice}\n[[task.phase]]\ndo = \"compute\"\nus = 1000\n\
             op = \"op\"\nseconds = 4.0\n"
        )
    };
    let rates = |a: i8, b: i8| {
        let document = ran(&format!("seconds = 4.0\n{}{}", task("a", a), task("b", b)));
        ["a.op", "b.op"].map(|name| value(&document, &format!("{name} rate")))
    };
    let [even, other] = rates(3, 3);
    assert!((even / other - 1.0).abs() < 0.02, "{even} {other}");
    let [less, more] = rates(5, 0);
    assert!((more / less / 1.25_f64.powi(5) - 1.0).abs() < 0.1, "{more} {less}");
    let text = task("a", 20);
    let error = experiment(&text).unwrap_err();
    assert!(error.contains("nice: must be between -20 and 19"), "{error}");
}

#[test]
fn what_a_machine_does_not_have_ends_the_run() {
    let task = "[[task]]\nname = \"t\"\n";
    let node = format!("{task}node = 3\n[[task.phase]]\ndo = \"sleep\"\nus = 1\n");
    assert_eq!(failed(&node), "job: t: node 3: machine m has 1");
    // As a program that does it.
    let unmapped = format!(
        "{task}[[task.phase]]\ndo = \"map\"\nof = \"a\"\nsize = \"1M\"\n[[task.phase]]\ndo = \"unmap\"\nof = \"a\"\n\
         [[task.phase]]\ndo = \"touch\"\nof = \"a\"\n"
    );
    let crashed = "t cannot touch a: it is not mapped then, as a program would crash (x.toml:11)";
    assert_eq!(failed(&unmapped), crashed);
    let job = experiment(&format!("{task}cpu = 5\n[[task.phase]]\ndo = \"sleep\"\nus = 1\n"));
    assert_eq!(job.unwrap().job.cpus_needed(), 6);
}

#[test]
fn what_cannot_be_is_told_with_its_line() {
    let task = "[[task]]\nname = \"t\"\n[[task.phase]]\n";
    let said = |phase: &str| experiment(&format!("{task}{phase}\n")).unwrap_err();
    let file = "x.toml";
    assert_eq!(
        experiment("[[file]]\nname = \"db\"\nsize = \"1M\"\n[[task]]\nname = \"t\"\n[[task.phase]]\ndo = \"read\"\nof = \"bd\"\n").unwrap_err(),
        format!("{file}:8: of: unknown file \"bd\"; there is db")
    );
    assert!(said("do = \"raed\"").starts_with("x.toml:4: "), "{}", said("do = \"raed\""));
    assert_eq!(said("do = \"sleep\""), "x.toml:3: us: how many microseconds?");
    assert_eq!(
        said("do = \"compute\"\nus = 1\npattern = \"uniform\""),
        "x.toml:6: pattern: this action does not have it"
    );
    assert!(
        said("do = \"touch\"\nof = \"heap\"").contains("x.toml:5: of: unknown mapping \"heap\"")
    );
    assert!(said("do = \"sleep\"\nus = 1\nrate = -1").contains("x.toml:6: rate: must be above 0"));
    assert!(said("do = \"sleep\"\nus = 1\ntimes = 2\nforever = true").contains("only one of"));
    assert!(said("do = \"compute\"\nus = 1e300").contains("x.toml:5: us: at most an hour"));
    assert!(said("do = \"sleep\"\nus = 1\nop = \"\"").contains("x.toml:6: op: must not be"));
    assert!(said("do = \"sleep\"\nus = 1\ndepth = 2").contains("x.toml:6: depth: this action"));
    assert!(said("do = \"exit\"\nseconds = 5").contains("x.toml:5: seconds: this action"));
    let shared = said("do = \"map\"\nof = \"a\"\nsize = \"1M\"\nshared = true");
    assert!(shared.starts_with("x.toml:7: shared: memory that tasks share is"), "{shared}");
    assert!(said("do = \"sleep\"\nus = 1\nzeros = true").contains("x.toml:6: zeros: this action"));
    let zeros = "[[file]]\nname = \"f\"\nsize = \"1M\"\n[[task]]\nname = \"t\"\n[[task.phase]]\ndo = \"map\"\nof = \"a\"\nfile = \"f\"\nzeros = true\n";
    assert!(experiment(zeros).unwrap_err().contains("x.toml:10: zeros: is for memory"));
    let deep = "[[file]]\nname = \"f\"\nsize = \"1M\"\n[[task]]\nname = \"t\"\n[[task.phase]]\ndo = \"read\"\nof = \"f\"\ndepth = 0\n";
    assert!(experiment(deep).unwrap_err().contains("x.toml:9: depth: must be between 1 and"));
    let twice = "[[file]]\nname = \"t\"\nsize = \"1M\"\n[[task]]\nname = \"t\"\nphase = []\n";
    assert!(
        experiment(twice)
            .unwrap_err()
            .starts_with("x.toml:5: name: \"t\" is empty, or there twice")
    );
    let never = "[[task]]\nname = \"t\"\nrounds = 0\n[[task.phase]]\ndo = \"wait\"\nof = \"t\"\n";
    assert!(experiment(never).unwrap_err().contains("x.toml:3: rounds: rounds that never end"));
    let spin = "[[task]]\nname = \"t\"\n[[task.phase]]\ndo = \"sleep\"\nus = 0\nforever = true\n";
    assert!(experiment(spin).unwrap_err().contains("x.toml:4: do: what takes no time"));
    let alone = "[[task]]\nname = \"t\"\nforked = true\n[[task.phase]]\ndo = \"sleep\"\nus = 1\n";
    assert!(experiment(alone).unwrap_err().contains("x.toml:3: forked: no task that begins"));
    assert!(
        said("do = \"sleep\"\nus = 1\ntimes = 0").contains("x.toml:6: times: must be at least 1")
    );
    assert!(experiment("seconds = 1\n").unwrap_err().contains("workload"));
}
