//! Whole reports, byte for byte (rules/mmtests-tables, rules/statistics). Expected lines are real
//! output of mmtests' reporter unless the rule says otherwise.

use highwater_report::stats::Sorted;
use highwater_report::{Options, Style, compare, duration, header, ratio, render, vmstat};
use highwater_results::{Better, Metric, Run, TableKind};

const VANILLA: &str = "5.15.0-rc1-vanilla";
const PATCHED: &str = "5.15.0-rc1-patched";

const A4: &[f64] = &[20.0, 21.0, 22.0, 23.0, 24.0, 25.0, 26.0, 27.0, 28.0, 129.0];
const B4: &[f64] = &[20.5, 21.0, 21.5, 22.0, 22.5, 23.0, 23.5, 24.0, 24.5, 25.0];
const A12: &[f64] = &[30.0, 31.0, 32.0, 33.0, 34.0];
const B12: &[f64] = &[40.0, 41.0, 42.0, 43.0, 44.0];

fn run(label: &str, operations: &[(&str, &[f64])]) -> Run {
    let mut run = Run::new("", label, label);
    for (operation, values) in operations {
        for (iteration, &value) in values.iter().enumerate() {
            run.push(operation, iteration as u32, 0, value);
        }
    }
    run
}

fn table(metric: &Metric, style: Style, a: &Run, b: &Run) -> String {
    let options = Options { style, ..Options::default() };
    render::terminal(&compare::comparison(metric, &[a, b], &options))
}

/// Asserts that every expected line is a line of the text, in this order.
fn assert_lines(text: &str, expected: &str) {
    let mut lines = text.lines();
    for wanted in expected.lines() {
        assert!(lines.any(|line| line == wanted), "no line\n{wanted:?}\nin its place in\n{text}");
    }
}

fn stutterp() -> Metric {
    Metric::new("stutterp", "milliseconds", Better::Lower, TableKind::VariableTime)
}

fn netperf() -> Metric {
    Metric::new("netperf-tcp", "Mbit/s", Better::Higher, TableKind::Multi)
}

#[test]
fn lower_is_better_2021() {
    let a = run(VANILLA, &[("mmap-4", A4), ("mmap-12", A12)]);
    let b = run(PATCHED, &[("mmap-4", B4), ("mmap-12", B12)]);
    assert_lines(
        &table(&stutterp(), Style::Y2021, &a, &b),
        "                              5.15.0-rc1             5.15.0-rc1
                                 vanilla                patched
Min       mmap-4      20.0000 (   0.00%)     20.5000 (  -2.50%)
1st-qrtle mmap-4      21.0000 (   0.00%)     21.0000 (   0.00%)
2nd-qrtle mmap-4      24.0000 (   0.00%)     22.5000 (   6.25%)
3rd-qrtle mmap-4      26.0000 (   0.00%)     23.5000 (   9.62%)
Max-90    mmap-4      28.0000 (   0.00%)     24.5000 (  12.50%)
Max       mmap-4     129.0000 (   0.00%)     25.0000 (  80.62%)
Amean     mmap-4      34.5000 (   0.00%)     22.7500 (  34.06%)
Amean     mmap-12     32.0000 (   0.00%)     42.0000 * -31.25%*
Stddev    mmap-4      33.3042 (   0.00%)      1.5138 (  95.45%)
CoeffVar  mmap-4      96.5338 (   0.00%)      6.6542 (  93.11%)
BAmean-75 mmap-4      23.0000 (   0.00%)     22.0000 (   4.35%)
BAmean-25 mmap-12     30.0000 (   0.00%)     40.0000 ( -33.33%)",
    );
}

#[test]
fn style_2015() {
    let a = run("4.3.0-rc1-baseline", &[("mmap", A4)]);
    let b = run("4.3.0-rc1-nozlc-v4", &[("mmap", B4)]);
    assert_lines(
        &table(&stutterp(), Style::Y2015, &a, &b),
        "                             4.3.0-rc1             4.3.0-rc1
                              baseline              nozlc-v4
2nd-qrtle   mmap     25.0000 (  0.00%)     23.0000 (  8.00%)
Max-93%     mmap     28.0000 (  0.00%)     24.5000 ( 12.50%)
Max-95%     mmap    129.0000 (  0.00%)     25.0000 ( 80.62%)
Mean        mmap     34.5000 (  0.00%)     22.7500 ( 34.06%)
Best50%Mean mmap     22.5000 (  0.00%)     21.7500 (  3.33%)
Best10%Mean mmap     20.5000 (  0.00%)     20.7500 ( -1.22%)
Best5%Mean  mmap     34.5000 (  0.00%)     22.7500 ( 34.06%)",
    );
}

