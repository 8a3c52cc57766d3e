//! A capture of a running Linux: its machine, the work of its processes, and the sizes that its
//! kernel computed.
//!
//! ```text
//!  Source ──▶ proc         the machine             ──▶ machine    a machine file
//!        ├──▶ select       which processes             └▶ reference  what `highwater check` reads
//!        ├──▶ process      looks at them: smaps, files
//!        ├──▶ memcg        their memory cgroups
//!        └──▶ working_set  what they touch         ──▶ flows ──▶ job  a job file
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`Source`] | the tree with `proc` and `sys`: the running kernel's, or a recorded one |
//! | [`proc`] | zones, nodes, CPUs, caches, disks, swap, settings |
//! | `select` | processes by number, name or control group |
//! | [`process`] | memory, CPU time, reads, writes and faults of processes |
//! | `smaps` | VMAs, added up by mapping: private memory, shared memory, files |
//! | `files` | open files: descriptors, positions, how they were opened |
//! | `working_set` | memory touched in an interval |
//! | `flows` | which of the bytes read and written belong to files |
//! | [`memcg`] | memory cgroups of the processes: settings, memory, what of it is in the job |
//! | [`settings`] | sysctls: Linux's names and the machine's keys |
//! | [`kernel`] | the kernel's version, and the preset nearest to it |
//! | [`at_boot`] | managed pages of zones when their sizes were computed |
//! | [`before_managed`] | zones of kernels before 3.9 |
//! | [`min_free`] | `vm.min_free_kbytes` where the kernel does not say it |
//! | [`machine`], [`job`], [`reference`](mod@reference) | the three files |
//! | `verdict` | the kernel's sizes beside the model's, as a table |
//!
//! A file that cannot be read is left out, and a note says so ([`Capture::notes`]). Without
//! `/proc/zoneinfo` there is no capture.

mod at_boot;
mod before_managed;
pub(crate) mod booted;
pub(crate) mod captured;
mod files;
mod flows;
mod job;
mod kernel;
mod machine;
mod memcg;
mod min_free;
mod proc;
mod process;
mod reference;
mod select;
pub(crate) mod settings;
pub(crate) mod sizes;
mod smaps;
mod source;
mod verdict;
mod working_set;

use std::thread;
use std::time::{Duration, Instant};

use highwater_core::config::{Policy, Tunables};
use highwater_core::page::{MAX_ORDER, PAGEBLOCK_ORDER};
use highwater_results::import::proc::{Buddyinfo, Vmstat, ZoneinfoPageset, ZoneinfoZone};

pub use files::{Open, OpenFile, Used, Uses};
pub(crate) use kernel::{Judged, ZoneLines, judged_by};
pub use kernel::{KernelVersion, Nearest};
pub use memcg::{Group, Groups, Mount, Parts, Usage};
pub(crate) use proc::lru_gen_bits;
pub use proc::{Caches, Disk, SwapArea, System};
pub use process::{Io, Look, Memory, Process, Told};
pub use smaps::{Area, Kind};
pub use source::Source;
pub use working_set::{Touching, WorkingSet};

use self::booted::Compared;
use self::sizes::{SizedList, SizedMachine, SizedZone};
use crate::figure::Figure;
use highwater_files::input::InputError;
use highwater_files::machine_file::MachineFile;
use highwater_report::Table;
use highwater_results::import::linux61::{Reference, Static};
use memcg::Strictness;
use min_free::MinFree;

/// Most processes that are captured, unless the user names them.
const PROCESSES_MAX: usize = 12;
/// Less memory than this is not worth a task, unless the process runs.
const RSS_LEAST: u64 = 4 << 20;
/// Nor is less of a CPU.
const CPUS_LEAST: f64 = 0.005;

/// The options of a capture.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Processes by number; if empty, this user's processes that use memory or CPU time.
    pub pids: Vec<u32>,
    /// Processes by name, as `/proc/PID/comm` has it.
    pub comms: Vec<String>,
    /// Processes of a control group and of the groups below it, by its directory or its path.
    pub cgroups: Vec<String>,
    /// Processes of a systemd unit, by its name; `.service`, `.scope` or `.slice` may be missing.
    pub units: Vec<String>,
    /// How long memory touches are measured; zero: they are guessed.
    pub working_set: Duration,
    /// How long to watch them; zero: averages since each began.
    pub watch: Duration,
    /// Time between looks.
    pub every: Duration,
    /// The machine alone.
    pub no_processes: bool,
}

impl Wanted {
    /// Somebody said which processes.
    fn is_selected(&self) -> bool {
        !(self.pids.is_empty() && self.comms.is_empty()) || self.names_groups()
    }

    /// Somebody named a control group.
    fn names_groups(&self) -> bool {
        !(self.cgroups.is_empty() && self.units.is_empty())
    }
}

