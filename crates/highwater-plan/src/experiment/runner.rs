//! Runs the cells of an experiment on host threads and puts the results together in plan order.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use highwater_core::config::{KernelVersion, Policy, Thp};
use highwater_core::vmstat;
use highwater_results::explain::ExplainedRun;
use highwater_results::{
    Definition, Document, Largest, Run, RunMaps, RunSeries, RunText, SERIES_FILE, Sampled,
    SeedTotals,
};

use highwater_sim::engine::Passed;
use serde::{Deserialize, Serialize};

use super::file::Experiment;
use super::files::{FilesPlan, failure};
use super::unit::{OverTime, Recipe, UnitId, UnitRan, UnitStore};
use crate::sysctls;
use highwater_files::machine_file::MachineFile;
use highwater_runs::workload::outcome::add_histogram;
use highwater_runs::workload::{HostKind, Outcome, RunError, Sampling, Unit};

/// A plan: what to run, with every name resolved.
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
    /// Explain this operation alone.
    pub only_op: Option<String>,
    /// Interval of counter samples, in milliseconds of virtual time; `None`: no samples.
    pub sample_every_ms: Option<u64>,
    /// For charts of the first seed: record the time of operations, take samples, and keep this
    /// many of the slowest operations. Results are the same with and without it.
    pub story: Option<usize>,
    /// If a call of a job's task fails, the task ends and the results report it. Without this flag
    /// the run fails.
    pub tolerates_failures: bool,
    /// The user's settings as written, for the results.
    pub settings: Vec<String>,
    /// Where each finished unit is kept, and taken from if it exists; `None`: nowhere. Only for
    /// virtual time: measurements on a computer differ each time.
    pub units: Option<Arc<UnitStore>>,
    /// Where the machines' files go; `None`: nowhere. Then kept units run again.
    pub files: Option<FilesPlan>,
}

impl RunPlan {
    /// A plan in virtual time on one thread with seed 1, without explanation, samples or kept
    /// units.
    pub fn new(
        experiment: Experiment,
        machines: Vec<MachineFile>,
        policies: Vec<(Policy, String)>,
    ) -> RunPlan {
        RunPlan {
            experiment,
            host: HostKind::Sim,
            machines,
            policies,
            seed: 1,
            jobs: 1,
            explain: None,
            only_op: None,
            sample_every_ms: None,
            story: None,
            tolerates_failures: false,
            settings: Vec::new(),
            units: None,
            files: None,
        }
    }

    /// The recipes of all units, in the order of the plan.
    ///
    /// # Errors
    /// As [`Recipe::of`].
    pub fn recipes(&self) -> Result<Vec<Recipe>, RunError> {
        let cells = cells(self);
        let units = units(self, &cells);
        units.into_iter().map(|(cell, part)| recipe(self, Unit { part, ..cells[cell] })).collect()
    }
}

/// Digits of a digest that a reader sees.
const DIGEST_DIGITS: usize = 16;
/// Samples of a story: as many points as a chart shows.
const STORY_ROWS: usize = 384;

/// One policy on one machine with one seed: the first of its units.
type Cell<'a> = Unit<'a>;

/// Told about every finished unit of work: a cell, or a part of one.
pub trait Progress: Sync {
    /// `done` of `total` units are finished.
    fn cell_done(&self, done: usize, total: usize);

    /// The same of a unit that did not run: an earlier run had kept it.
    fn cell_found(&self, done: usize, total: usize) {
        self.cell_done(done, total);
    }

    /// Where simulations add elapsed virtual time and events; `None`: not wanted.
    fn clock(&self) -> Option<&Arc<Passed>> {
        None
    }
}

/// Nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Progress for Quiet {
    fn cell_done(&self, _: usize, _: usize) {}
}

