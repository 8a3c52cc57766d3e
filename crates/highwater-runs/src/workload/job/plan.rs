//! A job with its names resolved: its errors, and its tasks on a machine.

use highwater_core::config::{KernelVersion, Tunables};
use highwater_core::page::PAGE_SIZE;
use highwater_sim::cpu::Nice;
use highwater_workloads::jobs::{Action, Phase, RECLAIM_SINCE, Task, numbered};

use super::file::{Do, GfpName, JobParams, JobPhase, JobTask, Only};
use super::group;
use super::names::{Names, PROACTIVENESS};
use super::text::Amount;
use crate::workload::params::Problem;
use highwater_files::machine_file::disks::of_table;

/// Most operations of a phase under way at a time.
pub(super) const DEPTH_MAX: u32 = 1024;
/// Most copies of all tasks together, and most of them including their helpers.
const COPIES_MAX: u64 = 4096;

/// The first error in a job, with its path.
pub(super) fn problem(params: &JobParams) -> Option<Problem> {
    let wrong = |path: String, reason: String| Some(Problem { path, reason });
    if !(params.seconds.is_finite() && params.seconds > 0.0) {
        return wrong("seconds".to_owned(), "must be above 0".to_owned());
    }
    if let Some(problem) = disks(params) {
        return Some(problem);
    }
    let mut names: Vec<&str> = Vec::new();
    let all = (0..).zip(&params.file).map(|(at, file)| (format!("file.{at}"), &file.name));
    let all =
        all.chain((0..).zip(&params.task).map(|(at, task)| (format!("task.{at}"), &task.name)));
    for (path, name) in all {
        if name.is_empty() || names.contains(&name.as_str()) {
            return wrong(format!("{path}.name"), format!("\"{name}\" is empty, or there twice"));
        }
        names.push(name);
    }
    if let Some(problem) = group::problem(params) {
        return Some(problem);
    }
    let copies: u64 = params.task.iter().map(|task| u64::from(task.count)).sum();
    let deepest = |task: &JobTask| task.phase.iter().filter_map(|phase| phase.depth).max();
    let all = params.task.iter().map(|task| (u64::from(task.count), deepest(task).unwrap_or(1)));
    let helped: u64 = all.map(|(count, depth)| count * u64::from(depth)).sum();
    for (at, task) in params.task.iter().enumerate() {
        let path = format!("task.{at}");
        if let Some(problem) = marks(task) {
            return wrong(format!("{path}.{}", problem.path), problem.reason);
        }
        if task.count == 0 || copies > COPIES_MAX {
            let reason = format!("must be at least 1, and at most {COPIES_MAX} in all");
            return wrong(format!("{path}.count"), reason);
        }
        if task.forked && task.count > 1 {
            let reason = "each fork starts one; the task that forks says how often";
            return wrong(format!("{path}.count"), reason.to_owned());
        }
        if task.forked && params.task.iter().filter(|other| forks(other, task)).count() > 1 {
            let reason =
                "several tasks fork it: a task has one parent, whose VMAs it inherits".to_owned();
            return wrong(format!("{path}.forked"), reason);
        }
        if task.forked && lineage(params, task)[0].forked {
            let reason = "no task that begins with the job forks it: it would never run";
            return wrong(format!("{path}.forked"), reason.to_owned());
        }
        if task.cpu.is_some() && task.node.is_some() {
            return wrong(format!("{path}.node"), "there is a CPU, too".to_owned());
        }
        if let Some((key, reason)) = softirq(task) {
            return wrong(format!("{path}.{key}"), reason.to_owned());
        }
        if task.nice.is_some_and(|nice| Nice::new(nice).is_none()) {
            let (least, most) = (Nice::RANGE.start(), Nice::RANGE.end());
            return wrong(format!("{path}.nice"), format!("must be between {least} and {most}"));
        }
        if task.phase.is_empty() {
            return wrong(path, "a task needs a phase".to_owned());
        }
        for (at, phase) in task.phase.iter().enumerate() {
            if helped > COPIES_MAX && phase.depth.is_some_and(|depth| depth > 1) {
                let reason =
                    format!("with {helped} tasks at once, helpers included: {COPIES_MAX} at most");
                return wrong(format!("{path}.phase.{at}.depth"), reason);
            }
            let names = Names { params, task };
            if let Err((key, reason)) = names.phase(phase, 1) {
                return wrong(format!("{path}.phase.{at}.{key}"), reason);
            }
            let is_timed = phase.forever || phase.seconds.is_some();
            if is_timed && phase.rate.is_none() && !takes_time(phase) {
                let reason = "what takes no time cannot go on for a time; give it a rate";
                return wrong(format!("{path}.phase.{at}.do"), reason.to_owned());
            }
        }
        if task.rounds == 0 && !task.phase.iter().any(takes_time) {
            let reason = "rounds that never end need a phase that takes time";
            return wrong(format!("{path}.rounds"), reason.to_owned());
        }
    }
    None
}

