//! A job on the simulated machine.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use highwater_core::config::{Machine, Thp};
use highwater_core::host::{CpuId, Cx, Host};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::reclaim::{GroupSetting, OomReport};
use highwater_core::vm::Mm;
use highwater_results::words::was;
use highwater_results::{Counters, EndedEarly, KERNEL_LOG_FILE, Times};
use highwater_sim::cpu::Nice;
use highwater_sim::engine::{Placement, Spawn, TaskTimes};
use highwater_sim::host::SimHost;
use highwater_sim::machine::SimKernel;
use highwater_sim::pressure;
use highwater_workloads::jobs::{
    self, CutShort, Failed, Files, Ground, Groups, Helper, Inherited, Joined, Recorded, Sockets,
    Task, Why,
};

use super::super::ends::{Ends, Worker};
use super::super::harness::{self, lost, run_to_end, timed};
use super::super::{Unit, Workload};
use super::Job;
use super::disks::{self, Placed};
use super::failed;
use super::figures::{tell, tell_pressure, texts};
use super::file::{AdviceName, Do, JobParams, JobTask};
use super::group;
use super::group_figures::{self, OverTime};
use super::idle::{self, Idle};
use super::memory::Memory;
use super::plan;
use super::steps::Steps;
use super::stuck::{Stuck, Waited};
use crate::outcome::{Outcome, RunError, snapshot};

/// How often a task that waits for another one looks.
const LOOK_NS: u64 = 1_000_000;
/// How often the task that ends waits for memory looks whether the job is over.
const LIFT_LOOK_NS: u64 = 100_000_000;
/// Groups that a kernel has room for beyond those of the job.
const GROUPS_SPARE: u16 = 16;
/// Number of OOM kills whose kernel log line is reported.
const KILLS_TOLD: usize = 2;

/// The results of a copy of a task.
#[derive(Default)]
struct Left {
    records: Vec<Recorded>,
    /// Why it ended before its time.
    ended: Option<Early>,
    /// The work that it had left then.
    cut_short: Vec<CutShort>,
}

/// Why a copy of a task ended before its time.
enum Early {
    Killed,
    /// A call failed: which one, and its error.
    Failed(String),
}

/// State shared by all tasks of a job.
struct Plan {
    tasks: Vec<Task>,
    told: Vec<JobTask>,
    nr_operations: usize,
    files: Files<SimHost>,
    groups: Groups,
    sockets: Sockets<SimHost>,
    /// Tasks may wait instead of an OOM kill.
    may_wait: bool,
    /// The machine's resources, for error messages.
    has: failed::Machine,
    seed: u64,
    end_ns: u64,
    is_over: Cell<bool>,
    /// A task whose operations take no time.
    idle: Cell<Option<usize>>,
    /// Waits that did not end, and phases that found nothing to do.
    stuck: Stuck,
    /// Copies of each task that have not ended.
    nr_left: RefCell<Vec<u32>>,
    /// Started copies, with the number of their task.
    started: RefCell<Vec<(usize, Worker<Left>)>>,
    /// Address spaces.
    memory: Rc<Memory>,
    /// The first failure.
    failed: RefCell<Option<RunError>>,
    /// Names of steps.
    step_names: Vec<String>,
    /// Steps of each task.
    steps: RefCell<Vec<Steps>>,
    /// Of each task, copies so far: each has another seed.
    nr_started: RefCell<Vec<u32>>,
    /// CPU time of helpers that have ended.
    helped: Cell<TaskTimes>,
}

