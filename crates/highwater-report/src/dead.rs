//! Tasks of a job that ended early: killed for memory, or gave up. Their deaths explain much of what
//! comes after them in a report, so they come first.

use highwater_results::{Document, EndedEarly, Run};

use crate::table::{Cell, Layout, Table};

/// What a tidy table calls the metric of these figures.
pub(crate) const METRIC: &str = "ended early";
/// Columns for reading: [`Dead::cells`].
pub(crate) const COLUMNS: [&str; 3] = ["killed", "first kill (s)", "gave up"];
/// What a death does to other figures.
pub(crate) const NOTE: &str = "what a dead task did counts below, and its rates are those of the whole \
                               run; a latency is that of the operations that ended";

/// A task that ended early in some run.
pub(crate) struct Dead<'a> {
    pub(crate) task: &'a str,
}

/// All of them, in the order in which they are met.
pub(crate) fn dead<'a>(runs: impl Iterator<Item = &'a Run>) -> Vec<Dead<'a>> {
    let early = runs.flat_map(|run| &run.per_seed).flat_map(|totals| &totals.ended_early);
    let mut dead: Vec<Dead<'a>> = Vec::new();
    for EndedEarly { task, .. } in early {
        if dead.iter().all(|known| known.task != task) {
            dead.push(Dead { task });
        }
    }
    dead
}

/// The tasks of a document that ended early, in each run; none if all went on to their end.
pub(crate) fn table(document: &Document) -> Option<Table> {
    let dead = dead(document.runs.iter());
    let is_several = |of: fn(&Run) -> &str| {
        document
            .runs
            .first()
            .is_some_and(|first| document.runs.iter().any(|run| of(run) != of(first)))
    };
    let shown = [is_several(|run| &run.machine), is_several(|run| &run.label)];
    let labels = |task, machine, run| -> Vec<&str> {
        let rest = [machine, run].into_iter().zip(shown);
        let rest = rest.filter_map(|(label, is_shown)| is_shown.then_some(label));
        [task].into_iter().chain(rest).collect()
    };
    let title = "Tasks that ended early (sums over seeds; the earliest kill)";
    let columns = COLUMNS.map(str::to_owned).to_vec();
    let mut table = Table::new(title, &labels("task", "machine", "run"), columns, Layout::Fitted);
    for dead in &dead {
        for run in &document.runs {
            table.push(&labels(dead.task, &run.machine, &run.label), dead.cells(run));
        }
    }
    table.notes.push(NOTE.to_owned());
    (!dead.is_empty()).then_some(table)
}

impl Dead<'_> {
    /// How it ended in a run, for each seed: copies that were killed and that gave up, and seconds
    /// until the first kill, of seeds that have one.
    fn per_seed(&self, run: &Run) -> Ends {
        let mut ends = Ends::default();
        for totals in &run.per_seed {
            let early = totals.ended_early.iter().find(|early| early.task == self.task);
            let (killed, failed) = early.map_or((0, 0), |early| (early.killed, early.failed));
            ends.killed.push(f64::from(killed));
            ends.gave_up.push(f64::from(failed));
            let first_kill_ns = early.and_then(|early| early.first_kill_ns);
            ends.first_kill_s.extend(first_kill_ns.map(|ns| ns as f64 / 1e9));
        }
        ends
    }

    /// Sums over the seeds, and the earliest kill: [`COLUMNS`].
    pub(crate) fn cells(&self, run: &Run) -> Vec<Cell> {
        let Ends { killed, gave_up, first_kill_s } = self.per_seed(run);
        let sum = |values: Vec<f64>| values.into_iter().fold(0.0, |sum, n| sum + n);
        let first_kill = first_kill_s.into_iter().min_by(f64::total_cmp);
        vec![
            Cell::number(sum(killed), 0),
            first_kill.map_or(Cell::Missing, |s| Cell::number(s, 3)),
            Cell::number(sum(gave_up), 0),
        ]
    }

    /// The same as rows of a tidy table: unit, name, and the values.
    pub(crate) fn figures(&self, run: &Run) -> [(&'static str, &'static str, Vec<f64>); 3] {
        let Ends { killed, gave_up, first_kill_s } = self.per_seed(run);
        [
            ("copies", "killed", killed),
            ("seconds", "first kill", first_kill_s),
            ("copies", "gave up", gave_up),
        ]
    }
}

/// How a task ended: [`Dead::per_seed`].
#[derive(Default)]
struct Ends {
    killed: Vec<f64>,
    gave_up: Vec<f64>,
    first_kill_s: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_results::SeedTotals;

    fn run(label: &str, ends: &[(u32, Option<u64>)]) -> Run {
        let mut run = Run::new("m", label, label);
        for &(killed, first_kill_ns) in ends {
            let early = EndedEarly { killed, first_kill_ns, started: 2, ..EndedEarly::default() };
            let early = EndedEarly { task: "web".to_owned(), ..early };
            let ended_early = if killed == 0 { vec![] } else { vec![early] };
            run.per_seed.push(SeedTotals { ended_early, ..SeedTotals::default() });
        }
        run
    }

    #[test]
    fn a_task_that_died_in_one_run_is_shown_for_all() {
        let mut document = Document::new("0.1.0", "x", "sim", 1);
        document.runs = vec![
            run("6.1", &[(0, None), (0, None)]),
            run("6.12", &[(1, Some(3_000_000_000)), (2, Some(1_500_000_000))]),
        ];
        let table = table(&document).expect("one died");
        assert_eq!((table.labels.join(" "), table.rows.len()), ("task run".to_owned(), 2));
        let texts = |run: &str| -> Vec<String> {
            table.row(&["web", run]).unwrap().cells.iter().map(Cell::value_text).collect()
        };
        assert_eq!(texts("6.1"), ["0", "-", "0"]);
        assert_eq!(texts("6.12"), ["3", "1.500", "0"]);
        document.runs.truncate(1);
        assert!(super::table(&document).is_none(), "nobody died");
    }
}
