//! Our figures beside the published ones of the five studies.
//!
//! Each published row gets our change, the published change, whether the study marked it as
//! significant, and whether the signs agree. A published table is a reference, never an input; rows
//! that we do not have are shown as missing. stress-highalloc's percentages do not follow from its
//! printed values, so they are computed anew (rules/mmtests-tables#unsound-percentages).

use highwater_results::published::{PublishedKind, PublishedRow};
use highwater_results::{Better, Metric, Posted, Postings, PublishedTable, Run};

use crate::claims::Judged;
use crate::headline::Verdict;
use crate::percent::{self, Told};
use crate::repeats::Repeats;
use crate::rules::Rules;
use crate::stats::Sorted;
use crate::style::Style;
use crate::table::{Cell, Layout, Table};
use crate::vmstat;

/// A run of ours and the published column that it stands for.
#[derive(Clone, Copy, Debug)]
pub struct Pairing<'a> {
    /// Our run.
    pub run: &'a Run,
    /// Number of the published column, from 0.
    pub column: usize,
}

/// Pairs runs and published columns by position, up to the shorter list.
pub fn by_position<'a>(runs: &[&'a Run], published: &PublishedTable) -> Vec<Pairing<'a>> {
    let pairs = runs.iter().zip(0..published.columns.len());
    pairs.map(|(&run, column)| Pairing { run, column }).collect()
}

/// A cell of the column of other postings.
pub(crate) const ELSEWHERE: &str =
    "elsewhere: the change of the same row in other postings; in brackets on another machine";

/// The changes of other postings; those of other machines in brackets.
pub(crate) fn elsewhere(better: Better, posted: &[Posted]) -> Cell {
    let change = |one: &Posted| {
        let told = Told::of(better, one.before, one.after);
        let text = Cell::change(Some(percent::change(better, one.before, one.after)), told);
        let text = text.value_text();
        if one.is_same_machine { text } else { format!("({text})") }
    };
    let changes: Vec<String> = posted.iter().map(change).collect();
    if changes.is_empty() { Cell::Missing } else { Cell::text(changes.join(" ")) }
}

/// Changes against the first pair, one row per published row and further pair. `metric` describes
/// our samples; only tables of statistics need it to match. Other postings of the rows stand beside
/// them if there are any of the same kind of machine.
pub fn side_by_side(
    metric: &Metric,
    pairs: &[Pairing<'_>],
    published: &PublishedTable,
    postings: &Postings,
) -> Table {
    let all = compared(metric, pairs, published);
    let posted: Vec<Vec<Posted>> = all
        .iter()
        .map(|compared| postings.of_row(&published.id, compared.row, compared.column))
        .collect();
    let has_posted = posted.iter().flatten().any(|one| one.is_same_machine);
    let columns = ["ours", "published", "published significant", "same sign"];
    let columns = columns.into_iter().chain(has_posted.then_some("elsewhere"));
    let columns = columns.map(str::to_owned).collect();
    let title = format!("Beside the published table {} ({})", published.id, published.title);
    let compare = published.kind == PublishedKind::Compare;
    let labels: &[&str] =
        if compare { &["statistic", "operation", "run"] } else { &["figure", "run"] };
    let mut table = Table::new(title, labels, columns, Layout::Fitted);
    let mut tally = Tally::default();
    for (Compared { row, run, changes, .. }, posted) in all.iter().zip(&posted) {
        tally.count(changes);
        let mut cells = changes.cells();
        cells.extend(has_posted.then(|| elsewhere(direction(published, row), posted)));
        if compare {
            table.push(&[&row.stat, &row.op, &run.label], cells);
        } else {
            table.push(&[&row.label, &run.label], cells);
        }
    }
    if pairs.is_empty() {
        return table;
    }
    table.notes = tally.notes();
    for pair in pairs {
        if let Some(column) = published.columns.get(pair.column) {
            table.notes.push(format!("{} beside {column}", pair.run.label));
        }
    }
    table.notes.push(if compare {
        "percent change, positive is better".to_owned()
    } else {
        "percent change, positive is more".to_owned()
    });
    if compare && !published.percentages_are_sound() {
        table.notes.push(
            "published changes computed from the printed values, not the printed percentages"
                .to_owned(),
        );
    }
    table.notes.extend(has_posted.then(|| ELSEWHERE.to_owned()));
    table.notes.extend(published.notes.clone());
    table
}

/// A published row and a run of ours.
struct Compared<'a> {
    row: &'a PublishedRow,
    run: &'a Run,
    /// The published column of the run.
    column: usize,
    /// Our values and the published ones, before and after.
    values: [[Option<f64>; 2]; 2],
    changes: Changes,
}

