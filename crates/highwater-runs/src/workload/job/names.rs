//! A phase with its names resolved, or its invalid key.

use highwater_core::page::PAGE_SIZE;
use highwater_core::page_alloc::Gfp;
use highwater_core::syscall::{FileAdvice, MemoryAdvice};
use highwater_core::units::Order;
use highwater_core::zone::{MemoryPolicy, NodeId, NodeMask};
use highwater_workloads::jobs::{Action, Ask, MapHow, Mapped, Often, Pattern, Phase, Touch, When};

use super::failed::{is_larger, no_room};
use super::file::{AdviceName, Do, GfpName, JobParams, JobPhase, JobTask, Only};
use super::group;
use super::plan::{DEPTH_MAX, lineage, pages};
use super::text::Amount;
use highwater_files::input::names::unknown;

/// Bytes of a block, unless a phase says.
const BLOCK_BYTES: u64 = 64 << 10;
const NS_PER_US: f64 = 1e3;
const NS_PER_SECOND: f64 = 1e9;
/// Microseconds of an hour.
const US_MAX: f64 = 3.6e9;
/// Least operations a second: one in an hour.
const RATE_MIN: f64 = 1.0 / 3600.0;
/// Most blocks that one allocation operation requests.
const COUNT_MAX: u32 = 1 << 20;

/// Names that a task's phases may use.
pub(super) struct Names<'a> {
    pub(super) params: &'a JobParams,
    pub(super) task: &'a JobTask,
}

/// The key that is wrong, with the keys that lead to it, and why.
pub(super) type Wrong = (String, String);

/// That, of a key.
pub(super) fn wrong(key: &str, reason: impl Into<String>) -> Wrong {
    (key.to_owned(), reason.into())
}

