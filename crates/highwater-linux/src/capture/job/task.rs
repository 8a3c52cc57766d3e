//! A process as a task: it maps its memory, then repeats a request whose steps are the process's
//! work.
//!
//! A process with one busy thread becomes one task. CPU time, touches, reads and writes are steps
//! of a request that arrives at a steady rate. A process with several busy threads becomes that
//! many copies of the task. Copies share no private memory, so each has its part of it, and the
//! work is divided among them.

use super::super::flows::{Flow, Flows};
use super::super::process::Process;
use super::super::smaps::Kind;
use super::super::working_set::Touching;
use super::ground::Mapped;
use super::names::Names;
use super::{PAGE, whole};
use highwater_runs::workload::Bytes;
use highwater_runs::workload::job::{
    Amount, Do, JobFile, JobPhase, JobTask, PatternText, SpacingText,
};
use highwater_workloads::jobs::{Pattern, Spacing};

/// Without a measured working set, a process that ran is taken to touch all of its private memory in this time.
pub(super) const TOUCH_SECONDS: f64 = 10.0;
/// Highest rate of touches a second that is guessed.
pub(super) const TOUCHES_MAX: f64 = 20_000.0;
/// Highest rate of touches a second that is measured.
const TOUCHES_MEASURED_MAX: f64 = 1e6;
/// Less CPU than this counts as none.
pub(super) const CPUS_LEAST: f64 = 0.0005;
/// Requests a second: at least and at most.
const REQUESTS: [f64; 2] = [1.0, 20.0];
/// Touches of a request are rounded to whole numbers. With this many of the rarest touch, the error
/// is small.
const TOUCHES_A_REQUEST: f64 = 4.0;
/// The most bytes that one read or write of the job moves.
const BLOCK_MAX: f64 = (1 << 20) as f64;
/// A file that is read is at least as large.
const FILE_LEAST: u64 = 1 << 20;
/// A file whose reads come from the disk is larger by this factor than what the job reads of it.
const AHEAD: f64 = 1.25;
/// The factor for random reads, so that few blocks are read twice.
const AHEAD_AT_RANDOM: f64 = 8.0;
/// The name in results of reads from a disk.
const READ_DISK: &str = "read-disk";
/// CPU time of the model's own: of a touch, of a call, of a byte that a call copies, seconds.
const TOUCH_COST: f64 = 0.1e-6;
const CALL_COST: f64 = 1.5e-6;
const BYTE_COST: f64 = 0.2e-9;
/// Most CPU time that a task computes: an open loop at 100 % would fall behind.
const COMPUTE_MOST: f64 = 0.95;

/// The part of the job that stands for a process.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) files: Vec<JobFile>,
    pub(super) tasks: Vec<JobTask>,
    /// Bytes that are read before the requests begin.
    pub(super) warm: u64,
    /// A line for each guess.
    pub(super) guesses: Vec<String>,
}

/// Settings that all tasks of the job share.
pub(super) struct Frame {
    /// Estimated length if everything is in memory.
    pub(super) seconds: f64,
    /// The largest file.
    pub(super) file_max: u64,
    /// Job files that stand for directories, by path: name and size.
    pub(super) directories: Vec<(String, String)>,
}

/// A step of a request.
struct Step {
    phase: JobPhase,
    /// How often a second.
    rate: f64,
    /// Bytes a second; `None` for a touch.
    bytes: Option<f64>,
}

/// A phase that does something to something.
pub(super) fn phase(action: Do, of: &str) -> JobPhase {
    let of = (!of.is_empty()).then(|| of.to_owned());
    JobPhase { of, ..JobPhase::new(action) }
}

fn task(name: &str, count: u32, phase: Vec<JobPhase>) -> JobTask {
    JobTask {
        name: name.to_owned(),
        count,
        rounds: 1,
        background: false,
        forked: false,
        cpu: None,
        node: None,
        nice: None,
        group: None,
        softirq: false,
        phase,
    }
}

/// Rounds a rate to two decimals, unless it is small.
fn rounded(rate: f64) -> f64 {
    let unit = if rate < 1.0 { 1e4 } else { 100.0 };
    (rate * unit).round() / unit
}

/// Tasks at once: the threads that work, and as many as the CPUs that they keep busy.
pub(super) fn copies(process: &Process) -> u32 {
    let busy = process.busy_threads().max(process.cpus().ceil() as usize);
    let threads = usize::try_from(process.last.threads.max(1)).unwrap_or(1024);
    busy.clamp(1, threads.min(1024)) as u32
}

