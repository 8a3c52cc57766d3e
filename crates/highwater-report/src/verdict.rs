//! The verdict in a few lines: the study's main figure, then the most important changes of each
//! metric and whether they were published.
//!
//! A change matters if its 95 % interval excludes 0. If several matter, the largest ratio in each
//! direction is shown. Intervals are the evidence's: over samples, or over seeds if the number of
//! samples depends on the run.
//!
//! With one seed there are no intervals: the largest change is shown with a note that chance cannot
//! be excluded. A metric without a direction (counters, unless the workload declares which way is
//! better) has more and less, never better and worse. The metric says which values are small; a
//! change between two small values is shown only if nothing else changed.

use highwater_results::published::PublishedError;
use highwater_results::{Better, Document, Metric, Run, TableKind};

use crate::by_seed::SEEDS_MIN;
use crate::change::{Change, Way, changes, missing};
use crate::headline::Leading;
use crate::table::{Cell, Judgement, Layout, Table};
use crate::{beside, next, report};

/// Below this number of samples of an operation with varying times, a single sample decides the
/// mean.
const SAMPLES_MIN: usize = 20;

/// The verdict of a document; none if it has nothing to compare.
///
/// # Errors
/// If the document names something that was not published.
pub fn verdict(document: &Document) -> Result<Option<Table>, PublishedError> {
    let title = match document.title.as_str() {
        "" => format!("Verdict: {}", document.experiment),
        title => format!("Verdict: {title}"),
    };
    let columns = ["most changed", "change", "95% of change", "changed"].map(str::to_owned);
    let labels = ["metric", "machine", "run"];
    let mut table =
        Table::new(title, &labels, columns.to_vec(), Layout::Fitted).breaking_at(&[0, 3]);
    let (mut few, mut lost) = (Vec::new(), Vec::new());
    let (mut not_counted, mut has_claim) = (NotCounted::default(), false);
    for (machine, runs) in document.by_machine() {
        let Some((baseline, others)) = runs.split_first() else { continue };
        for leading in beside::leading(document, machine, &runs)? {
            has_claim = true;
            let labels = ["the study", machine, &leading.run];
            table.push_judged(&labels, leading_cells(&leading), leading.judged());
        }
        for metric in &document.metrics {
            for run in others {
                let changes = changes(metric, baseline, run, document.iterations);
                not_counted.add(metric, baseline);
                not_counted.add(metric, run);
                let names = missing(metric, baseline, run).into_iter();
                let names = names.filter(|name| !run.not_counted.contains(name));
                lost.extend(names.map(|name| format!("{name} of {}", run.label)));
                let shown = most_changed(&changes).into_iter();
                few.extend(shown.filter_map(|change| few_samples(metric, change)));
                // A table in which one side has nothing at all shows no change.
                if [baseline, run].iter().any(|run| lacks_all(metric, run)) {
                    continue;
                }
                for (cells, judged) in rows(metric.better, &changes) {
                    table.push_judged(&[&metric.name, machine, &run.label], cells, judged);
                }
            }
        }
    }
    if table.rows.is_empty() {
        return Ok(None);
    }
    let baseline = document.runs.first().map_or("", |run| run.label.as_str());
    let (significant, interval) = match document.iterations {
        1 => ("", ""),
        _ => ("significant ", " (95 % interval excludes 0)"),
    };
    table.notes.push(format!(
        "Largest {significant}change against {baseline} in each direction{interval}. Positive % is better; x3 = three \
         times better, -x3 = three times worse."
    ));
    if has_claim {
        table.notes.push(
            "the study: the figure that the study is about; in brackets, what was published"
                .to_owned(),
        );
    }
    let is_neutral = |metric: &Metric| metric.better == Better::Neither;
    if document.metrics.iter().any(is_neutral) {
        let names = document.metrics.iter().filter(|metric| is_neutral(metric));
        let names: Vec<&str> = names.map(|metric| metric.name.as_str()).collect();
        let names = names.join(", ");
        table.notes.push(format!(
            "{names}: counts without a better direction. Positive % is more; x3 = three times as many, -x3 = a third."
        ));
    }
    table.notes.extend(not_counted.notes());
    table.notes.extend(abouts(document));
    table.notes.extend(report::settings(document));
    table.notes.extend(published(document)?);
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
        "next: {} says where the slowest operations spent their time",
        next::explain(document)
    ));
    Ok(Some(table))
}

/// True if the run's kernel counts no operation of the metric.
pub(crate) fn lacks_all(metric: &Metric, run: &Run) -> bool {
    let all = &metric.operations;
    !all.is_empty() && all.iter().all(|name| run.not_counted.contains(name))
}

