//! Why did the kernel refuse? Reports of kernel logs, answered by the allocator's own functions.
//!
//! [`highwater_results::import::log`] reads the text and never invents. This module judges what it
//! read: the request gets the rights of the nearest preset, each zone is tested as the allocator
//! tests it, and the reason follows from these rows. Then the same functions answer what would have
//! helped.
//!
//! | module | holds |
//! |---|---|
//! | `judge` | preset of the kernel, rights of the request |
//! | `zone` | each zone: mark, reserve, blocks for this request |
//! | `cause` | the main reason, and others that hold as well |
//! | `allocator` | the zones' free lists in our allocator, and the request made there |
//! | `remedy` | other settings, kernels and orders, tried on the same zones |
//! | `holder` | holders of the memory |
//! | `group` | a memory cgroup at its limit |
//! | `advice` | what to do now |
//! | `sentence`, `severity` | the answer in words, and how bad it is |
//! | `machine` | a machine file of the report's zones |
//! | `state` | its free lists as a state directory |
//! | `unknown` | facts that the text lacks |
//! | `refusal` | why a text has no answer |
//! | `text`, `page` | the answer for a terminal, as Markdown, JSON, HTML |
//!
//! Other texts answer other questions. [`Diagnosis`] recognises a text, and each module reads its own:
//!
//! | module | question |
//! |---|---|
//! | [`snapshot`] | is this machine fragmented, and how many huge pages are to be had? |
//! | [`over_time`] | when were memory, disks or CPUs short? |
//! | [`waits`] | which tasks were stalled, for how long, and why? |
//!
//! [`window`] is the part of a text over time that is asked for; `fitted` cuts tables to a page.

mod advice;
mod allocator;
mod cause;
mod door;
mod fitted;
mod group;
mod holder;
mod judge;
mod machine;
pub mod over_time;
mod page;
mod refusal;
mod remedy;
mod sentence;
mod severity;
pub mod snapshot;
mod state;
mod text;
mod unknown;
pub mod waits;
pub mod window;
mod words;
mod zone;

#[cfg(test)]
mod kill_tests;
#[cfg(test)]
mod tests;

use highwater_files::input::InputError;
use highwater_results::import::log::{Log, Report};

pub use allocator::Rebuilt;
pub use cause::{Cause, Reasons};
pub use door::Diagnosis;
pub use holder::Holder;
pub use judge::{Judge, Rights};
pub use machine::machine_file;
pub use page::page;
pub use remedy::{Remedy, Trial};
pub use state::{StateOut, state_of_report, state_of_texts};
pub use text::{json, markdown, terminal};
pub use zone::ZoneRow;

/// The answer to one report.
#[derive(Clone, Debug)]
pub struct Answer<'a> {
    /// The report as read.
    pub report: &'a Report,
    /// Rules and rights.
    pub judge: Judge,
    /// Zones in the order of the text.
    pub rows: Vec<ZoneRow<'a>>,
    /// Why.
    pub reasons: Reasons,
    /// The reason in one sentence.
    pub sentence: String,
    /// How bad it is, in one sentence; none if the text does not say.
    pub severity: Option<String>,
    /// Advice, the most useful sentence first.
    pub to_do: Vec<String>,
    /// Holders of the memory, the largest first.
    pub holders: Vec<Holder>,
    /// Memory of the machine or usage of the cgroup, kB.
    pub memory_kb: Option<u64>,
    /// The largest tasks.
    pub tasks: Vec<Holder>,
    /// Trials: would another setting, kernel, order or right have helped?
    pub remedies: Vec<Remedy>,
    /// Facts that the text lacks, and numbers in it that do not agree.
    pub unknown: Vec<String>,
}

impl<'a> Answer<'a> {
    /// Answers a report.
    #[must_use]
    pub fn of(report: &'a Report) -> Answer<'a> {
        let judge = Judge::of(report);
        let rows = zone::rows(report, &judge);
        let deciding = zone::deciding(report, &rows);
        let mut reasons = cause::reasons(report, &judge, &deciding);
        reasons.is_certain &= !zone::is_of_unknown_node(report, &rows);
        let sentence = sentence::of(report, &judge, &deciding, &reasons);
        let severity = severity::of(report, &judge, &reasons);
        let (holders, memory_kb) = holder::holders(report);
        let remedies = remedy::remedies(report, &judge, &deciding, &reasons);
        let unknown = unknown::of(report, &judge, &rows, &reasons);
        let tasks = holder::tasks(report);
        let to_do = advice::of(&advice::Known {
            report,
            rows: &rows,
            reasons: &reasons,
            holders: &holders,
            memory_kb,
            remedies: &remedies,
        });
        Answer {
            report,
            judge,
            rows,
            reasons,
            sentence,
            severity,
            to_do,
            holders,
            memory_kb,
            tasks,
            remedies,
            unknown,
        }
    }
}

/// Reads a text of this name.
///
/// # Errors
/// If it has no report.
pub fn read(name: &str, bytes: &[u8]) -> Result<Log, InputError> {
    let log = Log::read(bytes);
    if log.reports.is_empty() {
        return Err(refusal::of(name, bytes, log.lines));
    }
    Ok(log)
}

/// Answers all reports of a log.
#[must_use]
pub fn answers(log: &Log) -> Vec<Answer<'_>> {
    log.reports.iter().map(Answer::of).collect()
}
