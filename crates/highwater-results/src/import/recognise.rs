//! Recognises texts of Linux by content, so that an error can name a text that was given to the
//! wrong command.

use super::vmstat_log::is_bare_row;

/// A text of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelText {
    /// `/proc/zoneinfo`.
    Zoneinfo,
    /// `/proc/buddyinfo`.
    Buddyinfo,
    /// `/proc/pagetypeinfo`.
    PageTypeInfo,
    /// `/proc/vmstat`.
    Vmstat,
    /// `/proc/meminfo`.
    Meminfo,
    /// `/proc/slabinfo`.
    Slabinfo,
    /// `/proc/PID/smaps`, `/proc/PID/smaps_rollup`.
    Smaps,
    /// `/proc/PID/maps`.
    Maps,
    /// `/proc/PID/status`.
    Status,
    /// `/proc/PID/stat`.
    PidStat,
    /// `/proc/stat`.
    Stat,
    /// `/proc/pressure/memory`, or that of CPUs, disks or a cgroup.
    Pressure,
    /// `/proc/diskstats`.
    Diskstats,
    /// `/proc/swaps`.
    Swaps,
    /// `/proc/cpuinfo`.
    Cpuinfo,
    /// Output of the program `vmstat`.
    VmstatProgram,
    /// Output of the program `free`.
    FreeProgram,
    /// A kernel's log: `dmesg`, the journal.
    Log,
    /// Tracepoints as text: ftrace, `trace-cmd report`, `perf script`.
    Trace,
}

/// Number of lines examined.
const LINES: usize = 400;

/// Substrings that only a kernel log contains.
const OF_LOGS: [&str; 15] = [
    "invoked oom-killer",
    "page allocation failure",
    "page allocation stalls for",
    "vmalloc error: size",
    "vm_struct allocation failed",
    "SLUB: Unable to allocate memory",
    "Mem-Info:",
    "Out of memory: Kill",
    "Killed process",
    "oom-kill:constraint",
    "oom_reaper:",
    "lowmem_reserve[]:",
    "blocked for more than",
    "Call Trace:",
    "Hardware name:",
];

impl KernelText {
    /// Bytes at the start of a text that are enough to recognise it.
    pub const HEAD_BYTES: usize = 1 << 16;

    /// Recognises a text by its first bytes; see [`KernelText::of`].
    #[must_use]
    pub fn of_bytes(text: &[u8]) -> Option<KernelText> {
        let head = &text[..text.len().min(KernelText::HEAD_BYTES)];
        KernelText::of(&String::from_utf8_lossy(head))
    }

    /// Recognises a text; none if it is not a known text of Linux.
    #[must_use]
    pub fn of(text: &str) -> Option<KernelText> {
        // Lines without the marks that a mail or an editor puts before them.
        let lines = || {
            let lines = text.trim_start_matches('\u{feff}').lines().take(LINES);
            let bare = lines.map(|line| {
                let line = super::proc::unquoted(line);
                super::proc::unnamed(line).map_or(line, |(_, rest)| rest)
            });
            bare.map(str::trim).filter(|line| !line.is_empty())
        };
        let any = |test: &dyn Fn(&str) -> bool| lines().any(test);
        if any(&|line| line.starts_with("# tracer:") || is_event(line)) {
            return Some(KernelText::Trace);
        }
        if any(&|line| OF_LOGS.iter().any(|part| line.contains(part))) {
            return Some(KernelText::Log);
        }
        if any(&|line| line.starts_with("Free pages count per migrate type")) {
            return Some(KernelText::PageTypeInfo);
        }
        if any(&|line| line.starts_with("pages free ")) && any(&|line| zone(line) == Some(0)) {
            return Some(KernelText::Zoneinfo);
        }
        if any(&|line| zone(line).is_some_and(|numbers| numbers > 4)) {
            return Some(KernelText::Buddyinfo);
        }
        let first = lines().find(|line| !line.starts_with(['#', '$']))?;
        if first.starts_with("slabinfo - version") {
            return Some(KernelText::Slabinfo);
        }
        if any(&|line| line.starts_with("MemTotal:") && line.ends_with("kB")) {
            return Some(KernelText::Meminfo);
        }
        if any(&|line| counter(line) == Some("nr_free_pages")) && counter(first).is_some() {
            return Some(KernelText::Vmstat);
        }
        // Both may come after a time, and together.
        if any(&is_vmstat_header) {
            return Some(KernelText::VmstatProgram);
        }
        if any(&is_pressure) {
            return Some(KernelText::Pressure);
        }
        // The tail of a log has no header.
        if any(&is_bare_row) {
            return Some(KernelText::VmstatProgram);
        }
        other(first, any).or_else(|| is_stamped(first).then_some(KernelText::Log))
    }

