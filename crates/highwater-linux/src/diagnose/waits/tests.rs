use highwater_report::render::wrapped;
use highwater_report::{Format, PAGE_WIDTH};

use super::super::window::Time;
use super::*;

fn of(text: &str) -> Result<Waits, ImportError> {
    Waits::parse("t", text.as_bytes(), &Window::default())
}

fn part(text: &str, from: &str, to: &str) -> Result<Waits, ImportError> {
    let window = Window { from: Time::parse(from).ok(), to: Time::parse(to).ok() };
    Waits::parse("t", text.as_bytes(), &window)
}

fn printed(waits: &Waits) -> String {
    let text = Format::Terminal.tables(&waits.tables(), PAGE_WIDTH);
    assert!(text.lines().all(|line| line.chars().count() <= PAGE_WIDTH), "{text}");
    text
}

fn row(waits: &Waits, pid: i32, cause: Cause) -> &Tally {
    &waits.rows.iter().find(|row| row.pid == pid && row.cause == cause).unwrap().tally
}

const RECLAIM: &str = "\
  writer-7 [000] ..... 1.000000: mm_vmscan_direct_reclaim_begin: order=0 gfp_flags=GFP_KERNEL
  other-8 [001] ..... 1.100000: mm_vmscan_direct_reclaim_begin: order=0 gfp_flags=GFP_KERNEL
  writer-7 [000] ..... 1.200000: mm_vmscan_throttled: nid=0 usec_timeout=100000 usect_delayed=50000 reason=VMSCAN_THROTTLE_WRITEBACK
  writer-7 [002] ..... 1.500000: mm_vmscan_direct_reclaim_end: nr_reclaimed=32
  third-9 [001] ..... 1.600000: mm_vmscan_direct_reclaim_end: nr_reclaimed=32
  kswapd0-3 [001] ..... 1.700000: mm_vmscan_kswapd_wake: nid=0 zid=2 order=0
  kswapd0-3 [001] ..... 1.800000: mm_vmscan_kswapd_wake: nid=0 zid=2 order=3
  kswapd0-3 [001] ..... 4.000000: mm_vmscan_kswapd_sleep: nid=0
";

#[test]
fn pairs_are_matched_by_pid() {
    let waits = of(RECLAIM).unwrap();
    assert_eq!(row(&waits, 7, Cause::DirectReclaim).total_ns, 500_000_000);
    assert_eq!(row(&waits, 7, Cause::ThrottledWriteback).total_ns, 50_000_000);
    assert_eq!(row(&waits, 3, Cause::KswapdAwake).total_ns, 2_300_000_000);
    assert_eq!((waits.counts.nr_ends_alone, waits.unfinished.len()), (1, 1));
    assert_eq!((waits.unfinished[0].pid, waits.unfinished[0].at_least_ns), (8, 2_900_000_000));
    assert_eq!(
        waits.sentence(),
        "other-8 lost most time: at least 2.90 s in direct reclaim (not ended when the trace ended: order 0 \
         GFP_KERNEL) in a trace of 3.00 s."
    );
    let text = printed(&waits);
    let stalls = text.split("Daemons at work").next().unwrap();
    assert!(!stalls.contains("kswapd"), "{text}");
    assert!(text.contains("order 0 GFP_KERNEL, reclaimed 32 pages"), "{text}");
    let json = waits.json();
    assert_eq!(json["tasks"][0]["cause"], "direct-reclaim");
    assert_eq!(json["tasks"][0]["not_ended"]["at_least_ns"], 2_900_000_000u64);
    assert_eq!(json["unfinished"][0]["comm"], "other");
}

#[test]
fn switches_give_blocked_and_runnable_time() {
    for (switch, waking) in [
        (
            "prev_comm=a b prev_pid=5 prev_prio=120 prev_state=D ==> next_comm=swapper/0 next_pid=0 next_prio=120",
            "comm=a b pid=5 prio=120 target_cpu=000",
        ),
        ("a b:5 [120] D ==> swapper/0:0 [120]", "a b:5 [120] CPU:000"),
    ] {
        let back = "prev_comm=swapper/0 prev_pid=0 prev_state=R ==> next_comm=a b next_pid=5 next_prio=120";
        let waits = of(&format!(
            "  a b-5 [000] 1.0: sched_switch: {switch}\n  irq-2 [000] 1.25: sched_waking: {waking}\n  \
             <idle>-0 [000] 1.375: sched_switch: {back}\n"
        ))
        .unwrap();
        assert_eq!(row(&waits, 5, Cause::Blocked).total_ns, 250_000_000, "{switch}");
        assert_eq!(row(&waits, 5, Cause::WaitsForCpu).total_ns, 125_000_000);
        assert_eq!(waits.rows[0].comm, "a b");
        assert!(
            waits.sentence().starts_with("a b-5 lost most time: 250 ms in uninterruptible sleep (once) in a")
                && waits.sentence().ends_with(
                    "whether it waited for memory cannot be known, since the text has no vmscan or compaction event."
                ),
            "{}",
            waits.sentence()
        );
    }
}