impl Plan {
    /// The name of a copy of a task.
    fn copy_name(&self, number: usize, copy: u32) -> String {
        let task = &self.told[number];
        if task.count > 1 { format!("{}/{copy}", task.name) } else { task.name.clone() }
    }
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
    let Placed { storage, files, mut notes } = disks::place(params, unit, memory_pages)?;
    let has = failed::Machine::new(unit, &storage, &files);
    notes.extend(plan::set_in_vain(params, unit.policy.kernel));
    notes.extend(plan::reclaimed_in_vain(params, unit.policy.kernel));
    notes.extend(group::mounted_in_vain(params, unit.policy.kernel));
    notes.extend(refused_huge_pages(params, &unit.machine.machine));
    let mut config = harness::config(unit)?;
    storage.attach(&mut config);
    config.advised = params.task.iter().any(asks_for_huge_pages);
    // A kernel without groups costs nothing for them, so only jobs that have some change.
    let groups = group::groups(params, memory_pages);
    if !groups.is_empty() {
        config.groups = groups.len() as u16 + GROUPS_SPARE;
        config.policy.memcg.hierarchy = group::hierarchy(params);
        config.policy.memcg.recursive_prot |= group::is_recursive(params, unit.policy.kernel);
    }
    let seed = config.seed;
    let memory = Rc::new(Memory::default());
    let over_time = Rc::new(OverTime::default());
    let columns = memory.columns(params.task.iter().map(|task| task.name.clone()));
    let columns = columns.and(over_time.columns(params, unit.policy.kernel));
    let mut machine = harness::boot_and_tell(unit, config, Some(columns))?;
    let files = Files::create(&machine.kernel, &machine.outside(), files);
    let groups = Groups::create(&machine.kernel, &machine.outside(), &groups)
        .map_err(|error| RunError::of(Job::NAME, format!("groups: {error}")))?;
    over_time.begin(&machine.kernel, &groups);
    group_figures::name_groups(&machine, params, &groups);
    let nr_tasks = tasks.len();
    let step_names = plan::steps(params);
    let all_steps = Rc::new(step_names.iter().cloned().collect());
    let steps_of = |task: &JobTask| Steps::new((task.rounds == 0).then(|| Rc::clone(&all_steps)));
    let plan = Plan {
        tasks,
        told: params.task.clone(),
        nr_operations: operations.len(),
        files,
        groups,
        sockets: Sockets::default(),
        may_wait: group::may_wait(params),
        has,
        seed,
        end_ns: (params.seconds * 1e9) as u64,
        is_over: Cell::new(false),
        idle: Cell::default(),
        stuck: Stuck::new(params),
        nr_left: RefCell::new(vec![0; nr_tasks]),
        started: RefCell::default(),
        memory,
        failed: RefCell::default(),
        steps: RefCell::new(params.task.iter().map(steps_of).collect()),
        step_names,
        nr_started: RefCell::new(vec![0; nr_tasks]),
        helped: Cell::default(),
    };
    let (parts, before) = (SimKernel::clone(&machine), snapshot(&machine.kernel.mem));
    let driver = machine.spawn_task("job", Placement::Anywhere, move |cx, kernel| {
        let ended = drive(&parts, cx, Rc::new(plan))?;
        let counters = Counters::difference(&before, &snapshot(&kernel.mem));
        Ok::<_, RunError>((ended, counters))
    });
    run_to_end(&mut machine)?;
    let (ended, counters) = driver.take().ok_or_else(|| lost("driver"))??;
    let Ended { records, mut early, failed, stuck, steps, groups, times } = ended;
    if let Some(failed) = failed
        && !unit.tolerates_failures
    {
        return Err(failed);
    }
    notes.extend(stuck.told(early.is_empty())?);
    let reading = machine.sim().pressure();
    let said = machine.kernel.oom_reports(CpuId(0));
    if machine.kernel.has_panicked() {
        let at_s = said.last().map_or(0.0, |panic| panic.at_ns as f64 / 1e9);
        notes
            .push(format!("the kernel stopped at {at_s:.3} s: all figures are of the time before"));
        // The OOM killer found no victim: everything stood still.
        for EndedEarly { killed, failed, first_kill_ns, reason, .. } in &mut early {
            *failed += std::mem::take(killed);
            *first_kill_ns = None;
            *reason = "the kernel panicked for want of memory (vm.panic_on_oom)".to_owned();
        }
    }
    let explained = harness::ended(&machine, unit)?;
    let digest = machine.digest().value();
    harness::settle_and_audit(&mut machine, harness::delete_files)?;
    let last_line = |kill: &OomReport| kill.text.lines().last().map(str::to_owned);
    notes.extend(said.iter().take(KILLS_TOLD).filter_map(last_line));
    if said.len() > KILLS_TOLD {
        let (more, file) = (said.len() - KILLS_TOLD, KERNEL_LOG_FILE);
        let were = was(more);
        notes.push(format!("{more} more {were} killed; with --out, {file} has them"));
    }
    notes.extend(group_figures::kills(params, &groups));
    for EndedEarly { task, killed, failed, started, first_kill_ns, reason } in &early {
        if *killed > 0 {
            let (were, their) = (was(*killed), if *killed == 1 { "its" } else { "their" });
            let first = if *killed == 1 { "" } else { "the first " };
            let when = first_kill_ns.map(|ns| format!(", {first}at {:.3} s", ns as f64 / 1e9));
            let when = when.unwrap_or_default();
            let killed = format!("{killed} of {started} {were} killed for {their} memory");
            notes.push(format!("{task}: {killed}{when}"));
        }
        if *failed > 0 {
            notes.push(format!("{task}: {failed} of {started} gave up: {reason}"));
        }
    }
    // A kernel without `/proc/pressure` has no text of it.
    let has_files = machine.kernel.mem.policy.kernel >= pressure::SINCE;
    let texts = texts(Some(reading).filter(|_| has_files), &said);
    let mut outcome =
        Outcome { counters, times, explained, digest, notes, texts, ..Outcome::default() };
    outcome.ended_early = early;
    for (operation, record) in operations.iter().zip(&records) {
        tell(operation, record, unit.seed, &mut outcome);
    }
    tell_pressure(reading, times.elapsed_ns, &mut outcome);
    outcome.samples.extend(steps);
    outcome.samples.extend(group_figures::samples(params, &groups));
    Ok(outcome)
}

