//! The schedules of rules/scheduler#vectors, replayed on one run queue to the nanosecond.
//!
//! One CPU; nothing costs time; ticks at multiples of 4 ms; parameters of 4 CPUs unless a vector
//! says otherwise.

use super::cfs::{Cfs, CfsParams};
use super::replay::{HOG, Program, Replay, Step, ms, program};
use super::run_queue::RunQueue;
use Step::{Fork, Loop, Run, Sleep, Until, Yield};

fn cfs(nr_cpus: usize) -> RunQueue {
    RunQueue::cfs(nr_cpus)
}

/// CFS before 5.13: a slice may be shorter than the least granularity.
fn old_cfs(nr_cpus: usize) -> RunQueue {
    RunQueue::Cfs(Cfs::new(CfsParams::new(nr_cpus).without_least_slice()))
}

fn eevdf(nr_cpus: usize) -> RunQueue {
    RunQueue::eevdf(nr_cpus)
}

/// Runs the programs up to the time at which the expected schedule ends, and compares.
#[track_caller]
fn expect(queue: RunQueue, programs: &[Program], schedule: &str) -> Replay {
    let end = schedule.rsplit(' ').next().and_then(|end| end.parse::<f64>().ok());
    let mut replay = Replay::new(queue, programs);
    let got = replay.run(ms(end.expect("a schedule ends with a time")));
    assert_eq!(got, schedule);
    replay
}

/// Hogs with these nice values, from 0 on: A, B, C ...
fn hogs(nice: &[i8]) -> Vec<Program> {
    ('A'..).zip(nice).map(|(name, &nice)| program(name, nice, 0.0, &[HOG])).collect()
}

fn with(mut programs: Vec<Program>, more: Program) -> Vec<Program> {
    programs.push(more);
    programs
}

fn run(time_ms: f64) -> Step {
    Run(ms(time_ms))
}

fn sleep(time_ms: f64) -> Step {
    Sleep(ms(time_ms))
}

fn until(time_ms: f64) -> Step {
    Until(ms(time_ms))
}

/// S1.
#[test]
fn two_hogs() {
    let both = hogs(&[0, 0]);
    expect(cfs(4), &both, "A 12 B 24 A 36 B 40");
    expect(old_cfs(4), &both, "A 12 B 24 A 36 B 40");
    expect(cfs(1), &both, "A 4 B 8 A 12 B 16 A 20");
    expect(eevdf(4), &both, "A 4 B 8 A 12 B 16 A 20");
}

/// S2.
#[test]
fn hogs_of_nice_0_and_5() {
    let both = hogs(&[0, 5]);
    let end = expect(cfs(4), &both, "A 16 B 24 A 40 B 44 A 60 B 68 A 80");
    assert_eq!(end.v('B'), 61_134_325);
    let schedule = "A 4 B 8 A 20 B 24 A 36 B 40 A 52 B 56 A 68 B 72 A 80";
    assert_eq!(expect(eevdf(4), &both, schedule).v('B'), 61_134_325);
}

/// S3.
#[test]
fn hogs_of_nice_0_and_19() {
    let both = hogs(&[0, 19]);
    for (queue, schedule) in [
        (cfs(4), "A 20 B 24 A 280 B 284 A 556 B 560 A 600"),
        (eevdf(4), "A 4 B 8 A 280 B 284 A 556 B 560 A 600"),
    ] {
        let end = expect(queue, &both, schedule);
        assert_eq!((end.run_ms('A'), end.run_ms('B')), (588.0, 12.0));
        assert_eq!(end.v('B'), 819_199_998);
    }
}

