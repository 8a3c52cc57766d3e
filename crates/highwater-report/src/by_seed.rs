//! The same changes judged seed by seed: how they would move if other seeds had been run.
//!
//! The same seed runs under every policy, and samples of one seed depend on each other. The
//! resampled unit is therefore a seed, and both runs draw the same seeds. [`samples`] judges the
//! benchmark's samples: figures that one huge sample can decide, beside figures that it cannot
//! move. [`totals`] judges CPU time and counters, which have one number per seed.
//!
//! Key type: [`BySeed`] (a run's samples, grouped once).

use std::collections::BTreeMap;

use highwater_results::{Better, Metric, Run, SeedTotals};

use crate::compare::{operations, title};
use crate::percent::{self, Told};
use crate::rules::Rules;
use crate::stats::Sorted;
use crate::stats::paired::{ChangeInterval, Paired, Robust, SeedPair};
use crate::style::Style;
use crate::table::{Cell, Layout, Table};
use crate::vmstat::{Figures, figure};

/// The figures of [`samples`].
const FIGURES: [(&str, Robust); 4] = [
    ("mean", Robust::Mean),
    ("best 90%", Robust::BestMean(90)),
    ("median", Robust::Percentile(50)),
    ("Max-90", Robust::Percentile(90)),
];
/// Counters of [`totals`]: how much reclaim did, and how efficiently.
const COUNTED: [&str; 9] = [
    "Direct pages scanned",
    "Kswapd pages scanned",
    "Percentage direct scans",
    "Kswapd efficiency %",
    "Direct efficiency %",
    "Page writes by reclaim",
    "Page writes anon",
    "Page reclaim immediate",
    "Slabs scanned",
];
/// With fewer seeds, a 95 % interval excludes 0 by chance in more than 5 percent of cases.
pub(crate) const SEEDS_MIN: usize = 6;

/// A run's samples by operation and seed.
pub(crate) struct BySeed<'a>(BTreeMap<&'a str, BTreeMap<u64, Vec<f64>>>);

impl<'a> BySeed<'a> {
    pub(crate) fn of(run: &'a Run) -> Self {
        let mut all: BTreeMap<&str, BTreeMap<u64, Vec<f64>>> = BTreeMap::new();
        for sample in &run.samples {
            let of_seed = all.entry(&sample.operation).or_default().entry(sample.seed).or_default();
            of_seed.push(sample.value);
        }
        BySeed(all)
    }

    /// The samples of each seed that both runs have, in order of seed.
    pub(crate) fn pairs<'b>(
        &'b self,
        other: &'b BySeed<'_>,
        operation: &str,
    ) -> impl Iterator<Item = (&'b [f64], &'b [f64])> {
        let seeds = self.0.get(operation).into_iter().flatten();
        let theirs = other.0.get(operation);
        seeds.filter_map(move |(seed, mine)| Some((&mine[..], &theirs?.get(seed)?[..])))
    }

    /// The same samples, best first.
    pub(crate) fn seed_pairs(
        &self,
        other: &BySeed<'_>,
        operation: &str,
        better: Better,
    ) -> Vec<SeedPair> {
        let best_first = |values: &[f64]| Sorted::new(values, better).best_first().to_vec();
        let pairs = self.pairs(other, operation);
        pairs.map(|(a, b)| SeedPair { before: best_first(a), after: best_first(b) }).collect()
    }
}

/// Judges changes of the samples against the first run.
pub fn samples(metric: &Metric, runs: &[&Run], style: Style) -> Table {
    let rules = Rules::of(metric, style);
    let names = FIGURES.iter().map(|(name, _)| *name).chain(["Max"]);
    let columns = names.flat_map(|name| [name.to_owned(), "95% interval".to_owned()]);
    let name = format!("Evidence by seed: {}", title(metric, runs));
    let labels = ["operation", "run"];
    let mut table = Table::new(name, &labels, columns.collect(), Layout::Fitted)
        // The columns of a change and its interval.
        .breaking_at(&[0, 2, 4, 6, 8]);
    let Some((baseline, others)) = runs.split_first() else { return table };
    let of_baseline = BySeed::of(baseline);
    let of_others: Vec<BySeed<'_>> = others.iter().map(|run| BySeed::of(run)).collect();
    let mut nr_seeds = 0;
    for operation in &operations(metric, runs) {
        for (run, of_run) in others.iter().zip(&of_others) {
            let seeds = of_baseline.seed_pairs(of_run, operation, rules.better);
            nr_seeds = nr_seeds.max(seeds.len());
            let figures = FIGURES.map(|(_, figure)| figure);
            let change = |a, b| percent::judged(rules.better, a, b);
            let mut changes = Paired::default().changes(&seeds, &figures, change);
            let largest = |values: &[f64]| values.iter().copied().fold(f64::MIN, f64::max);
            let largest: Vec<(f64, f64)> =
                seeds.iter().map(|seed| (largest(&seed.before), largest(&seed.after))).collect();
            changes.push(Paired::default().change_of_means(&largest, change));
            let cells = changes.into_iter().flat_map(|change| change_cells(rules.better, change));
            table.push(&[operation, &run.label], cells.collect());
        }
    }
    table.notes.push(format!(
        "changes against {}, positive is better; paired bootstrap: seeds are drawn, the same for both runs, then samples \
         within each; Max: the mean of the seeds' largest samples, and only seeds are drawn",
        baseline.label
    ));
    table.notes.push(
        "a stall of minutes decides a mean: where its interval holds 0 and the others' do not, what is typical changed; \
         where the others' hold 0 too, nothing is shown"
            .to_owned(),
    );
    table.notes.extend(few_seeds(nr_seeds));
    table
}