#[test]
fn higher_is_better_2021() {
    let a = run(
        VANILLA,
        &[
            ("64", &[830.11, 841.20, 845.33, 838.90, 842.75]),
            ("16384", &[39759.59, 39000.00, 40100.25, 39900.10, 38800.75]),
        ],
    );
    let b = run(
        PATCHED,
        &[
            ("64", &[861.02, 858.47, 866.31, 859.90, 862.22]),
            ("16384", &[36805.78, 37200.00, 39900.00, 36500.10, 36100.00]),
        ],
    );
    assert_lines(
        &table(&netperf(), Style::Y2021, &a, &b),
        "Min       64         830.11 (   0.00%)      858.47 (   3.42%)
Hmean     64         839.63 (   0.00%)      861.58 *   2.61%*
Hmean     16384    39505.40 (   0.00%)    37254.48 *  -5.70%*
Stddev    16384      575.76 (   0.00%)     1507.82 (-161.89%)
BHmean-50 64         844.04 (   0.00%)      864.26 (   2.40%)
BHmean-95 16384    39685.58 (   0.00%)    37554.73 (  -5.37%)",
    );
}

#[test]
fn overflow_and_single_samples() {
    let a = run(VANILLA, &[("mmap-4", &[31.4003])]);
    let b = run(PATCHED, &[("mmap-4", &[2661.0198])]);
    assert_lines(
        &table(&stutterp(), Style::Y2021, &a, &b),
        "Max-90    mmap-4     31.4003 (   0.00%)   2661.0198 (-8374.50%)
Amean     mmap-4     31.4003 (   0.00%)   2661.0198 *-8374.50%*
Stddev    mmap-4      0.0000 (   0.00%)      0.0000 (   0.00%)",
    );
}

#[test]
fn zeros() {
    let zero = run(VANILLA, &[("mmap", &[0.0, 0.0])]);
    let some = run(PATCHED, &[("mmap", &[5.0, 7.0])]);
    let tail = |text: String| -> String {
        let min = text.lines().find(|line| line.starts_with("Min ")).unwrap();
        min["Min       mmap ".len() - 1..].to_owned()
    };
    let text = table(&stutterp(), Style::Y2021, &zero, &some);
    assert!(tail(text).ends_with("     0.0000 (   0.00%)      5.0000 ( -99.00%)"));
    let text = table(&stutterp(), Style::Y2021, &some, &zero);
    assert!(tail(text).ends_with("     5.0000 (   0.00%)      0.0000 ( 100.00%)"));

    let a = run(VANILLA, &[("64", &[0.0, 200.0, 300.0])]);
    let b = run(PATCHED, &[("64", &[110.0, 210.0, 290.0])]);
    let text = table(&netperf(), Style::Y2021, &a, &b);
    assert_lines(
        &text,
        "Min       64        0.00 (   0.00%)      110.00 ( 100.00%)
Hmean     64        0.00 (   0.00%)        0.00 (   0.00%)",
    );
    // The title says why the row is empty; mmtests does not.
    assert!(text.contains("# 64: no harmonic mean in 5.15.0-rc1-vanilla"), "{text}");
}

#[test]
fn headers() {
    let a = run("5.17.0-rc3-vanilla", &[("mmap-4", A4)]);
    let b = run("6.1.12-noplug-v1r4", &[("mmap-4", B4)]);
    assert_lines(
        &table(&stutterp(), Style::Y2021, &a, &b),
        "                             5.17.0-rc3                 6.1.12
                                vanilla            noplug-v1r4",
    );
    assert_eq!(header::split("5.15.0-rc10-patched"), ("5.15.0-rc10", "patched"));
}

#[test]
fn significance() {
    let pairs: [(&[f64], &[f64], &str); 2] = [
        (
            &[10.0, 11.0, 12.0],
            &[12.0, 13.0, 14.0],
            "Amean     mmap-7     11.0000 (   0.00%)     13.0000 * -18.18%*",
        ),
        (
            &[10.0, 12.0, 14.0],
            &[13.0, 15.0, 17.0],
            "Amean     mmap-7     12.0000 (   0.00%)     15.0000 ( -25.00%)",
        ),
    ];
    for (a, b, expected) in pairs {
        let (a, b) = (run(VANILLA, &[("mmap-7", a)]), run(PATCHED, &[("mmap-7", b)]));
        assert_lines(&table(&stutterp(), Style::Y2021, &a, &b), expected);
        for kind in [TableKind::VariableTime, TableKind::Multi] {
            let metric = Metric { table: kind, ..stutterp() };
            assert!(!table(&metric, Style::Y2026, &a, &b).contains('*'));
        }
    }
}

