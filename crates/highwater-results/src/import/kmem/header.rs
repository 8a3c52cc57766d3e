//! The columns in front of an event: task, CPU, flags, time, event name.
//!
//! A command name may hold blanks, dashes, colons and brackets, so nothing is assumed about the
//! text before the pid. The anchor is the CPU column: the first `[digits]` that has a task before
//! it and a time stamp, an event name and a colon behind it (with at most one column of flags in
//! between).

use crate::import::error::FieldProblem;
use crate::import::wall_clock::wall_clock;

/// Above the limit of any Linux build (`NR_CPUS` ends at 8192); it keeps readers' per-CPU tables
/// small.
const CPU_LIMIT: u32 = 8192;
/// Bytes searched for the CPU column. Task columns are short; anything after that is the event's
/// text.
const CPU_COLUMN_MAX: usize = 256;

/// The six events that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventName {
    Alloc,
    Free,
    FreeBatched,
    ZoneLocked,
    PcpuDrain,
    ExtFrag,
}

/// A line's columns.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header<'l> {
    pub(super) pid: i32,
    pub(super) cpu: u32,
    pub(super) time_ns: u64,
    pub(super) event: EventName,
    /// The text after the event's colon.
    pub(super) fields: &'l [u8],
}

/// The kind of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'l> {
    Event(Header<'l>),
    /// A well-formed line of another event.
    OtherEvent,
    /// The tracer dropped events here; the number, if the line gives it.
    Lost(Option<u64>),
    /// A comment with the number of entries that the tracer's buffer held, and the number written
    /// to it.
    Entries {
        nr_held: u64,
        nr_written: u64,
    },
    Comment,
    Blank,
    Unrecognised,
}

/// Classifies a line. An error means that the line names one of our events but its columns cannot
/// be read.
#[inline]
pub(super) fn classify(line: &[u8]) -> Result<Line<'_>, FieldProblem> {
    // A command name may start with '#', but never in the first column.
    if line.first() == Some(&b'#') {
        return Ok(entries(line).unwrap_or(Line::Comment));
    }
    match find_columns(line, ours) {
        Some(found) => Ok(found),
        None => classify_rest(line),
    }
}

/// The columns of a line, whatever its event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::import) struct Columns<'l> {
    /// The text before the CPU column: command name, pid, perhaps the thread group.
    task: &'l [u8],
    cpu: u64,
    /// The trace's clock; the wall clock if the line has no other.
    pub(in crate::import) time_ns: u64,
    /// The wall clock of `perf script -F +tod`, as nanoseconds since 1970 in its time zone.
    pub(in crate::import) wall_ns: Option<u64>,
    /// The text after the time stamp: the event's name, a colon, its fields.
    event: &'l [u8],
}

/// The command name and the thread id before the CPU column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::import) struct Task<'l> {
    pub(in crate::import) comm: &'l [u8],
    pub(in crate::import) pid: i32,
}

/// Finds the CPU column: the first `[digits]` around which `accept` finds what it needs.
#[inline]
pub(in crate::import) fn find_columns<'l, T>(
    line: &'l [u8],
    accept: impl Fn(Columns<'l>) -> Option<T>,
) -> Option<T> {
    let mut from = 0;
    let end = line.len().min(CPU_COLUMN_MAX);
    while let Some(offset) = line[from..end].iter().position(|&b| b == b'[') {
        let bracket = from + offset;
        if let Some(found) = columns_at(line, bracket).and_then(&accept) {
            return Some(found);
        }
        from = bracket + 1;
    }
    None
}

impl<'l> Columns<'l> {
    /// The event's name without its system, and the text after its colon.
    pub(in crate::import) fn event(&self) -> Option<(&'l [u8], &'l [u8])> {
        let (mut name, mut rest) = split_name(without_period(self.event));
        // perf prints `system:event:`, ftrace a blank after the colon.
        if let [b':', after @ ..] = rest
            && after.first().is_some_and(|&b| is_name_byte(b))
        {
            (name, rest) = split_name(after);
        }
        let fields = rest.strip_prefix(b":")?;
        (!name.is_empty()).then_some((name, fields))
    }

    /// The task.
    pub(in crate::import) fn task(&self) -> Option<Task<'l>> {
        task(self.task)
    }
}

/// Lines without readable columns.
#[cold]
fn classify_rest(line: &[u8]) -> Result<Line<'_>, FieldProblem> {
    let text = line.trim_ascii();
    if text.is_empty() {
        return Ok(Line::Blank);
    }
    if let Some(lost) = lost_notice(text) {
        return Ok(Line::Lost(lost));
    }
    match our_event_without_columns(line) {
        Some(at) => Err(missing_column(&line[..at])),
        None => Ok(Line::Unrecognised),
    }
}