/// Every row, for each pair except the first, which is the baseline.
fn compared<'a>(
    metric: &Metric,
    pairs: &[Pairing<'a>],
    published: &'a PublishedTable,
) -> Vec<Compared<'a>> {
    let mut all = Vec::new();
    let Some((baseline, others)) = pairs.split_first() else { return all };
    for row in &published.rows {
        for pair in others {
            let direction = direction(published, row);
            let ours = |pair: &Pairing<'_>| our_value(metric, published, row, pair.run);
            let theirs = |pair: &Pairing<'_>| row.values.get(pair.column).copied();
            let values = [[ours(baseline), ours(pair)], [theirs(baseline), theirs(pair)]];
            let changes = Changes {
                told: values.map(|[before, after]| Told::of(direction, before?, after?)),
                ours: our_change(metric, published, row, baseline, pair),
                published: published_change(published, row, baseline.column, pair.column),
                significant: row
                    .significant
                    .get(pair.column)
                    .copied()
                    .filter(|_| published.style != "2015"),
            };
            let (run, column) = (pair.run, pair.column);
            all.push(Compared { row, run, column, values, changes });
        }
    }
    all
}

/// The claims of a published table: each row that it marks as significant, or every row if it marks
/// none.
///
/// Sizes are compared as percentages here: these changes are small, and none of them counts as
/// "about equal".
pub fn claimed(
    metric: &Metric,
    pairs: &[Pairing<'_>],
    published: &PublishedTable,
    postings: &Postings,
) -> Vec<Judged> {
    let all = compared(metric, pairs, published);
    let is_marked = |compared: &Compared<'_>| compared.changes.significant == Some(true);
    let marks = all.iter().any(is_marked);
    let claims = all.into_iter().filter(|compared| !marks || is_marked(compared));
    let claim = |Compared { row, run, column, values: [ours, theirs], changes }| {
        let posted = postings.of_row(&published.id, row, column);
        let direction = direction(published, row);
        let against_published = |(before, after)| {
            let change = percent::change(direction, before, after);
            verdict(Some(change), changes.published)
        };
        Judged {
            label: row.name(),
            run: run.label.clone(),
            table: published.id.clone(),
            ours,
            theirs,
            text: String::new(),
            repeats: Repeats::of(&posted, against_published),
            posted,
            verdict: verdict(changes.ours, changes.published),
        }
    };
    claims.map(claim).collect()
}

/// Whether both changes, in percent, have the same direction; a change that prints as 0.00 % has
/// none.
fn agree(ours: Option<f64>, published: Option<f64>) -> Option<bool> {
    let sign = |percent: f64| (percent * 100.0).round().partial_cmp(&0.0);
    Some(sign(ours?) == sign(published?))
}

/// Whether both changes, in percent, have the same direction, and whether one is between half and
/// twice the other.
fn verdict(ours: Option<f64>, published: Option<f64>) -> Option<Verdict> {
    let is_same_way = agree(ours, published)?;
    let (ours, published) = (ours?, published?);
    let is_same_size = published == ours || (0.5..=2.0).contains(&(ours / published));
    Some(Verdict { is_same_way, is_same_size: is_same_way && is_same_size })
}

/// One row's two changes.
struct Changes {
    /// The texts shown for our change and the published one.
    told: [Option<Told>; 2],
    ours: Option<f64>,
    published: Option<f64>,
    significant: Option<bool>,
}

impl Changes {
    fn cells(&self) -> Vec<Cell> {
        let yes_no = |answer: bool| Cell::text(if answer { "yes" } else { "no" });
        vec![
            Cell::change(self.ours, self.told[0]),
            Cell::change(self.published, self.told[1]),
            self.significant.map_or_else(|| Cell::text("not tested"), yes_no),
            self.agree().map_or(Cell::Missing, yes_no),
        ]
    }

    /// Whether both changes have the same direction.
    fn agree(&self) -> Option<bool> {
        agree(self.ours, self.published)
    }
}

/// Number of rows whose signs agree.
#[derive(Default)]
struct Tally {
    nr_compared: usize,
    nr_agree: usize,
    nr_significant: usize,
    nr_significant_agree: usize,
}

impl Tally {
    fn count(&mut self, changes: &Changes) {
        let Some(agree) = changes.agree() else {
            return;
        };
        self.nr_compared += 1;
        self.nr_agree += usize::from(agree);
        if changes.significant == Some(true) {
            self.nr_significant += 1;
            self.nr_significant_agree += usize::from(agree);
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![format!("{} of {} signs agree", self.nr_agree, self.nr_compared)];
        if self.nr_significant > 0 {
            notes.push(format!(
                "{} of {} among those published as significant",
                self.nr_significant_agree, self.nr_significant
            ));
        }
        notes
    }
}

/// The published change between two columns. The printed percentage is used if it compares with the
/// first column and is sound.
pub fn published_change(
    table: &PublishedTable,
    row: &PublishedRow,
    baseline: usize,
    column: usize,
) -> Option<f64> {
    let (base, value) = (*row.values.get(baseline)?, *row.values.get(column)?);
    if table.kind != PublishedKind::Compare {
        return percent::growth(base, value);
    }
    if baseline == 0 && table.percentages_are_sound() {
        return row.pct.get(column).copied();
    }
    let statistic = Rules::parse_label(&row.stat)?;
    let rules = rules_of(table, None)?;
    Some(percent::change(rules.direction(statistic), base, value))
}

/// Our figure for a published row; none if we have no such figure.
pub fn our_value(
    metric: &Metric,
    table: &PublishedTable,
    row: &PublishedRow,
    run: &Run,
) -> Option<f64> {
    match table.kind {
        PublishedKind::Compare => {
            let statistic = Rules::parse_label(&row.stat)?;
            let rules = rules_of(table, Some(metric))?;
            rules.value(statistic, &Sorted::new(&run.values(&row.op), rules.better))
        }
        PublishedKind::Vmstat => vmstat::figure(&row.label, &vmstat::Figures::of(run)),
        PublishedKind::Duration => match row.label.rsplit(' ').next() {
            Some("User") => Some(run.times.user_s()),
            Some("System") => Some(run.times.system_s()),
            Some("Elapsed") => Some(run.times.elapsed_s()),
            _ => None,
        },
        PublishedKind::FtraceTimes => {
            run.counters.contains(&row.label).then(|| run.counters.get(&row.label) as f64)
        }
    }
}

fn our_change(
    metric: &Metric,
    table: &PublishedTable,
    row: &PublishedRow,
    baseline: &Pairing<'_>,
    pair: &Pairing<'_>,
) -> Option<f64> {
    let before = our_value(metric, table, row, baseline.run)?;
    let after = our_value(metric, table, row, pair.run)?;
    if table.kind != PublishedKind::Compare {
        return percent::growth(before, after);
    }
    let statistic = Rules::parse_label(&row.stat)?;
    let rules = rules_of(table, Some(metric))?;
    Some(percent::change(rules.direction(statistic), before, after))
}

/// Direction of a row. For counters and times, more is positive.
fn direction(table: &PublishedTable, row: &PublishedRow) -> Better {
    let statistic = Rules::parse_label(&row.stat).filter(|_| table.kind == PublishedKind::Compare);
    let rules = statistic.and_then(|statistic| Some((rules_of(table, None)?, statistic)));
    rules.map_or(Better::Higher, |(rules, statistic)| rules.direction(statistic))
}

/// The rules that made the published table; the table's direction wins over the metric's.
fn rules_of(table: &PublishedTable, metric: Option<&Metric>) -> Option<Rules> {
    Some(Rules {
        style: table.style.parse::<Style>().ok()?,
        better: table.direction().or(metric.map(|metric| metric.better)).unwrap_or(Better::Lower),
        kind: metric.map_or(highwater_results::TableKind::Multi, |metric| metric.table),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_results::{Published, TableKind};

    fn run(label: &str, values: &[(&str, f64)]) -> Run {
        let mut run = Run::new("m", label, label);
        for (operation, value) in values {
            run.push(operation, 0, 0, *value);
        }
        run
    }

    #[test]
    fn netperf_beside_the_study() {
        let (published, postings) = (Published::load().unwrap(), Postings::load().unwrap());
        let skylake = published.table("002.netperf-tcp.skylake").unwrap();
        let metric = Metric::new("netperf-tcp", "Mbit/s", Better::Higher, TableKind::Multi);
        let a = run("a", &[("64", 100.0), ("128", 100.0)]);
        let b = run("b", &[("64", 101.0), ("128", 99.0)]);
        let table = side_by_side(&metric, &by_position(&[&a, &b], skylake), skylake, &postings);
        assert_eq!(table.rows.len(), 9);
        let texts = |operation: &str| -> Vec<String> {
            let row = table.row(&["Hmean", operation, "b"]).unwrap();
            row.cells.iter().map(Cell::value_text).collect()
        };
        assert_eq!(texts("64"), ["1.00%", "0.27%", "yes", "yes"]);
        assert_eq!(texts("128"), ["-1.00%", "0.79%", "yes", "no"]);
        assert_eq!(texts("256"), ["-", "2.64%", "yes", "-"]);
        assert_eq!(
            table.notes[..2],
            ["1 of 2 signs agree", "1 of 2 among those published as significant"]
        );
    }

    #[test]
    fn another_baseline_column_is_computed_from_the_values() {
        let published = Published::load().unwrap();
        let skylake = published.table("002.netperf-tcp.skylake").unwrap();
        let row = skylake.row("Hmean", "64").unwrap();
        let change = published_change(skylake, row, 1, 2).unwrap();
        assert!((change - (100.0 * 943.61 / 941.50 - 100.0)).abs() < 1e-9);
        assert_eq!(published_change(skylake, row, 0, 7), None);
    }

    #[test]
    fn success_rates_use_the_right_direction() {
        let (published, postings) = (Published::load().unwrap(), Postings::load().unwrap());
        let success = published.table("004.success.nodirect").unwrap();
        let row = success.row("Mean", "Success 1").unwrap();
        assert!((published_change(success, row, 0, 1).unwrap() - 342.857).abs() < 0.001);
        let metric =
            Metric::new("stress-highalloc", "percent", Better::Higher, TableKind::MinMeanMax);
        let (a, b) = (run("a", &[("Success 1", 2.0)]), run("b", &[("Success 1", 3.0)]));
        let table = side_by_side(&metric, &by_position(&[&a, &b], success), success, &postings);
        let texts: Vec<_> = table
            .row(&["Mean", "Success 1", "b"])
            .unwrap()
            .cells
            .iter()
            .map(Cell::value_text)
            .collect();
        assert_eq!(texts, ["50.00%", "x4.4", "not tested", "yes", "x2.9 x3.0"]);
    }

    #[test]
    fn counters_and_times_are_paired_by_label() {
        let (published, postings) = (Published::load().unwrap(), Postings::load().unwrap());
        let metric = Metric::new("stutterp", "ms", Better::Lower, TableKind::VariableTime);
        let (mut a, mut b) = (run("a", &[]), run("b", &[]));
        a.counters.set("pgscan_direct", 1000);
        b.counters.set("pgscan_direct", 400);
        a.times.system_ns = 10;
        b.times.system_ns = 1;
        let vmstat = published.table("001.vmstat").unwrap();
        let table = side_by_side(&metric, &by_position(&[&a, &b], vmstat), vmstat, &postings);
        let texts: Vec<_> = table
            .row(&["Direct pages scanned", "b"])
            .unwrap()
            .cells
            .iter()
            .map(Cell::value_text)
            .collect();
        assert_eq!(texts, ["-x2.5", "-x2.1", "not tested", "yes", "-x6.9 -x13.7 (-x17.3) (-x2.4)"]);
        let duration = published.table("001.duration").unwrap();
        let table = side_by_side(&metric, &by_position(&[&a, &b], duration), duration, &postings);
        let texts: Vec<_> = table
            .row(&["Duration System", "b"])
            .unwrap()
            .cells
            .iter()
            .map(Cell::value_text)
            .collect();
        assert_eq!(texts, ["-x10.0", "-x9.1", "not tested", "yes", "-x9.4 -x8.7 (-x5.3) (-x2.1)"]);
    }
}