#[test]
fn higher_is_better_2026() {
    let a = run(VANILLA, &[("tcpstream-send-64", &[100.0, 200.0, 300.0])]);
    let b = run(PATCHED, &[("tcpstream-send-64", &[110.0, 210.0, 290.0])]);
    assert_lines(
        &table(&netperf(), Style::Y2026, &a, &b),
        "Hmean     tcpstream-send-64            163.64 (   0.00%)            173.40 (   5.97%)
HStddev   tcpstream-send-64             75.85 (   0.00%)             72.48 (   4.44%)
HCoeffVar tcpstream-send-64             46.35 (   0.00%)             41.80 (   9.82%)
BHmean.95 tcpstream-send-64            240.00 (   0.00%)            243.60 (   1.50%)",
    );
    let text = table(&netperf(), Style::Y2021, &a, &b);
    let stddev = text.lines().find(|line| line.starts_with("Stddev")).unwrap();
    assert!(stddev.ends_with("      100.00 (   0.00%)       90.18 (   9.82%)"), "{stddev}");
}

fn counters(elapsed_s: f64, label: &str, rows: &[(&str, i64)]) -> Run {
    let mut run = Run::new("", label, label);
    run.counters = rows.iter().copied().collect();
    run.times.elapsed_ns = (elapsed_s * 1e9).round() as u64;
    run
}

#[test]
fn vmstat_2021() {
    let names = [
        "pgscan_kswapd",
        "pgscan_direct",
        "pgsteal_kswapd",
        "pgsteal_direct",
        "nr_vmscan_write",
        "pswpout",
    ];
    let of = |values: [i64; 6]| names.into_iter().zip(values).collect::<Vec<_>>();
    let a = of([109_795_048, 1_056_608_451, 63_269_243, 10_803_973, 2_613_590, 2_932_752]);
    let b = of([147_289_810, 503_594_991, 31_036_005, 6_328_887, 1_687_131, 1_917_048]);
    let (a, b) = (counters(2277.67, VANILLA, &a), counters(2558.32, PATCHED, &b));
    assert_lines(
        &render::terminal(&vmstat::vmstat(&[&a, &b], Style::Y2021)),
        "Ops Direct pages scanned          1056608451.00   503594991.00
Ops Kswapd efficiency %                   57.62          21.07
Ops Kswapd velocity                    48204.98       57572.86
Ops Direct efficiency %                    1.02           1.26
Ops Direct velocity                   463898.83      196845.97
Ops Percentage direct scans               90.59          77.37
Ops Page writes file                 -319162.00     -229917.00",
    );
}

#[test]
fn vmstat_2015() {
    let names = [
        "pgscan_direct",
        "pgscan_kswapd",
        "pgsteal_kswapd",
        "compact_migrate_scanned",
        "compact_isolated",
        "pgmigrate_success",
        "pgmigrate_fail",
        "compact_stall",
        "compact_success",
        "compact_free_scanned",
    ];
    let of = |values: [i64; 10]| names.into_iter().zip(values).collect::<Vec<_>>();
    let a =
        of([32_938, 2_183_166, 2_152_359, 661_390, 504_695, 238_457, 23_021, 1013, 92, 13_476_658]);
    let b = of([
        32_797, 2_202_613, 2_143_524, 8_812_554, 1_479_924, 721_374, 23_469, 1007, 67, 84_327_916,
    ]);
    let (a, b) = (counters(1768.53, "4.5-rc1-before", &a), counters(1799.37, "4.5-rc1-after", &b));
    assert_lines(
        &render::terminal(&vmstat::vmstat(&[&a, &b], Style::Y2015)),
        "Kswapd efficiency                  98%         97%
Kswapd velocity               1234.452    1224.102
Percentage direct scans             1%          1%
Compaction cost                    262         838",
    );
    let text = render::terminal(&vmstat::vmstat(&[&a], Style::Y2021));
    let figure = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
    assert_eq!(figure("Ops Compaction cost"), "262.06");
    assert_eq!(figure("Ops Compaction efficiency"), "9.08");
    assert_eq!(figure("Ops Compact scan efficiency"), "4.91");
}

