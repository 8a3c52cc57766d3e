//! What makes a replay less than it seems: said in the report, each with its counts.
//!
//! What only takes away from a trace's worth is a warning here. What leaves nothing of it is an error: lines that
//! cannot be put in order ([`super::trace`]) and [too many frees](refuse_unknown_frees) of pages that nothing is
//! known of.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::survey::Survey;
use super::trace::{Totals, seconds};
use super::{EventKind, NEAR_EVENTS, NEAR_SHARE, Replay};

/// Longest time without an event that is no gap. CPUs' lists decay once a second (rules/per-cpu-lists#decay): after
/// longer than that they no longer hold what the events before left there.
pub const GAP_NS_MIN: u64 = 1_000_000_000;

/// A reason to trust a replay less.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Warning {
    /// The gzip data end in the middle; what is whole was asked for.
    CutOff {
        /// The line at which they do.
        line: u64,
    },
    /// Lines did not stand in order of time, and were sorted.
    OutOfOrder {
        /// Lines earlier than one before them.
        lines: u64,
        /// CPUs that they are from.
        cpus: u64,
    },
    /// Lines earlier than the one before them of the same CPU were given its time.
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
    /// Events were written over before the text was made, by its headers.
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
    /// Frees of pages that were not allocated, and allocations of pages that were not free.
    UnknownFrees {
        /// So many: those of the policy that has most.
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
            Warning::OutOfOrder { lines, cpus } => {
                let unit = if *cpus == 1 { "CPU" } else { "CPUs" };
                write!(
                    f,
                    "{lines} lines of {cpus} {unit} were not in order of time and were sorted"
                )
            }
            Warning::OwnClock { lines } => write!(
                f,
                "{lines} lines are earlier than the one before them of their CPU and got its time"
            ),
            Warning::LostEvents { notices, events } => {
                write!(f, "the tracer lost {events} events or more, in {notices} places")
            }
            Warning::OverwrittenEvents { events } => write!(
                f,
                "the tracer's buffer was too small: {events} events were written over before they were read"
            ),
            Warning::Gaps { gaps, longest_ns, longest_at_ns } => write!(
                f,
                "{gaps} gaps of more than {} s without an event, the longest of {} s after {}",
                GAP_NS_MIN / 1_000_000_000,
                seconds(*longest_ns),
                seconds(*longest_at_ns)
            ),
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
    pub(super) fn all(survey: &Survey, totals: &Totals, replays: &[Replay]) -> Vec<Warning> {
        let disorder = &totals.disorder;
        let skipped = &totals.skipped;
        let gaps = &survey.gaps;
        let (frees, of) = (most_unknown(replays), survey.tally.total(EventKind::Free));
        let when = |applies: bool, warning: Warning| applies.then_some(warning);
        [
            totals.cut_at.map(|line| Warning::CutOff { line }),
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
            when(frees > 0, Warning::UnknownFrees { frees, of }),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Kind and counts, and the sentence.
    pub(super) fn json(&self) -> Value {
        // Plain numbers under plain names: nothing that JSON could not hold.
        let mut value = serde_json::to_value(self).unwrap_or_default();
        value["text"] = self.to_string().into();
        value
    }
}

/// Why a replay says nothing: its allocator did other work than the traced one. That may be as much as a replay
/// may differ from its trace and still be near it; with more, no figure could be told from the error.
pub(super) fn refuse_unknown_frees(survey: &Survey, replays: &[Replay]) -> Result<(), String> {
    let (unknown, all) = (most_unknown(replays), survey.tally.total(EventKind::Free));
    if unknown <= NEAR_EVENTS || unknown as f64 <= all as f64 * NEAR_SHARE {
        return Ok(());
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

fn share_of_frees(frees: u64, of: u64) -> String {
    let percent = frees as f64 * 100.0 / of.max(1) as f64;
    format!("{frees} of {of} frees ({percent:.1} %)")
}
