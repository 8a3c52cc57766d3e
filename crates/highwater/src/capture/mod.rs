//! A running Linux, captured: its machine, what its processes do, and what its kernel computed.
//!
//! ```text
//!  Source ──▶ proc      the machine        ──▶ machine    a machine file
//!        └──▶ process   looks at processes ──▶ job        a job file
//!                                          └─▶ reference  what `highwater check` reads
//! ```
//!
//! | room | holds |
//! |---|---|
//! | [`Source`] | the tree with `proc` and `sys`: the running kernel's, or a recorded one |
//! | [`proc`] | zones, nodes, CPUs, caches, disks, swap, settings |
//! | [`process`] | memory, CPU time, reads, writes and faults of processes |
//! | [`settings`] | sysctls: Linux's names and the machine's keys |
//! | [`kernel`] | the kernel's version, and the preset nearest to it |
//! | [`at_boot`] | what zones managed when their sizes were computed |
//! | [`machine`], [`job`], [`reference`](mod@reference) | the three files |
//!
//! What cannot be read is left out, and a line says so ([`Capture::notes`]). Without `/proc/zoneinfo` there is no
//! capture.

mod at_boot;
mod job;
mod kernel;
mod machine;
mod proc;
mod process;
mod reference;
pub(crate) mod settings;
mod source;

use std::thread;
use std::time::{Duration, Instant};

use highwater_results::import::proc::Vmstat;

pub use kernel::{KernelVersion, Nearest};
pub use proc::{Caches, Disk, SwapArea, System};
pub use process::{Io, Look, Memory, Process};
pub use source::Source;

use crate::check::Figure;
use crate::check::static_machine;
use crate::input::InputError;
use crate::machine_file::MachineFile;
use crate::policy_file;
use highwater_results::import::linux61::Reference;

/// Processes that are taken unless they are named.
const PROCESSES_MAX: usize = 12;
/// Less memory than this is not worth a task, unless the process runs.
const RSS_LEAST: u64 = 4 << 20;
/// Nor is less of a CPU.
const CPUS_LEAST: f64 = 0.005;

/// What to capture.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Processes by number; none: those of this user that use memory or CPU time.
    pub pids: Vec<u32>,
    /// How long to watch them; zero: averages since each began.
    pub watch: Duration,
    /// Time between looks.
    pub every: Duration,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The machine.
    pub system: System,
    /// Its processes, the largest first.
    pub processes: Vec<Process>,
    /// Processes of the user that would have been worth a task, and were too many.
    pub nr_left_out: usize,
    /// Seconds that were watched; none: rates are averages since each process began.
    pub watched: Option<f64>,
    /// Counters of `/proc/vmstat` at the beginning and at the end.
    vmstat: Option<[Vmstat; 2]>,
    /// What is not known, a line each.
    pub notes: Vec<String>,
}

/// The three files, as texts that were read again.
#[derive(Clone, Debug)]
pub struct Files {
    /// The machine file.
    pub machine: String,
    /// The job file; none without processes.
    pub job: Option<String>,
    /// The static reference.
    pub reference: String,
    /// The preset that the machine was booted with.
    pub nearest: Nearest,
    /// What its boot gives, beside what the kernel has.
    pub figures: Vec<Figure>,
}

/// Where the files will be: names go into them.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// The machine file.
    pub machine: &'a str,
    /// The job file.
    pub job: &'a str,
    /// The machine's file from that of the job; none: the job names no machine.
    pub machine_of_job: Option<&'a str>,
    /// The static reference.
    pub reference: &'a str,
}

/// Looks at a kernel and its processes.
///
/// # Errors
/// If there is no kernel to look at, a text of it is not what it should be, or a process that was named is not there.
pub fn capture(source: &Source, wanted: &Wanted) -> Result<Capture, InputError> {
    let mut notes = Vec::new();
    // What there is no capture without is looked at before anybody waits.
    System::read(source, &mut Vec::new())?;
    let is_watching = !source.is_recorded() && !wanted.watch.is_zero();
    let (own_pid, user) = process::own(source);
    let began = Instant::now();
    let mut watched = Vec::new();
    let pids = match wanted.pids.is_empty() {
        true => process::all(source),
        false => {
            let mut pids = wanted.pids.clone();
            pids.sort_unstable();
            pids.dedup();
            pids
        }
    };
    for pid in pids {
        let is_named = !wanted.pids.is_empty();
        if !is_named
            && (own_pid == Some(pid) || process::owner(source, pid) != user && user.is_some())
        {
            continue;
        }
        match process::look(source, pid)? {
            Some(look) => watched.push((pid, began.elapsed(), look)),
            None if is_named => {
                let reason =
                    format!("no process {pid}, or it is the kernel's and has no memory of its own");
                return Err(InputError::whole("--pid", reason));
            }
            None => {}
        }
    }
    let first_vmstat = vmstat(source, &mut notes);
    let mut processes: Vec<Process> = watched
        .into_iter()
        .map(|(pid, at, first)| Process {
            pid,
            comm: process::comm(source, pid),
            anon_max: first.memory.anon,
            last: first.clone(),
            first,
            // Until the last look: when the first one was.
            seconds: at.as_secs_f64(),
        })
        .collect();
    if is_watching {
        watch(source, wanted, began, &mut processes, &mut notes)?;
    } else {
        since_they_began(source, &mut processes);
    }
    let seconds = began.elapsed().as_secs_f64();
    let last_vmstat = if is_watching { vmstat(source, &mut Vec::new()) } else { None };
    let system = System::read(source, &mut notes)?;
    let nr_left_out = choose(&mut processes, !wanted.pids.is_empty());
    for process in processes.iter().filter(|process| process.last.io.is_none()) {
        let (pid, comm) = (process.pid, &process.comm);
        notes.push(format!("process {pid} ({comm}): its reads and writes are not ours to see"));
    }
    Ok(Capture {
        system,
        processes,
        nr_left_out,
        watched: is_watching.then_some(seconds),
        vmstat: first_vmstat.zip(last_vmstat).map(|(first, last)| [first, last]),
        notes,
    })
}

