//! What a text of Linux is, whatever its name: so that one that was given to the wrong command is called by its name.

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
    /// A kernel's log: `dmesg`, the journal.
    Log,
    /// Tracepoints as text: ftrace, `trace-cmd report`, `perf script`.
    Trace,
}

/// Lines that are looked at.
const LINES: usize = 400;

/// Parts of lines that only a kernel's log has.
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
    /// What a text is; none if it is nothing of Linux's that is known here.
    #[must_use]
    pub fn of(text: &str) -> Option<KernelText> {
        let lines = || text.lines().take(LINES).map(str::trim).filter(|line| !line.is_empty());
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
        is_stamped(first).then_some(KernelText::Log)
    }

    /// What it is, and which command reads it.
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
            KernelText::Slabinfo => "no command reads that",
            KernelText::Log => {
                "no command reads logs yet; zones and their free blocks are read from /proc/zoneinfo \
                                (`highwater check`, `highwater capture`)"
            }
            KernelText::Trace => "`highwater replay FILE` reads it",
        };
        format!("this is {name}: {reads}")
    }

    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            KernelText::Zoneinfo => "/proc/zoneinfo",
            KernelText::Buddyinfo => "/proc/buddyinfo",
            KernelText::PageTypeInfo => "/proc/pagetypeinfo",
            KernelText::Vmstat => "/proc/vmstat",
            KernelText::Meminfo => "/proc/meminfo",
            KernelText::Slabinfo => "/proc/slabinfo",
            KernelText::Log => "a kernel log",
            KernelText::Trace => "a trace",
        }
    }
}

/// How many numbers stand behind `Node 0, zone Normal`; none if the line does not start so.
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

/// A line of one of the events that a replay reads, in columns.
fn is_event(line: &str) -> bool {
    let event = ["mm_page_alloc", "mm_page_free", "mm_page_pcpu_drain"];
    line.contains("pfn=") && event.iter().any(|name| line.contains(name))
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
            ("# tracer: nop\n".to_owned(), Some(KernelText::Trace)),
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
}