#[test]
fn the_duration_block() {
    let timed = |label: &str, user_ns, system_ns, elapsed_ns| {
        let mut run = Run::new("", label, label);
        run.times = highwater_results::Times { user_ns, system_ns, elapsed_ns };
        run
    };
    let a = timed(VANILLA, 6_989_030_000_000, 7_308_120_000_000, 2_277_670_000_000);
    let b = timed(PATCHED, 983_420_000_000, 799_680_000_000, 2_092_980_000_000);
    assert_lines(
        &render::terminal(&duration::duration(&[&a, &b], Style::Y2021)),
        "Duration User        6989.03      983.42
Duration System      7308.12      799.68
Duration Elapsed     2277.67     2092.98",
    );
    let text = render::terminal(&duration::duration(&[&a, &b], Style::Y2015));
    assert_lines(&text, "User        6989.03      983.42");
}

#[test]
fn stress_highalloc() {
    let metric = |better| Metric::new("stress-highalloc", "percent", better, TableKind::MinMeanMax);
    let a = run(VANILLA, &[("Success 1", &[1.0, 1.0, 1.0, 2.0, 2.0])]);
    let hidden = run(VANILLA, &[("Success 1", &[3.0, 3.0, 4.0, 4.0, 6.0])]);
    let b = run(PATCHED, &[("Success 1", &[5.0, 6.0, 6.0, 7.0, 7.0])]);
    // The output of mmtests, with its wrong direction.
    assert_lines(
        &table(&metric(Better::Lower), Style::Y2015, &a, &b),
        "Success 1 Min          1.00 (  0.00%)        5.00 (-400.00%)",
    );
    assert_lines(
        &table(&metric(Better::Lower), Style::Y2015, &hidden, &b),
        "Success 1 Min          3.00 (  0.00%)        5.00 (-66.67%)
Success 1 Mean         4.00 (  0.00%)        6.20 (-55.00%)
Success 1 Max          6.00 (  0.00%)        7.00 (-16.67%)",
    );
    // Our output.
    assert_lines(
        &table(&metric(Better::Higher), Style::Y2021, &a, &b),
        "Success 1 Mean         1.40 (   0.00%)        6.20 ( 342.86%)",
    );
}

#[test]
fn ratio_2026() {
    let metric = Metric { table: TableKind::Multi, ..stutterp() };
    let a = run(VANILLA, &[("mmap-4", A4), ("mmap-12", A12)]);
    let b = run(PATCHED, &[("mmap-4", B4), ("mmap-12", B12)]);
    assert_lines(
        &render::terminal(&ratio::ratios(&metric, &[&a, &b], Style::Y2026)),
        "Ratio mmap-4             1.0000 (0.00%) (+0.00s)            0.6594 (34.06%) (-0.17s)
Ratio mmap-12            1.0000 (0.00%) (+0.00s)            1.3125 (-31.25%) (+1.61s)
Gmean Lower              1.0000                             0.9303",
    );
    // Style 2021: distance in units of the root mean square of the deviations, 10 / 1.5811.
    let text = render::terminal(&ratio::ratios(&metric, &[&a, &b], Style::Y2021));
    assert!(text.contains("1.3125 (-31.25%) (+6.32s)"), "{text}");
    assert!(!text.contains("Dmean"));
}

// Vector 14 (delay histogram) is tested beside the code, in `histogram`.

#[test]
fn latencies_are_kept_one_by_one() {
    let logged_ns = [1_000_000.0, 2_000_000.0, 3_000_000.0, 20_000_000.0];
    let values: Vec<f64> = logged_ns.iter().map(|ns| ns / 1e6).collect();
    let metric = stutterp();
    let latencies = run(VANILLA, &[("mmap", &values)]);
    let text = table(&metric, Style::Y2021, &latencies, &latencies);
    assert_lines(
        &text,
        "Min       mmap      1.0000 (   0.00%)      1.0000 (   0.00%)
3rd-qrtle mmap      3.0000 (   0.00%)      3.0000 (   0.00%)
Max       mmap     20.0000 (   0.00%)     20.0000 (   0.00%)
Amean     mmap      6.5000 (   0.00%)      6.5000 (   0.00%)",
    );
    assert_eq!(Sorted::new(&values, Better::Lower).best_first(), [1.0, 2.0, 3.0, 20.0]);
}