fn vmstat(source: &Source, notes: &mut Vec<String>) -> Option<Vmstat> {
    let text = source.text_or_note("proc/vmstat", "counters are not known", notes)?;
    let parsed = Vmstat::parse(&source.name("proc/vmstat"), text.as_bytes());
    parsed.map_err(|error| notes.push(error.to_string())).ok()
}

/// Looks again and again until the time is over. A process that ended stays as it was last seen.
fn watch(
    source: &Source,
    wanted: &Wanted,
    began: Instant,
    processes: &mut [Process],
    notes: &mut Vec<String>,
) -> Result<(), InputError> {
    let firsts: Vec<f64> = processes.iter().map(|process| process.seconds).collect();
    let mut gone = vec![false; processes.len()];
    loop {
        let left = wanted.watch.saturating_sub(began.elapsed());
        thread::sleep(left.min(wanted.every.max(Duration::from_millis(1))));
        for ((process, first), gone) in processes.iter_mut().zip(&firsts).zip(&mut gone) {
            if *gone {
                continue;
            }
            let look = process::look(source, process.pid)?;
            // A number may have gone to somebody else.
            let Some(look) = look.filter(|look| look.began_ticks == process.first.began_ticks)
            else {
                *gone = true;
                let (pid, comm) = (process.pid, &process.comm);
                notes.push(format!("process {pid} ({comm}) ended: it is told as it was last seen"));
                continue;
            };
            process.anon_max = process.anon_max.max(look.memory.anon);
            process.last = look;
            process.seconds = began.elapsed().as_secs_f64() - first;
        }
        if left.is_zero() || began.elapsed() >= wanted.watch {
            // A process that was seen once only has no rates.
            for (process, first) in processes.iter_mut().zip(&firsts) {
                if process.last == process.first && process.seconds == *first {
                    process.seconds = 0.0;
                }
            }
            return Ok(());
        }
    }
}

/// All that a process ever did, over its life.
fn since_they_began(source: &Source, processes: &mut [Process]) {
    let uptime = process::uptime(source).unwrap_or(0.0);
    for process in processes {
        process.seconds = (uptime - process::began(&process.last)).max(0.0);
        let io = process.last.io.map(|_| Io::default());
        let began_ticks = process.last.began_ticks;
        process.first = Look { io, began_ticks, ..Look::default() };
    }
}

/// Keeps what is worth a task, the largest first. How many were too many.
fn choose(processes: &mut Vec<Process>, are_named: bool) -> usize {
    processes.sort_by_key(|process| (std::cmp::Reverse(process.last.memory.rss), process.pid));
    if are_named {
        return 0;
    }
    processes
        .retain(|process| process.last.memory.rss >= RSS_LEAST || process.cpus() >= CPUS_LEAST);
    let nr_left_out = processes.len().saturating_sub(PROCESSES_MAX);
    processes.truncate(PROCESSES_MAX);
    nr_left_out
}

impl Capture {
    /// Writes the three texts, and boots the machine that one of them describes.
    ///
    /// # Errors
    /// If there can be no such machine here.
    pub fn files(&self, names: Names<'_>) -> Result<Files, InputError> {
        let nearest = Nearest::to(&self.system.kernel);
        let policy = policy_file::load(nearest.preset)?;
        let reference = reference::of(self, &policy, names.reference)?;
        let text = reference::to_json(&reference);
        // What is written is what will be read: nothing that cannot be is written.
        let Reference::Static(captured) = Reference::parse(names.reference, text.as_bytes())?
        else {
            return Err(InputError::whole(names.reference, "not a static reference"));
        };
        let machine = machine::to_toml(&self.system, &captured)?;
        let shape = MachineFile::parse(names.machine, &machine)?;
        let figures = static_machine::compare(names.machine, &shape.machine, &policy, &captured)?;
        let job = match self.processes.is_empty() {
            true => None,
            false => Some(job::to_toml(self, names, nearest)?),
        };
        Ok(Files { machine, job, reference: text, nearest, figures })
    }

    /// By how much a counter grew in a second; none if it is not known.
    fn counted(&self, name: &str) -> Option<f64> {
        let [first, last] = self.vmstat.as_ref()?;
        let grown = last.get(name)?.saturating_sub(first.get(name)?);
        self.watched.filter(|seconds| *seconds > 0.0).map(|seconds| grown as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, rss: u64, cpu_ns: u64) -> Process {
        let memory = Memory { rss, ..Memory::default() };
        Process {
            pid,
            comm: "a".to_owned(),
            first: Look::default(),
            last: Look { memory, cpu_ns, ..Look::default() },
            anon_max: 0,
            seconds: 1.0,
        }
    }

    #[test]
    fn the_largest_are_taken_and_the_rest_is_counted() {
        let mut all: Vec<Process> = (1..=20).map(|n| process(n, u64::from(n) << 20, 0)).collect();
        all.push(process(21, 0, 10_000_000));
        // 4 to 20 MiB are 17, and one that runs.
        assert_eq!(choose(&mut all, false), 6);
        assert_eq!(all.len(), PROCESSES_MAX);
        assert_eq!((all[0].pid, all[11].pid), (20, 9));
        let mut named = vec![process(1, 0, 0)];
        assert_eq!((choose(&mut named, true), named.len()), (0, 1));
    }
}