/// The result of a capture.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The machine.
    pub system: System,
    /// Its processes, the largest first.
    pub processes: Vec<Process>,
    /// Their memory cgroups.
    pub groups: Groups,
    /// Processes that would have deserved a task, but exceed the limit.
    pub nr_left_out: usize,
    /// Seconds of watching; `None`: rates are averages since each process began.
    pub watched: Option<f64>,
    /// Counters of `/proc/vmstat` at the beginning and at the end.
    vmstat: Option<[Vmstat; 2]>,
    /// Unknown facts, one line each.
    pub notes: Vec<String>,
    /// Measured costs of operations, if wanted.
    pub costs: Option<MeasuredCosts>,
}

/// Costs and a disk that were measured on the captured computer.
#[derive(Clone, Debug)]
pub struct MeasuredCosts {
    /// The file of costs, by its path from the machine file.
    pub file: String,
    /// The figures of a disk.
    pub disk: Option<MeasuredDisk>,
}

/// Measured figures of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasuredDisk {
    /// The disk, as the kernel calls it.
    pub name: String,
    /// Lines of its section in a machine file; a solid-state model has them.
    pub lines: Vec<String>,
    /// Their source.
    pub source: String,
}

/// The three files as texts, each parsed again as a check.
#[derive(Clone, Debug)]
pub struct Files {
    /// The machine file; `None` if the model cannot represent the machine.
    pub machine: Option<String>,
    /// The job file; `None` without processes or machine.
    pub job: Option<String>,
    /// A line for each guess in the job.
    pub guesses: Vec<String>,
    /// The static reference; `None` if it cannot hold the machine's zones or pages.
    pub reference: Option<String>,
    /// Why there is no machine file.
    pub not_modelled: Option<String>,
    /// The sizes that the kernel computed, compared with the model's sizes for the same zones.
    pub verdict: Verdict,
}

/// The sizes that a kernel computed, compared with the model's sizes for the same zones.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The preset whose rules apply.
    pub nearest: Nearest,
    /// Every figure.
    pub figures: Vec<Figure>,
    /// Remarks about them.
    pub notes: Vec<String>,
}

/// Where the files will be: names go into them.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// The machine file.
    pub machine: &'a str,
    /// The job file.
    pub job: &'a str,
    /// Path of the machine file as the job file names it; `None`: the job names no machine.
    pub machine_of_job: Option<&'a str>,
    /// The static reference.
    pub reference: &'a str,
}