/// Reads the columns around a `[` that may open the CPU column.
#[inline]
fn columns_at(line: &[u8], bracket: usize) -> Option<Columns<'_>> {
    let (cpu, rest) = leading_number(&line[bracket + 1..])?;
    let rest = rest.strip_prefix(b"]")?;
    let (token, after) = next_token(rest)?;
    let (time_ns, event) = match time_stamp(token) {
        Some(time_ns) => (time_ns, after),
        None => return after_flags(line, bracket, cpu, rest),
    };
    Some(Columns { task: &line[..bracket], cpu, time_ns, wall_ns: None, event })
}

/// The columns if flags, or a wall clock, come before the time stamp.
fn after_flags<'l>(
    line: &'l [u8],
    bracket: usize,
    cpu: u64,
    rest: &'l [u8],
) -> Option<Columns<'l>> {
    let task = &line[..bracket];
    if let Some((wall_ns, after)) = wall_clock(rest.trim_ascii_start()) {
        let stamped =
            next_token(after).and_then(|(token, event)| Some((time_stamp(token)?, event)));
        let (time_ns, event) = stamped.unwrap_or((wall_ns, after));
        return Some(Columns { task, cpu, time_ns, wall_ns: Some(wall_ns), event });
    }
    let (_, after) = next_token(rest)?;
    let (token, event) = next_token(after)?;
    Some(Columns { task, cpu, time_ns: time_stamp(token)?, wall_ns: None, event })
}

/// The line of one of our events, or its kind.
#[inline]
fn ours<'l>(columns: Columns<'l>) -> Option<Line<'l>> {
    let (event, fields) = match event_name(columns.event) {
        Named::Ours { event, fields } => (event, fields),
        Named::Other => return Some(Line::OtherEvent),
        Named::Lost(lost) => return Some(Line::Lost(lost)),
        Named::Nothing => return None,
    };
    let cpu = u32::try_from(columns.cpu).ok().filter(|&cpu| cpu < CPU_LIMIT)?;
    let pid = task_pid(columns.task)?;
    Some(Line::Event(Header { pid, cpu, time_ns: columns.time_ns, event, fields }))
}

enum Named<'l> {
    Ours { event: EventName, fields: &'l [u8] },
    Other,
    Lost(Option<u64>),
    Nothing,
}

/// The event after the time stamp, with or without `kmem:`; perf may print a period before it.
#[inline]
fn event_name(text: &[u8]) -> Named<'_> {
    let text = without_period(text);
    let text = text.strip_prefix(b"kmem:").unwrap_or(text);
    let (name, rest) = split_name(text);
    if name.is_empty() {
        return Named::Nothing;
    }
    match (named(name), rest) {
        (Some(event), [b':', fields @ ..]) => Named::Ours { event, fields },
        _ if name == b"PERF_RECORD_LOST" => Named::Lost(first_number(rest)),
        _ => Named::Other,
    }
}

/// The text without the period that perf may print before an event.
#[inline]
fn without_period(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii_start();
    match leading_number(text) {
        Some((_, rest)) if rest.first() == Some(&b' ') => rest.trim_ascii_start(),
        _ => text,
    }
}

/// The name that a text begins with (perhaps empty), and the rest.
#[inline]
fn split_name(text: &[u8]) -> (&[u8], &[u8]) {
    let length = text.iter().position(|&b| !is_name_byte(b)).unwrap_or(text.len());
    text.split_at(length)
}