/// The first error in disks and files.
fn disks(params: &JobParams) -> Option<Problem> {
    let mut names: Vec<String> = Vec::new();
    for (at, disk) in params.disk.iter().enumerate() {
        let wrong =
            |key: &str, reason: String| Some(Problem { path: format!("disk.{at}.{key}"), reason });
        match of_table(&disk.0) {
            Err((key, reason)) => return wrong(&key, reason),
            Ok(_) if !disk.0.contains_key("name") => {
                return wrong("model", "which name do files call it by? There is none".to_owned());
            }
            Ok(disk) if names.contains(&disk.name) => {
                return wrong("name", format!("there is another disk \"{}\"", disk.name));
            }
            Ok(disk) => names.push(disk.name),
        }
    }
    for (at, file) in params.file.iter().enumerate() {
        let wrong = |key: &str, reason: &str| {
            Some(Problem { path: format!("file.{at}.{key}"), reason: reason.to_owned() })
        };
        if file.memory && file.disk.is_some() {
            return wrong("disk", "a file in memory is on no disk");
        }
        if file.memory && file.bound().is_none() {
            return wrong("size", "how far may a file in memory grow? Say its room");
        }
        let smaller = match (file.room, file.size) {
            (Some(Amount::Bytes(room)), Amount::Bytes(size)) => room < size,
            (Some(Amount::Share(room)), Amount::Share(size)) => room < size,
            _ => false,
        };
        if let Some(key) = [("size", Some(file.size)), ("room", file.room)]
            .iter()
            .find_map(|(key, size)| (*size == Some(Amount::Unlimited)).then_some(*key))
        {
            return wrong(key, "max is for groups; how much?");
        }
        if smaller || file.room.is_some_and(Amount::is_nothing) {
            return wrong("room", "must be above 0, and not below the size");
        }
    }
    None
}

/// The first error in a task that serves soft interrupts: the key, and why.
fn softirq(task: &JobTask) -> Option<(String, &'static str)> {
    if !task.softirq {
        return None;
    }
    if task.forked || task.node.is_some() || task.nice.is_some() {
        let reason = "soft interrupts are served by a CPU: they have no parent, node or niceness";
        return Some(("softirq".to_owned(), reason));
    }
    task.phase.iter().enumerate().find_map(|(at, phase)| {
        let (key, reason) = match phase.action {
            Do::Alloc if matches!(phase.gfp, None | Some(GfpName::Kernel)) => {
                ("gfp", "an interrupt never waits: atomic or nowait")
            }
            Do::Alloc | Do::Compute | Do::Sleep => return None,
            _ => ("do", "an interrupt may alloc, compute and sleep"),
        };
        Some((format!("phase.{at}.{key}"), reason))
    })
}

/// Most steps of a job.
const STEPS_MAX: u64 = 1000;
/// Most rounds of an endless task whose steps have different names.
const ROUNDS_MARKED: u64 = 100;

/// Rounds of a task that have steps.
fn marked_rounds(task: &JobTask) -> u64 {
    match task.rounds {
        0 => ROUNDS_MARKED.min(STEPS_MAX / task.phase.len().max(1) as u64),
        rounds => rounds,
    }
}

/// The first error in a task's steps.
fn marks(task: &JobTask) -> Option<Problem> {
    let at = task.phase.iter().position(|phase| phase.action == Do::Mark)?;
    let reason = match () {
        () if task.count > 1 => "steps are those of one task, not of several copies",
        () if task.rounds.saturating_mul(task.phase.len() as u64) > STEPS_MAX => {
            "too many steps: at most 1000"
        }
        () => return None,
    };
    Some(Problem { path: format!("phase.{at}.do"), reason: reason.to_owned() })
}

/// The names of a job's steps, in order: a mark without a name only begins.
pub(super) fn steps(params: &JobParams) -> Vec<String> {
    let mut steps: Vec<String> = Vec::new();
    let has_marks = |task: &&JobTask| task.phase.iter().any(|phase| phase.action == Do::Mark);
    // The other tasks may have a number of rounds that is too large to count.
    for task in params.task.iter().filter(has_marks) {
        for round in 1..=marked_rounds(task) {
            for phase in task.phase.iter().filter(|phase| phase.action == Do::Mark) {
                let is_due = match phase.only {
                    None => true,
                    Some(Only::First) => round == 1,
                    Some(Only::Last) => round == task.rounds,
                };
                let name = phase.of.as_ref().filter(|_| is_due);
                let name = name.map(|name| numbered(name, round));
                steps.extend(name.filter(|name| !steps.contains(name)));
            }
        }
    }
    steps
}