/// S4.
#[test]
fn hogs_of_nice_0_5_and_10_on_two_cpus() {
    let all = hogs(&[0, 5, 10]);
    let schedule = "A 12 B 16 C 20 A 32 B 36 A 48 B 52 A 64 B 68 C 72 A 84 B 88 A 100";
    let end = expect(cfs(2), &all, schedule);
    assert_eq!((end.v('B'), end.v('C')), (61_134_325, 74_472_726));
    let schedule = "A 4 B 8 A 12 C 16 A 24 B 28 A 40 B 44 A 56 B 60 A 68 C 72 A 76 B 80 A 96 B 100";
    let end = expect(eevdf(2), &all, schedule);
    assert_eq!((end.v('B'), end.v('C')), (73_361_190, 74_472_726));
    for queue in [cfs(2), old_cfs(2), eevdf(2)] {
        let mut replay = Replay::new(queue, &all);
        replay.run(ms(2000.0));
        assert_eq!(['A', 'B', 'C'].map(|name| replay.run_ms(name)), [1392.0, 456.0, 152.0]);
    }
}

/// S5.
#[test]
fn twelve_hogs_take_turns_of_a_tick() {
    let schedule = "A 4 B 8 C 12 D 16 E 20 F 24 G 28 H 32 I 36 J 40 K 44 L 48 A 52";
    for queue in [cfs(4), old_cfs(4), eevdf(4)] {
        expect(queue, &hogs(&[0; 12]), schedule);
    }
}

/// S6.
#[test]
fn a_short_sleeper_beside_a_hog() {
    let sleeper = || program('S', 0, 0.5, &[run(0.1), sleep(1.0), Loop(0)]);
    let both = with(hogs(&[0]), sleeper());
    expect(cfs(4), &both, "A 12 S 12.1 A 13.1 S 13.2 A 14.2 S 14.3 A 15.3");
    expect(eevdf(4), &both, "A 4 S 4.1 A 5.1 S 5.2 A 6.2");
    let beside_nice = with(hogs(&[19]), sleeper());
    for queue in [cfs(4), old_cfs(4), eevdf(4)] {
        let end = expect(queue, &beside_nice, "A 4 S 4.1 A 5.1 S 5.2 A 6.2 S 6.3 A 7.3 S 7.4 A 8");
        assert_eq!(end.v('A'), 518_826_663);
    }
}

/// S7.
#[test]
fn a_nice_sleeper_beside_a_hog() {
    let sleeper = program('S', 19, 0.5, &[run(0.1), sleep(1.0), Loop(0)]);
    let both = with(hogs(&[0]), sleeper);
    let end = expect(cfs(4), &both, "A 20 S 20.1 A 32 S 32.1 A 44 S 44.1 A 50");
    assert_eq!(end.v('S'), 35_800_000);
    let schedule = "A 4 S 4.1 A 8 S 8.1 A 16 S 16.1 A 24 S 24.1 A 32 S 32.1 A 36 S 36.1 A 44 \
                    S 44.1 A 50";
    assert_eq!(expect(eevdf(4), &both, schedule).v('S'), 48_286_662);
}

/// S8.
#[test]
fn a_long_sleeper_beside_two_hogs() {
    let sleeper = program('S', 0, 0.1, &[run(0.2), until(33.3), run(15.0)]);
    let all = with(hogs(&[0, 0]), sleeper);
    expect(cfs(4), &all, "A 8 B 16 S 16.2 A 28 B 33.3 S 44 B 52 S 56.3 A 68 B 70");
    let schedule = "A 4 B 8 S 8.2 A 12 B 16 A 20 B 24 A 28 B 32 A 33.3 S 40 A 44 B 48 S 52 B 56 \
                    A 60 S 64 B 68 A 70";
    expect(eevdf(4), &all, schedule);
    let mut replay = Replay::new(eevdf(4), &all);
    replay.run(ms(8.2));
    assert_eq!(replay.lag('S'), 2_500_000);
    replay.run(ms(33.3));
    assert_eq!(replay.v('S'), 12_800_000);
}

/// S9.
#[test]
fn a_task_forks() {
    let parent = program('P', 0, 0.0, &[run(2.5), Fork(2), run(6.0)]);
    let hog = program('B', 0, 0.0, &[HOG]);
    let child = Program { name: 'C', nice: 0, from_ns: None, steps: vec![run(3.0)] };
    let all = [parent, hog, child];
    expect(cfs(4), &all, "P 8 B 16 C 19 P 19.5 B 40");
    expect(eevdf(4), &all, "P 2.5 B 4 C 7 B 12 P 16 B 20 P 22 B 40");
}