/// Judges changes of CPU time and counters against the first run. No rows unless both runs have at
/// least two seeds.
pub fn totals(runs: &[&Run]) -> Table {
    let columns = ["before", "after", "change", "95% interval", "seeds lower"];
    let columns = columns.iter().map(|&column| column.to_owned()).collect();
    let name = "Evidence by seed: CPU time and reclaim".to_owned();
    let mut table =
        Table::new(name, &["figure", "run"], columns, Layout::Fitted).breaking_at(&[0, 2, 4]);
    let Some((baseline, others)) = runs.split_first() else { return table };
    let mut nr_seeds = 0;
    for (name, value) in figures() {
        for run in others {
            let pairs: Vec<(f64, f64)> = baseline
                .per_seed
                .iter()
                .filter_map(|before| {
                    let after = run.per_seed.iter().find(|after| after.seed == before.seed)?;
                    Some((value(before), value(after)))
                })
                .collect();
            let nothing = pairs.iter().all(|&pair| pair == (0.0, 0.0));
            if pairs.len() < 2 || nothing {
                continue;
            }
            nr_seeds = nr_seeds.max(pairs.len());
            let mean = |part: fn(&(f64, f64)) -> f64| {
                pairs.iter().map(part).sum::<f64>() / pairs.len() as f64
            };
            let (before, after) = (mean(|pair| pair.0), mean(|pair| pair.1));
            let growth = |a, b| percent::growth(a, b).unwrap_or(f64::NAN);
            let change = Paired::default().change_of_means(&pairs, growth);
            let nr_lower = pairs.iter().filter(|(before, after)| after < before).count();
            let mut cells = vec![Cell::number(before, 2), Cell::number(after, 2)];
            cells.extend(match change {
                Some(_) => change_cells(Better::Higher, change),
                // A change from 0 has no percentage.
                None => {
                    [Cell::change(None, Told::of(Better::Higher, before, after)), Cell::Missing]
                }
            });
            cells.push(Cell::text(format!("{nr_lower}/{}", pairs.len())));
            table.push(&[&name, &run.label], cells);
        }
    }
    table.notes.push(format!(
        "means per seed; changes against {}, positive is more; paired bootstrap over seeds",
        baseline.label
    ));
    table.notes.extend(few_seeds(nr_seeds));
    table
}

/// Name and value of a figure of one seed.
type Total = (String, Box<dyn Fn(&SeedTotals) -> f64>);

fn figures() -> Vec<Total> {
    let mut all: Vec<Total> = vec![
        ("System time (s)".to_owned(), Box::new(|totals| totals.times.system_s())),
        ("User time (s)".to_owned(), Box::new(|totals| totals.times.user_s())),
    ];
    all.extend(COUNTED.iter().map(|&name| -> Total {
        let value = move |totals: &SeedTotals| {
            let elapsed_s = totals.times.elapsed_s();
            figure(name, &Figures { counters: &totals.counters, elapsed_s }).unwrap_or(0.0)
        };
        (name.to_owned(), Box::new(value))
    }));
    all
}

/// The cells of a change and its limits. A single seed gives no limits.
fn change_cells(better: Better, change: Option<ChangeInterval>) -> [Cell; 2] {
    let Some(ChangeInterval { point, before, after, limits }) = change else {
        return [Cell::Missing, Cell::Missing];
    };
    let told = Told::of(better, before, after);
    let limits = limits.map_or(Cell::Missing, |limits| Cell::interval(better, limits, told));
    [Cell::change(Some(point), told), limits]
}