#[test]
fn perf_and_statistics_of_the_scheduler() {
    let waits = of("perf 70/71 [000] 1.5: sched:sched_stat_blocked: comm=db main pid=9 delay=1500000 [ns]\n\
                    perf 70/71 [000] 1.5: sched:sched_stat_iowait: comm=db main pid=9 delay=1200000 [ns]\n\
                    perf 70/71 [000] 1.5: sched:sched_stat_blocked: comm=x pid=-9 delay=?\n")
    .unwrap();
    assert_eq!(row(&waits, 9, Cause::BlockedStat).total_ns, 1_500_000);
    assert_eq!(waits.counts.nr_unreadable, 1);
}

#[test]
fn damage_and_other_traces() {
    let error = of("  a-1 [000] 1.5: mm_page_free: pfn=1 order=0\n").unwrap_err().to_string();
    assert!(error.starts_with("t: none of the 1 events in 1 lines says who waited"), "{error}");
    assert!(of("").is_err());
    // Every cut of a trace is read or refused.
    for end in 0..RECLAIM.len() {
        let _ = of(&RECLAIM[..end]).map(|waits| (waits.sentence(), waits.tables(), waits.json()));
    }
    let backwards =
        "  a-1 [000] 2.0: mm_compaction_begin: x\n  a-1 [000] 1.0: mm_compaction_end: x\n";
    let waits = of(backwards).unwrap();
    assert_eq!((waits.counts.nr_backwards, waits.rows.len()), (1, 0));
    assert_eq!(
        waits.sentence(),
        "No task was stalled in a trace of 1.00 s; it has no sched event, so other waits cannot be known."
    );
}

#[test]
fn many_tasks_are_shown_in_part() {
    use std::fmt::Write as _;
    let mut text = String::new();
    for pid in 1..3000 {
        let _ = writeln!(text, " t-{pid} [000] 1.0: mm_compaction_begin: x");
        let _ = writeln!(text, " t-{pid} [000] 1.5: mm_compaction_end: x");
    }
    let waits = of(&text).unwrap();
    let sentence = wrapped(&waits.sentence(), PAGE_WIDTH);
    let lines = printed(&waits).lines().count() + sentence.len() + 1;
    assert!(lines <= 40 && lines > 30, "{lines}");
    assert_eq!((waits.causes[0].nr_tasks, waits.causes[0].tally.number), (2999, 2999));
}

const HUNG: &str = "\
  a-7 [000] ..... 10.000000: mm_vmscan_direct_reclaim_begin: order=9 gfp_flags=GFP_TRANSHUGE
  a-7 [000] ..... 10.009000: mm_vmscan_direct_reclaim_end: nr_reclaimed=0
  a-7 [000] ..... 10.010000: mm_vmscan_direct_reclaim_begin: order=0 gfp_flags=GFP_KERNEL
  a-7 [000] ..... 10.011000: mm_vmscan_direct_reclaim_end: nr_reclaimed=32
  b-8 [001] d.... 10.500000: sched_switch: prev_comm=b prev_pid=8 prev_prio=120 prev_state=D ==> next_comm=swapper/1 next_pid=0 next_prio=120
  a-7 [000] ..... 70.600000: mm_vmscan_kswapd_wake: nid=0 order=0
";

#[test]
fn a_task_that_sleeps_to_the_end_is_the_answer() {
    let waits = of(HUNG).unwrap();
    assert_eq!(
        waits.sentence(),
        "b-8 lost most time: at least 60.1 s in uninterruptible sleep (not ended when the trace ended) in a trace of \
         60.6 s; for memory a-7 lost most, 10.0 ms in direct reclaim."
    );
    let without: String = HUNG
        .lines()
        .filter(|line| !line.contains("sched_switch"))
        .fold(String::new(), |text, line| text + line + "\n");
    assert_eq!(
        of(&without).unwrap().sentence(),
        "a-7 lost most time: 10.0 ms in direct reclaim (2 times, 1 in vain, the longest 9.00 ms: order 9 \
         GFP_TRANSHUGE, reclaimed 0 pages: in vain, for a huge page) in a trace of 60.6 s."
    );
}

#[test]
fn compaction_has_the_order_of_its_attempt_and_a_status() {
    let waits = of("  a-7 [000] 1.0: mm_compaction_try_to_compact_pages: order=9 gfp_mask=GFP_TRANSHUGE priority=1\n  \
                    a-7 [000] 1.1: mm_compaction_begin: zone_start=0x1 mode=sync\n  \
                    a-7 [000] 1.3: mm_compaction_end: zone_start=0x1 mode=sync status=no_suitable_page\n")
    .unwrap();
    let what = &waits.rows[0].what;
    assert_eq!((what.order, what.status.as_deref()), (Some(9), Some("no_suitable_page")));
    assert!(printed(&waits).contains("status no_suitable_page: in vain"));
    assert_eq!(waits.json()["tasks"][0]["longest"]["gfp_flags"], "GFP_TRANSHUGE");
}