/// Names that kernels do not count, grouped by reason (the kernel, and the first kernel that counts
/// them).
#[derive(Default)]
pub(crate) struct NotCounted(Vec<(String, Vec<String>)>);

impl NotCounted {
    /// Adds the operations of a metric that this run's kernel does not count. Names that differ
    /// only in the step are named once. If the kernel counts nothing of the metric, the metric is
    /// named instead.
    pub(crate) fn add(&mut self, metric: &Metric, run: &Run) {
        for name in run.not_counted.iter().filter(|name| metric.operations.contains(name)) {
            let Some(reason) = run.why_not_counted(name) else { continue };
            let counter = if lacks_all(metric, run) {
                metric.name.as_str()
            } else {
                name.rsplit_once(' ').map_or(name.as_str(), |(_, counter)| counter)
            };
            let at = self.0.iter().position(|(known, _)| *known == reason).unwrap_or_else(|| {
                self.0.push((reason, Vec::new()));
                self.0.len() - 1
            });
            if !self.0[at].1.iter().any(|known| known == counter) {
                self.0[at].1.push(counter.to_owned());
            }
        }
    }

    /// One line for each reason.
    pub(crate) fn notes(self) -> impl Iterator<Item = String> {
        self.0.into_iter().map(|(reason, counters)| format!("{reason}: {}", counters.join(", ")))
    }
}

/// The result for the study's main figure.
fn leading_cells(leading: &Leading) -> Vec<Cell> {
    let interval = leading.interval.map_or(Cell::Missing, |limits| {
        let told = leading.told();
        Cell::interval(Better::Neither, limits, told).sized()
    });
    let published =
        leading.published().map_or_else(|| "-".to_owned(), |words| format!("({words})"));
    vec![
        Cell::text(leading.label.clone()),
        Cell::text(leading.words()),
        interval,
        Cell::text(published),
    ]
}

/// The quantity that each metric measures, if its name does not say it.
fn abouts(document: &Document) -> Option<String> {
    let said = document.metrics.iter().filter(|metric| !metric.about.is_empty());
    let said: Vec<String> =
        said.map(|metric| format!("{}: {}", metric.name, metric.about)).collect();
    (!said.is_empty()).then(|| said.join(". "))
}

/// The published claims of each machine with something to compare, and how many of them were
/// reproduced.
///
/// # Errors
/// If the document names something that was not published.
pub(crate) fn published(document: &Document) -> Result<Vec<String>, PublishedError> {
    let mut notes = Vec::new();
    for (machine, runs) in document.by_machine() {
        if let Some(metric) = document.metrics.first() {
            notes.extend(of_machine(document, metric, machine, &runs)?);
        }
    }
    Ok(notes)
}

fn of_machine(
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

/// Whether any change has an interval. With one seed none has, and the largest change is shown all
/// the same.
fn is_known(changes: &[Change]) -> bool {
    changes.iter().any(|change| change.interval.is_some())
}

/// The changes shown: those that matter, or all if there are no intervals.
fn of_note(changes: &[Change]) -> impl Iterator<Item = &Change> {
    let is_known = is_known(changes);
    let is_something = |change: &&Change| change.way().is_some();
    changes.iter().filter(is_something).filter(move |change| change.matters() || !is_known)
}

/// The largest shown change in each direction.
fn most_changed<'a>(changes: &'a [Change]) -> Vec<&'a Change> {
    let largest = of_note(changes).map(Change::difference).fold(0.0, f64::max);
    let of_way = |way| {
        let of_way = of_note(changes).filter(move |change| change.way() == Some(way));
        let (parts, others): (Vec<_>, Vec<_>) = of_way.partition(|c| c.is_part_of_another());
        // A part's change is sized by its effect on the whole. Of several equal ones, the first is
        // taken.
        let larger =
            |a: &'a Change, b: &'a Change| if b.by_size(a, largest).is_gt() { b } else { a };
        others.into_iter().reduce(larger).or_else(|| parts.into_iter().reduce(larger))
    };
    let mut both: Vec<&Change> = Way::ALL.into_iter().filter_map(of_way).collect();
    both.sort_by(|a, b| b.by_size(a, largest));
    if both.iter().any(|change| !change.is_small()) {
        both.retain(|change| !change.is_small());
    }
    both
}

/// A warning if the run produced only a few samples of an operation, so that one of them moves the
/// mean.
fn few_samples(metric: &Metric, change: &Change) -> Option<String> {
    let [before, after] = change.nr_samples;
    let is_few = metric.table == TableKind::VariableTime && before.min(after) < SAMPLES_MIN;
    is_few.then(|| format!("{} (n = {before} and {after})", change.operation))
}

