use highwater_report::{Format, PAGE_WIDTH};
use highwater_results::import::events::for_each_event_of;

use super::*;

fn of(text: &str) -> Result<Waits, ImportError> {
    let mut tasks = Tasks::default();
    let text = text.as_bytes().to_vec();
    let totals = for_each_event_of("t", std::io::Cursor::new(text), |event| tasks.take(event))?;
    Waits::of("t", tasks, totals)
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
        "writer-7 was stalled longest: 500 ms in direct reclaim (1 time, at most 500 ms) in a trace of 3.00 s."
    );
    let text = Format::Terminal.tables(&waits.tables(), PAGE_WIDTH);
    assert!(text.lines().all(|line| line.chars().count() <= PAGE_WIDTH), "{text}");
    let json = waits.json();
    assert_eq!(json["tasks"][0]["cause"], "direct-reclaim");
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
            waits
                .sentence()
                .starts_with("No task waited for memory; a b-5 was stalled longest: 250 ms")
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
    assert_eq!(waits.sentence(), "No stall ended in this trace of 1.00 s.");
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
    let tables = waits.tables();
    assert_eq!((tables[0].rows.len(), waits.rows.len()), (30, 2999));
    assert_eq!((waits.causes[0].nr_tasks, waits.causes[0].tally.number), (2999, 2999));
}