#[test]
fn a_sleep_in_reclaim_says_so() {
    let waits =
        of("  a-7 [000] 1.0: mm_vmscan_direct_reclaim_begin: order=0 gfp_flags=GFP_KERNEL\n  \
                    a-7 [000] 1.1: sched_switch: a:7 [120] D ==> swapper/0:0 [120]\n  \
                    x-9 [000] 9.0: sched_wakeup: x:9 [120] CPU:000\n")
        .unwrap();
    assert_eq!(
        row_of(&waits, Cause::Blocked).open.as_ref().unwrap().what.inside,
        Some(Cause::DirectReclaim)
    );
    assert!(waits.sentence().starts_with("a-7 lost most time: at least 8.00 s in direct reclaim"));
}

fn row_of(waits: &Waits, cause: Cause) -> &WaitRow {
    waits.rows.iter().find(|row| row.cause == cause).unwrap()
}

/// The same trace with the wall clock in each line, before it, in a mark, and as its own clock.
#[test]
fn wall_clocks_of_every_program() {
    let tod = "a 7 [000] 2026-11-28 03:00:01.173000 100.5: vmscan:mm_vmscan_direct_reclaim_begin: order=0 gfp_flags=X\n\
               a 7 [000] 2026-11-28 03:00:04.173000 103.5: vmscan:mm_vmscan_direct_reclaim_end: nr_reclaimed=1\n";
    let only_tod = tod.replace(" 100.5:", "").replace(" 103.5:", "");
    let before = "2026-11-28 03:00:01.173 a-7 [000] ..... 100.5: mm_vmscan_direct_reclaim_begin: order=0\n\
                  2026-11-28 03:00:04.573 a-7 [000] ..... 103.5: mm_vmscan_direct_reclaim_end: nr_reclaimed=1\n";
    let mark = "  sh-1 [000] ..... 99.5: tracing_mark_write: 2026-11-28 03:00:00.173000000\n  \
                a-7 [000] ..... 100.5: mm_vmscan_direct_reclaim_begin: order=0\n  \
                a-7 [000] ..... 103.5: mm_vmscan_direct_reclaim_end: nr_reclaimed=1\n";
    let since_1970 = "  a-7 [000] 1795834801.173: mm_vmscan_direct_reclaim_begin: order=0\n  \
                      a-7 [000] 1795834804.173: mm_vmscan_direct_reclaim_end: nr_reclaimed=1\n";
    for text in [tod, &only_tod, before, mark, since_1970] {
        let waits = of(text).unwrap();
        assert_eq!(row(&waits, 7, Cause::DirectReclaim).total_ns, 3_000_000_000, "{text}");
        assert!(printed(&waits).contains(" 03:00:04.173"), "{text}{}", printed(&waits));
        let waits = part(text, "03:00:02.173", "03:00:03.173").unwrap();
        assert_eq!(row(&waits, 7, Cause::DirectReclaim).total_ns, 1_000_000_000, "{text}");
        assert!(
            waits
                .sentence()
                .ends_with("in this part of the trace of 1.00 s from 2026-11-28 03:00:02.173."),
            "{}",
            waits.sentence()
        );
    }
    assert!(part(tod, "04:00", "").is_err());
    assert_eq!(
        row(&part(tod, "101", "").unwrap(), 7, Cause::DirectReclaim).total_ns,
        2_500_000_000
    );
}

#[test]
fn a_window_cuts_stalls() {
    let of = |from: &str, to: &str| part(RECLAIM, from, to).unwrap();
    assert_eq!(row(&of("1.3", "1.4"), 7, Cause::DirectReclaim).total_ns, 100_000_000);
    let open = of("1.3", "2.3");
    assert_eq!(open.unfinished[0].at_least_ns, 1_000_000_000);
    assert!(printed(&open).contains("stalls are cut at 1.300000 s and 2.300000 s"));
    let error = part(RECLAIM, "03:00", "").unwrap_err().to_string();
    assert!(error.contains("no wall clock: give seconds, from 1 s to 4 s"), "{error}");
    assert!(part(RECLAIM, "5", "").is_err());
}

#[test]
fn long_flags_and_names_fit_on_the_page() {
    let flags = "GFP_HIGHUSER_MOVABLE|__GFP_COMP|__GFP_NOMEMALLOC|__GFP_NOWARN|__GFP_RETRY_MAYFAIL|__GFP_WRITE";
    let text = format!(
        "  a name of 15 c-4194303 [000] 1.0: mm_vmscan_direct_reclaim_begin: order=9 gfp_flags={flags}\n  \
         a name of 15 c-4194303 [000] 1.3: mm_vmscan_direct_reclaim_end: nr_reclaimed=0\n"
    );
    let text = printed(&of(&text).unwrap());
    assert!(text.contains("GFP_HIGHUSER_MOVABLE|__GFP_COMP") && text.contains("in vain"), "{text}");
}
