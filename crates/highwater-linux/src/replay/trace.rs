//! A trace file whose events can be read in time order, any number of times.
//!
//! An ordered text is streamed, one event in memory. Any other text is sorted in memory by these
//! rules (rules/kmem-traces#order). `cat per_cpu/cpu*/trace` makes such a text: one CPU's buffer
//! after the other.
//!
//! | found | done |
//! |---|---|
//! | a line earlier than one of another CPU before it | sorted by time; lines of the same time keep their order |
//! | a line earlier than one of its own CPU, by [`OWN_CLOCK_BACK_NS_MAX`] at most | gets the time of that line: lines of a CPU keep their order |
//! | earlier by more | an error: two recordings, or pieces of one in the wrong order |

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use highwater_results::import::ImportError;
use highwater_results::import::kmem::{KmemEvent, KmemReader, OnDamage, SkippedLines, gzip_damage};

use highwater_files::input::InputError;

/// A CPU reads its clock for each of its events in order. The clock may step back only because it
/// is adjusted while it runs. A step above the shortest tick of a kernel, 1 ms, is not an
/// adjustment.
pub const OWN_CLOCK_BACK_NS_MAX: u64 = 1_000_000;
/// Most events that are sorted: about 600 MB.
const SORTED_MAX: usize = 1 << 23;

/// A trace, and how to read it.
#[derive(Clone, Debug)]
pub struct Trace {
    path: PathBuf,
    on_damage: OnDamage,
    sorted: Option<Sorted>,
    totals: Totals,
}

/// Facts about a trace known after reading it to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events.
    pub nr_events: u64,
    /// Lines passed over.
    pub skipped: SkippedLines,
    /// The line at which gzip data ended in the middle.
    pub cut_at: Option<u64>,
    /// The line number of an incomplete last line, which was not read.
    pub unended_at: Option<u64>,
    /// How far its lines had to be reordered.
    pub disorder: Disorder,
}

/// Lines that did not stand in order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disorder {
    /// Earlier than a line before them.
    pub nr_lines: u64,
    /// CPUs of the affected lines.
    pub cpus: BTreeSet<u32>,
    /// The part of them that were earlier than a line of their own CPU, and got its time.
    pub nr_own_clock: u64,
}

/// Events in order of time, each with its line.
#[derive(Clone, Debug)]
struct Sorted(Vec<(KmemEvent, u64)>);

/// How a pass over a file ended.
enum Pass {
    ToTheEnd,
    OutOfOrder,
}

impl Trace {
    /// The trace in a file.
    #[must_use]
    pub fn file(path: &Path) -> Trace {
        let path = path.to_path_buf();
        Trace { path, on_damage: OnDamage::default(), sorted: None, totals: Totals::default() }
    }

