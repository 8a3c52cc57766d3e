//! The job file: processes as tasks.
//!
//! A process becomes up to four tasks, since its memory, its CPU time, its reads and its writes go on beside each
//! other, each at its own rate:
//!
//! | task | does |
//! |---|---|
//! | `NAME` | maps its own memory and writes all of it, maps its files and reads them, then touches its memory at random if it ran |
//! | `NAME-cpu` | has the CPU for its share, in pieces of a millisecond |
//! | `NAME-read`, `NAME-write` | reads and writes a file at its rates |
//!
//! Which pages it touched, and how often, no kernel says; that is assumed, and the file says so.

use std::fmt::Write as _;

use serde::Serialize;

use super::process::{Look, Process};
use super::{Capture, Names, Nearest};
use crate::experiment::Experiment;
use crate::input::InputError;
use crate::workload::Bytes;
use crate::workload::Registry;
use crate::workload::job::{Amount, Do, JobFile, JobPhase, JobTask, PatternText};
use highwater_workloads::jobs::Pattern;

const PAGE: u64 = 4096;
const MIB: f64 = (1 << 20) as f64;
/// A process that ran is taken to touch all of its memory in this time.
const TOUCH_SECONDS: f64 = 10.0;
/// Most touches a second of a task.
const TOUCHES_MAX: f64 = 20_000.0;
/// CPU time comes in such pieces.
const COMPUTE_US: f64 = 1000.0;
/// Less of a CPU than this is none.
const CPUS_LEAST: f64 = 0.0005;
/// Fewer reads or writes a second than this are none.
const RATE_LEAST: f64 = 0.01;
/// Most reads or writes a second of a task; more come together.
const RATE_MAX: f64 = 20_000.0;
/// A file that is read or written is at least as large.
const FILE_LEAST: u64 = 1 << 20;
/// And at most so many times as large as memory.
const FILE_MEMORIES: u64 = 2;
/// What one read or write may move.
const BLOCK_MAX: u64 = 1 << 20;
/// Seconds of a job whose processes were not watched.
const SECONDS: f64 = 10.0;
/// The same with --quick, at most.
const SECONDS_QUICK: f64 = 2.0;
/// What a task needs to have its memory, roughly: for a page of its own, for a byte of a file.
const SETUP_PER_PAGE: f64 = 1e-6;
const SETUP_PER_BYTE: f64 = 1.0 / 400e6;

/// A task or file by itself, as a job file has it.
#[derive(Serialize)]
struct Part<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<[&'a JobFile; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<[&'a JobTask; 1]>,
}

/// What a process is in the job.
#[derive(Debug, Default)]
struct Told {
    about: Vec<String>,
    files: Vec<JobFile>,
    tasks: Vec<JobTask>,
}

/// The text of the file.
///
/// # Errors
/// If it would be no job: never.
pub(super) fn to_toml(
    capture: &Capture,
    names: Names<'_>,
    nearest: Nearest,
) -> Result<String, InputError> {
    let mut taken: Vec<String> = Vec::new();
    let mut told = Vec::new();
    let most = most_of_a_file(capture);
    for process in &capture.processes {
        let name = name(process, &mut taken);
        told.push(tell(process, &name, most));
    }
    let anon: u64 = capture.processes.iter().map(|p| memory_of(&p.last)).sum();
    let mapped: u64 = capture.processes.iter().map(|p| p.last.memory.file).sum();
    let is_read = |file: &&JobFile| file.name.ends_with("-read-file");
    let files = told.iter().flat_map(|told| &told.files).filter(is_read);
    let warm: u64 =
        files.map(|file| if let Amount::Bytes(bytes) = file.size { bytes } else { 0 }).sum();
    let setup = (anon / PAGE) as f64 * SETUP_PER_PAGE + (mapped + warm) as f64 * SETUP_PER_BYTE;
    let watched = capture.watched.unwrap_or(SECONDS).clamp(1.0, 3600.0);
    let seconds = setup.ceil() + watched.round();
    let quick = setup.ceil() + watched.round().min(SECONDS_QUICK);

    let mut text = String::new();
    head(&mut text, capture, anon + mapped, setup.ceil());
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "title = \"Processes captured: {}, on {}\"\nseconds = {seconds:?}",
        capture.processes.len(),
        capture.system.kernel
    );
    let preset = nearest.preset;
    let _ = writeln!(text, "\n[[policy]]\nname = \"{preset}\"\nlabel = \"{preset}\"");
    if let Some(machine) = names.machine_of_job {
        let _ = writeln!(text, "\n[[machine]]\nname = {machine:?}");
    }
    let _ = writeln!(text, "\n[quick]\niterations = 1\n\n[quick.job]\nseconds = {quick:?}");
    text.push('\n');
    for told in &told {
        for line in &told.about {
            let _ = writeln!(text, "# {line}");
        }
        for file in &told.files {
            text.push_str(&part(&Part { file: Some([file]), task: None }));
        }
        for task in &told.tasks {
            text.push_str(&part(&Part { file: None, task: Some([task]) }));
        }
    }
    let text = text.trim_end().to_owned() + "\n";
    Experiment::parse(&Registry::default(), names.job, &text)?;
    Ok(text)
}

