//! Runs the cells of an experiment on host threads and puts the results together in plan order.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use highwater_core::config::Policy;
use highwater_results::explain::ExplainedRun;
use highwater_results::{Definition, Document, Largest, Run, SeedTotals};

use super::file::Experiment;
use crate::machine_file::MachineFile;
use crate::workload::outcome::add_histogram;
use crate::workload::{HostKind, Outcome, RunError, Unit};

/// What to run, with every name resolved.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// The experiment.
    pub experiment: Experiment,
    /// Where.
    pub host: HostKind,
    /// Machines.
    pub machines: Vec<MachineFile>,
    /// Policies with the headings of their columns, the baseline first.
    pub policies: Vec<(Policy, String)>,
    /// First seed.
    pub seed: u64,
    /// Host threads.
    pub jobs: usize,
    /// Book the time of operations by cause; how many of the slowest to keep of each run.
    pub explain: Option<usize>,
    /// What the user set of all that, as it was written: for the results.
    pub settings: Vec<String>,
}

/// One policy on one machine with one seed: the first of its units.
type Cell<'a> = Unit<'a>;

/// Told about every finished unit of work: a cell, or a part of one.
pub trait Progress: Sync {
    /// `done` of `total` units are finished.
    fn cell_done(&self, done: usize, total: usize);

    /// Where simulations add virtual time as it passes; none: nobody watches.
    fn clock(&self) -> Option<&Arc<AtomicU64>> {
        None
    }
}

/// Runs everything.
///
/// # Errors
/// The first failed cell in plan order, or [`RunError::Interrupted`] once `stop` is set.
pub fn run(
    plan: &RunPlan,
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> Result<Document, RunError> {
    Ok(run_explained(plan, progress, stop)?.0)
}

/// As [`run`], with where the time went if [`RunPlan::explain`] asks for that: machine by machine,
/// seed by seed, policy by policy.
///
/// # Errors
/// As [`run`].
pub fn run_explained(
    plan: &RunPlan,
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> Result<(Document, Vec<ExplainedRun>), RunError> {
    let cells = cells(plan);
    let mut outcomes = run_cells(plan, &cells, progress, stop)?;
    let mut explained = Vec::new();
    // Policies are innermost in the plan.
    let labels = plan.policies.iter().map(|(_, label)| label).cycle();
    for ((outcome, cell), label) in outcomes.iter_mut().zip(&cells).zip(labels) {
        if let Some(mut run) = outcome.explained.take() {
            // Units of work have so many each.
            run.worst.truncate(plan.explain.unwrap_or(0));
            let (machine, policy) = (cell.machine.name.clone(), cell.policy.name.clone());
            let label = label.clone();
            explained.push(ExplainedRun { machine, policy, label, seed: cell.seed, ..run });
        }
    }
    Ok((document(plan, outcomes), explained))
}

fn seeds(plan: &RunPlan) -> Vec<u64> {
    (0..u64::from(plan.experiment.iterations)).map(|i| plan.seed.wrapping_add(i)).collect()
}

/// Machine by machine, seed by seed, policy by policy: where time is real, the policies of a pair
/// run next to each other, so that a computer that slows down meanwhile slows down all of them.
fn cells(plan: &RunPlan) -> Vec<Cell<'_>> {
    let mut cells = Vec::new();
    for machine in &plan.machines {
        for seed in seeds(plan) {
            for (policy, _) in &plan.policies {
                let (host, explain) = (plan.host, plan.explain);
                cells.push(Unit { host, explain, ..Unit::of(machine, policy, seed) });
            }
        }
    }
    cells
}

/// Units of work of the cells: which cell, which part of it.
fn units(plan: &RunPlan, cells: &[Cell<'_>]) -> Vec<(usize, usize)> {
    let job = |cell: &Cell<'_>| plan.experiment.job_on(&cell.machine.name);
    let parts = |cell: &Cell<'_>| job(cell).units(cell.machine);
    let of_cell = |(at, cell)| (0..parts(cell)).map(move |part| (at, part));
    cells.iter().enumerate().flat_map(of_cell).collect()
}

/// Runs every cell; their outcomes in plan order.
fn run_cells(
    plan: &RunPlan,
    cells: &[Cell<'_>],
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> Result<Vec<Outcome>, RunError> {
    let units = units(plan, cells);
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let slots: Vec<Mutex<Option<Result<Outcome, RunError>>>> =
        units.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(cell, part)) = units.get(index) else { return };
            if stop.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed) {
                return;
            }
            let job = plan.experiment.job_on(&cells[cell].machine.name);
            let result = job.run(&Unit { part, clock: progress.clock(), ..cells[cell] });
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            if let Ok(mut slot) = slots[index].lock() {
                *slot = Some(result);
            }
            progress.cell_done(done.fetch_add(1, Ordering::Relaxed) + 1, units.len());
        }
    };
    // Threads of native runs must not compete with another cell for the processors.
    let jobs = if plan.host == HostKind::Native { 1 } else { plan.jobs.max(1) };
    thread::scope(|scope| {
        for _ in 1..jobs.min(units.len()) {
            scope.spawn(work);
        }
        work();
    });
    // In plan order, so that the error reported does not depend on timing more than it must.
    let mut outcomes: Vec<Outcome> = cells.iter().map(|_| Outcome::default()).collect();
    for (slot, (cell, _)) in slots.into_iter().zip(units) {
        match slot.into_inner().ok().flatten() {
            Some(result) => outcomes[cell].append(result?),
            None if stop.load(Ordering::Relaxed) => return Err(RunError::Interrupted),
            None => continue,
        }
    }
    if stop.load(Ordering::Relaxed) { Err(RunError::Interrupted) } else { Ok(outcomes) }
}