    /// Sets what to do if gzip data end early or a line cannot be read; the default is an error.
    #[must_use]
    pub fn on_damage(mut self, on_damage: OnDamage) -> Trace {
        self.on_damage = on_damage;
        self
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Facts besides the events; complete after [`Trace::first_pass`].
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Reads a new trace in time order. If the file turns out not to be in that order, the pass
    /// starts again from `start` with sorted events.
    ///
    /// # Errors
    /// If the trace cannot be read or sorted, or `step` refuses an event; with the line.
    pub fn first_pass<S>(
        &mut self,
        start: impl Fn() -> S,
        step: impl FnMut(&mut S, &KmemEvent) -> Result<(), String>,
    ) -> Result<S, InputError> {
        self.survey(start, step).map_err(|error| {
            // Damaged data can unpack to any text, so report the damage and not the text.
            let Some(damage) = gzip_damage(&self.path).filter(|_| error.field.is_some()) else {
                return error;
            };
            let mut damage = InputError::from(damage);
            if let (Some(line), Some(field)) = (error.line, error.field) {
                damage.reason += &format!("; what was unpacked goes wrong at line {line}, {field}");
            }
            damage
        })
    }

    fn survey<S>(
        &mut self,
        start: impl Fn() -> S,
        mut step: impl FnMut(&mut S, &KmemEvent) -> Result<(), String>,
    ) -> Result<S, InputError> {
        let mut reader = self.reader()?;
        let mut state = start();
        if let Pass::OutOfOrder = stream(&mut reader, |event| step(&mut state, event))? {
            reader = self.reader()?;
            self.sort(&mut reader)?;
            state = start();
            self.each(|event| step(&mut state, event))?;
        }
        self.totals.nr_events = reader.nr_events();
        self.totals.skipped = reader.skipped();
        self.totals.cut_at = reader.cut_at();
        self.totals.unended_at = reader.unended_at();
        Ok(state)
    }

    /// Goes through the events once more.
    ///
    /// # Errors
    /// As [`Trace::first_pass`], and if the file has changed since.
    pub fn each(
        &self,
        mut step: impl FnMut(&KmemEvent) -> Result<(), String>,
    ) -> Result<(), InputError> {
        let Some(Sorted(events)) = &self.sorted else {
            return match stream(&mut self.reader()?, step)? {
                Pass::ToTheEnd => Ok(()),
                Pass::OutOfOrder => Err(self.error("changed while it was read")),
            };
        };
        let refused = |line, reason| refused(&self.name(), line, "pfn", reason);
        events.iter().try_for_each(|(event, line)| step(event).map_err(|r| refused(*line, r)))
    }

    fn sort(&mut self, reader: &mut KmemReader) -> Result<(), InputError> {
        let mut events = Vec::new();
        let mut latest_ns = 0;
        let mut of_cpu: BTreeMap<u32, u64> = BTreeMap::new();
        let disorder = &mut self.totals.disorder;
        while let Some(event) = reader.next() {
            let mut event = event.map_err(read_error)?;
            if events.len() == SORTED_MAX {
                let reason = format!(
                    "not in order of time, and more than the {SORTED_MAX} events that are put in order here; \
                     read it from trace_pipe or with trace-cmd, which do that"
                );
                return Err(refused(reader.name(), reader.line(), "timestamp", reason));
            }
            if event.time_ns < latest_ns {
                disorder.nr_lines += 1;
                disorder.cpus.insert(event.cpu);
            }
            latest_ns = latest_ns.max(event.time_ns);
            let own_ns = of_cpu.entry(event.cpu).or_default();
            let back_ns = own_ns.saturating_sub(event.time_ns);
            if back_ns > OWN_CLOCK_BACK_NS_MAX {
                let reason = format!(
                    "CPU {} goes back by {} s, from {} to {}: two recordings, or pieces of one in the wrong order",
                    event.cpu,
                    seconds(back_ns),
                    seconds(*own_ns),
                    seconds(event.time_ns)
                );
                return Err(refused(reader.name(), reader.line(), "timestamp", reason));
            }
            disorder.nr_own_clock += u64::from(back_ns > 0);
            event.time_ns += back_ns;
            *own_ns = event.time_ns;
            events.push((event, reader.line()));
        }
        // A stable sort: events of the same microsecond keep the order of the file.
        events.sort_by_key(|(event, _)| event.time_ns);
        self.sorted = Some(Sorted(events));
        Ok(())
    }

    fn reader(&self) -> Result<KmemReader, InputError> {
        Ok(KmemReader::open(&self.path)?.on_damage(self.on_damage))
    }

    /// A problem with the trace as a whole.
    pub(super) fn error(&self, reason: impl Into<String>) -> InputError {
        InputError::whole(self.name(), reason)
    }

    /// The file's name in errors and reports.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }
}

/// Reads a file as far as it is in time order.
fn stream(
    reader: &mut KmemReader,
    mut step: impl FnMut(&KmemEvent) -> Result<(), String>,
) -> Result<Pass, InputError> {
    let mut latest_ns = 0;
    while let Some(event) = reader.next() {
        let event = event.map_err(read_error)?;
        if event.time_ns < latest_ns {
            return Ok(Pass::OutOfOrder);
        }
        latest_ns = event.time_ns;
        step(&event).map_err(|reason| refused(reader.name(), reader.line(), "pfn", reason))?;
    }
    Ok(Pass::ToTheEnd)
}

/// An error of the reader, with what to do about it.
fn read_error(error: ImportError) -> InputError {
    let advice = match &error {
        ImportError::Cut { nr_events: 1.., .. } => "; `highwater replay --partial` replays those",
        ImportError::Field { .. } => "; `highwater replay --partial` passes such lines over",
        _ => "",
    };
    let mut error = InputError::from(error);
    error.reason += advice;
    error
}

fn refused(file: &str, line: u64, field: &str, reason: String) -> InputError {
    InputError {
        file: file.to_owned(),
        line: Some(line as usize),
        field: Some(field.to_owned()),
        reason,
    }
}

/// A time as traces print it.
pub(super) fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPU, microseconds, and frame; the frame is the line number.
    type Seen = (u32, u64, u64);