    /// A sentence that names the text and the command that reads it.
    #[must_use]
    pub fn advice(self) -> String {
        let name = self.name();
        let reads = match self {
            KernelText::Zoneinfo => {
                "`highwater check FILE` compares it with the model, and `highwater capture --root DIR` makes a machine \
                 of DIR/proc/zoneinfo"
            }
            KernelText::Buddyinfo => {
                "`highwater replay X.trace` reads it as X.buddyinfo, `highwater capture --root DIR` as DIR/proc/buddyinfo"
            }
            KernelText::PageTypeInfo => {
                "`highwater replay X.trace` reads it as X.pagetypeinfo, `highwater capture --root DIR` as \
                 DIR/proc/pagetypeinfo"
            }
            KernelText::Vmstat => {
                "`highwater capture --root DIR` reads it as DIR/proc/vmstat, beside DIR/proc/zoneinfo"
            }
            KernelText::Meminfo => {
                "`highwater capture --root DIR` reads it as DIR/proc/meminfo, beside DIR/proc/zoneinfo"
            }
            KernelText::Smaps => {
                "`highwater capture --pid PID` reads that of a process that runs, `highwater capture --root DIR` as \
                 DIR/proc/PID/smaps_rollup"
            }
            KernelText::Status | KernelText::PidStat => {
                "`highwater capture --pid PID` reads that of a process that runs, `highwater capture --root DIR` as \
                 DIR/proc/PID/, beside DIR/proc/zoneinfo"
            }
            KernelText::Pressure => {
                "`highwater diagnose FILE` reads it, repeated over time, and `highwater capture --root DIR` that of \
                 memory as DIR/proc/pressure/memory, beside DIR/proc/zoneinfo"
            }
            KernelText::Swaps => {
                "`highwater capture --root DIR` reads it as DIR/proc/swaps, beside DIR/proc/zoneinfo"
            }
            KernelText::Cpuinfo => {
                "`highwater capture --root DIR` reads it as DIR/proc/cpuinfo, beside DIR/proc/zoneinfo"
            }
            KernelText::VmstatProgram => "`highwater diagnose FILE` reads it",
            KernelText::FreeProgram => {
                "no command reads that; a machine's memory is read from /proc/zoneinfo (`highwater check`, \
                 `highwater capture`)"
            }
            KernelText::Slabinfo | KernelText::Maps | KernelText::Stat | KernelText::Diskstats => {
                "no command reads that"
            }
            KernelText::Log => "`highwater diagnose FILE` reads it",
            KernelText::Trace => "`highwater replay FILE` reads it",
        };
        format!("this is {name}: {reads}")
    }

    /// Name of the kind of text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            KernelText::Zoneinfo => "/proc/zoneinfo",
            KernelText::Buddyinfo => "/proc/buddyinfo",
            KernelText::PageTypeInfo => "/proc/pagetypeinfo",
            KernelText::Vmstat => "/proc/vmstat",
            KernelText::Meminfo => "/proc/meminfo",
            KernelText::Slabinfo => "/proc/slabinfo",
            KernelText::Smaps => "/proc/PID/smaps",
            KernelText::Maps => "/proc/PID/maps",
            KernelText::Status => "/proc/PID/status",
            KernelText::PidStat => "/proc/PID/stat",
            KernelText::Stat => "/proc/stat",
            KernelText::Pressure => "pressure (PSI) of /proc/pressure",
            KernelText::Diskstats => "/proc/diskstats",
            KernelText::Swaps => "/proc/swaps",
            KernelText::Cpuinfo => "/proc/cpuinfo",
            KernelText::VmstatProgram => "output of the program vmstat",
            KernelText::FreeProgram => "output of the program free",
            KernelText::Log => "a kernel log",
            KernelText::Trace => "a trace",
        }
    }
}

/// Number of values after `Node 0, zone Normal`; none if the line does not start like that.
fn zone(line: &str) -> Option<usize> {
    let rest = line.strip_prefix("Node ")?.split_once(", zone")?.1;
    let mut words = rest.split_whitespace();
    words.next()?;
    words.all(|word| word.parse::<u64>().is_ok()).then(|| rest.split_whitespace().count() - 1)
}

/// `name 12`
fn counter(line: &str) -> Option<&str> {
    let (name, value) = line.split_once(' ')?;
    let is_name = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    (is_name && value.trim().parse::<u64>().is_ok()).then_some(name)
}

