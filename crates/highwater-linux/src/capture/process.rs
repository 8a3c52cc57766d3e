//! The kernel's report of processes: memory, CPU time, reads and writes, faults.
//!
//! A [`Look`] is the state at one moment. A [`Process`] has the first and the last look of a
//! capture, the largest memory in between, and rates. In a recorded tree, or with zero seconds to
//! watch, rates are averages since the process began.

use std::collections::BTreeMap;

use super::Source;
use super::files::{self, Open, Uses};
use super::proc::sizes;
use super::smaps::{self, Area, Kind};
use super::working_set::WorkingSet;
use highwater_files::input::InputError;

/// Clock ticks a second in `/proc/PID/stat`, on every machine.
const TICKS_PER_SECOND: u64 = 100;
const NS_PER_TICK: u64 = 1_000_000_000 / TICKS_PER_SECOND;
const KIB: u64 = 1024;
/// A thread is busy if it ran at least this fraction (1/n) of the busiest thread's time.
const BUSY_PART: u64 = 10;
/// The name of shared memory that is known only as a sum.
pub(super) const SUMS: &str = "shared memory, known only as a sum";

/// Bytes of memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// In memory, all together.
    pub rss: u64,
    /// Private memory, in memory.
    pub anon: u64,
    /// Its share of `anon`: a page that a fork left to several processes counts once among all of
    /// them.
    pub anon_share: u64,
    /// Private memory, in swap.
    pub swap: u64,
    /// Mapped files, in memory.
    pub file: u64,
    /// Shared memory that is mapped, in memory.
    pub shared: u64,
    /// Its share of files and shared memory: a page that several processes map counts once among
    /// all of them.
    pub pss: u64,
    /// The part of `anon` in huge pages.
    pub huge: u64,
    /// Mlocked bytes.
    pub locked: u64,
}

/// Bytes and calls of reads and writes since a process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Io {
    /// Bytes that calls read from files, sockets and everything else.
    pub read_chars: u64,
    /// Bytes that calls wrote to files, sockets and everything else.
    pub written_chars: u64,
    /// Calls that read.
    pub reads: u64,
    /// Calls that wrote.
    pub writes: u64,
    /// Bytes read from a disk.
    pub disk_read: u64,
    /// Bytes for a disk.
    pub disk_written: u64,
}

/// The proc file from which a process's mappings were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Told {
    /// `smaps`: VMA by VMA.
    #[default]
    Smaps,
    /// `smaps_rollup`: sums, with the shares of files and shared memory.
    Rollup,
    /// `status`, readable by everybody: sums.
    Status,
}

/// A process at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Memory.
    pub memory: Memory,
    /// The same, by mapping.
    pub areas: Vec<Area>,
    /// The source of these figures.
    pub told: Told,
    /// Open files; `None` without permission.
    pub open: Option<Open>,
    /// Nanoseconds that each thread ran, by number.
    pub ran_ns: BTreeMap<u32, u64>,
    /// Reads and writes; `None` without permission.
    pub io: Option<Io>,
    /// CPU time of all threads.
    pub cpu_ns: u64,
    /// Time that threads waited for a CPU.
    pub waited_ns: u64,
    /// Minor faults.
    pub faults: u64,
    /// Major faults.
    pub major_faults: u64,
    /// Threads.
    pub threads: u64,
    /// Start time in ticks since boot; it identifies the process together with its PID.
    pub began_ticks: u64,
}

/// A process of a capture.
#[derive(Clone, Debug, PartialEq)]
pub struct Process {
    /// PID.
    pub pid: u32,
    /// The name in `comm`.
    pub comm: String,
    /// At the beginning of the capture, or of the process.
    pub first: Look,
    /// At the end.
    pub last: Look,
    /// The largest private memory of all looks.
    pub anon_max: u64,
    /// Files that were open in any look, and how they were used.
    pub uses: Uses,
    /// Memory that it touched in an interval, if measured.
    pub working_set: Option<WorkingSet>,
    /// Seconds from the first look to the last.
    pub seconds: f64,
    /// The text of its `cgroup` when the capture began; empty if it cannot be read.
    pub cgroup: String,
    /// Its memory cgroup, by number; `None`: the root, or none that is known.
    pub group: Option<usize>,
}