/// Everything of a process.
pub(super) fn tell(
    process: &Process,
    name: &str,
    mapped: &[Mapped],
    flows: Option<&Flows>,
    frame: &mut Frame,
    names: &mut Names,
) -> Told {
    let mut told = Told::default();
    let count = copies(process);
    let memory = &process.last.memory;
    let cpus = process.cpus();
    // Copies share no private memory.
    let private = whole(super::private(process).div_ceil(count.into()));
    let mut phases = Vec::new();
    let mut steps = Vec::new();
    let mut area =
        |area: &str, kinds: &[(Kind, String)], bytes: u64, is_written: bool, told: &mut Told| {
            phases.push(JobPhase { write: is_written, ..phase(Do::Touch, area) });
            let touching = touching(process, kinds, bytes, count, cpus);
            if let Some(touching) = touching {
                steps.push(touch(area, touching, bytes));
            }
            if process.working_set.is_none() && touching.is_some() && told.guesses.is_empty() {
                told.guesses.push("which pages it touches and how often".to_owned());
            }
        };
    let mut maps = Vec::new();
    if private > 0 {
        maps.push(JobPhase { size: Some(Amount::Bytes(private)), ..phase(Do::Map, "memory") });
        area("memory", &[(Kind::Anon, String::new())], private, true, &mut told);
    }
    for (at, mapped) in mapped.iter().enumerate() {
        let name = format!("{}-{}", if mapped.is_shared { "shared" } else { "mapped" }, at + 1);
        maps.push(JobPhase {
            size: Some(Amount::Bytes(mapped.bytes)),
            file: Some(mapped.file.clone()),
            shared: mapped.is_shared,
            read_only: !mapped.is_shared,
            ..phase(Do::Map, &name)
        });
        area(&name, &mapped.areas, mapped.bytes, mapped.is_shared, &mut told);
    }
    let mut before = maps;
    if memory.locked >= memory.rss / 2 && memory.locked > 0 && private > 0 {
        before.push(phase(Do::Lock, "memory"));
    }
    before.append(&mut phases);
    if let Some(flows) = flows {
        files(process, name, flows, count, frame, names, &mut before, &mut steps, &mut told);
    }
    // Without anything to do it stays, and its memory with it.
    let stays = || JobPhase { us: Some(1e6), forever: true, ..phase(Do::Sleep, "") };
    before.push(request(&mut steps, cpus / f64::from(count)).unwrap_or_else(stays));
    told.tasks.push(task(name, count, before));
    told
}

/// How a mapping is touched; `None` if it is not touched.
fn touching(
    process: &Process,
    kinds: &[(Kind, String)],
    bytes: u64,
    count: u32,
    cpus: f64,
) -> Option<Touching> {
    let is_private = kinds.iter().any(|(kind, _)| *kind == Kind::Anon);
    // Each copy has a part of the private memory, and all of the shared memory.
    let parts = f64::from(count);
    match &process.working_set {
        Some(measured) => {
            let memory = &process.last.memory;
            // Private memory counts in part, because the task has only its part of it.
            let (whole, part) = match is_private {
                true => (memory.anon, memory.anon_share as f64 / memory.anon.max(1) as f64),
                false => (bytes, 1.0),
            };
            let found = measured.touching(kinds, whole)?;
            let hot = found.hot as f64 * part / if is_private { parts } else { 1.0 };
            let rate = (found.rate * part / parts).min(TOUCHES_MEASURED_MAX);
            Some(Touching { hot: hot as u64, rate })
        }
        // A process that ran touches its private and its shared memory. Its programs and libraries
        // are not touched.
        None if cpus >= CPUS_LEAST && kinds.iter().all(|(kind, _)| *kind != Kind::File) => {
            let pages = (bytes / PAGE) as f64;
            let rate = (pages / TOUCH_SECONDS).clamp(1.0, TOUCHES_MAX);
            let rate = if is_private { rate } else { rate / parts };
            Some(Touching { hot: bytes, rate })
        }
        None => None,
    }
}

