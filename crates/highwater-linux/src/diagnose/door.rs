//! One entry for all texts: the kind of a text decides which question it answers.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use highwater_files::input::InputError;
use highwater_report::Table;
use highwater_report::html::{self, AnswerPart, PageError};
use highwater_report::render::{Format, wrapped};
use highwater_results::import::log::Log;
use highwater_results::import::vmstat_log::VmstatLog;
use highwater_results::import::{KernelText, find_line, text_up_to, unpacked};
use highwater_results::input::GZIP;
use highwater_results::words::refusal;
use serde_json::Value;

use super::over_time::{Options, OverTime};
use super::snapshot::Snapshot;
use super::snapshot::folder::pressure_of;
use super::waits::Waits;
use super::{answers, json, markdown, page, read, terminal};

/// Most bytes of a log: logs of weeks have some hundred megabytes.
const BYTES_MAX: u64 = 1 << 30;

/// An answered text.
#[derive(Debug)]
pub enum Diagnosis {
    /// Why did the kernel refuse? Its log, and the log's name.
    Log(Log, String),
    /// Is this machine fragmented?
    Rest(Box<Snapshot>),
    /// Shortages of memory, disks and CPUs, and when they were.
    OverTime(Box<OverTime>),
    /// Which tasks were stalled?
    Waits(Box<Waits>, Ignored),
}

/// Lines of a trace's file that are a kernel's report, which the answer leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ignored {
    /// The first, from 1; none if there is no report.
    pub first_line: Option<u64>,
}

impl Diagnosis {
    /// Reads a file, or several files or folders of `/proc`.
    ///
    /// # Errors
    /// If a file cannot be read, is no text of Linux, or several are not all of `/proc`.
    pub fn read(paths: &[PathBuf], options: &Options) -> Result<Diagnosis, InputError> {
        let [path] = paths else { return Diagnosis::rest(paths) };
        let name = path.display().to_string();
        if path.is_dir() {
            let found = Diagnosis::rest(paths);
            return match (&found, pressure_of(path)) {
                (Err(_), Some(text)) => Diagnosis::of_text(&name, text.as_bytes(), options),
                _ => found,
            };
        }
        if path == Path::new("-") {
            let text = unpacked(&name, read_all(&name, std::io::stdin().lock())?, BYTES_MAX)?;
            return Diagnosis::of_text(&name, &text, options);
        }
        let open = || File::open(path).map_err(|error| InputError::whole(&name, refusal(&error)));
        let mut head = Vec::new();
        let read = open()?.take(KernelText::HEAD_BYTES as u64).read_to_end(&mut head);
        read.map_err(|error| InputError::whole(&name, refusal(&error)))?;
        let is_packed = head.starts_with(&GZIP);
        if is_packed || KernelText::of_bytes(&head) == Some(KernelText::Trace) {
            // A log has lines like a trace's, too: then a report decides.
            match Waits::read(path, &options.window) {
                Ok(waits) => {
                    let ignored = Ignored::of(path)?;
                    return Ok(Diagnosis::Waits(Box::new(waits), ignored));
                }
                Err(_) if is_packed => {
                    return Diagnosis::of_text(&name, &text_up_to(path, BYTES_MAX)?, options);
                }
                Err(error) => {
                    let log = Log::read(&read_all(&name, open()?)?);
                    return if log.reports.is_empty() {
                        Err(error.into())
                    } else {
                        Ok(Diagnosis::Log(log, name))
                    };
                }
            }
        }
        if matches!(
            KernelText::of_bytes(&head),
            Some(KernelText::Zoneinfo | KernelText::Buddyinfo | KernelText::PageTypeInfo)
        ) {
            return Diagnosis::rest(paths);
        }
        let text = unpacked(&name, read_all(&name, open()?)?, BYTES_MAX)?;
        Diagnosis::of_text(&name, &text, options)
    }

    /// The answer for a request of this order, if the text is of `/proc`; else the same.
    #[must_use]
    pub fn for_order(self, order: u32) -> Diagnosis {
        match self {
            Diagnosis::Rest(found) => Diagnosis::Rest(Box::new(found.for_order(order))),
            other => other,
        }
    }

