//! The job file: each process a task.
//!
//! ```text
//!  processes ──▶ ground   shared memory and mapped files, each once
//!            ├─▶ groups   memory cgroups
//!            ├─▶ flows    which reads and writes were of files
//!            └─▶ task     a task: maps, touches, then a request over and over
//! ```
//!
//! Comments above each task say which figures were measured, guessed or left out.

mod ground;
mod groups;
mod names;
mod task;

use std::fmt::Write as _;

use serde::Serialize;

use super::flows::{self, Flows};
use super::process::{Process, Told as From};
use super::{Capture, Names as FileNames, Nearest};
use highwater_files::input::InputError;
use highwater_plan::experiment::Experiment;
use highwater_runs::workload::Registry;
use highwater_runs::workload::job::{GroupVersion, JobFile, JobGroup, JobTask};

pub(super) use groups::names as names_of_groups;

const PAGE: u64 = 4096;
const MIB: f64 = (1 << 20) as f64;
/// Largest size of a file, as a multiple of memory.
const FILE_MEMORIES: u64 = 2;
const FILE_LEAST: u64 = 1 << 20;
/// Length in seconds of a job whose processes were not watched.
const SECONDS: f64 = 10.0;
/// The same with --quick, at most.
const SECONDS_QUICK: f64 = 2.0;
/// Estimated seconds that a task needs to set up one anonymous page, and one byte of a file.
const SETUP_PER_PAGE: f64 = 1e-6;
const SETUP_PER_BYTE: f64 = 1.0 / 400e6;

/// A group, file or task by itself, as a job file has it.
#[derive(Default, Serialize)]
struct Part<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<[&'a JobGroup; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<[&'a JobFile; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<[&'a JobTask; 1]>,
}

/// The text of the file, and the guesses in it, one line each.
///
/// # Errors
/// If the text is not a valid job; this does not happen.
pub(super) fn to_toml(
    capture: &Capture,
    names: FileNames<'_>,
    nearest: Nearest,
) -> Result<(String, Vec<String>), InputError> {
    let mut taken = names::Names::default();
    let processes = &capture.processes;
    let named: Vec<String> =
        processes.iter().map(|process| taken.task(&process.comm, process.pid)).collect();
    let ground = ground::ground(processes, &mut taken);
    let watched = capture.watched.unwrap_or(SECONDS).clamp(1.0, 3600.0).round();
    let mut frame = task::Frame {
        seconds: watched,
        file_max: most_of_a_file(capture),
        directories: Vec::new(),
    };
    let group_names = groups::names(&capture.groups);
    let mut told = Vec::new();
    for ((process, name), mapped) in processes.iter().zip(&named).zip(&ground.mapped) {
        let flows = flows::of(process);
        let mut parts = task::tell(process, name, mapped, flows.as_ref(), &mut frame, &mut taken);
        let group = process.group.and_then(|group| group_names.get(group));
        parts.tasks.iter_mut().for_each(|task| task.group = group.cloned());
        let about = about(process, name, task::copies(process), flows.as_ref());
        told.push((about, parts));
    }
    let private: u64 = processes.iter().map(private).sum();
    let mapped: u64 = ground.files.iter().map(bytes_of).sum();
    let on_disk: u64 = ground.files.iter().filter(|file| !file.memory).map(bytes_of).sum();
    let warm: u64 = told.iter().map(|(_, parts)| parts.warm).sum();
    let pages = (private + mapped) / PAGE;
    let setup = pages as f64 * SETUP_PER_PAGE + (on_disk + warm) as f64 * SETUP_PER_BYTE;
    let seconds = setup.ceil() + watched;
    let quick = setup.ceil() + watched.min(SECONDS_QUICK);

    let mut text = String::new();
    head(&mut text, capture, private + mapped, setup.ceil());
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "title = \"Processes captured: {}, on {}\"\nseconds = {seconds:?}",
        processes.len(),
        capture.system.kernel
    );
    if capture.groups.version() == GroupVersion::V1 {
        text.push_str("group-version = 1\n");
    }
    if capture.groups.is_recursive {
        text.push_str("group-mount = [\"memory_recursiveprot\"]\n");
    }
    let preset = nearest.preset;
    let _ = writeln!(text, "\n[[policy]]\nname = \"{preset}\"\nlabel = \"{preset}\"");
    if let Some(machine) = names.machine_of_job {
        let _ = writeln!(text, "\n[[machine]]\nname = {machine:?}");
    }
    let _ = writeln!(text, "\n[quick]\niterations = 1\n\n[quick.job]\nseconds = {quick:?}");
    text.push('\n');
    for group in groups::tell(&capture.groups, &group_names) {
        comments(&mut text, &group.about);
        text.push_str(&part(&Part { group: Some([&group.group]), ..Part::default() }));
    }
    put(&mut text, &ground.about, &ground.files, &[]);
    let mut guesses = Vec::new();
    for ((about, parts), name) in told.iter().zip(&named) {
        put(&mut text, about, &parts.files, &parts.tasks);
        guesses.extend(parts.guesses.iter().map(|guess| format!("{name}: a guess: {guess}")));
        let guess = |line: &&String| line.starts_with("Guess: ");
        guesses.extend(
            about
                .iter()
                .filter(guess)
                .map(|line| format!("{name}: a guess: {}", line.trim_start_matches("Guess: "))),
        );
    }
    let text = text.trim_end().to_owned() + "\n";
    Experiment::parse(&Registry::default(), names.job, &text)?;
    Ok((text, guesses))
}