/// Runs the plan.
///
/// # Errors
/// The error of the first-started unit among those that failed, or [`RunError::Interrupted`] once
/// `stop` is set.
pub fn run(
    plan: &RunPlan,
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> Result<Document, RunError> {
    Ok(run_all(plan, progress, stop)?.document)
}

/// All that a plan leaves: machine by machine, seed by seed, policy by policy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ran {
    /// The results.
    pub document: Document,
    /// Where the time went: of all seeds with [`RunPlan::explain`], of the first seed with
    /// [`RunPlan::story`].
    pub explained: Vec<ExplainedRun>,
    /// Counters over time, unit by unit: of all seeds with [`RunPlan::sample_every_ms`], of the
    /// first seed with [`RunPlan::story`].
    pub series: Vec<RunSeries>,
    /// Memory maps of the first seed, unit by unit, with [`RunPlan::story`].
    pub maps: Vec<RunMaps>,
    /// Ages of pages on LRU lists at the same moments.
    pub ages: Vec<RunSeries>,
    /// The kernels' own proc files at the end of the first seed's runs.
    pub texts: Vec<RunText>,
}

/// As [`run`], with all further outputs of the plan.
///
/// # Errors
/// As [`run`].
pub fn run_all(
    plan: &RunPlan,
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> Result<Ran, RunError> {
    Ok(join(plan, run_units(plan, progress, stop)?))
}

/// Joins the results of all units, in plan order.
pub(super) fn join(plan: &RunPlan, ran: Vec<UnitRan>) -> Ran {
    let cells = cells(plan);
    let mut outcomes: Vec<(Outcome, Vec<OverTime>)> =
        cells.iter().map(|_| Default::default()).collect();
    for (UnitRan { outcome, over_time }, (cell, _)) in ran.into_iter().zip(units(plan, &cells)) {
        outcomes[cell].0.append(outcome);
        outcomes[cell].1.extend(over_time);
    }
    let (mut explained, mut series) = (Vec::new(), Vec::new());
    let (mut maps, mut ages, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    // Policies are the innermost loop of the plan.
    let labels = plan.policies.iter().map(|(_, label)| label).cycle();
    for (((outcome, told), cell), label) in outcomes.iter_mut().zip(&cells).zip(labels) {
        let of_cell = |series| {
            let (machine, policy) = (cell.machine.name.clone(), cell.policy.name.clone());
            RunSeries { machine, policy, label: label.clone(), seed: cell.seed, series }
        };
        for told in told.drain(..) {
            if let Some((of_unit, ages_of_unit)) = told.moments {
                let run = of_cell(ages_of_unit);
                let RunSeries { machine, policy, label, seed, .. } = run.clone();
                maps.push(RunMaps { machine, policy, label, seed, maps: of_unit });
                ages.push(run);
            }
            series.push(of_cell(told.series));
        }
        if cell.seed == plan.seed {
            texts.extend(outcome.texts.drain(..).map(|(file, text)| {
                let (machine, label) = (cell.machine.name.clone(), label.clone());
                RunText { machine, label, seed: cell.seed, file, text }
            }));
        }
        if let Some(mut run) = outcome.explained.take() {
            // Each unit kept this many; keep as many for the whole run.
            run.worst.truncate(plan.explain.or(plan.story).unwrap_or(0));
            let (machine, policy) = (cell.machine.name.clone(), cell.policy.name.clone());
            let label = label.clone();
            explained.push(ExplainedRun { machine, policy, label, seed: cell.seed, ..run });
        }
    }
    let outcomes = outcomes.into_iter().map(|(outcome, _)| outcome).collect();
    Ran { document: document(plan, outcomes), explained, series, maps, ages, texts }
}

fn seeds(plan: &RunPlan) -> Vec<u64> {
    (0..u64::from(plan.experiment.iterations)).map(|i| plan.seed.wrapping_add(i)).collect()
}

/// Cells by machine, then seed, then policy. In real time the policies of a pair run next to each
/// other, so a computer that slows down meanwhile slows down both.
pub(super) fn cells(plan: &RunPlan) -> Vec<Cell<'_>> {
    let mut cells = Vec::new();
    for machine in &plan.machines {
        for seed in seeds(plan) {
            for (policy, _) in &plan.policies {
                let (host, explain, only_op) = (plan.host, plan.explain, plan.only_op.as_deref());
                let tolerates_failures = plan.tolerates_failures;
                let unit = Unit::of(machine, policy, seed);
                cells.push(Unit { host, explain, only_op, tolerates_failures, ..unit });
            }
        }
    }
    cells
}

/// Units of the cells: the cell's number, and the part of it.
pub(super) fn units(plan: &RunPlan, cells: &[Cell<'_>]) -> Vec<(usize, usize)> {
    let job = |cell: &Cell<'_>| plan.experiment.job_on(&cell.machine.name);
    let parts = |cell: &Cell<'_>| job(cell).units(cell.machine);
    let of_cell = |(at, cell)| (0..parts(cell)).map(move |part| (at, part));
    cells.iter().enumerate().flat_map(of_cell).collect()
}

/// The order in which units start: the longest first, as far as lengths are known. So no thread is
/// left with a long unit at the end while the others are idle. Units of equal expected length stay
/// in plan order. In real time all units stay in plan order ([`cells`]).
fn starts(plan: &RunPlan, cells: &[Cell<'_>], units: &[(usize, usize)]) -> Vec<usize> {
    let seconds = |&(cell, part): &(usize, usize)| {
        let machine = cells[cell].machine;
        plan.experiment.job_on(&machine.name).seconds(machine, part).unwrap_or(0.0)
    };
    let lengths: Vec<f64> = units.iter().map(seconds).collect();
    let mut order: Vec<usize> = (0..units.len()).collect();
    if plan.host == HostKind::Sim {
        order.sort_by(|&a, &b| lengths[b].total_cmp(&lengths[a]));
    }
    order
}

/// Runs every unit; what they left, in plan order.
fn run_units(
    plan: &RunPlan,
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> Result<Vec<UnitRan>, RunError> {
    let cells = cells(plan);
    let units = units(plan, &cells);
    let starts = starts(plan, &cells, &units);
    let done = AtomicUsize::new(0);
    let run = |index: usize| {
        let (cell, part) = units[index];
        let unit = Unit { part, clock: progress.clock(), ..cells[cell] };
        let is_done = || (done.fetch_add(1, Ordering::Relaxed) + 1, units.len());
        let store = plan.units.as_ref().filter(|_| plan.host == HostKind::Sim);
        let Some(store) = store else {
            let result = run_unit(plan, unit);
            let (done, total) = is_done();
            progress.cell_done(done, total);
            return result;
        };
        let recipe = recipe(plan, unit)?;
        if plan.files.is_none()
            && let Some(ran) = store.get(&recipe)
        {
            let (done, total) = is_done();
            progress.cell_found(done, total);
            return Ok(ran);
        }
        let ran = run_unit(plan, unit)?;
        store.put(&recipe, &ran)?;
        let (done, total) = is_done();
        progress.cell_done(done, total);
        Ok(ran)
    };
    // Threads of native runs must not compete with another cell for the processors.
    let jobs = if plan.host == HostKind::Native { 1 } else { plan.jobs.max(1) };
    let ran = in_order(&starts, jobs, &|| stop.load(Ordering::Relaxed), &run)?;
    if stop.load(Ordering::Relaxed) {
        return Err(RunError::Interrupted);
    }
    Ok(ran.into_iter().flatten().collect())
}

/// Runs units on several threads in the order of `starts`, until `is_over` or an error. Returns
/// results by unit number. Of several errors it returns that of the unit that started first. So the
/// error does not depend on the number of threads: one thread alone would have met it first.
pub(super) fn in_order<T: Send, E: Send>(
    starts: &[usize],
    jobs: usize,
    is_over: &(dyn Fn() -> bool + Sync),
    run: &(dyn Fn(usize) -> Result<T, E> + Sync),
) -> Result<Vec<Option<T>>, E> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let slots: Vec<Mutex<Option<Result<T, E>>>> = starts.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        // Checked before a unit is taken. A taken unit always runs, and so does every unit before a
        // failed one.
        while !is_over() && !failed.load(Ordering::Relaxed) {
            let Some(&index) = starts.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            let result = run(index);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            if let Ok(mut slot) = slots[index].lock() {
                *slot = Some(result);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..jobs.min(starts.len()) {
            scope.spawn(work);
        }
        work();
    });
    let mut ran: Vec<Option<Result<T, E>>> =
        slots.into_iter().map(|slot| slot.into_inner().ok().flatten()).collect();
    if let Some(&at) = starts.iter().find(|&&at| matches!(ran[at], Some(Err(_))))
        && let Some(Err(error)) = ran[at].take()
    {
        return Err(error);
    }
    Ok(ran.into_iter().map(|result| result.and_then(Result::ok)).collect())
}

/// The records of a unit besides its outcome: samples, and the number of its slowest
/// operations.
fn looks(plan: &RunPlan, unit: &Unit<'_>) -> (Option<Sampling>, Option<usize>) {
    let story = plan.story.filter(|_| unit.seed == plan.seed && plan.host == HostKind::Sim);
    let timeline = story.map(|_| Sampling::timeline(STORY_ROWS));
    let sampling = plan.sample_every_ms.map(Sampling::every).or(timeline);
    let sampling = match story {
        Some(_) => sampling.map(Sampling::with_moments),
        None => sampling,
    };
    (sampling, plan.explain.or(story))
}

/// Everything that decides the bytes of a unit's result.
pub(super) fn recipe(plan: &RunPlan, unit: Unit<'_>) -> Result<Recipe, RunError> {
    let job = plan.experiment.job_on(&unit.machine.name);
    let (sampling, explain) = looks(plan, &unit);
    let samples = match &sampling {
        None => "none".to_owned(),
        Some(sampling) => sampling.name(),
    };
    Ok(Recipe::of(&**job, &Unit { explain, ..unit }, &samples)?)
}

/// Runs one unit, with samples if the plan wants them.
pub(super) fn run_unit(plan: &RunPlan, unit: Unit<'_>) -> Result<UnitRan, RunError> {
    let job = plan.experiment.job_on(&unit.machine.name);
    let (sampling, explain) = looks(plan, &unit);
    let files = plan.files_of(&unit)?;
    let watched = Unit { sampling: sampling.as_ref(), explain, files: files.as_ref(), ..unit };
    let ran = job.run(&watched);
    failure(files.as_ref())?;
    let mut outcome = ran.map_err(|error| plan.experiment.at_place(error))?;
    outcome.notes.extend(sysctls::note(unit.machine, unit.policy));
    outcome.notes.extend(no_huge_pages(unit.machine));
    let over_time = sampling.map(|sampling| {
        let part = job.part_name(unit.machine, unit.part);
        let moments = sampling.moments(part.clone());
        let (series, note) = sampling.finish(part);
        outcome.notes.extend(note);
        OverTime { series, moments }
    });
    Ok(UnitRan { outcome, over_time })
}

/// A remark if huge pages were wanted and the machine is too small for them.
fn no_huge_pages(machine: &MachineFile) -> Option<String> {
    let (name, shape) = (&machine.name, &machine.machine);
    let is_off = shape.tunables.thp == Thp::Always && shape.thp() == Thp::Never;
    is_off.then(|| {
        let mib = shape.managed_pages() >> 8;
        format!(
            "{name}: vm.thp is always, but no program gets huge pages: the kernel turns them off below 512 MiB, and it \
             manages {mib} MiB"
        )
    })
}

/// The state in which a machine starts, with a digest of its content.
fn start_state(machine: &MachineFile) -> Option<String> {
    let state = machine.state.as_ref()?;
    let (name, mib) = (&machine.name, state.free_pages() >> 8);
    let from = if state.name.is_empty() { name } else { &state.name };
    let digest = UnitId::of(&state.to_toml()).to_string();
    let digest = &digest[..DIGEST_DIGITS];
    Some(format!("{name} starts from the state of {from}: {mib} MiB free; SHA-256 {digest}"))
}

fn document(plan: &RunPlan, outcomes: Vec<Outcome>) -> Document {
    let experiment = &plan.experiment;
    let version = env!("CARGO_PKG_VERSION");
    let mut document = Document::new(version, &experiment.name, plan.host.name(), plan.seed);
    document.title.clone_from(&experiment.title);
    document.workload = experiment.job.definition();
    document.iterations = experiment.iterations;
    document.settings.clone_from(&plan.settings);
    let sampled = |every_ms| Sampled { every_ms, file: SERIES_FILE.to_owned() };
    document.sampled = plan.sample_every_ms.map(sampled);
    document.metrics = experiment.job.metrics(&plan.machines);
    document.sections = experiment.job.sections(&document.metrics);
    document.published_policies = experiment.policies.iter().map(|p| p.name.clone()).collect();
    document.published.clone_from(&experiment.machines);
    document.also_against.extend(experiment.shipped().map(str::to_owned));
    document.machines = plan.machines.iter().map(MachineFile::definition).collect();
    document.policies = plan
        .policies
        .iter()
        .map(|(policy, _)| Definition {
            name: policy.name.clone(),
            summary: highwater_files::policy_file::summary(&policy.name).to_owned(),
            definition: highwater_files::policy_file::to_toml(policy),
        })
        .collect();
    // Delays of all seeds pooled are more precise; page frames differ between boots and are not
    // pooled.
    let pools = experiment.job.entry().counts_delays;
    let mut outcomes = outcomes.into_iter();
    for machine in &plan.machines {
        let of = |(policy, label): &(Policy, String)| Run::new(&machine.name, &policy.name, label);
        let mut runs: Vec<Run> = plan.policies.iter().map(of).collect();
        for (run, (policy, _)) in runs.iter_mut().zip(&plan.policies) {
            let kernel = policy.kernel;
            set_not_counted(run, experiment.job.not_counted(kernel), policy.counters());
            run.kernel = kernel.to_string();
            let why = experiment.why(&run.label).map(|why| format!("{}: {why}", run.label));
            run.notes.extend(why);
            run.notes.extend(start_state(machine));
        }
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

/// Notes operations and counters that the run's kernel does not count.
fn set_not_counted(run: &mut Run, operations: Vec<(String, KernelVersion)>, kernel: KernelVersion) {
    let counters = vmstat::names().filter_map(|(name, since)| Some((name.to_owned(), since?)));
    let counters = counters.filter(|(_, since)| *since > kernel);
    run.not_counted = operations.iter().map(|(name, _)| name.clone()).collect();
    let all = operations.into_iter().chain(counters);
    run.counted_since = all.map(|(name, since)| (name, since.to_string())).collect();
}

fn add(run: &mut Run, iteration: u32, seed: u64, outcome: Outcome, pools_histograms: bool) {
    let is_counted = |operation: &String| !run.not_counted.contains(operation);
    let samples = outcome.samples.iter().filter(|(operation, _)| is_counted(operation));
    for (operation, value) in samples.cloned().collect::<Vec<_>>() {
        run.push(&operation, iteration, seed, value);
    }
    let moved = outcome.counters.iter().filter(|(_, change)| *change != 0);
    let counters = moved.collect();
    let (times, ended_early) = (outcome.times, outcome.ended_early);
    run.per_seed.push(SeedTotals { seed, times, counters, ended_early });
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
        run.note_digest(seed, outcome.digest);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Condvar;

    use super::*;
    use highwater_runs::workload::Registry;

    /// Two units fail, one of them first. The error is the one that a single thread would meet, at
    /// any speed of the threads.
    #[test]
    fn the_error_is_that_of_the_unit_that_started_first() {
        let failed = (Mutex::new(false), Condvar::new());
        let nr_asked = AtomicUsize::new(0);
        // The thread that asks first waits until the other one's unit has failed.
        let is_over = || {
            if nr_asked.fetch_add(1, Ordering::Relaxed) == 0 {
                let lock = failed.0.lock().unwrap();
                drop(failed.1.wait_while(lock, |failed| !*failed).unwrap());
            }
            false
        };
        let run = |index: usize| -> Result<(), usize> {
            *failed.0.lock().unwrap() = true;
            failed.1.notify_all();
            Err(index)
        };
        assert_eq!(in_order(&[2, 0, 1], 2, &is_over, &run), Err(2));
    }

    /// Looks at virtual time whenever a run is done.
    #[derive(Default)]
    struct Watcher {
        clock: Arc<Passed>,
        seen: Mutex<Vec<(usize, [u64; 2])>>,
    }

    impl Progress for Watcher {
        fn cell_done(&self, done: usize, total: usize) {
            assert!(done <= total);
            let passed =
                [&self.clock.ns, &self.clock.events].map(|sum| sum.load(Ordering::Relaxed));
            self.seen.lock().unwrap().push((done, passed));
        }

        fn clock(&self) -> Option<&Arc<Passed>> {
            Some(&self.clock)
        }
    }

    #[test]
    fn whoever_watches_sees_runs_and_virtual_time_and_changes_nothing() {
        let text = "name = \"x\"\ntitle = \"t\"\nworkload = \"netperf-tcp\"\niterations = 2\n\
                    [[policy]]\nname = \"6.1\"\nlabel = \"6.1\"\n[[machine]]\nname = \"m\"\n\
                    [netperf-tcp]\nsizes = [4096]\nms-per-size = 5\nwarmup = \"1M\"\n";
        let machine = "[[node]]\nmemory = \"64M\"\ncpus = \"0-1\"\n";
        let plan = RunPlan::new(
            Experiment::parse(&Registry::default(), "x.toml", text).unwrap(),
            vec![MachineFile::parse("m.toml", machine).unwrap()],
            vec![(highwater_core::config::preset("6.1").unwrap(), "6.1".to_owned())],
        );
        let watcher = Watcher::default();
        let watched = run(&plan, &watcher, &AtomicBool::new(false)).unwrap();
        let seen = watcher.seen.into_inner().unwrap();
        assert_eq!(seen.iter().map(|(done, _)| *done).collect::<Vec<_>>(), [1, 2]);
        for of in [0, 1] {
            assert!(seen[0].1[of] > 0 && seen[1].1[of] > seen[0].1[of], "{seen:?}");
        }

        struct Nobody;
        impl Progress for Nobody {
            fn cell_done(&self, _: usize, _: usize) {}
        }
        let unwatched = run(&plan, &Nobody, &AtomicBool::new(false)).unwrap();
        assert_eq!(watched, unwatched);

        // Nor does the story of its first seed change anything.
        let plan = RunPlan { story: Some(3), ..plan };
        let told = run_all(&plan, &Nobody, &AtomicBool::new(false)).unwrap();
        assert_eq!(told.document, watched);
        let seeds: Vec<u64> = told.series.iter().map(|series| series.seed).collect();
        assert_eq!((seeds, told.explained.len()), (vec![1], 1));
        assert!((2..=STORY_ROWS).contains(&told.series[0].series.len()));
        let (maps, ages) = (&told.maps[0].maps, &told.ages[0].series);
        assert_eq!(maps.moments.len(), ages.len());
        let cells = |at: usize| maps.moments[at].1.iter().map(String::len);
        assert_eq!(maps.zones.len(), cells(0).len());
        assert!((0..maps.moments.len()).all(|at| cells(at).eq(cells(0))));
        // 64 MiB have 32 pageblocks.
        assert_eq!(cells(0).sum::<usize>(), 32);
    }

    #[test]
    fn the_longest_units_start_first_where_time_is_virtual() {
        let text = "name = \"x\"\ntitle = \"t\"\nworkload = \"stutterp\"\niterations = 2\n\
                    [[policy]]\nname = \"6.1\"\nlabel = \"6.1\"\n[[machine]]\nname = \"m\"\n\
                    [stutterp]\nladder = [4, 7, 9]\nseconds = 0.5\n";
        let machine = "[[node]]\nmemory = \"64M\"\ncpus = \"0-1\"\n";
        let plan = RunPlan::new(
            Experiment::parse(&Registry::default(), "x.toml", text).unwrap(),
            vec![MachineFile::parse("m.toml", machine).unwrap()],
            vec![(highwater_core::config::preset("6.1").unwrap(), "6.1".to_owned())],
        );
        let started = |plan: &RunPlan| {
            let cells = cells(plan);
            let units = units(plan, &cells);
            let starts = starts(plan, &cells, &units);
            starts.into_iter().map(|at| units[at]).collect::<Vec<_>>()
        };
        // Two seeds, three steps each.
        assert_eq!(started(&plan), [(0, 2), (1, 2), (0, 1), (1, 1), (0, 0), (1, 0)]);
        let native = RunPlan { host: HostKind::Native, ..plan };
        assert_eq!(started(&native), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
    }
}