impl Process {
    /// A process with one look.
    pub(super) fn new(pid: u32, comm: String, first: Look, seconds: f64) -> Process {
        let mut uses = Uses::default();
        first.open.iter().for_each(|open| uses.add(None, open));
        Process {
            pid,
            comm,
            anon_max: first.memory.anon,
            last: first.clone(),
            first,
            uses,
            working_set: None,
            seconds,
            cgroup: String::new(),
            group: None,
        }
    }

    /// Adds a look.
    pub(super) fn seen(&mut self, look: Look) {
        self.anon_max = self.anon_max.max(look.memory.anon);
        if let Some(open) = &look.open {
            self.uses.add(self.last.open.as_ref(), open);
        }
        self.last = look;
    }

    /// Replaces the mappings of the last look.
    pub(super) fn has_now(&mut self, areas: Vec<Area>) {
        self.last.memory = Memory { locked: self.last.memory.locked, ..memory(&areas) };
        self.anon_max = self.anon_max.max(self.last.memory.anon);
        self.last.areas = areas;
    }

    /// Threads that deserve a task: those that ran at least a tenth of the busiest thread's time.
    pub fn busy_threads(&self) -> usize {
        let ran = |(thread, ran): (&u32, &u64)| {
            ran.saturating_sub(self.first.ran_ns.get(thread).copied().unwrap_or(0))
        };
        let ran: Vec<u64> = self.last.ran_ns.iter().map(ran).collect();
        let most = ran.iter().copied().max().unwrap_or(0);
        ran.iter().filter(|ran| most > 0 && **ran >= most / BUSY_PART).count()
    }

    /// Growth of a value per second.
    pub fn rate(&self, of: impl Fn(&Look) -> u64) -> f64 {
        match self.seconds > 0.0 {
            true => of(&self.last).saturating_sub(of(&self.first)) as f64 / self.seconds,
            false => 0.0,
        }
    }

    /// CPUs that it kept busy.
    pub fn cpus(&self) -> f64 {
        self.rate(|look| look.cpu_ns) / 1e9
    }

    /// The same for reads and writes; `None` if unknown.
    pub fn io_rate(&self, of: impl Fn(&Io) -> u64) -> Option<f64> {
        let last = self.last.io.as_ref().map(&of)?;
        let first = self.first.io.as_ref().map(&of)?;
        Some(match self.seconds > 0.0 {
            true => last.saturating_sub(first) as f64 / self.seconds,
            false => 0.0,
        })
    }
}

/// Seconds since boot.
pub(super) fn uptime(source: &Source) -> Option<f64> {
    source.word("proc/uptime")?.split_whitespace().next()?.parse().ok()
}

/// The PID of this process, and its user.
pub(super) fn own(source: &Source) -> (Option<u32>, Option<u32>) {
    match source.is_recorded() {
        true => (None, None),
        false => {
            let status = source.text("proc/self/status").unwrap_or_default();
            (Some(std::process::id()), user(&status))
        }
    }
}

/// PIDs of all processes.
pub(super) fn all(source: &Source) -> Vec<u32> {
    source.numbered("proc", "")
}

/// User of a process; `None` if the process is gone.
pub(super) fn owner(source: &Source, pid: u32) -> Option<u32> {
    user(&source.text(&format!("proc/{pid}/status")).ok()?)
}

