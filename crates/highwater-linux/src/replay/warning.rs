//! Warnings about a replay's limits; the report prints each with its counts.
//!
//! A warning is for a trace that is still useful. A trace that is useless gives an error: lines
//! that cannot be ordered ([`super::trace`]), and [too many frees](refuse_unknown_frees) of unknown
//! pages.

use std::fmt;

use highwater_results::words::count;

use serde::Serialize;
use serde_json::Value;

use super::state::Sidecars;
use super::survey::Survey;
use super::trace::{Totals, seconds};
use super::{EventKind, NEAR_EVENTS, NEAR_SHARE, Replay};

/// A longer time without events is a gap. Per-CPU lists decay once a second
/// (rules/per-cpu-lists#decay), so after a gap they no longer hold what earlier events left there.
pub const GAP_NS_MIN: u64 = 1_000_000_000;

/// Names of unknown flags that a sentence has room for.
const NAMES_SHOWN: usize = 3;

/// A reason to trust a replay less.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Warning {
    /// The gzip data end early; the user asked to use the complete part.
    CutOff {
        /// The line at which they do.
        line: u64,
    },
    /// The last line is incomplete and was not read.
    UnendedLine {
        /// Which.
        line: u64,
    },
    /// The user asked to skip lines with unreadable fields, and some were skipped.
    BadLines {
        /// So many.
        lines: u64,
        /// The first.
        first: u64,
        /// The unreadable field.
        field: String,
        /// Why not.
        problem: String,
    },
    /// The tracer's headers promise more entries than the text has.
    MissingEntries {
        /// So many.
        promised: u64,
        /// The actual number.
        found: u64,
    },
    /// Lines were not in time order, and were sorted.
    OutOfOrder {
        /// Lines earlier than one before them.
        lines: u64,
        /// CPUs of these lines.
        cpus: u64,
    },
    /// Lines earlier than the previous line of the same CPU got its time.
    OwnClock {
        /// So many lines.
        lines: u64,
    },
    /// The tracer noticed in the middle of the trace that it lost events.
    LostEvents {
        /// Notices.
        notices: u64,
        /// Events, as far as the notices say how many.
        events: u64,
    },
    /// By the text's headers, events were overwritten before the text was made.
    OverwrittenEvents {
        /// So many.
        events: u64,
    },
    /// Times without any event, longer than [`GAP_NS_MIN`].
    Gaps {
        /// So many.
        gaps: u64,
        /// The longest.
        longest_ns: u64,
        /// When it began, by the trace's clock.
        longest_at_ns: u64,
    },
    /// Requests with unknown flags, which are replayed without these flags.
    UnknownGfpNames {
        /// How often such a flag occurred.
        uses: u64,
        /// The names.
        names: Vec<String>,
    },
    /// The files beside the trace cannot all be of one machine.
    Sidecars {
        /// What disagrees.
        what: String,
    },
    /// The model does something differently from the traced kernel.
    NotModelled {
        /// The difference.
        what: String,
    },
    /// Free pages of CMA, which Linux gives to movable requests.
    Cma {
        /// So many.
        pages: u64,
    },
    /// Pages were allocated, and no `mm_page_free` was recorded.
    NoFrees {
        /// Allocations of pages that were already allocated, in the policy with the most of them.
        again: u64,
    },
    /// Frees of pages that were not allocated, and allocations of pages that were not free.
    UnknownFrees {
        /// Their number, in the policy with the most of them.
        frees: u64,
        /// Frees in the trace.
        of: u64,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::CutOff { line } => write!(
                f,
                "the gzip data end in the middle of line {line}: the lines before it are replayed"
            ),
            Warning::UnendedLine { line } => write!(
                f,
                "the text ends in the middle of line {line}: the lines before it are replayed"
            ),
            Warning::BadLines { lines, first, field, problem } => write!(
                f,
                "{} cannot be read and {} passed over, the first of them line {first}: {field}: {problem}",
                count(*lines, "line"),
                if *lines == 1 { "was" } else { "were" }
            ),
            Warning::MissingEntries { promised, found } => write!(
                f,
                "the header says {}, the file has {found}: the rest is missing",
                count_many(*promised, "entry", "entries")
            ),
            Warning::OutOfOrder { lines, cpus } => write!(
                f,
                "{} of {} {} not in order of time and {2} sorted",
                count(*lines, "line"),
                count(*cpus, "CPU"),
                if *lines == 1 { "was" } else { "were" },
            ),
            Warning::OwnClock { lines } => write!(
                f,
                "{} earlier than the one before of the same CPU got its time",
                count(*lines, "line")
            ),
            Warning::LostEvents { notices, events } => {
                let (events, places) = (count(*events, "event"), count(*notices, "place"));
                write!(f, "the tracer lost {events} or more, in {places}")
            }
            Warning::OverwrittenEvents { events } => write!(
                f,
                "the tracer's buffer was too small: {} written over before being read",
                count(*events, "event")
            ),
            Warning::Gaps { gaps, longest_ns, longest_at_ns } => write!(
                f,
                "{} of more than {} s without an event, the longest of {} s after {}",
                count(*gaps, "gap"),
                GAP_NS_MIN / 1_000_000_000,
                seconds(*longest_ns),
                seconds(*longest_at_ns)
            ),
            Warning::UnknownGfpNames { uses, names } => {
                let shown = names.iter().take(NAMES_SHOWN).map(String::as_str).collect::<Vec<_>>();
                let more = if names.len() > NAMES_SHOWN { ", ..." } else { "" };
                let of = count(names.len() as u64, "unknown request flag");
                let times = count(*uses, "time");
                write!(f, "{of}, {times}: {}{more}; replayed without", shown.join(", "))
            }
            Warning::Sidecars { what } => {
                write!(f, "the files beside the trace are of different machines: {what}")
            }
            Warning::NotModelled { what } => write!(f, "{what}"),
            Warning::Cma { pages } => write!(
                f,
                "{} free in CMA, which is not modelled: no request gets them here",
                count_many(*pages, "page is", "pages are")
            ),
            Warning::NoFrees { again: 0 } => {
                write!(f, "no mm_page_free events were recorded: what was freed is not known")
            }
            Warning::NoFrees { again } => write!(f, "{}", no_frees(*again)),
            Warning::UnknownFrees { frees, of } => {
                write!(
                    f,
                    "{} are of unknown pages: events are missing",
                    share_of_frees(*frees, *of)
                )
            }
        }
    }
}

