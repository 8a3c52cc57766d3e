//! A job on the simulated machine.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use highwater_core::host::{CpuId, Cx, Host};
use highwater_core::kernel::Error;
use highwater_core::page_cache::{File, FileSpec, Filesystem};
use highwater_results::{Counters, Largest, Times};
use highwater_sim::engine::Placement;
use highwater_sim::host::SimHost;
use highwater_sim::machine::SimKernel;
use highwater_workloads::jobs::{self, Ground, Inherited, Recorded, Task};

use super::super::ends::{Ends, Worker};
use super::super::harness::{self, lost, run_to_end, timed};
use super::super::outcome::{Outcome, RunError, snapshot};
use super::super::storage::{DATA, Storage};
use super::super::{Unit, Workload};
use super::file::{JobParams, JobTask};
use super::plan::{self, Operation};
use super::{FAULT_KINDS, Job, LONGEST, PERCENTILES, RATE, named};

/// How often a task that waits for another one looks.
const LOOK_NS: u64 = 1_000_000;
const NS_PER_US: f64 = 1e3;

/// What a copy of a task leaves: its records, and whether it was killed for its memory.
#[derive(Default)]
struct Left {
    records: Vec<Recorded>,
    was_killed: bool,
}

/// What all of a job is.
struct Plan {
    tasks: Vec<Task>,
    told: Vec<JobTask>,
    nr_operations: usize,
    files: Vec<Arc<File<SimHost>>>,
    seed: u64,
    end_ns: u64,
    is_over: Cell<bool>,
    /// Copies of each task that have not ended.
    nr_left: RefCell<Vec<u32>>,
    /// Copies that were started, with the number of their task.
    started: RefCell<Vec<(usize, Worker<Left>)>>,
    /// Of each task, copies so far: each has another seed.
    nr_started: RefCell<Vec<u32>>,
}

/// Runs a job.
pub(super) fn run(params: &JobParams, unit: &Unit<'_>) -> Result<Outcome, RunError> {
    if params.task.is_empty() {
        return Err(RunError::of(Job::NAME, "there is no task in it"));
    }
    let nr_nodes = unit.machine.machine.nodes.len();
    for task in &params.task {
        if let Some(node) = task.node.filter(|&node| usize::from(node) >= nr_nodes) {
            let (name, machine) = (&task.name, &unit.machine.name);
            let reason = format!("{name}: node {node}: machine {machine} has {nr_nodes}");
            return Err(RunError::of(Job::NAME, reason));
        }
    }
    let memory_pages = harness::managed_pages(unit);
    let (tasks, operations) = plan::tasks(params, memory_pages);
    let sizes: Vec<u64> =
        params.file.iter().map(|file| plan::pages(file.size, memory_pages)).collect();
    let storage = Storage::of(unit, sizes.iter().sum(), 2 * memory_pages, "the files of the job")?;
    let mut notes: Vec<String> = storage.note.clone().into_iter().collect();
    let mut next_page = storage.first_page;
    let mut config = harness::config(unit)?;
    storage.attach(&mut config);
    let seed = config.seed;
    let mut machine = harness::boot(unit, config)?;
    let files = sizes.iter().map(|&pages| {
        let max_pages = u32::try_from(pages).unwrap_or(u32::MAX);
        let spec = FileSpec::new(Filesystem::EXT4, DATA, next_page, max_pages);
        next_page += pages;
        machine.kernel.create_file(&machine.outside(), spec)
    });
    let files = files.collect();
    let nr_tasks = tasks.len();
    let plan = Plan {
        tasks,
        told: params.task.clone(),
        nr_operations: operations.len(),
        files,
        seed,
        end_ns: (params.seconds * 1e9) as u64,
        is_over: Cell::new(false),
        nr_left: RefCell::new(vec![0; nr_tasks]),
        started: RefCell::default(),
        nr_started: RefCell::new(vec![0; nr_tasks]),
    };
    let (parts, before) = (SimKernel::clone(&machine), snapshot(&machine.kernel.mem));
    let driver = machine.spawn_task("job", Placement::Anywhere, move |cx, kernel| {
        let ended = drive(&parts, cx, Rc::new(plan))?;
        let counters = Counters::difference(&before, &snapshot(&kernel.mem));
        Ok::<_, RunError>((ended, counters))
    });
    run_to_end(&mut machine)?;
    let ((records, killed, times), counters) = driver.take().ok_or_else(|| lost("driver"))??;
    let explained = harness::explained(&machine, unit)?;
    let digest = machine.digest().value();
    harness::settle_and_audit(&mut machine, harness::delete_files)?;
    for (task, (killed, started)) in params.task.iter().zip(killed) {
        if killed > 0 {
            let name = &task.name;
            notes.push(format!("{name}: {killed} of {started} were killed for their memory"));
        }
    }
    let mut outcome = Outcome { counters, times, explained, digest, notes, ..Outcome::default() };
    for (operation, record) in operations.iter().zip(&records) {
        tell(operation, record, unit.seed, &mut outcome);
    }
    Ok(outcome)
}