fn asks_for_huge_pages(task: &JobTask) -> bool {
    task.phase.iter().any(|phase| phase.advice == Some(AdviceName::Hugepage))
}

/// Tasks that want huge pages on a machine that cannot have any.
fn refused_huge_pages(params: &JobParams, machine: &Machine) -> Option<String> {
    if machine.thp() != Thp::Never {
        return None;
    }
    let asking = params.task.iter().filter(|task| asks_for_huge_pages(task));
    let names: Vec<&str> = asking.map(|task| task.name.as_str()).collect();
    let why = match machine.tunables.thp {
        Thp::Never => "vm.thp is never".to_owned(),
        _ => format!(
            "the kernel turns them off below 512 MiB, and it manages {} MiB",
            machine.managed_pages() >> 8
        ),
    };
    (!names.is_empty())
        .then(|| format!("{}: advice = \"hugepage\" does nothing: {why}", names.join(", ")))
}

/// The results when all tasks have ended.
struct Ended {
    records: Vec<Recorded>,
    /// Tasks that ended before their time.
    early: Vec<EndedEarly>,
    /// The error of the first task whose call failed.
    failed: Option<RunError>,
    /// Waits that did not end, and phases that found nothing to do.
    stuck: Stuck,
    /// Counters of steps.
    steps: Vec<(String, f64)>,
    /// Of each group.
    groups: Vec<group_figures::Figures>,
    times: Times,
}

/// Starts the tasks and waits for the foreground ones; then tells the others to stop.
fn drive(machine: &SimKernel, cx: &Cx<'_, SimHost>, plan: Rc<Plan>) -> Result<Ended, RunError> {
    for (number, task) in plan.told.iter().enumerate().filter(|(_, task)| !task.forked) {
        for _ in 0..task.count {
            start(machine, &plan, number, None);
        }
    }
    if plan.may_wait {
        let mine = Rc::clone(&plan);
        let lifter = machine.spawn_task("lifter", Placement::Anywhere, move |cx, kernel| {
            lift_limits(kernel, cx, &mine);
        });
        drop(lifter);
    }
    let mut ends = Ends::new(Job::NAME);
    let mut records = vec![Recorded::default(); plan.nr_operations];
    let of_task = |task: &JobTask| EndedEarly { task: task.name.clone(), ..EndedEarly::default() };
    let mut early: Vec<EndedEarly> = plan.told.iter().map(of_task).collect();
    let mut until_ns = plan.end_ns;
    for is_background in [false, true] {
        // Forks add to the list while this loop runs over it.
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
            for (sum, record) in records.iter_mut().zip(&left.records) {
                sum.merge(record);
            }
            left.cut_short.into_iter().for_each(|cut| cut.tell(until_ns, &mut records));
            let early = &mut early[number];
            match left.ended {
                Some(Early::Killed) => early.killed += 1,
                Some(Early::Failed(reason)) => {
                    early.failed += 1;
                    if early.reason.is_empty() {
                        early.reason = reason;
                    }
                }
                None => {}
            }
        }
        plan.is_over.set(true);
        // Background tasks were meant to run until now.
        until_ns = until_ns.min(cx.host.now_ns());
    }
    plan.sockets.close_all(&machine.kernel, cx);
    if let Some(number) = plan.idle.get() {
        return Err(idle::error(number, &plan.told[number].name, &plan.tasks[number]));
    }
    let mut times = ends.times()?;
    let helped = plan.helped.get();
    times.user_ns += helped.user_ns;
    times.system_ns += helped.system_ns;
    times.elapsed_ns = cx.host.now_ns();
    for (early, started) in early.iter_mut().zip(plan.nr_started.take()) {
        early.started = started;
    }
    // The OOM killer can choose a task that is exiting. The task had finished its work, but it
    // still counts as a kill.
    let said = machine.kernel.oom_reports(cx.cpu());
    for EndedEarly { task, killed, first_kill_ns, .. } in &mut early {
        let rest_of = |name: &str| name.strip_prefix(&**task).map(str::to_owned);
        let is_number = |rest: &str| {
            let digits = rest.strip_prefix('/').unwrap_or_default();
            !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
        };
        let is_copy =
            |name: &str| rest_of(name).is_some_and(|rest| rest.is_empty() || is_number(&rest));
        let kills = said.iter().filter(|kill| kill.victim.as_deref().is_some_and(is_copy));
        *killed = (*killed).max(kills.clone().count() as u32);
        *first_kill_ns = kills.map(|kill| kill.at_ns).min();
    }
    early.retain(|early| early.killed + early.failed > 0);
    let steps = plan.steps.borrow();
    let steps = steps.iter().flat_map(|steps| steps.samples(&plan.step_names)).collect();
    let stuck = plan.stuck.clone();
    let groups = group_figures::read(machine, &plan.groups);
    Ok(Ended { records, early, failed: plan.failed.take(), stuck, steps, groups, times })
}