fn named(name: &[u8]) -> Option<EventName> {
    match name {
        b"mm_page_alloc" => Some(EventName::Alloc),
        b"mm_page_free" => Some(EventName::Free),
        b"mm_page_free_batched" => Some(EventName::FreeBatched),
        b"mm_page_alloc_zone_locked" => Some(EventName::ZoneLocked),
        b"mm_page_pcpu_drain" => Some(EventName::PcpuDrain),
        b"mm_page_alloc_extfrag" => Some(EventName::ExtFrag),
        _ => None,
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Thread id out of `comm-pid`, `comm-pid (tgid)`, `comm  pid` or `comm  pid/tid`.
fn task_pid(before_cpu: &[u8]) -> Option<i32> {
    task(before_cpu).map(|task| task.pid)
}

/// Command name and thread id out of the same texts.
fn task(before_cpu: &[u8]) -> Option<Task<'_>> {
    let mut task = before_cpu.trim_ascii_end();
    if let Some(open) =
        task.ends_with(b")").then(|| task.iter().rposition(|&b| b == b'(')).flatten()
    {
        let tgid = task[open + 1..task.len() - 1].trim_ascii();
        if !tgid.is_empty() && tgid.iter().all(|&b| b.is_ascii_digit() || b == b'-') {
            task = task[..open].trim_ascii_end();
        }
    }
    let nr_digits = task.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let (rest, digits) = task.split_at(task.len() - nr_digits);
    let (pid, []) = leading_number(digits)? else {
        return None;
    };
    let pid = i32::try_from(pid).ok()?;
    let pid = match rest {
        // perf prints -1 for an unknown thread: a separate dash, not one that ends a command name.
        [.., b'/', b'-'] | [.., b' ', b'-'] if pid == 1 && !is_ftrace_task(rest) => -1,
        [.., b'-' | b' ' | b'\t' | b'/'] | [] => pid,
        _ => return None,
    };
    Some(Task { comm: comm(rest), pid })
}

/// The command name before the thread id: without `-`, or the process id and `/`, and blanks.
fn comm(before_pid: &[u8]) -> &[u8] {
    let name = match before_pid {
        [rest @ .., b'/'] => {
            let nr_digits = rest.iter().rev().take_while(|b| b.is_ascii_digit()).count();
            &rest[..rest.len() - nr_digits]
        }
        [rest @ .., b'-'] => rest,
        rest => rest,
    };
    name.trim_ascii()
}

/// True if ` -1` ends a command name that itself ends in a blank; perf calls an unknown thread
/// `:-1`.
fn is_ftrace_task(rest_with_dash: &[u8]) -> bool {
    let comm = rest_with_dash[..rest_with_dash.len() - 1].trim_ascii_end();
    !(comm.ends_with(b":-1") || comm.ends_with(b"-1/"))
}

/// `seconds.fraction:` with one to nine digits of fraction.
#[inline]
fn time_stamp(token: &[u8]) -> Option<u64> {
    let (seconds, rest) = leading_number(token)?;
    let fraction = rest.strip_prefix(b".")?.strip_suffix(b":")?;
    let (mut fraction_ns, []) = leading_number(fraction)? else {
        return None;
    };
    for _ in fraction.len()..9 {
        fraction_ns *= 10;
    }
    if fraction.len() > 9 {
        return None;
    }
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction_ns)
}

/// A decimal number of at most 18 digits (so that it cannot overflow) and the text after it.
#[inline]
fn leading_number(text: &[u8]) -> Option<(u64, &[u8])> {
    let length = text.iter().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    if length == 0 || length > 18 {
        return None;
    }
    let (digits, rest) = text.split_at(length);
    Some((digits.iter().fold(0, |value, &digit| value * 10 + u64::from(digit - b'0')), rest))
}

/// The next run of non-blanks, after at least one blank.
#[inline]
fn next_token(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let token = text.trim_ascii_start();
    if token.len() == text.len() {
        return None;
    }
    let length = token.iter().position(u8::is_ascii_whitespace).unwrap_or(token.len());
    (length > 0).then(|| token.split_at(length))
}

/// `CPU:0 [LOST 123 EVENTS]` (ftrace), `CPU:0 [123 EVENTS DROPPED]` (trace-cmd); the count may be
/// missing.
pub(in crate::import) fn lost_notice(text: &[u8]) -> Option<Option<u64>> {
    let (_, rest) = leading_number(text.strip_prefix(b"CPU:")?)?;
    let notice = rest.trim_ascii_start().strip_prefix(b"[")?.strip_suffix(b"]")?;
    let speaks_of = |word: &[u8]| notice.windows(word.len()).any(|w| w == word);
    let is_notice = speaks_of(b"EVENTS") && (speaks_of(b"LOST") || speaks_of(b"DROPPED"));
    is_notice.then(|| first_number(notice))
}

/// `# entries-in-buffer/entries-written: 66391/70000   #P:2` (ftrace).
#[cold]
fn entries(line: &[u8]) -> Option<Line<'_>> {
    let text = line[1..].trim_ascii_start();
    let counts = text.strip_prefix(b"entries-in-buffer/entries-written:")?.trim_ascii_start();
    let (nr_held, rest) = leading_number(counts)?;
    let (nr_written, _) = leading_number(rest.strip_prefix(b"/")?)?;
    Some(Line::Entries { nr_held, nr_written })
}

fn first_number(text: &[u8]) -> Option<u64> {
    let start = text.iter().position(u8::is_ascii_digit)?;
    leading_number(&text[start..]).map(|(number, _)| number)
}

