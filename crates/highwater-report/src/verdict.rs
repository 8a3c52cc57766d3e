//! What came out, in a few lines: of each metric the change that matters, and whether it was published.
//!
//! A change matters if its 95 % interval does not hold 0; of several the largest does, as a ratio. Intervals are those of
//! the evidence: of the samples, or where a run has as many as it happened to give, of seeds. With one seed there are
//! none: the largest change is shown, and that nobody can tell.

use highwater_results::published::PublishedError;
use highwater_results::{Better, Document, Metric, Run, TableKind};

use crate::by_seed::{BySeed, SEEDS_MIN};
use crate::compare::{SampleSets, operations};
use crate::evidence::change_interval;
use crate::percent::Told;
use crate::rules::{Rules, Statistic};
use crate::stats::Sorted;
use crate::stats::paired::{Paired, Robust};
use crate::style::Style;
use crate::table::{Cell, Layout, Table};
use crate::{beside, percent, report};

/// With fewer samples than this of an operation whose times vary, a single one decides the mean.
const SAMPLES_MIN: usize = 20;

/// The verdict of a document; none if it compares nothing.
///
/// # Errors
/// If the document names what was not published.
pub fn verdict(document: &Document) -> Result<Option<Table>, PublishedError> {
    let title = match document.title.as_str() {
        "" => format!("Verdict: {}", document.experiment),
        title => format!("Verdict: {title}"),
    };
    let columns = ["most changed", "change", "95% of change", "changed"].map(str::to_owned);
    let labels = ["metric", "machine", "run"];
    let mut table =
        Table::new(title, &labels, columns.to_vec(), Layout::Fitted).breaking_at(&[0, 3]);
    let (mut published, mut few, mut lost) = (Vec::new(), Vec::new(), Vec::new());
    for (machine, runs) in document.by_machine() {
        let Some((baseline, others)) = runs.split_first() else { continue };
        for metric in &document.metrics {
            for run in others {
                let changes = changes(metric, baseline, run, document.iterations);
                let names = missing(metric, baseline, run).into_iter();
                lost.extend(names.map(|name| format!("{name} of {}", run.label)));
                few.extend(most_changed(&changes).and_then(|change| few_samples(metric, change)));
                table.push(&[&metric.name, machine, &run.label], row(metric.better, &changes));
            }
        }
        if let Some(metric) = document.metrics.first() {
            published.extend(told(document, metric, machine, &runs)?);
        }
    }
    if table.rows.is_empty() {
        return Ok(None);
    }
    let baseline = document.runs.first().map_or("", |run| run.label.as_str());
    let which = match document.iterations {
        1 => "the largest change",
        _ => "the largest change whose interval does not hold 0",
    };
    table.notes.push(format!(
        "against {baseline}; most changed: {which}. Changes here and below: percent, positive is better; x3 is better by \
         a factor of 3, -x3 worse. Of counters and times, that are neither: more and less"
    ));
    table.notes.extend(report::settings(document));
    table.notes.extend(published);
    if (document.iterations as usize) < SEEDS_MIN {
        let seeds = match document.iterations {
            1 => "one seed: no intervals; any of this may be chance".to_owned(),
            n => format!("{n} seeds: intervals are too narrow below {SEEDS_MIN}"),
        };
        table.notes.push(format!("{seeds} (--iterations)"));
    }
    if !lost.is_empty() {
        table.notes.push(format!("no samples, so not judged: {}", lost.join(", ")));
    }
    if !few.is_empty() {
        few.dedup();
        let few = few.join(", ");
        table.notes.push(format!("too few samples for a mean to say much: {few}"));
    }
    table.notes.push(format!(
        "next: the tables below, or where the slowest operations spent their time: highwater explain {}",
        document.experiment
    ));
    Ok(Some(table))
}

/// What was published of a machine, and how much of it came out.
fn told(
    document: &Document,
    metric: &Metric,
    machine: &str,
    runs: &[&Run],
) -> Result<Vec<String>, PublishedError> {
    let mut notes = Vec::new();
    if let Some(table) = beside::headline(document, metric, machine, runs)? {
        notes.extend(table.notes.first().map(|note| format!("published, on {machine}: {note}")));
        return Ok(notes);
    }
    for table in beside::published(document, metric, machine, runs)? {
        notes.extend(table.notes.first().map(|note| format!("published, on {machine}: {note}")));
    }
    if let Some(claims) = beside::claims(document, machine, runs)? {
        let figure = |row: &crate::table::Row| {
            let cell = |at: usize| row.cells.get(at).map(Cell::value_text).unwrap_or_default();
            format!("{} ours {}, theirs {}", row.labels.join(" "), cell(0), cell(1))
        };
        let figures: Vec<String> = claims.rows.iter().map(figure).collect();
        notes.push(format!("published, on {machine}: {}", figures.join("; ")));
    }
    Ok(notes)
}

