//! Requests of several steps; the kernel's own allocations; errors of running jobs.

use super::*;

const HEAD: &str = "[[task]]\nname = \"t\"\n[[task.phase]]\ndo = \"request\"\nop = \"request\"\n";

fn sleeps(us: u32, rest: &str) -> String {
    format!("[[task.phase.step]]\ndo = \"sleep\"\nus = {us}\n{rest}\n")
}

#[test]
fn a_request_is_all_of_its_steps() {
    let steps = sleeps(2000, "op = \"first\"") + &sleeps(1000, "times = 3\nop = \"others\"");
    let document = ran(&format!("{HEAD}times = 10\n{steps}"));
    let p50 = |op: &str| value(&document, &format!("t.{op} p50"));
    assert!((5_000.0..5_600.0).contains(&p50("request")), "{}", p50("request"));
    assert!((2_000.0..2_200.0).contains(&p50("first")), "{}", p50("first"));
    assert!((3_000.0..3_400.0).contains(&p50("others")), "{}", p50("others"));
}

#[test]
fn latency_of_a_request_counts_from_its_arrival() {
    let job = |rest: &str| {
        let steps = sleeps(1000, "") + &sleeps(1000, "");
        ran(&format!("{HEAD}times = 10\nrate = 1000\narrivals = \"steady\"\n{rest}{steps}"))
    };
    // Each takes 2 ms, one comes each millisecond: the tenth has waited for nine.
    let longest = value(&job(""), "t.request max");
    assert!((10_900.0..12_000.0).contains(&longest), "{longest}");
    // Two at once keep up.
    let longest = value(&job("depth = 3\n"), "t.request max");
    assert!((2_000.0..2_600.0).contains(&longest), "{longest}");
}

#[test]
fn steps_go_on_from_request_to_request_and_count_for_it() {
    let text = format!(
        "[[file]]\nname = \"f\"\nsize = \"8M\"\n[[file]]\nname = \"log\"\nsize = \"0\"\n\
         [[task]]\nname = \"t\"\n[[task.phase]]\ndo = \"map\"\nof = \"m\"\nsize = \"1M\"\n\
         {}times = 8\n[[task.phase.step]]\ndo = \"read\"\nof = \"f\"\nbytes = \"1M\"\n\
         [[task.phase.step]]\ndo = \"touch\"\nof = \"m\"\nwrite = true\ntimes = 4\n\
         [[task.phase.step]]\ndo = \"append\"\nof = \"log\"\nbytes = \"4K\"\n",
        HEAD.split_once("\"t\"\n").unwrap().1
    );
    let document = ran(&text);
    let counters = &document.runs[0].counters;
    assert_eq!((counters.get("pgpgin"), counters.get("nr_dirtied")), (8 << 10, 8));
    assert_eq!(value(&document, "t.request minor"), 32.0);
    assert_eq!(document, ran(&text));
}

/// The file has something new every 10 ms, the request comes every millisecond.
#[test]
fn a_step_that_does_nothing_is_no_operation() {
    let text = format!(
        "seconds = 0.2\n[[file]]\nname = \"log\"\nsize = \"0\"\n[[task]]\nname = \"w\"\n\
         [[task.phase]]\ndo = \"append\"\nof = \"log\"\nbytes = \"4K\"\nrate = 100\narrivals = \"steady\"\n\
         times = 10\nop = \"put\"\n{HEAD}rate = 1000\narrivals = \"steady\"\ntimes = 100\n\
         [[task.phase.step]]\ndo = \"read\"\nof = \"log\"\nbytes = \"4K\"\npattern = \"follow\"\nop = \"tail\"\n"
    );
    let document = ran(&text);
    let nr = |op: &str| {
        let all = &document.runs[0].histograms;
        all.iter().find(|histogram| histogram.event == op).map_or(0, |histogram| histogram.total)
    };
    assert_eq!((nr("w.put"), nr("t.request")), (10, 100));
    assert!((8..=10).contains(&nr("t.tail")), "{}", nr("t.tail"));
    assert!(value(&document, "t.tail p50") > 0.1);
}

