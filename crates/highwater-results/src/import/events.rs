//! Any tracepoint of a trace text: task, time, name and fields of each line.
//!
//! The columns are those that [`super::kmem`] reads: ftrace, `trace-cmd report` and `perf script`.
//! A date and time may come before them (`ts '%F %T'`), or after the CPU (`perf script -F +tod`).
//! [`for_each_event`] hands out every event with one line in memory at a time. Fields stay text;
//! [`Event`] finds a value by its key.

use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

use super::ImportError;
use super::kmem::OnDamage;
use super::kmem::header::{Task, find_columns, lost_notice};
use super::source::Source;
use super::wall_clock::wall_clock;

/// A tracepoint hit.
#[derive(Clone, Copy, Debug)]
pub struct Event<'l> {
    /// Trace clock, in nanoseconds.
    pub time_ns: u64,
    /// Wall clock, if the line has one: nanoseconds since 1970 in the text's own time zone.
    pub wall_ns: Option<u64>,
    /// Thread id of the current task; 0 is the idle task, -1 a task that perf could not name.
    pub pid: i32,
    /// Line, from 1.
    pub line: u64,
    comm: &'l [u8],
    name: &'l [u8],
    fields: &'l [u8],
}

/// Sums over a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventTotals {
    /// Lines.
    pub nr_lines: u64,
    /// Lines with an event.
    pub nr_events: u64,
    /// Notices that the tracer lost events.
    pub nr_lost_notices: u64,
    /// Time of the first and the last event, by the smallest and the largest time.
    pub span_ns: Option<(u64, u64)>,
    /// The line at which the text ends without a line end; it is not read.
    pub unended_at: Option<u64>,
}

impl<'l> Event<'l> {
    /// Command name of the current task.
    #[must_use]
    pub fn comm(&self) -> Cow<'l, str> {
        String::from_utf8_lossy(self.comm)
    }

    /// The event's name without its system.
    #[must_use]
    pub fn name(&self) -> &'l str {
        // Names are ASCII by the reader's rules.
        std::str::from_utf8(self.name).unwrap_or("")
    }

    /// The text after the event's name.
    #[must_use]
    pub fn fields(&self) -> Cow<'l, str> {
        String::from_utf8_lossy(self.fields.trim_ascii())
    }

    /// The word after `key=`, at the beginning of a word.
    #[must_use]
    pub fn word(&self, key: &str) -> Option<&'l str> {
        let rest = self.after_key(key)?;
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        std::str::from_utf8(&rest[..end]).ok()
    }

    /// The number after `key=`.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<u64> {
        self.word(key)?.parse().ok()
    }

    /// The text between `key=` and ` next=`: command names may hold blanks.
    #[must_use]
    pub fn text(&self, key: &str, next: &str) -> Option<Cow<'l, str>> {
        let rest = self.after_key(key)?;
        let next = format!(" {next}=");
        let end = rest.windows(next.len()).position(|window| window == next.as_bytes())?;
        Some(String::from_utf8_lossy(&rest[..end]))
    }

    fn after_key(&self, key: &str) -> Option<&'l [u8]> {
        let (fields, key) = (self.fields, key.as_bytes());
        let starts = |at: usize| at == 0 || fields[at - 1].is_ascii_whitespace();
        let is_key =
            |at: usize| fields[at..].starts_with(key) && fields.get(at + key.len()) == Some(&b'=');
        let at = (0..fields.len()).find(|&at| starts(at) && is_key(at))?;
        Some(&fields[at + key.len() + 1..])
    }
}

