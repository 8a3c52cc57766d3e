//! The iterator over a trace.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::Path;

use super::gfp::GfpDecoder;
use super::header::{Line, classify};
use super::{KmemEvent, fields};
use crate::import::ImportError;
use crate::import::error::{FieldProblem, printable};
use crate::import::source::{OnDamage, Source};

/// Reads the page-allocator events of a trace text, plain or gzip, in the order of the file.
///
/// The first error ends the iteration. A text without any such event is an error at the end of the
/// text.
///
/// ```
/// use highwater_results::import::kmem::{KmemKind, KmemReader};
///
/// let text = b"  cat-7 [001] d..3. 5.25: mm_page_free: page=00000000abcdef01 pfn=0x1870 order=1\n";
/// let events: Result<Vec<_>, _> = KmemReader::from_reader("example", &text[..])?.collect();
/// assert_eq!(events?[0].kind, KmemKind::Free { pfn: 0x1870, order: 1 });
/// # Ok::<(), highwater_results::import::ImportError>(())
/// ```
pub struct KmemReader {
    source: Source,
    gfp: GfpDecoder,
    skipped: SkippedLines,
    nr_events: u64,
    unended_at: Option<u64>,
    is_done: bool,
}

/// Lines and events that were skipped, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkippedLines {
    /// Empty lines.
    pub nr_blank: u64,
    /// Lines that start with `#`.
    pub nr_comments: u64,
    /// Well-formed lines of other events.
    pub nr_other_events: u64,
    /// Lines of no known form (headings, call chains), and a last line without a line end.
    pub nr_unrecognised: u64,
    /// Removals from the buddy lists that found no block (old kernels).
    pub nr_without_page: u64,
    /// Notices that the tracer lost events.
    pub nr_lost_notices: u64,
    /// Events lost, as far as the notices give numbers.
    pub nr_lost_events: u64,
    /// Events that the tracer overwrote before the text was made, according to its headers.
    pub nr_overwritten_events: u64,
    /// Entries that the tracer's headers promise; none without such a header.
    pub nr_promised_entries: Option<u64>,
    /// Lines of events with unreadable fields, if those are skipped ([`OnDamage::UseWhole`]).
    pub nr_bad: u64,
    /// The first of these lines: line, field, problem.
    pub first_bad: Option<BadLine>,
    /// Unknown GFP flag names, with their number of occurrences.
    pub unknown_gfp_names: BTreeMap<String, u64>,
}

/// A line that was skipped because it cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Line number, from 1.
    pub line: u64,
    /// The field's name in the file.
    pub field: String,
    /// The problem.
    pub problem: String,
}

impl KmemReader {
    /// Opens a file. The bytes decide whether it is packed, not the name.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ImportError> {
        Source::open(path.as_ref()).map(Self::new)
    }

    /// Reads from any reader; `name` stands for the file in errors.
    pub fn from_reader(
        name: &str,
        reader: impl Read + Send + 'static,
    ) -> Result<Self, ImportError> {
        Source::from_reader(name, reader).map(Self::new)
    }

    /// Sets the treatment of gzip data that end in the middle and of unreadable lines. The default
    /// is an error.
    #[must_use]
    pub fn on_damage(mut self, on_damage: OnDamage) -> Self {
        self.source.set_on_damage(on_damage);
        self
    }

    /// The line, from 1, at which gzip data ended in the middle.
    #[must_use]
    pub fn cut_at(&self) -> Option<u64> {
        self.source.cut_at()
    }

    /// The line, from 1, at which the text ends without a line end. A capture was stopped there.
    /// The line is not read, because its rest is unknown.
    #[must_use]
    pub fn unended_at(&self) -> Option<u64> {
        self.unended_at
    }

    /// Skipped lines and events so far; complete when the iteration has ended.
    #[must_use]
    pub fn skipped(&self) -> SkippedLines {
        SkippedLines { unknown_gfp_names: self.gfp.unknown().clone(), ..self.skipped.clone() }
    }

    /// Events returned so far.
    #[must_use]
    pub fn nr_events(&self) -> u64 {
        self.nr_events
    }

    /// The line, from 1, of the event returned last.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.source.line()
    }

    /// The file as it is named in errors.
    #[must_use]
    pub fn name(&self) -> &str {
        self.source.name()
    }

    fn new(source: Source) -> Self {
        Self {
            source,
            gfp: GfpDecoder::default(),
            skipped: SkippedLines::default(),
            nr_events: 0,
            unended_at: None,
            is_done: false,
        }
    }

    /// The next event, or `None` at the end of the text.
    fn next_event(&mut self) -> Result<Option<KmemEvent>, ImportError> {
        while self.source.next_line()?.is_some() {
            let line = self.source.text();
            if self.source.is_cut_off() && !line.trim_ascii().is_empty() {
                self.unended_at = Some(self.source.line());
                self.skipped.nr_unrecognised += 1;
                break;
            }
            let parsed = classify(line).and_then(|what| match what {
                Line::Event(header) => {
                    let kind = fields::decode(header.event, header.fields, &mut self.gfp)?;
                    if kind.is_none() {
                        self.skipped.nr_without_page += 1;
                    }
                    Ok(kind.map(|kind| KmemEvent {
                        cpu: header.cpu,
                        time_ns: header.time_ns,
                        pid: header.pid,
                        kind,
                    }))
                }
                other => {
                    self.skipped.count(&other);
                    Ok(None)
                }
            });
            match parsed {
                Ok(Some(event)) => {
                    self.nr_events += 1;
                    return Ok(Some(event));
                }
                Ok(None) => {}
                Err(problem) if self.source.on_damage() == OnDamage::UseWhole => {
                    self.skipped.count_bad(self.source.line(), problem);
                }
                Err(problem) => {
                    let (name, line) = (self.source.name(), self.source.line());
                    return Err(ImportError::in_field(name, line, problem));
                }
            }
        }
        if self.nr_events == 0 && self.skipped.nr_without_page == 0 {
            return Err(self.no_events());
        }
        Ok(None)
    }

    fn no_events(&self) -> ImportError {
        let is_misnamed = !self.source.is_gzip() && self.source.name().ends_with(".gz");
        let hint = if self.source.line() == 0 {
            " (the file is empty)"
        } else if is_misnamed {
            " (named .gz, but not gzip data)"
        } else if self.skipped.nr_bad > 0 {
            " (events are named, but cannot be read)"
        } else if self.unended_at.is_some() {
            " (the last of them has no end)"
        } else {
            ""
        };
        ImportError::NoEvents {
            file: self.source.name().to_owned(),
            nr_lines: self.source.line(),
            hint,
        }
    }
}