    fn seen(event: &KmemEvent) -> Seen {
        (event.cpu, event.time_ns / 1000, event.kind.pfn().unwrap())
    }

    /// The result of two passes over a text with these lines of CPU and microseconds.
    fn read(lines: &[(u32, u64)]) -> Result<(Vec<Seen>, Totals), InputError> {
        let mut text = String::new();
        for (line, (cpu, us)) in (1..).zip(lines) {
            let (s, us) = (us / 1_000_000, us % 1_000_000);
            text +=
                &format!("t-1 [{cpu:03}] ..... {s}.{us:06}: mm_page_free: pfn={line} order=0\n");
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.trace");
        std::fs::write(&path, text).unwrap();
        let mut trace = Trace::file(&path);
        let first = trace.first_pass(Vec::new, |events, event| {
            events.push(seen(event));
            Ok(())
        })?;
        let mut again = Vec::new();
        trace.each(|event| {
            again.push(seen(event));
            Ok(())
        })?;
        assert_eq!(first, again);
        Ok((first, trace.totals().clone()))
    }

    #[test]
    fn in_order_is_as_it_is() {
        let (events, totals) = read(&[(0, 5), (1, 5), (0, 5), (1, 7)]).unwrap();
        assert_eq!(events, [(0, 5, 1), (1, 5, 2), (0, 5, 3), (1, 7, 4)]);
        assert_eq!((totals.nr_events, totals.disorder), (4, Disorder::default()));
    }

    #[test]
    fn buffers_one_after_the_other_are_merged() {
        let lines = [(0, 5), (0, 7), (0, 9), (1, 4), (1, 7), (1, 7), (2, 9)];
        let (events, totals) = read(&lines).unwrap();
        let order = [(1, 4, 4), (0, 5, 1), (0, 7, 2), (1, 7, 5), (1, 7, 6), (0, 9, 3), (2, 9, 7)];
        assert_eq!(events, order);
        assert_eq!((totals.nr_events, totals.disorder.nr_lines), (7, 3));
        assert_eq!(totals.disorder.cpus, BTreeSet::from([1]));
        assert_eq!(totals.disorder.nr_own_clock, 0);
    }

    #[test]
    fn a_clock_that_is_adjusted_keeps_its_lines_in_order() {
        let (events, totals) = read(&[(0, 2000), (0, 1000), (1, 1500), (0, 1999)]).unwrap();
        assert_eq!(events, [(1, 1500, 3), (0, 2000, 1), (0, 2000, 2), (0, 2000, 4)]);
        assert_eq!((totals.disorder.nr_lines, totals.disorder.nr_own_clock), (3, 2));
    }

    #[test]
    fn two_recordings_are_no_trace() {
        let error = read(&[(0, 5_000_000), (1, 1), (0, 3_998_999)]).unwrap_err();
        assert_eq!((error.line, error.field.as_deref()), (Some(3), Some("timestamp")));
        let part = "CPU 0 goes back by 1.001001 s, from 5.000000 to 3.998999: two recordings";
        assert!(error.reason.starts_with(part), "{}", error.reason);
    }
}
