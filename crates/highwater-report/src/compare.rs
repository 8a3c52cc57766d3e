//! The comparison table of a benchmark: statistics of every operation, one column per run
//! (rules/mmtests-tables#layout, rules/mmtests-tables#row-sets).
//!
//! Rows are ordered by statistic, then by operation; the first run is the baseline. An operation
//! that a run lacks is shown as missing in its own cell and never shifts another row.
//!
//! Neighbours: [`rules`](crate::rules) chooses the rows, [`significance`](crate::significance) the
//! marks.

use highwater_results::words::count;
use highwater_results::{Metric, Run, TableKind};

use crate::percent::{self, Told};
use crate::rules::{Rules, Statistic};
use crate::significance::is_marked;
use crate::stats::Sorted;
use crate::style::Style;
use crate::table::{Cell, Layout, Suffix, Table};
use crate::verdict::NotCounted;

/// Options of the reader.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Period of mmtests whose layout is followed.
    pub style: Style,
    /// Rows to show.
    pub rows: RowSet,
    /// How changes are shown.
    pub changes: Changes,
}

/// How changes are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Changes {
    /// In percent, as mmtests does.
    #[default]
    Percent,
    /// As factors if they are larger than a factor of 2 ([`Told`]).
    Factors,
}

/// Row sets.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RowSet {
    /// All that mmtests prints.
    #[default]
    Full,
    /// Smallest, quartiles, 90 %, 99 %, largest, mean.
    Brief,
    /// The means.
    Means,
    /// Rows with these labels, in this order.
    Only(Vec<String>),
}

impl RowSet {
    fn shows(&self, rules: &Rules, statistic: Statistic) -> bool {
        match self {
            RowSet::Full => true,
            RowSet::Brief => matches!(
                statistic,
                Statistic::Min
                    | Statistic::Percentile(25 | 50 | 75 | 90 | 99)
                    | Statistic::Max
                    | Statistic::Mean
            ),
            RowSet::Means => statistic == Statistic::Mean,
            RowSet::Only(labels) => labels.contains(&rules.label(statistic)),
        }
    }
}

/// Compares runs of one machine; the first run is the baseline.
pub fn comparison(metric: &Metric, runs: &[&Run], options: &Options) -> Table {
    let rules = Rules::of(metric, options.style);
    let all = operations(metric, runs);
    let counted: Vec<&String> = all.iter().filter(|name| is_compared(name, runs)).collect();
    let operations: Vec<String> = counted
        .iter()
        .filter(|name| !metric.skips_zeros || is_any(name, runs))
        .map(|&name| name.clone())
        .collect();
    let samples = SampleSets::collect(metric, runs, &operations);
    let layout = Layout::Mmtests {
        field: options.style.field_width(),
        suffix: Suffix::Percent(options.style.percent_width()),
    };
    let labels = runs.iter().map(|run| run.label.clone()).collect();
    let mut table = Table::new(title(metric, runs), &["statistic", "operation"], labels, layout);
    let shown = rules.rows().into_iter().filter(|&statistic| options.rows.shows(&rules, statistic));
    let mut shown: Vec<Statistic> = shown.collect();
    if let RowSet::Only(labels) = &options.rows {
        shown.sort_by_key(|&s| labels.iter().position(|label| *label == rules.label(s)));
    }
    let row = |statistic: Statistic, index: usize| -> Vec<Cell> {
        (0..runs.len())
            .map(|run| {
                let told = options.changes;
                cell(&rules, statistic, metric.decimals, &samples, (index, run), told)
            })
            .collect()
    };
    if metric.table == TableKind::MinMeanMax {
        // Operation first, as one label; the second label column stays empty
        // (rules/mmtests-tables#row-order).
        for (index, operation) in operations.iter().enumerate() {
            for &statistic in &shown {
                let label = format!("{operation} {}", rules.label(statistic));
                table.push(&[&label, ""], row(statistic, index));
            }
        }
    } else {
        for &statistic in &shown {
            let single = metric.table == TableKind::Single;
            let label = if single { "Ops".to_owned() } else { rules.label(statistic) };
            for (index, operation) in operations.iter().enumerate() {
                table.push(&[&label, operation], row(statistic, index));
            }
        }
    }
    if counted.len() < all.len() {
        table.notes.extend(not_counted(metric, runs).map(|note| format!("rows left out, {note}")));
    }
    if operations.len() < counted.len() {
        let left_out = count(counted.len() - operations.len(), "row");
        table.notes.push(format!("{left_out} in which nothing happened left out"));
    }
    table.notes.extend(samples.size_note(&operations, runs));
    table.notes.extend(policy_notes(runs));
    table.notes.extend(undefined_notes(&rules, &operations, &samples, runs));
    table
}

