//! How the reports of one log relate.

use serde::Serialize;

use super::report::Report;
use super::request::ReportKind;

/// Two reports that belong together. Indices count from 0 in the order of the text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Relation {
    /// Index of the earlier report.
    pub earlier: usize,
    /// Index of the later report.
    pub later: usize,
    /// How they relate.
    pub kind: RelationKind,
    /// Seconds between them, where both have a time since boot.
    pub seconds: Option<f64>,
}

/// How two reports relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RelationKind {
    /// The same process reports again.
    SameProcess,
    /// Another process makes the same request: name, order and flags agree.
    SameRequest,
    /// The OOM killer runs after refused or stalled requests.
    OomAfterFailure,
    /// The OOM killer runs again, and chooses the same process.
    SameVictim,
}

/// Relations of each report with those before it.
pub(super) fn relate(reports: &[Report]) -> Vec<Relation> {
    let mut relations = Vec::new();
    let mut last_failure = None;
    for (later, report) in reports.iter().enumerate() {
        let is_kill = matches!(report.kind, ReportKind::Oom | ReportKind::MemcgOom);
        if let Some(before) = later.checked_sub(1) {
            let other = &reports[before];
            let kind = if same(report.task.pid, other.task.pid) && same_name(report, other) {
                Some(RelationKind::SameProcess)
            } else if same_name(report, other) && same_request(report, other) {
                Some(RelationKind::SameRequest)
            } else if is_kill && same_victim(report, other) {
                Some(RelationKind::SameVictim)
            } else {
                None
            };
            relations.extend(kind.map(|kind| relation(reports, before, later, kind)));
        }
        if is_kill {
            let failure = last_failure.take();
            relations.extend(
                failure.map(|f| relation(reports, f, later, RelationKind::OomAfterFailure)),
            );
        } else if matches!(report.kind, ReportKind::PageAllocationFailure | ReportKind::Stall) {
            last_failure = Some(later);
        }
    }
    relations
}

fn relation(reports: &[Report], earlier: usize, later: usize, kind: RelationKind) -> Relation {
    let seconds = match (reports[earlier].time, reports[later].time) {
        (Some(before), Some(after)) => Some(after - before),
        _ => None,
    };
    Relation { earlier, later, kind, seconds }
}

fn same<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
    a.is_some() && a == b
}

fn same_name(a: &Report, b: &Report) -> bool {
    same(a.task.comm.as_ref(), b.task.comm.as_ref())
}

fn same_request(a: &Report, b: &Report) -> bool {
    let printed = |report: &Report| report.request.gfp.as_ref().map(|gfp| gfp.printed.clone());
    same(printed(a), printed(b)) && same(a.request.order, b.request.order)
}

fn same_victim(a: &Report, b: &Report) -> bool {
    let victim = |report: &Report| report.kill.as_ref().and_then(|kill| kill.pid);
    same(victim(a), victim(b))
}
