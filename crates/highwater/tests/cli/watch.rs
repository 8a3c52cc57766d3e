//! `watch --at`: what a run looks like at a time.

use super::{SMALL, highwater, stdout};

const STEPS: [&str; 4] = ["--set", "stutterp.ladder=[4,5]", "--set", "stutterp.seconds=0.2"];

#[test]
fn a_look_is_printed_and_is_the_same_each_time() {
    let watch = ["watch", "001", "--quick", "--machine", SMALL, "--policy", "5.16-events"];
    let watch = [&watch[..], &STEPS, &["--step", "mmap-4", "--at", "1.51s"]].concat();
    let printed = stdout(&watch);
    let title = "001-reclaim-throttle: 5.16-events on small, seed 1, mmap-4: 1.510 s";
    assert_eq!(printed.lines().next(), Some(title), "{printed}");
    for word in ["Zones:", "node 0 DMA32", "inactive file", "scanned by kswapd", "on CPUs", "CPU "]
    {
        assert!(printed.contains(word), "{word}: {printed}");
    }
    assert!(printed.lines().all(|line| line.chars().count() <= 100), "{printed}");
    assert_eq!(stdout(&watch), printed);
    let sooner =
        [&watch[..watch.len() - 1], &["100ms", "--speed", "1000", "--every", "1ms"]].concat();
    assert!(stdout(&sooner).contains("mmap-4: 0.100 s\n"));
}

#[test]
fn what_cannot_be_watched_is_one_line() {
    for (more, reason) in [
        (&[][..], "--at TIME prints"),
        (&["--at", "1h"], "is no time such as 1.5s"),
        (&["--at", "999s"], "--at 999: the run has ended before that"),
        (&["--at", "1s", "--step", "mmap-9"], "no such step; there are mmap-4, mmap-5"),
        (&["--at", "1s", "--speed", "0"], "must be above 0"),
    ] {
        let watch = [&["watch", "001", "--quick", "--machine", SMALL], &STEPS[..], more].concat();
        let output = highwater(&watch);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let error = errors.lines().last().unwrap();
        assert!(output.status.code() == Some(2) && error.contains(reason), "{more:?}: {errors}");
        assert!(output.stdout.is_empty());
    }
}
