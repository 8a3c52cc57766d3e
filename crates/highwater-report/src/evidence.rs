//! How far to trust the changes: distribution-free tests, beside the rule of mmtests.
//!
//! For every operation and run, the table has:
//! * the change of the mean with its bootstrap interval (BCa, 95 %),
//! * the probabilities of the t-test and of the Mann-Whitney test,
//! * the share of sample pairs in which the run is better,
//! * in how many seeds the run's mean is better.
//!
//! Samples of one seed are not independent of each other, so with few seeds the last column is the
//! one to trust. If the number of samples depends on the run, one stall moves many of them. In that
//! case [`by_seed`](crate::by_seed) gives the interval.

use highwater_results::{Better, Metric, Run, TableKind};

use crate::by_seed::BySeed;
use crate::compare::{SampleSets, operations, title};
use crate::percent::{self, Told};
use crate::rules::Rules;
use crate::significance::t_test;
use crate::stats::bootstrap::{Bootstrap, Interval};
use crate::stats::{Sorted, mann_whitney};
use crate::style::Style;
use crate::table::{Cell, Layout, Table};

/// Heading of the intervals.
const INTERVAL: &str = "95% interval";
/// Heading of the distribution-free probability.
const P_RANK: &str = "p (rank)";
/// A change is trusted below this probability.
const LEVEL: f64 = 0.05;

/// Judges every change against the first run.
pub fn evidence(metric: &Metric, runs: &[&Run], style: Style) -> Table {
    let rules = Rules::of(metric, style);
    let operations = operations(metric, runs);
    let samples = SampleSets::collect(metric, runs, &operations);
    let has_interval = metric.table != TableKind::VariableTime;
    let columns = ["change", INTERVAL, "p (t)", P_RANK, "pairs better", "seeds better"];
    let columns = columns.iter().filter(|&&column| has_interval || column != INTERVAL);
    let columns = columns.map(|&column| column.to_owned()).collect();
    let name = format!("Evidence: {}", title(metric, runs));
    let mut table = Table::new(name, &["operation", "run"], columns, Layout::Fitted);
    let by_seed: Vec<BySeed<'_>> = runs.iter().map(|run| BySeed::of(run)).collect();
    for (index, operation) in operations.iter().enumerate() {
        for (position, run) in runs.iter().enumerate().skip(1) {
            let cells = match (samples.get(index, 0), samples.get(index, position)) {
                (Some(baseline), Some(set)) => {
                    let mut cells = judge(&rules, baseline, set);
                    if has_interval {
                        cells.insert(1, interval_cell(&rules, baseline, set));
                    }
                    cells.push(seeds_better(&rules, operation, &by_seed[0], &by_seed[position]));
                    cells
                }
                _ => vec![Cell::Missing; table.columns.len()],
            };
            table.push(&[operation, &run.label], cells);
        }
    }
    if let Some(baseline) = runs.first() {
        let (interval, too_sure) = if has_interval {
            ("interval: bootstrap (BCa) of the mean; ", "and the interval too narrow ")
        } else {
            ("", "")
        };
        table.notes.push(format!(
            "changes against {}, positive is better; {interval}p: two-sided; p is too small {too_sure}where samples of \
             one seed depend on each other",
            baseline.label
        ));
    }
    table
}

/// Keeps the rows that show a change, and adds a note with the number of rows left out. If no row
/// shows a change, one line says so instead of the table.
///
/// A row shows a change if one of its intervals excludes 0. A row without intervals does if its p
/// (rank) is below 5 percent, or if its only entry is a change beyond percentages.
pub fn changed_only(mut table: Table) -> Table {
    let nr_rows = table.rows.len();
    let p_rank = table.columns.iter().position(|column| column == P_RANK);
    table.rows.retain(|row| shows_change(&row.cells, p_rank));
    match nr_rows - table.rows.len() {
        0 => {}
        n if n == nr_rows => {
            table.title += &match n {
                1 => ": its row shows no change; --all prints it".to_owned(),
                _ => format!(": none of {n} rows shows a change; --all prints them"),
            };
            table.notes.clear();
        }
        n => {
            let note = match n {
                1 => {
                    format!("1 of {nr_rows} rows shows no change and is left out; --all prints it")
                }
                _ => format!(
                    "{n} of {nr_rows} rows show no change and are left out; --all prints them"
                ),
            };
            table.notes.insert(0, note);
        }
    }
    table
}

