//! Locks over which tasks sleep, as users meet them: who waits how long, and what `explain` says of it.

use super::stdout;

/// Three tasks that append to one file.
const APPENDERS: &str = r#"
title = "Three writers of one file"
seconds = 2
iterations = 1

[[file]]
name = "log"
size = "64M"

[[task]]
name = "w"
count = 3

[[task.phase]]
do = "append"
of = "log"
bytes = "16K"
forever = true
op = "rec"
"#;

/// Hogs that swap beside readers of a large file.
const STORM: &str = r#"
title = "Hogs and streamers on eight CPUs"
iterations = 1
seconds = 2

[[file]]
name = "big"
size = 4.0

[[task]]
name = "hog"
count = 12

[[task.phase]]
do = "map"
of = "heap"
size = "11%"

[[task.phase]]
do = "touch"
of = "heap"
write = true
pattern = "uniform"
rate = 20000
forever = true
op = "touch"

[[task]]
name = "stream"
count = 8

[[task.phase]]
do = "read"
of = "big"
bytes = "1M"
pattern = "uniform"
forever = true
op = "read"
"#;

fn with_job(text: &str, args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("job.toml");
    std::fs::write(&path, text).unwrap();
    let mut all = vec![args[0], path.to_str().unwrap()];
    all.extend(&args[1..]);
    stdout(&all)
}

/// The first number of the line that begins with these words.
fn row(text: &str, words: &[&str]) -> f64 {
    let line = text.lines().find(|line| {
        line.split_whitespace().zip(words).filter(|(found, wanted)| found == *wanted).count()
            == words.len()
    });
    let rest = line.and_then(|line| line.split_whitespace().nth(words.len()));
    rest.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{words:?} in {text}"))
}

/// A file's lock is handed to who waited for more than a tick (rules/sleeping-locks#rwsem-handoff). Up to 5.1 nobody hands
/// it over, and one task starves the others unless they preempt it.
#[test]
fn appenders_of_one_file_wait_tens_of_milliseconds() {
    let longest_us = |cpus, policy, sched: &str| {
        let sched = format!("machine.sched={sched}");
        let machine = ["--mem", "256M", "--cpus", cpus, "--policy", policy, "--set", &sched];
        row(&with_job(APPENDERS, &[&["run"], &machine[..]].concat()), &["Ops", "w.rec", "max"])
    };
    for policy in ["5.4", "5.10", "6.1"] {
        let us = longest_us("1", policy, "cfs");
        assert!((8_000.0..100_000.0).contains(&us), "{policy}: {us}");
    }
    assert!(longest_us("2", "6.1", "cfs") < 80_000.0);
    // Nobody starves under CFS.
    assert!(longest_us("1", "4.6", "cfs") < 80_000.0);
    assert!(longest_us("1", "4.6", "fifo") > 1_000_000.0);
}

/// A wait for a page ends with that page's input: operations sleep once for it, and the disk is blamed, not whoever happened
/// to unlock another page. Locks that are waited for are held for some time.
#[test]
fn sleepers_wake_for_their_own_page() {
    let args = ["explain", "--mem", "1G", "--cpus", "8", "--policy", "5.10"];
    let text = with_job(STORM, &args);
    let mut nr_waits = Vec::new();
    for line in text.lines().take_while(|line| !line.contains("where the time went")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [_, _, _, _, times, "waiting:", "a", "page's", "input,", "served", ..] = words[..] {
            nr_waits.push(times.parse::<u32>().expect("how often"));
        }
    }
    assert!(nr_waits.len() >= 4, "{text}");
    assert!(nr_waits.iter().all(|&nr| nr <= 2), "woken for other pages: {nr_waits:?}");
    assert!(!text.contains("woken by kswapd"), "it unlocked other pages");
    for lock in ["xa_lock", "swap_info->lock"] {
        let held_us = text.lines().find(|line| line.split_whitespace().nth(1) == Some(lock));
        let held_us = held_us.and_then(|line| line.split_whitespace().nth(8)).expect(lock);
        assert!(held_us.parse::<f64>().is_ok_and(|us| us > 0.0), "{lock} is held for {held_us} us");
    }
}