/// At the end of the job, raises the limits of groups whose tasks wait for memory, or they would
/// never see that the job is over.
fn lift_limits(kernel: &Kernel<SimHost>, cx: &Cx<'_, SimHost>, plan: &Plan) {
    while !plan.is_over.get() && cx.host.now_ns() < plan.end_ns {
        cx.host.sleep_ns(LIFT_LOOK_NS.min(plan.end_ns - cx.host.now_ns()));
    }
    for group in plan.groups.ids() {
        if kernel.oom_control(group).oom_kill_disable {
            for setting in [GroupSetting::MemswLimit(u64::MAX), GroupSetting::Limit(u64::MAX)] {
                // A removed group has no tasks.
                let _ = kernel.set_group(cx, group, setting);
            }
        }
    }
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
    let spawn = spawn(machine, told, copy, plan.copy_name(number, copy));
    let (parts, mine) = (SimKernel::clone(machine), Rc::clone(plan));
    let worker = machine.spawn_as(spawn, move |cx, _| {
        timed(cx, || {
            let left = work(&parts, cx, &mine, (number, copy), inherited);
            mine.nr_left.borrow_mut()[number] -= 1;
            left
        })
    });
    plan.started.borrow_mut().push((number, worker));
}

/// Where and how a copy of a task runs, and its helpers.
fn spawn(machine: &SimKernel, told: &JobTask, copy: u32, name: String) -> Spawn {
    let nr_cpus = machine.sim().nr_cpus() as u16;
    let placement = match (told.cpu, told.node) {
        (cpu, _) if told.softirq => {
            Placement::Interrupt(CpuId((cpu.unwrap_or(0) + copy as u16) % nr_cpus))
        }
        (Some(cpu), _) => Placement::Pinned(CpuId((cpu + copy as u16) % nr_cpus)),
        (_, Some(node)) => Placement::Node(node),
        _ => Placement::Anywhere,
    };
    let nice = told.nice.and_then(Nice::new).unwrap_or_default();
    Spawn::new(name).placement(placement).nice(nice)
}

/// Starts a helper of a copy of a task.
fn start_helper(
    machine: &SimKernel,
    plan: &Rc<Plan>,
    (number, copy): (usize, u32),
    helper: Helper<SimHost>,
) -> Joined {
    let spawn = spawn(machine, &plan.told[number], copy, plan.copy_name(number, copy));
    let (parts, mine) = (SimKernel::clone(machine), Rc::clone(plan));
    let worker = machine.spawn_as(spawn, move |cx, _| {
        timed(cx, || {
            let mut records = vec![Recorded::default(); mine.nr_operations];
            let task = &mine.tasks[number];
            // A killed task keeps what it did until then.
            let ended = on_ground(&parts, &mine, cx, (number, copy), |ground| {
                jobs::help(task, ground, cx, helper, &mut records)
            });
            (records, ended)
        })
    });
    let plan = Rc::clone(plan);
    Box::new(move || {
        let Some((left, used)) = worker.join() else { return (Vec::new(), Err(Error::Killed)) };
        let TaskTimes { user_ns, system_ns } = plan.helped.get();
        let (user_ns, system_ns) = (user_ns + used.user_ns, system_ns + used.system_ns);
        plan.helped.set(TaskTimes { user_ns, system_ns });
        left
    })
}

