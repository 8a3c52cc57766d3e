//! The published tables recomputed: percentages, derived vmstat figures, order of the histograms
//! (rules/mmtests-tables#unsound-percentages, rules/mmtests-tables#vmstat-block).

use highwater_report::rules::Rules;
use highwater_report::{Style, histogram, percent, vmstat};
use highwater_results::published::{PublishedKind, PublishedTable};
use highwater_results::{Better, Counters, Histogram, Published, TableKind};

/// How a recomputed percentage compares with the printed one.
#[derive(Debug, Default, PartialEq)]
struct Tally {
    exact: usize,
    /// Different, but within the rounding of the printed values.
    within_rounding: usize,
    deviating: Vec<String>,
}

#[test]
fn percentages_81_exact_3_rounded_16_deviating() {
    let published = Published::load().unwrap();
    let mut tally = Tally::default();
    for table in published.tables.iter().filter(|table| table.kind == PublishedKind::Compare) {
        tally_table(table, printed_direction(table), &mut tally);
    }
    assert_eq!(
        (tally.exact, tally.within_rounding, tally.deviating.len()),
        (81, 3, 16),
        "{tally:?}"
    );
    assert!(tally.deviating.iter().all(|cell| cell.starts_with("004.success.")), "{tally:?}");
}

/// The hidden baselines of stress-highalloc explain all 18 of its percentages, to the digit.
#[test]
fn hidden_baselines_explain_the_success_tables() {
    let published = Published::load().unwrap();
    let hidden = [
        ("004.success.nodirect", [[3.0, 4.0, 6.0], [3.0, 4.2, 6.0], [63.0, 64.6, 67.0]]),
        ("004.success.direct", [[6.0, 8.4, 13.0], [6.0, 8.6, 12.0], [75.0, 75.6, 76.0]]),
    ];
    for (id, baselines) in hidden {
        let table = published.table(id).unwrap();
        for (row, baseline) in table.rows.iter().zip(baselines.as_flattened()) {
            let change = percent::change(Better::Lower, *baseline, row.values[1]);
            assert_eq!(format!("{change:.2}"), row.pct_text[1], "{id} {} {}", row.op, row.stat);
        }
    }
}

/// The direction by which the percentages were printed: the wrong one for success rates.
fn printed_direction(table: &PublishedTable) -> Better {
    if table.percentages_are_sound() { table.direction().unwrap() } else { Better::Lower }
}

fn tally_table(table: &PublishedTable, better: Better, tally: &mut Tally) {
    let rules =
        Rules { style: table.style.parse::<Style>().unwrap(), better, kind: TableKind::Multi };
    for row in &table.rows {
        let direction = rules.direction(Rules::parse_label(&row.stat).unwrap());
        for column in 1..row.values.len() {
            let change = percent::change(direction, row.values[0], row.values[column]);
            if format!("{change:.2}") == row.pct_text[column] {
                tally.exact += 1;
                continue;
            }
            let (base_slack, value_slack) =
                (half_digit(&row.text[0]), half_digit(&row.text[column]));
            let corners = [(-1.0, 1.0), (1.0, -1.0), (-1.0, -1.0), (1.0, 1.0)].map(|(x, y)| {
                percent::change(
                    direction,
                    row.values[0] + x * base_slack,
                    row.values[column] + y * value_slack,
                )
            });
            let (low, high) = corners
                .iter()
                .fold((f64::MAX, f64::MIN), |(low, high), &c| (low.min(c), high.max(c)));
            if (low - 0.005..=high + 0.005).contains(&row.pct[column]) {
                tally.within_rounding += 1;
            } else {
                tally.deviating.push(format!("{} {} {}", table.id, row.op, row.stat));
            }
        }
    }
}

/// Half a unit of the last digit printed.
fn half_digit(text: &str) -> f64 {
    let nr_digits = text.split_once('.').map_or(0, |(_, digits)| digits.len());
    0.5 * 10f64.powi(-(nr_digits as i32))
}

/// Counter behind each plain row of a published vmstat table.
const COUNTERS: &[(&str, &str)] = &[
    ("Direct pages scanned", "pgscan_direct"),
    ("Kswapd pages scanned", "pgscan_kswapd"),
    ("Kswapd pages reclaimed", "pgsteal_kswapd"),
    ("Direct pages reclaimed", "pgsteal_direct"),
    ("Page writes by reclaim", "nr_vmscan_write"),
    ("Page writes anon", "pswpout"),
    ("Compaction stalls", "compact_stall"),
    ("Compaction success", "compact_success"),
    ("Page migrate success", "pgmigrate_success"),
    ("Page migrate failure", "pgmigrate_fail"),
    ("Compaction pages isolated", "compact_isolated"),
    ("Compaction migrate scanned", "compact_migrate_scanned"),
    ("Compaction free scanned", "compact_free_scanned"),
];

#[test]
fn derived_vmstat_figures_follow_from_the_plain_ones() {
    let published = Published::load().unwrap();
    // Elapsed times: for study 001 rules/mmtests-tables#unsound-percentages, for 004 its
    // Duration tables.
    let tables = [
        ("001.vmstat", [2277.67, 2558.32], 5),
        ("004.vmstat.nodirect", [1768.53, 1799.37], 2),
        ("004.vmstat.direct", [1838.04, 1836.76], 2),
    ];
    for (id, elapsed, nr_derived) in tables {
        let table = published.table(id).unwrap();
        for (column, &elapsed_s) in elapsed.iter().enumerate() {
            let counters: Counters = COUNTERS
                .iter()
                .filter_map(|&(label, name)| {
                    Some((name, table.labelled(label)?.values[column] as i64))
                })
                .collect();
            let figures = vmstat::Figures { counters: &counters, elapsed_s };
            let mut nr_checked = 0;
            for row in &table.rows {
                let known = COUNTERS.iter().any(|(label, _)| *label == row.label);
                let derived = ["efficiency", "velocity", "Percentage", "cost"];
                if known || !derived.iter().any(|word| row.label.contains(word)) {
                    continue;
                }
                let value = vmstat::figure(&row.label, &figures).unwrap();
                let text = match table.style.as_str() {
                    "2015" if row.text[column].ends_with('%') => format!("{}%", value as i64),
                    "2015" => format!("{}", value as i64),
                    _ => format!("{value:.2}"),
                };
                assert_eq!(text, row.text[column], "{id} {}", row.label);
                nr_checked += 1;
            }
            assert_eq!(nr_checked, nr_derived, "{id}");
        }
    }
}

#[test]
fn published_histograms_are_in_our_order() {
    let published = Published::load().unwrap();
    assert_eq!(published.histograms.len(), 10);
    for one in &published.histograms {
        let mut ours = Histogram::new(&one.title, &one.event, &one.context);
        // Fed backwards: the order must come from the sorting.
        for bucket in one.buckets.iter().rev() {
            ours.record(&bucket.key(&one.event), bucket.count);
        }
        let printed: String = one
            .buckets
            .iter()
            .map(|bucket| format!("{:7} {}\n", bucket.count, bucket.key(&one.event)))
            .collect();
        // The list of reasons is in order of reason, not of count.
        if one.id != "001.patched.direct.reasons" {
            assert_eq!(histogram::lines(&ours), printed, "{}", one.id);
        }
    }
}
