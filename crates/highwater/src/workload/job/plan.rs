//! A job with its names resolved: what of it cannot be, and what its tasks are on a machine.

use highwater_core::page::PAGE_SIZE;
use highwater_core::syscall::{FileAdvice, MemoryAdvice};
use highwater_core::vm::Access;
use highwater_workloads::jobs::{Action, Mapped, Often, Pattern, Phase, Task};

use super::file::{AdviceName, Amount, Do, JobParams, JobPhase, JobTask};
use crate::input::names::unknown;
use crate::workload::params::Problem;

/// Bytes of a block, unless a phase says.
const BLOCK_BYTES: u64 = 64 << 10;
const NS_PER_US: f64 = 1e3;
const NS_PER_SECOND: f64 = 1e9;
/// Most copies of all tasks together.
const COPIES_MAX: u64 = 4096;

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
    for (at, task) in params.task.iter().enumerate() {
        let path = format!("task.{at}");
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
        if task.cpu.is_some() && task.node.is_some() {
            return wrong(format!("{path}.node"), "there is a CPU, too".to_owned());
        }
        if task.phase.is_empty() {
            return wrong(path, "a task needs a phase".to_owned());
        }
        for (at, phase) in task.phase.iter().enumerate() {
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

/// Time passes while it is done.
fn takes_time(phase: &JobPhase) -> bool {
    match phase.action {
        Do::Sleep | Do::Compute => phase.us.is_some_and(|us| us > 0.0),
        Do::Unmap | Do::Wait | Do::Lock | Do::Unlock | Do::Advise => false,
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
pub(super) struct Operation {
    /// What it is called: `reader.get`.
    pub(super) name: String,
    /// It touches memory, and so has faults.
    pub(super) has_faults: bool,
    /// Pages may come back on its account: it touches memory or reads or writes a file.
    pub(super) has_refaults: bool,
}

/// The tasks on a machine with so many pages, and the operations that they record.
pub(super) fn tasks(params: &JobParams, memory_pages: u64) -> (Vec<Task>, Vec<Operation>) {
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
                    let (name, has_faults, has_refaults) = (name.clone(), false, false);
                    operations.push(Operation { name, has_faults, has_refaults });
                    operations.len() - 1
                });
                operations[at].has_faults |= phase.action == Do::Touch;
                let refaults = [Do::Touch, Do::Read, Do::Write, Do::Append];
                operations[at].has_refaults |= refaults.contains(&phase.action);
                resolved.operation = Some((at, name));
            }
            phases.push(resolved);
        }
        let rounds = (task.rounds > 0).then_some(task.rounds);
        tasks.push(Task { phases, rounds, nr_areas: names.areas().len() });
    }
    (tasks, operations)
}

/// Pages of a size on such a machine: at least one.
pub(super) fn pages(amount: Amount, memory_pages: u64) -> u64 {
    match amount {
        Amount::Bytes(bytes) => bytes.div_ceil(PAGE_SIZE as u64).max(1),
        Amount::Share(share) => ((share * memory_pages as f64) as u64).max(1),
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
        let times = [phase.times.is_some(), phase.seconds.is_some(), phase.forever];
        if times.iter().filter(|is| **is).count() > 1 {
            return Err(("do", "only one of times, seconds and forever says how often".to_owned()));
        }
        let is_above_0 = |value: f64| value.is_finite() && value > 0.0;
        if phase.times == Some(0) {
            return Err(("times", "must be at least 1".to_owned()));
        }
        if phase.seconds.is_some_and(|seconds| !is_above_0(seconds)) {
            return Err(("seconds", "must be above 0".to_owned()));
        }
        if phase.rate.is_some_and(|rate| !is_above_0(rate)) {
            return Err(("rate", "must be above 0".to_owned()));
        }
        if phase.arrivals.is_some() && phase.rate.is_none() {
            return Err(("arrivals", "of how many a second? There is no rate".to_owned()));
        }
        let often = match (phase.times, phase.seconds, phase.forever) {
            (Some(times), ..) => Often::Times(times),
            (_, Some(seconds), _) => Often::Nanoseconds((seconds * NS_PER_SECOND) as u64),
            (.., true) => Often::Forever,
            _ => Often::Pass,
        };
        Ok(Phase { action, often, arrivals: phase.arrivals(), operation: None })
    }

    fn action(&self, phase: &JobPhase, memory_pages: u64) -> Result<Action, Wrong> {
        let pattern = phase.pattern.map_or(Pattern::Sequential, |text| text.0);
        let bytes = phase.bytes.map_or(BLOCK_BYTES, |bytes| bytes.0);
        if bytes == 0 {
            return Err(("bytes", "must be at least 1".to_owned()));
        }
        let ns = || match phase.us {
            Some(us) if us.is_finite() && us >= 0.0 => Ok((us * NS_PER_US) as u64),
            _ => Err(("us", "how many microseconds?".to_owned())),
        };
        let of = phase.of.as_deref();
        self.check_keys(phase)?;
        Ok(match phase.action {
            Do::Map => {
                let mapped = match (phase.size, &phase.file) {
                    (Some(size), None) => {
                        let pages = pages(size, memory_pages);
                        Mapped::Memory(u32::try_from(pages).unwrap_or(u32::MAX))
                    }
                    (None, Some(file)) => Mapped::File(self.file("file", Some(file))?),
                    _ => return Err(("do", "map wants size or file, one of them".to_owned())),
                };
                Action::Map { area: self.area(phase)?, of: mapped, is_shared: phase.shared }
            }
            Do::Unmap => Action::Unmap { area: self.area(phase)? },
            Do::Touch => {
                let access = if phase.write { Access::Write } else { Access::Read };
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
                    (Ok(area), _) => Action::Advise { area, advice: of_memory(advice)? },
                    (_, Ok(file)) => Action::AdviseFile { file, advice: of_file(advice)? },
                    (Err(wrong), _) => return Err(wrong),
                }
            }
            Do::Lock => Action::Lock { area: self.area(phase)? },
            Do::Unlock => Action::Unlock { area: self.area(phase)? },
            Do::Exec => Action::Exec,
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
        })
    }

    /// Keys that the action does not know: somebody means something that would not happen.
    fn check_keys(&self, phase: &JobPhase) -> Result<(), Wrong> {
        use Do::{Advise, Append, Compute, Exec, Map, Read, Sleep, Touch, Write};
        let has = |actions: &[Do]| actions.contains(&phase.action);
        let keys: [(&'static str, bool, bool); 9] = [
            ("size", phase.size.is_some(), has(&[Map])),
            ("file", phase.file.is_some(), has(&[Map])),
            ("shared", phase.shared, has(&[Map])),
            ("write", phase.write, has(&[Touch])),
            ("bytes", phase.bytes.is_some(), has(&[Read, Write, Append])),
            ("pattern", phase.pattern.is_some(), has(&[Touch, Read, Write])),
            ("advice", phase.advice.is_some(), has(&[Advise])),
            ("us", phase.us.is_some(), has(&[Compute, Sleep])),
            ("of", phase.of.is_some(), !has(&[Exec, Compute, Sleep])),
        ];
        match keys.iter().find(|(_, is_there, is_known)| *is_there && !is_known) {
            Some((key, ..)) => Err((key, "this action does not have it".to_owned())),
            None => Ok(()),
        }
    }
}

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
