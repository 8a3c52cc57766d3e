//! A job with its names resolved: what of it cannot be, and what its tasks are on a machine.

use highwater_core::config::{KernelVersion, Tunables};
use highwater_core::page::PAGE_SIZE;
use highwater_core::syscall::{FileAdvice, MemoryAdvice};
use highwater_core::zone::{MemoryPolicy, NodeId, NodeMask};
use highwater_sim::cpu::Nice;
use highwater_workloads::jobs::{
    Action, MapHow, Mapped, Often, Pattern, Phase, Task, Touch, When, numbered,
};

use super::file::{AdviceName, Amount, Do, JobParams, JobPhase, JobTask, Only};
use crate::input::names::unknown;
use crate::input::unmodelled;
use crate::workload::params::Problem;

/// Bytes of a block, unless a phase says.
const BLOCK_BYTES: u64 = 64 << 10;
const NS_PER_US: f64 = 1e3;
const NS_PER_SECOND: f64 = 1e9;
/// Microseconds of an hour.
const US_MAX: f64 = 3.6e9;
/// Most operations of a phase that are under way.
pub(super) const DEPTH_MAX: u32 = 1024;
/// Most copies of all tasks together, and most of them with those that help them.
const COPIES_MAX: u64 = 4096;
/// Least operations a second: one in an hour.
const RATE_MIN: f64 = 1.0 / 3600.0;