/// The operations of a metric that the runs' kernels do not count, one line for each reason.
pub(crate) fn not_counted(metric: &Metric, runs: &[&Run]) -> impl Iterator<Item = String> {
    let mut all = NotCounted::default();
    runs.iter().for_each(|run| all.add(metric, run));
    all.notes()
}

/// True if all runs count the operation, or if enough do for these to be compared.
fn is_compared(operation: &String, runs: &[&Run]) -> bool {
    let counts = |run: &&&Run| !run.not_counted.contains(operation);
    let nr_counting = runs.iter().filter(counts).count();
    nr_counting == runs.len() || nr_counting > 1
}

/// True if the operation occurs in any run.
fn is_any(operation: &str, runs: &[&Run]) -> bool {
    runs.iter().any(|run| run.values(operation).iter().any(|&value| value != 0.0))
}

/// The operations of a table: those that the metric names. If it names none, those of all runs in
/// order of first appearance.
pub fn operations(metric: &Metric, runs: &[&Run]) -> Vec<String> {
    if !metric.operations.is_empty() {
        return metric.operations.clone();
    }
    let mut names: Vec<String> = Vec::new();
    for name in runs.iter().flat_map(|run| run.operations()) {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Subject, unit, direction and machine in one line.
pub fn title(metric: &Metric, runs: &[&Run]) -> String {
    let direction = match metric.better {
        highwater_results::Better::Higher => "higher is better",
        highwater_results::Better::Lower => "lower is better",
        highwater_results::Better::Neither => "positive is more",
    };
    let machine =
        runs.first().map(|run| run.machine.as_str()).filter(|machine| !machine.is_empty());
    let place = machine.map(|machine| format!(" on {machine}")).unwrap_or_default();
    format!("{}{place} ({}, {direction})", metric.name, metric.unit)
}

/// Sorted samples by operation and run; `None` where the run lacks the operation.
pub(crate) struct SampleSets(Vec<Vec<Option<Sorted>>>);

impl SampleSets {
    pub(crate) fn collect(metric: &Metric, runs: &[&Run], operations: &[String]) -> SampleSets {
        let set = |operation: &String, run: &Run| {
            let values = run.values(operation);
            (!values.is_empty()).then(|| Sorted::new(&values, metric.better))
        };
        SampleSets(
            operations.iter().map(|name| runs.iter().map(|run| set(name, run)).collect()).collect(),
        )
    }

    pub(crate) fn get(&self, operation: usize, run: usize) -> Option<&Sorted> {
        self.0.get(operation)?.get(run)?.as_ref()
    }

    fn size_note(&self, operations: &[String], runs: &[&Run]) -> Option<String> {
        let sizes = |index: usize| -> Vec<usize> {
            (0..runs.len()).map(|run| self.get(index, run).map_or(0, Sorted::len)).collect()
        };
        size_note(operations, &(0..operations.len()).map(sizes).collect::<Vec<_>>())
    }
}

/// The number of samples of each operation, by operation and run. If most operations have the same
/// number in all runs, only the others are named.
fn size_note(operations: &[String], sizes: &[Vec<usize>]) -> Option<String> {
    let common = |sizes: &Vec<usize>| {
        let first = *sizes.first()?;
        sizes.iter().all(|&size| size == first).then_some(first)
    };
    sizes.first()?.first()?;
    let with = |size: usize| sizes.iter().filter(|all| common(all) == Some(size)).count();
    let usual = sizes.iter().filter_map(common).find(|&size| with(size) * 2 > sizes.len());
    let others =
        operations.iter().zip(sizes).filter(|(_, sizes)| usual.is_none() || common(sizes) != usual);
    let others: Vec<String> = others
        .map(|(operation, sizes)| {
            let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
            format!("{operation} {}", sizes.join("/"))
        })
        .collect();
    Some(match (usual, others.is_empty()) {
        (Some(usual), true) => format!("n = {usual} per operation and run"),
        (Some(usual), false) => {
            format!("n = {usual} per operation and run, but by run: {}", others.join(", "))
        }
        (None, _) => format!("n by run: {}", others.join(", ")),
    })
}

fn cell(
    rules: &Rules,
    statistic: Statistic,
    decimals: u8,
    samples: &SampleSets,
    (operation, run): (usize, usize),
    changes: Changes,
) -> Cell {
    let Some(set) = samples.get(operation, run) else {
        return Cell::Missing;
    };
    let value = rules.value(statistic, set);
    let Some(baseline_set) = samples.get(operation, 0) else {
        return Cell::Change {
            value: value.unwrap_or(0.0),
            decimals,
            percent: None,
            significant: false,
            told: None,
        };
    };
    let baseline = rules.value(statistic, baseline_set);
    let factors = changes == Changes::Factors;
    let told = baseline.zip(value).filter(|_| factors);
    let told = told.and_then(|(a, b)| Told::of(rules.direction(statistic), a, b));
    let (value, percent) = match (baseline, value) {
        // mmtests' percentages have the wrong sign if the baseline is negative.
        (Some(baseline), Some(value)) if factors && baseline < 0.0 => {
            (value, percent::judged(rules.direction(statistic), baseline, value))
        }
        (Some(baseline), Some(value)) => {
            (value, percent::change(rules.direction(statistic), baseline, value))
        }
        // A change from an undefined harmonic mean cannot be computed: the whole row is 0.00
        // (rules/statistics#undefined).
        (None, Some(_)) if rules.is_harmonic(statistic) => (0.0, 0.0),
        (None, Some(value)) => (value, f64::NAN),
        (_, None) => (0.0, 0.0),
    };
    Cell::Change {
        value,
        decimals,
        percent: Some(percent),
        significant: run > 0 && is_marked(rules, statistic, baseline_set, set),
        told,
    }
}

/// Names the policy of each column whose heading does not.
fn policy_notes(runs: &[&Run]) -> Vec<String> {
    let unnamed = runs.iter().filter(|run| !run.label.contains(&run.policy));
    unnamed.map(|run| format!("{}: policy {}", run.label, run.policy)).collect()
}

/// Notes that name the means printed as 0.00 because they are undefined.
fn undefined_notes(
    rules: &Rules,
    operations: &[String],
    samples: &SampleSets,
    runs: &[&Run],
) -> Vec<String> {
    let mut notes = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        let lacks = |run: usize| {
            let set = samples.get(index, run);
            set.is_some_and(|set| rules.value(Statistic::Mean, set).is_none())
        };
        let labels: Vec<&str> =
            (0..runs.len()).filter(|&run| lacks(run)).map(|run| runs[run].label.as_str()).collect();
        if !labels.is_empty() {
            notes.push(format!(
                "{operation}: no harmonic mean in {} (a sample is not positive), printed as 0",
                labels.join(", ")
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_results::Better;
    use proptest::prelude::*;

    fn run(label: &str, operations: &[(&str, &[f64])]) -> Run {
        let mut run = Run::new("", label, label);
        for (operation, values) in operations {
            for &value in *values {
                run.push(operation, 0, 0, value);
            }
        }
        run
    }

    /// The mmtests style keeps mmtests' percentages, also where their sign is wrong.
    #[test]
    fn below_nothing_only_our_own_changes_have_the_sign_of_their_way() {
        let metric = Metric::new("t", "ms", Better::Lower, TableKind::Multi);
        let (a, b) = (run("a", &[("one", &[-10.0])]), run("b", &[("one", &[-2.0])]));
        for (changes, expected) in [(Changes::Percent, 80.0), (Changes::Factors, -80.0)] {
            let options = Options { rows: RowSet::Means, changes, ..Options::default() };
            let table = comparison(&metric, &[&a, &b], &options);
            let Cell::Change { percent, .. } = table.rows[0].cells[1] else { panic!("no change") };
            assert_eq!(percent, Some(expected));
        }
    }

    #[test]
    fn a_missing_operation_shifts_nothing() {
        let metric = Metric::new("t", "ms", Better::Lower, TableKind::Multi);
        let a = run("a", &[("one", &[1.0]), ("two", &[2.0])]);
        let b = run("b", &[("two", &[1.0]), ("three", &[3.0])]);
        let options = Options { rows: RowSet::Means, ..Options::default() };
        let table = comparison(&metric, &[&a, &b], &options);
        assert_eq!(table.row(&["Amean", "one"]).unwrap().cells[1], Cell::Missing);
        assert_eq!(table.row(&["Amean", "two"]).unwrap().cells[1].full_text(), "1.00 *50.00%*");
        let three = &table.row(&["Amean", "three"]).unwrap().cells;
        assert_eq!((three[0].full_text(), three[1].full_text()), ("-".into(), "3.00 (-)".into()));
        assert_eq!(table.notes, ["n by run: one 1/0, two 1/1, three 0/1"]);
    }

    #[test]
    fn large_changes_are_told_as_factors_where_that_is_asked_for() {
        let metric = Metric::new("t", "ms", Better::Lower, TableKind::Single);
        let a = run("a", &[("up", &[1.0]), ("same", &[1.0]), ("new", &[0.0])]);
        let b = run("b", &[("up", &[142.4]), ("same", &[1.5]), ("new", &[3.0])]);
        let texts = |changes| -> Vec<String> {
            let options = Options { changes, ..Options::default() };
            let rows = comparison(&metric, &[&a, &b], &options).rows;
            rows.iter().map(|row| row.cells[1].suffix_text()).collect()
        };
        assert_eq!(texts(Changes::Percent), ["-14140.00%", "-50.00%", "-99.00%"]);
        assert_eq!(texts(Changes::Factors), ["-x142", "-50.00%", "from 0"]);
    }

    #[test]
    fn operations_of_the_metric_set_the_order_and_show_what_no_run_has() {
        let mut metric = Metric::new("t", "ms", Better::Lower, TableKind::Single);
        metric.operations = vec!["two".into(), "none".into()];
        let a = run("a", &[("one", &[1.0]), ("two", &[2.0])]);
        let table = comparison(&metric, &[&a], &Options::default());
        let labels: Vec<_> = table.rows.iter().map(|row| row.labels.join(" ")).collect();
        assert_eq!(labels, ["Ops two", "Ops none"]);
        assert_eq!(table.rows[1].cells, [Cell::Missing]);
    }

    #[test]
    fn columns_that_do_not_name_their_policy_are_explained() {
        let metric = Metric::new("t", "ms", Better::Lower, TableKind::Single);
        let (mut a, b) = (run("6.1-before", &[]), run("6.1-after", &[]));
        a.policy = "throttle-congestion".into();
        let notes = comparison(&metric, &[&a, &b], &Options::default()).notes;
        assert!(notes.contains(&"6.1-before: policy throttle-congestion".to_owned()));
        assert!(!notes.iter().any(|note| note.contains("6.1-after")));
    }

    #[test]
    fn row_sets() {
        let metric = Metric::new("t", "ms", Better::Lower, TableKind::VariableTime);
        let a = run("a", &[("x", &[1.0, 2.0])]);
        let labels = |rows: RowSet| -> String {
            let options = Options { rows, ..Options::default() };
            let table = comparison(&metric, &[&a], &options);
            table.rows.iter().map(|row| row.labels[0].clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(labels(RowSet::Means), "Amean");
        assert_eq!(
            labels(RowSet::Brief),
            "Min 1st-qrtle 2nd-qrtle 3rd-qrtle Max-90 Max-99 Max Amean"
        );
        assert_eq!(labels(RowSet::Only(vec!["Max".into(), "Min".into()])), "Max Min");
        assert_eq!(labels(RowSet::Full).split(' ').count(), 20);
    }

    #[test]
    fn nothing_to_compare_is_an_empty_table() {
        let metric = Metric::new("t", "ms", Better::Lower, TableKind::Multi);
        let table = comparison(&metric, &[], &Options::default());
        assert!(table.rows.is_empty() && table.columns.is_empty());
    }

    #[test]
    fn only_operations_with_other_numbers_of_samples_are_named() {
        let names = ["a", "b", "c"].map(str::to_owned);
        let note = |sizes: [[usize; 2]; 3]| size_note(&names, &sizes.map(|sizes| sizes.to_vec()));
        assert_eq!(note([[3, 3]; 3]).unwrap(), "n = 3 per operation and run");
        assert_eq!(
            note([[3, 3], [3, 2], [3, 3]]).unwrap(),
            "n = 3 per operation and run, but by run: b 3/2"
        );
        assert_eq!(note([[3, 2], [3, 2], [3, 3]]).unwrap(), "n by run: a 3/2, b 3/2, c 3/3");
        assert_eq!(note([[1, 1], [2, 2], [3, 3]]).unwrap(), "n by run: a 1/1, b 2/2, c 3/3");
        assert_eq!(size_note(&[], &[]), None);
    }

    proptest! {
        #[test]
        fn the_baseline_column_never_changes(values in proptest::collection::vec(0.0f64..1e6, 1..30)) {
            let a = run("a", &[("x", &values)]);
            for style in [Style::Y2015, Style::Y2021, Style::Y2026] {
                for better in [Better::Lower, Better::Higher] {
                    let metric = Metric::new("t", "ms", better, TableKind::VariableTime);
                    let table = comparison(&metric, &[&a, &a], &Options { style, ..Options::default() });
                    for row in &table.rows {
                        prop_assert_eq!(&row.cells[0], &row.cells[1]);
                        prop_assert_eq!(row.cells[0].suffix_text(), "0.00%");
                    }
                }
            }
        }
    }
}