/// A key of a phase that some actions do not have.
type Key = (&'static str, bool, bool);

impl Names<'_> {
    /// VMAs that the task maps, after those inherited from its parent, which keep their numbers.
    pub(super) fn areas(&self) -> Vec<&str> {
        let mut areas: Vec<&str> = Vec::new();
        for task in lineage(self.params, self.task) {
            let phases = task.phase.iter().flat_map(JobPhase::all);
            for phase in phases.filter(|phase| phase.action == Do::Map) {
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
        found("mapping", "of", phase.of.as_deref(), &areas)
    }

    fn file(&self, key: &str, name: Option<&str>) -> Result<usize, Wrong> {
        let files: Vec<&str> = self.params.file.iter().map(|file| file.name.as_str()).collect();
        found("file", key, name, &files)
    }

    fn other(&self, phase: &JobPhase) -> Result<usize, Wrong> {
        let tasks: Vec<&str> = self.params.task.iter().map(|task| task.name.as_str()).collect();
        found("task", "of", phase.of.as_deref(), &tasks)
    }

    /// The number of a connection's name: those that tasks open, in the order of the job.
    fn socket(&self, name: Option<&str>) -> Result<usize, Wrong> {
        let mut names: Vec<&str> = Vec::new();
        for phase in self.all_phases().filter(|phase| phase.action == Do::Connect) {
            let name = phase.of.as_deref().unwrap_or_default();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        found("connection", "of", name, &names)
    }

    /// True if no task receives from connections of a name.
    fn is_unread(&self, name: Option<&str>) -> bool {
        !self.all_phases().any(|phase| phase.action == Do::Receive && phase.of.as_deref() == name)
    }

    /// Phases of all tasks, and their steps.
    fn all_phases(&self) -> impl Iterator<Item = &JobPhase> {
        self.params.task.iter().flat_map(|task| &task.phase).flat_map(JobPhase::all)
    }

    pub(super) fn phase(&self, phase: &JobPhase, memory_pages: u64) -> Result<Phase, Wrong> {
        let action = self.action(phase, memory_pages)?;
        let times =
            [phase.times.is_some(), phase.passes.is_some(), phase.seconds.is_some(), phase.forever];
        if times.iter().filter(|is| **is).count() > 1 {
            let reason = "only one of times, passes, seconds and forever says how often";
            return Err(wrong("do", reason));
        }
        let is_above_0 = |value: f64| value.is_finite() && value > 0.0;
        if phase.times == Some(0) {
            return Err(wrong("times", "must be at least 1"));
        }
        if phase.passes.is_some_and(|passes| !is_above_0(passes)) {
            return Err(wrong("passes", "must be above 0"));
        }
        if phase.seconds.is_some_and(|seconds| !is_above_0(seconds)) {
            return Err(wrong("seconds", "must be above 0"));
        }
        if phase.rate.is_some_and(|rate| !is_above_0(rate)) {
            return Err(wrong("rate", "must be above 0"));
        }
        if phase.rate.is_some_and(|rate| rate < RATE_MIN) {
            return Err(wrong("rate", "at least one in an hour: 0.000278"));
        }
        if phase.arrivals.is_some() && phase.rate.is_none() {
            return Err(wrong("arrivals", "of how many a second? There is no rate"));
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
                return Err(wrong("only", "rounds that never end have no last one"));
            }
            Some(Only::Last) => When::Last,
        };
        let depth = phase.depth.unwrap_or(1);
        if !(1..=DEPTH_MAX).contains(&depth) {
            return Err(wrong("depth", format!("must be between 1 and {DEPTH_MAX}")));
        }
        if let Action::Write { file, pattern, .. } = action {
            let is_bounded = self.params.file[file].bound().is_some();
            if !is_bounded && (often == Often::Pass || pattern != Pattern::Sequential) {
                let reason = "the file begins empty: how far does it grow? Say its room";
                return Err(wrong("of", reason));
            }
        }
        if let Action::Write { file, bytes, .. } | Action::Append { file, bytes } = action
            && let file = &self.params.file[file]
            && let Some(bound @ Amount::Bytes(_)) = file.bound()
            && let room = pages(bound, memory_pages)
            && is_larger(bytes, room)
        {
            let reason =
                format!("cannot {} {}", phase.action.name(), no_room(bytes, &file.name, room));
            return Err(wrong("bytes", reason));
        }
        if matches!(often, Often::Passes(_)) && self.is_endless(&action) {
            return Err(wrong(
                "passes",
                "the file begins empty: how far does it grow? Say its room",
            ));
        }
        if matches!(action, Action::Read { pattern: Pattern::Follow, .. })
            && phase.rate.is_none()
            && !matches!(often, Often::Pass | Often::Times(_))
        {
            let reason = "a file that is followed may have nothing new for long; give it a rate";
            return Err(wrong("pattern", reason));
        }
        // Of a file that has no end yet: once.
        let often = match often {
            Often::Pass if self.is_endless(&action) => Often::Times(1),
            often => often,
        };
        if phase.op.as_deref() == Some("") {
            return Err(wrong("op", "must not be empty"));
        }
        Ok(Phase { action, often, arrivals: phase.arrivals(), operation: None, when, depth })
    }

    /// It is an append to a file that may grow as long as its disk has room.
    fn is_endless(&self, action: &Action) -> bool {
        matches!(*action, Action::Append { file, .. } if self.params.file[file].bound().is_none())
    }

    fn action(&self, phase: &JobPhase, memory_pages: u64) -> Result<Action, Wrong> {
        let pattern = phase.pattern.map_or(Pattern::Sequential, |text| text.0);
        let bytes = phase.bytes.map_or(BLOCK_BYTES, |bytes| bytes.0);
        if bytes == 0 {
            return Err(wrong("bytes", "must be at least 1"));
        }
        let ns = || match phase.us {
            Some(us) if us > US_MAX => Err(wrong("us", "at most an hour: 3600000000")),
            Some(us) if us.is_finite() && us >= 0.0 => Ok((us * NS_PER_US) as u64),
            _ => Err(wrong("us", "how many microseconds?")),
        };
        let of = phase.of.as_deref();
        check_keys(phase)?;
        if phase.size == Some(Amount::Unlimited) && matches!(phase.action, Do::Map | Do::Truncate) {
            return Err(wrong("size", "max is for groups; how much?"));
        }
        if pattern == Pattern::Follow && phase.action != Do::Read {
            return Err(wrong("pattern", "only reads follow a file"));
        }
        Ok(match phase.action {
            Do::Map => {
                let mapped = match (phase.size, &phase.file) {
                    (Some(_), None) if phase.shared => {
                        let reason = "memory that tasks share is a [[file]] with memory = true";
                        return Err(wrong("shared", reason));
                    }
                    (_, Some(_)) if phase.zeros => {
                        return Err(wrong("zeros", "is for memory; files hold other contents"));
                    }
                    (Some(size), None) => {
                        let pages = pages(size, memory_pages);
                        Mapped::Memory(u32::try_from(pages).unwrap_or(u32::MAX))
                    }
                    (size, Some(file)) => {
                        let pages = size.map(|size| pages(size, memory_pages));
                        let pages = pages.map(|pages| u32::try_from(pages).unwrap_or(u32::MAX));
                        Mapped::File(self.file("file", Some(file))?, pages)
                    }
                    (None, None) => return Err(wrong("do", "map wants a size or a file")),
                };
                let huge = match phase.advice {
                    None => None,
                    Some(AdviceName::Hugepage) => Some(true),
                    Some(AdviceName::Nohugepage) => Some(false),
                    // The same as without the key.
                    Some(AdviceName::Normal) => None,
                    Some(_) => {
                        let reason = "of a map it is hugepage, nohugepage or normal";
                        return Err(wrong("advice", reason));
                    }
                };
                let align = phase.align.map_or(1, |align| align.0.div_ceil(PAGE_SIZE as u64));
                if !align.is_power_of_two() || align > 1 << 18 {
                    return Err(wrong("align", "must be a power of two, at most 1G"));
                }
                let (is_shared, is_read_only) = (phase.shared, phase.read_only);
                let (holds_zeros, align) = (phase.zeros, align as u32);
                let how = MapHow { is_shared, is_read_only, holds_zeros, huge, align };
                Action::Map { area: self.area(phase)?, of: mapped, how }
            }
            Do::Unmap => Action::Unmap { area: self.area(phase)? },
            Do::Touch => {
                let access = match (phase.write, phase.update) {
                    (true, true) => {
                        return Err(wrong("update", "write or update, not both"));
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
            Do::Truncate => {
                let left = pages(phase.size.unwrap_or(Amount::Bytes(0)), memory_pages);
                Action::Truncate { file: self.file("of", of)?, bytes: left * PAGE_SIZE as u64 }
            }
            Do::Delete => Action::Delete { file: self.file("of", of)? },
            Do::Alloc => {
                let gfp = match phase.gfp.unwrap_or(GfpName::Kernel) {
                    GfpName::Kernel => Gfp::GFP_KERNEL,
                    GfpName::Atomic => Gfp::GFP_ATOMIC,
                    GfpName::Nowait => Gfp::GFP_NOWAIT,
                };
                let order = phase.order.unwrap_or(0);
                let Some(order) = Order::new(order) else {
                    return Err(wrong("order", format!("at most {}", Order::MAX.0)));
                };
                let count = phase.count.unwrap_or(1);
                if !(1..=COUNT_MAX).contains(&count) {
                    return Err(wrong("count", format!("must be between 1 and {COUNT_MAX}")));
                }
                let hold_ns = if phase.us.is_some() { ns()? } else { 0 };
                Action::Alloc(Ask { gfp, order, count, hold_ns })
            }
            Do::Request => Action::Request(self.steps(phase, memory_pages)?),
            Do::Advise => {
                let Some(advice) = phase.advice else {
                    return Err(wrong("do", "advise wants advice"));
                };
                match (self.area(phase), self.file("of", of)) {
                    (Ok(_), _) if phase.behind => {
                        return Err(wrong("behind", "is for files"));
                    }
                    (Ok(area), _) => {
                        let pattern = phase.pattern.map(|text| text.0);
                        Action::Advise { area, advice: of_memory(advice)?, pattern }
                    }
                    (_, Ok(_)) if phase.pattern.is_some() => {
                        return Err(wrong("pattern", "a file is advised as a whole"));
                    }
                    (_, Ok(file)) => {
                        let (advice, is_behind) = (of_file(advice)?, phase.behind);
                        Action::AdviseFile { file, advice, is_behind }
                    }
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
                    return Err(wrong("of", reason));
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
                    return Err(wrong("value", "which percent? From 0 to 100"));
                }
                (name, _) => {
                    let name = name.unwrap_or_default();
                    return Err(wrong(
                        "of",
                        unknown("sysctl", name, &[PROACTIVENESS, DROP_CACHES]),
                    ));
                }
            },
            Do::Policy => Action::Policy(policy(of.unwrap_or_default())?),
            Do::SetGroup | Do::Reclaim | Do::RemoveGroup | Do::Join => {
                group::action(self.params, phase, memory_pages)?
            }
            Do::Connect => {
                Action::Connect { socket: self.socket(of)?, is_unread: self.is_unread(of) }
            }
            Do::Send => Action::Send { socket: self.socket(of)?, bytes, waits: !phase.no_wait },
            Do::Receive => Action::Receive { socket: self.socket(of)?, bytes },
            Do::Close => Action::Close { socket: self.socket(of)? },
            Do::Mark => Action::Mark(of.map(str::to_owned)),
        })
    }

    /// The steps of a request.
    fn steps(&self, phase: &JobPhase, memory_pages: u64) -> Result<Vec<Phase>, Wrong> {
        if phase.step.is_empty() {
            return Err(wrong("do", "a request needs a step"));
        }
        let depth = phase.depth.unwrap_or(1);
        let steps = (0..).zip(&phase.step).map(|(at, step)| {
            let of_step = |(key, reason): Wrong| (format!("step.{at}.{key}"), reason);
            if let Some(reason) = not_a_step(step, depth) {
                return Err(of_step(wrong("do", reason)));
            }
            let whole: [(&str, bool); 6] = [
                ("rate", step.rate.is_some()),
                ("seconds", step.seconds.is_some()),
                ("passes", step.passes.is_some()),
                ("forever", step.forever),
                ("depth", step.depth.is_some()),
                ("only", step.only.is_some()),
            ];
            if let Some((key, _)) = whole.iter().find(|(_, is_there)| *is_there) {
                let reason = "is of the whole request; a step is done as many times as it says";
                return Err(of_step(wrong(key, reason)));
            }
            let times = step.times.unwrap_or(1);
            let step = JobPhase { times: Some(times), ..step.clone() };
            self.phase(&step, memory_pages).map_err(of_step)
        });
        steps.collect()
    }
}

/// Why an action cannot be a step of a request, of which `depth` may be under way.
fn not_a_step(step: &JobPhase, depth: u32) -> Option<&'static str> {
    match step.action {
        Do::Request => Some("a request has no requests in it"),
        Do::Fork | Do::Wait | Do::Exec | Do::Exit | Do::RemoveGroup | Do::Join | Do::Mark => {
            Some("must be a separate phase, not a step of a request")
        }
        Do::Connect | Do::Send | Do::Receive | Do::Close if depth > 1 => {
            Some("requests that are under way at once cannot share a connection: depth = 1")
        }
        Do::Map | Do::Unmap if depth > 1 => {
            Some("requests that are under way at once share what is mapped: map it before")
        }
        _ => None,
    }
}

/// Refuses keys that the action does not use: the user expects an effect that would not happen.
fn check_keys(phase: &JobPhase) -> Result<(), Wrong> {
    use Do::{
        Advise, Alloc, Append, Compact, Compute, DropCaches, Exec, Exit, Fsync, Map, Read, Receive,
        Reclaim, Request, Send, Set, SetGroup, Sleep, Touch, Truncate, Write,
    };
    let has = |actions: &[Do]| actions.contains(&phase.action);
    let is_work = !has(&[Exit]);
    let keys: [Key; 29] = [
        ("size", phase.size.is_some(), has(&[Map, Truncate, SetGroup, Reclaim])),
        ("file", phase.file.is_some(), has(&[Map])),
        ("shared", phase.shared, has(&[Map])),
        ("read-only", phase.read_only, has(&[Map])),
        ("zeros", phase.zeros, has(&[Map])),
        ("align", phase.align.is_some(), has(&[Map])),
        ("write", phase.write, has(&[Touch])),
        ("update", phase.update, has(&[Touch])),
        ("setting", phase.setting.is_some(), has(&[SetGroup])),
        ("value", phase.value.is_some(), has(&[Set, SetGroup, DropCaches])),
        ("bytes", phase.bytes.is_some(), has(&[Read, Write, Append, Send, Receive])),
        ("no-wait", phase.no_wait, has(&[Send])),
        ("depth", phase.depth.is_some(), has(&[Read, Write, Append, Fsync, Request])),
        ("pattern", phase.pattern.is_some(), has(&[Touch, Read, Write, Advise])),
        ("advice", phase.advice.is_some(), has(&[Advise, Map])),
        ("behind", phase.behind, has(&[Advise])),
        ("gfp", phase.gfp.is_some(), has(&[Alloc])),
        ("order", phase.order.is_some(), has(&[Alloc])),
        ("count", phase.count.is_some(), has(&[Alloc])),
        ("step", !phase.step.is_empty(), has(&[Request])),
        ("us", phase.us.is_some(), has(&[Compute, Sleep, Alloc])),
        (
            "of",
            phase.of.is_some(),
            !has(&[Exec, Exit, Compute, Sleep, Compact, Alloc, Request, DropCaches]),
        ),
        ("op", phase.op.is_some(), is_work),
        ("times", phase.times.is_some(), is_work),
        ("passes", phase.passes.is_some(), is_work),
        ("seconds", phase.seconds.is_some(), is_work),
        ("forever", phase.forever, is_work),
        ("rate", phase.rate.is_some(), is_work),
        ("arrivals", phase.arrivals.is_some(), is_work),
    ];
    match keys.iter().find(|(_, is_there, is_known)| *is_there && !is_known) {
        Some((key, ..)) => Err(wrong(key, "this action does not have it")),
        None => Ok(()),
    }
}

const DROP_CACHES: &str = "vm.drop_caches";

fn drop_caches(value: Option<u32>) -> Result<Action, Wrong> {
    match value {
        Some(what @ 1..=3) => Ok(Action::DropCaches(what as u8)),
        _ => Err(wrong("value", "which caches? 1 the page cache, 2 slab, 3 both")),
    }
}

/// The sysctl that a job can set while it runs.
pub(super) const PROACTIVENESS: &str = "vm.compaction_proactiveness";

/// A memory policy as text: `bind 0,1`.
fn policy(text: &str) -> Result<MemoryPolicy, Wrong> {
    let (kind, nodes) = text.split_once(' ').map_or((text, ""), |(k, n)| (k, n.trim()));
    let known = ["local", "bind", "interleave", "preferred", "preferred-many"];
    if !known.contains(&kind) {
        return Err(wrong("of", unknown("memory policy", kind, &known)));
    }
    let reason = || format!("\"{text}\": which nodes? As in \"bind 0,1\", or all");
    let strange = || wrong("of", reason());
    let node = |text: &str| match text.trim().parse::<u16>() {
        Ok(node @ ..NODES_MAX) => Ok(NodeId(node)),
        _ => Err(strange()),
    };
    let mask = || -> Result<NodeMask, Wrong> {
        match nodes {
            "all" => Ok(NodeMask::ALL),
            nodes => {
                let nodes = nodes.split(',');
                nodes.map(node).try_fold(NodeMask::EMPTY, |mask, node| Ok(mask.with(node?)))
            }
        }
    };
    Ok(match kind {
        "bind" => MemoryPolicy::Bind(mask()?),
        "interleave" => MemoryPolicy::Interleave(mask()?),
        "preferred" => MemoryPolicy::Preferred(node(nodes)?),
        "preferred-many" => MemoryPolicy::PreferredMany(mask()?),
        _ if !nodes.is_empty() => return Err(strange()),
        _ => MemoryPolicy::Default,
    })
}

/// Node numbers are below this.
const NODES_MAX: u16 = 64;

pub(super) fn found(
    what: &str,
    key: &str,
    name: Option<&str>,
    known: &[&str],
) -> Result<usize, Wrong> {
    let Some(name) = name else {
        return Err(wrong("do", format!("which {what}? There is no {key}")));
    };
    let at = known.iter().position(|known| *known == name);
    at.ok_or_else(|| match known {
        [] => wrong(key, format!("unknown {what} \"{name}\"; there is none")),
        known => wrong(key, unknown(what, name, known)),
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
        AdviceName::Willneed => return Err(wrong("advice", "is for files")),
    })
}

fn of_file(advice: AdviceName) -> Result<FileAdvice, Wrong> {
    Ok(match advice {
        AdviceName::Normal => FileAdvice::Normal,
        AdviceName::Sequential => FileAdvice::Sequential,
        AdviceName::Random => FileAdvice::Random,
        AdviceName::Willneed => FileAdvice::WillNeed,
        AdviceName::Dontneed => FileAdvice::DontNeed,
        _ => return Err(wrong("advice", "is for memory")),
    })
}