fn touch(area: &str, touching: Touching, bytes: u64) -> Step {
    let share = touching.hot as f64 / bytes.max(1) as f64;
    let pattern = match share >= 0.99 {
        true => Pattern::Uniform,
        false => {
            Pattern::Hot { share: ((share * 1e4).ceil() / 1e4).clamp(1e-4, 1.0), accesses: 1.0 }
        }
    };
    let phase = JobPhase {
        pattern: Some(PatternText(pattern)),
        op: Some("touch".to_owned()),
        ..phase(Do::Touch, area)
    };
    Step { phase, rate: touching.rate, bytes: None }
}

/// Files that it reads and writes: what is read before the requests, and the steps.
#[allow(clippy::too_many_arguments, reason = "the parts of a task that is being put together")]
fn files(
    process: &Process,
    name: &str,
    flows: &Flows,
    count: u32,
    frame: &mut Frame,
    names: &mut Names,
    before: &mut Vec<JobPhase>,
    steps: &mut Vec<Step>,
    told: &mut Told,
) {
    let parts = f64::from(count);
    let ever = process.last.io.map_or(0, |io| io.read_chars);
    let step = |action: Do, of: &str, op: &str, pattern: Option<Pattern>, flow: &Flow| Step {
        phase: JobPhase {
            pattern: pattern.map(PatternText),
            op: Some(op.to_owned()),
            ..phase(action, of)
        },
        rate: flow.calls / parts,
        bytes: Some(flow.bytes / parts),
    };
    for flow in &flows.cached {
        let path = flow.path.clone().unwrap_or_else(|| format!("{name}/read/"));
        let known = frame.directories.iter().find(|(known, _)| *known == path);
        let file = match known {
            Some((_, file)) => file.clone(),
            None => {
                let mut last = path.trim_end_matches('/').rsplit('/').take(2);
                let (name, parent) = (last.next().unwrap_or(""), last.next().unwrap_or(""));
                let file = names.file(&format!("{parent}-{name}-files"));
                // A file has at most as many bytes in memory as were ever read from it.
                let size = if flow.size > 0 { flow.size.min(ever) } else { ever };
                let size = whole(size.clamp(FILE_LEAST, frame.file_max));
                told.files.push(JobFile::new(&*file, Amount::Bytes(size)));
                told.warm += size;
                frame.directories.push((path, file.clone()));
                file
            }
        };
        // The data was in memory.
        before.push(JobPhase { bytes: Some(Bytes(1 << 20)), ..phase(Do::Read, &file) });
        let pattern = if flow.is_sequential { Pattern::Sequential } else { Pattern::Uniform };
        steps.push(step(Do::Read, &file, "read", Some(pattern), flow));
    }
    if let Some(flow) = &flows.disk {
        // Copies would read in the same order, and would find in memory what the first copy read.
        let (ahead, pattern) = match (count, flow.is_sequential) {
            (1, true) => (AHEAD, Pattern::Sequential),
            (1, false) => (AHEAD, Pattern::Chase),
            _ => (AHEAD_AT_RANDOM, Pattern::Uniform),
        };
        let size = (flow.bytes * frame.seconds * ahead) as u64;
        let size = whole(size.clamp(FILE_LEAST, frame.file_max));
        let file = names.file(&format!("{name}-disk"));
        told.files.push(JobFile::new(&*file, Amount::Bytes(size)));
        steps.push(step(Do::Read, &file, READ_DISK, Some(pattern), flow));
    }
    for flow in &flows.writes {
        let last = flow.path.as_deref().unwrap_or("written").trim_end_matches('/');
        let last = last.rsplit('/').next().unwrap_or_default();
        let file = names.file(&format!("{name}-{last}"));
        let size = whole(flow.size.min(frame.file_max));
        let more =
            whole(((flow.bytes * frame.seconds * AHEAD) as u64).clamp(FILE_LEAST, frame.file_max));
        // The file grows: each write dirties a new page once.
        told.files.push(JobFile {
            room: Some(Amount::Bytes(size + more)),
            memory: flow.is_memory,
            ..JobFile::new(&*file, Amount::Bytes(size))
        });
        steps.push(step(Do::Append, &file, "write", None, flow));
    }
}

/// Disk reads of a request: their number and bytes each. A disk transfers whole pages, so a block
/// is whole pages. If a request reads less than a page, reads are sequential and readahead turns
/// them into pages.
fn from_disk(bytes: f64, calls: f64, phase: &mut JobPhase) -> (f64, f64) {
    let page = PAGE as f64;
    if bytes < page {
        phase.pattern = Some(PatternText(Pattern::Sequential));
        return (1.0, bytes);
    }
    let block = (bytes / calls.max(1.0) / page).round().max(1.0) * page;
    let block = block.min(BLOCK_MAX);
    let times = (bytes / block).round().max(1.0);
    // For few large reads the rounding goes into their size.
    (times, (bytes / times / page).round().max(1.0) * page)
}

