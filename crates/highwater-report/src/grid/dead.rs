//! Tasks of a job that ended early somewhere in a grid: killed for memory, or gave up.

use highwater_results::{EndedEarly, Run};

use super::Grid;

/// What [`Grid::csv`] calls the metric of these figures.
pub(super) const METRIC: &str = "ended early";

/// A task that ended early at some point.
pub(super) struct Dead<'a> {
    pub(super) task: &'a str,
}

impl<'a> Grid<'a> {
    /// All of them, in the order in which they are met.
    pub(super) fn dead(&self) -> Vec<Dead<'a>> {
        let runs = self.points.iter().flat_map(|point| &point.document.runs);
        let early = runs.flat_map(|run| &run.per_seed).flat_map(|totals| &totals.ended_early);
        let mut dead: Vec<Dead<'a>> = Vec::new();
        for EndedEarly { task, .. } in early {
            if dead.iter().all(|known| known.task != task) {
                dead.push(Dead { task });
            }
        }
        dead
    }
}

impl Dead<'_> {
    /// How it ended in a run, for each seed: copies that were killed and that gave up, and seconds
    /// until the first kill, of seeds that have one.
    pub(super) fn per_seed(&self, run: &Run) -> Ends {
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

    /// The same as rows of a tidy table: unit, name, and the values.
    pub(super) fn figures(&self, run: &Run) -> [(&'static str, &'static str, Vec<f64>); 3] {
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
pub(super) struct Ends {
    pub(super) killed: Vec<f64>,
    pub(super) gave_up: Vec<f64>,
    pub(super) first_kill_s: Vec<f64>,
}