/// S10.
#[test]
fn a_task_yields() {
    let yields = [run(1.0), Yield, run(1.0), Yield, run(1.0), Yield, HOG];
    let both = [program('A', 0, 0.0, &yields), program('B', 0, 0.0, &[HOG])];
    expect(cfs(4), &both, "A 1 B 12 A 24 B 30");
    expect(eevdf(4), &both, "A 1 B 4 A 5 B 8 A 9 B 12 A 16 B 20 A 24 B 28 A 30");
}

/// S11.
#[test]
fn a_heavy_sleeper_beside_a_nice_hog() {
    let sleeper = program('S', -5, 0.2, &[run(0.1), until(9.5), run(2.0), sleep(0.7), run(2.0)]);
    let both = with(hogs(&[5]), sleeper);
    for (queue, v) in [(cfs(4), 22_529_033), (eevdf(4), 20_602_534)] {
        let end = expect(queue, &both, "A 4 S 4.1 A 9.5 S 11.5 A 12.2 S 14.2 A 20");
        assert_eq!((end.v('A'), end.v('S')), (48_601_788, v));
    }
}

/// S12.
#[test]
fn a_reclaimer_beside_two_hogs() {
    let reclaimer = program('K', 0, 1.3, &[run(6.0), sleep(4.0), Loop(0)]);
    let all = with(hogs(&[0, 0]), reclaimer);
    let schedule = "A 8 B 16 K 22 A 26 K 32 B 40 A 48 B 52 K 58 A 62 K 68 B 76 A 80";
    assert_eq!(expect(cfs(4), &all, schedule).run_ms('K'), 24.0);
    let schedule = "A 1.3 B 4 K 8 A 12 B 16 K 18 A 22 B 28 K 32 A 36 K 38 B 42 A 48 K 52 B 56 \
                    K 58 A 62 B 68 K 72 A 76 K 78 B 80";
    assert_eq!(expect(eevdf(4), &all, schedule).run_ms('K'), 24.0);
}

/// S13.
#[test]
fn the_preempted_task_of_eight_runs_again() {
    let sleeper = program('S', 0, 0.1, &[run(0.1), until(33.5), run(0.3)]);
    let all = with(hogs(&[0; 8]), sleeper);
    let begin = "A 4 B 8 C 12 D 16 E 20 F 24 G 28 H 32 S 32.1 A 33.5 S 33.8";
    expect(cfs(4), &all, &format!("{begin} A 40 B 44"));
    expect(eevdf(4), &all, &format!("{begin} B 36 C 40 D 44"));
}

/// S14.
#[test]
fn a_task_that_sleeps_nearly_half_of_the_time() {
    let sleeper = program('B', 0, 0.1, &[run(2.7), sleep(2.1), Loop(0)]);
    let both = with(hogs(&[0]), sleeper);
    expect(cfs(4), &both, "A 12 B 14.7 A 16.8 B 19.5 A 21.6 B 24.3 A 26.4 B 29.1 A 31.2 B 32");
    let schedule = "A 4 B 6.7 A 8.8 B 11.5 A 13.6 B 16 A 20 B 20.3 A 22.4 B 25.1 A 27.2 B 29.9 \
                    A 32";
    expect(eevdf(4), &both, schedule);
}

/// S15.
#[test]
fn a_nice_kernel_thread_beside_a_sleeper() {
    let khugepaged = program('K', 19, 0.0, &[HOG]);
    let sleeper = program('S', 0, 0.7, &[run(5.0), sleep(3.0), Loop(0)]);
    let both = [khugepaged, sleeper];
    for queue in [cfs(4), old_cfs(4), eevdf(4)] {
        let end = expect(queue, &both, "K 4 S 9 K 12 S 17 K 20 S 25 K 28 S 30");
        assert_eq!(end.v('K'), 887_466_662);
    }
}

