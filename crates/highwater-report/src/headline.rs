//! The study's main figures one by one: before and after, ours and the published ones, and whether
//! they agree.
//!
//! Key types: [`Figure`] (a published row), [`Verdict`] (whether our change has the same direction
//! and a similar size). Values come from the tables; a published figure is a reference, never an
//! input.
//!
//! Changes are compared as ratios of after to before on a logarithmic scale, so halving and
//! doubling are equally large. A published change of less than [`EQUAL_PERCENT`] means "about
//! equal". A row that its author does not repeat is judged by less ([`Repeats`], rules/claims).

use std::cmp::Ordering;

use highwater_results::published::PublishedRow;
use highwater_results::{Better, Metric, Postings, PublishedTable, Run};

use crate::against::of_seeds;
use crate::claims::{Judged, Tally};
use crate::percent::{self, Told};
use crate::published::{ELSEWHERE, Pairing, elsewhere, our_value};
use crate::repeats::{Class, Repeats};
use crate::stats::paired::Paired;
use crate::table::{Cell, Judgement, Layout, Table};

/// Published changes below this count as none; ours must then stay within twice this.
pub const EQUAL_PERCENT: f64 = 10.0;
/// Decimals of values.
const DECIMALS: u8 = 2;

/// A published figure.
#[derive(Clone, Copy, Debug)]
pub struct Figure<'a> {
    /// Its table.
    pub table: &'a PublishedTable,
    /// Its row.
    pub row: &'a PublishedRow,
}

impl<'a> Figure<'a> {
    /// Finds a row of a table: by statistic and operation, or by label if `operation` is empty.
    pub fn find(table: &'a PublishedTable, row: &str, operation: &str) -> Option<Self> {
        let row =
            if operation.is_empty() { table.labelled(row) } else { table.row(row, operation) };
        Some(Figure { table, row: row? })
    }
}

/// How our change compares with the published one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The changes have the same direction.
    pub is_same_way: bool,
    /// The direction is the same, and our change is between half and twice as large.
    pub is_same_size: bool,
}

impl Verdict {
    /// Compares two changes, each (before, after); none if a value is not positive.
    pub fn new(ours: (f64, f64), theirs: (f64, f64)) -> Option<Verdict> {
        let (ours, theirs) = (log_ratio(ours)?, log_ratio(theirs)?);
        let equal = (1.0 + EQUAL_PERCENT / 100.0).ln();
        Some(if theirs.abs() < equal {
            let is_equal = ours.abs() < 2.0 * equal;
            Verdict { is_same_way: is_equal, is_same_size: is_equal }
        } else {
            let share = ours / theirs;
            Verdict { is_same_way: share > 0.0, is_same_size: (0.5..=2.0).contains(&share) }
        })
    }
}

fn log_ratio((before, after): (f64, f64)) -> Option<f64> {
    (before > 0.0 && after > 0.0).then(|| (after / before).ln())
}