/// Runs a copy of a task from start to end.
fn work(
    machine: &SimKernel,
    cx: &Cx<'_, SimHost>,
    plan: &Rc<Plan>,
    (number, copy): (usize, u32),
    inherited: Option<Inherited<SimHost>>,
) -> Result<Left, Error> {
    let mut records = vec![Recorded::default(); plan.nr_operations];
    let seed = jobs::seed(plan.seed, number as u32, copy);
    let task = &plan.tasks[number];
    let ran = on_ground(machine, plan, cx, (number, copy), |ground| {
        jobs::run(task, ground, cx, inherited, seed, &mut records)
    });
    let (ended, cut_short) = match ran {
        Ok(()) => (None, Vec::new()),
        Err(Failed { why: Why::Call(Error::Killed), left, .. }) => (Some(Early::Killed), left),
        Err(failed) => {
            let at = (number, &plan.told[number], &task.phases[..]);
            let (path, mut reason) = failed::reason(at, &failed, &plan.has);
            let action = plan.told[number].phase[failed.phase].action;
            reason += &refused_commit(machine, action, &failed.why.error());
            if let (Why::NoTime, Some(nothing)) = (&failed.why, plan.stuck.nothing_of(number)) {
                reason = format!("never ends, and takes no time: {nothing}");
            }
            plan.failed.borrow_mut().get_or_insert_with(|| {
                let reason = format!("{} {reason}", plan.told[number].name);
                RunError::At { path, reason, place: None }
            });
            (Some(Early::Failed(reason)), failed.left)
        }
    };
    Ok(Left { records, ended, cut_short })
}

/// Explains a call that failed because `vm.overcommit_memory` is 2; empty for other failures.
fn refused_commit(machine: &SimKernel, action: Do, error: &Error) -> String {
    let kernel = &machine.kernel;
    match (action, error, kernel.mem.tunables.overcommit_memory.get()) {
        (Do::Map | Do::Fork, Error::NoMemory, 2) => format!(
            " (vm.overcommit_memory is 2: programs may be promised {} MiB together)",
            kernel.commit_limit() >> 8
        ),
        _ => String::new(),
    }
}

/// Calls a function with the state that the copies of a task share.
fn on_ground<T>(
    machine: &SimKernel,
    plan: &Rc<Plan>,
    cx: &Cx<'_, SimHost>,
    (number, copy): (usize, u32),
    body: impl FnOnce(&Ground<'_, SimHost>) -> T,
) -> T {
    let idle = Idle::default();
    let is_over = || {
        let now_ns = machine.sim().now_ns();
        if idle.goes_nowhere(now_ns) {
            plan.idle.set(Some(number));
            plan.is_over.set(true);
        }
        plan.is_over.get() || now_ns >= plan.end_ns
    };
    let ground: Ground<'_, SimHost> = Ground {
        kernel: &machine.kernel,
        files: &plan.files,
        groups: &plan.groups,
        sockets: &plan.sockets,
        is_over: &is_over,
        compute: &|cx: &Cx<'_, SimHost>, ns| cx.host.sim().compute(ns),
        wait: &|cx: &Cx<'_, SimHost>, task: usize| {
            let since_ns = cx.host.now_ns();
            while plan.nr_left.borrow()[task] > 0 && !is_over() {
                cx.host.sleep_ns(LOOK_NS);
            }
            // The awaited copies may have ended only because the job did.
            if plan.nr_left.borrow()[task] > 0 || cx.host.now_ns() >= plan.end_ns {
                plan.stuck.waited(Waited { number, of: task, since_ns });
            }
        },
        may_fork: &|| plan.nr_left.borrow().iter().sum::<u32>() < plan.has.most_tasks(),
        fork: &|task: usize, with| start(machine, plan, task, Some(with)),
        help: &|helper| start_helper(machine, plan, (number, copy), helper),
        mark: &|_: &Cx<'_, SimHost>, name| {
            plan.steps.borrow_mut()[number].mark(name, snapshot(&machine.kernel.mem));
        },
        did: &|phase, something| plan.stuck.did(number, phase, something),
        entered: &|mm: &Arc<Mm<SimHost>>| {
            mm.set_name(cx.cpu(), &plan.copy_name(number, copy));
            plan.memory.add(number, mm);
        },
    };
    body(&ground)
}
