//! What came out, in a few lines: of each metric the changes that matter most, and whether they were published.
//!
//! A change matters if its 95 % interval does not hold 0; of several each way's largest does, as a ratio. Intervals are those of
//! the evidence: of the samples, or where a run has as many as it happened to give, of seeds. With one seed there are
//! none: the largest change is shown, and that nobody can tell.

use highwater_results::published::PublishedError;
use highwater_results::{Better, Document, Metric, Run, TableKind};

use crate::by_seed::SEEDS_MIN;
use crate::change::{Change, Way, changes, missing};
use crate::table::{Cell, Layout, Table};
use crate::{beside, report};

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
                let shown = most_changed(&changes).into_iter();
                few.extend(shown.filter_map(|change| few_samples(metric, change)));
                for cells in rows(metric.better, &changes) {
                    table.push(&[&metric.name, machine, &run.label], cells);
                }
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
        1 => "",
        _ => " of those whose interval does not hold 0",
    };
    table.notes.push(format!(
        "against {baseline}: the largest change{which}, worse and better; below: percent, positive is better, x3: by a \
         factor of 3, -x3: worse by that; of counters and times: more and less"
    ));
    table.notes.extend(abouts(document));
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
        "next: highwater explain {} says where the slowest operations spent their time",
        document.experiment
    ));
    Ok(Some(table))
}

/// What the metrics are of, where their names do not say it.
fn abouts(document: &Document) -> Option<String> {
    let said = document.metrics.iter().filter(|metric| !metric.about.is_empty());
    let said: Vec<String> =
        said.map(|metric| format!("{}: {}", metric.name, metric.about)).collect();
    (!said.is_empty()).then(|| said.join(". "))
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
        notes.extend(claims.notes.first().map(|note| format!("published, on {machine}: {note}")));
    }
    Ok(notes)
}

/// Whether anything is known of chance. With one seed nobody can tell: the largest is shown all the same.
fn is_known(changes: &[Change]) -> bool {
    changes.iter().any(|change| change.interval.is_some())
}

/// The changes that are shown: those that matter, or if nobody can tell, all.
fn of_note(changes: &[Change]) -> impl Iterator<Item = &Change> {
    let is_known = is_known(changes);
    let is_something = |change: &&Change| change.way().is_some();
    changes.iter().filter(is_something).filter(move |change| change.matters() || !is_known)
}

/// The largest of the changes that are shown, of each way.
fn most_changed<'a>(changes: &'a [Change]) -> Vec<&'a Change> {
    let largest = of_note(changes).map(Change::difference).fold(0.0, f64::max);
    let of_way = |way| {
        let of_way = of_note(changes).filter(move |change| change.way() == Some(way));
        let (parts, others): (Vec<_>, Vec<_>) = of_way.partition(|c| c.is_part_of_another());
        // What a part changed shows in what it is a part of. Of several as large the first.
        let larger =
            |a: &'a Change, b: &'a Change| if b.by_size(a, largest).is_gt() { b } else { a };
        others.into_iter().reduce(larger).or_else(|| parts.into_iter().reduce(larger))
    };
    let mut both: Vec<&Change> = [Way::Worse, Way::Better].into_iter().filter_map(of_way).collect();
    both.sort_by(|a, b| b.by_size(a, largest));
    both
}

/// Says so if a run happened to give only a few samples of an operation: one of them moves the mean.
fn few_samples(metric: &Metric, change: &Change) -> Option<String> {
    let [before, after] = change.nr_samples;
    let is_few = metric.table == TableKind::VariableTime && before.min(after) < SAMPLES_MIN;
    is_few.then(|| format!("{} (n = {before} and {after})", change.operation))
}

/// The largest change of each way, the larger first; of two that are as large the cost. What changed nothing is one
/// row, too.
fn rows(better: Better, changes: &[Change]) -> Vec<Vec<Cell>> {
    let is_known = is_known(changes);
    let largest = most_changed(changes);
    if largest.is_empty() {
        let changed = format!("0 of {}", changes.len());
        let cells = [Cell::text("nothing"), Cell::Missing, Cell::Missing, Cell::text(changed)];
        return vec![cells.to_vec()];
    }
    let row = |change: &Change| {
        let nr_same_way = of_note(changes).filter(|other| other.way() == change.way()).count();
        let changed = match is_known {
            true => format!("{nr_same_way} of {}", changes.len()),
            false => "unknown".to_owned(),
        };
        let interval = change.interval.map_or(Cell::Missing, |limits| match change.is_part() {
            // Percent of what it is a part of: no factor of itself.
            true => {
                Cell::Interval { low: limits.0, high: limits.1, told: [None; 2], is_sized: true }
            }
            false => Cell::interval(better, limits, change.told()).sized(),
        });
        let operation = Cell::text(change.operation.clone());
        vec![operation, Cell::text(change.words()), interval, Cell::text(changed)]
    };
    largest.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let cells = texts(&table.rows[0]);
        assert_eq!((cells[0].as_str(), cells[3].as_str()), ("fast", "1 of 2"));
        assert!(cells[1].starts_with("better x"), "{}", cells[1]);
        // In one notation.
        assert!(cells[2].starts_with('x') && cells[2].contains(" .. x"), "{}", cells[2]);
        assert!(table.notes.iter().any(|note| note.contains("3 seeds")), "{:?}", table.notes);
    }

    fn texts(row: &crate::table::Row) -> Vec<String> {
        row.cells.iter().map(Cell::value_text).collect()
    }

    /// One up, one down, one as it was: as `activated` and `refaulted` of study 003, of which a table of one row hid a half.
    #[test]
    fn the_largest_of_each_way_is_told_costs_first() {
        let both = |first: [f64; 2], second: [f64; 2], iterations: u32| {
            let mut document = document(iterations);
            for (at, run) in document.runs.iter_mut().enumerate() {
                for (operation, values) in [("activated", first), ("refaulted", second)] {
                    for seed in 0..u64::from(iterations) {
                        run.push(operation, 0, seed, values[at]);
                    }
                }
            }
            let table = verdict(&document).unwrap().unwrap();
            table.rows.iter().map(texts).collect::<Vec<_>>()
        };
        for iterations in [1, 3] {
            let rows = both([73670.0, 0.0], [0.0, 73670.0], iterations);
            assert_eq!(rows.len(), 2, "{rows:?}");
            assert_eq!(rows[0][..2], ["refaulted", "worse, from 0"]);
            assert_eq!(rows[1][..2], ["activated", "better, to 0"]);
            let counted = if iterations == 1 { ["unknown"; 2] } else { ["1 of 4", "2 of 4"] };
            assert_eq!([&rows[0][3], &rows[1][3]], counted);
        }
        // A fault more than none is not the news; and what prints as nothing is nothing.
        let rows = both([0.0, 0.01], [5000.0, 5000.1], 3);
        assert_eq!((rows[0][0].as_str(), rows[1][0].as_str()), ("fast", "activated"));
        assert_eq!([&rows[0][3], &rows[1][3]], ["1 of 4", "1 of 4"]);
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