/// S16.
#[test]
fn a_sleeper_that_ran_too_much_stays_queued() {
    let sleeper = |name, first, second| {
        let steps = [run(0.05), until(first), run(0.5), until(second), run(0.5)];
        program(name, 0, 0.1, &steps)
    };
    let all = with(with(hogs(&[0]), sleeper('S', 13.0, 17.0)), sleeper('R', 13.05, 17.2));
    expect(cfs(4), &all, "A 8 S 8.05 R 8.1 A 13 S 13.5 R 14 A 17 S 17.5 R 18 A 24");
    let schedule = "A 4 S 4.05 R 4.1 A 13 S 13.5 R 14 A 17.2 R 17.7 S 18.2 A 24";
    expect(eevdf(4), &all, schedule);
    let mut replay = Replay::new(eevdf(4), &all);
    replay.run(ms(13.6));
    assert!(replay.is_delayed('S'));
    replay.run(ms(14.1));
    assert!(!replay.is_delayed('S'));
    assert_eq!(replay.lag('S'), 0);
}

/// S17.
#[test]
fn each_wake_up_passes_the_turn_on() {
    let sleeper = program('S', 0, 0.3, &[run(0.05), sleep(1.5), Loop(0)]);
    let all = with(hogs(&[0; 3]), sleeper);
    let schedule = "A 8 B 16 C 24 S 24.05 A 25.55 S 25.6 B 27.1 S 27.15 C 28.65 S 28.7 A 30.2 \
                    S 30.25 B 31.75 S 31.8 C 33.3 S 33.35 A 34";
    expect(cfs(4), &all, schedule);
    let schedule = "A 4 B 8 C 12 S 12.05 A 13.55 S 13.6 B 15.1 S 15.15 C 16.65 S 16.7 A 18.2";
    expect(eevdf(4), &all, schedule);
}

/// Lateness of a sleeper beside hogs of nice 0, in microseconds at 50, 75, 90 and 99 %. It begins at
/// 0.3 ms, then wakes 1,500 times.
fn lateness_us(queue: RunQueue, nice: i8, nr_hogs: usize) -> [u64; 4] {
    let wakes = 0..1500_u64;
    let steps = wakes.flat_map(|i| [Run(15_000), Sleep(1_000_000 + i * 7919 % 400_000)]);
    let steps = steps.chain([Run(15_000)]).collect::<Vec<_>>();
    let sleeper = program('S', nice, 0.3, &steps);
    let mut replay = Replay::new(queue, &with(hogs(&vec![0; nr_hogs]), sleeper));
    replay.run(ms(20_000.0));
    let of_sleeper = replay.late_ns.iter().filter(|(name, _)| *name == 'S');
    let mut late: Vec<u64> = of_sleeper.map(|(_, ns)| (ns + 500) / 1000).collect();
    assert_eq!(late.len(), 1501);
    late.sort_unstable();
    [50, 75, 90, 99].map(|percent| late[late.len() * percent / 100])
}

/// S18. Under CFS with a sleeper of nice 19 the vector may count a few wake-ups less: to within 2 us.
#[test]
fn lateness_of_a_sleeper_beside_hogs() {
    assert_eq!(lateness_us(cfs(2), 0, 3), [0, 0, 0, 0]);
    assert_eq!(lateness_us(eevdf(2), 0, 3), [0, 0, 0, 2_025]);
    assert_eq!(lateness_us(eevdf(2), 19, 1), [0, 1_571, 1_829, 2_965]);
    assert_eq!(lateness_us(eevdf(2), 19, 3), [0, 6_658, 10_902, 17_346]);
    for (nr_hogs, expected) in
        [(1, [6_787, 6_887, 6_946, 6_979]), (3, [2_787, 2_886, 2_945, 2_981])]
    {
        for (got, expected) in lateness_us(cfs(2), 19, nr_hogs).iter().zip(expected) {
            assert!(got.abs_diff(expected) <= 2, "beside {nr_hogs}: {got} for {expected}");
        }
    }
}