/// A warning about intervals over few seeds.
fn few_seeds(nr_seeds: usize) -> Option<String> {
    let advice = format!("use --iterations {SEEDS_MIN} or more");
    match nr_seeds {
        0 => None,
        1 => Some(format!(
            "one seed: the intervals do not show the variation between seeds; {advice}"
        )),
        n if n < SEEDS_MIN => {
            // Excluding 0 then means that all seeds go up or all go down.
            let chance = 200.0 / f64::from(1u32 << n);
            Some(format!(
                "{n} seeds: an interval excludes 0 whenever all seeds go the same way, which {chance:.0} % do where \
                 nothing changed; {advice}"
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_results::{Better, TableKind, Times};

    fn run(label: &str, offset: f64, nr_seeds: u32) -> Run {
        let mut run = Run::new("m", label, label);
        for seed in 1..=nr_seeds {
            let (number, seed) = (f64::from(seed), u64::from(seed));
            run.seeds.push(seed);
            for iteration in 0..5u32 {
                run.push("64", iteration, seed, 100.0 + offset + f64::from(iteration) * 0.5);
            }
            let system_ns = ((100.0 + offset + number) * 1e9) as u64;
            run.per_seed.push(SeedTotals {
                seed,
                times: Times { user_ns: 5, system_ns, elapsed_ns: 9 },
                counters: [("pgscan_direct", 1000 + 10 * seed as i64)].into_iter().collect(),
                ..SeedTotals::default()
            });
        }
        run
    }

    fn interval(cell: &Cell) -> (f64, f64) {
        match *cell {
            Cell::Interval { low, high, .. } => (low, high),
            ref other => panic!("{other:?}"),
        }
    }

    fn metric() -> Metric {
        Metric::new("stutterp", "ms", Better::Lower, TableKind::VariableTime)
    }

    #[test]
    fn seeds_judge_the_mean_and_what_outliers_do_not_move() {
        let (a, mut b) = (run("a", 0.0, 3), run("b", -20.0, 3));
        b.push("64", 4, 3, 300_000.0);
        let table = samples(&metric(), &[&a, &b], Style::Y2021);
        let row = table.row(&["64", "b"]).unwrap();
        let mean = interval(&row.cells[1]);
        assert!(mean.0 < -1000.0 && mean.1 > 0.0, "{mean:?}");
        let (low, high) = interval(&row.cells[5]);
        assert!(low > 15.0 && high < 25.0, "{low} {high}");
        // Two seeds of three have a smaller Max, and the third decides.
        let (low, high) = interval(&row.cells[9]);
        assert!(low < -1000.0 && high > 15.0, "{low} {high}");
    }

    #[test]
    fn largest_samples_are_judged_seed_by_seed() {
        let (mut a, mut b) = (run("a", 0.0, 6), run("b", 0.0, 6));
        for seed in 1..=6u32 {
            let largest = 1000.0 * f64::from(seed);
            a.push("64", 0, seed.into(), largest);
            b.push("64", 0, seed.into(), largest * 0.8);
        }
        let table = samples(&metric(), &[&a, &b], Style::Y2021);
        let row = table.row(&["64", "b"]).unwrap();
        assert_eq!(row.cells[8].value_text(), "20.00%");
        // Seeds differ by a factor of six, and the change is the same in all of them.
        let (low, high) = interval(&row.cells[9]);
        assert!((low - 20.0).abs() < 1e-6 && (high - 20.0).abs() < 1e-6, "{low} {high}");
        assert_eq!(table.notes.len(), 2, "six seeds are enough");
    }

    #[test]
    fn few_seeds_are_told_of() {
        let notes =
            |n| samples(&metric(), &[&run("a", 0.0, n), &run("b", 1.0, n)], Style::Y2021).notes;
        assert!(
            notes(3)[2].starts_with("3 seeds:") && notes(3)[2].contains("25 %"),
            "{:?}",
            notes(3)
        );
        assert!(notes(5)[2].contains("6 %"), "{:?}", notes(5));
        assert!(notes(1)[2].starts_with("one seed"));
        assert_eq!(few_seeds(6), None);
        let once = samples(&metric(), &[&run("a", 0.0, 1), &run("b", 1.0, 1)], Style::Y2021);
        assert_eq!(once.rows[0].cells[9], Cell::Missing, "one largest sample has no interval");
    }

    #[test]
    fn times_and_counters_are_paired_too() {
        let (a, b) = (run("a", 0.0, 6), run("b", -50.0, 6));
        let table = totals(&[&a, &b]);
        let row = table.row(&["System time (s)", "b"]).unwrap();
        let texts: Vec<String> = row.cells.iter().map(Cell::value_text).collect();
        assert_eq!([&texts[0], &texts[1], &texts[4]], ["103.50", "53.50", "6/6"]);
        let (low, high) = interval(&row.cells[3]);
        assert!(low < -48.0 && high > -49.0 && low > -49.0 && high < -47.0, "{low} {high}");
        let scanned = table.row(&["Direct pages scanned", "b"]).unwrap();
        assert_eq!(scanned.cells[2].value_text(), "0.00%");
        assert!(table.row(&["Slabs scanned", "b"]).is_none(), "nothing happened");
        assert!(totals(&[&run("a", 0.0, 1), &run("b", 0.0, 1)]).rows.is_empty());
    }

    #[test]
    fn seeds_of_one_run_alone_are_left_out() {
        let (a, b) = (run("a", 0.0, 3), run("b", 0.0, 5));
        let (a, b) = (BySeed::of(&a), BySeed::of(&b));
        assert_eq!((a.pairs(&b, "64").count(), b.pairs(&a, "64").count()), (3, 3));
        assert_eq!(a.pairs(&b, "65").count(), 0);
    }
}