/// The figures of an operation; one that never ended has none.
fn tell(operation: &Operation, record: &Recorded, seed: u64, outcome: &mut Outcome) {
    let Operation { name: operation, has_faults } = operation;
    let Some((longest_ns, at_ns)) = record.longest else {
        outcome.notes.push(format!("{operation}: none has ended"));
        return;
    };
    let us = |ns: u64| ns as f64 / NS_PER_US;
    let mut push = |figure: &str, value: f64| {
        outcome.samples.push((named(operation, figure), value));
    };
    push(RATE, record.rate());
    for (quantile, name) in PERCENTILES {
        // Known to three digits; the longest is known exactly.
        push(name, us(record.latencies.value_at_quantile(quantile).min(longest_ns)));
    }
    push(LONGEST, us(longest_ns));
    if *has_faults {
        let faults = [record.minor, record.major];
        FAULT_KINDS.iter().zip(faults).for_each(|(kind, faults)| push(kind, faults as f64));
    }
    let (operation, value) = (named(operation, LONGEST), us(longest_ns));
    Largest::keep(&mut outcome.largest, Largest { operation, seed, value, at_ns });
}

/// Records; of each task how many copies were killed, and how many there were; times.
type Ended = (Vec<Recorded>, Vec<(u32, u32)>, Times);

/// Starts the tasks and waits for those in the foreground; the others are told.
fn drive(machine: &SimKernel, cx: &Cx<'_, SimHost>, plan: Rc<Plan>) -> Result<Ended, RunError> {
    for (number, task) in plan.told.iter().enumerate().filter(|(_, task)| !task.forked) {
        for _ in 0..task.count {
            start(machine, &plan, number, None);
        }
    }
    let mut ends = Ends::new(Job::NAME);
    let mut records = vec![Recorded::default(); plan.nr_operations];
    let mut killed = vec![0; plan.tasks.len()];
    for is_background in [false, true] {
        // Forks add to the list while it is gone through.
        loop {
            let next = {
                let mut started = plan.started.borrow_mut();
                let wanted =
                    |(number, _): &(usize, _)| plan.told[*number].background == is_background;
                let at = started.iter().position(wanted);
                at.map(|at| started.remove(at))
            };
            let Some((number, worker)) = next else { break };
            let left = ends.of(worker);
            killed[number] += u32::from(left.was_killed);
            for (sum, record) in records.iter_mut().zip(&left.records) {
                sum.merge(record);
            }
        }
        plan.is_over.set(true);
    }
    let mut times = ends.times()?;
    times.elapsed_ns = cx.host.now_ns();
    let killed = killed.into_iter().zip(plan.nr_started.take()).collect();
    Ok((records, killed, times))
}

/// Starts a copy of a task.
fn start(
    machine: &SimKernel,
    plan: &Rc<Plan>,
    number: usize,
    inherited: Option<Inherited<SimHost>>,
) {
    let told = &plan.told[number];
    let copy = {
        let mut nr_started = plan.nr_started.borrow_mut();
        nr_started[number] += 1;
        nr_started[number] - 1
    };
    plan.nr_left.borrow_mut()[number] += 1;
    let nr_cpus = machine.sim().nr_cpus() as u16;
    let placement = match (told.cpu, told.node) {
        (Some(cpu), _) => Placement::Pinned(CpuId((cpu + copy as u16) % nr_cpus)),
        (_, Some(node)) => Placement::Node(node),
        _ => Placement::Anywhere,
    };
    let name = if told.count > 1 { format!("{}/{copy}", told.name) } else { told.name.clone() };
    let (parts, mine) = (SimKernel::clone(machine), Rc::clone(plan));
    let worker = machine.spawn_task(name, placement, move |cx, _| {
        timed(cx, || {
            let left = work(&parts, cx, &mine, (number, copy), inherited);
            mine.nr_left.borrow_mut()[number] -= 1;
            left
        })
    });
    plan.started.borrow_mut().push((number, worker));
}

/// What a copy of a task does, from beginning to end.
fn work(
    machine: &SimKernel,
    cx: &Cx<'_, SimHost>,
    plan: &Rc<Plan>,
    (number, copy): (usize, u32),
    inherited: Option<Inherited<SimHost>>,
) -> Result<Left, Error> {
    let is_over = || plan.is_over.get() || machine.sim().now_ns() >= plan.end_ns;
    let ground = Ground {
        kernel: &machine.kernel,
        files: &plan.files,
        is_over: &is_over,
        compute: &|cx: &Cx<'_, SimHost>, ns| cx.host.sim().compute(ns),
        wait: &|cx: &Cx<'_, SimHost>, task: usize| {
            while plan.nr_left.borrow()[task] > 0 && !is_over() {
                cx.host.sleep_ns(LOOK_NS);
            }
        },
        fork: &|task: usize, with| start(machine, plan, task, Some(with)),
    };
    let mut records = vec![Recorded::default(); plan.nr_operations];
    let seed = jobs::seed(plan.seed, number as u32, copy);
    let task = &plan.tasks[number];
    match jobs::run(task, &ground, cx, inherited, seed, &mut records) {
        Ok(()) => Ok(Left { records, was_killed: false }),
        Err(Error::Killed) => Ok(Left { records, was_killed: true }),
        Err(error) => Err(error),
    }
}