fn shows_change(cells: &[Cell], p_rank: Option<usize>) -> bool {
    let interval = |cell: &Cell| match *cell {
        Cell::Interval { low, high, .. } => Some((low, high)),
        _ => None,
    };
    let mut intervals = cells.iter().filter_map(interval).peekable();
    if intervals.peek().is_some() {
        // A change that prints as zero counts as none.
        let is_nothing = |(low, high): (f64, f64)| low.abs().max(high.abs()) < 0.005;
        return intervals.any(|limits| percent::excludes_zero(limits) && !is_nothing(limits));
    }
    match p_rank.and_then(|column| cells.get(column)) {
        Some(Cell::Probability { value }) => *value < LEVEL,
        _ => cells.iter().any(|cell| matches!(cell, Cell::Percent { told: Some(_), .. })),
    }
}

fn judge(rules: &Rules, baseline: &Sorted, run: &Sorted) -> Vec<Cell> {
    let means = rules.mean(baseline.best_first()).zip(rules.mean(run.best_first()));
    let change = means.map(|(a, b)| percent::judged(rules.better, a, b));
    let ranks = mann_whitney::test(baseline.best_first(), run.best_first());
    let pairs_better = ranks.map(|ranks| match rules.better {
        Better::Higher | Better::Neither => ranks.share,
        Better::Lower => 1.0 - ranks.share,
    });
    let probability = |value| Cell::Probability { value };
    let enough = baseline.len() > 1 && run.len() > 1;
    vec![
        Cell::change(change, told(rules, baseline, run)),
        enough.then(|| t_test(rules, baseline, run).p).map_or(Cell::Missing, probability),
        ranks.map_or(Cell::Missing, |ranks| probability(ranks.p)),
        pairs_better.map_or(Cell::Missing, |share| Cell::share(share, 1.0, 0)),
    ]
}

fn interval_cell(rules: &Rules, baseline: &Sorted, run: &Sorted) -> Cell {
    let interval = change_interval(rules, baseline, run).map(|interval| interval.bca);
    let told = told(rules, baseline, run);
    interval.map_or(Cell::Missing, |limits| Cell::interval(rules.better, limits, told))
}

/// The text shown for the change of the mean.
fn told(rules: &Rules, baseline: &Sorted, run: &Sorted) -> Option<Told> {
    let (before, after) = (rules.mean(baseline.best_first())?, rules.mean(run.best_first())?);
    Told::of(rules.better, before, after)
}

/// Bootstrap interval of the percent change of the table's mean.
pub fn change_interval(rules: &Rules, baseline: &Sorted, run: &Sorted) -> Option<Interval> {
    interval_of(rules, baseline, run, |a, b| percent::judged(rules.better, a, b))
}

/// Bootstrap interval of any change of the table's mean.
pub(crate) fn interval_of(
    rules: &Rules,
    baseline: &Sorted,
    run: &Sorted,
    change: impl Fn(f64, f64) -> f64,
) -> Option<Interval> {
    let (a, b) = (baseline.best_first(), run.best_first());
    let harmonic = rules.is_harmonic(crate::rules::Statistic::Mean);
    let bootstrap = Bootstrap::default();
    if !harmonic {
        return bootstrap.of_means(a, b, change);
    }
    // The harmonic mean is the inverse of the mean of inverses.
    rules.mean(a).zip(rules.mean(b))?;
    let inverse = |values: &[f64]| values.iter().map(|value| 1.0 / value).collect::<Vec<_>>();
    bootstrap.of_means(&inverse(a), &inverse(b), |a, b| change(1.0 / a, 1.0 / b))
}