/// What of a job cannot be: the first, with its path.
pub(super) fn problem(params: &JobParams) -> Option<Problem> {
    let wrong = |path: String, reason: String| Some(Problem { path, reason });
    if !(params.seconds.is_finite() && params.seconds > 0.0) {
        return wrong("seconds".to_owned(), "must be above 0".to_owned());
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
            let reason = "several tasks fork it: which one's areas does it have?".to_owned();
            return wrong(format!("{path}.forked"), reason);
        }
        if task.forked && lineage(params, task)[0].forked {
            let reason = "no task that begins with the job forks it: it would never run";
            return wrong(format!("{path}.forked"), reason.to_owned());
        }
        if task.group.is_some() {
            let missing = unmodelled::find("group").map(unmodelled::Feature::line);
            return wrong(format!("{path}.group"), missing.unwrap_or_default());
        }
        if task.cpu.is_some() && task.node.is_some() {
            return wrong(format!("{path}.node"), "there is a CPU, too".to_owned());
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

/// Most steps of a job.
const STEPS_MAX: u64 = 1000;

/// What of a task's steps cannot be.
fn marks(task: &JobTask) -> Option<Problem> {
    let at = task.phase.iter().position(|phase| phase.action == Do::Mark)?;
    let reason = match () {
        () if task.count > 1 => "steps are those of one task, not of several copies",
        () if task.rounds == 0 => "rounds that never end have steps without end",
        () if task.rounds * task.phase.len() as u64 > STEPS_MAX => "too many steps: at most 1000",
        () => return None,
    };
    Some(Problem { path: format!("phase.{at}.do"), reason: reason.to_owned() })
}

/// The names of a job's steps, in order: a mark without a name only begins.
pub(super) fn steps(params: &JobParams) -> Vec<String> {
    let mut steps: Vec<String> = Vec::new();
    for task in &params.task {
        for round in 1..=task.rounds {
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

/// Time passes while it is done.
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
        | Do::Mark => false,
        _ => true,
    }
}

/// A phase of the one task starts the other.
fn forks(task: &JobTask, other: &JobTask) -> bool {
    let is_it =
        |phase: &JobPhase| phase.action == Do::Fork && phase.of.as_ref() == Some(&other.name);
    task.phase.iter().any(is_it)
}

/// The tasks by whose forks a task comes about, the first of them first, and itself.
fn lineage<'a>(params: &'a JobParams, task: &'a JobTask) -> Vec<&'a JobTask> {
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    /// What it is called: `reader.get`.
    pub(super) name: String,
    /// It touches memory, and so has faults.
    pub(super) has_faults: bool,
    /// Pages may come back on its account: it touches memory or reads or writes a file.
    pub(super) has_refaults: bool,
    /// It asks for pages: it touches memory or reads a file.
    pub(super) has_hits: bool,
}

/// The tasks on a machine with so many pages, and the operations that they record.
pub(crate) fn tasks(params: &JobParams, memory_pages: u64) -> (Vec<Task>, Vec<Operation>) {
    let mut operations: Vec<Operation> = Vec::new();
    let mut tasks = Vec::new();
    for task in &params.task {
        let names = Names { params, task };
        let mut phases = Vec::new();
        for phase in &task.phase {
            // Checked when the job was read.
            let Ok(mut resolved) = names.phase(phase, memory_pages) else { continue };
            if let Some(op) = &phase.op {
                let name = format!("{}.{op}", task.name);
                let at = operations.iter().position(|known| known.name == name);
                let at = at.unwrap_or_else(|| {
                    let (has_faults, has_refaults, has_hits) = (false, false, false);
                    let name = name.clone();
                    operations.push(Operation { name, has_faults, has_refaults, has_hits });
                    operations.len() - 1
                });
                operations[at].has_faults |= phase.action == Do::Touch;
                let refaults = [Do::Touch, Do::Read, Do::Write, Do::Append];
                operations[at].has_refaults |= refaults.contains(&phase.action);
                operations[at].has_hits |= [Do::Touch, Do::Read].contains(&phase.action);
                resolved.operation = Some((at, name));
            }
            phases.push(resolved);
        }
        let rounds = (task.rounds > 0).then_some(task.rounds);
        tasks.push(Task { phases, rounds, nr_areas: names.areas().len() });
    }
    (tasks, operations)
}

/// Shares of memory are whole MiB, if they are so large.
const GRAIN_PAGES: u64 = 256;

/// Pages of a size on such a machine: at least one, but of nothing.
pub(crate) fn pages(amount: Amount, memory_pages: u64) -> u64 {
    match amount {
        Amount::Bytes(0) => 0,
        Amount::Bytes(bytes) => bytes.div_ceil(PAGE_SIZE as u64).max(1),
        Amount::Share(share) if share <= 0.0 => 0,
        Amount::Share(share) => match (share * memory_pages as f64) as u64 {
            pages @ ..GRAIN_PAGES => pages.max(1),
            pages => pages / GRAIN_PAGES * GRAIN_PAGES,
        },
    }
}

/// Names that a task's phases may use.
struct Names<'a> {
    params: &'a JobParams,
    task: &'a JobTask,
}

/// The key that is wrong, and why.
type Wrong = (&'static str, String);

impl Names<'_> {
    /// Areas that the task maps, behind those that it has from who forked it, whose numbers they keep.
    fn areas(&self) -> Vec<&str> {
        let mut areas: Vec<&str> = Vec::new();
        for task in lineage(self.params, self.task) {
            for phase in task.phase.iter().filter(|phase| phase.action == Do::Map) {
                let name = phase.of.as_deref().unwrap_or_default();
                if !areas.contains(&name) {
                    areas.push(name);
                }
            }
        }
        areas
    }

    fn area(&self, phase: &JobPhase) -> Result<usize, Wrong> {
        let areas = self.areas();
        found("area", "of", phase.of.as_deref(), &areas)
    }

    fn file(&self, key: &'static str, name: Option<&str>) -> Result<usize, Wrong> {
        let files: Vec<&str> = self.params.file.iter().map(|file| file.name.as_str()).collect();
        found("file", key, name, &files)
    }

    fn other(&self, phase: &JobPhase) -> Result<usize, Wrong> {
        let tasks: Vec<&str> = self.params.task.iter().map(|task| task.name.as_str()).collect();
        found("task", "of", phase.of.as_deref(), &tasks)
    }

    fn phase(&self, phase: &JobPhase, memory_pages: u64) -> Result<Phase, Wrong> {
        let action = self.action(phase, memory_pages)?;
        let times =
            [phase.times.is_some(), phase.passes.is_some(), phase.seconds.is_some(), phase.forever];
        if times.iter().filter(|is| **is).count() > 1 {
            let reason = "only one of times, passes, seconds and forever says how often";
            return Err(("do", reason.to_owned()));
        }
        let is_above_0 = |value: f64| value.is_finite() && value > 0.0;
        if phase.times == Some(0) {
            return Err(("times", "must be at least 1".to_owned()));
        }
        if phase.passes.is_some_and(|passes| !is_above_0(passes)) {
            return Err(("passes", "must be above 0".to_owned()));
        }
        if phase.seconds.is_some_and(|seconds| !is_above_0(seconds)) {
            return Err(("seconds", "must be above 0".to_owned()));
        }
        if phase.rate.is_some_and(|rate| !is_above_0(rate)) {
            return Err(("rate", "must be above 0".to_owned()));
        }
        if phase.rate.is_some_and(|rate| rate < RATE_MIN) {
            return Err(("rate", "at least one in an hour: 0.000278".to_owned()));
        }
        if phase.arrivals.is_some() && phase.rate.is_none() {
            return Err(("arrivals", "of how many a second? There is no rate".to_owned()));
        }
        let often = match (phase.times, phase.passes, phase.seconds, phase.forever) {
            (Some(times), ..) => Often::Times(times),
            (_, Some(passes), ..) => Often::Passes(passes),
            (_, _, Some(seconds), _) => Often::Nanoseconds((seconds * NS_PER_SECOND) as u64),
            (.., true) => Often::Forever,
            _ => Often::Pass,
        };
        let when = match phase.only {
            None => When::Always,
            Some(Only::First) => When::First,
            Some(Only::Last) if self.task.rounds == 0 => {
                return Err(("only", "rounds that never end have no last one".to_owned()));
            }
            Some(Only::Last) => When::Last,
        };
        let depth = phase.depth.unwrap_or(1);
        if !(1..=DEPTH_MAX).contains(&depth) {
            return Err(("depth", format!("must be between 1 and {DEPTH_MAX}")));
        }
        if phase.op.as_deref() == Some("") {
            return Err(("op", "must not be empty".to_owned()));
        }
        Ok(Phase { action, often, arrivals: phase.arrivals(), operation: None, when, depth })
    }

    fn action(&self, phase: &JobPhase, memory_pages: u64) -> Result<Action, Wrong> {
        let pattern = phase.pattern.map_or(Pattern::Sequential, |text| text.0);
        let bytes = phase.bytes.map_or(BLOCK_BYTES, |bytes| bytes.0);
        if bytes == 0 {
            return Err(("bytes", "must be at least 1".to_owned()));
        }
        let ns = || match phase.us {
            Some(us) if us > US_MAX => Err(("us", "at most an hour: 3600000000".to_owned())),
            Some(us) if us.is_finite() && us >= 0.0 => Ok((us * NS_PER_US) as u64),
            _ => Err(("us", "how many microseconds?".to_owned())),
        };
        let of = phase.of.as_deref();
        self.check_keys(phase)?;
        Ok(match phase.action {
            Do::Map => {
                let mapped = match (phase.size, &phase.file) {
                    (Some(_), None) if phase.shared => {
                        let reason = "memory that tasks share is a [[file]] with memory = true";
                        return Err(("shared", reason.to_owned()));
                    }
                    (Some(size), None) => {
                        let pages = pages(size, memory_pages);
                        Mapped::Memory(u32::try_from(pages).unwrap_or(u32::MAX))
                    }
                    (None, Some(file)) => Mapped::File(self.file("file", Some(file))?),
                    _ => return Err(("do", "map wants size or file, one of them".to_owned())),
                };
                let huge = match phase.advice {
                    None => None,
                    Some(AdviceName::Hugepage) => Some(true),
                    Some(AdviceName::Nohugepage) => Some(false),
                    // As it is without.
                    Some(AdviceName::Normal) => None,
                    Some(_) => {
                        let reason = "of a map it is hugepage, nohugepage or normal";
                        return Err(("advice", reason.to_owned()));
                    }
                };
                let align = phase.align.map_or(1, |align| align.0.div_ceil(PAGE_SIZE as u64));
                if !align.is_power_of_two() || align > 1 << 18 {
                    return Err(("align", "must be a power of two, at most 1G".to_owned()));
                }
                let (is_shared, is_read_only) = (phase.shared, phase.read_only);
                let how = MapHow { is_shared, is_read_only, huge, align: align as u32 };
                Action::Map { area: self.area(phase)?, of: mapped, how }
            }
            Do::Unmap => Action::Unmap { area: self.area(phase)? },
            Do::Touch => {
                let access = match (phase.write, phase.update) {
                    (true, true) => {
                        return Err(("update", "write or update, not both".to_owned()));
                    }
                    (true, _) => Touch::Write,
                    (_, true) => Touch::Update,
                    _ => Touch::Read,
                };
                Action::Touch { area: self.area(phase)?, access, pattern }
            }
            Do::Read => Action::Read { file: self.file("of", of)?, bytes, pattern },
            Do::Write => Action::Write { file: self.file("of", of)?, bytes, pattern },
            Do::Append => Action::Append { file: self.file("of", of)?, bytes },
            Do::Fsync => Action::Fsync { file: self.file("of", of)? },
            Do::Advise => {
                let Some(advice) = phase.advice else {
                    return Err(("do", "advise wants advice".to_owned()));
                };
                match (self.area(phase), self.file("of", of)) {
                    (Ok(area), _) => {
                        let pattern = phase.pattern.map(|text| text.0);
                        Action::Advise { area, advice: of_memory(advice)?, pattern }
                    }
                    (_, Ok(_)) if phase.pattern.is_some() => {
                        return Err(("pattern", "a file is advised as a whole".to_owned()));
                    }
                    (_, Ok(file)) => Action::AdviseFile { file, advice: of_file(advice)? },
                    (Err(wrong), _) => return Err(wrong),
                }
            }
            Do::Lock => Action::Lock { area: self.area(phase)? },
            Do::Unlock => Action::Unlock { area: self.area(phase)? },
            Do::Exec => Action::Exec,
            Do::Exit => Action::Exit,
            Do::Fork => {
                let task = self.other(phase)?;
                if !self.params.task[task].forked {
                    let reason = "that task begins with the job; it wants forked = true".to_owned();
                    return Err(("of", reason));
                }
                Action::Fork { task }
            }
            Do::Compute => Action::Compute { ns: ns()? },
            Do::Sleep => Action::Sleep { ns: ns()? },
            Do::Wait => Action::Wait { task: self.other(phase)? },
            Do::Compact => Action::Compact,
            Do::DropCaches => drop_caches(phase.value)?,
            Do::Set => match (of, phase.value) {
                (Some(DROP_CACHES), value) => drop_caches(value)?,
                (Some(PROACTIVENESS), Some(percent @ ..=100)) => Action::Proactiveness(percent),
                (Some(PROACTIVENESS), _) => {
                    return Err(("value", "which percent? From 0 to 100".to_owned()));
                }
                (name, _) => {
                    let name = name.unwrap_or_default();
                    return Err(("of", unknown("sysctl", name, &[PROACTIVENESS, DROP_CACHES])));
                }
            },
            Do::Policy => Action::Policy(policy(of.unwrap_or_default())?),
            Do::Mark => Action::Mark(of.map(str::to_owned)),
        })
    }

    /// Keys that the action does not know: somebody means something that would not happen.
    fn check_keys(&self, phase: &JobPhase) -> Result<(), Wrong> {
        use Do::Write;
        use Do::{
            Advise, Append, Compact, Compute, DropCaches, Exec, Exit, Fsync, Map, Read, Set, Sleep,
            Touch,
        };
        let has = |actions: &[Do]| actions.contains(&phase.action);
        let is_work = !has(&[Exit]);
        let keys: [(&'static str, bool, bool); 21] = [
            ("size", phase.size.is_some(), has(&[Map])),
            ("file", phase.file.is_some(), has(&[Map])),
            ("shared", phase.shared, has(&[Map])),
            ("read-only", phase.read_only, has(&[Map])),
            ("align", phase.align.is_some(), has(&[Map])),
            ("write", phase.write, has(&[Touch])),
            ("update", phase.update, has(&[Touch])),
            ("value", phase.value.is_some(), has(&[Set, DropCaches])),
            ("bytes", phase.bytes.is_some(), has(&[Read, Write, Append])),
            ("depth", phase.depth.is_some(), has(&[Read, Write, Append, Fsync])),
            ("pattern", phase.pattern.is_some(), has(&[Touch, Read, Write, Advise])),
            ("advice", phase.advice.is_some(), has(&[Advise, Map])),
            ("us", phase.us.is_some(), has(&[Compute, Sleep])),
            ("of", phase.of.is_some(), !has(&[Exec, Exit, Compute, Sleep, Compact, DropCaches])),
            ("op", phase.op.is_some(), is_work),
            ("times", phase.times.is_some(), is_work),
            ("passes", phase.passes.is_some(), is_work),
            ("seconds", phase.seconds.is_some(), is_work),
            ("forever", phase.forever, is_work),
            ("rate", phase.rate.is_some(), is_work),
            ("arrivals", phase.arrivals.is_some(), is_work),
        ];
        match keys.iter().find(|(_, is_there, is_known)| *is_there && !is_known) {
            Some((key, ..)) => Err((key, "this action does not have it".to_owned())),
            None => Ok(()),
        }
    }
}

/// The sysctls that a job can set while it runs.
const PROACTIVENESS: &str = "vm.compaction_proactiveness";
const DROP_CACHES: &str = "vm.drop_caches";

fn drop_caches(value: Option<u32>) -> Result<Action, Wrong> {
    match value {
        Some(what @ 1..=3) => Ok(Action::DropCaches(what as u8)),
        _ => Err(("value", "which caches? 1 the page cache, 2 slab, 3 both".to_owned())),
    }
}

/// What a run says of sysctls that the job sets and that the policy's kernel does not have.
pub(super) fn set_in_vain(params: &JobParams, kernel: KernelVersion) -> Option<String> {
    let key = PROACTIVENESS.trim_start_matches("vm.");
    let field = Tunables::FIELDS.iter().find(|field| field.key == key)?;
    let mut phases = params.task.iter().flat_map(|task| &task.phase);
    let is_set =
        phases.any(|phase| phase.action == Do::Set && phase.of.as_deref() == Some(PROACTIVENESS));
    (is_set && !field.is_in(kernel)).then(|| {
        format!("Linux {kernel} does not have {PROACTIVENESS}, which the job sets: ignored")
    })
}

/// A memory policy, as it is written: `bind 0,1`.
fn policy(text: &str) -> Result<MemoryPolicy, Wrong> {
    let (kind, nodes) = text.split_once(' ').map_or((text, ""), |(k, n)| (k, n.trim()));
    let known = ["local", "bind", "interleave", "preferred", "preferred-many"];
    if !known.contains(&kind) {
        return Err(("of", unknown("memory policy", kind, &known)));
    }
    let wrong = || ("of", format!("\"{text}\": which nodes? As in \"bind 0,1\", or all"));
    let node = |text: &str| match text.trim().parse::<u16>() {
        Ok(node @ ..NODES_MAX) => Ok(NodeId(node)),
        _ => Err(wrong()),
    };
    let mask = || match nodes {
        "all" => Ok(NodeMask::ALL),
        nodes => {
            nodes.split(',').try_fold(NodeMask::EMPTY, |mask, text| Ok(mask.with(node(text)?)))
        }
    };
    Ok(match kind {
        "bind" => MemoryPolicy::Bind(mask()?),
        "interleave" => MemoryPolicy::Interleave(mask()?),
        "preferred" => MemoryPolicy::Preferred(node(nodes)?),
        "preferred-many" => MemoryPolicy::PreferredMany(mask()?),
        _ if !nodes.is_empty() => return Err(wrong()),
        _ => MemoryPolicy::Default,
    })
}

/// Nodes are numbered below this.
const NODES_MAX: u16 = 64;

fn found(
    what: &str,
    key: &'static str,
    name: Option<&str>,
    known: &[&str],
) -> Result<usize, Wrong> {
    let Some(name) = name else { return Err(("do", format!("which {what}? There is no {key}"))) };
    let at = known.iter().position(|known| *known == name);
    at.ok_or_else(|| match known {
        [] => (key, format!("unknown {what} \"{name}\"; there is none")),
        known => (key, unknown(what, name, known)),
    })
}

fn of_memory(advice: AdviceName) -> Result<MemoryAdvice, Wrong> {
    Ok(match advice {
        AdviceName::Normal => MemoryAdvice::Normal,
        AdviceName::Sequential => MemoryAdvice::Sequential,
        AdviceName::Random => MemoryAdvice::Random,
        AdviceName::Dontneed => MemoryAdvice::DontNeed,
        AdviceName::Free => MemoryAdvice::Free,
        AdviceName::Cold => MemoryAdvice::Cold,
        AdviceName::Pageout => MemoryAdvice::PageOut,
        AdviceName::Hugepage => MemoryAdvice::HugePage,
        AdviceName::Nohugepage => MemoryAdvice::NoHugePage,
        AdviceName::Willneed => return Err(("advice", "is for files".to_owned())),
    })
}

fn of_file(advice: AdviceName) -> Result<FileAdvice, Wrong> {
    Ok(match advice {
        AdviceName::Normal => FileAdvice::Normal,
        AdviceName::Sequential => FileAdvice::Sequential,
        AdviceName::Random => FileAdvice::Random,
        AdviceName::Willneed => FileAdvice::WillNeed,
        AdviceName::Dontneed => FileAdvice::DontNeed,
        _ => return Err(("advice", "is for memory".to_owned())),
    })
}