#[test]
fn what_cannot_be_of_a_request_is_told_with_its_line() {
    let said = |rest: &str| experiment(&format!("{HEAD}{rest}")).unwrap_err();
    assert!(said("").starts_with("x.toml:4: do: a request needs a step"), "{}", said(""));
    let rate = said(&sleeps(1, "rate = 5"));
    assert!(rate.starts_with("x.toml:9: rate: is of the whole request"), "{rate}");
    let fork = said("[[task.phase.step]]\ndo = \"exit\"\n");
    assert!(fork.starts_with("x.toml:7: do: must be a separate phase"), "{fork}");
    let unknown = said("[[task.phase.step]]\ndo = \"read\"\nof = \"nowhere\"\n");
    assert!(unknown.starts_with("x.toml:8: of: unknown file"), "{unknown}");
    let step = experiment(
        "[[task]]\nname = \"t\"\n[[task.phase]]\ndo = \"sleep\"\nus = 1\n[[task.phase.step]]\ndo = \"sleep\"\nus = 1\n",
    );
    assert!(step.unwrap_err().contains("step: this action does not have it"));
}

#[test]
fn allocations_that_fail_are_counted_and_those_that_do_not_are_freed() {
    let job = |keys: &str| {
        format!(
            "[[task]]\nname = \"t\"\n[[task.phase]]\ndo = \"alloc\"\n{keys}\n[[task.phase]]\ndo = \"sleep\"\nus = 1000\n"
        )
    };
    // 80 MiB on a machine of 64.
    let most = |gfp: &str| job(&format!("gfp = \"{gfp}\"\ncount = 20480\nus = 1000000"));
    let failed = |gfp: &str| value(&ran(&most(gfp)), "t.alloc failed");
    let (atomic, nowait) = (failed("atomic"), failed("nowait"));
    assert!((4_096.0..8_000.0).contains(&atomic), "{atomic}");
    assert!(nowait > atomic, "atomic requests have a part of the reserves: {nowait} {atomic}");
    // Freed before the next comes: any number can be had.
    let document = ran(&job(
        "gfp = \"atomic\"\norder = 8\nus = 500\nrate = 1000\narrivals = \"steady\"\ntimes = 128\nop = \"get\"",
    ));
    assert_eq!(value(&document, "t.get failed"), 0.0);
    let error = experiment(&job("order = 11")).unwrap_err();
    assert!(error.contains("x.toml:5: order: at most 10"), "{error}");
}

#[test]
fn receive_buffers_come_from_softirq_context() {
    let job = |keys: &str| {
        format!(
            "seconds = 0.5\n[[task]]\nname = \"nic\"\nsoftirq = true\ncpu = 1\nbackground = true\n[[task.phase]]\n{keys}\n\
             [[task]]\nname = \"worker\"\ncpu = 1\n[[task.phase]]\ndo = \"compute\"\nus = 1000\ntimes = 300\nop = \"work\"\n"
        )
    };
    let receive = "do = \"alloc\"\ngfp = \"atomic\"\norder = 3\ncount = 64\nus = 2000\nrate = 2000\nforever = true\nop = \"receive\"";
    let document = ran(&job(receive));
    // It does not wait for a CPU that computes, but takes CPU time from the running task.
    let longest = value(&document, "nic.receive max");
    assert!(longest < 200.0, "{longest}");
    assert_eq!(value(&document, "nic.receive failed"), 0.0);
    let work = value(&document, "worker.work p50");
    assert!(work > 1_003.0, "{work}");
    let said = |keys: &str| experiment(&job(keys)).unwrap_err();
    let waits = said(&receive.replace("atomic", "kernel"));
    assert!(waits.contains("gfp: an interrupt never waits: atomic or nowait"), "{waits}");
    assert!(said("do = \"map\"\nof = \"a\"\nsize = \"1M\"").contains("do: an interrupt may alloc"));
}

#[test]
fn a_map_that_is_refused_says_what_is_missing() {
    let map = "[[task]]\nname = \"redis-server\"\n\n[[task.phase]]\ndo = \"map\"\nof = \"heap\"\nsize = \"331M\"\n";
    let error = failed(map);
    assert!(
        error.starts_with("redis-server cannot map 331 MiB: overcommit refuses it on a machine with 64 MiB of memory and ")
            && error.ends_with(" MiB of swap (x.toml:5)"),
        "{error}"
    );
    let error = failed("[[task]]\nname = \"t\"\nrounds = 0\n[[file]]\nname = \"f\"\nsize = \"0\"\n[[task.phase]]\ndo = \"read\"\nof = \"f\"\n".replace("[[file]]\nname = \"f\"\nsize = \"0\"\n", "").replacen("[[task]]", "[[file]]\nname = \"f\"\nsize = \"0\"\n[[task]]", 1).as_str());
    assert!(
        error.starts_with(
            "t never ends, and takes no time: t: nothing to read: file f begins empty"
        ) && error.ends_with("(x.toml:8)"),
        "{error}"
    );
}