/// All steps, each at its own rate, as one request that arrives steadily; `None` if there are no
/// steps.
fn request(steps: &mut Vec<Step>, cpus: f64) -> Option<JobPhase> {
    // A touch that comes less often than every 2 seconds is dropped.
    steps.retain(|step| step.rate > 0.0 && (step.bytes.is_some() || step.rate >= 0.5));
    steps.retain(|step| step.bytes.is_none_or(|bytes| bytes >= 1.0));
    if steps.is_empty() && cpus < CPUS_LEAST {
        return None;
    }
    // For touches that are rarer than this the rounding error does not matter.
    let touches = steps.iter().filter(|step| step.bytes.is_none() && step.rate >= REQUESTS[1]);
    let touches = touches.map(|step| step.rate / TOUCHES_A_REQUEST);
    // Calls that are rarer than requests become smaller calls.
    let rate = touches.fold(f64::INFINITY, f64::min).clamp(REQUESTS[0], REQUESTS[1]).round();
    let mut cost = 0.0;
    let mut done: Vec<JobPhase> = Vec::new();
    for step in steps.drain(..) {
        let mut phase = step.phase;
        let (times, bytes) = match step.bytes {
            None => ((step.rate / rate).round().max(1.0), None),
            Some(bytes) if phase.op.as_deref() == Some(READ_DISK) => {
                let (times, bytes) = from_disk(bytes / rate, step.rate / rate, &mut phase);
                (times, Some(bytes))
            }
            Some(bytes) => {
                let least = (bytes / rate / BLOCK_MAX).ceil();
                let times = (step.rate / rate).round().max(least).max(1.0);
                (times, Some(bytes / (rate * times)))
            }
        };
        let bytes = bytes.map(|bytes| Bytes((bytes.round() as u64).max(1)));
        cost += match step.bytes {
            None => step.rate * TOUCH_COST,
            Some(bytes) => rate * times * CALL_COST + bytes * BYTE_COST,
        };
        done.push(JobPhase { times: (times > 1.0).then_some(times as u64), bytes, ..phase });
    }
    let computed = (cpus - cost).min(COMPUTE_MOST - cost);
    if computed > CPUS_LEAST {
        let us = (computed / rate * 1e7).round() / 10.0;
        done.insert(0, JobPhase { us: Some(us), ..phase(Do::Compute, "") });
    }
    if done.is_empty() {
        return None;
    }
    Some(JobPhase {
        rate: Some(rounded(rate)),
        arrivals: Some(SpacingText(Spacing::Steady)),
        forever: true,
        op: Some("work".to_owned()),
        step: done,
        ..phase(Do::Request, "")
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::flows;
    use super::super::super::process::{Io, Look, Memory};
    use super::super::super::smaps::Area;
    use super::super::super::working_set::WorkingSet;
    use super::*;

    fn process(threads: &[u64], cpu_ns: u64) -> Process {
        let anon = Area { rss: 40 << 20, pss: 40 << 20, ..Area::new(Kind::Anon, "", "") };
        let memory =
            Memory { rss: 40 << 20, anon: 40 << 20, anon_share: 40 << 20, ..Memory::default() };
        let look = |n: u64| Look {
            memory,
            areas: vec![anon.clone()],
            ran_ns: (1..).zip(threads.iter().map(|ns| n * ns)).collect(),
            threads: threads.len() as u64,
            cpu_ns: n * cpu_ns,
            io: Some(Io {
                read_chars: n * 40_960,
                reads: n * 10,
                written_chars: n * 8000,
                writes: n * 4,
                disk_read: n * 20_480,
                disk_written: n * 8000,
            }),
            open: Some(super::super::super::files::Open::default()),
            ..Look::default()
        };
        let mut process = Process::new(7, "a".to_owned(), look(0), 10.0);
        process.seen(look(10));
        process
    }

    fn told(process: &Process) -> Told {
        let flows = flows::of(process);
        let mut frame = Frame { seconds: 10.0, file_max: 1 << 30, directories: Vec::new() };
        let mut names = Names::default();
        tell(process, "a", &[], flows.as_ref(), &mut frame, &mut names)
    }

    fn last(told: &Told) -> &JobPhase {
        told.tasks[0].phase.last().unwrap()
    }

    /// One thread: its touches, reads and writes come one after the other.
    #[test]
    fn a_single_threaded_process_is_one_task() {
        let told = told(&process(&[500_000_000], 500_000_000));
        assert_eq!((told.tasks.len(), told.tasks[0].count), (1, 1));
        let request = last(&told);
        assert_eq!((request.action, request.rate), (Do::Request, Some(20.0)));
        let actions: Vec<Do> = request.step.iter().map(|step| step.action).collect();
        assert_eq!(actions, [Do::Compute, Do::Touch, Do::Read, Do::Read, Do::Append]);
        // 1024 touches a second; half of 40960 bytes from memory, half from a disk; 8000 bytes written.
        assert_eq!(request.step[1].times, Some(51));
        let bytes = |at: usize| {
            let step: &JobPhase = &request.step[at];
            20 * step.times.unwrap_or(1) * step.bytes.map_or(0, |bytes| bytes.0)
        };
        assert_eq!([2, 3, 4].map(bytes), [20_480, 20_480, 8000]);
        // Less than a page a request from the disk: in order.
        assert_eq!(request.step[3].pattern, Some(PatternText(Pattern::Sequential)));
        assert_eq!(told.guesses, ["which pages it touches and how often"]);
    }

    /// Idle threads make no copies; busy threads divide the memory.
    #[test]
    fn threads_at_work_are_copies() {
        let mut redis = process(&[900_000_000, 9_000_000, 0, 0, 0], 909_000_000);
        assert_eq!(copies(&redis), 1);
        redis.last.threads = 1;
        let pool = process(&[400_000_000, 400_000_000, 300_000_000], 1_100_000_000);
        let told = told(&pool);
        assert_eq!((told.tasks.len(), told.tasks[0].count), (1, 3));
        let size = told.tasks[0].phase[0].size;
        assert_eq!(size, Some(Amount::Bytes(whole((40 << 20) / 3))));
        // A third of the reads each.
        let request = last(&told);
        let read = request.step.iter().find(|step| step.op.as_deref() == Some("read")).unwrap();
        assert_eq!(read.bytes, Some(Bytes(20_480 / 3 / 20)));
    }

    #[test]
    fn who_did_nothing_keeps_its_memory() {
        let mut idle = process(&[0], 0);
        idle.last.io = None;
        let told = told(&idle);
        assert_eq!((told.tasks.len(), last(&told).action), (1, Do::Sleep));
        assert!(told.guesses.is_empty());
    }

    /// Half of the memory was touched, all of it in the first half of the time.
    #[test]
    fn touches_are_what_was_measured() {
        let mut measured = process(&[500_000_000], 500_000_000);
        measured.working_set = Some(WorkingSet {
            seconds: 4.0,
            half_seconds: Some(2.0),
            touched: [((Kind::Anon, String::new()), [20 << 20, 20 << 20])].into(),
        });
        let told = told(&measured);
        let touch = last(&told).step.iter().find(|step| step.action == Do::Touch).unwrap().clone();
        let Some(PatternText(Pattern::Hot { share, accesses })) = touch.pattern else {
            panic!("{touch:?}")
        };
        assert!((share - 0.5).abs() < 0.01 && accesses >= 1.0, "{touch:?}");
        // Each of 5120 pages six times in four seconds.
        assert!(
            touch.times.is_some_and(|times| times.abs_diff(5120 * 6 / 4 / 20) < 10),
            "{touch:?}"
        );
        assert!(told.guesses.is_empty());
        // The measurement found no touches, so the task has none.
        measured.working_set.iter_mut().for_each(|set| set.touched.clear());
        let idle = super::tests::told(&measured);
        assert!(last(&idle).step.iter().all(|step| step.action != Do::Touch), "{idle:?}");
    }

    #[test]
    fn blocks_of_a_disk_are_whole_pages() {
        let mut some = phase(Do::Read, "f");
        assert_eq!(from_disk(1_000_000.0, 150.0, &mut some), (122.0, 8192.0));
        assert_eq!(some.pattern, None);
        let (times, bytes) = from_disk(3e9, 10.0, &mut some);
        assert!(bytes <= BLOCK_MAX && (times * bytes / 3e9 - 1.0).abs() < 0.01, "{times} {bytes}");
    }
}