fn comments(text: &mut String, about: &[String]) {
    for line in about {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# {line}");
    }
}

fn put(text: &mut String, about: &[String], files: &[JobFile], tasks: &[JobTask]) {
    comments(text, about);
    for file in files {
        text.push_str(&part(&Part { file: Some([file]), ..Part::default() }));
    }
    for task in tasks {
        text.push_str(&part(&Part { task: Some([task]), ..Part::default() }));
    }
}

fn part(part: &Part<'_>) -> String {
    // Plain rows and names: always valid TOML.
    format!("{}\n\n", toml::to_string(part).unwrap_or_default().trim())
}

fn bytes_of(file: &JobFile) -> u64 {
    match file.size {
        highwater_runs::workload::job::Amount::Bytes(bytes) => bytes,
        _ => 0,
    }
}

/// Private memory of a process, resident (its share of pages that a fork left shared) or in swap.
fn private(process: &Process) -> u64 {
    let memory = &process.last.memory;
    memory.anon_share.saturating_add(memory.swap)
}

/// Largest file of a task: limited by the first disk, divided among all, and by a multiple of
/// memory.
fn most_of_a_file(capture: &Capture) -> u64 {
    let nr_files = 4 * capture.processes.len().max(1) as u64;
    let disk = capture.system.disks.first().map_or(64 << 30, |disk| disk.bytes);
    let most = capture.system.bytes().saturating_mul(FILE_MEMORIES).min(disk / 2 / nr_files);
    most.max(FILE_LEAST)
}

/// Whole pages.
fn whole(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE).saturating_mul(PAGE)
}