fn part(part: &Part<'_>) -> String {
    // Plain rows and names: nothing that TOML could not hold.
    format!("{}\n\n", toml::to_string(part).unwrap_or_default().trim())
}

/// What was measured, and what was not.
fn head(text: &mut String, capture: &Capture, bytes: u64, setup: f64) {
    let mut lines = Vec::new();
    let how = match capture.watched {
        Some(seconds) => format!("watched for {seconds:.1} seconds"),
        None => "not watched: rates are averages since each began".to_owned(),
    };
    lines.push(format!(
        "Processes of a running machine ({}), captured by `highwater capture`; {how}.",
        capture.system.kernel
    ));
    lines.push(format!(
        "Processes: {}, the largest first; left out, of the same user: {}.",
        capture.processes.len(),
        capture.nr_left_out
    ));
    lines.push(String::new());
    lines.push("Measured: memory of their own and in swap, memory of files, CPU time, calls that read and write with".to_owned());
    lines.push("their sizes, what of that reached a disk.".to_owned());
    lines.push("Not known, and assumed:".to_owned());
    for line in [
        "which pages are touched, and how often: who ran is taken to read all of its own memory at random, once in",
        format!("  {TOUCH_SECONDS:.0} seconds, and no more than {TOUCHES_MAX:.0} pages a second; who did not run leaves it alone;").as_str(),
        "which files are read and written, and where in them: one file for each, read at random and written from its",
        "  start to its end, as large as all that the process ever read or wrote on a disk; who read less from disks",
        "  than half of what it read reads its file once before;",
        "what reads were of files at all: pipes, sockets and terminals are counted among them, and read as files here;",
        "the order of things: memory, CPU time, reads and writes go on beside each other at steady averages;",
        "memory that several processes share without a file counts for each of them.",
    ] {
        let mark = if line.starts_with(' ') { " " } else { "-" };
        lines.push(format!("{mark} {}", line.trim_start()));
    }
    let setup = format!(
        "The first {setup:.0} seconds or so of the job go into having that memory ({:.0} MiB).",
        bytes as f64 / MIB
    );
    lines.push(setup);
    let memory = capture.system.bytes();
    if bytes > memory {
        lines.push(format!(
            "That is more than the machine has ({:.0} MiB): shared memory is in it several times.",
            memory as f64 / MIB
        ));
    }
    let counters = [
        ("pgfault", "faults"),
        ("pgmajfault", "faults with I/O"),
        ("pswpin", "pages from swap"),
        ("pswpout", "pages to swap"),
        ("pgscan_kswapd", "pages scanned by kswapd"),
        ("pgscan_direct", "pages scanned by allocators"),
    ];
    let counted = counters
        .iter()
        .filter_map(|(name, what)| Some(format!("{:.1} {what}", capture.counted(name)?)));
    let counted: Vec<String> = counted.collect();
    if !counted.is_empty() {
        lines.push("The whole machine, a second:".to_owned());
        lines.extend(counted.chunks(3).map(|some| format!("  {}", some.join(", "))));
    }
    for line in capture.system.memory_pressure.iter().flat_map(|text| text.lines()) {
        lines.push(format!("Pressure on memory: {line}"));
    }
    for line in lines {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# {}", line.as_str());
    }
    *text = text.replace("# \n", "#\n");
}