/// True for a line in columns with one of the events that a replay reads, or one that says who
/// waited for memory or for a CPU.
fn is_event(line: &str) -> bool {
    let pages = ["mm_page_alloc", "mm_page_free", "mm_page_pcpu_drain"];
    let waits = ["mm_vmscan_", "mm_compaction_", "sched_switch", "sched_stat_", "sched_wak"];
    let is_page = || line.contains("pfn=") && pages.iter().any(|name| line.contains(name));
    // A kernel log may name such functions; it has no `[CPU]` column before them.
    let is_wait = || {
        waits.iter().any(|name| {
            let before = line.split(name).next().filter(|before| before.len() < line.len());
            before.is_some_and(|before| before.trim_end().ends_with(':') && has_cpu_column(before))
        })
    };
    is_page() || is_wait()
}

/// `[000]` behind a task.
fn has_cpu_column(before_event: &str) -> bool {
    let opens = before_event.match_indices('[').skip_while(|(at, _)| *at == 0);
    opens.take(8).any(|(at, _)| {
        let inner = before_event[at + 1..].split(']').next().unwrap_or("");
        (3..=4).contains(&inner.len()) && inner.bytes().all(|b| b.is_ascii_digit())
    })
}

/// `r b swpd free`, perhaps after a time.
fn is_vmstat_header(line: &str) -> bool {
    let mut words = line.split_whitespace().skip_while(|word| *word != "r");
    ["r", "b", "swpd", "free"].into_iter().all(|name| words.next() == Some(name))
}

/// `some avg10=0.00`, perhaps after a name or a time.
fn is_pressure(line: &str) -> bool {
    let share = line.split_once(" avg10=").map(|(before, _)| before);
    share.is_some_and(|before| before.ends_with("some") || before.ends_with("full"))
}

/// Texts recognised by their first line, or by any line.
fn other(first: &str, any: impl Fn(&dyn Fn(&str) -> bool) -> bool) -> Option<KernelText> {
    let starts = |start: &'static str| any(&move |line: &str| line.starts_with(start));
    if is_mapping(first) {
        let has_sizes = starts("Rss:") || starts("Size:");
        return Some(if has_sizes { KernelText::Smaps } else { KernelText::Maps });
    }
    if first.starts_with("Name:") && starts("State:") {
        return Some(KernelText::Status);
    }
    if first.starts_with("cpu ") && starts("cpu0 ") {
        return Some(KernelText::Stat);
    }
    if is_pid_stat(first) {
        return Some(KernelText::PidStat);
    }
    if is_disk(first) {
        return Some(KernelText::Diskstats);
    }
    if first.starts_with("Filename") && first.ends_with("Priority") {
        return Some(KernelText::Swaps);
    }
    if first.split_once(':').is_some_and(|(name, _)| name.trim() == "processor") {
        return Some(KernelText::Cpuinfo);
    }
    let words = |text: &str| first.split_whitespace().take(3).eq(text.split(' '));
    if first.starts_with("procs -") || words("r b swpd") {
        return Some(KernelText::VmstatProgram);
    }
    if words("total used free") && starts("Mem:") {
        return Some(KernelText::FreeProgram);
    }
    None
}

/// `7f12a000-7f12b000 r-xp 00000000 08:01 123 /bin/true`
fn is_mapping(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    let range = words.next().and_then(|range| range.split_once('-'));
    let is_mode = |mode: &str| mode.len() == 4 && mode.bytes().all(|b| b"rwxps-".contains(&b));
    range.is_some_and(|(from, to)| is_hex(from) && is_hex(to)) && words.next().is_some_and(is_mode)
}

/// `12 (name) S 1 12 12 0 ...`
fn is_pid_stat(line: &str) -> bool {
    let pid = line.split_once(" (").is_some_and(|(pid, _)| pid.parse::<u32>().is_ok());
    let Some((_, rest)) = line.rsplit_once(") ") else { return false };
    let mut words = rest.split_whitespace();
    let is_state = words.next().is_some_and(|word| word.len() == 1);
    pid && is_state && words.clone().count() > 20 && words.all(|word| word.parse::<i128>().is_ok())
}

/// `   8       0 sda 4 0 ...`: two numbers, a name, at least eleven more numbers.
fn is_disk(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_number = |word: &&str| word.parse::<u64>().is_ok();
    words.len() >= 14
        && words[..2].iter().all(is_number)
        && !is_number(&words[2])
        && words[3..].iter().all(is_number)
}