fn document(plan: &RunPlan, outcomes: Vec<Outcome>) -> Document {
    let experiment = &plan.experiment;
    let version = env!("CARGO_PKG_VERSION");
    let mut document = Document::new(version, &experiment.name, plan.host.name(), plan.seed);
    document.title.clone_from(&experiment.title);
    document.workload = experiment.job.definition();
    document.iterations = experiment.iterations;
    document.settings.clone_from(&plan.settings);
    document.metrics = experiment.job.metrics(&plan.machines);
    document.sections = experiment.job.sections(&document.metrics);
    document.published_policies = experiment.policies.iter().map(|p| p.name.clone()).collect();
    document.published.clone_from(&experiment.machines);
    document.machines = plan.machines.iter().map(MachineFile::definition).collect();
    document.policies = plan
        .policies
        .iter()
        .map(|(policy, _)| Definition {
            name: policy.name.clone(),
            summary: crate::policy_file::summary(&policy.name).to_owned(),
            definition: crate::policy_file::to_toml(policy),
        })
        .collect();
    // Delays of all seeds together say more; page frames of another boot are other frames.
    let pools = experiment.job.entry().counts_delays;
    let mut outcomes = outcomes.into_iter();
    for machine in &plan.machines {
        let of = |(policy, label): &(Policy, String)| Run::new(&machine.name, &policy.name, label);
        let mut runs: Vec<Run> = plan.policies.iter().map(of).collect();
        for (iteration, seed) in (0..).zip(seeds(plan)) {
            for run in &mut runs {
                run.seeds.push(seed);
                if let Some(outcome) = outcomes.next() {
                    add(run, iteration, seed, outcome, pools);
                }
            }
        }
        document.runs.extend(runs);
    }
    document
}

fn add(run: &mut Run, iteration: u32, seed: u64, outcome: Outcome, pools_histograms: bool) {
    for (operation, value) in &outcome.samples {
        run.push(operation, iteration, seed, *value);
    }
    let moved = outcome.counters.iter().filter(|(_, change)| *change != 0);
    let counters = moved.collect();
    run.per_seed.push(SeedTotals { seed, times: outcome.times, counters });
    run.counters.merge(&outcome.counters);
    run.times.user_ns += outcome.times.user_ns;
    run.times.system_ns += outcome.times.system_ns;
    run.times.elapsed_ns += outcome.times.elapsed_ns;
    outcome.largest.into_iter().for_each(|new| Largest::keep(&mut run.largest, new));
    if pools_histograms || iteration == 0 {
        outcome.histograms.into_iter().for_each(|new| add_histogram(&mut run.histograms, new));
    }
    for note in outcome.notes {
        if !run.notes.contains(&note) {
            run.notes.push(note);
        }
    }
    if outcome.digest != 0 {
        run.notes.push(format!("seed {seed}: digest {:016x}", outcome.digest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Registry;

    /// Looks at virtual time whenever a run is done.
    #[derive(Default)]
    struct Watcher {
        clock: Arc<AtomicU64>,
        seen: Mutex<Vec<(usize, u64)>>,
    }

    impl Progress for Watcher {
        fn cell_done(&self, done: usize, total: usize) {
            assert!(done <= total);
            self.seen.lock().unwrap().push((done, self.clock.load(Ordering::Relaxed)));
        }

        fn clock(&self) -> Option<&Arc<AtomicU64>> {
            Some(&self.clock)
        }
    }

    #[test]
    fn whoever_watches_sees_runs_and_virtual_time_and_changes_nothing() {
        let text = "name = \"x\"\ntitle = \"t\"\nworkload = \"netperf-tcp\"\niterations = 2\n\
                    [[policy]]\nname = \"6.1\"\nlabel = \"6.1\"\n[[machine]]\nname = \"m\"\n\
                    [netperf-tcp]\nsizes = [4096]\nms-per-size = 5\nwarmup = \"1M\"\n";
        let machine = "[[node]]\nmemory = \"64M\"\ncpus = \"0-1\"\n";
        let plan = RunPlan {
            experiment: Experiment::parse(&Registry::default(), "x.toml", text).unwrap(),
            host: HostKind::Sim,
            machines: vec![MachineFile::parse("m.toml", machine).unwrap()],
            policies: vec![(highwater_core::config::preset("6.1").unwrap(), "6.1".to_owned())],
            seed: 1,
            jobs: 1,
            explain: None,
            settings: Vec::new(),
        };
        let watcher = Watcher::default();
        let watched = run(&plan, &watcher, &AtomicBool::new(false)).unwrap();
        let seen = watcher.seen.into_inner().unwrap();
        assert_eq!(seen.iter().map(|(done, _)| *done).collect::<Vec<_>>(), [1, 2]);
        assert!(seen[0].1 > 0 && seen[1].1 > seen[0].1, "{seen:?}");

        struct Nobody;
        impl Progress for Nobody {
            fn cell_done(&self, _: usize, _: usize) {}
        }
        let unwatched = run(&plan, &Nobody, &AtomicBool::new(false)).unwrap();
        assert_eq!(watched, unwatched);
    }
}