/// Of a process its own memory, in memory or in swap.
fn memory_of(look: &Look) -> u64 {
    look.memory.anon.saturating_add(look.memory.swap)
}

/// Largest file of a task: what the machine's first disk holds for all, and what memory makes sense of.
fn most_of_a_file(capture: &Capture) -> u64 {
    let nr_files = 2 * capture.processes.len().max(1) as u64;
    let disk = capture.system.disks.first().map_or(64 << 30, |disk| disk.bytes);
    let most = capture.system.bytes().saturating_mul(FILE_MEMORIES).min(disk / 2 / nr_files);
    most.max(FILE_LEAST)
}

/// A name that no other task has, of letters, digits and dashes.
fn name(process: &Process, taken: &mut Vec<String>) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let comm: String = process.comm.chars().map(plain).collect();
    let comm = comm.trim_matches('-');
    let mut name = if comm.is_empty() { "process".to_owned() } else { comm.to_owned() };
    if taken.contains(&name) {
        name = format!("{name}-{}", process.pid);
    }
    taken.push(name.clone());
    name
}

/// A phase that does something to something.
fn phase(action: Do, of: &str) -> JobPhase {
    let of = (!of.is_empty()).then(|| of.to_owned());
    JobPhase { of, ..JobPhase::new(action) }
}

