//! Advice to an operator: one to four sentences, each with the setting or the command.
//!
//! | module | for |
//! |---|---|
//! | `group` | a memory cgroup at its limit |
//! | `kill` | a machine, cpuset or memory policy that ran out: what holds the memory |
//! | `request` | a refused request |
//!
//! A sentence stands on what the text has. Without numbers it says which lines to get.

mod group;
mod kill;
mod request;

use highwater_results::import::log::{Report, ReportKind};

use super::cause::{Cause, Reasons};
use super::zone::ZoneRow;
use super::{Holder, Remedy};

/// Most sentences.
const MOST: usize = 4;

/// An answer so far.
pub(super) struct Known<'a> {
    pub(super) report: &'a Report,
    pub(super) rows: &'a [ZoneRow<'a>],
    pub(super) reasons: &'a Reasons,
    /// Holders with a share that counts.
    pub(super) holders: &'a [Holder],
    /// Memory of the machine or usage of the cgroup, kB.
    pub(super) memory_kb: Option<u64>,
    pub(super) remedies: &'a [Remedy],
}

impl Known<'_> {
    /// Memory of a kind, kB, if it is listed.
    fn held(&self, what: &str) -> u64 {
        self.holders.iter().find(|holder| holder.what == what).map_or(0, |holder| holder.kb)
    }

    /// A size as a share of all memory; 0 if that is not known.
    fn share(&self, kb: u64) -> f64 {
        self.memory_kb.filter(|all| *all > 0).map_or(0.0, |all| kb as f64 / all as f64)
    }

    /// The command that prints the whole report.
    fn whole_report(&self) -> String {
        let (words, what) = match self.report.kind {
            ReportKind::Oom | ReportKind::MemcgOom => ("invoked oom-killer", "the whole report"),
            ReportKind::PageAllocationFailure if self.report.request.order.is_some() => {
                ("page allocation failure", "the whole report")
            }
            ReportKind::Vmalloc => ("vmalloc", "the whole report"),
            ReportKind::Stall => ("page allocation stalls", "the whole report"),
            _ => {
                return "Get the lines before the dump, which name the request: journalctl -k | grep -B 40 -A 60 \
                        Mem-Info: (or dmesg -T)."
                    .to_owned();
            }
        };
        format!("Get {what}: journalctl -k | grep -A 300 \"{words}\" (or dmesg -T).")
    }
}

/// The advice, the most useful sentence first.
pub(super) fn of(known: &Known<'_>) -> Vec<String> {
    let is_kill = known.report.kind == ReportKind::Oom;
    let mut found = match known.reasons.cause {
        Cause::MemcgLimit => group::advice(known),
        // A kill for want of memory, not of blocks or zones.
        Cause::MemoryShort
        | Cause::SwapFull
        | Cause::UnreclaimableSlab
        | Cause::Bound
        | Cause::ServedAtDumpTime
            if is_kill =>
        {
            kill::advice(known)
        }
        _ => request::advice(known),
    };
    let is_head_alone = known.rows.is_empty() && known.holders.is_empty();
    let is_of_zones = !matches!(known.reasons.cause, Cause::VmallocSpace | Cause::Requested);
    if found.is_empty() || is_head_alone && is_of_zones {
        found.insert(0, known.whole_report());
    }
    found.dedup();
    found.truncate(MOST);
    found
}