impl Warning {
    /// All that apply, in the order of their declaration.
    pub(super) fn all(
        survey: &Survey,
        totals: &Totals,
        sidecars: &Sidecars,
        replays: &[Replay],
    ) -> Vec<Warning> {
        let disorder = &totals.disorder;
        let skipped = &totals.skipped;
        let gaps = &survey.gaps;
        let (frees, of) = (most_unknown(replays), nr_frees(survey));
        let nr_missing = skipped.nr_missing_entries(totals.nr_events);
        let names = &skipped.unknown_gfp_names;
        let allocated = survey.tally.total(EventKind::Alloc);
        let when = |applies: bool, warning: Warning| applies.then_some(warning);
        let cma = replays.first().map_or(0, |replay| replay.nr_cma);
        let own = [
            totals.cut_at.map(|line| Warning::CutOff { line }),
            totals.unended_at.map(|line| Warning::UnendedLine { line }),
            skipped.first_bad.as_ref().map(|bad| Warning::BadLines {
                lines: skipped.nr_bad,
                first: bad.line,
                field: bad.field.clone(),
                problem: bad.problem.clone(),
            }),
            when(
                nr_missing > 0,
                Warning::MissingEntries {
                    promised: skipped.nr_promised_entries.unwrap_or(0),
                    found: skipped.nr_entries(totals.nr_events),
                },
            ),
            when(
                disorder.nr_lines > 0,
                Warning::OutOfOrder { lines: disorder.nr_lines, cpus: disorder.cpus.len() as u64 },
            ),
            when(disorder.nr_own_clock > 0, Warning::OwnClock { lines: disorder.nr_own_clock }),
            when(
                skipped.nr_lost_notices > 0,
                Warning::LostEvents {
                    notices: skipped.nr_lost_notices,
                    events: skipped.nr_lost_events,
                },
            ),
            when(
                skipped.nr_overwritten_events > 0,
                Warning::OverwrittenEvents { events: skipped.nr_overwritten_events },
            ),
            when(
                gaps.nr > 0,
                Warning::Gaps {
                    gaps: gaps.nr,
                    longest_ns: gaps.longest_ns,
                    longest_at_ns: gaps.longest_at_ns,
                },
            ),
            when(
                !names.is_empty(),
                Warning::UnknownGfpNames {
                    uses: names.values().sum(),
                    names: names.keys().cloned().collect(),
                },
            ),
            when(of == 0 && allocated > 0, Warning::NoFrees { again: frees }),
            when(frees > 0 && of > 0, Warning::UnknownFrees { frees, of }),
            when(cma > 0, Warning::Cma { pages: cma }),
        ];
        let disagree = sidecars.disagreements().into_iter().map(|what| Warning::Sidecars { what });
        let other = sidecars
            .not_modelled("the traced kernel")
            .into_iter()
            .map(|what| Warning::NotModelled { what });
        own.into_iter().flatten().chain(disagree).chain(other).collect()
    }

    /// Kind and counts, and the sentence.
    pub(super) fn json(&self) -> Value {
        // Plain numbers under plain names: always valid JSON.
        let mut value = serde_json::to_value(self).unwrap_or_default();
        value["text"] = self.to_string().into();
        value
    }
}

/// Why a replay is meaningless: its allocator did other work than the traced one. The limit is the
/// difference within which a replay still counts as near its trace. Above it the error is larger
/// than any figure.
pub(super) fn refuse_unknown_frees(survey: &Survey, replays: &[Replay]) -> Result<(), String> {
    let (unknown, all) = (most_unknown(replays), nr_frees(survey));
    if unknown <= NEAR_EVENTS || unknown as f64 <= all as f64 * NEAR_SHARE {
        return Ok(());
    }
    if all == 0 {
        return Err(no_frees(unknown) + ": record that event too");
    }
    Err(format!(
        "{} are of unknown pages: too many events are missing for a replay to say anything",
        share_of_frees(unknown, all)
    ))
}

/// Of the policy that has most: a request that one policy cannot serve is no fault of the trace.
fn most_unknown(replays: &[Replay]) -> u64 {
    replays.iter().map(|r| r.nr_frees_unknown).max().unwrap_or(0)
}

/// Recorded frees. A list free has an event of each kind, if both kinds were recorded.
fn nr_frees(survey: &Survey) -> u64 {
    match survey.tally.total(EventKind::Free) {
        0 => survey.tally.total(EventKind::FreeBatched),
        frees => frees,
    }
}

fn no_frees(again: u64) -> String {
    let pages = count_many(again, "page was", "pages were");
    format!("no mm_page_free events were recorded, but {pages} allocated again")
}

fn count_many(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

fn share_of_frees(frees: u64, of: u64) -> String {
    let percent = frees as f64 * 100.0 / of.max(1) as f64;
    format!("{frees} of {of} frees ({percent:.1} %)")
}