/// Writes the head of the job, with the list of measured and guessed figures.
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
    let measured = capture.processes.iter().filter(|process| process.working_set.is_some()).count();
    lines.push("Measured: private memory, shared memory, mapped files, swap, CPU time, open files and where they are read".to_owned());
    lines.push(
        "and written, calls that read and write with their sizes, what of that reached a disk."
            .to_owned(),
    );
    if measured > 0 {
        lines.push(
            "Measured too: the working set of each mapping, that is, the memory touched in an interval."
                .to_owned(),
        );
    }
    lines.push("Not known, and assumed:".to_owned());
    let guessed = format!(
        "  {:.0} seconds, and no more than {:.0} pages a second; a process that did not run touches none (`--working-set` measures it);",
        task::TOUCH_SECONDS,
        task::TOUCHES_MAX
    );
    if measured < capture.processes.len() {
        lines.push("- which pages are touched, and how often: a process that ran touches all of its private and shared memory at random, once in".to_owned());
        lines.push(guessed);
    }
    for line in [
        "- where in files that have no position (`pread`, `pwrite`): at random; where `fdinfo` has one that moves: in order;",
        "- when: a process does everything in small portions at a steady rate; it calls no `fsync`, which is not counted;",
        "- which pages of shared memory a process touched: the first ones, as many as it has.",
    ] {
        lines.push(line.to_owned());
    }
    lines.push(format!(
        "The first {setup:.0} seconds or so of the job go into having that memory ({:.0} MiB).",
        bytes as f64 / MIB
    ));
    let memory = capture.system.bytes();
    if bytes > memory {
        lines.push(format!("That is more than the machine has ({:.0} MiB).", memory as f64 / MIB));
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
    if !capture.groups.notes.is_empty() {
        lines.push("Memory cgroups:".to_owned());
        lines.extend(capture.groups.notes.iter().map(|note| format!("- {note};")));
    }
    comments(text, &lines);
    *text = text.replace("# \n", "#\n");
}

/// The comment above a task: which figures were measured, guessed or left out.
fn about(process: &Process, name: &str, copies: u32, flows: Option<&Flows>) -> Vec<String> {
    let memory = &process.last.memory;
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / MIB);
    let mut lines = vec![format!(
        "{name} (process {}, threads: {}, of them at work: {}): {} in memory, {} private ({} if what a fork left to several counts once; at most {}; {} in huge pages), \
         {} shared memory, {} of files; {} in swap.",
        process.pid,
        process.last.threads,
        process.busy_threads(),
        mib(memory.rss),
        mib(memory.anon),
        mib(memory.anon_share),
        mib(process.anon_max.max(memory.anon)),
        mib(memory.huge),
        mib(memory.shared),
        mib(memory.file),
        mib(memory.swap)
    )];
    match process.last.told {
        From::Smaps => {}
        From::Rollup => lines.push(
            "Its smaps could not be read, and smaps_rollup has only shares of files and shared memory: no other process maps these \
             files, and shared memory is one mapping."
                .to_owned(),
        ),
        From::Status => lines.push(
            "Its smaps could not be read, and status has only sums of private memory, files and shared memory: no other process \
             maps these files, and shared memory is one mapping."
                .to_owned(),
        ),
    }
    if copies > 1 {
        lines.push(format!(
            "{copies} copies, each with its part of the private memory: tasks of a job share none."
        ));
    }
    lines.push(match &process.working_set {
        Some(set) => {
            let half = match set.half_seconds {
                Some(half) => format!(", and at {half:.1} s"),
                None => String::new(),
            };
            format!(
                "Working set: {} were touched in {:.1} s{half} (clear_refs, then Referenced of smaps): touches are fitted to that.",
                mib(set.bytes()),
                set.seconds
            )
        }
        None => "Working set: not measured, touches are guessed.".to_owned(),
    });
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
    for (what, flows) in flows.iter().flat_map(|f| [("reads", &f.cached), ("writes", &f.writes)]) {
        for flow in flows {
            let path = flow.path.as_deref().unwrap_or("files that no look found open");
            lines.push(format!("It {what} {path}: {:.1} KiB a second.", flow.bytes / 1024.0));
        }
    }
    if let Some(flow) = flows.and_then(|flows| flows.disk.as_ref()) {
        lines.push(format!(
            "It reads {:.1} KiB a second from a disk: a separate file, large enough that no block comes twice.",
            flow.bytes / 1024.0
        ));
    }
    lines.extend(flows.iter().flat_map(|flows| flows.remarks.iter().cloned()));
    lines
}