/// `[   12.345678] text` or `<6>[   12.345678] text`
fn is_stamped(line: &str) -> bool {
    let line =
        line.strip_prefix('<').and_then(|rest| Some(rest.split_once('>')?.1)).unwrap_or(line);
    let stamp = line.strip_prefix('[').and_then(|rest| Some(rest.split_once(']')?.0.trim()));
    stamp.is_some_and(|stamp| {
        stamp.split_once('.').is_some_and(|(seconds, parts)| {
            let is_number =
                |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            is_number(seconds) && is_number(parts)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_known_by_what_is_in_them() {
        let zone = "Node 0, zone   Normal";
        for (text, kind) in [
            (
                format!("$ cat /proc/zoneinfo\n{zone}\n  pages free     3\n"),
                Some(KernelText::Zoneinfo),
            ),
            (format!("{zone} 1 2 3 4 5 6 7 8 9 10 11\n"), Some(KernelText::Buddyinfo)),
            (
                "Page block order: 9\n\nFree pages count per migrate type at order 0\n".to_owned(),
                Some(KernelText::PageTypeInfo),
            ),
            ("nr_free_pages 12\nnr_zone_inactive_anon 0\n".to_owned(), Some(KernelText::Vmstat)),
            ("MemTotal:  8164548 kB\n".to_owned(), Some(KernelText::Meminfo)),
            ("slabinfo - version: 2.1\n".to_owned(), Some(KernelText::Slabinfo)),
            ("[  1.5] a invoked oom-killer: gfp_mask=0x0\n".to_owned(), Some(KernelText::Log)),
            ("<6>[   12.345678] Linux version 5.4\n".to_owned(), Some(KernelText::Log)),
            (
                "Nov 1 host kernel: a: page allocation failure: order:4\n".to_owned(),
                Some(KernelText::Log),
            ),
            (
                "khugepaged: page allocation stalls for 10273ms, order:10\n".to_owned(),
                Some(KernelText::Log),
            ),
            (
                "a: vmalloc error: size 2395133, vm_struct allocation failed\n".to_owned(),
                Some(KernelText::Log),
            ),
            ("> MemTotal:  8164548 kB\n".to_owned(), Some(KernelText::Meminfo)),
            ("/proc/meminfo:MemTotal:  8164548 kB\n".to_owned(), Some(KernelText::Meminfo)),
            ("# tracer: nop\n".to_owned(), Some(KernelText::Trace)),
            (
                "  a-1 [000] 1.5: mm_vmscan_direct_reclaim_begin: order=0\n".to_owned(),
                Some(KernelText::Trace),
            ),
            (
                "perf 3/4 [0012] 1.5: sched:sched_stat_iowait: comm=a\n".to_owned(),
                Some(KernelText::Trace),
            ),
            (
                "[  1.5]  ? mm_vmscan_direct_reclaim_begin: [001]\n".to_owned(),
                Some(KernelText::Log),
            ),
            (
                "Fri Nov 27 18:35:21 UTC 2026\n 18:00 r  b   swpd   free\n".to_owned(),
                Some(KernelText::VmstatProgram),
            ),
            (
                " 2 1 0 19833800 48036 4637128 7 0 144 0 521 341 36 15 49 0 0\n".to_owned(),
                Some(KernelText::VmstatProgram),
            ),
            (
                "18:35:21\n==> memory <==\nfull avg10=0.00 avg60=0.00 total=1\n".to_owned(),
                Some(KernelText::Pressure),
            ),
            (
                "  a-1 [000] 1.5: mm_page_free: page=1 pfn=0x1 order=0\n".to_owned(),
                Some(KernelText::Trace),
            ),
            ("[[task]]\nname = \"a\"\n".to_owned(), None),
            ("[machine]\n[1.x]\n".to_owned(), None),
            ("{\"kind\": \"static\"}\n".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(KernelText::of(&text), kind, "{text}");
        }
    }

    #[test]
    fn texts_that_no_machine_is_made_of_are_known_too() {
        let mapping = "00400000-0040b000 r-xp 00000000 08:01 123 /bin/cat\n";
        for (text, kind) in [
            (format!("{mapping}Size:  44 kB\nRss:  4 kB\n"), KernelText::Smaps),
            (mapping.to_owned(), KernelText::Maps),
            ("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n".to_owned(), KernelText::Pressure),
            ("Name:\tbash\nUmask:\t0022\nState:\tS (sleeping)\n".to_owned(), KernelText::Status),
            ("cpu  1 2 3 4\ncpu0 1 2 3 4\nctxt 5\n".to_owned(), KernelText::Stat),
            (format!("12 (a b) S{}\n", " 0".repeat(49)), KernelText::PidStat),
            ("   8       0 sda 1 2 3 4 5 6 7 8 9 10 11\n".to_owned(), KernelText::Diskstats),
            ("Filename Type Size Used Priority\n".to_owned(), KernelText::Swaps),
            ("processor\t: 0\n".to_owned(), KernelText::Cpuinfo),
            (
                "procs -----------memory---------- ---swap--\n r  b   swpd   free\n".to_owned(),
                KernelText::VmstatProgram,
            ),
            (
                "       total  used  free  shared  buff/cache  available\nMem:  1 2 3 4 5 6\n"
                    .to_owned(),
                KernelText::FreeProgram,
            ),
        ] {
            assert_eq!(KernelText::of(&text), Some(kind), "{text}");
        }
    }
}