/// Looks at a kernel and its processes.
///
/// # Errors
/// If there is no kernel to look at, a file cannot be parsed, or a named process does not exist.
pub fn capture(source: &Source, wanted: &Wanted) -> Result<Capture, InputError> {
    let mut notes = Vec::new();
    // Check the required files before waiting for the watch to end.
    System::read(source, &mut Vec::new())?;
    let is_watching = !source.is_recorded() && !wanted.watch.is_zero();
    let (own_pid, user) = process::own(source);
    let began = Instant::now();
    let mut watched = Vec::new();
    let pids = match wanted.no_processes {
        true => Vec::new(),
        false => select::pids(source, wanted)?,
    };
    for pid in pids {
        let is_named = wanted.is_selected();
        if !is_named
            && (own_pid == Some(pid) || process::owner(source, pid) != user && user.is_some())
        {
            continue;
        }
        match process::look(source, pid)? {
            Some(look) => watched.push((pid, began.elapsed(), look)),
            None if wanted.pids.contains(&pid) => {
                let reason = format!(
                    "no process {pid}, or it is a kernel thread, which has no address space"
                );
                return Err(InputError::whole("--pid", reason));
            }
            None if is_named => {
                notes.push(format!("process {pid} is left out: it ended, or is the kernel's"))
            }
            None => {}
        }
    }
    if wanted.is_selected() && watched.is_empty() {
        let reason = "all processes that match ended, or are the kernel's";
        return Err(InputError::whole("capture", reason));
    }
    let first_vmstat = match wanted.no_processes {
        true => None,
        false => vmstat(source, &mut notes),
    };
    let mut processes: Vec<Process> = watched
        .into_iter()
        // Until the last look the third field is the time of the first.
        .map(|(pid, at, first)| {
            let process = Process::new(pid, process::comm(source, pid), first, at.as_secs_f64());
            let cgroup = source.text(&format!("proc/{pid}/cgroup")).unwrap_or_default();
            Process { cgroup, ..process }
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
    let nr_left_out = choose(&mut processes, wanted.is_selected());
    if !wanted.working_set.is_zero() {
        working_set::measure(source, wanted.working_set, &mut processes, &mut notes);
    }
    let strictness = if wanted.names_groups() { Strictness::Fails } else { Strictness::Notes };
    let mut groups = memcg::gather(source, strictness, &system, &mut processes)?;
    if groups.is_empty() {
        notes.append(&mut groups.notes);
    }
    notes.extend(processes.iter().filter_map(|process| unseen(process, source.is_recorded())));
    Ok(Capture {
        system,
        processes,
        groups,
        nr_left_out,
        watched: is_watching.then_some(seconds),
        vmstat: first_vmstat.zip(last_vmstat).map(|(first, last)| [first, last]),
        notes,
        costs: None,
    })
}

/// A note about files of a process that could not be read; `None` if all could.
fn unseen(process: &Process, is_recorded: bool) -> Option<String> {
    let (pid, comm) = (process.pid, &process.comm);
    let last = &process.last;
    let lost = [
        ("its maps (smaps)", last.told == Told::Status),
        ("its reads and writes (io)", last.io.is_none()),
        ("its open files (fd)", last.open.is_none()),
    ];
    let lost: Vec<&str> = lost.iter().filter(|(_, is)| *is).map(|(what, _)| *what).collect();
    let why = match is_recorded {
        true => "are not in the tree",
        false => "may only be read by its user, or root",
    };
    (!lost.is_empty()).then(|| format!("process {pid} ({comm}): {} {why}", lost.join(", ")))
}

fn vmstat(source: &Source, notes: &mut Vec<String>) -> Option<Vmstat> {
    let text = source.text_or_note("proc/vmstat", "counters are not known", notes)?;
    let parsed = Vmstat::parse(&source.name("proc/vmstat"), text.as_bytes());
    parsed.map_err(|error| notes.push(error.to_string())).ok()
}

/// Looks repeatedly until the time is over. A process that ended keeps its last look.
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
            // The PID may have been reused by another process.
            let Some(look) = look.filter(|look| look.began_ticks == process.first.began_ticks)
            else {
                *gone = true;
                let (pid, comm) = (process.pid, &process.comm);
                notes.push(format!(
                    "process {pid} ({comm}) ended: it is in the job as it was last seen"
                ));
                continue;
            };
            process.seen(look);
            process.seconds = began.elapsed().as_secs_f64() - first;
        }
        if left.is_zero() || began.elapsed() >= wanted.watch {
            // A process that was seen only once has no rates.
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
        process.uses = Uses::default();
        // All its open files were opened during its life.
        process.last.open.iter().for_each(|open| process.uses.add(Some(&Open::default()), open));
    }
}

