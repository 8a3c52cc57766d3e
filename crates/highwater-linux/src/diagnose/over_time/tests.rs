use highwater_report::render::wrapped;
use highwater_report::{Format, PAGE_WIDTH};

use serde_json::json;

use super::super::window::{Time, Window};
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
    with(text, &Options::default()).unwrap()
}

fn with(text: &str, options: &Options) -> Result<OverTime, String> {
    OverTime::of(&VmstatLog::parse("t", text.as_bytes()).unwrap(), options)
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
        "Memory was short for 3 s of 7 s, worst from 1 s to 3 s (swap traffic: 2560 kB/s on average, up to 4096 kB/s at 3 s)."
    );
    let text = printed(&own);
    assert!(text.contains("the average since boot; vmstat -y prints none"), "{text}");
    assert!(text.contains("swap traffic of 18 kB/s"), "{text}");
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
    assert!(own.sentence().starts_with("Disks were short for 1 s of 3 s, from 1 s to 2 s"));
    let text = rows(&[[5, 0, 1, 0, 0, 40, 0]]);
    let known = with(&text, &Options { cpus: Some(4), ..Options::default() }).unwrap();
    assert_eq!(known.intervals.iter().filter(|it| it.kind == Kind::Cpu).count(), 1);
}

#[test]
fn nothing_short_is_said_so() {
    let own = of(&rows(&[QUIET; 5]));
    assert_eq!(
        own.sentence(),
        "Nothing was short in 5 s: no swapping out, no waits for disks, a CPU to spare."
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
    assert!(
        own.sentence()
            .starts_with("Memory was short: some tasks were stalled for 1.00 s of 4 s, from "),
        "{}",
        own.sentence()
    );
    assert_eq!(own.json()["stalled"][1]["stalled_ns"], 1_000_000_000u64);
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
            let options = Options { interval_s: 0.0, ..Options::default() };
            let own = OverTime::of(&log, &options).unwrap();
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
    assert_eq!(swap.to.stamp.as_deref(), Some("18:00:02"));
    assert_eq!(own.length_s, Some(21.0));
    // A row before the first stamp: all times are counted in rows.
    let own = of(&format!("{HEAD}{row}18:00:00\n{psi}{row}18:00:01\n{psi}"));
    assert_eq!((own.length_s, own.intervals[0].to.stamp.as_ref()), (Some(2.0), None));
}

/// `date; vmstat 1`: a part by time counts from the stamp on.
#[test]
fn a_part_of_rows_that_share_a_stamp() {
    let row = |swapped: u32| format!(" 1 0 0 9000000 1 1 0 {swapped} 0 0 0 0 10 0 90 0 0\n");
    let rows: String = (0..10).map(|nr| row(if nr == 6 { 500 } else { 0 })).collect();
    let log = VmstatLog::parse("log", format!("18:00:00\n{HEAD}{rows}").as_bytes()).unwrap();
    let part = |from: &str, to: &str| {
        let [from, to] = [from, to].map(|text| Some(Time::parse(text).unwrap()));
        OverTime::of(&log, &Options { window: Window { from, to }, ..Options::default() })
    };
    let own = part("18:00:05", "18:00:08").unwrap();
    assert_eq!((own.nr_samples[0], own.intervals[0].kind), (4, Kind::Swap));
    assert_eq!(own.length_s, Some(4.0));
    assert!(part("18:00:01", "18:00:04").unwrap().intervals.is_empty());
}

const ONE: &str = "some avg10=78.20 avg60=3.00 avg300=1.00 total=9000000\n\
                   full avg10=70.00 avg60=2.00 avg300=0.50 total=8000000\n";

#[test]
fn one_reading_is_judged_by_its_averages() {
    for name in ["memory.pressure", "/proc/pressure/memory"] {
        let log = VmstatLog::parse(name, ONE.as_bytes()).unwrap();
        let own = OverTime::of(&log, &Options::default()).unwrap();
        assert_eq!(
            own.sentence(),
            "Memory was short in the last 10 s and 60 s: some tasks waited 78% and 3% of the time, all tasks waited \
             70% and 2% of the time."
        );
        assert_eq!(own.json()["looked_at"], json!(["memory-full", "memory-some"]));
        assert_eq!(own.json()["readings"][0]["averages"][0], 70.0);
        let text = printed(&own);
        assert!(
            text.contains("some tasks waited 5 % of the time or more, all tasks 1 %"),
            "{text}"
        );
    }
    for prefix in ["memory ", "/proc/pressure/memory:", "18:00:00 memory "] {
        let text: String = ONE.lines().map(|line| format!("{prefix}{line}\n")).collect();
        let sentence = of(&text).sentence();
        assert!(sentence.starts_with("Memory was short in the last 10 s and 60 s"), "{sentence}");
    }
    let past = ONE.replace("avg10=78.20", "avg10=0.00").replace("avg10=70.00", "avg10=0.00");
    let sentence = of(&format!("memory\n{past}")).sentence();
    assert!(
        sentence.starts_with("Memory was short in the last 60 s, no longer in the last 10 s: ")
    );
    assert!(of(ONE).sentence().starts_with("A resource that the text does not name was short"));
}

#[test]
fn three_resources_in_one_reading() {
    let quiet = "some avg10=0.40 avg60=0.00 avg300=0.00 total=9\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=8\n";
    let busy = format!("memory\n{quiet}io\n{ONE}cpu\n{quiet}");
    let own = of(&busy);
    assert!(own.sentence().starts_with("Disks were short in the last 10 s"), "{}", own.sentence());
    assert_eq!(own.looked_at.len(), 6);
    let own = of(&format!("memory\n{quiet}io\n{quiet}"));
    assert_eq!(
        own.sentence(),
        "No pressure above its limit in the last 10 s, 60 s and 5 min (memory and disks): tasks waited 0.4% of the time \
         at most."
    );
}

#[test]
fn no_claim_without_a_value() {
    let own = of("memory some avg10=x avg60=y avg300=z total=5\n");
    assert!(own.sentence().starts_with("The text has no value that says if memory"));
    assert!(own.looked_at.is_empty());
    let own = of("r b swpd free\n1 1 1 1\n1 0 0 900\n");
    assert!(own.sentence().contains("has no value that says"), "{}", own.sentence());
    // Two readings at one time.
    let own = of(&format!("18:00:00\nmemory\n{ONE}{ONE}"));
    assert!(own.sentence().starts_with("Memory was short in the last 10 s"), "{}", own.sentence());
}

#[test]
fn stalled_time_is_the_difference_of_totals() {
    let line = |second: u32, total: u32| {
        format!("18:00:0{second} full avg10=20.00 avg60=9.00 avg300=0.00 total={total}\n")
    };
    let own = of(&(line(0, 0) + &line(2, 300_000) + &line(4, 410_000)));
    assert_eq!(own.stalled[0].stalled_ns, 410_000_000);
    let sentence = own.sentence();
    assert!(
        sentence.contains("name was short: all tasks were stalled for 410 ms of 4 s"),
        "{sentence}"
    );
    let text = printed(&own);
    assert!(text.contains("unnamed: all tasks waited"), "{text}");
    assert!(
        text.contains(
            "before the first reading: unnamed: all tasks waited 20% of the last 10 s, 9% of the last 60 s"
        ),
        "{text}"
    );
    // A counter that began again, and unnamed lines that may be of several files.
    assert!(of(&(line(0, 9) + &line(2, 0))).stalled.is_empty());
    let unnamed = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n".repeat(2);
    assert!(of(&unnamed).stalled.is_empty());
}

#[test]
fn swapping_back_in_is_no_shortage() {
    let own = of(&rows(&[[1, 0, 900_000, 0, 64, 90, 0], [1, 0, 1_980_000, 120, 0, 90, 0]]));
    assert_eq!(own.intervals[0].length_s, Some(1.0));
    assert!(printed(&own).contains("swapping back in does not count"));
    // Low memory: pages that are needed come back at the cost of others.
    let own = of(&rows(&[[1, 0, 50_000, 120, 0, 90, 0]]));
    assert_eq!(own.intervals[0].kind, Kind::Swap);
}

#[test]
fn disks_that_only_swap_are_said_so() {
    let row =
        |bi: u64| format!(" 1 3 0 50000 48036 4637128 900 1000 {bi} 1000 521 341 10 0 40 50 0\n");
    let sentence = of(&format!("{HEAD}{}", row(1000))).sentence();
    assert!(
        sentence.contains("disks were short for 1 s of 1 s, mostly swap I/O (95% of their"),
        "{sentence}"
    );
    assert!(!of(&format!("{HEAD}{}", row(9000))).sentence().contains("swap I/O"));
}

#[test]
fn the_first_row_begins_at_the_stamp_of_the_average() {
    let row =
        |at: &str| format!(" 1 0 0 900000 1 1 0 50 1 1 1 1 1 1 98 0 0 2026-11-28 03:00:{at}\n");
    let own = of(&(HEAD.lines().next().unwrap().to_owned()
        + "\n"
        + &row("00")
        + &row("05")
        + &row("10")));
    let first = &own.intervals[0];
    assert_eq!(first.from.stamp.as_deref(), Some("2026-11-28 03:00:00"));
    assert_eq!(first.length_s, Some(10.0));
    assert!(
        own.sentence().contains("from 2026-11-28 03:00:00 to 03:00:10 ("),
        "{}",
        own.sentence()
    );
    assert!(!printed(&own).contains("2026-11-28"));
    // Without the average the first row is as long as the second.
    let tail = of(&(row("05") + &row("10")));
    assert_eq!(tail.intervals[0].from.stamp.as_deref(), Some("2026-11-28 03:00:00"));
    assert!(printed(&tail).contains("no header"));
}

#[test]
fn the_unit_is_doubted_in_the_first_remark() {
    let text = format!("{HEAD}1 0 0 100 10 900 0 0 1 1 1 1 1 1 98 0 0\n");
    assert!(of(&text).notes[0].contains("add --unit M"), "{:?}", of(&text).notes);
    let known = with(&text, &Options { unit_bytes: 1 << 20, ..Options::default() }).unwrap();
    assert!(!known.notes[0].contains("--unit") && known.least_free == Some(100 << 20));
}

#[test]
fn a_window_is_a_part_of_the_text() {
    let window = |from: &str, to: &str| Options {
        window: Window { from: Time::parse(from).ok(), to: Time::parse(to).ok() },
        ..Options::default()
    };
    let row = |at: u32, so: u32| {
        format!(" 1 0 0 900000 1 1 0 {so} 1 1 1 1 1 1 98 0 0 2026-11-28 03:00:0{at}\n")
    };
    let text = HEAD.to_owned() + &(1..9).map(|at| row(at, u32::from(at < 3))).collect::<String>();
    let part = with(&text, &window("03:00:02", "03:00:04")).unwrap();
    assert_eq!((part.nr_samples[0], part.intervals[0].length_s), (3, Some(1.0)));
    assert_eq!(part.span.as_ref().unwrap()[0].stamp.as_deref(), Some("2026-11-28 03:00:01"));
    assert!(
        with(&text, &window("04:00", "")).unwrap_err().contains("goes from 2026-11-28 03:00:01")
    );
    assert!(with(&rows(&[QUIET; 5]), &window("03:00", "")).unwrap_err().contains("no wall clock"));
    assert_eq!(with(&rows(&[QUIET; 5]), &window("2", "3")).unwrap().nr_samples[0], 2);
    assert!(with(ONE, &window("03:00", "")).unwrap_err().contains("no times"));
}

#[test]
fn an_answer_fits_on_a_page() {
    let row = |so: u64| [3, 3, 50_000, so, so, 20, 60];
    let text: Vec<[u64; 7]> =
        (0..4000).map(|at| if at % 9 < 4 { row(at + 1) } else { QUIET }).collect();
    let own = of(&rows(&text));
    let lines = printed(&own).lines().count() + wrapped(&own.sentence(), PAGE_WIDTH).len() + 1;
    assert!(lines <= 40 && lines > 30, "{lines}");
}
