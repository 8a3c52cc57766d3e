//! How far to believe the changes: tests that assume no distribution, beside the rule of mmtests.
//!
//! For every operation and run: the change of the mean with its bootstrap interval (BCa, 95 %), the probabilities of
//! the t-test and of the Mann-Whitney test, the share of sample pairs in which the run is better, and in how many
//! seeds its mean is better. Samples of one seed are not independent of each other, so with few seeds the last column
//! is the one to trust.
//!
//! [`by_seed`] judges the same changes by seeds, and figures that a single huge sample cannot move beside the mean.

use highwater_results::{Better, Metric, Run};

use crate::compare::{SampleSets, operations, title};
use crate::percent;
use crate::rules::Rules;
use crate::significance::t_test;
use crate::stats::bootstrap::{Bootstrap, Interval};
use crate::stats::paired::{Paired, Robust, SeedPair};
use crate::stats::{Sorted, mann_whitney};
use crate::style::Style;
use crate::table::{Cell, Layout, Table, percent_text};

/// Judges every change against the first run.
pub fn evidence(metric: &Metric, runs: &[&Run], style: Style) -> Table {
    let rules = Rules::of(metric, style);
    let operations = operations(metric, runs);
    let samples = SampleSets::collect(metric, runs, &operations);
    let columns = ["change", "95% interval", "p (t)", "p (rank)", "pairs better", "seeds better"];
    let columns = columns.iter().map(|&column| column.to_owned()).collect();
    let name = format!("Evidence: {}", title(metric, runs));
    let mut table = Table::new(name, &["operation", "run"], columns, Layout::Fitted);
    for (index, operation) in operations.iter().enumerate() {
        for (position, run) in runs.iter().enumerate().skip(1) {
            let cells = match (samples.get(index, 0), samples.get(index, position)) {
                (Some(baseline), Some(set)) => {
                    let mut cells = judge(&rules, baseline, set);
                    cells.push(seeds_better(&rules, operation, runs[0], run));
                    cells
                }
                _ => vec![Cell::Missing; table.columns.len()],
            };
            table.push(&[operation, &run.label], cells);
        }
    }
    if let Some(baseline) = runs.first() {
        table.notes.push(format!(
            "changes against {}, positive is better; interval: bootstrap (BCa) of the mean; p: two-sided, and too \
             small where samples of one seed depend on each other",
            baseline.label
        ));
    }
    table
}

/// The figures of [`by_seed`].
const FIGURES: [(&str, Robust); 4] = [
    ("mean", Robust::Mean),
    ("best 90%", Robust::BestMean(90)),
    ("median", Robust::Percentile(50)),
    ("Max-90", Robust::Percentile(90)),
];

/// Judges changes against the first run by seeds: intervals of the mean and of figures that huge samples do not move.
pub fn by_seed(metric: &Metric, runs: &[&Run], style: Style) -> Table {
    let rules = Rules::of(metric, style);
    let columns =
        FIGURES.iter().flat_map(|(name, _)| [(*name).to_owned(), "95% interval".to_owned()]);
    let name = format!("Evidence by seed: {}", title(metric, runs));
    let labels = ["operation", "run"];
    let mut table = Table::new(name, &labels, columns.collect(), Layout::Fitted);
    let Some((baseline, others)) = runs.split_first() else { return table };
    let mut nr_seeds = 0;
    for operation in &operations(metric, runs) {
        for run in others {
            let seeds = seed_pairs(&rules, operation, baseline, run);
            nr_seeds = nr_seeds.max(seeds.len());
            let figures = FIGURES.map(|(_, figure)| figure);
            let change = |a, b| percent::change(rules.better, a, b);
            let changes = Paired::default().changes(&seeds, &figures, change);
            let cells = changes.into_iter().flat_map(|change| match change {
                None => [Cell::Missing, Cell::Missing],
                Some(change) => [
                    Cell::text(percent_text(Some(change.point))),
                    Cell::Interval { low: change.low, high: change.high },
                ],
            });
            table.push(&[operation, &run.label], cells.collect());
        }
    }
    table.notes.push(format!(
        "changes against {}, positive is better; paired bootstrap: seeds are drawn, the same for both runs, then samples \
         within each",
        baseline.label
    ));
    table.notes.push(
        "a stall of minutes decides a mean: where its interval holds 0 and the others' do not, what is typical changed; \
         where the others' hold 0 too, nothing is shown"
            .to_owned(),
    );
    if nr_seeds == 1 {
        table.notes.push(
            "one seed: the intervals know nothing of others; --iterations 5 or more tells"
                .to_owned(),
        );
    }
    table
}