/// Keeps the processes that deserve a task, the largest first. Returns how many exceed the limit.
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
    /// Name of the cost table that comes nearest to the computer, for what is not measured.
    pub fn base_of_costs(&self) -> &'static str {
        machine::costs(&self.system)
    }

    /// Writes the three texts, and boots the machine of the machine file.
    ///
    /// # Errors
    /// If such a machine cannot exist.
    pub fn files(&self, names: Names<'_>) -> Result<Files, InputError> {
        let not_modelled = self.system.not_modelled();
        let is_modelled = not_modelled.is_none();
        let (verdict, captured) = self.judged("proc/zoneinfo")?;
        let Some(captured) = captured else {
            let (machine, job, reference, guesses) = (None, None, None, Vec::new());
            return Ok(Files { machine, job, guesses, reference, not_modelled, verdict });
        };
        let reference = Some(reference::to_json(&captured));
        let machine = match is_modelled {
            // Every text is parsed as a user's file would be, so an invalid one is never written.
            true => {
                let text = machine::to_toml(&self.system, &captured, self.costs.as_ref())?;
                MachineFile::parse(names.machine, &text)?;
                Some(text)
            }
            false => None,
        };
        let (job, guesses) = match is_modelled && !self.processes.is_empty() {
            true => {
                let (text, guesses) = job::to_toml(self, names, verdict.nearest)?;
                (Some(text), guesses)
            }
            false => (None, Vec::new()),
        };
        Ok(Files { machine, job, guesses, reference, not_modelled, verdict })
    }

    /// The memory cgroups as a table; `None` if nothing is known of them.
    pub fn table_of_groups(&self) -> Option<Table> {
        self.groups.table(&job::names_of_groups(&self.groups))
    }

    /// The sizes that the kernel computed, compared with the model's sizes for its zones. `file`
    /// names the source in errors.
    ///
    /// # Errors
    /// If such a machine cannot exist.
    pub fn verdict(&self, file: &str) -> Result<Verdict, InputError> {
        Ok(self.judged(file)?.0)
    }

    /// The same, with the static reference if it can be made.
    fn judged(&self, file: &str) -> Result<(Verdict, Option<Static>), InputError> {
        let system = &self.system;
        let is_static =
            system.page_bytes == 4096 && system.zones.iter().all(|z| System::zone_name(z).is_ok());
        let judged = Judged { kernel: &system.kernel, lines: system.zone_lines() };
        let (nearest, (compared, captured)) = judged_by(judged, |policy| {
            if !is_static {
                let (sized, min_free) = self.sized(policy);
                let figures = sized.figures(policy);
                let mut notes = vec!["its sizes are computed, it cannot be booted".to_owned()];
                notes.extend(min_free.note());
                let compared = Compared { figures, notes };
                let nr_wrong = compared.nr_wrong();
                return Ok(((compared, None), nr_wrong));
            }
            let (reference, min_free) = reference::of(self, policy, file)?;
            let Reference::Static(captured) = reference::read(&reference, file)? else {
                return Err(InputError::whole(file, "not a static reference"));
            };
            let machine = booted::machine(file, &captured)?;
            let mut compared = booted::compare(file, &machine, policy, &captured)?;
            compared.notes.extend(min_free.note());
            let nr_wrong = compared.nr_wrong();
            Ok(((compared, Some(captured)), nr_wrong))
        })?;
        let mut notes = compared.notes;
        let order = system.pagetypeinfo.as_ref().map(|info| info.pageblock_order);
        if let Some(order) = order.filter(|order| *order != u64::from(PAGEBLOCK_ORDER)) {
            notes.push(format!(
                "pageblocks of this kernel are of order {order}, those of the model of order {PAGEBLOCK_ORDER}"
            ));
        }
        let nr_orders = system.buddyinfo.as_ref().map_or(MAX_ORDER, Buddyinfo::nr_orders);
        if nr_orders > MAX_ORDER {
            notes.push(format!(
                "this kernel has {nr_orders} orders of blocks, the model {MAX_ORDER}: larger free blocks are written as \
                 several of order {}",
                MAX_ORDER - 1
            ));
        }
        let nearest = nearest.reclaiming(system.has_mglru);
        Ok((Verdict { nearest, figures: compared.figures, notes }, captured))
    }

    /// The inputs of the sizes for a machine that cannot be booted.
    fn sized(&self, policy: &Policy) -> (SizedMachine, MinFree) {
        let system = &self.system;
        let number =
            |name: &str| system.settings.get(name).and_then(|text| text.parse::<u64>().ok());
        let usual = Tunables::default();
        let list = |set: &ZoneinfoPageset| SizedList {
            cpu: set.cpu,
            high: set.high_min.unwrap_or(set.high),
            batch: set.batch,
            threshold: set.stat_threshold,
        };
        let zone = |zone: &ZoneinfoZone| SizedZone {
            node: zone.node,
            name: zone.zone.clone(),
            at_boot: zone.managed,
            managed: zone.managed,
            marks: [zone.min, zone.low, zone.high].map(|mark| mark.saturating_sub(zone.boost)),
            protection: zone.protection.clone(),
            lists: zone.pagesets.iter().map(list).collect(),
        };
        let names = system.kernel_zones.iter().flat_map(|zones| zones.names());
        let mut sized = SizedMachine {
            page_bytes: system.page_bytes,
            nr_cpus: u64::from(system.nr_cpus),
            node_cpus: system.nodes.iter().map(|node| node.cpus.len() as u64).collect(),
            min_free_kbytes: 0,
            scale_factor: number("vm.watermark_scale_factor")
                .unwrap_or(usual.watermark_scale_factor),
            high_fraction: number("vm.percpu_pagelist_high_fraction").unwrap_or(0),
            kernel_zones: names.map(|name| (*name).to_owned()).collect(),
            ratios: system.reserve_ratio.clone(),
            zones: system.zones.iter().map(zone).collect(),
        };
        let min_free = MinFree::of(system, |min_free_kbytes| {
            let figures = SizedMachine { min_free_kbytes, ..sized.clone() }.figures(policy);
            figures.iter().filter(|figure| !figure.agrees).count() as u64
        });
        sized.min_free_kbytes = min_free.kbytes;
        (sized, min_free)
    }

    /// Growth of a counter per second; `None` if unknown.
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
        let mut process = Process::new(pid, "a".to_owned(), Look::default(), 1.0);
        process.seen(Look { memory, cpu_ns, ..Look::default() });
        process
    }

    #[test]
    fn the_largest_are_taken_and_the_rest_is_counted() {
        let mut all: Vec<Process> = (1..=20).map(|n| process(n, u64::from(n) << 20, 0)).collect();
        all.push(process(21, 0, 10_000_000));
        // 17 processes have 4 to 20 MiB, and one runs.
        assert_eq!(choose(&mut all, false), 6);
        assert_eq!(all.len(), PROCESSES_MAX);
        assert_eq!((all[0].pid, all[11].pid), (20, 9));
        let mut named = vec![process(1, 0, 0)];
        assert_eq!((choose(&mut named, true), named.len()), (0, 1));
    }
}