/// The effective user of a `status`.
fn user(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// The name in `comm`.
pub(super) fn comm(source: &Source, pid: u32) -> String {
    source.word(&format!("proc/{pid}/comm")).unwrap_or_default()
}

/// A look at a process; `None` if it is gone, or is a kernel thread without an address space.
pub(super) fn look(source: &Source, pid: u32) -> Result<Option<Look>, InputError> {
    let file = |name: &str| format!("proc/{pid}/{name}");
    let (Ok(stat), Ok(status)) = (source.text(&file("stat")), source.text(&file("status"))) else {
        return Ok(None);
    };
    let stat = Stat::parse(&source.name(&file("stat")), &stat)?;
    let status = sizes(&source.name(&file("status")), &status)?;
    if !status.contains_key("VmRSS") {
        return Ok(None);
    }
    let (areas, told) = areas(source, pid, &status)?;
    let bytes = |name: &str| status.get(name).copied().unwrap_or(0).saturating_mul(KIB);
    let memory = Memory { locked: bytes("VmLck"), ..memory(&areas) };
    let io = match source.text(&file("io")) {
        Ok(text) => Some(Io::parse(&source.name(&file("io")), &text)?),
        Err(_) => None,
    };
    let (ran_ns, waited_ns) = schedule(source, pid);
    let ran = ran_ns.values().fold(0, |sum: u64, ran| sum.saturating_add(*ran));
    Ok(Some(Look {
        memory,
        areas,
        told,
        open: files::open(source, pid),
        io,
        // Ticks are coarse, but only they include threads that have ended.
        cpu_ns: ran.max(stat.cpu_ticks.saturating_mul(NS_PER_TICK)),
        waited_ns,
        ran_ns,
        faults: stat.faults,
        major_faults: stat.major_faults,
        threads: stat.threads,
        began_ticks: stat.began_ticks,
    }))
}

/// Start time of a process in ticks since boot; `None` if it is gone.
pub(super) fn began_ticks(source: &Source, pid: u32) -> Option<u64> {
    let path = format!("proc/{pid}/stat");
    Some(Stat::parse(&source.name(&path), &source.text(&path).ok()?).ok()?.began_ticks)
}

/// Start time of a process in seconds since boot.
pub(super) fn began(look: &Look) -> f64 {
    look.began_ticks as f64 / TICKS_PER_SECOND as f64
}

/// The mappings of a process, from the most detailed readable file.
pub(super) fn areas(
    source: &Source,
    pid: u32,
    status: &BTreeMap<String, u64>,
) -> Result<(Vec<Area>, Told), InputError> {
    let read = |name: &str| {
        let path = format!("proc/{pid}/{name}");
        let text = source.text(&path).ok().filter(|text| !text.trim().is_empty())?;
        Some((source.name(&path), text))
    };
    if let Some((file, text)) = read("smaps") {
        return Ok((smaps::areas(&file, &text)?, Told::Smaps));
    }
    match read("smaps_rollup") {
        Some((file, text)) => Ok((of_rollup(pid, &sizes(&file, &text)?), Told::Rollup)),
        None => Ok((of_status(pid, status), Told::Status)),
    }
}

/// Sums over mappings.
fn memory(areas: &[Area]) -> Memory {
    let sum = |kinds: &[Kind], of: fn(&Area) -> u64| {
        let areas = areas.iter().filter(|area| kinds.contains(&area.kind));
        areas.fold(0u64, |sum, area| sum.saturating_add(of(area)))
    };
    let all = [Kind::Anon, Kind::Shared, Kind::File];
    Memory {
        rss: sum(&all, |area| area.rss),
        anon: sum(&[Kind::Anon], |area| area.rss),
        anon_share: sum(&[Kind::Anon], |area| area.pss),
        swap: sum(&[Kind::Anon], |area| area.swap),
        file: sum(&[Kind::File], |area| area.rss),
        shared: sum(&[Kind::Shared], |area| area.rss),
        pss: sum(&[Kind::Shared, Kind::File], |area| area.pss),
        huge: sum(&all, |area| area.huge),
        locked: 0,
    }
}

/// One private mapping, one shared one and one of files, from the sums of a process.
fn of_sums(pid: u32, anon: Area, shared: [u64; 2], file: [u64; 2]) -> Vec<Area> {
    let area = |kind, key: &str, [rss, pss]: [u64; 2]| Area {
        size: rss,
        rss,
        pss,
        ..Area::new(kind, key, key)
    };
    let all = [
        anon,
        area(Kind::Shared, SUMS, shared),
        // The sum does not say which files, so it gets a key that no other process has.
        area(Kind::File, &format!("files of process {pid}"), file),
    ];
    all.into_iter().filter(|area| area.rss > 0 || area.swap > 0).collect()
}

/// Mappings from `status`, which everybody may read.
fn of_status(pid: u32, sizes: &BTreeMap<String, u64>) -> Vec<Area> {
    let bytes = |name: &str| sizes.get(name).copied().unwrap_or(0).saturating_mul(KIB);
    let anon = Area {
        rss: bytes("RssAnon"),
        pss: bytes("RssAnon"),
        swap: bytes("VmSwap"),
        ..Area::new(Kind::Anon, "", "")
    };
    of_sums(pid, anon, [bytes("RssShmem"), 0], [bytes("RssFile"), 0])
}

/// Mappings from `smaps_rollup`, which has only sums. For files and shared memory it has only the
/// share (`Pss`).
fn of_rollup(pid: u32, sizes: &BTreeMap<String, u64>) -> Vec<Area> {
    let bytes = |name: &str| sizes.get(name).copied().unwrap_or(0).saturating_mul(KIB);
    let anon = Area {
        rss: bytes("Anonymous"),
        pss: sizes.get("Pss_Anon").map_or(bytes("Anonymous"), |kib| kib.saturating_mul(KIB)),
        swap: bytes("Swap"),
        huge: bytes("AnonHugePages"),
        ..Area::new(Kind::Anon, "", "")
    };
    let (file, shared) = match sizes.contains_key("Pss_File") {
        true => ([bytes("Pss_File"); 2], [bytes("Pss_Shmem"); 2]),
        false => ([bytes("Rss").saturating_sub(bytes("Anonymous")), 0], [0; 2]),
    };
    let mut areas = of_sums(pid, anon, shared, file);
    // Referenced pages are one sum too: divide it in proportion to size.
    let (rss, referenced) = (bytes("Rss").max(1), bytes("Referenced"));
    for area in &mut areas {
        area.referenced = (u128::from(referenced) * u128::from(area.rss) / u128::from(rss)) as u64;
    }
    areas
}

/// Nanoseconds that each thread ran, and the total wait for a CPU; empty if the kernel does not
/// count them.
fn schedule(source: &Source, pid: u32) -> (BTreeMap<u32, u64>, u64) {
    let (mut ran, mut waited) = (BTreeMap::new(), 0u64);
    for thread in source.numbered(&format!("proc/{pid}/task"), "") {
        let Some(text) = source.word(&format!("proc/{pid}/task/{thread}/schedstat")) else {
            continue;
        };
        let mut words = text.split_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
        ran.insert(thread, words.next().unwrap_or(0));
        waited = waited.saturating_add(words.next().unwrap_or(0));
    }
    (ran, waited)
}

/// The used fields of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    faults: u64,
    major_faults: u64,
    cpu_ticks: u64,
    threads: u64,
    began_ticks: u64,
}