/// The samples of each seed that both runs have, best first.
fn seed_pairs(rules: &Rules, operation: &str, baseline: &Run, run: &Run) -> Vec<SeedPair> {
    let of_seed = |run: &Run, seed: u64| -> Vec<f64> {
        let samples = run.samples.iter().filter(|s| s.seed == seed && s.operation == operation);
        let values: Vec<f64> = samples.map(|sample| sample.value).collect();
        Sorted::new(&values, rules.better).best_first().to_vec()
    };
    let mut seeds = run.seeds.clone();
    seeds.sort_unstable();
    seeds.dedup();
    seeds
        .into_iter()
        .map(|seed| SeedPair { before: of_seed(baseline, seed), after: of_seed(run, seed) })
        .filter(|pair| !pair.before.is_empty() && !pair.after.is_empty())
        .collect()
}

fn judge(rules: &Rules, baseline: &Sorted, run: &Sorted) -> Vec<Cell> {
    let change = rules
        .mean(baseline.best_first())
        .zip(rules.mean(run.best_first()))
        .map(|(a, b)| percent::change(rules.better, a, b));
    let ranks = mann_whitney::test(baseline.best_first(), run.best_first());
    let pairs_better = ranks.map(|ranks| match rules.better {
        Better::Higher => 100.0 * ranks.share,
        Better::Lower => 100.0 - 100.0 * ranks.share,
    });
    let or_missing = |text: Option<String>| text.map_or(Cell::Missing, Cell::text);
    let enough = baseline.len() > 1 && run.len() > 1;
    vec![
        or_missing(change.map(|change| percent_text(Some(change)))),
        change_interval(rules, baseline, run).map_or(Cell::Missing, |interval| Cell::Interval {
            low: interval.bca.0,
            high: interval.bca.1,
        }),
        or_missing(enough.then(|| probability(t_test(rules, baseline, run).p))),
        or_missing(ranks.map(|ranks| probability(ranks.p))),
        or_missing(pairs_better.map(|share| format!("{share:.0}%"))),
    ]
}

/// Bootstrap interval of the percent change of the mean that the table shows.
pub fn change_interval(rules: &Rules, baseline: &Sorted, run: &Sorted) -> Option<Interval> {
    let (a, b) = (baseline.best_first(), run.best_first());
    let harmonic = rules.is_harmonic(crate::rules::Statistic::Mean);
    let bootstrap = Bootstrap::default();
    if !harmonic {
        return bootstrap.of_means(a, b, |a, b| percent::change(rules.better, a, b));
    }
    // The harmonic mean is the inverse of the mean of inverses.
    rules.mean(a).zip(rules.mean(b))?;
    let inverse = |values: &[f64]| values.iter().map(|value| 1.0 / value).collect::<Vec<_>>();
    bootstrap
        .of_means(&inverse(a), &inverse(b), |a, b| percent::change(rules.better, 1.0 / a, 1.0 / b))
}

/// In how many of the seeds that both runs have the mean is better: `4/5`.
fn seeds_better(rules: &Rules, operation: &str, baseline: &Run, run: &Run) -> Cell {
    let seed_mean = |run: &Run, seed: u64| {
        let of_seed = run
            .samples
            .iter()
            .filter(|sample| sample.seed == seed && sample.operation == operation);
        rules.mean(&of_seed.map(|sample| sample.value).collect::<Vec<_>>())
    };
    let mut seeds = run.seeds.clone();
    seeds.sort_unstable();
    seeds.dedup();
    let changes: Vec<f64> = seeds
        .into_iter()
        .filter_map(|seed| seed_mean(baseline, seed).zip(seed_mean(run, seed)))
        .map(|(a, b)| percent::change(rules.better, a, b))
        .collect();
    if changes.is_empty() {
        return Cell::Missing;
    }
    let nr_better = changes.iter().filter(|&&change| change > 0.0).count();
    Cell::text(format!("{nr_better}/{}", changes.len()))
}

fn probability(p: f64) -> String {
    if p < 0.0001 { "<0.0001".to_owned() } else { format!("{p:.4}") }
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
            let Cell::Interval { low, high } = table.rows[0].cells[1] else {
                panic!("no interval");
            };
            let sign = if better == Better::Higher { 1.0 } else { -1.0 };
            assert!(low < high && low * sign > 0.0 && high * sign > 0.0, "{low} {high}");
        }
    }

    #[test]
    fn seeds_judge_the_mean_and_what_outliers_do_not_move() {
        let metric = Metric::new("stutterp", "ms", Better::Lower, TableKind::VariableTime);
        let (a, mut b) = (run("a", 0.0), run("b", -20.0));
        b.push("64", 4, 3, 300_000.0);
        let table = by_seed(&metric, &[&a, &b], Style::Y2021);
        let row = table.row(&["64", "b"]).unwrap();
        let interval = |at: usize| match row.cells[at] {
            Cell::Interval { low, high } => (low, high),
            ref other => panic!("{other:?}"),
        };
        assert!(interval(1).0 < -1000.0 && interval(1).1 > 0.0, "{:?}", interval(1));
        let (low, high) = interval(5);
        assert!(low > 15.0 && high < 25.0, "{low} {high}");
        assert_eq!(table.notes.len(), 2);
        let mut once = a.clone();
        once.seeds = vec![1];
        assert_eq!(by_seed(&metric, &[&a, &once], Style::Y2021).notes.len(), 3);
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