    /// Remarks about parts of the text that the answer leaves out.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        match self {
            Diagnosis::Waits(_, Ignored { first_line: Some(line) }) => vec![format!(
                "line {line}: a kernel's report of a memory failure is left out; to read it, give its lines in \
                 a file of their own"
            )],
            _ => Vec::new(),
        }
    }

    /// A text of this name: a kernel's log, `vmstat`, lines of pressure, or one file of `/proc`.
    ///
    /// # Errors
    /// If it is none of them.
    pub fn of_text(name: &str, text: &[u8], options: &Options) -> Result<Diagnosis, InputError> {
        match KernelText::of_bytes(text) {
            Some(KernelText::VmstatProgram | KernelText::Pressure) => {
                let log = VmstatLog::parse(name, text)?;
                let found = OverTime::of(&log, options)
                    .map_err(|problem| InputError::whole(name, problem))?;
                Ok(Diagnosis::OverTime(Box::new(found)))
            }
            // A log has lines like a trace's, too: then a report decides.
            Some(KernelText::Trace) => match Waits::parse(name, text, &options.window) {
                Ok(waits) => Ok(Diagnosis::Waits(Box::new(waits), Ignored::of_text(text))),
                Err(error) => match Log::read(text) {
                    log if log.reports.is_empty() => Err(error.into()),
                    log => Ok(Diagnosis::Log(log, name.to_owned())),
                },
            },
            Some(KernelText::Zoneinfo | KernelText::Buddyinfo | KernelText::PageTypeInfo) => {
                let read = Snapshot::parse(&[(name, text)])?;
                Ok(Diagnosis::Rest(Box::new(read)))
            }
            // Texts of /proc behind others, such as a meminfo first.
            Some(KernelText::Meminfo) => match Snapshot::parse(&[(name, text)]) {
                Ok(found) => Ok(Diagnosis::Rest(Box::new(found))),
                Err(_) => Ok(Diagnosis::Log(read(name, text)?, name.to_owned())),
            },
            _ => Ok(Diagnosis::Log(read(name, text)?, name.to_owned())),
        }
    }

    fn rest(paths: &[PathBuf]) -> Result<Diagnosis, InputError> {
        Ok(Diagnosis::Rest(Box::new(Snapshot::read(paths)?)))
    }

    /// The answer in one sentence; of several reports in a log that of report `only` (from 1).
    #[must_use]
    pub fn sentence(&self, only: Option<usize>) -> String {
        match self {
            Diagnosis::Log(log, _) => answers(log)
                .get(only.unwrap_or(1).saturating_sub(1))
                .map_or_else(String::new, |answer| answer.sentence.clone()),
            Diagnosis::Rest(found) => found.sentence(),
            Diagnosis::OverTime(found) => found.sentence(),
            Diagnosis::Waits(found, _) => found.sentence(),
        }
    }

    fn tables(&self) -> Vec<Table> {
        match self {
            Diagnosis::Log(..) => Vec::new(),
            Diagnosis::Rest(found) => found.tables(),
            Diagnosis::OverTime(found) => found.tables(),
            Diagnosis::Waits(found, _) => found.tables(),
        }
    }

    /// The answer as text of this width.
    #[must_use]
    pub fn terminal(&self, only: Option<usize>, width: usize) -> String {
        match self {
            Diagnosis::Log(log, _) => terminal(log, &answers(log), only, width),
            _ => {
                let mut sentence = wrapped(&self.sentence(only), width).join("\n");
                for remark in self.remarks() {
                    sentence = format!("{sentence}\n{}", wrapped(&remark, width).join("\n"));
                }
                format!("{sentence}\n\n{}", Format::Terminal.tables(&self.tables(), width))
            }
        }
    }

    /// The answer as Markdown for a ticket.
    #[must_use]
    pub fn markdown(&self, only: Option<usize>) -> String {
        match self {
            Diagnosis::Log(log, _) => markdown(log, &answers(log), only),
            _ => format!(
                "**{}**\n\n{}{}",
                self.sentence(only),
                self.remarks().iter().map(|line| format!("{line}\n\n")).collect::<String>(),
                Format::Markdown.tables(&self.tables(), 0)
            ),
        }
    }

    /// The answer as JSON; see `schema` in it.
    #[must_use]
    pub fn json(&self, only: Option<usize>) -> Value {
        match self {
            Diagnosis::Log(log, _) => {
                let all = answers(log);
                let chosen = only.and_then(|nr| all.get(nr - 1..nr)).unwrap_or(&all);
                json(log, chosen)
            }
            Diagnosis::Rest(found) => found.json(),
            Diagnosis::OverTime(found) => found.json(),
            Diagnosis::Waits(found, _) => {
                let mut json = found.json();
                if let Some(fields) = json.as_object_mut() {
                    fields.insert("remarks".to_owned(), self.remarks().into());
                }
                json
            }
        }
    }

    /// The answer as an HTML page.
    ///
    /// # Errors
    /// Never for the program as released.
    pub fn page(&self, only: Option<usize>) -> Result<String, PageError> {
        let title = match self {
            Diagnosis::Log(log, name) => return page(name, log, &answers(log), only),
            Diagnosis::Rest(_) => "Is this machine fragmented?",
            Diagnosis::OverTime(_) => "When were memory, disks or CPUs short?",
            Diagnosis::Waits(..) => "Which tasks were stalled?",
        };
        let part = AnswerPart {
            heading: "The answer".to_owned(),
            sentences: vec![self.sentence(only)],
            tables: self.tables(),
            lists: match self {
                Diagnosis::Rest(found) => found.free_blocks(),
                _ => Vec::new(),
            },
            notes: self.remarks(),
            ..AnswerPart::default()
        };
        html::answers(title, &[], &[part])
    }
}

impl Ignored {
    /// The first line of a trace's file that only a kernel's report has.
    fn of(path: &Path) -> Result<Ignored, InputError> {
        Ok(Ignored { first_line: find_line(path, is_of_report)? })
    }

    fn of_text(text: &[u8]) -> Ignored {
        let at = text.split(|byte| *byte == b'\n').position(is_of_report);
        Ignored { first_line: at.map(|at| at as u64 + 1) }
    }
}

/// Has the line the report's own words? A trace may name the functions of one.
fn is_of_report(line: &[u8]) -> bool {
    const WORDS: [&str; 3] =
        ["invoked oom-killer:", "page allocation failure: order:", "Mem-Info:"];
    let line = String::from_utf8_lossy(line);
    WORDS.iter().any(|words| line.contains(words))
}

fn read_all(name: &str, from: impl Read) -> Result<Vec<u8>, InputError> {
    let mut text = Vec::new();
    let read = from.take(BYTES_MAX + 1).read_to_end(&mut text);
    if read.map_err(|error| InputError::whole(name, refusal(&error)))? as u64 > BYTES_MAX {
        return Err(InputError::whole(name, "more than 1 GiB: cut the part with the report out"));
    }
    Ok(text)
}