impl Stat {
    /// Fields are counted after the name, because the name may contain blanks and brackets.
    fn parse(file: &str, text: &str) -> Result<Stat, InputError> {
        let (_, rest) = text
            .rsplit_once(')')
            .ok_or_else(|| InputError::whole(file, "no name in brackets in it"))?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        // The first field after the name is field 3 of the file.
        let field = |nr: usize, name: &str| {
            let word = words.get(nr - 3).copied().unwrap_or_default();
            word.parse::<u64>().map_err(|_| InputError {
                field: Some(name.to_owned()),
                ..InputError::whole(file, format!("\"{word}\" (field {nr}) is no number"))
            })
        };
        Ok(Stat {
            faults: field(10, "minflt")?,
            major_faults: field(12, "majflt")?,
            cpu_ticks: field(14, "utime")?.saturating_add(field(15, "stime")?),
            threads: field(20, "num_threads")?,
            began_ticks: field(22, "starttime")?,
        })
    }
}

impl Io {
    fn parse(file: &str, text: &str) -> Result<Io, InputError> {
        let mut io = Io::default();
        for (at, line) in text.lines().enumerate() {
            let Some((name, value)) = line.split_once(':') else { continue };
            let field = match name {
                "rchar" => &mut io.read_chars,
                "wchar" => &mut io.written_chars,
                "syscr" => &mut io.reads,
                "syscw" => &mut io.writes,
                "read_bytes" => &mut io.disk_read,
                "write_bytes" => &mut io.disk_written,
                _ => continue,
            };
            let value = value.trim();
            *field = value.parse().map_err(|_| InputError {
                file: file.to_owned(),
                line: Some(at + 1),
                field: Some(name.to_owned()),
                reason: format!("\"{value}\" is no number"),
            })?;
        }
        Ok(io)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "17 (a) b (c) S 1 17 17 0 -1 4194304 108 5 3 0 40 60 1 2 20 0 8 0 2865 313 357 1";

    #[test]
    fn stat_is_read_behind_the_name() {
        let stat = Stat::parse("f", STAT).unwrap();
        let expected =
            Stat { faults: 108, major_faults: 3, cpu_ticks: 100, threads: 8, began_ticks: 2865 };
        assert_eq!(stat, expected);
        let error = |text: &str| Stat::parse("f", text).unwrap_err().to_string();
        assert_eq!(
            error(&STAT.replace(" 40 ", " many ")),
            "f: utime: \"many\" (field 14) is no number"
        );
        assert_eq!(error("17"), "f: no name in brackets in it");
        assert!(error("17 (a) S").starts_with("f: minflt: "), "{}", error("17 (a) S"));
    }

    #[test]
    fn io_is_read_by_name() {
        let io = Io::parse("f", "rchar: 9\nsyscr: 2\nread_bytes: 4096\nnew: x\n").unwrap();
        assert_eq!((io.read_chars, io.reads, io.disk_read, io.writes), (9, 2, 4096, 0));
        let error = Io::parse("f", "rchar: 9\nwchar: y\n").unwrap_err().to_string();
        assert_eq!(error, "f:2: wchar: \"y\" is no number");
    }

    #[test]
    fn rates_are_of_what_grew() {
        let look = |cpu_ns, reads| Look {
            cpu_ns,
            io: Some(Io { reads, ..Io::default() }),
            ..Look::default()
        };
        let mut process = Process::new(1, "a".to_owned(), look(1_000_000_000, 10), 4.0);
        process.seen(look(3_000_000_000, 50));
        assert_eq!((process.cpus(), process.io_rate(|io| io.reads)), (0.5, Some(10.0)));
        process.first.io = None;
        assert_eq!(process.io_rate(|io| io.reads), None);
        process.seconds = 0.0;
        assert_eq!(process.cpus(), 0.0);
    }

    #[test]
    fn threads_at_work_are_those_that_ran() {
        let look =
            |ran: &[(u32, u64)]| Look { ran_ns: ran.iter().copied().collect(), ..Look::default() };
        // Redis: one thread serves, one closes files now and then, two are idle.
        let redis = [(1, 1_000_000), (2, 20_000), (3, 0), (4, 0)];
        let mut process = Process::new(1, "a".to_owned(), Look::default(), 1.0);
        assert_eq!(process.busy_threads(), 0);
        process.seen(look(&redis));
        assert_eq!(process.busy_threads(), 1);
        process.seen(look(&[(1, 900), (2, 500), (3, 100), (4, 89)]));
        assert_eq!(process.busy_threads(), 3);
    }

    #[test]
    fn sums_are_areas_too() {
        let map = |list: &[(&str, u64)]| list.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect();
        let new = of_rollup(
            7,
            &map(&[
                ("Rss", 100),
                ("Anonymous", 40),
                ("Pss_File", 5),
                ("Pss_Shmem", 9),
                ("Swap", 1),
                ("Referenced", 50),
            ]),
        );
        let found = memory(&new);
        assert_eq!(
            (found.anon, found.file, found.shared, found.swap),
            (40 * KIB, 5 * KIB, 9 * KIB, KIB)
        );
        assert_eq!((new[0].referenced, new[1].key.as_str()), (20 * KIB, SUMS));
        let old = memory(&of_rollup(7, &map(&[("Rss", 100), ("Anonymous", 40)])));
        assert_eq!((old.file, old.pss), (60 * KIB, 0));
        let status = memory(&of_status(
            7,
            &map(&[("RssAnon", 3), ("RssFile", 4), ("RssShmem", 5), ("VmSwap", 6)]),
        ));
        assert_eq!(
            (status.anon, status.file, status.shared, status.swap),
            (3 * KIB, 4 * KIB, 5 * KIB, 6 * KIB)
        );
    }
}