/// A change of one operation's mean.
pub(crate) struct Change {
    pub(crate) operation: String,
    pub(crate) before: f64,
    pub(crate) after: f64,
    /// In percent, positive is better.
    pub(crate) interval: Option<(f64, f64)>,
    /// Samples of each.
    nr_samples: [usize; 2],
}

impl Change {
    pub(crate) fn matters(&self) -> bool {
        self.interval.is_some_and(percent::excludes_zero)
    }

    /// How large it is, whichever way it goes. From or to nothing, or through 0, is no ratio: such changes come
    /// last, before what did not change.
    fn size(&self) -> f64 {
        match self.before > 0.0 && self.after > 0.0 {
            _ if self.before == self.after => f64::NEG_INFINITY,
            true => (self.after / self.before).ln().abs(),
            false => -1.0,
        }
    }
}

pub(crate) fn changes(metric: &Metric, baseline: &Run, run: &Run, iterations: u32) -> Vec<Change> {
    let rules = Rules::of(metric, Style::default());
    let runs = [baseline, run];
    let operations = operations(metric, &runs);
    let samples = SampleSets::collect(metric, &runs, &operations);
    let (of_baseline, of_run) = (BySeed::of(baseline), BySeed::of(run));
    let mut changes = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        let (Some(a), Some(b)) = (samples.get(index, 0), samples.get(index, 1)) else { continue };
        let mean = |samples: &Sorted| rules.value(Statistic::Mean, samples);
        let Some(before) = mean(a) else { continue };
        // A harmonic mean is lost as soon as one sample is nothing.
        let after = mean(b).unwrap_or(0.0);
        let interval = match metric.table {
            _ if iterations < 2 => None,
            TableKind::VariableTime => of_seeds(&rules, &of_baseline, &of_run, operation),
            _ => change_interval(&rules, a, b).map(|interval| interval.bca),
        };
        let nr_samples = [a.len(), b.len()];
        changes.push(Change { operation: operation.clone(), before, after, interval, nr_samples });
    }
    changes
}

/// Operations that the baseline has and a run lacks.
pub(crate) fn missing(metric: &Metric, baseline: &Run, run: &Run) -> Vec<String> {
    let has = |run: &Run, name: &str| run.samples.iter().any(|sample| sample.operation == name);
    let mut names = operations(metric, &[baseline, run]);
    names.retain(|name| has(baseline, name) && !has(run, name));
    names
}

/// The interval of the change of the mean if other seeds had been run.
fn of_seeds(
    rules: &Rules,
    before: &BySeed<'_>,
    after: &BySeed<'_>,
    operation: &str,
) -> Option<(f64, f64)> {
    let seeds = before.seed_pairs(after, operation, rules.better);
    let change = |a, b| percent::judged(rules.better, a, b);
    Paired::default().changes(&seeds, &[Robust::Mean], change).pop()??.limits
}

/// Whether anything is known of chance. With one seed nobody can tell: the largest is shown all the same.
fn is_known(changes: &[Change]) -> bool {
    changes.iter().any(|change| change.interval.is_some())
}

/// The changes that are shown: those that matter, or if nobody can tell, all.
fn of_note(changes: &[Change]) -> impl Iterator<Item = &Change> {
    let is_known = is_known(changes);
    changes.iter().filter(move |change| change.matters() || !is_known)
}

fn most_changed(changes: &[Change]) -> Option<&Change> {
    of_note(changes).max_by(|a, b| a.size().total_cmp(&b.size()))
}

/// Says so if a run happened to give only a few samples of an operation: one of them moves the mean.
fn few_samples(metric: &Metric, change: &Change) -> Option<String> {
    let [before, after] = change.nr_samples;
    let is_few = metric.table == TableKind::VariableTime && before.min(after) < SAMPLES_MIN;
    is_few.then(|| format!("{} (n = {before} and {after})", change.operation))
}