/// Whether the phase takes virtual time.
fn takes_time(phase: &JobPhase) -> bool {
    match phase.action {
        Do::Sleep | Do::Compute => phase.us.is_some_and(|us| us > 0.0),
        Do::Unmap
        | Do::Exit
        | Do::Wait
        | Do::Lock
        | Do::Unlock
        | Do::Advise
        | Do::Set
        | Do::DropCaches
        | Do::Policy
        | Do::SetGroup
        | Do::Reclaim
        | Do::RemoveGroup
        | Do::Join
        | Do::Mark => false,
        Do::Request => phase.step.iter().any(takes_time),
        _ => true,
    }
}

/// A phase of the one task starts the other.
fn forks(task: &JobTask, other: &JobTask) -> bool {
    let is_it =
        |phase: &JobPhase| phase.action == Do::Fork && phase.of.as_ref() == Some(&other.name);
    task.phase.iter().any(is_it)
}

/// The chain of tasks whose forks create a task: the first parent first, the task itself last.
pub(super) fn lineage<'a>(params: &'a JobParams, task: &'a JobTask) -> Vec<&'a JobTask> {
    let mut line = vec![task];
    let mut youngest = task;
    // Tasks that fork each other in a circle have no first.
    while let Some(parent) = params.task.iter().find(|other| forks(other, youngest))
        && !line.iter().any(|known| known.name == parent.name)
    {
        line.push(parent);
        youngest = parent;
    }
    line.reverse();
    line
}

/// An operation that is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    /// Its name: `reader.get`.
    pub(super) name: String,
    /// It touches memory, and so has faults.
    pub(super) has_faults: bool,
    /// Pages may come back on its account: it touches memory or reads or writes a file.
    pub(super) has_refaults: bool,
    /// It reads pages, of memory or of a file, so it can hit or miss.
    pub(super) has_hits: bool,
    /// It requests memory that may not be available.
    pub(super) has_failures: bool,
    /// It reclaims from a group, which may get less than it asks for.
    pub(super) has_shortfalls: bool,
    /// Operations a second that arrive at all copies of the task together, at most: of an open loop, else 0.
    pub(super) arrivals: Arrivals,
}

/// Arrivals a second, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrivals(u64);

impl Arrivals {
    fn of(phase: &JobPhase, copies: u32) -> Arrivals {
        Arrivals((phase.rate.unwrap_or(0.0) * f64::from(copies) * 1000.0).round() as u64)
    }

    /// A second; none without an open loop.
    pub(super) fn a_second(self) -> Option<f64> {
        (self.0 > 0).then_some(self.0 as f64 / 1000.0)
    }
}

/// The tasks on a machine with this many pages, and the operations that they record.
pub fn tasks(params: &JobParams, memory_pages: u64) -> (Vec<Task>, Vec<Operation>) {
    let mut operations: Vec<Operation> = Vec::new();
    let mut tasks = Vec::new();
    for task in &params.task {
        let names = Names { params, task };
        let mut phases = Vec::new();
        for phase in &task.phase {
            // Checked when the job was read.
            let Ok(mut resolved) = names.phase(phase, memory_pages) else { continue };
            let known = |phase: &JobPhase| operation(&mut operations, task, phase);
            record(phase, &mut resolved, known);
            phases.push(resolved);
        }
        let rounds = (task.rounds > 0).then_some(task.rounds);
        let (nr_areas, is_softirq) = (names.areas().len(), task.softirq);
        let group = task.group.as_deref().and_then(|name| group::number(params, name));
        tasks.push(Task { phases, rounds, nr_areas, group, is_softirq });
    }
    (tasks, operations)
}

/// Why the time of an operation is not recorded separately: it is a step of a request, or runs in
/// an interrupt.
pub(super) fn not_booked(params: &JobParams, operation: &str) -> Option<String> {
    let (mut step_of, mut of_interrupt) = (None, None);
    for task in &params.task {
        let is_it = |phase: &JobPhase| {
            let op = phase.op.as_deref().or(unnamed(phase.action));
            op.is_some_and(|op| operation == format!("{}.{op}", task.name))
        };
        for phase in &task.phase {
            match () {
                () if is_it(phase) && !task.softirq => return None,
                () if is_it(phase) => of_interrupt = Some(&task.name),
                () => {}
            }
            if let Some(at) = phase.step.iter().position(is_it) {
                step_of.get_or_insert((at + 1, task, phase));
            }
        }
    }
    if let Some((number, task, request)) = step_of {
        let name = &task.name;
        return Some(match &request.op {
            Some(op) => {
                format!("it is step {number} of request {name}.{op}: ask for --op {name}.{op}")
            }
            None => format!(
                "it is step {number} of a request of {name} that has no name; give the request an op, and ask for that"
            ),
        });
    }
    of_interrupt.map(|task| {
        format!("{task} serves a soft interrupt, whose time is not recorded separately")
    })
}