/// The largest change in each direction, the larger first; of two equal ones, the cost. A metric
/// without changes gets one row, too.
fn rows(better: Better, changes: &[Change]) -> Vec<(Vec<Cell>, Judgement)> {
    let is_known = is_known(changes);
    let largest = most_changed(changes);
    if largest.is_empty() {
        let changed = format!("0 of {}", changes.len());
        let cells = [Cell::text("nothing"), Cell::Missing, Cell::Missing, Cell::text(changed)];
        return vec![(cells.to_vec(), Judgement::Same)];
    }
    let row = |change: &Change| {
        let nr_same_way = of_note(changes).filter(|other| other.way() == change.way()).count();
        let changed = if is_known {
            format!("{nr_same_way} of {}", changes.len())
        } else {
            "unknown".to_owned()
        };
        let interval = change.interval.map_or(Cell::Missing, |limits| {
            // A part is shown as percent of its whole, not as a factor of itself.
            if change.is_part() {
                Cell::Interval { low: limits.0, high: limits.1, told: [None; 2], is_sized: true }
            } else {
                Cell::interval(better, limits, change.told()).sized()
            }
        });
        let operation = Cell::text(change.operation.clone());
        let cells = vec![operation, Cell::text(change.words()), interval, Cell::text(changed)];
        (cells, change.way().map_or(Judgement::Same, Way::judged))
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
        // Value and interval use one notation.
        assert!(cells[2].starts_with('x') && cells[2].contains(" .. x"), "{}", cells[2]);
        assert!(table.notes.iter().any(|note| note.contains("3 seeds")), "{:?}", table.notes);
    }

    fn texts(row: &crate::table::Row) -> Vec<String> {
        row.cells.iter().map(Cell::value_text).collect()
    }

    /// A kernel that does not count refaults of anonymous pages is not shown as having 0. A metric
    /// without a declared direction is more or less, not better or worse.
    #[test]
    fn counters_are_more_or_less_and_what_a_kernel_lacks_is_not_counted() {
        let mut document = document(3);
        let mut steps = Metric::new("steps", "events", Better::Neither, TableKind::Single);
        let [anon, faults] = ["fill workingset_refault_anon", "fill pgfault"];
        steps.operations = [anon, faults].map(str::to_owned).to_vec();
        document.metrics = vec![steps];
        for (run, count) in document.runs.iter_mut().zip([100.0, 300.0]) {
            for seed in 0..3 {
                run.push(faults, 0, seed, count);
            }
        }
        document.runs[0].kernel = "5.4".to_owned();
        document.runs[0].not_counted = vec![anon.to_owned()];
        document.runs[0].counted_since.insert(anon.to_owned(), "5.9".to_owned());
        document.runs[1].push(anon, 0, 0, 5000.0);
        let table = verdict(&document).unwrap().unwrap();
        let rows: Vec<Vec<String>> = table.rows.iter().map(texts).collect();
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!(rows[0][..2], ["fill pgfault", "more x3.0"]);
        let has = |note: &str| table.notes.iter().any(|known| known == note);
        assert!(
            has("not counted in 5.4 (since 5.9): workingset_refault_anon"),
            "{:?}",
            table.notes
        );
        // The note survives the reverse order of runs.
        document.runs.reverse();
        let notes = verdict(&document).unwrap().unwrap().notes;
        assert!(!notes.iter().any(|note| note.starts_with("no samples")), "{notes:?}");
    }

    /// Half of 4 ns does not lead the verdict beside a p99 that became a tenth worse; alone, it is
    /// shown.
    #[test]
    fn quantiles_of_a_few_nanoseconds_do_not_lead() {
        let mut document = document(3);
        document.metrics[0].operations = ["get p50", "get p99"].map(str::to_owned).to_vec();
        document.metrics[0].small = Some(1.0);
        let values = [[0.004, 0.002], [900.0, 990.0]];
        for (at, run) in document.runs.iter_mut().enumerate() {
            run.samples.clear();
            for seed in 0..3 {
                run.push("get p50", 0, seed, values[0][at]);
                run.push("get p99", 0, seed, values[1][at]);
            }
        }
        let rows = |document: &Document| {
            let table = verdict(document).unwrap().unwrap();
            table.rows.iter().map(texts).map(|cells| cells[..2].join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(rows(&document), ["get p99 worse 10.0%"]);
        document.metrics[0].operations.truncate(1);
        assert_eq!(rows(&document), ["get p50 better 50.0%"]);
    }

    /// One up, one down, one unchanged, like `activated` and `refaulted` of study 003: a table of
    /// one row hid one of them.
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
        // One fault instead of none does not lead the verdict, and a change that prints as zero
        // counts as none.
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