/// Position at which a line with unreadable columns names one of our events as an event
/// (`name: ... pfn=`).
fn our_event_without_columns(line: &[u8]) -> Option<usize> {
    const STEM: &[u8] = b"mm_page_";
    let mut from = 0;
    while let Some(offset) = line[from..].windows(STEM.len()).position(|w| w == STEM) {
        let start = from + offset;
        let length =
            line[start..].iter().position(|&b| !is_name_byte(b)).unwrap_or(line.len() - start);
        let rest = &line[start + length..];
        let starts_word = start == 0 || !is_name_byte(line[start - 1]);
        let has_fields = rest.starts_with(b":") && rest.windows(4).any(|w| w == b"pfn=");
        if starts_word && has_fields && named(&line[start..start + length]).is_some() {
            return Some(start);
        }
        from = start + length;
    }
    None
}

/// The column at fault: the first that cannot be found.
fn missing_column(before_event: &[u8]) -> FieldProblem {
    let cpu = before_event.iter().enumerate().filter(|&(_, &b)| b == b'[').find_map(|(at, _)| {
        let (cpu, rest) = leading_number(&before_event[at + 1..])?;
        Some((at, cpu, rest.strip_prefix(b"]")?))
    });
    let Some((at, cpu, rest)) = cpu else {
        return FieldProblem::new("cpu", "no [CPU] column before the event");
    };
    if cpu >= u64::from(CPU_LIMIT) {
        return FieldProblem::new("cpu", format!("{cpu} is not below {CPU_LIMIT}"));
    }
    if task_pid(&before_event[..at]).is_none() {
        return FieldProblem::new("pid", "no pid before the [CPU] column");
    }
    let shown = crate::import::error::shown(rest.trim_ascii());
    FieldProblem::new("timestamp", format!("no `seconds.fraction:` in {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(line: &str) -> (i32, u32, u64, EventName) {
        match classify(line.as_bytes()).unwrap() {
            Line::Event(h) => {
                assert_eq!(h.fields.trim_ascii(), b"pfn=1", "{line}");
                (h.pid, h.cpu, h.time_ns, h.event)
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn columns_of_every_program() {
        let free = EventName::Free;
        for (line, expected) in [
            (
                "   init-1       [000] .....    20.102727: mm_page_free: pfn=1",
                (1, 0, 20_102_727_000, free),
            ),
            (
                "   init-1       [000]    20.102727: mm_page_free: pfn=1",
                (1, 0, 20_102_727_000, free),
            ),
            ("   init-1 (      1) [003] d..3. 0.5: mm_page_free: pfn=1", (1, 3, 500_000_000, free)),
            (
                "  <...>-77    (-------) [127] .... 1.000000: mm_page_free: pfn=1",
                (77, 127, 1_000_000_000, free),
            ),
            (
                " <idle>-0     [001] d.h. 1.000001: mm_page_free:        pfn=1",
                (0, 1, 1_000_001_000, free),
            ),
            (
                "perf  4711 [002] 9.123456789: kmem:mm_page_free: pfn=1",
                (4711, 2, 9_123_456_789, free),
            ),
            (
                "perf  4711/4712  [002] 9.1:   kmem:mm_page_free: pfn=1",
                (4712, 2, 9_100_000_000, free),
            ),
            (
                "perf 4711 [002] 9.1:    250 kmem:mm_page_free: pfn=1",
                (4711, 2, 9_100_000_000, free),
            ),
            (
                "perf  4711/4712 [002] 2020-07-13 18:26:55.620971 9.1: kmem:mm_page_free: pfn=1",
                (4712, 2, 9_100_000_000, free),
            ),
            (
                "perf 4711 [002] 1970-01-02 00:00:01.5 kmem:mm_page_free: pfn=1",
                (4711, 2, 86_401_500_000_000, free),
            ),
            ("  :-1    -1 [002] 9.1: kmem:mm_page_free: pfn=1", (-1, 2, 9_100_000_000, free)),
            ("  :-1    -1/-1    [002] 9.1: kmem:mm_page_free: pfn=1", (-1, 2, 9_100_000_000, free)),
        ] {
            assert_eq!(header(line), expected, "{line}");
        }
    }

    #[test]
    fn command_names_with_blanks_dashes_colons_and_brackets() {
        for (comm, pid) in [
            ("kworker/u4:1", 9),
            ("Web Content", 10),
            ("a-b-7", 11),
            ("x -1", 12),
            ("[12] y", 13),
            ("1.5: mm_page_al", 14),
            ("#hash", 15),
            ("(sd-pam)", 16),
            ("CPU:0 [LOST 1", 17),
        ] {
            for line in [
                format!("   {comm}-{pid}   [001] ..... 1.5: mm_page_free: pfn=1"),
                format!("   {comm}-{pid}   (    5) [001] 1.5: mm_page_free: pfn=1"),
                format!("   {comm}   {pid} [001] 1.5: kmem:mm_page_free: pfn=1"),
                format!("   {comm}   3/{pid} [001] 1.5: kmem:mm_page_free: pfn=1"),
            ] {
                assert_eq!(header(&line), (pid, 1, 1_500_000_000, EventName::Free), "{line}");
            }
        }
    }

    #[test]
    fn columns_of_any_event() {
        let of = |line: &'static str| {
            find_columns(line.as_bytes(), |c| {
                let (task, (name, fields)) = (c.task()?, c.event()?);
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes.trim_ascii()).into_owned();
                Some((text(task.comm), task.pid, text(name), text(fields)))
            })
        };
        let expected = |comm: &str, pid| {
            Some((comm.to_owned(), pid, "sched_switch".to_owned(), "a=1 b=2".to_owned()))
        };
        for (line, comm, pid) in [
            ("  Web Content-77 (   70) [001] d..2. 1.5: sched_switch: a=1 b=2", "Web Content", 77),
            ("  a-b-7 [001] 1.5: sched_switch:   a=1 b=2", "a-b", 7),
            ("perf  70/77 [001] 1.5: sched:sched_switch: a=1 b=2", "perf", 77),
            ("perf  77 [001] 1.5:  1 sched:sched_switch: a=1 b=2", "perf", 77),
            ("  :-1    -1 [002] 9.1: sched:sched_switch: a=1 b=2", ":-1", -1),
        ] {
            assert_eq!(of(line), expected(comm, pid), "{line}");
        }
        assert_eq!(of("  a-1 [001] 1.5: sched_sw"), None);
        assert_eq!(of("a line without columns"), None);
    }

    #[test]
    fn lines_that_are_not_ours() {
        for (line, expected) in [
            ("", Line::Blank),
            ("   \t", Line::Blank),
            ("# tracer: nop", Line::Comment),
            ("#  a-1 [000] ..... 1.5: mm_page_free: pfn=1", Line::Comment),
            ("CPU:0 [LOST 123 EVENTS]", Line::Lost(Some(123))),
            ("CPU:11 [7 EVENTS DROPPED]", Line::Lost(Some(7))),
            ("CPU:1 [LOST EVENTS]", Line::Lost(None)),
            ("perf 1 [000] 1.5: PERF_RECORD_LOST lost 42", Line::Lost(Some(42))),
            ("cpus=2", Line::Unrecognised),
            ("\tffffffff81 __alloc_pages+0x1 ([kernel.kallsyms])", Line::Unrecognised),
            ("  a-1 [000] ..... 1.5: sched_switch: mm_page_free: pfn=1", Line::OtherEvent),
            ("  a-1 [000] ..... 1.5: mm_page_freed: pfn=1", Line::OtherEvent),
            ("  a 1 [000] 1.5: sched:sched_switch: x", Line::OtherEvent),
            ("  a-1 [000] ..... 1.5: mm_page_fr", Line::OtherEvent),
            ("  a-1 [000] ..... 1.", Line::Unrecognised),
        ] {
            assert_eq!(classify(line.as_bytes()), Ok(expected), "{line}");
        }
    }

    #[test]
    fn our_event_in_broken_columns_names_the_column() {
        for (line, field) in [
            ("  a-1 ..... 1.5: mm_page_free: pfn=1", "cpu"),
            ("  a-1 [0x0] ..... 1.5: mm_page_free: pfn=1", "cpu"),
            ("  a-1 [8192] ..... 1.5: mm_page_free: pfn=1", "cpu"),
            ("  a-x [000] ..... 1.5: mm_page_free: pfn=1", "pid"),
            ("  a-99999999999 [000] ..... 1.5: mm_page_free: pfn=1", "pid"),
            ("  a-1 [000] ..... 15: mm_page_free: pfn=1", "timestamp"),
            ("  a-1 [000] ..... 1.5x: mm_page_free: pfn=1", "timestamp"),
            ("  a-1 [000] ..... 1.0123456789: mm_page_free: pfn=1", "timestamp"),
            ("  a-1 [000] ..... 99999999999999999.5: mm_page_free: pfn=1", "timestamp"),
            ("  a-1 [000] . . 1.5: mm_page_free: pfn=1", "timestamp"),
        ] {
            assert_eq!(classify(line.as_bytes()).unwrap_err().field, field, "{line}");
        }
    }
}