/// Default name of an operation that may fail without an error: its failures are always counted.
const fn unnamed(action: Do) -> Option<&'static str> {
    match action {
        Do::Alloc => Some("alloc"),
        Do::Reclaim => Some("reclaim"),
        _ => None,
    }
}

/// Number and name under which a phase's operations are recorded; a new one is added to the list.
fn operation(
    operations: &mut Vec<Operation>,
    task: &JobTask,
    phase: &JobPhase,
) -> Option<(usize, String)> {
    let unnamed = unnamed(phase.action);
    let name = format!("{}.{}", task.name, phase.op.as_deref().or(unnamed)?);
    let at = operations.iter().position(|known| known.name == name);
    let at = at.unwrap_or_else(|| {
        operations.push(Operation { name: name.clone(), ..Operation::default() });
        operations.len() - 1
    });
    let does = |actions: &[Do]| phase.all().any(|step| actions.contains(&step.action));
    let known = &mut operations[at];
    known.has_faults |= does(&[Do::Touch]);
    known.has_refaults |= does(&[Do::Touch, Do::Read, Do::Write, Do::Append]);
    known.has_hits |= does(&[Do::Touch, Do::Read]);
    known.has_failures |= does(&[Do::Alloc]);
    known.has_shortfalls |= does(&[Do::Reclaim]);
    // Of several phases with this name, the busiest.
    let arrivals = Arrivals::of(phase, task.count);
    known.arrivals = Arrivals(known.arrivals.0.max(arrivals.0));
    Some((at, name))
}

/// Sets the operations under which a phase and its steps are recorded.
fn record(
    phase: &JobPhase,
    resolved: &mut Phase,
    mut operation: impl FnMut(&JobPhase) -> Option<(usize, String)>,
) {
    resolved.operation = operation(phase);
    if let Action::Request(steps) = &mut resolved.action {
        // A step's failures are those of the recorded request.
        let is_recorded = phase.op.is_some();
        for (step, resolved) in phase.step.iter().zip(steps) {
            resolved.operation = Some(step)
                .filter(|step| step.op.is_some() || !is_recorded)
                .and_then(&mut operation);
        }
    }
}

/// Shares of memory are rounded to whole MiB, if they are at least that large.
const GRAIN_PAGES: u64 = 256;

/// Pages of an amount on such a machine: at least one, unless it is zero.
pub fn pages(amount: Amount, memory_pages: u64) -> u64 {
    match amount {
        Amount::Bytes(0) => 0,
        Amount::Unlimited => u64::MAX,
        Amount::Bytes(bytes) => bytes.div_ceil(PAGE_SIZE as u64).max(1),
        Amount::Share(share) if share <= 0.0 => 0,
        Amount::Share(share) => match (share * memory_pages as f64) as u64 {
            pages @ ..GRAIN_PAGES => pages.max(1),
            pages => pages / GRAIN_PAGES * GRAIN_PAGES,
        },
    }
}

/// Pages of a setting of a group, of which `whole` are 100 %: rounded down, as the kernel does.
pub(super) fn pages_down(amount: Amount, whole: u64) -> u64 {
    match amount {
        Amount::Bytes(bytes) => bytes / PAGE_SIZE as u64,
        amount => pages(amount, whole),
    }
}

/// The remark about sysctls that the job sets and the policy's kernel does not have.
pub(super) fn set_in_vain(params: &JobParams, kernel: KernelVersion) -> Option<String> {
    let key = PROACTIVENESS.trim_start_matches("vm.");
    let field = Tunables::FIELDS.iter().find(|field| field.key == key)?;
    let mut phases = params.task.iter().flat_map(|task| &task.phase).flat_map(JobPhase::all);
    let is_set =
        phases.any(|phase| phase.action == Do::Set && phase.of.as_deref() == Some(PROACTIVENESS));
    (is_set && !field.is_in(kernel)).then(|| {
        format!("Linux {kernel} does not have {PROACTIVENESS}, which the job sets: ignored")
    })
}

/// The remark about `memory.reclaim` of a kernel that does not have it.
pub(super) fn reclaimed_in_vain(params: &JobParams, kernel: KernelVersion) -> Option<String> {
    let mut phases = params.task.iter().flat_map(|task| &task.phase).flat_map(JobPhase::all);
    let is_there = phases.any(|phase| phase.action == Do::Reclaim);
    (is_there && kernel < RECLAIM_SINCE).then(|| {
        format!(
            "Linux {kernel} does not have memory.reclaim (since {RECLAIM_SINCE}), to which the job writes: ignored"
        )
    })
}
