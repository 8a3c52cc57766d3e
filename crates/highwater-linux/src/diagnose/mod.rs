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
//! | `holder` | what holds the memory |
//! | `sentence` | the answer in words |
//! | `text` | the answer as tables, JSON, Markdown |

mod cause;
mod judge;
mod sentence;
mod text;
mod words;
mod zone;

use highwater_results::import::log::{Log, Report};

pub use cause::{Cause, Reasons};
pub use judge::{Judge, Rights};
pub use text::json;
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
}

impl<'a> Answer<'a> {
    /// Answers a report.
    #[must_use]
    pub fn of(report: &'a Report) -> Answer<'a> {
        let judge = Judge::of(report);
        let rows = zone::rows(report, &judge);
        let reasons = cause::reasons(report, &judge, &rows);
        let sentence = sentence::of(report, &judge, &rows, &reasons);
        Answer { report, judge, rows, reasons, sentence }
    }
}

/// Answers all reports of a log.
#[must_use]
pub fn answers(log: &Log) -> Vec<Answer<'_>> {
    log.reports.iter().map(Answer::of).collect()
}