/// Judges each figure for every run except the first, which is the baseline.
pub fn judge(
    metric: &Metric,
    pairs: &[Pairing<'_>],
    figures: &[Figure<'_>],
    postings: &Postings,
) -> Vec<Judged> {
    let Some((baseline, others)) = pairs.split_first() else { return Vec::new() };
    let both = |[before, after]: [Option<f64>; 2]| Some((before?, after?));
    let of = |figure: &Figure<'_>, pair: &Pairing<'_>| {
        let published = |column: usize| figure.row.values.get(column).copied();
        let our = |run: &Run| our_value(metric, figure.table, figure.row, run);
        let theirs = [published(baseline.column), published(pair.column)];
        let ours = [our(baseline.run), our(pair.run)];
        let published = both(theirs);
        let against_published = |ours| published.and_then(|theirs| Verdict::new(ours, theirs));
        let posted = postings.of_row(&figure.table.id, figure.row, pair.column);
        Judged {
            label: label(figure, figures),
            run: pair.run.label.clone(),
            table: figure.table.id.clone(),
            ours,
            theirs,
            text: String::new(),
            repeats: Repeats::of(&posted, against_published),
            posted,
            verdict: both(ours).and_then(against_published),
        }
    };
    figures.iter().flat_map(|figure| others.iter().map(move |pair| of(figure, pair))).collect()
}

/// The study's main figure for one run.
#[derive(Clone, Debug)]
pub struct Leading {
    /// Name of the figure.
    pub label: String,
    /// Heading of the run.
    pub run: String,
    /// Our values, before and after.
    pub ours: (f64, f64),
    /// The published values, if both were published.
    pub theirs: Option<(f64, f64)>,
    /// Interval of our change over seeds, in percent, positive is more; none with one seed.
    pub interval: Option<(f64, f64)>,
}

impl Leading {
    /// The text shown instead of a percentage for our change.
    pub fn told(&self) -> Option<Told> {
        Told::of(Better::Neither, self.ours.0, self.ours.1)
    }

    /// Our change in words: `less x3.0`.
    pub fn words(&self) -> String {
        words(self.ours)
    }

    /// Our change as a value. The figure of a study has no declared direction.
    pub(crate) fn judged(&self) -> Judgement {
        match self.ours.1.total_cmp(&self.ours.0) {
            Ordering::Equal => Judgement::Same,
            Ordering::Greater => Judgement::More,
            Ordering::Less => Judgement::Less,
        }
    }

    /// The published change in words.
    pub fn published(&self) -> Option<String> {
        self.theirs.map(words)
    }
}

/// A change in words: more or less.
fn words((before, after): (f64, f64)) -> String {
    let word = match after.total_cmp(&before) {
        Ordering::Equal => return "the same".to_owned(),
        Ordering::Greater => "more",
        Ordering::Less => "less",
    };
    match Told::of(Better::Neither, before, after) {
        Some(Told::Factor(factor)) => format!("{word} {}", Told::Factor(factor.abs())),
        Some(told) => format!("{word}, {told}"),
        None => format!("{word} {:.1}%", percent::judged(Better::Neither, before, after).abs()),
    }
}

/// For every run except the first: the first of the study's main figures that we also measured.
pub fn leading(metric: &Metric, pairs: &[Pairing<'_>], figures: &[Figure<'_>]) -> Vec<Leading> {
    let Some((baseline, others)) = pairs.split_first() else { return Vec::new() };
    let of = |figure: &Figure<'_>, pair: &Pairing<'_>| {
        let our = |run: &Run| our_value(metric, figure.table, figure.row, run);
        let ours = (our(baseline.run)?, our(pair.run)?);
        let published = |column: usize| figure.row.values.get(column).copied();
        let theirs = published(baseline.column).zip(published(pair.column));
        let seeds = baseline.run.seeds.iter().filter(|seed| pair.run.seeds.contains(seed));
        let seeds = seeds.filter_map(|&seed| {
            let our = |run: &Run| our(&of_seeds(run, &[seed]));
            our(baseline.run).zip(our(pair.run))
        });
        let growth = |a, b| percent::judged(Better::Neither, a, b);
        let change = Paired::default().change_of_means(&seeds.collect::<Vec<_>>(), growth);
        let interval = change.and_then(|change| change.limits);
        let (label, run) = (label(figure, figures), pair.run.label.clone());
        Some(Leading { label, run, ours, theirs, interval })
    };
    let mut all = figures
        .iter()
        .map(|figure| others.iter().filter_map(|pair| of(figure, pair)).collect::<Vec<_>>());
    all.find(|leading| !leading.is_empty()).unwrap_or_default()
}

/// One row per figure and run; the first run is the baseline and has no row.
pub fn headline(
    metric: &Metric,
    pairs: &[Pairing<'_>],
    figures: &[Figure<'_>],
    postings: &Postings,
) -> Table {
    let columns = [
        "before",
        "after",
        "change",
        "theirs before",
        "after",
        "change",
        "elsewhere",
        "direction",
        "within 2x",
    ];
    let columns = columns.iter().map(|&column| column.to_owned()).collect();
    let title = "What the study found, and what we find".to_owned();
    // The columns of ours, theirs, and whether they agree.
    let mut table =
        Table::new(title, &["figure", "run"], columns, Layout::Fitted).breaking_at(&[0, 3, 6]);
    if pairs.is_empty() {
        return table;
    }
    let all = judge(metric, pairs, figures, postings);
    for judged in &all {
        let mut cells = half(judged.ours).to_vec();
        cells.extend(half(judged.theirs));
        cells.push(elsewhere(Better::Higher, &judged.posted));
        cells.extend(agreement(judged));
        table.push(&[&judged.label, &judged.run], cells);
    }
    let tally: Tally = all.iter().map(Judged::class).collect();
    table.notes.push(tally.words());
    table.notes.push(format!(
        "the size of a change is the logarithm of after / before; published changes below {EQUAL_PERCENT:.0} % count as \
         none, and ours must stay below twice that"
    ));
    if all.iter().any(|judged| !judged.posted.is_empty()) {
        table.notes.push(ELSEWHERE.to_owned());
    }
    if tally.of(Class::SignOnly) > 0 || all.iter().any(|judged| judged.repeats == Repeats::Sign) {
        table.notes.push(
            "not judged: the author's other postings repeat the sign of this row and not its size"
                .to_owned(),
        );
    }
    if tally.of(Class::Noise) > 0 {
        table.notes.push(
            "noise: the author's other postings do not even repeat the sign of this row".to_owned(),
        );
    }
    table
}

/// Whether direction and size agree, as far as they are judged.
fn agreement(judged: &Judged) -> [Cell; 2] {
    let word = |is_right| Cell::text(if is_right { "yes" } else { "NO" });
    match (judged.verdict, judged.repeats) {
        (_, Repeats::No) => [Cell::text("noise"), Cell::text("noise")],
        (None, _) => [Cell::Missing, Cell::Missing],
        (Some(verdict), Repeats::Sign) => [word(verdict.is_same_way), Cell::text("not judged")],
        (Some(verdict), _) => [word(verdict.is_same_way), word(verdict.is_same_size)],
    }
}

/// Before, after and change in percent.
fn half([before, after]: [Option<f64>; 2]) -> [Cell; 3] {
    let number =
        |value: Option<f64>| value.map_or(Cell::Missing, |value| Cell::number(value, DECIMALS));
    let both = before.zip(after);
    let change = both.and_then(|(a, b)| percent::growth(a, b));
    let told = both.and_then(|(a, b)| Told::of(Better::Higher, a, b));
    [number(before), number(after), Cell::change(change, told)]
}

/// Name of a figure, with the name of its table if several tables have it.
fn label(figure: &Figure<'_>, figures: &[Figure<'_>]) -> String {
    let (own, table) = (figure.row.name(), &figure.table.id);
    let is_shared = figures.iter().any(|f| f.table.id != *table && f.row.name() == own);
    if is_shared { format!("{own} ({table})") } else { own }
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_results::{Published, TableKind};

    fn verdict(ours: (f64, f64), theirs: (f64, f64)) -> (bool, bool) {
        let verdict = Verdict::new(ours, theirs).unwrap();
        (verdict.is_same_way, verdict.is_same_size)
    }

    #[test]
    fn changes_are_judged_as_ratios() {
        // The published change is to a ninth: to a third is half of that, to an 81st twice.
        let theirs = (900.0, 100.0);
        assert_eq!(verdict((90.0, 10.0), theirs), (true, true));
        assert_eq!(verdict((3.1, 1.0), theirs), (true, true));
        assert_eq!(verdict((2.9, 1.0), theirs), (true, false));
        assert_eq!(verdict((80.0, 1.0), theirs), (true, true));
        assert_eq!(verdict((82.0, 1.0), theirs), (true, false));
        assert_eq!(verdict((1.0, 9.0), theirs), (false, false));
        assert_eq!(verdict((5.0, 5.0), theirs), (false, false));
        assert_eq!(Verdict::new((0.0, 1.0), theirs), None);
    }

    #[test]
    fn about_equal_is_a_finding_too() {
        let theirs = (164_284.0, 153_608.0);
        assert_eq!(verdict((100.0, 110.0), theirs), (true, true));
        assert_eq!(verdict((100.0, 90.0), theirs), (true, true));
        assert_eq!(verdict((100.0, 130.0), theirs), (false, false));
    }

    #[test]
    fn figures_of_several_tables_stand_in_one() {
        let known = Published::load().unwrap();
        let metric = Metric::new("stutterp", "ms", Better::Lower, TableKind::VariableTime);
        let (mut a, mut b) = (Run::new("m", "a", "a"), Run::new("m", "b", "b"));
        a.counters.set("pgscan_direct", 1000);
        b.counters.set("pgscan_direct", 500);
        a.push("mmap-4", 0, 1, 10.0);
        b.push("mmap-4", 0, 1, 20.0);
        let rows =
            [("001.vmstat", "Direct pages scanned", ""), ("001.stutterp", "Amean", "mmap-4")];
        let figures: Vec<Figure<'_>> = rows
            .iter()
            .map(|(table, row, operation)| {
                Figure::find(known.table(table).unwrap(), row, operation).unwrap()
            })
            .collect();
        let pairs = [Pairing { run: &a, column: 0 }, Pairing { run: &b, column: 1 }];
        let table = headline(&metric, &pairs, &figures, &Postings::load().unwrap());
        let texts = |row: usize| -> Vec<String> {
            table.rows[row].cells.iter().map(Cell::value_text).collect()
        };
        assert_eq!(
            texts(0),
            [
                "1000.00",
                "500.00",
                "-50.00%",
                "1056608451.00",
                "503594991.00",
                "-x2.1",
                "-x6.9 -x13.7 (-x17.3) (-x2.4)",
                "yes",
                "not judged"
            ]
        );
        assert_eq!(texts(1)[..3], ["10.00", "20.00", "100.00%"]);
        assert_eq!(texts(1)[6..], ["x112 x5.6 (17.66%)", "yes", "not judged"]);
        assert_eq!(
            table.notes[0],
            "of 2 judged claims 0 within a factor of 2, 0 in direction only, 2 in the sign (size \
             not judged), 0 missed"
        );
        assert!(table.notes[3].starts_with("not judged: the author's other postings"), "{table:?}");
    }

    /// Max-90 of study 000 is 0.59 in one posting and 1.01 in another of the same machine.
    #[test]
    fn noise_is_marked_and_not_counted() {
        let known = Published::load().unwrap();
        let metric = Metric::new("mmap", "ms", Better::Lower, TableKind::VariableTime);
        let (mut a, mut b) = (Run::new("m", "a", "a"), Run::new("m", "b", "b"));
        a.push("mmap", 0, 1, 10.0);
        b.push("mmap", 0, 1, 20.0);
        let table = known.table("000.stutter").unwrap();
        let figures =
            ["Max-90%", "Max", "Min"].map(|row| Figure::find(table, row, "mmap").unwrap());
        let pairs = [Pairing { run: &a, column: 0 }, Pairing { run: &b, column: 1 }];
        let table = headline(&metric, &pairs, &figures, &Postings::load().unwrap());
        let texts = |row: usize| -> Vec<String> {
            table.rows[row].cells[6..].iter().map(Cell::value_text).collect()
        };
        assert_eq!(texts(0), ["0.95% (-0.00%)", "noise", "noise"]);
        assert_eq!(texts(1), ["-x10.4 (-x94.3)", "NO", "not judged"]);
        assert_eq!(texts(2)[1..], ["NO", "NO"]);
        assert_eq!(
            table.notes[0],
            "of 2 judged claims 0 within a factor of 2, 0 in direction only, 2 missed; not judged: \
             1 within the published noise"
        );
    }

    #[test]
    fn a_figure_of_two_tables_names_them() {
        let known = Published::load().unwrap();
        let figure = |table: &str, operation: &str| {
            Figure::find(known.table(table).unwrap(), "Amean", operation).unwrap()
        };
        let figures = [
            figure("001.stutterp", "mmap-4"),
            figure("001.stutterp-1socket", "mmap-4"),
            figure("001.stutterp", "mmap-48"),
        ];
        let labels = figures.map(|one| label(&one, &figures));
        let expected =
            ["Amean mmap-4 (001.stutterp)", "Amean mmap-4 (001.stutterp-1socket)", "Amean mmap-48"];
        assert_eq!(labels, expected);
    }
}