impl Iterator for KmemReader {
    type Item = Result<KmemEvent, ImportError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let mut item = self.next_event().transpose();
        self.is_done = !matches!(item, Some(Ok(_)));
        if let Some(Err(ImportError::Cut { nr_events, .. })) = &mut item {
            *nr_events = self.nr_events;
        }
        item
    }
}

impl std::iter::FusedIterator for KmemReader {}

impl fmt::Debug for KmemReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KmemReader")
            .field("name", &self.name())
            .field("line", &self.line())
            .field("nr_events", &self.nr_events)
            .finish_non_exhaustive()
    }
}

impl SkippedLines {
    /// Number of skipped lines, for all reasons.
    #[must_use]
    pub fn nr_lines(&self) -> u64 {
        self.nr_blank
            + self.nr_comments
            + self.nr_other_events
            + self.nr_unrecognised
            + self.nr_without_page
            + self.nr_lost_notices
            + self.nr_bad
    }

    /// Entries promised by the tracer's headers that are missing from a text of `nr_events`. A line
    /// that is not an entry (a call chain below one) counts as an entry, so a text may have more
    /// than was promised.
    #[must_use]
    pub fn nr_missing_entries(&self, nr_events: u64) -> u64 {
        let promised = self.nr_promised_entries.unwrap_or(0);
        promised.saturating_sub(self.nr_entries(nr_events))
    }

    /// Lines that may be entries of the tracer, in a text of `nr_events`.
    #[must_use]
    pub fn nr_entries(&self, nr_events: u64) -> u64 {
        let others = self.nr_other_events + self.nr_unrecognised + self.nr_without_page;
        nr_events + others + self.nr_bad
    }

    fn count_bad(&mut self, line: u64, FieldProblem { field, problem }: FieldProblem) {
        self.nr_bad += 1;
        self.first_bad.get_or_insert_with(|| BadLine {
            line,
            field: printable(&field),
            problem: printable(&problem),
        });
    }

    fn count(&mut self, line: &Line<'_>) {
        match line {
            Line::Event(_) => {}
            Line::OtherEvent => self.nr_other_events += 1,
            Line::Comment => self.nr_comments += 1,
            Line::Entries { nr_held, nr_written } => {
                self.nr_comments += 1;
                let nr_overwritten = nr_written.saturating_sub(*nr_held);
                self.nr_overwritten_events =
                    self.nr_overwritten_events.saturating_add(nr_overwritten);
                let promised = self.nr_promised_entries.get_or_insert(0);
                *promised = promised.saturating_add(*nr_held);
            }
            Line::Blank => self.nr_blank += 1,
            Line::Unrecognised => self.nr_unrecognised += 1,
            Line::Lost(nr_lost) => {
                self.nr_lost_notices += 1;
                self.nr_lost_events = self.nr_lost_events.saturating_add(nr_lost.unwrap_or(0));
            }
        }
    }
}
