use highwater_report::{Format, PAGE_WIDTH};

use super::*;

const HEAD: &str = " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n 1 0 0 1 1 1 9 9 1 1 1 1 1 1 98 0 0\n";

/// Rows of `r b free si so id wa`.
fn rows(rows: &[[u64; 7]]) -> String {
    let row = |[r, b, free, si, so, id, wa]: &[u64; 7]| {
        let us = 100 - id - wa;
        format!(" {r} {b} 0 {free} 48036 4637128 {si} {so} 0 0 521 341 {us} 0 {id} {wa} 0\n")
    };
    HEAD.to_owned() + &rows.iter().map(row).collect::<String>()
}

fn of(text: &str) -> OverTime {
    OverTime::of(&VmstatLog::parse("t", text.as_bytes()).unwrap(), &Options::default())
}

const QUIET: [u64; 7] = [1, 0, 9_000_000, 0, 0, 90, 0];

fn printed(own: &OverTime) -> String {
    let text = Format::Terminal.tables(&own.tables(), PAGE_WIDTH);
    assert!(text.lines().all(|line| line.chars().count() <= PAGE_WIDTH), "{text}");
    text
}

#[test]
fn swap_traffic_is_an_interval_with_peak_and_mean() {
    let swapping = |si| [1, 0, 900_000, si, 1024, 90, 0];
    let own = of(&rows(&[QUIET, swapping(0), swapping(3072), QUIET, QUIET, QUIET, swapping(0)]));
    let [first, second] = &own.intervals[..] else { panic!("{:?}", own.intervals) };
    assert_eq!((first.from.seconds, first.to.seconds), (Some(1.0), Some(3.0)));
    assert_eq!((first.peak, first.mean), (4096.0 * 1024.0, 2560.0 * 1024.0));
    assert_eq!(second.length_s, Some(1.0));
    assert_eq!(
        own.sentence(),
        "Memory was short for 3 s of 7 s, worst from 1 s to 3 s (swap traffic: 2560 kB/s on average, up to 4096 kB/s)."
    );
    assert!(printed(&own).contains("an average since boot"));
    assert_eq!(own.json()["intervals"][0]["kind"], "swap");
    assert_eq!(own.json()["from"]["stamp"], Value::Null);
}

#[test]
fn short_pauses_do_not_end_an_interval() {
    let swapping = [1, 0, 900_000, 0, 8, 90, 0];
    let own = of(&rows(&[swapping, QUIET, QUIET, swapping]));
    assert_eq!(own.intervals.len(), 1);
    assert_eq!(own.intervals[0].mean, 4.0 * 1024.0);
}

#[test]
fn disks_and_cpus() {
    let own = of(&rows(&[QUIET, [1, 4, 9_000_000, 0, 0, 20, 60], [5, 0, 9_000_000, 0, 0, 0, 0]]));
    let kinds: Vec<Kind> = own.intervals.iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [Kind::Disk, Kind::Cpu]);
    assert!(own.sentence().starts_with("Disks were short for 1 s of 3 s, worst from 1 s to 2 s"));
    let log = VmstatLog::parse("t", rows(&[[5, 0, 1, 0, 0, 40, 0]]).as_bytes()).unwrap();
    let known = OverTime::of(&log, &Options { cpus: Some(4), ..Options::default() });
    assert_eq!(known.intervals.iter().filter(|it| it.kind == Kind::Cpu).count(), 1);
}

#[test]
fn nothing_short_is_said_so() {
    let own = of(&rows(&[QUIET; 5]));
    assert_eq!(
        own.sentence(),
        "Nothing was short in 5 s: no swap traffic, no waits for disks, a CPU to spare."
    );
    let own = of(&rows(&[QUIET, [1, 0, 60_000, 0, 0, 90, 0], [1, 0, 61_000, 0, 0, 90, 0]]));
    assert!(
        own.sentence().ends_with("free memory was at its floor of 59 MiB, which reclaim holds.")
    );
}

#[test]
fn pressure_is_the_difference_of_totals() {
    let lines = |time: &str, some: u64, full: u64| {
        format!(
            "{time}\nmemory\nsome avg10=0.00 avg60=0.00 avg300=0.00 total={some}\n\
             full avg10=0.00 avg60=0.00 avg300=0.00 total={full}\n"
        )
    };
    let own = of(&(lines("2026-11-27 18:00:00", 100, 0)
        + &lines("2026-11-27 18:00:02", 1_000_100, 0)
        + &lines("2026-11-27 18:00:04", 1_000_100, 0)));
    let [only] = &own.intervals[..] else { panic!("{:?}", own.intervals) };
    assert_eq!((only.kind, only.peak), (Kind::MemorySome, 50.0));
    assert_eq!(only.to.stamp.as_deref(), Some("2026-11-27 18:00:02"));
    assert!(own.sentence().starts_with("Memory was short for 2 s of 4 s"), "{}", own.sentence());
    // Without times, only avg10 is left.
    let own = of(
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\nsome avg10=40.00 avg60=0.00 avg300=0.00 total=9\n",
    );
    assert_eq!((own.intervals[0].length_s, own.intervals[0].peak), (None, 40.0));
    assert_eq!(own.json()["length_s"], Value::Null);
    printed(&own);
}

#[test]
fn both_kinds_of_samples_share_their_times() {
    let psi = |total: u64| format!("memory some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n");
    let row = " 1 0 0 9000000 1 1 0 0 0 0 0 0 10 0 90 0 0\n";
    let own = of(&format!("{HEAD}{}{row}{}{row}{}", psi(0), psi(300_000), psi(300_000)));
    assert_eq!(own.intervals[0].kind, Kind::MemorySome);
    assert_eq!((own.intervals[0].from.seconds, own.intervals[0].peak), (Some(0.0), 30.0));
}

#[test]
fn every_cut_of_a_text_is_read() {
    let text = rows(&[QUIET, [9, 9, 5, 9, 9, 0, 90]])
        + "io full avg10=3.00 avg60=0.00 avg300=0.00 total=1\n";
    for end in 0..text.len() {
        if let Ok(log) = VmstatLog::parse("t", &text.as_bytes()[..end]) {
            let own = OverTime::of(&log, &Options { interval_s: 0.0, ..Options::default() });
            let _ = (own.sentence(), own.tables(), own.json());
        }
    }
    let huge =
        format!("{HEAD} {m} {m} {m} {m} {m} {m} {m} {m} 0 0 0 0 0 0 0 {m} {m}\n", m = u64::MAX);
    printed(&of(&huge));
}

#[test]
fn rows_after_a_date_share_its_stamp() {
    let row = " 1 0 0 9000000 1 1 0 5 0 0 0 0 10 0 90 0 0\n";
    let psi = "memory some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
    let own = of(&format!("18:00:00\n{HEAD}{row}{row}{row}18:00:10\n{psi}18:00:20\n{psi}"));
    let swap = &own.intervals[0];
    assert_eq!((swap.kind, swap.length_s), (Kind::Swap, Some(3.0)));
    assert_eq!(swap.to.stamp.as_deref(), Some("18:00:00 +2 s"));
    assert_eq!(own.length_s, Some(21.0));
    // A row before the first stamp: all times are counted in rows.
    let own = of(&format!("{HEAD}{row}18:00:00\n{psi}{row}18:00:01\n{psi}"));
    assert_eq!((own.length_s, own.intervals[0].to.stamp.as_ref()), (Some(2.0), None));
}