fn task(name: String, count: u32, phase: Vec<JobPhase>) -> JobTask {
    JobTask {
        name,
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

/// Two digits behind the dot are enough of a rate, unless it is small.
fn rounded(rate: f64) -> f64 {
    let unit = if rate < 1.0 { 1e4 } else { 100.0 };
    (rate * unit).round() / unit
}

/// Whole pages.
fn whole(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE).saturating_mul(PAGE)
}

fn tell(process: &Process, name: &str, most: u64) -> Told {
    let mut told = Told { about: about(process, name), ..Told::default() };
    let memory = &process.last.memory;
    let cpus = process.cpus();
    let anon = whole(memory_of(&process.last));
    let mut phases = Vec::new();
    if anon > 0 {
        phases.push(JobPhase { size: Some(Amount::Bytes(anon)), ..phase(Do::Map, "memory") });
        if memory.locked >= memory.rss / 2 && memory.locked > 0 {
            phases.push(phase(Do::Lock, "memory"));
        }
        phases.push(JobPhase { write: true, ..phase(Do::Touch, "memory") });
    }
    if memory.file > 0 {
        let file = format!("{name}-mapped");
        told.files.push(JobFile::new(file.clone(), Amount::Bytes(whole(memory.file))));
        phases.push(JobPhase { file: Some(file), read_only: true, ..phase(Do::Map, "files") });
        phases.push(phase(Do::Touch, "files"));
    }
    phases.push(match anon > 0 && cpus >= CPUS_LEAST {
        true => JobPhase {
            pattern: Some(PatternText(Pattern::Uniform)),
            rate: Some(rounded(((anon / PAGE) as f64 / TOUCH_SECONDS).clamp(1.0, TOUCHES_MAX))),
            forever: true,
            op: Some("touch".to_owned()),
            ..phase(Do::Touch, "memory")
        },
        // It stays, and its memory with it.
        false => JobPhase { us: Some(1e6), forever: true, ..phase(Do::Sleep, "") },
    });
    told.tasks.push(task(name.to_owned(), 1, phases));
    if cpus >= CPUS_LEAST {
        let count = (cpus.ceil() as u32).clamp(1, 1024);
        let rate = cpus / f64::from(count) * 1e6 / COMPUTE_US;
        let compute = JobPhase {
            us: Some(COMPUTE_US),
            rate: Some(rounded(rate).max(1e-4)),
            forever: true,
            ..phase(Do::Compute, "")
        };
        told.tasks.push(task(format!("{name}-cpu"), count, vec![compute]));
    }
    reads_and_writes(process, name, most, &mut told);
    told
}

/// What a second of reads or writes is.
struct Flow {
    /// Calls a second.
    calls: f64,
    /// Bytes of a call.
    bytes: u64,
}

impl Flow {
    /// So many calls a second that move so many bytes together; none if that is next to nothing.
    fn new(bytes_per_s: f64, calls: f64) -> Option<Flow> {
        if calls < RATE_LEAST || bytes_per_s <= 0.0 {
            return None;
        }
        // Too many come as fewer and larger ones.
        let calls = calls.min(RATE_MAX);
        let bytes = whole_kib(bytes_per_s / calls).min(BLOCK_MAX);
        Some(Flow { calls: rounded(calls), bytes })
    }
}

/// Sizes in job files are whole KiB, one at least.
fn whole_kib(bytes: f64) -> u64 {
    ((bytes / 1024.0).ceil() as u64).max(1).saturating_mul(1024)
}

fn reads_and_writes(process: &Process, name: &str, most: u64, told: &mut Told) {
    let Some(io) = process.last.io else { return };
    let rate = |of: fn(&super::Io) -> u64| process.io_rate(of).unwrap_or(0.0);
    let mut add = |what: &str, action: Do, flow: Option<Flow>, ever: u64, is_cached: bool| {
        let Some(flow) = flow else { return };
        let file = format!("{name}-{what}-file");
        let size = whole(ever.clamp(FILE_LEAST, most).max(flow.bytes));
        told.files.push(JobFile::new(file.clone(), Amount::Bytes(size)));
        let random = (action == Do::Read).then_some(PatternText(Pattern::Uniform));
        let phase = JobPhase {
            bytes: Some(Bytes(flow.bytes)),
            pattern: random,
            rate: Some(flow.calls),
            forever: true,
            op: Some(what.to_owned()),
            ..phase(action, &file)
        };
        // What did not come from a disk was in memory.
        let before = JobPhase { bytes: Some(Bytes(BLOCK_MAX)), ..self::phase(Do::Read, &file) };
        let phases = if is_cached { vec![before, phase] } else { vec![phase] };
        told.tasks.push(task(format!("{name}-{what}"), 1, phases));
    };
    let reads = Flow::new(rate(|io| io.read_chars), rate(|io| io.reads));
    let is_cached = rate(|io| io.disk_read) < rate(|io| io.read_chars) / 2.0;
    add("read", Do::Read, reads, io.disk_read, is_cached);
    // What is written to a file is counted where it makes a page dirty; the rest went elsewhere.
    let (calls, disk) = (rate(|io| io.writes), rate(|io| io.disk_written));
    let size = if calls > 0.0 { rate(|io| io.written_chars) / calls } else { 0.0 };
    let size = whole_kib(size) as f64;
    let calls = (disk / size).min(calls);
    add("write", Do::Append, Flow::new(calls * size, calls), io.disk_written, false);
}

/// What was measured of a process, in words.
fn about(process: &Process, name: &str) -> Vec<String> {
    let memory = &process.last.memory;
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / MIB);
    let share = if memory.is_shared_out { "its share of files" } else { "files" };
    let mut lines = vec![format!(
        "{name} (threads: {}): {} in memory, {} of its own (at most {}; {} in huge pages), {} of {share}; {} in swap.",
        process.last.threads,
        mib(memory.rss),
        mib(memory.anon),
        mib(process.anon_max.max(memory.anon)),
        mib(memory.huge),
        mib(memory.file),
        mib(memory.swap)
    )];
    lines.push(format!(
        "A second: {:.3} CPUs, {:.3} s of waiting for one, {:.1} faults, {:.1} of them with I/O.",
        process.cpus(),
        process.rate(|look| look.waited_ns) / 1e9,
        process.rate(|look| look.faults.saturating_add(look.major_faults)),
        process.rate(|look| look.major_faults)
    ));
    let rate = |of: fn(&super::Io) -> u64| process.io_rate(of);
    let known = (
        rate(|io| io.reads),
        rate(|io| io.read_chars),
        rate(|io| io.disk_read),
        rate(|io| io.writes),
        rate(|io| io.written_chars),
        rate(|io| io.disk_written),
    );
    lines.push(match known {
        (Some(reads), Some(read), Some(from), Some(writes), Some(written), Some(to)) => format!(
            "{reads:.1} reads of together {:.1} KiB, {:.1} KiB from disks; {writes:.1} writes of together {:.1} KiB, \
             {:.1} KiB to disks.",
            read / 1024.0,
            from / 1024.0,
            written / 1024.0,
            to / 1024.0
        ),
        _ => "Its reads and writes could not be seen: they are not in the job.".to_owned(),
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::super::{Io, Memory};
    use super::*;

    fn process() -> Process {
        let memory = Memory { rss: 48 << 20, anon: 40 << 20, file: 8 << 20, ..Memory::default() };
        let io = |n: u64| Io {
            read_chars: n * 40_960,
            reads: n * 10,
            written_chars: n * 8000,
            writes: n * 4,
            disk_read: n * 4096,
            disk_written: n * 4096,
        };
        let look =
            |n| Look { memory, io: Some(io(n)), cpu_ns: n * 1_500_000_000, ..Look::default() };
        Process {
            pid: 7,
            comm: "a b/(c)".to_owned(),
            first: look(0),
            last: look(10),
            anon_max: 44 << 20,
            seconds: 10.0,
        }
    }

    #[test]
    fn a_process_becomes_tasks() {
        let told = tell(&process(), "a", 1 << 30);
        let names: Vec<&str> = told.tasks.iter().map(|task| task.name.as_str()).collect();
        assert_eq!(names, ["a", "a-cpu", "a-read", "a-write"]);
        // One and a half CPUs are two tasks with three quarters each.
        assert_eq!((told.tasks[1].count, told.tasks[1].phase[0].rate), (2, Some(750.0)));
        // Nine tenths did not come from a disk: the file is in memory before.
        assert_eq!((told.tasks[2].phase.len(), told.tasks[2].phase[0].rate), (2, None));
        assert_eq!(told.tasks[2].phase[1].bytes, Some(Bytes(4096)));
        assert_eq!(told.tasks[2].phase[1].rate, Some(10.0));
        // 4096 bytes a second reach a disk, in calls of 2000: two of 2 KiB.
        assert_eq!(told.tasks[3].phase[0].bytes, Some(Bytes(2048)));
        assert_eq!(told.tasks[3].phase[0].rate, Some(2.0));
        // A quarter of an hour would be needed to touch a page a second.
        assert_eq!(told.tasks[0].phase.last().unwrap().rate, Some(1024.0));
        assert_eq!(told.files[0].size, Amount::Bytes(8 << 20));
    }

    #[test]
    fn who_did_nothing_keeps_its_memory() {
        let mut idle = process();
        idle.first = idle.last.clone();
        let told = tell(&idle, "a", 1 << 30);
        assert_eq!(told.tasks.len(), 1);
        assert_eq!(told.tasks[0].phase.last().unwrap().action, Do::Sleep);
        idle.last.io = None;
        assert!(about(&idle, "a")[2].contains("could not be seen"));
    }

    #[test]
    fn many_small_calls_come_as_fewer() {
        let flow = Flow::new(1e9, 1e6).unwrap();
        assert!(flow.calls <= RATE_MAX && flow.bytes == 49 << 10, "{} {}", flow.calls, flow.bytes);
        assert!(Flow::new(0.0, 10.0).is_none() && Flow::new(10.0, 0.0).is_none());
        let huge = Flow::new(1e12, 1.0).unwrap();
        assert!(huge.bytes <= BLOCK_MAX && huge.calls <= RATE_MAX);
    }

    #[test]
    fn names_are_plain_and_different() {
        let mut taken = Vec::new();
        assert_eq!(name(&process(), &mut taken), "a-b--c");
        assert_eq!(name(&process(), &mut taken), "a-b--c-7");
        let nameless = Process { comm: "()".to_owned(), ..process() };
        assert_eq!(name(&nameless, &mut taken), "process");
    }
}