/// Number of seeds, of those that both runs have, in which the mean is better: `4/5`.
fn seeds_better(rules: &Rules, operation: &str, baseline: &BySeed<'_>, run: &BySeed<'_>) -> Cell {
    let changes: Vec<f64> = baseline
        .pairs(run, operation)
        .filter_map(|(a, b)| rules.mean(a).zip(rules.mean(b)))
        .map(|(a, b)| percent::judged(rules.better, a, b))
        .collect();
    if changes.is_empty() {
        return Cell::Missing;
    }
    let nr_better = changes.iter().filter(|&&change| change > 0.0).count();
    Cell::text(format!("{nr_better}/{}", changes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_results::TableKind;

    fn run(label: &str, offset: f64) -> Run {
        let mut run = Run::new("m", label, label);
        run.seeds = vec![1, 2, 3];
        for seed in 1..=3u32 {
            for iteration in 0..5u32 {
                run.push(
                    "64",
                    iteration,
                    u64::from(seed),
                    100.0 + offset + f64::from(iteration) * 0.5,
                );
            }
        }
        run
    }

    #[test]
    fn a_clear_change_convinces_every_test() {
        for better in [Better::Higher, Better::Lower] {
            let metric = Metric::new("netperf", "Mbit/s", better, TableKind::Multi);
            let (a, b) = (run("a", 0.0), run("b", 10.0));
            let table = evidence(&metric, &[&a, &b], Style::Y2021);
            let texts: Vec<String> = table.rows[0].cells.iter().map(Cell::value_text).collect();
            let expected_better =
                if better == Better::Higher { ["100%", "3/3"] } else { ["0%", "0/3"] };
            assert_eq!([texts[2].as_str(), texts[3].as_str()], ["<0.0001", "<0.0001"]);
            assert_eq!([texts[4].as_str(), texts[5].as_str()], expected_better);
            let Cell::Interval { low, high, .. } = table.rows[0].cells[1] else {
                panic!("no interval");
            };
            let sign = if better == Better::Higher { 1.0 } else { -1.0 };
            assert!(low < high && low * sign > 0.0 && high * sign > 0.0, "{low} {high}");
        }
    }

    #[test]
    fn where_samples_hang_together_there_is_no_interval() {
        let metric = |table| Metric::new("t", "ms", Better::Lower, table);
        let (a, b) = (run("a", 0.0), run("b", 10.0));
        let table = |kind| evidence(&metric(kind), &[&a, &b], Style::Y2021);
        let (with, without) = (table(TableKind::Multi), table(TableKind::VariableTime));
        assert_eq!((with.columns.len(), without.columns.len()), (6, 5));
        assert!(with.notes[0].contains("p is too small and the interval too narrow where"));
        assert!(without.notes[0].contains("p is too small where"));
        assert_eq!(without.rows[0].cells[4].value_text(), "0/3");
    }

    #[test]
    fn rows_that_show_no_change_are_counted_and_left_out() {
        for kind in [TableKind::Multi, TableKind::VariableTime] {
            let metric = Metric::new("t", "ms", Better::Lower, kind);
            let (mut a, mut b) = (run("a", 0.0), run("b", 10.0));
            for (n, value) in [(0, 1.0), (1, 2.0), (2, 3.0)] {
                a.push("same", n, 1, value);
                b.push("same", n, 1, value);
            }
            let full = evidence(&metric, &[&a, &b], Style::Y2021);
            let short = changed_only(full.clone());
            let labels: Vec<&str> = short.rows.iter().map(|row| row.labels[0].as_str()).collect();
            assert_eq!((full.rows.len(), labels), (2, vec!["64"]));
            assert_eq!(
                short.notes[0],
                "1 of 2 rows shows no change and is left out; --all prints it"
            );
            let nothing = changed_only(evidence(&metric, &[&a, &a], Style::Y2021));
            assert!(nothing.rows.is_empty() && nothing.notes.is_empty());
            assert!(nothing.title.ends_with(": none of 2 rows shows a change; --all prints them"));
            a.samples.retain(|sample| sample.operation != "same");
            let all = evidence(&metric, &[&a, &run("b", 10.0)], Style::Y2021);
            assert_eq!(changed_only(all.clone()), all, "nothing to say");
        }
    }

    #[test]
    fn a_total_from_nothing_is_a_change() {
        let told = Told::of(Better::Higher, 0.0, 7.0);
        assert!(shows_change(&[Cell::change(None, told), Cell::Missing], None));
        assert!(!shows_change(&[Cell::change(Some(0.0), None), Cell::Missing], None));
    }

    #[test]
    fn one_sample_each_has_no_interval_and_missing_operations_stay_missing() {
        let metric = Metric::new("netperf", "Mbit/s", Better::Higher, TableKind::Multi);
        let (mut a, mut b) = (Run::new("m", "a", "a"), Run::new("m", "b", "b"));
        a.push("64", 0, 1, 5.0);
        b.push("64", 0, 1, 6.0);
        b.push("128", 0, 1, 6.0);
        b.seeds = vec![1];
        let table = evidence(&metric, &[&a, &b], Style::Y2021);
        let texts: Vec<String> = table.rows[0].cells.iter().map(Cell::value_text).collect();
        assert_eq!(texts, ["20.00%", "-", "-", "1.0000", "100%", "1/1"]);
        assert!(table.rows[1].cells.iter().all(|cell| *cell == Cell::Missing));
    }
}