/// Runs `each` on every event of a file, plain or gzip. A gzip file that ends in the middle is read
/// as far as it goes.
///
/// # Errors
/// If the file cannot be read.
pub fn for_each_event(
    path: impl AsRef<Path>,
    each: impl FnMut(&Event<'_>),
) -> Result<EventTotals, ImportError> {
    walk(Source::open(path.as_ref())?, each)
}

/// The same for any reader; `name` stands for the file in errors.
///
/// # Errors
/// If reading fails.
pub fn for_each_event_of(
    name: &str,
    reader: impl Read + Send + 'static,
    each: impl FnMut(&Event<'_>),
) -> Result<EventTotals, ImportError> {
    walk(Source::from_reader(name, reader)?, each)
}

fn walk(mut source: Source, mut each: impl FnMut(&Event<'_>)) -> Result<EventTotals, ImportError> {
    source.set_on_damage(OnDamage::UseWhole);
    let mut totals = EventTotals::default();
    while source.next_line()?.is_some() {
        totals.nr_lines += 1;
        let (line, text) = (source.line(), source.text());
        if source.is_cut_off() && !text.trim_ascii().is_empty() {
            totals.unended_at = Some(line);
            break;
        }
        if text.first() == Some(&b'#') {
            continue;
        }
        let (wall_before, text) = match wall_clock(text) {
            Some((wall_ns, rest)) => (Some(wall_ns), rest),
            None => (None, text),
        };
        let found = find_columns(text, |columns| {
            let (name, fields) = columns.event()?;
            let Task { comm, pid } = columns.task()?;
            let wall_ns = columns.wall_ns.or(wall_before);
            Some(Event { time_ns: columns.time_ns, wall_ns, pid, line, comm, name, fields })
        });
        let Some(event) = found else {
            let is_lost = lost_notice(text.trim_ascii()).is_some();
            totals.nr_lost_notices += u64::from(is_lost);
            continue;
        };
        if event.name == b"PERF_RECORD_LOST" {
            totals.nr_lost_notices += 1;
            continue;
        }
        totals.nr_events += 1;
        let (first, last) = totals.span_ns.get_or_insert((event.time_ns, event.time_ns));
        *first = (*first).min(event.time_ns);
        *last = (*last).max(event.time_ns);
        each(&event);
    }
    Ok(totals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_key() {
        let text = "  a-1 [000] 1.5: sched_switch: prev_comm=Web Content prev_pid=70 prev_state=D|K ==> next_comm=b next_pid=7\n\
                    perf 3/4 [001] 2.25: vmscan:mm_vmscan_throttled: nid=1 usec_timeout=9 reason=X\n";
        let mut seen = Vec::new();
        let totals = for_each_event_of("t", text.as_bytes(), |event| {
            seen.push((
                event.comm().into_owned(),
                event.pid,
                event.name().to_owned(),
                event.number("prev_pid").or(event.number("nid")),
                event.text("prev_comm", "prev_pid").map(Cow::into_owned),
                event.number("pid"),
            ));
        });
        assert_eq!(
            seen,
            [
                ("a".into(), 1, "sched_switch".into(), Some(70), Some("Web Content".into()), None),
                ("perf".into(), 4, "mm_vmscan_throttled".into(), Some(1), None, None),
            ]
        );
        let totals = totals.unwrap();
        assert_eq!((totals.nr_events, totals.span_ns), (2, Some((1_500_000_000, 2_250_000_000))));
    }

    #[test]
    fn wall_clocks_before_the_line_and_in_it() {
        let text = "1970-01-01 00:00:02.5   a b-1 [000] ..... 1.5: x: y\n\
                    perf 3/4 [001] 1970-01-01 00:00:03.000001 1.6: vmscan:x: y\n\
                    \u{20} a-1 [000] 1.7: x: 1970-01-01 00:00:09 z\n";
        let mut seen = Vec::new();
        for_each_event_of("t", text.as_bytes(), |event| {
            seen.push((event.comm().into_owned(), event.time_ns / 100_000_000, event.wall_ns));
        })
        .unwrap();
        assert_eq!(
            seen,
            [
                ("a b".into(), 15, Some(2_500_000_000)),
                ("perf".into(), 16, Some(3_000_001_000)),
                ("a".into(), 17, None)
            ]
        );
    }

    #[test]
    fn damage_is_passed_over() {
        let text = b"# tracer: nop\nCPU:0 [LOST 3 EVENTS]\n\xff\xfe[0] x\n  a-1 [000] 1.5: x: y\n  a-1 [000] 1.6: x: y";
        let totals = for_each_event_of("t", &text[..], |_| {}).unwrap();
        assert_eq!((totals.nr_lines, totals.nr_events, totals.nr_lost_notices), (5, 1, 1));
        assert_eq!(totals.unended_at, Some(5));
        let empty = for_each_event_of("t", &b""[..], |_| {}).unwrap();
        assert_eq!(empty, EventTotals::default());
    }
}
