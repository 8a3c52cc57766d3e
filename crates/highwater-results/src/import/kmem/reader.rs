//! The iterator over a trace.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::Path;

use super::gfp::GfpDecoder;
use super::header::{Line, classify};
use super::{KmemEvent, fields};
use crate::import::ImportError;
use crate::import::source::{OnCut, Source};

/// Reads the page-allocator events of a trace text, plain or gzip, in the order of the file.
///
/// The first error ends the iteration. A text without any such event is an error at its end.
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
    is_done: bool,
}

/// What was passed over, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkippedLines {
    /// Empty lines.
    pub nr_blank: u64,
    /// Lines that start with `#`.
    pub nr_comments: u64,
    /// Well-formed lines of events that are not read here.
    pub nr_other_events: u64,
    /// Lines of no known form (headings, call chains, a line cut off in its columns).
    pub nr_unrecognised: u64,
    /// Removals from the buddy lists that found no block (old kernels).
    pub nr_without_page: u64,
    /// Notices that the tracer lost events.
    pub nr_lost_notices: u64,
    /// Events lost, as far as the notices say how many.
    pub nr_lost_events: u64,
    /// Events that the tracer wrote over before the text was made, by its headers.
    pub nr_overwritten_events: u64,
    /// Names of request flags that were not understood, and how often each came up.
    pub unknown_gfp_names: BTreeMap<String, u64>,
}

impl KmemReader {
    /// Opens a file. Whether it is packed is seen from its bytes; the name does not matter.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ImportError> {
        Source::open(path.as_ref()).map(Self::new)
    }

    /// Reads from anywhere; `name` stands for the file in errors.
    pub fn from_reader(
        name: &str,
        reader: impl Read + Send + 'static,
    ) -> Result<Self, ImportError> {
        Source::from_reader(name, reader).map(Self::new)
    }

    /// Says what to do where gzip data end in the middle; an error unless said otherwise.
    #[must_use]
    pub fn on_cut(mut self, on_cut: OnCut) -> Self {
        self.source.set_on_cut(on_cut);
        self
    }

    /// The line, from 1, at which gzip data ended in the middle.
    #[must_use]
    pub fn cut_at(&self) -> Option<u64> {
        self.source.cut_at()
    }

    /// What was passed over so far; complete when the iteration has ended.
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
            is_done: false,
        }
    }

    /// The next event, or `None` at the end of the text.
    fn next_event(&mut self) -> Result<Option<KmemEvent>, ImportError> {
        while let Some(line) = self.source.next_line()? {
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
                // A capture that was stopped ends anywhere.
                Err(problem) if self.source.is_cut_off() && problem.is_missing() => {
                    self.skipped.nr_unrecognised += 1;
                }
                Err(problem) => {
                    return Err(ImportError::in_field(
                        self.source.name(),
                        self.source.line(),
                        problem,
                    ));
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
    /// Lines passed over, whatever the reason.
    #[must_use]
    pub fn nr_lines(&self) -> u64 {
        self.nr_blank
            + self.nr_comments
            + self.nr_other_events
            + self.nr_unrecognised
            + self.nr_without_page
            + self.nr_lost_notices
    }

    fn count(&mut self, line: &Line<'_>) {
        match line {
            Line::Event(_) => {}
            Line::OtherEvent => self.nr_other_events += 1,
            Line::Comment => self.nr_comments += 1,
            Line::Overwritten(nr_events) => {
                self.nr_comments += 1;
                self.nr_overwritten_events = self.nr_overwritten_events.saturating_add(*nr_events);
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
