//! Tasks of a job that ended early: killed for memory, or gave up.
//!
//! Their deaths explain much of what else a report has, so they come first.

use highwater_results::{Document, EndedEarly, Run};

use crate::table::{Cell, Layout, Table};

/// The metric of these figures in a tidy table.
pub(crate) const METRIC: &str = "ended early";
/// Columns for reading: [`Dead::cells`].
pub(crate) const COLUMNS: [&str; 3] = ["killed", "first kill (s)", "gave up"];
/// The effect of a death on other figures.
pub(crate) const NOTE: &str = "what a dead task did counts below, and its rates are those of the \
                               whole run; a latency is that of the operations that ended";

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
    let several = |of: fn(&Run) -> &str| are_several(document.runs.iter(), of);
    let shown = [several(|run| &run.machine), several(|run| &run.label)];
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

/// True if the runs differ in this.
pub(crate) fn are_several<'a>(
    mut runs: impl Iterator<Item = &'a Run>,
    of: fn(&Run) -> &str,
) -> bool {
    runs.next().is_some_and(|first| runs.any(|run| of(run) != of(first)))
}

impl Dead<'_> {
    /// How it ended in a run, for each seed: copies that were killed and that gave up, and seconds
    /// until the first kill, of seeds that have one.
    fn per_seed(&self, run: &Run) -> Ends {
        let mut ends = Ends::default();
        for totals in &run.per_seed {
            let early = totals.ended_early.iter().filter(|early| early.task == self.task);
            let sum = |of: fn(&EndedEarly) -> u32| -> f64 {
                early.clone().map(|early| f64::from(of(early))).fold(0.0, |sum, n| sum + n)
            };
            ends.killed.push(sum(|early| early.killed));
            ends.gave_up.push(sum(|early| early.failed));
            let first_kill_ns = early.filter_map(|early| early.first_kill_ns).min();
            ends.first_kill_s.extend(first_kill_ns.map(|ns| ns as f64 / 1e9));
        }
        ends
    }

    /// Sums over the seeds, and the earliest kill: [`COLUMNS`].
    pub(crate) fn cells(&self, run: &Run) -> Vec<Cell> {
        let Ends { killed, gave_up, first_kill_s } = self.per_seed(run);
        // A file without seeds says nothing.
        let sum = |values: Vec<f64>| match values.is_empty() {
            true => Cell::Missing,
            false => Cell::number(values.into_iter().fold(0.0, |sum, n| sum + n), 0),
        };
        let first_kill = first_kill_s.into_iter().min_by(f64::total_cmp);
        vec![sum(killed), first_kill.map_or(Cell::Missing, |s| Cell::number(s, 3)), sum(gave_up)]
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

    fn run(machine: &str, label: &str, ends: &[(u32, u32, Option<u64>)]) -> Run {
        let mut run = Run::new(machine, label, label);
        for &(killed, failed, first_kill_ns) in ends {
            let task = "web".to_owned();
            let early = EndedEarly { task, killed, failed, first_kill_ns, ..EndedEarly::default() };
            let ended_early = if killed + failed == 0 { vec![] } else { vec![early] };
            run.per_seed.push(SeedTotals { ended_early, ..SeedTotals::default() });
        }
        run
    }

    fn texts(table: &Table) -> Vec<String> {
        let cells = |row: &crate::table::Row| -> Vec<String> {
            row.labels.iter().cloned().chain(row.cells.iter().map(Cell::value_text)).collect()
        };
        table.rows.iter().map(|row| cells(row).join(" ")).collect()
    }

    #[test]
    fn a_task_that_died_in_one_run_is_shown_for_all() {
        let mut document = Document::new("0.1.0", "x", "sim", 1);
        let died = [(1, 0, Some(3_000_000_000)), (2, 4, Some(1_500_000_000))];
        document.runs = vec![run("m", "6.1", &[(0, 0, None); 2]), run("m", "6.12", &died)];
        let of_two = table(&document).expect("one died");
        assert_eq!(of_two.labels, ["task", "run"]);
        assert_eq!(texts(&of_two), ["web 6.1 0 - 0", "web 6.12 3 1.500 4"]);
        let tables = crate::report::tables(&document, crate::report::Shown::All).unwrap();
        assert_eq!(tables[0], of_two, "above all others");
        assert!(crate::report::verdicts(&document).unwrap().iter().all(|table| *table != of_two));

        document.runs.push(run("n", "6.1", &[]));
        let of_three = table(&document).expect("one died");
        assert_eq!(of_three.labels, ["task", "machine", "run"]);
        assert_eq!(texts(&of_three)[2], "web n 6.1 - - -", "nothing is known of it");
        document.runs.truncate(1);
        assert!(table(&document).is_none(), "nobody died");
    }
}