fn row(better: Better, changes: &[Change]) -> Vec<Cell> {
    let changed = match is_known(changes) {
        true => Cell::text(format!("{} of {}", of_note(changes).count(), changes.len())),
        false => Cell::text("unknown"),
    };
    let Some(largest) = most_changed(changes) else {
        return vec![Cell::text("nothing"), Cell::Missing, Cell::Missing, changed];
    };
    let told = Told::of(better, largest.before, largest.after);
    let interval = |limits| Cell::interval(better, limits, told);
    let interval = largest.interval.map_or(Cell::Missing, interval);
    let words = words(better, largest.before, largest.after);
    vec![Cell::text(largest.operation.clone()), Cell::text(words), interval, changed]
}

/// A change in words: `better 36.2%`, `worse x8.8`, `worse, from 0`.
pub fn words(better: Better, before: f64, after: f64) -> String {
    if before == after {
        return "the same".to_owned();
    }
    let way = if percent::is_better(better, before, after) { "better" } else { "worse" };
    match Told::of(better, before, after) {
        // The word says which way.
        Some(Told::Factor(factor)) => format!("{way} {}", Told::Factor(factor.abs())),
        Some(told) => format!("{way}, {told}"),
        None => format!("{way} {:.1}%", 100.0 * (after / before - 1.0).abs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_in_words() {
        use Better::{Higher, Lower};
        for (better, before, after, expected) in [
            (Lower, 2000.0, 1280.0, "better 36.0%"),
            (Lower, 100.0, 880.0, "worse x8.8"),
            (Lower, 880.0, 100.0, "better x8.8"),
            (Lower, 728.0, 0.35, "better x2080"),
            (Higher, 100.0, 99.0, "worse 1.0%"),
            (Higher, 0.0, 4.0, "better, from 0"),
            (Lower, 0.0, 4.0, "worse, from 0"),
            (Lower, 4.0, 0.0, "better, to 0"),
            (Lower, 4.0, -0.1, "better, past 0"),
            (Lower, 4.0, 4.0, "the same"),
        ] {
            assert_eq!(words(better, before, after), expected);
        }
    }

    fn document(iterations: u32) -> Document {
        let mut document = Document::new("0.1.0", "x", "sim", 1);
        document.iterations = iterations;
        document.metrics.push(Metric::new("m", "ms", Better::Lower, TableKind::Multi));
        for (label, factor) in [("before", 1.0), ("after", 0.25)] {
            let mut run = Run::new("small", label, label);
            for seed in 0..u64::from(iterations) {
                for n in 0..8u32 {
                    let noise = f64::from((n * 7 + seed as u32 * 3) % 5);
                    run.push("fast", n, seed, 100.0 * factor + noise);
                    run.push("same", n, seed, 50.0 + noise);
                }
            }
            document.runs.push(run);
        }
        document
    }

    #[test]
    fn the_largest_change_is_told_and_the_others_are_counted() {
        let table = verdict(&document(3)).unwrap().unwrap();
        assert_eq!(table.rows.len(), 1);
        let cells: Vec<String> = table.rows[0].cells.iter().map(Cell::value_text).collect();
        assert_eq!((cells[0].as_str(), cells[3].as_str()), ("fast", "1 of 2"));
        assert!(cells[1].starts_with("better x"), "{}", cells[1]);
        assert!(table.notes.iter().any(|note| note.contains("3 seeds")), "{:?}", table.notes);
    }

    #[test]
    fn a_handful_of_samples_is_told_of() {
        let mut few = document(3);
        let told = |document: &Document| {
            let notes = verdict(document).unwrap().unwrap().notes;
            notes.into_iter().find(|note| note.starts_with("too few samples"))
        };
        assert_eq!(told(&few), None, "a benchmark that gives as many as it means to");
        few.metrics[0].table = TableKind::VariableTime;
        assert_eq!(told(&few), None, "24 each");
        few.runs[1].samples.retain(|sample| sample.operation == "same" || sample.iteration < 4);
        let expected = "too few samples for a mean to say much: fast (n = 24 and 12)";
        assert_eq!(told(&few).as_deref(), Some(expected));
    }

    #[test]
    fn one_seed_says_nothing_for_sure_and_one_run_compares_nothing() {
        let table = verdict(&document(1)).unwrap().unwrap();
        assert_eq!(table.rows[0].cells[0], Cell::text("fast"));
        assert_eq!(table.rows[0].cells[3], Cell::text("unknown"));
        assert!(table.notes.iter().any(|note| note.starts_with("one seed:")));
        let mut alone = document(2);
        alone.runs.truncate(1);
        assert!(verdict(&alone).unwrap().is_none());
    }
}
